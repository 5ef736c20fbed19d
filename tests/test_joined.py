"""Concatenations of what fused groups compute are written by the groups: the same values, one instruction less."""

import warnings

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def instructions(fun, *args):
    return [name for _, name in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]


def rotated(x, c, s):
    a, b = jnp.split(x, 2, -1)
    return jnp.concatenate([a * c - b * s, b * c + a * s], -1)


def parts(x, y):
    return jnp.concatenate([x * y, x + y, x - 2 * y], 0)


def middle(x, y):
    return jnp.concatenate([(x * y)[:, None], (x - y)[:, None]], 1)


def stacked(x, y):
    return jnp.stack([x * y, x / 2, y - x], 0) * 1


def read_again(x, y):
    u = x * y
    return jnp.concatenate([u, x + y], 0), u.sum()


def twice(x, y):
    u = x * y
    return jnp.concatenate([u, u], 0)


def halves(x, y):
    return jnp.concatenate([(x * y).astype("float16"), (x + y).astype("float16")], 1)


def wide(x, y):
    return jnp.concatenate([x * y, jnp.sum(x + y, 1, keepdims=True) + x], 1)


PROGRAMS = [parts, middle, stacked, read_again, twice, halves, wide]


@pytest.mark.parametrize("shape", [(100, 64), (64, 100), (3, 5000), (700, 17), (64, 16, 32)], ids=str)
@pytest.mark.parametrize("fun", PROGRAMS, ids=lambda f: f.__name__)
def test_same_values(fun, shape):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype("float32") for _ in range(2))
    got = fgrad.tree.leaves(fgrad.jit(fun)(x, y))
    with warnings.catch_warnings(action="ignore"):  # no result may have the shape of what is donated
        donated = fgrad.tree.leaves(fgrad.jit(fun, donate_argnums=(0, 1))(jnp.array(x), jnp.array(y)))
    with fgrad.config.override("pass_fuse", False):
        want = fgrad.tree.leaves(fgrad.jit(lambda *a: fun(*a))(x, y))
    for a, b, c in zip(got, want, donated):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(a, c)


def test_one_instruction():
    rng = np.random.default_rng(0)
    x, c, s = (rng.standard_normal(n).astype("float32") for n in ((4, 64, 8, 64), (64, 1, 32), (64, 1, 32)))
    a, b = x[..., :32], x[..., 32:]
    np.testing.assert_allclose(fgrad.jit(rotated)(x, c, s), np.concatenate([a * c - b * s, b * c + a * s], -1), rtol=1e-5, atol=1e-6)
    assert len(instructions(rotated, x, c, s)) == 1
    y = rng.standard_normal((100, 64)).astype("float32")
    assert [len(instructions(f, y, y)) for f in (parts, middle)] == [1, 1]
    assert len(instructions(read_again, y, y)) > 1
    narrow = rng.standard_normal((5000, 2)).astype("float32")
    assert any("concatenate" in i for i in instructions(lambda x: jnp.concatenate([x * 2, x + 1], 1), narrow))


def test_carries_of_loops():
    """A piece of a carry that the group reads itself is no place to write before it is read."""
    x = np.random.default_rng(0).standard_normal((2, 4096)).astype("float32") * 0.1

    def step(i, x):
        a, b = x[:1], x[1:]
        return jnp.concatenate([b * 0.5 + a, a - b * 0.25], 0)

    want = x
    for _ in range(5):
        want = np.concatenate([want[1:] * np.float32(0.5) + want[:1], want[:1] - want[1:] * np.float32(0.25)])
    np.testing.assert_allclose(fgrad.jit(lambda x: fgrad.lax.fori_loop(0, 5, step, x))(x), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(fgrad.jit(lambda x: step(0, x), donate_argnums=0)(jnp.array(x)), step(0, jnp.array(x)), rtol=1e-6)


def slices_of_rows(x):
    return (jnp.sin(x[:, :16]) * x[:, 16:32]).sum() + (x[:, 32:] ** 3).sum()


def columns(x):
    return (x[:, 0] * x[:, 1] - x[:, 2] ** 2).sum()


def inner_rows(x):
    return (x[1:3] * 2).sum() + (x[3:10] ** 2).sum() + x[12:, 2:].sum()


def reversed_order(x):
    return (x[10:] ** 2).sum() + (x[:10] ** 3).sum()


def overlapping(x):
    return (x[:10] ** 2).sum() + (x[5:] ** 3).sum()


@pytest.mark.parametrize("shape", [(20, 48), (300, 48), (5000, 48)], ids=str)
@pytest.mark.parametrize("fun", [slices_of_rows, columns, inner_rows, reversed_order, overlapping], ids=lambda f: f.__name__)
def test_cotangents_of_slices_are_joined(fun, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    got = fgrad.jit(fgrad.grad(fun))(x)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(fgrad.grad(lambda x: fun(x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_neighbours_padded_with_zeros():
    """Sums of them: of every order, with nothing lost between, and without -0."""
    x = np.random.default_rng(0).standard_normal((100, 6)).astype("float32")
    x[3] = -0.0
    pad = lambda x, lo, hi: fgrad.lax.pad(x, np.zeros((), x.dtype)[()], ((0, 0, 0), (lo, hi, 0)))
    for dtype in ("float32", "int32", "bfloat16", "complex64"):
        y = jnp.array(x).astype(dtype)
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)):
            for gap in (0, 1):
                ends = [(0, 4 + gap), (2, 2 + gap), (4 + gap, 0)]

                def add(y, order=order, ends=ends, gap=gap):
                    p = [pad(y[:, 2 * k : 2 * k + 2], *ends[k]) for k in order]
                    return p[0] + p[1] + p[2]

                want = np.zeros((100, 6 + gap), np.asarray(y).dtype)
                want[:, :4], want[:, 4 + gap :] = np.asarray(y)[:, :4] + 0, np.asarray(y)[:, 4:] + 0
                got = np.asarray(fgrad.jit(add)(y))
                assert got.tobytes() == want.tobytes()
    grad = fgrad.grad(lambda a, b: jnp.cross(a, b).sum())
    a, b = x[:, :3].copy(), x[:, 3:].copy()
    np.testing.assert_allclose(fgrad.jit(grad)(a, b), np.cross(b, np.ones_like(b)), rtol=1e-5, atol=1e-6)
    assert not any("pad" in i for i in instructions(grad, a, b))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("rows", [(5000,), (70, 9, 13), (3, 5000)], ids=str)
def test_columns_are_written_together(rows, count, dtype):
    x, y = (np.random.default_rng(k).integers(-5, 6, rows).astype(dtype) for k in (0, 1))
    fun = lambda xp, x, y: xp.stack([x * y, x + y * 2, y - x * 3, x * x * y][:count], -1)
    unrelated = lambda xp, x, y: xp.stack([x * 2, y + 1], -1)
    with fgrad.enable_x64():
        np.testing.assert_array_equal(fgrad.jit(lambda x, y: fun(jnp, x, y))(x, y), fun(np, x, y))
        np.testing.assert_array_equal(fgrad.jit(lambda x, y: unrelated(jnp, x, y))(x, y), unrelated(np, x, y))
        assert not any("concatenate" in i for i in instructions(lambda x, y: fun(jnp, x, y), x, y))


def test_unrelated_pieces():
    """Groups that share nothing write the pieces of one array; a donated argument that one of them reads is not overwritten by another."""
    x, y = (np.random.default_rng(k).standard_normal((100, 200)).astype("float32") for k in (0, 1))
    fun = lambda a, b, xp=jnp: xp.concatenate([xp.cumsum(a, 0) * 2, b[:, ::2] + 1], 1)
    np.testing.assert_allclose(fgrad.jit(fun)(x, y), fun(x, y, np), rtol=1e-5, atol=1e-5)
    z = np.random.default_rng(2).standard_normal((100, 300)).astype("float32")
    both = lambda z, a: jnp.concatenate([jnp.sin(a), jnp.cos(z[:, 100:] + z[:, :200])], 1)
    want = np.concatenate([np.sin(x[:, :100]), np.cos(z[:, 100:] + z[:, :200])], 1)
    np.testing.assert_allclose(fgrad.jit(both, donate_argnums=0)(jnp.array(z), x[:, :100].copy()), want, rtol=1e-5, atol=1e-5)


def rotary(x, c, s):
    half = x.shape[-1] // 2
    return x * c[:, None] + jnp.concatenate([-x[..., half:], x[..., :half]], -1) * s[:, None]


def read_by_a_kernel(x, c, s):
    return jnp.cumsum(rotary(x, c, s), 1) + rotary(x, s, c).sum()


def summed(x, c, s):
    return rotary(x, c, s).sum(-1)


def with_its_mirror(x, c, s):
    y = rotary(x, c, s)
    return y * y[..., ::-1]


def reshaped(x, c, s):
    return rotary(x, c, s).reshape(x.shape[0], x.shape[1], -1) * 2


@pytest.mark.parametrize("fun", [rotary, read_by_a_kernel, summed, with_its_mirror, reshaped], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_are_computed_by_parts(fun, dtype):
    """What is computed of a concatenation along short rows, and its gradient: as without any fusion."""
    rng = np.random.default_rng(0)
    x, c, s = (jnp.array(rng.standard_normal(shape)).astype(dtype) for shape in ((2, 30, 4, 128), (30, 128), (30, 128)))
    grad = lambda x, c, s: fgrad.grad(lambda *a: (fun(*a).astype("float32") ** 2).sum(), (0, 1, 2))(x, c, s)
    got = fgrad.jit(fun)(x, c, s), fgrad.jit(grad)(x, c, s)
    with fgrad.config.override("pass_fuse", False):
        want = fgrad.jit(lambda *a: fun(*a))(x, c, s), fgrad.jit(lambda *a: grad(*a))(x, c, s)
    tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        a, b = np.asarray(a).astype("float32"), np.asarray(b).astype("float32")
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.abs(b).max())
    assert fun is not rotary or not any("concatenate" in i for i in instructions(fun, x, c, s))


def every_second(x):
    return (x[:, ::2] ** 2).sum() + (x[:, 1::2] ** 3).sum()


def every_second_row(x):
    return (x[1::2] * x[::2]).sum()


def last_of_pairs(x):
    y = x.reshape(x.shape[0], -1, 2)
    return (y[..., 0] * y[..., 1] - y[..., 1] ** 3).sum() + (y[..., 0] ** 2).sum()


@pytest.mark.parametrize("fun", [every_second, every_second_row, last_of_pairs], ids=lambda f: f.__name__)
def test_cotangents_in_turn_are_joined(fun):
    x = np.random.default_rng(0).standard_normal((100, 64)).astype("float32")
    got = fgrad.jit(fgrad.grad(fun))(x)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(fgrad.grad(lambda x: fun(x)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert not any("pad" in i for i in instructions(fgrad.grad(fun), x))


@pytest.mark.parametrize("shape", [(-1, 128, 1), (-1, 64, 2), (-1, 5), (-1, 3, 128), (-1,)], ids=str)
def test_reshaped_concatenations_are_not_split_by_their_pieces(shape):
    """The last axis that the operations see is not that of the pieces, and need not be a multiple of their number."""
    x = np.random.default_rng(0).standard_normal((300, 64)).astype("float32")
    got = fgrad.jit(lambda x: jnp.concatenate([x, x], 1).reshape(shape) * 2 - 1)(x)
    np.testing.assert_allclose(got, np.concatenate([x, x], 1).reshape(shape) * 2 - 1, rtol=1e-6)


@pytest.mark.parametrize("shape", [(254,), (1000,), (30, 33), (7, 600), (40, 5, 9)], ids=str)
@pytest.mark.parametrize("axis", [0, -1])
def test_one_piece_that_is_nearly_all(shape, axis):
    x = np.random.default_rng(0).standard_normal(shape).astype("float32")
    rest = x.shape[axis] - 2

    def fun(x):
        first, middle, last = jnp.split(x, [1, 1 + rest], axis)
        return jnp.concatenate([first, middle * 2 + 1, last], axis)

    first, middle, last = np.split(x, [1, 1 + rest], axis)
    want = np.concatenate([first, middle * 2 + 1, last], axis)
    np.testing.assert_array_equal(fgrad.jit(fun)(x), want)
    grad = fgrad.jit(fgrad.grad(lambda x: (fun(x) ** 2).sum()))(x)
    np.testing.assert_allclose(grad, np.concatenate([2 * first, 4 * middle * 2 + 4, 2 * last], axis), rtol=1e-5, atol=1e-6)


def test_the_rest_is_copied():
    x = np.ones(1000, np.float32)
    names = instructions(lambda x: jnp.concatenate([x[:1], x[1:-1] * 2, x[-1:]]), x)
    assert not any(name.startswith("concatenate") for name in names) and len(names) == 3, names


@pytest.mark.parametrize("value", [0.0, -0.0, 2.5])
def test_an_update_of_one_value_is_a_pad(value):
    x = np.random.default_rng(0).standard_normal((20, 30)).astype("float32")

    def fun(x):
        return jnp.full((22, 33), value, "float32").at[1:-1, 2:-1].set(x * 3)

    want = np.full((22, 33), value, np.float32)
    want[1:-1, 2:-1] = x * 3
    got = np.asarray(fgrad.jit(fun)(x))
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))
    names = instructions(fun, x)
    assert not any("update" in name for name in names) and len(names) == 2, names


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "edge", "wrap"])
@pytest.mark.parametrize("shape", [(20, 30), (5, 17, 20), (3, 16, 6, 5), (1, 300), (300, 2)], ids=str)
def test_padded_by_its_own_elements_along_several_axes(shape, mode):
    """The array lies in the last result from the beginning, which is then read where it is written."""
    rng = np.random.default_rng(0)
    for dtype in ("float32", "int8", "complex64"):
        x = rng.integers(-99, 99, shape).astype(dtype)
        for width in (1, [(d % 3, 2 - d % 2) for d in range(len(shape))]):
            with warnings.catch_warnings(action="ignore"):
                want = np.pad(x, width, mode=mode)
            np.testing.assert_array_equal(fgrad.jit(lambda x: jnp.pad(x, width, mode=mode))(x), want)  # noqa: B023
            twice = fgrad.jit(lambda x: jnp.pad(x * 2, width, mode=mode) + 1)(x)  # noqa: B023
            np.testing.assert_array_equal(twice, np.pad(x * 2, width, mode=mode) + 1)
            both = fgrad.jit(lambda x: [y := jnp.pad(x, width, mode=mode), jnp.concatenate([y[:1], y[::-1], y[-1:]])])(x)  # noqa: B023
            np.testing.assert_array_equal(both[1], np.concatenate([want[:1], want[::-1], want[-1:]]))


def test_padding_along_two_axes_is_one_pass():
    x = np.ones((100, 90), np.float32)
    names = instructions(lambda x: jnp.pad(x, 2, mode="reflect"), x)
    assert len(names) == 5 and all(name.startswith("copy") for name in names), names


def test_parts_of_a_concatenation_side_by_side():
    """What is not all of the other axes, or does not lie as it would in the result, stays a concatenation of its own."""
    x = np.random.default_rng(0).standard_normal((40, 50)).astype("float32")

    def cropped(m, x):
        y = m.concatenate([x[1:2], x, x[-2:-1]], 0)
        return m.concatenate([y[2:, 3:4], y[2:], y[2:, 5:6]], 1)

    def moved(m, x):
        y = m.concatenate([x[1:2], x, x[-2:-1]], 0)
        return m.concatenate([y[:, 1:4], y[:, 2:], y[:, :2]], 1)

    def turned(m, x):
        y = m.concatenate([x[1:2], x, x[-2:-1]], 0)
        return m.concatenate([y[:, :3][::-1], y[:, 2:], y[::-1, -3:]], 1)

    def between(m, x):
        y = m.concatenate([x[1:2], x, x[-2:-1]], 0)
        return m.concatenate([y[:, :9], y[:, 9:10], y[:, 10:], y[:, 7:8]], 1)

    for fun in (cropped, moved, turned, between):
        np.testing.assert_array_equal(fgrad.jit(lambda x: fun(jnp, x))(x), fun(np, x))  # noqa: B023


def quadrants(x):
    return x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]


QUADRANTS = {
    "pooled": lambda x: jnp.maximum(jnp.maximum(*quadrants(x)[:2]), jnp.maximum(*quadrants(x)[2:])),
    "in another order": lambda x: jnp.maximum(jnp.maximum(*quadrants(x)[::3]), jnp.maximum(*quadrants(x)[1:3])),
    "Haar's": lambda x: (lambda a, b, c, d: (a + b + c + d) * (a - b + c - d) * (a + b - c - d))(*quadrants(x)),
    "three of them": lambda x: jnp.sin(quadrants(x)[0]) * quadrants(x)[2] + quadrants(x)[3],
    "rows": lambda x: x[:, ::2] * jnp.tanh(x[:, 1::2]),
    "and all": lambda x: jnp.prod(jnp.stack(quadrants(x)), 0) + x[:, : x.shape[1] // 2, : x.shape[2] // 2],
}


@pytest.mark.parametrize("shape", [(2, 12, 16), (3, 20, 8, 5), (1, 64, 64, 8)])
@pytest.mark.parametrize("name", QUADRANTS)
def test_cotangents_of_every_second_element(name, shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[0, 2:4, 2:4] = 0
    grad = lambda x: fgrad.grad(lambda x: jnp.sum(QUADRANTS[name](x) ** 2))(x)  # noqa: E731
    got = fgrad.jit(grad)(x)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(lambda x: grad(x))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["pooled", "in another order", "Haar's"])
def test_quadrants_are_put_together(name):
    names = instructions(fgrad.grad(lambda x: jnp.sum(QUADRANTS[name](x) ** 2)), jnp.ones((4, 64, 64, 8)))
    assert not any(["pad" in n or "window" in n for n in names]), names


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "bool"])
@pytest.mark.parametrize("n", [1, 2, 127, 129, 1000])
def test_columns_of_one_number_beside_others(n, dtype):
    """Ones beside coordinates are read as one number, where all pieces are columns; beside wider pieces they are copied."""
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((n, 9)) * 4).astype(dtype)

    def stacks(m, x):
        one, none = m.ones_like(x[:, 0]), m.zeros_like(x[:, 0])
        wide = m.broadcast_to(x[:1, :1], (n, 1))
        return (
            m.stack([one, x[:, 0], x[:, 5]], -1),
            m.stack([none, x[:, 0], one, x[:, 5], x[:, 8], none, x[:, 1], one, one], -1),
            m.concatenate([x[:, 3:5], wide, x[:, :3], one[:, None]], -1),
            m.stack([one] * 5, -1),
        )

    for got, want in zip(fgrad.jit(lambda x: stacks(jnp, x))(x), stacks(np, x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int32", "float32"])
@pytest.mark.parametrize("shape", [(20, 20), (40, 64), (64, 64), (70, 61), (4, 5000)])
def test_what_is_padded_and_read_beside(shape, dtype):
    """What a group pads and reads itself is computed twice, if that is cheap, and written between the margins where that pays."""
    x = jnp.asarray(np.random.default_rng(0).integers(0, 8, shape).astype(dtype))

    def topple(m, x):
        over = (x >= 4).astype(x.dtype)
        p = m.pad(over, 1)
        return x - 4 * over + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]

    def both(m, x):
        y = abs(x - 3)
        return m.pad(y, ((2, 1), (0, 3))), y * y, m.pad(x * 2, ((0, 2), (0, 0)))

    def run(x):
        return (*lax.fori_loop(0, 3, lambda i, s: (topple(jnp, s[0]),), (x,)), *both(jnp, x))

    want = np.asarray(x)
    for _ in range(3):
        want = topple(np, want)
    for got, expected in zip(fgrad.jit(run)(x), (want, *both(np, np.asarray(x))), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_a_cheap_operation_is_done_twice():
    x = jnp.ones((64, 64), jnp.int32)

    def step(x):
        over = (x >= 4).astype(x.dtype)
        p = jnp.pad(over, 1)
        return x - 4 * over + p[2:, 1:-1] + p[:-2, 1:-1]

    labels = [what for _, what in fgrad.jit(step).lower(x).compile().profile(x, repeat=1)]
    assert any(["select+select" in what for what in labels]), labels


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32", "float64"])
def test_pieces_of_rows(dtype):
    """Two arrays side by side, of all lengths that go by vectors: what a vector has too much is overwritten or left out."""
    join = fgrad.jit(lambda x, y: jnp.concatenate([x, y], 1))
    item = np.dtype(dtype).itemsize
    with fgrad.enable_x64():
        for a in (1, 7, 8, 20, 31, 32, 33, 64, 65, 96, 100, 127, 128, 129):
            for b in (1, 9, 24, 40, 64, 72, 97, 128, 136):
                for rows in (1, 2, 3, 7, 50):
                    x = np.arange(rows * max(1, a // item)).reshape(rows, -1).astype(dtype)
                    y = -np.arange(rows * max(1, b // item)).reshape(rows, -1).astype(dtype)
                    np.testing.assert_array_equal(np.asarray(join(x, y)), np.concatenate([x, y], 1))
