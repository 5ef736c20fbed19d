"""Factorizations. Vectors with a free sign or phase are tested through matrices that do not depend on it."""

import numpy as np

from fgrad.lax import broadcast_in_dim, conj, mul, real, reduce_sum, slice_in_dim
from fgrad.ops import linalg as ops
from fgrad.ops import spectral
from fgrad.ops.elementwise import add, convert_element_type, sin
from fgrad.ops.matrix import as_rows, eye_like, mH, mm, real_part, symmetrized, triu
from tests.table.case import COMPLEX, F32, F64, Case, distinct, ints, typed

DTYPES = (F32, F64, *COMPLEX)
REAL = (F32, F64)


def H(x):
    return np.conj(np.swapaxes(x, -1, -2))


def case(fun, args, ref, name="", **kw):
    return Case(fun, args, ref, name=name, **(dict(dtypes=DTYPES, ulps=64.0, ct_ulps=512.0) | kw))


def _scaled_eye(x, scale):
    eye = eye_like(x)
    return mul(eye, eye.dtype.type(scale))


def positive(x):
    return add(mm(x, mH(x)), _scaled_eye(x, 2))


def np_positive(x):
    return x @ H(x) + 2 * np.eye(x.shape[-1])


def triangular(left, lower, transposed, conjugate, unit, shape=(3, 3), rhs=None):
    rhs = rhs or (*shape[:-2], *((shape[-1], 2) if left else (2, shape[-1])))
    kw = dict(left_side=left, lower=lower, transpose_a=transposed, conjugate_a=conjugate, unit_diagonal=unit)

    def ref(a, b):
        a = np.tril(a) if lower else np.triu(a)
        a = a + 3 * np.eye(a.shape[-1])
        a = np.where(np.eye(a.shape[-1], dtype=bool), 1, a) if unit else a
        a = np.swapaxes(a, -1, -2) if transposed else a
        a = np.conj(a) if conjugate else a
        return np.linalg.solve(a, b) if left else np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)

    fun = lambda a, b: ops.triangular_solve(add(a, _scaled_eye(a, 3)), b, **kw)
    name = " ".join(k for k, v in kw.items() if v) or "right"
    return case(fun, (typed(*shape), typed(*rhs)), ref, name=f"{name} {shape} {rhs}", linear=((1,),))


def np_lu(x):
    """LU with row pivoting, by elimination."""
    if x.ndim > 2:
        return tuple(map(np.stack, zip(*map(np_lu, x))))
    x, (m, n) = x.copy(), x.shape
    pivots, order = [], np.arange(m)
    for k in range(min(m, n)):
        size = np.abs(x[k:, k].real) + np.abs(x[k:, k].imag)
        p = k + int(np.argmax(size))
        pivots.append(p)
        x[[k, p]], order[[k, p]] = x[[p, k]], order[[p, k]]
        x[k + 1 :, k] /= x[k, k]
        x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return x, np.array(pivots, np.int32).reshape(min(m, n)), order.astype(np.int32)


def swapped(pivots, m=5):
    out = np.broadcast_to(np.arange(m), (*pivots.shape[:-1], m)).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        for i, p in enumerate(pivots[at]):
            out[at][[i, p]] = out[at][[p, i]]
    return out


def bands(m, k, batch=()):
    def ref(dl, d, du, b):
        out = np.empty_like(b)
        for at in np.ndindex(batch):
            out[at] = np.linalg.solve(np.diag(d[at] + 5) + np.diag(dl[at][1:], -1) + np.diag(du[at][:-1], 1), b[at])
        return out

    fun = lambda dl, d, du, b: ops.tridiagonal_solve(dl, add(d, d.dtype.type(5)), du, b)
    return case(fun, (typed(*batch, m),) * 3 + (typed(*batch, m, k),), ref, name=f"{batch} {m} {k}", linear=((3,),))


def orthogonal(shape, full, **kw):
    return case(
        lambda x: spectral.qr(x, full_matrices=full),
        (typed(*shape, lo=0.2),),
        lambda x: tuple(np.linalg.qr(x, "complete" if full else "reduced")),
        name=f"{shape} {'full' if full else 'thin'}",
        **kw,
    )


def _pivoted(x):
    """Products that tell the permutation and that its columns are in place."""
    q, r, p = spectral.qr(x, pivoting=True, full_matrices=False)
    return mm(q, r), mm(mH(r), r), p


def np_pivoted(x):
    """Columns picked by what is left of their norms."""
    rest, order = x.copy(), []
    for _ in range(x.shape[1]):
        norms = np.linalg.norm(rest, axis=0)
        norms[order] = -1
        p = int(np.argmax(norms))
        order.append(p)
        if norms[p] > 0:
            u = rest[:, p] / norms[p]
            rest = rest - np.outer(u, np.conj(u) @ rest)
    y = x[:, order]
    return y, H(y) @ y, np.array(order, np.int32)


def _reflected(x):
    """Products of R alone, which do not tell reflectors."""
    a, taus = spectral.geqrf(x)
    return mm(spectral.householder_product(a, taus), triu(slice_in_dim(a, 0, a.shape[-1], axis=-2)))


def hermitian(x):
    """Hermitian matrices with separate eigenvalues."""
    n = x.shape[-1]
    spread = as_rows(broadcast_in_dim(np.arange(n) * 4.0, x.shape[:-1], (x.ndim - 2,)).astype(x.dtype), x.shape)
    return add(symmetrized(x), mul(eye_like(x), spread))


def np_hermitian(x):
    return (x + H(x)) / 2 + np.diag(np.arange(x.shape[-1]) * 4.0)


def of_values(v, w, right):
    """v sin(w) right."""
    return mm(mul(v, as_rows(convert_element_type(sin(w), v.dtype), v.shape)), right)


def eigen_function(x):
    v, w = spectral.eigh(hermitian(x))
    return w, of_values(v, w, mH(v))


def np_eigen_function(x):
    w, v = np.linalg.eigh(np_hermitian(x))
    return w, v * np.sin(w)[..., None, :] @ H(v)


def singular_function(full):
    def fun(x):
        u, s, vh = spectral.svd(x, full_matrices=full)
        return s, of_values(u, s, vh)

    return fun


def np_singular_function(x):
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return s, u * np.sin(s)[..., None, :] @ vh


def separate(x):
    """A general matrix with separate eigenvalues."""
    n = x.shape[-1]
    return add(x, mul(eye_like(x), as_rows(broadcast_in_dim(np.arange(n) * 5.0, x.shape[:-1], (x.ndim - 2,)).astype(x.dtype), x.shape)))


def np_separate(x):
    return x + np.diag(np.arange(x.shape[-1]) * 5.0)


POWERS = ("complex", "complex", "real")


def powers(w):
    """Sums of powers, which do not depend on the order."""
    square = mul(w, w)
    total = lambda v: reduce_sum(v, (v.ndim - 1,))
    return total(w), total(square), real(total(mul(square, w)))


def np_powers(x):
    w = np.linalg.eigvals(np_separate(x))
    return w.sum(-1), (w**2).sum(-1), (w**3).sum(-1).real


def eigenvalues(x):
    return powers(spectral.eig(separate(x), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0])


def eigenvectors(x):
    w, left, right = spectral.eig(separate(x), enable_eigvec_derivs=True)
    return of_values(right, w, ops.solve(right, eye_like(right))), mm(mul(left, as_rows(w, left.shape)), mH(left))


def np_eigenvectors(x):
    x = np_separate(x)
    w, right = np.linalg.eig(x)
    values, left = np.linalg.eig(H(x))
    return right * np.sin(w)[..., None, :] @ np.linalg.inv(right), left * np.conj(values)[..., None, :] @ H(left)


def schur_product(x):
    t, z = spectral.schur(x)
    return mm(mm(z, t), mH(z)), mm(mH(z), z)


def hessenberg_form(x):
    """What does not depend on the reflectors' signs: the subdiagonal's and the diagonal's magnitudes, through H^H H's trace."""
    h, taus = spectral.hessenberg(x)
    low = triu(h, -1)
    return reduce_sum(real_part(mul(low, conj(low))) if low.dtype.kind == "c" else mul(low, low), (low.ndim - 2, low.ndim - 1))


def tridiagonal_form(lower):
    def fun(x):
        _, d, e, _ = spectral.tridiagonal(hermitian(x), lower=lower)
        total = lambda v: reduce_sum(v, (v.ndim - 1,))
        return total(d), add(total(mul(d, d)), mul(total(mul(e, e)), e.dtype.type(2)))

    return fun


def np_tridiagonal_form(x):
    x = np_hermitian(x)
    return np.trace(x, axis1=-2, axis2=-1).real, (np.abs(x) ** 2).sum((-2, -1))


REFUSED = dict(modes=())
TRIANGULAR = [
    triangular(left, lower, transposed, conjugate, unit)
    for left in (False, True)
    for lower, transposed, conjugate, unit in (
        (False, False, False, False),
        (True, False, False, False),
        (True, True, True, False),
        (False, True, False, True),
        (False, False, True, True),
    )
]
ROWS = {
    "cholesky": [
        case(lambda x: ops.cholesky(positive(x)), (typed(*s),), lambda x: np.linalg.cholesky(np_positive(x)), name=str(s))
        for s in ((3, 3), (2, 4, 4), (1, 1), (0, 0))
    ],
    "triangular_solve": [
        *TRIANGULAR,
        triangular(True, True, False, False, False, (2, 3, 3)),
        triangular(False, True, True, True, False, (2, 2, 3, 3)),
        triangular(True, False, False, False, False, (3, 3), (3, 0)),
        triangular(False, False, False, False, False, (3, 3), (130, 3)),
    ],
    "lu": [
        case(ops.lu, (typed(*s),), np_lu, name=str(s), out=("same", np.int32, np.int32))
        for s in ((3, 3), (4, 2), (2, 4), (2, 3, 3), (1, 1), (0, 3), (3, 0))
    ],
    "lu_pivots_to_permutation": [
        case(lambda p: ops.lu_pivots_to_permutation(p, 5), (ints(*s, hi=5),), swapped, name=str(s), out=np.int32, dtypes=(F32,), ulps=0)
        for s in ((3,), (2, 4), (0,))
    ],
    "tridiagonal_solve": [bands(4, 2), bands(1, 1), bands(2, 3, (2,)), bands(3, 0)],
    "qr": [
        *[orthogonal(s, f) for s in ((3, 3), (4, 2), (2, 4)) for f in (True, False)],
        orthogonal((2, 3, 2), False),
        orthogonal((0, 2), True),
        orthogonal((3, 0), True),
        *[case(_pivoted, (distinct(*s),), np_pivoted, name=f"pivoted {s}", out=("same", "same", np.int32)) for s in ((3, 3), (4, 2))],
    ],
    "geqrf": [case(_reflected, (typed(*s),), lambda x: x, name=str(s), **REFUSED) for s in ((3, 3), (4, 2), (2, 3, 2))],
    "geqp3": [case(lambda x: spectral.geqp3_p.bind(x)[1], (distinct(4, 3),), lambda x: np_pivoted(x)[2], out=np.int32, ulps=0, **REFUSED)],
    "householder_product": [case(_reflected, (typed(*s),), lambda x: x, name=str(s), **REFUSED) for s in ((3, 3), (4, 2))],
    "eigh": [
        *[case(eigen_function, (typed(*s),), np_eigen_function, name=str(s), out=("real", "same")) for s in ((3, 3), (2, 2, 2), (1, 1))],
        case(
            lambda x: spectral.eigvalsh(hermitian(x), lower=False),
            (typed(3, 3),),
            lambda x: np.linalg.eigvalsh(np_hermitian(x)),
            name="values",
            out="real",
        ),
    ],
    "svd": [
        *[
            case(singular_function(f), (distinct(*s),), np_singular_function, name=f"{s} {f}", out=("real", "same"))
            for s, f in (((3, 3), True), ((4, 2), False), ((2, 3), False), ((2, 3, 2), False), ((1, 1), True))
        ],
        case(
            lambda x: spectral.svd(x, compute_uv=False),
            (distinct(3, 4),),
            lambda x: np.linalg.svd(x, compute_uv=False),
            name="values",
            out="real",
        ),
    ],
    "eig": [
        *[case(eigenvalues, (typed(*s),), np_powers, name=str(s), out=POWERS) for s in ((3, 3), (2, 2, 2), (1, 1))],
        case(eigenvectors, (typed(3, 3),), np_eigenvectors, name="vectors", out="complex"),
    ],
    "schur": [
        case(schur_product, (typed(*s),), lambda x: (x, np.broadcast_to(np.eye(3), x.shape)), name=str(s), **REFUSED)
        for s in ((3, 3), (2, 3, 3))
    ],
    "hessenberg": [
        case(hessenberg_form, (typed(*s),), lambda x: (np.abs(x) ** 2).sum((-2, -1)), name=str(s), out="real", **REFUSED)
        for s in ((4, 4), (2, 3, 3), (1, 1))
    ],
    "tridiagonal": [
        case(tridiagonal_form(low), (typed(*s),), np_tridiagonal_form, name=f"{s} {low}", out="real", **REFUSED)
        for s, low in (((4, 4), True), ((2, 3, 3), False), ((1, 1), True))
    ],
}
