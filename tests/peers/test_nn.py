"""fgrad.nn against jax.nn: values and gradients in float32, dtypes of the results."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn

pytestmark = pytest.mark.peers
rng = np.random.default_rng(0)
X = (rng.standard_normal((3, 4, 6)) * 3).astype(np.float32)
X[0, 0] = [0, -0.0, 6, 1, -1, -3]

UNARY = [
    "identity",
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "soft_sign",
    "silu",
    "swish",
    "log_sigmoid",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "elu",
    "celu",
    "selu",
    "gelu",
    "glu",
    "mish",
    "squareplus",
    "sparse_plus",
    "sparse_sigmoid",
    "softmax",
    "log_softmax",
    "logsumexp",
    "standardize",
    "logmeanexp",
    "tanh",
]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    jax = pytest.importorskip("jax")
    ours, theirs = getattr(nn, name), getattr(jax.nn, name)
    ct = np.cos(np.arange(np.size(theirs(X)))).reshape(np.shape(theirs(X))).astype(np.float32)
    got, pull = fgrad.vjp(ours, jnp.array(X))
    want, jax_pull = jax.vjp(theirs, X)
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=3e-6)
    np.testing.assert_allclose(pull(jnp.array(ct))[0], jax_pull(ct)[0], rtol=1e-5, atol=3e-6)
    for x in (np.arange(6), np.arange(6) > 2):
        if name in ("softplus", "sparse_plus", "soft_sign", "silu", "elu", "gelu", "glu", "softmax", "sigmoid", "relu6", "standardize"):
            try:
                expected = theirs(x).dtype
            except TypeError:
                continue
            assert ours(jnp.array(x)).dtype == expected, (name, x.dtype)


ATTENTION = [
    {},
    {"is_causal": True},
    {"local_window_size": (2, 1)},
    {"local_window_size": 1, "is_causal": True},
    {"key_value_seq_lengths": np.array([2, 4], np.int32), "query_seq_lengths": np.array([1, 3], np.int32)},
    {"mask": rng.random((2, 1, 5, 5)) > 0.5},
    {"bias": rng.standard_normal((1, 4, 5, 5)).astype(np.float32)},
    {"mask": np.arange(5) % 3 == rng.integers(0, 3, (1, 4, 5, 1)), "scale": 0.7},
    {"mask": (rng.random((2, 1, 1, 5)) > 0.5) | (np.arange(5) == 0), "is_causal": True},
]


@pytest.mark.parametrize("kw", ATTENTION, ids=lambda kw: "+".join(kw))
def test_attention(kw):
    jax = pytest.importorskip("jax")
    q, k, v = (rng.standard_normal((2, 5, n, 8)).astype(np.float32) for n in (4, 2, 2))
    ours = {k: jnp.array(x) if isinstance(x, np.ndarray) else x for k, x in kw.items()}
    got, lse = nn.dot_product_attention(jnp.array(q), jnp.array(k), jnp.array(v), return_residual=True, **ours)
    want, jax_lse = jax.nn.dot_product_attention(q, k, v, return_residual=True, **kw)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(lse, jax_lse, rtol=2e-5, atol=2e-5)
    ct = np.cos(np.arange(got.size)).reshape(got.shape).astype(np.float32)
    _, pull = fgrad.vjp(lambda *a: nn.dot_product_attention(*a, **ours), *map(jnp.array, (q, k, v)))
    _, jax_pull = jax.vjp(lambda *a: jax.nn.dot_product_attention(*a, **kw), q, k, v)
    for a, b in zip(pull(jnp.array(ct)), jax_pull(ct)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=5e-5)


@pytest.mark.parametrize("name", ["lecun_normal", "lecun_uniform", "he_normal", "he_uniform", "glorot_normal", "glorot_uniform"])
def test_initializers(name):
    jax = pytest.importorskip("jax")
    shape = (8, 3, 16)
    got = getattr(nn.initializers, name)()(fgrad.random.key(5), shape, jnp.float32)
    np.testing.assert_allclose(got, getattr(jax.nn.initializers, name)()(jax.random.key(5), shape, np.float32), rtol=2e-5, atol=1e-6)
