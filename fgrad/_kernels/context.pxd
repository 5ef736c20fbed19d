from libc.stdint cimport int64_t

cdef bint is_eval() noexcept
cdef bint has_axes() noexcept
cdef int64_t config_key() except? -1
