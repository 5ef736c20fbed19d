"""Elementwise arithmetic: signs, parts of complex numbers, sums, quotients and remainders, powers, integers."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import Array, Tracer
from fgrad.numpy.ufunc_kinds import arr, binary_ufunc, is_mask, typed_as
from fgrad.numpy.util import SCALARS, as_array, binary, broadcasted, common_dtype, dtype_of, unary
from fgrad.ops import elementwise as ew
from fgrad.ops import rules

__all__ = [
    "negative", "positive", "absolute", "abs", "fabs", "sign", "square", "reciprocal", "conjugate", "conj", "real", "imag", "angle",
    "deg2rad", "rad2deg", "radians", "degrees", "add", "subtract", "multiply", "true_divide", "divide", "floor_divide", "remainder",
    "mod", "fmod", "divmod", "power", "pow", "float_power", "nextafter", "heaviside", "gcd", "lcm",
]  # fmt: skip


# --- sign, absolute value, parts --------------------------------------------------------------------------------------


@eager(1)
def negative(x, /):
    """-x. Raises TypeError for booleans (use logical_not)."""
    return ew.neg_p.bind(unary("negative", x))


def positive(x, /):
    """x as it is."""
    return unary("positive", x)


@eager(1)
def absolute(x, /):
    """|x|; the modulus (a real array) of complex x."""
    x = unary("absolute", x)
    return x if dtypes.kind_of(x.aval.dtype) in "bu" else ew.abs_p.bind(x)


abs = absolute


@eager(1)
def fabs(x, /):
    """|x| of real x, as a float."""
    x = unary("fabs", x, inexact=True)
    if x.aval.dtype.kind == "c":
        raise TypeError("ufunc 'fabs' does not support complex dtypes; use absolute")
    return ew.abs_p.bind(x)


@eager(1)
def sign(x, /):
    """-1, 0 or 1 by the sign of x; z/|z| for complex z; NaN stays NaN."""
    return ew.sign_p.bind(unary("sign", x))


@eager(1)
def square(x, /):
    """x * x."""
    return ew.square_p.bind(unary("square", x, numeric=True))


@eager(1)
def reciprocal(x, /):
    """1 / x, as a float."""
    x = unary("reciprocal", x, inexact=True)
    return typed_as(ew.div_p.bind(ew.like(x, 1), x), x, x)


def conjugate(x, /):
    """Complex conjugate; real arrays as they are."""
    x = unary("conjugate", x)
    return ew.conj_p.bind(x) if x.aval.dtype.kind == "c" else x


conj = conjugate


def real(val, /):
    """Real part; real arrays as they are."""
    x = unary("real", val)
    return ew.real_p.bind(x) if x.aval.dtype.kind == "c" else x


@eager(1)
def imag(val, /):
    """Imaginary part; zeros for real arrays."""
    x = unary("imag", val)
    return ew.imag_p.bind(x) if x.aval.dtype.kind == "c" else typed_as(rules.full(x.aval.shape, 0, x.aval.dtype), x, x)


@eager(1)
def angle(z, deg=False):
    """Argument of complex z in (-pi, pi], in degrees with deg=True."""
    z = unary("angle", z)
    if not dtypes.is_inexact(z.dtype):
        z = ew.convert_element_type(z, dtypes.float_dtype())
    out = ew.atan2(imag(z), real(z))
    if z.aval.dtype.kind != "c" and not z.ndim:
        out = ew.convert_element_type(out, out.dtype)  # of one real number never weakly typed
    return degrees(out) if deg else out


@eager(1)
def deg2rad(x, /):
    """x * pi / 180."""
    x = unary("deg2rad", x, inexact=True)
    out = ew.mul_p.bind(x, ew.like(x, math.pi / 180))
    return ew.convert_element_type(out, out.dtype, x.aval.weak_type and not x.ndim)  # weakly typed of weak numbers alone


@eager(1)
def rad2deg(x, /):
    """x * 180 / pi."""
    x = unary("rad2deg", x, inexact=True)
    out = ew.mul_p.bind(x, ew.like(x, 180 / math.pi))
    return ew.convert_element_type(out, out.dtype, x.aval.weak_type and not x.ndim)  # weakly typed of weak numbers alone


radians, degrees = deg2rad, rad2deg


# --- arithmetic -------------------------------------------------------------------------------------------------------


add = binary_ufunc("add", ew.add_p, ew.or_p, "x + y (logical or of booleans)")
subtract = binary_ufunc("subtract", ew.sub_p, None, "x - y")


def _masked(x, y):
    """x * y of a boolean array and floats: the floats where it holds, else 0, also of inf and NaN (so XLA multiplies by booleans). None of
    other operands."""
    for mask, of in ((x, y), (y, x)):
        if is_mask(mask) and (type(of) in (float, complex) or (hasattr(of, "dtype") and dtypes.is_inexact(of.dtype))):
            mask, of = broadcasted("multiply", [as_array("multiply", mask), as_array("multiply", of)])
            if of.shape and not mask.shape:
                mask = ew.broadcast_to(mask, of.shape)
            return typed_as(ew.select_p.bind(mask, of, ew.like(of, 0)), of, of)
    return None


multiply = binary_ufunc(
    "multiply", ew.mul_p, ew.and_p, "x * y (logical and of booleans; 0 where a boolean that meets a float is False)", _masked
)


@eager(2)
def true_divide(x, y, /):
    """x / y as a float (or complex) array, after type promotion and broadcasting.

    >>> import fgrad.numpy as jnp
    >>> float(jnp.true_divide(1, 2))
    0.5
    """
    return ew.div_p.bind(*binary("true_divide", x, y, inexact=True))


divide = true_divide


def _zero_safe(y, dtype):
    """Integer divisors with 0 replaced by 1, so that x % 0 is 0."""
    if type(y) in SCALARS or isinstance(y, np.generic):
        return y if y else type(y)(1)
    return ew.select(ew.eq(y, dtype.type(0)), dtype.type(1), y)


def _positive(y):
    """An integer divisor that is known to be positive, or None."""
    known = (type(y) is int or isinstance(y, np.integer)) and y > 0
    return int(y) if known else None


def _floor_by(x, y, dtype):
    """Floored quotient and remainder of integers by a known positive one: what truncation leaves below 0 takes one divisor back."""
    if y & (y - 1) == 0:
        return ew.shift_right_arithmetic(x, dtype.type(int(y).bit_length() - 1)), ew.bitwise_and(x, y - dtype.type(1))
    q = ew.div(x, y)
    m = ew.sub(x, ew.mul(q, y))
    below = ew.shift_right_arithmetic(m, dtype.type(8 * dtype.itemsize - 1))
    return ew.add(q, below), ew.add(m, ew.bitwise_and(below, y))


@eager(2)
def floor_divide(x, y, /):
    """floor(x / y), element by element, in the promoted dtype. Raises TypeError for complex operands."""
    given = x, y = binary("floor_divide", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs")
    if dtypes.kind_of(dtype) == "u":
        return ew.div(x, y)
    if dtypes.kind_of(dtype) == "i":
        if (divisor := _positive(y)) is not None:
            return typed_as(_floor_by(x, dtype.type(divisor), dtype)[0], x, y)
        x, y, zero = arr(x, dtype), arr(y, dtype), dtype.type(0)
        q = ew.div(x, y)
        m = ew.sub(x, ew.mul(q, y))  # of numbers by 0, whose quotient is -1, they themselves
        down = ew.bitwise_or(ew.lt(ew.bitwise_xor(m, y), zero), ew.eq(y, zero))
        return typed_as(ew.select(ew.bitwise_and(down, ew.ne(m, zero)), ew.sub(q, dtype.type(1)), q), *given)
    return typed_as(_float_divmod(x, y, dtype)[0], x, y)


def _across(m, y, zero):
    """Where a remainder has not the divisor's sign."""
    if isinstance(y, (int, float, np.number)) and y > 0:  # no operation for what is known
        return ew.lt(m, zero)
    return ew.bitwise_and(ew.ne(m, zero), ew.ne(ew.lt(m, zero), ew.lt(y, zero)))


def _float_divmod(x, y, dtype):
    zero, one = dtype.type(0), dtype.type(1)
    m = ew.rem(x, y)
    q = ew.div(ew.select(ew.eq(y, zero), x, ew.sub(x, m)), y)
    fix = _across(m, y, zero)
    return typed_as(ew.round(ew.select(fix, ew.sub(q, one), q)), x, y), ew.select(fix, ew.add(m, y), m)


@eager(2)
def remainder(x, y, /):
    """x mod y with the sign of y (Python's %); integers mod 0 give 0... NaN for floats."""
    x, y = binary("remainder", x, y, numeric=True)
    dtype = common_dtype(x, y)
    zero = dtype.type(0)
    if dtypes.kind_of(dtype) == "i" and (divisor := _positive(y)) is not None:
        return typed_as(_floor_by(x, dtype.type(divisor), dtype)[1], x, y)
    divisor = _zero_safe(y, dtype) if dtypes.kind_of(dtype) in "iu" else y
    m = ew.rem(x, divisor)
    if dtypes.kind_of(dtype) == "u":
        return m
    if dtypes.kind_of(dtype) == "i":
        fix = ew.bitwise_and(ew.ne(m, zero), ew.lt(ew.bitwise_xor(m, arr(divisor, dtype)), zero))
    else:
        fix = _across(m, divisor, zero)
    return typed_as(ew.select(fix, ew.add(m, divisor), m), x, y)


mod = remainder


@eager(2)
def fmod(x, y, /):
    """Remainder of x / y with the sign of x (C's fmod)."""
    x, y = binary("fmod", x, y, numeric=True)
    dtype = common_dtype(x, y)
    return typed_as(ew.rem(x, _zero_safe(y, dtype)), x, y) if dtypes.kind_of(dtype) in "iu" else ew.rem(x, y)


@eager(2)
def divmod(x, y, /):
    """(floor_divide(x, y), remainder(x, y))."""
    x, y = binary("divmod", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtypes.kind_of(dtype) in "iu":
        return floor_divide(x, y), remainder(x, y)
    return _float_divmod(x, y, dtype)


def _int_power(x, y, dtype):
    """Integers to integer powers by squaring; a negative power of an integer is meaningless, as in JAX."""
    zero, one = dtype.type(0), dtype.type(1)
    acc = ew.select(ew.bitwise_and(ew.eq(x, zero), ew.ne(y, zero)), zero, one)
    for _ in range(6):
        acc = ew.select(ew.ne(ew.bitwise_and(y, one), zero), ew.mul(acc, x), acc)
        x, y = ew.mul(x, x), ew.shift_right_logical(y, one)
    return acc


def power(x, y, /):
    """x ** y, element by element.

    A static Python integer y uses repeated squaring (and raises TypeError for negative powers of integers);
    0 ** 0 is 1, and its derivatives are 0.

    >>> import fgrad.numpy as jnp
    >>> jnp.power(jnp.arange(4.), 2)
    Array([0., 1., 4., 9.], dtype=float32)
    """
    n = _static_int(y)
    if n is not None and type(y) is Array and n > 3 and not isinstance(x, Tracer):
        kind = dtypes.kind_of(dtype_of(x))
        if kind == "f" or (kind in "iu" and n < 64):  # what `_int_power` goes through
            return _power_by_array(x, y)
    if type(y) is float and y == 0.5 and getattr(getattr(x, "dtype", None), "kind", "") == "c":
        return ew.sqrt(x) if isinstance(x, Tracer) or type(x) is Array else ew.sqrt(as_array("power", x))
    return _power(x, y) if n is None else _power_of(x, n)


@eager(1)
def _power_of(x, n):
    """x ** n of a Python integer n."""
    x = unary("power", x, numeric=True)
    return ew.square_p.bind(x) if n == 2 else ew.integer_pow(x, n)


@eager(2)
def _power_by_array(x, y):
    """x ** y of an integer scalar y above 0 that may be another one each time: a count of steps, as a rule."""
    x = unary("power", x, numeric=True)
    if dtypes.kind_of(x.dtype) in "iu":
        return typed_as(_int_power(x, ew.convert_element_type(y, x.dtype), x.dtype), x, x)
    return ew.pow_p.bind(x, ew.convert_element_type(y, x.dtype, True))


@eager(2)
def _power(x, y):
    by_integers = getattr(y, "dtype", None) is not None and dtypes.kind_of(y.dtype) in "iu"
    x, y = binary("power", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtypes.kind_of(dtype) in "iu":
        return _int_power(*[dtype.type(v) if type(v) in SCALARS else v for v in (x, y)], dtype)
    out = ew.pow_p.bind(x, y)
    return ew.convert_element_type(out, dtype) if by_integers else out  # strongly typed, as in JAX


pow = power


def _static_int(y):
    """y as a Python int where it is a concrete integer scalar."""
    t = type(y)
    if t is int:
        return y
    if t is float:
        return None
    if isinstance(y, Tracer) or (t is Array and (y.aval.shape != () or y.aval.dtype.kind not in "iu")):
        return None
    try:
        return operator.index(y)
    except TypeError:
        return None


@eager(2)
def float_power(x, y, /):
    """x ** y computed in floating point."""
    return ew.pow_p.bind(*binary("float_power", x, y, inexact=True))


@eager(2)
def nextafter(x, y, /):
    """The next representable number after x towards y."""
    return ew.nextafter_p.bind(*binary("nextafter", x, y, inexact=True))


@eager(2)
def heaviside(x1, x2, /):
    """0 where x1 < 0, x2 where x1 == 0, 1 where x1 > 0, NaN where x1 is."""
    x, y = binary("heaviside", x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    zero = dtype.type(0)
    step = ew.select(ew.lt(x, zero), zero, ew.select(ew.gt(x, zero), dtype.type(1), dtype.type(np.nan)))
    return typed_as(ew.select(ew.eq(x, zero), y, step), x, y)


@eager(2)
def gcd(x1, x2):
    """Greatest common divisor of integers, element by element; of 0 and x it is the size of x."""
    return typed_as(ew.gcd(*_integers("gcd", x1, x2)), x1, x2)


@eager(2)
def lcm(x1, x2):
    """Least common multiple of integers; 0 where either is 0."""
    x, y = _integers("lcm", x1, x2)
    dtype = x.aval.dtype
    x, y = absolute(x), absolute(y)
    d = gcd(x, y)
    none = ew.eq(d, dtype.type(0))
    return typed_as(ew.mul(x, ew.div(y, ew.select(none, dtype.type(1), d))), x1, x2)


def _integers(name, x1, x2):
    x, y = binary(name, x1, x2)
    dtype = common_dtype(x, y)
    if dtypes.kind_of(dtype) not in "iu":
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers, got {dtype.name}.")
    x, y = [as_array(name, dtype.type(v) if type(v) in SCALARS else v) for v in (x, y)]
    shape = x.aval.shape or y.aval.shape
    return rules.broadcast_to(x, shape), rules.broadcast_to(y, shape)
