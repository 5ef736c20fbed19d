"""Convolutions with gaps in their windows or between their outputs, and their gradients, against sums written out."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax

# inputs, outputs, (window), (steps), (dilations), ((low, high) padding): one tap inside, none for some outputs, one column, steps
CASES = [
    (32, 20, (3, 3), (1, 1), (6, 6), ((6, 6), (6, 6))),
    (32, 20, (3, 3), (1, 1), (12, 12), ((12, 12), (12, 12))),
    (16, 33, (3, 2), (1, 1), (5, 9), ((20, 3), (25, 0))),
    (17, 3, (2, 3), (2, 3), (7, 5), ((4, 9), (10, 3))),
    (24, 16, (3, 3), (1, 1), (4, 1), ((4, 4), (1, 1))),
    (16, 18, (5,), (1,), (4,), ((16, 0),)),
]


def written_out(x, w, steps, dilations, pads, ct):
    """The result and the gradients of x (b, spatial..., c) and w (spatial..., c, o) for a cotangent, in float64."""
    n, full, window = len(steps), np.pad(x, ((0, 0), *pads, (0, 0))), w.shape[:-2]
    size = [(full.shape[1 + d] - (window[d] - 1) * dilations[d] - 1) // steps[d] + 1 for d in range(n)]
    out, gx, gw = np.zeros((x.shape[0], *size, w.shape[-1])), np.zeros_like(full), np.zeros_like(w)
    for tap in np.ndindex(*window):
        at = (slice(None), *(slice(t * d, t * d + (k - 1) * s + 1, s) for t, d, s, k in zip(tap, dilations, steps, size)))
        out += full[at] @ w[tap]
        if ct is not None:
            gx[at] += ct @ w[tap].T
            gw[tap] = np.tensordot(full[at], ct, (range(n + 1), range(n + 1)))
    return out, gx[(slice(None), *(slice(lo, lo + k) for (lo, _), k in zip(pads, x.shape[1:-1])))], gw


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("inputs, outputs, window, steps, dilations, pads", CASES)
def test_dilated_windows(inputs, outputs, window, steps, dilations, pads, last, dtype):
    rng, n = np.random.default_rng(0), len(window)
    with fg.enable_x64():
        rounded = lambda a: np.asarray(fnp.asarray(a, dtype)).astype(np.float64)  # noqa: E731
        x, w = rounded(rng.standard_normal((2, *(18, 15)[:n], inputs))), rounded(rng.standard_normal((*window, inputs, outputs)))
        ct = rounded(rng.standard_normal(written_out(x, w, steps, dilations, pads, None)[0].shape))
        specs = ("N" + "HW"[:n] + "C", "HW"[:n] + "IO") if last else ("NC" + "HW"[:n], "OI" + "HW"[:n])
        order = range(n + 2) if last else (0, n + 1, *range(1, n + 1))
        kernel = range(n + 2) if last else (n + 1, n, *range(n))

        def run(x, w, ct):
            conv = lambda x, w: lax.conv_general_dilated(x, w, steps, pads, None, dilations, (*specs, specs[0]))  # noqa: E731
            out, pullback = fg.vjp(conv, x, w)
            return out, *pullback(ct)

        got = fg.jit(run)(*(fnp.asarray(a.transpose(p), dtype) for a, p in ((x, order), (w, kernel), (ct, order))))
        got = [np.asarray(a).astype(np.float64) for a in got]
    want = written_out(x, w, steps, dilations, pads, ct)
    for a, b, p in zip(got, want, (order, order, kernel)):
        scale, tol = np.sqrt(np.mean(b**2)), {"float32": 1e-5, "float64": 1e-13, "bfloat16": 3e-2}[dtype]
        np.testing.assert_allclose(a / scale, b.transpose(p) / scale, rtol=tol, atol=tol)
