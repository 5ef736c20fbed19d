"""Minimisation: Newton, L-BFGS, relaxation, iterations to a fixed point."""

import importlib

import numpy as np

from tests.peers.tutorials.registry import tutorial


@tutorial
def logistic_regression_by_newton(jax):
    jnp, random = jax.numpy, jax.random
    x = random.normal(random.key(0), (60, 3))
    y = (random.uniform(random.key(1), (60,)) < jax.nn.sigmoid(x @ jnp.array([1.0, -2.0, 0.5]))).astype(jnp.float32)
    loss = lambda w: jnp.mean(jax.nn.softplus(x @ w) - y * (x @ w)) + 0.01 * jnp.sum(w**2)

    @jax.jit
    def newton(w, _):
        g, h = jax.grad(loss)(w), jax.hessian(loss)(w)
        minor = lambda i: jnp.linalg.det(h.at[:, i].set(g))
        step = jnp.stack([minor(i) for i in range(3)]) / jnp.linalg.det(h)
        return w - step, loss(w)

    w, losses = jax.lax.scan(newton, jnp.zeros(3), length=6)
    return w, losses, jax.hessian(loss)(w)


@tutorial(rtol=2e-3)
def lbfgs_by_hand(jax):
    """The two-loop recursion over a circular memory, with backtracking, as one while_loop."""
    jnp, lax = jax.numpy, jax.lax
    n, m = 4, 5
    scales = jnp.arange(1.0, n + 1)
    f = lambda x: jnp.sum(scales * (x - 1) ** 2) + 0.1 * jnp.sum((x[1:] - x[:-1]) ** 4)

    def direction(g, s, y, rho, k):
        def down(q, j):
            i = (k - 1 - j) % m
            alpha = jnp.where(j < k, rho[i] * (s[i] @ q), 0.0)
            return q - alpha * y[i], alpha

        q, alphas = lax.scan(down, g, jnp.arange(m))
        last = (k - 1) % m
        gamma = jnp.where(k > 0, (s[last] @ y[last]) / jnp.maximum(y[last] @ y[last], 1e-10), 1.0)

        def up(r, j):
            i = (k - 1 - j) % m
            beta = jnp.where(j < k, rho[i] * (y[i] @ r), 0.0)
            return r + s[i] * jnp.where(j < k, alphas[j] - beta, 0.0), None

        return -lax.scan(up, gamma * q, jnp.arange(m - 1, -1, -1))[0]

    def body(state):
        x, g, s, y, rho, k = state
        d = direction(g, s, y, rho, k)
        t = lax.while_loop(lambda t: f(x + t * d) > f(x) + 1e-4 * t * (g @ d), lambda t: t * 0.5, jnp.float32(1.0))
        new = x + t * d
        g_new = jax.grad(f)(new)
        i, dx, dg = k % m, new - x, g_new - g
        return new, g_new, s.at[i].set(dx), y.at[i].set(dg), rho.at[i].set(1 / jnp.maximum(dx @ dg, 1e-10)), k + 1

    x0 = jnp.array([3.0, -2.0, 4.0, 0.0])
    start = (x0, jax.grad(f)(x0), jnp.zeros((m, n)), jnp.zeros((m, n)), jnp.zeros(m), 0)
    x, g, *_ = jax.jit(lambda s: lax.while_loop(lambda s: (s[5] < 30) & (jnp.linalg.norm(s[1]) > 1e-2), body, s))(start)
    return x, f(x)


@tutorial(rtol=2e-3)
def bfgs_from_scipy(jax):
    jnp = jax.numpy
    minimize = importlib.import_module(f"{jax.__name__}.scipy.optimize").minimize
    quadratic = lambda x, a: jnp.sum(a * (x - 2) ** 2) + jnp.sum(jnp.cos(x))
    out = minimize(quadratic, jnp.zeros(3), (jnp.array([1.0, 2.0, 3.0]),), method="BFGS", tol=1e-3)
    return out.x, out.fun, out.success


@tutorial
def pagerank(jax):
    jnp, lax = jax.numpy, jax.lax
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 0], [3, 2], [3, 1], [4, 3], [4, 0], [2, 4]])
    src, dst = edges.T
    degree = jax.ops.segment_sum(jnp.ones(len(src)), src, 5)

    def sweep(state):
        _, r, n = state
        flow = jax.ops.segment_sum(r[src] / degree[src], dst, 5)
        return r, 0.15 / 5 + 0.85 * flow, n + 1

    start = (jnp.zeros(5), jnp.full(5, 0.2), 0)
    _, ranks, n = jax.jit(lambda s: lax.while_loop(lambda s: jnp.abs(s[0] - s[1]).max() > 1e-5, sweep, s))(start)
    return ranks, n, jnp.argsort(-ranks)


@tutorial
def k_means(jax):
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    centres = jnp.array([[0.0, 0.0], [4.0, 4.0], [0.0, 5.0]])
    x = (centres[:, None] + 0.4 * random.normal(random.key(0), (3, 30, 2))).reshape(-1, 2)
    vq = importlib.import_module(f"{jax.__name__}.scipy.cluster.vq").vq

    def sweep(c, _):
        codes, distance = vq(x, c)
        counts = jax.ops.segment_sum(jnp.ones(len(x)), codes, 3)
        return jax.ops.segment_sum(x, codes, 3) / jnp.maximum(counts, 1)[:, None], distance.mean()

    c, spread = jax.jit(lambda c: lax.scan(sweep, c, length=8))(x[jnp.array([0, 31, 62])])
    return c, spread, jnp.bincount(vq(x, c)[0], length=3)


@tutorial
def sudoku_relaxation(jax):
    """A 4 x 4 sudoku as a relaxed assignment: softmax over digits, penalties on rows, columns and boxes."""
    jnp = jax.numpy
    given = np.array([[1, 0, 0, 4], [0, 4, 1, 0], [2, 0, 4, 0], [0, 3, 0, 1]])
    clue = jax.nn.one_hot(given - 1, 4)

    def loss(z):
        p = jax.nn.softmax(z + 20 * clue, axis=-1)
        boxes = p.reshape(2, 2, 2, 2, 4).sum(axis=(1, 3))
        uneven = lambda s: jnp.sum((s - 1) ** 2)
        return uneven(p.sum(0)) + uneven(p.sum(1)) + uneven(boxes) + 0.1 * jnp.sum(p * (1 - p))

    step = jax.jit(lambda i, z: z - 1.0 * jax.grad(loss)(z))
    z = jax.lax.fori_loop(0, 150, step, jnp.zeros((4, 4, 4)))
    return loss(z), jnp.argmax(z + 20 * clue, -1) + 1


@tutorial
def mirror_descent_and_projections(jax):
    """Exponentiated gradient on the simplex, projection by sorting, and Sinkhorn's iteration for optimal transport."""
    jnp, random, lax = jax.numpy, jax.random, jax.lax
    payoff = random.normal(random.key(0), (4, 5))

    def play(carry, _):
        p, q = carry
        p, q = jax.nn.softmax(jnp.log(p) - 0.3 * payoff @ q), jax.nn.softmax(jnp.log(q) + 0.3 * p @ payoff)
        return (p, q), p @ payoff @ q

    strategies, values = lax.scan(play, (jnp.full(4, 0.25), jnp.full(5, 0.2)), length=50)

    def project(v):
        u = jnp.sort(v)[::-1]
        total = jnp.cumsum(u) - 1
        k = jnp.sum(u * jnp.arange(1, len(v) + 1) > total)
        return jnp.maximum(v - total[k - 1] / k, 0)

    cost = jnp.abs(jnp.linspace(0, 1, 6)[:, None] - jnp.linspace(0, 1, 5)) ** 2

    def transport(cost):
        def sweep(f, _):
            g = -0.05 * jax.nn.logsumexp((f[:, None] - cost) / 0.05, axis=0) + 0.05 * jnp.log(1 / 5)
            return -0.05 * jax.nn.logsumexp((g - cost) / 0.05, axis=1) + 0.05 * jnp.log(1 / 6), g

        f, gs = lax.scan(sweep, jnp.zeros(6), length=30)
        return jnp.sum(cost * jnp.exp((f[:, None] + gs[-1] - cost) / 0.05))

    v = jnp.array([0.5, 1.2, -0.3, 0.9])
    return strategies, values, jax.jit(project)(v), jax.jit(jax.jacobian(project))(v), jax.jit(jax.value_and_grad(transport))(cost)
