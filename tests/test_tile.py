"""Tiling over blocks of rows: the same results, and what cannot be cut is left alone."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from fgrad._kernels.executor import KINDS
from fgrad._kernels.parallel import most_threads
from fgrad.compile import program, rows, straighten, tile, writer

SHAPES = [(64, 8), (48, 3, 5), (16, 33), (7, 4), (1, 6), (32, 1)]


def factor(m, n):
    return jnp.asarray(np.random.default_rng(m + n).standard_normal((m, n)).astype(np.float32))


def by_rows(x):
    return jnp.sum(x * 2, tuple(range(1, x.ndim)), keepdims=True)


FUNCTIONS = {
    "shares": lambda x: jnp.exp(x - x.max(-1, keepdims=True)) / (1 + jnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)),
    "norm": lambda x: nn.layer_norm(x, jnp.ones(x.shape[-1:]) * 2, jnp.ones(x.shape[-1:])) * x,
    "two kernels": lambda x: nn.softmax(nn.rms_norm(x) + 1.0, -1),
    "other axis": lambda x: nn.softmax(nn.softmax(x, 0), 0) + x.mean(0),
    "rows and columns": lambda x: (x - by_rows(x)) / (1 + jnp.sum(x - by_rows(x), 0)),
    "reshaped": lambda x: jnp.tanh(nn.softmax(x, -1).reshape(-1) + 1.0).reshape(x.shape) * by_rows(x),
    "several results": lambda x: (by_rows(x), x - by_rows(x), (x - by_rows(x)).max(-1)),
    "sums over rows": lambda x: (
        (x - by_rows(x)).mean(0),
        (x * by_rows(x)).mean(),
        jnp.exp(0.1 * (x - by_rows(x))),
        (x + by_rows(x)).max(0),
    ),
    "leading axes": lambda x: (x - by_rows(x))[None] * jnp.exp(x.sum(-1, keepdims=True) * 0.1)[None] + x[:, ::-1],
    "product": lambda x: nn.softmax(jnp.tanh(x @ factor(x.shape[-1], 5) + 1.0) * 2, -1),
    "products": lambda x: jnp.tanh(jnp.sin(x) @ factor(x.shape[-1], 6) + x.sum(-1, keepdims=True)) @ factor(9, 6)[:6, ::2] * 2,
    "products by one matrix": lambda x: (x @ jnp.eye(x.shape[-1]) - by_rows(x)) @ jnp.eye(x.shape[-1]),
    "sums of products": lambda x: (jnp.sin(x @ factor(x.shape[-1], 7)).sum(tuple(range(x.ndim - 1))), (x @ factor(x.shape[-1], 3)).max(-1)),
    "transposed": lambda x: (jnp.exp(0.1 * (x - by_rows(x))).T + 1).T - by_rows(x),
}


@pytest.fixture
def every_run(monkeypatch):
    """Tile whatever can be tiled, in small blocks."""
    monkeypatch.setattr(tile, "WORTH_BYTES", 0)
    monkeypatch.setattr(tile, "START_BYTES", 0)
    monkeypatch.setattr(tile, "TILE_BYTES", 256)
    monkeypatch.setattr(rows, "PRODUCT_BYTES", 0)
    fgrad.clear_caches()  # of programs made without


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_same_results(name, shape, every_run):
    fun = FUNCTIONS[name]
    x = jnp.asarray(np.random.default_rng(1).standard_normal(shape).astype(np.float32))
    scalar = lambda x: sum(jnp.sum(jnp.sin(y)) for y in fgrad.tree.leaves(fun(x)))
    for f in (fun, fgrad.grad(scalar)):
        with fgrad.config.override("pass_tile", False):
            want = fgrad.jit(f)(x)
        got = fgrad.jit(f)(x)
        for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * max(1, np.abs(b).max(initial=0)))  # narrow rows go one by one


def test_rows_are_tiled_and_columns_are_not(every_run):
    x = jnp.ones((64, 8))
    labels = lambda f: [label for _, label in fgrad.jit(f).lower(x).compile().profile(x, repeat=1)]
    for name in ("shares", "product", "sums of products"):
        assert any(text.startswith("tiles") and ("dot" in text) == ("product" in name) for text in labels(FUNCTIONS[name]))
    assert not any(text.startswith("tiles") for text in labels(lambda x: nn.softmax(nn.softmax(x, 0), 0)))


def test_copies_are_tiled_with_their_readers(every_run, monkeypatch):
    """Operands that are copied first, pieces of rows or short rows backwards: the copy stays in cache until it is read."""
    monkeypatch.setattr(straighten, "LEAST", 0)
    images = jnp.asarray(np.random.default_rng(4).standard_normal((6, 8, 12, 3)).astype(np.float32))
    for f in (
        lambda x: x[..., ::-1] * 2,
        lambda x: x[:, ::-1, :, ::-1] * x.sum((1, 2, 3), keepdims=True),
        lambda x: jnp.tanh(jnp.transpose(x, (0, 3, 1, 2))),
        lambda x: jnp.transpose(x.reshape(6, 2, 4, 3, 4, 3), (0, 1, 3, 2, 4, 5)).reshape(6, 6, 48) * 2 - 1,
        lambda x: jnp.where(jnp.arange(6)[:, None, None, None] % 2 == 0, x[..., ::-1], x),
    ):
        with fgrad.config.override("pass_tile", False):
            want = fgrad.jit(f)(images)
        compiled = fgrad.jit(f).lower(images).compile()
        assert any(text.startswith("tiles") and "copy" in text for _, text in compiled.profile(images, repeat=1))
        np.testing.assert_array_equal(compiled(images), want)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int32", "bool"])
def test_sums_over_rows_of_other_dtypes(dtype, every_run):
    x = jnp.asarray(np.random.default_rng(2).integers(0, 2, (512, 24))).astype(dtype)
    f = lambda x: ((x ^ x[:, :1]).max(0), (x | x[:, 1:2]).min()) if dtype == "bool" else ((x - x[:, :1]).sum(0), (x * x[:, 1:2]).max())
    with fgrad.config.override("pass_tile", False):
        want = fgrad.jit(f)(x)
    for a, b in zip(fgrad.jit(f)(x), want):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_sums_over_rows_do_not_depend_on_threads(every_run):
    x = jnp.asarray(np.random.default_rng(3).standard_normal((4096, 40)).astype(np.float32))
    f = lambda x: ((x - by_rows(x)).sum(0), jnp.sum(x * by_rows(x)), jnp.exp(x - by_rows(x)))
    results, before = [], fgrad.get_num_threads()
    try:
        for threads in (1, 2, 3):
            fgrad.set_num_threads(threads)
            fgrad.clear_caches()
            results.append([np.asarray(y).tobytes() for y in fgrad.jit(f)(x)])
    finally:
        fgrad.set_num_threads(before)
    assert results[0] == results[1] == results[2]
    want = np.asarray(x, np.float64) - np.asarray(by_rows(x), np.float64)
    np.testing.assert_allclose(np.frombuffer(results[0][0], np.float32), want.sum(0), rtol=1e-5, atol=2e-4)


def test_blocks_have_as_many_workers_as_threads_may_be_set_later(every_run, monkeypatch):
    x, before, workers = jnp.ones((4096, 40)), fgrad.get_num_threads(), []
    assert most_threads() >= before

    class Recorded(program.Program):
        def __init__(self, *args, insts, **kwargs):
            workers.extend(len(inst[6]) for inst in insts if inst[0] == KINDS["tiles"])

    monkeypatch.setattr(program, "Program", Recorded)
    try:
        fgrad.set_num_threads(1)
        cores = most_threads()
        for threads in (1, cores + 3):
            fgrad.set_num_threads(threads)
            fgrad.clear_caches()
            fgrad.jit(lambda x: jnp.exp(x - by_rows(x)).sum(0))(x)
            assert workers and set(workers) == {max(threads, cores)}
            workers.clear()
    finally:
        fgrad.set_num_threads(before)


@pytest.mark.parametrize("shape", [(8, 32, 16), (2, 4, 8, 16)], ids=str)
def test_leading_axes_are_one(shape, every_run):
    x = jnp.ones(shape)
    w = jnp.ones(shape[-1])
    f = fgrad.value_and_grad(lambda x, w: jnp.sum(nn.rms_norm(x) * w), (0, 1))
    compiled = fgrad.jit(f).lower(x, w).compile()
    assert sum(text.startswith("tiles") for _, text in compiled.profile(x, w, repeat=1)) == 1


def attention(q, k, v):
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / 2
    t, s = scores.shape[-2:]
    p = jnp.exp(jnp.where(jnp.arange(s)[None] <= jnp.arange(t)[:, None], scores, -1e30))
    return jnp.einsum("bnts,bsnh->btnh", p / p.sum(-1, keepdims=True), v)


def test_attention_runs_head_by_head(every_run):
    q, k, v, ct = (jnp.asarray(a) for a in np.random.default_rng(4).standard_normal((4, 4, 12, 6, 5)).astype(np.float32))
    f = fgrad.value_and_grad(lambda q, k, v: jnp.sum(attention(q, k, v) * ct), (0, 1, 2))
    labels = [label for _, label in fgrad.jit(f).lower(q, k, v).compile().profile(q, k, v, repeat=1)]
    assert sum(text.startswith("tiles") for text in labels) >= 1
    assert not any(text.startswith("dot") for text in labels)
    got = fgrad.jit(f)(q, k, v)
    with fgrad.config.override("pass_tile", False):
        want = fgrad.jit(f)(q, k, v)
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_cross_entropy_is_one_run(mode, every_run):
    """Positions outside their row, negative ones included, are NaN (and have no gradient) or clamped."""
    x = jnp.asarray(np.random.default_rng(5).standard_normal((64, 8)).astype(np.float32))
    y = jnp.arange(64) % 8 if mode == "fill" else jnp.arange(64) % 11 - 2

    def loss(x):
        shifted = x - x.max(-1, keepdims=True)
        return jnp.mean(jnp.log(jnp.exp(shifted).sum(-1)) - jnp.take_along_axis(shifted, y[:, None], -1, mode=mode)[:, 0])

    f = fgrad.value_and_grad(loss)
    labels = [label for _, label in fgrad.jit(f).lower(x).compile().profile(x, repeat=1)]
    assert sum(text.startswith("tiles") for text in labels) == 1 and not any("scatter" in text for text in labels)
    value, gradient = fgrad.jit(f)(x)
    a, at = np.asarray(x, np.float64), np.clip(np.where(np.asarray(y) < 0, y + 8, y), 0, 7)
    p = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    np.testing.assert_allclose(value, -np.log(p[np.arange(64), at]).mean(), rtol=1e-5)
    np.testing.assert_allclose(gradient, (p - np.eye(8)[at]) / 64, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("mode", ["fill", "clip", "promise_in_bounds"])
def test_items_and_rows_of_tables_are_taken_in_runs(mode, every_run):
    """Blocks of indices read all of the table, out of bounds too."""
    rng = np.random.default_rng(6)
    image, channels = rng.standard_normal((9, 7)).astype(np.float32), rng.standard_normal((9, 7, 3)).astype(np.float32)
    low, more = (1, 0) if mode == "promise_in_bounds" else (-13, 5)
    i, j = rng.integers(low, 9 + more, (48, 5)), rng.integers(low, 7 + more, (48, 5))

    def f(x, i, j):
        take = lambda i, j: x.at[i, j].get(mode=mode, fill_value=-1.0)
        return jnp.tanh(take(i, j)) + take(i, j - 1) * 2

    for x in (image, channels):
        args = [jnp.asarray(v) for v in (x, i, j)]
        with fgrad.config.override("pass_tile", False):
            want = fgrad.jit(f)(*args)
        np.testing.assert_array_equal(fgrad.jit(f)(*args), want)
        labels = [label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args, repeat=1)]
        assert len(labels) == 1 and labels[0].startswith("tiles"), labels


@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_items_along_axes_behind_the_rows_are_taken_in_runs(mode, every_run):
    rng = np.random.default_rng(7)
    images = jnp.asarray(rng.standard_normal((24, 4, 7, 3)), np.float32)
    i, k = jnp.asarray(rng.integers(-9, 9, (5, 6))), jnp.asarray(rng.integers(-5, 5, 8))

    def f(x, i, k):
        take = lambda x, i, axis: jnp.take(x, i, axis, mode=mode, fill_value=-1.0)
        return jnp.tanh(take(x, i, 2)) + take(x, i - 1, 2) * 2, take(take(x * 2, k, 1), i[0], 2) + 1

    with fgrad.config.override("pass_tile", False):
        want = fgrad.jit(f)(images, i, k)
    labels = [label for _, label in fgrad.jit(f).lower(images, i, k).compile().profile(images, i, k, repeat=1)]
    assert any(text.startswith("tiles") and "gather" in text for text in labels) and not any(text.startswith("gather") for text in labels)
    for got, expected in zip(fgrad.jit(f)(images, i, k), want):
        np.testing.assert_array_equal(got, expected)


def test_take_along_axis_out_of_range():
    x, at = jnp.arange(12.0).reshape(3, 4), jnp.asarray([[-1], [4], [-5]])
    f = lambda x: jnp.take_along_axis(x, at, 1)
    np.testing.assert_array_equal(f(x), [[3], [np.nan], [np.nan]])
    np.testing.assert_array_equal(fgrad.vjp(f, x)[1](jnp.ones((3, 1)))[0], [[0, 0, 0, 1], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(jnp.take_along_axis(x, at.astype("int8"), 1, mode="clip"), [[3], [7], [8]])


def test_units_passed_by_come_along_in_their_order():
    """A run fetches sums and then the products that they read: the products come first (maximum mean discrepancy's gradient)."""
    x, y = (np.random.default_rng(n).standard_normal((n, 3)).astype(np.float32) for n in (200, 150))

    def kernel(a, b):
        return sum(jnp.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * s)) for s in (0.5, 1.0, 2.0))

    got = fgrad.jit(fgrad.grad(lambda x: kernel(x, x).mean() - 2 * kernel(x, jnp.asarray(y)).mean()))(x)
    a, b = x.astype(float), y.astype(float)

    def pull(c, n):
        d = a[:, None] - c[None]
        weight = sum(np.exp(-(d**2).sum(-1, keepdims=True) / (2 * s)) / s for s in (0.5, 1.0, 2.0))
        return -(d * weight).sum(1) / n

    np.testing.assert_allclose(got, 2 * pull(a, 200**2) - 2 * pull(b, 200 * 150), rtol=1e-4, atol=1e-7)


def test_a_unit_fetched_later_comes_before_who_reads_it():
    """A run fetches a sum whose operand, made by a unit that was passed by too, it fetches for a later part (the gradient of QR)."""
    x = (np.random.default_rng(0).standard_normal((1000, 16, 16)) / 10 + np.eye(16)).astype(np.float32)
    got = fgrad.jit(fgrad.grad(lambda a: sum(jnp.sum(y * y) for y in jnp.linalg.qr(a))))(x)
    np.testing.assert_allclose(got, 2 * x, atol=1e-3)  # |Q|^2 is constant, |R|^2 = |A|^2


def test_blocks_are_as_large_as_what_is_in_use_at_once(monkeypatch):
    """A chain of norms keeps two arrays at a time, however long it is: its blocks do not become smaller."""
    asked = []
    find = tile._blocks
    monkeypatch.setattr(tile, "_blocks", lambda *how: asked.append(find(*how)) or asked[-1])

    def blocks(n):
        def chain(x):
            for _ in range(n):
                x = jnp.exp(x - x.max(-1, keepdims=True)) - 0.5
            return x

        fgrad.jit(chain).lower(jnp.zeros((4096, 512))).compile()
        return asked[-1]

    assert blocks(8) == blocks(3)


def test_a_program_reads_the_quota_of_its_container_once(monkeypatch):
    """Not for each of its tiled instructions: it is in files."""
    asked = []
    most = writer.most_threads
    monkeypatch.setattr(writer, "most_threads", lambda: asked.append(1) or most())
    x = jnp.ones((4096, 256))

    def by_rows(x):
        return nn.softmax(nn.rms_norm(x) + 1.0)

    compiled = fgrad.jit(lambda x: by_rows(jnp.cumsum(by_rows(x), 0))).lower(x).compile()
    tiled = [what for _, what in compiled.profile(x, repeat=1) if what.startswith("tiles")]
    assert len(tiled) > 1 and len(asked) == 1


@pytest.mark.parametrize("rows", [17, 1009, 4099, 142 * 142])
def test_the_last_block_overlaps_where_no_number_of_blocks_divides_the_rows(rows, every_run):
    x = np.random.default_rng(0).standard_normal((rows, 401)).astype(np.float32)

    def chain(x):
        for _ in range(4):
            x = nn.softmax(jnp.exp(x - x.max(-1, keepdims=True)) - 0.5)
        return x, x.sum(-1), x[:1]

    blocks, each = tile._blocks(rows, 8 * x.nbytes)
    least = max(-(-8 * x.nbytes // tile.TILE_BYTES), 16)
    assert (blocks - 1) * each < rows <= blocks * each and blocks <= 1.25 * min(least, rows)
    f = fgrad.jit(chain)
    got = f(x)
    assert any(what.startswith("tiles") for _, what in f.lower(x).compile().profile(x, repeat=1))
    fgrad.config.update("pass_tile", False)
    try:
        want = fgrad.jit(lambda x: chain(x))(x)
    finally:
        fgrad.config.update("pass_tile", True)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_blocks_whose_rows_are_summed_do_not_overlap():
    assert tile._blocks(1009, 64 << 20, 0, False) is None or 1009 % tile._blocks(1009, 64 << 20, 0, False)[0] == 0
    x = np.random.default_rng(0).standard_normal((1009, 2048)).astype(np.float32)
    f = fgrad.jit(lambda x: (nn.softmax(jnp.exp(x)).sum(0), nn.softmax(jnp.exp(x))))
    total, y = f(x)
    np.testing.assert_allclose(total, np.asarray(y, float).sum(0), rtol=1e-5)
