"""softmax, log_softmax and logsumexp along one axis."""

from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import exp, mul, sub
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, need_shape, wide_kernel, widen
from fgrad.ops.reduce import argaxis, reduce_sum, spread_back
from fgrad.ops.rules import Zero, bdim_at_front, jvp_by_args, zero_of


def _axis_sum(x, axis):
    """The sum over `axis`, spread back over it."""
    return spread_back(reduce_sum(x, (axis,)), get_aval(x).shape, (axis,))


def _row_primitive(name, n_args, reduces=False):
    """A primitive over rows along `axis`: its first argument gives the shape, the kernel has its name."""

    def abstract_eval(*avals, axis):
        x = avals[0]
        need_float(name, *avals)
        if not 0 <= axis < len(x.shape):
            raise ShapeError(f"{name}: axis {axis} is out of bounds for shape {x.shape}")
        for a in avals[1:]:
            need_shape(name, "the tangent", a, x.shape, x.dtype)
        return ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype) if reduces else x.strong()

    def lower(ctx, ins, params, out_avals):
        return wide_kernel(ctx, name, ins, out_avals, ip=(params["axis"],))[0]

    def batch(size, args, dims, *, axis):
        if n_args == 1:
            d = dims[0]
            out = prim.bind(args[0], axis=axis + (axis >= d))
            return out, d - (reduces and axis < d)
        return prim.bind(*[bdim_at_front(x, d, size.size) for x, d in zip(args, dims)], axis=axis + 1), 0

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower, batch=batch)
    return prim


# d softmax = y * (t - sum(y * t)) is a symmetric map of t: it is its own transpose.
softmax_p = _row_primitive("softmax", 1)
softmax_p.jvp = jvp_by_args(softmax_p, lambda t, out, x, *, axis: softmax_tangent_p.bind(out, t, axis=axis))


def _softmax_tangent(y, t, *, axis):
    dtype = get_aval(t).dtype
    y, t = widen(y), widen(t)
    return [narrow(mul(y, sub(t, _axis_sum(mul(y, t), axis))), dtype)]


softmax_tangent_p = _row_primitive("softmax_tangent", 2)
softmax_tangent_p.jvp = jvp_by_reference(softmax_tangent_p, _softmax_tangent, linear=(1,))
softmax_tangent_p.transpose = lambda cts, y, t, *, axis: [None, softmax_tangent_p.bind(y, cts[0], axis=axis)]

log_softmax_p = _row_primitive("log_softmax", 1)
log_softmax_p.jvp = jvp_by_args(log_softmax_p, lambda t, out, x, *, axis: log_softmax_tangent_p.bind(out, t, axis=axis))


def _log_softmax_tangent(y, t, *, axis):
    dtype = get_aval(t).dtype
    y, t = widen(y), widen(t)
    return [narrow(sub(t, _axis_sum(mul(exp(y), t), axis)), dtype)]


def _log_softmax_cotangent(y, ct, *, axis):
    dtype = get_aval(ct).dtype
    y, ct = widen(y), widen(ct)
    return [narrow(sub(ct, mul(exp(y), _axis_sum(ct, axis))), dtype)]


log_softmax_tangent_p = _row_primitive("log_softmax_tangent", 2)
log_softmax_cotangent_p = _row_primitive("log_softmax_cotangent", 2)
log_softmax_tangent_p.jvp = jvp_by_reference(log_softmax_tangent_p, _log_softmax_tangent, linear=(1,))
log_softmax_cotangent_p.jvp = jvp_by_reference(log_softmax_cotangent_p, _log_softmax_cotangent, linear=(1,))
log_softmax_tangent_p.transpose = lambda cts, y, t, *, axis: [None, log_softmax_cotangent_p.bind(y, cts[0], axis=axis)]
log_softmax_cotangent_p.transpose = lambda cts, y, ct, *, axis: [None, log_softmax_tangent_p.bind(y, cts[0], axis=axis)]


def _both_aval(x, *, axis):
    need_float("softmax_logsumexp", x)
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"softmax_logsumexp: axis {axis} is out of bounds for shape {x.shape}")
    return [x.strong(), ShapedArray(x.shape[:axis] + x.shape[axis + 1 :], x.dtype)]


def _both_batch(size, args, dims, *, axis):
    d = dims[0]
    return softmax_logsumexp_p.bind(args[0], axis=axis + (axis >= d)), [d, d - (axis < d)]


def _both_jvp(primals, tangents, *, axis):
    (x,), (t,) = primals, tangents
    y, lse = softmax_logsumexp_p.bind(x, axis=axis)
    if type(t) is Zero:
        return [y, lse], [zero_of(y), zero_of(lse)]
    return [y, lse], [softmax_tangent_p.bind(y, t, axis=axis), reduce_sum(mul(y, t), (axis,))]


softmax_logsumexp_p = Primitive(
    "softmax_logsumexp",
    multiple_results=True,
    abstract_eval=_both_aval,
    batch=_both_batch,
    jvp=_both_jvp,
    lower=lambda ctx, ins, params, out: wide_kernel(ctx, "softmax_logsumexp", ins, out, ip=(params["axis"],)),
)

logsumexp_p = _row_primitive("logsumexp", 1, reduces=True)


def _logsumexp_jvp(primals, tangents, *, axis):
    """The tangent's mean under the softmax, of which the result is a by-product."""
    (x,), (t,) = primals, tangents
    if type(t) is Zero:
        out = logsumexp_p.bind(x, axis=axis)
        return out, zero_of(out)
    y, out = softmax_logsumexp_p.bind(x, axis=axis)
    return out, reduce_sum(mul(y, t), (axis,))


logsumexp_p.jvp = _logsumexp_jvp


def softmax(x, axis=-1):
    """exp(x) / sum(exp(x)) along `axis`, computed in one pass with the maximum subtracted. x: a real float array."""
    return softmax_p.bind(x, axis=argaxis(x, axis))


def log_softmax(x, axis=-1):
    """x - log(sum(exp(x))) along `axis`. x: a real float array."""
    return log_softmax_p.bind(x, axis=argaxis(x, axis))


def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along `axis`, which the result does not have. x: a real float array."""
    return logsumexp_p.bind(x, axis=argaxis(x, axis))
