"""Relatives of Adam: ACProp, AdEMAMix and ADOPT."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad.optim.base import (
    GradientTransformation,
    abs_sq,
    corrected,
    leafwise,
    moment,
    root,
    safe_increment,
    stored,
    zero_count,
    zeros_like,
)
from fgrad.optim.combining import chain
from fgrad.optim.moments import ScaleByAdamState, ScaleByBeliefState
from fgrad.optim.scaling import add_decayed_weights, scale_by_learning_rate


class ScaleByAdemamixState(NamedTuple):
    """Two step counts, the fast and the slow average of the gradients, and that of their squares."""

    count: Any
    count_m2: Any
    m1: Any
    m2: Any
    nu: Any


class ScaleBySimplifiedAdEMAMixState(NamedTuple):
    """The step count, the accumulated gradients and the average of their squares."""

    t: Any
    m: Any
    n: Any


def _at(value, count):
    return value(count) if callable(value) else value


def scale_by_acprop(b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16):
    """Gradients over the root of the second moment about the mean, of the steps before (Zhuang et al., 2021)."""

    def init(params):
        return ScaleByBeliefState(zero_count(), zeros_like(params), zeros_like(params))

    def update(updates, state, params=None):
        count = safe_increment(state.count)
        mu = leafwise(lambda g, m: moment(b1, g, m), updates, state.mu)
        nu = leafwise(lambda g, m, v: moment(b2, abs_sq(g - m), v), updates, state.mu, state.nu)
        nu = leafwise(lambda v: v + eps_root, nu)
        # At the first step the denominator is 1: there is no variance before it.
        correction = 1 - b2 ** jnp.maximum(state.count, 1)
        first = state.count == 0
        old = leafwise(lambda v: jnp.where(first, jnp.ones_like(v), corrected(v, correction)), state.nu)
        out = leafwise(lambda g, v: g / (jnp.sqrt(v) + eps), updates, old)
        return out, ScaleByBeliefState(count, leafwise(stored, mu, state.mu), leafwise(stored, nu, state.nu))

    return GradientTransformation(init, update)


def acprop(learning_rate, b1=0.9, b2=0.999, eps=1e-16, eps_root=1e-16, weight_decay=0.0, mask=None):
    """ACProp (Zhuang et al., 2021): Adam whose second moment is centred and lags one step behind the gradient it divides."""
    return chain(
        scale_by_acprop(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def scale_by_ademamix(b1=0.9, b2=0.999, b3=0.9999, alpha=6.0, eps=1e-8, eps_root=0.0, mu_dtype=None):
    """Adam's direction plus alpha times a slow average with decay b3 (both may be schedules; Pagliardini et al., 2024)."""

    def init(params):
        zeros = lambda: zeros_like(params, mu_dtype)
        return ScaleByAdemamixState(zero_count(), zero_count(), zeros(), zeros(), zeros())

    def update(updates, state, params=None):
        slow, weight = _at(b3, state.count_m2), _at(alpha, state.count_m2)
        count = safe_increment(state.count)
        m1 = leafwise(lambda g, m: moment(b1, g, m), updates, state.m1)
        m2 = leafwise(lambda g, m: moment(slow, g, m), updates, state.m2)
        nu = leafwise(lambda g, v: moment(b2, abs_sq(g), v), updates, state.nu)
        c1, c2 = 1 - b1**count, 1 - b2**count
        out = leafwise(lambda a, b, v: (corrected(a, c1) + weight * b) / (root(corrected(v, c2), eps_root) + eps), m1, m2, nu)
        kept = [leafwise(stored, new, old) for new, old in zip((m1, m2, nu), state[2:])]
        return out, ScaleByAdemamixState(count, safe_increment(state.count_m2), *kept)

    return GradientTransformation(init, update)


def ademamix(learning_rate, b1=0.9, b2=0.999, b3=0.9999, alpha=5.0, eps=1e-8, eps_root=0.0, mu_dtype=None, weight_decay=0.0, mask=None):
    """AdEMAMix (Pagliardini et al., 2024): AdamW with a second, slow average of the gradients."""
    return chain(
        scale_by_ademamix(b1, b2, b3, alpha, eps, eps_root, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def scale_by_simplified_ademamix(b1=0.99, b2=0.95, alpha=0.0, eps=1e-8, eps_root=0.0):
    """(alpha * gradient + accumulated gradients) over the root of the average square (Morwani et al., 2025)."""

    def init(params):
        return ScaleBySimplifiedAdEMAMixState(zero_count(), zeros_like(params), zeros_like(params))

    def update(updates, state, params=None):
        weight, t = _at(alpha, state.t), safe_increment(state.t)
        m = leafwise(lambda g, old: stored(g + b1 * old, old), updates, state.m)
        n = leafwise(lambda g, old: stored(moment(b2, g * g, old), old), updates, state.n)
        correction = 1 - b2**t
        out = leafwise(lambda g, a, v: (a + weight * g) / (jnp.sqrt(corrected(v, correction) + eps_root) + eps), updates, m, n)
        return out, ScaleBySimplifiedAdEMAMixState(t, m, n)

    return GradientTransformation(init, update)


def simplified_ademamix(learning_rate, b1=0.99, b2=0.95, alpha=0.0, eps=1e-8, eps_root=0.0, weight_decay=0.0, mask=None):
    """Simplified AdEMAMix (Morwani et al., 2025): one average; its learning rate is (1 - b1) times AdEMAMix's."""
    return chain(
        scale_by_simplified_ademamix(b1, b2, alpha, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def _fourth_root(x):
    return x**0.25


def scale_by_adopt(b1=0.9, b2=0.9999, eps=1e-6, mu_dtype=None, *, nesterov=False, use_clipping=True, clip_value_fn=_fourth_root):
    """The average of gradients that are divided by the root of the second moment of the steps before (Taniguchi et al., 2024).

    use_clipping: the quotients are clipped to +-clip_value_fn(step).
    """

    def init(params):
        return ScaleByAdamState(zero_count(), zeros_like(params, mu_dtype), zeros_like(params))

    def update(updates, state, params=None):
        started = state.count > 0  # the first step only measures the second moment
        decay1, decay2 = jnp.where(started, b1, 1), jnp.where(started, b2, 0)

        def quotient(g, v):
            ratio = g / jnp.maximum(jnp.sqrt(v), eps)
            if not use_clipping:
                return ratio
            bound = clip_value_fn(state.count)
            return jnp.clip(ratio, -bound, bound)

        steps = leafwise(quotient, updates, state.nu)
        nu = leafwise(lambda g, v: stored(moment(decay2, abs_sq(g), v), v), updates, state.nu)
        mu = leafwise(lambda s, m: moment(decay1, s, m), steps, state.mu)
        out = leafwise(lambda s, m: moment(decay1, s, m), steps, mu) if nesterov else mu
        return out, ScaleByAdamState(safe_increment(state.count), leafwise(stored, mu, state.mu), nu)

    return GradientTransformation(init, update)


def adopt(learning_rate, b1=0.9, b2=0.9999, eps=1e-6, mu_dtype=None, *, nesterov=False, use_clipping=True, clip_value_fn=_fourth_root):
    """ADOPT (Taniguchi et al., 2024): Adam that converges with any b2."""
    scaling = scale_by_adopt(b1, b2, eps, mu_dtype, nesterov=nesterov, use_clipping=use_clipping, clip_value_fn=clip_value_fn)
    return chain(scaling, scale_by_learning_rate(learning_rate))
