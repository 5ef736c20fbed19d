"""Models written once for fgrad and JAX, and their parameters as NumPy arrays."""

import math
from types import SimpleNamespace

import numpy

from benchmarks.workload import normal


def mlp_params(rng, widths):
    return [{"w": normal(rng, k, n, scale=math.sqrt(2 / k)), "b": numpy.zeros(n, numpy.float32)} for k, n in zip(widths, widths[1:])]


def mlp(m, params, x):
    for layer in params[:-1]:
        x = m.np.maximum(x @ layer["w"] + layer["b"], 0)
    return x @ params[-1]["w"] + params[-1]["b"]


def mlp_loss(m, params, x, y):
    return m.np.mean(m.nn.softmax_cross_entropy_with_integer_labels(mlp(m, params, x), y))


def sgd_step(m, loss, lr=0.05):
    """step(params, *data) -> (params, value), not jitted."""

    def step(params, *data):
        value, grads = m.value_and_grad(loss)(params, *data)
        return m.tree.map(lambda p, g: p - lr * g, params, grads), value

    return step


def adamw_step(m, loss, optimizer):
    def step(params, state, *data):
        value, grads = m.value_and_grad(loss)(params, *data)
        updates, state = optimizer.update(grads, state, params)
        return m.optim.apply_updates(params, updates), state, value

    return step


def stepper(step, *state):
    """A call without arguments of `step(*state) -> (*state, value)`; state goes from call to call."""
    box = list(state)

    def call():
        *box[:], value = step(*box)
        return box, value

    return call


LLAMA = SimpleNamespace(layers=4, dim=128, heads=4, hidden=352, vocab=256)


def llama_params(rng, c):
    dense = lambda k, n: normal(rng, k, n, scale=1 / math.sqrt(k))  # noqa: E731
    ones = lambda: numpy.ones(c.dim, numpy.float32)  # noqa: E731

    def layer():
        return {
            "norm1": ones(),
            "qkv": dense(c.dim, 3 * c.dim),
            "out": dense(c.dim, c.dim) / numpy.float32(math.sqrt(2 * c.layers)),
            "norm2": ones(),
            "gate": dense(c.dim, c.hidden),
            "up": dense(c.dim, c.hidden),
            "down": dense(c.hidden, c.dim) / numpy.float32(math.sqrt(2 * c.layers)),
        }

    return {
        "embed": normal(rng, c.vocab, c.dim, scale=0.02),
        "layers": [layer() for _ in range(c.layers)],
        "norm": ones(),
        "head": dense(c.dim, c.vocab),
    }


def llama(m, c, params, tokens):
    """Logits (B, T, vocab). RMSNorm, rotary positions, causal attention, SwiGLU."""
    b, t = tokens.shape
    head = c.dim // c.heads
    x = params["embed"][tokens]
    tables = tuple(v[:, None, :] for v in m.nn.rope_angles(m.np.arange(t), head))
    for p in params["layers"]:
        h = m.nn.rms_norm(x, p["norm1"]) @ p["qkv"]
        q, k, v = (m.np.reshape(a, (b, t, c.heads, head)) for a in m.np.split(h, 3, axis=-1))
        a = m.nn.dot_product_attention(m.nn.rope(q, tables), m.nn.rope(k, tables), v, is_causal=True)
        x = x + m.np.reshape(a, (b, t, c.dim)) @ p["out"]
        h = m.nn.rms_norm(x, p["norm2"])
        x = x + m.nn.swiglu(h @ p["gate"], h @ p["up"]) @ p["down"]
    return m.nn.rms_norm(x, params["norm"]) @ params["head"]


def llama_loss(m, c):
    def loss(params, tokens):
        return m.np.mean(m.nn.softmax_cross_entropy_with_integer_labels(llama(m, c, params, tokens[:, :-1]), tokens[:, 1:]))

    return loss


def llama_flops(c, tokens, context):
    """Matrix products of one training step: 6 per weight and token, and the causal half of attention forward and backward."""
    weights = c.layers * (4 * c.dim * c.dim + 3 * c.dim * c.hidden) + c.dim * c.vocab
    return 6 * weights * tokens + c.layers * 6 * tokens * context * c.dim


def torch_llama(m, c, params, tokens):
    """The same model in PyTorch, with its fused functions."""
    t, F = m.torch, m.F
    b, n = tokens.shape
    head = c.dim // c.heads
    x = F.embedding(tokens, params["embed"])
    angles = t.arange(n)[:, None] * 10000.0 ** (-2.0 * t.arange(head // 2) / head)
    cos, sin = angles.cos(), angles.sin()

    def rope(x):
        u, v = x.chunk(2, -1)
        return t.cat([u * cos - v * sin, v * cos + u * sin], -1)

    for p in params["layers"]:
        h = F.rms_norm(x, (c.dim,), p["norm1"], 1e-6) @ p["qkv"]
        q, k, v = (a.view(b, n, c.heads, head).transpose(1, 2) for a in h.split(c.dim, -1))
        a = F.scaled_dot_product_attention(rope(q), rope(k), v, is_causal=True)
        x = x + a.transpose(1, 2).reshape(b, n, c.dim) @ p["out"]
        h = F.rms_norm(x, (c.dim,), p["norm2"], 1e-6)
        x = x + (F.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return F.rms_norm(x, (c.dim,), params["norm"], 1e-6) @ params["head"]
