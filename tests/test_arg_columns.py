"""Where the extrema of columns are: ties, NaN and signed zeros, in columns of any number, of few rows and many."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def _columns(rng, shape, dtype):
    x = rng.integers(-9, 9, shape).astype(dtype)
    x[rng.random(shape) < 0.01] = np.nan
    x[(x == 0) & (rng.random(shape) < 0.5)] *= -1
    x[rng.random(shape) < 0.01] = np.inf
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 2, 7, 32, 33, 40, 41, 100])
def test_columns(rows, dtype):
    rng = np.random.default_rng(0)
    with fgrad.enable_x64(dtype == "float64"):
        for columns in (1, 8, 15, 16, 31, 32, 33, 63, 64, 100, 256, 257, 300):
            x = _columns(rng, (3, rows, columns), dtype)
            for name in ("argmax", "argmin"):
                np.testing.assert_array_equal(getattr(jnp, name)(x, 1), getattr(np, name)(x, 1), err_msg=f"{name} of {columns} columns")


@pytest.mark.parametrize("columns", [2, 9, 10, 17, 64])
def test_rows_turned(columns):
    rng = np.random.default_rng(0)
    x = _columns(rng, (1003, columns), "float32")
    for name in ("argmax", "argmin"):
        np.testing.assert_array_equal(getattr(jnp, name)(x, 1), getattr(np, name)(x, 1))
