"""Rotary embeddings that are written out run as the rope kernel, with the same values and gradients."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp


def operations(fun, *args):
    return [name.split()[0] for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def turned(x, c, s, np=jnp):
    h = x.shape[-1] // 2
    return x * c + np.concatenate([-x[..., h:], x[..., :h]], -1) * s


def parts(x, c, s, np=jnp):
    h = x.shape[-1] // 2
    a, b, c, s = x[..., :h], x[..., h:], c[..., :h], s[..., :h]
    return np.concatenate([a * c - b * s, b * c + s * a], -1)


def back(fun):
    return lambda x, c, s: fgrad.vjp(lambda x: fun(x, c, s), x)[1](jnp.cos(x))[0]


def data(shape=(2, 12, 3, 64), dtype="float32"):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in (shape, (shape[1], 1, shape[-1]), (shape[1], 1, shape[-1]))]


@pytest.mark.parametrize("fun", [turned, parts], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 12, 3, 64), (1, 40, 2, 32), (2, 9, 5, 18)], ids=str)
def test_values_and_gradients(fun, shape):
    args = data(shape)
    ct = np.cos(args[0])
    np.testing.assert_allclose(fgrad.jit(fun)(*args), fun(*args, np), rtol=1e-5, atol=1e-5)
    x, c, s = args
    h = shape[-1] // 2
    if fun is parts:
        c, s = (np.concatenate([v[..., :h]] * 2, -1) for v in (c, s))
    m = ct * s
    want = ct * c + np.concatenate([m[..., h:], -m[..., :h]], -1)
    np.testing.assert_allclose(fgrad.jit(back(fun))(*args), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fun", [turned, parts], ids=lambda f: f.__name__)
def test_one_kernel(fun):
    assert operations(fun, *data()) == ["rope"]
    given = lambda x, ct, c, s: fgrad.vjp(lambda x: fun(x, c, s), x)[1](ct)[0]
    x, c, s = data()
    assert operations(given, x, x, c, s) == ["rope"]


@pytest.mark.parametrize(
    "other",
    [
        lambda x, c, s: x * c + jnp.concatenate([x[..., 32:], x[..., :32]], -1) * s,
        lambda x, c, s: x * c + jnp.concatenate([-x[..., :32], x[..., 32:]], -1) * s,
        lambda x, c, s: c * c + jnp.concatenate([-x[..., 32:], x[..., :32]], -1) * s,
        lambda x, c, s: x * c - jnp.concatenate([-x[..., 32:], x[..., :32]], -1) * s,
        lambda x, c, s: x * c + jnp.concatenate([-x[..., 16:], x[..., :16]], -1) * s,
        lambda x, c, s: jnp.concatenate(
            [x[..., :32] * c[..., :32] - x[..., 32:] * s[..., :32], x[..., 32:] * c[..., 32:] + x[..., :32] * s[..., :32]], -1
        ),
        lambda x, c, s: jnp.concatenate(
            [x[..., :32] * c[..., :32] - x[..., 32:] * s[..., :32], x[..., 32:] * c[..., :32] - x[..., :32] * s[..., :32]], -1
        ),
        lambda x, c, s: jnp.concatenate(
            [x[..., 32:] * c[..., :32] - x[..., :32] * s[..., :32], x[..., :32] * c[..., :32] + x[..., 32:] * s[..., :32]], -1
        ),
    ],
)
def test_what_only_looks_like_it(other):
    args = data()
    assert "rope" not in operations(other, *args)
    with fgrad.disable_jit():
        want = other(*args)
    np.testing.assert_allclose(fgrad.jit(other)(*args), want, rtol=1e-5, atol=1e-5)


def test_gradients_of_all():
    x, c, s = data((1, 12, 3, 64))
    loss = lambda fun: lambda *a: jnp.sum(jnp.sin(fun(*a)) * jnp.arange(64.0))
    got = fgrad.jit(fgrad.grad(loss(turned), argnums=(0, 1, 2)))(x, c, s)
    with fgrad.disable_jit():
        want = fgrad.grad(loss(turned), argnums=(0, 1, 2))(x, c, s)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_turned_operands_stay():
    """Rows that do not lie in memory as they are read are for the elementwise walk, which turns tiles."""
    x, c, s = data((1, 64, 3, 64))
    fun = lambda x, c, s: turned(jnp.swapaxes(x, 1, 3), c, s)
    assert "rope" not in operations(fun, x, c, s)
    np.testing.assert_allclose(fgrad.jit(fun)(x, c, s), turned(np.swapaxes(x, 1, 3), c, s, np), rtol=1e-5, atol=1e-5)
