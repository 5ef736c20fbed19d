"""Rows taken of taken rows are taken at once, and their gradients scattered at once: the same elements, whatever the indices."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)
SHAPES = [((50,), 2000, 300), ((40, 8), 900, 200), ((30, 4, 3), 500, 100), ((20, 6), 300, 4000)]


def twice(x, i, j):
    return x[i][j]


def filled(x, i, j):
    return jnp.take(jnp.take(x, i, 0), j, 0)


def clipped(x, i, j):
    return jnp.take(jnp.take(x, i, 0, mode="clip"), j, 0, mode="clip")


def mixed(x, i, j):
    return jnp.take(x[i], j, 0) + jnp.take(x, i, 0)[j]


def thrice(x, i, j):
    return x[i][j][j[: len(j) // 2] % len(j)]


def of_two_axes(x, i, j):
    return x[i][j.reshape(2, -1)]


def read_otherwise(x, i, j):
    rows = x[i]
    return rows[j], rows.sum(0)


def two_readers(x, i, j):
    rows = x[i]
    return rows[j], rows[j[:50]] * 2


@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("fun", [twice, filled, clipped, mixed, thrice, of_two_axes, read_otherwise, two_readers])
@pytest.mark.parametrize("shape, n, k", SHAPES)
def test_equal_to_one_after_the_other(shape, n, k, fun, outside):
    x = RNG.standard_normal(shape).astype(np.float32)
    more = 3 if outside else 1
    i, j = [RNG.integers(-m * more, m * more, size).astype(np.int32) for m, size in ((shape[0], n), (n, k))]
    loss = lambda x: sum([jnp.sum(jnp.nan_to_num(y) ** 2) for y in fgrad.tree.leaves(fun(x, i, j))])  # noqa: E731
    for f in (lambda x, i, j: fun(x, i, j), lambda x, i, j: fgrad.grad(loss)(x)):
        got = fgrad.jit(f)(x, i, j)
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.jit(lambda *args: f(*args))(x, i, j)
        for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("fun", [twice, filled])
def test_what_comes_between_is_not_made(fun):
    x, i, j = jnp.ones((500, 8)), jnp.zeros(2000, "int32"), jnp.zeros(300, "int32")
    for f in (fun, fgrad.grad(lambda x, i, j: jnp.sum(fun(x, i, j) ** 2))):
        memory = fgrad.jit(f).lower(x, i, j).compile().memory_analysis()
        assert memory["temp_bytes"] < 2000 * 8 * 4
