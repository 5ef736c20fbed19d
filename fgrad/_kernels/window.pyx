"""x[idx] of concrete arrays: ints and slices inside the bounds give views, without going through Python. And the views of eager functions."""
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset

from fgrad._kernels.abi cimport FG_BOOL, FG_F32, FG_I8, FG_I32, FG_U64, FgTensor, fg_itemsize
from fgrad._kernels.array cimport ArrayBase, alive, new_array, set_index_call, wrap_memory
from fgrad._kernels.context cimport is_eval
from fgrad._kernels.masks cimport selected, with_number

cdef extern from *:
    """
    #define fg_slice_part(s, k) ((k) == 0 ? ((PySliceObject *)(s))->start : (k) == 1 ? ((PySliceObject *)(s))->stop : ((PySliceObject *)(s))->step)
    """
    PyObject *fg_slice_part(object s, int k)

cdef extern from "update.h" nogil:
    ctypedef union FgNumber:
        float f32
        int32_t i32
        uint8_t u8
    enum:
        FG_PUT, FG_ADD, FG_MUL
    bint fg_updates(int32_t code)
    bint fg_update(const FgTensor *to, const FgTensor *by, int how)

cdef enum:
    EXACT = 1 << 24                      # integers up to here are float32's

import numpy as np

cdef object _numpy_integer = np.integer
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
    int64_t n                            # rows

cdef Known[64] _known


cdef Known *known_rows(object aval) except NULL:
    """The aval of x[i], and how many there are, of an x of this aval of rank 1 or more."""
    cdef Known *k = &_known[(<uintptr_t><PyObject *>aval >> 5) % KNOWN]
    if k.aval == <PyObject *>aval:
        return k
    row = _shaped(aval.shape[1:], aval.dtype, aval.weak_type)
    Py_INCREF(aval)
    Py_INCREF(row)
    old_aval, old_row = k.aval, k.row
    k.aval, k.row, k.n = <PyObject *>aval, <PyObject *>row, (<tuple>aval.shape)[0]
    Py_XDECREF(old_aval)
    Py_XDECREF(old_row)
    return k


cdef ArrayBase view_memory(ArrayBase x, object aval, int64_t size, tuple strides, int64_t offset):
    """A view of x's memory that is known to lie inside it: `size` elements from `offset` on."""
    x.shared = True
    return wrap_memory(aval, x.code, size, x.data + (offset * fg_itemsize(x.code) if size else 0), x if x.base is None or x.owns else x.base,
                       strides)


cdef class View:
    """What an eager function of one array gives without computing: its memory under another aval."""
    def __init__(self, aval, tuple strides, offset, keep):
        self.aval, self.strides, self.offset, self.size, self.keep = aval, strides, offset, -1, keep

    cdef object of(self, ArrayBase x):
        cdef ArrayBase out
        if self.aval is x.aval and (self.strides is x.strides_or_none or self.strides == x.strides_or_none):
            return x
        if self.size < 0:
            out = x.make_view(self.aval, self.strides, self.offset)
            self.size = out.size
            return out
        alive(x)
        return view_memory(x, self.aval, self.size, self.strides, self.offset)


cdef inline ArrayBase row_of(ArrayBase x, object aval, int64_t i, int64_t size):
    """Row i of contiguous rows of `size` elements."""
    return view_memory(x, aval, size, None, i * size)


cdef class Rows:
    """An iterator over the rows of a contiguous array of rank 1 or more, as views."""
    cdef ArrayBase x
    cdef object aval
    cdef int64_t at, n

    def __init__(self, ArrayBase x):
        alive(x)
        if x.strides_or_none is not None or not <tuple>x.aval.shape:
            raise ValueError(f"rows of {x.aval}: it is no contiguous array of rank 1 or more")
        cdef Known *k = known_rows(x.aval)
        self.x, self.aval, self.at, self.n = x, <object>k.row, 0, k.n

    def __iter__(self):
        return self

    def __length_hint__(self):
        return self.n - self.at

    def __next__(self):
        cdef int64_t i = self.at
        if i >= self.n:
            raise StopIteration
        alive(self.x)
        self.at = i + 1
        return row_of(self.x, self.aval, i, self.x.size // self.n)


cdef class IndexDispatch:
    """x[idx] of concrete arrays: ints and slices inside the array's bounds give views; all else is `slow(x, idx)`."""
    cdef object slow

    def __init__(self, slow):
        self.slow = slow

    def __call__(self, x, idx):
        return self.of(x, idx)

    cdef object of(self, object x, object idx):
        if is_eval() and type(x) is _array_class:
            if masks_rows(idx, x):
                return selected(x, idx)
            out = shown(x, idx)
            if out is not None:
                return out
        return self.slow(x, idx)


cdef object shown(ArrayBase x, object idx):
    """The view that ints and slices show, or None."""
    if type(idx) is _array_class:
        known = as_int(idx)
        return None if known is None else row(x, known)
    out = row(x, idx) if type(idx) is int else window(x, idx)
    if out is None and (known := known_ints(idx)) is not None:
        out = row(x, known) if type(known) is int else window(x, known)
    return out


def static_view(x, idx):
    """The view that ints and slices show of an array, or None."""
    return shown(x, idx) if type(x) is _array_class else None


cdef object call_index(object op, object x, object idx):
    return (<IndexDispatch>op).of(x, idx) if type(op) is IndexDispatch else op(x, idx)


set_index_call(call_index)               # what x[idx] goes through


cdef inline bint masks_rows(object idx, ArrayBase x):
    """True if an index is an array of bool over leading axes of x."""
    cdef tuple shape
    if type(idx) is not _array_class or (<ArrayBase>idx).code != FG_BOOL:
        return False
    shape = (<ArrayBase>idx).aval.shape
    return len(shape) > 0 and (<tuple>x.aval.shape)[:len(shape)] == shape


cdef object as_int(item):
    """An integer array of rank 0, or NumPy's integer, as an int; None for anything else."""
    if type(item) is _array_class:
        return (<ArrayBase>item).scalar() if FG_I8 <= (<ArrayBase>item).code <= FG_U64 and (<ArrayBase>item).aval.shape == () else None
    return int(item) if isinstance(item, _numpy_integer) else None


cdef object known_ints(idx):
    """An index with as_int of its items; None where there is nothing of that kind."""
    cdef list items
    cdef bint found = False
    if type(idx) is not tuple:
        return as_int(idx)
    items = list(<tuple>idx)
    for k in range(len(items)):
        i = as_int(items[k])
        if i is not None:
            items[k], found = i, True
    return tuple(items) if found else None


cdef object row(ArrayBase x, idx):
    """x[idx] of an int inside the bounds, or None."""
    cdef Known *k
    cdef int64_t i
    if x.strides_or_none is not None or not small_int(idx, &i):
        return window(x, idx)
    k = &_known[(<uintptr_t><PyObject *>x.aval >> 5) % KNOWN]
    if k.aval != <PyObject *>x.aval:
        if not <tuple>x.aval.shape:
            return None
        k = known_rows(x.aval)
    if not -k.n <= i < k.n:
        return None
    alive(x)
    return row_of(x, <object>k.row, i + k.n if i < 0 else i, x.size // k.n)


# What indices of contiguous arrays have shown lately. An index is its words: kinds of items, and the numbers of slices. Its ints are
# counted when it is used: each steps along an axis.
cdef enum:
    WORDS = 12
    INTS = 4
    WINDOWS = 256
    IS_INT, IS_NONE, IS_ELLIPSIS, IS_SLICE     # IS_SLICE + bits of the parts that are None

cdef struct Index:
    int64_t[12] words
    int64_t[4] ints
    int n, n_ints

cdef struct Shown:
    PyObject *aval                       # of the array; these three are owned, NULL: of none
    PyObject *out                        # the view's aval, and its strides or None
    PyObject *strides
    int64_t offset, size
    int64_t[4] dims                      # of each int: the length of its axis, and the elements from one place on it to the next
    int64_t[4] steps
    Index index

cdef Shown[256] _shown


cdef inline bint small_int(object v, int64_t *value) except -1:
    cdef int overflow = 0
    if type(v) is not int:
        return False
    value[0] = PyLong_AsLongLongAndOverflow(v, &overflow)
    return not overflow


cdef enum:
    TOO_LONG, READ, OTHER

cdef int read_index(object idx, Index *out) except -1:
    """READ with the words of an index; TOO_LONG where it has too many, or parts of slices are no small ints; OTHER for items of other kinds."""
    cdef bint several = type(idx) is tuple
    cdef Py_ssize_t i
    cdef int k, at
    cdef PyObject *part
    cdef object item
    out.n = out.n_ints = 0
    for i in range(len(<tuple>idx) if several else 1):
        item = (<tuple>idx)[i] if several else idx
        if out.n + 4 > WORDS:
            return TOO_LONG
        if type(item) is slice:
            at = out.n
            out.words[at] = IS_SLICE
            out.n += 1
            for k in range(3):
                part = fg_slice_part(item, k)
                if part == <PyObject *>None:
                    out.words[at] += 1 << k
                elif small_int(<object>part, &out.words[out.n]):
                    out.n += 1
                else:
                    return TOO_LONG
            continue
        if item is None or item is Ellipsis:
            out.words[out.n] = IS_NONE if item is None else IS_ELLIPSIS
        elif out.n_ints < INTS and small_int(item, &out.ints[out.n_ints]):
            out.words[out.n] = IS_INT
            out.n_ints += 1
        else:
            return TOO_LONG if type(item) is int else OTHER
        out.n += 1
    return READ


cdef Shown *shown_by(object aval, Index *index) noexcept:
    """Where the view that an index shows of arrays of this aval is kept."""
    cdef uintptr_t h = <uintptr_t><PyObject *>aval >> 5
    cdef int k
    for k in range(index.n):
        h = h * 1000003 ^ <uintptr_t>index.words[k]
    return &_shown[(h ^ h >> 17) % WINDOWS]


cdef object known_window(ArrayBase x, Shown *s, Index *index):
    """The view that s stands for, or None where it is another's or an int is out of bounds."""
    cdef int64_t offset = s.offset, i
    cdef int k
    if s.aval != <PyObject *>x.aval or s.index.n != index.n or memcmp(s.index.words, index.words, index.n * sizeof(int64_t)):
        return None
    for k in range(index.n_ints):
        i = index.ints[k]
        if not -s.dims[k] <= i < s.dims[k]:
            return None
        offset += (i + s.dims[k] if i < 0 else i) * s.steps[k]
    alive(x)
    return view_memory(x, <object>s.out, s.size, <object>s.strides, offset)


cdef int learn(ArrayBase x, Shown *s, Index *index, ArrayBase view) except -1:
    cdef PyObject *old_aval = s.aval
    cdef PyObject *old_out = s.out
    cdef PyObject *old_strides = s.strides
    cdef int k
    s.offset = (view.data - x.data) // fg_itemsize(x.code)
    for k in range(index.n_ints):
        s.offset -= (index.ints[k] + s.dims[k] if index.ints[k] < 0 else index.ints[k]) * s.steps[k]
    s.size = view.size
    s.index = index[0]
    Py_INCREF(x.aval)
    Py_INCREF(view.aval)
    Py_INCREF(view.strides_or_none)
    s.aval, s.out, s.strides = <PyObject *>x.aval, <PyObject *>view.aval, <PyObject *>view.strides_or_none
    Py_XDECREF(old_aval)
    Py_XDECREF(old_out)
    Py_XDECREF(old_strides)
    return 0


cdef object window(ArrayBase x, idx):
    """The view that a static index shows, or None."""
    cdef Index index
    cdef Shown *s
    cdef int64_t[4] dims
    cdef int64_t[4] steps
    cdef int kind = TOO_LONG if x.strides_or_none is not None else read_index(idx, &index)
    if kind != READ:
        return None if kind == OTHER else make_window(x, idx, dims, steps)
    s = shown_by(x.aval, &index)
    out = known_window(x, s, &index)
    if out is None:
        out = make_window(x, idx, dims, steps)
        if out is not None:
            memcpy(s.dims, dims, sizeof(dims))
            memcpy(s.steps, steps, sizeof(steps))
            learn(x, s, &index, out)
    return out


cdef object make_window(ArrayBase x, idx, int64_t *dims, int64_t *steps):
    """The view that a static index shows, or None; also the length and the step of the axes of its first ints."""
    cdef tuple shape = x.aval.shape
    cdef tuple given = idx if type(idx) is tuple else (idx,)
    cdef int ndim = len(shape), used = 0, axis = 0, ints = 0, k, d
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
            if ints < INTS:
                dims[ints], steps[ints] = n, own[axis]
                ints += 1
            offset += (i + n if i < 0 else i) * own[axis]
            axis += 1
        else:
            n = shape[axis]
            try:
                lo, stop, step = item.indices(n)
            except TypeError:
                return None
            i = len(range(lo, stop, step))
            out_shape.append(i)
            strides.append(step * own[axis])
            if i:
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


# Updates of the elements that an index of ints and slices shows: each once, so that their order does not matter.
cdef enum:
    MOST_COPIED = 1 << 16                # bytes of an array that one thread copies at once, with the lock
    MOST_UPDATED = 512                   # elements in 1.1 microseconds, which a program takes to begin


def updated(x, idx, value, str kind):
    """A copy of x with a number, or an array of x's dtype, put ("set"), added ("add") or multiplied ("mul") into x[idx], of ints and slices or,
    of numbers that are put, a mask. None for other indices, for what is no contiguous array of few bytes, where x's dtype does not hold the
    value, and where numbers are denormal or not finite."""
    cdef ArrayBase a, at, v = None, out
    cdef FgTensor to, by
    cdef FgNumber number
    cdef bint shared
    cdef int how = FG_PUT if kind == "set" else FG_ADD if kind == "add" else FG_MUL if kind == "mul" else -1
    if type(x) is not _array_class or not is_eval() or how < 0:
        return None
    if type(idx) is _array_class and (<ArrayBase>idx).code == FG_BOOL:
        return with_number(x, idx, value) if how == FG_PUT else None
    a = x
    if a.strides_or_none is not None or a.aval.weak_type or a.size * fg_itemsize(a.code) > MOST_COPIED or a.size == 0:
        return None
    if type(value) is _array_class:
        v = value
        if v.code != a.code or v.aval.dtype is not a.aval.dtype or v.deleted:
            return None
        if a.code != FG_F32 and a.code != FG_I32 and (how != FG_PUT or not fg_updates(a.code)):
            return None
    elif not number_of(value, a.code, how, &number):
        return None
    shared = a.shared
    at = shown(a, idx)
    a.shared = shared                        # the view does not outlive this call: the array may be donated as before
    if at is None or not 0 < at.size <= MOST_UPDATED:
        return None
    if v is not None and v.aval.shape != () and v.aval.shape != at.aval.shape:
        return None
    at.fill_tensor(&to)
    if v is None:
        by = to
        memset(by.strides, 0, sizeof(by.strides))
        by.data = <char *>&number
    else:
        v.fill_tensor(&by)
        if by.ndim == 0:
            memset(by.strides, 0, sizeof(by.strides))
    out = new_array(a.aval, a.code, a.size)
    memcpy(out.data, a.data, a.size * fg_itemsize(a.code))
    to.data = out.data + (at.data - a.data)
    return out if fg_update(&to, &by, how) else None


cdef bint number_of(object value, int32_t code, int how, FgNumber *out) except -1:
    """A Python number as an element of a dtype that holds it; False of any other."""
    cdef int64_t i
    if type(value) is float:
        if code != FG_F32:
            return False
        out.f32 = <float>value
        return fabs(value) < 1e38            # what overflows is NumPy's to warn of, and NaN a check's
    if type(value) is bool:
        out.u8 = value is True
        return code == FG_BOOL and how == FG_PUT
    if not small_int(value, &i):
        return False
    if code == FG_F32:
        out.f32 = <float>i
        return -EXACT <= i <= EXACT
    out.i32 = <int32_t>i
    return code == FG_I32 and out.i32 == i
