"""What masks select of concrete arrays. Sizes depend on values here, and a program for each size would cost more than its run."""
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uintptr_t
from libc.string cimport memset

from fgrad._kernels.abi cimport FG_BOOL, FG_F32, FG_I32, FG_I64, fg_itemsize
from fgrad._kernels.array cimport ArrayBase, alive, new_array
from fgrad._kernels.context cimport is_eval, x64
from fgrad._kernels.operands cimport as_array

import numpy as np

cdef extern from "masks.h" nogil:
    int64_t fg_mask_count(const uint8_t *m, int64_t n)
    void fg_mask_selected(const uint8_t *m, int64_t n, int64_t count, int64_t size, const char *x, char *out)
    void fg_mask_numbered(const uint8_t *m, int64_t n, int64_t rows, const uint32_t *x, uint32_t word, uint32_t *out)
    void fg_mask_placed(const uint8_t *m, int64_t n, int64_t count, int64_t size, const char *x, const char *values, char *out)
    void fg_true_rows_int32_t(const uint8_t *m, int64_t rows, int64_t n, char *const *out, int ndim, const int64_t *dims, int64_t step)
    void fg_true_rows_int64_t(const uint8_t *m, int64_t rows, int64_t n, char *const *out, int ndim, const int64_t *dims, int64_t step)

cdef enum:
    FEW = 1 << 12                        # elements that are not worth giving up the lock for
    SMALL = 1 << 24                      # float32 holds all integers up to this one

cdef object _shaped = None               # ShapedArray(shape, dtype, weak_type)


def install_masks(shaped):
    """Hand over what lives in a higher layer."""
    global _shaped
    _shaped = shaped


# The avals of what masks gave lately.
cdef enum:
    KNOWN = 256

cdef struct Known:
    PyObject *like                       # both owned
    PyObject *aval
    int64_t count
    int drop

cdef Known[256] _known


cdef object sized(object like, int drop, int64_t count):
    """The aval of `count` rows of the axes of `like` behind the first `drop`."""
    cdef Known *k = &_known[((<uintptr_t><PyObject *>like >> 5) * 31 + <uintptr_t>count * 7 + drop) % KNOWN]
    cdef PyObject *old_like = k.like
    cdef PyObject *old_aval = k.aval
    if old_like == <PyObject *>like and k.count == count and k.drop == drop:
        return <object>old_aval
    aval = _shaped((count,) + (<tuple>like.shape)[drop:], like.dtype, like.weak_type)
    Py_INCREF(like)
    Py_INCREF(aval)
    k.like, k.aval, k.count, k.drop = <PyObject *>like, <PyObject *>aval, count, drop
    Py_XDECREF(old_like)
    Py_XDECREF(old_aval)
    return aval


cdef ArrayBase mask_of(x):
    cdef ArrayBase mask = as_array(x, True)
    if mask.code != FG_BOOL:
        raise TypeError(f"a mask must be of bool, got {mask.aval}")
    alive(mask)
    return mask


cdef int64_t row_bytes(ArrayBase x, ArrayBase mask) except -1:
    """Bytes of what one element of a mask over leading axes of x stands for."""
    cdef tuple shape = x.aval.shape, own = mask.aval.shape
    alive(x)
    if not own or shape[:len(own)] != own:
        raise ValueError(f"a mask of shape {own} for an array of shape {shape}")
    return (x.size // mask.size if mask.size else 0) * fg_itemsize(x.code)


def true_count(mask):
    """How many elements of a mask hold."""
    cdef ArrayBase m = mask_of(mask)
    return fg_mask_count(<uint8_t *>m.data, m.size)


cpdef ArrayBase selected(x, mask):
    """x[mask] of a mask over leading axes."""
    cdef ArrayBase m = mask_of(mask), a = as_array(x, True), out
    cdef int64_t n = m.size, size = row_bytes(a, m), count
    count = fg_mask_count(<uint8_t *>m.data, n)
    out = new_array(sized(a.aval, len(<tuple>m.aval.shape), count), a.code, count * (a.size // n) if n else 0)
    if out.size < FEW:
        fg_mask_selected(<uint8_t *>m.data, n, count, size, a.data, out.data)
    else:
        with nogil:
            fg_mask_selected(<uint8_t *>m.data, n, count, size, a.data, out.data)
    return out


def placed(x, mask, values):
    """x with x[mask] = values, an array of x's dtype with a row for each element that holds; None where it has not."""
    cdef ArrayBase m = mask_of(mask), a = as_array(x, True), v = as_array(values, True), out
    cdef int64_t n = m.size, size = row_bytes(a, m), count
    count = fg_mask_count(<uint8_t *>m.data, n)
    alive(v)
    if v.code != a.code or v.aval.shape != (count,) + (<tuple>a.aval.shape)[len(<tuple>m.aval.shape):]:
        return None
    out = new_array(a.aval, a.code, a.size)
    if out.size:
        with nogil:
            fg_mask_placed(<uint8_t *>m.data, n, count, size, a.data, v.data, out.data)
    return out


cpdef with_number(x, mask, value):
    """x with x[mask] = one of Python's numbers that x's dtype holds as an update casts it; None for other operands, and for large ones, which threads share."""
    cdef ArrayBase a, m
    cdef float f
    cdef int32_t i
    cdef char *word
    if type(x) is not type(mask) or not isinstance(x, ArrayBase) or not is_eval():
        return None
    a, m = x, mask
    if m.code != FG_BOOL or a.size > FEW or a.size == 0 or a.strides_or_none is not None or m.strides_or_none is not None or a.aval.weak_type:
        return None
    if (<tuple>a.aval.shape)[:len(<tuple>m.aval.shape)] != m.aval.shape:
        return None
    if a.code == FG_F32 and (type(value) is float or (type(value) is int and -SMALL <= value <= SMALL)):
        f = value
        if f - f != 0:                   # what is not finite is NumPy's to warn of, or a check's
            return None
        word = <char *>&f
    elif a.code == FG_I32 and type(value) is int and -SMALL <= value <= SMALL:
        i = value
        word = <char *>&i
    else:
        return None
    alive(a)
    alive(m)
    cdef ArrayBase out = new_array(a.aval, a.code, a.size)
    fg_mask_numbered(<uint8_t *>m.data, m.size, a.size // m.size, <uint32_t *>a.data, (<uint32_t *>word)[0], <uint32_t *>out.data)
    return out


cdef dict _positions = {}          # whether 64 bits are on -> the aval of no integers of the default type


cdef object positions():
    out = _positions.get(x64())
    if out is None:
        out = _positions[x64()] = _shaped((0,), np.dtype(np.int64 if x64() else np.int32))
    return out


def counts(x, int64_t least):
    """How often each of 0, 1, 2, ... occurs in a short concrete array of int32, negative ones as 0: at least so many counts; None for any other
    array."""
    cdef object like = positions()
    cdef ArrayBase a, out
    cdef int64_t i, count = least, v
    cdef int32_t code = place_code(like.dtype)
    if not is_eval() or not isinstance(x, ArrayBase):
        return None
    a = x
    if a.code != FG_I32 or a.size == 0 or a.size > FEW or a.strides_or_none is not None or code == 0:
        return None
    alive(a)
    for i in range(a.size):
        count = max(count, (<int32_t *>a.data)[i] + <int64_t>1)
    if count > FEW:
        return None
    count = max(count, 1)
    out = new_array(sized(like, 1, count), code, count)
    memset(out.data, 0, count * fg_itemsize(code))
    for i in range(a.size):
        v = min(max((<int32_t *>a.data)[i], 0), count - 1)      # memory shared with NumPy may have changed
        if code == FG_I32:
            (<int32_t *>out.data)[v] += 1
        else:
            (<int64_t *>out.data)[v] += 1
    return out


cdef object _places = None         # the dtype of positions that was asked for last, and its code
cdef int32_t _place_code = 0


cdef int32_t place_code(dtype) except -1:
    """The code of a dtype of positions, 0 for others."""
    global _places, _place_code
    if dtype is not _places:
        _place_code = 0 if dtype.kind != "i" or dtype.itemsize < 4 else FG_I32 if dtype.itemsize == 4 else FG_I64
        _places = dtype
    return _place_code


cdef void fill_places(uint8_t *mask, int64_t n, int64_t last, char **places, int ndim, int64_t *dims, int64_t step, int32_t code) noexcept nogil:
    if code == FG_I32:
        fg_true_rows_int32_t(mask, n // last, last, places, ndim, dims, step)
    else:
        fg_true_rows_int64_t(mask, n // last, last, places, ndim, dims, step)


def true_places(mask, like=None):
    """Where a mask of rank n >= 1 holds, for an aval of integers of shape (0,), or by default: n arrays; of (0, n): one, with a column for each axis."""
    if like is None:
        like = positions()
    cdef ArrayBase m = mask_of(mask), x
    cdef tuple shape = m.aval.shape
    cdef int ndim = len(shape), d
    cdef bint joined = len(<tuple>like.shape) > 1
    cdef int64_t n = m.size, last, count, step = ndim if joined else 1
    cdef int64_t dims[16]
    cdef char *places[16]
    cdef int32_t code = place_code(like.dtype)
    cdef list out = []
    if not 0 < ndim <= 16 or code == 0 or (joined and like.shape != (0, ndim)):
        raise ValueError(f"true_places of {m.aval} as {like}")
    count = fg_mask_count(<uint8_t *>m.data, n)
    aval = sized(like, 1, count)
    for d in range(ndim):
        dims[d] = shape[d]
        if d == 0 or not joined:
            x = new_array(aval, code, count * step)
            out.append(x)
            places[d] = x.data
        else:
            places[d] = places[d - 1] + fg_itemsize(code)
    last = dims[ndim - 1]
    if count and n < FEW:
        fill_places(<uint8_t *>m.data, n, last, places, ndim, dims, step, code)
    elif count:
        with nogil:
            fill_places(<uint8_t *>m.data, n, last, places, ndim, dims, step, code)
    return x if joined else out
