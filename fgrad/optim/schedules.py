"""Learning-rate schedules: functions of the step count (an integer array)."""

import math

import fgrad.numpy as jnp


def constant_schedule(value):
    """The same value at every step."""
    return lambda count: value


def linear_schedule(init_value, end_value, transition_steps):
    """From init_value to end_value over transition_steps, then constant."""

    def schedule(count):
        frac = jnp.clip(count, 0, transition_steps) / transition_steps
        return init_value + (end_value - init_value) * frac

    return schedule


def cosine_decay_schedule(init_value, decay_steps, alpha=0.0):
    """init_value falling to alpha * init_value along half a cosine (Loshchilov & Hutter, 2017)."""
    if decay_steps <= 0:
        raise ValueError(f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}")

    def schedule(count):
        frac = jnp.minimum(count, decay_steps) / decay_steps
        return init_value * ((1 - alpha) * 0.5 * (1 + jnp.cos(math.pi * frac)) + alpha)

    return schedule


def warmup_cosine_decay_schedule(init_value, peak_value, warmup_steps, decay_steps, end_value=0.0):
    """Linear warm-up over warmup_steps, then cosine decay until decay_steps (which counts the warm-up)."""
    if not 0 <= warmup_steps < decay_steps:
        raise ValueError(f"warmup_cosine_decay_schedule: need 0 <= warmup_steps < decay_steps, got {warmup_steps} and {decay_steps}")
    decay = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, end_value / peak_value if peak_value else 0.0)
    warm = linear_schedule(init_value, peak_value, max(warmup_steps, 1))
    return lambda count: jnp.where(count < warmup_steps, warm(count), decay(count - warmup_steps))
