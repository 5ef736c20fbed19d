"""Taylor series through functions: jax.experimental.jet, by nested forward mode along a curve."""

import functools
import math

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.api import jvp
from fgrad.core import get_aval
from fgrad.dtypes import is_inexact


def jet(fun, primals, series, factorial_scaled=True, **_):
    """(fun(*primals), series of its results): derivatives of fun along a curve through primals.

    series: for each primal the derivatives of the curve at 0, as many for all (ValueError otherwise). The results' series are the
    derivatives of fun along it, of the same number; without factorial_scaled both are Taylor coefficients, derivatives over k!.
    Arguments are arrays; results may be a pytree. The work grows by about a factor of two with each order.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.experimental.jet import jet
    >>> y, (dy, ddy) = jet(jnp.sin, (0.5,), ((1.0, 0.0),))
    >>> [round(float(v), 4) for v in (y, dy, ddy)]
    [0.4794, 0.8776, -0.4794]
    """
    orders = set(map(len, series))
    if len(orders) != 1 or len(primals) != len(series):
        raise ValueError("jet terms have inconsistent lengths for different arguments")
    for i, (x, terms) in enumerate(zip(primals, series)):
        for what, v in ((f"primal value at position {i}", x), *((f"term {j} for argument {i}", t) for j, t in enumerate(terms))):
            if not tree.structure(v).is_leaf():
                raise ValueError(f"{what} is not an array")
    (order,) = orders
    scale = [1 if factorial_scaled else math.factorial(k + 1) for k in range(order)]
    out_tree = [None]

    def curve(t):
        args = [_point(x, [s * c for s, c in zip(terms, scale)], t) for x, terms in zip(primals, series)]
        outs, out_tree[0] = tree.flatten(fun(*args))
        return [[jnp.asarray(o) for o in outs]]

    derivatives = functools.reduce(lambda f, _: _with_next(f), range(order), curve)(jnp.zeros(()))
    outs, rest = derivatives[0], derivatives[1:]
    found = [[d[i] / c for d, c in zip(rest, scale)] for i in range(len(outs))]
    return tree.unflatten(out_tree[0], outs), tree.unflatten(out_tree[0], found)


def _point(x, derivatives, t):
    """x + sum of d_k t^k / k!, by Horner's rule."""
    dtype = get_aval(x).dtype
    if not is_inexact(dtype):
        return x
    total, t = jnp.zeros((), dtype), t.astype(dtype)
    for k in range(len(derivatives), 0, -1):
        total = (total + jnp.asarray(derivatives[k - 1], dtype) / math.factorial(k)) * t
    return x + total


def _with_next(f):
    """f(t) -> [values, first derivatives, ...] with the next derivative behind them."""

    def wrapped(t):
        known, slopes = jvp(f, (t,), (jnp.ones_like(t),))
        return [*known, [s if s.dtype == v.dtype else jnp.zeros_like(v) for s, v in zip(slopes[-1], known[-1])]]

    return wrapped


jet2 = functools.partial(jet, factorial_scaled=False)

__all__ = ["jet", "jet2"]
