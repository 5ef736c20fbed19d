"""jvp, linearize, vjp, grad, value_and_grad, linear_transpose."""

import functools

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.api.backward import cotangents, one
from fgrad.api.common import (
    abstractify,
    arg_paths,
    argnums_tuple,
    as_arrays,
    check_args,
    check_callable,
    check_grad_inputs,
    check_scalar,
    flat_fun,
    flatten_result,
    fun_name,
    tangent_out,
    with_weak_type,
)
from fgrad.api.gradient import gradient_of_arrays, may_record, recorded_gradient_of
from fgrad.api.jit import jit
from fgrad.api.pullback import pullback_of
from fgrad.control.common import type_text
from fgrad.control.jit import jit_p
from fgrad.core import Array, ShapedArray, Tracer, context, get_aval, stage, to_array, wraps
from fgrad.core.refs import any_refs, primal_of, running
from fgrad.core.trace import convert_constvars
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import Linear, Zero, instantiate
from fgrad.transforms.jvp import jvp_flat
from fgrad.transforms.linearize import linearize_flat
from fgrad.transforms.transpose import backward_pass
from fgrad.tree_util import Partial


def _check_tangent(aval, t, i, paths):
    """The tangent t as one of a primal of this aval: Zero where there is none. Raises ValueError or TypeError for another type.

    paths(), which are found for messages alone, has that of this leaf at i.
    """
    want, got = aval.tangent_aval(), None
    if isinstance(t, np.ndarray) and t.dtype == dtypes.float0:
        got = ShapedArray(t.shape, dtypes.float0)
    else:
        got = get_aval(t)
    if got.shape != want.shape:
        raise ValueError(
            f"jvp called with different primal and tangent shapes: got primal shape {want.shape} and tangent shape {got.shape} "
            f"for {paths()[i]}"
        )
    if got.dtype != want.dtype and not (got.weak_type and dtypes.is_inexact(got.dtype) and want.dtype != dtypes.float0):
        raise TypeError(
            f"primal and tangent arguments to jax.jvp do not match; dtypes must be equal, or in case of int/bool primal dtype the tangent "
            f"dtype must be float0. Got primal dtype {aval.dtype.name}, so expected tangent dtype {want.dtype}, "
            f"but got tangent dtype {got.dtype.name} instead, for {paths()[i]}"
        )
    if want.dtype == dtypes.float0:
        return Zero(want)
    return t if got.dtype == want.dtype and isinstance(t, (Array, Tracer)) else convert_element_type(t, want.dtype)


def jvp(fun, primals, tangents, has_aux=False):
    """(fun(*primals), directional derivative along tangents), with primals and tangents tuples of matching pytrees.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.jvp(jnp.sin, (0.0,), (1.0,))
    (Array(0., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"primal and tangent arguments to jax.jvp must be tuples or lists; found {type(primals).__name__} and "
            f"{type(tangents).__name__}."
        )
    p_leaves, treedef = tree.flatten((tuple(primals), {}))
    t_leaves, t_def = tree.flatten((tuple(tangents), {}))
    if treedef != t_def:
        raise TypeError(
            f"primal and tangent arguments to jax.jvp must have the same tree structure; primals have {treedef} whereas tangents "
            f"have {t_def}{tree.difference(treedef, t_def, 2)}"
        )
    check_args(p_leaves, treedef, fun, "jvp")
    paths = functools.partial(arg_paths, fun, treedef)
    t_leaves = [_check_tangent(get_aval(p), t, i, paths) for i, (p, t) in enumerate(zip(p_leaves, t_leaves))]
    out_tree, aux = [None], [None]
    with running(primal_of):
        outs, out_tangents = jvp_flat(_with_aux(fun, treedef, out_tree, aux, has_aux), p_leaves, t_leaves)
    out_tangents = [with_weak_type(t, get_aval(o).weak_type) for t, o in zip(out_tangents, outs)]
    result = tree.unflatten(out_tree[0], as_arrays(outs)), tree.unflatten(out_tree[0], [tangent_out(t) for t in out_tangents])
    return (*result, _strip_aux(aux[0])) if has_aux else result


def _with_aux(fun, treedef, out_tree, aux, has_aux):
    if not has_aux:
        return flat_fun(fun, treedef, out_tree)

    def main(*args, **kwargs):
        pair = fun(*args, **kwargs)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"expected {fun_name(fun)} with has_aux=True to return a pair (output, auxiliary data), got {type(pair).__name__}"
            )
        aux[0] = pair[1]
        return pair[0]

    return flat_fun(main, treedef, out_tree)


def _strip_aux(aux):
    """Auxiliary output holds tracers of the transformation: give their primals."""

    def strip(x):
        while isinstance(x, Tracer) and x._trace.done and hasattr(x, "primal"):
            x = x.primal
        return x

    return tree.map(strip, aux)


def _linearize(fun, primals, has_aux=False):
    leaves, treedef = tree.flatten((tuple(primals), {}))
    check_args(leaves, treedef, fun, "derivative")
    out_tree, aux = [None], [None]
    with running(primal_of):
        outs, linear, out_avals, nonzero = linearize_flat(_with_aux(fun, treedef, out_tree, aux, has_aux), leaves)
    return leaves, treedef, outs, out_tree[0], linear, out_avals, nonzero, _strip_aux(aux[0])


def linearize(fun, *primals, has_aux=False):
    """(fun(*primals), a function of tangents): the derivative at a point, computed once and applied many times.

    >>> import fgrad
    >>> y, push = fgrad.linearize(lambda x: x ** 2, 3.0)
    >>> float(y), float(push(1.0)), float(push(2.0))
    (9.0, 6.0, 12.0)
    """
    leaves, treedef, outs, out_tree, linear, out_avals, nonzero, aux = _linearize(fun, primals, has_aux)
    weak = [get_aval(o).weak_type for o in outs]
    avals, paths = [get_aval(x) for x in leaves], functools.partial(arg_paths, fun, treedef)
    consts, closed = convert_constvars(linear)

    def f_jvp(consts, *tangents):
        t_leaves, t_def = tree.flatten((tuple(tangents), {}))
        if t_def != treedef:
            raise TypeError(f"linearized function called with tangents of structure {t_def}, expected {treedef}")
        try:
            try:
                t_leaves = [_check_tangent(a, t, i, paths) for i, (a, t) in enumerate(zip(avals, t_leaves))]
            except (TypeError, ValueError) as e:
                raise type(e)(f"linearized function called on tangent values inconsistent with the original primal values: {e}") from None
        except TypeError as e:
            raise ValueError(f"linearized function called on tangent values inconsistent with the original primal values: {e}") from None
        given = [instantiate(t) for a, t in zip(avals, t_leaves) if dtypes.is_inexact(a.dtype)]
        live = iter(jit_p.bind(*consts, *given, jaxpr=closed, name="linearized", donated=()) if closed.jaxpr.outvars else ())
        out = [with_weak_type(next(live) if nz else Zero(a), w) for nz, a, w in zip(nonzero, out_avals, weak)]
        return tree.unflatten(out_tree, [tangent_out(t) for t in out])

    result = tree.unflatten(out_tree, as_arrays(outs)), Partial(f_jvp, consts)
    return (*result, aux) if has_aux else result


def _pullback(avals, jaxpr, nonzero, consts, cts):
    """Cotangent of each leaf (Zero where there is none) of the linear jaxpr's inputs, which have the given avals."""
    live = [ct for ct, nz in zip(cts, nonzero) if nz]
    got = iter(cotangents(jaxpr, consts, live))
    return [with_weak_type(next(got), a.weak_type) if dtypes.is_inexact(a.dtype) else Zero(a.tangent_aval()) for a in avals]


def vjp(fun, *primals, has_aux=False, reduce_axes=()):
    """(fun(*primals), pullback): pullback(ct) gives a tuple of cotangents, one per primal; float0 for integer primals.

    The pullback is a pytree of what it keeps of the forward pass (`args_res` and `opaque_residuals`), so that a jitted function can return
    or take it. pullback.with_refs(...) adds cotangents to mutable arrays, or leaves them out.

    >>> import fgrad, fgrad.numpy as jnp
    >>> y, pullback = fgrad.vjp(lambda x: x ** 2, 3.0)
    >>> float(pullback(1.0)[0])
    6.0
    """
    leaves, treedef, outs, out_tree, linear, out_avals, nonzero, aux = _linearize(fun, primals, has_aux)
    avals, jaxpr = [get_aval(x) for x in leaves], linear.jaxpr

    def pullback(consts, ct):
        ct_leaves, ct_def = tree.flatten(ct)
        if ct_def != out_tree:  # a result with float0 leaves has cotangents with them
            ct_leaves, ct_def = flatten_result(ct)
        if ct_def != out_tree:
            raise ValueError(
                f"unexpected tree structure of argument to vjp function: got {ct_def}, but expected to match {out_tree}"
                f"{tree.difference(out_tree, ct_def)}"
            )
        cts = []
        for i, (x, a) in enumerate(zip(ct_leaves, out_avals)):
            if a.dtype == dtypes.float0:
                cts.append(Zero(a))
                continue
            got = get_aval(x)
            if got.shape != a.shape:
                raise ValueError(
                    f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got {type_text(got)}, but expected "
                    f"{type_text(a)}. "
                    f"Shape of cotangent input to vjp pullback function {got.shape} must be the same as the shape of "
                    f"corresponding primal output {a.shape}, at result{tree.keystr(out_tree.paths()[i])}."
                )
            if got.dtype != a.dtype:
                raise ValueError(
                    f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got {type_text(got)}, but expected "
                    f"{type_text(a)}. "
                    f"Type of cotangent input to vjp pullback function ({got.dtype.name}) is not the expected tangent type "
                    f"({a.dtype.name}) "
                    f"of corresponding primal output, at result{tree.keystr(out_tree.paths()[i])}."
                )
            cts.append(x if isinstance(x, (Array, Tracer)) else convert_element_type(x, a.dtype))
        return tree.unflatten(treedef, [tangent_out(t) for t in _pullback(avals, jaxpr, nonzero, consts, cts)])[0]

    result = tree.unflatten(out_tree, as_arrays(outs)), pullback_of(pullback, primals, treedef, leaves, linear.consts)
    return (*result, aux) if has_aux else result


def value_and_grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=()):
    """A function that gives (fun's value, its gradient in the arguments `argnums`). fun must return a real scalar.

    Raises TypeError for a non-scalar result or an integer argument (unless allow_int).

    >>> import fgrad
    >>> value, gradient = fgrad.value_and_grad(lambda p: p["w"] ** 2 + p["b"])({"w": 3.0, "b": 1.0})
    >>> float(value), float(gradient["w"]), float(gradient["b"])
    (10.0, 6.0, 1.0)
    """
    result = lambda value, aux, grads: ((value, aux) if has_aux else value, grads)
    return _differentiated(fun, argnums, has_aux, holomorphic, allow_int, result)


def _differentiated(fun, argnums, has_aux, holomorphic, allow_int, result):
    """A function that gives result(fun's value, aux, gradient)."""
    check_callable(fun)
    one_argument = hasattr(argnums, "__index__")
    of_arrays = not (has_aux or holomorphic)

    @wraps(fun)
    def wrapped(*args, **kwargs):
        if of_arrays and not any_refs() and (found := gradient_of_arrays(fun, args, kwargs, argnums, _pullback_of)) is not None:
            return result(found[0], None, found[1][0] if one_argument else found[1])
        name = fun_name(fun)
        nums = argnums_tuple(argnums, len(args), f"grad of {name}")
        chosen = [args[i] for i in nums]
        for i, a in zip(nums, chosen):
            check_grad_inputs(a, fun, i, holomorphic, allow_int)
        aux_box, out_tree = [None], [None]
        leaves, treedef = tree.flatten((tuple(chosen), {}))
        check_args(leaves, treedef, fun, "derivative")
        flat = _with_aux(_partial(fun, name, args, kwargs, nums), treedef, out_tree, aux_box, has_aux)
        check = lambda outs: check_scalar(outs, out_tree[0], fun, holomorphic)
        with running(primal_of):
            if may_record():
                arrays = [x if type(x) is Array else to_array(x) for x in leaves]
                outs, cts = recorded_gradient_of(fun, flat, arrays, check, _pullback_of)
                cts = [with_weak_type(t, x.aval.weak_type) if type(t) is Zero else t for t, x in zip(cts, arrays)]
            else:
                outs, linear, _, nonzero = linearize_flat(flat, leaves)
                check(outs)
                cts = None
        if cts is None:
            cts = _pullback_of(linear, leaves, nonzero, outs)
        grads = tree.unflatten(treedef, [tangent_out(t) if type(t) is Zero else t for t in cts])[0]
        (value,) = as_arrays(outs)
        return result(value, _strip_aux(aux_box[0]) if has_aux else None, grads[0] if one_argument else grads)

    return wrapped


def _partial(fun, name, args, kwargs, nums):
    """fun(*args, **kwargs) as a function of its positional arguments `nums`."""

    def partial(*dynamic):
        full_args = list(args)
        for i, d in zip(nums, dynamic):
            full_args[i] = d
        return fun(*full_args, **kwargs)

    partial.__name__, partial.__wrapped__ = name, fun  # for messages
    return partial


def _pullback_of(linear, leaves, nonzero, outs):
    """The gradient in the leaves of the one result."""
    one_there = one(get_aval(outs[0]).dtype, context.settings)
    return _pullback([get_aval(x) for x in leaves], linear.jaxpr, nonzero, linear.consts, [one_there])


def grad(fun, argnums=0, has_aux=False, holomorphic=False, allow_int=False, reduce_axes=()):
    """The gradient of a scalar function, in the arguments `argnums`; (gradient, aux) with has_aux.

    >>> import fgrad
    >>> float(fgrad.grad(lambda x: x ** 3)(2.0))
    12.0
    """
    result = lambda value, aux, grads: (grads, aux) if has_aux else grads
    return _differentiated(fun, argnums, has_aux, holomorphic, allow_int, result)


def fwd_and_bwd(fun, argnums, has_aux=False, jitted=True):
    """(fwd, bwd): fwd(*args) gives fun's value, aux with has_aux, and residuals; bwd(residuals, ct) the cotangents of `argnums`.

    Each is compiled once (with jitted) and serves any number of calls.

    >>> import fgrad
    >>> fwd, bwd = fgrad.fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> value, residuals = fwd(2.0, 3.0)
    >>> [float(ct) for ct in bwd(residuals, 1.0)]
    [3.0, 2.0]
    """

    def fwd(*args, **kwargs):
        nums = argnums_tuple(argnums, len(args), f"fwd_and_bwd of {fun_name(fun)}")

        def partial(*dynamic):
            given = dict(zip(nums, dynamic))
            return fun(*[given.get(i, a) for i, a in enumerate(args)], **kwargs)

        value, pullback, *aux = vjp(partial, *[args[i] for i in nums], has_aux=has_aux)
        return (value, *aux, pullback)

    def bwd(residuals, ct):
        cts = residuals(ct)
        return cts[0] if hasattr(argnums, "__index__") else cts

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


def linear_transpose(fun, *primals, reduce_axes=()):
    """The transpose of a function that is linear: takes a cotangent of its result, gives cotangents of its arguments.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.linear_transpose(lambda x: jnp.array([1.0, 2.0]) * x, 0.0)(jnp.array([3.0, 4.0]))
    (Array(11., dtype=float32...),)
    """
    check_callable(fun)
    leaves, treedef = tree.flatten((tuple(primals), {}))
    out_tree = [None]
    closed = stage(flat_fun(fun, treedef, out_tree), [abstractify(x) for x in leaves], fun_name(fun))
    weak = [a.weak_type for a in closed.in_avals]

    def transposed(ct):
        cts, ct_def = tree.flatten(ct)
        if ct_def != out_tree[0]:
            raise TypeError(
                f"cotangent tree does not match function output, expected {out_tree[0]} but got {ct_def}"
                f"{tree.difference(out_tree[0], ct_def)}"
            )
        for x, want, path in zip(cts, closed.out_avals, out_tree[0].paths()):
            got = get_aval(x)
            if (got.shape, got.dtype) != (want.shape, want.dtype):
                raise TypeError(f"cotangent type does not match function output{tree.keystr(path)}, expected {want} but got {got}")
        out = backward_pass(closed.jaxpr, closed.consts, [Linear(a) for a in closed.in_avals], as_arrays(cts))
        if any(get_aval(x).weak_type for x in cts):  # then the results keep what weak types they came to
            weak_out = [w or (type(t) is not Zero and get_aval(t).weak_type) for t, w in zip(out, weak)]
        else:
            weak_out = weak
        return tree.unflatten(treedef, [tangent_out(with_weak_type(t, w)) for t, w in zip(out, weak_out)])[0]

    return transposed
