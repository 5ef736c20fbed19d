"""sort, top_k and searchsorted. Their derivatives move the tangents as the values were moved."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import NotDifferentiableError, ShapeError
from fgrad.ops.along import put_along, take_along
from fgrad.ops.elementwise import bitwise_and, bitwise_not, bitwise_or, convert_element_type, lt, ne, select
from fgrad.ops.reduce import argaxis, reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, broadcast_in_dim, instantiate, is_linear, move_axis, zero_jvp, zero_of
from fgrad.ops.shape import broadcasted_iota

FEW_SORTED, FEW_PAIRS = 4, 128  # elements of a row, pairs of a row and what is sought in it: comparisons of all, which fuse, take no longer

# --- sort -------------------------------------------------------------------------------------------------------------


def _sort_aval(*avals, dimension, is_stable, num_keys):
    shape = avals[0].shape
    if any(a.shape != shape for a in avals):
        raise ShapeError(f"sort: operands must have one shape, got {', '.join(str(a.shape) for a in avals)}")
    if not 0 <= dimension < len(shape):
        raise ShapeError(f"sort: dimension {dimension} is out of bounds for shape {shape}")
    return [a.strong() for a in avals]


def _sort_lower(ctx, ins, params, out_avals):
    if out_avals[0].shape[params["dimension"]] <= 1:
        return list(ins)
    ip = (params["dimension"], params["num_keys"], int(params["is_stable"]))
    return ctx.kernel("sort", ins, out_avals, ip=ip, contiguous=False)


def _sort_jvp(primals, tangents, *, dimension, is_stable, num_keys):
    shape = get_aval(primals[0]).shape
    if all(type(t) is Zero for t in tangents):
        out = sort_p.bind(*primals, dimension=dimension, is_stable=is_stable, num_keys=num_keys)
        return out, [zero_of(o) for o in out]
    *out, order = sort_p.bind(
        *primals, broadcasted_iota(np.int32, shape, dimension), dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return out, [zero_of(o) if type(t) is Zero else take_along(t, order, dimension) for o, t in zip(out, tangents)]


def _sort_batch(axis, args, dims, *, dimension, is_stable, num_keys):
    out = sort_p.bind(
        *[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)], dimension=dimension + 1, is_stable=is_stable, num_keys=num_keys
    )
    return out, [0] * len(out)


def _sort_transpose(cts, *args, dimension, is_stable, num_keys):
    """Linear in the operands that are no keys: their cotangents go back to where the values came from."""
    if any(map(is_linear, args[:num_keys])):
        raise NotDifferentiableError("sort is not linear in its keys: use grad or vjp, not linear_transpose")
    shape = get_aval(args[0]).shape
    *_, order = sort_p.bind(
        *args[:num_keys], broadcasted_iota(np.int32, shape, dimension), dimension=dimension, is_stable=is_stable, num_keys=num_keys
    )
    return [put_along(instantiate(ct), order, dimension, shape[dimension]) if is_linear(x) else None for x, ct in zip(args, cts)]


sort_p = Primitive(
    "sort",
    multiple_results=True,
    abstract_eval=_sort_aval,
    lower=_sort_lower,
    jvp=_sort_jvp,
    batch=_sort_batch,
    transpose=_sort_transpose,
)


def sort(operand, dimension=-1, is_stable=True, num_keys=1):
    """Ascending order along `dimension`: of one array, or of several by the first num_keys of them, lexicographically.

    Arrays of one shape; a sequence gives a tuple. NaN comes last and -0.0 equals 0.0; complex numbers go by real, then imaginary
    part. The sort is always stable.
    """
    several = isinstance(operand, (list, tuple))
    operands = tuple(operand) if several else (operand,)
    if not operands:
        raise TypeError("sort requires at least one operand")
    num_keys = operator.index(num_keys)
    if not 1 <= num_keys <= len(operands):
        raise ValueError(f"sort: num_keys={num_keys} must be between 1 and the number of operands, {len(operands)}")
    out = sort_p.bind(*operands, dimension=argaxis(operands[0], dimension), is_stable=bool(is_stable), num_keys=num_keys)
    out = [convert_element_type(o, o.dtype, get_aval(x).weak_type) for o, x in zip(out, operands)]
    return tuple(out) if several else out[0]


def sort_key_val(keys, values, dimension=-1, is_stable=True):
    """(keys sorted along `dimension`, values in the same order)."""
    return sort((keys, values), dimension, is_stable, 1)


# --- top_k ------------------------------------------------------------------------------------------------------------


def _top_k_aval(x, *, k, axis):
    if x.dtype.kind == "c":
        raise TypeError(f"top_k does not accept dtype {x.dtype.name}: complex numbers have no order")
    if not 0 <= axis < len(x.shape):
        raise ShapeError(f"top_k: axis {axis} is out of bounds for shape {x.shape}")
    if not 0 <= k <= x.shape[axis]:
        raise ValueError(f"k argument to top_k must be no larger than size along axis {axis} of shape {x.shape} and not negative, got {k}")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return [ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, dtypes.INT32)]


def _top_k_lower(ctx, ins, params, out_avals):
    x, axis, n = ins[0], params["axis"], len(ins[0].shape)
    perm = (*[i for i in range(n) if i != axis], axis)
    back = (*range(axis), n - 1, *range(axis, n - 1))
    avals = [a.update(shape=tuple(a.shape[i] for i in perm)) for a in out_avals]
    return [ctx.transpose(v, back) for v in ctx.kernel("top_k", [ctx.transpose(x, perm)], avals, ip=(params["k"],))]


def _top_k_jvp(primals, tangents, *, k, axis):
    values, positions = top_k_p.bind(*primals, k=k, axis=axis)
    t = tangents[0]
    return [values, positions], [zero_of(values) if type(t) is Zero else take_along(t, positions, axis), zero_of(positions)]


def _top_k_batch(size, args, dims, *, k, axis):
    d = dims[0]
    return top_k_p.bind(args[0], k=k, axis=axis + (axis >= d)), [d, d]


top_k_p = Primitive("top_k", multiple_results=True, abstract_eval=_top_k_aval, lower=_top_k_lower, jvp=_top_k_jvp, batch=_top_k_batch)


def top_k(operand, k, *, axis=-1):
    """[values, positions]: the k greatest elements along `axis` in descending order, and where they are (int32).

    Of equal elements the first comes first; NaN is greatest. Real arrays only; 0 <= k <= the axis's size.
    """
    return list(top_k_p.bind(operand, k=operator.index(k), axis=argaxis(operand, axis)))


# --- elements by their rank -------------------------------------------------------------------------------------------


def _ranked_aval(x, ranks, *, positions):
    if x.dtype.kind == "c" or ranks.dtype != dtypes.INT32:
        raise TypeError(f"ranked takes real numbers and int32 ranks, got {x.dtype.name} and {ranks.dtype.name}")
    if not x.shape or x.shape[:-1] != ranks.shape[:-1] or len(x.shape) != len(ranks.shape) or x.size < ranks.size and not x.shape[-1]:
        raise ShapeError(f"ranked: x {x.shape} and ranks {ranks.shape} may differ in the last axis only, and x must have elements")
    values = ShapedArray(ranks.shape, x.dtype, x.weak_type)
    return [values, ShapedArray(ranks.shape, dtypes.INT32)] if positions else [values]


def _ranked_jvp(primals, tangents, *, positions):
    t = tangents[0]
    if type(t) is Zero:
        out = ranked_p.bind(*primals, positions=positions)
        return out, [zero_of(o) for o in out]
    values, at = ranked_p.bind(*primals, positions=True)
    moved = take_along(t, at, len(values.shape) - 1)
    return ([values, at], [moved, zero_of(at)]) if positions else ([values], [moved])


def _ranked_batch(axis, args, dims, *, positions):
    out = ranked_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)], positions=positions)
    return out, [0] * len(out)


ranked_p = Primitive(
    "ranked",
    multiple_results=True,
    abstract_eval=_ranked_aval,
    lower=lambda ctx, ins, params, out_avals: ctx.kernel("ranked", ins, out_avals),
    jvp=_ranked_jvp,
    batch=_ranked_batch,
)


def ranked(operand, ranks):
    """The elements that sorting would put at `ranks` of each row (the last axis).

    ranks: int32, its other axes are the operand's; beyond the ends of a row they are its ends. The order is sort's, NaN last, but rows are
    not sorted for it. Of equal elements derivatives go to the one that a stable sort would put there. Real arrays only.
    """
    return ranked_p.bind(operand, ranks, positions=False)[0]


# --- searchsorted -----------------------------------------------------------------------------------------------------


def _search_aval(a, v, *, right):
    rows = a.shape[:-1]
    if not a.shape or v.shape[: len(rows)] != rows:
        raise ShapeError(f"searchsorted: {v.shape} is not what to find in sorted arrays of {a.shape}")
    if a.dtype != v.dtype or a.dtype.kind == "c":
        raise TypeError(f"searchsorted takes two real arrays of one dtype, got {a.dtype.name} and {v.dtype.name}")
    return ShapedArray(v.shape, dtypes.INT32)


def _count_before(a, v, right):
    """The same by comparing all pairs; NaN counts as greatest."""
    a_shape, v_shape = get_aval(a).shape, get_aval(v).shape
    shape, rows = (*v_shape, a_shape[-1]), range(len(a_shape) - 1)
    x = broadcast_in_dim(a, shape, (*rows, len(v_shape)))
    y = broadcast_in_dim(v, shape, tuple(range(len(v_shape))))
    before = bitwise_not(lt(y, x)) if right else lt(x, y)
    x_nan, y_nan = ne(x, x), ne(y, y)
    before = select(y_nan, bitwise_or(np.bool_(right), bitwise_not(x_nan)), bitwise_and(before, bitwise_not(x_nan)))
    return reduce_sum(convert_element_type(before, np.int32), (len(v_shape),))


def _search_batch(axis, args, dims, *, right):
    a, v = args
    rows = get_aval(a).ndim - 1
    if dims[0] is None:  # the rows stay in front
        v = move_axis(v, dims[1], rows)
        return searchsorted_p.bind(a, v, right=right), rows
    a, v = move_axis(a, dims[0], 0), bdim_at_front(v, dims[1], axis.size)
    n, sought = get_aval(a).shape[-1], get_aval(v).size // math.prod(get_aval(a).shape[:-1])
    if n <= FEW_SORTED or n * sought <= FEW_PAIRS:
        return _count_before(a, v, right), 0
    return searchsorted_p.bind(a, v, right=right), 0


searchsorted_p = Primitive(
    "searchsorted",
    abstract_eval=_search_aval,
    batch=_search_batch,
    lower=lambda ctx, ins, params, out: ctx.kernel("searchsorted", ins, out, ip=(int(params["right"]),))[0],
)
searchsorted_p.jvp = zero_jvp(searchsorted_p)


def searchsorted(a, v, side="left"):
    """int32 positions where v's elements keep the sorted 1-D array `a` in order: before equal elements, or behind with side="right".

    a, v: real arrays of one dtype; NaN sorts last. The result has v's shape.
    """
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    if get_aval(a).ndim != 1:
        raise ShapeError(f"searchsorted: the sorted array must have one axis, got {get_aval(a).shape}")
    return searchsorted_p.bind(a, v, right=side == "right")
