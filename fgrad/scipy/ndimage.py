"""Images read between their pixels."""

import functools
import itertools
import operator

import fgrad.numpy as jnp
from fgrad import dtypes

__all__ = ["map_coordinates"]


def _mirror(i, n):
    """Reflected about the centres of the first and last pixel."""
    if n == 1:
        return jnp.zeros_like(i)
    period = 2 * (n - 1)
    i = jnp.mod(i, period)
    return jnp.minimum(i, period - i)


def _reflect(i, n):
    """Reflected about the edges of the first and last pixel."""
    i = jnp.mod(i, 2 * n)
    return jnp.minimum(i, 2 * n - 1 - i)


_MODES = {
    "constant": lambda i, n: i,
    "nearest": lambda i, n: jnp.clip(i, 0, n - 1),
    "wrap": lambda i, n: jnp.mod(i, n),
    "mirror": _mirror,
    "reflect": _reflect,
}


def map_coordinates(input, coordinates, order, mode="constant", cval=0.0):  # noqa: A002
    """`input` at fractional coordinates (one array per axis): order 0 takes the nearest pixel, order 1 interpolates linearly.

    mode says what lies outside: "constant" (cval), "nearest", "wrap", "mirror" or "reflect". Raises NotImplementedError for other
    orders and modes, ValueError unless there are coordinates for each axis.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.ndimage import map_coordinates
    >>> map_coordinates(jnp.array([0.0, 10.0, 20.0]), [jnp.array([0.5, 1.2])], order=1)
    Array([ 5., 12.], dtype=float32)
    """
    x, cval = jnp.asarray(input), jnp.asarray(cval, jnp.asarray(input).dtype)
    coordinates = [jnp.asarray(c) for c in coordinates]
    if len(coordinates) != x.ndim:
        raise ValueError(f"map_coordinates: coordinates must be a sequence of length input.ndim, but {len(coordinates)} != {x.ndim}")
    if mode not in _MODES:
        raise NotImplementedError(f"map_coordinates does not support mode={mode!r}; the modes are {', '.join(_MODES)}")
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates requires order<=1, got order={order}")
    choices = []
    for c, n in zip(coordinates, x.shape):
        pixels = [_nearest(c)] if order == 0 else _two(c)
        choices.append([(i, jnp.clip(_MODES[mode](i, n), 0, n - 1), weight) for i, weight in pixels])
    values = []
    for corner in itertools.product(*choices):
        value = x[tuple(at for _, at, _ in corner)]
        if mode == "constant":
            value = jnp.where(functools.reduce(operator.and_, (i == at for i, at, _ in corner)), value, cval)
        values.append(value if order == 0 else functools.reduce(operator.mul, (weight for _, _, weight in corner)) * value)
    out = functools.reduce(operator.add, values)
    if not dtypes.is_inexact(x.dtype):
        out = jnp.round(out) if order else out
    return jnp.asarray(out).astype(x.dtype)


def _nearest(c):
    return jnp.round(c).astype(dtypes.int_dtype()) if dtypes.is_inexact(c.dtype) else c, None


def _two(c):
    """The two pixels around a coordinate, with their weights."""
    below = jnp.floor(c)
    upper = c - below
    i = below.astype(dtypes.int_dtype())
    return [(i, 1 - upper), (i + 1, upper)]
