"""Primitives behind custom_jvp and custom_vjp: functions that bring their own derivative."""

from collections.abc import Callable

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, context, eval_jaxpr, from_scalar, get_aval
from fgrad.errors import NotDifferentiableError
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, instantiate, move_axis
from fgrad.transforms.backward import backward_pass
from fgrad.transforms.vmap import batch_flat_front


def _call_aval(*avals, call_jaxpr, **_):
    return call_jaxpr.out_avals


def _inline(ctx, ins, params, out_avals):
    return ctx.inline(params["call_jaxpr"], ins)


class _CustomCall(Primitive):
    """A staged call that is bound again, by an interpreter here or a user's, goes back through the custom protocol."""

    rebind: Callable  # of arguments and params, below

    def bind(self, *args, **params):
        return self.rebind(args, params)


custom_jvp_call_p = _CustomCall("custom_jvp_call", multiple_results=True, abstract_eval=_call_aval, lower=_inline, kind="custom")
custom_vjp_call_p = _CustomCall("custom_vjp_call", multiple_results=True, abstract_eval=_call_aval, lower=_inline, kind="custom")


def custom_jvp_call(fun, jvp, args, name):
    """fun(*args) -> outs, with jvp(primals, tangents) -> (outs, tangents) as its derivative; all flat."""
    return context.trace.process_custom_jvp(custom_jvp_call_p, fun, jvp, args, {"name": name})


def custom_vjp_call(fun, fwd, bwd, args, name):
    """fun(*args) -> outs; fwd(perturbed, *args) -> (outs, residuals); bwd(residuals, cts) -> a cotangent per argument; all flat.

    perturbed: of each argument, whether it has a tangent. Cotangents of outputs that nobody uses are Zero.
    """
    return context.trace.process_custom_vjp(custom_vjp_call_p, fun, fwd, bwd, args, {"name": name})


# The constants of a staged custom call were hoisted in front of its arguments: the user's rule knows nothing of them, so their
# tangents must be zero (as for any value closed over).


def _parts(args, params):
    """The function of a staged call, without its constants, and its arguments as arrays: a rule may ask for x.shape."""
    n, call = params["num_consts"], params["call_jaxpr"]
    args = [from_scalar(x) if type(x) in (int, float, bool, complex) else x for x in args]
    return lambda *xs: eval_jaxpr(call.jaxpr, call.consts, *args[:n], *xs), args[n:]


def _types(avals):
    names = [f"{a.dtype.name}[{','.join(map(str, a.shape))}]" for a in avals]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _of_same_type(rule, what, params):
    """The staged call's rule, which gives (outs, more), with a check that outs are what the function gave when it was staged."""
    want = params["call_jaxpr"].out_avals

    def checked(*args):
        outs, more = rule(*args)
        got = [get_aval(x) for x in outs]
        if [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in want]:
            name, tree = params["name"], len(got) != len(want)
            jvp = what == "Custom JVP"
            alike = ", and in particular " + ("of the same container/pytree structure" if tree else "with leaves of the same shape/dtype")
            second = (
                ""
                if jvp
                else (
                    " and the second element represents residuals (i.e. values stored from the forward pass for use on the backward pass)"
                )
            )
            kinds = "container/pytree structure" if tree else "shapes/dtypes of"
            raise TypeError(
                f"{what} rule {getattr(rule, '__name__', '')} for function {name} must produce a pair (list or tuple of length two) where "
                f"the first element represents the primal output (equal {'in value ' if jvp else ''}to the output of the "
                f"custom_{'jvp' if jvp else 'vjp'}-decorated function {name}{alike if jvp else ''}){second}, but instead the "
                f"{'JVP' if jvp else 'fwd'} rule output's first element had {kinds}:\n    {_types(got)}\n"
                f"while the custom_{'jvp' if jvp else 'vjp'}-decorated function {name} had output {kinds}:\n    {_types(want)}."
            )
        return outs, more

    return checked


def _rebind_jvp(args, params):
    fun, args = _parts(args, params)
    return custom_jvp_call(fun, _of_same_type(params["jvp"], "Custom JVP", params), args, params["name"])


def _rebind_vjp(args, params):
    fun, args = _parts(args, params)
    return custom_vjp_call(fun, _of_same_type(params["fwd"], "Custom VJP fwd", params), params["bwd"], args, params["name"])


def _by_protocol(primals, *_, **params):
    raise TypeError("a custom derivative is taken through its protocol, by bind, not by a rule of its primitive")


custom_jvp_call_p.rebind, custom_vjp_call_p.rebind = _rebind_jvp, _rebind_vjp
for _p in (custom_jvp_call_p, custom_vjp_call_p):
    _p.bind_eqn = lambda eqn, args: eqn.primitive.rebind(args, eqn.params)
    _p.jvp = _p.batch = _by_protocol
    _p.effects = lambda params: params["call_jaxpr"].effects
    _p.impl = lambda *args, call_jaxpr, **_: eval_jaxpr(call_jaxpr.jaxpr, call_jaxpr.consts, *args)


def _transpose(cts, *args, call_jaxpr, **_):
    """Of a function that is linear itself, as where a derivative rule calls it on tangents: that of its operations."""
    return backward_pass(call_jaxpr.jaxpr, call_jaxpr.consts, args, cts)


custom_jvp_call_p.transpose = _transpose


# --- the linear call that a custom_vjp leaves behind -----------------------------------------------------------------------


def _lin_aval(*avals, num_res, bwd, inexact, out_avals, all_out_avals):
    return list(out_avals)


def _lin_refuse(*args, **params):
    raise NotDifferentiableError(
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function. "
        "Define it with custom_jvp, or use reverse mode (grad, vjp, jacrev)."
    )


def _lin_transpose(cts, *args, num_res, bwd, inexact, out_avals, all_out_avals):
    given = iter(cts)
    full = [Zero(a) if a.dtype == dtypes.float0 else next(given) for a in all_out_avals]
    out = bwd(args[:num_res], full)
    return [None] * num_res + [ct for ct, ok in zip(out, inexact) if ok]


def _lin_batch(axis, args, dims, *, num_res, bwd, inexact, out_avals, all_out_avals):
    """Batch the transpose, which is all that this call means; outputs have the batch axis in front."""
    res_dims, given = dims[:num_res], iter(zip(args[num_res:], dims[num_res:]))
    placed = [next(given) if ok else None for ok in inexact]

    def batched_bwd(res, cts):
        cts = [ct if a.dtype == dtypes.float0 else instantiate(ct) for ct, a in zip(cts, all_out_avals)]
        out_zero = []

        def flat(*xs):
            out = bwd(xs[:num_res], [x if a.dtype != dtypes.float0 else Zero(a) for x, a in zip(xs[num_res:], all_out_avals)])
            out_zero.extend(ct is None or type(ct) is Zero for ct in out)
            return [ct for ct, z in zip(out, out_zero) if not z]

        ct_dims = [None if a.dtype == dtypes.float0 else 0 for a in all_out_avals]
        rest = iter(batch_flat_front(flat, axis, [*res_dims, *ct_dims], [*res, *cts]))
        cts_out = [None if z else next(rest) for z in out_zero]
        return [
            ct if p is None or ct is None else reduce_sum(ct, (0,)) if p[1] is None else move_axis(ct, 0, p[1])
            for ct, p in zip(cts_out, placed)
        ]

    def with_axis(a):
        return ShapedArray((axis.size, *a.shape), a.dtype, a.weak_type)

    outs = custom_lin_p.bind(
        *args,
        num_res=num_res,
        bwd=batched_bwd,
        inexact=inexact,
        out_avals=tuple(map(with_axis, out_avals)),
        all_out_avals=tuple(map(with_axis, all_out_avals)),
    )
    return outs, [0] * len(outs)


custom_lin_p = Primitive("custom_lin", multiple_results=True, abstract_eval=_lin_aval, transpose=_lin_transpose, kind="custom")
custom_lin_p.jvp = custom_lin_p.impl = custom_lin_p.lower = _lin_refuse
custom_lin_p.batch = _lin_batch
custom_vjp_call_p.linear = custom_lin_p
