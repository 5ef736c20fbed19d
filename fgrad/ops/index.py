"""Indexing primitives: rows taken from, and written into, a table; dynamic slices and updates.

take_rows and the put_rows family see an operand as a table of rows along axis 0; NumPy-style indexing reduces to them.
"""

import operator

from fgrad._kernels.index import gather_ip, scatter_ip

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, bitwise_or, clamp, convert_element_type, div, eq, ge, like, lt, mul, select
from fgrad.ops.rules import Zero, bdim_at_front, broadcast_in_dim, full, instantiate, is_linear, jvp_by_args, move_axis, zero_of
from fgrad.ops.shape import broadcasted_iota, reshape


def _check_rows(name, x, rows):
    if not x.shape:
        raise ShapeError(f"{name}: the operand needs at least one axis, got shape ()")
    if not dtypes.is_integer(rows.dtype):
        raise TypeError(f"{name}: rows must be integers, got {rows.dtype.name}")


def _fold(axis, x, dx, rows, dr):
    """Fold a batch axis into the row axis: example b's row r becomes row b * n + r; out-of-range rows stay out of range."""
    x = bdim_at_front(x, dx, axis.size)
    rows = bdim_at_front(rows, dr, axis.size)
    b, n, *rest = get_aval(x).shape
    idtype = get_aval(rows).dtype
    inside = select(
        _outside(rows, n),
        full(get_aval(rows).shape, -1, idtype),
        add(rows, mul(broadcasted_iota(idtype, get_aval(rows).shape, 0), like(rows, n))),
    )
    return reshape(x, (b * n, *rest)), inside, (b, n, *rest)


def _outside(rows, n):
    return bitwise_or(lt(rows, like(rows, 0)), ge(rows, like(rows, n)))


def _take_aval(x, rows, *, fill):
    _check_rows("take_rows", x, rows)
    return ShapedArray((*rows.shape, *x.shape[1:]), x.dtype, x.weak_type)


def _index_value(ctx, rows):
    return ctx.reshape(rows if rows.dtype in (dtypes.INT32, dtypes.INT64) else ctx.cast(rows, dtypes.INT64), (*rows.shape, 1))


def _take_lower(ctx, ins, params, out_avals):
    x, rows = ins
    n, r = len(rows.shape), len(x.shape)
    fill = params["fill"]
    value = None if fill is None else x.dtype.type(fill)
    if x.shape[0] == 0:
        return ctx.broadcast(ctx.scalar(0 if fill is None else fill, x.dtype), out_avals[0].shape, ())
    ip = gather_ip(tuple(range(n, n + r - 1)), (0,), (0,), (), (), (1, *x.shape[1:]), fill is not None, value)
    return ctx.kernel("gather", [x, _index_value(ctx, rows)], out_avals, ip=tuple(ip))[0]


def _take_batch(axis, args, dims, *, fill):
    (x, rows), (dx, dr) = args, dims
    if dx is None:
        return take_rows_p.bind(x, rows, fill=fill), dr
    if dr is None:  # rows are shared: put the batch axis behind the row axis
        return take_rows_p.bind(move_axis(bdim_at_front(x, dx, axis.size), 0, 1), rows, fill=fill), get_aval(rows).ndim
    n = get_aval(bdim_at_front(x, dx, axis.size)).shape[1]
    if fill is None:
        rows = clamp(like(rows, 0), rows, like(rows, n - 1))
    table, rows, _ = _fold(axis, x, dx, rows, dr)
    return take_rows_p.bind(table, rows, fill=fill), 0


def _take_transpose(cts, x, rows, *, fill):
    n = x.aval.shape[0]
    if fill is None:
        rows = clamp(like(rows, 0), rows, like(rows, n - 1))
    return [put_rows_p["add"].bind(full(x.aval.shape, 0, x.aval.dtype), rows, cts[0]), None]


take_rows_p = Primitive("take_rows", abstract_eval=_take_aval, lower=_take_lower, batch=_take_batch, transpose=_take_transpose)
take_rows_p.jvp = jvp_by_args(take_rows_p, lambda t, out, x, rows, *, fill: take_rows_p.bind(t, rows, fill=None if fill is None else 0))


def take_rows(x, rows, fill=None):
    """x[rows]: rows has any shape; out-of-range rows are clamped, or give `fill`."""
    return take_rows_p.bind(x, rows, fill=fill)


def _put(kind):
    name = f"put_rows_{kind}"

    def abstract_eval(x, rows, updates):
        _check_rows(name, x, rows)
        if updates.shape != (*rows.shape, *x.shape[1:]):
            raise ShapeError(f"{name}: updates have shape {updates.shape}, expected {(*rows.shape, *x.shape[1:])}")
        if updates.dtype != x.dtype:
            raise TypeError(f"{name}: updates of dtype {updates.dtype.name} for an operand of {x.dtype.name}")
        return x

    def lower(ctx, ins, params, out_avals):
        x, rows, updates = ins
        n, r = len(rows.shape), len(x.shape)
        if x.shape[0] == 0:
            return x
        ip = scatter_ip(tuple(range(n, n + r - 1)), (0,), (0,), (), (), kind, True)
        return ctx.kernel("scatter", [x, _index_value(ctx, rows), updates], out_avals, ip=tuple(ip))[0]

    def batch(axis, args, dims):
        table, rows, shape = _fold(axis, args[0], dims[0], args[1], dims[1])
        return reshape(prim.bind(table, rows, bdim_at_front(args[2], dims[2], axis.size)), shape), 0

    prim = Primitive(name, abstract_eval=abstract_eval, lower=lower, batch=batch)
    return prim


put_rows_p = {kind: _put(kind) for kind in ("set", "add", "mul", "min", "max")}


def _add_jvp(primals, tangents):
    x, rows, u = primals
    out = put_rows_p["add"].bind(x, rows, u)
    tx, _, tu = tangents
    if type(tx) is Zero and type(tu) is Zero:
        return out, zero_of(out)
    return out, put_rows_p["add"].bind(instantiate(tx), rows, instantiate(tu))


put_rows_p["add"].jvp = _add_jvp
put_rows_p["add"].transpose = lambda cts, x, rows, u: [
    cts[0] if is_linear(x) else None,
    None,
    take_rows_p.bind(cts[0], rows, fill=0) if is_linear(u) else None,
]


def _set_jvp(primals, tangents):
    """The last write to a row wins: number the writes, and keep the tangents of those whose number stands in the result."""
    x, rows, u = primals
    out = put_rows_p["set"].bind(x, rows, u)
    if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
        return out, zero_of(out)
    tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
    shape = get_aval(rows).shape
    size = get_aval(rows).size
    order = reshape(broadcasted_iota(dtypes.INT32, (size,), 0), shape) if size else full(shape, 0, dtypes.INT32)
    n = get_aval(x).shape[0]
    winner = put_rows_p["set"].bind(full((n,), -1, dtypes.INT32), rows, order)
    won = eq(take_rows_p.bind(winner, rows, fill=-1), order)
    untouched = eq(winner, like(winner, -1))
    tshape, xshape = get_aval(tu).shape, get_aval(x).shape
    keep_x = broadcast_in_dim(untouched, xshape, (0,))
    keep_u = broadcast_in_dim(won, tshape, tuple(range(len(shape))))
    return out, put_rows_p["add"].bind(select(keep_x, tx, like(tx, 0)), rows, select(keep_u, tu, like(tu, 0)))


put_rows_p["set"].jvp = _set_jvp


def _mul_jvp(primals, tangents):
    """Exact for distinct rows (and zero factors); repeated rows need the product of the others: out / update, away from zero."""
    x, rows, u = primals
    out = put_rows_p["mul"].bind(x, rows, u)
    if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
        return out, zero_of(out)
    tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
    from_x = put_rows_p["mul"].bind(tx, rows, u)
    others = div(take_rows_p.bind(out, rows, fill=0), u)
    return out, put_rows_p["add"].bind(from_x, rows, mul(tu, others))


def _extremum_jvp(kind):
    """Tangents of whatever attains the extremum, shared evenly among ties."""

    def jvp(primals, tangents):
        x, rows, u = primals
        out = put_rows_p[kind].bind(x, rows, u)
        if type(tangents[0]) is Zero and type(tangents[2]) is Zero:
            return out, zero_of(out)
        tx, tu = instantiate(tangents[0]), instantiate(tangents[2])
        dtype = get_aval(tx).dtype
        hit_x = convert_element_type(eq(x, out), dtype)
        hit_u = convert_element_type(eq(u, take_rows_p.bind(out, rows, fill=0)), dtype)
        count = put_rows_p["add"].bind(hit_x, rows, hit_u)
        return out, div(put_rows_p["add"].bind(mul(tx, hit_x), rows, mul(tu, hit_u)), count)

    return jvp


put_rows_p["mul"].jvp = _mul_jvp
put_rows_p["min"].jvp, put_rows_p["max"].jvp = _extremum_jvp("min"), _extremum_jvp("max")


def put_rows(kind, x, rows, updates):
    """x with updates combined into its rows; kind: set, add, mul, min or max. Out-of-range rows are dropped."""
    return put_rows_p[kind].bind(x, rows, updates)


# --- dynamic slices -----------------------------------------------------------------------------------------------------


def _check_starts(name, x, starts):
    if len(starts) != len(x.shape):
        raise ShapeError(f"{name}: {len(starts)} start indices for an operand of shape {x.shape}")
    for s in starts:
        if s.shape != () or not dtypes.is_integer(s.dtype):
            raise TypeError(f"{name}: start indices must be integer scalars, got {s.short()}")


def _ds_aval(x, *starts, slice_sizes):
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != len(x.shape) or any(not 0 <= k <= n for k, n in zip(slice_sizes, x.shape)):
        raise ShapeError(f"dynamic_slice: slice_sizes {slice_sizes} must fit the operand's shape {x.shape}")
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _starts(ctx, starts):
    return [s if s.dtype in (dtypes.INT32, dtypes.INT64) else ctx.cast(s, dtypes.INT64) for s in starts]


def _ds_lower(ctx, ins, params, out_avals):
    if not ins[0].shape:
        return ins[0]
    return ctx.kernel("dynamic_slice", [ins[0], *_starts(ctx, ins[1:])], out_avals, contiguous=False)[0]


def _rows_of_box(shape, starts, sizes, dims, axis):
    """Linear positions, (B, *sizes), of one box per example in an operand of `shape` = (B, ...) flattened."""
    b = axis.size
    out_shape = (b, *sizes)
    total = mul(broadcasted_iota(dtypes.INT32, out_shape, 0), dtypes.INT32.type(_prod(shape[1:])))
    stride = 1
    for d in range(len(sizes) - 1, -1, -1):
        s = convert_element_type(starts[d], dtypes.INT32)
        s = clamp(like(s, 0), s, like(s, shape[d + 1] - sizes[d]))
        s = broadcast_in_dim(s, out_shape, (0,)) if dims[d] is not None else broadcast_in_dim(s, out_shape, ())
        total = add(total, mul(add(s, broadcasted_iota(dtypes.INT32, out_shape, d + 1)), dtypes.INT32.type(stride)))
        stride *= shape[d + 1]
    return total


def _prod(xs):
    n = 1
    for x in xs:
        n *= x
    return n


def _ds_batch(axis, args, dims, *, slice_sizes):
    x, starts, d = args[0], args[1:], dims[0]
    if all(s is None for s in dims[1:]):
        zero = dtypes.INT32.type(0)
        sizes = (*slice_sizes[:d], axis.size, *slice_sizes[d:])
        return dynamic_slice_p.bind(x, *starts[:d], zero, *starts[d:], slice_sizes=sizes), d
    x = bdim_at_front(x, d, axis.size)
    shape = get_aval(x).shape
    rows = _rows_of_box(shape, starts, slice_sizes, dims[1:], axis)
    return take_rows_p.bind(reshape(x, (_prod(shape),)), rows, fill=None), 0


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
        raise TypeError(f"dynamic_update_slice: update of dtype {update.dtype.name} for an operand of {x.dtype.name}")
    if len(update.shape) != len(x.shape) or any(k > n for k, n in zip(update.shape, x.shape)):
        raise ShapeError(f"dynamic_update_slice: update of shape {update.shape} must fit the operand's shape {x.shape}")
    return x


def _dus_lower(ctx, ins, params, out_avals):
    if not ins[0].shape:
        return ins[1]
    return ctx.kernel(
        "dynamic_update_slice", [*ins[:2], *_starts(ctx, ins[2:])], out_avals, contiguous=(True, False, *[False] * (len(ins) - 2))
    )[0]


def _dus_batch(axis, args, dims):
    x, update, *starts = args
    x, update = bdim_at_front(x, dims[0], axis.size), bdim_at_front(update, dims[1], axis.size)
    if all(s is None for s in dims[2:]):
        return dynamic_update_slice_p.bind(x, update, dtypes.INT32.type(0), *starts), 0
    shape, sizes = get_aval(x).shape, get_aval(update).shape[1:]
    rows = _rows_of_box(shape, starts, sizes, dims[2:], axis)
    return reshape(put_rows_p["set"].bind(reshape(x, (_prod(shape),)), rows, update), shape), 0


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


def _start_values(x, starts):
    """Start indices with Python's negative ones counted from the end."""
    out = []
    for n, s in zip(get_aval(x).shape, starts):
        if isinstance(s, int):
            s = dtypes.INT32.type(s + n if s < 0 else s)
        elif dtypes.is_signed(get_aval(s).dtype):
            s = select(lt(s, like(s, 0)), add(s, like(s, n)), s)
        out.append(s)
    return out


def dynamic_slice(operand, start_indices, slice_sizes):
    """The box of slice_sizes at start_indices, which may be traced; it is moved inside the operand where it would leave it."""
    return dynamic_slice_p.bind(operand, *_start_values(operand, start_indices), slice_sizes=tuple(map(operator.index, slice_sizes)))


def dynamic_update_slice(operand, update, start_indices):
    """operand with `update` written at start_indices (moved inside where it would leave the operand)."""
    return dynamic_update_slice_p.bind(operand, update, *_start_values(operand, start_indices))


def dynamic_slice_in_dim(operand, start_index, slice_size, axis=0):
    """dynamic_slice along one axis."""
    shape = get_aval(operand).shape
    axis %= len(shape)
    starts, sizes = [0] * len(shape), list(shape)
    starts[axis], sizes[axis] = start_index, slice_size
    return dynamic_slice(operand, starts, sizes)


def dynamic_index_in_dim(operand, index, axis=0, keepdims=True):
    """operand[index] along one axis for a traced index."""
    out = dynamic_slice_in_dim(operand, index, 1, axis)
    shape = get_aval(out).shape
    axis %= len(shape)
    return out if keepdims else reshape(out, shape[:axis] + shape[axis + 1 :])


def dynamic_update_slice_in_dim(operand, update, start_index, axis):
    """dynamic_update_slice along one axis."""
    n = get_aval(operand).ndim
    starts = [0] * n
    starts[axis % n] = start_index
    return dynamic_update_slice(operand, update, starts)


def dynamic_update_index_in_dim(operand, update, index, axis):
    """operand with `update` as its slice `index` along one axis."""
    shape = get_aval(operand).shape
    axis %= len(shape)
    if get_aval(update).ndim != len(shape):
        s = get_aval(update).shape
        update = reshape(update, (*s[:axis], 1, *s[axis:]))
    return dynamic_update_slice_in_dim(operand, update, index, axis)
