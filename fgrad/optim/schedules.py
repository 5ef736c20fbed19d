"""Schedules: functions of the step count, an integer or an integer array (traced too), that give a number."""

import math

import fgrad.numpy as jnp
from fgrad.optim.base import Schedule, StatefulSchedule
from fgrad.optim.wrappers import (
    InjectHyperparamsState,
    InjectStatefulHyperparamsState,
    WrappedSchedule,
    inject_hyperparams,
    inject_stateful_hyperparams,
)

__all__ = [
    "InjectHyperparamsState", "InjectStatefulHyperparamsState", "Schedule", "StatefulSchedule", "WrappedSchedule", "constant_schedule",
    "cosine_decay_schedule", "cosine_onecycle_schedule", "exponential_decay", "inject_hyperparams", "inject_stateful_hyperparams",
    "join_schedules", "linear_onecycle_schedule", "linear_schedule", "piecewise_constant_schedule", "piecewise_interpolate_schedule",
    "polynomial_schedule", "sgdr_schedule", "warmup_constant_schedule", "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]  # fmt: skip


def constant_schedule(value):
    """The same value at every step."""
    return lambda count: value


def polynomial_schedule(init_value, end_value, power, transition_steps, transition_begin=0):
    """init_value until transition_begin, then to end_value along (1 - t)^power over transition_steps, then constant."""
    if transition_steps <= 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)

    def schedule(count):
        left = 1 - jnp.clip(count - begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * left**power + end_value

    return schedule


def linear_schedule(init_value, end_value, transition_steps, transition_begin=0):
    """From init_value to end_value over transition_steps from transition_begin on, then constant.

    >>> import fgrad
    >>> [float(fgrad.optim.linear_schedule(1.0, 0.0, 4)(step)) for step in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def exponential_decay(init_value, transition_steps, decay_rate, transition_begin=0, staircase=False, end_value=None):
    """init_value * decay_rate^(t / transition_steps), from transition_begin on.

    staircase: only whole powers. end_value: the bound that the value does not pass.
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)

    def schedule(count):
        since = jnp.asarray(count) - begin
        power = jnp.floor(since / transition_steps) if staircase else since / transition_steps
        value = jnp.where(since <= 0, init_value, init_value * jnp.power(decay_rate, power))
        if end_value is None:
            return value
        return jnp.maximum(value, end_value) if decay_rate < 1 else jnp.minimum(value, end_value)

    return schedule


def cosine_decay_schedule(init_value, decay_steps, alpha=0.0, exponent=1.0):
    """init_value falling to alpha * init_value along half a cosine (Loshchilov & Hutter, 2017), raised to `exponent`."""
    if not decay_steps > 0:
        raise ValueError(f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}")

    def schedule(count):
        half = 0.5 * (1 + jnp.cos(math.pi * jnp.minimum(count, decay_steps) / decay_steps))
        return init_value * ((1 - alpha) * half**exponent + alpha)

    return schedule


def piecewise_constant_schedule(init_value, boundaries_and_scales=None):
    """init_value, multiplied by scale from each boundary on: {boundary: scale}."""
    steps = _sorted("piecewise_constant_schedule", boundaries_and_scales)

    def schedule(count):
        value = init_value
        for boundary, scale in steps:
            value = jnp.where(count < boundary, value, value * scale)
        return value

    return schedule


def piecewise_interpolate_schedule(interpolate_type, init_value, boundaries_and_scales=None):
    """As piecewise_constant_schedule, but "linear" or "cosine" in between: at each boundary the value is the last one times scale."""
    ways = {"linear": lambda t: t, "cosine": lambda t: 0.5 - 0.5 * jnp.cos(math.pi * t)}
    if interpolate_type not in ways:
        raise ValueError(f'piecewise_interpolate_schedule: interpolate_type must be "linear" or "cosine", got {interpolate_type!r}')
    steps = _sorted("piecewise_interpolate_schedule", boundaries_and_scales)

    def schedule(count):
        value = start = init_value
        begin = 0
        for boundary, scale in steps:
            end = start * scale
            along = ways[interpolate_type](jnp.clip((count - begin) / max(boundary - begin, 1), 0, 1))
            value = jnp.where(count < begin, value, jnp.where(count < boundary, start + (end - start) * along, end))
            start, begin = end, boundary
        return value

    return schedule


def _sorted(name, boundaries_and_scales):
    steps = sorted((boundaries_and_scales or {}).items())
    if any(scale < 0 for _, scale in steps):
        raise ValueError(f"{name}: scales must not be negative, got {dict(steps)}")
    return steps


def linear_onecycle_schedule(transition_steps, peak_value, pct_start=0.3, pct_final=0.85, div_factor=25.0, final_div_factor=1e4):
    """In lines up from peak/div_factor to the peak, down again, then to peak/(div_factor * final_div_factor) (Smith & Topin, 2018)."""
    _positive("linear_onecycle_schedule", transition_steps)
    scales = {
        int(pct_start * transition_steps): div_factor,
        int(pct_final * transition_steps): 1 / div_factor,
        transition_steps: 1 / final_div_factor,
    }
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, scales)


def cosine_onecycle_schedule(transition_steps, peak_value, pct_start=0.3, div_factor=25.0, final_div_factor=1e4):
    """Up from peak/div_factor to the peak and down to peak/(div_factor * final_div_factor), along cosines (Smith & Topin, 2018)."""
    _positive("cosine_onecycle_schedule", transition_steps)
    scales = {int(pct_start * transition_steps): div_factor, int(transition_steps): 1 / (div_factor * final_div_factor)}
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, scales)


def _positive(name, transition_steps):
    if transition_steps <= 0:
        raise ValueError(f"{name}: transition_steps must be positive, got {transition_steps}")


def join_schedules(schedules, boundaries):
    """Schedules one after another: schedules[i + 1] starts, at count 0, at step boundaries[i]."""
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(f"join_schedules: {len(schedules)} schedules need {len(schedules) - 1} boundaries, got {len(boundaries)}")

    def schedule(count):
        value = schedules[0](count)
        for boundary, following in zip(boundaries, schedules[1:]):
            value = jnp.where(count < boundary, value, following(count - boundary))
        return value

    return schedule


def warmup_constant_schedule(init_value, peak_value, warmup_steps):
    """Linear warm-up over warmup_steps, then constant."""
    return linear_schedule(init_value, peak_value, warmup_steps)


def warmup_cosine_decay_schedule(init_value, peak_value, warmup_steps, decay_steps, end_value=0.0, exponent=1.0):
    """Linear warm-up over warmup_steps, then cosine decay until decay_steps (which counts the warm-up)."""
    if not 0 <= warmup_steps < decay_steps:
        raise ValueError(f"warmup_cosine_decay_schedule: need 0 <= warmup_steps < decay_steps, got {warmup_steps} and {decay_steps}")
    alpha = end_value / peak_value if peak_value else 0.0
    decay = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), decay], [warmup_steps])


def warmup_exponential_decay_schedule(
    init_value, peak_value, warmup_steps, transition_steps, decay_rate, transition_begin=0, staircase=False, end_value=None
):
    """Linear warm-up over warmup_steps, then exponential_decay."""
    decay = exponential_decay(peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value)
    return join_schedules([linear_schedule(init_value, peak_value, warmup_steps), decay], [warmup_steps])


def sgdr_schedule(cosine_kwargs):
    """Warm restarts (Loshchilov & Hutter, 2017): one warmup_cosine_decay_schedule(**kwargs) after another."""
    cycles = list(cosine_kwargs)
    ends = [sum(c["decay_steps"] for c in cycles[: i + 1]) for i in range(len(cycles) - 1)]
    return join_schedules([warmup_cosine_decay_schedule(**c) for c in cycles], ends)
