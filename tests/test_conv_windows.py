"""Few windows under a large kernel, and large results of few positions, are products with a copy of the windows."""

from types import SimpleNamespace

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.ops.conv_lower import _windows_copied


def _windows(x, window, stride, dilation, padding):
    """(b, c, out..., taps...) of x (b, c, spatial...) with zeros around it, or less of it."""
    n = len(window)
    x = np.pad(x, [(0, 0), (0, 0), *[(max(lo, 0), max(hi, 0)) for lo, hi in padding]])
    cut = tuple(slice(max(-lo, 0), size - max(-hi, 0)) for size, (lo, hi) in zip(x.shape[2:], padding))
    x = x[(slice(None), slice(None), *cut)]
    reach = [dilation * (k - 1) + 1 for k in window]
    v = np.lib.stride_tricks.sliding_window_view(x, reach, tuple(range(2, n + 2)))
    every, taps = (slice(None, None, stride),) * n, (slice(None, None, dilation),) * n
    return v[(slice(None), slice(None), *every, *taps)]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "image, kernel, stride, dilation, padding",
    [
        ((2, 256, 4, 4), (256, 256, 3, 3), 1, 1, [(1, 1), (1, 1)]),
        ((1, 200, 4, 5), (300, 200, 3, 3), 2, 1, [(1, 1), (0, 2)]),
        ((3, 256, 6, 7), (160, 256, 5, 3), 2, 1, [(2, 1), (-1, -1)]),
        ((2, 256, 4, 4), (512, 256, 3, 3), 1, 1, [(1, 1), (1, 1)]),  # the kernel's gradient is one
        ((3, 200, 7, 9), (400, 200, 4, 4), 2, 1, [(1, 1), (1, 0)]),
        ((2, 256, 7, 7), (300, 256, 4, 4), 1, 2, [(1, 1), (2, 1)]),
        ((2, 512, 20), (400, 512, 7), 3, 1, [(0, 3)]),
        ((1, 130, 2, 4, 4), (150, 130, 2, 2, 2), 2, 1, [(0, 0), (0, 0), (0, 0)]),
    ],
)
def test_copied_windows(image, kernel, stride, dilation, padding, last):
    rng, n = np.random.default_rng(0), len(image) - 2
    x, w = rng.standard_normal(image), rng.standard_normal(kernel)
    axes = "DHW"[3 - n :]
    layouts = (f"N{axes}C", f"{axes}IO", f"N{axes}C") if last else (f"NC{axes}", f"OI{axes}", f"NC{axes}")
    options = {"window_strides": (stride,) * n, "padding": padding, "rhs_dilation": (dilation,) * n, "dimension_numbers": layouts}
    conv = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, **options))
    to_last = (0, *range(2, n + 2), 1)
    given = (x.transpose(to_last), w.transpose(*range(2, n + 2), 1, 0)) if last else (x, w)
    out, pullback = fg.vjp(conv, *[jnp.asarray(np.ascontiguousarray(v), "float32") for v in given])
    windows, outs, taps = _windows(x, kernel[2:], stride, dilation, padding), "pqr"[:n], "xyz"[:n]
    want = np.einsum(f"bc{outs}{taps},oc{taps}->bo{outs}", windows, w, optimize=True)
    got = np.moveaxis(np.asarray(out), -1, 1) if last else np.asarray(out)
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()
    want = np.einsum(f"bc{outs}{taps},bo{outs}->oc{taps}", windows, got, optimize=True)
    to_w = np.asarray(pullback(out)[1])
    got = to_w.transpose(n + 1, n, *range(n)) if last else to_w
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("last", [False, True])
def test_many_small_images_are_not_copied(last):
    """More images than features look like a kernel's gradient, whose batch lies within: it is left to the kernel of convolutions."""
    strides = (128 * 16, 1, 128 * 4, 128) if last else (128 * 16, 16, 4, 1)
    x = SimpleNamespace(shape=(256, 128, 4, 4), strides=strides, dtype=dtypes.FLOAT32)
    w = SimpleNamespace(shape=(256, 128, 3, 3), strides=(1152, 9, 3, 1), size=256 * 1152)
    params = {"window_strides": (1, 1), "rhs_dilation": (1, 1), "padding": ((1, 1), (1, 1))}
    assert _windows_copied(None, x, w, params, (256, 256, 4, 4)) is None
    within = SimpleNamespace(shape=x.shape, strides=(1, 256, 512 * 128, 128 * 256) if last else (16, 4096, 4, 1), dtype=x.dtype)
    with pytest.raises(AttributeError):  # is copied, by a context that is none here
        _windows_copied(None, within, w, params, (256, 256, 4, 4))
