"""Vectors of integers in flat code, and shifts with exclusive or: the bits of the ordinary path."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.test_flat import flat_ops, same_bits

EDGES = [0, 1, 2, 31, 32, 33, 7, -1, -(2**31), 2**31 - 1, -5, 3, 64, 30, -31, 5, 17]


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16, 17, 33])
def test_vectors_of_integers(dtype, n):
    def step(x, y):
        shifted = lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y)
        ordered = jnp.minimum(x, y), jnp.maximum(x, y), jnp.clip(x, y, 7), jnp.where(x < y, x > 3, y > 3)
        compared = x < y, x <= y, x > y, x >= y, x == y, x != y, jnp.where(x == y, x + 1, y), jnp.where(x >= y, x * y, 7)
        return x * 3 + (x ^ y), (*shifted, *ordered, *compared, x & y, x | y, ~x, x - y, -x, x.astype("float32"), x % 7)

    ys = np.array([[EDGES[(i * 5 + j) % len(EDGES)] for j in range(n)] for i in range(17)]).astype(dtype)
    for start in (0, 5, -1, -(2**31)):
        same_bits(lambda x, ys: lax.scan(step, x, ys), jnp.asarray((np.arange(n) * 7 + start).astype(dtype)), jnp.asarray(ys))


@pytest.mark.parametrize("shape", [(), (3,), (16,), (20,)])
@pytest.mark.parametrize("by", [(13, 17, 5), (0, 31, 32), (40, 1, 33)])
def test_shifts_with_exclusive_or(shape, by):
    first, second, third = by

    def step(x, _):
        y = x ^ lax.shift_left(x, jnp.full_like(x, first))
        y = lax.shift_right_logical(y, jnp.full_like(y, second)) ^ y
        z = lax.shift_left(y, jnp.full_like(y, third))
        return y ^ z, (z ^ x, z)  # what is shifted here is read once more

    start = jnp.asarray(np.uint32(2463534242) + np.arange(np.prod(shape, dtype=int), dtype=np.uint32).reshape(shape))
    same_bits(lambda s: lax.scan(step, s, None, length=20), start)


@pytest.mark.parametrize("shape", [(), (4,)])
def test_a_shift_with_exclusive_or_is_one_op(shape):
    def ops(turn):
        jitted = fgrad.jit(lambda s: lax.scan(lambda x, _: (turn(x), None), s, None, length=20)[0])
        jitted(start)
        return flat_ops(jitted, start)

    start = jnp.ones(shape, "uint32")
    assert ops(lambda x: x ^ (x << 13)) == ops(lambda x: x << 13) == ops(lambda x: x | (x << 13)) - 1


def test_a_bit_that_selects_is_compared_in_place():
    """A check sum over bytes: no function is called for whether a bit is set, with a sign or without."""

    def rounds(dtype, mask):
        def step(c, b):
            for _ in range(8):
                c = jnp.where((c ^ b) & 1 if mask else (c ^ b) < 7, (c >> 1) ^ dtype(0x6DB88320), c >> 1)
            return c, c

        return lambda c, bs: lax.scan(step, c, bs)

    bs = np.arange(40)
    for dtype in (np.uint32, np.int32):
        same_bits(rounds(dtype, True), jnp.asarray(dtype(2**31 - 1)), jnp.asarray(bs.astype(dtype)))
        same_bits(rounds(dtype, False), jnp.asarray(dtype(2**31 - 1)), jnp.asarray(bs.astype(dtype)))


LONG_EDGES = [0, 1, 2, 63, 64, 65, 31, 32, 33, -1, -(2**63), 2**63 - 1, -(2**31), 2**32, -5, 12345678901, -98765432109876]


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_single_integers_of_eight_bytes(dtype):
    def step(x, y):
        i = y.astype("int64")
        shifted = lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y)
        ordered = (
            jnp.minimum(x, y),
            jnp.maximum(x, y),
            jnp.clip(i, -3, 7),
            jnp.where(x < y, x > 3, y > 3),
            jnp.where(x == y, 1.5, x.astype("float32")),
        )
        compared = (
            x < y,
            x <= y,
            x > y,
            x >= y,
            x == y,
            x != y,
            jnp.where(x == y, x + 1, y),
            jnp.where(i >= 3, x * y, 7),
            jnp.where(i < 0, jnp.int32(3), 4),
        )
        divided = lax.div(x, y), lax.rem(x, y), x // 3, x % 7
        cast = x.astype("float64"), x.astype("float32"), x.astype("int32"), (x > y).astype(dtype), x.astype("int32").astype(dtype)
        return x * 3 + (x ^ y), (
            *shifted,
            *ordered,
            *compared,
            *divided,
            *cast,
            x & y,
            x | y,
            ~x,
            x - y,
            -x,
            jnp.sqrt(abs(i).astype("float64")),
        )

    with fgrad.enable_x64():
        ys = np.array([v & (2**64 - 1) for v in LONG_EDGES], np.uint64).astype(dtype)
        for start in (0, 5, 2**63 - 1, 2**63):
            same_bits(lambda x, ys: lax.scan(step, x, ys), jnp.asarray(np.uint64(start).astype(dtype)), jnp.asarray(ys))


def test_indices_of_eight_bytes():
    def turn(i, state):
        table, grid, total = state
        table = table.at[i].set((table[i - 1] + total).astype(table.dtype))
        grid = grid.at[i % 4, i % 3].add(grid[3 - i % 4, -1])
        return table, grid, lax.cond(i > 5, lambda t: t + grid[i, 0], lambda t: t * 0.5, total)

    with fgrad.enable_x64():
        for dtype in ("float64", "float32", "int64"):
            table, grid = jnp.arange(12).astype(dtype), jnp.arange(12).reshape(4, 3).astype(dtype)
            same_bits(lambda t, g: lax.fori_loop(-2, 14, turn, (t, g, t[3].astype("float64"))), table, grid)
            same_bits(
                lambda t: lax.while_loop(lambda s: s[0] < 11, lambda s: (s[0] + 2, s[1].at[s[0]].multiply(s[1][s[0] + 1])), (1, t)), table
            )
