"""Functions of shapes, and arrays made from them."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.core import get_aval
from fgrad.errors import AxisError, ShapeError
from fgrad.ops.elementwise import add, convert_element_type, like, lt, rem, select
from fgrad.ops.gather import GatherDimensionNumbers, gather
from fgrad.ops.rules import broadcast_to
from fgrad.ops.shape import broadcast_in_dim, canonical_shape, concatenate, expand_dims, index_in_dim, reshape


def dtype(x):
    """The dtype of an array, number or dtype name."""
    try:
        return get_aval(x).dtype
    except TypeError:
        return dtypes.canonicalize_dtype(x)


def shape_as_value(shape):
    """A shape as a one-dimensional integer array."""
    return convert_element_type(np.asarray(canonical_shape(shape), np.int32), "int32")


def broadcast_shapes(*shapes):
    """The shape that arrays of these shapes broadcast to. Raises ShapeError where they do not.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    rank = max((len(s) for s in shapes), default=0)
    out = []
    for sizes in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes]):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ShapeError(f"Incompatible shapes for broadcasting: shapes={[*map(tuple, shapes)]}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def broadcast_to_rank(x, rank):
    """x with axes of size 1 in front, so that it has `rank` axes. Raises ShapeError where it has more."""
    n = get_aval(x).ndim
    if n > rank:
        raise ShapeError(f"broadcast_to_rank: an array of shape {get_aval(x).shape} has more than {rank} axes")
    return expand_dims(x, tuple(range(rank - n)))


def broadcast_like(arr, like_arr):
    """arr broadcast to the shape of like_arr."""
    shape = get_aval(like_arr).shape
    own = get_aval(arr).shape
    if broadcast_shapes(own, shape) != shape:
        raise ShapeError(f"Incompatible shapes for broadcasting: {own} to {shape}")
    kept = [i for i, n in enumerate(own) if n != 1 or shape[len(shape) - len(own) + i] == 1]
    narrow = reshape(arr, tuple(own[i] for i in kept))
    return broadcast_in_dim(narrow, shape, tuple(len(shape) - len(own) + i for i in kept))


def collapse(operand, start_dimension, stop_dimension=None):
    """operand with the axes [start_dimension, stop_dimension) merged into one.

    >>> import fgrad.numpy as jnp
    >>> collapse(jnp.zeros((2, 3, 4)), 1).shape
    (2, 12)
    """
    shape = get_aval(operand).shape
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if hi < lo:
        raise ValueError(f"collapse: start_dimension {start_dimension} is behind stop_dimension {stop_dimension} for shape {shape}")
    n = 1
    for d in shape[lo:hi]:
        n *= d
    return reshape(operand, (*shape[:lo], n, *shape[hi:]))


def full(shape, fill_value, dtype=None, *, sharding=None):
    """An array of `shape` filled with a scalar, of its own dtype unless one is given."""
    aval = get_aval(fill_value)
    if aval.shape:
        raise TypeError(f"full must be called with scalar fill_value, got fill_value.shape {aval.shape}.")
    shape = canonical_shape(shape)
    kind = aval.dtype if dtype is None else dtypes.canonicalize_dtype(dtype)
    return broadcast_to(convert_element_type(fill_value, kind, dtype is None and aval.weak_type), shape)


def full_like(x, fill_value, dtype=None, shape=None, sharding=None):
    """full with the shape, dtype and weak type of x where none are given."""
    shape = tuple(x.shape) if hasattr(x, "shape") and shape is None else get_aval(x).shape if shape is None else shape
    weak = dtype is None and getattr(x, "weak_type", not hasattr(x, "dtype"))
    own = x.dtype if hasattr(x, "dtype") else get_aval(x).dtype
    out = full(shape, fill_value, own if dtype is None else dtype)
    return convert_element_type(out, get_aval(out).dtype, True) if weak else out


def empty(shape, dtype, *, out_sharding=None):
    """An array of zeros: memory is never handed out uninitialised."""
    return full(shape, 0, dtype)


def stack(operands, axis=0):
    """Arrays of one shape joined along a new axis."""
    operands = list(operands)
    if not operands:
        raise ValueError("stack needs at least one array")
    shapes = {get_aval(x).shape for x in operands}
    if len(shapes) > 1:
        raise ShapeError(f"stack needs arrays of one shape, got {', '.join(map(str, sorted(shapes)))}")
    axis = operator.index(axis)
    n = len(shapes.pop()) + 1
    if not -n <= axis < n:
        raise ValueError(f"stack: axis {axis} is out of bounds for a result of dimension {n}")
    return concatenate([expand_dims(x, (axis % n,)) for x in operands], axis % n)


def unstack(x, axis=0):
    """The slices of x along an axis, a tuple."""
    shape = get_aval(x).shape
    if not -len(shape) <= axis < len(shape):
        raise AxisError(f"axis {axis} is out of bounds for array of dimension {len(shape)}")
    return tuple(index_in_dim(x, i, axis, keepdims=False) for i in range(shape[axis]))


def tile(operand, reps):
    """operand repeated reps[i] times along axis i."""
    shape, reps = get_aval(operand).shape, tuple(map(operator.index, reps))
    if len(reps) != len(shape) or any(r < 0 for r in reps):
        raise ShapeError(f"tile: reps {reps} must have one non-negative entry per axis of shape {shape}")
    wide = [n for pair in zip(reps, shape) for n in pair]
    spread = broadcast_in_dim(operand, wide, tuple(range(1, 2 * len(shape), 2)))
    return reshape(spread, tuple(r * n for r, n in zip(reps, shape)))


def index_take(src, idxs, axes):
    """src[..., idxs[0], ..., idxs[1], ...]: index vectors for `axes`, taken together; indices wrap around.

    idxs: one-dimensional integer arrays of one length, one for each axis. The result has that length in front.
    """
    axes = tuple(axes)
    shape = get_aval(src).shape
    columns = []
    for i, a in zip(idxs, axes):
        r = rem(i, like(i, shape[a]))
        columns.append(expand_dims(select(lt(r, like(r, 0)), add(r, like(r, shape[a])), r), (1,)))
    sizes = tuple(1 if a in axes else n for a, n in enumerate(shape))
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) - len(axes) + 1)), tuple(sorted(axes)), axes)
    return gather(src, concatenate(columns, 1), numbers, sizes, mode="clip")


__all__ = [
    "broadcast_like",
    "broadcast_shapes",
    "broadcast_to_rank",
    "collapse",
    "dtype",
    "empty",
    "full",
    "full_like",
    "index_take",
    "shape_as_value",
    "stack",
    "tile",
    "unstack",
]
