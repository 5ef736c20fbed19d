"""Positions of extrema of rows of all lengths are NumPy's, with equals and NaN anywhere; so are sums and extrema of long rows."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)
LENGTHS = [1, 3, 8, 17, 31, 32, 33, 63, 64, 100, 127, 255, 256, 1000, 4095, 4096, 8191, 8192, 8195, 10000, 33000, 70001]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["numbers", "equals", "zeros", "infinities", "one NaN", "NaN", "at the end"])
def test_positions_in_rows(n, dtype, kind):
    x = RNG.standard_normal((3, n))
    if kind == "equals":
        x = RNG.integers(0, 3, (3, n)) * (np.arange(n) > n // 3)
    elif kind == "zeros":
        x = np.where(RNG.random((3, n)) < 0.5, -0.0, 0.0)
    elif kind == "infinities":
        x[RNG.random((3, n)) < 0.01], x[RNG.random((3, n)) < 0.01] = np.inf, -np.inf
    elif kind == "one NaN":
        x[np.arange(3), RNG.integers(0, n, 3)] = np.nan
    elif kind == "NaN":
        x[RNG.random((3, n)) < 0.01] = np.nan
    elif kind == "at the end":
        x[:, -1], x[:, -2:-1] = 9, -9
    with fgrad.enable_x64(dtype == "float64"):
        x = x.astype(dtype)
        for name in ("argmax", "argmin", "max", "min"):
            np.testing.assert_array_equal(fgrad.jit(lambda x: getattr(jnp, name)(x, 1))(x), getattr(np, name)(x, 1))  # noqa: B023
            np.testing.assert_array_equal(getattr(jnp, name)(x[0]), getattr(np, name)(x[0]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_long_rows_are_reduced_whole(dtype):
    """Each element once: sums of small integers are exact in any order, and an extremum is found wherever it is."""
    with fgrad.enable_x64("64" in dtype):
        for n in (8192, 9001, 10000, 16384, 16385):
            rows = (5 << 20) // n  # tiles are long from there on
            x = RNG.integers(0, 3, (rows, n)).astype(dtype)
            places = RNG.integers(0, n, rows)
            x[np.arange(rows), places] = 7
            np.testing.assert_array_equal(jnp.sum(x, 1), x.sum(1))
            np.testing.assert_array_equal(jnp.max(x, 1), np.full(rows, 7))
            np.testing.assert_array_equal(jnp.argmax(x, 1), places)
            np.testing.assert_array_equal(jnp.sum(x), x.sum())
            np.testing.assert_array_equal(jnp.vdot(x, x), (x * x).sum())
