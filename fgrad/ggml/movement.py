"""Copies, shapes, windows, rows, triangles, padding and the constants' makers.

Numbered dimensions are ggml's: dimension 0 (ne0) is the last axis. Strides and offsets count bytes of a contiguous array.
"""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.api import vmap
from fgrad.ggml.util import array, axis, constant, elements, fit, floats, from_ne, need, need_rank
from fgrad.ops import movement_nn
from fgrad.ops.shape import reshape as reshape_op
from fgrad.ops.shape import transpose as transpose_op

__all__ = [
    "SORT_ORDER_ASC",
    "SORT_ORDER_DESC",
    "TRI_TYPE_LOWER",
    "TRI_TYPE_LOWER_DIAG",
    "TRI_TYPE_UPPER",
    "TRI_TYPE_UPPER_DIAG",
    "arange",
    "argsort",
    "argsort_top_k",
    "cast",
    "concat",
    "cont",
    "cont_1d",
    "cont_2d",
    "cont_3d",
    "cont_4d",
    "cpy",
    "diag",
    "diag_mask_inf",
    "diag_mask_zero",
    "get_rows",
    "get_rows_back",
    "pad",
    "pad_circular",
    "pad_ext",
    "pad_ext_circular",
    "pad_reflect_1d",
    "permute",
    "reshape",
    "reshape_1d",
    "reshape_2d",
    "reshape_3d",
    "reshape_4d",
    "roll",
    "set_rows",
    "timestep_embedding",
    "top_k",
    "transpose",
    "tri",
    "view",
    "view_1d",
    "view_2d",
    "view_3d",
    "view_4d",
    "win_part",
    "win_unpart",
]

TRI_TYPE_UPPER_DIAG, TRI_TYPE_UPPER, TRI_TYPE_LOWER_DIAG, TRI_TYPE_LOWER = range(4)
SORT_ORDER_ASC, SORT_ORDER_DESC = range(2)


def concat(a, b, dim):
    """a, then b, along dimension dim."""
    a, b = array("concat", a), array("concat", b)
    need(a.ndim == b.ndim, "concat", f"a {a.shape} and b {b.shape} must have equally many axes")
    return jnp.concatenate([a, b], axis=axis("concat", dim, a.ndim))


def cpy(a, b):
    """a's elements in b's shape and dtype; of b only these matter."""
    a, b = array("cpy", a), array("cpy", b)
    need(a.size == b.size, "cpy", f"a {a.shape} and b {b.shape} must have equally many elements")
    return reshape_op(a, b.shape).astype(b.dtype)


def cast(a, type):
    """a in another dtype."""
    return array("cast", a).astype(type)


def cont(a):
    """a, contiguous: every array is, so this is a copy."""
    return jnp.copy(array("cont", a))


def _shaped(name, a, ne):
    a, shape = array(name, a), from_ne(*ne)
    need(a.size == math.prod(shape), name, f"a of shape {a.shape} does not have the elements of {shape}")
    return reshape_op(a, shape)


def cont_1d(a, ne0):
    """cont in shape (ne0,)."""
    return _shaped("cont_1d", a, (ne0,))


def cont_2d(a, ne0, ne1):
    """cont in shape (ne1, ne0)."""
    return _shaped("cont_2d", a, (ne0, ne1))


def cont_3d(a, ne0, ne1, ne2):
    """cont in shape (ne2, ne1, ne0)."""
    return _shaped("cont_3d", a, (ne0, ne1, ne2))


def cont_4d(a, ne0, ne1, ne2, ne3):
    """cont in shape (ne3, ne2, ne1, ne0)."""
    return _shaped("cont_4d", a, (ne0, ne1, ne2, ne3))


def reshape(a, b):
    """a's elements in b's shape."""
    return _shaped("reshape", a, array("reshape", b).shape[::-1])


def reshape_1d(a, ne0):
    """a's elements in shape (ne0,)."""
    return _shaped("reshape_1d", a, (ne0,))


def reshape_2d(a, ne0, ne1):
    """a's elements in shape (ne1, ne0)."""
    return _shaped("reshape_2d", a, (ne0, ne1))


def reshape_3d(a, ne0, ne1, ne2):
    """a's elements in shape (ne2, ne1, ne0)."""
    return _shaped("reshape_3d", a, (ne0, ne1, ne2))


def reshape_4d(a, ne0, ne1, ne2, ne3):
    """a's elements in shape (ne3, ne2, ne1, ne0)."""
    return _shaped("reshape_4d", a, (ne0, ne1, ne2, ne3))


def view(a, ne, nb, offset):
    """The window of a's elements of sizes ne = (ne0, ne1, ...), byte strides nb = (nb1, nb2, ...) and a byte offset.

    Windows may overlap themselves. Raises ShapeError where the window leaves a.

    >>> import fgrad.numpy as jnp
    >>> from fgrad import ggml
    >>> ggml.view_2d(jnp.arange(6.), 2, 2, 3 * 4, 4)
    Array([[1., 2.],
           [4., 5.]], dtype=float32)
    """
    a = array("view", a)
    need(len(nb) == len(ne) - 1, "view", f"sizes {tuple(ne)} need {len(ne) - 1} strides, got {len(nb)}")
    strides = [1, *[elements("view", f"nb{i + 1}", n, a.dtype) for i, n in enumerate(nb)]]
    return movement_nn.view(a, from_ne(*ne), strides[::-1], elements("view", "offset", offset, a.dtype))


def view_1d(a, ne0, offset):
    """The window of shape (ne0,) at a byte offset."""
    return view(a, (ne0,), (), offset)


def view_2d(a, ne0, ne1, nb1, offset):
    """The window of shape (ne1, ne0) whose rows are nb1 bytes apart."""
    return view(a, (ne0, ne1), (nb1,), offset)


def view_3d(a, ne0, ne1, ne2, nb1, nb2, offset):
    """The window of shape (ne2, ne1, ne0) with byte strides nb1 and nb2."""
    return view(a, (ne0, ne1, ne2), (nb1, nb2), offset)


def view_4d(a, ne0, ne1, ne2, ne3, nb1, nb2, nb3, offset):
    """The window of shape (ne3, ne2, ne1, ne0) with byte strides nb1, nb2 and nb3."""
    return view(a, (ne0, ne1, ne2, ne3), (nb1, nb2, nb3), offset)


def permute(a, axis0, axis1, axis2, axis3):
    """a with its dimension i in place axis_i, for the four dimensions of an array of up to four axes."""
    a, to = array("permute", a), (axis0, axis1, axis2, axis3)
    need(sorted(to) == [0, 1, 2, 3] and a.ndim <= 4, "permute", f"axes {to} must be 0 to 3 in some order, and a {a.shape} of up to 4 axes")
    n = a.ndim if sorted(to[: a.ndim]) == list(range(a.ndim)) else 4
    a = reshape_op(a, (1,) * (n - a.ndim) + a.shape)
    source = {to[i]: i for i in range(n)}
    return transpose_op(a, tuple(n - 1 - source[n - 1 - j] for j in range(n)))


def transpose(a):
    """a with its last two axes exchanged."""
    a = array("transpose", a)
    need(a.ndim >= 2, "transpose", f"a must have 2 axes or more, got shape {a.shape}")
    return jnp.swapaxes(a, -1, -2)


# --- rows -----------------------------------------------------------------------------------------------------------------


def _over(fun, n):
    for _ in range(n):
        fun = vmap(fun)
    return fun


def get_rows(a, b):
    """The rows of a that b names: a (..., rows, n), b (..., r) integers give (..., r, n); the leading axes are the same."""
    a, b = array("get_rows", a), array("get_rows", b)
    need(a.ndim == b.ndim + 1 >= 2 and a.shape[:-2] == b.shape[:-1], "get_rows", f"b {b.shape} does not name rows of a {a.shape}")
    return _over(lambda x, i: x[i], a.ndim - 2)(a, b)


def get_rows_back(a, b, c):
    """Zeros of c's shape with the rows of a added at the places b: the transpose of get_rows(c, b)."""
    (a, b), c = (floats("get_rows_back", a), array("get_rows_back", b)), array("get_rows_back", c)
    need(
        a.ndim == c.ndim == b.ndim + 1 >= 2 and a.shape == (*b.shape, c.shape[-1]) and c.shape[:-2] == b.shape[:-1],
        "get_rows_back",
        f"a {a.shape} must be rows of c {c.shape} at the places b {b.shape}",
    )
    return _over(lambda x, i: jnp.zeros(c.shape[-2:], x.dtype).at[i].add(x), c.ndim - 2)(a, b)


def set_rows(a, b, c):
    """a with the rows b in the places c: a (..., rows, n), b (..., r, n), c (..., r) integers, repeated to b's leading axes.

    Where c names a row twice, one of the two rows is kept.
    """
    a, b = floats("set_rows", a, b)
    c = array("set_rows", c)
    need(
        a.ndim == b.ndim >= 2 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-1],
        "set_rows",
        f"b {b.shape} must have a's leading axes and row length, a {a.shape}",
    )
    c = fit("set_rows", c, b.shape[:-1])
    return _over(lambda x, y, i: x.at[i].set(y), a.ndim - 2)(a, b, c)


# --- triangles and diagonals ----------------------------------------------------------------------------------------------


def diag(a):
    """Matrices with the rows of a, (..., 1, n) or (n,), on their diagonals: (..., n, n)."""
    a = floats("diag", a)
    need(a.ndim == 1 or a.ndim > 1 and a.shape[-2] == 1, "diag", f"a must be (..., 1, n) or (n,), got {a.shape}")
    n = a.shape[-1]
    row = a if a.ndim > 1 else a[None, :]
    return jnp.where(np.eye(n, dtype=bool), jnp.broadcast_to(row, (*row.shape[:-2], n, n)), 0)


def _triangle(name, a, low, high, other):
    """a where low <= column - row <= high, else `other`."""
    a = floats(name, a)
    need(a.ndim >= 2, name, f"a must have 2 axes or more, got shape {a.shape}")
    d = np.arange(a.shape[-1])[None, :] - np.arange(a.shape[-2])[:, None]
    return jnp.where((low <= d) & (d <= high), a, other)


def diag_mask_inf(a, n_past):
    """a with -inf where the column exceeds the row by more than n_past."""
    return _triangle("diag_mask_inf", a, -np.inf, n_past, -np.inf)


def diag_mask_zero(a, n_past):
    """a with 0 where the column exceeds the row by more than n_past."""
    return _triangle("diag_mask_zero", a, -np.inf, n_past, 0)


def tri(a, type):
    """The triangle of a, 0 elsewhere: TRI_TYPE_UPPER_DIAG, TRI_TYPE_UPPER, TRI_TYPE_LOWER_DIAG or TRI_TYPE_LOWER."""
    bounds = {
        TRI_TYPE_UPPER_DIAG: (0, np.inf),
        TRI_TYPE_UPPER: (1, np.inf),
        TRI_TYPE_LOWER_DIAG: (-np.inf, 0),
        TRI_TYPE_LOWER: (-np.inf, -1),
    }
    if type not in bounds:
        raise ValueError(f"ggml.tri: type must be one of the TRI_TYPE_ constants 0 to 3, got {type!r}")
    return _triangle("tri", a, *bounds[type], 0)


# --- padding, rolling, windows --------------------------------------------------------------------------------------------


def pad_ext(a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """a with lp_i zeros before and rp_i zeros behind dimension i, for the four dimensions of an array of up to four axes."""
    return _padded("pad_ext", a, ((lp0, rp0), (lp1, rp1), (lp2, rp2), (lp3, rp3)), "constant")


def _padded(name, a, pads, mode):
    a = array(name, a)
    need(a.ndim <= 4, name, f"a must have up to 4 axes, got shape {a.shape}")
    n = max([a.ndim, *[i + 1 for i, p in enumerate(pads) if p != (0, 0)]])
    a = reshape_op(a, (1,) * (n - a.ndim) + a.shape)
    return jnp.pad(a, pads[:n][::-1], mode=mode)


def pad_ext_circular(a, lp0, rp0, lp1, rp1, lp2, rp2, lp3, rp3):
    """pad_ext with a's own elements, as if a were repeated without end."""
    return _padded("pad_ext_circular", a, ((lp0, rp0), (lp1, rp1), (lp2, rp2), (lp3, rp3)), "wrap")


def pad_circular(a, p0, p1, p2, p3):
    """pad with a's own elements, as if a were repeated without end."""
    return pad_ext_circular(a, 0, p0, 0, p1, 0, p2, 0, p3)


def pad(a, p0, p1, p2, p3):
    """a with p_i zeros behind dimension i."""
    return pad_ext(a, 0, p0, 0, p1, 0, p2, 0, p3)


def pad_reflect_1d(a, p0, p1):
    """a with p0 elements before and p1 behind each row, mirrored at its ends: [b, a, b, c, b] for [a, b, c] and 1, 1."""
    a = array("pad_reflect_1d", a)
    need(a.ndim > 0 and max(p0, p1) < a.shape[-1], "pad_reflect_1d", f"paddings {p0} and {p1} must be below the last axis of {a.shape}")
    return jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(p0, p1)], mode="reflect")


def roll(a, shift0, shift1, shift2, shift3):
    """a with its dimension i turned by shift_i places: what leaves at the end comes back at the start."""
    a, shifts = array("roll", a), (shift0, shift1, shift2, shift3)
    need(a.ndim <= 4 and not any(shifts[a.ndim :]), "roll", f"shifts {shifts} are for 4 axes, a has shape {a.shape}")
    return jnp.roll(a, shifts[: a.ndim][::-1], tuple(range(a.ndim)))


def win_part(a, w):
    """Non-overlapping windows of w x w places: a (height, width, channels) gives (windows, w, w, channels), padded with zeros."""
    a = array("win_part", a)
    need(a.ndim == 3 or a.ndim == 4 and a.shape[0] == 1, "win_part", f"a must be (height, width, channels), got {a.shape}")
    a = reshape_op(a, a.shape[-3:])
    h, wide, c = a.shape
    ny, nx = -(-h // w), -(-wide // w)
    a = jnp.pad(a, ((0, ny * w - h), (0, nx * w - wide), (0, 0)))
    return reshape_op(transpose_op(reshape_op(a, (ny, w, nx, w, c)), (0, 2, 1, 3, 4)), (ny * nx, w, w, c))


def win_unpart(a, w0, h0, w):
    """The inverse of win_part: windows (windows, w, w, channels) laid out and cut to (h0, w0, channels)."""
    a = array("win_unpart", a)
    ny, nx = -(-h0 // w), -(-w0 // w)
    need(a.ndim == 4 and a.shape[:3] == (ny * nx, w, w), "win_unpart", f"a {a.shape} must be ({ny * nx}, {w}, {w}, channels)")
    c = a.shape[-1]
    a = transpose_op(reshape_op(a, (ny, nx, w, w, c)), (0, 2, 1, 3, 4))
    return reshape_op(a, (ny * w, nx * w, c))[:h0, :w0]


# --- makers ---------------------------------------------------------------------------------------------------------------


def arange(start, stop, step):
    """start, start + step, ... below stop, as floats."""
    return start + step * jnp.arange(math.ceil((stop - start) / step), dtype=dtypes.float_dtype())


def timestep_embedding(timesteps, dim, max_period):
    """cos, then sin, of timesteps (n,) times max_period^(-i / half) for i < half = dim // 2: (n, dim), 0 behind when dim is odd."""
    t = floats("timestep_embedding", timesteps)
    need_rank("timestep_embedding", "timesteps", t, 1)
    half = dim // 2
    angles = t[:, None] * constant(np.exp(-math.log(max_period) * np.arange(half) / half) if half else np.zeros(0), t)
    return jnp.pad(jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1), ((0, 0), (0, dim % 2)))


# --- order ----------------------------------------------------------------------------------------------------------------


def argsort(a, order):
    """The positions that sort each row, int32: SORT_ORDER_ASC or SORT_ORDER_DESC. Equal elements keep their order."""
    if order not in (SORT_ORDER_ASC, SORT_ORDER_DESC):
        raise ValueError(f"ggml.argsort: order must be SORT_ORDER_ASC (0) or SORT_ORDER_DESC (1), got {order!r}")
    return jnp.argsort(floats("argsort", a), axis=-1, descending=order == SORT_ORDER_DESC).astype(jnp.int32)


def top_k(a, k):
    """The positions of the k largest elements of each row, largest first, int32."""
    a = floats("top_k", a)
    need(a.ndim > 0 and 0 <= k <= a.shape[-1], "top_k", f"k = {k} must be from 0 to the last axis of {a.shape}")
    return argsort(a, SORT_ORDER_DESC)[..., :k]


argsort_top_k = top_k
