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


def test_index_of_fori_loop_is_weak_between_known_bounds():
    for dtype in ("uint8", "int16", "float16"):
        for n in (3, jnp.asarray(3)):
            out = lax.fori_loop(0, n, lambda i, c: c * 2 + i, jnp.ones((), dtype))
            assert (out.dtype, int(out)) == (dtype, 12)
        assert jax.jit(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, jnp.ones((), "int8")))(3).dtype == "int8"
    index = lambda n: lax.fori_loop(np.int32(0), n, lambda i, c: i, np.int32(0))  # noqa: E731
    assert index(np.int32(3)).weak_type and not jax.jit(index)(np.int32(3)).weak_type  # known bounds count in Python's integers


def test_gradient_of_a_constant():
    assert jax.grad(lambda x: 3.0)(1.0) == 0
    value, gradient = jax.value_and_grad(lambda p: 2.5)({"w": jnp.ones(2)})
    assert value == 2.5 and gradient["w"].tolist() == [0, 0]


def test_lists_among_indices():
    m = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(m[1:, [0, 2]], np.asarray(m)[1:, [0, 2]])
    np.testing.assert_array_equal(m[[True, False], 1], [1])
    np.testing.assert_array_equal(m.at[:, [0, 1]].set(9.0), [[9, 9, 2], [9, 9, 5]])
    with pytest.raises(TypeError, match="non-tuple sequence"):
        m[[0, 1]]


def test_values_of_array():
    assert jnp.array(range(3)).tolist() == jnp.asarray(range(3)).tolist() == [0, 1, 2]
    for bad in (lambda: jnp.array(-1, "uint32"), lambda: jnp.array([300], "uint8"), lambda: jnp.uint8(300)):
        with pytest.raises(OverflowError):
            bad()
    assert jnp.array(2**31, "uint32") == 2**31 and jnp.array([1.5, 2], "uint8").tolist() == [1, 2]
    with pytest.raises(ValueError, match="None"):
        jnp.array([1, None])
    assert jax.device_get({"a": 3}) == {"a": 3} and type(jax.device_get(3)) is int


def test_refusals():
    with pytest.raises(RuntimeError, match="gpu"):
        jax.devices("gpu")
    with pytest.raises(ValueError, match="cannot intersect"):
        jax.jit(lambda x: x, static_argnums=0, donate_argnums=0)
    with pytest.raises(TypeError, match="callable"):
        jax.vmap(3)
    with pytest.raises(TypeError, match="real-valued"):
        jax.jacfwd(lambda x: x * 2)(jnp.ones(2, "complex64"))
    with pytest.raises(ValueError, match="inconsistent"):
        jax.linearize(lambda x: x**2, 3.0)[1](1)


def test_products_of_mixed_dtypes_and_precisions():
    x, i = jnp.arange(3.0), jnp.arange(3)
    assert lax.dot(x, i).dtype == jnp.float32 and lax.dot(x, i) == 5
    for precision in (None, "highest", "F32_F32_F32", lax.Precision.HIGH, lax.DotAlgorithmPreset.BF16_BF16_F32, ("high", "default")):
        assert lax.dot(x, x, precision=precision) == 5
    assert lax.dot(x, x, precision=lax.DotAlgorithm("float32", "float32", "float32")) == 5
    with pytest.raises(ValueError, match="Precision"):
        lax.dot(x, x, precision="bogus")


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh", "exp2"])
def test_lax_of_complex_numbers(name):
    z = np.complex64([0.3 + 0.4j, -0.7 + 0.2j, 1.5 - 2j, -1 - 3j])
    want = np.exp2(z) if name == "exp2" else getattr(np, name.replace("a", "arc", 1))(z.astype("complex128"))
    np.testing.assert_allclose(getattr(lax, name)(z), want, rtol=3e-6)
    if name in ("asin", "atanh", "exp2"):
        np.testing.assert_allclose(getattr(lax, name)(np.float32(0.25)), getattr(lax, name)(np.complex64(0.25)).real, rtol=1e-6)


def test_pow_of_integer_exponents():
    x = jnp.arange(1.0, 4)
    np.testing.assert_allclose(lax.pow(x, jnp.arange(3)), [1, 2, 9])
    np.testing.assert_allclose(lax.pow(x, 3), [1, 8, 27])
    np.testing.assert_allclose(jax.grad(lambda x: lax.pow(x, jnp.arange(3)).sum())(x), [0, 1, 6])


def test_reduce_precision_to_any_format():
    x = np.float32([1 / 3, 1e-9, 1e9, -2.7, np.inf, np.nan, 0.1, -0.0])
    np.testing.assert_array_equal(lax.reduce_precision(x, 5, 2), np.float32([0.3125, 0, np.inf, -2.5, np.inf, np.nan, 0.09375, 0]))
    np.testing.assert_array_equal(lax.reduce_precision(x, 8, 23), x)
    np.testing.assert_array_equal(lax.reduce_precision(x, 4, 3)[:4], np.float32([0.34375, 0, np.inf, -2.75]))
    np.testing.assert_array_equal(lax.reduce_precision(jnp.asarray([1 / 3], "float16"), 5, 2), [0.3125])
    assert np.signbit(lax.reduce_precision(x, 5, 2)[-1])
    assert jax.grad(lambda x: lax.reduce_precision(x, 5, 2))(0.3) == 1
