"""Normalisation over batches, groups of channels and vectors; layer_norm and rms_norm are in functions.py."""

import math

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.errors import ShapeError
from fgrad.numpy.util import axis_tuple, unary
from fgrad.ops.fused import wide_dtype
from fgrad.ops.shape import reshape


def _real(name, x):
    x = unary(name, x, inexact=True)
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"{name} takes real arrays, got {x.dtype.name}")
    return x


def _standard(x, axes, eps):
    """(x - mean) / sqrt(variance + eps) over axes, in float32 for 16-bit floats."""
    wide = x.astype(wide_dtype(x.dtype))
    centred = wide - jnp.mean(wide, axes, keepdims=True)
    return (centred / jnp.sqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + eps)).astype(x.dtype)


def _affine(name, x, scale, bias, channel):
    """x * scale + bias, with one number of each for each channel."""
    shape = tuple(n if i == channel else 1 for i, n in enumerate(x.shape))
    for what, p in (("scale", scale), ("bias", bias)):
        if p is not None and jnp.shape(p) != (x.shape[channel],):
            raise ShapeError(f"{name}: {what} must have shape ({x.shape[channel]},), got {jnp.shape(p)}")
    x = x if scale is None else x * reshape(jnp.asarray(scale), shape)
    return x if bias is None else x + reshape(jnp.asarray(bias), shape)


def group_norm(x, num_groups, scale=None, bias=None, eps=1e-5, channel_axis=1):
    """Each group of channels normalised together with all axes behind the first (https://arxiv.org/abs/1803.08494).

    x: (batch, ..., channels, ...), channels along channel_axis and a multiple of num_groups. A negative channel_axis counts from
    the end, and then every axis before the channels is a batch axis. scale, bias: (channels,) or None.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.group_norm(jnp.arange(8.).reshape(1, 4, 2), 2).shape
    (1, 4, 2)
    """
    x = _real("group_norm", x)
    channel = axis_tuple(channel_axis, x.ndim)[0]
    channels = x.shape[channel]
    if num_groups < 1 or channels % num_groups:
        raise ShapeError(f"group_norm: the {channels} channels of x {x.shape} do not divide into {num_groups} groups")
    split = reshape(x, (*x.shape[:channel], num_groups, channels // num_groups, *x.shape[channel + 1 :]))
    batch = 1 if channel_axis >= 0 else channel
    axes = tuple(i for i in range(batch, split.ndim) if i != channel)
    return _affine("group_norm", reshape(_standard(split, axes, eps), x.shape), scale, bias, channel)


def instance_norm(x, scale=None, bias=None, eps=1e-5):
    """Each channel of each example normalised by itself (https://arxiv.org/abs/1607.08022).

    x: (batch, channels, ...) with one axis or more behind the channels; scale, bias: (channels,) or None.
    """
    x = _real("instance_norm", x)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x must be (batch, channels, ...) with 3 axes or more, got shape {x.shape}")
    return _affine("instance_norm", _standard(x, tuple(range(2, x.ndim)), eps), scale, bias, 1)


def batch_norm(x, state, scale=None, bias=None, *, training, momentum=0.1, eps=1e-5, unbiased=False, channel_axis=1):
    """(y, new state): each channel normalised over all other axes (https://arxiv.org/abs/1502.03167), as a pure function.

    x: (batch, channels, ...), the channels along channel_axis. state: (running mean, running variance), each (channels,), from
    batch_norm_state. scale, bias: (channels,) or None. training: take mean and variance from x and move the state towards them by
    `momentum`, with the unbiased variance as PyTorch does; else take the state's, and return it as it is. unbiased: normalise by
    the unbiased variance too (n - 1 in place of n).

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> y, state = fgrad.nn.batch_norm(jnp.array([[0.], [2.]]), fgrad.nn.batch_norm_state(1), training=True)
    >>> state
    (Array([0.1], dtype=float32), Array([1.1], dtype=float32))
    """
    x = _real("batch_norm", x)
    channel = axis_tuple(channel_axis, x.ndim)[0]
    axes = tuple(i for i in range(x.ndim) if i != channel)
    shape = tuple(n if i == channel else 1 for i, n in enumerate(x.shape))
    mean, variance = (jnp.asarray(s) for s in state)
    for what, s in (("running mean", mean), ("running variance", variance)):
        if s.shape != (x.shape[channel],):
            raise ShapeError(f"batch_norm: the {what} must have shape ({x.shape[channel]},), got {s.shape}")
    wide = x.astype(wide_dtype(x.dtype))
    if training:
        n = math.prod(x.shape[i] for i in axes)
        if n < 2:
            raise ShapeError(f"batch_norm: training needs 2 values or more of each channel, x has shape {x.shape}")
        here = jnp.mean(wide, axes)
        spread = jnp.mean(jnp.square(wide - reshape(here, shape)), axes)
        corrected = spread * (n / (n - 1))
        state = tuple(((1 - momentum) * old + momentum * new).astype(old.dtype) for old, new in ((mean, here), (variance, corrected)))
        mean, variance = here, corrected if unbiased else spread
    y = ((wide - reshape(mean, shape)) / jnp.sqrt(reshape(variance, shape) + eps)).astype(x.dtype)
    return _affine("batch_norm", y, scale, bias, channel), tuple(state)


def batch_norm_state(channels, dtype=None):
    """batch_norm's state before training: means of 0 and variances of 1."""
    return jnp.zeros(channels, dtype), jnp.ones(channels, dtype)


def l2_normalize(x, axis=-1, eps=1e-12):
    """x divided by its Euclidean length along `axis`, or by eps where that is shorter; its derivative is finite at 0."""
    x = _real("l2_normalize", x)
    square = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    short = square <= eps * eps
    return jnp.where(short, x / eps if eps else x, x / jnp.sqrt(jnp.where(short, 1, square)))
