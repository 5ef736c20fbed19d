"""The fused NN primitives, sorting and cumulative primitives: values, derivatives of two orders, vmap, 16 bits, errors."""

import numpy as np
import pytest

import fgrad
from fgrad.core import from_numpy
from fgrad.dtypes import bfloat16
from fgrad.ops import activation, along, argreduce, attention, cumulative, loss, movement_nn, norm, rope, softmax, sort
from tests.derivatives import check_derivatives, check_vmap

rng = np.random.default_rng(7)
X = rng.standard_normal((3, 4, 5))


@pytest.fixture(autouse=True)
def x64():
    with fgrad.enable_x64():
        yield


def arr(x, dtype=None):
    return from_numpy(np.asarray(x, dtype))


def np_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# --- softmax ----------------------------------------------------------------------------------------------------------

SOFTMAX = pytest.mark.parametrize("f", [softmax.softmax, softmax.log_softmax, softmax.logsumexp])


def test_softmax_values():
    for axis in (0, 1, 2, -1):
        y = np_softmax(X, axis)
        np.testing.assert_allclose(softmax.softmax(arr(X), axis), y, rtol=1e-13)
        np.testing.assert_allclose(softmax.log_softmax(arr(X), axis), np.log(y), rtol=1e-12)
        np.testing.assert_allclose(softmax.logsumexp(arr(X), axis), np.log(np.exp(X).sum(axis)), rtol=1e-12, atol=1e-14)
    y = np.asarray(softmax.softmax(arr([-np.inf, 0.0, 1.0]), 0))
    assert y[0] == 0 and np.asarray(softmax.logsumexp(arr([-np.inf, -np.inf]), 0)) == -np.inf


@SOFTMAX
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_rules(f, axis):
    check_derivatives(lambda x: f(x, axis), X)
    check_vmap(lambda x: f(x, 0), X, in_axes=(axis,))
    check_vmap(lambda x: f(x, 1), X, in_axes=(axis,))


@SOFTMAX
@pytest.mark.parametrize("dtype, tol", [(np.float16, 2e-3), (bfloat16, 2e-2)])
def test_softmax_16_bits(f, dtype, tol):
    x = X.astype(dtype)
    out, pull = fgrad.vjp(lambda x: f(x, -1), arr(x))
    wide, wide_pull = fgrad.vjp(lambda x: f(x, -1), arr(x, float))
    ct = np.cos(np.arange(np.size(wide))).reshape(np.shape(wide)).astype(dtype)
    for got, want in ((out, wide), (pull(arr(ct))[0], wide_pull(arr(ct, float))[0])):
        assert got.dtype == dtype
        np.testing.assert_allclose(np.asarray(got, float), want, rtol=2 * tol, atol=2 * tol)


@SOFTMAX
def test_softmax_errors(f):
    with pytest.raises(TypeError, match="floating"):
        f(arr(np.arange(3)), 0)
    with pytest.raises(ValueError, match="out of bounds"):
        f(arr(X), 3)


# --- norms ------------------------------------------------------------------------------------------------------------


def test_norm_values():
    eps = 1e-3
    r = 1 / np.sqrt((X**2).mean(-1, keepdims=True) + eps)
    np.testing.assert_allclose(norm.rms_norm(arr(X), eps), X * r, rtol=1e-13)
    c = X - X.mean(-1, keepdims=True)
    np.testing.assert_allclose(norm.layer_norm(arr(X), eps), c / np.sqrt((c**2).mean(-1, keepdims=True) + eps), rtol=1e-12)


@pytest.mark.parametrize("p", [norm.rms_norm_p, norm.layer_norm_p], ids=str)
def test_norm_rules(p):
    eps = 1e-3
    check_derivatives(lambda x: p.bind(x, eps=eps)[0], X)
    check_derivatives(lambda x: tuple(p.bind(x, eps=eps)), X)
    for d in (0, 1, 2):
        check_vmap(lambda x: tuple(p.bind(x, eps=eps)), X, in_axes=(d,))
        check_vmap(lambda x: fgrad.vjp(lambda x: p.bind(x, eps=eps)[0], x)[1](np.ones(x.shape))[0], X, in_axes=(d,))
    y, r = p.bind(arr(X, np.float16), eps=eps)
    assert y.dtype == np.float16 and r.dtype == np.float32
    np.testing.assert_allclose(np.asarray(y, float), p.bind(arr(X), eps=eps)[0], atol=4e-3)
    with pytest.raises(ValueError, match="eps"):
        p.bind(arr(X), eps=-1.0)


# --- losses -----------------------------------------------------------------------------------------------------------


def test_cross_entropy():
    labels = np.array([[0, 1, 2, 4], [3, -1, 7, 2], [0, 0, 4, 4]])
    lse = np.log(np.exp(X).sum(-1))
    valid = (labels >= 0) & (labels < 5)
    want = np.where(valid, lse - np.take_along_axis(X, np.where(valid, labels, 0)[..., None], -1)[..., 0], 0)
    for dtype in (np.int32, np.int64, np.int8):
        got, got_lse = loss.cross_entropy(arr(X), arr(labels, dtype))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(got_lse, lse, rtol=1e-12)
    check_derivatives(lambda x: loss.cross_entropy(x, arr(labels))[0], X)
    check_derivatives(lambda x: loss.cross_entropy(x, arr(labels)), X)
    check_vmap(loss.cross_entropy, X, labels, in_axes=(0, 0))
    check_vmap(loss.cross_entropy, X, labels, in_axes=(1, 1))
    check_vmap(lambda x, y: fgrad.vjp(lambda x: loss.cross_entropy(x, y)[0], x)[1](np.ones(4))[0], X, labels[0], in_axes=(0, None))
    half, lse16 = loss.cross_entropy(arr(X, np.float16), arr(labels))
    assert half.dtype == np.float16 and lse16.dtype == np.float32
    np.testing.assert_allclose(np.asarray(half, float), want, atol=5e-3)
    with pytest.raises(ValueError, match="labels"):
        loss.cross_entropy(arr(X), arr(labels[0]))
    with pytest.raises(TypeError, match="labels"):
        loss.cross_entropy(arr(X), arr(X[..., 0]))


# --- activation, rope -------------------------------------------------------------------------------------------------


def test_swiglu_and_softplus():
    g, u = X, rng.standard_normal(X.shape)
    np.testing.assert_allclose(activation.swiglu(arr(g), arr(u)), g / (1 + np.exp(-g)) * u, rtol=1e-13)
    check_derivatives(activation.swiglu, g, u)
    check_derivatives(lambda g: activation.swiglu(g, arr(u)), g)
    check_vmap(activation.swiglu, g, u[0], in_axes=(0, None))
    check_vmap(lambda g, u: fgrad.vjp(lambda g: activation.swiglu(g, u), g)[1](np.ones(g.shape))[0], g, u, in_axes=(1, 1))
    x = np.array([-800.0, -3, 0, 2, 800])
    np.testing.assert_allclose(activation.softplus(arr(x)), np.logaddexp(x, 0), rtol=1e-13)
    check_derivatives(activation.softplus, np.array([-3.0, 0, 2]), order=3)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("n", [1, 2])
def test_rope(interleaved, n):
    angle = rng.standard_normal((4, n))
    cos, sin = np.cos(angle), np.sin(angle)
    want = X.copy()
    i, j = (np.arange(n) * 2, np.arange(n) * 2 + 1) if interleaved else (np.arange(n), np.arange(n) + n)
    want[..., i], want[..., j] = X[..., i] * cos - X[..., j] * sin, X[..., j] * cos + X[..., i] * sin
    got = rope.rope(arr(X), arr(cos), arr(sin), interleaved)
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(rope.rope(got, arr(cos), arr(sin), interleaved, inverse=True), X, rtol=1e-12)
    check_derivatives(lambda x, c, s: rope.rope(x, c, s, interleaved), X, cos, sin)
    check_vmap(lambda x, c: rope.rope(x, c, arr(sin), interleaved), X, cos, in_axes=(0, None))
    out = rope.rope(arr(X, bfloat16), arr(cos, np.float32), arr(sin, np.float32), interleaved)
    assert out.dtype == bfloat16
    np.testing.assert_allclose(np.asarray(out, float), want, atol=4e-2)
    with pytest.raises(ValueError, match="broadcast"):
        rope.rope(arr(X), arr(cos[:3]), arr(sin[:3]))
    with pytest.raises(ValueError, match="half"):
        rope.rope(arr(X), arr(np.ones((4, 3))), arr(np.ones((4, 3))))


# --- attention --------------------------------------------------------------------------------------------------------


def np_attention(q, k, v, bias=None, causal=False, window=0, scale=None, softcap=0.0):
    t, s = q.shape[2], k.shape[2]
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    z = np.einsum("bhtd,bhsd->bhts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    z = softcap * np.tanh(z / softcap) if softcap else z
    z = z if bias is None else z + bias
    i, j = np.arange(t)[:, None] + s - t, np.arange(s)[None]
    z = np.where((j <= i if causal else True) & (j > i - window if window else True), z, -np.inf)
    top = np.maximum(z.max(-1, keepdims=True), -1e300)
    p = np.exp(z - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return p / np.where(total, total, 1) @ v, (np.log(total) + np.where(total, top, 0))[..., 0]


CASES = [
    (2, 2, 3, 3, 4, 4, False, {}),
    (4, 2, 3, 5, 4, 3, True, {}),
    (2, 1, 4, 4, 3, 3, False, {"causal": True}),
    (2, 1, 4, 5, 3, 3, True, {"causal": True, "window": 2, "softcap": 1.5}),
    (2, 1, 3, 4, 3, 2, False, {"window": 2, "scale": 0.3}),
    (2, 1, 5, 3, 3, 3, False, {"causal": True}),
]


def attention_args(h, hk, t, s, d, dv, bias):
    shapes = [(2, h, t, d), (2, hk, s, d), (2, hk, s, dv)] + [(2, h, t, s)] * bias
    return [rng.standard_normal(shape) for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention(case):
    *sizes, bias, kw = case
    args = attention_args(*sizes, bias)
    for got, want in zip(attention.attention(*map(arr, args), **kw), np_attention(*args, **kw)):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    check_derivatives(lambda *a: attention.attention(*a, **kw)[0], *args)
    if sizes[2] <= sizes[3]:  # else some lse are -inf
        check_derivatives(lambda *a: attention.attention(*a, **kw), *args)
    if bias:  # a mask: no cotangent of the bias is computed
        check_derivatives(lambda *a: attention.attention(*a, arr(args[3]), **kw)[0], *args[:3])


def test_attention_infinite_bias_masks():
    q, k, v, bias = attention_args(2, 2, 3, 4, 4, 4, True)
    bias[:, :, 0, 2:] = -np.inf
    bias[:, :, 1] = -np.inf
    want = np_attention(q, k, v, bias)
    for got, w in zip(attention.attention(*map(arr, (q, k, v, bias))), want):
        np.testing.assert_allclose(got, w, rtol=1e-10, atol=1e-12)
    check_derivatives(lambda q, k, v: attention.attention(q, k, v, arr(bias))[0], q, k, v)


def test_attention_vmap_16_bits_and_errors():
    q, k, v = rng.standard_normal((5, 2, 4, 3, 4)), rng.standard_normal((2, 2, 3, 4)), rng.standard_normal((2, 2, 3, 5, 4))
    check_vmap(attention.attention, q, k, v, in_axes=(0, None, 3))
    ones = np.ones((2, 4, 3, 4))
    check_vmap(lambda q, k: fgrad.vjp(lambda k: attention.attention(q, k, k, causal=True)[0], k)[1](ones)[0], q, k, in_axes=(0, None))
    for dtype, tol in ((np.float16, 3e-3), (bfloat16, 3e-2)):
        args = [x.astype(dtype) for x in (q[0], k, k)]
        o, lse = attention.attention(*map(arr, args))
        assert o.dtype == dtype and lse.dtype == np.float32
        np.testing.assert_allclose(np.asarray(o, float), np_attention(*[a.astype(float) for a in args])[0], atol=tol)
        grads = fgrad.vjp(lambda *a: attention.attention(*a)[0], *map(arr, args))[1](arr(np.ones(o.shape), dtype))
        exact = fgrad.vjp(lambda *a: attention.attention(*a)[0], *[arr(a, float) for a in args])[1](np.ones(o.shape))
        for g, e in zip(grads, exact):
            assert g.dtype == dtype
            np.testing.assert_allclose(np.asarray(g, float), e, atol=4 * tol)
    with pytest.raises(ValueError, match="multiple"):
        attention.attention(arr(q[0, :, :3]), arr(k), arr(k))
    with pytest.raises(ValueError, match="4 axes"):
        attention.attention(arr(q), arr(k), arr(k))
    with pytest.raises(TypeError, match="one dtype"):
        attention.attention(arr(q[0]), arr(k, np.float32), arr(k))


# --- view, acc, repeat ------------------------------------------------------------------------------------------------


def test_view_and_acc():
    flat = X.reshape(-1)
    np.testing.assert_array_equal(movement_nn.view(arr(X), (3, 2), (4, 3), 1), flat[1 + 4 * np.arange(3)[:, None] + 3 * np.arange(2)])
    y = rng.standard_normal((2, 3, 4))
    want = X.copy()
    want[:2, 1:, 1:] += y
    np.testing.assert_allclose(movement_nn.acc(arr(X), arr(y), (20, 5, 1), 6), want, rtol=1e-15)
    check_derivatives(lambda x: movement_nn.view(x, (3, 2), (4, 3), 1), X)
    check_derivatives(lambda x: movement_nn.view(x, (3, 2, 2), (4, 1, 1), 1), X)  # overlaps itself
    check_derivatives(lambda x: movement_nn.view(x, (3, 2), (-4, 0), 50), X)
    check_derivatives(lambda x, y: movement_nn.acc(x, y, (20, 5, 1), 6), X, y)
    check_derivatives(lambda x, y: movement_nn.acc(x, y, (20, 2), 1), X, y[0])
    check_vmap(lambda x, y: movement_nn.acc(x, y, (5, 1), 1), X, rng.standard_normal((2, 4)), in_axes=(0, None))
    check_vmap(lambda x: movement_nn.view(x, (3, 2), (4, 1), 1), X, in_axes=(1,))
    assert movement_nn.view(arr(X), (0, 2), (1, 1), 0).shape == (0, 2)
    for bad in (((3, 2), (4, 60), 1), ((2,), (-1,), 0), ((2,), (1,), -1)):
        with pytest.raises(ValueError, match="window"):
            movement_nn.view(arr(X), *bad)


def test_repeat():
    np.testing.assert_array_equal(movement_nn.repeat(arr(X), (2, 1, 3)), np.tile(X, (2, 1, 3)))
    np.testing.assert_allclose(movement_nn.repeat_back(arr(np.tile(X, (2, 1, 3))), (2, 1, 3)), 6 * X, rtol=1e-14)
    np.testing.assert_allclose(movement_nn.sum_rows(arr(X)), X.sum(-1, keepdims=True), rtol=1e-13, atol=1e-14)
    check_derivatives(lambda x: movement_nn.repeat(x, (2, 1, 3)), X)
    check_derivatives(lambda x: movement_nn.repeat_back(x, (3, 2, 1)), X)
    check_vmap(lambda x: movement_nn.repeat(x, (2, 3)), X, in_axes=(1,))
    assert movement_nn.repeat(arr(X), (0, 1, 1)).shape == (0, 4, 5)
    with pytest.raises(ValueError, match="multiples"):
        movement_nn.repeat_back(arr(X), (2, 1, 1))


# --- sorting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sort_and_top_k(axis):
    np.testing.assert_array_equal(sort.sort(arr(X), axis), np.sort(X, axis))
    keys = rng.integers(0, 3, X.shape)
    k, v = sort.sort_key_val(arr(keys), arr(X), axis)
    order = np.argsort(keys, axis, kind="stable")
    np.testing.assert_array_equal(v, np.take_along_axis(X, order, axis))
    a, b = sort.sort((arr(keys), arr(X)), axis, num_keys=2)
    want = np.sort(keys + 1j * X, axis)
    np.testing.assert_array_equal(a, want.real)
    np.testing.assert_array_equal(b, want.imag)
    values, where = sort.top_k(arr(X), 2, axis=axis)
    top = np.take(np.argsort(-X, axis, kind="stable"), range(2), axis)
    np.testing.assert_array_equal(where, top)
    np.testing.assert_array_equal(values, np.take_along_axis(X, top, axis))
    assert where.dtype == np.int32
    check_derivatives(lambda x: sort.sort(x, axis), X)
    check_derivatives(lambda x, y: sort.sort((x, y), axis), X, rng.standard_normal(X.shape))
    check_derivatives(lambda x: sort.top_k(x, 2, axis=axis)[0], X)
    check_vmap(lambda x: sort.sort(x, -1), X, in_axes=(axis,))
    check_vmap(lambda x, y: sort.sort((x, y), 0), X, X[0], in_axes=(0, None))
    check_vmap(lambda x: sort.top_k(x, 2), X, in_axes=(axis,))


def test_sort_errors():
    with pytest.raises(TypeError, match="at least one"):
        sort.sort(())
    with pytest.raises(ValueError, match="num_keys"):
        sort.sort((arr(X),), num_keys=2)
    with pytest.raises(ValueError, match="k must be"):
        sort.top_k(arr(X), 6)
    with pytest.raises(ValueError, match="one shape"):
        sort.sort((arr(X), arr(X[0])))


def test_take_and_put_along():
    p = rng.integers(0, 4, (3, 6, 5))
    np.testing.assert_array_equal(along.take_along(arr(X), arr(p), 1), np.take_along_axis(X, p, 1))
    check_derivatives(lambda x: along.take_along(x, arr(p), 1), X)
    check_derivatives(lambda x: along.put_along(x, arr(p[:, :4]), 1, 7), X)
    check_vmap(lambda x, p: along.take_along(x, p, 0), X, p[0], in_axes=(0, None))


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(side):
    a = np.sort(rng.integers(0, 6, 7).astype(float))
    v = np.array([[0, 1, 2.5, np.nan], [3, 4, 5, 7]])
    np.testing.assert_array_equal(sort.searchsorted(arr(a), arr(v), side), np.searchsorted(a, v, side))
    holes = np.append(a, [np.nan, np.nan])
    check_vmap(lambda a, v: sort.searchsorted(a, v, side), np.stack([holes, 2 * holes]), v, in_axes=(0, 0))
    check_vmap(lambda v: sort.searchsorted(arr(a), v, side), v, in_axes=(1,))


# --- cumulative and arg reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize(
    "name, ref",
    [
        ("cumsum", np.cumsum),
        ("cumprod", np.cumprod),
        ("cummax", np.maximum.accumulate),
        ("cummin", np.minimum.accumulate),
        ("cumlogsumexp", np.logaddexp.accumulate),
    ],
)
def test_cumulative(name, ref, axis, reverse):
    f = getattr(cumulative, name)
    flip = (slice(None),) * axis + (slice(None, None, -1 if reverse else 1),)
    np.testing.assert_allclose(f(arr(X), axis, reverse), ref(X[flip], axis=axis)[flip], rtol=1e-12, atol=1e-13)
    check_derivatives(lambda x: f(x, axis, reverse), X)
    check_vmap(lambda x: f(x, 1, reverse), X, in_axes=(axis,))
    with pytest.raises(ValueError, match="axis"):
        f(arr(X), 3)


def test_cumprod_of_zeros_and_cummax_of_ties():
    x = X.copy()
    x[1] = 0
    x[0, 2] = 0
    check_derivatives(lambda x: cumulative.cumprod(x, 0), x)
    _, t = fgrad.jvp(lambda x: cumulative.cummax(x, 0), (np.array([1.0, 1, 0, 1, 2, 2]),), (np.array([1.0, 2, 5, 3, 4, 8]),))
    np.testing.assert_allclose(t, [1, 1.5, 1.5, 2, 4, 6])
    x = np.array([-np.inf, 1.0, 2.0])
    _, t = fgrad.jvp(lambda x: cumulative.cumlogsumexp(x, 0), (x,), (np.ones(3),))
    np.testing.assert_allclose(t, [0, 1, 1])


@pytest.mark.parametrize("f, ref", [(argreduce.argmax, np.argmax), (argreduce.argmin, np.argmin)])
def test_arg_reductions(f, ref):
    x = np.round(X * 2)
    for axis in (0, 1, 2):
        np.testing.assert_array_equal(f(arr(x), axis), ref(x, axis))
    for dtype in (np.int32, np.int64, np.uint8):
        assert f(arr(x), 0, dtype).dtype == dtype
    check_vmap(lambda x: f(x, 0), x, in_axes=(1,))
    assert np.asarray(f(arr([1.0, np.nan, 3.0]), 0)) == 1
    with pytest.raises(ValueError, match="empty"):
        f(arr(np.zeros((0, 2))), 0)
