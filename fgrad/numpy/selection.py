"""Selection and rounding: where, nonzero, select, clip, round and comparison up to a tolerance."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad._kernels import masks
from fgrad.compile.eager import eager
from fgrad.core import Array, ShapedArray, context, eval_trace
from fgrad.core.binding import is_array, paired
from fgrad.numpy import ufuncs as U
from fgrad.numpy.creation import asarray
from fgrad.numpy.indexing import true_places
from fgrad.numpy.overlay import is_overlay, moves_overlays
from fgrad.numpy.util import SCALARS, as_array, as_operand, binary, broadcast_shape, broadcasted, concrete_mask, no_out, promoted, unary
from fgrad.ops import elementwise as E
from fgrad.ops.positions import true_positions
from fgrad.ops.rules import full
from fgrad.ops.shape import concatenate, reshape

__all__ = [
    "where", "nonzero", "argwhere", "flatnonzero", "select", "clip", "round", "around", "floor", "ceil", "trunc", "fix", "rint",
    "nan_to_num", "isclose", "allclose", "array_equal", "array_equiv",
]  # fmt: skip


@eager(3)
@moves_overlays(1, 2)
def where(condition, x=None, y=None, /, *, size=None, fill_value=None):
    """x where condition holds, else y. With the condition alone: nonzero(condition, size, fill_value).

    >>> import fgrad.numpy as jnp
    >>> jnp.where(jnp.array([True, False]), 1., jnp.array([3., 4.]))
    Array([1., 4.], dtype=float32)
    """
    if size is None and fill_value is None and is_array(condition) and condition.aval.dtype is dtypes.BOOL and (pair := paired(x, y)):
        shapes = {v.aval.shape for v in pair if is_array(v)}
        if condition.aval.shape in shapes and shapes <= {condition.aval.shape, ()}:
            return E.select_p.bind(condition, *pair)
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("Either both or neither of the x and y parameters should be provided to where.")
    if size is not None or fill_value is not None:
        raise ValueError("where: size and fill_value cannot be used together with x and y")
    c = U.truth(as_array("where", condition))
    x, y = promoted("where", [as_operand("where", x, 1), as_operand("where", y, 2)])
    c, x, y = broadcasted("where", [c, x, y], promotes=False)
    shape = np.broadcast_shapes(c.shape, *[v.shape for v in (x, y) if hasattr(v, "aval")])
    if c.shape == () and shape:
        c = E.broadcast_to(c, shape)
    return E.select_p.bind(c, x, y)


def static_size(name, size):
    """A `size` argument as a non-negative int."""
    size = operator.index(size)
    if size < 0:
        raise ValueError(f"{name}: size must not be negative, got {size}")
    return size


def _fills(fill_value, n):
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * n
    if len(fills) != n or isinstance(fill_value, list):
        raise ValueError(f"fill_value must be a scalar or a tuple of length {n}; got {fill_value}")
    return fills


def _filled(at, valid, fill):
    """Positions where they are valid, else fill: in the positions' dtype if fill is an integer, else as the two promote."""
    fill = as_array("nonzero", fill)
    if dtypes.kind_of(fill.dtype) in "iub":
        return E.select(valid, at, E.convert_element_type(fill, at.dtype))
    return where(valid, at, fill)


def _truth_of(name, x):
    hint = f"The size argument of jnp.{name} must be statically specified to use jnp.{name} within JAX transformations."
    return concrete_mask(name, x, hint + " Or use where(cond, x, y).")


def nonzero(a, *, size=None, fill_value=None):
    """Positions of the nonzero elements, one array per axis.

    size: how many positions are returned; missing ones are fill_value (0 by default, or a tuple with one value per axis). Without it
    the argument must be concrete (ConcretizationTypeError under jit and vmap).

    >>> import fgrad.numpy as jnp
    >>> jnp.nonzero(jnp.array([0, 5, 0, 7]), size=3, fill_value=-1)
    (Array([ 1,  3, -1], dtype=int32),)
    """
    x = as_array("nonzero", a)
    if size is None and fill_value is None and type(x) is Array and x.ndim and (x.dtype is dtypes.BOOL or context.trace is eval_trace):
        return tuple(true_places(x if x.dtype is dtypes.BOOL else U.not_equal(x, 0)))
    if x.ndim == 0:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use jnp.atleast_1d(scalar).nonzero() instead.")
    if size is None:
        found = true_places(_truth_of("nonzero", x))
        return tuple(found if fill_value is None else [_filled(i, True, v) for i, v in zip(found, _fills(fill_value, x.ndim))])
    return _positions(x, static_size("nonzero", size), _fills(0 if fill_value is None else fill_value, x.ndim))


@eager(1)
def _positions(x, size, fills):
    """nonzero of a given size."""
    n, dtype = x.size, dtypes.int_dtype()
    narrow = dtypes.INT32 if n < 2**31 else dtype  # divided much faster than int64
    mask = reshape(U.truth(x), (n,))
    flat = true_positions(mask, size, narrow) if n and size else full((size,), n, narrow)
    valid = E.lt(flat, E.like(flat, n))
    out, stride = [], 1
    for d, fill in zip(reversed(x.shape), reversed(fills)):
        at = flat if stride == 1 else E.div(flat, E.like(flat, stride))
        at = at if stride * d == n else E.rem(at, E.like(flat, max(d, 1)))
        out.append(_filled(E.convert_element_type(at, dtype), valid, fill))
        stride *= max(d, 1)
    return tuple(out[::-1])


def argwhere(a, *, size=None, fill_value=None):
    """The positions of nonzero as rows of one (n, ndim) array; size and fill_value as in nonzero."""
    x = as_array("argwhere", a)
    if size is None and fill_value is None and x.ndim:
        return masks.true_places(_truth_of("argwhere", x), ShapedArray((0, x.ndim), dtypes.int_dtype()))
    found = nonzero(x if x.ndim else reshape(x, (1,)), size=size, fill_value=fill_value)
    if x.ndim == 0:
        return reshape(found[0], (found[0].size, 1))[:, :0]
    return concatenate([reshape(i, (i.size, 1)) for i in found], 1)


def flatnonzero(a, *, size=None, fill_value=None):
    """Positions of the nonzero elements in the flattened array."""
    x = as_array("flatnonzero", a)
    return nonzero(reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


def select(condlist, choicelist, default=0):
    """For each element the choice of the first condition that holds there, `default` where none does."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if not len(condlist):
        raise ValueError("condlist must be non-empty")
    return _first_that_holds([*condlist, *choicelist, default], len(condlist))


@eager(-2)
def _first_that_holds(arrays, n):
    """select of n conditions, which come before the choices and the default."""
    *choices, out = promoted("select", [as_operand("select", v) for v in arrays[n:]])
    for c, v in zip(reversed(arrays[:n]), reversed(choices)):
        out = where(c, v, out)
    return out


@eager(3)
def clip(arr, /, min=None, max=None):
    """Values limited to [min, max]; either may be None. Where min > max the result is max."""
    x = as_array("clip", arr)
    for v in (x, *[as_operand("clip", v) for v in (min, max) if v is not None]):
        if (type(v) is complex) if type(v) in SCALARS else v.dtype.kind == "c":
            raise ValueError("Clip received a complex value either through the input or the min/max keywords.")
    if min is not None:
        x = U.maximum(min, x)
    if max is not None:
        x = U.minimum(max, x)
    return x


@eager(1)
def round(a, decimals=0, out=None):
    """To the given number of decimals, ties to even; complex numbers part by part."""
    no_out("round", out)
    x = unary("round", a)
    decimals = operator.index(decimals)
    if x.dtype.kind == "c":
        return E.cast_as(E.complex_(round(E.real(x), decimals), round(E.imag(x), decimals)), x.dtype, x.weak_type)
    if x.dtype == dtypes.BOOL:
        raise ValueError("round does not accept dtype bool")
    if not dtypes.is_inexact(x.dtype):
        if decimals < 0:
            raise NotImplementedError("round: integers with decimals < 0 are not supported; cast to float first")
        return x
    if decimals == 0:
        return E.round_even_p.bind(x)
    wide = E.convert_element_type(x, np.float32) if x.dtype.itemsize == 2 else x
    scale = E.like(wide, 10.0**decimals)
    return E.cast_as(E.div(E.round_even_p.bind(E.mul(wide, scale)), scale), x.dtype, x.weak_type)


around = round


def _rounding(name, prim, what, integers=True):
    def fun(x, /):
        x = unary(name, x)
        if x.dtype.kind == "c":
            raise TypeError(f"{name} does not support complex numbers, got {x.dtype.name}")
        if not dtypes.is_inexact(x.dtype):
            if integers:
                return x
            x = E.convert_element_type(x, dtypes.to_inexact(x.dtype), x.aval.weak_type)
        return prim.bind(x)

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"Rounded {what}, element by element."
    return eager(1)(fun)


floor = _rounding("floor", E.floor_p, "down; integers stay as they are")
ceil = _rounding("ceil", E.ceil_p, "up; integers stay as they are")
_trunc = _rounding("trunc", E.trunc_p, "towards zero; integers stay as they are")
_rint_real = _rounding("rint", E.round_even_p, "to the nearest integer, ties to even; integers become floats", False)


@eager(1)
def rint(x, /):
    """To the nearest integer as a float, ties to even."""
    z = unary("rint", x)
    if dtypes.kind_of(z.dtype) in "iub":
        z = E.convert_element_type(z, dtypes.float_dtype())
    return round(z) if z.dtype.kind == "c" else _rint_real(z)


@eager(1)
def trunc(x):
    """Rounded towards zero; integers stay as they are."""
    return _trunc(x)


def fix(x, out=None):
    """Rounded towards zero."""
    no_out("fix", out)
    return trunc(x)


@eager(1)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """x with NaN replaced by `nan`, then infinities by posinf and neginf (the greatest and least finite number by default)."""
    if is_overlay(x):  # random keys
        return x
    x = unary("nan_to_num", x)
    if not dtypes.is_inexact(x.dtype):
        return x
    if x.dtype.kind == "c":
        return E.complex_(*[nan_to_num(part, copy, nan, posinf, neginf) for part in (E.real(x), E.imag(x))])
    least, most = [x.dtype.type(b) for b in (dtypes.finfo(x.dtype).min, dtypes.finfo(x.dtype).max)]
    x = where(U.isnan(x), nan, x)  # first, as in JAX: an infinite `nan` is bounded too
    out = where(x > most, most if posinf is None else posinf, x)  # bounds of x, which are one maximum or minimum each
    return where(x < least, least if neginf is None else neginf, out)


@eager(2)
def isclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether |a - b| <= atol + rtol * |b|, element by element; infinities are close to themselves only."""
    return _strong(_isclose(a, b, rtol, atol, equal_nan))


def _strong(x):
    return E.convert_element_type(x, x.dtype)


def _isclose(a, b, rtol, atol, equal_nan):
    if is_overlay(a) and is_overlay(b):
        return a == b
    a, b = binary("isclose", a, b)
    a, b = as_array("isclose", a), as_array("isclose", b)
    a, b = promoted("isclose", [a, b], numeric=True)
    if not dtypes.is_inexact(a.dtype):
        # Integers are compared without passing through floats where they are equal.
        fa, fb = (E.convert_element_type(v, dtypes.float_dtype()) for v in (a, b))
        near = U.less_equal(U.absolute(fa - fb), atol + rtol * U.absolute(fb))
        return near | U.equal(a, b)
    near = U.less_equal(U.absolute(a - b), atol + rtol * U.absolute(b))
    out = where(U.isfinite(a) & U.isfinite(b), near, a == b)
    return out | (U.isnan(a) & U.isnan(b)) if equal_nan else out


def _everywhere(x):
    return x.all()  # (comparisons are strong)


def allclose(a, b, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether isclose holds everywhere, as a boolean array of rank 0."""
    return _everywhere(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1, a2, equal_nan=False):
    """Whether two arrays have one shape and equal elements, as a boolean array of rank 0."""
    a1, a2 = asarray(a1), asarray(a2)
    if a1.shape != a2.shape:
        return as_array("array_equal", False)
    same = a1 == a2
    return _everywhere(same | (U.isnan(a1) & U.isnan(a2)) if equal_nan else same)


def array_equiv(a1, a2):
    """Whether two arrays are equal once broadcast together."""
    a1, a2 = asarray(a1), asarray(a2)
    try:
        broadcast_shape(a1.shape, a2.shape)
    except ValueError:
        return as_array("array_equiv", False)
    return _everywhere(a1 == a2)
