"""Pooling and resampling of images."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import vjp
from fgrad.ggml.conv import check_places
from fgrad.ggml.util import axis, constant, floats, need
from fgrad.ops.shape import reshape

__all__ = [
    "OP_POOL_AVG",
    "OP_POOL_MAX",
    "SCALE_FLAG_ALIGN_CORNERS",
    "SCALE_FLAG_ANTIALIAS",
    "SCALE_MODE_BICUBIC",
    "SCALE_MODE_BILINEAR",
    "SCALE_MODE_NEAREST",
    "interpolate",
    "pool_1d",
    "pool_2d",
    "pool_2d_back",
    "upscale",
    "upscale_ext",
]

OP_POOL_MAX, OP_POOL_AVG = range(2)
SCALE_MODE_NEAREST, SCALE_MODE_BILINEAR, SCALE_MODE_BICUBIC = range(3)
SCALE_FLAG_ALIGN_CORNERS, SCALE_FLAG_ANTIALIAS = 1 << 8, 1 << 9


def _pool(name, a, op, k, s, p):
    """Over the last len(k) axes: the maximum of each window, or its sum divided by the kernel's size; padding counts as 0 in sums only."""
    if op not in (OP_POOL_MAX, OP_POOL_AVG):
        raise ValueError(f"ggml.{name}: op must be OP_POOL_MAX (0) or OP_POOL_AVG (1), got {op!r}")
    a, rank = floats(name, a), len(k)
    need(a.ndim >= rank, name, f"a must have {rank} axes or more, got shape {a.shape}")
    p = [int(q) for q in p]
    check_places(name, a.shape[a.ndim - rank :], k, s, p, [1] * rank)
    ones = (1,) * (a.ndim - rank)
    pads = [*[(0, 0)] * (a.ndim - rank), *[(q, q) for q in p]]
    start, computation = (-math.inf, lax.max) if op == OP_POOL_MAX else (0.0, lax.add)
    out = lax.reduce_window(a, start, computation, (*ones, *k), (*ones, *s), pads)
    return out if op == OP_POOL_MAX else out / math.prod(k)


def pool_1d(a, op, k0, s0, p0):
    """Pooling of the last axis: OP_POOL_MAX or OP_POOL_AVG, kernel k0, stride s0, padding p0 on both sides.

    A mean is over the elements inside the array, unlike in pool_2d. The gradient of a maximum goes to its first place.
    """
    out = _pool("pool_1d", a, op, (k0,), (s0,), (p0,))
    if op == OP_POOL_MAX or p0 == 0:
        return out
    first = np.arange(out.shape[-1]) * s0 - p0
    inside = np.minimum(first + k0, jnp.shape(a)[-1]) - np.maximum(first, 0)
    return out * constant(k0 / np.maximum(inside, 1), out)


def pool_2d(a, op, k0, k1, s0, s1, p0, p1):
    """Pooling of the last two axes, arguments for dimension 0 (the last axis) first; see pool_1d. Padding counts as 0 in means."""
    return _pool("pool_2d", a, op, (k1, k0), (s1, s0), (p1, p0))


def pool_2d_back(a, af, op, k0, k1, s0, s1, p0, p1):
    """The cotangent of pool_2d's argument af for a cotangent a of its result."""
    a, af = floats("pool_2d_back", a, af)
    out, back = vjp(lambda x: pool_2d(x, op, k0, k1, s0, s1, p0, p1), af)
    need(out.shape == a.shape, "pool_2d_back", f"the cotangent {a.shape} must have the result's shape {out.shape}")
    return back(a)[0]


# --- resampling -----------------------------------------------------------------------------------------------------------


def _nearest(n, m, align):
    """The matrix (m, n) that reads m of n places."""
    return np.eye(n)[np.minimum((np.arange(m) * n) // m, n - 1)]


def _positions(n, m, align):
    if align:
        return np.arange(m) * ((n - 1) / (m - 1) if m > 1 and n > 1 else n / m)
    return (np.arange(m) + 0.5) * n / m - 0.5


def _linear(n, m, align):
    x = _positions(n, m, align)
    low = np.clip(np.floor(x), 0, n - 1).astype(int)
    high = np.clip(np.floor(x) + 1, 0, n - 1).astype(int)
    part = np.clip(x - low, 0, 1)[:, None]
    return np.eye(n)[low] * (1 - part) + np.eye(n)[high] * part


def _antialias(n, m, align):
    """Triangles as wide as the step between places of the smaller image."""
    width = max(1.0, n / m)
    distance = np.abs(np.arange(n)[None, :] - _positions(n, m, align)[:, None]) / width
    weights = np.maximum(1 - distance, 0)
    return weights / weights.sum(1, keepdims=True)


def _cubic(n, m, align, alpha=-0.75):
    x = _positions(n, m, align)
    low = np.floor(x).astype(int)
    out = np.zeros((m, n))
    for k in range(-1, 3):
        t = np.abs(x - low - k)
        near = ((alpha + 2) * t - (alpha + 3)) * t * t + 1
        far = ((alpha * t - 5 * alpha) * t + 8 * alpha) * t - 4 * alpha
        np.add.at(out, (np.arange(m), np.clip(low + k, 0, n - 1)), np.where(t <= 1, near, far))
    return out


_MATRIX = {SCALE_MODE_NEAREST: _nearest, SCALE_MODE_BILINEAR: _linear, SCALE_MODE_BICUBIC: _cubic}


def interpolate(a, ne0, ne1, ne2, ne3, mode):
    """a (n3, n2, n1, n0) resampled to (ne3, ne2, ne1, ne0); the linear and cubic modes act on the last two axes only.

    mode: SCALE_MODE_NEAREST, SCALE_MODE_BILINEAR or SCALE_MODE_BICUBIC, with SCALE_FLAG_ALIGN_CORNERS (places of the first and last
    pixel agree) and, for bilinear, SCALE_FLAG_ANTIALIAS. Axes that do not change are copied; the others take a small matrix each.
    """
    a, sizes = floats("interpolate", a), (ne0, ne1, ne2, ne3)
    kind, align, soft = mode & 0xFF, bool(mode & SCALE_FLAG_ALIGN_CORNERS), bool(mode & SCALE_FLAG_ANTIALIAS)
    if kind not in _MATRIX or mode & ~(0xFF | SCALE_FLAG_ALIGN_CORNERS | SCALE_FLAG_ANTIALIAS):
        raise ValueError(f"ggml.interpolate: mode must be a SCALE_MODE_ constant and flags, got {mode!r}")
    need(a.ndim <= 4 and min(sizes) > 0, "interpolate", f"a {a.shape} must have up to 4 axes, and sizes {sizes} be positive")
    a = reshape(a, (1,) * (4 - a.ndim) + a.shape)
    for dim, m in enumerate(sizes):
        i = axis("interpolate", dim, 4)
        n = a.shape[i]
        if n == m:
            continue
        matrix = _nearest if dim > 1 else _antialias if soft and kind == SCALE_MODE_BILINEAR else _MATRIX[kind]
        a = jnp.moveaxis(jnp.tensordot(a, constant(matrix(n, m, align), a), axes=(i, 1)), -1, i)
    return a


upscale_ext = interpolate


def upscale(a, scale_factor, mode):
    """a with its last two axes scale_factor times as large; see interpolate."""
    a = floats("upscale", a)
    need(2 <= a.ndim <= 4, "upscale", f"a must have 2 to 4 axes, got shape {a.shape}")
    n = (a.shape[-1] * scale_factor, a.shape[-2] * scale_factor, *a.shape[-3::-1])
    return reshape(interpolate(a, *n, *[1] * (4 - len(n)), mode), n[::-1])
