"""Functions of blocks of vectors: numbers at the ends of a function's range, which send their block another way, and
lengths that are no whole blocks leave the bits of all other numbers alone."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from tests.kernels.vm_builder import apply

NAMES = ["exp", "expm1", "tanh", "log", "log1p", "logistic", "gelu", "gelu_slope"]
TYPES = [np.float32, np.float64]
BLOCK = 32  # numbers: no less than any machine's block


def drawn(name, dtype, n):
    rng = np.random.default_rng(n)
    x = rng.normal(0, 3, n) * rng.choice([1e-3, 0.1, 1, 1, 1], n)
    return (np.abs(x) if name.startswith("log") and name != "logistic" else x).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", [np.inf, -np.inf, np.nan, 0.0, -0.0, 90.0, -90.0, -104.0, 720.0, -710.0, 1e-41, 3e38, -2.0])
def test_neighbours_of_an_end(name, dtype, end):
    x = drawn(name, dtype, 40 * BLOCK)
    want = apply(name, dtype, x)
    for at in (0, 3, 17, BLOCK - 1):
        y = x.copy()
        y[at::BLOCK] = end
        got = apply(name, dtype, y).copy()
        alone = apply(name, dtype, np.full(1, end, dtype))[0]
        assert np.array_equal(got[at::BLOCK], np.full(40, alone), equal_nan=True)
        got[at::BLOCK] = want[at::BLOCK]
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_lengths(name, dtype):
    x = drawn(name, dtype, 3 * BLOCK)
    want = apply(name, dtype, x)
    for n in range(1, 3 * BLOCK):
        assert apply(name, dtype, x[:n].copy()).tobytes() == want[:n].tobytes()
        assert apply(name, dtype, x[n:].copy()).tobytes() == want[n:].tobytes()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [5, 32, 33, 100, 4096, 5000])
def test_softmax_of_masked_rows(n, dtype):
    """-inf and what is far below the greatest number are 0 and leave the rest alone."""
    rng = np.random.default_rng(n)
    x = rng.normal(0, 4, (3, n)).astype(dtype)
    hidden = rng.random((3, n)) < 0.3
    hidden[:, 0] = False
    with np.errstate(all="ignore"), fgrad.enable_x64():
        for far in (-np.inf, -1e30, -2000.0):
            y = np.where(hidden, np.asarray(far, dtype), x)
            wide = np.where(hidden, -np.inf, y.astype(np.longdouble))
            e = np.exp(wide - wide.max(1, keepdims=True))
            got = np.asarray(nn.softmax(jnp.asarray(y)))
            assert got.dtype == dtype
            np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=3e-6 if dtype == np.float32 else 1e-14, atol=0)
            lse = np.log(e.sum(1)) + wide.max(1)
            np.testing.assert_allclose(np.asarray(nn.logsumexp(jnp.asarray(y), axis=1)), lse, rtol=2e-6 if dtype == np.float32 else 1e-14)
