"""The inner loops of tracing: binding a primitive, staging an equation, pairing primals with tangents.

The classes here are bases of those that `primitive`, `trace`, `transforms.linearize` and `transforms.jvp` declare.
"""
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t

import numpy as np

from fgrad._kernels.array import CODES
from fgrad._kernels.dispatch import AvalDispatch
from fgrad.errors import NotDifferentiableError, ShapeError, UnexpectedTracerError

from fgrad._kernels.abi cimport FG_BF16, FG_BOOL, FG_F16, FG_F64
from fgrad._kernels.array cimport ArrayBase
from fgrad._kernels.context cimport config_key, current_trace, is_eval, set_trace
from fgrad._kernels.operands cimport get_aval, is_scalar
from fgrad.core.ir cimport Eqn, Literal, Var, Zero, source_of_caller
from fgrad.core.recording cimport MOST_BYTES, Recording, inexact

cdef enum:
    TYPES_KEPT = 8                       # of a primitive
cdef tuple _REAL = (float, int, bool)
PLAIN_KINDS = ("kernel", "elementwise", "reduce", "view")        # primitives that call no functions of the user
cdef tuple _plain = PLAIN_KINDS

cdef object _abstract_eval = AvalDispatch(PLAIN_KINDS)
cdef object _apply = None
cdef object _broadcast = None
cdef object _config = None
cdef object _array_class = None
cdef object _to_array = None
cdef object _leak_message = None
cdef object _stage_tracer = None         # the class whose instances a stage hands out
cdef object _jvp_tracer = None
cdef object _generic = np.generic
cdef dict _codes = CODES
cdef tuple _NOTHING = ()


def install(array_class, to_array, leak_message):
    """Hand over what lives in fgrad.core.array."""
    global _array_class, _to_array, _leak_message
    _array_class, _to_array, _leak_message = array_class, to_array, leak_message


def install_tracers(*, stage=None, jvp=None):
    """Hand over the classes of tracers: of StageTracerBase and of JVPTracerBase."""
    global _stage_tracer, _jvp_tracer
    _stage_tracer, _jvp_tracer = stage or _stage_tracer, jvp or _jvp_tracer


def install_broadcast(broadcast_in_dim, config):
    """Hand over the primitive that broadcasts, and the settings."""
    global _broadcast, _config
    _broadcast, _config = broadcast_in_dim, config


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
    cdef Py_ssize_t number               # of its primal among the values of the recording that it is part of; -1: none


cdef object new(object cls):
    """An instance of a subclass in Python of one of the tracers here, without a call of Python."""
    return (<PyTypeObject *>cls).tp_new(cls, <PyObject *>_NOTHING, NULL)


cdef class TraceBase:
    """An interpretation of primitives."""
    cdef public bint done
    cdef public object fun


cdef class PrimitiveBase:
    """What binds."""

    def bind(self, *args, **params):
        """Interpret this primitive on `args` in the current trace."""
        return process(current_trace(), self, args, params)


def unary_of(PrimitiveBase prim):
    """The function x -> prim.bind(x)."""

    def fun(x, /):
        return process(current_trace(), prim, (x,), {})

    return fun


def nary_of(PrimitiveBase prim, unify, spread):
    """The function that binds prim to its arguments; unify(name, args) gives them one dtype, spread(args) one shape or None."""

    def fun(*args):
        if not alike(args):
            args = tuple(unify(prim.name, args))
        try:
            return process(current_trace(), prim, args, {})
        except ShapeError:
            args = spread(args)
            if args is None:
                raise
        return process(current_trace(), prim, args, {})

    return fun


def jvp_of(PrimitiveBase prim, tuple rules, dict ops):
    """The jvp that sums one rule per argument, see ops.rules.jvp_by_args; ops has `add` and `broadcast_in_dim`."""

    def jvp(primals, tangents, **params):
        cdef Py_ssize_t i
        cdef tuple shape
        out = process(current_trace(), prim, tuple(primals), params)
        aval = get_aval(out)
        shape = aval.shape
        total = None
        for i in range(min(len(rules), len(tangents))):
            t = tangents[i]
            if type(t) is Zero:
                continue
            rule = rules[i]
            if rule is None:
                raise NotDifferentiableError(f"{prim.name} has no derivative in this argument")
            term = rule(t, out, *primals, **params)
            if get_aval(term).shape != shape:
                term = ops["broadcast_in_dim"](term, shape, ())
            total = term if total is None else ops["add"](total, term)
        return out, (Zero(aval.tangent_aval()) if total is None else total)

    return jvp


cpdef bint alike(tuple args):
    """True if all operands have one dtype."""
    cdef Py_ssize_t i
    dtype = get_aval(args[0]).dtype
    for i in range(1, len(args)):
        if get_aval(args[i]).dtype is not dtype:
            return False
    return True


cdef inline object aval_or_none(x):
    """The aval of an array or tracer."""
    if type(x) is _array_class:
        return (<ArrayBase>x).aval
    return (<TracerBase>x).aval if isinstance(x, TracerBase) else None


def is_array(x):
    """True for arrays and tracers."""
    return type(x) is _array_class or isinstance(x, TracerBase)


def paired(x, y, bint inexact=False):
    """(x, y) as an elementwise primitive takes them, where one look tells: arrays or tracers of one dtype, not bool (with `inexact`,
    not of integers), broadcast to one shape unless one has rank 0; or one of floats that are not weakly typed beside a real Python scalar. None else."""
    a, b = aval_or_none(x), aval_or_none(y)
    if a is None or b is None:
        aval, scalar = (b, x) if a is None else (a, y)
        if aval is None or aval.weak_type or type(scalar) not in _REAL:
            return None
        code = _codes.get(aval.dtype)
        if code is None or not FG_F16 <= <int>code <= FG_F64 or code == FG_BF16:
            return None
        scalar = aval.dtype.type(scalar)
        return (scalar, y) if a is None else (x, scalar)
    if a.dtype is not b.dtype:
        return None
    code = _codes.get(a.dtype)
    if code is None or code == FG_BOOL or (inexact and code < FG_F16):
        return None
    return (x, y) if a.shape == b.shape or not a.shape or not b.shape else broadcast_pair(x, y, a.shape, b.shape)


cdef object broadcast_pair(x, y, tuple a, tuple b):
    """x and y of shapes a and b, broadcast to one shape by NumPy's rules; None where they do not fit or a setting has its say."""
    cdef Py_ssize_t rank = max(len(a), len(b)), i
    cdef int64_t m, n
    cdef list shape = []
    if _broadcast is None or len(a) != len(b) and _config.numpy_rank_promotion != "allow":
        return None
    for i in range(-rank, 0):
        m = a[i + len(a)] if i + len(a) >= 0 else 1
        n = b[i + len(b)] if i + len(b) >= 0 else 1
        if m != n and m != 1 and n != 1:
            return None
        shape.append(n if m == 1 else m)
    return spread(x, a, tuple(shape)), spread(y, b, tuple(shape))


cdef object spread(x, tuple own, tuple shape):
    if own == shape:
        return x
    dims = tuple(range(len(shape) - len(own), len(shape)))
    return process(current_trace(), <PrimitiveBase>_broadcast, (x,), {"shape": shape, "broadcast_dimensions": dims})


def operator_of(PrimitiveBase prim, slow):
    """The method of tracers that binds prim to a pair of operands; slow(self, other) for what is not simply paired."""

    def operator(self, other):
        pair = paired(self, other)
        return slow(self, other) if pair is None else process(current_trace(), prim, pair, {})

    return operator


cdef object process(trace, PrimitiveBase prim, args, dict params):
    if is_eval():
        return evaluate(prim, args, params)
    return trace.process_primitive(prim, args, params)


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

    def process_primitive(self, prim, args, dict params):
        return evaluate(prim, args, params)


cdef inline object aval_of(v):
    """The aval of a Var or Literal."""
    return (<Literal>v).aval if type(v) is Literal else (<Var>v).aval


cdef object result_type(PrimitiveBase prim, list atoms, dict params):
    """What abstract_eval says; of primitives without parameters it is looked up among their last few uses first."""
    cdef Py_ssize_t n = len(atoms), i
    cdef list typed
    if params or not 0 < n < 3 or prim.kind not in _plain:
        return _abstract_eval(prim, atoms, params)
    if prim.typed is None or prim.typed_for != config_key():
        prim.typed, prim.typed_for = [], config_key()
    typed = prim.typed
    a, b = aval_of(atoms[0]), aval_of(atoms[1]) if n == 2 else None
    for i in range(0, len(typed), 3):
        if typed[i] is a and typed[i + 1] is b:
            return typed[i + 2]
    out = _abstract_eval(prim, atoms, params)
    if len(typed) >= 3 * TYPES_KEPT:
        del typed[:3]
    typed += (a, b, out)
    return out


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
        if isinstance(x, _generic):
            aval = get_aval(x)
            return Literal(x if x.dtype is aval.dtype else np.asarray(x).astype(aval.dtype)[()], aval)
        if type(x) is _array_class and not x.aval.shape and not isinstance(self, TangentBase):
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
        cdef list invars = [], outvars, tracers
        cdef Var var
        if self.done:
            raise UnexpectedTracerError("a trace that has ended was used again: a tracer leaked out of its transformation")
        for x in args:
            invars.append((<StageTracerBase>x)._var if self.owns(x) else self.atom(x))
        out = result_type(prim, invars, params)
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


cdef class JVPBase(TraceBase):
    """Pairs primals with tangents and applies each primitive's jvp rule.

    With a recording, primitives run and are written down, and nothing is differentiated until a tangent is asked for (`settle`).
    """
    cdef public object parent
    cdef public Recording recording

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
        self.recording = Recording([x for x in arrays if inexact(x.aval)])
        for x in arrays:
            if inexact(x.aval):
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
        cdef Recording r = self.recording
        cdef list operands = [], numbers = [], results, out_numbers = [], tracers = []
        cdef Py_ssize_t n
        cdef bint mine = False, varies = False
        for x in args:
            if self.owns(x):
                x = (<JVPTracerBase>x).primal
                mine = True
            elif isinstance(x, np.ndarray):
                x = _to_array(x)
            operands.append(x)
        before = current_trace()
        set_trace(None)                  # the default: to run
        try:
            out = evaluate(prim, operands, params)
        finally:
            set_trace(before)
        if not mine or prim.constant:
            return out
        results = out if prim.multiple_results else [out]
        for x in results:
            varies = varies or inexact(x.aval)
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
        for x in results:
            r.bytes += x.aval.size * x.aval.dtype.itemsize
            n = len(r.values)
            r.values.append(x)
            out_numbers.append(n)
            if inexact(x.aval):
                tracers.append(self.recorded(x, n))
            else:
                r.known[id(x)] = n
                tracers.append(x)
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
        cdef list primals = [], tangents = []
        cdef bint nonzero
        cdef Py_ssize_t i
        if self.recording is not None:
            if (<PrimitiveBase>prim).kind in _plain and (<PrimitiveBase>prim).impl is None and (<PrimitiveBase>prim).effects is None:
                return self.record(prim, args, params)
            if not self.owns_any(args):
                return process_in(self.parent, prim, args, params)
            if (<PrimitiveBase>prim).small_body is not None and (body := prim.small_body(params)) is not None:
                return self.replay_body(body, args)
        nonzero = self.split(args, primals, tangents)
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
            out, tangent = (<PrimitiveBase>prim).jvp(primals, tangents, **params)
        finally:
            set_trace(before)
        if (<PrimitiveBase>prim).multiple_results:
            return [self.tracer(o, t) for o, t in zip(out, tangent)]
        return self.tracer(out, tangent)
