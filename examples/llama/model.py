"""A small Llama over bytes: RMSNorm, rotary positions, SwiGLU and causal attention; with or without a cache of keys and values."""

import dataclasses
import math

import fgrad.numpy as jnp
from fgrad import lax, nn, random

VOCABULARY = 256


@dataclasses.dataclass(frozen=True)
class Config:
    """What fixes a run, to the bit, beside its data; stored in checkpoints."""

    layers: int = 4  # blocks of attention and SwiGLU
    dim: int = 128  # width of the residual stream
    heads: int = 4  # attention heads
    hidden: int = 352  # width inside SwiGLU
    context: int = 128  # bytes that attention looks back on
    batch: int = 16  # sequences in a step
    steps: int = 1200  # steps in all, which the learning-rate schedule spans
    lr: float = 2e-3  # peak learning rate
    seed: int = 0  # of parameters, batches and samples

    def __post_init__(self):
        for name in ("layers", "dim", "heads", "hidden", "context", "batch", "steps"):
            if getattr(self, name) < 1:
                raise SystemExit(f"--{name} must be at least 1, got {getattr(self, name)}")
        if not self.lr > 0:
            raise SystemExit(f"--lr must be positive, got {self.lr}")
        if self.dim % (2 * self.heads):
            raise SystemExit(f"--dim must be a multiple of twice --heads (rotary positions turn pairs), got {self.dim} and {self.heads}")

    @property
    def head_dim(self):
        return self.dim // self.heads


def init(config, key):
    """Parameters: normal with variance 1 / fan-in; what is added to the residual stream is smaller in deeper models (GPT-2)."""
    keys = iter(random.split(key, 2 + 6 * config.layers))
    dim, hidden, residual = config.dim, config.hidden, 1 / math.sqrt(2 * config.layers)

    def dense(fan_in, fan_out, scale=1.0):
        return random.normal(next(keys), (fan_in, fan_out)) * (scale / math.sqrt(fan_in))

    def layer():
        return {
            "norm1": jnp.ones(dim),
            "qkv": dense(dim, 3 * dim),
            "out": dense(dim, dim, residual),
            "norm2": jnp.ones(dim),
            "gate": dense(dim, hidden),
            "up": dense(dim, hidden),
            "down": dense(hidden, dim, residual),
        }

    return {
        "embed": random.normal(next(keys), (VOCABULARY, dim)) * 0.02,
        "layers": [layer() for _ in range(config.layers)],
        "norm": jnp.ones(dim),
        "head": dense(dim, VOCABULARY),
    }


def empty_cache(config, batch):
    """Keys and values (batch, context, heads, head_dim) of every layer, to be filled by `forward`."""
    zeros = jnp.zeros((batch, config.context, config.heads, config.head_dim))
    return [{"k": zeros, "v": zeros} for _ in range(config.layers)]


def _attend(q, k, v, cache, at):
    """Causal attention among T positions, or of positions from `at` on over a cache that takes their keys and values first.

    The cache is a ring: position p is in slot p % context. Keys carry their rotary angle, so that the order of slots does not matter.
    """
    if cache is None:
        return nn.dot_product_attention(q, k, v, is_causal=True), None
    t, slots = q.shape[1], cache["k"].shape[1]
    start = (0, lax.rem(at, slots), 0, 0)
    cache = {"k": lax.dynamic_update_slice(cache["k"], k, start), "v": lax.dynamic_update_slice(cache["v"], v, start)}
    seen = jnp.arange(slots)[None, :] <= at + jnp.arange(t)[:, None]  # once the ring has turned, all slots
    return nn.dot_product_attention(q, cache["k"], cache["v"], mask=seen[None, None]), cache


def forward(config, params, tokens, cache=None, at=0):
    """(logits (B, T, 256) of the byte after each of tokens (B, T), the new cache).

    cache: from `empty_cache` or an earlier call, in which case tokens stand at positions at, at + 1, ...: T > 1 only where they fit
    before the end of the ring (a prompt), T = 1 anywhere.
    """
    b, t = tokens.shape
    at = jnp.asarray(at, jnp.int32)
    tables = tuple(a[:, None, :] for a in nn.rope_angles(at + jnp.arange(t), config.head_dim))
    x = params["embed"][tokens]
    caches = []
    for i, p in enumerate(params["layers"]):
        h = nn.rms_norm(x, p["norm1"]) @ p["qkv"]
        q, k, v = (jnp.reshape(a, (b, t, config.heads, config.head_dim)) for a in jnp.split(h, 3, axis=-1))
        h, filled = _attend(nn.rope(q, tables), nn.rope(k, tables), v, None if cache is None else cache[i], at)
        caches.append(filled)
        x = x + jnp.reshape(h, (b, t, config.dim)) @ p["out"]
        h = nn.rms_norm(x, p["norm2"])
        x = x + nn.swiglu(h @ p["gate"], h @ p["up"]) @ p["down"]
    logits = nn.rms_norm(x, params["norm"]) @ params["head"]
    return logits, None if cache is None else caches


def loss(config, params, tokens):
    """Mean cross-entropy, in nats, of bytes 1.. of tokens (B, T + 1) given those before."""
    logits, _ = forward(config, params, tokens[:, :-1])
    return jnp.mean(nn.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]))
