"""Points of a few coordinates that a loop carries are carried by columns, an array for each coordinate, where its steps reduce over them.

Rows of two or three numbers fill no vector: what a step computes of each point (a distance), and of that for each coordinate, would be
put in order again and again. So would arrays of points that no step changes.
"""

from functools import reduce

from fgrad.control.apart import moved
from fgrad.control.common import run
from fgrad.control.scan_rules import scan_p
from fgrad.control.while_loop import while_p
from fgrad.core import ClosedJaxpr, Literal, convert_constvars, get_aval, stage
from fgrad.ops.arithmetic import add, max, min
from fgrad.ops.casts import copy_p
from fgrad.ops.shape import broadcast_in_dim, concatenate, reshape, slice
from fgrad.transforms.linearize import dce_jaxpr
from fgrad.transforms.remat import inline_calls

MOST = 6  # coordinates
ROWS = 16  # points: fewer fill no vector
STEPS = 8  # of a loop: of fewer, what is done before and after it counts
LIMIT = 8 << 20  # bytes of stacked results that are put together after the loop
CALLS = ("jit", "custom_jvp_call", "custom_vjp_call")
FOLDS = {"reduce_sum": add, "reduce_max": max, "reduce_min": min}
TAKES = (*FOLDS, "slice", "split", "concatenate", "transpose")


class Whole(Exception):
    """A step takes points as they are."""


class Columns(tuple):
    """The columns of an array, each without its last axis. whole: the array, if it is at hand."""

    whole = None


class Turned(tuple):
    """The columns of an array whose last axis has become the first."""


def _shape(x):
    shape = get_aval(x[0] if type(x) in (Columns, Turned) else x).shape
    return (*shape, len(x)) if type(x) is Columns else (len(x), *shape) if type(x) is Turned else shape


def _few(shape):
    return len(shape) > 1 and 1 < shape[-1] <= MOST


def _is_points(aval):
    return _few(aval.shape) and aval.size >= ROWS * aval.shape[-1] and aval.dtype.kind in "fiu" and aval.dtype.itemsize >= 4


def _columns(x):
    """The columns of an array: views of it."""
    if type(x) is Columns:
        return x
    shape = get_aval(x).shape
    zeros = (0,) * (len(shape) - 1)
    return Columns([reshape(slice(x, (*zeros, k), (*shape[:-1], k + 1)), shape[:-1]) for k in range(shape[-1])])


def _rows(x):
    """The columns of an array that has been turned."""
    if type(x) is Turned:
        return x
    n, *rest = get_aval(x).shape
    return Turned([reshape(slice(x, (k, *[0 for _ in rest]), (k + 1, *rest)), rest) for k in range(n)])


def _joined(x):
    """The array."""
    if type(x) is Turned:
        return concatenate([reshape(c, (1, *get_aval(c).shape)) for c in x], 0)
    if type(x) is not Columns:
        return x
    if x.whole is not None:
        return x.whole
    shape = get_aval(x[0]).shape
    return concatenate([reshape(c, (*shape, 1)) for c in x], len(shape))


class _Step:
    """The evaluation of a body on columns, and whether it is worth it. carried: some of them are carried; pairs of others are computed by
    columns as it is (compile.columns), and what is small among them is copied there."""

    worth = False

    def __init__(self, carried):
        self.carried = carried

    def __call__(self, closed, args, n):
        """The results; the first n inputs are the same in each step."""
        jaxpr = closed.jaxpr
        env = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *args)))
        fixed = {*jaxpr.constvars, *jaxpr.invars[:n]}
        for e in jaxpr.eqns:
            ins = [v.val if type(v) is Literal else env[v] for v in e.invars]
            same = all(type(v) is Literal or v in fixed for v in e.invars)
            if same:
                fixed.update(e.outvars)
            if any(type(x) is Turned for x in ins):
                out = self.of_turned(e, ins, same)
            else:
                out = self.of_columns(e, ins, same) if any(type(x) is Columns for x in ins) else None
            if out is None:
                if any(type(x) in (Columns, Turned) and v not in fixed for v, x in zip(e.invars, ins)):
                    raise Whole
                out = e.primitive.bind_eqn(e, [_joined(x) for x in ins])
            env.update(zip(e.outvars, out if e.primitive.multiple_results else [out]))
        return [v.val if type(v) is Literal else env[v] for v in jaxpr.outvars]

    def of_columns(self, e, ins, same):
        """What an equation makes of columns; None if it takes whole arrays only."""
        name, p, out, x = e.primitive.name, e.params, e.outvars[0].aval, ins[0]
        if e.primitive.kind == "elementwise":
            operands = [_columns(x) if _shape(x) else (x,) * out.shape[-1] for x in ins]
            return Columns([e.primitive.bind_eqn(e, list(one)) for one in zip(*operands)])
        last = len(_shape(x)) - 1
        if same and not self.carried and len(out.shape) > len(_shape(x)):
            return None
        if name == "concatenate":
            if p["dimension"] < last:
                return Columns([concatenate(list(one), p["dimension"]) for one in zip(*map(_columns, ins))])
            self.worth |= not same
            return Columns([c for y in ins for c in _columns(y)]) if out.shape[-1] <= MOST else None
        if type(x) is not Columns:
            return None
        if name in FOLDS and out.dtype.kind != "b":
            axes = tuple([a for a in p["axes"] if a != last])
            if last not in p["axes"]:
                return Columns([e.primitive.bind(c, axes=axes) for c in x])
            self.worth |= not same
            total = reduce(FOLDS[name], x)
            return e.primitive.bind(total, axes=axes) if axes else total
        if name == "broadcast_in_dim" and p["broadcast_dimensions"][-1] == len(out.shape) - 1 and out.shape[-1] <= MOST:
            parts = [broadcast_in_dim(c, out.shape[:-1], p["broadcast_dimensions"][:-1]) for c in x]
            return Columns(parts * (out.shape[-1] // len(x)))
        if name == "reshape" and (len(x) == 1 or out.shape[-1:] == (len(x),)):
            return reshape(x[0], out.shape) if len(x) == 1 else Columns([reshape(c, out.shape[:-1]) for c in x])
        if name == "transpose" and p["permutation"][-1] == last:
            return Columns([e.primitive.bind(c, permutation=p["permutation"][:-1]) for c in x])
        if name == "transpose" and p["permutation"] == (last, *range(last)):
            return Turned(x)
        if name == "slice":
            (*lo, first), (*hi, end), (*steps, step) = p["start_indices"], p["limit_indices"], p["strides"]
            self.worth |= not same and out.shape[-1] < len(x)
            return Columns([slice(c, lo, hi, steps) for c in x[first:end:step]])
        if name == "split":
            if p["axis"] < last:
                return [Columns(piece) for piece in zip(*[e.primitive.bind(c, **p) for c in x])]
            self.worth |= not same
            ends = [sum(p["sizes"][: k + 1]) for k in range(len(p["sizes"]))]
            return [Columns(x[end - n : end]) for n, end in zip(p["sizes"], ends)]
        if name == "rev" and last not in p["dimensions"]:
            return Columns([e.primitive.bind(c, **p) for c in x])
        if name == "pad" and p["padding_config"][-1] == (0, 0, 0):
            return Columns([e.primitive.bind(c, ins[1], padding_config=p["padding_config"][:-1]) for c in x])
        return None

    def of_turned(self, e, ins, same):
        """What an equation makes of columns that lie along the first axis; None if it takes whole arrays only."""
        name, p, out, x = e.primitive.name, e.params, e.outvars[0].aval, ins[0]
        if any(type(y) is Columns for y in ins):
            return None
        if e.primitive.kind == "elementwise":
            operands = [_rows(x) if _shape(x) else (x,) * out.shape[0] for x in ins]
            return Turned([e.primitive.bind_eqn(e, list(one)) for one in zip(*operands)])
        if type(x) is not Turned:
            return None
        if name == "transpose" and p["permutation"] == (*range(1, len(out.shape)), 0):
            return Columns(x)
        if name == "reshape" and (len(x) == 1 or out.shape[:1] == (len(x),)):
            return reshape(x[0], out.shape) if len(x) == 1 else Turned([reshape(c, out.shape[1:]) for c in x])
        if name == "slice":
            (first, *lo), (end, *hi), (step, *steps) = p["start_indices"], p["limit_indices"], p["strides"]
            self.worth |= not same and out.shape[0] < len(x)
            return Turned([slice(c, lo, hi, steps) for c in x[first:end:step]])
        if name == "rev":
            inner = tuple([d - 1 for d in p["dimensions"] if d])
            x = x[::-1] if 0 in p["dimensions"] else x
            return Turned([e.primitive.bind(c, dimensions=inner) for c in x] if inner else x)
        if name in FOLDS and p["axes"] == (0,) and out.dtype.kind != "b":
            self.worth |= not same
            return reduce(FOLDS[name], x)
        return None


def _parts(avals, points):
    """Avals of inputs of which those that `points` marks are given by columns."""
    return [part for a, split in zip(avals, points) for part in ([a.update(shape=a.shape[:-1])] * a.shape[-1] if split else [a])]


def _together(parts, avals, points):
    it = iter(parts)
    return [Columns([next(it) for _ in range(a.shape[-1])]) if split else next(it) for a, split in zip(avals, points)]


def _apart(values, points):
    return [part for x, split in zip(values, points) for part in (_columns(x) if split else [_joined(x)])]


class _Body:
    """A body by columns: behind its nk consts it takes the columns of those that are points; of what follows, what `points` marks comes by
    columns, as do what `carried` marks of its first results, and those of the others that it makes so (ys)."""

    def __init__(self, step, closed, nk, points, carried):
        self.more, closed = convert_constvars(inline_calls(closed, CALLS))  # what calls closed over becomes more consts
        nk += len(self.more)
        consts, rest = closed.in_avals[:nk], closed.in_avals[nk:]
        self.fixed = [_is_points(a) for a in consts]
        known = [a for a, split in zip(consts, self.fixed) if split]
        parts = _parts(known, [True] * len(known))

        def fun(*args):
            given, columns, args = list(args[:nk]), args[nk : nk + len(parts)], args[nk + len(parts) :]
            it = iter(_together(columns, known, [True] * len(known)))
            for i, split in enumerate(self.fixed):
                if split:
                    x = next(it)
                    x.whole, given[i] = given[i], x
            out = step(closed, [*given, *_together(args, rest, points)], nk)
            ends = out[len(carried) :]
            self.ys = [type(y) is Columns for y in ends]
            return _apart(out, [*carried, *self.ys])

        whole = stage(fun, [*consts, *parts, *_parts(rest, points)], "points")
        slim, used = dce_jaxpr(whole.jaxpr, [True] * len(whole.out_avals))
        self.used = used[: nk + len(parts)]
        kept = [v for i, v in enumerate(whole.jaxpr.invars) if i >= len(self.used) or used[i]]
        self.closed, self.n = ClosedJaxpr(slim.replace(invars=kept), whole.consts), sum(self.used)

    def consts(self, given):
        """What the body takes as consts where it was given these."""
        given = [*self.more, *given]
        columns = [copy_p.bind(c) for x, split in zip(given, self.fixed) if split for c in _columns(x)]
        return [x for x, used in zip([*given, *columns], self.used) if used]


def _may_pay(closed):
    """True if anything in a body reduces over coordinates, or takes them apart or together."""
    return any(
        e.primitive.name in TAKES and any(_few(v.aval.shape) for v in (*e.invars, *e.outvars))
        for e in closed.eqns
        if e.primitive.kind != "call"
    )


def split_scan(eqn, move):
    """The loop as a jaxpr with columns of points in its carry, or None."""
    p = eqn.params
    a, b = p["num_consts"], p["num_consts"] + p["num_carry"]
    avals = [v.aval for v in eqn.invars]
    points = [_is_points(v) for v in avals[a:b]]
    if p["length"] < STEPS or not any(map(_is_points, avals[:b])) or not _may_pay(inline_calls(p["jaxpr"], CALLS)):
        return None
    step = _Step(any(points))
    try:
        body = _Body(step, p["jaxpr"], a, [*points, *[False] * (len(avals) - b)], points)
    except Whole:
        return None
    stacked = sum([v.aval.size * v.aval.dtype.itemsize for v, split in zip(eqn.outvars[b - a :], body.ys) if split])
    if not step.worth or stacked > LIMIT:
        return None

    carry = _parts(avals[a:b], points)
    how = {**p, "jaxpr": body.closed, "num_consts": body.n, "num_carry": len(carry)}
    loop = moved(lambda *args: scan_p.bind(*args, **how), [*body.closed.in_avals[: body.n], *carry, *avals[b:]], move)
    outs = [v.aval for v in eqn.outvars]

    def fun(*args):
        parts = run(loop, *body.consts(args[:a]), *_apart(args[a:b], points), *args[b:])
        return map(_joined, _together(parts, outs, [*points, *body.ys]))

    return stage(fun, avals, "scan")


def split_while(eqn, move):
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    avals = [v.aval for v in eqn.invars]
    points = [_is_points(v) for v in avals[b:]]
    if not any(map(_is_points, avals)) or not any(_may_pay(inline_calls(p[k], CALLS)) for k in ("cond_jaxpr", "body_jaxpr")):
        return None
    step = _Step(any(points))
    try:
        cond, body = _Body(step, p["cond_jaxpr"], a, points, []), _Body(step, p["body_jaxpr"], b - a, points, points)
    except Whole:
        return None
    if not step.worth:
        return None
    how = dict(cond_jaxpr=cond.closed, body_jaxpr=body.closed, cond_nconsts=cond.n, body_nconsts=body.n)
    given = [*cond.closed.in_avals[: cond.n], *body.closed.in_avals[: body.n], *_parts(avals[b:], points)]
    loop = moved(lambda *args: while_p.bind(*args, **how), given, move)

    def fun(*args):
        parts = run(loop, *cond.consts(args[:a]), *body.consts(args[a:b]), *_apart(args[b:], points))
        return map(_joined, _together(parts, avals[b:], points))

    return stage(fun, avals, "while")
