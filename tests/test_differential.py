"""Products with derivatives, against the matrices they stand for."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import extend

x, v = np.array([0.3, 1.2, 2.0], np.float32), np.array([1.0, -2.0, 0.5], np.float32)
mix = np.arange(9, dtype=np.float32).reshape(3, 3) / 7


def scalar(x, a=1.0):
    return jnp.sum(jnp.sin(x) * x**2) * a


def vector(x, y):
    return jnp.tanh(mix @ x) * y


J, H = fgrad.jacobian(vector)(x, v), fgrad.hessian(scalar)(x)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)


def test_vjp_jvp_and_hvp_are_built_at_a_point():
    pullback, value = fgrad.make_vjp(vector)(x, v)
    close(value, vector(x, v))
    close(pullback(v), v @ J)
    pullback, _ = fgrad.make_vjp(vector, (0, 1))(x, v)
    close(pullback(v)[1], v * np.tanh(mix @ x))
    for got, want in zip(fgrad.make_jvp(vector)(x, v)(v), (vector(x, v), J @ v)):
        close(got, want)
    product, gradient = fgrad.make_hvp(scalar)(x)
    close(product(v), H @ v)
    close(gradient, fgrad.grad(scalar)(x))


def test_products_take_the_tensor_as_last_argument():
    close(fgrad.hessian_tensor_product(scalar)(x, 2.0, v), 2 * H @ v)
    close(fgrad.hessian_vector_product(scalar)(x, v), H @ v)
    close(fgrad.tensor_jacobian_product(vector)(x, v, v), v @ J)
    close(fgrad.vector_jacobian_product(vector)(x, v, v), v @ J)


def test_gauss_newton_products():
    close(fgrad.make_ggnvp(lambda x: vector(x, v))(x)(v), J.T @ (J @ v))
    quartic = fgrad.make_ggnvp(lambda _, x: vector(x, v), lambda y: jnp.sum(y**4), 1)(None, x)
    close(quartic(v), J.T @ (12 * vector(x, v) ** 2 * (J @ v)))


def test_gradients_by_element_name_and_beside_a_second_result():
    close(fgrad.elementwise_grad(lambda x: jnp.sin(x) * x)(x), np.cos(x) * x + np.sin(x))
    close(fgrad.elementwise_grad(vector, 1)(x, 2.0), np.tanh(mix @ x).sum())
    close(fgrad.deriv(jnp.sin)(x), np.cos(x))
    close(fgrad.grad_named(scalar, "a")(x, 2.0), scalar(x))
    gradient, aux = fgrad.grad_and_aux(lambda x: (scalar(x), {"twice": 2 * x}))(x)
    close(gradient, fgrad.grad(scalar)(x))
    close(aux["twice"], 2 * x)
    close(fgrad.holomorphic_grad(lambda z: z**3)(1 + 2j), 3 * (1 + 2j) ** 2)


def test_refusals():
    with pytest.raises(TypeError, match="real results"):
        fgrad.elementwise_grad(lambda x: 1j * x)(x)
    with pytest.raises(ValueError):
        fgrad.grad_named(scalar, "b")
    with pytest.raises(TypeError, match="scalar"):
        fgrad.make_hvp(lambda x: x)(x)


def test_they_compose_with_jit_and_vmap():
    rows = fgrad.jit(fgrad.vmap(fgrad.hessian_vector_product(scalar), (None, 0)))(x, np.eye(3, dtype=np.float32))
    close(rows, H)


def test_functions_with_rules_per_argument():
    @extend.primitive
    def scaled(x, n, power=2):
        return x**power * n

    extend.defvjp(scaled, lambda ans, x, n, power=2: lambda g: g * 10 * ans / x, None)
    x = jnp.array([1.0, 2.0])
    np.testing.assert_array_equal(scaled(x, 3.0), [3, 12])
    np.testing.assert_array_equal(scaled(x, 3.0, power=3), [3, 24])
    for through in (lambda f: f, fgrad.jit):
        slope = through(fgrad.grad(lambda x, n: scaled(x, n, power=3).sum(), (0, 1)))
        for got, want in zip(slope(x, 3.0), ([30, 120], 0)):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(through(fgrad.vmap(fgrad.grad(scaled), (0, None)))(x, 1.0), [10, 20])


def test_functions_with_pushforwards_per_argument():
    @extend.primitive
    def product(x, y):
        return x * y

    with pytest.raises(NotImplementedError, match="VJP of product wrt argnum 0"):
        fgrad.grad(product)(2.0, 3.0)
    extend.defjvp(product, lambda t, ans, x, y: 7 * t * y, argnums=[0])
    with pytest.raises(NotImplementedError, match="JVP of product wrt argnum 1"):
        fgrad.grad(product)(2.0, 3.0)
    extend.defjvp(product, None, argnums=[1])
    assert fgrad.grad(product)(2.0, 3.0) == 21 and fgrad.jvp(product, (2.0, 3.0), (1.0, 1.0))[1] == 21
    extend.defjvp(product, lambda t, ans, x, y: t * x, argnums=[1])
    assert fgrad.jvp(product, (2.0, 3.0), (1.0, 1.0))[1] == 23


def test_a_pullback_that_is_missing_is_named_only_where_it_is_needed():
    @extend.primitive
    def product(x, y):
        return x * y

    extend.defvjp(product, lambda ans, x, y: lambda g: g * y, argnums=[0])
    assert fgrad.grad(product)(2.0, 3.0) == 3
    with pytest.raises(NotImplementedError, match="argnum 1"):
        fgrad.grad(product, 1)(2.0, 3.0)
