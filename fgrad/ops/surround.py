"""surround: an array with margins of its own elements, and fold, its transpose: margins summed into what they surround."""

import itertools

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.casts import convert_element_type
from fgrad.ops.rules import linear_jvp
from fgrad.ops.shape import broadcast_in_dim, concatenate, rev, slice_in_dim

# margins: (axis, before, after) of each axis that has some, in their order; before and after are the indices of what they consist of.


def _check(name, shape, margins):
    """shape: of what is surrounded."""
    axes = [axis for axis, _, _ in margins]
    if axes != sorted(set(axes)) or any(not 0 <= axis < len(shape) for axis in axes):
        raise ShapeError(f"{name}: axes {axes} must be distinct axes of shape {shape}, and rise")
    for axis, before, after in margins:
        if any(not 0 <= k < shape[axis] for k in (*before, *after)):
            raise ShapeError(f"{name}: margins {before} and {after} of axis {axis} must be indices into shape {shape}")


def _resized(shape, margins, sign):
    shape = list(shape)
    for axis, before, after in margins:
        if axis < len(shape):
            shape[axis] += sign * (len(before) + len(after))
    return tuple(shape)


def _surround_aval(x, *, margins):
    _check("surround", x.shape, margins)
    return ShapedArray(_resized(x.shape, margins, 1), x.dtype, x.weak_type)


def _fold_aval(x, *, margins):
    shape = _resized(x.shape, margins, -1)
    if min(shape, default=0) < 0:
        raise ShapeError(f"fold: shape {x.shape} is smaller than its margins {margins}")
    _check("fold", shape, margins)
    return ShapedArray(shape, x.dtype, x.weak_type)


def runs(rows):
    """rows cut into parts that rise by one, fall by one or stay the same."""
    steps, parts, begin = np.diff(rows), [], 0
    bounds = [0, *(np.flatnonzero(np.diff(steps)) + 1), len(steps)] if len(steps) else []
    for b, e in zip(bounds, bounds[1:]):  # equal steps, between the elements b and e; an earlier run may have taken b
        if begin == b and abs(steps[b]) > 1:
            e = b
        if e > begin or begin == b == e:
            parts.append(rows[begin : e + 1])
            begin = e + 1
    return [*parts, rows[begin:]] if begin < len(rows) else parts


def _surround_lower(ctx, ins, params, out):
    """A concatenation for each axis, of parts of the one before. Along several axes, or along rows, it lies in memory (see shift): most
    tiles of what reads it would meet a margin."""
    x, margins = ins[0], params["margins"]
    in_memory = len(margins) > 1 or any([axis == len(x.shape) - 1 != 0 for axis, _, _ in margins])
    for axis, before, after in margins:
        parts, inside = [], [np.arange(x.shape[axis])] if x.shape[axis] else []
        for rows in (*runs(np.array(before)), *inside, *runs(np.array(after))):
            first, step = int(rows[0]), int(rows[1] - rows[0]) if len(rows) > 1 else 1
            shape = (*x.shape[:axis], len(rows), *x.shape[axis + 1 :])
            strides = (*x.strides[:axis], step * x.strides[axis], *x.strides[axis + 1 :])
            parts.append(ctx.view(x, shape, strides, first * x.strides[axis] if 0 not in shape else 0))
        aval = ShapedArray(_resized(x.shape, ((axis, before, after),), 1), x.dtype)
        x = ctx.kernel("concatenate", parts, [aval], ip=(axis,), contiguous=False)[0]
        x.buf.node.obj = "margins" if in_memory else None
    return x


def _fold_lower(ctx, ins, params, out):
    x, aval, margins = ins[0], out[0], params["margins"]
    if not margins:
        return x
    if aval.dtype.itemsize < 4:
        wide = dtypes.FLOAT32 if dtypes.is_float(aval.dtype) else dtypes.INT32
        return ctx.compose(lambda x: [convert_element_type(fold(convert_element_type(x, wide), margins), aval.dtype)], ins)[0]
    widths = {axis: (len(before), len(after), *before, *after) for axis, before, after in margins}
    ip = itertools.chain(*[widths.get(axis, (0, 0)) for axis in range(len(x.shape))])
    return ctx.kernel("fold", ins, out, ip=tuple(ip))[0]


def _batch(prim):
    def batch(axis, args, dims, *, margins):
        d = dims[0]
        return prim.bind(args[0], margins=tuple([(a + (a >= d), before, after) for a, before, after in margins])), d

    return batch


surround_p = Primitive(
    "surround",
    abstract_eval=_surround_aval,
    lower=_surround_lower,
    transpose=lambda cts, x, *, margins: [fold(cts[0], margins)],
)
fold_p = Primitive(
    "fold",
    abstract_eval=_fold_aval,
    lower=_fold_lower,
    transpose=lambda cts, x, *, margins: [surround(cts[0], margins)],
)
for _p in (surround_p, fold_p):
    _p.jvp, _p.batch = linear_jvp(_p), _batch(_p)


def surround(x, margins):
    """x with margins of its own elements: ((axis, the indices of those before x, of those behind it), ...), axes in their order.

    >>> import fgrad.numpy as jnp
    >>> surround(jnp.array([1, 2, 3]), ((0, (1,), (0, 0)),))
    Array([2, 1, 2, 3, 1, 1], dtype=int32)
    """
    return surround_p.bind(x, margins=margins)


def joined(x, margins):
    """What surround computes, of slices and concatenations: for what knows those alone."""
    for axis, before, after in margins:
        sides = [[_run(x, axis, rows) for rows in runs(np.array(side))] for side in (before, after)]
        x = concatenate([*sides[0], x, *sides[1]], axis)
    return x


def _run(x, axis, rows):
    """x[rows] along an axis, for rows that all rise by one, fall by one, or are the same."""
    first, last, shape = int(rows[0]), int(rows[-1]), get_aval(x).shape
    part = slice_in_dim(x, min(first, last), max(first, last) + 1, axis=axis)
    if last < first:
        return rev(part, (axis,))
    return part if last > first else broadcast_in_dim(part, (*shape[:axis], rows.size, *shape[axis + 1 :]), tuple(range(len(shape))))


def fold(x, margins):
    """The sum of x's margins and what they surround, each element added where surround took it from.

    >>> import fgrad.numpy as jnp
    >>> fold(jnp.array([1, 2, 3, 4, 5, 6]), ((0, (1,), (0, 0)),))
    Array([13,  4,  4], dtype=int32)
    """
    return fold_p.bind(x, margins=margins)
