"""softplus, whose derivatives of every order are those of the logistic, gelu, and the SwiGLU gate with one pass for both cotangents."""

import math

from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, clamp, exp, like, logistic, mul, square, sub
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, wide_kernel, widen
from fgrad.ops.rules import Zero, align_batch, elementwise, instantiate, is_linear, jvp_by_args, zero_of


def _softplus_lower(ctx, ins, params, out_avals):
    """max(x, 0) + log(1 + exp(-|x|))"""
    (x,), aval = ins, out_avals[0]
    tail = ctx.elementwise("exp", [ctx.elementwise("neg", [ctx.elementwise("abs", [x], aval)], aval)], aval)
    top = ctx.elementwise("max", [x, ctx.scalar(0, aval.dtype)], aval)
    return ctx.elementwise("add", [top, ctx.elementwise("log1p", [tail], aval)], aval)


softplus_p = elementwise("softplus", "f", lower=_softplus_lower)
softplus_p.jvp = jvp_by_args(softplus_p, lambda t, out, x: mul(t, logistic(x)))


def softplus(x):
    """log(1 + exp(x)) without overflow, for real floats."""
    return softplus_p.bind(x)


# --- gelu -------------------------------------------------------------------------------------------------------------
# Each with a primitive for its derivative, so that a gradient computes one exponential and keeps only x.

_A, _B = 2 * math.sqrt(2 / math.pi), 0.044715 * 2 * math.sqrt(2 / math.pi)


def _gelu_curve(t, out, x):
    """The second derivative of x s(u), u = x (A + B x^2): 2 s' u' + x (s'' u'^2 + s' u''), with s' = s (1 - s), s'' = s' (1 - 2 s)."""
    x = clamp(like(x, -30), x, like(x, 30))  # beyond, it is 0
    z = square(x)
    s = logistic(mul(x, add(like(x, _A), mul(like(x, _B), z))))
    first, bend = mul(s, sub(like(s, 1), s)), sub(like(s, 1), mul(like(s, 2), s))
    slope = add(like(x, _A), mul(like(x, 3 * _B), z))
    inner = add(mul(bend, square(slope)), mul(like(x, 6 * _B), x))
    return mul(t, mul(first, add(mul(like(x, 2), slope), mul(x, inner))))


gelu_slope_p = elementwise("gelu_slope", "f")
gelu_slope_p.jvp = jvp_by_args(gelu_slope_p, _gelu_curve)
gelu_p = elementwise("gelu", "f")
gelu_p.jvp = jvp_by_args(gelu_p, lambda t, out, x: mul(t, gelu_slope_p.bind(x)))


def _gelu_exact_curve(t, out, x):
    """(2 - x^2) times the normal density."""
    x = clamp(like(x, -40), x, like(x, 40))
    z = square(x)
    density = mul(like(x, 1 / math.sqrt(2 * math.pi)), exp(mul(like(x, -0.5), z)))
    return mul(t, mul(sub(like(x, 2), z), density))


gelu_exact_slope_p = elementwise("gelu_exact_slope", "f")
gelu_exact_slope_p.jvp = jvp_by_args(gelu_exact_slope_p, _gelu_exact_curve)
gelu_exact_p = elementwise("gelu_exact", "f")
gelu_exact_p.jvp = jvp_by_args(gelu_exact_p, lambda t, out, x: mul(t, gelu_exact_slope_p.bind(x)))


def gelu(x, approximate=True):
    """x times the normal distribution function of x, approximated by the logistic function of x (A + B x^2), or exactly."""
    return (gelu_p if approximate else gelu_exact_p).bind(x)


# --- swiglu -----------------------------------------------------------------------------------------------------------


def _aval(name, results=None):
    def abstract_eval(*avals):
        need_float(name, *avals)
        if any(a.shape != avals[0].shape or a.dtype != avals[0].dtype for a in avals):
            raise ShapeError(f"{name} takes arrays of one shape and dtype, got {', '.join(a.short() for a in avals)}")
        out = avals[0].strong()
        return [out] * results if results else out

    return abstract_eval


def _batch(prim):
    def batch(axis, args, dims):
        args, d = align_batch(args, dims)
        out = prim.bind(*args)
        return (out, [d] * len(out)) if prim.multiple_results else (out, d)

    return batch


def _slope(g, s):
    """The derivative of silu: s + g s (1 - s), where s = sigmoid(g)."""
    return mul(s, add(like(g, 1), mul(g, sub(like(s, 1), s))))


def _tangent(g, u, tg, tu):
    dtype = get_aval(g).dtype
    g, u, tg, tu = map(widen, (g, u, tg, tu))
    s = logistic(g)
    return [narrow(add(mul(mul(tg, u), _slope(g, s)), mul(tu, mul(g, s))), dtype)]


def _cotangent(g, u, ct):
    dtype = get_aval(g).dtype
    g, u, ct = map(widen, (g, u, ct))
    s = logistic(g)
    return [narrow(mul(mul(ct, u), _slope(g, s)), dtype), narrow(mul(ct, mul(g, s)), dtype)]


def _swiglu_jvp(primals, tangents):
    out = swiglu_p.bind(*primals)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    return out, swiglu_tangent_p.bind(*primals, *map(instantiate, tangents))


def _tangent_transpose(cts, g, u, tg, tu):
    dg, du = swiglu_cotangent_p.bind(g, u, cts[0])
    return [None, None, dg if is_linear(tg) else None, du if is_linear(tu) else None]


swiglu_p = Primitive(
    "swiglu",
    abstract_eval=_aval("swiglu"),
    jvp=_swiglu_jvp,
    transpose=lambda cts, g, u: [None, swiglu_p.bind(g, cts[0])],  # linear in u
    lower=lambda ctx, ins, params, out: wide_kernel(ctx, "swiglu", ins, out)[0],
)
swiglu_tangent_p = Primitive(
    "swiglu_tangent",
    abstract_eval=_aval("swiglu_tangent"),
    transpose=_tangent_transpose,
    lower=lambda ctx, ins, params, out: ctx.compose(_tangent, ins)[0],
)
swiglu_cotangent_p = Primitive(
    "swiglu_cotangent",
    multiple_results=True,
    abstract_eval=_aval("swiglu_cotangent", 2),
    transpose=lambda cts, g, u, ct: [None, None, swiglu_tangent_p.bind(g, u, *map(instantiate, cts))],
    lower=lambda ctx, ins, params, out: wide_kernel(ctx, "swiglu_cotangent", ins, out),
)
swiglu_tangent_p.jvp = jvp_by_reference(swiglu_tangent_p, _tangent, linear=(2, 3))
swiglu_cotangent_p.jvp = jvp_by_reference(swiglu_cotangent_p, _cotangent, linear=(2,))
for _p in (swiglu_p, swiglu_tangent_p, swiglu_cotangent_p):
    _p.batch = _batch(_p)


def swiglu(g, u):
    """silu(g) * u with silu(g) = g * sigmoid(g), for floats of one shape (Shazeer, GLU variants improve transformer, 2020)."""
    return swiglu_p.bind(g, u)
