"""Flat code as machine code: every bit is the interpreter's."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fgrad
import fgrad.lax as lax
import fgrad.numpy as jnp
from tests.drawn_loops import drawn_loop

SEEDS = 24


def leaves(tree):
    return [x.astype(np.float32) if x.dtype == jnp.bfloat16 else x for x in map(np.asarray, fgrad.tree_util.tree_leaves(tree))]


def same(a, b):
    """Equal bit by bit, but for which NaN it is."""
    if a.dtype.kind == "f":
        a, b = (np.where(np.isnan(x), np.asarray(7, x.dtype), x) for x in (a, b))
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def check(fun, args, ordinary=True):
    """fun's results as machine code, twice, which are the interpreter's; and without flat code, but for the order of sums."""
    run = lambda: leaves(fgrad.jit(lambda *a: fun(*a))(*args))  # noqa: E731
    got, again = run(), run()
    with fgrad.config.override("pass_machine", False):
        interpreted = run()
    for other in (again, interpreted):
        assert [same(a, b) for a, b in zip(got, other, strict=True)] == [True] * len(got)
    if ordinary:
        with fgrad.config.override("pass_flat", False):
            for a, b in zip(got, run(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("first", range(0, 20 * SEEDS, SEEDS))
def test_drawn_loops(first, x64):
    with fgrad.config.override("enable_x64", x64):
        for seed in range(first, first + SEEDS):
            fun, args = drawn_loop(seed)
            check(fun, fgrad.tree_util.tree_map(jnp.asarray, args), ordinary=False)  # whose sums such loops would carry far apart


@pytest.mark.parametrize("first", range(0, 12 * SEEDS, SEEDS))
def test_drawn_loops_of_narrow_integers(first):
    for seed in range(first, first + SEEDS):
        fun, args = drawn_loop(seed, narrow=True)
        check(fun, fgrad.tree_util.tree_map(jnp.asarray, args), ordinary=True)


@pytest.mark.parametrize("n", [3, 16, 30, 100, 256, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint32])
def test_groups_go_vector_by_vector(n, dtype):
    x = jnp.asarray(np.random.default_rng(n).integers(1, 50, n).astype(dtype))
    y = jnp.asarray(np.random.default_rng(n + 1).integers(1, 50, (5, n)).astype(dtype))
    half = jnp.asarray(np.asarray(2, dtype))

    def step(c, row):
        up, down = jnp.roll(c, 1), jnp.concatenate([c[1:], c[:1]])
        c = jnp.where(up < down, up + row * half, down - c) + c.at[1:-1].add(c[2:] * half - c[:-2])[::-1]
        return c, (c.sum(), jnp.maximum(c, row), row < c)

    check(lambda x, y: lax.scan(step, x, y), (x, y))


def test_a_turn_reads_what_a_copy_of_the_carry_holds():
    """The interpreter's register was loaded, before the first turn, from the copy that the turn itself makes."""

    def step(c, x):
        _, copied = lax.scan(lambda s, _: ((s[0], s[1] + s[1]), None), (jnp.float32(1), c), None, length=0)[0]
        return x.astype(jnp.float32) * copied, (c.astype(jnp.float32), copied)

    xs = jnp.asarray(np.random.default_rng(0).integers(1, 3, 22).astype(np.int32))
    check(lambda c, xs: lax.scan(step, c, xs, reverse=True), (jnp.float32(3), xs))


def test_more_values_than_registers():
    """30 carried numbers and 30 carried vectors: some are held throughout the loop, others are not."""

    def step(c, _):
        a, v = c
        a = [x * 0.5 + a[i - 1] - a[(i + 7) % 30] * 0.25 for i, x in enumerate(a)]
        v = [x * 0.5 + v[i - 1] - a[i] for i, x in enumerate(v)]
        return (a, v), a[3]

    r = np.random.default_rng(0)
    c = [jnp.float32(x) for x in r.normal(size=30)], [jnp.asarray(x) for x in r.normal(size=(30, 9)).astype(np.float32)]
    check(lambda c: lax.scan(step, c, None, length=40), (c,))


@pytest.mark.parametrize("n", [201, 403])
def test_numbers_that_are_the_first_of_a_held_vector(n):
    """Every 32 turns what registers hold is loaded again: such a number came last, with zeros where the vector's others were."""
    x = np.random.default_rng(n).uniform(1, 2, n)

    def loop(x):
        return lax.fori_loop(0, 40, lambda i, x: 1.5 * lax.scan(lambda c, _: (1 / c, None), x, None, length=3)[0], x)

    for dtype in (np.float32, np.float64):
        with fgrad.enable_x64(dtype is np.float64):
            check(loop, (jnp.asarray(x.astype(dtype)),))


def test_integers_that_divide_by_zero_and_overflow():
    pairs = [(7, 0), (-7, 0), (-(2**31), -1), (2**31 - 1, -1), (7, -2), (-7, 2), (0, 5)]
    for x, y in pairs:
        check(
            lambda x, y: lax.fori_loop(0, 3, lambda i, c: (lax.div(c[0], c[1]), c[1], lax.rem(c[0], c[1])), (x, y, x)),
            (jnp.int32(x), jnp.int32(y)),
        )


def test_extrema_of_no_numbers():
    values = [np.nan, -0.0, 0.0, np.inf, -np.inf, 1.0]
    x, y = (jnp.asarray(np.array(v, np.float32)) for v in zip(*[(a, b) for a in values for b in values]))

    def step(c, xy):
        a, b = xy
        v = jnp.stack([a, b, a, c])
        return jnp.minimum(a, b), (
            jnp.maximum(a, b),
            v.max(),
            v.argmin(),
            v[:, None] + v[None],
            (v[:, None] + v[None]).max(0),
            (v[:, None] - v[None]).argmax(1),
        )

    check(lambda c, x, y: lax.scan(step, c, (x, y)), (jnp.float32(0), x, y))


def test_threads_run_the_same_loop():
    fun = fgrad.jit(lambda x: lax.fori_loop(0, 20000, lambda i, x: 3.7 * x * (1 - x), x))
    expected = [float(fun(jnp.float32(s))) for s in (0.1, 0.2, 0.3, 0.4)]
    got = {}

    def run(i, s):
        got[i] = [float(fun(jnp.float32(s))) for _ in range(20)]

    threads = [threading.Thread(target=run, args=(i, s)) for i, s in enumerate((0.1, 0.2, 0.3, 0.4))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [set(got[i]) for i in range(4)] == [{e} for e in expected]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes here do not fork")
def test_a_fork_runs_it():
    code = """
import os, fgrad, fgrad.lax as lax, fgrad.numpy as jnp
f = fgrad.jit(lambda x: lax.fori_loop(0, 1000, lambda i, x: x + 1, x))
assert f(jnp.float32(1)) == 1001
pid = os.fork()
if pid == 0:
    os._exit(0 if f(jnp.float32(2)) == 1002 else 1)
assert os.waitpid(pid, 0)[1] == 0 and f(jnp.float32(3)) == 1003
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
