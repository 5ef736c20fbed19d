"""Making arrays."""

import functools
import math
import operator

import numpy as np

from fgrad import array_tree as tree
from fgrad import dtypes
from fgrad._kernels.creation import alike, filled_before, from_numbers, made_before, remember_filling, remember_made
from fgrad._kernels.operands import from_ndarray, weak_number
from fgrad.api.common import abstractify
from fgrad.compile.eager import eager
from fgrad.core import Array, OverlayType, Tracer, context, eval_trace, from_numpy, from_scalar, get_aval, stands_for, unmasked
from fgrad.core.binding import is_array
from fgrad.errors import ConcretizationTypeError
from fgrad.numpy.overlay import is_overlay, overlay_like, words_of
from fgrad.numpy.util import SCALARS, as_array, is_plain_dtype, promoted, spread, user_dtype
from fgrad.ops.elementwise import add, cast_as, convert_element_type, copy_p, div, eq, exp, floor, ge, like, log, mul, sign, sub
from fgrad.ops.rules import full as _full
from fgrad.ops.shape import broadcast_in_dim, broadcasted_iota, canonical_shape, concatenate, iota, reshape, slice_in_dim, transpose

__all__ = [
    "array", "asarray", "astype", "copy", "full", "zeros", "ones", "zeros_like", "ones_like", "empty_like", "full_like", "arange",
    "linspace", "logspace", "geomspace", "eye", "identity", "tri", "meshgrid", "indices", "empty",
]  # fmt: skip

_SEQUENCES = {list, tuple}
_READ = {list, tuple, float, int, bool}
_REALS = {int, float}
_BOUND = 1 << 31
_SMALL, _FEW = 1 << 14, 1 << 10  # elements


_PLAIN = {int, float, bool, tuple, slice, type(None)}


def remembered(fun):
    """Decorator of a function of numbers: outside of tracing, what it gave for the same ones is copied. Arrays among them pass by."""

    @functools.wraps(fun)
    def copied(*args, **kwargs):
        out = made_before(fun, args, kwargs)
        if out is NotImplemented:
            return fun(*args, **kwargs)
        if out is None:
            out = fun(*args, **kwargs)
            if all(type(v) in _PLAIN or is_plain_dtype(v) for v in (*args, *kwargs.values())):  # others are warned of, each time
                remember_made(fun, args, kwargs, out)
        return out

    return copied


def array(object, dtype=None, copy=True, order="K", ndmin=0, *, device=None, out_sharding=None):
    """An array of the values of a scalar, array or nested list. Python scalars stay weakly typed unless dtype is given.

    >>> import fgrad.numpy as jnp
    >>> jnp.array([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    if order is not None and order != "K":
        raise NotImplementedError("Only implemented for order='K'")
    kind = type(object)
    if dtype is None and not ndmin:
        if kind in _SEQUENCES and (out := from_numbers(object, None)) is not None:
            return out
        if kind is np.ndarray:
            out = from_ndarray(object, bool(copy))
            return from_numpy(object, copy=copy) if out is None else out
        if kind is Array:
            if copy and object.strides_or_none is None and context.trace is eval_trace:
                return object.fresh()
            return copy_p.bind(object) if copy else object
        if kind in SCALARS:
            out = weak_number(object)
            return from_scalar(object).fresh() if out is None else out
        if kind in _SEQUENCES and (alike(object) or _traced_alike(object)):
            return _stacked(object)
    else:
        dtype = user_dtype(dtype)
    if kind in _READ and not ndmin and dtype is not None and (out := from_numbers(object, dtype)) is not None:
        return out
    if kind in SCALARS:
        if type(object) is int and dtype is not None and dtypes.kind_of(dtype) in "iu":
            out = from_numpy(np.array(object, dtype))  # raises OverflowError
        else:
            out = from_scalar(object).fresh() if dtype is None else from_numpy(np.asarray(_fitting(object, dtype)).astype(dtype))
    elif isinstance(object, (list, tuple, range)):
        kinds = set(map(type, object)) if dtype is None else ()
        out = _from_numbers(object, kinds) if kinds else None
        if out is None:
            words = words_of(object)
            out = _from_sequence(object, dtype) if words is None else overlay_like(object[0], _from_sequence(words, None))
    elif is_overlay(object):
        out = object
    elif isinstance(object, (Array, Tracer)):
        out = object if dtype is None else convert_element_type(object, dtype)
        out = copy_p.bind(out) if copy and out is object else out
    elif isinstance(object, (np.ndarray, np.generic)):
        out = from_numpy(np.asarray(unmasked(object)), dtype, copy=copy)
    elif hasattr(object, "__jax_array__"):
        return array(object.__jax_array__(), dtype, copy, order, ndmin)
    elif (value := stands_for(object)) is not None:
        return array(value, dtype, copy, order, ndmin)
    elif hasattr(object, "__array__") or hasattr(object, "__array_interface__"):
        out = from_numpy(np.asarray(object), dtype, copy=True)
    elif object is None:
        raise ValueError("None is not a valid value for jnp.array")
    elif isinstance(object, bytes):
        raise TypeError(f"array: {object!r} is not a number; frombuffer reads arrays from bytes")
    else:
        try:
            out = from_numpy(np.asarray(memoryview(object)), dtype)
        except TypeError:
            raise TypeError(f"Unexpected input type for array: {type(object)}, which is not a valid JAX type") from None
    if out.ndim < ndmin:
        out = reshape(out, (1,) * (ndmin - out.ndim) + out.shape)
    return out


def _traced_alike(xs):
    """True for arrays and tracers of one shape, or of rank 0 beside floats, while something is traced."""
    if context.trace is eval_trace:
        return False
    shapes, kinds = set(), set()
    for x in xs:
        array = is_array(x)
        if not array and type(x) is not float:
            return False
        shapes.add(x.aval.shape if array else ())
        kinds.add(array)
    return len(shapes) == 1 and True in kinds


def _fitting(x, dtype):
    """A number that an array of `dtype` can hold: no complex one for real types, for integers none beyond their range, no NaN."""
    if type(x) is complex and not dtypes.is_complex(dtype):
        raise TypeError(f"array: {x} is no real number, and does not become {dtype.name}; take its real part")
    return np.array(int(x), dtype) if type(x) is float and dtypes.kind_of(dtype) in "iu" else x


def _from_numbers(xs, kinds):
    """A nested sequence of floats alone, or of integers that fit, as an array; None for any other."""
    nested = not kinds.isdisjoint(_SEQUENCES)
    if nested:
        kinds = set(map(type, tree.leaves(xs)))
    if kinds != {float} and kinds != {int}:
        return None
    try:
        x = np.array(xs, dtypes.float_dtype() if kinds == {float} else dtypes.int_dtype())
    except (ValueError, OverflowError):
        return None
    if nested and np.isnan(x).any() and None in tree.leaves(xs, is_leaf=lambda v: v is None):  # NumPy reads None as NaN
        return None
    return _own(x)


def _own(x):
    """An Array of a new NumPy array's values: its memory, unless to copy a few elements is cheaper than to ask for it."""
    return from_numpy(x, copy=x.size <= _FEW)


@eager(-2)
def _stacked(xs):
    """Arrays of one shape, and numbers beside arrays of rank 0, joined along a new first axis."""
    parts = [as_array("array", p) for p in promoted("array", [array(v, copy=False) for v in xs])]
    out = concatenate([reshape(p, (1, *p.shape)) for p in parts], 0)
    return cast_as(out, out.aval.dtype)  # never weakly typed


def _from_sequence(xs, dtype):
    leaves = tree.leaves(xs, is_leaf=lambda v: v is None)
    if not any(isinstance(v, (Array, Tracer)) for v in leaves):
        if any(v is None for v in leaves):
            raise ValueError("None is not a valid value for array")
        try:
            x = np.array(xs, dtype if dtype is not None and dtypes.kind_of(dtype) in "iu" and set(map(type, leaves)) == {int} else None)
        except ValueError as e:
            raise ValueError(f"array: nested sequence does not make a rectangular array: {e}") from None
        if x.dtype == object:
            raise TypeError("array: the nested sequence holds values that are not numbers")
        if dtype is None and all(type(v) in SCALARS or isinstance(v, np.generic) for v in leaves):
            dtype = dtypes.result_type(*leaves) if leaves else dtypes.float_dtype()
            if (
                dtypes.kind_of(x.dtype) in "iu"
                and x.size
                and dtypes.kind_of(dtype) in "iu"
                and all(type(v) in SCALARS for v in leaves)
                and not (dtypes.iinfo(dtype).min <= x.min() and x.max() <= dtypes.iinfo(dtype).max)
            ):
                raise OverflowError(f"array: integers out of range for {dtype.name}; enable 64-bit types (enable_x64) or give a dtype")
        if dtype is not None and (
            x.dtype.kind == "c" and not dtypes.is_complex(dtype) or x.dtype.kind == "f" and dtypes.kind_of(dtype) in "iu"
        ):
            for v in leaves:
                _fitting(v, dtype)
        return from_numpy(x, dtype, copy=False)
    parts = [array(v, copy=False) for v in xs]
    shapes = {p.shape for p in parts}
    if len(shapes) > 1:
        raise ValueError(f"array: elements have different shapes: {sorted(shapes)}")
    out = _stacked(parts)
    return out if dtype is None else convert_element_type(out, dtype)


def asarray(a, dtype=None, order=None, *, copy=None, device=None, out_sharding=None):
    """array(), but for Arrays, which are returned as they are. A NumPy array is copied, as in JAX, so that it can be filled again;
    with copy=False its memory is shared where dtype and layout allow, and it must not be changed afterwards."""
    if dtype is None and order is None and not copy:
        kind = type(a)
        if kind is Array:
            return a
        if kind is np.ndarray and copy is None and (out := from_ndarray(a, True)) is not None:
            return out
        if kind in _SEQUENCES and (out := from_numbers(a, None)) is not None:
            return out
    if not copy and order is None and is_array(a) and (dtype is None or (dtype is a.aval.dtype and not a.aval.weak_type)):
        return a
    return array(a, dtype, copy=copy or (copy is None and not is_array(a)), order=order)


@eager(1)
def astype(x, dtype, copy=False, device=None):
    """x cast to dtype (None: the default float), as convert_element_type; complex to bool asks for nonzero."""
    if dtype is None:
        dtype = dtypes.float_dtype()
    if is_overlay(x) and dtype == x.dtype:
        return x
    return convert_element_type(as_array("astype", x), user_dtype(dtype))


def copy(a, order=None):
    """The same values in memory of their own."""
    return array(a, copy=True)


def _shape(shape):
    return canonical_shape((shape,) if type(shape) is int else shape)


def full(shape, fill_value, dtype=None, *, device=None, out_sharding=None):
    """An array filled with a value, which broadcasts."""
    if type(fill_value) in SCALARS:
        out = filled_before(shape, dtype, fill_value)
        if out is not None:
            return out
        if dtype is not None:
            return _fill(shape, dtype, fill_value)
        return _remembered(shape, None, fill_value, spread(from_scalar(fill_value).fresh(), _shape(shape)))
    v = as_array("full", fill_value)
    return spread(convert_element_type(v, user_dtype(dtype)) if dtype is not None else v, _shape(shape))


def _fill(shape, dtype, value):
    if dtype == dtypes.float0:
        return np.zeros(_shape(shape), dtype)
    kind = user_dtype(dtype) or dtypes.float_dtype()
    return _remembered(shape, dtype, value, _full(_shape(shape), _wrapped(value, kind), kind))


def _wrapped(value, dtype):
    """A number as conversion on arrays has it: integers beyond a type's range wrap around, floats stop at its ends, and NaN is 0."""
    if dtypes.kind_of(dtype) not in "iu" or type(value) not in _REALS:
        return value
    low, high = dtypes.iinfo(dtype).min, dtypes.iinfo(dtype).max
    if type(value) is float:
        return 0 if value != value else int(min(max(value, low), high))
    return value if low <= value <= high else (value - low) % (high - low + 1) + low


def _remembered(shape, dtype, value, out):
    """out, an array of one number, of which filled_before will give fresh ones."""
    if type(out) is Array and is_plain_dtype(dtype):
        remember_filling(shape, dtype, value, out)
    return out


def zeros(shape, dtype=None, *, device=None, out_sharding=None):
    """An array of zeros; of keys whose words are zero for a dtype of keys."""
    out = filled_before(shape, dtype or float, 0)
    if out is None and isinstance(dtype, OverlayType):
        return dtype.of_words(zeros((*_shape(shape), 2), np.uint32))
    return _fill(shape, dtype or float, 0) if out is None else out


def ones(shape, dtype=None, *, device=None, out_sharding=None):
    """An array of ones."""
    out = filled_before(shape, dtype or float, 1)
    return _fill(shape, dtype or float, 1) if out is None else out


empty = zeros


def _like(a, fill_value, dtype, shape):
    """An array of a's shape and dtype, weakly typed like a, unless they are given."""
    known = dtype is None and shape is None and type(a) is Array
    if known and (out := filled_before(a.aval, None, fill_value)) is not None:
        return out
    if is_overlay(a):
        return overlay_like(a, full(a._words.shape if shape is None else (*_shape(shape), a._words.shape[-1]), 0, a._words.dtype))
    aval = abstractify(a)
    shape = aval.shape if shape is None else _shape(shape)
    if dtype is None and type(fill_value) in SCALARS:
        out = cast_as(_full(shape, _wrapped(fill_value, aval.dtype), aval.dtype), aval.dtype, aval.weak_type)
        return _remembered(aval, None, fill_value, out) if known else out
    out = full(shape, fill_value, aval.dtype if dtype is None else user_dtype(dtype))
    return convert_element_type(out, out.dtype, aval.weak_type and dtype is None)


def zeros_like(a, dtype=None, shape=None, *, device=None, out_sharding=None):
    """Zeros of a's shape and dtype."""
    return _like(a, 0, dtype, shape)


def ones_like(a, dtype=None, shape=None, *, device=None, out_sharding=None):
    """Ones of a's shape and dtype."""
    return _like(a, 1, dtype, shape)


def empty_like(prototype, dtype=None, shape=None, *, device=None):
    """zeros_like: uninitialized memory is never shown."""
    return zeros_like(prototype, dtype, shape)


def full_like(a, fill_value, dtype=None, shape=None, *, device=None, out_sharding=None):
    """An array filled with a value, with a's shape and dtype."""
    return _like(a, fill_value, dtype, shape)


@remembered
def arange(start, stop=None, step=None, dtype=None, *, device=None, out_sharding=None):
    """Evenly spaced values in [start, stop), as NumPy; the default dtype is JAX's.

    >>> import fgrad.numpy as jnp
    >>> jnp.arange(3.)
    Array([0., 1., 2.], dtype=float32)
    """
    if type(start) is int and stop is None and step is None and dtype is None and start < _SMALL:
        return _count(max(0, start), dtypes.int_dtype())
    if start is None:
        raise TypeError("arange: start must be a real number, not None")
    given = [v for v in (start, stop, step) if v is not None]
    for what, v in zip(("start", "stop", "step"), (start, stop, step)) if len(given) > 1 else (("stop", start),):
        if isinstance(v, Tracer) and v._concrete() is None:
            where = f"Abstract tracer value encountered where concrete value is expected. It arose in the jnp.arange argument '{what}':"
            v._need(ConcretizationTypeError, where, "It decides the result's shape, which must be known while tracing.")
    typed = [get_aval(v) for v in given if isinstance(v, (Array, Tracer))]
    if any(v.shape for v in typed):
        raise ValueError(f"arange: arguments must be scalars, got shapes {[v.shape for v in typed]}")
    if typed and dtype is None:
        dtype = dtypes.promote([(v.dtype, v.weak_type) for v in map(get_aval, given)])[0]
    given = [v.item() if isinstance(v, (Array, Tracer)) else v for v in given]
    kinds = set(map(type, given))
    if dtype is None and kinds <= _REALS and -_BOUND <= min(given) and max(given) < _BOUND:
        dtype = dtypes.float_dtype() if float in kinds else dtypes.int_dtype()
    elif dtype is None:
        dtype = dtypes.promote([(get_aval(v).dtype, get_aval(v).weak_type) for v in given])[0]
    else:
        dtype = user_dtype(dtype)
    start, stop, step = (
        (0, given[0], 1 if step is None else given[-1]) if stop is None else (given[0], given[1], given[2] if step is not None else 1)
    )
    if dtype.kind == "b":
        raise TypeError("arange does not accept dtype bool")
    if any(np.iscomplexobj(v) for v in given):
        raise ValueError("arange does not accept complex start, stop and step")
    if step == 0:
        raise ZeroDivisionError("arange: step must not be zero")
    if start == 0 and step == 1 and dtype.kind in "iuf":
        return _count(max(0, math.ceil(stop)), dtype)
    return _own(np.arange(start, stop, step).astype(dtype, copy=False))


def _count(n, dtype):
    """The numbers below n: memory at once where they are few, and outside of tracing, so that no size is compiled for."""
    if n <= _SMALL and context.trace is eval_trace:
        return _own(np.arange(n, dtype=dtype))
    return iota(dtype, n)


@remembered
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """num evenly spaced values from start to stop, rounded down for an integer dtype; of few between two numbers, each is the nearest.

    >>> import fgrad.numpy as jnp
    >>> jnp.linspace(0, 25, 6)
    Array([ 0.,  5., 10., 15., 20., 25.], dtype=float32)
    """
    if {type(start), type(stop)} <= _REALS and abs(start) < _BOUND and abs(stop) < _BOUND and 0 <= operator.index(num) <= _SMALL:
        kind = dtypes.float_dtype() if dtype is None else user_dtype(dtype)
        if kind.kind in "fiu":
            values, step = np.linspace(start, stop, num, endpoint, True, axis=axis)
            if kind.kind != "f":
                values = np.clip(np.floor(values), dtypes.iinfo(kind).min, dtypes.iinfo(kind).max)
            out = _own(values.astype(kind))
            return (out, _own(np.asarray(step, kind if kind.kind == "f" else dtypes.float_dtype()))) if retstep else out
    return _linspace(start, stop, num, endpoint, retstep, dtype, axis)


@eager(2)
def _linspace(start, stop, num, endpoint, retstep, dtype, axis):
    out_dtype = None if dtype is None else user_dtype(dtype)
    start, stop = (as_array("linspace", v) for v in promoted("linspace", [_operand(start), _operand(stop)], inexact=True))
    num = operator.index(num)
    shape = np.broadcast_shapes(start.shape, stop.shape)
    start, stop = spread(start, shape), spread(stop, shape)
    div_by = (num - 1) if endpoint else num
    full_shape = (num, *shape)
    t = broadcasted_iota(start.dtype, full_shape, 0) if num else _full(full_shape, 0, start.dtype)
    lo, hi = (reshape(v, (1, *shape)) for v in (start, stop))
    parts = max(div_by, 1)
    whole = out_dtype is not None and out_dtype.kind in "iu"
    if whole:  # the division comes last: rounding down must not turn 14.99... into 14
        first, way = spread(lo, full_shape), mul(t, spread(sub(hi, lo), full_shape))
        out = floor(add(first, div(way, like(t, parts))))
        above = add(sub(out, first), like(t, 1))  # a compiled quotient may fall short of a whole number
        out = add(out, convert_element_type(ge(way, mul(above, like(t, parts))), out.dtype))
    else:  # the division comes last here too; a power of two keeps the products from overflowing and rounds nothing
        scale = 2.0 ** -parts.bit_length()
        first, last = (spread(mul(v, like(v, scale)), full_shape) for v in (lo, hi))
        out = div(add(mul(first, sub(like(t, parts), t)), mul(last, t)), like(t, parts * scale))
    if endpoint and num > 1:
        out = concatenate([slice_in_dim(out, 0, num - 1), hi], 0)
    if out_dtype is not None:
        out = convert_element_type(floor(out) if whole else out, out_dtype)
    if axis % out.ndim:
        perm = list(range(1, out.ndim))
        perm.insert(axis % out.ndim, 0)
        out = transpose(out, tuple(perm))
    if not retstep:
        return out
    return out, convert_element_type((stop - start) / div_by, start.dtype) if div_by > 0 else _full(shape, math.nan, start.dtype)


def _operand(x):
    return x if type(x) in SCALARS else as_array("linspace", x)


@remembered
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """num values from base**start to base**stop with one ratio between neighbours."""
    out = base ** linspace(start, stop, num, endpoint, dtype=None, axis=axis)
    return out if dtype is None else out.astype(dtype)


@remembered
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """num values from start to stop with one ratio between neighbours; both of one sign, or complex."""
    lo, hi = (as_array("geomspace", v) for v in promoted("geomspace", [_operand(start), _operand(stop)], inexact=True))
    if dtype is not None and user_dtype(dtype).kind == "c":
        lo, hi = convert_element_type(lo, user_dtype(dtype)), convert_element_type(hi, user_dtype(dtype))
    unit = sign(lo)
    lo, hi = lo / unit, hi / unit
    out = exp(linspace(log(lo), log(hi), num, endpoint, axis=0))
    ends = [reshape(v, (1, *v.shape)) for v in (spread(lo, out.shape[1:]), spread(hi, out.shape[1:]))]
    if num > 1 and endpoint:
        out = concatenate([ends[0], slice_in_dim(out, 1, num - 1), ends[1]], 0)
    elif num > 0:
        out = concatenate([ends[0], slice_in_dim(out, 1, num)], 0)
    out = out * unit
    out = out if dtype is None else out.astype(dtype)
    if axis % out.ndim:
        perm = list(range(1, out.ndim))
        perm.insert(axis % out.ndim, 0)
        out = transpose(out, tuple(perm))
    return out


def diagonals_and_columns(shape, k):
    """The column of diagonal k in each row, and the columns, of matrices (the last two axes) of a shape."""
    n, rows = len(shape), iota(dtypes.INT32, shape[-2])
    return broadcast_in_dim(add(rows, like(rows, k)), shape, (n - 2,)), broadcasted_iota(dtypes.INT32, shape, n - 1)


@remembered
@eager(0)
def eye(N, M=None, k=0, dtype=None, *, device=None):
    """Ones on diagonal k of an (N, M) array of zeros."""
    if get_aval(k).shape or get_aval(k).dtype.kind not in "iub":
        raise ValueError(f"eye: k must be an integer, got {k}")
    shape = (operator.index(N), operator.index(N if M is None else M))
    return convert_element_type(eq(*diagonals_and_columns(shape, k)), user_dtype(dtype) or dtypes.float_dtype())


def identity(n, dtype=None):
    """The identity matrix of size n."""
    return eye(n, dtype=dtype)


@remembered
@eager(0)
def tri(N, M=None, k=0, dtype=None):
    """Ones at and below diagonal k; float32 by default, also with 64-bit types."""
    shape = (operator.index(N), operator.index(N if M is None else M))
    return convert_element_type(ge(*diagonals_and_columns(shape, k)), user_dtype(dtype) or dtypes.FLOAT32)


def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """Coordinate arrays of a grid."""
    xi = [as_array("meshgrid", x) for x in xi]
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for indexing are 'xy' and 'ij', got {indexing}")
    if any(x.ndim != 1 for x in xi):
        raise ValueError(f"Arguments to jax.numpy.meshgrid must be 1D, got shapes {[x.shape for x in xi]}")
    n = len(xi)
    order = list(range(n))
    if indexing == "xy" and n >= 2:
        order[0], order[1] = 1, 0
    shape = [0] * n
    for i, x in enumerate(xi):
        shape[order[i]] = x.size
    return [_along(x, order[i], n, None if sparse else tuple(shape)) for i, x in enumerate(xi)]


@eager(1)
def _along(x, axis, n, shape):
    """A vector along one of n axes, spread to a shape."""
    x = reshape(x, (1,) * axis + x.shape + (1,) * (n - 1 - axis))
    return x if shape is None else spread(x, shape)


@remembered
def indices(dimensions, dtype=None, sparse=False):
    """One array of positions per axis, stacked; or with sparse a tuple of open arrays that broadcast."""
    dims = _shape(dimensions)
    dtype = user_dtype(dtype) or dtypes.int_dtype()
    if sparse:
        return tuple(
            reshape(broadcasted_iota(dtype, (n,), 0), tuple(n if i == d else 1 for i in range(len(dims)))) for d, n in enumerate(dims)
        )
    if not dims:
        return _full((0,), 0, dtype)
    return concatenate([reshape(broadcasted_iota(dtype, dims, d), (1, *dims)) for d in range(len(dims))], 0)
