"""custom_jvp and custom_vjp: functions with derivative rules of their own."""

import functools
import inspect
import operator
import types

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad.api.common import flat_fun, fun_name, tangent_out
from fgrad.control.common import type_text
from fgrad.core import ShapedArray, Tracer, from_scalar, get_aval
from fgrad.core.float0 import is_float0
from fgrad.errors import UnexpectedTracerError
from fgrad.ops.elementwise import convert_element_type
from fgrad.ops.rules import Zero, instantiate
from fgrad.transforms.custom import custom_jvp_call, custom_vjp_call

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _resolve(fun, args, kwargs, kind):
    """Positional arguments from a call with keywords and defaults."""
    code = None if kwargs or type(fun) is not types.FunctionType or fun.__dict__ else fun.__code__
    if code is not None and len(args) == code.co_argcount and not code.co_kwonlyargcount and not code.co_flags & _VARIADIC:
        return args  # as they are: a signature takes longer than the call
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        if kwargs:
            raise
        return args
    try:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(f"The following keyword arguments could not be resolved to positions: {', '.join(sorted(bound.kwargs))}")
    except TypeError as e:
        raise TypeError(
            f"The input arguments to the {kind}-decorated function {fun_name(fun)} could not be resolved to positional-only arguments. "
            f"Binding failed with the error:\n{e}"
        ) from None
    return bound.args


def _typed(leaves):
    """Python floats as arrays: rules and functions may ask for x.dtype, whatever they are called with."""
    return [from_scalar(x) if type(x) in (float, complex) else x for x in leaves]


def _nondiff(fun, argnums, argnames):
    """Positions of the arguments without derivatives, of which some may be named."""
    argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    argnames = (argnames,) if isinstance(argnames, str) else tuple(argnames)
    if not argnames:
        return argnums
    names = list(inspect.signature(fun).parameters)
    unknown = [n for n in argnames if n not in names]
    if unknown:
        raise ValueError(f"nondiff_argnames {unknown} are not parameters of {fun_name(fun)}: {names}")
    return tuple(sorted({*argnums, *map(names.index, argnames)}))


def _split(fun, nondiff_argnums, args, kwargs, kind):
    """(the arguments without derivatives, the others, call): call(f, others) is f of all arguments in their places."""
    args = _resolve(fun, args, kwargs, kind)
    nondiff = tuple(i % len(args) for i in nondiff_argnums)
    fixed = {i: args[i] for i in nondiff}

    def call(f, others):
        it = iter(others)
        return f(*[fixed[i] if i in fixed else next(it) for i in range(len(args))])

    return [args[i] for i in nondiff], tuple(a for i, a in enumerate(args) if i not in fixed), call


class SymbolicZero:
    """A tangent that is known to be zero, for rules set with symbolic_zeros=True."""

    def __init__(self, aval):
        self.aval, self.shape, self.dtype = aval, aval.shape, aval.dtype

    def __repr__(self):
        return f"SymbolicZero({self.aval})"


class CustomVJPPrimal:
    """An argument of a forward rule set with symbolic_zeros=True: its value, and whether a derivative in it may be asked for."""

    def __init__(self, value, perturbed=True):
        self.value, self.perturbed = value, perturbed


def zero_from_primal(x, symbolic_zeros=False):
    """The zero tangents of the leaves of x: arrays, or SymbolicZeros."""

    def of_leaf(leaf):
        zero = Zero(get_aval(leaf).tangent_aval())
        return SymbolicZero(zero.aval) if symbolic_zeros else tangent_out(zero)

    return tree.map(of_leaf, x)


def _symbolic(t):
    return SymbolicZero(t.aval) if type(t) is Zero else t


class custom_jvp:
    """A function with a derivative rule of its own: f.defjvp(rule), rule(primals, tangents) -> (out, tangent_out).

    >>> import fgrad, fgrad.numpy as jnp
    >>> @fgrad.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 3.0 * t
    >>> float(fgrad.grad(f)(1.0))
    3.0
    """

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        functools.update_wrapper(self, fun)
        self.fun, self.nondiff_argnums, self.jvp = fun, _nondiff(fun, nondiff_argnums, nondiff_argnames), None
        self.symbolic_zeros = False

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def defjvp(self, jvp, symbolic_zeros=False):
        """Set the rule; with nondiff_argnums it is called rule(*nondiff, primals, tangents)."""
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        return jvp

    def defjvps(self, *jvps):
        """One rule per argument: rule(tangent, out, *primals), or None for zero."""

        def rule(primals, tangents):
            if len(jvps) != len(primals):
                raise ValueError(f"defjvps of {fun_name(self.fun)} was given {len(jvps)} rules for {len(primals)} arguments")
            out = self(*primals)
            terms = [r(t, out, *primals) for r, t in zip(jvps, tangents) if r is not None]
            total = terms[0] if terms else tree.map(lambda o: instantiate(Zero(get_aval(o).tangent_aval())), out)
            for t in terms[1:]:
                total = tree.map(operator.add, total, t)
            return out, total

        self.defjvp(rule)

    def __call__(self, *args, **kwargs):
        if self.jvp is None:
            raise AttributeError(f"No JVP defined for custom_jvp function {fun_name(self.fun)} using defjvp.")
        fixed, dynamic, call = _split(self.fun, self.nondiff_argnums, args, kwargs, "custom_jvp")
        leaves, treedef = tree.flatten((dynamic, {}))
        leaves = _typed(leaves)
        out_tree = [None]

        def flat_jvp(primals, tangents):
            p = tree.unflatten(treedef, _typed(primals))[0]
            seen = _symbolic if self.symbolic_zeros else tangent_out
            t = tree.unflatten(treedef, [seen(x) for x in tangents])[0]
            pair = self.jvp(*fixed, p, t)
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"Custom JVP rule {fun_name(self.jvp)} for function {fun_name(self.fun)} must produce a pair (list or tuple of "
                    f"length two) representing primal and tangent outputs, but got {pair!s:.80}"
                )
            out, t_out = pair
            outs, tree_out = tree.flatten(out)
            ts, t_tree = tree.flatten(t_out)
            if t_tree != tree_out:
                raise TypeError(
                    f"Custom JVP rule {fun_name(self.jvp)} for function {fun_name(self.fun)} must produce primal and tangent "
                    "outputs with equal "
                    f"container (pytree) structures, but got {tree_out} and {t_tree} respectively."
                )
            out_tree[0] = tree_out
            return outs, [_rule_tangent(o, x, self) for o, x in zip(outs, ts)]

        flat_jvp.__name__ = fun_name(self.jvp)
        outs = custom_jvp_call(flat_fun(lambda *a: call(self.fun, _typed(a)), treedef, out_tree), flat_jvp, leaves, fun_name(self.fun))
        return tree.unflatten(out_tree[0], outs)


def _rule_tangent(out, t, rule):
    want = get_aval(out).tangent_aval()
    if type(t) is SymbolicZero:
        return Zero(want)
    got = ShapedArray(t.shape, dtypes.float0) if is_float0(t) else get_aval(t)
    if got.shape != want.shape or got.dtype != want.dtype:
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. "
            f"Expected {type_text(want)} (tangent type of {type_text(get_aval(out))}) but got {type_text(got)}. The rule is that of "
            f"{fun_name(rule.fun)}."
        )
    return Zero(want) if want.dtype == dtypes.float0 else convert_element_type(t, want.dtype)


_NONE = object()  # a cotangent of zeros


class custom_vjp:
    """A function with a reverse rule of its own: f.defvjp(fwd, bwd); fwd(*args) -> (out, residuals),
    bwd(residuals, ct) -> a tuple of cotangents. With nondiff_argnums, bwd takes those arguments first.

    >>> import fgrad
    >>> @fgrad.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (fgrad.numpy.clip(ct, -1, 1),))
    >>> float(fgrad.grad(lambda x: 5 * clip_gradient(x))(2.0))
    1.0
    """

    def __init__(self, fun, nondiff_argnums=(), nondiff_argnames=()):
        functools.update_wrapper(self, fun)
        self.fun, self.nondiff_argnums = fun, _nondiff(fun, nondiff_argnums, nondiff_argnames)
        self.fwd = self.bwd = None
        self.symbolic_zeros = False

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    def defvjp(self, fwd, bwd, symbolic_zeros=False, optimize_remat=False):
        """Set the rules. With symbolic_zeros, fwd's arguments are CustomVJPPrimal, and cotangents may be SymbolicZero."""
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros

    def __call__(self, *args, **kwargs):
        if self.fwd is None:
            raise AttributeError(f"No VJP defined for custom_vjp function {fun_name(self.fun)} using defvjp.")
        fixed, dynamic, call = _split(self.fun, self.nondiff_argnums, args, kwargs, "custom_vjp")
        self._refuse_tracers(fixed)
        leaves, treedef = tree.flatten((dynamic, {}))
        leaves = _typed(leaves)
        in_avals = [get_aval(x) for x in leaves]
        out_tree, res_tree = [None], [None]

        def flat_fwd(perturbed, *xs):
            xs = _typed(xs)
            pair = call(self.fwd, tree.unflatten(treedef, list(map(CustomVJPPrimal, xs, perturbed)) if self.symbolic_zeros else xs)[0])
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(
                    f"Custom VJP fwd rule {fun_name(self.fwd)} for function {fun_name(self.fun)} must produce a pair (list "
                    "or tuple of length two) where the first element represents the primal output (equal to those of the "
                    f"custom_vjp-decorated function {fun_name(self.fun)}) and the second element represents residuals (i.e. "
                    f"values stored from the forward pass for use on the backward pass), but instead of a pair the "
                    f"fwd rule {fun_name(self.fwd)} produced {pair!s:.80}."
                )
            outs, out_tree[0] = tree.flatten(pair[0])
            res, res_tree[0] = tree.flatten(pair[1])
            return outs, res

        def flat_bwd(res, cts):
            if self.symbolic_zeros:
                cts = [_symbolic(ct) for ct in cts]
            else:
                cts = [tangent_out(ct) for ct in cts]
            out = self.bwd(*fixed, tree.unflatten(res_tree[0], res), tree.unflatten(out_tree[0], cts))
            return self._cotangents(out, dynamic, treedef, in_avals)

        flat_fwd.__name__ = fun_name(self.fwd)
        outs = custom_vjp_call(
            flat_fun(lambda *a: call(self.fun, _typed(a)), treedef, out_tree), flat_fwd, flat_bwd, leaves, fun_name(self.fun)
        )
        return tree.unflatten(out_tree[0], outs)

    def _refuse_tracers(self, fixed):
        """Raise UnexpectedTracerError for tracers among the arguments without derivatives: the rules could not close over them."""
        for x in tree.leaves(fixed):
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(
                    f"custom_vjp of {fun_name(self.fun)} found a {x._describe()} among its nondiff_argnums, which take Python values only. "
                    "Make it an argument like any other, with None as its cotangent."
                )

    def _cotangents(self, out, dynamic, treedef, in_avals):
        """The rule's cotangents as leaves: None stands for zeros of an argument or of a part of one."""
        if isinstance(out, list):
            out = tuple(out)
        if not isinstance(out, tuple) or len(out) != len(dynamic):
            raise TypeError(
                f"Custom VJP bwd rule {fun_name(self.bwd)} for {fun_name(self.fun)} must produce a tuple of {len(dynamic)} "
                "cotangents, one per "
                f"differentiable argument, got {type(out).__name__}" + (f" of length {len(out)}" if isinstance(out, tuple) else "")
            )
        cts, avals = [], iter(in_avals)
        for i, (ct, arg) in enumerate(zip(out, dynamic)):
            given = tree.map(lambda x: _NONE if x is None else x, ct, is_leaf=lambda x: x is None)
            try:
                leaves = tree.broadcast_prefix(given, arg)
            except ValueError:
                leaves = None
            if leaves is None or sum(x is not _NONE for x in leaves) != sum(x is not _NONE for x in tree.leaves(given)):
                raise TypeError(
                    f"Custom VJP bwd rule {fun_name(self.bwd)} for {fun_name(self.fun)}: the cotangent of argument {i} has structure "
                    f"{tree.structure(ct)}, expected {tree.structure(arg)}"
                )
            for x in leaves:
                want = next(avals).tangent_aval()
                if type(x) is SymbolicZero and (x.shape, x.dtype) != (want.shape, want.dtype):
                    raise ValueError(
                        "Custom VJP bwd rule produced a SymbolicZero with a shape/dtype that does not match the corresponding input "
                        f"tangent shape/dtype: for argument {i} it had {type_text(x)} while the input had {type_text(want)}. "
                        "Consider just returning a None here instead of a SymbolicZero object."
                    )
                if x is _NONE or type(x) is SymbolicZero or want.dtype == dtypes.float0:
                    cts.append(Zero(want))
                    continue
                if get_aval(x).shape != want.shape:
                    raise ValueError(
                        f"Custom VJP bwd rule {fun_name(self.bwd)} produced a cotangent of shape {get_aval(x).shape} for argument {i} "
                        f"of shape {want.shape}"
                    )
                cts.append(convert_element_type(x, want.dtype))
        return cts
