"""Normalisation over batches, groups of channels and vectors; layer_norm and rms_norm are in functions.py."""

import functools
import math
from typing import NamedTuple

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.api import custom_jvp, jit
from fgrad.errors import ShapeError
from fgrad.numpy.util import axis_tuple, unary
from fgrad.ops.fused import wide_dtype
from fgrad.ops.shape import reshape


def _real(name, x):
    x = unary(name, x, inexact=True)
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"{name} takes real arrays, got {x.dtype.name}")
    return x


class _Layout(NamedTuple):
    """Which elements share a mean and a variance.

    kept: the axes that are not summed first, channels last: sums over the others are `cells`. groups: into how many groups the
    channels of a cell's row fall that share statistics, or 0 where each channel has its own over all rows. ratio: by which the
    variance is multiplied.
    """

    shape: tuple
    kept: tuple
    groups: int
    eps: float
    ratio: float = 1.0

    def cells(self, x):
        """The sums over the axes that are not kept."""
        return jnp.sum(x, tuple(i for i in range(len(self.shape)) if i not in self.kept))

    def mean(self, cells):
        """The means over what shares statistics, from sums of cells; they broadcast to the cells' shape."""
        *lead, channels = cells.shape
        statistics = math.prod(lead) * self.groups if self.groups else channels
        scale = statistics / max(math.prod(self.shape), 1)
        if not self.groups:
            return jnp.sum(cells, tuple(range(len(lead))), keepdims=True) * scale
        if self.groups == channels:
            return cells * scale
        split = reshape(cells, (*lead, self.groups, channels // self.groups))
        return reshape(jnp.broadcast_to(jnp.sum(split, -1, keepdims=True) * scale, split.shape), cells.shape)

    def lift(self, cells):
        """A number for each cell, or each channel, as an array that broadcasts to x."""
        sizes = dict(zip(self.kept, (1,) * (len(self.kept) - cells.ndim) + cells.shape))
        return reshape(cells, tuple(sizes.get(i, 1) for i in range(len(self.shape))))


@functools.partial(custom_jvp, nondiff_argnums=(3,))
def _normalise(x, scale, bias, at):
    """((x - mean) / sqrt(ratio * variance + eps) * scale + bias, mean, variance), computed in float32 for 16-bit floats."""
    wide = x.astype(wide_dtype(x.dtype))
    mean = at.mean(at.cells(wide))
    variance = at.mean(at.cells(jnp.square(at.lift(mean) - wide)))
    return _scaled(wide, scale, bias, mean, variance, at).astype(x.dtype), mean, variance


def _scaled(x, scale, bias, mean, variance, at):
    """One product and one sum an element: what belongs to channels is computed once a channel."""
    factor = _factor(variance, scale, at)
    shift = -mean * factor if bias is None else bias - mean * factor
    return x * at.lift(factor) + at.lift(shift)


def _factor(variance, scale, at):
    """scale / sqrt(ratio * variance + eps)."""
    r = 1 / jnp.sqrt(at.ratio * variance + at.eps)
    return r if scale is None else r * scale


@_normalise.defjvp
def _normalise_jvp(at, primals, tangents):
    """Two sums and one pass, in terms that transpose to two sums and one pass.

    x - mean is written in three ways, here and in _normalise: passes that share an array would store it between them.
    """
    (x, scale, bias), (tx, tscale, tbias) = primals, tangents
    y, mean, variance = _normalise(x, scale, bias, at)
    wide, tx = (v.astype(wide_dtype(v.dtype)) for v in (x, tx))
    r, factor = _factor(variance, None, at), _factor(variance, scale, at)
    tmean, along = at.mean(at.cells(tx)), at.mean(at.cells((wide * at.lift(r) + at.lift(-mean * r)) * tx))
    slope, shift = -at.ratio * factor * along, -factor * tmean
    slope = slope if scale is None else slope + tscale
    shift = shift if bias is None else shift + tbias
    ty = tx * at.lift(factor) + (wide - at.lift(mean)) * at.lift(r * slope) + at.lift(shift)
    return (y, mean, variance), (ty.astype(y.dtype), tmean, 2 * along / r)


@functools.partial(jit, static_argnums=5)
def _evaluate(x, scale, bias, mean, variance, at):
    """Normalised by given statistics."""
    return _scaled(x.astype(wide_dtype(x.dtype)), scale, bias, mean, variance, at).astype(x.dtype)


_train = jit(_normalise, static_argnums=3)


def _parameters(name, x, scale, bias, channel):
    """scale and bias as arrays with one number for each channel, or None."""
    for what, p in (("scale", scale), ("bias", bias)):
        if p is not None and jnp.shape(p) != (x.shape[channel],):
            raise ShapeError(f"{name}: {what} must have shape ({x.shape[channel]},), got {jnp.shape(p)}")
    return (None if p is None else jnp.asarray(p) for p in (scale, bias))


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
    scale, bias = _parameters("group_norm", x, scale, bias, channel)
    kept = (*range(min(channel, 1) if channel_axis >= 0 else channel), channel)
    return _train(x, scale, bias, _Layout(x.shape, kept, num_groups, float(eps)))[0]


def instance_norm(x, scale=None, bias=None, eps=1e-5):
    """Each channel of each example normalised by itself (https://arxiv.org/abs/1607.08022).

    x: (batch, channels, ...) with one axis or more behind the channels; scale, bias: (channels,) or None.
    """
    x = _real("instance_norm", x)
    if x.ndim < 3:
        raise ShapeError(f"instance_norm: x must be (batch, channels, ...) with 3 axes or more, got shape {x.shape}")
    scale, bias = _parameters("instance_norm", x, scale, bias, 1)
    return _train(x, scale, bias, _Layout(x.shape, (0, 1), x.shape[1], float(eps)))[0]


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
    scale, bias = _parameters("batch_norm", x, scale, bias, channel)
    mean, variance = (jnp.asarray(s) for s in state)
    for what, s in (("running mean", mean), ("running variance", variance)):
        if s.shape != (x.shape[channel],):
            raise ShapeError(f"batch_norm: the {what} must have shape ({x.shape[channel]},), got {s.shape}")
    if not training:
        return _evaluate(x, scale, bias, mean, variance, _Layout(x.shape, (channel,), 0, float(eps))), (mean, variance)
    n = math.prod(x.shape) // max(x.shape[channel], 1)
    if n < 2:
        raise ShapeError(f"batch_norm: training needs 2 values or more of each channel, x has shape {x.shape}")
    kept = (0, 1) if channel == 1 and x.ndim > 2 else (channel,)  # rows of an image are summed first
    ratio = n / (n - 1)
    y, *here = _train(x, scale, bias, _Layout(x.shape, kept, 0, float(eps), ratio if unbiased else 1.0))
    here = [reshape(h, mean.shape) for h in here]
    here[1] = here[1] * ratio
    return y, tuple(((1 - momentum) * old + momentum * new).astype(old.dtype) for old, new in zip((mean, variance), here))


def batch_norm_state(channels, dtype=None):
    """batch_norm's state before training: means of 0 and variances of 1."""
    return jnp.zeros(channels, dtype), jnp.ones(channels, dtype)


def l2_normalize(x, axis=-1, eps=1e-12):
    """x divided by its Euclidean length along `axis`, or by eps where that is shorter; its derivative is finite at 0."""
    x = _real("l2_normalize", x)
    square = jnp.sum(jnp.square(x), axis=axis, keepdims=True)
    short = square <= eps * eps
    return jnp.where(short, x / eps if eps else x, x / jnp.sqrt(jnp.where(short, 1, square)))
