from fgrad._kernels.abi cimport FG_F16, FG_U8
from fgrad._kernels.array cimport ArrayBase


cdef enum:
    MOST_BYTES = 134217728               # of results that a recording keeps


cdef bint is_byte_float(object dtype) except -1


cdef inline bint inexact(ArrayBase x):
    """Whether an array's values have tangents: floats and complex numbers, whose codes are the last ones, and floats of a byte."""
    return x.code >= FG_F16 or (x.code == FG_U8 and is_byte_float(x.aval.dtype))


cdef class Recording:
    cdef readonly list values, records, key, tracers
    cdef readonly Py_ssize_t n_args
    cdef dict known                      # id(value without a tracer) -> its number
    cdef Py_ssize_t bytes

    cdef int describe(self, ArrayBase x) except -1
    cdef Py_ssize_t number_of(self, x) except -2
