"""Each optimizer against its published rule, written again in NumPy's float64, jitted and donated."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import optim
from fgrad.optim.muon import _COEFFICIENTS, orthogonalize

RNG = np.random.default_rng(0)
P = RNG.standard_normal((4, 3))
GS = RNG.standard_normal((6, 4, 3))
LR, EPS = 0.1, 1e-3


def run(opt, grads=GS, jit=True):
    """The parameters after one step a gradient."""

    def step(params, state, g):
        updates, state = opt.update({"w": g}, state, params)
        return optim.apply_updates(params, updates), state

    step = fgrad.jit(step, donate_argnums=(0, 1)) if jit else step
    params = {"w": jnp.asarray(P, jnp.float32) + 0}
    state = opt.init(params)
    for g in grads:
        params, state = step(params, state, jnp.asarray(g, jnp.float32))
    return np.asarray(params["w"])


def momentum(nesterov):
    p, t = P, 0.0
    for g in GS:
        t = g + 0.9 * t
        p = p - LR * (g + 0.9 * t if nesterov else t)
    return p


def adam_like(step, b1=0.9, b2=0.99, decay=0.0):
    """step(k, m, v, g, b1, b2, memory) -> the direction, from Adam's biased moments."""
    p, m, v, memory = P, 0.0, 0.0, {}
    for k, g in enumerate(GS, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - LR * (step(k, m, v, g, b1, b2, memory) + decay * p)
    return p


def adam_step(k, m, v, g, b1, b2, memory):
    return m / (1 - b1**k) / (np.sqrt(v / (1 - b2**k)) + EPS)


def nadam_step(k, m, v, g, b1, b2, memory):
    mean = b1 * m / (1 - b1 ** (k + 1)) + (1 - b1) * g / (1 - b1**k)
    return mean / (np.sqrt(v / (1 - b2**k)) + EPS)


def amsgrad_step(k, m, v, g, b1, b2, memory):
    memory["v"] = np.maximum(memory.get("v", 0), v / (1 - b2**k))
    return m / (1 - b1**k) / (np.sqrt(memory["v"]) + EPS)


def adamax_step(k, m, v, g, b1, b2, memory):
    memory["u"] = np.maximum(b2 * memory.get("u", 0), abs(g) + EPS)
    return m / (1 - b1**k) / memory["u"]


def radam_step(k, m, v, g, b1, b2, memory):
    rho_inf = 2 / (1 - b2) - 1
    rho = rho_inf - 2 * k * b2**k / (1 - b2**k)
    mean = m / (1 - b1**k)
    if rho < 5:
        return mean
    r = np.sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho))
    return r * mean / (np.sqrt(v / (1 - b2**k)) + EPS)


def belief_step(k, m, v, g, b1, b2, memory):
    memory["s"] = b2 * memory.get("s", 0) + (1 - b2) * (g - m) ** 2 + 1e-6
    return m / (1 - b1**k) / (np.sqrt(memory["s"] / (1 - b2**k)) + EPS)


def lamb():
    p, m, v = P, 0.0, 0.0
    for k, g in enumerate(GS, 1):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        u = adam_step(k, m, v, g, 0.9, 0.99, {}) + 0.1 * p
        p = p - LR * np.linalg.norm(p) / np.linalg.norm(u) * u
    return p


def lars():
    p, t = P, 0.0
    for g in GS:
        u = g + 0.1 * p
        t = 0.9 * t + LR * 0.5 * np.linalg.norm(p) / np.linalg.norm(u) * u
        p = p - t
    return p


def lion():
    p, m = P, 0.0
    for g in GS:
        p, m = p - LR * (np.sign(0.9 * m + 0.1 * g) + 0.1 * p), 0.99 * m + 0.01 * g
    return p


def yogi():
    p, m, v = P, 1e-6, 1e-6
    for k, g in enumerate(GS, 1):
        m, v = 0.9 * m + 0.1 * g, v - 0.01 * np.sign(v - g * g) * g * g
        p = p - LR * m / (1 - 0.9**k) / (np.sqrt(v / (1 - 0.99**k)) + EPS)
    return p


def adagrad():
    p, s = P, 0.1
    for g in GS:
        s = s + g * g
        p = p - LR * g / np.sqrt(s + EPS)
    return p


def adadelta():
    p, eg, ex = P, 0.0, np.zeros_like(P)
    for g in GS:
        eg = 0.9 * eg + 0.1 * g * g
        step = np.sqrt(ex + EPS) / np.sqrt(eg + EPS) * g
        ex, p = 0.9 * ex + 0.1 * step**2, p - step
    return p


def rmsprop(centered=False, mu=0.0):
    p, m, v, t = P, 0.0, 0.0, 0.0
    for g in GS:
        m, v = 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g * g
        t = mu * t - LR * g / np.sqrt(v - (m * m if centered else 0) + EPS)
        p = p + t
    return p


def novograd():
    p, m, v = P, 0.0, None
    for g in GS:
        v = np.sum(g * g) if v is None else 0.25 * v + 0.75 * np.sum(g * g)
        m = 0.9 * m + g / (np.sqrt(v) + EPS) + 0.1 * p
        p = p - LR * m
    return p


def sm3():
    p, row, col, m = P, np.zeros((4, 1)), np.zeros((1, 3)), 0.0
    for g in GS:
        v = np.minimum(row, col) + g * g
        row, col = v.max(1, keepdims=True), v.max(0, keepdims=True)
        m = 0.9 * m + 0.1 * g / np.sqrt(v + 1e-8)
        p = p - LR * m
    return p


def rprop():
    p, size, last = P, np.full_like(P, LR), np.zeros_like(P)
    for g in GS:
        same = g * last
        size = np.where(same == 0, size, np.clip(size * np.where(same > 0, 1.2, 0.5), 1e-6, 50))
        last = np.where(same < 0, 0, size * np.sign(g))
        p = p - last
    return p


def adan():
    p, m, v, n, last = P, 0.0, 0.0, 0.0, GS[0]
    for k, g in enumerate(GS, 1):
        d, last = g - last, g
        m, v, n = 0.98 * m + 0.02 * g, 0.92 * v + 0.08 * d, 0.99 * n + 0.01 * (g + 0.08 * d) ** 2
        step = m / (1 - 0.98**k) + 0.08 * v / (1 - 0.92**k)
        p = p - LR * (step / (np.sqrt(n / (1 - 0.99**k)) + EPS) + 0.1 * p)
    return p


def adafactor():
    p, row, col = P, 0.0, 0.0
    for k, g in enumerate(GS, 1):
        b = 1 - k**-0.8
        row, col = b * row + (1 - b) * (g * g).mean(1), b * col + (1 - b) * (g * g).mean(0)
        u = g / np.sqrt(np.outer(row, col) / row.mean())
        u = u / max(1, np.sqrt((u * u).mean()))
        p = p - LR * u * np.sqrt((p * p).mean())
    return p


def polar(m):
    u, _, vt = np.linalg.svd(m, full_matrices=False)
    return u @ vt


RULES = {
    "sgd": (optim.sgd(LR), lambda: P - LR * GS.sum(0)),
    "momentum": (optim.sgd(LR, 0.9), lambda: momentum(False)),
    "nesterov": (optim.sgd(LR, 0.9, nesterov=True), lambda: momentum(True)),
    "sign_sgd": (optim.sign_sgd(LR), lambda: P - LR * np.sign(GS).sum(0)),
    "adam": (optim.adam(LR, b2=0.99, eps=EPS), lambda: adam_like(adam_step)),
    "adamw": (optim.adamw(LR, b2=0.99, eps=EPS, weight_decay=0.1), lambda: adam_like(adam_step, decay=0.1)),
    "nadam": (optim.nadam(LR, b2=0.99, eps=EPS), lambda: adam_like(nadam_step)),
    "nadamw": (optim.nadamw(LR, b2=0.99, eps=EPS, weight_decay=0.1), lambda: adam_like(nadam_step, decay=0.1)),
    "amsgrad": (optim.amsgrad(LR, b2=0.99, eps=EPS), lambda: adam_like(amsgrad_step)),
    "adamax": (optim.adamax(LR, b2=0.99, eps=EPS), lambda: adam_like(adamax_step)),
    "adamaxw": (optim.adamaxw(LR, b2=0.99, eps=EPS, weight_decay=0.1), lambda: adam_like(adamax_step, decay=0.1)),
    "radam": (optim.radam(LR, b2=0.99, eps=EPS), lambda: adam_like(radam_step)),
    "adabelief": (optim.adabelief(LR, b2=0.99, eps=EPS, eps_root=1e-6), lambda: adam_like(belief_step)),
    "yogi": (optim.yogi(LR, b2=0.99, eps=EPS), yogi),
    "adan": (optim.adan(LR, eps=EPS, eps_root=0.0, weight_decay=0.1), adan),
    "lamb": (optim.lamb(LR, b2=0.99, eps=EPS, weight_decay=0.1), lamb),
    "lars": (optim.lars(LR, weight_decay=0.1, trust_coefficient=0.5), lars),
    "lion": (optim.lion(LR, weight_decay=0.1), lion),
    "adagrad": (optim.adagrad(LR, eps=EPS), adagrad),
    "adadelta": (optim.adadelta(1.0, eps=EPS), adadelta),
    "rmsprop": (optim.rmsprop(LR, eps=EPS), rmsprop),
    "rmsprop-centered": (optim.rmsprop(LR, eps=EPS, centered=True, momentum=0.9), lambda: rmsprop(True, 0.9)),
    "novograd": (optim.novograd(LR, eps=EPS, weight_decay=0.1), novograd),
    "sm3": (optim.sm3(LR), sm3),
    "rprop": (optim.rprop(LR), rprop),
    "adafactor": (optim.adafactor(LR, min_dim_size_to_factor=3), adafactor),
}


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("name", RULES)
def test_rule(name, jit):
    opt, reference = RULES[name]
    np.testing.assert_allclose(run(opt, jit=jit), reference(), rtol=2e-4, atol=2e-5)


def test_muon():
    """The singular values of a step are near 1 (the iteration is not meant to converge further); vectors go to AdamW."""
    opt = optim.muon(LR, nesterov=False)
    params = {"w": jnp.asarray(P, jnp.float32), "b": jnp.ones(3)}
    grads = {"w": jnp.asarray(GS[0], jnp.float32), "b": jnp.ones(3)}
    updates, state = opt.update(grads, opt.init(params), params)
    u, s, vt = np.linalg.svd(-np.asarray(updates["w"]) / LR, full_matrices=False)
    assert (s > 0.6).all() and (s < 1.4).all()
    np.testing.assert_allclose(u @ vt, polar(GS[0]), atol=1e-4)
    np.testing.assert_allclose(updates["b"], np.full(3, -LR), rtol=1e-4)
    with pytest.raises(ValueError, match="no matrix"):
        optim.scale_by_muon().update(grads, optim.scale_by_muon().init(params))


@pytest.mark.parametrize("preconditioning", ["frobenius", "spectral", "aol", "schatten"])
@pytest.mark.parametrize("ns_coeffs", ["standard", "dion", ((3.0, -4.0, 2.0), (2.0, -1.5, 0.5))])
def test_muon_iterates_as_asked(preconditioning, ns_coeffs):
    table = {"standard": [(3.4445, -4.7750, 2.0315)] * 5, "dion": _COEFFICIENTS["dion"]}.get(ns_coeffs, ns_coeffs)
    x = np.asarray(GS[0])
    x, turned = (x, False) if x.shape[0] <= x.shape[1] else (x.T, True)
    gram = x @ x.T
    sizes = {
        "frobenius": np.linalg.norm(x),
        "spectral": np.linalg.norm(x, 2),
        "aol": np.sqrt(np.abs(gram).sum(1, keepdims=True)),
        "schatten": np.sqrt(np.linalg.norm(gram)),
    }
    y = x / sizes[preconditioning]
    for a, b, c in table:
        y = a * y + (b * (y @ y.T) + c * (y @ y.T) @ (y @ y.T)) @ y
    want = (y.T if turned else y) * 0.2 * max(x.shape) ** 0.5 * -LR
    opt = optim.muon(LR, ns_coeffs, nesterov=False, preconditioning=preconditioning, consistent_rms=0.2)
    params = {"w": jnp.asarray(P, jnp.float32)}
    step = opt.update({"w": jnp.asarray(GS[0], jnp.float32)}, opt.init(params), params)[0]["w"]
    np.testing.assert_allclose(step, want, rtol=1e-3, atol=1e-4)


def test_muon_refuses_what_it_does_not_know():
    for given in ({"ns_coeffs": "other"}, {"ns_coeffs": (1.0, 2.0)}, {"ns_coeffs": ((1.0, 2.0, 3.0),) * 9}, {"preconditioning": "other"}):
        with pytest.raises(ValueError, match=next(iter(given))):
            orthogonalize(jnp.eye(2), **given)


def test_units_are_clipped_by_their_norms():
    x = jnp.array([[3.0, 0.1], [4.0, 0.2]])
    norm = optim.transforms.unitwise_norm(x)
    np.testing.assert_allclose(norm, np.broadcast_to(np.linalg.norm(x, axis=0), (2, 2)), rtol=1e-6)
    np.testing.assert_allclose(optim.transforms.unitwise_clip(norm, jnp.ones((2, 2)), x), [[0.6, 0.1], [0.8, 0.2]], rtol=1e-6)


def test_polyak_step_is_exact_on_a_parabola_of_known_minimum():
    loss = lambda x: 0.5 * jnp.sum(x * x)
    opt = optim.polyak_sgd(max_learning_rate=10.0)
    x = jnp.asarray([3.0, -4.0])
    updates, _ = opt.update(fgrad.grad(loss)(x), opt.init(x), x, value=loss(x))
    np.testing.assert_allclose(updates, [-1.5, 2.0], rtol=1e-6)


def test_noise_has_its_variance():
    opt = optim.noisy_sgd(1.0, eta=4.0, gamma=0.5, key=0)
    zeros = {"a": jnp.zeros((200, 200)), "b": jnp.zeros(7)}
    state = opt.init(zeros)
    for t in (1, 2):
        updates, state = opt.update(zeros, state)
        assert abs(np.var(np.asarray(updates["a"])) - 4.0 / t**0.5) < 0.1
    first = opt.update(zeros, opt.init(zeros))[0]
    assert not np.array_equal(first["a"], updates["a"])
