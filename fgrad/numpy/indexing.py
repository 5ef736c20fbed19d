"""NumPy-style indexing, .at updates, take and take_along_axis. Static indices become views; arrays of them become row gathers."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.control.loops import scan
from fgrad.core import Array, Tracer, concrete_or_none, from_numpy
from fgrad.errors import NonConcreteBooleanIndexError
from fgrad.numpy.util import SCALARS, as_array, axis_index, broadcast_shape, cast, no_out, spread
from fgrad.ops import elementwise as E
from fgrad.ops import shape as S
from fgrad.ops.gather import GatherScatterMode, put_rows, take_rows
from fgrad.ops.index import dynamic_index_in_dim


def _is_int(i):
    return isinstance(i, (int, np.integer)) and not isinstance(i, (bool, np.bool_))


def _normalize(shape, idx):
    """The index as a list with one entry per consumed axis (or None), Ellipsis filled in, masks turned into positions."""
    idx = idx if isinstance(idx, tuple) else (idx,)
    out = []
    for i in idx:
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
                mask = np.asarray(value)
                if mask.ndim == 0:
                    out += [None, from_numpy(np.flatnonzero(mask.reshape(1)))]
                    continue
                at = sum(j is not None and j is not Ellipsis for j in out)
                if Ellipsis not in out and mask.shape != shape[at : at + mask.ndim]:
                    raise IndexError(
                        f"boolean index did not match shape of indexed array in index {at}: got {mask.shape}, expected "
                        f"{shape[at : at + mask.ndim]}"
                    )
                out += [from_numpy(p) for p in np.nonzero(mask)]
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
            raise TypeError(f"Indexer must be integers, slices, None, Ellipsis or arrays, got {type(i).__name__}: {i!r:.60}")
    if sum(i is Ellipsis for i in out) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(i is not None and i is not Ellipsis for i in out)
    if used > len(shape):
        raise IndexError(f"Too many indices: {len(shape)}-dimensional array indexed with {used} regular indices.")
    at = next((k for k, i in enumerate(out) if i is Ellipsis), len(out))
    return out[:at] + [slice(None)] * (len(shape) - used) + out[at + 1 :]


def _static(x, idx):
    """Apply ints, slices and None as views; returns (x, the advanced indices left as {axis: array})."""
    starts, limits, strides, flips, squeeze, news, advanced = [], [], [], [], [], [], {}
    axis = out_axis = 0
    for i in idx:
        if i is None:
            news.append(out_axis)
            out_axis += 1
            continue
        n = x.shape[axis]
        if _is_int(i):
            i = operator.index(i)
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
            starts.append(i % n)
            limits.append(i % n + 1)
            strides.append(1)
            squeeze.append(axis)
        elif isinstance(i, slice):
            try:
                lo, hi, step = i.indices(n)
            except TypeError:
                raise IndexError(
                    f"Array slice indices must have static start/stop/step to be used with NumPy indexing syntax. Found {i}. "
                    "To index a dynamic window use lax.dynamic_slice."
                ) from None
            size = len(range(lo, hi, step))
            if step < 0:
                flips.append(axis)
                lo, hi, step = (lo + (size - 1) * step, lo + 1, -step) if size else (0, 0, 1)
            elif not size:
                lo = hi = 0
            starts.append(lo)
            limits.append(hi)
            strides.append(step)
            out_axis += 1
        else:
            starts.append(0)
            limits.append(n)
            strides.append(1)
            advanced[out_axis] = i
            out_axis += 1
        axis += 1
    x = S.rev(S.slice(x, starts, limits, strides), tuple(flips))
    x = S.squeeze(x, squeeze) if squeeze else x
    return S.expand_dims(x, news) if news else x, advanced


def _advanced_layout(idx):
    """True if the advanced indices (and ints among them) stand apart, so that their axes come first."""
    kinds = [isinstance(i, (Array, Tracer)) or _is_int(i) for i in idx]
    if not any(isinstance(i, (Array, Tracer)) for i in idx):
        return False
    first, last = kinds.index(True), len(kinds) - 1 - kinds[::-1].index(True)
    return not all(kinds[first : last + 1])


def _rows(x, advanced, mode, wrap_negative=True):
    """Linear rows over the advanced axes (negative ones wrapped, out-of-range ones clamped or marked), and those axes."""
    axes = sorted(advanced)
    arrays = [advanced[a] for a in axes]
    shape = broadcast_shape(*[i.shape for i in arrays])
    linear, bad = None, None
    for a, i in zip(axes, arrays):
        n = x.shape[a]
        dtype = i.dtype if i.dtype in (dtypes.INT32, dtypes.INT64) else (dtypes.INT64 if dtypes.config.enable_x64 else dtypes.INT32)
        i = E.convert_element_type(i, dtype)
        if mode == "wrap":
            i = _wrap(i, n)
        elif wrap_negative:
            i = E.select(E.lt(i, E.like(i, 0)), E.add(i, E.like(i, n)), i)
        i = spread(i, shape)
        if mode in ("fill", "drop"):
            out = E.bitwise_or(E.lt(i, E.like(i, 0)), E.ge(i, E.like(i, n)))
            bad = out if bad is None else E.bitwise_or(bad, out)
        i = E.clamp(E.like(i, 0), i, E.like(i, max(n - 1, 0)))
        linear = i if linear is None else E.add(E.mul(linear, E.like(linear, n)), E.convert_element_type(i, linear.dtype))
    if bad is not None:
        linear = E.select(bad, E.like(linear, -1), linear)
    return linear, axes, shape


def _wrap(i, n):
    r = E.rem(i, E.like(i, n))
    return E.select(E.lt(r, E.like(r, 0)), E.add(r, E.like(r, n)), r)


def _table(x, axes):
    """x with `axes` in front, merged into one axis of rows; (table, permutation, remaining shape)."""
    rest = [i for i in range(x.ndim) if i not in axes]
    perm = (*axes, *rest)
    moved = S.transpose(x, perm)
    n = 1
    for a in axes:
        n *= x.shape[a]
    tail = tuple(x.shape[i] for i in rest)
    return S.reshape(moved, (n, *tail)), perm, tail


def _mode(mode):
    """An indexing mode by name: clip, fill, wrap, promise_in_bounds or None."""
    if mode is None or mode == "wrap":
        return mode
    return GatherScatterMode.from_any(mode).value


def _ints_as_arrays(shape, idx, wrap_negative):
    """Ints beside index arrays, and ints out of bounds, are index arrays themselves."""
    beside = any(isinstance(i, (Array, Tracer)) for i in idx)
    out, axis = [], 0
    for i in idx:
        if _is_int(i):
            n = shape[axis]
            if n == 0:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size 0")
            low = -n if wrap_negative else 0
            i = from_numpy(np.asarray(i, np.int32)) if beside or not low <= i < n else i
        axis += i is not None
        out.append(i)
    return out


def getitem(x, idx, mode=None, fill_value=None, wrap_negative=True):
    """x[idx]. Out-of-range indices are clamped, or filled with mode='fill'; those in slices are cut off, as in NumPy."""
    mode = _mode(mode)
    if (
        isinstance(x, (Array, Tracer))
        and isinstance(idx, (Array, Tracer))
        and idx.ndim == 0
        and dtypes.is_integer(idx.dtype)
        and x.ndim
        and mode is None
        and wrap_negative
    ):
        return dynamic_index_in_dim(x, idx, 0, keepdims=False)
    idx = _normalize(x.shape, idx)
    apart = _advanced_layout(idx)
    idx = _ints_as_arrays(x.shape, idx, wrap_negative)
    x, advanced = _static(x, idx)
    if not advanced:
        return x
    rows, axes, shape = _rows(x, advanced, mode, wrap_negative)
    table, _, tail = _table(x, axes)
    fill = None
    if mode == "fill":
        fill = (
            fill_value
            if fill_value is not None
            else (
                np.nan
                if dtypes.is_inexact(x.dtype)
                else np.iinfo(x.dtype).min
                if dtypes.is_signed(x.dtype)
                else np.iinfo(x.dtype).max
                if x.dtype.kind == "u"
                else True
            )
        )
    out = take_rows(table, rows, fill)
    front = 0 if apart else axes[0]
    if front:
        n = len(shape)
        perm = [*range(n, n + front), *range(n), *range(n + front, out.ndim)]
        out = S.transpose(out, tuple(perm))
    return out


def iterate(x):
    """The slices of x along axis 0."""
    if not x.ndim:
        raise TypeError("iteration over a 0-d array")
    return (S.index_in_dim(x, i, 0, keepdims=False) for i in range(x.shape[0]))


def _positions(x, idx, mode, wrap_negative):
    """The linear positions of x[idx], -1 for updates to drop."""
    mode = _mode(mode)
    positions = S.reshape(S.iota(dtypes.INT32, x.size), x.shape)
    return getitem(positions, idx, "fill" if mode in (None, "fill") else mode, -1, wrap_negative)


def _fitting(x, values, shape):
    """Update values in x's dtype, broadcast to the shape of what they replace."""
    values = as_array("scatter", values) if type(values) not in SCALARS else values
    values = cast(values, x.dtype) if type(values) in SCALARS else E.convert_element_type(values, x.dtype)
    values = as_array("scatter", values) if not hasattr(values, "aval") else values
    if values.ndim > len(shape) and all(n == 1 for n in values.shape[: values.ndim - len(shape)]):
        values = S.reshape(values, values.shape[values.ndim - len(shape) :])
    try:
        fits = broadcast_shape(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Incompatible shapes for broadcasting: {values.shape} and requested shape {shape} (indexed update)")
    return spread(values, shape)


def _update(x, idx, values, kind, mode=None, wrap_negative=True):
    """x with values combined into x[idx]."""
    rows = _positions(x, idx, mode, wrap_negative)
    values = _fitting(x, values, rows.shape)
    n = rows.size
    flat = put_rows(kind, S.reshape(x, (x.size,)), S.reshape(rows, (n,)), S.reshape(values, (n,)))
    return S.reshape(flat, x.shape)


def _apply(x, idx, fun, values, mode, unique, wrap_negative):
    """x with fun(x[idx], values) at idx, applied again for each repetition of an index."""
    rows = _positions(x, idx, mode, wrap_negative)
    shape, n = rows.shape, rows.size
    rows, flat = S.reshape(rows, (n,)), S.reshape(x, (x.size,))
    values = None if values is None else S.reshape(spread(values, shape), (n,))
    known = concrete_or_none(rows)

    def some(flat, rows, values):
        old = take_rows(flat, rows, 0)
        return put_rows("set", flat, rows, E.convert_element_type(as_array("apply", fun(old, values)), x.dtype))

    if unique or n < 2 or (known is not None and len(np.unique(known)) == n):
        return S.reshape(some(flat, rows, values), x.shape)
    steps = (S.reshape(rows, (n, 1)), values if values is None else S.reshape(values, (n, 1)))
    return S.reshape(scan(lambda c, u: (some(c, *u), None), flat, steps)[0], x.shape)


class IndexUpdateHelper:
    """x.at: index it for updates."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array

    def __getitem__(self, index):
        return IndexUpdateRef(self.array, index)


class IndexUpdateRef:
    """x.at[idx]: each method returns a new array with x[idx] updated; out-of-range updates are dropped.

    >>> import fgrad.numpy as jnp
    >>> jnp.zeros(3).at[1].set(5.)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("array", "index")

    def __init__(self, array, index):
        self.array, self.index = array, index

    def get(self, *, indices_are_sorted=False, unique_indices=False, mode=None, fill_value=None, wrap_negative_indices=True):
        """x[idx], out-of-range indices clamped, or filled with mode="fill" (by NaN, or the least signed or greatest unsigned integer)."""
        return getitem(self.array, self.index, mode, fill_value, wrap_negative_indices)

    def set(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with values at idx; of repeated indices the last one wins."""
        return _update(self.array, self.index, values, "set", mode, wrap_negative_indices)

    def add(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with values added at idx."""
        return _update(self.array, self.index, values, "add", mode, wrap_negative_indices)

    def subtract(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with values subtracted at idx."""
        return _update(self.array, self.index, E.neg(as_array("subtract", values)), "add", mode, wrap_negative_indices)

    def multiply(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x multiplied by values at idx."""
        return _update(self.array, self.index, values, "mul", mode, wrap_negative_indices)

    mul = multiply

    def divide(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x divided by values at idx."""
        ones = E.broadcast_to(E.like(self.array, 1), self.array.shape)
        return E.div(self.array, _update(ones, self.index, values, "mul", mode, wrap_negative_indices))

    def min(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with the minimum of itself and values at idx."""
        return _update(self.array, self.index, values, "min", mode, wrap_negative_indices)

    def max(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with the maximum of itself and values at idx."""
        return _update(self.array, self.index, values, "max", mode, wrap_negative_indices)

    def power(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x raised to values at idx."""
        values = as_array("power", values)
        power = lambda v, u: v**u
        return _apply(self.array, self.index, power, values, mode, unique_indices, wrap_negative_indices)

    def apply(self, func, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with the elementwise func applied at idx, again for each repetition of an index."""
        return _apply(self.array, self.index, lambda v, _: func(v), None, mode, unique_indices, wrap_negative_indices)


def take(a, indices, axis=None, out=None, mode=None, unique_indices=False, indices_are_sorted=False, fill_value=None):
    """Elements along an axis by position; out-of-range positions give NaN (mode 'fill', the default) or are clamped or wrapped."""
    no_out("take", out)
    a, indices = as_array("take", a), as_array("take", indices, 1)
    if axis is None:
        a, axis = S.reshape(a, (a.size,)), 0
    return getitem(a, (slice(None),) * axis_index(axis, a.ndim) + (indices,), mode or "fill", fill_value)


def take_along_axis(arr, indices, axis=-1, mode=None, fill_value=None, *, wrap_negative_indices=None):
    """arr[..., indices[..., i, ...], ...]: one position per output element along an axis."""
    arr, indices = as_array("take_along_axis", arr), as_array("take_along_axis", indices, 1)
    if axis is None:
        arr, axis = S.reshape(arr, (arr.size,)), 0
    axis = axis_index(axis, arr.ndim)
    if indices.ndim != arr.ndim:
        raise ValueError(f"indices and arr must have the same number of dimensions; {indices.ndim} vs. {arr.ndim}")
    shape = broadcast_shape(indices.shape[:axis] + (1,) + indices.shape[axis + 1 :], arr.shape[:axis] + (1,) + arr.shape[axis + 1 :])
    full = shape[:axis] + (indices.shape[axis],) + shape[axis + 1 :]
    arr = spread(arr, shape[:axis] + (arr.shape[axis],) + shape[axis + 1 :])
    idx = tuple(spread(indices, full) if d == axis else S.broadcasted_iota(dtypes.INT32, full, d) for d in range(arr.ndim))
    return getitem(arr, idx, mode or "fill", fill_value, wrap_negative_indices is not False)
