cpdef object distribute(ctx, str op, list ins, aval)
