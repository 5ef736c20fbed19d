"""What a call costs when there is nothing to compute."""

import numpy

from benchmarks.workload import Workload, integers, normal, workload


class Ten(Workload):
    def inputs(self, rng):
        return (numpy.arange(10, dtype=numpy.float32),)

    def numpy(self, np, x):
        return lambda: x * 2 + 1


@workload("overhead/jitted x*2+1 on ten floats", quick=((),), core=True)
class JittedCall(Ten):
    def jaxlike(self, m, x):
        f = m.jit(lambda x: x * 2 + 1)
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(lambda x: x * 2 + 1)
        return lambda: f(x)


@workload("overhead/eager x*2+1 on ten floats", quick=((),), core=True)
class EagerCall(Ten):
    def jaxlike(self, m, x):
        return lambda: x * 2 + 1

    def torch(self, m, x):
        return lambda: x * 2 + 1


@workload("overhead/jitted, 50 arguments in a dict")
class ManyLeaves(Workload):
    def inputs(self, rng):
        return ({f"p{i}": numpy.full(10, i, numpy.float32) for i in range(50)},)

    def jaxlike(self, m, params):
        f = m.jit(lambda params: {k: v + 1 for k, v in params.items()})
        return lambda: f(params)

    def torch(self, m, params):
        f = m.compile(lambda params: {k: v + 1 for k, v in params.items()})
        return lambda: f(params)


@workload("overhead/eager grad of sum(x*x)")
class EagerGrad(Ten):
    def jaxlike(self, m, x):
        f = m.grad(lambda x: m.np.sum(x * x))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.requires_grad_()
        return lambda: m.torch.autograd.grad((x * x).sum(), x)

    def numpy(self, np, x):
        return lambda: 2 * x


@workload("overhead/eager value_and_grad of a small loss", note="mean((tanh(x @ w + b)**2 - 1)**2), 10 by 8")
class EagerLoss(Workload):
    def inputs(self, rng):
        return normal(rng, 10, 8), normal(rng, 8), normal(rng, 10)

    def jaxlike(self, m, w, b, x):
        f = m.value_and_grad(lambda w, b: m.np.mean((m.np.tanh(x @ w + b) ** 2 - 1) ** 2), argnums=(0, 1))
        return lambda: f(w, b)

    def torch(self, m, w, b, x):
        leaves = w.requires_grad_(), b.requires_grad_()

        def call():
            value = ((m.torch.tanh(x @ w + b) ** 2 - 1) ** 2).mean()
            return value, m.torch.autograd.grad(value, leaves)

        return call


@workload("overhead/eager functions of several operations", note="take, trace, median and interp of ten floats")
class EagerFunctions(Workload):
    def inputs(self, rng):
        return normal(rng, 10), normal(rng, 4, 4), integers(rng, 10, 6)

    def jaxlike(self, m, x, a, i):
        return lambda: (m.np.take(x, i), m.np.trace(a), m.np.median(x), m.np.interp(x, m.np.sort(x), x))

    def numpy(self, np, x, a, i):
        return lambda: (np.take(x, i), np.trace(a), np.median(x), np.interp(x, np.sort(x), x))


@workload("overhead/NumPy array in, NumPy array out", sizes=(10, 1_000_000))
class NumpyInOut(Workload):
    """A jitted call on NumPy's arrays, its result as a NumPy array."""

    def inputs(self, rng):
        return ()

    def data(self):
        return numpy.arange(self.size[0], dtype=numpy.float32)

    def jaxlike(self, m):
        x, f = self.data(), m.jit(lambda x: x * 2 + 1)
        return lambda: numpy.asarray(f(x))

    def torch(self, m):
        x, f = self.data(), m.compile(lambda x: x * 2 + 1)
        return lambda: f(m.torch.from_numpy(x)).numpy()

    def numpy(self, np):
        x = self.data()
        return lambda: x * 2 + 1
