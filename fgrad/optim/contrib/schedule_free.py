"""Averages of iterates in place of a decaying learning rate (Defazio et al., 2024, https://arxiv.org/abs/2405.15682)."""

from typing import Any, NamedTuple

import fgrad.numpy as jnp
from fgrad.optim.base import GradientTransformationExtraArgs, leafwise, need_params, safe_increment, stored, with_extra_args_support
from fgrad.optim.combining import chain
from fgrad.optim.optimizers import sgd
from fgrad.optim.scaling import add_decayed_weights, scale_by_learning_rate
from fgrad.optim.schedules import warmup_constant_schedule
from fgrad.optim.squares import scale_by_rms
from fgrad.optim.tree_utils import tree_cast, tree_dtype


class ScheduleFreeState(NamedTuple):
    """b1, the sum of the average's weights, the next step's number (from 1), the largest rate, the inner state and its iterates z."""

    b1: Any
    weight_sum: Any
    step_count: Any
    max_lr: Any
    base_optimizer_state: Any
    z: Any


def _average(b1, y, z):
    """x of y = b1 x + (1 - b1) z."""
    return leafwise(lambda y, z: (y - (1 - b1) * z) / b1, y, z)


def schedule_free_eval_params(state, params):
    """The averaged parameters, at which a model trained by schedule_free is evaluated."""
    if getattr(state, "b1", None) is None or getattr(state, "z", None) is None:
        raise ValueError(f"schedule_free_eval_params: the state must be a ScheduleFreeState, got {type(state).__name__}")
    return _average(state.b1, params, state.z)


def schedule_free(base_optimizer, learning_rate, b1=0.9, weight_lr_power=2.0, state_dtype=None):
    """base_optimizer (one without momentum) steps z; gradients are taken at y = b1 x + (1 - b1) z, x the weighted average of all z.

    The parameters are y. A step's weight is max(learning rates so far)**weight_lr_power; b1 must be positive; state_dtype: the
    dtype of z.

    >>> import fgrad.numpy as jnp
    >>> from fgrad import optim
    >>> tx = optim.contrib.schedule_free(optim.sgd(0.5), 0.5)
    >>> x = jnp.ones(2)
    >>> updates, state = tx.update(2 * x, tx.init(x), x)
    >>> optim.contrib.schedule_free_eval_params(state, x + updates).tolist()
    [0.0, 0.0]
    """
    inner = with_extra_args_support(base_optimizer)

    def init(params):
        dtype = tree_dtype(params, "lowest")
        return ScheduleFreeState(
            b1=jnp.asarray(b1, dtype),
            weight_sum=jnp.zeros((), dtype),
            step_count=jnp.ones((), jnp.int32),
            max_lr=jnp.zeros((), dtype),
            base_optimizer_state=inner.init(params),
            z=leafwise(jnp.array, tree_cast(params, state_dtype)),  # copies: the parameters may be donated
        )

    def update(updates, state, params=None, **extra_args):
        need_params("schedule_free", params)
        rate = learning_rate(state.step_count) if callable(learning_rate) else learning_rate
        max_lr = jnp.maximum(state.max_lr, jnp.asarray(rate, state.max_lr.dtype))
        weight = max_lr**weight_lr_power
        total = state.weight_sum + weight
        share = jnp.where(total == 0, 0, weight / total)  # before the first step of a warm-up from 0
        steps, inner_state = inner.update(updates, state.base_optimizer_state, params, **extra_args)
        z = leafwise(lambda z, u: stored(z + u, z), state.z, steps)

        def step(y, x, z):
            x = (1 - share) * x + share * z
            return stored(b1 * x + (1 - b1) * z - y, y)

        moved = leafwise(step, params, _average(b1, params, state.z), z)
        return moved, ScheduleFreeState(state.b1, stored(total, state.weight_sum), safe_increment(state.step_count), max_lr, inner_state, z)

    return GradientTransformationExtraArgs(init, update)


def _warmed(learning_rate, warmup_steps):
    return learning_rate if warmup_steps is None else warmup_constant_schedule(0, learning_rate, warmup_steps)


def schedule_free_sgd(learning_rate=1.0, warmup_steps=None, b1=0.9, weight_decay=None, weight_lr_power=2.0, state_dtype=None):
    """schedule_free around SGD, with a linear warm-up of warmup_steps."""
    rate = _warmed(learning_rate, warmup_steps)
    inner = sgd(rate) if weight_decay is None else chain(add_decayed_weights(weight_decay), sgd(rate))
    return schedule_free(inner, rate, b1, weight_lr_power, state_dtype)


def schedule_free_adamw(
    learning_rate=0.0025, warmup_steps=None, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.0, weight_lr_power=2.0, state_dtype=None
):
    """schedule_free around AdamW without its momentum, with a linear warm-up of warmup_steps."""
    rate = _warmed(learning_rate, warmup_steps)
    inner = chain(
        scale_by_rms(b2, eps, eps_in_sqrt=False, bias_correction=True),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(rate),
    )
    return schedule_free(inner, rate, b1, weight_lr_power, state_dtype)
