"""Rows that the elementwise VM reduces strip by strip: which elements are counted, NaN, zeros, memory's end, and threads."""

from functools import partial

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.kernels.vm_builder import same

REDUCTIONS = {
    "squares": lambda m, x, y: ((x - y) ** 2).sum(-1),
    "sizes": lambda m, x, y: m.abs(x - y).sum(-1),
    "largest size": lambda m, x, y: m.abs(x - y).max(-1),
    "least size": lambda m, x, y: m.abs(x - y).min(-1),
    "maximum": lambda m, x, y: (x - y).max(-1),
    "products": lambda m, x, y: ((x - y) * y).sum(-1),
    "products of two": lambda m, x, y: ((x - y) * (x + y)).sum(-1),
    "choices": lambda m, x, y: m.where(x > y, x - y, 2 * y).sum(-1),
    "several": lambda m, x, y: m.stack([(x - y).max(-1), (x - y).min(-1), (x * y).sum(-1)]),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [32, 64, 96, 128, 129, 200, 256])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows(name, k, dtype):
    """Of all pairs, of rows alone, and with a column; the last row ends where memory does."""
    f, rng = REDUCTIONS[name], np.random.default_rng(0)
    for a, b in (
        ((37, 1, k), (1, 41, k)),
        ((1517, k), (1517, k)),
        ((1517, k), (1517, 1)),
        ((1517, k), (k,)),
        ((3, 37, 1, k), (3, 1, 41, k)),
    ):
        x, y = rng.normal(size=a).astype(dtype), rng.normal(size=b).astype(dtype)
        want = f(np, x.astype("f8"), y.astype("f8"))
        with fgrad.enable_x64():
            got = np.asarray(fgrad.jit(partial(f, jnp))(jnp.asarray(x), jnp.asarray(y)))
        assert got.dtype == dtype
        np.testing.assert_allclose(got, want, rtol=2e-5 if dtype == "float32" else 1e-12, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("k", [64, 100, 128, 130])
def test_what_is_no_number(k):
    """NaN in any lane is the row's, and no other's; infinities; zeros keep their sign in sums."""
    x = np.random.default_rng(1).normal(size=(2 * k, k)).astype("f")
    x[np.arange(k), np.arange(k)] = np.nan
    x[k, 0], x[k + 1, k - 1] = np.inf, -np.inf
    for f in (
        lambda m, x: (x + 1).max(-1),
        lambda m, x: (x + 1).min(-1),
        lambda m, x: m.abs(x + 1).max(-1),
        lambda m, x: m.abs(x + 1).sum(-1),
    ):
        got, want = np.asarray(fgrad.jit(partial(f, jnp))(jnp.asarray(x))), f(np, x)
        assert np.isnan(got[:k]).all()
        np.testing.assert_allclose(got, want, rtol=1e-5)
    low = np.asarray(fgrad.jit(lambda x: (x - 1).max(-1))(jnp.full((64, k), -np.inf, "f")))
    same(low, np.full(64, -np.inf, "f"))
    assert np.signbit(np.asarray(fgrad.jit(lambda x: (-x).sum(-1))(jnp.zeros((64, k), "f")))).all()


@pytest.mark.parametrize("k", [64, 100, 512])
def test_bits_do_not_depend_on_threads(k):
    rng = np.random.default_rng(2)
    x, y = (jnp.asarray(rng.normal(size=(n, k)).astype("f")) for n in (301, 203))
    f = fgrad.jit(lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1))
    threads, got = fgrad.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            fgrad.set_num_threads(count)
            got.append(np.asarray(f(x, y)))
    finally:
        fgrad.set_num_threads(threads)
    same(got[1], got[0])
    same(got[2], got[0])
