"""Rules that scale the updates by (running, summed or factored) squares of the gradients alone."""

import functools
from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax, tree
from fgrad.optim.base import (
    GradientTransformation,
    abs_sq,
    compiled,
    corrected,
    dtype_of,
    full_like,
    leafwise,
    moment,
    need_params,
    safe_increment,
    stored,
    zero_count,
    zeros_like,
)


class ScaleByRmsState(NamedTuple):
    """The second moments."""

    nu: Any


class ScaleByRmsWithCountState(NamedTuple):
    """The number of steps and the second moments."""

    count: Any
    nu: Any


class ScaleByRStdDevState(NamedTuple):
    """The first and second moments."""

    mu: Any
    nu: Any


class ScaleByRStdDevWithCountState(NamedTuple):
    """The number of steps, the first and second moments."""

    count: Any
    mu: Any
    nu: Any


class ScaleByRssState(NamedTuple):
    """The sums of squares."""

    sum_of_squares: Any


class ScaleByAdaDeltaState(NamedTuple):
    """The second moments of the gradients and of the steps."""

    e_g: Any
    e_x: Any


class ScaleByRpropState(NamedTuple):
    """The step of each element and the last signed steps."""

    step_sizes: Any
    prev_updates: Any


class ScaleBySM3State(NamedTuple):
    """For each leaf one accumulator an axis, and the momentum."""

    mu: Any
    nu: Any


class FactoredState(NamedTuple):
    """The number of steps and second moments: their row and column means where factored, else themselves; the others have one element."""

    count: Any
    v_row: Any
    v_col: Any
    v: Any


def _inverse_root(nu, eps, eps_in_sqrt):
    return lax.rsqrt(nu + eps) if eps_in_sqrt else 1 / (jnp.sqrt(nu) + eps)


def scale_by_rms(decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True, bias_correction=False):
    """RMSProp (Hinton, 2012): g / sqrt(nu + eps), or g / (sqrt(nu) + eps) without eps_in_sqrt; nu starts at initial_scale."""

    def init(params):
        nu = full_like(params, initial_scale)
        return ScaleByRmsWithCountState(zero_count(), nu) if bias_correction else ScaleByRmsState(nu)

    def update(updates, state, params=None):
        count = safe_increment(state.count) if bias_correction else None

        def leaf(g, nu):
            new = moment(decay, abs_sq(g), nu)
            scale = _inverse_root(corrected(new, 1 - decay**count) if bias_correction else new, eps, eps_in_sqrt)
            return scale * g, stored(new, nu)

        updates, nu = leafwise(leaf, updates, state.nu, outs=2)
        return updates, ScaleByRmsWithCountState(count, nu) if bias_correction else ScaleByRmsState(nu)

    return GradientTransformation(init, compiled(update))


def scale_by_stddev(decay=0.9, eps=1e-8, initial_scale=0.0, eps_in_sqrt=True, bias_correction=False):
    """Centered RMSProp (Graves, 2013): as scale_by_rms, with the variance nu - |mu|^2 in the place of nu."""

    def init(params):
        mu, nu = zeros_like(params), full_like(params, initial_scale)
        return ScaleByRStdDevWithCountState(zero_count(), mu, nu) if bias_correction else ScaleByRStdDevState(mu, nu)

    def update(updates, state, params=None):
        count = safe_increment(state.count) if bias_correction else None
        unbiased = (lambda x: corrected(x, 1 - decay**count)) if bias_correction else lambda x: x

        def leaf(g, mu, nu):
            new_mu, new_nu = moment(decay, g, mu), moment(decay, abs_sq(g), nu)
            variance = unbiased(new_nu) - abs_sq(unbiased(new_mu))
            return _inverse_root(variance, eps, eps_in_sqrt) * g, stored(new_mu, mu), stored(new_nu, nu)

        updates, mu, nu = leafwise(leaf, updates, state.mu, state.nu, outs=3)
        return updates, ScaleByRStdDevWithCountState(count, mu, nu) if bias_correction else ScaleByRStdDevState(mu, nu)

    return GradientTransformation(init, compiled(update))


def _root_or_zero(total, eps):
    """1 / sqrt(total + eps), and 0 where there has been no gradient."""
    return jnp.where(total > 0, lax.rsqrt(total + eps), 0.0)


def scale_by_rss(initial_accumulator_value=0.1, eps=1e-7):
    """AdaGrad (Duchi et al., 2011): g / sqrt(sum of all squares so far + eps)."""

    def leaf(g, total):
        new = abs_sq(g) + total
        return _root_or_zero(new, eps) * g, stored(new, total)

    def update(updates, state, params=None):
        updates, total = leafwise(leaf, updates, state.sum_of_squares, outs=2)
        return updates, ScaleByRssState(total)

    return GradientTransformation(lambda params: ScaleByRssState(full_like(params, initial_accumulator_value)), compiled(update))


def scale_by_adadelta(rho=0.9, eps=1e-6):
    """Adadelta (Zeiler, 2012): g times the ratio of the root mean squares of past steps and gradients."""

    def leaf(g, e_g, e_x):
        new_g = moment(rho, abs_sq(g), e_g)
        step = jnp.sqrt(e_x + eps) / jnp.sqrt(new_g + eps) * g
        return step, stored(new_g, e_g), stored(moment(rho, abs_sq(step), e_x), e_x)

    def update(updates, state, params=None):
        updates, e_g, e_x = leafwise(leaf, updates, state.e_g, state.e_x, outs=3)
        return updates, ScaleByAdaDeltaState(e_g, e_x)

    return GradientTransformation(lambda params: ScaleByAdaDeltaState(zeros_like(params), zeros_like(params)), compiled(update))


def scale_by_rprop(learning_rate, eta_minus=0.5, eta_plus=1.2, min_step_size=1e-6, max_step_size=50.0):
    """Rprop (Riedmiller & Braun, 1993): each element has its own step, longer while the gradient keeps its sign, shorter after a change.

    After a change of sign the element rests for one step.
    """

    def leaf(g, size, last):
        agreement = g * last
        grown = jnp.clip(size * jnp.where(agreement > 0, eta_plus, eta_minus), min_step_size, max_step_size)
        new_size = stored(jnp.where(agreement == 0, size, grown), size)
        step = stored(jnp.where(agreement < 0, jnp.zeros_like(g), new_size * jnp.sign(g)), last)
        return step, new_size, step

    def update(updates, state, params=None):
        updates, sizes, last = leafwise(leaf, updates, state.step_sizes, state.prev_updates, outs=3)
        return updates, ScaleByRpropState(sizes, last)

    return GradientTransformation(lambda params: ScaleByRpropState(full_like(params, learning_rate), zeros_like(params)), compiled(update))


def scale_by_sm3(b1=0.9, b2=1.0, eps=1e-8):
    """SM3 (Anil et al., 2019): AdaGrad whose accumulators are kept per row, column, ... of each leaf, with momentum b1."""

    def axes(p):
        return [jnp.zeros(n, dtype_of(p)) for n in jnp.shape(p) or [()]]

    def init(params):
        return ScaleBySM3State(tree.map(axes, params), zeros_like(params))

    def leaf(g, accumulators, momentum):
        g, rank = jnp.asarray(g), jnp.ndim(g)
        shaped = [jnp.reshape(a, [n if i == axis else 1 for i, n in enumerate(g.shape)]) for axis, a in enumerate(accumulators)]
        square = (1.0 if b2 == 1.0 else 1.0 - b2) * abs_sq(g) + b2 * functools.reduce(jnp.minimum, shaped)
        new = moment(b1, g * _root_or_zero(square, eps), momentum)
        others = lambda axis: tuple(i for i in range(rank) if i != axis)
        kept = [jnp.max(square, axis=others(axis)) if rank > 1 else square for axis in range(len(accumulators))]
        return new, [stored(k, a) for k, a in zip(kept, accumulators)], stored(new, momentum)

    def update(updates, state, params=None):
        updates, mu, nu = leafwise(leaf, updates, state.mu, state.nu, outs=3)
        return updates, ScaleBySM3State(mu, nu)

    return GradientTransformation(init, compiled(update))


def _power_decay(step, exponent=0.8):
    return 1.0 - jnp.asarray(step + 1, jnp.float32) ** (-exponent)


def _factored_axes(shape, factored, least):
    """The two longest axes, the longest last, or None where a leaf keeps its second moments whole."""
    order = np.argsort(shape)
    if not factored or len(shape) < 2 or shape[order[-2]] < least:
        return None
    return int(order[-2]), int(order[-1])


def scale_by_factored_rms(
    factored=True, decay_rate=0.8, step_offset=0, min_dim_size_to_factor=128, epsilon=1e-30, decay_rate_fn=_power_decay
):
    """Adafactor's rule (Shazeer & Stern, 2018): second moments of a leaf kept as the product of their row and column means.

    A leaf is factored along its two longest axes if both have min_dim_size_to_factor elements or more. The decay at step t is
    decay_rate_fn(t - step_offset, decay_rate), by default 1 - (t + 1)^-decay_rate.
    """

    def axes_of(p):
        return _factored_axes(jnp.shape(p), factored, min_dim_size_to_factor)

    def init(params):
        def leaf(p):
            axes, dtype = axes_of(p), dtype_of(p)
            none = jnp.zeros(1, dtype)
            if axes is None:
                return none, none, jnp.zeros_like(p)
            without = lambda axis: jnp.zeros([n for i, n in enumerate(jnp.shape(p)) if i != axis], dtype)
            return without(axes[1]), without(axes[0]), none

        return FactoredState(zero_count(), *leafwise(leaf, params, outs=3))

    def update(updates, state, params=None):
        need_params("scale_by_factored_rms", params)
        decay = decay_rate_fn(state.count - step_offset, decay_rate)

        def leaf(g, row, col, v, p):
            square, axes = abs_sq(g) + epsilon, axes_of(p)
            if axes is None:
                v = stored(moment(decay, square, v), v)
                return g * lax.rsqrt(v), row, col, v
            short, long = axes
            row = stored(moment(decay, jnp.mean(square, axis=long), row), row)
            col = stored(moment(decay, jnp.mean(square, axis=short), col), col)
            mean = jnp.mean(row, axis=short - 1 if short > long else short, keepdims=True)
            return g * jnp.expand_dims(lax.rsqrt(row / mean), long) * jnp.expand_dims(lax.rsqrt(col), short), row, col, v

        updates, *moments = leafwise(leaf, updates, state.v_row, state.v_col, state.v, params, outs=4)
        return updates, FactoredState(safe_increment(state.count), *moments)

    return GradientTransformation(init, compiled(update) if decay_rate_fn is _power_decay else update)
