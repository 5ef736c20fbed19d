"""Probability: variational inference, samplers, mixtures, state-space models, Gaussian processes."""

import importlib

from tests.peers.tutorials.registry import tutorial


def _data(jax, n=40):
    jnp, random = jax.numpy, jax.random
    x = random.normal(random.key(0), (n, 3))
    y = (x @ jnp.array([1.0, -1.5, 0.5]) + 0.3 * random.normal(random.key(1), (n,)) > 0).astype(jnp.float32)
    return x, y


@tutorial
def vectorised_log_probability_and_vi(jax):
    """A log joint of one example, mapped over examples and samples; VI with the reparametrisation trick."""
    jnp, random = jax.numpy, jax.random
    norm = importlib.import_module(f"{jax.__name__}.scipy.stats").norm
    x, y = _data(jax)
    log_joint = lambda beta: jnp.sum(norm.logpdf(beta, 0.0, 1.0)) + jnp.sum(-jnp.log1p(jnp.exp(-(2 * y - 1) * (x @ beta))))
    batched = jax.jit(jax.vmap(log_joint))

    def elbo(params, key):
        mean, log_scale = params
        samples = mean + jnp.exp(log_scale) * random.normal(key, (10, 3))
        return jnp.mean(batched(samples)) + jnp.sum(log_scale)

    @jax.jit
    def step(params, key):
        value, g = jax.value_and_grad(elbo)(params, key)
        return jax.tree.map(lambda p, g: p + 0.02 * g, params, g), value

    params, values = jax.lax.scan(step, (jnp.zeros(3), jnp.zeros(3)), random.split(random.key(2), 60))
    return batched(random.normal(random.key(3), (4, 3))), params, values


@tutorial(rtol=2e-3)
def langevin_and_hmc(jax):
    """An unadjusted Langevin sampler and Hamiltonian Monte Carlo with a few chains, on a correlated Gaussian."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    precision = jnp.array([[2.0, 0.8], [0.8, 1.0]])
    potential = lambda x: 0.5 * x @ precision @ x
    force = jax.grad(potential)

    def langevin(x, key):
        x = x - 0.05 * force(x) + jnp.sqrt(0.1) * random.normal(key, (2,))
        return x, x

    def hmc(x, key):
        k1, k2 = random.split(key)
        p0 = random.normal(k1, (2,))

        def leapfrog(_, state):
            x, p = state
            p = p - 0.1 * force(x)
            x = x + 0.2 * p
            return x, p - 0.1 * force(x)

        new, p = lax.fori_loop(0, 5, leapfrog, (x, p0))
        change = potential(x) + 0.5 * p0 @ p0 - potential(new) - 0.5 * p @ p
        accept = jnp.log(random.uniform(k2)) < change
        return jnp.where(accept, new, x), (jnp.where(accept, new, x), accept)

    chain = lambda kernel: jax.jit(jax.vmap(lambda key: lax.scan(kernel, jnp.ones(2), random.split(key, 20))[1]))
    keys = random.split(random.key(0), 3)
    return chain(langevin)(keys), chain(hmc)(keys)


@tutorial
def em_for_a_gaussian_mixture(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    logpdf = importlib.import_module(f"{jax.__name__}.scipy.stats").norm.logpdf
    x = jnp.concatenate([random.normal(random.key(0), (50,)) - 3, 0.5 * random.normal(random.key(1), (50,)) + 2])

    def sweep(state, _):
        weight, mean, scale = state
        logits = jnp.log(weight) + logpdf(x[:, None], mean, scale)
        total = jax.nn.logsumexp(logits, axis=1, keepdims=True)
        r = jnp.exp(logits - total)
        n = r.sum(0)
        mean = (r * x[:, None]).sum(0) / n
        return (n / n.sum(), mean, jnp.sqrt((r * (x[:, None] - mean) ** 2).sum(0) / n)), total.sum()

    return jax.jit(lambda s: lax.scan(sweep, s, None, 15))((jnp.full(2, 0.5), jnp.array([-1.0, 1.0]), jnp.ones(2)))


@tutorial
def kalman_filter(jax):
    """Filter of a constant-velocity model, its likelihood and the likelihood's gradient in the noise levels."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    a, h = jnp.array([[1.0, 0.1], [0.0, 1.0]]), jnp.array([[1.0, 0.0]])
    ys = jnp.cumsum(0.3 * random.normal(random.key(0), (25, 1)), axis=0)

    def likelihood(log_noise):
        q, r = jnp.exp(log_noise[0]) * jnp.eye(2), jnp.exp(log_noise[1]) * jnp.eye(1)

        def step(carry, y):
            m, p = carry
            m, p = a @ m, a @ p @ a.T + q
            s = h @ p @ h.T + r
            k = p @ h.T / s
            e = y - h @ m
            ll = -0.5 * (e @ e / s[0, 0] + jnp.log(2 * jnp.pi * s[0, 0]))
            return (m + k @ e, p - k @ s @ k.T), (m, ll)

        _, (means, lls) = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)
        return lls.sum(), means

    return jax.jit(jax.value_and_grad(likelihood, has_aux=True))(jnp.array([-2.0, -1.0]))


@tutorial
def hidden_markov_model_and_crf(jax):
    """The forward algorithm in log space; the gradient of its logarithm is the posterior; Viterbi by max and argmax."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    trans, emit = random.normal(random.key(0), (4, 4)), random.normal(random.key(1), (9, 4))

    def log_z(trans, emit):
        step = lambda alpha, e: (jax.nn.logsumexp(alpha[:, None] + trans, axis=0) + e, None)
        return jax.nn.logsumexp(lax.scan(step, emit[0], emit[1:])[0])

    def viterbi(trans, emit):
        def forward(score, e):
            options = score[:, None] + trans
            return options.max(0) + e, options.argmax(0)

        last, back = lax.scan(forward, emit[0], emit[1:])
        best = last.argmax()
        _, path = lax.scan(lambda s, b: (b[s], b[s]), best, back, reverse=True)
        return jnp.append(path, best)

    score = lambda trans, emit, tags: emit[jnp.arange(9), tags].sum() + trans[tags[:-1], tags[1:]].sum()
    tags = jnp.array([0, 1, 1, 3, 2, 2, 0, 1, 3])
    nll = lambda t, e: log_z(t, e) - score(t, e, tags)
    products = lax.associative_scan(lambda a, b: jax.nn.logsumexp(a[..., :, :, None] + b[..., None, :, :], axis=-2), trans + emit[1:, None])
    return jax.jit(jax.value_and_grad(log_z, (0, 1)))(trans, emit), viterbi(trans, emit), jax.grad(nll, (0, 1))(trans, emit), products[-1]


@tutorial(rtol=2e-3)
def gaussian_process_regression(jax):
    """Kernel by nested vmap; the posterior by conjugate gradients; hyperparameters by the marginal likelihood's gradient."""
    jnp, random = jax.numpy, jax.random
    x = jnp.linspace(-2.0, 2.0, 12)
    y = jnp.sin(2 * x) + 0.1 * random.normal(random.key(0), (12,))
    kernel = lambda p: lambda a, b: jnp.exp(p["amp"]) * jnp.exp(-((a - b) ** 2) / jnp.exp(p["len"]))
    gram = lambda k, a, b: jax.vmap(lambda u: jax.vmap(lambda v: k(u, v))(b))(a)

    def nll(p):
        k = gram(kernel(p), x, x) + jnp.exp(p["noise"]) * jnp.eye(12)
        low = jnp.linalg.cholesky(k)
        z = jax.lax.linalg.triangular_solve(low, y[:, None], left_side=True, lower=True)
        return 0.5 * jnp.sum(z**2) + jnp.sum(jnp.log(jnp.diag(low)))

    p = {"amp": jnp.float32(0.0), "len": jnp.float32(0.0), "noise": jnp.float32(-1.0)}

    @jax.jit
    def step(p, _):
        value, g = jax.value_and_grad(nll)(p)
        return jax.tree.map(lambda p, g: p - 0.02 * g, p, g), value

    p, values = jax.lax.scan(step, p, length=20)
    k = gram(kernel(p), x, x) + jnp.exp(p["noise"]) * jnp.eye(12)
    at = jnp.array([-1.0, 0.3])
    mean = gram(kernel(p), at, x) @ jnp.linalg.solve(k, y)
    slope = jax.vmap(jax.grad(lambda s: gram(kernel(p), s[None], x)[0] @ jnp.linalg.solve(k, y)))(at)
    return p, values, mean, slope


@tutorial
def bandits(jax):
    """Thompson sampling, UCB and epsilon-greedy on Bernoulli arms, many runs at once."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    arms = jnp.array([0.2, 0.5, 0.7])

    def choose(kind, key, wins, pulls, t):
        mean = wins / jnp.maximum(pulls, 1)
        greedy = jnp.where(random.uniform(key) < 0.1, random.randint(key, (), 0, 3), jnp.argmax(mean))
        ucb = jnp.argmax(mean + jnp.sqrt(2 * jnp.log(t + 1.0) / jnp.maximum(pulls, 1e-3)))
        gaussian = jnp.argmax(mean + random.normal(key, (3,)) / jnp.sqrt(pulls + 1))
        return lax.switch(kind, [lambda: greedy, lambda: ucb, lambda: gaussian])

    def run(kind, key):
        def pull(state, t):
            wins, pulls, key = state
            key, k1, k2 = random.split(key, 3)
            arm = choose(kind, k1, wins, pulls, t)
            reward = random.bernoulli(k2, arms[arm]).astype(jnp.float32)
            return (wins.at[arm].add(reward), pulls.at[arm].add(1.0), key), reward

        (_, pulls, _), rewards = lax.scan(pull, (jnp.zeros(3), jnp.zeros(3), key), jnp.arange(40))
        return pulls, rewards.mean()

    return jax.jit(jax.vmap(run))(jnp.array([0, 1, 2, 0, 1, 2]), random.split(random.key(0), 6))


@tutorial
def normalizing_flow(jax):
    """Affine coupling layers: density by the log determinant, inverse, maximum likelihood."""
    jnp, random = jax.numpy, jax.random
    norm = importlib.import_module(f"{jax.__name__}.scipy.stats").norm
    x = random.normal(random.key(0), (64, 2))
    x = jnp.stack([x[:, 0], x[:, 0] ** 2 + 0.3 * x[:, 1]], axis=1)
    params = [{"w1": 0.3 * random.normal(k, (1, 8)), "w2": 0.1 * random.normal(k, (8, 2))} for k in random.split(random.key(1), 4)]

    def coupling(p, x, sign):
        a, b = x[..., :1], x[..., 1:]
        s, t = jnp.split(jnp.tanh(a @ p["w1"]) @ p["w2"], 2, axis=-1)
        b = jnp.where(sign > 0, b * jnp.exp(s) + t, (b - t) * jnp.exp(-s))
        return jnp.concatenate([a, b], -1), s[..., 0]

    def forward(params, x):
        total = 0.0
        for p in params:
            x, s = coupling(p, x, 1)
            x, total = x[..., ::-1], total + s
        return x, total

    def inverse(params, z):
        for p in params[::-1]:
            z = coupling(p, z[..., ::-1], -1)[0]
        return z

    def loss(params):
        z, log_det = forward(params, x)
        return -jnp.mean(norm.logpdf(z).sum(-1) + log_det)

    @jax.jit
    def step(params):
        value, g = jax.value_and_grad(loss)(params)
        return jax.tree.map(lambda p, g: p - 0.05 * g, params, g), value

    values = []
    for _ in range(15):
        params, value = step(params)
        values.append(value)
    one = x[0]
    jac = jax.jacfwd(lambda v: forward(params, v)[0])(one)
    return jnp.stack(values), inverse(params, forward(params, x)[0]), jnp.abs(jnp.linalg.det(jac)), jnp.exp(forward(params, one)[1])
