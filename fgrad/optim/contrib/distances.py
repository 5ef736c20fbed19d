"""Learning rates from the distance covered: DoG, DoWG, D-Adaptation and Prodigy."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    identity,
    leafwise,
    moment,
    need_params,
    safe_increment,
    stored,
    zero_count,
    zeros_like,
)
from fgrad.optim.combining import chain
from fgrad.optim.scaling import add_decayed_weights, scale_by_learning_rate
from fgrad.optim.tree_utils import tree_dtype, tree_norm, tree_scale, tree_sub, tree_sum, tree_vdot


class DoGState(NamedTuple):
    """Whether no step was made yet, the first parameters, the largest distance from them, and the sum of the gradients' squared norms."""

    is_init_step: Any
    init_params: Any
    max_dist: Any
    sum_sq_norm_grads: Any


class DoWGState(NamedTuple):
    """The first parameters, the weighted sum of the gradients' squared norms, and the largest squared distance."""

    init_params: Any
    weighted_sq_norm_grads: Any
    estim_sq_dist: Any


class DAdaptAdamWState(NamedTuple):
    """Adam's moments, the weighted sum of the gradients, the estimate of the distance and its numerator, the number of steps."""

    exp_avg: Any
    exp_avg_sq: Any
    grad_sum: Any
    estim_lr: Any
    numerator_weighted: Any
    count: Any


class ProdigyState(NamedTuple):
    """As DAdaptAdamWState, with the first parameters."""

    exp_avg: Any
    exp_avg_sq: Any
    grad_sum: Any
    params0: Any
    estim_lr: Any
    numerator_weighted: Any
    count: Any


def _scalar(value, params):
    """A scalar of a state, in the lowest dtype of the parameters, so that updates are not promoted beyond it."""
    return jnp.asarray(value, tree_dtype(params, "lowest"))


def _decayed(weight_decay, mask, scaling, learning_rate):
    decay = identity() if weight_decay is None else add_decayed_weights(weight_decay, mask)
    return chain(decay, scaling, scale_by_learning_rate(learning_rate))


def scale_by_dog(init_step, eps=1e-8):
    """Updates times the largest distance from the first parameters over the root of the sum of squared gradient norms; see dog."""
    kind, value = init_step
    if kind not in ("distance", "learning_rate", "heuristic"):
        raise ValueError(f"scale_by_dog: init_step must begin with distance, learning_rate or heuristic, got {kind!r}")

    def init(params):
        first = {"distance": lambda: value, "heuristic": lambda: value * (1 + tree_norm(params)), "learning_rate": lambda: 0.0}[kind]()
        return DoGState(jnp.asarray(True), params, _scalar(first, params), _scalar(0.0, params))

    def update(updates, state, params=None):
        need_params("scale_by_dog", params)
        far = stored(jnp.maximum(state.max_dist, tree_norm(tree_sub(state.init_params, params))), state.max_dist)
        squares = stored(state.sum_sq_norm_grads + tree_norm(updates, squared=True), state.sum_sq_norm_grads)
        rate = far / jnp.sqrt(squares + eps)
        if kind == "learning_rate":
            rate = jnp.where(state.is_init_step, value, rate)
        return tree_scale(rate, updates), DoGState(jnp.asarray(False), state.init_params, far, squares)

    return GradientTransformation(init, update)


def dog(learning_rate=1.0, init_step=("heuristic", 1e-6), eps=1e-8, weight_decay=None, mask=None):
    """Distance over gradients (Ivgi et al., 2023, https://arxiv.org/abs/2302.12022).

    init_step: ("distance", d) begins at distance d, ("learning_rate", lr) makes the first step with lr, ("heuristic", a) begins at
    a * (1 + |params|).
    """
    return _decayed(weight_decay, mask, scale_by_dog(init_step, eps), learning_rate)


def scale_by_dowg(init_estim_sq_dist=None, eps=1e-4):
    """Updates times the squared distance over the root of the gradients' squared norms weighted with it; see dowg."""

    def init(params):
        return DoWGState(params, _scalar(0.0, params), _scalar(eps if init_estim_sq_dist is None else init_estim_sq_dist, params))

    def update(updates, state, params=None):
        need_params("scale_by_dowg", params)
        distance = tree_norm(tree_sub(state.init_params, params), squared=True)
        distance = stored(jnp.maximum(state.estim_sq_dist, distance), state.estim_sq_dist)
        squares = stored(distance * tree_norm(updates, squared=True) + state.weighted_sq_norm_grads, state.weighted_sq_norm_grads)
        return tree_scale(distance / (jnp.sqrt(squares) + eps), updates), DoWGState(state.init_params, squares, distance)

    return GradientTransformation(init, update)


def dowg(learning_rate=1.0, init_estim_sq_dist=None, eps=1e-4, weight_decay=None, mask=None):
    """Distance over weighted gradients (Khaled et al., 2023, https://arxiv.org/abs/2305.16284)."""
    return _decayed(weight_decay, mask, scale_by_dowg(init_estim_sq_dist, eps), learning_rate)


def _rate(learning_rate, state, betas, count):
    """The estimate times the schedule times Adam's bias correction, in the dtype of the estimate."""
    rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
    correction = jnp.sqrt(1 - betas[1] ** count) / (1 - betas[0] ** count)
    return stored(state.estim_lr * rate * correction, state.estim_lr)


def dadapt_adamw(learning_rate=1.0, betas=(0.9, 0.999), eps=1e-8, estim_lr0=1e-6, weight_decay=0.0):
    """AdamW whose learning rate is an estimate of the distance to the solution (Defazio et al., 2023, https://arxiv.org/abs/2301.07733).

    learning_rate, a number or a schedule around 1, multiplies the estimate, which begins at estim_lr0 and never falls.
    """
    b1, b2 = betas
    slow = b2**0.5

    def init(params):
        zeros = [zeros_like(params) for _ in range(3)]
        return DAdaptAdamWState(*zeros, _scalar(estim_lr0, params), _scalar(0.0, params), zero_count())

    def update(updates, state, params=None, **extra_args):
        need_params("dadapt_adamw", params)
        count = safe_increment(state.count)
        rate = _rate(learning_rate, state, betas, count)
        along = tree_vdot(updates, leafwise(lambda s, nu: s / (jnp.sqrt(nu) + eps), state.grad_sum, state.exp_avg_sq))
        mu = leafwise(lambda g, m: stored(moment(b1, rate * g, m), m), updates, state.exp_avg)
        nu = leafwise(lambda g, n: stored(moment(b2, g * g, n), n), updates, state.exp_avg_sq)
        total = leafwise(lambda g, s: stored(moment(slow, rate * g, s), s), updates, state.grad_sum)
        numerator = stored(moment(slow, rate * along, state.numerator_weighted), state.numerator_weighted)
        distance = numerator / ((1 - slow) * tree_sum(leafwise(jnp.abs, total)))
        estimate = stored(jnp.maximum(state.estim_lr, distance), state.estim_lr)
        steps = leafwise(lambda m, n, p: -weight_decay * rate * p - m / (jnp.sqrt(n) + eps), mu, nu, params)
        return steps, DAdaptAdamWState(mu, nu, total, estimate, numerator, count)

    return GradientTransformationExtraArgs(init, update)


def prodigy(
    learning_rate=1.0, betas=(0.9, 0.999), beta3=None, eps=1e-8, estim_lr0=1e-6, estim_lr_coef=1.0, weight_decay=0.0, safeguard_warmup=False
):
    """AdamW with a faster estimate of the distance to the solution (Mishchenko & Defazio, 2023, https://arxiv.org/abs/2306.06101).

    beta3: the decay of the estimate's averages, sqrt(betas[1]) by default; estim_lr_coef multiplies each estimate; safeguard_warmup
    keeps the learning rate out of its denominator.
    """
    b1, b2 = betas
    b3 = b2**0.5 if beta3 is None else beta3

    def init(params):
        zeros = [zeros_like(params) for _ in range(3)]
        return ProdigyState(*zeros, params, _scalar(estim_lr0, params), _scalar(0.0, params), zero_count())

    def update(updates, state, params=None, **extra_args):
        need_params("prodigy", params)
        count, d = safe_increment(state.count), state.estim_lr
        rate = _rate(learning_rate, state, betas, count)
        along = tree_vdot(updates, tree_sub(state.params0, params))
        mu = leafwise(lambda g, m: stored(moment(b1, d * g, m), m), updates, state.exp_avg)
        nu = leafwise(lambda g, n: stored(moment(b2, jnp.square(d * g), n), n), updates, state.exp_avg_sq)
        weight = d * (d if safeguard_warmup else rate) / estim_lr0
        total = leafwise(lambda g, s: stored(b3 * s + weight * g, s), updates, state.grad_sum)
        numerator = stored(b3 * state.numerator_weighted + d / estim_lr0 * rate * along, state.numerator_weighted)
        distance = estim_lr_coef * numerator / tree_sum(leafwise(jnp.abs, total))
        estimate = stored(jnp.maximum(d, distance), d)
        steps = leafwise(lambda m, n, p: -weight_decay * rate * p - rate * m / (jnp.sqrt(n) + estimate * eps), mu, nu, params)
        return steps, ProdigyState(mu, nu, total, state.params0, estimate, numerator, count)

    return GradientTransformationExtraArgs(init, update)
