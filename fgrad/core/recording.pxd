from fgrad._kernels.abi cimport FG_F16
from fgrad._kernels.array cimport ArrayBase


cdef enum:
    MOST_BYTES = 16777216                # of results that a recording keeps


cdef inline bint inexact(ArrayBase x):
    """Whether an array's values have tangents: floats and complex numbers, whose codes are the last ones."""
    return x.code >= FG_F16


cdef class Recording:
    cdef readonly list values, records, key, tracers
    cdef readonly Py_ssize_t n_args
    cdef dict known                      # id(value without a tracer) -> its number
    cdef Py_ssize_t bytes

    cdef int describe(self, ArrayBase x) except -1
    cdef Py_ssize_t number_of(self, x) except -2
