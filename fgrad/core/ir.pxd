cdef class AvalBase:
    cdef readonly tuple shape
    cdef readonly object dtype, size
    cdef readonly bint weak_type
    cdef Py_hash_t hash
    cdef object __weakref__


cdef class Var:
    cdef public object aval


cdef class Literal:
    cdef readonly object val, aval


cdef class Eqn:
    cdef public object primitive, params, source
    cdef public list invars, outvars


cdef Var new_var(aval)
cdef Eqn new_eqn(primitive, list invars, list outvars, params, source, bint plain)


cdef class Zero:
    cdef readonly object aval


cdef class Linear:
    cdef readonly object aval


cdef object replayed_source()
cdef int set_replayed_source(source) except -1
cdef object source_of_caller()
