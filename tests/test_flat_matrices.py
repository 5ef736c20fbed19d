"""Small matrices and vectors in loops: machine code has the interpreter's bits of products, folds and what moves from lane to lane."""

import os

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.drawn_matrices import drawn_matrices
from tests.test_flat_folds import numbers
from tests.test_machine import check

SHAPES = [(2, 2, 2), (3, 3, 3), (4, 4, 4), (4, 2, 3), (5, 3, 1), (1, 4, 4), (8, 8, 1), (1, 8, 8), (7, 5, 1), (3, 8, 1), (8, 8, 8)]
SHAPES += [(2, 16, 2), (16, 1, 16), (1, 16, 8), (6, 5, 4)]
SEEDS = int(os.environ.get("FGRAD_DRAWN_MATRICES", "12"))  # of each test


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("first", range(0, 20 * SEEDS, SEEDS))
def test_drawn_matrices(first, x64):
    with fgrad.config.override("enable_x64", x64):
        for seed in range(first, first + SEEDS):
            fun, args = drawn_matrices(seed, x64)
            check(fun, fgrad.tree_util.tree_map(jnp.asarray, args), ordinary=False)


def turns(body, *carry):
    """A loop of a few turns of which each hands on what it computes."""
    check(lambda *c: lax.fori_loop(0, 5, lambda i, c: body(*c), c), carry, ordinary=False)


@pytest.mark.parametrize("special", [(), (np.nan,), (np.inf, -np.inf)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("batch", [(), (2,), (5,), (8,), (16,)])
def test_products(batch, shape, special):
    m, k, n = shape
    a, b, w = numbers(1, *batch, m, k, special=special) * 0.3, numbers(2, *batch, k, n) * 0.7, numbers(3, *batch, m, n) * 0.1
    turns(lambda a, w: (jnp.clip(a + 0.25 * jnp.sum(w), -2, 2), jnp.clip(a @ b - w, -2, 2)), a, w)
    turns(lambda b, w: (b * 0.5, a @ b + w * 0.5), b, w)
    turns(lambda a, w: (a[..., ::-1, :] * 0.5, jnp.swapaxes(jnp.swapaxes(b, -1, -2) @ jnp.swapaxes(a, -1, -2), -1, -2) - w), a, w)


@pytest.mark.parametrize("n", [2, 3, 5, 7, 8, 9, 12, 15, 16, 24])
def test_lanes(n):
    x, y = numbers(4, n), numbers(5, n)
    at = np.random.default_rng(n).permutation(n)
    for move in (
        lambda x: x[::-1],
        lambda x: jnp.roll(x, 1),
        lambda x: jnp.roll(x, -2),
        lambda x: jnp.concatenate([x[1:], x[:1] * 2]),
        lambda x: jnp.concatenate([x[-1:], x[: n // 2], x[n // 2 : -1]]),
        lambda x: jnp.stack([x[i] for i in at]),
        lambda x: x.at[n // 2].set(x[0] + 1).at[0].set(x[-1]),
        lambda x: jnp.where(jnp.arange(n) % 2 == 0, x, x[n // 2]),
        lambda x: jnp.repeat(x[:2], n)[:n],
        lambda x: jnp.pad(x[1:-1], 1) if n > 2 else x,
        lambda x: jnp.tile(x[: (n + 1) // 2], 2)[:n],
        lambda x: jnp.diff(x, append=x[0]),
    ):
        turns(lambda x, y: (jnp.clip(move(x) + y * 0.5, -4, 4), move(y) - x * 0.25), x, y)  # noqa: B023


@pytest.mark.parametrize("n", [4, 8, 9, 16])
def test_a_vector_of_which_less_is_read_later(n):
    """What is read of a vector decides how much of it is computed: all of it behind a loop, in a branch, as a row, by a function."""
    x = numbers(6, 2, n)[0] + 0.1
    half = lambda x: jnp.concatenate([x[:4], x[:4], x[:4], x[:4]])[:n]  # noqa: E731
    turns(lambda x: (half(x * 1.5) - x,), x)
    turns(lambda x: (jnp.tanh(half(x + 1)) + x * 0.5,), x)
    turns(lambda x, y: (x + y * 0.5, lax.cond(y[-1] > x[0], lambda v: v * 0.5, lambda v: half(v), y)), x, x[::-1])
    check(lambda x: lax.scan(lambda c, r: (c * 0.5 + half(r), (c, half(c)[:3])), x, jnp.stack([x, x * 2, x - 1])), (x,), ordinary=False)
    turns(lambda x, s: (lax.fori_loop(0, 3, lambda i, v: half(v) * 0.5 + x, x), jnp.sum(half(x)) + s), x, jnp.float32(0))
