"""Forward mode: JVPTrace pairs primals with tangents and applies each primitive's jvp rule."""

from fgrad import dtypes
from fgrad.core import ClosedJaxpr, Trace, Tracer, closed_as_fun, context, get_aval, stage, using_trace
from fgrad.core.tracing import JVPBase, JVPTracerBase, install_tracers
from fgrad.ops.rules import Zero, instantiate, zero_of


class JVPTracer(Tracer, JVPTracerBase):
    """A value in a function that is differentiated: its primal, and its tangent or where that is written down."""

    __slots__ = ()

    def _concrete(self):
        p = self.primal
        return p._concrete() if isinstance(p, Tracer) else p

    def _origin(self):
        return self.primal._origin() if isinstance(self.primal, Tracer) else Tracer._origin(self)

    def __repr__(self):
        return f"JVPTracer<{self.aval}>(primal={self.primal!r})"


install_tracers(jvp=JVPTracer)


class JVPTrace(JVPBase, Trace):
    """The interpretation of operations that differentiates them."""

    __slots__ = ()

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        if self.recording is not None and getattr(jvp, "constant", False):  # a rule that always gives zeros: nothing to write down
            args = self.primals(args)
        if not self.owns_any(args):
            with using_trace(self.parent):
                return self.parent.process_custom_jvp(prim, fun, jvp, args, params)
        primals, tangents, nonzero = self.unzip(args)
        with using_trace(self.parent):
            if not nonzero:
                return self.parent.process_custom_jvp(prim, fun, jvp, primals, params)
            tangents = [zero_of(p) if t is None else t for p, t in zip(primals, tangents)]
            outs, out_tangents = jvp(primals, tangents)
        return [self.wrap(o, t) for o, t in zip(outs, out_tangents)]

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        if not self.owns_any(args):
            with using_trace(self.parent):
                return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)
        primals, tangents, nonzero = self.unzip(args)
        with using_trace(self.parent):
            if not nonzero:
                return self.parent.process_custom_vjp(prim, fun, fwd, bwd, primals, params)
            outs, res = fwd([t is not None for t in tangents], *primals)
            inexact = tuple(dtypes.is_inexact(get_aval(p).dtype) for p in primals)
            given = [instantiate(zero_of(p) if t is None else t) for p, t, ok in zip(primals, tangents, inexact) if ok]
            out_avals = tuple(get_aval(o).tangent_aval() for o in outs)
            live = tuple(a for a in out_avals if a.dtype != dtypes.float0)
            tangents_out = iter(
                prim.linear.bind(*res, *given, num_res=len(res), bwd=bwd, inexact=inexact, out_avals=live, all_out_avals=out_avals)
            )
        return [self.wrap(o, Zero(a) if a.dtype == dtypes.float0 else next(tangents_out)) for o, a in zip(outs, out_avals)]


def replay(records, values, tangents, lookup):
    """Apply the jvp rules of a recording's primitives to its values, under the current trace, which looks up their results.

    tangents: by number of the value; those of the arguments are given, those of results are added where they are not Zero.
    """
    for prim, operands, numbers, params, out_numbers in records:
        given = [tangents.get(n) for n in numbers]
        if all(t is None for t in given):
            continue
        primals = [x if n < 0 else values[n] for x, n in zip(operands, numbers)]
        outs = [values[n] for n in out_numbers]
        lookup.expect(prim, primals, params, outs if prim.multiple_results else outs[0])
        _, out = prim.jvp(primals, [zero_of(p) if t is None else t for p, t in zip(primals, given)], **params)
        for n, t in zip(out_numbers, out if prim.multiple_results else [out]):
            if type(t) is not Zero:
                tangents[n] = t


def jvp_flat(fun, primals, tangents):
    """(outs, tangents) of a flat function; tangents in and out may be Zero."""
    trace = JVPTrace(context.trace, fun)
    ins = list(map(trace.wrap, primals, tangents))
    try:
        with using_trace(trace):
            outs = fun(*ins)
        out_primals, out_tangents = [], []
        for o in outs:
            if type(o) is JVPTracer and o._trace is trace:
                out_primals.append(o.primal)
                out_tangents.append(o.tangent)
            else:
                out_primals.append(o)
                out_tangents.append(zero_of(o))
    finally:
        trace.done = True
    return out_primals, out_tangents


def jvp_jaxpr(closed: ClosedJaxpr, nonzero, force=False):
    """The jaxpr of closed's jvp: (primals..., nonzero tangents...) -> (outs..., nonzero out tangents...), and which are nonzero.

    `force` is True, False, or a list: out tangents that must be there even if they are zero.
    """
    nonzero = tuple(nonzero)
    forced = tuple([force] * len(closed.out_avals) if isinstance(force, bool) else force)
    key = ("jvp", nonzero, forced)
    if key in closed.cache:
        return closed.cache[key]
    avals = closed.in_avals
    out_nonzero = []

    def fun(*args):
        primals, given = args[: len(avals)], iter(args[len(avals) :])
        tangents = [next(given) if nz else Zero(a.tangent_aval()) for nz, a in zip(nonzero, avals)]
        outs, out_tangents = jvp_flat(closed_as_fun(closed), primals, tangents)
        for t, f in zip(out_tangents, forced):
            out_nonzero.append(type(t) is not Zero or (f and t.aval.dtype != dtypes.float0))
        return [*outs, *[instantiate(t) for t, nz in zip(out_tangents, out_nonzero) if nz]]

    out = stage(fun, [*avals, *[a.tangent_aval() for a, nz in zip(avals, nonzero) if nz]], closed.jaxpr.debug_name)
    closed.cache[key] = out, tuple(out_nonzero)
    return closed.cache[key]
