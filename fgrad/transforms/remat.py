"""checkpoint: the backward pass recomputes what the forward pass would have stored (Griewank & Walther, 2000)."""

import functools

from fgrad import tree
from fgrad.core import Primitive, convert_constvars, eval_jaxpr, get_aval, stage, using_trace
from fgrad.ops.rules import Linear, Zero, move_axis
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import merge, partial_eval_jaxpr, split, split_residuals
from fgrad.transforms.transpose import backward_pass
from fgrad.transforms.vmap import batch_jaxpr

optimization_barrier_p = Primitive(
    "optimization_barrier",
    multiple_results=True,
    abstract_eval=lambda *avals: list(avals),
    jvp=lambda primals, tangents: (optimization_barrier_p.bind(*primals), tangents),
    transpose=lambda cts, *args: cts,
    batch=lambda axis, args, dims: (optimization_barrier_p.bind(*args), dims),
    lower=lambda ctx, ins, params, out_avals: ctx.barrier(ins),
)


def _jvp(primals, tangents, *, jaxpr):
    out, nz = jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents])
    consts, out = convert_constvars(out)
    outs = remat_p.bind(*consts, *primals, *[t for t in tangents if type(t) is not Zero], jaxpr=out)
    n = len(nz)
    ts = iter(outs[n:])
    return outs[:n], [next(ts) if z else Zero(get_aval(o).tangent_aval()) for o, z in zip(outs, nz)]


def _partial_eval(trace, args, params):
    unknown = [trace.is_unknown(x) for x in args]
    known, staged, out_uk, forwarded = partial_eval_jaxpr(params["jaxpr"], unknown)
    uk, kn = split(unknown, args)
    n, nk = out_uk.count(False), len(kn)
    with using_trace(trace.parent):
        known_outs = eval_jaxpr(known.jaxpr, known.consts, *kn)[:n]

    def recompute(*xs):
        _, res = split_residuals(eval_jaxpr(known.jaxpr, known.consts, *xs[:nk]), n, xs[:nk], forwarded)
        return eval_jaxpr(staged.jaxpr, staged.consts, *res, *xs[nk:])

    consts, jaxpr = convert_constvars(stage(recompute, [get_aval(x) for x in (*kn, *uk)], "checkpoint"))
    return merge(out_uk, trace.stage_eqn(remat_p, (*consts, *kn, *uk), dict(jaxpr=jaxpr)), known_outs)


def _transpose(cts, *args, jaxpr):
    lin = [type(x) is Linear for x in args]
    linear, known = split(lin, args)
    known = optimization_barrier_p.bind(*known) if known else []
    return backward_pass(jaxpr.jaxpr, jaxpr.consts, merge(lin, linear, known), cts)


def _batch(axis, args, dims, *, jaxpr):
    out, mask = batch_jaxpr(jaxpr, axis, [d is not None for d in dims])
    consts, out = convert_constvars(out)
    outs = remat_p.bind(*consts, *[x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)], jaxpr=out)
    return outs, [0 if m else None for m in mask]


remat_p = Primitive(
    "checkpoint",
    multiple_results=True,
    abstract_eval=lambda *avals, jaxpr: jaxpr.out_avals,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    partial_eval=_partial_eval,
    kind="call",
    lower=lambda ctx, ins, params, out_avals: ctx.inline(params["jaxpr"], ins),
    effects=lambda p: p["jaxpr"].effects,
)


def checkpoint(fun):
    """fun, whose intermediate values are recomputed in the backward pass instead of stored."""

    @functools.wraps(fun)
    def wrapped(*args, **kwargs):
        leaves, treedef = tree.flatten((args, kwargs))
        out = [None]

        def flat(*xs):
            a, kw = tree.unflatten(treedef, xs)
            outs, out[0] = tree.flatten(fun(*a, **kw))
            return outs

        consts, jaxpr = convert_constvars(stage(flat, [get_aval(x) for x in leaves], getattr(fun, "__name__", "checkpoint")))
        return tree.unflatten(out[0], remat_p.bind(*consts, *leaves, jaxpr=jaxpr))

    return wrapped


__all__ = ["checkpoint", "optimization_barrier_p", "remat_p"]
