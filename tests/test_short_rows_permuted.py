"""Rows of a few items in another order, or a part of them: channels reversed, chosen or dropped, images turned left to right."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

ORDERS = {
    "channels backwards": lambda np, x: x[..., ::-1],
    "turned left to right": lambda np, x: x[:, ::-1],
    "both": lambda np, x: x[:, ::-1, ::-1],
    "upside down": lambda np, x: x[::-1, :, ::-1],
    "all but the last channel": lambda np, x: x[..., :-1],
    "all but the first, backwards": lambda np, x: x[..., :0:-1],
    "a part turned": lambda np, x: x[:, -2:0:-1, 1:],
    "every other pixel": lambda np, x: x[:, ::2, ::-1],
}
SHAPES = [(3, 5, 3), (2, 37, 2), (1, 700, 3), (50, 61, 4), (33, 129, 5), (9, 300, 8), (5, 130, 16), (40, 224, 3)]


def image(shape, dtype):
    x = np.random.default_rng(0).integers(0, 256, shape)
    return (x % 2 == 0) if dtype == "bool" else x.astype(dtype) if dtype != "complex64" else (x + 1j * x[::-1]).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ORDERS)
def test_copies(name, shape, dtype):
    with fgrad.enable_x64():
        x = image(shape, dtype)
        got = fgrad.jit(lambda x: jnp.copy(ORDERS[name](jnp, x)))(x)
        np.testing.assert_array_equal(np.asarray(got), ORDERS[name](np, x))


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ORDERS)
def test_groups(name, shape, dtype):
    with fgrad.enable_x64():
        x, two = image(shape, dtype), np.dtype(dtype).type(2)
        got = fgrad.jit(lambda x: (ORDERS[name](jnp, x) * two, ORDERS[name](jnp, x * two) - two))(x)
        want = ORDERS[name](np, x * two)
        np.testing.assert_array_equal(np.asarray(got[0]), want)
        np.testing.assert_array_equal(np.asarray(got[1]), want - two)


@pytest.mark.parametrize("shape", [(100,), (70001,), (130, 515), (40, 1000), (3, 5000), (2000, 17)])
def test_long_rows_backwards(shape):
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    np.testing.assert_array_equal(fgrad.jit(lambda x: x[..., ::-1] * 2)(x), x[..., ::-1] * 2)
    np.testing.assert_array_equal(fgrad.jit(lambda x: x[..., -2::-1] + x[..., 1:])(x), x[..., -2::-1] + x[..., 1:])


@pytest.mark.parametrize("shape", [(6, 20, 24, 3), (16, 64, 50, 3), (5, 40, 40, 16)])
def test_flips_under_a_condition_for_each_image(shape):
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    coin = np.arange(shape[0]) % 2 == 0
    got = fgrad.jit(lambda x, c: jnp.where(c[:, None, None, None], x[:, :, ::-1], x))(x, coin)
    np.testing.assert_array_equal(got, np.where(coin[:, None, None, None], x[:, :, ::-1], x))


def test_bytes_that_become_floats_are_turned_as_bytes():
    x = image((4, 60, 70, 3), "uint8")
    mean = np.float32([0.25, 0.5, 0.75])
    fun = fgrad.jit(lambda x: jnp.transpose((x.astype("float32") - mean) * 2, (0, 3, 1, 2)))
    np.testing.assert_array_equal(fun(x), np.transpose((x.astype("float32") - mean) * 2, (0, 3, 1, 2)))
    memory = fun.lower(x).compile().memory_analysis()
    assert memory["temp_bytes"] < 2 * x.nbytes


@pytest.mark.parametrize("dtype", ["uint8", "int8", "bool", "int16", "int32"])
@pytest.mark.parametrize("n", [2, 10, 16, 63, 64, 65, 200, 256])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_positions_in_rows_of_few_items(name, n, dtype):
    """Of equals the first one; values at both ends of the type."""
    r = np.random.default_rng(n)
    for rows, few in ((1, 3), (127, 256), (128, 3), (700, 256), (1025, 4)):
        x = (r.integers(0, few, (rows, n)) * (255 // (few - 1))).astype("uint8")
        x = x.astype(bool) if dtype == "bool" else x.view("int8").astype(dtype)
        for axis, y in ((1, x), (0, np.ascontiguousarray(x.T))):
            got = fgrad.jit(lambda y, axis=axis: getattr(jnp, name)(y, axis))(y)
            np.testing.assert_array_equal(got, getattr(np, name)(y, axis))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(7, 5000), (40, 1000), (3, 2048), (5, 4096), (2, 9, 3000), (600, 30)])
def test_rows_are_selected_by_a_condition_for_each(shape, dtype):
    """Tiles of one row and tiles with parts of several, all of them, none and some; in the place of an operand, too."""
    with fgrad.enable_x64():
        x = np.arange(np.prod(shape)).reshape(shape) % 100
        y = jnp.asarray(x[..., ::-1] - 50).astype(dtype)
        x = jnp.asarray(x).astype(dtype)
        rows = np.arange(np.prod(shape[:-1])).reshape(shape[:-1])
        select = lambda c, x, y: jnp.where(c[..., None], x, y)  # noqa: E731
        for c in (rows % 2 == 0, rows % 3 > 0, rows < 0, rows >= 0):
            want = np.where(c[..., None], np.asarray(x), np.asarray(y))
            np.testing.assert_array_equal(np.asarray(fgrad.jit(select)(c, x, y)), want)
            np.testing.assert_array_equal(np.asarray(fgrad.jit(select, donate_argnums=(1,))(c, jnp.copy(x), y)), want)
            np.testing.assert_array_equal(np.asarray(fgrad.jit(select, donate_argnums=(2,))(c, x, jnp.copy(y))), want)
            back = fgrad.jit(lambda c, x, y: jnp.where(c[..., None], x[..., ::-1], y), donate_argnums=(1,))(c, jnp.copy(x), y)
            np.testing.assert_array_equal(np.asarray(back), np.where(c[..., None], np.asarray(x)[..., ::-1], np.asarray(y)))
            number = fgrad.jit(lambda c, x: jnp.where(c[..., None], x, 0))(c, x)
            np.testing.assert_array_equal(np.asarray(number), np.where(c[..., None], np.asarray(x), np.asarray(x) * 0))
            sums = fgrad.jit(lambda c, x, y: jnp.where(c[..., None], x, y).sum(-1))(c, x, y)
            assert sums.shape == c.shape
