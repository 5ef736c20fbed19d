"""The IR: a Jaxpr is a list of typed equations in A-normal form."""

import inspect
import os.path
import sys
import threading

from fgrad.core.aval import ShapedArray

PLAIN_KINDS = ("kernel", "elementwise", "reduce", "view")  # primitives that call no functions of the user
_PACKAGE = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


class Var:
    """A variable of a jaxpr: it has a type, and is itself alone."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self):
        return f"Var({id(self) & 0xFFFF:x}:{self.aval.short()})"


class DropVar(Var):
    """An output that nobody reads."""

    __slots__ = ()


class Literal:
    """A scalar constant inside an equation."""

    __slots__ = ("val", "aval")

    def __init__(self, val, aval):
        self.val, self.aval = val, aval

    def __repr__(self):
        return f"{self.val}:{self.aval.short()}"


class Eqn:
    """outvars = primitive[params] invars; `source` is the user's line that asked for it."""

    __slots__ = ("primitive", "invars", "outvars", "params", "source")

    def __init__(self, primitive, invars, outvars, params, source=None):
        self.primitive, self.invars, self.outvars, self.params, self.source = primitive, invars, outvars, params, source

    def replace(self, *, primitive=None, invars=None, outvars=None, params=None):
        return Eqn(
            primitive or self.primitive,
            self.invars if invars is None else invars,
            self.outvars if outvars is None else outvars,
            self.params if params is None else params,
            self.source,
        )

    def __repr__(self):
        return f"{self.outvars} = {self.primitive} {self.invars}"


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


class _Stage(threading.local):
    """`source`: the line that asked for the equation that is being interpreted, where one is."""

    source: tuple | None = None


replaying = _Stage()
_inside: dict = {}  # file name -> whether it is in this package


def source_of_caller():
    """(file, line, function) of the nearest frame outside this package, or of the equation that is being interpreted; or None."""
    source = replaying.source
    if source is not None:
        return source
    frame = sys._getframe(2)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        inside = _inside.get(name)
        if inside is None:
            inside = _inside[name] = name.startswith(_PACKAGE)
        if not inside:
            return name, frame.f_lineno, code.co_name
        frame = frame.f_back
    return None


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
