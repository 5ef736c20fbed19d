"""The numpy.linalg surface: norms, powers and products here, what needs LAPACK from factor.py."""

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import manipulation as M
from fgrad.numpy import products as P
from fgrad.numpy import reductions as R
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import eye
from fgrad.numpy.factor import (
    cholesky,
    cond,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
)
from fgrad.numpy.factor import matrix_norm_of as _matrix_norm_of
from fgrad.numpy.util import as_array, axis_index, axis_tuple, spread, unary
from fgrad.ops import elementwise as E

__all__ = [
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_rank", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensorinv", "tensorsolve",
    "norm", "vector_norm", "matrix_norm", "matrix_power", "multi_dot", "cross", "diagonal", "trace", "outer", "matmul",
    "matrix_transpose", "vecdot", "tensordot",
]  # fmt: skip

matmul, matrix_transpose, tensordot = P.matmul, M.matrix_transpose, P.tensordot


def _root_of_squares(x, axes, keepdims):
    return U.sqrt(R.sum(E.real(E.mul(x, E.conj(x))) if x.dtype.kind == "c" else E.square(x), axes, keepdims=keepdims))


@eager(1)
def norm(x, ord=None, axis=None, keepdims=False):
    """Vector norms over one axis, matrix norms over two, and of all elements together where neither ord nor axis is given.

    ord for vectors: see vector_norm; for matrices: None or "fro", 1 and -1 (the greatest and least sum of a column's magnitudes), inf
    and -inf (of a row's), 2 and -2 (the greatest and least singular value), "nuc" (the sum of the singular values).
    """
    x = unary("norm", x, inexact=True)
    if axis is None and ord is None:
        return _root_of_squares(x, None, keepdims)
    axes = axis_tuple(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(
            f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, or two for a matrix-norm."
        )
    return _matrix_norm_of(x, ord, axes, keepdims)


@eager(1)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """(sum |x|**ord)**(1/ord) over axes (all by default); ord inf and -inf: the greatest and least |x|; 0: how many are nonzero."""
    x = unary("vector_norm", x, inexact=True)
    if isinstance(ord, str):
        raise ValueError(f"Invalid order '{ord}' for vector norm. Infinity is fgrad.numpy.inf.")
    if ord is None or ord == 2:
        return _root_of_squares(x, axis, keepdims)
    if ord == 0:
        return R.sum(x != 0, axis, dtypes.to_real(x.dtype), keepdims=keepdims)
    size = U.absolute(x)
    if ord == np.inf:
        return R.max(size, axis, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return R.min(size, axis, keepdims=keepdims)
    if ord == 1:
        return R.sum(size, axis, keepdims=keepdims)
    return U.power(R.sum(U.power(size, ord), axis, keepdims=keepdims), 1 / ord)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """norm over the last two axes."""
    return norm(x, ord, (-2, -1), keepdims)


def matrix_power(a, n):
    """The matrix product of n copies of each square matrix, by repeated squaring; of their inverses for a negative int n."""
    x = as_array("matrix_power", a)
    if x.ndim < 2:
        raise TypeError(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional")
    if x.shape[-1] != x.shape[-2]:
        raise TypeError(f"Last 2 dimensions of the array must be square, got shape {x.shape}")
    if not isinstance(n, (int, np.integer)):
        raise TypeError(f"exponent must be an integer, got {n}")
    if n < 0:
        x, n = inv(x), -n
    if n == 0:
        return spread(eye(x.shape[-1], dtype=x.dtype), x.shape)
    out = None
    while n:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        x = matmul(x, x) if n else x
    return out


@eager(-1)
def multi_dot(arrays, *, precision=None):
    """The product of several matrices in the cheapest order; the first and the last may be vectors."""
    xs = [as_array("multi_dot", x, i) for i, x in enumerate(arrays)]
    if len(xs) < 2:
        raise ValueError(f"multi_dot requires at least two arrays; got len(arrays)={len(xs)}")
    if xs[0].ndim not in (1, 2) or xs[-1].ndim not in (1, 2) or any(x.ndim != 2 for x in xs[1:-1]):
        raise ValueError(f"multi_dot: arrays must be matrices, the first and last may be vectors; got shapes {[x.shape for x in xs]}")
    if any(a.shape[-1] != b.shape[0] for a, b in zip(xs, xs[1:])):
        raise ValueError(f"multi_dot: neighbouring arrays must share a dimension; got shapes {[x.shape for x in xs]}")
    letters = [chr(ord_) for ord_ in range(ord("a"), ord("a") + 26)] + [chr(c) for c in range(ord("A"), ord("A") + 26)]
    if len(xs) > 50:
        return multi_dot([multi_dot(xs[:25], precision=precision), *xs[25:]], precision=precision)
    terms = [letters[i] + letters[i + 1] for i in range(len(xs))]
    terms[0] = terms[0] if xs[0].ndim == 2 else terms[0][1]
    terms[-1] = terms[-1] if xs[-1].ndim == 2 else terms[-1][0]
    result = (letters[0] if xs[0].ndim == 2 else "") + (letters[len(xs)] if xs[-1].ndim == 2 else "")
    return P.einsum(f"{','.join(terms)}->{result}", *xs, precision=precision)


def cross(x1, x2, /, *, axis=-1):
    """The vector product of 3-vectors along `axis`."""
    a, b = as_array("cross", x1), as_array("cross", x2, 1)
    if a.shape[axis_index(axis, a.ndim)] != 3 or b.shape[axis_index(axis, b.ndim)] != 3:
        raise ValueError(f"Both input arrays must be (arrays of) 3-dimensional vectors, got shapes {a.shape} and {b.shape} ({axis=})")
    return P.cross(a, b, axis=axis)


def outer(x1, x2, /):
    """The products of every element of one vector with every element of another."""
    a, b = as_array("outer", x1), as_array("outer", x2, 1)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={a.ndim} x2.ndim={b.ndim}")
    return P.outer(a, b)


def diagonal(x, /, *, offset=0):
    """The diagonals of matrices, the last two axes."""
    return M.diagonal(x, offset, -2, -1)


def trace(x, /, *, offset=0, dtype=None):
    """The sums of the diagonals of matrices, the last two axes."""
    return M.trace(x, offset, -2, -1, dtype)


def vecdot(x1, x2, /, *, axis=-1, precision=None, preferred_element_type=None):
    """The products conj(x1) . x2 of vectors along `axis`."""
    return P.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)
