"""Fused elementwise programs and reductions over broadcast operands of every layout, with axes as long as tiles and longer.

Values are small integers, so float32 results are exact and must equal NumPy's whatever the order of the walk.
"""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import vm_plan

LENGTHS = (1, 2, 3, 5, 8, 17, 64, 100, 300, 512, 600, 1024, 2048, 2500, 5000)


@st.composite
def operands(draw):
    """A shape of up to 150,000 elements, and up to four arrays that broadcast to it, some in another memory order."""
    shape, size = [], 1
    for _ in range(draw(st.integers(1, 4))):
        shape.append(draw(st.sampled_from([n for n in LENGTHS if n * size <= 150_000])))
        size *= shape[-1]
    shape = draw(st.permutations(shape))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    arrays = [rng.integers(-4, 5, shape).astype(np.float32)]
    for _ in range(draw(st.integers(1, 3))):
        arrays.append(rng.integers(-4, 5, [n if draw(st.booleans()) else 1 for n in shape]).astype(np.float32))
    return draw(st.permutations(arrays))


axes_of = st.lists(st.booleans(), min_size=4, max_size=4)


def combine(xp, arrays):
    out = arrays[0]
    for i, x in enumerate(arrays[1:]):
        out = out * x if i % 2 == 0 else xp.maximum(out, x) - x
    return out


@settings(max_examples=250, deadline=None)
@given(operands(), st.booleans())
def test_broadcasts(arrays, compiled):
    f = lambda *xs: combine(jnp, xs)
    got = (fgrad.jit(f) if compiled else f)(*map(jnp.asarray, arrays))
    np.testing.assert_array_equal(np.asarray(got), combine(np, arrays))


@settings(max_examples=250, deadline=None)
@given(operands(), axes_of, st.sampled_from(["sum", "max", "min"]), st.booleans())
def test_reductions_of_broadcasts(arrays, reduced, op, transposed):
    axes = tuple(d for d in range(arrays[0].ndim) if reduced[d])

    def f(xp, xs):
        out = combine(xp, xs)
        return getattr(xp, op)(out, axis=axes), out + xs[-1], getattr(xp, op)(xs[0], axis=axes)

    if transposed:  # the operands lie in memory with their axes reversed
        got = fgrad.jit(lambda *xs: f(jnp, [x.T for x in xs]))(*(jnp.asarray(x.T.copy()) for x in arrays))
    else:
        got = fgrad.jit(lambda *xs: f(jnp, xs))(*map(jnp.asarray, arrays))
    for a, b in zip(got, f(np, [x.astype(np.float64) for x in arrays])):
        np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_results_that_take_over_single_values_of_another_part(dtype):
    def f(x, y):
        bits = fgrad.lax.bitcast_convert_type(x, jnp.uint16 if x.dtype.itemsize == 2 else jnp.uint32)
        return jnp.sqrt(x) * 3, jnp.sqrt(y) * 5, fgrad.lax.bitcast_convert_type(bits + 1, x.dtype), jnp.abs(y) + 1

    x, y = jnp.array(4.0, dtype), jnp.array(9.0, dtype)
    with fgrad.disable_jit():
        want = f(x, y)
    np.testing.assert_array_equal(np.asarray(fgrad.jit(lambda x, y: jnp.stack(f(x, y)))(x, y)), np.asarray(jnp.stack(want)))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("columns", [127, 512, 600, 1024, 2048, 5000])
def test_a_column_times_a_row(rows, columns):
    x, y = np.arange(1.0, rows + 1, dtype=np.float32)[:, None], np.ones((1, columns), np.float32)
    np.testing.assert_array_equal(np.asarray(jnp.asarray(x) * jnp.asarray(y)), x * y)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((5, 40, 30, 17), (1, 3)), ((70, 33, 3), (0, 2)), ((9, 20, 63, 4), (0, 2)), ((9, 300, 64), (0, 2)), ((130, 7, 5, 31), (0, 2))],
)
def test_short_segments_behind_kept_axes(shape, axes, dtype):
    rng = np.random.default_rng(3)
    x = rng.integers(-4, 5, shape).astype(np.float32) if dtype != "bool" else rng.random(shape) < 0.01
    a = jnp.asarray(x, dtype=dtype)
    weights = rng.integers(-1, 2, shape[-1:]).astype(np.float32)
    found = fgrad.jit(lambda a, w: (a.max(axes), a.sum(axes), (a * w).sum(axes), jnp.where(a > 2, a, 1).min(axes)))(a, weights)
    expected = x.max(axes), x.sum(axes), (x * weights).sum(axes), np.where(x > 2, x, 1).min(axes)
    for f, e in zip(found, expected):
        np.testing.assert_array_equal(np.asarray(f, np.float32), np.asarray(jnp.asarray(e, dtype=f.dtype), np.float32))


def test_nan_in_short_segments():
    x = np.ones((6, 50, 40, 7), np.float32)
    x[2, 30, 11, 3] = np.nan
    for name in ("sum", "max", "min", "nansum", "nanmax"):
        np.testing.assert_array_equal(np.asarray(getattr(jnp, name)(jnp.asarray(x), (1, 3))), getattr(np, name)(x, (1, 3)))


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 100])
def test_rows_out_of_longer_ones(width, dtype):
    """Short rows with gaps between them, read and written, beside rows of a table that several of them share."""
    rng = np.random.default_rng(width)
    x = rng.integers(-4, 5, (3, 41, 5, 2 * width + 1)).astype(dtype)
    table = rng.integers(-4, 5, (41, width)).astype(dtype)
    with fgrad.enable_x64():
        got = fgrad.jit(lambda x, t: x.at[..., 1 : width + 1].set(x[..., width + 1 :] * t[:, None] + x[..., :width]))(x, table)
    want = x.copy()
    want[..., 1 : width + 1] = x[..., width + 1 :] * table[:, None] + x[..., :width]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "complex64"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64])
@pytest.mark.parametrize("rows", [2, 3, 5, 16, 17])
@pytest.mark.parametrize("blocks", [1, 2, 3, 40, 1000])
def test_short_rows_repeated(blocks, rows, width, dtype):
    """Against a column, against whole rows, in reverse, and out of longer rows: the last block ends where memory may."""
    rng = np.random.default_rng(width)
    x, y, z = (rng.integers(-4, 5, s).astype(dtype) for s in ((blocks, rows, 1), (blocks, 1, width), (blocks, rows, width)))
    f = fgrad.jit(lambda x, y: x * y)
    for a, b in ((x, y), (y, z), (y[::-1], z), (y[..., ::-1], z)):
        np.testing.assert_array_equal(f(a, b), a * b)
    cut = fgrad.jit(lambda x, y: x * y[..., 1:] + x)
    wide = np.concatenate([y[..., :1], y], -1)
    np.testing.assert_array_equal(cut(x, wide), x * y + x)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float16, np.complex64])
@pytest.mark.parametrize("shape", [(5,), (2049,), (3, 7), (40, 300), (70000,)])
@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_columns_of_narrow_rows(k, shape, dtype):
    """All columns of rows of up to four are read together: also where those of neighbouring rows are read besides, or backwards."""
    x = np.random.default_rng(0).integers(-3, 4, (*shape, k)).astype(dtype)

    def columns(x):
        out = x[..., 0]
        for i in range(1, k):
            out = out * dtype(2) - x[..., i]
        return out

    def neighbours(x):
        return columns(x[:-1]) * dtype(3) - columns(x[1:]), columns(x[::-1]) + x[..., 1]

    for f in (columns, neighbours):
        for got, want in zip(fgrad.tree.leaves(fgrad.jit(f)(x)), fgrad.tree.leaves(f(x)), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("fetches", [True, False])
def test_fetching_ahead_of_large_operands(fetches):
    """A strip, and loops, that fetch what they read soon, of elements of several sizes, up to the last one; or leave it to the core."""
    before = vm_plan.fetch_streams(fetches)
    try:
        fetch_ahead_of_large_operands()
    finally:
        assert vm_plan.fetch_streams(before) == fetches


def fetch_ahead_of_large_operands():
    n = 3_700_003
    rng = np.random.default_rng(0)
    b, x, y = rng.integers(0, 9, n).astype(np.uint8), rng.integers(-9, 9, n).astype(np.float32), rng.integers(-9, 9, n).astype(np.float32)
    got = fgrad.jit(lambda b, x, y: ((b + x) * y - x, jnp.maximum(x, y) * x))(b, x, y)
    np.testing.assert_array_equal(np.asarray(got[0]), (b + x) * y - x)
    np.testing.assert_array_equal(np.asarray(got[1]), np.maximum(x, y) * x)
    np.testing.assert_allclose(fgrad.jit(lambda x, y: jnp.exp(x) - y)(x, y), np.exp(x) - y, rtol=2e-6)


PARTS = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3), st.integers(2, 70), st.integers(2, 90), st.integers(1, 9), st.lists(PARTS, min_size=1, max_size=5), st.booleans(),
    st.sampled_from(["float32", "int32", "int8", "bool"])
)  # fmt: skip
def test_parts_of_matrices(planes, rows, cols, gap, parts, put, dtype):
    """Rows that end before those of memory do: the walk goes over the gaps, beside operands whose rows are others."""
    rng = np.random.default_rng(rows * cols)
    big = rng.integers(-4, 5, (planes, rows + 2, cols + gap)).astype(dtype)
    full, column = rng.integers(-4, 5, (planes, rows, cols)).astype(dtype), rng.integers(-4, 5, (rows, 1)).astype(dtype)

    def program(xp, big, full, column):
        total = column
        for i, j, k in parts:
            x = full if k == 3 else big[:, i : i + rows, min(j, gap) : min(j, gap) + cols]
            total = total | x if dtype == "bool" else (total + x, total * x, xp.maximum(total, x))[k % 3]
        return total

    want = program(np, big, full, column)
    if put:
        want, inner = big.copy(), want
        want[:, 1 : 1 + rows, :cols] = inner
    run = fgrad.jit(lambda *a: a[0].at[:, 1 : 1 + rows, :cols].set(program(jnp, *a)) if put else program(jnp, *a))
    np.testing.assert_array_equal(run(big, full, column), want)


@pytest.mark.parametrize("lead, cols", [((7,), 520), ((5, 3), 260), ((3, 5), 768), ((2, 3, 4), 1001), ((3, 4), 2500), ((5,), 5000)])
def test_rows_follow_each_other(lead, cols):
    """Tiles of one row, or of parts of one, whose pointers only move on; columns change where an outer axis does."""
    rng = np.random.default_rng(cols)
    x, column, row = (rng.integers(-4, 5, s).astype(np.float32) for s in ((*lead, cols), (*lead, 1), (cols,)))
    outer = rng.integers(-4, 5, (lead[0], *[1] * len(lead))).astype(np.float32)

    def program(xp, x, column, row, outer):
        y = (x - column) * outer
        return y + row, xp.sum(y, -1), xp.max(xp.maximum(y, row), -1), xp.sum(y * x, -1)

    for got, want in zip(fgrad.jit(lambda *a: program(jnp, *a))(x, column, row, outer), program(np, x, column, row, outer)):
        np.testing.assert_array_equal(got, want)
    taken_over = fgrad.jit(lambda *a: program(jnp, *a)[0], donate_argnums=0)(jnp.array(x), column, row, outer)
    np.testing.assert_array_equal(taken_over, program(np, x, column, row, outer)[0])


@pytest.mark.parametrize("n", [262_144, 263_001, 700_003])
def test_long_tiles_of_one_strip(n):
    """Longer tiles of one program of stages keep its bits, also across the ends of windows and with several results."""
    x = np.random.default_rng(0).normal(size=(2, n)).astype("f")
    programs = [
        lambda x, y: (x * 2 + y) * x - y / 3,
        lambda x, y: (x * y, (x - y) * x + 1),
        lambda x, y: jnp.roll(x * x, 5) * y - jnp.roll(y, -3) * x,
        lambda x, y: jnp.pad(x[1:] * y[1:] - x[:-1], (1, 0)) * 2 + x,
    ]
    results = []
    for elements in (2048, 8192):
        before = vm_plan.longest_strip_tile(elements)
        try:
            results.append([fgrad.jit(lambda x, y, f=f: f(x, y))(*x) for f in programs])
        finally:
            assert vm_plan.longest_strip_tile(before) == elements
    for a, b in zip(*map(fgrad.tree.leaves, results), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    np.testing.assert_allclose(np.asarray(results[1][0]), (x[0] * 2 + x[1]) * x[0] - x[1] / 3, rtol=1e-5, atol=1e-5)


ROWS = (1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 190, 192, 255, 256, 257, 320, 511, 2048, 2049)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("cols", ROWS)
def test_rows_that_each_lie_elsewhere(cols, dtype):
    """A strip of a row ends behind it, where another operand's row has another place: the last rows have nothing behind them."""
    rng = np.random.default_rng(cols)
    wide, even, narrow, box = (rng.integers(-4, 5, s).astype(dtype) for s in ((5, cols + 2), (5, cols), (5, cols + 1), (2, 3, cols + 2)))
    column, row = wide[:, :1].copy(), even[0]

    def steps(xp, wide, even, narrow, box):
        shift = wide[:, 2:] - 2 * wide[:, :-2] + even
        return shift, narrow[:, 1:] * 3 + shift * column - row, box[:, :2, 1:-1] * 2 + box[:, 1:, 2:] - box[:, :2, :-2]

    with fgrad.enable_x64():
        got = fgrad.jit(lambda *xs: steps(jnp, *xs))(*map(jnp.asarray, (wide, even, narrow, box)))
        for x, y in zip(got, steps(np, wide, even, narrow, box)):
            assert x.dtype == dtype
            np.testing.assert_array_equal(np.asarray(x), y)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cols", [64, 100, 126, 129, 254, 300, 1000])
def test_rows_in_the_middle_of_an_array_are_updated_in_place(cols, threads):
    """What lies beside a row that a loop writes stays as it is, and so does what the next row reads."""
    rng = np.random.default_rng(cols)
    a, b = (rng.integers(-4, 5, (40, cols + 2)).astype(np.float32) for _ in range(2))

    def body(i, c):
        a, b = c
        a = a.at[1:-1, 1:-1].add(b[2:, 1:-1] - b[:-2, 1:-1] + b[1:-1, 2:])
        return a, b.at[:-1, :-1].set(a[1:, 1:] - b[:-1, :-1])

    before = fgrad.get_num_threads()
    fgrad.set_num_threads(threads)
    got = fgrad.jit(lambda a, b: fgrad.lax.fori_loop(0, 3, body, (a, b)))(a, b)
    fgrad.set_num_threads(before)
    for _ in range(3):
        a[1:-1, 1:-1] += b[2:, 1:-1] - b[:-2, 1:-1] + b[1:-1, 2:]
        b[:-1, :-1] = a[1:, 1:] - b[:-1, :-1]
    np.testing.assert_array_equal(np.asarray(got[0]), a)
    np.testing.assert_array_equal(np.asarray(got[1]), b)


@pytest.mark.parametrize("cols", [97, 100, 127, 128, 129, 256, 300])
@pytest.mark.parametrize("rows", [3, 150])
def test_rows_within_boxes(rows, cols):
    """Pads and slices of arrays whose rows are shorter: a row is on one side of a box, or cut by it; the first begin before memory."""
    rng = np.random.default_rng(cols)
    u = rng.integers(-4, 5, (rows, cols)).astype(np.float32)
    a, b = rng.integers(-4, 5, (rows, cols - 1)).astype(np.float32), rng.integers(-4, 5, (rows - 1, cols)).astype(np.float32)

    def program(xp, a, b, u):
        right, left = xp.pad(a, ((0, 0), (1, 0))), xp.pad(a, ((0, 0), (0, 1)))
        return right * 2 + left - xp.pad(b, ((1, 0), (0, 0))) * u + xp.pad(b, ((0, 1), (0, 0)))

    np.testing.assert_array_equal(fgrad.jit(lambda *xs: program(jnp, *xs))(a, b, u), program(np, a, b, u))


@pytest.mark.parametrize("dtype", ["int16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 40), (16, 128), (33, 17), (130, 64), (300, 300), (3, 20, 50)])
def test_transposed_operands(shape, dtype):
    """Columns come to tiles in square blocks, and what is left of them one by one."""
    rng = np.random.default_rng(shape[0])
    a, b = rng.integers(-9, 9, shape).astype(dtype), rng.integers(-9, 9, shape[::-1]).astype(dtype)
    with fgrad.enable_x64():
        np.testing.assert_array_equal(fgrad.jit(lambda a, b: a.T * 2 + b)(a, b), a.T * 2 + b)
