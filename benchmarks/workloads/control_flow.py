"""Loops inside the program: recurrent networks by scan, differential equations, data-dependent iteration."""

from types import SimpleNamespace

import numpy as np

from benchmarks.workload import Workload, integers, normal, workload

T, B, H = 64, 32, 128


class Recurrent(Workload):
    """Value and gradient of the mean square of the hidden states, over 64 steps of a batch of 32, width 128."""

    gates, cell = 0, ""

    def inputs(self, rng):
        scale = H**-0.5
        return (
            {
                "wx": normal(rng, H, self.gates * H, scale=scale),
                "wh": normal(rng, H, self.gates * H, scale=scale),
                "b": normal(rng, self.gates * H, scale=0.1),
            },
            normal(rng, T, B, H),
        )

    def flops(self):
        return 3 * 2 * 2 * T * B * H * H * self.gates

    def start(self, m):
        return m.np.zeros((B, H))

    def hidden(self, state):
        return state

    def jaxlike(self, m, params, xs):
        ops = SimpleNamespace(tanh=m.np.tanh, sigmoid=m.nn.sigmoid, split=lambda z: m.np.split(z, self.gates, -1))

        def loss(params, xs):
            def body(state, z):
                state = self.step(ops, params, state, z)
                return state, self.hidden(state)

            _, hs = m.lax.scan(body, self.start(m), xs @ params["wx"] + params["b"])
            return m.np.mean(hs * hs)

        f = m.jit(m.value_and_grad(loss))
        return lambda: f(params, xs)

    def torch(self, m, params, xs):
        """torch.nn.GRU or LSTM, whose loops are in C++, with the same weights (transposed)."""
        t = m.torch
        module = getattr(t.nn, self.cell)(H, H)
        with t.no_grad():
            module.weight_ih_l0.copy_(params["wx"].T)
            module.weight_hh_l0.copy_(params["wh"].T)
            module.bias_ih_l0.copy_(params["b"])
            module.bias_hh_l0.zero_()
        weights = (module.bias_ih_l0, module.weight_hh_l0, module.weight_ih_l0)

        def call():
            value = (module(xs)[0] ** 2).mean()
            b, wh, wx = t.autograd.grad(value, weights)
            return value, {"b": b, "wh": wh.T, "wx": wx.T}

        return call


@workload("control flow/GRU by scan, value_and_grad")
class Gru(Recurrent):
    gates, cell = 3, "GRU"

    def step(self, ops, params, h, z):
        zr, zu, zn = ops.split(z)
        hr, hu, hn = ops.split(h @ params["wh"])
        r, u = ops.sigmoid(zr + hr), ops.sigmoid(zu + hu)
        return (1 - u) * ops.tanh(zn + r * hn) + u * h


@workload("control flow/LSTM by scan, value_and_grad", quick=((),))
class Lstm(Recurrent):
    gates, cell = 4, "LSTM"

    def start(self, m):
        return m.np.zeros((B, H)), m.np.zeros((B, H))

    def hidden(self, state):
        return state[0]

    def step(self, ops, params, state, z):
        h, c = state
        i, f, g, o = ops.split(z + h @ params["wh"])
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c


def lorenz(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


def runge_kutta(state, h):
    """One step of the classical method on Lorenz's system."""
    add = lambda s, k, a: tuple(u + a * v for u, v in zip(s, k))  # noqa: E731
    k1 = lorenz(*state)
    k2 = lorenz(*add(state, k1, h / 2))
    k3 = lorenz(*add(state, k2, h / 2))
    k4 = lorenz(*add(state, k3, h))
    return tuple(u + h / 6 * (a + 2 * b + 2 * c + d) for u, a, b, c, d in zip(state, k1, k2, k3, k4))


@workload(
    "control flow/Runge-Kutta by fori_loop", sizes=(1, 1000), quick=(1,), tol=1e-3, note="200 steps of Lorenz's system, N trajectories"
)
class Ode(Workload):
    steps = 200

    def inputs(self, rng):
        return tuple(1 + normal(rng, *self.size, scale=0.1) for _ in range(3))

    def jaxlike(self, m, *state):
        f = m.jit(lambda *state: m.lax.fori_loop(0, self.steps, lambda i, s: runge_kutta(s, 0.005), state))
        return lambda: f(*state)

    def torch(self, m, *state):
        step = m.compile(lambda s: runge_kutta(s, 0.005))

        def call():
            s = state
            for _ in range(self.steps):
                s = step(s)
            return s

        return call

    def numpy(self, np, *state):
        def call():
            s = state
            for _ in range(self.steps):
                s = runge_kutta(s, 0.005)
            return s

        return call


@workload("control flow/Runge-Kutta by scan, grad", sizes=(1000,), tol=1e-3, note="100 steps of Lorenz's system")
class OdeGrad(Ode):
    steps, numpy = 100, None

    def jaxlike(self, m, *state):
        def loss(state):
            end, _ = m.lax.scan(lambda s, _: (runge_kutta(s, 0.005), None), state, None, length=self.steps)
            return sum(m.np.sum(v * v) for v in end)

        f = m.jit(m.grad(loss))
        return lambda: f(state)

    def torch(self, m, *state):
        state = [v.requires_grad_() for v in state]
        step = m.compile(lambda s: runge_kutta(s, 0.005))

        def call():
            s = tuple(state)
            for _ in range(self.steps):
                s = step(s)
            return m.torch.autograd.grad(sum((v * v).sum() for v in s), state)

        return call


@workload("control flow/Newton's method by while_loop", sizes=(10, 100_000))
class Newton(Workload):
    """Square roots to a tolerance: how often the loop runs depends on the data."""

    def inputs(self, rng):
        return (abs(normal(rng, *self.size)) + 0.5,)

    def jaxlike(self, m, a):
        def roots(a):
            far = lambda x: m.np.max(m.np.abs(x * x - a)) > 1e-5  # noqa: E731
            return m.lax.while_loop(far, lambda x: 0.5 * (x + a / x), a)

        f = m.jit(roots)
        return lambda: f(a)

    def torch(self, m, a):
        return lambda: self.loop(a, lambda v: v.abs().max())

    def numpy(self, np, a):
        return lambda: self.loop(a, lambda v: np.max(np.abs(v)))

    @staticmethod
    def loop(a, largest):
        x = a
        while largest(x * x - a) > 1e-5:
            x = 0.5 * (x + a / x)
        return x


@workload("control flow/cond in a scan", sizes=(1000,), tol=1e-3)
class CondScan(Workload):
    """A running sum of ten floats that is halved whenever it grows large."""

    def inputs(self, rng):
        return (abs(normal(rng, *self.size, 10)),)

    def jaxlike(self, m, xs):
        def body(s, x):
            s = m.lax.cond(m.np.sum(s) > 50, lambda s: s * 0.5, lambda s: s + x, s)
            return s, None

        f = m.jit(lambda xs: m.lax.scan(body, m.np.zeros(10), xs)[0])
        return lambda: f(xs)

    def torch(self, m, xs):
        return lambda: self.loop(m.torch.zeros(10), xs)

    def numpy(self, np, xs):
        return lambda: self.loop(np.zeros(10, np.float32), xs)

    @staticmethod
    def loop(s, xs):
        for x in xs:
            s = s * 0.5 if s.sum() > 50 else s + x
        return s


@workload(
    "control flow/PageRank by fori_loop: pages,links", sizes=((2000, 20_000),), tol=1e-3, note="20 steps: a gather and a scatter of sums"
)
class PageRank(Workload):
    steps = 20

    def inputs(self, rng):
        pages, links = self.size
        return integers(rng, pages, links), integers(rng, pages, links)

    def jaxlike(self, m, source, target):
        np, pages = m.np, self.size[0]

        def rank(source, target):
            links = np.maximum(np.zeros(pages).at[source].add(1.0), 1)
            step = lambda i, r: 0.15 / pages + 0.85 * np.zeros(pages).at[target].add((r / links)[source])  # noqa: E731
            return m.lax.fori_loop(0, self.steps, step, np.full(pages, 1 / pages))

        f = m.jit(rank)
        return lambda: f(source, target)

    def numpy(self, np, source, target):
        pages = self.size[0]

        def rank():
            links = np.maximum(np.bincount(source, minlength=pages), 1).astype(np.float32)
            r = np.full(pages, np.float32(1 / pages))
            for _ in range(self.steps):
                r = (0.15 / pages + 0.85 * np.bincount(target, (r / links)[source], pages)).astype(np.float32)
            return r

        return rank

    def torch(self, m, source, target):
        torch, pages = m.torch, self.size[0]
        source, target = source.long(), target.long()

        def rank():
            links = torch.zeros(pages).index_add(0, source, torch.ones(len(source))).clamp(min=1)
            r = torch.full((pages,), 1 / pages)
            for _ in range(self.steps):
                r = 0.15 / pages + 0.85 * torch.zeros(pages).index_add(0, target, (r / links)[source])
            return r

        return rank


@workload(
    "control flow/a matrix times a state, step by step", sizes=(20, 64), quick=(20,), tol=1e-3, note="1000 steps of v = tanh(a v + x)"
)
class MatrixTimesState(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n, n, scale=n**-0.5), normal(rng, 1000, n), normal(rng, n)

    def jaxlike(self, m, a, xs, v):
        f = m.jit(lambda a, xs, v: m.lax.scan(lambda v, x: (m.np.tanh(a @ v + x), None), v, xs)[0])
        return lambda: f(a, xs, v)

    def torch(self, m, a, xs, v):
        step = m.compile(lambda v, x: m.torch.tanh(m.torch.addmv(x, a, v)))

        def call():
            y = v
            for x in xs:
                y = step(y, x)
            return y

        return call

    def numpy(self, np, a, xs, v):
        def call():
            y = v
            for x in xs:
                y = np.tanh(a @ y + x)
            return y

        return call


@workload("control flow/xorshift generators by fori_loop", sizes=(1, 4, 16), quick=(4,), note="10,000 steps of N generators of 32 bits")
class Xorshift(Workload):
    def inputs(self, rng):
        return (integers(rng, 1 << 30, *self.size) + 1,)

    def jaxlike(self, m, x):
        def step(i, x):
            x = x ^ (x << 13)
            x = x ^ (x >> 17)
            return x ^ (x << 5)

        f = m.jit(lambda x: m.lax.fori_loop(0, 10_000, step, x.astype(m.np.uint32)))
        return lambda: f(x)


@workload(
    "control flow/ways to make sums, with 64-bit types",
    sizes=(1000,),
    quick=(1000,),
    x64=True,
    note="a table of N sums, filled by fori_loop for six coins",
)
class WaysToMakeSums(Workload):
    coins = (1, 2, 5, 10, 20, 50)

    def inputs(self, rng):
        return (np.concatenate([np.ones(1, np.int64), np.zeros(self.size[0], np.int64)]),)

    def jaxlike(self, m, ways):
        def fill(ways):
            for coin in self.coins:
                ways = m.lax.fori_loop(coin, len(ways), lambda i, w, coin=coin: w.at[i].add(w[i - coin]), ways)
            return ways

        f = m.jit(fill)
        return lambda: f(ways)

    def numpy(self, np, ways):
        def call():
            w = ways.copy()
            for coin in self.coins:
                for i in range(coin, len(w)):
                    w[i] += w[i - coin]
            return w

        return call


@workload("control flow/leaky neurons by scan", sizes=(100, 1000), quick=(100,), tol=1e-3, note="300 steps of N that leak, add and fire")
class LeakyNeurons(Workload):
    def inputs(self, rng):
        return (normal(rng, 300, *self.size),)

    def jaxlike(self, m, currents):
        def step(state, current):
            v, fired = state
            v = 0.9 * v * (1 - fired) + current
            fired = (v > 1.0).astype(m.np.float32)
            return (v, fired), m.np.sum(fired)

        rest = m.np.zeros(self.size)
        f = m.jit(lambda currents: m.lax.scan(step, (rest, rest), currents)[1])
        return lambda: f(currents)

    def numpy(self, np, currents):
        def call():
            v, fired, counts = np.zeros(self.size, np.float32), np.zeros(self.size, np.float32), []
            for current in currents:
                v = np.float32(0.9) * v * (1 - fired) + current
                fired = (v > 1).astype(np.float32)
                counts.append(fired.sum())
            return np.array(counts)

        return call


@workload("control flow/a chain of springs by scan", sizes=(8, 100, 1000), quick=(100,), tol=1e-3, note="300 steps of N weights in a ring")
class Springs(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        def step(state, _):
            x, v = state
            v = v + 0.1 * (m.np.roll(x, 1) + m.np.roll(x, -1) - 2 * x)
            return (x + 0.1 * v, v), None

        f = m.jit(lambda x: m.lax.scan(step, (x, m.np.zeros(self.size)), None, length=300)[0][0])
        return lambda: f(x)

    def numpy(self, np, x):
        def call():
            y, v = x, np.zeros_like(x)
            for _ in range(300):
                v = v + np.float32(0.1) * (np.roll(y, 1) + np.roll(y, -1) - 2 * y)
                y = y + np.float32(0.1) * v
            return y

        return call


@workload(
    "control flow/edit distance by scans: letters",
    sizes=(20, 200),
    quick=(20,),
    note="of two words; a row of the table by a scan of its own",
)
class EditDistance(Workload):
    def inputs(self, rng):
        return integers(rng, 4, *self.size), integers(rng, 4, *self.size)

    def jaxlike(self, m, a, b):
        np, lax = m.np, m.lax

        def row(above, letter):
            def cell(left, x):
                other, up, corner = x
                best = np.minimum(np.minimum(left, up) + 1, corner + (letter != other))
                return best, best

            first = above[0] + 1
            _, rest = lax.scan(cell, first, (b, above[1:], above[:-1]))
            return np.concatenate([first[None], rest]), None

        f = m.jit(lambda a, b: lax.scan(row, np.arange(len(b) + 1), a)[0][-1])
        return lambda: f(a, b)

    def numpy(self, np, a, b):
        def call():
            above = np.arange(len(b) + 1)
            for letter in a:
                row = np.minimum(above[1:] + 1, above[:-1] + (letter != b))
                row = np.concatenate([[above[0] + 1], row]) - np.arange(len(b) + 1)
                above = np.minimum.accumulate(row) + np.arange(len(b) + 1)
            return above[-1]

        return call


@workload("control flow/value and gradient of a GARCH likelihood", sizes=(1000,), tol=1e-3, note="a scan over N returns")
class Garch(Workload):
    def inputs(self, rng):
        return normal(rng, *self.size), abs(normal(rng, 3, scale=0.1)) + 0.1

    def jaxlike(self, m, returns, params):
        def loss(params):
            def step(variance, r):
                variance = params[0] + params[1] * r * r + params[2] * variance
                return variance, m.np.log(variance) + r * r / variance

            return m.np.sum(m.lax.scan(step, m.np.ones(()), returns)[1])

        f = m.jit(m.value_and_grad(loss))
        return lambda: f(params)


@workload(
    "control flow/least mean squares by scan", sizes=(4, 16, 64), quick=(16,), tol=1e-3, note="a filter of N taps learns from 300 samples"
)
class LeastMeanSquares(Workload):
    def inputs(self, rng):
        return normal(rng, 300), normal(rng, 300)

    def jaxlike(self, m, heard, wanted):
        def step(state, sample):
            (w, line), (x, y) = state, sample
            line = m.np.concatenate([x[None], line[:-1]])
            error = y - w @ line
            return (w + 0.01 * error * line, line), error

        start = m.np.zeros(self.size)
        f = m.jit(lambda *samples: m.lax.scan(step, (start, start), samples)[1])
        return lambda: f(heard, wanted)

    def numpy(self, np, heard, wanted):
        def call():
            w, line, errors = np.zeros(self.size, np.float32), np.zeros(self.size, np.float32), []
            for x, y in zip(heard, wanted):
                line = np.concatenate([[x], line[:-1]])
                errors.append(y - w @ line)
                w = w + np.float32(0.01) * errors[-1] * line
            return np.array(errors)

        return call


@workload("control flow/Viterbi's algorithm by scan", sizes=(8, 24, 48), quick=(24,), note="128 steps over N states, with the way back")
class Viterbi(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n, n), normal(rng, 128, n)

    def jaxlike(self, m, scores, seen):
        def step(best, x):
            ways = best[:, None] + scores
            return ways.max(0) + x, ways.argmax(0)

        def back(state, origin):
            return origin[state], origin[state]

        def f(scores, seen):
            best, origins = m.lax.scan(step, seen[0], seen[1:])
            return m.lax.scan(back, best.argmax(), origins, reverse=True)[1]

        f = m.jit(f)
        return lambda: f(scores, seen)

    def numpy(self, np, scores, seen):
        def call():
            best, origins = seen[0], []
            for x in seen[1:]:
                ways = best[:, None] + scores
                origins.append(ways.argmax(0))
                best = ways.max(0) + x
            states = [best.argmax()]
            for origin in reversed(origins):
                states.append(origin[states[-1]])
            return np.array(states[:0:-1])

        return call
