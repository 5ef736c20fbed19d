from libc.stdint cimport int64_t

from fgrad._kernels.executor cimport Program
from fgrad._kernels.operands cimport Scalar

cdef object array_class            # fgrad.core.Array

cdef int64_t operand(object x, Scalar *s, char **data, bint *narrow, bint *wide) except? -1
cdef object kinds_of(tuple values)

cdef class Entry:
    cdef Program program
    cdef list consts
    cdef tuple donated
    cdef object out_tree           # None: the result is one leaf
    cdef bint as_tuple             # the result is a flat tuple
    cdef bint direct               # run from the arguments' memory alone: one result, in memory of its own
    cdef object keep
    cdef public object body        # of an eager function: how a recording writes it down; None: operation by operation

    cdef object run(self, list arrays)
    cdef object run_direct(self, list leaves)
    cdef object run_any(self, list leaves)
    cdef int delete_donated(self, list leaves) except -1
