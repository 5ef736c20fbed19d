"""Loops whose steps need not wait for each other, done for many steps at once.

Such a scan carries nothing (`lax.map`), or only counters and sums that no step reads. Its body is batched over blocks of steps whose values
stay in the cache, and the sums add up what a block makes.
"""

import numpy as np

from fgrad.control.common import run
from fgrad.control.scan_rules import scan_p
from fgrad.core import ClosedJaxpr, Jaxpr, Literal, ShapedArray, get_aval, stage
from fgrad.ops.elementwise import add, mul
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import like
from fgrad.ops.shape import concatenate, iota, reshape, rev, slice_in_dim
from fgrad.transforms.linearize import dce_jaxpr
from fgrad.transforms.vmap import Axis, batch_jaxpr

FEWEST, MANY = 8, 32  # steps: below the first number never, from the second on always
WORTH = 2 << 10  # bytes of what all steps compute from which on fewer are worth it
BLOCK = 256 << 10  # bytes that the values of a block of steps may take
UPDATES = ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "dynamic_update_slice", "sort")


def _bytes(eqns):
    """(bytes of a step's values, bytes that it computes); None where there are branches, updates or loops of unknown length."""
    kept = made = 0
    for e in eqns:
        name, kind = e.primitive.name, e.primitive.kind
        size = 0 if kind == "view" else sum(v.aval.size * v.aval.dtype.itemsize for v in e.outvars)
        if (
            e.primitive.effects_of(e.params)
            or (name != "scan" and kind not in ("kernel", "elementwise", "view", "reduce"))
            or name in UPDATES
        ):
            return None
        if name == "scan":
            inner = _bytes(e.params["jaxpr"].eqns)
            if inner is None:
                return None
            kept, made = kept + inner[0], made + e.params["length"] * inner[1]
        kept, made = kept + size, made + size
    return kept, made


def step_of(body, i):
    """What each step adds to carry i, which is a counter: one integer, to which a literal is added; or None."""
    start, end = body.carry[i], body.carry_out[i]
    e = body.maker.get(end) if type(end) is not Literal else None
    if e is None or e.primitive.name not in ("add", "sub") or start.aval.shape != () or start.aval.dtype.kind not in "iu":
        return None
    x, y = e.invars
    if e.primitive.name == "sub":
        return -int(y.val) if x is start and type(y) is Literal else None
    term = y if x is start else x
    return int(term.val) if type(term) is Literal and (x is start or y is start) else None


def count(start, by, n, reverse):
    """What a counter that starts at `start` is in each of n steps."""
    k = iota(get_aval(start).dtype, n)
    return add(mul(rev(k, (0,)) if reverse else k, like(k, _wrapped(k.dtype, by))), start)


class Steps:
    """What a scan's body does besides counting and adding up.

    counters: position of a carry -> what each step adds to it; sums: position -> the term that is added; rows: how many steps are done at
    once, 0 where they wait for each other or it would not pay.
    """

    def __init__(self, body):
        self.body, self.counters, self.sums, self.rows = body, {}, {}, 0
        moving, adders = set(body.xs), set()
        for i, (start, end) in enumerate(zip(body.carry, body.carry_out)):
            if (by := step_of(body, i)) is not None:
                self.counters[i] = by
                moving.add(start)
                continue
            e = body.maker.get(end) if type(end) is not Literal else None
            if e is None or e.primitive.name != "add" or all(v is not start for v in e.invars):
                return
            term = e.invars[1] if e.invars[0] is start else e.invars[0]
            if (
                body.readers[start] == [e]
                and body.readers[end] == [None]
                and type(term) is not Literal
                and term.aval.shape == start.aval.shape
            ):
                self.sums[i] = term
                adders.add(id(e))
            else:
                return
        self.eqns = [e for e in body.jaxpr.eqns if id(e) not in adders]
        for e in self.eqns:
            if any(v in moving for v in e.invars if type(v) is not Literal):
                moving.update(e.outvars)
        if not all(type(v) is not Literal and v in moving for v in (*body.ys, *self.sums.values())) or len(self.eqns) <= len(self.counters):
            return
        size = _bytes(self.eqns)
        if size is not None and (body.length >= MANY or body.length * size[1] >= WORTH):
            self.rows = min(body.length, BLOCK // max(size[0], 1))


def spread(body, reverse, avals):
    """The scan as a jaxpr that does many of its steps at once, or None."""
    if body.length < FEWEST or (steps := Steps(body)).rows < FEWEST:
        return None
    return stage(lambda *args: _run(steps, reverse, [*body.more, *args]), avals, "scan")


def _block(steps, reverse, consts, carry, xs, n):
    """n steps at once: (what is carried, ys)."""
    body = steps.body
    ins, values, stacked = [*body.ins[: body.nk]], [*consts], [False] * body.nk
    for i, by in steps.counters.items():
        ins.append(body.carry[i])
        values.append(count(carry[i], by, n, reverse))
        stacked.append(True)
    ins, values, stacked = [*ins, *body.xs], [*values, *xs], [*stacked, *[True] * len(xs)]
    outs = list(dict.fromkeys([*steps.sums.values(), *body.ys]))
    slim, used = dce_jaxpr(Jaxpr([], ins, outs, steps.eqns, debug_name="steps"), [True] * len(outs))
    closed = ClosedJaxpr(slim.replace(invars=[v for v, u in zip(ins, used) if u]), [])
    batched = batch_jaxpr(closed, Axis(n), [s for s, u in zip(stacked, used) if u], force=True)[0]
    got = dict(zip(outs, run(batched, *[x for x, u in zip(values, used) if u])))
    carry = list(carry)
    for i, by in steps.counters.items():
        carry[i] = add(carry[i], like(carry[i], _wrapped(get_aval(carry[i]).dtype, by * n)))
    for i, term in steps.sums.items():
        carry[i] = add(carry[i], reduce_sum(got[term], (0,)))
    return carry, [got[v] for v in body.ys]


def _wrapped(dtype, n):
    """n as integers of this dtype wrap around."""
    return np.array(n % (1 << 8 * dtype.itemsize), f"u{dtype.itemsize}").astype(dtype).item()


def _run(steps, reverse, args):
    body, rows, length = steps.body, steps.rows, steps.body.length
    consts, carry, xs = args[: body.nk], args[body.nk : body.nk + body.nc], args[body.nk + body.nc :]
    blocks, rest = divmod(length, rows)
    start = rest if reverse else 0

    def part(lo, hi):
        return [slice_in_dim(x, lo, hi) for x in xs]

    if blocks == 1:
        carry, ys = _block(steps, reverse, consts, carry, part(start, start + rows) if rest else xs, rows)
    else:
        main = [reshape(x, (blocks, rows, *get_aval(x).shape[1:])) for x in (part(start, start + blocks * rows) if rest else xs)]

        def fun(*a):
            c, ys = _block(steps, reverse, a[: body.nk], a[body.nk : body.nk + body.nc], a[body.nk + body.nc :], rows)
            return [*c, *ys]

        avals = [get_aval(x) for x in (*consts, *carry)]
        avals = [*avals, *[ShapedArray(a.shape[1:], a.dtype, a.weak_type) for a in map(get_aval, main)]]
        inner = stage(fun, avals, body.jaxpr.debug_name)
        got = scan_p.bind(
            *consts, *carry, *main, jaxpr=inner, length=blocks, reverse=reverse, num_consts=body.nk, num_carry=body.nc, unroll=1
        )
        carry, ys = got[: body.nc], [reshape(y, (blocks * rows, *get_aval(y).shape[2:])) for y in got[body.nc :]]
    if rest:
        carry, more = _block(steps, reverse, consts, carry, part(0, rest) if reverse else part(blocks * rows, length), rest)
        ys = [concatenate([b, a] if reverse else [a, b], 0) for a, b in zip(ys, more)]
    return [*carry, *ys]
