"""Products with derivatives as functions, under the names that HIPS autograd gave them.

Each takes a function and the number of the argument (or numbers, in a tuple) that it is differentiated by, 0 by default.
"""

import inspect

from fgrad import array_tree as tree
from fgrad import numpy as jnp
from fgrad.api import grad, jacobian, jvp, vjp
from fgrad.core import wraps

__all__ = [
    "deriv", "elementwise_grad", "grad_and_aux", "grad_named", "hessian_tensor_product", "hessian_vector_product", "holomorphic_grad",
    "make_ggnvp", "make_hvp", "make_jvp", "make_vjp", "tensor_jacobian_product", "vector_jacobian_product",
]  # fmt: skip


def _of_argument(of_unary):
    """of_unary(fun, x) for functions of one argument, as a function of (fun, argnum), which gives one of fun's arguments."""

    @wraps(of_unary)
    def operator(fun, argnum=0):
        @wraps(fun)
        def applied(*args, **kwargs):
            several = isinstance(argnum, (tuple, list))
            at = tuple(argnum) if several else (argnum,)

            def unary(x):
                given = list(args)
                for i, v in zip(at, x if several else (x,)):
                    given[i] = v
                return fun(*given, **kwargs)

            return of_unary(unary, tuple(args[i] for i in at) if several else args[argnum])

        return applied

    return operator


def _ones(x):
    return tree.map(jnp.ones_like, x)


@_of_argument
def make_vjp(fun, x):
    """A function of fun's arguments that gives (pullback, value): pullback maps a cotangent of the value to one of the argument.

    >>> import fgrad
    >>> pullback, value = fgrad.make_vjp(lambda x, y: x * y)(3.0, 2.0)
    >>> float(value), float(pullback(1.0))
    (6.0, 2.0)
    """
    value, pullback = vjp(fun, x)
    return lambda cotangent: pullback(cotangent)[0], value


@_of_argument
def make_jvp(fun, x):
    """A function of fun's arguments that gives a function of a tangent, which gives (value, derivative along the tangent).

    >>> import fgrad
    >>> [float(v) for v in fgrad.make_jvp(lambda x: x**2)(3.0)(1.0)]
    [9.0, 6.0]
    """
    return lambda tangent: jvp(fun, (x,), (tangent,))


@_of_argument
def make_hvp(fun, x):
    """A function of fun's arguments that gives (product, gradient): product multiplies a vector by the Hessian of the scalar fun there.

    >>> import fgrad, fgrad.numpy as jnp
    >>> product, gradient = fgrad.make_hvp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    >>> product(jnp.ones(2)), gradient
    (Array([ 6., 12.], dtype=float32), Array([ 3., 12.], dtype=float32))
    """
    gradient, pullback = vjp(grad(fun), x)
    return lambda vector: pullback(vector)[0], gradient


@_of_argument
def elementwise_grad(fun, x):
    """The gradient of the sum of fun's elements: the derivative at each element where fun works element by element.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.elementwise_grad(lambda x: x**2)(jnp.array([1.0, 2.0]))
    Array([2., 4.], dtype=float32)
    """
    value, pullback = vjp(fun, x)
    if any(jnp.iscomplexobj(v) for v in tree.leaves(value)):
        raise TypeError("elementwise_grad applies to functions with real results")
    return pullback(_ones(value))[0]


@_of_argument
def deriv(fun, x):
    """The derivative of fun along a tangent of ones, by forward mode."""
    return jvp(fun, (x,), (_ones(x),))[1]


@_of_argument
def holomorphic_grad(fun, x):
    """The complex derivative of a holomorphic fun of a complex argument."""
    return grad(fun, holomorphic=True)(x)


@_of_argument
def grad_and_aux(fun, x):
    """(gradient of the first of fun's two results, the second result as it is)."""
    return grad(fun, has_aux=True)(x)


def grad_named(fun, argname):
    """The gradient by the positional argument of that name. Raises ValueError if fun has none."""
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def _contracted(derivative, fun, argnum, multiply):
    def product(*args, **kwargs):
        return multiply(args[-1], fun(*args[:-1], **kwargs))

    return derivative(product, argnum)


def hessian_tensor_product(fun, argnum=0):
    """A function of fun's arguments and a tensor of the argument's shape: the Hessian of the scalar fun times the tensor.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.hessian_tensor_product(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), jnp.ones(2))
    Array([ 6., 12.], dtype=float32)
    """
    return _contracted(grad, grad(fun, argnum), argnum, lambda t, g: jnp.tensordot(g, t, jnp.ndim(t)))


def tensor_jacobian_product(fun, argnum=0):
    """A function of fun's arguments and a tensor, whose axes are the first of fun's result: the tensor times the Jacobian.

    >>> import fgrad, fgrad.numpy as jnp
    >>> fgrad.tensor_jacobian_product(lambda x: x**2)(jnp.array([1.0, 2.0]), jnp.array([1.0, 10.0]))
    Array([ 2., 40.], dtype=float32)
    """
    return _contracted(jacobian, fun, argnum, lambda t, y: jnp.tensordot(t, y, jnp.ndim(t)))


hessian_vector_product, vector_jacobian_product = hessian_tensor_product, tensor_jacobian_product


def make_ggnvp(f, g=lambda y: 0.5 * jnp.sum(y**2, axis=-1), f_argnum=0):
    """A function of f's arguments that gives a function of a vector: the generalised Gauss-Newton matrix J^T H J of g(f(x)) times it,
    J being f's Jacobian and H g's Hessian at f(x)."""

    @_of_argument
    def at(fun, x):
        value, pullback = vjp(fun, x)
        curved = vjp(grad(g), value)[1]
        return lambda vector: pullback(curved(jvp(fun, (x,), (vector,))[1])[0])[0]

    return at(f, f_argnum)
