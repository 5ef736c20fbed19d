"""Transformations that scale, average or add to the updates, whatever optimizer they belong to."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import random, tree
from fgrad.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    compiled,
    corrected,
    identity,
    init_empty_state,
    leafwise,
    moment,
    need_params,
    safe_increment,
    safe_norm,
    safe_root_mean_squares,
    stateless,
    stored,
    zero_count,
    zeros_like,
)
from fgrad.optim.masking import masked
from fgrad.optim.tree_utils import tree_norm, tree_random_like, tree_scale


class ScaleByScheduleState(NamedTuple):
    """The number of steps made."""

    count: Any


class TraceState(NamedTuple):
    """The accumulated updates."""

    trace: Any


class EmaState(NamedTuple):
    """The number of steps and the moving average, with the weight of its zero start."""

    count: Any
    ema: Any


class WeightDecaySchedule(NamedTuple):
    """The number of steps made."""

    count: Any


class AddNoiseState(NamedTuple):
    """The number of steps and the key of the next one."""

    count: Any
    rng_key: Any


def scale(step_size):
    """updates * step_size."""
    return GradientTransformation(init_empty_state, compiled(lambda updates, state, params=None: (tree_scale(step_size, updates), state)))


def scale_by_schedule(step_size_fn):
    """updates * step_size_fn(number of steps made before), in the dtypes of the updates."""

    def update(updates, state, params=None):
        size = step_size_fn(state.count)
        scaled = leafwise(lambda u: jnp.asarray(size, jnp.asarray(u).dtype) * u, updates)
        return scaled, ScaleByScheduleState(safe_increment(state.count))

    return GradientTransformation(lambda params: ScaleByScheduleState(zero_count()), update)


def scale_by_learning_rate(learning_rate=None, *, flip_sign=True):
    """updates * -learning_rate (a number, a scalar array or a schedule): the last member of most optimizers. None passes them unchanged."""
    if learning_rate is None:
        return identity()
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    return scale(sign * learning_rate)


def scale_by_sign():
    """The sign of each element."""
    return stateless(lambda updates, params: leafwise(jnp.sign, updates))


def scale_by_trust_ratio(min_norm=0.0, trust_coefficient=1.0, eps=0.0):
    """Each leaf times trust_coefficient * |param| / (|update| + eps); times 1 where a norm is zero (You et al., 2017 and 2020)."""

    def leaf(u, p):
        p_norm, u_norm = safe_norm(p, min_norm), safe_norm(u, min_norm)
        ratio = trust_coefficient * p_norm / (u_norm + eps)
        return u * jnp.where((p_norm == 0.0) | (u_norm == 0.0), jnp.ones((), ratio.dtype), ratio)

    return _with_params("scale_by_trust_ratio", leaf)


def scale_by_param_block_norm(min_scale=1e-3):
    """Each leaf times the norm of its parameters, at least min_scale."""
    return _with_params("scale_by_param_block_norm", lambda u, p: u * safe_norm(p, min_scale))


def scale_by_param_block_rms(min_scale=1e-3):
    """Each leaf times the root mean square of its parameters, at least min_scale."""
    return _with_params("scale_by_param_block_rms", lambda u, p: u * safe_root_mean_squares(p, min_scale))


def _with_params(name, leaf):
    def update(updates, params):
        need_params(name, params)
        return leafwise(leaf, updates, params)

    return stateless(update)


def normalize_by_update_norm(scale_factor=1.0, eps=1e-6):
    """All updates divided by (their global norm + eps) / scale_factor."""

    def update(updates, params):
        norm = (tree_norm(updates) + eps) / scale_factor
        return leafwise(lambda u: u / norm, updates)

    return stateless(update)


def centralize():
    """Subtract from each leaf of rank 2 or more its mean over all axes but the first (Yong et al., 2020)."""

    def leaf(u):
        return u - jnp.mean(u, axis=tuple(range(1, u.ndim)), keepdims=True) if u.ndim > 1 else u

    return stateless(lambda updates, params: leafwise(leaf, updates))


def scale_by_polyak(f_min=0.0, max_learning_rate=1.0, eps=0.0, variant="sps"):
    """updates * min((value - f_min) / (|updates|^2 + eps), max_learning_rate): Polyak's step (Loizou et al., 2021).

    The update takes `value`, the loss, by keyword. variant "sps+" takes no gap below zero.
    """
    if variant not in ("sps", "sps+"):
        raise ValueError(f'scale_by_polyak: variant must be "sps" or "sps+", got {variant!r}')

    def update(updates, state, params=None, *, value, **extra_args):
        square = tree_norm(updates, squared=True) + eps
        gap = jnp.asarray(value - f_min, square.dtype)
        gap = jnp.maximum(gap, 0) if variant == "sps+" else gap
        small = square <= jnp.finfo(square.dtype).eps
        step = jnp.where(small, 0.0, jnp.minimum(gap / jnp.where(small, 1, square), max_learning_rate))
        return tree_scale(step, updates), state

    return GradientTransformationExtraArgs(init_empty_state, update)


def trace(decay, nesterov=False, accumulator_dtype=None):
    """Momentum: updates accumulated with `decay`; with nesterov the accumulation looks one step ahead (Sutskever et al., 2013)."""

    def leaf(g, t):
        new = g + decay * t
        return (g + decay * new if nesterov else new), stored(new, t)

    def update(updates, state, params=None):
        updates, new = leafwise(leaf, updates, state.trace, outs=2)
        return updates, TraceState(new)

    return GradientTransformation(lambda params: TraceState(zeros_like(params, accumulator_dtype)), compiled(update))


def ema(decay, debias=True, accumulator_dtype=None):
    """The exponential moving average of the updates, with `debias` divided by 1 - decay^t (Kingma & Ba, 2015)."""

    def update(updates, state, params=None):
        count = safe_increment(state.count)
        new = leafwise(lambda g, t: moment(decay, g, t), updates, state.ema)
        out = leafwise(lambda t: corrected(t, 1 - decay**count), new) if debias else new
        return out, EmaState(count, leafwise(stored, new, state.ema))

    return GradientTransformation(lambda params: EmaState(zero_count(), zeros_like(params, accumulator_dtype)), compiled(update))


def add_decayed_weights(weight_decay=0.0, mask=None):
    """updates + weight_decay * params; weight_decay may be a schedule. mask: a tree of booleans (or a function of the
    parameters that gives one), which leaves decay."""
    scheduled = callable(weight_decay)
    none = isinstance(weight_decay, (int, float)) and weight_decay == 0.0

    def init(params):
        return WeightDecaySchedule(zero_count()) if scheduled else EmptyState()

    def update(updates, state, params=None):
        if none:
            return updates, state
        need_params("add_decayed_weights", params)
        rate = weight_decay(state.count) if scheduled else weight_decay
        updates = leafwise(lambda u, p: u + rate * p, updates, params)
        return updates, WeightDecaySchedule(safe_increment(state.count)) if scheduled else state

    tx = GradientTransformation(init, update if scheduled else compiled(update))
    return tx if mask is None else masked(tx, mask)


def noise_key(name, key, seed):
    """The key of `key` (a key or an integer seed) or `seed`, its older name; that of 0 without either. Raises ValueError for both."""
    if key is not None and seed is not None:
        raise ValueError(f"{name}: only one of key and seed can be given")
    key = seed if key is None else key
    key = 0 if key is None else key
    return random.key(key) if isinstance(key, int) else key


def add_noise(eta, gamma, key=None, *, seed=None):
    """Normal noise of variance eta / t^gamma added to the updates at step t (Neelakantan et al., 2015).

    key: a key or an integer seed (`seed` is an older name for it).
    """
    key = noise_key("add_noise", key, seed)

    def init(params):
        return AddNoiseState(zero_count(), key)

    def update(updates, state, params=None):
        count = safe_increment(state.count)
        deviation = jnp.sqrt(eta / count**gamma)
        rng_key, sample_key = random.split(state.rng_key)
        noise = tree_random_like(sample_key, updates)
        noisy = leafwise(lambda u, n: u + jnp.asarray(deviation, n.dtype) * n, updates, noise)
        return noisy, AddNoiseState(count, rng_key)

    return GradientTransformation(init, update)


def apply_every(k=1):
    """Sums k updates and emits the sum at every k-th step, zeros in between."""

    def init(params):
        return ApplyEvery(zero_count(), zeros_like(params))

    def update(updates, state, params=None):
        first, last = state.count == 0, state.count == k - 1
        total = leafwise(lambda g, t: stored(jnp.where(first, g, t + g), t), updates, state.grad_acc)
        out = tree.map(lambda t: jnp.where(last, t, jnp.zeros_like(t)), total)
        return out, ApplyEvery((state.count + 1) % k, total)

    return GradientTransformation(init, update)


class ApplyEvery(NamedTuple):
    """The position within the k steps and the sum so far."""

    count: Any
    grad_acc: Any
