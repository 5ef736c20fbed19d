"""take_along and put_along: moves along one axis by an array of positions.  Each is the other's transpose."""

import math

from fgrad import dtypes
from fgrad._kernels.index import gather_ip, scatter_ip
from fgrad.core import Primitive, ShapedArray
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import bitwise_and, clamp, ge, like, lt, select
from fgrad.ops.reduce import argaxis
from fgrad.ops.rules import bdim_at_front, full, jvp_by_args


def _check(name, x, positions, axis):
    if positions.dtype not in (dtypes.INT32, dtypes.INT64):
        raise TypeError(f"{name}: positions must be int32 or int64, got {positions.dtype.name}")
    a, b = list(x.shape), list(positions.shape)
    if not 0 <= axis < len(a) or len(a) != len(b) or a[:axis] + a[axis + 1 :] != b[:axis] + b[axis + 1 :]:
        raise ShapeError(f"{name}: x {x.shape} and positions {positions.shape} may differ in size along axis {axis} only")


def _take_aval(x, positions, *, axis):
    _check("take_along", x, positions, axis)
    if positions.size and not x.size:
        raise ShapeError(f"take_along: nothing to take from axis {axis} of shape {x.shape}")
    return ShapedArray(positions.shape, x.dtype, x.weak_type)


def _put_aval(x, positions, *, axis, size):
    _check("put_along", x, positions, axis)
    if x.shape != positions.shape:
        raise ShapeError(f"put_along: x {x.shape} and positions {positions.shape} must have one shape")
    return ShapedArray((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype, x.weak_type)


def _take_lower(ctx, ins, params, out_avals):
    x, positions = ins
    axis, n = params["axis"], len(x.shape)
    aval = out_avals[0]
    if axis == n - 1 and n != 2:  # rows of a matrix, which the compiler may cut in blocks
        x, positions = (ctx.reshape(v, (math.prod(v.shape[:-1]), v.shape[-1])) for v in ins)
        flat = _take_lower(ctx, [x, positions], {"axis": 1}, [aval.update(shape=positions.shape)])
        return ctx.reshape(flat, aval.shape)
    others = tuple(i for i in range(n) if i != axis)
    ip = gather_ip((), (axis,), (axis,), others, others, (1,) * n, False)
    return ctx.kernel("gather", [x, ctx.reshape(positions, (*positions.shape, 1))], out_avals, ip=tuple(ip))[0]


def _put_lower(ctx, ins, params, out_avals):
    x, positions = ins
    axis, aval = params["axis"], out_avals[0]
    if positions.shape[axis] == 1 and aval.size:  # one of each row: a comparison, which fuses with what is around
        at = ctx.kernel("iota", [], [ShapedArray((aval.shape[axis],), positions.dtype)], ip=(0,))[0]
        at = ctx.broadcast(at, aval.shape, (axis,))
        x, positions = (ctx.broadcast(v, aval.shape, tuple(range(len(aval.shape)))) for v in ins)
        hit = ctx.elementwise("eq", [at, positions], ShapedArray(aval.shape, dtypes.BOOL))
        return ctx.elementwise("select", [hit, x, ctx.scalar(0, aval.dtype)], aval)
    others = tuple(i for i in range(len(x.shape)) if i != axis)
    ip = scatter_ip((), (axis,), (axis,), others, others, "add", True)
    zeros = ctx.broadcast(ctx.scalar(0, x.dtype), aval.shape, ())
    return ctx.kernel("scatter", [zeros, ctx.reshape(positions, (*positions.shape, 1)), x], out_avals, ip=tuple(ip))[0]


def _batch(prim):
    def batch(mapped, args, dims, /, *, axis, **params):
        return prim.bind(*[bdim_at_front(x, d, mapped.size) for x, d in zip(args, dims)], axis=axis + 1, **params), 0

    return batch


take_along_p = Primitive("take_along", abstract_eval=_take_aval, lower=_take_lower)
put_along_p = Primitive("put_along", abstract_eval=_put_aval, lower=_put_lower)
for _p in (take_along_p, put_along_p):
    _p.batch = _batch(_p)
take_along_p.jvp = jvp_by_args(take_along_p, lambda t, out, x, positions, **kw: take_along_p.bind(t, positions, **kw))
put_along_p.jvp = jvp_by_args(put_along_p, lambda t, out, x, positions, **kw: put_along_p.bind(t, positions, **kw))


def _take_transpose(cts, x, positions, *, axis):
    """take_along clamps positions, put_along drops those outside: clamp them first."""
    size = x.aval.shape[axis]
    inside = clamp(like(positions, 0), positions, like(positions, max(size - 1, 0)))
    return [put_along_p.bind(cts[0], inside, axis=axis, size=size), None]


def _put_transpose(cts, x, positions, *, axis, size):
    """What was dropped gets no cotangent."""
    if not size or not x.aval.size:
        return [full(x.aval.shape, 0, x.aval.dtype), None]
    taken = take_along_p.bind(cts[0], positions, axis=axis)
    inside = bitwise_and(ge(positions, like(positions, 0)), lt(positions, like(positions, size)))
    return [select(inside, taken, like(taken, 0)), None]


take_along_p.transpose, put_along_p.transpose = _take_transpose, _put_transpose


def take_along(x, positions, axis):
    """out[..., i, ...] = x[..., positions[..., i, ...], ...] along one axis.

    positions: int32 or int64, of x's shape but for that axis; those outside [0, size) are clamped into it.
    """
    return take_along_p.bind(x, positions, axis=argaxis(x, axis))


def put_along(x, positions, axis, size):
    """Zeros of x's shape, with `size` along `axis`, to which each element of x is added at its position along it.

    positions: int32 or int64 of x's shape; elements whose position is outside [0, size) are dropped.
    """
    return put_along_p.bind(x, positions, axis=argaxis(x, axis), size=int(size))
