"""Products of 16-bit floats whose results are asked for in float32, and of vectors of them."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax

HALVES = "bfloat16", "float16"


def drawn(dtype, *shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).astype(dtype)


def wide(x):
    return np.asarray(x.astype("float32")).astype(np.float64)


def steps(f, *args):
    return " ".join([label for _, label in fgrad.jit(f).lower(*args).compile().profile(*args)])


@pytest.mark.parametrize("dtype", HALVES)
def test_einsum_keeps_operands_where_another_dtype_is_preferred(dtype):
    a, b = drawn(dtype, 40, 48), drawn(dtype, 48, 32, seed=1)
    jaxpr = fgrad.make_jaxpr(lambda a, b: jnp.einsum("ij,jk->ik", a, b, preferred_element_type=jnp.float32))(a, b)
    assert [e.primitive.name for e in jaxpr.jaxpr.eqns] == ["dot_general"]
    out = jnp.einsum("ij,jk->ik", a, b, preferred_element_type=jnp.float32)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, wide(a) @ wide(b), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("spec", ["ij,ij->ij", "ij,kj->jik", "ii,ij->j", "ij->i", "ij,k->ik", "ij,jk,kl->il", "ij,ik,l->jk"])
@pytest.mark.parametrize("dtype", (*HALVES, "int8"))
def test_einsum_of_every_kind_gives_the_preferred_dtype(spec, dtype):
    terms = spec.split("->")[0].split(",")
    ops = [drawn("float32", *[6] * len(t), seed=i) for i, t in enumerate(terms)]
    ops = [(x * 9).astype(dtype) if dtype == "int8" else x.astype(dtype) for x in ops]
    out = jnp.einsum(spec, *ops, preferred_element_type=jnp.float32)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(out, np.einsum(spec, *map(wide, ops)), rtol=1e-4, atol=1e-3)


def test_einsum_of_three_sums_in_the_preferred_dtype():
    x = jnp.full((4096, 2), 0.1, "bfloat16")
    out = jnp.einsum("ij->j", x, preferred_element_type=jnp.float32)
    np.testing.assert_allclose(out, wide(x).sum(0), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-9, 3.0])
@pytest.mark.parametrize("product", [jnp.matmul, lambda x, w, **k: jnp.einsum("bi,ij->bj", x, w, **k)])
def test_cotangents_beyond_float16_are_added_up(product, scale):
    """Each of them is 0, or infinite, in float16; their sums are not."""
    x, w = jnp.ones((4096, 8), "float16"), jnp.ones((8, 4), "float16")
    if scale > 1:
        x = x.at[1:].set(0) * 1e-3
        scale *= 1e5
    g = fgrad.grad(lambda w: (product(x, w, preferred_element_type=jnp.float32) * scale).sum())(w)
    np.testing.assert_allclose(wide(g), 4096 * scale if scale < 1 else scale * 1e-3, rtol=2e-2)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize(
    "spec, left", [("ijk,ijk->ij", (5, 7, 33)), ("kb,kb->b", (9, 40)), ("kb,ikb->ib", (9, 40)), ("i,i->", (1000,)), ("i,i->", (1,))]
)
def test_products_of_half_vectors_are_summed_where_they_lie(dtype, spec, left):
    a, b = drawn(dtype, *left), drawn(dtype, *((3, *left) if "ikb" in spec else left), seed=1)
    exact = np.einsum(spec, wide(a), wide(b))
    f = lambda a, b: jnp.einsum(spec, a, b)  # noqa: E731
    for g in (f, fgrad.jit(f)):
        out = g(a, b)
        assert out.dtype == a.dtype
        np.testing.assert_allclose(wide(out), exact, rtol=1e-2, atol=2e-3)
    if max(left) > 1:
        assert "dot" not in steps(f, a, b)
    wider = (
        lax.dot_general(a, b, ((tuple(range(a.ndim)),) * 2, ((), ())), preferred_element_type=jnp.float32) if a.shape == b.shape else None
    )
    if wider is not None:
        assert wider.dtype == jnp.float32
        np.testing.assert_allclose(wider, (wide(a) * wide(b)).sum(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", HALVES)
def test_sums_of_half_products_are_rounded_once(dtype):
    """A product of its own would be rounded before it is added."""
    x = jnp.full(4096, 1.0078125, dtype)  # its square has more bits than 16-bit floats
    np.testing.assert_array_equal(wide(jnp.vdot(x, x)), wide(jnp.asarray(np.float32(4096 * 1.0078125**2)).astype(dtype)))


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("stored", ["int8", "uint8"])
@pytest.mark.parametrize("form", ["plain", "turned", "scaled after", "scaled columns", "scaled rows", "from the right", "wider"])
def test_rows_of_halves_read_bytes_where_they_lie(dtype, stored, form):
    info = np.iinfo(stored)
    w = np.random.default_rng(2).integers(info.min, info.max, (130, 200), stored, endpoint=True)
    x, s, t = drawn(dtype, 3, 130), drawn(dtype, 200, seed=3), drawn(dtype, 130, seed=4)

    def f(x, w, s, t):
        m = w.astype(dtype)
        if form == "wider":
            return jnp.matmul(x, m, preferred_element_type=jnp.float32)
        if form == "from the right":
            return m.T @ x.T
        if form == "turned":
            return x @ w.T.copy().astype(dtype).T
        return {"plain": x @ m, "scaled after": (x @ m) * s, "scaled columns": x @ (m * s), "scaled rows": x @ (m * t[:, None])}[form]

    exact = wide(x) @ (w * (wide(s) if form in ("scaled after", "scaled columns") else wide(t)[:, None] if form == "scaled rows" else 1.0))
    out = fgrad.jit(f)(x, w, s, t)
    assert out.dtype == (jnp.float32 if form == "wider" else x.dtype)
    np.testing.assert_allclose(wide(out), exact.T if form == "from the right" else exact, rtol=2e-2, atol=1e-2 * abs(exact).max())
    labels = steps(f, x, w, s, t)
    assert "cast" not in labels and "dot" in labels
