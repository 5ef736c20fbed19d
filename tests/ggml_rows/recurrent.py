"""Recurrent ops against loops over sequences, tokens and heads."""

import math

import numpy as np

from fgrad import ggml
from tests.ggml_rows.case import Case, numbers

N, T, H, D = 2, 3, 2, 3  # sequences, tokens of each, heads, size
IDS = np.array([2, 0])


def tokens(seed, low=-1.0):
    return numbers(seed, N * T, H, D, low=low)


STATE = numbers(80, N, H * D * D)


def loop(step, state, *xs):
    """step(state matrix, h, operands of one token and head) -> (new matrix, output), one after another."""
    out, state = np.zeros((N * T, H, D)), state.reshape(N, H, D, D).copy()
    for i in range(N * T):
        for h in range(H):
            state[i // T, h], out[i, h] = step(state[i // T, h], h, *[x[i, h] for x in xs])
    return out.reshape(N * T, H * D), state.reshape(N, -1)


def wkv6(k, v, r, tf, td, state):
    def step(s, h, k, v, r, td):
        kv = np.outer(k, v)
        return s * td[:, None] + kv, r @ (s + tf[h][:, None] * kv)

    return loop(step, state, k, v, r, td)


def gla(k, v, q, g, state, scale=0.7):
    def step(s, h, k, v, q, g):
        s = s * g[:, None] + np.outer(k, v)
        return s, scale * q @ s

    return loop(step, state, k, v, q, g)


def wkv7(r, w, k, v, a, b, state):
    def step(s, h, r, w, k, v, a, b):
        s = s * w[None, :] + np.outer(v, k) + np.outer(s @ a, b)
        return s, s @ r

    return loop(step, state, r, w, k, v, a, b)


def ssm_conv(sx, c):
    n, ch, t = sx.shape[0], sx.shape[1], sx.shape[2] - c.shape[1] + 1
    return np.array([[[sx[i, j, k : k + c.shape[1]] @ c[j] for j in range(ch)] for k in range(t)] for i in range(n)])


def ssm_scan(s, x, dt, A, B, C):
    heads, groups = x.shape[2], B.shape[2]
    state, y = s[IDS].copy(), np.zeros(x.shape)
    for i, t, h in np.ndindex(x.shape[:3]):
        d, g = math.log1p(math.exp(dt[i, t, h])), h // (heads // groups)
        for j in range(x.shape[3]):
            state[i, h, j] = state[i, h, j] * np.exp(d * A[h]) + x[i, t, h, j] * d * B[i, t, g]
            y[i, t, h, j] = state[i, h, j] @ C[i, t, g]
    return y, state


def delta(q, k, v, g, beta, state, K=1):
    n, t, h, d = v.shape
    y, states, state = np.zeros(v.shape), [], state.copy()
    for step in range(t):
        for i, j in np.ndindex(n, h):
            m = state[i, j] * np.exp(g[i, step, j])[None, :]
            key, query = (x[i // (n // x.shape[0]), step, j % x.shape[2]] for x in (k, q))
            m = m + np.outer((v[i, step, j] - m @ key) * beta[i, step, j, 0], key)
            y[i, step, j] = m @ query / math.sqrt(d)
            state[i, j] = m
        states.append(state.copy())
    if K == 1:
        return y, state
    kept = states[::-1][:K]
    return y, np.array(kept + [np.zeros_like(state)] * (K - len(kept)))


SSM = [numbers(81, 3, 4, 2, 3), numbers(82, 2, 3, 4, 2), numbers(83, 2, 3, 4), -numbers(84, 4, 3, low=0.1)]
SSM += [numbers(85, 2, 3, 2, 3), numbers(86, 2, 3, 2, 3)]
NET = [numbers(87, 1, 3, 2, 3), numbers(88, 2, 3, 1, 3), numbers(89, 2, 3, 2, 3), numbers(90, 2, 3, 2, 1), numbers(91, 2, 3, 2, 1)]
NET += [numbers(92, 2, 2, 3, 3)]
WIDE = [*NET[:3], numbers(93, 2, 3, 2, 3), *NET[4:]]

CASES = [
    Case("ssm_conv", ggml.ssm_conv, [numbers(94, 2, 3, 6), numbers(95, 3, 3)], ssm_conv),
    Case("ssm_scan", lambda *x: ggml.ssm_scan(*x, IDS), SSM, ssm_scan),
    Case("ssm_scan", lambda *x: ggml.ssm_scan(*x, IDS), [*SSM[:3], SSM[3][:, :1], *SSM[4:]], ssm_scan, label="mamba 2", order=1),
    Case("rwkv_wkv6", ggml.rwkv_wkv6, [tokens(96), tokens(97), tokens(98), numbers(99, H, D), tokens(100), STATE], wkv6),
    Case("gated_linear_attn", lambda *x: ggml.gated_linear_attn(*x, 0.7), [*[tokens(i) for i in range(101, 105)], STATE], gla),
    Case("rwkv_wkv7", ggml.rwkv_wkv7, [*[tokens(i) for i in range(105, 111)], STATE], wkv7),
    Case("gated_delta_net", ggml.gated_delta_net, NET, delta),
    Case("gated_delta_net", lambda *x: ggml.gated_delta_net(*x, K=2), WIDE, lambda *x: delta(*x, K=2), label="wide", order=1),
    Case("gated_delta_net", lambda *x: ggml.gated_delta_net(*x, K=5), NET, lambda *x: delta(*x, K=5), label="early", order=1),
]
