"""Discrete Fourier transforms over the last axes, computed by NumPy's pocketfft, which keeps single precision."""

import enum
import functools
import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fgrad import dtypes
from fgrad._kernels.parallel import get_num_threads
from fgrad.core import Primitive, ShapedArray, from_numpy, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import conj, convert_element_type, div, mul
from fgrad.ops.rules import broadcast_in_dim, like, linear_jvp, move_axis


class FftType(enum.Enum):
    """Which transform lax.fft computes."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


def _fft_aval(x, *, fft_type, fft_lengths):
    n = len(fft_lengths)
    if n > len(x.shape):
        raise ShapeError(f"FFT input shape {x.shape} must have at least as many input dimensions as fft_lengths {fft_lengths}.")
    batch, own = x.shape[: len(x.shape) - n], x.shape[len(x.shape) - n :]
    name = fft_type.name
    if fft_type == FftType.RFFT:
        if x.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64):
            raise ValueError(f"{name} input must be float32 or float64, got {x.dtype.name}")
    elif x.dtype.kind != "c":
        raise ValueError(f"{name} input must be complex64 or complex128, got {x.dtype.name}")
    half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    if own != (half if fft_type == FftType.IRFFT else fft_lengths):
        raise ShapeError(
            f"{name} input shape {x.shape} does not fit fft_lengths {fft_lengths}: its last axes must be {fft_lengths}, or half"
        )
    if fft_type == FftType.RFFT:
        return ShapedArray((*batch, *half), dtypes.to_complex(x.dtype))
    if fft_type == FftType.IRFFT:
        return ShapedArray((*batch, *fft_lengths), dtypes.to_real(x.dtype))
    return x.strong()


_NUMPY = {FftType.FFT: np.fft.fft, FftType.IFFT: np.fft.ifft, FftType.RFFT: np.fft.rfft, FftType.IRFFT: np.fft.irfft}
_LARGE = 1 << 15  # elements from which on rows are shared among threads: NumPy lets go of the interpreter lock


@functools.cache
def _team(threads):
    return ThreadPoolExecutor(threads)


def _along(transform, x, n, axis, shape, dtype):
    """transform of length n along an axis, whose result has this shape; large batches in parts, one for each thread."""
    out = np.empty(shape, dtype)
    parts = min(get_num_threads(), x.shape[0]) if x.size >= _LARGE and axis % x.ndim else 1
    if parts == 1:
        return transform(x, n, axis, out=out)
    cuts = [x.shape[0] * i // parts for i in range(parts + 1)]
    jobs = [_team(parts).submit(transform, x[i:j], n, axis, out=out[i:j]) for i, j in zip(cuts[1:], cuts[2:])]
    transform(x[: cuts[1]], n, axis, out=out[: cuts[1]])
    for job in jobs:
        job.result()
    return out


def _transform(x, kind, lengths, dtype):
    """The transform over the last len(lengths) axes: a real one along the last axis, complex ones along the others."""
    real, inverse = kind in (FftType.RFFT, FftType.IRFFT), kind in (FftType.IFFT, FftType.IRFFT)
    whole = FftType.IFFT if inverse else FftType.FFT
    axes = range(-len(lengths), 0)
    for axis in axes if inverse else reversed(axes):
        this = kind if real and axis == -1 else whole
        n = lengths[axis]
        size = n // 2 + 1 if this == FftType.RFFT else n
        shape = (*x.shape[: x.ndim + axis], size, *x.shape[x.ndim + axis + 1 :])
        x = _along(
            _NUMPY[this], x, n, axis, shape, dtypes.to_real(dtype) if this == FftType.IRFFT else dtypes.to_complex(dtypes.to_real(dtype))
        )
    return x


def _fft_lower(ctx, ins, params, out_avals):
    kind, lengths, (out,) = params["fft_type"], params["fft_lengths"], out_avals

    def run(args):
        x = np.asarray(args[0])
        if not x.size or not math.prod(out.shape):
            return [from_numpy(np.zeros(out.shape, out.dtype))]
        return [from_numpy(_transform(x, kind, lengths, x.dtype), copy=False)]

    return ctx.callback(run, ins, [v.aval for v in ins], out_avals, "pure_callback")[0]


def _counts(x, n):
    """How often each frequency of a half spectrum (the last axis of x) occurs in the whole one: 1 at 0 and n / 2, else 2."""
    aval = get_aval(x)
    counts = np.full(aval.shape[-1], 2, aval.dtype)
    counts[:1] = 1
    if n % 2 == 0:
        counts[-1:] = 1
    return broadcast_in_dim(from_numpy(counts), aval.shape, (len(aval.shape) - 1,))


def _fft_transpose(cts, x, *, fft_type, fft_lengths):
    ct, n = cts[0], math.prod(fft_lengths)
    if not n:
        return [ct if get_aval(ct) == x.aval else broadcast_in_dim(x.aval.dtype.type(0), x.aval.shape, ())]
    if fft_type == FftType.RFFT:
        out = fft(div(conj(ct), _counts(ct, fft_lengths[-1])), FftType.IRFFT, fft_lengths)
        return [mul(out, like(out, n))]
    if fft_type == FftType.IRFFT:
        out = fft(ct, FftType.RFFT, fft_lengths)
        return [conj(mul(mul(out, like(out, 1 / n)), _counts(out, fft_lengths[-1])))]
    return [fft(ct, fft_type, fft_lengths)]  # the matrix is symmetric


def _fft_batch(axis, args, dims, **params):
    return fft_p.bind(move_axis(args[0], dims[0], 0), **params), 0


fft_p = Primitive("fft", abstract_eval=_fft_aval, lower=_fft_lower, transpose=_fft_transpose, batch=_fft_batch)
fft_p.jvp = linear_jvp(fft_p)


def fft(x, fft_type, fft_lengths):
    """The discrete Fourier transform of x over its last len(fft_lengths) axes, of these lengths.

    fft_type: an FftType or its name. FFT and IFFT take and give complex numbers; RFFT takes real ones and gives the half spectrum,
    IRFFT is its inverse. Inverse transforms are divided by the number of elements.
    """
    if isinstance(fft_type, str):
        if fft_type.upper() not in FftType.__members__:
            raise ValueError(f"Unknown FFT type '{fft_type}'")
        fft_type = FftType[fft_type.upper()]
    elif not isinstance(fft_type, FftType):
        raise TypeError(f"Unknown FFT type value '{fft_type}'")
    dtype = get_aval(x).dtype
    if fft_type == FftType.RFFT:
        if dtype.kind == "c":
            raise ValueError("only real valued inputs supported for rfft")
        dtype = dtype if dtypes.is_float(dtype) else dtypes.float_dtype()
    elif dtype.kind != "c":
        dtype = dtypes.to_complex(
            dtype if dtype == dtypes.FLOAT64 else dtypes.float_dtype() if not dtypes.is_float(dtype) else dtypes.FLOAT32
        )
    x = convert_element_type(x, dtype)
    lengths = tuple(int(n) for n in fft_lengths)
    return fft_p.bind(x, fft_type=fft_type, fft_lengths=lengths) if lengths else x


__all__ = ["FftType", "fft", "fft_p"]
