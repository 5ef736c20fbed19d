"""Reductions over axes and running reductions. Those that leave NaN out are in .nan, quantiles and histograms in .statistics."""

import builtins
import math

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import axis_size
from fgrad.numpy import ufuncs as U
from fgrad.numpy.selection import where as _where
from fgrad.numpy.util import as_array, axis_index, axis_tuple, broadcasted, named_axes, no_out, promoted, spread, user_dtype, with_axes
from fgrad.ops import argreduce, collective, cumulative, norm, reduce
from fgrad.ops import elementwise as E
from fgrad.ops.rules import full
from fgrad.ops.shape import concatenate, reshape, transpose

__all__ = [
    "sum", "prod", "max", "min", "amax", "amin", "any", "all", "ptp", "mean", "var", "std", "average", "count_nonzero",
    "cumsum", "cumprod", "cumulative_sum", "cumulative_prod", "argmax", "argmin",
]  # fmt: skip


def check_where(name, where):
    """A `where` argument as a boolean array."""
    if where is None:
        return None
    where = as_array(name, where)
    if where.dtype != dtypes.BOOL:
        raise ValueError(f"jnp.{name}: the where argument must have boolean dtype, got {where.dtype.name}")
    return where


def masked(name, x, where, fill):
    """x with `fill` where the mask does not hold."""
    if where is None:
        return x
    x, where = broadcasted(name, [x, where])
    if x.shape == () and where.shape:
        x = E.broadcast_to(x, where.shape)
    return E.select(spread(where, x.shape), x, E.like(x, fill))


_ACROSS = {"sum": collective.psum_leaf, "max": collective.pmax_leaf, "min": collective.pmin_leaf}


def _reduce(name, fun, x, axis, keepdims, where, fill, initial, combine, identity):
    """The common course of a reduction of array x: check, mask, reduce, combine with `initial`, keep axes."""
    where = check_where(name, where)
    axes, names = named_axes(axis, x.ndim)
    if names and name not in _ACROSS:
        raise NotImplementedError(f"jnp.{name}: reductions over named axes are sum, max and min and what is made of them, got {names}")
    if not identity and initial is None:
        if where is not None:
            raise ValueError(f"reduction operation {name} does not have an identity, so to use a where mask one has to specify 'initial'")
        if builtins.any(x.shape[i] == 0 for i in axes):
            raise ValueError(f"zero-size array to reduction operation {name} which has no identity")
    x = masked(name, x, where, fill)
    if x.size == 0 and not identity:
        out = full(tuple(n for i, n in enumerate(x.shape) if i not in axes), fill, x.dtype)
    else:
        out = fun(x, axes)
    for axis_name in names:
        out = _ACROSS[name](out, axis_name)
    if initial is not None:
        start = E.convert_element_type(as_array(name, initial), x.dtype)
        if start.ndim:
            raise ValueError(f"initial value must be a scalar. Got array of shape {start.shape}")
        out = combine(start, out)
    out = E.convert_element_type(out, x.dtype)  # never weakly typed
    return with_axes(out, axes, x.ndim) if keepdims else out


def lowest(dtype):
    """The identity of max."""
    return -np.inf if dtypes.is_inexact(dtype) else (False if dtype == dtypes.BOOL else dtypes.iinfo(dtype).min)


def highest(dtype):
    """The identity of min."""
    return np.inf if dtypes.is_inexact(dtype) else (True if dtype == dtypes.BOOL else dtypes.iinfo(dtype).max)


def _widened(x, promote_integers=True):
    """As in NumPy, small integers are summed in the default integer; bool always."""
    dtype = x.dtype
    if dtype.kind == "f":
        return x
    if dtype == dtypes.BOOL:
        return E.convert_element_type(x, dtypes.int_dtype())
    if promote_integers and dtypes.kind_of(dtype) in "iu" and dtype.itemsize < dtypes.int_dtype().itemsize:
        wide = dtypes.canonicalize_dtype(np.uint64) if dtypes.kind_of(dtype) == "u" else dtypes.int_dtype()
        return E.convert_element_type(x, wide, x.aval.weak_type)
    return x


def _accumulated(name, a, dtype, promote_integers=True):
    x = as_array(name, a)
    return _widened(x, promote_integers) if dtype is None else E.convert_element_type(x, user_dtype(dtype))


def _summing(name, fun, fill, combine, what):
    def reduction(a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None, promote_integers=True):
        no_out(name, out)
        if dtype is not None and user_dtype(dtype) == dtypes.BOOL:  # or for sums, and for products
            x = U.truth(as_array(name, a))
            logic = (reduce.reduce_or, U.logical_or) if fill == 0 else (reduce.reduce_and, U.logical_and)
            return _reduce(name, logic[0], x, axis, keepdims, where, bool(fill), initial, logic[1], True)
        x = _accumulated(name, a, dtype, promote_integers)
        return _reduce(name, fun, x, axis, keepdims, where, fill, initial, combine, True)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""{what} over axes (all by default); {fill} of nothing.

    Booleans and small integers are accumulated in the default integer, unless `dtype` says otherwise. where: a mask of the elements
    that count. initial: a scalar to start from. axis: names of vmap's axes too, as "batch" or ("batch", 0).
    Raises ValueError for an axis out of range or given twice.
    """
    return eager(1)(reduction)


sum = _summing("sum", reduce.reduce_sum, 0, U.add, "Sum")
prod = _summing("prod", reduce.reduce_prod, 1, U.multiply, "Product")


def _reduce_complex(x, axes, is_max):
    """The extremum of complex numbers: by real, then by imaginary part; NaN where there is one."""
    axes = builtins.sorted(axes)
    kept = [i for i in range(x.ndim) if i not in axes]
    n = math.prod(x.shape[i] for i in axes)
    x = reshape(transpose(x, (*kept, *axes)), (*[x.shape[i] for i in kept], n))
    while n > 1:
        half = n // 2
        pair = (U.maximum if is_max else U.minimum)(x[..., :half], x[..., half : 2 * half])
        x = concatenate([pair, x[..., 2 * half :]], x.ndim - 1) if n % 2 else pair
        n = half + n % 2
    return x[..., 0]


def extremum(name, fun, fill, combine):
    """The public reduction `name` by fun; fill(dtype): what elements outside of `where` count as."""

    def reduction(a, axis=None, out=None, keepdims=False, initial=None, where=None):
        no_out(name, out)
        x = as_array(name, a)
        run = fun if x.dtype.kind != "c" else (lambda x, axes: _reduce_complex(x, axes, name == "max") if axes else x)
        return _reduce(name, run, x, axis, keepdims, where, fill(x.dtype), initial, combine, False)

    reduction.__name__ = reduction.__qualname__ = name
    reduction.__doc__ = f"""The {"greatest" if name == "max" else "least"} element over axes (all by default); NaN if there is one.

    `where` and empty axes need `initial`, a scalar that counts as an element. Ties share the gradient evenly.
    Raises ValueError for an axis out of range or given twice, and where there is nothing to choose from.
    """
    return eager(1)(reduction)


max, min = extremum("max", reduce.reduce_max, lowest, U.maximum), extremum("min", reduce.reduce_min, highest, U.minimum)
amax, amin = max, min


@eager(1)
def any(a, axis=None, out=None, keepdims=False, *, where=None):
    """Whether some element over the axes is nonzero; False of nothing."""
    no_out("any", out)
    return _reduce("any", reduce.reduce_or, U.truth(as_array("any", a)), axis, keepdims, where, False, None, None, True)


@eager(1)
def all(a, axis=None, out=None, keepdims=False, *, where=None):
    """Whether all elements over the axes are nonzero; True of nothing."""
    no_out("all", out)
    return _reduce("all", reduce.reduce_and, U.truth(as_array("all", a)), axis, keepdims, where, True, None, None, True)


@eager(1)
def ptp(a, axis=None, out=None, keepdims=False):
    """Greatest minus least element over axes."""
    no_out("ptp", out)
    return U.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def _count(x, axes, keepdims, where, dtype):
    """How many elements are reduced: a number, or an array where there is a mask."""
    if where is None:
        return dtype.type(math.prod(axis_size(i) if isinstance(i, str) else x.shape[i] for i in axes))
    return sum(spread(where, x.shape), axes, dtype=dtype, keepdims=keepdims)


def _wide(dtype):
    """16-bit floats are averaged in float32."""
    return dtypes.FLOAT32 if dtypes.is_float(dtype) and dtype.itemsize == 2 else dtype


@eager(1)
def mean(a, axis=None, dtype=None, out=None, keepdims=False, *, where=None):
    """Mean over axes (all by default); integers give the default float, nothing gives NaN. where: a mask of what counts."""
    no_out("mean", out)
    x = as_array("mean", a)
    result = dtypes.to_inexact(x.dtype) if dtype is None else user_dtype(dtype)
    work = _wide(result)
    where = check_where("mean", where)
    if where is not None:
        x, where = _together(x, where)
    axes = builtins.sum(named_axes(axis, x.ndim), ())
    total = sum(x, axes, dtype=work, keepdims=keepdims, where=where)
    return E.convert_element_type(E.div(total, _count(x, axes, keepdims, where, work)), result)


def _together(x, where):
    shape = np.broadcast_shapes(x.shape, where.shape)
    return spread(x, shape), spread(where, shape)


def _var_dtypes(own, dtype):
    """(the dtype to compute in, the dtype of the result) of a variance."""
    if dtype is None:
        own = dtypes.to_inexact(own)
        return _wide(own), dtypes.to_real(own)
    dtype = user_dtype(dtype)
    if own.kind == "c" and dtype.kind != "c":
        raise ValueError("Setting the dtype of a variance of complex numbers to a real one is not supported; take real parts first")
    if dtype == dtypes.BOOL:
        raise TypeError("var: the dtype of a variance is a number's, got bool")
    work = dtypes.promote([(dtypes.to_inexact(own), False), (dtypes.to_inexact(dtype), False)])[0]
    return _wide(work), dtypes.to_inexact(dtype)


def _join(x, axes):
    """(x with neighbouring axes as one, that axis), or None where they are not neighbours or there are none."""
    first, n = builtins.min(axes, default=0), len(axes)
    if not axes or builtins.sorted(axes) != list(range(first, first + n)):
        return None
    return (x if n == 1 else reshape(x, (*x.shape[:first], math.prod(x.shape[first : first + n]), *x.shape[first + n :]))), first


@eager(1)
def var(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """Variance over axes, with divisor n - ddof (or n - correction); NaN where that is not positive.

    mean: the mean, if it is known already, with the reduced axes kept.
    """
    no_out("var", out)
    if correction is not None and ddof != 0:
        raise ValueError("ddof and correction can't be provided simultaneously.")
    x = as_array("var", a)
    work, result = _var_dtypes(x.dtype, dtype)
    x = E.convert_element_type(x, work)
    where = check_where("var", where)
    if where is not None:
        x, where = _together(x, where)
    axes, names = named_axes(axis, x.ndim)
    if where is None and mean is None and not names and dtypes.is_float(work) and (joined := _join(x, axes)) is not None:
        count = math.prod(x.shape[i] for i in axes) - (ddof if correction is None else correction)
        total = norm.moments(*joined)[1]
        out = E.div(total, work.type(count)) if count > 0 else full(total.shape, np.nan, work)
        return E.convert_element_type(with_axes(out, axes, x.ndim) if keepdims else out, result)
    axes = (*axes, *names)
    centre = _mean(x, axes, keepdims=True, where=where) if mean is None else E.convert_element_type(as_array("var", mean), work)
    d = U.subtract(x, centre)
    squares = E.real(E.mul(d, E.conj(d))) if d.dtype.kind == "c" else E.square(d)
    real = squares.dtype
    n = E.sub(_count(x, axes, keepdims, where, real), real.type(ddof if correction is None else correction))
    if isinstance(n, np.generic) or where is None:
        count = _count(x, axes, keepdims, None, real) - (ddof if correction is None else correction)
        total = sum(squares, axes, keepdims=keepdims)
        out = E.div(total, real.type(count)) if count > 0 else full(total.shape, np.nan, real)
    else:
        total = sum(squares, axes, keepdims=keepdims, where=where)
        out = _where(n > 0, E.div(total, n), real.type(np.nan))
    return E.convert_element_type(out, result)


_mean = mean


@eager(1)
def std(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, mean=None, correction=None):
    """Standard deviation over axes: the square root of var."""
    no_out("std", out)
    if dtype is not None and not dtypes.is_inexact(user_dtype(dtype)):
        raise ValueError(f"dtype argument to jnp.std must be inexact; got {user_dtype(dtype).name}")
    return U.sqrt(var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction))


def average(a, axis=None, weights=None, returned=False, keepdims=False):
    """Weighted mean over axes; with returned=True also the sum of weights. weights: a's shape, or that of the reduced axes."""
    x = as_array("average", a)
    axes = axis_tuple(axis, x.ndim)
    if weights is None:
        out = mean(x, axes, keepdims=keepdims)
        total = full((), math.prod(x.shape[i] for i in axes), out.dtype)
    else:
        x, w = (as_array("average", v) for v in promoted("average", [x, as_array("average", weights, 2)], inexact=True))
        if w.shape != x.shape:
            if axis is None:
                raise ValueError("Axis must be specified when shapes of a and weights differ.")
            if w.shape != tuple(x.shape[i] for i in axes):
                raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
            w = transpose(w, tuple(np.argsort(axes).tolist()))
            w = spread(reshape(w, tuple(n if i in axes else 1 for i, n in enumerate(x.shape))), x.shape)
        total = sum(w, axes, keepdims=keepdims)
        out = E.div(sum(E.mul(x, w), axes, keepdims=keepdims), total)
    return (out, spread(total, out.shape)) if returned else out


@eager(1)
def count_nonzero(a, axis=None, keepdims=False):
    """How many elements over the axes are nonzero."""
    return sum(U.truth(as_array("count_nonzero", a)), axis, dtype=dtypes.int_dtype(), keepdims=keepdims)


# --- running reductions -------------------------------------------------------------------------------------------------


def _running(name, prim, what):
    def fun(a, axis=None, dtype=None, out=None):
        no_out(name, out)
        x = _accumulated(name, a, dtype, promote_integers=False)
        x = x if x.ndim else reshape(x, (1,))
        if axis is None:
            x, axis = reshape(x, (x.size,)), 0
        if x.dtype == dtypes.BOOL:
            return U.truth(prim(E.convert_element_type(x, np.int32), axis_index(axis, x.ndim)))
        return E.convert_element_type(prim(x, axis_index(axis, x.ndim)), x.dtype)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"""Running {what} along an axis (over the flattened array by default).

    Integers keep their dtype, as in JAX (NumPy widens small ones): give dtype where the {what} may not fit.
    """
    return eager(1)(fun)


cumsum, cumprod = _running("cumsum", cumulative.cumsum, "sum"), _running("cumprod", cumulative.cumprod, "product")


def _cumulative(name, prim, first):
    def fun(x, /, *, axis=None, dtype=None, include_initial=False):
        x = as_array(name, x)
        if x.ndim == 0:
            raise ValueError(f"{name}: the input must not be a scalar")
        if axis is None:
            if x.ndim > 1:
                raise ValueError(f"{name}: axis must be given for an array of rank {x.ndim}")
            axis = 0
        axis = axis_index(axis, x.ndim)
        out = prim(_widened(x) if dtype is None and prim is cumsum else x, axis, dtype)  # products keep small integers, as in JAX
        if not include_initial:
            return out
        head = full(tuple(1 if i == axis else n for i, n in enumerate(x.shape)), first, out.dtype)
        return concatenate([head, out], axis)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"As {prim.__name__}, along one axis; with include_initial the result begins with {first}."
    return fun


cumulative_sum, cumulative_prod = _cumulative("cumulative_sum", cumsum, 0), _cumulative("cumulative_prod", cumprod, 1)


# --- positions of extrema -----------------------------------------------------------------------------------------------


def position(name, fun):
    """The public function `name` by fun, which gives positions along one axis."""

    def wrapped(a, axis=None, out=None, keepdims=None):
        no_out(name, out)
        x = as_array(name, a)
        if x.dtype.kind == "c":
            raise TypeError(f"{name} does not support complex numbers, got {x.dtype.name}")
        ndim = x.ndim
        if axis is None or ndim == 0:
            x = reshape(x, (x.size,))
            if axis is not None:
                axis_index(axis, 1)
        i = 0 if axis is None or ndim == 0 else axis_index(axis, ndim)
        if x.shape[i] == 0:
            raise ValueError(f"attempt to get {name.removeprefix('nan')} of an empty sequence")
        res = fun(x, i, dtypes.int_dtype())
        return with_axes(res, range(ndim) if axis is None else (i,), ndim) if keepdims else res

    wrapped.__name__ = wrapped.__qualname__ = name
    wrapped.__doc__ = f"{name}: the first position of the extremum along an axis (or in the flattened array); NaN counts as the extremum."
    return eager(1)(wrapped)


argmax, argmin = position("argmax", argreduce.argmax), position("argmin", argreduce.argmin)
