"""scipy.linalg and scipy.fft: identities that define its functions, derivatives, and what it says to bad input."""

import math

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.scipy import fft
from fgrad.scipy import linalg as sl
from tests.derivatives import check_derivatives

RNG = np.random.default_rng(1)
A, B = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 2))
C = A + 1j * RNG.standard_normal((4, 4))
P, PC = A @ A.T + np.eye(4), C @ C.conj().T + np.eye(4)
TALL = RNG.standard_normal((5, 3))


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


def same(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-9)


def test_systems():
    for a in (P, PC):
        for lower in (False, True):
            f = sl.cholesky(a, lower)
            same(f @ f.conj().T if lower else f.conj().T @ f, a)
            same(a @ sl.cho_solve(sl.cho_factor(a, lower), B), B)
            same(a @ sl.solve(a, B[:, 0], lower, assume_a="pos"), B[:, 0])
    for a in (A, C):
        for trans, op in enumerate((a, a.T, a.conj().T)):
            same(op @ sl.lu_solve(sl.lu_factor(a), B, trans), B)
            same((np.triu(a), np.triu(a).T, np.triu(a).conj().T)[trans] @ sl.solve_triangular(a, B, trans), B)
    stack = np.stack([A, A.T])
    same(stack @ sl.lu_solve(sl.lu_factor(stack), B), np.stack([B, B]))


def test_a_vector_per_matrix():
    stack = np.stack([P, 2 * P])
    vectors = np.stack([P[0], P[1]])  # one axis less than the matrices: their last axis is the system's
    for x in (
        sl.lu_solve(sl.lu_factor(stack), vectors),
        sl.cho_solve(sl.cho_factor(stack), vectors),
        sl.solve(stack, vectors, assume_a="pos"),
        sl.solve_triangular(
            np.tril(stack), np.einsum("bij,bj->bi", np.tril(stack), np.linalg.solve(stack, vectors[..., None])[..., 0]), lower=True
        ),
    ):
        same(np.einsum("bij,bj->bi", stack, x), vectors)
    same(sl.solve_triangular(stack[:1], vectors), sl.solve_triangular(P, vectors.T).T)


def test_factorizations():
    for a in (A, TALL, TALL.T, C):
        p, l, u = sl.lu(a)
        same(p @ l @ u, a)
        same(sl.lu(a, permute_l=True)[0] @ u, a)
        q, r, order = sl.qr(a, mode="economic", pivoting=True)
        same(q @ r, a[:, np.asarray(order)])
        u, s, vh = sl.svd(a, full_matrices=False)
        same(u * s @ vh, a)
    q = np.asarray(sl.qr(TALL, mode="economic")[0])
    same(sl.qr_multiply(TALL, np.eye(5))[0], q)
    same(sl.qr_multiply(TALL, B[:3], mode="left")[0], q @ B[:3])
    for a in (A, C):
        h, q = sl.hessenberg(a, calc_q=True)
        same(q @ h @ q.conj().T, a)
        assert not np.tril(np.asarray(h), -2).any()
        for t, z in (sl.schur(a), sl.schur(a, "complex"), sl.rsf2csf(*sl.schur(a))):
            same(z @ t @ z.conj().T, a)
    u, p = sl.polar(TALL)
    same(u @ p, TALL)
    same(u.T @ u, np.eye(3))
    u, p = sl.polar(TALL.T, side="left")
    same(p @ u, TALL.T)
    d, e = A[0], A[1, :3]
    full = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    w, v = sl.eigh_tridiagonal(d, e)
    same(full @ np.asarray(v), v * w)
    same(sl.eigh_tridiagonal(d, e, select="i", select_range=(1, 2))[0], w[1:3])


def taylor(a, terms=60):
    out = term = np.eye(len(a), dtype=a.dtype)
    for k in range(1, terms):
        term = term @ a / k
        out = out + term
    return out


@pytest.mark.parametrize("norm", [0, 1e-3, 0.02, 0.5, 1.5, 4, 8, 10.5])
def test_expm(norm):
    """Every degree of the approximant, and squarings."""
    for a in (A, C):
        a = a / np.abs(a).sum(0).max() * norm
        want = taylor(a)
        np.testing.assert_allclose(sl.expm(a), want, rtol=1e-11, atol=1e-12 * np.abs(want).max())
    one = (A / np.abs(A).sum(0).max() * norm).astype(np.float32)
    want = taylor(one.astype(float))
    np.testing.assert_allclose(sl.expm(one), want, rtol=1e-4, atol=2e-6 * np.abs(want).max())


def test_expm_of_batches_and_large_matrices():
    same(sl.expm(np.stack([A, 0 * A])), np.stack([sl.expm(A), np.eye(4)]))
    same(sl.expm(np.triu(A), upper_triangular=True), sl.expm(np.triu(A)))
    assert np.isnan(np.asarray(sl.expm(A * 1e9))).all()
    assert np.isfinite(np.asarray(sl.expm(np.diag([-1e4, 0.0])))).all()


def test_functions():
    for a in (P, PC, C, np.diag([4.0, 0.0, 9.0])):
        r = sl.sqrtm(a)
        same(r @ r, a)
    assert np.isnan(np.asarray(sl.sqrtm(np.array([[0.0, 1.0], [0.0, 0.0]])))).any()
    for method in ("schur", "eigen"):
        x = sl.solve_sylvester(P, P[:2, :2], B, method=method)
        same(P @ x + x @ P[:2, :2], B)
    assert np.isnan(np.asarray(sl.solve_sylvester(P, -P, A))).all()


def test_structured_matrices():
    same(sl.block_diag(np.eye(2), np.ones(3), 5.0), np.block([[np.eye(2), np.zeros((2, 4))], [0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 5.0]]))
    same(sl.toeplitz(np.array([1, 2, 3]), np.array([9, 4])), [[1, 4], [2, 1], [3, 2]])
    same(sl.hankel(np.array([1, 2, 3])), [[1, 2, 3], [2, 3, 0], [3, 0, 0]])
    same(sl.circulant(np.array([1, 2, 3])), [[1, 3, 2], [2, 1, 3], [3, 2, 1]])
    same(sl.leslie(np.array([1, 2, 3]), np.array([4, 5])), [[1, 2, 3], [4, 0, 0], [0, 5, 0]])
    same(sl.fiedler(np.array([1.0, 3.0])), [[0, 2], [2, 0]])
    for n in (2, 3, 4, 7):
        p = np.poly(np.arange(1.0, n))
        for f in (sl.companion, sl.fiedler_companion):
            np.testing.assert_allclose(np.sort(jnp.linalg.eigvals(f(p)).real), np.arange(1.0, n), rtol=1e-5)
    for mode in ("full", "same", "valid"):
        for m, n in ((3, 5), (4, 2)):
            a, v = RNG.standard_normal(m), RNG.standard_normal(n)
            if mode != "same" or n >= m:  # NumPy's "same" follows the longer one
                same(sl.convolution_matrix(a, n, mode) @ v, np.convolve(a, v, mode))
    same(sl.hilbert(5) @ sl.invhilbert(5), np.eye(5))
    for kind in (None, "lower", "upper"):
        same(np.asarray(sl.pascal(5, kind), float) @ np.asarray(sl.invpascal(5, kind)), np.eye(5))
    assert int(sl.pascal(5)[4, 4]) == math.comb(8, 4) and sl.pascal(0).shape == (0, 0)
    for huge in (sl.pascal, sl.invpascal):
        with pytest.raises(MemoryError):
            huge(10**8)
    h = np.asarray(sl.helmert(4, full=True))
    same(h @ h.T, np.eye(4))
    h = np.asarray(sl.hadamard(8))
    same(h @ h.T, 8 * np.eye(8))
    same(sl.dft(5) @ A.ravel()[:5], np.fft.fft(A.ravel()[:5]))


@pytest.mark.parametrize("norm", [None, "ortho"])
def test_cosine_transforms(norm):
    for n in (1, 4, 5):
        k, j = np.arange(n)[:, None], np.arange(n)
        matrix = 2 * np.cos(np.pi * k * (2 * j + 1) / (2 * n))
        if norm == "ortho":
            matrix = matrix / np.sqrt(np.where(k == 0, 4 * n, 2 * n))
            same(matrix @ matrix.T, np.eye(n))
        x = RNG.standard_normal((n, 3)) + 1j * RNG.standard_normal((n, 3))
        same(fft.dct(x, axis=0, norm=norm), matrix @ x)
        same(fft.idct(matrix @ x, axis=0, norm=norm), x)
        same(fft.idctn(fft.dctn(x, norm=norm), norm=norm), x)
        same(fft.dctn(x, s=(n + 1, 2), norm=norm), fft.dct(fft.dct(x, n=n + 1, axis=0, norm=norm), n=2, axis=1, norm=norm))
        check_derivatives(lambda v: fft.dct(v, norm=norm), x.real.T, order=1)


SMOOTH = {
    "solve by Cholesky": (lambda a, b: sl.solve(a, b, assume_a="pos"), P, B),
    "cho_solve": (lambda a, b: sl.cho_solve(sl.cho_factor(a + a.T), b), P, B),
    "lu_solve": (lambda a, b: sl.lu_solve(sl.lu_factor(a), b, 1), A, B),
    "expm": (sl.expm, A / 2),
    "expm with squarings": (sl.expm, 4 * A),
    "expm_frechet": (lambda a, e: sl.expm_frechet(a, e, compute_expm=False), A / 4, A.T),
    "polar": (sl.polar, TALL),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    fun, *xs = SMOOTH[name]
    if name == "solve by Cholesky":  # which takes its matrix for symmetric
        inner = fun
        fun = lambda a, b: inner((a + a.T) / 2, b)
    check_derivatives(fun, *xs, order=1, label=name)


ERRORS = [
    (ValueError, "trans", lambda: sl.solve_triangular(A, B, "X")),
    (ValueError, "assume_a", lambda: sl.solve(A, B, assume_a="no")),
    (ValueError, "expected, got", lambda: sl.lu_solve(sl.lu_factor(A), B[:3])),
    (ValueError, "square", lambda: sl.expm(TALL)),
    (ValueError, "mode", lambda: sl.qr(A, mode="no")),
    (ValueError, "at most 2", lambda: sl.block_diag(np.ones((1, 1, 1)))),
    (ValueError, "power of 2", lambda: sl.hadamard(6)),
    (ValueError, "Incompatible shapes", lambda: sl.solve_sylvester(A, A, B)),
    (NotImplementedError, "type 2", lambda: fft.dct(A, 3)),
    (ValueError, "norm", lambda: fft.dct(A, norm="forward")),
    (ValueError, "at most", lambda: fft.dctn(A, s=(1, 2, 3))),
    (NotImplementedError, "b=None", lambda: sl.eigh(A, A)),
    (NotImplementedError, "no derivative", lambda: fgrad.grad(lambda a: sl.sqrtm(a).real.sum())(P)),
]


@pytest.mark.parametrize("i", range(len(ERRORS)))
def test_errors(i):
    kind, word, call = ERRORS[i]
    with pytest.raises(kind, match=word):
        call()


def test_funm():
    import scipy.linalg

    rng = np.random.default_rng(5)
    a = rng.normal(size=(5, 5)).astype("f")
    for f in (np.exp, np.sin, lambda x: x**3):
        g = {np.exp: jnp.exp, np.sin: jnp.sin}.get(f, f)
        want = scipy.linalg.funm(a.astype("d"), f)
        for run in (lambda a: fgrad.scipy.linalg.funm(a, g), fgrad.jit(lambda a: fgrad.scipy.linalg.funm(a, g))):  # noqa: B023
            np.testing.assert_allclose(run(a), want, atol=2e-4 * np.abs(want).max())
    out, error = fgrad.scipy.linalg.funm(a, jnp.exp, disp=False)
    assert out.dtype == np.complex64 and 0 < error <= 1
    with pytest.raises(ValueError, match="square"):
        fgrad.scipy.linalg.funm(a[:2], jnp.exp)
