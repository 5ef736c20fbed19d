"""Random numbers as jax.random: explicit keys, threefry-2x32 with partitionable counters. Keys are uint32 arrays of shape (2,)."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.config import config
from fgrad.core import from_numpy, get_aval
from fgrad.numpy.util import as_array
from fgrad.ops.random import threefry2x32, threefry_bits_p, threefry_split_p
from fgrad.ops.shape import canonical_shape


def key(seed, *, impl=None):
    """A key from an integer seed (an array of shape (2,), uint32).

    >>> import fgrad
    >>> fgrad.random.key(7)
    Array([0, 7], dtype=uint32)
    """
    if isinstance(seed, (int, np.integer)):
        seed = int(seed)
        if not config.enable_x64:
            seed = ((seed + 2**31) % 2**32) - 2**31 if not -(2**31) <= seed < 2**31 else seed
            return from_numpy(np.array([0, seed % 2**32], np.uint32))
        return from_numpy(np.array([seed % 2**64 >> 32, seed % 2**32], np.uint32))
    seed = as_array("key", seed)
    if seed.shape or not dtypes.is_integer(seed.dtype):
        raise TypeError(f"PRNG key seed must be an integer scalar, got {seed.aval}")
    low = lax.convert_element_type(lax.convert_element_type(seed, np.int64) if config.enable_x64 else seed, np.uint32)
    high = (
        lax.convert_element_type(lax.shift_right_logical(seed, lax.like(seed, 32)), np.uint32)
        if seed.dtype.itemsize == 8
        else jnp.zeros((), np.uint32)
    )
    return jnp.stack([high, low])


PRNGKey = key


def key_data(keys):
    """The uint32 words of a key."""
    return keys


def wrap_key_data(key_bits, *, impl=None):
    """uint32 words of shape (..., 2) as keys."""
    return _key(key_bits)


def _key(k):
    k = as_array("random", k)
    if k.dtype != dtypes.UINT32 or k.ndim < 1 or k.shape[-1] != 2:
        raise TypeError(f"expected a PRNG key (uint32 of shape (2,)), got {k.aval}; make one with random.key(seed)")
    return k


def split(key, num=2):
    """num new keys from one, shape (num, 2) (num may be a shape).

    >>> from fgrad import random
    >>> a, b = random.split(random.key(0))
    >>> a.shape
    (2,)
    """
    shape = canonical_shape(num if np.iterable(num) else (num,))
    return threefry_split_p.bind(_key(key), shape=shape)


def fold_in(key, data):
    """A new key from a key and an integer."""
    key = _key(key)
    data = lax.convert_element_type(as_array("fold_in", data), np.uint32)
    return jnp.stack(threefry2x32(key[0], key[1], jnp.zeros((), np.uint32), data))


def bits(key, shape=(), dtype=None):
    """Uniform random unsigned integers (uint32 by default)."""
    dtype = np.dtype(np.uint32) if dtype is None else dtypes.canonicalize_dtype(dtype)
    if dtype.kind != "u":
        raise TypeError(f"bits: dtype must be an unsigned integer type, got {dtype.name}")
    return threefry_bits_p.bind(_key(key), bit_width=dtype.itemsize * 8, shape=canonical_shape(shape))


def _float(dtype, name):
    dtype = dtypes.float_dtype() if dtype is None or dtype is float else dtypes.canonicalize_dtype(dtype)
    if not dtypes.is_float(dtype):
        raise ValueError(f"dtype argument to `{name}` must be a float dtype, got {dtype.name}")
    return dtype


def _unit(key, shape, dtype):
    """Floats in [0, 1): random mantissa bits under the exponent of 1, minus 1."""
    info = dtypes.finfo(dtype)
    nbits, nmant = info.bits, info.nmant
    rng_bits = 8 if nmant < 8 else nbits
    words = lax.convert_element_type(bits(key, shape, f"uint{rng_bits}"), f"uint{nbits}")
    one = np.array(1.0, dtype).view(f"uint{nbits}")[()]
    mantissa = lax.shift_right_logical(words, lax.like(words, rng_bits - nmant))
    return lax.bitcast_convert_type(lax.bitwise_or(mantissa, lax.like(words, one)), dtype) - dtype.type(1)


def uniform(key, shape=(), dtype=None, minval=0.0, maxval=1.0):
    """Floats uniform in [minval, maxval)."""
    dtype = _float(dtype, "uniform")
    shape = canonical_shape(shape)
    lo, hi = (lax.convert_element_type(as_array("uniform", v), dtype) for v in (minval, maxval))
    return lax.max(lo, lax.add(lax.mul(_unit(key, shape, dtype), lax.sub(hi, lo)), lo))


def normal(key, shape=(), dtype=None):
    """Standard normal floats: sqrt(2) * erf_inv(uniform(-1, 1)).

    >>> from fgrad import random
    >>> random.normal(random.key(0), (3,)).shape
    (3,)
    """
    dtype = _float(dtype, "normal")
    u = uniform(key, shape, dtype, np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype), 1.0)
    return lax.mul(lax.like(u, math.sqrt(2)), lax.erf_inv(u))


def truncated_normal(key, lower, upper, shape=None, dtype=None):
    """Standard normal floats conditioned on (lower, upper)."""
    dtype = _float(dtype, "truncated_normal")
    lower, upper = (lax.convert_element_type(as_array("truncated_normal", v), dtype) for v in (lower, upper))
    shape = np.broadcast_shapes(lower.shape, upper.shape) if shape is None else canonical_shape(shape)
    root = lax.like(lower, math.sqrt(2))
    a, b = lax.erf(lower / root), lax.erf(upper / root)
    out = lax.mul(root, lax.erf_inv(uniform(key, shape, dtype, a, b)))
    inf = jnp.asarray(np.inf, dtype)
    return jnp.clip(out, lax.nextafter(lax.stop_gradient(lower), inf), lax.nextafter(lax.stop_gradient(upper), lax.neg(inf)))


def randint(key, shape, minval, maxval, dtype=None):
    """Integers uniform in [minval, maxval)."""
    dtype = dtypes.int_dtype() if dtype is None or dtype is int else dtypes.canonicalize_dtype(dtype)
    if not dtypes.is_integer(dtype):
        raise TypeError(f"randint only accepts integer dtypes, got {dtype.name}")
    shape = canonical_shape(shape)
    info = np.iinfo(dtype)
    hi = maxval if not isinstance(maxval, int) else min(maxval, int(info.max))
    over = isinstance(maxval, int) and maxval > info.max
    minval = lax.convert_element_type(as_array("randint", max(minval, int(info.min)) if isinstance(minval, int) else minval), dtype)
    maxval = lax.convert_element_type(as_array("randint", hi), dtype)
    unsigned = np.dtype(f"uint{info.bits}")
    k1, k2 = split(key)
    higher, lower = bits(k1, shape, unsigned), bits(k2, shape, unsigned)
    span = lax.convert_element_type(maxval - minval, unsigned)
    span = jnp.where(maxval <= minval, lax.like(span, 1), span)
    if over:
        span = jnp.where(maxval > minval, span + lax.like(span, 1), span)
    multiplier = lax.rem(lax.like(span, 2 ** (info.bits // 2)), span)
    multiplier = lax.rem(lax.mul(multiplier, multiplier), span)
    offset = lax.add(lax.mul(lax.rem(higher, _wide(span, shape)), _wide(multiplier, shape)), lax.rem(lower, _wide(span, shape)))
    offset = lax.rem(offset, _wide(span, shape))
    return lax.add(_wide(minval, shape), lax.convert_element_type(offset, dtype))


def _wide(x, shape):
    return jnp.broadcast_to(x, shape)


def bernoulli(key, p=0.5, shape=None):
    """Booleans, true with probability p."""
    p = as_array("bernoulli", p)
    p = p if dtypes.is_float(p.dtype) else lax.convert_element_type(p, dtypes.float_dtype())
    shape = p.shape if shape is None else canonical_shape(shape)
    return uniform(key, shape, p.dtype) < p


def gumbel(key, shape=(), dtype=None):
    """Gumbel floats: -log(-log(u))."""
    dtype = _float(dtype, "gumbel")
    u = uniform(key, shape, dtype, float(dtypes.finfo(dtype).tiny), 1.0)
    return lax.neg(lax.log(lax.neg(lax.log(u))))


def exponential(key, shape=(), dtype=None):
    """Exponential floats of rate 1."""
    u = uniform(key, shape, _float(dtype, "exponential"))
    return lax.neg(lax.log1p(lax.neg(u)))


def categorical(key, logits, axis=-1, shape=None):
    """Positions drawn with probabilities softmax(logits) along `axis` (Gumbel-max)."""
    logits = as_array("categorical", logits)
    axis = axis % logits.ndim
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else canonical_shape(shape)
    lead = shape[: len(shape) - len(batch)]
    if shape[len(lead) :] != batch:
        raise ValueError(f"categorical: shape {shape} does not end with the batch shape {batch}")
    at = len(lead) + axis
    full = (*lead, *logits.shape)
    return jnp.argmax(gumbel(key, full, logits.dtype) + jnp.broadcast_to(logits, full), axis=at)


def permutation(key, x, axis=0, independent=False):
    """A random permutation of arange(x), or of the slices of an array along `axis`."""
    key = _key(key)
    if independent:
        raise NotImplementedError("permutation: independent=True is not supported; vmap over split keys instead")
    if isinstance(x, (int, np.integer)) or not get_aval(x).shape:
        return _shuffle(key, jnp.arange(operator.index(x)))
    x = as_array("permutation", x)
    axis = axis % x.ndim
    if x.ndim == 1:
        return _shuffle(key, x)
    return x[(slice(None),) * axis + (_shuffle(key, jnp.arange(x.shape[axis])),)]


def _shuffle(key, x):
    """Sorting by random words, often enough that ties leave no trace."""
    rounds = int(np.ceil(3 * np.log(max(1, x.size)) / np.log(np.iinfo(np.uint32).max)))
    for _ in range(rounds):
        key, sub = split(key)
        x = lax.sort_key_val(bits(sub, x.shape), x)[1]
    return x


def choice(key, a, shape=(), replace=True, p=None, axis=0):
    """Elements drawn from arange(a) or an array; weights p are probabilities."""
    n = operator.index(a) if isinstance(a, (int, np.integer)) or not get_aval(a).shape else get_aval(a).shape[axis]
    shape = canonical_shape(shape)
    count = math.prod(shape)
    if not replace and count > n:
        raise ValueError(f"Cannot take a larger sample (size {count}) than population (size {n}) when 'replace=False'")
    if p is None:
        rows = randint(key, shape, 0, n) if replace else jnp.reshape(permutation(key, n)[:count], shape)
    elif replace:
        cum = jnp.cumsum(as_array("choice", p))
        r = cum[-1] * (1 - uniform(key, shape, cum.dtype))
        rows = jnp.searchsorted(cum, r)
    else:
        g = gumbel(key, (n,), get_aval(p).dtype) + jnp.log(p)
        rows = jnp.reshape(lax.top_k(g, count)[1], shape)
    return rows if isinstance(a, (int, np.integer)) or not get_aval(a).shape else jnp.take(a, rows, axis)


def laplace(key, shape=(), dtype=None):
    """Laplace floats of scale 1."""
    dtype = _float(dtype, "laplace")
    u = uniform(
        key,
        shape,
        dtype,
        -1.0 + float(dtypes.finfo(dtype).epsneg if hasattr(dtypes.finfo(dtype), "epsneg") else dtypes.finfo(dtype).eps),
        1.0,
    )
    return lax.mul(lax.sign(u), lax.log1p(lax.neg(lax.abs(u))))
