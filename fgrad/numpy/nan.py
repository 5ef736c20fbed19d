"""Reductions that leave NaN out."""

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import reductions as R
from fgrad.numpy import ufuncs as U
from fgrad.numpy.selection import where as _where
from fgrad.numpy.util import as_array, no_out, user_dtype
from fgrad.ops import argreduce, reduce
from fgrad.ops import elementwise as E

__all__ = [
    "nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nancumsum", "nancumprod", "nanargmax", "nanargmin",
]  # fmt: skip


def _filled(x, fill):
    """x with `fill` for NaN."""
    return _where(U.isnan(x), E.like(x, fill), x) if dtypes.is_inexact(x.dtype) else x


def _nan_sum(name, fun, fill):
    def wrapped(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None):
        return fun(_filled(as_array(name, a), fill), axis, dtype, out, keepdims, initial, where)

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"As {fun.__name__}, with NaN counted as {fill}."
    return eager(1)(wrapped)


nansum, nanprod = _nan_sum("nansum", R.sum, 0), _nan_sum("nanprod", R.prod, 1)


def _nan_extremum(name, fun, fill, numbers):
    numbers = R.extremum(name, numbers, lambda dtype: np.nan, U.maximum)

    def wrapped(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        x = as_array(name, a)
        if dtypes.is_float(x.dtype) and initial is None and where is None:
            return numbers(x, axis, out, keepdims)
        result = fun(_filled(x, fill), axis, out, keepdims, initial, where)
        if not dtypes.is_inexact(x.dtype) or initial is not None:
            return result
        return _where(R.all(U.isnan(x), axis, keepdims=keepdims), E.like(x, np.nan), result)

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"As {fun.__name__}, with NaN left out; NaN where there is nothing else."
    return eager(1)(wrapped)


nanmax = _nan_extremum("nanmax", R.max, -np.inf, reduce.reduce_fmax)
nanmin = _nan_extremum("nanmin", R.min, np.inf, reduce.reduce_fmin)


@eager(1)
def nanmean(a, axis=None, dtype=None, out=None, keepdims=False, where=None):
    """Mean over axes of what is not NaN; NaN where nothing is left."""
    no_out("nanmean", out)
    x = as_array("nanmean", a)
    if not dtypes.is_inexact(x.dtype):
        return R.mean(x, axis, dtype, None, keepdims, where=where)
    result = x.dtype if dtype is None else user_dtype(dtype)
    count = R.sum(E.bitwise_not(U.isnan(x)), axis, result, None, keepdims, where=where)
    return E.div(nansum(x, axis, result, None, keepdims, where=where), count)


@eager(1)
def nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """Variance over axes of what is not NaN, with divisor n - ddof; NaN where that is not positive."""
    no_out("nanvar", out)
    x = as_array("nanvar", a)
    x = E.convert_element_type(x, dtypes.to_inexact(x.dtype))
    valid = E.bitwise_not(U.isnan(x))
    if where is not None:
        valid = valid & R.check_where("nanvar", where)
    out = R.var(_filled(x, 0), axis, dtype, None, ddof, keepdims, where=valid, mean=mean)
    return out if dtype is None else E.convert_element_type(out, user_dtype(dtype))


@eager(1)
def nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None, mean=None):
    """Square root of nanvar."""
    no_out("nanstd", out)
    return U.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean))


def _nan_running(name, fun, fill):
    def wrapped(a, axis=None, dtype=None, out=None):
        return fun(_filled(as_array(name, a), fill), axis, dtype, out)

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"As {fun.__name__}, with NaN counted as {fill}."
    return eager(1)(wrapped)


nancumsum, nancumprod = _nan_running("nancumsum", R.cumsum, 0), _nan_running("nancumprod", R.cumprod, 1)


def _nan_arg(name, fun, numbers):
    fun, numbers = R.position(name, fun), R.position(name, numbers)

    def wrapped(a, axis=None, out=None, keepdims=None):
        x = as_array(name, a)
        if not dtypes.is_float(x.dtype):
            return fun(x, axis, out, keepdims)
        return numbers(E.convert_element_type(x, np.float32) if x.dtype.itemsize == 2 else x, axis, out, keepdims)

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"As {name[3:]}, with NaN left out; -1 where there is nothing else."
    return eager(1)(wrapped)


nanargmax = _nan_arg("nanargmax", argreduce.argmax, argreduce.nanargmax)
nanargmin = _nan_arg("nanargmin", argreduce.argmin, argreduce.nanargmin)
