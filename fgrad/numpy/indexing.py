"""NumPy-style indexing, .at updates, take and take_along_axis. Static indices become views; arrays of them become row gathers."""

import functools
import math
import operator

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad._kernels import masks
from fgrad._kernels.window import IndexDispatch, Rows, static_view
from fgrad.compile.bodies import body_of
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.core import Array, Tracer, context, eval_trace, from_numpy, stage, using_trace
from fgrad.core.eager_calls import is_recorded, recorded_view
from fgrad.core.windows import ARRAY, WHOLE, frozen, parted
from fgrad.errors import EmptyAxisError, NonConcreteBooleanIndexError
from fgrad.numpy.overlay import moves_overlays
from fgrad.numpy.slices import Window, has_slices
from fgrad.numpy.util import as_array, axis_index, broadcast_shape, no_out, spread
from fgrad.ops import elementwise as E
from fgrad.ops import shape as S
from fgrad.ops.along import take_along
from fgrad.ops.gather import GatherDimensionNumbers, GatherScatterMode, default_fill, gather, take_rows, without_cotangent
from fgrad.ops.index import dynamic_index_in_dim, index_numbers
from fgrad.ops.index_bounds import index_bounds_p
from fgrad.ops.rules import broadcast_in_dim


def _is_int(i):
    return isinstance(i, (int, np.integer)) and not isinstance(i, (bool, np.bool_))


def _positions(seq):
    """A list or tuple within an index as the array it stands for; it may hold tracers."""
    leaves = tree.leaves(seq)
    if any(isinstance(i, Tracer) for i in leaves):
        dtype = dtypes.INT64 if any(getattr(i, "dtype", None) == dtypes.INT64 for i in leaves) else dtypes.INT32
        parts = [_positions(i) if isinstance(i, (list, tuple)) else as_array("indexing", i) for i in seq]
        return S.concatenate([E.convert_element_type(S.reshape(p, (1, *p.shape)), dtype) for p in parts], 0)
    try:
        return np.asarray(seq, None if leaves else np.int32)
    except ValueError:
        raise TypeError(f"Indexer is a nested sequence that does not make a rectangular array: {seq!r:.60}") from None


class Normalized(list):
    """One entry per axis that an index takes, or None; `cut`: where an Ellipsis of no axes stood, which parts what is around it."""

    cut = None


def normalize(shape, idx):
    """The index as a list with one entry per consumed axis (or None), Ellipsis filled in, masks turned into positions."""
    several = isinstance(idx, tuple)
    out = []
    for i in idx if several else (idx,):
        if several and isinstance(i, (list, tuple)):
            i = _positions(i)
        if isinstance(i, (list, tuple)):
            raise TypeError(
                "Using a non-tuple sequence for multidimensional indexing is not allowed; use `arr[array(seq)]` instead of `arr[seq]`. "
                f"Got {i!r}."
            )
        if isinstance(i, (Array, Tracer, np.ndarray, np.generic, bool)) and not _is_int(i):
            x = as_array("indexing", i)
            if x.dtype == dtypes.BOOL:
                value = x if x._is_concrete else x._concrete()
                if value is None:
                    raise NonConcreteBooleanIndexError(
                        f"Array boolean indices must be concrete; got {x._describe()}{x._origin()}. "
                        "Use fgrad.numpy.where(mask, x, y) instead of x[mask]."
                    )
                mask = as_array("indexing", value)
                at = sum(j is not None and j is not Ellipsis for j in out)
                if Ellipsis not in out and mask.shape != shape[at : at + mask.ndim]:
                    raise IndexError(
                        f"boolean index did not match shape of indexed array in index {at}: got {mask.shape}, expected "
                        f"{shape[at : at + mask.ndim]}"
                    )
                out += true_places(mask)
                continue
            if not dtypes.is_integer(x.dtype):
                raise TypeError(
                    f"Indexer must have integer or boolean type, got indexer with type {x.dtype.name} at position {len(out)}, "
                    f"indexer value {i!r:.60}"
                )
            out.append(x)
        elif i is None or i is Ellipsis or isinstance(i, slice) or _is_int(i):
            out.append(i)
        elif hasattr(i, "__index__"):
            out.append(operator.index(i))
        else:
            if isinstance(i, str):
                raise TypeError(f"JAX does not support string indexing; got idx={i!r:.60}")
            if isinstance(i, (float, complex)):
                raise TypeError(f"Indexer must have integer or boolean type, got indexer with type {type(i).__name__}, indexer value {i!r}")
            kind = TypeError if isinstance(i, (str, float, complex)) else IndexError
            raise kind(f"Indexer must be integers, slices, None, Ellipsis or arrays, got {type(i).__name__}: {i!r:.60}")
    if sum(i is Ellipsis for i in out) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(i is not None and i is not Ellipsis for i in out)
    if used > len(shape):
        raise IndexError(f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed")
    at = next((k for k, i in enumerate(out) if i is Ellipsis), len(out))
    whole = Normalized(out[:at] + [slice(None)] * (len(shape) - used) + out[at + 1 :])
    if at < len(out) and used == len(shape):
        whole.cut = at
    return whole


def true_places(mask):
    """Where a concrete mask of rank 1 or more holds, one array per axis."""
    return masks.true_places(mask)


def is_scalar_mask(i):
    return type(i) is bool or (isinstance(i, (np.bool_, np.ndarray, Array, Tracer)) and i.dtype == dtypes.BOOL and i.ndim == 0)


def axes_used(idx):
    """How many axes of the array each part of an index takes (an Ellipsis: 0)."""
    parts = idx if isinstance(idx, tuple) else (idx,)
    return [
        0 if i is None or i is Ellipsis or is_scalar_mask(i) else i.ndim if getattr(i, "dtype", None) is dtypes.BOOL else 1 for i in parts
    ]


def with_mask_axes(x, idx):
    """x with an axis of size 1 for each scalar mask of the index, and the index with the mask of that axis in its place."""
    used = axes_used(idx)
    idx = idx if isinstance(idx, tuple) else (idx,)
    shape, out, axis = list(x.shape), [], 0
    for i, n in zip(idx, used):
        if is_scalar_mask(i):
            shape.insert(axis, 1)
            i, n = S.reshape(i, (1,)) if isinstance(i, Tracer) else np.asarray(i).reshape(1), 1
        out.append(i)
        axis += x.ndim - sum(used) if i is Ellipsis else n
    return S.reshape(x, tuple(shape)), tuple(out)


def _layout(shape, idx):
    """What ints, slices and None make of an array: starts, limits, strides, flipped axes, the shape after all, where index arrays are."""
    starts, limits, strides, flips, out, advanced = [], [], [], [], [], {}
    axis = 0
    for i in idx:
        if i is None:
            out.append(1)
            continue
        n = shape[axis]
        lo, hi, step = 0, n, 1
        if _is_int(i):
            i = operator.index(i)
            if not n:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size 0")
            lo = min(max(i + n * (i < 0), 0), n - 1)  # an index that leaves the axis is moved inside, as eager and dynamic ones are
            hi = lo + 1
        elif isinstance(i, slice):
            try:
                lo, hi, step = i.indices(n)
            except TypeError:
                raise IndexError(
                    f"Array slice indices must have static start/stop/step to be used with NumPy indexing syntax. Found {i}. "
                    "To index a dynamic window use lax.dynamic_slice."
                ) from None
            size = len(range(lo, hi, step))
            out.append(size)
            if step < 0:
                flips.append(axis)
                lo, hi, step = (lo + (size - 1) * step, lo + 1, -step) if size else (0, 0, 1)
            elif not size:
                lo = hi = 0
        else:
            advanced[len(out)] = i
            out.append(n)
        starts.append(lo)
        limits.append(hi)
        strides.append(step)
        axis += 1
    return starts, limits, strides, tuple(flips), tuple(out), advanced


def _view(x, starts, limits, strides, flips, shape):
    x = S.slice(x, starts, limits, strides)
    if flips:
        x = S.rev(x, flips)
    return S.reshape(x, shape)


def _static(x, idx):
    """Apply ints, slices and None as views; returns (x, the advanced indices left as {axis: array})."""
    *layout, advanced = _layout(x.shape, idx)
    return _view(x, *layout), advanced


@functools.lru_cache(10_000)
def _static_steps(aval, key):
    """The view primitives, with their parameters, that apply the index that `frozen` stands for, one after the other."""
    return tuple((e.primitive, e.params) for e in _static_jaxpr(aval, key).jaxpr.eqns)


def _static_jaxpr(aval, key):
    return stage(lambda x: [_static(x, normalize(x.shape, thawed(key)))[0]], [aval])


@functools.lru_cache(10_000)
def _static_body(aval, key):
    """How a recording writes down the view that an index shows."""
    return body_of(_static_jaxpr(aval, key))


def advanced_layout(idx):
    """True if the advanced indices (and ints among them) stand apart, so that their axes come first."""
    kinds = [isinstance(i, (Array, Tracer)) or _is_int(i) for i in idx]
    if not any(isinstance(i, (Array, Tracer)) for i in idx):
        return False
    first, last = kinds.index(True), len(kinds) - 1 - kinds[::-1].index(True)
    return not all(kinds[first : last + 1]) or (idx.cut is not None and first < idx.cut <= last)


def rows_of(x, advanced, mode, wrap_negative=True, marked=False):
    """Linear rows over the advanced axes, negative indices wrapped, and those axes.

    Of one axis they are the indices; of several, those out of range are clamped or, with mode "fill", make the row -1.
    marked: the rows are a pair, with a mask of those that were clamped (of several axes).
    """
    axes = sorted(advanced)
    arrays = [advanced[a] for a in axes]
    shape = broadcast_shape(*[i.shape for i in arrays])
    known = all(type(i) is Array for i in arrays)  # then they are computed now, as one program, whatever x is
    with using_trace(eval_trace if known else context.trace):
        return _linear_rows(arrays, tuple(x.shape[a] for a in axes), shape, mode, wrap_negative, marked), axes, shape


def mark_bounds(shape, idx, mode, wrap_negative):
    """Mark the bounds of the arrays of a normalized index, and of its ints outside of them unless they are clipped."""
    if mode == "wrap":
        return
    indices, axis = {}, 0
    for i in idx:
        if _is_int(i) and mode != "clip" and not -shape[axis] <= i < shape[axis] or isinstance(i, (Array, Tracer)):
            i, n = as_array("indexing", i), shape[axis]
            if wrap_negative and dtypes.is_signed(i.dtype):
                i = E.select(E.lt(i, E.like(i, 0)), E.add(i, E.like(i, n)), i)
            indices[axis] = i
        axis += i is not None
    if indices:
        spread_to = broadcast_shape(*[i.shape for i in indices.values()])
        limits = tuple(shape[a] - 1 for a in indices)
        index_bounds_p.bind(*[spread(i, spread_to) for i in indices.values()], shape=shape, axes=tuple(indices), limits=limits)


@eager(-1)
def _linear_rows(arrays, sizes, shape, mode, wrap_negative, marked):
    linear, bad = None, None
    large = math.prod(sizes) >= 2**31
    for n, given in zip(sizes, arrays):
        i = index_numbers(given, n, wrap=mode == "wrap")
        if mode == "wrap":
            i = _wrap(i, n)
        elif wrap_negative and dtypes.is_signed(given.dtype):
            i = E.select(E.lt(i, E.like(i, 0)), E.add(i, E.like(i, n)), i)
        i = spread(i, shape)
        if len(sizes) == 1:  # the kernel sees for itself what is out of range
            return i
        if marked or mode in ("fill", "drop"):
            out = E.bitwise_or(E.lt(i, E.like(i, 0)), E.ge(i, E.like(i, n)))
            bad = out if bad is None else E.bitwise_or(bad, out)
        i = E.clamp(E.like(i, 0), i, E.like(i, max(n - 1, 0)))
        i = E.cast_as(i, dtypes.INT64) if large else i
        linear = i if linear is None else E.add(E.mul(linear, E.like(linear, n)), E.cast_as(i, linear.dtype))
    if marked:
        return linear, bad
    return linear if bad is None else E.select(bad, E.like(linear, -1), linear)


def _wrap(i, n):
    r = E.rem(i, E.like(i, n))
    return E.select(E.lt(r, E.like(r, 0)), E.add(r, E.like(r, n)), r)


def table_of(x, axes):
    """x with `axes` in front, merged into one axis of rows; (table, permutation, remaining shape)."""
    rest = [i for i in range(x.ndim) if i not in axes]
    perm = (*axes, *rest)
    moved = S.transpose(x, perm)
    n = 1
    for a in axes:
        n *= x.shape[a]
    tail = tuple(x.shape[i] for i in rest)
    return S.reshape(moved, (n, *tail)), perm, tail


def mode_of(mode):
    """An indexing mode by name: clip, fill, wrap, promise_in_bounds or None."""
    if mode is None or mode == "wrap":
        return mode
    return GatherScatterMode.from_any(mode).value


def ints_as_arrays(shape, idx, wrap_negative):
    """Ints beside index arrays, and ints out of bounds, are index arrays themselves."""
    beside = any(isinstance(i, (Array, Tracer)) for i in idx)
    out, axis = [], 0
    for i in idx:
        if _is_int(i):
            n = shape[axis]
            if n == 0:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size 0")
            low = -n if wrap_negative else 0
            i = from_numpy(np.asarray(i, np.int32 if n < 2**31 else np.int64)) if beside or not low <= i < n else i
        axis += i is not None
        out.append(i)
    return out


def _check_not_empty(shape, axes, size):
    """Raise EmptyAxisError where `size` elements are asked for of axes of which one has none."""
    for axis in axes:
        if size and not shape[axis]:
            raise EmptyAxisError(f"index is out of bounds for axis {axis} with size 0 (array of shape {shape})")


def getitem(x, idx, mode=None, fill_value=None, wrap_negative=True):
    """x[idx]. Out-of-range indices are clamped, or filled with mode='fill'; those in slices are cut off, as in NumPy."""
    if mode is None and type(x) is not Array and isinstance(x, Tracer) and (key := frozen(idx)) is not None and wrap_negative:
        if config.mark_indices:
            mark_bounds(x.shape, normalize(x.shape, idx), None, True)
        for prim, params in _static_steps(x.aval, key):
            x = prim.bind(x, **params)
        return x
    if has_slices(idx):
        window = Window(x, idx, axes_used(idx))
        out = getitem(window.read(), window.index, mode, fill_value, wrap_negative)
        if mode_of(mode) != "fill":
            return out
        fill = E.like(out, default_fill(x.dtype) if fill_value is None else fill_value)
        return E.select(window.is_inside(), out, fill)
    if any(map(is_scalar_mask, idx if isinstance(idx, tuple) else (idx,))):
        x, idx = with_mask_axes(x, idx)
    mode = mode_of(mode)
    if (
        isinstance(x, (Array, Tracer))
        and isinstance(idx, (Array, Tracer))
        and idx.ndim == 0
        and dtypes.is_integer(idx.dtype)
        and x.ndim
        and mode is None
        and wrap_negative
    ):
        _check_not_empty(x.shape, (0,), True)
        return dynamic_index_in_dim(x, idx, 0, keepdims=False)
    idx = normalize(x.shape, idx)
    if config.mark_indices:
        mark_bounds(x.shape, idx, mode, wrap_negative)
    apart = advanced_layout(idx)
    idx = ints_as_arrays(x.shape, idx, wrap_negative)
    x, advanced = _static(x, idx)
    if not advanced:
        return x
    # Numbers alone, beside slices, are a window, which is moved inside together with its gradient.
    promised = mode in (None, "promise_in_bounds") and any(i.ndim for i in advanced.values())
    # What leaves one axis without a mode has the value of the last element and no gradient; rows of several axes are clamped already.
    marked = promised and len(advanced) > 1 and isinstance(x, Tracer) and dtypes.is_inexact(x.dtype)
    rows, axes, shape = rows_of(x, advanced, mode, wrap_negative, marked)
    rows, bad = rows if marked else (rows, None)
    _check_not_empty(x.shape, axes, rows.size)
    fill = None
    if mode == "fill":
        fill = default_fill(x.dtype) if fill_value is None else fill_value
    if axes[-1] - axes[0] >= len(axes):  # they stand apart
        x, axis = table_of(x, axes)[0], 0
    else:
        axis = axes[0]
        x = S.reshape(x, (*x.shape[:axis], math.prod(x.shape[a] for a in axes), *x.shape[axes[-1] + 1 :]))
    at = 0 if apart else axes[0]
    out = take_rows(x, rows, fill, axis, at, "promise_in_bounds" if promised else "clip")
    if bad is None or type(bad) is Array and not np.asarray(bad).any():
        return out
    return without_cotangent(out, broadcast_in_dim(bad, out.shape, tuple(range(at, at + len(shape)))))


def thawed(key):
    """The index that `frozen` stands for."""
    if key and key[0] == "slice":
        return slice(*key[1:])
    if len(key) == 1 and type(key[0]) is not tuple:
        return key[0]
    return tuple(thawed(k) for k in key)


def joined(arrays, rest):
    """The index that `parted` took apart."""
    arrays = iter(arrays)
    return tuple(next(arrays) if r is ARRAY else slice(None) if r is WHOLE else r for r in rest)


@eager(2)
def _take_at(x, i):
    return getitem(x, i)


@eager(-1)
def _take_parts(arrays, rest):
    return getitem(arrays[0], joined(arrays[1:], rest))


def _take_parted(x, arrays, rest, before):
    return _take_parts([x if before is None else x[before], *arrays], rest)


def masks_rows(idx, x):
    """True if an index is a concrete mask over leading axes of x."""
    return (
        (type(idx) is Array or type(idx) is np.ndarray) and idx.dtype == dtypes.BOOL and idx.ndim > 0 and idx.shape == x.shape[: idx.ndim]
    )


def _index(x, idx):
    """x[idx] where no view will do."""
    if (type(idx) is Array or type(idx) is np.ndarray) and type(x) is Array and idx.dtype.kind in "iu":
        return _take_at(x, idx)
    if type(x) is Array and (parts := parted(idx)) is not None:
        return _take_parted(x, *parts)
    if type(x) is Array and masks_rows(idx, x):
        return masks.selected(x, idx)
    return getitem(x, idx)


def traced_index(x, idx):
    """x[idx] of a tracer: in a recording it is one operation."""
    if is_recorded(x):
        if (key := frozen(idx)) is not None and not config.mark_indices and (view := static_view(x.primal, idx)) is not None:
            body = _static_body(x.aval, key)
            return getitem(x, idx) if body is None else recorded_view(x, view, body)
        if type(idx) is Array and idx.dtype.kind in "iu":
            return _take_at(x, idx)
        if (parts := parted(idx)) is not None:
            return _take_parted(x, *parts)
    return getitem(x, idx)


index = IndexDispatch(_index)


def iterate(x):
    """The slices of x along axis 0."""
    if not x.ndim:
        raise TypeError("iteration over a 0-d array")
    if type(x) is Array and x.strides_or_none is None:
        return Rows(x)
    if is_recorded(x):
        return (traced_index(x, i) for i in range(x.shape[0]))
    return (S.index_in_dim(x, i, 0, keepdims=False) for i in range(x.shape[0]))


@eager(2)
@moves_overlays(0)
def take(a, indices, axis=None, out=None, mode=None, unique_indices=False, indices_are_sorted=False, fill_value=None):
    """Elements along an axis by position; out-of-range positions give NaN (mode 'fill', the default) or are clamped (negative ones to 0) or
    wrapped."""
    no_out("take", out)
    a, indices = as_array("take", a), as_array("take", indices, 1)
    if mode == "raise":
        raise NotImplementedError("The 'raise' mode to jnp.take is not supported.")
    if not indices.size or indices.dtype == dtypes.BOOL:
        indices = E.convert_element_type(indices, np.int32)  # an empty list is one of floats; booleans are positions, not a mask
    if not dtypes.is_integer(indices.dtype):
        raise ValueError(f"take: indices must have an integer type, got {indices.dtype.name}")
    if axis is None:
        a, axis = S.reshape(a, (a.size,)), 0
    mode = mode_of(mode or "fill")
    return getitem(a, (slice(None),) * axis_index(axis, a.ndim) + (indices,), mode, fill_value, mode != "clip")


@eager(2)
@moves_overlays(0)
def take_along_axis(arr, indices, axis=-1, mode=None, fill_value=None, *, wrap_negative_indices=None):
    """arr[..., indices[..., i, ...], ...]: one position per output element along an axis."""
    arr, indices = as_array("take_along_axis", arr), as_array("take_along_axis", indices, 1)
    if indices.dtype == dtypes.BOOL:
        raise TypeError("take_along_axis: indices must be of integer type, got bool")
    if axis is None:
        arr, axis = S.reshape(arr, (arr.size,)), 0
    axis = axis_index(axis, arr.ndim)
    if indices.ndim != arr.ndim:
        raise ValueError(f"indices and arr must have the same number of dimensions; {indices.ndim} vs. {arr.ndim}")
    shape = broadcast_shape(indices.shape[:axis] + (1,) + indices.shape[axis + 1 :], arr.shape[:axis] + (1,) + arr.shape[axis + 1 :])
    full = shape[:axis] + (indices.shape[axis],) + shape[axis + 1 :]
    arr, indices = spread(arr, shape[:axis] + (arr.shape[axis],) + shape[axis + 1 :]), spread(indices, full)
    mode = mode_of(mode or "fill")
    if indices.size and not arr.shape[axis]:
        return S.broadcast_in_dim(arr.dtype.type(0), full, ())
    if not arr.size or not indices.size or not dtypes.is_integer(indices.dtype) or mode == "wrap":
        idx = tuple(indices if d == axis else S.broadcasted_iota(dtypes.INT32, full, d) for d in range(arr.ndim))
        return getitem(arr, idx, mode, fill_value, wrap_negative_indices is not False)
    return _along_axis(arr, indices, axis, mode, fill_value, wrap_negative_indices is not False)


@eager(2)
def _along_axis(arr, indices, axis, mode, fill_value, wrap_negative):
    """take_along_axis of arrays that differ in size along the axis only."""
    size = arr.shape[axis]
    indices = index_numbers(indices, size)
    if wrap_negative:
        indices = E.select(E.lt(indices, E.like(indices, 0)), E.add(indices, E.like(indices, size)), indices)
    if mode == "fill" and indices.shape[axis] > 1:
        others = tuple(i for i in range(arr.ndim) if i != axis)
        numbers = GatherDimensionNumbers((), (axis,), (axis,), others, others)
        return gather(arr, S.expand_dims(indices, (arr.ndim,)), numbers, (1,) * arr.ndim, mode="fill", fill_value=fill_value)
    out = take_along(arr, indices, axis)
    if mode != "fill":
        return out
    inside = E.bitwise_and(E.ge(indices, E.like(indices, 0)), E.lt(indices, E.like(indices, size)))
    return E.select(inside, out, E.like(out, default_fill(arr.dtype) if fill_value is None else fill_value))
