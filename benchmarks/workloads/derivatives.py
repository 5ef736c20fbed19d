"""Derivatives beyond one gradient: per example, Jacobians, Hessians, products with them."""

import numpy as np

from benchmarks import models
from benchmarks.workload import Workload, integers, normal, tree_map, workload


@workload("derivatives/per-example gradients", sizes=(64, 256), quick=(64,), note="vmap(grad) of a 64-128-10 MLP's loss")
class PerExample(Workload):
    def inputs(self, rng):
        return models.mlp_params(rng, (64, 128, 10)), normal(rng, self.size[0], 64), integers(rng, 10, self.size[0])

    def jaxlike(self, m, params, x, y):
        f = m.jit(m.vmap(m.grad(lambda p, x, y: models.mlp_loss(m, p, x, y)), in_axes=(None, 0, 0)))
        return lambda: f(params, x, y)

    def torch(self, m, params, x, y):
        y, func = y.long(), m.torch.func

        def loss(params, x, y):
            h = m.torch.relu(x @ params[0]["w"] + params[0]["b"])
            return m.F.cross_entropy(h @ params[1]["w"] + params[1]["b"], y)

        f = m.compile(func.vmap(func.grad(loss), in_dims=(None, 0, 0)))
        return lambda: f(params, x, y)

    def numpy(self, np, params, x, y):
        rows, (one, two) = np.arange(len(y)), params

        def call():
            h = np.maximum(x @ one["w"] + one["b"], 0)
            z = h @ two["w"] + two["b"]
            d = np.exp(z - z.max(1, keepdims=True))
            d /= d.sum(1, keepdims=True)
            d[rows, y] -= 1
            e = (d @ two["w"].T) * (h > 0)
            return [{"b": e, "w": x[:, :, None] * e[:, None]}, {"b": d, "w": h[:, :, None] * d[:, None]}]

        return call


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@workload("derivatives/Hessian of Rosenbrock's function", sizes=(100, 500))
class Hessian(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(m.hessian(rosenbrock))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(m.torch.func.hessian(rosenbrock))
        return lambda: f(x)

    def numpy(self, np, x):
        n, i = len(x), np.arange(len(x) - 1)

        def call():
            h = np.zeros((n, n), np.float32)
            h[i, i] = 1200 * x[:-1] ** 2 - 400 * x[1:] + 2
            h[i + 1, i + 1] += 200
            h[i, i + 1] = h[i + 1, i] = -400 * x[:-1]
            return h

        return call


@workload("derivatives/Hessian-vector product", sizes=(1000, 1_000_000))
class Hvp(Workload):
    """jvp of the gradient of Rosenbrock's function."""

    def inputs(self, rng):
        return normal(rng, *self.size), normal(rng, *self.size)

    def bytes(self):
        return 12 * self.size[0]

    def jaxlike(self, m, x, v):
        f = m.jit(lambda x, v: m.jvp(m.grad(rosenbrock), (x,), (v,))[1])
        return lambda: f(x, v)

    def torch(self, m, x, v):
        func = m.torch.func
        f = m.compile(lambda x, v: func.jvp(func.grad(rosenbrock), (x,), (v,))[1])
        return lambda: f(x, v)

    def numpy(self, np, x, v):
        def call():
            out = np.zeros_like(x)
            off = -400 * x[:-1]
            out[:-1] = (1200 * x[:-1] ** 2 - 400 * x[1:] + 2) * v[:-1] + off * v[1:]
            out[1:] += 200 * v[1:] + off * v[:-1]
            return out

        return call


class Jacobian(Workload):
    mode = ""

    def inputs(self, rng):
        (n,) = self.size
        return models.mlp_params(rng, (n, n, n)), normal(rng, n)

    def jaxlike(self, m, params, x):
        f = m.jit(getattr(m, self.mode)(lambda x: m.np.tanh(models.mlp(m, params, x))))
        return lambda: f(x)

    def torch(self, m, params, x):
        one, two = params
        fun = lambda x: m.torch.tanh(m.torch.relu(x @ one["w"] + one["b"]) @ two["w"] + two["b"])  # noqa: E731
        f = m.compile(getattr(m.torch.func, self.mode)(fun))
        return lambda: f(x)

    def numpy(self, np, params, x):
        one, two = params

        def call():
            h = x @ one["w"] + one["b"]
            y = np.tanh(np.maximum(h, 0) @ two["w"] + two["b"])
            return (1 - y * y)[:, None] * ((one["w"] * (h > 0)) @ two["w"]).T

        return call


for mode in ("jacfwd", "jacrev"):
    workload(f"derivatives/{mode} of an MLP", sizes=(64, 256))(type(mode, (Jacobian,), {"mode": mode}))


@workload("derivatives/third derivative of a scalar function", sizes=(1000,))
class Third(Workload):
    """vmap of grad of grad of grad of x*tanh(x)."""

    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(m.vmap(m.grad(m.grad(m.grad(lambda x: x * m.np.tanh(x))))))
        return lambda: f(x)

    def torch(self, m, x):
        grad = m.torch.func.grad
        f = m.compile(m.torch.func.vmap(grad(grad(grad(lambda x: x * m.torch.tanh(x))))))
        return lambda: f(x)

    def numpy(self, np, x):
        def call():
            t = np.tanh(x)
            s = 1 - t * t
            return -6 * t * s + x * s * (4 * t * t - 2 * s)

        return call


@workload("derivatives/checkpointed MLP grad", sizes=(8,), note="layers of 256, batch 256; each layer is recomputed")
class Checkpoint(Workload):
    def inputs(self, rng):
        return [normal(rng, 256, 256, scale=1 / 16) for _ in range(self.size[0])], normal(rng, 256, 256)

    def flops(self):
        return self.size[0] * 8 * 256**3

    def jaxlike(self, m, ws, x):
        layer = m.checkpoint(lambda w, x: m.np.tanh(x @ w))

        def loss(ws, x):
            for w in ws:
                x = layer(w, x)
            return m.np.sum(x * x)

        f = m.jit(m.grad(loss))
        return lambda: f(ws, x)

    def torch(self, m, ws, x):
        from torch.utils.checkpoint import checkpoint

        ws = tree_map(lambda w: w.requires_grad_(), ws)

        def call():
            y = x
            for w in ws:
                y = checkpoint(lambda w, y: m.torch.tanh(y @ w), w, y, use_reentrant=False)
            return m.torch.autograd.grad((y * y).sum(), ws)

        return call


@workload("derivatives/Hessian-vector product through scan", sizes=(4, 32), note="50 steps of a recurrent network of width N, one sequence")
class RecurrentHvp(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n, n, scale=n**-0.5), normal(rng, n, n), normal(rng, 50, n)

    def jaxlike(self, m, w, v, xs):
        def loss(w):
            def step(h, x):
                h = m.np.tanh(w @ h + x)
                return h, h

            return m.np.mean(m.lax.scan(step, m.np.zeros(len(w)), xs)[1] ** 2)

        f = m.jit(lambda w, v: m.jvp(m.grad(loss), (w,), (v,))[1])
        return lambda: f(w, v)

    def torch(self, m, w, v, xs):
        def loss(w):
            h, hs = m.torch.zeros(len(w)), []
            for x in xs:
                h = m.torch.tanh(w @ h + x)
                hs.append(h)
            return (m.torch.stack(hs) ** 2).mean()

        return lambda: m.torch.func.jvp(m.torch.func.grad(loss), (w,), (v,))[1]


@workload(
    "derivatives/gradient of a hidden Markov model",
    sizes=(8,),
    note="likelihood of 200 symbols, N states, forward algorithm",
)
class HiddenMarkov(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n, n), normal(rng, n, 12), integers(rng, 12, 200)

    @staticmethod
    def start(transitions, emissions, symbols, log_softmax):
        moves, seen = log_softmax(transitions, 1), log_softmax(emissions, 1)
        return moves, seen, seen[:, symbols[0]]

    def jaxlike(self, m, *inputs):
        def loss(transitions, emissions, symbols):
            moves, seen, first = self.start(transitions, emissions, symbols, m.nn.log_softmax)
            step = lambda a, o: (m.nn.logsumexp(a[:, None] + moves, axis=0) + seen[:, o], None)  # noqa: E731
            return -m.nn.logsumexp(m.lax.scan(step, first, symbols[1:])[0])

        f = m.jit(m.value_and_grad(loss, (0, 1)))
        return lambda: f(*inputs)

    def torch(self, m, transitions, emissions, symbols):
        parameters, symbols = [transitions.requires_grad_(), emissions.requires_grad_()], symbols.tolist()

        def call():
            moves, seen, a = self.start(*parameters, symbols, m.torch.log_softmax)
            for o in symbols[1:]:
                a = m.torch.logsumexp(a[:, None] + moves, 0) + seen[:, o]
            value = -m.torch.logsumexp(a, 0)
            return value, m.torch.autograd.grad(value, parameters)

        return call


@workload("derivatives/gradient of running logarithms of sums", sizes=((64, 64, 64), (1000, 100)), note="along axis 1")
class RunningLogarithms(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        f = m.jit(m.grad(lambda x: m.np.sum(m.lax.cumlogsumexp(x, axis=1) ** 2)))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.requires_grad_()
        return lambda: m.torch.autograd.grad((m.torch.logcumsumexp(x, 1) ** 2).sum(), x)[0]


@workload("derivatives/gradient of a gated stack and its reverse", sizes=(100_000, 1_000_000), note="glu(stack([x, 2 flip(x) + x], -1))")
class GatedStack(Workload):
    def inputs(self, rng):
        return (normal(rng, self.size[0]),)

    def jaxlike(self, m, x):
        f = m.jit(m.grad(lambda x: m.np.sum(m.nn.glu(m.np.stack([x, m.np.flip(x) * 2 + x], -1)) ** 2)))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.requires_grad_()
        glu, stack = m.torch.nn.functional.glu, m.torch.stack
        return lambda: m.torch.autograd.grad((glu(stack([x, x.flip(0) * 2 + x], -1)) ** 2).sum(), x)[0]


@workload(
    "derivatives/gradient of a Kalman filter, with 64-bit types", sizes=(2, 4), x64=True, note="200 steps of N states, one of them seen"
)
class Kalman(Workload):
    """Value and gradient, in the transition and the noise, of the log-likelihood of a series."""

    def inputs(self, rng):
        n = self.size[0]
        return 0.9 * np.eye(n) + 0.1 * rng.standard_normal((n, n)) / n, 0.1 * np.eye(n), rng.standard_normal(200)

    @staticmethod
    def step(np, a, q, m, p, y):
        m, p = a @ m, a @ p @ a.T + q
        s = p[0, 0] + 0.5
        gain, error = p[:, 0] / s, y - m[0]
        return m + gain * error, p - gain[:, None] * p[0], np.log(s) + error * error / s

    def jaxlike(self, m, a, q, ys):
        def loss(a, q):
            def body(carry, y):
                mean, p, part = self.step(m.np, a, q, *carry, y)
                return (mean, p), part

            return m.np.sum(m.lax.scan(body, (m.np.zeros(len(a)), m.np.eye(len(a))), ys)[1])

        f = m.jit(m.value_and_grad(loss, (0, 1)))
        return lambda: f(a, q)

    def torch(self, m, a, q, ys):
        torch = m.torch
        a, q = a.requires_grad_(), q.requires_grad_()

        def call():
            mean, p, value = torch.zeros(len(a), dtype=a.dtype), torch.eye(len(a), dtype=a.dtype), 0
            for y in ys:
                mean, p, part = self.step(torch, a, q, mean, p, y)
                value = value + part
            return value, torch.autograd.grad(value, (a, q))

        return call
