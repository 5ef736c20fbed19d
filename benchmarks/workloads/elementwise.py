"""Chains of elementwise operations."""

import math

import numpy as np

from benchmarks.workload import Workload, normal, workload

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)


class ChainInputs(Workload):
    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n), normal(rng, n), normal(rng, n)


@workload("elementwise/chain", sizes=SIZES, quick=(1_000, 1_000_000), core=True)
class Chain(ChainInputs):
    """tanh(x*w+b)*sigmoid(x) + log1p(exp(x)), summed."""

    def bytes(self):
        return 12 * self.size[0]

    def jaxlike(self, m, x, w, b):
        f = m.jit(lambda x, w, b: m.np.sum(m.np.tanh(x * w + b) * m.nn.sigmoid(x) + m.np.log1p(m.np.exp(x))))
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        t = m.torch
        f = m.compile(lambda x, w, b: (t.tanh(x * w + b) * t.sigmoid(x) + t.log1p(t.exp(x))).sum())
        return lambda: f(x, w, b)

    def numpy(self, np, x, w, b):
        return lambda: np.sum(np.tanh(x * w + b) / (1 + np.exp(-x)) + np.log1p(np.exp(x)))

    def numexpr(self, ne, x, w, b):
        return lambda: ne.evaluate("tanh(x*w+b)/(1+exp(-x))+log1p(exp(x))", {"x": x, "w": w, "b": b}).sum()


@workload("elementwise/chain value_and_grad", sizes=SIZES, quick=SIZES, core=True)
class ChainGrad(ChainInputs):
    """The chain's value and its gradient in all three arguments."""

    def bytes(self):
        return 24 * self.size[0]

    def jaxlike(self, m, x, w, b):
        loss = lambda x, w, b: m.np.sum(m.np.tanh(x * w + b) * m.nn.sigmoid(x) + m.np.log1p(m.np.exp(x)))  # noqa: E731
        f = m.jit(m.value_and_grad(loss, argnums=(0, 1, 2)))
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        t = m.torch
        xs = [v.requires_grad_() for v in (x, w, b)]
        loss = m.compile(lambda x, w, b: (t.tanh(x * w + b) * t.sigmoid(x) + t.log1p(t.exp(x))).sum())

        def call():
            value = loss(*xs)
            return value, t.autograd.grad(value, xs)

        return call

    def numpy(self, np, x, w, b):
        def call():
            t, e = np.tanh(x * w + b), np.exp(x)
            s = e / (1 + e)
            db = (1 - t * t) * s
            return np.sum(t * s + np.log1p(e)), db * w + t * s * (1 - s) + s, db * x, db

        return call

    def numexpr(self, ne, x, w, b):
        def call():
            t, s = ne.evaluate("tanh(x*w+b)", {"x": x, "w": w, "b": b}), ne.evaluate("1/(1+exp(-x))", {"x": x})
            db = ne.evaluate("(1-t*t)*s", {"t": t, "s": s})
            dx = ne.evaluate("db*w+t*s*(1-s)+s", {"db": db, "w": w, "t": t, "s": s})
            value = ne.evaluate("t*s+log1p(exp(x))", {"t": t, "s": s, "x": x}).sum()
            return value, dx, ne.evaluate("db*x", {"db": db, "x": x}), db

        return call


@workload("elementwise/axpy", sizes=(100_000, 10_000_000), quick=(10_000_000,))
class Axpy(ChainInputs):
    """2.5*x + w: as fast as memory."""

    def bytes(self):
        return 12 * self.size[0]

    def jaxlike(self, m, x, w, b):
        f = m.jit(lambda x, w: 2.5 * x + w)
        return lambda: f(x, w)

    def torch(self, m, x, w, b):
        return lambda: m.torch.add(w, x, alpha=2.5)

    def numpy(self, np, x, w, b):
        return lambda: np.float32(2.5) * x + w

    def numexpr(self, ne, x, w, b):
        c = ne.necompiler.numpy.float32(2.5)
        return lambda: ne.evaluate("c*x+w", {"c": c, "x": x, "w": w})


@workload("elementwise/a step of Runge-Kutta", sizes=(1_000, 100_000))
class RungeKuttaStep(ChainInputs):
    """One step of Lorenz's system, written out: 70 operations on three arrays."""

    @staticmethod
    def step(x, y, z):
        def slope(x, y, z):
            return 10 * (y - x), x * (28 - z) - y, x * y - 2.6 * z

        def moved(k, h):
            return slope(*[p + h * q for p, q in zip((x, y, z), k)])

        k1 = slope(x, y, z)
        k2 = moved(k1, 0.005)
        k3 = moved(k2, 0.005)
        k4 = moved(k3, 0.01)
        return [p + 0.01 / 6 * (a + 2 * b + 2 * c + d) for p, a, b, c, d in zip((x, y, z), k1, k2, k3, k4)]

    def jaxlike(self, m, x, w, b):
        f = m.jit(self.step)
        return lambda: f(x, w, b)

    def torch(self, m, x, w, b):
        f = m.compile(self.step)
        return lambda: f(x, w, b)

    def numpy(self, np, x, w, b):
        return lambda: self.step(x, w, b)


@workload("elementwise/integers mixed", sizes=(1_000, 1_000_000))
class Mixed(Workload):
    """Two rounds of products, shifts and xors of 32 bits, as hashes have them."""

    def inputs(self, rng):
        return (rng.integers(0, 1 << 31, self.size, dtype="int32"),)

    def bytes(self):
        return 8 * self.size[0]

    @staticmethod
    def mixed(x):
        for _ in range(2):
            x = (x ^ (x >> 15)) * 73244475
            x = (x ^ (x << 7)) + (x & 255)
        return x

    def jaxlike(self, m, x):
        f = m.jit(self.mixed)
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(self.mixed)
        return lambda: f(x)

    def numpy(self, np, x):
        return lambda: self.mixed(x)


@workload("elementwise/gelu tanh", sizes=(1_000_000,))
class Gelu(ChainInputs):
    def bytes(self):
        return 8 * self.size[0]

    def jaxlike(self, m, x, w, b):
        f = m.jit(m.nn.gelu)
        return lambda: f(x)

    def torch(self, m, x, w, b):
        return lambda: m.F.gelu(x, approximate="tanh")

    def numpy(self, np, x, w, b):
        return lambda: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def numexpr(self, ne, x, w, b):
        return lambda: ne.evaluate("0.5*x*(1+tanh(0.7978845608*(x+0.044715*x*x*x)))", {"x": x}, casting="same_kind")


@workload("elementwise/inverse functions", sizes=(1_000, 1_000_000), note="arctan, arcsinh, arctanh, the inverse of erf")
class Inverse(Workload):
    def inputs(self, rng):
        return (rng.uniform(-0.99, 0.99, self.size).astype("float32"),)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: (m.np.arctan(x), m.np.arcsinh(x), m.np.arctanh(x), m.lax.erf_inv(x)))
        return lambda: f(x)

    def torch(self, m, x):
        t = m.torch
        f = m.compile(lambda x: (t.arctan(x), t.arcsinh(x), t.arctanh(x), t.erfinv(x)))
        return lambda: f(x)


@workload("elementwise/float64 functions", sizes=(10_000, 1_000_000), x64=True, tol=1e-9, note="log2, arcsin, arccos, tan, cbrt, power")
class FunctionsDouble(Workload):
    """Each a result of its own, so that nothing but the functions is measured."""

    def inputs(self, rng):
        return rng.uniform(0.05, 0.95, self.size), rng.uniform(-2, 2, self.size)

    @staticmethod
    def functions(np, cbrt, u, x):
        return np.log2(u), np.arcsin(u), np.arccos(u), np.tan(x), cbrt(x), u**x

    def jaxlike(self, m, u, x):
        f = m.jit(lambda u, x: self.functions(m.np, m.np.cbrt, u, x))
        return lambda: f(u, x)

    def torch(self, m, u, x):
        f = m.compile(lambda u, x: self.functions(m.torch, lambda x: x.sign() * x.abs() ** (1 / 3), u, x))
        return lambda: f(u, x)

    def numpy(self, np, u, x):
        return lambda: self.functions(np, np.cbrt, u, x)


@workload("elementwise/float64 error functions", sizes=(10_000, 1_000_000), x64=True, tol=1e-9, note="erf, erfc, the inverse of erf")
class ErrorFunctionsDouble(Workload):
    def inputs(self, rng):
        return rng.uniform(-0.99, 0.99, self.size), rng.uniform(-4, 4, self.size)

    def jaxlike(self, m, u, x):
        f = m.jit(lambda u, x: (m.lax.erf(x), m.lax.erfc(x), m.lax.erf_inv(u)))
        return lambda: f(u, x)

    def torch(self, m, u, x):
        t = m.torch
        f = m.compile(lambda u, x: (t.erf(x), t.erfc(x), t.erfinv(u)))
        return lambda: f(u, x)


@workload("elementwise/float64 chain", sizes=(1_000_000,), x64=True, tol=1e-9)
class ChainDouble(Workload):
    """Ten elementary functions of doubles."""

    def inputs(self, rng):
        return (rng.standard_normal(self.size),)

    @staticmethod
    def functions(np, erf, x):
        y = np.abs(x) + 0.1
        waves = np.sin(x) * np.cos(100 * x) + np.tanh(x) + np.arctan(x)
        return waves + np.exp(x) * np.log(y) + np.sqrt(y) + np.log1p(y) + np.expm1(-y) + erf(x)

    def jaxlike(self, m, x):
        f = m.jit(lambda x: self.functions(m.np, m.lax.erf, x))
        return lambda: f(x)

    def torch(self, m, x):
        f = m.compile(lambda x: self.functions(m.torch, m.torch.erf, x))
        return lambda: f(x)


@workload("elementwise/broadcast row and column", sizes=((2048, 2048),))
class Broadcast(Workload):
    """x * row + column, then relu."""

    def inputs(self, rng):
        n, k = self.size
        return normal(rng, n, k), normal(rng, k), normal(rng, n, 1)

    def bytes(self):
        return 8 * self.size[0] * self.size[1]

    def jaxlike(self, m, x, r, c):
        f = m.jit(lambda x, r, c: m.np.maximum(x * r + c, 0))
        return lambda: f(x, r, c)

    def torch(self, m, x, r, c):
        return lambda: m.torch.relu(m.torch.addcmul(c, x, r))

    def numpy(self, np, x, r, c):
        return lambda: np.maximum(x * r + c, 0)


@workload(
    "elementwise/broadcast multiply backward",
    sizes=(
        ((64, 256, 128), (1, 1, 128)),
        ((64, 256, 128), (1, 256, 1)),
        ((16, 64, 32, 128), (1, 64, 1, 128)),
        ((16, 64, 32, 128), (16, 1, 32, 1)),
        ((8, 64, 64, 512), (1, 1, 1, 512)),
        ((8, 64, 64, 512), (8, 64, 64, 1)),
        ((8, 64, 64, 512), (8, 1, 1, 512)),
        ((8, 64, 64, 512), (1, 1, 64, 1)),
    ),
    tol=1e-3,
)
class BroadcastBackward(Workload):
    """Both cotangents of x * w, where w has axes of size 1."""

    def inputs(self, rng):
        shape, small = self.size
        return normal(rng, *shape), normal(rng, *small), normal(rng, *shape)

    def bytes(self):
        return 12 * math.prod(self.size[0])

    def jaxlike(self, m, x, w, ct):
        f = m.jit(lambda x, w, ct: m.vjp(lambda x, w: x * w, x, w)[1](ct))
        return lambda: f(x, w, ct)

    def torch(self, m, x, w, ct):
        xs = [v.requires_grad_() for v in (x, w)]
        product = m.compile(lambda x, w: x * w)
        return lambda: m.torch.autograd.grad(product(*xs), xs, ct)

    def numpy(self, np, x, w, ct):
        axes = tuple(i for i, n in enumerate(w.shape) if n == 1)
        return lambda: (ct * w, (ct * x).sum(axes, keepdims=True))


@workload("elementwise/complex logarithm", sizes=(10_000, 1_000_000), tol=1e-4)
class ComplexLogarithm(Workload):
    """log(x + iy), which is put together from parts."""

    def inputs(self, rng):
        (n,) = self.size
        return normal(rng, n), normal(rng, n)

    def bytes(self):
        return 16 * self.size[0]

    def jaxlike(self, m, x, y):
        f = m.jit(lambda x, y: m.np.log(x + 1j * y))
        return lambda: f(x, y)

    def numpy(self, np, x, y):
        return lambda: np.log(x + np.complex64(1j) * y)


@workload(
    "elementwise/density of seawater",
    sizes=((29, 31, 37), (113, 127, 131)),
    quick=((29, 31, 37),),
    tol=1e-3,
    note="UNESCO's of 1983, 60 operations",
)
class Seawater(Workload):
    """From salinity, temperature and pressure in bar, in sizes that no block divides."""

    def inputs(self, rng):
        ranges = (30, 38), (0, 30), (0, 400)
        return tuple(rng.uniform(low, high, self.size).astype(np.float32) for low, high in ranges)

    def bytes(self):
        return 16 * math.prod(self.size)

    @staticmethod
    def density(sqrt, s, t, p):
        def polynomial(*c):
            return sum((a * t**i for i, a in enumerate(c[1:], 1)), c[0])

        root = s * sqrt(s)
        density = polynomial(999.842594, 6.793952e-2, -9.095290e-3, 1.001685e-4, -1.120083e-6, 6.536332e-9)
        density = density + s * polynomial(8.24493e-1, -4.0899e-3, 7.6438e-5, -8.2467e-7, 5.3875e-9)
        density = density + root * polynomial(-5.72466e-3, 1.0227e-4, -1.6546e-6) + 4.8314e-4 * s * s
        stiffness = polynomial(19652.21, 148.4206, -2.327105, 1.360477e-2, -5.155288e-5)
        stiffness = (
            stiffness + s * polynomial(54.6746, -0.603459, 1.09987e-2, -6.1670e-5) + root * polynomial(7.944e-2, 1.6483e-2, -5.3009e-4)
        )
        stiffness = stiffness + p * (
            polynomial(3.239908, 1.43713e-3, 1.16092e-4, -5.77905e-7) + s * polynomial(2.2838e-3, -1.0981e-5, -1.6078e-6)
        )
        stiffness = stiffness + p * (
            1.91075e-4 * root + p * (polynomial(8.50935e-5, -6.12293e-6, 5.2787e-8) + s * polynomial(-9.9348e-7, 2.0816e-8, 9.1697e-10))
        )
        return density / (1 - p / stiffness)

    def jaxlike(self, m, *x):
        f = m.jit(lambda *x: self.density(m.np.sqrt, *x))
        return lambda: f(*x)

    def torch(self, m, *x):
        f = m.compile(lambda *x: self.density(m.torch.sqrt, *x))
        return lambda: f(*x)

    def numpy(self, np, *x):
        return lambda: self.density(np.sqrt, *x)


class Gradients(Workload):
    """Gradients of the sum of `value`, many operations on a few arrays."""

    ranges = ()

    def inputs(self, rng):
        return tuple(rng.uniform(low, high, self.size).astype(np.float32) for low, high in self.ranges)

    def jaxlike(self, m, *x):
        f = m.jit(m.grad(lambda *x: self.value(m.np, *x).sum(), tuple(range(len(x)))))
        return lambda: f(*x)

    def torch(self, m, *x):
        def call(*x):
            x = [a.detach().requires_grad_() for a in x]
            return m.torch.autograd.grad(self.value(m.torch, *x).sum(), x)

        return lambda: call(*x)


@workload(
    "elementwise/gradient of spherical harmonics",
    sizes=((20_000,), (2_000_000,)),
    quick=((20_000,),),
    tol=1e-3,
    note="21 of degree up to 4",
)
class HarmonicsGradient(Gradients):
    ranges = ((-1, 1),) * 3

    @staticmethod
    def value(np, x, y, z):
        xx, yy, zz = x * x, y * y, z * z
        second = 1.0925 * (x * y + y * z + x * z) + 0.3154 * (3 * zz - 1) + 0.5463 * (xx - yy)
        third = (
            0.59 * y * (3 * xx - yy)
            + 2.8906 * x * y * z
            + 0.457 * (x + y) * (5 * zz - 1)
            + 0.3732 * z * (5 * zz - 3)
            + 1.4453 * z * (xx - yy)
        )
        fourth = (
            2.5033 * x * y * (xx - yy) + 1.7701 * y * z * (3 * xx - yy) + 0.9462 * x * y * (7 * zz - 1) + 0.669 * (x + y) * z * (7 * zz - 3)
        )
        fourth = (
            fourth
            + 0.1058 * (zz * (35 * zz - 30) + 3)
            + 0.4730 * (xx - yy) * (7 * zz - 1)
            + 0.6258 * (xx * (xx - 3 * yy) - yy * (3 * xx - yy))
        )
        return 0.2821 + 0.4886 * (x + y + z) + second + third + fourth + 0.59 * x * (xx - 3 * yy)


@workload(
    "elementwise/gradient of a Runge-Kutta step",
    sizes=((20_000,), (2_000_000,)),
    quick=((20_000,),),
    tol=1e-3,
    note="Lorenz's system, fourth order",
)
class RungeKuttaGradient(Gradients):
    ranges = ((-10, 10), (-10, 10), (10, 30), (0.005, 0.02))

    @staticmethod
    def value(np, x, y, z, h):
        def slope(x, y, z):
            return 10 * (y - x), x * (28 - z) - y, x * y - 2.667 * z

        def moved(k, h):
            return x + h * k[0], y + h * k[1], z + h * k[2]

        a = slope(x, y, z)
        b = slope(*moved(a, h / 2))
        c = slope(*moved(b, h / 2))
        d = slope(*moved(c, h))
        x, y, z = moved([p + 2 * q + 2 * r + s for p, q, r, s in zip(a, b, c, d)], h / 6)
        return x * x + y * y + z * z
