"""Depthwise convolutions, features last, with windows of few neighbouring columns: tiles whose columns beyond the image are zeros."""

import itertools

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import lax


def reference(x, w, strides, pads, dilation):
    """x (n, spatial..., groups), w (window..., multiplier, groups), in float64: (n, spatial..., groups, multiplier)."""
    x, w, n = np.pad(x.astype("float64"), [(0, 0), *pads, (0, 0)]), w.astype("float64"), len(strides)
    sizes = [(x.shape[i + 1] - (w.shape[i] - 1) * dilation[i] - 1) // strides[i] + 1 for i in range(n)]
    out = np.zeros((x.shape[0], *sizes, x.shape[-1], w.shape[-2]))
    for tap in itertools.product(*map(range, w.shape[:n])):
        at = [slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, sizes, strides)]
        out += x[(slice(None), *at)][..., None] * w[tap].T
    return out


def both(shape, window, strides, pads, dtype, multiplier=1, dilation=None):
    n, groups = len(window), shape[-1]
    rng, dilation = np.random.default_rng(sum(shape) + sum(window)), dilation or (1,) * n
    x = jnp.asarray(rng.standard_normal(shape), dtype)
    w = jnp.asarray(rng.standard_normal((*window, 1, groups * multiplier)), dtype)
    axes = "DHW"[3 - n :]
    layout = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    conv = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, strides, pads, (1,) * n, dilation, layout, groups))
    got = conv(x, w)
    plain = [np.asarray(v.astype("float64" if dtype == "float64" else "float32")) for v in (x, w, got)]
    taps = np.moveaxis(plain[1].reshape(*window, groups, multiplier), -1, -2)
    want = reference(plain[0], taps, strides, pads, dilation)
    tol = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 8e-3}[dtype]
    assert got.dtype == jnp.dtype(dtype)
    assert np.abs(plain[2] - want.reshape(plain[2].shape)).max() <= tol * np.abs(want).max()
    return conv, x, w


DTYPES = ["float32", "float64", "bfloat16"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [(3, 3), (5, 5), (7, 7), (2, 2), (3, 4), (4, 2), (1, 3), (3, 6), (2, 1)])
def test_windows(window, dtype):
    """Sizes around those of a tile (4 to 8 columns, one or two rows), padded not at all, evenly and at one end."""
    with fg.enable_x64(dtype == "float64"):
        for wide, stride in itertools.product((4, 8, 9, 17), (1, 2)):
            for high, groups in ((2, 16), (5, 21)):
                even = [(k // 2, (k - 1) // 2) for k in window]
                for pads in (even, [(window[0], 0), (window[1] - 1, 0)], [(1, 2), (0, window[1])]):
                    if all(n + sum(p) >= k for n, p, k in zip((high, wide), pads, window)):
                        both((2, high, wide, groups), window, (1, stride), pads, dtype)
                        both((1, high, wide, groups), window, (stride, stride), pads, dtype, multiplier=2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_axes(dtype):
    with fg.enable_x64(dtype == "float64"):
        both((2, 3, 5, 11, 20), (3, 3, 3), (1, 1, 1), [(1, 1)] * 3, dtype)
        both((1, 4, 5, 9, 17), (2, 3, 5), (2, 1, 2), [(0, 1), (1, 1), (2, 2)], dtype)
        both((1, 300, 33), (4,), (1,), [(3, 0)], dtype)  # one row: blocks of columns
        both((1, 9, 13, 32), (3, 3), (1, 1), [(2, 2)] * 2, dtype, dilation=(2, 1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("high, wide, window", [(6, 11, 3), (8, 7, 5), (7, 7, 7)])
@pytest.mark.parametrize("last", [True, False])
def test_gradients(last, high, wide, window, stride, dtype):
    conv, x, w = both((2, high, wide, 24), (window, window), (stride, stride), [(window // 2, window // 2)] * 2, dtype)
    if not last:
        rows, x, w = conv, jnp.transpose(x, (0, 3, 1, 2)), jnp.transpose(w, (3, 2, 0, 1))
        names, pads = ("NCHW", "OIHW", "NCHW"), [(window // 2, window // 2)] * 2
        conv = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, (stride, stride), pads, (1, 1), (1, 1), names, 24))
        want = np.asarray(rows(jnp.transpose(x, (0, 2, 3, 1)), jnp.transpose(w, (2, 3, 1, 0))).astype("float32")).transpose(0, 3, 1, 2)
        assert np.abs(np.asarray(conv(x, w).astype("float32")) - want).max() <= (8e-3 if dtype == "bfloat16" else 1e-5) * np.abs(want).max()
    out, pullback = fg.vjp(conv, x, w)
    ct = jnp.asarray(np.random.default_rng(1).standard_normal(out.shape), dtype)
    for primal, cotangent, i in zip((x, w), pullback(ct), range(2)):
        tangent = jnp.asarray(np.random.default_rng(2).standard_normal(primal.shape), dtype)
        args = [x.astype("float32"), w.astype("float32")]
        args[i] = tangent.astype("float32")
        pushed, pulled = conv(*args) * ct.astype("float32"), cotangent.astype("float32") * tangent.astype("float32")
        assert abs(float(pushed.sum() - pulled.sum())) < (1e-5 if dtype == "float32" else 2e-2) * float(jnp.abs(pulled).sum())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape, window", [((1, 90, 91, 72), 3), ((1, 111, 90, 48), 5), ((3, 80, 40, 64), 3), ((1, 121, 90, 64), 3)])
def test_stride_gradients_in_one_go(shape, window, dtype):
    """Parts of the image's gradient by blocks of rows: what a sum over the taps gives, with one thread and two."""
    n, high, wide, groups = shape
    rng = np.random.default_rng(4)
    w = jnp.asarray(rng.standard_normal((window, window, 1, groups)), dtype)
    pads = [(window // 2, window // 2)] * 2

    def conv(x):
        return lax.conv_general_dilated(x, w, (2, 2), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)

    x = jnp.zeros(shape, dtype)
    ct = jnp.asarray(rng.standard_normal(fg.eval_shape(conv, x).shape), dtype)
    want = np.zeros((n, high + 2 * window, wide + 2 * window, groups))
    a, b = np.asarray(ct.astype("float32")), np.asarray(w.astype("float32"))
    for i in range(window):
        for j in range(window):
            want[:, i : i + 2 * a.shape[1] : 2, j : j + 2 * a.shape[2] : 2] += a * b[i, j]
    want = want[:, window // 2 : window // 2 + high, window // 2 : window // 2 + wide]
    threads, results = fg.get_num_threads(), []
    try:
        for count in (1, 2):
            fg.set_num_threads(count)
            results.append(np.asarray(fg.vjp(conv, x)[1](ct)[0].astype("float32")))
    finally:
        fg.set_num_threads(threads)
    np.testing.assert_array_equal(*results)
    assert np.abs(results[0] - want).max() <= (8e-3 if dtype == "bfloat16" else 1e-5) * np.abs(want).max()


def test_threads():
    """Views of rows that lie apart, and one or two threads: the same bits."""
    rng = np.random.default_rng(3)
    x = jnp.asarray(rng.standard_normal((2, 9, 40, 48)).astype("float32"))
    w = jnp.asarray(rng.standard_normal((3, 3, 1, 24)).astype("float32"))
    layout = ("NHWC", "HWIO", "NHWC")

    def conv(x, w):
        return lax.conv_general_dilated(x[:, ::2, 3:, 8:32], w, (1, 1), "SAME", dimension_numbers=layout, feature_group_count=24)

    threads, results = fg.get_num_threads(), []
    try:
        for n in (1, 2):
            fg.set_num_threads(n)
            results.append(np.asarray(fg.jit(conv)(x, w)))
    finally:
        fg.set_num_threads(threads)
    assert results[0].tobytes() == results[1].tobytes()
    taps = np.moveaxis(np.asarray(w).reshape(3, 3, 24, 1), -1, -2)
    want = reference(np.asarray(x)[:, ::2, 3:, 8:32], taps, (1, 1), [(1, 1)] * 2, (1, 1))[..., 0]
    assert np.abs(results[0] - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window, stride", [((7, 7), 1), ((5, 5), 1), ((3, 3), 2), ((5, 5), 2), ((3, 2), 1)])
def test_features_first(window, stride, dtype):
    """Small planes are computed features last, there and back: the values of that layout, in any order of axes."""

    def conv(x, w, names, dilation):
        pads = [(k // 2, k // 2) for k in window]
        return lax.conv_general_dilated(x, w, (stride, stride), pads, dilation, (1, 1), names, x.shape[names[0].index("C")])

    with fg.enable_x64(dtype == "float64"):
        for high, groups, multiplier in ((7, 20, 1), (8, 33, 2)):
            rng = np.random.default_rng(high)
            x = jnp.asarray(rng.standard_normal((2, high, 7, groups)), dtype)
            w = jnp.asarray(rng.standard_normal((*window, 1, groups * multiplier)), dtype)

            for dilation in ((1, 1), (2, 2)):
                want = np.asarray(conv(x, w, ("NHWC", "HWIO", "NHWC"), dilation).astype("float32"))
                for out, axes in (("NCHW", (0, 3, 1, 2)), ("CNWH", (3, 0, 2, 1))):
                    got = conv(jnp.transpose(x, (0, 3, 1, 2)), jnp.transpose(w, (3, 2, 0, 1)), ("NCHW", "OIHW", out), dilation)
                    got = np.asarray(got.astype("float32"))
                    assert np.abs(got - want.transpose(axes)).max() <= (8e-3 if dtype == "bfloat16" else 1e-5) * np.abs(want).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "window, size",
    [
        ((3, 3), (40, 56)),
        ((5, 5), (49, 11)),
        ((7, 7), (35, 30)),
        ((3, 2), (20, 64)),
        ((5, 7), (33, 23)),
        ((7, 8), (24, 48)),
        ((3, 6), (150, 60)),
    ],
)
def test_plane_sums(window, size, dtype):
    """The kernel's gradient of planes, features first: sums of products of shifted planes, by one or two threads."""
    groups, multiplier, pads = 17, 2, ((1, 3), (2, 0))
    rng = np.random.default_rng(size[0])
    threads = fg.get_num_threads()
    with fg.enable_x64(dtype == "float64"):
        x = jnp.asarray(rng.standard_normal((4, groups, *size)), dtype)
        w = jnp.zeros((groups * multiplier, 1, *window), dtype)

        def conv(w):
            return lax.conv_general_dilated(x, w, (1, 1), pads, feature_group_count=groups)

        out = conv(w).shape
        g = jnp.asarray(rng.standard_normal(out), dtype)
        results = []
        try:
            for n in (1, 2):
                fg.set_num_threads(n)
                results.append(np.asarray(fg.vjp(conv, w)[1](g)[0].astype("float64" if dtype == "float64" else "float32")))
        finally:
            fg.set_num_threads(threads)
        assert results[0].tobytes() == results[1].tobytes()
        padded = np.pad(np.asarray(x.astype(results[0].dtype)).astype("float64"), ((0, 0), (0, 0), *pads)).repeat(multiplier, 1)
        g = np.asarray(g.astype(results[0].dtype)).astype("float64")
        for i in range(window[0]):
            for j in range(window[1]):
                want = (padded[:, :, i : i + out[2], j : j + out[3]] * g).sum((0, 2, 3))
                assert np.abs(results[0][:, 0, i, j] - want).max() <= (8e-3 if dtype == "bfloat16" else 1e-5) * np.abs(want).max()
