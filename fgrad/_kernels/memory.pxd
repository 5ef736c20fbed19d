from libc.stdint cimport int64_t

cdef object MAX_BYTES                # of an array

cdef char *pool_alloc(int64_t nbytes) noexcept nogil
cdef char *pool_borrow(int64_t nbytes) noexcept nogil
cdef bint roams(int64_t nbytes) noexcept nogil
cdef void pool_free(char *p) noexcept nogil
cdef int span_of(code, shape, strides, offset, int64_t *first, int64_t *end) except -1
cdef int64_t size_of(shape) except -1
