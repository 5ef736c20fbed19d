"""Positions and grids: index arrays of diagonals and triangles, open grids, linear positions, and NumPy's bracket constructors."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import arange, array, linspace, meshgrid, ones, remembered
from fgrad.numpy.manipulation import concatenate, expand_dims, shape, stack, transpose
from fgrad.numpy.selection import clip, nonzero
from fgrad.numpy.util import as_array, concrete, promoted, user_dtype
from fgrad.ops.casts import cast_as
from fgrad.ops.shape import reshape

__all__ = [
    "diag_indices", "diag_indices_from", "tril_indices", "triu_indices", "tril_indices_from", "triu_indices_from", "mask_indices",
    "ix_", "unravel_index", "ravel_multi_index", "mgrid", "ogrid", "r_", "c_", "s_", "index_exp",
]  # fmt: skip

s_, index_exp = np.s_, np.index_exp


@remembered
def diag_indices(n, ndim=2):
    """The positions of the main diagonal of an array with ndim axes of size n."""
    n, ndim = operator.index(n), operator.index(ndim)
    if n < 0 or ndim < 0:
        raise ValueError(f"diag_indices: n and ndim must be nonnegative, got {n} and {ndim}")
    return (arange(n),) * ndim


def diag_indices_from(arr):
    """diag_indices for an array, whose axes must all have one size."""
    s = shape(arr)
    if len(s) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(s)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(s[0], len(s))


@remembered
def tril_indices(n, k=0, m=None):
    """The positions at and below diagonal k of an (n, m) matrix."""
    return tuple(array(i) for i in np.tril_indices(operator.index(n), operator.index(k), m))


@remembered
def triu_indices(n, k=0, m=None):
    """The positions at and above diagonal k of an (n, m) matrix."""
    return tuple(array(i) for i in np.triu_indices(operator.index(n), operator.index(k), m))


def tril_indices_from(arr, k=0):
    """tril_indices for a matrix."""
    n, m = _matrix_shape(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr, k=0):
    """triu_indices for a matrix."""
    n, m = _matrix_shape(arr)
    return triu_indices(n, k, m)


def _matrix_shape(arr):
    s = shape(arr)
    if len(s) != 2:
        raise ValueError("Only 2-d inputs are accepted")
    return s


def mask_indices(n, mask_func, k=0, *, size=None):
    """The positions that mask_func(ones((n, n)), k) leaves nonzero."""
    return nonzero(mask_func(ones((operator.index(n),) * 2), k), size=size)


def ix_(*args):
    """1-D arrays as index arrays that together select a grid; boolean ones by their true positions."""
    out = []
    for i, a in enumerate(args):
        a = as_array("ix_", a, i)
        if a.ndim != 1:
            raise ValueError(f"Arguments to jax.numpy.ix_ must be 1-dimensional, got shape {a.shape}")
        if a.dtype == dtypes.BOOL:
            raise NotImplementedError("Boolean arguments to jax.numpy.ix_ are not implemented")
        if not a.size:
            a = a.astype(int)
        out.append(reshape(a, tuple(a.size if j == i else 1 for j in range(len(args)))))
    return tuple(out)


@remembered
def unravel_index(indices, shape):
    """Linear positions in an array of `shape` as one array of positions per axis; clamped into the array, negative ones from the end."""
    at = as_array("unravel_index", indices)
    if at.dtype == dtypes.BOOL:
        at = at.astype(dtypes.int_dtype())
    if not dtypes.is_integer(at.dtype):
        raise ValueError(f"unravel_index: indices must be integers, got {at.dtype.name}")
    dims = tuple(map(operator.index, shape)) if np.iterable(shape) else (operator.index(shape),)
    return _unravelled(at, dims)


@eager(1)
def _unravelled(at, dims):
    n, own, weak, limits = math.prod(dims), at.dtype, at.weak_type, dtypes.iinfo(at.dtype)
    wide = dtypes.INT32 if n < 2**31 else dtypes.int_dtype()  # sizes may be beyond a narrow dtype; int64 is divided slowly
    at = clip(at, max(-n, limits.min), min(n - 1, limits.max)).astype(wide)
    out = []
    for i in range(len(dims) - 1, -1, -1):
        at, r = U.divmod(at, max(dims[i], 1))
        out.append(cast_as(r, own, weak))
    return tuple(out[::-1])


@remembered
def ravel_multi_index(multi_index, dims, mode="raise", order="C", *, dtype=None):
    """Positions per axis as linear positions in an array of shape dims.

    mode: raise (needs concrete positions), wrap, clip, or ignore what is out of bounds. order: C or F. Raises ValueError where dtype
    (the default integer, or what the positions promote to) cannot hold the result.
    """
    dims = tuple(map(operator.index, dims))
    parts = [as_array("ravel_multi_index", i) for i in multi_index]
    if len(parts) != len(dims):
        raise ValueError(f"ravel_multi_index: {len(parts)} index arrays for {len(dims)} dimensions")
    if any(not dtypes.is_integer(i.dtype) for i in parts):
        raise TypeError("only int indices permitted")
    if dtype is None:
        dtype = dtypes.promote([(dtypes.int_dtype(), True), *[(i.dtype, i.weak_type) for i in parts]])[0]
    dtype = user_dtype(dtype)
    if math.prod(dims) - 1 > dtypes.iinfo(dtype).max:
        raise ValueError(f"ravel_multi_index: dtype {dtype.name} cannot hold positions in an array of shape {dims}; pass a wider dtype")
    if mode == "raise":
        for i, d in zip(parts, dims):
            value = concrete("ravel_multi_index", i, "Use mode='wrap' or mode='clip' under jit.")
            if ((value < 0) | (value >= d)).any():
                raise ValueError("invalid entry in coordinates array")
    elif mode == "clip":
        parts = [clip(i, 0, d - 1) for i, d in zip(parts, dims)]
    elif mode == "wrap":
        parts = [i % d for i, d in zip(parts, dims)]
    elif mode != "ignore":
        raise ValueError(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or 'ignore'.")
    if order not in ("C", "F"):
        raise ValueError(f"invalid order={order!r}. Expected 'C' or 'F'")
    pairs = list(zip(parts, dims))
    out = array(0, dtype)
    for i, d in pairs if order == "C" else reversed(pairs):
        out = out * d + i.astype(dtype)
    return out


# --- bracket constructors -----------------------------------------------------------------------------------------------


def _axis_of(name, s):
    """The 1-D array of a slice: start:stop:step, or start:stop:nj for n points."""
    start, stop, step = (v if v is None else concrete(f"{name} slice", as_array(name, v), "").item() for v in (s.start, s.stop, s.step))
    start, step = start or 0, step or 1
    return linspace(start, stop, int(abs(step))) if isinstance(step, complex) else arange(start, stop, step)


@remembered
def _grid(key, sparse):
    name = "ogrid" if sparse else "mgrid"
    if isinstance(key, slice):
        return _axis_of(name, key)
    axes = [_axis_of(name, k) for k in key]
    if not axes:
        return [] if sparse else arange(0)
    out = meshgrid(*promoted(name, axes), indexing="ij", sparse=sparse)
    return out if sparse else stack(out)


class _Grid:
    """mgrid (one stacked array) and ogrid (open arrays that broadcast)."""

    def __init__(self, name, sparse):
        self._name, self._sparse = name, sparse

    def __getitem__(self, key):
        return _grid(key, self._sparse)

    def __repr__(self):
        return f"<fgrad.numpy.{self._name}>"


mgrid, ogrid = _Grid("mgrid", False), _Grid("ogrid", True)


class _AxisConcat:
    """r_ and c_: arrays, scalars and slices joined along an axis; a leading string "axis,ndmin,trans1d" overrides the defaults."""

    def __init__(self, name, axis, ndmin, trans1d):
        self._name, self._defaults = name, (axis, ndmin, trans1d)

    def _directive(self, text):
        if text in ("r", "c"):
            return (*self._defaults, 0 if text == "r" else 1)
        try:
            given = tuple(int(v) for v in text.split(","))
        except ValueError:
            raise ValueError(f"could not understand directive {text!r}") from None
        return (*given[:3], *self._defaults[len(given) :], None)

    def __getitem__(self, key):
        items = key if isinstance(key, tuple) else (key,)
        settings = (*self._defaults, None)
        if isinstance(items[0], str):
            settings, items = self._directive(items[0]), items[1:]
        axis, ndmin, trans1d, matrix = settings
        parts = [self._part(item, ndmin, trans1d) for item in items]
        out = concatenate(parts, axis)
        return expand_dims(out, matrix) if matrix is not None and out.ndim == 1 else out

    def _part(self, item, ndmin, trans1d):
        if isinstance(item, str):
            raise ValueError("string directive must be placed at the beginning")
        x = _axis_of(self._name, item) if isinstance(item, slice) else array(item, copy=False)
        own = 0 if isinstance(item, slice) else x.ndim
        missing = ndmin - x.ndim
        x = reshape(x, (1,) * missing + x.shape) if missing > 0 else x
        if trans1d != -1 and ndmin > own:
            # The item's own axes start at trans1d instead of coming last.
            shift = ndmin - abs(ndmin + trans1d + 1) % ndmin
            order = list(range(ndmin))
            x = transpose(x, order[shift:] + order[:shift])
        return x

    def __len__(self):
        return 0

    def __repr__(self):
        return f"<fgrad.numpy.{self._name}>"


r_, c_ = _AxisConcat("r_", 0, 1, -1), _AxisConcat("c_", -1, 2, 0)
