"""x[idx] of concrete arrays: ints and slices inside the bounds give views, without going through Python."""
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int64_t, uintptr_t

from fgrad._kernels.abi cimport fg_itemsize
from fgrad._kernels.array cimport ArrayBase, wrap_memory
from fgrad._kernels.context cimport is_eval

cdef object _array_class = None
cdef object _shaped = None               # ShapedArray(shape, dtype, weak_type)


def install_window(array_class, shaped):
    """Hand over what lives in higher layers."""
    global _array_class, _shaped
    _array_class, _shaped = array_class, shaped


# The avals of rows of arrays that came lately.
cdef enum:
    KNOWN = 64

cdef struct Known:
    PyObject *aval                       # both owned
    PyObject *row

cdef Known[64] _known


cdef object row_aval(object aval):
    """The aval of x[i], of an x of this aval."""
    cdef Known *k = &_known[(<uintptr_t><PyObject *>aval >> 5) % KNOWN]
    if k.aval == <PyObject *>aval:
        return <object>k.row
    row = _shaped(aval.shape[1:], aval.dtype, aval.weak_type)
    Py_INCREF(aval)
    Py_INCREF(row)
    old_aval, old_row = k.aval, k.row
    k.aval, k.row = <PyObject *>aval, <PyObject *>row
    Py_XDECREF(old_aval)
    Py_XDECREF(old_row)
    return row


cdef inline ArrayBase row_of(ArrayBase x, object aval, int64_t i, int64_t size):
    """Row i of contiguous rows of `size` elements."""
    x.shared = True
    return wrap_memory(aval, x.code, size, x.data + i * size * fg_itemsize(x.code), x if x.base is None or x.owns else x.base, None)


cpdef list rows(ArrayBase x):
    """All rows of a contiguous array of rank 1 or more, as views."""
    x.check_alive()
    cdef int64_t n = (<tuple>x.aval.shape)[0], i
    if n == 0:
        return []
    aval = row_aval(x.aval)
    return [row_of(x, aval, i, x.size // n) for i in range(n)]


cdef class IndexDispatch:
    """x[idx] of concrete arrays: ints and slices inside the array's bounds give views; all else is `slow(x, idx)`."""
    cdef object slow

    def __init__(self, slow):
        self.slow = slow

    def __call__(self, x, idx):
        if is_eval() and type(x) is _array_class:
            out = row(x, idx) if type(idx) is int else window(x, idx)
            if out is not None:
                return out
        return self.slow(x, idx)


cdef object row(ArrayBase x, idx):
    """x[idx] of an int inside the bounds, or None."""
    cdef tuple shape = x.aval.shape
    cdef int64_t n, i
    if x.strides_or_none is not None or not shape:
        return window(x, idx)
    n = shape[0]
    if not -n <= idx < n:
        return None
    x.check_alive()
    i = idx
    return row_of(x, row_aval(x.aval), i + n if i < 0 else i, x.size // n)


cdef object window(ArrayBase x, idx):
    """The view that a static index shows, or None."""
    cdef tuple shape = x.aval.shape
    cdef tuple given = idx if type(idx) is tuple else (idx,)
    cdef int ndim = len(shape), used = 0, axis = 0, k, d
    cdef int64_t own[16]
    cdef int64_t acc = 1, n, i, offset = 0, lo, step
    cdef list out_shape = [], strides = []
    cdef bint ellipsis = False, contiguous = True
    for d in range(ndim - 1, -1, -1):
        own[d] = acc if x.strides_or_none is None else <int64_t>x.strides_or_none[d]
        acc *= <int64_t>shape[d]
    for item in given:
        if item is Ellipsis:
            if ellipsis:
                return None
            ellipsis = True
        elif type(item) is int or type(item) is slice:
            used += 1
        elif item is not None:
            return None
    if used > ndim:
        return None
    for item in given:
        if item is None:
            out_shape.append(1)
            strides.append(0)
        elif item is Ellipsis:
            for k in range(ndim - used):
                out_shape.append(shape[axis])
                strides.append(own[axis])
                axis += 1
        elif type(item) is int:
            n = shape[axis]
            if not -n <= item < n:
                return None
            i = item
            offset += (i + n if i < 0 else i) * own[axis]
            axis += 1
        else:
            n = shape[axis]
            try:
                lo, stop, step = item.indices(n)
            except TypeError:
                return None
            k = len(range(lo, stop, step))
            out_shape.append(k)
            strides.append(step * own[axis])
            if k:
                offset += lo * own[axis]
            axis += 1
    while axis < ndim:
        out_shape.append(shape[axis])
        strides.append(own[axis])
        axis += 1
    if len(out_shape) > 16:
        return None
    acc = 1
    for d in range(len(out_shape) - 1, -1, -1):
        n = out_shape[d]
        if n != 1 and <int64_t>strides[d] != acc:
            contiguous = False
        acc *= n
    return x.make_view(_shaped(tuple(out_shape), x.aval.dtype, x.aval.weak_type), None if contiguous or acc == 0 else tuple(strides), offset)
