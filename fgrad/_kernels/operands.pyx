"""Arguments of compiled calls: Python scalars and NumPy arrays as arrays, without going through Python."""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.ref cimport Py_INCREF, Py_XDECREF, PyObject
from libc.math cimport fabs
from libc.stdint cimport int32_t, int64_t, uintptr_t
from libc.string cimport memcpy

from fgrad._kernels.abi cimport FG_BF16, FG_F16, FG_F32, FG_F64, FG_I32, FG_I64, fg_itemsize
from fgrad._kernels.array cimport ArrayBase, new_array, wrap_memory
from fgrad._kernels.context cimport config_key

cimport numpy as cnp

import numpy as np

from fgrad._kernels.array import CODES

cnp.import_array()

cdef extern from *:
    """
    #include "numpy/arrayobject.h"
    #include "numpy/arrayscalars.h"
    static PyObject *fg_new_float32(double x) {
        PyObject *out = PyArrayScalar_New(Float);
        if (out) PyArrayScalar_ASSIGN(out, Float, (float)x);
        return out;
    }
    #define fg_float32_bits(x) ((char *)&PyArrayScalar_VAL(x, Float))
    """
    object fg_new_float32(double x)
    char *fg_float32_bits(object x)

cdef enum:
    EXACT = 1 << 24                      # integers up to here are float32's

cdef object _array_class = None
cdef object _shaped = None               # ShapedArray
cdef object _foreign_aval = None         # the aval of what is neither array nor tracer
cdef object _to_array = None
cdef object _contiguous = None


def install_avals(array_class, shaped, foreign_aval, to_array):
    """Hand over what lives in fgrad.core."""
    global _array_class, _shaped, _foreign_aval, _to_array
    _array_class, _shaped, _foreign_aval, _to_array = array_class, shaped, foreign_aval, to_array


def install_contiguous(contiguous):
    """Hand over what copies a strided array."""
    global _contiguous
    _contiguous = contiguous


cdef dict _type_avals = {}               # type of a scalar -> its aval, under the settings _type_config
cdef int64_t _type_config = -1


cpdef object get_aval(x):
    """The abstract value of a leaf. Raises TypeError for what is not an array or scalar."""
    global _type_avals, _type_config
    cdef int64_t key
    if type(x) is _array_class:
        return (<ArrayBase>x).aval
    key = config_key()
    if key != _type_config:
        _type_avals, _type_config = {}, key
    aval = _type_avals.get(type(x))
    if aval is not None:
        return aval
    aval = getattr(x, "aval", None)
    if type(aval) is _shaped:
        return aval
    aval = _foreign_aval(x)
    if key == _type_config and (is_scalar(type(x)) or (isinstance(x, cnp.generic) and x.dtype in CODES)):
        _type_avals[type(x)] = aval
    return aval


cdef bint is_scalar(object t) noexcept:
    return t is float or t is int or t is bool or t is complex


cdef bint is_numpy(object x) noexcept:
    return cnp.PyArray_CheckExact(x)


cdef bint is_numpy_scalar(object x) noexcept:
    return isinstance(x, cnp.generic)


cdef int64_t _scalar_config = -1        # the settings under which the next three hold
cdef object _float_aval = None
cdef object _int_aval = None
cdef bint _wide = False


cdef inline int refresh() except -1:
    global _scalar_config, _float_aval, _int_aval, _wide
    cdef int64_t key = config_key()
    if key != _scalar_config:
        _float_aval, _int_aval = get_aval(0.0), get_aval(0)
        _wide = _float_aval.dtype.itemsize == 8
        _scalar_config = key
    return 0


cdef int read_scalar(object x, Scalar *out) except -1:
    """1 with the bits of a float or int, as weakly typed arrays hold them; 0 for what does not fit, or another type."""
    cdef int overflow = 0
    cdef int64_t value
    refresh()
    out.i64 = 0
    if type(x) is float:
        if _wide:
            out.f64 = x
        else:
            out.f32 = <float><double>x
        return 1
    if type(x) is not int:
        return 0
    value = PyLong_AsLongLongAndOverflow(x, &overflow)
    if overflow or (not _wide and not -0x80000000 <= value <= 0x7fffffff):
        return 0
    if _wide:
        out.i64 = value
    else:
        out.i32 = <int32_t>value
    return 1


cdef ArrayBase scalar_array(object x):
    """A Python scalar as a weakly typed array of rank 0."""
    cdef ArrayBase a
    cdef Scalar s
    if not read_scalar(x, &s):
        return _to_array(x)
    if type(x) is float:
        a = new_array(_float_aval, FG_F64 if _wide else FG_F32, 1)
    else:
        a = new_array(_int_aval, FG_I64 if _wide else FG_I32, 1)
    (<int64_t *>a.data)[0] = s.i64           # blocks are of 64 bytes at least
    return a


def weak_number(x):
    """A float or an int that fits as a fresh weakly typed array of rank 0; None for anything else."""
    cdef Scalar s
    return scalar_array(x) if read_scalar(x, &s) else None


# The avals of NumPy arrays that came lately, by dtype, shape and settings.
cdef enum:
    KNOWN = 64
    KNOWN_DIMS = 4

cdef struct Known:
    PyObject *descr                          # owned, as the aval is
    PyObject *aval
    int64_t config
    int ndim
    cnp.npy_intp dims[4]

cdef Known[64] _known


cdef object numpy_aval(object x):
    """The aval of an ndarray."""
    cdef cnp.ndarray a = x
    cdef PyObject *descr = <PyObject *>cnp.PyArray_DESCR(a)
    cdef int n = cnp.PyArray_NDIM(a), d
    cdef int64_t config = config_key()
    cdef size_t h = (<uintptr_t>descr >> 5) + <size_t>(31 * n)
    cdef Known *k
    cdef bint same
    if n > KNOWN_DIMS:
        return get_aval(x)
    for d in range(n):
        h = h * 31 + <size_t>a.shape[d]
    k = &_known[(h ^ (h >> 7)) % KNOWN]
    same = k.descr == descr and k.config == config and k.ndim == n
    for d in range(n):
        same = same and k.dims[d] == a.shape[d]
    if same:
        return <object>k.aval
    aval = get_aval(x)
    Py_INCREF(aval)
    Py_INCREF(<object>descr)
    old_descr, old_aval = k.descr, k.aval
    k.descr, k.aval, k.config, k.ndim = descr, <PyObject *>aval, config, n
    for d in range(n):
        k.dims[d] = a.shape[d]
    Py_XDECREF(old_descr)
    Py_XDECREF(old_aval)
    return aval


cdef object narrowed(cnp.ndarray a, object aval):
    """A contiguous ndarray of 64 bits as an array of 32, where x64 is off; None of other dtypes."""
    cdef int num = cnp.PyArray_TYPE(a)
    cdef int64_t n = cnp.PyArray_SIZE(a), i
    cdef double *doubles = <double *>cnp.PyArray_DATA(a)
    cdef int64_t *longs = <int64_t *>cnp.PyArray_DATA(a)
    cdef float *floats
    cdef int32_t *ints
    cdef int32_t code = CODES.get(aval.dtype, -1)
    cdef ArrayBase out
    if not (num == cnp.NPY_FLOAT64 and code == FG_F32) and not (num == cnp.NPY_INT64 and code == FG_I32):
        return None
    out = new_array(aval, code, n)
    floats, ints = <float *>out.data, <int32_t *>out.data
    if code == FG_F32:
        for i in range(n):
            floats[i] = <float>doubles[i]
    else:
        for i in range(n):
            ints[i] = <int32_t>longs[i]
    return out


cdef object numpy_array(object x, bint copy):
    """A contiguous ndarray of a dtype that arrays have or narrow to; of its memory if it is of floats that need not be copied."""
    cdef cnp.ndarray a = x
    cdef object aval = numpy_aval(x)
    cdef object dtype = <object>cnp.PyArray_DESCR(a)
    cdef int32_t code
    cdef ArrayBase out
    if not cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED):
        return None
    if aval.dtype is not dtype:
        return narrowed(a, aval) if cnp.PyArray_ISNOTSWAPPED(a) else None
    if dtype not in CODES:
        return None
    code = CODES[dtype]
    # another thread may write into x while a program reads it: indices must not change after they have been checked
    if not copy and (code == FG_F32 or code == FG_F64 or code == FG_F16 or code == FG_BF16) and cnp.PyArray_SIZE(a) > 0:
        return wrap_memory(aval, code, cnp.PyArray_SIZE(a), <char *>cnp.PyArray_DATA(a), x, None)
    out = new_array(aval, code, cnp.PyArray_SIZE(a))
    memcpy(out.data, cnp.PyArray_DATA(a), out.size * fg_itemsize(code))
    return out


cdef int64_t numpy_operand(object x, char **data) except? -1:
    """The word of an ndarray that a program can read where it lies, and its memory; 0 for any other."""
    cdef cnp.ndarray a = x
    cdef int num = cnp.PyArray_TYPE(a)
    if (num != cnp.NPY_FLOAT32 and num != cnp.NPY_FLOAT64) or cnp.PyArray_SIZE(a) == 0:
        return 0
    if not cnp.PyArray_CHKFLAGS(a, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED):
        return 0
    aval = numpy_aval(x)
    if aval.dtype is not <object>cnp.PyArray_DESCR(a):
        return 0
    data[0] = <char *>cnp.PyArray_DATA(a)
    return <int64_t><uintptr_t><PyObject *>aval


cdef object _float32 = np.float32
cdef object _float64 = np.float64


cdef object scalar_of(object number, object x):
    """number(x), of NumPy's type `number` and one of Python's."""
    cdef double value
    if number is _float32:
        if type(x) is float:
            value = <double>x
            if fabs(value) < 1e38:       # what overflows is NumPy's to warn of
                return fg_new_float32(value)
        elif type(x) is int and -EXACT <= x <= EXACT:
            return fg_new_float32(<double>x)
    return number(x)


cdef bytes scalar_bytes(object x):
    """x.tobytes(), of a NumPy scalar."""
    return PyBytes_FromStringAndSize(fg_float32_bits(x), sizeof(float)) if type(x) is _float32 else x.tobytes()


cdef int64_t numpy_scalar_operand(object x, Scalar *out) except? -1:
    """The word of a NumPy float that needs no conversion as an array, and its value; 0 for anything else."""
    if type(x) is not _float32:
        refresh()
        if type(x) is not _float64 or not _wide:
            return 0
    cnp.PyArray_ScalarAsCtype(x, out)
    aval = get_aval(x)
    return <int64_t><uintptr_t><PyObject *>aval


cdef ArrayBase numpy_scalar_array(object x):
    """A NumPy scalar as an array of rank 0."""
    cdef ArrayBase a
    cdef Scalar s
    s.i64 = 0
    if numpy_scalar_operand(x, &s):
        a = new_array(get_aval(x), FG_F32 if type(x) is _float32 else FG_F64, 1)
    elif type(x) is _float64:
        cnp.PyArray_ScalarAsCtype(x, &s)
        a = new_array(get_aval(x), FG_F32, 1)
        s.f32 = <float>s.f64
    else:
        return _to_array(x)
    (<int64_t *>a.data)[0] = s.i64           # blocks are of 64 bytes at least
    return a


def from_ndarray(x, bint copy):
    """An ndarray's values as an array, as numpy_array gives them; None else, and where integers should be shared."""
    if not copy and x.dtype.kind != "f":
        return None
    return numpy_array(x, copy)


def filled(aval, bytes value):
    """A fresh array of one element's bytes over and over."""
    return filled_with((aval, value), CODES[aval.dtype], aval.size)


cdef ArrayBase filled_with(tuple known, int code, Py_ssize_t n):
    """filled(*known), for a code and a size that are those of the aval."""
    cdef bytes value = known[1]
    cdef int64_t size = fg_itemsize(code), done = size, total = n * size
    cdef char *word = value
    cdef ArrayBase a
    if len(value) != size:
        raise ValueError(f"{len(value)} bytes for an element of {known[0]}")
    a = new_array(known[0], code, n)
    if n:
        memcpy(a.data, word, size)
    while done < total:              # what is there, once more
        memcpy(a.data + done, a.data, min(done, total - done))
        done += min(done, total - done)
    return a


cdef ArrayBase loose_array(object x):
    """Any leaf as an array, which may be a strided view."""
    return x if type(x) is _array_class else as_array(x, True)


cdef ArrayBase as_array(object x, bint copy):
    """Any leaf as a contiguous array; without `copy` it may be of a NumPy array's own memory."""
    if type(x) is not _array_class:
        if is_numpy(x):
            out = numpy_array(x, copy)
            if out is not None:
                return out
        x = scalar_array(x) if is_scalar(type(x)) else numpy_scalar_array(x) if is_numpy_scalar(x) else _to_array(x)
    if (<ArrayBase>x).strides_or_none is not None:
        x = settled(x)
    return x


cpdef ArrayBase settled(ArrayBase x):
    """x with contiguous elements. A view that nobody else looks into becomes such an array itself, so that the next call finds it so.

    What it looked into stays alive with it: a program of another thread may be reading there.
    """
    cdef ArrayBase copy = _contiguous(x)
    if x.shared or x.owns or x.deleted or not copy.owns or copy.shared:
        return copy
    x.data, copy.data = copy.data, NULL
    x.owns, copy.owns = True, False
    x.strides_or_none = None
    return x
