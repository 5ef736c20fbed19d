from fgrad.core.ir cimport AvalBase

cdef object distribute(ctx, str op, list ins, AvalBase aval)
