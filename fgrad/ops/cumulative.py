"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp.

cumsum is linear. The others differentiate as the scan that they are: pairs (value, tangent) are combined over distances 1, 2, 4, ...
(Hillis and Steele, Data parallel algorithms, 1986), which is exact where factors are zero and shares ties evenly.
"""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, div, eq, exp, is_finite, like, log, max, min, mul, select, sub
from fgrad.ops.reduce import argaxis
from fgrad.ops.rules import full, jvp_by_args
from fgrad.ops.shape import pad

_KINDS = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def _cumulative(name, kinds):
    def abstract_eval(x, *, axis, reverse):
        if x.dtype.kind not in kinds and x.dtype != dtypes.BFLOAT16:
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


def _scan(combine, values, fills, axis, reverse):
    """The inclusive scan of a tuple of arrays under combine(before, here); `fills` are the values of an empty range."""
    shape = get_aval(values[0]).shape
    step = 1
    while step < shape[axis]:
        config = [(0, 0, 0)] * len(shape)
        config[axis] = (-step, step, 0) if reverse else (step, -step, 0)
        before = [pad(v, like(v, f), tuple(config)) for v, f in zip(values, fills)]
        values = combine(before, values)
        step *= 2
    return values


def _cumprod_jvp(t, out, x, *, axis, reverse):
    def combine(a, b):
        return [mul(a[0], b[0]), add(mul(a[1], b[0]), mul(a[0], b[1]))]

    return _scan(combine, [x, t], (1, 0), axis, reverse)[1]


def _cumextremum_jvp(pick, empty):
    def rule(t, out, x, *, axis, reverse):
        """The mean of the tangents where the extremum so far is attained."""

        def combine(a, b):
            m = pick(a[0], b[0])
            from_a, from_b = eq(a[0], m), eq(b[0], m)
            zero = like(t, 0)
            return [m, *[add(select(from_a, p, zero), select(from_b, q, zero)) for p, q in zip(a[1:], b[1:])]]

        ones = full(get_aval(t).shape, 1, get_aval(t).dtype)
        _, total, count = _scan(combine, [x, t, ones], (empty, 0, 0), axis, reverse)
        return div(total, count)

    return rule


def _cumlogsumexp_jvp(t, out, x, *, axis, reverse):
    def combine(a, b):
        m = max(a[0], b[0])
        safe = select(is_finite(m), m, like(m, 0))
        wa, wb = exp(sub(a[0], safe)), exp(sub(b[0], safe))
        total = add(wa, wb)
        norm = select(eq(total, like(total, 0)), like(total, 1), total)
        value = select(eq(total, like(total, 0)), like(total, -np.inf), add(safe, log(norm)))
        return [value, add(mul(div(wa, norm), a[1]), mul(div(wb, norm), b[1]))]

    return _scan(combine, [x, t], (-np.inf, 0), axis, reverse)[1]


cumprod_p.jvp = jvp_by_args(cumprod_p, _cumprod_jvp)
cummax_p.jvp = jvp_by_args(cummax_p, _cumextremum_jvp(max, -np.inf))
cummin_p.jvp = jvp_by_args(cummin_p, _cumextremum_jvp(min, np.inf))
cumlogsumexp_p.jvp = jvp_by_args(cumlogsumexp_p, _cumlogsumexp_jvp)
