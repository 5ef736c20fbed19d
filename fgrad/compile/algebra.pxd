from fgrad.compile.values cimport Value
from fgrad.core.ir cimport AvalBase

cdef tuple simplify(str op, list ins, AvalBase aval)
cpdef list made_by(Value v, str op)
