"""What a call costs when there is nothing to compute."""

import collections
import itertools
import time

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


@workload("overhead/tree.map and tree.flatten", note="100 leaves in 50 dicts, two trees")
class Trees(Workload):
    def inputs(self, rng):
        return ({f"layer{i}": {"w": normal(rng, 4, 4), "b": normal(rng, 4)} for i in range(50)},)

    def jaxlike(self, m, params):
        def call():
            leaves, treedef = m.tree.flatten(m.tree.map(lambda a, b: a, params, params))
            return m.tree.unflatten(treedef, leaves)

        return call


@workload("overhead/jitted, static keyword, tuple with names", note="x.first * n + x.second of ten floats")
class StaticKeyword(Ten):
    numpy = None  # it does not compile

    def jaxlike(self, m, x):
        pair = collections.namedtuple("Pair", "first second")(x, x)
        f = m.jit(lambda x, *, n: x.first * n + x.second, static_argnames="n")
        return lambda: f(pair, n=2)


@workload("overhead/jit of the same function at each call", note="jit(step)(x), x * 2 + 1 of ten floats")
class JittedAnew(Ten):
    numpy = None  # it does not compile

    def jaxlike(self, m, x):
        def step(x):
            return x * 2 + 1

        return lambda: m.jit(step)(x)


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


@workload("overhead/eager functions of several operations", note="take, trace, median, searchsorted and interp of ten floats")
class EagerFunctions(Workload):
    def inputs(self, rng):
        return normal(rng, 10), normal(rng, 4, 4), integers(rng, 10, 6)

    def jaxlike(self, m, x, a, i):
        return lambda: (m.np.take(x, i), m.np.trace(a), m.np.median(x), m.np.searchsorted(m.np.sort(x), x), m.np.interp(x, m.np.sort(x), x))

    def numpy(self, np, x, a, i):
        return lambda: (np.take(x, i), np.trace(a), np.median(x), np.searchsorted(np.sort(x), x), np.interp(x, np.sort(x), x))


@workload("overhead/eager grad of a classifier", note="64-128-128-10, batch 128: tanh, relu, log_softmax, cross-entropy")
class EagerClassifier(Workload):
    def inputs(self, rng):
        params = [(normal(rng, a, b, scale=0.1), normal(rng, b, scale=0.1)) for a, b in ((64, 128), (128, 128), (128, 10))]
        return params, normal(rng, 128, 64), integers(rng, 10, 128)

    def jaxlike(self, m, params, x, y):
        rows = m.np.arange(128)

        def loss(params):
            (w1, b1), (w2, b2), (w3, b3) = params
            h = m.nn.relu(m.np.tanh(x @ w1 + b1) @ w2 + b2)
            return -m.nn.log_softmax(h @ w3 + b3)[rows, y].mean()

        f = m.grad(loss)
        return lambda: f(params)

    def torch(self, m, params, x, y):
        leaves = [v.requires_grad_() for layer in params for v in layer]
        w1, b1, w2, b2, w3, b3 = leaves
        y = y.long()

        def call():
            h = m.torch.relu(m.torch.tanh(x @ w1 + b1) @ w2 + b2)
            return m.torch.autograd.grad(m.F.cross_entropy(h @ w3 + b3, y), leaves)

        return call


@workload("overhead/eager views and casts", note="reshape, transpose, ravel, squeeze, astype of ten floats; a product with a NumPy scalar")
class EagerViews(Ten):
    def jaxlike(self, m, x):
        half, rows = numpy.float32(0.5), x.reshape(2, 5)
        return lambda: (x.reshape(2, 5), rows.T, rows.ravel(), m.np.squeeze(x), x.astype(m.np.int32), x * half)

    def torch(self, m, x):
        half, rows = numpy.float32(0.5), x.reshape(2, 5)
        return lambda: (x.reshape(2, 5), rows.T, rows.ravel(), x.squeeze(), x.to(m.torch.int32), x * half)

    def numpy(self, np, x):
        half, rows = numpy.float32(0.5), x.reshape(2, 5)
        return lambda: (x.reshape(2, 5), rows.T, rows.ravel(), np.squeeze(x), x.astype(np.int32), x * half)


@workload("overhead/eager arrays from numbers", note="zeros, ones, full, nested lists, NumPy's ten float64; elements at a mask set to zero")
class EagerArrays(Ten):
    rows = [[1.0, 2.0], [3.0, 4.0]]
    doubles = numpy.linspace(0, 1, 10)

    def jaxlike(self, m, x):
        np, mask = m.np, x > 0
        return lambda: (np.zeros(10), np.ones((2, 5)), np.full(10, 2.0), np.array(self.rows), np.asarray(self.doubles), x.at[mask].set(0))

    def numpy(self, np, x):
        mask = x > 0

        def cleared():
            y = x.copy()
            y[mask] = 0
            return y

        single = numpy.float32
        return lambda: (
            np.zeros(10, single),
            np.ones((2, 5), single),
            np.full(10, single(2)),
            np.array(self.rows, single),
            np.asarray(self.doubles, single),
            cleared(),
        )


@workload("overhead/eager calls by name", note="sum(axis=), max(axis=, keepdims=), where and clip of ten floats, x[i] of a NumPy i")
class EagerNames(Workload):
    def inputs(self, rng):
        return normal(rng, 10), normal(rng, 5, 4), integers(rng, 10, 3)

    def jaxlike(self, m, x, a, i):
        np, mask, i = m.np, x > 0, numpy.asarray(i)
        return lambda: (a.sum(axis=1), np.max(a, axis=0, keepdims=True), np.where(mask, x, 0.0), np.clip(x, 0.0, 1.0), x[i])

    def numpy(self, np, x, a, i):
        mask = x > 0
        return lambda: (a.sum(axis=1), np.max(a, axis=0, keepdims=True), np.where(mask, x, np.float32(0)), np.clip(x, 0.0, 1.0), x[i])


@workload("overhead/eager masks and edits", note="x[mask], values at a mask, where(mask), arange, insert, delete, pad")
class EagerMasks(Ten):
    def jaxlike(self, m, x):
        np, mask = m.np, x > 0
        values = x[mask] * 2
        return lambda: (
            x[mask],
            x.at[mask].set(values),
            np.where(mask)[0],
            np.arange(2, 10),
            np.insert(x, 2, 1.0),
            np.delete(x, 3),
            np.pad(x, 1),
        )

    def numpy(self, np, x):
        mask = x > 0
        values = x[mask] * 2

        def placed():
            y = x.copy()
            y[mask] = values
            return y

        return lambda: (
            x[mask],
            placed(),
            np.where(mask)[0],
            np.arange(2, 10),
            np.insert(x, 2, 1.0),
            np.delete(x, 3),
            np.pad(x, 1),
        )


@workload("overhead/eager loops", note="scan of ten numbers, fori_loop of five steps, cond")
class EagerLoops(Ten):
    numpy = None  # it has none

    def jaxlike(self, m, x):
        step, double = lambda c, v: (c + v, c * v), lambda i, v: v * 2

        def call():
            total, rows = m.lax.scan(step, m.np.float32(0), x)
            return total, m.lax.fori_loop(0, 5, double, rows), m.lax.cond(True, m.np.sin, m.np.cos, x)

        return call


@workload("overhead/eager loops over a number that changes", note="scan, while_loop, cond and grad of a scan, ten floats", calls=3)
class ChangingNumber(Ten):
    """Each call has another number: a library that takes it for a constant compiles anew."""

    numpy = None  # it has none

    def jaxlike(self, m, x):
        count, lax = itertools.count(1), m.lax

        def call():
            rate = m.np.float32(1 / next(count))
            decayed = lambda x: lax.scan(lambda c, v: (c * rate + v, c), m.np.float32(0), x)  # noqa: E731
            grown = lax.while_loop(lambda v: v < 8, lambda v: v * (1 + rate) + 1, m.np.float32(0))
            return decayed(x), grown, lax.cond(rate > 0, lambda x: x * rate, lambda x: x, x), m.grad(lambda x: decayed(x)[0])(x)

        return call


@workload("overhead/eager x[i, j] and an update there", note="100 elements of 128x10")
class EagerIndices(Workload):
    def inputs(self, rng):
        return normal(rng, 128, 10), integers(rng, 128, 100), integers(rng, 10, 100)

    def jaxlike(self, m, x, i, j):
        return lambda: (x[i, j], x.at[i, j].add(1.0))

    def torch(self, m, x, i, j):
        i, j, one = i.long(), j.long(), m.torch.ones(())
        return lambda: (x[i, j], x.index_put((i, j), one, accumulate=True))

    def numpy(self, np, x, i, j):
        def call():
            y = x.copy()
            np.add.at(y, (i, j), 1)
            return x[i, j], y

        return call


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


@workload("overhead/tree.unflatten and tree.map_with_path", note="100 leaves in 50 dicts, and nn.standardize of ten floats")
class TreesMade(Ten):
    def jaxlike(self, m, x):
        params = {f"layer {i}": {"w": x, "b": x} for i in range(50)}
        leaves, treedef = m.tree.flatten(params)

        def call():
            made = m.tree.unflatten(treedef, leaves)
            return m.tree.map_with_path(lambda path, v: v, made)["layer 0"]["w"], m.nn.standardize(x)

        return call

    numpy = None  # it has none


@workload("overhead/calls apart", note="a product of 128x128, exp of 40,000 and softmax of 512x128, each after 70 us of Python")
class CallsApart(Workload):
    """As a program calls that does other things as well: threads may have gone to sleep in between."""

    def inputs(self, rng):
        return normal(rng, 128, 128), normal(rng, 40_000), normal(rng, 512, 128)

    @staticmethod
    def each(product, exp, softmax, x, y, z):
        def apart(f, a):
            end = time.perf_counter() + 70e-6
            while time.perf_counter() < end:
                pass
            return f(a)

        return lambda: (apart(product, x), apart(exp, y), apart(softmax, z))

    def jaxlike(self, m, *inputs):
        return self.each(m.jit(lambda x: x @ x), m.jit(m.np.exp), m.jit(m.nn.softmax), *inputs)

    def torch(self, m, *inputs):
        return self.each(*map(m.compile, (lambda x: x @ x, m.torch.exp, lambda x: m.torch.softmax(x, -1))), *inputs)

    def numpy(self, np, *inputs):
        def softmax(x):
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)

        return self.each(lambda x: x @ x, np.exp, softmax, *inputs)
