"""Krylov methods for linear systems given by a function: cg, bicgstab and gmres.

Vectors are pytrees of arrays. Derivatives are implicit (lax.custom_linear_solve): a second solve, with the same method and
tolerance, of the transposed system, whatever the number of iterations was.
"""

import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import array_tree as tree
from fgrad import lax
from fgrad.flatten_util import ravel_pytree


def _operator(name, f):
    """A function of a vector from a function, a square matrix or anything else with @; None is the identity."""
    if f is None:
        return lambda x: x
    if callable(f):
        return f
    if not hasattr(f, "__matmul__"):
        raise TypeError(f"{name} must be a function, a square matrix or None, got {type(f).__name__}: {f!r}")
    if len(f.shape) != 2 or f.shape[0] != f.shape[1]:
        raise ValueError(f"linear operator must be a square matrix, but has shape: {f.shape}")
    return (jnp.asarray(f) if isinstance(f, np.ndarray) else f).__matmul__


def _add(x, y):
    return tree.map(operator.add, x, y)


def _sub(x, y):
    return tree.map(operator.sub, x, y)


def _scaled(scale, x):
    return tree.map(lambda v: scale * v, x)


def _vdot(x, y):
    return sum(tree.leaves(tree.map(jnp.vdot, x, y)))


def _vdot_real(x, y):
    return jnp.real(_vdot(x, y))


def _norm(x):
    return jnp.sqrt(_vdot_real(x, x))


def _prepared(A, b, x0, maxiter, M):
    """(A, b, x0, maxiter, M) as functions, arrays and numbers."""
    A, M = _operator("A", A), _operator("M", M)
    x0 = tree.map(jnp.zeros_like, b) if x0 is None else x0
    if tree.structure(x0) != tree.structure(b):
        raise ValueError(f"x0 and b must have matching tree structure: {tree.structure(x0)} vs {tree.structure(b)}")
    b, x0 = tree.map(jnp.asarray, b), tree.map(jnp.asarray, x0)
    shapes = [[v.shape for v in tree.leaves(t)] for t in (x0, b)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"arrays in x0 and b must have matching shapes: {shapes[0]} vs {shapes[1]}")
    dtype = jnp.result_type(*tree.leaves(b), *tree.leaves(x0), jnp.float32 if not tree.leaves(b) else tree.leaves(b)[0])
    if dtype.kind not in "fc":
        b, x0 = (tree.map(lambda v: v.astype(float), t) for t in (b, x0))
    x0 = tree.map(lambda v, like: v.astype(jnp.result_type(v, like)), x0, b)
    b = tree.map(lambda v, like: v.astype(like.dtype), b, x0)
    return A, b, x0, 10 * sum(v.size for v in tree.leaves(b)) if maxiter is None else maxiter, M


def _cg(A, b, x0, maxiter, tol, atol, M):
    limit = jnp.maximum(tol**2 * _vdot_real(b, b), atol**2)

    def step(state):
        x, r, rz, p, k, _ = state
        ap = A(p)
        alpha = rz / _vdot_real(p, ap)
        x, r = _add(x, _scaled(alpha, p)), _sub(r, _scaled(alpha, ap))
        z = M(r)
        rz, before = _vdot_real(r, z), rz
        return x, r, rz, _add(z, _scaled(rz / before, p)), k + 1, _vdot_real(r, r)

    r = _sub(b, A(x0))
    z = M(r)
    state = x0, r, _vdot_real(r, z), z, 0, _vdot_real(r, r)
    return lax.while_loop(lambda s: (s[-1] > limit) & (s[-2] < maxiter), step, state)[0]


def _bicgstab(A, b, x0, maxiter, tol, atol, M):
    limit = jnp.maximum(tol**2 * _vdot_real(b, b), atol**2)

    def step(state):
        x, r, p, q, rho, alpha, omega, k, _ = state
        rho, before = _vdot(shadow, r), rho
        beta = rho / before * (alpha / omega)
        p = _add(r, _scaled(beta, _sub(p, _scaled(omega, q))))
        p1 = M(p)
        q = A(p1)
        alpha = rho / _vdot(shadow, q)
        half = _sub(r, _scaled(alpha, q))
        early = _vdot_real(half, half) < limit  # then omega would be 0 / 0
        s1 = M(half)
        t = A(s1)
        omega = _vdot(t, half) / _vdot(t, t)
        x = _add(x, _scaled(alpha, p1))
        x = tree.map(lambda v, s: jnp.where(early, v, v + omega * s), x, s1)
        r = tree.map(lambda v, w: jnp.where(early, v, v - omega * w), half, t)
        broken = (rho == 0) | (alpha == 0) | (omega == 0)
        return x, r, p, q, rho, alpha, omega, jnp.where(broken, maxiter, k + 1), _vdot_real(r, r)

    shadow = r = _sub(b, A(x0))
    one = jnp.ones((), jnp.result_type(*tree.leaves(b)))
    state = x0, r, r, r, one, one, one, 0, _vdot_real(r, r)
    first = tree.map(jnp.zeros_like, r)
    state = (x0, r, first, first, *state[4:])
    return lax.while_loop(lambda s: (s[-1] > limit) & (s[-2] < maxiter), step, state)[0]


def _solved(method, A, b, x0, tol, atol, maxiter, M, symmetric):
    A, b, x0, maxiter, M = _prepared(A, b, x0, maxiter, M)
    solve = lambda A, b: method(A, b, x0, maxiter, tol, atol, M)
    symmetric = symmetric and all(v.dtype.kind != "c" for v in tree.leaves(b))
    return lax.custom_linear_solve(A, b, solve=solve, transpose_solve=solve, symmetric=symmetric), None


def cg(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """Solve A x = b for a Hermitian positive definite A by conjugate gradients; returns (x, None).

    A: a function of a pytree like b, or a square matrix. M: an approximate inverse of A, likewise. It stops when the residual's norm is
    at most max(tol * norm(b), atol), or after maxiter steps (ten times the number of unknowns by default). Raises ValueError for
    matrices that are not square and for an x0 unlike b.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.sparse.linalg import cg
    >>> cg(lambda x: 2 * x, jnp.array([2.0, 4.0]))[0]
    Array([1., 2.], dtype=float32)
    """
    return _solved(_cg, A, b, x0, tol, atol, maxiter, M, True)


def bicgstab(A, b, x0=None, *, tol=1e-5, atol=0.0, maxiter=None, M=None):
    """Solve A x = b by the stabilised biconjugate gradient method; arguments and result are those of `cg`, A may be any.

    H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992).
    """
    return _solved(_bicgstab, A, b, x0, tol, atol, maxiter, M, False)


# --- GMRES ----------------------------------------------------------------------------------------------------------------


def _rotated(column, cosines, sines, k):
    """The column of the Hessenberg matrix after the first k rotations."""

    def turn(i, h):
        a, b = h[i], h[i + 1]
        return h.at[i].set(cosines[i].conj() * a + sines[i] * b).at[i + 1].set(cosines[i] * b - sines[i] * a)

    return lax.fori_loop(0, k, turn, column)


def _cycle(apply, x, r, norm, limit, restart):
    """One cycle of at most `restart` Arnoldi steps from residual r: the better x."""
    dtype, real = r.dtype, norm.dtype

    def step(state):
        k, basis, triangle, rhs, cosines, sines, _ = state
        w = apply(basis[k])
        h = jnp.zeros(restart + 1, dtype)
        for _ in range(2):  # classical Gram-Schmidt, twice: orthogonal to rounding
            part = basis.conj() @ w
            w, h = w - part @ basis, h + part
        size = _norm(w)
        gone = size <= jnp.finfo(real).eps * _norm(h)  # the space is invariant: x is exact
        size = jnp.where(gone, 0, size)
        basis = basis.at[k + 1].set(jnp.where(gone, 0, w / jnp.where(gone, 1, size).astype(dtype)))
        h = _rotated(h.at[k + 1].set(size.astype(dtype)), cosines, sines, k)
        length = jnp.sqrt(abs(h[k]) ** 2 + size**2)
        safe = jnp.where(length == 0, 1, length)
        c, s = h[k] / safe.astype(dtype), (size / safe).astype(dtype)
        triangle = triangle.at[:, k].set(h[:restart].at[k].set(jnp.where(length == 0, 1, length).astype(dtype)))
        rhs, last = rhs.at[k].set(c.conj() * rhs[k]).at[k + 1].set(-s * rhs[k]), abs(s * rhs[k])
        return k + 1, basis, triangle, rhs, cosines.at[k].set(c), sines.at[k].set(s), last

    start = (
        0,
        jnp.zeros((restart + 1, r.size), dtype).at[0].set(r / jnp.where(norm == 0, 1, norm).astype(dtype)),
        jnp.eye(restart, dtype=dtype),
        jnp.zeros(restart + 1, dtype).at[0].set(norm.astype(dtype)),
        jnp.zeros(restart, dtype),
        jnp.zeros(restart, dtype),
        norm,
    )
    k, basis, triangle, rhs, *_ = lax.while_loop(lambda s: (s[0] < restart) & (s[-1] > limit), step, start)
    rhs = jnp.where(jnp.arange(restart) < k, rhs[:restart], 0)
    inside = (jnp.arange(restart)[:, None] <= jnp.arange(restart)) | jnp.eye(restart, dtype=bool)
    y = lax.linalg.triangular_solve(jnp.where(inside, triangle, 0), rhs[:, None], left_side=True)[:, 0]
    return x + y @ basis[:restart]


def gmres(A, b, x0=None, *, tol=1e-5, atol=0.0, restart=20, maxiter=None, M=None, solve_method="batched"):
    """Solve A x = b for any A by the generalised minimal residual method; returns (x, info), info -1 where x is NaN and else 0.

    Arguments are those of `cg`. restart: how many vectors a cycle builds; maxiter: how many cycles. Both solve methods, "batched" and
    "incremental", rotate the Hessenberg matrix step by step, so that a cycle ends as soon as the residual is small. A cycle that does not
    lessen the residual, as at the limit of the precision, is the last.
    Y. Saad and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986).
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"invalid solve_method {solve_method}, must be either 'incremental' or 'batched'")
    A, b, x0, maxiter, M = _prepared(A, b, x0, maxiter, M)
    restart = min(restart, sum(v.size for v in tree.leaves(b)))

    def solve(A, b):
        flat, unravel = ravel_pytree(b)
        apply = lambda v: ravel_pytree(M(A(unravel(v))))[0]
        right = ravel_pytree(M(b))[0]
        norm_b = _norm(flat)
        limit = _norm(right) * jnp.minimum(1, jnp.maximum(tol * norm_b, atol) / jnp.where(norm_b == 0, 1, norm_b))

        def cycle(state):
            x, r, norm, k = state
            new_x = _cycle(apply, x, r, norm, limit, restart)
            new_r = right - apply(new_x)
            new_norm = _norm(new_r)
            stuck = new_norm >= norm  # another cycle from the same x would end as this one did
            k = jnp.where(stuck, maxiter, k + 1)
            return jnp.where(stuck, x, new_x), jnp.where(stuck, r, new_r), jnp.where(stuck, norm, new_norm), k

        x = ravel_pytree(x0)[0]
        r = right - apply(x)
        x = lax.while_loop(lambda s: (s[2] > limit) & (s[3] < maxiter), cycle, (x, r, _norm(r), 0))[0]
        return unravel(x)

    x = lax.custom_linear_solve(A, b, solve=solve, transpose_solve=solve)
    return x, jnp.where(jnp.isnan(_norm(x)), -1, 0)


__all__ = ["bicgstab", "cg", "gmres"]
