"""Permutations and draws from given elements."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import jit
from fgrad.compile.eager import eager
from fgrad.core import get_aval
from fgrad.numpy.util import as_array, axis_index, concrete
from fgrad.ops.random import sample_log
from fgrad.ops.shape import canonical_shape
from fgrad.random.basic import bits, gumbel, gumbel_mode, randint, uniform
from fgrad.random.keys import one_key, split


def _is_count(name, a):
    """True for a scalar, which stands for arange(a); it must be a known integer."""
    if get_aval(a).shape:
        return False
    if get_aval(a).dtype.kind not in "iu":
        raise TypeError(f"{name}: expected an integer or an array of at least one axis, got {get_aval(a)}")
    return True


_SHARED = 32_768  # elements from which on threads share a sort of one row


@jit(static_argnums=(2,))
def _shuffle(key, x, axis):
    """Sorting by random words, often enough that ties leave no trace.

    Where threads would not share a sort, they find the orders of the rounds side by side.
    """
    rounds, words = int(np.ceil(3 * np.log(max(1, x.size)) / np.log(np.iinfo(np.uint32).max))), []
    for _ in range(rounds):
        key, sub = split(key)
        words.append(bits(sub, x.shape, np.uint32))
    if rounds < 2 or x.ndim > 1 or x.size >= _SHARED:
        for w in words:
            x = lax.sort_key_val(w, x, axis)[1]
        return x
    orders = jnp.argsort(jnp.stack(words), axis=1)
    order = orders[0]
    for later in range(1, rounds):
        order = jnp.take(order, orders[later], mode="clip")
    return jnp.take(x, order, mode="clip")


@eager(1, keyed="takes")
def _permuted_count(key, n):
    return _shuffle(one_key("permutation", key), jnp.arange(n), 0)


def permutation(key, x, axis=0, independent=False, *, out_sharding=None):
    """A random permutation of arange(x), or of the slices of an array along `axis`; with `independent`, of each row by itself.

    >>> import fgrad
    >>> fgrad.random.permutation(fgrad.random.key(7), 8)
    Array([4, 2, 3, 5, 0, 7, 6, 1], dtype=int32)
    """
    if type(x) is int:
        return _permuted_count(key, x)
    key = one_key("permutation", key)
    if _is_count("permutation", x):
        return _shuffle(key, jnp.arange(int(concrete("permutation", x, "give x as a Python integer"))), 0)
    x = as_array("permutation", x)
    axis = axis_index(axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffle(key, x, axis)
    return jnp.take(x, _shuffle(key, jnp.arange(x.shape[axis]), 0), axis)


def choice(key, a, shape=(), replace=True, p=None, axis=0, mode=None):
    """Elements drawn from arange(a), or slices of an array along `axis`; p are their probabilities (uniform by default).

    Raises ValueError where more is asked for without replacement than there is.
    """
    key, shape = one_key("choice", key), canonical_shape(shape)
    count = type(a) is int or _is_count("choice", a)
    if type(a) is not int:
        a = int(concrete("choice", a, "give a as a Python integer")) if count else as_array("choice", a)
    axis = 0 if count else axis_index(axis, a.ndim)
    n, draws = a if count else a.shape[axis], math.prod(shape)
    out_shape = shape if count else (*a.shape[:axis], *shape, *a.shape[axis + 1 :])
    if not draws:
        return jnp.zeros(shape, None if count else a.dtype) if not count else jnp.zeros(shape, jnp.arange(0).dtype)
    if n <= 0:
        raise ValueError("choice: a must be greater than 0 unless no samples are taken")
    if not replace and draws > n:
        raise ValueError(f"Cannot take a larger sample (size {draws}) than population (size {n}) when 'replace=False'")
    if p is None and not replace:
        first = permutation(key, a, axis)
        return jnp.reshape(first[(slice(None),) * axis + (slice(draws),)], out_shape)
    rows = randint(key, shape, 0, n) if p is None else _weighted(key, n, shape, replace, p, mode)
    return jnp.reshape(rows if count else jnp.take(a, rows, axis), out_shape)


@eager(2)
def _draw(key, p, n, shape, replace, mode):
    if not replace:
        g = gumbel(key, (n,), p.dtype, mode) + sample_log(p)
        return lax.convert_element_type(lax.top_k(g, math.prod(shape))[1], jnp.arange(0).dtype)
    total = jnp.cumsum(p)
    r = total[-1] * (1 - uniform(key, shape, total.dtype))
    return lax.convert_element_type(jnp.searchsorted(total, r), jnp.arange(0).dtype)


def _weighted(key, n, shape, replace, p, mode):
    """Positions drawn with probabilities p: by the distribution function, or by Gumbel top-k without replacement."""
    (p,) = jnp.promote_dtypes_inexact(p)
    if p.shape != (n,):
        raise ValueError(f"choice: p must be a vector with one entry per element, ({n},); got shape {p.shape}")
    return _draw(key, p, n, shape, replace, gumbel_mode("choice", mode))
