"""The IR: a Jaxpr is a list of typed equations in A-normal form."""

import functools
import inspect
from types import FunctionType
from typing import NamedTuple

from fgrad.config import config
from fgrad.core.ir import DropVar, Eqn, Literal, Var, replaying
from fgrad.core.tracing import PLAIN_KINDS

Atom = Var | Literal


class DebugInfo(NamedTuple):
    """Of a traced function: which transformation, its name and line, the names of its arguments' leaves and of its results'."""

    traced_for: str
    func_src_info: str
    arg_names: tuple | None
    result_paths: tuple | None = None


class Jaxpr:
    """invars and constvars in, outvars out. `effects` names what forbids removing or reordering (callbacks, prints).

    JAX's arguments: the effects are those of the equations, whatever is given; of debug_info the function's name is kept.
    """

    __slots__ = ("constvars", "invars", "outvars", "eqns", "_effects", "debug_name")

    def __init__(self, constvars, invars, outvars, eqns, effects=None, debug_info=None, *, debug_name="f"):
        self.constvars, self.invars, self.outvars, self.eqns = list(constvars), list(invars), list(outvars), list(eqns)
        self.debug_name = debug_name if debug_info is None else debug_info.func_src_info.partition(" ")[0]
        self._effects = None

    @property
    def effects(self):
        if self._effects is None:
            self._effects = frozenset().union(*[e.primitive.effects(e.params) for e in self.eqns if e.primitive.effects is not None])
        return self._effects

    @property
    def debug_info(self):
        return DebugInfo("jit", self.debug_name, None)

    @property
    def in_avals(self):
        return [v.aval for v in self.invars]

    @property
    def out_avals(self):
        return [v.aval for v in self.outvars]

    def replace(self, **kw):
        args = {k: kw.get(k, getattr(self, k)) for k in ("constvars", "invars", "outvars", "eqns", "debug_name")}
        return Jaxpr(**args, debug_info=kw.get("debug_info"))

    def pretty_print(self, **kwargs):
        """Its text, as print shows it."""
        return str(self)


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

    constvars = property(lambda self: self.jaxpr.constvars)
    invars = property(lambda self: self.jaxpr.invars)
    outvars = property(lambda self: self.jaxpr.outvars)
    literals = property(lambda self: self.consts)

    def map_jaxpr(self, f):
        """f(jaxpr) with the same constants."""
        return ClosedJaxpr(f(self.jaxpr), self.consts)

    def replace(self, *, jaxpr=None, consts=None):
        """With another jaxpr or other constants."""
        return ClosedJaxpr(self.jaxpr if jaxpr is None else jaxpr, self.consts if consts is None else consts)

    def pretty_print(self, **kwargs):
        """Its text, as print shows it."""
        return str(self)


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


def wraps(fun):
    """functools.wraps for any callable: what a function cannot take, as the names of a module with a field `__name__`, is left out."""
    if type(fun) is FunctionType:  # without its loops: transformations are often applied anew at each call
        return functools.partial(_named_as, fun)
    return functools.wraps(
        fun, assigned=[n for n in functools.WRAPPER_ASSIGNMENTS if isinstance(getattr(fun, n, None), _TAKEN.get(n, object))]
    )


_TAKEN = {"__name__": str, "__qualname__": str, "__annotations__": dict}


def _named_as(fun, wrapper):
    for name in functools.WRAPPER_ASSIGNMENTS:
        setattr(wrapper, name, getattr(fun, name))
    if fun.__dict__:
        wrapper.__dict__.update(fun.__dict__)
    wrapper.__wrapped__ = fun
    return wrapper


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


def structure(jaxpr, sources=False):
    """What makes two jaxprs compute the same, as a list to make a key of; avals stand by their addresses.

    sources: the lines of the program that the equations come from count too.
    """
    number, out = {}, [len(jaxpr.constvars), len(jaxpr.invars)]
    for v in (*jaxpr.constvars, *jaxpr.invars):
        number[v] = len(number)
        out.append(id(v.aval))
    for e in jaxpr.eqns:
        out.append(e.primitive)
        for v in e.invars:
            out.append(_literal(v) if type(v) is Literal else number[v])
        if e.params:
            out += (tuple(e.params), tuple([repr(v) if type(v) is float else v for v in e.params.values()]))
        if sources:
            out.append(e.source)
        for v in e.outvars:
            number[v] = len(number)
            out.append(id(v.aval))
    out += [_literal(v) if type(v) is Literal else number[v] for v in jaxpr.outvars]
    return out


def _literal(v):
    return (id(v.aval), repr(v.val))


_LIMIT = 256
_interned: dict = {}  # structure -> the ClosedJaxpr that stands for all equal ones


def interned(closed):
    """An equal jaxpr without consts that was here before, with what its cache has; else this one.

    Loops outside of jit are staged at each call: their bodies become one object again, and what was compiled for it is found.
    """
    if not _is_data(closed):
        return closed
    try:
        key = (config.key(), closed.jaxpr.debug_name, *structure(closed.jaxpr, sources=True))
        found = _interned.get(key)
    except TypeError:  # a parameter without a hash
        return closed
    if found is None:
        if len(_interned) >= _LIMIT:
            _interned.clear()
        found = _interned[key] = closed
    return found


def _is_data(closed):
    """Whether a jaxpr holds no arrays and no functions, which must not be kept alive."""
    known = closed.cache.get("data")
    if known is None:
        values = [v for e in closed.jaxpr.eqns for v in e.params.values()]
        inner = [w for v in values for w in (v if isinstance(v, (tuple, list)) else (v,))]
        known = closed.cache["data"] = not closed.consts and all(
            _is_data(v) if isinstance(v, ClosedJaxpr) else not callable(v) and not isinstance(v, Jaxpr) for v in inner
        )
    return known


def clear_interned():
    """Forget the jaxprs that `interned` knows."""
    _interned.clear()


__all__ = [
    "PLAIN_KINDS",
    "Atom",
    "ClosedJaxpr",
    "DropVar",
    "Eqn",
    "Jaxpr",
    "Literal",
    "Var",
    "clear_interned",
    "function_text",
    "wraps",
    "interned",
    "replaying",
    "source_inside",
    "source_text",
    "structure",
    "sub_jaxprs",
]
