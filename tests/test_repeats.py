"""Copies of copies that repeat, and what is computed of repeated elements: once for each."""

import numpy as np
import pytest

import fgrad
from fgrad import image, nn
from fgrad import numpy as jnp

RNG = np.random.default_rng(0)


def up(m, x, times=2):
    return m.repeat(m.repeat(x, times, 1), times, 2)


def relu(m, x):
    return m.maximum(x, 0)


PROGRAMS = {
    "two repeats": lambda m, x, y, c: up(m, x),
    "a sum with as large an array": lambda m, x, y, c: relu(m, up(m, x) + y),
    "a sum with features": lambda m, x, y, c: m.exp(up(m, x, 3) * c),
    "centred": lambda m, x, y, c: up(m, x) - up(m, x).mean((1, 2), keepdims=True),
    "greatest of features": lambda m, x, y, c: up(m, x).max(-1),
    "sums of repeated rows": lambda m, x, y, c: up(m, x, 3).sum(1),
    "a product along an axis": lambda m, x, y, c: m.prod(up(m, x), axis=2),
    "tiles": lambda m, x, y, c: relu(m, m.tile(x, (1, 2, 2, 1))) * y,
    "tiles and repeats": lambda m, x, y, c: m.tile(x, (1, 2, 2, 1)) * up(m, x),
    "a part": lambda m, x, y, c: relu(m, up(m, x)[:, 1:, :-1]),
    "backwards": lambda m, x, y, c: relu(m, up(m, x)[:, ::-1]) * c,
    "transposed": lambda m, x, y, c: relu(m, m.swapaxes(up(m, x), 1, 2)),
    "of a transposed array": lambda m, x, y, c: up(m, m.swapaxes(x, 1, 2)),
    "another split": lambda m, x, y, c: relu(m, up(m, x).reshape(x.shape[0], -1)[:, :7]),
    "something between": lambda m, x, y, c: m.repeat(m.repeat(x, 2, 1) * y[:, :, : x.shape[2]], 2, 2),
    "selected": lambda m, x, y, c: m.where(up(m, x) > 0, up(m, x), c),
}
SHAPES = [(2, 3, 5, 3), (1, 1, 1, 1), (2, 7, 4, 16), (0, 3, 2, 4), (3, 2, 1, 5)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_of_repeated_elements(program):
    f = PROGRAMS[program]
    for shape in SHAPES:
        n, h, w, k = shape
        if program == "greatest of features" or n:
            x, y = RNG.standard_normal(shape).astype(np.float32), RNG.standard_normal((n, 2 * h, 2 * w, k)).astype(np.float32)
            c = RNG.standard_normal(k).astype(np.float32)
            np.testing.assert_allclose(fgrad.jit(lambda *a: f(jnp, *a))(x, y, c), f(np, x, y, c), rtol=2e-5, atol=2e-5)


def test_gradients():
    x = RNG.standard_normal((2, 5, 4, 3)).astype(np.float32)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(lambda x: jnp.sum(up(jnp, x) ** 2)))(x), 8 * x, rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(lambda x: jnp.sum(up(jnp, x, 3) ** 3)))(x), 27 * x**2, rtol=1e-5)
    y = RNG.standard_normal((2, 10, 8, 3)).astype(np.float32)
    want = (2 * (up(np, x) - y)).reshape(2, 5, 2, 4, 2, 3).sum((2, 4))
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(lambda x: jnp.sum((up(jnp, x) - y) ** 2)))(x), want, rtol=1e-5, atol=1e-5)


def test_two_repeats_are_one_copy_and_nothing_is_computed_of_it():
    x = jnp.ones((2, 30, 20, 3))
    labels = [label for _, label in fgrad.jit(lambda x: up(jnp, x)).lower(x).compile().profile(x, repeat=1)]
    assert len(labels) == 1
    labels = [
        label for _, label in fgrad.jit(fgrad.grad(lambda x: jnp.sum(nn.relu(up(jnp, x)) ** 2))).lower(x).compile().profile(x, repeat=1)
    ]
    assert len(labels) == 1 and "copy" not in labels[0]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "bfloat16"])
def test_nearest_shrinks_first(dtype):
    x = jnp.asarray(RNG.integers(0, 200, (2, 15, 7, 3))).astype(dtype)
    rows = np.floor((np.arange(8, dtype=np.float32) + 0.5) * 15 / 8).astype(int)
    want = np.asarray(x)[:, rows].repeat(2, 2)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x: image.resize(x, (2, 8, 14, 3), "nearest"))(x)), want)


def test_operands_put_in_order_are_copied_once():
    x = RNG.standard_normal((30, 40, 5)).astype(np.float32)

    def f(x):
        y = jnp.swapaxes(x, 0, 1)
        return [jnp.take(y, jnp.array(i), 0, mode="clip") for i in ([1, 5, 2], [30, 3, 7], [4, 9, 39])]

    labels = [label for _, label in fgrad.jit(f).lower(x).compile().profile(jnp.asarray(x), repeat=1)]
    assert sum("copy" in label for label in labels) <= 1
    np.testing.assert_array_equal(fgrad.jit(f)(x)[1], np.swapaxes(x, 0, 1)[[30, 3, 7]])


@pytest.mark.parametrize("dtype, bits", [("float32", "int32"), ("float16", "int16"), ("bfloat16", "int16")])
def test_bits_of_what_repeats(dtype, bits):
    """A copy that is read as another dtype is no copy of what it was made of: its numbers had been taken for those."""
    x = jnp.asarray(-0.7153, dtype)
    want = np.asarray(x).view(bits).astype(np.int32)
    plus = fgrad.jit(lambda x: jnp.broadcast_to(x, (3, 4)).view(bits).astype(jnp.int32) + 1)
    np.testing.assert_array_equal(plus(x), np.full((3, 4), want + 1))
    np.testing.assert_array_equal(fgrad.jit(lambda x: jnp.broadcast_to(x, (3,)).view(bits).astype(jnp.int32).max())(x), want)
