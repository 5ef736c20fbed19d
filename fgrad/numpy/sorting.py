"""Sorting, searching and partial sorting."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy.util import as_array, axis_index, promoted, unary
from fgrad.ops import elementwise as E
from fgrad.ops import sort as sort_ops
from fgrad.ops.shape import broadcasted_iota, concatenate, rev, slice_in_dim
from fgrad.ops.shape import reshape as _reshape

__all__ = ["sort", "argsort", "lexsort", "searchsorted", "partition", "argpartition", "sort_complex"]


def _along(name, a, axis):
    x = as_array(name, a)
    if axis is None:
        return _reshape(x, (x.size,)), 0
    return x, axis_index(axis, x.ndim)


def _check_order(name, kind, order):
    if order is not None:
        raise TypeError(f"'order' argument to {name} is not supported: arrays have no fields")
    if kind is not None:
        raise TypeError(f"'kind' argument to {name} is not supported. Use stable=True or stable=False to specify sort stability.")


@eager(1)
def sort(a, axis=-1, *, kind=None, order=None, stable=True, descending=False):
    """A copy in ascending order along `axis` (of the flattened array if None); NaN last. `stable` changes nothing: the sort is
    always stable."""
    _check_order("sort", kind, order)
    x, axis = _along("sort", a, axis)
    out = sort_ops.sort(x, axis)
    return rev(out, (axis,)) if descending else out


@eager(1)
def argsort(a, axis=-1, *, kind=None, order=None, stable=True, descending=False, dtype=None):
    """The positions that sort an array along `axis`; equal elements keep their order, also if descending."""
    _check_order("argsort", kind, order)
    x, axis = _along("argsort", a, axis)
    position = broadcasted_iota(dtypes.int_dtype() if dtype is None else dtypes.canonicalize_dtype(dtype), x.shape, axis)
    if descending:
        flipped = sort_ops.sort((rev(x, (axis,)), rev(position, (axis,))), axis, num_keys=1)[1]
        return rev(flipped, (axis,))
    return sort_ops.sort((x, position), axis, num_keys=1)[1]


@eager(-1)
def lexsort(keys, axis=-1):
    """Positions that sort by several keys, the last one first in importance."""
    keys = [as_array("lexsort", k) for k in keys]
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    if any(k.shape != keys[0].shape for k in keys):
        raise ValueError("all keys need to be the same shape")
    if not keys[0].ndim:
        return as_array("lexsort", np.zeros((), dtypes.int_dtype()))
    axis = axis_index(axis, keys[0].ndim)
    position = broadcasted_iota(dtypes.int_dtype(), keys[0].shape, axis)
    return sort_ops.sort((*keys[::-1], position), axis, num_keys=len(keys))[-1]


@eager(2)
def searchsorted(a, v, side="left", sorter=None, *, method="scan"):
    """Positions at which v's elements keep the sorted 1-D array `a` in order: before equal elements, or behind with side="right".

    sorter: positions that sort `a`, where it is not sorted. `method` is accepted for JAX's sake: there is one kernel, a binary search.
    """
    if method not in ("scan", "scan_unrolled", "sort", "compare_all", "default"):
        raise ValueError(f"searchsorted: method={method!r} is not one of scan, scan_unrolled, sort, compare_all")
    a, v = promoted("searchsorted", [as_array("searchsorted", a), as_array("searchsorted", v, 1)])
    if a.ndim != 1:
        raise ValueError(f"a should be 1-dimensional, got shape {a.shape}")
    if sorter is not None:
        a = a[as_array("searchsorted", sorter, 3)]
    if a.dtype.kind == "c":
        return _search_complex(a, v, side)
    return sort_ops.searchsorted(a, v, side)


def _search_complex(a, v, side):
    """Complex numbers by their rank in the sorted union: real parts first, then imaginary ones."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}")
    flat = _reshape(v, (v.size,))
    n = a.shape[0] + flat.shape[0]
    position = broadcasted_iota(np.int32, (n,), 0)
    # Ties go by which array comes first in the union.
    parts = [flat, a] if side == "left" else [a, flat]
    order = sort_ops.sort((concatenate(parts, 0), position), 0, num_keys=1)[1]
    rank = sort_ops.sort((order, position), 0, num_keys=1)[1]
    start = 0 if side == "left" else a.shape[0]
    own = slice_in_dim(rank, start, start + flat.shape[0])
    among = sort_ops.sort((flat, broadcasted_iota(np.int32, flat.shape, 0)), 0, num_keys=1)[1]
    place = sort_ops.sort((among, broadcasted_iota(np.int32, flat.shape, 0)), 0, num_keys=1)[1]
    return _reshape(E.sub(own, place), v.shape)


def _kth(name, kth, n):
    k = operator.index(kth)
    if not -n <= k < n:
        raise ValueError(f"{name}: kth={k} is out of bounds for an axis of size {n}")
    return k


@eager(1)
def partition(a, kth, axis=-1):
    """A copy in which the element at position kth along `axis` is the one a full sort puts there, with none greater before it and none
    less behind it. (The copy is fully sorted: the sort kernel needs no selection of its own.)"""
    x = as_array("partition", a)
    if x.dtype.kind == "c":
        raise NotImplementedError("partition for complex dtype is not implemented")
    axis = axis_index(axis, x.ndim)
    _kth("partition", kth, x.shape[axis])
    return sort_ops.sort(x, axis)


@eager(1)
def argpartition(a, kth, axis=-1):
    """Positions, of type int32, that partition an array around position kth along `axis` (see partition)."""
    x = as_array("argpartition", a)
    if x.dtype.kind == "c":
        raise NotImplementedError("argpartition for complex dtype is not implemented")
    axis = axis_index(axis, x.ndim)
    _kth("argpartition", kth, x.shape[axis])
    return E.convert_element_type(argsort(x, axis), np.int32)


@eager(1)
def sort_complex(a):
    """Sorted along the last axis as complex numbers: by real, then by imaginary part."""
    x = unary("sort_complex", a)
    return E.convert_element_type(sort(x), dtypes.to_complex(x.dtype))
