"""Reductions, cumulative operations and sorting."""

from benchmarks.workload import Workload, normal, workload

AXES = {"all": None, "rows": 1, "columns": 0}
SHAPE = (2048, 2048)


class Matrix(Workload):
    def inputs(self, rng):
        return (normal(rng, *SHAPE),)

    def bytes(self):
        return 4 * SHAPE[0] * SHAPE[1]


def reduction(op):
    """A workload over all elements, along rows and along columns."""

    class Reduction(Matrix):
        def jaxlike(self, m, x):
            axis = AXES[self.size[0]]
            f = m.jit(lambda x: getattr(m.np, op)(x, axis=axis))
            return lambda: f(x)

        def torch(self, m, x):
            axis, name = AXES[self.size[0]], {"max": "amax"}.get(op, op)
            along = {} if axis is None else {"dim": axis}
            return lambda: getattr(m.torch, name)(x, **along)

        def numpy(self, np, x):
            axis = AXES[self.size[0]]
            return lambda: getattr(np, op)(x, axis=axis)

    workload(f"reductions/{op}", sizes=tuple(AXES), note="2048x2048", tol=1e-3 if op == "sum" else 1e-4)(Reduction)


for name in ("sum", "max", "argmax"):
    reduction(name)


LARGE = (((10_000_000,), 0), ((1000, 10_000), 0), ((1000, 10_000), 1), *(((100, 1000, 100), axis) for axis in range(3)))


def large_reduction(op):
    """A workload over one axis of arrays that no cache holds."""

    class LargeReduction(Workload):
        def inputs(self, rng):
            return (normal(rng, *self.size[0]),)

        def bytes(self):
            return 40_000_000

        def jaxlike(self, m, x):
            f = m.jit(lambda x: getattr(m.np, op)(x, axis=self.size[1]))
            return lambda: f(x)

        def torch(self, m, x):
            f = getattr(m.torch, {"max": "amax"}.get(op, op))
            return lambda: f(x, dim=self.size[1])

        def numpy(self, np, x):
            return lambda: getattr(np, op)(x, axis=self.size[1])

    workload(f"reductions/{op} of 1e7, shape and axis", sizes=LARGE, tol=1e-2 if op == "sum" else 1e-4)(LargeReduction)


for name in ("sum", "max"):
    large_reduction(name)


@workload("reductions/sum of squares grad", sizes=("rows", "columns"), note="2048x2048")
class SumGrad(Matrix):
    """Gradient of sum(sqrt(1 + sum(x*x, axis)))."""

    def bytes(self):
        return 2 * super().bytes()

    def jaxlike(self, m, x):
        axis = AXES[self.size[0]]
        f = m.jit(m.grad(lambda x: m.np.sum(m.np.sqrt(1 + m.np.sum(x * x, axis=axis)))))
        return lambda: f(x)

    def torch(self, m, x):
        axis, x = AXES[self.size[0]], x.requires_grad_()
        loss = m.compile(lambda x: (1 + (x * x).sum(axis)).sqrt().sum())
        return lambda: m.torch.autograd.grad(loss(x), x)

    def numpy(self, np, x):
        axis = AXES[self.size[0]]
        return lambda: x / np.sqrt(1 + np.sum(x * x, axis, keepdims=True))


@workload("reductions/cumsum", sizes=("rows", "columns"), note="2048x2048", tol=1e-3)
class Cumsum(Matrix):
    def bytes(self):
        return 2 * super().bytes()

    def jaxlike(self, m, x):
        axis = AXES[self.size[0]]
        f = m.jit(lambda x: m.np.cumsum(x, axis=axis))
        return lambda: f(x)

    def torch(self, m, x):
        axis = AXES[self.size[0]]
        return lambda: m.torch.cumsum(x, axis)

    def numpy(self, np, x):
        axis = AXES[self.size[0]]
        return lambda: np.cumsum(x, axis)


@workload("reductions/sort", sizes=((1, 1_000_000), (1000, 1000)))
class Sort(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.sort(x, axis=-1))
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.sort(x, -1).values

    def numpy(self, np, x):
        return lambda: np.sort(x, -1)


@workload("reductions/sort of bytes", sizes=((1000, 1000),))
class SortBytes(Sort):
    def inputs(self, rng):
        return (rng.integers(0, 256, self.size).astype("uint8"),)


@workload("reductions/argsort", sizes=((1000, 1000),))
class Argsort(Sort):
    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.np.argsort(x, axis=-1))
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.argsort(x, dim=-1, stable=True)

    def numpy(self, np, x):
        return lambda: np.argsort(x, -1, kind="stable")


@workload("reductions/top_k of 50", sizes=((64, 32_000),))
class TopK(Sort):
    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.lax.top_k(x, 50)[0])
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: m.torch.topk(x, 50).values

    def numpy(self, np, x):
        return lambda: -np.sort(np.partition(-x, 50, axis=-1)[:, :50], -1)


@workload("reductions/top_k of 2, values and positions", sizes=((8192, 64),))
class TopPair(Sort):
    def jaxlike(self, m, x):
        f = m.jit(lambda x: m.lax.top_k(x, 2))
        return lambda: f(x)

    def torch(self, m, x):
        return lambda: tuple(m.torch.topk(x, 2))

    def numpy(self, np, x):
        def top(x):
            i = np.argpartition(-x, 2, axis=-1)[:, :2]
            i = np.take_along_axis(i, np.argsort(-np.take_along_axis(x, i, -1), -1), -1)
            return np.take_along_axis(x, i, -1), i

        return lambda: top(x)


@workload("reductions/nearest of codes: numbers,codes", sizes=((4096, 16), (300_000, 16)), note="argmin(abs(x[:, None] - codes), -1)")
class Nearest(Workload):
    def inputs(self, rng):
        return normal(rng, self.size[0]), normal(rng, self.size[1])

    def jaxlike(self, m, x, codes):
        f = m.jit(lambda x, codes: m.np.argmin(abs(x[:, None] - codes), -1))
        return lambda: f(x, codes)

    def torch(self, m, x, codes):
        f = m.compile(lambda x, codes: (x[:, None] - codes).abs().argmin(-1))
        return lambda: f(x, codes)

    def numpy(self, np, x, codes):
        return lambda: np.argmin(abs(x[:, None] - codes), -1)
