"""softmax with ggml's masks and biases, rotary embeddings, attention, relative positions, and DeepSeek's indexer and streams."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.api import vjp
from fgrad.ggml.util import array, constant, floats, grouped, need, need_rank
from fgrad.ops.attention import attention as attention_op
from fgrad.ops.fused import wide_dtype
from fgrad.ops.rope import rope as rope_op
from fgrad.ops.shape import reshape

__all__ = [
    "ROPE_TYPE_IMROPE",
    "ROPE_TYPE_MROPE",
    "ROPE_TYPE_NEOX",
    "ROPE_TYPE_NORMAL",
    "ROPE_TYPE_VISION",
    "add_rel_pos",
    "dsv4_hc_comb",
    "dsv4_hc_post",
    "dsv4_hc_pre",
    "flash_attn_back",
    "flash_attn_ext",
    "get_rel_pos",
    "lightning_indexer",
    "rope",
    "rope_back",
    "rope_ext",
    "rope_ext_back",
    "rope_multi",
    "rope_multi_back",
    "rope_yarn_corr_dims",
    "soft_max",
    "soft_max_back",
    "soft_max_ext",
    "soft_max_ext_back",
]

ROPE_TYPE_NORMAL, ROPE_TYPE_NEOX, ROPE_TYPE_MROPE, ROPE_TYPE_VISION, ROPE_TYPE_IMROPE = 0, 2, 8, 24, 40


def _bias(name, mask, shape, max_bias, dtype):
    """The mask (.., heads, rows or more, columns) times the heads' ALiBi slopes; it broadcasts to `shape`, (.., heads, rows, columns)."""
    mask = array(name, mask).astype(dtype)
    need(mask.ndim >= 2 and mask.shape[-2] >= shape[-2], name, f"the mask {mask.shape} must have a row for each of the scores {shape}")
    mask = mask[..., : shape[-2], :]
    while mask.ndim > len(shape) and mask.shape[0] == 1:
        mask = mask[0]
    mask = reshape(mask, (1,) * (len(shape) - mask.ndim) + mask.shape)
    for i in range(len(shape) - 2):  # head h uses the mask h % count
        need(mask.shape[i] and shape[i] % mask.shape[i] == 0, name, f"the mask {mask.shape} does not repeat to the scores {shape}")
    reps = [n // m for n, m in zip(shape[:-2], mask.shape)]
    mask = mask if all(r == 1 or m == 1 for r, m in zip(reps, mask.shape)) else jnp.tile(mask, (*reps, 1, 1))
    if max_bias > 0:
        heads = shape[-3] if len(shape) > 2 else 1
        mask = mask * constant(nn.alibi_slopes(heads, max_bias), mask)[:, None, None]
    return mask


def soft_max(a, mask=None, scale=1.0, max_bias=0.0, sinks=None):
    """softmax(a * scale + slope * mask) of each row (ggml's soft_max, soft_max_ext and soft_max_add_sinks).

    a: (..., heads, rows, n). mask: (..., heads, rows or more, n), repeated over leading axes that it has fewer of; -inf hides.
    max_bias: above 0, the mask of head h is multiplied by its ALiBi slope. sinks: (heads,) scores that take part in the sum only.
    """
    a = floats("soft_max", a)
    if max_bias > 0 and mask is None:
        raise ValueError("ggml.soft_max: max_bias is the slope of a mask, and there is none")
    x = a * scale if scale != 1 else a
    if mask is not None:
        x = x + jnp.broadcast_to(_bias("soft_max", mask, a.shape, max_bias, a.dtype), a.shape)
    if sinks is None:
        return nn.softmax(x)
    sinks = array("soft_max", sinks).astype(a.dtype)
    need(a.ndim >= 3 and sinks.shape == (a.shape[-3],), "soft_max", f"sinks {sinks.shape} must have one score a head of {a.shape}")
    column = jnp.broadcast_to(sinks[:, None, None], (*x.shape[:-1], 1))
    return nn.softmax(jnp.concatenate([x, column], axis=-1))[..., :-1]


def soft_max_ext(a, mask, scale, max_bias):
    """soft_max with a mask (or None), a scale and ALiBi's largest bias."""
    return soft_max(a, mask, scale, max_bias)


def soft_max_back(a, b, scale=1.0, max_bias=0.0):
    """The cotangent of soft_max's argument for a cotangent a of its result b. max_bias must be 0, as in ggml."""
    a, b = floats("soft_max_back", a, b)
    if max_bias:
        raise ValueError(f"ggml.soft_max_back takes max_bias = 0 only, got {max_bias}")
    return scale * b * (a - jnp.sum(a * b, axis=-1, keepdims=True))


soft_max_ext_back = soft_max_back


# --- rope -----------------------------------------------------------------------------------------------------------------


def rope_yarn_corr_dims(n_dims, n_ctx_orig, freq_base, beta_fast, beta_slow):
    """The two dimensions between which YaRN goes from extrapolated to interpolated angles (https://arxiv.org/abs/2309.00071)."""

    def corr_dim(rotations):
        return n_dims * math.log(n_ctx_orig / (rotations * 2 * math.pi)) / (2 * math.log(freq_base))

    return max(0.0, math.floor(corr_dim(beta_fast))), min(n_dims - 1.0, math.ceil(corr_dim(beta_slow)))


def _sections(mode, n, sections):
    """(which of the four position rows, the exponent) of each of n pairs, for the modes with several positions a token."""
    total = sum(sections[:4])
    need(total > 0, "rope_multi", f"sections {tuple(sections)} must have a positive sum")
    sector = np.arange(n) % total
    starts = np.cumsum([0, *sections[:3]])
    if mode == ROPE_TYPE_IMROPE:
        row = np.full(n, 3)
        for r in range(3):
            row[(sector % 3 == r) & (sector < 3 * sections[r])] = r
    else:
        row = np.searchsorted(starts, sector, side="right") - 1
    exponent = sector - starts[row] if mode == ROPE_TYPE_VISION else np.arange(n)
    return row, exponent


def _angles(name, a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow):
    """(cos, sin) of shape (tokens, 1, pairs)."""
    if mode not in (ROPE_TYPE_NORMAL, ROPE_TYPE_NEOX, ROPE_TYPE_MROPE, ROPE_TYPE_VISION, ROPE_TYPE_IMROPE):
        raise ValueError(f"ggml.{name}: mode must be one of the ROPE_TYPE_ constants 0, 2, 8, 24 and 40, got {mode!r}")
    b, multi = array(name, b), mode >= ROPE_TYPE_MROPE
    need(a.ndim >= 3, name, f"a must be (..., tokens, heads, features), got {a.shape}")
    tokens, width = a.shape[-3], a.shape[-1]
    need(n_dims > 0 and n_dims % 2 == 0 and n_dims <= width, name, f"n_dims = {n_dims} must be even and within the last axis of {a.shape}")
    need(b.shape == (tokens * (4 if multi else 1),), name, f"{4 if multi else 1} position(s) a token of {a.shape}, got {b.shape}")
    need(mode != ROPE_TYPE_VISION or 2 * n_dims == width, name, f"mode vision needs n_dims = {width // 2}, got {n_dims}")
    pairs = n_dims if mode == ROPE_TYPE_VISION else n_dims // 2
    row, exponent = _sections(mode, pairs, sections) if multi else (np.zeros(pairs, int), np.arange(pairs))
    dtype = wide_dtype(a.dtype)
    positions = reshape(b, (b.shape[0] // tokens if tokens else 1, tokens))[row].T.astype(dtype)  # (tokens, pairs)
    theta = positions * jnp.asarray(float(freq_base) ** (-2.0 * exponent / n_dims), dtype)
    if c is not None:
        c = array(name, c).astype(dtype)
        need(c.ndim == 1 and c.shape[0] >= pairs, name, f"freq factors of shape {c.shape} must have at least {pairs} elements")
        theta = theta / c[:pairs]
    magnitude = float(attn_factor)
    inner = freq_scale * theta
    if ext_factor != 0:
        low, high = rope_yarn_corr_dims(n_dims, n_ctx_orig, freq_base, beta_fast, beta_slow)
        ramp = 1 - np.clip((np.arange(pairs) - low) / max(0.001, high - low), 0, 1)
        mix = jnp.asarray(ramp * ext_factor, dtype)
        inner = inner * (1 - mix) + theta * mix
        magnitude *= 1 + 0.1 * math.log(1 / freq_scale)
    return (jnp.cos(inner) * magnitude)[:, None, :], (jnp.sin(inner) * magnitude)[:, None, :]


def _turn(name, a, b, c, n_dims, sections, mode, numbers, inverse):
    a = floats(name, a)
    cos, sin = _angles(name, a, b, c, n_dims, sections, mode, *numbers)
    return rope_op(a, cos, sin, interleaved=mode == ROPE_TYPE_NORMAL, inverse=inverse)


def rope(a, b, n_dims, mode):
    """Rotary embedding with base 10000: a (..., tokens, heads, features), b (tokens,) positions; the first n_dims features turn."""
    return rope_ext(a, b, None, n_dims, mode, 0, 10000.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def rope_ext(a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow):
    """Rotary embedding with ggml's parameters.

    a: (..., tokens, heads, features); b: (tokens,) positions; c: divisors of the frequencies or None. mode: ROPE_TYPE_NORMAL turns
    pairs (2 i, 2 i + 1), ROPE_TYPE_NEOX pairs (i, i + n_dims / 2). ext_factor other than 0 mixes interpolated (freq_scale) and
    extrapolated angles as YaRN does.
    """
    numbers = (n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    return _turn("rope_ext", a, b, c, n_dims, None, mode, numbers, False)


def rope_multi(a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow):
    """Rotary embedding with four positions a token, b (4 * tokens,): time, height, width and one more, each for a section of the pairs.

    mode: ROPE_TYPE_MROPE, ROPE_TYPE_IMROPE (sections interleaved) or ROPE_TYPE_VISION (all features turn, n_dims is half of them).
    """
    numbers = (n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    return _turn("rope_multi", a, b, c, n_dims, sections, mode, numbers, False)


def rope_back(a, b, c, n_dims, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow):
    """The cotangent of rope_ext's argument for a cotangent a of its result: the rotation back."""
    numbers = (n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    return _turn("rope_back", a, b, c, n_dims, None, mode, numbers, True)


rope_ext_back = rope_back


def rope_multi_back(a, b, c, n_dims, sections, mode, n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow):
    """The cotangent of rope_multi's argument for a cotangent a of its result."""
    numbers = (n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    return _turn("rope_multi_back", a, b, c, n_dims, sections, mode, numbers, True)


# --- attention ------------------------------------------------------------------------------------------------------------


def _four(name, **arrays):
    for what, x in arrays.items():
        need_rank(name, what, x, 4)


def flash_attn_ext(q, k, v, mask, scale, max_bias=0.0, logit_softcap=0.0, sinks=None):
    """Attention in tiles: q (batch, heads, t, d), k (batch, heads_kv, s, d), v (batch, heads_kv, s, dv) give (batch, t, heads, dv).

    heads is a multiple of heads_kv. mask: (batch or 1, heads or fewer, t or more, s) added to the scores, times the ALiBi slopes
    when max_bias > 0, or None. logit_softcap: above 0, scores become cap * tanh(score / cap). sinks: (heads,) scores that take part
    in the sums only. A query that sees no key gives 0.
    """
    q, k, v = floats("flash_attn_ext", q, k, v)
    _four("flash_attn_ext", q=q, k=k, v=v)
    if max_bias > 0 and mask is None:
        raise ValueError("ggml.flash_attn_ext: max_bias is the slope of a mask, and there is none")
    b, h, t, _ = q.shape
    k, v = (grouped("flash_attn_ext", x, b, 0) for x in (k, v))
    bias = None
    if mask is not None:
        bias = _bias("flash_attn_ext", mask, (b, h, t, k.shape[2]), max_bias, wide_dtype(q.dtype))
    o, lse = attention_op(q, k, v, bias, scale=float(scale), softcap=float(logit_softcap))
    if sinks is not None:
        sinks = array("flash_attn_ext", sinks).astype(lse.dtype)
        need(sinks.shape == (h,), "flash_attn_ext", f"sinks {sinks.shape} must have one score for each of {h} heads")
        o = o * nn.sigmoid(lse - sinks[:, None]).astype(o.dtype)[..., None]
    return jnp.swapaxes(o, 1, 2)


def flash_attn_back(q, k, v, d, masked):
    """The cotangents (of q, k and v) of attention(q, k, v) / sqrt(features) for a cotangent d of its result, (batch, heads, t, dv).

    masked: query t sees keys up to t + s - size of t. ggml gives the three in one flat tensor.
    """
    q, k, v, d = floats("flash_attn_back", q, k, v, d)
    _four("flash_attn_back", q=q, k=k, v=v, d=d)
    scale = 1 / math.sqrt(q.shape[-1])
    return vjp(lambda *x: attention_op(*x, None, causal=bool(masked), scale=scale)[0], q, k, v)[1](d)


def get_rel_pos(a, qh, kh):
    """The relative position embeddings a (2 size - 1, channels) of each query and key place: (qh, kh, channels), qh = kh = size."""
    a = array("get_rel_pos", a)
    need(a.ndim == 2 and qh == kh and a.shape[0] == 2 * kh - 1, "get_rel_pos", f"a {a.shape} must have {2 * max(qh, kh) - 1} rows, qh = kh")
    return a[np.arange(qh)[:, None] + (kh - 1 - np.arange(kh))[None, :]]


def add_rel_pos(a, pw, ph):
    """Attention scores plus the parts of their relative positions in height and width (https://arxiv.org/abs/2112.01526).

    a: (batch, rows * columns, kh * kw), pw and ph: (batch, rows, columns, size) with kh = kw = size.
    """
    a, pw, ph = floats("add_rel_pos", a, pw, ph)
    need(pw.ndim == 4 and pw.shape == ph.shape, "add_rel_pos", f"pw {pw.shape} and ph {ph.shape} must have one shape of 4 axes")
    b, h, w, n = pw.shape
    need(a.shape == (b, h * w, n * n), "add_rel_pos", f"a {a.shape} must be {(b, h * w, n * n)}")
    out = reshape(a, (b, h, w, n, n)) + ph[..., :, None] + pw[..., None, :]
    return reshape(out, a.shape)


# --- DeepSeek -------------------------------------------------------------------------------------------------------------


def lightning_indexer(q, k, weights, mask):
    """sum over heads of weights * relu(q . k), plus the mask: which keys a sparse attention reads.

    q: (streams, tokens, heads, d); k: (streams, keys, 1, d); weights: (streams, 1, tokens, heads); mask: (streams or fewer, 1,
    tokens, keys). The result is (streams, 1, tokens, keys).
    """
    q, k, weights = floats("lightning_indexer", q, k, weights)
    mask = array("lightning_indexer", mask).astype(q.dtype)
    _four("lightning_indexer", q=q, k=k, weights=weights, mask=mask)
    s, t, h, d = q.shape
    keys = k.shape[1]
    need(k.shape == (s, keys, 1, d), "lightning_indexer", f"k {k.shape} must be (streams, keys, 1, features) for q {q.shape}")
    need(weights.shape == (s, 1, t, h), "lightning_indexer", f"weights {weights.shape} must be {(s, 1, t, h)}")
    n = mask.shape[0]
    need(n and s % n == 0 and mask.shape[1:] == (1, t, keys), "lightning_indexer", f"mask {mask.shape} must be {(s, 1, t, keys)}")
    scores = nn.relu(jnp.einsum("sthd,skd->sthk", q, k[:, :, 0]))
    return jnp.einsum("sthk,sth->stk", scores, weights[:, 0])[:, None] + jnp.tile(mask, (s // n, 1, 1, 1))


def dsv4_hc_comb(mixes, scale, base, eps, n_iter):
    """Matrices that mix hc residual streams, made doubly stochastic by n_iter Sinkhorn steps (hyper-connections).

    mixes: (tokens, (2 + hc) * hc); scale: (3,) or longer; base: ((2 + hc) * hc,). The last hc * hc columns are the matrices; the
    result is (tokens, source, target).
    """
    mixes, scale, base = floats("dsv4_hc_comb", mixes, scale, base)
    need_rank("dsv4_hc_comb", "mixes", mixes, 2)
    hc = math.isqrt(mixes.shape[1] + 1) - 1
    need((2 + hc) * hc == mixes.shape[1] and hc > 0, "dsv4_hc_comb", f"mixes {mixes.shape} must have (2 + hc) * hc columns")
    need(base.shape == mixes.shape[1:], "dsv4_hc_comb", f"base {base.shape} must be {mixes.shape[1:]}")
    need(scale.ndim == 1 and scale.shape[0] >= 3, "dsv4_hc_comb", f"scale {scale.shape} must have 3 elements or more")
    if n_iter <= 0:
        raise ValueError(f"ggml.dsv4_hc_comb: n_iter must be positive, got {n_iter}")
    x = reshape(mixes[:, 2 * hc :] * scale[2] + base[2 * hc :], (mixes.shape[0], hc, hc))
    x = nn.softmax(x) + eps
    x = x / (jnp.sum(x, axis=1, keepdims=True) + eps)
    for _ in range(n_iter - 1):
        x = x / (jnp.sum(x, axis=2, keepdims=True) + eps)
        x = x / (jnp.sum(x, axis=1, keepdims=True) + eps)
    return x


def dsv4_hc_pre(x, weights):
    """The weighted sum of the streams of each token: x (tokens, hc, n), weights (tokens, hc) give (tokens, n)."""
    x, weights = floats("dsv4_hc_pre", x, weights)
    need(x.ndim == 3 and weights.shape == x.shape[:2], "dsv4_hc_pre", f"weights {weights.shape} must be the first axes of x {x.shape}")
    return jnp.einsum("thn,th->tn", x, weights)


def dsv4_hc_post(x, residual, post, comb):
    """The streams after a block: out[t, j] = x[t] * post[t, j] + sum over i of comb[t, i, j] * residual[t, i].

    x: (tokens, n); residual: (tokens, hc, n); post: (tokens, hc); comb: (tokens, hc, hc).
    """
    x, residual, post, comb = floats("dsv4_hc_post", x, residual, post, comb)
    need_rank("dsv4_hc_post", "residual", residual, 3)
    t, hc, n = residual.shape
    need(
        x.shape == (t, n) and post.shape == (t, hc) and comb.shape == (t, hc, hc),
        "dsv4_hc_post",
        f"x {x.shape}, post {post.shape} and comb {comb.shape} do not fit residual {residual.shape}",
    )
    return x[:, None, :] * post[:, :, None] + jnp.einsum("tij,tin->tjn", comb, residual)
