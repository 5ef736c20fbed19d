"""Scans over a batch whose members know nothing of each other: each part of the batch goes through all steps by itself.

Threads then meet once a loop, not at each operation of each step, and what a part carries stays in its core's cache. Where every operation
of a body keeps one axis, the batch, apart, the body is staged again for a part of it, and one instruction runs that for all parts. How many
there are depends on shapes alone, and so do the values.
"""

import math
from typing import NamedTuple

from fgrad.control.common import hoist
from fgrad.core import ClosedJaxpr, Literal, ShapedArray, convert_constvars, get_aval
from fgrad.ops.dot import free_axes
from fgrad.ops.shape import transpose
from fgrad.transforms.remat import inline_calls

CALLS = ("jit", "custom_jvp_call", "custom_vjp_call")
SUM = "sum"  # beside axes: the parts' values add up to the whole one
LEAST = 512  # elements of the largest value of a step below which the loop is flat code
WORTH = 100_000  # ns of all steps below which to wake threads costs too much of them
OP, KERNEL = 15, 200  # ns that an elementwise operation and another instruction take however little they do
MOST = 16  # parts
LINE = 64  # bytes of a line of the cache, where parts had better begin
WEIGHTS = 1 << 20  # bytes of matrices that each part multiplies by at each step
FEW, ROWS = 4, 16  # rows of a part's products with such matrices, of two parts and of more
MOVABLE = ("kernel", "elementwise", "view", "reduce")  # kinds of primitives that each part may do again
CHEAP = frozenset(
    "add sub mul div neg abs square sqrt max min floor ceil trunc round_even sign copysign integer_pow fma clamp select and or xor not eq "
    "ne lt le gt ge shift_left shift_right_logical shift_right_arithmetic convert_element_type is_finite real imag conj copy".split()
)
ALONG = frozenset(
    "take_along put_along argmax argmin nanargmax nanargmin cumsum cumprod cummax cummin cumlogsumexp linear_recurrence other_products "
    "softmax softmax_tangent log_softmax log_softmax_tangent log_softmax_cotangent logsumexp softmax_logsumexp moments top_k sort".split()
)
LAST = frozenset("rms_norm rms_norm_tangent layer_norm layer_norm_tangent".split())
REMOVED = frozenset("argmax argmin nanargmax nanargmin logsumexp moments".split())  # of ALONG: the axis is not in the result


class Parts(NamedTuple):
    """A scan in `number` parts. body: one's; it takes the arrays `extra`, then consts, carries and rows of xs.

    Consts and xs are (number among the arrays `more` and the scan's operands, the axis of a step's along which they are cut, or None).
    Carries and ys: that axis, SUM where the parts' add up, None where each part has all of them. An axis that is cut comes first.
    """

    number: int
    body: ClosedJaxpr
    extra: list
    more: list
    consts: list
    xs: list
    carries: list
    ys: list


class _Refused(Exception):
    """Some operation mixes members."""


def nbytes(aval):
    return aval.size * aval.dtype.itemsize


def _swap(values, i, n):
    return (*values[:i], n, *values[i + 1 :])


def _elementwise(e, a, n):
    return [a if v.aval.shape else None for v in e.invars], e.params


def _broadcast(e, a, n):
    dims, shape = e.params["broadcast_dimensions"], e.params["shape"]
    at = None
    if a in dims and e.invars[0].aval.shape[dims.index(a)] == shape[a]:
        at = dims.index(a)
    return [at], dict(e.params, shape=_swap(shape, a, n))


def _reshape(e, a, n):
    old, new = e.invars[0].aval.shape, e.params["new_sizes"]
    before = math.prod(new[:a])
    at = [i for i, k in enumerate(old) if k == new[a] and math.prod(old[:i]) == before]
    if len(at) != 1:
        raise _Refused
    return at, dict(e.params, new_sizes=_swap(new, a, n))


def _transpose(e, a, n):
    return [e.params["permutation"][a]], e.params


def _slice(e, a, n):
    p, size = e.params, e.invars[0].aval.shape[a]
    if p["start_indices"][a] or p["limit_indices"][a] != size or p["strides"] and p["strides"][a] != 1:
        raise _Refused
    return [a], dict(p, limit_indices=_swap(p["limit_indices"], a, n))


def _other_axes(name):
    def rule(e, a, n):
        at = e.params[name]
        if a in (at if isinstance(at, tuple) else (at,)):
            raise _Refused
        return [a] * len(e.invars), e.params

    return rule


def _along(e, a, n):
    at = e.params["dimension" if e.primitive.name == "sort" else "axis"]
    if e.primitive.name in REMOVED:
        a += a >= at
    if a == at:
        raise _Refused
    return [a] * len(e.invars), e.params


def _along_last(e, a, n):
    if a == len(e.invars[0].aval.shape) - 1:
        raise _Refused
    return [a] * len(e.invars), e.params


def _reduce(e, a, n):
    kept = [i for i in range(len(e.invars[0].aval.shape)) if i not in e.params["axes"]]
    return [kept[a]], e.params


def _pad(e, a, n):
    if tuple(e.params["padding_config"][a]) != (0, 0, 0):
        raise _Refused
    return [a, None], e.params


def _iota(e, a, n):
    if a == e.params["dimension"]:
        raise _Refused
    return [], dict(e.params, shape=_swap(e.params["shape"], a, n))


def _dot(e, a, n):
    (lc, rc), (lb, rb) = e.params["dimension_numbers"]
    if a < len(lb):
        return [lb[a], rb[a]], e.params
    a -= len(lb)
    left, right = (free_axes(len(v.aval.shape), c, b) for v, c, b in zip(e.invars, (lc, rc), (lb, rb)))
    return ([left[a], None] if a < len(left) else [None, right[a - len(left)]]), e.params


def _dynamic_slice(e, a, n):
    sizes, start = e.params["slice_sizes"], e.invars[1 + a]
    if sizes[a] != e.invars[0].aval.shape[a] or type(start) is not Literal or start.val != 0:
        raise _Refused
    return [a, *[None] * len(sizes)], dict(e.params, slice_sizes=_swap(sizes, a, n))


def _dynamic_update_slice(e, a, n):
    x, update, start = e.invars[0].aval, e.invars[1].aval, e.invars[2 + a]
    if update.shape[a] != x.shape[a] or type(start) is not Literal or start.val != 0:
        raise _Refused
    return [a, a, *[None] * len(x.shape)], e.params


def _gather(e, a, n):
    d, sizes, shape = e.params["dimension_numbers"], e.params["slice_sizes"], e.invars[0].aval.shape
    if a in d.offset_dims:  # an axis of the slices, all of which is taken
        window = [i for i in range(len(shape)) if i not in d.collapsed_slice_dims and i not in d.operand_batching_dims]
        at = window[d.offset_dims.index(a)]
        if at in d.start_index_map or sizes[at] != shape[at]:
            raise _Refused
        return [at, None], dict(e.params, slice_sizes=_swap(sizes, at, n))
    at = a - sum(o < a for o in d.offset_dims)
    if at in d.start_indices_batching_dims:
        return [d.operand_batching_dims[d.start_indices_batching_dims.index(at)], at], e.params
    return [None, at], e.params


def _scatter(e, a, n):
    d, x, updates = e.params["dimension_numbers"], e.invars[0].aval, e.invars[2].aval
    batch = [i for i in range(len(updates.shape)) if i not in d.update_window_dims]
    if a in d.operand_batching_dims:
        at = d.scatter_indices_batching_dims[d.operand_batching_dims.index(a)]
        return [a, at, batch[at]], e.params
    window = [i for i in range(len(x.shape)) if i not in d.inserted_window_dims and i not in d.operand_batching_dims]
    if a not in window or a in d.scatter_dims_to_operand_dims:
        raise _Refused
    at = d.update_window_dims[window.index(a)]
    if updates.shape[at] != x.shape[a]:
        raise _Refused
    return [a, None, at], e.params


def _bitcast(e, a, n):
    if e.invars[0].aval.shape != e.outvars[0].aval.shape:
        raise _Refused
    return [a], e.params


def _matrices(e, a, n):
    if a >= len(e.invars[0].aval.shape) - 2:
        raise _Refused
    return [a] * len(e.invars), e.params


def _conv(e, a, n):
    dn = e.params["dimension_numbers"]
    if a != dn.out_spec[0] or e.params["batch_group_count"] != 1:
        raise _Refused
    return [dn.lhs_spec[0], None], e.params


def _keys(e, a, n):
    if a >= len(e.invars[0].aval.shape) - 1:
        raise _Refused
    return [a], e.params


RULES = {
    "broadcast_in_dim": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "rev": _other_axes("dimensions"),
    "concatenate": _other_axes("dimension"),
    "split": _other_axes("axis"),
    "pad": _pad,
    "iota": _iota,
    "dot_general": _dot,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "bitcast_convert_type": _bitcast,
    "cholesky": _matrices,
    "triangular_solve": _matrices,
    "conv_general_dilated": _conv,
    "threefry_bits": _keys,
    "threefry_split": _keys,
    **dict.fromkeys(("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"), _scatter),
    **dict.fromkeys(ALONG, _along),
    **dict.fromkeys(LAST, _along_last),
}
KINDS = {"elementwise": _elementwise, "reduce": _reduce}


def _rule(e):
    return RULES.get(e.primitive.name) or KINDS.get(e.primitive.kind)


def _shares(e, n, part, mixed):
    """How the operands are read where the parts' results are to add up to the whole one; mixed: which depend on members."""
    name, p = e.primitive.name, e.params
    shares = [SUM if m else None for m in mixed]
    if name in ("add", "sub") and all(mixed) or name in ("neg", "transpose", "reshape", "broadcast_in_dim"):
        return shares, p
    if name == "mul" and not all(mixed) or name == "div" and not mixed[1] and e.invars[0].aval.dtype.kind not in "iu":
        return shares, p
    if name == "convert_element_type" and e.invars[0].aval.dtype.kind == e.outvars[0].aval.dtype.kind:
        return shares, p
    if name == "reduce_sum":
        at = [a for a in p["axes"] if e.invars[0].aval.shape[a] == n]
        return (at[:1] if at else shares), p
    if name == "dot_general":
        (lc, rc), _ = p["dimension_numbers"]
        at = [[a, b] for a, b in zip(lc, rc) if e.invars[0].aval.shape[a] == n]
        if at or not all(mixed):
            return (at[0] if at else shares), p
    raise _Refused


def _of_operand(e, j, a):
    """The axis of a result of the equation, the j-th, as it is called in its first result or, where that loses one, in its operand."""
    both = e.primitive.name == "softmax_logsumexp" and j == 1 and type(a) is int
    return a + (a >= e.params["axis"]) if both else a


def _wanted(jaxpr, wanted, n, part, mixed):
    """{(equation's number, axis): (axes of the operands, params)} of what must be computed so that each variable of `wanted` is there cut
    along its axes (None: whole), to which the operands' are added."""
    plan = {}
    for k in range(len(jaxpr.eqns) - 1, -1, -1):
        e = jaxpr.eqns[k]
        for a in {_of_operand(e, j, b) for j, o in enumerate(e.outvars) for b in wanted.get(o, ())}:
            if a is None:
                if e.primitive.kind not in MOVABLE:
                    raise _Refused
                axes, params = [None] * len(e.invars), e.params
            elif a == SUM:
                axes, params = _shares(e, n, part, [type(v) is not Literal and v in mixed for v in e.invars])
            else:
                rule = _rule(e)
                if rule is None:
                    raise _Refused
                axes, params = rule(e, a, part)
            plan[k, a] = axes, params
            for v, b in zip(e.invars, axes):
                if type(v) is not Literal:
                    wanted.setdefault(v, {})[b] = True
                elif b is not None:
                    raise _Refused
    return plan


def _cost(jaxpr, plan):
    """(ns of a step by the size of its values, ns by its instructions, ns of what each part does again, bytes of the matrices that all
    members multiply by, elements of the largest value)."""
    ns = fixed = again = weights = most = 0
    for (k, a), (axes, _) in plan.items():
        e = jaxpr.eqns[k]
        if e.primitive.kind == "view":
            continue
        made = sum(o.aval.size for o in e.outvars)
        read = max([v.aval.size for v, b in zip(e.invars, axes) if b is not None], default=0)
        if e.primitive.name == "dot_general":
            (lc, _), _ = e.params["dimension_numbers"]
            took = made * math.prod([e.invars[0].aval.shape[c] for c in lc]) / 60
        elif e.primitive.kind == "elementwise":
            took = made * (0.025 if e.primitive.name in CHEAP else 0.3)
        else:
            took = 0.3 * max(made, read)
        if a is None or a == SUM and e.primitive.name not in ("reduce_sum", "dot_general"):
            again += took
            continue
        ns += took
        again += made * 0.05 if a == SUM else 0
        fixed += OP if e.primitive.kind == "elementwise" else KERNEL
        most = max(most, made, read)
        if e.primitive.name == "dot_general":
            weights += sum(nbytes(v.aval) for v, b in zip(e.invars, axes) if b is None and len(v.aval.shape) > 1)
    return ns, fixed, again, weights, most


def _count(n, member, length, cost):
    """How many parts a batch of n is cut into, a member of it having so many bytes; 1 where that does not pay."""
    ns, fixed, again, weights, most = cost
    if most < LEAST or (ns + fixed) * length < WORTH or weights > WEIGHTS or again > ns / 16 or ns < fixed:
        return 1
    limit = min(ns // (8 * fixed), MOST)
    if weights:
        limit = min(limit, n // ROWS)
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
    except _Refused:
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
    raise _Refused


def _tried(jaxpr, nk, nc, n, part, state):
    """(what is read, the plan, how carries are kept, None where that fails, how each of ys is made)."""
    mixed = {v for v, s in zip(jaxpr.invars[nk:], state) if s is not None}  # what depends on members
    for e in jaxpr.eqns:
        if any(type(v) is not Literal and v in mixed for v in e.invars):
            mixed.update(e.outvars)
    state = [s if s != SUM or v in mixed else None for s, v in zip(state, jaxpr.outvars)]
    carried = dict(zip(jaxpr.invars[nk : nk + nc], state))

    def plan_of(hows):
        wanted: dict = {}
        for v, a in hows:
            if type(v) is not Literal:
                wanted.setdefault(v, {})[a] = True
            elif a is not None:
                raise _Refused
        plan = _wanted(jaxpr, wanted, n, part, mixed)
        if any(SUM in wanted.get(v, ()) for v in jaxpr.invars if carried.get(v) != SUM):
            raise _Refused
        return wanted, plan

    def first_way(v):
        ways = _ways(v, n, mixed)
        for a in ways[:-1]:
            try:
                wanted, _ = plan_of([(v, a)])
            except _Refused:
                continue
            if all(set(wanted.get(c, ())) <= {s} for c, s in carried.items()):
                return a
        return ways[-1]

    rows = [_ways(v, n, mixed)[0] for v in jaxpr.outvars[nc:]]
    try:
        wanted, plan = plan_of(zip(jaxpr.outvars, [*state, *rows]))
    except _Refused:
        rows = [first_way(v) for v in jaxpr.outvars[nc:]]
        wanted, plan = plan_of(zip(jaxpr.outvars, [*state, *rows]))
    if any(set(wanted.get(v, ())) - {None} for v, s in carried.items() if s is None):
        raise _Refused
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
    except _Refused:
        return None


def _parts(jaxpr, nk, nc, more, count, part, wanted, plan, state, rows):
    """The Parts of which each has `part` members."""
    ins = []
    for i, v in enumerate(jaxpr.invars):
        ins += [(i, state[i - nk])] if nk <= i < nk + nc else [(i, b) for b in wanted.get(v, ())]
    outs = list(zip(jaxpr.outvars, [*state, *rows]))
    steps: dict = {}
    for (k, a), how in plan.items():
        steps.setdefault(k, []).append((a, how))

    def shorter(aval, a):
        return aval if a is None or a == SUM else ShapedArray(_swap(aval.shape, a, part), aval.dtype, aval.weak_type)

    def in_front(aval, a):
        return (
            aval if not a or a == SUM else ShapedArray((aval.shape[a], *aval.shape[:a], *aval.shape[a + 1 :]), aval.dtype, aval.weak_type)
        )

    def fun(*args):
        env = {}
        for (i, b), x in zip(ins, args):
            env[jaxpr.invars[i], b] = moveaxis(x, 0, b) if b and b != SUM else x
        for k, e in enumerate(jaxpr.eqns):
            for a, (axes, params) in steps.get(k, ()):
                got = e.primitive.bind(*[v.val if type(v) is Literal else env[v, b] for v, b in zip(e.invars, axes)], **params)
                for j, (o, x) in enumerate(zip(e.outvars, got if e.primitive.multiple_results else [got])):
                    b = next((b for b in wanted.get(o, ()) if _of_operand(e, j, b) == a), a)
                    if o in wanted and get_aval(x).shape != shorter(o.aval, b).shape:
                        raise _Refused
                    env[o, b] = x
        values = [v.val if type(v) is Literal else env[v, a] for v, a in outs]
        return [moveaxis(x, a, 0) if a and a != SUM else x for x, (_, a) in zip(values, outs)]

    extra, body = hoist(fun, [in_front(shorter(jaxpr.invars[i].aval, b), b) for i, b in ins], jaxpr.debug_name)
    consts, xs = ([(i, b) for i, b in ins if mine(i)] for mine in (lambda i: i < nk, lambda i: i >= nk + nc))
    return Parts(count, body, extra, more, consts, xs, state, rows)


def moveaxis(x, a, b):
    """x with its axis a at b."""
    order = [i for i in range(get_aval(x).ndim) if i != a]
    return transpose(x, (*order[:b], a, *order[b:]))
