"""Jacobians by diagonals: the same values as by whole basis vectors, without squares of zeros."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, nn


def make(*shape):
    return jnp.asarray(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


W, V, M, P = make(7, 5), make(5, 7), make(3, 7), make(4, 2)


def rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


OF_VECTORS = {
    "rosenbrock": rosenbrock,
    "mlp": lambda x: jnp.tanh(jnp.maximum(x @ W, 0) @ V),
    "cumsum": lambda x: jnp.cumsum(x) * x,
    "pieces": lambda x: jnp.concatenate([x[3:] * 2, x[:3], x * x]),
    "roll": lambda x: jnp.roll(x, 2) * x,
    "outer": lambda x: x[:, None] * x[None, :],
    "standardize": lambda x: (x - x.mean()) / jnp.std(x),
    "softmax": nn.softmax,
    "stack": lambda x: jnp.stack([jnp.sin(x), jnp.cos(x)], 1),
    "where": lambda x: jnp.where(x > 0, x, x * x),
    "take": lambda x: x[jnp.array([1, 2, 2])],
    "stride": lambda x: x[::2] * 3,
    "reverse": lambda x: x[::-1] * x,
    "spread": lambda x: x.reshape(7, 1) * jnp.ones((1, 3)),
    "products": lambda x: M * x @ x,
    "quadratic": lambda x: x @ (V.T @ V @ x),
    "prod": jnp.prod,
    "half": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32) * 2,
    "max": lambda x: jnp.max(x) * x,
    "logsumexp": nn.logsumexp,
    "scan": lambda x: lax.scan(lambda c, r: (c * r, c + r), 1.0, x),
    "checkpoint": fgrad.checkpoint(lambda x: jnp.sin(x) * x[0]),
    "dead": lambda x: jnp.pad(x, (9, 0))[:8],
}
OF_MATRICES = {
    "product": lambda x: jnp.tanh(x @ P),
    "elementwise": lambda x: jnp.sin(x) * x,
    "flat": lambda x: x.reshape(-1) ** 2,
    "transposed": lambda x: x.T * 2,
    "softmax": lambda x: nn.softmax(x, -1),
    "sum": lambda x: (x * x).sum(0),
    "pieces": lambda x: jnp.concatenate([x, x * 2], 1),
    "corner": lambda x: x[1:, :2] ** 2,
    "every second column": lambda x: x[:, ::2] * 3,
    "every third of a turned matrix": lambda x: jnp.sin(x.T)[1::3],
    "column": lambda x: x.reshape(12, 1) @ x.reshape(1, 12),
}
TREE = {"a": make(3, 4), "b": make(4, 2), "c": jnp.float32(3.0)}
CASES = [
    *[(name, f, make(7)) for name, f in OF_VECTORS.items()],
    *[(name + " of a matrix", f, make(3, 4)) for name, f in OF_MATRICES.items()],
    ("tree", lambda d: {"y": d["a"] @ d["b"], "z": d["b"] * 2 + d["c"]}, TREE),
]


@pytest.mark.parametrize("op", [fgrad.jacfwd, fgrad.jacrev, fgrad.hessian], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name, fun, x", CASES, ids=[name for name, *_ in CASES])
def test_values_are_those_of_the_dense_computation(name, fun, x, op):
    got = fgrad.jit(op(fun))(x)
    with fgrad.config.override("pass_sparse", False):
        want = fgrad.jit(op(fun))(x)
    for a, b in zip(fgrad.tree.leaves(got), fgrad.tree.leaves(want)):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_per_example_jacobians():
    fun = fgrad.vmap(fgrad.jacfwd(lambda x: jnp.sin(x[1:]) * x[:-1]))
    xs = make(5, 6)
    with fgrad.config.override("pass_sparse", False):
        want = fgrad.jit(fun)(xs)
    np.testing.assert_allclose(fgrad.jit(fun)(xs), want, rtol=1e-6)


def labels(fun, x):
    return [label for _, label in fgrad.jit(fun).lower(x).compile().profile(x, repeat=1)]


def test_a_hessian_with_three_diagonals_makes_no_square_but_itself():
    got = labels(fgrad.hessian(rosenbrock), make(50))
    assert [x for x in got if "50, 50" in x or "49, 50" in x or "50, 49" in x] == ["diagonals [50] [50] [50] [50, 50]"]


@pytest.mark.parametrize("op", [fgrad.jacfwd, fgrad.jacrev])
def test_a_product_with_the_basis_is_no_product(op):
    assert not any("dot" in x for x in labels(op(lambda x: x @ W), make(7)))
    assert sum("dot [1, 7" in x for x in labels(op(lambda x: jnp.tanh(x @ W) @ V), make(7))) == 1


def test_zeros_of_the_basis_stay_zeros_beside_infinities():
    jac = fgrad.jit(fgrad.jacfwd(jnp.sqrt))(jnp.array([0.0, 4.0]))
    np.testing.assert_array_equal(jac, [[np.inf, 0.0], [0.0, 0.25]])


def drawn_steps(rng, x):
    """A few steps that move, select and combine elements."""
    for _ in range(rng.integers(1, 7)):
        axis, other, count = (int(rng.integers(x.ndim)) for _ in range(3))
        n, shape = x.shape[axis], x.shape
        fixed = jnp.asarray(rng.standard_normal(shape).astype(np.float32))
        step = [
            lambda: x[tuple(slice(int(rng.integers(2)), None, int(rng.integers(1, 4))) for _ in shape)],  # noqa: B023
            lambda: jnp.swapaxes(x, axis, other),  # noqa: B023
            lambda: x.reshape(-1, n),  # noqa: B023
            lambda: lax.pad(x, 0.0, [tuple(map(int, (*rng.integers(0, 2, 2), rng.integers(2)))) for _ in shape]),  # noqa: B023
            lambda: jnp.concatenate([x, jnp.sin(x)], axis),  # noqa: B023
            lambda: x * fixed + 1,  # noqa: B023
            lambda: x * x,  # noqa: B023
            lambda: x.sum(axis, keepdims=count > 0),  # noqa: B023
            lambda: jnp.take(x, rng.integers(0, n, 2), axis),  # noqa: B023
            lambda: jnp.flip(x, axis),  # noqa: B023
            lambda: jnp.stack([x, x + 1], axis),  # noqa: B023
            lambda: x[..., None] * jnp.arange(1.0, 3.0),  # noqa: B023
            lambda: x @ jnp.asarray(rng.standard_normal((shape[-1], 2)).astype(np.float32)),  # noqa: B023
            lambda: jnp.where(fixed > 0, x, 0),  # noqa: B023
        ][rng.integers(14)]()
        if step.ndim and 0 < step.size <= 200:
            x = step
    return x


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_drawn_jacobians(first):
    for seed in range(first, first + 20):
        x = make(*np.random.default_rng(seed).integers(1, 6, 1 + seed % 3))
        f = lambda x, seed=seed: drawn_steps(np.random.default_rng(seed), x)
        for jacobian in (fgrad.jacfwd(f), fgrad.jacrev(f)):
            np.testing.assert_allclose(fgrad.jit(jacobian)(x), jacobian(x), rtol=1e-4, atol=1e-4, err_msg=str(seed))
