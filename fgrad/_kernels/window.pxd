from libc.stdint cimport int64_t

from fgrad._kernels.array cimport ArrayBase


cdef class View:
    cdef object aval, keep
    cdef tuple strides
    cdef int64_t offset, size      # size: -1 until the first view, whose bounds are checked
    cdef public object body        # as of an Entry of dispatch

    cdef object of(self, ArrayBase x)
