"""Optimizers as (init, update) pairs of pure functions over parameter pytrees, with optax's semantics."""

from fgrad.optim.schedules import constant_schedule, cosine_decay_schedule, linear_schedule, warmup_cosine_decay_schedule
from fgrad.optim.transforms import (
    GradientTransformation,
    adam,
    adamw,
    apply_updates,
    chain,
    clip_by_global_norm,
    global_norm,
    sgd,
)

__all__ = [
    "GradientTransformation",
    "adam",
    "adamw",
    "apply_updates",
    "chain",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "global_norm",
    "linear_schedule",
    "sgd",
    "warmup_cosine_decay_schedule",
]
