"""Initializers of weights: functions init(key, shape, dtype), with the names and distributions of jax.nn.initializers."""

import math
from typing import Protocol

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, random


class Initializer(Protocol):
    """The type of an initializer: init(key, shape, dtype) -> Array."""

    def __call__(self, key, shape, dtype=None, out_sharding=None):
        raise NotImplementedError


def _dtype(dtype):
    return dtypes.float_dtype() if dtype is None else dtypes.canonicalize_dtype(dtype)


def zeros(key, shape, dtype=None, *, out_sharding=None):
    """Zeros; the key is not used."""
    return jnp.zeros(shape, _dtype(dtype))


def ones(key, shape, dtype=None, *, out_sharding=None):
    """Ones; the key is not used."""
    return jnp.ones(shape, _dtype(dtype))


def constant(value, dtype=None):
    """An initializer that gives `value`, a scalar or an array that broadcasts to the shape."""

    def init(key, shape, dtype=dtype):
        return jnp.full(shape, value, dtype=_dtype(dtype))

    return init


def uniform(scale=1e-2, dtype=None):
    """An initializer uniform on [0, scale)."""

    def init(key, shape, dtype=dtype):
        return random.uniform(key, shape, _dtype(dtype)) * jnp.asarray(scale, _dtype(dtype))

    return init


def normal(stddev=1e-2, dtype=None):
    """An initializer from the normal distribution with mean 0."""

    def init(key, shape, dtype=dtype):
        return random.normal(key, shape, _dtype(dtype)) * jnp.asarray(stddev, _dtype(dtype))

    return init


def truncated_normal(stddev=1e-2, dtype=None, lower=-2.0, upper=2.0):
    """An initializer from the normal distribution cut at lower and upper (before it is scaled by stddev)."""

    def init(key, shape, dtype=dtype):
        return random.truncated_normal(key, lower, upper, shape, _dtype(dtype)) * jnp.asarray(stddev, _dtype(dtype))

    return init


def _size(shape, axes):
    return shape[axes] if isinstance(axes, (int, np.integer)) else math.prod(shape[i] for i in axes)


def _fans(shape, in_axis, out_axis, batch_axis):
    """(inputs, outputs) of a unit; the axes in none of the three are the receptive field, which counts for both."""
    if len(shape) <= 1 and isinstance(in_axis, (int, np.integer)) and in_axis == -2:
        raise ValueError(
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor with default in_axis. "
            "Must be at least 2D or specify in_axis explicitly."
        )
    n_in, n_out, n_batch = (_size(shape, a) for a in (in_axis, out_axis, batch_axis))
    if 0 in (n_in, n_out, n_batch):
        raise ValueError(f"variance_scaling: weights of shape {tuple(shape)} have an input, output or batch axis of size 0")
    field = math.prod(shape) / n_in / n_out / n_batch
    return n_in * field, n_out * field


def _disk(key, shape, dtype, squared_radius):
    """Complex numbers of uniform angle whose squared radius is squared_radius(uniform on [0, 1))."""
    real = dtypes.to_real(dtype)
    key_r, key_angle = random.split(key)
    r = jnp.sqrt(squared_radius(random.uniform(key_r, shape, real)))
    angle = 2 * math.pi * random.uniform(key_angle, shape, real)
    return (r * jnp.exp(1j * angle)).astype(dtype)


def variance_scaling(scale, mode, distribution, in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
    """An initializer with mean 0 and variance scale / n, where n is by `mode` the number of inputs ("fan_in"), of outputs ("fan_out"),
    or their arithmetic ("fan_avg") or geometric ("fan_geo_avg") mean.

    distribution: "truncated_normal" (cut at two standard deviations), "normal" or "uniform" (an interval, or a disk for complex
    dtypes). Axes in none of in_axis, out_axis and batch_axis are a convolution's window.
    """

    def init(key, shape, dtype=dtype):
        shape, dtype = tuple(shape), _dtype(dtype)
        fan_in, fan_out = _fans(shape, in_axis, out_axis, batch_axis)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2, "fan_geo_avg": (fan_in * fan_out) ** 0.5}.get(mode)
        if n is None:
            raise ValueError(f"invalid mode for variance scaling initializer: {mode}")
        real = not dtypes.is_complex(dtype)
        variance = jnp.asarray(scale / n if n else 0.0, dtype)
        if distribution == "truncated_normal":
            # The standard deviation of a standard normal, real or complex, cut at 2.
            stddev = jnp.sqrt(variance) / jnp.asarray(0.87962566103423978 if real else 0.95311164380491208, dtype)
            if real:
                return random.truncated_normal(key, -2, 2, shape, dtype) * stddev
            return _disk(key, shape, dtype, lambda u: -jnp.log(1 - (1 - math.exp(-4)) * u)) * stddev
        if distribution == "normal":
            return random.normal(key, shape, dtype) * jnp.sqrt(variance)
        if distribution == "uniform":
            if real:
                return random.uniform(key, shape, dtype, -1) * jnp.sqrt(3 * variance)
            return _disk(key, shape, dtype, lambda u: 2 * u) * jnp.sqrt(variance)
        raise ValueError(f"invalid distribution for variance scaling initializer: {distribution}")

    return init


def _scaled(name, scale, mode, distribution, source):
    def make(in_axis=-2, out_axis=-1, batch_axis=(), dtype=None):
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f'variance_scaling({scale}, "{mode}", "{distribution}"): {source}.'
    return make


_GLOROT, _LECUN, _HE = "Glorot and Bengio, 2010", "LeCun et al., Efficient backprop, 1998", "He et al., https://arxiv.org/abs/1502.01852"
glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform", _GLOROT)
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal", _GLOROT)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", _LECUN)
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", _LECUN)
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", _HE)
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", _HE)


def orthogonal(scale=1.0, column_axis=-1, dtype=None):
    """An initializer with orthonormal columns along column_axis (or rows, if there are more columns), times scale."""

    def init(key, shape, dtype=dtype):
        shape, dtype = tuple(shape), _dtype(dtype)
        if len(shape) < 2:
            raise ValueError(f"orthogonal initializer requires at least a 2D shape, got {shape}")
        if 0 in shape:
            return jnp.zeros(shape, dtype)
        columns = shape[column_axis]
        q = random.orthogonal(key, math.prod(shape) // columns, (), dtype, columns)
        others = [n for i, n in enumerate(shape) if i != column_axis % len(shape)]
        return jnp.moveaxis(jnp.reshape(q, (*others, columns)), -1, column_axis) * jnp.asarray(scale, dtype)

    return init


def delta_orthogonal(scale=1.0, column_axis=-1, dtype=None):
    """An initializer of convolutions (*window, inputs, outputs): zeros, with an orthogonal matrix in the middle of the window.

    Xiao et al., https://arxiv.org/abs/1806.05393, section 2.4. The window has one to three axes, and inputs <= outputs.
    """

    def init(key, shape, dtype=dtype):
        shape, dtype = tuple(shape), _dtype(dtype)
        if len(shape) not in (3, 4, 5):
            raise ValueError(f"delta_orthogonal initializer requires a 3D, 4D or 5D shape, got {shape}")
        if shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal: `fan_in` must be less or equal than `fan_out`, got shape {shape}")
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return jnp.zeros(shape, dtype).at[middle].set(orthogonal(scale, column_axis, dtype)(key, shape[-2:]))

    return init
