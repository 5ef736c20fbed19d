"""numpy.linalg and numpy.fft against NumPy, their derivatives, their corners, and what they say to bad input."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.derivatives import check_derivatives, check_vmap

RNG = np.random.default_rng(0)
LA = jnp.linalg


def normal(*shape, dtype=np.float64):
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def positive(*shape):
    x = normal(*shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])


SMOOTH = {
    "solve": (LA.solve, normal(4, 4), normal(4, 2)),
    "solve of a vector": (LA.solve, normal(2, 3, 3), normal(3)),
    "solve of a batch by one matrix": (LA.solve, normal(3, 3), normal(2, 3, 2)),
    "inv": (LA.inv, normal(2, 3, 3)),
    "det of 4": (LA.det, normal(4, 4)),
    "det of 1": (LA.det, normal(1, 1)),
    "det of 3": (LA.det, normal(2, 3, 3)),
    "slogdet": (lambda x: LA.slogdet(x)[1], normal(4, 4)),
    "slogdet of complex": (lambda x: tuple(LA.slogdet(x)), normal(3, 3, dtype=complex)),
    "cholesky": (lambda x: LA.cholesky(x, upper=True), positive(3, 3)),
    "pinv of tall": (LA.pinv, normal(4, 2)),
    "pinv of wide": (LA.pinv, normal(2, 4)),
    "pinv of Hermitian": (lambda x: LA.pinv(x, hermitian=True), positive(3, 3)),
    "lstsq": (lambda a, b: LA.lstsq(a, b)[:2], normal(5, 3), normal(5)),
    "lstsq of tall": (lambda a, b: LA.lstsq(a, b)[:2], normal(5, 2), normal(5)),
    "lstsq of tall, of complex": (lambda a, b: LA.lstsq(a, b)[0], normal(6, 2, dtype=complex), normal(6, 2, dtype=complex)),
    "cond": (lambda x: LA.cond(x, 1), normal(3, 3)),
    "nuclear norm": (lambda x: LA.norm(x, "nuc"), normal(3, 2)),
    "spectral norm": (lambda x: LA.norm(x, 2, axis=(0, 2)), normal(3, 2, 3)),
    "matrix_power": (lambda x: LA.matrix_power(x, -2), normal(3, 3)),
    "tensorsolve": (LA.tensorsolve, normal(2, 3, 6), normal(2, 3)),
    "tensorinv": (lambda x: LA.tensorinv(x, 1), normal(6, 2, 3)),
    "polyfit": (lambda x, y: jnp.polyfit(x, y, 2), normal(6), normal(6)),
    "hfft": (jnp.fft.hfft, normal(5, dtype=complex)),
    "ihfft": (jnp.fft.ihfft, normal(6)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    fun, *xs = SMOOTH[name]
    with fgrad.enable_x64():
        check_derivatives(fun, *xs, order=1 if "pinv" in name or "complex" in name else 2, label=name)
        check_vmap(fun, *[np.stack([x, 2 * x]) for x in xs], in_axes=(0,) * len(xs))


NUMPY = [
    ("solve", normal(3, 3), normal(3)),
    ("inv", normal(2, 3, 3)),
    ("det", normal(5, 5)),
    ("det", np.zeros((2, 0, 0))),
    ("slogdet", normal(2, 4, 4)),
    ("slogdet", np.ones((4, 4))),
    ("cholesky", positive(4, 4)),
    ("qr", normal(5, 3)),
    ("svd", normal(4, 3)[:, :0]),
    ("svdvals", normal(3, 5)),
    ("eigvalsh", positive(4, 4)),
    ("pinv", normal(4, 3)),
    ("matrix_rank", np.ones((3, 4))),
    ("matrix_rank", np.zeros((0, 3))),
    ("cond", normal(3, 3)),
    ("tensorinv", normal(6, 2, 3), 1),
    ("tensorsolve", normal(6, 2, 3), normal(6)),
    ("matrix_norm", normal(2, 3, 4)),
]


@pytest.mark.parametrize("row", NUMPY, ids=[f"{i}-{r[0]}" for i, r in enumerate(NUMPY)])
def test_values(row):
    name, *args = row
    with fgrad.enable_x64():
        got, want = (getattr(m, name)(*args) for m in (LA, np.linalg))
    for g, w in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)], strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)


def test_factorizations_rebuild_their_matrix():
    x = normal(2, 4, 3).astype(np.float32)
    h = normal(3, 3, dtype=np.complex64)
    h = h + h.conj().T
    u, s, vh = LA.svd(x, full_matrices=False)
    np.testing.assert_allclose(np.asarray(u * s[:, None, :] @ vh), x, atol=1e-5)
    u, s, vh = LA.svd(h, hermitian=True)
    np.testing.assert_allclose(np.asarray(u * s @ vh), h, atol=1e-5)
    w, v = LA.eigh(h, "U")
    np.testing.assert_allclose(np.asarray(v * w @ v.conj().T), h, atol=1e-5)
    w, v = LA.eig(x[0][:3])
    np.testing.assert_allclose(x[0][:3] @ np.asarray(v), np.asarray(v * w), atol=1e-5)
    q, r, p = lax.linalg.qr(x, pivoting=True)
    np.testing.assert_allclose(np.asarray(q @ r), np.take_along_axis(x, np.asarray(p)[:, None, :], -1), atol=1e-5)


def test_gradient_of_det_at_rank_one_less():
    """The gradient is the cofactor matrix, of a singular matrix too; zero where the rank is less by two."""
    with fgrad.enable_x64():
        x = normal(4, 4)
        x[3] = x[0] + x[1]
        cofactors = np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) for j in range(4)] for i in range(4)])
        np.testing.assert_allclose(fgrad.grad(LA.det)(x), cofactors, atol=1e-9)
        assert not np.asarray(fgrad.grad(LA.det)(np.ones((4, 4)))).any()


def test_failures_are_nan_and_stay_in_their_matrix():
    x = np.stack([positive(3, 3), -positive(3, 3), positive(3, 3)]).astype(np.float32)
    low = np.asarray(LA.cholesky(x))
    assert np.isnan(low[1][np.tril_indices(3)]).all() and np.isfinite(low[[0, 2]]).all()
    assert not np.triu(low[1], 1).any()
    x[1, 0, 0] = np.nan
    for f in (LA.eigvalsh, LA.svdvals, LA.eigvals, lambda a: LA.qr(a)[0]):
        out = np.asarray(f(x)).reshape(3, -1)
        assert np.isnan(out[1]).all() and np.isfinite(out[[0, 2]]).all()
    assert np.isnan(np.asarray(lax.linalg.tridiagonal_solve(*np.zeros((3, 2), np.float32), np.ones((2, 1), np.float32)))).all()


def test_singular_systems():
    assert not np.isfinite(np.asarray(LA.inv(np.zeros((2, 2))))).any()
    sign, log = LA.slogdet(np.ones((3, 3)))
    assert (float(sign), float(log)) == (0, -np.inf)
    assert int(LA.matrix_rank(np.diag([1.0, 1e-3, 0.0]))) == 2
    assert int(LA.matrix_rank(np.diag([1.0, 1e-3, 0.0]), tol=0.1)) == 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_slogdet_of_small_matrices(n):
    """Written out: products of rows and columns of any size stay in range, gradients are transposed inverses."""
    x = normal(50, n, n)
    scale = np.float32(10) ** np.random.default_rng(0).integers(-12, 12, (50, n, 1))
    for a in (x, x * scale, x * scale * np.swapaxes(scale, 1, 2)):
        sign, log = LA.slogdet(a)
        want = np.linalg.slogdet(a.astype(np.float64))
        np.testing.assert_array_equal(sign, want[0])
        np.testing.assert_allclose(log, want[1], rtol=1e-4, atol=1e-4)
    got = fgrad.grad(lambda a: LA.slogdet(a)[1].sum())(jnp.asarray(x))
    want = np.swapaxes(np.linalg.inv(x.astype(np.float64)), 1, 2)
    np.testing.assert_allclose(got, want, atol=1e-4 * np.abs(want).max())
    far = np.float32([[1, 1e-30, 0], [1, 0, 1e-30], [0, 1, 1]])
    np.testing.assert_allclose(LA.slogdet(far), np.linalg.slogdet(far.astype(np.float64)), rtol=1e-5)
    for a in (np.zeros((n, n)), np.outer(np.arange(1.0, n + 1), np.arange(3.0, n + 3)) * (n > 1)):
        assert [float(v) for v in LA.slogdet(a)] == [0, -np.inf]


def test_what_has_no_derivative_says_so():
    x = jnp.asarray(normal(3, 3))
    for f, word in (
        (lambda a: LA.eig(a)[1].real.sum(), "enable_eigvec_derivs"),
        (lambda a: LA.svd(a[:2])[0].sum(), "full_matrices=False"),
        (lambda a: lax.linalg.schur(a)[0].sum(), "no derivative"),
    ):
        with pytest.raises(NotImplementedError, match=word):
            fgrad.grad(f)(x)


def test_many_right_hand_sides_and_many_matrices():
    """The loops that are shared among threads: columns of one system, matrices of a batch."""
    with fgrad.enable_x64():
        a, b = np.tril(normal(40, 40)) + 40 * np.eye(40), normal(40, 333)
        np.testing.assert_allclose(a @ np.asarray(lax.linalg.triangular_solve(a, b, left_side=True, lower=True)), b, atol=1e-9)
        np.testing.assert_allclose(np.asarray(lax.linalg.triangular_solve(a, b.T, lower=True)) @ a, b.T, atol=1e-9)
        x = normal(300, 9, 9)
        np.testing.assert_allclose(LA.inv(x), np.linalg.inv(x), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(LA.svdvals(x), np.linalg.svd(x, compute_uv=False), atol=1e-9)


@pytest.mark.parametrize("shape", [(40, 12), (14, 12), (12, 12), (9, 12)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_lstsq_of_any_rank(dtype, shape):
    """Solved by a triangle where every singular value surely counts, else by singular values; a batch always by these."""
    (m, n), many = shape, []
    k = min(m, n)
    u, v = np.linalg.qr(normal(m, k, dtype=dtype))[0], np.linalg.qr(normal(n, k, dtype=dtype))[0].conj().T
    with fgrad.enable_x64():
        for values, rcond in ((np.geomspace(1, 0.1, k), None), (np.geomspace(1, 1e-6, k), None), (np.geomspace(1, 1e-6, k), 2e-3),
                              (np.r_[np.ones(k - 3), 0, 0, 0], 1e-9), (np.zeros(k), None)):  # fmt: skip
            a, b = (u * values) @ v, normal(m, 2, dtype=dtype)
            want = np.linalg.lstsq(a, b, rcond=rcond)
            x, _, rank, s = LA.lstsq(a, b, rcond)
            np.testing.assert_allclose(x, want[0], rtol=1e-7, atol=1e-7 * np.abs(want[0]).max())
            np.testing.assert_allclose(s, want[3], atol=1e-12)
            assert int(rank) == want[2]
            many.append((a, b, fgrad.jit(lambda a, b: LA.lstsq(a, b, 2e-3)[0])(a, b)))
        a, b, each = (np.stack(z) for z in zip(*many))
        np.testing.assert_allclose(fgrad.vmap(lambda a, b: LA.lstsq(a, b, 2e-3)[0])(a, b), each, rtol=1e-7, atol=1e-7)
        a[0, 3, 3] = np.nan
        assert np.isnan(LA.lstsq(a[0], b[0])[0]).all()


@pytest.mark.parametrize("rank", [4, 2])
@pytest.mark.parametrize("columns", [None, 2])
def test_lstsq_of_one_matrix_for_a_batch(columns, rank):
    """One factorisation serves all that a batch has on the right."""
    with fgrad.enable_x64():
        a = normal(20, rank) @ normal(rank, 4)
        b = normal(7, 20) if columns is None else normal(7, 20, columns)
        solve = lambda b: LA.lstsq(a, b, 1e-9)
        x, resid, found, s = fgrad.vmap(solve)(b)
        for i, row in enumerate(b):
            want = np.linalg.lstsq(a, row, rcond=1e-9)
            np.testing.assert_allclose(x[i], want[0], atol=1e-8 * np.abs(want[0]).max())
            np.testing.assert_allclose(resid[i], np.sum((row - a @ want[0]) ** 2, 0, keepdims=columns is None), rtol=1e-7)
            assert int(found[i]) == want[2] == rank
            np.testing.assert_allclose(s[i], want[3], atol=1e-12)
        ct = normal(*x.shape)
        grads = fgrad.grad(lambda a, b: (fgrad.vmap(lambda b: LA.lstsq(a, b, 1e-9)[0])(b) * ct).sum(), (0, 1))(a, b)
        each = [fgrad.grad(lambda a, b, c: (LA.lstsq(a, b, 1e-9)[0] * c).sum(), (0, 1))(a, *row) for row in zip(b, ct)]
        np.testing.assert_allclose(grads[0], sum(e[0] for e in each), rtol=1e-6, atol=1e-6 * np.abs(grads[0]).max())
        np.testing.assert_allclose(grads[1], np.stack([e[1] for e in each]), rtol=1e-6, atol=1e-8)
        text = str(fgrad.make_jaxpr(fgrad.vmap(lambda b: LA.lstsq(a, b)[0]))(b))
        assert "svd[" in text and "f64[7,4,4]" not in text and "qr[" not in text


ERRORS = [
    (ValueError, "shape", lambda x: LA.solve(x, np.ones(3))),
    (ValueError, r"\[\.\.\., n, n\]", lambda x: LA.inv(x[:1])),
    (ValueError, r"\[\.\.\., n, n\]", lambda x: LA.det(x[:1])),
    (ValueError, "Unsupported QR", lambda x: LA.qr(x, "thin")),
    (ValueError, "Unknown slogdet", lambda x: LA.slogdet(x, method="x")),
    (ValueError, "UPLO", lambda x: LA.eigh(x, "X")),
    (ValueError, "only one", lambda x: LA.pinv(x, 0.1, rcond=0.1)),
    (ValueError, "square", lambda x: LA.cond(np.ones((2, 3)), 1)),
    (ValueError, "Leading dimensions", lambda x: LA.lstsq(x, np.ones(3))),
    (TypeError, "float16", lambda x: LA.cholesky(x.astype(np.float16))),
    (ValueError, "do not fit", lambda x: lax.linalg.triangular_solve(x, np.ones((3, 3), np.float32))),
    (TypeError, "same dtypes", lambda x: lax.linalg.triangular_solve(x, np.ones((2, 2), np.complex64))),
    (ValueError, "leading axes", lambda x: lax.linalg.triangular_solve(x, np.ones((4, 2, 2), np.float32))),
    (ValueError, "three diagonals", lambda x: lax.linalg.tridiagonal_solve(x[0], x[0], x, x)),
    (ValueError, "positive", lambda x: jnp.fft.fft(x, 0)),
    (ValueError, "repeated axes", lambda x: jnp.fft.fftn(x, axes=(0, 0))),
    (ValueError, "Invalid norm", lambda x: jnp.fft.fft(x, norm="x")),
    (ValueError, "real valued", lambda x: jnp.fft.rfft(x * 1j)),
    (ValueError, "Unknown FFT", lambda x: lax.fft(x, "dct", (2,))),
    (ValueError, "fft_lengths", lambda x: lax.fft(x, "fft", (3,))),
]


@pytest.mark.parametrize("i", range(len(ERRORS)))
def test_errors(i):
    kind, word, call = ERRORS[i]
    with pytest.raises(kind, match=word):
        call(jnp.ones((2, 2)))


FFTS = [
    *[(kind + axes, normal(3, 4, 5), {}) for kind in ("fft", "ifft", "rfft", "irfft") for axes in ("", "2", "n")],
    *[(name, normal(3, 4), dict(n=6, axis=0, norm="ortho")) for name in ("fft", "ifft", "rfft", "irfft")],
    *[(name, normal(2, 3, 4, 5), dict(s=(2, 6), axes=(2, 0), norm="forward")) for name in ("fftn", "ifftn", "rfftn", "irfftn")],
    ("fft", normal(5, dtype=complex), dict(n=3)),
    ("fftn", normal(2, 2, 2, 2, 3), {}),
    ("fftshift", normal(4, 5), {}),
    ("ifftshift", normal(4, 5), dict(axes=1)),
    ("hfft", normal(5, dtype=complex), {}),
    ("ihfft", normal(6), {}),
]  # fmt: skip


@pytest.mark.parametrize("name, x, kw", FFTS, ids=[f"{i}-{r[0]}" for i, r in enumerate(FFTS)])
def test_fft(name, x, kw):
    for single in (False, True):
        with fgrad.enable_x64(not single):
            want, got = getattr(np.fft, name)(x, **kw), getattr(jnp.fft, name)(x, **kw)
            jitted = fgrad.jit(lambda v: getattr(jnp.fft, name)(v, **kw))(x)
        np.testing.assert_allclose(got, want, rtol=1e-4 if single else 1e-12, atol=1e-4 if single else 1e-12)
        np.testing.assert_array_equal(jitted, got)
        assert got.dtype == (np.dtype("c8" if want.dtype.kind == "c" else "f4") if single else want.dtype)


def test_fft_frequencies():
    for n in (1, 5, 8):
        np.testing.assert_allclose(jnp.fft.fftfreq(n, 0.5), np.fft.fftfreq(n, 0.5), rtol=1e-6)
        np.testing.assert_allclose(jnp.fft.rfftfreq(n, 0.5), np.fft.rfftfreq(n, 0.5), rtol=1e-6)


def test_roots():
    np.testing.assert_allclose(np.sort(jnp.roots(np.array([0.0, 2, -6, 4]))), [1, 2], atol=1e-5)
    out = np.asarray(fgrad.jit(lambda p: jnp.roots(p, strip_zeros=False))(np.array([0.0, 2, -6, 4])))
    np.testing.assert_allclose(np.sort(out[:2]), [1, 2], atol=1e-5)
    assert np.isnan(out[2])
    assert jnp.roots(np.zeros(1)).shape == (0,)
    np.testing.assert_allclose(jnp.poly(np.array([[2.0, 1], [1, 2]])).real, [1, -4, 3], atol=1e-5)


def test_multivariate_normal_has_its_covariance():
    cov = np.array([[2, 0.5], [0.5, 1]], np.float32)
    for method in ("cholesky", "eigh", "svd"):
        x = np.asarray(fgrad.random.multivariate_normal(fgrad.random.key(0), np.array([1.0, -1.0]), cov, (20000,), method=method))
        np.testing.assert_allclose(x.mean(0), [1, -1], atol=0.05)
        np.testing.assert_allclose(np.cov(x.T), cov, atol=0.08)


def test_density_of_multivariate_normal():
    pdf = fgrad.scipy.stats.multivariate_normal
    with fgrad.enable_x64():
        x, mean, cov = normal(3, 2), normal(2), positive(2, 2)
        want = [-0.5 * ((v - mean) @ np.linalg.inv(cov) @ (v - mean) + np.log(np.linalg.det(2 * np.pi * cov))) for v in x]
        np.testing.assert_allclose(pdf.logpdf(x, mean, cov), want, rtol=1e-10)
        np.testing.assert_allclose(pdf.logpdf(x, mean, np.stack([cov] * 3)), want, rtol=1e-10)
        np.testing.assert_allclose(pdf.logpdf(x, mean, 2.0), pdf.logpdf(x, mean, 2 * np.eye(2)), rtol=1e-10)
        np.testing.assert_allclose(pdf.pdf(x[0, 0], 0.5, 2.0), fgrad.scipy.stats.norm.pdf(x[0, 0], 0.5, np.sqrt(2)), rtol=1e-10)
        check_derivatives(lambda v, m, c: pdf.logpdf(v, m, c @ c.T + jnp.eye(2)), x, mean, cov)
    with pytest.raises(ValueError, match="covariance"):
        pdf.logpdf(x, mean, np.ones((3, 3)))


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 0), (0, 2, 2)], ids=str)
def test_matrices_without_elements(shape):
    x = jnp.zeros(shape)
    for f, numpy_f in ((LA.svd, np.linalg.svd), (LA.qr, np.linalg.qr)):
        assert [o.shape for o in f(x)] == [o.shape for o in numpy_f(np.zeros(shape))]
    *batch, m, n = shape
    assert [o.shape for o in lax.linalg.lu(x)] == [shape, (*batch, min(m, n)), (*batch, m)]
    if m != n:
        return
    for name in ("inv", "det", "cholesky", "eigvalsh", "eigvals"):
        assert getattr(LA, name)(x).shape == getattr(np.linalg, name)(np.zeros(shape)).shape
    less = max(n - 1, 0)
    assert [o.shape for o in lax.linalg.hessenberg(x)] == [shape, (*batch, less)]
    assert [o.shape for o in lax.linalg.tridiagonal(x)] == [shape, (*batch, n), (*batch, less), (*batch, less)]


def large(n, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, n)).astype(np.float32)
    return x, x @ x.T + n * np.eye(n, dtype=np.float32)


@pytest.mark.parametrize("n", [320, 357, 530])
def test_large_factorizations(n):
    """Sizes that are cut in halves, some of them no whole vectors."""
    x, spd = large(n)
    low = np.asarray(jnp.linalg.cholesky(spd))
    np.testing.assert_allclose(low, np.linalg.cholesky(spd.astype(np.float64)), atol=1e-4)
    assert not np.triu(low, 1).any()
    for a in (x, np.vstack([x, x[:40] * 2]), np.hstack([x, x[:, :70] + 1]), np.asarray([x, spd])):
        lu, _, order = map(np.asarray, fgrad.lax.linalg.lu(a))
        k = min(a.shape[-2:])
        lower = np.tril(lu[..., :k], -1) + np.eye(a.shape[-2], k)
        assert np.abs(lower).max() <= 1
        np.testing.assert_allclose(
            lower @ np.triu(lu[..., :k, :]), np.take_along_axis(a, order[..., None], -2), atol=2e-5 * np.abs(a).max()
        )
    spd[n - 3, n - 3] = -1
    assert np.isnan(np.asarray(jnp.linalg.cholesky(spd))[-1]).all()
    x[7, 9] = np.inf
    assert not np.isfinite(np.asarray(fgrad.lax.linalg.lu(x)[0])).all()


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_large_triangular_systems(left, lower, transpose, unit):
    n, sides = 331, 77
    x, _ = large(n)
    a = x / 40
    np.fill_diagonal(a, 5 if unit else np.linspace(1, 2, n))
    part = (np.tril if lower else np.triu)(a)
    a[part == 0] = np.nan  # is not read
    b = x[:, :sides] if left else x[:sides]
    found = fgrad.lax.linalg.triangular_solve(a, b, left_side=left, lower=lower, transpose_a=transpose, unit_diagonal=unit)
    if unit:
        np.fill_diagonal(part, 1)
    op = part.T.astype(np.float64) if transpose else part.astype(np.float64)
    np.testing.assert_allclose(op @ found if left else found @ op, b, atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (5, 2), (2, 5), (16, 16), (32, 9)])
def test_qr_of_many_small_matrices(dtype, shape):
    """A vector has a matrix in each lane; columns of zeros, and squares out of range, are among them."""
    x = np.random.default_rng(3).standard_normal((33, *shape)).astype(dtype)
    x[3], x[4], x[7], x[8, 0] = 0, np.eye(*shape), np.triu(x[7]), -0.0
    x[5] *= np.finfo(dtype).tiny ** 0.7
    x[6] *= np.finfo(dtype).max ** 0.7
    tol = 200 * np.finfo(dtype).eps
    with fgrad.enable_x64():
        for mode in ("reduced", "complete"):
            q, r = (np.asarray(v, np.float64) for v in jnp.linalg.qr(jnp.array(x), mode=mode))
            size = np.abs(x).max((1, 2), keepdims=True).astype(np.float64) + np.finfo(np.float64).tiny
            np.testing.assert_allclose(q @ (r / size), x / size, atol=tol)
            np.testing.assert_allclose(
                np.swapaxes(q, 1, 2) @ q, np.broadcast_to(np.eye(q.shape[2]), (33, q.shape[2], q.shape[2])), atol=tol
            )
            np.testing.assert_allclose(r / size, np.linalg.qr(x, mode=mode)[1] / size, atol=10 * tol)
        x[9, 0, 0] = np.nan
        q, r = jnp.linalg.qr(jnp.array(x))
        assert np.isnan(np.asarray(r)[9]).any() and np.isfinite(np.asarray(r)[10]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(110, 60), (109, 60), (60, 110), (300, 4), (4, 300), (1100, 1), (1, 1100), (3, 90, 20), (2, 20, 90)])
def test_svd_of_long_and_wide_matrices(shape, dtype):
    with fgrad.enable_x64():
        check_svd(shape, dtype)


def check_svd(shape, dtype):
    x, k = normal(*shape, dtype=dtype), min(shape[-2:])
    eps, want = np.finfo(dtype).eps, np.linalg.svd(x.astype(float), compute_uv=False)
    for full in (False, True):
        u, s, vh = (np.asarray(v) for v in LA.svd(x, full_matrices=full))
        assert [v.shape for v in (u, s, vh)] == [v.shape for v in np.linalg.svd(x, full_matrices=full)]
        assert np.abs((u[..., :k] * s[..., None, :]) @ vh[..., :k, :] - x).max() <= 100 * eps * want.max()
        for q in (u, vh.swapaxes(-1, -2)):
            assert np.abs(q.swapaxes(-1, -2) @ q - np.eye(q.shape[-1])).max() <= 100 * eps
    for values in (s, LA.svdvals(x)):
        assert np.abs(values - want).max() <= 50 * eps * want.max()
    broken = x.copy()
    broken[..., 0, -1] = np.nan
    assert all(np.isnan(v).all() for v in LA.svd(broken, full_matrices=False))


def test_svd_of_long_matrices_has_lapacks_signs_and_derivatives():
    with fgrad.enable_x64():
        check_long_svd()


def check_long_svd():
    drawn = np.random.default_rng(0).standard_normal((90, 20))  # of some 1.4 % of matrices rounding decides a sign
    for x in (drawn, drawn.T.copy()):
        for a, b in zip(LA.svd(x, full_matrices=False), np.linalg.svd(x, full_matrices=False)):
            assert np.abs(a - b).max() < 1e-10
        u, _, vh = np.linalg.svd(x, full_matrices=False)
        np.testing.assert_allclose(fgrad.jit(fgrad.grad(lambda x: LA.svdvals(x).sum()))(x), u @ vh, atol=1e-10)
        check_derivatives(lambda x: LA.svd(x, full_matrices=False)[0][:, :1] ** 2, x)
    zero = LA.svd(np.zeros((200, 9)), full_matrices=False)
    assert (zero[1] == 0).all() and np.abs(zero[0].T @ zero[0] - np.eye(9)).max() < 1e-14
