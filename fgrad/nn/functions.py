"""softmax and its relatives, normalisation, one_hot and rotary embeddings."""

import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.errors import ShapeError
from fgrad.lax import stop_gradient
from fgrad.numpy.util import as_array, axis_tuple, binary, named_axes, unary, with_axes
from fgrad.ops import norm as norm_ops
from fgrad.ops import rope as rope_ops
from fgrad.ops import softmax as softmax_ops
from fgrad.ops.collective import axis_index
from fgrad.ops.elementwise import eq
from fgrad.ops.fused import wide_dtype
from fgrad.ops.shape import broadcasted_iota, reshape, transpose


def _real(name, x):
    x = unary(name, x, inexact=True)
    if not dtypes.is_float(x.dtype):
        raise TypeError(f"{name} takes real arrays, got {x.dtype.name}")
    return x


def _joined(x, axes):
    """(x with `axes` last and joined to one, a function that takes an array of that shape back)."""
    others = [i for i in range(x.ndim) if i not in axes]
    perm = (*others, *axes)
    moved = transpose(x, perm)
    inverse = tuple(np.argsort(perm).tolist())
    flat = reshape(moved, (*moved.shape[: len(others)], math.prod(moved.shape[len(others) :])))
    return flat, lambda y: transpose(reshape(y, moved.shape), inverse)


def _over_axes(fun, x, axis):
    """fun(x, axis) along one axis; along several as along the one they make together."""
    axes = axis_tuple(axis, x.ndim)
    if not axes:  # a scalar, over all its axes
        return jnp.reshape(fun(jnp.reshape(x, (*x.shape, 1)), x.ndim), x.shape)
    if len(axes) == 1:
        return fun(x, axes[0])
    flat, back = _joined(x, axes)
    return back(fun(flat, flat.ndim - 1))


@eager(1)
def softmax(x, axis=-1, where=None):
    """exp(x) / sum(exp(x)) over `axis`: an int, a tuple of ints, or None for all axes.

    x: array of any shape; the result has its shape, and its dtype (the default float for integers). where: boolean mask that
    broadcasts to x; masked elements take no part and are 0 in the result. Rows with +inf are NaN.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.softmax(jnp.array([0., 0.]))
    Array([0.5, 0.5], dtype=float32)
    """
    x = unary("softmax", x, inexact=True)
    if dtypes.is_complex(x.dtype):
        return jnp.exp(_complex_log_softmax(x, axis, where))
    if where is None:
        return _over_axes(softmax_ops.softmax, x, axis)
    out = _over_axes(softmax_ops.softmax, jnp.where(where, x, -np.inf), axis)
    return jnp.where(where, out, 0)


def _complex_log_softmax(x, axis, where):
    x = x if where is None else jnp.where(where, x, -np.inf)
    shifted = x - stop_gradient(jnp.max(x, axis=axis, keepdims=True))  # by the largest real part, then imaginary part
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=axis, keepdims=True))


@eager(1)
def log_softmax(x, axis=-1, where=None):
    """x - log(sum(exp(x))) over `axis`, as in softmax; masked elements are -inf in the result."""
    x = unary("log_softmax", x, inexact=True)
    if dtypes.is_complex(x.dtype):
        return _complex_log_softmax(x, axis, where)
    if where is None:
        return _over_axes(softmax_ops.log_softmax, x, axis)
    out = _over_axes(softmax_ops.log_softmax, jnp.where(where, x, -np.inf), axis)
    return jnp.where(where, out, -np.inf)


@eager(1)
def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False, where=None):
    """log(sum(b * exp(a))) over `axis` (all axes by default) without overflow.

    a, b: arrays that broadcast together; where: mask of the elements that take part. With return_sign the result is
    (log of the sum's absolute value, its sign); without it a negative sum gives NaN.
    """
    a = unary("logsumexp", a, inexact=True)
    if where is not None:
        a = jnp.where(where, a, -np.inf)
    axes, names = named_axes(axis, a.ndim)
    if b is None and not return_sign and not names and dtypes.is_float(a.dtype):
        if a.size == 0:  # the sum over nothing is 0
            return jnp.log(jnp.sum(a, axis=axes, keepdims=keepdims))
        flat = a if len(axes) == 1 else _joined(a, axes)[0]
        out = softmax_ops.logsumexp(flat, axes[0] if len(axes) == 1 else -1)
        return with_axes(out, axes, a.ndim) if keepdims else out
    if b is not None:
        a, b = jnp.broadcast_arrays(*binary("logsumexp", a, b, inexact=True))
        a = jnp.where(b != 0, a, -np.inf)
    # Dividing by exp(top) changes no derivative: top - top cancels.
    top = jnp.max(jnp.real(a), axis=axis, keepdims=True, initial=-np.inf)
    top = jnp.where(jnp.isfinite(top), top, 0)
    total = jnp.exp(a - top)
    total = jnp.sum(total if b is None else b * total, axis=axis, keepdims=True)
    sign = jnp.sign(total)
    complex_result = dtypes.is_complex(total.dtype) and not return_sign
    out = jnp.log(total if complex_result else jnp.abs(total)) + top
    if not return_sign and b is not None and not complex_result:
        out = jnp.where(sign < 0, np.nan, out)
    if not keepdims:
        out, sign = jnp.squeeze(out, axes), jnp.squeeze(sign, axes)
    return (out, sign) if return_sign else out


def logmeanexp(x, axis=None, where=None, keepdims=False):
    """log(mean(exp(x))) over `axis`: logsumexp less the log of the number of elements that take part."""
    lse = logsumexp(x, axis=axis, where=where, keepdims=keepdims)
    x = as_array("logmeanexp", x)
    if where is None:
        n = math.prod(x.shape[i] for i in axis_tuple(axis, x.ndim))
        return lse - (math.log(n) if n else -math.inf)
    count = jnp.sum(jnp.broadcast_to(where, x.shape), axis=axis, keepdims=keepdims, dtype=lse.dtype)
    return lse - jnp.log(count)


@eager(1)
def standardize(x, axis=-1, mean=None, variance=None, epsilon=1e-5, where=None, *, algorithm="fast"):
    """(x - mean) / sqrt(variance + epsilon), with mean and variance over `axis` unless they are given.

    algorithm: "fast" takes the variance as mean(x^2) - mean(x)^2, "stable" as mean((x - mean)^2).
    """
    x = unary("standardize", x, inexact=True)
    axes = axis_tuple(axis, x.ndim)
    if mean is None and variance is None and where is None and algorithm in ("fast", "stable") and len(axes) == 1:
        if axes[0] == x.ndim - 1 and dtypes.is_float(x.dtype) and isinstance(epsilon, (int, float)) and epsilon >= 0:
            return norm_ops.layer_norm(x, epsilon)
        if dtypes.is_float(x.dtype) and x.dtype.itemsize > 2 and x.size:
            mean, squares = (with_axes(s, axes, x.ndim) for s in norm_ops.moments(x, axes[0]))
            variance = squares * (1 / x.shape[axes[0]])
    if mean is None:
        mean = jnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = jnp.mean(jnp.square(x - mean), axis, keepdims=True, where=where)
        elif algorithm == "fast":
            variance = jnp.maximum(jnp.mean(jnp.square(x), axis, keepdims=True, where=where) - jnp.square(mean), 0)
        else:
            raise ValueError(f"Unknown algorithm '{algorithm}'. Expected 'fast' or 'stable'.")
    return (x - mean) * jnp.reciprocal(jnp.sqrt(variance + epsilon))


@eager(1)
def one_hot(x, num_classes, *, dtype=None, axis=-1):
    """Vectors of zeros with a one at each index of x; indices outside [0, num_classes) give zeros.

    x: integers of any shape. The class axis, of size num_classes, is inserted at `axis`, or is the vmapped axis of that name.
    dtype: the default float if None.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> fgrad.nn.one_hot(jnp.array([0, 2]), 3)
    Array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    num_classes = operator.index(num_classes)
    x = jnp.asarray(x)
    dtype = dtypes.float_dtype() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if not isinstance(axis, (int, np.integer)):
        return jnp.asarray(eq(x, jnp.asarray(axis_index(axis), x.dtype)), dtype)
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {x.ndim + 1}")
    axis = axis % (x.ndim + 1)
    x = jnp.expand_dims(x, axis)
    classes = broadcasted_iota(x.dtype, tuple(num_classes if i == axis else 1 for i in range(x.ndim)), axis)
    return (x == classes).astype(dtype)


def rms_norm(x, weight=None, eps=1e-6):
    """x / sqrt(mean(x^2) + eps) over the last axis, times `weight` (https://arxiv.org/abs/1910.07467).

    x: (..., D); weight: (D,) or None. One pass over memory forward, one backward.
    """
    x = norm_ops.rms_norm(_real("rms_norm", x), eps)
    return x if weight is None else x * weight


def layer_norm(x, scale=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) over the last axis, times `scale`, plus `bias` (https://arxiv.org/abs/1607.06450).

    x: (..., D); scale, bias: (D,) or None.
    """
    x = norm_ops.layer_norm(_real("layer_norm", x), eps)
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


def rope_angles(positions, dim, base=10000.0, dtype=None):
    """(cos, sin) of positions * base^(-2 i / dim) for i < dim / 2: the tables of rope, of shape (*positions.shape, dim // 2)."""
    dtype = dtypes.float_dtype() if dtype is None else dtypes.canonicalize_dtype(dtype)
    if dim % 2:
        raise ValueError(f"rope turns pairs: the number of turned components must be even, got {dim}")
    rates = np.asarray(float(base) ** (-np.arange(0, dim, 2) / dim), dtype)
    angles = jnp.asarray(positions).astype(dtype)[..., None] * rates
    return jnp.cos(angles), jnp.sin(angles)


def rope(x, positions, base=10000.0, *, interleaved=False, rotary_dim=None):
    """Rotary position embedding of queries or keys (https://arxiv.org/abs/2104.09864).

    x: (..., T, N, D), positions before heads as in dot_product_attention. positions: (T,) or (..., T) numbers, or a pair (cos, sin)
    of tables that broadcast to (..., T, N, n). The first rotary_dim components (all by default; 2 n with tables) are turned in pairs
    (x[i], x[i + rotary_dim / 2]), or (x[2i], x[2i + 1]) when interleaved.

    >>> import fgrad.nn, fgrad.numpy as jnp
    >>> turned = fgrad.nn.rope(jnp.ones((1, 3, 1, 2)), jnp.arange(3))[0, :, 0, 0]
    >>> jnp.allclose(turned, jnp.cos(jnp.arange(3)) - jnp.sin(jnp.arange(3)), atol=1e-6)
    Array(True, dtype=bool)
    """
    x = _real("rope", x)
    if isinstance(positions, (tuple, list)) and len(positions) == 2:
        cos, sin = (jnp.asarray(a) for a in positions)
        dtype = cos.dtype if cos.dtype in (x.dtype, wide_dtype(x.dtype)) else x.dtype
        return rope_ops.rope(x, cos.astype(dtype), sin.astype(dtype), interleaved)
    if x.ndim < 3:
        raise ShapeError(f"rope: x must be (..., positions, heads, features), got shape {x.shape}")
    positions = jnp.asarray(positions)
    if positions.ndim == 0 or positions.shape[-1] not in (1, x.shape[-3]):
        raise ShapeError(f"rope: positions of shape {positions.shape} do not match the {x.shape[-3]} positions of x {x.shape}")
    dim = x.shape[-1] if rotary_dim is None else operator.index(rotary_dim)
    cos, sin = rope_angles(positions, dim, base, wide_dtype(x.dtype))
    return rope_ops.rope(x, jnp.expand_dims(cos, -2), jnp.expand_dims(sin, -2), interleaved)
