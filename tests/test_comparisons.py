"""Comparisons, the counts of what they find, and roundings to bfloat16, whose loops take vectors and leave an end: all lengths, and NaN."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def _numbers(rng, shape, dtype):
    x = rng.integers(0, 4, shape).astype(dtype)
    if dtype == "float32":
        x[rng.random(shape) < 0.1] = np.nan
        x[x == 1] = -0.0
    elif dtype == "int32":
        x[x == 3] = -7
    elif dtype == "uint32":
        x[x == 3] = 2**32 - 1
    return x


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32"])
@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 100, 1023, 5000])
def test_comparisons(n, dtype):
    rng = np.random.default_rng(0)
    x, y = _numbers(rng, n, dtype), _numbers(rng, n, dtype)
    for name in COMPARISONS:
        compare, expected = fgrad.jit(getattr(jnp, name)), getattr(np, name)
        np.testing.assert_array_equal(compare(x, y), expected(x, y))
        np.testing.assert_array_equal(compare(x, y[0]), expected(x, y[0]))
        np.testing.assert_array_equal(compare(x[0], y), expected(x[0], y))


@pytest.mark.parametrize("columns", [*range(1, 19), 100])
@pytest.mark.parametrize("rows", [1, 3, 16, 1001])
def test_rows_counted(rows, columns):
    rng = np.random.default_rng(0)
    for share in (0.05, 0.5, 0.95, 1.0):
        x = rng.random((rows, columns)) < share
        for name in ("any", "all", "count_nonzero"):
            np.testing.assert_array_equal(getattr(jnp, name)(x, 1), getattr(np, name)(x, 1))
            of_numbers = fgrad.jit(lambda x, n=name: getattr(jnp, n)(x, 1))
            np.testing.assert_array_equal(of_numbers(x.astype("float32")), getattr(np, name)(x, 1))
        np.testing.assert_array_equal(fgrad.jit(lambda x: (x > 0).astype("float32").sum(1))(x.astype("float32")), x.sum(1))


@pytest.mark.parametrize("columns", [5, 17, 100, 128, 255])
def test_column_beside_row(columns):
    """Each row of the result has one value of the column."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, columns, 1000).astype("int32"), np.arange(columns, dtype="int32")
    np.testing.assert_array_equal(fgrad.nn.one_hot(i, columns), (i[:, None] == j).astype("float32"))
    x, y = rng.standard_normal(1000).astype("float32"), rng.standard_normal(columns).astype("float32")
    made = fgrad.jit(lambda x, y: jnp.where(x[:, None] < y, x[:, None] * y + 1, 2.0))(x, y)
    np.testing.assert_array_equal(made, np.where(x[:, None] < y, x[:, None] * y + 1, np.float32(2)))


@pytest.mark.parametrize("n", [1, 15, 16, 17, 100, 1000, 4099])
def test_bfloat16(n):
    bits = np.random.default_rng(0).integers(0, 2**32, n, dtype=np.uint32)
    bits[bits & 0x7F800000 == 0] |= 0x3F800000  # subnormal ones are 0 in arithmetic
    bits[::7] &= 0xFFFF8000  # ties
    bits[3::50] = 0x7F800001  # NaN whose bits are lost
    bits[4::50] = 0x7F7FFFFF  # rounds to infinity
    x = bits.view(np.float32)
    up = bits.astype(np.uint64)
    up = (up + 0x7FFF + ((up >> 16) & 1)) >> 16
    expected = np.where(np.isnan(x), (bits >> 16) | 0x40, up).astype(np.uint16)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: x.astype("bfloat16"))(x)).view(np.uint16), expected)
    rounded = np.asarray(fgrad.jit(lambda x: x.astype("bfloat16").astype("float32"))(x)).view(np.uint32)
    np.testing.assert_array_equal(rounded, expected.astype(np.uint32) << 16)
