"""experimental.jet: derivatives along curves, against polynomials and closed forms."""

import math

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad.experimental.jet import jet, jet2


def test_derivatives_of_functions_of_one_variable():
    x = np.float32([0.3, 1.1])
    one, zero = np.ones_like(x), np.zeros_like(x)
    y, series = jet(jnp.sin, (x,), ((one, zero, zero),))
    for got, want in zip([y, *series], [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)]):
        np.testing.assert_allclose(got, want, rtol=1e-5)
    _, series = jax.jit(lambda x: jet(lambda x: x**4, (x,), ((jnp.ones_like(x), *[jnp.zeros_like(x)] * 3),)))(x)
    for got, want in zip(series, [4 * x**3, 12 * x**2, 24 * x, 24 * one]):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_curves():
    """Along x(t) = t + t^2 of polynomials the series are those of the composition."""
    p, curve = np.poly1d([1.0, -2, 0, 3]), np.poly1d([1.0, 1, 0.5])
    whole = p(curve).coeffs[::-1]
    derivatives = [math.factorial(k) * c for k, c in enumerate(curve.coeffs[::-1])]
    f = lambda x: x**3 - 2 * x**2 + 3  # noqa: E731
    y, series = jet(f, (derivatives[0],), ((derivatives[1], derivatives[2], 0.0),))
    np.testing.assert_allclose([y, *series], [math.factorial(k) * whole[k] for k in range(4)], rtol=1e-5)
    y, series = jet2(f, (0.5,), ((1.0, 1.0, 0.0),))
    np.testing.assert_allclose([y, *series], whole[:4], rtol=1e-5)


def test_several_arguments_and_trees():
    x, y = jnp.arange(3.0), jnp.ones(3)
    out, series = jet(lambda x, y: {"dot": x @ y, "n": x.sum() * 2}, (x, y), ([y, 0 * y], [2 * y, y]))
    assert (out["dot"], out["n"]) == (3, 6)
    # (x . y)' = x'.y + x.y' = 3 + 6; (x . y)'' = 2 x'.y' + x.y'' = 12 + 3
    assert [float(v) for v in series["dot"]] == [9, 15] and [float(v) for v in series["n"]] == [6, 0]


def test_refusals():
    with pytest.raises(ValueError, match="inconsistent lengths"):
        jet(jnp.add, (1.0, 2.0), ((1.0,), (1.0, 2.0)))
    with pytest.raises(ValueError, match="not an array"):
        jet(lambda x: x["a"], ({"a": 1.0},), (({"a": 1.0},),))
