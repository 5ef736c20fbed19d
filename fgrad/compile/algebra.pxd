from fgrad.compile.values cimport Value

cpdef tuple simplify(str op, list ins, aval)
cpdef list made_by(Value v, str op)
