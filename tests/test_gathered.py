"""Gathers and slices of a few elements of computed arrays compute these alone: equal to what is computed whole, for every kind of view."""

import gc

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.values import Node

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 130)).astype(np.float32)
V = rng.standard_normal(20_000).astype(np.float32)
I = rng.integers(-120, 120, 9).astype(np.int32)  # noqa: E741
J = rng.integers(-130, 130, 9).astype(np.int32)
FAR = np.array([-400, -121, -120, -1, 0, 119, 120, 300], np.int32)
WINDOWS = np.array([[0, 1], [115, 129], [-3, 7], [60, 400]], np.int32)


def units(f, *args):
    """What the instructions of a program do."""
    return [label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args, repeat=1)]


def windows(x, starts, **mode):
    numbers = lax.GatherDimensionNumbers((1, 2), (), (0, 1))
    return lax.gather(x, starts, numbers, (4, 5), **mode)


CASES = {
    "rows": (lambda m, x, i: m.exp(x)[i], X, I),
    "columns": (lambda m, x, i: (x * 2 + 1)[:, i], X, J),
    "items of two indices": (lambda m, x, i, j: m.exp(x)[i, j], X, I, J),
    "a column beside rows": (lambda m, x, i, j: (x - x.max(1, keepdims=True))[i, j], X, I, J),
    "with its transpose": (lambda m, x, i, j: (x[:, :120] + x[:, :120].T)[i, j % 120], X, I, J),
    "rows of a transpose": (lambda m, x, j: (x * 3).T[j], X, J),
    "rows backwards": (lambda m, x, i: m.sqrt(abs(x[::-1]))[i], X, I),
    "rows of every second": (lambda m, x, i: (x * x)[::2][i // 2], X, I),
    "a part's rows": (lambda m, x, i: (x * x)[3:-2, 5:77][i // 2], X, I),
    "flattened": (lambda m, x, i: m.tanh(x).reshape(-1)[i * 77], X, I),
    "items": (lambda m, x, i: m.sin(x)[i], V, I),
    "a number beside": (lambda m, x, y, i: (x * y[0])[i], X, V, I),
    "masks": (lambda m, x, i: m.where(x > 0, x, -1.0)[i], X, I),
    "triangle": (lambda m, x, i, j: m.triu(x, 3)[i, j], X, I, J),
    "one row": (lambda m, x, i: m.exp(x)[i[0]], X, I),
    "diagonal": (lambda m, x: m.diagonal(m.exp(x)), X),
    "a diagonal above": (lambda m, x: m.diagonal(m.exp(x) + x[0], 9), X),
    "a diagonal below, of a transpose": (lambda m, x: m.diagonal(m.exp(x).T, -9), X),
    "diagonals of a batch": (lambda m, x: m.diagonal(m.exp(x.reshape(40, 15, 26)) * 2, 1, 2, 1), X),
    "every third of a diagonal": (lambda m, x: m.diagonal(x * 2 - 1)[::3], X),
    "booleans": (lambda m, x, i: (x > 0)[i], X, I),
    "integers": (lambda m, x, i: (x * 9).astype(np.int16)[i], X, I),
    "along an axis": (lambda m, x, j: m.take_along_axis(m.exp(x), j[:, None], 1), X[:9], J),
    "whole beside its part": (lambda m, x, i: (m.exp(x)[i], m.exp(x).sum(1)), X, I),
    "two parts": (lambda m, x, i, j: m.exp(x)[i] + m.exp(x)[j % 120], X, I, J),
    "one position": (lambda m, x: m.tanh(x.reshape(10, 12, 130))[:, -1], X),
    "two columns": (lambda m, x: m.exp(x)[:, 3] - m.exp(x)[:, -3], X),
    "a block beside its whole": (lambda m, x: (m.exp(x)[5:9, 7:11] * 2, m.exp(x).sum(0)), X),
    "a block of rows, to be summed": (lambda m, x: m.sin(x.T)[::40].sum(1), X),
    "turned alone": (lambda m, x, i: x[::-1, ::-1].T[i], X, I),
}


@pytest.mark.parametrize("case", CASES)
def test_parts(case):
    f, *args = CASES[case]
    program = fgrad.jit(lambda *args: f(jnp, *args))
    got, want = fgrad.tree.leaves(program(*args)), fgrad.tree.leaves(f(np, *args))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=2e-6, atol=1e-6)
    with fgrad.config.override("pass_simplify", False):
        whole = fgrad.tree.leaves(fgrad.jit(lambda *args: f(jnp, *args))(*args))
    for a, b in zip(got, whole, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


A = rng.standard_normal((24, 32, 40)).astype(np.float32)
B = rng.standard_normal((40, 50)).astype(np.float32)
BATCH = rng.standard_normal((24, 40, 50)).astype(np.float32)
PRODUCTS = {
    "last position": (lambda m, a, b: (a @ b)[:, -1], A, B),
    "with an epilogue": (lambda m, a, b: m.tanh(a @ b + b[0])[:, 3], A, B),
    "of what is computed": (lambda m, a, b: (m.tanh(a) @ b)[:, -1], A, B),
    "every eighth row": (lambda m, a, b: (a @ b)[:, ::8], A, B),
    "columns": (lambda m, a, b: (a @ b)[..., 7:11], A, B),
    "a column": (lambda m, a, b: (a @ b)[..., -1], A, B),
    "an element of each": (lambda m, a, b: (a @ b)[:, 4, 5], A, B),
    "some of a batch": (lambda m, a, b: (a @ b)[3:7], A, BATCH),
    "a row of each": (lambda m, a, b: (a @ b)[:, 0], A, BATCH),
    "backwards": (lambda m, a, b: (a @ b)[::-8], A, BATCH),
    "transposed": (lambda m, a, b: m.swapaxes(a @ b, 1, 2)[:, :3], A, BATCH),
    "of a transposed operand": (lambda m, a, b: (m.swapaxes(a, 1, 2) @ b)[:, 2], A[:, :, :32], BATCH[:, :32]),
    "rows of a transposed operand": (lambda m, a, b: (a.T @ b)[::9], A[0], BATCH[0][:32]),
    "its whole too": (lambda m, a, b: ((y := a @ b)[:, -1], y), A, B),
    "used twice": (lambda m, a, b: (a @ b)[:, -1] * 2 + (a @ b)[:, 0], A, B),
    "a diagonal": (lambda m, a, b: m.diagonal(a[0] @ b, 2), A, B),
    "diagonals of each": (lambda m, a, b: m.diagonal(a @ b, 0, 1, 2), A, BATCH),
    "a product of its part": (lambda m, a, b: (a @ b)[:, -1] @ b.T, A, B),
}


@pytest.mark.parametrize("case", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "complex64", "int32"])
def test_parts_of_products(case, dtype):
    f, a, b = PRODUCTS[case]
    with fgrad.enable_x64(dtype == "float64"):
        a, b = (jnp.asarray(x * (3 if dtype == "int32" else 1), dtype) for x in (a, b))
        got = fgrad.tree.leaves(fgrad.jit(lambda a, b: f(jnp, a, b))(a, b))
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.tree.leaves(fgrad.jit(lambda a, b: f(jnp, a, b))(a, b))
        exact = {"bfloat16": np.float32}.get(dtype, dtype)
        tolerance = {"bfloat16": 2e-2, "float64": 1e-12, "int32": 0}.get(dtype, 2e-5)
        for x, y in zip(got, want, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(np.asarray(x, exact), np.asarray(y, exact), rtol=tolerance, atol=30 * tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "int8", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("mode", ["clip", "wrap", "fill", None])
def test_rows_outside(dtype, mode):
    f = lambda x, i: jnp.take(x.astype(dtype), i, 0, mode=mode)  # noqa: E731
    got = fgrad.jit(f)(X, FAR)
    want = jnp.take(jnp.asarray(X).astype(dtype), FAR, 0, mode=mode)
    wide = jnp.float32 if got.dtype == jnp.bfloat16 else got.dtype
    np.testing.assert_array_equal(np.asarray(got.astype(wide)), np.asarray(want.astype(wide)))


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_windows(mode):
    f = lambda x, starts: windows(x * 2, starts, mode=mode)  # noqa: E731
    starts = WINDOWS[:1] if mode == "promise_in_bounds" else WINDOWS
    np.testing.assert_array_equal(np.asarray(fgrad.jit(f)(X, starts)), np.asarray(windows(jnp.asarray(X) * 2, starts, mode=mode)))


@pytest.mark.parametrize("start", [-500, -7, 0, 60, 116, 500])
def test_slices(start):
    f = lambda x, k: lax.dynamic_slice(jnp.exp(x.T), (3, k), (11, 5))  # noqa: E731
    np.testing.assert_array_equal(np.asarray(fgrad.jit(f)(X, start)), np.asarray(f(X, start)))


@pytest.mark.parametrize(
    "f, small",
    [
        (lambda x, i: (x * 16)[i], True),
        (lambda x, i: x.astype(jnp.bfloat16)[i], True),
        (lambda x, i: (x * 16)[jnp.arange(2000) + i[0]], False),  # half of it: once is enough
        (lambda x, i: ((y := x * 16)[i], y), False),  # in memory anyway
        (lambda x, i: (x @ x[:256]).reshape(40, 100, 256)[:, -1], True),
        (lambda x, i: jnp.tanh(x @ x[:256] + i[0]).reshape(40, 100, 256)[:, -1], True),
        (lambda x, i: (x @ x[:256])[::2], False),
    ],
)
def test_what_is_computed(f, small):
    did = units(f, np.ones((4000, 256), np.float32), np.arange(8, dtype=np.int32))
    assert small == all("4000" not in unit or unit.startswith(("gather", "dot [1, 40,")) for unit in did)


def test_gradient_of_converted_rows():
    f = lambda x, i: (x.astype(jnp.bfloat16)[i].astype(jnp.float32) ** 2).sum()  # noqa: E731
    got = fgrad.jit(fgrad.grad(f))(X, I)
    want = np.zeros_like(X)
    np.add.at(want, I, 2 * np.asarray(jnp.asarray(X).astype(jnp.bfloat16).astype(np.float32))[I])
    np.testing.assert_allclose(np.asarray(got), want, rtol=2e-2, atol=1e-6)


def test_nothing_of_rejected_parts_is_left():
    x, i = jnp.ones((5000, 8)), jnp.zeros(200, "int32")
    programs = [
        lambda x, i: (jnp.sin(x) * 2)[i],
        lambda x, i: jnp.cumsum(jnp.sin(x), 0)[i] + jnp.tanh(x + jnp.cumsum(x, 0))[i],
        lambda x, i: jnp.exp(jnp.cumsum(jnp.sin(x), 1) * jnp.sin(x))[3:9],
        lambda x, i: (x @ jnp.ones((8, 300)))[:, -1],
    ]
    nodes = lambda: sum([isinstance(o, Node) for o in gc.get_objects()])  # noqa: E731
    gc.collect()
    gc.disable()
    try:
        before = nodes()
        for f in programs:
            fgrad.jit(f)(x, i)
            assert nodes() == before
    finally:
        gc.enable()
