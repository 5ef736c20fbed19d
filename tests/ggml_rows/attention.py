"""softmax, rope, attention and what belongs to it, against loops in NumPy."""

import math

import numpy as np

from fgrad import ggml
from tests.ggml_rows.case import Case, numbers, softmax

S = numbers(40, 2, 3, 4, 5)
MASK = np.where(numbers(41, 1, 1, 6, 5) > 0.7, -np.inf, numbers(42, 1, 1, 6, 5))
MASK[..., 0] = 0.3  # every row sees a key
SINKS = numbers(43, 3)
FINITE = numbers(44, 2, 1, 4, 5)


def slopes(heads, bias):
    n = 2 ** int(math.floor(math.log2(heads)))
    low, high = 2 ** (-bias / n), 2 ** (-bias / 2 / n)
    return [low ** (h + 1) if h < n else high ** (2 * (h - n) + 1) for h in range(heads)]


def soft_max(a, mask=None, scale=1.0, bias=0.0, sinks=None):
    out = np.zeros(a.shape)
    factor = slopes(a.shape[1], bias) if bias else [1.0] * a.shape[1]
    for i, h, t in np.ndindex(a.shape[:3]):
        x = a[i, h, t] * scale
        if mask is not None:
            x = x + factor[h] * mask[i % mask.shape[0], h % mask.shape[1], t]
        e = np.exp(x)
        out[i, h, t] = e / (e.sum() + (0 if sinks is None else np.exp(sinks[h])))
    return out


CASES = [
    Case("soft_max", ggml.soft_max, [S], softmax),
    Case("soft_max", lambda a: ggml.soft_max_ext(a, MASK, 0.7, 0.0), [S], lambda a: soft_max(a, MASK, 0.7), label="mask"),
    Case("soft_max", lambda a, m: ggml.soft_max_ext(a, m, 0.7, 8.0), [S, FINITE], lambda a, m: soft_max(a, m, 0.7, 8), label="alibi"),
    Case(
        "soft_max",
        lambda a, s: ggml.soft_max(a, MASK, 0.7, 4.0, s),
        [S, SINKS],
        lambda a, s: soft_max(a, MASK, 0.7, 4, s),
        label="sinks",
    ),
    Case(
        "soft_max_back",
        lambda g, y: ggml.soft_max_back(g, y, 0.7, 0.0),
        [S, softmax(S[::-1])],
        lambda g, y: 0.7 * y * (g - (g * y).sum(-1, keepdims=True)),
    ),
]

# --- rope -----------------------------------------------------------------------------------------------------------------

R = numbers(45, 2, 3, 2, 8)
POSITIONS = np.array([0, 3, 11])
FACTORS = np.array([1.0, 1.5, 2.0, 3.0])
YARN = (64, 10000.0, 0.25, 0.8, 1.1, 32.0, 1.0)
PLAIN = (0, 500.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def corr_dim(n_dims, n_ctx, rotations, base):
    return n_dims * math.log(n_ctx / (rotations * 2 * math.pi)) / (2 * math.log(base))


def turned(a, theta_of, pairs, magnitude=1.0, sign=1):
    """Pairs (i, j) of a's features turned by theta_of(token, pair number)."""
    out = a.copy()
    for t in range(a.shape[1]):
        for n, (i, j) in enumerate(pairs):
            c, s = math.cos(theta_of(t, n)) * magnitude, sign * math.sin(theta_of(t, n)) * magnitude
            out[:, t, :, i] = a[:, t, :, i] * c - a[:, t, :, j] * s
            out[:, t, :, j] = a[:, t, :, i] * s + a[:, t, :, j] * c
    return out


def rope(a, n_dims, neox, numbers_, factors=None, sign=1):
    n_ctx, base, scale, ext, attn, fast, slow = numbers_
    magnitude = attn * (1 + 0.1 * math.log(1 / scale)) if ext else attn

    def theta(t, n):
        extrapolated = POSITIONS[t] * base ** (-2 * n / n_dims) / (1 if factors is None else factors[n])
        if not ext:
            return scale * extrapolated
        low = max(0, math.floor(corr_dim(n_dims, n_ctx, fast, base)))
        high = min(n_dims - 1, math.ceil(corr_dim(n_dims, n_ctx, slow, base)))
        mix = ext * (1 - min(1, max(0, (n - low) / max(0.001, high - low))))
        return scale * extrapolated * (1 - mix) + extrapolated * mix

    half = n_dims // 2
    return turned(a, theta, [(i, i + half) if neox else (2 * i, 2 * i + 1) for i in range(half)], magnitude, sign)


FOUR = np.array([0, 3, 11, 1, 5, 2, 4, 0, 7, 2, 2, 9])
SECTIONS = (2, 1, 1, 0)


def rope_multi(a, mode):
    half, base = 4, 100.0
    starts = {0: 0, 1: 2, 2: 3}

    def theta(t, n):
        if mode == ggml.ROPE_TYPE_IMROPE:
            row = n % 3 if n < 3 * SECTIONS[n % 3] else 3
        else:
            row = 0 if n < 2 else 1 if n < 3 else 2
        power = n - starts[row] if mode == ggml.ROPE_TYPE_VISION else n
        n_dims = 4 if mode == ggml.ROPE_TYPE_VISION else 8
        return FOUR[row * 3 + t] * base ** (-2 * power / n_dims)

    return turned(a, theta, [(i, i + half) for i in range(half)])


def multi(a, mode):
    n_dims = 4 if mode == ggml.ROPE_TYPE_VISION else 8
    return ggml.rope_multi(a, FOUR, None, n_dims, SECTIONS, mode, 0, 100.0, 1.0, 0.0, 1.0, 0.0, 0.0)


def call(fun, n_dims, mode, numbers_, factors=None):
    return lambda a: fun(a, POSITIONS, factors, n_dims, mode, *numbers_)


CASES += [
    Case("rope", lambda a: ggml.rope(a, POSITIONS, 8, 0), [R], lambda a: rope(a, 8, False, (0, 1e4, 1, 0, 1, 0, 0))),
    Case("rope", lambda a: ggml.rope(a, POSITIONS, 4, 2), [R], lambda a: rope(a, 4, True, (0, 1e4, 1, 0, 1, 0, 0)), label="neox partial"),
    Case("rope", call(ggml.rope_ext, 8, 0, PLAIN, FACTORS), [R], lambda a: rope(a, 8, False, PLAIN, FACTORS), label="factors"),
    Case("rope", call(ggml.rope_ext, 8, 2, YARN), [R], lambda a: rope(a, 8, True, YARN), label="yarn"),
    Case("rope", lambda a: multi(a, 8), [R], lambda a: rope_multi(a, 8), label="mrope"),
    Case("rope", lambda a: multi(a, 24), [R], lambda a: rope_multi(a, 24), label="vision"),
    Case("rope", lambda a: multi(a, 40), [R], lambda a: rope_multi(a, 40), label="imrope"),
    Case("rope_back", call(ggml.rope_back, 4, 0, PLAIN), [R], lambda a: rope(a, 4, False, PLAIN, sign=-1)),
    Case("rope_back", call(ggml.rope_back, 8, 2, YARN), [R], lambda a: rope(a, 8, True, YARN, sign=-1), label="yarn"),
]

# --- attention ------------------------------------------------------------------------------------------------------------

Q, K, V = numbers(50, 2, 4, 3, 4), numbers(51, 2, 2, 5, 4), numbers(52, 2, 2, 5, 6)
SEEN = np.where(numbers(53, 1, 2, 4, 5) > 0.5, -np.inf, numbers(54, 1, 2, 4, 5))
SEEN[..., 1] = 0.1
SINK4 = numbers(55, 4)


def flash(q, k, v, mask=None, scale=0.5, bias=0.0, cap=0.0, sinks=None):
    out = np.zeros((q.shape[0], q.shape[2], q.shape[1], v.shape[3]))
    factor = slopes(q.shape[1], bias) if bias else [1.0] * q.shape[1]
    for b, h, t in np.ndindex(q.shape[:3]):
        kv = h // (q.shape[1] // k.shape[1])
        x = scale * k[b, kv] @ q[b, h, t]
        x = cap * np.tanh(x / cap) if cap else x
        if mask is not None:
            x = x + factor[h] * mask[b % mask.shape[0], h % mask.shape[1], t]
        e = np.exp(x)
        out[b, t, h] = e / (e.sum() + (0 if sinks is None else np.exp(sinks[h]))) @ v[b, kv]
    return out


def flash_back(q, k, v, d, masked):
    """The formulas of attention's backward pass, head by head."""
    outs = [np.zeros_like(x) for x in (q, k, v)]
    scale = 1 / math.sqrt(q.shape[3])
    for b, h in np.ndindex(q.shape[:2]):
        kv = h // (q.shape[1] // k.shape[1])
        scores = scale * q[b, h] @ k[b, kv].T
        if masked:
            scores = np.where(np.arange(5)[None] > np.arange(3)[:, None] + 2, -np.inf, scores)
        p = softmax(scores)
        dp = d[b, h] @ v[b, kv].T
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
        outs[0][b, h] += ds @ k[b, kv]
        outs[1][b, kv] += ds.T @ q[b, h]
        outs[2][b, kv] += p.T @ d[b, h]
    return tuple(outs)


D = numbers(56, 2, 4, 3, 6)


def rel_pos(a):
    return np.array([[a[i - j + 2] for j in range(3)] for i in range(3)])


def add_rel_pos(a, pw, ph):
    out = a.reshape(2, 2, 2, 3, 3).copy()
    for b, y, x, i, j in np.ndindex(out.shape):
        out[b, y, x, i, j] += ph[b, y, x, i] + pw[b, y, x, j]
    return out.reshape(a.shape)


def indexer(q, k, w, m):
    out = np.zeros((2, 1, 3, 5))
    for s, t, i in np.ndindex(2, 3, 5):
        out[s, 0, t, i] = m[s % m.shape[0], 0, t, i] + sum(max(q[s, t, h] @ k[s, i, 0], 0) * w[s, 0, t, h] for h in range(2))
    return out


def hc_comb(mixes, scale, base, eps=1e-3, n=3, hc=2):
    out = []
    for row in mixes:
        x = softmax((row[2 * hc :] * scale[2] + base[2 * hc :]).reshape(hc, hc)) + eps
        x = x / (x.sum(0) + eps)
        for _ in range(n - 1):
            x = x / (x.sum(1, keepdims=True) + eps)
            x = x / (x.sum(0) + eps)
        out.append(x)
    return np.array(out)


def hc_post(x, r, post, comb):
    out = np.zeros(r.shape)
    for t, j in np.ndindex(post.shape):
        out[t, j] = x[t] * post[t, j] + sum(comb[t, i, j] * r[t, i] for i in range(r.shape[1]))
    return out


CASES += [
    Case("flash_attn_ext", lambda q, k, v: ggml.flash_attn_ext(q, k, v, None, 0.5), [Q, K, V], flash),
    Case(
        "flash_attn_ext",
        lambda q, k, v: ggml.flash_attn_ext(q, k, v, SEEN, 0.5, 8.0),
        [Q, K, V],
        lambda q, k, v: flash(q, k, v, SEEN, 0.5, 8.0),
        label="mask and alibi",
    ),
    Case(
        "flash_attn_ext",
        lambda q, k, v, m, s: ggml.flash_attn_ext(q, k, v, m, 0.5, 4.0, 1.5, s),
        [Q, K, V, FINITE[:, :, :3], SINK4],
        lambda q, k, v, m, s: flash(q, k, v, m, 0.5, 4.0, 1.5, s),
        label="all",
        order=1,
    ),
    Case("flash_attn_back", lambda *x: ggml.flash_attn_back(*x, False), [Q, K, V, D], lambda *x: flash_back(*x, False), order=1),
    Case(
        "flash_attn_back", lambda *x: ggml.flash_attn_back(*x, True), [Q, K, V, D], lambda *x: flash_back(*x, True), label="masked", order=1
    ),
    Case("get_rel_pos", lambda a: ggml.get_rel_pos(a, 3, 3), [numbers(57, 5, 2)], rel_pos),
    Case("add_rel_pos", ggml.add_rel_pos, [numbers(58, 2, 4, 9), numbers(59, 2, 2, 2, 3), numbers(60, 2, 2, 2, 3)], add_rel_pos),
    Case(
        "lightning_indexer",
        ggml.lightning_indexer,
        [numbers(61, 2, 3, 2, 4), numbers(62, 2, 5, 1, 4), numbers(63, 2, 1, 3, 2), numbers(64, 1, 1, 3, 5)],
        indexer,
    ),
    Case(
        "dsv4_hc_comb",
        lambda m, s, b: ggml.dsv4_hc_comb(m, s, b, 1e-3, 3),
        [numbers(65, 3, 8), numbers(66, 3), numbers(67, 8)],
        hc_comb,
    ),
    Case("dsv4_hc_pre", ggml.dsv4_hc_pre, [numbers(68, 3, 2, 4), numbers(69, 3, 2)], lambda x, w: (x * w[..., None]).sum(1)),
    Case(
        "dsv4_hc_post",
        ggml.dsv4_hc_post,
        [numbers(70, 3, 4), numbers(68, 3, 2, 4), numbers(69, 3, 2), numbers(71, 3, 2, 2)],
        hc_post,
    ),
]
