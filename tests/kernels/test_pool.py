"""Window kernels against loops over windows: sizes that take each way, every dtype, what their checks refuse."""

import numpy as np
import pytest

from fgrad._kernels import pool
from tests.kernels.harness import run_kernel

FOLD, SELECT = pool.KERNELS["window_fold"], pool.KERNELS["window_select"]
KINDS = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def positions(j, n, window, stride, lo, bdil, wdil):
    at = [j * stride + r * wdil - lo for r in range(window)]
    return [p // bdil for p in at if p >= 0 and p % bdil == 0 and p // bdil < n]


def identity(kind, dtype):
    if kind in ("sum", "prod"):
        return dtype.type(kind == "prod")
    if dtype.kind == "f":
        return dtype.type(-np.inf if kind == "max" else np.inf)
    return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max


def fold(x, kind, axis, m, *window):
    """The kernel's result, which is compared with the definition."""
    got = run_kernel(
        FOLD, [x], [((*x.shape[:axis], m, *x.shape[axis + 1 :]), x.dtype)], [list(KINDS).index(kind), axis, *map(int, window)]
    )[0]
    want = []
    for j in range(m):
        part = np.take(x, positions(j, x.shape[axis], *window), axis)
        want.append(KINDS[kind].reduce(part, axis, dtype=x.dtype, initial=identity(kind, x.dtype)))
    want = np.stack(want, axis)
    if x.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-4 if x.dtype.itemsize <= 8 and x.dtype != float else 1e-12, atol=1e-4)
    else:
        np.testing.assert_array_equal(got, want)


DTYPES = [np.dtype(f"{k}{b}") for k in ("int", "uint") for b in (8, 16, 32, 64)] + [np.dtype(d) for d in "fdFD"]
WINDOWS = [  # outputs, window, stride, low padding, base dilation, window dilation
    (9, 2, 1, 0, 1, 1),
    (5, 3, 2, 1, 1, 1),
    (7, 3, 3, -2, 2, 1),
    (11, 2, 2, 3, 3, 4),
    (6, 1, 4, 5, 1, 1),
    (40, 14, 1, 8, 1, 1),
    (9, 20, 2, 8, 1, 1),
    (3, 5, 50, 60, 7, 3),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_folds(dtype, kind):
    if dtype.kind == "c" and kind in ("max", "min"):
        with pytest.raises(ValueError, match="not known"):
            run_kernel(FOLD, [np.zeros(3, dtype)], [((3,), dtype)], [list(KINDS).index(kind), 0, 1, 1, 0, 1, 1])
        return
    rng = np.random.default_rng(0)
    for shape, axis in (((30,), 0), ((2, 30), 1), ((2, 30, 3), 1), ((30, 20), 0), ((1, 30, 700), 1)):
        x = rng.integers(0, 100, shape).astype(dtype) if dtype.kind in "iu" else rng.uniform(0.8, 1.2, shape).astype(dtype)
        for window in WINDOWS if shape[-1] != 700 else WINDOWS[:6:5]:
            fold(x, kind, axis, *window)


@pytest.mark.parametrize(
    "window",
    [
        (7, 2, 2, 0, 1, 1),
        (7, 3, 2, 1, 1, 1),
        (14, 3, 1, 1, 1, 1),
        (28, 2, 1, 1, 2, 1),
        (3, 3, 6, 3, 1, 2),
        (5, 4, 3, 1, 1, 1),
        (6, 2, 2, -2, 1, 1),
    ],
    ids=str,
)
def test_folds_of_many_rows(window):
    """Rows that are folded together, in several groups of which the last one is smaller."""
    rng = np.random.default_rng(0)
    for kind in KINDS:
        fold(rng.uniform(0.8, 1.2, (1501, 14)).astype(np.float32), kind, 1, *window)


PLANES = pool.KERNELS["window_planes"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_folds_along_two_axes(dtype, kind):
    """Against a fold along one and then the other: windows (outputs, window, stride, low padding, window dilation) of both."""
    if dtype.kind == "c" and kind in ("max", "min"):
        with pytest.raises(ValueError, match="not known"):
            run_kernel(PLANES, [np.zeros((3, 3), dtype)], [((3, 3), dtype)], [list(KINDS).index(kind), 0, *(1, 1, 0, 1) * 2])
        return
    rng = np.random.default_rng(0)
    for shape, axis in (
        ((9, 11), 0),
        ((2, 9, 11, 3), 1),
        ((3, 7, 60, 2), 1),
        ((2, 9, 11, 1), 1),
        ((1, 5, 6, 70), 1),
        ((2, 0, 3, 2), 1),
        ((2, 3, 0, 2), 1),
    ):
        x = rng.integers(0, 100, shape).astype(dtype) if dtype.kind in "iu" else rng.uniform(0.8, 1.2, shape).astype(dtype)
        for down, along in (
            ((shape[axis], 2, 1, 0, 1), (shape[axis + 1], 2, 1, 0, 1)),
            ((shape[axis], 3, 1, 1, 1), (shape[axis + 1], 5, 1, 2, 1)),
            ((4, 3, 2, 1, 2), (5, 3, 2, 1, 1)),
            ((9, 2, 1, 4, 3), (20, 4, 1, 6, 2)),
            ((3, 2, 2, -2, 1), (4, 3, 1, -3, 1)),
        ):
            if 0 in (down[0], along[0]):
                continue
            want = x
            for at, (m, w, s, lo, wdil) in ((axis, down), (axis + 1, along)):
                parts = [np.take(want, positions(j, want.shape[at], w, s, lo, 1, wdil), at) for j in range(m)]
                want = np.stack([KINDS[kind].reduce(p, at, dtype=dtype, initial=identity(kind, dtype)) for p in parts], at)
            got = run_kernel(PLANES, [x], [(want.shape, dtype)], [list(KINDS).index(kind), axis, *down[1:], *along[1:]])[0]
            np.testing.assert_allclose(got, want, rtol=1e-4 if dtype.kind in "fc" else 0)


@pytest.mark.parametrize(
    "shapes, ip, message",
    [
        (((4, 4), (4, 4)), [0, 1, *(1, 1, 0, 1) * 2], "and the next"),
        (((4, 4, 2), (4, 4, 3)), [0, 0, *(1, 1, 0, 1) * 2], "two axes only"),
        (((4, 4), (4, 4)), [0, 0, *(0, 1, 0, 1) * 2], "must be positive"),
        (((4, 4), (4, 4)), [0, 0, 1, 1, 0, 1, 2**31 - 1, 1, 0, 2**31 - 1], "reach too far"),
        (((4, 4), (4, 4)), [0, 0, 1, 1, 0, 1], "10 integer"),
    ],
)
def test_what_planes_refuse(shapes, ip, message):
    with pytest.raises(ValueError, match=message):
        run_kernel(PLANES, [np.zeros(shapes[0], np.float32)], [(shapes[1], np.float32)], ip)


def test_fold_of_nan():
    x = np.array([1, np.nan, 3, 2], np.float32)
    for kind in (2, 3):
        np.testing.assert_array_equal(run_kernel(FOLD, [x], [((3,), x.dtype)], [kind, 0, 2, 1, 0, 1, 1])[0][:2], np.nan)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [0, 1])
def test_selections(largest, dtype):
    rng = np.random.default_rng(1)
    for shape, windows, params in (
        ((9,), (5,), [(3, 2, 1, 1, 1)]),
        ((2, 5, 6), (2, 3, 4), [(1, 1, 0, 1, 1), (2, 2, 1, 1, 1), (3, 1, 0, 1, 1)]),
        ((2, 5, 6, 70), (2, 4, 3, 70), [(1, 1, 0, 1, 1), (2, 1, 0, 1, 1), (3, 2, 1, 1, 1), (1, 1, 0, 1, 1)]),
        ((4, 5), (6, 7), [(2, 1, 1, 2, 1), (2, 2, 3, 3, 2)]),
        ((3, 4), (2, 2), [(1, 1, 20, 1, 1), (2, 1, 0, 1, 1)]),
    ):
        x = rng.integers(0, 4, shape).astype(dtype)  # with ties
        a, s = rng.standard_normal(shape).astype(dtype), rng.standard_normal(windows).astype(dtype)
        gathered, scattered = np.zeros(windows, dtype), np.zeros(shape, dtype)
        for q in np.ndindex(*windows):
            each = [positions(i, n, *p) for i, n, p in zip(q, shape, params)]
            at = [tuple(e[i] for e, i in zip(each, r)) for r in np.ndindex(*map(len, each))]
            if at:
                best = (max if largest else min)(at, key=lambda p, x=x: x[p])
                gathered[q] = a[best]
                scattered[best] += s[q]
        ip = [v for p in params for v in p]
        np.testing.assert_array_equal(run_kernel(SELECT, [a, x], [(windows, dtype)], [0, largest, *ip])[0], gathered)
        np.testing.assert_allclose(run_kernel(SELECT, [s, x], [(shape, dtype)], [1, largest, *ip])[0], scattered, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "ip, message",
    [
        ([0, 0, 1, 1, 0, 1], "7 integer parameters"),
        ([4, 0, 1, 1, 0, 1, 1], "not known"),
        ([0, 2, 1, 1, 0, 1, 1], "axis 2"),
        ([0, 0, 1, 1, 0, 1, 1], "must differ along axis 0 only"),
        ([0, 1, 0, 1, 0, 1, 1], "must be positive"),
        ([0, 1, 1, 1, 0, 2**40, 1], "below 2"),
    ],
)
def test_what_fold_refuses(ip, message):
    with pytest.raises(ValueError, match=message):
        run_kernel(FOLD, [np.ones((2, 5), np.float32)], [((2, 4), np.float32)], ip)


@pytest.mark.parametrize(
    "shapes, ip, message",
    [
        (((5,), (5,), (4,)), [0], "integer parameters expected"),
        (((5,), (5,), (4,)), [0, 1, 2, 1, 0, 1], "5 parameters each"),
        (((5,), (4,), (4,)), [0, 1, 2, 1, 0, 1, 1], "one shape"),
        (((5,), (5,), (4, 1)), [0, 1, 2, 1, 0, 1, 1], "one number of axes"),
        (((5,), (5,), (4,)), [0, 1, 0, 1, 0, 1, 1], "must be positive"),
    ],
)
def test_what_select_refuses(shapes, ip, message):
    *ins, out = shapes
    with pytest.raises(ValueError, match=message):
        run_kernel(SELECT, [np.ones(s, np.float32) for s in ins], [(out, np.float32)], ip)


APART = pool.KERNELS["window_apart"]


def places(x, m, windows, largest):
    """For every window the index of the element that it selects, or None, and of all its elements."""
    out = {}
    for q in np.ndindex(*m):
        at = [positions(j, n, *w) for j, n, w in zip(q, x.shape, windows)]
        inside = [tuple(a[i] for a, i in zip(at, r)) for r in np.ndindex(*(len(a) for a in at))]
        nans = [p for p in inside if np.isnan(x[p])]
        best = nans[0] if nans else (max if largest else min)(inside, key=lambda p: x[p]) if inside else None  # the first of equals
        out[q] = best, inside
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    "shape, windows",  # (outputs, window, stride, low padding, base dilation, window dilation) of each axis, or None
    [
        ((3, 7, 40), (None, (4, 3, 2, 1, 1, 1), (20, 3, 2, 1, 1, 1))),
        ((9, 6, 9), (None, (6, 3, 1, 1, 1, 1), (9, 3, 1, 1, 1, 1))),
        ((17, 3, 5), (None, (2, 2, 1, 0, 1, 1), (3, 2, 2, 2, 1, 2))),
        ((2, 5, 6, 23), ((2, 1, 1, 0, 1, 1), (3, 2, 2, 1, 1, 1), (5, 2, 1, 0, 1, 1), (8, 4, 3, 1, 1, 1))),
        ((2, 8, 35), (None, (2, 3, 3, 0, 1, 1), (3, 5, 7, -2, 1, 1))),
        ((2, 9, 16), (None, (4, 3, 2, 0, 1, 1), None)),
        ((1, 5, 9, 71), (None, (3, 3, 2, 1, 1, 1), (9, 3, 1, 1, 1, 1), None)),
        ((2, 6, 5, 7), (None, (7, 3, 1, 2, 1, 1), (2, 2, 3, 0, 1, 1), None)),
        ((40,), ((14, 4, 3, 2, 1, 2),)),
        ((2, 3, 4), (None, (5, 2, 2, 6, 1, 1), (3, 2, 2, 2, 1, 1))),
    ],
)
def test_windows_that_overlap(shape, windows, largest, dtype):
    """Ties, NaNs, elements that are all infinite and windows beyond the image, by vectors of windows and of features."""
    windows = [w or (n, 1, 1, 0, 1, 1) for w, n in zip(windows, shape)]
    m, windows = tuple(w[0] for w in windows), [w[1:] for w in windows]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    x[rng.random(shape) < 0.1] = np.nan
    x[rng.random(shape) < 0.2] = -np.inf if largest else np.inf
    a, ct = rng.integers(-9, 9, shape).astype(dtype), rng.integers(-9, 9, m).astype(dtype)
    ip = [v for w in windows for v in w]
    picked = places(x, m, windows, largest)
    gathered, scattered, extremum, total = (np.zeros(s, dtype) for s in (m, shape, m, m))
    for q, (at, inside) in picked.items():
        total[q] = sum(a[p] for p in inside)
        extremum[q] = (-np.inf if largest else np.inf) if at is None else x[at]
        if at is not None:
            gathered[q] = a[at]
            scattered[at] += ct[q]
    np.testing.assert_array_equal(run_kernel(SELECT, [a, x], [(m, dtype)], [0, largest, *ip])[0], gathered)
    np.testing.assert_array_equal(run_kernel(SELECT, [ct, x], [(shape, dtype)], [1, largest, *ip])[0], scattered)
    if windows[-1] != (1, 1, 0, 1, 1):
        np.testing.assert_array_equal(run_kernel(SELECT, [x], [(m, dtype)], [2, largest, *ip])[0], extremum)
        np.testing.assert_array_equal(run_kernel(SELECT, [a], [(m, dtype)], [3, 0, *ip])[0], total)
    else:
        with pytest.raises(ValueError, match="do not run along its last axis"):
            run_kernel(SELECT, [x], [(m, dtype)], [2, largest, *ip])


def tiles(x, m, w):
    """(..., windows, elements, ...): the windows of x (outer, n1, n2, inner) side by side."""
    x = x[:, : m[0] * w[0], : m[1] * w[1]].reshape(len(x), m[0], w[0], m[1], w[1], x.shape[-1])
    return x.transpose(0, 1, 3, 5, 2, 4).reshape(len(x), *m, x.shape[-1], w[0] * w[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inner", [1, 2, 3, 4, 7, 16, 17, 70])
@pytest.mark.parametrize(
    "outer, n, m, w",
    [
        (3, (28, 28), (14, 14), (2, 2)),
        (2, (9, 15), (4, 7), (2, 2)),
        (5, (6, 90), (2, 30), (3, 3)),
        (2, (4, 40), (4, 8), (1, 5)),
        (2, (12, 5), (3, 5), (4, 1)),
        (1, (70, 2), (35, 1), (2, 2)),
        (2, (17, 11), (1, 2), (16, 4)),
        (1, (4, 3000), (2, 1000), (2, 3)),
        (0, (4, 4), (2, 2), (2, 2)),
    ],
)
def test_windows_side_by_side(outer, n, m, w, inner, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (outer, *n, inner)).astype(dtype)  # with ties
    if x.size:
        x[0, 0, 1 % w[1], 0] = np.nan
    a, s = rng.standard_normal(x.shape).astype(dtype), rng.standard_normal((outer, *m, inner)).astype(dtype)
    each, taps = tiles(x, m, w), w[0] * w[1]

    def spread(values):
        """Values (..., elements) of the windows where their elements lie."""
        out = np.zeros_like(x)
        values = values.reshape(outer, *m, inner, *w).transpose(0, 1, 4, 2, 5, 3)
        out[:, : m[0] * w[0], : m[1] * w[1]] = values.reshape(outer, m[0] * w[0], m[1] * w[1], inner)
        return out

    def run(what, largest, ins, shape):
        return run_kernel(APART, ins, [(shape, x.dtype)], [what, largest, 1, *w])[0]

    np.testing.assert_allclose(run(0, 0, [x], s.shape), each.sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(run(2, 0, [s], x.shape), spread(np.repeat(s[..., None], taps, -1)))
    for largest, reduce, where in ((0, np.min, np.argmin), (1, np.max, np.argmax)):  # NumPy's first NaN or first of equals
        np.testing.assert_array_equal(run(1, largest, [x], s.shape), reduce(each, -1) if x.size else s)
        chosen = where(each, -1)[..., None] == np.arange(taps)
        np.testing.assert_array_equal(run(3, largest, [s, x], x.shape), spread(np.where(chosen, s[..., None], dtype(0))))
        np.testing.assert_array_equal(run(4, largest, [a, x], s.shape), np.where(chosen, tiles(a, m, w), 0).sum(-1))


@pytest.mark.parametrize(
    "ins, out, ip, message",
    [
        ([(2, 4, 4)], (2, 2, 2), [5, 0, 1, 2, 2], "5 integer parameters"),
        ([(2, 4, 4)], (2, 2, 2), [3, 0, 1, 2, 2], "inputs are not those"),
        ([(2, 4, 4)], (2, 2, 2), [0, 0, 2, 2, 2], "over axis 2"),
        ([(2, 4, 4)], (1, 2, 2), [0, 0, 1, 2, 2], "along two axes only"),
        ([(2, 4, 4)], (2, 2, 3), [0, 0, 1, 2, 2], "side by side"),
        ([(2, 4, 4)], (2, 2, 0), [0, 0, 1, 2, 2], "side by side"),
        ([(2, 2, 2)], (2, 4, 3), [2, 0, 1, 2, 2], "side by side"),
        ([(2, 2, 2), (2, 4, 4)], (2, 4, 5), [3, 0, 1, 2, 2], "one shape"),
        ([(2, 40, 40)], (2, 1, 1), [0, 0, 1, 40, 40], "at most 64"),
    ],
)
def test_what_apart_refuses(ins, out, ip, message):
    with pytest.raises(ValueError, match=message):
        run_kernel(APART, [np.ones(s, np.float32) for s in ins], [(out, np.float32)], ip)
