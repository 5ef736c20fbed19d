"""Singular values and vectors of matrices of middle size (lapack_svd.h) beside NumPy's in float64."""

import numpy as np
import pytest

from fgrad._kernels import lapack, parallel
from tests.kernels.harness import run_kernel

TYPES = [np.float32, np.float64]


def svd(x, full=False):
    b, m, n = x.shape
    k = min(m, n)
    outs = [((b, k), x.dtype), ((b, m, m if full else k), x.dtype), ((b, n if full else k, n), x.dtype)]
    s, u, vh = run_kernel(lapack.KERNELS["svd"], [x], outs, (2 if full else 1,))
    return u, s, vh


def svdvals(x):
    return run_kernel(lapack.KERNELS["svd"], [x], [((len(x), min(x.shape[1:])), x.dtype)], (0,))[0]


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape)


def kinds(m, n):
    """Any, diagonal, of low rank, of two diagonals, of blocks, graded, with empty rows and columns, the identity, of ones, zero."""
    a, eye = noise(m, n), np.eye(m, n)
    blocks, holes = a.copy(), a.copy()
    blocks[: m // 3, n // 3 :] = blocks[m // 3 :, : n // 3] = 0
    holes[::3] = holes[:, ::4] = 0
    graded = a * 10.0 ** -np.linspace(0, 12, n)
    return np.stack([a, a * eye, a[:, :3] @ a[:3], eye * 2 - np.eye(m, n, k=1), blocks, graded, holes, eye, eye * 0 + 1, 0 * a])


def check(x, u, s, vh):
    k, eps = min(x.shape[1:]), np.finfo(x.dtype).eps
    a, u, s, vh = (v.astype(float) for v in (x, u, s, vh))
    size = np.linalg.norm(a, 2, (1, 2))
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    assert (np.abs(s - np.linalg.svd(a, compute_uv=False)).max(1) <= k * eps * size).all()
    assert (np.abs(u[..., :k] * s[:, None] @ vh[:, :k] - a).max((1, 2)) <= 30 * eps * size).all()
    for rows in (u.swapaxes(1, 2), vh):
        assert np.abs(rows @ rows.swapaxes(1, 2) - np.eye(rows.shape[1])).max() <= max(40, k) * eps


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(65, 26), (65, 65), (66, 49), (51, 70), (64, 67), (107, 101), (129, 129), (90, 160), (203, 180)])
def test_singular_vectors(shape, dtype):
    x = kinds(*shape).astype(dtype)
    for full in (False, True):
        check(x, *svd(x, full))
    parts = svd(x)
    for values in (svdvals(x), svdvals(x.swapaxes(1, 2).copy())):
        assert (np.abs(values - parts[1]).max(1) <= max(shape) * np.finfo(dtype).eps * parts[1].max(1)).all()
    for i in range(2):  # alone a matrix gives what it gives in a batch
        assert all((a[0] == b[i]).all() for a, b in zip(svd(x[i : i + 1]), parts))


@pytest.mark.parametrize("shape", [(500, 470), (470, 500)])
def test_large(shape):
    x = noise(1, *shape).astype(np.float32)  # more than the second cache holds
    check(x, *svd(x))
    np.testing.assert_allclose(svdvals(x), np.linalg.svd(x.astype(float), compute_uv=False), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(90, 90), (110, 80), (80, 110)])
def test_signs_are_those_of_lapack(shape):
    x = np.random.default_rng(1).standard_normal((1, *shape))
    for full in (False, True):
        for ours, numpy in zip(svd(x, full), np.linalg.svd(x, full)):
            assert np.abs(ours - numpy).max() < 1e-10


@pytest.mark.parametrize("dtype", TYPES)
def test_sizes_far_from_one(dtype):
    x = noise(1, 70, 70)
    for size in [1e30, 1e-30, 1e16, 1e-16] if dtype == np.float32 else [1e300, 1e-300, 1e150, 1e-130]:
        u, s, vh = svd((x * size).astype(dtype))
        check(x.astype(dtype), u, s.astype(float) / size, vh)


def test_what_is_not_finite():
    x = noise(5, 70, 70)
    x[2, 3, 3], x[4, 5, 1] = np.nan, np.inf
    parts = svd(x)
    assert all(np.isnan(v[[2, 4]]).all() for v in parts) and np.isnan(svdvals(x)[[2, 4]]).all()
    check(x[[0, 1, 3]], *(v[[0, 1, 3]] for v in parts))


@pytest.mark.parametrize("dtype", TYPES)
def test_threads_do_not_matter(dtype):
    x = np.concatenate([kinds(120, 120)[:3], noise(1, 120, 120)]).astype(dtype)
    large = noise(1, 430, 420).astype(dtype)  # whose passes threads share
    before = parallel.get_num_threads()
    out = []
    try:
        for threads in (1, 2, 4):
            parallel.set_num_threads(threads)
            out.append([*svd(x[:1]), *svd(x), svdvals(x), *svd(large), svdvals(large)])
    finally:
        parallel.set_num_threads(before)
    assert all((a == b).all() for other in out[1:] for a, b in zip(out[0], other))
