"""Rotary position embedding: pairs of components turned by given angles (Su et al., RoFormer, 2021)."""

from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, mul, neg, sub
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, wide_dtype, wide_kernel, widen
from fgrad.ops.rules import bdim_at_front, broadcast_in_dim
from fgrad.ops.shape import concatenate, reshape, slice_in_dim


def _rope_aval(x, cos, sin, *, interleaved, inverse):
    need_float("rope", x, cos, sin)
    if not x.shape:
        raise ShapeError("rope turns pairs of the last axis; got a scalar")
    for name, a in (("cos", cos), ("sin", sin)):
        if a.shape != cos.shape or a.shape[:-1] != x.shape[:-1] or not a.shape or 2 * a.shape[-1] > x.shape[-1]:
            raise ShapeError(
                f"rope: {name} has shape {a.shape}; it needs x's leading axes {x.shape[:-1]} and at most half of x's "
                f"last axis {x.shape[-1]}, as many for cos {cos.shape} as for sin {sin.shape}"
            )
        if a.dtype not in (x.dtype, wide_dtype(x.dtype)):
            raise TypeError(f"rope: {name} is {a.dtype.name} and x {x.dtype.name}; cast {name} with astype")
    return x.strong()


def _reference(x, cos, sin, *, interleaved, inverse):
    aval, half = get_aval(x), get_aval(cos).shape[-1]
    x, cos, sin = widen(x), widen(cos), widen(sin)
    sin = neg(sin) if inverse else sin
    lead, last = aval.shape[:-1], aval.ndim - 1
    turned, rest = slice_in_dim(x, 0, 2 * half, axis=last), slice_in_dim(x, 2 * half, None, axis=last)
    axis = last + 1 if interleaved else last
    pairs = reshape(turned, (*lead, half, 2) if interleaved else (*lead, 2, half))
    x1, x2 = (reshape(slice_in_dim(pairs, k, k + 1, axis=axis), (*lead, half)) for k in (0, 1))
    y1, y2 = sub(mul(x1, cos), mul(x2, sin)), add(mul(x2, cos), mul(x1, sin))
    one = (*lead, half, 1) if interleaved else (*lead, 1, half)
    out = reshape(concatenate([reshape(y1, one), reshape(y2, one)], axis), (*lead, 2 * half))
    return [narrow(concatenate([out, rest], last), aval.dtype)]


def _rope_batch(axis, args, dims, **params):
    return rope_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)], **params), 0


def _rope_lower(ctx, ins, params, out_avals):
    return wide_kernel(ctx, "rope", ins, out_avals, ip=(params["interleaved"], params["inverse"], False), contiguous=False)[0]


rope_p = Primitive("rope", abstract_eval=_rope_aval, lower=_rope_lower, batch=_rope_batch)
rope_p.jvp = jvp_by_reference(rope_p, _reference, linear=(0,))
# A rotation's transpose is the rotation back.
rope_p.transpose = lambda cts, x, cos, sin, *, interleaved, inverse: [
    rope_p.bind(cts[0], cos, sin, interleaved=interleaved, inverse=not inverse),
    None,
    None,
]


def rope(x, cos, sin, interleaved=False, inverse=False):
    """x (..., D) with its first 2 * n components turned in pairs by the angles whose cos and sin (..., n) are given.

    Pairs are (x[i], x[i + n]), or (x[2i], x[2i + 1]) when interleaved; the other components are copied. The leading axes of cos
    and sin broadcast to x's. `inverse` turns the other way.
    """
    shape = get_aval(x).shape
    spread = []
    for a in (cos, sin):
        s = get_aval(a).shape
        if not shape or not s or len(s) > len(shape) or any(m not in (1, n) for m, n in zip(s[-2::-1], shape[-2::-1])):
            raise ShapeError(f"rope: cos and sin of shape {s} do not broadcast to the leading axes of x {shape}")
        spread.append(broadcast_in_dim(a, (*shape[:-1], s[-1]), tuple(range(len(shape) - len(s), len(shape)))))
    return rope_p.bind(x, *spread, interleaved=bool(interleaved), inverse=bool(inverse))
