"""Loop carries that are updated in place: results as with copies, and memory written once."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.program import compile_jaxpr

N = 64


def rows(carry, x):
    i, table = carry
    return (i + 1, table.at[i].set(x)), table[0]


def overlapping(carry, x):
    a, b = carry
    return (b, a + b * x), a


def reversed_read(carry, x):
    table = carry
    return table[::-1] + x, table.sum()


def swapped(carry, x):
    a, b, c = carry
    return (b, c, a * x), a[0]


def read_after(carry, x):
    table = carry
    new = table.at[1].add(x)
    return new, new[1] - table[1]


@pytest.mark.parametrize("loop", [rows, overlapping, reversed_read, swapped, read_after])
def test_scan(loop):
    rng = np.random.default_rng(0)
    vec = lambda: jnp.asarray(rng.standard_normal(N).astype(np.float32))
    init = {rows: (0, jnp.zeros(N)), overlapping: (vec(), vec()), reversed_read: vec(), swapped: (vec(), vec(), vec()), read_after: vec()}[
        loop
    ]
    xs = jnp.asarray(rng.standard_normal(7).astype(np.float32))
    carry, want = init, []
    for x in xs:
        carry, y = loop(carry, x)
        want.append(y)
    got, ys = fgrad.jit(lambda init, xs: lax.scan(loop, init, xs))(init, xs)
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(carry)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    np.testing.assert_allclose(ys, np.stack([np.asarray(y) for y in want]), rtol=1e-5, atol=1e-6)
    again, _ = fgrad.jit(lambda init, xs: lax.scan(loop, init, xs))(init, xs)  # the inputs are untouched
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(again)):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_while(steps):
    def body(state):
        i, table, pair = state
        return i + 1, table.at[i].set(i * 2.0), (pair[1], pair[0] + 1)

    state = (0, jnp.full(8, -1.0), (jnp.zeros(3), jnp.ones(3)))
    want = state
    for _ in range(steps):
        want = body(want)
    got = fgrad.jit(lambda s: lax.while_loop(lambda s: s[0] < steps, body, s))(state)
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        np.testing.assert_array_equal(a, b)


def test_columns_are_updated_where_they_lie():
    """Indices of axes that are not the first: neither the table nor what is written to it is transposed."""

    def body(i, t):
        return t.at[:, i, jnp.array([0, 2, 9])].add(t[:, i - 1, :1] * 2).at[..., i % 3].set(i)

    t = np.random.default_rng(2).standard_normal((3, 5, 4)).astype(np.float32)
    got = fgrad.jit(lambda t: lax.fori_loop(1, 5, body, t))(t)
    for i in range(1, 5):
        t[:, i, [0, 2]] += t[:, i - 1, :1] * 2  # 9 is dropped
        t[..., i % 3] = i
    np.testing.assert_allclose(got, t, rtol=1e-6)
    assert "transpose" not in str(fgrad.make_jaxpr(body)(1, jnp.asarray(t)))


def test_a_row_update_does_not_copy_the_table():
    """Ten times the table is not ten times the time."""
    import time

    def seconds(n):
        f = fgrad.jit(lambda t: lax.fori_loop(0, 2000, lambda i, t: t.at[i].set(1.0), t))
        t = jnp.zeros((2000, n)) + 0.0
        f(t)
        best = []
        for _ in range(5):
            start = time.perf_counter()
            f(t)
            best.append(time.perf_counter() - start)
        return min(best)

    assert seconds(256) < 5 * seconds(8) + 0.02


def test_updates_one_after_another_do_not_copy_the_table():
    """Of rows, of a window, at an index, and with a read of what was there: each writes where the one before has written."""

    def edges(i, t):
        return t.at[0].set(i).at[-1].set(2.0 * i).at[i, 1].add(1.0).at[1:3, 1:3].multiply(0.5)

    def body(c, i):
        return edges(i, c), c[1, 1]

    def program(t):
        return lax.scan(body, t, jnp.arange(1, 5))

    t = np.random.default_rng(3).standard_normal((300, 40)).astype(np.float32)
    table, seen = jnp.asarray(t), []
    for i in range(1, 5):
        seen.append(float(table[1, 1]))
        table = edges(i, table)
    got, ys = fgrad.jit(program)(jnp.asarray(t))
    np.testing.assert_allclose(got, table, rtol=1e-6)
    np.testing.assert_allclose(ys, seen, rtol=1e-6)
    compiled = [compile_jaxpr(fgrad.make_jaxpr(body)(jnp.asarray(t), 1), sub=True, takes=[0])]
    compiled.append(compile_jaxpr(fgrad.make_jaxpr(lambda t: (t * 2).at[0].set(1.0).at[-1].set(2.0))(t), sub=True, takes=[0]))
    assert all(p.in_place[0] and p.arena_bytes < t.nbytes for p in compiled)


def written_below(t, i):
    return t.at[i, 1].add(-jnp.dot(t[i], t[2])).at[i, 2].divide(t[i, i] + 3.0), t[0, 0]


def scaled(t, i):
    return t * 0.5 + 1.0, jnp.dot(t[i], t[i])


def window_after(t, i):
    new = lax.dynamic_update_slice(t, t[:2, :3] * 2.0, (i, i))
    return new.at[i].multiply(2.0), lax.dynamic_slice(t, (i, 0), (2, 3)).sum() + t[i + 2, 0]


def both(t, i):  # the second needs the array as it was: one of them copies it
    return t.at[i].set(1.0), t.at[i, 2].set(3.0).sum() + jnp.where(t.at[i].set(1.0)[i, 0] > 0, t[i], 0.0).sum()


@pytest.mark.parametrize("step, in_place", [(written_below, True), (scaled, True), (window_after, True), (both, False)])
def test_what_was_there_is_read_before_it_is_updated(step, in_place):
    t = np.random.default_rng(4).standard_normal((300, 40)).astype(np.float32)
    table, seen = jnp.asarray(t), []
    for i in range(4):
        table, y = step(table, i)
        seen.append(y)
    got, ys = fgrad.jit(lambda t: lax.scan(step, t, jnp.arange(4)))(jnp.asarray(t))
    np.testing.assert_allclose(got, table, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(ys, np.stack(seen), rtol=2e-5, atol=1e-4)
    compiled = compile_jaxpr(fgrad.make_jaxpr(step)(jnp.asarray(t), 1), sub=True, takes=[0, -1])
    assert not in_place or (compiled.in_place[0] and compiled.arena_bytes < t.nbytes)


def test_an_output_of_each_step_is_no_carry():
    def step(t, i):
        y = t * 2.0
        return t * 0.5 + 1.0, (y, t[i])

    t = np.random.default_rng(5).standard_normal((70, 4)).astype(np.float32)
    got, (ys, rows) = fgrad.jit(lambda t: lax.scan(step, t, jnp.arange(3)))(t)
    for i in range(3):
        np.testing.assert_array_equal(ys[i], t * 2)
        np.testing.assert_array_equal(rows[i], t[i])
        t = t * np.float32(0.5) + np.float32(1)
    np.testing.assert_array_equal(got, t)


def test_donated_scatter_runs_in_the_argument():
    f = fgrad.jit(lambda t, i, v: t.at[i].add(v), donate_argnums=0)
    t = jnp.zeros((1000, 64)) + 1.0
    where = t.pointer
    out = f(t, jnp.array([3, 3, 5]), jnp.ones((3, 64)))
    assert out.pointer == where and float(out[3, 0]) == 3.0 and float(out[5, 0]) == 2.0 and float(out[4, 0]) == 1.0


def test_loops_and_branches_update_an_outer_carry():
    """A loop inside of a loop, and branches, write into the carry; an operand that is read afterwards stays as it was."""

    def body(i, c):
        grid, before, swapped = c
        filled = lax.fori_loop(1, 5, lambda j, g: g.at[i, j].set(g[i - 1, j] + g[i, j - 1]), grid)
        filled = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1].at[s[0], i].add(1.0)), (0, filled))[1]
        filled = lax.cond(filled[i, i] > 3, lambda g: g.at[i].multiply(0.5), lambda g: g, filled)
        swapped = lax.cond(i % 2 == 0, lambda a, b: (b, a), lambda a, b: (a, b.at[0].set(a[1])), *swapped)
        kept = lax.switch(i % 3, [lambda g, b: g, lambda g, b: b, lambda g, b: b.at[i].set(g[0])], grid, before)
        return filled, kept, swapped

    def plainly(c):
        for i in range(1, 5):
            c = body(jnp.int32(i), c)
        return c

    rng = np.random.default_rng(0)
    for shape in ((5, 6), (60, 60)):
        a, b = (jnp.asarray(rng.standard_normal(shape), "float32") for _ in range(2))
        kept = np.asarray(a).copy()
        for flat in (True, False):
            with fgrad.config.override("pass_flat", flat):
                got = fgrad.jit(lambda a, b: lax.fori_loop(1, 5, body, (a, b, (a[0], b[0]))))(a, b)
            for x, y in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(plainly((a, b, (a[0], b[0]))))):
                np.testing.assert_allclose(x, y, rtol=1e-6)
            np.testing.assert_array_equal(a, kept)
