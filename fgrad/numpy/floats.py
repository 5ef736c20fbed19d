"""The parts of floating-point numbers, questions about dtypes, and packed bits."""

import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import get_aval
from fgrad.lax.misc import stop_gradient
from fgrad.numpy import ufuncs as U
from fgrad.numpy.selection import where
from fgrad.numpy.util import as_array, axis_index, binary, broadcasted, no_out, unary
from fgrad.ops import elementwise as E
from fgrad.ops.casts import bitcast_convert_type_p, cast_as
from fgrad.ops.rules import full
from fgrad.ops.shape import pad, reshape, slice_in_dim, transpose

__all__ = [
    "fmax", "fmin", "frexp", "ldexp", "modf", "spacing", "iscomplex", "isreal", "iscomplexobj", "isrealobj", "isscalar", "iterable",
    "can_cast", "isdtype", "issubdtype", "packbits", "unpackbits",
]  # fmt: skip


def _ignoring_nan(name, pick):
    def fun(x1, x2):
        x, y = binary(name, x1, x2)
        x, y = as_array(name, x), as_array(name, y)
        return where(U.isnan(y), x, where(pick(x, y), x, y))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = f"The {'larger' if name == 'fmax' else 'smaller'} of x1 and x2; of a number and NaN the number."
    return eager(2)(fun)


fmax, fmin = _ignoring_nan("fmax", U.greater), _ignoring_nan("fmin", U.less)


def _format(dtype):
    """(bits of the mantissa, exponent bias, unsigned integer of the same width) of a float dtype."""
    info = dtypes.finfo(dtype)
    return int(info.nmant), int(1 - info.minexp), np.dtype(f"u{dtype.itemsize}")


@eager(1)
def frexp(x, /):
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1 (m = x and e = 0 for 0, infinity and NaN); e is int32."""
    x = unary("frexp", x, inexact=True)
    dtype = x.dtype
    if dtype.kind == "c":
        raise TypeError("frexp does not support complex-valued inputs")
    mantissa, bias, uint = _format(dtype)
    fields = (1 << (dtype.itemsize * 8 - 1 - mantissa)) - 1
    # Numbers are first moved to where both they and the factor that is left are normal; the derivative is both factors.
    up, down = mantissa + 3, -3
    size = U.absolute(x)
    small = size < dtype.type(2.0 ** (4 - bias))
    moved = x * where(small, dtype.type(2.0**up), dtype.type(2.0**down))
    bits = E.bitcast_convert_type(moved, uint)
    field = E.bitwise_and(E.shift_right_logical(bits, E.like(bits, mantissa)), E.like(bits, fields))
    factor = E.bitcast_convert_type(E.shift_left(uint.type(2 * bias - 1) - field, E.like(bits, mantissa)), dtype)
    plain = E.bitwise_and(size > 0, U.isfinite(x))
    shift = where(small, np.int32(1 - bias - up), np.int32(1 - bias - down))
    e = E.convert_element_type(field, np.int32) + shift
    return where(plain, moved * factor, x), where(plain, e, np.int32(0))


def _limited(n, lo, hi):
    return U.minimum(U.maximum(n, np.int32(lo)), np.int32(hi))


@eager(2)
def ldexp(x1, x2, /):
    """x1 * 2**x2 for integer x2, without overflow on the way."""
    x, n = as_array("ldexp", x1), as_array("ldexp", x2, 1)
    if x.dtype.kind == "c" or not (dtypes.is_integer(n.dtype) or n.dtype == dtypes.BOOL):
        raise ValueError(f"ldexp not supported for input types {(x.dtype.name, n.dtype.name)}")
    x = unary("ldexp", x, inexact=True)
    dtype = x.dtype
    wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype  # it holds every 16-bit float and every n that matters
    n = E.convert_element_type(_limited(E.convert_element_type(n, np.int32), -9000, 9000), wide)
    x, n = broadcasted("ldexp", (E.convert_element_type(x, wide), n))
    return E.convert_element_type(E.ldexp_p.bind(x, n), dtype)


@eager(1)
def modf(x, /, out=None):
    """(fractional part, whole part), both with the sign of x; the fractional part of infinities is NaN, as in JAX."""
    no_out("modf", out)
    x = unary("modf", x, inexact=True)
    if x.dtype.kind == "c":
        raise TypeError("modf does not support complex-valued inputs")
    whole = E.trunc(x)
    return x - whole, whole


def spacing(x, /):
    """The distance from x to the next number away from zero, with x's sign; constant between powers of two."""
    x = unary("spacing", x, inexact=True)
    if x.dtype.kind == "c":
        raise ValueError("jnp.spacing is not defined for complex inputs.")
    x = stop_gradient(x)
    uint = _format(x.dtype)[2]
    away = E.bitcast_convert_type(E.bitcast_convert_type(x, uint) + uint.type(1), x.dtype)  # of infinity this is NaN, as the distance
    return U.subtract(away, x)


# --- questions ----------------------------------------------------------------------------------------------------------


@eager(1)
def iscomplex(x):
    """Where the imaginary part is not zero."""
    x = as_array("iscomplex", x)
    return E.imag(x) != 0 if x.dtype.kind == "c" else full(x.shape, False, dtypes.BOOL)


@eager(1)
def isreal(x):
    """Where the imaginary part is zero."""
    x = as_array("isreal", x)
    return E.imag(x) == 0 if x.dtype.kind == "c" else full(x.shape, True, dtypes.BOOL)


def iscomplexobj(x):
    """Whether the dtype is complex, whatever the values."""
    if x is None:
        return False
    try:
        return get_aval(x).dtype.kind == "c"
    except TypeError:
        return bool(np.iscomplexobj(x))


def isrealobj(x):
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


def isscalar(element):
    """Whether something is a number, a text or an array of rank 0."""
    if hasattr(element, "aval") or isinstance(element, np.ndarray):
        return element.ndim == 0
    return np.isscalar(element)


def iterable(y):
    """Whether something can be iterated over (arrays of rank 0 cannot)."""
    return bool(np.iterable(y)) and getattr(y, "ndim", 1) != 0


def can_cast(from_, to, casting="safe"):
    """NumPy's rule for casts between dtypes, with bfloat16."""
    return np.can_cast(getattr(from_, "dtype", from_), getattr(to, "dtype", to), casting)


def issubdtype(arg1, arg2) -> bool:
    """Whether a dtype is or lies below another in the hierarchy of dtypes (`fgrad.dtypes.issubdtype`)."""
    return dtypes.issubdtype(arg1, arg2)


_KINDS = {
    "bool": lambda d: d == dtypes.BOOL,
    "signed integer": dtypes.is_signed,
    "unsigned integer": lambda d: dtypes.kind_of(d) == "u",
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": lambda d: d.kind == "c",
    "numeric": lambda d: dtypes.kind_of(d) in "iufc",
}


def isdtype(dtype, kind):
    """Whether a dtype is of a kind: a dtype, a name such as "integral" or "real floating" (array API), or a tuple of these."""
    d = np.dtype(dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype))
    for k in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(k, str) and k in _KINDS:
            if _KINDS[k](d):
                return True
            continue
        try:
            other = np.dtype(k if isinstance(k, type) else getattr(k, "dtype", k))
        except TypeError:
            raise ValueError(f"Unrecognized kind={k!r}, expected a dtype or one of {', '.join(_KINDS)}") from None
        if d == other:
            return True
    return False


# --- packed bits --------------------------------------------------------------------------------------------------------

_EIGHT = np.dtype(np.uint64)  # eight bytes, the first one lowest
_ONES = sum(1 << 8 * k for k in range(8))


def _behind(name, a, axis, bitorder):
    """The array with the axis to work on last, and that axis."""
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    x = as_array(name, a)
    if axis is None:
        return reshape(x, (x.size,)), 0
    axis = axis_index(axis, x.ndim)
    return _swap(x, axis), axis


def _swap(x, axis):
    perm = list(range(x.ndim))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return transpose(x, tuple(perm))


@eager(1)
def packbits(a, axis=None, bitorder="big"):
    """Eight truth values to a uint8 along an axis (of the flattened array if None), filled up with zeros; bitorder: big or little."""
    x, axis = _behind("packbits", a, axis, bitorder)
    if not (dtypes.is_integer(x.dtype) or x.dtype == dtypes.BOOL):
        raise TypeError("Expected an input array of integer or boolean data type")
    bits = E.convert_element_type(U.truth(x), np.uint8)
    n = bits.shape[-1]
    bits = pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, -n % 8, 0)])
    # Eight bytes are a number; its product with as many powers of two has byte k's bit where the last byte wants it, and no carries.
    eight = bitcast_convert_type_p.bind(reshape(bits, (*bits.shape[:-1], -(-n // 8), 8)), new_dtype=_EIGHT)
    moves = sum(1 << (63 - 9 * k if bitorder == "big" else 56 - 7 * k) for k in range(8))
    packed = E.shift_right_logical(E.mul(eight, E.like(eight, moves)), E.like(eight, 56))
    return _swap(E.convert_element_type(packed, np.uint8), axis)


@eager(1)
def unpackbits(a, axis=None, count=None, bitorder="big"):
    """Each uint8 as eight zeros and ones along an axis; count: how many are kept (negative: how many are cut off the end)."""
    x, axis = _behind("unpackbits", a, axis, bitorder)
    if x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    # A byte eight times side by side, bit k of copy k; any bit of a copy and 127 give its highest.
    eight = cast_as(x, _EIGHT)
    bit = sum((128 >> k if bitorder == "big" else 1 << k) << 8 * k for k in range(8))
    chosen = E.bitwise_and(E.mul(eight, E.like(eight, _ONES)), E.like(eight, bit))
    bits = E.bitwise_and(E.shift_right_logical(E.add(chosen, E.like(eight, 127 * _ONES)), E.like(eight, 7)), E.like(eight, _ONES))
    bits = bitcast_convert_type_p.bind(bits, new_dtype=np.dtype(np.uint8))
    n = x.shape[-1] * 8
    bits = reshape(bits, (*x.shape[:-1], n))
    if count is not None:
        count = operator.index(count)
        keep = count if count >= 0 else max(n + count, 0)
        bits = slice_in_dim(bits, 0, min(keep, n), axis=bits.ndim - 1)
        bits = pad(bits, np.uint8(0), [(0, 0, 0)] * (bits.ndim - 1) + [(0, max(keep - n, 0), 0)])
    return _swap(bits, axis)
