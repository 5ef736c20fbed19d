"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp.

cumsum is linear. The tangent of cumprod is a linear recurrence, dy_k = x_k dy_(k-1) + y_(k-1) dx_k, which is exact where factors are zero;
so is the tangent of a recurrence, and its transpose, and those of the others, by what they give: ties share evenly.
"""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import div, eq, exp, like, mul, select, sub
from fgrad.ops.fused import jvp_by_reference, need_shape, wide_kernel
from fgrad.ops.reduce import argaxis, set_prod_ops
from fgrad.ops.rules import bdim_at_front, jvp_by_args
from fgrad.ops.shape import pad

_KINDS = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def _cumulative(name, kinds):
    def abstract_eval(x, *, axis, reverse):
        if dtypes.kind_of(x.dtype) not in kinds:
            raise TypeError(f"{name} does not accept dtype {x.dtype.name}")
        if not 0 <= axis < len(x.shape):
            raise ShapeError(f"{name}: axis {axis} is out of bounds for array of shape {x.shape}")
        return x

    def lower(ctx, ins, params, out_avals):
        ip = (_KINDS.index(name), params["axis"], int(params["reverse"]))
        return ctx.kernel("cumulative", ins, out_avals, ip=ip, contiguous=False)[0]

    def batch(size, args, dims, *, axis, reverse):
        d = dims[0]
        return prim.bind(args[0], axis=axis + (axis >= d), reverse=reverse), d

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower, batch=batch)

    def fun(operand, axis=0, reverse=False):
        return prim.bind(operand, axis=argaxis(operand, axis), reverse=bool(reverse))

    fun.__name__ = fun.__qualname__ = name
    return prim, fun


cumsum_p, cumsum = _cumulative("cumsum", "iufc")
cumprod_p, cumprod = _cumulative("cumprod", "iufc")
cummax_p, cummax = _cumulative("cummax", "biuf")
cummin_p, cummin = _cumulative("cummin", "biuf")
cumlogsumexp_p, cumlogsumexp = _cumulative("cumlogsumexp", "f")
cumsum.__doc__ = """Running sum along `axis` (from the end if reverse). Accepts numbers; 16-bit floats accumulate in float32."""
cumprod.__doc__ = """Running product along `axis` (from the end if reverse)."""
cummax.__doc__ = """Running maximum along `axis` (from the end if reverse); NaN once one was met."""
cummin.__doc__ = """Running minimum along `axis` (from the end if reverse); NaN once one was met."""
cumlogsumexp.__doc__ = """Running log(sum(exp(x))) along `axis` (from the end if reverse), for floats."""

cumsum_p.jvp = jvp_by_args(cumsum_p, lambda t, out, x, *, axis, reverse: cumsum(t, axis, reverse))
cumsum_p.transpose = lambda cts, x, *, axis, reverse: [cumsum(cts[0], axis, not reverse)]


def _before(x, axis, reverse, fill):
    """Each element's predecessor in the scan, `fill` for the first."""
    config = [(0, 0, 0)] * len(get_aval(x).shape)
    config[axis] = (-1, 1, 0) if reverse else (1, -1, 0)
    return pad(x, like(x, fill), tuple(config))


def _recurrence_aval(a, b, *, axis, reverse, lag):
    if not 0 <= axis < len(a.shape):
        raise ShapeError(f"linear_recurrence: axis {axis} is out of bounds for array of shape {a.shape}")
    if not dtypes.is_inexact(a.dtype):
        raise TypeError(f"linear_recurrence does not accept dtype {a.dtype.name}")
    need_shape("linear_recurrence", "b", b, a.shape, a.dtype)
    return a.strong()


def _recurrence_batch(size, args, dims, *, axis, reverse, lag):
    a, b = (bdim_at_front(x, d, size.size) for x, d in zip(args, dims))
    return linear_recurrence_p.bind(a, b, axis=axis + 1, reverse=reverse, lag=lag), 0


def _coefficient_tangent(t, s, a, b, *, axis, reverse, lag):
    change = _before(mul(t, s), axis, reverse, 0) if lag else mul(t, _before(s, axis, reverse, 0))
    return linear_recurrence(a, change, axis, reverse, lag)


linear_recurrence_p = Primitive(
    "linear_recurrence",
    abstract_eval=_recurrence_aval,
    batch=_recurrence_batch,
    lower=lambda ctx, ins, p, outs: wide_kernel(ctx, "recurrence", ins, outs, ip=(p["axis"], int(p["reverse"]), int(p["lag"])))[0],
)
linear_recurrence_p.jvp = jvp_by_args(
    linear_recurrence_p,
    _coefficient_tangent,
    lambda t, s, a, b, *, axis, reverse, lag: linear_recurrence(a, t, axis, reverse, lag),
)
linear_recurrence_p.transpose = lambda cts, a, b, *, axis, reverse, lag: [None, linear_recurrence(a, cts[0], axis, not reverse, not lag)]


def linear_recurrence(a, b, axis=0, reverse=False, lag=False):
    """s_k = a_k s_(k-1) + b_k along `axis` (from the end if reverse), from s_(-1) = 0; with lag s_k = a_(k-1) s_(k-1) + b_k.

    a, b: real or complex floats of one shape and dtype, which the result has. Linear in b.
    """
    return linear_recurrence_p.bind(a, b, axis=argaxis(a, axis), reverse=bool(reverse), lag=bool(lag))


def _cumprod_jvp(t, out, x, *, axis, reverse):
    return linear_recurrence(x, mul(t, _before(out, axis, reverse, 1)), axis, reverse)


def _other_products_aval(x, *, axis):
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"other_products: axis {axis} is out of bounds for array of shape {x.shape}")
    if not dtypes.is_inexact(x.dtype):
        raise TypeError(f"other_products does not accept dtype {x.dtype.name}")
    return x.strong()


def _other_products_reference(x, *, axis):
    return [mul(cumprod(_before(x, axis, False, 1), axis), cumprod(_before(x, axis, True, 1), axis, True))]


def _other_products_batch(size, args, dims, *, axis):
    return other_products_p.bind(args[0], axis=axis + (axis >= dims[0])), dims[0]


other_products_p = Primitive(
    "other_products",
    abstract_eval=_other_products_aval,
    batch=_other_products_batch,
    lower=lambda ctx, ins, params, outs: wide_kernel(ctx, "other_products", ins, outs, ip=(params["axis"],))[0],
)
other_products_p.jvp = jvp_by_reference(other_products_p, _other_products_reference, linear=())


def other_products(x, axis):
    """The product of all elements along `axis` but the one itself, in each one's place: the derivative of the product. x: floats."""
    return other_products_p.bind(x, axis=argaxis(x, axis))


def _cumextremum_jvp(empty):
    def rule(t, out, x, *, axis, reverse):
        """The mean of the tangents where the extremum so far is attained; 0 from a NaN on."""
        zero, one = like(t, 0), like(t, 1)
        goes_on, here = eq(_before(out, axis, reverse, empty), out), eq(x, out)
        goes_on = select(goes_on, one, zero)
        total = linear_recurrence(goes_on, select(here, t, zero), axis, reverse)
        count = linear_recurrence(goes_on, select(here, one, zero), axis, reverse)
        return div(total, select(eq(count, zero), one, count))  # none is NaN

    return rule


def _cumlogsumexp_jvp(t, out, x, *, axis, reverse):
    """dy_k = exp(y_(k-1) - y_k) dy_(k-1) + exp(x_k - y_k) dx_k: no factor is above 1. Infinity is the sum, two share it."""
    before = _before(out, axis, reverse, -np.inf)
    safe = select(eq(out, like(out, -np.inf)), like(out, 0), out)
    one, infinite = like(x, 1), like(x, np.inf)
    share = select(eq(before, infinite), select(eq(x, infinite), like(x, 0.5), one), one)
    kept, new = (select(eq(v, infinite), share, exp(sub(v, safe))) for v in (before, x))
    return linear_recurrence(kept, mul(new, t), axis, reverse)


cumprod_p.jvp = jvp_by_args(cumprod_p, _cumprod_jvp)
cummax_p.jvp = jvp_by_args(cummax_p, _cumextremum_jvp(-np.inf))
cummin_p.jvp = jvp_by_args(cummin_p, _cumextremum_jvp(np.inf))
cumlogsumexp_p.jvp = jvp_by_args(cumlogsumexp_p, _cumlogsumexp_jvp)

set_prod_ops(other_products=other_products)
