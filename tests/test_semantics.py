"""Conventions of JAX that programs rely on and that are easily lost: weak types, ties, names."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import lax


def test_gradient_of_clamp_at_its_bounds():
    x = jnp.array([-2.0, -1.0, 0.5, 1.0, 2.0])
    g = fgrad.grad(lambda x: lax.clamp(-1.0, x, 1.0).sum())(x)
    np.testing.assert_array_equal(g, [0, 0, 1, 0, 0])


def test_methods_of_traced_arrays_are_those_of_arrays():
    x = jnp.arange(6.0).reshape(2, 3)
    for name in ("var", "std", "mean", "sum", "max", "ravel", "trace", "argmax"):
        np.testing.assert_allclose(fgrad.jit(lambda x, name=name: getattr(x, name)())(x), getattr(x, name)(), rtol=1e-6)


def test_remainder_by_a_python_integer_under_jit():
    x = jnp.array([-7, 0, 5])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x % 3)(x), [2, 0, 2])
    np.testing.assert_array_equal(fgrad.jit(lambda x: x % 0)(x), [0, 0, 0])
    np.testing.assert_array_equal(x % np.int32(3), [2, 0, 2])


def test_vmap_of_gradient_of_sort():
    xs = jnp.array([[3.0, 1.0, 2.0], [1.0, 2.0, 0.0]])
    w = jnp.array([1.0, 10.0, 100.0])
    g = fgrad.vmap(fgrad.grad(lambda x: (jnp.sort(x) * w).sum()))(xs)
    np.testing.assert_array_equal(g, [[100, 1, 10], [10, 100, 1]])


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit], ids=["eager", "jit"])
def test_weak_types_survive_loops_and_branches(wrap):
    assert wrap(lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0))().weak_type
    assert wrap(lambda: lax.scan(lambda c, x: (c * 2, c), 1.0, None, length=2)[1])().weak_type
    assert wrap(lambda p: lax.cond(p, lambda: 1.0, lambda: 2.0))(True).weak_type
    assert not wrap(lambda p: lax.cond(p, lambda: 1.0, lambda: jnp.float32(2)))(True).weak_type
    assert wrap(lambda: jnp.full(3, 2.0))().weak_type and not wrap(lambda: jnp.full(3, 2.0, jnp.float32))().weak_type


def test_derivatives_are_weakly_typed_where_their_primals_are():
    half = jnp.ones(2, jnp.bfloat16)
    f = lambda x: jnp.sin(x) * 2
    assert (fgrad.grad(f)(1.0) * half).dtype == jnp.bfloat16
    assert (fgrad.jvp(f, (1.0,), (jnp.float32(1),))[1] * half).dtype == jnp.bfloat16
    assert (fgrad.linearize(f, 1.0)[1](jnp.float32(1)) * half).dtype == jnp.bfloat16
    assert not fgrad.grad(f)(jnp.float32(1)).weak_type
