"""Gradients of kernels that are computed with the kernel as the image, against sums written out."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["NCW", "NWC"])
@pytest.mark.parametrize("inputs, outputs, window, step", [(24, 17, 6, 3), (24, 3, 4, 2), (5, 12, 2, 2), (20, 2, 5, 1)])
def test_gradient_of_a_transposed_kernel(inputs, outputs, window, step, layout, dtype):
    rng, size, spec = np.random.default_rng(0), 40, "OIW" if layout == "NCW" else "WIO"
    x, ct = rng.standard_normal((2, inputs, size)), rng.standard_normal((2, outputs, (size - 1) * step + window))
    x, ct = (np.asarray(fnp.asarray(a, dtype)).astype(np.float64) for a in (x, ct))

    def conv(w, x):
        return lax.conv_general_dilated(x, w, (1,), ((window - 1,) * 2,), (step,), dimension_numbers=(layout, spec, layout))

    to = (lambda a: a) if layout == "NCW" else (lambda a: np.moveaxis(a, 1, -1))
    w = fnp.zeros((outputs, inputs, window) if spec == "OIW" else (window, inputs, outputs), dtype)
    got = fg.jit(lambda w, x, ct: fg.vjp(lambda w: conv(w, x), w)[1](ct)[0])(w, fnp.asarray(to(x), dtype), fnp.asarray(to(ct), dtype))
    full = np.zeros((2, inputs, (size - 1) * step + 2 * window - 1))
    full[:, :, window - 1 : window - 1 + (size - 1) * step + 1 : step] = x
    want = np.stack([np.einsum("bit,bot->oi", full[:, :, k : k + ct.shape[2]], ct) for k in range(window)], -1)
    want = want if spec == "OIW" else want.transpose(2, 1, 0)
    np.testing.assert_allclose(
        np.asarray(got).astype(np.float64), want, rtol=1e-5 if dtype == "float32" else 1e-2, atol=2e-5 if dtype == "float32" else 1e-2
    )


@pytest.mark.parametrize("size, window, stride", [((2, 3), (4, 4), 1), ((4, 4), (4, 4), 2), ((4, 3), (2, 3), 1)])
def test_short_rows(size, window, stride):
    """The kernel's gradient of many features over small images, whose rows of taps are few: a sum with the features as rows."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 64, *size)).astype("float32")
    shape = [(n - 1) * stride + k for n, k in zip(size, window)]
    g = rng.standard_normal((5, 36, *shape)).astype("float32")

    def conv(w):
        pads = [(k - 1, k - 1) for k in window]
        return lax.conv_general_dilated(fnp.asarray(x), w, (1, 1), pads, lhs_dilation=(stride, stride))

    got = np.asarray(fg.vjp(conv, fnp.zeros((36, 64, *window), "float32"))[1](fnp.asarray(g))[0])
    for i in range(window[0]):
        for j in range(window[1]):
            y0, x0 = window[0] - 1 - i, window[1] - 1 - j
            part = g[:, :, y0 : y0 + (size[0] - 1) * stride + 1 : stride, x0 : x0 + (size[1] - 1) * stride + 1 : stride]
            want = np.einsum("bohw,bchw->oc", part.astype("float64"), x)
            assert np.abs(got[:, :, i, j] - want).max() < 1e-5 * np.abs(want).max()
