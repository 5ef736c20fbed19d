"""Each compiler pass may be turned off: results agree, and each does what it is for."""

import contextlib

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn

PASSES = ["pass_sparse", "pass_motion", "pass_dce", "pass_cse", "pass_fold", "pass_simplify", "pass_fuse", "pass_tile", "pass_flat"]


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
