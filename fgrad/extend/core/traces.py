"""The trace that interprets operations at present."""

import weakref

from fgrad.core import context, eval_trace, using_trace

__all__ = ["find_top_trace", "get_opaque_trace_state", "set_current_trace", "take_current_trace"]

set_current_trace = using_trace


def find_top_trace(values=()):
    """The trace that interprets operations now. `values` have no effect."""
    return context.trace


class OpaqueTraceState:
    """Equal to another one if it was taken under the same trace. It does not keep the trace alive."""

    __slots__ = ("_trace",)

    def __init__(self, trace):
        self._trace = weakref.ref(trace)

    def __eq__(self, other):
        return isinstance(other, OpaqueTraceState) and self._trace == other._trace

    def __hash__(self):
        return hash(self._trace)


def get_opaque_trace_state(convention=None):
    """What tells whether two moments are in the same transformation: states compare equal then. `convention` has no effect.

    >>> import fgrad
    >>> outside = get_opaque_trace_state()
    >>> seen = []
    >>> _ = fgrad.make_jaxpr(lambda x: seen.append(get_opaque_trace_state() == outside) or x)(1.0)
    >>> seen, get_opaque_trace_state() == outside
    ([False], True)
    """
    return OpaqueTraceState(context.trace)


class take_current_trace(using_trace):
    """Context manager: gives the current trace; operations inside run."""

    def __init__(self):
        super().__init__(eval_trace)

    def __enter__(self):
        super().__enter__()
        return self.before
