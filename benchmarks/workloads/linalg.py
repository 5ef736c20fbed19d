"""Factorizations and systems: batches of small matrices, and single ones."""

import numpy as np

from benchmarks.workload import Workload, normal, workload

SIZES = ((1000, 8), (100, 32), (1, 200))


def positive(rng, batch, n):
    x = normal(rng, batch, n, n)
    return (x @ np.swapaxes(x, 1, 2) / (2 * n) + np.eye(n) / 2).astype(np.float32)


def factorization(name, tol=1e-3):
    """A workload of a function of the linalg modules that takes positive definite matrices."""

    class Factorization(Workload):
        def inputs(self, rng):
            return (positive(rng, *self.size),)

        def jaxlike(self, m, x):
            f = m.jit(lambda x: getattr(m.np.linalg, name)(x))
            return lambda: f(x)

        def torch(self, m, x):
            return lambda: getattr(m.torch.linalg, name)(x)

        def numpy(self, np, x):
            return lambda: getattr(np.linalg, name)(x)

    workload(f"linalg/{name} of batch,n", sizes=SIZES, tol=tol)(Factorization)


for function in ("cholesky", "inv", "det"):
    factorization(function)


@workload("linalg/solve of batch,n", sizes=SIZES, tol=1e-3)
class Solve(Workload):
    def inputs(self, rng):
        return positive(rng, *self.size), normal(rng, *self.size, 1)

    def jaxlike(self, m, a, b):
        f = m.jit(lambda a, b: m.np.linalg.solve(a, b))
        return lambda: f(a, b)

    def torch(self, m, a, b):
        return lambda: m.torch.linalg.solve(a, b)

    def numpy(self, np, a, b):
        return lambda: np.linalg.solve(a, b)


@workload("linalg/least squares of m,n", sizes=((10_000, 5), (2000, 40)), tol=1e-2)
class LeastSquares(Workload):
    """The solution alone."""

    def inputs(self, rng):
        return normal(rng, *self.size), normal(rng, self.size[0])

    def jaxlike(self, m, a, b):
        f = m.jit(lambda a, b: m.np.linalg.lstsq(a, b)[0])
        return lambda: f(a, b)

    def torch(self, m, a, b):
        return lambda: m.torch.linalg.lstsq(a, b[:, None]).solution[:, 0]

    def numpy(self, np, a, b):
        return lambda: np.linalg.lstsq(a, b, rcond=None)[0]


@workload("linalg/singular values of batch,n", sizes=SIZES, tol=1e-3)
class SingularValues(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size, self.size[-1]),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.linalg.svd(x, compute_uv=False))
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.linalg.svdvals(x)

    def numpy(self, np, x):
        return lambda: np.linalg.svd(x, compute_uv=False)


@workload(
    "linalg/Cholesky's factor cell by cell", sizes=(100,), tol=1e-3, note="two fori_loops, a masked product of two rows for each cell"
)
class CellByCell(Workload):
    """As it is written for a compiler that knows no triangles."""

    def inputs(self, rng):
        return (positive(rng, 1, *self.size)[0],)

    def jaxlike(self, m, a):
        places = np.arange(self.size[0])

        def product(a, i, j, n):
            return m.np.dot(m.np.where(places < n, a[i], 0), m.np.where(places < n, a[j], 0))

        def row(i, a):
            a = m.lax.fori_loop(0, i, lambda j, a: a.at[i, j].add(-product(a, i, j, j)).at[i, j].divide(a[j, j]), a)
            return a.at[i, i].set(m.np.sqrt(a[i, i] - product(a, i, i, i)))

        f = m.jit(lambda a: m.np.tril(m.lax.fori_loop(0, len(places), row, a)))
        return lambda: f(a)

    def numpy(self, np, a):
        def call():
            x = a.copy()
            for i in range(len(x)):
                for j in range(i):
                    x[i, j] = (x[i, j] - x[i, :j] @ x[j, :j]) / x[j, j]
                x[i, i] = np.sqrt(x[i, i] - x[i, :i] @ x[i, :i])
            return np.tril(x)

        return call


@workload(
    "linalg/value and gradient of a triangular solve, row by row", sizes=(100, 400), tol=1e-3, note="of the sum of squares; fori_loop"
)
class RowByRow(Workload):
    def inputs(self, rng):
        n = self.size[0]
        return (np.tril(normal(rng, n, n, scale=n**-0.5)) + 2 * np.eye(n)).astype(np.float32), normal(rng, n)

    def jaxlike(self, m, a, b):
        def solve(a, b):
            return m.lax.fori_loop(0, len(b), lambda i, x: x.at[i].set((b[i] - m.np.dot(a[i], x)) / a[i, i]), m.np.zeros_like(b))

        f = m.jit(m.value_and_grad(lambda a, b: m.np.sum(solve(a, b) ** 2), (0, 1)))
        return lambda: f(a, b)

    def torch(self, m, a, b):
        """The library's own solve, which what is written out is to equal."""
        a, b = a.requires_grad_(), b.requires_grad_()

        def call():
            value = (m.torch.linalg.solve_triangular(a, b[:, None], upper=False) ** 2).sum()
            return value, m.torch.autograd.grad(value, (a, b))

        return call
