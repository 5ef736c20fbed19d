"""Rows that end within a vector: products, depthwise convolutions with features first, and pooling, of every width about a vector's."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax


def numbers(seed, *shape, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m,k", [(1, 9), (7, 5), (33, 40), (70, 3)])
def test_products(m, k, dtype):
    with fgrad.enable_x64():
        for n in (*range(1, 20), 31, 33):
            a, b = numbers(0, m, k, dtype=dtype), numbers(1, k, n, dtype=dtype)
            np.testing.assert_allclose(fnp.matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(fnp.matmul(a, b.T.copy().T), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("m,k,n", [(64, 520, 512), (130, 300, 256), (260, 257, 400), (65, 600, 1000)])
def test_packed_products(m, k, n):
    """Operands that are packed as they lie or by columns, with rows that meet in few sets of a cache and others."""
    a, b = numbers(2, m, k), numbers(3, k, n)
    want = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(fnp.matmul(a, b), want, atol=1e-3)
    columns = fgrad.jit(lambda a, b: fnp.matmul(a.T, b))(np.ascontiguousarray(a.T), b)
    np.testing.assert_allclose(columns, want, atol=1e-3)


def depthwise(x, w):
    """(n, c, h, w) and (c, 1, k, k), same padding, in float64."""
    k = w.shape[-1]
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
    high, wide = x.shape[2:]
    return sum(
        padded[:, :, i : i + high, j : j + wide] * w[None, :, 0, i, j, None, None].astype(np.float64) for i in range(k) for j in range(k)
    )


@pytest.mark.parametrize("k", [3, 5, 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_depthwise_planes(k, dtype):
    with fgrad.enable_x64():
        for wide in (4, 5, 6, 7, 8, 9, 11, 14, 15, 16, 17, 23):
            x, w = numbers(4, 2, 8, 13, wide, dtype=dtype), numbers(5, 8, 1, k, k, dtype=dtype)
            f = fgrad.jit(
                lambda x, w: lax.conv_general_dilated(
                    x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), feature_group_count=8
                )
            )
            np.testing.assert_allclose(f(x, w), depthwise(x, w), atol=1e-4)


@pytest.mark.parametrize("features", [1, 3, 4, 7, 8, 9, 15, 16, 17, 40])
def test_pooling(features):
    x = numbers(6, 2, 9, 12, features)
    windows = x[:, :8].reshape(2, 4, 2, 6, 2, features).transpose(0, 1, 3, 5, 2, 4).reshape(2, 4, 6, features, 4)
    window, largest = (1, 2, 2, 1), windows.max(-1)
    f = fgrad.jit(lambda x: lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID"))
    np.testing.assert_array_equal(f(x), largest)
    got = fgrad.jit(fgrad.grad(lambda x: fnp.sum(lax.reduce_window(x, -np.inf, lax.max, window, window, "VALID") ** 2)))(x)
    first = np.eye(4, dtype=np.float32)[windows.argmax(-1)] * (2 * largest)[..., None]
    want = np.zeros_like(x)
    want[:, :8] = first.reshape(2, 4, 6, features, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(2, 8, 12, features)
    np.testing.assert_array_equal(got, want)
