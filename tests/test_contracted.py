"""Sums of elementwise products that are products of matrices (compile/contracted.py), and axes of one element (compile/squeezed.py)."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp

R = np.random.default_rng(0)

SUMS = {
    "rows by rows": (lambda x, y: (x[:, None] * y[None]).sum(-1), (20, 12), (30, 12)),
    "the other order": (lambda x, y: (x[None] * y[:, None]).sum(-1), (20, 12), (30, 12)),
    "columns": (lambda x, y: (x[:, :, None] * y[None]).sum(1), (20, 12), (12, 30)),
    "two sums": (lambda x, y: (x[:, None] * y[None]).sum((2, 3)), (20, 3, 4), (30, 3, 4)),
    "batch": (lambda x, y: (x[:, :, None] * y[:, None]).sum(-1), (3, 20, 6), (3, 30, 6)),
    "batch inside": (lambda x, y: (x[:, None] * y[None]).sum(2), (20, 6, 3), (30, 6, 3)),
    "batch between": (lambda x, y: (x[:, :, None] * y[None]).sum(-1), (20, 3, 6), (3, 30, 6)),
    "keepdims": (lambda x, y: (x[:, None] * y[None]).sum(-1, keepdims=True), (20, 12), (30, 12)),
    "transposed": (lambda x, y: (x.T[:, None] * y.T[None]).sum(-1), (12, 20), (12, 30)),
    "strided": (lambda x, y: (x[::2, None, ::3] * y[None, ::-1, ::3]).sum(-1), (40, 12), (30, 12)),
    "computed": (lambda x, y: jnp.tanh((jnp.exp(x)[:, None] * (y + 1)[None]).sum(-1) / 9), (20, 12), (30, 12)),
    "vmap": (fgrad.vmap(fgrad.vmap(lambda x, y: (x * y).sum(), (None, 0)), (0, None)), (20, 12), (30, 12)),
    "one is summed alone": (lambda x, y: (x[:, None, None] * y[None]).sum((1, 2)), (20, 12), (30, 9, 12)),
    "few rows": (lambda x, y: (x[:, None] * y[None]).sum(-1), (3, 12), (30, 12)),
    "read twice": (lambda x, y: (lambda p: p.sum(-1) + p.max(-1))(x[:, None] * y[None]), (20, 12), (30, 12)),
    "squared": (lambda x, y: (lambda p: (p * p).sum(-1))(x[:, None] + y[None]), (20, 12), (30, 12)),
    "axes of one": (lambda x, y: (x[:, None] * y[None]).sum((2, 3)), (20, 1, 12), (30, 1, 12)),
}


@pytest.mark.parametrize("dtype", ("float32", "float64", "bfloat16", "int32"))
@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products(name, dtype):
    f, *shapes = SUMS[name]
    with fgrad.enable_x64(dtype == "float64"):
        x, y = [jnp.asarray(R.integers(-4, 5, s), dtype) for s in shapes]
        got = fgrad.jit(f)(x, y)
        with fgrad.config.override("pass_simplify", False), fgrad.config.override("pass_fuse", False):
            want = fgrad.jit(lambda x, y: f(x, y))(x, y)
        assert got.shape == want.shape and got.dtype == want.dtype
        np.testing.assert_allclose(
            got.astype("float32"),
            want.astype("float32"),
            rtol=5e-2 if dtype == "bfloat16" else 1e-5,
            atol=5e-2 if dtype == "bfloat16" else 1e-5,
        )
        if dtype.startswith("float"):
            loss = lambda x, y: jnp.sum(jnp.sin(f(x, y)))  # noqa: E731
            pull = fgrad.jit(fgrad.grad(loss, (0, 1)))(x, y)
            with fgrad.config.override("pass_simplify", False), fgrad.config.override("pass_fuse", False):
                back = fgrad.jit(fgrad.grad(lambda x, y: loss(x, y), (0, 1)))(x, y)
            for a, b in zip(pull, back):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_which_sums_become_products_of_matrices():
    matrices = set(SUMS) - {"one is summed alone", "few rows", "read twice", "squared"}
    for name, (f, *shapes) in SUMS.items():
        x, y = [R.normal(size=s).astype("float32") for s in shapes]
        labels = [label for _, label in fgrad.jit(f).lower(x, y).compile().profile(x, y)]
        assert any([label.startswith("dot") for label in labels]) == (name in matrices), (name, labels)


def test_infinities_and_nan_in_sums_of_products():
    x, y = R.normal(size=(20, 12)).astype("float32"), R.normal(size=(30, 12)).astype("float32")
    x[3, 4], x[5, 6], y[7, 4] = np.inf, np.nan, 0
    with np.errstate(invalid="ignore"):
        want = (x[:, None] * y[None]).sum(-1)
    np.testing.assert_allclose(fgrad.jit(SUMS["rows by rows"][0])(x, y), want, rtol=1e-4, atol=1e-5)


ONES = {
    "sum": lambda x: jnp.sqrt(jnp.sum(x * x, -1) + 1),
    "squeeze": lambda x: jnp.tanh(jnp.squeeze(jnp.sin(x) * 2, -1)) + 1,
    "expand": lambda x: jnp.cos(jnp.exp(x)[:, None] - 1),
    "two readers": lambda x: (jnp.cos(jnp.exp(x)[:, None] - 1), jnp.exp(x)[:, 0] * 2, jnp.exp(x) - 3),
    "max of one": lambda x: jnp.max(x + 1, 1) * jnp.min(x, 1) + jnp.prod(x * 2, 1),
    "sum of the rest": lambda x: jnp.sum(jnp.exp(x)[:, :, None] * 2, (0, 1)),
}


@pytest.mark.parametrize("dtype", ("float32", "bfloat16", "int32"))
@pytest.mark.parametrize("shape", ((50, 1), (1, 1), (0, 1), (2000, 1)))
@pytest.mark.parametrize("name", ONES)
def test_axes_of_one_element(name, shape, dtype):
    f = ONES[name]
    x = jnp.asarray(R.integers(-3, 4, shape), dtype)
    got = fgrad.tree.leaves(fgrad.jit(f)(x))
    with fgrad.config.override("pass_simplify", False), fgrad.config.override("pass_fuse", False):
        want = fgrad.tree.leaves(fgrad.jit(lambda x: f(x))(x))
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a.astype("float32"), b.astype("float32"), rtol=3e-2 if dtype == "bfloat16" else 1e-5, atol=1e-5)


def test_what_differs_by_an_axis_of_one_element_is_one_group():
    x = R.normal(size=(300, 1)).astype("float32")
    for name in ("sum", "squeeze", "expand"):
        assert len(fgrad.jit(ONES[name]).lower(x).compile().profile(x)) == 1, name
