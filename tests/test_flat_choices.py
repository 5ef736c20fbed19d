"""Flat code that chooses: comparisons that decide a branch or a selection themselves, vectors by one predicate, cheap branches."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from tests.test_flat import same_bits

COMPARISONS = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"]
NUMBERS = [0.0, -0.0, 1.0, np.nan, -2.0, np.inf, 3.0, 1.0, -np.inf, 0.5]


def numbers(dtype):
    a = np.asarray(NUMBERS)
    return jnp.asarray(np.nan_to_num(a, nan=7, posinf=9, neginf=-9).astype(dtype) if np.dtype(dtype).kind == "i" else a.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_decide_branches(name, dtype):
    compare = getattr(jnp, name)
    with fgrad.enable_x64():
        xs, ys = numbers(dtype), jnp.repeat(numbers(dtype), 10)

        def body(keeps):
            def step(c, xy):
                p = compare(*xy)
                c = lax.cond(p, lambda c: jnp.sin(c), lambda c: jnp.cos(c) * 0.5, c)
                return c, (c, p) if keeps else c

            return lambda x, y: lax.scan(step, jnp.float32(1), (x, y))

        for keeps in (False, True):  # the predicate is a result, too
            got = same_bits(body(keeps), jnp.tile(xs, 10), ys)
        np.testing.assert_array_equal(got[2], getattr(np, name)(np.tile(np.asarray(xs), 10), np.asarray(ys)))
        assert np.count_nonzero(got[2]) not in (0, 100)


def test_predicates_that_an_inner_loop_reads_are_kept():
    def step(c, x):
        p = x > c
        c = lax.cond(p, lambda c: jnp.sin(c), lambda c: jnp.cos(c), c)
        return lax.fori_loop(0, 3, lambda i, c: jnp.where(p, c + 1, c * 0.5), c), None

    same_bits(lambda x: lax.scan(step, jnp.float32(0), x)[0], jnp.asarray(np.random.default_rng(0).standard_normal(50).astype(np.float32)))


def test_branches_within_branches_and_loops():
    def step(c, x):
        inner = lambda c: lax.cond(
            c < x, lambda c: jnp.exp(c * 0.1), lambda c: lax.while_loop(lambda c: c > 0.5, lambda c: jnp.sin(c) * 0.7, c), c
        )
        return lax.cond(x >= 0, inner, lambda c: jnp.cos(c), c), c

    same_bits(lambda x: lax.scan(step, jnp.float32(0), x), jnp.asarray(np.random.default_rng(0).standard_normal(80).astype(np.float32)))


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("of", ["float32", "float64", "int32", "uint32"])
@pytest.mark.parametrize("name", COMPARISONS)
def test_numbers_are_selected_by_the_comparison(name, of, kind):
    compare = getattr(jnp, name)
    with fgrad.enable_x64():
        xs, ys = jnp.tile(numbers(kind), 10), jnp.repeat(numbers(kind), 10)

        def step(c, xy):
            x, y = xy
            p = compare(x, y)
            c = jnp.where(p, c + jnp.asarray(3, of), jnp.asarray(7, of))
            return c, jnp.where(p, c, jnp.asarray(1, of)) * jnp.asarray(2, of)

        out = same_bits(lambda x, y: lax.scan(step, jnp.asarray(1, of), (x, y)), xs, ys)[1]
        hit, c, want = getattr(np, name)(np.asarray(xs), np.asarray(ys)), 1, []
        for p in hit:
            c = c + 3 if p else 7
            want.append(2 * (c if p else 1))
        np.testing.assert_array_equal(out, np.asarray(want, of))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float64", "int8"])
@pytest.mark.parametrize("n", [1, 2, 7, 16, 17, 33, 64, 65, 130])
def test_vectors_are_chosen_by_one_predicate(n, dtype):
    with fgrad.enable_x64():
        x = jnp.asarray(np.random.default_rng(n).integers(0, 2 if dtype == "bool" else 100, (20, n)).astype(dtype))

        def step(c, row):
            p = row[0] > c[-1]
            return jnp.where(p, row, c), jnp.where(p, c, row)

        same_bits(lambda x: lax.scan(step, x[0], x), x, flat=None)
        same_bits(
            lambda x: lax.scan(lambda c, r: (jnp.where(c[0] > r[0], c * 2 + r, r - c) if dtype != "bool" else c ^ r, c[::-1]), x[0], x),
            x,
            flat=None,
        )


@pytest.mark.parametrize("n", [3, 5, 17, 30])
def test_parts_of_vectors_are_chosen_by_one_predicate(n):
    """No whole vectors: behind the parts lie other elements."""

    def step(c, row):
        p = row[0] > c[0]
        chosen = jnp.where(p, row[1:n], c[2 : n + 1])
        return c.at[1:n].set(chosen) * 0.9, jnp.where(p, c[:n], row[1 : n + 1])

    same_bits(
        lambda x: lax.scan(step, x[0], x), jnp.asarray(np.random.default_rng(n).standard_normal((40, n + 1)).astype(np.float32)), flat=None
    )


def test_a_mask_that_is_also_a_value():
    def step(c, row):
        p = row[0] > 0.1
        return jnp.where(p, row, c) + p, jnp.logical_xor(p, row > 0)

    same_bits(lambda x: lax.scan(step, x[0], x), jnp.asarray(np.random.default_rng(3).standard_normal((20, 5)).astype(np.float32)))


def test_counters_are_written_over_when_all_has_been_read():
    """Carries of one number that a group makes first and reads later."""

    def table(a):
        def row(i, t):
            return lax.fori_loop(
                1, 7, lambda j, t: t.at[i, j].set(t[i - 1, j - 1] * 0.5 + jnp.maximum(t[i - 1, j], t[i, j - 1]) + a[j - 1]), t
            )

        return lax.fori_loop(1, 6, row, jnp.ones((6, 7)))

    same_bits(table, jnp.arange(7.0))

    def both(i, s):  # each is read by the other's new value
        a, b, c = s
        return b + 1.0, a - b * 0.5, c + a * b

    a, b, c = same_bits(lambda *s: lax.fori_loop(0, 9, both, s), jnp.float32(1), jnp.float32(2), jnp.float32(3))
    x, y, z = 1.0, 2.0, 3.0
    for _ in range(9):
        x, y, z = y + 1.0, x - y * 0.5, z + x * y
    np.testing.assert_allclose([a, b, c], [x, y, z], rtol=1e-6)


def cond_of(true, false):
    return lambda p, x: lax.cond(p, true, false, x)


CHEAP = [
    cond_of(lambda x: x * 2, lambda x: x + 1),
    cond_of(lambda x: (x, x > 1), lambda x: (x - 3, x < 0)),
    cond_of(lambda x: x, lambda x: jnp.maximum(jnp.minimum(x, 2), 1) + 1),
    cond_of(lambda x: jnp.zeros_like(x), lambda x: x),
]
DEAR = [
    cond_of(lambda x: jnp.sin(x), lambda x: x),
    cond_of(lambda x: (x + 1, x + 2, x + 3, x + 4), lambda x: (x, x, x, x)),
    cond_of(lambda x: x + 1, lambda x: lax.fori_loop(0, 3, lambda i, x: x + i, x)),
]


@pytest.mark.parametrize("shape", [(), (3,), (16,), (2000,)])
@pytest.mark.parametrize("k", range(len(CHEAP) + len(DEAR)))
def test_cheap_branches_are_selections(k, shape):
    fun = (CHEAP + DEAR)[k]
    x = jnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    for holds in (True, False):
        p = jnp.asarray(holds)
        jitted = fgrad.jit(lambda p, x: fun(p, x))
        want = fgrad.tree.leaves(fun(holds, x))
        for g, w in zip(fgrad.tree.leaves(jitted(p, x)), want):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-6)
        with fgrad.config.override("pass_branches", False):
            for g, w in zip(fgrad.tree.leaves(fgrad.jit(lambda p, x: fun(p, x))(p, x)), want):
                np.testing.assert_allclose(g, w, rtol=1e-6)
    labels = [label for _, label in jitted.lower(p, x).compile().profile(p, x, repeat=1)]
    assert any("cond" in label for label in labels) == (k >= len(CHEAP) or shape == (2000,)), labels


def test_a_branch_not_taken_may_divide_by_zero():
    f = fgrad.jit(lambda p, x: lax.cond(p, lambda x: x // 0, lambda x: x, x))
    assert int(f(jnp.asarray(False), jnp.int32(5))) == 5
