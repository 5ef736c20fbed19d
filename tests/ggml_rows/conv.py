"""Convolutions, pools and resampling against loops over places."""

import itertools
import math

import numpy as np

from fgrad import ggml
from tests.ggml_rows.case import Case, numbers


def places(sizes, kernel, s, p, d):
    return [(n + 2 * q - e * (k - 1) - 1) // t + 1 for n, k, t, q, e in zip(sizes, kernel, s, p, d)]


def columns(x, kernel, s, p, d, fill=0.0):
    """(n, *places, c, *kernel) of x (n, c, *sizes)."""
    out_places = places(x.shape[2:], kernel, s, p, d)
    out = np.full((x.shape[0], *out_places, x.shape[1], *kernel), fill)
    for place in itertools.product(*map(range, out_places)):
        for k in itertools.product(*map(range, kernel)):
            at = [a * t - q + b * e for a, t, q, b, e in zip(place, s, p, k, d)]
            if all(0 <= a < n for a, n in zip(at, x.shape[2:])):
                out[(slice(None), *place, slice(None), *k)] = x[(slice(None), slice(None), *at)]
    return out


def conv(a, b, s, p, d):
    cols = columns(b, a.shape[2:], s, p, d)
    n = a.ndim - 1
    return np.moveaxis(np.tensordot(cols, a, (list(range(n, n + n)), list(range(1, 1 + n)))), -1, 1)


def depthwise(a, b, s, p, d):
    return np.concatenate([conv(a[i : i + 1], b[:, i : i + 1], s, p, d) for i in range(len(a))], 1)


def conv_transpose(a, b, s):
    kernel = a.shape[2:]
    out = np.zeros((b.shape[0], a.shape[1], *[(m - 1) * s + k for m, k in zip(b.shape[2:], kernel)]))
    for place in itertools.product(*map(range, b.shape[2:])):
        for k in itertools.product(*map(range, kernel)):
            at = tuple(i * s + j for i, j in zip(place, k))
            out[(slice(None), slice(None), *at)] += b[(slice(None), slice(None), *place)] @ a[(slice(None), slice(None), *k)]
    return out


def rows(cols, rank):
    return cols.reshape(*cols.shape[: rank + 1], -1)


def transposed(linear, shape, ct):
    """The transpose of a linear function of an array of this shape, column by column."""
    basis = np.eye(math.prod(shape)).reshape(-1, *shape)
    return np.array([(linear(e) * ct).sum() for e in basis]).reshape(shape)


A1, B1 = numbers(120, 4, 3, 3), numbers(121, 2, 3, 7)
A2, B2 = numbers(122, 4, 3, 2, 3), numbers(123, 2, 3, 5, 7)
A3, B3 = numbers(124, 6, 2, 2, 3), numbers(125, 4, 3, 4, 5)  # 3 x 2 kernels, 2 x 2 volumes
P2 = dict(s=(1, 2), p=(1, 0), d=(2, 1))
ARGS2 = (2, 1, 0, 1, 1, 2)  # s0, s1, p0, p1, d0, d1


def im2col2(x):
    return rows(columns(x, (2, 3), **P2), 2)


def im2col1(x):
    return rows(columns(x, (3,), (2,), (1,), (1,)), 1)


def im2col3(x):
    cols = columns(x.reshape(2, 2, 3, 4, 5), (2, 2, 3), (1, 1, 2), (0, 1, 1), (1, 1, 1))
    return cols.reshape(-1, *cols.shape[2:4], 24)


def col2im(a):
    out = np.zeros((2, 2 * 3 + 3))
    for t, o, k in np.ndindex(4, 2, 3):
        out[o, 2 * t + k] += a[t, 3 * o + k]
    return out[:, 1:-1]


def conv3(a, b):
    out = conv(a.reshape(3, 2, 2, 2, 3), b.reshape(2, 2, 3, 4, 5), (1, 1, 2), (0, 1, 1), (1, 1, 1))
    return out.reshape(6, *out.shape[2:])


CASES = [
    Case("im2col", lambda b: ggml.im2col(A2, b, *ARGS2, True), [B2], im2col2),
    Case("im2col", lambda b: ggml.im2col(A1, b, 2, 0, 1, 0, 1, 0, False), [B1], im2col1, label="1d"),
    Case(
        "im2col_back",
        lambda g: ggml.im2col_back(g, A2, (7, 5, 3, 2), *ARGS2, True),
        [im2col2(B2)],
        lambda g: transposed(im2col2, B2.shape, g),
    ),
    Case(
        "im2col_back",
        lambda g: ggml.im2col_back(g, A1, (7, 3, 2), 2, 0, 1, 0, 1, 0, False),
        [im2col1(B1)],
        lambda g: transposed(im2col1, B1.shape, g),
        label="1d",
    ),
    Case("im2col_3d", lambda b: ggml.im2col_3d(A3, b, 2, 2, 1, 1, 1, 1, 0, 1, 1, 1), [B3], im2col3),
    Case("col2im_1d", lambda a: ggml.col2im_1d(a, 2, 2, 1), [numbers(126, 4, 6)], col2im),
    Case("conv_2d", lambda a, b: ggml.conv_2d(a, b, *ARGS2), [A2, B2], lambda a, b: conv(a, b, **P2)),
    Case("conv_2d", ggml.conv_2d_sk_p0, [A2, B2], lambda a, b: conv(a, b, (2, 3), (0, 0), (1, 1)), label="sk p0", order=1),
    Case("conv_2d", ggml.conv_2d_s1_ph, [A2, B2], lambda a, b: conv(a, b, (1, 1), (1, 1), (1, 1)), label="s1 ph", order=1),
    Case("conv_2d", lambda a, b: ggml.conv_1d(a, b, 2, 1, 1), [A1, B1], lambda a, b: conv(a, b, (2,), (1,), (1,)), label="1d"),
    Case("conv_2d", lambda a, b: ggml.conv_1d_ph(a, b, 1, 2), [A1, B1], lambda a, b: conv(a, b, (1,), (1,), (2,)), label="1d ph", order=1),
    Case(
        "conv_2d_dw",
        lambda a, b: ggml.conv_1d_dw_ph(a, b, 1, 2),
        [numbers(128, 3, 1, 3), B1],
        lambda a, b: depthwise(a, b, (1,), (1,), (2,)),
        label="1d ph",
        order=1,
    ),
    Case(
        "conv_3d",
        lambda a, b: ggml.conv_3d(a, b, 2, 1, 1, 1, 1, 0, 1, 1, 1, 2, 2, 3),
        [A3, B3],
        conv3,
    ),
    Case("conv_2d_dw", lambda a, b: ggml.conv_2d_dw(a, b, *ARGS2), [numbers(127, 3, 1, 2, 3), B2], lambda a, b: depthwise(a, b, **P2)),
    Case(
        "conv_2d_dw",
        lambda a, b: ggml.conv_1d_dw(a, b, 2, 1, 1),
        [numbers(128, 3, 1, 3), B1],
        lambda a, b: depthwise(a, b, (2,), (1,), (1,)),
        label="1d",
        order=1,
    ),
    Case(
        "conv_transpose_1d",
        lambda a, b: ggml.conv_transpose_1d(a, b, 2, 0, 1),
        [numbers(129, 3, 2, 4), B1[0]],
        lambda a, b: conv_transpose(a, b[None], 2)[0],
    ),
    Case(
        "conv_transpose_2d",
        lambda a, b: ggml.conv_transpose_2d(a, b, 2),
        [numbers(130, 3, 2, 2, 3), B2],
        lambda a, b: conv_transpose(a, b, 2),
    ),
]

# --- pools ----------------------------------------------------------------------------------------------------------------


def pool(x, op, kernel, s, p):
    cols = columns(x[:, None], kernel, s, p, [1] * len(kernel), -np.inf if op == ggml.OP_POOL_MAX else 0.0)
    cols = cols.reshape(*cols.shape[: 1 + len(kernel)], -1)
    return cols.max(-1) if op == ggml.OP_POOL_MAX else cols.mean(-1)


def pool_row(x, op):
    """pool_1d with kernel 3, stride 2 and padding 1: means over what is inside."""
    reduce = np.max if op == ggml.OP_POOL_MAX else np.mean
    places = [(max(2 * i - 1, 0), 2 * i + 2) for i in range((x.shape[1] - 1) // 2 + 1)]
    return np.stack([reduce(x[:, low:high], axis=1) for low, high in places], 1)


def pool_back(g, x, op):
    """The sum over windows, written out."""
    out, (_, oh, ow) = np.zeros(x.shape), g.shape
    for n, i, j in np.ndindex(len(x), oh, ow):
        cells = [(2 * i + a - 1, 2 * j + b) for a in range(2) for b in range(3)]
        inside = [c for c in cells if 0 <= c[0] < x.shape[1] and 0 <= c[1] < x.shape[2]]
        if op == ggml.OP_POOL_AVG:
            for c in inside:
                out[(n, *c)] += g[n, i, j] / 6
        else:
            out[(n, *max(inside, key=lambda c: x[(n, *c)]))] += g[n, i, j]
    return out


POOL = numbers(131, 2, 5, 8)
for _op, _label in ((ggml.OP_POOL_MAX, "max"), (ggml.OP_POOL_AVG, "mean")):
    CASES += [
        Case(
            "pool_1d",
            lambda x, op=_op: ggml.pool_1d(x, op, 3, 2, 1),
            [POOL[0]],
            lambda x, op=_op: pool_row(x, op),
            label=_label,
        ),
        Case(
            "pool_2d",
            lambda x, op=_op: ggml.pool_2d(x, op, 3, 2, 2, 2, 0, 1),
            [POOL],
            lambda x, op=_op: pool(x, op, (2, 3), (2, 2), (1, 0)),
            label=_label,
        ),
        Case(
            "pool_2d_back",
            lambda g, x, op=_op: ggml.pool_2d_back(g, x, op, 3, 2, 2, 2, 0, 1),
            [pool(numbers(132, 2, 5, 8), _op, (2, 3), (2, 2), (1, 0)), POOL],
            lambda g, x, op=_op: pool_back(g, x, op),
            label=_label,
        ),
    ]


# --- resampling -----------------------------------------------------------------------------------------------------------


def cubic(t, a=-0.75):
    t = abs(t)
    return (a + 2) * t**3 - (a + 3) * t**2 + 1 if t <= 1 else a * (t**3 - 5 * t**2 + 8 * t - 4) if t < 2 else 0.0


def resampled(row, m, mode, align=False):
    """One axis of m places from a 1-d array, as formulas for each place."""
    n, out = len(row), []
    for i in range(m):
        if mode == "nearest":
            out.append(row[math.floor(i * n / m)])
            continue
        x = i * (n - 1) / (m - 1) if align else (i + 0.5) * n / m - 0.5
        near = range(math.floor(x) - 1, math.floor(x) + 3)
        weight = cubic if mode == "cubic" else lambda t: max(0, 1 - abs(t))
        out.append(sum(weight(x - k) * row[min(max(k, 0), n - 1)] for k in near))
    return np.array(out)


def image(x, h, w, mode, align=False):
    x = np.apply_along_axis(resampled, -1, x, w, mode, align)
    return np.apply_along_axis(resampled, -2, x, h, mode, align)


PICTURE = numbers(133, 2, 3, 4)
MODES = {"nearest": ggml.SCALE_MODE_NEAREST, "linear": ggml.SCALE_MODE_BILINEAR, "cubic": ggml.SCALE_MODE_BICUBIC}
for _name, _mode in MODES.items():
    CASES.append(Case("upscale", lambda x, m=_mode: ggml.upscale(x, 2, m), [PICTURE], lambda x, n=_name: image(x, 6, 8, n), label=_name))
CASES += [
    Case(
        "upscale",
        lambda x: ggml.interpolate(x, 7, 2, 2, 1, ggml.SCALE_MODE_BILINEAR | ggml.SCALE_FLAG_ALIGN_CORNERS),
        [PICTURE],
        lambda x: image(x, 2, 7, "linear", True)[None],
        label="corners",
    ),
    Case(
        "upscale",
        lambda x: ggml.interpolate(x, 2, 3, 2, 1, ggml.SCALE_MODE_BILINEAR | ggml.SCALE_FLAG_ANTIALIAS),
        [PICTURE],
        lambda x: (x @ np.array([[3, 0], [3, 1], [1, 3], [0, 3]]) / 7)[None],
        label="antialias",
    ),
]
