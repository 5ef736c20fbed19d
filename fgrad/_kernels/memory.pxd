from libc.stdint cimport int64_t

cdef object MAX_BYTES                # of an array

cdef char *pool_alloc(int64_t nbytes) noexcept nogil
cdef char *pool_borrow(int64_t nbytes) noexcept nogil
cdef bint roams(int64_t nbytes) noexcept nogil
cdef void pool_free(char *p) noexcept nogil
cdef tuple byte_range(code, shape, strides, offset)
cdef int64_t size_of(shape) except -1
