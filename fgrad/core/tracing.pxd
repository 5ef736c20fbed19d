from libc.stdint cimport int64_t

from fgrad._kernels.array cimport ArrayBase
from fgrad.core.recording cimport Recording


cdef class PrimitiveBase:
    cdef public str name, kind
    cdef public bint multiple_results
    cdef public bint constant            # its tangent is always zero
    cdef public object refuses           # (params) -> whether its jvp may raise, which a recording must not put off; None: it never does
    cdef public object abstract_eval, jvp, transpose, batch, lower, impl, partial_eval, effects, dce, move, bind_eqn
    cdef public object opcode            # of an elementwise operation of the VM that is lowered as it is; None for all others
    cdef public object small_body        # of a call: (params) -> its jaxpr where that is a few plain operations, else None
    cdef list typed                      # avals of two operands (the second None: of one) and of the result, in turn: the last few
    cdef int64_t typed_for               # under these settings
    cdef dict shared                     # parameters of an earlier equation that are those of the one that is being written down


cdef class TracerBase:
    cdef public object _trace, aval
    cdef object __weakref__


cdef class JVPTracerBase(TracerBase):
    cdef public object primal, tangent
    cdef Py_ssize_t number               # of its primal among the values of the recording that it is part of; -1: none


cdef class TraceBase:
    cdef public bint done
    cdef public object fun
    cdef object __weakref__              # for states of tracing

    cdef object interpret(self, PrimitiveBase prim, args, dict params)


cdef class JVPBase(TraceBase):
    cdef public object parent
    cdef public Recording recording

    cdef object tracer(self, primal, tangent)
    cdef object recorded(self, ArrayBase primal, Py_ssize_t number)
    cdef bint owns(self, x)
    cpdef bint owns_any(self, args)
    cdef list replay_body(self, closed, args)
    cdef object record(self, PrimitiveBase prim, args, dict params)
    cpdef object write_down(self, PrimitiveBase prim, args, list operands, dict params, out)
    cdef bint split(self, args, list primals, list tangents) except -1


cdef object _array_class
cdef dict NO_PARAMS
cdef object process(trace, PrimitiveBase prim, args, dict params)
