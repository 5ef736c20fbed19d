"""The names JAX programs use beside the transformations and numpy: trees, devices, settings, segments, custom rules."""

import collections
import dataclasses
import functools
import logging
import pickle

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad import lax
from fgrad.test_util import check_grads
from fgrad.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    all_leaves,
    flatten_one_level,
    flatten_one_level_with_keys,
    is_tree_node,
    keystr,
    register_pytree_node,
    register_pytree_with_keys_class,
    register_static,
    tree_map,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)

Point = collections.namedtuple("Point", "x y")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda _, xs: Pair(*xs))


@register_pytree_with_keys_class
class Named:
    def __init__(self, w):
        self.w = w

    def tree_flatten_with_keys(self):
        return ((GetAttrKey("w"), self.w),), None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    w: float
    name: str = jax.tree.static(default="first")


@register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    train: bool


def paths(tree, **kw):
    return [keystr(p, **kw) for p, _ in jax.tree.leaves_with_path(tree)]


def test_key_paths():
    tree = {"b": [1, (2, None)], "a": Point(3, {4: 5}), "c": Pair(6, [7]), "d": Layer(8.0), "e": Named(9)}
    want = ["['a'].x", "['a'].y[4]", "['b'][0]", "['b'][1][0]", "['c'][<flat index 0>]", "['c'][<flat index 1>][0]", "['d'].w", "['e'].w"]
    assert paths(tree) == want
    assert paths(tree, simple=True, separator="/") == ["a/x", "a/y/4", "b/0", "b/1/0", "c/0", "c/1/0", "d/w", "e/w"]
    assert jax.tree.leaves_with_path(tree)[0] == ((DictKey("a"), GetAttrKey("x")), 3)
    assert jax.tree.leaves_with_path([Pair(1, 2)])[1][0] == (SequenceKey(0), FlattenedIndexKey(1))
    assert jax.tree.map_with_path(lambda p, x, y: (keystr(p), x + y), {"a": 1}, {"a": 2}) == {"a": ("['a']", 3)}


def test_is_leaf_takes_path():
    pairs, treedef = jax.tree.flatten_with_path({"a": [1, 2], "b": 3}, lambda path, x: len(path) == 1, is_leaf_takes_path=True)
    assert pairs == [((DictKey("a"),), [1, 2]), ((DictKey("b"),), 3)]
    assert jax.tree.unflatten(treedef, ["x", "y"]) == {"a": "x", "b": "y"}


def test_tree_helpers():
    assert all_leaves([1, 2]) and not all_leaves([1, [2]])
    assert [is_tree_node(t) for t in (dict, Pair, type(None), int, np.ndarray)] == [True, True, True, False, False]
    assert list(flatten_one_level({"b": 1, "a": [2]})[0]) == [[2], 1]
    assert flatten_one_level_with_keys(Point(1, 2))[0] == ((GetAttrKey("x"), 1), (GetAttrKey("y"), 2))
    registry = jax.tree_util.default_registry
    assert registry.flatten_one_level({"b": 1, "a": [2]}) == (([2], 1), ("a", "b")) and registry.flatten_one_level(3) is None
    assert registry.flatten_one_level_with_keys(Point(1, 2))[0][1] == (GetAttrKey("y"), 2)
    assert registry.is_node(dict) and not registry.is_node({}) and registry.flatten((1, None)) == jax.tree.flatten((1, None))
    with pytest.raises(ValueError, match="leaf"):
        flatten_one_level(3)
    s = jax.tree.structure([1, (2, None)])
    assert treedef_children(s) == [jax.tree.structure(0), jax.tree.structure((2, None))]
    assert treedef_is_leaf(treedef_children(s)[0]) and not treedef_is_leaf(s)
    assert jax.tree.unflatten(treedef_tuple([s, s]), range(4)) == ([0, (1, None)], [2, (3, None)])
    assert jax.tree.broadcast({"a": 1, "b": 2}, {"a": [0, 0], "b": 0}) == {"a": [1, 1], "b": 2}
    assert jax.tree.transpose(jax.tree.structure([0, 0]), None, [{"a": 1}, {"a": 2}]) == {"a": [1, 2]}
    assert jax.tree.reduce(lambda a, b: (a, b), [1], None) == (None, 1)
    assert jax.tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde")) == "(((ab)(cd))e)"
    assert jax.tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        jax.tree.reduce_associative(max, [])
    assert tree_map(lambda x, y: (x, y), [1, 2], [{"a": 3}, 4]) == [(1, {"a": 3}), (2, 4)]


def test_static_nodes_are_structure():
    assert jax.tree.leaves([Mode(True), 1]) == [1]
    seen = []

    @jax.jit
    def f(mode, x):
        seen.append(mode)
        return x if mode.train else -x

    assert [float(f(Mode(t), 2.0)) for t in (True, False, True)] == [2.0, -2.0, 2.0]
    assert seen == [Mode(True), Mode(False)]


def test_register_dataclass_asks_for_all_fields():
    @dataclasses.dataclass
    class Three:
        a: int
        b: int
        c: int = 0

    with pytest.raises(ValueError, match=r"Missing fields: \['c'\]"):
        jax.tree_util.register_dataclass(Three, ["a"], ["b"])
    jax.tree_util.register_dataclass(Three, ["a"], ["b"], drop_fields=["c"])
    assert jax.tree.map(lambda x: x + 1, Three(1, 2, 3)) == Three(2, 2, 0)


def test_partial_is_a_tree():
    p = Partial(lambda a, b, k: a * b + k, 2.0, k=3.0)
    assert jax.tree.leaves(p) == [2.0, 3.0]
    assert float(jax.jit(lambda p, x: p(x))(p, 4.0)) == 11.0
    assert float(jax.grad(lambda p: p(4.0))(p).args[0]) == 4.0


def test_pullbacks_are_trees():
    f = lambda x, y: jnp.sin(x) * y  # noqa: E731
    value, pullback = jax.jit(lambda x, y: jax.vjp(f, x, y))(1.0, 2.0)
    np.testing.assert_allclose(jax.jit(lambda p, ct: p(ct))(pullback, 1.0), (2 * np.cos(1), np.sin(1)), rtol=1e-6)
    _, push = jax.jit(lambda x: jax.linearize(jnp.sin, x))(1.0)
    np.testing.assert_allclose(push(2.0), 2 * np.cos(1), rtol=1e-6)
    fwd, bwd = jax.fwd_and_bwd(lambda x, y: (jnp.sin(x) * y, x), 0, has_aux=True)
    for x in (1.0, 2.0):
        value, aux, residuals = fwd(x, 3.0)
        np.testing.assert_allclose(bwd(residuals, 1.0), 3 * np.cos(x), rtol=1e-6)
        assert float(aux) == x
    assert bwd._cache_size() == 1


def test_ravel_pytree():
    tree = {"a": jnp.arange(3), "b": (jnp.ones((2, 2), jnp.bfloat16), 2.5)}
    vector, unravel = jax.flatten_util.ravel_pytree(tree)
    assert vector.shape == (8,) and vector.dtype == jnp.float32  # 2.5 counts as an array of its own dtype
    back = unravel(vector)
    assert jax.tree.all(jax.tree.map(lambda x, y: bool(jnp.all(x == y)) and x.dtype == jnp.asarray(y).dtype, back, tree))
    with pytest.raises(ValueError, match=r"expected an array of shape \(8,\)"):
        unravel(vector[1:])
    with pytest.raises(TypeError, match="bfloat16"):
        unravel(vector.astype(jnp.bfloat16))
    assert jax.flatten_util.ravel_pytree(())[0].shape == (0,)


@pytest.mark.parametrize(
    "name, op, start", [("sum", np.add, 0), ("prod", np.multiply, 1), ("max", np.maximum, -np.inf), ("min", np.minimum, np.inf)]
)
@pytest.mark.parametrize("shape, ids", [((6,), [0, 2, 2, -1, 0, 9]), ((6, 2), [3, 3, 1, 1, 1, 0]), ((2, 3, 2), [[0, 1, 1], [4, 0, 0]])])
def test_segments(name, op, start, shape, ids):
    x, ids = np.random.default_rng(0).standard_normal(shape).astype(np.float32), np.array(ids)
    want = np.full((4, *shape[ids.ndim :]), start, np.float32)
    for where in np.ndindex(ids.shape):
        if 0 <= ids[where] < 4:
            want[ids[where]] = op(want[ids[where]], x[where])
    f = getattr(jax.ops, f"segment_{name}")
    np.testing.assert_allclose(f(x, ids, 4), want, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(f, static_argnums=2)(x, ids, 4), want, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(lambda x: f(x, ids, 4))(x[None])[0], want, rtol=1e-6)
    np.testing.assert_allclose(f(x, ids, 4, bucket_size=2), want, rtol=1e-6)
    check_grads(lambda x: jnp.where(jnp.isfinite(want), f(x, ids, 4), 0), (x,), 1, eps=1e-2)


def test_segments_without_a_count():
    assert jax.ops.segment_sum(jnp.ones(3), jnp.array([0, 2, 2])).tolist() == [1, 0, 2]
    assert jax.ops.segment_max(jnp.array([3, 4]), jnp.array([0, 2]), 3).tolist() == [3, np.iinfo(np.int32).min, 4]
    with pytest.raises(jax.errors.ConcretizationTypeError, match="num_segments"):
        jax.jit(jax.ops.segment_sum)(jnp.ones(2), jnp.array([0, 1]))
    with pytest.raises(TypeError, match="integer"):
        jax.ops.segment_sum(jnp.ones(2), jnp.array([0, 1]), 2.5)
    with pytest.raises(TypeError, match="float32"):
        jax.ops.segment_sum(jnp.ones(2), jnp.ones(2), 2)
    with pytest.raises(ValueError, match="begin with"):
        jax.ops.segment_sum(jnp.ones(2), jnp.array([0, 1, 1]), 2)


def test_check_grads_finds_wrong_rules():
    @jax.custom_jvp
    def f(x):
        return x**2

    f.defjvp(lambda primals, tangents: (f(*primals), 3 * primals[0] * tangents[0]))
    with pytest.raises(AssertionError, match="JVP tangent"):
        check_grads(f, (2.0,), 1, modes=["fwd"])
    with pytest.raises(AssertionError, match="VJP cotangent"):
        check_grads(f, (2.0,), 1, modes=["rev"])
    check_grads(lambda p: {"y": jnp.tanh(p["x"]) * p["n"]}, ({"x": jnp.ones((2, 2)), "n": 3},), 2)
    check_grads(lambda z: z * z + jnp.conj(z), (jnp.array([1 + 2j, 0.5j]),), 2)


def test_devices():
    (d,) = jax.devices()
    assert jnp.ones(2).device is d and jnp.ones(2).devices() == {d}
    assert (d.platform, d.id, jax.device_count(), jax.local_device_count(), jax.process_index(), jax.process_count()) == (
        "cpu",
        0,
        1,
        1,
        0,
        1,
    )
    assert (
        jax.default_backend() == "cpu"
        and repr(d) == "CpuDevice(id=0)"
        and jax.local_devices() == [d]
        and pickle.loads(pickle.dumps(d)) is d
    )
    assert jax.device_put([1.0], d)[0].device is d
    assert float(jax.jit(lambda x: jax.device_put(x * 2))(1.0)) == 2.0
    with pytest.raises(RuntimeError, match="Unknown backend"):
        jax.devices("gpu")
    for wrong in (lambda: jax.device_put(1.0, "tpu"), lambda: jax.jit(jnp.sin, backend="gpu")):
        with pytest.raises(ValueError, match="'cpu'"):
            wrong()
    assert "numpy" in jax.print_environment_info(return_string=True)


def test_absent_names_say_why():
    for name, reason in {"smap": "one device, the CPU", "live_arrays": "memory"}.items():
        assert not hasattr(jax, name)
        with pytest.raises(AttributeError, match=reason):
            getattr(jax, name)
    with pytest.raises(ValueError, match="expected a sharding"):
        jax.jit(jnp.sin, in_shardings=("x",))


def test_settings_as_contexts(caplog):
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        jnp.log(-jnp.ones(2))
    with jax.debug_infs(), pytest.raises(FloatingPointError, match="inf"):
        jax.jit(lambda x: 1 / x)(jnp.zeros(2))
    with jax.numpy_dtype_promotion("strict"):
        assert (jnp.ones(2) * 2 + 1.5).tolist() == [3.5, 3.5]
        for wrong in (lambda: jnp.ones(2) + jnp.arange(2), lambda: jnp.arange(2) + 0.5):
            with pytest.raises(jax.errors.TypePromotionError, match="strict"):
                wrong()
    assert (jnp.ones(2) + jnp.arange(2)).tolist() == [1, 2]
    with jax.log_compiles(), caplog.at_level(logging.WARNING, "fgrad"):
        jax.jit(lambda x: x)(1.0)
    assert "Compiling <lambda>" in caplog.text
    with jax.default_matmul_precision("highest"), jax.default_device(jax.devices()[0]), jax.checking_leaks(), jax.enable_checks():
        assert float(jax.jit(lambda x: x @ x)(jnp.ones(2))) == 2.0


def test_leaks_are_found_where_they_happen():
    kept = []
    with jax.check_tracer_leaks(), pytest.raises(jax.errors.UnexpectedTracerError, match="outside the transformation"):
        jax.jit(lambda x: kept.append(x) or x)(1.0)
    with jax.check_tracer_leaks():
        assert float(jax.jit(jax.grad(lambda x: lax.scan(lambda c, _: (c * x, c), 1.0, None, 3)[0]))(2.0)) == 12.0


def test_options_of_one_value():
    jax.config.update("jax_platform_name", "cpu")
    jax.config.update("jax_compilation_cache_dir", "/nowhere")
    assert jax.config.jax_threefry_partitionable is True
    with pytest.raises(ValueError, match="'cpu'"):
        jax.config.update("jax_platforms", "gpu")
    with pytest.raises(ValueError, match="strict"):
        jax.config.update("jax_numpy_dtype_promotion", "loose")
    with pytest.raises(ValueError, match="threefry2x32"), jax.default_prng_impl("rbg"):
        pass


def test_settings_of_tracing_and_random_numbers():
    f = jax.jit(lambda x: x + 1)
    f(1.0)
    with jax.no_tracing():
        assert float(f(2.0)) == 3.0
        with pytest.raises(RuntimeError, match="no_tracing"):
            jax.jit(lambda x: x)(1.0)
    with jax.config.override("jax_random_seed_offset", 3):
        assert jax.random.PRNGKey(4).tolist() == jax.random.PRNGKey(np.int32(4)).tolist() == [0, 7]
    k = jax.random.key(0)
    with jax.config.override("jax_high_dynamic_range_gumbel", True):
        high = jax.random.gumbel(k, (3,))
    assert high.tolist() == jax.random.gumbel(k, (3,), mode="high").tolist() != jax.random.gumbel(k, (3,)).tolist()
    with jax.transfer_guard_device_to_host("log"), jax.legacy_prng_key("allow"):
        jax.config.update("jax_persistent_cache_enable_xla_caches", "all")
    jax.config.update("jax_enable_x64", 0)
    assert jax.config.jax_enable_x64 is False
    with pytest.raises(TypeError, match="bool"):
        jax.config.update("jax_enable_x64", "no")


def test_clear_caches():
    calls = []
    f = jax.jit(lambda x: calls.append(1) or x)
    f(1.0), f(2.0)
    jax.clear_caches()
    assert float(f(3.0)) == 3.0 and len(calls) == 2
    assert float(jnp.sin(0.0)) == 0.0


def test_pmap_over_one_device():
    f = jax.pmap(lambda x, n: (lax.pmean(x, "i") * n, lax.axis_index("i")), axis_name="i", static_broadcasted_argnums=1)
    y, i = f(jnp.ones((1, 3)), 2)
    assert y.tolist() == [[2, 2, 2]] and i.tolist() == [0]
    with pytest.raises(ValueError, match="1 device"):
        jax.pmap(jnp.sin)(jnp.ones(2))


def test_custom_gradient():
    @jax.custom_gradient
    def clipped(x, n):
        y = jnp.sin(x) * n
        return y, lambda g: (jnp.clip(g * jnp.cos(x) * n, -0.1, 0.1), None)

    assert float(jax.grad(clipped)(0.0, 2)) == pytest.approx(0.1)
    assert float(jax.jit(jax.grad(clipped))(0.0, 2)) == pytest.approx(0.1)
    np.testing.assert_allclose(jax.vmap(jax.grad(clipped), (0, None))(jnp.array([0.0, np.pi / 2]), 2), [0.1, 0], atol=1e-6)
    f = jax.custom_gradient(lambda x: (x**2, lambda g: g * x))
    assert float(jax.grad(f)(3.0)) == 3.0


def test_custom_vmap():
    @jax.custom_batching.custom_vmap
    def f(x, y):
        return {"sum": jnp.sin(x) + y, "x": y}

    @f.def_vmap
    def rule(size, batched, x, y):
        assert size == 3 and batched == [True, False]
        return {"sum": jnp.sin(x) * 10 + y, "x": y}, {"sum": True, "x": False}

    xs = jnp.arange(3.0)
    for g in (f, jax.jit(f)):
        assert float(g(0.0, 1.0)["sum"]) == 1.0
        out = jax.vmap(g, (0, None))(xs, 1.0)
        np.testing.assert_allclose(out["sum"], np.sin(xs) * 10 + 1, rtol=1e-6)
        np.testing.assert_allclose(out["x"], [1, 1, 1])
    derivative = lambda x: jax.jvp(lambda x: f(x, 1.0)["sum"], (x,), (1.0,))[1]  # noqa: E731
    np.testing.assert_allclose(jax.vmap(derivative)(xs), 10 * np.cos(xs), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(lambda x: f(x, 1.0)["sum"])(0.5), np.cos(0.5), rtol=1e-6)
    with pytest.raises(AttributeError, match="def_vmap"):
        jax.custom_batching.custom_vmap(jnp.sin)(1.0)


def test_custom_vmap_checks_what_its_rule_gives():
    f = jax.custom_batching.custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: ((x, x), (True, True)))
    with pytest.raises(ValueError, match="structure of the output"):
        jax.vmap(f)(jnp.ones(2))


def test_sequential_vmap():
    sizes = []

    @jax.custom_batching.sequential_vmap
    def f(x, y):
        sizes.append(x.shape)
        return x @ y, x.sum()

    y, s = jax.vmap(jax.vmap(f, (0, None)), (0, None))(jnp.ones((2, 3, 4)), jnp.ones((4, 5)))
    assert y.shape == (2, 3, 5) and s.shape == (2, 3) and set(sizes) == {(4,)}
    np.testing.assert_allclose(y, 4)


def test_names_and_annotations_change_nothing():
    @functools.partial(jax.named_call, name="layer")
    def f(x):
        with jax.named_scope("inner"), jax.profiler.TraceAnnotation("step"):
            return jnp.sin(x)

    assert float(jax.jit(f)(0.0)) == 0.0 and f.__name__ == "layer"
    with pytest.warns(UserWarning, match="no profiler trace"), jax.profiler.trace("/nowhere"):
        pass


def test_interpreter_of_a_jaxpr():
    """What JAX's tutorial on custom interpreters uses."""
    from fgrad.extend.core import Literal, jaxpr_as_fun

    inverse = {lax.exp_p: jnp.log, lax.tanh_p: jnp.arctanh}
    closed = jax.make_jaxpr(lambda x: jnp.exp(jnp.tanh(x)))(1.0)
    env = dict(zip(closed.jaxpr.constvars, closed.consts))
    env[closed.jaxpr.outvars[0]] = jnp.exp(jnp.tanh(0.5))
    for eqn in closed.jaxpr.eqns[::-1]:
        value = env[eqn.outvars[0]]
        env[eqn.invars[0]] = value if type(eqn.invars[0]) is Literal else inverse[eqn.primitive](value, **eqn.params)
    np.testing.assert_allclose(env[closed.jaxpr.invars[0]], 0.5, rtol=1e-6)
    np.testing.assert_allclose(jaxpr_as_fun(closed)(0.5)[0], np.exp(np.tanh(0.5)), rtol=1e-6)


def test_types():
    from fgrad.typing import ArrayLike, DTypeLike

    assert isinstance(1.0, ArrayLike) and isinstance(jnp.ones(2), ArrayLike) and DTypeLike is not None
    assert jax.typeof(1.0) == jax.core.ShapedArray((), np.dtype("float32"), True)
    aval = jax.core.ShapedArray((2, 3), "float32")
    assert pickle.loads(pickle.dumps(aval)) is aval and aval != jax.core.ShapedArray((2, 3), "float32", weak_type=True) and aval != (2, 3)
    assert jax.dtypes.itemsize_bits("int16") == 16 and jax.dtypes.scalar_type_of(jnp.ones(2)) is float
    assert isinstance(jax.jit(jnp.sin).lower(1.0), jax.stages.Lowered) and isinstance(jax.jit(jnp.sin), jax.stages.Wrapped)
