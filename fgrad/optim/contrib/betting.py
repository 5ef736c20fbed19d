"""Optimizers that need no tuned learning rate: COCOB, MADGRAD, Mechanic and MoMo."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import tree
from fgrad.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    full_like,
    leafwise,
    need_params,
    safe_increment,
    stored,
    with_extra_args_support,
    zero_count,
    zeros_like,
)
from fgrad.optim.combining import chain
from fgrad.optim.scaling import add_decayed_weights, scale_by_learning_rate
from fgrad.optim.tree_utils import tree_dtype, tree_norm, tree_vdot


class COCOBState(NamedTuple):
    """Where the parameters started, the sum of the gradients, their largest size, the sum of their sizes, and what was won."""

    init_particles: Any
    cumulative_gradients: Any
    scale: Any
    subgradients: Any
    reward: Any


class MadgradState(NamedTuple):
    """The step count, the weighted sums of squared gradients and of gradients, and where the parameters started."""

    count: Any
    grad_sum_sq: Any
    s: Any
    x0: Any


class MechanicState(NamedTuple):
    """The wrapped optimizer's state, the step count, Mechanic's four vectors over its betas, and where the parameters started."""

    base_optimizer_state: Any
    count: Any
    r: Any
    m: Any
    v: Any
    s: Any
    x0: Any


class MomoState(NamedTuple):
    """Averages of the gradients, of the loss and of <gradient, params>, the lower bound of the loss, and the step count."""

    exp_avg: Any
    barf: Any
    gamma: Any
    lb: Any
    count: Any


class MomoAdamState(NamedTuple):
    """MomoState with the average of the squared gradients."""

    exp_avg: Any
    exp_avg_sq: Any
    barf: Any
    gamma: Any
    lb: Any
    count: Any


def scale_by_cocob(alpha=100, eps=1e-8):
    """Coin betting on every coordinate (Orabona & Tommasi, 2017): alpha bounds the share that is bet, eps is the first scale."""

    def init(params):
        return COCOBState(params, zeros_like(params), full_like(params, eps), zeros_like(params), zeros_like(params))

    def leaf(g, p, start, total, scale, sizes, reward):
        scale = jnp.maximum(scale, jnp.abs(g))
        sizes = sizes + jnp.abs(g)
        reward = jnp.maximum(reward - g * (p - start), 0)
        total = total - g
        bet = total / (scale * jnp.maximum(sizes + scale, alpha * scale)) * (scale + reward)
        return start + bet - p, total, scale, sizes, reward

    def update(updates, state, params=None):
        need_params("cocob", params)
        out, *new = leafwise(leaf, updates, params, *state, outs=5)
        return out, COCOBState(state.init_particles, *[leafwise(stored, x, old) for x, old in zip(new, state[1:])])

    return GradientTransformation(init, update)


def cocob(learning_rate=1.0, alpha=100, eps=1e-8, weight_decay=0.0, mask=None):
    """COCOB (Orabona & Tommasi, 2017): stochastic gradients by coin betting, without a learning rate."""
    return chain(
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate, flip_sign=False),
        scale_by_cocob(alpha, eps),
    )


def scale_by_madgrad(learning_rate, momentum=0.9, eps=1e-6):
    """Dual averaging with the cube root of the summed squares (Defazio & Jelassi, 2021). The learning rate is part of it."""

    def init(params):
        return MadgradState(zero_count(), zeros_like(params), zeros_like(params), params)

    def update(updates, state, params=None):
        need_params("madgrad", params)
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        weight = (rate + eps) * jnp.sqrt(state.count + 1)

        def leaf(g, p, squares, s, start):
            squares, s = stored(squares + weight * g**2, squares), stored(s + weight * g, s)
            z = start - s / (jnp.cbrt(squares) + eps)
            return (1 - momentum) * z + momentum * p - p, squares, s

        out, squares, s = leafwise(leaf, updates, params, *state[1:], outs=3)
        return out, MadgradState(safe_increment(state.count), squares, s, state.x0)

    return GradientTransformation(init, update)


def madgrad(learning_rate, momentum=0.9, weight_decay=0.0, eps=1e-6):
    """MADGRAD (Defazio & Jelassi, 2021): momentumized, adaptive dual averaging."""
    return chain(add_decayed_weights(weight_decay), scale_by_madgrad(learning_rate, momentum, eps))


def mechanize(base_optimizer, weight_decay=1e-2, eps=1e-8, s_init=1e-6, num_betas=6):
    """Mechanic (Cutkosky, Defazio & Mehta, 2023): `base_optimizer` with a factor of its learning rate that is found while it runs."""
    base = with_extra_args_support(base_optimizer)

    def init(params):
        dtype = tree_dtype(params, "lowest")
        zeros = lambda: jnp.zeros(num_betas, dtype)
        s = jnp.full(num_betas, s_init, dtype)
        return MechanicState(base.init(params), zero_count(), zeros(), zeros(), zeros(), s, params)

    def update(updates, state, params=None, **extra_args):
        need_params("mechanize", params)
        steps, base_state = base.update(updates, state.base_optimizer_state, params, **extra_args)
        first = state.count == 0
        x0 = leafwise(lambda p, x: jnp.where(first, p, x), params, state.x0)
        total = jnp.sum(state.s)
        decay = weight_decay * total * tree_norm(updates) / (tree_norm(params) + eps)
        updates = leafwise(lambda g, p: g + decay * p, updates, params)
        before = leafwise(lambda p, x: (x - p) / (total + eps), params, x0)
        delta = leafwise(lambda d, u: d - u, before, steps)
        h = tree_vdot(updates, before)
        clipped = jnp.clip(h, -state.m, state.m)
        betas = 1 - 0.1 ** jnp.arange(1, num_betas + 1, dtype=state.s.dtype)
        m = jnp.maximum(betas * state.m, jnp.abs(h) + eps)
        v = betas**2 * state.v + h**2
        r = betas * state.r + clipped * state.s
        s = (s_init / num_betas * m + jnp.maximum(r, 0)) / (jnp.sqrt(v) + eps)
        factor = jnp.sum(s)
        out = leafwise(lambda x, d, p: x - factor * d - p, x0, delta, params)
        kept = [stored(new, old) for new, old in zip((r, m, v, s), state[2:6])]
        return out, MechanicState(base_state, safe_increment(state.count), *kept, x0)

    return GradientTransformationExtraArgs(init, update)


def _scalars(params, lower_bound):
    dtype = tree_dtype(params, "lowest")
    return jnp.zeros((), dtype), jnp.zeros((), dtype), jnp.asarray(lower_bound, dtype)


def _need_value(name, value):
    if value is None:
        raise ValueError(f"{name}: the update needs the latest loss: update(grads, state, params, value=loss)")


def _truncated(numerator, square):
    """The step that the model of the loss allows; 0 where the direction vanishes."""
    small = square <= jnp.finfo(jnp.float32).eps
    return jnp.where(small, 0.0, jnp.maximum(numerator, 0.0) / jnp.where(small, 1, square))


def momo(learning_rate=1.0, beta=0.9, lower_bound=0.0, weight_decay=0.0, adapt_lower_bound=False):
    """MoMo (Schaipp et al., 2023): momentum with a step that a model of the loss, bounded below by lower_bound, allows.

    The update takes `value`, the loss, by keyword; adapt_lower_bound estimates the bound.
    """

    def init(params):
        return MomoState(zeros_like(params), *_scalars(params, lower_bound), zero_count())

    def update(updates, state, params=None, *, value, **extra_args):
        need_params("momo", params)
        _need_value("momo", value)
        b = jnp.where(state.count == 0, 0.0, beta)
        barf = b * state.barf + (1 - b) * jnp.asarray(value, state.barf.dtype)
        average = leafwise(lambda g, a: b * a + (1 - b) * g, updates, state.exp_avg)
        gamma = b * state.gamma + (1 - b) * tree_vdot(updates, params)
        square, product = tree_norm(average, squared=True), tree_vdot(average, params)
        alpha = learning_rate(state.count) if callable(learning_rate) else learning_rate
        shrink = 1 + alpha * weight_decay
        bound = state.lb
        if adapt_lower_bound:
            cap = shrink * (barf - gamma) + product
            bound = jnp.where(cap < shrink * bound, jnp.maximum(cap / (2 * shrink), lower_bound), bound)
        tau = jnp.minimum(alpha, _truncated(shrink * (barf - bound - gamma) + product, square))
        out = leafwise(lambda a, p: -(alpha * weight_decay) / shrink * p - tau * a, average, params)
        lb = jnp.maximum(barf + product - gamma - tau * square / 2, lower_bound) if adapt_lower_bound else state.lb
        kept = [stored(new, old) for new, old in zip((barf, gamma, lb), state[1:4])]
        return out, MomoState(leafwise(stored, average, state.exp_avg), *kept, safe_increment(state.count))

    return GradientTransformationExtraArgs(init, update)


def momo_adam(learning_rate=1e-2, b1=0.9, b2=0.999, eps=1e-8, lower_bound=0.0, weight_decay=0.0, adapt_lower_bound=False):
    """MoMo with Adam's preconditioner (Schaipp et al., 2023). The update takes `value`, the loss, by keyword."""

    def init(params):
        return MomoAdamState(zeros_like(params), zeros_like(params), *_scalars(params, lower_bound), zero_count())

    def update(updates, state, params=None, *, value, **extra_args):
        need_params("momo_adam", params)
        _need_value("momo_adam", value)
        count = safe_increment(state.count)
        barf = b1 * state.barf + (1 - b1) * jnp.asarray(value, state.barf.dtype)
        c1, c2 = (jnp.asarray(1 - b**count, barf.dtype) for b in (b1, b2))
        average = leafwise(lambda g, a: b1 * a + (1 - b1) * g, updates, state.exp_avg)
        squares = leafwise(lambda g, a: b2 * a + (1 - b2) * g * g, updates, state.exp_avg_sq)
        direction = leafwise(lambda a, v: a / (eps + jnp.sqrt(v / c2)), average, squares)
        gamma = b1 * state.gamma + (1 - b1) * tree_vdot(updates, params)
        square, product = tree_vdot(average, direction), tree_vdot(average, params)
        alpha = learning_rate(state.count) if callable(learning_rate) else learning_rate
        shrink = 1 + alpha * weight_decay
        bound = state.lb
        if adapt_lower_bound:
            cap = shrink * (barf - gamma) + product
            bound = jnp.where(cap < shrink * c1 * bound, jnp.maximum(cap / (2 * c1 * shrink), lower_bound), bound)
        tau = jnp.minimum(alpha / c1, _truncated(shrink * (barf - c1 * bound - gamma) + product, square))
        out = leafwise(lambda d, p: -(alpha * weight_decay) / shrink * p - tau * d, direction, params)
        lb = jnp.maximum((barf + product - gamma - tau * square / 2) / c1, lower_bound) if adapt_lower_bound else state.lb
        kept = [tree.map(stored, new, old) for new, old in zip((average, squares, barf, gamma, lb), state)]
        return out, MomoAdamState(*kept, count)

    return GradientTransformationExtraArgs(init, update)
