"""Tracing.  The current trace in the context interprets each bind; tracers are the values it hands out."""

import gc

from fgrad.config import config
from fgrad.core.array import Array, get_aval, leak_message, to_array
from fgrad.core.aval import HasAval
from fgrad.core.context import context, using_trace
from fgrad.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, function_text, replaying, source_inside, source_text
from fgrad.core.tracing import EvalBase, StageBase, StageTracerBase, TraceBase, TracerBase, install, install_tracers, set_apply
from fgrad.errors import (
    ConcretizationTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)

install(Array, to_array, leak_message)


class Trace(TraceBase):
    """An interpretation of primitives.  `done` marks traces whose tracers have leaked if they are met again; `fun` is the function
    that is traced, for messages."""

    __slots__ = ()

    def __init__(self, fun=None):
        self.fun = fun

    @property
    def main(self):
        """What its tracers share, which JAX's libraries compare: the trace itself."""
        return self

    def process_primitive(self, prim, args, params):
        raise NotImplementedError

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        """fun(*args) with the derivative jvp(primals, tangents); the default forgets the rule."""
        return fun(*args)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        return fun(*args)

    def full_raise(self, x):
        """x: what JAX's traces were asked for before each use of a value, and libraries still do."""
        return x


_ABSTRACT = "Abstract tracer value encountered where concrete value is expected"


class Tracer(HasAval, TracerBase):
    """A value under transformation.  Behaves as an Array does wherever no concrete value is needed."""

    __slots__ = ()
    _stands_for_array = True
    _is_concrete = False
    __array_priority__ = 1000

    @property
    def size(self):
        return self.aval.size

    def block_until_ready(self):
        return self

    def _concrete(self):
        """The concrete value behind this tracer, or None."""
        return None

    def _describe(self):
        return f"traced array with shape {self.aval.short()}"

    def _need(self, error, what, hint):
        value = self._concrete()
        if value is None:
            if self._trace.done:
                raise UnexpectedTracerError(leak_message(self))
            raise error(f"{what} {self._describe()}{self._origin()}. {hint}")
        return value

    def _origin(self):
        return f", made while tracing {function_text(self._trace.fun)}" if self._trace.fun else ""

    def __bool__(self):
        return bool(
            self._need(
                TracerBoolConversionError,
                "Attempted boolean conversion of",
                "Its value is not known while tracing: use jnp.where, lax.cond or lax.while_loop, "
                "or mark the argument it comes from as static with jit(..., static_argnums=...).",
            )
        )

    _STATIC = "Its value is not known while tracing: mark the argument it comes from as static (static_argnums), or keep it an array."

    def __float__(self):
        return float(self._need(ConcretizationTypeError, f"{_ABSTRACT} (conversion to float):", self._STATIC))

    def __int__(self):
        return int(self._need(ConcretizationTypeError, f"{_ABSTRACT} (conversion to int):", self._STATIC))

    def __complex__(self):
        return complex(self._need(ConcretizationTypeError, f"{_ABSTRACT} (conversion to complex):", self._STATIC))

    def __index__(self):
        return self._need(TracerIntegerConversionError, "The __index__() method was called on", self._STATIC).__index__()

    def __array__(self, *args, **kw):
        raise TracerArrayConversionError(
            f"The numpy.ndarray conversion method __array__() was called on {self._describe()}{self._origin()}. "
            "Use fgrad.numpy functions in traced code, or pure_callback to call NumPy at run time."
        )

    def __dlpack__(self, *args, **kw):
        raise ConcretizationTypeError(f"DLPack export of a {self._describe()}. {self._STATIC}")

    def item(self, *args):
        return self._need(ConcretizationTypeError, f"{_ABSTRACT} (item()):", self._STATIC).item(*args)

    def tolist(self):
        return self._need(ConcretizationTypeError, f"{_ABSTRACT} (tolist()):", self._STATIC).tolist()

    def tobytes(self, order="C"):
        return self._need(ConcretizationTypeError, f"{_ABSTRACT} (tobytes()):", self._STATIC).tobytes(order)

    def devices(self):
        return self._need(ConcretizationTypeError, f"{_ABSTRACT} (devices()):", "Ask an array outside of the traced function.").devices()

    def unsafe_buffer_pointer(self):
        return self._need(ConcretizationTypeError, f"{_ABSTRACT} (unsafe_buffer_pointer()):", self._STATIC).unsafe_buffer_pointer()

    def __len__(self):
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return self.aval.shape[0]

    __hash__ = None  # type: ignore[assignment]  # isinstance(x, Hashable) is False, as of every array

    def __repr__(self):
        return f"{type(self).__name__}<{self.aval}>"

    def __format__(self, spec):
        return repr(self)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self


# --- evaluation ---------------------------------------------------------------------------------------------------


class EvalTrace(EvalBase, Trace):
    """The bottom: run it."""

    __slots__ = ()


eval_trace = EvalTrace()
context.set_default(eval_trace)


# --- staging ------------------------------------------------------------------------------------------------------


class StageTracer(Tracer, StageTracerBase):
    __slots__ = ()

    def _origin(self):
        fun = self._trace.fun
        if self.source is not None:
            return f", computed at {source_text(self.source)}"
        if fun is None:
            return f", an argument of {self._trace.name!r}"
        paths = getattr(fun, "arg_paths", None)
        which = paths()[self._trace.invars.index(self._var)] if paths and self._var in self._trace.invars else "an argument"
        return f", {which} of {function_text(fun)}"


install_tracers(stage=StageTracer)


class StageTrace(StageBase, Trace):
    """Builds a jaxpr."""

    __slots__ = ()

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        closed = stage(fun, [get_aval(x) for x in args], name=params.get("name", "custom_jvp"))
        consts, jaxpr = convert_constvars(closed)
        return self.process_primitive(prim, (*consts, *args), dict(call_jaxpr=jaxpr, jvp=jvp, num_consts=len(consts), **params))

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        closed = stage(fun, [get_aval(x) for x in args], name=params.get("name", "custom_vjp"))
        consts, jaxpr = convert_constvars(closed)
        return self.process_primitive(prim, (*consts, *args), dict(call_jaxpr=jaxpr, fwd=fwd, bwd=bwd, num_consts=len(consts), **params))

    def to_jaxpr(self, outs) -> ClosedJaxpr:
        outvars = [self.atom(x) for x in outs]
        jaxpr = Jaxpr([v for v, _, _ in self.consts], self.invars, outvars, self.eqns, debug_name=self.name)
        return ClosedJaxpr(jaxpr, [c for _, c, _ in self.consts])


def stage(fun, in_avals, name="f", keeps_arrays=False) -> ClosedJaxpr:
    """Trace a flat function (leaves in, list of leaves out) to a jaxpr.

    Values of outer traces that `fun` closes over become consts (they may be tracers of those traces). keeps_arrays: so do 0-d arrays,
    which are else numbers that the compiler may compute with.
    """
    trace = StageTrace(name, fun=fun, keeps_arrays=keeps_arrays)
    args = [trace.new_arg(a) for a in in_avals]
    try:
        with using_trace(trace):
            closed = trace.to_jaxpr(fun(*args))
    finally:
        trace.done = True
    if config.check_tracer_leaks:
        del args
        _check_leaks(trace)
    return closed


def _check_leaks(trace):
    """Raise UnexpectedTracerError if somebody still holds a tracer of a staging that has ended."""
    gc.collect()
    for x in gc.get_objects():
        if type(x) is StageTracer and x._trace is trace:
            raise UnexpectedTracerError(f"Leaked tracer of {function_text(trace.fun)}. {leak_message(x)}")


def convert_constvars(closed):
    """(consts, a ClosedJaxpr without consts that takes them as its first arguments)."""
    jaxpr = closed.jaxpr
    if not closed.consts:
        return [], closed
    return closed.consts, ClosedJaxpr(jaxpr.replace(constvars=[], invars=jaxpr.constvars + jaxpr.invars), [])


def eval_jaxpr(jaxpr, consts, *args, propagate_source_info=True):
    """Interpret a jaxpr under the current trace; returns the list of outputs.

    propagate_source_info: equations that are traced again keep the source lines of the ones that they come from.
    """
    env = dict(zip(jaxpr.constvars, consts))
    if len(jaxpr.invars) != len(args):
        raise TypeError(f"jaxpr {jaxpr.debug_name!r} takes {len(jaxpr.invars)} arguments, got {len(args)}")
    env.update(zip(jaxpr.invars, args))
    last_use = last_uses(jaxpr)
    before = replaying.source
    try:
        for i, eqn in enumerate(jaxpr.eqns):
            prim = eqn.primitive
            if propagate_source_info:
                replaying.source = source_inside(eqn)
            out = prim.bind_eqn(eqn, [v.val if type(v) is Literal else env[v] for v in eqn.invars])
            if prim.multiple_results:
                env.update(zip(eqn.outvars, out))
            else:
                env[eqn.outvars[0]] = out
            for v in last_use.get(i, ()):
                del env[v]
    finally:
        replaying.source = before
    return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]


def last_uses(jaxpr):
    """{equation index: variables that are dead after it}."""
    seen, out = set(v for v in jaxpr.outvars if type(v) is not Literal), {}
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        eqn = jaxpr.eqns[i]
        for v in (*eqn.outvars, *eqn.invars):
            if type(v) is not Literal and v not in seen:
                seen.add(v)
                out.setdefault(i, []).append(v)
    return out


def closed_as_fun(closed):
    """The flat function that a ClosedJaxpr is."""

    def fun(*args):
        return eval_jaxpr(closed.jaxpr, closed.consts, *args)

    return fun


def is_tracer(x):
    return isinstance(x, Tracer)


def concrete_or_none(x):
    """The concrete value of x (seeing through jvp tracers), or None while it is abstract."""
    if isinstance(x, Tracer):
        return x._concrete()
    return x


class ConstantTrace(Trace):
    """Runs what has no tracer among its operands; the trace around it interprets the rest."""

    __slots__ = ("parent",)

    def __init__(self, parent):
        super().__init__()
        self.parent = parent

    def _entered(self, args):
        return using_trace(self.parent if any(map(is_tracer, args)) else eval_trace)

    def process_primitive(self, prim, args, params):
        with self._entered(args) as trace:
            return trace.process_primitive(prim, args, params)

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        with self._entered(args) as trace:
            return trace.process_custom_jvp(prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        with self._entered(args) as trace:
            return trace.process_custom_vjp(prim, fun, fwd, bwd, args, params)


def ensure_compile_time_eval():
    """A context in which operations on concrete values run at once, even while tracing; those on traced values are traced as ever."""
    return using_trace(eval_trace if context.trace is eval_trace else ConstantTrace(context.trace))


__all__ = [
    "ensure_compile_time_eval",
    "Array",
    "EvalTrace",
    "StageTrace",
    "StageTracer",
    "Trace",
    "Tracer",
    "closed_as_fun",
    "concrete_or_none",
    "convert_constvars",
    "eval_jaxpr",
    "eval_trace",
    "is_tracer",
    "last_uses",
    "set_apply",
    "stage",
]
