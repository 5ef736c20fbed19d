"""Reductions over segments: rows of an array combined by an id for each. jax.ops' names."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.core import concrete_or_none, get_aval
from fgrad.errors import ConcretizationTypeError
from fgrad.ops.elementwise import div, like
from fgrad.ops.gather import GatherScatterMode, ScatterDimensionNumbers, scatter_add, scatter_max, scatter_min, scatter_mul
from fgrad.ops.reduce import reduce_prod, reduce_sum
from fgrad.ops.rules import full
from fgrad.ops.shape import broadcast_in_dim, concatenate, iota, reshape

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _lowest(dtype, sign):
    """The least (sign -1) or greatest value of a dtype."""
    if dtype == dtypes.BOOL:
        return sign > 0
    if dtypes.is_integer(dtype):
        return dtypes.iinfo(dtype).min if sign < 0 else dtypes.iinfo(dtype).max
    return sign * np.inf


def _count(name, segment_ids, num_segments):
    if num_segments is None:
        ids = concrete_or_none(segment_ids)
        if ids is None:
            raise ConcretizationTypeError(f"{name}: under tracing the number of segments must be given: num_segments=...")
        return int(np.max(np.asarray(ids))) + 1 if get_aval(ids).size else 0
    num_segments = concrete_or_none(num_segments)
    if num_segments is None:
        raise ConcretizationTypeError(f"{name}: num_segments is a shape and cannot be a traced value; make it a static argument")
    num_segments = operator.index(num_segments)
    if num_segments < 0:
        raise ValueError(f"{name}: num_segments must be non-negative, got {num_segments}")
    return num_segments


def _segments(name, scatter, reducer, identity, what):
    def fun(
        data,
        segment_ids,
        num_segments=None,
        indices_are_sorted=False,
        unique_indices=False,
        bucket_size=None,
        mode=None,
        out_sharding=None,
    ):
        aval, ids = get_aval(data), get_aval(segment_ids)
        if not dtypes.is_integer(ids.dtype):
            raise TypeError(f"{name}: segment_ids must be integers, got {ids.dtype.name}")
        rest = aval.shape[ids.ndim :]
        if aval.shape[: ids.ndim] != ids.shape:
            try:  # as JAX: .at[segment_ids] broadcasts
                shape = (*ids.shape, *rest)
                data = broadcast_in_dim(data, shape, tuple(range(len(shape) - aval.ndim, len(shape))))
            except (TypeError, ValueError):
                raise ValueError(f"{name}: data of shape {aval.shape} must begin with the shape {ids.shape} of segment_ids") from None
        n = _count(name, segment_ids, num_segments)
        if reducer is None:  # nothing is rounded: buckets are for sums and products
            bucket_size = None
        buckets = 1 if bucket_size is None else -(-ids.size // bucket_size)
        rows, data = reshape(segment_ids, (ids.size, 1)), reshape(data, (ids.size, *rest))
        if bucket_size is not None:
            numbers = reshape(iota(ids.dtype, ids.size), (ids.size, 1))
            rows = concatenate([div(numbers, like(numbers, bucket_size)), rows], 1)
        lead = (n,) if bucket_size is None else (buckets, n)
        if 0 in lead or 0 in rest or not ids.size:
            return full((n, *rest), identity(aval.dtype), aval.dtype)
        axes = tuple(range(len(lead)))
        windows = tuple(range(1, 1 + len(rest)))
        out = scatter(
            full((*lead, *rest), identity(aval.dtype), aval.dtype),
            rows,
            data,
            ScatterDimensionNumbers(windows, axes, axes),
            unique_indices=unique_indices,
            mode=GatherScatterMode.from_any(mode),
        )
        return out if bucket_size is None else reducer(out, (0,))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""The {what} of the rows of `data` that have the same id: row i of the result is that of the rows with segment_ids == i.

    num_segments: how many rows the result has; by default the greatest id plus 1, which must then be concrete. Rows whose id
    is negative or not below num_segments are left out (mode="clip" moves them inside). bucket_size: combine that many rows at a time,
    and the results after that, for less rounding. Raises TypeError for ids that are no integers, ValueError where shapes do not fit.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.ops.{name}(jnp.array([1, 2, 3]), jnp.array([0, 0, 1]))
    Array({dict(sum="[3, 3]", product="[2, 3]", maximum="[2, 3]", minimum="[1, 3]")[what]}, dtype=int32)
    """
    return fun


segment_sum = _segments("segment_sum", scatter_add, reduce_sum, lambda dtype: 0, "sum")
segment_prod = _segments("segment_prod", scatter_mul, reduce_prod, lambda dtype: 1, "product")
segment_max = _segments("segment_max", scatter_max, None, lambda dtype: _lowest(dtype, -1), "maximum")
segment_min = _segments("segment_min", scatter_min, None, lambda dtype: _lowest(dtype, 1), "minimum")
