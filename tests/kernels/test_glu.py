import numpy as np
import pytest

from fgrad._kernels import glu as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
TYPES = [np.float32, np.float64]


def swiglu(g, u):
    return run_kernel(K["swiglu"], [g, u], [(g.shape, g.dtype)])[0]


def cotangent(g, u, ct):
    return run_kernel(K["swiglu_cotangent"], [g, u, ct], [(g.shape, g.dtype)] * 2)


def sigmoid(x):
    return 1 / (1 + np.exp(-x.astype(np.longdouble)))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 50), (70001,)])
def test_values(shape, dtype):
    rng = np.random.default_rng(0)
    g, u, ct = (np.asarray(rng.standard_normal(shape) * 3).astype(dtype) for _ in range(3))
    s, gl = sigmoid(g), g.astype(np.longdouble)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(swiglu(g, u), (gl * s * u).astype(dtype), rtol=6 * eps)
    dg, du = cotangent(g, u, ct)
    scale = np.abs(ct * u).astype(np.float64)
    assert (np.abs(dg - ct * u * s * (1 + gl * (1 - s))) <= 8 * eps * scale).all()
    np.testing.assert_allclose(du, (ct * gl * s).astype(dtype), rtol=6 * eps)


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
def test_tails_keep_their_digits(dtype):
    lo = -100.0 if dtype == np.float32 else -740.0
    g = np.linspace(lo, -lo, 201).astype(dtype)
    one = np.ones_like(g)
    tiny = np.finfo(dtype).smallest_subnormal
    s = sigmoid(g)
    np.testing.assert_allclose(swiglu(g, one).astype(np.longdouble), g * s, rtol=8 * np.finfo(dtype).eps, atol=1000 * tiny)
    dg, _ = cotangent(g, one, one)
    np.testing.assert_allclose(dg[g > 20], 1, rtol=0, atol=1e-7)


def test_infinities_and_nan():
    g = np.array([np.nan, np.inf, -1e30, -0.0], np.float32)
    y = swiglu(g, np.ones_like(g))
    assert np.isnan(y[0]) and y[1] == np.inf and y[2] == 0 and y[3] == 0 and np.signbit(y[3])


def test_empty():
    x = np.zeros((0, 3), np.float32)
    assert swiglu(x, x).shape == (0, 3) and cotangent(x, x, x)[1].shape == (0, 3)


def test_rejected():
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match="swiglu: operand 1 is float64"):
        swiglu(x, x.astype(np.float64))
    with pytest.raises(ValueError, match="but operand 0 is"):
        swiglu(x, np.zeros(12, np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        swiglu(x, np.zeros((4, 3), np.float32).T)
    with pytest.raises(ValueError, match="2 inputs"):
        run_kernel(K["swiglu"], [x], [((3, 4), np.float32)])
