"""Loops of small values run as flat code: the same bits as the ordinary path gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def flat_ops(jitted, *args):
    return jitted.lower(*args).compile()._traced.program.num_flat_ops


def same_bits(fun, *args, flat=True):
    """The results of both ways; `flat` is whether the first must be flat code, None where it may."""
    with fgrad.config.override("pass_flat", False):
        want = fgrad.tree_util.tree_leaves(fgrad.jit(fun)(*args))
    jitted = fgrad.jit(lambda *a: fun(*a))
    for _ in range(2):  # the second run finds the code made
        got = fgrad.tree_util.tree_leaves(jitted(*args))
        assert len(got) == len(want)
        for g, w in zip(got, want):
            assert g.dtype == w.dtype and g.shape == w.shape
            np.testing.assert_array_equal(np.asarray(g), np.asarray(w))
            if g.dtype.kind == "f":
                np.testing.assert_array_equal(np.signbit(g), np.signbit(w))
    assert flat is None or (flat_ops(jitted, *args) > 0) == flat
    return got


def lorenz(x, y, z):
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z


def euler(steps, *state):
    return lax.fori_loop(0, steps, lambda i, s: tuple(u + 0.01 * v for u, v in zip(s, lorenz(*s))), state)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (16,), (17,), (4, 5), (64,)])
def test_systems_of_equations(shape):
    rng = np.random.default_rng(0)
    state = [jnp.asarray(1 + rng.standard_normal(shape).astype(np.float32)) for _ in range(3)]
    same_bits(lambda *s: euler(50, *s), *state)
    with fgrad.enable_x64():
        same_bits(lambda *s: euler(50, *s), *[jnp.asarray(np.asarray(s, np.float64)) for s in state])


def test_large_carries_that_move_take_the_ordinary_path():
    state = [jnp.full((2000,), v) for v in (1.0, 2.0, 3.0)]
    same_bits(lambda *s: euler(5, *s), *state)  # each is updated where it is
    same_bits(lambda x: lax.fori_loop(0, 5, lambda i, x: x[::-1] * 0.5 + x[i], x), jnp.arange(2000.0), flat=False)


def rounds(n, dtype):
    """Loops over n elements whose operations each go over all of them, in place, double buffered, with borders, scalars and masks."""
    rng = np.random.default_rng(n)
    a, b = (jnp.asarray(rng.integers(-9, 10, n).astype(dtype)) for _ in range(2))

    def loop(step, *state):
        return lambda *s: lax.scan(lambda c, _: (step(*c), c[-1][:2]), s or state, None, length=9), state

    yield loop(lambda a: (a * 2 + 1,), a)
    yield loop(lambda a, b: (a - (b + a), b + a), a, b)
    yield loop(lambda a, b: (3 * a - b, a), a, b)
    yield loop(lambda a, b: (b, a + b * a[3]), a, b)
    yield loop(lambda a: (a.at[1:-1].add(a[2:] - 2 * a[1:-1] + a[:-2]),), a)
    yield loop(lambda a: (jnp.pad(a, 1)[2:] + jnp.pad(a, (2, 0), constant_values=3)[:-2] - a,), a)
    yield loop(lambda a: (jnp.roll(a, 1) - 2 * a + jnp.roll(a, -1),), a)
    yield loop(lambda a, b: (jnp.where(a > b, a - b, jnp.maximum(a, 2) * 2), b), a, b)
    yield loop(lambda a: (a - jnp.where(a < 3, jnp.sum(a), a[1]).astype(a.dtype),), a)
    chain = a * 0 + 3
    yield loop(lambda a, b: (sum((a * k + b) * (a - k) for k in range(1, 8)), b - a), chain, b)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.bool_, np.float64, np.complex64])
@pytest.mark.parametrize("n", [127, 129, 255, 257, 300, 511, 512, 513])
def test_operations_over_all_of_a_group(n, dtype):
    with fgrad.enable_x64(dtype is np.float64):
        for fun, state in rounds(n, dtype):
            if dtype not in (np.bool_, np.complex64) or len(state) == 1:
                try:
                    fgrad.eval_shape(fun, *state)
                except TypeError:  # bools have no difference, complex numbers no order, and sums of bools are integers
                    assert dtype in (np.bool_, np.complex64, np.int8)
                    continue
                same_bits(fun, *state, flat=None)
    if dtype is np.float32 and n < 513:
        fun, state = next(rounds(n, dtype))
        same_bits(fun, *state, flat=True)


def test_stacked_state():
    def step(i, s):
        return s + 0.01 * jnp.stack(lorenz(s[0], s[1], s[2]))

    same_bits(lambda s: lax.fori_loop(0, 30, step, s), jnp.array([1.0, 2.0, 3.0]))
    same_bits(lambda s: lax.fori_loop(0, 30, step, s), jnp.ones((3, 2)))


def test_trip_counts():
    def count(n, x):
        return lax.fori_loop(0, n, lambda i, x: x * 2 + i, x)

    for n, want in enumerate([1, 2, 5, 12]):
        assert float(fgrad.jit(count, static_argnums=0)(n, 1.0)) == want
        (got,) = same_bits(lambda n: count(n, 1.0), n)
        assert float(got) == want
    (steps,) = same_bits(
        lambda n: lax.while_loop(lambda c: c[0] != 1, lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1), (n, 0))[1],
        27,
    )
    assert int(steps) == 111


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint16, np.bool_, np.float16, np.complex64])
def test_scans_of_every_dtype(dtype, reverse):
    rng = np.random.default_rng(1)
    xs = jnp.asarray(rng.integers(0, 3, (9, 4)).astype(dtype))

    def body(c, x):
        c = jnp.where(x == 1, c, x) if dtype is np.bool_ else c * 3 + x
        return c, (c, x[::-1], jnp.sum(x), c == x, x[1])

    carry, ys = lax.scan(body, xs[0], xs, reverse=reverse)
    same_bits(lambda xs: lax.scan(body, xs[0], xs, reverse=reverse), xs)
    assert carry.dtype == dtype and [y.shape for y in ys] == [(9, 4), (9, 4), (9,), (9, 4), (9,)]


def test_nested_loops_and_branches():
    def inner(j, x):
        return lax.cond(x > 1, lambda x: x * 0.5, lambda x: x + 0.75, x)

    def outer(i, c):
        x, k = c
        x = lax.fori_loop(0, i + 1, inner, x)
        k = lax.switch(i % 4, [lambda k: k + 1, lambda k: k * 2, lambda k: k - 3, lambda k: k], k)
        return lax.while_loop(lambda x: x > 0.9, lambda x: x - 0.3, x), k

    same_bits(lambda x: lax.fori_loop(0, 20, outer, (x, 5)), 0.3)
    same_bits(lambda x: fgrad.grad(lambda x: lax.scan(lambda c, _: (jnp.sin(c) * 1.1, c), x, None, length=12)[0])(x), 0.3)

    def rows(c, row):
        c, y = lax.scan(lambda a, b: (a + b, a * b), c, row)
        return c, (y, c)

    same_bits(lambda x: lax.scan(rows, 0.0, x), jnp.arange(12.0).reshape(3, 4))


def test_kernels_inside_of_a_loop():
    table = jnp.arange(40.0)

    def body(i, s):
        s = jnp.sort(s + table[i % 40])[::-1]
        s = s.at[i % 5].set(lax.dynamic_slice(s, (i,), (1,))[0] * 0.5)
        return jnp.cumsum(s) % 7.0 + jnp.pad(s[1:3], (1, 2)) @ jnp.eye(5)

    same_bits(lambda s: lax.fori_loop(0, 25, body, s), jnp.arange(5.0))


def test_reductions_and_layouts():
    def body(i, s):
        t = s.T + jnp.sum(s, axis=1) - jnp.max(s, axis=0, keepdims=True).T[:3]
        return t.T * 0.5 + jnp.mean(t) + jnp.prod(s[0]) - jnp.min(s[:, ::-1], axis=0)

    same_bits(lambda s: lax.fori_loop(0, 10, body, s), jnp.arange(9.0).reshape(3, 3) / 9)
    same_bits(lambda s: lax.fori_loop(0, 10, lambda i, s: s - jnp.sum(s, axis=0) / 9, s), jnp.arange(27.0).reshape(9, 3))


@pytest.mark.parametrize("shape, axis", [((3, 4), 1), ((3, 4), 0), ((3, 4), None), ((1,), 0), ((40,), 0)])
def test_sums_of_products(shape, axis):
    x, y = (np.random.default_rng(0).integers(-3, 4, shape).astype("f") for _ in range(2))

    def step(c, _):
        return (c[0] + jnp.sum(c[1] * y, axis), c[1] + 1), jnp.sum(c[1] * c[1], axis)

    (total, _), squares = fgrad.jit(lambda x: lax.scan(step, (jnp.zeros(np.sum(x, axis).shape), x), length=3))(x)
    np.testing.assert_array_equal(total, sum(((x + k) * y).sum(axis) for k in range(3)))
    np.testing.assert_array_equal(squares, np.stack([((x + k) ** 2).sum(axis) for k in range(3)]))


def test_swapped_carries():
    (a, b) = same_bits(lambda a, b: lax.fori_loop(0, 7, lambda i, c: (c[1], c[0] + c[1]), (a, b)), 0, 1)
    assert (int(a), int(b)) == (13, 21)
    same_bits(lambda a, b: lax.fori_loop(0, 7, lambda i, c: (c[1], c[0]), (a, b)), jnp.arange(3.0), jnp.ones(3))
    same_bits(lambda a, b: lax.fori_loop(0, 7, lambda i, c: (c[0] - c[1], c[0] * c[1] - c[1]), (a, b)), 0.5, 1.5)


@pytest.mark.parametrize("compare", [jnp.less, jnp.less_equal, jnp.not_equal, jnp.greater, jnp.greater_equal, jnp.equal])
@pytest.mark.parametrize("first", [0, 3, 9, 0.0, 9.0, np.nan])
def test_conditions_that_are_one_comparison(compare, first):
    """The counter is read after its sum is computed, and what it was is the index of an update."""

    def fun(x, first):
        turn = lambda s: (s[0] + 1, s[1] + 1, s[2].at[s[1]].add(s[0]), s[0] * 2 + s[3])
        inner = lambda s: lax.while_loop(lambda s: compare(s[0], 5) & (s[1] < 7), turn, (s[0] - 4, s[1] - 3, s[2], s[3]))
        outer = lambda s: inner((s[0] + 2, s[1] + 2, s[2], s[3]))
        once = lax.while_loop(lambda s: s[1] < 6, turn, (first, 0, x, first))
        return once, lax.while_loop(lambda s: compare(s[0], 3) & (s[1] < 5), turn, once), lax.fori_loop(0, 3, lambda i, s: outer(s), once)

    same_bits(fun, jnp.arange(8.0), first)


def test_results_are_not_shared_between_calls():
    f = fgrad.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: x + 1, x))
    a = f(jnp.zeros(3))
    b = f(jnp.ones(3))
    np.testing.assert_array_equal(a, 3)
    np.testing.assert_array_equal(b, 4)
    assert [float(v) for v in fgrad.vmap(lambda x: f(x))(jnp.arange(3.0))] == [3, 4, 5]


def test_callbacks_and_exceptions():
    seen = []

    def body(i, x):
        fgrad.debug.callback(lambda v: seen.append(int(v)), i)
        return x + 1

    same_bits(lambda x: lax.fori_loop(0, 3, body, x), 1.0, flat=False)
    assert seen.count(2) == 3


UNARY = [jnp.sin, jnp.abs, jnp.square, lambda x: -x, jnp.tanh, lambda x: jnp.sqrt(jnp.abs(x))]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lambda x, y: x / (1 + y * y)]
COMPARE = [jnp.less, jnp.greater_equal, jnp.equal, jnp.not_equal]
op = st.tuples(st.sampled_from(["un", "bin", "bin", "where", "cond", "sum", "int", "loop"]), *[st.integers(0, 1 << 16)] * 4)


@settings(max_examples=20, deadline=None)
@given(st.lists(op, min_size=1, max_size=12), st.sampled_from([(), (1,), (3,), (2, 3)]), st.integers(0, 6))
def test_random_bodies(ops, shape, trips):
    def body(i, carry):
        values = [*carry, jnp.float32(0.7) + 0 * carry[0]]
        n = i + carry[2].astype(jnp.int32).max()
        for kind, a, b, c, d in ops:
            x, y, z = (values[k % len(values)] for k in (a, b, c))
            if kind == "un":
                v = UNARY[d % len(UNARY)](x)
            elif kind == "bin":
                v = BINARY[d % len(BINARY)](x, y)
            elif kind == "where":
                v = jnp.where(COMPARE[d % len(COMPARE)](x, y), z, x)
            elif kind == "cond":
                v = lax.cond(jnp.sum(x) > jnp.sum(y), lambda p, q: p - q, BINARY[d % len(BINARY)], y, z)
            elif kind == "sum":
                v = x + (jnp.sum(y) if d % 2 else jnp.max(y))
            elif kind == "loop":
                v = lax.fori_loop(0, d % 3, lambda j, v, y=y: v * 0.5 + y, x)
            else:
                n = jnp.where(n % (d % 5 + 1) == 0, n // 2, n + d % 7) % 11
                v = x + n
            values.append(jnp.clip(v, -100, 100))
        return values[-1], values[-2] * 0.5, values[len(values) // 2]

    start = jnp.linspace(-1, 1, int(np.prod(shape))).reshape(shape)
    carry = (start, start * 0.3 + 0.1, start * start)
    same_bits(lambda n, *c: lax.fori_loop(0, n, body, c), trips, *carry)
    same_bits(lambda *c: lax.fori_loop(0, trips, body, c), *carry, flat=None if trips < 2 else True)


@pytest.mark.parametrize("shape", [(2,), (3,), (8,), (16,), (17,)])
def test_vectors_compared_and_selected(shape):
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((20, *shape)).astype(np.float32)
    rows[3, 0], rows[4, 1], rows[5, 0] = np.nan, -0.0, 0.0

    def step(c, a):
        small = (a < 0.5) & ~(a > c) | (a == 0)
        c = jnp.where(small, jnp.maximum(c, a), jnp.minimum(abs(c), 2 * a))
        return jnp.where(jnp.isnan(c), a, c), jnp.where(a >= 0, c, -c)

    same_bits(lambda c, xs: lax.scan(step, c, xs), jnp.full(shape, 0.25), jnp.asarray(rows))
    with fgrad.enable_x64():
        same_bits(lambda c, xs: lax.scan(step, c, xs), jnp.full(shape, 0.25, jnp.float64), jnp.asarray(rows, jnp.float64))


@pytest.mark.parametrize("mode", ["clip", "drop", "fill", None])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.int32, np.complex64])
def test_elements_and_rows_read_and_written(mode, dtype):
    x = jnp.asarray(np.arange(24).reshape(6, 4) % 7, dtype)
    places = jnp.array([0, 5, -1, 7, -9, 2])

    def step(x, i):
        row = x.at[i].get(mode="clip" if mode == "drop" else mode)
        y = x.at[i - 1].set(row + 1, mode=mode).at[1, i].set(3, mode=mode)
        return y.at[(i + 2) % 6].set(x[0]), (y[i, 1], row)

    same_bits(lambda x, i: lax.scan(step, x, i), x, places)
    for column in (x[:, 0], x[:1, 0]):
        same_bits(lambda c, i: lax.scan(lambda c, i: (c.at[i].set(c[-i] + 1, mode=mode), c[i]), c, i), column, places)


def test_parts_of_a_concatenation_stay_apart():
    def step(c, a):
        last = jnp.cumsum(c + a) * 3
        first = last * 2 + 1
        return jnp.flip(first) * 0.01, (jnp.concatenate([first, last]), jnp.stack([first[0], last[1]]))

    for n in (2, 3, 4, 8):
        same_bits(lambda c, xs: lax.scan(step, c, xs), jnp.arange(n, dtype=jnp.float32), jnp.ones((5, n)))


def test_fixed_vectors_beside_small_matrices():
    w = jnp.asarray(np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32))
    same_bits(lambda c: lax.fori_loop(0, 9, lambda i, c: jnp.where(c > 0, jnp.tanh(w @ c), w[i % 4] - c), c), jnp.array([1.0, -2, 3, -4]))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "float64"])
@pytest.mark.parametrize("shape", [(20,), (20, 3), (6, 7), (4, 5, 2), (200, 7)])
def test_windows_that_move(shape, dtype):
    """Slices and updates at an index of the loop, also beyond both ends, where they are bounded or left out."""

    def elements(x):
        def step(i, x):
            x = x.at[i - 2].set(x[i] if dtype == "bool" else x[i] + x[i - 1])
            x = lax.dynamic_update_index_in_dim(x, lax.dynamic_index_in_dim(x, i + 1, 0), i - 1, 0)
            return x if dtype == "bool" else x.at[i + 1].add(x[0]).at[(i,) * x.ndim].multiply(3, mode="clip")

        return lax.fori_loop(-2, shape[0] + 3, step, x)

    def windows(x):
        def step(i, x):
            at = (i,) * x.ndim
            x = lax.dynamic_update_slice(x, lax.dynamic_slice(x, at, sizes), tuple(a - 1 for a in at))
            return x.at[i].set(x.at[i - 1].get(mode="fill", fill_value=1))

        return lax.fori_loop(-2, 9, step, x)

    sizes = (1,) * (len(shape) - 1) + (min(2, shape[-1]),)
    with fgrad.enable_x64(dtype == "float64"):
        x = jnp.asarray((np.arange(np.prod(shape)).reshape(shape) % 5).astype(dtype))
        same_bits(elements, x)
        same_bits(windows, x)


def test_updated_in_place_and_copied():
    """A carry that the body updates where it is, beside one that takes over its old value."""

    def step(carry, y):
        x, before, i = carry
        new = x.at[i].set(y).at[i - 1].add(2.0)
        return (new, x, i + 1), before[i]

    same_bits(lambda x, ys: lax.scan(step, (x, x, 0), ys), jnp.arange(8.0), jnp.arange(10.0))


def test_large_operands_lie_elsewhere_at_each_run():
    """Tables and carries of a nest that are read and written where they are."""

    def rows(i, c):
        grid, total = c
        grid = lax.fori_loop(1, 30, lambda j, g: g.at[i, j].set(g[i - 1, j] + table_at(g, i, j)), grid)
        return grid, total + lax.scan(lambda s, y: (s + y[i], s), 0.0, grid)[0]

    def nest(table, x):
        nonlocal table_at
        table_at = lambda g, i, j: g[i, j - 1] + table[i * j]  # noqa: E731
        return lax.fori_loop(1, 30, rows, (x, 0.0))

    table_at = None
    jitted, kept = fgrad.jit(lambda *a: nest(*a)), []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        args = jnp.asarray(rng.standard_normal(900), "float32"), jnp.asarray(rng.standard_normal((30, 30)), "float32")
        with fgrad.config.override("pass_flat", False):
            want = fgrad.jit(lambda *a: nest(*a))(*args)
        got = jitted(*args)
        kept.append((args, got))
        assert all(np.array_equal(g, w) for g, w in zip(got, want))
        assert flat_ops(jitted, *args) > 0
    assert np.array_equal(kept[0][1][0], jitted(*kept[0][0])[0])


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_integers_of_every_size(dtype):
    def step(x, y):
        shifted = lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y)
        divided = lax.div(x, y), lax.rem(x, y), x // y, x % y
        ordered = jnp.minimum(x, y), jnp.maximum(x, y), jnp.clip(x, y, 7), jnp.where(x < y, x > 3, y > 3)
        return x ^ y, (*shifted, *divided, *ordered, x & y, x | y, x < y)

    ys = np.array([0, 1, 2, 31, 32, 33, 7, -1, -(2**31), 2**31 - 1, -5, 3]).astype(dtype)
    for start in (0, 5, -1, -(2**31), 2**31 - 1, -7):
        same_bits(lambda x, ys: lax.scan(step, x, ys), jnp.asarray(np.array(start).astype(dtype)), jnp.asarray(ys))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_paddings_and_concatenations_of_any_axis(dtype):
    zero, one = np.zeros((), dtype)[()], np.ones((), dtype)[()]

    def body(c, x):
        x, y = x.astype(dtype), c.astype(dtype)
        columns = jnp.concatenate([x[:, None], y[:, :2], x[::-1, None]], 1)
        padded = (
            lax.pad(columns, one, ((1, 0, 0), (0, 1, 1))),
            lax.pad(x, zero, ((2, 1, 0),)),
            lax.pad(x[1], one, ()),
            lax.pad(y.T, x[0], ((0, 0, 0), (1, 0, 0))),
        )
        return c[:, ::-1] + columns.sum().astype(c.dtype), (columns, *padded)

    c, xs = np.arange(9, dtype="float32").reshape(3, 3), np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    same_bits(lambda c, xs: lax.scan(body, c, xs), c, xs)
    grad = lambda c, xs: fgrad.grad(
        lambda c, xs: lax.scan(lambda c, x: (jnp.stack([c[1] * x[0], c[2] - c[0], c[0] * x[2]]), c[1]), c, xs)[1].sum(), (0, 1)
    )(c, xs)
    same_bits(grad, c[0], xs)


def test_concatenations_with_empty_operands():
    body = lambda c, x: (jnp.concatenate([c, x[:0]]) * 0.5 + x, c)
    same_bits(lambda c, xs: lax.scan(body, c, xs), np.array([1, 2], "float32"), np.arange(10, dtype="float32").reshape(5, 2))


@pytest.mark.parametrize("n", [21, 32, 42])
def test_columns_stacked(n):
    body = lambda c, x: (jnp.stack([c[:, 1] * x, c[:, 2] - c[:, 0], c[:, 0]], 1), jnp.pad(c[1:, 0], (0, 1)))
    same_bits(lambda c, xs: lax.scan(body, c, xs), np.arange(3 * n, dtype="float32").reshape(n, 3), np.arange(5, dtype="float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "int16"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 7), (16, 16), (3, 40), (40, 3), (128, 2)])
def test_lines_of_a_matrix_spread_turned_and_stacked(shape, dtype):
    def body(i, s):
        x, y = s
        x = jnp.minimum(x, x[:, 1][:, None] + y[i % 2][None])
        return jnp.concatenate([x[:, 1:], y[:, :1]], 1), y[::-1, ::-1] + x.T.reshape(x.shape)

    with fgrad.enable_x64("64" in dtype):
        x = jnp.asarray(np.random.default_rng(0).integers(-50, 50, (2, *shape)).astype(dtype))
        same_bits(lambda x, y: lax.fori_loop(0, 3, body, (x, y)), x[0], x[1], flat=None)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("m, k", [(1, 1), (2, 2), (1, 4), (4, 1), (3, 4), (4, 4), (2, 8), (5, 5)])
def test_products_of_tiny_matrices(m, k, x64):
    def body(i, s):
        p, v = s
        return jnp.tanh(f @ p @ f.T + p.T + h.T @ (h @ p)), jnp.tanh(f @ v + h.T @ (h @ v) + v @ p + p[::-1] @ v)

    with fgrad.enable_x64(x64):
        h, f = (jnp.asarray(np.random.default_rng(0).standard_normal(s)) for s in ((m, k), (k, k)))
        same_bits(lambda p, v: lax.fori_loop(0, 4, body, (p, v)), f, h[0])


@pytest.mark.parametrize("n", [40, 64, 3000, 100_000])
def test_a_condition_may_reduce_a_large_carry(n):
    a = np.random.default_rng(0).uniform(1, 9, n).astype(np.float32)
    roots = fgrad.jit(lambda a: lax.while_loop(lambda x: jnp.max(jnp.abs(x * x - a)) > 1e-4, lambda x: 0.5 * (x + a / x), a))
    for _ in range(3):
        np.testing.assert_allclose(roots(a), np.sqrt(a), rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 16, 17, 40])
def test_whole_numbers_and_signs(n, dtype):
    special = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-40, -3e38]
    with fgrad.enable_x64(dtype == "float64"):
        xs = np.random.default_rng(n).choice(special, (30, n)).astype(dtype)
        for f in (jnp.floor, jnp.ceil, jnp.trunc, jnp.rint, jnp.sign):
            same_bits(lambda xs, f=f: lax.scan(lambda c, x: (f(x) * 0.5 + x, f(x)), xs[0], xs), xs if n > 1 else xs[:, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [4, 5, 10, 17, 18, 40])
def test_slices_of_vectors(n, dtype):
    """Operands that begin inside of a vector."""

    def body(i, x):
        inner = 0.25 * (x[:-2] - 2 * x[1:-1] + x[2:]) + jnp.where(x[1:-1] < x[2:], x[:-2] * x[1:-1], jnp.sin(x[2:]))
        return jnp.concatenate([x[:1], jnp.tanh(inner), x[-1:]])

    with fgrad.enable_x64(dtype == "float64"):
        same_bits(lambda x: lax.fori_loop(0, 7, body, x), jnp.asarray(np.random.default_rng(n).standard_normal(n).astype(dtype)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 8, 16, 17])
def test_masks_of_vectors(n, dtype):
    """Selections by a comparison, by masks that are carried, combined or read twice, and by one whose operands have changed since."""

    def body(i, s):
        x, y, m = s
        less = x < y
        x, y = jnp.where(less, y - x, x * 0.5), jnp.where(less | m, x, jnp.sqrt(jnp.abs(y)))
        m = (m ^ (x >= 1)) != ~less
        return jnp.where(m, 1 / x, y), jnp.where(x == y, x + 1, jnp.where(less & m, y, x % 3)), m

    with fgrad.enable_x64(dtype == "float64"):
        x = jnp.asarray(np.random.default_rng(n).standard_normal((2, n)).astype(dtype))
        same_bits(lambda x, y: lax.fori_loop(0, 9, body, (x, y, x > 0)), x[0], x[1])


@pytest.mark.parametrize("outer", ["scan", "fori", "while"])
@pytest.mark.parametrize("row", [(), (3,)])
def test_rows_of_an_inner_loop_become_the_carry(outer, row):
    def turn(u, w):
        last, rows = lax.scan(lambda c, x: (x + 1, c * x - w[0]), u[0], u, reverse=True)
        return rows, lax.scan(lambda c, x: (c + x, c), last, w)[1]

    def fun(u, w):
        if outer == "scan":
            return lax.scan(lambda c, i: (turn(*c), c[0].sum()), (u, w), jnp.arange(3))
        if outer == "fori":
            return lax.fori_loop(0, 3, lambda i, c: turn(*c), (u, w))
        return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, turn(*c[1])), (0, (u, w)))

    u = np.random.default_rng(0).integers(-3, 4, (4, *row)).astype(np.float32)
    same_bits(fun, u, u[::-1])


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_sums_of_indices_are_taken_where_their_terms_stand(dtype):
    """A table read and written beside each cell, by places that are also values, that change before they are used, and that lie outside."""

    def cell(i, j, s):
        t, k = s
        left = t[i - 1, j]
        k = k + i + j
        t = t.at[i, (k + j) % 9].add(left)
        return t.at[i + 1, j].set(t[i, j] + t[(i + k) % 7, j] + k, mode="drop"), k

    def fill(t):
        return lax.fori_loop(0, 7, lambda i, s: lax.fori_loop(0, 9, lambda j, s: cell(i, j, s), s), (t, 0))

    same_bits(fill, np.arange(63).reshape(7, 9).astype(dtype))


@pytest.mark.parametrize("size", [128, 256])  # 256: reductions compute their terms themselves, and flat code still holds them
def test_reductions_that_compute_their_terms(size):
    def step(c, _):
        x, half, truth = c
        sums = jnp.nansum(x), jnp.nanprod(x), (x > 0).sum(), truth.mean(), jnp.nansum(x.reshape(2, -1), 0)
        return c, (*sums, half.astype(jnp.float32).sum(), (half.astype(jnp.float32) ** 2).sum(), half.min())

    x = np.random.default_rng(0).uniform(-1.5, 1.5, size).astype(np.float32)
    half = jnp.asarray(x, jnp.bfloat16)
    x[::7] = np.nan
    same_bits(lambda *c: lax.scan(step, c, None, 2)[1], x, half, x > 0, flat=None)
    _, (total, _, count, *_) = lax.scan(step, (x, half, x > 0), None, 2)
    np.testing.assert_allclose(total, np.nansum(x), rtol=1e-5)
    assert count.tolist() == [np.sum(x > 0)] * 2


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8"])
def test_rows_of_any_width(dtype, reverse):
    """Rows come and go as whole vectors with a masked end where numbers have four bytes or more; nothing beside them is touched."""

    def program(xs):
        return lax.scan(lambda c, x: (c + x, (c * x, x[::-1], x)), xs[0], xs, reverse=reverse)

    rng = np.random.default_rng(0)
    for width in (0, 1, 2, 3, 5, 7, 10, 15, 16, 17, 32, 33):
        xs = rng.integers(-9, 9, (6, width)).astype(dtype)
        _, _, turned, same = same_bits(program, xs, flat=None)
        np.testing.assert_array_equal(turned, xs[:, ::-1])
        np.testing.assert_array_equal(same, xs)


@pytest.mark.parametrize("n", [5, 64, 256])
def test_a_carry_is_kept_while_it_is_read(n):
    """The carry's new value is ready long before its old one has been read, and a strip stores it last."""
    r = np.random.default_rng(n)

    def body(carry, _):
        a, b, c = carry
        squared, narrow = jnp.square(a.astype(jnp.int32)), a.astype(jnp.int8)
        new = narrow.astype(jnp.float32)
        bent = jnp.tanh(new)
        least = jnp.minimum(c, squared.astype(jnp.float32))
        return (least.astype(bool), bent.astype(jnp.uint8), new), least

    carry = (jnp.asarray(r.normal(size=n) > 0), jnp.asarray(r.integers(0, 9, n), jnp.uint8), jnp.asarray(r.normal(size=n), jnp.float32))
    same_bits(lambda *c: lax.scan(body, c, None, 3), *carry)


@pytest.mark.parametrize("threads", [1, 2])
def test_turns_of_flat_code_that_call_kernels_are_tried(threads):
    """With threads and without, at the beginning of each turn: no bit changes, in calls through the trial and beyond it."""
    at = jnp.asarray(np.random.default_rng(3).integers(0, 60, 200_000), "int32")
    before = fgrad.get_num_threads()
    try:
        fgrad.set_num_threads(threads)
        step = lambda i, r: 0.5 * jnp.sin(r) + 1e-3 * jnp.zeros(60).at[at].add(r[at])
        same_bits(lambda r: lax.fori_loop(0, 90, step, r), jnp.linspace(0, 1, 60))
        same_bits(lambda r: lax.while_loop(lambda c: c[0] < 90, lambda c: (c[0] + 1, step(0, c[1])), (0, r))[1], jnp.linspace(0, 1, 60))
        same_bits(lambda r: lax.fori_loop(0, 30, lambda i, r: lax.fori_loop(0, 4, step, r) + 1, r), jnp.linspace(0, 1, 60))
    finally:
        fgrad.set_num_threads(before)
