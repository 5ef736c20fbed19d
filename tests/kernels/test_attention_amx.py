"""Attention on the processor's tile unit: values, masks, what the unit cannot take, threads, and the way without it."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad.ops.attention import attention
from tests.kernels.harness import without_tiles

pytestmark = pytest.mark.usefixtures("tile_unit")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def operands(rng, b, h, hk, t, s, d, dv):
    shapes = (b, h, t, d), (b, hk, s, d), (b, hk, s, dv), (b, h, t, dv)
    return [rng.standard_normal(n).astype(np.float32) for n in shapes]


def reference(q, k, v, g=None, bias=None, slopes=None, causal=False, window=0, softcap=0.0):
    """o and the gradients of sum(o * g) for q, k, v in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    (b, h, t, d), (_, hk, s, _) = q.shape, k.shape
    k, v = (np.repeat(x, h // hk, 1) for x in (k, v))
    scale = 1 / np.sqrt(d)
    logits = q @ k.swapaxes(2, 3) * scale
    th = np.tanh(logits / softcap) if softcap else None
    logits = softcap * th if softcap else logits
    at, key = np.arange(t)[:, None] + s - t, np.arange(s)
    logits = logits if bias is None else logits + bias
    logits = logits if slopes is None else logits - slopes[:, :, None, None] * abs(at - key)
    seen = np.full((t, s), True)
    seen = seen & (key <= at) if causal else seen
    seen = seen & (key > at - window) if window else seen
    logits = np.where(seen, logits, -np.inf)
    most = logits.max(-1, keepdims=True)
    p = np.exp(logits - np.where(most == -np.inf, 0, most))
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    o = p @ v
    if g is None:
        return o
    g = g.astype(np.float64)
    ds = p * (g @ v.swapaxes(2, 3) - (o * g).sum(-1, keepdims=True))
    dbias = ds
    ds = ds * scale * (1 - th * th) if softcap else ds * scale
    grouped = lambda x: x.reshape(b, hk, h // hk, s, -1).sum(2)
    return o, ds @ k, grouped(ds.swapaxes(2, 3) @ q), grouped(p.swapaxes(2, 3) @ g), dbias


def close(a, b, tol=4e-6):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    assert np.abs(a - b).max() <= tol * max(1, np.abs(b).max())


def gradients(q, k, v, g, **how):
    loss = lambda q, k, v: jnp.sum(attention(q, k, v, **how)[0] * g)
    return [np.asarray(x) for x in fgrad.grad(loss, argnums=(0, 1, 2))(q, k, v)]


CASES = {
    "whole": ((2, 3, 3, 128, 128, 64, 64), {}),
    "causal": ((2, 3, 3, 200, 200, 64, 64), {"causal": True}),
    "odd sizes": ((1, 2, 2, 117, 83, 50, 34), {}),
    "few features": ((1, 2, 2, 70, 90, 24, 40), {"causal": True}),
    "wide": ((1, 1, 1, 100, 150, 128, 112), {"causal": True}),
    "causal, more keys": ((1, 2, 2, 100, 333, 64, 32), {"causal": True}),
    "rows that see nothing": ((1, 2, 2, 150, 70, 32, 32), {"causal": True}),
    "window": ((1, 2, 2, 300, 300, 64, 64), {"causal": True, "window": 70}),
    "window, both sides": ((1, 2, 2, 150, 150, 64, 64), {"window": 33}),
    "groups": ((2, 6, 2, 130, 130, 64, 64), {"causal": True}),
    "groups of few queries": ((1, 12, 2, 17, 600, 64, 64), {"causal": True}),
    "parts of the keys": ((1, 2, 1, 40, 3000, 64, 64), {}),
    "softcap": ((1, 2, 2, 130, 130, 64, 64), {"causal": True, "softcap": 5.0}),
    "many blocks": ((1, 40, 40, 520, 520, 32, 32), {"causal": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(rng, name):
    sizes, how = CASES[name]
    q, k, v, g = operands(rng, *sizes)
    o, dq, dk, dv, _ = reference(q, k, v, g, **how)
    got = np.asarray(attention(q, k, v, **how)[0])
    close(got, o)
    for x, y in zip(gradients(q, k, v, g, **how), (dq, dk, dv)):
        close(x, y, 1e-5)
    if sizes[3] != 17:
        assert not np.array_equal(got, without_tiles(lambda: np.asarray(attention(q, k, v, **how)[0]))), "not on the unit"


@pytest.mark.parametrize("shape", [(2, 2, 100, 100), (1, 2, 1, 100), (1, 1, 100, 1)])
def test_bias_and_slopes(rng, shape):
    q, k, v, g = operands(rng, 2, 2, 2, 100, 100, 64, 64)
    bias, slopes = rng.standard_normal(shape).astype(np.float32), rng.uniform(0.01, 0.1, (1, 2)).astype(np.float32)
    o, *exact, dbias = reference(q, k, v, g, bias, slopes, causal=True)
    axes = tuple(i for i in range(4) if shape[i] == 1)
    distance = abs(np.arange(100)[:, None] - np.arange(100))
    exact += [dbias.sum(axes, keepdims=True), -(dbias * distance).sum((0, 2, 3))[None]]
    f = lambda q, k, v, bias, slopes: jnp.sum(attention(q, k, v, bias, slopes, causal=True)[0] * g)
    close(attention(q, k, v, bias, slopes, causal=True)[0], o)
    for x, y in zip(fgrad.grad(f, argnums=(0, 1, 2, 3, 4))(q, k, v, bias, slopes), exact):
        close(x, y, 2e-5)


@pytest.mark.parametrize("which", ["q", "k", "v", "g"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e30, "tiny"])
def test_what_the_unit_cannot_take(rng, which, value):
    args = dict(zip("qkvg", operands(rng, 1, 2, 2, 200, 200, 64, 64)))
    if value == "tiny":
        args[which] *= np.float32(1e-33)
    else:
        args[which][0, 1, 100, 3] = value
    q, k, v, g = args.values()
    for f in (lambda: [np.asarray(attention(q, k, v, causal=True)[0])], lambda: gradients(q, k, v, g, causal=True)):
        for a, b in zip(f(), without_tiles(f)):
            np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-4 * np.nanmax(np.abs(np.where(np.isfinite(b), b, 0))))


@pytest.mark.parametrize("factor", [1e-30, 1e-12, 1e-6, 1e20])
def test_small_and_large_cotangents(rng, factor):
    q, k, v, g = operands(rng, 1, 2, 2, 130, 130, 64, 64)
    exact = reference(q, k, v, g, causal=True)[1:4]
    for x, y in zip(gradients(q, k, v, g * np.float32(factor), causal=True), exact):
        close(x.astype(np.float64) / factor, y, 1e-5)


def test_hidden_keys_have_no_weight(rng):
    q, k, v, g = operands(rng, 1, 2, 2, 128, 128, 64, 64)
    bias = np.where(rng.random((1, 1, 128, 128)) < 0.5, -np.inf, 0).astype(np.float32)
    bias[..., 0] = 0
    bias[0, 0, 5] = -np.inf
    o, dq, dk, dv, _ = reference(q, k, v, g, bias)
    got = np.asarray(attention(q, k, v, bias)[0])
    close(got, o)
    assert not got[0, :, 5].any()
    for x, y in zip(gradients(q, k, v, g, bias=bias), (dq, dk, dv)):
        close(x, y, 1e-5)


def test_sharp_probabilities(rng):
    q, k, v, g = operands(rng, 1, 2, 2, 128, 128, 64, 64)
    q *= np.float32(40)
    o, dq, dk, dv, _ = reference(q, k, v, g, causal=True)
    close(attention(q, k, v, causal=True)[0], o, 1e-4)
    for x, y in zip(gradients(q, k, v, g, causal=True), (dq, dk, dv)):
        close(x, y, 1e-4)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 600, 600, 64, 64), (1, 3, 3, 200, 200, 64, 64), (2, 4, 2, 130, 130, 32, 32)])
def test_threads(rng, sizes):
    q, k, v, g = operands(rng, *sizes)
    v[0, 0, 70, 3] = 3e30  # a tile that the unit does not take
    before = fgrad.get_num_threads()
    results = []
    for n in (1, 2, 3, 5):
        fgrad.set_num_threads(n)
        results.append([np.asarray(attention(q, k, v, causal=True)[0]), *gradients(q, k, v, g, causal=True)])
    fgrad.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


def test_strided_operands(rng):
    q, k, v, g = (x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in operands(rng, 2, 3, 3, 130, 130, 64, 64))
    turned = lambda x: jnp.swapaxes(jnp.asarray(x.swapaxes(1, 2).copy()), 1, 2)
    f = fgrad.jit(lambda *xs: fgrad.value_and_grad(lambda q, k, v: jnp.sum(attention(q, k, v)[0] * xs[3]), argnums=(0, 1, 2))(*xs[:3])[1])
    exact = reference(q, k, v, g)[1:4]
    for x, y in zip(f(*map(turned, (q, k, v, g))), exact):
        close(x, y, 1e-5)


@pytest.mark.parametrize("how", [{}, {"causal": True}, {"causal": True, "window": 50}, {"softcap": 5.0}, {"scale": 0.3}])
@pytest.mark.parametrize("sizes", [(1, 4, 2, 130, 200, 64, 64), (2, 2, 2, 100, 100, 33, 50)])
def test_bfloat16(rng, sizes, how):
    args = [jnp.asarray(x).astype(jnp.bfloat16) for x in operands(rng, *sizes)]
    wide = [x.astype(jnp.float32) for x in args]
    f = lambda q, k, v: attention(q, k, v, **how)
    value = lambda q, k, v, g: jnp.sum((f(q, k, v)[0] * g).astype(jnp.float32))
    got, exact = [*f(*args[:3]), *fgrad.grad(value, (0, 1, 2))(*args)], [*f(*wide[:3]), *fgrad.grad(value, (0, 1, 2))(*wide)]
    assert [str(x.dtype) for x in got] == ["bfloat16", "float32", *["bfloat16"] * 3]
    for x, y in zip(got, exact):
        close(x.astype(jnp.float32), y, 2e-2)


@pytest.mark.parametrize("causal", [True, False])
def test_bfloat16_runs_on_the_unit(rng, causal):
    q, k, v, _ = (jnp.asarray(x).astype(jnp.bfloat16) for x in operands(rng, 1, 2, 2, 128, 128, 64, 64))
    f = fgrad.jit(lambda q, k, v: attention(q, k, v, causal=causal))
    (o, lse), (other, exact) = f(q, k, v), without_tiles(f, q, k, v)
    assert not np.array_equal(np.asarray(o), np.asarray(other))
    close(lse, exact, 1e-5)  # sums of products of bfloat16, but for their order


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e30])
def test_bfloat16_beyond_the_unit(rng, value):
    args = operands(rng, 1, 2, 2, 128, 128, 64, 64)
    args[2][0, 1, 100, 3] = value
    args = [jnp.asarray(x).astype(jnp.bfloat16) for x in args]
    f = lambda: np.asarray(attention(*args[:3], causal=True)[0].astype(jnp.float32))
    a, b = f(), without_tiles(f)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    np.testing.assert_allclose(a, b, rtol=2e-2, atol=2e-2)


def test_bfloat16_threads(rng):
    args = [jnp.asarray(x).astype(jnp.bfloat16) for x in operands(rng, 1, 3, 3, 300, 300, 64, 64)]
    before, results = fgrad.get_num_threads(), []
    for n in (1, 2, 5):
        fgrad.set_num_threads(n)
        loss = lambda q, k, v: jnp.sum(attention(q, k, v, causal=True)[0] * args[3])
        results.append([np.asarray(x.astype(jnp.float32)) for x in fgrad.grad(loss, (0, 1, 2))(*args[:3])])
    fgrad.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)
