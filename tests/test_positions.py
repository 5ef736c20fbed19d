"""Positions of extrema in what is computed of a few codes are chains of comparisons, with the ties and NaN of NumPy."""

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
@pytest.mark.parametrize("codes", [2, 5, 16, 32, 33])
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
    assert any("argreduce" in text for text in kernels(4096, 100))
