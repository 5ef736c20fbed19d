"""What is kept with a function, among its attributes: it goes when the function goes."""

import functools
import weakref
from types import FunctionType

from fgrad.config import config
from fgrad.core.context import context
from fgrad.core.trace import Tracer, eval_trace

KEEPING = {FunctionType, functools.partial}  # types of which each object stays one function; of others we don't know when they are the same


class Kept:
    """Programs by jit's options, and stagings by what they depend on. Pickled it is empty."""

    __slots__ = ("of", "programs", "since", "staged")

    def __init__(self, fun=None):
        self.of = weakref.ref(fun) if fun else lambda: None
        self.programs: dict = {}
        self.staged: dict = {}
        self.since = _forgotten[0]

    def __reduce__(self):
        return Kept, ()


_forgotten = [0]  # how often all stagings were forgotten


def kept_with(fun):
    """The Kept of a function; None where there can be none."""
    if type(fun) not in KEEPING:
        return None
    kept = fun.__dict__.get("_kept")
    if kept is None or kept.of() is not fun:  # functools.wraps copies attributes from one function to another
        kept = fun.__dict__["_kept"] = Kept(fun)
    return kept


_MOST = 4096  # stagings of one function, as in JAX


def once(fun, what, frame, make):
    """make(), (consts, ...) of a staging of `fun`, once per function and `what`: the kind of staging and what it depends on besides the
    settings and the trace around it. What touches a Ref, which `frame` notes, is staged anew."""
    kept = None if config.check_tracer_leaks else kept_with(fun)
    if kept is not None:
        if kept.since != _forgotten[0]:
            kept.staged, kept.since = {}, _forgotten[0]
        key = (*what, context.axis_env, config.key())
        try:
            found = kept.staged.get(key)
        except TypeError:  # a static value without a hash
            kept = None
        else:
            if found is not None and _holds(found[0]):
                return found
    if frame is not None:
        frame.restart()
    made = make()
    if kept is not None and not (frame is not None and frame.touched):
        if len(kept.staged) >= _MOST:
            kept.staged.clear()
        kept.staged[key] = made
    return made


def _holds(consts):
    """Whether what was staged can be used here: its tracers are alive, and numbers are constants where they should be."""
    if not consts:
        return True
    constant = not keeps_arrays()
    return not any(c._trace.done if isinstance(c, Tracer) else constant and not c.shape for c in consts)


def keeps_arrays():
    """Whether numbers that a loop closes over are arguments of its program: outside of jit."""
    trace = context.trace
    while trace is not eval_trace:
        if getattr(trace, "parent", None) is None:  # it stages for jit, or for a loop outside of it; or it is one of the user's own
            return getattr(trace, "keeps_arrays", False)
        trace = trace.parent
    return True


def forget_staged():
    """Forget the stagings of all functions."""
    _forgotten[0] += 1


__all__ = ["KEEPING", "Kept", "forget_staged", "keeps_arrays", "kept_with", "once"]
