"""true_positions: where booleans are true, in order, as many positions as are asked for."""

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray
from fgrad.errors import ShapeError
from fgrad.ops.rules import move_axis, zero_jvp


def _aval(x, *, size, index_dtype):
    if x.dtype != dtypes.BOOL:
        raise TypeError(f"true_positions takes booleans, not {x.dtype.name}")
    if not x.shape or size < 0:
        raise ShapeError(f"true_positions: {size} positions along the last axis of shape {x.shape}")
    return ShapedArray((*x.shape[:-1], size), index_dtype)


def _lower(ctx, ins, params, out_avals):
    return ctx.kernel("true_positions", ins, out_avals)[0]


def _batch(axis, args, dims, *, size, index_dtype):
    return true_positions_p.bind(move_axis(args[0], dims[0], 0), size=size, index_dtype=index_dtype), 0


true_positions_p = Primitive("true_positions", abstract_eval=_aval, lower=_lower, batch=_batch)
true_positions_p.jvp = zero_jvp(true_positions_p)


def true_positions(x, size, index_dtype=dtypes.INT32):
    """The first `size` positions along the last axis where x, an array of booleans, is true; the axis' length where there are fewer.

    index_dtype: int32 or int64. Raises TypeError where x is not boolean, ShapeError where it has no axis.

    >>> import fgrad.numpy as jnp
    >>> true_positions(jnp.array([False, True, False, True]), 3)
    Array([1, 3, 4], dtype=int32)
    """
    return true_positions_p.bind(x, size=size, index_dtype=index_dtype)
