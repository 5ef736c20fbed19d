"""The gamma distribution and those made from it.

Marsaglia and Tsang, A simple method for generating gamma variables (2000), with the boost of their section 6 below shape 1;
derivatives by implicit differentiation of the distribution function (Figurnov, Mohamed and Mnih, 2018).
"""

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.api import custom_jvp, jit, vmap
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.numpy.util import as_array
from fgrad.ops.random import random_gamma_p, sample_log
from fgrad.ops.shape import canonical_shape
from fgrad.ops.special import random_gamma_grad
from fgrad.random.basic import check_broadcast, exponential, float_dtype, normal, parameters, spread, uniform
from fgrad.random.discrete import rademacher
from fgrad.random.keys import one_key, split


def _proposals(key, d):
    """Marsaglia and Tsang's accepted v for a scalar d, as random_gamma_p draws it but in any dtype and with any counters."""
    dtype = d.dtype
    zero, one = lax.like(d, 0), lax.like(d, 1)
    c = lax.like(d, 1 / 3) / lax.sqrt(d)

    def cubed(carry):
        key, _, _ = carry
        key, sub = split(key)
        x = normal(sub, (), dtype)
        return key, x, one + x * c

    def propose(carry):
        key, x_key, u_key = split(carry[0], 3)
        _, x, v = lax.while_loop(lambda c: c[2] <= zero, cubed, (x_key, zero, -one))
        return key, x * x, v * v * v, uniform(u_key, (), dtype)

    def rejected(carry):
        _, x2, v, u = carry
        slow = sample_log(u) >= x2 * lax.like(u, 0.5) + d * (one - v + sample_log(v))
        return (u >= one - lax.like(u, 0.0331) * (x2 * x2)) & slow

    return lax.while_loop(rejected, propose, (key, zero, one, one + one))[2]


@jit(static_argnums=(2,))
def _gammas(key, alpha, log_space):
    """Gamma floats (or their logarithms) of shape parameters alpha."""
    shape, a = alpha.shape, jnp.reshape(alpha, (-1,))
    dtype, zero, one = a.dtype, lax.like(a, 0), lax.like(a, 1)
    boosted = a >= one
    d = lax.select(boosted, a, a + one) - lax.like(a, 1 / 3)
    keys = vmap(split)(split(key, a.size))
    fast = dtype.itemsize > 2 and config.threefry_partitionable
    v = (random_gamma_p.bind if fast else vmap(_proposals))(keys[:, 0], d)
    if log_space:
        e = -vmap(lambda k: exponential(k, (), dtype))(keys[:, 1])
        out = sample_log(d) + sample_log(v) + lax.select(boosted | (e == 0), zero, e * (one / a))
    else:
        u = 1 - vmap(lambda k: uniform(k, (), dtype))(keys[:, 1])
        out = d * v * lax.select(boosted, one, lax.pow(u, one / a))
    return jnp.reshape(out, shape)


def _make(log_space):
    """The sampler with its derivative with respect to alpha."""

    @custom_jvp
    def sample(key, alpha):
        return _gammas(key, alpha, log_space)

    @sample.defjvp
    def sample_jvp(primals, tangents):
        key, alpha = primals
        out = x = sample(key, alpha)
        if log_space:
            x = lax.exp(out)
            x = lax.select(x == 0, lax.like(x, dtypes.finfo(x.dtype).tiny), x)
        slope = random_gamma_grad(alpha, x)
        return out, tangents[1] * (slope / x if log_space else slope)

    return sample


_SAMPLERS = {log_space: _make(log_space) for log_space in (False, True)}


@eager(2)
def _draw(key, a, shape, dtype, log_space):
    return _SAMPLERS[log_space](key, spread("gamma", a, shape, dtype))


def gamma(key, a, shape=None, dtype=None, *, out_sharding=None):
    """Gamma floats of shape parameter a and scale 1, differentiable in a."""
    (a,), shape, dtype = parameters("gamma", dtype, shape, a)
    return _draw(one_key("gamma", key), a, shape, dtype, False)


def loggamma(key, a, shape=None, dtype=None, *, out_sharding=None):
    """Logarithms of gamma floats of shape parameter a; exact where the floats themselves would underflow."""
    (a,), shape, dtype = parameters("loggamma", dtype, shape, a)
    return _draw(one_key("loggamma", key), a, shape, dtype, True)


@eager(3)
def _beta(key, a, b, shape, dtype):
    key_a, key_b = split(key)
    log_a, log_b = loggamma(key_a, a, shape, dtype), loggamma(key_b, b, shape, dtype)
    top = lax.max(log_a, log_b)
    x, y = lax.exp(log_a - top), lax.exp(log_b - top)
    return x / (x + y)


def beta(key, a, b, shape=None, dtype=None, *, out_sharding=None):
    """Beta floats of parameters a and b."""
    (a, b), shape, dtype = parameters("beta", dtype, shape, a, b)
    return _beta(one_key("beta", key), a, b, shape, dtype)


@eager(2)
def _dirichlet(key, alpha, shape, dtype):
    logs = loggamma(key, alpha, (*shape, alpha.shape[-1]), dtype)
    x = lax.exp(logs - jnp.max(logs, -1, keepdims=True))
    return x / jnp.sum(x, -1, keepdims=True)


def dirichlet(key, alpha, shape=None, dtype=None, *, out_sharding=None):
    """Dirichlet vectors (*shape, n) of concentrations alpha (..., n)."""
    dtype, alpha = float_dtype("dirichlet", dtype), as_array("dirichlet", alpha)
    if alpha.ndim < 1:
        raise ValueError(f"dirichlet requires alpha.ndim >= 1, got alpha.ndim == {alpha.ndim}")
    shape = alpha.shape[:-1] if shape is None else canonical_shape(shape)
    check_broadcast("dirichlet", (*shape, alpha.shape[-1]), alpha)
    return _dirichlet(one_key("dirichlet", key), alpha, shape, dtype)


@eager(2)
def _chisquare(key, df, shape, dtype):
    return lax.exp(loggamma(key, lax.convert_element_type(as_array("chisquare", df), dtype) / 2, shape, dtype)) * 2


def chisquare(key, df, shape=None, dtype=None, *, out_sharding=None):
    """Chi-square floats of df degrees of freedom."""
    (df,), shape, dtype = parameters("chisquare", dtype, shape, df)
    return _chisquare(one_key("chisquare", key), df, shape, dtype)


def f(key, dfnum, dfden, shape=None, dtype=None, *, out_sharding=None):
    """F floats of dfnum and dfden degrees of freedom."""
    dtype = float_dtype("f", dtype)
    dfnum, dfden = as_array("f", dfnum), as_array("f", dfden)
    shape = check_broadcast("f", shape, dfnum, dfden)
    key_den, key_num = split(one_key("f", key))
    dfnum, dfden = spread("f", dfnum, shape, dtype), spread("f", dfden, shape, dtype)
    return (chisquare(key_num, dfnum, shape, dtype) / dfnum) / (chisquare(key_den, dfden, shape, dtype) / dfden)


@eager(2)
def _t(key, df, shape, dtype):
    key_n, key_g = split(key)
    half = lax.convert_element_type(as_array("t", df), dtype) / 2
    return normal(key_n, shape, dtype) * jnp.sqrt(half / gamma(key_g, half, shape, dtype))


def t(key, df, shape=None, dtype=None, *, out_sharding=None):
    """Student's t floats of df degrees of freedom."""
    (df,), shape, dtype = parameters("t", dtype, shape, df)
    return _t(one_key("t", key), df, shape, dtype)


def generalized_normal(key, p, shape=(), dtype=None, *, out_sharding=None):
    """Floats of density proportional to exp(-|x|^p)."""
    shape, dtype = canonical_shape(shape), float_dtype("generalized_normal", dtype)
    key_g, key_s = split(one_key("generalized_normal", key))
    return rademacher(key_s, shape, dtype) * gamma(key_g, 1 / p, shape, dtype) ** (1 / p)


def ball(key, d, p=2, shape=(), dtype=None, *, out_sharding=None):
    """Points uniform in the unit ball of the p-norm in d dimensions (Barthe, Guedon, Mendelson and Naor, 2005); NaN for p = 0."""
    shape, dtype = canonical_shape(shape), float_dtype("ball", dtype)
    if type(p) in (int, float) and p == 0:
        return jnp.full((*shape, d), np.nan, dtype)
    key_g, key_e = split(one_key("ball", key))
    g = generalized_normal(key_g, p, (*shape, d), dtype)
    norm = (jnp.sum(jnp.abs(g) ** p, -1) + exponential(key_e, shape, dtype)) ** (1 / p)
    return g / norm[..., None]
