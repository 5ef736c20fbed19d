"""Softmax cross-entropy."""

from benchmarks.workload import Workload, integers, normal, workload

SHAPES = ((1024, 128), (256, 32_000))


@workload("losses/cross-entropy grad", sizes=SHAPES, quick=SHAPES, core=True)
class CrossEntropy(Workload):
    """Mean softmax cross-entropy with integer labels: value and gradient, with the library's own loss where it has one."""

    def inputs(self, rng):
        n, k = self.size
        return normal(rng, n, k, scale=3.0), integers(rng, k, n)

    def bytes(self):
        return 8 * self.size[0] * self.size[1]

    def functions(self, m):
        return m.nn

    def jaxlike(self, m, z, y):
        entropy = self.functions(m).softmax_cross_entropy_with_integer_labels
        f = m.jit(m.value_and_grad(lambda z, y: m.np.mean(entropy(z, y))))
        return lambda: f(z, y)

    def torch(self, m, z, y):
        z, y = z.requires_grad_(), y.long()
        loss = m.compile(lambda z: m.F.cross_entropy(z, y))

        def call():
            value = loss(z)
            return value, m.torch.autograd.grad(value, z)

        return call

    def numpy(self, np, z, y):
        rows = np.arange(len(y))

        def call():
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            value = -np.log(p[rows, y]).mean()
            p[rows, y] -= 1
            p /= len(y)
            return value, p

        return call


@workload("losses/cross-entropy grad, written out", sizes=SHAPES)
class PlainCrossEntropy(CrossEntropy):
    """The same in plain array operations, one text for fgrad and JAX."""

    def functions(self, m):
        return m.plain
