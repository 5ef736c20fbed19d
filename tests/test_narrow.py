"""Reductions, positions and softmaxes of rows, with NaN and infinities in some, of all lengths around the widths of vectors and tiles."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn

ROWS = (1, 17, 64, 65)
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 300)
DTYPES = ("float32", "float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64")


def _rows(rows, n, dtype, specials):
    rng = np.random.default_rng(rows * 1000 + n)
    x = rng.integers(-3, 4, (rows, n)).astype("float32" if dtype in ("bfloat16", "float16") else dtype)
    if specials:
        x.flat[rng.integers(0, x.size, 1 + x.size // 40)] = np.nan
        x.flat[rng.integers(0, x.size, 1 + x.size // 20)] = np.inf
        x.flat[rng.integers(0, x.size, 1 + x.size // 20)] = -np.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_rows(dtype):
    names = ["sum", "any"] + ["max", "min", "argmax", "argmin"] * (dtype != "complex64")
    with fgrad.enable_x64():
        for rows in ROWS:
            for n in LENGTHS:
                x = _rows(rows, n, dtype, rows % 2 and "float" in dtype)
                for name in names:
                    with np.errstate(invalid="ignore"):
                        want = getattr(np, name)(x, axis=1)
                    got = np.asarray(getattr(jnp, name)(jnp.asarray(x, dtype), axis=1).astype(want.dtype))
                    np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "bfloat16" else 1e-6, err_msg=f"{name} {rows}x{n}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_columns(dtype):
    """Read where they lie, computed first, and two results beside each other; widths around those of tiles and their groups."""
    names = ["sum", "any", "count_nonzero"] + ["max", "min", "ptp"] * (dtype not in ("complex64", "bool"))
    with fgrad.enable_x64(), np.errstate(invalid="ignore"):
        for n, columns in ((2, 5000), (3, 1025), (5, 16), (67, 1000), (130, 2049), (700, 10), (1029, 3)):
            x = _rows(n, columns, dtype, n % 2 and "float" in dtype)
            for name in names:
                want = getattr(np, name)(x, axis=0)
                got = np.asarray(fgrad.jit(lambda x, name=name: getattr(jnp, name)(x, axis=0))(jnp.asarray(x, dtype)).astype(want.dtype))
                if dtype in ("int8", "uint8") and name == "ptp":
                    want = want.astype(got.dtype)
                np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == "bfloat16" else 1e-6, err_msg=f"{name} {n}x{columns}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_rows(dtype):
    with fgrad.enable_x64():
        for rows in ROWS:
            for n in LENGTHS:
                x = np.random.default_rng(n).uniform(0.8, 1.2, (rows, n)).astype(dtype)
                np.testing.assert_allclose(jnp.prod(jnp.asarray(x), axis=1), np.prod(x.astype("float64"), axis=1), rtol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_softmaxes_of_rows_and_columns(dtype, axis):
    tol = {"rtol": 3e-6, "atol": 3e-6} if dtype == "float32" else {"rtol": 1e-13, "atol": 1e-13}
    with fgrad.enable_x64():
        for rows in ROWS:
            for n in LENGTHS:
                x = np.random.default_rng(n).normal(size=(rows, n)).astype(dtype)
                x = x if axis else x.T.copy()
                wide = x.astype("float64")
                e = np.exp(wide - wide.max(axis, keepdims=True))
                total = e.sum(axis, keepdims=True)
                y = e / total
                a = jnp.asarray(x)
                np.testing.assert_allclose(nn.softmax(a, axis), y, **tol)
                np.testing.assert_allclose(nn.log_softmax(a, axis), np.log(y), **tol)
                np.testing.assert_allclose(nn.logsumexp(a, axis), (np.log(total) + wide.max(axis, keepdims=True)).squeeze(axis), **tol)
                ct = np.cos(np.arange(x.size, dtype=dtype)).reshape(x.shape)
                pull = fgrad.vjp(lambda v: nn.softmax(v, axis), a)[1](jnp.asarray(ct))[0]
                np.testing.assert_allclose(pull, y * (ct - (y * ct).sum(axis, keepdims=True)), **tol)
                pull = fgrad.vjp(lambda v: nn.log_softmax(v, axis), a)[1](jnp.asarray(ct))[0]
                np.testing.assert_allclose(pull, ct - y * ct.sum(axis, keepdims=True), rtol=tol["rtol"], atol=20 * tol["atol"])


def test_softmax_of_special_rows_and_columns():
    x = np.zeros((70, 6), "float32")
    x[3, 2], x[5, 1], x[7], x[9, 4] = np.nan, np.inf, -np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        want = np.exp(x - x.max(1, keepdims=True))
        want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(nn.softmax(jnp.asarray(x), 1), want, rtol=1e-6)
    np.testing.assert_allclose(nn.softmax(jnp.asarray(x.T.copy()), 0), want.T, rtol=1e-6)
    lse = np.asarray(nn.logsumexp(jnp.asarray(x), 1))
    assert np.isnan(lse[3]) and lse[5] == np.inf and lse[7] == -np.inf and np.isclose(lse[9], np.log(5))
