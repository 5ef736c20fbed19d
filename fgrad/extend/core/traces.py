"""The trace that interprets operations at present."""

import weakref

from fgrad.core import StageTrace, context, eval_trace, using_trace
from fgrad.transforms.vmap import BatchTrace

__all__ = ["find_top_trace", "get_opaque_trace_state", "set_current_trace", "take_current_trace"]
__all__ += ["nonempty_axis_env_DO_NOT_USE", "unsafe_am_i_under_a_jit_DO_NOT_USE"]
__all__ += ["unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE"]

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


def _traces():
    trace = context.trace
    while trace is not None and trace is not eval_trace:
        yield trace
        trace = getattr(trace, "parent", None)


def unsafe_am_i_under_a_jit_DO_NOT_USE():
    """Whether operations are staged: by jit, a loop or make_jaxpr."""
    return any(type(t) is StageTrace for t in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE():
    """Whether operations are batched now."""
    return any(isinstance(t, BatchTrace) for t in _traces())


def unsafe_get_axis_names_DO_NOT_USE():
    """The named axes in scope."""
    return [name for name, _ in context.axis_env]


def nonempty_axis_env_DO_NOT_USE():
    """Whether a named axis is in scope."""
    return bool(context.axis_env)
