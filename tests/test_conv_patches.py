"""Patches of an image of few features, side by side: a product of matrices, and so are the gradients of its kernel and of the image."""

import numpy as np
import pytest

import fgrad as fg
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.errors import ShapeError


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
    out, pullback = fg.vjp(conv, x, w)
    want = np.einsum("bcphqw,ochw->bopq", image, np.asarray(w.astype("float32")))
    got = np.asarray(out.astype("float32")).transpose(canonical)
    assert np.abs(got - want).max() < tol * np.abs(want).max()
    want = np.einsum("bcphqw,bopq->ochw", image, got)
    to_x, to_w = (np.asarray(v.astype("float32")) for v in pullback(out))
    assert np.abs(to_w - want).max() < tol * np.abs(want).max()
    want = np.zeros([shape[a] for a in "NCHW"], "float32")
    want[..., : 2 * wide] = np.einsum("ochw,bopq->bcphqw", np.asarray(w.astype("float32")), got).reshape(b, c, 3 * high, 2 * wide)
    assert np.abs(to_x.transpose(canonical) - want).max() < tol * np.abs(want).max()


@pytest.mark.parametrize("axes", ["W", "DHW"])
@pytest.mark.parametrize("last", [False, True])
def test_transposed_patches(axes, last):
    """A transposed convolution to few features, strides as long as its window: each position becomes a patch."""
    rng, window, space = np.random.default_rng(1), (16, 4, 5)[: len(axes)], (3, 2, 4)[: len(axes)]
    letters = "dhw"[: len(axes)], "xyz"[: len(axes)]
    x, w = rng.standard_normal((2, 6, *space)).astype("float32"), rng.standard_normal((3, 6, *window)).astype("float32")
    layout = f"N{axes}C" if last else f"NC{axes}"
    pads = [(k - 1, k - 1) for k in window]
    ones = (1,) * len(axes)
    conv = fg.jit(lambda x, w: lax.conv_general_dilated(x, w, ones, pads, window, dimension_numbers=(layout, f"OI{axes}", layout)))
    got = np.asarray(conv(np.moveaxis(x, 1, -1) if last else x, w))
    flipped = w[(slice(None), slice(None), *(slice(None, None, -1) for _ in axes))]
    pairs = "".join(a + b for a, b in zip(*letters))
    want = np.einsum(f"nc{letters[0]},oc{letters[1]}->no{pairs}", x, flipped).reshape(2, 3, *(n * k for n, k in zip(space, window)))
    assert np.abs((np.moveaxis(got, -1, 1) if last else got) - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("side", [3, 12])  # patches of an image: its sums go with the others', or are a product of their own
@pytest.mark.parametrize("features", [1, 3, 8])
def test_small_patches(features, side):
    rng = np.random.default_rng(2)
    x, w = (rng.standard_normal((n, features, k, k)).astype("float32") for n, k in ((4, 4 * side), (20, 4)))
    out, pullback = fg.vjp(fg.jit(lambda x, w: lax.conv(x, w, (4, 4), "VALID")), x, w)
    patches = x.reshape(4, features, side, 4, side, 4)
    want = np.einsum("bcphqw,ochw->bopq", patches, w)
    assert np.abs(out - want).max() < 1e-5 * np.abs(want).max()
    to_x, to_w = pullback(out)
    want = np.einsum("bcphqw,bopq->ochw", patches, out)
    assert np.abs(to_w - want).max() < 1e-5 * np.abs(want).max()
    want = np.einsum("ochw,bopq->bcphqw", w, out).reshape(x.shape)
    assert np.abs(to_x - want).max() < 1e-5 * np.abs(want).max()


def _by_kernel(x, window, strides, padding, lhs_dilation, rhs_dilation, numbers):
    """Patches as a convolution with a kernel of ones and zeros."""
    dn = lax.conv_dimension_numbers(x.shape, (1, 1, *window), numbers)
    taps, features = int(np.prod(window)), x.shape[dn.lhs_spec[1]]
    kernel = np.broadcast_to(np.eye(taps, dtype="float32"), (features, taps, taps)).reshape(features * taps, 1, *window)
    perm = [0] * len(dn.rhs_spec)
    for i, axis in enumerate((*dn.rhs_spec[:2], *sorted(dn.rhs_spec[2:]))):
        perm[axis] = i
    numbers = {"lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation, "dimension_numbers": dn, "feature_group_count": features}
    return lax.conv_general_dilated(x, jnp.asarray(kernel.transpose(perm)), strides, padding, **numbers)


NHWC = ("NHWC", "HWIO", "NHWC")
CASES = [  # shape, window, strides, padding, lhs_dilation, rhs_dilation, layout
    ((2, 3, 8, 8), (4, 4), (4, 4), "VALID", None, None, None),
    ((2, 3, 11, 9), (4, 2), (4, 3), "VALID", None, None, None),  # columns between windows
    ((2, 3, 11, 9), (5, 3), (2, 2), "SAME", None, None, None),
    ((1, 2, 9, 9), (7, 7), (4, 4), ((3, 2), (1, 0)), None, None, None),
    ((1, 2, 9, 9), (3, 2), (2, 1), ((-1, 2), (1, -2)), (2, 1), None, None),
    ((1, 2, 9, 9), (3, 2), (1, 2), "SAME", None, (2, 3), None),
    ((2, 6, 5, 3), (3, 2), (1, 1), "SAME", None, None, NHWC),
    ((2, 6, 5, 3), (3, 2), (2, 2), "SAME_LOWER", None, None, ("NHWC", "OIHW", "CHWN")),
    ((2, 6, 5, 3), (3, 2), (2, 1), ((1, 1), (0, 2)), None, None, lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 1, 0), (0, 1, 2, 3))),
    ((2, 3, 40), (12,), (5,), "VALID", None, None, None),
    ((1, 1, 300), (200,), (1,), "VALID", None, None, None),  # more slices than are worth it
    ((1, 2, 4, 6, 5), (2, 3, 2), (2, 2, 2), "SAME", None, None, None),
    ((1, 2, 3, 3), (4, 4), (1, 1), "VALID", None, None, None),  # no window at all
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case[:3])))
def test_patches_laid_out(case):
    shape, *rest = case
    x = jnp.asarray(np.random.default_rng(0).standard_normal(shape), "float32")
    want, pulled = fg.vjp(lambda x: _by_kernel(x, *rest), x)
    got, back = fg.vjp(fg.jit(lambda x: lax.conv_general_dilated_patches(x, *rest[:-1], dimension_numbers=rest[-1])), x)
    assert got.shape == want.shape and (np.asarray(got) == np.asarray(want)).all()
    ct = jnp.asarray(np.random.default_rng(1).standard_normal(got.shape), "float32")
    np.testing.assert_allclose(back(ct)[0], pulled(ct)[0], rtol=1e-4, atol=1e-4)


def test_patches_keep_what_they_see():
    """A patch has what it sees alone, and as it is: not products with zeros, nor sums."""
    x = jnp.asarray([[[np.inf, 2.0, np.nan, 4.0, 5.0, 6.0]]], "float32")
    got = lax.conv_general_dilated_patches(x, (2,), (2,), "VALID")
    np.testing.assert_array_equal(got, [[[np.inf, np.nan, 5.0], [2.0, 4.0, 6.0]]])
    assert lax.conv_general_dilated_patches(x, (2,), (2,), "VALID", preferred_element_type=jnp.float16).dtype == jnp.float16
    with pytest.raises(ShapeError, match="one entry for each"):
        lax.conv_general_dilated_patches(x, (2,), (2, 2), ((0, 0),))
