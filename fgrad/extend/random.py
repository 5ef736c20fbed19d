"""jax.extend.random: the one implementation of keys, threefry2x32."""

from fgrad import numpy as jnp
from fgrad.ops.random import threefry2x32 as _hash
from fgrad.random.keys import THREEFRY as threefry_prng_impl
from fgrad.random.keys import key

__all__ = ["define_prng_impl", "random_seed", "seed_with_impl", "threefry_2x32", "threefry_prng_impl"]


def random_seed(seeds, impl):
    """The typed key of a seed."""
    return key(seeds, impl=impl)


def seed_with_impl(impl, seed):
    """The typed key of a seed."""
    return key(seed, impl=impl)


def threefry_2x32(keypair, count):
    """The hashes of uint32 counters under a key of two words: the first half of the counters, in row-major order, with the second.

    >>> import fgrad.numpy as jnp
    >>> threefry_2x32(jnp.array([0, 3], jnp.uint32), jnp.arange(4, dtype=jnp.uint32))
    Array([1024511538,   47757680, 2603795180, 1437962712], dtype=uint32)
    """
    count = jnp.asarray(count)
    if keypair[0].dtype != count.dtype or count.dtype != jnp.uint32:
        raise TypeError(f"threefry_2x32 requires uint32 arguments, got {[keypair[0].dtype.name, count.dtype.name]}")
    flat = jnp.ravel(count)
    odd = flat.size % 2
    low, high = jnp.split(jnp.concatenate([flat, jnp.zeros(1, jnp.uint32)]) if odd else flat, 2)
    out = jnp.concatenate(_hash(keypair[0], keypair[1], low, high))
    return (out[:-1] if odd else out).reshape(count.shape)


def define_prng_impl(**rules):
    """Raises NotImplementedError: random numbers are threefry2x32's."""
    raise NotImplementedError(f"there is one implementation of keys, {threefry_prng_impl.name!r}")
