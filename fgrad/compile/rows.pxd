from fgrad.compile.fuse cimport Unit
from fgrad.compile.values cimport Node, Value


cdef class Rows:
    cdef Unit unit
    cdef object rows
    cdef Py_ssize_t depth
    cdef dict cuts
    cdef list made, sums


cdef Rows most_rows(Unit u)
cdef Value factor_of(Node n)
cdef Value table_of(Node n)
cdef Value positions_of(Node n)
