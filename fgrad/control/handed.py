"""Steps of a loop that are laid out one after the other, where that saves the memory's work.

Loops may hand a carry on to another one: (new, old) of two states, as of a wave, or the last results of a method of several steps. At fixed
places such a state is copied at each step. Over as many steps as states are handed on, each comes back to its own place: the newest is
written over the oldest, and nothing is copied. And several short steps that are elementwise are one group, whose values stay in registers.
"""

from math import lcm, prod

from fgrad.control.common import INLINE
from fgrad.core import Literal

MOST = 4  # steps that are laid out
LITTLE = 64  # equations of a body, beside which copies count
KINDS = ("elementwise", "view", "reduce")
CHEAP = ("pad", "concatenate", "dynamic_slice", "dynamic_update_slice", "gather")
ROW = 256  # elements of an elementwise step, below which it is short whatever is done
GROUP = 56  # operations of such steps together
AT_ONCE = 8  # of these steps
ALONE = 5  # operations of a step that reads and writes one array only


def steps_until_back(closed, nk, nc):
    """After how many steps all carries that a body hands on are where they were; 1 if none is, or there is more to the body than copies."""
    key = ("handed", nk, nc)
    if key not in closed.cache:
        closed.cache[key] = _steps(closed.jaxpr, nk, nc)
    return closed.cache[key]


def steps_at_once(closed, nk, nc, length):
    """How many steps of a body without results of each step are one elementwise group; 1 where that gains nothing."""
    key = ("at once", nk, nc)
    if key not in closed.cache:
        closed.cache[key] = _operations(closed.jaxpr, nk, nc)
    operations = closed.cache[key]
    n = min(GROUP // operations, AT_ONCE) if operations else 1
    return next((k for k in range(n, n // 2, -1) if length % k == 0), n)


def _operations(jaxpr, nk, nc):
    """The elementwise operations that are all of a body, over one shape; 0 where they are not all, or short whatever is done."""
    consts, changing = jaxpr.invars[:nk], jaxpr.invars[nk:]
    shape = max([v.aval.shape for v in changing], key=len, default=())
    if prod(shape) < ROW or any(v.aval.dtype.itemsize < 4 for v in changing[nc:]):
        return 0
    n = 0
    for e in jaxpr.eqns:
        if not e.invars or not e.outvars:
            return 0
        x, out = e.invars[0], e.outvars[0].aval
        if e.primitive.name == "broadcast_in_dim" and (type(x) is Literal or x in consts or x.aval.size == 1):
            continue
        if e.primitive.name not in INLINE or out.shape not in (shape, ()):
            return 0
        n += out.shape == shape
    avals = [v.aval for v in [*jaxpr.invars, *[v for e in jaxpr.eqns for v in e.outvars]]]
    if any(a.dtype.kind not in "fiub" or a.dtype.kind == "f" and a.dtype.itemsize < 4 for a in avals):
        return 0
    streams = sum(a is not b and a.aval.shape == shape for a, b in zip(changing[:nc], jaxpr.outvars)) + len(changing[nc:])
    if streams == 1 and n > ALONE and not any(e.primitive.name in ("div", "rem", "sqrt") for e in jaxpr.eqns):
        return 0  # there is more to compute than to read and write
    return n


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
