"""A user's NumPy functions as ops. ggml's writes into dst by parts; here fun takes NumPy arrays and returns one."""

import numpy as np

from fgrad import dtypes
from fgrad.api import ShapeDtypeStruct, custom_vjp
from fgrad.control.callback import pure_callback
from fgrad.errors import NotDifferentiableError
from fgrad.ggml.util import array, from_ne

__all__ = [
    "custom",
    "custom_4d",
    "map_custom1",
    "map_custom2",
    "map_custom3",
]


def custom(args, fun, shape, dtype, vjp=None):
    """fun(*args), a function of NumPy arrays without side effects, as an op with a result of this row-major shape and dtype.

    vjp: its derivative rule, vjp(ct, *args) -> one cotangent for each argument, written with fgrad's functions; without it,
    differentiating raises NotDifferentiableError. Under vmap fun is called once for each example.

    >>> import numpy as np
    >>> import fgrad, fgrad.numpy as jnp
    >>> f = lambda x: fgrad.ggml.custom([x], np.sinh, x.shape, x.dtype, vjp=lambda ct, x: (ct * jnp.cosh(x),))
    >>> fgrad.grad(lambda x: f(x).sum())(jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """
    args = [array("custom", a) for a in args]
    dtype = dtypes.canonicalize_dtype(dtype)
    result = ShapeDtypeStruct(tuple(shape), dtype)

    def call(*xs):
        return np.asarray(fun(*(np.asarray(x) for x in xs)), dtype)

    @custom_vjp
    def op(*xs):
        return pure_callback(call, result, *xs, vmap_method="sequential")

    def backward(xs, ct):
        if vjp is None:
            name = getattr(fun, "__name__", repr(fun))
            raise NotDifferentiableError(f"ggml.custom: {name} has no derivative rule; give one with vjp=lambda ct, *args: (...)")
        out = tuple(vjp(ct, *xs))
        if len(out) != len(xs):
            raise TypeError(f"ggml.custom: vjp must return one cotangent for each of {len(xs)} arguments, got {len(out)}")
        return out

    op.defvjp(lambda *xs: (op(*xs), xs), backward)
    return op(*args)


def custom_4d(type, ne0, ne1, ne2, ne3, args, fun, vjp=None):
    """custom with a result of shape (ne3, ne2, ne1, ne0)."""
    return custom(args, fun, from_ne(ne0, ne1, ne2, ne3), type, vjp)


def _map(args, fun, vjp):
    first = array("map_custom", args[0])
    return custom([first, *args[1:]], fun, first.shape, first.dtype, vjp)


def map_custom1(a, fun, vjp=None):
    """fun(a), of a's shape and dtype; see custom."""
    return _map([a], fun, vjp)


def map_custom2(a, b, fun, vjp=None):
    """fun(a, b), of a's shape and dtype; see custom."""
    return _map([a, b], fun, vjp)


def map_custom3(a, b, c, fun, vjp=None):
    """fun(a, b, c), of a's shape and dtype; see custom."""
    return _map([a, b, c], fun, vjp)
