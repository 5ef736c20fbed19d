from libc.stdint cimport int64_t

from fgrad._kernels.array cimport ArrayBase

cdef ArrayBase view_memory(ArrayBase x, object aval, int64_t size, tuple strides, int64_t offset)
