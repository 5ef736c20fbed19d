"""Convolution and correlation of arrays of any rank; spectra are in spectra.py."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.ops.conv import correlation
from fgrad.scipy.spectra import csd, detrend, istft, stft, welch

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch"]


def _windows(x, shape):
    """All windows of `shape` in x, flattened: (*positions, size of a window)."""
    positions = [n - k + 1 for n, k in zip(x.shape, shape)]
    strides = [math.prod(x.shape[i + 1 :]) for i in range(x.ndim)]
    flat = lambda sizes: sum(
        np.arange(n).reshape([-1 if i == j else 1 for j in range(x.ndim)]) * s for i, (n, s) in enumerate(zip(sizes, strides))
    )  # noqa: E731, E501
    start, offset = np.asarray(flat(positions)), np.asarray(flat(shape)).ravel()
    return x.ravel()[(start[..., None] + offset).astype(np.int32)]


def _padding(mode, shape):
    if mode == "valid":
        return [(0, 0)] * len(shape)
    if mode == "full":
        return [(k - 1, k - 1) for k in shape]
    return [(k // 2, k - k // 2 - 1) for k in shape]


def _correlate(name, x, k, mode):
    """Correlation of x with k (not conjugated), k being the smaller one where the mode is "valid"."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f'{name}: mode must be one of "full", "same" and "valid", got {mode!r}')
    if x.ndim != k.ndim:
        raise ValueError(f"{name}: in1 and in2 must have the same number of dimensions, got shapes {x.shape} and {k.shape}")
    if 0 in x.shape or 0 in k.shape:
        raise ValueError(f"{name}: the arrays must not be empty, got shapes {x.shape} and {k.shape}")
    if not x.ndim:
        return x * k
    if x.ndim in (1, 2, 3):
        return correlation(x, k, _padding(mode, k.shape))
    if mode != "valid":
        x = jnp.pad(x, _padding(mode, k.shape))
    return jnp.matmul(_windows(x, k.shape), k.ravel())


def _operands(name, in1, in2, mode):
    if mode not in ("full", "same", "valid"):
        raise ValueError(f'{name}: mode must be "full", "same" or "valid", got {mode!r}')
    a, b = jnp.promote_dtypes_inexact(jnp.asarray(in1), jnp.asarray(in2))
    if mode == "valid" and a.ndim == b.ndim:
        larger = [n >= m for n, m in zip(a.shape, b.shape)]
        if not all(larger) and any(n > m for n, m in zip(a.shape, b.shape)):
            raise ValueError(f'{name}: for mode "valid" one array must be at least as large in every dimension, got {a.shape}, {b.shape}')
        return a, b, not all(larger)
    return a, b, False


def convolve(in1, in2, mode="full", method="auto", precision=None):
    """The convolution of two arrays of equal rank: "full", the part of in1's shape around the centre ("same"), or where they overlap
    whole ("valid"). method "fft" computes it by Fourier transforms.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.signal import convolve
    >>> convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
    Array([1., 3., 5., 3.], dtype=float32)
    """
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f'convolve: method must be "auto", "direct" or "fft", got {method!r}')
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    a, b, swapped = _operands("convolve", in1, in2, mode)
    a, b = (b, a) if swapped else (a, b)
    flipped = jnp.flip(b)
    if mode == "same":
        return _centred(_correlate("convolve", a, flipped, "full"), a.shape)
    return _correlate("convolve", a, flipped, mode)


def correlate(in1, in2, mode="full", method="auto", precision=None):
    """The correlation of two arrays of equal rank, sum of in1[i + k] * conj(in2[k]); modes as in convolve.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.signal import correlate
    >>> correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]), mode="valid")
    Array([2., 3.], dtype=float32)
    """
    if method not in ("auto", "direct", "fft"):
        raise ValueError(f'correlate: method must be "auto", "direct" or "fft", got {method!r}')
    a, b, swapped = _operands("correlate", in1, in2, mode)
    b = jnp.conj(b)
    if method == "fft":
        return convolve(a, jnp.flip(b), mode, method)
    if swapped:
        return jnp.flip(_correlate("correlate", b, a, mode))
    if mode == "same":
        return _centred(_correlate("correlate", a, b, "full"), a.shape)
    return _correlate("correlate", a, b, mode)


def _centred(x, shape):
    """The middle part of x."""
    return x[tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(x.shape, shape))]


def _two_dimensional(name, in1, in2, boundary, fillvalue):
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(f"{name} supports only boundary='fill' and fillvalue=0")
    if jnp.ndim(in1) != 2 or jnp.ndim(in2) != 2:
        raise ValueError(f"{name} only supports inputs of 2 dimensions, got shapes {jnp.shape(in1)} and {jnp.shape(in2)}")


def convolve2d(in1, in2, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The convolution of two matrices. Raises NotImplementedError for another boundary than zeros."""
    _two_dimensional("convolve2d", in1, in2, boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(in1, in2, mode="full", boundary="fill", fillvalue=0, precision=None):
    """The correlation of two matrices. Raises NotImplementedError for another boundary than zeros."""
    _two_dimensional("correlate2d", in1, in2, boundary, fillvalue)
    if mode != "same":
        return correlate(in1, in2, mode)
    full, first = correlate(in1, in2), [k // 2 for k in jnp.shape(in2)]  # SciPy's choice for even sizes: not that of correlate
    return full[tuple(slice(i, i + n) for i, n in zip(first, jnp.shape(in1)))]


def _fast_size(n):
    """The next size from n on of which transforms are fast: at most 15 times a power of two (itself where it is short)."""
    return n if n <= 32 else min(odd << max(0, (n - 1) // odd).bit_length() for odd in (1, 3, 5, 9, 15))


def fftconvolve(in1, in2, mode="full", axes=None):
    """The convolution of two arrays by Fourier transforms, along `axes` (all by default); the others broadcast.

    For long arrays: its work grows as n log n; its rounding is that of the largest element.
    """
    if jnp.ndim(in1) != jnp.ndim(in2):
        raise ValueError(f"in1 and in2 should have the same dimensionality: got shapes {jnp.shape(in1)} and {jnp.shape(in2)}")
    a, b, swapped = _operands("fftconvolve", in1, in2, mode)
    a, b = (b, a) if swapped else (a, b)
    if not a.ndim:
        return a * b
    axes = range(a.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    axes = tuple(i % a.ndim for i in axes)
    whole = [a.shape[i] + b.shape[i] - 1 for i in axes]
    sizes = [_fast_size(n) for n in whole]
    if dtypes.is_complex(a.dtype):
        out = jnp.fft.ifftn(jnp.fft.fftn(a, sizes, axes) * jnp.fft.fftn(b, sizes, axes), sizes, axes)
    else:
        out = jnp.fft.irfftn(jnp.fft.rfftn(a, sizes, axes) * jnp.fft.rfftn(b, sizes, axes), sizes, axes)
    out = out.astype(a.dtype)
    ends = list(out.shape)
    for i, n in zip(axes, whole):
        ends[i] = n
    out = out[tuple(slice(n) for n in ends)]
    if mode == "full":
        return out
    target = list(out.shape)
    for i in axes:
        target[i] = a.shape[i] if mode == "same" else a.shape[i] - b.shape[i] + 1
    return _centred(out, target)
