"""Convolution and windows."""

import itertools

import numpy as np

from fgrad.lax import conv_dimension_numbers, conv_general_dilated
from tests.table.case import BF16, F16, F32, Case, of_kinds, typed


def np_conv(x, w, strides, pads, ldil=None, rdil=None, layout=None, features=1, batches=1):
    """The definition: a sum over taps for every output, in a loop."""
    dn = conv_dimension_numbers(x.shape, w.shape, layout)
    x, w = x.transpose(dn.lhs_spec), w.transpose(dn.rhs_spec)
    n = x.ndim - 2
    ldil, rdil = ldil or (1,) * n, rdil or (1,) * n
    window = w.shape[2:]
    size = [0 if m == 0 else (m - 1) * d + 1 for m, d in zip(x.shape[2:], ldil)]
    reach = [(k - 1) * d + 1 if k else 0 for k, d in zip(window, rdil)]
    space = [max(0, (m + lo + hi - k) // s + 1) for m, (lo, hi), k, s in zip(size, pads, reach, strides)]
    b, o = x.shape[0] // batches, w.shape[0] // (features * batches)
    out = np.zeros((b, w.shape[0], *space), w.dtype)
    for q, r in itertools.product(np.ndindex(*space), np.ndindex(*window)):
        at = [qi * s + ri * d - lo for qi, s, ri, d, (lo, _) in zip(q, strides, r, rdil, pads)]
        if any(a < 0 or a % d or a // d >= m for a, d, m in zip(at, ldil, x.shape[2:])):
            continue
        pixel = x[(slice(None), slice(None), *[a // d for a, d in zip(at, ldil)])]
        for g in range(features * batches):
            rows = pixel[g * b : (g + 1) * b] if batches > 1 else pixel
            rows = rows[:, g * w.shape[1] : (g + 1) * w.shape[1]] if features > 1 else rows
            out[(slice(None), slice(g * o, (g + 1) * o), *q)] += rows @ w[(slice(g * o, (g + 1) * o), slice(None), *r)].T
    return out.transpose(np.argsort(dn.out_spec))


def _conv(name, x, w, strides, pads, layout=None, ldil=None, rdil=None, features=1, batches=1, **kw):
    def fun(a, b):
        return conv_general_dilated(a, b, strides, pads, ldil, rdil, layout, features, batches)

    def ref(a, b):
        return np_conv(a, b, strides, pads, ldil, rdil, layout, features, batches)

    kw = dict(dtypes=of_kinds("fiuc"), linear=((0,), (1,)), name=name, ulps=8) | kw
    return Case(fun, (typed(*x), typed(*w)), ref, **kw)


def _preferred(dtype):
    return Case(
        lambda a, b: conv_general_dilated(a, b, (1,), "SAME", preferred_element_type=dtype),
        (typed(2, 2, 5), typed(3, 2, 2)),
        lambda a, b: np_conv(a, b, (1,), ((0, 1),)),
        name=f"into {dtype.name}",
        dtypes=(BF16, F16, F32),
        out=dtype,
        ulps=8,
        modes=(),
    )


NHWC = ("NHWC", "HWIO", "NHWC")
ROWS = {
    "conv_general_dilated": [
        _conv("1d", (2, 3, 6), (4, 3, 3), (1,), ((1, 1),)),
        _conv("NHWC", (2, 5, 4, 3), (3, 2, 3, 2), (1, 1), ((1, 1), (0, 1)), NHWC),
        _conv("strides, cropping", (2, 2, 7, 6), (3, 2, 3, 2), (2, 3), ((2, 1), (-1, 2))),
        _conv("dilations", (1, 5, 4, 2), (2, 3, 2, 3), (1, 2), ((2, 1), (1, 3)), NHWC, (2, 3), (1, 2)),
        _conv("feature groups", (2, 4, 5, 6), (6, 3, 2, 2), (2, 1), ((1, 0), (1, 1)), ("NHWC", "OIHW", "NCHW"), features=2),
        _conv("batch groups", (4, 3, 5, 4), (6, 3, 2, 2), (1, 2), ((1, 0), (1, 1)), batches=2),
        _conv("depthwise", (2, 5, 4, 9), (3, 2, 1, 9), (1, 1), ((1, 1), (1, 0)), NHWC, features=9),
        _conv("depthwise planes", (2, 3, 4, 5), (6, 1, 2, 3), (2, 1), ((1, 1), (1, 0)), features=3),
        _conv("1x1", (2, 3, 4, 3), (1, 1, 3, 2), (1, 1), ((0, 0), (0, 0)), NHWC),
        _conv("1x1 planes", (2, 3, 4, 3), (2, 3, 1, 1), (1, 1), ((0, 0), (0, 0))),
        _conv("3d", (1, 2, 3, 4, 3), (2, 2, 2, 2, 2), (1, 2, 1), ((1, 0), (0, 0), (1, 1)), order=1),
        _conv("no spatial axes", (3, 2), (4, 2), (), ()),
        _conv("empty batch", (0, 2, 4), (3, 2, 2), (1,), ((0, 0),)),
        _conv("no output", (2, 2, 2), (3, 2, 4), (1,), ((0, 0),)),
        _conv("no features", (2, 0, 4), (3, 0, 2), (1,), ((0, 0),)),
        _preferred(F32),
    ]
}
