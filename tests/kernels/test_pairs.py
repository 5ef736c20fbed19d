"""Sums over differences of all pairs of rows against NumPy: sizes that end within vectors, panels and blocks, strides, checks."""

import numpy as np
import pytest

from fgrad._kernels import pairs
from tests.kernels.harness import run_kernel

DISTANCES, MOMENTS = pairs.KERNELS["pair_distances"], pairs.KERNELS["pair_moments"]
SIZES = [(1, 1, 1, 1), (2, 5, 7, 3), (1, 9, 65, 16), (3, 17, 33, 40), (1, 300, 130, 31), (1, 8, 64, 300), (2, 18, 520, 67), (1, 0, 4, 3)]


def draw(b, m, n, k, dtype, turned):
    rng = np.random.default_rng(m * n + k)
    x, y, w = [rng.standard_normal(s).astype(dtype) for s in ((b, m, k), (b, n, k), (b, m, n))]
    if turned:  # columns of x and y lie together, rows of w lie across
        x, y, w = [v.swapaxes(1, 2).copy().swapaxes(1, 2) for v in (x, y, w)]
    return x, y, w


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_distances(size, dtype, turned):
    b, m, n, k = size
    x, y, _ = draw(*size, dtype, turned)
    d = x[:, :, None].astype(np.float64) - y[:, None]
    tol = {"rtol": 3e-6 if dtype == np.float32 else 1e-13, "atol": 1e-6}
    factors = np.random.default_rng(k).standard_normal((b, 1, k)).astype(dtype)
    numbers = np.broadcast_to(np.array(1.5, dtype), (b, 1, k))
    for ins, fp, f in (([], 1.0, 1.0), ([], 0.7, dtype(0.7)), ([factors], 1.0, factors[:, None]), ([numbers], 1.0, 1.5)):
        want = [(d * d).sum(-1), abs(d).sum(-1), ((d * f) ** 2).sum(-1), abs(d * f).sum(-1), (d * d * f).sum(-1), (abs(d) * f).sum(-1)]
        for form in range(6) if not ins else range(2, 6):
            got = run_kernel(DISTANCES, [x, y, *ins], [((b, m, n), x.dtype)], [form], [fp])[0]
            np.testing.assert_allclose(got, want[form], rtol=tol["rtol"], atol=tol["atol"] * (1 + form) * k**0.5)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_moments(size, dtype, turned):
    b, m, n, k = size
    x, y, w = draw(*size, dtype, turned)
    x, y = x.copy(), y.copy()
    want = -2 * (w[..., None].astype(np.float64) * (x[:, :, None] - y[:, None])).sum(2)
    got = run_kernel(MOMENTS, [w, np.ascontiguousarray(x), np.ascontiguousarray(y)], [((b, m, k), x.dtype)], fp=[-2.0])[0]
    np.testing.assert_allclose(got, want, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=2e-5 * n**0.5)


def test_not_a_number_stays_in_its_row():
    x, y, _ = draw(1, 9, 20, 16, np.float32, False)
    x[0, 3, 5], y[0, 7, 2] = np.nan, np.inf
    for absolute in (0, 1):
        got = run_kernel(DISTANCES, [x, y], [((1, 9, 20), x.dtype)], [absolute], [1.0])[0][0]
        assert np.isnan(got[3]).all() and np.isposinf(np.delete(got, 3, 0)[:, 7]).all()
        assert np.isfinite(np.delete(np.delete(got, 3, 0), 7, 1)).all()


def test_checks():
    x, y, w = draw(1, 4, 5, 6, np.float32, False)
    out = ((1, 4, 5), x.dtype)
    wrong = ([x], [x, y[:, :, :5]], [x, y.astype(float)], [x, y, y[:, :1, :4]], [x, y, y])
    for ins, outs, ip in (*[(v, [out], [0]) for v in wrong], ([x, y], [((1, 4, 4), x.dtype)], [0]), ([x, y], [out], [6])):
        with pytest.raises(ValueError, match="pair_distances"):
            run_kernel(DISTANCES, ins, outs, ip, [1.0])
    across = x.swapaxes(1, 2).copy().swapaxes(1, 2)
    for ins, outs in (([w, x], [((1, 4, 6), x.dtype)]), ([w, across, y], [((1, 4, 6), x.dtype)]), ([w, x, y], [out])):
        with pytest.raises(ValueError, match="pair_moments"):
            run_kernel(MOMENTS, ins, outs, fp=[1.0])
