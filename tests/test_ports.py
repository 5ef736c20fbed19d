"""What libraries written for JAX (optax's own tests, run on fgrad) and ported programs ask of the surface."""

import importlib

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad import lax


def test_distributions_are_modules():
    norm = importlib.import_module("fgrad.scipy.stats.norm")
    assert norm is jax.scipy.stats.norm
    np.testing.assert_allclose(norm.logpdf(0.0), -0.5 * np.log(2 * np.pi), rtol=1e-6)
    np.testing.assert_allclose(norm.sf(1.0) + norm.cdf(1.0), 1, rtol=1e-6)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fgrad.scipy.stats.gaussian_kde")


def test_keys_are_leaves_of_trees():
    key = jax.random.key(0)
    keys, shapes = {"a": key, "b": [key, key]}, {"a": (2,), "b": [(3,), ()]}
    assert jax.tree.structure(keys) == jax.tree.structure({"a": 0, "b": [0, 0]})
    assert jax.tree.leaves(keys)[0] is key and isinstance(key, jax.Array)
    drawn = jax.tree.map(lambda k, s: jax.random.normal(k, s), keys, shapes, is_leaf=lambda x: isinstance(x, tuple))
    assert jax.tree.map(jnp.shape, drawn) == shapes
    assert jnp.shape(key) == () and jnp.shape(jax.random.split(key)) == (2,)
    same = lambda tree: jax.tree.map(lambda k: jax.random.key_data(k).tolist(), tree)  # noqa: E731
    assert same(jax.jit(lambda t: t)(keys)) == same(keys)
    assert same(jax.vmap(lambda k: k)(jax.random.split(key))) == same(jax.random.split(key))
    assert jnp.astype(key, key.dtype) is key
    np.testing.assert_array_equal(jax.random.key_data(jnp.zeros_like(jax.random.split(key))), np.zeros((2, 2)))


def test_shapes_of_keys():
    key = jax.random.key(0)
    out = jax.eval_shape(jax.random.split, key)
    assert (out.shape, out.dtype, repr(out)) == ((2,), key.dtype, "ShapeDtypeStruct(shape=(2,), dtype=key<fry>)")
    struct = jax.ShapeDtypeStruct((), key.dtype)
    assert jax.eval_shape(jax.random.split, struct).shape == jax.jit(jax.random.split).lower(struct).out_info.shape == (2,)
    assert (jax.typeof(key).shape, jax.typeof(key).dtype) == ((), key.dtype)


@pytest.mark.parametrize(
    "f",
    [
        lambda k: lax.reshape(k, (2, 3)),
        lambda k: lax.transpose(k.reshape(2, 3), (1, 0)),
        lambda k: lax.rev(k, (0,)),
        lambda k: lax.concatenate([k, k[:2]], 0),
        lambda k: lax.slice(k, (1,), (5,), (2,)),
        lambda k: lax.broadcast_in_dim(k, (2, 6), (1,)),
        lambda k: lax.dynamic_slice(k, (2,), (3,)),
        lambda k: lax.dynamic_index_in_dim(k, 3, keepdims=False),
        lambda k: lax.dynamic_update_slice(k, k[:2], (4,)),
        lambda k: lax.select(np.arange(6) % 2 == 0, k, lax.rev(k, (0,))),
    ],
)
def test_lax_moves_keys(f):
    keys = jax.random.split(jax.random.key(3), 6)
    ids = jnp.arange(6)
    want = jax.random.key_data(keys)[f(ids)]
    for g in (f, jax.jit(f)):
        np.testing.assert_array_equal(jax.random.key_data(g(keys)), want)


def test_structs_stand_for_arrays():
    struct = jax.ShapeDtypeStruct((2, 3), "bfloat16")
    assert jnp.shape(struct) == (2, 3) and jnp.ndim(struct) == 2 and len(struct) == 2 and struct.sharding is None
    for made in (jnp.zeros_like(struct), jnp.ones_like(struct), jnp.full_like(struct, 2), jnp.empty_like(struct)):
        assert (made.shape, made.dtype) == ((2, 3), jnp.bfloat16)
    assert struct.update(shape=(4,)) == jax.ShapeDtypeStruct((4,), "bfloat16")
    assert jax.typeof(struct).str_short() == "bfloat16[2,3]"
    assert jax.typeof(jnp.ones(3)).sharding is not None
    with pytest.raises(TypeError, match="not a valid JAX type"):
        jax.jit(jnp.sin)(struct)


def test_lowering_from_structs():
    f = jax.jit(lambda d, n: d["x"] * n, static_argnums=1)
    lowered = f.lower({"x": jax.ShapeDtypeStruct((3,), "float32")}, 3)
    assert lowered.out_info == jax.ShapeDtypeStruct((3,), "float32")
    np.testing.assert_array_equal(lowered.compile()({"x": jnp.arange(3.0)}), [0, 3, 6])
    assert f.trace({"x": jax.ShapeDtypeStruct((2,), "int32")}, 2).out_info.dtype == jnp.int32


def test_jit_of_callable_objects():
    x = jnp.arange(3.0)
    for f, want in ((jnp.sin, np.sin), (jnp.sum, np.sum), (jax.jit(jnp.cos), np.cos)):
        g = jax.jit(f)
        np.testing.assert_allclose(jax.vmap(g)(x[None])[0], want(x), rtol=1e-6)
        np.testing.assert_allclose(jax.jit(lambda x, g=g: g(x))(x), want(x), rtol=1e-6)

    class Model:
        def __init__(self):
            self.lower, self._slow = "an attribute", None

        def __call__(self, x):
            return 2 * x

    g = jax.jit(Model())
    np.testing.assert_array_equal(jax.vmap(g)(x), [0, 2, 4])
    assert g.lower(x).out_info.shape == (3,)
