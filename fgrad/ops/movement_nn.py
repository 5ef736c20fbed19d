"""ggml's view, acc and repeat: strided windows of a flat buffer, sums into them, and tiles."""

import math
import operator

import numpy as np

from fgrad._kernels.index import scatter_ip
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, full, instantiate, is_linear, linear_jvp, zero_of
from fgrad.ops.shape import reshape

# --- view and acc -----------------------------------------------------------------------------------------------------


def _check_window(name, x, shape, strides, offset):
    """The window must lie inside x's elements, counted in row-major order."""
    if len(shape) != len(strides):
        raise ShapeError(f"{name}: shape {shape} and strides {strides} must be equally long")
    if 0 in shape:
        return
    low = offset + sum(s * (n - 1) for n, s in zip(shape, strides) if s < 0)
    high = offset + sum(s * (n - 1) for n, s in zip(shape, strides) if s > 0)
    if low < 0 or high >= x.size:
        raise ShapeError(
            f"{name}: the window of shape {shape}, strides {strides} and offset {offset} covers elements {low} to {high}, "
            f"but x of shape {x.shape} has elements 0 to {x.size - 1}"
        )


def _view_aval(x, *, shape, strides, offset):
    _check_window("view", x, shape, strides, offset)
    return ShapedArray(shape, x.dtype, x.weak_type)


def _view_lower(ctx, ins, params, out_avals):
    return ctx.view(ctx.contiguous(ins[0]), params["shape"], params["strides"], params["offset"] if out_avals[0].size else 0)


def _view_batch(axis, args, dims, *, shape, strides, offset):
    x = bdim_at_front(args[0], dims[0], axis.size)
    each = math.prod(get_aval(x).shape[1:])
    return view_p.bind(x, shape=(axis.size, *shape), strides=(each, *strides), offset=offset), 0


def _view_transpose(cts, x, *, shape, strides, offset):
    return [acc_p.bind(full(x.aval.shape, 0, x.aval.dtype), cts[0], strides=strides, offset=offset)]


def _acc_aval(x, y, *, strides, offset):
    if x.dtype != y.dtype:
        raise TypeError(f"acc: x is {x.dtype.name} but y {y.dtype.name}; cast one with astype")
    _check_window("acc", x, y.shape, strides, offset)
    return x


def _acc_lower(ctx, ins, params, out_avals):
    """A scatter-add of rows: the trailing axes of y that are dense in x move as one block."""
    x, y = ins
    shape, strides, offset = list(y.shape), list(params["strides"]), params["offset"]
    if out_avals[0].size == 0 or 0 in shape:
        return x
    run = 1
    while shape and (shape[-1] == 1 or strides[-1] == run):
        run *= shape.pop()
        strides.pop()
    starts = np.full(tuple(shape), offset, np.int64)
    for axis, (n, s) in enumerate(zip(shape, strides)):
        starts += (np.arange(n, dtype=np.int64) * s).reshape((n,) + (1,) * (len(shape) - axis - 1))
    index = starts.reshape(-1, 1)
    index = index.astype(np.int32) if out_avals[0].size < 2**31 else index
    flat = ctx.reshape(ctx.contiguous(x), (out_avals[0].size,))
    rows = ctx.reshape(y, (len(index), run))
    ip = scatter_ip((1,), (), (0,), (), (), "add", True)
    out = ctx.kernel("scatter", [flat, ctx.constant(index), rows], [ShapedArray((out_avals[0].size,), x.dtype)], ip=tuple(ip))[0]
    return ctx.reshape(out, out_avals[0].shape)


def _acc_jvp(primals, tangents, **params):
    out = acc_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return out, zero_of(out)
    return out, acc_p.bind(*map(instantiate, tangents), **params)


def _acc_transpose(cts, x, y, *, strides, offset):
    return [
        cts[0] if is_linear(x) else None,
        view_p.bind(cts[0], shape=y.aval.shape, strides=strides, offset=offset) if is_linear(y) else None,
    ]


def _acc_batch(axis, args, dims, *, strides, offset):
    x, y = (bdim_at_front(a, d, axis.size) for a, d in zip(args, dims))
    return acc_p.bind(x, y, strides=(math.prod(get_aval(x).shape[1:]), *strides), offset=offset), 0


view_p = Primitive("view", abstract_eval=_view_aval, lower=_view_lower, batch=_view_batch, transpose=_view_transpose, kind="view")
view_p.jvp = linear_jvp(view_p)
acc_p = Primitive("acc", abstract_eval=_acc_aval, lower=_acc_lower, batch=_acc_batch, transpose=_acc_transpose, jvp=_acc_jvp)


def _ints(xs):
    return tuple(map(operator.index, xs))


def view(x, shape, strides, offset=0):
    """The window out[i, j, ...] = flat[offset + i * strides[0] + j * strides[1] + ...] of x's elements in row-major order.

    Strides and offset count elements; windows may overlap themselves. Raises ShapeError where the window leaves x.
    """
    return view_p.bind(x, shape=_ints(shape), strides=_ints(strides), offset=operator.index(offset))


def acc(x, y, strides, offset=0):
    """x with y added into the window view(x, y.shape, strides, offset)."""
    return acc_p.bind(x, y, strides=_ints(strides), offset=operator.index(offset))


# --- repeat and its transpose -----------------------------------------------------------------------------------------


def _check_reps(name, x, reps):
    if len(reps) != len(x.shape) or any(r < 0 for r in reps):
        raise ShapeError(f"{name}: repeats {reps} must be one count of 0 or more per axis of shape {x.shape}")


def _repeat_aval(x, *, reps):
    _check_reps("repeat", x, reps)
    return ShapedArray(tuple(n * r for n, r in zip(x.shape, reps)), x.dtype, x.weak_type)


def _repeat_lower(ctx, ins, params, out_avals):
    x, reps = ins[0], params["reps"]
    shape = tuple(n for pair in zip(reps, x.shape) for n in pair)
    return ctx.reshape(ctx.broadcast(x, shape, tuple(range(1, len(shape), 2))), out_avals[0].shape)


def _repeat_back_aval(x, *, reps):
    _check_reps("repeat_back", x, reps)
    if any(r == 0 or n % r for n, r in zip(x.shape, reps)):
        raise ShapeError(f"repeat_back: the axes of shape {x.shape} are not multiples of the repeats {reps}")
    return ShapedArray(tuple(n // r for n, r in zip(x.shape, reps)), x.dtype, x.weak_type)


def _repeat_back_lower(ctx, ins, params, out_avals):
    x, reps = ins[0], params["reps"]
    split = ctx.reshape(x, tuple(n for r, m in zip(reps, x.shape) for n in (r, m // r)))
    return ctx.reduce("sum", split, tuple(range(0, 2 * len(reps), 2)), out_avals[0]) if reps else x


def _batched(prim):
    def batch(axis, args, dims, *, reps):
        d = dims[0]
        return prim.bind(args[0], reps=(*reps[:d], 1, *reps[d:])), d

    return batch


def _repeat_transpose(cts, x, *, reps):
    return [full(x.aval.shape, 0, x.aval.dtype) if 0 in reps else repeat_back(cts[0], reps)]


repeat_p = Primitive("repeat", abstract_eval=_repeat_aval, lower=_repeat_lower, transpose=_repeat_transpose)
repeat_back_p = Primitive(
    "repeat_back", abstract_eval=_repeat_back_aval, lower=_repeat_back_lower, transpose=lambda cts, x, *, reps: [repeat(cts[0], reps)]
)
for _p in (repeat_p, repeat_back_p):
    _p.jvp, _p.batch = linear_jvp(_p), _batched(_p)


def repeat(x, reps):
    """x laid out reps[i] times along each axis i, as np.tile does."""
    return repeat_p.bind(x, reps=_ints(reps))


def repeat_back(x, reps):
    """The sum of the reps[i] tiles along each axis i: the transpose of repeat."""
    return repeat_back_p.bind(x, reps=_ints(reps))


def sum_rows(x):
    """The sums along the last axis, which stays with size 1."""
    shape = get_aval(x).shape
    if not shape:
        raise ShapeError("sum_rows needs at least one axis, got a scalar")
    return reshape(reduce_sum(x, (len(shape) - 1,)), (*shape[:-1], 1))
