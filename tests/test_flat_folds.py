"""Reductions of a few rows or columns and positions of extrema in flat code: the same bits as the ordinary path gives."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.test_flat import same_bits

SHAPES = [
    (2, 2),
    (3, 3),
    (4, 4),
    (1, 5),
    (5, 1),
    (4, 8),
    (8, 8),
    (16, 3),
    (3, 16),
    (12, 7),
    (16, 16),
    (15, 4),
    (17, 4),
    (4, 17),
    (33, 2),
    (2, 3, 4),
    (5, 2, 5),
]
REDUCTIONS = [jnp.sum, jnp.max, jnp.min, jnp.argmax, jnp.argmin, jnp.nansum]


def numbers(seed, *shape, special=()):
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, shape).astype(np.float32) / 4  # many ties
    x[x == 0] *= rng.choice([1, -1], (x == 0).sum())  # zeros of both signs
    for v in special:
        x[rng.random(shape) < 0.15] = v
    return jnp.asarray(x)


@pytest.mark.parametrize("special", [(), (np.nan,), (np.inf, -np.inf), (-np.nan, np.inf)])
@pytest.mark.parametrize("shape", SHAPES)
def test_reductions(shape, special):
    xs = numbers(len(shape) + sum(shape), 12, *shape, special=special)
    for axis in range(len(shape)):

        def step(c, x, axis=axis):
            return jnp.where(c > 1, 1.0, c + 0.125), [r(x * c, axis) for r in REDUCTIONS]

        same_bits(lambda x, step=step: lax.scan(step, jnp.float32(1), x), xs, flat=None)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 12, 15, 16, 18, 22])
def test_carries_that_are_reduced(n):
    """The next turn takes what a fold has left in the register."""
    rng = np.random.default_rng(n)
    a, x = (jnp.asarray(rng.standard_normal(s).astype(np.float32)) for s in ((n, n), (n,)))
    for reduction in (jnp.sum, jnp.max, jnp.min):
        same_bits(lambda a, x, r=reduction: lax.fori_loop(0, 20, lambda i, x: 0.1 * r(x[:, None] + a, 0), x), a, x)
        if n < 16 or reduction is not jnp.sum:  # (of longer rows the ordinary path adds products before it rounds them)
            same_bits(lambda a, x, r=reduction: lax.fori_loop(0, 20, lambda i, x: r(x * a, 1), x), a, x)

        def both(x, a, r=reduction):
            s = x[:, None] + a
            return r(s, 0), (jnp.argmax(s, 0), s.argmin(1), x)

        same_bits(lambda a, x, both=both: lax.scan(both, x, jnp.stack([a] * 9)), a, x)


@pytest.mark.parametrize("n", [1, 2, 5, 15, 16, 17, 31, 48, 63, 64, 65])
@pytest.mark.parametrize("special", [(), (np.nan,), (np.inf, -np.inf), (-np.inf,)])
def test_position_of_one_extremum(n, special):
    xs = numbers(n, 40, n, special=special)

    def step(c, x):
        p = jnp.argmax(x * c)
        return 1 + 0.25 * (p % 2), (p, jnp.argmin(x * c))

    got = same_bits(lambda x: lax.scan(step, jnp.float32(1), x), xs, flat=n < 65 or None)
    np.testing.assert_array_equal(got[1], np.argmax(np.asarray(xs), 1))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0])
def test_rows_of_one_value(value):
    xs = jnp.full((10, 4), value, jnp.float32)
    same_bits(
        lambda x: lax.scan(
            lambda c, x: (0.5 * c + jnp.argmin(x * c), ((x + c).argmax(), (x * c).reshape(2, 2).max(0), (x * c).reshape(2, 2).sum(1))),
            1.0,
            x,
        ),
        xs,
    )


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 16, 17, 32, 40, 64, 65])
def test_products_of_two_vectors(n, x64):
    """Lanes are added up by halves, in machine code as in the interpreter; the ordinary path adds one after the other."""
    rng = np.random.default_rng(n)
    xs = rng.standard_normal((30, n)).astype(np.float64 if x64 else np.float32)

    def run(xs):
        def step(c, x):
            w, b = c
            b = jnp.concatenate([x[:1], b[:-1]])  # what is shifted in is one number
            return (w - 0.1 / n * (w @ x - 1) * b, b), (w @ w, b @ x, w @ jnp.pad(x[1:], (0, 1)))

        return lax.scan(step, (xs[0], xs[1]), xs)

    with fgrad.enable_x64(x64):
        got = fgrad.tree.leaves(fgrad.jit(lambda x: run(x))(xs))
        for name in ("pass_machine", "pass_flat"):
            with fgrad.config.override(name, False):
                for g, w in zip(got, fgrad.tree.leaves(fgrad.jit(lambda x: run(x))(xs)), strict=True):
                    if name == "pass_machine":
                        np.testing.assert_array_equal(g, w)
                    else:
                        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("value", [-0.0, np.inf, np.nan])
def test_products_of_two_vectors_end_with_them(value):
    """What lies behind a vector in memory is in no product."""
    xs = jnp.asarray(np.full((20, 5), value, np.float32)).at[:, :3].set(2.0)
    fun = lambda xs: lax.scan(lambda c, x: (0.5 * c + x[3:].sum() * 0, (c[:3] @ x[:3], c @ c)), jnp.ones(5), xs)[1]  # noqa: E731
    got = fgrad.jit(lambda x: fun(x))(xs)
    with fgrad.config.override("pass_flat", False):
        for g, w in zip(got, fgrad.jit(lambda x: fun(x))(xs), strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-6)


@pytest.mark.parametrize("n", [12, 16, 20, 22])
def test_small_matrices(n):
    """Groups of up to 2 KB are inline in machine code: pads, shortest paths and outer sums that are reduced."""
    rng = np.random.default_rng(n)
    u = jnp.asarray(rng.standard_normal((n, n)).astype(np.float32))

    def heat(i, u):
        p = jnp.pad(u, 1)
        return u + 0.125 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2])

    same_bits(lambda u: lax.fori_loop(0, 5, heat, u), u)
    same_bits(lambda u: lax.fori_loop(0, n, lambda k, d: jnp.minimum(d, d[:, k][:, None] + d[k]), u), u)
    same_bits(lambda u: lax.fori_loop(0, 5, lambda k, p: u @ p @ u.T * 0.125 + p[0][:, None] * p[0], u), u)


@pytest.mark.parametrize("shape", [(8, 8), (256,), (300,), (2, 128), (16, 16), (4, 200)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_counts_of_what_a_carry_fulfils(shape, dtype):
    """Vector after vector, what is counted is a byte of each element, and the count reads these side by side."""
    x = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    for axis in (-1, 0):

        def step(x, axis=axis):
            return x + jnp.sum(x > 0, axis, dtype=x.dtype, keepdims=True) - jnp.sum(jnp.where(x < 1, 1, 0).astype(x.dtype))

        want = x
        for _ in range(3):
            want = want + (want > 0).sum(axis, keepdims=True) - (want < 1).sum()
        np.testing.assert_array_equal(fgrad.jit(lambda x, step=step: lax.fori_loop(0, 3, lambda _, x: step(x), x))(x), want)


@pytest.mark.parametrize("rows, n", [(2, 256), (2, 250), (4, 128)])
def test_a_number_for_each_row(rows, n):
    """Rows that are tiles of their own take a column's numbers one by one; flat code goes over all rows at once."""
    column, x = np.arange(1, rows + 1, dtype=np.float32)[:, None], np.zeros((rows, n), np.float32)
    want = x
    for _ in range(3):
        want = np.tanh(want + column)
    got = fgrad.jit(lambda x, c: lax.fori_loop(0, 3, lambda _, x: jnp.tanh(x + c), x))(x, column)
    np.testing.assert_allclose(got, want, rtol=1e-5)
