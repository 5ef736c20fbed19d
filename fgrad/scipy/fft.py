"""Discrete cosine transforms of type 2 and their inverses, by one Fourier transform of the same length along each axis.

J. Makhoul, A fast cosine transform in one and two dimensions, IEEE Trans. ASSP 28 (1980).
"""

import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.numpy.util import as_array, axis_index, axis_tuple

__all__ = ["dct", "dctn", "idct", "idctn"]


def _operand(name, x, type, norm):
    if type != 2:
        raise NotImplementedError(f"{name}: Only DCT type 2 is implemented, got {type}.")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{name}: norm={norm!r} is not implemented")
    (x,) = jnp.promote_dtypes_inexact(as_array(name, x))
    return x


def _resized(x, axis, n):
    """x cut or padded with zeros to n elements along axis."""
    if n is None or n == x.shape[axis]:
        return x
    return lax.pad(x, lax.like(x, 0), [(0, operator.index(n) - m if i == axis else 0, 0) for i, m in enumerate(x.shape)])


def _order(n):
    """The even positions, then the odd ones backwards."""
    return np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])


def _turns(x, sign):
    """exp(sign i pi k / 2n) along the last axis."""
    n = x.shape[-1]
    return jnp.asarray(np.exp(sign * 0.5j * np.pi * np.arange(n) / n), jnp.promote_types(x.dtype, jnp.complex64))


def _scales(x):
    """What "ortho" multiplies with: 1 / sqrt(4n) at 0, else 1 / sqrt(2n)."""
    n = x.shape[-1]
    return jnp.asarray(np.where(np.arange(n) == 0, 0.25 / n, 0.5 / n) ** 0.5, x.dtype)


def _of_parts(fun, x):
    """fun of the real and of the imaginary part."""
    return lax.complex(fun(jnp.real(x)), fun(jnp.imag(x))) if jnp.iscomplexobj(x) else fun(x)


def _dct(x, norm):
    out = 2 * jnp.real(jnp.fft.fft(x[..., _order(x.shape[-1])]) * _turns(x, -1))
    return out * _scales(out) if norm == "ortho" else out


def _idct(x, norm):
    n = x.shape[-1]
    x = x / _scales(x) if norm == "ortho" else x
    x = x * jnp.asarray(np.where(np.arange(n) == 0, 0.5, 1.0), x.dtype)
    v = jnp.real(jnp.fft.ifft(x * _turns(x, 1)))
    return v[..., np.argsort(_order(n))]


def _along(fun, x, axis, n, norm):
    axis = axis_index(axis, x.ndim)
    x = jnp.moveaxis(_resized(x, axis, n), axis, -1)
    if not x.size:
        raise ValueError(f"cosine transforms need at least one element along axis {axis}, got shape {x.shape}")
    return jnp.moveaxis(_of_parts(lambda v: fun(v, norm), x), -1, axis)


def _over(name, fun, x, s, axes, norm):
    sizes = None if s is None else [operator.index(n) for n in (s if np.iterable(s) else [s])]
    if sizes is not None and len(sizes) > x.ndim:
        raise ValueError(f"{name}: s must have at most x.ndim ({x.ndim}) elements, got {len(sizes)}")
    if axes is None:
        axes = range(x.ndim) if sizes is None else range(x.ndim - len(sizes), x.ndim)
    axes = axis_tuple(tuple(axes) if np.iterable(axes) else axes, x.ndim)
    for axis, n in zip(axes, sizes or [None] * len(axes), strict=True):
        x = _along(fun, x, axis, n, norm)
    return x


def dct(x, type=2, n=None, axis=-1, norm=None):
    """2 sum_j x[j] cos(pi k (2j + 1) / 2n) along `axis`, cut or padded with zeros to n elements; orthonormal with norm "ortho".

    >>> import fgrad.numpy as jnp
    >>> dct(jnp.array([1., 1.]))
    Array([4., 0.], dtype=float32)
    """
    return _along(_dct, _operand("dct", x, type, norm), axis, n, norm)


def idct(x, type=2, n=None, axis=-1, norm=None):
    """The inverse of dct."""
    return _along(_idct, _operand("idct", x, type, norm), axis, n, norm)


def dctn(x, type=2, s=None, axes=None, norm=None):
    """dct along several axes (all by default), each cut or padded with zeros to the sizes s."""
    return _over("dctn", _dct, _operand("dctn", x, type, norm), s, axes, norm)


def idctn(x, type=2, s=None, axes=None, norm=None):
    """The inverse of dctn."""
    return _over("idctn", _idct, _operand("idctn", x, type, norm), s, axes, norm)
