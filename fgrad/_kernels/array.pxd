from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgTensor

cdef class ArrayBase:
    cdef char *data
    cdef readonly object aval            # ShapedArray
    cdef readonly object base            # what owns the memory when this array does not
    cdef readonly tuple strides_or_none  # in elements; None for C-contiguous
    cdef readonly int32_t code
    cdef readonly bint shared            # a view or an export of this memory exists: it may not be donated
    cdef readonly bint deleted
    cdef readonly int64_t size
    cdef bint owns
    cdef int32_t uses                    # how often a call names this array: a donated one must be named once
    cdef object __weakref__

    cdef int fill_tensor(self, FgTensor *t) except -1

cdef ArrayBase new_array(object aval, int32_t code, int64_t size)
cdef ArrayBase wrap_memory(object aval, int32_t code, int64_t size, char *data, object base, tuple strides)
