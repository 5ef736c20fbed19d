"""What keys give: hashes of counters, JAX's partitionable ones or, with jax_threefry_partitionable off, its older ones.

The older way hashes the counters 0 .. n - 1 in pairs of the first half with the second, so that a draw depends on how much is drawn.
"""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.ops.random import threefry2x32, threefry_bits_p, threefry_split_p


def _paired(words, count):
    """`count` words of a key: the hashes of counters 0 .. count - 1 (and a 0 if `count` is odd), the first half with the second."""
    if count >= 2**32 - 1:
        raise ValueError(f"a draw of {count} words; with jax_threefry_partitionable off it is less than 2**32 - 1")
    half = (count + 1) // 2
    low, high = (lax.iota(np.uint32, half) + np.uint32(start) for start in (0, half))
    if count % 2:
        high = high.at[-1].set(np.uint32(0))
    return jnp.concatenate(threefry2x32(words[0], words[1], low, high))[:count]


@eager(1)
def split_words(words, shape):
    """The words of new keys, (*shape, 2)."""
    if config.threefry_partitionable:
        return threefry_split_p.bind(words, shape=shape)
    return jnp.reshape(_paired(words, 2 * math.prod(shape)), (*shape, 2))


@eager(1)
def random_bits(words, bit_width, shape):
    """Unsigned integers of 8, 16, 32 or 64 bits."""
    if config.threefry_partitionable:
        return threefry_bits_p.bind(words, bit_width=bit_width, shape=shape)
    size, dtype = math.prod(shape), np.dtype(f"uint{bit_width}")
    drawn = _paired(words, -(-bit_width * size // 32))
    if bit_width == 64:
        high, low = (lax.convert_element_type(part, dtype) for part in (drawn[:size], drawn[size:]))
        drawn = lax.bitwise_or(lax.shift_left(high, lax.like(high, 32)), low)
    elif bit_width < 32:  # each word's bits, the low ones first
        drawn = jnp.ravel(lax.bitcast_convert_type(drawn, dtype))[:size]
    return jnp.reshape(drawn, shape)
