"""linear_call: a linear function that brings its own transpose."""

from fgrad import array_tree as tree
from fgrad.control.common import flat_fun, hoist, leaf_avals, run, strong_leaf
from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.arithmetic import add
from fgrad.ops.rules import Linear, Zero, bdim_at_front, instantiate, move_axis
from fgrad.transforms.jvp import jvp_jaxpr
from fgrad.transforms.vmap import batch_jaxpr

# Operands: consts of fun, consts of fun_transpose, residuals, then the linear operands; `counts` says how many of each. fun's jaxpr
# takes (its consts, residuals, linear operands), the transpose's (its consts, residuals, cotangents of fun's results).


def _parts(xs, counts):
    out, at = [], 0
    for n in counts:
        out.append(list(xs[at : at + n]))
        at += n
    return out


def _run(args, fun, counts):
    consts, _, res, lin = _parts(args, counts)
    return run(fun, *consts, *res, *lin)


def _aval(*avals, fun, transpose, counts):
    return fun.out_avals


def _jvp(primals, tangents, *, fun, transpose, counts):
    """In the linear operands by the function itself; in what else fun reads by fun's own derivative."""
    outs = linear_call_p.bind(*primals, fun=fun, transpose=transpose, counts=counts)
    n = len(primals) - counts[3]
    totals = [Zero(a.tangent_aval()) for a in fun.out_avals]
    if any(type(t) is not Zero for t in tangents[n:]):
        moved = [instantiate(t) for t in tangents[n:]]
        totals = linear_call_p.bind(*primals[:n], *moved, fun=fun, transpose=transpose, counts=counts)
    consts, _, res, lin = _parts(primals, counts)
    t_consts, _, t_res, _ = _parts(tangents, counts)
    given = [t for t in (*t_consts, *t_res) if type(t) is not Zero]
    if given:
        nonzero = [*[type(t) is not Zero for t in (*t_consts, *t_res)], *[False] * len(lin)]
        jvp, out_nonzero = jvp_jaxpr(fun, nonzero)
        rest = iter(run(jvp, *consts, *res, *lin, *given)[len(outs) :])
        more = [next(rest) if nz else None for nz in out_nonzero]
        totals = [t if m is None else m if type(t) is Zero else add(t, m) for t, m in zip(totals, more)]
    return outs, totals


def _transpose(cts, *args, fun, transpose, counts):
    known = len(args) - counts[3]
    if any(type(x) is Linear for x in args[:known]):
        raise NotImplementedError("linear_call: it is linear in linear_args alone, and is transposed in nothing else")
    consts, t_consts, res, _ = _parts(args, counts)
    cts = [instantiate(ct) for ct in cts]
    swapped = (counts[1], counts[0], counts[2], len(cts))
    outs = linear_call_p.bind(*t_consts, *consts, *res, *cts, fun=transpose, transpose=fun, counts=swapped)
    return [*[None] * known, *outs]


def _batch(axis, args, dims, *, fun, transpose, counts):
    """All linear operands and results get the batch axis, which the transpose must find where fun has it."""
    n = len(args) - counts[3]
    front = [x if d is None else move_axis(x, d, 0) for x, d in zip(args[:n], dims)]
    lin = [bdim_at_front(x, d, axis.size) for x, d in zip(args[n:], dims[n:])]
    consts, t_consts, res, _ = _parts([d is not None for d in dims], counts)
    both = [
        batch_jaxpr(j, axis, [*c, *res, *[True] * (len(j.in_avals) - len(c) - len(res))], True)[0]
        for j, c in ((fun, consts), (transpose, t_consts))
    ]
    return linear_call_p.bind(*front, *lin, fun=both[0], transpose=both[1], counts=counts), [0] * len(fun.out_avals)


linear_call_p = Primitive(
    "linear_call",
    multiple_results=True,
    abstract_eval=_aval,
    impl=lambda *args, fun, transpose, counts: _run(args, fun, counts),
    jvp=_jvp,
    transpose=_transpose,
    batch=_batch,
    lower=lambda ctx, ins, params, out_avals: ctx.inline(
        params["fun"], [x for i, part in enumerate(_parts(ins, params["counts"])) if i != 1 for x in part]
    ),
    effects=lambda params: params["fun"].effects,
    kind="custom",
)


def linear_call(fun, fun_transpose, residual_args, linear_args):
    """fun(residual_args, linear_args), which is linear in linear_args, with fun_transpose(residual_args, cotangent) as its transpose.

    linear_args and the result are trees of arrays; fun_transpose maps trees like the result to trees like linear_args. Reverse mode
    runs fun_transpose where it would transpose fun. Raises ShapeError where fun_transpose returns other structures or types.

    >>> import fgrad
    >>> def halve(x, n):
    ...     return linear_call(lambda n, x: x / n, lambda n, ct: ct / n, n, x)
    >>> float(halve(6.0, 2.0)), float(fgrad.grad(halve)(6.0, 2.0))
    (3.0, 0.5)
    """
    res, res_tree = tree.flatten(residual_args)
    lin, lin_tree = tree.flatten(linear_args)
    res, lin = [strong_leaf(x) for x in res], [strong_leaf(x) for x in lin]
    out_tree, got_tree = [None], [None]
    call = flat_fun(fun, tree.structure((residual_args, linear_args)), out_tree)
    consts, closed = hoist(call, leaf_avals([*res, *lin]), "linear_call")

    def back(*xs):
        outs, got_tree[0] = tree.flatten(
            fun_transpose(tree.unflatten(res_tree, xs[: len(res)]), tree.unflatten(out_tree[0], xs[len(res) :]))
        )
        return outs

    t_consts, transposed = hoist(back, [*leaf_avals(res), *[a.strong() for a in closed.out_avals]], "linear_call transpose")
    want = [(get_aval(x).shape, get_aval(x).dtype) for x in lin]
    if got_tree[0] != lin_tree or [(a.shape, a.dtype) for a in transposed.out_avals] != want:
        raise ShapeError(
            f"linear_call: fun_transpose must return values like linear_args, {', '.join(map(str, leaf_avals(lin)))} in {lin_tree}, got "
            f"{', '.join(map(str, transposed.out_avals))} in {got_tree[0]}"
        )
    counts = (len(consts), len(t_consts), len(res), len(lin))
    outs = linear_call_p.bind(*consts, *t_consts, *res, *lin, fun=closed, transpose=transposed, counts=counts)
    return tree.unflatten(out_tree[0], outs)


__all__ = ["linear_call", "linear_call_p"]
