"""Blocks of Householder reflectors (lapack_qr.h): R, the reflectors and what they multiply to, beside LAPACK's by NumPy in float64."""

import numpy as np
import pytest

from fgrad._kernels import lapack, parallel
from tests.kernels.harness import run_kernel

TYPES = [np.float32, np.float64]
SHAPES = [
    (4, 4),
    (8, 8),
    (9, 5),
    (5, 9),
    (15, 16),
    (17, 16),
    (16, 300),
    (101, 1),
    (101, 7),
    (102, 2),
    (5003, 5),
    (300, 12),
    (117, 13),
    (64, 64),
    (65, 63),
    (63, 65),
    (129, 130),
    (300, 200),
    (2000, 37),
]


def geqrf(x):
    b, m, n = x.shape
    return run_kernel(lapack.KERNELS["geqrf"], [x], [(x.shape, x.dtype), ((b, min(m, n)), x.dtype)])


def householder(a, taus):
    return run_kernel(lapack.KERNELS["householder"], [a, taus], [(a.shape, a.dtype)])[0]


def noise(*shape, dtype):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def check(x, out, taus, columns):
    """R and the first columns of Q multiply to x, and Q is orthogonal; m rows add up m times the rounding at most."""
    b, m, n = x.shape
    k, tolerance = min(m, n), 4 * np.sqrt(max(m, n)) * np.finfo(x.dtype).eps
    a = np.zeros((b, m, columns), x.dtype)
    a[..., : min(n, columns)] = out[..., :columns]
    q, r = householder(a, taus).astype(float), np.triu(out)[:, :k].astype(float)
    scale = np.abs(x).max((1, 2), keepdims=True).astype(float)
    assert (np.abs(q[..., :k] @ r - x.astype(float)) <= 4 * tolerance * scale).all()
    assert np.abs(q.swapaxes(1, 2) @ q - np.eye(columns)).max() <= 4 * tolerance


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("m, n", SHAPES)
def test_qr(m, n, dtype):
    x = noise(3, m, n, dtype=dtype)
    out, taus = geqrf(x)
    check(x, out, taus, min(m, n))
    if m <= 300:
        check(x, out, taus, m)
    eps = np.finfo(dtype).eps
    for i in range(3):  # LAPACK's signs and reflectors
        raw, tau = np.linalg.qr(x[i].astype(float), mode="raw")
        if m > n:  # the last rows of others are ill-conditioned
            np.testing.assert_allclose(out[i], raw.T, atol=400 * np.sqrt(m) * eps)
            np.testing.assert_allclose(taus[i], tau, atol=400 * np.sqrt(m) * eps)
        one = geqrf(x[i : i + 1])
        np.testing.assert_array_equal(one[0][0], out[i])


@pytest.mark.usefixtures("denormals")
@pytest.mark.parametrize("m, n", [(80, 60), (120, 9)])
@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_of_any_size(dtype, m, n):
    """Squares that overflow or vanish, subnormal numbers, and columns that depend on others or are zero."""
    tiny = np.finfo(dtype).tiny
    for scale in (tiny / 8, tiny, np.sqrt(tiny), 1e-7, 1e7, np.sqrt(np.finfo(dtype).max), np.finfo(dtype).max / 64):
        x = np.clip(noise(1, m, n, dtype=dtype), -3, 3) * dtype(scale)
        out, taus = geqrf(x)
        a = householder(out, taus).astype(float)
        assert np.abs(a.swapaxes(1, 2) @ a - np.eye(n)).max() <= 200 * np.finfo(dtype).eps
        r = np.triu(out)[:, :n]
        error = np.abs(a @ (r / dtype(scale)).astype(float) - (x / dtype(scale)).astype(float)).max()
        assert error <= 200 * np.finfo(dtype).eps + (1 if scale < tiny else 0)  # subnormal numbers have few digits
    x = noise(4, 60, 40, dtype=dtype)
    x[0, :, 5] = 0
    x[1] = x[1, :, :10] @ x[1, :10]
    x[2] = np.triu(x[2])
    x[3, :, 7] *= dtype(1e-25)
    check(x, *geqrf(x), 40)
    y = x[:, :, :n].repeat(3, 1)
    y[1, :, 2] = y[1, :, 0]
    check(y, *geqrf(y), min(n, 40))
    out, taus = geqrf(np.zeros((1, 40, 30), dtype))
    assert not out.any() and not taus.any()


def test_what_is_not_finite_is_nan_alone():
    x = noise(5, 40, 30, dtype=np.float32)
    good = [geqrf(x[i : i + 1])[0][0] for i in range(5)]
    x[1, 3, 4], x[3, 0, 0] = np.nan, np.inf
    out, taus = geqrf(x)
    assert np.isnan(out[[1, 3]]).any((1, 2)).all()
    for i in (0, 2, 4):
        np.testing.assert_array_equal(out[i], good[i])
    q = householder(np.where(np.isfinite(out), out, np.nan), taus)
    assert np.isnan(q[1]).any() and np.isfinite(q[[0, 2, 4]]).all()


@pytest.mark.parametrize("shape", [(1, 700, 300), (1, 3000, 40), (7, 90, 70)])
def test_threads(shape):
    x, before, seen = noise(*shape, dtype=np.float32), parallel.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            parallel.set_num_threads(threads)
            out, taus = geqrf(x)
            seen.append((out, taus, householder(out, taus)))
    finally:
        parallel.set_num_threads(before)
    for other in seen[1:]:
        for a, b in zip(seen[0], other):
            np.testing.assert_array_equal(a, b)
