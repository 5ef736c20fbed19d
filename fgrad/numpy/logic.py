"""Elementwise comparison, maximum and minimum, logic, bits, and the classes of floating-point numbers."""

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.dtypes import BOOL
from fgrad.numpy.arithmetic import absolute, imag, real
from fgrad.numpy.overlay import is_overlay
from fgrad.numpy.ufunc_kinds import arr, binary_ufunc, named
from fgrad.numpy.util import binary, common_dtype, no_out, unary
from fgrad.ops import elementwise as ew
from fgrad.ops import rules

__all__ = [
    "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "invert", "bitwise_invert", "left_shift",
    "right_shift", "bitwise_left_shift", "bitwise_right_shift", "bitwise_count", "isfinite", "isinf", "isposinf", "isneginf", "isnan",
    "signbit", "copysign",
]  # fmt: skip


# --- comparison and logic ---------------------------------------------------------------------------------------------


def _compare(name, prim, symbol, ordered):
    bind = prim.bind

    def fun(x, y, /):
        if is_overlay(x) and is_overlay(y) and not ordered:
            return x == y if symbol == "==" else x != y
        x, y = binary(name, x, y)
        if ordered and common_dtype(x, y).kind == "c":
            xr, yr, xi, yi = real(x), real(y), imag(x), imag(y)
            return ew.select(ew.eq(xr, yr), bind(xi, yi), bind(xr, yr))
        return bind(x, y)

    return named(
        fun,
        name,
        f"x {symbol} y as a boolean array, after type promotion and broadcasting.\n\n"
        + ("Complex numbers are ordered by real part, then by imaginary part.\n" if ordered else "NaN equals nothing.\n"),
    )


equal = _compare("equal", ew.eq_p, "==", False)
not_equal = _compare("not_equal", ew.ne_p, "!=", False)
less = _compare("less", ew.lt_p, "<", True)
less_equal = _compare("less_equal", ew.le_p, "<=", True)
greater = _compare("greater", ew.gt_p, ">", True)
greater_equal = _compare("greater_equal", ew.ge_p, ">=", True)


def _ordered(fun, pick):
    """maximum and minimum order complex numbers by real, then imaginary part."""

    def wrapped(x, y, /):
        x, y = binary(fun.__name__, x, y)
        if common_dtype(x, y).kind == "c":
            return ew.select(pick(x, y), x, y)
        return fun(x, y)

    return named(wrapped, fun.__name__, fun.__doc__)


maximum = binary_ufunc("maximum", ew.max_p, None, "The larger of x and y; NaN if either is; ties split the gradient evenly")
minimum = binary_ufunc("minimum", ew.min_p, None, "The smaller of x and y; NaN if either is; ties split the gradient evenly")
maximum = _ordered(maximum, greater)
minimum = _ordered(minimum, less)


def truth(x):
    """x != 0; booleans as they are."""
    dtype = x.aval.dtype
    return x if dtype is BOOL else ew.ne(x, dtype.type(0))


def _logical(name, prim):
    def fun(x, y, /):
        x, y = binary(name, x, y)
        dtype = common_dtype(x, y)
        x, y = [np.bool_(v) if not hasattr(v, "aval") else truth(v) for v in (x, y)] if dtype is not BOOL else (x, y)
        return prim.bind(x, y)

    return named(fun, name, f"{name.replace('_', ' ')} of x != 0 and y != 0, as booleans, after broadcasting.")


logical_and, logical_or, logical_xor = _logical("logical_and", ew.and_p), _logical("logical_or", ew.or_p), _logical("logical_xor", ew.xor_p)


@eager(1)
def logical_not(x, /):
    """x == 0 as booleans."""
    return ew.not_p.bind(truth(unary("logical_not", x)))


# --- bits -------------------------------------------------------------------------------------------------------------

bitwise_and = binary_ufunc("bitwise_and", ew.and_p, None, "x & y of integers or booleans")
bitwise_or = binary_ufunc("bitwise_or", ew.or_p, None, "x | y of integers or booleans")
bitwise_xor = binary_ufunc("bitwise_xor", ew.xor_p, None, "x ^ y of integers or booleans")


@eager(1)
def bitwise_not(x, /):
    """~x of integers; logical not of booleans."""
    return ew.not_p.bind(unary("bitwise_not", x))


invert = bitwise_invert = bitwise_not


@eager(2)
def left_shift(x, y, /):
    """x << y of integers."""
    return ew.shift_left_p.bind(*binary("left_shift", x, y, numeric=True))


@eager(2)
def right_shift(x, y, /):
    """x >> y of integers: arithmetic for signed, logical for unsigned."""
    x, y = binary("right_shift", x, y, numeric=True)
    prim = ew.shift_right_logical_p if common_dtype(x, y).kind == "u" else ew.shift_right_arithmetic_p
    return prim.bind(x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@eager(1)
def bitwise_count(x, /):
    """Number of set bits of |x|, as uint8."""
    x = absolute(unary("bitwise_count", x, numeric=True))
    return ew.convert_element_type(ew.population_count_p.bind(x), dtypes.uint8)


# --- floating-point classes -------------------------------------------------------------------------------------------


@eager(1)
def isfinite(x, /):
    """True where x is neither infinite nor NaN, as no random key is."""
    if is_overlay(x):
        return rules.full(x.shape, True, BOOL)
    x = unary("isfinite", x)
    return ew.is_finite_p.bind(x) if dtypes.is_inexact(x.aval.dtype) else rules.full(x.aval.shape, True, BOOL)


@eager(1)
def isinf(x, /):
    """True where x (or a part of complex x) is +inf or -inf."""
    if is_overlay(x):
        return rules.full(x.shape, False, BOOL)
    x = unary("isinf", x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        return ew.bitwise_or(isinf(ew.real(x)), isinf(ew.imag(x)))
    return ew.eq(ew.abs(x), dtype.type(np.inf)) if dtypes.is_inexact(dtype) else rules.full(x.aval.shape, False, BOOL)


def _is_signed_inf(name, x, out, value):
    no_out(name, out)
    if is_overlay(x):
        return rules.full(x.shape, False, BOOL)
    x = unary(name, x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    return ew.eq(x, dtype.type(value)) if dtypes.is_inexact(dtype) else rules.full(x.aval.shape, False, BOOL)


@eager(1)
def isposinf(x, /, out=None):
    """True where x is +inf."""
    return _is_signed_inf("isposinf", x, out, np.inf)


@eager(1)
def isneginf(x, /, out=None):
    """True where x is -inf."""
    return _is_signed_inf("isneginf", x, out, -np.inf)


@eager(1)
def isnan(x, /):
    """True where x (or a part of complex x) is NaN."""
    if is_overlay(x):
        return rules.full(x.shape, False, BOOL)
    x = unary("isnan", x)
    return ew.ne_p.bind(x, x) if dtypes.is_inexact(x.aval.dtype) else rules.full(x.aval.shape, False, BOOL)


@eager(1)
def signbit(x, /):
    """True where the sign bit is set: x negative, -0.0, or a NaN with that bit. Raises ValueError for complex x."""
    x = unary("signbit", x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtype}")
    if dtypes.kind_of(dtype) in "bu":
        return rules.full(x.aval.shape, False, BOOL)
    return ew.lt(x if dtypes.kind_of(dtype) == "i" else ew.copysign(ew.like(x, 1), x), dtype.type(0))


@eager(2)
def copysign(x1, x2, /):
    """|x1| with the sign of x2. Raises TypeError for complex operands."""
    x, y = binary("copysign", x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    return ew.copysign_p.bind(arr(x, dtype), arr(y, dtype))
