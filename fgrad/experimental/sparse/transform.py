"""Functions of dense arrays on sparse ones (sparsify), and derivatives in the stored elements."""

import functools

import fgrad.numpy as jnp
from fgrad import api, lax, tree
from fgrad.core import ShapedArray, get_aval, stage, wraps
from fgrad.core.jaxpr import Literal
from fgrad.core.primitive import registry
from fgrad.experimental.sparse import bcoo as ops
from fgrad.experimental.sparse import movement
from fgrad.experimental.sparse.bcoo import BCOO
from fgrad.ops import surround

_is_sparse = lambda x: isinstance(x, BCOO)  # noqa: E731

# Functions of one argument that are zero at zero: they act on the stored elements.
_ZERO_AT_ZERO = """
    abs asin asinh atan atanh cbrt ceil conj convert_element_type copy expm1 floor imag integer_pow log1p neg real round_away
    round_even sign sin sinh sqrt square tan tanh trunc
""".split()


def _add(eqn, a, b):
    return a + b if _is_sparse(a) else b + a


def _mul(eqn, a, b):
    return a * b if _is_sparse(a) else b * a


_RULES = {
    "add": _add,
    "mul": _mul,
    "sub": lambda eqn, a, b: a + (-b) if _is_sparse(a) else (-b) + a,
    "div": lambda eqn, a, b: a * (1 / b),
    "dot_general": lambda eqn, a, b: ops.bcoo_dot_general(a, b, dimension_numbers=eqn.params["dimension_numbers"]),
    "transpose": lambda eqn, a: movement.bcoo_transpose(a, permutation=eqn.params["permutation"]),
    "reduce_sum": lambda eqn, a: movement.bcoo_reduce_sum(a, axes=eqn.params["axes"]),
    "reshape": lambda eqn, a: movement.bcoo_reshape(a, new_sizes=eqn.outvars[0].aval.shape),
    "broadcast_in_dim": lambda eqn, a: movement.bcoo_broadcast_in_dim(a, **eqn.params),
    "slice": lambda eqn, a: movement.bcoo_slice(a, **eqn.params),
    "dynamic_slice": lambda eqn, a, *starts: movement.bcoo_dynamic_slice(a, starts, eqn.params["slice_sizes"]),
    "rev": lambda eqn, a: movement.bcoo_rev(a, eqn.params["dimensions"]),
    "concatenate": lambda eqn, *xs: movement.bcoo_concatenate(xs, dimension=eqn.params["dimension"]),
    "surround": lambda eqn, a: sparsify(functools.partial(surround.joined, **eqn.params))(a),
}


def _scan(eqn, *args):
    p = eqn.params
    consts, n = args[: p["num_consts"]], p["num_consts"] + p["num_carry"]

    def step(carry, xs):
        out = _interpret(p["jaxpr"], [*consts, *carry, *xs])
        return tuple(out[: p["num_carry"]]), tuple(out[p["num_carry"] :])

    carry, ys = lax.scan(step, tuple(args[len(consts) : n]), tuple(args[n:]), p["length"], p["reverse"], p["unroll"])
    return [*carry, *ys]


def _while(eqn, *args):
    p, n = eqn.params, eqn.params["cond_nconsts"]
    tested, made = args[:n], args[n : n + p["body_nconsts"]]
    test = lambda carry: _interpret(p["cond_jaxpr"], [*tested, *carry])[0]  # noqa: E731
    return list(lax.while_loop(test, lambda carry: tuple(_interpret(p["body_jaxpr"], [*made, *carry])), tuple(args[n + len(made) :])))


def _cond(eqn, which, *args):
    branches = [lambda *xs, b=b: tuple(_interpret(b, xs)) for b in eqn.params["branches"]]
    return list(lax.switch(which, branches, *args))


_RULES.update({"scan": _scan, "while": _while, "cond": _cond})


def _interpret(closed, args):
    jaxpr = closed.jaxpr
    env = {**dict(zip(jaxpr.constvars, closed.consts)), **dict(zip(jaxpr.invars, args))}
    read = lambda v: v.val if type(v) is Literal else env[v]  # noqa: E731
    for eqn in jaxpr.eqns:
        ins = [read(v) for v in eqn.invars]
        out = _apply(eqn, ins) if any(map(_is_sparse, ins)) else eqn.primitive.bind_eqn(eqn, ins)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    return [read(v) for v in jaxpr.outvars]


def _apply(eqn, ins):
    name, p = eqn.primitive.name, eqn.params
    if name in ("jit", "custom_jvp_call", "custom_vjp_call", "checkpoint"):
        return _interpret(p["jaxpr"] if "jaxpr" in p else p["call_jaxpr"], ins)
    if name in _ZERO_AT_ZERO and not (name == "integer_pow" and p["y"] <= 0):
        (x,) = ins
        return ops._with(x, registry[name].bind(x.data, **p))
    if name not in _RULES or (name == "div" and _is_sparse(ins[1])):
        raise NotImplementedError(f"sparse rule for {name} is not implemented.")
    out = _RULES[name](eqn, *ins)
    return out if not _is_sparse(out) or out.ndim else out.todense()


def sparsify(f, use_tracer=False):
    """f, written for dense arrays, as a function that also takes BCOO arrays and gives them where results are sparse.

    Raises NotImplementedError for operations of sparse arrays that have no rule.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental import sparse
    >>> m = sparse.BCOO.fromdense(jnp.eye(3) * 2)
    >>> sparse.sparsify(lambda m, x: jnp.sin(m.T @ x).sum())(m, jnp.zeros(3))
    Array(0., dtype=float32)
    """

    @wraps(f)
    def wrapped(*args, **kwargs):
        leaves, treedef = tree.flatten((args, kwargs), is_leaf=_is_sparse)
        out_tree = [None]

        def flat(*xs):
            a, k = tree.unflatten(treedef, xs)
            outs, out_tree[0] = tree.flatten(f(*a, **k))
            return outs

        avals = [ShapedArray(x.shape, x.dtype) if _is_sparse(x) else get_aval(x) for x in leaves]
        outs = _interpret(stage(flat, avals, getattr(f, "__name__", "sparsify")), leaves)
        return tree.unflatten(out_tree[0], outs)

    return wrapped


def _in_data(transform):
    """A derivative in the data of BCOO arguments; the derivative of a BCOO array is one with its indices."""

    def make(fun, argnums=0, has_aux=False, **kwargs):
        nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        @wraps(fun)
        def wrapped(*args, **options):
            chosen = {i % len(args): tree.flatten(args[i], is_leaf=_is_sparse) for i in nums}
            values = [[x.data if _is_sparse(x) else x for x in leaves] for leaves, _ in chosen.values()]

            def of_data(*values):
                full = list(args)
                for (i, (leaves, treedef)), new in zip(chosen.items(), values):
                    full[i] = tree.unflatten(treedef, [ops._with(x, v) if _is_sparse(x) else v for x, v in zip(leaves, new)])
                return fun(*full, **options)

            out = transform(of_data, argnums=tuple(range(len(values))), has_aux=has_aux, **kwargs)(*values)
            found, aux = (out if has_aux else (out, None)) if transform is not api.value_and_grad else (out[1], out[0])
            grads = tuple(
                tree.unflatten(treedef, [ops._with(x, g) if _is_sparse(x) else g for x, g in zip(leaves, new)])
                for (leaves, treedef), new in zip(chosen.values(), found)
            )
            grads = grads[0] if isinstance(argnums, int) else grads
            if transform is api.value_and_grad:
                return aux, grads
            return (grads, aux) if has_aux else grads

        return wrapped

    return make


grad = _in_data(api.grad)
grad.__doc__ = "fgrad.grad in the stored elements of BCOO arguments: their derivative is a BCOO with the same indices."
value_and_grad = _in_data(api.value_and_grad)
value_and_grad.__doc__ = "fgrad.value_and_grad in the stored elements of BCOO arguments."


def _jacobian_in_data(transform):
    """A Jacobian in the data of BCOO arguments: for a result of shape s, a BCOO of shape (*s, *shape) whose leading axes are batch axes."""

    def make(fun, argnums=0, has_aux=False, **kwargs):
        nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)

        @wraps(fun)
        def wrapped(*args, **options):
            chosen = [args[i] for i in nums]

            def of_data(*values):
                full = list(args)
                for i, x, v in zip(nums, chosen, values):
                    full[i] = ops._with(x, v) if _is_sparse(x) else v
                return fun(*full, **options)

            values = [x.data if _is_sparse(x) else x for x in chosen]
            found = transform(of_data, argnums=tuple(range(len(nums))), has_aux=has_aux, **kwargs)(*values)
            found, aux = found if has_aux else (found, None)
            out = tuple(_of_each(x, j) if _is_sparse(x) else j for x, j in zip(chosen, found))
            out = out[0] if isinstance(argnums, int) else out
            return (out, aux) if has_aux else out

        return wrapped

    return make


def _of_each(mat, data):
    """A BCOO of mat's places for each leading index of data."""
    over = data.shape[: data.ndim - mat.data.ndim]
    return BCOO((data, jnp.broadcast_to(mat.indices, (*over, *mat.indices.shape))), shape=(*over, *mat.shape))


jacfwd, jacrev = _jacobian_in_data(api.jacfwd), _jacobian_in_data(api.jacrev)
jacobian = jacrev
jacfwd.__doc__ = "fgrad.jacfwd, of a function that gives an array, in the stored elements of BCOO arguments: a BCOO with batch axes."
jacrev.__doc__ = "fgrad.jacrev, of a function that gives an array, in the stored elements of BCOO arguments: a BCOO with batch axes."
