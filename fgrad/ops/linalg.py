"""Triangular and LU factorizations and the systems that they solve.

Derivatives: Giles, An extended collection of matrix derivative results (2008); Murray, https://arxiv.org/abs/1602.07527 (Cholesky);
de Hoog, Anderssen and Lukas, Differentiation of matrix functionals using triangular factorization, Math. Comp. 80 (2011) (LU).
"""

import numpy as np

from fgrad import dtypes
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.elementwise import add, conj, convert_element_type, div, like, mul, neg, sub
from fgrad.ops.matrix import (
    as_columns,
    check_batches,
    check_dtype,
    check_matrices,
    eye_like,
    is_complex,
    matrix_primitive,
    mm,
    mT,
    permute_rows,
    symmetrized,
    tril,
    triu,
    unpermute_rows,
)
from fgrad.ops.rules import Zero, bdim_at_front, instantiate, is_linear, move_axis, zero_jvp, zero_of
from fgrad.ops.shape import broadcasted_iota, expand_dims, pad, reshape, slice_in_dim, squeeze

# --- Cholesky ---------------------------------------------------------------------------------------------------------


def _cholesky_aval(x):
    check_matrices("cholesky", x, square=True)
    return x


def _cholesky_jvp(primals, tangents):
    """dL = L phi(L^-1 dA L^-H), where phi takes the lower triangle and halves its diagonal."""
    (x,), (t,) = primals, tangents
    low = cholesky_p.bind(x)
    s = triangular_solve(low, t, lower=True, transpose_a=True, conjugate_a=True)
    s = tril(triangular_solve(low, s, left_side=True, lower=True))
    return low, mm(low, div(s, add(eye_like(s), like(s, 1))))


cholesky_p = Primitive("cholesky", abstract_eval=_cholesky_aval, jvp=_cholesky_jvp)
cholesky_p.lower = lambda ctx, ins, params, out_avals: ctx.kernel("cholesky", ins, out_avals)[0]
cholesky_p.batch = lambda axis, args, dims: (cholesky_p.bind(move_axis(args[0], dims[0], 0)), 0)


def cholesky(x, *, symmetrize_input=True):
    """The lower triangular L with x = L L^H, of Hermitian positive definite matrices (..., n, n).

    symmetrize_input: take (x + x^H) / 2, else only the lower triangle is read. Where a matrix is not positive definite, L's lower
    triangle is NaN.
    """
    return cholesky_p.bind(symmetrized(x) if symmetrize_input else x)


# --- triangular systems -------------------------------------------------------------------------------------------------


def _trsm_aval(a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal):
    check_matrices("triangular_solve", a, square=True)
    if len(b.shape) < 2 or a.shape[-1] != b.shape[-2 if left_side else -1]:
        raise ShapeError(f"triangular_solve: a of shape {a.shape} and b of shape {b.shape} do not fit (left_side={left_side})")
    check_batches("triangular_solve", (a, 2), (b, 2))
    return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)


def _trsm_lower(ctx, ins, params, out_avals):
    a, b = ins
    conjugate, transposed = params["conjugate_a"] and a.dtype.kind == "c", params["transpose_a"]
    if conjugate and not transposed:
        a = ctx.elementwise("conj", [a], a.aval)
    ip = (params["left_side"], params["lower"], (2 if conjugate else 1) if transposed else 0, params["unit_diagonal"])
    return ctx.kernel("triangular_solve", [a, b], out_avals, ip=ip)[0]


def _trsm_jvp(primals, tangents, **params):
    """dX = A^-1 (dB - dA X), and the like on the other side."""
    (a, b), (ta, tb) = primals, tangents
    out = triangular_solve_p.bind(a, b, **params)
    solve = lambda rhs: triangular_solve_p.bind(a, rhs, **params)
    total = None if type(tb) is Zero else solve(tb)
    if type(ta) is not Zero:
        k = int(params["unit_diagonal"])
        ta = tril(ta, -k) if params["lower"] else triu(ta, k)
        ta = mT(ta) if params["transpose_a"] else ta
        ta = conj(ta) if params["conjugate_a"] and is_complex(ta) else ta
        m, n = get_aval(b).shape[-2:]
        if params["left_side"]:  # in the cheaper order
            term = solve(mm(ta, out)) if m > n else mm(solve(ta), out)
        else:
            term = solve(mm(out, ta)) if m < n else mm(out, solve(ta))
        total = neg(term) if total is None else sub(total, term)
    return out, zero_of(out) if total is None else total


def _trsm_transpose(cts, a, b, *, transpose_a, **params):
    if not is_linear(b):
        return [None, None]
    return [None, triangular_solve_p.bind(a, cts[0], transpose_a=not transpose_a, **params)]


def _trsm_batch(axis, args, dims, **params):
    (a, b), (da, db) = args, dims
    if da is not None:
        a, b = (bdim_at_front(x, d, axis.size) for x, d in zip(args, dims))
        return triangular_solve_p.bind(a, b, **params), 0
    # One matrix for the whole batch: its right-hand sides stand side by side.
    b = move_axis(b, db, -1 if params["left_side"] else -2)
    shape = get_aval(b).shape
    if params["left_side"]:
        flat, at = (*shape[:-2], shape[-2] * shape[-1]), len(shape) - 1
    else:
        flat, at = (*shape[:-3], shape[-3] * shape[-2], shape[-1]), len(shape) - 2
    return reshape(triangular_solve_p.bind(a, reshape(b, flat), **params), shape), at


triangular_solve_p = Primitive(
    "triangular_solve", abstract_eval=_trsm_aval, lower=_trsm_lower, jvp=_trsm_jvp, transpose=_trsm_transpose, batch=_trsm_batch
)


def triangular_solve(a, b, *, left_side=False, lower=False, transpose_a=False, conjugate_a=False, unit_diagonal=False):
    """x with op(a) x = b (left_side) or x op(a) = b, for triangular matrices a (..., n, n) of which one triangle is read.

    op transposes and conjugates as transpose_a and conjugate_a tell; unit_diagonal: a's diagonal is taken for ones. b: (..., n, k)
    with left_side, else (..., k, n), of a's dtype and leading axes, or one vector (..., n) each.
    """
    av, bv = get_aval(a), get_aval(b)
    if dtypes.is_float(av.dtype) and av.dtype.itemsize == 2 and bv.dtype == av.dtype:
        a, b = (convert_element_type(v, dtypes.FLOAT32) for v in (a, b))
        wide = triangular_solve(
            a, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a, unit_diagonal=unit_diagonal
        )
        return convert_element_type(wide, bv.dtype)
    vector = bv.ndim == av.ndim - 1
    if vector:
        b = expand_dims(b, (bv.ndim if left_side else bv.ndim - 1,))
    out = triangular_solve_p.bind(
        a,
        b,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and is_complex(a),
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(out, (bv.ndim if left_side else bv.ndim - 1,)) if vector else out


# --- LU -----------------------------------------------------------------------------------------------------------------


def _lu_shapes(batch, m, n, dtype):
    return [((*batch, m, n), dtype), ((*batch, min(m, n)), dtypes.INT32), ((*batch, m), dtypes.INT32)]


def _lu_empty(x):
    *batch, m, n = get_aval(x).shape
    return [x, broadcasted_iota(np.int32, (*batch, 0), len(batch)), broadcasted_iota(np.int32, (*batch, m), len(batch))]


def _lu_jvp(primals, tangents):
    """With S = L^-1 dA U^-1: dL = L tril(S, -1) and dU = triu(S) U, where L and U are completed to square matrices."""
    (x,), (t,) = primals, tangents
    lu, pivots, order = lu_p.bind(x)
    *batch, m, n = get_aval(x).shape
    k = min(m, n)
    none = [(0, 0, 0)] * len(batch)
    low = pad(tril(slice_in_dim(lu, 0, k, axis=-1), -1), like(lu, 0), [*none, (0, 0, 0), (0, m - k, 0)])
    low = add(low, eye_like(low))
    up = pad(triu(slice_in_dim(lu, 0, k, axis=-2)), like(lu, 0), [*none, (0, n - k, 0), (0, 0, 0)])
    up = add(up, sub(eye_like(up), pad(eye_like(lu, k, k), like(lu, 0), [*none, (0, n - k, 0), (0, n - k, 0)])))
    s = triangular_solve(low, permute_rows(t, order), left_side=True, lower=True, unit_diagonal=True)
    s = triangular_solve(up, s)
    tangent = add(mm(low, tril(s, -1)), mm(triu(s), up))
    return [lu, pivots, order], [tangent, zero_of(pivots), zero_of(order)]


lu_p = matrix_primitive("lu", _lu_shapes, empty=_lu_empty)
lu_p.jvp = _lu_jvp


def lu(x):
    """(lu, pivots, permutation) of matrices (..., m, n): x[permutation] = L U with row pivoting.

    lu: U in the upper triangle, L below it (its diagonal of ones is not stored); pivots (..., min(m, n)), int32: row i was swapped
    with row pivots[i]; permutation (..., m), int32.
    """
    return tuple(lu_p.bind(x))


def lu_solve(lu, permutation, b, trans=0):
    """x with A x = b (trans 0), A^T x = b (1) or A^H x = b (2), from A's lu and permutation; b (..., n, k) of the same batch."""
    triangle = lambda x, lower, **kw: triangular_solve(lu, x, left_side=True, lower=lower, unit_diagonal=lower, **kw)
    if trans == 0:
        return triangle(triangle(permute_rows(b, permutation), True), False)
    if trans not in (1, 2):
        raise ValueError(f"lu_solve: trans must be 0, 1 or 2, got {trans}")
    kw = dict(transpose_a=True, conjugate_a=trans == 2)
    return unpermute_rows(triangle(triangle(b, False, **kw), True, **kw), permutation)


def solve(a, b):
    """a^-1 b by LU, for square matrices and right-hand sides (..., n, k) of one batch."""
    factors, _, permutation = lu(a)
    return lu_solve(factors, permutation, b)


def _permutation_aval(pivots, *, permutation_size):
    if pivots.dtype != dtypes.INT32 or not pivots.shape:
        raise TypeError(f"lu_pivots_to_permutation takes int32 pivots (..., k), got {pivots.short()}")
    if permutation_size < pivots.shape[-1]:
        raise ShapeError(f"lu_pivots_to_permutation: {pivots.shape[-1]} pivots do not fit a permutation of size {permutation_size}")
    return ShapedArray((*pivots.shape[:-1], permutation_size), dtypes.INT32)


def _permutation_lower(ctx, ins, params, out_avals):
    if not ins[0].shape[-1]:
        shape = out_avals[0].shape
        return ctx.compose(lambda x: [broadcasted_iota(np.int32, shape, len(shape) - 1)], ins)[0]
    return ctx.kernel("lu_permutation", ins, out_avals)[0]


def _permutation_batch(axis, args, dims, **params):
    return lu_pivots_to_permutation_p.bind(move_axis(args[0], dims[0], 0), **params), 0


lu_pivots_to_permutation_p = Primitive(
    "lu_pivots_to_permutation", abstract_eval=_permutation_aval, lower=_permutation_lower, batch=_permutation_batch
)
lu_pivots_to_permutation_p.jvp = zero_jvp(lu_pivots_to_permutation_p)


def lu_pivots_to_permutation(pivots, permutation_size):
    """The int32 permutation (..., permutation_size) that swapping row i with row pivots[..., i], in this order, makes."""
    return lu_pivots_to_permutation_p.bind(pivots, permutation_size=int(permutation_size))


# --- tridiagonal systems ------------------------------------------------------------------------------------------------


def _bands_aval(dl, d, du, b):
    if not dl.shape or len(b.shape) < 2 or not dl.shape == d.shape == du.shape == b.shape[:-1] or not dl.shape[-1]:
        raise ShapeError(
            f"tridiagonal_solve takes three diagonals (..., m) and b (..., m, k), got {dl.shape}, {d.shape}, {du.shape} and {b.shape}"
        )
    check_dtype("tridiagonal_solve", dl)
    check_batches("tridiagonal_solve", (dl, 1), (d, 1), (du, 1), (b, 2))
    return b.strong()


def _bands_product(dl, d, du, x):
    """The tridiagonal matrices times x; dl's first and du's last element count for nothing."""
    shape = get_aval(x).shape
    rows, m = len(shape) - 2, shape[-2]
    zero, out = like(x, 0), mul(as_columns(d, shape), x)
    config = [(0, 0, 0)] * len(shape)
    above, below = config.copy(), config.copy()
    above[rows], below[rows] = (1, -1, 0), (-1, 1, 0)  # x[i - 1] and x[i + 1]
    if m == 1:
        return out
    out = add(out, mul(as_columns(dl, shape), pad(x, zero, above)))
    return add(out, mul(as_columns(du, shape), pad(x, zero, below)))


def _bands_jvp(primals, tangents):
    *bands, b = primals
    *moving, tb = tangents
    out = tridiagonal_solve_p.bind(*primals)
    rhs = None if type(tb) is Zero else tb
    if any(type(t) is not Zero for t in moving):
        term = _bands_product(*map(instantiate, moving), out)
        rhs = neg(term) if rhs is None else sub(rhs, term)
    return out, zero_of(out) if rhs is None else tridiagonal_solve_p.bind(*bands, rhs)


def _bands_transpose(cts, dl, d, du, b):
    """The transposed matrix has the outer diagonals swapped, each moved by one place."""
    axis = len(get_aval(d).shape) - 1
    rest = [(0, 0, 0)] * axis
    lower = pad(du, like(du, 0), [*rest, (1, -1, 0)])
    upper = pad(dl, like(dl, 0), [*rest, (-1, 1, 0)])
    return [None, None, None, tridiagonal_solve_p.bind(lower, d, upper, cts[0]) if is_linear(b) else None]


def _bands_batch(axis, args, dims):
    return tridiagonal_solve_p.bind(*[bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)]), 0


tridiagonal_solve_p = Primitive(
    "tridiagonal_solve", abstract_eval=_bands_aval, jvp=_bands_jvp, transpose=_bands_transpose, batch=_bands_batch
)
tridiagonal_solve_p.lower = lambda ctx, ins, params, out_avals: ctx.kernel("tridiagonal_solve", ins, out_avals)[0]


def tridiagonal_solve(dl, d, du, b, *, perturb_singular=False):
    """x with A x = b, for tridiagonal A given by its diagonals (..., m): A[i, i-1] = dl[i], A[i, i] = d[i], A[i, i+1] = du[i].

    b: (..., m, k). NaN where A is singular. perturb_singular=True is refused with NotImplementedError.
    """
    if perturb_singular:
        raise NotImplementedError("tridiagonal_solve: perturb_singular=True is not supported; add a small multiple of eps to d")
    return tridiagonal_solve_p.bind(dl, d, du, b)


__all__ = [
    "cholesky",
    "cholesky_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "lu_solve",
    "solve",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal_solve",
    "tridiagonal_solve_p",
]
