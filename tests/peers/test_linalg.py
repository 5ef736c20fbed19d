"""numpy.linalg, scipy.linalg and lax.linalg against JAX's: values, dtypes, and gradients of what does not depend on signs of vectors."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
import jax.numpy as jaxnp  # noqa: E402

RNG = np.random.default_rng(0)


def reals(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def complexes(*shape):
    return (RNG.standard_normal(shape) + 1j * RNG.standard_normal(shape)).astype(np.complex64)


def positive(*shape, make=reals):
    x = make(*shape)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + 3 * np.eye(shape[-1])).astype(x.dtype)


A, B, C = reals(4, 4), reals(4, 3), complexes(4, 4)
STACK, RIGHT, WIDE, TALL = reals(3, 4, 4), reals(3, 4, 2), reals(3, 5), reals(5, 3)
P, PC, PS = positive(4, 4), positive(4, 4, make=complexes), positive(2, 3, 3)
SINGULAR = np.array([[1, 2, 3, 4], [2, 4, 6, 8], [0, 1, 0, 1], [1, 1, 2, 2]], np.float32)
INTS = np.array([[2, 1], [1, 3]])

# (function of a module's linalg, arguments): results and gradients of their weighted sums are compared.
SMOOTH = [
    (lambda m, a, b: m.solve(a, b), A, B),
    (lambda m, a, b: m.solve(a, b), A, B[:, 0]),
    (lambda m, a, b: m.solve(a, b), STACK, RIGHT),
    (lambda m, a, b: m.solve(a, b), A, RIGHT),
    (lambda m, a, b: m.solve(a, b), STACK, B),
    (lambda m, a, b: m.solve(a, b), STACK, B[:, 0]),
    (lambda m, a, b: m.solve(a, b), C, B),
    (lambda m, a: m.inv(a), A),
    (lambda m, a: m.inv(a), STACK),
    (lambda m, a: m.inv(a), C),
    (lambda m, a: m.cholesky(a), P),
    (lambda m, a: m.cholesky(a, upper=True), PC),
    (lambda m, a: m.cholesky(a, symmetrize_input=False), PS),
    *[(lambda m, a: m.det(a), x) for x in (A[:1, :1], A[:2, :2], A[:3, :3], A, C, STACK, SINGULAR)],
    *[(lambda m, a: m.slogdet(a), x) for x in (A[:1, :1], A[:2, :2], A, C, STACK)],
    *[(lambda m, a: m.qr(a), x) for x in (A, TALL, WIDE, C)],
    (lambda m, a: m.qr(a, mode="complete"), TALL),
    (lambda m, a: m.qr(a, mode="r"), TALL),
    *[(lambda m, a: m.svd(a, compute_uv=False), x) for x in (A, TALL, C)],
    (lambda m, a: m.svdvals(a), WIDE),
    (lambda m, a: m.eigvalsh(a), P),
    (lambda m, a: m.eigvalsh(a, "U"), PC),
    (lambda m, a: m.eigvals(a).sum(), A),
    (lambda m, a: (m.eigvals(a) ** 3).sum(), A),
    *[(lambda m, a: m.pinv(a), x) for x in (A, TALL, WIDE, C, reals(2, 3, 4))],
    (lambda m, a: m.pinv(a, hermitian=True), P),
    (lambda m, a: m.pinv(a, rtol=0.5), TALL),
    (lambda m, a, b: m.lstsq(a, b)[0], TALL, reals(5)),
    (lambda m, a, b: m.lstsq(a, b)[:2], TALL, reals(5, 2)),
    (lambda m, a, b: m.lstsq(a, b)[0], WIDE, reals(3, 2)),
    *[(lambda m, a, p=p: m.cond(a, p), A) for p in (None, 2, -2, 1, np.inf, "fro")],
    *[(lambda m, a, o=o: m.norm(a, o), TALL) for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    *[(lambda m, a, o=o: m.norm(a, o, axis=(0, 2), keepdims=True), STACK) for o in ("nuc", 2, -2, 1)],
    *[(lambda m, a, o=o: m.matrix_norm(a, ord=o), STACK) for o in ("nuc", 2, "fro")],
    *[(lambda m, a, n=n: m.matrix_power(a, n), A) for n in (-3, -1, 0, 2, 5)],
    (lambda m, a: m.tensorinv(a, 2), reals(2, 3, 6)),
    (lambda m, a, b: m.tensorsolve(a, b), reals(2, 3, 6), reals(2, 3)),
    (lambda m, a, b: m.tensorsolve(a, b, (0,)), reals(6, 2, 3), reals(2, 3)),
]
# Results only: no derivatives in JAX, or integers.
VALUES = [
    (lambda m, a: m.matrix_rank(a), SINGULAR),
    (lambda m, a: m.matrix_rank(a), STACK),
    (lambda m, a: m.matrix_rank(a, 0.5), TALL),
    (lambda m, a: m.matrix_rank(a), A[0]),
    (lambda m, a, b: m.lstsq(a, b), TALL, reals(5)),
    (lambda m, a, b: m.lstsq(a, b, numpy_resid=True), WIDE, reals(3)),
    (lambda m, a: m.qr(a, mode="raw"), TALL),
    (lambda m, a: m.slogdet(a), SINGULAR),
    (lambda m, a: m.inv(a), INTS),
    (lambda m, a: m.det(a), INTS),
    (lambda m, a: m.eigvalsh(a), INTS),
    (lambda m, a: m.svd(a, compute_uv=False, hermitian=True), A + A.T),
]


def leaves(x):
    return [y for part in x for y in leaves(part)] if isinstance(x, (tuple, list)) else [x]


def close(got, want, tol=2e-3):
    got, want = leaves(got), leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        w = np.asarray(w)
        scale = np.abs(w[np.isfinite(w)]).max(initial=1) if w.dtype.kind in "fc" else 0
        np.testing.assert_allclose(np.asarray(g), w, rtol=tol, atol=tol * scale)


def weighted(f, xp):
    """A real number made of all results, with weights that tell them apart."""

    def loss(*args):
        total = 0.0
        for out in leaves(f(*args)):
            w = np.cos(np.arange(out.size, dtype=np.float32)).reshape(out.shape) + 0.5
            total = total + xp.sum(xp.real(out) * w) + (xp.sum(xp.imag(out) * np.sin(w)) if out.dtype.kind == "c" else 0)
        return total

    return loss


@pytest.mark.parametrize("row", SMOOTH + VALUES, ids=lambda r: "")
def test_values(row):
    f, *args = row
    close(f(jnp.linalg, *map(jnp.asarray, args)), f(jaxnp.linalg, *map(jaxnp.asarray, args)))


@pytest.mark.parametrize("row", SMOOTH, ids=lambda r: "")
def test_gradients(row):
    f, *args = row
    which = tuple(range(len(args)))
    got = fgrad.grad(weighted(lambda *a: f(jnp.linalg, *a), jnp), which)(*map(jnp.asarray, args))
    want = jax.grad(weighted(lambda *a: f(jaxnp.linalg, *a), jaxnp), which)(*map(jaxnp.asarray, args))
    close(got, want, 1e-2)


@pytest.mark.parametrize("x", [A, TALL, WIDE, C, STACK], ids=str)
def test_vectors_up_to_their_phase(x):
    """u_i v_i^H and eigenprojections do not depend on it."""
    outer = lambda u, v: np.einsum("...ij,...jk->...jik", np.asarray(u), np.asarray(v))
    (u, s, vh), (ju, js, jvh) = jnp.linalg.svd(x, full_matrices=False), jaxnp.linalg.svd(x, full_matrices=False)
    close(s, js)
    np.testing.assert_allclose(outer(u, vh), outer(ju, jvh), atol=1e-3)
    if x.shape[-1] != x.shape[-2]:
        return
    h = x + np.conj(np.swapaxes(x, -1, -2))
    (w, v), (jw, jv) = jnp.linalg.eigh(h), jaxnp.linalg.eigh(h)
    close(w, jw)
    H = lambda a: np.conj(np.swapaxes(np.asarray(a), -1, -2))
    np.testing.assert_allclose(outer(v, H(v)), outer(jv, H(jv)), atol=1e-3)
    w, v = jnp.linalg.eig(x)
    np.testing.assert_allclose(x @ np.asarray(v), np.asarray(v) * np.asarray(w)[..., None, :], atol=1e-4)


def test_failures_are_nan_as_in_jax():
    bad = np.stack([P, -P])
    for f in (lambda m, x: m.cholesky(x), lambda m, x: m.inv(x * 0)):
        np.testing.assert_array_equal(np.isfinite(f(jnp.linalg, bad)), np.isfinite(f(jaxnp.linalg, bad)))
    nan = np.full((3, 3), np.nan, np.float32)
    for name in ("cholesky", "inv", "det", "eigvalsh", "svdvals", "qr"):
        got, want = getattr(jnp.linalg, name)(nan), getattr(jaxnp.linalg, name)(nan)
        for g, w in zip(leaves(got), leaves(want)):
            g, w = (np.tril(x) if np.ndim(x) > 1 else np.asarray(x) for x in (g, w))
            np.testing.assert_array_equal(np.isnan(g), np.isnan(w), err_msg=name)


POLYNOMIALS = [
    (lambda m, x, y: m.polyfit(x, y, 2), reals(9), reals(9)),
    (lambda m, x, y: m.polyfit(x, y, 1, full=True), reals(9), reals(9, 2)),
    (lambda m, x, y: m.polyfit(x, y, 2, cov=True), reals(9), reals(9)),
    (lambda m, x, y, w: m.polyfit(x, y, 2, w=w, cov="unscaled"), reals(9), reals(9, 2), np.abs(reals(9))),
    (lambda m, p: m.sort(m.roots(p)), np.array([0, 0, 1, -6, 11, -6], np.float32)),
    (lambda m, p: m.sort(m.roots(p, strip_zeros=False)), np.array([0, 1, -6, 11, -6], np.float32)),
    (lambda m, p: m.poly(p), np.diag(np.arange(3.0, dtype=np.float32)) + 1),
]


@pytest.mark.parametrize("row", POLYNOMIALS, ids=lambda r: "")
def test_polynomials(row):
    f, *args = row
    close(f(jnp, *args), f(jaxnp, *args), 5e-3)


# What jax.lax.linalg has beside these: two primitives that are compositions here, and the QDWH iteration of accelerators.
ABSENT = {"cholesky_update_p", "ormqr_p", "symmetric_product_p", "qdwh"}


def test_names():
    have = set(vars(jnp.linalg))
    assert not [n for n in dir(jaxnp.linalg) if not n.startswith("_") and n not in have]
    assert {n for n in dir(jax.lax.linalg) if not n.startswith("_") and n not in vars(fgrad.lax.linalg)} == ABSENT


LAX = [
    (lambda m, x: m.cholesky_update(x, x[0] + 1), np.linalg.cholesky(P).T),
    (lambda m, x: m.symmetric_product(x, x @ x.T, alpha=2.0, beta=3.0, symmetrize_output=True), TALL),
    (lambda m, x: m.tridiagonal_solve(x[0], x[1] + 4, x[2], x.T), reals(3, 5)),
    (lambda m, x: m.triangular_solve(x, x + 1, left_side=True, conjugate_a=True), C),
    (lambda m, x: m.lu(x), TALL),
    (lambda m, x: m.schur(x + x.T)[0].sum(), A),
    (lambda m, x: m.hessenberg(x), A),
    (lambda m, x: m.tridiagonal(x + x.T), A),
    (lambda m, x: m.ormqr(x, x[0] * 0.1, x, left=True, transpose=True), TALL),
    (lambda m, x: m.qr(x, pivoting=True), TALL),
    (lambda m, x: abs(m.eig(x)[0].sum()), A),
]


@pytest.mark.parametrize("row", LAX, ids=lambda r: "")
def test_lax(row):
    f, x = row
    close(f(fgrad.lax.linalg, jnp.asarray(x)), f(jax.lax.linalg, jaxnp.asarray(x)))
