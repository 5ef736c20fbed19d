cdef class Var:
    cdef public object aval


cdef class Literal:
    cdef readonly object val, aval


cdef class Eqn:
    cdef public object primitive, params, source
    cdef public list invars, outvars


cdef class Zero:
    cdef readonly object aval


cdef class Linear:
    cdef readonly object aval


cdef object _replaying                # the module's `replaying`
cdef object source_of_caller()
