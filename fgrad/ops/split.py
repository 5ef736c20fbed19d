"""split: consecutive pieces along an axis, whose transpose is one concatenation."""

import itertools
import operator

from fgrad.core import Array, Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.rules import Zero, instantiate
from fgrad.ops.shape import concatenate


def _aval(x, *, sizes, axis):
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"split: axis {axis} is out of bounds for shape {x.shape}")
    if sum(sizes) != x.shape[axis] or any(s < 0 for s in sizes):
        raise ShapeError(f"split: sizes {sizes} must be non-negative and sum to {x.shape[axis]}")
    return [ShapedArray((*x.shape[:axis], s, *x.shape[axis + 1 :]), x.dtype, x.weak_type) for s in sizes]


def _jvp(primals, tangents, **params):
    outs = split_p.bind(*primals, **params)
    if type(tangents[0]) is Zero:
        return outs, [Zero(o.aval.tangent_aval()) for o in outs]
    return outs, split_p.bind(*tangents, **params)


def _lower(ctx, ins, params, out):
    x, axis, at, pieces = ins[0], params["axis"], 0, []
    for aval in out:
        pieces.append(ctx.view(x, aval.shape, x.strides, at * x.strides[axis] if aval.size else 0))
        at += aval.shape[axis]
    return pieces


def _batch(batch_axis, args, dims, *, sizes, axis):
    return split_p.bind(args[0], sizes=sizes, axis=axis + (axis >= dims[0])), [dims[0]] * len(sizes)


split_p = Primitive(
    "split",
    multiple_results=True,
    abstract_eval=_aval,
    jvp=_jvp,
    transpose=lambda cts, x, *, sizes, axis: [concatenate([instantiate(ct) for ct in cts], axis)],
    batch=_batch,
    lower=_lower,
    kind="view",
)


def split(operand, sizes, axis=0):
    """Consecutive pieces of operand along `axis`, of the given sizes (which must sum to its length there: ShapeError otherwise)."""
    n = get_aval(operand).ndim
    axis, sizes = operator.index(axis), tuple(operator.index(s) for s in sizes)
    if not -n <= axis < n:
        raise ShapeError(f"split: axis {axis} is out of bounds for shape {get_aval(operand).shape}")
    if type(operand) is Array and sum(sizes) == operand.shape[axis] and min(sizes, default=0) >= 0:  # views
        lead = (slice(None),) * (axis % n)
        return [operand[(*lead, slice(end - size, end))] for size, end in zip(sizes, itertools.accumulate(sizes))]
    return split_p.bind(operand, sizes=sizes, axis=axis % n)
