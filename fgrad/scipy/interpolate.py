"""Interpolation on regular grids."""

import itertools

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.tree_util import register_pytree_node

_METHODS = ("linear", "nearest")


class RegularGridInterpolator:
    """Interpolation of values on a rectangular grid; a pytree, so it passes through jit and grad.

    points: an increasing array of coordinates per axis of the grid; values: an array over it, with any further axes behind.
    fill_value: the result outside the grid, or None to extrapolate. Raises ValueError for another method than "linear" and "nearest" and
    for more points than axes, NotImplementedError for bounds_error=True.

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy.interpolate import RegularGridInterpolator
    >>> f = RegularGridInterpolator((jnp.array([0.0, 1.0, 3.0]),), jnp.array([0.0, 2.0, 4.0]))
    >>> f(jnp.array([[0.5], [2.0], [4.0]]))
    Array([ 1.,  3., nan], dtype=float32)
    """

    def __init__(self, points, values, method="linear", bounds_error=False, fill_value=np.nan):
        _check(method)
        if bounds_error:
            raise NotImplementedError("bounds_error=True is not supported: whether a point is outside is known when the program runs")
        (values,) = jnp.promote_dtypes_inexact(values)
        if len(points) > values.ndim:
            raise ValueError(f"there are {len(points)} point arrays, but values has {values.ndim} dimensions")
        if fill_value is not None:
            fill_value = jnp.asarray(fill_value)
            if dtypes.is_complex(fill_value.dtype) and not dtypes.is_complex(values.dtype):
                raise ValueError("fill_value must be either 'None' or of a type compatible with values")
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.grid, self.values = tuple(jnp.asarray(p) for p in points), values

    def __call__(self, xi, method=None):
        """The values at points xi (..., number of axes), or at a tuple of one array per axis, which broadcast."""
        method = self.method if method is None else method
        _check(method)
        n = len(self.grid)
        if isinstance(xi, tuple):
            xi = jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, xi)), -1)
        xi = jnp.asarray(xi)
        xi = xi.reshape(-1, n) if xi.ndim == 1 else xi
        if xi.shape[-1] != n:
            raise ValueError(f"the sample points have dimension {xi.shape[-1]}, but this RegularGridInterpolator has dimension {n}")
        flat = xi.reshape(-1, n)
        cells, parts, outside = [], [], jnp.zeros(flat.shape[0], bool)
        for axis, points in enumerate(self.grid):
            x = flat[:, axis]
            i = jnp.clip(jnp.searchsorted(points, x) - 1, 0, points.size - 2)
            cells.append(i)
            parts.append((x - points[i]) / (points[i + 1] - points[i]))
            outside = outside | (x < points[0]) | (x > points[-1])
        spread = lambda v: v.reshape(-1, *[1] * (self.values.ndim - n))
        if method == "nearest":
            out = self.values[tuple(jnp.where(t <= 0.5, i, i + 1) for i, t in zip(cells, parts))]
        else:
            out = 0
            for corner in itertools.product((0, 1), repeat=n):
                weight = 1
                for c, t in zip(corner, parts):
                    weight = weight * (t if c else 1 - t)
                out = out + self.values[tuple(i + c for c, i in zip(corner, cells))] * spread(weight)
        if self.fill_value is not None:
            out = jnp.where(spread(outside), self.fill_value.astype(out.dtype), out)
        return out.reshape(xi.shape[:-1] + self.values.shape[n:])


def _check(method):
    if method not in _METHODS:
        raise ValueError(f"method {method!r} is not defined")


def _unflatten(static, children):
    out = object.__new__(RegularGridInterpolator)
    out.grid, out.values, out.fill_value = children
    out.method, out.bounds_error = static
    return out


register_pytree_node(RegularGridInterpolator, lambda f: ((f.grid, f.values, f.fill_value), (f.method, f.bounds_error)), _unflatten)
__all__ = ["RegularGridInterpolator"]
