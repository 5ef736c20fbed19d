"""Optimizers, transformations and schedules against optax: the same steps from the same gradients."""

import numpy as np
import pytest

import fgrad
import fgrad.numpy as jnp
from fgrad import optim

pytestmark = pytest.mark.peers
jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.standard_normal((4, 3)).astype(np.float32), "deep": [RNG.standard_normal(5).astype(np.float32), np.float32(0.5)]}
STEPS = 7
GRADS = [jax.tree.map(lambda p: RNG.standard_normal(np.shape(p)).astype(np.float32), PARAMS) for _ in range(STEPS)]


def steps(m, jnp, tree, jit, make, dtype=np.float32):
    """The parameters after each step of the optimizer make(m)."""
    opt = make(m)
    put = lambda t: tree.map(lambda x: jnp.asarray(x, dtype), t)
    params = put(PARAMS)
    state = opt.init(params)

    @jit
    def step(params, state, grads):
        updates, state = opt.update(grads, state, params)
        return m.apply_updates(params, updates), state

    out = []
    for grads in GRADS:
        params, state = step(params, state, put(grads))
        out.append(tree.map(lambda x: np.asarray(x, np.float64), params))
    return out, tree.map(lambda x: np.asarray(x), state)


def agree(make, rtol=2e-5, atol=2e-6, dtype=np.float32):
    mine, state = steps(optim, jnp, fgrad.tree, fgrad.jit, make, dtype)
    theirs, their_state = steps(optax, jax.numpy, jax.tree, jax.jit, make, dtype)
    for a, b in zip(mine, theirs):
        for x, y in zip(fgrad.tree.leaves(a), jax.tree.leaves(b)):
            np.testing.assert_allclose(x, y, rtol=rtol, atol=atol)
    return state, their_state


SCHEDULE = lambda m: m.warmup_cosine_decay_schedule(0.0, 0.1, 2, 6, 0.01)
MASK = {"w": True, "deep": [False, True]}
OPTIMIZERS = {
    "sgd": lambda m: m.sgd(0.1),
    "sgd-momentum": lambda m: m.sgd(0.1, 0.9),
    "sgd-nesterov": lambda m: m.sgd(SCHEDULE(m), 0.9, nesterov=True),
    "adam": lambda m: m.adam(0.1, eps_root=1e-3),
    "adam-nesterov": lambda m: m.adam(SCHEDULE(m), nesterov=True),
    "adamw": lambda m: m.adamw(0.1, weight_decay=0.1, mask=MASK),
    "adamw-function": lambda m: m.adamw(SCHEDULE(m), mask=lambda p: MASK),
    "nadam": lambda m: m.nadam(0.1),
    "nadamw": lambda m: m.nadamw(0.1, weight_decay=0.1),
    "adamax": lambda m: m.adamax(0.1),
    "adamaxw": lambda m: m.adamaxw(0.1, weight_decay=0.1),
    "amsgrad": lambda m: m.amsgrad(0.1),
    "amsgrad-biased": lambda m: m.amsgrad(0.1, bias_correction_mu=False, bias_correction_nu=False),
    "radam": lambda m: m.radam(0.1),
    "radam-nesterov": lambda m: m.radam(0.1, b2=0.9, nesterov=True),
    "adabelief": lambda m: m.adabelief(0.1, eps=1e-8),
    "yogi": lambda m: m.yogi(0.1),
    "adan": lambda m: m.adan(0.1, weight_decay=0.1),
    "adagrad": lambda m: m.adagrad(0.1),
    "adadelta": lambda m: m.adadelta(1.0, weight_decay=0.1),
    "rmsprop": lambda m: m.rmsprop(0.1),
    "rmsprop-all": lambda m: m.rmsprop(0.1, centered=True, momentum=0.9, nesterov=True, bias_correction=True, eps=1e-3, initial_scale=1.0),
    "rmsprop-eps": lambda m: m.rmsprop(0.1, eps_in_sqrt=False, bias_correction=True),
    "lion": lambda m: m.lion(0.1),
    "lamb": lambda m: m.lamb(0.1, weight_decay=0.1),
    "lars": lambda m: m.lars(1.0, weight_decay=0.1, trust_coefficient=0.1),
    "lars-masked": lambda m: m.lars(1.0, 0.1, weight_decay_mask=MASK, trust_ratio_mask=MASK, nesterov=True),
    "fromage": lambda m: m.fromage(0.1),
    "fromage-schedule": lambda m: m.fromage(SCHEDULE(m)),
    "novograd": lambda m: m.novograd(0.1, weight_decay=0.1),
    "sign_sgd": lambda m: m.sign_sgd(0.1),
    "signum": lambda m: m.signum(0.1),
    "adafactor": lambda m: m.adafactor(0.1),
    "adafactor-factored": lambda m: m.adafactor(0.1, min_dim_size_to_factor=2, momentum=0.9, weight_decay_rate=0.1),
    "chain": lambda m: m.chain(m.clip_by_global_norm(0.5), m.add_decayed_weights(0.1), m.scale_by_adam(), m.scale(-0.1)),
    "named_chain": lambda m: m.named_chain(("clip", m.clip(0.3)), ("go", m.sgd(0.1))),
    "clip_by_block_rms": lambda m: m.chain(m.clip_by_block_rms(0.5), m.scale(-0.1)),
    "adaptive_grad_clip": lambda m: m.chain(m.adaptive_grad_clip(0.1), m.scale(-0.1)),
    "normalize": lambda m: m.chain(m.normalize_by_update_norm(2.0), m.scale(-0.1)),
    "centralize": lambda m: m.chain(m.masked(m.centralize(), {"w": True, "deep": [True, False]}), m.scale(-0.1)),
    "param_block": lambda m: m.chain(m.scale_by_param_block_norm(), m.scale_by_param_block_rms(), m.scale(-0.1)),
    "ema": lambda m: m.chain(m.ema(0.9), m.scale(-0.1)),
    "apply_every": lambda m: m.chain(m.apply_every(3), m.scale(-0.1)),
    "nonnegative": lambda m: m.chain(m.sgd(0.3), m.keep_params_nonnegative()),
    "partition": lambda m: m.partition({"a": m.adam(0.1), "b": m.sgd(0.2)}, {"w": "a", "deep": "b"}),
    "partition-function": lambda m: m.multi_transform({"a": m.adam(0.1), "b": m.set_to_zero()}, lambda p: {"w": "a", "deep": ["b", "a"]}),
    "freeze": lambda m: m.chain(m.sgd(0.1), m.freeze(MASK)),
    "selective": lambda m: m.selective_transform(m.adam(0.1), freeze_mask=MASK),
    "multisteps": lambda m: m.MultiSteps(m.adam(0.1), 3).gradient_transformation(),
    "multisteps-schedule": lambda m: m.MultiSteps(m.adam(0.1), lambda step: step + 1, use_grad_mean=False).gradient_transformation(),
    "apply_if_finite": lambda m: m.apply_if_finite(m.adam(0.1), 2),
    "flatten": lambda m: m.flatten(m.adamw(0.1, weight_decay=0.1)),
    "inject": lambda m: m.inject_hyperparams(m.adamw)(learning_rate=SCHEDULE(m), b1=0.8, weight_decay=0.1),
    "conditionally_transform": lambda m: m.conditionally_transform(m.sgd(0.1), lambda step: step % 2 == 0),
    "conditionally_mask": lambda m: m.conditionally_mask(m.adam(0.1), lambda step: step % 2 == 0),
    "lion-smooth": lambda m: m.chain(m.scale_by_lion(mode="smooth", smooth_beta=2.0), m.scale_by_lion(mode="refined"), m.scale(-0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    state, theirs = agree(OPTIMIZERS[name])
    if "inject" not in name:
        mine, theirs = fgrad.tree.leaves(state), jax.tree.leaves(theirs)
        assert [(x.shape, x.dtype) for x in mine] == [(x.shape, x.dtype) for x in theirs]
        for x, y in zip(mine, theirs):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def test_sm3():
    """optax has no rule for scalars, so on the others only."""
    make = lambda m: m.masked(m.sm3(0.1), {"w": True, "deep": [True, False]})
    agree(lambda m: m.chain(make(m), m.freeze({"w": False, "deep": [False, True]})))


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd-momentum", "lion", "rmsprop"])
def test_bfloat16(name):
    state, theirs = agree(OPTIMIZERS[name], rtol=0.05, atol=0.05, dtype=jax.numpy.bfloat16)
    assert [x.dtype for x in fgrad.tree.leaves(state)] == [x.dtype for x in jax.tree.leaves(theirs)]


def test_lookahead():
    def run(m, jnp, tree):
        params = m.LookaheadParams.init_synced(tree.map(jnp.asarray, PARAMS))
        opt = m.lookahead(m.adam(0.1), 3, 0.4, reset_state=True)
        state = opt.init(params)
        for g in GRADS:
            updates, state = opt.update(tree.map(jnp.asarray, g), state, params)
            params = m.apply_updates(params, updates)
        return [np.asarray(x) for x in tree.leaves(tuple(params))]

    for a, b in zip(run(optim, jnp, fgrad.tree), run(optax, jax.numpy, jax.tree)):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("adaptive", [False, True])
def test_muon(adaptive):
    make = lambda m: getattr(m, "contrib", m).muon(0.1, weight_decay=0.1, adam_weight_decay=0.1, adaptive=adaptive)
    updates = []
    for m, np_, tree in ((optim, jnp, fgrad.tree), (optax, jax.numpy, jax.tree)):
        opt, params = make(m), tree.map(np_.asarray, PARAMS)
        state = opt.init(params)
        for g in GRADS:
            update, state = opt.update(tree.map(np_.asarray, g), state, params)
        updates.append([np.asarray(x) for x in tree.leaves(update)])
    for a, b in zip(*updates):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("scaled", [True, False])
def test_lbfgs_directions(scaled):
    """The same preconditioned gradients of the same convex problem (pairs of positive curvature, which neither leaves out)."""
    scales = tuple(np.float32([1, 2, 5, 9]))

    def run(m, np_):
        opt, x, out = m.scale_by_lbfgs(3, scaled), np_.asarray(np.float32([1, -2, 3, 0.5])), []
        state = opt.init(x)
        for _ in range(6):
            step, state = opt.update(x * np_.asarray(scales), state, x)
            x = x - 0.1 * step
            out.append(np.asarray(step))
        return out

    np.testing.assert_allclose(run(optim, jnp), run(optax, jax.numpy), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("search", ["zoom", "backtracking"])
def test_lbfgs_minimum(search):
    """Line searches differ in their trial points, not in where they lead."""

    def run(m, lib, np_):
        loss = lambda x: np_.sum((x[1:] - x[:-1] ** 2) ** 2 + 0.1 * (1 - x[:-1]) ** 2)
        searches = {
            "zoom": lambda: m.scale_by_zoom_linesearch(20, initial_guess_strategy="one"),
            "backtracking": lambda: m.scale_by_backtracking_linesearch(20, store_grad=True),
        }
        opt, x = m.lbfgs(linesearch=searches[search]()), np_.asarray(np.float32([-1, 0.5, 0.2]))
        state = opt.init(x)

        @lib.jit
        def step(x, state):
            value, grad = m.value_and_grad_from_state(loss)(x, state=state)
            updates, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=loss)
            return m.apply_updates(x, updates), state

        for _ in range(40):
            x, state = step(x, state)
        return np.asarray(x)

    np.testing.assert_allclose(run(optim, fgrad, jnp), run(optax, jax, jax.numpy), rtol=1e-2)


SCHEDULES = {
    "constant": lambda m: m.constant_schedule(0.3),
    "linear": lambda m: m.linear_schedule(1.0, 0.2, 10, 3),
    "polynomial": lambda m: m.polynomial_schedule(1.0, 0.2, 2.5, 10, 3),
    "exponential": lambda m: m.exponential_decay(1.0, 5, 0.7, 3),
    "exponential-stairs": lambda m: m.exponential_decay(1.0, 5, 0.7, 3, staircase=True, end_value=0.3),
    "exponential-up": lambda m: m.exponential_decay(1.0, 5, 1.7, end_value=3.0),
    "cosine": lambda m: m.cosine_decay_schedule(1.0, 17, 0.1, 1.5),
    "warmup_constant": lambda m: m.warmup_constant_schedule(0.1, 1.0, 6),
    "warmup_cosine": lambda m: m.warmup_cosine_decay_schedule(0.1, 1.0, 6, 20, 0.05, 1.2),
    "warmup_exponential": lambda m: m.warmup_exponential_decay_schedule(0.1, 1.0, 6, 4, 0.6, 2, True, 0.2),
    "piecewise_constant": lambda m: m.piecewise_constant_schedule(2.0, {5: 0.5, 11: 3.0}),
    "piecewise_linear": lambda m: m.piecewise_interpolate_schedule("linear", 2.0, {5: 0.5, 11: 3.0}),
    "piecewise_cosine": lambda m: m.piecewise_interpolate_schedule("cosine", 2.0, {5: 0.5, 11: 3.0}),
    "linear_onecycle": lambda m: m.linear_onecycle_schedule(20, 1.0),
    "cosine_onecycle": lambda m: m.cosine_onecycle_schedule(20, 1.0, 0.25, 10.0, 100.0),
    "join": lambda m: m.join_schedules([m.constant_schedule(1.0), m.linear_schedule(0.5, 0.1, 5)], [7]),
    "sgdr": lambda m: m.sgdr_schedule(
        [dict(init_value=0.0, peak_value=p, warmup_steps=2, decay_steps=d, end_value=0.1) for p, d in ((1.0, 6), (0.5, 9))]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    mine, theirs = SCHEDULES[name](optim), SCHEDULES[name](optax)
    traced = fgrad.jit(lambda count: jnp.asarray(mine(count)))
    for count in range(25):
        want = np.asarray(theirs(jax.numpy.asarray(count)))
        np.testing.assert_allclose(float(mine(count)), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(float(traced(jnp.asarray(count))), want, rtol=1e-5, atol=1e-6)
