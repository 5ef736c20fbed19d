"""Reductions, running reductions, sorting and selection by value."""

import builtins
import math

import numpy as np

from fgrad import dtypes
from fgrad.core import from_numpy
from fgrad.errors import ConcretizationTypeError
from fgrad.numpy import ufuncs as U
from fgrad.numpy.util import (
    as_array,
    as_operand,
    axis_index,
    axis_tuple,
    binary,
    broadcasted,
    no_out,
    promoted,
    unary,
    user_dtype,
    with_axes,
)
from fgrad.ops import argreduce, cumulative, reduce
from fgrad.ops import elementwise as E
from fgrad.ops import sort as sort_ops
from fgrad.ops.shape import broadcasted_iota, concatenate, rev, slice_in_dim
from fgrad.ops.shape import reshape as _reshape


def _masked(name, x, where, fill):
    if where is None:
        return x
    x, where = broadcasted(name, [x, as_array(name, where)])
    return E.select(U.truth(where), x, E.like(x, fill))


def _reduce(name, fun, a, axis, keepdims, where=None, fill=None, dtype=None, initial=None, numeric=True, combine=None, needs=False):
    x = unary(name, a, numeric=numeric)
    if dtype is not None:
        x = E.convert_element_type(x, user_dtype(dtype))
    axes = axis_tuple(axis, x.ndim)
    if needs and initial is None and builtins.any(x.shape[i] == 0 for i in axes):
        raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    if needs and where is not None and initial is None:
        raise ValueError(f"reduction operation {name} does not have an identity, so to use a where mask one has to specify 'initial'")
    if where is not None:
        x = _masked(name, x, where, fill(x.dtype) if callable(fill) else fill)
        axes = axis_tuple(axis, x.ndim)
    out = fun(x, axes)
    if initial is not None:
        out = combine(out, initial)
    return with_axes(out, axes, x.ndim) if keepdims else out


def _lowest(dtype):
    return -np.inf if dtypes.is_inexact(dtype) else (False if dtype == dtypes.BOOL else np.iinfo(dtype).min)


def _highest(dtype):
    return np.inf if dtypes.is_inexact(dtype) else (True if dtype == dtypes.BOOL else np.iinfo(dtype).max)


def sum(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    """Sum over axes. Booleans and small integers are summed as the default integer."""
    no_out("sum", out)
    return _reduce("sum", reduce.reduce_sum, _widen(a, dtype), axis, keepdims, where, 0, dtype, initial, combine=U.add)


def prod(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
    no_out("prod", out)
    return _reduce("prod", reduce.reduce_prod, _widen(a, dtype), axis, keepdims, where, 1, dtype, initial, combine=U.multiply)


def _widen(a, dtype):
    """As NumPy, small integers are summed in the default integer."""
    x = as_array("sum", a)
    if dtype is None and x.dtype.kind in "iub" and x.dtype.itemsize < dtypes.int_dtype().itemsize:
        if x.dtype.kind == "u":
            return E.convert_element_type(x, dtypes.canonicalize_dtype(np.uint64))
        return E.convert_element_type(x, dtypes.int_dtype())
    return x


def max(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    no_out("max", out)
    return _reduce("max", reduce.reduce_max, a, axis, keepdims, where, _lowest, None, initial, False, U.maximum, True)


def min(a, axis=None, out=None, keepdims=False, initial=None, where=None):
    no_out("min", out)
    return _reduce("min", reduce.reduce_min, a, axis, keepdims, where, _highest, None, initial, False, U.minimum, True)


amax, amin = max, min


def any(a, axis=None, out=None, keepdims=False, where=None):
    return _reduce("any", reduce.reduce_or, U.truth(as_array("any", a)), axis, keepdims, where, False, numeric=False)


def all(a, axis=None, out=None, keepdims=False, where=None):
    return _reduce("all", reduce.reduce_and, U.truth(as_array("all", a)), axis, keepdims, where, True, numeric=False)


def ptp(a, axis=None, keepdims=False):
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


def mean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """Mean over axes; integers give the default float."""
    x = unary("mean", a, inexact=True)
    if dtype is not None:
        x = E.convert_element_type(x, user_dtype(dtype))
    axes = axis_tuple(axis, x.ndim)
    total = sum(x, axes, keepdims=keepdims, where=where)
    if where is None:
        return E.div(total, E.like(total, math.prod(x.shape[i] for i in axes)))
    count = sum(_masked("mean", E.broadcast_to(E.like(x, 1), x.shape), where, 0), axes, keepdims=keepdims)
    return U.true_divide(total, count)


def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, *, correction=None):
    """Variance over axes, with divisor n - ddof."""
    x = unary("var", a, inexact=True)
    ddof = ddof if correction is None else correction
    axes = axis_tuple(axis, x.ndim)
    d = U.subtract(x, mean(x, axes, keepdims=True, where=where))
    sq = E.real(E.mul(d, E.conj(d))) if d.dtype.kind == "c" else E.square(d)
    total = sum(sq, axes, keepdims=keepdims, where=where)
    n = (
        math.prod(x.shape[i] for i in axes)
        if where is None
        else sum(_masked("var", E.broadcast_to(E.like(x, 1), x.shape), where, 0), axes, keepdims=keepdims)
    )
    out = U.true_divide(total, n - ddof)
    return out if dtype is None else out.astype(dtype)


def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, *, correction=None):
    return E.sqrt(var(a, axis, dtype, None, ddof, keepdims, where, correction=correction))


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    a, w = binary("average", a, weights, inexact=True)
    return sum(a * w, axis, keepdims=keepdims) / sum(w, axis, keepdims=keepdims)


def count_nonzero(a, axis=None, keepdims=False):
    return sum(U.truth(as_array("count_nonzero", a)), axis, dtype=dtypes.int_dtype(), keepdims=keepdims)


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = unary("nan_to_num", x)
    if not dtypes.is_inexact(x.dtype):
        return x
    info = dtypes.finfo(x.dtype)
    x = where(U.isnan(x), nan, x)
    x = where(U.isposinf(x), float(info.max) if posinf is None else posinf, x)
    return where(U.isneginf(x), float(info.min) if neginf is None else neginf, x)


def _nan(fun, fill):
    def wrapped(a, axis=None, keepdims=False, **kw):
        x = as_array(fun.__name__, a)
        return fun(where(U.isnan(x), E.like(x, fill(x.dtype)), x) if dtypes.is_inexact(x.dtype) else x, axis, keepdims=keepdims, **kw)

    wrapped.__name__ = wrapped.__qualname__ = "nan" + fun.__name__
    return wrapped


nansum, nanprod, nanmax, nanmin = _nan(sum, lambda d: 0), _nan(prod, lambda d: 1), _nan(max, _lowest), _nan(min, _highest)


def nanmean(a, axis=None, keepdims=False):
    x = unary("nanmean", a, inexact=True)
    return mean(x, axis, keepdims=keepdims, where=E.bitwise_not(U.isnan(x)))


def nanvar(a, axis=None, ddof=0, keepdims=False):
    x = unary("nanvar", a, inexact=True)
    return var(where(U.isnan(x), 0, x), axis, ddof=ddof, keepdims=keepdims, where=E.bitwise_not(U.isnan(x)))


def nanstd(a, axis=None, ddof=0, keepdims=False):
    return E.sqrt(nanvar(a, axis, ddof, keepdims))


def _running(name, prim):
    def fun(a, axis=None, dtype=None, out=None):
        x = _widen(a, dtype)
        x = x if dtype is None else E.convert_element_type(x, user_dtype(dtype))
        if axis is None:
            x, axis = _reshape(x, (x.size,)), 0
        return prim(x, axis_index(axis, x.ndim))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"{name} along an axis (over the flattened array by default)."
    return fun


cumsum, cumprod = _running("cumsum", cumulative.cumsum), _running("cumprod", cumulative.cumprod)


def diff(a, n=1, axis=-1):
    x = as_array("diff", a)
    axis = axis_index(axis, x.ndim)
    for _ in range(n):
        size = x.shape[axis]
        hi, lo = slice_in_dim(x, 1, size, axis=axis), slice_in_dim(x, 0, size - 1, axis=axis)
        x = E.ne(hi, lo) if x.dtype == dtypes.BOOL else E.sub(hi, lo)
    return x


def _arg(name, fun):
    def wrapped(a, axis=None, out=None, keepdims=None):
        x = as_array(name, a)
        ndim = x.ndim
        if axis is None:
            x = _reshape(x, (x.size,))
        i = 0 if axis is None else axis_index(axis, ndim)
        if x.shape[i] == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        res = fun(x, i, dtypes.int_dtype())
        return with_axes(res, range(ndim) if axis is None else (i,), ndim) if keepdims else res

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"{name}: the first position of the extremum; NaN counts as the extremum."
    return wrapped


argmax, argmin = _arg("argmax", argreduce.argmax), _arg("argmin", argreduce.argmin)


def sort(a, axis=-1, *, stable=True, descending=False, kind=None):
    """A sorted copy; NaN last."""
    x = as_array("sort", a)
    if axis is None:
        x, axis = _reshape(x, (x.size,)), 0
    axis = axis_index(axis, x.ndim)
    out = sort_ops.sort(x, axis)
    return rev(out, (axis,)) if descending else out


def argsort(a, axis=-1, *, stable=True, descending=False, kind=None):
    """The positions that sort an array; stable."""
    x = as_array("argsort", a)
    if axis is None:
        x, axis = _reshape(x, (x.size,)), 0
    axis = axis_index(axis, x.ndim)
    position = broadcasted_iota(dtypes.int_dtype(), x.shape, axis)
    if descending:
        flipped = sort_ops.sort((rev(x, (axis,)), rev(position, (axis,))), axis, num_keys=1)[1]
        return rev(flipped, (axis,))
    return sort_ops.sort((x, position), axis, num_keys=1)[1]


def lexsort(keys, axis=-1):
    keys = [as_array("lexsort", k) for k in keys]
    axis = axis_index(axis, keys[0].ndim)
    position = broadcasted_iota(dtypes.int_dtype(), keys[0].shape, axis)
    return sort_ops.sort((*keys[::-1], position), axis, num_keys=len(keys))[-1]


def searchsorted(a, v, side="left"):
    a, v = promoted("searchsorted", [as_array("searchsorted", a), as_array("searchsorted", v)])
    return sort_ops.searchsorted(a, v, side)


def quantile(a, q, axis=None, keepdims=False):
    """Linear-interpolation quantile; q is a number in [0, 1] or an array of them."""
    x = unary("quantile", a, inexact=True)
    if axis is None:
        shape, x, axis = x.ndim, _reshape(x, (x.size,)), 0
        restore = range(shape)
    else:
        shape, axis = x.ndim, axis_index(axis, x.ndim)
        restore = (axis,)
    ordered = sort(x, axis)
    n = x.shape[axis]
    qs = np.asarray(q, np.float64)
    out = []
    for p in qs.ravel():
        at = p * (n - 1)
        lo = int(np.floor(at))
        hi = builtins.min(lo + 1, n - 1)
        low, high = (_reshape(slice_in_dim(ordered, i, i + 1, axis=axis), x.shape[:axis] + x.shape[axis + 1 :]) for i in (lo, hi))
        out.append(E.add(low, E.mul(E.sub(high, low), E.like(low, at - lo))))
    out = [with_axes(o, restore, shape) if keepdims else o for o in out]
    return out[0] if qs.ndim == 0 else _stack(out, qs.shape)


def _stack(xs, lead):
    return _reshape(concatenate([_reshape(x, (1, *x.shape)) for x in xs], 0), (*lead, *xs[0].shape))


def percentile(a, q, axis=None, keepdims=False):
    return quantile(a, np.asarray(q, np.float64) / 100, axis, keepdims)


def median(a, axis=None, keepdims=False):
    return quantile(a, 0.5, axis, keepdims)


def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """x where condition holds, else y. With one argument: the positions of true values (concrete arrays only)."""
    if x is None or y is None:
        if x is not None or y is not None:
            raise ValueError("Either both or neither of the x and y parameters should be provided to where.")
        return nonzero(condition)
    c = as_array("where", condition)
    c = U.truth(c)
    x, y = promoted("where", [as_operand("where", x, 1), as_operand("where", y, 2)])
    c, x, y = broadcasted("where", [c, x, y])
    shape = np.broadcast_shapes(c.shape, *[v.shape for v in (x, y) if hasattr(v, "aval")])
    if c.shape == () and shape:
        c = E.broadcast_to(c, shape)
    return E.select_p.bind(c, x, y)


def nonzero(a):
    """Positions of the nonzero elements, one array per axis; the argument must be concrete."""
    x = as_array("nonzero", a)
    if not x._is_concrete:
        x = x._need(ConcretizationTypeError, "nonzero", "Its result's size depends on values: use where(cond, x, y).")
    return tuple(from_numpy(i) for i in np.nonzero(np.asarray(x)))


def clip(arr=None, /, min=None, max=None, *, a=None, a_min=None, a_max=None):
    """Values limited to [min, max]; either may be None."""
    x = as_array("clip", arr if arr is not None else a)
    lo, hi = min if min is not None else a_min, max if max is not None else a_max
    if lo is not None:
        x = U.maximum(lo, x)
    if hi is not None:
        x = U.minimum(hi, x)
    return x


def round(a, decimals=0, out=None):
    """To the given number of decimals, ties to even."""
    x = unary("round", a)
    if not dtypes.is_inexact(x.dtype):
        return x
    if decimals == 0:
        return E.round_even_p.bind(x)
    scale = E.like(x, 10.0**decimals)
    return E.div(E.round_even_p.bind(E.mul(x, scale)), scale)


around = round


def _rounding(name, prim):
    def fun(x, /):
        x = unary(name, x)
        return prim.bind(x) if dtypes.is_inexact(x.dtype) else x

    fun.__name__ = fun.__qualname__ = name
    return fun


floor, ceil, trunc = _rounding("floor", E.floor_p), _rounding("ceil", E.ceil_p), _rounding("trunc", E.trunc_p)
fix, rint = trunc, _rounding("rint", E.round_even_p)


def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    a, b = binary("isclose", a, b, inexact=True)
    a, b = as_array("isclose", a), as_array("isclose", b)
    near = U.less_equal(U.absolute(a - b), atol + rtol * U.absolute(b))
    out = where(U.isfinite(a) & U.isfinite(b), near, a == b)
    return out | (U.isnan(a) & U.isnan(b)) if equal_nan else out


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    return all(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1, a2, equal_nan=False):
    a1, a2 = as_array("array_equal", a1), as_array("array_equal", a2)
    if a1.shape != a2.shape:
        return as_array("array_equal", False)
    same = a1 == a2
    return all(same | (U.isnan(a1) & U.isnan(a2)) if equal_nan else same)


def unique(x, return_index=False, return_inverse=False, return_counts=False):
    """Sorted distinct values of a concrete array, as NumPy's unique."""
    x = as_array("unique", x)
    out = np.unique(
        np.asarray(x if x._is_concrete else x._need(ConcretizationTypeError, "unique", "Its result's size depends on values.")),
        return_index,
        return_inverse,
        return_counts,
    )
    return tuple(map(from_numpy, out)) if isinstance(out, tuple) else from_numpy(out)
