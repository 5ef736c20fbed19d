"""Dynamic slices and updates: boxes at traced positions."""

import operator

from fgrad import dtypes
from fgrad.config import config
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import AxisError, ShapeError
from fgrad.ops.elementwise import add, cast_as, clamp, convert_element_type, like, lt, rem, select
from fgrad.ops.elementwise import min as lesser
from fgrad.ops.gather import gather_p, scatter_p
from fgrad.ops.gather_dims import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from fgrad.ops.index_bounds import mark_boxes
from fgrad.ops.rules import Zero, bdim_at_front, constant, full, instantiate, is_linear, move_axis, zero_of
from fgrad.ops.shape import concatenate, index_in_dim, reshape

# --- dynamic slices -----------------------------------------------------------------------------------------------------


def _dtype_for(n):
    """The dtype that counts to n."""
    return dtypes.INT32 if n < 2**31 else dtypes.INT64


def index_numbers(i, n, wrap=False):
    """Indices into an axis of n elements as int32 or int64: what is outside stays outside; with `wrap` it keeps its remainder."""
    dtype = get_aval(i).dtype
    if dtype in (_dtype_for(n), dtypes.INT64) or not dtypes.is_integer(dtype):
        return i
    most = dtypes.iinfo(dtype).max
    if not dtypes.is_signed(dtype) and dtype.itemsize >= 4 and n <= most:
        i = rem(i, like(i, max(n, 1))) if wrap else lesser(i, like(i, n))
    return cast_as(i, _dtype_for(n))


def _inside(s, n, size):
    """Start indices, which may be many, of boxes of `size` within n."""
    s = index_numbers(s, n)
    return cast_as(clamp(like(s, 0), s, like(s, n - size)), _dtype_for(n))


def _check_starts(name, x, starts):
    if len(starts) != len(x.shape):
        raise ShapeError(f"{name}: {len(starts)} start indices for an operand of shape {x.shape}")
    for s in starts:
        if s.shape != () or not dtypes.is_integer(s.dtype):
            raise TypeError(f"index arguments to {name} must be integers of the same type, and scalars, got {s.short()}")


def _ds_aval(x, *starts, slice_sizes):
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != len(x.shape) or any(not 0 <= k <= n for k, n in zip(slice_sizes, x.shape)):
        raise ShapeError(f"dynamic_slice: slice_sizes {slice_sizes} must fit the operand's shape {x.shape}")
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _starts(ctx, starts):
    return [s if s.dtype in (dtypes.INT32, dtypes.INT64) else ctx.cast(s, dtypes.INT64) for s in starts]


def _ds_lower(ctx, ins, params, out_avals):
    x, starts = ins[0], [v.scalar for v in ins[1:]]
    if not x.shape:
        return x
    if None not in starts and x.buf is not None and 0 not in x.shape:  # a slice
        at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, x.shape, params["slice_sizes"])]
        return ctx.view(x, params["slice_sizes"], x.strides, sum([a * s for a, s in zip(at, x.strides)]))
    return ctx.kernel("dynamic_slice", [ins[0], *_starts(ctx, ins[1:])], out_avals, contiguous=False)[0]


def _box_indices(sides, starts, sizes, dims, axis):
    """Where in arrays of these sides the box of each example begins, (B, n): inside."""
    columns = [_inside(bdim_at_front(s, b, axis.size), m, k) for s, b, m, k in zip(starts, dims, sides, sizes)]
    columns = [cast_as(c, _dtype_for(max(sides, default=0))) for c in columns]
    return concatenate([reshape(s, (axis.size, 1)) for s in columns], 1)


def _ds_batch(axis, args, dims, *, slice_sizes):
    x, starts, d = args[0], args[1:], dims[0]
    if all(s is None for s in dims[1:]):
        zero = dtypes.INT32.type(0)
        sizes = (*slice_sizes[:d], axis.size, *slice_sizes[d:])
        return dynamic_slice_p.bind(x, *starts[:d], zero, *starts[d:], slice_sizes=sizes), d
    if config.mark_indices:
        shape = list(get_aval(x).shape)
        if d is not None:
            del shape[d]
        mark_boxes((axis.size, *shape), starts, slice_sizes, dims[1:], axis)
    n = len(slice_sizes)
    sides = [m for i, m in enumerate(get_aval(x).shape) if i != d]
    indices = _box_indices(sides, starts, slice_sizes, dims[1:], axis)
    boxes, every = tuple(range(1, n + 1)), tuple(range(n))
    if d is None:
        numbers, sizes = GatherDimensionNumbers(boxes, (), every, (), ()), slice_sizes
    else:
        x = move_axis(x, d, 0)
        numbers, sizes = GatherDimensionNumbers(boxes, (), boxes, (0,), (0,)), (min(axis.size, 1), *slice_sizes)
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=sizes, mode=GatherScatterMode.CLIP, fill_value=None), 0


def _ds_transpose(cts, x, *starts, slice_sizes):
    return [dynamic_update_slice_p.bind(full(x.aval.shape, 0, x.aval.dtype), cts[0], *starts), *[None] * len(starts)]


dynamic_slice_p = Primitive("dynamic_slice", abstract_eval=_ds_aval, lower=_ds_lower, batch=_ds_batch, transpose=_ds_transpose)


def _ds_jvp(primals, tangents, *, slice_sizes):
    out = dynamic_slice_p.bind(*primals, slice_sizes=slice_sizes)
    t = tangents[0]
    return out, zero_of(out) if type(t) is Zero else dynamic_slice_p.bind(t, *primals[1:], slice_sizes=slice_sizes)


dynamic_slice_p.jvp = _ds_jvp


def _dus_aval(x, update, *starts):
    _check_starts("dynamic_update_slice", x, starts)
    if update.dtype != x.dtype:
        raise TypeError(f"lax.dynamic_update_slice requires arguments to have the same dtypes, got {x.dtype.name}, {update.dtype.name}.")
    if len(update.shape) != len(x.shape) or any(k > n for k, n in zip(update.shape, x.shape)):
        rank = len(update.shape) != len(x.shape)
        what = "must have the same rank as operand" if rank else "shape must be smaller than operand shape"
        raise ShapeError(f"dynamic_update_slice update {what}: update of shape {update.shape} must fit the operand's shape {x.shape}")
    return x


def _dus_lower(ctx, ins, params, out_avals):
    x, update = ins[:2]
    if not x.shape:
        return update
    if (
        x.scalar is not None and all([v.scalar is not None for v in ins[2:]]) and 0 not in update.shape
    ):  # one value around what is put there
        starts = [min(max(int(v.scalar), 0), n - k) for v, n, k in zip(ins[2:], x.shape, update.shape)]
        margins = [m for a, n, k in zip(starts, x.shape, update.shape) for m in (a, n - a - k, 0)]
        return ctx.kernel("pad", [update, ctx.scalar(x.scalar, x.dtype)], out_avals, ip=margins, contiguous=False)[0]
    return ctx.kernel(
        "dynamic_update_slice", [*ins[:2], *_starts(ctx, ins[2:])], out_avals, contiguous=(True, False, *[False] * (len(ins) - 2))
    )[0]


def _dus_batch(axis, args, dims):
    x, update, *starts = args
    x, update = bdim_at_front(x, dims[0], axis.size), bdim_at_front(update, dims[1], axis.size)
    if all(s is None for s in dims[2:]):
        return dynamic_update_slice_p.bind(x, update, dtypes.INT32.type(0), *starts), 0
    shape, sizes = get_aval(x).shape, get_aval(update).shape[1:]
    if config.mark_indices:
        mark_boxes(shape, starts, sizes, dims[2:], axis)
    indices, boxes = _box_indices(shape[1:], starts, sizes, dims[2:], axis), tuple(range(1, len(shape)))
    numbers = ScatterDimensionNumbers(boxes, (), boxes, (0,), (0,))
    return scatter_p.bind(x, indices, update, dimension_numbers=numbers, mode=GatherScatterMode.CLIP, unique_indices=True), 0


def _dus_jvp(primals, tangents):
    out = dynamic_update_slice_p.bind(*primals)
    tx, tu = tangents[:2]
    if type(tx) is Zero and type(tu) is Zero:
        return out, zero_of(out)
    return out, dynamic_update_slice_p.bind(instantiate(tx), instantiate(tu), *primals[2:])


def _dus_transpose(cts, x, update, *starts):
    ct = cts[0]
    u = update.aval if is_linear(update) else get_aval(update)
    ct_x = dynamic_update_slice_p.bind(ct, full(u.shape, 0, u.dtype), *starts) if is_linear(x) else None
    ct_u = dynamic_slice_p.bind(ct, *starts, slice_sizes=u.shape) if is_linear(update) else None
    return [ct_x, ct_u, *[None] * len(starts)]


dynamic_update_slice_p = Primitive(
    "dynamic_update_slice", abstract_eval=_dus_aval, lower=_dus_lower, batch=_dus_batch, jvp=_dus_jvp, transpose=_dus_transpose
)


def _start_values(x, starts, allow_negative):
    """Start indices with negative ones counted from the end, where that is allowed (one flag, or one for each)."""
    shape, out = get_aval(x).shape, []
    if not isinstance(starts, (tuple, list)):
        if len(of := get_aval(starts).shape) != 1:
            raise ShapeError(f"Slice indices must be a 1D sequence, got {of}")
        if of[0] != len(shape):
            raise ShapeError(f"Length of slice indices must match number of operand dimensions: {of[0]} indices for shape {shape}")
        starts = [index_in_dim(starts, i, 0, keepdims=False) for i in range(len(shape))]
    starts = list(starts)
    flags = [allow_negative] * len(starts) if isinstance(allow_negative, bool) else list(allow_negative)
    if len(flags) != len(starts):
        raise ShapeError(f"{len(flags)} allow_negative_indices for {len(starts)} start indices")
    for n, s, allowed in zip(shape, starts, flags):
        if isinstance(s, int):
            if s < 0 and not allowed:
                raise ValueError(f"start index {s} is negative, with allow_negative_indices=False")
            s = s + n if s < 0 else s
            s = dtypes.INT32.type(s) if s < 2**31 or n < 2**31 else constant(dtypes.INT64, s)
        else:
            signed = dtypes.is_signed(get_aval(s).dtype)
            s = index_numbers(s, n)
            if allowed and signed:
                s = select(lt(s, like(s, 0)), add(s, like(s, n)), s)
        out.append(s)
    return out + starts[len(shape) :]


def dynamic_slice(operand, start_indices, slice_sizes, *, allow_negative_indices=True):
    """The box of slice_sizes at start_indices, which may be traced; it is moved inside the operand where it would leave it.

    start_indices: a sequence of integer scalars, or a one-dimensional array. Negative ones count from the end, unless
    allow_negative_indices (one flag, or one for each) is False: then they are moved inside too, without a select for each.

    >>> import fgrad.numpy as jnp
    >>> dynamic_slice(jnp.arange(5), (3,), (3,))
    Array([2, 3, 4], dtype=int32)
    """
    starts = _start_values(operand, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind(operand, *starts, slice_sizes=tuple(map(operator.index, slice_sizes)))


def update_box(operand, update, start_indices, *, allow_negative_indices=True):
    """dynamic_update_slice, whose result is weakly typed where the operand is."""
    return dynamic_update_slice_p.bind(operand, update, *_start_values(operand, start_indices, allow_negative_indices))


def dynamic_update_slice(operand, update, start_indices, *, allow_negative_indices=True):
    """operand with `update` written at start_indices (moved inside where it would leave the operand; see dynamic_slice). The result is
    not weakly typed, as in JAX."""
    if (aval := get_aval(operand)).weak_type:
        operand = convert_element_type(operand, aval.dtype)
    return update_box(operand, update, start_indices, allow_negative_indices=allow_negative_indices)


def _along(operand, axis, start):
    """(axis, start indices: `start` along the axis, 0 elsewhere)."""
    n = get_aval(operand).ndim
    if not -n <= axis < n:
        raise AxisError(f"axis {axis} is out of bounds for an array of dimension {n}")
    starts = [0] * n
    starts[axis % n] = start
    return axis % n, starts


def dynamic_slice_in_dim(operand, start_index, slice_size, axis=0, *, allow_negative_indices=True):
    """dynamic_slice along one axis."""
    axis, starts = _along(operand, axis, start_index)
    sizes = list(get_aval(operand).shape)
    sizes[axis] = slice_size
    return dynamic_slice(operand, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(operand, index, axis=0, keepdims=True, *, allow_negative_indices=True):
    """operand[index] along one axis for a traced index."""
    out = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    shape = get_aval(out).shape
    axis %= len(shape)
    return out if keepdims else reshape(out, shape[:axis] + shape[axis + 1 :])


def dynamic_update_slice_in_dim(operand, update, start_index, axis, *, allow_negative_indices=True):
    """dynamic_update_slice along one axis."""
    starts = _along(operand, axis, start_index)[1]
    return dynamic_update_slice(operand, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(operand, update, index, axis, *, allow_negative_indices=True):
    """operand with `update` as its slice `index` along one axis."""
    axis = _along(operand, axis, 0)[0]
    s = get_aval(update).shape
    if len(s) != get_aval(operand).ndim:
        update = reshape(update, (*s[:axis], 1, *s[axis:]))
    return dynamic_update_slice_in_dim(operand, update, index, axis, allow_negative_indices=allow_negative_indices)
