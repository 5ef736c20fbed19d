"""Convolutions of few positions with kernels of more than a megabyte: panels of output features, each with all positions."""

import itertools

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import lax


def reference(x, w, strides, pads, dilation):
    """x (n, c, spatial...), w (o, c, window...), in float64."""
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *pads])
    sizes = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[2:], strides, dilation)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    for tap in itertools.product(*map(range, w.shape[2:])):
        at = tuple(slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, sizes, strides))
        out += np.einsum("nc...,oc->no...", x[(slice(None), slice(None), *at)], w[(slice(None), slice(None), *tap)].astype("float64"))
    return out


CASES = [  # batch, image, features, outputs, window, strides, pads, dilation, groups
    (1, (5, 7), 257, 300, (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),  # an odd number of features: half a pair
    (2, (8, 9), 256, 260, (3, 3), (2, 2), [(0, 1), (1, 0)], (1, 1), 1),
    (1, (6, 6), 256, 256, (3, 3), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),  # features last: read where they lie
    (1, (6, 7), 256, 256, (3, 3), (1, 1), [(4, 4), (5, 2)], (1, 1), 1),  # rows and columns of outputs in the padding
    (1, (5, 4, 6), 100, 256, (3, 2, 3), (1, 2, 1), [(1, 1), (0, 0), (2, 1)], (1, 1, 1), 1),
    (1, (60,), 500, 257, (5,), (1,), [(4, 4)], (2,), 1),
    (1, (4, 5), 512, 512, (3, 3), (2, 1), [(1, 1), (1, 1)], (1, 1), 2),
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
def test_few_positions(case, dtype, last):
    batch, image, features, outputs, window, strides, pads, dilation, groups = case
    rng, axes = np.random.default_rng(0), "DHW"[3 - len(image) :]
    with fg.enable_x64(dtype == "float64"):
        x = jnp.asarray(rng.standard_normal((batch, features, *image)), dtype)
        w = jnp.asarray(rng.standard_normal((outputs, features // groups, *window)), dtype)
        plain = "float64" if dtype == "float64" else "float32"
        halves = zip(*(np.split(np.asarray(v.astype(plain)), groups, axis) for v, axis in ((x, 1), (w, 0))))
        want = np.concatenate([reference(a, b, strides, pads, dilation) for a, b in halves], 1)
        names = (f"N{axes}C", f"{axes}IO", f"N{axes}C") if last else (f"NC{axes}", f"OI{axes}", f"NC{axes}")
        if last:
            x, w = jnp.moveaxis(x, 1, -1), jnp.moveaxis(jnp.moveaxis(w, 0, -1), 0, -2)
        conv = fg.jit(
            lambda x, w: lax.conv_general_dilated(
                x, w, strides, pads, rhs_dilation=dilation, dimension_numbers=names, feature_group_count=groups
            )
        )
        threads, results = fg.get_num_threads(), []
        try:
            for n in (1, 2):
                fg.set_num_threads(n)
                results.append(np.asarray(conv(x, w).astype(plain)))
        finally:
            fg.set_num_threads(threads)
    got = np.moveaxis(results[0], -1, 1) if last else results[0]
    tol = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 8e-3}[dtype]
    assert results[0].tobytes() == results[1].tobytes()
    assert np.abs(got - want).max() <= tol * np.abs(want).max()


SPREAD = [  # batch, image, features, outputs, window, lhs dilation, pads: parts whose taps are every second one (or so) of one kernel
    (1, (4, 4), 200, 160, (4, 4), (2, 2), [(2, 2), (2, 2)]),
    (2, (3, 5), 131, 257, (3, 4), (2, 2), [(1, 2), (2, 1)]),  # an odd number of features; parts of one to four taps
    (2, (6, 5), 260, 256, (2, 2), (2, 2), [(1, 1), (1, 1)]),
    (1, (30,), 300, 300, (7,), (3,), [(6, 5)]),
    (1, (2, 3, 3), 130, 140, (2, 4, 3), (1, 2, 2), [(1, 0), (2, 2), (0, 2)]),
    (1, (4, 5), 256, 256, (1, 3), (2, 2), [(0, 1), (2, 2)]),  # a part without taps
]


@pytest.mark.parametrize("case", SPREAD)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_parts_of_one_kernel(case, dtype, reverse):
    """Dilated images: their parts share a kernel whose taps follow each other, forwards or backwards."""
    batch, image, features, outputs, window, spread, pads = case
    rng, axes = np.random.default_rng(0), "DHW"[3 - len(image) :]
    with fg.enable_x64(dtype == "float64"):
        x = jnp.asarray(rng.standard_normal((batch, features, *image)), dtype)
        w = jnp.asarray(rng.standard_normal((features, outputs, *window) if reverse else (outputs, features, *window)), dtype)
        plain = "float64" if dtype == "float64" else "float32"
        wide = np.zeros((batch, features, *((n - 1) * s + 1 for n, s in zip(image, spread))))
        wide[(slice(None), slice(None), *(slice(None, None, s) for s in spread))] = np.asarray(x.astype(plain))
        kernel = np.asarray(w.astype(plain))
        if reverse:
            kernel = np.flip(kernel, tuple(range(2, kernel.ndim))).swapaxes(0, 1)
        ones = (1,) * len(image)
        want = reference(wide, kernel, ones, pads, ones)

        def conv(x, w):
            w = jnp.flip(w, tuple(range(2, w.ndim))).swapaxes(0, 1) if reverse else w
            return lax.conv_general_dilated(x, w, ones, pads, spread, dimension_numbers=(f"NC{axes}", f"OI{axes}", f"NC{axes}"))

        threads, results = fg.get_num_threads(), []
        try:
            for n in (1, 2):
                fg.set_num_threads(n)
                results.append(np.asarray(fg.jit(conv)(x, w).astype(plain)))
        finally:
            fg.set_num_threads(threads)
    tol = {"float32": 1e-5, "float64": 1e-13, "bfloat16": 8e-3}[dtype]
    assert results[0].tobytes() == results[1].tobytes()
    assert np.abs(results[0] - want).max() <= tol * np.abs(want).max()
