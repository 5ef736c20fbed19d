import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from fgrad._kernels import rope as kernels
from tests.kernels.harness import run_kernel

K = kernels.KERNELS
TYPES = [np.float32, np.float64]


def rope(x, cos, sin, interleaved=False, inverse=False, wide=False):
    return run_kernel(K["rope"], [x, cos, sin], [(x.shape, x.dtype)], ip=[interleaved, inverse, wide])[0]


def reference(x, cos, sin, interleaved, inverse):
    half = cos.shape[-1]
    y = x.copy()
    sin = -sin if inverse else sin
    one, two = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (slice(0, half), slice(half, 2 * half))
    y[..., one] = x[..., one] * cos - x[..., two] * sin
    y[..., two] = x[..., two] * cos + x[..., one] * sin
    return y


def data(B, T, H, D, half, dtype):
    rng = np.random.default_rng(B + T + H + D)
    angles = rng.uniform(-3, 3, (T, 1, half))
    shape = (B, T, H, half)
    cos, sin = (np.broadcast_to(f(angles).astype(dtype), shape) for f in (np.cos, np.sin))
    return rng.standard_normal((B, T, H, D)).astype(dtype), cos, sin


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dims", [(2, 5, 3, 16, 8), (1, 1, 1, 2, 1), (2, 70, 4, 64, 32), (2, 3, 2, 11, 3), (1, 2, 1, 5, 0)])
def test_values(dims, interleaved, inverse, dtype):
    x, cos, sin = data(*dims, dtype)
    got = rope(x, cos, sin, interleaved, inverse)
    np.testing.assert_allclose(got, reference(x, cos, sin, interleaved, inverse), rtol=0, atol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("interleaved", [False, True])
def test_strides(interleaved):
    x, cos, sin = data(2, 6, 3, 10, 4, np.float32)
    heads_first = x.transpose(0, 2, 1, 3)
    c, s = cos.transpose(0, 2, 1, 3), sin.transpose(0, 2, 1, 3)
    want = reference(x, cos, sin, interleaved, False).transpose(0, 2, 1, 3)
    np.testing.assert_allclose(rope(heads_first, c, s, interleaved), want, atol=1e-6)
    wide = np.zeros((2, 6, 3, 20), np.float32)
    wide[..., ::2] = x
    back = np.ascontiguousarray(x[:, ::-1, :, ::-1])[:, ::-1, :, ::-1]
    for view in (wide[..., ::2], back):
        np.testing.assert_allclose(rope(view, cos, sin, interleaved), reference(x, cos, sin, interleaved, False), atol=1e-6)
    flat = as_strided(cos, cos.shape, (0, 0, 0, 0))
    np.testing.assert_allclose(rope(x, flat, sin, interleaved), reference(x, flat, sin, interleaved, False), atol=1e-6)


@pytest.mark.parametrize("interleaved", [False, True])
def test_inverse_is_the_transpose_and_undoes(interleaved):
    x, cos, sin = data(2, 4, 2, 12, 5, np.float64)
    t = np.random.default_rng(9).standard_normal(x.shape)
    y = rope(x, cos, sin, interleaved)
    np.testing.assert_allclose((y * t).sum(), (x * rope(t, cos, sin, interleaved, True)).sum())
    np.testing.assert_allclose(rope(y, cos, sin, interleaved, True), x, atol=1e-14)


def test_many_rows_in_threads():
    x, cos, sin = data(4, 512, 8, 64, 32, np.float32)
    np.testing.assert_allclose(rope(x, cos, sin), reference(x, cos, sin, False, False), atol=1e-6)


def test_one_axis_and_nan():
    x = np.array([np.nan, 1, 2, 3, np.inf], np.float32)
    np.testing.assert_array_equal(rope(x, np.ones(2, np.float32), np.zeros(2, np.float32))[[1, 3, 4]], x[[1, 3, 4]])


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 6)])
def test_empty(shape):
    half = np.zeros((*shape[:-1], shape[-1] // 2), np.float32)
    assert rope(np.zeros(shape, np.float32), half, half).shape == shape


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 5, 3, 16), (1, 2), (3, 70, 64), (4, 0), (2, 3, 30)], ids=str)
@pytest.mark.parametrize("strided", [False, True])
def test_wide(shape, dtype, strided):
    """Each component has its own cosine and sine; the inverse is the transpose."""
    rng = np.random.default_rng(0)
    x, c, s = (rng.standard_normal(shape[::-1]).astype(dtype).T if strided else rng.standard_normal(shape).astype(dtype) for _ in range(3))
    h = shape[-1] // 2
    got = rope(x, c, s, wide=True)
    np.testing.assert_allclose(got, x * c + np.concatenate([-x[..., h:], x[..., :h]], -1) * s, rtol=1e-5, atol=1e-5)
    got, m = rope(x, c, s, inverse=True, wide=True), x * s
    np.testing.assert_allclose(got, x * c + np.concatenate([m[..., h:], -m[..., :h]], -1), rtol=1e-5, atol=1e-5)


def test_wide_rejected():
    x, odd = np.zeros((3, 8), np.float32), np.zeros((3, 7), np.float32)
    with pytest.raises(ValueError, match=r"cos is float32\(3, 4\)"):
        rope(x, x[:, :4], x[:, :4], wide=True)
    with pytest.raises(ValueError, match="even last axis"):
        rope(odd, odd, odd, wide=True)
    with pytest.raises(ValueError, match="not interleaved"):
        rope(x, x, x, interleaved=True, wide=True)


def test_rejected():
    x, c = np.zeros((3, 8), np.float32), np.zeros((3, 4), np.float32)
    with pytest.raises(ValueError, match=r"cos is float32\(3, 5\) and x is float32\(3, 8\)"):
        rope(x, np.zeros((3, 5), np.float32), c)
    with pytest.raises(ValueError, match=r"sin is float32\(2, 4\)"):
        rope(x, c, np.zeros((2, 4), np.float32))
    with pytest.raises(ValueError, match="but sin is"):
        rope(x, c, np.zeros((3, 3), np.float32))
    with pytest.raises(ValueError, match="operand 2 is float64"):
        rope(x, c, c.astype(np.float64))
    with pytest.raises(ValueError, match="float32 or float64"):
        rope(x.astype(np.int32), c, c)
    with pytest.raises(ValueError, match="scalar"):
        rope(np.zeros((), np.float32), c, c)
    with pytest.raises(ValueError, match="output"):
        run_kernel(K["rope"], [x, c, c], [((8, 3), np.float32)], ip=[0, 0, 0])
