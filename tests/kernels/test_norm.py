import numpy as np
import pytest

from fgrad._kernels import norm as kernels
from fgrad._kernels import parallel
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
SHAPES = [(1,), (7,), (5, 64), (3, 4, 100), (2, 4096), (3, 10001), (4, 1)]
TYPES = [np.float32, np.float64]


def data(shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def norm(name, x, eps):
    return run_kernel(K[name], [x], [(x.shape, x.dtype), (x.shape[:-1], x.dtype)], fp=[eps])


def tangent(name, x, r, t):
    return run_kernel(K[name], [x, r, t], [(x.shape, x.dtype)])[0]


def close(got, want, dtype, factor=10):
    np.testing.assert_allclose(got, want, rtol=factor * np.finfo(dtype).eps, atol=factor * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_rms_norm(shape, dtype):
    x, t, eps = data(shape, dtype), data(shape, dtype, 1), 1e-6
    x64, t64 = x.astype(np.float64), t.astype(np.float64)
    r64 = 1 / np.sqrt((x64**2).mean(-1, keepdims=True) + eps)
    y, r = norm("rms_norm", x, eps)
    close(y, x64 * r64, dtype)
    close(r, r64[..., 0], dtype)
    want = r64 * (t64 - x64 * r64**2 * (x64 * t64).mean(-1, keepdims=True))
    close(tangent("rms_norm_tangent", x, r, t), want, dtype, 20 + (2000 if shape[-1] == 1 else 0))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm(shape, dtype):
    x, t, eps = data(shape, dtype), data(shape, dtype, 1), 1e-5
    x64, t64 = x.astype(np.float64), t.astype(np.float64)
    d = x64 - x64.mean(-1, keepdims=True)
    r64 = 1 / np.sqrt((d**2).mean(-1, keepdims=True) + eps)
    y, r = norm("layer_norm", x, eps)
    close(y, d * r64, dtype)
    close(r, r64[..., 0], dtype)
    y64 = d * r64
    want = r64 * (t64 - t64.mean(-1, keepdims=True) - y64 * (y64 * t64).mean(-1, keepdims=True))
    close(tangent("layer_norm_tangent", y, r, t), want, dtype, 20)


def test_layer_norm_with_a_mean_far_above_the_spread():
    x = (1e4 + 0.05 * np.random.default_rng(2).standard_normal((4, 777))).astype(np.float32)
    x64 = x.astype(np.float64)
    d = x64 - x64.mean(-1, keepdims=True)
    want = d / np.sqrt((d**2).mean(-1, keepdims=True))
    y, _ = norm("layer_norm", x, 0.0)
    assert np.abs(y - want).max() < 2e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(9, 5, 3), (2, 64, 31), (40, 32, 8), (41, 65, 2), (5, 7, 32)])
def test_moments_of_blocks_of_few_columns(shape, dtype):
    x = data(shape, dtype) + 3
    mean, squares = run_kernel(K["moments"], [x], [(shape[::2], dtype)] * 2, ip=[1])
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(1), rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_allclose(squares, wide.var(1) * shape[1], rtol=64 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [4096 * 15, 4096 * 15 + 1, 4096 * 16, 100003])
def test_moments_of_long_rows(n, dtype):
    """Rows from 16 parts on are joined from them; a mean far above the spread takes no digits, and threads none either."""
    x = (data((2, n), dtype) * 0.5 + np.array([[1e3], [-2.0]])).astype(dtype)
    x64 = x.astype(np.float64)
    results = []
    before = parallel.get_num_threads()
    for threads in (1, 2):
        parallel.set_num_threads(threads)
        try:
            results.append(run_kernel(K["moments"], [x], [((2,), dtype)] * 2, ip=[1]))
        finally:
            parallel.set_num_threads(before)
    mean, squares = results[0]
    close(mean, x64.mean(1), dtype, 1)
    np.testing.assert_allclose(squares, ((x64 - x64.mean(1, keepdims=True)) ** 2).sum(1), rtol=4e-7 if dtype == np.float32 else 1e-12)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(770, 70), (769, 32), (1025, 64), (2, 900, 100), (3, 1300, 33)])
def test_moments_of_long_columns(shape, dtype):
    """Columns of more than 768 rows are joined from blocks of 256."""
    axis = len(shape) - 2
    x = (data(shape, dtype) * 0.5 + 1e3).astype(dtype)
    x64, out = x.astype(np.longdouble), (*shape[:axis], shape[-1])  # NumPy adds columns up one row after the other
    results = []
    before = parallel.get_num_threads()
    for threads in (1, 2):
        parallel.set_num_threads(threads)
        try:
            results.append(run_kernel(K["moments"], [x], [(out, dtype)] * 2, ip=[axis]))
        finally:
            parallel.set_num_threads(before)
    mean, squares = results[0]
    close(mean, x64.mean(axis).astype(np.float64), dtype, 1 if dtype == np.float32 else 2)
    spread = ((x64 - x64.mean(axis, keepdims=True)) ** 2).sum(axis)
    np.testing.assert_allclose(squares, spread.astype(np.float64), rtol=2e-6 if dtype == np.float32 else 1e-12)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_moments_of_long_columns_with_infinities_and_nan():
    x = np.zeros((1000, 40), np.float32)
    x[999, 0], x[5, 1], x[300, 39] = np.inf, np.nan, -np.inf
    mean, squares = run_kernel(K["moments"], [x], [((40,), np.float32)] * 2, ip=[0])
    np.testing.assert_array_equal(mean[[0, 1, 2, 39]], [np.inf, np.nan, 0, -np.inf])
    np.testing.assert_array_equal(squares[[0, 1, 2, 39]], [np.nan, np.nan, 0, np.nan])


def test_moments_of_long_rows_with_infinities_and_nan():
    x = np.zeros((3, 70000), np.float32)
    x[0, 69999], x[1, 5] = np.inf, np.nan
    mean, squares = run_kernel(K["moments"], [x], [((3,), np.float32)] * 2, ip=[1])
    np.testing.assert_array_equal(mean, [np.inf, np.nan, 0])
    np.testing.assert_array_equal(squares, [np.nan, np.nan, 0])


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_tangent_is_the_derivative_and_symmetric(name):
    x, s, t = (data((3, 12), np.float64, k) for k in range(3))
    y, r = norm(name, x, 1e-3)
    saved = x if name == "rms_norm" else y
    h = 1e-6
    numeric = (norm(name, x + h * t, 1e-3)[0] - norm(name, x - h * t, 1e-3)[0]) / (2 * h)
    np.testing.assert_allclose(tangent(name + "_tangent", saved, r, t), numeric, atol=1e-8)
    np.testing.assert_allclose((s * tangent(name + "_tangent", saved, r, t)).sum(), (t * tangent(name + "_tangent", saved, r, s)).sum())


def test_nan_inf_and_zero_rows():
    x = np.array([[1, np.nan, 2], [1, np.inf, 2], [0, 0, 0], [5, 5, 5]], np.float32)
    y, r = norm("rms_norm", x, 1e-6)
    assert np.isnan(y[0]).all() and np.isnan(y[1, 1]) and r[1] == 0 and (y[2] == 0).all() and r[2] == np.float32(1e3)
    y, r = norm("layer_norm", x, 1e-6)
    assert np.isnan(y[:2]).all() and (y[2:] == 0).all() and (r[2:] == np.float32(1e3)).all()


def test_long_float32_row_keeps_its_digits():
    x = np.full((1, 2_000_000), 0.1, np.float32)
    _, r = norm("rms_norm", x, 0.0)
    np.testing.assert_allclose(r, 1 / np.float64(np.float32(0.1)), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0,), (2, 0, 3)])
def test_empty(shape):
    x = np.zeros(shape, np.float32)
    for name in ("rms_norm", "layer_norm"):
        y, r = norm(name, x, 1e-6)
        assert y.shape == shape and r.shape == shape[:-1]
        assert tangent(name + "_tangent", x, r, x).shape == shape


def test_rejected():
    x, r = np.zeros((3, 4), np.float32), np.zeros(3, np.float32)
    outs = [((3, 4), np.float32), ((3,), np.float32)]
    with pytest.raises(ValueError, match="eps"):
        run_kernel(K["rms_norm"], [x], outs, fp=[-1.0])
    with pytest.raises(ValueError, match="eps"):
        run_kernel(K["layer_norm"], [x], outs, fp=[np.nan])
    with pytest.raises(ValueError, match="axis -1 is out of range"):
        run_kernel(K["rms_norm"], [np.zeros((), np.float32)], [((), np.float32), ((), np.float32)], fp=[0.0])
    with pytest.raises(ValueError, match="contiguous"):
        run_kernel(K["rms_norm"], [np.zeros((4, 3), np.float32).T], outs, fp=[0.0])
    with pytest.raises(ValueError, match="float32 or float64"):
        run_kernel(K["rms_norm"], [x.astype(np.float16)], outs, fp=[0.0])
    with pytest.raises(ValueError, match="operand 1"):
        run_kernel(K["rms_norm_tangent"], [x, x, x], [((3, 4), np.float32)])
    with pytest.raises(ValueError, match="operand 2"):
        run_kernel(K["layer_norm_tangent"], [x, r, r], [((3, 4), np.float32)])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [*SHAPES, (0, 5), (9, 3), (70, 20)])
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_weights_and_bias(name, shape, dtype):
    x, w, b = data(shape, dtype), data(shape[-1:], dtype, 1), data(shape[-1:], dtype, 2)
    y, r = norm(name, x, 1e-5)
    rows = [np.broadcast_to(v, shape) for v in (w, b)]
    for k, want in ((1, y * w), (2, y * w + b)):
        got, r2 = run_kernel(K[name], [x, *rows[:k]], [(shape, dtype), (shape[:-1], dtype)], fp=[1e-5])
        close(got, want, dtype, 2)
        np.testing.assert_array_equal(r2, r)


def test_rejected_weights():
    x, outs = np.zeros((3, 4), np.float32), [((3, 4), np.float32), ((3,), np.float32)]
    with pytest.raises(ValueError, match="operand 1, .*must be one row"):
        run_kernel(K["layer_norm"], [x, x], outs, fp=[0.0])
    with pytest.raises(ValueError, match="operand 2, .*must be one row"):
        run_kernel(K["layer_norm"], [x, np.broadcast_to(x[0], x.shape), x[:1]], outs, fp=[0.0])
    with pytest.raises(ValueError, match="operand 1 is float64"):
        run_kernel(K["rms_norm"], [x, np.broadcast_to(np.zeros(4), x.shape)], outs, fp=[0.0])
