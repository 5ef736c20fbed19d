"""What the ops share: arrays in, ggml's axis numbers, its broadcasting, and its byte strides."""

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.errors import ShapeError
from fgrad.ops import movement_nn
from fgrad.ops.shape import reshape


def array(name, x):
    """x as an array; a float where it was a Python number."""
    if isinstance(x, str) or x is None:
        raise TypeError(f"ggml.{name} takes arrays, got {x!r}")
    return jnp.asarray(x)


def floats(name, *xs):
    """The arguments as real float arrays of one dtype (integers become the default float)."""
    xs = [array(name, x) for x in xs]
    if any(dtypes.is_complex(x.dtype) for x in xs):
        raise TypeError(f"ggml.{name} takes real arrays, got {', '.join(x.dtype.name for x in xs)}")
    dtype = jnp.result_type(*xs, dtypes.float_dtype()) if not all(dtypes.is_float(x.dtype) for x in xs) else jnp.result_type(*xs)
    xs = [x if x.dtype == dtype else x.astype(dtype) for x in xs]
    return xs[0] if len(xs) == 1 else xs


def need(condition, name, text):
    """Raise ShapeError(text) unless the condition holds."""
    if not condition:
        raise ShapeError(f"ggml.{name}: {text}")


def need_rank(name, what, x, *ranks):
    need(x.ndim in ranks, name, f"{what} must have {' or '.join(map(str, ranks))} axes, got shape {x.shape}")


def axis(name, dim, ndim):
    """The row-major axis of ggml's dimension `dim` (0 is the last axis)."""
    need(0 <= dim < ndim, name, f"dimension {dim} does not exist in an array of {ndim} axes")
    return ndim - 1 - dim


def from_ne(*ne):
    """The row-major shape of ggml's sizes ne0, ne1, ..."""
    return tuple(int(n) for n in reversed(ne))


def fit(name, b, shape):
    """b repeated to `shape`, as ggml repeats a smaller operand: every axis of shape is a multiple of b's."""
    while b.ndim > len(shape) and b.shape[0] == 1:
        b = reshape(b, b.shape[1:])
    need(
        b.ndim <= len(shape) and all(m and n % m == 0 or n == m for n, m in zip(shape[::-1], b.shape[::-1])),
        name,
        f"shape {b.shape} does not repeat to {tuple(shape)}: every axis must divide the one that it is repeated to",
    )
    b = reshape(b, (1,) * (len(shape) - b.ndim) + b.shape)
    if b.shape == tuple(shape):
        return b
    if all(m in (1, n) for n, m in zip(shape, b.shape)):
        return jnp.broadcast_to(b, shape)
    return movement_nn.repeat(b, [n // m if m else 1 for n, m in zip(shape, b.shape)])


def unfit(name, a, shape):
    """The transpose of fit: the sums of a's repetitions, of `shape`."""
    lead = a.ndim - len(shape)
    need(
        lead >= 0 and all(m and n % m == 0 for n, m in zip(a.shape[lead:], shape)),
        name,
        f"shape {a.shape} is not a repetition of {tuple(shape)}",
    )
    full = (1,) * lead + tuple(shape)
    return reshape(movement_nn.repeat_back(a, [n // m for n, m in zip(a.shape, full)]), tuple(shape))


def grouped(name, x, count, at):
    """x with its axis `at` repeated so that its size becomes `count`, each element count / size times in a row."""
    size = x.shape[at]
    need(size and count % size == 0, name, f"axis {at} of shape {x.shape} must divide {count}")
    return x if size == count else jnp.repeat(x, count // size, axis=at)


def elements(name, what, nbytes, dtype):
    """A number of bytes as a number of elements of dtype."""
    if nbytes % dtype.itemsize:
        raise ShapeError(f"ggml.{name}: {what} = {nbytes} bytes is not a multiple of the {dtype.itemsize} bytes of a {dtype.name}")
    return int(nbytes) // dtype.itemsize


def constant(x, like):
    """A NumPy array as an array of another's dtype."""
    return jnp.asarray(np.asarray(x), like.dtype)
