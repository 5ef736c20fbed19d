"""The scan primitive and its rules."""

from fgrad.config import config
from fgrad.control.common import hoist, leaf_avals, live, nonzeros, run, without_repeats
from fgrad.control.handed import steps_at_once, steps_until_back
from fgrad.control.member_axes import SUM
from fgrad.control.members import cut, parts_of_rows
from fgrad.core import Jaxpr, Literal, Primitive, ShapedArray, context, eval_jaxpr, get_aval, using_trace
from fgrad.ops.elementwise import add
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Linear, Zero, bdim_at_front, instantiate, like, move_axis
from fgrad.ops.shape import concatenate, expand_dims, index_in_dim, pad, reshape, slice_in_dim
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import TangentTrace, keep, merge, partial_eval_jaxpr, pruned, split
from fgrad.transforms.transpose import backward_pass
from fgrad.transforms.vmap import batch_jaxpr


def _parts(xs, nk, nc):
    return list(xs[:nk]), list(xs[nk : nk + nc]), list(xs[nk + nc :])


def row_aval(a):
    """The type of one row of a value of type `a`."""
    return ShapedArray(a.shape[1:], a.dtype, a.weak_type)


def _scan_aval(*avals, jaxpr, length, reverse, num_consts, num_carry, unroll):
    outs = jaxpr.out_avals
    return [*outs[:num_carry], *[ShapedArray((length, *a.shape), a.dtype, a.weak_type) for a in outs[num_carry:]]]


def _scan_lower(ctx, ins, params, out_avals):
    if config.pass_motion:
        ins, params = _given_once(ins, params)
    nk, nc, length, n = params["num_consts"], params["num_carry"], params["length"], params["unroll"]
    has_rows = len(ins) > nk + nc or len(out_avals) > nc
    if n == 1 and config.pass_motion:
        n = _laid_out(params["jaxpr"], nk, nc, length, has_rows, len(out_avals) > nc)
    if 1 < n < length and has_rows and config.pass_members and cut(params["jaxpr"], nk, nc, length) is not None:
        n = 1  # rows of several steps, in parts, do not lie in one piece
    if n > 1 and length:
        return ctx.compose(lambda *args: _unrolled(args, **dict(params, unroll=n)), ins)
    if config.pass_members and not nc and len(ins) > nk and (n := parts_of_rows(params["jaxpr"], length)) > 1:
        return _lower_rows(ctx, ins, n, params, out_avals)
    if config.pass_members and (parts := cut(params["jaxpr"], nk, nc, length)) is not None:
        return _lower_parts(ctx, ins, parts, params, out_avals)
    ip = (nk, nc, len(ins) - nk - nc, len(out_avals) - nc, length, params["reverse"])
    return ctx.control("scan", [params["jaxpr"]], ins, out_avals, ip, out_avals[:nc])


def _given_once(ins, params):
    """A scan whose consts are all different: of indices that each step makes anew, motion makes as many arrays."""
    first, nk = {}, params["num_consts"]
    same = [first.setdefault(v.key(), i) for i, v in enumerate(ins[:nk])]
    if len(first) == nk:
        return ins, params
    jaxpr = without_repeats(params["jaxpr"], [*same, *range(nk, len(ins))])
    return [v for i, v in enumerate(ins) if i >= nk or same[i] == i], {**params, "jaxpr": jaxpr, "num_consts": len(first)}


def _laid_out(jaxpr, nk, nc, length, has_rows, has_ys):
    """How many steps are best laid out one after the other."""
    n = steps_until_back(jaxpr, nk, nc)
    if has_rows and max([a.size for a in jaxpr.out_avals[:nc]], default=0) < 16:
        n = 1  # rows of single numbers cost as much as to hand these on
    if n == 1 and not has_ys:
        n = steps_at_once(jaxpr, nk, nc, length)
    return n if 2 * n <= length else 1


def _lower_rows(ctx, ins, n, params, out_avals):
    """A scan that carries nothing, its rows in n parts: one step, in which each part is a scan."""
    nk, rows = params["num_consts"], params["length"] // n
    avals = [ShapedArray(v.shape, v.dtype) for v in params["jaxpr"].in_avals]
    avals[nk:] = [ShapedArray((rows, *a.shape), a.dtype) for a in avals[nk:]]
    more, body = hoist(lambda *args: scan_p.bind(*args, **dict(params, length=rows)), avals, params["jaxpr"].jaxpr.debug_name)
    consts, xs = [*map(ctx.constant, more), *ins[:nk]], [ctx.reshape(v, (1, *v.shape)) for v in ins[nk:]]
    ip = (len(consts), 0, len(xs), len(out_avals), 1, False, n, *[False] * len(consts), *[True] * len(xs))
    outs = ctx.control("members", [body], [*consts, *xs], [ShapedArray((1, *a.shape), a.dtype) for a in out_avals], ip)
    return [ctx.reshape(v, v.shape[1:]) for v in outs]


def _lower_parts(ctx, ins, parts, params, out_avals):
    """A scan whose parts go through all steps by themselves; carries and ys that are not cut get an axis of parts."""
    nk, nc, length, n = params["num_consts"], params["num_carry"], params["length"], parts.number
    given = [*map(ctx.constant, parts.more), *ins]
    first = len(parts.more) + nk

    def of_parts(a, how, at):
        shape = a.shape
        if how is not None and how != SUM:
            shape = (*shape[: how + at], shape[how + at] // n, *shape[how + at + 1 :])
        return a if how == 0 else ShapedArray((*shape[:at], n, *shape[at:]), a.dtype)

    def in_front(v, how, at):
        """v with the parts of an axis that is cut at `at`: those of the first one lie there."""
        if not how:
            return v
        i, shape, strides = how + at, v.shape, v.strides
        v = ctx.view(v, (*shape[:i], n, shape[i] // n, *shape[i + 1 :]), (*strides[:i], shape[i] // n * strides[i], *strides[i:]))
        return ctx.transpose(v, (*range(at), i, *[k for k in range(at, len(shape) + 1) if k != i]))

    def at_first(v, how):
        if how is None:
            return ctx.broadcast(v, (n, *v.shape), range(1, 1 + len(v.shape)))
        if how == 0:
            return v
        rest = [(0, n - 1, 0), *[(0, 0, 0)] * len(v.shape)]
        return ctx.compose(lambda x: [pad(expand_dims(x, (0,)), like(x, 0), rest)], [v])[0]

    def at_last(v, how, at):
        if how == SUM:
            return ctx.compose(lambda x: [reduce_sum(x, (at,))], [v])[0]
        if how is None:
            return ctx.view(v, (*v.shape[:at], *v.shape[at + 1 :]), (*v.strides[:at], *v.strides[at + 1 :]))
        if how == 0:
            return v
        order = [k for k in range(len(v.shape)) if k != at]
        v = ctx.transpose(v, (*order[: at + how], at, *order[at + how :]))
        i, shape = at + how, v.shape
        return ctx.reshape(v, (*shape[:i], n * shape[i + 1], *shape[i + 2 :]))

    carry = [at_first(v, how) for v, how in zip(given[first : first + nc], parts.carries)]
    avals = [of_parts(a, how, 0) for a, how in zip(out_avals, parts.carries)]
    avals += [of_parts(a, how, 1) for a, how in zip(out_avals[nc:], parts.ys)]
    consts = [*[(ctx.constant(x), None) for x in parts.extra], *[(in_front(given[i], a, 0), a) for i, a in parts.consts]]
    xs = [(in_front(given[i], a, 1), a) for i, a in parts.xs]
    cuts = [a is not None for _, a in (*consts, *xs)]
    ip = (len(consts), nc, len(xs), len(out_avals) - nc, length, params["reverse"], n, *cuts)
    outs = ctx.control("members", [parts.body], [*[v for v, _ in consts], *carry, *[v for v, _ in xs]], avals, ip, avals[:nc])
    hows = [*[(how, 0) for how in parts.carries], *[(how, 1) for how in parts.ys]]
    return [at_last(v, how, at) for v, (how, at) in zip(outs, hows)]


def _bind(consts, carry, xs, fun, length, reverse, unroll, name):
    """scan_p of a flat function of (*consts, *carry, *xs): what it closes over becomes more consts."""
    avals = [*leaf_avals([*consts, *carry]), *[row_aval(get_aval(x)) for x in xs]]
    more, jaxpr = hoist(fun, avals, name)
    return scan_p.bind(
        *more,
        *consts,
        *carry,
        *xs,
        jaxpr=jaxpr,
        length=length,
        reverse=reverse,
        num_consts=len(more) + len(consts),
        num_carry=len(carry),
        unroll=unroll,
    )


def _unrolled(args, *, jaxpr, length, reverse, num_consts, num_carry, unroll):
    """The same scan with `unroll` steps laid out in one iteration, and what is left over behind it."""
    nk, nc = num_consts, num_carry
    consts, carry, xs = _parts(args, nk, nc)
    unroll = min(unroll, length)
    blocks, rest = divmod(length, unroll)

    def steps(consts, carry, xs, n):
        """n steps one after another: (carry, ys stacked)."""
        rows = []
        for i in reversed(range(n)) if reverse else range(n):
            out = run(jaxpr, *consts, *carry, *[index_in_dim(x, i, 0, keepdims=False) for x in xs])
            carry, ys = out[:nc], out[nc:]
            rows.append([expand_dims(y, (0,)) for y in ys])
        rows = rows[::-1] if reverse else rows
        return carry, [concatenate(list(col), 0) for col in zip(*rows)]

    def part(lo, hi):
        return [slice_in_dim(x, lo, hi) for x in xs]

    if unroll == length:  # no loop is left
        carry, ys = steps(consts, carry, xs, length)
        return [*carry, *ys]
    start = rest if reverse else 0
    main = [reshape(x, (blocks, unroll, *get_aval(x).shape[1:])) for x in part(start, start + blocks * unroll)]

    def body(*a):
        c, ys = steps(a[:nk], a[nk : nk + nc], a[nk + nc :], unroll)
        return [*c, *ys]

    outs = _bind(consts, carry, main, body, blocks, reverse, 1, jaxpr.jaxpr.debug_name)
    carry, ys = outs[:nc], [reshape(y, (blocks * unroll, *get_aval(y).shape[2:])) for y in outs[nc:]]
    if rest:
        carry, more = steps(consts, carry, part(0, rest) if reverse else part(blocks * unroll, length), rest)
        ys = [concatenate([b, a] if reverse else [a, b], 0) for a, b in zip(ys, more)]
    return [*carry, *ys]


def _scan_jvp(primals, tangents, *, jaxpr, length, reverse, num_consts, num_carry, unroll):
    nk, nc = num_consts, num_carry
    nz_k, nz_c, nz_x = _parts(nonzeros(tangents), nk, nc)
    n_out = len(jaxpr.out_avals)
    while True:  # a carry has a tangent if its initial value or what the body makes of it has one
        jvp, out_nz = jvp_jaxpr(jaxpr, [*nz_k, *nz_c, *nz_x], [*nz_c, *[False] * (n_out - nc)])
        grown = [a or b for a, b in zip(nz_c, out_nz[:nc])]
        if grown == nz_c:
            break
        nz_c = grown
    pk, pc, px = _parts(primals, nk, nc)
    tk, tc, tx = _parts(tangents, nk, nc)
    tk, tx, tc = live(tk), live(tx), [instantiate(t) for t, nz in zip(tc, nz_c) if nz]
    ntk, ntc = len(tk), len(tc)

    def body(*args):
        k, t_k, c, t_c = args[:nk], args[nk : nk + ntk], args[nk + ntk : nk + ntk + nc], args[nk + ntk + nc : nk + ntk + nc + ntc]
        rest = args[nk + ntk + nc + ntc :]
        outs = run(jvp, *k, *c, *rest[: len(px)], *t_k, *t_c, *rest[len(px) :])
        p, t = outs[:n_out], outs[n_out:]
        return [*p[:nc], *t[:ntc], *p[nc:], *t[ntc:]]

    outs = _bind([*pk, *tk], [*pc, *tc], [*px, *tx], body, length, reverse, unroll, jaxpr.jaxpr.debug_name)
    ys = outs[nc + ntc :]
    ny = n_out - nc
    ts = iter([*outs[nc : nc + ntc], *ys[ny:]])
    primals_out = [*outs[:nc], *ys[:ny]]
    return primals_out, [next(ts) if nz else Zero(get_aval(o).tangent_aval()) for o, nz in zip(primals_out, out_nz)]


def _invariant(jaxpr, nk):
    """(equations that depend on the first nk inputs only, their variables)."""
    known, eqns = set(jaxpr.constvars) | set(jaxpr.invars[:nk]), []
    for e in jaxpr.eqns:
        if not e.primitive.effects_of(e.params) and all(type(v) is Literal or v in known for v in e.invars):
            known.update(e.outvars)
            eqns.append(e)
    return eqns, known


def _scan_partial_eval(trace, args, params):
    jaxpr, nk, nc = params["jaxpr"], params["num_consts"], params["num_carry"]
    length, reverse, unroll, name = params["length"], params["reverse"], params["unroll"], jaxpr.jaxpr.debug_name
    uk_k, uk_c, uk_x = _parts([trace.is_unknown(x) for x in args], nk, nc)
    while True:
        known, staged, out_uk, forwarded = partial_eval_jaxpr(jaxpr, [*uk_k, *uk_c, *uk_x])
        grown = [a or b for a, b in zip(uk_c, out_uk[:nc])]
        if grown == uk_c:
            break
        uk_c = grown
    k, c, x = _parts(args, nk, nc)
    (k_uk, k_kn), (c_uk, c_kn), (x_uk, x_kn) = split(uk_k, k), split(uk_c, c), split(uk_x, x)
    nkk, nck = len(k_kn), len(c_kn)
    n_known = out_uk.count(False)
    # Known outputs: carries that stay known, carries known after one step whose initial value is unknown, ys.
    known_at = [i for i, u in enumerate(out_uk) if not u]
    carry_at = [j for j, i in enumerate(known_at) if i < nc and not uk_c[i]]
    late_at = [j for j, i in enumerate(known_at) if i < nc and uk_c[i]]
    ys_at = [j for j, i in enumerate(known_at) if i >= nc]
    fresh_at = iter(range(n_known, len(known.jaxpr.outvars)))
    eqns, same = _invariant(known.jaxpr, nkk)
    where, invariant, stacked, direct = [], [], [], []  # of each residual: (kind, position)
    for f in forwarded:
        v = known.jaxpr.invars[f] if f is not None else known.jaxpr.outvars[next(fresh_at)]
        if type(v) is Literal or v in same:
            where.append(("k", len(invariant)))
            invariant.append(v)
        elif f is not None and f >= nkk + nck:
            where.append(("x", len(direct)))
            direct.append(x_kn[f - nkk - nck])
        else:
            where.append(("y", len(stacked)))
            stacked.append(v)
    j = known.jaxpr
    outer = Jaxpr(j.constvars, j.invars[:nkk], invariant, eqns, debug_name=name)
    inner = j.replace(outvars=[*[j.outvars[i] for i in (*carry_at, *ys_at, *late_at)], *stacked])
    with using_trace(trace.parent):
        res_k = eval_jaxpr(outer, known.consts, *k_kn)
        outs = _bind(k_kn, c_kn, x_kn, lambda *a: eval_jaxpr(inner, known.consts, *a), length, reverse, unroll, name)
    known_carry, ys, rest = outs[:nck], outs[nck : nck + len(ys_at)], outs[nck + len(ys_at) :]
    late, res_y = rest[: len(late_at)], rest[len(late_at) :]
    late_index = {known_at[jj]: i for i, jj in enumerate(late_at)}
    n_rk, n_uk, n_cu, n_l, n_ry, n_rx = len(res_k), len(k_uk), len(c_uk), len(late), len(res_y), len(direct)

    def body(*a):
        a = iter(a)
        rk, ku, cu, lt, ry, rx = ([next(a) for _ in range(n)] for n in (n_rk, n_uk, n_cu, n_l, n_ry, n_rx))
        res = [{"k": rk, "y": ry, "x": rx}[kind][i] for kind, i in where]
        got = iter(run(staged, *res, *ku, *cu, *a))
        full = [next(got) if u else None for u in out_uk]
        carry = [full[i] if out_uk[i] else lt[late_index[i]] for i in range(nc) if uk_c[i]]
        return [*carry, *[full[i] for i in range(nc, len(full)) if out_uk[i]]]

    operands = [[*res_k, *k_uk], c_uk, [*late, *res_y, *direct, *x_uk]]
    avals = [*leaf_avals([*operands[0], *operands[1]]), *[row_aval(get_aval(v)) for v in operands[2]]]
    more, staged_body = hoist(body, avals, name)
    staged_outs = trace.stage_eqn(
        scan_p,
        (*more, *operands[0], *operands[1], *operands[2]),
        dict(jaxpr=staged_body, length=length, reverse=reverse, num_consts=len(more) + len(operands[0]), num_carry=n_cu, unroll=unroll),
    )
    return merge([*uk_c, *out_uk[nc:]], staged_outs, [*known_carry, *ys])


def _linear_carry(jaxpr, lin_k, lin_c, lin_x):
    """Which carries depend on a linear argument, at once or after some steps."""
    lin_c = list(lin_c)
    while True:
        seen = {v for v, lin in zip(jaxpr.jaxpr.invars, [*lin_k, *lin_c, *lin_x]) if lin}
        for e in jaxpr.jaxpr.eqns:
            if any(type(v) is not Literal and v in seen for v in e.invars):
                seen.update(e.outvars)
        grown = [a or (type(v) is not Literal and v in seen) for a, v in zip(lin_c, jaxpr.jaxpr.outvars)]
        if grown == lin_c:
            return lin_c
        lin_c = grown


def _transpose_linear_part(cts, args, params):
    """The transpose where some carries are not linear (a counter): they run forward first, and what the others need of them is kept."""
    trace = TangentTrace("scan", context.trace)
    ins = [trace.new_arg(x.aval) if type(x) is Linear else x for x in args]
    try:
        with using_trace(trace):
            outs = _scan_partial_eval(trace, ins, params)
            unknown = [trace.is_unknown(o) for o in outs]
            linear = trace.to_jaxpr([o for o, u in zip(outs, unknown) if u])
    finally:
        trace.done = True
    back = iter(
        backward_pass(linear.jaxpr, linear.consts, [x for x in args if type(x) is Linear], [ct for ct, u in zip(cts, unknown) if u])
    )
    return [next(back) if type(x) is Linear else None for x in args]


def _scan_transpose(cts, *args, **params):
    jaxpr, nk, nc = params["jaxpr"], params["num_consts"], params["num_carry"]
    length, reverse, unroll = params["length"], params["reverse"], params["unroll"]
    lin = [type(a) is Linear for a in args]
    lin_k, lin_c, lin_x = _parts(lin, nk, nc)
    lin_out = _linear_carry(jaxpr, lin_k, lin_c, lin_x)
    if not all(lin_out):
        return _transpose_linear_part(cts, args, params)
    # A carry whose initial tangent is a known value (zero) is linear in the body all the same.
    body_lin = [*lin_k, *[True] * nc, *lin_x]
    k, c, x = _parts(args, nk, nc)
    k_lin, k_res = split(lin_k, k)
    x_lin, x_res = split(lin_x, x)
    ct_c = [instantiate(ct) for ct in cts[:nc]]
    zero_y = [type(ct) is Zero for ct in cts[nc:]]
    n_r, n_l, n_xr = len(k_res), len(k_lin), len(x_res)
    in_avals, y_avals = jaxpr.in_avals, jaxpr.out_avals[nc:]

    def body(*a):
        res, acc, ct, xr, ys = (
            a[:n_r],
            a[n_r : n_r + n_l],
            a[n_r + n_l : n_r + n_l + nc],
            a[n_r + n_l + nc : n_r + n_l + nc + n_xr],
            iter(a[n_r + n_l + nc + n_xr :]),
        )
        given = iter([*res, *xr])
        full = [Linear(av) if ln else next(given) for av, ln in zip(in_avals, body_lin)]
        ct_y = [Zero(av) if z else next(ys) for av, z in zip(y_avals, zero_y)]
        out = backward_pass(jaxpr.jaxpr, jaxpr.consts, full, [*ct, *ct_y])
        ok, oc, ox = _parts(out, nk, nc)
        ok = [s if type(t) is Zero else add(s, t) for s, t in zip(acc, [t for t, ln in zip(ok, lin_k) if ln])]
        return [*ok, *[instantiate(t) for t in oc], *[instantiate(t) for t, ln in zip(ox, lin_x) if ln]]

    acc = [instantiate(Zero(v.aval.strong())) for v in k_lin]
    outs = _bind(k_res, [*acc, *ct_c], [*x_res, *live(cts[nc:])], body, length, not reverse, unroll, jaxpr.jaxpr.debug_name)
    got = merge(body_lin, outs, [None] * len(args))
    return [ct if ln else None for ct, ln in zip(got, lin)]


def _scan_batch(axis, args, dims, *, jaxpr, length, reverse, num_consts, num_carry, unroll):
    nk, nc = num_consts, num_carry
    b_k, b_c, b_x = _parts([d is not None for d in dims], nk, nc)
    while True:
        batched, out_b = batch_jaxpr(jaxpr, axis, [*b_k, *b_c, *b_x], [*b_c, *[False] * (len(jaxpr.out_avals) - nc)])
        grown = [a or b for a, b in zip(b_c, out_b[:nc])]
        if grown == b_c:
            break
        b_c = grown
    k, c, x = _parts(list(zip(args, dims)), nk, nc)
    front = [
        *[v if d is None else move_axis(v, d, 0) for v, d in k],
        *[bdim_at_front(v, d, axis.size) if b else v for (v, d), b in zip(c, b_c)],
        *[v if d is None else move_axis(v, d, 1) for v, d in x],
    ]
    outs = scan_p.bind(*front, jaxpr=batched, length=length, reverse=reverse, num_consts=nk, num_carry=nc, unroll=unroll)
    return outs, [(0 if i < nc else 1) if b else None for i, b in enumerate(out_b)]


scan_p = Primitive(
    "scan",
    multiple_results=True,
    abstract_eval=_scan_aval,
    jvp=_scan_jvp,
    transpose=_scan_transpose,
    batch=_scan_batch,
    partial_eval=_scan_partial_eval,
    lower=_scan_lower,
    kind="call",
    effects=lambda p: p["jaxpr"].effects,
)


def _dce(eqn, used_outs):
    """Drop unused ys, and carries that nothing used depends on."""
    jaxpr, nk, nc = eqn.params["jaxpr"], eqn.params["num_consts"], eqn.params["num_carry"]
    used_carry, used_ys = list(used_outs[:nc]), list(used_outs[nc:])
    while True:
        slim, used = pruned(jaxpr, [*used_carry, *used_ys], [*[False] * nk, *used_carry, *[False] * (len(eqn.invars) - nk - nc)])
        if used[nk : nk + nc] == used_carry:
            break
        used_carry = used[nk : nk + nc]
    outs = [*used_carry, *used_ys]
    return keep(eqn, used, outs, jaxpr=slim, num_consts=sum(used[:nk]), num_carry=sum(used_carry))


scan_p.dce = _dce


__all__ = ["row_aval", "scan_p"]
