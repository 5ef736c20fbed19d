"""custom_vmap_call: a staged function whose batching is a rule of the user's."""

from fgrad.core import Primitive, eval_jaxpr, get_aval
from fgrad.ops.rules import Zero, bdim_at_front, instantiate, move_axis
from fgrad.transforms.jvp import jvp_flat, jvp_jaxpr
from fgrad.transforms.transpose import transpose_by_call


def _inline(*args, call_jaxpr, rule):
    return eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _batch(axis, args, dims, *, call_jaxpr, rule):
    """rule(size, batched, args at axis 0) -> (outs, batched outs)."""
    front = [x if d is None else move_axis(x, d, 0) for x, d in zip(args, dims)]
    outs, batched = rule(axis.size, [d is not None for d in dims], front)
    return outs, [0 if b else None for b in batched]


def _jvp(primals, tangents, *, call_jaxpr, rule):
    """The derivative is such a call too: its rule is the derivative of the rule."""
    nonzero = [type(t) is not Zero for t in tangents]
    out_jaxpr, out_nonzero = jvp_jaxpr(call_jaxpr, nonzero)
    n = len(primals)

    def jvp_rule(size, batched, args):
        given = iter(zip(batched[n:], args[n:]))
        all_primals, all_tangents, which = [], [], []
        for x, b, nz in zip(args[:n], batched[:n], nonzero):
            t_batched, t = next(given) if nz else (b, None)
            which.append(b or t_batched)
            all_primals.append(bdim_at_front(x, None, size) if t_batched and not b else x)
            if t is None:
                t = Zero(get_aval(all_primals[-1]).tangent_aval())
            all_tangents.append(bdim_at_front(t, None, size) if b and not t_batched and nz else t)
        out_batched = []

        def fun(*xs):
            outs, mapped = rule(size, which, list(xs))
            out_batched.extend(mapped)
            return outs

        outs, out_tangents = jvp_flat(fun, all_primals, all_tangents)
        live = [(instantiate(t), b) for t, b, nz in zip(out_tangents, out_batched, out_nonzero) if nz]
        return [*outs, *[t for t, _ in live]], [*out_batched, *[b for _, b in live]]

    args = [*primals, *[t for t in tangents if type(t) is not Zero]]
    outs = custom_vmap_call_p.bind(*args, call_jaxpr=out_jaxpr, rule=jvp_rule)
    k = len(call_jaxpr.out_avals)
    rest = iter(outs[k:])
    return outs[:k], [next(rest) if nz else Zero(a.tangent_aval()) for nz, a in zip(out_nonzero, call_jaxpr.out_avals)]


def _transpose(cts, *args, call_jaxpr, rule):
    return transpose_by_call(cts, args, call_jaxpr, lambda t, known, live: eval_jaxpr(t.jaxpr, t.consts, *known, *live))


custom_vmap_call_p = Primitive(
    "custom_vmap_call",
    multiple_results=True,
    abstract_eval=lambda *avals, call_jaxpr, rule: call_jaxpr.out_avals,
    impl=_inline,
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    # Reverse mode differentiates the function itself: its linear part is batched without the rule.
    partial_eval=lambda trace, args, params: _inline(*args, **params),
    lower=lambda ctx, ins, params, out_avals: ctx.inline(params["call_jaxpr"], ins),
    effects=lambda params: params["call_jaxpr"].effects,
    kind="custom",
)

__all__ = ["custom_vmap_call_p"]
