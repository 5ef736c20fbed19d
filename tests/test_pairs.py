"""Sums over differences of all pairs of rows are kernels, forward and backward, with the values of the program as it is written."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)
A, B = [RNG.standard_normal(s).astype(np.float32) for s in ((40, 17), (33, 17))]


def kernels(fun, *args):
    return str(fgrad.jit(fun).lower(*args).compile().profile(*args))


def euclid(a, b):
    return jnp.sqrt(jnp.sum((a[:, None] - b[None]) ** 2, -1) + 1e-3)


def columns_first(a, b):
    return jnp.sqrt(jnp.sum((b[None] - a[:, None]) * (b[None] - a[:, None]), -1) + 1e-3)


def manhattan(a, b):
    return jnp.sum(jnp.abs(a[:, None] - b[None]), axis=2)


def gaussian(a, b):
    return jnp.exp(-0.5 * jnp.sum(jnp.square(a[:, None] - b[None]) / 4, -1))


def turned(a, b):
    return jnp.sum((a.T[:, :, None] - b.T[:, None, :]) ** 2, 0).T


def of_one_array(a, b):
    return jnp.log1p(jnp.sum((a[:, None] - a) ** 2, -1)) * b[0, 0]


def scaled(a, b):
    return jnp.exp(-0.1 * jnp.sum(((a[:, None] - b[None]) / jnp.exp(b[0, 0])) ** 2, -1))


def lengths(a, b):
    return jnp.exp(-0.1 * jnp.sum(((a[:, None] - b[None]) / (1 + a[0] ** 2)) ** 2, -1))


def weighted(a, b):
    return jnp.sqrt(jnp.sum((a[:, None] - b[None]) ** 2 * jnp.exp(b[0]), -1) + 1e-2)


def mapped(a, b):
    return fgrad.vmap(lambda x: fgrad.vmap(lambda y: jnp.exp(-jnp.sum(((x - y) * jnp.exp(y[0])) ** 2 / 3) / 5))(b))(a)


FUNCTIONS = [euclid, columns_first, manhattan, gaussian, turned, of_one_array, scaled, lengths, weighted, mapped]


@pytest.mark.parametrize("fun", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_and_gradients(fun):
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(lambda a, b: fun(a, b) + 0)(A, B)
    np.testing.assert_allclose(fgrad.jit(fun)(A, B), want, rtol=1e-5, atol=1e-5)
    g = RNG.standard_normal(want.shape).astype(np.float32)
    for at in (0, 1, (0, 1)):
        loss = lambda a, b: jnp.sum(fun(a, b) * g)
        got = fgrad.jit(fgrad.grad(loss, at))(A, B)
        with fgrad.enable_x64(True):
            exact = fgrad.grad(loss, at)(A.astype(float), B.astype(float))
        for one, other in zip(got if at == (0, 1) else (got,), exact if at == (0, 1) else (exact,)):
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
    batch = np.stack([A, -A, A + 1]), np.stack([B, B, -B])
    got = fgrad.jit(fgrad.vmap(fun))(*batch)
    for i in range(3):
        np.testing.assert_allclose(got[i], fun(batch[0][i], batch[1][i]), rtol=2e-5, atol=2e-5)


def test_they_are_kernels():
    assert "pair_distances" in kernels(euclid, A, B) and "pair_distances" in kernels(manhattan, A, B)
    for fun in (gaussian, turned, scaled, lengths, weighted):
        assert "pair_distances" in kernels(fun, A, B)
        assert "pair_moments" in kernels(fgrad.grad(lambda a, b, fun=fun: jnp.sum(jnp.sin(fun(a, b)))), A, B)
    text = kernels(fgrad.grad(lambda a, b: jnp.sum(euclid(a, b)), (0, 1)), A, B)
    assert text.count("pair_moments") == 2 and text.count("pair_distances") == 1
    assert "pair_distances" in kernels(fgrad.vmap(euclid), np.stack([A, A]), np.stack([B, B]))


def test_not_where_differences_are_read():
    text = kernels(lambda a, b: (jnp.sum((a[:, None] - b[None]) ** 2, -1), (a[:, None] - b[None]) ** 2), A, B)
    assert "pair_distances" not in text
    assert "pair_moments" not in kernels(lambda a, b: jnp.sum(a[:, None] - b[None], 1), A, B)


def test_long_products():
    """The search for factors does not follow a product to its end."""

    def fun(x, y):
        p = x[:, None] - y
        for _ in range(1200):
            p = p * x[:, None]
        return p.sum(0)

    assert fgrad.jit(fun).lower(jnp.ones((64, 8)), jnp.ones((8, 8))).compile() is not None


def test_many_pairs_are_not_kept():
    """A kernel writes a number for each pair: of many, tiles over rows do, which keep none. Their values are those of one row at a time."""
    x = jnp.array(RNG.standard_normal((2100, 8)), jnp.float32)
    for fun in (lambda x: jnp.exp(-jnp.sum((x[:, None] - x) ** 2, -1)).sum(1), lambda x: jnp.argmin(jnp.sum((x[:, None] - x) ** 2, -1), 1)):
        assert fgrad.jit(fun).lower(x).compile().memory_analysis()["temp_bytes"] < 2100 * 2100
    rows = lambda x: fgrad.lax.map(lambda row: jnp.exp(-jnp.sum((row - x) ** 2, -1)).sum(), x)
    whole = lambda x: jnp.exp(-jnp.sum((x[:, None] - x) ** 2, -1)).sum(1)
    np.testing.assert_allclose(fgrad.jit(whole)(x), fgrad.jit(rows)(x), rtol=1e-5)
    got, want = [fgrad.jit(fgrad.grad(lambda x, f=f: jnp.sum(jnp.cos(f(x)))))(x) for f in (whole, rows)]
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
