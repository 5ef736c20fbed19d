"""What eager indices and updates ask of an index at each call: where a window begins, and which arrays it holds."""
from cpython.object cimport PyObject, PyTypeObject
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack

import numpy as np

from fgrad._kernels.eager_dispatch import install_lasting
from fgrad.core.array import Array, to_array

from fgrad._kernels.abi cimport FG_I8, FG_U64
from fgrad._kernels.array cimport ArrayBase

ARRAY, WHOLE = "array", "whole"          # what stands for arrays and slices in an index that is taken apart
cdef object _array = ARRAY
cdef object _whole = WHOLE
cdef object _array_class = Array
cdef object _ndarray = np.ndarray
cdef object _everything = slice(None)


cdef bint is_end(x):
    return x is None or type(x) is int


def known_window(tuple shape, idx):
    """The window that an index of ints within bounds, slices of unit step and an Ellipsis selects: (where it begins along the axes that it
    does not span, its size along each axis, the axes of ints); None for any other index."""
    cdef tuple items = idx if type(idx) is tuple else (idx,)
    cdef Py_ssize_t rank = len(shape), missing = rank - len(items), axis = 0, n, at, lo, hi, step
    cdef list starts = [], sizes = [], squeezed = []
    for i in items:
        if i is Ellipsis:
            if missing < -1:
                return None
            for axis in range(axis, axis + missing + 1):
                sizes.append(shape[axis])
            axis = len(sizes)
            missing = -2                 # of a second one
            continue
        if axis == rank:
            return None
        n = shape[axis]
        if type(i) is int:
            if not -n <= i < n:
                return None
            at = i
            if n != 1:
                starts.append(at + n if at < 0 else at)
            sizes.append(1)
            squeezed.append(axis)
        elif type(i) is slice and is_end(i.start) and is_end(i.stop) and is_end(i.step):
            PySlice_Unpack(i, &lo, &hi, &step)
            if step != 1:
                return None
            PySlice_AdjustIndices(n, &lo, &hi, step)
            hi = max(hi - lo, 0)
            if hi != n:
                starts.append(lo)
            sizes.append(hi)
        else:
            return None
        axis += 1
    return starts, (*sizes, *shape[axis:]), tuple(squeezed)


cpdef frozen(idx):
    """A hashable stand-in for an index of ints, slices, None and Ellipsis; None for any other."""
    cdef list parts
    if type(idx) is int or idx is None or idx is Ellipsis:
        return (idx,)
    if type(idx) is slice:
        return ("slice", idx.start, idx.stop, idx.step) if is_end(idx.start) and is_end(idx.stop) and is_end(idx.step) else None
    if type(idx) is not tuple:
        return None
    parts = []
    for i in <tuple>idx:
        part = None if type(i) is tuple else frozen(i)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


cdef enum:
    MOST = 1000

cdef dict _rests = {}


cdef tuple lasting(list rest):
    """The one tuple of these markers, which eager calls know by its address."""
    cdef tuple out = tuple(rest)
    known = _rests.get(out)
    if known is not None:
        return known
    if len(_rests) < MOST:
        _rests[out] = out
        install_lasting([out])
    return out


def parted(idx):
    """(integer arrays, the rest with ARRAY in their places, the index of slices to take before) of a tuple index; None for any other.

    The rest is static and hashable: whole slices, None and Ellipsis. Ints count as arrays, and other slices are taken before (None:
    there is none): each would make a program of its own.
    """
    cdef list arrays = [], rest = []
    cdef bint sliced = False, held = False
    if type(idx) is not tuple:
        return None
    for i in <tuple>idx:
        held = held or type(i) is _array_class or type(i) is _ndarray
    if not held:
        return None
    for i in <tuple>idx:
        if type(i) is _array_class:
            if not FG_I8 <= (<ArrayBase>i).code <= FG_U64:
                return None
            arrays.append(i)
            rest.append(_array)
        elif type(i) is _ndarray or (type(i) is int and -(1 << 31) <= i < 1 << 31):
            i = np.asarray(i, np.int32) if type(i) is int else i
            if i.dtype.kind not in "iu":
                return None
            arrays.append(to_array(i))
            rest.append(_array)
        elif i is None or i is Ellipsis:
            rest.append(i)
        elif type(i) is slice and is_end(i.start) and is_end(i.stop) and is_end(i.step):
            rest.append(_whole)
            sliced = sliced or i != _everything
        else:
            return None
    if not sliced:
        return arrays, lasting(rest), None
    return arrays, lasting(rest), tuple([i if type(i) is slice or i is Ellipsis else _everything for i in idx if i is not None])


cdef class At:
    """x.at: index it for updates."""
    cdef object array

    def __getitem__(self, index):
        cdef Place out = (<PyTypeObject *>_place).tp_new(_place, <PyObject *>(), NULL)
        out.array, out.index = self.array, index
        return out

    def __repr__(self):
        return f"_IndexUpdateHelper({self.array!r})"


cdef class Place:
    """x.at[idx]: an array, and an index of it."""
    cdef readonly object array, index

    def __repr__(self):
        return f"_IndexUpdateRef({self.array!r}, {self.index!r})"


cdef object _place = Place


def install_place(cls):
    """Say what x.at[idx] is, a class derived from Place; returns x -> x.at."""
    global _place
    _place = cls
    return at


def at(array):
    cdef At out = At.__new__(At)
    out.array = array
    return out
