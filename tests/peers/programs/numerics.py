"""Small numerical programs: linear algebra by hand, clustering, Gaussian processes, interpolation, geometry."""

import numpy as np

from tests.peers.registry import REVERSE, VALUE, normal, positive, program


def _cholesky(jax, a):
    """The Cholesky factor, column by column."""
    jnp, n = jax.numpy, a.shape[0]
    rows = jnp.arange(n)

    def column(low, j):
        v = a[:, j] - low @ low[j]
        return low.at[:, j].set(jnp.where(rows >= j, v / jnp.sqrt(v[j]), 0.0)), None

    return jax.lax.scan(column, jnp.zeros_like(a), rows)[0]


def _solve_lower(jax, low, b):
    jnp = jax.numpy
    step = lambda x, i: (x.at[i].set((b[i] - low[i] @ x) / low[i, i]), None)
    return jax.lax.scan(step, jnp.zeros_like(b), jnp.arange(low.shape[0]))[0]


@program(lambda r: (np.array([1.0, 0.5]), r.standard_normal(5), r.standard_normal(5)), without=("hessian",), rtol=1e-3)
def gaussian_process(jax, log_scale, x, y):
    jnp = jax.numpy
    k = jnp.exp(log_scale[0] - 0.5 * (x[:, None] - x) ** 2 / jnp.exp(log_scale[1])) + 0.5 * jnp.eye(5)
    low = _cholesky(jax, k)
    z = _solve_lower(jax, low, y)
    return -0.5 * z @ z - jnp.sum(jnp.log(jnp.diag(low)))


@program(lambda r: (r.standard_normal((3, 3)) + 4 * np.eye(3), r.standard_normal(3)), diff=(0, 1), without=("hessian",), rtol=1e-3)
def gauss_elimination(jax, a, b):
    jnp = jax.numpy
    m = jnp.concatenate([a, b[:, None]], axis=1)
    for i in range(3):
        m = m.at[i].divide(m[i, i])
        factor = jnp.where(jnp.arange(3) == i, 0.0, m[:, i])
        m = m - factor[:, None] * m[i]
    return m[:, 3]


@program(lambda r: (r.standard_normal((4, 3)),), without=("hessian",), rtol=1e-3)
def gram_schmidt(jax, a):
    jnp = jax.numpy
    qs = []
    for v in a.T:
        for q in qs:
            v = v - (q @ v) * q
        qs.append(v / jnp.sqrt(v @ v))
    return jnp.stack(qs, axis=1)


@program(normal((3, 3)), without=("hessian",), rtol=1e-3)
def power_iteration(jax, a):
    jnp = jax.numpy
    s = a @ a.T
    unit = lambda v: v / jnp.sqrt(jnp.sum(v**2))
    v = jax.lax.fori_loop(0, 10, lambda _, v: unit(s @ v), jnp.ones(3))
    return v @ s @ v


@program(lambda r: (r.standard_normal((3, 3)), r.standard_normal(3)), diff=(0, 1), without=("hessian",), rtol=1e-3)
def conjugate_gradient(jax, a, b):
    jnp = jax.numpy
    spd = a @ a.T + 3 * jnp.eye(3)

    def step(s, _):
        x, r, p = s
        ap = spd @ p
        alpha = r @ r / (p @ ap)
        x, new = x + alpha * p, r - alpha * ap
        return (x, new, new + (new @ new) / (r @ r) * p), None

    return jax.lax.scan(step, (jnp.zeros(3), b, b), None, length=2)[0][0]


@program(lambda r: (r.standard_normal((6, 2)), r.standard_normal((4, 2)), np.arange(6) % 3), without=("hessian",))
def nearest_neighbours(jax, train, x, labels):
    jnp = jax.numpy
    d = jnp.sum((x[:, None] - train) ** 2, -1)
    near, where = jax.lax.top_k(-d, 3)
    votes = jnp.zeros((4, 3)).at[jnp.arange(4)[:, None], labels[where]].add(jax.nn.softmax(near))
    return votes, jnp.argmax(votes, 1), jnp.min(d, 1)


@program(lambda r: (r.standard_normal((7, 2)), r.standard_normal((3, 2))), diff=(0, 1), without=("hessian",))
def k_means_step(jax, x, centres):
    jnp = jax.numpy
    d = jnp.sum((x[:, None] - centres) ** 2, -1)
    member = jax.nn.one_hot(jnp.argmin(d, 1), 3)
    return (member.T @ x) / jnp.maximum(member.sum(0)[:, None], 1), jnp.sum(jnp.min(d, 1))


@program(lambda r: (np.sort(r.random(4)), r.standard_normal(4), r.random(3)), diff=(1, 2))
def linear_interpolation(jax, xp, fp, x):
    jnp = jax.numpy
    i = jnp.clip(jnp.searchsorted(xp, x, side="right"), 1, 3)
    t = (x - xp[i - 1]) / (xp[i] - xp[i - 1])
    return fp[i - 1] * (1 - t) + fp[i] * t


@program(normal((4, 3)), without=("hessian",))
def pairwise_forces(jax, pos):
    jnp = jax.numpy

    def energy(pos):
        d2 = jnp.sum((pos[:, None] - pos) ** 2, -1)
        off = ~jnp.eye(4, dtype=bool)
        r2 = jnp.where(off, d2, 1.0)
        return 0.5 * jnp.sum(jnp.where(off, 1 / r2**3 - 1 / r2, 0.0))

    return energy(pos), -jax.grad(energy)(pos)


@program(positive((4,)))
def distributions(jax, x):
    jnp, nn = jax.numpy, jax.nn
    normal = -0.5 * x**2 - 0.5 * jnp.log(2 * jnp.pi)
    gamma = (x - 1) * jnp.log(x) - x - jax.lax.lgamma(x)
    mixture = nn.logsumexp(jnp.stack([normal, gamma]), axis=0, b=jnp.array([[0.3], [0.7]]))
    p = nn.softmax(x)
    return mixture, -jnp.sum(p * jnp.log(p)), jnp.logaddexp(x, 0.0), jnp.logaddexp2(x, 1.0), jnp.cumsum(p)


@program(lambda r: (r.standard_normal(8), np.arange(8) * 0.5), diff=(0,))
def moving_average_and_signal(jax, x, t):
    jnp = jax.numpy
    kernel = jnp.ones(3) / 3
    smooth = sum(kernel[i] * jnp.roll(x, i - 1) for i in range(3))
    spectrum = jnp.exp(-2j * jnp.pi * jnp.outer(jnp.arange(8), jnp.arange(8)) / 8) @ x
    return smooth, jnp.abs(spectrum) ** 2, jnp.sum(x * jnp.cos(t))


@program(lambda r: (r.standard_normal((3, 3)), r.standard_normal(3)), diff=(0, 1), without=("hessian",))
def matrix_exponential_series(jax, a, v):
    def term(carry, n):
        t, total = carry
        t = a @ t / n
        return (t, total + t), None

    return jax.lax.scan(term, (v, v), jax.numpy.arange(1, 8))[0][1]


@program(lambda r: (r.standard_normal((2, 3, 4)),), transforms=VALUE + REVERSE)
def image_statistics(jax, x):
    jnp = jax.numpy
    pooled = x.reshape(2, 3, 2, 2).mean(-1)
    return pooled, jnp.sort(x.ravel())[::5], jnp.linspace(0.0, 1.0, 4) * x, jnp.cross(x[:, :, 0], x[:, :, 1]), jnp.kron(x[0, 0], x[1, 0])
