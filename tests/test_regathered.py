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
            want = fgrad.jit(lambda *args, f=f: f(*args))(x, i, j)
        for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-3)


REPEATS = {
    "each": lambda x: jnp.repeat(x, 3, 0),
    "all": lambda x: jnp.tile(x, (3,) + (1,) * (x.ndim - 1)),
    "both": lambda x: jnp.tile(jnp.repeat(x, 2, 0), (2,) + (1,) * (x.ndim - 1)),
    "features too": lambda x: jnp.repeat(jnp.repeat(x, 3, 0), 2, -1),
    "of two axes": lambda x: jnp.broadcast_to(x[None, :, None], (2, len(x), 3, *x.shape[1:])).reshape(-1, *x.shape[1:]),
    "turned": lambda x: jnp.repeat(x[::-1], 3, 0),
}


@pytest.mark.parametrize("mode", [None, "clip", "fill", "wrap"])
@pytest.mark.parametrize("name", REPEATS)
@pytest.mark.parametrize("shape", [(700,), (40, 24), (30, 4, 12)])
def test_rows_of_repeats(shape, name, mode):
    x, f = RNG.standard_normal(shape).astype(np.float32), REPEATS[name]
    rows = f(x).shape[0]
    j = RNG.integers(-2 * rows, 2 * rows, 60).astype(np.int32)
    j[:6] = [0, rows - 1, rows, -1, -rows, -rows - 1]
    run = lambda x, j: jnp.take(f(x), j, 0, mode=mode) if mode else f(x)[j]  # noqa: E731
    for g in (run, lambda x, j: fgrad.grad(lambda x: jnp.sum(jnp.nan_to_num(run(x, j)) ** 2))(x)):
        got = fgrad.jit(g)(x, j)
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.jit(lambda *args, g=g: g(*args))(x, j)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-5)


def test_repeats_are_not_made():
    x, j = jnp.ones((500, 16)), jnp.zeros(300, "int32")
    for name in ("each", "all", "both"):
        memory = fgrad.jit(lambda x, j, f=REPEATS[name]: f(x)[j]).lower(x, j).compile().memory_analysis()
        assert memory["temp_bytes"] < 300 * 16 * 4


@pytest.mark.parametrize("fun", [twice, filled])
def test_what_comes_between_is_not_made(fun):
    x, i, j = jnp.ones((500, 8)), jnp.zeros(2000, "int32"), jnp.zeros(300, "int32")
    for f in (fun, fgrad.grad(lambda x, i, j: jnp.sum(fun(x, i, j) ** 2))):
        memory = fgrad.jit(f).lower(x, i, j).compile().memory_analysis()
        assert memory["temp_bytes"] < 2000 * 8 * 4


@pytest.mark.parametrize("n, m, k", [(400, 8, 4), (64, 64, 32), (100, 80, 40), (300, 30, 20), (100, 100, 10)])
def test_rows_of_a_copy_that_begin_within_its_axes(n, m, k):
    """No number of leading axes of what is copied makes the rows: there is nothing to take in the copy's place."""
    x, i = RNG.normal(size=(n, m)).astype(np.float32), RNG.integers(0, k, 7).astype(np.int32)
    np.testing.assert_array_equal(fgrad.jit(lambda x, i: x.T.reshape(k, -1)[i])(x, i), x.T.reshape(k, -1)[i])
    spread = np.broadcast_to(x[:, None], (n, 3, m)).reshape(k, -1)
    np.testing.assert_array_equal(fgrad.jit(lambda x, i: jnp.broadcast_to(x[:, None], (n, 3, m)).reshape(k, -1)[i])(x, i), spread[i])
