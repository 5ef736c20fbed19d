"""Names that JAX programs use and that mean little on one CPU."""

import numpy as np

from fgrad import tree
from fgrad.core import Array, eval_trace, to_array, using_trace


def block_until_ready(x):
    """x: programs have run by the time their results exist."""
    return x


def device_get(x):
    """A pytree's arrays as NumPy arrays.

    >>> import fgrad, fgrad.numpy as jnp
    >>> type(fgrad.device_get({"a": jnp.ones(2)})["a"]).__name__
    'ndarray'
    """
    return tree.map(np.asarray, x)


def device_put(x, device=None):
    """A pytree's leaves as arrays.

    >>> import fgrad
    >>> fgrad.device_put({"a": [1.0, 2]})["a"][1]
    Array(2, dtype=int32...)
    """
    return tree.map(lambda v: v if isinstance(v, Array) else to_array(v), x)


def ensure_compile_time_eval():
    """A context in which operations on concrete values run at once, even while tracing."""
    return using_trace(eval_trace)
