"""Runs of one tile, ends of walks by masks, and results over gaps that are written where they lie.

Values are small integers, so results of floats are exact and must equal NumPy's.
"""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

SIZES = (1, 2, 63, 64, 65, 127, 128, 129, 191, 255, 256, 257, 300, 383, 385, 1000, 1601, 2047, 2048, 2049, 4097, 8191, 8192, 8193, 9001)
DTYPES = ("float32", "float64", "int32", "uint32", "int64", "int16", "float16", "bool")
EVERY = slice(None)
PARTS = [
    ((40, 40), (EVERY, slice(None, -1))),
    ((40, 40), (slice(1, -1), slice(1, -1))),
    ((17, 33), (slice(2, -1), slice(3, -2))),
    ((9, 130), (slice(1, None), slice(1, None))),
    ((5, 12, 40), (EVERY, EVERY, slice(1, -1))),
    ((5, 12, 40), (slice(1, -1), slice(1, -1), slice(1, -1))),
    ((300, 37), (EVERY, slice(0, 35))),
    ((200, 70), (slice(1, -1), slice(0, 69))),
    ((64, 18), (EVERY, slice(1, 17))),
    ((90, 255), (slice(1, -1), slice(0, -2))),
]


def integers(rng, dtype, *shape):
    return rng.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_carries_in_place(n, dtype):
    """An end that is no whole strip is computed with elements before it, which lie there as new values already."""
    rng = np.random.default_rng(n)
    x, y, one = integers(rng, dtype, n), integers(rng, dtype, n), integers(rng, dtype)

    def step(c):
        x, y = c
        if dtype == "bool":
            return x ^ (y & one), (x | y) ^ one
        return y * 2 - x + one, y - x

    with fgrad.enable_x64():
        for flat in (True, False):
            with fgrad.config.override("pass_flat", flat):
                got = fgrad.jit(lambda x, y: lax.fori_loop(0, 3, lambda i, c: step(c), (x, y)))(x, y)
            want = x, y
            for _ in range(3):
                want = step(want)
            for a, b in zip(got, want, strict=True):
                assert a.dtype == dtype
                np.testing.assert_array_equal(np.asarray(a), b)
        given = fgrad.jit(lambda x, y: step((x, y)), donate_argnums=(0, 1))(*map(jnp.array, (x, y)))
        for a, b in zip(given, step((x, y)), strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("n", [1, 100, 300, 1000, 3000])
def test_results_on_operands_that_are_read_later(n):
    """One value of an array, and arrays that change places, are read before a result takes over their memory."""
    x, y = np.arange(1, n + 1, dtype=np.float32), np.arange(n, dtype=np.float32) % 7
    programs = [
        lambda x, y: (x - x[0] * 2, y * x[-1] + x[0]),
        lambda x, y: (y * 2 + 1, (x - y) * 2),
        lambda x, y: (y, x + y),
        lambda x, y: ((y + x) * (y - 1), (x + 1) * y),
    ]
    for f in programs:
        want, got = f(x, y), fgrad.jit(f, donate_argnums=(0, 1))(jnp.array(x), jnp.array(y))
        looped = fgrad.jit(lambda x, y, f=f: lax.fori_loop(0, 2, lambda i, c: f(*c), (x, y)))(x, y)
        for a, b in zip((*got, *looped), (*want, *f(*want)), strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, part", PARTS)
def test_parts_are_written_where_they_lie(shape, part, dtype):
    """What a group computes of a part of an array: what lies beside that stays, also where another thread's rows begin."""
    rng = np.random.default_rng(shape[-1])
    x, y = integers(rng, dtype, *shape), integers(rng, dtype, *shape)

    def add(x, y):
        return (x | y) ^ (x & y) if dtype == "bool" else x + y * y - y

    with fgrad.enable_x64():

        def body(i, c):
            x, y = c
            return x.at[part].set(add(x[part], y[part])), y

        got = fgrad.jit(lambda x, y: lax.fori_loop(0, 3, body, (x, y)))(x, y)[0]
        once = fgrad.jit(lambda x, y: body(0, (x, y))[0])(x, y)
    want = x.copy()
    for i in range(3):
        want[part] = add(want[part], y[part])
        if i == 0:
            np.testing.assert_array_equal(np.asarray(once), want)
    np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
@pytest.mark.parametrize("shape", [(3, 3), (18, 20), (40, 40), (33, 45), (64, 64), (30, 255), (20, 300), (4, 20, 21)])
def test_stencils_read_their_neighbours_before_they_are_updated(shape, dtype):
    rng = np.random.default_rng(shape[-1])
    u = integers(rng, dtype, *shape)
    inner = (..., slice(1, -1), slice(1, -1))

    def around(u):
        return u[..., 2:, 1:-1] - u[..., :-2, 1:-1] + u[..., 1:-1, 2:] - 2 * u[..., 1:-1, :-2]

    with fgrad.enable_x64():
        got = fgrad.jit(lambda u: lax.fori_loop(0, 2, lambda i, u: u.at[inner].add(around(u)), u))(u)
        both = fgrad.jit(lambda u: (u.at[inner].set(around(u)), around(u) * 2))(u)
    want = u.copy()
    for _ in range(2):
        want[inner] += around(want)
    np.testing.assert_array_equal(np.asarray(got), want)
    want = u.copy()
    want[inner] = around(u)
    np.testing.assert_array_equal(np.asarray(both[0]), want)
    np.testing.assert_array_equal(np.asarray(both[1]), around(u) * 2)
