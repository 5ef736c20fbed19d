"""Reductions of, and positions of extrema in, what is computed of a few codes are chains of operations, with the ties and NaN of NumPy."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad._kernels import vm_plan

RNG = np.random.default_rng(0)
PROGRAMS = {
    "nearest": lambda m, x, c: m.argmin(m.abs(x[:, None] - c), -1),
    "farthest": lambda m, x, c: m.argmax((x[:, None] - c) ** 2, 1),
    "in front": lambda m, x, c: m.argmin(m.abs(c[:, None] - x), 0),
    "of pairs": lambda m, x, c: m.argmin(((m.stack([x, 2 * x], -1)[:, None] - m.stack([c, -c], -1)) ** 2).sum(-1), -1),
    "two of them": lambda m, x, c: m.stack([m.argmin(m.abs(x[:, None] - c), -1), m.argmax(x[:, None] * c, -1)]),
    "in the middle": lambda m, x, c: m.argmax(x.reshape(-1, 1, 50) * c[:, None], 1),
    "read twice": lambda m, x, c: m.argmin(m.abs(x[:, None] - c), -1) + m.abs(x[:, None] - c).min(-1),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32"])
@pytest.mark.parametrize("codes", [2, 5, 16, 128, 129])
def test_positions_are_numpys(program, dtype, codes):
    x, c = (RNG.standard_normal(3000) * 8).astype(dtype), (RNG.standard_normal(codes) * 8).astype(dtype)
    c[-1] = c[0]
    if dtype.startswith("float"):
        x[::97], c[codes // 2] = np.nan, np.inf
    for codebook in (c, np.where(np.arange(codes) == 1, np.nan, c)) if dtype.startswith("float") else (c,):
        with fgrad.enable_x64("64" in dtype), np.errstate(all="ignore"):
            got = fgrad.jit(lambda x, c: PROGRAMS[program](jnp, x, c))(x, codebook.astype(dtype))
            want = PROGRAMS[program](np, x, codebook.astype(dtype))
        np.testing.assert_allclose(got, np.asarray(want).astype(got.dtype), rtol=1e-5)


@pytest.mark.skipif(not vm_plan.makes_code(), reason="is for machine code")
def test_what_is_a_chain():
    """One group, where there are as many positions and so few codes."""

    def kernels(n, codes):
        with fgrad.config.override("pass_machine", True):
            f = fgrad.jit(lambda x, c: jnp.argmin(jnp.abs(x[:, None] - c), -1))
            return [text for _, text in f.lower(jnp.ones(n), jnp.ones(codes)).compile().profile(jnp.ones(n), jnp.ones(codes))]

    assert not any("argreduce" in text for text in kernels(4096, 16))
    assert any("argreduce" in text for text in kernels(100, 16))
    assert any("argreduce" in text for text in kernels(4096, 200))


REDUCTIONS = {
    "max": lambda m, x, c: m.max(x[:, None] - c, 1),
    "min in front": lambda m, x, c: m.min(m.abs(c[:, None] - x), 0),
    "sum": lambda m, x, c: m.sum(m.abs(x[:, None] - c), -1),
    "prod": lambda m, x, c: m.prod(x[:, None] * 0.5 + c, -1),
    "in the middle": lambda m, x, c: m.max(x.reshape(-1, 1, 50) * c[:, None], 1),
    "twice": lambda m, x, c: m.max(x[:, None] + c, 1) + m.sum((x[:, None] + c) ** 2, 1),
    "of what is kept": lambda m, x, c: m.stack([m.abs(x[:, None] - c).min(-1), m.abs(x[:, None] - c)[:, 0]]),
}


@pytest.mark.parametrize("program", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint32"])
@pytest.mark.parametrize("codes", [2, 7, 16, 129])
def test_reductions_are_numpys(program, dtype, codes):
    x, c = RNG.uniform(0, 3, 3000).astype(dtype), RNG.uniform(0, 3, codes).astype(dtype)
    if program == "prod" and not dtype.startswith("float"):
        return
    for odd in (False, True) if dtype.startswith("float") else (False,):
        if odd:
            x[::97], x[1::89], c[1] = np.nan, -np.inf, np.inf
        with fgrad.enable_x64("64" in dtype), np.errstate(all="ignore"):
            got = fgrad.jit(lambda x, c: REDUCTIONS[program](jnp, x, c))(x, c)
            want = REDUCTIONS[program](np, x, c)
        np.testing.assert_allclose(got, np.asarray(want).astype(got.dtype), rtol=1e-4 if "32" in dtype else 1e-12)


@pytest.mark.skipif(not vm_plan.makes_code(), reason="is for machine code")
def test_gradients_of_extrema_are_one_group():
    """Ties share the gradient; what the maximum and its cotangent compute is computed again rather than kept."""
    x, c = RNG.integers(0, 4, 4000).astype(np.float32), np.asarray([0, 1, 1, 2, 5], np.float32)
    f = fgrad.jit(fgrad.grad(lambda c, x: jnp.max(jnp.abs(x[:, None] - c), 1).sum()))
    d = x[:, None] - c
    best = np.abs(d) == np.abs(d).max(1, keepdims=True)
    np.testing.assert_allclose(f(c, x), (-np.sign(d) * best / best.sum(1, keepdims=True)).sum(0), rtol=1e-5)
    g = fgrad.jit(fgrad.grad(lambda x, c: jnp.max(x[:, None] - c, 1).sum()))
    with fgrad.config.override("pass_machine", True):
        assert len(g.lower(x, c).compile().profile(x, c)) == 1
    np.testing.assert_allclose(g(x, c), np.ones_like(x))
