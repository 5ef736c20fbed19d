"""Gradients of kernels of convolutions with strides: positions two apart, sums with the batch as rows, and where they are placed."""

import itertools

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import lax


def gradient(x, g, window, strides, pads):
    """Of a kernel (o, c, window...), from x (n, c, spatial...) and g (n, o, spatial...), in float64."""
    x = np.pad(x.astype("float64"), [(0, 0), (0, 0), *pads])
    w = np.zeros((g.shape[1], x.shape[1], *window))
    for tap in itertools.product(*map(range, window)):
        at = tuple(slice(t, t + (m - 1) * s + 1, s) for t, m, s in zip(tap, g.shape[2:], strides))
        part = x[(slice(None), slice(None), *at)]
        w[(slice(None), slice(None), *tap)] = np.tensordot(g.astype("float64"), part, ([0, *range(2, g.ndim)],) * 2)
    return w


def apart(got, want):
    return np.abs(np.asarray(got, "float64") - want).max() / np.abs(want).max()


CASES = [  # batch, image, features, outputs, window, strides, pads
    (4, (32, 32), 33, 40, (4, 4), (2, 2), [(1, 1), (1, 1)]),  # Winograd's, of every second position: squares of vectors
    (3, (15, 21), 18, 17, (4, 4), (2, 2), [(1, 2), (0, 1)]),  # and parts of them
    (5, (8, 8), 24, 32, (4, 4), (2, 2), [(1, 1), (1, 1)]),
    (20, (8, 8), 60, 35, (3, 3), (2, 2), [(1, 1), (1, 1)]),  # rows of three outputs that taps cut: the batch as rows
    (17, (8, 7), 64, 16, (4, 4), (2, 2), [(1, 1), (1, 2)]),
    (16, (9, 12), 57, 20, (3, 5), (2, 3), [(1, 1), (2, 2)]),
    (16, (8, 8), 16, 33, (3, 3), (2, 2), [(1, 1), (1, 1)]),  # one tile of them
    (16, (30,), 60, 20, (5,), (2,), [(2, 2)]),
    (1, (47, 95), 2, 150, (3, 3), (1, 1), [(1, 1), (1, 0)]),  # blocks as small as their part of the other operand asks
    (20, (4, 4), 30, 40, (3, 3), (1, 1), [(1, 1), (1, 1)]),  # rows of three without gaps: the batch as rows
    (9, (5, 6), 17, 16, (3, 3), (1, 1), [(1, 1), (0, 1)]),
    (2, (70, 73), 3, 16, (9, 11), (2, 2), [(2, 2), (5, 5)]),  # few sums, long: chunks for the threads though there are units
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
def test_gradient_of_a_kernel(case, dtype, last):
    batch, image, features, outputs, window, strides, pads = case
    rng, axes = np.random.default_rng(0), "DHW"[3 - len(image) :]
    sizes = [(n + sum(p) - k) // s + 1 for n, p, k, s in zip(image, pads, window, strides)]
    with fg.enable_x64(dtype == "float64"):
        x = jnp.asarray(rng.standard_normal((batch, features, *image)), dtype)
        g = jnp.asarray(rng.standard_normal((batch, outputs, *sizes)), dtype)
        plain = "float64" if dtype == "float64" else "float32"
        want = gradient(*(np.asarray(v.astype(plain)) for v in (x, g)), window, strides, pads)
        names = (f"N{axes}C", f"{axes}IO", f"N{axes}C") if last else (f"NC{axes}", f"OI{axes}", f"NC{axes}")
        shape = (*window, features, outputs) if last else (outputs, features, *window)
        if last:
            x, g, want = jnp.moveaxis(x, 1, -1), jnp.moveaxis(g, 1, -1), np.moveaxis(np.moveaxis(want, 0, -1), 0, -2)
        conv = lambda w, x: lax.conv_general_dilated(x, w, strides, pads, dimension_numbers=names)
        back = fg.jit(lambda x, g: fg.vjp(lambda w: conv(w, x), jnp.zeros(shape, dtype))[1](g)[0])
        threads, results = fg.get_num_threads(), []
        try:
            for n in (1, 2):
                fg.set_num_threads(n)
                results.append(np.asarray(back(x, g).astype(plain)))
        finally:
            fg.set_num_threads(threads)
    assert np.array_equal(*results)
    assert apart(results[0], want) < {"float32": 2e-5, "float64": 1e-13, "bfloat16": 1e-2}[dtype]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size,features,outputs,window", [(8, 70, 33, (2, 2)), (4, 64, 130, (2, 3)), (6, 20, 64, (3, 3))])
@pytest.mark.parametrize("images", [1, 3])
def test_gradient_of_a_transposed_kernel(dtype, size, features, outputs, window, images):
    """A kernel (features, outputs, window...): a feature's taps follow each other, and those of its neighbours among the outputs."""
    rng = np.random.default_rng(1)
    with fg.enable_x64(dtype == "float64"):
        x = jnp.asarray(rng.standard_normal((images, features, size, size)), dtype)
        g = jnp.asarray(rng.standard_normal((images, outputs, *((size - 1) * k + k for k in window))), dtype)
        plain = "float64" if dtype == "float64" else "float32"

        def conv(w, x):
            w = jnp.flip(jnp.swapaxes(w, 0, 1), (2, 3))
            return lax.conv_general_dilated(x, w, (1, 1), [(k - 1, k - 1) for k in window], lhs_dilation=window)

        back = fg.jit(lambda x, g: fg.vjp(lambda w: conv(w, x), jnp.zeros((features, outputs, *window), dtype))[1](g)[0])
        got = np.asarray(back(x, g).astype(plain))
        want = gradient(np.asarray(g.astype(plain)), np.asarray(x.astype(plain)), window, window, [(0, 0), (0, 0)])
    assert apart(got, want) < {"float32": 2e-5, "float64": 1e-13, "bfloat16": 1e-2}[dtype]
