"""Resizing of images, in jax.image's signatures: weighted sums of a few neighbours along each axis, or products with weights."""

import enum
import functools
import math

import numpy as np

from fgrad import numpy as jnp
from fgrad.compile.eager import eager
from fgrad.core import ensure_compile_time_eval
from fgrad.errors import ShapeError
from fgrad.ops.band import band, of_matrix

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How the value between pixels is found."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s):
        """The method of a name: "nearest", "linear" ("bilinear", "trilinear", "triangle"), "lanczos3", "lanczos5",
        "cubic" ("bicubic", "tricubic"), "cubic-pytorch" ("bicubic-pytorch"), "area"."""
        for method, names in _NAMES.items():
            if s in names.split():
                return method
        raise ValueError(f"unknown resize method {s!r}: expected one of {', '.join(' '.join(_NAMES.values()).split())}")


_NAMES = {
    ResizeMethod.NEAREST: "nearest",
    ResizeMethod.LINEAR: "linear bilinear trilinear triangle",
    ResizeMethod.LANCZOS3: "lanczos3",
    ResizeMethod.LANCZOS5: "lanczos5",
    ResizeMethod.CUBIC: "cubic bicubic tricubic",
    ResizeMethod.CUBIC_PYTORCH: "cubic-pytorch bicubic-pytorch",
    ResizeMethod.AREA: "area",
}


# --- kernels: the weight of a pixel at distance x >= 0 --------------------------------------------------------------------


def _triangle(x):
    return jnp.maximum(0, 1 - x)


def _cubic(a):
    """Keys, Cubic convolution interpolation for digital image processing, 1981, with his parameter a."""

    def kernel(x):
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return jnp.where(x < 1, near, jnp.where(x < 2, far, 0))

    return kernel


def _lanczos(radius):
    """sinc(x) sinc(x / radius) inside the radius."""

    def kernel(x):
        y = radius * jnp.sin(np.pi * x) * jnp.sin(np.pi * x / radius)
        inside = jnp.where(x > 1e-3, y / jnp.where(x != 0, np.pi**2 * x**2, 1), 1)
        return jnp.where(x > radius, 0, inside)

    return kernel


_KERNELS = {
    ResizeMethod.LINEAR: _triangle,
    ResizeMethod.LANCZOS3: _lanczos(3.0),
    ResizeMethod.LANCZOS5: _lanczos(5.0),
    ResizeMethod.CUBIC: _cubic(-0.5),
    ResizeMethod.CUBIC_PYTORCH: _cubic(-0.75),
}
_RADIUS = {ResizeMethod.CUBIC_PYTORCH: 2}


def _weights(n, m, scale, translation, method, antialias, edges):
    """(n, m): the weight of each of n input pixels in each of m output pixels.

    Output pixel j is centred at (j + 0.5 - translation) / scale - 0.5. Weights of a column sum to one; it is zero where its centre lies
    outside the image, or, with `edges`, pixels beyond the edge count for the one at the edge.
    """
    step = 1.0 / scale
    centre = (jnp.arange(m, dtype=scale.dtype) + 0.5) * step - translation * step - 0.5
    k = _RADIUS[method] if edges else 0
    pixels = jnp.arange(-k, n + k, dtype=scale.dtype)
    if method is ResizeMethod.AREA:
        left = jnp.arange(m, dtype=scale.dtype) * step - translation * step
        weights = jnp.maximum(0, jnp.minimum(left + step, pixels[:, None] + 1) - jnp.maximum(left, pixels[:, None]))
    else:
        distance = jnp.abs(centre - pixels[:, None])
        weights = _KERNELS[method](distance / jnp.maximum(step, 1.0) if antialias else distance)
    if edges:
        inside = weights[k : n + k]
        weights = inside.at[0].add(weights[:k].sum(0)).at[-1].add(weights[n + k :].sum(0))
    total = weights.sum(0, keepdims=True)
    weights = jnp.where(jnp.abs(total) > 1000 * float(np.finfo(np.float32).eps), weights / jnp.where(total != 0, total, 1), 0)
    return weights if edges else jnp.where((centre >= -0.5) & (centre <= n - 0.5), weights, 0)


def _contract(x, weights, axis):
    return jnp.moveaxis(jnp.tensordot(x, weights.astype(x.dtype), ((axis,), (0,))), -1, axis)


_ROW = 4  # numbers side by side from which on the neighbours of an output pixel are added for all of them
_SHARE = 2  # if they are at most such a part of all;
_TAPS = 8  # of fewer numbers, neighbours up to which adding them is faster than a product with a matrix


@functools.lru_cache(256)
def _known_weights(n, m, method, antialias, edges, dtype):
    """Of an axis resized from n to m: the (n, m) weights, and how many neighbours a pixel has at most."""
    with ensure_compile_time_eval():
        scale = jnp.asarray(m / n, dtype)
        weights = np.asarray(_weights(n, m, scale, jnp.zeros_like(scale), method, antialias, edges))
    used = weights != 0
    first = used.argmax(0)
    return weights, int((n - used[::-1].argmax(0) - first)[used.any(0)].max(initial=1))


@functools.lru_cache(256)
def _neighbours(n, m, method, antialias, edges, dtype):
    """((t, m) positions, (t, m) weights) of as many neighbours for each pixel."""
    weights, taps = _known_weights(n, m, method, antialias, edges, dtype)
    at = np.minimum((weights != 0).argmax(0), n - taps) + np.arange(taps)[:, None]
    return at.astype(np.int32), np.take_along_axis(weights, at, 0)


@functools.lru_cache(256)
def _band(*resized):
    return of_matrix(_known_weights(*resized)[0].T)


def _along(axis, start, stop):
    return (slice(None),) * axis + (slice(start, stop),)


def _interleaved(x, factor, axis):
    """x with `factor` linearly interpolated values for each: the values at one place between two neighbours are one sum of shifted x."""
    n = x.shape[axis]
    wide = jnp.concatenate([x[_along(axis, 0, 1)], x, x[_along(axis, n - 1, n)]], axis)
    places = []
    for i in range(factor):
        left, part = divmod((i + 0.5) / factor + 0.5, 1)
        left = int(left)
        near, far = wide[_along(axis, left, left + n)], wide[_along(axis, left + 1, left + 1 + n)]
        places.append(near * (1 - part) + far * part if part else near)
    return jnp.stack(places, axis + 1).reshape(*x.shape[:axis], n * factor, *x.shape[axis + 1 :])


def _resize_axis(x, m, axis, method, antialias, edges):
    n, row = x.shape[axis], math.prod(x.shape[axis + 1 :])
    resized = (n, m, method, antialias, edges, jnp.asarray(0.0).dtype)
    weights, taps = _known_weights(*resized)
    few = _SHARE * taps <= n if row >= _ROW else row > 1 and taps <= _TAPS and 4 * taps <= n
    if few and jnp.issubdtype(x.dtype, jnp.floating):
        return band(x, axis, *_band(*resized))
    if row == 1 and n > 64 and method is ResizeMethod.LINEAR and m in range(2 * n, 9 * n, n):
        return _interleaved(x, m // n, axis)
    if taps > _TAPS or 4 * taps > n or (row == 1 and n <= 64 * taps):  # single numbers are fetched slower than multiplied
        return _contract(x, jnp.asarray(weights), axis)
    at, weights = _neighbours(*resized)
    across = [1] * x.ndim
    across[axis] = m
    terms = [jnp.take(x, i, axis, mode="clip") * jnp.asarray(w.reshape(across), x.dtype) for i, w in zip(at, weights)]
    return functools.reduce(jnp.add, terms)


def _method(method, antialias):
    """(method, whether pixels beyond the edge count): PyTorch's cubic kernel is its own only without antialiasing."""
    method = ResizeMethod.from_string(method) if isinstance(method, str) else ResizeMethod(method)
    if method is ResizeMethod.CUBIC_PYTORCH:
        return (ResizeMethod.CUBIC, False) if antialias else (method, True)
    return method, False


def _inexact(x):
    x = jnp.asarray(x)
    return x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32)


def scale_and_translate(image, shape, spatial_dims, scale, translation, method, antialias=True, precision=None):
    """image resampled to `shape`, pixel x of axis spatial_dims[i] going to x * scale[i] + translation[i].

    scale, translation: arrays of shape (len(spatial_dims),), which may be traced and differentiated. Pixels are centred at halves;
    what comes from outside the image is zero. antialias widens the kernel where the image shrinks. Not for NEAREST.
    Raises ValueError for "nearest", ShapeError where shapes do not fit.
    """
    method, edges = _method(method, antialias)
    if method is ResizeMethod.NEAREST:
        raise ValueError("scale_and_translate: the nearest pixel is not a weighting; use resize")
    x = _inexact(image)
    shape = _full_shape("scale_and_translate", x, shape)
    axes = [_axis(d, x.ndim) for d in spatial_dims]
    if any(shape[i] != n for i, n in enumerate(x.shape) if i not in axes):
        raise ShapeError(f"scale_and_translate: {shape} differs from image's shape {x.shape} outside spatial_dims {tuple(spatial_dims)}")
    scale, translation = _inexact(scale), _inexact(translation)
    if scale.shape != (len(axes),) or translation.shape != (len(axes),):
        raise ShapeError(
            f"scale_and_translate: scale and translation must have shape ({len(axes)},), got {scale.shape} and {translation.shape}"
        )
    for axis, factor, shift in zip(axes, scale, translation):
        x = _contract(x, _weights(x.shape[axis], shape[axis], factor, shift, method, antialias, edges), axis)
    return x


def _axis(d, n):
    if not -n <= d < n:
        raise ValueError(f"axis {d} is out of bounds for an image of {n} dimensions")
    return d % n


def _full_shape(what, x, shape):
    shape = tuple(map(int, shape))
    if len(shape) != x.ndim:
        raise ShapeError(f"{what}: shape {shape} must have an entry for each axis of the image, shape {x.shape}")
    return shape


def _nearest(x, m, axis):
    """x at the m places nearest to evenly spaced ones: repeated or strided where every place is as far from the one before."""
    n = x.shape[axis]
    places = np.floor((np.arange(m, dtype=np.float32) + 0.5) * np.float32(n) / np.float32(m)).astype(np.int32)
    if 0 < n <= m and m % n == 0 and np.array_equal(places, np.arange(m) // (m // n)):
        return jnp.repeat(x, m // n, axis)
    if 0 < m < n and n % m == 0 and np.array_equal(places, np.arange(places[0], n, n // m)):
        return x[(slice(None),) * axis + (slice(int(places[0]), None, n // m),)]
    return jnp.take(x, places, axis, mode="clip")


@eager(1)
def resize(image, shape, method, antialias=True, precision=None):
    """image resampled to `shape`: along each axis whose size changes, pixels are placed evenly over the same extent.

    method: a ResizeMethod or its name. antialias: where the image shrinks its kernel widens (a low-pass filter); not for "nearest".
    Integer images become float32, except with "nearest". A NaN reaches the pixels that are made of it, and
    where an axis is resized by a product with weights, as all are in JAX, all of its row or column.

    >>> resize(jnp.array([0.0, 1.0]), (4,), "linear")
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    method, edges = _method(method, antialias)
    x = jnp.asarray(image)
    shape = _full_shape("resize", x, shape)
    axes = [i for i, (n, m) in enumerate(zip(x.shape, shape)) if n != m]
    if method is ResizeMethod.NEAREST:
        grow = [i for i in reversed(axes) if shape[i] > x.shape[i]]
        for axis in [*(i for i in axes if i not in grow), *grow]:  # what shrinks first; items of rows where there are fewest rows
            x = _nearest(x, shape[axis], axis)
        return x
    x = _inexact(x)
    if 0 in x.shape or 0 in shape:
        return jnp.zeros(shape, x.dtype)
    for axis in sorted(axes, key=lambda i: shape[i] / x.shape[i]):  # what shrinks first
        x = _resize_axis(x, shape[axis], axis, method, antialias, edges)
    return x
