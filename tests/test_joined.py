"""Concatenations of what one fused group computes are written by the group: the same values, one instruction less."""

import warnings

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def rotated(x, c, s):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def parts(x, y):
    return jnp.concatenate([x * y, x + y, x - 2 * y], 0)


def middle(x, y):
    return jnp.concatenate([(x * y)[:, None], (x - y)[:, None]], 1)


def stacked(x, y):
    return jnp.stack([x * y, x / 2, y - x], 0) * 1


def read_again(x, y):
    u = x * y
    return jnp.concatenate([u, x + y], 0), u.sum()


def twice(x, y):
    u = x * y
    return jnp.concatenate([u, u], 0)


def halves(x, y):
    return jnp.concatenate([(x * y).astype("float16"), (x + y).astype("float16")], 1)


def wide(x, y):
    return jnp.concatenate([x * y, jnp.sum(x + y, 1, keepdims=True) + x], 1)


PROGRAMS = [parts, middle, stacked, read_again, twice, halves, wide]


@pytest.mark.parametrize("shape", [(100, 64), (64, 100), (3, 5000), (700, 17), (64, 16, 32)], ids=str)
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda f: f.__name__)
def test_same_values(fun, shape):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype("float32") for _ in range(2))
    got = fgrad.tree.leaves(fgrad.jit(fun)(x, y))
    with warnings.catch_warnings(action="ignore"):  # no result may have the shape of what is donated
        donated = fgrad.tree.leaves(fgrad.jit(fun, donate_argnums=(0, 1))(jnp.array(x), jnp.array(y)))
    with fgrad.config.override("pass_fuse", False):
        want = fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(x, y))
    for a, b, c in zip(got, want, donated):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(a, c)


def test_one_instruction():
    rng = np.random.default_rng(0)
    x, c, s = (rng.standard_normal(n).astype("float32") for n in ((4, 64, 8, 64), (64, 1, 32), (64, 1, 32)))
    a, b = x[..., :32], x[..., 32:]
    np.testing.assert_allclose(fgrad.jit(rotated)(x, c, s), np.concatenate([a * c - b * s, b * c + a * s], -1), rtol=1e-5, atol=1e-6)
    assert len(instructions(rotated, x, c, s)) == 1
    y = rng.standard_normal((100, 64)).astype("float32")
    assert [len(instructions(f, y, y)) for f in (parts, middle)] == [1, 1]
    assert len(instructions(read_again, y, y)) > 1
    narrow = rng.standard_normal((5000, 2)).astype("float32")
    assert any("concatenate" in i for i in instructions(lambda x: jnp.concatenate([x * 2, x + 1], 1), narrow))


def test_carries_of_loops():
    """A piece of a carry that the group reads itself is no place to write before it is read."""
    x = np.random.default_rng(0).standard_normal((2, 4096)).astype("float32") * 0.1

    def step(i, x):
        a, b = x[:1], x[1:]
        return jnp.concatenate([b * 0.5 + a, a - b * 0.25], 0)

    want = x
    for _ in range(5):
        want = np.concatenate([want[1:] * np.float32(0.5) + want[:1], want[:1] - want[1:] * np.float32(0.25)])
    np.testing.assert_allclose(fgrad.jit(lambda x: fgrad.lax.fori_loop(0, 5, step, x))(x), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fgrad.jit(lambda x: step(0, x), donate_argnums=0)(jnp.array(x)), step(0, jnp.array(x)), rtol=1e-6)
