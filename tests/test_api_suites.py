"""Behaviours that the suites of JAX and of HIPS autograd ask for, with NumPy and closed forms as oracle."""

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
