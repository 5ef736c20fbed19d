"""Discrete distributions."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.api import jit
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.numpy.util import as_array, axis_index, user_dtype
from fgrad.ops.elementwise import lgamma
from fgrad.ops.random import sample_log, sample_log1p, threefry_pick_p
from fgrad.ops.shape import canonical_shape
from fgrad.random.basic import check_broadcast, float_dtype, gumbel, gumbel_mode, int_dtype, spread, uniform
from fgrad.random.keys import one_key, split


def bernoulli(key, p=0.5, shape=None, mode="low", *, out_sharding=None):
    """Booleans, true with probability p. mode "high" resolves p to twice the bits of its dtype."""
    if mode not in ("low", "high"):
        raise ValueError(f"bernoulli: mode must be 'high' or 'low', got {mode!r}")
    if type(p) is float and mode == "low" and shape is not None:
        return _bernoulli_of(key, p, shape)
    p = as_array("bernoulli", p)
    if not dtypes.is_float(p.dtype):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {p.dtype.name}")
    shape = check_broadcast("bernoulli", shape, p)
    key = one_key("bernoulli", key)
    if mode == "low":
        return _bernoulli(key, p, shape)
    high, low = uniform(key, (2, *shape), p.dtype)
    return jnp.less(low * 2.0 ** -dtypes.finfo(p.dtype).nmant, p - high)


@eager(2, keyed="takes")
def _bernoulli_of(key, p, shape):
    return _bernoulli(one_key("bernoulli", key), p, canonical_shape(shape))


@eager(2)
def _bernoulli(key, p, shape):
    p = as_array("bernoulli", p)
    return jnp.less(uniform(key, shape, p.dtype), p)


def rademacher(key, shape=(), dtype=None, *, out_sharding=None):
    """-1 or 1 with equal probability."""
    dtype = dtypes.int_dtype() if dtype is None or dtype is int else user_dtype(dtype)
    return _rademacher(one_key("rademacher", key), canonical_shape(shape), dtype)


@eager(1)
def _rademacher(key, shape, dtype):
    sign = bernoulli(key, jnp.asarray(0.5), shape)
    return lax.convert_element_type(2 * lax.convert_element_type(sign, dtypes.int_dtype()) - 1, dtype)


def categorical(key, logits, axis=-1, shape=None, replace=True, mode=None, *, out_sharding=None):
    """Positions drawn with probabilities softmax(logits) along `axis`: the largest of logits plus Gumbel noise.

    Without replacement, the leading axes of `shape` (those before the batch shape) hold different positions.
    """
    logits, key = as_array("categorical", logits), one_key("categorical", key)
    axis = axis_index(axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else canonical_shape(shape)
    lead = shape[: len(shape) - len(batch)]
    if shape[len(lead) :] != batch:
        raise ValueError(f"categorical: shape {shape} does not end with the batch shape {batch}")
    mode = gumbel_mode("categorical", mode)
    if replace:
        if (
            axis == logits.ndim - 1
            and logits.dtype == dtypes.FLOAT32
            and mode == "low"
            and logits.shape[-1] >= PICKED
            and config.threefry_partitionable
        ):
            return _picked(key, logits, lead)
        noise = gumbel(key, (*lead, *logits.shape), logits.dtype, mode)
        return jnp.argmax(noise + logits, axis=len(lead) + axis)
    k = math.prod(lead)
    if k > logits.shape[axis]:
        raise ValueError(f"Number of samples without replacement ({k}) cannot exceed number of categories ({logits.shape[axis]}).")
    order = lax.top_k(jnp.moveaxis(logits + gumbel(key, logits.shape, logits.dtype, mode), axis, -1), k)[1]
    return jnp.reshape(jnp.moveaxis(order, -1, 0), shape)


PICKED = 40  # categories from which on most need no logarithms


@eager(2)
def _picked(key, logits, lead):
    batch, n = logits.shape[:-1], logits.shape[-1]
    picked = threefry_pick_p.bind(key, jnp.reshape(logits, (math.prod(batch), n)), draws=math.prod(lead))
    return lax.convert_element_type(jnp.reshape(picked, (*lead, *batch)), dtypes.int_dtype())


@eager(2)
def _geometric(key, p, shape, dtype):
    u = uniform(key, shape, p.dtype)
    u = lax.select(lax.eq(u, lax.like(u, 0)), lax.like(u, 1), u)
    return lax.convert_element_type(lax.floor(jnp.divide(sample_log(u), sample_log1p(-p))) + 1, dtype)


def geometric(key, p, shape=None, dtype=None, *, out_sharding=None):
    """Trials up to the first success, of probability p each: 1, 2, ..."""
    dtype = int_dtype("geometric", dtype)
    (p,) = jnp.promote_dtypes_inexact(p)
    shape = check_broadcast("geometric", shape, p)
    return _geometric(one_key("geometric", key), p, shape, dtype)


def poisson(key, lam, shape=None, dtype=None, *, out_sharding=None):
    """Poisson integers of rate lam (which broadcasts to `shape`): Knuth's products of uniforms below 10, rejection from 10 on.

    The rejection is Hoermann's PTRS (The transformed rejection method for generating Poisson random variables, 1993).
    """
    dtype = int_dtype("poisson", dtype)
    lam = as_array("poisson", lam)
    shape = check_broadcast("poisson", shape, lam)
    return _poisson(one_key("poisson", key), spread("poisson", lam, shape, np.float32), shape, dtype)


@jit(static_argnums=(2, 3))
def _poisson(key, lam, shape, dtype):
    small = (lam != lam) | (lam < 10)
    out = _either(
        small,
        lambda: _poisson_knuth(key, lax.select(small, lam, lax.like(lam, 0)), shape, dtype),
        lambda: _poisson_rejection(key, lax.select(small, lax.like(lam, 1e5), lam), shape, dtype),
    )
    return lax.select(lam == 0, lax.like(out, 0), out)


def _either(first, one, other):
    """one() where `first`, other() elsewhere; other(), the dearer, only where there is an elsewhere."""
    values = one()
    return lax.cond(jnp.all(first), lambda: values, lambda: lax.select(first, values, other()))


def _poisson_knuth(key, lam, shape, dtype):
    """One less than the uniforms whose product falls below exp(-lam)."""
    limit = int(np.iinfo(dtype).max)

    def body(carry):
        i, k, key, log_product = carry
        key, sub = split(key)
        k = lax.select(log_product > -lam, k + lax.like(k, 1), k)
        return i + 1, k, key, log_product + sample_log(uniform(sub, shape, np.float32))

    start = (0, lax.full(shape, 0, dtype), key, lax.full(shape, 0, np.float32))
    k = lax.while_loop(lambda c: jnp.any(c[3] > -lam) & (c[0] < limit), body, start)[1]
    return k - lax.like(k, 1)


def _poisson_rejection(key, lam, shape, dtype):
    log_lam = sample_log(lam)
    b = 0.931 + 2.53 * lax.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def propose(k0, k1):
        u, v = uniform(k0, shape, lam.dtype) - 0.5, uniform(k1, shape, lam.dtype)
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + lam + 0.43)
        s = sample_log(v * inv_alpha / (a / (us * us) + b))
        t = -lam + k * log_lam - lgamma(k + 1)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        return k, ((us >= 0.07) & (v <= v_r)) | (~reject & (s <= t))

    return lax.convert_element_type(_until_accepted(propose, key, shape, lam.dtype, int(np.iinfo(dtype).max)), dtype)


def _until_accepted(propose, key, shape, dtype, limit):
    """Proposals (value, accepted) drawn until each entry has accepted one; as in JAX a later acceptance replaces an earlier."""

    def body(carry):
        i, out, done, key = carry
        key, k0, k1 = split(key, 3)
        value, accept = propose(k0, k1)
        return i + 1, lax.select(accept, value, out), done | accept, key

    start = (0, lax.full(shape, -1, dtype), lax.full(shape, False, np.bool_), key)
    return lax.while_loop(lambda c: ~jnp.all(c[2]) & (c[0] < limit), body, start)[1]


# log k! less Stirling's approximation, for k = 0, ..., 9
_STIRLING = [math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)) for k in range(10)]


def _stirling_tail(k):
    small = lax.clamp(lax.like(k, 0), k, lax.like(k, 9))
    table = jnp.asarray(np.array(_STIRLING, k.dtype))[lax.convert_element_type(lax.floor(small), np.int32)]
    n = k + 1
    square = n * n
    return lax.select(k <= 9, table, (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / n)


def binomial(key, n, p, shape=None, dtype=None):
    """Successes in n trials of probability p, as floats (nan where n or p is none): Hoermann's BTRS where n p > 10, sums of
    geometric variables elsewhere (The generation of binomial random variates, 1993)."""
    dtype = float_dtype("binomial", dtype)
    (p,) = jnp.promote_dtypes_inexact(p)
    n = lax.convert_element_type(as_array("binomial", n), p.dtype)
    return _binomial(one_key("binomial", key), n, p, check_broadcast("binomial", shape, n, p), dtype)


@jit(static_argnums=(3, 4))
def _binomial(key, n, p, shape, dtype):
    n, p = jnp.broadcast_to(n, shape), jnp.broadcast_to(p, shape)
    low = p < 0.5
    q = lax.select(low, p, 1 - p)
    bad_n, bad_q = (n != n) | (n < 0), (q != q) | (q < 0)
    q_nan, infinite = q != q, jnp.isinf(n)
    q = lax.select(bad_q, lax.like(q, 0.01), lax.abs(q))  # geometric variables of probability -0 would fall, not grow
    n = lax.select(infinite, lax.like(n, 0), n)  # whose count is known
    invert = bad_n | (n * q <= 10)
    n = lax.floor(n)
    count = _either(
        invert,
        lambda: _binomial_inversion(key, lax.select(invert, n, lax.like(n, 0)), q, shape, dtype),
        lambda: _binomial_rejection(key, lax.select(invert, lax.like(n, 1e4), n), lax.select(invert, lax.like(q, 0.5), q), shape, dtype),
    )
    bad = bad_q | bad_n
    count = lax.select(bad, lax.like(count, np.nan), count)
    count = lax.select(infinite & ~bad, lax.like(count, np.inf), count)
    return lax.select(low | bad_n | q_nan | infinite, count, lax.convert_element_type(n, dtype) - count)


def _binomial_inversion(key, n, p, shape, dtype):
    """One less than the geometric variables whose sum exceeds n."""
    log_q = sample_log1p(-p)

    def body(carry):
        k, total, key = carry
        sub, key = split(key)
        k = lax.select(total <= n, k + 1, k)
        return k, total + lax.ceil(sample_log(uniform(sub, shape, p.dtype)) / log_q), key

    zero = lax.full(shape, 0, p.dtype)
    return lax.convert_element_type(lax.while_loop(lambda c: jnp.any(c[1] <= n), body, (zero, zero, key))[0] - 1, dtype)


def _binomial_rejection(key, n, p, shape, dtype):
    std = lax.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * std
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    v_r = 0.92 - 4.2 / b
    r = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * std
    m = lax.floor((n + 1) * p)

    def propose(k0, k1):
        u, v = uniform(k0, shape, p.dtype) - 0.5, uniform(k1, shape, p.dtype)
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + c)
        s = sample_log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * sample_log((m + 1) / (r * (n - m + 1)))
            + (n + 1) * sample_log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * sample_log(r * (n - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(n - m)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        reject = (k < 0) | (k > n)
        return k, ((us >= 0.07) & (v <= v_r)) | (~reject & (s <= bound))

    limit = int(np.iinfo(np.int32).max)
    return lax.convert_element_type(_until_accepted(propose, key, shape, p.dtype, limit), dtype)


def multinomial(key, n, p, *, shape=None, dtype=None, unroll=1):
    """Counts of n draws from the categories of probabilities p (along its last axis), one binomial after another; as floats by default."""
    n, p = jnp.promote_dtypes_inexact(n, p)
    dtype = jnp.result_type(float if dtype is None else dtype)
    shape = p.shape if shape is None else canonical_shape(shape)
    n, p = jnp.broadcast_to(n, shape[:-1]), jnp.moveaxis(jnp.broadcast_to(p, shape), -1, 0)
    rest = lax.cumsum(p, 0, reverse=True)
    ratios = p / jnp.where(rest == 0, 1, rest)

    def step(left, ratio_key):
        ratio, key = ratio_key
        count = binomial(key, left, jnp.clip(ratio, 0, 1), dtype=left.dtype)
        return left - count, count

    _, counts = lax.scan(step, n, (ratios, split(one_key("multinomial", key), ratios.shape[0])), unroll=unroll)
    return lax.convert_element_type(jnp.moveaxis(counts, 0, -1), dtype)
