from libc.stdint cimport int64_t

cdef bint is_eval() noexcept
cdef bint has_axes() noexcept
cdef object current_trace()
cdef int set_trace(object trace) except -1
cdef int64_t config_key() except? -1
cdef bint x64() except -1
