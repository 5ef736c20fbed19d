"""Linearize: run the primals, stage the tangents.  It is jvp over a trace that stages only what depends on a tangent.

The same trace partially evaluates jaxprs: what depends on unknown inputs is staged, the rest goes to the parent.
"""

from fgrad import dtypes
from fgrad.core import ClosedJaxpr, StageTrace, closed_as_fun, context, get_aval, using_trace
from fgrad.core.tracing import Lookup, TangentBase
from fgrad.ops.rules import Linear, Zero
from fgrad.transforms.backward import backward_pass, live_eqns
from fgrad.transforms.jvp import jvp_flat, replay


class TangentTrace(TangentBase, StageTrace):
    """Stages equations with an unknown input; others run in the parent. Parent values used inside become residuals."""

    __slots__ = ()

    def process_custom_jvp(self, prim, fun, jvp, args, params):
        if not self.unknown(args):
            with using_trace(self.parent):
                return self.parent.process_custom_jvp(prim, fun, jvp, args, params)
        return StageTrace.process_custom_jvp(self, prim, fun, jvp, args, params)

    def process_custom_vjp(self, prim, fun, fwd, bwd, args, params):
        if not self.unknown(args):
            with using_trace(self.parent):
                return self.parent.process_custom_vjp(prim, fun, fwd, bwd, args, params)
        return StageTrace.process_custom_vjp(self, prim, fun, fwd, bwd, args, params)


def linearize_flat(fun, primals):
    """(outs, linear jaxpr closed over its residuals, out_avals, nonzero): the jaxpr takes the tangents of the inexact primals
    and gives those of the outs marked nonzero."""
    trace = TangentTrace("linearized", context.trace, fun)
    tangents = []
    for p in primals:
        aval = get_aval(p).tangent_aval()
        tangents.append(Zero(aval) if aval.dtype == dtypes.float0 else trace.new_arg(aval))
    try:
        with using_trace(trace):
            outs, out_tangents = jvp_flat(fun, primals, tangents)
            nonzero = [type(t) is not Zero for t in out_tangents]
            linear = trace.to_jaxpr([t for t in out_tangents if type(t) is not Zero])
    finally:
        trace.done = True
    return outs, linear, [t.aval if type(t) is Zero else get_aval(t) for t in out_tangents], nonzero


def recorded_gradient(recording, number, one):
    """The flat function of a recording's values that gives the cotangents of its arguments, for the cotangent `one` of value `number`."""

    def fun(*values):
        lookup = Lookup(context.trace)
        trace = TangentTrace("recorded", lookup)
        found = {i: trace.new_arg(x.aval.tangent_aval()) for i, x in enumerate(values[: recording.n_args])}
        with using_trace(trace):
            replay(recording.records, values, found, lookup)
            linear = trace.to_jaxpr([found[number]] if number in found else [])
        trace.done = True
        return backward_pass(linear.jaxpr, linear.consts, [Linear(v.aval) for v in linear.jaxpr.invars], [one] if number in found else [])

    return fun


def partial_eval_jaxpr(closed: ClosedJaxpr, unknown):
    """Split a jaxpr by which inputs are unknown.

    Returns (known, staged, out_unknown, forwarded): `known` maps the known inputs to (known outs..., residuals...),
    `staged` maps (residuals..., unknown inputs...) to the unknown outs, and forwarded[i] is the position among the known inputs
    of residual i where it is just one of them (it is then not an output of `known`), else None.
    """
    key = ("partial_eval", tuple(unknown))
    if key in closed.cache:
        return closed.cache[key]
    outer = StageTrace(closed.jaxpr.debug_name)
    inner = TangentTrace(closed.jaxpr.debug_name, outer)
    args = [(inner if u else outer).new_arg(a) for a, u in zip(closed.in_avals, unknown)]
    known_args = [a for a, u in zip(args, unknown) if not u]
    try:
        with using_trace(inner):
            outs = closed_as_fun(closed)(*args)
            out_unknown = tuple(inner.is_unknown(o) for o in outs)
            staged = inner.to_jaxpr([o for o, u in zip(outs, out_unknown) if u])
        position = {id(a): i for i, a in enumerate(known_args)}
        forwarded = tuple(position.get(id(c)) for c in staged.consts)
        with using_trace(outer):
            known = outer.to_jaxpr(
                [*[o for o, u in zip(outs, out_unknown) if not u], *[c for c, f in zip(staged.consts, forwarded) if f is None]]
            )
    finally:
        inner.done = outer.done = True
    jaxpr = staged.jaxpr
    staged = ClosedJaxpr(jaxpr.replace(constvars=[], invars=jaxpr.constvars + jaxpr.invars), [])
    closed.cache[key] = known, staged, out_unknown, forwarded
    return closed.cache[key]


def split_residuals(known_outs, n_known, known_args, forwarded):
    """(known outs, all residuals in order) from the outputs of the known jaxpr."""
    fresh = iter(known_outs[n_known:])
    return known_outs[:n_known], [known_args[f] if f is not None else next(fresh) for f in forwarded]


def merge(mask, ones, zeros):
    """Interleave two sequences: from `ones` where mask holds."""
    ones, zeros = iter(ones), iter(zeros)
    return [next(ones) if m else next(zeros) for m in mask]


def split(mask, xs):
    """(those where mask holds, the others)."""
    return [x for m, x in zip(mask, xs) if m], [x for m, x in zip(mask, xs) if not m]


def dce_jaxpr(jaxpr, used_outs):
    """(jaxpr without what the used outputs do not need, mask of the inputs still needed). Effects stay.

    Of loops, branches and calls only the outputs that are needed stay: their primitives have dce rules.
    """
    outvars = [v for v, u in zip(jaxpr.outvars, used_outs) if u]
    eqns, live = live_eqns(jaxpr.eqns, outvars)
    return jaxpr.replace(outvars=outvars, eqns=eqns), [v in live for v in jaxpr.invars]


def pruned(closed: ClosedJaxpr, used_outs, keep_ins=None):
    """(closed jaxpr of the used outputs, mask of the inputs it takes): those it needs and those that `keep_ins` marks."""
    key = ("pruned", tuple(used_outs), None if keep_ins is None else tuple(keep_ins))
    if key not in closed.cache:
        slim, used = dce_jaxpr(closed.jaxpr, used_outs)
        if keep_ins is not None:
            used = [u or k for u, k in zip(used, keep_ins)]
        slim = slim.replace(invars=[v for v, u in zip(slim.invars, used) if u])
        closed.cache[key] = ClosedJaxpr(slim, closed.consts), used
    return closed.cache[key]


def dce_call(eqn, used_outs):
    """The dce rule of a primitive that calls its parameter `jaxpr`."""
    slim, used = pruned(eqn.params["jaxpr"], used_outs)
    return keep(eqn, used, used_outs, jaxpr=slim)


def keep(eqn, ins, outs, **params):
    """The equation with only the inputs and outputs that the masks mark, and these parameters changed."""
    return eqn.replace(
        invars=[v for v, u in zip(eqn.invars, ins) if u],
        outvars=[v for v, u in zip(eqn.outvars, outs) if u],
        params={**eqn.params, **params},
    )
