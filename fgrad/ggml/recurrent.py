"""State space models and linear attention with a state, as scans over the tokens.

ggml returns a flat tensor with the output and then the state; these functions return the pair (output, state).
"""

import math

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.ggml.util import array, floats, need, need_rank
from fgrad.lax import scan
from fgrad.ops.shape import reshape

__all__ = [
    "gated_delta_net",
    "gated_linear_attn",
    "rwkv_wkv6",
    "rwkv_wkv7",
    "ssm_conv",
    "ssm_scan",
]


def ssm_conv(sx, c):
    """The depthwise convolution of Mamba: sx (sequences, channels, width - 1 + tokens), c (channels, width).

    The result is (sequences, tokens, channels).
    """
    sx, c = floats("ssm_conv", sx, c)
    need_rank("ssm_conv", "sx", sx, 3)
    width = c.shape[-1]
    tokens = sx.shape[2] - width + 1
    need(c.ndim == 2 and c.shape[0] == sx.shape[1] and tokens >= 0, "ssm_conv", f"c {c.shape} must be (channels, width) for sx {sx.shape}")
    out = jnp.zeros((sx.shape[0], sx.shape[1], tokens), sx.dtype)
    for k in range(width):
        out = out + sx[:, :, k : k + tokens] * c[:, k, None]
    return jnp.swapaxes(out, 1, 2)


def ssm_scan(s, x, dt, A, B, C, ids):
    """Mamba's selective scan: state = exp(dt A) state + dt x B, y = state . C, with dt after a softplus.

    s: (states, heads, dim, n), of which ids (sequences,) picks one for each sequence. x: (sequences, tokens, heads, dim);
    dt: (sequences, tokens, heads); A: (heads, n) or (heads, 1); B, C: (sequences, tokens, groups, n), heads a multiple of groups.
    Returns (y of x's shape, the states after the last token, (sequences, heads, dim, n)).
    """
    s, x, dt, A, B, C = floats("ssm_scan", s, x, dt, A, B, C)
    ids = array("ssm_scan", ids)
    for what, v, rank in (("s", s, 4), ("x", x, 4), ("dt", dt, 3), ("A", A, 2), ("B", B, 4), ("C", C, 4), ("ids", ids, 1)):
        need_rank("ssm_scan", what, v, rank)
    sequences, tokens, heads, dim = x.shape
    n, groups = s.shape[3], B.shape[2]
    need(s.shape[1:3] == (heads, dim) and ids.shape == (sequences,), "ssm_scan", f"s {s.shape} and ids {ids.shape} do not fit x {x.shape}")
    need(
        dt.shape == x.shape[:3] and A.shape in ((heads, n), (heads, 1)), "ssm_scan", f"dt {dt.shape} or A {A.shape} do not fit x {x.shape}"
    )
    need(
        B.shape == C.shape == (sequences, tokens, groups, n) and groups and heads % groups == 0,
        "ssm_scan",
        f"B {B.shape} and C {C.shape} must be {(sequences, tokens, 'groups', n)}, with groups that divide the {heads} heads",
    )
    dt = nn.softplus(dt)
    steps = [jnp.moveaxis(v, 1, 0) for v in (x, dt, B, C)]

    def step(state, row):
        x, dt, B, C = row
        B, C = (jnp.repeat(v, heads // groups, axis=1)[:, :, None, :] for v in (B, C))
        state = state * jnp.exp(dt[..., None] * A)[:, :, None, :] + (x * dt[..., None])[..., None] * B
        return state, jnp.sum(state * C, axis=-1)

    state, y = scan(step, s[ids], tuple(steps))
    return jnp.moveaxis(y, 0, 1), state


def _heads(name, state, *xs):
    """The operands (tokens, heads, size) as (tokens / sequences, sequences, heads, size), the state (sequences, heads, size, size)."""
    for x in xs:
        need(x.ndim == 3 and x.shape == xs[0].shape, name, f"the operands must be (tokens, heads, size) alike, got {[v.shape for v in xs]}")
    tokens, heads, size = xs[0].shape
    need(
        state.ndim == 2 and state.shape[1] == heads * size * size,
        name,
        f"the state {state.shape} must be (sequences, {heads * size * size})",
    )
    n = state.shape[0]
    need(n and tokens % n == 0, name, f"{tokens} tokens do not divide into {n} sequences")
    rows = [jnp.moveaxis(reshape(x, (n, tokens // n, heads, size)), 1, 0) for x in xs]
    return reshape(state, (n, heads, size, size)), rows


def _flat(state, y):
    """(the output (tokens, heads * size), the state (sequences, heads * size * size))"""
    y = jnp.moveaxis(y, 0, 1)
    n, tokens, heads, size = y.shape
    return reshape(y, (n * tokens, heads * size)), reshape(state, (n, heads * size * size))


def rwkv_wkv6(k, v, r, tf, td, state):
    """RWKV-6's time mixing (https://arxiv.org/abs/2404.05892): y = r (state + tf k v), state = td state + k v.

    k, v, r, td: (tokens, heads, size), the sequences one after another; tf: (heads, size); state: (sequences, heads * size * size).
    Returns (y (tokens, heads * size), the new state).
    """
    k, v, r, tf, td, state = floats("rwkv_wkv6", k, v, r, tf, td, state)
    state, rows = _heads("rwkv_wkv6", state, k, v, r, td)
    need(tf.shape == k.shape[1:], "rwkv_wkv6", f"tf {tf.shape} must be {k.shape[1:]}")

    def step(state, row):
        k, v, r, td = row
        kv = k[..., :, None] * v[..., None, :]
        y = jnp.einsum("nhi,nhij->nhj", r, state + tf[..., None] * kv)
        return state * td[..., None] + kv, y

    return _flat(*scan(step, state, tuple(rows)))


def gated_linear_attn(k, v, q, g, state, scale):
    """Gated linear attention (https://arxiv.org/abs/2312.06635): state = g state + k v, y = scale q state; operands as in rwkv_wkv6."""
    k, v, q, g, state = floats("gated_linear_attn", k, v, q, g, state)
    state, rows = _heads("gated_linear_attn", state, k, v, q, g)

    def step(state, row):
        k, v, q, g = row
        state = state * g[..., None] + k[..., :, None] * v[..., None, :]
        return state, scale * jnp.einsum("nhi,nhij->nhj", q, state)

    return _flat(*scan(step, state, tuple(rows)))


def rwkv_wkv7(r, w, k, v, a, b, state):
    """RWKV-7's generalised delta rule (https://arxiv.org/abs/2503.14456): state = w state + v k + (state a) b, y = state r.

    r, w, k, v, a, b: (tokens, heads, size), the sequences one after another; state: (sequences, heads * size * size), rows for v.
    Returns (y (tokens, heads * size), the new state).
    """
    r, w, k, v, a, b, state = floats("rwkv_wkv7", r, w, k, v, a, b, state)
    state, rows = _heads("rwkv_wkv7", state, r, w, k, v, a, b)

    def step(state, row):
        r, w, k, v, a, b = row
        removed = jnp.einsum("nhij,nhj->nhi", state, a)
        state = state * w[..., None, :] + v[..., :, None] * k[..., None, :] + removed[..., :, None] * b[..., None, :]
        return state, jnp.einsum("nhij,nhj->nhi", state, r)

    return _flat(*scan(step, state, tuple(rows)))


def gated_delta_net(q, k, v, g, beta, state, K=1):
    """The gated delta rule (https://arxiv.org/abs/2412.06464): state = exp(g) state, then + beta k (v - k state), y = q state / sqrt(size).

    q, k: (sequences or fewer, tokens, heads or fewer, size); v: (sequences, tokens, heads, size); g: (..., tokens, heads, 1), or
    (..., size) for a gate of each key feature; beta: (..., tokens, heads, 1); state: (sequences, heads, size of v, size of k).
    Query head h is head h % count of q and k. Returns (y of v's shape, states): after the last token, or with K > 1 after each of
    the last K, (K, sequences, heads, size, size), the latest first, 0 where there are fewer tokens.
    """
    q, k, v, g, beta, state = floats("gated_delta_net", q, k, v, g, beta, state)
    for what, x in (("q", q), ("k", k), ("v", v), ("g", g), ("beta", beta), ("state", state)):
        need_rank("gated_delta_net", what, x, 4)
    n, tokens, heads, size = v.shape
    if K < 1:
        raise ValueError(f"ggml.gated_delta_net: K must be 1 or more, got {K}")
    for what, x in (("q", q), ("k", k)):
        fits = x.shape[1::2] == (tokens, size) and x.shape[0] and x.shape[2] and n % x.shape[0] == 0 and heads % x.shape[2] == 0
        need(fits, "gated_delta_net", f"{what} {x.shape} does not fit v {v.shape}")
    need(g.shape in ((n, tokens, heads, 1), v.shape), "gated_delta_net", f"g {g.shape} must be {(n, tokens, heads, 1)} or {v.shape}")
    need(beta.shape == (n, tokens, heads, 1), "gated_delta_net", f"beta {beta.shape} must be {(n, tokens, heads, 1)}")
    need(state.shape == (n, heads, size, size), "gated_delta_net", f"the state {state.shape} must be {(n, heads, size, size)}")
    q, k = (jnp.tile(jnp.repeat(x, n // x.shape[0], axis=0), (1, 1, heads // x.shape[2], 1)) for x in (q, k))
    q = q / math.sqrt(size)

    def step(state, row):
        q, k, v, g, beta = row
        state = state * jnp.exp(g)[..., None, :]
        delta = beta * (v - jnp.einsum("nhji,nhi->nhj", state, k))
        state = state + delta[..., :, None] * k[..., None, :]
        return state, (jnp.einsum("nhji,nhi->nhj", state, q), state if K > 1 else None)

    last, (y, states) = scan(step, state, tuple(jnp.moveaxis(x, 1, 0) for x in (q, k, v, g, beta)))
    if K > 1:
        kept = jnp.flip(states[-K:], 0) if tokens else states
        last = jnp.pad(kept, [(0, K - kept.shape[0])] + [(0, 0)] * 4)
    return jnp.moveaxis(y, 0, 1), last
