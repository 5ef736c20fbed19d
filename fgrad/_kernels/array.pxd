from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgTensor

ctypedef object (*Call1)(object op, object a)
ctypedef object (*Call2)(object op, object a, object b)


cdef class ArrayBase:
    cdef char *data
    cdef readonly object aval            # ShapedArray
    cdef readonly object base            # what owns the memory when this array does not
    cdef readonly tuple strides_or_none  # in elements; None for C-contiguous
    cdef readonly int32_t code
    cdef readonly bint shared            # a view or an export of this memory exists: it may not be donated
    cdef readonly bint deleted
    cdef bint kept                       # stands for a number that is handed out again: never deleted
    cdef readonly int64_t size
    cdef bint owns
    cdef int32_t uses                    # how often a call names this array: a donated one must be named once
    cdef object __weakref__

    cdef int fill_tensor(self, FgTensor *t) except -1
    cdef ArrayBase make_view(self, aval, tuple strides, int64_t offset)
    cdef object scalar(self)
    cdef object scalar_for(self, str kind)

cdef inline int alive(ArrayBase x) except -1:
    """Raise where an array's memory was given back."""
    if x.deleted:
        x.check_alive()
    return 0

cdef ArrayBase new_array(object aval, int32_t code, int64_t size)
cdef ArrayBase wrap_memory(object aval, int32_t code, int64_t size, char *data, object base, tuple strides)
cdef void set_calls(Call1 one, Call2 two) noexcept
cdef void set_index_call(Call2 call) noexcept
