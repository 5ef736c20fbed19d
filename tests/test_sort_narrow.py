"""Rows of every length sort as NumPy's, by networks across lanes, in a row's vectors and by quicksort, keys of all bits among them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["uint32", "int32", "float32", "uint64", "int64", "float64"])
@pytest.mark.parametrize("rows", [1, 5, 16, 37])
@pytest.mark.parametrize("n", [2, 10, 25, 32, 33, 47, 48, 57, 64, 65, 96, 100, 128, 129, 200, 256, 257, 513, 1000, 3000, 5000])
def test_rows_are_sorted(dtype, rows, n):
    if dtype.startswith("float"):
        x = RNG.standard_normal((rows, n)) * 10.0 ** RNG.integers(-30, 30, (rows, n))
        x[:, ::7] = np.round(x[:, ::7])
        x[RNG.random((rows, n)) < 0.01] = np.nan
        x[RNG.random((rows, n)) < 0.01] = np.inf
    else:
        info = np.iinfo(dtype)
        x = RNG.integers(info.min, info.max, (rows, n), dtype=dtype, endpoint=True)
        x[:, ::5], x[:, 1::11] = info.max, info.min
    with fgrad.enable_x64("64" in dtype):
        x = x.astype(dtype)
        np.testing.assert_array_equal(jnp.sort(x, axis=1), np.sort(x, axis=1))
        down = _down(x) if dtype.startswith("float") else np.sort(x, axis=1)[:, ::-1]
        np.testing.assert_array_equal(jnp.sort(x, axis=1, descending=True), down)
        np.testing.assert_array_equal(jnp.argsort(x, axis=1), np.argsort(x, axis=1, kind="stable"))


def _down(x):
    order = np.argsort(-x, axis=1, kind="stable")  # NaN first, as reversed
    y = np.take_along_axis(x, order, 1)
    counts = np.isnan(y).sum(1)
    return np.stack([np.roll(row, k) for row, k in zip(y, counts)])


def test_long_rows():
    for dtype in ("float32", "uint32", "int32"):
        x = RNG.integers(0, 2**31 - 1, 200_000).astype(dtype)
        np.testing.assert_array_equal(jnp.sort(x), np.sort(x))
        x[::2] = 5
        np.testing.assert_array_equal(jnp.sort(x), np.sort(x))


def test_zeros_and_nans_keep_their_order():
    """-0.0 and 0.0 are equal, all NaN are: each comes out in the order it came in."""
    for dtype, bits in (("float32", "uint32"), ("float64", "uint64")):
        with fgrad.enable_x64(dtype == "float64"):
            x = RNG.standard_normal((40, 300)).round().astype(dtype)
            x[RNG.random(x.shape) < 0.3] = -0.0
            x[RNG.random(x.shape) < 0.1] = np.nan
            x[RNG.random(x.shape) < 0.1] *= -1
            for n in (20, 64, 128, 300):
                y = x[:, :n]
                want = np.take_along_axis(y, np.argsort(y, axis=1, kind="stable"), 1)
                np.testing.assert_array_equal(np.asarray(jnp.sort(jnp.asarray(y), axis=1)).view(bits), want.view(bits))


def integer_keys(dtype, n):
    """Keys spread evenly, of few values, of all but a few alike, of both ends of the range, and crowded in a corner of it."""
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    yield RNG.integers(least, most, n, dtype, endpoint=True)
    yield RNG.integers(0, 50, n).astype(dtype)
    yield np.where(RNG.random(n) < 0.01, RNG.integers(least, most, n, dtype), dtype(77))
    yield np.where(RNG.random(n) < 0.5, dtype(least), dtype(most))
    yield (least + (RNG.random(n) ** 8 * 2.0 ** (8 * np.dtype(dtype).itemsize - 4)).astype(np.int64)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int16, np.uint16])
@pytest.mark.parametrize("n", [4096, 5003, 40_000, 300_000])
def test_values_beside_integer_keys(dtype, n):
    """What lies beside equal keys keeps its order, of 4 bytes or not."""
    f = fgrad.jit(lambda k, v: fgrad.lax.sort_key_val(k, v))
    for keys in integer_keys(dtype, n):
        order = np.argsort(keys, kind="stable")
        for values in (
            np.arange(n, dtype=np.int32),
            RNG.standard_normal(n).astype(np.float32),
            np.arange(n, dtype=np.uint32).astype(np.int16),
        ):
            got_keys, got = f(keys, values)
            np.testing.assert_array_equal(np.asarray(got_keys), keys[order])
            np.testing.assert_array_equal(np.asarray(got), values[order])
