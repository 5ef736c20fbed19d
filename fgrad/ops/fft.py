"""Discrete Fourier transforms along any axes."""

import enum
import math

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, from_numpy, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import conj, convert_element_type, mul, real
from fgrad.ops.rules import broadcast_in_dim, linear_jvp


class FftType(enum.IntEnum):
    """Which transform lax.fft computes."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _fft_aval(x, *, fft_type, fft_lengths, axes):
    name, shape = fft_type.name, x.shape
    if fft_type == FftType.RFFT:
        if x.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64):
            raise ValueError(f"{name} input must be float32 or float64, got {x.dtype.name}")
    elif x.dtype.kind != "c" and not (fft_type == FftType.FFT and x.dtype in (dtypes.FLOAT32, dtypes.FLOAT64)):
        raise ValueError(f"{name} input must be complex64 or complex128, got {x.dtype.name}")
    whole = dict(zip(axes, fft_lengths))
    half = {**whole, axes[-1]: fft_lengths[-1] // 2 + 1}
    own = half if fft_type == FftType.IRFFT else whole
    if any(shape[d] != n for d, n in own.items()):
        raise ShapeError(
            f"{name} input shape {shape} does not fit fft_lengths {fft_lengths}: its axes {axes} must be {tuple(own.values())}"
        )
    if fft_type == FftType.RFFT:
        return ShapedArray(tuple(half.get(d, n) for d, n in enumerate(shape)), dtypes.to_complex(x.dtype))
    if fft_type == FftType.IRFFT:
        return ShapedArray(tuple(whole.get(d, n) for d, n in enumerate(shape)), dtypes.to_real(x.dtype))
    return ShapedArray(shape, dtypes.to_complex(x.dtype))


_KIND = {FftType.FFT: (0, 0), FftType.IFFT: (0, 1), FftType.RFFT: (1, 0), FftType.IRFFT: (2, 1)}


def _fft_lower(ctx, ins, params, out_avals):
    kind, inverse = _KIND[params["fft_type"]]
    kind = kind or int(ins[0].dtype.kind != "c")  # half of the work where x is real
    return ctx.kernel("fft", ins, out_avals, ip=(kind, inverse, *params["axes"]))[0]


def _weighted(x, n, axis, one, two):
    """x, a half spectrum, times `one` at frequencies 0 and n / 2 of the axis, which occur once in the whole one, and `two` at others."""
    aval = get_aval(x)
    weights = np.full(aval.shape[axis], two, aval.dtype)
    weights[:1] = one
    if n % 2 == 0:
        weights[-1:] = one
    return mul(x, broadcast_in_dim(from_numpy(weights), aval.shape, (axis,)))


def _fft_transpose(cts, x, *, fft_type, fft_lengths, axes):
    ct, n = cts[0], math.prod(fft_lengths)
    params = dict(fft_lengths=fft_lengths, axes=axes)
    if not n:
        return [ct if get_aval(ct) == x.aval else broadcast_in_dim(x.aval.dtype.type(0), x.aval.shape, ())]
    if fft_type == FftType.RFFT:
        return [fft_p.bind(_weighted(conj(ct), fft_lengths[-1], axes[-1], n, n / 2), fft_type=FftType.IRFFT, **params)]
    if fft_type == FftType.IRFFT:
        out = fft_p.bind(ct, fft_type=FftType.RFFT, **params)
        return [conj(_weighted(out, fft_lengths[-1], axes[-1], 1 / n, 2 / n))]
    out = fft_p.bind(ct, fft_type=fft_type, **params)  # the matrix is symmetric
    return [out if x.aval.dtype.kind == "c" else real(out)]


def _fft_batch(axis, args, dims, *, axes, **params):
    d = dims[0]
    return fft_p.bind(args[0], axes=tuple(a + (a >= d) for a in axes), **params), d


fft_p = Primitive("fft", abstract_eval=_fft_aval, lower=_fft_lower, transpose=_fft_transpose, batch=_fft_batch)
fft_p.jvp = linear_jvp(fft_p)


def fft_along(x, fft_type, fft_lengths, axes):
    """fft along any axes, given as different non-negative numbers; a real transform is along the last one listed."""
    dtype = get_aval(x).dtype
    if fft_type == FftType.RFFT:
        if dtype.kind == "c":
            raise ValueError("only real valued inputs supported for rfft")
        dtype = dtypes.to_inexact(dtype)
    elif dtype.kind != "c":
        dtype = dtypes.to_inexact(dtype)
        dtype = dtype if dtype == dtypes.FLOAT64 else dtypes.FLOAT32
        dtype = dtype if fft_type == FftType.FFT and axes else dtypes.to_complex(dtype)
    x = convert_element_type(x, dtype)
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=tuple(fft_lengths), axes=tuple(axes)) if axes else x


def fft(x, fft_type, fft_lengths):
    """The discrete Fourier transform of x over its last len(fft_lengths) axes, of these lengths.

    fft_type: an FftType or its name. FFT and IFFT give complex numbers; RFFT takes real ones and gives the half spectrum,
    IRFFT is its inverse. Inverse transforms are divided by the number of elements.
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__:
            raise ValueError(f"Unknown FFT type '{fft_type}'")
        fft_type = FftType[fft_type.upper()]
    elif not isinstance(fft_type, FftType):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    lengths, nd = tuple(int(n) for n in fft_lengths), len(get_aval(x).shape)
    if len(lengths) > nd:
        raise ShapeError(f"FFT input shape {get_aval(x).shape} must have at least as many input dimensions as fft_lengths {lengths}.")
    return fft_along(x, fft_type, lengths, range(nd - len(lengths), nd))


__all__ = ["FftType", "fft", "fft_p"]
