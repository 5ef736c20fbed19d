"""Partial evaluation: what depends on unknown inputs becomes a jaxpr, the rest runs.

A PartialVal is a pair: (None, value) where the value is known, (its aval, None) where it is not.
"""

from fgrad.core import ClosedJaxpr, OverlayAval, ShapedArray, StageTracer, context, convert_constvars, get_aval, stage, using_trace
from fgrad.numpy.overlay import is_overlay
from fgrad.transforms import linearize

__all__ = ["PartialVal", "dce_jaxpr", "dce_jaxpr_consts", "trace_to_jaxpr_dynamic", "trace_to_jaxpr_nounits"]

DynamicJaxprTracer = JaxprTracer = StageTracer


class PartialVal(tuple):
    """A value that is known, or only its aval.

    >>> PartialVal.known(1.0).is_known()
    True
    """

    __slots__ = ()

    def __new__(cls, pair):
        aval, value = pair
        return tuple.__new__(cls, (aval, value))

    @classmethod
    def known(cls, value):
        """That value."""
        return cls((None, value))

    @classmethod
    def unknown(cls, aval):
        """Some value of that type."""
        return cls((aval, None))

    def is_known(self):
        """Whether the value is known."""
        return self[0] is None

    def get_known(self):
        """The value, or None where it is not known."""
        return self[1] if self[0] is None else None

    def get_aval(self) -> ShapedArray:
        """The type of the value."""
        return _type(self[1]) if self[0] is None else self[0]


def trace_to_jaxpr_nounits(fun, pvals, instantiate=False):
    """(jaxpr, PartialVals of the results, consts) of a flat WrappedFun called with `pvals`.

    The jaxpr takes the unknown arguments and gives the unknown results; known ones are computed. Results that `instantiate` (a bool, or one
    for each) marks are unknown even if they could be known.

    >>> from fgrad.extend.linear_util import wrap_init
    >>> pvals = [PartialVal.known(2.0), PartialVal.unknown(ShapedArray((3,), "float32"))]
    >>> jaxpr, outs, consts = trace_to_jaxpr_nounits(wrap_init(lambda x, y: [x * 3, x * y]), pvals)
    >>> outs[0].get_known(), outs[1].get_aval(), len(jaxpr.outvars)
    (6.0, ShapedArray(float32[3]), 1)
    """
    trace = linearize.TangentTrace(fun.__name__, context.trace, fun.f)
    args = [p.get_known() if p.is_known() else _argument(trace, p.get_aval()) for p in pvals]
    try:
        with using_trace(trace):
            results = list(fun.call_wrapped(*args))
            outs = [_words(x) for x in results]
            staged = [instantiate] * len(outs) if isinstance(instantiate, bool) else list(instantiate)
            staged = [s or trace.is_unknown(x) for s, x in zip(staged, outs, strict=True)]
            closed = trace.to_jaxpr([x for s, x in zip(staged, outs) if s])
    finally:
        trace.done = True
    return closed.jaxpr, [PartialVal.unknown(_type(x)) if s else PartialVal.known(x) for s, x in zip(staged, results)], closed.consts


def _argument(trace, aval):
    """A new argument; of keys its words."""
    return aval.dtype.of_words(trace.new_arg(aval.words)) if isinstance(aval, OverlayAval) else trace.new_arg(aval)


def _words(x):
    return x._words if is_overlay(x) else x


def _type(x):
    return x.dtype.aval(x.shape) if is_overlay(x) else get_aval(x)


def trace_to_jaxpr_dynamic(fun, in_avals):
    """(jaxpr, avals of its results, consts) of a flat WrappedFun called with arguments of the types `in_avals`."""
    closed = stage(lambda *args: list(fun.call_wrapped(*args)), in_avals, fun.__name__)
    return closed.jaxpr, closed.out_avals, closed.consts


def dce_jaxpr(jaxpr, used_outputs, instantiate=False):
    """(the jaxpr of the results marked in used_outputs, which inputs it takes): those it needs, and those that `instantiate` marks."""
    used = [used_outputs] * len(jaxpr.outvars) if isinstance(used_outputs, bool) else used_outputs
    kept = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else instantiate
    slim, live = linearize.dce_jaxpr(jaxpr, used)
    live = [bool(u or k) for u, k in zip(live, kept, strict=True)]
    return slim.replace(invars=[v for v, u in zip(slim.invars, live) if u]), live


def dce_jaxpr_consts(jaxpr, used_outputs, instantiate=False):
    """dce_jaxpr that removes constvars too: (jaxpr, which constvars it has, which inputs it takes)."""
    n = len(jaxpr.constvars)
    _, whole = convert_constvars(ClosedJaxpr(jaxpr, [None] * n))
    kept = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    slim, live = dce_jaxpr(whole.jaxpr, used_outputs, [False] * n + kept)
    consts = sum(live[:n])
    return slim.replace(constvars=slim.invars[:consts], invars=slim.invars[consts:]), live[:n], live[n:]
