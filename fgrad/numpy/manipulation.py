"""Changing shape and order, joining and splitting."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import Array, concrete_or_none, context, eval_trace, from_scalar
from fgrad.errors import ShapeError
from fgrad.numpy.creation import array, diagonals_and_columns
from fgrad.numpy.overlay import moves_overlays
from fgrad.numpy.util import SCALARS, as_array, axis_index, axis_tuple, broadcast_shape, no_out, promoted, spread
from fgrad.ops import shape as S
from fgrad.ops.elementwise import cast_as, convert_element_type, eq, ge, le, like, rem, select
from fgrad.ops.index import index_numbers
from fgrad.ops.split import split as split_pieces

__all__ = [
    "shape", "ndim", "size", "reshape", "ravel", "transpose", "matrix_transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze",
    "broadcast_to", "broadcast_shapes", "broadcast_arrays", "concatenate", "stack", "unstack", "atleast_1d", "atleast_2d",
    "atleast_3d", "vstack", "hstack", "dstack", "column_stack", "block", "array_split", "split", "hsplit", "vsplit", "dsplit", "flip",
    "fliplr", "flipud", "rot90", "roll", "rollaxis", "tile", "append", "tril", "triu", "diag", "diagonal", "diagflat",
    "trace", "permute_dims", "concat",
]  # fmt: skip


def shape(a):
    """The sizes of the axes."""
    if type(a) in SCALARS:
        return ()
    return tuple(a.shape) if hasattr(a, "shape") else np.shape(a)


def ndim(a):
    """The number of axes."""
    return len(shape(a))


def size(a, axis=None):
    """The number of elements, or the size of one axis or several."""
    s = shape(a)
    return math.prod(s) if axis is None else math.prod(s[i] for i in axis_tuple(axis, len(s)))


@eager(1)
@moves_overlays(0)
def reshape(a, shape, order="C", *, copy=None, out_sharding=None):
    """a with another shape; one entry may be -1."""
    a = as_array("reshape", a)
    if order not in ("C", "F"):
        raise (NotImplementedError if order in ("A", "K") else ValueError)(f"reshape: order={order!r} is not supported; 'C' and 'F' are")
    shape = [operator.index(d) for d in (shape if np.iterable(shape) else (shape,))]
    if shape.count(-1) > 1:
        raise ShapeError("reshape: can only specify one unknown dimension")
    if -1 in shape:
        known = math.prod(d for d in shape if d != -1)
        if known == 0 or a.size % known:
            raise TypeError(f"cannot reshape array of shape {a.shape} (size {a.size}) into shape {tuple(shape)}")
        shape[shape.index(-1)] = a.size // known
    elif math.prod(shape) != a.size:
        raise TypeError(f"cannot reshape array of shape {a.shape} (size {a.size}) into shape {tuple(shape)} (size {math.prod(shape)})")
    if order == "F":
        return transpose(S.reshape(transpose(a), tuple(shape[::-1])))
    return S.reshape(a, tuple(shape))


@eager(1)
@moves_overlays(0)
def ravel(a, order="C", *, out_sharding=None):
    """a as one axis, in C or F order."""
    return reshape(a, (-1,) if size(a) else (0,), order)


@eager(1)
@moves_overlays(0)
def transpose(a, axes=None):
    """a with its axes reversed, or in a given order."""
    a = as_array("transpose", a)
    axes = tuple(range(a.ndim))[::-1] if axes is None else tuple(axis_index(i, a.ndim) for i in axes)
    return S.transpose(a, axes)


def permute_dims(a, /, axes):
    """a with its axes in another order."""
    return transpose(a, axes)


def matrix_transpose(x):
    """The last two axes swapped."""
    return swapaxes(x, -1, -2)


@eager(1)
@moves_overlays(0)
def swapaxes(a, axis1, axis2):
    """Two axes exchanged."""
    a = as_array("swapaxes", a)
    perm = list(range(a.ndim))
    i, j = axis_index(axis1, a.ndim), axis_index(axis2, a.ndim)
    perm[i], perm[j] = j, i
    return S.transpose(a, tuple(perm))


@eager(1)
@moves_overlays(0)
def moveaxis(a, source, destination):
    """Axes moved to other places; the others keep their order."""
    a = as_array("moveaxis", a)
    src, dst = axis_tuple(source, a.ndim), axis_tuple(destination, a.ndim)
    if len(src) != len(dst):
        raise ValueError(f"moveaxis: {len(src)} source axes, {len(dst)} destinations")
    perm = [i for i in range(a.ndim) if i not in src]
    for d, s in sorted(zip(dst, src)):
        perm.insert(d, s)
    return S.transpose(a, tuple(perm))


@eager(1)
@moves_overlays(0)
def expand_dims(a, axis):
    """a with new axes of size 1 at the given places of the result."""
    return S.expand_dims(as_array("expand_dims", a), axis if np.iterable(axis) else (axis,))


@eager(1)
@moves_overlays(0)
def squeeze(a, axis=None):
    """a without its axes of size 1, or those given."""
    a = as_array("squeeze", a)
    if axis is None:
        axis = tuple(i for i, n in enumerate(a.shape) if n == 1)
    return S.squeeze(a, axis if np.iterable(axis) else (axis,))


@eager(1)
@moves_overlays(0)
def broadcast_to(array, shape, *, out_sharding=None):
    """The array repeated along axes of size 1 and new leading axes."""
    x = as_array("broadcast_to", array)
    shape = S.canonical_shape(shape if np.iterable(shape) else (shape,))
    if broadcast_shape(x.shape, shape) != shape:
        raise ValueError(f"Incompatible shapes for broadcasting: {x.shape} and requested shape {shape}")
    return spread(x, shape)


def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to. Raises ValueError where they do not fit."""
    return broadcast_shape(*[tuple(s) if np.iterable(s) else (s,) for s in shapes])


def broadcast_arrays(*args):
    """Arrays of one shape, the one they broadcast to."""
    xs = [as_array("broadcast_arrays", x) for x in args]
    s = broadcast_shape(*[x.shape for x in xs])
    return [spread(x, s) for x in xs]


def _sequence(name, arrays):
    if hasattr(arrays, "shape"):
        if not arrays.shape:
            raise TypeError(f"{name} requires a sequence of arrays, got a scalar")
        arrays = [arrays[i] for i in range(arrays.shape[0])]
    xs = [x if hasattr(x, "aval") else array(x, copy=False) for x in arrays]
    if not xs:
        raise ValueError(f"Need at least one array to {name}.")
    return [as_array(name, x) for x in promoted(name, xs)]


@eager(-1)
@moves_overlays(0)
def concatenate(arrays, axis=0, dtype=None):
    """Arrays joined along an axis (None flattens first)."""
    xs = _sequence("concatenate", arrays)
    if axis is None:
        xs, axis = [ravel(x) for x in xs], 0
    if any(x.ndim != xs[0].ndim for x in xs):
        raise TypeError(f"Cannot concatenate arrays with different numbers of dimensions: got {', '.join(str(x.shape) for x in xs)}")
    if not xs[0].ndim:
        raise ValueError("Zero-dimensional arrays cannot be concatenated.")
    out = S.concatenate(xs, axis_index(axis, xs[0].ndim))
    return out if dtype is None else out.astype(dtype)


concat = concatenate


@eager(-2)
@moves_overlays(0)
def stack(arrays, axis=0, out=None, dtype=None):
    """Arrays joined along a new axis."""
    no_out("stack", out)
    xs = _sequence("stack", arrays)
    if any(x.shape != xs[0].shape for x in xs):
        raise ValueError(f"All input arrays must have the same shape. stack got {', '.join(str(x.shape) for x in xs)}")
    return concatenate([S.expand_dims(x, (axis_index(axis, xs[0].ndim + 1),)) for x in xs], axis_index(axis, xs[0].ndim + 1), dtype)


@eager(1)
@moves_overlays(0)
def unstack(x, axis=0):
    """The slices along an axis, as a tuple."""
    x = as_array("unstack", x)
    axis = axis_index(axis, x.ndim)
    return tuple(S.index_in_dim(x, i, axis, keepdims=False) for i in range(x.shape[axis]))


@moves_overlays(0)
def atleast_1d(*arys):
    """Arrays with at least one axis."""
    return _each(_one_axis, arys)


def _each(fun, arys):
    return fun(arys[0]) if len(arys) == 1 else [fun(x) for x in arys]


@eager(1)
def _one_axis(x):
    return reshape(x, (1,)) if ndim(x) == 0 else as_array("atleast_1d", x)


def atleast_2d(*arys):
    """Arrays with at least two axes, new ones in front."""
    return _each(_two_axes, arys)


@eager(1)
def _two_axes(x):
    x = as_array("atleast_2d", x)
    return S.reshape(x, (1,) * (2 - x.ndim) + x.shape) if x.ndim < 2 else x


def atleast_3d(*arys):
    """Arrays with at least three axes: (n,) becomes (1, n, 1), (n, m) becomes (n, m, 1)."""
    return _each(_three_axes, arys)


@eager(1)
def _three_axes(x):
    x = as_array("atleast_3d", x)
    return S.reshape(x, {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}[x.ndim]) if x.ndim < 3 else x


@eager(-1)
@moves_overlays(0)
def vstack(tup, dtype=None):
    """Arrays (vectors as rows) joined along axis 0."""
    return concatenate([atleast_2d(x) for x in _sequence("vstack", tup)], 0, dtype)


@eager(-1)
@moves_overlays(0)
def hstack(tup, dtype=None):
    """Arrays joined along axis 1 (0 if vectors)."""
    xs = [atleast_1d(x) for x in _sequence("hstack", tup)]
    return concatenate(xs, 0 if xs[0].ndim == 1 else 1, dtype)


@eager(-1)
def dstack(tup, dtype=None):
    """Arrays joined along axis 2."""
    return concatenate([atleast_3d(x) for x in _sequence("dstack", tup)], 2, dtype)


@eager(-1)
def column_stack(tup):
    """Vectors as columns, and matrices, joined along axis 1."""
    return concatenate([S.expand_dims(x, (1,)) if x.ndim == 1 else atleast_2d(x) for x in _sequence("column_stack", tup)], 1)


def block(arrays):
    """Nested lists of arrays put together: the innermost lists along the last axis, the next ones along the one before, and so on."""
    depth, flat = _block_depth(arrays), []

    def lay(xs):
        """The lengths of nested lists, as nested tuples; what they hold goes to `flat`."""
        if isinstance(xs, list):
            return tuple([lay(x) for x in xs])
        flat.append(xs)
        return None

    lengths = lay(arrays)
    return _block(flat, lengths, depth)


@eager(-2)
def _block(flat, lengths, depth):
    """The block of arrays in nested lists `depth` deep, of which lengths tells how they are laid."""
    rank, rest = max(depth, *map(ndim, flat)), iter(flat)

    def build(lengths, level):
        if lengths is None:
            x = as_array("block", next(rest))
            return S.reshape(x, (1,) * (rank - x.ndim) + x.shape)
        return concatenate([build(x, level + 1) for x in lengths], rank - depth + level)

    return build(lengths, 0)


def _block_depth(xs):
    if isinstance(xs, tuple):
        raise ShapeError("block: tuples are not allowed, only lists, to prevent mistakes")
    if not isinstance(xs, list):
        return 0
    if not xs:
        raise ValueError("block does not allow empty list arguments")
    depths = {_block_depth(x) for x in xs}
    if len(depths) > 1:
        raise ValueError("block: lists must be nested to one depth")
    return depths.pop() + 1


def array_split(ary, indices_or_sections, axis=0):
    """Parts along an axis: cut at given positions, or as many as asked for, whose sizes differ by at most one."""
    x = as_array("array_split", ary)
    axis = axis_index(axis, x.ndim)
    n = x.shape[axis]
    if type(indices_or_sections) in (list, tuple) or (type(indices_or_sections) is not int and np.ndim(indices_or_sections)):
        points = [0, *map(operator.index, indices_or_sections), n]
        if points != sorted(points):
            raise ValueError(f"array_split: the positions {points[1:-1]} give parts of a negative size of an axis of size {n}")
    else:
        k = operator.index(indices_or_sections)
        if k < 0:
            raise ValueError(f"array_split: the number of parts must be positive, got {k}")
        q, r = divmod(n, k)
        points = [i * q + min(i, r) for i in range(k + 1)]
    if type(x) is Array and context.trace is eval_trace:
        return [x[(*(slice(None),) * axis, slice(a, b))] for a, b in zip(points, points[1:])]
    return split_pieces(x, [b - a for a, b in zip(points, points[1:])], axis)


@moves_overlays(0)
def split(ary, indices_or_sections, axis=0):
    """Parts along an axis: cut at given positions, or as many of one size. Raises ValueError where they do not divide evenly."""
    x, at = as_array("split", ary), indices_or_sections
    if (type(at) is int or not np.ndim(at)) and x.shape[axis_index(axis, x.ndim)] % operator.index(at):
        raise ValueError("array split does not result in an equal division")
    return array_split(x, at, axis)


def hsplit(ary, indices_or_sections):
    """Parts along axis 1 (0 of a vector)."""
    return split(ary, indices_or_sections, 0 if ndim(ary) == 1 else 1)


def vsplit(ary, indices_or_sections):
    """Parts along axis 0."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary, indices_or_sections):
    """Parts along axis 2."""
    return split(ary, indices_or_sections, 2)


@eager(1)
@moves_overlays(0)
def flip(m, axis=None):
    """Elements in reverse order along axes (all by default)."""
    m = as_array("flip", m)
    return S.rev(m, axis_tuple(axis, m.ndim))


def fliplr(m):
    """Reversed along axis 1."""
    return flip(m, 1)


def flipud(m):
    """Reversed along axis 0."""
    return flip(m, 0)


@eager(1)
def rot90(m, k=1, axes=(0, 1)):
    """Rotated by k quarter turns in the plane of two axes, from the first towards the second."""
    m = as_array("rot90", m)
    if m.ndim < 2:
        raise ValueError(f"rot90 requires an array of at least two axes, got shape {m.shape}")
    a, b = (axis_index(i, m.ndim) for i in axes)
    if a == b:
        raise ValueError("Axes must be different")
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(m, (a, b))
    return flip(swapaxes(m, a, b), a) if k == 1 else flip(swapaxes(m, a, b), b)


@eager(1)
@moves_overlays(0)
def roll(a, shift, axis=None):
    """Elements moved around cyclically by `shift` places; shift and axis may be sequences, and shift may be traced."""
    a = as_array("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = [axis_index(i, a.ndim) for i in (axis if np.iterable(axis) else (axis,))]
    shifts = list(shift) if isinstance(shift, (list, tuple)) or np.ndim(shift) else [shift]
    if len(shifts) != len(axes):
        if 1 not in (len(shifts), len(axes)):
            raise ValueError(f"roll: shifts {shift} and axes {axis} do not broadcast")
        shifts, axes = shifts * len(axes) if len(shifts) == 1 else shifts, axes * len(shifts) if len(axes) == 1 else axes
    for s, ax in zip(shifts, axes):
        a = _roll(a, s, ax) if a.shape[ax] else a
    return a


def _roll(a, shift, axis):
    n = a.shape[axis]
    value = concrete_or_none(shift)
    if value is None:
        shift = index_numbers(shift, n, wrap=True)
        place = S.iota(dtypes.INT32, n) - cast_as(shift if shift.dtype == dtypes.INT32 else rem(shift, like(shift, n)), dtypes.INT32)
        return a[(slice(None),) * axis + (place % n,)]
    k = -int(value) % n
    return S.concatenate([S.slice_in_dim(a, k, n, axis=axis), S.slice_in_dim(a, 0, k, axis=axis)], axis) if k else a


def rollaxis(a, axis, start=0):
    """a with `axis` moved back until it lies before the axis `start`."""
    a = as_array("rollaxis", a)
    axis, start = axis_index(axis, a.ndim), operator.index(start)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    start += a.ndim if start < 0 else 0
    return moveaxis(a, axis, start - (start > axis))


@eager(1)
@moves_overlays(0)
def tile(A, reps):
    """A repeated reps times along each axis."""
    a = as_array("tile", A)
    reps = tuple(map(operator.index, reps)) if np.iterable(reps) else (operator.index(reps),)
    n = max(a.ndim, len(reps))
    a, reps = S.reshape(a, (1,) * (n - a.ndim) + a.shape), (1,) * (n - len(reps)) + reps
    wide = tuple(d for r, s in zip(reps, a.shape) for d in (r, s))
    out = S.broadcast_in_dim(a, wide, tuple(range(1, 2 * n, 2)))
    return S.reshape(out, tuple(r * s for r, s in zip(reps, a.shape)))


@moves_overlays(0, 1)
def append(arr, values, axis=None):
    """values joined to arr: flattened, or along an axis."""
    return concatenate([ravel(arr), ravel(values)], 0) if axis is None else concatenate([arr, values], axis)


def _triangle(m, k, keep):
    m = as_array("tril", m)
    if m.ndim < 2:
        raise ValueError("Argument to tril and triu must be at least 2D")
    return convert_element_type(select(keep(*diagonals_and_columns(m.shape, k)), m, like(m, 0)), m.dtype, m.aval.weak_type)


@eager(1)
def tril(m, k=0):
    """m with zeros above diagonal k."""
    return _triangle(m, k, ge)


@eager(1)
def triu(m, k=0):
    """m with zeros below diagonal k."""
    return _triangle(m, k, le)


@eager(1)
def diag(v, k=0):
    """The diagonal of a matrix, or a matrix with the diagonal v."""
    v = as_array("diag", v)
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        zero = from_scalar(v.dtype.type(0).item(), v.dtype, v.weak_type)
        column = S.pad(v, zero, [(max(k, 0), max(-k, 0), 0)])
        wide = S.broadcast_in_dim(column, (n, n), (1,))
        return select(eq(*diagonals_and_columns((n, n), k)), wide, zero)
    if v.ndim != 2:
        raise ValueError("diag input must be 1d or 2d")
    return diagonal(v, k)


@eager(1)
def diagonal(a, offset=0, axis1=0, axis2=1):
    """The diagonals of the matrices over two axes, as the last axis."""
    a = as_array("diagonal", a)
    first, second = (axis_index(x, a.ndim) for x in (axis1, axis2))
    if abs(second - first) != 1:
        a, first, second = moveaxis(a, (first, second), (-2, -1)), a.ndim - 2, a.ndim - 1
    elif second < first:  # of the transposes, in which the axes lie one after the other
        first, second, offset = second, first, -offset
    n, m = a.shape[first : second + 1]  # every so many places of the two axes as one
    count = max(0, min(n + min(offset, 0), m - max(offset, 0)))
    start = max(offset, 0) - min(offset, 0) * m if count else 0
    flat = reshape(a, (*a.shape[:first], n * m, *a.shape[second + 1 :]))
    return moveaxis(S.slice_in_dim(flat, start, start + (count - 1) * (m + 1) + 1 if count else start, m + 1, first), first, -1)


def diagflat(v, k=0):
    """A matrix with the flattened v on diagonal k."""
    return diag(ravel(v), k)


@eager(1)
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """The sum of a diagonal of the matrices over two axes."""
    no_out("trace", out)
    return diagonal(a, offset, axis1, axis2).sum(-1, dtype=dtype)
