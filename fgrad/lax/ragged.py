"""Products whose operands are in groups along an axis: as dot_general, with zeros for what is outside a group."""

from typing import Any, NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad.core import get_aval
from fgrad.errors import ShapeError
from fgrad.ops.cumulative import cumsum
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import bitwise_and, ge, like, lt, select, sub
from fgrad.ops.rules import broadcast_in_dim
from fgrad.ops.shape import broadcasted_iota, transpose

__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general"]


class RaggedDotDimensionNumbers(NamedTuple):
    """dot_general's dimension numbers, the one ragged axis of lhs, and the axes of rhs that count groups."""

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Any
    rhs_group_dimensions: Any


def _of_groups(x, dim, outer, sizes):
    """x once for each group, (g, *x.shape), with zeros outside the group's part of axis `dim`.

    sizes: (g,), or (..., g) with the sizes of x's axes `outer` in front.
    """
    shape = (sizes.shape[-1], *x.shape)
    ends = cumsum(sizes, sizes.ndim - 1)
    axes = [*(d + 1 for d in outer[: sizes.ndim - 1]), 0]
    order = tuple(map(int, np.argsort(axes)))
    starts, ends = (
        broadcast_in_dim(transpose(v, order) if sizes.ndim > 1 else v, shape, tuple(axes[i] for i in order))
        for v in (sub(ends, sizes), ends)
    )
    at = broadcasted_iota(sizes.dtype, shape, dim + 1)
    wide = broadcast_in_dim(x, shape, tuple(range(1, len(shape))))
    return select(bitwise_and(ge(at, starts), lt(at, ends)), wide, like(wide, 0))


def ragged_dot_general(
    lhs, rhs, group_sizes, ragged_dot_dimension_numbers, precision=None, preferred_element_type=None, group_offset=None, out_sharding=None
):
    """dot_general of operands in groups along one axis of lhs, the ragged axis.  Which it is decides what groups are:

    an axis that stays (m): each group of lhs times its matrix in rhs, which counts groups: b.. m.. k.., g b.. k.. n.. -> b.. m.. n..;
    a contracted axis (k): a product for each group: b.. m.. k.., b.. k.. n.. -> g b.. m.. n..;
    a batch axis: the products of dot_general.

    group_sizes: integers (g,), or with the axes of lhs in front that are of the ragged axis' kind and before it, and the batch axes.
    Raises TypeError where axes and shapes do not fit, NotImplementedError for group_offset.

    >>> import fgrad.numpy as jnp
    >>> from fgrad import lax
    >>> rows = lax.RaggedDotDimensionNumbers((([0], [0]), ([], [])), [0], [])
    >>> lax.ragged_dot_general(jnp.ones((5, 1)), jnp.ones((5, 2)), jnp.array([2, 3]), rows).tolist()
    [[[2.0, 2.0]], [[3.0, 3.0]]]
    """
    if group_offset is not None:
        raise NotImplementedError("ragged_dot_general: group_offset is not supported")
    numbers, ragged, groups = ragged_dot_dimension_numbers
    (l_contract, r_contract), (l_batch, r_batch) = ((list(a), list(b)) for a, b in numbers)
    ndim, sizes = get_aval(lhs).ndim, get_aval(group_sizes)
    if len(ragged) != 1:
        raise TypeError("ragged_dot_general expects exactly one lhs ragged dimension.")
    dim = ragged[0]
    if not 0 <= dim < ndim:
        raise TypeError(f"ragged_dot_general: the lhs ragged dimension {dim} is not an axis of an lhs of rank {ndim}.")
    if sizes.ndim == 0 or not dtypes.is_integer(sizes.dtype):
        raise TypeError(f"ragged_dot_general: group_sizes must be integers of rank >= 1, got {sizes}.")
    kept = [d for d in range(ndim) if d not in l_contract and d not in l_batch]
    stays, contracted = dim in kept, dim in l_contract
    if len(groups) != stays:
        raise TypeError(
            f"ragged_dot_general: rhs has {'exactly one group dimension' if stays else 'zero group dimensions'} "
            f"where the lhs ragged dimension is {'noncontracting' if stays else 'contracting or batch'}, got {tuple(groups)}."
        )
    outer = [*l_batch, *kept[: kept.index(dim)]] if stays else [*l_batch, *l_contract[: l_contract.index(dim)]] if contracted else []
    outer = outer if stays or contracted else l_batch[: l_batch.index(dim)]
    expected = tuple(get_aval(lhs).shape[d] for d in outer)
    if sizes.ndim > 1 and sizes.shape[:-1] != expected:
        raise TypeError(f"expected group_sizes to have shape {(*expected, sizes.shape[-1])}, got {sizes.shape}.")
    options = {"precision": precision, "preferred_element_type": preferred_element_type}
    after = lambda dims: [d + 1 for d in dims]  # noqa: E731
    if stays:
        if get_aval(rhs).shape[groups[0]] != sizes.shape[-1]:
            raise TypeError(f"expected rhs group dimension size to be {sizes.shape[-1]}, got {get_aval(rhs).shape[groups[0]]}.")
        wide = _of_groups(lhs, dim, outer, group_sizes)
        return dot_general(wide, rhs, (([0, *after(l_contract)], [groups[0], *r_contract]), (after(l_batch), r_batch)), **options)
    if contracted:
        at = l_contract.index(dim)
        wide = _of_groups(lhs, dim, outer, group_sizes)
        other = _of_groups(rhs, r_contract[at], [*r_batch, *r_contract[:at]], group_sizes)
        dims = ((after(l_contract), after(r_contract)), ([0, *after(l_batch)], [0, *after(r_batch)]))
        return dot_general(wide, other, dims, **options)
    return dot_general(lhs, rhs, numbers, **options)


_ROWS = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))


def ragged_dot(lhs, rhs, group_sizes, precision=None, preferred_element_type=None, group_offset=None, out_sharding=None):
    """Rows of lhs (m, k), in groups of group_sizes (g,) one after another, each times the matrix of its group in rhs (g, k, n).

    Rows behind the last group give zeros. Raises ShapeError where shapes do not fit.
    """
    a, b, s = get_aval(lhs), get_aval(rhs), get_aval(group_sizes)
    if a.ndim != 2 or b.ndim != 3 or s.shape != b.shape[:1] or a.shape[1] != b.shape[1]:
        raise ShapeError(f"ragged_dot takes (m, k), (g, k, n) and (g,), got {a.shape}, {b.shape} and {s.shape}")
    return ragged_dot_general(lhs, rhs, group_sizes, _ROWS, precision, preferred_element_type, group_offset)
