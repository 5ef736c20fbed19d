"""Pairs of points with few coordinates: operations on columns give what operations on rows give, for any reduction and reader."""

import numpy as np
import pytest

import fgrad
import fgrad.compile.program
import fgrad.numpy as jnp


def differences(x, y):
    return x[:, None] - y[None]


def attraction(x, y):
    d = differences(x, y)
    r = jnp.sqrt((d * d).sum(-1) + 0.1)
    return (d / r[..., None] ** 3).sum(1)


PROGRAMS = {
    "distances": lambda x, y, w: (differences(x, y) ** 2).sum(-1),
    "attraction": lambda x, y, w: attraction(x, y),
    "its gradient": lambda x, y, w: fgrad.grad(lambda x: (attraction(x, y) ** 2).sum())(x),
    "a norm that keeps its axis": lambda x, y, w: (differences(x, y) / (abs(differences(x, y)).max(-1, keepdims=True) + 1)).sum(0),
    "weights of pairs and of coordinates": lambda x, y, w: (w[..., None] * differences(x, y) * y[0]).sum((0, 1)),
    "extrema": lambda x, y, w: (differences(x, y).min(0), differences(x, y).max((1, 2)), jnp.tanh(differences(x, y)).min()),
    "an operand without columns": lambda x, y, w: jnp.where(w[..., None] > 0, differences(x, y), w[..., None]).sum(1),
    "differences that are a result, too": lambda x, y, w: (differences(x, y), abs(differences(x, y)).sum(-1)),
    "products, which fold nothing": lambda x, y, w: differences(x, y).prod(-1),
    "members": lambda x, y, w: fgrad.vmap(lambda a: attraction(x * a, y))(y[:, 0]),
    "steps": lambda x, y, w: fgrad.lax.fori_loop(0, 3, lambda i, x: x + 0.1 * attraction(x, y), x),
}


@pytest.mark.parametrize("n,m,k", [(7, 9, 3), (40, 2, 2), (2, 33, 6), (100, 130, 3)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_rows(name, n, m, k, monkeypatch):
    rng = np.random.default_rng(n)
    args = [rng.standard_normal(s).astype(np.float32) for s in ((n, k), (m, k), (n, m))]
    args[0][1, 1] = 0.0
    got = fgrad.jit(PROGRAMS[name])(*args)
    monkeypatch.setattr(fgrad.compile.program, "split_columns", lambda nodes, outs, sub: nodes)
    want = fgrad.jit(lambda *args: PROGRAMS[name](*args))(*args)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * (1 + np.abs(np.asarray(w)).max()))


def test_all_of_a_step_is_one_group():
    x = jnp.ones((32, 3))
    labels = [what for _, what in fgrad.jit(attraction).lower(x, x).compile().profile(x, x)]
    assert [("sqrt" in what, "[32, 32]" in what) for what in labels if "32, 32" in what] == [(True, True)], labels


def test_not_a_number_stays_where_it_is():
    x = jnp.array([[1.0, 2.0], [jnp.nan, 0.0], [0.0, 3.0]])
    got = np.asarray(fgrad.jit(lambda x: differences(x, x).max(-1))(x))
    assert np.isnan(got).tolist() == [[False, True, False], [True, True, True], [False, True, False]]


NUMBERED = {
    "distances along rays": lambda x, t, m: jnp.sqrt(((m + t[:, None] * x) ** 2).sum(-1)),
    "unit vectors": lambda x, t, m: x / jnp.linalg.norm(x, axis=-1, keepdims=True),
    "a weighted mean": lambda x, t, m: (t[:, None] * x).sum(0) / t.sum(),
    "both": lambda x, t, m: (t[:, None] * x, (t[:, None] * x - m).max(-1)),
    "a sum of points as they are": lambda x, t, m: (x * x.sum(-1, keepdims=True), jnp.tanh(x * t[:, None]).sum((0, 1))),
    "gradient": lambda x, t, m: fgrad.grad(lambda x, t: jnp.sqrt(((m + t[:, None] * x) ** 2).sum(-1) + 1).sum(), (0, 1))(x, t),
    "comparisons": lambda x, t, m: jnp.where(x > t[:, None], x, t[:, None]).sum(-1),
    "transposed points": lambda x, t, m: ((x.T.reshape(x.shape[1], -1).T - t[:, None]) ** 2).sum(-1),
    "batches": lambda x, t, m: ((x.reshape(2, -1, x.shape[1]) * t.reshape(2, -1, 1)) ** 2).sum(-1),
}


@pytest.mark.parametrize("n,k", [(254, 3), (256, 3), (1002, 2), (300, 6), (5000, 4)])
@pytest.mark.parametrize("name", NUMBERED)
def test_points_beside_a_number_for_each(name, n, k, monkeypatch):
    rng = np.random.default_rng(n)
    args = [rng.standard_normal(s).astype(np.float32) for s in ((n, k), (n,), (k,))]
    got = fgrad.jit(NUMBERED[name])(*args)
    monkeypatch.setattr(fgrad.compile.program, "split_columns", lambda nodes, outs, sub: nodes)
    want = fgrad.jit(lambda *args: NUMBERED[name](*args))(*args)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4 * (1 + np.abs(np.asarray(w)).max()))


def test_points_beside_a_number_for_each_are_one_group():
    x, t = jnp.ones((300, 3)), jnp.ones(300)
    labels = [what for _, what in fgrad.jit(NUMBERED["distances along rays"]).lower(x, t, t[:3]).compile().profile(x, t, t[:3])]
    assert len(labels) == 1 and "[300]" in labels[0] and "[300, 3]" not in labels[0], labels


def corners(x, t):
    """A hash of the cell that each point is in, and its weight."""
    s = x * 16
    i = jnp.floor(s).astype("uint32")
    w = s - jnp.floor(s)
    c = (i + np.arange(x.shape[1]).astype("uint32")) * np.array([1, 2654435761, 805459861, 3674653429], "uint32")[: x.shape[1]]
    return (c[:, 0] ^ c[:, 1] ^ c[:, -1]) % 97, jnp.prod(jnp.where(np.arange(x.shape[1]) == 1, w, 1 - w), -1) * t


TAKEN_APART = {
    "hashes of cells": corners,
    "columns and a sum": lambda x, t: ((y := jnp.exp(x))[:, 0] - y[:, -1], (y * x).sum(-1)),
    "every second of a column": lambda x, t: (y := x * 2 + 1)[::2, 1] + y[1::2, 0],
    "columns of what is a result": lambda x, t: ((y := x * 2 + 1), y[:, 1] * t),
    "a column beside all": lambda x, t: (y := jnp.tanh(x)) * y[:, :1],
    "some of the columns": lambda x, t: (jnp.maximum((y := jnp.abs(x))[:, :2], 0.3) ** 2 - y[:, -2:] * y[:, :1]).sum(-1),
    "a box around both": lambda x, t: fgrad.grad(lambda x: ((y := jnp.exp(x))[:, 1:] - y[:, :-1]).prod(-1).sum())(x),
    "columns backwards": lambda x, t: (x * t[:, None])[::-1, 1] + (x * x)[:, 0],
}


@pytest.mark.parametrize("n,k", [(256, 2), (1002, 3), (300, 4)])
@pytest.mark.parametrize("name", TAKEN_APART)
def test_columns_of_points_are_taken_as_they_are(name, n, k, monkeypatch):
    rng = np.random.default_rng(n)
    args = [rng.uniform(size=s).astype(np.float32) for s in ((n, k), (n,))]
    got = fgrad.jit(TAKEN_APART[name])(*args)
    monkeypatch.setattr(fgrad.compile.program, "split_columns", lambda nodes, outs, sub: nodes)
    want = fgrad.jit(lambda *args: TAKEN_APART[name](*args))(*args)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16"])
@pytest.mark.parametrize("n", range(1, 10))
def test_channels_first_and_last_in_elementwise_programs(dtype, n):
    """Operands whose few columns lie far apart, or side by side."""
    for h, w in ((1, 5), (3, 7), (16, 16), (33, 31)):
        first = (np.random.RandomState(n).standard_normal((3, n, h, w)) * 50).astype(dtype)
        last = np.ascontiguousarray(first.transpose(0, 2, 3, 1))
        for order in ((0, 2, 3, 1), (0, 3, 2, 1), (2, 3, 0, 1)):
            np.testing.assert_array_equal(fgrad.jit(lambda x, order=order: jnp.transpose(x, order) * 3)(first), first.transpose(order) * 3)
        for order in ((0, 3, 1, 2), (3, 1, 2, 0)):
            np.testing.assert_array_equal(fgrad.jit(lambda x, order=order: jnp.transpose(x, order) - 2)(last), last.transpose(order) - 2)
        turned = fgrad.jit(lambda x: jnp.transpose(x[..., ::-1], (0, 3, 1, 2)) + 1)(last)
        np.testing.assert_array_equal(turned, last[..., ::-1].transpose(0, 3, 1, 2) + 1)
