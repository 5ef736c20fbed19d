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
