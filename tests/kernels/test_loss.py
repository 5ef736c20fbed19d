import numpy as np
import pytest

from fgrad._kernels import loss as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
CASES = [(4, 10), (1, 1), (6, 1000), (3, 33000), (70, 17)]
TYPES = [np.float32, np.float64]


def data(rows, V, dtype, seed=0, labels=np.int32):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((rows, V)) * 4).astype(dtype), rng.integers(0, V, rows).astype(labels), rng


def forward(x, labels):
    return run_kernel(K["cross_entropy"], [x, labels], [((x.shape[0],), x.dtype)] * 2)


def cotangent(x, lse, labels, ct):
    return run_kernel(K["cross_entropy_cotangent"], [x, lse, labels, ct], [(x.shape, x.dtype)])[0]


def tangent(x, lse, labels, t):
    return run_kernel(K["cross_entropy_tangent"], [x, lse, labels, t], [((x.shape[0],), x.dtype)])[0]


@pytest.mark.parametrize("labels_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, V", CASES)
def test_values(rows, V, dtype, labels_dtype):
    x, labels, rng = data(rows, V, dtype, labels=labels_dtype)
    if rows > 2:
        labels[1], labels[2] = -100, V
    ok = (labels >= 0) & (labels < V)
    safe = np.where(ok, labels, 0)
    x64 = x.astype(np.float64)
    m = x64.max(1)
    lse64 = m + np.log(np.exp(x64 - m[:, None]).sum(1))
    tol = dict(rtol=20 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)
    loss, lse = forward(x, labels)
    np.testing.assert_allclose(lse, lse64, **tol)
    np.testing.assert_allclose(loss, np.where(ok, lse64 - x64[np.arange(rows), safe], 0), **tol)
    ct, t = rng.standard_normal(rows).astype(dtype), rng.standard_normal((rows, V)).astype(dtype)
    jac = np.exp(x64 - lse64[:, None])
    jac[np.arange(rows), safe] -= 1
    jac *= ok[:, None]
    np.testing.assert_allclose(cotangent(x, lse, labels, ct), ct[:, None] * jac, **{k: 5 * v for k, v in tol.items()})
    np.testing.assert_allclose(tangent(x, lse, labels, t), (jac * t).sum(1), rtol=0, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rows, V", [*CASES, (33, 64), (17, 4095), (5, 4097), (0, 5), (5, 0)])
def test_exponentials(rows, V, dtype):
    x, labels, rng = data(rows, max(V, 1), dtype)
    x = x[:, :V]
    if rows > 4 and V:
        x[1], x[2, 0], x[3, V - 1], x[4, V // 2] = -np.inf, np.inf, np.nan, -np.inf
        labels[1], labels[4] = -1, V
    with np.errstate(all="ignore"):
        m = x.max(1, initial=-np.inf)
        total = np.exp(x.astype(np.float64) - m[:, None].astype(np.float64)).sum(1) if V else np.full(rows, np.nan)
        got = run_kernel(K["max_expsum"], [x], [((rows,), dtype)] * 2)
        tol = dict(rtol=20 * np.finfo(dtype).eps, atol=20 * np.finfo(dtype).eps)
        np.testing.assert_array_equal(got[0], m)
        np.testing.assert_allclose(got[1], total, **tol)
        shift, ct, more = (rng.standard_normal(rows).astype(dtype) for _ in range(3))
        want = ct[:, None] * np.exp(x.astype(np.float64) - shift[:, None])
        out = [((rows, V), dtype)]
        np.testing.assert_allclose(run_kernel(K["exp_cotangent"], [x, shift, ct], out)[0], want, rtol=50 * np.finfo(dtype).eps)
        ok = (labels >= 0) & (labels < V)
        want[np.flatnonzero(ok), labels[ok]] += more[ok]
        tol["atol"] *= 50
        np.testing.assert_allclose(run_kernel(K["exp_cotangent"], [x, shift, ct, labels, more], out)[0], want, **tol)


def test_a_confident_row_keeps_a_small_loss():
    # the loss is log(1 + e^-12) = 6.1e-6, far below the spacing of float32 at 1,000
    x = np.array([[1000.0, 988.0]], np.float32)
    loss, lse = forward(x, np.zeros(1, np.int32))
    np.testing.assert_allclose(loss, np.log1p(np.exp(-12.0)), rtol=0.02)
    assert lse == 1000


def test_infinities_and_nan():
    inf, nan = np.inf, np.nan
    x = np.array([[-inf, 0, -inf], [nan, 0, 1], [inf, 0, 1], [-inf, -inf, -inf], [nan, 0, 1]], np.float32)
    labels = np.array([0, 1, 1, 0, 7], np.int32)
    loss, lse = forward(x, labels)
    np.testing.assert_array_equal(loss, np.array([inf, nan, inf, nan, 0], np.float32))
    np.testing.assert_array_equal(lse, np.array([0, nan, inf, -inf, nan], np.float32))
    d = cotangent(x, lse, labels, np.ones(5, np.float32))
    np.testing.assert_array_equal(d[[0, 4]], np.array([[-1, 1, 0], [0, 0, 0]], np.float32))
    assert np.isnan(d[1]).all() and tangent(x, lse, labels, np.ones_like(x))[4] == 0


@pytest.mark.parametrize("rows, V", [(0, 5), (3, 0), (0, 0)])
def test_empty(rows, V):
    x, labels = np.zeros((rows, V), np.float32), np.zeros(rows, np.int32)
    loss, lse = forward(x, labels)
    assert (loss == 0).all() and (lse == -np.inf).all()
    assert cotangent(x, lse, labels, loss).shape == (rows, V)
    assert (tangent(x, lse, labels, x) == 0).all()


def test_rejected():
    x, labels, row = np.zeros((3, 4), np.float32), np.zeros(3, np.int32), np.zeros(3, np.float32)
    outs = [((3,), np.float32)] * 2
    with pytest.raises(ValueError, match="labels are int16"):
        run_kernel(K["cross_entropy"], [x, labels.astype(np.int16)], outs)
    with pytest.raises(ValueError, match="without axis 1"):
        run_kernel(K["cross_entropy"], [x, np.zeros(4, np.int32)], outs)
    with pytest.raises(ValueError, match="two axes"):
        run_kernel(K["cross_entropy"], [row, labels], outs)
    with pytest.raises(ValueError, match="contiguous"):
        run_kernel(K["cross_entropy"], [np.zeros((4, 3), np.float32).T, labels], outs)
    with pytest.raises(ValueError, match="operand 1"):
        run_kernel(K["cross_entropy_cotangent"], [x, x, labels, row], [((3, 4), np.float32)])
    with pytest.raises(ValueError, match="operand 3"):
        run_kernel(K["cross_entropy_cotangent"], [x, row, labels, row.astype(np.float64)], [((3, 4), np.float32)])
    with pytest.raises(ValueError, match="operand 3"):
        run_kernel(K["cross_entropy_tangent"], [x, row, labels, row], [((3,), np.float32)])
    with pytest.raises(ValueError, match="3 inputs"):
        run_kernel(K["exp_cotangent"], [x, row, row, labels], [((3, 4), np.float32)])
    with pytest.raises(ValueError, match="operand 4"):
        run_kernel(K["exp_cotangent"], [x, row, row, labels, x], [((3, 4), np.float32)])
    with pytest.raises(ValueError, match="operand 5"):
        run_kernel(K["exp_cotangent"], [x, row, row, labels, row], [((3, 5), np.float32)])
    with pytest.raises(ValueError, match="operand 2"):
        run_kernel(K["max_expsum"], [x], [((3,), np.float32), ((4,), np.float32)])
