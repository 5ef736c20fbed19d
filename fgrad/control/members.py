"""Scans over a batch whose members know nothing of each other: each part of the batch goes through all steps by itself.

Threads then meet once a loop, not at each operation of each step, and what a part carries stays in its core's cache. Where every operation
of a body keeps one axis, the batch, apart, the body is staged again for a part of it, and one instruction runs that for all parts. How many
there are depends on shapes alone, and so do the values. Rows of a scan that carries nothing (lax.map) are cut into parts as they are.
"""

import math
from typing import NamedTuple

from fgrad._kernels.gemm import uses_amx
from fgrad.control.common import hoist
from fgrad.control.member_axes import SUM, Refused, rule_of, shares_of, swapped
from fgrad.core import ClosedJaxpr, Literal, ShapedArray, Var, convert_constvars, get_aval
from fgrad.core.jaxpr import sub_jaxprs
from fgrad.dtypes import BFLOAT16, FLOAT16
from fgrad.transforms.remat import inline_calls

CALLS = ("jit", "custom_jvp_call", "custom_vjp_call")
LOOPS = ("scan", "while", "cond")
LOOP = "loop"  # beside axes: a loop, whose results each have a way of their own
LEAST = 512  # elements of the largest value of a step below which the loop is flat code
WORTH = 100_000  # ns of all steps below which to wake threads costs too much of them
OP, KERNEL = 15, 200  # ns that an elementwise operation and another instruction take however little they do
MOST = 16  # parts
LINE = 64  # bytes of a line of the cache, where parts had better begin
WEIGHTS = 1 << 20  # bytes of matrices that each part multiplies by at each step
MAPPED = 0.25  # ns of an operation on one number in a loop without carries
BROAD = 1 << 15  # elements of values for which operations use threads themselves
UNKNOWN = 8  # turns of a while loop, for all that is known
FEW, ROWS, WHOLE = (
    4,
    16,
    128,
)  # rows of a part's products with such matrices, of two parts, of more, and where each part prepares a whole matrix
MOVABLE = ("kernel", "elementwise", "view", "reduce")  # kinds of primitives that each part may do again
TAKE = ("gather", "dynamic_slice", "slice")
PUT = dict.fromkeys(("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"), 2) | {"dynamic_update_slice": 1}  # the updates
CHEAP = frozenset(
    "add sub mul div neg abs square sqrt max min floor ceil trunc round_even sign copysign integer_pow fma clamp select and or xor not eq "
    "ne lt le gt ge shift_left shift_right_logical shift_right_arithmetic convert_element_type is_finite real imag conj copy".split()
)


class Parts(NamedTuple):
    """A scan in `number` parts. body: one's; it takes the arrays `extra`, then consts, carries and rows of xs.

    Consts and xs are (number among the arrays `more` and the scan's operands, the axis of a step's along which they are cut, or None).
    Carries and ys: that axis, SUM where the parts' add up, None where each part has all of them.
    """

    number: int
    body: ClosedJaxpr
    extra: list
    more: list
    consts: list
    xs: list
    carries: list
    ys: list


def nbytes(aval):
    return aval.size * aval.dtype.itemsize


class _Loop(NamedTuple):
    """A loop in a body. operands: (atom or array, how it is read) of the shorter one; ins: (number of the body's argument, how it is read);
    outs: (variable, how it is made); axes: how its own results are made."""

    operands: list
    jaxpr: object
    ins: list
    outs: list
    wanted: dict
    plan: dict
    params: dict
    axes: list


def _loop(e, n, part):
    more, closed = convert_constvars(inline_calls(e.params["jaxpr"], CALLS))
    jaxpr, nk, nc = closed.jaxpr, len(more) + e.params["num_consts"], e.params["num_carry"]
    wanted, plan, state, rows = _demands(jaxpr, nk, nc, n, part)
    given, ins, operands = [*more, *e.invars], [], []
    for i, v in enumerate(jaxpr.invars):
        for b in [state[i - nk]] if nk <= i < nk + nc else wanted.get(v, ()):
            ins.append((i, b))
            operands.append((given[i], b + 1 if type(b) is int and i >= nk + nc else b))
    params = dict(e.params, num_consts=sum(i < nk for i, _ in ins))
    axes = [*state, *[a + 1 if type(a) is int else a for a in rows]]
    return _Loop(operands, jaxpr, ins, list(zip(jaxpr.outvars, [*state, *rows])), wanted, plan, params, axes)


def _of_operand(e, j, a):
    """The axis of a result of the equation, the j-th, as it is called in its first result or, where that loses one, in its operand."""
    both = e.primitive.name == "softmax_logsumexp" and j == 1 and type(a) is int
    return a + (a >= e.params["axis"]) if both else a


def _wanted(jaxpr, wanted, n, part, mixed):
    """{(equation's number, axis): (axes of the operands, params)} of what must be computed so that each variable of `wanted` is there cut
    along its axes (None: whole), to which the operands' are added."""
    plan: dict = {}
    for k in range(len(jaxpr.eqns) - 1, -1, -1):
        e = jaxpr.eqns[k]
        if e.primitive.name == "scan" and any(o in wanted for o in e.outvars):
            plan[k, LOOP] = loop = _loop(e, n, part)
            if any(a != b for o, a in zip(e.outvars, loop.axes) for b in wanted.get(o, ())):
                raise Refused
            for v, b in loop.operands:
                if type(v) is Var:
                    wanted.setdefault(v, {})[b] = True
                elif b is not None and not (b == SUM and type(v) is Literal and v.val == 0):
                    raise Refused
            continue
        for a in {_of_operand(e, j, b) for j, o in enumerate(e.outvars) for b in wanted.get(o, ())}:
            if a is None:
                if e.primitive.kind not in MOVABLE:
                    raise Refused
                axes, params = [None] * len(e.invars), e.params
            elif a == SUM:
                axes, params = shares_of(e, n, part, [type(v) is not Literal and v in mixed for v in e.invars])
            else:
                rule = rule_of(e)
                if rule is None:
                    raise Refused
                axes, params = rule(e, a, part)
            plan[k, a] = axes, params
            for v, b in zip(e.invars, axes):
                if type(v) is not Literal:
                    wanted.setdefault(v, {})[b] = True
                elif b is not None and not (b == SUM and v.val == 0):
                    raise Refused
    return plan


def _touched(e, axes):
    """Elements that an operation makes and reads: of an array that it takes parts of, or puts them into where it lies, those parts."""
    made, name = sum(o.aval.size for o in e.outvars), e.primitive.name
    if name in TAKE:
        return made, made
    if name in PUT:
        put = e.invars[PUT[name]].aval.size
        return put, put
    return made, max([v.aval.size for v, b in zip(e.invars, axes) if b is not None], default=0)


def _took(e, made, read):
    """ns that an operation takes by the elements that it makes and reads."""
    if e.primitive.name == "dot_general":
        (lc, _), _ = e.params["dimension_numbers"]
        return made * math.prod([e.invars[0].aval.shape[c] for c in lc]) / 60
    if e.primitive.kind == "elementwise":
        return made * (0.025 if e.primitive.name in CHEAP else 0.3)
    return 0.3 * max(made, read)


def _cost(jaxpr, plan):
    """(ns of a step by the size of its values, ns by its instructions, ns of what each part does again, bytes of the matrices that all
    members multiply by, elements of the largest value, rows of the shortest product for which such a matrix is prepared or None)."""
    ns = fixed = again = weights = most = 0
    whole = None
    for (k, a), how in plan.items():
        e = jaxpr.eqns[k]
        if a == LOOP:
            inner, turns = _cost(how.jaxpr, how.plan), how.params["length"]
            ns, fixed, again = (x + turns * y for x, y in zip((ns, fixed, again), inner))
            fixed, weights, most, whole = fixed + KERNEL, weights + inner[3], max(most, inner[4]), _fewer(whole, inner[5])
            continue
        axes = how[0]
        if e.primitive.kind == "view":
            continue
        made, read = _touched(e, axes)
        took = _took(e, made, read)
        if a is None or a == SUM and e.primitive.name not in ("reduce_sum", "dot_general"):
            again += took
            continue
        ns += took
        again += made * 0.05 if a == SUM else 0
        fixed += OP if e.primitive.kind == "elementwise" else KERNEL
        most = max(most, made, read)
        if e.primitive.name == "dot_general":
            shared = [v.aval for v, b in zip(e.invars, axes) if b is None and len(v.aval.shape) > 1]
            weights += sum(map(nbytes, shared))
            if shared and (few := _prepared(shared[0].dtype)):
                (lc, _), _ = e.params["dimension_numbers"]
                rows = made * math.prod([e.invars[0].aval.shape[c] for c in lc]) // shared[0].size
                whole = _fewer(whole, rows) if rows > few else whole
    return ns, fixed, again, weights, most, whole


def _prepared(dtype):
    """Up to how many rows multiply a matrix of 16-bit floats as it lies, not widened or brought to tiles; 0 for any other."""
    return 2 * FEW if dtype == BFLOAT16 and uses_amx() else ROWS if dtype == FLOAT16 else 0


def _fewer(a, b):
    return b if a is None else a if b is None else min(a, b)


def _count(n, member, length, cost):
    """How many parts a batch of n is cut into, a member of it having so many bytes; 1 where that does not pay."""
    ns, fixed, again, weights, most, whole = cost
    if most < LEAST or (ns + fixed) * length < WORTH or weights > WEIGHTS or again > ns / 16 or ns < fixed:
        return 1
    limit = min(ns // (8 * fixed), MOST)
    if weights:
        limit = min(limit, n // ROWS)
    if whole is not None:
        limit = min(limit, whole // WHOLE)
        if limit < 2:
            return 1
    if limit < 2:
        return 2 if n % 2 == 0 and n >= 2 * FEW else 1
    counts = [k for k in range(2, int(limit) + 1) if n % k == 0]
    return max(counts, key=lambda k: (k % 2 == 0, n // k * member % LINE == 0, k), default=1)


def _adds_up(jaxpr, nk, i):
    """True if carry i only grows by what is added to it, and nobody reads it."""
    v, end = jaxpr.invars[nk + i], jaxpr.outvars[i]
    while v is not end:
        readers = [e for e in jaxpr.eqns if v in e.invars]
        if len(readers) != 1 or v in jaxpr.outvars:
            return False
        (e,) = readers
        first, second = ([x is v for x in e.invars] + [False])[:2]
        if first == second or e.primitive.name != "add" and not (e.primitive.name == "sub" and first):
            return False
        (v,) = e.outvars
    return v is not jaxpr.invars[nk + i] and jaxpr.outvars.count(end) == 1 and not any(end in e.invars for e in jaxpr.eqns)


def _demands(jaxpr, nk, nc, n, part):
    """({variable: how it is read: cut along an axis, as a share of a sum, or whole}, the plan, how each carry is kept, how each of ys is
    made) for a batch of n, in parts of `part`."""
    adds = [_adds_up(jaxpr, nk, i) for i in range(nc)]
    batch = [v.aval.shape[:1] == (n,) for v in jaxpr.invars[nk : nk + nc]]
    try:
        return _demanded(jaxpr, nk, nc, n, part, [0 if b else SUM if a else None for a, b in zip(adds, batch)])
    except Refused:
        if not any(a and b for a, b in zip(adds, batch)):
            raise
    return _demanded(jaxpr, nk, nc, n, part, [SUM if a else 0 if b else None for a, b in zip(adds, batch)])


def _demanded(jaxpr, nk, nc, n, part, state):
    """As _demands; carries that cannot be kept so (`state`) are whole."""
    while 0 in state:
        wanted, plan, state, kept, rows = _tried(jaxpr, nk, nc, n, part, state)
        if kept == state:
            return wanted, plan, state, rows
        state = kept
    raise Refused


def _tried(jaxpr, nk, nc, n, part, state):
    """(what is read, the plan, how carries are kept, None where that fails, how each of ys is made)."""
    mixed = {v for v, s in zip(jaxpr.invars[nk:], state) if s == 0}  # what depends on members
    for e in jaxpr.eqns:
        if any(type(v) is not Literal and v in mixed for v in e.invars):
            mixed.update(e.outvars)
    state = [s if s != SUM or v in mixed else None for s, v in zip(state, jaxpr.outvars)]
    mixed.update(v for v, s in zip(jaxpr.invars[nk:], state) if s == SUM)
    carried = dict(zip(jaxpr.invars[nk : nk + nc], state))

    def plan_of(hows):
        wanted: dict = {}
        for v, a in hows:
            if type(v) is not Literal:
                wanted.setdefault(v, {})[a] = True
            elif a is not None:
                raise Refused
        plan = _wanted(jaxpr, wanted, n, part, mixed)
        if any(SUM in wanted.get(v, ()) for v in jaxpr.invars if carried.get(v) != SUM):
            raise Refused
        return wanted, plan

    def first_way(v):
        ways = _ways(v, n, mixed)
        for a in ways[:-1]:
            try:
                wanted, _ = plan_of([(v, a)])
            except Refused:
                continue
            if all(set(wanted.get(c, ())) <= {s} for c, s in carried.items()):
                return a
        return ways[-1]

    rows = [_ways(v, n, mixed)[0] for v in jaxpr.outvars[nc:]]
    try:
        wanted, plan = plan_of(zip(jaxpr.outvars, [*state, *rows]))
    except Refused:
        rows = [first_way(v) for v in jaxpr.outvars[nc:]]
        wanted, plan = plan_of(zip(jaxpr.outvars, [*state, *rows]))
    if any(set(wanted.get(v, ())) - {None} for v, s in carried.items() if s is None):
        raise Refused
    return wanted, plan, state, [s if set(wanted.get(v, ())) <= {s} else None for v, s in carried.items()], rows


def _ways(v, n, mixed):
    """How a result of each step may be kept: cut along an axis, as a share of a sum, or whole."""
    if type(v) is Literal:
        return [None]
    axes = [a for a, k in enumerate(v.aval.shape) if k == n]
    return [*axes, SUM] if v in mixed else axes[:1] + [None] if axes[:1] == [0] else [None]


def cut(closed, num_consts, num_carry, length):
    """The Parts of a scan, or None where members depend on each other or there is too little work."""
    carries = closed.jaxpr.invars[num_consts : num_consts + num_carry]
    largest = max([v.aval for v in carries], key=lambda a: a.size, default=None)
    if length < 2 or largest is None or not largest.size or not largest.shape or all(largest.shape[0] % k for k in range(2, MOST + 1)):
        return None
    n = largest.shape[0]
    more, closed = convert_constvars(inline_calls(closed, CALLS))
    jaxpr, nk, nc = closed.jaxpr, len(more) + num_consts, num_carry
    if all(v.aval.size < LEAST for e in jaxpr.eqns for v in (*e.invars, *e.outvars)):
        return None
    if any(e.primitive.effects_of(e.params) for e in jaxpr.eqns):
        return None
    try:
        _, plan, *_ = _demands(jaxpr, nk, nc, n, n)
        count = _count(n, nbytes(largest) // n, length, _cost(jaxpr, plan))
        if count == 1:
            return None
        return _parts(jaxpr, nk, nc, more, count, n // count, *_demands(jaxpr, nk, nc, n, n // count))
    except Refused:
        return None


def _parts(jaxpr, nk, nc, more, count, part, wanted, plan, state, rows):
    """The Parts of which each has `part` members."""
    ins = []
    for i, v in enumerate(jaxpr.invars):
        ins += [(i, state[i - nk])] if nk <= i < nk + nc else [(i, b) for b in wanted.get(v, ())]
    outs = list(zip(jaxpr.outvars, [*state, *rows]))
    extra, body = _staged(jaxpr, ins, outs, plan, wanted, part)
    consts, xs = ([(i, b) for i, b in ins if mine(i)] for mine in (lambda i: i < nk, lambda i: i >= nk + nc))
    return Parts(count, body, extra, more, consts, xs, state, rows)


def _staged(jaxpr, ins, outs, plan, wanted, part):
    """(arrays, a jaxpr that takes them first) of a body for `part` members."""
    steps: dict = {}
    for (k, a), how in plan.items():
        steps.setdefault(k, []).append((a, how))

    def shorter(x, a):
        return ShapedArray(swapped(x.shape, a, part), x.dtype, x.weak_type) if type(a) is int else x

    def fun(*args):
        env = {(jaxpr.invars[i], b): x for (i, b), x in zip(ins, args)}

        def read(v, b):
            return v.val if type(v) is Literal else env[v, b] if type(v) is Var else v

        for k, e in enumerate(jaxpr.eqns):
            for a, how in steps.get(k, ()):
                if a == LOOP:
                    extra, inner = _staged(how.jaxpr, how.ins, how.outs, how.plan, how.wanted, part)
                    params = dict(how.params, jaxpr=inner, num_consts=len(extra) + how.params["num_consts"])
                    got, axes = e.primitive.bind(*extra, *[read(v, b) for v, b in how.operands], **params), how.axes
                else:
                    got = e.primitive.bind(*[read(v, b) for v, b in zip(e.invars, how[0])], **how[1])
                    got = got if e.primitive.multiple_results else [got]
                    axes = [next((b for b in wanted.get(o, ()) if _of_operand(e, j, b) == a), a) for j, o in enumerate(e.outvars)]
                for o, x, b in zip(e.outvars, got, axes):
                    if o in wanted and get_aval(x).shape != shorter(o.aval, b).shape:
                        raise Refused
                    env[o, b] = x
        return [read(v, a) for v, a in outs]

    return hoist(fun, [shorter(jaxpr.invars[i].aval, b) for i, b in ins], jaxpr.debug_name)


def parts_of_rows(closed, length):
    """How many parts the rows of a scan without carries are cut into; 1 where that does not pay."""
    try:
        ns = _least(closed.jaxpr) * length
    except Refused:
        return 1
    counts = [k for k in range(2, MOST + 1) if length % k == 0] if ns >= WORTH else []
    return max(counts, key=lambda k: (k % 2 == 0, k), default=1)


def _least(jaxpr):
    """ns that a row takes at least."""
    total = 0
    for e in jaxpr.eqns:
        made, read = sum(o.aval.size for o in e.outvars), max([v.aval.size for v in e.invars], default=0)
        if max(made, read) > BROAD or e.primitive.effects_of(e.params):
            raise Refused
        if e.primitive.name in (*CALLS, *LOOPS):
            turns = e.params.get("length", UNKNOWN) if e.primitive.name in LOOPS[:2] else 1
            total += turns * sum(map(_least, sub_jaxprs(e.params)))
        elif e.primitive.kind not in MOVABLE:
            raise Refused
        elif e.primitive.kind != "view":
            total += max(MAPPED, _took(e, made, read))
    return total
