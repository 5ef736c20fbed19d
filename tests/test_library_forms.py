"""What JAX's libraries do that programs seldom do: signatures of jitted functions, data that broadcasts to segments, checks in jit."""

import collections
import inspect
import pickle
import types

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import extend, lax
from fgrad.experimental import checkify


def test_jitted_functions_have_the_signature_of_what_they_call():
    jitted = fgrad.jit(lambda x, *, scale=2.0: x * scale)
    for follow in (True, False):
        assert list(inspect.signature(jitted, follow_wrapped=follow).parameters) == ["x", "scale"]


def test_segments_of_data_that_broadcasts():
    ids = jnp.array([0, 2, 2, 0])
    np.testing.assert_array_equal(fgrad.ops.segment_sum(jnp.float32(1.5), ids, 3), [3.0, 0.0, 3.0])
    np.testing.assert_array_equal(fgrad.ops.segment_max(2, ids, 2), [2, np.iinfo(np.int32).min])
    np.testing.assert_array_equal(fgrad.ops.segment_sum(jnp.array([[1.0, 2.0]]), ids, 3), [[2, 4], [0, 0], [2, 4]])
    assert float(fgrad.grad(lambda x: fgrad.ops.segment_sum(x, ids, 3).sum())(1.0)) == 4.0
    with pytest.raises(ValueError, match="segment_ids"):
        fgrad.ops.segment_sum(jnp.ones(3), ids, 3)


def test_checks_inside_jit_leave_no_tracers_behind():
    @fgrad.jit
    def inner(x):
        checkify.check(jnp.all(x > 0), "got {x}", x=x)
        return x * 2

    with fgrad.checking_leaks():
        err, out = checkify.checkify(fgrad.jit(inner))(jnp.array(3.0))
        assert err.get() is None and float(out) == 6.0
        err, _ = checkify.checkify(fgrad.jit(inner))(jnp.array(-3.0))
    assert err.get().startswith("got -3.0")


def test_checks_speak_of_arrays():
    err, _ = checkify.checkify(lambda x: checkify.check(False, "{t!r}", t=x))(jnp.float32(2.0))
    assert err.get().startswith("Array(2., dtype=float32")


def test_the_primitive_of_stop_gradient():
    bind = fgrad.lax.stop_gradient_p.bind
    x = jnp.array([1.0, 2.0])
    f = lambda x: (x * bind(x)).sum()
    assert float(f(x)) == float(fgrad.jit(f)(x)) == 5.0
    for g in (fgrad.grad(f), fgrad.jit(fgrad.grad(f))):
        np.testing.assert_array_equal(g(x), x)
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(lambda x: bind(x) * x))(x), x)


def test_shapes_of_shapes():
    struct = fgrad.ShapeDtypeStruct((2, 3), jnp.bfloat16)
    out = fgrad.eval_shape(lambda x: {"a": struct, "b": x}, fgrad.ShapeDtypeStruct((4,), jnp.int32))
    assert out == {"a": struct, "b": fgrad.ShapeDtypeStruct((4,), jnp.int32)}
    with pytest.raises(TypeError):
        fgrad.eval_shape(lambda: "text")


def test_booleans_mask_what_they_multiply():
    x, mask = np.array([np.inf, np.nan, -2.0, 3.0], np.float32), np.array([False, False, True, True])
    for f in (jnp.multiply, fgrad.jit(jnp.multiply)):
        for a, b in ((x, mask), (jnp.array(mask), jnp.array(x)), (jnp.array(x), jnp.array(mask))):
            np.testing.assert_array_equal(f(a, b), [0.0, 0.0, -2.0, 3.0])
    out = jnp.inf * jnp.array([False])
    assert out.weak_type and out[0] == 0.0
    np.testing.assert_array_equal(jnp.array([True, False])[:, None] * jnp.array([1.0, np.nan, 2.0]), [[1, np.nan, 2], [0, 0, 0]])
    assert (jnp.array([True]) * jnp.array([3])).dtype == jnp.int32
    np.testing.assert_array_equal(fgrad.grad(lambda v: (v * (v > 0)).sum())(jnp.array([-jnp.inf, 2.0])), [0.0, 1.0])
    np.testing.assert_array_equal(fgrad.vmap(jnp.multiply, (0, None))(jnp.array(mask), jnp.float32(np.inf)), [0.0, 0.0, np.inf, np.inf])


def test_argument_forms():
    np.testing.assert_array_equal(jnp.sum(jnp.ones((2, 3, 4)), axis=range(2)), [6.0] * 4)
    np.testing.assert_array_equal(jnp.modf(jnp.array([jnp.inf, 1.5]))[0], [np.nan, 0.5])
    np.testing.assert_array_equal(fgrad.lax.select(jnp.array([1, 0, 2]), jnp.ones(3), jnp.zeros(3)), [1.0, 0.0, 1.0])
    with pytest.raises(TypeError, match="kind"):
        jnp.sort(jnp.ones(2), kind="quicksort")
    assert float(fgrad.lax.fori_loop(0.0, 3.0, lambda i, c: c + i, 0.0)) == 3.0
    with pytest.raises(TypeError, match="equal types"):
        fgrad.lax.fori_loop(0.0, 3, lambda i, c: c, 0.0)
    for argnums, error in ((3, ValueError), ("a", TypeError)):
        with pytest.raises(error):
            fgrad.jacfwd(lambda x: x, argnums=argnums)(1.0)
    assert jnp.ones((2,), jnp.float32).aval.to_tangent_aval() == jnp.ones((2,)).aval


@pytest.mark.parametrize("transform", [fgrad.checkpoint, fgrad.vmap, fgrad.jit, fgrad.pmap, fgrad.named_call, fgrad.jacfwd])
def test_callables_whose_attributes_a_function_cannot_take(transform):
    class Module:
        __name__ = 3
        __annotations__ = property(lambda self: types.MappingProxyType({}))

        def __call__(self, x):
            return x * 2

    assert transform(Module())(jnp.ones(1)).sum() == 2.0


def test_the_transpose_at_a_python_number_is_weakly_typed():
    transposed = fgrad.linear_transpose(lambda x: x.sum(), jnp.ones(3))
    assert transposed(1.0)[0].weak_type and not transposed(jnp.float32(1.0))[0].weak_type


def test_a_rule_may_call_a_function_with_a_rule_on_its_tangents():
    as_float = fgrad.custom_jvp(lambda x: jnp.asarray(x, jnp.float32))
    as_float.defjvp(lambda primals, tangents: (as_float(*primals), as_float(*tangents)))
    f = lambda x: (as_float(x) ** 2).sum()
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(fgrad.grad(f)(x), 2 * x)
    np.testing.assert_array_equal(fgrad.jit(fgrad.grad(fgrad.jit(f)))(x), 2 * x)
    np.testing.assert_array_equal(fgrad.hessian(f)(x), 2 * np.eye(2))
    np.testing.assert_array_equal(fgrad.linear_transpose(lambda t: 3 * as_float(t), x)(x)[0], 3 * x)
    carried = lambda x: fgrad.lax.scan(lambda c, _: (as_float(c) * x, None), x, None, length=2)[0].sum()
    np.testing.assert_array_equal(fgrad.grad(carried)(x), 3 * x**2)


def test_rules_get_the_literals_of_jitted_code_as_arrays():
    seen = []

    @fgrad.custom_vjp
    def f(x, n):
        return x * n

    def forward(x, n):
        seen.append((n.shape, n.dtype))
        return f(x, n), n

    f.defvjp(forward, lambda n, ct: (ct * n, None))
    assert float(fgrad.grad(fgrad.jit(lambda x: f(x, 3)))(2.0)) == 3.0
    assert seen[-1] == ((), jnp.int32)


def test_zero_tangents_of_trees():
    zeros = fgrad.custom_derivatives.zero_from_primal({"a": jnp.ones(2), "b": (1, 2.0)})
    np.testing.assert_array_equal(zeros["a"], [0.0, 0.0])
    assert zeros["b"][0].dtype == fgrad.dtypes.float0
    symbolic = fgrad.custom_derivatives.zero_from_primal((jnp.ones(2),), symbolic_zeros=True)
    assert symbolic[0].shape == (2,)


def test_the_trace_of_tracers():
    from fgrad.extend.core import find_top_trace, unmapped_aval
    from fgrad.interpreters import ad

    def f(x):
        trace = find_top_trace((x,))
        assert isinstance(x, ad.JVPTracer) and x._trace.main is trace.main
        return x * 2

    assert float(fgrad.jvp(f, (1.0,), (1.0,))[1]) == 2.0
    assert unmapped_aval(3, 0, fgrad.core.ShapedArray((2,), "float32"), None).shape == (3, 2)


def test_vectorize_over_keys_and_sizes():
    keys = fgrad.random.split(fgrad.random.key(0), 3)
    draw = jnp.vectorize(lambda key: fgrad.random.normal(key, (2,)), signature="()->(2)")
    np.testing.assert_array_equal(draw(keys), fgrad.vmap(lambda k: fgrad.random.normal(k, (2,)))(keys))
    scaled = jnp.vectorize(lambda key, x: fgrad.random.normal(key) * x, signature="(),()->()")
    np.testing.assert_array_equal(scaled(keys, 2.0), 2 * fgrad.vmap(fgrad.random.normal)(keys))


def test_dtype_objects_are_the_keys_that_numpys_scalar_types_are():
    assert jnp.int32 in {np.int32} and np.float32 in {jnp.float32} and {jnp.bfloat16: 1}[jnp.bfloat16.dtype.type] == 1
    assert np.dtype("int32") not in {jnp.int32} and np.dtype("int32") == jnp.int32


def test_scalar_types_are_classes():
    class Kind(jnp.int8):
        FIRST = jnp.array(0, jnp.int8)

    assert isinstance(jnp.int_, type) and Kind.dtype == np.int8 and Kind(3).dtype == jnp.int8 and jnp.zeros(2, Kind).dtype == np.int8
    assert float not in [jnp.float64] and jnp.float32 == np.float32 and isinstance(np.int8(3), jnp.int8)
    assert pickle.loads(pickle.dumps(jnp.complex_)) is jnp.complex_ and repr(jnp.bfloat16) == "<class 'fgrad.numpy.bfloat16'>"
    assert jnp.result_type(jnp.float64, jnp.bfloat16) == np.float32 and jnp.result_type(float, jnp.bfloat16) == jnp.bfloat16


def test_associative_scan_of_a_named_tuple_whose_function_gives_a_plain_one():
    Pair = collections.namedtuple("Pair", "a b")
    out = fgrad.lax.associative_scan(lambda p, q: (p.a * q.a, p.b + q.b), Pair(jnp.arange(1.0, 5.0), jnp.ones(4)))
    np.testing.assert_array_equal(out.a, [1, 2, 6, 24])
    np.testing.assert_array_equal(out.b, [1, 2, 3, 4])
    with pytest.raises(TypeError, match="as many arrays"):
        fgrad.lax.associative_scan(lambda p, q: p.a, Pair(jnp.ones(4), jnp.ones(4)))


def test_sharding_has_reshard():
    mesh = fgrad.make_mesh((1,), ("x",))
    sharding = fgrad.sharding.NamedSharding(mesh, fgrad.sharding.PartitionSpec("x"))
    np.testing.assert_array_equal(fgrad.sharding.reshard(jnp.arange(3), sharding), np.arange(3))


def test_nan_to_num_bounds_what_it_puts_in_place_of_nan_and_leaves_keys():
    x = jnp.array([np.nan, np.inf, -np.inf, 1.0])
    least, most = np.finfo(np.float32).min, np.finfo(np.float32).max
    np.testing.assert_array_equal(jnp.nan_to_num(x, nan=-jnp.inf), [least, most, least, 1])
    np.testing.assert_array_equal(jnp.nan_to_num(x, nan=jnp.inf, posinf=3.0, neginf=-np.inf), [3, 3, -np.inf, 1])
    key = fgrad.random.key(0)
    assert jnp.nan_to_num(key) == key


def test_keys_are_finite_and_their_dtype_canonical():
    keys = fgrad.random.split(fgrad.random.key(0), 3)
    assert jnp.isfinite(keys).all() and not any(f(keys).any() for f in (jnp.isnan, jnp.isinf, jnp.isposinf, fgrad.jit(jnp.isneginf)))
    assert fgrad.dtypes.canonicalize_dtype(keys.dtype, allow_extended_dtype=True) == keys.dtype
    assert (jnp.take_along_axis(keys, jnp.array([2, 0]), 0) == keys[jnp.array([2, 0])]).all()


def test_mapping_unflattens_classes_of_users_with_arrays_only():
    seen = []

    @fgrad.tree_util.register_pytree_node_class
    class Scaled:  # what is no array is no child, as in Distrax
        def __init__(self, x, by):
            self.x, self.by = x, by

        def tree_flatten(self):
            return [self.x] if hasattr(self.x, "shape") else [], self.by

        @classmethod
        def tree_unflatten(cls, by, children):
            seen.append(type(children[0]))
            return cls(children[0], by)

    out = fgrad.vmap(lambda s: Scaled(s.x.sum() * s.by, s.by), in_axes=1, out_axes=0)(Scaled(jnp.ones((2, 3)), 2.0))
    np.testing.assert_array_equal(out.x, [4, 4, 4])
    jac = fgrad.jacrev(lambda x: Scaled(x * 2, 1.0))(jnp.ones(2))
    np.testing.assert_array_equal(jac.x, 2 * np.eye(2))
    assert all(issubclass(t, (fgrad.Array, fgrad.core.Tracer)) for t in seen)


def test_make_jaxpr_keeps_zero_dim_arrays_as_consts():
    step = jnp.float32(2) * 1

    def consts(c):  # a library swaps the consts of one trace for those of another
        return fgrad.make_jaxpr(lambda x: x * c + jnp.sum(c) * 3.0)(jnp.ones(3))

    known = consts(step)
    assert [c.shape for c in known.consts] == [()]
    np.testing.assert_array_equal(fgrad.core.eval_jaxpr(known.jaxpr, [jnp.float32(5)], jnp.ones(3))[0], np.full(3, 20.0))
    assert fgrad.jit(lambda c: len(consts(c).consts))(step) == 1


def test_types_of_keys_answer_as_those_of_arrays_do():
    keys, rows = fgrad.random.split(fgrad.random.key(0), 3).aval, jnp.ones(3).aval
    assert keys.sharding == rows.sharding and keys.ndim == 1
    assert keys.update(shape=(2,)) == fgrad.random.split(fgrad.random.key(0)).aval and rows.update(shape=(2,)).dtype == rows.dtype


def test_matrices_with_a_weak_diagonal_are_weak():
    weak = jnp.broadcast_to(jnp.asarray(2.0), (3,))
    for f in (jnp.diag, lambda v: jnp.diag(v, 1), jnp.diagflat, lambda v: lax.top_k(v, 2)[0]):
        assert f(weak).weak_type and fgrad.jit(f)(weak).weak_type and not f(jnp.ones(3)).weak_type
    np.testing.assert_array_equal(jnp.diag(weak, -1), np.diag([2.0] * 3, -1))


def test_the_backend_that_libraries_ask_for():
    backend = extend.backend.get_backend()
    assert backend.platform == "cpu" and backend.devices() == fgrad.devices() and extend.backend.backends() == {"cpu": backend}
    with pytest.raises(RuntimeError, match="Unknown backend"):
        extend.backend.get_backend("gpu")
