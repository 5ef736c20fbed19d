"""dot_product_attention with jax.nn's signature, and attention with more variants, on the fused primitive."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.lax import stop_gradient
from fgrad.ops.attention import attention
from fgrad.ops.elementwise import logistic
from fgrad.ops.fused import wide_dtype


def _four_axes(x):
    x = jnp.asarray(x)
    return jnp.expand_dims(x, tuple(range(4 - x.ndim))) if x.ndim < 4 else x


def _check(name, x, shape, dtype=None):
    """x must have this shape (-1 stands for any size) and dtype."""
    if x is None:
        return
    if x.ndim != len(shape):
        raise ValueError(f"{name} ndim should be {len(shape)}, but got {x.ndim} (shape {x.shape})")
    if dtype is not None and x.dtype != dtype:
        raise ValueError(f"{name} dtype should be {np.dtype(dtype).name}, but got {x.dtype.name}")
    if any(n not in (-1, m) for n, m in zip(shape, x.shape)):
        raise ValueError(f"{name} shape should be {shape} (-1: any size), but got {x.shape}")


def _mask(t, s, mask, causal, query_lengths, key_lengths, window):
    """The boolean mask of what the kernel does not mask by itself, broadcasting to (B, N, T, S), or None."""
    query, key = jnp.arange(t)[:, None], jnp.arange(s)[None, :]
    parts = [] if mask is None else [mask]
    if causal:
        parts.append((key <= query)[None, None])
    if window is not None:
        left, right = window
        parts.append(((query <= key + left) & (query >= key - right))[None, None])
    if query_lengths is not None:
        parts.append((query[None] < query_lengths[:, None, None])[:, None])
    if key_lengths is not None:
        parts.append((key[None] < key_lengths[:, None, None])[:, None])
    out = None
    for p in parts:
        out = p if out is None else out & p
    return out


def dot_product_attention(
    query,
    key,
    value,
    bias=None,
    mask=None,
    *,
    scale=None,
    is_causal=False,
    query_seq_lengths=None,
    key_value_seq_lengths=None,
    local_window_size=None,
    implementation=None,
    return_residual=False,
):
    """softmax(scale * query.key + bias) value, for every head, in tiles: the T x S scores are not stored.

    query: (B, T, N, H) or (T, N, H). key, value: (B, S, K, H) or (S, K, H), N a multiple of K (grouped queries).
    bias: added to the scores; broadcasts to (B, N, T, S). mask: boolean, True where a key takes part; broadcasts likewise.
    scale: 1 / sqrt(H) by default. is_causal: query t sees keys up to t. query_seq_lengths, key_value_seq_lengths: (B,) int32.
    local_window_size: (left, right) or an int for both: query t sees keys from t - left to t + right.
    implementation: None or "xla", which mean the same here.
    Returns an array of query's shape, and with return_residual also the logsumexp of the scores (B, T, N), without a gradient.
    A query whose keys are all masked gets the mean of the values, as in JAX (0 where the last of them are masked by is_causal).
    Raises ValueError for shapes that do not fit. 16-bit inputs compute in float32; where
    the processor multiplies pairs of bfloat16, up to 2^22 scores of those without a mask are stored, and their weights rounded.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> q = jnp.ones((1, 2, 1, 4))
    >>> fgrad.nn.dot_product_attention(q, q, q, is_causal=True).shape
    (1, 2, 1, 4)
    """
    if implementation not in (None, "xla"):
        raise ValueError(f"Unsupported implementation option: {implementation}. Use None.")
    out_shape = jnp.asarray(query).shape
    query, key, value = (_four_axes(x) for x in (query, key, value))
    bias, mask = (None if x is None else _four_axes(x) for x in (bias, mask))
    query_lengths, key_lengths = (None if x is None else jnp.asarray(x) for x in (query_seq_lengths, key_value_seq_lengths))
    _check("key", key, [-1] * 4)
    b, s, k, h = key.shape
    _check("value", value, [b, s, k, h], key.dtype)
    _check("query", query, [b, -1, -1, h], key.dtype)
    _check("mask", mask, [-1] * 4, dtypes.BOOL)
    _check("bias", bias, [-1] * 4)
    _check("query_seq_lengths", query_lengths, [b], dtypes.INT32)
    _check("key_value_seq_lengths", key_lengths, [b], dtypes.INT32)
    t, n = query.shape[1:3]
    if k == 0 or n % k:
        raise ValueError(f"The number of query heads must be a multiple of key/value heads, but got {n} vs {k}")
    if isinstance(local_window_size, (int, np.integer)):
        local_window_size = (local_window_size, local_window_size)

    if is_causal and s > t:  # no query sees a key from t on
        key, value, s = key[:, :t], value[:, :t], t
        bias, mask = (x if x is None or x.shape[3] == 1 else x[..., :t] for x in (bias, mask))
    causal = bool(is_causal) and s == t
    window = 0
    rest = local_window_size
    if rest is not None and s == t and (causal or rest[1] == 0 or rest[1] >= s) and min(rest) >= 0:
        causal, window, rest = causal or rest[1] == 0, min(rest[0], s) + 1, None
    mask = _mask(t, s, mask, is_causal and not causal, query_lengths, key_lengths, rest)

    wide = wide_dtype(query.dtype)
    sees = None
    if mask is not None:
        # A query that sees no key gets equal scores, as in JAX: no bias, and 0 in its place, so that no gradient goes through it.
        sees = jnp.any(mask, axis=-1, keepdims=True)
        query = jnp.where(jnp.swapaxes(sees, 1, 2), query, 0)
        bias = jnp.where(mask, jnp.zeros((), wide) if bias is None else bias.astype(wide), jnp.where(sees, -np.inf, 0).astype(wide))
    if bias is not None:
        if any(m not in (1, full) for m, full in zip(bias.shape, (b, n, t, s))):
            raise ValueError(f"bias and mask should broadcast to {(b, n, t, s)}, but together have shape {bias.shape}")
        bias = bias.astype(wide)
    if scale is None:
        scale = 1 / math.sqrt(h) if h else 1.0
    elif not isinstance(scale, (int, float, np.floating, np.integer)):
        query, scale = (query * scale).astype(key.dtype), 1.0
    o, lse = attention(*(jnp.swapaxes(x, 1, 2) for x in (query, key, value)), bias, causal=causal, window=window, scale=float(scale))
    o = jnp.swapaxes(o, 1, 2)
    if query_lengths is not None:
        o = o * (jnp.arange(t)[None, :] < query_lengths[:, None])[:, :, None, None].astype(o.dtype)
    o = jnp.reshape(o, out_shape)
    if not return_residual:
        return o
    if sees is not None:
        lse = jnp.where(sees[..., 0], lse, -0.7 * float(np.finfo(np.float32).max))
    return o, jnp.reshape(stop_gradient(jnp.swapaxes(lse, 1, 2).astype(query.dtype)), out_shape[:-1])


def alibi_slopes(heads, max_bias=8.0):
    """The slopes of attention with linear biases, one for each head (https://arxiv.org/abs/2108.12409), as a NumPy array.

    2^(-max_bias (h + 1) / heads) for a power of two; for other numbers of heads those of the next lower power of two, and then every
    second slope of the next higher one.
    """
    if heads < 1:
        raise ValueError(f"alibi_slopes: heads must be positive, got {heads}")
    power = 2 ** int(math.log2(heads))
    h = np.arange(heads)
    return np.where(h < power, 2.0 ** (-max_bias * (h + 1) / power), 2.0 ** (-max_bias * (2 * (h - power) + 1) / (2 * power)))


def attention_ext(query, key, value, bias=None, *, scale=None, is_causal=False, window=0, softcap=0.0, slopes=None, sinks=None):
    """Attention with the variants of current language models, in tiles: memory is O(T), forward and backward, beside `bias` itself.

    query: (B, T, N, H); key, value: (B, S, K, H), N a multiple of K (grouped queries). scale: 1 / sqrt(H) by default.
    is_causal, window: query t sees key s if s <= t + S - T, and if s > t + S - T - window (window > 0). softcap: above 0, scores
    become softcap * tanh(score / softcap). bias: added to the scores, broadcasts to (B, N, T, S); -inf hides. slopes: (N,), as
    alibi_slopes gives them: adds -slope * |t + S - T - s|. sinks: (N,) scores that take part in the softmax's sum only.
    A query that sees no key gives 0.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> q = jnp.ones((1, 4, 2, 8))
    >>> fgrad.nn.attention_ext(q, q, q, is_causal=True, window=2, softcap=30., sinks=jnp.zeros(2)).shape
    (1, 4, 2, 8)
    """
    query, key, value = (jnp.asarray(x) for x in (query, key, value))
    _check("query", query, [-1] * 4)
    _check("key", key, [query.shape[0], -1, -1, query.shape[3]], query.dtype)
    _check("value", value, [query.shape[0], key.shape[1], key.shape[2], -1], query.dtype)
    n, wide = query.shape[2], wide_dtype(query.dtype)
    if bias is not None:
        bias = _four_axes(bias).astype(wide)
    if slopes is not None:
        slopes = jnp.asarray(slopes, wide)
        _check("slopes", slopes, [n])
        slopes = slopes[None]
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (query, key, value))
    o, lse = attention(q, k, v, bias, slopes, causal=is_causal, window=window, scale=scale, softcap=softcap)
    if sinks is not None:
        sinks = jnp.asarray(sinks, wide)
        _check("sinks", sinks, [n])
        o = o * logistic(lse - sinks[:, None]).astype(o.dtype)[..., None]
    return jnp.swapaxes(o, 1, 2)
