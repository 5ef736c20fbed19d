"""Bits, integers, and floats drawn by inverting a distribution function: bit for bit those of jax.random on a CPU."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.core import from_scalar
from fgrad.numpy.util import as_array, user_dtype
from fgrad.ops.random import fma, rounded, sample_erf, sample_erf_inv, sample_log, sample_log1p
from fgrad.ops.shape import canonical_shape
from fgrad.random.counters import random_bits
from fgrad.random.keys import one_key, split


def float_dtype(name, dtype):
    """The float dtype that an argument asks for (float32 by default, float64 with 64-bit types enabled)."""
    dtype = dtypes.float_dtype() if dtype is None or dtype is float else user_dtype(dtype)
    if not dtypes.is_float(dtype):
        raise ValueError(f"dtype argument to `{name}` must be a float dtype, got {dtype.name}")
    return dtype


def int_dtype(name, dtype, error=ValueError):
    """The integer dtype that an argument asks for (int32 by default, int64 with 64-bit types enabled)."""
    dtype = dtypes.int_dtype() if dtype is None or dtype is int else user_dtype(dtype)
    if not dtypes.is_integer(dtype):
        raise error(f"{name} only accepts integer dtypes, got {dtype.name}")
    return dtype


def check_broadcast(name, shape, *params):
    """The shape of the result: `shape`, or what the parameters' shapes broadcast to."""
    shapes = [np.shape(p) if isinstance(p, (int, float)) else p.shape for p in params]
    if not any(shapes):
        return () if shape is None else canonical_shape(shape)
    together = np.broadcast_shapes(*shapes)
    if shape is None:
        return together
    shape = canonical_shape(shape)
    try:
        fits = np.broadcast_shapes(shape, together) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"{name}: Incompatible shapes for broadcasting: parameters of shape {together} and the shape argument {shape}")
    return shape


def spread(name, x, shape, dtype):
    """A parameter as an array of the result's shape and dtype."""
    return jnp.broadcast_to(lax.convert_element_type(as_array(name, x), dtype), shape)


def parameters(name, dtype, shape, *params):
    """(parameters of a distribution, Python's floats as they are, the result's shape, its dtype)."""
    dtype = float_dtype(name, dtype)
    params = [p if type(p) is float else as_array(name, p) for p in params]
    return params, check_broadcast(name, shape, *params), dtype


@eager(1, keyed="takes")
def bits(key, shape=(), dtype=None, *, out_sharding=None):
    """Uniform random unsigned integers (uint32 by default; uint64 with 64-bit types enabled).

    >>> import fgrad
    >>> fgrad.random.bits(fgrad.random.key(7), (2,))
    Array([2895194379, 4185947648], dtype=uint32)
    """
    dtype = np.dtype(np.uint64 if dtypes.int_dtype().itemsize == 8 else np.uint32) if dtype is None else user_dtype(dtype)
    if dtype.kind != "u":
        raise ValueError(f"dtype argument to `bits` must be an unsigned int dtype, got {dtype.name}")
    return random_bits(one_key("bits", key), dtype.itemsize * 8, canonical_shape(shape))


def _unit(key, shape, dtype):
    """Floats in [0, 1): random mantissa bits under the exponent of 1, minus 1."""
    info = dtypes.finfo(dtype)
    nbits, nmant = info.bits, info.nmant
    rng_bits = 8 if nmant < 8 else nbits
    words = lax.convert_element_type(bits(key, shape, f"uint{rng_bits}"), f"uint{nbits}")
    one = np.array(1.0, dtype).view(f"uint{nbits}")[()]
    mantissa = lax.shift_right_logical(words, lax.like(words, rng_bits - nmant))
    return lax.bitcast_convert_type(lax.bitwise_or(mantissa, lax.like(words, one)), dtype) - dtype.type(1)


def _positive_unit(key, shape, dtype):
    """Floats in (0, 1): the smallest normal one instead of 0."""
    return lax.max(dtype.type(dtypes.finfo(dtype).tiny), _unit(key, shape, dtype))


@eager(3)
def _uniform(key, minval, maxval, shape, dtype):
    lo, hi = (lax.convert_element_type(as_array("uniform", v), dtype) for v in (minval, maxval))
    span = jnp.subtract(hi, lo)
    lo, span = (jnp.broadcast_to(v, shape) if v.shape else v for v in (lo, span))
    return lax.max(lo, fma(_unit(key, shape, dtype), span, lo))


def uniform(key, shape=(), dtype=None, minval=0.0, maxval=1.0, *, out_sharding=None):
    """Floats uniform in [minval, maxval); the bounds broadcast to `shape`."""
    if type(minval) is float and type(maxval) is float:
        return _uniform_between(key, minval, maxval, shape, dtype)
    dtype, shape = float_dtype("uniform", dtype), canonical_shape(shape)
    minval, maxval = (as_array("uniform", v) for v in (minval, maxval))
    if not shape and minval.ndim + maxval.ndim and minval.size == maxval.size == 1:  # JAX gives one number in minval's shape
        return uniform(key, (), dtype, minval.reshape(()), maxval.reshape(())).reshape(minval.shape)
    check_broadcast("uniform", shape, minval, maxval)
    return _uniform(one_key("uniform", key), minval, maxval, shape, dtype)


@eager(3, keyed="takes")
def _uniform_between(key, minval, maxval, shape, dtype):
    return _uniform(one_key("uniform", key), minval, maxval, canonical_shape(shape), float_dtype("uniform", dtype))


@eager(1, keyed="takes")
def normal(key, shape=(), dtype=None, *, out_sharding=None):
    """Standard normal floats, sqrt(2) erf_inv(u) for u uniform in (-1, 1); complex ones have variance 1 in all.

    >>> import fgrad
    >>> fgrad.random.normal(fgrad.random.key(7), (3,))
    Array([ 0.45123515,  1.9534509 , -0.51623946], dtype=float32)
    """
    dtype = dtypes.float_dtype() if dtype is None or dtype is float else user_dtype(dtype)
    if not dtypes.is_inexact(dtype):
        raise ValueError(f"dtype argument to `normal` must be a float or complex dtype, got {dtype.name}")
    return _normal(one_key("normal", key), canonical_shape(shape), dtype)


@eager(1)
def _normal(key, shape, dtype):
    if dtype.kind == "c":
        real, imag = (_normal(k, shape, dtypes.to_real(dtype)) for k in split(key))
        return lax.complex(real, imag) / np.array(math.sqrt(2), dtype)
    lowest = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    u = _uniform(key, lowest, np.array(1.0, dtype), shape, dtype)
    return lax.mul(lax.like(u, math.sqrt(2)), sample_erf_inv(u))


def truncated_normal(key, lower, upper, shape=None, dtype=None, *, out_sharding=None):
    """Standard normal floats conditioned on (lower, upper), differentiable in both bounds."""
    dtype = float_dtype("truncated_normal", dtype)
    lower, upper = (lax.convert_element_type(as_array("truncated_normal", v), dtype) for v in (lower, upper))
    return _truncated_normal(
        one_key("truncated_normal", key), lower, upper, check_broadcast("truncated_normal", shape, lower, upper), dtype
    )


@eager(3)
def _truncated_normal(key, lower, upper, shape, dtype):
    root = lax.like(lower, math.sqrt(2))
    inverse = lax.like(lower, 1 / root)  # XLA divides by a constant so
    a, b = (sample_erf(rounded(v * inverse)) for v in (lower, upper))
    u = _uniform(key, a, b, shape, dtype)
    inf = lax.like(u, np.inf)
    above, below = lax.nextafter(lax.stop_gradient(lower), inf), lax.nextafter(lax.stop_gradient(upper), -inf)
    return jnp.clip(lax.mul(root, sample_erf_inv(u)), above, below)


@eager(1)
def _exponential(key, shape, dtype):
    return lax.neg(sample_log1p(lax.neg(_unit(key, shape, dtype))))


@eager(1, keyed="takes")
def exponential(key, shape=(), dtype=None, *, out_sharding=None):
    """Exponential floats of rate 1."""
    return _exponential(one_key("exponential", key), canonical_shape(shape), float_dtype("exponential", dtype))


@eager(1, keyed="takes")
def gumbel(key, shape=(), dtype=None, mode=None, *, out_sharding=None):
    """Gumbel floats, -log(-log(u)). mode "high" spends twice the bits on u, "highest" 64 bits a float32; "low" one word;
    None is "low", or "high" with the setting jax_high_dynamic_range_gumbel.
    """
    mode = gumbel_mode("gumbel", mode)
    return _gumbel(one_key("gumbel", key), canonical_shape(shape), float_dtype("gumbel", dtype), mode)


def gumbel_mode(name, mode):
    """What a mode that may be None stands for."""
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"{name}: mode must be 'low', 'high' or 'highest', got {mode!r}")
    return mode or ("high" if config.high_dynamic_range_gumbel else "low")


def _double_log(x):
    return lax.neg(sample_log(lax.neg(x)))


@eager(1)
def _gumbel(key, shape, dtype, mode):
    info = dtypes.finfo(dtype)
    if mode == "low":
        return _double_log(sample_log(_positive_unit(key, shape, dtype)))
    if mode == "high" or dtype != dtypes.FLOAT32:
        high, low = _unit(key, (2, *shape), dtype)
        step, tiny = (lax.like(low, v) for v in (2.0**-info.nmant, info.tiny))
        x = lax.select(lax.ge(high, lax.like(high, 0.5)), high, lax.add(fma(step, low, high), tiny))
        return _double_log(sample_log1p(lax.neg(x)))
    hi, lo = bits(key, (2, *shape), np.uint32)
    small = lax.lt(hi, np.uint32(2**31))
    carry = lax.convert_element_type(lax.eq(lo, np.uint32(0)), np.uint32)
    x = _fixed_to_float32(lax.select(small, hi, lax.bitwise_not(hi) + carry), lax.select(small, lo, lax.bitwise_not(lo) + np.uint32(1)))
    return lax.select(small, _double_log(sample_log1p(lax.neg(x))), _double_log(sample_log(x)))


def _fixed_to_float32(hi, lo):
    """The 64-bit fixed-point fraction hi.lo in [0, 1/2] as a float32, truncated."""
    word = lambda v: np.uint32(v)  # noqa: E731
    zeros_hi, zeros_lo = lax.clz(hi), lax.clz(lo)
    none = lax.eq(zeros_hi, word(32))
    tail = lax.select(none, lax.shift_left(lo, zeros_lo), lax.shift_right_logical(lo, word(32) - zeros_hi))
    mantissa = lax.shift_right_logical(lax.bitwise_or(lax.shift_left(hi, zeros_hi), tail), word(8))
    exponent = word(126) - lax.select(none, word(32) + zeros_lo, zeros_hi)
    fields = lax.bitwise_or(lax.shift_left(exponent, word(23)), lax.bitwise_and(mantissa, word(2**23 - 1)))
    return lax.bitcast_convert_type(fields, np.float32)


@eager(1)
def _laplace(key, shape, dtype):
    u = _uniform(key, dtype.type(-1.0 + float(dtypes.finfo(dtype).epsneg)), dtype.type(1), shape, dtype)
    return lax.mul(lax.sign(u), sample_log1p(lax.neg(lax.abs(u))))


@eager(1, keyed="takes")
def laplace(key, shape=(), dtype=None, *, out_sharding=None):
    """Laplace floats of location 0 and scale 1."""
    return _laplace(one_key("laplace", key), canonical_shape(shape), float_dtype("laplace", dtype))


@eager(1)
def _logistic(key, shape, dtype):
    u = _positive_unit(key, shape, dtype)
    return lax.sub(sample_log(u), sample_log1p(lax.neg(u)))


@eager(1, keyed="takes")
def logistic(key, shape=(), dtype=None, *, out_sharding=None):
    """Logistic floats of location 0 and scale 1."""
    return _logistic(one_key("logistic", key), canonical_shape(shape), float_dtype("logistic", dtype))


def _clipped_int(x, dtype):
    """An integer array in `dtype`, saturating."""
    if isinstance(x, int):
        info = np.iinfo(dtype)
        return np.array(min(max(x, int(info.min)), int(info.max)), dtype)
    x = as_array("randint", x)
    x = x if dtypes.is_integer(x.dtype) else lax.convert_element_type(x, dtypes.int_dtype())
    info, have = np.iinfo(dtype), np.iinfo(x.dtype)
    x = lax.clamp(x.dtype.type(max(info.min, have.min)), x, x.dtype.type(min(info.max, have.max)))
    return lax.convert_element_type(x, dtype)


def _above(x, limit):
    """x > limit, for a limit that x's dtype may not hold."""
    if isinstance(x, int):
        return x > limit
    x = as_array("randint", x)
    return lax.gt(x, lax.like(x, limit)) if dtypes.is_integer(x.dtype) and np.iinfo(x.dtype).max > limit else False


_LEAST = -(1 << 31)


def randint(key, shape, minval, maxval, dtype=None, *, out_sharding=None):
    """Integers uniform in [minval, maxval) (always minval where maxval <= minval); the bounds broadcast to `shape`."""
    if dtype is None and type(minval) is type(maxval) is int and _LEAST <= minval < -_LEAST and _LEAST <= maxval < -_LEAST:
        lo, hi = (v if -1 < v < 128 else from_scalar(v) for v in (minval, maxval))  # beside words a larger one asks each time if it fits
        return _randint_between(key, lo, hi, shape)
    dtype, shape = int_dtype("randint", dtype, TypeError), canonical_shape(shape)
    wide, info = dtype, np.iinfo(dtype)
    if info.bits < 32:  # narrow integers are drawn as int32, so that the upper bound fits
        wide = dtypes.INT32
        minval, maxval = (jnp.clip(_clipped_int(v, wide), int(info.min), int(info.max) + i) for i, v in enumerate((minval, maxval)))
    over = _above(maxval, int(np.iinfo(wide).max))
    over = {} if over is False else {"over": over}
    lo, hi = _clipped_int(minval, wide), _clipped_int(maxval, wide)
    check_broadcast("randint", shape, lo, hi)
    return lax.convert_element_type(_randint(one_key("randint", key), lo, hi, shape, wide, **over), dtype)


@eager(3, keyed="takes")
def _randint_between(key, lo, hi, shape):
    return _randint(one_key("randint", key), lo, hi, canonical_shape(shape), int_dtype("randint", None))


@eager(3)
def _randint(key, lo, hi, shape, dtype, over=None):
    lo, hi = (lax.convert_element_type(as_array("randint", v), dtype) for v in (lo, hi))
    nbits = dtype.itemsize * 8
    unsigned = np.dtype(f"uint{nbits}")
    higher, lower = (bits(k, shape, unsigned) for k in split(key))
    span = lax.convert_element_type(jnp.subtract(hi, lo), unsigned)
    span = jnp.where(hi <= lo, lax.like(span, 1), span)
    if over is not None:
        span = jnp.where(jnp.logical_and(over, hi > lo), span + lax.like(span, 1), span)
    factor = lax.rem(lax.like(span, 2 ** (nbits // 2)), span)
    factor = lax.rem(lax.mul(factor, factor), span)
    offset = jnp.remainder(jnp.remainder(higher, span) * factor + jnp.remainder(lower, span), span)
    return jnp.add(lo, lax.convert_element_type(offset, dtype))
