"""Convolutions on the tile unit, beside the same ones without it: values, layouts, what the unit cannot take, threads."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad._kernels import conv_plan
from tests.kernels.harness import without_tiles

rng = np.random.default_rng(11)
pytestmark = pytest.mark.usefixtures("tile_unit")
LAST, FIRST = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def operands(batch, size, features, out, window, last, dtype):
    x = rng.standard_normal((batch, *size, features) if last else (batch, features, *size)).astype(np.float32)
    w = rng.standard_normal((*window, features, out) if last else (out, features, *window)).astype(np.float32)
    return jnp.asarray(x, dtype), jnp.asarray(w, dtype)


def convolution(stride, pads, last, dilation=1, inputs=1, groups=1, out=None):
    def f(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            (stride,) * 2,
            pads,
            lhs_dilation=(inputs,) * 2,
            rhs_dilation=(dilation,) * 2,
            dimension_numbers=LAST if last else FIRST,
            feature_group_count=groups,
            preferred_element_type=out,
        )

    return f


def exactly(f, *args):
    with fgrad.enable_x64():
        y = without_tiles(fgrad.jit(f), *(jnp.asarray(np.asarray(a, np.float64)) for a in args))
        return fgrad.tree.map(lambda a: np.asarray(a, np.float64), y)


# batch, size, features, out, window, stride, pads, dilation
SHAPES = [
    (2, (28, 28), 64, 64, (3, 3), 1, ((1, 1), (1, 1)), 1),
    (3, (14, 14), 96, 160, (3, 3), 1, ((1, 1), (1, 1)), 1),
    (4, (7, 7), 256, 64, (3, 3), 1, ((1, 1), (1, 1)), 1),
    (2, (29, 31), 33, 47, (5, 3), 1, ((2, 1), (0, 3)), 1),
    (2, (56, 57), 64, 128, (3, 3), 2, ((1, 1), (1, 1)), 1),
    (2, (64, 64), 3, 64, (7, 7), 2, ((3, 3), (3, 3)), 1),
    (2, (33, 40), 48, 80, (3, 3), 3, ((0, 0), (5, 0)), 1),
    (2, (28, 28), 40, 64, (3, 3), 1, ((6, 6), (6, 6)), 6),
    (2, (30, 30), 64, 64, (3, 3), 2, ((3, 3), (3, 3)), 3),
    (2, (40, 40), 256, 64, (1, 1), 2, ((0, 0), (0, 0)), 1),
    (1, (6, 700), 17, 32, (3, 9), 1, ((1, 1), (4, 4)), 1),
]


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch,size,features,out,window,stride,pads,dilation", SHAPES)
def test_values_and_gradients(batch, size, features, out, window, stride, pads, dilation, dtype, last):
    x, w = operands(batch, size, features, out, window, last, dtype)
    conv = convolution(stride, pads, last, dilation)
    ct = jnp.asarray(rng.standard_normal(fgrad.eval_shape(conv, x, w).shape), dtype)

    def all_three(x, w, ct):
        y, back = fgrad.vjp(conv, x, w)
        return (y, *back(ct))

    got, plain = fgrad.jit(all_three)(x, w, ct), without_tiles(fgrad.jit(all_three), x, w, ct)
    exact = exactly(all_three, x, w, ct)
    for a, b, c in zip(got, plain, exact, strict=True):
        a, b, c = np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c)
        scale = np.abs(c).max()
        if dtype == "bfloat16":
            np.testing.assert_allclose(a, c, rtol=2.0**-8, atol=2e-6 * scale)
        else:
            assert np.abs(a - c).max() <= max(2 * np.abs(b - c).max(), 1e-6 * scale)


def used(f, *args):
    """Does the tile unit compute this?  Its sums are rounded in another order."""
    return not np.array_equal(np.asarray(f(*args), np.float32), np.asarray(without_tiles(f, *args), np.float32))


@pytest.mark.parametrize("last", [True, False])
def test_the_unit_is_used(last):
    x, w = operands(2, (28, 28), 64, 64, (5, 5), last, "float32")
    f = fgrad.jit(convolution(1, "SAME", last))
    assert used(f, x, w)
    g = fgrad.jit(convolution(1, "SAME", last, out="float32"))
    assert used(g, jnp.asarray(x, "bfloat16"), jnp.asarray(w, "bfloat16"))


@pytest.mark.parametrize("features,out,groups", [(64, 128, 2), (96, 96, 3)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_groups(features, out, groups, dtype):
    x, w = operands(2, (28, 28), features // groups, out, (5, 5), True, dtype)
    x = jnp.concatenate([x] * groups, -1) * jnp.asarray(rng.standard_normal(features), dtype)
    f = convolution(1, "SAME", True, groups=groups, out="float32")
    exact = exactly(convolution(1, "SAME", True, groups=groups), x, w)
    np.testing.assert_allclose(np.asarray(f(x, w)), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_transposed(dtype):
    x, w = operands(2, (20, 20), 64, 64, (4, 4), True, dtype)
    f = convolution(1, ((2, 2), (2, 2)), True, inputs=2)
    exact = exactly(f, x, w)
    np.testing.assert_allclose(
        np.asarray(f(x, w), np.float64), exact, rtol=2.0**-8 if dtype == "bfloat16" else 0, atol=2e-6 * np.abs(exact).max()
    )


SPECIALS = [np.inf, -np.inf, np.nan, 3e38, 2.0**100, 2.0**62]


@pytest.mark.parametrize("value", SPECIALS)
@pytest.mark.parametrize("features,dtype", [(64, "float32"), (3, "float32"), (64, "bfloat16"), (20, "bfloat16"), (3, "bfloat16")])
def test_a_special_input_reaches_its_windows_only(features, value, dtype):
    if features == 20 and not conv_plan.PAIRS:
        pytest.skip("widened to float32, of which Winograd makes tiles, whose outputs share inputs")
    x, w = operands(2, (28, 28), features, 64, (5, 5), True, dtype)
    f = fgrad.jit(convolution(1, "SAME", True, out="float32"))
    plain = np.asarray(f(x, w))
    a = np.array(x)
    a[1, 13, 7, features - 1] = value
    got = np.asarray(f(jnp.asarray(a), w))
    with np.errstate(over="ignore", invalid="ignore"):
        other = exactly(convolution(1, "SAME", True), jnp.asarray(a), w).astype(np.float32)
    near = np.zeros((2, 28, 28), bool)
    near[1, 11:16, 5:10] = True
    np.testing.assert_allclose(got[~near], plain[~near], rtol=0, atol=6e-4)
    np.testing.assert_allclose(got[near], other[near], rtol=2e-5, atol=6e-4)
    assert np.array_equal(np.isnan(got), np.isnan(other))


@pytest.mark.parametrize("value", SPECIALS)
def test_a_special_element_of_the_kernel(value):
    x, w = operands(2, (28, 28), 64, 64, (5, 5), True, "float32")
    f = fgrad.jit(convolution(1, "SAME", True))
    a = np.array(w)
    a[2, 2, 5, 40] = value
    got = np.asarray(f(x, jnp.asarray(a)))
    with np.errstate(over="ignore", invalid="ignore"):
        other = exactly(f, x, jnp.asarray(a)).astype(np.float32)
    np.testing.assert_allclose(np.delete(got, 40, 3), np.delete(other, 40, 3), rtol=0, atol=6e-4)
    np.testing.assert_allclose(got[..., 40], other[..., 40], rtol=2e-5, atol=6e-4)


def test_small_numbers_keep_their_bits():
    x, w = operands(2, (28, 28), 64, 64, (5, 5), True, "float32")
    f = fgrad.jit(convolution(1, "SAME", True))
    for a, b in ((x * 2.0**-105, w), (x, w * 2.0**-105)):
        exact = exactly(f, a, b)
        np.testing.assert_allclose(np.asarray(f(a, b), np.float64), exact, rtol=0, atol=2e-6 * np.abs(exact).max())


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_do_not_change_bits(dtype):
    x, w = operands(8, (28, 28), 64, 64, (5, 5), False, dtype)
    f = fgrad.jit(fgrad.grad(lambda x, w: jnp.sum(convolution(1, "SAME", False)(x, w) ** 2), argnums=(0, 1)))
    before = fgrad.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            fgrad.set_num_threads(n)
            results.append([np.asarray(a, np.float32) for a in f(x, w)])
    finally:
        fgrad.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b)
