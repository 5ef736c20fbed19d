"""jacfwd, jacrev, hessian."""

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.api.common import argnums_tuple, check_grad_inputs, fun_name
from fgrad.api.derivatives import jvp, vjp
from fgrad.api.vmap import vmap
from fgrad.core import get_aval, to_array, wraps
from fgrad.core.float0 import is_float0
from fgrad.ops.diagonals import diagonals
from fgrad.ops.rules import full
from fgrad.ops.shape import reshape, slice_in_dim


def _basis(leaves):
    """One-hot rows over all elements of the leaves: a list of arrays (total, *shape)."""
    total = sum(get_aval(x).size for x in leaves)
    out, at = [], 0
    for x in leaves:
        a = get_aval(x)
        axes = tuple(range(1, a.ndim + 1))
        one = full(a.shape, 1, a.dtype)
        out.append(diagonals([one], (total, *a.shape), 0, axes, (at,)) if axes else to_array((np.arange(total) == at).astype(a.dtype)))
        at += a.size
    return out


def _split_rows(x, shapes, axis, treedef):
    """Cut axis `axis` of x into the leaves it enumerates, each with its own shape there."""
    out, at, shape = [], 0, get_aval(x).shape
    axis %= len(shape)
    for s in shapes:
        n = int(np.prod(s))
        piece = slice_in_dim(x, at, at + n, axis=axis)
        out.append(reshape(piece, (*shape[:axis], *s, *shape[axis + 1 :])))
        at += n
    return tree.unflatten(treedef, out)


def _partial_args(fun, args, kwargs, argnums):
    nums = argnums_tuple(argnums, len(args), f"jacobian of {fun_name(fun)}", ValueError)

    def f(*dynamic):
        full_args = list(args)
        for i, d in zip(nums, dynamic):
            full_args[i] = d
        return fun(*full_args, **kwargs)

    return f, tuple(args[i] for i in nums)


def _check_inputs(fun, dynamic, argnums, what, holomorphic, allow_int):
    for i, a in zip((argnums,) if hasattr(argnums, "__index__") else argnums, dynamic):
        check_grad_inputs(a, fun, i, holomorphic, allow_int, what)


def _check_outputs(y, what, holomorphic):
    """Raise TypeError where a result has no Jacobian of the kind asked for."""
    for x in tree.leaves(y):
        dtype = get_aval(x).dtype
        if holomorphic and not dtypes.is_complex(dtype):
            raise TypeError(f"{what} with holomorphic=True requires outputs with complex dtype, but got {dtype.name}.")
        if what == "jacrev" and not holomorphic and not dtypes.is_float(dtype):
            raise TypeError(
                f"jacrev requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {dtype.name}. Pass "
                "holomorphic=True for holomorphic functions; for other functions with complex or integer outputs use vjp."
            )


def jacfwd(fun, argnums=0, has_aux=False, holomorphic=False):
    """The Jacobian by forward mode, one column per input element: leaf shape is output shape + input shape.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jacfwd(lambda x: x ** 2)(jnp.array([1.0, 2.0]))
    Array([[2., 0.],
           [0., 4.]], dtype=float32)
    """

    @wraps(fun)
    def wrapped(*args, **kwargs):
        f, dynamic = _partial_args(fun, args, kwargs, argnums)
        leaves, treedef = tree.flatten(dynamic)
        _check_inputs(fun, dynamic, argnums, "jacfwd", holomorphic, True)
        other = None if holomorphic else next((d for x in leaves if not dtypes.is_float(d := get_aval(x).dtype)), None)
        if other is not None:
            raise TypeError(
                f"jacfwd requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {other.name}. For "
                "holomorphic differentiation, pass holomorphic=True. For other derivatives use jvp."
            )
        push = lambda *t: jvp(f, dynamic, tree.unflatten(treedef, t), has_aux=has_aux)  # noqa: E731
        if has_aux:
            y, jac, aux = vmap(push, out_axes=(None, -1, None))(*_basis(leaves))
        else:
            y, jac = vmap(push, out_axes=(None, -1))(*_basis(leaves))
        _check_outputs(y, "jacfwd", holomorphic)
        jac = tree.map(lambda j, out: np.zeros(j.shape, get_aval(out).dtype) if is_float0(j) else j, jac, y)
        shapes = [get_aval(x).shape for x in leaves]
        out = tree.map(lambda x: _split_rows(x, shapes, -1, treedef), jac)
        out = (
            tree.map(
                lambda j: j[0], out, is_leaf=lambda j: isinstance(j, tuple) and len(j) == len(dynamic) and tree.structure(j) == treedef
            )
            if hasattr(argnums, "__index__")
            else out
        )
        return (out, aux) if has_aux else out

    return wrapped


def jacrev(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False):
    """The Jacobian by reverse mode, one row per output element: leaf shape is output shape + input shape.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jacrev(lambda x: jnp.array([x[0] * x[1], x[0]]))(jnp.array([3.0, 2.0]))
    Array([[2., 3.],
           [1., 0.]], dtype=float32)
    """

    @wraps(fun)
    def wrapped(*args, **kwargs):
        f, dynamic = _partial_args(fun, args, kwargs, argnums)
        _check_inputs(fun, dynamic, argnums, "jacrev", holomorphic, allow_int)
        res = vjp(f, *dynamic, has_aux=has_aux)
        y, pullback = res[:2]
        _check_outputs(y, "jacrev", holomorphic)
        leaves, treedef = tree.flatten(y)
        shapes = [get_aval(x).shape for x in leaves]
        plain = tree.leaves(dynamic)

        def row(*ct):
            """The cotangents of the arguments; of integers zeros of their own type."""
            cts, in_def = tree.flatten(pullback(tree.unflatten(treedef, ct)))
            if allow_int:
                cts = [full(get_aval(x).shape, 0, get_aval(x).dtype) if is_float0(g) else g for g, x in zip(cts, plain)]
            return tree.unflatten(in_def, cts)

        rows = vmap(row)(*_basis(leaves))
        rows = rows[0] if hasattr(argnums, "__index__") else rows
        in_leaves, in_def = tree.flatten(rows)
        columns = [tree.leaves(_split_rows(x, shapes, 0, treedef)) for x in in_leaves]
        out = tree.unflatten(treedef, [tree.unflatten(in_def, row) for row in (zip(*columns) if columns else [[]] * len(leaves))])
        return (out, res[2]) if has_aux else out

    return wrapped


jacobian = jacrev


def hessian(fun, argnums=0, has_aux=False, holomorphic=False):
    """The Hessian: forward mode over reverse mode.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.hessian(lambda x: x[0] ** 2 * x[1])(jnp.array([1.0, 3.0]))
    Array([[6., 2.],
           [2., 0.]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
