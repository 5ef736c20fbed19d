"""Networks: losses, layers and blocks as people write them in jnp."""

import numpy as np

from tests.peers.registry import REVERSE, VALUE, normal, program

NO_HESSIAN = ("hessian",)


@program(lambda r: (r.standard_normal(4), r.standard_normal((8, 4)), r.integers(0, 2, 8).astype(np.float32)))
def logistic_regression(jax, w, x, y):
    jnp = jax.numpy
    logits = x @ w
    return jnp.mean(jnp.logaddexp(0.0, logits) - y * logits) + 0.01 * jnp.sum(w**2)


@program(
    lambda r: ([{"w": r.standard_normal((m, n)) * 0.5, "b": r.standard_normal(n)} for m, n in ((3, 8), (8, 2))], r.standard_normal((5, 3)))
)
def mlp(jax, params, x):
    jnp = jax.numpy
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ params[-1]["w"] + params[-1]["b"]) ** 2)


@program(lambda r: (r.standard_normal((4, 6)), r.integers(0, 6, 4)))
def softmax_cross_entropy(jax, logits, labels):
    jnp = jax.numpy
    by_hand = -jnp.take_along_axis(logits - jax.nn.logsumexp(logits, axis=-1, keepdims=True), labels[:, None], axis=-1).mean()
    by_one_hot = -jnp.sum(jax.nn.one_hot(labels, 6) * jax.nn.log_softmax(logits)) / 4
    return by_hand, by_one_hot, jnp.mean(jnp.argmax(logits, -1) == labels)


@program(normal((3, 6), (6,), (6,)), diff=(0, 1, 2), without=NO_HESSIAN)
def norms_by_hand(jax, x, g, b):
    jnp = jax.numpy
    layer = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b
    rms = x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + 1e-6) * g
    batch = (x - jnp.mean(x, 0)) / jnp.sqrt(jnp.var(x, 0) + 1e-5) * g + b
    return layer, rms, batch


def _attention(jax, q, k, v):
    jnp = jax.numpy
    t = q.shape[0]
    scores = jnp.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), v)


@program(normal((4, 2, 3), (4, 2, 3), (4, 2, 3)), diff=(0, 1, 2), without=NO_HESSIAN)
def attention_by_hand(jax, q, k, v):
    return _attention(jax, q, k, v)


@program(normal((1, 4, 2, 4), (1, 4, 1, 4), (1, 4, 1, 4)), diff=(0, 1, 2), without=NO_HESSIAN)
def attention_of_nn(jax, q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def _gpt(r):
    d = 8
    block = {"qkv": r.standard_normal((d, 3 * d)) / 3, "out": r.standard_normal((d, d)) / 3, "ln": [np.ones(d), np.zeros(d)]}
    mlp = {"up": r.standard_normal((d, 16)) / 3, "down": r.standard_normal((16, d)) / 4, "ln": [np.ones(d), np.zeros(d)]}
    return {"wte": r.standard_normal((11, d)), "wpe": r.standard_normal((5, d)), "block": block, "mlp": mlp}, r.integers(0, 11, (2, 6))


@program(_gpt, without=NO_HESSIAN, rtol=3e-4)
def gpt_block(jax, params, tokens):
    jnp = jax.numpy

    def norm(x, p):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def forward(tokens):
        x = params["wte"][tokens] + params["wpe"][: tokens.shape[0]]
        q, k, v = (a.reshape(-1, 2, 4) for a in jnp.split(norm(x, params["block"]["ln"]) @ params["block"]["qkv"], 3, axis=-1))
        x = x + _attention(jax, q, k, v).reshape(x.shape) @ params["block"]["out"]
        x = x + jax.nn.gelu(norm(x, params["mlp"]["ln"]) @ params["mlp"]["up"]) @ params["mlp"]["down"]
        return jax.nn.log_softmax(x @ params["wte"].T)

    logp = jax.vmap(forward)(tokens[:, :-1])
    return -jnp.mean(jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1))


@program(lambda r: ({"wx": r.standard_normal((3, 4)), "wh": r.standard_normal((4, 4)) / 2, "b": np.zeros(4)}, r.standard_normal((6, 3))))
def rnn_by_scan(jax, p, xs):
    jnp = jax.numpy

    def step(h, x):
        h = jnp.tanh(x @ p["wx"] + h @ p["wh"] + p["b"])
        return h, h.sum()

    return jax.lax.scan(step, jnp.zeros(4), xs)


@program(normal((3, 9), (3, 9), (5, 2, 3)), diff=(0, 1), without=NO_HESSIAN)
def gru_by_scan(jax, wx, wh, xs):
    jnp = jax.numpy

    def step(h, x):
        rx, zx, nx = jnp.split(x @ wx, 3, -1)
        rh, zh, nh = jnp.split(h @ wh, 3, -1)
        r, z = jax.nn.sigmoid(rx + rh), jax.nn.sigmoid(zx + zh)
        return (1 - z) * jnp.tanh(nx + r * nh) + z * h, None

    return jax.lax.scan(step, jnp.zeros((2, 3)), xs)[0]


@program(normal((3, 8), (2, 8), (5, 3)), diff=(0, 1), without=NO_HESSIAN)
def lstm_by_scan(jax, wx, wh, xs):
    jnp = jax.numpy

    def step(carry, x):
        c, h = carry
        i, f, g, o = jnp.split(x @ wx + h @ wh, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), {"h": h}

    return jax.lax.scan(step, (jnp.zeros(2), jnp.zeros(2)), xs, reverse=True)


@program(normal((4, 6)), without=NO_HESSIAN)
def activations(jax, x):
    nn = jax.nn
    names = ("relu", "gelu", "silu", "elu", "selu", "softplus", "log_sigmoid", "leaky_relu", "hard_tanh", "glu", "mish", "celu")
    return {n: getattr(nn, n)(x) for n in names} | {"exact": nn.gelu(x, approximate=False), "standardize": nn.standardize(x)}


@program(lambda r: (r.standard_normal((5, 4)), r.standard_normal((6, 4)), r.integers(0, 5, 6)), without=NO_HESSIAN)
def mixture_of_experts_top_1(jax, gate, x, labels):
    jnp = jax.numpy
    probs = jax.nn.softmax(x @ gate.T)
    best, which = jax.lax.top_k(probs, 2)
    onehot = jax.nn.one_hot(which[:, 0], 5)
    load = onehot.mean(0) @ probs.mean(0)
    return best.sum(), load, probs[jnp.arange(6), labels], which


@program(lambda r: (r.standard_normal((3, 2)), r.standard_normal((8, 3)), r.standard_normal((8, 2))), without=NO_HESSIAN)
def sgd_with_momentum(jax, w, x, y):
    jnp = jax.numpy
    loss = lambda w: jnp.mean((x @ w - y) ** 2)

    def step(carry, _):
        w, m = carry
        value, g = jax.value_and_grad(loss)(w)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, g)
        return (w - 0.1 * m, m), value

    return jax.lax.scan(step, (w, jnp.zeros_like(w)), None, length=3)


@program(
    lambda r: ({"w": r.standard_normal((3, 2)), "b": np.zeros(2)}, r.standard_normal((4, 3)), r.standard_normal((4, 2))),
    transforms=VALUE + REVERSE,
)
def adam_step(jax, params, x, y):
    jnp = jax.numpy
    loss = lambda p: jnp.mean((x @ p["w"] + p["b"] - y) ** 2)
    g = jax.grad(loss)(params)
    m = jax.tree.map(lambda g: 0.1 * g / (1 - 0.9), g)
    v = jax.tree.map(lambda g: 0.001 * g**2 / (1 - 0.999), g)
    return jax.tree.map(lambda p, m, v: p - 1e-3 * m / (jnp.sqrt(v) + 1e-8), params, m, v)


@program(lambda r: (r.standard_normal((2, 8)), r.standard_normal((2, 4)), np.array([1, 3])), without=NO_HESSIAN)
def dropout_and_noise(jax, x, mu, seeds):
    jnp = jax.numpy
    key = jax.random.key(7)
    k1, k2 = jax.random.split(key)
    keep = jax.random.bernoulli(k1, 0.7, x.shape)
    noise = jax.random.uniform(k2, mu.shape)
    return jnp.where(keep, x / 0.7, 0.0), mu + noise, jax.random.randint(k1, (3,), 0, 9), jax.random.permutation(k2, 5)


@program(normal((6, 4), (3, 4)), diff=(0, 1), without=NO_HESSIAN)
def contrastive_loss(jax, a, b):
    jnp = jax.numpy
    unit = lambda x: x / jnp.sqrt(jnp.sum(x**2, -1, keepdims=True))
    sim = unit(a[:3]) @ unit(b).T / 0.1
    return -jnp.mean(jnp.diag(jax.nn.log_softmax(sim))), jnp.argmax(sim, 0)
