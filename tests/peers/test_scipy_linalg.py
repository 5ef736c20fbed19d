"""scipy.linalg against jax.scipy.linalg: values, dtypes, gradients."""

import inspect

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from tests.peers.test_linalg import PC, STACK, TALL, WIDE, A, B, C, P, close, complexes, positive, reals, weighted

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
jsl = pytest.importorskip("jax.scipy.linalg")
import jax.numpy as jaxnp  # noqa: E402

SL = fgrad.scipy.linalg
UPPER = np.triu(A) + 2 * np.eye(4, dtype=np.float32)
SMOOTH = [
    *[(lambda m, a, lower=lower: m.cholesky(a, lower), x) for x in (P, PC) for lower in (True, False)],
    *[(lambda m, a, b, lower=lower: m.cho_solve(m.cho_factor(a, lower), b), x, B) for x in (P, PC) for lower in (True, False)],
    (lambda m, a, b: m.cho_solve(m.cho_factor(a), b), P, B[:, 0]),
    *[(lambda m, a, b, t=t: m.solve_triangular(a, b, t), x, B) for x in (A, C) for t in (0, "T", 2)],
    (lambda m, a, b: m.solve_triangular(a, b, lower=True, unit_diagonal=True), A, B[:, 0]),
    (lambda m, a, b: m.solve_triangular(a, b), STACK, reals(3, 4, 2)),
    *[(lambda m, a, b, t=t: m.lu_solve(m.lu_factor(a), b, t), x, B) for x in (A, C) for t in (0, 1, 2)],
    (lambda m, a, b: m.lu_solve(m.lu_factor(a), b), A, B[:, 0]),
    *[(lambda m, a: m.lu(a), x) for x in (A, TALL, WIDE, C)],
    (lambda m, a: m.lu(a, permute_l=True), TALL),
    (lambda m, a, b: m.solve(a, b), A, B),
    (lambda m, a, b: m.solve(a, b, assume_a="pos"), P, B),
    (lambda m, a, b: m.solve(a, b, lower=True, assume_a="pos"), P, B[:, 0]),
    (lambda m, a: m.det(a), A),
    (lambda m, a: m.inv(a), A),
    *[(lambda m, a, mode=mode: m.qr(a, mode=mode), TALL) for mode in ("economic", "r")],
    (lambda m, a: m.qr(a, mode="economic", pivoting=True)[:2], TALL),
    (lambda m, a: m.svd(a, compute_uv=False), TALL),
    (lambda m, a: m.eigh(a, eigvals_only=True), P),
    *[(lambda m, a: m.expm(a), np.float32(s) * A) for s in (0.05, 0.3, 1, 6)],
    (lambda m, a: m.expm(a), 0.3 * STACK),
    (lambda m, a: m.expm(a), 0.3 * C),
    (lambda m, a: m.expm(a, upper_triangular=True), UPPER),
    (lambda m, a, e: m.expm_frechet(a, e), 0.5 * A, reals(4, 4)),
    (lambda m, a: m.polar(a, method="svd"), TALL),
    (lambda m, a: m.polar(a, side="left", method="svd"), WIDE),
    (lambda m, a, b: m.block_diag(a, b, 2.0), A, B[0]),
    (lambda m, c, r: m.toeplitz(c, r), reals(3), reals(4)),
    (lambda m, c: m.toeplitz(c), complexes(2, 3)),
    (lambda m, c: m.hankel(c), reals(3)),
    (lambda m, c, r: m.hankel(c, r), reals(3), reals(2, 4)),
    (lambda m, c: m.circulant(c), reals(2, 3)),
    (lambda m, f, s: m.leslie(f, s), reals(4), reals(3)),
    (lambda m, a: m.companion(a), reals(2, 4)),
    (lambda m, a: m.fiedler(a), reals(4)),
    *[(lambda m, a: m.fiedler_companion(a), reals(n)) for n in (2, 3, 5, 6)],
    *[(lambda m, a, mode=mode: m.convolution_matrix(a, 4, mode), reals(3)) for mode in ("full", "same", "valid")],
]
REAL_EIGENVALUES = positive(4, 4)
VALUES = [
    (lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True), reals(5) + 3 * np.arange(5, dtype=np.float32), reals(4)),
    (lambda m, a: m.qr_multiply(a, a.T), TALL),
    (lambda m, a: m.qr_multiply(a, a[:3], mode="left", conjugate=True), TALL),
    (lambda m, a: m.qr_multiply(a, a[:, 0], pivoting=True), TALL),
    (lambda m, a: m.hessenberg(a, calc_q=True), A),
    (lambda m, a: m.hessenberg(a), C),
    (lambda m, a: m.schur(a)[0].diagonal(), REAL_EIGENVALUES),
    (lambda m, a: m.sqrtm(a), P),
    (lambda m, a: m.sqrtm(a), C),
    (lambda m, a: m.sqrtm(a), np.diag([4.0, 0.0, 9.0]).astype(np.float32)),
    *[(lambda m, a, b, c, k=k: m.solve_sylvester(a, b, c, method=k), P, positive(3, 3), B) for k in ("schur", "eigen")],
    (lambda m, a, b: m.solve_sylvester(a, -a, b), P, A),
    (lambda m, d, e: m.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 2)), reals(5), reals(4)),
    (lambda m, a: m.expm(a * 1e8), A),
    (lambda m: m.hilbert(4),),
    (lambda m: m.invhilbert(4),),
    *[(lambda m, k=k: m.pascal(5, k),) for k in (None, "lower", "upper")],
    *[(lambda m, k=k: m.invpascal(5, k),) for k in (None, "lower", "upper")],
    (lambda m: m.helmert(4),),
    (lambda m: m.helmert(4, full=True),),
    (lambda m: m.hadamard(8),),
    *[(lambda m, s=s: m.dft(5, s),) for s in (None, "n", "sqrtn")],
]


@pytest.mark.parametrize("row", SMOOTH + VALUES, ids=lambda r: "")
def test_values(row):
    f, *args = row
    close(f(SL, *map(jnp.asarray, args)), f(jsl, *map(jaxnp.asarray, args)))


@pytest.mark.parametrize("row", SMOOTH, ids=lambda r: "")
def test_gradients(row):
    f, *args = row
    which = tuple(range(len(args)))
    got = fgrad.grad(weighted(lambda *a: f(SL, *a), jnp), which)(*map(jnp.asarray, args))
    want = jax.grad(weighted(lambda *a: f(jsl, *a), jaxnp), which)(*map(jaxnp.asarray, args))
    close(got, want, 1e-2)


@pytest.mark.parametrize("cov", [P, np.stack([P, 2 * P, P]), np.float32(2)], ids=["one", "batch", "scalar"])
def test_multivariate_normal(cov):
    x, mean = reals(3, 4), reals(4)
    ours, theirs = fgrad.scipy.stats.multivariate_normal, pytest.importorskip("jax.scipy.stats").multivariate_normal
    close(ours.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov), 1e-4)
    which = (0, 1, 2)
    close(fgrad.grad(weighted(ours.logpdf, jnp), which)(x, mean, cov), jax.grad(weighted(theirs.logpdf, jaxnp), which)(x, mean, cov), 1e-3)


def test_complex_schur_forms():
    t, z = SL.schur(A, output="complex")
    np.testing.assert_allclose(np.asarray(z @ t @ z.conj().T), A, atol=1e-5)
    assert not np.tril(np.asarray(t), -1).any()
    t, z = SL.rsf2csf(*SL.schur(A))
    np.testing.assert_allclose(np.asarray(z @ t @ z.conj().T), A, atol=1e-5)


def test_names_and_signatures():
    names = [n for n in dir(jsl) if not n.startswith("_") and inspect.isroutine(getattr(jsl, n)) or n in ("expm", "lu_solve")]
    assert sorted(set(names)) == sorted(SL.__all__)
    for n in names:
        if n in SL.__all__:
            want, got = (list(inspect.signature(getattr(m, n)).parameters) for m in (jsl, SL))
            assert got == want, n
