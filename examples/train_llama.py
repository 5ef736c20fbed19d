"""A small Llama (RMSNorm, RoPE, SwiGLU, causal attention) trained from scratch, byte by byte, on Python source text.

The data are the sources of Python's own standard library (--data FILE_OR_FOLDER for yours).  One jitted, donated train step:
value_and_grad, clipping by global norm, AdamW with warm-up and cosine decay.  Prints held-out bits per byte and a sample.
"""

import argparse
import math
import sysconfig
import time
from pathlib import Path

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import nn, optim, random

LAYERS, DIM, HEADS, HIDDEN, CONTEXT, BATCH = 4, 128, 4, 352, 128, 16


def read_bytes(path):
    """All Python sources below a folder (or one file) as bytes: (training, held-out)."""
    path = Path(path)
    files = sorted(p for p in path.rglob("*.py") if "test" not in p.parts and "site-packages" not in p.parts) if path.is_dir() else [path]
    text = np.frombuffer(b"\n".join(p.read_bytes() for p in files[:400]), np.uint8).astype(np.int32)
    if len(text) < 20 * CONTEXT:
        raise SystemExit(f"{path}: {len(text)} bytes are too few to train on")
    cut = len(text) * 19 // 20
    return text[:cut], text[cut:]


def init(key):
    keys = iter(random.split(key, 2 + 6 * LAYERS))
    dense = lambda m, n: random.normal(next(keys), (m, n)) / math.sqrt(m)  # noqa: E731
    layer = lambda: {
        "norm1": jnp.ones(DIM),
        "qkv": dense(DIM, 3 * DIM),
        "out": dense(DIM, DIM) / math.sqrt(2 * LAYERS),
        "norm2": jnp.ones(DIM),  # noqa: E731
        "gate": dense(DIM, HIDDEN),
        "up": dense(DIM, HIDDEN),
        "down": dense(HIDDEN, DIM) / math.sqrt(2 * LAYERS),
    }
    return {
        "embed": random.normal(next(keys), (256, DIM)) * 0.02,
        "layers": [layer() for _ in range(LAYERS)],
        "norm": jnp.ones(DIM),
        "head": dense(DIM, 256),
    }


def forward(params, tokens):
    """Logits (B, T, 256) of the next byte."""
    b, t = tokens.shape
    x = params["embed"][tokens]
    tables = nn.rope_angles(jnp.arange(t), DIM // HEADS)
    tables = tuple(v[:, None, :] for v in tables)
    for p in params["layers"]:
        h = nn.rms_norm(x, p["norm1"]) @ p["qkv"]
        q, k, v = (jnp.reshape(a, (b, t, HEADS, DIM // HEADS)) for a in jnp.split(h, 3, axis=-1))
        a = nn.dot_product_attention(nn.rope(q, tables), nn.rope(k, tables), v, is_causal=True)
        x = x + jnp.reshape(a, (b, t, DIM)) @ p["out"]
        h = nn.rms_norm(x, p["norm2"])
        x = x + nn.swiglu(h @ p["gate"], h @ p["up"]) @ p["down"]
    return nn.rms_norm(x, params["norm"]) @ params["head"]


def loss_fn(params, tokens):
    logits = forward(params, tokens[:, :-1])
    return jnp.mean(nn.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]))


def batches(data, rng):
    while True:
        starts = rng.integers(0, len(data) - CONTEXT - 1, BATCH)
        yield data[starts[:, None] + np.arange(CONTEXT + 1)]


def sample(params, prompt, length, key):
    """Text continued one byte at a time (the window is recomputed for each)."""
    step = fgrad.jit(lambda p, window, at, key: random.categorical(key, forward(p, window)[0, at] / 0.8))
    out = list(prompt.encode())
    for _ in range(length):
        key, sub = random.split(key)
        tail = out[-CONTEXT:]
        window = np.zeros((1, CONTEXT), np.int32)
        window[0, : len(tail)] = tail
        out.append(int(step(params, window, len(tail) - 1, sub)))
    return bytes(out).decode("utf-8", "replace")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=sysconfig.get_paths()["stdlib"], help="a text file, or a folder of Python sources")
    parser.add_argument("--steps", type=int, default=1200)
    args = parser.parse_args()
    train, held_out = read_bytes(args.data)
    params = init(random.key(0))
    schedule = optim.warmup_cosine_decay_schedule(0.0, 2e-3, min(60, args.steps // 4), args.steps, 2e-4)
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(schedule, b2=0.99, weight_decay=0.01))
    state = optimizer.init(params)

    def step(params, state, tokens):
        value, grads = fgrad.value_and_grad(loss_fn)(params, tokens)
        updates, state = optimizer.update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    step = fgrad.jit(step, donate_argnums=(0, 1))
    evaluate = fgrad.jit(loss_fn)
    valid = batches(held_out, np.random.default_rng(1))
    checks = [next(valid) for _ in range(8)]
    data, start = batches(train, np.random.default_rng(0)), time.time()
    for i in range(args.steps):
        params, state, value = step(params, state, next(data))
        if i % 100 == 0 or i == args.steps - 1:
            bits = np.mean([float(evaluate(params, c)) for c in checks]) / math.log(2)
            rate = (i + 1) * BATCH * CONTEXT / (time.time() - start)
            print(f"step {i:5d}  train loss {float(value):.3f}  held-out {bits:.3f} bits per byte  {rate:,.0f} tokens/s", flush=True)
    print("\n" + sample(params, "def ", 300, random.key(1)))


if __name__ == "__main__":
    main()
