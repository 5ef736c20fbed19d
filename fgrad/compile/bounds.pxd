from fgrad.compile.values cimport Value
from fgrad.core.ir cimport AvalBase

cpdef tuple bounds(Value v)
cdef bint within(Value v, Value low, Value high) except -1
cpdef object compared(str op, Value a, Value b)
cpdef object only(str op, list ins, AvalBase aval)
