"""The inner loops of tracing: binding a primitive, staging an equation, pairing primals with tangents.

The classes here are bases of those that `primitive`, `trace`, `transforms.linearize` and `transforms.jvp` declare.
"""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t

import numpy as np

from fgrad._kernels.aval_dispatch import AvalDispatch
from fgrad.errors import NotDifferentiableError, UnexpectedTracerError

from fgrad._kernels.abi cimport fg_itemsize
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key, current_trace, is_eval, set_trace
from fgrad._kernels.operands cimport get_aval, is_scalar
from fgrad.core.ir cimport Eqn, Literal, Var, Zero, new_eqn, new_var, replayed_source, set_replayed_source, source_of_caller
from fgrad.core.recording cimport MOST_BYTES, Recording, inexact

cdef enum:
    TYPES_KEPT = 8                       # of a primitive
PLAIN_KINDS = ("kernel", "elementwise", "reduce", "view")        # primitives that call no functions of the user
cdef tuple _plain = PLAIN_KINDS

cdef object _abstract_eval = AvalDispatch(PLAIN_KINDS)
cdef object _apply = None
_array_class = None
cdef object _to_array = None
cdef object _leak_message = None
cdef object _stage_tracer = None         # the class whose instances a stage hands out
cdef object _jvp_tracer = None
cdef object _generic = np.generic
cdef object _ndarray = np.ndarray
cdef tuple _NOTHING = ()
cdef dict NO_PARAMS = {}                           # of all equations without parameters, which nobody changes


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


cdef class StageTracerBase(TracerBase):
    """A variable of a jaxpr under construction."""
    cdef public object _var, source      # not `var`: that is an array method


cdef class JVPTracerBase(TracerBase):
    """A primal and its tangent."""


cdef object new(object cls):
    """An instance of a subclass in Python of one of the tracers here, without a call of Python."""
    return (<PyTypeObject *>cls).tp_new(cls, <PyObject *>_NOTHING, NULL)


cdef class TraceBase:
    """An interpretation of primitives: `interpret` in Cython, `process_primitive` in Python."""

    cdef object interpret(self, PrimitiveBase prim, args, dict params):
        return self.process_primitive(prim, args, params)


cdef class PrimitiveBase:
    """What binds."""

    def bind(self, *args, **params):
        """Interpret this primitive on `args` in the current trace."""
        return process(current_trace(), self, args, params or NO_PARAMS)


cdef object process(trace, PrimitiveBase prim, args, dict params):
    if is_eval():
        return evaluate(prim, args, params)
    return (<TraceBase?>trace).interpret(prim, args, params)


cdef object process_in(trace, PrimitiveBase prim, args, dict params):
    """Interpret a primitive in another trace, which is the current one meanwhile."""
    before = current_trace()
    set_trace(trace)
    try:
        return process(trace, prim, args, params)
    finally:
        set_trace(before)


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

    cdef object interpret(self, PrimitiveBase prim, args, dict params):
        return evaluate(prim, args, params)

    def process_primitive(self, prim, args, dict params):
        return evaluate(prim, args, params)


cdef inline Literal new_literal(val, aval):
    """Literal(val, aval), without a call of Python."""
    cdef Literal out = Literal.__new__(Literal)
    out.val, out.aval = val, aval
    return out


cdef inline object aval_of(v):
    """The aval of a Var or Literal."""
    return (<Literal>v).aval if type(v) is Literal else (<Var>v).aval


cdef object new_type(PrimitiveBase prim, list atoms, dict params):
    """What abstract_eval says, which may have bound the primitive itself: no parameters are shared."""
    out = _abstract_eval(prim, atoms, params)
    prim.shared = None
    return out


cdef object result_type(PrimitiveBase prim, list atoms, dict params):
    """What abstract_eval says, looked up among the primitive's last few uses first."""
    cdef Py_ssize_t n = len(atoms), i
    cdef list typed
    if not 0 < n < 3:
        return new_type(prim, atoms, params)
    if prim.typed is None or prim.typed_for != config_key():
        if prim.kind not in _plain:
            return new_type(prim, atoms, params)
        prim.typed, prim.typed_for = [], config_key()
    typed = prim.typed
    a, b = aval_of(atoms[0]), aval_of(atoms[1]) if n == 2 else None
    for i in range(0, len(typed), 4):
        if typed[i] is a and typed[i + 1] is b and same_params(typed[i + 2], params):
            prim.shared = typed[i + 2] if params and identical(typed[i + 2], params) else None
            return typed[i + 3]
    out = new_type(prim, atoms, params)
    if len(typed) >= 4 * TYPES_KEPT:
        del typed[:4]
    typed += (a, b, params, out)
    return out


cdef bint same_params(dict known, dict params) except -1:
    """True if an equation's parameters equal those of one before; what cannot be compared does not."""
    if known is params or not (known or params):
        return True
    try:
        return known == params
    except Exception:
        return False


cdef bint identical(a, b) except -1:
    """True if two parameters, or dictionaries of them, cannot be told apart, as 1, 1.0 and True, or 0.0 and -0.0, can."""
    cdef Py_ssize_t i
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is int or kind is str:
        return a == b
    if kind is tuple:
        if len(<tuple>a) != len(<tuple>b):
            return False
        for i in range(len(<tuple>a)):
            if not identical((<tuple>a)[i], (<tuple>b)[i]):
                return False
        return True
    if kind is dict:
        if len(<dict>a) != len(<dict>b):
            return False
        for name, value in (<dict>a).items():
            if name not in <dict>b or not identical(value, (<dict>b)[name]):
                return False
        return True
    return False


cdef class StageBase(TraceBase):
    """Builds a jaxpr."""
    cdef public list eqns, consts, invars
    cdef public dict const_vars          # id(value) -> Var
    cdef public object name, parent
    cdef readonly bint keeps_arrays      # 0-d arrays become consts, not numbers in the equations

    def __init__(self, name="f", parent=None, fun=None, keeps_arrays=False):
        self.fun, self.keeps_arrays = fun, keeps_arrays
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
            return new_literal(x, get_aval(x))
        if isinstance(x, _generic):
            aval = get_aval(x)
            return new_literal(x if x.dtype is aval.dtype else np.asarray(x).astype(aval.dtype)[()], aval)
        if type(x) is _array_class and not x.aval.shape and not self.keeps_arrays and not isinstance(self, TangentBase):
            value = np.asarray(x)[()]                        # a number: the compiler may compute with it
            if x.aval.weak_type:                             # only Python's numbers are weak without an array
                value = value.item()
            if get_aval(value) == x.aval:
                return Literal(value, x.aval)
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
        cdef list invars, outvars, tracers
        cdef Var var
        if self.done:
            raise UnexpectedTracerError("a trace that has ended was used again: a tracer leaked out of its transformation")
        invars = [(<StageTracerBase>x)._var if self.owns(x) else self.atom(x) for x in args]
        out = result_type(prim, invars, params)
        if prim.shared is not None:          # equations that are alike keep one dictionary
            params = prim.shared
        source = source_of_caller()
        if not prim.multiple_results:
            var = new_var(out)
            self.eqns.append(new_eqn(prim, invars, [var], params, source, params is NO_PARAMS and prim.opcode is not None))
            return self.tracer(var, source)
        outvars, tracers = [], []
        for aval in out:
            var = new_var(aval)
            outvars.append(var)
            tracers.append(self.tracer(var, source))
        self.eqns.append(new_eqn(prim, invars, outvars, params, source, False))
        return tracers

    cdef object interpret(self, PrimitiveBase prim, args, dict params):
        return self.record(prim, args, params)

    def process_primitive(self, prim, args, dict params):
        return self.interpret(prim, args, params)


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

    cdef object interpret(self, PrimitiveBase prim, args, dict params):
        if self.unknown(args):
            if prim.partial_eval is not None:
                return prim.partial_eval(self, args, params)
            return self.record(prim, args, params)
        return process_in(self.parent, prim, args, params)

    def stage_eqn(self, prim, args, dict params):
        """Stage this equation whole."""
        return self.record(prim, args, params)


cdef class Lookup(TraceBase):
    """Gives what an equation that is expected has given before; binds all others in its parent."""
    cdef public object parent
    cdef object prim, params, out
    cdef list args

    def __init__(self, parent):
        self.parent = parent

    def expect(self, prim, list args, params, out):
        """prim.bind(*args, **params) gives `out`."""
        self.prim, self.args, self.params, self.out = prim, args, params, out

    def process_primitive(self, prim, args, dict params):
        cdef Py_ssize_t i
        if prim is self.prim and len(args) == len(self.args) and params == self.params:
            for i in range(len(self.args)):
                if args[i] is not self.args[i]:
                    break
            else:
                return self.out
        return process_in(self.parent, prim, args, params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        return self.parent.process_custom_jvp(prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)


cpdef bint may_refuse(PrimitiveBase prim, dict params) except -1:
    """True if the jvp of this operation may raise."""
    return prim.refuses is not None and prim.refuses(params)


cdef class JVPBase(TraceBase):
    """Pairs primals with tangents and applies each primitive's jvp rule.

    With a recording, primitives run and are written down, and nothing is differentiated until a tangent is asked for (`settle`).
    """

    def __init__(self, parent, fun=None):
        self.fun, self.parent = fun, parent

    cdef object tracer(self, primal, tangent):
        cdef JVPTracerBase out
        if type(tangent) is Zero:
            return primal
        out = new(_jvp_tracer)
        out._trace, out.primal, out.tangent, out.aval, out.number = self, primal, tangent, get_aval(primal), -1
        return out

    cdef object recorded(self, ArrayBase primal, Py_ssize_t number):
        """The tracer of a value of the recording."""
        cdef JVPTracerBase out = new(_jvp_tracer)
        out._trace, out.primal, out.aval, out.number = self, primal, primal.aval, number
        self.recording.tracers.append(out)
        return out

    def start_recording(self, list arrays):
        """The function's arguments: tracers of those that are floats or complex numbers, and the others as they are."""
        cdef ArrayBase x
        cdef Py_ssize_t i = 0
        cdef list out = []
        self.recording = Recording([x for x in arrays if inexact(x)])
        for x in arrays:
            if inexact(x):
                out.append(self.recorded(x, i))
                i += 1
            else:
                out.append(x)
        return out

    cdef bint owns(self, x):
        return type(x) is _jvp_tracer and (<JVPTracerBase>x)._trace is self

    def number(self, x):
        """The number of x in the recording; -1 if it has none."""
        return (<JVPTracerBase>x).number if self.owns(x) else -1

    cpdef bint owns_any(self, args):
        """True if one of `args` is a pair of this trace."""
        for x in args:
            if self.owns(x):
                return True
        return False

    def primals(self, args):
        """The arguments, without their tangents."""
        return [(<JVPTracerBase>x).primal if self.owns(x) else x for x in args]

    cdef list replay_body(self, closed, args):
        """A call's results, operation by operation."""
        cdef dict env = dict(zip(closed.jaxpr.constvars, closed.consts))
        cdef Eqn eqn
        env.update(zip(closed.jaxpr.invars, args))
        for eqn in closed.jaxpr.eqns:
            out = process(self, eqn.primitive, [(<Literal>v).val if type(v) is Literal else env[v] for v in eqn.invars], eqn.params)
            if eqn.primitive.multiple_results:
                env.update(zip(eqn.outvars, out))
            else:
                env[eqn.outvars[0]] = out
        return [(<Literal>v).val if type(v) is Literal else env[v] for v in closed.jaxpr.outvars]

    cdef object record(self, PrimitiveBase prim, args, dict params):
        """Run a primitive and write it down."""
        cdef list operands = []
        cdef bint mine = False
        for x in args:
            if self.owns(x):
                x = (<JVPTracerBase>x).primal
                mine = True
            elif type(x) is not _array_class and isinstance(x, _ndarray):
                x = _to_array(x)
            operands.append(x)
        before = current_trace()
        set_trace(None)                  # the default: to run
        try:
            out = evaluate(prim, operands, params)
        finally:
            set_trace(before)
        return self.write_down(prim, args, operands, params, out) if mine else out

    cpdef object write_down(self, PrimitiveBase prim, args, list operands, dict params, out):
        """Add a primitive that has run; its results, as values of the recording where they vary."""
        cdef Recording r = self.recording
        cdef list numbers = [], results, out_numbers = [], tracers = []
        cdef ArrayBase y
        cdef Py_ssize_t n
        cdef bint varies = False
        if prim.constant:
            return out
        results = out if prim.multiple_results else [out]
        for y in results:
            varies = varies or inexact(y)
        if not varies:
            return out
        if prim.jvp is None:
            raise NotDifferentiableError(f"Differentiation rule for '{prim.name}' not implemented")
        r.key.append(prim)
        r.key.append(len(operands))
        for x, value in zip(args, operands):
            if self.owns(x):
                n = (<JVPTracerBase>x).number
                r.key.append(n)
            else:
                n = r.number_of(value)
            numbers.append(n)
        if params:
            r.key.extend(params.items())
        for y in results:
            r.bytes += y.size * fg_itemsize(y.code)
            n = len(r.values)
            r.values.append(y)
            out_numbers.append(n)
            if inexact(y):
                tracers.append(self.recorded(y, n))
            else:
                r.known[id(y)] = n
                tracers.append(y)
        r.records.append((prim, operands, numbers, params, out_numbers))
        if r.bytes > MOST_BYTES:
            self.settle()
        return tracers if prim.multiple_results else tracers[0]

    def settle(self):
        """Differentiate what was recorded, and from now on each primitive as it comes."""
        raise NotImplementedError

    def wrap(self, primal, tangent):
        """The pair as a value of this trace; the primal alone where the tangent is Zero."""
        return self.tracer(primal, tangent)

    cdef bint split(self, args, list primals, list tangents) except -1:
        """Primals and tangents (None: zero) of the arguments; True if there is a tangent."""
        cdef bint nonzero = False
        if self.recording is not None:
            self.settle()
        for x in args:
            if self.owns(x):
                primals.append((<JVPTracerBase>x).primal)
                tangent = (<JVPTracerBase>x).tangent
                if type(tangent) is Zero:
                    tangents.append(None)
                else:
                    tangents.append(tangent)
                    nonzero = True
            else:
                primals.append(x)
                tangents.append(None)
        return nonzero

    def unzip(self, args):
        """(primals, tangents, whether there is a tangent); None stands for no tangent."""
        primals, tangents = [], []
        nonzero = self.split(args, primals, tangents)
        return primals, tangents, nonzero

    def process_primitive(self, prim, args, dict params):
        return self.interpret(prim, args, params)

    cdef object interpret(self, PrimitiveBase prim, args, dict params):
        cdef list primals = [], tangents = []
        cdef bint nonzero, replays
        cdef Py_ssize_t i
        if self.recording is not None:
            if prim.kind in _plain and prim.impl is None and prim.effects is None and not may_refuse(prim, params):
                return self.record(prim, args, params)
            if not self.owns_any(args):
                return process_in(self.parent, prim, args, params)
            if prim.small_body is not None and (body := prim.small_body(params)) is not None:
                return self.replay_body(body, args)
        nonzero = self.split(args, primals, tangents)
        before = current_trace()
        # the operation and its tangents stem from one line: the stack is walked once for all that is staged of them
        replays = nonzero and isinstance(self.parent, StageBase) and prim.kind in _plain and replayed_source() is None
        set_trace(self.parent)
        if replays:
            set_replayed_source(source_of_caller())
        try:
            if not nonzero:
                return process(self.parent, prim, primals, params)
            if prim.jvp is None:
                raise NotDifferentiableError(f"Differentiation rule for '{prim.name}' not implemented")
            for i in range(len(tangents)):
                if tangents[i] is None:
                    tangents[i] = Zero(get_aval(primals[i]).tangent_aval())
            out, tangent = prim.jvp(primals, tangents, **params) if params else prim.jvp(primals, tangents)
        finally:
            set_trace(before)
            if replays:
                set_replayed_source(None)
        if prim.multiple_results:
            return [self.tracer(o, t) for o, t in zip(out, tangent)]
        return self.tracer(out, tangent)
