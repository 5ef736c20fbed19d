"""The jax.scipy.linalg surface: factorizations, systems and functions of matrices.

What SciPy has for its own memory (overwrite_a, overwrite_b, lwork, check_finite, turbo, debug) is accepted and ignored.
"""

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.eager import eager
from fgrad.errors import ShapeError
from fgrad.numpy.util import as_array
from fgrad.ops import elementwise as E
from fgrad.ops import linalg as L
from fgrad.ops import matrix as X
from fgrad.ops import spectral as S
from fgrad.scipy.matrices import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    toeplitz,
)
from fgrad.scipy.matrix_functions import expm, expm_frechet, funm, polar, rsf2csf, solve_sylvester, sqrtm

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "det", "dft", "eigh",
    "eigh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert", "hessenberg",
    "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve", "pascal", "polar", "qr", "qr_multiply", "rsf2csf",
    "schur", "solve", "solve_sylvester", "solve_triangular", "sqrtm", "svd", "toeplitz",
]  # fmt: skip


def _inexact(name, *args):
    return jnp.promote_dtypes_inexact(*[as_array(name, a, i) for i, a in enumerate(args)])


def _matrix(name, a):
    if a.ndim < 2:
        raise ShapeError(f"{name} takes a matrix (..., m, n), got an array of shape {a.shape}")
    return a


# --- Cholesky -----------------------------------------------------------------------------------------------------------


def cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    """U with a = U^H U, or L with a = L L^H if lower, of Hermitian positive definite matrices, of which that triangle is read."""
    (a,) = _inexact("cholesky", a)
    if lower:
        return L.cholesky(a, symmetrize_input=False)
    return X.mH(L.cholesky(X.mH(a), symmetrize_input=False))


def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """(cholesky(a, lower), lower), for cho_solve."""
    return cholesky(a, lower=lower), lower


def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """x with a x = b, from cho_factor(a) and b (n,) or (..., n, k)."""
    return _cho_solve(c_and_lower[0], b, c_and_lower[1])


@eager(2)
def _cho_solve(factor, b, lower):
    factor, b = _inexact("cho_solve", factor, b)
    _matrix("cho_solve", factor)
    forward, back = (dict(lower=lower, transpose_a=t, conjugate_a=t) for t in (not lower, lower))
    return _systems("cho_solve", lambda c, r: _left(c, _left(c, r, **forward), **back), (factor,), b)


def _left(a, b, **kw):
    return L.triangular_solve(a, b, left_side=True, **kw)


def _systems(name, solve, factors, b):
    """solve(*factors, b) on batches that broadcast; b is a vector (n,) or (..., n, k). The first factor is (..., n, n).

    As in JAX, b of one axis less than the factor is a batch of vectors where its last axis fits."""
    a = factors[0]
    vectors = b.ndim == 1 or (a.ndim == b.ndim + 1 and a.shape[-1] == b.shape[-1])
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not b.ndim or b.shape[-1 if vectors else -2] != a.shape[-1]:
        raise ValueError(f"{name}: matrices (..., n, n) and b (n,) or (..., n, k) expected, got {a.shape} and {b.shape}")
    full = b[..., None] if vectors else b
    batch = jnp.broadcast_shapes(a.shape[:-2], full.shape[:-2], *[f.shape[:-1] for f in factors[1:]])
    spread = lambda x, core: jnp.broadcast_to(x, (*batch, *x.shape[x.ndim - core :]))
    out = solve(spread(a, 2), *[spread(f, 1) for f in factors[1:]], spread(full, 2))
    return out[..., 0] if vectors else out


# --- LU and general systems -----------------------------------------------------------------------------------------------


def lu_factor(a, overwrite_a=False, check_finite=True):
    """(L and U in one matrix, int32 pivots): row i was swapped with row pivots[..., i]."""
    factors, pivots, _ = L.lu(*_inexact("lu_factor", a))
    return factors, pivots


def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    """x with op(a) x = b from lu_factor(a) and b (n,) or (..., n, k); op: none (trans 0), transpose (1), conjugate transpose (2)."""
    return _lu_solve(*lu_and_piv, b, trans)


@eager(3)
def _lu_solve(factors, pivots, b, trans):
    factors, b = _inexact("lu_solve", factors, b)
    _matrix("lu_solve", factors)
    order = L.lu_pivots_to_permutation(as_array("lu_solve", pivots), factors.shape[-2])
    return _systems("lu_solve", lambda f, p, r: L.lu_solve(f, p, r, trans), (factors, order), b)


@eager(1)
def lu(a, permute_l=False, overwrite_a=False, check_finite=True):
    """(P, L, U) with a = P L U, or (P L, U) with permute_l, of matrices (..., m, n)."""
    (a,) = _inexact("lu", a)
    factors, _, order = L.lu(a)
    m, n = a.shape[-2:]
    k = min(m, n)
    low, up = X.tril(factors[..., :k], -1) + X.eye_like(factors, m, k), X.triu(factors[..., :k, :])
    up = E.convert_element_type(up, up.dtype, a.aval.weak_type)
    if permute_l:
        return X.unpermute_rows(low, order), up
    rows = jnp.arange(m, dtype=order.dtype)
    return (order[..., None, :] == rows[:, None]).astype(jnp.real(a).dtype), low, up


def solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, debug=False, check_finite=True, assume_a="gen"):
    """x with a x = b, for b (n,) or (..., n, k). assume_a: "pos" uses Cholesky, of the triangle that `lower` tells, "gen", "sym" and
    "her" use LU."""
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; got {assume_a!r}")
    if assume_a != "pos":
        return jnp.linalg.solve(a, b)
    a, b = _inexact("solve", a, b)

    def implicit(a, r):
        factor = lax.stop_gradient(a) if lower else lax.stop_gradient(X.mH(a))
        low = L.cholesky(factor, symmetrize_input=False)
        back = lambda _, v: _left(low, _left(low, v, lower=True), lower=True, transpose_a=True, conjugate_a=True)
        return lax.custom_linear_solve(lambda x: X.mm(a, x), r, back, symmetric=a.dtype.kind != "c", transpose_solve=_conjugated(back))

    return _systems("solve", implicit, (a,), b)


def _conjugated(solve):
    """The solve of the transposed system, of a Hermitian matrix."""
    return lambda _, v: jnp.conj(solve(_, jnp.conj(v)))


@eager(2)
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, debug=None, check_finite=True):
    """x with op(a) x = b for triangular a; op by trans: 0 or "N" none, 1 or "T" transpose, 2 or "C" conjugate transpose."""
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ValueError(f"Invalid 'trans' value {trans}")
    kw = dict(lower=lower, transpose_a=kinds[trans] > 0, conjugate_a=kinds[trans] == 2, unit_diagonal=unit_diagonal)
    a, b = _inexact("solve_triangular", a, b)
    return _systems("solve_triangular", lambda a, r: _left(a, r, **kw), (a,), b)


def det(a, overwrite_a=False, check_finite=True):
    """The determinants of square matrices."""
    return jnp.linalg.det(a)


def inv(a, overwrite_a=False, check_finite=True):
    """The inverses of square matrices."""
    return jnp.linalg.inv(a)


# --- QR -----------------------------------------------------------------------------------------------------------------


def qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    """(Q, R) with a = Q R, mode "full" or "economic"; (R,) with "r". With pivoting the permutation of a's columns is added."""
    if mode not in ("full", "r", "economic"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, *rest = S.qr(*_inexact("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(rest) if mode == "r" else (q, *rest)


def qr_multiply(a, c, mode="right", pivoting=False, conjugate=False, overwrite_a=False, overwrite_c=False):
    """(c Q, R), or (Q c, R) with mode "left", for a = Q R with economic R; conjugate: with conj(Q). With pivoting the permutation is
    added. c is a matrix or a vector."""
    a, c = _inexact("qr_multiply", a, c)
    if mode not in ("right", "left"):
        raise ValueError(f"mode must be 'right' or 'left', got {mode!r}")
    vector, (m, n) = c.ndim == 1, _matrix("qr_multiply", a).shape[-2:]
    if not c.ndim:
        raise ShapeError("qr_multiply: c must be a vector or a matrix, got a single number")
    c = (c[:, None] if mode == "left" else c[None, :]) if vector else c
    if c.shape[-2 if mode == "left" else -1] != (min(m, n) if mode == "left" else m):
        raise ValueError(f"qr_multiply: a of shape {a.shape} and c of shape {c.shape} do not fit (mode={mode!r})")
    q, *rest = S.qr(a, pivoting=pivoting, full_matrices=False)
    q = jnp.conj(q) if conjugate else q
    out = q @ c if mode == "left" else c @ q
    return (out.reshape(-1) if vector else out, *rest)


# --- eigenvalues and singular values ----------------------------------------------------------------------------------------


def svd(a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    """(U, s, Vh) with a = U * s @ Vh, or s alone."""
    return S.svd(*_inexact("svd", a), full_matrices=full_matrices, compute_uv=compute_uv)


def eigh(
    a,
    b=None,
    lower=True,
    eigvals_only=False,
    overwrite_a=False,
    overwrite_b=False,
    turbo=True,
    eigvals=None,
    type=1,
    check_finite=True,
):
    """(eigenvalues, eigenvectors) of Hermitian matrices; the values alone with eigvals_only. Problems with a second matrix b, types other
    than 1 and subsets are refused with NotImplementedError."""
    if b is not None or type != 1 or eigvals is not None:
        raise NotImplementedError("Only the b=None, type=1 and eigvals=None case of eigh is implemented.")
    (a,) = _inexact("eigh", a)
    if eigvals_only:
        return S.eigvalsh(a, lower=lower)
    v, w = S.eigh(a, lower=lower)
    return w, v


def eigh_tridiagonal(d, e, *, eigvals_only=False, select="a", select_range=None, tol=None, key=None):
    """(eigenvalues, eigenvectors) of a Hermitian tridiagonal matrix with diagonal d (n,) and lower off-diagonal e (n - 1,).

    select "i": only those of positions select_range = (first, last). `tol` and `key` are accepted and ignored.
    """
    d, e = (as_array("eigh_tridiagonal", v, i) for i, v in enumerate((d, e)))
    if d.dtype != e.dtype:
        raise TypeError(f"diagonal and off-diagonal values must have same dtype, got {d.dtype} and {e.dtype}")
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        raise ValueError(f"eigh_tridiagonal: d (n,) and e (n - 1,) expected, got {d.shape} and {e.shape}")
    if select == "v":
        raise NotImplementedError("eigh_tridiagonal(..., select='v') is not implemented")
    if select not in ("a", "i"):
        raise ValueError("'select must have a value in {'a', 'i', 'v'}.")
    chosen = slice(None)
    if select == "i":
        if select_range is None or select_range[0] > select_range[1]:
            raise ValueError(f"for select='i', select_range must be (first, last), got {select_range}")
        chosen = slice(select_range[0], select_range[1] + 1)
    d = jnp.real(d).astype(d.dtype)
    full = jnp.diag(d) + jnp.diag(e, -1) + jnp.diag(jnp.conj(e), 1)
    if eigvals_only:
        return S.eigvalsh(full, symmetrize_input=False)[chosen]
    v, w = S.eigh(full, symmetrize_input=False)
    return w[chosen], v[:, chosen]


def schur(a, output="real"):
    """(T, Z) with a = Z T Z^H: T upper triangular for output "complex", with 2x2 blocks on its diagonal for "real". No derivative."""
    if output not in ("real", "complex"):
        raise ValueError(f"Expected 'output' to be either 'real' or 'complex', got output={output!r}.")
    (a,) = _inexact("schur", a)
    return S.schur(jnp.asarray(a, jnp.promote_types(a.dtype, jnp.complex64)) if output == "complex" else a)


def hessenberg(a, *, calc_q=False, overwrite_a=False, check_finite=True):
    """H, or (H, Q), with a = Q H Q^H and H zero below its first subdiagonal. It has no derivative."""
    (a,) = _inexact("hessenberg", a)
    h, taus = S.hessenberg(a)
    form = X.triu(h, -1)
    if not calc_q:
        return form
    q = S.householder_product(h[..., 1:, :-1], taus) if a.shape[-1] else h
    corner = [(0, 0)] * (a.ndim - 2) + [(1, 0), (1, 0)]
    return form, (jnp.pad(q, corner).at[..., 0, 0].set(1) if a.shape[-1] else q)
