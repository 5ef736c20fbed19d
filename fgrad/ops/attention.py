"""Scaled dot-product attention, tiled forward and backward: memory O(T) (Dao et al., FlashAttention, 2022).

attention       q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv) [, bias] [, slopes] -> o (B, H, T, Dv), lse (B, H, T)
attention_tangent     the linear map (tq, tk, tv [, tbias] [, tslopes]) -> (to, tlse)
attention_cotangent   its transpose (do, dlse) -> (dq, dk, dv [, dbias] [, dslopes]): the fused backward kernel
bias is (B, H, T, S), or 1 on any of these axes: it is read by tiles, and its gradient is added up in its own shape. slopes, (B, H) or
(1, H), add -slope * |t + S - T - s|.
Query t sees the keys t + (S - T) - window < s <= t + (S - T), the first bound if window > 0, the second if causal.
"""

import math

import numpy as np

from fgrad import dtypes
from fgrad._kernels.conv_plan import PAIRS
from fgrad._kernels.gemm import uses_amx
from fgrad.core import Primitive, ShapedArray, get_aval
from fgrad.errors import ShapeError
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import abs, add, bitwise_and, convert_element_type, eq, exp, gt, le, like, mul, neg, select, square, sub, tanh
from fgrad.ops.fused import jvp_by_reference, narrow, need_float, need_shape, spread_last, wide_dtype, wide_kernel, widen
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import Zero, bdim_at_front, full, instantiate, is_linear, zero_of
from fgrad.ops.shape import broadcast_in_dim, broadcasted_iota, concatenate, expand_dims, reshape, slice_in_dim
from fgrad.ops.softmax import logsumexp

# --- types ------------------------------------------------------------------------------------------------------------


def _check(name, avals, sloped):
    """(aval of o, aval of lse) for the operands q, k, v [, bias] [, slopes]."""
    q, k, v = avals[:3]
    need_float(name, *avals)
    for what, a in zip(("query", "key", "value"), (q, k, v)):
        if len(a.shape) != 4:
            raise ShapeError(f"{name}: {what} must have 4 axes (batch, heads, positions, features), got {a.shape}")
    for what, a in zip(("key", "value"), avals[1:]):
        if a.dtype != q.dtype:
            raise TypeError(f"{name}: query is {q.dtype.name} but {what} {a.dtype.name}; cast them to one dtype")
    for a in avals[3:]:
        if a.dtype not in (q.dtype, wide_dtype(q.dtype)):
            raise TypeError(f"{name}: query is {q.dtype.name} but bias or slopes {a.dtype.name}; cast them to one dtype")
    (b, h, t, d), (hk, s) = q.shape, k.shape[1:3]
    need_shape(name, "key", k, (b, hk, s, d))
    need_shape(name, "value", v, (b, hk, s, v.shape[3]))
    if not hk and h or hk and h % hk:
        raise ShapeError(f"{name}: the {h} query heads must be a multiple of the {hk} key heads (shapes {q.shape} and {k.shape})")
    if len(avals) - sloped > 3 and (len(avals[3].shape) != 4 or any(n not in (1, m) for n, m in zip(avals[3].shape, (b, h, t, s)))):
        raise ShapeError(f"{name}: bias must have shape {(b, h, t, s)}, or 1 on some axes, got {avals[3].shape}")
    if sloped and avals[-1].shape not in ((b, h), (1, h)):
        raise ShapeError(f"{name}: slopes must have shape {(b, h)} or {(1, h)}, got {avals[-1].shape}")
    return ShapedArray((b, h, t, v.shape[3]), q.dtype), ShapedArray((b, h, t), wide_dtype(q.dtype))


def _attention_aval(*avals, sloped, causal, window, scale, softcap):
    if window < 0 or not (math.isfinite(scale) and math.isfinite(softcap) and softcap >= 0):
        raise ValueError(
            f"attention: window must be 0 or more, scale finite, softcap finite and 0 or more; got {window}, {scale} and {softcap}"
        )
    return list(_check("attention", avals, sloped))


def _moved(operands, biased, wrt_bias, wrt_slopes):
    """The operands whose tangents the linear primitives take, or whose cotangents they give."""
    return [*operands[:3], *operands[3 : 3 + wrt_bias], *operands[3 + biased : 3 + biased + wrt_slopes]]


def _linear_aval(name):
    """Abstract eval of the tangent and cotangent primitives."""

    def abstract_eval(*avals, biased, sloped, wrt_bias, wrt_slopes, causal, window, scale, softcap):
        n = 3 + biased + sloped
        operands, rest = avals[:n], avals[n:]
        o, lse = _check(name, operands, sloped)
        moved = _moved(operands, biased, wrt_bias, wrt_slopes)
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


def _positions(shape):
    """(query's position among the keys, key's position), int32, over a shape that ends in (T, S)."""
    t, s = shape[-2:]
    query = add(broadcasted_iota(np.int32, shape, len(shape) - 2), np.int32(s - t))
    return query, broadcasted_iota(np.int32, shape, len(shape) - 1)


def _visible(shape, causal, window):
    if not causal and not window:
        return None
    query, key = _positions(shape)
    seen = le(key, query) if causal else None
    if window:
        near = gt(key, sub(query, np.int32(window)))
        seen = near if seen is None else bitwise_and(seen, near)
    return seen


def _linear_bias(bias, slopes, shape):
    """bias and slopes, or their tangents, as one array of the logits' shape; None for none."""
    total = None
    if bias is not None:
        total = broadcast_in_dim(widen(bias), shape, range(4))
    if slopes is not None:
        slopes = broadcast_in_dim(widen(slopes), shape, (0, 1))
        query, key = _positions(shape)
        linear = neg(mul(slopes, convert_element_type(abs(sub(query, key)), get_aval(slopes).dtype)))
        total = linear if total is None else add(total, linear)
    return total


def _unspread(x, like_aval, axes):
    """The transpose of spreading an array over x's shape: a sum over the axes where it is 1, or that it lacks."""
    shape = like_aval.shape
    lost = [i for i in range(4) if i not in axes or shape[axes.index(i)] == 1 and get_aval(x).shape[i] != 1]
    return reshape(reduce_sum(x, tuple(lost)), shape)


def _split(operands, biased):
    """(bias or None, slopes or None) of q, k, v [, bias] [, slopes]."""
    return operands[3] if biased else None, operands[3 + biased] if len(operands) > 3 + biased else None


def _probabilities(operands, lse, biased, params):
    """(q, k, v grouped and widened, slope of the softcap, p): p is 0 where nothing is seen."""
    q, k, v = map(widen, operands[:3])
    (b, h, t, _), (_, heads, s, _) = get_aval(q).shape, get_aval(k).shape
    bias = _linear_bias(*_split(operands, biased), (b, h, t, s))
    q = _grouped(q, heads)
    slope, logits = _scores(q, k, v, None if bias is None else _grouped(bias, heads), **params)
    lse = _grouped(lse, heads)
    safe = select(eq(lse, like(lse, -math.inf)), like(lse, 0), lse)
    return q, k, v, slope, exp(sub(logits, spread_last(safe, get_aval(logits).shape)))


def _last(x):
    return reduce_sum(x, (get_aval(x).ndim - 1,))


def _tangent(*args, biased, sloped, wrt_bias, wrt_slopes, **params):
    n = 3 + biased + sloped
    operands, (o, lse), tangents = args[:n], args[n : n + 2], args[n + 2 :]
    dtype, shape = get_aval(o).dtype, get_aval(o).shape
    q, k, v, slope, p = _probabilities(operands, lse, biased, params)
    heads = get_aval(k).shape[1]
    tq, tk, tv = _grouped(widen(tangents[0]), heads), widen(tangents[1]), widen(tangents[2])
    ts = mul(add(_contract(tq, k, (4,), (3,)), _contract(q, tk, (4,), (3,))), like(q, params["scale"]))
    if slope is not None:
        ts = mul(ts, slope)
    if wrt_bias or wrt_slopes:
        full = (*shape[:3], get_aval(k).shape[2])
        tbias, tslopes = tangents[3] if wrt_bias else None, tangents[-1] if wrt_slopes else None
        ts = add(ts, _grouped(_linear_bias(tbias, tslopes, full), heads))
    ps = mul(p, ts)
    tlse = _last(ps)
    out = add(_contract(ps, v, (4,), (2,)), _contract(p, tv, (4,), (2,)))
    o5 = _grouped(widen(o), heads)
    out = sub(out, mul(o5, spread_last(tlse, get_aval(o5).shape)))
    return [narrow(reshape(out, shape), dtype), reshape(tlse, get_aval(lse).shape)]


def _cotangent(*args, biased, sloped, wrt_bias, wrt_slopes, **params):
    n = 3 + biased + sloped
    operands, (o, lse, do) = args[:n], args[n:]
    q, k, v, slope, p = _probabilities(operands, lse, biased, params)
    heads = get_aval(k).shape[1]
    o, do = _grouped(widen(o), heads), _grouped(widen(do), heads)
    dlogits = mul(p, sub(_contract(do, v, (4,), (3,)), spread_last(_last(mul(o, do)), get_aval(p).shape)))
    ds = dlogits if slope is None else mul(dlogits, slope)
    ds = mul(ds, like(ds, params["scale"]))
    outs = [_contract(ds, k, (4,), (2,)), _contract(ds, q, (2, 3), (2, 3)), _contract(p, do, (2, 3), (2, 3))]
    outs = [reshape(x, get_aval(a).shape) for x, a in zip(outs, operands)]
    b, hk, g, t, s = get_aval(p).shape
    dlogits = reshape(dlogits, (b, hk * g, t, s))
    bias, slopes = _split(operands, biased)
    if wrt_bias:
        outs.append(_unspread(dlogits, get_aval(bias), (0, 1, 2, 3)))
    if wrt_slopes:
        query, key = _positions((b, hk * g, t, s))
        distance = convert_element_type(abs(sub(query, key)), get_aval(dlogits).dtype)
        outs.append(neg(_unspread(mul(dlogits, distance), get_aval(slopes), (0, 1))))
    return [narrow(x, get_aval(a).dtype) for x, a in zip(outs, _moved(operands, biased, wrt_bias, wrt_slopes))]


# --- rules ------------------------------------------------------------------------------------------------------------


COMPOSED = 1 << 22  # scores of bfloat16 that are computed by products, where their rate is twice float32's (PAIRS), instead of by tiles
FEW = 256  # queries that meet a key up to which the kernel widens keys and values of 16 bits itself, each time they are met


def _kernel_inputs(ctx, ins, strided, stored=()):
    """Float32 or float64 values, but for `stored`; the first `strided` need a last axis of stride 1, the bias takes any strides."""
    ins = [v if i in stored else ctx.f32(v) for i, v in enumerate(ins)]
    return [v if i >= strided or v.strides[-1] == 1 else ctx.contiguous(v) for i, v in enumerate(ins)]


def _order(v):
    """The axes in the order in which v lies in memory: what becomes of heads beside each other is read beside each other, as a rule."""
    order = sorted(range(4), key=lambda i: -v.strides[i])
    return order if order[3] == 3 and v.strides[3] == 1 and 0 not in v.shape else None


def _are_halves(q, k, v):
    """Whether the kernels run on the processor's tile unit, with products of bfloat16 (att_amx_wants in attention_amx.h)."""
    many = q.shape[2] > 16 and q.shape[1] * q.shape[2] >= 64 * k.shape[1] and k.shape[2] >= 32
    return q.dtype == dtypes.BFLOAT16 and uses_amx() and many and min(q.shape[3], v.shape[3]) >= 24


def _is_composed(q, k, v, params):
    """Whether products of bfloat16 are faster than tiles of float32: where nothing is hidden, for some queries, and few enough scores."""
    if _are_halves(q, k, v):
        return False
    (b, h, t, d), s = q.shape, k.shape[2]
    plain = q.dtype == dtypes.BFLOAT16 and not (params["causal"] or params["window"] or params["softcap"] or params["sloped"])
    return plain and PAIRS and t >= 32 and s >= 32 and d >= 16 and b * h * t * s <= COMPOSED


def _scaled_scores(q, k, scale):
    scores = dot_general(_grouped(q, get_aval(k).shape[1]), k, (((4,), (3,)), ((0, 1), (0, 1))), preferred_element_type=dtypes.FLOAT32)
    return mul(scores, like(scores, scale))


def _composed(scale):
    """attention of bfloat16 by products of matrices: probabilities are rounded, as the operands of products are."""

    def attention(q, k, v):
        logits = _scaled_scores(q, k, scale)
        lse = logsumexp(logits)
        p = narrow(exp(sub(logits, spread_last(lse, get_aval(logits).shape))), dtypes.BFLOAT16)
        o = _contract(p, v, (4,), (2,))
        b, hk, g, t, dv = get_aval(o).shape
        return [reshape(o, (b, hk * g, t, dv)), reshape(lse, (b, hk * g, t))]

    return attention


def _composed_cotangent(scale):
    def cotangent(q, k, v, o, lse, do):
        heads = get_aval(k).shape[1]
        logits = _scaled_scores(q, k, scale)
        shape = get_aval(logits).shape
        p = exp(sub(logits, spread_last(_grouped(lse, heads), shape)))
        g = _grouped(do, heads)
        delta = _last(mul(widen(_grouped(o, heads)), widen(g)))
        dp = dot_general(g, v, (((4,), (3,)), ((0, 1), (0, 1))), preferred_element_type=dtypes.FLOAT32)
        ds = mul(mul(p, like(p, scale)), sub(dp, spread_last(delta, shape)))
        ds, p = narrow(ds, dtypes.BFLOAT16), narrow(p, dtypes.BFLOAT16)
        outs = [_contract(ds, k, (4,), (2,)), _contract(ds, _grouped(q, heads), (2, 3), (2, 3)), _contract(p, g, (2, 3), (2, 3))]
        return [reshape(x, get_aval(a).shape) for x, a in zip(outs, (q, k, v))]

    return cotangent


def _attention_lower(ctx, ins, params, out_avals):
    if len(ins) == 3 and _is_composed(*ins[:3], params):
        return ctx.compose(_composed(params["scale"]), ins)
    sloped = int(params["sloped"])
    met = ins[0].shape[1] * ins[0].shape[2]
    halves = _are_halves(*ins[:3])
    ip = (int(params["causal"]), int(len(ins) - sloped > 3), params["window"], sloped, int(halves))
    stored = (0, 1, 2) if halves else (1, 2) if met <= FEW * ins[1].shape[1] else ()
    ins, fp = _kernel_inputs(ctx, ins, 3, stored), (params["scale"], params["softcap"])
    how = dict(ip=ip, fp=fp, contiguous=False, orders=(_order(ins[0]), None))
    if halves:
        return ctx.kernel("attention_fwd", ins, out_avals, **how)
    return wide_kernel(ctx, "attention_fwd", ins, out_avals, stored, **how)


def _cotangent_lower(ctx, ins, params, out_avals):
    biased, sloped, *wrt = (int(params[k]) for k in ("biased", "sloped", "wrt_bias", "wrt_slopes"))
    operands, rest = ins[: 3 + biased + sloped], ins[3 + biased + sloped :]
    if not biased and _is_composed(*ins[:3], params):
        return ctx.compose(_composed_cotangent(params["scale"]), ins)
    halves = int(_are_halves(*ins[:3]))
    ins = _kernel_inputs(ctx, [*operands[:3], *rest, *operands[3:]], 6)
    ip, fp = (int(params["causal"]), biased, params["window"], sloped, *wrt, halves), (params["scale"], params["softcap"])
    return wide_kernel(ctx, "attention_bwd", ins, out_avals, ip=ip, fp=fp, contiguous=False)


def _attention_jvp(primals, tangents, *, sloped, **params):
    o, lse = attention_p.bind(*primals, sloped=sloped, **params)
    if all(type(t) is Zero for t in tangents):
        return [o, lse], [zero_of(o), zero_of(lse)]
    biased = len(primals) - sloped > 3
    which = dict(
        biased=biased,
        sloped=sloped,
        wrt_bias=biased and type(tangents[3]) is not Zero,
        wrt_slopes=sloped and type(tangents[-1]) is not Zero,
    )
    moved = map(instantiate, _moved(tangents, biased, which["wrt_bias"], which["wrt_slopes"]))
    return [o, lse], attention_tangent_p.bind(*primals, o, lse, *moved, **which, **params)


def _tangent_transpose(cts, *args, biased, sloped, **params):
    """The fused backward kernel.  It knows no cotangent of lse: one more column of v (0), o (1) and do (-dlse) stands for it,
    because it enters as sum(o * do) - dlse."""
    n = 3 + biased + sloped
    (q, k, v, *extra), (o, lse), moved = args[:n], args[n : n + 2], args[n + 2 :]
    do, dlse = cts
    params |= dict(biased=biased, sloped=sloped)
    if type(dlse) is Zero:
        out = attention_cotangent_p.bind(*args[:n], o, lse, do, **params)
    else:
        dtype, column = get_aval(o).dtype, (*get_aval(o).shape[:3], 1)
        v_wide = concatenate([v, full((*get_aval(v).shape[:3], 1), 0, dtype)], 3)
        o_wide = concatenate([o, full(column, 1, dtype)], 3)
        do_wide = concatenate([instantiate(do), narrow(reshape(neg(dlse), column), dtype)], 3)
        out = attention_cotangent_p.bind(q, k, v_wide, *extra, o_wide, lse, do_wide, **params)
        out[2] = slice_in_dim(out[2], 0, get_aval(v).shape[3], axis=3)
    return [None] * (n + 2) + [ct if is_linear(t) else None for ct, t in zip(out, moved)]


def _cotangent_transpose(cts, *args, **params):
    known = args[:-1]
    to, _ = attention_tangent_p.bind(*known, *map(instantiate, cts), **params)
    return [None] * len(known) + [to]


def _batch(prim):
    """The batch axis of vmap joins the batch axis of attention."""

    def batch(axis, args, dims, **params):
        sizes = [_first_size(x, d) for x, d in zip(args, dims)]
        first = 3 + params.get("biased", len(args) - params["sloped"] > 3) + params["sloped"]
        shared = prim is attention_p and all(d is None for d in dims[3:])
        merged = [
            x if shared and i >= 3 and sizes[i] == 1 else _merge(x, d, axis.size, sizes[0]) for i, (x, d) in enumerate(zip(args, dims))
        ]
        outs = [reshape(x, (axis.size, sizes[0], *get_aval(x).shape[1:])) for x in prim.bind(*merged, **params)]
        if prim is attention_cotangent_p:  # bias and slopes were spread over the batch: its sum is what their gradients are
            spread = [False] * 3 + [n != sizes[0] for n in sizes[3:first]]
            moved = _moved(spread, params["biased"], params["wrt_bias"], params["wrt_slopes"])
            outs = [expand_dims(reduce_sum(x, (1,)), (1,)) if m else x for x, m in zip(outs, moved)]
        return outs, [0] * len(outs)

    return batch


def _first_size(x, d):
    """The size of an argument's first axis beside its batch axis d."""
    return get_aval(x).shape[1 if d == 0 else 0]


def _merge(x, d, size, b):
    """An argument with its batch axis merged into its first one, which is spread to size b."""
    x = bdim_at_front(x, d, size)
    rest = get_aval(x).shape[2:]
    return reshape(broadcast_in_dim(x, (size, b, *rest), range(2 + len(rest))), (size * b, *rest))


def _linear_jvp(prim, reference, first_linear):
    """first_linear: position of the first linear argument, counted from the operands' end."""

    def jvp(primals, tangents, *, biased, sloped, **params):
        linear = tuple(range(3 + biased + sloped + first_linear, len(primals)))
        return jvp_by_reference(prim, reference, linear)(primals, tangents, biased=biased, sloped=sloped, **params)

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


def attention(q, k, v, bias=None, slopes=None, *, causal=False, window=0, scale=None, softcap=0.0):
    """(o, lse): softmax(softcap * tanh(scale * q.k / softcap) + bias - slope * |t + S - T - s|) v for every head, and the log of the
    softmax's sum.

    q (B, H, T, D), k (B, Hk, S, D), v (B, Hk, S, Dv), H a multiple of Hk (grouped queries share a key head). bias: (B, H, T, S) or 1 on
    any axis, slopes: (B, H) or (1, H), float32 or of q's dtype, or None. scale is 1/sqrt(D) by default; softcap 0 means none. Query t
    sees key s if s <= t + (S - T) (causal) and s > t + (S - T) - window (window > 0). A query that sees no key has o = 0 and
    lse = -inf. 16-bit inputs compute in float32 and have a float32 lse. Memory is O(T), in both directions, beside bias and its gradient.
    """
    if scale is None:
        scale = 1 / math.sqrt(get_aval(q).shape[-1]) if get_aval(q).shape[-1] else 1.0
    args = [q, k, v, *[x for x in (bias, slopes) if x is not None]]
    params = dict(causal=bool(causal), window=int(window), scale=float(scale), softcap=float(softcap))
    return tuple(attention_p.bind(*args, sloped=slopes is not None, **params))
