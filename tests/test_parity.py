"""What JAX's own tests ask of transformations and their border: types of cotangents, structures, messages, stages."""

import warnings

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
import fgrad.scipy.linalg as jsl
from fgrad import dtypes, lax
from fgrad.core import eval_jaxpr, max_dim, min_dim
from fgrad.custom_derivatives import linear_call
from fgrad.errors import ShapeError
from fgrad.example_libraries.optimizers import l2_norm
from fgrad.extend.core import jaxpr_as_fun


def test_cotangents_have_the_type_of_the_result():
    half = fgrad.vjp(lambda x: 2 * x, jnp.float16(1))[1]
    real = fgrad.vjp(lambda x: 2 * x, jnp.float32(1))[1]
    assert float(half(jnp.float16(1))[0]) == float(real(1.0)[0]) == float(real(np.float64(1))[0]) == 2
    for pullback, ct in ((half, 1.0), (real, 1), (real, 1j), (real, jnp.float16(1))):
        with pytest.raises(ValueError, match="expected tangent type"):
            pullback(ct)


def test_jacobians_refuse_results_they_cannot_differentiate():
    for f in (lambda x: x * 1j, lambda x: x > 0, lambda x: x.astype(int)):
        with pytest.raises(TypeError, match="jacrev requires real-valued outputs"):
            fgrad.jacrev(f)(jnp.ones(2))
    for jacobian in (fgrad.jacfwd, fgrad.jacrev):
        with pytest.raises(TypeError, match="requires outputs with complex dtype"):
            jacobian(lambda z: z.real, holomorphic=True)(1j)
    np.testing.assert_array_equal(fgrad.jacfwd(lambda x: x * 1j)(jnp.ones(2)), 1j * np.eye(2))


def test_linear_transpose_checks_its_cotangent():
    back = fgrad.linear_transpose(lambda x: 2 * x, 1.0)
    assert back(1.0)[0].weak_type and float(back(np.float32(3))[0]) == 6
    for ct in (1, jnp.ones(2), jnp.float16(1)):
        with pytest.raises(TypeError, match="cotangent type does not match"):
            back(ct)
    both = fgrad.linear_transpose(lambda x, y: x + y, 1.0, 2.0)(3.0)
    assert [type(x) for x in both] == [type(jnp.ones(1))] * 2
    with pytest.raises(TypeError, match="callable"):
        fgrad.linear_transpose(3, 1.0)
    with pytest.raises(TypeError, match="structure"):
        fgrad.linearize(jnp.sin, 1.0)[1](1.0, 2.0)


def test_rules_of_custom_functions_keep_types_and_structures():
    def with_rule(rule, f=lambda x: x * 2):
        f = fgrad.custom_jvp(f)
        f.defjvp(rule)
        return f

    for rule in (
        lambda p, t: (2 * p[0], t[0].astype("float16")),
        lambda p, t: ((p[0]).astype("float16"), t[0]),
        lambda p, t: (p[0].astype(int), t[0]),
    ):
        with pytest.raises(TypeError, match="corresponding"):
            fgrad.jvp(with_rule(rule), (jnp.float32(1),), (jnp.float32(1),))

    def scaled(back):
        f = fgrad.custom_vjp(lambda p: p["a"] * p["b"][0] * p["b"][1])
        f.defvjp(lambda p: (f(p), p), back)
        return fgrad.grad(lambda p: f(p))({"a": 2.0, "b": (3.0, 4.0), "c": None})

    g = scaled(lambda p, ct: ({"a": ct, "b": None, "c": None},))  # None: zeros of a part
    assert (float(g["a"]), [float(x) for x in g["b"]], g["c"]) == (1, [0, 0], None)
    for wrong in ({"a": 1.0, "q": None, "c": None}, {"a": 1.0, "b": 1.0, "c": None}, {"a": (1.0, 1.0), "b": None, "c": None}):
        with pytest.raises(TypeError, match="has structure"):
            scaled(lambda p, ct, wrong=wrong: (wrong,))


def test_linear_call_transposes_by_the_given_function():
    def f(x, y):
        return linear_call(lambda y, x: x / y, lambda y, ct: ct / (3 * y), y, x)

    assert float(f(6.0, 2.0)) == 3 and float(fgrad.jvp(lambda x: f(x, 2.0), (6.0,), (1.0,))[1]) == 0.5
    np.testing.assert_allclose(fgrad.grad(f)(6.0, 2.0), 1 / 6, rtol=1e-6)
    np.testing.assert_allclose(
        fgrad.jit(fgrad.vmap(fgrad.grad(f), in_axes=(None, 0)))(6.0, jnp.arange(1.0, 4)), 1 / (3 * np.arange(1, 4)), rtol=1e-6
    )
    twice = fgrad.linear_transpose(lambda ct: fgrad.linear_transpose(lambda x: f(x, 2.0), 1.0)(ct)[0], 1.0)
    assert float(twice(1.0)[0]) == 0.5
    looped = lambda x: lax.scan(lambda c, _: (f(c, 2.0), None), x, None, length=3)[0]  # noqa: E731
    np.testing.assert_allclose(fgrad.grad(looped)(1.0), (1 / 6) ** 3, rtol=1e-6)
    with pytest.raises(ShapeError, match="fun_transpose must return"):
        linear_call(lambda _, x: x, lambda _, ct: ct[:1], None, jnp.ones(2))


def test_a_number_and_its_weak_array_share_a_trace():
    traced = []
    f = fgrad.jit(lambda x: traced.append(x) or x + 1)
    for x in (1.0, f(2.0), jnp.asarray(3.0)):
        f(x)
    assert len(traced) == 1
    f(1), f(jnp.float32(1)), f(True)
    assert len(traced) == 4


def test_donated_arrays_that_no_result_can_take_are_kept():
    f = fgrad.jit(lambda x, y: x + y.sum(), donate_argnums=(0, 1))
    x, y = jnp.ones(3), jnp.ones(2)
    with pytest.warns(UserWarning, match=r"donated buffers were not usable: float32\[2\]"):
        f(x, y)
    assert x.is_deleted() and not y.is_deleted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        f(jnp.ones(3), y)
    x = jnp.ones(3)
    fgrad.jit(lambda x, y: y + 1, donate_argnums=0)(x, jnp.ones(3))  # to JAX, what no result depends on is no argument of the program
    assert not x.is_deleted()
    for bad in (dict(donate_argnums=2), dict(donate_argnames="z")):
        with pytest.raises(ValueError, match="donate"):
            fgrad.jit(lambda x, y: x, **bad)


def test_structs_are_what_they_are_given():
    s = fgrad.ShapeDtypeStruct([2, 3], np.float64, weak_type=True)
    assert (s.shape, s.dtype, s.size, len(s)) == ((2, 3), np.float64, 6, 2) and "weak_type=True" in repr(s)
    assert s != fgrad.ShapeDtypeStruct((2, 3), np.float64) and s == s.update()
    assert fgrad.eval_shape(lambda x: x, s).dtype == np.float32
    with pytest.raises(ValueError, match="dtype must be specified"):
        fgrad.ShapeDtypeStruct((2,), None)


def test_comparisons_of_weak_operands_are_weak():
    weak = [jnp.asarray(1.0) < 2.0, lax.eq(1, 2), fgrad.jit(lambda x: x < 1)(2.0)]
    assert all(x.weak_type for x in weak) and not any(x.weak_type for x in (jnp.float32(1) < 2, jnp.asarray(True)))
    assert [(weak[0] * x).dtype.name for x in (3, 3.0, jnp.int8(3), jnp.float16(3))] == ["int32", "float32", "int8", "float16"]


def test_weak_types_of_what_is_made_of_weak_arrays():
    row, whole = jnp.broadcast_to(jnp.asarray(2.0), (3,)), jnp.broadcast_to(jnp.asarray(2), (3,))
    square = jnp.where(np.eye(3) > 0, row, jnp.broadcast_to(jnp.asarray(0.5), (3,)))
    weak = lambda f, *args: {tuple(x.weak_type for x in fgrad.tree.leaves(g(*args)) if x.dtype.kind == "f") for g in (f, fgrad.jit(f))}
    for f in (
        jnp.linalg.cholesky,
        jsl.cholesky,
        jnp.linalg.inv,
        lambda a: jnp.linalg.solve(a, row),
        lambda a: jsl.solve_triangular(a, row),
    ):
        assert weak(f, square) == {(f is not jnp.linalg.inv,)}
    for f in (jnp.linalg.qr, jnp.linalg.eigh):
        assert weak(f, square) == {(True, True)}
    assert weak(jnp.linalg.svd, square) == {(True,) * 3} and weak(jsl.lu, square) == {(False, False, True)}
    assert weak(lambda a: jnp.linalg.solve(a, row), jnp.eye(3)) == weak(lambda b: jnp.linalg.cholesky(b), jnp.eye(3)) == {(False,)}
    for f in (jnp.angle, jnp.gradient, jnp.ediff1d, lambda x: jnp.unique(x, size=2), lambda x: jnp.cross(x[:2], x[:2])):
        assert weak(f, row) == {(True,)}
    assert jnp.ediff1d(whole).weak_type and not jnp.ediff1d(row, to_end=1.0).weak_type and not jnp.angle(2.0).weak_type
    for f in (jnp.deg2rad, jnp.rad2deg, jnp.sinc, lambda x: jnp.cross(x, x), jnp.vander):
        assert weak(f, row) == {(False,)} and not f(whole).weak_type
    assert all(f(2.0).weak_type for f in (jnp.deg2rad, jnp.rad2deg, jnp.sinc))
    assert jnp.cross(jnp.array([1, 2]), jnp.array([3, 5])) == -1


def test_names_of_arguments_and_small_functions():
    assert lax.mul(np.int8([100]), np.int8([100]), out_dtype="int32")[0] == 10_000
    assert lax.mul(np.float32([2.5]), np.float32([2.5]), out_dtype=np.int32)[0] == 4 and lax.mul(2.0, 3.0, out_dtype="float32").weak_type
    assert lax.reduce_sum(jnp.ones((2, 3)), (1,), out_sharding=None).shape == (2,) and lax.atan2(x=0.0, y=1.0) == 0
    assert dtypes.iinfo(int_type="int8").max == 127 and dtypes.issubdtype(a=np.float32, b=np.floating)
    assert dtypes.result_type(1, return_weak_type_flag=True) == (np.dtype("int32"), True)
    assert dtypes.result_type(np.float32(1), 2.0, return_weak_type_flag=True) == (np.dtype("float32"), False)
    closed = fgrad.make_jaxpr(lambda x, y: x - y)(1.0, 2.0)
    assert eval_jaxpr(closed.jaxpr, closed.consts, 3.0, 1.0, propagate_source_info=False) == [2]
    assert jaxpr_as_fun(closed, 3.0)(1.0) == jaxpr_as_fun(closed)(3.0, 1.0) == [2]
    assert (max_dim(3, 4), min_dim(3, 4)) == (4, 3) and l2_norm(tree={"a": 3.0, "b": 4.0}) == 5
    assert lax.FftType.RFFT == 2 and [f.__name__ for f in (lax.bitwise_and, lax.bitwise_not)] == ["bitwise_and", "bitwise_not"]


def test_stages_answer_for_their_cost():
    lowered = fgrad.jit(lambda a, b: jnp.sum(jnp.sin(a @ b) + 1)).lower(jnp.ones((4, 5)), jnp.ones((5, 6)))
    cost = lowered.cost_analysis()
    assert (cost["flops"], cost["transcendentals"]) == (2 * 4 * 5 * 6 + 24 + 24, 24) and cost["bytes accessed"] > 4 * (20 + 30)
    loop = fgrad.jit(lambda a: lax.scan(lambda c, _: (lax.cond(c > 0, lambda: c * 2 + 1, lambda: c), None), a, None, length=10)[0])
    assert loop.lower(1.0).compile().cost_analysis()["flops"] == 10 * (2 + 1 + 1)  # product and sum; comparison, its conversion
    assert "sin" in str(lowered.compiler_ir("stablehlo"))
    compiled = lowered.compile()
    assert compiled.memory_analysis().argument_size_in_bytes == 200 and compiled.call(jnp.ones((4, 5)), jnp.ones((5, 6))).shape == ()


def test_jaxprs_with_axes_and_old_conds():
    text = str(fgrad.make_jaxpr(lambda x: lax.psum(x, "i") * lax.axis_size("i"), axis_env=[("i", 4)])(1.0))
    assert "psum" in text and "4" in text
    with pytest.raises(TypeError, match="callable"):
        fgrad.make_jaxpr(3)
    assert int(lax.cond(False, 3, lambda x: x, 4, lambda x: x * 2)) == 8


def test_small_borders():
    for mode in ("foo", 3):
        for use in (lambda r, m: r.set(1, mode=m), lambda r, m: r.add(1, mode=m), lambda r, m: r.get(mode=m)):
            with pytest.raises(ValueError, match=str(mode)):
                use(jnp.ones(3).at[0], mode)
    assert fgrad.jit(lambda x: fgrad.device_get(x) + 1)(1.0) == 2
    traces = []
    f = fgrad.jit(lambda x: traces.append(x.dtype) or x)
    assert f(True) == f(jnp.array(True)) == f(np.bool_(True)) and len(traces) == 1


def test_lax_spreads_axes_of_size_one():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(2.0).reshape(2, 1)
    np.testing.assert_array_equal(lax.sub(x, y), np.asarray(x) - np.asarray(y))
    np.testing.assert_array_equal(fgrad.grad(lambda y: lax.mul(x, y).sum())(y), np.asarray(x).sum(1, keepdims=True))
    with pytest.raises(ShapeError):
        lax.add(x, jnp.ones(3))
    with pytest.raises(ShapeError):
        lax.add(x, jnp.ones((3, 3)))


def test_what_all_branches_return_of_their_operands_stays_as_it_is():
    def f(x, b):
        return lax.switch(x.sum().astype(int) % 3, [lambda x, b: (x + 1, b, x), lambda x, b: (x, b, x), lambda x, b: (2 * x, b, x)], x, b)

    x, b = jnp.arange(6.0).reshape(3, 2), jnp.ones(2)
    _, same, again = fgrad.vmap(f, in_axes=(0, None), out_axes=(0, None, 0))(x, b)
    np.testing.assert_array_equal(same, b)
    np.testing.assert_array_equal(again, x)
    assert len(fgrad.make_jaxpr(f)(x[0], b).eqns[-1].outvars) == 1
    np.testing.assert_array_equal(fgrad.jacrev(lambda b: fgrad.jit(f)(x[0], b)[1])(b), np.eye(2))
    with pytest.raises(ValueError, match=r"at vmap out_axes\[0\], got axis spec None but output was batched on axis 0"):
        fgrad.vmap(f, in_axes=(0, None), out_axes=None)(x, b)


def test_elements_of_pairs_out_of_range_have_no_cotangent():
    """They read what lies nearest, in the function and its tangent; what is read instead gets no gradient."""
    x, i, j = jnp.arange(1.0, 7).reshape(2, 3), jnp.array([0, 9, -1]), jnp.array([1, 1, 2])
    f = lambda x, i: x[i, j] ** 2
    want = [[0, 4, 0], [0, 0, 12]]
    for g in (f, fgrad.jit(f)):
        np.testing.assert_array_equal(fgrad.grad(lambda x, g=g: g(x, i).sum())(x), want)
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(lambda x, i: f(x, i).sum()), (None, 0))(x, i[None])[0], want)
    np.testing.assert_array_equal(fgrad.jvp(lambda x: f(x, i), (x,), (x,))[1], [8, 50, 72])
    np.testing.assert_array_equal(fgrad.grad(lambda x: x[jnp.array([0, 1]), 5].sum())(x), np.zeros((2, 3)))


def test_folds_of_ufuncs_go_one_after_the_other():
    """From the identity if there is one; in the dtype of the function's result; indices out of range are dropped."""
    horner, x, n = jnp.frompyfunc(lambda a, b: a * 2 + b, 2, 1), np.float32([[1, 2], [3, 4], [5, 6]]), np.arange(4)
    np.testing.assert_array_equal(horner.reduce(x), [15, 22])
    np.testing.assert_array_equal(horner.reduce(x, axis=None, where=x > 1, initial=1), 120)
    np.testing.assert_array_equal(horner.accumulate(x, axis=1), [[1, 4], [3, 10], [5, 16]])
    np.testing.assert_array_equal(jnp.frompyfunc(lambda a, b: jnp.maximum(a, b) * 2, 2, 1, identity=0).reduce(x), [12, 16])
    np.testing.assert_array_equal(horner.at(n, np.array([1, 1, 9]), 0.5, inplace=False), [0, 5.5, 2, 3])
    np.testing.assert_array_equal(jnp.bitwise_or.at(n, np.array([0, 7]), 8, inplace=False), [8, 1, 2, 3])
    assert horner.reduce(np.ones((100_000,), "f") * 0).shape == ()


def test_running_sums_and_variances_at_the_border():
    assert jnp.cumsum(np.ones((2, 3)), dtype=bool).shape == (6,)
    assert jnp.cumulative_sum(np.ones(3, np.int8)).dtype == jnp.int32 and jnp.cumulative_prod(np.ones(3, np.int8)).dtype == jnp.int8
    for f in (jnp.var, jnp.std):
        assert f(np.zeros((2, 0)), keepdims=True).shape == (1, 1) and np.isnan(f(np.zeros((2, 0)), keepdims=True)).all()
