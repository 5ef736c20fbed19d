from libc.stdint cimport int64_t


cdef class PrimitiveBase:
    cdef public str name, kind
    cdef public bint multiple_results
    cdef public bint constant            # its tangent is always zero
    cdef public object abstract_eval, jvp, transpose, batch, lower, impl, partial_eval, effects, dce, move, bind_eqn
    cdef public object opcode            # of an elementwise operation of the VM that is lowered as it is; None for all others
    cdef public object small_body        # of a call: (params) -> its jaxpr where that is a few plain operations, else None
    cdef list typed                      # avals of two operands (the second None: of one) and of the result, in turn: the last few
    cdef int64_t typed_for               # under these settings


cdef class TracerBase:
    cdef public object _trace, aval
    cdef object __weakref__


cdef object _array_class
cdef object process(trace, PrimitiveBase prim, args, dict params)
