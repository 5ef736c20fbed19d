"""Fourier transforms: batches of rows, images, one long sequence, real numbers, and a gradient."""

import numpy as np

from benchmarks.workload import Workload, normal, workload


def complexes(rng, *shape):
    return (normal(rng, *shape) + 1j * normal(rng, *shape)).astype(np.complex64)


def transform(name, title, sizes, make, axes=None):
    """A workload of one function of the fft modules; axes: of several dimensions, or None for the last."""
    along = {} if axes is None else {"axes": axes}
    dims = {} if axes is None else {"dim": axes}

    class Transform(Workload):
        def inputs(self, rng):
            return (make(rng, *self.size),)

        def jaxlike(self, m, x):
            f = m.jit(lambda x: getattr(m.np.fft, name)(x, **along))
            return lambda: f(x)

        def torch(self, m, x):
            return lambda: getattr(m.torch.fft, name)(x, **dims)

        def numpy(self, np, x):
            return lambda: getattr(np.fft, name)(x, **along)

    workload(f"fourier/{title}", sizes=sizes)(Transform)


transform("fft", "fft of rows", ((1000, 1024), (1000, 1000), (10_000, 64), (1, 1024)), complexes)
transform("fft", "fft of one long row", ((1 << 20,),), complexes)
transform("fft2", "fft2 of images", ((10, 256, 256), (1024, 1024)), complexes)
transform("rfft", "rfft of rows", ((1000, 1024), (1 << 20,)), normal)
transform("rfft2", "rfft2 of images", ((10, 256, 256),), normal)
transform("irfft", "irfft of rows", ((1000, 513),), complexes)
transform("fftn", "fft of columns", ((1024, 1000), (256, 400)), complexes, axes=(0,))


@workload("fourier/grad of sum(|rfft(x)|^2)", sizes=((1000, 1024),), tol=1e-3)
class PowerGrad(Workload):
    """Gradient of the power of rows of real numbers."""

    def inputs(self, rng):
        return (normal(rng, *self.size),)

    def jaxlike(self, m, x):
        def power(x):
            y = m.np.fft.rfft(x)
            return m.np.sum(y.real**2 + y.imag**2)

        f = m.jit(m.grad(power))
        return lambda: f(x)

    def torch(self, m, x):
        x = x.requires_grad_()

        def power(x):
            y = m.torch.fft.rfft(x)
            return (y.real**2 + y.imag**2).sum()

        power = m.compile(power)
        return lambda: m.torch.autograd.grad(power(x), x)

    def numpy(self, np, x):
        n = x.shape[-1]
        weights = np.full(n // 2 + 1, 0.5)
        weights[0] = weights[-1] = 1

        def grad():
            return (2 * n * np.fft.irfft(np.fft.rfft(x) * weights, n)).astype(np.float32)

        return grad
