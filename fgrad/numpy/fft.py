"""Discrete Fourier transforms with numpy.fft's signatures.

norm: None or "backward" (inverse transforms are divided by the number of elements), "ortho" or "forward".
"""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import manipulation as M
from fgrad.numpy import padding as P
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import arange, array, remembered, zeros
from fgrad.numpy.util import as_array, axis_index
from fgrad.ops.fft import FftType, fft_along

__all__ = [
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn",
    "fftfreq", "rfftfreq", "fftshift", "ifftshift",
]  # fmt: skip


def _factor(name, n, norm):
    if norm == "backward":
        return 1.0
    inverse = name.startswith("i")
    if norm == "ortho":
        return math.sqrt(n) if inverse else 1 / math.sqrt(n)
    if norm == "forward":
        return float(n) if inverse else 1 / n
    raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')


@eager(1)
def _transform(a, name, kind, s, axes, norm):
    x = as_array(name, a)
    if s is not None:
        s = tuple(map(operator.index, s))
        if any(n <= 0 for n in s):
            raise ValueError(f"{name}: Shape should be positive, got {s}.")
        if axes is not None and len(s) != len(axes):
            raise ValueError(f"{name}: Shape and axes have different lengths, got {s} and {tuple(axes)}.")
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    axes = [operator.index(d) for d in axes]
    if any(not -x.ndim <= d < x.ndim for d in axes):
        raise ValueError(f"{name}: axes {axes} are out of bounds for an array of shape {x.shape}")
    if len({d % x.ndim for d in axes}) != len(axes):
        raise ValueError(f"{name} does not support repeated axes. Got axes {axes}.")
    axes = [d % x.ndim for d in axes]
    if s is not None:
        sizes = list(x.shape)
        for d, n in zip(axes, s):
            sizes[d] = n
        if kind == FftType.IRFFT and s:
            sizes[axes[-1]] = s[-1] // 2 + 1
        x = x[tuple(slice(n) for n in sizes)]
        x = P.pad(x, [(0, n - m) for n, m in zip(sizes, x.shape)])
    else:
        s = tuple(x.shape[d] for d in axes)
        if kind == FftType.IRFFT and s:
            s = (*s[:-1], max(0, 2 * (s[-1] - 1)))
    if kind == FftType.IRFFT and s and not s[-1]:  # the transform of nothing
        out = zeros([n if d != axes[-1] else 0 for d, n in enumerate(x.shape)], dtypes.to_real(dtypes.to_inexact(x.dtype)))
    else:
        out = fft_along(x, kind, s, axes)
    if norm is not None:
        out = out * array(_factor(name, math.prod(s), norm), dtypes.to_real(out.dtype)).astype(out.dtype)
    return out


def _tuple(xs):
    return None if xs is None else tuple(xs)


def _one(name, kind, a, n, axis, norm):
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"{name} does not support multiple axes. Please use {name}n. Got axis = {axis!r}.")
    return _transform(a, name, kind, None if n is None else (n,), None if axis is None else (axis,), norm)


def _two(name, kind, a, s, axes, norm):
    if len(axes) != 2:
        raise ValueError(f"{name} only supports 2 axes. Got axes = {axes!r}.")
    return _transform(a, name, kind, _tuple(s), _tuple(axes), norm)


def fft(a, n=None, axis=-1, norm=None):
    """The discrete Fourier transform along `axis`, cut or padded with zeros to n elements.

    >>> import fgrad.numpy as jnp
    >>> jnp.fft.fft(jnp.array([1., 1., 1., 1.])).real
    Array([4., 0., 0., 0.], dtype=float32)
    """
    return _one("fft", FftType.FFT, a, n, axis, norm)


def ifft(a, n=None, axis=-1, norm=None):
    """The inverse of fft."""
    return _one("ifft", FftType.IFFT, a, n, axis, norm)


def rfft(a, n=None, axis=-1, norm=None):
    """The first n // 2 + 1 elements of the transform of real numbers, which tell the others."""
    return _one("rfft", FftType.RFFT, a, n, axis, norm)


def irfft(a, n=None, axis=-1, norm=None):
    """The inverse of rfft: n real numbers, by default 2 (m - 1) where a has m."""
    return _one("irfft", FftType.IRFFT, a, n, axis, norm)


def hfft(a, n=None, axis=-1, norm=None):
    """The transform, which is real, of a sequence with Hermitian symmetry, given by its first half."""
    a = U.conj(as_array("hfft", a))
    out = _one("hfft", FftType.IRFFT, a, n, axis, norm)
    return out * ((a.shape[axis] - 1) * 2 if n is None else n)


def ihfft(a, n=None, axis=-1, norm=None):
    """The inverse of hfft."""
    a = as_array("ihfft", a)
    out = _one("ihfft", FftType.RFFT, a, n, axis, norm)
    n = a.shape[axis] if n is None else n
    if not n:
        raise ValueError(f"ihfft: a transform of no elements has no mean; got shape {a.shape} and axis {axis}")
    return U.conj(out) * (1 / n)


def fft2(a, s=None, axes=(-2, -1), norm=None):
    """fftn over two axes."""
    return _two("fft2", FftType.FFT, a, s, axes, norm)


def ifft2(a, s=None, axes=(-2, -1), norm=None):
    """ifftn over two axes."""
    return _two("ifft2", FftType.IFFT, a, s, axes, norm)


def rfft2(a, s=None, axes=(-2, -1), norm=None):
    """rfftn over two axes."""
    return _two("rfft2", FftType.RFFT, a, s, axes, norm)


def irfft2(a, s=None, axes=(-2, -1), norm=None):
    """irfftn over two axes."""
    return _two("irfft2", FftType.IRFFT, a, s, axes, norm)


def fftn(a, s=None, axes=None, norm=None):
    """The discrete Fourier transform over several axes (all by default), each cut or padded with zeros to the sizes s."""
    return _transform(a, "fftn", FftType.FFT, _tuple(s), _tuple(axes), norm)


def ifftn(a, s=None, axes=None, norm=None):
    """The inverse of fftn."""
    return _transform(a, "ifftn", FftType.IFFT, _tuple(s), _tuple(axes), norm)


def rfftn(a, s=None, axes=None, norm=None):
    """fftn of real numbers: of the last axis only the first s[-1] // 2 + 1 elements."""
    return _transform(a, "rfftn", FftType.RFFT, _tuple(s), _tuple(axes), norm)


def irfftn(a, s=None, axes=None, norm=None):
    """The inverse of rfftn."""
    return _transform(a, "irfftn", FftType.IRFFT, _tuple(s), _tuple(axes), norm)


def _grid(name, n, d, dtype):
    if isinstance(n, (list, tuple)):
        raise ValueError(f"The n argument of {name} only takes an int. Got n = {list(n)}.")
    if isinstance(d, (list, tuple)):
        raise ValueError(f"The d argument of {name} only takes a single value. Got d = {list(d)}.")
    return dtypes.float_dtype() if dtype is None else dtypes.canonicalize_dtype(dtype)


@remembered
def fftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of fft's n elements for samples at distance d: 0, 1, ... and the negative ones, divided by d n."""
    dtype = _grid("fftfreq", n, d, dtype)
    k = array((np.arange(n) + n // 2) % max(n, 1) - n // 2, dtype)
    return k / array(d * n, dtype)


@remembered
def rfftfreq(n, d=1.0, *, dtype=None, device=None):
    """The frequencies of rfft's n // 2 + 1 elements for samples at distance d."""
    dtype = _grid("rfftfreq", n, d, dtype)
    return arange(n // 2 + 1, dtype=dtype) / array(d * n, dtype)


def _shift(name, x, axes, sign):
    x = as_array(name, x)
    axes = range(x.ndim) if axes is None else [axis_index(d, x.ndim) for d in np.atleast_1d(axes)]
    return M.roll(x, tuple(sign * (x.shape[d] // 2) for d in axes), tuple(axes))


def fftshift(x, axes=None):
    """x with the element of frequency 0 moved to the middle of each of the axes (all by default)."""
    return _shift("fftshift", x, axes, 1)


def ifftshift(x, axes=None):
    """The inverse of fftshift."""
    return _shift("ifftshift", x, axes, -1)
