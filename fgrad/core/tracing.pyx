"""The inner loops of tracing: binding a primitive, staging an equation, pairing primals with tangents.

The classes here are bases of those that `primitive`, `trace`, `transforms.linearize` and `transforms.jvp` declare.
"""
from cpython.object cimport PyObject, PyTypeObject

import numpy as np

from fgrad._kernels.dispatch import AvalDispatch
from fgrad.errors import NotDifferentiableError, UnexpectedTracerError

from fgrad._kernels.context cimport current_trace, is_eval, set_trace
from fgrad._kernels.operands cimport get_aval, is_scalar
from fgrad.core.ir cimport Eqn, Literal, Var, Zero, source_of_caller

PLAIN_KINDS = ("kernel", "elementwise", "reduce", "view")        # primitives that call no functions of the user

cdef object _abstract_eval = AvalDispatch(PLAIN_KINDS)
cdef object _apply = None
cdef object _array_class = None
cdef object _to_array = None
cdef object _leak_message = None
cdef object _stage_tracer = None         # the class whose instances a stage hands out
cdef object _jvp_tracer = None
cdef tuple _NOTHING = ()


def install(array_class, to_array, leak_message):
    """Hand over what lives in fgrad.core.array."""
    global _array_class, _to_array, _leak_message
    _array_class, _to_array, _leak_message = array_class, to_array, leak_message


def install_tracers(*, stage=None, jvp=None):
    """Hand over the classes of tracers: of StageTracerBase and of JVPTracerBase."""
    global _stage_tracer, _jvp_tracer
    _stage_tracer, _jvp_tracer = stage or _stage_tracer, jvp or _jvp_tracer


def set_apply(fun):
    """Set how one primitive runs on concrete arguments: fgrad.compile.eager does."""
    global _apply
    _apply = fun


cdef class TracerBase:
    """What every tracer has."""
    cdef public object _trace, aval
    cdef object __weakref__


cdef class StageTracerBase(TracerBase):
    """A variable of a jaxpr under construction."""
    cdef public object _var, source      # not `var`: that is an array method


cdef class JVPTracerBase(TracerBase):
    """A primal and its tangent."""
    cdef public object primal, tangent


cdef object new(object cls):
    """An instance of a subclass in Python of one of the tracers here, without a call of Python."""
    return (<PyTypeObject *>cls).tp_new(cls, <PyObject *>_NOTHING, NULL)


cdef class TraceBase:
    """An interpretation of primitives."""
    cdef public bint done
    cdef public object fun


cdef class PrimitiveBase:
    """What binds."""
    cdef public str name, kind
    cdef public bint multiple_results
    cdef public object abstract_eval, jvp, impl, partial_eval

    def bind(self, *args, **params):
        """Interpret this primitive on `args` in the current trace."""
        return process(current_trace(), self, args, params)


cdef object process(trace, PrimitiveBase prim, args, dict params):
    if is_eval():
        return evaluate(prim, args, params)
    return trace.process_primitive(prim, args, params)


cdef object evaluate(PrimitiveBase prim, args, dict params):
    """Run one primitive on concrete arguments."""
    if prim.impl is None:
        return _apply(prim, args, params)
    for x in args:
        if isinstance(x, TracerBase):
            raise UnexpectedTracerError(_leak_message(x))
    return prim.impl(*args, **params)


cdef class EvalBase(TraceBase):
    """The bottom: run it."""

    def process_primitive(self, prim, args, dict params):
        return evaluate(prim, args, params)


cdef class StageBase(TraceBase):
    """Builds a jaxpr."""
    cdef public list eqns, consts, invars
    cdef public dict const_vars          # id(value) -> Var
    cdef public object name, parent

    def __init__(self, name="f", parent=None, fun=None):
        self.fun = fun
        self.eqns, self.const_vars, self.invars = [], {}, []
        self.consts = []                 # keeps the values, so that ids stay theirs
        self.name, self.parent = name, parent

    cpdef object tracer(self, Var var, source):
        """What stands for a variable in the traced function."""
        cdef StageTracerBase out = new(_stage_tracer)
        out._trace, out._var, out.aval, out.source = self, var, var.aval, source
        return out

    cpdef object new_arg(self, aval):
        """The tracer of a new argument."""
        var = Var(aval)
        self.invars.append(var)
        return self.tracer(var, None)

    cdef inline bint owns(self, x):
        return type(x) is _stage_tracer and (<StageTracerBase>x)._trace is self

    cpdef object atom(self, x):
        """The Var or Literal that stands for x in this jaxpr."""
        if self.owns(x):
            return (<StageTracerBase>x)._var
        if is_scalar(type(x)):
            return Literal(x, get_aval(x))
        if isinstance(x, np.generic):
            aval = get_aval(x)
            return Literal(x if x.dtype is aval.dtype else np.asarray(x).astype(aval.dtype)[()], aval)
        var = self.const_vars.get(id(x))
        if var is None:
            if isinstance(x, TracerBase):
                if x._trace.done:
                    raise UnexpectedTracerError(_leak_message(x))
                value = x
            else:
                value = _to_array(x)
            self.const_vars[id(x)] = var = Var(value.aval)
            self.consts.append((var, value, x))
        return var

    cdef object record(self, PrimitiveBase prim, args, dict params):
        """Append an equation; returns its results."""
        cdef list invars = [], outvars, tracers
        cdef Var var
        if self.done:
            raise UnexpectedTracerError("a trace that has ended was used again: a tracer leaked out of its transformation")
        for x in args:
            invars.append((<StageTracerBase>x)._var if self.owns(x) else self.atom(x))
        out = _abstract_eval(prim, invars, params)
        source = source_of_caller()
        if not prim.multiple_results:
            var = Var(out)
            self.eqns.append(Eqn(prim, invars, [var], params, source))
            return self.tracer(var, source)
        outvars, tracers = [], []
        for aval in out:
            var = Var(aval)
            outvars.append(var)
            tracers.append(self.tracer(var, source))
        self.eqns.append(Eqn(prim, invars, outvars, params, source))
        return tracers

    def process_primitive(self, prim, args, dict params):
        return self.record(prim, args, params)


cdef class TangentBase(StageBase):
    """Stages equations with an unknown input; others run in the parent. Parent values used inside become residuals."""

    cpdef bint is_unknown(self, x):
        """True if x depends on an unknown input."""
        return self.owns(x)

    cpdef bint unknown(self, args):
        """True if one of `args` depends on an unknown input."""
        for x in args:
            if self.owns(x):
                return True
        return False

    def process_primitive(self, prim, args, dict params):
        if self.unknown(args):
            if (<PrimitiveBase>prim).partial_eval is not None:
                return prim.partial_eval(self, args, params)
            return self.record(prim, args, params)
        before = current_trace()
        set_trace(self.parent)
        try:
            return process(self.parent, prim, args, params)
        finally:
            set_trace(before)

    def stage_eqn(self, prim, args, dict params):
        """Stage this equation whole."""
        return self.record(prim, args, params)


cdef class JVPBase(TraceBase):
    """Pairs primals with tangents and applies each primitive's jvp rule."""
    cdef public object parent

    def __init__(self, parent, fun=None):
        self.fun, self.parent = fun, parent

    cdef object tracer(self, primal, tangent):
        cdef JVPTracerBase out
        if type(tangent) is Zero:
            return primal
        out = new(_jvp_tracer)
        out._trace, out.primal, out.tangent, out.aval = self, primal, tangent, get_aval(primal)
        return out

    def wrap(self, primal, tangent):
        """The pair as a value of this trace; the primal alone where the tangent is Zero."""
        return self.tracer(primal, tangent)

    cdef bint split(self, args, list primals, list tangents) except -1:
        """Primals and tangents (None: not of this trace) of the arguments; True if there is a tangent."""
        cdef bint nonzero = False
        for x in args:
            if type(x) is _jvp_tracer and (<JVPTracerBase>x)._trace is self:
                primals.append((<JVPTracerBase>x).primal)
                tangents.append((<JVPTracerBase>x).tangent)
                nonzero = True
            else:
                primals.append(x)
                tangents.append(None)
        return nonzero

    def unzip(self, args):
        """(primals, tangents, whether there is a tangent): None stands for that of a value of other traces."""
        primals, tangents = [], []
        nonzero = self.split(args, primals, tangents)
        return primals, tangents, nonzero

    def process_primitive(self, prim, args, dict params):
        cdef list primals = [], tangents = []
        cdef bint nonzero = self.split(args, primals, tangents)
        cdef Py_ssize_t i
        before = current_trace()
        set_trace(self.parent)
        try:
            if not nonzero:
                return process(self.parent, prim, primals, params)
            if (<PrimitiveBase>prim).jvp is None:
                raise NotDifferentiableError(f"Differentiation rule for '{prim.name}' not implemented")
            for i in range(len(tangents)):
                if tangents[i] is None:
                    tangents[i] = Zero(get_aval(primals[i]).tangent_aval())
            out, tangent = prim.jvp(primals, tangents, **params)
        finally:
            set_trace(before)
        if (<PrimitiveBase>prim).multiple_results:
            return [self.tracer(o, t) for o, t in zip(out, tangent)]
        return self.tracer(out, tangent)
