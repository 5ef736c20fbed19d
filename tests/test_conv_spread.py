"""Convolutions of images with gaps to few features (gradients of first layers, last layers that enlarge) against sums written out."""

import itertools

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax

TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "bfloat16": 1e-2}


def written_out(x, w, gaps, padding):
    """x (b, c, spatial...) with gaps, cut or padded; w (o, c, window...)."""
    wide = np.zeros((*x.shape[:2], *((n - 1) * g + 1 for n, g in zip(x.shape[2:], gaps))))
    wide[(slice(None), slice(None), *(slice(None, None, g) for g in gaps))] = x
    wide = np.pad(wide, [(0, 0), (0, 0), *((max(lo, 0), max(hi, 0)) for lo, hi in padding)])
    cut = [slice(max(-lo, 0), n - max(-hi, 0)) for (lo, hi), n in zip(padding, wide.shape[2:])]
    wide = wide[(slice(None), slice(None), *cut)]
    size = [n - k + 1 for n, k in zip(wide.shape[2:], w.shape[2:])]
    total = np.zeros((len(x), len(w), *size))
    for at in itertools.product(*map(range, w.shape[2:])):
        part = wide[(slice(None), slice(None), *(slice(i, i + n) for i, n in zip(at, size)))]
        total += np.einsum("bc...,oc->bo...", part, w[(slice(None), slice(None), *at)])
    return total


def check(x, w, gaps, padding, last, dtype):
    n, letters = x.ndim - 2, "DHW"[3 - (x.ndim - 2) :]
    names = (f"N{letters}C", f"{letters}IO", f"N{letters}C") if last else (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    x, w = (np.asarray(fnp.asarray(a, dtype)).astype(np.float64) for a in (x, w))
    want = written_out(x, w, gaps, padding)
    if last:
        x, want, w = np.moveaxis(x, 1, -1), np.moveaxis(want, 1, -1), w.transpose(*range(2, n + 2), 1, 0)
    got = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, (1,) * n, padding, gaps, dimension_numbers=names))(
        fnp.asarray(x, dtype), fnp.asarray(w, dtype)
    )
    assert got.shape == want.shape
    tol = TOLERANCE[dtype]
    np.testing.assert_allclose(np.asarray(got).astype(np.float64), want, rtol=tol, atol=tol * max(1, np.abs(want).max()))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "features, space, window, gaps",
    [
        ((3, 1), (19,), (40,), (16,)),
        ((20, 2), (9,), (3,), (5,)),
        ((5, 15), (12,), (9,), (3,)),
        ((17, 3), (7, 6), (7, 7), (2, 2)),
        ((4, 8), (5, 9), (4, 3), (2, 1)),
        ((3, 1), (6, 5), (2, 5), (3, 4)),
        ((6, 2), (3, 4, 5), (3, 2, 5), (2, 2, 3)),
    ],
)
def test_few_features_of_an_image_with_gaps(features, space, window, gaps, last, dtype):
    rng = np.random.default_rng(0)
    c, o = features
    x, w = rng.standard_normal((2, c, *space)), rng.standard_normal((o, c, *window))
    with fg.enable_x64(dtype == "float64"):
        for low, high in [(0, 0), (1, 2), (-1, 3), (5, -2)]:
            padding = [(k - 1 - low, k - 1 - high) for k in window]
            if all((n - 1) * g + 1 + sum(p) >= k for n, g, p, k in zip(space, gaps, padding, window)):
                check(x, w, gaps, padding, last, dtype)


@pytest.mark.parametrize("length", [400, 397, 31])
def test_gradient_of_a_first_layer(length):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 1, length)), rng.standard_normal((24, 1, 25))
    with fg.enable_x64():
        out, back = fg.vjp(lambda x: lax.conv_general_dilated(x, w, (10,), [(0, 0)]), fnp.asarray(x))
        ct = rng.standard_normal(out.shape)
        want = np.zeros_like(x)
        for i in range(out.shape[2]):
            want[:, 0, 10 * i : 10 * i + 25] += ct[:, :, i] @ w[:, 0]
        np.testing.assert_allclose(fg.jit(back)(fnp.asarray(ct))[0], want, atol=1e-12)
