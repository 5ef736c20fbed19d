"""Linear solves and roots that are differentiated implicitly, by the equation that they solve and not by how they solve it."""

from fgrad import array_tree as tree
from fgrad.control.common import flat_fun, hoist, leaf_avals, live, nonzeros, run, strong_leaf
from fgrad.core import Primitive, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import neg, sub
from fgrad.ops.rules import Linear, Zero, bdim_at_front, instantiate, move_axis, zero_of
from fgrad.transforms.custom import custom_jvp_call
from fgrad.transforms.jvp import jvp_flat, jvp_jaxpr
from fgrad.transforms.linearize import linearize_flat
from fgrad.transforms.transpose import transpose_jaxpr
from fgrad.transforms.vmap import batch_jaxpr

# The operands of linear_solve_p are the consts of matvec, vecmat, solve and transpose_solve (`counts` says how many each has),
# then b. It is linear in b alone; the first len(b) outputs of solve are x, the others auxiliary.
_PARTS = ("matvec", "vecmat", "solve", "transpose_solve")


def _consts(args, counts):
    """({part: its consts}, b)."""
    out, at = {}, 0
    for name, n in zip(_PARTS, counts):
        out[name] = list(args[at : at + n])
        at += n
    return out, list(args[at:])


def _solve_aval(*avals, jaxprs, counts):
    return [a.strong() for a in jaxprs[2].out_avals]


def _solve_lower(ctx, ins, params, out_avals):
    consts, b = _consts(ins, params["counts"])
    return ctx.inline(params["jaxprs"][2], [*consts["solve"], *b])


def _solve_jvp(primals, tangents, *, jaxprs, counts):
    """A x = b gives A dx = db - dA x: the same solve once more."""
    outs = linear_solve_p.bind(*primals, jaxprs=jaxprs, counts=counts)
    consts, b = _consts(primals, counts)
    t_consts, t_b = _consts(tangents, counts)
    x, aux = outs[: len(b)], outs[len(b) :]
    if not any(nonzeros([*t_consts["matvec"], *t_b])):
        return outs, [zero_of(o) for o in outs]
    rhs = [instantiate(t) for t in t_b]
    nz = nonzeros(t_consts["matvec"])
    if any(nz):
        jvp, out_nz = jvp_jaxpr(jaxprs[0], [*nz, *[False] * len(x)])
        d_ax = iter(run(jvp, *consts["matvec"], *x, *live(t_consts["matvec"]))[len(x) :])
        rhs = [sub(r, next(d_ax)) if z else r for r, z in zip(rhs, out_nz)]
    ts = linear_solve_p.bind(*primals[: sum(counts)], *rhs, jaxprs=jaxprs, counts=counts)[: len(x)]
    return outs, [*ts, *[zero_of(a) for a in aux]]


def _solve_transpose(cts, *args, jaxprs, counts):
    if jaxprs[3] is None:
        raise TypeError("transpose_solve required for backwards mode automatic differentiation of custom_linear_solve (or symmetric=True)")
    consts, b = _consts(args, counts)
    swapped = [*consts["vecmat"], *consts["matvec"], *consts["transpose_solve"], *consts["solve"]]
    rhs = [instantiate(ct) for ct in cts[: len(b)]]
    outs = linear_solve_p.bind(
        *swapped, *rhs, jaxprs=(jaxprs[1], jaxprs[0], jaxprs[3], jaxprs[2]), counts=(counts[1], counts[0], counts[3], counts[2])
    )
    return [*[None] * sum(counts), *[ct if type(x) is Linear else None for ct, x in zip(outs, b)]]


def _solve_batch(axis, args, dims, *, jaxprs, counts):
    d_consts, d_b = _consts(dims, counts)
    front = [x if d is None else move_axis(x, d, 0) for x, d in zip(args[: sum(counts)], dims)]
    b = [bdim_at_front(x, d, axis.size) for x, d in zip(args[sum(counts) :], d_b)]

    def batched(name, jaxpr):
        return jaxpr and batch_jaxpr(jaxpr, axis, [*[d is not None for d in d_consts[name]], *[True] * len(b)], True)[0]

    outs = linear_solve_p.bind(*front, *b, jaxprs=tuple(batched(n, j) for n, j in zip(_PARTS, jaxprs)), counts=counts)
    return outs, [0] * len(outs)


linear_solve_p = Primitive(
    "custom_linear_solve",
    multiple_results=True,
    abstract_eval=_solve_aval,
    jvp=_solve_jvp,
    transpose=_solve_transpose,
    batch=_solve_batch,
    lower=_solve_lower,
    kind="call",
    effects=lambda p: p["jaxprs"][2].effects,
)


def _check_like(what, got_tree, got, want_tree, want):
    if got_tree != want_tree or [(a.shape, a.dtype) for a in got] != [(a.shape, a.dtype) for a in want]:
        raise ShapeError(
            f"{what} must return values of the structure and types of its argument: got {', '.join(map(str, got))} in {got_tree}, "
            f"expected {', '.join(map(str, want))} in {want_tree}"
        )


def custom_linear_solve(matvec, b, solve, transpose_solve=None, symmetric=False, has_aux=False):
    """solve(matvec, b), differentiated as the solution x of matvec(x) = b.

    b: a tree of arrays; matvec: a linear function of such trees; solve(matvec, b) -> x, or (x, aux) with has_aux.
    transpose_solve(vecmat, b) solves with the transpose of matvec: it is needed by reverse mode unless matvec is symmetric.
    Raises ShapeError (a TypeError and a ValueError) where matvec or solve return something of another structure or type than b.

    >>> import fgrad.numpy as jnp
    >>> d = jnp.array([2., 4.])
    >>> custom_linear_solve(lambda x: d * x, jnp.ones(2), lambda mv, b: b / d, symmetric=True)
    Array([0.5 , 0.25], dtype=float32)
    """
    leaves, b_tree = tree.flatten(b)
    leaves = [strong_leaf(x) for x in leaves]
    avals, arg_tree = leaf_avals(leaves), tree.structure((b,))
    out_tree = [None]
    mv_consts, mv = hoist(flat_fun(matvec, arg_tree, out_tree), avals, "matvec")
    _check_like("custom_linear_solve: matvec", out_tree[0], mv.out_avals, b_tree, avals)
    vm_consts, vm = mv_consts, mv
    if transpose_solve is not None and not symmetric:
        vm = transpose_jaxpr(mv, [*[False] * len(mv_consts), *[True] * len(avals)], [False] * len(avals))

    def apply(consts, jaxpr):
        return lambda x: tree.unflatten(b_tree, run(jaxpr, *consts, *tree.leaves(x)))

    solve_tree = [None]
    own, solver = hoist(flat_fun(lambda r: solve(apply(mv_consts, mv), r), arg_tree, solve_tree), avals, "solve")
    x_tree = solve_tree[0]
    if has_aux:
        children = x_tree.children()
        if len(children) != 2:
            raise TypeError(f"custom_linear_solve: solve must return a pair (x, aux) with has_aux=True, got {x_tree}")
        x_tree = children[0]
    _check_like("custom_linear_solve: solve", x_tree, solver.out_avals[: len(avals)], b_tree, avals)
    t_own, t_solver = own, solver if symmetric else None
    if symmetric:
        pass
    elif transpose_solve is not None:
        t_tree = [None]
        t_own, t_solver = hoist(flat_fun(lambda r: transpose_solve(apply(vm_consts, vm), r), arg_tree, t_tree), avals, "transpose_solve")
        got = t_tree[0].children()[0] if has_aux else t_tree[0]
        _check_like("custom_linear_solve: transpose_solve", got, t_solver.out_avals[: len(avals)], b_tree, avals)
    else:
        t_own = []
    outs = linear_solve_p.bind(
        *mv_consts,
        *vm_consts,
        *own,
        *t_own,
        *leaves,
        jaxprs=(mv, vm, solver, t_solver),
        counts=(len(mv_consts), len(vm_consts), len(own), len(t_own)),
    )
    return tree.unflatten(solve_tree[0], outs)


def custom_root(f, initial_guess, solve, tangent_solve, has_aux=False):
    """solve(f, initial_guess), differentiated as a root x of f(x) = 0 with respect to what f closes over.

    solve(f, guess) -> x (or (x, aux) with has_aux); tangent_solve(g, y) solves the linear system g(x) = y: for scalars it is
    lambda g, y: y / g(1.0), in general custom_linear_solve. By the implicit function theorem dx = -(df/dx)^-1 (df/da) da.
    The initial guess has derivative zero.

    >>> import fgrad
    >>> def sqrt(a):
    ...     newton = lambda f, x: fgrad.lax.fori_loop(0, 20, lambda i, x: 0.5 * (x + a / x), x)
    ...     return custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> float(fgrad.grad(sqrt)(4.0))
    0.25
    """
    guess, x_tree = tree.flatten(initial_guess)
    guess = [strong_leaf(x) for x in guess]
    avals, arg_tree, out_tree, solve_tree = leaf_avals(guess), tree.structure((initial_guess,)), [None], [None]
    f_consts, f_jaxpr = hoist(flat_fun(f, arg_tree, out_tree), avals, "f")
    _check_like("custom_root: f", out_tree[0], f_jaxpr.out_avals, x_tree, avals)
    m, nx = len(f_consts), len(avals)

    def flat_solve(*args):
        def g(x):
            return tree.unflatten(x_tree, run(f_jaxpr, *args[:m], *tree.leaves(x)))

        outs, solve_tree[0] = tree.flatten(solve(g, tree.unflatten(x_tree, args[m:])))
        return outs

    solve_consts, solver = hoist(flat_solve, [*leaf_avals(f_consts), *avals], "solve")
    got = solve_tree[0].children()[0] if has_aux else solve_tree[0]
    _check_like("custom_root: solve", got, solver.out_avals[:nx], x_tree, avals)
    k = len(solve_consts)

    def solution(args):
        return custom_jvp_call(lambda *xs: run(solver, *xs), jvp, list(args), "custom_root")

    def jvp(primals, tangents):
        outs = solution(primals)
        consts, x, t_consts = primals[k : k + m], outs[:nx], tangents[k : k + m]
        zeros = [zero_of(o) for o in outs]
        if not any(nonzeros(t_consts)):
            return outs, zeros
        rhs = [instantiate(t) for t in jvp_flat(lambda *c: run(f_jaxpr, *c, *x), consts, t_consts)[1]]
        _, linear, out_avals, nonzero = linearize_flat(lambda *v: run(f_jaxpr, *consts, *v), x)

        def g(v):
            given = iter(run(linear, *tree.leaves(v)))
            return tree.unflatten(x_tree, [next(given) if z else instantiate(Zero(a)) for a, z in zip(out_avals, nonzero)])

        dx = tangent_solve(g, tree.unflatten(x_tree, [neg(r) for r in rhs]))
        leaves, dx_tree = tree.flatten(dx)
        _check_like("custom_root: tangent_solve", dx_tree, leaf_avals(leaves), x_tree, [get_aval(o) for o in x])
        return outs, [*leaves, *zeros[nx:]]

    return tree.unflatten(solve_tree[0], solution([*solve_consts, *f_consts, *guess]))


__all__ = ["custom_linear_solve", "custom_root", "linear_solve_p"]
