"""Differences, integrals, interpolation, convolution and windows of sampled functions."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import arange, full, remembered
from fgrad.numpy.manipulation import concatenate, moveaxis, ravel
from fgrad.numpy.reductions import cumsum
from fgrad.numpy.reductions import sum as _sum
from fgrad.numpy.selection import clip, where
from fgrad.numpy.sorting import searchsorted
from fgrad.numpy.util import as_array, axis_index, axis_tuple, promoted, spread, unary
from fgrad.ops import elementwise as E
from fgrad.ops import sort as sort_ops
from fgrad.ops.conv import correlation
from fgrad.ops.shape import reshape, slice_in_dim

__all__ = [
    "diff", "ediff1d", "gradient", "trapezoid", "interp", "unwrap", "convolve", "correlate",
    "bartlett", "blackman", "hamming", "hanning", "kaiser", "i0", "sinc", "vander",
]  # fmt: skip


def _arrays(name, args, inexact=False):
    return [as_array(name, x) for x in promoted(name, [as_array(name, x, i) for i, x in enumerate(args)], inexact=inexact)]


def _cut(x, lo, hi, axis):
    """x[lo:hi] along an axis; negative bounds count from the end."""
    n = x.shape[axis]
    lo, hi, _ = slice(lo, hi).indices(n)
    return slice_in_dim(x, lo, max(lo, hi), axis=axis)


@eager(1)
def diff(a, n=1, axis=-1, prepend=None, append=None):
    """The n-th difference along an axis; of booleans, where neighbours differ. prepend, append: arrays or scalars put at the ends first."""
    x = as_array("diff", a)
    n = operator.index(n)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    if x.ndim == 0:
        raise ValueError(f"diff requires input that is at least one dimensional; got {x.aval}")
    if n == 0:
        return x
    axis = axis_index(axis, x.ndim)
    parts = [x]
    for extra, at in ((prepend, 0), (append, len)):
        if extra is not None:
            extra = as_array("diff", extra)
            extra = extra if extra.ndim else spread(extra, tuple(1 if i == axis else d for i, d in enumerate(x.shape)))
            parts.insert(0 if at == 0 else len(parts), extra)
    x = concatenate(parts, axis) if len(parts) > 1 else x
    for _ in range(n):
        hi, lo = _cut(x, 1, None, axis), _cut(x, 0, -1, axis)
        x = E.ne(hi, lo) if x.dtype == dtypes.BOOL else E.sub(hi, lo)
    return x


@eager(1)
def ediff1d(ary, to_end=None, to_begin=None):
    """Differences of neighbours in the flattened array, with values put in front and behind."""
    x = ravel(as_array("ediff1d", ary))
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, ravel(as_array("ediff1d", to_begin)))
    if to_end is not None:
        parts.append(ravel(as_array("ediff1d", to_end)))
    return concatenate(parts) if len(parts) == 1 else concatenate([p.astype(x.dtype) for p in parts])


def gradient(f, *varargs, axis=None, edge_order=None):
    """Numerical derivative of samples along each of `axis` (all by default): second order inside, first order at the ends.

    varargs: the spacing (a number) or coordinates (a 1-D array) for all axes, or one of them per axis. Returns an array, or a list of
    one array per axis. Raises ValueError for an axis shorter than 2.
    """
    if edge_order is not None:
        raise NotImplementedError("The 'edge_order' argument to jnp.gradient is not supported.")
    x, *steps = _arrays("gradient", (f, *varargs), inexact=True)
    axes = axis_tuple(axis, x.ndim)
    if not axes:
        return []
    if min(x.shape[i] for i in axes) < 2:
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least 2 elements are required.")
    if len(steps) not in (0, 1, len(axes)):
        raise TypeError(f"Invalid number of spacing arguments {len(steps)} for axis={axis!r}")
    steps = (steps or [E.cast_as(E.like(x, 1), x.dtype, x.aval.weak_type)]) * (len(axes) if len(steps) < 2 else 1)
    out = [_gradient_along(x, h, i) for i, h in zip(axes, steps)]
    return out[0] if len(out) == 1 else out


@eager(2)
def _gradient_along(x, h, axis):
    if h.ndim > 1:
        raise ValueError("Spacing arrays must be 1D arrays or scalars.")
    if h.ndim == 0:
        first, last = (_cut(x, 1, 2, axis) - _cut(x, 0, 1, axis)) / h, (_cut(x, -1, None, axis) - _cut(x, -2, -1, axis)) / h
        inner = (_cut(x, 2, None, axis) - _cut(x, 0, -2, axis)) * 0.5 / h
    else:
        if h.size != x.shape[axis]:
            raise ValueError("Spacing arrays must have the same length as the dimension along which the gradient is calculated.")
        width = reshape(h[1:] - h[:-1], tuple(h.size - 1 if i == axis else 1 for i in range(x.ndim)))
        step = (_cut(x, 1, None, axis) - _cut(x, 0, -1, axis)) / width
        first, last = _cut(step, 0, 1, axis), _cut(step, -1, None, axis)
        left, right = _cut(width, 0, -1, axis), _cut(width, 1, None, axis)
        # The parabola through three points: slopes weighted by the distance to the other neighbour.
        inner = (_cut(step, 0, -1, axis) * right + _cut(step, 1, None, axis) * left) / (left + right)
    return concatenate([first, inner, last], axis)


@eager(1)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integral along an axis by the trapezoidal rule, with samples at x (a 1-D array or of y's shape) or dx apart."""
    if x is None:
        (y,) = _arrays("trapezoid", (y,), inexact=True)
        y = moveaxis(y, axis, -1)
        step = as_array("trapezoid", dx)
    else:
        y, x = _arrays("trapezoid", (y, x), inexact=True)
        step = diff(x) if x.ndim == 1 else moveaxis(diff(x, axis=axis), axis, -1)
        y = moveaxis(y, axis, -1)
    return _sum((y[..., 1:] + y[..., :-1]) * step, -1) * 0.5


def _end(name, value, default):
    if isinstance(value, str):
        if value != "extrapolate":
            raise ValueError(f"the only valid string value of `{name}` is 'extrapolate', but got: {value!r}")
        return None
    return default if value is None else value


@eager(3)
def interp(x, xp, fp, left=None, right=None, period=None):
    """Linear interpolation at x of the function with values fp at the increasing points xp (1-D arrays of one size).

    left, right: values outside (by default fp's ends), or "extrapolate". period: of a periodic function, whose points need no order.

    >>> import fgrad.numpy as jnp
    >>> jnp.interp(2.5, jnp.array([1., 2., 3.]), jnp.array([3., 2., 0.]))
    Array(1., dtype=float32)
    """
    xp, fp = as_array("interp", xp, 1), as_array("interp", fp, 2)
    if xp.shape != fp.shape or xp.ndim != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    x, xp = _arrays("interp", (x, xp), inexact=True)
    (fp,) = _arrays("interp", (fp,), inexact=True)
    if x.dtype.kind == "c":
        raise ValueError("jnp.interp: complex x values not supported.")
    left, right = _end("left", left, fp[0]), _end("right", right, fp[-1])
    if period is not None:
        if np.ndim(period):
            raise ValueError(f"period must be a scalar; got {period}")
        period = U.absolute(as_array("interp", period))
        x, xp = x % period, xp % period
        xp, fp = sort_ops.sort((xp, fp), 0, num_keys=1)
        xp = concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = concatenate([fp[-1:], fp, fp[:1]])
    i = clip(searchsorted(xp, x, side="right"), 1, xp.size - 1)
    width = xp[i] - xp[i - 1]
    flat = U.absolute(width) <= np.spacing(np.finfo(xp.dtype).eps) if xp.dtype != dtypes.BFLOAT16 else width == 0
    out = where(flat, fp[i - 1], fp[i - 1] + (x - xp[i - 1]) / where(flat, 1, width) * (fp[i] - fp[i - 1]))
    if period is None:
        out = out if left is None else where(x < xp[0], left, out)
        out = out if right is None else where(x > xp[-1], right, out)
    return out


@eager(1)
def unwrap(p, discont=None, axis=-1, period=2 * math.pi):
    """p with multiples of the period added so that neighbours along an axis differ by at most half a period (or discont)."""
    x = unary("unwrap", p)
    integral = dtypes.is_integer(x.dtype) and isinstance(period, (int, np.integer))
    if not integral:
        x = unary("unwrap", x, inexact=True)
    if x.dtype.kind == "c":
        raise ValueError("jnp.unwrap does not support complex inputs.")
    if x.shape[axis_index(axis, x.ndim)] == 0:
        return x
    axis = axis_index(axis, x.ndim)
    half = period // 2 if integral else period / 2
    step = diff(x, axis=axis)
    near = U.remainder(step + half, period) - half
    if not integral or period % 2 == 0:
        near = where((near == -half) & (step > 0), half, near)
    jump = near - step
    jump = where(U.absolute(step) < (half if discont is None else discont), 0, jump)
    return concatenate([_cut(x, 0, 1, axis), _cut(x, 1, None, axis) + cumsum(jump, axis)], axis).astype(x.dtype)


# --- convolution --------------------------------------------------------------------------------------------------------


def _filtered(name, a, v, mode, reverse, precision, preferred_element_type):
    """Products of the windows of the longer array with the shorter one."""
    a, v = _arrays(name, (a, v), inexact=True)
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError(f"{name}() only support 1-dimensional inputs.")
    if not a.size or not v.size:
        raise ValueError(f"{name}: inputs cannot be empty, got shapes {a.shape} and {v.shape}.")
    if mode not in ("full", "same", "valid"):
        raise ValueError("mode must be one of ['full', 'same', 'valid']")
    v = v[::-1] if reverse else U.conj(v)
    swapped = a.size < v.size
    if swapped:  # a convolution is symmetric in its operands; a correlation is then read from its end
        a, v = (v[::-1], a[::-1]) if reverse else (v, a)
    k = v.size
    before, after = {"valid": (0, 0), "same": (k // 2, k - k // 2 - 1), "full": (k - 1, k - 1)}[mode]
    preferred = None if preferred_element_type is None else dtypes.canonicalize_dtype(preferred_element_type)
    out = correlation(a, v, ((before, after),), preferred)
    return out[::-1] if swapped and not reverse else out


@eager(2)
def convolve(a, v, mode="full", *, precision=None, preferred_element_type=None):
    """Discrete convolution of two 1-D arrays, as floats. mode: full, same (the longer one's size) or valid (full overlap only)."""
    return _filtered("convolve", a, v, mode, True, precision, preferred_element_type)


@eager(2)
def correlate(a, v, mode="valid", *, precision=None, preferred_element_type=None):
    """Cross-correlation of two 1-D arrays, c[k] = sum of a[n + k] conj(v[n]), as floats. mode: as in convolve."""
    return _filtered("correlate", a, v, mode, False, precision, preferred_element_type)


# --- windows and special functions --------------------------------------------------------------------------------------


def _points(M):
    """(0, 1, ..., M - 1 as floats, M), or None for a window of at most one point, which is 1."""
    M = int(M)
    return (None if M <= 1 else arange(M, dtype=dtypes.float_dtype())), M


def _window(fun, name, what):
    def window(M):
        n, M = _points(M)
        return full((max(M, 0),), 1.0, dtypes.float_dtype()) if n is None else fun(n, M)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {what} window of M points."
    return remembered(window)


bartlett = _window(lambda n, M: 1 - U.absolute(2 * n / (M - 1) - 1), "bartlett", "triangular")
hanning = _window(lambda n, M: 0.5 * (1 - U.cos(2 * math.pi * n / (M - 1))), "hanning", "raised cosine")
hamming = _window(lambda n, M: 0.54 - 0.46 * U.cos(2 * math.pi * n / (M - 1)), "hamming", "Hamming")
blackman = _window(
    lambda n, M: 0.42 - 0.5 * U.cos(2 * math.pi * n / (M - 1)) + 0.08 * U.cos(4 * math.pi * n / (M - 1)), "blackman", "Blackman"
)


@remembered
def kaiser(M, beta):
    """The Kaiser window of M points with shape parameter beta."""
    n, M = _points(M)
    if n is None:
        return full((max(M, 0),), 1.0, dtypes.float_dtype())
    half = 0.5 * (M - 1)
    return i0(beta * U.sqrt(1 - ((n - half) / half) ** 2)) / i0(beta)


def i0(x):
    """Modified Bessel function of the first kind and order 0."""
    x = unary("i0", x, inexact=True)
    if x.dtype.kind == "c":
        raise ValueError("i0 does not support complex numbers; take the real part first")
    dtype, weak = x.dtype, x.weak_type
    x = E.convert_element_type(x, np.float32) if dtype.itemsize == 2 else x
    size = x * E.sign(x)  # |x| whose derivative at 0 is 0
    return E.convert_element_type(E.exp(size) * E.bessel_i0e(x), dtype, weak)


@eager(1)
def sinc(x, /):
    """sin(pi x) / (pi x), 1 at 0, where its derivatives are those of its series."""
    x = unary("sinc", x, inexact=True)
    small = U.absolute(x) < 0.05
    z = x * math.pi
    safe = where(small, 1, z)
    square = where(small, z * z, 0)
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110))))
    return E.convert_element_type(where(small, series, U.sin(safe) / safe), x.dtype, x.aval.weak_type and not x.ndim)


@eager(1)
def vander(x, N=None, increasing=False):
    """The matrix of powers x**(N-1), ..., x**0 of a 1-D array (by default square), in ascending order if `increasing`."""
    x = as_array("vander", x)
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array")
    N = x.size if N is None else operator.index(N)
    if N < 0:
        raise ValueError("N must be nonnegative")
    columns = [reshape(E.integer_pow(x, k), (x.size, 1)) for k in (range(N) if increasing else range(N - 1, -1, -1))]
    return E.convert_element_type(concatenate(columns, 1), x.dtype) if columns else full((x.size, 0), 0, x.dtype)
