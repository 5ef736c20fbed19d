"""Flat code of integers of one and two bytes and of bools: machine code, the interpreter and the ordinary path give the same numbers."""

import numpy as np
import pytest

import fgrad
import fgrad.lax as lax
import fgrad.numpy as jnp
from tests.test_machine import check

TYPES = [np.int8, np.uint8, np.int16, np.uint16]
OPERATIONS = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
    "shl": lax.shift_left,
    "shr_logical": lax.shift_right_logical,
    "shr_arithmetic": lax.shift_right_arithmetic,
    "div": lax.div,
    "rem": lax.rem,
    "lt": lambda a, b: jnp.where(a < b, a, b + b),
    "le": lambda a, b: (a <= b).astype(a.dtype) + a,
    "gt": lambda a, b: jnp.where((a > b) & (a != 3), b, a),
    "ge": lambda a, b: jnp.where(~(a >= b) ^ (a == b), a + b, a),
    "bits": lambda a, b: (a & b) | (~a ^ -b),
    "abs": lambda a, b: jnp.abs(a) + lax.population_count(b),
    "all": lambda a, b: a + jnp.any(a < b).astype(a.dtype) * jnp.max(a) + jnp.all(a != b).astype(a.dtype),
    "moved": lambda a, b: jnp.concatenate([b[:1], a[:-1]]) + jnp.roll(a, -1) + b[::-1],
    "wide": lambda a, b: (a.astype(jnp.int32) * b + 1).astype(a.dtype) + a.astype(jnp.float32).astype(jnp.int32).astype(a.dtype),
    "put": lambda a, b: a.at[b[0].astype(jnp.int32) % a.shape[0]].set(a[-1]),
}


@pytest.mark.parametrize("n", [1, 2, 17, 33, 64, 65, 300])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, n):
    for dtype in TYPES:
        rng = np.random.default_rng(n)
        x, y, z = (jnp.asarray(rng.integers(0, most, n).astype(dtype)) for most in (1 << 16, 20, 1 << 16))
        check(lambda x, y, z: lax.fori_loop(0, 5, lambda i, c: OPERATIONS[name](c, y) + z, x), (x, y, z))
        if n == 1:
            check(lambda x, y, z: lax.fori_loop(0, 5, lambda i, c: OPERATIONS[name](c[None], y)[0] + z[0], x[0]), (x, y, z))


def cells(rng, values):
    """One more array from those of a board, as a cellular automaton or a game would."""
    a, b = values[-1 - min(int(rng.exponential(1.5)), len(values) - 1)], values[rng.integers(len(values))]
    one = jnp.asarray(1, a.dtype)

    def box():
        p = jnp.pad(a, 1)
        s = p[:-2] + p[1:-1] + p[2:]
        return s[:, :-2] + s[:, 1:-1] + s[:, 2:] - a

    def cross():
        p = jnp.pad(a, 1, constant_values=1)
        return p[:-2, 1:-1] + p[2:, 1:-1] | p[1:-1, :-2]

    return [
        box,
        cross,
        lambda: jnp.roll(a, int(rng.integers(-2, 3)), int(rng.integers(2))),
        lambda: jnp.where(a > b, a, b + one),
        lambda: ((a == 2) | ((b == 1) & (a > 0))).astype(a.dtype),
        lambda: a[::-1] + b,
        lambda: a + jnp.any(b > 1).astype(a.dtype),
        lambda: a.at[a.shape[0] // 2, 0].set(b[0, 0]),
        lambda: jnp.minimum(a, b) ^ (a << 1),
        lambda: a + b.max() * (one + one),
    ][rng.integers(10)]()


@pytest.mark.parametrize("seed", range(60))
def test_boards(seed):
    rng = np.random.default_rng(seed)
    dtype, shape = [*TYPES, np.bool_][seed % 5], tuple(rng.integers(1, 40, 2))
    x = jnp.asarray(rng.integers(0, 4, shape).astype(dtype))

    def step(c, _):
        drawn, values = np.random.default_rng(1000 + seed), [c.astype(jnp.uint8) if dtype == np.bool_ else c]
        for _ in range(drawn.integers(2, 9)):
            values.append(cells(drawn, values))
        c = values[-1].astype(dtype)
        return c, (jnp.sum(c.astype(jnp.int32)), c[0])

    check(lambda x: lax.scan(step, x, None, length=6), (x,))


def test_a_game():
    """A board of bytes with moves at an index, lines looked up by a table, and single flags."""
    lines = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])

    def step(s, a):
        board, turn, done = s
        legal = board[a] == 0
        new = board.at[a].set(jnp.where(legal, turn, board[a]))
        won = jnp.any(jnp.all(new[lines] == turn, axis=1))
        reward = jnp.where(done, jnp.int8(0), jnp.where(won, turn, jnp.int8(0)))
        return (jnp.where(done, board, new), (-turn).astype(jnp.int8), done | won | jnp.all(new != 0) | ~legal), reward

    for seed in range(6):
        moves = jnp.asarray(np.random.default_rng(seed).permutation(9).astype(np.int32))
        check(lambda m: lax.scan(step, (jnp.zeros(9, jnp.int8), jnp.int8(1), jnp.bool_(False)), m), (moves,))
    assert fgrad.jit(lambda m: lax.scan(step, (jnp.zeros(9, jnp.int8), jnp.int8(1), jnp.bool_(False)), m))(jnp.arange(9))[0][2]


@pytest.mark.parametrize("shape", [(5, 13), (26, 40), (32, 32), (31, 64), (60, 60)])
@pytest.mark.parametrize("generations", [1, 2, 3])
def test_boards_by_padding(shape, generations):
    """Rows of a padded board go on over a gap; of several generations a step there is no room for all collections as pieces."""
    h, w = shape
    u = np.random.default_rng(h).integers(0, 4, shape)

    def step(_, u):
        for _ in range(generations):
            p = jnp.pad(u, 1)
            n = sum(p[i : i + h, j : j + w] for i in range(3) for j in range(3) if (i, j) != (1, 1))
            u = ((n == 3) | ((u == 1) & (n == 2))).astype(u.dtype)
        return u

    for dtype in TYPES:
        check(lambda u: lax.fori_loop(0, 4, step, u), (jnp.asarray(u.astype(dtype)),))


@pytest.mark.parametrize("width", [8, 24, 32, 33, 48])
def test_comparisons_and_selections_of_parts(width):
    shape = (19, width)

    def step(_, s):
        a, b = s
        p = jnp.pad(a, 1)
        up, right = p[:-2, 1:-1], p[1:-1, 2:]
        c = jnp.where((up < right) | (up >= b), jnp.where(right > b, a, up), jnp.where(up != b, right, b))
        flags = ((up <= right) ^ (b == c) & ~(c < a)).astype(a.dtype)
        return jnp.concatenate([c[:, 1:], c[:, :1]], 1) + flags, jnp.roll(b, 1, 0)

    for dtype in TYPES:
        rng = np.random.default_rng(width)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        state = [jnp.asarray(rng.integers(low, high, shape).astype(dtype)) for _ in range(2)]
        check(lambda a, b: lax.fori_loop(0, 6, step, (a, b)), state)
