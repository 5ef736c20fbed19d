"""New arrays: with undefined contents, of NumPy's, and small ones of Python's numbers, filled with one or read from nested lists, as they came before."""
from libc.math cimport signbit
from libc.stdint cimport INT32_MAX, INT32_MIN, int32_t, int64_t, uintptr_t
from libc.string cimport memcpy
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject

cimport numpy as cnp

from fgrad._kernels.array import CODES

from fgrad._kernels.abi cimport FG_BOOL, FG_F32, FG_F64, FG_I32, FG_I64, FG_MAXDIM, fg_itemsize
from fgrad._kernels.array cimport ArrayBase, new_array, wrap_memory
from fgrad._kernels.context cimport config_key, is_eval, x64
from fgrad._kernels.operands cimport filled_with, get_aval

cnp.import_array()

cdef enum:
    KEPT = 1000
    MOST = 1 << 22                 # elements of a nested list, read with the lock
    DEPTH = 8
    MOST_FILLED = 1 << 14
    MOST_KEPT = 1 << 20

cdef int64_t EXACT = <int64_t>1 << 53

cdef dict _fillings = {}           # (shape or aval, dtype, value, its type, settings) -> (aval, its bytes)
cdef object _shaped = None
cdef dict _lasting = {}            # of fgrad._kernels.eager_dispatch


def install_shaped(shaped):
    """Hand over ShapedArray."""
    global _shaped
    _shaped = shaped


def install_lasting(dict lasting):
    """Hand over what stands for dtypes, by address."""
    global _lasting
    _lasting = lasting


# The last of them by the addresses of their arguments, which are mostly constants in the text of a function: no tuple is made nor hashed.
cdef enum:
    SLOTS = 256

cdef struct Filling:
    PyObject *shape                # these four are owned
    PyObject *dtype
    PyObject *value
    PyObject *known                # (aval, bytes)
    int64_t key, size
    int32_t code

cdef Filling[SLOTS] _lately


cdef object filling_key(shape, dtype, value):
    t = type(value)
    if not is_eval() or not (t is int or t is bool or (t is float and value != 0)):      # 0.0 and -0.0 are equal
        return None
    if type(shape) is tuple:
        for n in <tuple>shape:
            if type(n) is not int:                                                       # 2.0 equals 2
                return None
    elif type(shape) is not int and type(shape) is not _shaped:
        return None
    return shape, dtype, value, t, config_key()


def filled_before(shape, dtype, value):
    """A fresh array of a number, where remember_filling has seen one for these arguments; else None. shape: also an aval."""
    cdef PyObject *s = <PyObject *>shape
    cdef PyObject *d = <PyObject *>dtype
    cdef PyObject *v = <PyObject *>value
    cdef Filling *slot = &_lately[((<uintptr_t>s >> 4) * 7 + (<uintptr_t>d >> 4) * 31 + (<uintptr_t>v >> 4)) % SLOTS]
    cdef Filling old
    if slot.shape == s and slot.dtype == d and slot.value == v and slot.key == config_key() and is_eval():
        return filled_with(<object>slot.known, slot.code, slot.size)
    key = filling_key(shape, dtype, value)
    if key is None:
        return None
    try:
        known = _fillings.get(key)
    except TypeError:              # a dtype without a hash
        return None
    if known is None:
        return None
    old = slot[0]
    Py_INCREF(shape)
    Py_INCREF(dtype)
    Py_INCREF(value)
    Py_INCREF(known)
    slot.shape, slot.dtype, slot.value, slot.known, slot.key = s, d, v, <PyObject *>known, config_key()
    aval = (<tuple>known)[0]
    slot.code, slot.size = CODES[aval.dtype], aval.size
    Py_XDECREF(old.shape)
    Py_XDECREF(old.dtype)
    Py_XDECREF(old.value)
    Py_XDECREF(old.known)
    return filled_with(known, slot.code, slot.size)


def remember_filling(shape, dtype, value, ArrayBase x):
    """Say what filled_before gives."""
    key = filling_key(shape, dtype, value)
    if key is None or not 0 < x.size <= MOST_FILLED:
        return
    if len(_fillings) >= KEPT:
        _fillings.clear()
    try:
        _fillings[key] = x.aval, (<char *>x.data)[:x.aval.dtype.itemsize]
    except TypeError:
        return


cdef dict _made = {}               # (function, settings, what tells its arguments apart) -> arrays
cdef int64_t _elements = 0         # of all that _made holds


cdef bint tell(object x, list out) except -1:
    """Append what tells an argument apart from all others; False for one that is no number, string, dtype, slice or tuple of them."""
    t = type(x)
    out.append(t)
    if t is tuple:
        out.append(len(<tuple>x))
        for v in <tuple>x:
            if not tell(v, out):
                return False
        return True
    if t is slice:
        return tell(x.start, out) and tell(x.stop, out) and tell(x.step, out)
    if t is float and x != x:
        return False
    out.append("-0" if t is float and x == 0 and signbit(x) else x)        # which equals 0
    return t is int or t is float or t is bool or t is str or x is None or isinstance(x, type) or id(x) in _lasting


cdef tuple made_key(function, tuple args, dict kwargs):
    cdef list out = [function, config_key()]
    if not is_eval():
        return None
    for x in args:
        if not tell(x, out):
            return None
    for name, x in kwargs.items():
        out.append(name)
        if not tell(x, out):
            return None
    return tuple(out)


def made_before(function, tuple args, dict kwargs):
    """Fresh copies of what a function gave for these arguments, numbers alone, where remember_made has seen it; None where it has not, and
    NotImplemented of other arguments."""
    key = made_key(function, args, kwargs)
    if key is None:
        return NotImplemented
    known = _made.get(key)
    if known is None:
        return None
    return (<ArrayBase>known).fresh() if isinstance(known, ArrayBase) else type(known)([(<ArrayBase>x).fresh() for x in known])


def remember_made(function, tuple args, dict kwargs, out):
    """Say what made_before gives: an array, or a tuple or list of arrays."""
    global _elements
    cdef int64_t size = 0
    key = made_key(function, args, kwargs)
    several = type(out) is tuple or type(out) is list
    if key is None or not (several or isinstance(out, ArrayBase)):
        return
    for x in out if several else (out,):
        if not isinstance(x, ArrayBase) or (<ArrayBase>x).strides_or_none is not None:
            return
        size += (<ArrayBase>x).size
    if size > MOST_FILLED:
        return
    if len(_made) >= KEPT or _elements + size > MOST_KEPT:
        forget_made()
    kept = [(<ArrayBase>x).fresh() for x in (out if several else (out,))]
    _made[key] = type(out)(kept) if several else kept[0]
    _elements += size


def forget_made():
    """Give back what made_before keeps."""
    global _elements
    _made.clear()
    _elements = 0


cdef struct Reader:
    char *out
    int64_t[8] dims
    int64_t at
    int depth, code
    bint mixed                     # a float came where the array is of integers


cdef bint read(object x, Reader *r, int level) except -1:
    """Append the numbers of a nested sequence; False where it is not rectangular, or holds anything but floats and small ints, or bools."""
    cdef int64_t value
    cdef int overflow = 0
    cdef double d
    if level < r.depth:
        if type(x) is list:
            if len(<list>x) != r.dims[level]:
                return False
            for v in <list>x:
                if not read(v, r, level + 1):
                    return False
            return True
        if type(x) is not tuple or len(<tuple>x) != r.dims[level]:
            return False
        for v in <tuple>x:
            if not read(v, r, level + 1):
                return False
        return True
    if r.code == FG_BOOL:
        if type(x) is not bool:
            return False
        r.out[r.at] = x is True
        r.at += 1
        return True
    if type(x) is float:
        if r.code == FG_I32 or r.code == FG_I64:
            r.mixed = True
            return False
        d = x
    elif type(x) is int:
        value = PyLong_AsLongLongAndOverflow(x, &overflow)
        if overflow or not -EXACT <= value <= EXACT or (r.code == FG_I32 and not INT32_MIN <= value <= INT32_MAX):
            return False
        d = <double>value
    else:
        return False
    if r.code == FG_F32:
        (<float *>r.out)[r.at] = <float>d
    elif r.code == FG_F64:
        (<double *>r.out)[r.at] = d
    elif r.code == FG_I32:
        (<int32_t *>r.out)[r.at] = <int32_t>d
    else:
        (<int64_t *>r.out)[r.at] = <int64_t>d
    r.at += 1
    return True


cdef dict _avals = {}              # (shape, code) -> aval of from_numbers' arrays


cdef object aval_of(tuple shape, int code, dtype):
    known = _avals.get((shape, code))
    if known is None:
        if len(_avals) >= KEPT:
            _avals.clear()
        known = _avals[shape, code] = _shaped(shape, dtype)
    return known


cdef dict _read_as = {}            # (type of a number, dtype or None, settings) -> (code, dtype) of the array that it is read into, or None


cdef object read_as(t, number, dtype):
    cdef tuple key = (t, dtype, config_key())
    found = _read_as.get(key, _read_as)
    if found is not _read_as:
        return found
    kind = get_aval(number if dtype is None else dtype.type(0)).dtype
    code = None
    if dtype is None or kind == dtype:
        if kind.kind == "f" and kind.itemsize >= 4:
            code = FG_F32 if kind.itemsize == 4 else FG_F64
        elif kind.kind == "b" and t is bool:
            code = FG_BOOL
        elif kind.kind == "i" and kind.itemsize >= 4:
            code = FG_I32 if kind.itemsize == 4 else FG_I64
    if len(_read_as) >= KEPT:
        _read_as.clear()
    found = _read_as[key] = None if code is None else (code, kind)
    return found


def looked_up(table, key):
    """table[key, whether 64 bits are on], or None."""
    return (<dict?>table).get((key, x64()))


def from_numbers(xs, dtype):
    """A nested list or tuple of floats and ints, or of bools, or one of them, as an array of the default types, or of `dtype`; None for what that does not say."""
    cdef Reader r
    cdef ArrayBase out
    cdef int64_t size = 1
    cdef list shape = []
    first = xs
    r.depth = 0
    while type(first) is list or type(first) is tuple:
        n = len(first)
        if n == 0 or r.depth == DEPTH:
            return None
        r.dims[r.depth] = n
        size *= n
        if size > MOST:
            return None
        shape.append(n)
        r.depth += 1
        first = first[0]
    if type(first) is not float and type(first) is not int and type(first) is not bool:
        return None
    while True:
        kind = read_as(type(first), first, dtype)
        if kind is None:
            return None
        r.code, kind = <tuple>kind
        out = new_array(aval_of(tuple(shape), r.code, kind), r.code, size)
        r.out, r.at, r.mixed = out.data, 0, False
        if read(xs, &r, 0):
            return out
        if not r.mixed or dtype is not None:
            return None
        first = 0.0


def alike(xs):
    """True for a list or tuple of arrays of one shape, or of floats and arrays of rank 0."""
    cdef tuple shape = None
    cdef bint numbers = False
    for x in xs:
        if isinstance(x, ArrayBase):
            if shape is None:
                shape = (<ArrayBase>x).aval.shape
            elif (<ArrayBase>x).aval.shape != shape:
                return False
        elif type(x) is float:
            numbers = True
        else:
            return False
    return shape is not None and not (numbers and shape)


def empty(aval):
    """A fresh array with undefined contents."""
    cdef int64_t n = 1
    for d in aval.shape:
        n *= d
    if len(aval.shape) > FG_MAXDIM:
        raise ValueError(f"array of rank {len(aval.shape)}: at most {FG_MAXDIM} axes are supported")
    return new_array(aval, CODES[aval.dtype], n)


def from_numpy(cnp.ndarray x, aval, bint copy):
    """An array of `aval` (same shape and dtype as x): a copy, or a view where x's memory allows one."""
    cdef int32_t code = CODES[aval.dtype]
    cdef int64_t item = fg_itemsize(code)
    cdef ArrayBase a
    cdef int d
    if (<object>x).dtype != aval.dtype or (<object>x).shape != aval.shape:
        raise ValueError(f"from_numpy: array of {(<object>x).dtype}{(<object>x).shape} for aval {aval}")
    if cnp.PyArray_NDIM(x) > FG_MAXDIM:
        raise ValueError(f"array of rank {cnp.PyArray_NDIM(x)}: at most {FG_MAXDIM} axes are supported")
    if not copy and (<object>x).flags.aligned and (<object>x).dtype.isnative:
        if (<object>x).flags.c_contiguous:
            return wrap_memory(aval, code, cnp.PyArray_SIZE(x), <char *>cnp.PyArray_DATA(x), x, None)
        strides = (<object>x).strides
        if all(s % item == 0 for s in strides):
            return wrap_memory(aval, code, cnp.PyArray_SIZE(x), <char *>cnp.PyArray_DATA(x), x,
                               tuple([s // item for s in strides]))
    a = new_array(aval, code, cnp.PyArray_SIZE(x))
    if (<object>x).flags.c_contiguous and (<object>x).dtype.isnative:
        memcpy(a.data, cnp.PyArray_DATA(x), a.size * item)
    else:
        view = a.numpy_view(True)
        view[...] = x
        a.shared = False
    return a
