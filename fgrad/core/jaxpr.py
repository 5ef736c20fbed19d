"""The IR: a Jaxpr is a list of typed equations in A-normal form."""

import inspect

from fgrad.core.ir import DropVar, Eqn, Literal, Var, replaying
from fgrad.core.tracing import PLAIN_KINDS


class Jaxpr:
    """invars and constvars in, outvars out. `effects` names what forbids removing or reordering (callbacks, prints)."""

    __slots__ = ("constvars", "invars", "outvars", "eqns", "effects", "debug_name")

    def __init__(self, constvars, invars, outvars, eqns, debug_name="f"):
        self.constvars, self.invars, self.outvars, self.eqns = list(constvars), list(invars), list(outvars), list(eqns)
        self.debug_name = debug_name
        self.effects = frozenset().union(*[e.primitive.effects(e.params) for e in self.eqns if e.primitive.effects is not None])

    @property
    def in_avals(self):
        return [v.aval for v in self.invars]

    @property
    def out_avals(self):
        return [v.aval for v in self.outvars]

    def replace(self, **kw):
        args = {k: kw.get(k, getattr(self, k)) for k in ("constvars", "invars", "outvars", "eqns", "debug_name")}
        return Jaxpr(**args)


class ClosedJaxpr:
    """A Jaxpr with the values of its constvars. `cache` keeps what has been derived from it (its jvp, its program...)."""

    __slots__ = ("jaxpr", "consts", "cache", "__weakref__")

    def __init__(self, jaxpr, consts):
        if len(jaxpr.constvars) != len(consts):
            raise ValueError(f"{len(jaxpr.constvars)} constvars, {len(consts)} consts")
        self.jaxpr, self.consts, self.cache = jaxpr, list(consts), {}

    @property
    def in_avals(self):
        return self.jaxpr.in_avals

    @property
    def out_avals(self):
        return self.jaxpr.out_avals

    @property
    def eqns(self):
        return self.jaxpr.eqns

    @property
    def effects(self):
        return self.jaxpr.effects


def source_inside(eqn):
    """What `replaying.source` is while this equation is interpreted: user functions that it may call have lines of their own."""
    return eqn.source if eqn.primitive.kind in PLAIN_KINDS else None


def source_text(source):
    return f"{source[0]}:{source[1]} ({source[2]})" if source else "an unknown line"


def function_text(fun):
    """A function's name and where it was defined, for messages."""
    fun = inspect.unwrap(fun)
    name, code = getattr(fun, "__name__", type(fun).__name__), getattr(fun, "__code__", None)
    return f"{name!r} ({code.co_filename}:{code.co_firstlineno})" if code else repr(name)


def sub_jaxprs(params):
    """The jaxprs that an equation's parameters hold."""
    for v in params.values():
        if isinstance(v, ClosedJaxpr):
            yield v.jaxpr
        elif isinstance(v, Jaxpr):
            yield v
        elif isinstance(v, (tuple, list)):
            for w in v:
                if isinstance(w, ClosedJaxpr):
                    yield w.jaxpr
                elif isinstance(w, Jaxpr):
                    yield w


__all__ = [
    "PLAIN_KINDS",
    "ClosedJaxpr",
    "DropVar",
    "Eqn",
    "Jaxpr",
    "Literal",
    "Var",
    "function_text",
    "replaying",
    "source_inside",
    "source_text",
    "sub_jaxprs",
]
