"""Random bits: the threefry-2x32 hash (Salmon et al., 2011) and the counters that key splitting and drawing use."""

import math

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, convert_element_type, div, exp, like, mul, neg, square
from fgrad.ops.rules import align_batch, bdim_at_front, broadcast_to, elementwise, jvp_by_args, nary_aval, same_dtypes, zero_jvp
from fgrad.ops.shape import expand_dims

_BITS = {8: np.dtype(np.uint8), 16: np.dtype(np.uint16), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


def _hash_aval(*avals):
    same_dtypes("threefry2x32", avals)
    if avals[0].dtype != dtypes.UINT32:
        raise TypeError(f"threefry2x32 takes uint32 words, got {avals[0].dtype.name}")
    out = nary_aval("threefry2x32", avals).strong()
    return [out, out]


def _hash_lower(ctx, ins, params, out_avals):
    shape = out_avals[0].shape
    ins = [v if v.shape == shape else ctx.broadcast(v, shape, ()) for v in ins]
    return ctx.kernel("threefry2x32", ins, out_avals, contiguous=False)


def _hash_batch(axis, args, dims):
    args, dim = align_batch(args, dims)
    return threefry2x32_p.bind(*args), [dim, dim]


threefry2x32_p = Primitive("threefry2x32", multiple_results=True, abstract_eval=_hash_aval, lower=_hash_lower, batch=_hash_batch)
threefry2x32_p.jvp = zero_jvp(threefry2x32_p)


def _check_key(name, key):
    if key.dtype != dtypes.UINT32 or not key.shape or key.shape[-1] != 2:
        raise ShapeError(f"{name}: a key is a uint32 array of shape (2,), got {key}")


def _from_key(name, out_shape, out_dtype, ip):
    """A primitive that draws from keys of shape (..., 2); each key counts from 0."""

    def abstract_eval(key, **params):
        _check_key(name, key)
        return ShapedArray((*key.shape[:-1], *out_shape(params)), out_dtype(params))

    def batch(axis, args, dims, **params):
        return prim.bind(bdim_at_front(args[0], dims[0], axis.size), **params), 0

    prim = Primitive(
        name,
        abstract_eval=abstract_eval,
        batch=batch,
        lower=lambda ctx, ins, params, out_avals: ctx.kernel(kernel, ins, out_avals, ip=ip(params))[0],
    )
    kernel = name
    prim.jvp = zero_jvp(prim)
    return prim


threefry_bits_p = _from_key("threefry_bits", lambda p: p["shape"], lambda p: _BITS[p["bit_width"]], lambda p: (p["bit_width"],))
threefry_split_p = _from_key("threefry_split", lambda p: (*p["shape"], 2), lambda p: dtypes.UINT32, lambda p: ())


def threefry2x32(k1, k2, x1, x2):
    """The two words of the hash of counter (x1, x2) under key (k1, k2), element by element."""
    shape = max((get_aval(v).shape for v in (k1, k2, x1, x2)), key=len)
    return threefry2x32_p.bind(*[broadcast_to(v, shape) for v in (k1, k2, x1, x2)])


def _gamma_aval(key, d):
    _check_key("random_gamma", key)
    if key.shape[:-1] != d.shape or d.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64):
        raise ShapeError(f"random_gamma: a key for each element of a float32 or float64 array expected, got {key} and {d}")
    return ShapedArray(d.shape, d.dtype)


def _gamma_batch(axis, args, dims):
    return random_gamma_p.bind(*(bdim_at_front(x, dim, axis.size) for x, dim in zip(args, dims))), 0


random_gamma_p = Primitive(
    "random_gamma",
    abstract_eval=_gamma_aval,
    batch=_gamma_batch,
    lower=lambda ctx, ins, params, out_avals: ctx.kernel("random_gamma", ins, out_avals)[0],
)
random_gamma_p.jvp = zero_jvp(random_gamma_p)


def _pick_aval(key, logits, *, draws):
    _check_key("threefry_pick", key)
    lead = key.shape[:-1]
    fits = len(logits.shape) == len(lead) + 2 and all(n in (1, m) for n, m in zip(logits.shape, lead)) and logits.shape[-1] > 0
    if not fits or logits.dtype != dtypes.FLOAT32:
        raise ShapeError(
            f"threefry_pick: float32 logits (..., rows, n) whose leading axes are the key's or 1 expected, got {key} and {logits}"
        )
    return ShapedArray((*lead, draws, logits.shape[-2]), dtypes.INT32)


def _pick_batch(axis, args, dims, *, draws):
    key, logits = args
    key = bdim_at_front(key, dims[0], axis.size)
    logits = expand_dims(logits, (0,)) if dims[1] is None else bdim_at_front(logits, dims[1], axis.size)
    return threefry_pick_p.bind(key, logits, draws=draws), 0


# the first positions of the greatest of logits (..., rows, n) plus Gumbel noise, in each of `draws` draws of each key
threefry_pick_p = Primitive(
    "threefry_pick",
    abstract_eval=_pick_aval,
    batch=_pick_batch,
    lower=lambda ctx, ins, params, out_avals: ctx.kernel("threefry_pick", ins, out_avals)[0],
)
threefry_pick_p.jvp = zero_jvp(threefry_pick_p)


def rounded(x):
    """A 16-bit float rounded to its dtype at this point: a compiled chain of operations keeps float32 otherwise."""
    dtype = get_aval(x).dtype
    return x if dtype.itemsize > 2 else convert_element_type(convert_element_type(x, dtypes.FLOAT32), dtype)


def _unary(name, derivative):
    """log, log1p, erf or erf_inv with the roundings of XLA's CPU backend (see scalar_sample.h)."""
    prim = elementwise(name, "f")
    prim.jvp = jvp_by_args(prim, derivative)

    def fun(x):
        return rounded(prim.bind(x))

    fun.__name__ = fun.__qualname__ = name
    return fun


sample_log = _unary("sample_log", lambda t, out, x: div(t, x))
sample_log1p = _unary("sample_log1p", lambda t, out, x: div(t, add(x, like(x, 1))))
sample_erf = _unary("sample_erf", lambda t, out, x: mul(t, mul(like(x, 2 / math.sqrt(math.pi)), exp(neg(square(x))))))
sample_erf_inv = _unary("sample_erf_inv", lambda t, out, x: mul(t, mul(like(x, math.sqrt(math.pi) / 2), exp(square(out)))))

# x * y + z, rounded once
fma_p = elementwise("fma", "f")
fma_p.jvp = jvp_by_args(fma_p, lambda t, out, x, y, z: mul(t, y), lambda t, out, x, y, z: mul(x, t), lambda t, out, x, y, z: t)


def fma(x, y, z):
    """x * y + z as the machine's vector code computes it: rounded once in float32 and float64, twice in 16-bit floats."""
    if get_aval(x).dtype.itemsize < 4:
        return rounded(add(rounded(mul(x, y)), z))
    return fma_p.bind(x, y, z)
