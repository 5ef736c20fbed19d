"""Simulations: grids, particles and random paths that a loop carries through time."""

import numpy as np

from benchmarks.workload import Workload, normal, workload


class Stepped(Workload):
    """What `step` makes of a state in `steps` steps: a fori_loop, or Python's loop where there is none. step(np, *state): one step."""

    steps = 100

    def jaxlike(self, m, *state):
        f = m.jit(lambda *state: m.lax.fori_loop(0, self.steps, lambda i, s: self.step(m.np, *s), state))
        return lambda: f(*state)

    def torch(self, m, *state):
        step = m.compile(lambda *s: self.step(m.torch, *s))
        return lambda: self.loop(step, state)

    def numpy(self, np, *state):
        return lambda: self.loop(lambda *s: self.step(np, *s), state)

    def loop(self, step, state):
        for _ in range(self.steps):
            state = step(*state)
        return state


@workload(
    "simulations/heat on a grid", sizes=(64, 256, 1024), quick=(256,), tol=1e-3, note="100 steps of the five-point Laplacian, by roll"
)
class Heat(Stepped):
    def inputs(self, rng):
        return (normal(rng, *self.size * 2),)

    @staticmethod
    def step(np, u):
        return (u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u),)


@workload(
    "simulations/heat in space by two grids",
    sizes=(20, 40),
    quick=(20,),
    tol=1e-3,
    note="50 steps there and back, each an update of the inside",
)
class HeatInSpace(Stepped):
    steps = 50

    def inputs(self, rng):
        return (normal(rng, *self.size * 3),) * 2

    @staticmethod
    def step(np, a, b):
        inside, low, high = slice(1, -1), slice(0, -2), slice(2, None)

        def flow(u):
            centre, change = u[inside, inside, inside], 0
            for at in ((low, inside, inside), (inside, low, inside), (inside, inside, low)):
                change = change + 0.125 * (u[at] - 2.0 * centre + u[tuple(high if i is low else i for i in at)])
            return centre + change

        def updated(u, values):
            if hasattr(u, "at"):
                return u.at[inside, inside, inside].set(values)
            u = u.copy() if hasattr(u, "copy") else u.clone()
            u[inside, inside, inside] = values
            return u

        b = updated(b, flow(a))
        return updated(a, flow(b)), b


@workload("simulations/shallow water", sizes=(128,), tol=1e-3, note="100 steps of height and two velocities")
class ShallowWater(Stepped):
    def inputs(self, rng):
        return tuple(c + normal(rng, *self.size * 2, scale=0.01) for c in (1, 0, 0))

    @staticmethod
    def step(np, h, u, v):
        right, down = (lambda x: np.roll(x, -1, 1)), (lambda x: np.roll(x, -1, 0))
        u = u - 0.1 * (right(h) - h)
        v = v - 0.1 * (down(h) - h)
        return h - 0.1 * (u - np.roll(u, 1, 1) + v - np.roll(v, 1, 0)), u, v


@workload("simulations/shallow water and its mean", sizes=(64, 128), quick=(64,), tol=1e-3, note="its mean height at each of 100 steps")
class ShallowWaterMean(ShallowWater):
    def inputs(self, rng):
        return *super().inputs(rng), np.zeros((), np.float32)

    @staticmethod
    def step(np, h, u, v, total):
        h, u, v = ShallowWater.step(np, h, u, v)
        return h, u, v, total + np.mean(h)


@workload(
    "simulations/oscillators by Euler's steps", sizes=(1000, 100_000), quick=(1000,), tol=1e-3, note="100 short steps of N of van der Pol's"
)
class Oscillators(Stepped):
    def inputs(self, rng):
        return normal(rng, *self.size), normal(rng, *self.size)

    @staticmethod
    def step(np, x, v):
        return x + 0.01 * v, v + 0.01 * (2 * (1 - x * x) * v - x)


@workload("simulations/bodies that attract each other", sizes=(64, 512), quick=(64,), tol=1e-3, note="50 steps of leapfrog in space")
class Bodies(Stepped):
    steps = 50

    def inputs(self, rng):
        return normal(rng, *self.size, 3), normal(rng, *self.size, 3, scale=0.1)

    @staticmethod
    def step(np, x, v):
        d = x[None] - x[:, None]
        r2 = (d * d).sum(-1) + 0.1
        v = v + 1e-4 * (d * (r2**-1.5)[..., None]).sum(1)
        return x + 0.01 * v, v


@workload("simulations/orbits", sizes=(300, 1000), quick=(300,), tol=1e-3, note="100 steps of points in space around one centre")
class Orbits(Stepped):
    def inputs(self, rng):
        return normal(rng, *self.size, 3), normal(rng, *self.size, 3, scale=0.1)

    @staticmethod
    def step(np, x, v):
        r2 = (x * x).sum(-1) + 0.1
        v = v - 0.01 * x / (r2 * np.sqrt(r2))[..., None]
        return x + 0.01 * v, v


@workload("simulations/rays to a surface", sizes=(1000,), tol=1e-3, note="100 steps along each ray by its distance from a sphere")
class Rays(Stepped):
    def inputs(self, rng):
        return normal(rng, *self.size, 3), 0 * normal(rng, *self.size)

    @staticmethod
    def step(np, ray, t):
        p = t[..., None] * ray + 2.0
        return ray, t + 0.1 * (np.sqrt((p * p).sum(-1)) - 1)


@workload("simulations/gradient of a vibrating string", sizes=(1000, 10_000), quick=(1000,), tol=1e-3, note="in its first shape, 100 steps")
class StringGrad(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size),)

    @staticmethod
    def step(pad, u, before):
        bend = u[:-2] - 2 * u[1:-1] + u[2:]
        return 2 * u - before + 0.5 * pad(bend), u

    def jaxlike(self, m, u):
        def energy(u):
            step = lambda i, s: self.step(lambda x: m.np.pad(x, 1), *s)  # noqa: E731
            end = m.lax.scan(lambda s, _: (step(0, s), None), (u, u), None, length=100)[0][0]
            return m.np.sum(end * end)

        f = m.jit(m.grad(energy))
        return lambda: f(u)

    def torch(self, m, u):
        u.requires_grad_()
        step = m.compile(lambda *s: self.step(lambda x: m.F.pad(x, (1, 1)), *s))

        def call():
            s = u, u
            for _ in range(100):
                s = step(*s)
            return m.torch.autograd.grad((s[0] ** 2).sum(), u)[0]

        return call


@workload(
    "simulations/denoising by total variation", sizes=(128, 1000), quick=(128,), tol=1e-3, note="20 steps of gradient descent on an image"
)
class Denoising(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size * 2),)

    @staticmethod
    def energy(np, x, y):
        down, right = (x[1:] - x[:-1])[:, :-1], (x[:, 1:] - x[:, :-1])[:-1]
        return 0.5 * ((x - y) ** 2).sum() + 0.1 * np.sqrt(down**2 + right**2 + 1e-3).sum()

    def jaxlike(self, m, y):
        slope = m.grad(lambda x: self.energy(m.np, x, y))
        f = m.jit(lambda x: m.lax.fori_loop(0, 20, lambda i, x: x - 0.1 * slope(x), x))
        return lambda: f(y)

    def torch(self, m, y):
        energy = m.compile(lambda x: self.energy(m.torch, x, y))

        def call():
            x = y
            for _ in range(20):
                x = x.detach().requires_grad_()
                x = x - 0.1 * m.torch.autograd.grad(energy(x), x)[0]
            return x.detach()

        return call


@workload(
    "simulations/random paths",
    sizes=(1000, 100_000),
    unchecked=("torch", "torch-compile", "numpy"),
    note="100 steps of a stochastic equation",
)
class Paths(Workload):
    """Geometric Brownian motion by scan over split keys, as a pricing program writes it: the mean of what an option pays."""

    def jaxlike(self, m):
        (n,) = self.size

        def price(key):
            def step(s, key):
                return s * m.np.exp(-0.0002 + 0.02 * m.random.normal(key, (n,))), None

            s, _ = m.lax.scan(step, m.np.ones(n), m.random.split(key, 100))
            return m.np.mean(m.np.maximum(s - 1, 0))

        key, f = m.random.key(0), m.jit(price)
        return lambda: f(key)

    def torch(self, m):
        (n,) = self.size
        step = m.compile(lambda s: s * m.torch.exp(-0.0002 + 0.02 * m.torch.randn(n)))

        def call():
            s = m.torch.ones(n)
            for _ in range(100):
                s = step(s)
            return (s - 1).clamp(min=0).mean()

        return call

    def numpy(self, np):
        (n,) = self.size
        rng = np.random.default_rng(0)

        def call():
            s = np.ones(n, np.float32)
            for _ in range(100):
                s = s * np.exp(np.float32(-0.0002) + np.float32(0.02) * rng.standard_normal(n, np.float32))
            return np.maximum(s - 1, 0).mean()

        return call


@workload(
    "simulations/roots by lax.map", sizes=(1000, 100_000), tol=1e-3, note="20 steps of Newton's method for each of N cubics, one at a time"
)
class MappedRoots(Workload):
    def inputs(self, rng):
        return (normal(rng, *self.size, 2),)

    @staticmethod
    def root(a, b):
        x = b * 0 + 2.0
        for _ in range(20):
            x = x - (x * x * x + abs(a) * x + b) / (3 * x * x + abs(a) + 0.1)
        return x

    def jaxlike(self, m, coefficients):
        f = m.jit(lambda c: m.lax.map(lambda ab: self.root(ab[0], ab[1]), c))
        return lambda: f(coefficients)

    def torch(self, m, coefficients):
        """All at once: a loop in Python over the cubics would be no comparison."""
        root = m.compile(lambda c: self.root(c[:, 0], c[:, 1]))
        return lambda: root(coefficients)

    def numpy(self, np, coefficients):
        return lambda: self.root(coefficients[:, 0], coefficients[:, 1])


@workload("simulations/Life in bytes by padding", sizes=(32, 64), quick=(32,), note="100 generations of uint8 cells")
class Life(Stepped):
    torch = None

    def inputs(self, rng):
        return ((rng.random(self.size * 2) < 0.3).astype(np.uint8),)

    @staticmethod
    def step(np, u):
        h, w = u.shape
        p = np.pad(u, 1)
        n = sum(p[i : i + h, j : j + w] for i in range(3) for j in range(3) if (i, j) != (1, 1))
        return (((n == 3) | ((u == 1) & (n == 2))).astype(u.dtype),)


@workload(
    "simulations/spin flips of a batch by vmap", sizes=(16,), note="3000 flips, one after the other, in each of N lattices of 32 x 32"
)
class SpinFlips(Workload):
    side, flips = 32, 3000

    def inputs(self, rng):
        (n,) = self.size
        places = rng.integers(0, self.side, (2, n, self.flips)).astype(np.int32)
        return np.sign(normal(rng, n, self.side, self.side)), *places, rng.random((n, self.flips)).astype(np.float32)

    def jaxlike(self, m, spins, rows, columns, draws):
        n = self.side

        def flip(s, x):
            i, j, u = x
            field = s[(i + 1) % n, j] + s[(i - 1) % n, j] + s[i, (j + 1) % n] + s[i, (j - 1) % n]
            return s.at[i, j].multiply(m.np.where(u < m.np.exp(-0.8 * s[i, j] * field), -1.0, 1.0)), None

        f = m.jit(m.vmap(lambda s, *x: m.lax.scan(flip, s, x)[0]))
        return lambda: f(spins, rows, columns, draws)

    def numpy(self, np, spins, rows, columns, draws):
        n, b = self.side, np.arange(len(spins))

        def call():
            s = spins.copy()
            for i, j, u in zip(rows.T, columns.T, draws.T):
                field = s[b, (i + 1) % n, j] + s[b, (i - 1) % n, j] + s[b, i, (j + 1) % n] + s[b, i, (j - 1) % n]
                s[b, i, j] *= np.where(u < np.exp(np.float32(-0.8) * s[b, i, j] * field), -1, 1)
            return s

        return call
