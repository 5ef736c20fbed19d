"""rms_norm and layer_norm over the last axis, without weights (the scale and shift around them fuse as elementwise ops), and moments."""

import math

from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import div, integer_pow, like, mul, neg, square, sub
from fgrad.ops.fused import (
    jvp_by_reference,
    last_sum,
    mean_scale,
    narrow,
    need_float,
    need_shape,
    spread_last,
    wide_dtype,
    wide_kernel,
    widen,
)
from fgrad.ops.reduce import argaxis, reduce_sum, spread_back
from fgrad.ops.rules import Zero, bdim_at_front, zero_of


def _last_mean(x):
    """The mean over the last axis, spread back over it."""
    return mul(last_sum(x), mean_scale(x))


def _row_mean(x):
    """The mean over the last axis."""
    return mul(reduce_sum(x, (get_aval(x).ndim - 1,)), mean_scale(x))


def _norm_aval(name):
    def abstract_eval(x, *, eps):
        need_float(name, x)
        if not x.shape:
            raise ShapeError(f"{name} normalises the last axis; got a scalar")
        if not eps >= 0:
            raise ValueError(f"{name}: eps must be 0 or more, got {eps}")
        return [x.strong(), ShapedArray(x.shape[:-1], wide_dtype(x.dtype))]

    return abstract_eval


def _tangent_aval(name):
    def abstract_eval(x, r, t):
        need_float(name, x, r, t)
        need_shape(name, "r", r, x.shape[:-1], wide_dtype(x.dtype))
        need_shape(name, "the tangent", t, x.shape, x.dtype)
        return x.strong()

    return abstract_eval


def _norm(name, tangent_of, r_tangent, tangent_reference):
    """(norm primitive with results y and r = 1 / the root, its tangent primitive).

    tangent_of(x, y) picks what the tangent kernel reads beside r; r_tangent(that, r, t) is the tangent of r.
    """

    def batch(axis, args, dims, *, eps):
        d, n = dims[0], get_aval(args[0]).ndim
        x, d = (bdim_at_front(args[0], d, axis.size), 0) if d == n - 1 else (args[0], d)
        return prim.bind(x, eps=eps), [d, d]

    def jvp(primals, tangents, *, eps):
        (x,), (t,) = primals, tangents
        y, r = prim.bind(x, eps=eps)
        if type(t) is Zero:
            return [y, r], [zero_of(y), zero_of(r)]
        z = tangent_of(x, y)
        return [y, r], [tangent.bind(z, r, t), r_tangent(widen(z), r, widen(t))]

    def reference(z, r, t):
        dtype = get_aval(t).dtype
        z, t = widen(z), widen(t)
        return [narrow(tangent_reference(z, spread_last(r, get_aval(z).shape), t), dtype)]

    prim = Primitive(
        name,
        multiple_results=True,
        abstract_eval=_norm_aval(name),
        jvp=jvp,
        batch=batch,
        lower=lambda ctx, ins, params, out: wide_kernel(ctx, name, ins, out, fp=(params["eps"],)),
    )
    tname = name + "_tangent"
    tangent = Primitive(
        tname,
        abstract_eval=_tangent_aval(tname),
        lower=lambda ctx, ins, params, out: wide_kernel(ctx, tname, ins, out)[0],
        batch=lambda axis, args, dims: (tangent.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)]), 0),
        transpose=lambda cts, z, r, t: [None, None, tangent.bind(z, r, cts[0])],
    )
    tangent.jvp = jvp_by_reference(tangent, reference, linear=(2,))
    return prim, tangent


# Both maps of t are symmetric, so each tangent primitive is its own transpose.
rms_norm_p, rms_norm_tangent_p = _norm(
    "rms_norm",
    lambda x, y: x,
    lambda x, r, t: neg(mul(integer_pow(r, 3), _row_mean(mul(x, t)))),
    lambda x, r, t: mul(r, sub(t, mul(mul(x, square(r)), _last_mean(mul(x, t))))),
)

layer_norm_p, layer_norm_tangent_p = _norm(
    "layer_norm",
    lambda x, y: y,
    lambda y, r, t: neg(mul(square(r), _row_mean(mul(y, t)))),
    lambda y, r, t: mul(r, sub(sub(t, _last_mean(t)), mul(y, _last_mean(mul(y, t))))),
)


def _moments_aval(x, *, axis):
    need_float("moments", x)
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"moments: axis {axis} is out of bounds for shape {x.shape}")
    return [ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype)] * 2


def _moments_reference(x, *, axis):
    dtype, x = get_aval(x).dtype, widen(x)
    mean = div(reduce_sum(x, (axis,)), like(x, get_aval(x).shape[axis]))
    return [narrow(mean, dtype), narrow(reduce_sum(square(_deviations(x, mean, axis)), (axis,)), dtype)]


def _deviations(x, mean, axis):
    return sub(x, spread_back(mean, get_aval(x).shape, (axis,)))


def _moments_lower(ctx, ins, params, out_avals):
    """The kernel goes by parts of long rows, rows, or tiles of columns: where those are few, sums of fused operations use more threads."""
    x, axis = _in_order_of_memory(ctx, ins[0], params["axis"])
    shape = x.shape
    rows = math.prod(shape[:axis]) * -(-math.prod(shape[axis + 1 :]) // 64)
    parts = math.prod(shape[axis + 1 :]) == 1 and shape[axis] >= 1 << 16
    if 0 in shape or (rows < 8 and math.prod(shape) > 1 << 14 and not parts):
        return ctx.compose(lambda x: _moments_reference(x, axis=axis), [x])
    return wide_kernel(ctx, "moments", [x], out_avals, ip=(axis,))


def _in_order_of_memory(ctx, x, axis):
    """(a view of x's axes as they lie in memory, where `axis` is there), if the others keep their order and no copy is needed then."""
    order = sorted(range(len(x.shape)), key=lambda i: (x.shape[i] != 1, -x.strides[i]))
    turned, left = ctx.transpose(x, order), [i for i in order if i != axis]
    return (turned, order.index(axis)) if left == sorted(left) and turned.contiguous else (x, axis)


def _moments_batch(size, args, dims, *, axis):
    d = dims[0]
    return moments_p.bind(args[0], axis=axis + (axis >= d)), [d - (axis < d)] * 2


def _moments_jvp(primals, tangents, *, axis):
    (x,), (t,) = primals, tangents
    mean, squares = moments_p.bind(x, axis=axis)
    if type(t) is Zero:
        return [mean, squares], [zero_of(mean), zero_of(squares)]
    mean_tangent = div(reduce_sum(t, (axis,)), like(t, get_aval(t).shape[axis]))
    along = reduce_sum(mul(_deviations(x, mean, axis), t), (axis,))  # deviations add up to 0, so the mean's tangent takes no part
    return [mean, squares], [mean_tangent, mul(along, like(along, 2))]


moments_p = Primitive(
    "moments", multiple_results=True, abstract_eval=_moments_aval, jvp=_moments_jvp, batch=_moments_batch, lower=_moments_lower
)


def moments(x, axis):
    """(mean, sum of squared deviations from it) along `axis`, which the results do not have. x: a real float array."""
    return moments_p.bind(x, axis=argaxis(x, axis))


def rms_norm(x, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) over the last axis (Zhang and Sennrich, Root mean square layer normalization, 2019)."""
    return rms_norm_p.bind(x, eps=float(eps))[0]


def layer_norm(x, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) over the last axis (Ba, Kiros and Hinton, Layer normalization, 2016)."""
    return layer_norm_p.bind(x, eps=float(eps))[0]
