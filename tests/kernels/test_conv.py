"""The convolution kernel over sizes that take each of its ways: blocks of rows and columns, chunks of sums, panels, direct loops."""

import numpy as np
import pytest

import fgrad as fg
from fgrad._kernels import conv, parallel
from tests.kernels.harness import contiguous, run_kernel
from tests.table.rows.conv import np_conv

KERNEL = conv.KERNELS["conv"]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "complex64": 2.0**-23, "complex128": 2.0**-52, "int32": 0, "int64": 0}


def run(x, w, strides, pads, ldil=None, rdil=None, features=1, batches=1, axes=None, reverse=0):
    """Operands in the order batch, feature, spatial; out's memory in the order `axes`. Returns the canonical result."""
    n = x.ndim - 2
    axes = axes or tuple(range(n + 2))
    want = np_conv(x, w, strides, pads, ldil, rdil, None, features, batches)
    shape = [0] * (n + 2)
    for size, a in zip(want.shape, axes):
        shape[a] = size
    ip = [n, features, batches, *axes]
    for s, (lo, _), ld, rd in zip(strides, pads, ldil or (1,) * n, rdil or (1,) * n):
        ip += [s, lo, ld, rd]
    out = run_kernel(KERNEL, [x, w], [(tuple(shape), x.dtype)], [*ip, reverse])[0].transpose(axes)
    scale = np_conv(np.abs(x), np.abs(w), strides, pads, ldil, rdil, None, features, batches)
    want, scale = (np.flip(a, tuple(range(2, n + 2))) if reverse else a for a in (want, scale))
    assert (np.abs(out - want) <= 4 * EPS[x.dtype.name] * (np.abs(scale) + 1)).all()
    return out


def noise(rng, shape, dtype):
    x = rng.integers(-50, 50, shape) if np.dtype(dtype).kind == "i" else rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


ORDERS = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 3, 1, 2), "HWNC": (2, 3, 0, 1), "CNHW": (1, 0, 2, 3), "HNWC": (1, 3, 0, 2)}


def laid(x, order):
    """x with memory in the order whose canonical axes are `order`."""
    return np.ascontiguousarray(x.transpose(np.argsort(order))).transpose(order)


def run_threads(*args, **kw):
    """run, whose result must not depend on the number of threads."""
    out, before = run(*args, **kw), parallel.get_num_threads()
    try:
        parallel.set_num_threads(1)
        np.testing.assert_array_equal(run(*args, **kw), out)
    finally:
        parallel.set_num_threads(before)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("order", ORDERS)
def test_layouts(order, dtype):
    rng, axes = np.random.default_rng(0), ORDERS[order]
    for xs, ws, kw in (
        ((2, 5, 9, 8), (6, 5, 3, 2), {}),
        ((3, 16, 6, 7), (17, 16, 3, 3), dict(strides=(2, 1), pads=((1, 1), (2, 0)))),
        ((2, 4, 5, 6), (8, 2, 2, 2), dict(features=2, ldil=(2, 3), pads=((1, 2), (2, 2)))),
        ((4, 3, 5, 6), (8, 3, 2, 3), dict(batches=2, rdil=(2, 1), strides=(1, 2))),
        ((2, 12, 5, 6), (12, 1, 3, 2), dict(features=12, pads=((1, 1), (1, 0)))),
        ((12, 2, 5, 6), (12, 2, 4, 5), dict(batches=12)),
    ):
        kw = {"strides": (1, 1), "pads": ((0, 0), (0, 0)), **kw}
        run(laid(noise(rng, xs, dtype), axes), laid(noise(rng, ws, dtype), axes), axes=axes, **kw)


@pytest.mark.parametrize(
    "shape", [((1, 40, 12, 12), (8, 40, 4, 4)), ((9, 700, 6, 5), (5, 700, 2, 2)), ((3, 600, 18, 17), (2, 600, 16, 15))]
)
def test_long_sums(shape):
    """More taps than a panel holds, and few outputs: the sums are cut in chunks."""
    rng = np.random.default_rng(1)
    for order in ("NCHW", "NHWC"):
        x, w = (laid(noise(rng, s, np.float64), ORDERS[order]) for s in shape)
        run_threads(x, w, (1, 1), ((1, 1), (0, 0)), axes=ORDERS[order])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_many_groups_of_one_feature(dtype):
    """Vectors of groups, whole and partial; wide and narrow images; and the gradient with respect to the kernel, whose sums are long."""
    rng = np.random.default_rng(5)
    for groups, size, kw in (
        (45, (6, 21), dict(strides=(1, 1), pads=((1, 1), (1, 1)))),
        (32, (7, 12), dict(strides=(2, 2), pads=((1, 0), (2, 3)), rdil=(1, 2))),
        (9, (4, 5), dict(strides=(1, 3), pads=((0, 0), (4, 4)), ldil=(2, 2))),
    ):
        for order in ("NHWC", "NCHW", "HWNC"):
            axes = ORDERS[order]
            x = laid(noise(rng, (2, groups, *size), dtype), axes)
            run_threads(x, laid(noise(rng, (2 * groups, 1, 3, 3), dtype), axes), features=groups, axes=axes, **kw)
    for order in ("HWNC", "NCHW"):
        axes = ORDERS[order]
        x, w = noise(rng, (36, 3, 9, 8), dtype), noise(rng, (36, 3, 9, 8), dtype)
        for kw in (dict(strides=(1, 1)), dict(strides=(2, 1), rdil=(1, 2))):
            run_threads(laid(x, (2, 3, 1, 0)), laid(w, (2, 3, 1, 0)), pads=((1, 1), (7, 1)), batches=36, axes=axes, **kw)
        for low, high in ((1, 1), (0, 2), (2, 2), (5, 1), (3, 3)):  # rows of 3, 5 and 7 sums
            run_threads(laid(x, (2, 3, 1, 0)), laid(w, (2, 3, 1, 0)), (1, 1), ((2, 1), (low, high)), batches=36, axes=axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_larger_than_a_cache(dtype):
    """Some rows of taps lie outside the image."""
    rng = np.random.default_rng(11)
    for order in ("NCHW", "NHWC"):
        axes = ORDERS[order]
        x, w = laid(noise(rng, (2, 300, 7, 7), dtype), axes), laid(noise(rng, (40, 300, 5, 5), dtype), axes)
        run_threads(x, w, (2, 2), ((2, 2), (2, 2)), axes=axes)
        run_threads(x, w, (1, 2), ((4, 0), (2, 1)), axes=axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_outputs_of_dilated_inputs(dtype):
    """Features first: rows of outputs of one remainder are written with steps."""
    rng = np.random.default_rng(12)
    for features in (1, 3, 7, 17):
        x, w = noise(rng, (2, 40, 9, 21), dtype), noise(rng, (features, 40, 3, 3), dtype)
        run_threads(x, w, (1, 1), ((1, 2), (2, 1)), ldil=(2, 2))
        run_threads(x, w, (2, 1), ((1, 1), (0, 3)), ldil=(1, 3))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_output_features(dtype):
    """Lanes of taps: whole and partial vectors of them, tiles of every width, images that are padded and those that are read in place."""
    rng = np.random.default_rng(14)
    for features in (1, 2, 3, 4):
        for inputs, cols, kw in (
            (16, 37, dict(pads=((1, 1), (1, 1)))),
            (19, 16, dict(strides=(2, 2), pads=((0, 0), (0, 0)))),
            (7, 9, dict(strides=(1, 1), pads=((2, 0), (3, 1)), rdil=(1, 1))),
            (35, 5, dict(pads=((2, 2), (2, 2)), rdil=(2, 2))),
        ):
            for order in ("NHWC", "HNWC", "NCHW"):
                axes = ORDERS[order]
                x, w = laid(noise(rng, (2, inputs, 6, cols), dtype), axes), laid(noise(rng, (features, inputs, 3, 3), dtype), axes)
                run_threads(x, w, axes=axes, **{"strides": (1, 1), **kw})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_windows_inside_the_image(dtype):
    """Features last: inputs are read where they lie, also with more columns than are needed and with other strides than the image's."""
    rng, axes = np.random.default_rng(13), ORDERS["NHWC"]
    whole = laid(noise(rng, (2, 24, 12, 13), dtype), axes)
    for x in (whole, whole[:, :18], whole[:, :, ::2, 1:]):
        for o, window, strides, pads, rdil in (
            (33, (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
            (33, (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
            (5, (2, 3), (2, 1), ((-1, 0), (-2, -1)), (1, 2)),
        ):
            w = laid(noise(rng, (o, x.shape[1], *window), dtype), axes)
            run_threads(x, w, strides, pads, rdil=rdil, axes=axes)


def test_many_outputs():
    rng = np.random.default_rng(2)
    for order in ("NCHW", "NHWC", "HNWC"):
        x, w = laid(noise(rng, (2, 3, 40, 50), np.float32), ORDERS[order]), laid(noise(rng, (70, 3, 3, 3), np.float32), ORDERS[order])
        run(x, w, (1, 1), ((1, 1), (1, 1)), axes=ORDERS[order])


@pytest.mark.parametrize("order", ["NCHW", "NHWC", "HNWC"])
def test_many_groups_of_few_features(order):
    """Vectors of groups, whole and partial, by tiles of outputs and features; and long sums."""
    rng, axes = np.random.default_rng(8), ORDERS[order]
    for dtype, groups, c, o in (("float32", 21, 3, 5), ("float64", 9, 2, 2), ("float32", 16, 1, 3)):
        x = laid(noise(rng, (2, groups * c, 9, 10), dtype), axes)
        w = laid(noise(rng, (groups * o, c, 3, 2), dtype), axes)
        run_threads(x, w, (1, 1), ((1, 1), (0, 1)), features=groups, axes=axes)
        run_threads(x, w[:, :, ::-1], (2, 1), ((1, 3), (2, 1)), ldil=(1, 2), rdil=(1, 3), features=groups, axes=axes)
        x, w = laid(noise(rng, (groups * c, 3, 8, 9), dtype), axes), laid(noise(rng, (groups * o, 3, 7, 8), dtype), axes)
        run_threads(x, w, (1, 1), ((1, 1), (1, 0)), batches=groups, axes=axes)
        run_threads(x, w[:, :, :4, :4], (2, 3), ((0, 1), (1, 0)), rdil=(2, 2), batches=groups, axes=axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_groups_that_share_a_vector(dtype):
    """Features last, a vector for one or more groups: padded and not, strided, dilated, with phases, over blocks of columns."""
    rng, axes = np.random.default_rng(11), ORDERS["NHWC"]
    for groups, c, o in ((16, 4, 4), (16, 1, 2), (8, 3, 4), (16, 8, 8), (2, 5, 8)):
        x, w = laid(noise(rng, (2, groups * c, 9, 13), dtype), axes), laid(noise(rng, (groups * o, c, 3, 4), dtype), axes)
        run_threads(x, w, (1, 1), ((0, 0), (0, 0)), features=groups, axes=axes)
        run_threads(x, w, (2, 1), ((1, 2), (3, 1)), features=groups, axes=axes)
        run_threads(x, w, (1, 3), ((5, 0), (-1, 4)), rdil=(3, 2), features=groups, axes=axes)
        run_threads(x, w[:, :, ::-1], (1, 2), ((1, 1), (2, 2)), ldil=(2, 3), features=groups, axes=axes)
    for groups, c, o in ((32, 1, 1), (16, 2, 2)):
        x = laid(noise(rng, (1, groups * c, 1500), dtype), (0, 2, 1))
        run_threads(x, noise(rng, (groups * o, c, 4), dtype), (1,), ((3, 0),), features=groups, axes=(0, 2, 1))
        run_threads(x, noise(rng, (groups * o, c, 4), dtype), (3,), ((0, 1),), rdil=(5,), features=groups, axes=(0, 2, 1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [3, 4, 5, 7])
def test_windows_of_neighbours_share_what_they_load(width, dtype):
    """Depthwise, features last, whole vectors and the rest: by steps of one, two and three, padded and not, dilated, reversed."""
    rng, axes = np.random.default_rng(width), ORDERS["NHWC"]
    x, w = laid(noise(rng, (2, 40, 9, 27), dtype), axes), laid(noise(rng, (40, 1, 3, width), dtype), axes)
    for step in (1, 2, 3):
        run_threads(x, w, (1, step), ((1, 1), (width // 2, width // 2)), features=40, axes=axes)
        run_threads(x, w, (2, step), ((0, 0), (0, 0)), features=40, axes=axes)
    run_threads(x, w, (1, 2), ((1, 1), (3, 2)), rdil=(1, 2), features=40, axes=axes)
    run_threads(x, w[:, :, ::-1, ::-1], (1, 1), ((1, 1), (width, width)), features=40, axes=axes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_first_in_vectors_of_outputs(dtype):
    """Rows that fill vectors, features first: strides, dilations, phases, groups, planes, blocks of columns, reversed inputs."""
    rng = np.random.default_rng(13)
    x, w = noise(rng, (2, 6, 9, 47), dtype), noise(rng, (30, 6, 3, 5), dtype)
    run_threads(x, w, (1, 1), ((1, 1), (2, 2)))
    run_threads(x, w[:, :, ::-1, ::-1], (2, 3), ((2, 1), (1, 47)))
    run_threads(x[..., ::-1], w, (1, 2), ((5, 5), (20, 17)), rdil=(2, 3))
    run_threads(x, w, (2, 1), ((1, 1), (4, 4)), ldil=(1, 2))
    run_threads(x, w[:, :3], (1, 1), ((0, 1), (-2, 4)), features=2)
    run_threads(np.broadcast_to(x[:, :1], x.shape), np.broadcast_to(w[..., :1], w.shape), (1, 1), ((1, 1), (2, 2)))
    run_threads(laid(x, ORDERS["HWNC"]), laid(w, ORDERS["HWNC"]), (1, 1), ((1, 1), (2, 2)))
    run_threads(noise(rng, (2, 3, 12, 32), dtype), noise(rng, (20, 3, 4, 4), dtype), (2, 2), ((1, 1), (1, 1)))  # rows of a vector
    run_threads(noise(rng, (2, 3, 12, 130), dtype), noise(rng, (20, 3, 8, 8), dtype), (4, 4), ((1, 1), (2, 2)))  # long sums with steps
    x, w = noise(rng, (2, 1, 5000), dtype), noise(rng, (33, 1, 10), dtype)
    run_threads(x, w, (5,), ((0, 3),))
    run_threads(x, w[:1], (1,), ((72, 0),), rdil=(8,))
    x, w = noise(rng, (1, 24, 3200), dtype), noise(rng, (17, 24, 4), dtype)
    run_threads(x, w, (1,), ((3, 0),))
    run_threads(noise(rng, (1, 3, 5, 6, 32), dtype), noise(rng, (4, 3, 3, 2, 3), dtype), (1, 1, 1), ((1, 1), (0, 1), (1, 1)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_depthwise_planes_where_they_lie(dtype):
    """Features first, one input feature a group: every height of a tile and of a window, strides of rows, dilations, phases, uneven and
    negative padding, several outputs, planes."""
    rng = np.random.default_rng(19)
    for rows, (r1, r2) in (
        (4, (1, 3)),
        (5, (2, 2)),
        (6, (3, 3)),
        (7, (5, 5)),
        (9, (7, 7)),
        (10, (4, 3)),
        (13, (9, 2)),
        (16, (3, 1)),
        (31, (3, 3)),
    ):
        x, w = noise(rng, (2, 9, rows, 13 + rows), dtype), noise(rng, (9, 1, r1, r2), dtype)
        run_threads(x, w, (1, 1), ((r1 // 2, r1 // 2), (r2 // 2, r2 // 2)), features=9)
        run_threads(x, w[:, :, ::-1, ::-1], (1, 1), ((r1, r1 + 2), (r2 + 1, r2)), features=9)
    x, w = noise(rng, (2, 5, 19, 37), dtype), noise(rng, (10, 1, 3, 5), dtype)
    run_threads(x, w, (2, 1), ((1, 1), (2, 2)), features=5)
    run_threads(x, w, (1, 1), ((4, 4), (6, 5)), rdil=(2, 3), features=5)
    run_threads(x, w, (1, 1), ((2, 3), (4, 2)), ldil=(2, 1), features=5)
    for ldil, wide in (((2, 2), 37), ((1, 2), 9), ((3, 3), 20), ((2, 4), 17), ((1, 7), 12)):  # a stride's gradient
        run_threads(x[..., :wide], w, (1, 1), ((1, 2), (3, 2)), ldil=ldil, features=5)
        run_threads(x[..., :wide], w[..., :1], (1, 1), ((1, 2), (3, 2)), ldil=ldil, features=5)
    run_threads(x, w, (1, 1), ((-2, 3), (-1, -1)), features=5)
    run_threads(x, w, (3, 1), ((20, 0), (0, 40)), rdil=(3, 1), features=5)
    run_threads(np.broadcast_to(x[:, :1], x.shape), w, (1, 1), ((1, 1), (2, 2)), features=5)
    run_threads(noise(rng, (2, 4, 5, 6, 20), dtype), noise(rng, (4, 1, 3, 3, 3), dtype), (1, 1, 1), ((1, 1), (0, 1), (1, 1)), features=4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_depthwise_planes_by_steps_of_two(dtype):
    """Features first: every second column of x, with and without a window's rows together, and outputs that two parts weave."""
    rng = np.random.default_rng(23)
    for rows, cols, r1, r2 in ((9, 70, 3, 3), (16, 33, 5, 5), (30, 31, 7, 7), (11, 64, 1, 2), (14, 14, 2, 3), (8, 130, 4, 1)):
        x, w = noise(rng, (2, 5, rows, cols), dtype), noise(rng, (10, 1, r1, r2), dtype)
        run_threads(x, w, (2, 2), ((r1 // 2, r1 // 2), (r2 // 2, r2 // 2)), features=5)
        run_threads(x, w, (1, 2), ((r1, 0), (0, r2)), features=5)
        run_threads(x, w, (2, 2), ((1, 1), (-3, 2)), rdil=(1, 3), features=5)
        run_threads(x[:, :, :6], w[:, :, ::-1, ::-1], (1, 1), ((1, 2), (2, 1)), ldil=(2, 2), features=5)
        run_threads(x[:, :, :6], w, (1, 1), ((1, 2), (0, 3)), ldil=(1, 2), features=5)
    x = noise(rng, (1, 4, 5, 9, 40), dtype)
    run_threads(x, noise(rng, (4, 1, 3, 3, 3), dtype), (2, 2, 2), ((1, 1), (0, 1), (1, 1)), features=4)
    run_threads(x, noise(rng, (4, 1, 2, 3, 3), dtype), (1, 1, 1), ((1, 1), (0, 1), (1, 1)), ldil=(2, 2, 2), features=4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_along_rows(dtype):
    """A kernel's gradient, features first: rows as they lie (1x1), with gaps, by remainder modulo a stride, in blocks of columns, of
    several images together; features that fill no tile; groups, planes, views, outputs in the reverse order."""
    rng = np.random.default_rng(29)
    for batch, inputs, outputs, image, window, stride, pad in (
        (2, 17, 9, (40, 41), (1, 1), 1, 0),
        (3, 40, 4, (5, 21), (1, 1), 1, 0),
        (1, 3, 33, (60, 61), (3, 3), 1, 1),
        (2, 3, 8, (67, 101), (3, 5), 2, 2),
        (2, 5, 6, (32, 200), (4, 4), 4, 0),
        (5, 4, 7, (14, 65), (3, 3), 1, 1),
        (5, 15, 7, (14, 15), (3, 3), 1, 1),
        (5, 15, 20, (14, 15), (3, 3), 1, 1),  # rows that end soon are turned
        (1, 1, 16, (24, 31), (3, 3), 1, 1),  # but for few sums
        (1, 1, 5, (9000,), (7,), 1, 3),
        (2, 2, 4, (5000,), (9,), 4, 4),
        (2, 3, 5, (6, 7, 50), (3, 2, 3), 1, 1),
        (2, 3, 5, (9, 8, 100), (3, 3, 3), 2, 1),
    ):
        n = len(image)
        out = tuple((i + 2 * pad - k) // stride + 1 for i, k in zip(image, window))
        ends = tuple((pad, (q - 1) * stride + k - i - pad) for i, k, q in zip(image, window, out))
        x, w = noise(rng, (inputs, batch, *image), dtype), noise(rng, (outputs, batch, *out), dtype)
        run_threads(x, w, (1,) * n, ends, rdil=(stride,) * n, axes=(1, 0, *range(2, n + 2)))
        run_threads(x, w, (1,) * n, ends, rdil=(stride,) * n, reverse=1)
    x, w = noise(rng, (8, 2, 30, 63), dtype), noise(rng, (12, 2, 30, 63), dtype)
    run_threads(x, w, (1, 1), ((1, 1), (1, 1)), batches=2)
    run_threads(x, np.broadcast_to(w[:1], w.shape), (1, 1), ((0, 0), (0, 0)))
    run_threads(x[:, :, ::2], w[:, :, ::2], (2, 1), ((2, 2), (1, 1)))
    x[:2, 0, 0, 0] = w[:3, 0, 0, 0] = 0
    run_threads(x[:, :0], w[:, :0], (1, 1), ((1, 1), (1, 1)))


@pytest.mark.parametrize("last", [False, True])
def test_rows_longer_than_a_block(last):
    """Blocks of columns: of outputs, and of the taps of a gradient with respect to the kernel."""
    rng, axes = np.random.default_rng(6), (0, 2, 1) if last else (0, 1, 2)
    x, w = (laid(noise(rng, s, np.float32), axes) for s in ((1, 40, 3001), (33, 40, 3)))
    run_threads(x, w, (1,), ((1, 2),), axes=axes)
    run_threads(x, w, (2,), ((0, 3),), rdil=(5,), axes=axes)
    x, w = (laid(noise(rng, s, np.float32), axes) for s in ((40, 2, 3001), (18, 2, 2999)))
    run_threads(x, w, (1,), ((1, 2),), axes=axes)
    run_threads(x[:, :, :999], w[:, :, :330], (2,), ((1, 0),), rdil=(3,), axes=axes)


def test_winograd():
    """3x3 windows of float32 without strides and with many features: odd sizes, uneven padding, groups, planes."""
    rng = np.random.default_rng(7)
    for order in ("NCHW", "NHWC", "HNWC"):
        axes = ORDERS[order]
        x, w = laid(noise(rng, (3, 33, 13, 14), np.float32), axes), laid(noise(rng, (50, 33, 3, 3), np.float32), axes)
        run_threads(x, w, (1, 1), ((1, 1), (1, 1)), axes=axes)
        run_threads(x, w[:, :, ::-1, ::-1], (1, 1), ((3, 0), (-1, 2)), axes=axes)
    x, w = noise(rng, (4, 48, 11, 12), np.float32), noise(rng, (48, 24, 3, 3), np.float32)
    run_threads(x, w, (1, 1), ((1, 1), (0, 1)), features=2)
    x, w = noise(rng, (1, 24, 7, 12, 14), np.float32), noise(rng, (24, 24, 1, 3, 3), np.float32)
    run_threads(x, w, (2, 1, 1), ((1, 1), (1, 1), (1, 1)))
    run_threads(noise(rng, (1, 300, 8, 60), np.float32), noise(rng, (48, 300, 3, 3), np.float32), (1, 1), ((1, 1), (1, 1)))
    for axes in (ORDERS["NCHW"], ORDERS["NHWC"]):  # several images a block
        x, w = laid(noise(rng, (33, 24, 5, 6), np.float32), axes), laid(noise(rng, (80, 48, 3, 3), np.float32), axes)
        run_threads(x, w[:40, :24], (1, 1), ((1, 1), (1, 1)), axes=axes)
        run_threads(laid(noise(rng, (9, 96, 4, 3), np.float32), axes), w, (1, 1), ((1, 1), (1, 2)), features=2, axes=axes)
        x, w = laid(noise(rng, (5, 192, 6, 5), np.float32), axes), laid(noise(rng, (330, 96, 3, 3), np.float32), axes)  # a large kernel
        run_threads(x, w, (1, 1), ((1, 1), (2, 1)), features=2, axes=axes)
        run_threads(x[:, :96], w[:, :, 1:2], (1, 1), ((0, 0), (1, 1)), axes=axes)
        x, w = laid(noise(rng, (31, 260, 6, 5), np.float32), axes), laid(noise(rng, (40, 260, 3, 3), np.float32), axes)  # in two groups
        run_threads(x, w, (1, 1), ((1, 1), (1, 1)), axes=axes)


def test_winograd_of_other_windows():
    """Rows of 3 and more taps, planes, and windows of more than one segment; odd sizes, dilation, groups."""
    rng = np.random.default_rng(12)
    for axes in ((0, 1, 2), (0, 2, 1)):
        x, w = laid(noise(rng, (2, 40, 203), np.float32), axes), laid(noise(rng, (70, 40, 6), np.float32), axes)
        for taps, pads, rdil in ((3, (1, 1), 1), (3, (16, 0), 8), (5, (2, 2), 1), (6, (-1, 9), 2)):
            run_threads(x, w[:, :, :taps], (1,), (pads,), rdil=(rdil,), axes=axes)
    for order in ("NCHW", "NHWC"):
        axes = ORDERS[order]
        x, w = laid(noise(rng, (2, 48, 11, 14), np.float32), axes), laid(noise(rng, (50, 48, 7, 6), np.float32), axes)
        for high, wide in ((5, 5), (3, 5), (6, 3), (5, 6), (1, 3)):
            run_threads(x, w[:, :, :high, :wide], (1, 1), ((2, 1), (2, 3)), axes=axes)
        run_threads(x, w[:, :24, :5, :5], (1, 1), ((4, 4), (4, 4)), rdil=(2, 2), features=2, axes=axes)
    x, w = noise(rng, (2, 32, 7, 9, 14), np.float32), noise(rng, (32, 32, 3, 3, 3), np.float32)
    run_threads(x, w, (1, 1, 1), ((1, 1), (1, 1), (1, 1)))
    run_threads(x, w[:, :, :2], (2, 1, 1), ((0, 3), (2, 0), (1, 1)), rdil=(2, 1, 1), axes=(0, 4, 1, 2, 3))


def test_dilated_winograd():
    """Dilated 3x3 windows are computed by remainders of the output's positions, which may differ in number."""
    rng = np.random.default_rng(9)
    for order in ("NCHW", "NHWC"):
        axes = ORDERS[order]
        x, w = laid(noise(rng, (2, 20, 19, 22), np.float32), axes), laid(noise(rng, (33, 20, 3, 3), np.float32), axes)
        for rdil, pads in (((2, 2), ((2, 2), (2, 2))), ((1, 3), ((1, 1), (5, 1))), ((3, 2), ((0, 4), (-1, 2)))):
            run_threads(x, w, (1, 1), pads, rdil=rdil, axes=axes)
        run(x, w, (2, 2), ((2, 1), (2, 3)), rdil=(2, 2), axes=axes)
        run(x, w, (4, 1), ((2, 2), (2, 2)), rdil=(2, 2), axes=axes)


def test_taps_of_a_mask_let_nothing_through():
    """Outputs above a change are the same numbers where the kernel's lower rows are zero (as in PixelCNN)."""
    rng = np.random.default_rng(13)
    x, w = noise(rng, (1, 32, 12, 12), np.float32), noise(rng, (32, 32, 3, 3), np.float32)
    w[:, :, 2] = 0
    changed = x.copy()
    changed[:, :, 6:] += 1
    conv = fg.jit(lambda x: fg.lax.conv_general_dilated(x, w, (1, 1), "SAME"))
    assert np.array_equal(conv(x)[:, :, :5], conv(changed)[:, :, :5])


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_strides_and_dilations_with_a_common_divisor(order, dtype):
    """Inputs of which only every n-th position counts: also from before the first, and beyond the last."""
    rng, axes = np.random.default_rng(10), ORDERS[order]
    x, w = laid(noise(rng, (2, 16, 13, 14), dtype), axes), laid(noise(rng, (24, 16, 2, 3), dtype), axes)
    for groups in (1, 8):
        v = w[:, : 16 // groups]
        run(x, v[:, :, :1, :1], (2, 3), ((0, 0), (0, 0)), features=groups, axes=axes)
        run(x, v[:, :, :1, :1], (3, 2), ((4, 2), (-1, 5)), features=groups, axes=axes)
        run(x, v, (4, 2), ((1, 3), (3, 2)), rdil=(2, 4), features=groups, axes=axes)
        run(x, v, (20, 6), ((15, 15), (3, 2)), rdil=(30, 4), features=groups, axes=axes)
    run(x[:, :, :2], w[:, :, :1], (5, 2), ((7, 7), (1, 1)), rdil=(1, 2), axes=axes)


def test_reversed_and_broadcast_operands():
    rng = np.random.default_rng(3)
    x, w = noise(rng, (2, 4, 7, 6), np.float32), noise(rng, (5, 4, 3, 2), np.float32)
    for v in (w[:, :, ::-1, ::-1], w[::-1, ::-1], np.broadcast_to(w[:1], w.shape), np.broadcast_to(w[..., :1], w.shape)):
        run(x, v, (1, 2), ((1, 0), (2, 1)))
        run(x[..., ::-1], v, (1, 2), ((1, 0), (2, 1)))


def test_spatial_axes():
    rng = np.random.default_rng(4)
    run(noise(rng, (5, 3), np.float32), noise(rng, (4, 3), np.float32), (), ())
    run(noise(rng, (2, 3, 30), np.float32), noise(rng, (4, 3, 5), np.float32), (2,), ((2, 2),), (3,), (2,))
    run(noise(rng, (2, 3, 4, 5, 6), np.float64), noise(rng, (4, 3, 2, 3, 2), np.float64), (1, 2, 1), ((0, 1), (1, 1), (2, -1)), (1, 2, 3))


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (0, 4, 1, 2, 3), (2, 3, 4, 0, 1), (0, 1, 3, 2, 4)])
def test_axes_that_windows_leave_alone(order, dtype):
    """Neighbours of those are one axis: before and behind windows, in a kernel's gradient, in views, in the reverse order."""
    rng = np.random.default_rng(31)
    x, ones, none = laid(noise(rng, (2, 17, 4, 5, 7), dtype), order), (1, 1, 1), ((0, 0),) * 3
    first, last = ((1, 1), (0, 0), (0, 0)), ((0, 0), (0, 0), (2, 1))
    for window, pads in (((3, 1, 1), first), ((1, 1, 3), last), ((1, 1, 1), none), ((1, 2, 1), none)):
        w = noise(rng, (9, 17, *window), dtype)
        run_threads(x, w, ones, pads, axes=order)
        run(x[:, :, :, 1:4], w, ones, pads)
        run(x, w, ones, pads, reverse=1)
    wide = noise(rng, (9, 17, 4, 5, 7), dtype)
    for w in (wide, laid(wide, order), noise(rng, (9, 17, 8, 5, 7), dtype)[:, :, ::2]):
        run_threads(x, w, ones, none, axes=order)
        run(x, w, ones, first, reverse=1)
    run(np.broadcast_to(x[:, :, :, :1], x.shape), wide, ones, none)


@pytest.mark.parametrize("order, dtype", [(order, "float32") for order in ORDERS] + [("NHWC", "complex64"), ("NCHW", "int32")])
def test_outputs_in_the_reverse_order(order, dtype):
    rng, axes = np.random.default_rng(5), ORDERS[order]
    for xs, ws, kw in (
        ((3, 4, 12, 11), (40, 4, 10, 9), {}),
        ((33, 1, 20, 18), (5, 1, 9, 8), {"rdil": (2, 2)}),
        ((2, 20, 9, 8), (24, 20, 3, 2), {"ldil": (2, 3)}),
        ((2, 6, 9, 8), (6, 1, 3, 3), {"features": 6}),
    ):
        x, w = laid(noise(rng, xs, dtype), axes), laid(noise(rng, ws, dtype), axes)
        run_threads(x, w, (1, 1), ((1, 2), (2, 1)), axes=axes, reverse=1, **kw)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_sums_far_apart(order):
    rng, axes = np.random.default_rng(6), ORDERS[order]
    x, w = (laid(noise(rng, (n, 1, 20, 20), "float32"), axes) for n in (130, 9))
    run_threads(x, w, (6, 6), ((6, 6),) * 2, axes=axes)


@pytest.mark.parametrize("features", [1, 3, 20])
def test_taps_in_the_padding(features):
    rng = np.random.default_rng(7)
    for size, window, pad, dilation in ((1, 3, 1, 1), (2, 5, 2, 1), (6, 3, 9, 9), (5, 3, 12, 12), (3, 4, 20, 2), (4, 3, -1, 1)):
        x, w = (noise(rng, (n, features, k, k), "float32") for n, k in ((2, size), (18, window)))
        run(x, w, (1, 1), ((pad, pad),) * 2, rdil=(dilation, dilation))
        run(x, w, (2, 3), ((pad, pad), (0, dilation * window)), (2, 1), (dilation, dilation))
        run(
            laid(x, ORDERS["NHWC"]),
            noise(rng, (features, 1, window, window), "float32"),
            (1, 1),
            ((pad, pad),) * 2,
            rdil=(dilation,) * 2,
            features=features,
        )


def test_dilation_beyond_the_output():
    x, w = np.arange(1.0, 4).reshape(1, 1, 3), np.ones((1, 1, 2))
    run(x, w, (1,), ((1, 2),), (1000,), (7,))
    run(x, w, (600,), ((900, 900),), (1000,), (1,))


@pytest.mark.parametrize(
    "ip, message",
    [
        ([], "integer parameters expected"),
        ([4] + [1] * 25, "0 to 3 spatial axes"),
        ([1, 1, 1, 0, 1, 2, 1, 0, 1, 1], "11 parameters expected"),
        ([1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0], "permutation"),
        ([1, 2, 1, 0, 1, 2, 1, 0, 1, 1, 0], "do not fit 2 feature groups"),
        ([1, 2, 2, 0, 1, 2, 1, 0, 1, 1, 0], "do not fit"),
        ([1, 1, 1, 0, 1, 2, 0, 0, 1, 1, 0], "must be positive"),
        ([1, 1, 1, 0, 1, 2, 1, 2**40, 1, 1, 0], "below 2"),
        ([1, 1, 1, 2, 1, 0, 1, 0, 1, 1, 0], "out .* does not fit"),
    ],
)
def test_what_check_refuses(ip, message):
    x, w = np.ones((2, 3, 5), np.float32), np.ones((4, 3, 2), np.float32)
    with pytest.raises(ValueError, match=message):
        run_kernel(KERNEL, [x, w], [((2, 4, 4), np.float32)], ip)


def test_dtypes_and_layouts_that_check_refuses():
    x, w, ip = np.ones((2, 3, 5), np.float32), np.ones((4, 3, 2), np.float32), [1, 1, 1, 0, 1, 2, 1, 0, 1, 1, 0]
    with pytest.raises(ValueError, match="one dtype"):
        run_kernel(KERNEL, [x, w.astype(np.float64)], [((2, 4, 4), np.float32)], ip)
    with pytest.raises(ValueError, match="one dtype"):
        run_kernel(KERNEL, [x.astype(np.float16), w.astype(np.float16)], [((2, 4, 4), np.float16)], ip)
    with pytest.raises(ValueError, match="axes"):
        run_kernel(KERNEL, [x, w[0]], [((2, 4, 4), np.float32)], ip)
    with pytest.raises(ValueError, match="contiguous"):
        strides = contiguous((2, 4, 8))
        run_kernel(KERNEL, [x, w], [((2, 4, 8), np.float32, (2, 4, 4), strides)], ip)
