"""checkpoint: the backward pass recomputes what the forward pass would have stored (Griewank & Walther, 2000)."""

import functools

from fgrad import array_tree as tree
from fgrad.core import Literal, Primitive, convert_constvars, eval_jaxpr, get_aval, stage, using_trace, wraps
from fgrad.core.float0 import flatten_live
from fgrad.core.kept import once
from fgrad.core.refs import bound, values_of, watching, write_back
from fgrad.ops.rules import Linear, Zero, move_axis
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.linearize import dce_call, dce_jaxpr, merge, partial_eval_jaxpr, split
from fgrad.transforms.transpose import backward_pass
from fgrad.transforms.vmap import batch_jaxpr

# saves_memory: the barrier of a checkpoint, which the compiler takes away where there is no memory to save (compile/again.py)
optimization_barrier_p = Primitive(
    "optimization_barrier",
    multiple_results=True,
    abstract_eval=lambda *avals, **params: list(avals),
    jvp=lambda primals, tangents, **params: (optimization_barrier_p.bind(*primals, **params), tangents),
    transpose=lambda cts, *args, **params: cts,
    batch=lambda axis, args, dims, **params: (optimization_barrier_p.bind(*args, **params), dims),
    lower=lambda ctx, ins, params, out_avals: ctx.barrier(ins, params.get("saves_memory", False)),
)


def _jvp(primals, tangents, *, jaxpr, **how):
    out, nz = jvp_jaxpr(jaxpr, [type(t) is not Zero for t in tangents])
    consts, out = convert_constvars(out)
    outs = remat_p.bind(*consts, *primals, *[t for t in tangents if type(t) is not Zero], jaxpr=out, **how)
    n = len(nz)
    ts = iter(outs[n:])
    return outs[:n], [next(ts) if z else Zero(get_aval(o).tangent_aval()) for o, z in zip(outs, nz)]


def _partial_eval(trace, args, params):
    """Run what is known, storing what the policy allows; stage the rest behind a recomputation of its residuals."""
    unknown = [trace.is_unknown(x) for x in args]
    known, staged, out_uk, forwarded = partial_eval_jaxpr(params["jaxpr"], unknown)
    uk, kn = split(unknown, args)
    n, nk = out_uk.count(False), len(kn)
    saved = []
    if params["policy"] is not None:
        known = inline_calls(known)
        saved = _saveable(known.jaxpr, params["policy"])
    jaxpr, used = _recomputation(known.jaxpr, n, saved)
    keep_kn = [i for i in range(nk) if used[i] or i in forwarded]
    keep_saved = [v for v, u in zip(saved, used[nk:]) if u]
    forward = known.jaxpr.replace(outvars=[*known.jaxpr.outvars[:n], *keep_saved])
    with using_trace(trace.parent):
        known_outs = eval_jaxpr(forward, known.consts, *kn)
    stored = [*[kn[i] for i in keep_kn], *known_outs[n:]]
    m = len(stored)
    at = {i: k for k, i in enumerate(keep_kn)}
    invars = [*[known.jaxpr.invars[i] for i in keep_kn], *keep_saved]

    def recompute(*xs):
        fresh = iter(eval_jaxpr(jaxpr.replace(invars=invars), known.consts, *xs[:m]))
        res = [next(fresh) if f is None else xs[at[f]] for f in forwarded]
        return eval_jaxpr(staged.jaxpr, staged.consts, *res, *xs[m:])

    consts, out = convert_constvars(stage(recompute, [get_aval(x) for x in (*stored, *uk)], "checkpoint"))
    return merge(out_uk, trace.stage_eqn(remat_p, (*consts, *stored, *uk), {**params, "jaxpr": out}), known_outs[:n])


def _saveable(jaxpr, policy):
    """The variables that the policy allows to be stored."""
    return [v for e in jaxpr.eqns if policy(e.primitive, *[v.aval for v in e.invars], **e.params) for v in e.outvars]


def _recomputation(jaxpr, n, saved):
    """(the jaxpr of the outputs after the first n, given the saved variables as further inputs, mask of the inputs it needs)."""
    given = set(saved)
    eqns = [e for e in jaxpr.eqns if not e.outvars or any(v not in given for v in e.outvars)]
    rest = jaxpr.replace(invars=[*jaxpr.invars, *saved], outvars=jaxpr.outvars[n:], eqns=eqns)
    return dce_jaxpr(rest, [True] * len(rest.outvars))


def inline_calls(closed, names=("jit",)):
    """The jaxpr with the calls of these primitives inlined, so that one sees what they are made of."""
    if not any(e.primitive.name in names for e in closed.eqns):
        return closed

    def evaluate(closed, args):
        env = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *args)))

        def read(v):
            return v.val if type(v) is Literal else env[v]

        for e in closed.eqns:
            ins = [read(v) for v in e.invars]
            if e.primitive.name in names:
                out = evaluate(e.params["jaxpr"] if "jaxpr" in e.params else e.params["call_jaxpr"], ins)
            else:
                out = e.primitive.bind_eqn(e, ins)
                out = out if e.primitive.multiple_results else [out]
            env.update(zip(e.outvars, out))
        return [read(v) for v in closed.jaxpr.outvars]

    return stage(lambda *args: evaluate(closed, args), closed.in_avals, closed.jaxpr.debug_name)


def _transpose(cts, *args, jaxpr, policy, prevent_cse):
    lin = [type(x) is Linear for x in args]
    linear, known = split(lin, args)
    if prevent_cse and known:
        known = optimization_barrier_p.bind(*known, saves_memory=True)
    return backward_pass(jaxpr.jaxpr, jaxpr.consts, merge(lin, linear, known), cts)


def _batch(axis, args, dims, *, jaxpr, **how):
    out, mask = batch_jaxpr(jaxpr, axis, [d is not None for d in dims])
    consts, out = convert_constvars(out)
    outs = remat_p.bind(*consts, *[x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)], jaxpr=out, **how)
    return outs, [0 if m else None for m in mask]


remat_p = Primitive(
    "checkpoint",
    multiple_results=True,
    abstract_eval=lambda *avals, jaxpr, **how: jaxpr.out_avals,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    partial_eval=_partial_eval,
    kind="call",
    lower=lambda ctx, ins, params, out_avals: ctx.inline(params["jaxpr"], ins),
    effects=lambda p: p["jaxpr"].effects,
)
remat_p.dce = dce_call


def _static_positions(static_argnums, n, name):
    nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    for i in nums:
        if not isinstance(i, int):
            raise TypeError(f"checkpoint of {name}: static_argnums must be an int or a tuple of ints, got {static_argnums!r}")
        if not -n <= i < n:
            raise ValueError(f"checkpoint of {name}: static_argnums {static_argnums} asks for argument {i} of {n} positional arguments")
    return {i % n for i in nums}


def checkpoint(fun=None, *, prevent_cse=True, policy=None, static_argnums=(), static_argnames=(), concrete=False):
    """fun, whose intermediate values are recomputed in the backward pass instead of stored.

    policy: which values are stored all the same: a function of fgrad.checkpoint_policies, or None for none of them.
    prevent_cse: keep the recomputation apart from the first computation, so that the compiler does not merge them (and
    store the values after all). static_argnums, static_argnames: arguments that are Python values, not traced.
    Without `fun` it gives a decorator. Raises NotImplementedError where `fun` has side effects (io_callback).

    >>> import fgrad, fgrad.numpy as jnp
    >>> f = fgrad.checkpoint(lambda x: jnp.sin(jnp.sin(x)), policy=fgrad.checkpoint_policies.dots_saveable)
    >>> float(fgrad.grad(f)(0.0))
    1.0
    """
    if concrete:
        raise NotImplementedError("checkpoint(concrete=True) is not supported: mark Python values with static_argnums")
    if fun is None:
        given = {"prevent_cse": prevent_cse, "policy": policy, "static_argnums": static_argnums, "static_argnames": static_argnames}
        return functools.partial(checkpoint, **given)
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint: policy must be a function of fgrad.checkpoint_policies or None, got {policy!r}")
    name = getattr(fun, "__name__", "checkpoint")
    static_names = {static_argnames} if isinstance(static_argnames, str) else {*static_argnames}

    def _of_refs(refs):
        """The checkpoint of a function that reads and writes mutable arrays: their values are further arguments and results."""

        def inner(values, *args, **kwargs):
            with bound(refs, values) as frame:
                out = fun(*args, **kwargs)
            return out, frame.results()

        def call(*args, **kwargs):
            shifted = tuple(i + 1 for i in _static_positions(static_argnums, len(args), name))
            of_values = checkpoint(inner, prevent_cse=prevent_cse, policy=policy, static_argnums=shifted, static_argnames=static_argnames)
            out, values = of_values(values_of(refs), *args, **kwargs)
            write_back(refs, values)
            return out

        return call

    @wraps(fun)
    def wrapped(*args, **kwargs):
        static = _static_positions(static_argnums, len(args), name)
        dynamic = [a for i, a in enumerate(args) if i not in static]
        kept = {k: v for k, v in kwargs.items() if k in static_names}
        leaves, treedef = tree.flatten((dynamic, {k: v for k, v in kwargs.items() if k not in kept}))
        avals = [get_aval(x) for x in leaves]

        def make():
            out = [None]

            def flat(*xs):
                a, kw = tree.unflatten(treedef, xs)
                a = iter(a)
                outs, out[0] = flatten_live(fun(*[x if i in static else next(a) for i, x in enumerate(args)], **kw, **kept))
                return outs

            return *convert_constvars(stage(flat, avals, name)), out[0]

        with watching() as frame:
            values = [(i, type(args[i]), args[i]) for i in sorted(static)] + [(k, type(v), v) for k, v in sorted(kept.items())]
            consts, jaxpr, out_tree = once(fun, ("checkpoint", tuple(values), treedef, *avals), frame, make)
        if frame.touched:
            return _of_refs([*frame.touched])(*args, **kwargs)
        if jaxpr.effects - {"debug"}:
            raise NotImplementedError(
                f"checkpoint of {name}: effects of {sorted(jaxpr.effects - {'debug'})} callbacks are not supported, because they "
                "would happen again when it is recomputed"
            )
        return tree.unflatten(out_tree, remat_p.bind(*consts, *leaves, jaxpr=jaxpr, policy=policy, prevent_cse=bool(prevent_cse)))

    return wrapped


__all__ = ["checkpoint", "optimization_barrier_p", "remat_p"]
