"""Eigenvalues and eigenvectors of symmetric matrices of middle size (lapack_eigh.h) beside NumPy's in float64."""

import numpy as np
import pytest

from fgrad._kernels import lapack, parallel
from tests.kernels.harness import run_kernel

TYPES = [np.float32, np.float64]


def eigh(x, lower=1):
    return run_kernel(lapack.KERNELS["eigh"], [x], [(x.shape, x.dtype), (x.shape[:2], x.dtype)], (lower,))


def eigvalsh(x, lower=1):
    return run_kernel(lapack.KERNELS["eigvalsh"], [x], [(x.shape[:2], x.dtype)], (lower,))[0]


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape)


def kinds(n):
    """Symmetric matrices: any, diagonal, of two blocks, of low rank, of three diagonals, the identity, of graded rows, zero."""
    a, rows = noise(n, n), 10.0 ** -np.linspace(0, 12, n)
    a = a + a.T
    apart, three = a.copy(), np.eye(n) * 2 - np.eye(n, k=1) - np.eye(n, k=-1)
    apart[: n // 3, n // 3 :] = apart[n // 3 :, : n // 3] = 0
    return np.stack([a, np.diag(a[0]), apart, a[:, :3] @ a[:, :3].T, three, np.eye(n), a * rows * rows[:, None], 0 * a])


def check(x, vectors, values):
    n, eps = x.shape[-1], np.finfo(x.dtype).eps
    a, v = x.astype(float), vectors.astype(float)
    size = np.linalg.norm(a, 2, (1, 2))
    assert (np.diff(values) >= 0).all()
    assert (np.abs(values - np.linalg.eigvalsh(a)).max(1) <= n * eps * size).all()
    assert (np.abs(a @ v - v * values[:, None].astype(float)).max((1, 2)) <= 30 * eps * size).all()
    assert np.abs(v.swapaxes(1, 2) @ v - np.eye(n)).max() <= 40 * eps


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [25, 26, 31, 50, 51, 64, 65, 101, 129, 203])
def test_eigenvectors(n, dtype):
    x = kinds(n).astype(dtype)
    vectors, values = eigh(x)
    check(x, vectors, values)
    assert np.abs(eigvalsh(x) - values).max() <= n * np.finfo(dtype).eps * np.abs(values).max()
    for i in range(2):  # alone a matrix gives what it gives in a batch
        one = eigh(x[i : i + 1])
        assert (one[0][0] == vectors[i]).all() and (one[1][0] == values[i]).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_large(dtype):
    n = 550 if dtype == np.float32 else 370  # more than the second cache holds
    x = noise(1, n, n)
    x = (x + x.swapaxes(1, 2)).astype(dtype)
    check(x, *eigh(x))
    np.testing.assert_allclose(eigvalsh(x), np.linalg.eigvalsh(x.astype(float)), atol=n * np.finfo(dtype).eps * 60)


def test_signs_are_those_of_lapack():
    x = noise(1, 90, 90)
    x = x + x.swapaxes(1, 2)
    assert np.abs(eigh(x)[0] - np.linalg.eigh(x)[1]).max() < 1e-10
    up = eigh(x, 0)[0]
    assert np.abs(up - np.linalg.eigh(x, "U")[1]).max() < 1e-10


def test_only_the_triangle_is_read():
    x = noise(2, 40, 40)
    x = x + x.swapaxes(1, 2)
    assert (eigh(np.tril(x) + np.triu(np.full_like(x, 7), 1))[0] == eigh(x)[0]).all()
    np.testing.assert_allclose(eigvalsh(np.triu(x) + np.tril(np.full_like(x, 7), -1), 0), eigvalsh(x), atol=1e-12)


@pytest.mark.parametrize("dtype", TYPES)
def test_sizes_far_from_one(dtype):
    x = noise(1, 40, 40)
    x = x + x.swapaxes(1, 2)
    for size in [1e30, 1e-30, 1e16, 1e-16] if dtype == np.float32 else [1e300, 1e-300, 1e150, 1e-130]:
        vectors, values = eigh((x * size).astype(dtype))
        check(x.astype(dtype), vectors, (values.astype(float) / size))


def test_what_is_not_finite():
    x = noise(5, 30, 30)
    x = x + x.swapaxes(1, 2)
    x[2, 3, 3], x[4, 5, 1] = np.nan, np.inf
    vectors, values = eigh(x)
    assert np.isnan(values[[2, 4]]).all() and np.isnan(vectors[2]).all()
    check(x[[0, 1, 3]], vectors[[0, 1, 3]], values[[0, 1, 3]])


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_do_not_matter(dtype):
    x = kinds(120)[:3].astype(dtype)
    large = noise(1, 430, 430)  # whose passes threads share
    large = (large + large.swapaxes(1, 2)).astype(dtype)
    before = parallel.get_num_threads()
    out = []
    try:
        for threads in (1, 2, 4):
            parallel.set_num_threads(threads)
            out.append([eigh(x[:1])[0], eigh(x)[0], eigvalsh(x), *eigh(large), eigvalsh(large)])
    finally:
        parallel.set_num_threads(before)
    assert all((a == b).all() for other in out[1:] for a, b in zip(out[0], other))
