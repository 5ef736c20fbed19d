"""QR, eigenvalue and singular value decompositions.

Derivatives: Giles, An extended collection of matrix derivative results (2008), section 3 (eigenvalues and singular values); Walter and
Lehmann, https://arxiv.org/abs/1001.1654, and Townsend, Differentiating the QR decomposition (2018) (QR); Roberts and Roberts,
https://arxiv.org/abs/2009.10071 (wide QR); https://arxiv.org/abs/2409.13374 (complete QR). They hold where eigenvalues and singular
values are distinct, and are NaN or infinite where they are not, as in JAX.
"""

import enum

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, get_aval
from fgrad.errors import NotDifferentiableError, ShapeError
from fgrad.ops.argreduce import argmax
from fgrad.ops.elementwise import (
    abs,
    add,
    complex_,
    conj,
    convert_element_type,
    div,
    eq,
    imag,
    integer_pow,
    like,
    mul,
    neg,
    real,
    select,
    sub,
)
from fgrad.ops.linalg import lu, lu_solve, solve, triangular_solve
from fgrad.ops.matrix import (
    as_columns,
    as_rows,
    check_batches,
    check_matrices,
    diagonal,
    eye_like,
    is_complex,
    matrix_primitive,
    mH,
    mm,
    mT,
    permute_columns,
    real_part,
    refuse_jvp,
    symmetrized,
    tril,
    triu,
)
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import bdim_at_front, full, zero_of
from fgrad.ops.shape import broadcasted_iota, concatenate, pad, slice_in_dim

_NO_RULE = "JAX has none either. Use qr, eigh, svd or eigvals, which have one."

# --- Householder reflectors and QR --------------------------------------------------------------------------------------


def _geqrf_shapes(batch, m, n, dtype):
    return [((*batch, m, n), dtype), ((*batch, min(m, n)), dtype)]


def _geqp3_shapes(batch, m, n, dtype):
    return [((*batch, m, n), dtype), ((*batch, n), dtypes.INT32), ((*batch, min(m, n)), dtype)]


def _geqp3_empty(x):
    *batch, m, n = get_aval(x).shape
    return [x, broadcasted_iota(np.int32, (*batch, n), len(batch)), full((*batch, 0), 0, get_aval(x).dtype)]


geqrf_p = matrix_primitive("geqrf", _geqrf_shapes)
geqp3_p = matrix_primitive("geqp3", _geqp3_shapes, empty=_geqp3_empty)
refuse_jvp(geqrf_p, _NO_RULE)
refuse_jvp(geqp3_p, _NO_RULE)


def geqrf(x):
    """(a, taus) of matrices (..., m, n): R in a's upper triangle, Householder vectors below it, their factors in taus (..., k)."""
    return tuple(geqrf_p.bind(x))


def _householder_aval(a, taus):
    check_matrices("householder_product", a)
    check_batches("householder_product", (a, 2), (taus, 1))
    if a.shape[-1] > a.shape[-2] or taus.shape[-1] > a.shape[-1]:
        raise ShapeError(f"householder_product takes a (..., m, n) and taus (..., k) with k <= n <= m, got {a.shape} and {taus.shape}")
    return a.strong()


def _householder_batch(axis, args, dims):
    return householder_product_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)]), 0


householder_product_p = Primitive("householder_product", abstract_eval=_householder_aval, batch=_householder_batch)
householder_product_p.lower = lambda ctx, ins, params, out_avals: ctx.kernel("householder", ins, out_avals)[0]
refuse_jvp(householder_product_p, _NO_RULE)


def householder_product(a, taus):
    """The first n columns of the product of the Householder reflectors in a (..., m, n) and taus (..., k), as geqrf gives them."""
    return householder_product_p.bind(a, taus)


def _qr_shapes(batch, m, n, dtype, *, full_matrices, pivoting):
    k = m if full_matrices else min(m, n)
    return [((*batch, m, k), dtype), ((*batch, k, n), dtype), *([((*batch, n), dtypes.INT32)] if pivoting else [])]


def _qr_compose(x, *, full_matrices, pivoting):
    *batch, m, n = get_aval(x).shape
    k = m if full_matrices else min(m, n)
    if not m or not n:
        return [eye_like(x, m, k), full((*batch, k, n), 0, get_aval(x).dtype), *_geqp3_empty(x)[1:2]][: 2 + pivoting]
    order = []
    if pivoting:
        a, *order, taus = geqp3_p.bind(x)
    else:
        a, taus = geqrf_p.bind(x)
    if m < n:
        q = slice_in_dim(a, 0, m, axis=-1)
    else:
        q = pad(a, like(a, 0), [(0, 0, 0)] * (len(batch) + 1) + [(0, k - n, 0)])
        a = slice_in_dim(a, 0, k, axis=-2)
    return [householder_product_p.bind(q, taus), triu(a), *order]


def _thin_qr_jvp(q, r, t):
    """dQ and dR of x = QR with m >= n: with S = Q^H dX R^-1, dQ = Q (W - S) + dX R^-1, dR = (S - W) R, W skew-Hermitian."""
    solved = triangular_solve(r, t)
    s = mm(mH(q), solved)
    low = tril(s, -1)
    skew = sub(low, mH(low))
    if is_complex(s):  # R's diagonal stays real
        skew = add(skew, mul(eye_like(s), sub(s, convert_element_type(real(s), get_aval(s).dtype))))
    return add(mm(q, sub(skew, s)), solved), mm(sub(s, skew), r)


def _complete_qr_jvp(q, dq_thin, n):
    """dQ of the complete Q (m, m), from that of its first n columns."""
    m = get_aval(q).shape[-2]
    thin, rest = slice_in_dim(q, 0, n, axis=-1), slice_in_dim(q, n, m, axis=-1)
    top, bottom = slice_in_dim(thin, 0, n, axis=-2), slice_in_dim(thin, n, m, axis=-2)
    dtop, dbottom = slice_in_dim(dq_thin, 0, n, axis=-2), slice_in_dim(dq_thin, n, m, axis=-2)
    factors, _, order = lu(sub(top, eye_like(top)))
    zh = lu_solve(factors, order, mH(bottom), trans=2)
    z = mH(zh)
    drest = sub(mm(dq_thin, zh), mm(add(thin, mm(rest, z)), mH(sub(dbottom, mm(z, dtop)))))
    return concatenate([dq_thin, drest], get_aval(q).ndim - 1)


def _qr_jvp(primals, tangents, *, full_matrices, pivoting):
    (x,), (t,) = primals, tangents
    q, r, *order = qr_p.bind(x, full_matrices=full_matrices, pivoting=pivoting)
    *batch, m, n = get_aval(x).shape
    if pivoting:
        x, t = permute_columns(x, order[0]), permute_columns(t, order[0])
    if m < n:  # x = [x1, x2] = Q [r1, r2], with x1 square
        part = lambda v, square: slice_in_dim(v, 0, m, axis=-1) if square else slice_in_dim(v, m, n, axis=-1)
        dq, dr = _thin_qr_jvp(q, part(r, True), part(t, True))
        dr = concatenate([dr, add(mm(mH(dq), part(x, False)), mm(mH(q), part(t, False)))], len(batch) + 1)
    elif not full_matrices or m == n:
        dq, dr = _thin_qr_jvp(q, r, t)
    else:
        dq, dr = _thin_qr_jvp(slice_in_dim(q, 0, n, axis=-1), slice_in_dim(r, 0, n, axis=-2), t)
        dq = _complete_qr_jvp(q, dq, n)
        dr = pad(dr, like(dr, 0), [(0, 0, 0)] * len(batch) + [(0, m - n, 0), (0, 0, 0)])
    return [q, r, *order], [dq, dr, *map(zero_of, order)]


qr_p = matrix_primitive("qr", _qr_shapes)
qr_p.jvp = _qr_jvp
qr_p.lower = lambda ctx, ins, params, out_avals: ctx.compose(lambda x: _qr_compose(x, **params), ins)


def qr(x, *, pivoting=False, full_matrices=True, use_magma=None):
    """(q, r) with x = q r, q's columns orthonormal and r upper triangular, of matrices (..., m, n).

    full_matrices: q (..., m, m) and r (..., m, n), else (..., m, k) and (..., k, n) with k = min(m, n). pivoting: (q, r, p) with
    x[..., p] = q r and r's diagonal descending; p (..., n) is int32.
    """
    return tuple(qr_p.bind(x, full_matrices=bool(full_matrices), pivoting=bool(pivoting)))


# --- Hermitian eigenvalues ----------------------------------------------------------------------------------------------


def _eigh_shapes(batch, m, n, dtype, *, lower, vectors):
    values = ((*batch, n), dtypes.to_real(dtype))
    return [((*batch, n, n), dtype), values] if vectors else [values]


def _inverse_gaps(w):
    """1 / (w_j - w_i) off the diagonal, 0 on it."""
    square = (*get_aval(w).shape, get_aval(w).shape[-1])
    gaps = sub(as_rows(w, square), as_columns(w, square))
    eye = eye_like(gaps)
    return sub(integer_pow(add(eye, gaps), -1), eye)


def _eigh_jvp(primals, tangents, *, lower, vectors):
    """dw = diag(V^H dA V), dV = V (F * V^H dA V) with F = 1 / (w_j - w_i)."""
    (x,), (t,) = primals, tangents
    v, w = eigh_p.bind(x, lower=lower, vectors=True)
    p = mm(mm(mH(v), t), v)
    dw = diagonal(real_part(p))
    if not vectors:
        return [w], [dw]
    gaps = _inverse_gaps(convert_element_type(w, get_aval(v).dtype))
    return [v, w], [mm(v, mul(gaps, p)), dw]


eigh_p = matrix_primitive(
    "eigh",
    _eigh_shapes,
    square=True,
    kernel=lambda lower, vectors: "eigh" if vectors else "eigvalsh",
    ip=lambda lower, vectors: (int(lower),),
)
eigh_p.jvp = _eigh_jvp


class EighImplementation(enum.Enum):
    """Accepted wherever JAX takes one; there is one implementation, LAPACK's divide and conquer."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


def _no_subset(name, subset, n):
    if subset is not None and tuple(subset) != (0, n):
        raise NotImplementedError(f"{name}: subset_by_index={subset} is not supported; slice the complete results")


def eigh(x, *, lower=True, symmetrize_input=True, sort_eigenvalues=True, subset_by_index=None, implementation=None):
    """(v, w) with x v = v * w, of Hermitian matrices (..., n, n): orthonormal columns v, real ascending w (..., n).

    symmetrize_input: take (x + x^H) / 2, else only one triangle is read, the lower one or the upper one.
    """
    check_matrices("eigh", get_aval(x), square=True)
    _no_subset("eigh", subset_by_index, get_aval(x).shape[-1])
    v, w = eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=bool(lower), vectors=True)
    return v, w


def eigvalsh(x, *, lower=True, symmetrize_input=True):
    """The eigenvalues that eigh gives, without its vectors."""
    check_matrices("eigvalsh", get_aval(x), square=True)
    return eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=bool(lower), vectors=False)[0]


# --- singular values ----------------------------------------------------------------------------------------------------


def _svd_shapes(batch, m, n, dtype, *, full_matrices, compute_uv):
    k = min(m, n)
    out = [((*batch, k), dtypes.to_real(dtype))]
    if compute_uv:
        out += [((*batch, m, m if full_matrices else k), dtype), ((*batch, n if full_matrices else k, n), dtype)]
    return out


def _svd_empty(x, *, full_matrices, compute_uv):
    *batch, m, n = get_aval(x).shape
    s = full((*batch, 0), 0, dtypes.to_real(get_aval(x).dtype))
    if not compute_uv:
        return [s]
    return [s, eye_like(x, m, m if full_matrices else 0), eye_like(x, n if full_matrices else 0, n)]


def _svd_jvp(primals, tangents, *, full_matrices, compute_uv):
    """With dP = U^H dA V: ds = diag(dP), and dU, dV from F = 1 / (s_j^2 - s_i^2); what leaves the range of U or V is added."""
    (x,), (t,) = primals, tangents
    m, n = get_aval(x).shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise NotDifferentiableError(
            "svd has no derivative with full_matrices=True for matrices that are not square: the additional vectors are not determined. "
            "Use full_matrices=False."
        )
    s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True)
    uh, v = mH(u), mH(vh)
    p = mm(mm(uh, t), v)
    ds = diagonal(real_part(p))
    if not compute_uv:
        return [s], [ds]
    dtype, square = get_aval(u).dtype, get_aval(p).shape
    row, column = as_rows(s, square), as_columns(s, square)
    eye = eye_like(row)
    f = sub(integer_pow(add(mul(add(row, column), sub(row, column)), eye), -1), eye)
    f, row, column = (convert_element_type(a, dtype) for a in (f, row, column))
    left, right = mul(row, p), mul(column, p)
    zero = convert_element_type(eq(s, like(s, 0)), get_aval(s).dtype)
    inverse = sub(integer_pow(add(s, zero), -1), zero)
    phase = mul(mul(sub(p, mH(p)), like(p, 0.5)), mul(eye_like(p), as_rows(convert_element_type(inverse, dtype), square)))
    du = mm(u, add(mul(f, add(left, mH(left))), phase))
    dv = mm(v, mul(f, add(right, mH(right))))
    if m > n:
        moved = mm(t, v)
        du = add(du, div(sub(moved, mm(u, mm(uh, moved))), as_rows(convert_element_type(s, dtype), get_aval(u).shape)))
    if n > m:
        moved = mm(mH(t), u)
        dv = add(dv, div(sub(moved, mm(v, mm(vh, moved))), as_rows(convert_element_type(s, dtype), get_aval(v).shape)))
    return [s, u, vh], [ds, du, mH(dv)]


svd_p = matrix_primitive(
    "svd", _svd_shapes, ip=lambda full_matrices, compute_uv: ((2 if full_matrices else 1) if compute_uv else 0,), empty=_svd_empty
)
svd_p.jvp = _svd_jvp
svd_p.refuses = lambda params: params["full_matrices"] and params["compute_uv"]  # of matrices that are not square


def _svd_of_triangle(x, *, full_matrices, compute_uv):
    """From x = Q R, or x^T = Q R where x is wide, and the values and vectors of R: LAPACK's way, and so with its signs."""
    m, n = get_aval(x).shape[-2:]
    k, turn = min(m, n), mT if m < n else lambda a: a
    if not compute_uv:
        return svd_p.bind(triu(slice_in_dim(geqrf_p.bind(turn(x))[0], 0, k, axis=-2)), full_matrices=False, compute_uv=False)
    q, r = qr_p.bind(turn(x), full_matrices=full_matrices, pivoting=False)
    s, u, vh = svd_p.bind(turn(slice_in_dim(r, 0, k, axis=-2)), full_matrices=False, compute_uv=True)
    side = mm(slice_in_dim(q, 0, k, axis=-1), turn(vh if m < n else u))
    if full_matrices:
        side = concatenate([side, slice_in_dim(q, k, None, axis=-1)], get_aval(q).ndim - 1)
    return [s, u, turn(side)] if m < n else [s, side, vh]


def _svd_lower(ctx, ins, params, out_avals, kernel=svd_p.lower):
    """Long and wide real matrices go by a QR of our own, from the shape on from which LAPACK takes its own; batches of small ones not."""
    *batch, m, n = ins[0].shape
    small = m * n < 1024 or (batch and max(m, n) <= 64)
    if ins[0].dtype.kind != "f" or small or 6 * max(m, n) < 11 * min(m, n):
        return kernel(ctx, ins, params, out_avals)
    return ctx.compose(lambda x: _svd_of_triangle(x, **params), ins)


svd_p.lower = _svd_lower


class SvdAlgorithm(enum.Enum):
    """Accepted wherever JAX takes one; there is one implementation, LAPACK's divide and conquer."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"


def svd(x, *, full_matrices=True, compute_uv=True, subset_by_index=None, algorithm=None):
    """(u, s, vh) with x = u * s @ vh, of matrices (..., m, n): orthonormal columns u and rows vh, s (..., k) descending, k = min(m, n).

    full_matrices: u (..., m, m) and vh (..., n, n), else (..., m, k) and (..., k, n). compute_uv=False gives s alone.
    """
    check_matrices("svd", get_aval(x))
    _no_subset("svd", subset_by_index, min(get_aval(x).shape[-2:]))
    out = svd_p.bind(x, full_matrices=bool(full_matrices) and bool(compute_uv), compute_uv=bool(compute_uv))
    return (out[1], out[0], out[2]) if compute_uv else out[0]


# --- eigenvalues of general matrices --------------------------------------------------------------------------------------


def _eig_shapes(batch, m, n, dtype, *, left, right, vector_derivatives):
    dtype = dtypes.to_complex(dtype)
    return [((*batch, n), dtype), *[((*batch, n, n), dtype)] * (left + right)]


def _eig_vectors_jvp(w, v, t):
    """dw and dv of A v = v * w, where each vector has norm 1 and a real greatest component, as LAPACK makes them."""
    p = mm(solve(v, t), v)
    u = mm(v, mul(_inverse_gaps(w), p))
    shape = get_aval(v).shape
    axis = len(shape) - 2
    greatest = eq(broadcasted_iota(np.int32, shape, axis), as_rows(convert_element_type(argmax(abs(v), axis), np.int32), shape))
    pick = lambda x: reduce_sum(select(greatest, x, like(x, 0)), (axis,))
    c = complex_(neg(reduce_sum(real(mul(conj(v), u)), (axis,))), neg(div(imag(pick(u)), real(pick(v)))))
    return diagonal(p), add(u, mul(v, as_rows(c, shape)))


def _eig_jvp(primals, tangents, *, left, right, vector_derivatives):
    (x,), (t,) = primals, tangents
    if (left or right) and not vector_derivatives:
        raise NotDifferentiableError(
            "eig: the derivatives of eigenvectors of general matrices hold only where eigenvalues are distinct, which cannot be checked. "
            "Pass enable_eigvec_derivs=True to lax.linalg.eig, or use eigvals or eigh."
        )
    # The second derivatives of values need the first ones of vectors, but do not depend on their phases.
    w, *vectors = eig_p.bind(x, left=left, right=True, vector_derivatives=True)
    v = vectors[-1]
    t = convert_element_type(t, get_aval(v).dtype)
    if not (left or right):
        return [w], [reduce_sum(mul(solve(v, t), mT(v)), (get_aval(w).ndim,))]
    dw, dv = _eig_vectors_jvp(w, v, t)
    outs, out_ts = [w], [dw]
    if left:
        outs.append(vectors[0])
        out_ts.append(_eig_vectors_jvp(conj(w), vectors[0], mH(t))[1])
    if right:
        outs.append(v)
        out_ts.append(dv)
    return outs, out_ts


eig_p = matrix_primitive("eig", _eig_shapes, square=True, ip=lambda left, right, vector_derivatives: (int(left), int(right)))
eig_p.jvp = _eig_jvp
eig_p.refuses = lambda params: (params["left"] or params["right"]) and not params["vector_derivatives"]


class EigImplementation(enum.Enum):
    """Accepted wherever JAX takes one; there is one implementation, LAPACK's."""

    CUSOLVER = "cusolver"
    LAPACK = "lapack"
    MAGMA = "magma"


def eig(
    x, *, compute_left_eigenvectors=True, compute_right_eigenvectors=True, enable_eigvec_derivs=False, implementation=None, use_magma=None
):
    """[w, left, right] of general matrices (..., n, n), all complex: x right = right * w, left^H x = w * left^H, columns of norm 1.

    Vectors that are not asked for are left out. Eigenvalues have derivatives; vectors only with enable_eigvec_derivs, which is right
    where eigenvalues are distinct.
    """
    left, right = bool(compute_left_eigenvectors), bool(compute_right_eigenvectors)
    return eig_p.bind(x, left=left, right=right, vector_derivatives=bool(enable_eigvec_derivs) and (left or right))


def _schur_shapes(batch, m, n, dtype, *, vectors):
    return [((*batch, n, n), dtype)] * (1 + vectors)


schur_p = matrix_primitive("schur", _schur_shapes, square=True, ip=lambda vectors: (int(vectors),))
refuse_jvp(schur_p, _NO_RULE)


def schur(x, *, compute_schur_vectors=True, sort_eig_vals=False, select_callable=None):
    """(t, z) with x = z t z^H, z unitary and t upper triangular (real matrices: with 2x2 blocks for complex eigenvalues).

    compute_schur_vectors=False gives t alone, in a tuple. Sorting is not supported (NotImplementedError). It has no derivative.
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("schur: sorting the eigenvalues is not supported")
    return tuple(schur_p.bind(x, vectors=bool(compute_schur_vectors)))


def _hessenberg_shapes(batch, m, n, dtype):
    return [((*batch, n, n), dtype), ((*batch, max(n - 1, 0)), dtype)]


hessenberg_p = matrix_primitive("hessenberg", _hessenberg_shapes, square=True)
refuse_jvp(hessenberg_p, _NO_RULE)


def hessenberg(a):
    """(h, taus) of square matrices: the upper Hessenberg form in h's upper triangle and first subdiagonal, below it the Householder
    vectors that made it, whose factors are taus (..., n - 1). It has no derivative."""
    return tuple(hessenberg_p.bind(a))


def _tridiagonal_shapes(batch, m, n, dtype, *, lower):
    real, less = dtypes.to_real(dtype), max(n - 1, 0)
    return [((*batch, n, n), dtype), ((*batch, n), real), ((*batch, less), real), ((*batch, less), dtype)]


tridiagonal_p = matrix_primitive("tridiagonal", _tridiagonal_shapes, square=True, ip=lambda lower: (int(lower),))
refuse_jvp(tridiagonal_p, _NO_RULE)


def tridiagonal(a, *, lower=True):
    """(a, d, e, taus): Hermitian matrices, of which one triangle is read, in tridiagonal form with diagonal d and off-diagonal e;
    a holds them and the Householder vectors with factors taus. It has no derivative."""
    return tuple(tridiagonal_p.bind(a, lower=bool(lower)))


__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "eigvalsh",
    "geqp3_p",
    "geqrf",
    "geqrf_p",
    "hessenberg",
    "hessenberg_p",
    "householder_product",
    "householder_product_p",
    "qr",
    "qr_p",
    "schur",
    "schur_p",
    "svd",
    "svd_p",
    "tridiagonal",
    "tridiagonal_p",
]
