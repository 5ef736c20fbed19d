"""Convolution and windows."""

import itertools

import numpy as np

from fgrad.lax import (
    conv_dimension_numbers,
    conv_general_dilated,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from fgrad.ops.elementwise import ge_p, le_p
from tests.table.case import BF16, F16, F32, Case, distinct, of_kinds, typed


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
        rows = pixel.reshape(batches, b, features, w.shape[1]).swapaxes(1, 2).reshape(features * batches, b, w.shape[1])
        taps = w[(slice(None), slice(None), *r)].reshape(features * batches, o, w.shape[1])
        out[(slice(None), slice(None), *q)] += (rows @ taps.swapaxes(1, 2)).swapaxes(0, 1).reshape(b, w.shape[0])
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


def np_positions(shape, q, params):
    """Where the window q finds its elements, in order."""
    for r in np.ndindex(*params["window_dimensions"]):
        every = zip(q, r, params["window_strides"], params["window_dilation"], params["padding"], params["base_dilation"])
        at = [(i * s + k * wd - lo, bd) for i, k, s, wd, (lo, _), bd in every]
        if all(p >= 0 and p % bd == 0 and p // bd < n for (p, bd), n in zip(at, shape)):
            yield tuple(p // bd for p, bd in at)


def np_windows(shape, params):
    """(index of the window, positions of its elements) of all windows."""
    sizes = []
    for n, w, s, (lo, hi), bd, wd in zip(shape, *(params[k] for k in NAMES)):
        sizes.append(max(0, ((n - 1) * bd + 1 if n else 0) + lo + hi - (w - 1) * wd - 1 + s) // s)
    return sizes, [(q, list(np_positions(shape, q, params))) for q in np.ndindex(*sizes)]


NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
WINDOWS = {  # shape: window, strides, padding, base dilation, window dilation
    "pairs": ((2, 7, 3), (1, 2, 1), (1, 1, 1), ((0, 0),) * 3),
    "strided": ((2, 5, 6), (1, 3, 2), (1, 2, 3), ((0, 0), (1, 1), (0, 1))),
    "images": ((1, 5, 6, 2), (1, 2, 3, 1), (1, 1, 2, 1), ((0, 0), (1, 0), (1, 1), (0, 0))),
    "dilated": ((5, 6), (2, 3), (1, 2), ((1, 1), (-1, 2)), (2, 1), (1, 2)),
    "all": ((3, 4), (3, 4), (1, 1), ((0, 0), (0, 0))),
    "long": ((40, 2), (13, 1), (1, 1), ((6, 6), (0, 0))),
    "empty": ((0, 4), (1, 2), (1, 1), ((0, 0), (0, 0))),
    "no window": ((2, 3), (1, 4), (1, 1), ((0, 0), (0, 0))),
}


def _windows(name):
    shape, window, strides, pads, *dilations = WINDOWS[name]
    ones = (1,) * len(shape)
    return shape, dict(zip(NAMES, (window, strides, pads, *(dilations or (ones, ones)))))


def _reduction(prim, fold, kinds, sample=typed, **kw):
    def case(name):
        shape, params = _windows(name)

        def ref(x):
            sizes, windows = np_windows(shape, params)
            out = np.zeros(sizes, x.dtype)
            for q, at in windows:
                out[q] = fold([x[p] for p in at], x.dtype)
            return out

        return Case(lambda x: prim.bind(x, **params), (sample(*shape),), ref, name=name, dtypes=of_kinds(kinds), **kw)

    return [case(name) for name in WINDOWS]


def _lowest(dtype):
    return -np.inf if dtype.kind == "f" else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype):
    return np.inf if dtype.kind == "f" else True if dtype.kind == "b" else np.iinfo(dtype).max


def _selection(prim, scatter, select):
    def case(name):
        shape, params = _windows(name)
        sizes = tuple(np_windows(shape, params)[0])

        def ref(a, x):
            out = np.zeros(shape if scatter else sizes)
            for q, at in np_windows(shape, params)[1]:
                if at:
                    best = (max if select is ge_p else min)(at, key=lambda p: x[p])
                    if scatter:
                        out[best] += a[q]
                    else:
                        out[q] = a[best]
            return out

        return Case(
            lambda a, x: prim.bind(a, x, select_prim=select, **params),
            (typed(*(sizes if scatter else shape)), distinct(*shape)),
            ref,
            name=name,
            wrt=(0,),
            linear=((0,),),
        )

    return [case(name) for name in WINDOWS]


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
    ],
    "reduce_window_sum": _reduction(reduce_window_sum_p, lambda xs, d: sum(xs), "fiuc", linear=((0,),), ulps=8),
    "reduce_window_max": _reduction(reduce_window_max_p, lambda xs, d: max(xs, default=_lowest(d)), "fiub", distinct, ulps=0),
    "reduce_window_min": _reduction(reduce_window_min_p, lambda xs, d: min(xs, default=_highest(d)), "fiub", distinct, ulps=0),
    "select_and_gather_add": _selection(select_and_gather_add_p, 0, ge_p),
    "select_and_scatter_add": _selection(select_and_scatter_add_p, 1, le_p),
}
