"""Text from the model: one program fills the cache from the prompt, a second runs all decoding steps inside lax.scan."""

import functools

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import lax, random
from llama import model


def choose(key, logits, temperature, top_k):
    """A byte for each row of logits (B, 256): the likeliest at temperature 0, else drawn, from the top_k likeliest if that is not 0."""
    if temperature == 0:
        return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    if top_k:
        kth = lax.top_k(logits, top_k)[0][:, -1:]
        logits = jnp.where(logits < kth, -jnp.inf, logits)
    return random.categorical(key, logits / temperature).astype(jnp.int32)


@functools.partial(fgrad.jit, static_argnums=0)
def prefill(config, params, tokens):
    """(logits (B, 256) after the prompt tokens (B, T <= context), the cache that they fill)."""
    logits, cache = model.forward(config, params, tokens, model.empty_cache(config, tokens.shape[0]))
    return logits[:, -1], cache


@functools.partial(fgrad.jit, static_argnums=(0, 6, 7, 8))
def decode(config, params, logits, cache, at, key, length, temperature, top_k):
    """`length` bytes (length, B) drawn one after another; the first from logits (B, 256), which stand before position `at`."""

    def step(carry, key):
        logits, cache, at = carry
        byte = choose(key, logits, temperature, top_k)
        logits, cache = model.forward(config, params, byte[:, None], cache, at)
        return (logits[:, 0], cache, at + 1), byte

    _, out = lax.scan(step, (logits, cache, at), random.split(key, length))
    return out


def generate(config, params, prompt, length, key, temperature=0.8, top_k=0):
    """`length` bytes that continue the bytes `prompt` (of which the last `context` count)."""
    tail = np.frombuffer((prompt or b"\n")[-config.context :], np.uint8).astype(np.int32)
    logits, cache = prefill(config, params, tail[None])
    out = decode(config, params, logits, cache, jnp.asarray(len(tail), jnp.int32), key, length, temperature, top_k)
    return bytes(np.asarray(out)[:, 0].astype(np.uint8))
