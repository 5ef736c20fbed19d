"""fgrad.nn against NumPy: values, corners, derivatives, 16 bits, errors. test_nn_peers.py compares with jax.nn."""

import math

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from tests.derivatives import check_derivatives, check_vmap

rng = np.random.default_rng(3)
X = rng.standard_normal((3, 4, 6)) * 2
SIG = 1 / (1 + np.exp(-X))
ERF = np.vectorize(math.erf)


@pytest.fixture
def x64():
    with fgrad.enable_x64():
        yield


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


ACTIVATIONS = {
    "identity": X,
    "relu": np.maximum(X, 0),
    "relu6": np.clip(X, 0, 6),
    "sigmoid": SIG,
    "softplus": np.logaddexp(X, 0),
    "soft_sign": X / (np.abs(X) + 1),
    "silu": X * SIG,
    "swish": X * SIG,
    "log_sigmoid": -np.logaddexp(-X, 0),
    "leaky_relu": np.where(X >= 0, X, 0.01 * X),
    "hard_sigmoid": np.clip(X + 3, 0, 6) / 6,
    "hard_silu": X * np.clip(X + 3, 0, 6) / 6,
    "hard_swish": X * np.clip(X + 3, 0, 6) / 6,
    "hard_tanh": np.clip(X, -1, 1),
    "elu": elu(X),
    "celu": elu(X),
    "tanh": np.tanh(X),
    "selu": 1.0507009873554805 * elu(X, 1.6732632423543772),
    "mish": X * np.tanh(np.logaddexp(X, 0)),
    "gelu": 0.5 * X * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
    "squareplus": (X + np.sqrt(X**2 + 4)) / 2,
    "sparse_plus": np.where(X <= -1, 0, np.where(X >= 1, X, (X + 1) ** 2 / 4)),
    "sparse_sigmoid": np.clip((X + 1) / 2, 0, 1),
    "glu": X[..., :3] / (1 + np.exp(-X[..., 3:])),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name, x64):
    f = getattr(nn, name)
    np.testing.assert_allclose(f(jnp.array(X)), ACTIVATIONS[name], rtol=1e-10, atol=1e-13)
    check_derivatives(f, X)
    check_vmap(f, X, in_axes=(1,))
    np.testing.assert_allclose(fgrad.jit(f)(X), f(jnp.array(X)), rtol=1e-12, atol=1e-14)
    for dtype, tol in ((jnp.float16, 4e-3), (jnp.bfloat16, 4e-2)):
        x = jnp.array(X, dtype)
        out = f(x)
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out, float), f(x.astype(float)), rtol=tol, atol=tol)


def test_exact_gelu(x64):
    f = lambda x: nn.gelu(x, approximate=False)
    np.testing.assert_allclose(f(jnp.array(X)), 0.5 * X * (1 + ERF(X / np.sqrt(2))), rtol=1e-10, atol=1e-14)
    check_derivatives(f, X)


def test_activation_corners():
    grad = fgrad.vmap(fgrad.grad(nn.relu))
    np.testing.assert_array_equal(grad(jnp.array([-1.0, 0.0, 2.0])), [0, 0, 1])
    np.testing.assert_array_equal(fgrad.vmap(fgrad.grad(nn.relu6))(jnp.array([-1.0, 0.0, 2.0, 6.0, 7.0])), [0, 0, 1, 0, 0])
    for f in (nn.softplus, nn.log_sigmoid, nn.silu, nn.elu, nn.gelu, nn.mish):
        g = np.asarray(fgrad.vmap(fgrad.grad(f))(jnp.array([-1e4, 0.0, 1e4])))
        assert np.isfinite(g).all(), f
    assert np.isnan(nn.relu(jnp.float32(np.nan)))
    assert nn.relu(jnp.arange(3)).dtype == jnp.int32
    with pytest.raises(TypeError, match="int32"):
        nn.silu(jnp.arange(3))
    with pytest.raises(ValueError, match="even"):
        nn.glu(jnp.ones(3))
    with pytest.raises(TypeError):
        nn.relu([1.0, 2.0])


@pytest.mark.parametrize("axis", [-1, 1, (0, 2), None])
def test_softmax_family(axis, x64):
    e = np.exp(X)
    total = e.sum(axis, keepdims=True)
    x = jnp.array(X)
    np.testing.assert_allclose(nn.softmax(x, axis), e / total, rtol=1e-12)
    np.testing.assert_allclose(nn.log_softmax(x, axis), np.log(e / total), rtol=1e-11)
    np.testing.assert_allclose(nn.logsumexp(x, axis), np.log(e.sum(axis)), rtol=1e-12)
    np.testing.assert_allclose(nn.logsumexp(x, axis, keepdims=True), np.log(total), rtol=1e-12)
    n = e.size / total.size
    np.testing.assert_allclose(nn.logmeanexp(x, axis), np.log(e.sum(axis) / n), rtol=1e-11, atol=1e-12)
    where = X > -0.5
    kept = np.where(where, e, 0)
    total = kept.sum(axis, keepdims=True)
    np.testing.assert_allclose(nn.softmax(x, axis, where=where), kept / total, rtol=1e-12)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(nn.log_softmax(x, axis, where=where), np.log(kept / total), rtol=1e-11)
    np.testing.assert_allclose(nn.logsumexp(x, axis, where=where, keepdims=True), np.log(total), rtol=1e-12)
    weights = rng.standard_normal(X.shape)
    sums = (weights * e).sum(axis)
    value, sign = nn.logsumexp(x, axis, b=weights, return_sign=True)
    np.testing.assert_allclose(value, np.log(np.abs(sums)), rtol=1e-10)
    np.testing.assert_array_equal(sign, np.sign(sums))
    check_derivatives(lambda x: nn.softmax(x, axis), X)
    check_derivatives(lambda x: nn.softmax(x, axis, where=where), X)
    check_derivatives(lambda x: nn.log_softmax(x, axis), X)
    check_derivatives(lambda x: nn.logsumexp(x, axis), X)
    check_derivatives(lambda x, b: nn.logsumexp(x, axis, b=b), X, np.abs(weights) + 0.1, order=1)


def test_masked_rows_have_finite_gradients(x64):
    where = np.array([[True, False], [False, False]])
    x = jnp.array([[1.0, np.inf], [np.nan, 2.0]])
    np.testing.assert_array_equal(nn.softmax(x, where=where), [[1, 0], [0, 0]])
    g = fgrad.grad(lambda x: (nn.softmax(x, where=where) * jnp.array([[1.0, 2], [3, 4]])).sum())(jnp.ones((2, 2)))
    np.testing.assert_array_equal(g, np.zeros((2, 2)))


def test_standardize_and_one_hot(x64):
    c = X - X.mean(-1, keepdims=True)
    want = c / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
    for algorithm in ("fast", "stable"):
        np.testing.assert_allclose(nn.standardize(jnp.array(X), algorithm=algorithm), want, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="algorithm"):
        nn.standardize(jnp.array(X), algorithm="no")
    np.testing.assert_array_equal(nn.one_hot(jnp.array([0, 2, -1, 3]), 3), np.vstack([np.eye(3)[[0, 2]], np.zeros((2, 3))]))
    assert nn.one_hot(jnp.array([0, 1]), 3, dtype=jnp.int8, axis=0).shape == (3, 2)
    assert nn.one_hot(jnp.array([0, 1]), 3, dtype=jnp.int8).dtype == jnp.int8


def test_norms_and_rope(x64):
    w, b = rng.standard_normal(6), rng.standard_normal(6)
    c = X - X.mean(-1, keepdims=True)
    np.testing.assert_allclose(nn.rms_norm(X, w, 1e-5), X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-5) * w, rtol=1e-11)
    np.testing.assert_allclose(nn.layer_norm(X, w, b), c / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * w + b, rtol=1e-10, atol=1e-12)
    check_derivatives(nn.rms_norm, X, w)
    check_derivatives(nn.layer_norm, X, w, b)
    x = rng.standard_normal((2, 5, 3, 8))
    angle = np.arange(5)[:, None, None] * 10000.0 ** (-np.arange(0, 8, 2) / 8)
    cos, sin = np.cos(angle), np.sin(angle)
    want = np.concatenate([x[..., :4] * cos - x[..., 4:] * sin, x[..., 4:] * cos + x[..., :4] * sin], -1)
    np.testing.assert_allclose(nn.rope(x, jnp.arange(5)), want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(nn.rope(x, jnp.tile(jnp.arange(5), (2, 1))), want, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(nn.rope(x, (cos, sin)), want, rtol=1e-10, atol=1e-12)
    turned = np.asarray(nn.rope(x, jnp.arange(5), interleaved=True, rotary_dim=4))
    z = (x[..., :4:2] + 1j * x[..., 1:4:2]) * np.exp(1j * np.arange(5)[:, None, None] * 10000.0 ** (-np.arange(0, 4, 2) / 4))
    np.testing.assert_allclose(turned[..., :4:2] + 1j * turned[..., 1:4:2], z, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(turned[..., 4:], x[..., 4:])
    check_derivatives(lambda x, p: nn.rope(x, p), x, np.arange(5.0))
    with pytest.raises(ValueError, match="positions"):
        nn.rope(x, jnp.arange(4))


def np_attention(q, k, v, bias=0.0, mask=True, scale=None):
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], 2) for x in (k, v))
    z = np.einsum("btnh,bsnh->bnts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    z = np.where(mask, z, -1e30)
    p = np.exp(z - z.max(-1, keepdims=True))
    return np.einsum("bnts,bsnh->btnh", p / p.sum(-1, keepdims=True), v)


@pytest.mark.parametrize("t, s", [(5, 5), (3, 6), (6, 3)])
def test_dot_product_attention(t, s, x64):
    q, k, v = rng.standard_normal((2, t, 4, 8)), rng.standard_normal((2, s, 2, 8)), rng.standard_normal((2, s, 2, 8))
    bias = rng.standard_normal((1, 4, t, s))
    i, j = np.arange(t)[:, None], np.arange(s)
    lengths = np.array([2, 3], np.int32)
    random = rng.random((2, 1, t, s)) > 0.3
    random[..., 0] = True
    cases = [
        ({}, True),
        ({"bias": bias}, True),
        ({"mask": random}, random),
        ({"is_causal": True}, j <= i),
        ({"scale": 0.2}, True),
        ({"is_causal": True, "bias": bias}, j <= i),
        ({"is_causal": True, "mask": random}, random & (j <= i)),
        ({"local_window_size": (2, 1)}, (j >= i - 2) & (j <= i + 1)),
        ({"local_window_size": (1, 0)}, (j >= i - 1) & (j <= i)),
        ({"is_causal": True, "local_window_size": 1}, (j >= i - 1) & (j <= i)),
        ({"key_value_seq_lengths": jnp.array(lengths)}, (j < lengths[:, None, None])[:, None]),
    ]
    for kw, mask in cases:
        want = np_attention(q, k, v, kw.get("bias", 0.0), mask, kw.get("scale"))
        seen = np.broadcast_to(mask, (2, 4, t, s)).any(-1).transpose(0, 2, 1)
        got = np.asarray(nn.dot_product_attention(jnp.array(q), jnp.array(k), jnp.array(v), **kw))
        np.testing.assert_allclose(got[seen], want[seen], rtol=1e-9, atol=1e-11, err_msg=str(kw))
        check_derivatives(lambda q, k, v, kw=kw: nn.dot_product_attention(q, k, v, **kw), q, k, v, order=1)
    out = np.asarray(nn.dot_product_attention(q, k, v, query_seq_lengths=jnp.array(lengths)))
    assert (out[0, 2:] == 0).all() and (out[1, 3:] == 0).all() and (out[:, 0] != 0).all()
    check_derivatives(lambda q, k, v, b: nn.dot_product_attention(q, k, v, b), q, k, v, bias)
    check_derivatives(lambda q, c: nn.dot_product_attention(q, k, v, scale=c), q, np.float64(0.3))


def test_dot_product_attention_interface(x64):
    q, k = rng.standard_normal((5, 4, 8)), rng.standard_normal((7, 2, 8))
    out, lse = nn.dot_product_attention(q, k, k, return_residual=True)
    assert out.shape == (5, 4, 8) and lse.shape == (5, 4)
    np.testing.assert_allclose(out, np_attention(q[None], k[None], k[None])[0], rtol=1e-10)
    g = fgrad.grad(lambda q: nn.dot_product_attention(q, k, k, return_residual=True)[1].sum())(jnp.array(q))
    assert (np.asarray(g) == 0).all()
    for dtype, tol in ((jnp.float16, 4e-3), (jnp.bfloat16, 4e-2)):
        args = [jnp.array(x, dtype) for x in (q, k, k)]
        out = nn.dot_product_attention(*args, is_causal=True)
        assert out.dtype == dtype
        want = nn.dot_product_attention(*[a.astype(float) for a in args], is_causal=True)
        np.testing.assert_allclose(np.asarray(out, float), want, atol=tol)
    check_vmap(lambda q: nn.dot_product_attention(q, k, k), np.stack([q, 2 * q]), in_axes=(0,))
    for bad, message in (((q, k, k[:3]), "value shape"), ((q[:, :3], k, k), "multiple"), ((q, k.astype(np.float32), k), "dtype")):
        with pytest.raises(ValueError, match=message):
            nn.dot_product_attention(*bad)
    with pytest.raises(ValueError, match="mask dtype"):
        nn.dot_product_attention(q, k, k, mask=jnp.ones((1, 1, 5, 7)))
    with pytest.raises(ValueError, match="implementation"):
        nn.dot_product_attention(q, k, k, implementation="cudnn")


def test_few_queries_read_16_bit_keys_where_they_lie():
    for t, widened in ((1, 1), (128, 1), (129, 3)):  # two heads share a key
        q, k = jnp.ones((1, t, 4, 8), jnp.bfloat16), jnp.ones((1, 600, 2, 8), jnp.bfloat16)
        labels = [label for _, label in fgrad.jit(nn.dot_product_attention).lower(q, k, k).compile().profile(q, k, k, repeat=1)]
        assert sum("mul " in label for label in labels) == widened


def test_losses(x64):
    labels = rng.integers(0, 6, (3, 4))
    logp = X - np.log(np.exp(X).sum(-1, keepdims=True))
    want = -np.take_along_axis(logp, labels[..., None], -1)[..., 0]
    x = jnp.array(X)
    np.testing.assert_allclose(nn.softmax_cross_entropy_with_integer_labels(x, labels), want, rtol=1e-11)
    np.testing.assert_allclose(nn.softmax_cross_entropy(x, nn.one_hot(labels, 6)), want, rtol=1e-11)
    moved = jnp.moveaxis(x, -1, 0)
    np.testing.assert_allclose(nn.softmax_cross_entropy_with_integer_labels(moved, labels, axis=0), want, rtol=1e-11)
    np.testing.assert_allclose(nn.softmax_cross_entropy(moved, jnp.moveaxis(nn.one_hot(labels, 6), -1, 0), axis=0), want, rtol=1e-11)
    check_derivatives(lambda x: nn.softmax_cross_entropy_with_integer_labels(x, labels), X)
    check_derivatives(lambda x: nn.softmax_cross_entropy(x, nn.one_hot(labels, 6)), X)
    with pytest.raises(ValueError, match="labels"):
        nn.softmax_cross_entropy_with_integer_labels(x, labels[0])
    y = rng.random(X.shape)
    np.testing.assert_allclose(nn.sigmoid_binary_cross_entropy(x, y), -y * np.log(SIG) - (1 - y) * np.log(1 - SIG), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(nn.l2_loss(x, y), 0.5 * (X - y) ** 2, rtol=1e-12)
    np.testing.assert_allclose(nn.mse(x, y), ((X - y) ** 2).mean(), rtol=1e-12)
    e = np.abs(X - y)
    np.testing.assert_allclose(nn.huber_loss(x, y, 0.7), np.where(e <= 0.7, 0.5 * e**2, 0.7 * (e - 0.35)), rtol=1e-11, atol=1e-14)
    for f in (nn.sigmoid_binary_cross_entropy, nn.l2_loss, nn.mse, nn.huber_loss):
        check_derivatives(f, X, y)


def test_initializers():
    init, key = nn.initializers, fgrad.random.key(0)
    assert (np.asarray(init.zeros(key, (2, 3))) == 0).all() and (np.asarray(init.ones(key, (2,), jnp.bfloat16)) == 1).all()
    assert (np.asarray(init.constant(2.5)(key, (3,))) == 2.5).all()
    u = np.asarray(init.uniform(0.5)(key, (4000,)))
    assert 0 <= u.min() and u.max() < 0.5
    assert abs(np.asarray(init.normal(2.0)(key, (40000,))).std() - 2) < 0.05
    t = np.asarray(init.truncated_normal(1.0, lower=-1, upper=1)(key, (4000,)))
    assert np.abs(t).max() <= 1
    for name, var in (
        ("lecun_normal", 1 / 200),
        ("lecun_uniform", 1 / 200),
        ("he_normal", 2 / 200),
        ("he_uniform", 2 / 200),
        ("glorot_normal", 2 / 500),
        ("glorot_uniform", 2 / 500),
        ("xavier_uniform", 2 / 500),
        ("kaiming_normal", 2 / 200),
    ):
        w = np.asarray(getattr(init, name)()(key, (200, 300), jnp.float32))
        assert w.dtype == np.float32 and abs(w.var() / var - 1) < 0.05, name
    conv = np.asarray(init.he_normal(in_axis=1, out_axis=0)(key, (64, 32, 3, 3)))
    assert abs(conv.var() / (2 / (32 * 9)) - 1) < 0.1
    assert abs(np.asarray(init.variance_scaling(1.0, "fan_geo_avg", "normal")(key, (100, 400))).var() * 200 - 1) < 0.05
    z = np.asarray(init.variance_scaling(1.0, "fan_in", "uniform")(key, (200, 200), jnp.complex64))
    assert z.dtype == np.complex64 and abs((np.abs(z) ** 2).mean() * 200 - 1) < 0.05
    with pytest.raises(ValueError, match="at least 2D"):
        init.lecun_normal()(key, (3,))
    with pytest.raises(ValueError, match="mode"):
        init.variance_scaling(1.0, "no", "normal")(key, (3, 3))
    with pytest.raises(ValueError, match="distribution"):
        init.variance_scaling(1.0, "fan_in", "no")(key, (3, 3))


def test_orthogonal():
    init, key = nn.initializers.orthogonal(2.0), fgrad.random.key(1)
    with pytest.raises(ValueError, match="2D"):
        init(key, (3,))
    assert init(key, (0, 3)).shape == (0, 3)
    w = np.asarray(init(key, (5, 3)))
    np.testing.assert_allclose(w.T @ w, 4 * np.eye(3), atol=1e-5)
    w = np.asarray(nn.initializers.orthogonal(column_axis=0)(key, (3, 2, 4))).reshape(3, 8)
    np.testing.assert_allclose(w @ w.T, np.eye(3), atol=1e-5)


def test_delta_orthogonal():
    """An orthonormal matrix in the middle of a convolution's window, zeros around it."""
    key = fgrad.random.key(1)
    w = np.array(nn.initializers.delta_orthogonal()(key, (3, 5, 2, 4)))
    np.testing.assert_allclose(w[1, 2] @ w[1, 2].T, np.eye(2), atol=1e-6)
    w[1, 2] = 0
    assert not w.any()
    for shape, word in (((2, 2), "3D"), ((3, 4, 2), "fan_out")):
        with pytest.raises(ValueError, match=word):
            nn.initializers.delta_orthogonal()(key, shape)


def test_softmax_of_complex_numbers():
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(3, 4)) * 2 + 1j * rng.normal(size=(3, 4))).astype(np.complex64)
    e = np.exp(x.astype(np.complex128))
    np.testing.assert_allclose(nn.softmax(x), e / e.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(nn.softmax(x, axis=(0, 1)), e / e.sum(), rtol=1e-5)
    where = x.real > -1
    kept = np.where(where, e, 0)
    np.testing.assert_allclose(nn.softmax(x, axis=0, where=where), kept / kept.sum(0), rtol=1e-5)
    np.testing.assert_allclose(np.exp(nn.log_softmax(x)), e / e.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(nn.softmax(x + 200), nn.softmax(x), rtol=1e-4)  # without overflow


def test_the_gates_gradients_lie_where_its_operands_did():
    x = jnp.asarray(np.linspace(-2, 2, 512 * 64).reshape(512, 64).astype(np.float32))
    a, b = jnp.asarray(np.eye(64, dtype=np.float32)) * 0.5, jnp.ones((64, 64)) * 0.01
    step = fgrad.jit(fgrad.grad(lambda a, b: jnp.sum(nn.swiglu(x @ a, x @ b) ** 2), (0, 1)))
    assert step.lower(a, b).compile().memory_analysis()["temp_bytes"] <= 3 * x.nbytes  # both products, and the gradient of the result
    plain = fgrad.jit(fgrad.grad(lambda a, b: jnp.sum(((x @ a) * nn.sigmoid(x @ a) * (x @ b)) ** 2), (0, 1)))
    for got, want in zip(step(a, b), plain(a, b)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
