"""pad in all of NumPy's modes."""

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import reductions as R
from fgrad.numpy.manipulation import concatenate
from fgrad.numpy.selection import round as _round
from fgrad.numpy.statistics import median
from fgrad.numpy.util import as_array, broadcast_shape, spread
from fgrad.ops import elementwise as E
from fgrad.ops import shape as S
from fgrad.ops.surround import joined, runs, surround

__all__ = ["pad"]

_BY_POSITION = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS = {"maximum": R.max, "minimum": R.min, "mean": R.mean, "median": median}
_OPTIONS = {
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    "reflect": ("reflect_type",),
    "symmetric": ("reflect_type",),
    **dict.fromkeys(_STATISTICS, ("stat_length",)),
}
_DEFAULTS = {"constant_values": 0, "end_values": 0, "reflect_type": "even", "stat_length": None}


def _pairs(name, value, ndim):
    """A width argument as a list of (before, after) per axis: a number, (n,), (before, after), one pair, or a pair per axis."""
    if isinstance(value, dict):
        table = [(0, 0)] * ndim
        for axis, w in value.items():
            table[axis] = tuple(w) if np.iterable(w) else (w, w)
        value = table
    try:
        return np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()
    except ValueError:
        raise ValueError(f"pad: {name}={value!r} must be a number, a pair, or a pair for each of {ndim} axes") from None


def pad(array, pad_width, mode="constant", **kwargs):
    """array with margins of pad_width: a number, a (before, after) pair, one pair per axis, or a dictionary {axis: width}.

    mode: constant (constant_values=), edge, reflect and symmetric (reflect_type="even" or "odd"), wrap, linear_ramp (end_values=),
    maximum, minimum, mean and median (stat_length=), empty, or a function(vector, (before, after), axis, kwargs) that returns a vector.

    >>> import fgrad.numpy as jnp
    >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="reflect")
    Array([2, 1, 2, 3, 2, 1], dtype=int32)
    """
    if callable(mode):
        x = as_array("pad", array)
        return E.convert_element_type(_by_function(x, _widths(pad_width, x.ndim), mode, kwargs), x.dtype, x.aval.weak_type)
    return _padded(array, pad_width, mode, **kwargs)


def _widths(pad_width, ndim):
    width = _pairs("pad_width", pad_width, ndim)
    if any(isinstance(w, float) for pair in width for w in pair):
        raise TypeError("`pad_width` must be of integral type.")
    if any(w < 0 for pair in width for w in pair):
        raise ValueError("index can't contain negative values")
    return width


@eager(1)
def _padded(array, pad_width, mode, **kwargs):
    x = as_array("pad", array)
    return E.convert_element_type(_with_margins(x, pad_width, mode, kwargs), x.dtype, x.aval.weak_type)


def _with_margins(x, pad_width, mode, kwargs):
    width = _widths(pad_width, x.ndim)
    known = ("constant", "empty", "linear_ramp", *_BY_POSITION, *_STATISTICS)
    if mode not in known:
        raise NotImplementedError(f"Unimplemented padding mode {mode!r} for np.pad; modes are {', '.join(known)} or a function.")
    unknown = set(kwargs) - set(_OPTIONS.get(mode, ()))
    if unknown:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {sorted(unknown)}")
    options = {k: kwargs.get(k, _DEFAULTS[k]) for k in _OPTIONS.get(mode, ())}
    if mode in ("constant", "empty"):
        return _constant(x, width, options.get("constant_values", 0))
    if mode == "linear_ramp":
        return _linear_ramp(x, width, options["end_values"])
    if mode in _STATISTICS:
        return _statistic(x, width, mode, options["stat_length"])
    return _positional(x, width, mode, options.get("reflect_type", "even"))


def _margins(x, axis, before, after):
    """x with margins of given scalars, ((width, value), (width, value)), along an axis."""
    for (w, value), front in ((before, True), (after, False)):
        config = [(0, 0, 0)] * x.ndim
        config[axis] = (w, 0, 0) if front else (0, w, 0)
        x = S.pad(x, E.convert_element_type(as_array("pad", value), x.dtype), config)
    return x


def _per_side(name, values, ndim):
    """Values for each side of each axis, which may be traced, as [[before, after], ...]."""
    if isinstance(values, (list, tuple)) or not hasattr(values, "aval"):
        if not any(hasattr(v, "aval") for v in (values if isinstance(values, (list, tuple)) else ())):
            return _pairs(name, values, ndim)
        values = concatenate([as_array("pad", v).reshape(1) for v in values])
    broadcast_shape(values.shape, (ndim, 2))
    values = spread(values, (ndim, 2))
    return [[values[i, j] for j in range(2)] for i in range(ndim)]


def _constant(x, width, values):
    if np.ndim(values) == 0:
        if type(values) in (int, float) and dtypes.is_float(x.dtype):
            value = x.dtype.type(values)  # a constant in the program
        else:
            value = E.convert_element_type(as_array("pad", values), x.dtype)
        return S.pad(x, value, [(a, b, 0) for a, b in width]) if x.ndim else x
    for axis, ((a, b), (lo, hi)) in enumerate(zip(width, _per_side("constant_values", values, x.ndim))):
        x = _margins(x, axis, (a, lo), (b, hi))
    return x


def _positional(x, width, mode, reflect_type):
    """Margins of copies of elements: which ones is NumPy's own answer for a vector of positions."""
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}")
    near, far = [], []  # far: axes whose margins are longer, or more pieces
    for axis, (a, b) in enumerate(width):
        n = x.shape[axis]
        if not (a or b):
            continue
        if n == 0:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if reflect_type == "odd":
            x = _odd(x, axis, a, b, mode)
            continue
        rows = np.pad(np.arange(n), (a, b), mode=mode)
        if max(a, b) <= _MOST and len(runs(rows)) <= _MOST_RUNS:
            near.append((axis, tuple(rows[:a].tolist()), tuple(rows[a + n :].tolist())))
        else:
            far.append((axis, a, rows, b))
    x = surround(x, tuple(near)) if near else x
    for axis, a, rows, b in far:
        if len(runs(rows)) > _MOST_RUNS:
            x = x[(slice(None),) * axis + (rows,)]
        else:
            x = joined(x, ((axis, rows[:a], rows[len(rows) - b :]),))
    return x


_MOST_RUNS = 16  # of neighbouring elements in a margin and what it surrounds; more are gathered
_MOST = 1024  # elements of a margin that are listed one by one


def _odd(x, axis, a, b, mode):
    """Point reflection at the first and last element, as often as the margin needs."""
    skip = 1 if mode == "reflect" else 0
    while a or b:
        n = x.shape[axis]
        step = n - skip
        if step == 0:
            return x[(slice(None),) * axis + (np.zeros(n + a + b, int),)]
        first, last = S.slice_in_dim(x, 0, 1, axis=axis), S.slice_in_dim(x, n - 1, n, axis=axis)
        la, lb = min(a, step), min(b, step)
        left = 2 * first - S.rev(S.slice_in_dim(x, skip, skip + la, axis=axis), (axis,))
        right = 2 * last - S.rev(S.slice_in_dim(x, n - skip - lb, n - skip, axis=axis), (axis,))
        x, a, b = concatenate([left, x, right], axis), a - la, b - lb
    return x


def _linear_ramp(x, width, ends):
    for axis, ((a, b), (lo, hi)) in enumerate(zip(width, _per_side("end_values", ends, x.ndim))):
        n = x.shape[axis]
        edges = S.slice_in_dim(x, 0, 1, axis=axis), S.slice_in_dim(x, n - 1, n, axis=axis)
        x = concatenate([_ramp(edges[0], lo, a, axis, False), x, _ramp(edges[1], hi, b, axis, True)], axis)
    return x


def _ramp(edge, end, w, axis, descending):
    """w values from `end` to just before the edge (or the other way round)."""
    dtype = dtypes.to_inexact(edge.dtype)
    shape = tuple(w if i == axis else d for i, d in enumerate(edge.shape))
    t = E.div(S.broadcasted_iota(dtype, shape, axis), dtype.type(max(w, 1)))
    t = S.rev(t, (axis,)) if descending else t
    end = E.convert_element_type(as_array("pad", end), dtype)
    start = spread(E.convert_element_type(edge, dtype), shape)
    ramp = E.add(E.mul(E.sub(start, end), t), end)
    # NumPy rounds ramps of integers down, towards the start of the ramp's own direction.
    return E.convert_element_type(ramp if dtypes.is_inexact(edge.dtype) else E.floor(ramp), edge.dtype)


def _statistic(x, width, mode, lengths):
    fun = _STATISTICS[mode]
    lengths = _pairs("stat_length", lengths, x.ndim) if lengths is not None else [(n, n) for n in x.shape]
    for axis, ((a, b), (la, lb)) in enumerate(zip(width, lengths)):
        n = x.shape[axis]
        if min(la, lb) < 1:
            raise ValueError("stat_length must be at least 1")
        parts = S.slice_in_dim(x, 0, min(la, n), axis=axis), S.slice_in_dim(x, n - min(lb, n), n, axis=axis)
        values = [fun(p, axis, keepdims=True) for p in parts]
        if not dtypes.is_inexact(x.dtype) and x.dtype.kind != "b":
            values = [_round(v) for v in values]
        values = [E.convert_element_type(v, x.dtype) for v in values]
        shapes = [tuple(w if i == axis else d for i, d in enumerate(x.shape)) for w in (a, b)]
        x = concatenate([spread(values[0], shapes[0]), x, spread(values[1], shapes[1])], axis)
    return x


def _by_function(x, width, fun, kwargs):
    """Each vector with empty margins goes through the function, axis after axis."""
    out = _constant(x, width, 0)
    for axis in range(x.ndim):
        rows = S.reshape(_behind(out, axis), (out.size // max(out.shape[axis], 1), out.shape[axis]))
        done = [fun(rows[i], tuple(width[axis]), axis, kwargs) for i in range(rows.shape[0])]
        done = concatenate([S.reshape(as_array("pad", d), (1, d.size)) for d in done])
        moved = _behind(out, axis)
        out = _front(S.reshape(done, moved.shape), axis)
    return out


def _behind(x, axis):
    return S.transpose(x, (*[i for i in range(x.ndim) if i != axis], axis))


def _front(x, axis):
    n = x.ndim
    return S.transpose(x, (*range(axis), n - 1, *range(axis, n - 1)))
