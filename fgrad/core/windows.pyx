"""Where an update of a part of an array begins, as eager updates need it at each call."""
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack


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
