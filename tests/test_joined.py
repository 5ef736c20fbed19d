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


def slices_of_rows(x):
    return (jnp.sin(x[:, :16]) * x[:, 16:32]).sum() + (x[:, 32:] ** 3).sum()


def columns(x):
    return (x[:, 0] * x[:, 1] - x[:, 2] ** 2).sum()


def inner_rows(x):
    return (x[1:3] * 2).sum() + (x[3:10] ** 2).sum() + x[12:, 2:].sum()


def reversed_order(x):
    return (x[10:] ** 2).sum() + (x[:10] ** 3).sum()


def overlapping(x):
    return (x[:10] ** 2).sum() + (x[5:] ** 3).sum()


@pytest.mark.parametrize("shape", [(20, 48), (300, 48), (5000, 48)], ids=str)
@pytest.mark.parametrize("fun", [slices_of_rows, columns, inner_rows, reversed_order, overlapping], ids=lambda f: f.__name__)
def test_cotangents_of_slices_are_joined(fun, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    got = fgrad.jit(fgrad.grad(fun))(x)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(fgrad.grad(lambda x: fun(x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_neighbours_padded_with_zeros():
    """Sums of them: of every order, with nothing lost between, and without -0."""
    x = np.random.default_rng(0).standard_normal((100, 6)).astype("float32")
    x[3] = -0.0
    pad = lambda x, lo, hi: fgrad.lax.pad(x, np.zeros((), x.dtype)[()], ((0, 0, 0), (lo, hi, 0)))
    for dtype in ("float32", "int32", "bfloat16", "complex64"):
        y = jnp.array(x).astype(dtype)
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
            for gap in (0, 1):
                ends = [(0, 4 + gap), (2, 2 + gap), (4 + gap, 0)]

                def add(y, order=order, ends=ends, gap=gap):
                    p = [pad(y[:, 2 * k : 2 * k + 2], *ends[k]) for k in order]
                    return p[0] + p[1] + p[2]

                want = np.zeros((100, 6 + gap), np.asarray(y).dtype)
                want[:, :4], want[:, 4 + gap :] = np.asarray(y)[:, :4] + 0, np.asarray(y)[:, 4:] + 0
                got = np.asarray(fgrad.jit(add)(y))
                assert got.tobytes() == want.tobytes()
    grad = fgrad.grad(lambda a, b: jnp.cross(a, b).sum())
    a, b = x[:, :3].copy(), x[:, 3:].copy()
    np.testing.assert_allclose(fgrad.jit(grad)(a, b), np.cross(b, np.ones_like(b)), rtol=1e-5, atol=1e-6)
    assert not any("pad" in i for i in instructions(grad, a, b))
