"""Functions that bring their own derivatives."""

import functools

from fgrad import array_tree as tree
from fgrad.api import closure_convert, custom_jvp, custom_vjp, make_jaxpr
from fgrad.api.custom import CustomVJPPrimal, SymbolicZero, zero_from_primal
from fgrad.control.linear_call import linear_call
from fgrad.core import eval_jaxpr, wraps
from fgrad.transforms.custom import custom_jvp_call_p, custom_vjp_call_p
from fgrad.tree_util import Partial

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "linear_call",
    "zero_from_primal",
]


def custom_gradient(fun):
    """Decorator for fun(*args) -> (value, pullback), whose reverse rule is `pullback`: from the value's cotangent to the arguments'.

    >>> import fgrad
    >>> @fgrad.custom_gradient
    ... def f(x):
    ...     return x ** 2, lambda g: (g * x,)
    >>> float(f(3.0)), float(fgrad.grad(f)(3.0))
    (9.0, 3.0)
    """

    def called(*args):
        pair = fun(*args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            name = getattr(fun, "__name__", fun)
            raise TypeError(f"custom_gradient: {name} must return a pair (value, pullback), got {type(pair).__name__}")
        return pair

    @custom_vjp
    def value(*args):
        return called(*args)[0]

    def fwd(*args):
        out, pullback = called(*args)
        closed, result = make_jaxpr(pullback, return_shape=True)(out)
        return out, (Partial(functools.partial(_run, closed.jaxpr, tree.structure(result))), closed.consts)

    def bwd(residuals, ct):
        run, consts = residuals
        cts = run(consts, ct)
        return tuple(cts) if isinstance(cts, (list, tuple)) else (cts,)

    value.defvjp(fwd, bwd)

    @wraps(fun)
    def wrapped(*args):
        return value(*args)

    return wrapped


def _run(jaxpr, treedef, consts, ct):
    return tree.unflatten(treedef, eval_jaxpr(jaxpr, consts, *tree.leaves(ct)))
