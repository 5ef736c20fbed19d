"""Reversed results of cheap operations are computed of what these read, reversed."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.config import config

X = np.random.default_rng(0).standard_normal((9, 40, 50)).astype(np.float32)
Y = X[::-1, ::-1] * 2
BOTH = lambda x, y, axis: jnp.sum((jnp.flip(x, axis) * 2 + x) ** 2)
PROGRAMS = {
    "of one array": lambda x, y, axis: x + jnp.flip(jnp.flip(x, axis) * 3 - x, axis),
    "of two": lambda x, y, axis: x + jnp.flip(x * y, axis),
    "of a view": lambda x, y, axis: jnp.flip(x[1:, ::2] + 1, axis) - x[:-1, 1::2],
    "of other operations": lambda x, y, axis: x + jnp.flip(jnp.sin(x) * 2, axis),
    "of a row": lambda x, y, axis: jnp.flip(x + x[:1], axis) * x,
    "of a sum": lambda x, y, axis: jnp.flip(x - jnp.sum(x), axis) * x,
    "of a norm": lambda x, y, axis: jnp.flip((x - x.mean(axis, keepdims=True)) / x.std(axis, keepdims=True), axis),
    "and itself": lambda x, y, axis: (x * 2 - 1, jnp.flip(x * 2 - 1, axis)),
    "of integers": lambda x, y, axis: jnp.flip(jnp.asarray(x * 9, jnp.int32) + 1, axis),
    "gradient": fgrad.grad(BOTH),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2)])
def test_the_same_numbers(name, axis):
    f = lambda x, y: PROGRAMS[name](x, y, axis)
    got = fgrad.jit(lambda x, y: f(x, y))(X, Y)
    with config.override("pass_simplify", False):
        want = fgrad.jit(lambda x, y: f(x, y))(X, Y)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-6)


def test_a_gradient_is_one_pass():
    program = fgrad.jit(fgrad.grad(lambda x: BOTH(x, None, 1))).lower(X).compile()
    assert len(program.profile(X, repeat=1)) == 1
