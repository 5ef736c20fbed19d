"""Matrices of short rows are turned before the loops that multiply vectors by them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.control import turned

RNG = np.random.default_rng(0)
SHAPES = [(20, 20), (64, 64), (17, 33), (33, 17), (200, 50), (24, 40)]


def steps(a, x, kind, product):
    """40 steps of v -> tanh(product) put back into a vector as long as a row."""
    m, k = a.shape
    step = lambda v: jnp.tanh(jnp.resize(product(a, v), (k,)) + v)  # noqa: E731
    if kind == "fori":
        return lax.fori_loop(0, 40, lambda i, v: step(v), x)
    if kind == "while":
        return lax.while_loop(lambda s: s[1] < 40, lambda s: (step(s[0]), s[1] + jnp.where(s[0][0] < 9, 1, 0)), (x, 0))[0]
    return lax.scan(lambda v, _: (step(v), v[0]), x, None, length=40)[0]


PRODUCTS = {
    "a @ v": lambda a, v: a @ v,
    "v @ a.T": lambda a, v: v @ a.T,
    "einsum": lambda a, v: jnp.einsum("ij,j->i", a * 2, v) / 2,
    "several": lambda a, v: (jnp.stack([a, 3 * a]) @ v).sum(0) / 4,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["fori", "while", "scan"])
@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_are_those_of_the_matrix(shape, kind, product, dtype):
    a, x = RNG.standard_normal(shape) / shape[1], RNG.standard_normal(shape[1])
    want = x
    for _ in range(40):
        want = np.tanh(np.resize(a @ want, shape[1]) + want)
    with fgrad.enable_x64(dtype == "float64"):
        a, x = a.astype(dtype), x.astype(dtype)
        fun = fgrad.jit(lambda a, x: steps(a, x, kind, PRODUCTS[product]))
        np.testing.assert_allclose(fun(a, x), want, rtol=2e-4 if dtype == "float32" else 1e-11, atol=1e-5 if dtype == "float32" else 0)
        with fgrad.config.override("pass_flat", False):
            np.testing.assert_array_equal(fgrad.jit(lambda a, x: steps(a, x, kind, PRODUCTS[product]))(a, x), fun(a, x))


def test_gradients_and_batches():
    a, x = (RNG.standard_normal((20, 20)) / 20).astype(np.float32), RNG.standard_normal((5, 20)).astype(np.float32)
    fun = lambda a, x: jnp.sum(steps(a, x, "scan", PRODUCTS["a @ v"]) ** 2)  # noqa: E731
    got = fgrad.jit(fgrad.vmap(fgrad.grad(fun, (0, 1)), (None, 0)))(a, x)
    with fgrad.config.override("pass_motion", False):
        want = fgrad.jit(fgrad.vmap(fgrad.grad(lambda *v: fun(*v), (0, 1)), (None, 0)))(a, x)
    one = fgrad.jit(fgrad.grad(fun, (0, 1)))(a, x[2])
    for g, w, o in zip(got, want, one):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(g[2], o, rtol=1e-4, atol=1e-6)


def test_only_short_rows_of_loops_are_turned():
    turned = fgrad.jit(lambda a, x: steps(a, x, "scan", PRODUCTS["a @ v"]))
    names = lambda k: [n for _, n in turned.lower(jnp.ones((k, k)), jnp.ones(k)).compile().profile(jnp.ones((k, k)), jnp.ones(k), repeat=1)]  # noqa: E731
    assert "copy [40, 40] [40, 40]" in names(40) and "copy [80, 80] [80, 80]" not in names(80)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["fori", "while", "scan"])
@pytest.mark.parametrize("shape", [(100, 100), (70, 129), (129, 70), (300, 50), (3, 70, 90)])
def test_rows_get_whole_lines(shape, kind, dtype):
    """By rows, by columns, transposed, several at once, and of one row."""
    a, x = RNG.standard_normal(shape) / shape[-1], RNG.standard_normal(shape[-1])
    with fgrad.enable_x64(dtype == "float64"):
        a, x, n = jnp.asarray(a, dtype), jnp.asarray(x, dtype), shape[-1]
        square = a[..., :n, :] if a.ndim == 2 and a.shape[0] >= n else jnp.resize(a, (n, n))
        programs = [
            lambda a, v: jnp.resize(a @ v, (n,)),
            lambda a, v: v @ square,
            lambda a, v: v @ square.T,
            lambda a, v: (v[None] @ square)[0],
            lambda a, v: jnp.resize(jnp.einsum("...ij,j->...i", 2 * a, v), (n,)),
        ]
        for product in programs:
            fun = lambda a, x, product=product: steps(a.reshape(-1, n), x, kind, lambda _, v: product(a, v))  # noqa: E731
            got = fgrad.jit(fun)(a, x)
            with fgrad.config.override("pass_motion", False):
                want = fgrad.jit(lambda a, x, fun=fun: fun(a, x))(a, x)
            np.testing.assert_allclose(got, want, rtol=2e-4 if dtype == "float32" else 1e-11, atol=1e-5 if dtype == "float32" else 1e-13)


def test_padded_rows_are_padded_once():
    """Rows that are whole lines, small matrices and large ones stay, and so does all in short loops and those of unknown length."""
    short = [(100, 100, 31, 0), (100, 100, 0, 0)]
    for n, m, steps, pads in ((100, 100, 32, 1), (96, 100, 32, 0), (20, 20, 32, 0), (1000, 1000, 32, 0), *short):
        jaxpr = turned.turn_matrices(fgrad.make_jaxpr(lambda a, x: a @ x)(jnp.zeros((m, n)), jnp.zeros(n)).jaxpr, 1, steps)
        assert [e.primitive.name for e in jaxpr.eqns].count("pad") == pads


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows, cols", [(8, 8), (20, 5), (5, 20), (2, 3), (16, 16), (33, 4), (3, 40)])
@pytest.mark.parametrize("kind", ["fori", "scan"])
def test_matrices_of_a_batch(rows, cols, kind, dtype):
    """One for each vector: as they lie, transposed, on the right, and on the right of matrices."""
    programs = [
        lambda a, v: a @ v,
        lambda a, v: v @ a.T,
        lambda a, v: a.T @ jnp.resize(v, (rows,)),
        lambda a, v: (jnp.stack([v, 2 * v]) @ a.T).sum(0),
        lambda a, v: a.T @ (a @ v),
    ]
    for batch in ((12,), (3, 4)):
        a, x = RNG.standard_normal((*batch, rows, cols)) / (rows + cols), RNG.standard_normal((*batch, cols))
        with fgrad.enable_x64(dtype == "float64"):
            a, x = jnp.asarray(a, dtype), jnp.asarray(x, dtype)
            for product in programs:
                fun = lambda a, x, product=product: steps(a, x, kind, product)  # noqa: E731
                for _ in batch:
                    fun = fgrad.vmap(fun)
                got = fgrad.jit(fun)(a, x)
                with fgrad.config.override("pass_motion", False):
                    want = fgrad.jit(lambda a, x, fun=fun: fun(a, x))(a, x)
                tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-13}
                np.testing.assert_allclose(got, want, **tolerance)


def test_rows_of_a_batch_that_lie_along_the_product_stay():
    if not turned.ENTRIES:
        pytest.skip("matrices of a batch are turned for vectors of 256 bits")
    a, x = jnp.zeros((12, 8, 8)), jnp.zeros((12, 8))
    for fun, copies in ((lambda a, x: a @ x, 1), (lambda a, x: x @ a.T, 1), (lambda a, x: a.T @ x, 0), (lambda a, x: x @ a, 0)):
        jaxpr = fgrad.make_jaxpr(fgrad.vmap(fun))(a, x).jaxpr
        assert [e.primitive.name for e in turned.turn_matrices(jaxpr, 1, 20).eqns].count("copy") == copies
