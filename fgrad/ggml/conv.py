"""Convolutions, and what ggml makes them of: im2col and its transposes, as strided windows of the data.

Arguments s, p and d are strides, paddings and dilations, those of dimension 0 (the width) first. Kernels are not mirrored.
"""

import math

import fgrad.numpy as jnp
from fgrad.ggml.util import array, floats, need, need_rank
from fgrad.lax import conv_general_dilated
from fgrad.ops import movement_nn
from fgrad.ops.shape import reshape

__all__ = [
    "col2im_1d",
    "conv_1d",
    "conv_1d_dw",
    "conv_1d_dw_ph",
    "conv_1d_ph",
    "conv_2d",
    "conv_2d_direct",
    "conv_2d_dw",
    "conv_2d_dw_direct",
    "conv_2d_s1_ph",
    "conv_2d_sk_p0",
    "conv_3d",
    "conv_3d_direct",
    "conv_transpose_1d",
    "conv_transpose_2d",
    "conv_transpose_2d_p0",
    "im2col",
    "im2col_3d",
    "im2col_back",
]


def _dense(shape):
    """The row-major strides of a shape, in elements."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def check_places(name, sizes, kernel, s, p, d):
    """The numbers of places of a kernel along each axis; raises where arguments do not fit."""
    for what, xs, low in (("strides", s, 1), ("paddings", p, 0), ("dilations", d, 1)):
        if any(x < low for x in xs):
            raise ValueError(f"ggml.{name}: {what} must be {low} or more, got {tuple(xs)}")
    out = [(n + 2 * p_ - d_ * (k - 1) - 1) // s_ + 1 for n, k, s_, p_, d_ in zip(sizes, kernel, s, p, d)]
    need(all(n > 0 for n in out), name, f"a kernel of shape {tuple(kernel)} does not fit data of shape {tuple(sizes)}")
    return out


def _windows(name, x, kernel, s, p, d):
    """The windows of x (n, c, *sizes) under a kernel: (n, *places, c, *kernel). Lists s, p and d are in the order of x's axes."""
    n, c, *sizes = x.shape
    places = check_places(name, sizes, kernel, s, p, d)
    if any(p):
        x = jnp.pad(x, [(0, 0), (0, 0), *[(q, q) for q in p]])
    each_n, each_c, *each = _dense(x.shape)
    strides = [each_n, *[a * b for a, b in zip(each, s)], each_c, *[a * b for a, b in zip(each, d)]]
    return movement_nn.view(x, (n, *places, c, *kernel), strides)


def _unwindow(name, cols, sizes, s, p, d):
    """The transpose of _windows: cols (n, *places, c, *kernel) added up into (n, c, *sizes)."""
    rank = len(sizes)
    n, c, kernel = cols.shape[0], cols.shape[rank + 1], cols.shape[rank + 2 :]
    places = check_places(name, sizes, kernel, s, p, d)
    need(list(cols.shape[1 : rank + 1]) == places, name, f"columns for {cols.shape[1 : rank + 1]} places, but the data has {places}")
    full = (n, c, *[m + 2 * q for m, q in zip(sizes, p)])
    each_n, each_c, *each = _dense(full)
    strides = [each_n, *[a * b for a, b in zip(each, s)], each_c, *[a * b for a, b in zip(each, d)]]
    out = movement_nn.acc(jnp.zeros(full, cols.dtype), cols, strides)
    return out[(slice(None), slice(None), *[slice(q, q + m) for q, m in zip(p, sizes)])]


def im2col(a, b, s0, s1, p0, p1, d0, d1, is_2D, dst_type=None):
    """The windows of the data b under the kernel a, as rows of a matrix; of a only the shape matters.

    is_2D: a (oc, c, kh, kw) and b (n, c, h, w) give (n, oh, ow, c * kh * kw). Else a (oc, c, kw) and b (n, c, w), or (c, w), give
    (n, ow, c * kw), and s1, p1 and d1 are not read. dst_type: dtype of the result, b's if None.
    """
    a, b = array("im2col", a), floats("im2col", b)
    rank = 2 if is_2D else 1
    b = b[None] if b.ndim == rank + 1 else b
    need_rank("im2col", "the data", b, rank + 2)
    kernel = a.shape[-rank:]
    need(a.ndim > rank and a.shape[-rank - 1] == b.shape[1], "im2col", f"kernel {a.shape} and data {b.shape} must have as many channels")
    s, p, d = ((y, x)[2 - rank :] for x, y in ((s0, s1), (p0, p1), (d0, d1)))
    out = _windows("im2col", b, kernel, s, p, d)
    out = reshape(out, (*out.shape[: rank + 1], math.prod(out.shape[rank + 1 :])))
    return out if dst_type is None else out.astype(dst_type)


def im2col_back(a, b, ne, s0, s1, p0, p1, d0, d1, is_2D):
    """The cotangent of im2col's data, of ggml sizes ne = (w, h, c, n) or (w, c, n), for a cotangent a of its result and the kernel b.

    The order of a and b is that of ggml's code; its header names them the other way round.
    """
    a, b = floats("im2col_back", a), array("im2col_back", b)
    rank = 2 if is_2D else 1
    need(len(ne) == rank + 2 and b.ndim >= rank, "im2col_back", f"sizes {tuple(ne)} and kernel {b.shape} must be of {rank} spatial axes")
    w, *rest = (int(n) for n in ne)
    sizes, (c, n) = ((rest[0], w), (rest[1:] + [1])[:2]) if is_2D else ((w,), (rest + [1])[:2])
    kernel = b.shape[-rank:]
    need(a.ndim == rank + 2 and a.shape[-1] == c * math.prod(kernel), "im2col_back", f"columns {a.shape} do not fit {c} x {kernel}")
    s, p, d = ((y, x)[2 - rank :] for x, y in ((s0, s1), (p0, p1), (d0, d1)))
    need(a.shape[0] == n, "im2col_back", f"columns {a.shape} must be of {n} examples")
    return _unwindow("im2col_back", reshape(a, (*a.shape[:-1], c, *kernel)), sizes, s, p, d)


def im2col_3d(a, b, IC, s0, s1, s2, p0, p1, p2, d0, d1, d2, dst_type=None):
    """im2col in three dimensions: a (oc * IC, kd, kh, kw), b (n * IC, d, h, w) give (n * od, oh, ow, IC * kd * kh * kw)."""
    a, b = array("im2col_3d", a), floats("im2col_3d", b)
    need_rank("im2col_3d", "the kernel", a, 4)
    need(b.ndim == 4 and IC > 0 and b.shape[0] % IC == 0, "im2col_3d", f"data {b.shape} must be (n * {IC}, depth, height, width)")
    b = reshape(b, (b.shape[0] // IC, IC, *b.shape[1:]))
    out = _windows("im2col_3d", b, a.shape[1:], (s2, s1, s0), (p2, p1, p0), (d2, d1, d0))
    n, od, oh, ow = out.shape[:4]
    out = reshape(out, (n * od, oh, ow, math.prod(out.shape[4:])))
    return out if dst_type is None else out.astype(dst_type)


def col2im_1d(a, s0, oc, p0):
    """Columns a (t, oc * k) added up at places s0 apart, with p0 cut off both ends: (oc, (t - 1) * s0 + k - 2 * p0)."""
    a = floats("col2im_1d", a)
    need(a.ndim == 2 and oc > 0 and a.shape[1] % oc == 0 and a.shape[0], "col2im_1d", f"a {a.shape} must be (columns, {oc} * kernel)")
    t, k = a.shape[0], a.shape[1] // oc
    size = (t - 1) * s0 + k - 2 * p0
    need(size > 0, "col2im_1d", f"a padding of {p0} leaves nothing")
    return _unwindow("col2im_1d", reshape(a, (1, t, oc, k)), (size,), (s0,), (p0,), (1,))[0]


# --- convolutions ---------------------------------------------------------------------------------------------------------


def _conv(name, a, b, s, p, d, groups=1):
    """a (oc, c / groups, *kernel), b (n, c, *sizes) -> (n, oc, *places)."""
    need(a.ndim == b.ndim and a.shape[1] * groups == b.shape[1], name, f"kernel {a.shape} and data {b.shape} must have as many channels")
    check_places(name, b.shape[2:], a.shape[2:], s, p, d)
    return conv_general_dilated(b, a, s, [(q, q) for q in p], rhs_dilation=d, feature_group_count=groups)


def conv_1d(a, b, s0, p0, d0):
    """a (oc, c, kw), b (n, c, w) or (c, w) give (n, oc, ow)."""
    a, b = floats("conv_1d", a, b)
    b = b[None] if b.ndim == 2 else b
    need_rank("conv_1d", "the kernel", a, 3)
    return _conv("conv_1d", a, b, (s0,), (p0,), (d0,))


def conv_1d_ph(a, b, s, d):
    """conv_1d with half the kernel as padding."""
    need_rank("conv_1d_ph", "the kernel", jnp.asarray(a), 3)
    return conv_1d(a, b, s, jnp.shape(a)[-1] // 2, d)


def conv_1d_dw(a, b, s0, p0, d0):
    """Each channel with a kernel of its own: a (c, 1, kw), b (n, c, w) or (c, w) give (n, c, ow)."""
    a, b = floats("conv_1d_dw", a, b)
    b = b[None] if b.ndim == 2 else b
    need_rank("conv_1d_dw", "the kernel", a, 3)
    return _depthwise("conv_1d_dw", a, b, (s0,), (p0,), (d0,))


def conv_1d_dw_ph(a, b, s0, d0):
    """conv_1d_dw with half the kernel as padding."""
    need_rank("conv_1d_dw_ph", "the kernel", jnp.asarray(a), 3)
    return conv_1d_dw(a, b, s0, jnp.shape(a)[-1] // 2, d0)


def conv_2d(a, b, s0, s1, p0, p1, d0, d1):
    """a (oc, c, kh, kw), b (n, c, h, w) give (n, oc, oh, ow)."""
    a, b = floats("conv_2d", a, b)
    need_rank("conv_2d", "the kernel", a, 4)
    return _conv("conv_2d", a, b, (s1, s0), (p1, p0), (d1, d0))


conv_2d_direct = conv_2d


def conv_2d_sk_p0(a, b):
    """conv_2d with strides of the kernel's size and no padding."""
    kh, kw = jnp.shape(a)[-2:]
    return conv_2d(a, b, kw, kh, 0, 0, 1, 1)


def conv_2d_s1_ph(a, b):
    """conv_2d with strides of 1 and half the kernel as padding."""
    kh, kw = jnp.shape(a)[-2:]
    return conv_2d(a, b, 1, 1, kw // 2, kh // 2, 1, 1)


def conv_3d(a, b, s0, s1, s2, p0, p1, p2, d0, d1, d2, n_channels, n_batch, n_channels_out):
    """a (n_channels_out * n_channels, kd, kh, kw), b (n_batch * n_channels, d, h, w) give (n_batch * n_channels_out, od, oh, ow).

    The arguments are those of ggml_conv_3d_direct.
    """
    a, b = floats("conv_3d", a, b)
    need(
        a.ndim == 4 and a.shape[0] == n_channels * n_channels_out,
        "conv_3d",
        f"kernel {a.shape}: not {n_channels_out} * {n_channels} kernels",
    )
    need(b.ndim == 4 and b.shape[0] == n_channels * n_batch, "conv_3d", f"data {b.shape}: not {n_batch} * {n_channels} volumes")
    a = reshape(a, (n_channels_out, n_channels, *a.shape[1:]))
    b = reshape(b, (n_batch, n_channels, *b.shape[1:]))
    out = _conv("conv_3d", a, b, (s2, s1, s0), (p2, p1, p0), (d2, d1, d0))
    return reshape(out, (n_batch * n_channels_out, *out.shape[2:]))


conv_3d_direct = conv_3d


def _depthwise(name, a, b, s, p, d):
    need(b.ndim == a.ndim, name, f"data {b.shape} must have as many axes as the kernel {a.shape}")
    c = b.shape[1]
    need(a.shape[:2] == (c, 1), name, f"kernel {a.shape} must be ({c}, 1, ...) for data {b.shape}")
    return _conv(name, a, b, s, p, d, groups=c)


def conv_2d_dw(a, b, s0, s1, p0, p1, d0, d1):
    """Each channel with a kernel of its own: a (c, 1, kh, kw), b (n, c, h, w) give (n, c, oh, ow)."""
    a, b = floats("conv_2d_dw", a, b)
    need_rank("conv_2d_dw", "the kernel", a, 4)
    return _depthwise("conv_2d_dw", a, b, (s1, s0), (p1, p0), (d1, d0))


conv_2d_dw_direct = conv_2d_dw


def _conv_transpose(name, a, b, s):
    """a (c, oc, *kernel), b (n, c, *places) -> (n, oc, *sizes), sizes = (places - 1) * s + kernel."""
    need(a.ndim == b.ndim and a.shape[0] == b.shape[1], name, f"kernel {a.shape} and data {b.shape} must have as many channels")
    if any(x < 1 for x in s):
        raise ValueError(f"ggml.{name}: strides must be 1 or more, got {tuple(s)}")
    mirrored = jnp.flip(jnp.swapaxes(a, 0, 1), tuple(range(2, a.ndim)))
    return conv_general_dilated(b, mirrored, (1,) * len(s), [(k - 1, k - 1) for k in a.shape[2:]], lhs_dilation=s)


def conv_transpose_1d(a, b, s0, p0=0, d0=1):
    """a (c, oc, k), b (c, w) give (oc, (w - 1) * s0 + k). As in ggml, p0 must be 0 and d0 1."""
    a, b = floats("conv_transpose_1d", a, b)
    if p0 != 0 or d0 != 1:
        raise ValueError(f"ggml.conv_transpose_1d takes p0 = 0 and d0 = 1 only, got {p0} and {d0}")
    need(a.ndim == 3 and b.ndim == 2, "conv_transpose_1d", f"the kernel must have 3 axes and the data 2, got {a.shape} and {b.shape}")
    return _conv_transpose("conv_transpose_1d", a, b[None], (s0,))[0]


def conv_transpose_2d(a, b, stride):
    """a (c, oc, kh, kw), b (n, c, h, w) give (n, oc, (h - 1) * stride + kh, (w - 1) * stride + kw), without padding."""
    a, b = floats("conv_transpose_2d", a, b)
    need(a.ndim == 4 and b.ndim == 4, "conv_transpose_2d", f"kernel and data must have 4 axes, got {a.shape} and {b.shape}")
    return _conv_transpose("conv_transpose_2d", a, b, (stride, stride))


conv_transpose_2d_p0 = conv_transpose_2d
