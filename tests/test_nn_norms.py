"""Batch, group and instance norms, gates, and attention's variants against NumPy."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import nn
from fgrad.compile import program
from fgrad.compile.fuse import fuse
from tests.derivatives import check_derivatives, check_vmap

rng = np.random.default_rng(11)
X = rng.standard_normal((3, 4, 5))
SCALE, BIAS = rng.standard_normal((2, 4))


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


def standard(x, axes, eps=1e-5, ddof=0):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True, ddof=ddof) + eps)


def affine(x):
    return x * SCALE[:, None] + BIAS[:, None]


NORMS = {
    "group": (lambda x, s, b: nn.group_norm(x, 2, s, b), lambda x: affine(standard(x.reshape(3, 2, 10), -1).reshape(x.shape))),
    "instance": (nn.instance_norm, lambda x: affine(standard(x, -1))),
    "batch": (
        lambda x, s, b: nn.batch_norm(x, nn.batch_norm_state(4), s, b, training=True)[0],
        lambda x: affine(standard(x, (0, 2))),
    ),
    "batch unbiased": (
        lambda x, s, b: nn.batch_norm(x, nn.batch_norm_state(4), s, b, training=True, unbiased=True)[0],
        lambda x: affine(standard(x, (0, 2), ddof=1)),
    ),
    "batch running": (
        lambda x, s, b: nn.batch_norm(x, (s, b * b), s, b, training=False)[0],
        lambda x: affine((x - SCALE[:, None]) / np.sqrt(BIAS[:, None] ** 2 + 1e-5)),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(name):
    f, want = NORMS[name]
    np.testing.assert_allclose(f(X, SCALE, BIAS), want(X), rtol=1e-9, atol=1e-10)
    check_derivatives(f, X, SCALE, BIAS, label=name)
    check_vmap(f, np.stack([X, 2 * X]), SCALE, BIAS, in_axes=(0, None, None))


def test_channels_elsewhere():
    last = np.moveaxis(X, 1, -1)
    for f in (
        lambda x, c: nn.group_norm(x, 2, SCALE, BIAS, channel_axis=c),
        lambda x, c: nn.batch_norm(x, nn.batch_norm_state(4), SCALE, BIAS, training=True, channel_axis=c)[0],
    ):
        np.testing.assert_allclose(np.moveaxis(np.asarray(f(last, 2)), -1, 1), np.asarray(f(X, 1)), rtol=1e-9)


def test_batch_norms_state():
    state = (np.arange(4.0), np.arange(1.0, 5))
    _, (mean, variance) = nn.batch_norm(X, state, training=True, momentum=0.25)
    np.testing.assert_allclose(mean, 0.75 * state[0] + 0.25 * X.mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(variance, 0.75 * state[1] + 0.25 * X.var((0, 2), ddof=1), rtol=1e-12)
    _, same = nn.batch_norm(X, state, training=False)
    assert all(np.array_equal(a, b) for a, b in zip(same, state))
    step = fgrad.jit(lambda x, state: nn.batch_norm(x, state, training=True))
    assert [s.dtype for s in step(np.asarray(X, np.float32), nn.batch_norm_state(4, jnp.float32))[1]] == [np.float32] * 2


def test_norms_in_16_bits():
    x = jnp.asarray(X * 300, jnp.float16)
    for y in (nn.group_norm(x, 2), nn.instance_norm(x), nn.batch_norm(x, nn.batch_norm_state(4, jnp.float32), training=True)[0]):
        assert y.dtype == np.float16 and np.isfinite(np.asarray(y)).all()


def test_l2_normalize():
    np.testing.assert_allclose(nn.l2_normalize(X), X / np.linalg.norm(X, axis=-1, keepdims=True), rtol=1e-12)
    check_derivatives(nn.l2_normalize, X)
    zero = np.zeros((2, 3))
    assert np.all(np.asarray(nn.l2_normalize(zero)) == 0)
    assert np.all(np.isfinite(np.asarray(fgrad.grad(lambda x: nn.l2_normalize(x).sum())(zero))))


def test_norms_errors():
    with pytest.raises(ValueError, match="3 groups"):
        nn.group_norm(X, 3)
    with pytest.raises(ValueError, match="scale must have shape"):
        nn.group_norm(X, 2, np.ones(3))
    with pytest.raises(ValueError, match="2 values"):
        nn.batch_norm(np.ones((1, 4)), nn.batch_norm_state(4), training=True)
    with pytest.raises(ValueError, match="running mean"):
        nn.batch_norm(X, nn.batch_norm_state(3), training=True)
    with pytest.raises(ValueError, match="3 axes"):
        nn.instance_norm(np.ones((3, 4)))


def test_gates():
    a, b = X, X[::-1] + 0.1
    gelu = np.asarray(nn.gelu(a))
    np.testing.assert_allclose(nn.reglu(a, b), np.maximum(a, 0) * b, rtol=1e-12)
    np.testing.assert_allclose(nn.geglu(a, b), gelu * b, rtol=1e-12)
    np.testing.assert_allclose(nn.geglu(a, 2.0, approximate=False), 2 * np.asarray(nn.gelu(a, False)), rtol=1e-12)
    np.testing.assert_allclose(nn.gelu_quick(a), a / (1 + np.exp(-1.702 * a)), rtol=1e-12)
    np.testing.assert_array_equal(nn.step(a), a > 0)
    check_derivatives(nn.reglu, a, b)
    check_derivatives(nn.geglu, a, b)
    check_derivatives(nn.xielu, a)
    check_derivatives(lambda x, p, n: nn.xielu(x, p, n), a, np.float64(0.3), np.float64(0.6))


# --- attention ------------------------------------------------------------------------------------------------------------

T, S = 3, 5
Q, K, V = rng.standard_normal((2, T, 4, 6)), rng.standard_normal((2, S, 2, 6)), rng.standard_normal((2, S, 2, 7))


def attention(q, k, v, bias=0.0, causal=False, window=0, cap=0.0, slopes=None, sinks=None):
    out = np.zeros((*q.shape[:3], v.shape[3]))
    for b, t, n in np.ndindex(q.shape[:3]):
        scores = np.array([q[b, t, n] @ k[b, s, n // 2] / np.sqrt(q.shape[3]) for s in range(k.shape[1])])
        scores = cap * np.tanh(scores / cap) if cap else scores
        scores = scores + np.broadcast_to(bias, (2, 4, T, S))[b, n, t]
        total = 0.0 if sinks is None else np.exp(sinks[n])
        for s in range(k.shape[1]):
            distance = t + S - T - s
            if causal and distance < 0 or window and distance >= window:
                continue
            w = np.exp(scores[s] - (0 if slopes is None else slopes[n] * abs(distance)))
            total += w
            out[b, t, n] += w * v[b, s, n // 2]
        out[b, t, n] /= total
    return out


VARIANTS = {
    "plain": {},
    "causal": dict(is_causal=True),
    "window": dict(is_causal=True, window=2),
    "cap": dict(softcap=1.2),
    "alibi": dict(slopes=nn.alibi_slopes(4), is_causal=True),
    "sinks": dict(sinks=rng.standard_normal(4)),
    "all": dict(
        slopes=nn.alibi_slopes(4, 4.0), sinks=rng.standard_normal(4), softcap=2.0, window=3, bias=rng.standard_normal((2, 1, T, S))
    ),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_attention_ext(name):
    kw = VARIANTS[name]
    short = {"is_causal": "causal", "softcap": "cap"}
    want = attention(Q, K, V, **{short.get(k, k): v for k, v in kw.items()})
    f = lambda q, k, v: nn.attention_ext(q, k, v, **kw)
    np.testing.assert_allclose(f(Q, K, V), want, rtol=1e-9, atol=1e-10)
    check_derivatives(f, Q, K, V, order=1, label=name)
    check_vmap(f, np.stack([Q, Q[::-1]]), K, V, in_axes=(0, None, None))


def test_attention_exts_parameters_have_gradients():
    bias, slopes, sinks = rng.standard_normal((2, 4, T, S)), nn.alibi_slopes(4), rng.standard_normal(4)
    check_derivatives(lambda b, m, s: nn.attention_ext(Q, K, V, b, slopes=m, sinks=s), bias, slopes, sinks, order=1)


def test_attention_exts_memory_is_linear():
    """Nothing of the size of the scores, forward and backward: bias is read by tiles, its gradient has its shape."""
    t, x = 96, np.ones((2, 96, 4, 8), np.float32)
    run = lambda q, k, v, b, m, s: nn.attention_ext(q, k, v, b, slopes=m, sinks=s, softcap=3.0, is_causal=True, window=50).sum()
    args = x, x, x, np.ones((1, 4, 1, t), np.float32), nn.alibi_slopes(4).astype("f"), np.zeros(4, np.float32)
    jaxpr = fgrad.make_jaxpr(fgrad.grad(run, range(6)))(*args).jaxpr
    assert max(v.aval.size for e in jaxpr.eqns for v in e.outvars) < 1.2 * x.size < 4 * t * t


def test_attention_exts_errors():
    with pytest.raises(ValueError, match="bias"):
        nn.attention_ext(Q, K, V, np.ones((3, 1, T, S)))
    with pytest.raises(ValueError, match="sinks"):
        nn.attention_ext(Q, K, V, sinks=np.ones(3))
    with pytest.raises(ValueError, match="key"):
        nn.attention_ext(Q, K[:1], V)
    with pytest.raises(ValueError, match="positive"):
        nn.alibi_slopes(0)


def test_alibi_slopes():
    np.testing.assert_allclose(nn.alibi_slopes(8), 2.0 ** -np.arange(1, 9), rtol=1e-14)
    np.testing.assert_allclose(nn.alibi_slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3], rtol=1e-14)


@pytest.mark.parametrize("kernel", ["layer_norm", "rms_norm"])
@pytest.mark.parametrize(
    "merged, after",
    [
        (1, lambda y, w, b: y * w),
        (1, lambda y, w, b: b + w * y),
        (1, lambda y, w, b: (y * w + b) * y.shape[0] + jnp.exp(b)),
        (1, lambda y, w, b: (lambda z: z + jnp.sin(z))(y * w)),
        (0, lambda y, w, b: y * w + y),
        (0, lambda y, w, b: (y, y * w)),
        (0, lambda y, w, b: y + b),
        (0, lambda y, w, b: y * w[:, None, None]),
        (0, lambda y, w, b: y * w[::-1]),
        (0, lambda y, w, b: y.T * w[:, None, None]),
    ],
)
def test_weights_join_the_kernel_of_a_norm(kernel, merged, after):
    x, w, b = jnp.asarray(rng.standard_normal((5, 5, 5))), jnp.asarray(SCALE[:1]) * jnp.arange(1.0, 6), jnp.arange(5.0) - 2
    norm = getattr(nn, kernel)
    both = lambda f: fgrad.jit(lambda x, w, b: f(norm(x), w, b))
    with fgrad.config.override("pass_fuse", False):
        want = both(after)(x, w, b)
    for a, c in zip(fgrad.tree.leaves(both(after)(x, w, b)), fgrad.tree.leaves(want)):
        np.testing.assert_allclose(a, c, rtol=1e-14, atol=1e-14)
    taken = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "fuse", lambda nodes: taken.extend(len(n.ins) - 1 for n in nodes if n.op == kernel) or fuse(nodes))
        both(lambda *args: after(*args))(x, w, b)
    assert [min(k, 1) for k in taken] == [merged]


@pytest.mark.parametrize("dtype, again, tol", [("float32", True, 1e-5), ("float64", True, 1e-14), ("bfloat16", False, 0.1)])
def test_gradients_of_weights_compute_rms_norm_again(x64, dtype, again, tol):
    x, w, m = (jnp.asarray(rng.standard_normal(s), dtype) for s in ((6, 5, 8), (8,), (8, 3)))

    def loss(x, w):
        return (((nn.rms_norm(x) * w) @ m) ** 2).sum()

    fun = fgrad.jit(fgrad.grad(loss, (0, 1)))
    with fgrad.config.override("pass_fuse", False):
        want = fgrad.jit(fgrad.grad(lambda *args: loss(*args), (0, 1)))(x, w)
    for got, c in zip(fun(x, w), want):
        np.testing.assert_allclose(np.asarray(got, float), np.asarray(c, float), rtol=tol, atol=tol)
    norms = [label for _, label in fun.lower(x, w).compile().profile(x, w, repeat=1) if label.startswith("rms_norm [")]
    assert [label.count("[6, 5, 8]") for label in norms] == [3 if again else 2]  # with weights, spread over its shape
    if dtype == "float64":
        r = 1 / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + 1e-6)
        y = np.asarray(x) * r
        d = 2 * ((y * w) @ m) @ np.asarray(m).T
        np.testing.assert_allclose(fun(x, w)[1], (d * y).sum((0, 1)), rtol=1e-12)


def test_attention_lies_as_its_queries_do():
    """Heads beside each other, as a projection leaves them, come out so: no copy between attention and the next projection."""
    x, w = (jnp.asarray(rng.standard_normal(s), "float32") for s in ((2, 9, 3 * 4 * 8), (32, 5)))

    def loss(x):
        q, k, v = (a.reshape(2, 9, 4, 8) for a in jnp.split(x, 3, -1))
        return ((nn.dot_product_attention(q, k, v, is_causal=True).reshape(2, 9, 32) @ w) ** 2).sum()

    labels = [label for _, label in fgrad.jit(loss).lower(x).compile().profile(x, repeat=1)]
    assert any(label.startswith("attention_fwd") for label in labels) and not any("copy" in label for label in labels)
    q, k, v = (np.asarray(a, float).reshape(2, 9, 4, 8).swapaxes(1, 2) for a in np.split(np.asarray(x), 3, -1))
    s = np.where(np.tril(np.ones((9, 9), bool)), q @ k.swapaxes(2, 3) / np.sqrt(8), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = (p / p.sum(-1, keepdims=True) @ v).swapaxes(1, 2).reshape(2, 9, 32)
    np.testing.assert_allclose(fgrad.jit(loss)(x), ((o @ np.asarray(w)) ** 2).sum(), rtol=1e-5)
    fgrad.test_util.check_grads(fgrad.jit(loss), (x,), order=1, modes=("rev",), rtol=2e-2)
