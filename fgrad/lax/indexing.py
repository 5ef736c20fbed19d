"""gather and the scatter family; scatter_apply, which is made of them."""

from fgrad.control.common import strong_leaf
from fgrad.control.while_loop import while_loop
from fgrad.core import get_aval
from fgrad.ops.elementwise import add, gt, like, select
from fgrad.ops.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from fgrad.ops.reduce import reduce_max
from fgrad.ops.rules import full


def scatter_apply(
    operand,
    scatter_indices,
    func,
    dimension_numbers,
    *,
    update_shape=(),
    indices_are_sorted=False,
    unique_indices=False,
    mode=None,
):
    """operand with the elementwise function `func` applied in the windows at scatter_indices, once per window that covers an element.

    update_shape: the shape of the updates that a scatter there would take. With unique_indices it is differentiable in both
    modes; without, `func` runs in a while_loop, once for the greatest number of windows over one element.
    """
    shape = update_shape or get_aval(scatter_indices).shape[:-1]
    counts = scatter_add(full(get_aval(operand).shape, 0, "int32"), scatter_indices, full(shape, 1, "int32"), dimension_numbers, mode=mode)
    if unique_indices:
        return select(gt(counts, like(counts, 0)), func(operand), operand)
    most = reduce_max(counts, tuple(range(get_aval(counts).ndim))) if get_aval(counts).size else full((), 0, "int32")

    def step(carry):
        k, x = carry
        return add(k, like(k, 1)), select(gt(counts, k), func(x), x)

    return while_loop(lambda c: gt(most, c[0]), step, (full((), 0, "int32"), strong_leaf(operand)))[1]


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]
