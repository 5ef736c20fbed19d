"""Reductions of stacked arrays along what they are stacked by stack nothing: equal to reducing the stack."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 90, 8)).astype(np.float32)
PROGRAMS = {
    "mean of windows": lambda x: jnp.stack([x[:, k : k + 80] for k in range(10)], 2).mean(2),
    "sum of neighbours": lambda x: jnp.stack([jnp.roll(x, k, 1) for k in (-1, 0, 1)]).sum(0),
    "largest of several": lambda x: jnp.max(jnp.stack([x, x * 2, jnp.sin(x)], -1), -1),
    "smallest of several": lambda x: jnp.min(jnp.stack([x, -x, x[::-1]], 1), 1, keepdims=True),
    "largest and smallest": lambda x: (s := jnp.stack([x, x**2, 1 - x])).max(0) - s.min(0),
    "stacked too": lambda x: ((s := jnp.stack([x, x**2])).sum(0), s),
    "one read of the stack": lambda x: (s := jnp.stack([x, x**2, -x])).sum(0) + s[1],
    "logarithm of a sum": lambda x: fgrad.nn.logsumexp(jnp.stack([x, x * 2, -x]), axis=0),
    "a number beside": lambda x: jnp.stack([x, jnp.full_like(x, 3), x]).sum(0),
    "of two axes": lambda x: jnp.stack([x, x * 2]).sum((0, 1)),
    "of another axis": lambda x: jnp.stack([x, x * 2]).sum(1),
    "of transposes": lambda x: jnp.stack([x.T, (x * 2).T], 1).max(1),
    "of one": lambda x: jnp.stack([x]).sum(0),
    "deviation": lambda x: jnp.stack([x, x * 2, x - 1]).std(0),
}


OF_FLOATS = ("logarithm of a sum", "deviation")
CASES = [(n, d) for n in PROGRAMS for d in ("float32", "bfloat16", "int32") if d != "int32" or n not in OF_FLOATS]


@pytest.mark.parametrize("name,dtype", CASES)
def test_reductions(name, dtype):
    f, x = PROGRAMS[name], jnp.asarray(X * 9).astype(dtype)
    programs = (
        [f] if dtype == "int32" else [f, fgrad.grad(lambda x: sum([jnp.sum(y.astype("float32") ** 2) for y in fgrad.tree.leaves(f(x))]))]
    )
    for g in programs:
        got = fgrad.tree.leaves(fgrad.jit(g)(x))
        with fgrad.config.override("pass_simplify", False):
            want = fgrad.tree.leaves(fgrad.jit(g)(x))
        for a, b in zip(got, want, strict=True):
            assert a.dtype == b.dtype
            tolerance = 2e-2 if dtype == "bfloat16" else 1e-5
            np.testing.assert_allclose(*[np.asarray(y.astype("float32")) for y in (a, b)], rtol=tolerance, atol=tolerance * 30)


def test_nan_and_signed_zeros():
    x = np.tile(np.array([np.nan, 1, -0.0, 0.0, np.inf, -np.inf, 2, 3], np.float32), 200)
    y = np.roll(x, 3)
    for op in (jnp.max, jnp.min, jnp.sum):
        got = fgrad.jit(lambda x, y, op=op: op(jnp.stack([x, y, x * 1]), 0))(x, y)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(np.asarray(got), getattr(np, op.__name__)(np.stack([x, y, x]), 0))


@pytest.mark.parametrize("name, made", [("mean of windows", False), ("largest and smallest", False), ("stacked too", True)])
def test_what_is_made(name, made):
    did = [label for _, label in fgrad.jit(PROGRAMS[name]).lower(X).compile().profile(X, repeat=1)]
    assert made == any(["concatenate" in label or "sum" in label for label in did])
