"""Pooling of (batch..., spatial..., features) arrays, in Flax's signatures."""

import numpy as np

from fgrad import lax
from fgrad import numpy as jnp
from fgrad.errors import ShapeError


def pool(inputs, init, reduce_fn, window_shape, strides=None, padding="VALID"):
    """reduce_fn (an associative function such as lax.add) from `init` over windows of the spatial axes.

    inputs: (batch..., spatial..., features), where window_shape says how many axes are spatial; one without batch axes is taken too.
    strides: 1 along each spatial axis by default. padding: "VALID", "SAME", or a (low, high) pair for each spatial axis; it holds `init`.
    """
    x = jnp.asarray(inputs)
    n = len(window_shape)
    if x.ndim < n + 1:
        raise ShapeError(f"pool: inputs of shape {x.shape} have no {n} spatial axes and a feature axis")
    strides = (1,) * n if strides is None else tuple(strides)
    if len(strides) != n:
        raise ShapeError(f"pool: strides {strides} and window_shape {tuple(window_shape)} must have equal lengths")
    batch = (1,) * (x.ndim - n - 1)
    if not isinstance(padding, str):
        if len(padding) != n or any(len(p) != 2 for p in padding):
            raise ShapeError(f"pool: padding must be a string or a (low, high) pair for each of {n} spatial axes, got {padding!r}")
        padding = (*((0, 0) for _ in batch), *(tuple(p) for p in padding), (0, 0))
    return lax.reduce_window(x, init, reduce_fn, (*batch, *window_shape, 1), (*batch, *strides, 1), padding)


def max_pool(inputs, window_shape, strides=None, padding="VALID"):
    """Largest element of each window (see pool). Its gradient goes to the first of equal elements.

    >>> max_pool(jnp.arange(6.0).reshape(1, 6, 1), (2,), (2,)).ravel()
    Array([1., 3., 5.], dtype=float32)
    """
    x = jnp.asarray(inputs)
    return pool(x, _limit(x.dtype, -np.inf), lax.max, window_shape, strides, padding)


def min_pool(inputs, window_shape, strides=None, padding="VALID"):
    """Smallest element of each window (see pool)."""
    x = jnp.asarray(inputs)
    return pool(x, _limit(x.dtype, np.inf), lax.min, window_shape, strides, padding)


def _limit(dtype, infinite):
    """The lowest (-inf) or highest (inf) value of a dtype."""
    if jnp.issubdtype(dtype, jnp.floating):
        return dtype.type(infinite)
    if dtype.kind == "b":
        return np.bool_(infinite > 0)
    info = np.iinfo(dtype)
    return dtype.type(info.min if infinite < 0 else info.max)


def avg_pool(inputs, window_shape, strides=None, padding="VALID", count_include_pad=True):
    """Mean of each window (see pool); with count_include_pad False, of its elements that are not padding.

    >>> avg_pool(jnp.arange(4.0).reshape(1, 4, 1), (2,), (2,), "SAME").ravel()
    Array([0.5, 2.5], dtype=float32)
    """
    x = jnp.asarray(inputs)
    if not jnp.issubdtype(x.dtype, jnp.inexact):
        x = x.astype(jnp.float32)
    total = pool(x, x.dtype.type(0), lax.add, window_shape, strides, padding)
    if count_include_pad:
        return total / np.prod(window_shape).item()
    spatial = x.shape[x.ndim - len(window_shape) - 1 : -1]
    return total / pool(jnp.ones((*spatial, 1), x.dtype), x.dtype.type(0), lax.add, window_shape, strides, padding)


def lp_pool(inputs, norm_type, window_shape, strides=None, padding="VALID"):
    """(sum of |x| ** norm_type) ** (1 / norm_type) over each window (see pool): the sum for 1, the Euclidean norm for 2.

    Where a window holds zeros only its gradient is zero.

    >>> lp_pool(jnp.array([3.0, 4.0]).reshape(1, 2, 1), 2, (2,)).ravel()
    Array([5.], dtype=float32)
    """
    x = jnp.asarray(inputs)
    power = lambda v, p: v * v if p == 2 else v**p
    total = pool(power(jnp.abs(x), norm_type), x.dtype.type(0), lax.add, window_shape, strides, padding)
    safe = jnp.where(total > 0, total, 1)
    root = jnp.sqrt(safe) if norm_type == 2 else safe ** (1 / norm_type)
    return jnp.where(total > 0, root, 0)
