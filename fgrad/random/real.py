"""Real distributions made of the basic ones."""

import math

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.eager import eager
from fgrad.numpy.util import as_array
from fgrad.ops.random import rounded, sample_log
from fgrad.ops.shape import canonical_shape
from fgrad.random.basic import exponential, float_dtype, normal, parameters, spread, uniform
from fgrad.random.discrete import rademacher
from fgrad.random.keys import one_key, split


@eager(1)
def _cauchy(key, shape, dtype):
    u = uniform(key, shape, dtype, float(jnp.finfo(dtype).eps), 1.0)
    return lax.tan(lax.mul(lax.like(u, math.pi), lax.sub(u, lax.like(u, 0.5))))


def cauchy(key, shape=(), dtype=None, *, out_sharding=None):
    """Standard Cauchy floats."""
    return _cauchy(one_key("cauchy", key), canonical_shape(shape), float_dtype("cauchy", dtype))


@eager(2)
def _pareto(key, b, shape, dtype):
    return lax.exp(exponential(key, shape, dtype) / spread("pareto", b, shape, dtype))


def pareto(key, b, shape=None, dtype=None, *, out_sharding=None):
    """Pareto floats of shape parameter b and minimum 1."""
    (b,), shape, dtype = parameters("pareto", dtype, shape, b)
    return _pareto(one_key("pareto", key), b, shape, dtype)


@eager(2)
def _lognormal(key, sigma, shape, dtype):
    return lax.exp(normal(key, shape, dtype) * spread("lognormal", sigma, shape, dtype))


def lognormal(key, sigma=1.0, shape=None, dtype=None, *, out_sharding=None):
    """exp of normal floats of standard deviation sigma."""
    (sigma,), shape, dtype = parameters("lognormal", dtype, shape, sigma)
    return _lognormal(one_key("lognormal", key), sigma, shape, dtype)


@eager(2)
def _rayleigh(key, scale, shape, dtype):
    u = uniform(key, shape, dtype)
    return lax.mul(spread("rayleigh", scale, shape, dtype), rounded(lax.sqrt(lax.mul(sample_log(u), lax.like(u, -2)))))


def rayleigh(key, scale, shape=None, dtype=None, *, out_sharding=None):
    """Rayleigh floats of the given scale."""
    (scale,), shape, dtype = parameters("rayleigh", dtype, shape, scale)
    return _rayleigh(one_key("rayleigh", key), scale, shape, dtype)


def weibull_min(key, scale, concentration, shape=(), dtype=None):
    """Weibull floats (of minima): scale * E ** (1 / concentration) for an exponential E."""
    e = exponential(key, shape, float_dtype("weibull_min", dtype))
    return jnp.power(e, 1.0 / concentration) * scale


@eager(1)
def _maxwell(key, shape, dtype):
    x = normal(key, (*shape, 3), dtype)
    return lax.sqrt(jnp.sum(x * x, -1))


def maxwell(key, shape=(), dtype=None, *, out_sharding=None):
    """Maxwell floats of scale 1: lengths of normal 3-vectors."""
    return _maxwell(one_key("maxwell", key), canonical_shape(shape), float_dtype("maxwell", dtype))


def double_sided_maxwell(key, loc, scale, shape=(), dtype=None):
    """Maxwell floats with a random sign, times scale, plus loc; of shape (*shape, *parameters), or that of the parameters."""
    dtype = float_dtype("double_sided_maxwell", dtype)
    params = jnp.broadcast_shapes(as_array("double_sided_maxwell", loc).shape, as_array("double_sided_maxwell", scale).shape)
    shape = (*(canonical_shape(shape) or params), *params)
    key_length, key_sign = split(one_key("double_sided_maxwell", key))
    return rademacher(key_sign, shape, dtype) * maxwell(key_length, shape, dtype) * scale + loc


@eager(2)
def _wald(key, mean, shape, dtype):
    mean = spread("wald", mean, shape, dtype)
    k1, k2 = split(key)
    y, z = jnp.square(normal(k1, shape, dtype)), uniform(k2, shape, dtype)
    square = jnp.square(mean)
    x = mean + square * y / 2 - mean / 2 * lax.sqrt(4 * mean * y + square * jnp.square(y))
    return lax.select(z <= mean / (mean + x), x, square / x)


def wald(key, mean, shape=None, dtype=None, *, out_sharding=None):
    """Inverse Gaussian floats of the given mean and shape parameter 1 (Michael, Schucany and Haas, 1976)."""
    (mean,), shape, dtype = parameters("wald", dtype, shape, mean)
    return _wald(one_key("wald", key), mean, shape, dtype)


@eager(4)
def _triangular(key, left, mode, right, shape, dtype):
    left, mode, right = (spread("triangular", v, shape, dtype) for v in (left, mode, right))
    u = uniform(key, shape, dtype)
    all_of, lower, upper = rounded(right - left), rounded(mode - left), rounded(right - mode)
    rising = left + rounded(lax.sqrt(rounded(rounded(u * all_of) * lower)))
    falling = right - rounded(lax.sqrt(rounded(rounded(rounded(1 - u) * all_of) * upper)))
    return lax.select(u < rounded(lower / all_of), rising, falling)


def triangular(key, left, mode, right, shape=None, dtype=None, *, out_sharding=None):
    """Floats whose density rises from left to mode and falls to right."""
    (left, mode, right), shape, dtype = parameters("triangular", dtype, shape, left, mode, right)
    return _triangular(one_key("triangular", key), left, mode, right, shape, dtype)


@eager(3)
def _multivariate_normal(key, mean, cov, shape, dtype, method):
    if method == "cholesky":
        factor = jnp.linalg.cholesky(cov)
    elif method == "eigh":
        w, v = jnp.linalg.eigh(cov)
        factor = v * jnp.sqrt(w[..., None, :])
    else:
        u, s, _ = jnp.linalg.svd(cov)
        factor = u * jnp.sqrt(s[..., None, :])
    return mean + jnp.einsum("...ij,...j->...i", factor, normal(key, (*shape, mean.shape[-1]), dtype))


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
    return _multivariate_normal(one_key("multivariate_normal", key), mean, cov, shape, dtype, method)


def orthogonal(key, n, shape=(), dtype=None, m=None, *, out_sharding=None):
    """Matrices (*shape, n, m) with orthonormal rows or columns, uniform among those: Q of a normal matrix, signs by R's diagonal."""
    m = n if m is None else m
    q, r = jnp.linalg.qr(normal(key, (*canonical_shape(shape), max(n, m), min(n, m)), dtype))
    x = q * jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return jnp.swapaxes(x, -1, -2) if n < m else x
