from libc.stdint cimport int64_t

from fgrad._kernels.array cimport ArrayBase

# A Python scalar as a program reads it.
cdef union Scalar:
    float f32
    double f64
    int i32
    int64_t i64

cdef bint is_scalar(object t) noexcept
cdef bint is_numpy(object x) noexcept
cdef bint is_numpy_scalar(object x) noexcept
cpdef object get_aval(x)
cdef ArrayBase filled_with(tuple known, int code, Py_ssize_t n)
cdef int read_scalar(object x, Scalar *out) except -1
cdef ArrayBase scalar_array(object x)
cdef object numpy_aval(object x)
cdef int64_t numpy_operand(object x, char **data) except? -1
cdef int64_t numpy_scalar_operand(object x, Scalar *out) except? -1
cdef object scalar_of(object number, object x)
cdef bytes scalar_bytes(object x)
cdef ArrayBase loose_array(object x)
cdef ArrayBase as_array(object x, bint copy)
cpdef ArrayBase settled(ArrayBase x)
