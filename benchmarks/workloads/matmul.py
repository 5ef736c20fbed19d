"""Matrix products."""

import math

from benchmarks.workload import Workload, normal, workload

SQUARES = (128, 256, 512, 1024, 2048)


@workload("matmul/square", sizes=SQUARES, quick=(512,))
class Square(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n, n), normal(rng, n, n)

    def flops(self):
        return 2 * self.size[0] ** 3

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: x @ y)
        return lambda: f(x, y)

    def torch(self, m, x, y):
        return lambda: x @ y

    def numpy(self, np, x, y):
        return lambda: x @ y


@workload("matmul/square float64", sizes=(512, 1024), x64=True)
class Square64(Square):
    def inputs(self, rng):
        (n,) = self.size
        return rng.standard_normal((n, n)), rng.standard_normal((n, n))


@workload("matmul/square bfloat16", sizes=(512, 1024), tol=1e-2)
class SquareHalf(Square):
    numpy = None

    def jaxlike(self, m, x, y):
        x, y = (v.astype(m.np.bfloat16) for v in (x, y))
        f = m.jit(lambda x, y: x @ y)
        return lambda: f(x, y).astype(m.np.float32)

    def torch(self, m, x, y):
        x, y = (v.to(m.torch.bfloat16) for v in (x, y))
        return lambda: (x @ y).float()


@workload("matmul/bfloat16 m,k,n", sizes=((1, 768, 20000), (16, 768, 20000), (1000, 8, 1000)), tol=1e-2)
class FewHalf(SquareHalf):
    """Logits of one token, or of a few, over a vocabulary that no cache holds, and sums of few products."""

    def inputs(self, rng):
        m, k, n = self.size
        return normal(rng, m, k), normal(rng, k, n)

    def flops(self):
        return 2 * math.prod(self.size)


@workload("matmul/bfloat16 by einsum to float32", sizes=(512,), tol=1e-2)
class ToFloat32(SquareHalf):
    def jaxlike(self, m, x, y):
        x, y = (v.astype(m.np.bfloat16) for v in (x, y))
        f = m.jit(lambda x, y: m.np.einsum("ik,kj->ij", x, y, preferred_element_type=m.np.float32))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        x, y = (v.to(m.torch.bfloat16) for v in (x, y))
        return lambda: (x @ y).float()


@workload("matmul/tanh(x @ w + b) of the last position: batch,length,k,n", sizes=((16, 128, 256, 1000),))
class LastPosition(Workload):
    def inputs(self, rng):
        batch, length, k, n = self.size
        return normal(rng, batch, length, k), normal(rng, k, n, scale=k**-0.5), normal(rng, n)

    def jaxlike(self, m, x, w, b):
        f = m.jit(lambda x, w, b: m.np.tanh(x @ w + b)[:, -1])
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        f = m.compile(lambda x, w, b: m.torch.tanh(x @ w + b)[:, -1])
        return lambda: f(x, w, b)

    def numpy(self, np, x, w, b):
        return lambda: np.tanh(x @ w + b)[:, -1]


@workload("matmul/sum of products written out: rows,columns,k", sizes=((500, 500, 16), (176, 176, 128)), note="(x[:, None] * y).sum(-1)")
class WrittenOut(Workload):
    def inputs(self, rng):
        m, n, k = self.size
        return normal(rng, m, k), normal(rng, n, k)

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: (x[:, None] * y).sum(-1))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        f = m.compile(lambda x, y: (x[:, None] * y).sum(-1))
        return lambda: f(x, y)

    def numpy(self, np, x, y):
        return lambda: (x[:, None] * y).sum(-1)


@workload("matmul/gradient through ade,bce->abcde", sizes=((5, 89, 183, 3, 4),), note="of the sum of squares")
class Outer(Workload):
    def inputs(self, rng):
        a, b, c, d, e = self.size
        return normal(rng, a, d, e), normal(rng, b, c, e)

    def jaxlike(self, m, x, y):
        f = m.jit(m.grad(lambda x, y: m.np.sum(m.np.einsum("ade,bce->abcde", x, y) ** 2), (0, 1)))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        grad = m.torch.func.grad(lambda x, y: (m.torch.einsum("ade,bce->abcde", x, y) ** 2).sum(), (0, 1))
        f = m.compile(grad)
        return lambda: f(x, y)


@workload("matmul/dot product of rows", sizes=((1000, 100), (100_000, 3)))
class Rows(Workload):
    """One number for each of so many rows, by einsum."""

    def inputs(self, rng):
        return normal(rng, *self.size), normal(rng, *self.size)

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: m.np.einsum("ij,ij->i", x, y))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        return lambda: m.torch.einsum("ij,ij->i", x, y)

    def numpy(self, np, x, y):
        return lambda: np.einsum("ij,ij->i", x, y)


@workload(
    "matmul/m,k,n",
    sizes=(
        (1, 1024, 4096),
        (16, 1024, 1024),
        (16, 768, 20000),
        (4096, 64, 64),
        (64, 4096, 64),
        (1024, 1024, 64),
        (20000, 100, 16),
        (20000, 100, 4),
        (100000, 3, 3),
        (2048, 8, 2048),
        (4096, 1024, 1),
    ),
)
class Skinny(Square):
    def inputs(self, rng):
        m, k, n = self.size
        return normal(rng, m, k), normal(rng, k, n)

    def flops(self):
        return 2 * math.prod(self.size)


@workload("matmul/some rows against rows: m,k,n", sizes=((9, 768, 768), (18, 3072, 768)), note="x @ w.T, fewer rows than lanes")
class RowsAgainstRows(Skinny):
    def inputs(self, rng):
        m, k, n = self.size
        return normal(rng, m, k), normal(rng, n, k)

    def jaxlike(self, m, x, w):
        f = m.jit(lambda x, w: x @ w.T)
        return lambda: f(x, w)

    def torch(self, m, x, w):
        return lambda: x @ w.T

    def numpy(self, np, x, w):
        return lambda: x @ w.T


@workload("matmul/x.T @ y and x @ y.T", sizes=(256, 1024))
class Transposed(Square):
    def flops(self):
        return 4 * self.size[0] ** 3

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: (x.T @ y, x @ y.T))
        return lambda: f(x, y)

    def torch(self, m, x, y):
        return lambda: (x.T @ y, x @ y.T)

    def numpy(self, np, x, y):
        return lambda: (x.T @ y, x @ y.T)


@workload("matmul/batch,n", sizes=((64, 32), (64, 128), (1000, 8), (1000, 4)))
class Batched(Square):
    def inputs(self, rng):
        b, n = self.size
        return normal(rng, b, n, n), normal(rng, b, n, n)

    def flops(self):
        b, n = self.size
        return 2 * b * n**3


@workload("matmul/complex64 batch,n", sizes=((1000, 8), (1, 512)), quick=())
class Complex(Batched):
    def inputs(self, rng):
        shape = (self.size[0], self.size[1], self.size[1])
        return tuple((normal(rng, *shape) + 1j * normal(rng, *shape)).astype("complex64") for _ in range(2))

    def flops(self):
        return 4 * super().flops()


@workload("matmul/gelu(x @ w + b)", sizes=((256, 512, 2048),))
class Epilogue(Workload):
    def inputs(self, rng):
        m, k, n = self.size
        return normal(rng, m, k), normal(rng, k, n, scale=k**-0.5), normal(rng, n)

    def flops(self):
        return 2 * math.prod(self.size)

    def jaxlike(self, m, x, w, b):
        f = m.jit(lambda x, w, b: m.nn.gelu(x @ w + b))
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        f = m.compile(lambda x, w, b: m.F.gelu(m.torch.addmm(b, x, w), approximate="tanh"))
        return lambda: f(x, w, b)

    def numpy(self, np, x, w, b):
        def call():
            z = x @ w + b
            return 0.5 * z * (1 + np.tanh(0.7978845608 * (z + 0.044715 * z * z * z)))

        return call


@workload("matmul/grad of sum(gelu(x @ w + b))", sizes=((256, 512, 2048),))
class EpilogueGrad(Epilogue):
    numpy = None

    def flops(self):
        return 6 * math.prod(self.size)

    def jaxlike(self, m, x, w, b):
        f = m.jit(m.value_and_grad(lambda x, w, b: m.np.sum(m.nn.gelu(x @ w + b)), argnums=(0, 1, 2)))
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        xs = [v.requires_grad_() for v in (x, w, b)]
        f = m.compile(lambda x, w, b: m.F.gelu(m.torch.addmm(b, x, w), approximate="tanh").sum())

        def call():
            value = f(*xs)
            return value, m.torch.autograd.grad(value, xs)

        return call
