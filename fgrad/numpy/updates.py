"""x.at[...]: indexed updates. Static windows are written as slices, arrays of indices as whole rows."""

import math
import warnings

import numpy as np

from fgrad import dtypes
from fgrad._kernels import masks
from fgrad._kernels.window import updated
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.control.loops import scan
from fgrad.core import Array, Tracer, concrete_or_none, context, eval_trace
from fgrad.core.eager_calls import is_recorded
from fgrad.core.windows import Place, install_place, known_window, parted
from fgrad.numpy import indexing as I
from fgrad.numpy.creation import array
from fgrad.numpy.slices import Window, has_slices
from fgrad.numpy.util import SCALARS, as_array, broadcast_shape, cast, spread
from fgrad.ops import elementwise as E
from fgrad.ops import shape as S
from fgrad.ops.gather import ScatterDimensionNumbers, put, put_rows, take_rows
from fgrad.ops.index import dynamic_slice, update_box
from fgrad.ops.rules import full


def _positions(x, idx, mode, wrap_negative):
    """The linear positions of x[idx], -1 for updates to drop."""
    mode = I.mode_of(mode)
    dtype = dtypes.INT32 if x.size < 2**31 else dtypes.INT64
    positions = S.reshape(S.iota_p.bind(dtype=dtype, shape=(x.size,), dimension=0), x.shape)
    return I.getitem(positions, idx, "fill" if mode in _DROPPING else mode, -1, wrap_negative)


def _fitting(x, values, shape):
    """Update values in x's dtype, broadcast to the shape of what they replace."""
    if type(values) not in SCALARS:
        values = array(values, copy=False) if isinstance(values, (list, tuple)) else as_array("scatter", values)
    own = dtypes.canonicalize_dtype(x.dtype) is x.dtype  # else x has outlived enable_x64
    if type(values) is complex and not dtypes.is_complex(x.dtype):
        values = values.real
    values = cast(values, x.dtype) if own and type(values) in SCALARS else E.cast_as(values, x.dtype)
    values = as_array("scatter", values) if not hasattr(values, "aval") else values
    try:
        fits = broadcast_shape(values.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Incompatible shapes for broadcasting: {values.shape} and requested shape {shape} (indexed update)")
    return spread(values, shape)


def _window(shape, idx):
    """(starts, sizes, squeezed axes) of a static index that is one window of unit stride; None for any other."""
    if len([i for i in idx if i is not None]) != len(shape) or any(i is None for i in idx):
        return None
    starts, sizes, squeezed = [], [], []
    for axis, (i, n) in enumerate(zip(idx, shape)):
        if isinstance(i, slice):
            lo, hi, step = i.indices(n)
            if step != 1:
                return None
            starts.append(lo)
            sizes.append(max(hi - lo, 0))
        elif isinstance(i, int) and -n <= i < n:
            starts.append(i % n)
            sizes.append(1)
            squeezed.append(axis)
        else:
            return None
    return starts, sizes, squeezed


def _steps(shape, idx):
    """[(start, step, how many, whether backwards)] of each axis for a static index of slices and integers of which many elements are, some
    by steps; None for any other."""
    if len(idx) != len(shape) or not all(isinstance(i, (slice, int)) for i in idx):
        return None
    steps = []
    for i, n in zip(idx, shape):
        if not isinstance(i, slice):
            if not -n <= i < n:
                return None
            steps.append((i % n, 1, 1, False))
            continue
        places = range(*i.indices(n))
        steps.append((min(places[0], places[-1]), abs(places.step), len(places), places.step < 0) if places else (0, 1, 0, False))
    count = math.prod(k for _, _, k, _ in steps)
    return steps if count and count * _SHARE >= math.prod(shape) else None


def _update_steps(x, idx, steps, values, kind):
    """x with values combined into elements that are some places apart: all of it, with what they are padded by where there are none."""
    sizes, axes = tuple(k for _, _, k, _ in steps), range(x.ndim)
    values = _fitting(x, values, tuple(k for k, i in zip(sizes, idx) if isinstance(i, slice)))
    values = S.rev(S.reshape(values, sizes), tuple(a for a in axes if steps[a][3]))
    config = tuple((lo, n - 1 - lo - step * (k - 1), step - 1) for n, (lo, step, k, _) in zip(x.shape, steps))
    if sizes == x.shape:
        return E.cast_as(values if kind == "set" else _COMBINE[kind](x, values), x.dtype, x.weak_type)
    if kind != "set":
        return E.cast_as(_COMBINE[kind](x, S.pad(values, _NEUTRAL[kind](x.dtype), config)), x.dtype, x.weak_type)
    inside = None
    for axis, (n, (lo, step, k, _)) in enumerate(zip(x.shape, steps)):
        if k < n:
            places = np.zeros(n, bool)
            places[lo : lo + step * k : step] = True
            along = spread(S.reshape(as_array("scatter", places), (n,) + (1,) * (x.ndim - 1 - axis)), x.shape)
            inside = along if inside is None else E.bitwise_and(inside, along)
    return E.cast_as(E.select(inside, S.pad(values, x.dtype.type(0), config), x), x.dtype, x.weak_type)


_SHARE = 4  # of an array are updated at least, to be a pass over all of it: fewer are written in place
_NEUTRAL = {"add": lambda dtype: dtype.type(-0.0), "mul": lambda dtype: dtype.type(1)}  # what leaves a number as it is
_INSIDE = {"allow_negative_indices": False}  # starts of windows that are known to lie inside
_OPERANDS = (float, int, np.ndarray, Array, Tracer)  # whose metaclass is asked last
_REALS = {int, float}
_PLACES = {int, slice, tuple, type(Ellipsis)}
_DROPPING = (None, "fill", "promise_in_bounds")  # what leaves the array is dropped
_COMBINE = {"add": E.add, "mul": E.mul, "min": E.min, "max": E.max}


def _update_window(x, window, values, kind):
    """x with values combined into one window of it."""
    starts, sizes, squeezed = window
    shape = tuple(n for axis, n in enumerate(sizes) if axis not in squeezed)
    values = S.reshape(_fitting(x, values, shape), tuple(sizes))
    if kind != "set":
        known = all(type(a) is int for a in starts)
        old = S.slice(x, starts, [a + n for a, n in zip(starts, sizes)]) if known else dynamic_slice(x, starts, sizes, **_INSIDE)
        values = _COMBINE[kind](old, values)
    if tuple(sizes) == x.shape:
        return E.cast_as(values, x.dtype, x.weak_type)
    return update_box(x, values, starts, **_INSIDE) if values.size else x


def _update_rows(x, idx, values, kind, mode, wrap_negative):
    """x with values combined into whole rows of the indexed axes; None where the index also slices or adds axes."""
    whole = slice(None)
    if not any(isinstance(i, (Array, Tracer)) for i in idx) or any(i is None for i in idx):
        return None
    apart = I.advanced_layout(idx)
    idx = I.ints_as_arrays(x.shape, idx, wrap_negative)
    if not all(i == whole if isinstance(i, slice) else isinstance(i, (Array, Tracer)) for i in idx):
        return None
    advanced = {axis: i for axis, i in enumerate(idx) if not isinstance(i, slice)}
    rows, axes, shape = I.rows_of(x, advanced, mode, wrap_negative)
    front = 0 if apart else axes[0]
    mode = "fill" if mode == "fill" else "clip"
    if not apart and len(axes) == axes[-1] - front + 1:
        before, after = x.shape[:front], x.shape[axes[-1] + 1 :]
        table = S.reshape(x, (*before, math.prod(x.shape[a] for a in axes), *after))
        values = S.reshape(_fitting(x, values, (*before, *shape, *after)), (*before, rows.size, *after))
        return S.reshape(put_rows(kind, table, S.reshape(rows, (rows.size,)), values, mode, front), x.shape)
    table, perm, tail = I.table_of(x, axes)
    values = _fitting(x, values, (*tail[:front], *shape, *tail[front:]))
    if front:
        n = len(shape)
        values = S.transpose(values, (*range(front, front + n), *range(front), *range(front + n, values.ndim)))
    n = rows.size
    out = put_rows(kind, table, S.reshape(rows, (n,)), S.reshape(values, (n, *tail)), mode)
    out = S.reshape(out, tuple(x.shape[p] for p in perm))
    return S.transpose(out, tuple(int(i) for i in np.argsort(perm)))


def _update_place(x, idx, values, kind, mode, wrap_negative):
    """x with values combined into one window at traced integers beside slices of unit stride, some of them parts; None for any other."""
    numbers = all(isinstance(i, (slice, int)) or isinstance(i, Tracer) and i.ndim == 0 for i in idx)
    if not numbers or len(idx) != x.ndim or mode == "wrap":
        return None
    starts, shape, inserted = {}, [], []
    wide = any(isinstance(i, Tracer) and i.dtype.itemsize > 4 for i in idx) or max(x.shape) >= 2**31
    dtype = dtypes.INT64 if wide else dtypes.INT32
    for axis, (i, n) in enumerate(zip(idx, x.shape)):
        if isinstance(i, slice):
            lo, hi, step = i.indices(n)
            if step != 1 or hi <= lo:
                return None
            if hi - lo < n:
                starts[axis] = lo
            shape.append(hi - lo)
            continue
        inserted.append(axis)
        if isinstance(i, int):
            i = i + n if i < 0 and wrap_negative else i
        elif not dtypes.is_signed(i.dtype):
            return None
        elif wrap_negative:
            i = E.select(E.lt(i, E.like(i, 0)), E.add(i, E.like(i, n)), i)
        starts[axis] = i
    if all(axis in inserted for axis in starts):  # whole rows
        return None
    values = _fitting(x, values, tuple(shape))
    at = [S.reshape(E.cast_as(as_array("scatter", i if isinstance(i, Tracer) else dtype.type(i)), dtype), (1,)) for i in starts.values()]
    numbers = ScatterDimensionNumbers(tuple(range(len(shape))), tuple(inserted), tuple(starts))
    return put(kind, x, S.concatenate(at, 0), values, numbers, mode=mode, unique_indices=True)


def _negative(idx):
    return any(isinstance(i, int) and i < 0 for i in idx)


def _combine(x, idx, values, kind, mode, wrap_negative):
    """x with values combined into x[idx]."""
    if any(map(I.is_scalar_mask, idx if isinstance(idx, tuple) else (idx,))):
        return S.reshape(_combine(*I.with_mask_axes(x, idx), values, kind, mode, wrap_negative), x.shape)
    norm = I.normalize(x.shape, idx)
    if config.mark_indices:
        I.mark_bounds(x.shape, norm, I.mode_of(mode), wrap_negative)
    window = _window(x.shape, norm)
    if window is not None and (wrap_negative or not _negative(norm)):
        return _update_window(x, window, values, kind)
    how = "fill" if (m := I.mode_of(mode)) in _DROPPING else m
    for update in (_update_rows, _update_place):
        if (out := update(x, norm, values, kind, how, wrap_negative)) is not None:
            return out
    steps = (
        _steps(x.shape, norm) if kind in ("set", *_NEUTRAL) and x.dtype.kind in "fiu" and (wrap_negative or not _negative(norm)) else None
    )
    if steps is not None:
        return _update_steps(x, norm, steps, values, kind)
    rows = _positions(x, idx, mode, wrap_negative)
    values = _fitting(x, values, rows.shape)
    n = rows.size
    flat = put_rows(kind, S.reshape(x, (x.size,)), S.reshape(rows, (n,)), S.reshape(values, (n,)))
    return S.reshape(flat, x.shape)


@eager(2)
def _combine_static(x, values, key, kind, mode, wrap_negative):
    return _combine(x, I.thawed(key), values, kind, mode, wrap_negative)


@eager(-2)
def _combine_window(arrays, sizes, squeezed, kind):
    x, values, *given = arrays
    given = iter(given)
    starts = [0 if n == size else next(given) for n, size in zip(x.shape, sizes)]
    return _update_window(x, (starts, sizes, squeezed), values, kind)


@eager(3)
def _combine_at(x, values, i, kind, mode, wrap_negative):
    return _combine(x, i, values, kind, mode, wrap_negative)


@eager(-2)
def _combine_parts(arrays, rest, kind, mode, wrap_negative):
    x, values, *index = arrays
    return _combine(x, I.joined(index, rest), values, kind, mode, wrap_negative)


def _is_alike(x, mask, values):
    """True if a mask over leading axes of x has the same update for all its elements, whatever their number."""
    return type(values) in SCALARS or isinstance(values, (Array, Tracer)) and values.ndim <= x.ndim - mask.ndim


@eager(3)
def _combine_masked(x, values, mask, kind):
    tail = x.shape[mask.ndim :]
    values = spread(S.reshape(_fitting(x, values, tail), (1,) * mask.ndim + tail), x.shape)
    mask = spread(S.reshape(mask, mask.shape + (1,) * len(tail)), x.shape)
    return E.select(mask, values if kind == "set" else _COMBINE[kind](x, values), x)


def _put_masked(x, values, mask, kind):
    values = _fitting(x, values, (masks.true_count(mask), *x.shape[mask.ndim :]))
    return masks.placed(x, mask, values if kind == "set" else _COMBINE[kind](masks.selected(x, mask), values))


def _wider(x, values):
    """The dtype that an update is computed in where x's does not hold all values: there is a warning of the cast to x's. Else None."""
    kind = x.dtype.kind
    if type(values) is int and kind != "b" or type(values) is float and kind in "fc" or x.dtype == dtypes.float0:
        return None
    wider = dtypes.result_type(x.dtype, values)
    if wider == x.dtype or dtypes.canonicalize_dtype(x.dtype) is not x.dtype:
        return None
    warnings.warn(
        f"an indexed update casts values of dtype {dtypes.result_type(values)} to {x.dtype}, which does not hold them all: "
        "scatter inputs have incompatible types. Cast with astype to say that it is meant.",
        FutureWarning,
        stacklevel=4,
    )
    return wider


def _negated(values, dtype):
    """-values in the dtype that they are subtracted in: the negative of an unsigned or a narrow number is another one there."""
    if type(values) in (int, float, complex) or type(values) is bool and dtype != dtypes.BOOL:
        return -values
    return E.neg(E.cast_as(as_array("subtract", values), dtype))


def _update(x, idx, values, kind, mode=None, wrap_negative=True):
    """x with values combined into x[idx]; for concrete arrays as a cached program."""
    if getattr(values, "dtype", None) is not x.dtype:
        values = array(values, copy=False) if isinstance(values, (list, tuple)) else values
        wider = _wider(x, values)
        if wider is not None and kind != "set":
            out = _update(E.cast_as(x, wider), idx, E.cast_as(as_array("scatter", values), wider), kind, mode, wrap_negative)
            there = _update(full(x.shape, False, dtypes.BOOL), idx, True, "set", mode, wrap_negative)  # the others stay to the bit
            return E.select(there, E.cast_as(out, x.dtype, x.weak_type), x)
    if kind == "sub":
        values, kind = _negated(values, x.dtype), "add"
    if mode is not None:
        I.mode_of(mode)  # one that is not known is refused also where it makes no difference
    if has_slices(idx):
        window = Window(x, idx, I.axes_used(idx))
        return window.updated(lambda old: _update(old, window.index, values, kind, mode, wrap_negative))
    whole = type(x) is Array or is_recorded(x)  # then it is one program, or one operation of a recording
    if whole and type(idx) in _PLACES and wrap_negative and x.ndim and x.dtype.itemsize > 2:
        window = known_window(x.shape, idx)
        if window is not None and isinstance(values, _OPERANDS):
            starts, sizes, squeezed = window  # where it starts is a number in the program, not one program for each place
            return _combine_window([x, values, *starts], sizes, squeezed, kind)
    if I.masks_rows(idx, x):
        if _is_alike(x, idx, values):
            return _combine_masked(x, values, idx, kind)
        if type(x) is Array and not isinstance(values, Tracer) and context.trace is eval_trace:
            return _put_masked(x, values, idx, kind)
    if whole:
        parts = parted(idx)
        if parts is not None and parts[2] is None:
            return _combine_parts([x, values, *parts[0]], parts[1], kind, mode, wrap_negative)
        if type(idx) is Array and idx.dtype.kind in "iu":
            return _combine_at(x, values, idx, kind, mode, wrap_negative)
        key = I.frozen(idx)
        if key is not None:
            return _combine_static(x, values, key, kind, mode, wrap_negative)
    return _combine(x, idx, values, kind, mode, wrap_negative)


def _once(idx):
    """Whether no element is indexed twice: by slices and by single integers."""
    idx = idx if type(idx) is tuple else (idx,)
    return all(i is None or i is Ellipsis or isinstance(i, (slice, int, np.integer)) or getattr(i, "size", 2) == 1 for i in idx)


def _apply(x, idx, fun, values, mode, unique, wrap_negative):
    """x with fun(x[idx], values) at idx, applied again for each repetition of an index."""
    if has_slices(idx):
        window = Window(x, idx, I.axes_used(idx))
        return window.updated(lambda old: _apply(old, window.index, fun, values, mode, unique, wrap_negative))
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


@eager(2)
def _get_at(x, i, mode, fill_value, wrap_negative):
    return I.getitem(x, i, mode, fill_value, wrap_negative)


class IndexUpdateRef(Place):
    """x.at[idx]: each method returns a new array with x[idx] updated; out-of-range updates are dropped.

    >>> import fgrad.numpy as jnp
    >>> jnp.zeros(3).at[1].set(5.)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ()

    def get(
        self, *, indices_are_sorted=False, unique_indices=False, mode=None, fill_value=None, out_sharding=None, wrap_negative_indices=True
    ):
        """x[idx], out-of-range indices clamped, or filled with mode="fill" (by NaN, or the least signed or greatest unsigned integer)."""
        if mode is not None:
            I.mode_of(mode)
        x, i = self.array, self.index
        if type(x) is Array and mode is None and wrap_negative_indices:
            return I.index(x, i)
        if type(x) is Array and type(i) is Array and i.dtype.kind in "iu":
            return _get_at(x, i, mode, fill_value, wrap_negative_indices)
        return I.getitem(x, i, mode, fill_value, wrap_negative_indices)

    def set(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x with values at idx; of repeated indices the last one wins."""
        if mode is None and wrap_negative_indices and (out := updated(self.array, self.index, values, "set")) is not None:
            return out
        return _update(self.array, self.index, values, "set", mode, wrap_negative_indices)

    def add(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x with values added at idx."""
        if mode is None and wrap_negative_indices and (out := updated(self.array, self.index, values, "add")) is not None:
            return out
        return _update(self.array, self.index, values, "add", mode, wrap_negative_indices)

    def subtract(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x with values subtracted at idx."""
        if type(values) in _REALS and mode is None and wrap_negative_indices:
            if (out := updated(self.array, self.index, -values, "add")) is not None:
                return out
        return _update(self.array, self.index, values, "sub", mode, wrap_negative_indices)

    def multiply(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x multiplied by values at idx."""
        if mode is None and wrap_negative_indices and (out := updated(self.array, self.index, values, "mul")) is not None:
            return out
        return _update(self.array, self.index, values, "mul", mode, wrap_negative_indices)

    mul = multiply

    def divide(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x divided by values at idx, as a float."""
        if dtypes.is_inexact(self.array.dtype) and _once(self.index):
            _wider(self.array, values)
            within = mode if mode is None or I.mode_of(mode) not in _DROPPING else "clip"  # what is dropped has no NaN in its derivative
            old = self.get(mode=within, wrap_negative_indices=wrap_negative_indices)
            return self.set(old / _fitting(self.array, values, old.shape), mode=mode, wrap_negative_indices=wrap_negative_indices)
        ones = E.broadcast_to(as_array("divide", E.like(self.array, 1)), self.array.shape)
        return self.array / _update(ones, self.index, values, "mul", mode, wrap_negative_indices)

    def min(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x with the minimum of itself and values at idx."""
        return _update(self.array, self.index, values, "min", mode, wrap_negative_indices)

    def max(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x with the maximum of itself and values at idx."""
        return _update(self.array, self.index, values, "max", mode, wrap_negative_indices)

    def power(self, values, *, indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True):
        """x raised to values at idx."""
        _wider(self.array, values)
        values = as_array("power", values)
        power = lambda v, u: v**u
        return _apply(self.array, self.index, power, values, mode, unique_indices, wrap_negative_indices)

    def apply(self, func, *, indices_are_sorted=False, unique_indices=False, mode=None, wrap_negative_indices=True):
        """x with the elementwise func applied at idx, again for each repetition of an index."""
        return _apply(self.array, self.index, lambda v, _: func(v), None, mode, unique_indices, wrap_negative_indices)


updates_of = install_place(IndexUpdateRef)
