"""Pairwise programs: groups over (..., long, short) axes that are turned give the same results, in little memory."""

import numpy as np
import pytest

import fgrad
import fgrad.compile.program
import fgrad.numpy as jnp


def differences(x, y):
    return x[:, None] - y[None]


def distances(x, y):
    return (differences(x, y) ** 2).sum(-1)


PROGRAMS = {
    "sum of the short axis": (lambda x, y, p, w: distances(x, y), lambda x, y, p, w: ((x[:, None] - y) ** 2).sum(-1)),
    "a factor of the short axis alone": (
        lambda x, y, p, w: (abs(differences(x, y)) * w).sum(-1),
        lambda x, y, p, w: (abs(x[:, None] - y) * w).sum(-1),
    ),
    "sum of the long axis": (
        lambda x, y, p, w: (p[..., None] * differences(x, y)).sum(1),
        lambda x, y, p, w: (p[..., None] * (x[:, None] - y)).sum(1),
    ),
    "sum of the outer axis": (
        lambda x, y, p, w: (p[..., None] * differences(x, y)).sum(0),
        lambda x, y, p, w: (p[..., None] * (x[:, None] - y)).sum(0),
    ),
    "maximum of two axes": (
        lambda x, y, p, w: (p[..., None] * differences(x, y)).max((0, 2)),
        lambda x, y, p, w: (p[..., None] * (x[:, None] - y)).max((0, 2)),
    ),
    "two sums": (
        lambda x, y, p, w: (differences(x, y).sum(-1), (differences(x, y) ** 2).sum(-1)),
        lambda x, y, p, w: ((x[:, None] - y).sum(-1), ((x[:, None] - y) ** 2).sum(-1)),
    ),
    "what is computed is a result, too": (
        lambda x, y, p, w: (differences(x, y), distances(x, y)),
        lambda x, y, p, w: (x[:, None] - y, ((x[:, None] - y) ** 2).sum(-1)),
    ),
    "transposed operands": (
        lambda x, y, p, w: ((x[:, None] - (y * w).T.T[None]) ** 2).sum(-1),
        lambda x, y, p, w: ((x[:, None] - y * w) ** 2).sum(-1),
    ),
}


def operands(n, m, d, dtype):
    rng = np.random.default_rng(n)
    draw = lambda *shape: rng.integers(-9, 9, shape) if dtype == np.int32 else rng.standard_normal(shape)  # noqa: E731
    return [draw(*shape).astype(dtype) for shape in ((n, d), (m, d), (n, m), (d,))]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
@pytest.mark.parametrize("n,m,d", [(70, 100, 8), (70, 100, 5), (64, 600, 2), (30, 65, 31), (3, 700, 10)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_numpys(name, n, m, d, dtype):
    program, oracle = PROGRAMS[name]
    args = operands(n, m, d, dtype)
    got = fgrad.jit(program)(*args)
    want = oracle(*[a if dtype == np.int32 else a.astype(np.float64) for a in args])
    for g, w in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)]):
        size = np.abs(w).max() + 1
        np.testing.assert_allclose(
            np.asarray(g, np.float64), w, rtol=0, atol=size * {np.float32: 1e-5, np.float16: 2e-2, np.int32: 0}[dtype]
        )


def test_the_gradient_agrees_with_and_without(monkeypatch):
    x = operands(90, 90, 8, np.float32)[0]
    run = lambda: np.asarray(fgrad.jit(fgrad.grad(lambda x: jnp.exp(-distances(x, x)).sum()))(x))  # noqa: E731
    got = run()
    monkeypatch.setattr(fgrad.compile.program, "turn", lambda units, outs: units)
    np.testing.assert_allclose(got, run(), rtol=1e-4, atol=1e-4)


def test_rows_of_the_long_axis_are_walked():
    x, y, p, w = operands(70, 100, 10, np.float32)
    labels = [what for _, what in fgrad.jit(lambda x, y: jnp.cos(differences(x, y)).sum(-1)).lower(x, y).compile().profile(x, y)]
    assert any("sum [70, 10, 100]" in what for what in labels), labels


def test_differences_of_pairs_do_not_pass_through_memory():
    """The gradient keeps no array of all pairs by coordinates, though no sum over all of them stands between."""
    x = jnp.asarray(operands(300, 300, 10, np.float32)[0])
    memory = fgrad.jit(fgrad.grad(lambda x: jnp.exp(-distances(x, x)).sum())).lower(x).compile().memory_analysis()
    assert memory["temp_bytes"] < 2 * 300 * 300 * 4


POSITIONS = {
    "codebook": lambda x, c: jnp.argmin(jnp.abs(x[:, None] - c), -1),
    "nan": lambda x, c: jnp.argmax(jnp.sqrt(x[:, None] * c), -1),
    "ties": lambda x, c: jnp.argmax(jnp.round(x[:, None] * c), -1),
    "with its maximum": lambda x, c: (jnp.argmax(x[:, None] * c, 1), jnp.max(x[:, None] * c, 1)),
    "rows that are read again": lambda x, c: (lambda y: (jnp.argmax(y, 1), y))(x[:, None] * c),
    "three axes": lambda x, c: jnp.argmin(x.reshape(10, -1)[..., None] * c, -1),
    "numbers": lambda x, c: jnp.nanargmax(jnp.sqrt(x[:, None] * c).at[:, 0].set(0.5), -1),
    "a large operand": lambda x, c: jnp.argmax(jnp.outer(x, c).T.reshape(-1, c.size) + c, -1),
    "one by one": lambda x, c: jnp.argmin(jnp.sum((x[:, None, None] - c[:, None] * jnp.ones(3)) ** 2, -1), -1),
}


@pytest.mark.parametrize("n", [50, 300, 100_000])
@pytest.mark.parametrize("k", [2, 16, 60])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_in_short_rows(name, k, n):
    rng = np.random.default_rng(0)
    x, c = rng.standard_normal(n).astype("float32"), rng.standard_normal(k).astype("float32")
    got = fgrad.tree.leaves(fgrad.jit(POSITIONS[name])(x, c))
    with fgrad.disable_jit():
        want = fgrad.tree.leaves(POSITIONS[name](jnp.asarray(x), jnp.asarray(c)))
    for a, b in zip(got, want):
        np.testing.assert_array_equal(a, b) if a.dtype.kind == "i" else np.testing.assert_allclose(a, b, rtol=1e-6)


def test_positions_are_found_for_vectors_of_rows():
    labels = lambda f, *a: [name for _, name in fgrad.jit(f).lower(*a).compile().profile(*a, repeat=1)]
    x, c = np.zeros(1000, "float32"), np.zeros(16, "float32")
    assert any(name.startswith("argreduce [16, 1000]") for name in labels(POSITIONS["codebook"], x, c))
    assert any(name.startswith("argreduce [1000, 16]") for name in labels(POSITIONS["rows that are read again"], x, c))
    with fgrad.config.override("pass_machine", False):  # or it is a chain of comparisons (test_positions)
        large = labels(POSITIONS["codebook"], np.zeros(320_000, "float32"), c)
    assert len(large) == 1 and large[0].startswith("tiles of sub+abs+argreduce")
