"""The jax.lax.linalg surface: factorizations of batches of matrices (..., m, n), by LAPACK.

All take float32, float64, complex64 and complex128. A matrix that LAPACK cannot factor (not positive definite, without convergence)
gives NaN, and the rest of its batch what it gives alone.
"""

from fgrad.core import get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, conj, like, mul, sign
from fgrad.ops.linalg import (
    cholesky,
    cholesky_p,
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
    triangular_solve,
    triangular_solve_p,
    tridiagonal_solve,
    tridiagonal_solve_p,
)
from fgrad.ops.matrix import as_columns, diagonal, mH, mm, mT, tril
from fgrad.ops.shape import concatenate, expand_dims, pad
from fgrad.ops.spectral import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    eig,
    eig_p,
    eigh,
    eigh_p,
    geqp3_p,
    geqrf,
    geqrf_p,
    hessenberg,
    hessenberg_p,
    householder_product,
    householder_product_p,
    qr,
    qr_p,
    schur,
    schur_p,
    svd,
    svd_p,
    tridiagonal,
    tridiagonal_p,
)


def cholesky_update(r_matrix, w_vector):
    """The upper triangular R' with R'^T R' = R^T R + w w^T, for upper triangular R (..., n, n) and w (..., n).

    R' is the triangle of the QR factorization of R with w below it, with the signs of R's diagonal.
    """
    n = get_aval(r_matrix).ndim
    _, out = qr(concatenate([r_matrix, expand_dims(w_vector, (n - 2,))], n - 2), full_matrices=False)
    signs = mul(sign(diagonal(out)), sign(diagonal(r_matrix)))
    return mul(out, as_columns(conj(signs) if get_aval(out).dtype.kind == "c" else signs, get_aval(out).shape))


def symmetric_product(a_matrix, c_matrix, *, alpha=1.0, beta=0.0, symmetrize_output=False):
    """alpha a a^T + beta c, for a (..., m, n) and symmetric c (..., m, m); symmetrize_output copies the lower triangle up."""
    a, c = get_aval(a_matrix), get_aval(c_matrix)
    if a.ndim < 2 or c.shape != (*a.shape[:-1], a.shape[-2]):
        raise ShapeError(f"symmetric_product takes a (..., m, n) and c (..., m, m), got {a.shape} and {c.shape}")
    out = add(mul(mm(a_matrix, mT(a_matrix)), like(a_matrix, alpha)), mul(c_matrix, like(c_matrix, beta)))
    return add(tril(out), mT(tril(out, -1))) if symmetrize_output else out


def ormqr(a, taus, c, *, left=True, transpose=False):
    """Q c or c Q (left=False), with the square Q whose Householder vectors are a (..., m, n) and taus (..., k); transpose: with Q^H."""
    av = get_aval(a)
    m, n = av.shape[-2:]
    square = pad(a, like(a, 0), [(0, 0, 0)] * (av.ndim - 1) + [(0, m - n, 0)])
    q = householder_product(square, taus)
    q = mH(q) if transpose else q
    return mm(q, c) if left else mm(c, q)


__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqp3_p",
    "geqrf",
    "geqrf_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "symmetric_product",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
