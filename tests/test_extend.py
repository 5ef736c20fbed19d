"""What libraries that build on JAX's programs import: partial evaluation, traces, wrapped functions, types, shardings, dtypes."""

import enum
import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import api_util, dtypes, lax
from fgrad.core import AbstractValue, Atom, ShapedArray
from fgrad.experimental.layout import Format, Layout
from fgrad.extend import core, linear_util, source_info_util
from fgrad.extend.core import primitives
from fgrad.interpreters import batching, partial_eval, xla
from fgrad.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from fgrad.sharding import PartitionSpec as P

F32 = np.dtype(np.float32)


def partial_values(*xs):
    unknown = partial_eval.PartialVal.unknown
    return [unknown(x) if isinstance(x, AbstractValue) else partial_eval.PartialVal.known(x) for x in xs]


def test_partial_evaluation_runs_what_is_known():
    def fun(x, y):
        return [jnp.sin(x), x * y, fgrad.jit(lambda a, b: (a + b, a * 2))(x, y)[1]]

    x, aval = jnp.arange(3.0), ShapedArray((3,), F32)
    jaxpr, outs, consts = partial_eval.trace_to_jaxpr_nounits(linear_util.wrap_init(fun), partial_values(x, aval))
    assert [o.is_known() for o in outs] == [True, False, True]
    np.testing.assert_allclose(outs[0].get_known(), np.sin(np.arange(3)), rtol=1e-6)
    assert outs[1].get_aval() == aval and outs[1].get_known() is None
    (out,) = fgrad.core.eval_jaxpr(jaxpr, consts, jnp.full(3, 5.0))
    np.testing.assert_array_equal(out, [0, 5, 10])
    jaxpr, outs, _ = partial_eval.trace_to_jaxpr_nounits(
        linear_util.wrap_init(fun), partial_values(x, aval), instantiate=[True, True, False]
    )
    assert [o.is_known() for o in outs] == [False, False, True] and len(jaxpr.outvars) == 2


def test_jaxprs_of_wrapped_functions_and_their_live_parts():
    fun = linear_util.wrap_init(lambda x, y: [x + 1, y * np.arange(3, dtype=np.float32)])
    jaxpr, avals, consts = partial_eval.trace_to_jaxpr_dynamic(fun, [ShapedArray((), F32), ShapedArray((3,), F32)])
    assert avals == [ShapedArray((), F32), ShapedArray((3,), F32)] and len(consts) == 1
    assert isinstance(jaxpr.invars[0], Atom)
    slim, live = partial_eval.dce_jaxpr(jaxpr, [False, True])
    assert live == [False, True] and len(slim.eqns) == 1
    assert partial_eval.dce_jaxpr(jaxpr, [False, True], instantiate=True)[1] == [True, True]
    slim, constants, live = partial_eval.dce_jaxpr_consts(jaxpr, [True, False])
    assert (constants, live, slim.constvars) == ([False], [True, False], [])


def test_transformations_of_wrapped_functions():
    @linear_util.transformation_with_aux
    def counted(scale, *args):
        out = yield [a * scale for a in args], {}
        yield out, len(args)

    @linear_util.transformation2
    def negated(f, *args):
        return -f(*args)

    fun, count = counted(linear_util.wrap_init(lambda x, y: x + y), 10)
    with pytest.raises(linear_util.StoreException):
        count()
    assert negated(fun).call_wrapped(1, 2) == -30 and count() == 2


def test_trace_states_are_equal_within_a_transformation_only():
    state = core.get_opaque_trace_state
    outside, seen = state(convention="mine"), []
    fgrad.jit(lambda x: seen.append((state(), state())) or x)(1.0)
    fgrad.vmap(lambda x: seen.append((state(), state())) or x)(jnp.ones(2))
    assert state() == outside and all(a == b and a != outside for a, b in seen) and seen[0][0] != seen[1][0]
    refs = []
    fgrad.make_jaxpr(lambda x: refs.append((state(), weakref.ref(x._trace))) or x)(1.0)
    gc.collect()
    assert refs[0][1]() is None  # a state does not keep its trace
    with core.take_current_trace() as trace, core.set_current_trace(trace):
        assert state() == outside


def test_types_and_primitives():
    a = ShapedArray((2, 3), F32, sharding=NamedSharding(AbstractMesh((), ()), P(None, None)))
    assert core.unmapped_aval(5, 1, core.mapped_aval(3, 1, a)).shape == (2, 5)
    assert core.mapped_aval(3, None, a) is a and core.unmapped_aval(3, None, a) is a
    assert core.primal_dtype_to_tangent_dtype(np.int32) == dtypes.float0
    assert core.valid_jaxtype(1.0) and core.valid_jaxtype(np.ones(2)) and not core.valid_jaxtype("1")
    jaxpr = fgrad.make_jaxpr(fgrad.jit(lambda x: jnp.sin(x) + 1))(1.0)
    assert jaxpr.eqns[0].primitive is primitives.jit_p
    (inner,) = core.subjaxprs(jaxpr.jaxpr)
    assert [e.primitive for e in inner.eqns] == [primitives.sin_p, primitives.add_p]
    info = api_util.debug_info("scan", lambda x, y, z: x, ({"a": 1}, 2), {"z": (3, 4)}, static_argnums=(1,))
    assert info.traced_for == "scan" and info.arg_names == ("x['a']", "z[0]", "z[1]")


def test_batching_rules_that_are_told_the_axis():
    prim, seen = core.Primitive("axis_of_mine"), []
    prim.def_impl(lambda x: x)
    prim.def_abstract_eval(lambda x: x)
    batching.axis_primitive_batchers[prim] = lambda size, name, trace, args, dims: (seen.append((size, name)), (args[0], dims[0]))[1]
    fgrad.vmap(prim.bind, axis_name="i")(jnp.ones(4))
    assert seen == [(4, "i")]


def test_equations_come_from_the_callers_of_excluded_files(tmp_path):
    path = tmp_path / "library.py"
    path.write_text("def double(x):\n    return x * 2\n")
    library = {}
    exec(compile(path.read_text(), str(path), "exec"), library)
    source = lambda: fgrad.make_jaxpr(lambda x: library["double"](x))(1.0).eqns[0].source[0]  # noqa: E731
    assert source() == str(path)
    source_info_util.register_exclusion(str(tmp_path))
    assert source() == __file__


def test_shardings_of_avals_and_layouts():
    x = jnp.ones((2, 3))
    assert fgrad.typeof(x).sharding.spec == P(None, None) and fgrad.typeof(x).sharding.mesh.empty
    mesh = Mesh(np.array(fgrad.devices()), ("data",))
    sharding = NamedSharding(mesh, P("data", None))
    assert sharding.update(spec=P()).spec == P() and sharding.update(spec=P()).mesh is mesh
    put = fgrad.device_put(x, Format(Layout((0, 1)), sharding))
    assert put.sharding == sharding and Layout() == Layout.AUTO != Layout((0, 1))
    with pytest.raises(ValueError, match="size 1"):
        AbstractMesh((2,), ("data",))
    assert mesh.are_all_axes_auto and not mesh.are_all_axes_explicit and not AbstractMesh((), ()).are_all_axes_auto
    mixed = AbstractMesh((1, 1), ("a", "b"), axis_types=(AxisType.Explicit, AxisType.Manual))
    assert not (mixed.are_all_axes_auto or mixed.are_all_axes_explicit or mixed.are_all_axes_manual)


def test_partition_specs_are_sequences():
    spec = P("a", ("b", "c"), None)
    assert spec.index("a") == 0 and spec.index(("b", "c")) == 1 and spec.count(None) == 1
    assert spec + P("d") == spec + ("d",) == P("a", ("b", "c"), None, "d") and ("d",) + P("a") == P("d", "a")
    assert P(("a",)) == P("a") and P(()) == P(None) and P("a") != ("a",)
    assert P(P.UNCONSTRAINED) == P(P.UNCONSTRAINED) != P("unconstrained")
    with pytest.raises(ValueError):
        spec.index("b")


def test_keys_compare_under_the_functions_of_arrays():
    keys = fgrad.random.split(fgrad.random.key(0), 3)
    np.testing.assert_array_equal(jnp.equal(keys, keys[1]), [False, True, False])
    np.testing.assert_array_equal(jnp.not_equal(keys, keys[1]), [True, False, True])
    np.testing.assert_array_equal(jnp.isclose(keys, keys[2]), [False, False, True])
    assert jnp.allclose(keys, keys) and jnp.array_equal(keys, keys) and not jnp.array_equal(keys, keys[::-1])
    assert jnp.result_type(keys, keys) == keys.dtype and jnp.issubdtype(keys.dtype, dtypes.extended)
    with pytest.raises(ValueError, match="do not promote"):
        jnp.result_type(keys, jnp.float32)


def test_einsum_with_a_product_of_ones_own():
    calls = []

    def product(a, b, dimension_numbers, precision=None, preferred_element_type=None):
        calls.append((precision, preferred_element_type))
        return 2 * lax.dot_general(a, b, dimension_numbers)

    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(12.0, dtype=np.float32).reshape(3, 4)
    out = jnp.einsum("ij,jk->ki", a, b, precision="highest", _dot_general=product)
    np.testing.assert_array_equal(out, 2 * (a @ b).T)
    assert calls == [("highest", None)]


def test_names_of_narrow_types():
    assert jnp.dtype(jnp.float8_e4m3fn) == ml_dtypes.float8_e4m3fn and jnp.int4 == ml_dtypes.int4
    assert float(jnp.finfo(jnp.float8_e4m3fn).max) == 448 and float(jnp.finfo(jnp.float8_e5m2).max) == 57344
    assert jnp.iinfo(jnp.int4).max == 7 and jnp.iinfo(np.int32).max == 2**31 - 1


def test_options_on_the_command_line(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["main.py", "--jax_debug_nans", "--steps=3", "--jax_numpy_rank_promotion=raise"])
    with fgrad.debug_nans(False):
        before = fgrad.config.numpy_rank_promotion
        try:
            fgrad.config.parse_flags_with_absl()
            assert sys.argv == ["main.py", "--steps=3"] and fgrad.config.numpy_rank_promotion == "raise"
            monkeypatch.setattr(sys, "argv", ["main.py", "--nojax_debug_nans"])
            fgrad.config.config_with_absl()
        finally:
            fgrad.config.update("numpy_rank_promotion", before)
            fgrad.config.update("jax_debug_nans", False)
    monkeypatch.setattr(sys, "argv", ["main.py", "--jax_enable_x64=maybe"])
    with pytest.raises(ValueError, match="boolean"):
        fgrad.config.parse_flags_with_absl()


def test_static_positions_and_names_given_together_are_taken_as_they_are():
    def fun(x, mode):
        return x

    def inner(first, *args, **kwargs):  # a wrapper whose signature is the wrapped function's
        return kwargs.get("mode", 0) + first + sum(args)

    inner.__wrapped__ = fun
    jitted = fgrad.jit(inner, static_argnums=(0,), static_argnames=("mode",))
    assert int(jitted(1, jnp.ones(3).sum(), mode=2)) == 6  # position 1 is an array, though `fun` calls it mode
    assert fgrad.jit(lambda n, x: x * len(n), static_argnames="n")("ab", 2.0) == 4


def test_the_version():
    assert fgrad.version.__version__ == fgrad.__version__ and fgrad.version.__version_info__ == fgrad.__version_info__


def test_typed_keys_go_through_partial_evaluation():
    keys = fgrad.random.split(fgrad.random.key(0), 2)
    aval = ShapedArray(keys.shape, keys.dtype)
    assert isinstance(aval, AbstractValue) and aval == ShapedArray((2,), keys.dtype) != ShapedArray((3,), keys.dtype)
    assert (aval.shape, aval.dtype) == ((2,), keys.dtype)

    def fun(known, unknown):
        return [known[1], fgrad.random.split(unknown[0])[0], fgrad.random.uniform(known[0])]

    pvals = [partial_eval.PartialVal.known(keys), partial_eval.PartialVal.unknown(aval)]
    jaxpr, outs, consts = partial_eval.trace_to_jaxpr_nounits(linear_util.wrap_init(fun), pvals)
    assert [o.is_known() for o in outs] == [True, False, True]
    assert outs[0].get_known() == keys[1] and outs[1].get_aval() == ShapedArray((), keys.dtype) == outs[0].get_aval()
    (words,) = fgrad.core.eval_jaxpr(jaxpr, consts, fgrad.random.key_data(keys))
    assert fgrad.random.wrap_key_data(words) == fgrad.random.split(keys[0])[0]
    with fgrad.debug_key_reuse(False), fgrad.enable_custom_prng():
        assert fgrad.random.PRNGKey(0) == fgrad.random.key(0)
    assert fgrad.random.PRNGKey(0).dtype == np.uint32
    with pytest.raises(ValueError):
        fgrad.debug_key_reuse(True).__enter__()


def test_compile_time_evaluation_leaves_traced_values_traced():
    def f(x):
        with fgrad.ensure_compile_time_eval():
            n = int(jnp.sum(jnp.arange(4)))  # known
            y = jnp.sin(x) + fgrad.nn.relu(x) * n
        return y

    want = np.sin(0.5) + 0.5 * 6
    for g in (f, fgrad.jit(f), lambda x: fgrad.jvp(f, (x,), (1.0,))[0], lambda x: fgrad.vmap(f)(x[None])[0]):
        np.testing.assert_allclose(g(jnp.float32(0.5)), want, rtol=1e-6)
    np.testing.assert_allclose(fgrad.grad(f)(0.5), np.cos(0.5) + 6, rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(f))(0.5), np.cos(0.5) + 6, rtol=1e-6)


def test_a_function_that_is_several_branches_is_traced_once():
    calls = []

    def f(x):
        calls.append(x)
        return x * 2

    assert float(lax.cond(True, f, f, 3.0)) == 6 and len(calls) == 1
    assert float(fgrad.jit(lambda i: lax.switch(i, [f, lambda x: -x, f], 3.0))(2)) == 6 and len(calls) == 1  # by both
    weights = jnp.arange(3.0)  # a constant that both branches share
    g = lambda x: x @ weights  # noqa: E731
    assert float(fgrad.grad(lambda x: lax.cond(x[0] > 0, g, g, x))(jnp.ones(3))[2]) == 2


def test_arguments_that_are_not_mapped_may_be_anything():
    out = fgrad.vmap(lambda f, x, y: f["sin"](x) + y, in_axes=(None, 0, None))({"sin": jnp.sin}, np.float32([0, 1]), 2.0)
    np.testing.assert_allclose(out, np.sin([0, 1]) + 2, rtol=1e-6)
    with pytest.raises(TypeError, match="not a valid JAX type"):
        fgrad.vmap(lambda f, x: f(x), in_axes=(0, 0))(jnp.sin, jnp.ones(3))


@pytest.mark.parametrize("transform", [fgrad.vmap, fgrad.jit, lambda f: fgrad.vmap(fgrad.grad(f))])
def test_an_interpreter_that_binds_equations_keeps_custom_derivatives(transform):
    """Of a user's interpreter of jaxprs: bind(*args, **get_bind_params(params)) of each equation."""

    @fgrad.custom_jvp
    def seven(x):
        return x * x

    @fgrad.custom_vjp
    def five(x):
        return jnp.sin(x)

    seven.defjvp(lambda x, t: (seven(*x), 7 * t[0]))
    five.defvjp(lambda x: (five(x), None), lambda _, ct: (5 * ct,))

    def f(x):
        return five(seven(x) * 2.0) + fgrad.jit(jnp.cos)(x)

    def interpreted(x):
        closed = fgrad.make_jaxpr(f)(x)
        env = dict(zip(closed.jaxpr.invars, [x]))
        for e in closed.jaxpr.eqns:
            ins = [v.val if isinstance(v, core.Literal) else env[v] for v in e.invars]
            out = e.primitive.bind(*ins, **e.primitive.get_bind_params(e.params))
            env.update(zip(e.outvars, out if e.primitive.multiple_results else [out]))
        return env[closed.jaxpr.outvars[0]]

    x = jnp.array([0.3, 1.2])
    np.testing.assert_allclose(transform(interpreted)(x), transform(f)(x), rtol=1e-6)


def test_what_interpreters_ask_closed_jaxprs_equations_and_primitives():
    closed = fgrad.make_jaxpr(lambda x: jnp.sin(x) * jnp.arange(3.0))(1.0)
    assert closed.invars is closed.jaxpr.invars and closed.outvars is closed.jaxpr.outvars and closed.constvars is closed.jaxpr.constvars
    assert closed.literals is closed.consts and closed.pretty_print() == str(closed) and closed.jaxpr.pretty_print() == str(closed.jaxpr)
    same = closed.map_jaxpr(lambda j: j.replace(eqns=list(j.eqns))).replace(consts=closed.consts)
    np.testing.assert_array_equal(fgrad.extend.core.jaxpr_as_fun(same)(2.0)[0], np.sin(np.float32(2)) * np.arange(3, dtype=np.float32))
    assert not any(e.effects or e.primitive.call_primitive or e.primitive.map_primitive for e in closed.eqns)


class Marked:
    """A value of one's own: neither an array nor with a method that makes one."""

    def __init__(self, data):
        self.data = np.asarray(data)


def test_values_of_types_of_ones_own_by_the_tables_of_types(monkeypatch):
    with pytest.raises(TypeError):
        jnp.sin(Marked([1.0]))
    monkeypatch.setitem(fgrad.core.pytype_aval_mappings, Marked, lambda x: fgrad.core.pytype_aval_mappings[np.ndarray](x.data))
    monkeypatch.setitem(xla.canonicalize_dtype_handlers, Marked, lambda x: xla.canonicalize_dtype_handlers[np.ndarray](x.data))
    x = Marked(np.float64([1, 2]))
    for f in (lax.neg, fgrad.jit(lax.neg), fgrad.vmap(lax.neg)):
        np.testing.assert_array_equal(f(x), np.float32([-1, -2]))
        assert f(x).dtype == np.float32
    np.testing.assert_array_equal(fgrad.grad(lambda x: (lax.square(x) * 3).sum())(x), [6.0, 12.0])
    assert fgrad.eval_shape(lax.neg, x).shape == (2,)


class Level(enum.IntEnum):
    LOW = 3
    HIGH = 5


class Fraction(float):
    pass


def test_members_of_enumerations_and_other_subclasses_of_numbers_are_numbers():
    for f in (jnp.asarray, lax.neg, fgrad.jit(lax.neg)):
        assert abs(int(f(Level.LOW))) == 3 and f(Level.LOW).weak_type
    x = jnp.arange(4)
    assert jnp.result_type(Level.LOW) == np.int32 and jnp.result_type(np.int8, Level.LOW) == np.int8
    np.testing.assert_array_equal(x.at[1].set(Level.LOW), [0, 3, 2, 3])
    np.testing.assert_array_equal(fgrad.nn.one_hot(Level.LOW, 4), [0, 0, 0, 1])
    np.testing.assert_array_equal(jnp.stack([Level.LOW, Level.HIGH]), [3, 5])
    np.testing.assert_array_equal(jnp.array([Level.LOW, jnp.int32(1)]), [3, 1])
    assert int(jnp.int8(Level.LOW)) == 3 and float(jnp.asarray(Fraction(1.5))) == 1.5
    assert jnp.result_type(Fraction(1.5), np.float16) == np.float16


def test_concrete_values_or_errors():
    assert core.concrete_or_error(int, jnp.float32(3.5)) == 3 and core.concrete_or_error(None, None) is None
    assert fgrad.grad(lambda x: x * core.concrete_or_error(float, x))(2.0) == 2.0  # known under grad
    with pytest.raises(fgrad.errors.ConcretizationTypeError, match="the size of a table"):
        fgrad.jit(lambda x: core.concrete_or_error(int, x, "the size of a table"))(3)
    assert {np.ndarray, np.float32, np.int8, np.bool_, np.complex128} <= core.array_types
    var = core.gensym()(ShapedArray((2,), F32))
    assert isinstance(var, core.Var) and var.aval.shape == (2,)


def test_parameters_to_bind_are_the_interpreters_own():
    """Equations without parameters share one dictionary: what an interpreter does to its own shows in no other equation."""
    eqn, other = fgrad.make_jaxpr(lambda x: jnp.sin(jnp.cos(x)))(1.0).eqns
    eqn.primitive.get_bind_params(eqn.params)["accuracy"] = None
    assert eqn.params == other.params == {}


def test_tangents_stem_from_the_line_of_their_operation():
    """Also where a function of fgrad stands between the line and the operation; the stack is walked once for all of them."""

    def f(x):
        return jnp.tanh(x)

    jaxpr = fgrad.make_jaxpr(lambda x: fgrad.jvp(f, (x,), (x,)))(jnp.ones(3))
    assert len(jaxpr.eqns) > 2 and {e.source[2] for e in jaxpr.eqns} == {"f"}


def test_names_of_the_one_process_and_device():
    from fgrad.experimental import colocated_python, compute_on, layout, xla_metadata
    from fgrad.interpreters import pxla

    @compute_on.compute_on("device_host")
    @fgrad.jit
    def f(x):
        return x * 2

    assert float(fgrad.jit(f)(3.0)) == 6
    with pytest.raises(ValueError, match="Invalid compute type"), compute_on.compute_on("nowhere"):
        pass
    with xla_metadata.set_xla_metadata(a="b"):
        assert float(xla_metadata.set_xla_metadata(jnp.float32(2), b=1)) == 2
    assert float(xla_metadata.set_xla_metadata(a=1)(f)(1.0)) == 2

    @colocated_python.colocated_python_class
    class Adder:
        def __init__(self, x):
            self.x = x

        def add(self, y):
            return np.asarray(y) + self.x

    assert type(Adder(1).add(jnp.arange(2.0))) is fgrad.Array
    assert type(colocated_python.colocated_python(np.sin)(jnp.arange(2.0))) is fgrad.Array
    assert colocated_python.colocated_cpu_devices(fgrad.devices()) == fgrad.devices()
    assert layout.with_layout_constraint(3, None) == 3
    with pytest.raises(NotImplementedError, match="XLA"):
        pxla.create_compile_options()
    assert fgrad.device_put(1.0, fgrad.memory.Space.Host) == 1
    with pytest.raises(ValueError, match="one process"):
        fgrad.distributed.initialize("localhost:1", num_processes=2, process_id=0)


def test_meshes_of_contexts():
    mesh = fgrad.sharding.AbstractMesh((1,), ("x",))
    with fgrad.sharding.use_abstract_mesh(mesh):
        assert fgrad.sharding.get_abstract_mesh() is mesh
    with pytest.raises(ValueError, match="AbstractMesh"):
        fgrad.sharding.use_abstract_mesh(3)
    with pytest.raises(ValueError, match="Expected mesh of type"):
        fgrad.set_mesh(3)
    device = fgrad.sharding.make_single_device_sharding(fgrad.devices()[0])
    assert isinstance(device, fgrad.sharding.SingleDeviceSharding)


def test_inlined_jit_is_no_call():
    f = fgrad.jit(lambda x: jnp.sin(x), inline=True)
    assert [e.primitive.name for e in fgrad.make_jaxpr(lambda x: f(x) * 2)(1.0).eqns] == ["sin", "mul"]
    assert [e.primitive.name for e in fgrad.make_jaxpr(fgrad.jit(f))(1.0).eqns[0].params["jaxpr"].eqns] == ["sin"]
    np.testing.assert_allclose(fgrad.grad(f)(0.5), np.cos(0.5), rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(f))(jnp.ones(2)), np.sin([1, 1]), rtol=1e-6)


def test_primitives_that_others_are_and_tokens():
    lax = fgrad.lax
    np.testing.assert_array_equal(primitives.squeeze_p.bind(jnp.ones((1, 2)), dimensions=(0,)), [1, 1])
    assert float(lax.select_n_p.bind(jnp.array(True), jnp.float32(1), jnp.float32(2))) == 2
    assert primitives.cholesky_p is lax.linalg.cholesky_p
    assert float(fgrad.jit(lambda x: (x, lax.after_all(lax.create_token(x))))(2.0)[0]) == 2
    with pytest.raises(TypeError, match="tokens"):
        lax.after_all(3)


def test_what_a_function_runs_under():
    seen = []

    def f(x):
        jit, vmap = core.unsafe_am_i_under_a_jit_DO_NOT_USE(), core.unsafe_am_i_under_a_vmap_DO_NOT_USE()
        seen.append((jit, vmap, core.unsafe_get_axis_names_DO_NOT_USE(), core.nonempty_axis_env_DO_NOT_USE()))
        return x

    f(1.0), fgrad.jit(f)(1.0), fgrad.vmap(f, axis_name="i")(jnp.ones(2)), fgrad.jit(fgrad.vmap(f))(jnp.ones(2))
    assert seen == [(False, False, [], False), (True, False, [], False), (False, True, ["i"], True), (True, True, [], False)]


def test_keys_of_the_one_implementation():
    from fgrad.extend import random

    key = random.random_seed(3, random.threefry_prng_impl)
    assert (key == fgrad.random.key(3)).all() and (key == random.seed_with_impl(random.threefry_prng_impl, 3)).all()
    bits = random.threefry_2x32(jnp.array([0, 3], jnp.uint32), jnp.arange(3, dtype=jnp.uint32))
    assert bits.shape == (3,) and random.threefry_prng_impl.key_shape == (2,)
    with pytest.raises(NotImplementedError, match="threefry2x32"):
        random.define_prng_impl(key_shape=(1,))
