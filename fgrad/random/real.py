"""Real distributions made of the basic ones."""

import math

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.numpy.util import as_array
from fgrad.ops.random import sample_log
from fgrad.ops.shape import canonical_shape
from fgrad.random.basic import check_broadcast, exponential, float_dtype, normal, spread, uniform
from fgrad.random.discrete import rademacher
from fgrad.random.keys import one_key, split


def _parameters(name, dtype, shape, *params):
    """(parameters as arrays of the result's shape and dtype, shape, dtype)."""
    dtype = float_dtype(name, dtype)
    params = [as_array(name, p) for p in params]
    shape = check_broadcast(name, shape, *params)
    return [spread(name, p, shape, dtype) for p in params], shape, dtype


def cauchy(key, shape=(), dtype=None, *, out_sharding=None):
    """Standard Cauchy floats."""
    dtype = float_dtype("cauchy", dtype)
    u = uniform(key, shape, dtype, float(jnp.finfo(dtype).eps), 1.0)
    return lax.tan(lax.mul(lax.like(u, math.pi), lax.sub(u, lax.like(u, 0.5))))


def pareto(key, b, shape=None, dtype=None, *, out_sharding=None):
    """Pareto floats of shape parameter b and minimum 1."""
    (b,), shape, dtype = _parameters("pareto", dtype, shape, b)
    return lax.exp(exponential(key, shape, dtype) / b)


def lognormal(key, sigma=1.0, shape=None, dtype=None, *, out_sharding=None):
    """exp of normal floats of standard deviation sigma."""
    (sigma,), shape, dtype = _parameters("lognormal", dtype, shape, sigma)
    return lax.exp(normal(key, shape, dtype) * sigma)


def rayleigh(key, scale, shape=None, dtype=None, *, out_sharding=None):
    """Rayleigh floats of the given scale."""
    (scale,), shape, dtype = _parameters("rayleigh", dtype, shape, scale)
    u = uniform(key, shape, dtype)
    return lax.mul(scale, lax.sqrt(lax.mul(sample_log(u), lax.like(u, -2))))


def weibull_min(key, scale, concentration, shape=(), dtype=None):
    """Weibull floats (of minima): scale * E ** (1 / concentration) for an exponential E."""
    e = exponential(key, shape, float_dtype("weibull_min", dtype))
    return jnp.power(e, 1.0 / concentration) * scale


def maxwell(key, shape=(), dtype=None, *, out_sharding=None):
    """Maxwell floats of scale 1: lengths of normal 3-vectors."""
    x = normal(key, (*canonical_shape(shape), 3), float_dtype("maxwell", dtype))
    return lax.sqrt(jnp.sum(x * x, -1))


def double_sided_maxwell(key, loc, scale, shape=(), dtype=None):
    """Maxwell floats with a random sign, times scale, plus loc; of shape (*shape, *parameters), or that of the parameters."""
    dtype = float_dtype("double_sided_maxwell", dtype)
    params = jnp.broadcast_shapes(as_array("double_sided_maxwell", loc).shape, as_array("double_sided_maxwell", scale).shape)
    shape = (*(canonical_shape(shape) or params), *params)
    key_length, key_sign = split(one_key("double_sided_maxwell", key))
    return rademacher(key_sign, shape, dtype) * maxwell(key_length, shape, dtype) * scale + loc


def wald(key, mean, shape=None, dtype=None, *, out_sharding=None):
    """Inverse Gaussian floats of the given mean and shape parameter 1 (Michael, Schucany and Haas, 1976)."""
    (mean,), shape, dtype = _parameters("wald", dtype, shape, mean)
    k1, k2 = split(one_key("wald", key))
    y, z = jnp.square(normal(k1, shape, dtype)), uniform(k2, shape, dtype)
    square = jnp.square(mean)
    x = mean + square * y / 2 - mean / 2 * lax.sqrt(4 * mean * y + square * jnp.square(y))
    return lax.select(z <= mean / (mean + x), x, square / x)


def triangular(key, left, mode, right, shape=None, dtype=None, *, out_sharding=None):
    """Floats whose density rises from left to mode and falls to right."""
    (left, mode, right), shape, dtype = _parameters("triangular", dtype, shape, left, mode, right)
    u = uniform(key, shape, dtype)
    rising = left + lax.sqrt(u * (right - left) * (mode - left))
    falling = right - lax.sqrt((1 - u) * (right - left) * (right - mode))
    return lax.select(u < (mode - left) / (right - left), rising, falling)


def multivariate_normal(key, mean, cov, shape=None, dtype=None, method="cholesky", *, out_sharding=None):
    """Normal vectors of the given mean (..., n) and covariance (..., n, n), whose factor `method` finds: cholesky, eigh or svd."""
    if method not in ("cholesky", "eigh", "svd"):
        raise ValueError("method must be one of {'svd', 'eigh', 'cholesky'}")
    mean, cov = jnp.promote_dtypes_inexact(mean, cov)
    dtype = mean.dtype if dtype is None else float_dtype("multivariate_normal", dtype)
    if mean.ndim < 1 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ValueError(f"multivariate_normal: mean (..., n) and cov (..., n, n) expected, got {mean.shape} and {cov.shape}")
    batch = jnp.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = batch if shape is None else canonical_shape(shape)
    if jnp.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"multivariate_normal: parameters of shape {batch} do not broadcast to the shape argument {shape}")
    if method == "cholesky":
        factor = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        w, v = jnp.linalg.eigh(cov)
        factor = v * jnp.sqrt(w[..., None, :])
    else:
        u, s, _ = jnp.linalg.svd(cov)
        factor = u * jnp.sqrt(s[..., None, :])
    return mean + jnp.einsum("...ij,...j->...i", factor, normal(key, (*shape, mean.shape[-1]), dtype))


def orthogonal(key, n, shape=(), dtype=None, m=None, *, out_sharding=None):
    """Matrices (*shape, n, m) with orthonormal rows or columns, uniform among those: Q of a normal matrix, signs by R's diagonal."""
    m = n if m is None else m
    q, r = jnp.linalg.qr(normal(key, (*canonical_shape(shape), max(n, m), min(n, m)), dtype))
    x = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return jnp.swapaxes(x, -1, -2) if n < m else x
