"""What the functions of fgrad.numpy share: operand checks, promotion, broadcasting, axis and dtype arguments."""

import operator
import warnings
from collections.abc import Hashable

import numpy as np

from fgrad import dtypes
from fgrad._kernels.creation import looked_up
from fgrad.compile.eager import eager
from fgrad.config import config
from fgrad.core import (
    Array,
    Tracer,
    concrete_or_none,
    context,
    eval_trace,
    from_numpy,
    from_scalar,
    get_aval,
    stands_for,
    unmasked,
    using_trace,
)
from fgrad.core.binding import is_array, paired
from fgrad.dtypes import BOOL, float0, promote
from fgrad.errors import AxisError, ConcretizationTypeError, ShapeError
from fgrad.ops.elementwise import convert_element_type, ne
from fgrad.ops.shape import broadcast_in_dim, reshape

SCALARS = (bool, int, float, complex)
OPERANDS = (Array, np.ndarray, np.generic, bool, int, float, complex)  # tracers count as Array
_known_dtypes: dict = {}  # (what was asked for, x64) -> the dtype of arrays asked for it, where nothing is to be said about it
_PY_OF_KIND = {"i": int, "f": float, "c": complex}


def not_array_like(name, x, position):
    """Raise the TypeError for what is neither array nor scalar."""
    raise TypeError(
        f"{name} requires ndarray or scalar arguments, got {type(x)} at position {position}."
        + (" Wrap lists and tuples in fgrad.numpy.array(...)." if isinstance(x, (list, tuple)) else "")
    )


def as_operand(name, x, position=0):
    """x as something primitives take: an Array, a tracer, a NumPy scalar or a Python scalar."""
    t = type(x)
    if t is Array or t in SCALARS or isinstance(x, Tracer):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype == float0:
            raise TypeError(
                f"Called {name} with a float0 array. float0s do not support any operations by design because they are not "
                "compatible with non-trivial vector spaces: they are gradients with respect to integers."
            )
        return from_numpy(np.asarray(unmasked(x)))
    if hasattr(x, "__jax_array__"):
        return as_operand(name, x.__jax_array__(), position)
    if (value := stands_for(x)) is not None:
        return as_operand(name, value, position)
    not_array_like(name, x, position)


def as_array(name, x, position=0):
    """x as an Array or tracer. Lists and tuples are refused, as everywhere but in array() and asarray()."""
    if is_array(x):
        return x
    x = as_operand(name, x, position)
    return from_scalar(x) if type(x) in SCALARS else x


def cast_scalar(x, dtype, weak=False):
    """A Python scalar as a constant of `dtype`; a Python scalar again where it stays weak."""
    if weak:
        kind = _PY_OF_KIND.get(dtype.kind)
        if kind is not None and dtypes.scalar_dtype(kind()) == dtype:
            return kind(x)
        return from_scalar(x, dtype, True)
    if type(x) is int and dtypes.kind_of(dtype) in "iu":
        info = dtypes.iinfo(dtype)
        if not info.min <= x <= info.max:
            if not -(1 << 63) <= x < 1 << 64:
                raise OverflowError(f"Python integer {x} is out of bounds for {dtype.name}")
            return np.array(x).astype(dtype)[()]
    if dtype.kind in "iuf" and type(x) is complex:
        x = x.real
    return dtype.type(x)


def cast(x, dtype, weak=False):
    """An operand cast to dtype, if it has another."""
    if type(x) in SCALARS:
        return cast_scalar(x, dtype, weak)
    if isinstance(x, np.generic):  # a Python scalar that `binary` has cast
        return x if x.dtype == dtype else x.astype(dtype)
    if x.aval.dtype is dtype:
        return x
    return convert_element_type(x, dtype, weak)


def _pair(x):
    if type(x) in SCALARS:
        dtype = dtypes.scalar_dtype(x)
        return dtype, dtype is not BOOL
    aval = x.aval
    return aval.dtype, aval.weak_type


def _refuse_float0(name, pairs):
    if any(d == float0 for d, _ in pairs):
        raise TypeError(
            f"Called {name} with a float0 array. float0s do not support any operations by design; "
            "if you did not expect one, you may have taken a gradient with respect to an integer argument."
        )


def promoted(name, args, numeric=False, inexact=False):
    """Operands promoted to one dtype. numeric: bool becomes int32; inexact: what is not inexact becomes a float (dtypes.to_inexact)."""
    pairs = [_pair(x) for x in args]
    first = pairs[0][0]
    if (
        all(p[0] is first for p in pairs)
        and not (numeric and first == BOOL)
        and not (inexact and not dtypes.is_inexact(first))
        and not any(type(x) in SCALARS for x in args)
    ):
        return list(args)
    _refuse_float0(name, pairs)
    dtype, weak = promote(pairs)
    if inexact and not dtypes.is_inexact(dtype):
        dtype = dtypes.to_inexact(dtype)
    elif numeric and dtype == BOOL:
        dtype = dtypes.INT32
    return [cast(x, dtype, weak) for x in args]


def broadcast_shape(*shapes):
    """NumPy's broadcasting of shapes; raises ValueError where they do not fit."""
    rank = max(map(len, shapes), default=0)
    out = [1] * rank
    for s in shapes:
        at = rank - len(s)
        for i, n in enumerate(s, at):
            if n != 1:
                if out[i] != 1 and out[i] != n:
                    raise ShapeError(f"Incompatible shapes for broadcasting: shapes={list(shapes)}")
                out[i] = n
    return tuple(out)


def spread(x, shape):
    """x broadcast to `shape` by NumPy's rules (which it must fit)."""
    own = x.aval.shape
    if own == shape:
        return x
    at = len(shape) - len(own)
    return broadcast_in_dim(x, shape, tuple(range(at, at + len(own))))


def _check_rank_promotion(name, shapes):
    mode = config.numpy_rank_promotion
    if mode == "warn":
        warnings.warn(
            f"Following NumPy automatic rank promotion for {name} on shapes {' '.join(map(str, shapes))}. "
            "Set the numpy_rank_promotion option to 'allow' to disable this warning.",
            stacklevel=4,
        )
    elif mode == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {' '.join(map(str, shapes))} and with the config "
            "option jax_numpy_rank_promotion='raise'. Insert axes with x[None] or expand_dims."
        )


def broadcasted(name, args, promotes=True):
    """Operands of one shape; rank-0 ones stay as they are (elementwise primitives take them).

    promotes: whether numpy_rank_promotion governs this function.
    """
    shapes = [x.aval.shape for x in args if hasattr(x, "aval")]
    shapes = [s for s in shapes if s]
    if len(shapes) < 2 or all(s == shapes[0] for s in shapes):
        return args
    try:
        shape = broadcast_shape(*shapes)
    except ValueError:
        raise ShapeError(
            f"{name} got incompatible shapes for broadcasting: {', '.join(map(str, shapes))}. "
            f"Incompatible shapes for broadcasting: shapes={shapes}"
        ) from None
    if promotes and any(len(s) != len(shape) for s in shapes):
        _check_rank_promotion(name, shapes)
    return [spread(x, shape) if hasattr(x, "aval") and x.aval.shape else x for x in args]


def binary(name, x, y, numeric=False, inexact=False):
    """The two operands of a binary ufunc, promoted and broadcast."""
    if (pair := paired(x, y, inexact)) is not None:
        return pair
    tx, ty = type(x), type(y)
    if tx not in SCALARS and tx is not Array and not isinstance(x, Tracer):
        if isinstance(x, np.generic) and not inexact and getattr(y, "aval", None) is not None and y.aval.dtype is x.dtype is not BOOL:
            return x, y
        x = as_operand(name, x)
        tx = type(x)
    if ty not in SCALARS and ty is not Array and not isinstance(y, Tracer):
        if isinstance(y, np.generic) and not inexact and getattr(x, "aval", None) is not None and x.aval.dtype is y.dtype is not BOOL:
            return x, y
        y = as_operand(name, y, 1)
        ty = type(y)
    if tx in SCALARS:
        if ty in SCALARS:
            x, y = promoted(name, (x, y), numeric, inexact)
            return (from_scalar(x) if type(x) in SCALARS else from_numpy(np.asarray(x))), y
        x = _beside(name, x, y, numeric, inexact)
        return x if type(x) is tuple else (x, y)
    if ty in SCALARS:
        y = _beside(name, y, x, numeric, inexact)
        return y[::-1] if type(y) is tuple else (x, y)
    a, b = x.aval, y.aval
    if a.dtype is not b.dtype or numeric or inexact or a.dtype is float0:
        x, y = promoted(name, (x, y), numeric, inexact)
    if a.shape != b.shape and a.shape and b.shape:
        x, y = broadcasted(name, (x, y))
    return x, y


def _beside(name, scalar, x, numeric, inexact):
    """A Python scalar cast to the dtype of array x, or (scalar, x) both promoted where x must change too."""
    aval = x.aval
    kind, t = aval.dtype.kind, type(scalar)
    if dtypes.canonicalize_dtype(aval.dtype) is not aval.dtype:  # a 64-bit array that has outlived enable_x64
        return tuple(promoted(name, (scalar, x), numeric, inexact))
    if kind == "f" and t is not complex or (kind in "iu" and (t is int or t is bool) and not inexact):
        if aval.weak_type:
            return cast_scalar(scalar, aval.dtype, True)
        if t is float or kind == "f":
            return aval.dtype.type(scalar)
        return cast_scalar(scalar, aval.dtype)
    return tuple(promoted(name, (scalar, x), numeric, inexact))


def unary(name, x, numeric=False, inexact=False):
    """The operand of a unary ufunc."""
    if type(x) is not Array and not isinstance(x, Tracer):
        x = as_array(name, x)
    aval = x.aval
    if inexact and aval.dtype.kind not in "fc":
        _refuse_float0(name, [(aval.dtype, False)])
        if not dtypes.is_inexact(aval.dtype):
            x = convert_element_type(x, dtypes.to_inexact(aval.dtype), aval.weak_type)
    elif numeric and aval.dtype == BOOL:
        x = convert_element_type(x, dtypes.INT32)
    return x


def user_dtype(dtype, name="dtype"):
    """A dtype argument: canonical, with a warning where 64 bits were asked for and x64 is off."""
    if dtype is None:
        return None
    try:
        known = looked_up(_known_dtypes, dtype)
    except TypeError:  # what cannot be hashed
        known = None
    return _checked_dtype(dtype, name) if known is None else known


def is_plain_dtype(dtype):
    """True of a dtype argument that user_dtype has seen, and has nothing to say about."""
    try:
        return dtype is None or (dtype, config.enable_x64) in _known_dtypes
    except TypeError:
        return False


def _checked_dtype(dtype, name):
    out = dtypes.check_user_dtype(dtype, name)
    if out.itemsize < 8 and dtype not in (int, float, complex) and np.dtype(dtype) != out and np.dtype(dtype).itemsize > out.itemsize:
        _warn_narrowed(name, dtype, out)
    elif out.kind == "c" and dtype is not complex and np.dtype(dtype) != out:
        _warn_narrowed(name, dtype, out)
    elif isinstance(dtype, Hashable) and len(_known_dtypes) < 1000:
        _known_dtypes[dtype, config.enable_x64] = out
    return out


def _warn_narrowed(name, dtype, out):
    if isinstance(dtype, type) and not issubclass(dtype, np.generic) and getattr(dtype, "_default_alias", False):
        return
    warnings.warn(
        f"Explicitly requested dtype {np.dtype(dtype).name} requested in {name} is not available, and will be truncated to dtype "
        f"{out.name}. To enable more dtypes, set the enable_x64 configuration option or the FGRAD_ENABLE_X64 environment variable.",
        stacklevel=4,
    )


def axis_index(axis, ndim):
    """An axis argument as an int in [0, ndim)."""
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise AxisError(f"axis {i} is out of bounds for array of dimension {ndim}")
    return i + ndim if i < 0 else i


def axis_tuple(axis, ndim):
    """An axis argument (int, sequence or array of ints, or None for all) as a tuple of distinct ints in [0, ndim)."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list, range)) or getattr(axis, "ndim", 0):
        out = tuple([axis_index(a, ndim) for a in axis])
        if len(set(out)) != len(out):
            raise ValueError(f"duplicate value in 'axis': {axis}")
        return out
    return (axis_index(axis, ndim),)


def named_axes(axis, ndim):
    """(the axes of an array as axis_tuple gives them, the names of vmap's axes) among an axis argument, whose names are strings."""
    if isinstance(axis, str):
        return (), (axis,)
    if isinstance(axis, (tuple, list)) and (names := tuple(a for a in axis if isinstance(a, str))):
        return axis_tuple([a for a in axis if not isinstance(a, str)], ndim), names
    return axis_tuple(axis, ndim), ()


def no_out(name, out):
    """Arrays are immutable: `out` is in the signatures only so that None may be passed."""
    if out is not None:
        raise NotImplementedError(f"The 'out' argument to jnp.{name} is not supported: arrays are immutable. Use the returned value.")


def concrete(name, x, hint):
    """The NumPy value behind an argument that decides a shape; ConcretizationTypeError while it is abstract."""
    value = concrete_or_none(x)
    if value is None or isinstance(value, Tracer):
        raise ConcretizationTypeError(
            f"jnp.{name} needs a concrete value, that is known while tracing, got {x._describe()}{x._origin()}. {hint}"
        )
    return np.asarray(value)


def concrete_mask(name, x, hint):
    """Where an argument that decides a shape is not zero, as a concrete array of bool; ConcretizationTypeError while it is abstract."""
    value = concrete_or_none(x)
    if type(value) is not Array:
        return from_numpy(concrete(name, x, hint) != 0)
    if value.dtype is dtypes.BOOL:
        return value
    if context.trace is eval_trace:
        return _nonzero(value)
    with using_trace(eval_trace):
        return _nonzero(value)


@eager(1)
def _nonzero(x):
    return ne(x, x.dtype.type(0))


def common_dtype(x, y):
    """The dtype of two operands that `binary` has promoted (one may be a Python scalar, not both)."""
    return y.dtype if type(x) in SCALARS else x.dtype


def dtype_of(x):
    """The dtype of an array-like or Python scalar."""
    return get_aval(x).dtype


def shape_of(x):
    return get_aval(x).shape


def with_axes(x, axes, ndim):
    """A result reduced over `axes` of an array of rank ndim, with those axes back at size 1 (keepdims)."""
    axes = set(axes)
    it = iter(x.aval.shape)
    return reshape(x, tuple(1 if i in axes else next(it) for i in range(ndim)))


def promote_dtypes_inexact(*args):
    """Arrays promoted to one floating or complex dtype."""
    return [
        as_array("promote_dtypes_inexact", x)
        for x in promoted("promote_dtypes_inexact", [as_operand("promote", x) for x in args], inexact=True)
    ]
