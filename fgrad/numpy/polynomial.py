"""Polynomials as 1-D arrays of coefficients, the highest power first."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.control.loops import scan
from fgrad.numpy.calculus import _arrays, convolve, vander
from fgrad.numpy.creation import arange, array, eye, ones, zeros
from fgrad.numpy.edit import trim_zeros
from fgrad.numpy.factor import eigvals, inv, lstsq
from fgrad.numpy.manipulation import atleast_1d, concatenate, roll
from fgrad.numpy.products import outer
from fgrad.numpy.reductions import cumsum, sum
from fgrad.numpy.selection import where
from fgrad.numpy.sorting import argsort
from fgrad.numpy.ufuncs import sqrt
from fgrad.numpy.util import as_array, broadcast_shape, concrete, promote_dtypes_inexact, spread
from fgrad.ops.rules import full

__all__ = ["poly", "polyval", "polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint", "polyfit", "roots"]


def _coefficients(name, p):
    if p.ndim != 1:
        raise ValueError(f"{name}: coefficients must be a 1-D array, got shape {p.shape}")
    return p


def poly(seq_of_zeros):
    """The polynomial with given roots (a 1-D array, or a square matrix's eigenvalues) and leading coefficient 1.

    >>> import fgrad.numpy as jnp
    >>> jnp.poly(jnp.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (roots,) = _arrays("poly", (seq_of_zeros,), inexact=True)
    roots = atleast_1d(roots)
    if roots.ndim == 2 and roots.shape[0] == roots.shape[1] > 0:
        roots = eigvals(roots)
    if roots.ndim != 1:
        raise ValueError("input must be 1d or non-empty square 2d array.")
    if not roots.size:
        return ones((), roots.dtype)
    out = ones(1, roots.dtype)
    for i in range(roots.size):
        out = convolve(out, concatenate([ones(1, roots.dtype), -roots[i : i + 1]]))
    return out


@eager(2)
def polyval(p, x, *, unroll=16):
    """The polynomial's value at x, by Horner's rule. p may have further axes, which broadcast with x."""
    p, x = _arrays("polyval", (p, x))
    if not p.ndim:
        raise ValueError("polyval: the coefficients p must have an axis, got a single number")
    shape = broadcast_shape(p.shape[1:], x.shape)
    x = spread(x, shape)
    if p.shape[0] <= unroll:
        y = full(shape, 0, x.dtype)
        for i in range(p.shape[0]):
            y = y * x + p[i]
        return y
    return scan(lambda y, c: (y * x + c, None), full(shape, 0, x.dtype), p, unroll=unroll)[0]


def polyadd(a1, a2):
    """Sum of two polynomials, whose coefficients stand along the first axis; further axes broadcast."""
    a, b = (atleast_1d(p) for p in _arrays("polyadd", (a1, a2)))
    a, b = (a, b) if a.shape[0] >= b.shape[0] else (b, a)
    return a.at[a.shape[0] - b.shape[0] :].add(b)


def polysub(a1, a2):
    """Difference of two polynomials."""
    a, b = _arrays("polysub", (a1, a2))
    return polyadd(a, -b)


def polymul(a1, a2, *, trim_leading_zeros=False):
    """Product of two polynomials. trim_leading_zeros needs concrete arrays."""
    a, b = (_coefficients("polymul", p) for p in _arrays("polymul", (a1, a2), inexact=True))
    if trim_leading_zeros and (a.size > 1 or b.size > 1):
        a, b = trim_zeros(a, "f"), trim_zeros(b, "f")
    a, b = (p if p.size else zeros(1, p.dtype) for p in (a, b))
    return convolve(a, b)


def polydiv(u, v, *, trim_leading_zeros=False):
    """(quotient, remainder) of polynomials; the remainder keeps u's size unless trim_leading_zeros, which needs concrete arrays."""
    u, v = (_coefficients("polydiv", p) for p in _arrays("polydiv", (u, v), inexact=True))
    steps = u.size - v.size + 1
    quotient = []
    for k in range(steps):
        q = u[k] / v[0]
        quotient.append(q.reshape(1))
        u = u.at[k : k + v.size].add(-q * v)
    q = concatenate(quotient) if quotient else zeros(1, u.dtype)
    if trim_leading_zeros:
        small = np.abs(np.asarray(u)) <= np.sqrt(np.finfo(u.dtype).eps)
        keep = np.flatnonzero(~small)
        u = u[int(keep[0]) :] if keep.size else u[:0]
    return q, u


def polyder(p, m=1):
    """The m-th derivative of a polynomial."""
    (p,) = _arrays("polyder", (p,), inexact=True)
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of derivative must be positive")
    for _ in range(m):
        n = p.size - 1
        p = p[:-1] * array(np.arange(n, 0, -1), p.dtype) if n > 0 else p[:0]
    return p


def polyint(p, m=1, k=None):
    """The m-th integral of a polynomial, with constants k (a number, or one per integration, the first one's first)."""
    p, k = _arrays("polyint", (p, 0 if k is None else k), inexact=True)
    m = operator.index(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = atleast_1d(k)
    k = spread(k, (m,)) if k.size == 1 else k
    if k.shape != (m,):
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or m.")
    for i in range(m):
        p = concatenate([p / array(np.arange(p.size, 0, -1), p.dtype), k[i : i + 1]])
    return p


def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """Coefficients of the polynomial of degree `deg` that is closest to y (n,) or (n, k) at the points x (n,), in least squares.

    w: weights (n,) of the differences, before they are squared. rcond: see linalg.lstsq; n eps by default. full: (coefficients,
    residuals, rank, singular values, rcond). cov: (coefficients, their covariance), not scaled by the residuals with "unscaled".
    """
    x, y = (as_array("polyfit", v, i) for i, v in enumerate((x, y)))
    deg = operator.index(deg)
    order = deg + 1
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if x.ndim != 1 or not x.size:
        raise TypeError(f"polyfit: expected a non-empty vector for x, got shape {x.shape}")
    if y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise TypeError(f"polyfit: expected y of shape (n,) or (n, k) with n as in x {x.shape}, got {y.shape}")
    x, y = promote_dtypes_inexact(x, y)
    if rcond is None:
        rcond = x.size * float(dtypes.finfo(x.dtype).eps)
    columns, target = vander(x, order), y
    if w is not None:
        (w,) = promote_dtypes_inexact(w)
        if w.shape != x.shape:
            raise TypeError(f"polyfit: expected weights of shape {x.shape}, got {w.shape}")
        columns, target = columns * w[:, None], target * (w[:, None] if y.ndim == 2 else w)
    scale = sqrt(sum(columns * columns, 0))
    columns = columns / scale
    c, resid, rank, s = lstsq(columns, target, rcond)
    c = c / (scale[:, None] if y.ndim == 2 else scale)
    if full:
        return c, resid, rank, s, array(rcond, dtypes.float_dtype())
    if not cov:
        return c
    base = inv(columns.T @ columns) / outer(scale, scale)
    if cov == "unscaled":
        factor = ones((1,), base.dtype)
    else:
        if x.size <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = resid / (x.size - order)
    return c, base * factor if y.ndim == 1 else base[:, :, None] * factor


def _companion_roots(p):
    if p.size < 2:
        return zeros(0, dtypes.to_complex(p.dtype))
    companion = eye(p.size - 1, k=-1, dtype=p.dtype)
    return eigvals(companion.at[0].set(-p[1:] / p[0]))


def roots(p, *, strip_zeros=True):
    """The complex roots of a polynomial with the coefficients p (1-D), as eigenvalues of its companion matrix.

    Leading zeros are stripped, for which p must be concrete; with strip_zeros=False they give NaN at the end.
    """
    (p,) = _arrays("roots", (atleast_1d(p),), inexact=True)
    p = _coefficients("roots", p)
    if p.size < 2:
        return zeros(0, dtypes.to_complex(p.dtype))
    if strip_zeros:
        nonzero = np.flatnonzero(concrete("roots", p, "Pass strip_zeros=False, or call it outside jit and vmap."))
        return _companion_roots(p[int(nonzero[0]) if nonzero.size else p.size :])
    leading = sum(cumsum((p != 0).astype(np.int32)) == 0)
    p = where(leading == p.size, ones((), p.dtype), p)
    found = _companion_roots(roll(p, -leading))
    found = found[argsort((found == 0).astype(np.int32), stable=True)]
    return where(arange(found.size) < found.size - leading, found, array(complex(np.nan, np.nan), found.dtype))
