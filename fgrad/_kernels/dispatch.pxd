from cpython.object cimport Py_TYPE
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uintptr_t

from fgrad._kernels.abi cimport FG_I8, FG_I16, FG_U8, FG_U64
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.executor cimport Program
from fgrad._kernels.operands cimport Scalar, is_numpy, is_numpy_scalar, numpy_operand, numpy_scalar_operand, read_scalar

cdef object array_class            # fgrad.core.Array

cdef object kinds_of(tuple values)

cdef inline int64_t operand(object x, Scalar *s, char **data, bint *narrow, bint *wide) except? -1:
    """The word of a contiguous living array or of a small scalar, and where its value is; 0 for anything else."""
    cdef ArrayBase a
    if type(x) is array_class:
        a = <ArrayBase>x
        if a.strides_or_none is not None or a.deleted:
            return 0
        narrow[0] = narrow[0] or FG_I8 <= a.code <= FG_I16 or FG_U8 <= a.code <= FG_U64
        data[0] = a.data
        return <int64_t><uintptr_t><PyObject *>a.aval
    if is_numpy(x):
        return numpy_operand(x, data)
    if is_numpy_scalar(x):
        data[0] = <char *>s
        return numpy_scalar_operand(x, s)
    if not read_scalar(x, s):
        return 0
    wide[0] = wide[0] or (type(x) is int and not 0 <= s.i64 < 128)
    data[0] = <char *>s
    return <int64_t><uintptr_t>Py_TYPE(x)

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
