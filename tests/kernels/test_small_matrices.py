"""Small matrices of a batch and single ones of middle size: what factors reconstruct, pivots, and matrices that fail among others."""

import numpy as np
import pytest

from fgrad._kernels import lapack, parallel
from tests.kernels.harness import run_kernel

TYPES = [np.float32, np.float64]


def lu(x):
    b, m, n = x.shape
    return run_kernel(lapack.KERNELS["lu"], [x], [(x.shape, x.dtype), ((b, min(m, n)), np.int32), ((b, m), np.int32)])


def cholesky(x):
    return run_kernel(lapack.KERNELS["cholesky"], [x], [(x.shape, x.dtype)])[0]


def solve(a, b, *ip):
    return run_kernel(lapack.KERNELS["triangular_solve"], [a, b], [(b.shape, b.dtype)], ip)[0]


def noise(*shape, dtype):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (2, 2), (3, 3), (8, 8), (5, 9), (9, 5), (31, 32), (32, 32), (33, 3)])
def test_lu(m, n, dtype):
    eps = np.finfo(dtype).eps
    for batch in (1, 3, 4, 17, 70):
        x = noise(batch, m, n, dtype=dtype)
        out, pivots, order = lu(x)
        low, up = np.tril(out, -1)[..., : min(m, n)] + np.eye(m, min(m, n)), np.triu(out)[:, : min(m, n)]
        want = np.take_along_axis(x, order[..., None].astype(int), 1)
        assert np.abs(low @ up - want).max() <= 4 * n * eps * np.abs(x).max() * max(1, np.abs(up).max())
        assert np.abs(np.tril(out, -1)[..., : min(m, n)]).max(initial=0) <= 1  # the largest element is the pivot
        one = [lu(x[i : i + 1]) for i in range(min(batch, 20))]
        assert all((a[1] == pivots[i]).all() and (a[2] == order[i]).all() for i, a in enumerate(one))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(24, 24), (40, 40), (100, 37), (37, 100), (129, 130), (200, 200), (399, 400), (401, 401)])
def test_lu_by_panels(m, n, dtype):
    eps = np.finfo(dtype).eps
    x = noise(2, m, n, dtype=dtype)
    x[1, :, 3] = x[1, :, 2]  # singular
    out, pivots, order = lu(x)
    k = min(m, n)
    low, up = np.tril(out, -1)[..., :k].astype(np.float64) + np.eye(m, k), np.triu(out)[:, :k].astype(np.float64)
    want = np.take_along_axis(x, order[..., None].astype(int), 1)
    assert np.abs(low @ up - want).max() <= 4 * k * eps * np.abs(up).max()
    assert np.abs(np.tril(out, -1)[..., :k]).max() <= 1
    assert (pivots >= np.arange(k)).all() and (pivots < m).all()
    assert (np.sort(order, 1) == np.arange(m)).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [24, 31, 48, 100, 200, 257, 400, 401])
def test_cholesky_by_panels(n, dtype):
    x = noise(1, n, n, dtype=dtype)
    x = x @ np.swapaxes(x, 1, 2) / n + np.eye(n, dtype=dtype)
    lower = x + np.triu(np.full((n, n), np.nan, dtype), 1)
    low = cholesky(lower).astype(np.float64)
    assert (np.triu(low, 1) == 0).all()
    assert np.abs(low @ np.swapaxes(low, 1, 2) - x).max() <= 4 * n * np.finfo(dtype).eps * np.abs(x).max()
    x[0, n // 2, n // 2] = -1
    assert np.isnan(cholesky(x)[0][np.tril_indices(n)]).all()


def test_lu_that_overflows():
    x = noise(1, 40, 40, dtype=np.float32) * np.float32(5e37)
    out, pivots, order = lu(x)
    assert out.shape == x.shape and (pivots < 40).all()


def test_lu_of_singular_and_infinite_matrices():
    x = noise(20, 4, 4, dtype=np.float32)
    x[2] = 0
    x[3, :, 1] = 0
    x[5, 2, 2], x[11, 0, 0] = np.nan, np.inf
    x[7] = np.eye(4)[[1, 0, 3, 2]]
    out, pivots, _ = lu(x)
    for i in range(20):
        alone = lu(x[i : i + 1])
        np.testing.assert_allclose(out[i], alone[0][0], rtol=2e-4, atol=1e-5)
        assert (pivots[i] == alone[1][0]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 8, 16, 31, 32, 33])
def test_cholesky(n, dtype):
    for batch in (3, 4, 35):
        x = noise(batch, n, n, dtype=dtype)
        x = x @ np.swapaxes(x, 1, 2) + np.eye(n, dtype=dtype)
        low = cholesky(x)
        assert (np.triu(low, 1) == 0).all()
        assert np.abs(low @ np.swapaxes(low, 1, 2) - x).max() <= 8 * n * np.finfo(dtype).eps * np.abs(x).max()


def test_cholesky_of_what_is_not_positive_definite():
    x = np.tile(np.eye(5, dtype=np.float32) * 4, (20, 1, 1))
    x[3, 2, 2], x[9, 0, 0], x[11, 4, 1], x[13, 1, 3] = -1, 0, np.nan, np.nan
    low = cholesky(x)
    for i in range(20):
        if i in (3, 9, 11):
            assert np.isnan(low[i][np.tril_indices(5)] if i != 11 else low[i, 4, 1:]).all()
            assert (np.triu(low[i], 1) == 0).all()
        else:
            np.testing.assert_allclose(low[i], np.eye(5) * 2)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("left", [0, 1])
@pytest.mark.parametrize("k, sides", [(1, 1), (3, 2), (8, 1), (16, 16), (32, 5), (5, 32), (33, 2), (47, 8), (100, 1), (97, 3)])
def test_triangular_solve(k, sides, left, dtype):
    a = noise(21, k, k, dtype=dtype) / k + 2 * np.eye(k, dtype=dtype)
    b = noise(21, *((k, sides) if left else (sides, k)), dtype=dtype)
    for lower in (0, 1):
        for trans in (0, 1, 2):
            for unit in (0, 1):
                t = np.tril(a) if lower else np.triu(a)
                t = t - t * np.eye(k) + np.eye(k) if unit else t
                t = np.swapaxes(t, 1, 2) if trans else t
                x = solve(a, b, left, lower, trans, unit)
                np.testing.assert_allclose(t @ x if left else x @ t, b, atol=200 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k, sides", [(159, 40), (160, 32), (161, 33), (170, 31), (257, 100)])
def test_triangular_solve_of_one_matrix(k, sides, dtype):
    a = noise(1, k, k, dtype=dtype) / k + 2 * np.eye(k, dtype=dtype)
    for left in (0, 1):
        b = noise(1, *((k, sides) if left else (sides, k)), dtype=dtype)
        for lower, trans, unit in [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 1), (1, 0, 1)]:
            t = np.tril(a) if lower else np.triu(a)
            t = t - t * np.eye(k) + np.eye(k) if unit else t
            t = np.swapaxes(t, 1, 2) if trans else t
            x = solve(a, b, left, lower, trans, unit).astype(float)
            np.testing.assert_allclose(t @ x if left else x @ t, b, atol=200 * np.finfo(dtype).eps)


def eigenvalues(x, lower=1):
    return run_kernel(lapack.KERNELS["eigvalsh"], [x], [(x.shape[:2], x.dtype)], (lower,))[0]


def singular_values(x):
    return run_kernel(lapack.KERNELS["svd"], [x], [((len(x), min(x.shape[1:])), x.dtype)], (0,))[0]


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 17])
def test_eigenvalues(n, dtype):
    x = noise(37, n, n, dtype=dtype)
    x = x + np.swapaxes(x, 1, 2)
    x[1], x[2] = 0, np.outer(x[0, 0], x[0, 0])
    x[3] *= np.finfo(dtype).max / 1e4
    x[4] *= np.finfo(dtype).tiny * 1e4
    want = np.linalg.eigvalsh(x.astype(np.float64))
    bound = 16 * np.finfo(dtype).eps * np.abs(want).max(1, keepdims=True)
    for lower, half in ((1, np.tril), (0, np.triu)):
        assert (np.abs(eigenvalues(half(x), lower) - want) <= bound).all()
    alone = np.concatenate([eigenvalues(np.tile(m, (5, 1, 1)))[:1] for m in x])
    assert (eigenvalues(x) == alone).all()  # whatever lies in the other lanes
    x[5, 0, 0], x[6, n - 1, 0] = np.nan, np.inf
    got = eigenvalues(x)
    assert not np.isfinite(got[5:7]).any() and np.isfinite(got[7:]).all()


def eigenvectors(x, lower=1):
    return run_kernel(lapack.KERNELS["eigh"], [x], [(x.shape, x.dtype), (x.shape[:2], x.dtype)], (lower,))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 8, 17, 24, 25])
def test_eigenvectors(n, dtype):
    """Of many matrices, which are not LAPACK's work, and of few, which are."""
    x = noise(41, n, n, dtype=dtype)
    x = x + np.swapaxes(x, 1, 2)
    x[1], x[2], x[3] = 0, np.outer(x[0, 0], x[0, 0]), np.eye(n)[::-1]
    x[4], x[5] = np.round(x[4]), np.diag(np.arange(n) % 3)
    x[6] *= np.finfo(dtype).max / 1e4
    x[7] *= np.finfo(dtype).tiny * 1e4
    x[8, : n // 2, n // 2 :] = x[8, n // 2 :, : n // 2] = 0
    x[8, : n // 2] *= dtype(1e-12)
    largest = np.abs(x).max((1, 2), keepdims=True)
    unit = x / np.where(largest, largest, 1).astype(np.float64)
    bound = 8 * n * np.finfo(dtype).eps
    for lower, half in ((1, np.tril), (0, np.triu)):
        v, w = eigenvectors(half(x), lower)
        wide = v.astype(np.float64)
        assert np.abs(unit @ wide - wide * (w[:, None] / np.where(largest, largest, 1).astype(np.float64))).max() <= bound
        assert np.abs(np.swapaxes(wide, 1, 2) @ wide - np.eye(n)).max() <= bound
        assert (np.diff(w, axis=1) >= 0).all()
    v, w = eigenvectors(x)
    if dtype == np.float64:
        few = np.concatenate([eigenvectors(x[i : i + 1])[0] for i in range(9, 41)])
        assert (np.sum(v[9:] * few, 1) > 0.9).all()  # the same signs
    x[5, 0, 0], x[6, n - 1, 0] = np.nan, np.nan
    got = eigenvectors(x)[0]
    assert np.isnan(got[5:7]).all() and (got[7:] == v[7:]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (2, 2), (3, 8), (8, 3), (16, 16), (32, 16), (5, 32), (17, 17), (4, 33)])
def test_singular_values(m, n, dtype):
    x = noise(37, m, n, dtype=dtype)
    x[1], x[2], x[3, :, 0] = 0, np.outer(x[0, :, 0], x[0, 0]), 0
    x[4] *= np.finfo(dtype).max / 1e4
    x[5] *= np.finfo(dtype).tiny * 1e4
    want = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    got = singular_values(x)
    assert (np.abs(got - want) <= 16 * np.finfo(dtype).eps * want.max(1, keepdims=True)).all()
    assert (np.diff(got, axis=1) <= 0).all()
    assert (got == np.concatenate([singular_values(np.tile(a, (5, 1, 1)))[:1] for a in x])).all()
    x[6, 0, 0], x[7, m - 1, 0] = np.nan, np.inf
    got = singular_values(x)
    assert np.isnan(got[6:8]).all() and np.isfinite(got[8:]).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (3, 3), (2, 7), (7, 2), (64, 10), (10, 64), (64, 64), (65, 3)])
def test_singular_vectors(m, n, dtype):
    x, k = noise(3, m, n, dtype=dtype), min(m, n)
    x[1] = 0
    for full in (1, 2):
        shapes = (3, m, m if full == 2 else k), (3, n if full == 2 else k, n)
        s, u, vh = run_kernel(lapack.KERNELS["svd"], [x], [((3, k), dtype), *((shape, dtype) for shape in shapes)], (full,))
        bound = 16 * max(m, n) * np.finfo(dtype).eps
        assert np.abs(u[:, :, :k] * s[:, None] @ vh[:, :k] - x).max() <= bound * s.max()
        assert np.abs(np.swapaxes(u, 1, 2) @ u - np.eye(u.shape[-1])).max() <= bound
        assert np.abs(vh @ np.swapaxes(vh, 1, 2) - np.eye(vh.shape[1])).max() <= bound


def test_threads_make_no_difference():
    x = noise(1000, 7, 7, dtype=np.float32)
    before, results = parallel.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            parallel.set_num_threads(threads)
            results.append(lu(x)[0].tobytes() + singular_values(x).tobytes() + eigenvectors(x)[0].tobytes())
    finally:
        parallel.set_num_threads(before)
    assert len(set(results)) == 1
