"""Behaviours that the suites of JAX and of HIPS autograd ask for, with NumPy and closed forms as oracle."""

import copy
import pickle

import numpy as np
import pytest

import fgrad as jax
import fgrad.numpy as jnp
from fgrad.experimental.ode import odeint

X = np.arange(16.0, dtype=np.float32).reshape(4, 4)


@pytest.mark.parametrize(
    "idx",
    [
        ((0, 1, 0), (3, 3, 2)),
        ((0, 1, 0),),
        ([0, 1, 0], (3, 3, 2)),
        (((0, 1), (1, 2)),),
        (1, (3, 3, 2)),
        (..., (3, 2)),
        (None, (1, 2)),
        ((),),
    ],
)
def test_sequences_within_an_index_are_index_arrays(idx):
    want = X[tuple(np.array(i, np.int64) if isinstance(i, (list, tuple)) else i for i in idx)]
    np.testing.assert_array_equal(jnp.asarray(X)[idx], want)
    np.testing.assert_array_equal(jax.jit(lambda x: x[idx])(X), want)
    slope = np.zeros_like(X)
    np.add.at(slope, tuple(np.array(i, np.int64) if isinstance(i, (list, tuple)) else i for i in idx), 1)
    np.testing.assert_array_equal(jax.grad(lambda x: x[idx].sum())(X), slope)
    np.testing.assert_array_equal(jnp.zeros_like(X).at[idx].add(1), slope)


def test_sequences_within_an_index_hold_tracers_and_must_be_rectangular():
    np.testing.assert_array_equal(jax.jit(lambda i: jnp.asarray(X)[[i, 1], (0, i)])(2), X[[2, 1], [0, 2]])
    with pytest.raises(TypeError, match="rectangular"):
        jnp.asarray(X)[[[0, 1], [1]],]
    with pytest.raises(TypeError, match="non-tuple sequence"):
        jnp.asarray(X)[[0, 1]]


@pytest.mark.parametrize("f, base", [(jnp.logaddexp, np.e), (jnp.logaddexp2, 2.0)])
def test_logaddexp_has_all_derivatives_where_its_operands_tie(f, base):
    both = jax.grad(f, (0, 1))(0.4, 0.4)
    np.testing.assert_allclose(both, [0.5, 0.5], rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(f, (0, 1))(0.4, 0.4), np.log(base) / 4 * np.array([[1, -1], [-1, 1]]), rtol=1e-6)
    rate, _ = jax.jvp(lambda x, y: jax.jvp(f, (x, y), (1.3, -0.7))[1], (0.4, 0.4), (0.2, 0.9))
    np.testing.assert_allclose(rate, 0.3, rtol=1e-6)


def test_odeint_is_differentiated_in_reverse_twice_and_refuses_forward_mode():
    with jax.enable_x64():
        end = lambda k, y: odeint(lambda y, t, k: -k * y, y, jnp.array([0.0, 0.5, 1.0]), k)[-1]  # noqa: E731
        slope = jax.grad(lambda k: jax.grad(end)(k, 2.0))(0.7)
        np.testing.assert_allclose(slope, 2 * np.exp(-0.7), rtol=1e-6)
        np.testing.assert_allclose(jax.jacrev(jax.grad(end, 1))(0.7, 2.0), -np.exp(-0.7), rtol=1e-6)
        for f in (end, jax.grad(end)):
            with pytest.raises(TypeError, match="custom_vjp"):
                jax.jvp(lambda k, f=f: f(k, 2.0), (0.7,), (1.0,))


def test_argnums_name_each_argument_once():
    for transform in (jax.grad, jax.value_and_grad, jax.jacfwd, jax.jacrev):
        with pytest.raises(TypeError, match="twice"):
            transform(lambda x, y: x * y, argnums=(0, -2))(1.0, 3.0)
        with pytest.raises(ValueError, match="empty"):
            transform(lambda x, y: x * y, argnums=())(1.0, 3.0)


def test_complex_arrays_are_no_real_numbers_and_powers_have_no_modulus():
    for kind in (int, float):
        with pytest.raises(TypeError, match="complex"):
            kind(jnp.complex64(1j))
    assert complex(jnp.complex64(1j)) == 1j
    with pytest.raises(TypeError):
        pow(jnp.ones(2), 2, 3)


def test_lists_are_no_operands_of_comparisons():
    for f in (lambda x: x == [1.0, 1.0], lambda x: x != (1.0, 1.0), lambda x: x + [1.0, 1.0]):
        with pytest.raises(TypeError, match="unsupported operand"):
            f(jnp.ones(2))
        with pytest.raises(TypeError, match="unsupported operand"):
            jax.jit(f)(jnp.ones(2))
    assert (jnp.ones(2) == "a") is False and (jnp.ones(2) != None) is True  # noqa: E711


def test_shapes_and_scalar_types_are_pickled():
    struct = jax.ShapeDtypeStruct((2, 3), "float32", weak_type=True)
    assert pickle.loads(pickle.dumps(struct)) == struct == copy.deepcopy(struct)
    for kind in (jnp.float32, jnp.bool_, jnp.bfloat16, jnp.int_):
        assert pickle.loads(pickle.dumps(kind)) is kind


def test_arguments_given_by_keyword_are_donated():
    step = jax.jit(lambda x, y: (x + 1, y + 1), donate_argnames="y")
    x, y = jnp.ones(3), jnp.zeros(3)
    step(x, y=y)
    assert y.is_deleted() and not x.is_deleted()
    x, y = jnp.ones(3), jnp.zeros(3)
    jax.jit(lambda x, y: (x + 1, y + 1), donate_argnums=0)(y=y, x=x)
    assert x.is_deleted() and not y.is_deleted()


def test_custom_vjp_refuses_tracers_where_it_has_no_derivatives():
    f = jax.custom_vjp(lambda n, x: n * x, nondiff_argnums=0)
    f.defvjp(lambda n, x: (n * x, None), lambda n, _, ct: (n * ct,))
    assert jax.grad(f, 1)(3.0, 2.0) == 3.0
    for transformed in (jax.jit(lambda n: f(n, 2.0)), lambda n: jax.grad(lambda n: f(n, 2.0))(n)):
        with pytest.raises(jax.errors.UnexpectedTracerError, match="nondiff_argnums"):
            transformed(3.0)


@pytest.mark.parametrize(
    "wrap",
    [lambda f: f, jax.jit, lambda f: jax.jit(jax.jit(f)), lambda f: lambda x: jax.vmap(f)(x[None])[0]],
    ids=["", "jit", "jit2", "vmap"],
)
def test_custom_vjp_rules_with_symbolic_zeros_see_what_is_asked_for(wrap):
    seen = []
    f = jax.custom_vjp(lambda x, y: (x * 2, y * 3))

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * 2, y.value * 3), None

    def backward(_, cts):
        seen.append(tuple(type(ct) is jax.custom_derivatives.SymbolicZero for ct in cts))
        return tuple(None if type(ct) is jax.custom_derivatives.SymbolicZero else 7 * ct for ct in cts)

    f.defvjp(forward, backward, symbolic_zeros=True)
    assert wrap(jax.grad(lambda x: f(x, 1.0)[0]))(jnp.float32(1.0)) == 7
    assert seen == [(True, False), (False, True)]
    seen.clear()
    assert wrap(jax.grad(lambda y: f(y, y)[1]))(jnp.float32(1.0)) == 7
    assert seen == [(True, True), (True, False)]


def test_callables_without_a_string_for_a_name():
    class Named:
        def __call__(self, x):
            return x * x

    f = Named()
    f.__name__ = f.__qualname__ = 3
    x = jnp.arange(3.0)
    for g in (jax.vmap(f), jax.vmap(jax.grad(f)), jax.jacfwd(f), jax.make_jaxpr(f)):
        g(x)
    assert jax.vmap(f)(x).tolist() == [0, 1, 4]


def test_bounds_that_the_index_cannot_hold():
    with pytest.raises(OverflowError, match="1099511627776.*int32"):
        jax.lax.fori_loop(0, 2**40, lambda i, x: x, 0)
    assert jax.lax.fori_loop(0, np.int8(127), lambda i, x: x + 1, 0) == 127


def test_argnums_and_in_axes_are_ints_of_any_kind_and_no_dictionaries():
    product = lambda x, y: x * y  # noqa: E731
    assert float(jax.grad(product, argnums=np.int32(1))(2.0, 3.0)) == 2
    np.testing.assert_array_equal(jax.vmap(product, in_axes=np.int64(0))(jnp.arange(2.0), jnp.arange(2.0)), [0, 1])
    with pytest.raises(TypeError, match="in_axes"):
        jax.vmap(lambda d: d["a"], in_axes={"a": 0})


def test_leaves_of_one_dtype_unravel_from_a_vector_of_another():
    from fgrad.flatten_util import ravel_pytree

    vector, unravel = ravel_pytree({"a": jnp.ones((2, 2)), "b": jnp.float32(3)})
    out = unravel(vector.astype("float16"))
    assert (out["a"].dtype, out["b"].dtype, out["a"].shape) == (jnp.float16, jnp.float16, (2, 2))
    vector, unravel = ravel_pytree([jnp.ones(2, "int32"), jnp.ones(1, "float16")])
    assert [x.dtype for x in unravel(vector)] == [jnp.int32, jnp.float16]
    with pytest.raises(TypeError, match="float32"):
        unravel(vector.astype("float32"))
