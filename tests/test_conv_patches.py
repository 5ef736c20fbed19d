"""Patches of an image of few features, side by side: a product of matrices, and so is the gradient of its kernel."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import lax


@pytest.mark.parametrize("dtype, tol", [("float32", 1e-5), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "CHWN"])
@pytest.mark.parametrize("rest", [0, 1])  # columns after the last patch
def test_patches(layout, rest, dtype, tol):
    rng, (b, c, o, high, wide) = np.random.default_rng(0), (2, 3, 5, 8, 9)
    shape = {"N": b, "C": c, "H": 3 * high, "W": 2 * wide + rest}
    x = jnp.asarray(rng.standard_normal([shape[a] for a in layout]), dtype)
    w = jnp.asarray(rng.standard_normal((o, c, high, wide)), dtype)
    conv = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, (high, wide), "VALID", dimension_numbers=(layout, "OIHW", layout)))
    canonical = [layout.index(a) for a in "NCHW"]
    image = np.asarray(x.astype("float32")).transpose(canonical)[..., : 2 * wide].reshape(b, c, 3, high, 2, wide)
    out, pullback = fg.vjp(lambda w: conv(x, w), w)
    want = np.einsum("bcphqw,ochw->bopq", image, np.asarray(w.astype("float32")))
    got = np.asarray(out.astype("float32")).transpose(canonical)
    assert np.abs(got - want).max() < tol * np.abs(want).max()
    want = np.einsum("bcphqw,bopq->ochw", image, got)
    assert np.abs(np.asarray(pullback(out)[0].astype("float32")) - want).max() < tol * np.abs(want).max()
