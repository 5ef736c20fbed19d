"""Small whole programs of many fields for the survey: training steps, samplers, filters, simulations. Shapes are a user's, not tuned."""

import numpy as np

from benchmarks.survey_cases import case, integer


def normal(*shape, scale=1.0):
    return lambda rng: (rng.standard_normal(shape) * scale).astype(np.float32)


def weights(**shapes):
    """A dict of matrices with variance 1 / rows, and of zeros for vectors."""
    make = lambda rng, s: (rng.standard_normal(s) / np.sqrt(np.prod(s[:-1]))).astype(np.float32) if len(s) > 1 else np.zeros(s, np.float32)  # noqa: E731
    return lambda rng: {name: make(rng, shape) for name, shape in shapes.items()}


def key(rng):
    return np.array([0, 7], np.uint32)


def step(name, loss, params, *inputs, adam=True):
    """A training step by Adam, or by plain descent, of loss(m, params, *inputs)."""

    def run(m, p, mean, square, *args):
        value, g = m.value_and_grad(lambda p: loss(m, p, *args))(p)
        if not adam:
            return value, m.tree.map(lambda p, g: p - 0.01 * g, p, g)
        mean = m.tree.map(lambda a, g: 0.9 * a + 0.1 * g, mean, g)
        square = m.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, square, g)
        return value, m.tree.map(lambda p, a, b: p - 0.001 * a / (m.np.sqrt(b) + 1e-8), p, mean, square), mean, square

    case(f"step of {name}", run, params, params, lambda rng: {k: v * v for k, v in params(rng).items()}, *inputs)


def _affine(p, x, name):
    return x @ p[f"w{name}"] + p[f"b{name}"]


def _cross_entropy(m, logits, labels):
    return -m.np.mean(m.np.take_along_axis(m.nn.log_softmax(logits), labels[..., None], -1))


def _normalized(m, x, axis=-1):
    return (x - x.mean(axis, keepdims=True)) * m.lax.rsqrt(x.var(axis, keepdims=True) + 1e-5)


def _autoencoder(m, p, x, k):
    h = m.nn.relu(_affine(p, x, 1))
    mean, log_var = _affine(p, h, 2), _affine(p, h, 3)
    z = mean + m.np.exp(0.5 * log_var) * m.random.normal(k, mean.shape)
    logits, x = _affine(p, m.nn.relu(_affine(p, z, 4)), 5), m.nn.sigmoid(x)
    bce = m.np.sum(m.np.maximum(logits, 0) - logits * x + m.np.log1p(m.np.exp(-m.np.abs(logits))), -1)
    return m.np.mean(bce - 0.5 * m.np.sum(1 + log_var - mean**2 - m.np.exp(log_var), -1))


def _residual_network(m, p, x, labels):
    conv = lambda x, w: m.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))  # noqa: E731
    norm = lambda x, n: _normalized(m, x, (0, 1, 2)) * (1 + p[f"g{n}"]) + p[f"b{n}"]  # noqa: E731
    h = m.nn.relu(norm(conv(x, p["c1"]), 1))
    h = m.nn.relu(x + norm(conv(h, p["c2"]), 2))
    return _cross_entropy(m, h.mean((1, 2)) @ p["w"], labels)


def _convolutions_features_first(m, p, x, labels):
    conv = lambda x, w: m.lax.conv_general_dilated(x, w, (1, 1), "VALID")  # noqa: E731
    pool = lambda x: m.lax.reduce_window(x, -np.inf, m.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")  # noqa: E731
    h = pool(m.nn.relu(conv(pool(m.nn.relu(conv(x, p["c1"]))), p["c2"])))
    return _cross_entropy(m, h.reshape(h.shape[0], -1) @ p["w"], labels)


def _transformer(m, p, x, y, k, heads=4):
    h, (batch, time) = p["emb"][x], x.shape
    mask = m.np.tril(m.np.ones((time, time), bool))
    for i in range(2):
        q, keys, v = m.np.split(_normalized(m, h) @ p[f"qkv{i}"], 3, -1)
        split = lambda a: a.reshape(batch, time, heads, -1).transpose(0, 2, 1, 3)  # noqa: E731
        a = m.np.einsum("bhqd,bhkd->bhqk", split(q), split(keys)) / (h.shape[-1] / heads) ** 0.5
        o = m.np.einsum("bhqk,bhkd->bhqd", m.nn.softmax(m.np.where(mask, a, -1e9), -1), split(v))
        h = h + o.transpose(0, 2, 1, 3).reshape(h.shape) @ p[f"o{i}"]
        h = m.np.where(m.random.bernoulli(m.random.fold_in(k, i), 0.9, h.shape), h / 0.9, 0)
        h = h + m.nn.gelu(_normalized(m, h) @ p[f"f{i}"]) @ p[f"g{i}"]
    return _cross_entropy(m, h @ p["emb"].T, y)


def _messages(m, p, x, source, target, y):
    for _ in range(2):
        message = m.nn.relu(m.np.concatenate([x[source], x[target]], -1) @ p["w1"]) @ p["w2"]
        x = m.np.tanh(m.np.concatenate([x, m.np.zeros_like(x).at[target].add(message)], -1) @ p["u"])
    return m.np.mean((x @ p["o"] - y) ** 2)


def _burgers(m, p, x, t):
    def u(x, t):
        h = m.np.tanh(_affine(p, m.np.stack([x, t]), 1))
        return _affine(p, m.np.tanh(_affine(p, h, 2)), 3)[0]

    def residual(x, t):
        du = m.grad(u, 0)
        return m.grad(u, 1)(x, t) + u(x, t) * du(x, t) - 0.01 * m.grad(du, 0)(x, t)

    return m.np.mean(m.vmap(residual)(x, t) ** 2)


def _skip_gram(m, p, center, context, negative):
    e = p["in"][center]
    positive = m.np.sum(e * p["out"][context], -1)
    others = m.np.einsum("bd,bkd->bk", e, p["out"][negative])
    return -m.np.mean(m.nn.log_sigmoid(positive) + m.nn.log_sigmoid(-others).sum(-1))


def _bfloat16(m, p, x):
    h = x.astype(m.np.bfloat16)
    for w in p.values():
        h = m.nn.relu(h @ w.astype(m.np.bfloat16))
    return m.np.mean(h.astype(m.np.float32) ** 2)


def _lstm(m, p, x, y):
    def cell(carry, letters):
        h, s = carry
        i, f, g, o = m.np.split(_affine(p, m.np.concatenate([p["emb"][letters], h], -1), 1), 4, -1)
        s = m.nn.sigmoid(f + 1) * s + m.nn.sigmoid(i) * m.np.tanh(g)
        h = m.nn.sigmoid(o) * m.np.tanh(s)
        return (h, s), h

    zeros = m.np.zeros((x.shape[1], p["emb"].shape[1]))
    return _cross_entropy(m, m.lax.scan(cell, (zeros, zeros), x)[1] @ p["out"], y)


def _mixer(m, p, x):
    for i in range(3):
        tokens = m.np.swapaxes(_normalized(m, x), 1, 2)
        x = x + m.np.swapaxes(m.nn.gelu(tokens @ p[f"t{i}"]) @ p[f"u{i}"], 1, 2)
        x = x + m.nn.gelu(_normalized(m, x) @ p[f"v{i}"]) @ p[f"w{i}"]
    return m.np.mean(x**2)


def _diffusion(m, p, x, k):
    k1, k2 = m.random.split(k)
    t, noise = m.random.uniform(k1, (x.shape[0], 1)), m.random.normal(k2, x.shape)
    angles = t * m.np.exp(m.np.linspace(0, 5, 32))
    h = m.np.concatenate([m.np.sqrt(1 - t) * x + m.np.sqrt(t) * noise, m.np.sin(angles), m.np.cos(angles)], -1)
    h = m.nn.silu(_affine(p, m.nn.silu(_affine(p, h, 1)), 2))
    return m.np.mean((_affine(p, h, 3) - noise) ** 2)


def _meta(m, p, x, y, x2, y2):
    net = lambda p, x: _affine(p, m.nn.relu(_affine(p, m.nn.relu(_affine(p, x, 1)), 2)), 3)  # noqa: E731
    loss = lambda p, x, y: m.np.mean((net(p, x) - y) ** 2)  # noqa: E731

    def task(x, y, x2, y2):
        adapted = m.tree.map(lambda a, g: a - 0.01 * g, p, m.grad(loss)(p, x, y))
        return loss(adapted, x2, y2)

    return m.np.mean(m.vmap(task)(x, y, x2, y2))


def _neural_ode(m, p, y):
    f = lambda y: m.np.tanh(y @ p["w1"]) @ p["w2"]  # noqa: E731

    def runge_kutta(y, _):
        a = f(y)
        b = f(y + 0.05 * a)
        c = f(y + 0.05 * b)
        return y + 0.1 / 6 * (a + 2 * b + 2 * c + f(y + 0.1 * c)), None

    return m.np.mean(m.lax.scan(runge_kutta, y, None, length=30)[0] ** 2)


def _policy(m, p, observed, action, old, advantage, returned):
    h = m.np.tanh(m.np.tanh(observed @ p["w1"]) @ p["w2"])
    logs, value = m.nn.log_softmax(h @ p["pi"]), (h @ p["v"])[:, 0]
    ratio = m.np.exp(m.np.take_along_axis(logs, action[:, None], 1)[:, 0] - old)
    gain = m.np.minimum(ratio * advantage, m.np.clip(ratio, 0.8, 1.2) * advantage)
    return -m.np.mean(gain) + 0.5 * m.np.mean((value - returned) ** 2) + 0.01 * m.np.mean(m.np.sum(m.np.exp(logs) * logs, -1))


def _hamiltonian(m, w, x, y, k):
    log_density = lambda w: -0.5 * m.np.sum((x @ w - y) ** 2) - 0.5 * w @ w  # noqa: E731
    k1, k2 = m.random.split(k)
    start = m.random.normal(k1, w.shape)

    def leap(carry, _):
        w, momentum = carry
        momentum = momentum + 0.005 * m.grad(log_density)(w)
        w = w + 0.01 * momentum
        return (w, momentum + 0.005 * m.grad(log_density)(w)), None

    (new, momentum), _ = m.lax.scan(leap, (w, start), None, length=20)
    gain = log_density(new) - log_density(w) - 0.5 * (momentum @ momentum - start @ start)
    return m.np.where(m.np.log(m.random.uniform(k2)) < gain, new, w)


def _kalman(m, f, h, observed):
    def likelihood(f):
        def update(carry, y):
            mean, cov, total = carry
            mean, cov = f @ mean, f @ cov @ f.T + 0.1 * m.np.eye(4)
            s, error = h @ cov @ h.T + m.np.eye(2), y - h @ mean
            gain = m.np.linalg.solve(s, h @ cov).T
            total = total - 0.5 * (error @ m.np.linalg.solve(s, error) + m.np.linalg.slogdet(s)[1])
            return (mean + gain @ error, cov - gain @ h @ cov, total), None

        return m.lax.scan(update, (m.np.zeros(4), m.np.eye(4), 0.0), observed)[0][2]

    return m.value_and_grad(likelihood)(0.1 * f + m.np.eye(4))


def _newton(m, w, x, y):
    loss = lambda w: m.np.mean(m.np.log1p(m.np.exp(-y * (x @ w)))) + 0.01 * w @ w  # noqa: E731
    return w - m.np.linalg.solve(m.hessian(loss)(w), m.grad(loss)(w))


def _bodies(m, x, v):
    def move(i, carry):
        x, v = carry
        d = x[:, None] - x[None]
        v = v - 0.01 * (d / ((d**2).sum(-1) + 0.01)[..., None] ** 1.5).sum(1)
        return x + 0.01 * v, v

    return m.lax.fori_loop(0, 20, move, (x, v))


def _cross(m, a, b):
    return m.grad(lambda a: m.np.sum(m.np.cross(a, b) ** 2))(a)


def _rotary(m, x, angle):
    a, b = m.np.split(x, 2, -1)
    c, s = m.np.cos(angle)[:, None], m.np.sin(angle)[:, None]
    return m.np.concatenate([a * c - b * s, b * c + a * s], -1)


def _rotary_rows(m, x, angle):
    """As rotate_half of whole rows, turned for attention."""
    c, s = m.np.concatenate([m.np.cos(angle)] * 2, -1)[:, None], m.np.concatenate([m.np.sin(angle)] * 2, -1)[:, None]
    half = x.shape[-1] // 2
    return (x * c + m.np.concatenate([-x[..., half:], x[..., :half]], -1) * s).swapaxes(1, 2)


def _rotary_pairs(m, x, angle, ct):
    def rotated(x):
        c, s, a, b = m.np.cos(angle)[:, None], m.np.sin(angle)[:, None], x[..., ::2], x[..., 1::2]
        return m.np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)

    return m.vjp(rotated, x)[1](ct)


def _advantages(m, reward, value, done):
    def back(g, step):
        r, v, following, d = step
        g = r + 0.99 * following * (1 - d) - v + 0.9405 * (1 - d) * g
        return g, g

    return m.lax.scan(back, m.np.zeros(reward.shape[1]), (reward, value[:-1], value[1:], (done > 1.5) * 1.0), reverse=True)[1]


def _march(m, directions):
    distance = lambda p: m.np.linalg.norm(p) - 1 + 0.1 * m.np.sin(5 * p).prod()  # noqa: E731
    eye = m.np.array([0.0, 0.0, -3.0])

    def ray(d):
        t = m.lax.fori_loop(0, 32, lambda i, t: t + distance(eye + t * d), 0.0)
        return m.np.maximum(0.0, m.grad(distance)(eye + t * d) @ m.np.array([0.5, 0.5, -0.7]))

    d = 0.2 * directions + m.np.array([0.0, 0.0, 1.0])
    return m.vmap(ray)(d / m.np.linalg.norm(d, axis=-1, keepdims=True))


def _stein(m, x):
    log_density = lambda x: m.np.logaddexp(-0.5 * m.np.sum((x - 1) ** 2), -0.5 * m.np.sum((x + 1) ** 2))  # noqa: E731
    kernel = lambda x, y: m.np.exp(-m.np.sum((x - y) ** 2))  # noqa: E731
    pairs = lambda f: m.vmap(lambda a: m.vmap(lambda b: f(a, b))(x))(x)  # noqa: E731
    repulsion = pairs(lambda a, b: m.grad(kernel)(b, a)).sum(1)
    return x + 0.1 * (pairs(kernel) @ m.vmap(m.grad(log_density))(x) + repulsion) / x.shape[0]


def _alignment(m, scores):
    def total(scores):
        logs = m.nn.log_softmax(scores)

        def advance(a, l):
            moved = m.np.concatenate([m.np.full((a.shape[0], 1), -1e30), a[:, :-1]], 1)
            return m.np.logaddexp(a, moved) + l, None

        return -m.np.mean(m.lax.scan(advance, logs[0], logs[1:])[0][:, -1])

    return m.value_and_grad(total)(scores)


def _most_likely_path(m, first, move, emit, observed):
    def one(observed):
        def advance(d, o):
            scores = d[:, None] + move
            return scores.max(0) + emit[:, o], scores.argmax(0)

        d, back = m.lax.scan(advance, first + emit[:, observed[0]], observed[1:])
        last = d.argmax()
        path = m.lax.scan(lambda s, b: (b[s], b[s]), last, back, reverse=True)[1]
        return m.np.append(path, last)

    return m.vmap(one)(observed)


def _discrepancy(m, x, y):
    def kernel(a, b):
        return sum(m.np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * s)) for s in (0.5, 1.0, 2.0))

    return m.value_and_grad(lambda x: kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean())(x)


def _adaptive_ode(m, w1, w2, y):
    f = lambda y, t, w1, w2: m.np.tanh(m.np.append(y, t) @ w1) @ w2  # noqa: E731
    times = m.np.linspace(0.0, 2.0, 10)
    path = lambda w1, w2, y: m.odeint(f, y, times, w1, w2, rtol=1e-4, atol=1e-4)  # noqa: E731
    return m.value_and_grad(lambda w1, w2: m.np.mean(m.vmap(path, (None, None, 0))(w1, w2, y) ** 2), (0, 1))(w1, w2)


def _julia(m, x, y):
    z = m.lax.complex(x, y)
    escape = lambda z: m.lax.while_loop(  # noqa: E731
        lambda s: (s[1] < 50) & (s[0].real ** 2 + s[0].imag ** 2 < 4), lambda s: (s[0] ** 2 + (-0.8 + 0.156j), s[1] + 1), (z, 0)
    )
    return m.vmap(m.vmap(lambda z: escape(z)[1]))(z)


def _waves(m, e, source):
    """Maxwell's equations on staggered grids."""

    def advance(c, s):
        e, h, k = c
        h = h.at[:, :-1].add(-0.5 * (e[:, 1:] - e[:, :-1]))
        k = k.at[:-1].add(0.5 * (e[1:] - e[:-1]))
        e = e.at[1:-1, 1:-1].add(0.5 * (k[1:-1, 1:-1] - k[:-2, 1:-1] - h[1:-1, 1:-1] + h[1:-1, :-2])).at[20, 20].add(s)
        return (e, h, k), e[20, 25]

    return m.lax.scan(advance, (e, m.np.zeros_like(e), m.np.zeros_like(e)), source)


def _coins(m, coins):
    """In how many ways coins make up each sum."""
    ways = m.np.zeros(101, m.np.int32).at[0].set(1)
    put = lambda w, c, j: m.np.where(j >= c, w.at[j].add(w[j - c]), w)  # noqa: E731
    return m.lax.scan(lambda w, c: (m.lax.fori_loop(0, 101, lambda j, w: put(w, c, j), w), None), ways, coins)[0]


def _edges(m, x):
    across, down = x[:, 1:-1, 2:] - x[:, 1:-1, :-2], x[:, 2:, 1:-1] - x[:, :-2, 1:-1]
    size = m.np.sqrt(across**2 + down**2 + 1e-6)
    return (size > size.mean((1, 2), keepdims=True)) * size


def _filter_bank(m, x, ct):
    """The sound's gradient of a first layer of 80 windows of 400 samples by 160."""
    w = m.np.sin(m.np.arange(80 * 400, dtype="float32")).reshape(80, 1, 400)
    return m.vjp(lambda x: m.lax.conv_general_dilated(x, w, (160,), [(0, 0)]), x)[1](ct)[0]


def _pointwise(m, w, x, ct):
    """The kernel's gradient of a convolution of one tap, features first."""
    return m.vjp(lambda w: m.lax.conv_general_dilated(x, w, (1, 1), [(0, 0)] * 2), w)[1](ct)[0]


def register():
    step(
        "a variational autoencoder",
        _autoencoder,
        weights(
            w1=(784, 256), b1=(256,), w2=(256, 16), b2=(16,), w3=(256, 16), b3=(16,), w4=(16, 256), b4=(256,), w5=(256, 784), b5=(784,)
        ),
        normal(128, 784),
        key,
    )
    block = weights(c1=(3, 3, 32, 32), c2=(3, 3, 32, 32), g1=(32,), b1=(32,), g2=(32,), b2=(32,), w=(32, 10))
    step("a residual block", _residual_network, block, normal(16, 32, 32, 32), integer(10, 16), adam=False)
    step(
        "convolutions, features first",
        _convolutions_features_first,
        weights(c1=(16, 1, 5, 5), c2=(32, 16, 5, 5), w=(512, 10)),
        normal(64, 1, 28, 28),
        integer(10, 64),
        adam=False,
    )
    layers = {f"{n}{i}": s for i in range(2) for n, s in {"qkv": (128, 384), "o": (128, 128), "f": (128, 512), "g": (512, 128)}.items()}
    step("a transformer with dropout", _transformer, weights(emb=(256, 128), **layers), integer(256, 8, 64), integer(256, 8, 64), key)
    graph = weights(w1=(64, 64), w2=(64, 32), u=(64, 32), o=(32, 1))
    step("a graph network", _messages, graph, normal(2000, 32), integer(2000, 20_000), integer(2000, 20_000), normal(2000, 1), adam=False)
    step(
        "a network for Burgers' equation",
        _burgers,
        weights(w1=(2, 32), b1=(32,), w2=(32, 32), b2=(32,), w3=(32, 1), b3=(1,)),
        normal(1000),
        normal(1000),
    )
    words = weights(**{"in": (5000, 64), "out": (5000, 64)})
    step("skip-gram", _skip_gram, words, integer(5000, 512), integer(5000, 512), integer(5000, 512, 5), adam=False)
    step("an MLP in bfloat16", _bfloat16, weights(w1=(512, 512), w2=(512, 512), w3=(512, 512)), normal(128, 512), adam=False)
    step(
        "an LSTM over letters",
        _lstm,
        weights(emb=(64, 128), w1=(256, 512), b1=(512,), out=(128, 64)),
        integer(64, 50, 32),
        integer(64, 50, 32),
    )
    mixer = {f"{n}{i}": s for i in range(3) for n, s in {"t": (64, 128), "u": (128, 64), "v": (64, 256), "w": (256, 64)}.items()}
    step("an MLP-mixer", _mixer, weights(**mixer), normal(16, 64, 64), adam=False)
    step("diffusion", _diffusion, weights(w1=(66, 128), b1=(128,), w2=(128, 128), b2=(128,), w3=(128, 2), b3=(2,)), normal(1024, 2), key)
    task = (normal(25, 10, 1), normal(25, 10, 1), normal(25, 10, 1), normal(25, 10, 1))
    step("meta-learning", _meta, weights(w1=(1, 40), b1=(40,), w2=(40, 40), b2=(40,), w3=(40, 1), b3=(1,)), *task, adam=False)
    step("a neural ODE", _neural_ode, weights(w1=(4, 64), w2=(64, 4)), normal(64, 4))
    policy = weights(w1=(8, 64), w2=(64, 64), pi=(64, 4), v=(64, 1))
    step("a policy", _policy, policy, normal(2048, 8), integer(4, 2048), normal(2048), normal(2048), normal(2048))
    case("Hamiltonian Monte Carlo", _hamiltonian, normal(10), normal(500, 10), normal(500), key, checked=False)
    case("Kalman filter, value and grad", _kalman, normal(4, 4), normal(2, 4), normal(100, 2))
    case("Newton's method for logistic regression", _newton, normal(20), normal(1000, 20), normal(1000))
    case("bodies in motion", _bodies, normal(200, 3), normal(200, 3), checked=False)
    case("advantages by a scan backwards", _advantages, normal(128, 16), normal(129, 16), normal(128, 16))
    case("rays marched to a surface", _march, normal(4096, 3))
    case("Stein variational descent", _stein, normal(200, 2))
    case("alignment by a scan, value and grad", _alignment, normal(100, 16, 30))
    case("edges of images", _edges, normal(8, 256, 256))
    case("Viterbi paths", _most_likely_path, normal(10), normal(10, 10), normal(10, 20), integer(20, 16, 100))
    case("ways to make sums of coins", _coins, integer(50, 5))
    case("waves on staggered grids by a scan", _waves, normal(40, 40), normal(40))
    case("maximum mean discrepancy, value and grad", _discrepancy, normal(200, 3), normal(150, 3))
    case("an ODE by adaptive steps, value and grad", _adaptive_ode, normal(3, 32, scale=0.3), normal(32, 2, scale=0.2), normal(16, 2))
    case("rotary positions, written out", _rotary, normal(8, 512, 8, 64), normal(512, 32))
    case("rotary positions of whole rows, turned", _rotary_rows, normal(4, 512, 8, 64), normal(512, 32))
    case("rotary positions of pairs, pulled back", _rotary_pairs, normal(4, 512, 8, 64), normal(512, 32), normal(4, 512, 8, 64))
    case("cross products, grad", _cross, normal(100_000, 3), normal(100_000, 3))
    case("Julia set by a vmapped while_loop", _julia, normal(48, 64), normal(48, 64), checked=False)
    case("gradient of a filter bank's sound", _filter_bank, normal(4, 1, 32_000), normal(4, 80, 198))
    case("gradient of a pointwise kernel", _pointwise, normal(256, 64, 1, 1), normal(8, 64, 28, 28), normal(8, 256, 28, 28))
    case("singular vectors of 600", lambda m, a: m.np.linalg.svd(a, compute_uv=True)[1], normal(600, 600))
