"""Batches of small matrices: each entry by itself, in whatever order operands and results lie."""

from math import ceil

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp

RNG = np.random.default_rng(0)
SIZES = [(1, 5, 20), (1, 20, 5), (1, 1, 2), (2, 2, 2), (3, 3, 3), (4, 4, 4), (5, 7, 9), (7, 3, 8), (6, 16, 17), (9, 2, 25), (8, 8, 33)]
SIZES += [(16, 3, 2), (20, 5, 1), (3, 40, 24)]
LAYOUTS = ["bmk,bkn->bmn", "bkm,bkn->bmn", "bmk,bnk->bmn", "bkm,bnk->bmn", "bmk,bkn->bnm", "mk,bkn->bmn", "mbk,kbn->bmn"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [2, 3, 50, 1000])
@pytest.mark.parametrize("spec", LAYOUTS)
def test_products_of_a_batch(spec, batch, dtype):
    left, right = spec.split("->")[0].split(",")
    with fg.enable_x64(dtype == "float64"):
        product = fg.jit(lambda x, y: fnp.einsum(spec, x, y))
        for m, k, n in SIZES:
            size = {"b": batch, "m": m, "k": k, "n": n}
            x, y = (RNG.standard_normal([size[c] for c in part]).astype(dtype) for part in (left, right))
            got, want = np.asarray(product(x, y)), np.einsum(spec, x.astype(float), y.astype(float))
            eps = 3e-6 if dtype == "float32" else 1e-14
            np.testing.assert_allclose(got, want, rtol=eps, atol=eps * k)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_operands(dtype):
    """Rows and entries with gaps, one matrix that all share, and what lies after an entry is not part of it."""
    with fg.enable_x64(dtype == "float64"):
        x, y = (fnp.asarray(RNG.standard_normal((20, 9, 11)), dtype).at[:, -2:].set(np.nan).at[:, :, -2:].set(np.inf) for _ in range(2))
        for m, k, n in ((4, 7, 3), (1, 5, 9), (7, 2, 8), (3, 7, 9)):
            a, b = np.asarray(x, float)[:, :m, :k], np.asarray(y, float)[:, :k, :n]
            eps = 3e-6 if dtype == "float32" else 1e-14
            for cut in (slice(None), slice(3, 17, 2)):
                got = fg.jit(lambda x, y, cut=cut, m=m, k=k, n=n: x[cut, :m, :k] @ y[cut, :k, :n])(x, y)
                np.testing.assert_allclose(got, a[cut] @ b[cut], rtol=eps, atol=10 * eps)
            got = fg.jit(lambda x, y, m=m, k=k, n=n: x[:, :m, :k] @ y[::-1, :k, :n])(x, y)
            np.testing.assert_allclose(got, a @ b[::-1], rtol=eps, atol=10 * eps)


def test_entries_do_not_depend_on_their_place():
    """Vectors that end beyond the last entry are cut, and threads begin anywhere: bits are those of any other entry."""
    for m, k, n in SIZES:
        x, y = RNG.standard_normal((1, m, k)).astype("float32"), RNG.standard_normal((1, k, n)).astype("float32")
        for batch in (7, ceil(20000 / (m * n))):
            got = np.asarray(fnp.asarray(np.repeat(x, batch, 0)) @ fnp.asarray(np.repeat(y, batch, 0)))
            np.testing.assert_array_equal(got, np.repeat(got[:1], batch, 0))
