"""Scattered rows of which some miss: alone among others, in runs, at both ends of what vectors of indices hold."""

import numpy as np
import pytest

import fgrad.numpy as jnp
from fgrad import lax


def _added(x, at, rows, mode):
    x = x.copy()
    for i, row in zip(at, rows):
        if mode == "clip":
            i = min(max(i, 0), len(x) - 1)
        if 0 <= i < len(x):
            x[i] += row
    return x


@pytest.mark.parametrize("mode", ["drop", "clip"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("width", [2, 8, 11])
def test_rows_that_miss(width, share, mode):
    rng = np.random.default_rng(0)
    for count in (31, 32, 39, 40, 1000, 3001):
        at = rng.integers(0, 20, count)
        out = rng.random(count) < share
        at[out] = rng.choice([-(2**31), -5, -1, 20, 21, 2**31 - 1], out.sum())
        at = at.astype(np.int32)
        x, rows = rng.integers(-9, 9, (20, width)).astype(np.float32), rng.integers(-9, 9, (count, width)).astype(np.float32)
        numbers = lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
        made = lax.scatter_add(jnp.asarray(x), at[:, None], rows, numbers, mode=mode)
        np.testing.assert_array_equal(made, _added(x, at, rows, mode))


def test_columns_that_miss():
    """Each batch has its own offsets."""
    rng = np.random.default_rng(0)
    x, rows = np.zeros((3, 40, 6), np.float32), rng.integers(-9, 9, (3, 100, 6)).astype(np.float32)
    at = rng.integers(-3, 43, 100).astype(np.int32)
    made = jnp.asarray(x).at[:, at].add(rows, mode="drop")
    expected = np.stack([_added(a, np.where(at < 0, at + 40, at), r, "drop") for a, r in zip(x, rows)])
    np.testing.assert_array_equal(made, expected)
