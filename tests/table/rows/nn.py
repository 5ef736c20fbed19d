"""Fused neural-network primitives, with their tangent and cotangent maps."""

import numpy as np

from fgrad.ops import activation, attention, loss, norm, rope, softmax
from tests.table.case import Case, Sample, ints, typed

SHAPES = [((3, 4), 1), ((3, 4), 0), ((2, 3, 2), 1), ((1,), 0), ((0, 3), 1)]

# --- softmax ----------------------------------------------------------------------------------------------------------


def np_softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis, keepdims=True)


def np_logsumexp(x, axis):
    return np.log(np.exp(x).sum(axis))


def _sum(x, axis):
    return x.sum(axis, keepdims=True)


def _row_op(name, ref, n=1, **kw):
    prim = getattr(softmax, f"{name}_p")

    def case(shape, axis):
        fun = lambda *xs: prim.bind(*xs, axis=axis)
        reference = lambda *xs: ref(*xs, axis)
        return Case(fun, (typed(*shape),) * n, reference, name=f"{shape} along {axis}", **kw)

    return [case(*s) for s in SHAPES]


# --- norms ------------------------------------------------------------------------------------------------------------

EPS = 1e-3


def _mean(x):
    return x.mean(-1, keepdims=True) if x.shape[-1] else np.zeros((*x.shape[:-1], 1))


def np_rms(x):
    r = 1 / np.sqrt(_mean(x**2) + EPS)
    return x * r, r[..., 0]


def np_layer(x):
    c = x - _mean(x)
    r = 1 / np.sqrt(_mean(c**2) + EPS)
    return c * r, r[..., 0]


def np_rms_tangent(x, r, t):
    r = r[..., None]
    return r * (t - x * r**2 * _mean(x * t))


def np_layer_tangent(y, r, t):
    return r[..., None] * (t - _mean(t) - y * _mean(y * t))


NORMED = [(3, 4), (2, 2, 3), (5,), (2, 1), (0, 3)]


def _norm(prim, ref):
    fun = lambda x: tuple(prim.bind(x, eps=EPS))
    return [Case(fun, (typed(*s),), ref, name=str(s), out=("same", "wide"), ulps=16) for s in NORMED]


def _norm_tangent(prim, ref):
    def case(s):
        return Case(prim.bind, (typed(*s), Sample(s[:-1], 0.5, 2, wide=True), typed(*s)), ref, name=str(s), linear=((2,),), ulps=16)

    return [case(s) for s in NORMED]


# --- cross-entropy ----------------------------------------------------------------------------------------------------


def _valid(x, labels):
    ok = (labels >= 0) & (labels < x.shape[-1])
    return ok, np.where(ok, labels, 0)[..., None].astype(np.int64)


def np_cross_entropy(x, labels):
    ok, at = _valid(x, labels)
    lse = np_logsumexp(x, -1)
    return np.where(ok, lse - np.take_along_axis(x, at, -1)[..., 0], 0), lse


def _difference(x, lse, labels):
    ok, at = _valid(x, labels)
    out = np.exp(x - lse[..., None])
    np.put_along_axis(out, at, np.take_along_axis(out, at, -1) - 1, -1)
    return np.where(ok[..., None], out, 0)


LOGITS = [((3, 4), np.int32), ((2, 2, 5), np.int64), ((5,), np.int32), ((0, 3), np.int32)]


def _labels(shape, dtype):
    return ints(*shape[:-1], lo=-1, hi=shape[-1] + 1, dtype=dtype)


def _loss(shape, dtype):
    return Case(loss.cross_entropy, (typed(*shape), _labels(shape, dtype)), np_cross_entropy, name=f"{shape}", out=("same", "wide"), ulps=8)


def _loss_map(prim, ref, moved):
    """The tangent or cotangent map: linear in its last argument, of shape moved(logits' shape)."""

    def case(shape, dtype):
        lse = Sample(shape[:-1], 1, 2, wide=True)
        args = (typed(*shape), lse, _labels(shape, dtype), typed(*moved(shape)))
        return Case(prim.bind, args, ref, name=str(shape), linear=((3,),), ulps=16)

    return [case(*s) for s in LOGITS]


# --- swiglu -----------------------------------------------------------------------------------------------------------


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _slope(g):
    s = _sigmoid(g)
    return s * (1 + g * (1 - s))


GATED = [(3, 4), (5,), (1,), (0, 2)]


def _swiglu(prim, ref, n, linear=()):
    def fun(*xs):
        out = prim.bind(*xs)
        return tuple(out) if prim.multiple_results else out

    return [Case(fun, (typed(*s),) * n, ref, name=str(s), linear=linear, ulps=8) for s in GATED]


# --- rope -------------------------------------------------------------------------------------------------------------


def _rope(shape, n, interleaved, inverse):
    def ref(x, cos, sin):
        out = x.copy()
        sin = -sin if inverse else sin
        i, j = (np.arange(n) * 2, np.arange(n) * 2 + 1) if interleaved else (np.arange(n), np.arange(n) + n)
        out[..., i], out[..., j] = x[..., i] * cos - x[..., j] * sin, x[..., j] * cos + x[..., i] * sin
        return out

    fun = lambda x, c, s: rope.rope_p.bind(x, c, s, interleaved=interleaved, inverse=inverse)
    angles = Sample((*shape[:-1], n), -1, 1, wide=True)
    title = f"{n} pairs of {shape}{' interleaved' * interleaved}{' inverse' * inverse}"
    return Case(fun, (typed(*shape), angles, angles), ref, name=title, linear=((0,),), ulps=8)


# --- attention --------------------------------------------------------------------------------------------------------


def _grouped(x, heads):
    return np.repeat(x, heads // x.shape[1], 1)


def np_scores(q, k, bias=None, causal=False, window=0, scale=1.0, softcap=0.0):
    """(logits with -inf where nothing is seen, the slope of the softcap)."""
    t, s = q.shape[2], k.shape[2]
    raw = np.einsum("bhtd,bhsd->bhts", q, _grouped(k, q.shape[1])) * scale
    th = np.tanh(raw / softcap) if softcap else 0.0
    z = softcap * th if softcap else raw
    z = z if bias is None else z + bias
    i, j = np.arange(t)[:, None] + s - t, np.arange(s)[None]
    seen = (j <= i if causal else np.ones((t, s), bool)) & (j > i - window if window else True)
    return np.where(seen, z, -np.inf), 1 - th**2


def np_attention(q, k, v, bias=None, **kw):
    z, _ = np_scores(q, k, bias, **kw)
    top = np.maximum(z.max(-1, keepdims=True, initial=-np.inf), -1e300)
    p = np.exp(z - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return p / np.where(total, total, 1) @ _grouped(v, q.shape[1]), (np.log(total) + np.where(total, top, 0))[..., 0]


def np_bias(shape, bias=None, slopes=None):
    """bias and slopes as one array of the logits' shape, (batch, heads, queries, keys)."""
    t, s = shape[2:]
    distance = np.abs(np.arange(t)[:, None] + s - t - np.arange(s))
    total = np.zeros(shape) if bias is None else np.broadcast_to(bias, shape)
    return total if slopes is None else total - slopes[:, :, None, None] * distance


def _extras(rest, biased, sloped, shape):
    """(the bias of bias and slopes, what follows them)."""
    rest = list(rest)
    bias, slopes = rest.pop(0) if biased else None, rest.pop(0) if sloped else None
    return np_bias(shape, bias, slopes), rest


def np_attention_op(q, k, v, *rest, sloped=False, **kw):
    bias, _ = _extras(rest, len(rest) - sloped > 0, sloped, (*q.shape[:3], k.shape[2]))
    return np_attention(q, k, v, bias, **kw)


def np_attention_tangent(q, k, v, *rest, biased, sloped, wrt_bias, wrt_slopes, **kw):
    shape = (*q.shape[:3], k.shape[2])
    bias, (o, lse, tq, tk, tv, *moved) = _extras(rest, biased, sloped, shape)
    h = q.shape[1]
    z, slope = np_scores(q, k, bias, **kw)
    p = np.exp(z - lse[..., None])
    ts = (np.einsum("bhtd,bhsd->bhts", tq, _grouped(k, h)) + np.einsum("bhtd,bhsd->bhts", q, _grouped(tk, h))) * kw["scale"] * slope
    ps = p * (ts + _extras(moved, wrt_bias, wrt_slopes, shape)[0])
    tlse = ps.sum(-1)
    return ps @ _grouped(v, h) + p @ _grouped(tv, h) - o * tlse[..., None], tlse


def _ungroup(x, heads):
    b, h, s, d = x.shape
    return x.reshape(b, heads, h // heads, s, d).sum(2)


def np_attention_cotangent(q, k, v, *rest, biased, sloped, wrt_bias, wrt_slopes, **kw):
    shape = (*q.shape[:3], k.shape[2])
    bias, (o, lse, do) = _extras(rest, biased, sloped, shape)
    h, hk = q.shape[1], k.shape[1]
    z, slope = np_scores(q, k, bias, **kw)
    p = np.exp(z - lse[..., None])
    dz = p * (np.einsum("bhtd,bhsd->bhts", do, _grouped(v, h)) - (o * do).sum(-1, keepdims=True))
    ds = dz * slope * kw["scale"]
    dk, dv = np.einsum("bhts,bhtd->bhsd", ds, q), np.einsum("bhts,bhtd->bhsd", p, do)
    out = [ds @ _grouped(k, h), _ungroup(dk, hk), _ungroup(dv, hk)]
    if wrt_bias:
        out.append(dz.sum(tuple(i for i in range(4) if rest[0].shape[i] == 1), keepdims=True))
    if wrt_slopes:
        slopes = rest[biased]
        per_head = (dz * np_bias(shape, None, np.ones((1, h)))).sum((2, 3))
        out.append(per_head.sum(0, keepdims=True) if slopes.shape[0] == 1 else per_head)
    return tuple(out)


ATTENTIONS = [  # heads, of keys, queries, keys, features, of values, axes on which bias is 1 (None: no bias), rows of slopes, parameters
    (2, 2, 3, 3, 2, 2, None, 0, {}),
    (4, 2, 2, 3, 3, 2, (), 0, {}),
    (2, 1, 3, 4, 2, 2, (), 0, {"causal": True, "window": 2, "softcap": 1.5}),
    (2, 1, 2, 3, 2, 1, None, 0, {"window": 2, "scale": 0.3}),
    (4, 2, 2, 3, 2, 2, (0, 1), 1, {}),
    (2, 1, 3, 3, 2, 1, (0, 3), 2, {"causal": True, "softcap": 2.0}),
    (2, 2, 2, 3, 1, 2, (2,), 0, {}),
    (2, 2, 2, 3, 1, 2, None, 1, {"causal": True}),
]


def _attention(kind):
    prim = getattr(attention, f"{kind}_p")
    maps = {"attention": np_attention_op, "attention_tangent": np_attention_tangent, "attention_cotangent": np_attention_cotangent}

    def case(h, hk, t, s, d, dv, ones, sloped, params):
        biased = ones is not None
        kw = dict(causal=False, window=0, scale=0.7, softcap=0.0, sloped=sloped > 0) | params
        bias = [typed(*[1 if i in ones else n for i, n in enumerate((2, h, t, s))])] if biased else []
        extras = [*bias, *[typed(sloped, h)] * (sloped > 0)]
        q, k, v = typed(2, h, t, d), typed(2, hk, s, d), typed(2, hk, s, dv)
        o, lse = typed(2, h, t, dv), Sample((2, h, t), 2, 3, wide=True)
        operands, linear, out = (q, k, v, *extras), (), ("same", "wide")
        if kind != "attention":
            kw |= dict(biased=biased, wrt_bias=biased, wrt_slopes=sloped > 0)
            moved = operands if kind == "attention_tangent" else (o,)
            operands += (o, lse)
            linear = (tuple(range(len(operands), len(operands) + len(moved))),)
            operands += moved
            out = out if kind == "attention_tangent" else "same"
        fun = lambda *xs: tuple(prim.bind(*xs, **kw))
        ref = lambda *xs: maps[kind](*xs, **kw)
        title = f"{h}/{hk} heads {t}x{s}{f' bias {ones}' * biased}{f' slopes {sloped}' * (sloped > 0)} {params or ''}"
        return Case(fun, operands, ref, name=title, linear=linear, out=out, ulps=64)

    return [case(*c) for c in ATTENTIONS]


def _both(shape, axis):
    fun = lambda x: softmax.softmax_logsumexp_p.bind(x, axis=axis)
    reference = lambda x: (np_softmax(x, axis), np_logsumexp(x, axis))
    return Case(fun, (typed(*shape),), reference, name=f"{shape} along {axis}", out=("same", "same"), ulps=8)


def _moments(shape, axis):
    fun = lambda x: norm.moments_p.bind(x, axis=axis)
    reference = lambda x: (x.mean(axis), x.var(axis) * x.shape[axis])
    return Case(fun, (typed(*shape),), reference, name=f"{shape} along {axis}", out=("same", "same"), ulps=16)


AXES = [((3, 4), 1), ((3, 4), 0), ((2, 5, 3), 1), ((9, 2), 1), ((4,), 0), ((2, 1), 1)]
ROWS = {
    "softmax_logsumexp": [_both(*s) for s in AXES],
    "moments": [_moments(*s) for s in AXES],
    "softmax": _row_op("softmax", np_softmax, ulps=8),
    "log_softmax": _row_op("log_softmax", lambda x, a: np.log(np_softmax(x, a)), ulps=8),
    "logsumexp": _row_op("logsumexp", np_logsumexp, ulps=8),
    "softmax_tangent": _row_op("softmax_tangent", lambda y, t, a: y * (t - _sum(y * t, a)), 2, linear=((1,),), ulps=32),
    "log_softmax_tangent": _row_op("log_softmax_tangent", lambda y, t, a: t - _sum(np.exp(y) * t, a), 2, linear=((1,),), ulps=32),
    "log_softmax_cotangent": _row_op("log_softmax_cotangent", lambda y, t, a: t - np.exp(y) * _sum(t, a), 2, linear=((1,),), ulps=32),
    "rms_norm": _norm(norm.rms_norm_p, np_rms),
    "layer_norm": _norm(norm.layer_norm_p, np_layer),
    "rms_norm_tangent": _norm_tangent(norm.rms_norm_tangent_p, np_rms_tangent),
    "layer_norm_tangent": _norm_tangent(norm.layer_norm_tangent_p, np_layer_tangent),
    "cross_entropy": [_loss(*s) for s in LOGITS],
    "cross_entropy_tangent": _loss_map(
        loss.cross_entropy_tangent_p, lambda x, lse, y, t: (_difference(x, lse, y) * t).sum(-1), lambda s: s
    ),
    "cross_entropy_cotangent": _loss_map(
        loss.cross_entropy_cotangent_p, lambda x, lse, y, ct: _difference(x, lse, y) * ct[..., None], lambda s: s[:-1]
    ),
    "swiglu": _swiglu(activation.swiglu_p, lambda g, u: g * _sigmoid(g) * u, 2, linear=((1,),)),
    "swiglu_tangent": _swiglu(
        activation.swiglu_tangent_p, lambda g, u, tg, tu: tg * u * _slope(g) + tu * g * _sigmoid(g), 4, linear=((2, 3),)
    ),
    "swiglu_cotangent": _swiglu(
        activation.swiglu_cotangent_p, lambda g, u, ct: (ct * u * _slope(g), ct * g * _sigmoid(g)), 3, linear=((2,),)
    ),
    "rope": [
        _rope(*c)
        for c in (
            ((2, 3, 4), 2, False, False),
            ((3, 5), 1, True, False),
            ((4,), 2, True, True),
            ((2, 3), 0, False, False),
            ((0, 4), 1, False, True),
        )
    ],
    "attention": _attention("attention"),
    "attention_tangent": _attention("attention_tangent"),
    "attention_cotangent": _attention("attention_cotangent"),
}
