"""Sets held in arrays: unique values and what can be said of two collections.

A result whose size depends on values needs concrete arrays, or `size`: then it is cut to that size, or filled up with `fill_value`.
"""

import math
from typing import NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import Array, context, eval_trace
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import arange, array, full, ones, zeros
from fgrad.numpy.manipulation import concatenate, expand_dims, moveaxis, ravel
from fgrad.numpy.reductions import any as _any
from fgrad.numpy.reductions import cumsum
from fgrad.numpy.reductions import sum as _sum
from fgrad.numpy.selection import nonzero, static_size, where
from fgrad.numpy.sorting import lexsort, searchsorted, sort
from fgrad.numpy.util import as_array, axis_index, concrete, promoted
from fgrad.ops import elementwise as E
from fgrad.ops import sort as sort_ops
from fgrad.ops.cumulative import cummax

__all__ = [
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "union1d", "intersect1d", "setdiff1d", "setxor1d", "isin",
]  # fmt: skip
_HINT = "The result's size depends on values: pass size= (and fill_value=), or call it outside jit and vmap."


def _differs(a, b, equal_nan):
    out = E.ne(a, b)
    return out & ~(U.isnan(a) & U.isnan(b)) if equal_nan and dtypes.is_inexact(a.dtype) else out


@eager(1)
def _sorted_groups(x, equal_nan, ordered=True):
    """(rows of x in order, a mask of the first row of each group of equals, and the order if `ordered`), with rows along axis 0."""
    n, width = x.shape[0], math.prod(x.shape[1:])
    if not n or not width:
        # Rows without elements are all equal.
        first = arange(n) == 0
        return x, first, arange(n)
    if x.dtype.kind == "c":
        x = where(U.isnan(x), E.like(x, np.nan), x)
    order = ()
    if width == 1 and not ordered:
        x = sort(x, axis=0)
    else:
        columns = x.reshape(n, width)
        order = (lexsort([columns[:, i] for i in range(width - 1, -1, -1)]),)
        x = x[order[0]]
    changed = _any(_differs(x[1:], x[:-1], equal_nan), tuple(range(1, x.ndim)))
    return x, concatenate([ones(1, bool), changed]), *order


def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, size=None, fill_value=None, sorted=True
):
    """The distinct values of an array (or its distinct slices along `axis`), in ascending order.

    On request also, in a tuple: the first position of each, the position in the result of each element of ar (in ar's shape where
    axis is None), and how often each occurs. size: the number of values returned; missing ones are fill_value (the least value by
    default). Without it ar must be concrete.

    >>> import fgrad.numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    >>> jnp.unique(jnp.array([3, 1, 3]), size=3, fill_value=9)
    Array([1, 3, 9], dtype=int32)
    """
    x = as_array("unique", ar)
    if size is None and not (type(x) is Array and context.trace is eval_trace):
        x = array(concrete("unique", x, _HINT))
    shape = x.shape
    if axis is None:
        x, axis = ravel(x) if len(shape) != 1 else x, 0
    axis = axis_index(axis, x.ndim)
    x = moveaxis(x, axis, 0) if axis else x
    n = x.shape[0]
    if not n and size and fill_value is None:
        raise ValueError("unique: a zero-sized input with a nonzero size needs a fill_value")
    x, first, *order = _sorted_groups(x, equal_nan, return_index or return_inverse)
    known, at = size is None, first
    if not known:
        count, size = _sum(first), static_size("unique", size)
        (at,) = nonzero(first, size=size)
    if not n:
        out = full((size or 0, *x.shape[1:]), 0 if fill_value is None else fill_value, x.dtype)
    else:
        out = x[at]
        if fill_value is not None and not known:
            valid = expand_dims(arange(size) < count, tuple(range(1, out.ndim)))
            out = where(valid, out, E.convert_element_type(as_array("unique", fill_value, 1), out.dtype))
    result = [moveaxis(out, 0, axis) if axis else out]
    if return_index:
        result.append(order[0][at] if n or known else at)
    if return_inverse:
        inverse = zeros(n, int).at[order[0]].set(cumsum(first) - 1)
        result.append(inverse.reshape(shape) if out.ndim == 1 and x.ndim == 1 and n == math.prod(shape) else inverse)
    if return_counts:
        ends = concatenate([nonzero(first)[0], array([n])]) if known else nonzero(first, size=size + 1, fill_value=n)[0]
        result.append(ends[1:] - ends[:-1])
    return result[0] if len(result) == 1 else tuple(result)


class UniqueAllResult(NamedTuple):
    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCountsResult(NamedTuple):
    values: Array
    counts: Array


class UniqueInverseResult(NamedTuple):
    values: Array
    inverse_indices: Array


def unique_all(x, /, *, size=None, fill_value=None):
    """(values, indices, inverse_indices, counts) of unique, each NaN counted for itself."""
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x, /, *, size=None, fill_value=None):
    """(values, counts) of unique, each NaN counted for itself."""
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x, /, *, size=None, fill_value=None):
    """(values, inverse_indices) of unique, each NaN counted for itself."""
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x, /, *, size=None, fill_value=None):
    """The values of unique, each NaN counted for itself."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def _flat_pair(name, a, b):
    a, b = promoted(name, [ravel(as_array(name, a)), ravel(as_array(name, b, 1))])
    return a, b


@eager(2)
def isin(element, test_elements, assume_unique=False, invert=False, *, method="auto"):
    """For each element, whether it equals one of test_elements (NaN equals nothing). Returns booleans in element's shape.

    method: compare_all (each with each), binary_search or sort; auto picks by size. The results are the same.
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(f"isin: method={method!r} is not one of compare_all, binary_search, sort, auto")
    shape = as_array("isin", element).shape
    a, b = _flat_pair("isin", element, test_elements)
    if not a.size or not b.size:
        return full(shape, bool(invert))
    if a.dtype.kind == "c" or (method in ("auto", "compare_all") and b.size <= 32):
        found = _any(a[:, None] == b[None, :], 1)
    else:
        b = sort(b)
        found = a == b[U.minimum(searchsorted(b, a), b.size - 1)]
    return (~found if invert else found).reshape(shape)


@eager(2)
def _together(a, b):
    return concatenate(_flat_pair("union1d", a, b))


def union1d(ar1, ar2, *, size=None, fill_value=None):
    """The distinct values of two arrays together, in ascending order."""
    return unique(_together(ar1, ar2), size=size, fill_value=fill_value)


def _distinct(x):
    """(x sorted, a mask of the first of each group of equal values, positions in x)."""
    x, order = sort_ops.sort((x, arange(x.size)), 0, num_keys=1)
    return x, concatenate([ones(min(x.size, 1), bool), x[1:] != x[:-1]]), order


def _pick(name, values, mask, size, fill_value, default):
    """(values[mask], their positions, which of them are not filled up), cut or filled up to `size`."""
    if size is None and type(values) is Array and context.trace is eval_trace and not values.weak_type:
        (at,) = nonzero(mask)
        return values[at], at, True
    count = _sum(mask)
    if size is None:
        size = int(concrete(name, count, _HINT))
    (at,) = nonzero(mask, size=static_size(name, size))
    if not values.size:
        return full((size,), 0 if fill_value is None else fill_value, values.dtype), at, arange(size) < 0
    out, valid = values[at], arange(size) < count
    if fill_value is None:
        fill_value = default(out, valid) if size else 0
    return where(valid, out, E.convert_element_type(as_array(name, fill_value), out.dtype)), at, valid


def _least(out, valid):
    """The least of the valid values (the fill of the set functions), 0 where there is none."""
    top = where(valid, out, out.max())
    return where(valid[0], top.min(), E.like(out, 0))


def setdiff1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The distinct values of ar1 that are not in ar2, in ascending order (in their order with assume_unique)."""
    a, mask = _without(ar1, ar2, bool(assume_unique))
    return _pick("setdiff1d", a, mask, size, 0 if fill_value is None else fill_value, _least)[0]


@eager(2)
def _without(ar1, ar2, assume_unique):
    """(the values of which setdiff1d's are some, a mask of these)."""
    a = ravel(as_array("setdiff1d", ar1))
    mask = ones(a.size, bool)
    if not assume_unique:
        a, mask, _ = _distinct(a)
    return a, mask & isin(a, ar2, invert=True)


def _with_origin(a, b):
    """Values of both arrays, sorted, and which array each came from."""
    values = concatenate([a, b])
    origin = arange(values.size) >= a.size
    return sort_ops.sort((values, E.convert_element_type(origin, np.int32), arange(values.size)), 0, num_keys=2)


def setxor1d(ar1, ar2, assume_unique=False, *, size=None, fill_value=None):
    """The distinct values that are in exactly one of two arrays, in ascending order."""
    return _pick("setxor1d", *_in_one(ar1, ar2, bool(assume_unique)), size, fill_value, _least)[0]


@eager(2)
def _in_one(ar1, ar2, assume_unique):
    """(the values of two arrays, a mask of the distinct ones that are in one of them)."""
    a, b = _flat_pair("setxor1d", ar1, ar2)
    values, first, order = _distinct(concatenate([a, b]))
    if not values.size:
        return values, first
    group = cumsum(first) - 1
    if assume_unique:
        members = zeros(values.size, int).at[group].add(1)
        mask = first & (members[group] == 1)
    else:
        from_b = order >= a.size
        has = [zeros(values.size, bool).at[group].max(m)[group] for m in (~from_b, from_b)]
        mask = first & ~(has[0] & has[1])
    return values, mask


@eager(2)
def _in_both(ar1, ar2):
    """(sorted values of two arrays but the last, a mask of the ones that both have, all values, their positions in the arrays)."""
    a, b = _flat_pair("intersect1d", ar1, ar2)
    values, from_b, position = _with_origin(a, b)
    from_b = from_b != 0
    # Of a group of equal values those of a come first: the intersection is where a value of a is followed by one of b.
    return values[:-1], (values[1:] == values[:-1]) & ~from_b[:-1] & from_b[1:], values, position


def intersect1d(ar1, ar2, assume_unique=False, return_indices=False, *, size=None, fill_value=None):
    """The distinct values that are in both arrays, in ascending order; with return_indices also their first positions in each.

    Positions missing under `size` are those arrays' sizes.
    """
    sizes = as_array("intersect1d", ar1).size, as_array("intersect1d", ar2, 1).size
    if not all(sizes):
        a, b = _flat_pair("intersect1d", ar1, ar2)
        none = zeros(0, bool)
        out = _pick("intersect1d", concatenate([a, b])[:0], none, size, fill_value, _least)[0]
        return (out, *[full(out.shape, n, dtypes.int_dtype()) for n in sizes]) if return_indices else out
    candidates, border, values, position = _in_both(ar1, ar2)
    out, at, valid = _pick("intersect1d", candidates, border, size, fill_value, _least)
    if not return_indices:
        return out
    starts = concatenate([ones(1, bool), values[1:] != values[:-1]])
    head = E.convert_element_type(where(starts, arange(values.size), 0), dtypes.int_dtype())
    first = position[cummax(head, 0)[at]]
    second = position[at + 1] - sizes[0]
    return out, where(valid, first, sizes[0]), where(valid, second, sizes[1])
