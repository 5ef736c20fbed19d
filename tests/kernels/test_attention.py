"""Tiled attention against the plain formula, and its gradients against finite differences."""

import ml_dtypes
import numpy as np
import pytest

from fgrad._kernels import parallel
from fgrad._kernels.attention import KERNELS
from tests.kernels.harness import contiguous, run_kernel

RNG = np.random.default_rng(0)


@pytest.fixture(params=[1, 3], ids=["1thread", "3threads"])
def threads(request):
    before = parallel.get_num_threads()
    parallel.set_num_threads(request.param)
    yield request.param
    parallel.set_num_threads(before)


def normal(shape, dtype):
    return RNG.standard_normal(shape).astype(dtype)


def inputs(B, H, Hk, T, S, D, Dv, dtype):
    return normal((B, H, T, D), dtype), normal((B, Hk, S, D), dtype), normal((B, Hk, S, Dv), dtype)


def reference(q, k, v, bias=None, slopes=None, causal=0, window=0, scale=1.0, softcap=0.0):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    T, S = q.shape[2], k.shape[2]
    G = q.shape[1] // max(k.shape[1], 1)
    k, v = np.repeat(k, G, 1), np.repeat(v, G, 1)
    s = scale * np.einsum("bhtd,bhsd->bhts", q, k)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    if bias is not None:
        s = s + bias.astype(np.float64)
    if slopes is not None:
        s = s - slopes.astype(np.float64)[:, :, None, None] * np.abs(np.arange(T)[:, None] + S - T - np.arange(S))
    t, u = np.arange(T)[:, None] + S - T, np.arange(S)[None]
    seen = np.ones((T, S), bool)
    if causal:
        seen &= u <= t
    if window:
        seen &= u > t - window
    s = np.where(seen, s, -np.inf)
    m = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(m == -np.inf, 0, m))
    l = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.einsum("bhts,bhsd->bhtd", e / np.where(l == 0, 1, l), v), (np.where(l == 0, 0, m) + np.log(l))[..., 0]


def interleaved(shape):
    """(B, H, T, D) over (B, T, H, D) memory: (shape in memory, dtype slot view)."""
    B, H, T, D = shape
    return (B, T, H, D), shape, (T * H * D, D, H * D, 1)


def forward(q, k, v, bias=None, slopes=None, causal=0, window=0, scale=1.0, softcap=0.0, transposed_out=False):
    B, H, T, _ = q.shape
    shape = (B, H, T, v.shape[3])
    memory, slot, strides = interleaved(shape) if transposed_out else (shape, shape, contiguous(shape))
    ins = [x for x in (q, k, v, bias, slopes) if x is not None]
    o, lse = run_kernel(
        KERNELS["attention_fwd"],
        ins,
        [(memory, q.dtype, slot, strides), ((B, H, T), q.dtype)],
        ip=[causal, bias is not None, window, slopes is not None],
        fp=[scale, softcap],
    )
    return (np.swapaxes(o, 1, 2) if transposed_out else o), lse


def backward(
    q, k, v, o, lse, g, bias=None, slopes=None, causal=0, window=0, scale=1.0, softcap=0.0, want_dbias=False, transposed_out=False
):
    outs = []
    for x in (q, k, v):
        memory, slot, strides = interleaved(x.shape) if transposed_out else (x.shape, x.shape, contiguous(x.shape))
        outs.append((memory, x.dtype, slot, strides))
    if want_dbias:
        outs.append((bias.shape, q.dtype))
    if slopes is not None:
        outs.append((slopes.shape, q.dtype))
    r = run_kernel(
        KERNELS["attention_bwd"],
        [x for x in (q, k, v, o, lse, g, bias, slopes) if x is not None],
        outs,
        ip=[causal, bias is not None, window, slopes is not None, want_dbias, slopes is not None],
        fp=[scale, softcap],
    )
    return [np.swapaxes(x, 1, 2) if transposed_out and i < 3 else x for i, x in enumerate(r)]


OPTIONS = [
    {},
    {"causal": 1},
    {"window": 5},
    {"causal": 1, "window": 17},
    {"softcap": 2.0},
    {"causal": 1, "softcap": 3.0, "scale": 0.4},
    {"scale": -0.7},
]
SHAPES = [  # B, H, Hk, T, S, D, Dv
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 2, 7, 7, 8, 5),
    (1, 3, 1, 65, 130, 16, 16),
    (2, 2, 2, 130, 70, 33, 20),
    (1, 6, 3, 64, 64, 64, 64),
    (1, 2, 1, 200, 300, 100, 130),
    (1, 8, 2, 1, 3000, 32, 32),
    (2, 1, 1, 1, 1500, 16, 24),
    (1, 4, 4, 3, 2000, 8, 8),
    (1, 70, 1, 1, 40, 4, 4),
    (1, 4, 1, 40, 1100, 20, 12),
]
TOL = {np.float32: 3e-5, np.float64: 1e-13}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forward(shape, options, dtype):
    q, k, v = inputs(*shape, dtype)
    options = {"scale": 0.5, **options}
    o, lse = forward(q, k, v, **options)
    want_o, want_lse = reference(q, k, v, **options)
    assert o.dtype == lse.dtype == dtype
    np.testing.assert_allclose(o, want_o, rtol=0, atol=TOL[dtype])
    np.testing.assert_allclose(lse, want_lse, rtol=TOL[dtype], atol=TOL[dtype])


def biases(B, H, T, S, dtype):
    full = normal((B, H, T, S), dtype)
    yield full
    yield np.broadcast_to(full[:1, :1], (B, H, T, S))
    yield np.broadcast_to(full[:, :, :1], (B, H, T, S))
    yield np.broadcast_to(full[:, :, :, :1], (B, H, T, S))
    yield np.swapaxes(normal((B, H, S, T), dtype), 2, 3)
    yield np.where(RNG.random((B, H, T, S)) < 0.3, -np.inf, full).astype(dtype)
    masked = full.copy()
    masked[:, :, 1:3] = -np.inf
    yield masked


@pytest.mark.parametrize("shape", [(2, 4, 2, 70, 150, 16, 8), (1, 2, 1, 3, 1200, 8, 8)], ids=str)
def test_bias(shape, threads):
    B, H, Hk, T, S, D, Dv = shape
    for dtype in (np.float32, np.float64):
        q, k, v = inputs(*shape, dtype)
        for bias in biases(B, H, T, S, dtype):
            for options in ({}, {"causal": 1, "window": 40}, {"softcap": 1.5}):
                o, lse = forward(q, k, v, bias=bias, scale=0.3, **options)
                want_o, want_lse = reference(q, k, v, bias=bias, scale=0.3, **options)
                np.testing.assert_allclose(o, want_o, rtol=0, atol=TOL[dtype])
                np.testing.assert_allclose(lse, want_lse, rtol=TOL[dtype], atol=TOL[dtype])


def layouts(x):
    yield "heads inside", np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 1, 2)), 1, 2)
    yield "padded", np.pad(x, ((0, 0), (1, 0), (0, 2), (3, 1)))[:, 1:, : x.shape[2], 3:-1]
    yield "reversed", np.ascontiguousarray(x[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    yield "shared row", np.broadcast_to(x[:, :, :1], x.shape)
    yield "shared head", np.broadcast_to(x[:, :1], x.shape)


def test_layouts(threads):
    shape = (2, 4, 2, 70, 90, 16, 24)
    q, k, v = inputs(*shape, np.float64)
    g = normal((2, 4, 70, 24), np.float64)
    for (name, a), (_, b), (_, c), (_, d) in zip(layouts(q), layouts(k), layouts(v), layouts(g)):
        for transposed_out in (False, True):
            o, lse = forward(a, b, c, causal=1, scale=0.3, transposed_out=transposed_out)
            want_o, want_lse = reference(a, b, c, causal=1, scale=0.3)
            np.testing.assert_allclose(o, want_o, rtol=0, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(lse, want_lse, rtol=1e-13, err_msg=name)
            got = backward(a, b, c, o, lse, d, causal=1, scale=0.3, transposed_out=transposed_out)
            want = plain_gradients(a, b, c, d, causal=1, scale=0.3)
            for x, y in zip(got, want):
                np.testing.assert_allclose(x, y, rtol=0, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_keys_and_values_of_16_bits(dtype, threads):
    """They are widened by tiles, where they lie: bits are those of keys and values that were widened before, but for few queries, which
    have an order of their own."""
    for shape in [*SHAPES, (2, 4, 2, 1, 600, 80, 128), (2, 4, 2, 3, 200, 17, 31), (1, 8, 8, 1, 70, 64, 40)]:
        few = shape[1] // shape[2] * shape[3] <= 8
        q, k, v = (x.astype(dtype) for x in inputs(*shape, np.float32))
        k.flat[0], v.flat[-1] = 6e-8, np.inf
        for (name, a), (_, b) in zip([("contiguous", k), *layouts(k)], [("contiguous", v), *layouts(v)]):
            wide = [x.astype("f", order="C") for x in (q, a, b)]
            for options in ({}, {"causal": 1, "window": 70}):
                got, want = (forward(wide[0], *x, scale=0.3, **options) for x in ((a, b), wide[1:]))
                for x, y in zip(got, want):
                    tolerance = 1e-5 if few else 0
                    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance, err_msg=f"{shape} {name} {options}")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("inside", [False, True], ids=["heads first", "positions first"])
def test_few_queries(dtype, inside, threads):
    """Heads that lie beside each other in a position go through the keys together, in groups of at most 8 KB, and long keys in parts."""
    shapes = [(2, 6, 6, 1, 300, 64, 64), (1, 8, 2, 1, 700, 40, 24), (1, 4, 1, 2, 130, 128, 96), (1, 12, 12, 8, 65, 16, 16)]
    for shape in [*shapes, (1, 40, 40, 1, 50, 256, 8), (1, 5, 5, 5, 257, 33, 7), (1, 3, 3, 1, 2500, 64, 64)]:
        q, k, v = inputs(*shape, np.float64 if dtype == np.float64 else np.float32)
        k, v = k.astype(dtype), v.astype(dtype)
        if inside:
            k, v = (np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 1, 2)), 1, 2) for x in (k, v))
        B, H, _, T, S = shape[:5]
        bias = normal((B, H, T, S), q.dtype)
        for options in ({}, {"causal": 1}, {"causal": 1, "window": 40}, {"bias": bias, "softcap": 1.5}):
            o, lse = forward(q, k, v, scale=0.3, **options)
            want_o, want_lse = reference(q, k.astype(np.float64), v.astype(np.float64), scale=0.3, **options)
            np.testing.assert_allclose(o, want_o, rtol=0, atol=TOL[q.dtype.type], err_msg=f"{shape} {list(options)}")
            np.testing.assert_allclose(lse, want_lse, rtol=TOL[q.dtype.type], atol=TOL[q.dtype.type], err_msg=f"{shape} {list(options)}")


def test_16_bits_only_where_they_are_read():
    q, k, v = inputs(1, 1, 1, 2, 3, 4, 4, np.float32)
    k16, v16 = k.astype(np.float16), v.astype(np.float16)
    other, q64, q16 = v.astype(ml_dtypes.bfloat16), q.astype("d"), q.astype("e")
    for operands in [(q, k16, v), (q, k, v16), (q, k16, other), (q64, k16, v16), (q16, k16, v16)]:
        with pytest.raises(Exception, match="must be float32, or every one float64"):
            forward(*operands)
    o, lse = forward(q, k16, v16)
    with pytest.raises(Exception, match="must be float32, or every one float64"):
        backward(q, k16, v16, o, lse, o)


def plain_gradients(q, k, v, g, bias=None, slopes=None, causal=0, window=0, scale=1.0, softcap=0.0):
    """The chain rule through the whole T x S matrix, in float64."""
    q, k, v, g = (x.astype(np.float64) for x in (q, k, v, g))
    G = q.shape[1] // k.shape[1]
    o, lse = reference(q, k, v, bias, slopes, causal, window, scale, softcap)
    kk, vv = np.repeat(k, G, 1), np.repeat(v, G, 1)
    raw = scale * np.einsum("bhtd,bhsd->bhts", q, kk)
    y = np.tanh(raw / softcap) if softcap else None
    s = softcap * y if softcap else raw
    if bias is not None:
        s = s + bias.astype(np.float64)
    T, S = s.shape[2:]
    t, u = np.arange(T)[:, None] + S - T, np.arange(S)[None]
    if slopes is not None:
        s = s - slopes.astype(np.float64)[:, :, None, None] * np.abs(t - u)
    seen = np.ones((T, S), bool) & ((u <= t) if causal else True) & ((u > t - window) if window else True)
    p = np.exp(np.where(seen, s, -np.inf) - np.where(lse == -np.inf, 0, lse)[..., None])
    ds = p * (np.einsum("bhtd,bhsd->bhts", g, vv) - (o * g).sum(-1)[..., None])
    dbias = ds
    if softcap:
        ds = ds * (1 - y * y)

    def grouped(x):
        return x.reshape(x.shape[0], -1, G, *x.shape[2:]).sum(2)

    return (
        scale * np.einsum("bhts,bhsd->bhtd", ds, kk),
        scale * grouped(np.einsum("bhts,bhtd->bhsd", ds, q)),
        grouped(np.einsum("bhts,bhtd->bhsd", p, g)),
        dbias,
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_backward(shape, options, dtype):
    B, H, Hk, T, S, D, Dv = shape
    q, k, v = inputs(*shape, dtype)
    g, bias = normal((B, H, T, Dv), dtype), normal((B, H, T, S), dtype)
    options = {"scale": 0.5, **options}
    for b in (None, bias):
        o, lse = forward(q, k, v, bias=b, **options)
        got = backward(q, k, v, o, lse, g, bias=b, want_dbias=b is not None, **options)
        want = plain_gradients(q, k, v, g, bias=b, **options)
        for x, y in zip(got, want):
            np.testing.assert_allclose(x, y, rtol=0, atol=TOL[dtype] * 10 * max(1, np.abs(y).max(initial=0)))


@pytest.mark.parametrize("shape", [(2, 4, 2, 70, 150, 16, 8), (3, 2, 2, 130, 200, 5, 7), (1, 4, 1, 3, 90, 8, 8)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shared_bias_and_slopes(shape, dtype, threads):
    """Gradients of a bias with axes of size 1, and of slopes, are sums in their own shapes."""
    B, H, Hk, T, S, D, Dv = shape
    q, k, v = inputs(*shape, dtype)
    g = normal((B, H, T, Dv), dtype)
    for ones in ((), (0,), (1,), (0, 1), (2,), (3,), (0, 1, 2), (0, 1, 2, 3)):
        bias = normal([1 if i in ones else n for i, n in enumerate((B, H, T, S))], dtype)
        slopes = np.abs(normal((1 if 0 in ones else B, H), dtype)) / 10
        for options in ({}, {"causal": 1, "window": 40, "softcap": 1.5}):
            options = {"scale": 0.3, "bias": bias, "slopes": slopes, **options}
            o, lse = forward(q, k, v, **options)
            want_o, want_lse = reference(q, k, v, **options)
            np.testing.assert_allclose(o, want_o, rtol=0, atol=TOL[dtype])
            np.testing.assert_allclose(lse, want_lse, rtol=TOL[dtype], atol=TOL[dtype])
            *got, dbias, dslopes = backward(q, k, v, o, lse, g, want_dbias=True, **options)
            *want, dlogits = plain_gradients(q, k, v, g, **options)
            want.append(dlogits.sum(ones, keepdims=True))
            per_head = -(dlogits * np.abs(np.arange(T)[:, None] + S - T - np.arange(S))).sum((2, 3))
            want.append(per_head.sum(0, keepdims=True) if 0 in ones else per_head)
            for x, y in zip([*got, dbias, dslopes], want, strict=True):
                assert x.shape == y.shape
                np.testing.assert_allclose(x, y, rtol=0, atol=TOL[dtype] * 30 * max(1, np.abs(y).max(initial=0), np.abs(dlogits).sum()))


def test_what_masks_hide_is_not_read():
    """Panels that no query sees are not computed: what other calls left in the buffers, NaN here, must not be read in their place."""
    shape = (1, 1, 1, 100, 150, 16, 16)
    q, k, v, nan = *inputs(*shape, np.float32), np.full((1, 1, 150, 16), np.nan, np.float32)
    g = normal((1, 1, 100, 16), np.float32)
    for causal, window in [(1, 0)] + [(c, w) for c in (0, 1) for w in (1, 6, 13, 14, 15, 33, 64, 100)]:
        options = {"causal": causal, "window": window, "scale": 0.3}
        backward(nan[:, :, :100], nan, nan, *forward(nan[:, :, :100], nan, nan), g)
        o, lse = forward(q, k, v, **options)
        np.testing.assert_allclose(o, reference(q, k, v, **options)[0], rtol=0, atol=3e-5)
        backward(nan[:, :, :100], nan, nan, *forward(nan[:, :, :100], nan, nan), g)
        for x, y in zip(backward(q, k, v, o, lse, g, **options), plain_gradients(q, k, v, g, **options)):
            np.testing.assert_allclose(x, y, rtol=0, atol=3e-4)


@pytest.mark.parametrize("options", [{}, {"causal": 1, "window": 4}, {"softcap": 1.3}], ids=str)
def test_backward_against_finite_differences(options):
    B, H, Hk, T, S, D, Dv = shape = (1, 4, 2, 6, 9, 3, 4)
    q, k, v = inputs(*shape, np.float64)
    bias, g = normal((B, H, T, S), np.float64), normal((B, H, T, Dv), np.float64)
    options = {"scale": 0.8, **options}
    o, lse = forward(q, k, v, bias=bias, **options)
    grads = backward(q, k, v, o, lse, g, bias=bias, want_dbias=True, **options)
    args, h = [q, k, v, bias], 1e-5
    for i, grad in enumerate(grads):
        direction = normal(args[i].shape, np.float64)
        ends = []
        for sign in (1, -1):
            moved = [x + sign * h * direction if j == i else x for j, x in enumerate(args)]
            ends.append((forward(*moved[:3], bias=moved[3], **options)[0] * g).sum())
        np.testing.assert_allclose((grad * direction).sum(), (ends[0] - ends[1]) / (2 * h), rtol=1e-7, atol=1e-8)


def test_rows_that_see_nothing():
    q, k, v = inputs(1, 2, 1, 100, 30, 8, 8, np.float64)  # causal with T > S: the first 70 queries see no key
    o, lse = forward(q, k, v, causal=1)
    assert not o[:, :, :70].any() and (lse[:, :, :70] == -np.inf).all() and np.isfinite(lse[:, :, 70:]).all()
    g = normal(o.shape, np.float64)
    dq, dk, dv = backward(q, k, v, o, lse, g, causal=1)
    assert not dq[:, :, :70].any() and np.isfinite(dk).all() and np.isfinite(dv).all()
    bias = np.full((1, 2, 100, 30), -np.inf)
    o, lse = forward(q, k, v, bias=bias)
    assert not o.any() and (lse == -np.inf).all()
    for x in backward(q, k, v, o, lse, g, bias=bias, want_dbias=True):
        assert not x.any()


def test_nan_stays_in_its_row():
    q, k, v = inputs(1, 1, 1, 80, 90, 8, 8, np.float32)
    q[0, 0, 5] = np.nan
    o, lse = forward(q, k, v)
    assert np.isnan(o[0, 0, 5]).all() and np.isnan(lse[0, 0, 5])
    assert np.isfinite(np.delete(o, 5, 2)).all() and np.isfinite(np.delete(lse, 5, 2)).all()


def test_large_logits():
    q, k, v = inputs(1, 1, 1, 70, 140, 16, 8, np.float32)
    o, lse = forward(q * 100, k * 100, v)
    want_o, want_lse = reference(q * 100, k * 100, v)
    np.testing.assert_allclose(o, want_o, atol=0.1)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-5)


def test_softcap_tanh_is_accurate():
    """One key, so that lse is the logit itself."""
    x = np.concatenate([np.linspace(-12, 12, 4001), 10.0 ** np.arange(-20, 2)])
    for dtype, tol in ((np.float32, 3e-7), (np.float64, 5e-16)):
        y = x.astype(dtype)
        _, lse = forward(y.reshape(1, 1, -1, 1), np.ones((1, 1, 1, 1), dtype), np.ones((1, 1, 1, 1), dtype), softcap=1.0)
        want = np.tanh(y.astype(np.longdouble))
        assert np.max(np.abs(lse[0, 0] - want) / np.abs(want).clip(1e-300)) < tol


@pytest.mark.parametrize(
    "shape",
    [
        (0, 2, 1, 3, 4, 5, 6),
        (2, 0, 1, 3, 4, 5, 6),
        (1, 0, 0, 3, 4, 5, 6),
        (1, 2, 2, 0, 4, 5, 6),
        (1, 2, 1, 3, 0, 5, 6),
        (1, 2, 1, 3, 4, 0, 6),
        (1, 2, 1, 3, 4, 5, 0),
    ],
    ids=str,
)
def test_empty(shape):
    B, H, Hk, T, S, D, Dv = shape
    q, k, v = inputs(*shape, np.float32)
    o, lse = forward(q, k, v)
    if H and Hk:
        want_o, want_lse = reference(q, k, v)
        np.testing.assert_allclose(o, want_o, atol=1e-6)
        np.testing.assert_allclose(lse, want_lse, atol=1e-6)
    for x, y in zip(backward(q, k, v, o, lse, np.ones_like(o)), (q, k, v)):
        assert x.shape == y.shape and np.isfinite(x).all()


def test_same_bits_for_any_number_of_threads():
    before = parallel.get_num_threads()
    for shape in [(1, 3, 1, 200, 260, 32, 32), (1, 2, 1, 1, 5000, 64, 64), (3, 4, 2, 150, 150, 16, 16)]:
        q, k, v = inputs(*shape, np.float32)
        g, results = normal((*q.shape[:3], shape[-1]), np.float32), []
        for n in (1, 2, 5):
            parallel.set_num_threads(n)
            o, lse = forward(q, k, v, causal=1, scale=0.2)
            results.append([o, lse, *backward(q, k, v, o, lse, g, causal=1, scale=0.2)])
        for other in results[1:]:
            for x, y in zip(results[0], other):
                np.testing.assert_array_equal(x, y)
    parallel.set_num_threads(before)


def test_rejections():
    f = np.float32
    q, k, v = inputs(1, 4, 2, 5, 6, 8, 8, f)
    o, lse, bias = ((1, 4, 5, 8), f), ((1, 4, 5), f), np.zeros((1, 4, 5, 6), f)
    grads = [(x.shape, f) for x in (q, k, v)]
    oz, lz = np.zeros((1, 4, 5, 8), f), np.zeros((1, 4, 5), f)

    def fwd(ins=(q, k, v), outs=(o, lse), ip=(0, 0, 0, 0), fp=(1, 0)):
        return run_kernel(KERNELS["attention_fwd"], list(ins), list(outs), ip=ip, fp=fp)

    def bwd(ins=(q, k, v, oz, lz, oz), outs=grads, ip=(0, 0, 0, 0, 0, 0), fp=(1, 0)):
        return run_kernel(KERNELS["attention_bwd"], list(ins), list(outs), ip=ip, fp=fp)

    fwd(), bwd()
    fwd(ins=(q, k, v, bias), ip=(0, 1, 0, 0))
    for call, kwargs, message in [
        (fwd, {"ip": (2, 0, 0, 0)}, "ip"),
        (fwd, {"ip": (0, 0)}, "ip"),
        (fwd, {"ip": (0, 0, -1, 0)}, "window"),
        (fwd, {"fp": (1,)}, "fp"),
        (fwd, {"fp": (1, -1)}, "softcap"),
        (fwd, {"fp": (np.nan, 0)}, "scale"),
        (fwd, {"ip": (0, 1, 0, 0)}, "inputs"),
        (fwd, {"ins": (q[0], k, v)}, "4 dimensions"),
        (fwd, {"ins": (q[:, :3], k, v)}, "multiple"),
        (fwd, {"ins": (q, k[..., :4].copy(), v)}, "k must have shape"),
        (fwd, {"ins": (q, k, v[:, :, :3])}, "v must have shape"),
        (fwd, {"ins": (q, k.astype(np.float64), v)}, "float64"),
        (fwd, {"ins": [x.astype(np.int32) for x in (q, k, v)]}, "float32"),
        (fwd, {"ins": (np.swapaxes(np.zeros((1, 4, 8, 5), f), 2, 3), k, v)}, "last axis of q"),
        (fwd, {"ins": (q, k, v, bias[..., :5]), "ip": (0, 1, 0, 0)}, "bias must have shape"),
        (fwd, {"outs": (((1, 4, 5, 7), f), lse)}, "o must have shape"),
        (fwd, {"outs": (o, ((1, 4, 6), f))}, "lse must have shape"),
        (fwd, {"outs": (((1, 4, 5, 8), f, (1, 4, 5, 8), (160, 0, 8, 1)), lse)}, "distinct"),
        (fwd, {"outs": (o, ((1, 4, 5), f, (1, 4, 5), (20, 1, 4)))}, "contiguous"),
        (fwd, {"ins": (q, k, v, bias[:, :3]), "ip": (0, 1, 0, 0)}, "bias must have shape"),
        (fwd, {"ins": (q, k, v, np.zeros((1, 3), f)), "ip": (0, 0, 0, 1)}, "slopes must have"),
        (fwd, {"ins": (q, k, v, np.zeros((2, 4), f)), "ip": (0, 0, 0, 1)}, "slopes must have"),
        (fwd, {"ip": (0, 0, 0, 0, 2)}, "halves 0/1"),
        (bwd, {"ip": (0, 0, 0, 0, 0, 0, 2)}, "halves 0/1"),
        (bwd, {"ip": (0, 0, 0, 0, 1, 0)}, "want_dbias"),
        (bwd, {"ip": (0, 0, 0, 0, 0, 1)}, "want_dslopes"),
        (bwd, {"ins": (q, k, v, oz, lz, oz, bias), "ip": (0, 1, 0, 0, 1, 0), "outs": [*grads, ((1, 4, 5, 1), f)]}, "dbias must have"),
        (bwd, {"ins": (q, k, v, oz, lz, oz[:, :, :4])}, "do must have shape"),
        (bwd, {"ins": (q, k, v, oz, lz[:, :, :3], oz)}, "lse must have shape"),
        (bwd, {"outs": [grads[0], grads[1], grads[0]]}, "dv must have shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(**kwargs)
