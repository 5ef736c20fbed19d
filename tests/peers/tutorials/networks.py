"""Neural networks written out: from an MLP to a transformer, and generative models."""

import numpy as np

from tests.peers.tutorials.registry import tutorial


def _train(jax, loss, params, batches, rate=0.1):
    """Gradient descent over stacked batches, as one scan: (params, losses)."""

    def step(p, batch):
        value, g = jax.value_and_grad(loss)(p, *batch)
        return jax.tree.map(lambda p, g: p - rate * g, p, g), value

    return jax.jit(lambda p: jax.lax.scan(step, p, batches))(params)


def _images(jax, n=12, batch=8):
    """Synthetic images of 10 classes, in batches."""
    random = jax.random
    prototypes = random.normal(random.key(0), (10, 8, 8))
    labels = random.randint(random.key(1), (n, batch), 0, 10)
    return prototypes[labels] + 0.3 * random.normal(random.key(2), (n, batch, 8, 8)), labels


@tutorial
def mlp_from_scratch(jax):
    jnp, random = jax.numpy, jax.random
    images, labels = _images(jax)
    sizes = [64, 32, 10]
    layer = lambda m, n, key: (0.1 * random.normal(random.split(key)[0], (n, m)), 0.1 * random.normal(random.split(key)[1], (n,)))
    params = [layer(m, n, k) for m, n, k in zip(sizes[:-1], sizes[1:], random.split(random.key(0), 2))]

    def predict(params, image):
        for w, b in params[:-1]:
            image = jax.nn.relu(w @ image + b)
        logits = params[-1][0] @ image + params[-1][1]
        return logits - jax.nn.logsumexp(logits)

    batched = jax.vmap(predict, in_axes=(None, 0))
    loss = lambda p, x, y: -jnp.mean(batched(p, x.reshape(-1, 64)) * jax.nn.one_hot(y, 10))
    params, losses = _train(jax, loss, params, (images, labels), 1.0)
    accuracy = jnp.mean(jnp.argmax(batched(params, images[0].reshape(-1, 64)), 1) == labels[0])
    return params, losses, accuracy


@tutorial
def convolutional_network(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    images, labels = _images(jax, 6)
    k1, k2, k3 = random.split(random.key(3), 3)
    params = {
        "c1": 0.3 * random.normal(k1, (3, 3, 1, 4)),
        "c2": 0.2 * random.normal(k2, (3, 3, 4, 6)),
        "d": 0.1 * random.normal(k3, (24, 10)),
    }

    def predict(p, x):
        dims = ("NHWC", "HWIO", "NHWC")
        x = jax.nn.relu(lax.conv_general_dilated(x[..., None], p["c1"], (1, 1), "SAME", dimension_numbers=dims))
        x = x.reshape(len(x), 4, 2, 4, 2, 4).max(axis=(2, 4))
        x = jax.nn.gelu(lax.conv_general_dilated(x, p["c2"], (2, 2), "SAME", dimension_numbers=dims))
        return x.reshape(len(x), -1) @ p["d"]

    loss = lambda p, x, y: -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(predict(p, x)), y[:, None], 1))
    return _train(jax, loss, params, (images, labels), 0.05)


@tutorial
def recurrent_language_model(jax):
    """A GRU over characters, trained on one sentence, and greedy sampling from it."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    text = "the cat sat on the mat and the rat sat on the cat"
    letters = sorted(set(text))
    ids = jnp.array([letters.index(c) for c in text])
    n, h = len(letters), 12
    keys = random.split(random.key(0), 4)
    params = {
        "embed": random.normal(keys[0], (n, h)) * 0.5,
        "gates": random.normal(keys[1], (2 * h, 2 * h)) * 0.3,
        "new": random.normal(keys[2], (2 * h, h)) * 0.3,
        "out": random.normal(keys[3], (h, n)) * 0.3,
    }

    def cell(p, state, i):
        x = jnp.concatenate([p["embed"][i], state])
        r, z = jnp.split(jax.nn.sigmoid(x @ p["gates"]), 2)
        new = jnp.tanh(jnp.concatenate([p["embed"][i], r * state]) @ p["new"])
        state = (1 - z) * state + z * new
        return state, state @ p["out"]

    def loss(p):
        _, logits = lax.scan(lambda s, i: cell(p, s, i), jnp.zeros(h), ids[:-1])
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(ids) - 1), ids[1:]])

    step = lambda p, _: (jax.tree.map(lambda p, g: p - 0.5 * g, p, jax.grad(loss)(p)), loss(p))
    params, losses = lax.scan(step, params, None, 15)

    def sample(carry, _):
        state, i = carry
        state, logits = cell(params, state, i)
        return (state, jnp.argmax(logits)), jnp.argmax(logits)

    return losses, lax.scan(sample, (jnp.zeros(h), ids[0]), None, 10)[1]


@tutorial
def transformer_block(jax):
    """A pre-norm block with heads by einsum, causal mask, dropout and a checkpointed MLP; trained on copying."""
    jnp, random = jax.numpy, jax.random
    d, heads, t, vocab = 16, 2, 8, 7
    keys = iter(random.split(random.key(0), 8))
    draw = lambda *shape: random.normal(next(keys), shape) / np.sqrt(shape[0]).astype(np.float32)
    params = {
        "embed": draw(vocab, d),
        "pos": draw(t, d),
        "qkv": draw(d, 3 * d),
        "proj": draw(d, d),
        "up": draw(d, 4 * d),
        "down": draw(4 * d, d),
    }

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)

    def attention(p, x):
        q, k, v = (a.reshape(t, heads, -1) for a in jnp.split(norm(x) @ p["qkv"], 3, axis=-1))
        scores = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(d // heads)
        scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores), v).reshape(t, d) @ p["proj"]

    mlp = jax.checkpoint(lambda p, x: jax.nn.gelu(norm(x) @ p["up"]) @ p["down"])

    def logits(p, ids, key):
        x = p["embed"][ids] + p["pos"]
        keep = random.bernoulli(key, 0.9, x.shape)
        x = jnp.where(keep, x / 0.9, 0)
        x = x + attention(p, x)
        return (x + mlp(p, x)) @ p["embed"].T

    def loss(p, ids, key):
        out = jax.vmap(lambda i, k: logits(p, i, k))(ids, random.split(key, len(ids)))
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(out[:, 1:]), ids[:, :-1, None], -1))

    ids = random.randint(random.key(1), (10, 4, t), 0, vocab)
    return _train(jax, loss, params, (ids, random.split(random.key(2), 10)), 0.3)


@tutorial(rtol=1e-3)
def variational_autoencoder(jax):
    jnp, random = jax.numpy, jax.random
    images, _ = _images(jax, 10)
    x = jax.nn.sigmoid(images).reshape(10, 8, 64)
    keys = random.split(random.key(0), 4)
    shapes = [(64, 16), (16, 4), (2, 16), (16, 64)]
    params = [random.normal(k, s) / jnp.sqrt(s[0]) for k, s in zip(keys, shapes)]

    def loss(p, x, key):
        mean, log_var = jnp.split(jnp.tanh(x @ p[0]) @ p[1], 2, axis=-1)
        z = mean + jnp.exp(0.5 * log_var) * random.normal(key, mean.shape)
        logits = jnp.tanh(z @ p[2]) @ p[3]
        fit = jnp.sum(x * jax.nn.log_sigmoid(logits) + (1 - x) * jax.nn.log_sigmoid(-logits), -1)
        kl = 0.5 * jnp.sum(jnp.exp(log_var) + mean**2 - 1 - log_var, -1)
        return jnp.mean(kl - fit)

    return _train(jax, loss, params, (x, random.split(random.key(1), 10)), 0.005)


@tutorial(rtol=1e-3)
def adversarial_network(jax):
    """Two players with a gradient penalty: a gradient of a gradient in the loss."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    init = lambda key, sizes: [random.normal(k, (m, n)) / jnp.sqrt(m) for k, m, n in zip(random.split(key, 2), sizes, sizes[1:])]
    net = lambda p, x: jax.nn.leaky_relu(x @ p[0], 0.2) @ p[1]
    start = {"g": init(random.key(0), (2, 16, 2)), "d": init(random.key(1), (2, 16, 1))}

    def critic_loss(d, g, z, real, eps):
        fake = net(g, z)
        slope = jax.vmap(jax.grad(lambda x: net(d, x)[0]))(eps * real + (1 - eps) * fake)
        penalty = jnp.mean((jnp.sqrt(jnp.sum(slope**2, -1) + 1e-6) - 1) ** 2)
        return jnp.mean(net(d, fake)) - jnp.mean(net(d, real)) + penalty

    def step(p, key):
        k1, k2, k3 = random.split(key, 3)
        z, eps = random.normal(k1, (16, 2)), random.uniform(k2, (16, 1))
        real = random.normal(k3, (16, 2)) * 0.5 + 1
        d_loss, gd = jax.value_and_grad(critic_loss)(p["d"], p["g"], z, real, eps)
        g_loss, gg = jax.value_and_grad(lambda g: -jnp.mean(net(p["d"], net(g, z))))(p["g"])
        return jax.tree.map(lambda p, g: p - 0.05 * g, p, {"d": gd, "g": gg}), (d_loss, g_loss)

    return jax.jit(lambda p: lax.scan(step, p, random.split(random.key(2), 15)))(start)


@tutorial
def adam_and_mixed_precision(jax):
    """Adam written out, parameters in float32 and the network in bfloat16 with a scaled loss."""
    jnp, random = jax.numpy, jax.random
    x, y = random.normal(random.key(0), (32, 4)), random.normal(random.key(1), (32,))
    params = {"w": random.normal(random.key(2), (4, 8)), "v": random.normal(random.key(3), (8,))}
    half = lambda t: jax.tree.map(lambda a: a.astype(jnp.bfloat16), t)

    def loss(p):
        p = half(p)
        out = jnp.tanh(x.astype(jnp.bfloat16) @ p["w"]) @ p["v"]
        return 128 * jnp.mean((out.astype(jnp.float32) - y) ** 2)

    @jax.jit
    def step(i, p, m, v):
        g = jax.tree.map(lambda g: g / 128, jax.grad(loss)(p))
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, v, g)
        p = jax.tree.map(lambda p, m, v: p - 0.01 * (m / (1 - 0.9**i)) / (jnp.sqrt(v / (1 - 0.99**i)) + 1e-2), p, m, v)
        return p, m, v

    zeros = jax.tree.map(jnp.zeros_like, params)
    state = params, zeros, zeros
    for i in range(1, 4):
        state = step(i, *state)
    return jax.tree.map(lambda a: a.astype(jnp.bfloat16), state[0])
