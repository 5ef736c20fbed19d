"""Scaled dot-product attention, tiled forward and backward: memory O(T) (Dao et al., FlashAttention, 2022).

attention       q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv) [, bias (B, H, T, S)] -> o (B, H, T, Dv), lse (B, H, T)
attention_tangent     the linear map (tq, tk, tv [, tbias]) -> (to, tlse)
attention_cotangent   its transpose (do, dlse) -> (dq, dk, dv [, dbias]): the fused backward kernel
Query t sees the keys t + (S - T) - window < s <= t + (S - T), the first bound if window > 0, the second if causal.
"""

import math

import numpy as np

from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import add, bitwise_and, eq, exp, gt, le, like, mul, neg, select, square, sub, tanh
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, need_shape, spread_last, wide_dtype, wide_kernel, widen
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, full, instantiate, is_linear, zero_of
from fgrad.ops.shape import broadcasted_iota, concatenate, reshape, slice_in_dim

# --- types ------------------------------------------------------------------------------------------------------------


def _check(name, avals):
    """(aval of o, aval of lse) for the operands q, k, v [, bias]."""
    q, k, v = avals[:3]
    need_float(name, *avals)
    for what, a in zip(("query", "key", "value"), (q, k, v)):
        if len(a.shape) != 4:
            raise ShapeError(f"{name}: {what} must have 4 axes (batch, heads, positions, features), got {a.shape}")
    for what, a in zip(("key", "value", "bias"), avals[1:]):
        if a.dtype != q.dtype and not (what == "bias" and a.dtype == wide_dtype(q.dtype)):
            raise TypeError(f"{name}: query is {q.dtype.name} but {what} {a.dtype.name}; cast them to one dtype")
    (b, h, t, d), (hk, s) = q.shape, k.shape[1:3]
    need_shape(name, "key", k, (b, hk, s, d))
    need_shape(name, "value", v, (b, hk, s, v.shape[3]))
    if not hk and h or hk and h % hk:
        raise ShapeError(f"{name}: the {h} query heads must be a multiple of the {hk} key heads (shapes {q.shape} and {k.shape})")
    if len(avals) > 3:
        need_shape(name, "bias", avals[3], (b, h, t, s))
    return ShapedArray((b, h, t, v.shape[3]), q.dtype), ShapedArray((b, h, t), wide_dtype(q.dtype))


def _attention_aval(*avals, causal, window, scale, softcap):
    if window < 0 or not (math.isfinite(scale) and math.isfinite(softcap) and softcap >= 0):
        raise ValueError(
            f"attention: window must be 0 or more, scale finite, softcap finite and 0 or more; got {window}, {scale} and {softcap}"
        )
    return list(_check("attention", avals))


def _linear_aval(name):
    """Abstract eval of the tangent and cotangent primitives."""

    def abstract_eval(*avals, biased, wrt_bias, causal, window, scale, softcap):
        n = 3 + biased
        operands, rest = avals[:n], avals[n:]
        o, lse = _check(name, operands)
        moved = list(operands[: 3 + wrt_bias])
        expected, outs = (moved, [o, lse]) if name == "attention_tangent" else ([o], moved)
        for what, a, e in zip(("o", "lse", *["the linear argument"] * len(expected)), rest, [o, lse, *expected], strict=True):
            need_shape(name, what, a, e.shape, e.dtype)
        return [a.strong() for a in outs]

    return abstract_eval


# --- the same functions as plain compositions: for tangents and for higher derivatives --------------------------------


def _grouped(x, heads):
    """(B, H, ...) as (B, heads, H / heads, ...): query heads beside the key head that they share."""
    s = get_aval(x).shape
    return reshape(x, (s[0], heads, s[1] // heads if heads else 0, *s[2:]))


def _contract(a, b, a_axes, b_axes, batch=2):
    lead = tuple(range(batch))
    return dot_general(a, b, ((a_axes, b_axes), (lead, lead)))


def _scores(q, k, v, bias, causal, window, scale, softcap):
    """(raw scores, capped scores' slope or None, logits with -inf where nothing is seen), (B, Hk, G, T, S)."""
    raw = mul(_contract(q, k, (4,), (3,)), like(q, scale))
    slope = None
    logits = raw
    if softcap:
        th = tanh(mul(raw, like(raw, 1 / softcap)))
        logits, slope = mul(th, like(raw, softcap)), sub(like(raw, 1), square(th))
    if bias is not None:
        logits = add(logits, bias)
    seen = _visible(get_aval(logits).shape, causal, window)
    return slope, logits if seen is None else select(seen, logits, like(logits, -math.inf))


def _visible(shape, causal, window):
    if not causal and not window:
        return None
    t, s = shape[-2:]
    query = add(broadcasted_iota(np.int32, shape, 3), np.int32(s - t))
    key = broadcasted_iota(np.int32, shape, 4)
    seen = le(key, query) if causal else None
    if window:
        near = gt(key, sub(query, np.int32(window)))
        seen = near if seen is None else bitwise_and(seen, near)
    return seen


def _probabilities(operands, lse, params):
    """(q, k, v grouped and widened, slope of the softcap, p): p is 0 where nothing is seen."""
    q, k, v = map(widen, operands[:3])
    heads = get_aval(k).shape[1]
    q = _grouped(q, heads)
    bias = _grouped(widen(operands[3]), heads) if len(operands) > 3 else None
    slope, logits = _scores(q, k, v, bias, **params)
    lse = _grouped(lse, heads)
    safe = select(eq(lse, like(lse, -math.inf)), like(lse, 0), lse)
    return q, k, v, slope, exp(sub(logits, spread_last(safe, get_aval(logits).shape)))


def _last(x):
    return reduce_sum(x, (get_aval(x).ndim - 1,))


def _tangent(*args, biased, wrt_bias, **params):
    n = 3 + biased
    operands, (o, lse), tangents = args[:n], args[n : n + 2], args[n + 2 :]
    dtype, shape = get_aval(o).dtype, get_aval(o).shape
    q, k, v, slope, p = _probabilities(operands, lse, params)
    heads = get_aval(k).shape[1]
    tq, tk, tv = _grouped(widen(tangents[0]), heads), widen(tangents[1]), widen(tangents[2])
    ts = mul(add(_contract(tq, k, (4,), (3,)), _contract(q, tk, (4,), (3,))), like(q, params["scale"]))
    if slope is not None:
        ts = mul(ts, slope)
    if wrt_bias:
        ts = add(ts, _grouped(widen(tangents[3]), heads))
    ps = mul(p, ts)
    tlse = _last(ps)
    out = add(_contract(ps, v, (4,), (2,)), _contract(p, tv, (4,), (2,)))
    o5 = _grouped(widen(o), heads)
    out = sub(out, mul(o5, spread_last(tlse, get_aval(o5).shape)))
    return [narrow(reshape(out, shape), dtype), reshape(tlse, get_aval(lse).shape)]


def _cotangent(*args, biased, wrt_bias, **params):
    n = 3 + biased
    operands, (o, lse, do) = args[:n], args[n:]
    q, k, v, slope, p = _probabilities(operands, lse, params)
    heads = get_aval(k).shape[1]
    o, do = _grouped(widen(o), heads), _grouped(widen(do), heads)
    ds = mul(p, sub(_contract(do, v, (4,), (3,)), spread_last(_last(mul(o, do)), get_aval(p).shape)))
    dbias = ds
    if slope is not None:
        ds = mul(ds, slope)
    ds = mul(ds, like(ds, params["scale"]))
    outs = [_contract(ds, k, (4,), (2,)), _contract(ds, q, (2, 3), (2, 3)), _contract(p, do, (2, 3), (2, 3))]
    outs += [dbias] if wrt_bias else []
    return [narrow(reshape(x, get_aval(a).shape), get_aval(a).dtype) for x, a in zip(outs, operands)]


# --- rules ------------------------------------------------------------------------------------------------------------


def _kernel_inputs(ctx, ins, strided):
    """Float32 or float64 values; the first `strided` need a last axis of stride 1, the bias takes any strides."""
    ins = [ctx.f32(v) for v in ins]
    return [v if i >= strided or v.strides[-1] == 1 else ctx.contiguous(v) for i, v in enumerate(ins)]


def _attention_lower(ctx, ins, params, out_avals):
    ip = (int(params["causal"]), int(len(ins) > 3), params["window"])
    return wide_kernel(
        ctx, "attention_fwd", _kernel_inputs(ctx, ins, 3), out_avals, ip=ip, fp=(params["scale"], params["softcap"]), contiguous=False
    )


def _cotangent_lower(ctx, ins, params, out_avals):
    n = 3 + params["biased"]
    operands, rest = ins[:n], ins[n:]
    ins = _kernel_inputs(ctx, [*operands[:3], *rest, *operands[3:]], 6)
    ip = (int(params["causal"]), n - 3, params["window"], int(params["wrt_bias"]))
    return wide_kernel(ctx, "attention_bwd", ins, out_avals, ip=ip, fp=(params["scale"], params["softcap"]), contiguous=False)


def _attention_jvp(primals, tangents, **params):
    o, lse = attention_p.bind(*primals, **params)
    if all(type(t) is Zero for t in tangents):
        return [o, lse], [zero_of(o), zero_of(lse)]
    wrt_bias = len(tangents) > 3 and type(tangents[3]) is not Zero
    moved = map(instantiate, tangents[: 3 + wrt_bias])
    return [o, lse], attention_tangent_p.bind(*primals, o, lse, *moved, biased=len(primals) > 3, wrt_bias=wrt_bias, **params)


def _tangent_transpose(cts, *args, biased, **params):
    """The fused backward kernel.  It knows no cotangent of lse: one more column of v (0), o (1) and do (-dlse) stands for it,
    because it enters as sum(o * do) - dlse."""
    n = 3 + biased
    (q, k, v, *bias), (o, lse), moved = args[:n], args[n : n + 2], args[n + 2 :]
    do, dlse = cts
    if type(dlse) is Zero:
        out = attention_cotangent_p.bind(*args[:n], o, lse, do, biased=biased, **params)
    else:
        dtype, column = get_aval(o).dtype, (*get_aval(o).shape[:3], 1)
        v_wide = concatenate([v, full((*get_aval(v).shape[:3], 1), 0, dtype)], 3)
        o_wide = concatenate([o, full(column, 1, dtype)], 3)
        do_wide = concatenate([instantiate(do), narrow(reshape(neg(dlse), column), dtype)], 3)
        out = attention_cotangent_p.bind(q, k, v_wide, *bias, o_wide, lse, do_wide, biased=biased, **params)
        out[2] = slice_in_dim(out[2], 0, get_aval(v).shape[3], axis=3)
    return [None] * (n + 2) + [ct if is_linear(t) else None for ct, t in zip(out, moved)]


def _cotangent_transpose(cts, *args, **params):
    known = args[:-1]
    to, _ = attention_tangent_p.bind(*known, *map(instantiate, cts), **params)
    return [None] * len(known) + [to]


def _batch(prim):
    """The batch axis of vmap joins the batch axis of attention."""

    def batch(axis, args, dims, **params):
        args = [bdim_at_front(x, d, axis.size) for x, d in zip(args, dims)]
        n = get_aval(args[0]).shape[1]
        outs = prim.bind(*[reshape(x, (axis.size * n, *get_aval(x).shape[2:])) for x in args], **params)
        return [reshape(x, (axis.size, n, *get_aval(x).shape[1:])) for x in outs], [0] * len(outs)

    return batch


def _linear_jvp(prim, reference, first_linear):
    """first_linear: position of the first linear argument, counted from the operands' end."""

    def jvp(primals, tangents, *, biased, **params):
        linear = tuple(range(3 + biased + first_linear, len(primals)))
        return jvp_by_reference(prim, reference, linear)(primals, tangents, biased=biased, **params)

    return jvp


attention_p = Primitive("attention", multiple_results=True, abstract_eval=_attention_aval, jvp=_attention_jvp, lower=_attention_lower)
attention_tangent_p = Primitive(
    "attention_tangent",
    multiple_results=True,
    abstract_eval=_linear_aval("attention_tangent"),
    transpose=_tangent_transpose,
    lower=lambda ctx, ins, params, out: ctx.compose(lambda *xs: _tangent(*xs, **params), ins),
)
attention_cotangent_p = Primitive(
    "attention_cotangent",
    multiple_results=True,
    abstract_eval=_linear_aval("attention_cotangent"),
    transpose=_cotangent_transpose,
    lower=_cotangent_lower,
)
attention_tangent_p.jvp = _linear_jvp(attention_tangent_p, _tangent, 2)
attention_cotangent_p.jvp = _linear_jvp(attention_cotangent_p, _cotangent, 2)
for _p in (attention_p, attention_tangent_p, attention_cotangent_p):
    _p.batch = _batch(_p)


def attention(q, k, v, bias=None, *, causal=False, window=0, scale=None, softcap=0.0):
    """(o, lse): softmax(softcap * tanh(scale * q.k / softcap) + bias) v for every head, and the log of the softmax's sum.

    q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv), bias (B, H, T, S), float32 or of
    q's dtype, or None; H a multiple of Hk (grouped queries share a key
    head). scale is 1/sqrt(D) by default; softcap 0 means none. Query t sees key s if s <= t + (S - T) (causal) and
    s > t + (S - T) - window (window > 0). A query that sees no key has o = 0 and lse = -inf. 16-bit inputs compute in float32
    and have a float32 lse.
    """
    if scale is None:
        scale = 1 / math.sqrt(get_aval(q).shape[-1]) if get_aval(q).shape[-1] else 1.0
    args = (q, k, v) if bias is None else (q, k, v, bias)
    return tuple(attention_p.bind(*args, causal=bool(causal), window=int(window), scale=float(scale), softcap=float(softcap)))
