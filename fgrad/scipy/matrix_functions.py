"""Functions of square matrices: exponential, square root, polar decomposition, Sylvester equations.

Those that go through a Schur decomposition (sqrtm, rsf2csf, solve_sylvester's "schur") have no derivatives, as in JAX.
"""

import functools
import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.api.derivatives import jvp
from fgrad.compile.eager import eager
from fgrad.numpy.util import as_array
from fgrad.ops import linalg as L
from fgrad.ops import matrix as X
from fgrad.ops import spectral as S


def _square(name, a):
    (a,) = jnp.promote_dtypes_inexact(as_array(name, a))
    if a.ndim < 2 or a.shape[-1] != a.shape[-2]:
        raise ValueError(f"Expected A to be a (batched) square matrix, got A.shape={a.shape}.")
    return a


# --- exponential ----------------------------------------------------------------------------------------------------------

# Higham, SIAM J. Matrix Anal. Appl. 26 (2005), table 2.3: up to which 1-norm the diagonal Pade approximant of a degree is exact to
# rounding; single precision by Al-Mohy and Higham's bounds.
_PADE = {
    4: ((3, 4.258730016922831e-1), (5, 1.880152677804762), (7, 3.925724783138660)),
    8: (
        (3, 1.495585217958292e-2),
        (5, 2.539398330063230e-1),
        (7, 9.504178996162932e-1),
        (9, 2.097847961257068),
        (13, 5.371920351148152),
    ),
}


def _pade_parts(degree, a):
    """(odd part, even part) of the numerator of the [degree/degree] approximant, with integer coefficients."""
    f = math.factorial
    b = [f(2 * degree - k) * f(degree) // (f(k) * f(degree - k)) // f(degree) for k in range(degree + 1)]
    eye, a2 = jnp.eye(a.shape[0], dtype=a.dtype), a @ a
    powers = [eye, a2]
    while len(powers) <= (3 if degree == 13 else degree // 2):
        powers.append(powers[-1] @ a2)
    total = lambda cs: functools.reduce(jnp.add, [float(c) * p for c, p in zip(cs, powers)])
    odd, even = b[1::2], b[0::2]
    if degree != 13:
        return a @ total(odd), total(even)
    a6 = powers[3]  # in two halves, six products instead of eight
    high = lambda cs: a6 @ functools.reduce(jnp.add, [float(c) * p for c, p in zip(cs, powers[1:])])
    return a @ (total(odd[:4]) + high(odd[4:])), total(even[:4]) + high(even[4:])


def _expm(a, upper_triangular, max_squarings):
    real = dtypes.to_real(a.dtype)
    if real.itemsize not in _PADE:
        raise TypeError(f"expm: a matrix of dtype {a.dtype.name} is not supported; cast it to float32")
    table = _PADE[real.itemsize]
    norm = jnp.max(jnp.sum(jnp.abs(a), 0), initial=0)
    ratio = lax.stop_gradient(jnp.log2(jnp.maximum(norm, jnp.finfo(real).tiny) / table[-1][1]))
    squarings = jnp.maximum(jnp.ceil(ratio), 0)
    a = a * jnp.exp2(-squarings).astype(a.dtype)
    index = sum((norm >= bound).astype(jnp.int32) for _, bound in table[:-1])
    odd, even = lax.switch(index, [functools.partial(_pade_parts, degree) for degree, _ in table], a)
    p, q = even + odd, even - odd
    r = L.triangular_solve(q, p, left_side=True) if upper_triangular else jnp.linalg.solve(q, p)
    square = lambda r, i: (lax.cond(i < squarings, lambda x: x @ x, lambda x: x, r), None)
    r, _ = lax.scan(square, r, jnp.arange(max_squarings + 1, dtype=real))
    return jnp.where(jnp.floor(ratio) > max_squarings, jnp.asarray(jnp.nan, a.dtype), r)


@eager(1)
def expm(A, *, upper_triangular=False, max_squarings=16):
    """The exponential of square matrices (..., n, n), by scaling, a Pade approximant and squaring.

    NaN where more than max_squarings squarings would be needed. upper_triangular: A is, which saves the general solve.
    N. J. Higham, The scaling and squaring method for the matrix exponential revisited, SIAM J. Matrix Anal. Appl. 26 (2005).

    >>> import fgrad.numpy as jnp
    >>> expm(jnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    a = _square("expm", A)
    fun = lambda x: _expm(x, upper_triangular, max_squarings)
    return fun(a) if a.ndim == 2 else jnp.vectorize(fun, signature="(n,n)->(n,n)")(a)


@eager(2)
def expm_frechet(A, E, *, method=None, compute_expm=True):
    """(expm(A), its derivative in direction E), or the derivative alone. `method` is accepted and ignored."""
    a, e = jnp.promote_dtypes_inexact(_square("expm_frechet", A), _square("expm_frechet", E))
    if a.shape != e.shape:
        raise ValueError(f"expected A and E to be the same shape, got A.shape={a.shape} E.shape={e.shape}")
    out, derivative = jvp(expm, (a,), (e,))
    return (out, derivative) if compute_expm else derivative


# --- by Schur decomposition -----------------------------------------------------------------------------------------------


def _complex_schur(a):
    return S.schur(a.astype(dtypes.to_complex(a.dtype)))


def _sqrtm_triangular(t):
    """Bjorck and Hammarling, Linear Algebra Appl. 52 (1983): the columns one after another, each a triangular system."""
    n = t.shape[0]
    roots = jnp.sqrt(jnp.diagonal(t))
    at = jnp.arange(n)

    def column(j, u):
        before = at < j
        inner = jnp.where(before[:, None] & before, u, jnp.zeros_like(u))
        diagonal = jnp.where(before, roots + roots[j], jnp.ones_like(roots))
        zero = diagonal == 0
        system = X.triu(inner, 1) + jnp.diag(jnp.where(zero, jnp.ones_like(roots), diagonal))
        x = L.triangular_solve(system, jnp.where(before, t[:, j], jnp.zeros_like(roots)), left_side=True)
        x = jnp.where(zero & (x != 0), jnp.asarray(jnp.nan, x.dtype), x)  # no root; 0 / 0 is taken for 0
        return u.at[:, j].add(jnp.where(before, x, jnp.zeros_like(x)))

    return lax.fori_loop(0, n, column, jnp.diag(roots))


@eager(1)
def sqrtm(A, blocksize=1):
    """A complex matrix whose square is A, by the Schur decomposition; the principal root where there is one. It has no derivative."""
    if blocksize > 1:
        raise NotImplementedError("Blocked version is not implemented yet.")
    t, z = _complex_schur(_square("sqrtm", A))
    return z @ _sqrtm_triangular(t) @ X.mH(z)


def rsf2csf(T, Z, check_finite=True):
    """A complex Schur form (t, z), with z t z^H = Z T Z^H and t upper triangular, of a real one. It has no derivative."""
    t, z = jnp.promote_dtypes_inexact(_square("rsf2csf", T), _square("rsf2csf", Z))
    if t.shape != z.shape:
        raise ValueError(f"Input array shapes must match: Z: {z.shape} vs. T: {t.shape}")
    t, turn = _complex_schur(t)
    return t, z.astype(turn.dtype) @ turn


def funm(A, func, disp=True):
    """func of a square matrix, where func(x) acts elementwise on its eigenvalues, by Parlett's recurrence on the complex Schur form.

    The result is complex. Without disp (f(A), an estimate of the relative error in the 1-norm). It has no derivative.

    >>> import fgrad.numpy as jnp, fgrad.scipy.linalg
    >>> fgrad.scipy.linalg.funm(jnp.array([[1.0, 1.0], [0.0, 3.0]]), lambda x: x ** 2).real
    Array([[1., 4.],
           [0., 9.]], dtype=float32)
    """
    t, z = _complex_schur(_square("funm", A))
    n = t.shape[0]
    pairs = jnp.asarray(np.array([(i, i + p) for p in range(1, n) for i in range(n - p)], np.int32).reshape(-1, 2))

    def entry(k, carry):
        f, least = carry
        i, j = pairs[k]
        between = (jnp.arange(n) > i) & (jnp.arange(n) < j)
        s = t[i, j] * (f[j, j] - f[i, i]) + jnp.sum(jnp.where(between, t[i] * f[:, j] - f[i] * t[:, j], 0))
        gap = t[j, j] - t[i, i]
        value = jnp.where(gap != 0, s / jnp.where(gap != 0, gap, 1), s)
        return f.at[i, j].set(value), jnp.minimum(least, jnp.abs(gap))

    start = jnp.diag(jnp.asarray(func(jnp.diag(t)), t.dtype)), jnp.abs(t[0, 0])
    f, least = lax.fori_loop(0, pairs.shape[0], entry, start)
    out = z @ f @ X.mH(z)
    if disp:
        return out
    eps = jnp.finfo(t.dtype).eps
    bound = jnp.maximum(eps, eps / jnp.where(least == 0, eps, least) * jnp.linalg.norm(jnp.triu(t, 1), 1))
    return out, jnp.where(jnp.any(jnp.isinf(out)), np.inf, jnp.minimum(1, bound))


def _sylvester_schur(a, b, c):
    """Bartels and Stewart, Comm. ACM 15 (1972): with a = U R U^H and b = V S V^H, R Y + Y S = U^H c V, a column at a time."""
    (r, u), (s, v) = _complex_schur(a), _complex_schur(b)
    f = X.mH(u) @ c.astype(u.dtype) @ v
    eye = jnp.eye(a.shape[0], dtype=r.dtype)

    def column(j, y):
        rhs = f[:, j] - y @ jnp.where(jnp.arange(s.shape[0]) < j, s[:, j], jnp.zeros_like(s[:, j]))
        return y.at[:, j].set(L.triangular_solve(r + s[j, j] * eye, rhs, left_side=True))

    return u @ lax.fori_loop(0, s.shape[0], column, jnp.zeros_like(f)) @ X.mH(v)


def _sylvester_eigen(a, b, c):
    (wa, va), (wb, vb) = jnp.linalg.eig(a), jnp.linalg.eig(b)
    f = jnp.linalg.solve(va, c.astype(va.dtype) @ vb)
    return va @ (f / (wa[:, None] + wb)) @ jnp.linalg.inv(vb)


def solve_sylvester(A, B, C, *, method="schur", tol=1e-8):
    """X with A X + X B = C, for A (..., m, m), B (..., n, n), C (..., m, n), by Schur decompositions or (method "eigen") eigenvectors.

    NaN where an eigenvalue of A and one of B add up to less than tol. It has no derivative.
    """
    a, b, c = jnp.promote_dtypes_inexact(*[as_array("solve_sylvester", v, i) for i, v in enumerate((A, B, C))])
    if c.ndim < 2 or a.shape[-2:] != (c.shape[-2],) * 2 or b.shape[-2:] != (c.shape[-1],) * 2:
        raise ValueError(f"Incompatible shapes for Sylvester equation:\nA: {a.shape}\nB: {b.shape}\nC: {c.shape}")
    if method not in ("schur", "eigen"):
        raise ValueError(f'Unrecognized method {method}. The two valid methods are either "schur" or "eigen".')

    def one(a, b, c):
        x = (_sylvester_schur if method == "schur" else _sylvester_eigen)(a, b, c)
        x = x if c.dtype.kind == "c" else jnp.real(x)
        gaps = jnp.abs(jnp.linalg.eigvals(a)[:, None] + jnp.linalg.eigvals(b))
        return jnp.where(jnp.any(gaps < tol), jnp.asarray(jnp.nan, x.dtype), x)

    return jnp.vectorize(one, signature="(m,m),(n,n),(m,n)->(m,n)")(a, b, c)


# --- polar decomposition --------------------------------------------------------------------------------------------------


def polar(a, side="right", *, method="qdwh", eps=None, max_iterations=None):
    """(u, p) with a = u p, or a = p u with side "left": u has orthonormal columns or rows, p is Hermitian and not negative.

    It is computed by singular values, whatever `method` ("qdwh" or "svd") says; eps and max_iterations are accepted and ignored.
    """
    (a,) = jnp.promote_dtypes_inexact(as_array("polar", a))
    if a.ndim < 2:
        raise ValueError(f"The input `a` must be at least a 2-D array, got shape {a.shape}.")
    if side not in ("right", "left"):
        raise ValueError("The argument `side` must be either 'right' or 'left'.")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"Unknown polar decomposition method {method}.")
    u, s, vh = S.svd(a, full_matrices=False)
    base = X.mH(vh) if side == "right" else u
    return (u @ vh).astype(a.dtype), (base * s[..., None, :].astype(base.dtype)) @ X.mH(base)
