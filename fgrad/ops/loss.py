"""Softmax cross-entropy against integer labels: the loss, its lse and its derivative each read the logits once."""

import math

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import bitwise_and, convert_element_type, eq, exp, ge, like, lt, mul, neg, select, sub
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, need_shape, spread_last, wide_dtype, wide_kernel, widen
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, zero_of
from fgrad.ops.shape import broadcasted_iota
from fgrad.ops.softmax import log_softmax, logsumexp

NARROW = 24  # classes: rows of fewer go as columns in softmax, and what else there is to do fuses


def _check(name, logits, labels):
    need_float(name, logits)
    if not logits.shape:
        raise ShapeError(f"{name}: logits need a last axis of classes, got a scalar")
    if labels.dtype not in (dtypes.INT32, dtypes.INT64):
        raise TypeError(f"{name}: labels must be int32 or int64 class indices, got {labels.dtype.name}")
    need_shape(name, "labels", labels, logits.shape[:-1])


def _loss_aval(logits, labels):
    _check("cross_entropy", logits, labels)
    return [ShapedArray(logits.shape[:-1], logits.dtype), ShapedArray(logits.shape[:-1], wide_dtype(logits.dtype))]


def _tangent_aval(logits, lse, labels, t):
    _check("cross_entropy_tangent", logits, labels)
    need_shape("cross_entropy_tangent", "lse", lse, logits.shape[:-1], wide_dtype(logits.dtype))
    need_shape("cross_entropy_tangent", "the tangent", t, logits.shape, logits.dtype)
    return ShapedArray(logits.shape[:-1], logits.dtype)


def _cotangent_aval(logits, lse, labels, ct):
    _check("cross_entropy_cotangent", logits, labels)
    need_shape("cross_entropy_cotangent", "lse", lse, logits.shape[:-1], wide_dtype(logits.dtype))
    need_shape("cross_entropy_cotangent", "the cotangent", ct, logits.shape[:-1], logits.dtype)
    return logits.strong()


def _rows(name, full, reference):
    """Lowering: the kernels take (rows, classes); `full` marks the operands that have the class axis. Narrow rows fuse."""

    def lower(ctx, ins, params, out_avals):
        shape = ins[0].shape
        if 0 < shape[-1] < NARROW:
            outs = ctx.compose(reference, ins)
            return outs if len(outs) > 1 else outs[0]
        rows = math.prod(shape[:-1])
        flat = [ctx.reshape(v, (rows, shape[-1]) if has else (rows,)) for v, has in zip(ins, full)]
        avals = [a.update(shape=(rows, shape[-1]) if a.shape == shape else (rows,)) for a in out_avals]
        outs = [ctx.reshape(v, a.shape) for v, a in zip(wide_kernel(ctx, name, flat, avals), out_avals)]
        return outs if len(outs) > 1 else outs[0]

    return lower


def _batch(prim):
    def batch(axis, args, dims):
        out = prim.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)])
        return (out, [0] * len(out)) if prim.multiple_results else (out, 0)

    return batch


def _loss_jvp(primals, tangents):
    logits, labels = primals
    t = tangents[0]
    loss, lse = cross_entropy_p.bind(logits, labels)
    if type(t) is Zero:
        return [loss, lse], [zero_of(loss), zero_of(lse)]
    x = widen(logits)
    p = exp(sub(x, spread_last(lse, get_aval(x).shape)))
    return [loss, lse], [cross_entropy_tangent_p.bind(logits, lse, labels, t), reduce_sum(mul(p, widen(t)), (get_aval(x).ndim - 1,))]


def _parts(logits, lse, labels):
    """(probabilities, where each row's label is, which rows count), all of the shape of logits."""
    x = widen(logits)
    shape = get_aval(x).shape
    classes = broadcasted_iota(get_aval(labels).dtype, shape, len(shape) - 1)
    valid = bitwise_and(ge(labels, like(labels, 0)), lt(labels, like(labels, shape[-1])))
    return exp(sub(x, spread_last(lse, shape))), eq(classes, spread_last(labels, shape)), spread_last(valid, shape)


def _difference(logits, lse, labels):
    """probabilities - onehot(label), 0 in the rows whose label is no class."""
    p, hit, valid = _parts(logits, lse, labels)
    return select(valid, sub(p, select(hit, like(p, 1), like(p, 0))), like(p, 0))


def _loss(logits, labels):
    """Both results, of narrow rows."""
    x = widen(logits)
    logs, lse = log_softmax(x), logsumexp(x)
    _, hit, valid = _parts(logits, lse, labels)
    loss = reduce_sum(select(bitwise_and(hit, valid), neg(logs), like(logs, 0)), (get_aval(x).ndim - 1,))
    return [narrow(loss, get_aval(logits).dtype), lse]


def _tangent(logits, lse, labels, t):
    out = reduce_sum(mul(_difference(logits, lse, labels), widen(t)), (get_aval(logits).ndim - 1,))
    return [narrow(out, get_aval(logits).dtype)]


def _cotangent(logits, lse, labels, ct):
    aval = get_aval(logits)
    return [narrow(mul(_difference(logits, lse, labels), spread_last(widen(ct), aval.shape)), aval.dtype)]


cross_entropy_p = Primitive(
    "cross_entropy", multiple_results=True, abstract_eval=_loss_aval, jvp=_loss_jvp, lower=_rows("cross_entropy", (True, False), _loss)
)
cross_entropy_tangent_p = Primitive(
    "cross_entropy_tangent", abstract_eval=_tangent_aval, lower=_rows("cross_entropy_tangent", (True, False, False, True), _tangent)
)
cross_entropy_cotangent_p = Primitive(
    "cross_entropy_cotangent",
    abstract_eval=_cotangent_aval,
    lower=_rows("cross_entropy_cotangent", (True, False, False, False), _cotangent),
)
for _p in (cross_entropy_p, cross_entropy_tangent_p, cross_entropy_cotangent_p):
    _p.batch = _batch(_p)
cross_entropy_tangent_p.jvp = jvp_by_reference(cross_entropy_tangent_p, _tangent, linear=(3,))
cross_entropy_cotangent_p.jvp = jvp_by_reference(cross_entropy_cotangent_p, _cotangent, linear=(3,))
cross_entropy_tangent_p.transpose = lambda cts, logits, lse, labels, t: [
    None,
    None,
    None,
    cross_entropy_cotangent_p.bind(logits, lse, labels, cts[0]),
]
cross_entropy_cotangent_p.transpose = lambda cts, logits, lse, labels, ct: [
    None,
    None,
    None,
    cross_entropy_tangent_p.bind(logits, lse, labels, cts[0]),
]


def cross_entropy(logits, labels):
    """(loss, lse): logsumexp(logits) - logits[label] over the last axis, and the logsumexp itself (float32 for 16-bit logits).

    logits: (..., classes) floats; labels: (...) integers. A row whose label is outside [0, classes) has loss 0 and no gradient.
    """
    dtype = get_aval(labels).dtype
    if dtypes.kind_of(dtype) not in "iu":
        raise TypeError(f"cross_entropy: labels must be integer class indices, got {dtype.name}")
    if dtype not in (dtypes.INT32, dtypes.INT64):
        labels = convert_element_type(labels, np.int64 if dtype.itemsize == 8 else np.int32)
    return tuple(cross_entropy_p.bind(logits, labels))
