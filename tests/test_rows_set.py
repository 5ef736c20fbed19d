"""Rows that are set: the last update of each counts, and rows that none sets stay."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

rng = np.random.default_rng(5)


@pytest.mark.parametrize("width", [2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 40, 150])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.complex64])
@pytest.mark.parametrize("updates", ["permutation", "some twice", "beyond"])
def test_rows(width, dtype, updates):
    rows = 65536 * 2 // (width * np.dtype(dtype).itemsize)
    index = rng.permutation(rows) if updates == "permutation" else rng.integers(0, rows, rows + 100)
    if updates == "beyond":
        index = index * 2 - 50  # negative ones count from the end
    a = (rng.standard_normal((rows, width)) * 9).astype(dtype)
    u = (rng.standard_normal((len(index), width)) * 9).astype(dtype)
    want, zeros = a.copy(), np.zeros_like(a)
    for i, row in zip(index, u):
        if -rows <= i < rows:
            want[i] = zeros[i] = row
    f = lambda a, i, u: a.at[i].set(u)
    np.testing.assert_array_equal(fgrad.jit(f)(a, index, u), want)
    np.testing.assert_array_equal(fgrad.jit(lambda a, i, u: f(a * 1, i, u))(a, index, u), want)  # in place
    np.testing.assert_array_equal(fgrad.jit(lambda a, i, u: f(a.T.copy().T, i, u))(a, index, u), want)
    np.testing.assert_array_equal(fgrad.jit(lambda i, u: f(jnp.zeros(a.shape, dtype), i, u))(index, u), zeros)
