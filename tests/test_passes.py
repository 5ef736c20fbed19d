"""Each compiler pass may be turned off: results agree, and each does what it is for."""

import contextlib
import gc

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn
from fgrad.compile.fuse import Unit
from fgrad.compile.values import Buf, Node

PASSES = [
    "pass_sparse",
    "pass_motion",
    "pass_accumulate",
    "pass_masked",
    "pass_members",
    "pass_branches",
    "pass_dce",
    "pass_cse",
    "pass_fold",
    "pass_simplify",
    "pass_stacks",
    "pass_margins",
    "pass_attention",
    "pass_norms",
    "pass_shift",
    "pass_fuse",
    "pass_frames",
    "pass_recompute",
    "pass_tile",
    "pass_flat",
    "pass_machine",
]


def attention(x):
    mask = jnp.arange(x.shape[0])[:, None] >= jnp.arange(x.shape[0])[None, :]
    return nn.softmax(jnp.where(mask, x @ x.T, -1e9), -1) @ x


def rotary(x):
    angle = jnp.arange(x.shape[0])[:, None] * jnp.exp(-jnp.arange(x.shape[1]) / 3.0)
    return x * jnp.cos(angle) + x[:, ::-1] * jnp.sin(angle)


def loop(x):
    return lax.scan(lambda c, row: (jnp.tanh(c + row * 1.0), c.sum() - 0), x[0], x)


def one_hot_loss(x):
    labels = jnp.arange(x.shape[0]) % x.shape[1]
    return -jnp.mean(jnp.sum(nn.log_softmax(x) * nn.one_hot(labels, x.shape[1]), -1))


PROGRAMS = {f.__name__: f for f in (attention, rotary, loop, one_hot_loss)}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("off", [*PASSES, "all"])
def test_results_agree_without(off, name):
    fun = PROGRAMS[name]
    x = jnp.asarray(np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32))
    scalar = lambda x: sum(jnp.sum(y * y) for y in fgrad.tree.leaves(fun(x)))

    for f in (fun, fgrad.grad(scalar)):
        want = fgrad.jit(f)(x)
        with contextlib.ExitStack() as stack:
            for p in PASSES if off == "all" else [off]:
                stack.enter_context(fgrad.config.override(p, False))
            got = fgrad.jit(f)(x)
        for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def instructions(fun, x):
    return len(fgrad.jit(fun).lower(x).compile().profile(x, repeat=1))


def test_constants_are_computed_while_compiling():
    x = jnp.ones((6, 4))
    assert instructions(rotary, x) == 1
    with fgrad.config.override("pass_fold", False):
        assert instructions(rotary, x) > 1


def test_large_constants_are_not_folded():
    f = lambda x: x + jnp.sin(jnp.arange(200_000.0))
    compiled = fgrad.jit(f).lower(jnp.ones(200_000)).compile()
    assert any("iota" in label for _, label in compiled.profile(jnp.ones(200_000), repeat=1))


SPECIALS = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-42, 3e38], np.float32)


@pytest.mark.parametrize(
    "fun, count",
    [
        (lambda x, y: lax.neg(lax.neg(x)) * y, 1),
        (lambda x, y: x + (-y), 1),
        (lambda x, y: -x + y, 1),
        (lambda x, y: x - (-y), 1),
        (lambda x, y: (-x) * (-y), 1),
        (lambda x, y: -(x * 3.0) + y, 2),
        (lambda x, y: (-x) * 3.0 - y, 2),
        (lambda x, y: x / 4.0 + y, 2),
        (lambda x, y: jnp.abs(-x) + y, 2),
        (lambda x, y: (x * 2.0) * 4.0 + y, 2),
        (lambda x, y: x * y - y * x, 2),
        (lambda x, y: jnp.where(x < y, y, y) * x, 1),
        (lambda x, y: x.astype(jnp.bfloat16).astype(jnp.float32).astype(jnp.bfloat16) + y.astype(jnp.bfloat16), None),
        (lambda x, y: jnp.max(jnp.broadcast_to(x, (3, 9)), 0) + y, 1),
        (lambda x, y: jnp.sum(jnp.broadcast_to(x, (2, 9)), 0) + y, 2),
        (lambda x, y: x - 0.0 + y * 1.0, 1),
        (lambda x, y: x - (-0.0) + y, 2),
        (lambda x, y: x * -1.0 + y, 1),
        (lambda x, y: jnp.where(x < y, 3.0, -0.0) / -8.0, 2),
        (lambda x, y: jnp.abs(jnp.where(x < y, 3.0, jnp.where(y > 1, jnp.inf, -2.0)) - 2), 4),
        (lambda x, y: jnp.where(x < y, 1.0, 0.0) * 3.0 + jnp.where(x < y, 0.0, -2.0), 2),
        (lambda x, y: jnp.where(x < y, x, 0.0) + jnp.where(x < y, 0.0, y), 3),
        (lambda x, y: jnp.where(x < y, 0.0, x) + jnp.where(x < y, y, 0.0), 3),
        (lambda x, y: jnp.where(x < y, x, 0.0) + jnp.where(x < y, -0.0, y), 4),
        (lambda x, y: (x < y).astype(jnp.float32) * 2.0, 2),
        (lambda x, y: (x.astype(jnp.float16) < 1).astype(jnp.float32) + y, None),
    ],
)
def test_algebra_keeps_every_special_value(fun, count):
    x = y = jnp.asarray(SPECIALS)
    for k in range(9):
        got = np.asarray(fgrad.jit(fun)(x, jnp.roll(y, k)), np.float32)
        with fgrad.config.override("pass_simplify", False):
            want = np.asarray(fgrad.jit(fun)(x, jnp.roll(y, k)), np.float32)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
    if count is not None:
        (label,) = [label for _, label in fgrad.jit(fun).lower(x, y).compile().profile(x, y, repeat=1)]
        assert label.split(" ")[0].count("+") + 1 == count, label


@pytest.mark.parametrize(
    "fun, count",
    [
        (lambda i: jnp.clip(jnp.clip(i, 0, 9), 0, 9), 2),
        (lambda i: lax.clamp(0, jnp.clip(i, 2, 7), 9), 2),
        (lambda i: lax.clamp(3, jnp.clip(i, 2, 7), 9), 3),
        (lambda i: lax.clamp(0, jnp.clip(i, 2, 11), 9), 3),
        (lambda i: lax.clamp(0, lax.clamp(9, i, 2), 5), 1),
        (lambda i: lax.clamp(0, jnp.minimum(i, 7), 9), 2),
        (lambda i: jnp.where(jnp.maximum(i, 0) < 0, i + 10, jnp.maximum(i, 0)), 1),
        (lambda i: jnp.where(jnp.maximum(i, -1) < 0, i + 10, jnp.maximum(i, -1)), 4),
        (lambda i: jnp.where(jnp.minimum(i, 3) < 0, i + 10, jnp.minimum(i, 3)), 4),
        (lambda i: jnp.maximum(i, 0) // 5, 2),
        (lambda i: jnp.maximum(i, 0) % 5, 4),
        (lambda i: jnp.maximum(i, -1) // 5, 6),
        (lambda i: jnp.minimum(jnp.maximum(i, 0) % 5, 4), 4),
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_bounds_that_integers_are_within_are_not_computed(fun, count, dtype):
    i = jnp.arange(-13, 20, dtype=dtype)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(fun)(i)
    np.testing.assert_array_equal(fgrad.jit(fun)(i), want)
    (label,) = [label for _, label in fgrad.jit(fun).lower(i).compile().profile(i, repeat=1)]
    assert label.split(" ")[0].count("+") + 1 == count, label


def _random_index(r, i, k, n):
    """An integer made of a counter and a constant, by operations whose bounds are known, and by some that wrap around."""
    ops = [
        lambda i, c: i + c,
        lambda i, c: c - i,
        lambda i, c: i * c,
        lambda i, c: jnp.where(i < c, i + n, i),
        lambda i, c: jnp.clip(i, c, n),
        lambda i, c: lax.rem(i, jnp.full_like(i, abs(c) + 1)),
        lambda i, c: lax.div(i, jnp.full_like(i, abs(c) + 1)),
        lambda i, c: i & (abs(c) + 1),
        lambda i, c: i ^ k,
        lambda i, c: jnp.maximum(i, k),
        lambda i, c: (i << 1) | 1,
        lambda i, c: jnp.abs(i) >> 1,
        lambda i, c: -i,
        lambda i, c: i + k * 31,
    ]
    for _ in range(r.integers(1, 6)):
        i = ops[r.integers(len(ops))](i, int(r.integers(-3, 4)))
    return i


def _counting(kind, dtype, seed):
    """(a loop that indexes by its counter, arguments)."""
    r = np.random.default_rng([seed, len(kind)])
    lo, step, length, n, draws = (int(r.integers(*ends)) for ends in ((0, 120), (1, 4), (0, 9), (1, 12), (0, 1 << 30)))
    first, one = jnp.asarray(lo, dtype), jnp.asarray(step, dtype)

    def use(x, i, k):
        r = np.random.default_rng(draws)
        for mode in ("fill", "clip", None):
            j = _random_index(r, i, k, n)
            x = x.at[j].add(x.at[_random_index(r, i, k, n)].get(mode=mode) + 1, mode="drop")
            x = x + jnp.where(j < n, j, 0) + (j >= k)
        return jnp.where(x > 1e6, 0, x)

    def fun(start, top, x):
        if kind == "fori":
            return lax.fori_loop(lo % 7, lo % 7 + length, lambda i, x: use(x, i.astype(dtype), one), x)
        if kind == "nested":
            inner = lambda i, x: lax.fori_loop(i, i + 3, lambda j, x: use(x, j.astype(dtype), i.astype(dtype)), x)
            return lax.fori_loop(0, length, inner, x)
        if kind == "wraps":  # past the dtype's end
            return lax.scan(lambda c, _: ((c[0] + one * 9, use(c[1], c[0], one)), None), (first, x), None, length=length * 3)[0][1]
        if kind == "both ways":
            turn = lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, s[0] + 5), s[1] + 1, use(s[2], s[0], one))
            return lax.while_loop(lambda s: (s[0] < top) & (s[1] < 9), turn, (start, 0, x))[2]
        if kind == "down":
            down = lambda s: (s[0] - one, s[1] + 1, use(s[2], s[0], one))
            return lax.while_loop(lambda s: (one * 2 <= s[0]) & (s[1] < 9), down, (first if seed % 2 else start, 0, x))[2]
        up = lambda s: (one + s[0], s[1] + 1, use(s[2], s[0], one))
        return lax.while_loop(lambda s: (s[1] < 9) & ~(s[1] > 20) & (top > s[0]), up, (first if seed % 2 else start, 0, x))[2]

    return fun, (first, jnp.asarray(min(lo + 6, 127), dtype), jnp.arange(float(n)))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize("kind", ["fori", "down", "while", "both ways", "nested", "wraps"])
def test_counters_have_bounds(kind, dtype):
    """What is left out for a counter's bounds changes nothing: neither where it wraps around nor where a loop has no turn."""
    for seed in range(4):
        fun, args = _counting(kind, dtype, seed)
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.jit(fun)(*args)
        np.testing.assert_array_equal(fgrad.jit(lambda *a, fun=fun: fun(*a))(*args), want)


def test_indices_made_of_counters_are_taken_as_they_are():
    cells = lambda x: lax.fori_loop(1, 9, lambda i, x: x.at[i].set(x[i - 1] + x.at[i + 1].get(mode="fill")), x)
    jitted, x = fgrad.jit(cells), jnp.arange(10.0)
    with fgrad.config.override("pass_simplify", False):
        want = fgrad.jit(lambda x: cells(x))(x)
    np.testing.assert_array_equal(jitted(x), want)
    assert 0 < jitted.lower(x).compile()._traced.program.num_flat_ops <= 14  # two sums, two takes, a sum, a put, and what counts


def test_single_values_are_computed_once():
    """What is computed of single values alone is one value, where its array would be large."""
    x = jnp.arange(5000.0)
    f = lambda a, b: x + jnp.broadcast_to(jnp.sin(a), x.shape) * jnp.broadcast_to(b, x.shape)
    labels = [label for _, label in fgrad.jit(f).lower(2.0, 3.0).compile().profile(2.0, 3.0, repeat=1)]
    assert sorted(labels) == ["add [5000]", "sin+mul []"] and f(2.0, 3.0)[1] == fgrad.jit(f)(2.0, 3.0)[1]


@pytest.mark.parametrize(
    "shape, axes, apart",
    [
        ((64, 500), (1,), [64]),
        ((64, 500), (0,), [500]),
        ((8, 60, 500), (0, 2), [60]),
        ((64, 40), (1,), None),  # too little work
        ((4, 3000), (0,), None),  # repeats too few times
        ((1, 9000, 1), (), None),
    ],
)
def test_what_repeats_is_computed_once(shape, axes, apart):
    """What is computed of operands that repeat along some axes is an instruction of its own, where that saves enough work."""
    part = tuple(1 if a in axes else n for a, n in enumerate(shape))
    x, c = jnp.ones(shape), jnp.linspace(0.5, 1.5, int(np.prod(part))).reshape(part)
    fun = fgrad.jit(lambda x, c: x * jnp.exp(jnp.broadcast_to(c, x.shape)))
    labels = [label for _, label in fun.lower(x, c).compile().profile(x, c, repeat=1)]
    assert sorted(labels) == ([f"exp {apart}", f"mul {list(shape)}"] if apart else [f"exp+mul {list(shape)}"])
    np.testing.assert_allclose(fun(x, c), np.broadcast_to(np.exp(c), shape), rtol=1e-6)


def test_columns_are_divided_by_over_short_rows_as_they_are():
    """A column is spread over short rows in memory, which costs as much as the division that it would save."""
    x, c = jnp.ones((1000, 50)), jnp.linspace(0.5, 1.5, 1000)[:, None]
    labels = [
        label for _, label in fgrad.jit(lambda x, c: x * (1 / jnp.broadcast_to(c, x.shape))).lower(x, c).compile().profile(x, c, repeat=1)
    ]
    assert len(labels) == 1


def test_numbers_from_outside_are_part_of_the_program():
    """Arrays of rank 0 that a jitted function closes over: the cotangent 1 of a gradient costs no product."""
    k = jnp.float32(3)
    f = fgrad.jit(fgrad.grad(lambda x: jnp.sum(jnp.where(x > 0, x, 0.5 * x)) * k))
    x = jnp.array([1.0, -1.0])
    (label,) = [label for _, label in f.lower(x).compile().profile(x, repeat=1)]
    assert label == "gt+select [2]" and f(x).tolist() == [3.0, 1.5]


def test_equal_paddings_add_before_they_pad():
    fun = lambda x, y: lax.pad(x, 0.0, [(1, 2, 0)]) + lax.pad(y, 0.0, [(1, 2, 0)])
    x, y = jnp.arange(4.0), jnp.array([-0.0, -1.0, np.inf, np.nan])
    np.testing.assert_array_equal(fgrad.jit(fun)(x, y), np.pad(x, (1, 2)) + np.pad(y, (1, 2)))
    got = [label.split(" ")[0] for _, label in fgrad.jit(fun).lower(x, y).compile().profile(x, y, repeat=1)]
    assert sorted(got) == ["add", "pad"]


def test_constants_and_products_in_either_order_are_shared():
    fun = lambda x, y: (x * y) + jnp.sin(y * x) + (x + 2.0) * (2.0 + x)
    assert len(labels := fgrad.jit(fun).lower(jnp.ones(3), jnp.ones(3)).compile().profile(jnp.ones(3), jnp.ones(3), repeat=1)) == 1
    assert labels[0][1].split(" ")[0].count("mul") == 2 and labels[0][1].count("add") == 3


def standardized(x):
    x = x - jnp.mean(x, axis=1, keepdims=True)
    return x / jnp.sqrt(jnp.mean(x * x, axis=1, keepdims=True) + 1e-5)


def test_compiling_leaves_nothing_to_the_garbage_collector():
    """Nodes, buffers and groups refer to each other: they are taken apart when the program is built."""
    f = fgrad.jit(fgrad.grad(lambda x: jnp.sum(jnp.tanh(x @ x) * standardized(x))))
    x = jnp.ones((512, 512))
    gc.collect()
    gc.disable()
    try:
        f(x)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [type(v).__name__ for v in gc.garbage if type(v) in (Node, Buf, Unit)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert left == []


def test_garbage_collection_is_as_before_after_tracing():
    @fgrad.jit
    def fails(x):
        assert not gc.isenabled()
        raise KeyError("from tracing")

    assert gc.isenabled()
    with pytest.raises(KeyError):
        fails(1.0)
    assert gc.isenabled()
    gc.disable()
    try:
        fgrad.jit(lambda x: x + 1)(2.0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_transposed_operands_are_copied_once():
    """A group that reads across memory has its operand copied by tiles first, once for all that read it, where it is large."""
    r = np.random.default_rng(0)
    x, y, z = (r.normal(size=s).astype(np.float32) for s in ((300, 200), (200, 300), (40, 50, 60)))
    cases = [
        (lambda x, y: x.T + y, (x, y), 1),
        (lambda x, y: (x.T * y).sum(0) + (x.T - y).sum(1).sum(), (x, y), 1),
        (lambda x, y: jnp.cumsum(x.T * 2, 1) * x.T, (x, y), 1),
        (lambda z: z.transpose(2, 1, 0) + 1, (z,), 1),
        (lambda z: jnp.transpose(z, (0, 2, 1)) * 2, (z,), 0),
        (lambda x, z: x.T[None] + z[:3, :1, :1], (x, z), 1),
        (lambda x, y: x[:20, :30].T + y[:30, :20], (x, y), 0),
    ]
    for f, args, copies in cases:
        labels = [label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args, repeat=1)]
        assert sum(label.startswith("copy") for label in labels) == copies, labels
        np.testing.assert_allclose(fgrad.jit(f)(*args), f(*(jnp.asarray(a) for a in args)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
def test_gathers_count_negative_indices_themselves(dtype):
    """No pass over the indices comes before a gather along one axis; another length, or another bound, is computed."""
    x = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    i = np.random.default_rng(1).integers(0 if dtype[0] == "u" else -70, 70, (40, 30)).astype(dtype)
    at = np.where(i < 0, i.astype(int) + 50, i)
    inside = (at >= 0) & (at < 50)
    want = np.where(inside, np.take_along_axis(x, at.clip(0, 49), 1), np.nan)

    def run(fun, *args):
        labels = [label for _, label in fgrad.jit(fun).lower(*args).compile().profile(*args, repeat=1)]
        return np.asarray(fgrad.jit(fun)(*args)), labels

    got, labels = run(lambda x, i: jnp.take_along_axis(x, i, 1), x, i)
    np.testing.assert_array_equal(got, want)
    assert dtype != "int32" or len(labels) == 1, labels
    got, labels = run(lambda x, i: jnp.take(x, i, 1), x, i[0])
    np.testing.assert_array_equal(got, np.where(inside[0], x[:, at[0].clip(0, 49)], np.nan))
    assert dtype != "int32" or len(labels) == 1, labels
    with fgrad.enable_x64():
        odd = lambda x, i: x[jnp.where(i < 0, i + 39, i)]  # not the axis' length  # noqa: E731
        x = jnp.asarray(x)
        np.testing.assert_array_equal(odd(x, jnp.asarray(i[0])), fgrad.jit(odd)(x, jnp.asarray(i[0])))


def test_a_mean_beside_a_variance_is_computed_once():
    def norm(x, w):
        return (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-5) * w

    x = np.random.default_rng(0).normal(3, 2, (700, 57)).astype(np.float32)
    w = np.linspace(0.5, 2, 57).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * w
    with fgrad.config.override("pass_norms", False):
        steps = " ".join(name for _, name in fgrad.jit(norm).lower(x, w).compile().profile(x, w))
    assert "moments" in steps and "sum" not in steps
    np.testing.assert_allclose(fgrad.jit(norm)(x, w), expected, atol=2e-5)
    for axis in (0, 1):  # results themselves, other axes and other divisors
        f = lambda x, axis=axis: (
            jnp.mean(x, axis),
            jnp.var(x, axis),
            x.sum(axis),
            x - x.sum(axis, keepdims=True) / 3,
            x.mean(1 - axis),
            jnp.mean(x, axis) * x.std(axis),
        )
        e = (
            wide.mean(axis),
            wide.var(axis),
            wide.sum(axis),
            wide - wide.sum(axis, keepdims=True) / 3,
            wide.mean(1 - axis),
            wide.mean(axis) * wide.std(axis),
        )
        for a, b in zip(fgrad.jit(f)(x), e):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-4)
    loss = lambda norm: lambda x, w: (norm(x, w) ** 3).sum()
    builtin = lambda x, w: fgrad.nn.standardize(x, epsilon=1e-5) * w
    for a, b in zip(fgrad.jit(fgrad.grad(loss(norm), (0, 1)))(x, w), fgrad.grad(loss(builtin), (0, 1))(x, w)):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-2)


PIECES = {
    "hard_swish": nn.hard_swish,
    "square where positive": lambda x: x * jnp.where(x > 0, x, 0.5),
    "of three constants": lambda x: x * jnp.where(x > 1, 2.0, jnp.where(x < -1, -3.0, x)),
    "two orders": lambda x: jnp.where(x > 1, 2.0, jnp.where(x < -1, -3.0, x)) + jnp.where(x < -1, 4.0, jnp.where(x > 1, 4.0, x * x)),
    "not the same order": lambda x: jnp.where(x > 1, 2.0, jnp.where(x > 0, -3.0, x)) - jnp.where(x > 0, 4.0, jnp.where(x > 1, 5.0, x * x)),
    "scaled": lambda x: jnp.where(x > 1, -0.0, x) * 0.75 - jnp.where(x > 1, 0.0, x * x) * 3.0,
}
SELECTIONS = {"hard_swish": (2, 2), "two orders": (2, 9), "scaled": (1, 9)}  # of f and of its gradient, at most


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_selections_by_the_same_masks_meet(name, dtype):
    """One chain of selections instead of two, with the bits that the operations have one by one."""
    f = PIECES[name]
    edges = [-np.inf, -4, -3, -1, -0.0, 0, 1, 1.5, 3, 4, np.inf, np.nan]
    x = np.concatenate([edges, np.linspace(-4, 4, 300)]).astype(dtype)
    with fgrad.enable_x64(dtype == "float64"):
        x = jnp.asarray(x)
        for g, most in zip((f, fgrad.vmap(fgrad.grad(f))), SELECTIONS.get(name, (9, 9))):
            got = fgrad.jit(g)(x)
            labels = fgrad.jit(g).lower(x).compile().profile(x, repeat=1)
            assert sum(label.count("select") for _, label in labels) <= most, labels
            with fgrad.config.override("pass_simplify", False):
                want = fgrad.jit(lambda x, g=g: g(x))(x)
            quotient = 1e-6 if name == "hard_swish" else 0  # x / 6 is x * (1 / 6) in simplified programs
            np.testing.assert_allclose(got, want, rtol=0, atol=quotient)
            np.testing.assert_array_equal(np.signbit(got)[x == x], np.signbit(want)[x == x])


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_vmapped_loops_within_each_other_select_once(levels):
    x = np.random.default_rng(0).standard_normal((3, 4, 5)[:levels]).astype(np.float32)
    grow = lambda x: lax.while_loop(lambda s: (s[1] < 20) & (s[0] < 10), lambda s: (s[0] * 1.5 + 0.25, s[1] + 1), (x, 0))
    f = grow
    for _ in range(levels):
        f = fgrad.vmap(f)
    got = fgrad.jit(f)(x)
    want = [grow(v) for v in x.ravel()]
    for k in range(2):
        np.testing.assert_allclose(np.ravel(got[k]), [float(w[k]) for w in want], rtol=1e-6)


@pytest.mark.parametrize("c", [3, -7, 2**24 + 1, 2**53 + 1, 0.1, -0.0, 1e-46, 3.4e38, float("inf"), float("nan"), True])
def test_python_numbers_beside_traced_float32_are_numpys(c):
    x = np.float32([1.5, -0.25, 0.0])
    with np.errstate(invalid="ignore", over="ignore"):
        np.testing.assert_array_equal(fgrad.jit(lambda x: x + c)(x), x + np.float32(c))
        np.testing.assert_array_equal(fgrad.jit(lambda x: jnp.multiply(c, x))(x), np.float32(c) * x)


def test_signed_zeros_are_two_constants():
    got = fgrad.jit(lambda x: (x * 0.0, x * -0.0))(jnp.ones(3))
    assert [bool(np.signbit(v).all()) for v in got] == [False, True]


def test_a_long_chain_of_operations_on_one_group_after_another():
    def f(x):
        for i in range(400):
            x = jnp.sin(x) * 1.5 + float(i % 7)
        return x, x.sum()

    want = x = np.float32([0.1, 2.0, -3.0])
    for i in range(400):
        want = np.sin(want) * np.float32(1.5) + np.float32(i % 7)
    got, total = fgrad.jit(f)(x)
    np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(total, np.asarray(got).sum(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float16])
@pytest.mark.parametrize(
    "shape, axes",
    [((5, 7, 2, 9, 2), (2, 4)), ((2, 3, 4, 8, 3), (0, 2, 4)), ((3, 5, 4), (0, 2)), ((6, 2, 0, 2), (1, 3)), ((2, 2, 3, 2), (0, 1, 3))],
)
def test_blocks_reduced_around_kept_axes(shape, axes, dtype):
    """Short axes apart from the last one are folded slice by slice; the values are those of NumPy, NaN included."""
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)
    if x.size and dtype != np.int32:
        x.flat[7] = np.nan
    for name in ("max", "min", "sum"):
        for operand in (lambda v: v, lambda v: v * 2 + 1, lambda v: v[..., ::-1]):
            got = fgrad.jit(lambda v: getattr(operand(v), name)(axes))(jnp.asarray(x))  # noqa: B023
            np.testing.assert_array_equal(got, getattr(operand(x), name)(axes))
    spread = np.broadcast_to(x[:, :1], shape)
    got = fgrad.jit(lambda v: jnp.broadcast_to(v[:, :1], shape).sum(axes))(jnp.asarray(x))
    np.testing.assert_array_equal(got, spread.sum(axes))


def test_products_that_contract_nothing_fuse_as_elementwise_ones():
    """A reduction over no axes beside one over all: their group took the first for a reduction of the same axes."""
    a, b = np.random.default_rng(0).standard_normal((2, 9)).astype(np.float32)

    def f(a, b):
        h = jnp.einsum("a,a->a", a, b)
        return b.sum(), h, jnp.sum(jnp.maximum(b.sum(), h) * h)

    got = fgrad.jit(f)(a, b)
    h = a * b
    for g, want in zip(got, (b.sum(), h, (np.maximum(b.sum(), h) * h).sum()), strict=True):
        np.testing.assert_allclose(g, want, rtol=1e-5)
    np.testing.assert_array_equal(fgrad.jit(lambda x: lax.reduce_max_p.bind(x, axes=()))(a), a)
