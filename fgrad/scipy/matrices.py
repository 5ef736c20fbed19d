"""Matrices with a structure: Toeplitz, companion, Hadamard and their like."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.numpy.util import as_array, promoted


def block_diag(*arrs):
    """The matrix with these matrices (vectors are rows, numbers 1x1) along its diagonal and zeros elsewhere."""
    blocks = [as_array("block_diag", a, i) for i, a in enumerate(arrs)] or [jnp.zeros((1, 0))]
    for i, a in enumerate(blocks):
        if a.ndim > 2:
            raise ValueError(f"Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions, got {a.shape} at argument {i}.")
    blocks = [jnp.atleast_2d(a) for a in promoted("block_diag", blocks)]
    width, at, out = sum(b.shape[1] for b in blocks), 0, []
    for b in blocks:
        out.append(jnp.pad(b, ((0, 0), (at, width - at - b.shape[1]))))
        at += b.shape[1]
    return jnp.concatenate(out, 0)


def _vectors(name, *args):
    """Arguments of one dtype with leading axes that broadcast."""
    xs = promoted(name, [jnp.atleast_1d(as_array(name, a, i)) for i, a in enumerate(args)])
    batch = jnp.broadcast_shapes(*[x.shape[:-1] for x in xs])
    return [jnp.broadcast_to(x, (*batch, x.shape[-1])) for x in xs]


def toeplitz(c, r=None):
    """Matrices (..., m, n), constant along diagonals, with first column c (..., m) and first row r (..., n), by default conj(c).

    r's first element is not used.

    >>> import fgrad.numpy as jnp
    >>> toeplitz(jnp.array([1, 2, 3]))
    Array([[1, 2, 3],
           [2, 1, 2],
           [3, 2, 1]], dtype=int32)
    """
    c, r = _vectors("toeplitz", c, jnp.conj(as_array("toeplitz", c)) if r is None else r)
    m, n = c.shape[-1], r.shape[-1]
    if not m or not n:
        return jnp.zeros((*c.shape[:-1], m, n), c.dtype)
    diagonals = jnp.concatenate([jnp.flip(c, -1), r[..., 1:]], -1)
    return diagonals[..., np.arange(m)[::-1, None] + np.arange(n)]


def hankel(c, r=None):
    """Matrices (..., m, n), constant along anti-diagonals, with first column c (..., m) and last row r (..., n), by default zeros.

    r's first element is not used.
    """
    c = as_array("hankel", c)
    r = jnp.zeros_like(c) if r is None else as_array("hankel", r, 1)
    if not c.ndim or not r.ndim:
        raise ValueError("hankel: c and r must be at least 1-dimensional, got a scalar.")
    c, r = _vectors("hankel", c, r)
    m, n = c.shape[-1], r.shape[-1]
    if not m or not n:
        return jnp.zeros((*c.shape[:-1], m, n), c.dtype)
    return jnp.concatenate([c, r[..., 1:]], -1)[..., np.arange(m)[:, None] + np.arange(n)]


def circulant(c):
    """Matrices (..., n, n) whose first column is c, each further one the one before moved down by one place."""
    (c,) = _vectors("circulant", c)
    n = c.shape[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


def leslie(f, s):
    """Matrices (..., n, n) with first row f (..., n) and first subdiagonal s (..., n - 1): populations by age."""
    f, s = _vectors("leslie", f, s)
    n = f.shape[-1]
    if n < 2 or s.shape[-1] != n - 1:
        raise ValueError(f"leslie: f (..., n) with n at least 2 and s (..., n - 1) expected, got {f.shape} and {s.shape}")
    at = np.arange(n - 1)
    return jnp.zeros((*f.shape, n), f.dtype).at[..., 0, :].set(f).at[..., at + 1, at].set(s)


def _polynomial(name, a):
    (a,) = jnp.promote_dtypes_inexact(jnp.atleast_1d(as_array(name, a)))
    return a


def companion(a):
    """Matrices (..., n - 1, n - 1) whose eigenvalues are the roots of polynomials with coefficients a (..., n), the highest power first."""
    a = _polynomial("companion", a)
    if a.shape[-1] < 2:
        raise ValueError(f"The length of `a` along the last axis must be at least 2; got shape {a.shape}.")
    row = -a[..., 1:] / a[..., :1]
    n = row.shape[-1]
    return jnp.broadcast_to(jnp.eye(n, k=-1, dtype=row.dtype), (*row.shape, n)).at[..., 0, :].set(row)


def fiedler(a):
    """|a[..., i] - a[..., j]|."""
    a = jnp.atleast_1d(as_array("fiedler", a))
    return jnp.abs(a[..., :, None] - a[..., None, :])


def fiedler_companion(a):
    """Pentadiagonal matrices (..., n - 1, n - 1) whose eigenvalues are the roots of polynomials with coefficients a (..., n).

    M. Fiedler, A note on companion matrices, Linear Algebra Appl. 372 (2003).
    """
    a = _polynomial("fiedler_companion", a)
    if not a.shape[-1]:
        raise ValueError(f"fiedler_companion requires the last axis of 'a' to have nonzero length, but got an array of shape {a.shape}.")
    n = a.shape[-1] - 1
    out = jnp.zeros((*a.shape[:-1], n, n), a.dtype)
    if not n:
        return out
    a = a / a[..., :1]
    out = out.at[..., 0, 0].set(-a[..., 1])
    if n == 1:
        return out
    out = out.at[..., 1, 0].set(1)
    even = np.arange(0, n, 2)
    for rows, step, value in ((even[even + 1 < n], 1, True), (even[even + 2 < n], 2, False), (even[even >= 2], -1, True)):
        # -a[i + 2] right of the diagonal of even rows, -a[i + 1] left of it
        out = out.at[..., rows, rows + step].set(-a[..., rows + (2 if step == 1 else 1)] if value else 1)
    odd = np.arange(3, n, 2)
    return out.at[..., odd, odd - 2].set(1)


def convolution_matrix(a, n, mode="full"):
    """Matrices whose product with a vector of n elements is its convolution with a (..., m); mode: "full", "same" or "valid"."""
    n, a = operator.index(n), as_array("convolution_matrix", a)
    if n <= 0:
        raise ValueError(f"n must be a positive integer; got {n}.")
    if not a.ndim or not a.shape[-1]:
        raise ValueError(f"convolution_matrix: a must have at least one element along its last axis, got shape {a.shape}")
    if mode not in ("full", "valid", "same"):
        raise ValueError(f"mode must be one of 'full', 'valid', 'same'; got {mode!r}.")
    m = a.shape[-1]
    zeros = jnp.zeros((*a.shape[:-1], n - 1), a.dtype)
    column = jnp.concatenate([a, zeros], -1)
    full = toeplitz(column, jnp.concatenate([a[..., :1], zeros], -1))
    cut = min(n, m) - 1
    first, last = {"full": (0, 0), "same": (cut // 2, cut - cut // 2), "valid": (cut, cut)}[mode]
    return full[..., first : m + n - 1 - last, :]


def hilbert(n):
    """1 / (i + j + 1)."""
    i = np.arange(n)
    return 1 / jnp.asarray(i[:, None] + i + 1, dtypes.float_dtype())


def _exact(rows, dtype):
    """Integers of any size, rounded once."""
    return jnp.asarray(np.array([[float(x) for x in row] for row in rows]).reshape(len(rows), len(rows)), dtype)


def invhilbert(n):
    """The inverse of hilbert(n), whose elements are integers, rounded to floats."""
    c = math.comb

    def element(i, j):
        return (-1) ** (i + j) * (i + j + 1) * c(n + i, n - j - 1) * c(n + j, n - i - 1) * c(i + j, i) ** 2

    return _exact([[element(i, j) for j in range(n)] for i in range(n)], dtypes.float_dtype())


def _triangle(kind, lower, product):
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f"Expected kind to be one of: ['symmetric', 'lower', 'upper']; got {kind}")
    return lower if kind == "lower" else lower.T if kind == "upper" else product(lower)


def _binomials(n):
    """The lower triangular matrix of exact binomials (i, j); one too large for memory raises before any is computed."""
    lower = np.empty((n, n), object)
    for i in range(n):
        lower[i] = [math.comb(i, j) for j in range(n)]
    return lower


def pascal(n, kind=None):
    """Pascal's triangle as a matrix, float32: symmetric (binomials (i + j, i)), or its "lower" or "upper" triangular factor."""
    lower = _binomials(n)
    return _exact(_triangle(kind, lower, lambda x: x @ x.T).tolist(), jnp.float32)


def invpascal(n, kind=None):
    """The inverse of pascal(n, kind)."""
    lower = _binomials(n)
    lower[::2, 1::2] *= -1
    lower[1::2, ::2] *= -1
    return _exact(_triangle(kind, lower, lambda x: x.T @ x).tolist(), dtypes.float_dtype())


def helmert(n, full=False):
    """The n - 1 orthonormal rows that compare each element with those before it; full adds the constant row in front."""
    if n < 1:
        raise ValueError(f"n must be a positive integer; got {n}.")
    k = np.arange(1, n)[:, None]
    j = np.arange(n)
    rows = np.where(j < k, 1.0, np.where(j == k, -k, 0.0)) / np.sqrt(k * (k + 1.0))
    rows = np.concatenate([np.full((1, n), 1 / math.sqrt(n)), rows]) if full else rows
    return jnp.asarray(rows, dtypes.float_dtype())


def hadamard(n, dtype=int):
    """The matrix of 1 and -1 with orthogonal rows that Sylvester's doubling gives; n is a power of 2."""
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(f"n must be a positive power of 2; got {n}.")
    h = np.ones((n, n), np.int8)
    for k in (1 << i for i in range(n.bit_length() - 1)):
        known = h[:k, :k]
        h[:k, k : 2 * k], h[k : 2 * k, :k], h[k : 2 * k, k : 2 * k] = known, known, -known
    return jnp.asarray(h, dtypes.canonicalize_dtype(dtype))


def dft(n, scale=None, *, dtype=None):
    """The matrix of the discrete Fourier transform, divided by sqrt(n) with scale "sqrtn", by n with "n"."""
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"scale must be None, 'sqrtn', or 'n'; got {scale!r}.")
    dtype = dtypes.to_complex(dtypes.float_dtype()) if dtype is None else dtypes.canonicalize_dtype(dtype)
    if dtype.kind != "c":
        raise ValueError(f"dtype must be a complex floating-point type; got {dtype}.")
    i = np.arange(n)
    turns = np.exp(-2j * np.pi * (np.outer(i, i) % max(n, 1)) / max(n, 1))
    return jnp.asarray(turns / {None: 1, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale], dtype)
