"""Code motion out of loops: what a loop need not do step by step is done once, before it or after it.

- What depends on no step (a scaled or transposed weight) is computed before the loop; matrices of short rows are turned (control.turned).
- A product of a weight with what depends on the scanned inputs only is one product over all steps, before the loop.
  So is a gather at several scanned indices, or of columns, from what depends on no step, and what random numbers and functions make
  of scanned inputs and of counters.
- A product of a weight that only the stacked results depend on is one product over all steps, after the loop.
- A loop whose steps know nothing of each other is done for many steps at once (see control.spread).
- Complex numbers that a loop carries are carried in parts, where nothing in it takes them side by side (see control.apart);
  so are points by columns (see control.points).
- A carry that sums up products or reductions (the gradient of a weight) becomes one contraction over steps too, after the loop.
"""

from fgrad.control import apart, points
from fgrad.control.common import INLINE, run
from fgrad.control.counted import as_scan
from fgrad.control.scan_rules import scan_p
from fgrad.control.spread import count, spread, step_of
from fgrad.control.turned import STEPS, turn_matrices
from fgrad.control.while_loop import while_p
from fgrad.core import ClosedJaxpr, Jaxpr, Literal, convert_constvars, stage
from fgrad.ops.dot import dot_general, free_axes
from fgrad.ops.elementwise import add, neg
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.shape import reshape, transpose
from fgrad.transforms.linearize import dce_jaxpr
from fgrad.transforms.remat import inline_calls
from fgrad.transforms.vmap import Axis, batch_jaxpr

SMALL = 256  # rows (or terms) of a step's product below which one large product is faster than many
GATHERED = 16 << 10  # bytes of a step's gather up to which to call it costs as much as to do it
FEW = 32  # steps below which what is done for all of them at once costs more than it saves, but for products
DRAWN = 256  # bytes of a step's random numbers and values of functions up to which a call costs much of what they do
NUMBERS = 64 << 10  # of its random numbers alone: the hash takes longer than memory does, and members that share a key could not be parted
NUMBER = 8  # bytes that each of several cheap operations makes:
SPARED, WORTH = 3, 150  # so many of them, and of inputs, less what they make, are worth it in a step, and in all steps
LIMIT = 32 << 20  # bytes that a motion may add to what is stored
INVARIANT, SCANNED, CARRIED = range(3)
CALLS = ("jit", "custom_jvp_call", "custom_vjp_call")
RANDOM = ("threefry2x32", "threefry_bits", "threefry_split")
MOVABLE = ("kernel", "elementwise", "view", "reduce")  # kinds of primitives that may run for all steps at once


def nbytes(aval):
    return aval.size * aval.dtype.itemsize


def variables(atoms):
    return [v for v in atoms if type(v) is not Literal]


def _worth_keeping(e):
    """True if an invariant equation is worth its memory: not a view, nor larger than all it is made of, nor what is computed by parts."""
    if e.primitive.kind in ("view", "collective") or e.primitive.name == "complex":
        return False
    size = sum(v.aval.size for v in e.outvars)
    return e.primitive.kind != "elementwise" or size <= sum(v.aval.size for v in e.invars)


class Body:
    """A scan's body, and what of it is done where."""

    def __init__(self, params):
        self.more, closed = convert_constvars(inline_calls(params["jaxpr"], CALLS))  # what calls closed over becomes more consts
        self.jaxpr = closed.jaxpr
        self.nk, self.nc, self.length = len(self.more) + params["num_consts"], params["num_carry"], params["length"]
        if self.length >= STEPS:
            self.jaxpr = turn_matrices(self.jaxpr, self.nk, self.length)
        self.ins = self.jaxpr.invars
        self.carry, self.xs = self.ins[self.nk : self.nk + self.nc], self.ins[self.nk + self.nc :]
        self.carry_out, self.ys = self.jaxpr.outvars[: self.nc], self.jaxpr.outvars[self.nc :]
        self.kind = dict.fromkeys(self.ins[: self.nk], INVARIANT)
        self.kind.update(dict.fromkeys(self.xs, SCANNED))
        self.kind.update(dict.fromkeys(self.carry, CARRIED))
        self.maker, self.readers = {}, {}
        for e in self.jaxpr.eqns:
            kind = max([self.kind[v] for v in variables(e.invars)], default=INVARIANT)
            if e.primitive.effects_of(e.params) or kind == SCANNED and e.primitive.kind not in MOVABLE:
                kind = CARRIED
            for v in e.outvars:
                self.kind[v], self.maker[v] = kind, e
            for v in set(variables(e.invars)):
                self.readers.setdefault(v, []).append(e)
        for v in variables(self.jaxpr.outvars):
            self.readers.setdefault(v, []).append(None)
        self.counters = {v: by for i, v in enumerate(self.carry) if (by := step_of(self, i)) is not None}
        self.foreseen = {*self.xs, *self.counters}  # what is known of all steps before the loop
        for e in self.jaxpr.eqns:
            known = all(v in self.foreseen or self.kind[v] == INVARIANT for v in variables(e.invars))
            if known and self.kind_of_eqn(e) != INVARIANT and e.primitive.kind in MOVABLE and not e.primitive.effects_of(e.params):
                self.foreseen.update(e.outvars)

    def kind_of(self, atom):
        return INVARIANT if type(atom) is Literal else self.kind[atom]

    def kind_of_eqn(self, e):
        return self.kind[e.outvars[0]] if e.outvars else CARRIED

    def weight_product(self, e, kind):
        """True if e is a product of a small step's value of this kind with an invariant one."""
        if e.primitive.name != "dot_general" or sorted(map(self.kind_of, e.invars)) != [INVARIANT, kind]:
            return False
        side = [self.kind_of(v) for v in e.invars].index(kind)
        contract, batch = (pair[side] for pair in e.params["dimension_numbers"])
        shape = e.invars[side].aval.shape
        rows = 1
        for a in free_axes(len(shape), contract, batch):
            rows *= shape[a]
        return rows <= SMALL and self.length * nbytes(e.outvars[0].aval) <= LIMIT

    def invariant(self):
        """The variables worth computing once."""
        return [v for e in self.jaxpr.eqns if self.kind_of_eqn(e) == INVARIANT and _worth_keeping(e) for v in e.outvars]

    def before(self):
        """The products and gathers that can be done for all steps before the loop."""
        seeds = [e.outvars[0] for e in self.jaxpr.eqns if self.weight_product(e, SCANNED) or self.scanned_gather(e)]
        return list(dict.fromkeys([*seeds, *self.drawn()]))

    def drawn(self):
        """What the loop reads that random numbers or dear functions have made of scanned values and counters, where it is little a step."""
        return self._drawn(True, DRAWN) or self._drawn(False, NUMBERS) or self._together()

    def _together(self):
        """What the loop reads of several cheap operations on scanned numbers, each of which is an op of flat code in each step."""
        made = [e for e in self.jaxpr.eqns if self.kind_of_eqn(e) == SCANNED and e.outvars[0] in self.foreseen]
        made = [e for e in made if e.primitive.kind != "elementwise" or e.primitive.name in INLINE]
        done = {v for e in made for v in e.outvars}
        out = [v for e in made for v in e.outvars if any(r is None or not set(r.outvars) <= done for r in self.readers.get(v, ()))]
        spared = [v for v in self.xs if self.readers.get(v) and all(r is not None and set(r.outvars) <= done for r in self.readers[v])]
        few = self.length >= FEW and all(nbytes(v.aval) <= NUMBER for v in done) and self.length * 8 * len(out) <= LIMIT // 4
        count = sum(e.primitive.kind == "elementwise" for e in made) + len(spared) - len(out)
        return out if few and count >= SPARED and count * self.length >= WORTH else []

    def _drawn(self, functions, most):
        made, out = set(), []
        for e in self.jaxpr.eqns if self.length >= FEW else ():
            if e.outvars and e.outvars[0] in self.foreseen:
                dear = e.primitive.name in RANDOM or functions and e.primitive.kind == "elementwise" and e.primitive.name not in INLINE
                if dear or any(v in made for v in variables(e.invars)):
                    made.update(e.outvars)
                    out += [v for v in e.outvars if any(r is None or not set(r.outvars) <= self.foreseen for r in self.readers.get(v, ()))]
        size = sum(nbytes(v.aval) for v in out)
        return out if size <= most and self.length * size <= LIMIT // 4 else []

    def scanned_gather(self, e):
        """True if e gathers small items, several or one that lies in pieces (a column), at scanned indices, from an invariant operand."""
        if e.primitive.name != "gather" or [self.kind_of(v) for v in e.invars] != [INVARIANT, SCANNED]:
            return False
        (out,), indices, sizes = e.outvars, e.invars[1].aval, e.params["slice_sizes"]
        pieces = any(k < n and max(sizes[:a], default=1) > 1 for a, (k, n) in enumerate(zip(sizes, e.invars[0].aval.shape)))
        several = indices.size > indices.shape[-1] or pieces  # one item in one piece is read as fast in the loop
        return several and nbytes(out.aval) <= GATHERED and self.length * nbytes(out.aval) <= LIMIT

    def sums(self):
        """[(position of the carry, the equations that go, the paths back to its products and reductions)] of carries that only add up."""
        out = []
        for i, (start, end) in enumerate(zip(self.carry, self.carry_out)):
            e = self.maker.get(end) if type(end) is not Literal else None
            if e is None or e.primitive.name != "add" or self.readers.get(start) != [e] or self.readers[end] != [None]:
                continue
            terms = [v for v in e.invars if v is not start]
            if len(terms) != 1 or type(terms[0]) is Literal or terms[0].aval.shape != start.aval.shape:
                continue
            gone, paths = [e], []
            if self._paths(terms[0], [], gone, paths):
                out.append((i, gone, paths))
        return out

    def _paths(self, v, path, gone, paths):
        """Append to `paths` the equations from v back to each small product or reduction that v is the sum of, after those of `path`, and
        all of them to `gone`; False where v is made of anything else or read elsewhere."""
        while v in self.maker and len(self.readers[v]) == 1:
            e = self.maker[v]
            gone.append(e)
            if e.primitive.name == "add":
                terms = variables(e.invars)
                if len(terms) != 2 or terms[0] is terms[1] or any(t.aval.shape != v.aval.shape for t in terms):
                    return False
                return self._paths(terms[0], path, gone, paths) and self._paths(terms[1], path, gone, paths)
            path = [*path, e]
            if e.primitive.name in ("dot_general", "reduce_sum"):
                paths.append(path)
                return self._worth(e)
            if e.primitive.name not in ("transpose", "reshape", "neg"):
                return False
            (v,) = e.invars
        return False

    def _worth(self, e):
        """True if keeping the operands of all steps costs less than adding up a result in each."""
        if any(type(v) is Literal or self.kind[v] == INVARIANT for v in e.invars):
            return False
        if e.primitive.name == "dot_general":
            (lc, _), _ = e.params["dimension_numbers"]
            terms = 1
            for a in lc:
                terms *= e.invars[0].aval.shape[a]
            if terms > SMALL or e.params["preferred_element_type"] not in (None, e.invars[0].aval.dtype):
                return False
        new = sum(nbytes(v.aval) for v in set(e.invars) if v not in self.xs and v not in self.ys)
        return new <= 2 * nbytes(e.outvars[0].aval) and self.length * new <= LIMIT

    def after(self, sums):
        """The equations that can follow the loop: products that only stacked results need, and all that is made of them."""
        adders = {id(e) for _, going, _ in sums for e in going}
        needed = set(variables(v for i, v in enumerate(self.carry_out) if i not in {i for i, *_ in sums}))
        for e in reversed(self.jaxpr.eqns):
            if id(e) not in adders and (e.primitive.effects_of(e.params) or any(v in needed for v in e.outvars)):
                needed.update(variables(e.invars))
        sunk, out = set(), []
        extra = 0
        for e in self.jaxpr.eqns:
            if self.kind_of_eqn(e) != CARRIED or id(e) in adders:
                continue
            seed = self.weight_product(e, CARRIED) and not any(v in needed for v in e.outvars)
            if seed or any(v in sunk for v in e.invars if type(v) is not Literal):
                if e.primitive.kind not in MOVABLE:
                    return []
                out.append(e)
                sunk.update(e.outvars)
                extra += sum(nbytes(v.aval) for v in (*e.outvars, *variables(e.invars)) if v not in self.ys)
        return out if self.length * extra <= 2 * LIMIT else []


def _move_scan(eqn):
    """The scan as a jaxpr with less in its loop, or None where there is nothing to move."""
    params = eqn.params
    if params["length"] < 2 or not params["jaxpr"].eqns:
        return None
    body = Body(params)
    at_once = spread(body, params["reverse"], [v.aval for v in eqn.invars])
    if at_once is not None:
        return at_once
    known, before, sums = body.invariant(), body.before(), body.sums()
    sunk = body.after(sums)
    if not (known or before or sums or sunk):
        return None
    return stage(lambda *args: _run(body, params, known, before, sums, sunk, [*body.more, *args]), [v.aval for v in eqn.invars], "scan")


def _closed(ins, outs, eqns):
    """(a closed jaxpr of the outputs, which of the inputs it needs)."""
    slim, used = dce_jaxpr(Jaxpr([], ins, outs, eqns, debug_name="moved"), [True] * len(outs))
    return ClosedJaxpr(slim.replace(invars=[v for v, u in zip(ins, used) if u]), []), used


def _over_steps(ins, values, outs, eqns, length, stacked):
    """The values of `outs` for all steps at once; stacked: those of `ins` that have an axis of steps."""
    closed, used = _closed(ins, outs, eqns)
    pairs = [(v, x) for v, x, u in zip(ins, values, used) if u]
    batched = batch_jaxpr(closed, Axis(length), [v in stacked for v, _ in pairs], force=True)[0]
    return run(batched, *[x for _, x in pairs])


def _run(body, params, known, before, sums, sunk, args):
    nk, nc, length = body.nk, body.nc, body.length
    eqns, values = body.jaxpr.eqns, dict(zip(body.ins, args))
    # What depends on no step.
    invariant = [e for e in eqns if e.outvars and body.kind_of_eqn(e) == INVARIANT]
    closed, used = _closed(body.ins[:nk], known, invariant)
    values.update(zip(known, run(closed, *[x for x, u in zip(args[:nk], used) if u])))
    consts = [*body.ins[:nk], *known]
    left = [e for e in eqns if not any(v in values for v in e.outvars)]
    # Products of the scanned inputs.
    ready = [e for e in left if e.outvars and (body.kind_of_eqn(e) == INVARIANT or e.outvars[0] in body.foreseen)]
    if before:
        ins = [*consts, *body.xs, *body.counters]
        counts = [count(values[v], by, length, params["reverse"]) for v, by in body.counters.items()]
        args = [*[values[v] for v in (*consts, *body.xs)], *counts]
        values.update(zip(before, _over_steps(ins, args, before, ready, length, {*body.xs, *body.counters})))
    xs = [*body.xs, *before]
    left = [e for e in left if not any(v in before for v in e.outvars)]
    # The loop, which also stacks what is read after it.
    later = {id(e) for e in sunk} | {id(e) for _, going, _ in sums for e in going}
    gone = {i for i, *_ in sums}
    made_later = {v for e in sunk for v in e.outvars}
    operands = [v for *_, paths in sums for path in paths for v in path[-1].invars]
    tail = [e for e in left if id(e) not in later and e.outvars and body.kind_of_eqn(e) in (INVARIANT, SCANNED)] + sunk
    outs = list(dict.fromkeys([*[v for v in body.ys if type(v) is not Literal and v in made_later], *operands]))
    made = {v for e in tail for v in e.outvars} | {*consts, *xs}
    reads = dict.fromkeys([*[v for e in sunk for v in variables(e.invars)], *outs])
    cross = [v for v in reads if v not in made]
    ready = set(before)
    ys = [v for v in body.ys if type(v) is Literal or v not in made_later and v not in ready]
    more = [v for v in cross if v not in ys]
    carry = [v for i, v in enumerate(body.carry) if i not in gone]
    carry_out = [v for i, v in enumerate(body.carry_out) if i not in gone]
    inner = Jaxpr(
        [], [*consts, *carry, *xs], [*carry_out, *ys, *more], [e for e in left if id(e) not in later], debug_name=body.jaxpr.debug_name
    )
    inner, used = dce_jaxpr(inner, [True] * len(inner.outvars))
    used = [u or len(consts) <= i < len(consts) + len(carry) for i, u in enumerate(used)]
    ins = [v for v, u in zip(inner.invars, used) if u]
    got = scan_p.bind(
        *[values[v] for v in ins],
        jaxpr=ClosedJaxpr(inner.replace(invars=ins), []),
        length=length,
        reverse=params["reverse"],
        num_consts=sum(used[: len(consts)]),
        num_carry=len(carry),
        unroll=params["unroll"],
    )
    stacked = {v: x for v, x in zip([*ys, *more], got[len(carry) :]) if type(v) is not Literal}
    # What follows.
    if outs:
        ins = [*consts, *xs, *cross]
        args = [values[v] for v in (*consts, *xs)] + [stacked[v] for v in cross]
        stacked.update(zip(outs, _over_steps(ins, args, outs, tail, length, {*xs, *cross})))
    totals = {i: values[body.carry[i]] for i, *_ in sums}
    for i, _, paths in sums:
        for path in paths:
            totals[i] = add(totals[i], _total(path, [stacked[v] for v in path[-1].invars]))
    ends = iter(got[: len(carry)])
    plain = iter(got[len(carry) :])
    stay = {id(v): next(plain) for v in ys}
    return [
        *[totals[i] if i in gone else next(ends) for i in range(nc)],
        *[stay[id(v)] if id(v) in stay else values[v] if v in ready else stacked[v] for v in body.ys],
    ]


def _total(path, operands):
    """The sum over steps of what the path makes of its operands, which are stacked."""
    last = path[-1]
    if last.primitive.name == "reduce_sum":
        out = reduce_sum(operands[0], (0, *[a + 1 for a in last.params["axes"]]))
    else:
        (lc, rc), (lb, rb) = (tuple(tuple(a + 1 for a in side) for side in pair) for pair in last.params["dimension_numbers"])
        out = dot_general(*operands, (((0, *lc), (0, *rc)), (lb, rb)))
    for e in reversed(path[:-1]):
        if e.primitive.name == "transpose":
            out = transpose(out, e.params["permutation"])
        elif e.primitive.name == "reshape":
            out = reshape(out, e.params["new_sizes"])
        else:
            out = neg(out)
    return out


def _move_while(eqn):
    """The while loop as a jaxpr that computes what depends on its consts only before it, or None where there is nothing."""
    params = eqn.params
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    parts = []
    for closed, n in ((params["cond_jaxpr"], a), (params["body_jaxpr"], b - a)):
        more, closed = convert_constvars(inline_calls(closed, CALLS))
        jaxpr = turn_matrices(closed.jaxpr, len(more) + n)
        parts.append((more, jaxpr, len(more) + n, *_fixed(jaxpr, len(more) + n)))
    if not any(known for *_, known in parts):
        return None

    def fun(*args):
        consts, jaxprs = [], []
        for (more, jaxpr, n, eqns, known), given in zip(parts, (args[:a], args[a:b])):
            given = [*more, *given]
            closed, used = _closed(jaxpr.invars[:n], known, eqns)
            values = run(closed, *[x for x, u in zip(given, used) if u])
            left = [e for e in jaxpr.eqns if not any(v in known for v in e.outvars)]
            jaxprs.append(ClosedJaxpr(jaxpr.replace(invars=[*jaxpr.invars[:n], *known, *jaxpr.invars[n:]], eqns=left), []))
            consts.append([*given, *values])
        counts = dict(cond_nconsts=len(consts[0]), body_nconsts=len(consts[1]))
        return while_p.bind(*consts[0], *consts[1], *args[b:], cond_jaxpr=jaxprs[0], body_jaxpr=jaxprs[1], **counts)

    return stage(fun, [v.aval for v in eqn.invars], "while")


def _fixed(jaxpr, n):
    """(the equations that depend on the first n inputs only, their variables that are worth computing once)."""
    known, eqns = set(jaxpr.invars[:n]), []
    for e in jaxpr.eqns:
        if e.primitive.kind in MOVABLE and all(v in known for v in variables(e.invars)) and not e.primitive.effects_of(e.params):
            known.update(e.outvars)
            eqns.append(e)
    return eqns, [v for e in eqns if _worth_keeping(e) for v in e.outvars]


def _rule(split, move):
    def rule(eqn):
        parts = split(eqn, move)
        return move(eqn) if parts is None else parts

    return rule


scan_p.move = _rule(apart.split_scan, _rule(points.split_scan, _move_scan))
move_while = _rule(apart.split_while, _rule(points.split_while, _move_while))
while_p.move = lambda eqn: as_scan(eqn) or move_while(eqn)
