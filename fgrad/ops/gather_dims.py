"""What gather and scatter are told: which axes mean what, what to do out of bounds; and whether that fits the shapes."""

import enum
import operator
from typing import NamedTuple

from fgrad import dtypes
from fgrad.errors import ShapeError


class GatherDimensionNumbers(NamedTuple):
    """Which axes of a gather mean what.

    offset_dims: axes of the result that run over a slice; collapsed_slice_dims: operand axes (of slice size 1) left out of it;
    start_index_map: the operand axis of each index component; operand_batching_dims and start_indices_batching_dims: axes of
    the operand and of the indices that run together.
    """

    offset_dims: tuple
    collapsed_slice_dims: tuple
    start_index_map: tuple
    operand_batching_dims: tuple = ()
    start_indices_batching_dims: tuple = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of a scatter mean what.

    update_window_dims: axes of the updates that run over a window; inserted_window_dims: operand axes left out of it;
    scatter_dims_to_operand_dims: the operand axis of each index component; operand_batching_dims and
    scatter_indices_batching_dims: axes of the operand and of the indices that run together.
    """

    update_window_dims: tuple
    inserted_window_dims: tuple
    scatter_dims_to_operand_dims: tuple
    operand_batching_dims: tuple = ()
    scatter_indices_batching_dims: tuple = ()


class GatherScatterMode(enum.Enum):
    """What happens to slices that are not inside the operand: moved inside, or filled (gather) and dropped (scatter)."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"
    ONE_HOT = "one_hot"

    @classmethod
    def from_any(cls, s):
        """A mode from its name, itself, or None (fill or drop). Raises ValueError for anything else."""
        if isinstance(s, cls):
            return s
        if s is None or s == "drop":
            return cls.FILL_OR_DROP
        try:
            return cls(s)
        except ValueError:
            raise ValueError(f"unknown gather or scatter mode {s!r}: clip, fill, drop, promise_in_bounds or one_hot") from None


def shifted(axes, by=1):
    return tuple(a + by for a in axes)


def _check_indices(name, indices):
    if not dtypes.is_integer(indices.dtype):
        raise ValueError(f"{name}: indices must have an integer type, got {indices.dtype.name}")
    if not indices.shape:
        raise ShapeError(f"{name}: indices need a last axis that holds the index vectors, got shape ()")


def check_axes(name, what, axes, rank, ascending=True):
    if len(set(axes)) != len(axes) or any(not 0 <= a < rank for a in axes):
        raise ShapeError(f"{name}: {what} {axes} must be distinct axes in [0, {rank})")
    if ascending and list(axes) != sorted(axes):
        raise ShapeError(f"{name}: {what} {axes} must be sorted")


def check_geometry(name, x, indices, dropped, index_map, batching, ibatching, what):
    """The checks that gather and scatter share; `what` names the dimension numbers' fields."""
    _check_indices(name, indices)
    rank = len(x.shape)
    check_axes(name, what[0], dropped, rank)
    check_axes(name, what[1], index_map, rank, ascending=False)
    check_axes(name, "operand_batching_dims", batching, rank)
    check_axes(name, what[2], ibatching, len(indices.shape) - 1, ascending=False)
    if len(index_map) != indices.shape[-1]:
        raise ShapeError(
            f"{name}: {what[1]} {index_map} must have one axis per index component, got indices of shape {indices.shape} "
            f"with {indices.shape[-1]} components"
        )
    if set(batching) & (set(dropped) | set(index_map)):
        raise ShapeError(f"{name}: operand_batching_dims {batching} may not be in {what[0]} {dropped} or {what[1]} {index_map}")
    if [x.shape[a] for a in batching] != [indices.shape[a] for a in ibatching]:
        raise ShapeError(
            f"{name}: operand_batching_dims {batching} of shape {x.shape} and {what[2]} {ibatching} of shape {indices.shape} "
            "must have equal sizes"
        )


def index_operand(ctx, indices):
    return indices if indices.dtype in (dtypes.INT32, dtypes.INT64) else ctx.cast(indices, dtypes.INT64)


def as_numbers(cls, d):
    """Dimension numbers with tuples of Python ints for whatever sequences the caller gave (those of JAX fit too)."""
    if not all(hasattr(d, f) for f in cls._fields):
        raise TypeError(f"dimension_numbers must be {cls.__name__}, got {d!r}")
    return cls(*(tuple(map(operator.index, getattr(d, f))) for f in cls._fields))
