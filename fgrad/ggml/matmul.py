"""Matrix products. In ggml's mul_mat the rows of both operands are contracted: a is a weight matrix (outputs, inputs)."""

import fgrad.numpy as jnp
from fgrad.ggml.util import array, floats, grouped, need, need_rank
from fgrad.ops.fused import narrow, widen
from fgrad.ops.linalg import triangular_solve
from fgrad.ops.shape import reshape

__all__ = [
    "mul_mat",
    "mul_mat_id",
    "out_prod",
    "solve_tri",
]


def _batched(name, a, b):
    """a and b of one rank, a's leading axes repeated to b's: element i of b meets element i // (count / size) of a."""
    need(a.ndim >= 2 and b.ndim >= 2, name, f"both operands must be matrices or stacks of them, got {a.shape} and {b.shape}")
    ndim = max(a.ndim, b.ndim)
    a, b = (reshape(x, (1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    for i in range(ndim - 2):
        a = grouped(name, a, b.shape[i], i)
    return a, b


def mul_mat(a, b):
    """b @ a^T: a (..., n, k), b (..., m, k) give (..., m, n); b's leading axes are multiples of a's.

    >>> from fgrad import ggml
    >>> ggml.mul_mat([[1., 2.], [3., 4.], [5., 6.]], [[1., 0.]])
    Array([[1., 3., 5.]], dtype=float32)
    """
    a, b = _batched("mul_mat", *floats("mul_mat", a, b))
    need(a.shape[-1] == b.shape[-1], "mul_mat", f"rows of a {a.shape} and b {b.shape} must be equally long")
    return jnp.matmul(b, jnp.swapaxes(a, -1, -2))


def out_prod(a, b):
    """b^T @ a: a (..., n, m), b (..., n, p) give (..., p, m); b's leading axes are multiples of a's."""
    a, b = _batched("out_prod", *floats("out_prod", a, b))
    need(a.shape[-2] == b.shape[-2], "out_prod", f"a {a.shape} and b {b.shape} must have equally many rows")
    return jnp.matmul(jnp.swapaxes(b, -1, -2), a)


def mul_mat_id(as_, b, ids):
    """Products with the matrix that each id picks: out[t, u] = as_[ids[t, u]] @ b[t, u].

    as_: (experts, n, k); b: (tokens, used or 1, k); ids: (tokens, used) integers. The result is (tokens, used, n). The picked
    matrices are gathered: memory tokens * used * n * k.
    """
    as_, b = floats("mul_mat_id", as_, b)
    ids = array("mul_mat_id", ids)
    for what, x, n in (("as", as_, 3), ("b", b, 3), ("ids", ids, 2)):
        need_rank("mul_mat_id", what, x, n)
    t, u = ids.shape
    need(
        b.shape[0] == t and b.shape[1] and u % b.shape[1] == 0 and b.shape[2] == as_.shape[2],
        "mul_mat_id",
        f"b {b.shape} must be (tokens, used or 1, k) for ids {ids.shape} and matrices {as_.shape}",
    )
    b = jnp.tile(b, (1, u // b.shape[1], 1))
    return jnp.einsum("tunk,tuk->tun", as_[ids], b)


def solve_tri(a, b, left=True, lower=True, uni=False):
    """x with a @ x = b for triangular a: a (..., n, n), b (..., n, k); or with x @ a = b, b (..., k, n), when `left` is False.

    Only the triangle is read: the lower one, or the upper one when `lower` is False. uni: ones are read on the diagonal. (ggml has
    left = lower = True and uni = False only.)
    """
    a, b = floats("solve_tri", a, b)
    need(a.ndim >= 2 and a.shape[-1] == a.shape[-2], "solve_tri", f"a must be square, got {a.shape}")
    fits = a.ndim == b.ndim and a.shape[:-2] == b.shape[:-2] and b.shape[-2 if left else -1] == a.shape[-1]
    need(fits, "solve_tri", f"b {b.shape} must have the leading axes of a {a.shape} and {'rows' if left else 'columns'} for it")
    return narrow(triangular_solve(widen(a), widen(b), left_side=left, lower=lower, unit_diagonal=uni), a.dtype)
