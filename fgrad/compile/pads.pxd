from fgrad.compile.values cimport Value
from fgrad.core.ir cimport AvalBase

cdef object padded_alike(Value x, Value y)
cdef Value side_by_side(ctx, Value x, Value y, AvalBase aval)
