"""while_loop and fori_loop."""

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.config import config
from fgrad.control import in_python
from fgrad.control.common import carries_as_consts, flat_fun, hoist, leaf_avals, live, nonzeros, passed_on, run, strong_leaf
from fgrad.control.loops import _check_carry, _settle, scan_of
from fgrad.core import Literal, Primitive, ShapedArray, concrete_or_none, eval_jaxpr, get_aval, to_array, using_trace
from fgrad.core.float0 import flatten_live, flatten_live_with_entries
from fgrad.core.kept import once
from fgrad.core.refs import bound, values_of, watching, write_back
from fgrad.dtypes import BOOL
from fgrad.errors import NotDifferentiableError
from fgrad.ops.elementwise import add, convert_element_type, like, lt, select
from fgrad.ops.reduce import reduce_or
from fgrad.ops.rules import Zero, bdim_at_front, broadcast_in_dim, instantiate, move_axis
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import dce_jaxpr, keep, merge, pruned, split
from fgrad.transforms.vmap import batch_jaxpr


def _aval(*avals, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    return body_jaxpr.out_avals


def _lower(ctx, ins, params, out_avals):
    ip = (params["cond_nconsts"], params["body_nconsts"], len(out_avals))
    return ctx.control("while", [params["cond_jaxpr"], params["body_jaxpr"]], ins, out_avals, ip, [*out_avals, ShapedArray((), BOOL)])


def _bind(carry, cond, body):
    """while_p of flat functions of the carry: what they close over becomes consts."""
    avals = leaf_avals(carry)
    ck, cj = hoist(cond, avals, "cond")
    bk, bj = hoist(body, avals, "body")
    return while_p.bind(*ck, *bk, *carry, cond_jaxpr=cj, body_jaxpr=bj, cond_nconsts=len(ck), body_nconsts=len(bk))


def _jvp(primals, tangents, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    a, b = cond_nconsts, cond_nconsts + body_nconsts
    nz = nonzeros(tangents)
    nz_c = nz[b:]
    while True:
        jvp, out_nz = jvp_jaxpr(body_jaxpr, [*nz[a:b], *nz_c], nz_c)
        grown = [x or y for x, y in zip(nz_c, out_nz)]
        if grown == nz_c:
            break
        nz_c = grown
    ck, bk, carry, t_k = primals[:a], primals[a:b], primals[b:], live(tangents[a:b])
    n = len(carry)
    t_c = [instantiate(t) for t, z in zip(tangents[b:], nz_c) if z]
    outs = _bind([*carry, *t_c], lambda *x: run(cond_jaxpr, *ck, *x[:n]), lambda *x: run(jvp, *bk, *x[:n], *t_k, *x[n:]))
    ts = iter(outs[n:])
    return outs[:n], [next(ts) if z else Zero(get_aval(o).tangent_aval()) for o, z in zip(outs, nz_c)]


def _transpose(cts, *args, **params):
    raise NotDifferentiableError(
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values. "
        "Try using lax.scan, or using fori_loop with static start/stop."
    )


def _batch(axis, args, dims, *, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    a, b = cond_nconsts, cond_nconsts + body_nconsts
    bt = [d is not None for d in dims]
    bt_c = bt[b:]
    while True:
        body, out_b = batch_jaxpr(body_jaxpr, axis, [*bt[a:b], *bt_c], bt_c)
        cond, (pred_b,) = batch_jaxpr(cond_jaxpr, axis, [*bt[:a], *bt_c])
        grown = [x or y or pred_b for x, y in zip(bt_c, out_b)]
        if grown == bt_c:
            break
        bt_c = grown
    ks = [x if d is None else move_axis(x, d, 0) for x, d in zip(args[:b], dims[:b])]
    carry = [bdim_at_front(x, d, axis.size) if m else x for x, d, m in zip(args[b:], dims[b:], bt_c)]

    def any_pred(*c):
        (p,) = run(cond, *ks[:a], *c)
        return [reduce_or(p, (0,)) if pred_b else p]

    def step(*c):
        new = run(body, *ks[a:], *c)
        if not pred_b:
            return new
        (p,) = run(cond, *ks[:a], *c)
        return [select(broadcast_in_dim(p, get_aval(o).shape, (0,)), x, o) for x, o in zip(new, c)]

    return _bind(carry, any_pred, step), [0 if m else None for m in bt_c]


while_p = Primitive(
    "while",
    multiple_results=True,
    abstract_eval=_aval,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=_lower,
    kind="call",
    effects=lambda p: p["cond_jaxpr"].effects | p["body_jaxpr"].effects,
)


def _partial_eval(trace, args, params):
    """Carries that depend on no unknown value are run now; the whole loop is staged for the others."""
    a, b = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    unknown = [trace.is_unknown(x) for x in args]
    cj, bj = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    uk_c = unknown[b:]
    while True:
        uk_out = _depends(bj, [*unknown[a:b], *uk_c])
        grown = [x or y for x, y in zip(uk_c, uk_out)]
        if grown == uk_c:
            break
        uk_c = grown
    if _depends(cj, [*unknown[:a], *uk_c])[0] or all(uk_c) or params["body_jaxpr"].effects or params["cond_jaxpr"].effects:
        return trace.stage_eqn(while_p, args, params)
    keep = [i for i, u in enumerate(uk_c) if not u]
    carry, n = [args[b + i] for i in keep], len(uk_c)

    def slice_of(jaxpr, outs, consts):
        slim, used = dce_jaxpr(jaxpr, outs)
        full_args = [*consts, *[None] * n]

        def fun(*c):
            vals = list(full_args)
            for i, x in zip(keep, c):
                vals[len(consts) + i] = x
            ins = [(v, x) for v, x, u in zip(slim.invars, vals, used) if u]
            return eval_jaxpr(slim.replace(invars=[v for v, _ in ins]), [], *[x for _, x in ins])

        return fun

    with using_trace(trace.parent):
        known = _bind(carry, slice_of(cj, [True], args[:a]), slice_of(bj, [not u for u in uk_c], args[a:b]))
    staged = trace.stage_eqn(while_p, args, params)
    got = dict(zip(keep, known))
    return [got[i] if i in got else staged[i] for i in range(n)]


def _depends(jaxpr, unknown):
    """Which outputs depend on the unknown inputs."""
    seen = {v for v, u in zip(jaxpr.invars, unknown) if u}
    for e in jaxpr.eqns:
        if any(type(v) is not Literal and v in seen for v in e.invars):
            seen.update(e.outvars)
    return [type(v) is not Literal and v in seen for v in jaxpr.outvars]


while_p.partial_eval = _partial_eval


def _dce(eqn, used_outs):
    """Drop carries that neither a used result nor the condition depends on."""
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    carry = list(used_outs)
    while True:
        cond, used_c = pruned(p["cond_jaxpr"], [True], [*[False] * a, *carry])
        body, used_b = pruned(p["body_jaxpr"], carry, [*[False] * (b - a), *carry])
        grown = [x or y for x, y in zip(used_c[a:], used_b[b - a :])]
        if grown == carry:
            break
        carry = grown
    ins = [*used_c[:a], *used_b[: b - a], *carry]
    counts = dict(cond_nconsts=sum(used_c[:a]), body_nconsts=sum(used_b[: b - a]))
    return keep(eqn, ins, carry, cond_jaxpr=cond, body_jaxpr=body, **counts)


while_p.dce = _dce


def while_loop(cond_fun, body_fun, init_val):
    """val = init_val; while cond_fun(val): val = body_fun(val). Forward-mode differentiable only.

    Raises TypeError where cond_fun gives no boolean scalar or body_fun changes the type of its carry.

    >>> from fgrad import lax
    >>> int(lax.while_loop(lambda n: n < 100, lambda n: n * 3, 1))
    243
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise TypeError("lax.while_loop: body_fun and cond_fun arguments should be callable.")
    return _while_of(body_fun, "while", cond_fun, body_fun, init_val)


def _while_of(owner, what, cond_fun, body_fun, init_val):
    """while_loop whose body is made in the way `what` of the function `owner`, by which its stagings are found again."""
    paths, treedef = flatten_live_with_entries(init_val)
    leaves = [strong_leaf(x) for _, x in paths]
    if config.disable_jit:
        ran, val = in_python.while_loop(cond_fun, body_fun, init_val)
        if ran:
            return val
    args_tree = flatten_live((init_val,))[1]

    def staged(owner, what, fun, avals, name):
        def make():
            out = [None]
            return *hoist(flat_fun(fun, args_tree, out), avals, name), out[0]

        return once(owner, (what, args_tree, *avals), frame, make)

    def stage_body(carry):
        made = staged(owner, what, body_fun, leaf_avals(carry), "body")
        return made, made[1].out_avals

    with watching() as frame:
        leaves, ((bk, bj, out_tree), outs) = _settle(leaves, stage_body)
        ck, cj, cond_tree = staged(cond_fun, "while_cond", cond_fun, leaf_avals(leaves), "cond")
    if frame.touched:
        return _while_of_refs([*frame.touched], cond_fun, body_fun, init_val)
    _check_carry("while_loop body", owner if what == "while" else None, [p for p, _ in paths], leaf_avals(leaves), treedef, outs, out_tree)
    if cond_tree.num_nodes != 1:
        raise TypeError(f"cond_fun must return a boolean scalar, but got pytree {cond_tree}.")
    if len(cj.out_avals) != 1 or cj.out_avals[0].shape or cj.out_avals[0].dtype != BOOL:
        raise TypeError(f"cond_fun must return a boolean scalar, but got output type(s) {cj.out_avals}.")
    used = pruned(cj, [True])[1][len(ck) :]
    same = [p and not u for p, u in zip(passed_on(bj, len(bk), len(leaves)), used)]
    if any(same):
        bj = carries_as_consts(bj, len(bk), same)
        cj, _ = pruned(cj, [True], [*[True] * len(ck), *[not m for m in same]])
    moved, varying = split(same, leaves)
    out = while_p.bind(*ck, *bk, *moved, *varying, cond_jaxpr=cj, body_jaxpr=bj, cond_nconsts=len(ck), body_nconsts=len(bk) + len(moved))
    return tree.unflatten(treedef, merge(same, moved, out))


def _while_of_refs(refs, cond_fun, body_fun, init_val):
    """while_loop of functions that read and write mutable arrays: their values are further carries."""

    def cond(carry):
        with bound(refs, carry[1]):
            return cond_fun(carry[0])

    def body(carry):
        with bound(refs, carry[1]) as frame:
            out = body_fun(carry[0])
        written.update(frame.written)
        return out, [frame.values[r] for r in refs]

    written: dict = {}
    val, values = while_loop(cond, body, (init_val, values_of(refs)))
    write_back(refs, [v if r in written else None for r, v in zip(refs, values)])
    return val


def _index_dtype(lower, upper):
    """The dtype of fori_loop's index: that of both bounds, of which one may be weakly typed."""
    if lower.dtype == upper.dtype:
        return lower.dtype
    if lower.dtype.kind == upper.dtype.kind == "i" and lower.weak_type != upper.weak_type:
        return upper.dtype if lower.weak_type else lower.dtype
    raise TypeError(f"lower and upper arguments to fori_loop must have equal types, got {lower.dtype.name} and {upper.dtype.name}")


def fori_loop(lower, upper, body_fun, init_val, *, unroll=None):
    """val = init_val; for i in range(lower, upper): val = body_fun(i, val). With concrete bounds it is a scan, with a reverse mode.

    lower, upper: scalars of one dtype. i has that dtype, or is a weakly typed integer where the bounds are concrete.
    unroll: as for scan; ValueError where the bounds are traced.

    >>> from fgrad import lax
    >>> int(lax.fori_loop(0, 5, lambda i, total: total + i, 0))
    10
    """
    if not callable(body_fun):
        raise TypeError(f"lax.fori_loop: body_fun argument should be callable, got {body_fun!r:.80}.")
    avals = [get_aval(lower), get_aval(upper)]
    for what, a in zip(("lower", "upper"), avals):
        if a.shape or a.dtype.kind not in "iufbV":
            raise TypeError(f"fori_loop: {what} must be a real scalar, got {a}")
    dtype = _index_dtype(*avals)
    bounds = concrete_or_none(lower), concrete_or_none(upper)
    if bounds[0] is not None and bounds[1] is not None:
        lo, hi = map(int, bounds)
        counter = dtypes.INT64 if config.enable_x64 else dtypes.INT32
        if not (limits := np.iinfo(counter)).min <= lo <= hi <= limits.max and lo < hi:
            raise OverflowError(f"fori_loop: the bounds {lo} and {hi} do not fit into {counter.name}; 64-bit integers need jax_enable_x64")
        step = lambda c, _: ((add(c[0], like(c[0], 1)), body_fun(c[0], c[1])), None)
        (_, out), _ = scan_of(
            body_fun, step, "fori", (to_array(lo), init_val), None, max(hi - lo, 0), False, 1 if unroll is None else unroll
        )
        return out
    if unroll is not None and unroll is not False and unroll != 1:
        raise ValueError("Can only use `unroll` in `fori_loop` if the loop bounds are statically known.")
    weak = all(a.weak_type for a in avals)
    lo, hi = (convert_element_type(strong_leaf(x), dtype, weak) for x in (lower, upper))
    step = lambda c: (add(c[0], like(c[0], 1)), body_fun(c[0], c[1]))
    return _while_of(body_fun, "fori_while", lambda c: lt(c[0], hi), step, (lo, init_val))[1]


__all__ = ["fori_loop", "while_loop", "while_p"]
