"""Arrays with parts put in, replaced or left out. Arrays are immutable: each function returns a new one."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import Array, concrete_or_none, context, eval_trace
from fgrad.errors import InplaceError, ShapeError
from fgrad.numpy.creation import arange, array
from fgrad.numpy.indexing import take
from fgrad.numpy.manipulation import concatenate, moveaxis, ravel, tile
from fgrad.numpy.overlay import moves_overlays
from fgrad.numpy.selection import clip, flatnonzero, nonzero, static_size, where
from fgrad.numpy.sorting import argsort, sort
from fgrad.numpy.util import as_array, axis_index, axis_tuple, broadcast_shape, concrete, concrete_mask, promoted, spread
from fgrad.ops import elementwise as E
from fgrad.ops.cumulative import cumsum
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.rules import full
from fgrad.ops.shape import broadcast_in_dim, broadcasted_iota, iota, pad, reshape, slice_in_dim
from fgrad.ops.sort import searchsorted

__all__ = [
    "insert", "delete", "put", "place", "put_along_axis", "fill_diagonal", "resize", "extract", "compress", "choose", "trim_zeros",
    "repeat",
]  # fmt: skip


def _immutable(name, inplace):
    if inplace:
        raise InplaceError(f"jax.numpy.{name}: arrays are immutable, so inplace=True is not possible; pass inplace=False for a new array")


def _flat_or_axis(name, a, axis):
    x = as_array(name, a)
    return (ravel(x), 0) if axis is None else (x, axis_index(axis, x.ndim))


def delete(arr, obj, axis=None, *, assume_unique_indices=False):
    """arr without the slices at `obj` along `axis` (of the flattened array if None).

    obj: an int, a slice, a boolean mask or an integer array. Masks and integer arrays must be concrete, as the result's size depends on
    them; with assume_unique_indices an integer array may be traced.
    """
    x, axis = _flat_or_axis("delete", arr, axis)
    n = x.shape[axis]
    if isinstance(obj, slice):
        rows = np.delete(np.arange(n), obj)
    elif isinstance(obj, (int, np.integer)) and not isinstance(obj, bool):
        return _without(x, axis_index(obj, n), axis)
    else:
        at = as_array("delete", obj, 1)
        if assume_unique_indices and dtypes.is_integer(at.dtype):
            at = ravel(at)
            at = sort(clip(where(at < 0, at + n, at), 0, n))
            # The i-th kept slice lies behind as many deleted ones as have fewer than i + 1 kept ones before them.
            before = at - arange(at.size, dtype=at.dtype)
            kept = arange(max(n - at.size, 0), dtype=at.dtype)
            rows = kept + reduce_sum((before[:, None] <= kept[None, :]).astype(at.dtype), (0,))
        else:
            value = concrete("delete", at, "The result's size depends on it: pass assume_unique_indices=True for an integer array.")
            if value.dtype == bool and value.shape != (n,):
                raise ValueError("delete: a boolean obj must be one-dimensional with the size of the axis")
            if dtypes.kind_of(value.dtype) not in "biu":
                raise ValueError(f"delete: obj must be integer or bool, got {value.dtype}")
            rows = np.delete(np.arange(n), value)
    if isinstance(rows, np.ndarray) and rows.size and _is_staged(x):
        cuts = np.flatnonzero(np.diff(rows) != 1) + 1
        if len(cuts) < _MOST_PARTS:
            return _joined([slice_in_dim(x, int(r[0]), int(r[-1]) + 1, axis=axis) for r in np.split(rows, cuts)], axis)
    return x[(slice(None),) * axis + (array(rows),)]


@eager(2)
def _without(x, at, axis):
    """x without the slice at one position along `axis`: outside of a program that is traced a number, not one program for each position."""
    n = x.shape[axis]
    if isinstance(at, int) and _is_staged(x):
        return _joined([slice_in_dim(x, 0, at, axis=axis), slice_in_dim(x, at + 1, n, axis=axis)], axis)
    before, behind = slice_in_dim(x, 0, n - 1, axis=axis), slice_in_dim(x, 1, n, axis=axis)
    return where(broadcasted_iota(dtypes.INT32, before.shape, axis) < at, before, behind)


_MOST_PARTS = 32  # of an array that are joined; more are gathered


def _is_staged(x):
    """True in a program that is being traced: what is known there may be part of it."""
    return concrete_or_none(x) is None


def _joined(parts, axis):
    """Parts of an array side by side, each a copy of memory: to select among two of them by position takes three times as long."""
    return concatenate([p for p in parts if p.shape[axis]] or parts[:1], axis)


def _insert_known(x, at, v, axis):
    """x with v put in at positions that are known."""
    n, count = x.shape[axis], v.shape[axis]
    at = np.broadcast_to(np.clip(np.where(at < 0, at + n, at), 0, n), (count,))
    order = np.argsort(at, kind="stable")
    v = v if (order == np.arange(count)).all() else v[(slice(None),) * axis + (array(order),)]
    at, parts, behind = at[order], [], 0
    cuts = np.flatnonzero(np.diff(at)) + 1
    if len(cuts) >= _MOST_PARTS // 2:
        rows = np.argsort(np.concatenate([2 * at, 2 * np.arange(n) + 1]), kind="stable")
        return concatenate([v, x], axis)[(slice(None),) * axis + (array(rows),)]
    for first, last in zip([0, *cuts], [*cuts, count]):
        k = int(at[first])
        parts += [slice_in_dim(x, behind, k, axis=axis), slice_in_dim(v, int(first), int(last), axis=axis)]
        behind = k
    return _joined([*parts, slice_in_dim(x, behind, n, axis=axis)], axis)


@eager(3)
def insert(arr, obj, values, axis=None):
    """arr with `values` put in before the positions obj along `axis` (in the flattened array if None).

    obj: an int, a slice or a 1-D integer array of positions in arr; values broadcast to one slice per position.
    """
    x, axis = _flat_or_axis("insert", arr, axis)
    n = x.shape[axis]
    obj = np.arange(*obj.indices(n)) if isinstance(obj, slice) else obj
    at = array(obj) if isinstance(obj, (list, tuple)) else as_array("insert", obj, 1)
    if at.ndim > 1:
        raise ValueError(f"insert: obj must be a slice, a one-dimensional array, or a scalar; got {obj}")
    if not dtypes.is_integer(at.dtype):
        if at.size:
            raise ValueError(f"insert: index array must be integer typed; got {obj}")
        at = at.astype(int)
    v = E.convert_element_type(as_array("insert", values, 2), x.dtype)
    v = reshape(v, (1,) * (x.ndim - v.ndim) + v.shape)
    single, known = at.size == 1, concrete_or_none(at)
    if single:
        v = moveaxis(v, 0, axis) if at.ndim == 0 else v
        at = spread(ravel(at), (v.shape[axis],))
    count = broadcast_shape(at.shape, (v.shape[axis],))[0]
    if known is not None and count and _is_staged(x):
        return _insert_known(x, np.ravel(known), spread(v, tuple(count if i == axis else d for i, d in enumerate(x.shape))), axis)
    at = spread(at, (count,))
    at = clip(where(at < 0, at + n, at), 0, n)
    if single:
        # Behind the new slices lie those of x: the old ones before `at` are that many places away, and those after it in their own.
        places = iota(dtypes.INT32, n + count)
        rows = where(places < at[0], places + count, where(places < at[0] + count, places - at[0], places))
        v = spread(v, tuple(count if i == axis else d for i, d in enumerate(x.shape)))
        if count == 1:
            zero, move = E.like(x, 0), lambda low, high: [(low, high, 0) if i == axis else (0, 0, 0) for i in range(x.ndim)]
            before, behind = pad(x, zero, move(0, 1)), pad(x, zero, move(1, 0))
            places = broadcasted_iota(dtypes.INT32, before.shape, axis)
            return where(places < at[0], before, where(places == at[0], v, behind))
        return concatenate([v, x], axis)[(slice(None),) * axis + (rows,)]
    v = spread(v, tuple(count if i == axis else d for i, d in enumerate(x.shape)))
    # A stable sort of all slices by position: new ones (even keys) come before the old one (odd key) at their position.
    keys = concatenate([2 * at.astype(int), 2 * arange(n) + 1])
    order = argsort(keys)
    return concatenate([v, x], axis)[(slice(None),) * axis + (order,)]


def put(a, ind, v, mode=None, *, inplace=True):
    """A copy of `a` with values v (repeated as needed) at positions `ind` of the flattened array; pass inplace=False.

    mode: clip (the default) or wrap what is out of bounds.
    """
    _immutable("put", inplace)
    x, at, v = as_array("put", a), ravel(as_array("put", ind, 1)), ravel(as_array("put", v, 2))
    if mode not in (None, "clip", "wrap"):
        raise (NotImplementedError if mode == "raise" else ValueError)(f"put: mode={mode!r} is not supported; clip and wrap are")
    if not at.size or not v.size:
        return x
    if mode == "wrap":
        at = at % x.size
    else:
        at = clip(at, 0, x.size - 1)
    return reshape(ravel(x).at[at].set(_repeated(v, at.size), mode="drop"), x.shape)


def _repeated(v, n):
    return tile(v, -(-n // v.size))[:n] if v.size != n else v


def place(arr, mask, vals, *, inplace=True):
    """A copy of arr with values (repeated as needed) at the true elements of mask, in order; pass inplace=False."""
    _immutable("place", inplace)
    x, mask, v = as_array("place", arr), as_array("place", mask, 1), ravel(as_array("place", vals, 2))
    if mask.size != x.size:
        raise ValueError("place: arr and mask must be the same size")
    if not v.size:
        raise ValueError("place: vals must not be empty")
    (at,) = nonzero(ravel(mask) != 0, size=x.size, fill_value=x.size)
    return reshape(ravel(x).at[at].set(_repeated(v, x.size), mode="drop"), x.shape)


def put_along_axis(arr, indices, values, axis, inplace=True, *, mode=None):
    """A copy of arr with values at arr[..., indices[..., i, ...], ...] along `axis`: take_along_axis reversed; pass inplace=False."""
    _immutable("put_along_axis", inplace)
    x, at = as_array("put_along_axis", arr), as_array("put_along_axis", indices, 1)
    shape = x.shape
    if axis is None:
        x, axis = ravel(x), 0
    axis = axis_index(axis, x.ndim)
    if at.ndim != x.ndim:
        raise ValueError(f"put_along_axis: indices and arr must have the same number of dimensions; {at.ndim} vs. {x.ndim}")
    full_shape = tuple(at.shape[axis] if i == axis else d for i, d in enumerate(x.shape))
    at = spread(at, full_shape)
    idx = tuple(at if i == axis else broadcasted_iota(np.int32, full_shape, i) for i in range(x.ndim))
    values = spread(as_array("put_along_axis", values, 2), full_shape)
    return reshape(x.at[idx].set(values, mode=mode), shape)


def fill_diagonal(a, val, wrap=False, *, inplace=True):
    """A copy of `a` with `val` (repeated as needed) on its main diagonal; pass inplace=False. All axes must match if more than two."""
    _immutable("fill_diagonal", inplace)
    if wrap:
        raise NotImplementedError("wrap=True is not implemented, must use wrap=False")
    x, v = as_array("fill_diagonal", a), as_array("fill_diagonal", val, 1)
    if x.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if x.ndim > 2 and len(set(x.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    n = min(x.shape)
    return x.at[(arange(n),) * x.ndim].set(v if v.ndim == 0 else _repeated(ravel(v), n))


def resize(a, new_shape):
    """The elements of `a`, repeated or cut as needed, in another shape."""
    x = ravel(as_array("resize", a))
    shape = tuple(map(operator.index, new_shape)) if np.iterable(new_shape) else (operator.index(new_shape),)
    if any(d < 0 for d in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    n = math.prod(shape)
    if not x.size or not n:
        return full(shape, 0, x.dtype)
    return reshape(_repeated(x, n), shape)


def compress(condition, a, axis=None, *, size=None, fill_value=0, out=None):
    """The slices along `axis` for which the 1-D condition holds. size: how many are returned, filled up with fill_value; without it the
    condition must be concrete."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.compress is not supported.")
    mask = as_array("compress", condition) != 0
    if mask.ndim != 1:
        raise ValueError("condition must be a 1D array")
    x, axis = _flat_or_axis("compress", a, axis)
    n = x.shape[axis]
    if size is None:
        known = concrete_mask("compress", mask, "The result's size depends on it: pass size=.")
        if known.size == n and axis == 0:
            return x[known]
        value = np.asarray(known)
        if value[n:].any():
            raise ValueError("condition contains entries that are out of bounds")
        return take(x, array(np.flatnonzero(value[:n])), axis)
    size = static_size("compress", size)
    if size > n:
        raise ValueError(f"size must be positive and not greater than the size of the array axis; got {size=} for a.shape[axis]={n}")
    at = flatnonzero(mask[:n], size=size, fill_value=n)
    return take(x, at, axis, mode="fill", fill_value=_concrete_fill(fill_value, x.dtype))


def _concrete_fill(value, dtype):
    value = concrete_or_none(value)
    if value is None:
        raise ValueError("compress: fill_value must be known while tracing")
    return np.asarray(value).astype(dtype)[()]


def extract(condition, arr, *, size=None, fill_value=0):
    """The elements of arr for which condition (of its shape) holds; size and fill_value as in compress."""
    return compress(ravel(as_array("extract", condition)), ravel(as_array("extract", arr, 1)), size=size, fill_value=fill_value)


def choose(a, choices, out=None, mode="raise"):
    """choices[a], element by element. mode: raise (needs a concrete a), wrap or clip what is out of bounds."""
    if out is not None:
        raise NotImplementedError("The 'out' argument to jnp.choose is not supported.")
    which = as_array("choose", a)
    if not dtypes.is_integer(which.dtype):
        raise ValueError("`a` array must be integer typed")
    if not len(choices):
        raise ValueError("choose: there is nothing to choose from")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"mode={mode!r} not understood. Must be 'raise', 'wrap', or 'clip'")
    if mode == "raise":
        if type(which) is Array and context.trace is eval_trace:
            beyond = _beyond(which, len(choices))
        else:
            value = concrete("choose", which, "Use mode='wrap' or mode='clip' under jit.")
            beyond = ((value < 0) | (value >= len(choices))).any()
        if beyond:
            raise ValueError("invalid entry in choice array")
    return _chosen([which, *choices], mode)


@eager(1)
def _beyond(which, n):
    """Whether an index is not one of n."""
    return ((which < 0) | (which >= n)).any()


@eager(-2)
def _chosen(arrays, mode):
    """choose(arrays[0], arrays[1:]), whose indices fit with the mode raise."""
    which, cases = arrays[0], [as_array("choose", c, 1) for c in arrays[1:]]
    cases = [as_array("choose", c, 1) for c in promoted("choose", cases)]
    n = len(cases)
    if mode != "raise":
        which = clip(which, 0, n - 1) if mode == "clip" else which % n
    shape = broadcast_shape(which.shape, *[c.shape for c in cases])
    which, out = spread(which, shape), E.cast_as(spread(cases[-1], shape), cases[-1].dtype)
    for i in range(n - 2, -1, -1):
        out = E.select(E.eq(which, E.like(which, i)), spread(cases[i], shape), out)
    return out


def trim_zeros(filt, trim="fb", axis=None):
    """A concrete array without its leading ("f") and trailing ("b") zeros, along the given axes (all by default)."""
    x = as_array("trim_zeros", filt)
    value = concrete("trim_zeros", x, "The result's size depends on values.") != 0
    if not isinstance(trim, str) or any(c not in "fb" for c in trim.lower()):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    trim = trim.lower()
    idx = [slice(None)] * x.ndim
    for i in axis_tuple(axis, x.ndim):
        at = np.flatnonzero(value.any(tuple(j for j in range(x.ndim) if j != i)))
        n = x.shape[i]
        if at.size:
            idx[i] = slice(int(at[0]) if "f" in trim else 0, int(at[-1]) + 1 if "b" in trim else n)
        else:
            idx[i] = slice(0, 0)
    return x[tuple(idx)]


@eager(1)
@moves_overlays(0)
def repeat(a, repeats, axis=None, *, total_repeat_length=None, out_sharding=None):
    """Each element (or slice along `axis`) repeated; `repeats` is a number or one number per element.

    Numbers per element decide the size, so they must be concrete unless total_repeat_length gives it: then the result is cut there, or
    filled up with the last element.
    """
    a = as_array("repeat", a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = axis_index(axis, a.ndim)
    n = a.shape[axis]
    counts = array(repeats, copy=False) if isinstance(repeats, (list, tuple)) else as_array("repeat", repeats, 1)
    if counts.dtype == dtypes.BOOL:
        counts = E.convert_element_type(counts, np.int32)
    if not dtypes.is_integer(counts.dtype):
        raise TypeError(f"repeat: repeats must be integers, got {counts.dtype.name}")
    if counts.ndim > 1 or counts.ndim == 1 and counts.size not in (1, n):
        raise ValueError(f"repeat: {counts.shape} repeats for an axis of size {n}")
    if total_repeat_length is None:
        value = concrete("repeat", counts, "The result's size depends on it: pass total_repeat_length=.")
        if value.ndim == 0 or value.size == 1:
            r, s = int(value.reshape(())), a.shape
            if r < 0:
                raise ShapeError(f"repeat: repeats must not be negative, got {r}")
            wide = broadcast_in_dim(a, (*s[: axis + 1], r, *s[axis + 1 :]), tuple(i + (i > axis) for i in range(a.ndim)))
            return reshape(wide, (*s[:axis], n * r, *s[axis + 1 :]))
        return a[(slice(None),) * axis + (np.repeat(np.arange(n), np.maximum(value, 0)),)]
    total = operator.index(total_repeat_length)
    if n == 0 or total == 0:
        return a[(slice(None),) * axis + (np.zeros(total, np.int32),)]
    counts = spread(counts if counts.ndim else reshape(counts, (1,)), (n,))
    ends = cumsum(E.convert_element_type(counts, np.int32), 0)
    # Place i holds the first element whose repetitions end behind it, or the last element.
    rows = searchsorted(ends, iota(dtypes.INT32, total), side="right")
    rows = E.min(rows, E.like(rows, n - 1))
    return a[(slice(None),) * axis + (rows,)]
