"""Parts of concatenations are read from their operands, stacks that are reduced are not written."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from fgrad.config import config

X = np.random.default_rng(0).standard_normal((12, 40, 6)).astype(np.float32)
Y = np.cos(X)
HALVES = lambda z: z[..., : z.shape[-1] // 2] * jnp.sin(z[..., z.shape[-1] // 2 :])
PROGRAMS = {
    "halves": lambda x, y, a: HALVES(jnp.concatenate([x * 2, y - 1], -1)),
    "a part of both": lambda x, y, a: jnp.concatenate([x * 2, y], a)[3:9, 3:39, 2:5] + 1,
    "parts of rows": lambda x, y, a: jnp.concatenate([x * 2, y], 2)[1::2, ::-3, 7:10] * 2,
    "turned": lambda x, y, a: jnp.concatenate([x * 2, y], 1)[:, 40:].T + jnp.concatenate([y, x], 1)[:, 1:41].T,
    "a row of each": lambda x, y, a: jnp.concatenate([x, y * 2], 0)[3] - jnp.concatenate([x, y * 2], 0)[20],
    "diagonal": lambda x, y, a: jnp.diagonal(jnp.concatenate([x, y * 2], 1)[:, 40:52]) * 2,
    "a number": lambda x, y, a: jnp.concatenate([x, jnp.full_like(y, 3)], 1)[:, 45:50] * x[:, :5],
    "and all of it": lambda x, y, a: (jnp.concatenate([x * 2, y], a), HALVES(jnp.concatenate([x * 2, y], -1))),
    "views": lambda x, y, a: jnp.concatenate([x[:, ::2], y[:, 1::2]], 1)[:, 20:] + 1,
    "sum of parts": lambda x, y, a: jnp.concatenate([x * 2, y], 2)[..., 6:].sum(1),
    "sum of a stack": lambda x, y, a: jnp.stack([x, y * 2, x * y], a).sum(a),
    "product": lambda x, y, a: jnp.prod(jnp.stack([x, y], a), a),
    "maximum": lambda x, y, a: jnp.max(jnp.stack([x, jnp.where(x > 1, jnp.nan, y), y + 1], a), a) * 2,
    "of integers": lambda x, y, a: jnp.stack([x, y * 9], a).astype(jnp.int32).min(a),
    "mean of many": lambda x, y, a: jnp.stack([x * k for k in range(12)], a).mean(a),
    "of bools": lambda x, y, a: jnp.any(jnp.stack([x > 1, y > 1], a), a),
    "of another axis": lambda x, y, a: jnp.stack([x, y], a).sum(a - 1),
    "of equal arrays": lambda x, y, a: jnp.stack([x, x], a).sum(a),
    "gradient of glu": lambda x, y, a: fgrad.grad(lambda x, y: jnp.sum(nn.glu(jnp.stack([x, y], a), a) ** 2), (0, 1))(x, y),
    "gradient of halves": lambda x, y, a: fgrad.grad(lambda x: jnp.sum(HALVES(x) ** 2))(x),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_the_same_numbers(name, axis):
    got = fgrad.jit(lambda x, y: PROGRAMS[name](x, y, axis))(X, Y)
    with config.override("pass_simplify", False):
        want = fgrad.jit(lambda x, y: PROGRAMS[name](x, y, axis))(X, Y)
    for g, w in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["halves", "product", "sum of a stack", "sum of parts"])
def test_nothing_is_put_together(name):
    labels = [what for _, what in fgrad.jit(lambda x, y: PROGRAMS[name](x, y, -1)).lower(X, Y).compile().profile(X, Y, repeat=1)]
    assert not any("concatenate" in what for what in labels)


@pytest.mark.parametrize("many", [65, 500])
def test_a_stack_of_many_is_reduced_as_it_is(many):
    arrays = [np.float32(k) + X for k in range(many)]
    for reduce in (jnp.mean, jnp.max):
        compiled = fgrad.jit(lambda arrays, reduce=reduce: reduce(jnp.stack(arrays), 0)).lower(arrays).compile()
        assert not any("concatenate" in what for _, what in compiled.profile(arrays, repeat=1))
        np.testing.assert_allclose(compiled(arrays), getattr(np, reduce.__name__)(arrays, 0), rtol=1e-4)
