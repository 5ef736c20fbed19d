"""Sharpness-aware minimization (Foret et al., 2021, https://arxiv.org/abs/2010.01412)."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad import lax, tree
from fgrad.optim.base import EmptyState, GradientTransformationExtraArgs, leafwise, need_params, stateless, zero_count
from fgrad.optim.tree_utils import tree_norm
from fgrad.optim.update import apply_updates

NormalizeState = EmptyState


class SAMState(NamedTuple):
    """The number of adversarial steps since the last outer one, both inner states, and the parameters to return to."""

    steps_since_sync: Any
    opt_state: Any
    adv_state: Any
    cache: Any


def normalize():
    """Updates divided by their norm over the whole tree."""

    def divided(updates, params):
        norm = tree_norm(updates)
        return leafwise(lambda g: g / norm, updates)

    return stateless(divided)


def _either(condition, a, b):
    return tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _ascent(adv_optimizer, updates, state, params):
    steps, state = adv_optimizer.update(updates, state, params)
    return leafwise(jnp.negative, steps), state


def sam(optimizer, adv_optimizer, sync_period=2, reset_state=True, opaque_mode=False, batch_axis_name=None):
    """Steps of `optimizer` with the gradient found after sync_period - 1 ascending steps of adv_optimizer.

    Each update makes one ascending step, or returns to the parameters before them and makes the outer one. With opaque_mode one
    update does it all, with update(..., grad_fn=f) where f(params, i) gives the gradient for adversarial step i; batch_axis_name: the
    axis over which those gradients are averaged. reset_state: adv_optimizer starts anew after each outer step.

    Raises ValueError for sync_period < 1, and for an opaque update without grad_fn.
    """
    if sync_period < 1:
        raise ValueError(f"sam: sync_period must be at least 1, got {sync_period}")

    def init(params):
        return SAMState(zero_count(), optimizer.init(params), adv_optimizer.init(params), None if opaque_mode else params)

    def visible(updates, state, params=None, *, grad_fn=None):
        need_params("sam", params)
        first, last = state.steps_since_sync == 0, state.steps_since_sync == sync_period - 1
        ascent, adv_state = _ascent(adv_optimizer, updates, state.adv_state, params)
        outer, opt_state = optimizer.update(updates, state.opt_state, state.cache)
        outer = leafwise(lambda u, c, p: c - p + u, outer, state.cache, params)
        return _either(last, outer, ascent), SAMState(
            steps_since_sync=(state.steps_since_sync + 1) % sync_period,
            opt_state=_either(last, opt_state, state.opt_state),
            adv_state=_either(last, adv_optimizer.init(params) if reset_state else state.adv_state, adv_state),
            cache=_either(first, params, state.cache),
        )

    def opaque(updates, state, params=None, *, grad_fn=None):
        need_params("sam", params)
        if grad_fn is None:
            raise ValueError("sam: with opaque_mode the update needs grad_fn: call update(updates, state, params, grad_fn=f)")
        at, adv_state = params, state.adv_state
        for i in range(sync_period - 1):
            ascent, adv_state = _ascent(adv_optimizer, updates, adv_state, at)
            at = apply_updates(at, ascent)
            updates = grad_fn(at, i)
            if batch_axis_name is not None:
                updates = lax.pmean(updates, batch_axis_name)
        updates, opt_state = optimizer.update(updates, state.opt_state, params)
        return updates, SAMState(zero_count(), opt_state, adv_optimizer.init(params) if reset_state else adv_state, None)

    return GradientTransformationExtraArgs(init, opaque if opaque_mode else visible)
