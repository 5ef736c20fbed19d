cdef class Var:
    cdef readonly object aval


cdef class Literal:
    cdef readonly object val, aval


cdef class Eqn:
    cdef readonly object primitive, params, source
    cdef readonly list invars, outvars


cdef class Zero:
    cdef readonly object aval


cdef class Linear:
    cdef readonly object aval


cdef object _replaying                # the module's `replaying`
cdef object source_of_caller()
