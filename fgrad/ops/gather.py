"""gather and the scatter family in XLA's generality. gather's transpose is scatter_add, and scatter_add's is gather."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad._kernels.index import gather_ip, scatter_ip
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import NotDifferentiableError, ShapeError
from fgrad.ops.arithmetic import min_p
from fgrad.ops.elementwise import add, convert_element_type, div, eq, like, mul, neg, select
from fgrad.ops.gather_dims import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    as_numbers,
    check_axes,
    check_geometry,
    index_operand,
    shifted,
)
from fgrad.ops.products import grouped_products
from fgrad.ops.rules import Zero, align_batch, bdim_at_front, full, instantiate, is_linear, jvp_by_args, move_axis, zero_of
from fgrad.ops.shape import iota, reshape

FEW_WINDOWS = 8


def _positions(indices):
    """Indices as the kernels read them: uint64 beyond int64 lies behind the end, not before the start."""
    if get_aval(indices).dtype != np.uint64:
        return indices
    return convert_element_type(min_p.bind(indices, like(indices, np.iinfo(np.int64).max)), dtypes.INT64)


# --- gather ---------------------------------------------------------------------------------------------------------------


def _gather_aval(x, indices, *, dimension_numbers, slice_sizes, mode, fill_value):
    d = dimension_numbers
    what = ("collapsed_slice_dims", "start_index_map", "start_indices_batching_dims")
    check_geometry(
        "gather",
        x,
        indices,
        d.collapsed_slice_dims,
        d.start_index_map,
        d.operand_batching_dims,
        d.start_indices_batching_dims,
        what,
    )
    if len(slice_sizes) != len(x.shape) or any(not 0 <= k <= n for k, n in zip(slice_sizes, x.shape)):
        raise ShapeError(f"gather: slice_sizes {slice_sizes} must fit the operand's shape {x.shape}")
    out_of_slice = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    if any(slice_sizes[a] > 1 for a in out_of_slice):
        raise ShapeError(f"gather: slice_sizes {slice_sizes} must be 1 on collapsed and batching axes {out_of_slice}")
    window = [k for a, k in enumerate(slice_sizes) if a not in out_of_slice]
    if len(window) != len(d.offset_dims):
        raise ShapeError(
            f"gather: offset_dims {d.offset_dims} must have one axis per operand axis that is neither collapsed nor "
            f"batching, which are {len(window)}"
        )
    rank = len(window) + len(indices.shape) - 1
    check_axes("gather", "offset_dims", d.offset_dims, rank)
    window, batch = iter(window), iter(indices.shape[:-1])
    return ShapedArray(tuple(next(window) if a in d.offset_dims else next(batch) for a in range(rank)), x.dtype, x.weak_type)


def _gather_lower(ctx, ins, params, out_avals):
    x, d, sizes = ins[0], params["dimension_numbers"], params["slice_sizes"]
    fill = params["mode"] is GatherScatterMode.FILL_OR_DROP and not _inside(ctx, ins[1], x.shape, sizes, d.start_index_map)
    value = x.dtype.type(params["fill_value"]) if fill else None
    x, indices = _dense_in_windows(ctx, x, d, sizes, out_avals[0]), index_operand(ctx, ins[1])
    return ctx.kernel("gather", [x, indices], out_avals, ip=gather_ip(*d, sizes, fill, value), contiguous=(False, True))[0]


def _dense_in_windows(ctx, x, d, sizes, out):
    """x in memory whose last axis is the one that the result's windows end in: short windows that are strided are walked one by one, and
    to turn an operand that is no larger than the result costs less."""
    if not x.buf or 0 in out.shape:
        return ctx.contiguous(x)
    rank, wide = len(x.shape), [a for a in range(len(x.shape)) if sizes[a] > 1]
    last = max([i for i, k in enumerate(out.shape) if k > 1], default=-1)
    if not wide or last not in d.offset_dims or x.size > out.size or out.size < FEW_WINDOWS * math.prod(sizes):
        return ctx.contiguous(x)
    order = [*(a for a in range(rank) if a != wide[-1]), wide[-1]]
    back = sorted(range(rank), key=order.__getitem__)
    return ctx.transpose(ctx.contiguous(ctx.transpose(x, order)), back)


def _inside(ctx, indices, shape, sizes, axes):
    """True if no slice of `sizes` leaves an operand of `shape`, whatever its indices along `axes` may be."""
    return ctx.all_within(indices, min([shape[a] - sizes[a] for a in axes], default=0))


def _gather_batch(axis, args, dims, *, dimension_numbers, slice_sizes, mode, fill_value):
    (x, indices), (dx, di), d = args, dims, dimension_numbers
    x = x if dx is None else move_axis(x, dx, 0)
    indices = indices if di is None else move_axis(indices, di, 0)
    offset, collapsed, index_map, batching, ibatching = d
    if dx is not None:
        collapsed, index_map, batching = shifted(collapsed), shifted(index_map), shifted(batching)
    offset = shifted(offset)
    if di is None:  # the batch axis is one more axis of the slice
        offset, slice_sizes = (0, *offset), (axis.size, *slice_sizes)
    else:
        ibatching = shifted(ibatching)
        if dx is not None:
            batching, ibatching, slice_sizes = (0, *batching), (0, *ibatching), (min(axis.size, 1), *slice_sizes)
    numbers = GatherDimensionNumbers(offset, collapsed, index_map, batching, ibatching)
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, mode=mode, fill_value=fill_value), 0


def _gather_transpose(cts, x, indices, *, dimension_numbers, slice_sizes, mode, fill_value):
    zeros = full(x.aval.shape, 0, x.aval.dtype)
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        mode = GatherScatterMode.FILL_OR_DROP  # a broken promise reads inside, and its cotangent goes nowhere, as in JAX
    return [scatter_add_p.bind(zeros, indices, cts[0], dimension_numbers=numbers, mode=mode, unique_indices=False), None]


gather_p = Primitive("gather", abstract_eval=_gather_aval, lower=_gather_lower, batch=_gather_batch, transpose=_gather_transpose)
gather_p.jvp = jvp_by_args(gather_p, lambda t, out, x, i, *, fill_value, **kw: gather_p.bind(t, i, fill_value=0, **kw))


def default_fill(dtype):
    """What slices outside the operand are filled with: NaN, the least signed or the greatest unsigned integer, or True."""
    if dtypes.is_inexact(dtype):
        return np.nan
    if dtype == dtypes.BOOL:
        return True
    return int(dtypes.iinfo(dtype).min if dtypes.is_signed(dtype) else dtypes.iinfo(dtype).max)


def gather(
    operand,
    start_indices,
    dimension_numbers,
    slice_sizes,
    *,
    unique_indices=False,
    indices_are_sorted=False,
    mode=None,
    fill_value=None,
):
    """Slices of `operand` of slice_sizes at the index vectors in the last axis of start_indices (integers).

    dimension_numbers: GatherDimensionNumbers. mode: "clip" moves slices inside the operand; "fill" gives fill_value (by
    default NaN, or an extreme integer) for slices that leave it; "promise_in_bounds" (the default) is the caller's word that
    none does (memory is safe all the same: it clips). unique_indices and indices_are_sorted are hints that no kernel needs.
    Raises ShapeError where the dimension numbers do not fit the shapes.

    >>> import fgrad.numpy as jnp
    >>> numbers = GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    >>> gather(jnp.arange(6.).reshape(3, 2), jnp.array([[2], [0]]), numbers, (1, 2))
    Array([[4., 5.],
           [0., 1.]], dtype=float32)
    """
    mode = GatherScatterMode.PROMISE_IN_BOUNDS if mode is None else GatherScatterMode.from_any(mode)
    if mode is GatherScatterMode.ONE_HOT:
        mode, fill_value = GatherScatterMode.FILL_OR_DROP, 0
    if mode is GatherScatterMode.FILL_OR_DROP:
        fill_value = default_fill(get_aval(operand).dtype) if fill_value is None else np.asarray(fill_value).item()
        if type(fill_value) is float and fill_value != fill_value:
            fill_value = np.nan  # one object, so that equal parameters compare equal
    else:
        fill_value = None
    return gather_p.bind(
        operand,
        _positions(start_indices),
        dimension_numbers=as_numbers(GatherDimensionNumbers, dimension_numbers),
        slice_sizes=tuple(map(operator.index, slice_sizes)),
        mode=mode,
        fill_value=fill_value,
    )


# --- scatter --------------------------------------------------------------------------------------------------------------


def window_sizes(x_shape, u_shape, d):
    """Slice sizes of the gather that reads what this scatter writes."""
    window = iter(d.update_window_dims)
    left_out = (*d.inserted_window_dims, *d.operand_batching_dims)
    return tuple(min(n, 1) if a in left_out else u_shape[next(window)] for a, n in enumerate(x_shape))


def _read(x, indices, u_shape, numbers, mode, fill=0):
    """The windows of x that a scatter of updates of u_shape touches; `fill` for those that it drops."""
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*numbers),
        slice_sizes=window_sizes(get_aval(x).shape, u_shape, numbers),
        mode=mode,
        fill_value=fill if mode is GatherScatterMode.FILL_OR_DROP else None,
    )


def _scatter(name, kind):
    def abstract_eval(x, indices, updates, *, dimension_numbers, mode, unique_indices):
        d = dimension_numbers
        what = ("inserted_window_dims", "scatter_dims_to_operand_dims", "scatter_indices_batching_dims")
        check_geometry(
            name,
            x,
            indices,
            d.inserted_window_dims,
            d.scatter_dims_to_operand_dims,
            d.operand_batching_dims,
            d.scatter_indices_batching_dims,
            what,
        )
        if updates.dtype != x.dtype:
            raise TypeError(f"{name}: updates of dtype {updates.dtype.name} for an operand of {x.dtype.name}")
        rank = len(updates.shape)
        check_axes(name, "update_window_dims", d.update_window_dims, rank)
        left_out = (*d.inserted_window_dims, *d.operand_batching_dims)
        window = [n for a, n in enumerate(x.shape) if a not in left_out]
        if len(set(left_out)) != len(left_out) or len(window) != len(d.update_window_dims):
            raise ShapeError(
                f"{name}: update_window_dims {d.update_window_dims} must have one axis per operand axis that is neither "
                f"inserted nor batching, which are {len(window)} of shape {x.shape}"
            )
        batch = tuple(n for a, n in enumerate(updates.shape) if a not in d.update_window_dims)
        if batch != indices.shape[:-1]:
            raise ShapeError(
                f"{name}: the axes {batch} of updates {updates.shape} outside update_window_dims must be those of the "
                f"indices {indices.shape} without the last"
            )
        if any(updates.shape[a] > n for a, n in zip(d.update_window_dims, window)):
            raise ShapeError(f"{name}: windows of updates {updates.shape} must fit the operand's shape {x.shape}")
        return x

    def lower(ctx, ins, params, out_avals):
        x, indices, updates = ins
        d, sizes = params["dimension_numbers"], window_sizes(ins[0].shape, updates.shape, params["dimension_numbers"])
        drop = params["mode"] is GatherScatterMode.FILL_OR_DROP
        drop = drop and not _inside(ctx, indices, x.shape, sizes, d.scatter_dims_to_operand_dims)
        ip = scatter_ip(*d, kind, drop)
        flags = (False, True, any(updates.strides))  # one number for all updates stays one
        return ctx.kernel("scatter", [x, index_operand(ctx, indices), updates], out_avals, ip=ip, contiguous=flags)[0]

    def batch(axis, args, dims, *, dimension_numbers, **params):
        x, updates = bdim_at_front(args[0], dims[0], axis.size), bdim_at_front(args[2], dims[2], axis.size)
        window, inserted, to_operand, batching, ibatching = map(shifted, dimension_numbers)
        indices = args[1]
        if dims[1] is None:  # the batch axis is one more axis of the window
            window, ibatching = (0, *window), dimension_numbers.scatter_indices_batching_dims
        else:
            indices = move_axis(indices, dims[1], 0)
            batching, ibatching = (0, *batching), (0, *ibatching)
        numbers = ScatterDimensionNumbers(window, inserted, to_operand, batching, ibatching)
        return prim.bind(x, indices, updates, dimension_numbers=numbers, **params), 0

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower, batch=batch)
    return prim


scatter_p = _scatter("scatter", "set")
scatter_add_p = _scatter("scatter_add", "add")
scatter_mul_p = _scatter("scatter_mul", "mul")
scatter_min_p = _scatter("scatter_min", "min")
scatter_max_p = _scatter("scatter_max", "max")


def _linear_jvp(prim):
    """scatter and scatter_add are linear in the operand and the updates together."""

    def jvp(primals, tangents, **params):
        x, indices, u = primals
        out = prim.bind(x, indices, u, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_of(out)
        return out, prim.bind(instantiate(tangents[0]), indices, instantiate(tangents[2]), **params)

    return jvp


scatter_p.jvp, scatter_add_p.jvp = _linear_jvp(scatter_p), _linear_jvp(scatter_add_p)


def _add_transpose(cts, x, indices, u, *, dimension_numbers, mode, unique_indices):
    ct_u = _read(cts[0], indices, u.aval.shape, dimension_numbers, mode) if is_linear(u) else None
    return [cts[0] if is_linear(x) else None, None, ct_u]


def _set_transpose(cts, x, indices, u, *, dimension_numbers, mode, unique_indices):
    """The operand gets what no update covers; an update gets what no later one covers: number them, and see whose stand."""
    ct, params = cts[0], dict(dimension_numbers=dimension_numbers, mode=mode)
    u_aval = u.aval if is_linear(u) else get_aval(u)
    ct_x = ct_u = None
    if is_linear(x):
        ct_x = scatter_p.bind(ct, indices, full(u_aval.shape, 0, ct.dtype), unique_indices=unique_indices, **params)
    if is_linear(u):
        ct_u = _read(ct, indices, u_aval.shape, dimension_numbers, mode)
        one = get_aval(indices).size == get_aval(indices).shape[-1]  # index vector: no other one writes after it
        if not unique_indices and not one and u_aval.size:
            dtype = dtypes.INT32 if u_aval.size < 2**31 else dtypes.INT64
            order = reshape(iota(dtype, u_aval.size), u_aval.shape)
            winner = scatter_p.bind(full(get_aval(ct).shape, -1, dtype), indices, order, unique_indices=False, **params)
            won = eq(_read(winner, indices, u_aval.shape, dimension_numbers, mode, -1), order)
            ct_u = select(won, ct_u, like(ct_u, 0))
    return [ct_x, None, ct_u]


scatter_add_p.transpose, scatter_p.transpose = _add_transpose, _set_transpose


def _mul_transpose(cts, x, indices, u, **params):
    if is_linear(u):
        raise NotDifferentiableError("scatter_mul is not linear in its updates: use grad or vjp, not linear_transpose")
    return [scatter_mul_p.bind(cts[0], indices, u, **params), None, None]


scatter_mul_p.transpose = _mul_transpose


def _update_products(x, indices, u, tu, params):
    """(products, their tangents) of the updates that go to each element of x."""
    shape, flat = get_aval(x).shape, (get_aval(u).size,)
    n = get_aval(x).size
    dtype = dtypes.INT32 if n < 2**31 else dtypes.INT64
    where = _read(reshape(iota(dtype, n), shape), indices, get_aval(u).shape, params["dimension_numbers"], params["mode"], n)
    where, u, tu = grouped_products(reshape(where, flat), reshape(u, flat), reshape(tu, flat))
    # of one element's updates the last has the product of all, and is the last to be written; n stands for dropped ones
    return [reshape(put_rows("set", full((n,), start, get_aval(v).dtype), where, v), shape) for v, start in ((u, 1), (tu, 0))]


def _mul_jvp(primals, tangents, **params):
    x, indices, u = primals
    out = scatter_mul_p.bind(x, indices, u, **params)
    tx, _, tu = tangents
    total = zero_of(out) if type(tx) is Zero else scatter_mul_p.bind(tx, indices, u, **params)
    if type(tu) is Zero or not get_aval(u).size:
        return out, total
    if params["unique_indices"]:
        others = _read(x, indices, get_aval(u).shape, params["dimension_numbers"], params["mode"])
        return out, scatter_add_p.bind(instantiate(total), indices, mul(tu, others), **params)
    product, t_product = _update_products(x, indices, u, tu, params)
    t = mul(x, t_product)
    return out, t if type(tx) is Zero else add(mul(tx, product), t)


def _extremum_jvp(prim):
    """Tangents of whatever attains the extremum, shared evenly among ties."""

    def jvp(primals, tangents, **params):
        x, indices, u = primals
        out = prim.bind(x, indices, u, **params)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_of(out)
        tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
        dtype = get_aval(tx).dtype
        there = _read(out, indices, get_aval(u).shape, params["dimension_numbers"], params["mode"])
        hit_x, hit_u = convert_element_type(eq(x, out), dtype), convert_element_type(eq(u, there), dtype)
        count = scatter_add_p.bind(hit_x, indices, hit_u, **params)
        return out, div(scatter_add_p.bind(mul(tx, hit_x), indices, mul(tu, hit_u), **params), count)

    return jvp


scatter_mul_p.jvp = _mul_jvp
scatter_min_p.jvp, scatter_max_p.jvp = _extremum_jvp(scatter_min_p), _extremum_jvp(scatter_max_p)


def _scatter_mode(mode):
    mode = GatherScatterMode.from_any(mode)
    return mode if mode is GatherScatterMode.CLIP else GatherScatterMode.FILL_OR_DROP


def _function(prim, what):
    def fun(operand, scatter_indices, updates, dimension_numbers, *, indices_are_sorted=False, unique_indices=False, mode=None):
        return prim.bind(
            operand,
            _positions(scatter_indices),
            updates,
            dimension_numbers=as_numbers(ScatterDimensionNumbers, dimension_numbers),
            mode=_scatter_mode(mode),
            unique_indices=bool(unique_indices),
        )

    fun.__name__ = fun.__qualname__ = prim.name
    fun.__doc__ = f"""operand with `updates` {what} its windows at scatter_indices.

    The last axis of scatter_indices (integers) holds the index vectors; dimension_numbers: ScatterDimensionNumbers.
    mode: "clip" moves windows inside the operand, "drop" (the default) leaves out those that are not inside. Updates of one
    element are applied in the order of the indices; unique_indices is the caller's word that there is one for each.
    Raises ShapeError where shapes do not fit, TypeError where dtypes differ.
    """
    return fun


scatter = _function(scatter_p, "written into")
scatter_add = _function(scatter_add_p, "added to")
scatter_mul = _function(scatter_mul_p, "multiplied into")
scatter_min = _function(scatter_min_p, "combined by minimum into")
scatter_max = _function(scatter_max_p, "combined by maximum into")


def scatter_sub(operand, scatter_indices, updates, dimension_numbers, *, indices_are_sorted=False, unique_indices=False, mode=None):
    """operand with `updates` subtracted from its windows at scatter_indices: scatter_add of their negatives."""
    return scatter_add(operand, scatter_indices, neg(updates), dimension_numbers, unique_indices=unique_indices, mode=mode)


# --- rows: the common case, a table indexed along axis 0 ---------------------------------------------------------------------


def take_rows(x, rows, fill=None, axis=0, at=None, mode="clip"):
    """x indexed along an axis by rows, an array of any shape, whose axes take the axis' place or stand at `at` (no further back).

    Out-of-range rows are clamped, or give `fill`; with mode "promise_in_bounds" they are clamped and have no gradient.
    """
    shape, n = get_aval(x).shape, get_aval(rows).ndim
    at = axis if at is None else at
    others = shape[:axis] + shape[axis + 1 :]
    if shape[axis] == 0:
        return full((*others[:at], *get_aval(rows).shape, *others[at:]), 0 if fill is None else fill, get_aval(x).dtype)
    offset = (*range(at), *range(at + n, n + len(others)))
    return gather(
        x,
        reshape(rows, (*get_aval(rows).shape, 1)),
        GatherDimensionNumbers(offset, (axis,), (axis,)),
        (*shape[:axis], 1, *shape[axis + 1 :]),
        mode=mode if fill is None else "fill",
        fill_value=fill,
    )


def _without_cotangent_batch(axis, args, dims):
    args, dim = align_batch(args, dims)
    return without_cotangent_p.bind(*args), dim


# x, whose cotangent is dropped where a mask of its shape holds; its tangent is not, as JAX has it of indices out of range
without_cotangent_p = Primitive(
    "without_cotangent",
    abstract_eval=lambda x, mask: x,
    batch=_without_cotangent_batch,
    transpose=lambda cts, x, mask: [select(mask, like(cts[0], 0), cts[0]), None],
    lower=lambda ctx, ins, params, out_avals: ins[0],
    kind="elementwise",
    listed=False,
)
without_cotangent_p.jvp = jvp_by_args(without_cotangent_p, lambda t, out, x, mask: without_cotangent_p.bind(t, mask))
without_cotangent = without_cotangent_p.bind


_PUT = {"set": scatter, "add": scatter_add, "mul": scatter_mul, "min": scatter_min, "max": scatter_max}


def put(kind, x, indices, updates, numbers, **how):
    """The scatter of a kind: set, add, mul, min or max."""
    return _PUT[kind](x, indices, updates, numbers, **how)


def put_rows(kind, x, rows, updates, mode=None, axis=0):
    """x with updates combined into its rows along an axis, where the axes of `rows` stand in the updates; kind: set, add, mul, min or max.

    Out-of-range rows are dropped (clamped with mode "clip").
    """
    ndim, n = get_aval(x).ndim, get_aval(rows).ndim
    if get_aval(x).shape[axis] == 0:
        return x
    numbers = ScatterDimensionNumbers((*range(axis), *range(axis + n, n + ndim - 1)), (axis,), (axis,))
    return _PUT[kind](x, reshape(rows, (*get_aval(rows).shape, 1)), updates, numbers, mode=mode)


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "gather_p",
    "scatter",
    "scatter_add",
    "scatter_add_p",
    "scatter_max",
    "scatter_max_p",
    "scatter_min",
    "scatter_min_p",
    "scatter_mul",
    "scatter_mul_p",
    "scatter_p",
    "scatter_sub",
]
