"""Flat code whose registers keep carries from turn to turn: the same bits as the ordinary path gives."""

import operator

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.test_flat import same_bits

STEPS = {
    "a sum": lambda c, k, m: c + k,
    "a difference": lambda c, k, m: c - k,
    "a difference from": lambda c, k, m: k - c,
    "a product": lambda c, k, m: k * c,
    "two": lambda c, k, m: k - c * m,
    "three": lambda c, k, m: (m - (c + k)) * m,
    "itself": lambda c, k, m: c * c - k,
    "an extremum": lambda c, k, m: jnp.maximum(k - c, m),
    "an extremum first": lambda c, k, m: jnp.minimum(m, c) * k,
    "read again": lambda c, k, m: (c * k + m) * jnp.maximum(c, k),
    "behind another": lambda c, k, m: (k + m) * c,
}


@pytest.mark.parametrize("shape", [(), (3,), (16,), (40,)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("name", list(STEPS))
def test_carries(name, dtype, shape):
    with fgrad.enable_x64():
        rng = np.random.default_rng(0)
        c, k, m = (jnp.asarray((rng.uniform(-1, 1, shape) * (9 if dtype == "int32" else 1)).astype(dtype)) for _ in range(3))
        step = STEPS[name]
        for turns in (1, 2, 7):
            begin, end = jnp.int32(0), jnp.int32(turns)
            flat = turns > 1 and (shape == () or dtype != "int32") or None
            same_bits(lambda c, k, m, n=turns: lax.fori_loop(0, n, lambda i, c: step(c, k, m), c), c, k, m, flat=flat)
            same_bits(lambda i, n, c, k, m: lax.fori_loop(i, n, lambda i, c: step(c, k, m), c), begin, end, c, k, m, flat=None)
            same_bits(lambda c, xs: lax.scan(lambda c, x: (step(c, x, x * c),) * 2, c, xs), c, jnp.stack([k, m] * turns), flat=None)


@pytest.mark.parametrize("compare", [operator.lt, operator.le, operator.gt, operator.ge, operator.ne])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_whiles_that_count(compare, dtype):
    down = compare in (operator.gt, operator.ge)

    def run(start, by, end):
        body = lambda s: (s[0] - by if down else s[0] + by, s[1] * 3 + s[0])  # noqa: E731
        return lax.while_loop(lambda s: compare(s[0], end), body, (start, start * 0))

    for begin, end in ((0, 9), (0, 0), (5, 3), (-3, 12)):
        start, by, end = (jnp.asarray(v, dtype) for v in ((end, 3, begin) if down else (begin, 3, end)))
        if compare is not operator.ne:
            same_bits(run, start, by, end)
    same_bits(run, jnp.asarray(20 if down else 0, dtype), jnp.asarray(4, dtype), jnp.asarray(20 if not down else 0, dtype))


def test_a_bound_that_moves_with_the_count():
    same_bits(lambda n: lax.while_loop(lambda s: s[0] < s[1], lambda s: (s[0] + 3, s[1] + 1), (n, n + 9)), jnp.int32(0))
    same_bits(lambda n: lax.while_loop(lambda s: s[0] < 40, lambda s: (s[0] + s[0], s[1] + s[0]), (n, n)), jnp.int32(1))
    same_bits(lambda n: lax.while_loop(lambda s: (s[0] < 40) & (s[1] < 30), lambda s: (s[0] + 1, s[1] + s[0]), (n, n)), jnp.int32(1))


def test_carries_that_change_places():
    x, y, z = (jnp.float32(v) for v in (0.3, 0.7, -0.2))
    same_bits(lambda x, y, z: lax.fori_loop(0, 7, lambda i, s: (s[1] * 0.5, s[0] + s[2], s[1] - s[0]), (x, y, z)), x, y, z)
    same_bits(lambda x, y, z: lax.fori_loop(0, 7, lambda i, s: (s[1] + s[0], s[0], s[2] * s[1]), (x, y, z)), x, y, z)


def test_branches_end_what_is_kept():
    def body(i, c):
        c = lax.cond(c > 2, lambda c: jnp.sin(c) * 0.1 - c, lambda c: c * 1.5 + 0.1, c)
        return c + 0.3

    same_bits(lambda c: lax.fori_loop(0, 20, body, c), jnp.float32(0.5))

    def count(s):  # a branch that ends where the count is
        return s[0] + 1, lax.cond(s[0] % 3 == 1, lambda x: jnp.sin(x), lambda x: x * jnp.cos(x) + 2, s[1])

    same_bits(lambda n, x: lax.while_loop(lambda s: s[0] < n, count, (0, x)), jnp.int32(17), jnp.float32(0.5))


def test_loops_in_loops():
    def row(i, c):
        c = lax.fori_loop(0, 5, lambda j, c: c * 0.5 + j, c * 2)
        c = lax.while_loop(lambda c: c < 9, lambda c: c * 1.5 + 1, c)
        return lax.fori_loop(0, i, lambda j, c: c - 0.25, c)

    same_bits(lambda c: lax.fori_loop(0, 6, row, c), jnp.float32(1))
    same_bits(lambda x: lax.scan(lambda c, x: (row(c.astype(int) % 4, x) + c, c), x[0], x), jnp.arange(5.0), flat=None)


def test_elements_are_read_that_the_turn_before_has_written():
    def body(i, x):
        x = x.at[i].set(x[i - 1] * 0.5 + x[i])
        return x.at[i].add(x[0])

    same_bits(lambda x: lax.fori_loop(1, 12, body, x), jnp.arange(12.0))


@pytest.mark.parametrize("dtype", ["float32", "int32", "float64"])
def test_tables_that_turns_fill(dtype):
    """Windows by registers, with indices that are sums, also where the count is part of what is read."""

    def cell(i, j, d):
        least = jnp.minimum(jnp.minimum(d[i - 1, j], d[i, j - 1]) + 1, d[i - 1, j - 1] + d[i, j])
        return d.at[i, j].set(least)

    def sums(i, j, d):
        return d.at[i, j + 1].set(d[i, j] * 3 - d[j, i]).at[j, 2].add(d[i, j + 1])

    with fgrad.enable_x64():
        x = jnp.asarray(np.random.default_rng(0).integers(-9, 9, (9, 9)).astype(dtype))
        for f in (cell, sums):
            same_bits(lambda x, f=f: lax.fori_loop(1, 8, lambda i, d: lax.fori_loop(1, 8, lambda j, d: f(i, j, d), d), x), x)
            same_bits(lambda x, f=f: lax.fori_loop(1, 40, lambda k, d: f(k // 6, k % 6, d), x), x)
        row = jnp.ravel(x)
        # out of bounds, the carry between window and window, what is put read again
        same_bits(lambda x: lax.fori_loop(0, 90, lambda i, x: x.at[i].set(x[i - 3] - x[i] * 2), x), row)
        same_bits(lambda x: lax.fori_loop(0, 70, lambda i, s: (s[0].at[i].add(s[1]), s[1] * 2 - s[0][i + 1]), (x, x[0])), row)
        same_bits(lambda x: lax.fori_loop(0, 70, lambda i, s: (s[0].at[i + 2].set(s[1]), s[0][i] + s[0][i + 1]), (x, x[0])), row)
        whiles = lambda s: (s[0] + 2, s[1].at[s[0]].set(s[1][s[0] - 1] + s[0].astype(dtype)))  # noqa: E731
        same_bits(lambda x: lax.while_loop(lambda s: s[0] < 77, whiles, (jnp.int32(1), x)), row)
