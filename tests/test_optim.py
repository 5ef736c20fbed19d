"""Optimizers against their formulas in NumPy."""

import numpy as np

import fgrad
import fgrad.numpy as jnp
from fgrad import optim

P, G = np.array([1.0, -2.0, 3.0], np.float32), np.array([0.1, -0.4, 2.0], np.float32)


def run(opt, steps=5, jit=True):
    params = {"w": jnp.asarray(P)}
    state = opt.init(params)

    def step(params, state):
        updates, state = opt.update({"w": jnp.asarray(G)}, state, params)
        return optim.apply_updates(params, updates), state

    step = fgrad.jit(step, donate_argnums=(0, 1)) if jit else step
    params = fgrad.tree.map(lambda x: x + 0, params)
    for _ in range(steps):
        params, state = step(params, state)
    return np.asarray(params["w"])


def test_sgd():
    np.testing.assert_allclose(run(optim.sgd(0.1)), P - 0.5 * G, rtol=1e-5)
    p, t = P.copy(), np.zeros(3)
    for _ in range(5):
        t = G + 0.9 * t
        p = p - 0.1 * (G + 0.9 * t)
    np.testing.assert_allclose(run(optim.sgd(0.1, momentum=0.9, nesterov=True)), p, rtol=1e-5)


def test_adamw_jitted_and_eager():
    p, m, v = P.astype(np.float64), np.zeros(3), np.zeros(3)
    for k in range(1, 6):
        m, v = 0.9 * m + 0.1 * G, 0.999 * v + 0.001 * G.astype(np.float64) ** 2
        p = p - 0.01 * ((m / (1 - 0.9**k)) / (np.sqrt(v / (1 - 0.999**k)) + 1e-8) + 0.1 * p)
    for jit in (True, False):
        np.testing.assert_allclose(run(optim.adamw(0.01, weight_decay=0.1), jit=jit), p, rtol=1e-5)


def test_clip_and_chain():
    opt = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(1.0))
    np.testing.assert_allclose(run(opt, 1), P - G / np.linalg.norm(G), rtol=1e-5)


def test_schedules():
    s = optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 110, 0.1)
    np.testing.assert_allclose(
        [float(s(jnp.asarray(k))) for k in (0, 5, 10, 60, 110, 200)], [0, 0.5, 1, 0.55, 0.1, 0.1], rtol=1e-5, atol=1e-6
    )
