import mpmath
import numpy as np
import pytest

from fgrad._kernels import parallel
from fgrad._kernels import softmax as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
CASES = [
    ((7,), 0),
    ((1,), 0),
    ((3, 128), 1),
    ((5, 33), 1),
    ((4, 6, 5), 1),
    ((300, 2), 0),
    ((3, 200, 70), 1),
    ((2, 9000), 1),
    ((2, 3, 4), 0),
    ((1, 40000), 1),
    ((64, 1), 1),
    ((64, 1), 0),
    ((2, 40000), 1),
    ((8195, 3), 0),
    ((3, 700, 5), 1),
    ((1001, 33), 0),
    ((900, 64), 0),
    ((9, 5, 3), 1),
    ((2, 64, 31), 1),
    ((40, 32, 8), 1),
    ((41, 65, 2), 1),
    ((5, 7, 32), 1),
    ((700, 130), 0),
    ((2, 520, 65), 1),
]
TYPES = [np.float32, np.float64]


def one(name, inputs, axis, shape=None):
    x = inputs[0]
    return run_kernel(K[name], inputs, [(x.shape if shape is None else shape, x.dtype)], ip=[axis])[0]


def data(shape, dtype, seed=0, scale=3.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def reference(x, axis):
    x = x.astype(np.float64)
    m = x.max(axis, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(axis, keepdims=True)
    return e / s, x - m - np.log(s), np.squeeze(m + np.log(s), axis)


def close(got, want, dtype, factor=8):
    np.testing.assert_allclose(got, want, rtol=factor * np.finfo(dtype).eps, atol=factor * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape, axis", CASES)
def test_values(shape, axis, dtype):
    x = data(shape, dtype)
    soft, log, lse = reference(x, axis)
    close(one("softmax", [x], axis), soft, dtype)
    close(one("log_softmax", [x], axis), log, dtype, 16)
    close(one("logsumexp", [x], axis, np.delete(shape, axis)), lse, dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape, axis", CASES)
def test_linear_maps(shape, axis, dtype):
    x, t = data(shape, dtype), data(shape, dtype, 1, 1.0)
    soft, log, _ = reference(x, axis)
    soft, log = soft.astype(dtype), log.astype(dtype)
    t64 = t.astype(np.float64)
    scale = 30 * np.finfo(dtype).eps * max(1.0, np.abs(t64).sum(axis).max())
    want = soft.astype(np.float64) * (t64 - (soft * t64).sum(axis, keepdims=True))
    np.testing.assert_allclose(one("softmax_tangent", [soft, t], axis), want, rtol=0, atol=scale)
    p = np.exp(log.astype(np.float64))
    np.testing.assert_allclose(one("log_softmax_tangent", [log, t], axis), t64 - (p * t64).sum(axis, keepdims=True), rtol=0, atol=scale)
    np.testing.assert_allclose(one("log_softmax_cotangent", [log, t], axis), t64 - p * t64.sum(axis, keepdims=True), rtol=0, atol=scale)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [5, 5000, 40001])
@pytest.mark.parametrize("columns", [False, True])
def test_infinities_and_nan(n, columns, dtype):
    inf, nan = np.inf, np.nan
    x = np.zeros((5, n), dtype)
    x[0] = -inf
    x[1, n - 2] = inf
    x[2, 1] = nan
    x[3, : n - 1] = -inf
    x[4, 0], x[4, 1] = nan, inf
    axis = 0 if columns else 1
    x = np.ascontiguousarray(x.T) if columns else x
    soft, log = one("softmax", [x], axis), one("log_softmax", [x], axis)
    lse = one("logsumexp", [x], axis, (5,))
    if columns:
        soft, log = soft.T, log.T
    assert np.isnan(soft[[0, 1, 2, 4]]).all() and np.isnan(log[[0, 1, 2, 4]]).all()
    np.testing.assert_array_equal(soft[3], np.eye(1, n, n - 1)[0])
    assert log[3, -1] == 0 and (log[3, :-1] == -inf).all()
    np.testing.assert_array_equal(lse, np.array([-inf, inf, nan, 0, nan], dtype))


@pytest.mark.parametrize("shape", [(50_001,), (20_001, 3), (2, 9000, 8), (4001, 40), (3001, 10, 7), (2, 1500, 100)])
def test_axes_give_the_same_with_any_number_of_threads(shape):
    x, t = data(shape, np.float32), data(shape, np.float32, 1)
    axis = len(shape) // 3 * (len(shape) - 2)
    names = [("softmax", [x]), ("log_softmax", [x]), ("softmax_tangent", [x, t]), ("log_softmax_tangent", [x, t])]
    before, got = parallel.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            got.append([one(name, inputs, axis) for name, inputs in names] + [one("logsumexp", [x], axis, np.delete(shape, axis))])
    finally:
        parallel.set_num_threads(before)
    for other in got[1:]:
        for a, b in zip(got[0], other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", TYPES)
def test_extreme_logits_do_not_overflow(dtype):
    big = np.finfo(dtype).max / 4
    x = np.array([[big, -big, 0], [-big, -big, -big]], dtype)
    np.testing.assert_allclose(one("softmax", [x], 1), [[1, 0, 0], [1 / 3] * 3], rtol=1e-6)
    np.testing.assert_array_equal(one("logsumexp", [x], 1, (2,)), np.array([big, -big], dtype))


@pytest.mark.parametrize("shape, axis", [((0, 4), 1), ((4, 0), 1), ((3, 0, 2), 1), ((2, 3, 0), 1)])
def test_empty(shape, axis):
    x = np.zeros(shape, np.float32)
    for name, n in [("softmax", 1), ("log_softmax", 1), ("softmax_tangent", 2), ("log_softmax_tangent", 2), ("log_softmax_cotangent", 2)]:
        assert one(name, [x] * n, axis).shape == shape
    lse = one("logsumexp", [x], axis, np.delete(shape, axis))
    assert (lse == -np.inf).all()


def test_logsumexp_of_a_long_float32_row_keeps_its_digits():
    x = np.zeros((1, 3_000_000), np.float32)
    assert abs(one("logsumexp", [x], 1, (1,))[0] - np.log(3e6)) < 2e-6


def ulps(got, exact, dtype):
    """Errors in units in the last place of the exact results."""
    info = np.finfo(dtype)
    out = []
    for g, e in zip(got.tolist(), exact):
        exponent = max(mpmath.frexp(e)[1], info.minexp + 1)
        out.append(float(abs(mpmath.mpf(g) - e) / mpmath.mpf(2) ** (exponent - info.nmant - 1)))
    return max(out)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
def test_exp_and_log_are_within_two_ulp(dtype):
    # log_softmax_cotangent of (x, 0) with ct = (0, 1) is -exp(x) exactly; logsumexp of (0, x) takes log of 1 + exp(x), rounded
    lo = -103.9 if dtype == np.float32 else -745.0
    x = np.concatenate([np.linspace(lo, 88, 600), np.linspace(-1, 1, 400), [0.0, -1e-30]]).astype(dtype)
    y, ct = np.zeros((x.size, 2), dtype), np.zeros((x.size, 2), dtype)
    y[:, 0], ct[:, 1] = x, 1
    got = -one("log_softmax_cotangent", [y, ct], 1)[:, 0]
    with mpmath.workprec(200):
        assert ulps(got, [mpmath.exp(mpmath.mpf(v)) for v in x.tolist()], dtype) < 1.5
    y[:, 0] = -np.abs(x)
    s = (1 + -one("log_softmax_cotangent", [y, ct], 1)[:, 0]).astype(dtype)
    with mpmath.workprec(200):
        assert ulps(one("logsumexp", [y], 1, (x.size,)), [mpmath.log(mpmath.mpf(v)) for v in s.tolist()], dtype) < 1.5
    y[:, 0] = 800
    assert (one("log_softmax_cotangent", [y, ct], 1)[:, 0] == -np.inf).all()


def test_rejected():
    x = np.zeros((3, 4), np.float32)
    good = [((3, 4), np.float32)]
    with pytest.raises(ValueError, match="axis 2 is out of range"):
        run_kernel(K["softmax"], [x], good, ip=[2])
    with pytest.raises(ValueError, match="axis -1"):
        run_kernel(K["softmax"], [x], good, ip=[-1])
    with pytest.raises(ValueError, match=r"operand 0 is int32\(3, 4\); float32 or float64"):
        run_kernel(K["softmax"], [x.astype(np.int32)], good, ip=[1])
    with pytest.raises(ValueError, match="contiguous"):
        run_kernel(K["softmax"], [np.zeros((4, 3), np.float32).T], good, ip=[1])
    with pytest.raises(ValueError, match=r"operand 1 is float32\(4, 3\) but operand 0 is float32\(3, 4\)"):
        run_kernel(K["softmax"], [x], [((4, 3), np.float32)], ip=[1])
    with pytest.raises(ValueError, match="float32 expected"):
        run_kernel(K["softmax_tangent"], [x, x.astype(np.float64)], good, ip=[1])
    with pytest.raises(ValueError, match="2 inputs"):
        run_kernel(K["log_softmax_tangent"], [x], good, ip=[1])
    with pytest.raises(ValueError, match="without axis 1"):
        run_kernel(K["logsumexp"], [x], [((4,), np.float32)], ip=[1])
