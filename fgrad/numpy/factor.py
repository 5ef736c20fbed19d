"""Factorizations of matrices, and what they solve: the part of numpy.linalg that needs LAPACK.

Arguments are batches (..., m, n); integers become floats.
"""

import functools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad.api.custom import custom_jvp
from fgrad.api.custom_vmap import custom_vmap
from fgrad.api.derivatives import jvp
from fgrad.api.vmap import vmap
from fgrad.compile.eager import eager
from fgrad.control.cond import cond as branch
from fgrad.control.linear_solve import custom_linear_solve
from fgrad.core import get_aval
from fgrad.lax.misc import stop_gradient
from fgrad.numpy import manipulation as M
from fgrad.numpy import reductions as R
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import array, asarray, zeros
from fgrad.numpy.indexing import take_along_axis
from fgrad.numpy.products import matmul
from fgrad.numpy.selection import where
from fgrad.numpy.sorting import argsort, sort
from fgrad.numpy.util import as_array, broadcast_shape, promote_dtypes_inexact, spread, unary
from fgrad.ops import elementwise as E
from fgrad.ops import linalg as L
from fgrad.ops import matrix as X
from fgrad.ops import spectral as S

__all__ = [
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensorinv", "tensorsolve",
]  # fmt: skip


class EigResult(NamedTuple):
    """What eig gives."""

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """What eigh gives."""

    eigenvalues: Any
    eigenvectors: Any


class QRResult(NamedTuple):
    """What qr gives."""

    Q: Any
    R: Any


class SVDResult(NamedTuple):
    """What svd gives."""

    U: Any
    S: Any
    Vh: Any


class SlogdetResult(NamedTuple):
    """What slogdet gives."""

    sign: Any
    logabsdet: Any


def _square(name, a):
    x = unary(name, a, inexact=True)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"Argument to {name} must have shape [..., n, n], got {x.shape}.")
    return x


# --- systems ------------------------------------------------------------------------------------------------------------


@eager(2)
def solve(a, b):
    """x with a x = b, for square matrices a (..., n, n) and b (n,) or (..., n, k), by LU with pivoting.

    Its derivatives use the same factorization once more. Where a is singular the result has infinities or NaN.

    >>> import fgrad.numpy as jnp
    >>> jnp.linalg.solve(jnp.array([[2., 0.], [0., 4.]]), jnp.array([2., 2.]))
    Array([1. , 0.5], dtype=float32)
    """
    a, b = promote_dtypes_inexact(as_array("solve", a), as_array("solve", b, 1))
    if a.ndim < 2:
        raise ValueError(f"left hand array must be at least two dimensional; got a.shape={a.shape}")
    if a.shape[-1] != a.shape[-2] or not b.ndim or b.shape[-2 if b.ndim > 1 else 0] != a.shape[-1]:
        raise ValueError(f"The arguments to solve must have shapes a=[..., m, m] and b=[..., m, k] or b=[m]; got {a.shape} and {b.shape}")
    if b.ndim == 1:
        return _solve(a, spread(b[:, None], (*a.shape[:-2], b.shape[0], 1)))[..., 0]
    batch = broadcast_shape(a.shape[:-2], b.shape[:-2])
    if a.ndim == 2 and batch:  # one matrix: all right-hand sides stand side by side
        wide = M.moveaxis(b, -2, 0)
        return M.moveaxis(_solve(a, wide.reshape(a.shape[0], -1)).reshape(wide.shape), 0, -2)
    return _solve(spread(a, (*batch, *a.shape[-2:])), spread(b, (*batch, *b.shape[-2:])))


def _solve(a, b):
    factors, _, order = L.lu(stop_gradient(a))
    out = custom_linear_solve(
        lambda x: X.mm(a, x),
        b,
        solve=lambda _, r: L.lu_solve(factors, order, r),
        transpose_solve=lambda _, r: L.lu_solve(factors, order, r, trans=1),
    )
    return E.convert_element_type(out, out.dtype, get_aval(a).weak_type and get_aval(b).weak_type)


@eager(1)
def inv(a):
    """The inverses of square matrices (..., n, n)."""
    x = _square("inv", a)
    return _solve(x, X.eye_like(x))


@eager(1)
def cholesky(a, *, upper=False, symmetrize_input=True):
    """The lower triangular L with a = L L^H, or upper its conjugate transpose, of Hermitian positive definite matrices.

    NaN where a matrix is not positive definite. symmetrize_input: take (a + a^H) / 2, else only the lower triangle is read.
    """
    low = L.cholesky(_square("cholesky", a), symmetrize_input=symmetrize_input)
    return X.mH(low) if upper else low


# --- determinants -------------------------------------------------------------------------------------------------------


def _sign_of_pivots(pivots):
    """-1 for each row that was swapped."""
    swapped = U.not_equal(pivots, np.arange(pivots.shape[-1], dtype=np.int32))
    return 1 - 2 * (R.sum(swapped, -1, np.int32) % 2)


@custom_jvp
def _slogdet(x):
    lu, pivots, _ = L.lu(x)
    diag = X.diagonal(lu)
    size = U.absolute(diag)
    singular = R.any(diag == 0, -1)
    sign = R.prod(U.sign(diag), -1) * _sign_of_pivots(pivots).astype(x.dtype)
    log = R.sum(U.log(size), -1)
    return where(singular, array(0, sign.dtype), sign), where(singular, array(-np.inf, log.dtype), log)


@_slogdet.defjvp
def _slogdet_jvp(primals, tangents):
    """d log det A = tr(A^-1 dA): its real part moves the logarithm, its imaginary part turns the sign."""
    (x,), (t,) = primals, tangents
    sign, log = _slogdet(x)
    trace = R.sum(X.diagonal(_solve(x, t)), -1)
    if x.dtype.kind != "c":
        return (sign, log), (R.sum(X.diagonal(t), -1) * 0, trace)
    return (sign, log), ((trace - U.real(trace).astype(trace.dtype)) * sign, U.real(trace))


def slogdet(a, *, method=None):
    """(sign, logarithm of the absolute value) of the determinants of square matrices; (0, -inf) where they are singular.

    method: None or "lu"; "qr" gives the same.
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and 'qr'.")
    return SlogdetResult(*_slogdet_eager(a))


@eager(1)
def _slogdet_eager(a):
    x = _square("slogdet", a)
    return tuple((_slogdet_small if 0 < x.shape[-1] <= 3 and x.dtype.kind == "f" else _slogdet)(x))


def _slogdet_small(x):
    """The determinant of real matrices written out; rows, then columns are divided by their largest element: products stay in range."""
    n = x.shape[-1]
    rows = [[x[..., i, j] for j in range(n)] for i in range(n)]
    scales = []
    for _ in range(2):
        for i, row in enumerate(rows):
            most = functools.reduce(U.maximum, [U.absolute(stop_gradient(v)) for v in row])
            scales.append(where(most == 0, array(1, x.dtype), most))
            rows[i] = [v / scales[-1] for v in row]
        rows = [list(column) for column in zip(*rows)]
    det = _written_out(lambda i, j: rows[i][j], n)
    return U.sign(det), functools.reduce(U.add, [U.log(s) for s in scales], U.log(U.absolute(det)))


def _written_out(at, n):
    """The determinant of 1 to 3 rows with the elements at(i, j)."""
    if n == 1:
        return at(0, 0)
    if n == 2:
        return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0)
    plus = at(0, 0) * at(1, 1) * at(2, 2) + at(0, 1) * at(1, 2) * at(2, 0) + at(0, 2) * at(1, 0) * at(2, 1)
    return plus - at(0, 2) * at(1, 1) * at(2, 0) - at(0, 0) * at(1, 2) * at(2, 1) - at(0, 1) * at(1, 0) * at(2, 2)


def _adjugate_solve(a, b):
    """(det(a), det(a) a^-1 b), finite where a has rank n - 1 too: U's last element, which may be 0, is never divided by."""
    n = a.shape[-1]
    lu, pivots, order = L.lu(a)
    sign = _sign_of_pivots(pivots).astype(a.dtype)
    minors = R.cumprod(X.diagonal(lu), -1) * sign[..., None]
    lu = lu.at[..., n - 1, n - 1].set(1 / minors[..., n - 2])
    triangle = lambda v, lower: L.triangular_solve(lu, v, left_side=True, lower=lower, unit_diagonal=lower)
    # Of rank below n - 1 the adjugate is zero, and the solves would divide by zero.
    test = triangle(X.as_columns(minors[..., :1], (*a.shape[:-2], 1, 1)) * 0 + array(np.ones((n, 1)), a.dtype), False)
    lost = ~R.all(U.isfinite(test), (-2, -1), keepdims=True)
    y = triangle(X.permute_rows(where(lost, array(0, b.dtype), b), order), True)
    y = M.concatenate([y[..., : n - 1, :] * minors[..., n - 1 :, None], y[..., n - 1 :, :]], -2)
    return minors[..., n - 1], where(lost, array(0, b.dtype), triangle(y, False))


@custom_jvp
def _det(x):
    lu, pivots, _ = L.lu(x)
    return R.prod(X.diagonal(lu), -1) * _sign_of_pivots(pivots).astype(x.dtype)


@_det.defjvp
def _det_jvp(primals, tangents):
    """d det A = tr(adj(A) dA)."""
    (x,), (t,) = primals, tangents
    det, moved = _adjugate_solve(x, t)
    return det, R.sum(X.diagonal(moved), -1)


@eager(1)
def det(a):
    """The determinants of square matrices (..., n, n). Gradients are right for matrices of rank n - 1, too.

    >>> import fgrad.numpy as jnp
    >>> jnp.linalg.det(jnp.array([[1., 2.], [3., 4.]]))
    Array(-2., dtype=float32)
    """
    x = _square("det", a)
    n = x.shape[-1]
    if n == 0:
        return spread(array(1, x.dtype), x.shape[:-2])
    return _written_out(lambda i, j: x[..., i, j], n) if n <= 3 else _det(x)


# --- decompositions -----------------------------------------------------------------------------------------------------


def qr(a, mode="reduced"):
    """(Q, R) with a = Q R: Q's columns are orthonormal, R is upper triangular.

    mode: "reduced" (Q (..., m, k), R (..., k, n), k = min(m, n)), "complete" ((..., m, m), (..., m, n)), "r" (R alone), "raw" (the
    Householder vectors, transposed, and their factors).
    """
    x = unary("qr", a, inexact=True)
    if mode == "raw":
        packed, taus = S.geqrf(x)
        return QRResult(M.matrix_transpose(packed), taus)
    if mode not in ("reduced", "r", "full", "complete"):
        raise ValueError(f"Unsupported QR decomposition mode '{mode}'")
    q, r = S.qr(x, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(a, full_matrices=True, compute_uv=True, hermitian=False, subset_by_index=None):
    """(U, S, Vh) with a = U * S @ Vh, S descending; S alone with compute_uv=False.

    full_matrices: U (..., m, m) and Vh (..., n, n), else with k = min(m, n) columns and rows; only the latter, or square matrices, have
    derivatives. hermitian: a is Hermitian, and its eigenvalues are used.
    """
    x = unary("svd", a, inexact=True)
    if not hermitian:
        out = S.svd(x, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index)
        return SVDResult(*out) if compute_uv else out
    if not compute_uv:
        return M.flip(sort(U.absolute(S.eigvalsh(_square("svd", x))), -1), -1)
    v, w = S.eigh(_square("svd", x), subset_by_index=subset_by_index)
    order = M.flip(argsort(U.absolute(w), -1), -1)
    w, u = take_along_axis(w, order, -1), take_along_axis(v, order[..., None, :], -1)
    return SVDResult(u, U.absolute(w), X.mH(u * U.sign(w)[..., None, :].astype(u.dtype)))


def svdvals(x, /):
    """The singular values (..., min(m, n)), descending."""
    return svd(x, compute_uv=False)


def _lower(name, UPLO):
    if UPLO not in (None, "L", "U"):
        raise ValueError(f"{name}: UPLO must be one of None, 'L', or 'U', got {UPLO}")
    return UPLO != "U"


def eigh(a, UPLO=None, symmetrize_input=True):
    """(real ascending eigenvalues, orthonormal eigenvectors as columns) of Hermitian matrices (..., n, n).

    symmetrize_input: take (a + a^H) / 2, else only the triangle UPLO ("L" or "U") is read.
    """
    v, w = S.eigh(unary("eigh", a, inexact=True), lower=_lower("eigh", UPLO), symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a, UPLO="L", *, symmetrize_input=True):
    """The eigenvalues that eigh gives."""
    return S.eigvalsh(unary("eigvalsh", a, inexact=True), lower=_lower("eigvalsh", UPLO), symmetrize_input=symmetrize_input)


def eig(a):
    """(eigenvalues, eigenvectors as columns) of general square matrices, complex. The vectors have no derivatives (see lax.linalg.eig)."""
    return EigResult(*S.eig(unary("eig", a, inexact=True), compute_left_eigenvectors=False))


def eigvals(a):
    """The complex eigenvalues of general square matrices, in LAPACK's order."""
    return S.eig(unary("eigvals", a, inexact=True), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


# --- what singular values tell --------------------------------------------------------------------------------------------


def _one_of(name, rtol, other, alias):
    if rtol is not None and other is not None:
        raise ValueError(f"{name}: only one of {alias} or rtol may be specified.")
    return other if rtol is None else rtol


@eager(1)
def matrix_rank(M, rtol=None, *, hermitian=False, tol=None):
    """How many singular values exceed rtol (by default S.max() * max(m, n) * eps); of scalars and vectors: whether one is nonzero."""
    rtol = _one_of("matrix_rank", rtol, tol, "tol")
    x = unary("matrix_rank", M, inexact=True)
    if x.ndim < 2:
        return R.any(x != 0).astype(np.int32)
    s = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if rtol is None:
        bound = R.max(s, -1, keepdims=True, initial=0) * array(max(x.shape[-2:]) * dtypes.finfo(s.dtype).eps, s.dtype)
    else:
        bound = asarray(rtol)[..., None]
    return R.sum(s > bound, -1)


def _pinv_primal(x, rtol, hermitian):
    m, n = x.shape[-2:]
    if not m or not n:
        return zeros((*x.shape[:-2], n, m), x.dtype)
    if rtol is None:
        rtol = 10.0 * max(m, n) * float(dtypes.finfo(x.dtype).eps)
    u, s, vh = svd(U.conj(x), full_matrices=False, hermitian=hermitian)
    cutoff = asarray(rtol)[..., None] * s[..., :1]
    s = where(s > cutoff, s, array(np.inf, s.dtype)).astype(u.dtype)
    return matmul(M.matrix_transpose(vh), M.matrix_transpose(u) / s[..., None]).astype(x.dtype)


def _pinv(x, rtol, hermitian):
    @custom_jvp
    def f(x):
        return _pinv_primal(x, rtol, hermitian)

    @f.defjvp
    def jvp(primals, tangents):
        """Golub and Pereyra, SIAM J. Numer. Anal. 10 (1973), 4.12; products in the order that keeps them small."""
        (a,), (t,) = primals, tangents
        p = f(a)
        if hermitian:
            a, t = X.symmetrized(a), X.symmetrized(t)
        mm, ph, th = X.mm, X.mH(p), X.mH(t)
        if a.shape[-2] >= a.shape[-1]:
            first, second, moved = mm(mm(p, ph), th), mm(mm(th, ph), p), mm(mm(p, t), p)
            left, right = mm(mm(first, a), p), mm(mm(p, a), second)
        else:
            first, second, moved = mm(p, mm(ph, th)), mm(th, mm(ph, p)), mm(p, mm(t, p))
            left, right = mm(first, mm(a, p)), mm(p, mm(a, second))
        return p, first - moved - left + second - right

    return f(x)


@eager(1)
def pinv(a, rtol=None, hermitian=False, *, rcond=None):
    """The Moore-Penrose inverses (..., n, m) of matrices (..., m, n).

    Singular values up to rtol (default 10 max(m, n) eps) times the greatest count as zero. The derivative holds where the rank does
    not change.
    """
    rtol = _one_of("pinv", rtol, rcond, "rcond")
    return _pinv(unary("pinv", a, inexact=True), rtol, bool(hermitian))


def _by_values(a, b, rcond):
    """lstsq's (x, rank, singular values) by a's singular values and vectors."""
    u, s, vh = svd(a, full_matrices=False)
    kept = (s > 0) & (s >= rcond * s[0])
    inverse = where(kept, 1 / where(kept, s, array(1, s.dtype)), array(0, s.dtype)).astype(a.dtype)
    return matmul(X.mH(vh), inverse[:, None] * matmul(X.mH(u), b)), R.sum(kept), s


@custom_vmap
def _by_solving(r, c, rcond):
    """x and rank of a triangle: a solve where the norms of it and of its inverse, which bound its singular values, say that all count."""
    n, k = c.shape
    solved = L.triangular_solve(r, M.concatenate([c, X.eye_like(r)], axis=1), left_side=True)
    all_count = matrix_norm_of(r, None) * matrix_norm_of(solved[:, k:], None) * rcond <= 1  # False where one of them is NaN
    return branch(all_count, lambda x: (x, array(n)), lambda x: _by_values(r, c, rcond)[:2], solved[:, :k])


@_by_solving.def_vmap
def _by_solving_batch(size, batched, *args):
    """Of a batch, whose matrices would take both branches, by singular values."""
    return vmap(_by_values, [0 if b else None for b in batched])(*args)[:2], (True, True)


def _triangle(a, b):
    """The triangle of a, which is at least as tall as wide, and Q^H b: that of both side by side holds them, so Q is not made."""
    n = a.shape[1]
    r = qr(M.concatenate([a, b], axis=1), mode="r")
    return r[:n, :n], r[:n, n:]


@custom_vmap
def _solved(a, b, rcond):
    return _by_solving(*_triangle(a, b), rcond)


@_solved.def_vmap
def _solved_batch(size, batched, a, b, rcond):
    """What a batch has on the right of one matrix are columns."""
    if batched != [False, True, False]:
        each = vmap(lambda a, b, rcond: _by_solving(*_triangle(a, b), rcond), [0 if b else None for b in batched])
        return each(a, b, rcond), (True, True)
    (m, n), k = a.shape, b.shape[-1]
    x, rank, _ = _by_values(a, M.moveaxis(b, 0, 1).reshape(m, size * k), rcond)
    return (M.moveaxis(x.reshape(n, size, k), 1, 0), rank), (True, False)


@custom_vmap
def _values(a, b):
    return svdvals(_triangle(a, b)[0])


@_values.def_vmap
def _values_batch(size, batched, a, b):
    return (vmap(svdvals)(a), True) if batched[0] else (svdvals(a), False)


# A triangle's own derivative asks that b be no combination of a's columns.


@custom_jvp
def _by_triangle(a, b, rcond):
    return _solved(a, b, rcond)


@custom_jvp
def _triangle_values(a, b):
    return _values(a, b)


@_by_triangle.defjvp
def _by_triangle_jvp(primals, tangents):
    return jvp(lambda *args: _by_values(*args)[:2], primals, tangents)


@_triangle_values.defjvp
def _triangle_values_jvp(primals, tangents):
    return jvp(svdvals, primals[:1], tangents[:1])


@eager(2)
def lstsq(a, b, rcond=None, *, numpy_resid=False):
    """(x, residuals, rank, singular values of a): x of least norm among those of least |a x - b|, by singular values.

    a: (m, n), b: (m,) or (m, k). Singular values below rcond (default eps max(m, n)) times the greatest count as zero. The residuals
    are given always, or with numpy_resid as in NumPy (empty where a has not full rank or m <= n), for which a must be concrete.
    """
    a, b = promote_dtypes_inexact(as_array("lstsq", a), as_array("lstsq", b, 1))
    if not a.ndim or not b.ndim or a.shape[0] != b.shape[0]:
        raise ValueError(f"lstsq: Leading dimensions of input arrays must match, got shapes {a.shape} and {b.shape}")
    if a.ndim != 2:
        raise TypeError(f"{a.ndim}-dimensional array given. Array must be two-dimensional")
    if b.ndim > 2:
        raise TypeError(f"{b.ndim}-dimensional array given. Array must be one or two-dimensional")
    (m, n), vector = a.shape, b.ndim == 1
    b = b[:, None] if vector else b
    if not a.size:
        x, rank, s = zeros((n, b.shape[1]), a.dtype), array(0), zeros(0, dtypes.to_real(a.dtype))
    else:
        eps = float(dtypes.finfo(a.dtype).eps)
        rcond = asarray(eps * max(m, n) if rcond is None else where(asarray(rcond) < 0, eps, rcond)).astype(dtypes.to_real(a.dtype))
        if m >= n and b.shape[1] <= n:
            (x, rank), s = _by_triangle(a, b, rcond), _triangle_values(a, b)
        else:
            x, rank, s = _by_values(a, b, rcond)
    if numpy_resid and (m <= n or int(rank) < n):
        resid = zeros(0, s.dtype)
    else:
        rest = U.absolute(b - matmul(a, x))
        resid = R.sum(rest * rest, 0)
    return (x[:, 0] if vector else x), resid, rank, s


@eager(1)
def cond(x, p=None):
    """How ill-conditioned matrices are: the ratio of the greatest and least singular value (p None or 2, or -2 its inverse), or
    norm(x, p) norm(inv(x), p), for square matrices and the other orders of norm."""
    from_norm = p not in (None, 2, -2)
    a = unary("cond", x, inexact=True)
    if a.ndim < 2 or 0 in a.shape[-2:]:
        raise ValueError(f"cond takes matrices (..., m, n) that are not empty, got shape {a.shape}")
    if not from_norm:
        s = svdvals(a)
        r = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        return r if p != -2 else _infinite_for_nan(r, a)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"cond: for p={p!r}, array must be square; got shape {a.shape}")
    return _infinite_for_nan(matrix_norm_of(a, p) * matrix_norm_of(inv(a), p), a)


def _infinite_for_nan(r, a):
    """Infinity where r is NaN but the matrix is not."""
    return where(U.isnan(r) & ~R.any(U.isnan(a), (-2, -1)), array(np.inf, r.dtype), r)


def matrix_norm_of(x, ord, axes=(-2, -1), keepdims=False):
    """The norms of matrices that lie along two axes; see linalg.norm for the orders."""
    row, column = (d % x.ndim for d in axes)
    if ord is None or ord in ("f", "fro"):
        return U.sqrt(R.sum(E.real(E.mul(x, E.conj(x))) if x.dtype.kind == "c" else E.square(x), (row, column), keepdims=keepdims))
    if ord in (1, -1, np.inf, -np.inf):
        summed, kept = (row, column) if abs(ord) == 1 else (column, row)
        totals = R.sum(U.absolute(x), summed, keepdims=True)
        if ord > 0:
            return R.max(totals, (summed, kept), keepdims=keepdims, initial=0)
        return R.min(totals, (summed, kept), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        s = svdvals(M.moveaxis(x, (row, column), (-2, -1)))
        out = R.sum(s, -1) if ord == "nuc" else R.max(s, -1, initial=0) if ord == 2 else R.min(s, -1)
        return M.expand_dims(out, tuple(sorted((row, column)))) if keepdims else out
    raise ValueError(f"Invalid order '{ord}' for matrix norm.")


# --- tensors ------------------------------------------------------------------------------------------------------------


def tensorinv(a, ind=2):
    """The inverse of a as a linear map from its last axes to its first `ind` ones."""
    x = unary("tensorinv", a, inexact=True)
    ind = operator.index(ind)
    if ind <= 0:
        raise ValueError(f"ind must be a positive integer; got ind={ind!r}")
    first, last = x.shape[:ind], x.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ValueError(f"tensorinv needs equal products of the first {ind} and of the other dimensions, got shape {x.shape}")
    return inv(x.reshape(math.prod(first), -1)).reshape(*last, *first)


def tensorsolve(a, b, axes=None):
    """x with tensordot(a, x, x.ndim) = b; `axes` of a are moved to its end first."""
    x, y = as_array("tensorsolve", a), as_array("tensorsolve", b, 1)
    if axes is not None:
        x = M.moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    out_shape = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or y.size != math.prod(out_shape):
        raise ValueError(f"tensorsolve: a's first dimensions must be b's, and their product that of the rest; got {x.shape}, {y.shape}")
    return solve(x.reshape(y.size, y.size), y.reshape(-1)).reshape(out_shape)
