cdef class Buf:
    cdef public str kind
    cdef public object index, dtype, base, offset
    cdef public object size
    cdef public object node
    cdef public bint strided
    cdef public Py_ssize_t room       # elements of memory, gaps between rows included, where rows are not one behind the other (see frames); else 0
    cdef object bounds                # of integers: (least, greatest), or the constant array; None while nobody has asked (see bounds)
    cdef Py_ssize_t last              # the last unit that reads or writes it, while buffers are placed (see plan)
    cdef tuple shape                  # of the value that it was made for, where lowering made it; else None


cdef class Value:
    cdef readonly Buf buf
    cdef readonly tuple shape, strides
    cdef readonly Py_ssize_t offset
    cdef readonly int tag
    cdef readonly object dtype, scalar
    cdef readonly tuple box
    cdef signed char known_whole
    cdef tuple known_key              # of a constant
    cpdef object key(self)
    cdef bint is_contiguous(self)
    cpdef bint whole(self)


cdef class Node:
    cdef readonly str kind, op
    cdef public list ins, outs
    cdef readonly tuple shape, fp, children
    cdef public tuple ip
    cdef public object obj, group
    cdef readonly object type_code, axes
    cdef readonly bint effects
    cdef Py_ssize_t position          # among the nodes that are being fused


cpdef tuple row_major(tuple shape)
cdef Value new_value(Buf buf, tuple shape, tuple strides, Py_ssize_t offset, dtype, scalar, int tag)
cdef Value temporary(tuple shape, dtype, size)
cdef Node elementwise_node(str op, list ins, Value out, tuple shape, type_code)
cpdef object view_reshape(tuple shape, tuple strides, tuple new_shape)
