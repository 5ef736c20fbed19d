from fgrad.compile.values cimport Node, Value


cdef class Unit:
    cdef public list nodes
    cdef readonly bint fused
    cdef readonly object shape
    cdef public object axes
    cdef readonly Py_ssize_t id
    cdef object bits               # one bit for each unit that has become part of this one
    cdef object before             # the bits of the units that must come earlier
    cdef set followers             # some of the units that must come later: the others follow these
    cdef Unit merged_into
    cdef readonly set reads        # buffers from outside
    cdef bint framed               # it runs at once but for a frame (see shift): reductions stay out of it


cpdef bint in_register(Value v, tuple shape)
