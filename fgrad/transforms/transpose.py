"""Reverse mode's second half: run a linear jaxpr backwards with each primitive's transpose rule."""

from fgrad.core import ClosedJaxpr, stage
from fgrad.ops.rules import Linear, Zero, instantiate
from fgrad.transforms.backward import backward_pass


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


__all__ = ["backward_pass", "transpose_by_call", "transpose_jaxpr"]
