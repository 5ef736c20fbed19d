"""Normalisation of rows and of groups of channels."""

import fgrad.numpy as jnp
from fgrad import nn
from fgrad.ggml.util import floats, need

__all__ = [
    "group_norm",
    "l2_norm",
    "norm",
    "rms_norm",
    "rms_norm_back",
]


def norm(a, eps):
    """(a - mean) / sqrt(variance + eps) of each row."""
    return nn.layer_norm(floats("norm", a), eps=eps)


def rms_norm(a, eps):
    """a / sqrt(mean(a^2) + eps) of each row."""
    return nn.rms_norm(floats("rms_norm", a), eps=eps)


def rms_norm_back(a, b, eps):
    """The cotangent of rms_norm's argument b for a cotangent a of its result."""
    a, b = floats("rms_norm_back", a, b)
    need(a.shape == b.shape, "rms_norm_back", f"the arrays must have one shape, got {a.shape} and {b.shape}")
    r = 1 / jnp.sqrt(jnp.mean(jnp.square(b), axis=-1, keepdims=True) + eps)
    return r * (a - b * jnp.square(r) * jnp.mean(a * b, axis=-1, keepdims=True))


def group_norm(a, n_groups, eps):
    """Normalised groups of channels: a (..., channels, height, width), each group of ceil(channels / n_groups) channels by itself."""
    a = floats("group_norm", a)
    need(a.ndim >= 3, "group_norm", f"a must be (..., channels, height, width), got shape {a.shape}")
    channels = a.shape[-3]
    need(n_groups > 0, "group_norm", f"n_groups must be positive, got {n_groups}")
    each = -(-channels // n_groups)
    if channels % each == 0:
        return nn.group_norm(a, channels // each, eps=eps, channel_axis=-3)
    last = channels - channels % each  # a last group of fewer channels
    parts = [nn.group_norm(a[..., :last, :, :], last // each, eps=eps, channel_axis=-3)] if last else []
    return jnp.concatenate([*parts, nn.group_norm(a[..., last:, :, :], 1, eps=eps, channel_axis=-3)], axis=-3)


def l2_norm(a, eps):
    """Each row divided by its length, or by eps where it is shorter."""
    return nn.l2_normalize(floats("l2_norm", a), eps=eps)
