"""Reverse mode's second half: run a linear jaxpr backwards with each primitive's transpose rule."""

from fgrad.core import ClosedJaxpr, Literal, stage
from fgrad.core.jaxpr import replaying, source_inside
from fgrad.ops.elementwise import add
from fgrad.ops.rules import Linear, Zero, instantiate
from fgrad.transforms.jvp import missing_rule


def backward_pass(jaxpr, consts, args, cts):
    """Cotangents of the Linear entries of `args` (None for the others), given those of the outputs (which may be Zero).

    Equations that do not depend on a Linear argument are evaluated first.
    """
    before = replaying.source
    try:
        return _backward_pass(jaxpr, consts, args, cts)
    finally:
        replaying.source = before


def _backward_pass(jaxpr, consts, args, cts):
    known, linear = {}, set()
    known.update(zip(jaxpr.constvars, consts))
    for v, x in zip(jaxpr.invars, args):
        if type(x) is Linear:
            linear.add(v)
        else:
            known[v] = x

    def read(v):
        if type(v) is Literal:
            return v.val
        return Linear(v.aval) if v in linear else known[v]

    backward = []
    for eqn in jaxpr.eqns:
        if any([v in linear for v in eqn.invars]):
            linear.update(eqn.outvars)
            backward.append(eqn)
        else:
            replaying.source = source_inside(eqn)
            out = eqn.primitive.bind_eqn(eqn, [read(v) for v in eqn.invars])
            known.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))

    ct_env = {}

    def accumulate(v, ct):
        if ct is None or type(ct) is Zero or v not in linear:
            return
        ct_env[v] = add(ct_env[v], ct) if v in ct_env else ct

    for v, ct in zip(jaxpr.outvars, cts):
        accumulate(v, ct)
    for eqn in reversed(backward):
        outs = [ct_env.pop(v, None) for v in eqn.outvars]
        if not any([ct is not None for ct in outs]):
            continue
        outs = [Zero(v.aval) if ct is None else ct for v, ct in zip(eqn.outvars, outs)]
        rule = eqn.primitive.transpose
        if rule is None:
            raise missing_rule("Transpose rule (for reverse-mode differentiation)", eqn)
        replaying.source = source_inside(eqn)
        for v, ct in zip(eqn.invars, rule(outs, *[read(v) for v in eqn.invars], **eqn.params)):
            accumulate(v, ct)
    return [ct_env.get(v, Zero(v.aval)) if type(x) is Linear else None for v, x in zip(jaxpr.invars, args)]


def transpose_jaxpr(closed: ClosedJaxpr, linear, zero_cts):
    """The jaxpr of closed's transpose: (non-linear args..., nonzero cts...) -> cotangents of the linear args.

    linear, zero_cts: masks over the inputs and the outputs. All cotangents are instantiated.
    """
    key = ("transpose", tuple(linear), tuple(zero_cts))
    if key in closed.cache:
        return closed.cache[key]
    known_avals = [a for a, lin in zip(closed.in_avals, linear) if not lin]

    def fun(*args):
        known, given = iter(args[: len(known_avals)]), iter(args[len(known_avals) :])
        full = [Linear(a) if lin else next(known) for a, lin in zip(closed.in_avals, linear)]
        cts = [Zero(a) if z else next(given) for a, z in zip(closed.out_avals, zero_cts)]
        out = backward_pass(closed.jaxpr, closed.consts, full, cts)
        return [instantiate(ct) for ct, lin in zip(out, linear) if lin]

    ct_avals = [a.strong() for a, z in zip(closed.out_avals, zero_cts) if not z]
    closed.cache[key] = stage(fun, [*known_avals, *ct_avals], closed.jaxpr.debug_name)
    return closed.cache[key]


def transpose_by_call(cts, args, closed, bind):
    """Transpose rule of a call-like primitive: bind(transposed jaxpr, known args, nonzero cts) -> cts of the linear args."""
    linear = [type(x) is Linear for x in args]
    zero_cts = [type(ct) is Zero for ct in cts]
    transposed = transpose_jaxpr(closed, linear, zero_cts)
    outs = iter(bind(transposed, [x for x in args if type(x) is not Linear], [ct for ct in cts if type(ct) is not Zero]))
    return [next(outs) if lin else None for lin in linear]
