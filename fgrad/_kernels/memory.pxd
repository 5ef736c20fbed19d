from libc.stdint cimport int64_t

cdef char *pool_alloc(int64_t nbytes) noexcept nogil
cdef void pool_free(char *p) noexcept nogil
