"""scan, while_loop, fori_loop, cond, switch, map and what is written with them."""

import numpy as np

from tests.peers.registry import FORWARD, VALUE, normal, positive, program


@program(normal((2,)))
def ode_by_scan(jax, y):
    jnp = jax.numpy
    f = lambda y: jnp.stack([y[1], -jnp.sin(y[0])])

    def rk4(y, _):
        k1 = f(y)
        k2 = f(y + 0.05 * k1)
        k3 = f(y + 0.05 * k2)
        k4 = f(y + 0.1 * k3)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return jax.lax.scan(rk4, y, length=5)


@program(normal((2,)))
def ode_by_fori_loop(jax, y):
    return jax.lax.fori_loop(0, 6, lambda i, y: y + 0.1 * jax.numpy.sin(y[::-1]) * i, y)


@program(positive((2,)), transforms=VALUE + FORWARD)
def ode_by_while_loop(jax, y):
    jnp = jax.numpy

    def body(s):
        t, y = s
        h = jnp.minimum(0.3, 1.0 - t)
        return t + h, y + h * jnp.cos(y)

    return jax.lax.while_loop(lambda s: s[0] < 1.0, body, (0.0, y))


@program(positive(()), transforms=VALUE + FORWARD)
def newton_iteration(jax, a):
    jnp = jax.numpy
    f = lambda x: x * x - a
    body = lambda s: (s[0] - f(s[0]) / jax.grad(f)(s[0]), s[1] + 1)
    return jax.lax.while_loop(lambda s: (jnp.abs(f(s[0])) > 1e-4) & (s[1] < 20), body, (a * 1.0, 0))


@program(normal((3,)), transforms=VALUE + FORWARD)
def fori_loop_with_traced_bound(jax, x):
    n = jax.numpy.sum(x > -10).astype(int)
    return jax.lax.fori_loop(0, n, lambda i, c: c * 0.5 + i, x)


@program(normal((3,)))
def cond_on_a_value(jax, x):
    jnp, lax = jax.numpy, jax.lax
    a = lax.cond(x[0] > 0, lambda v: jnp.sin(v) * x[1], lambda v: v**2, x)
    b = lax.cond(x.sum() > 100, lambda: x, lambda: jnp.zeros(3))
    c = lax.cond(True, lambda p: {"a": p["a"] * 2, "n": 1}, lambda p: {"a": p["a"], "n": 2}, {"a": x})
    return a, b, c


@program(lambda r: (r.standard_normal(3), np.int32(2)), diff=(0, 1), without=("hessian",))
def switch_on_an_index(jax, x, i):
    jnp = jax.numpy
    branches = [lambda v: v, lambda v: jnp.sin(v), lambda v: v * v.sum()]
    return jax.lax.switch(i, branches, x), jax.lax.switch(9, branches, x), jax.lax.switch(-1, branches, x)


@program(normal((3, 2), (2,)), diff=(0, 1))
def map_over_rows(jax, xs, w):
    return jax.lax.map(lambda x: {"y": jax.numpy.dot(x, w), "x": x * 2}, xs)


@program(normal((4, 2)))
def nested_scans(jax, xs):
    jnp, lax = jax.numpy, jax.lax

    def outer(c, x):
        inner, ys = lax.scan(lambda d, e: (d * 0.5 + e, d * e), c, x)
        return inner, (ys, jnp.sin(inner))

    return lax.scan(outer, 1.0, xs)


@program(lambda r: (r.standard_normal(3), r.standard_normal((4, 3)), np.arange(4)), diff=(0, 1))
def scan_with_mixed_carry(jax, h, xs, n):
    jnp = jax.numpy

    def step(carry, x):
        h, count, best = carry
        h = jnp.tanh(h + x[0] * x[1])
        return (h, count + x[1], jnp.maximum(best, h.sum())), (h[0], x[1] % 2 == 0, None)

    return jax.lax.scan(step, (h, 0, -jnp.inf), (xs, n), unroll=2)


@program(normal((3,)))
def cond_inside_scan(jax, x):
    jnp, lax = jax.numpy, jax.lax

    def step(c, i):
        c = lax.cond(i % 2 == 0, lambda c: c * x, lambda c: jnp.sin(c) + x[i % 3], c)
        return c, c[0]

    return lax.scan(step, jnp.ones(3), jnp.arange(4))


@program(normal((3,)), transforms=VALUE + FORWARD)
def while_inside_scan(jax, x):
    lax = jax.lax

    def step(c, v):
        out = lax.while_loop(lambda s: s[1] < 3, lambda s: (s[0] * v + 1, s[1] + 1), (c, 0))
        return out[0], out[1]

    return lax.scan(step, 0.5, x)


@program(normal((2, 2), (5, 2)), diff=(0, 1), without=("hessian",))
def kalman_filter(jax, a, ys):
    jnp = jax.numpy
    a, q, r = 0.4 * a, jnp.eye(2) * 0.1, jnp.eye(2) * 0.5

    def inv2(m):
        det = m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        return jnp.array([[m[1, 1], -m[0, 1]], [-m[1, 0], m[0, 0]]]) / det, det

    def step(carry, y):
        mu, p = carry
        mu, p = a @ mu, a @ p @ a.T + q
        s_inv, det = inv2(p + r)
        gain, e = p @ s_inv, y - mu
        loglik = -0.5 * (e @ s_inv @ e + jnp.log(det) + 2 * jnp.log(2 * jnp.pi))
        return (mu + gain @ e, (jnp.eye(2) - gain) @ p), loglik

    (mu, p), ll = jax.lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)
    return mu, p, ll.sum()


@program(lambda r: (r.standard_normal((3, 3)), r.standard_normal((3, 4)), r.integers(0, 4, 7)), diff=(0, 1))
def hmm_forward(jax, trans, emit, obs):
    jnp, nn = jax.numpy, jax.nn
    lt, le = nn.log_softmax(trans, -1), nn.log_softmax(emit, -1)

    def step(alpha, o):
        return nn.logsumexp(alpha[:, None] + lt, axis=0) + le[:, o], None

    alpha, _ = jax.lax.scan(step, jnp.log(jnp.ones(3) / 3) + le[:, obs[0]], obs[1:])
    return nn.logsumexp(alpha)


@program(normal((2, 3)))
def loops_over_empty_ranges(jax, x):
    lax = jax.lax
    a = lax.fori_loop(3, 3, lambda i, c: c * 2, x)
    b, ys = lax.scan(lambda c, v: (c + v.sum(), v * c[0, 0]), x, x[:0])
    return a, b, ys


@program(lambda r: (r.standard_normal(4), np.array([3, 1, 4, 2])), transforms=VALUE, diff=(0, 1))
def while_loops_of_different_lengths(jax, x, n):
    def collatz(n):
        lax, jnp = jax.lax, jax.numpy
        return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1]

    return jax.vmap(collatz)(n), jax.vmap(lambda c, v: jax.lax.cond(c > 2, lambda v: v * 2, lambda v: -v, v))(n, x)
