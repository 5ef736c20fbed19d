"""Loops that hand a carry on to another one: (new, old) of two states, as of a wave, or the last results of a method of several steps.

At fixed places such a state is copied at each step. Over as many steps as states are handed on, each comes back to its own place: laid out
one after the other, the newest is written over the oldest, and nothing is copied.
"""

from math import lcm

from fgrad.core import Literal

MOST = 4  # steps that are laid out
LITTLE = 64  # equations of a body, beside which copies count
KINDS = ("elementwise", "view", "reduce")
CHEAP = ("pad", "concatenate", "dynamic_slice", "dynamic_update_slice", "gather")


def steps_until_back(closed, nk, nc):
    """After how many steps all carries that a body hands on are where they were; 1 if none is, or there is more to the body than copies."""
    key = ("handed", nk, nc)
    if key not in closed.cache:
        closed.cache[key] = _steps(closed.jaxpr, nk, nc)
    return closed.cache[key]


def _steps(jaxpr, nk, nc):
    carry, eqns = {v: i for i, v in enumerate(jaxpr.invars[nk : nk + nc])}, jaxpr.eqns
    if nc < 2 or len(eqns) > LITTLE or any(e.primitive.effects_of(e.params) for e in eqns):
        return 1
    if any(e.primitive.kind not in KINDS and e.primitive.name not in CHEAP for e in eqns):
        return 1
    maker = {v: e for e in eqns for v in e.outvars}
    before = {j: k for j, v in enumerate(jaxpr.outvars[:nc]) if (k := _handed(v, carry, maker)) is not None and k != j}
    ways = [_way(j, before) for j in before]
    most = lcm(*ways)
    return most if most <= MOST else max([n for n in ways if n <= MOST], default=1)


def _way(j, before):
    """The number of places that a state goes through on its way to j, or around."""
    way = [j]
    while (k := before.get(way[-1])) is not None and k not in way:
        way.append(k)
    return len(way) if k is None else len(way) - way.index(k)


def _handed(v, carry, maker):
    """The carry that v is, or a multiple of."""
    aval = v.aval
    while type(v) is not Literal and v not in carry:
        e = maker.get(v)
        rest = [] if e is None or e.primitive.name not in ("neg", "mul") else [x for x in e.invars if type(x) is not Literal]
        if len(rest) != 1:
            return None
        v = rest[0]
    if type(v) is Literal or v.aval.shape != aval.shape or v.aval.dtype != aval.dtype:
        return None
    return carry[v]
