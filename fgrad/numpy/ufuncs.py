"""Elementwise functions: arithmetic, comparison, logic, bits, exp/log, trigonometric.  Selection and rounding are in .selection."""

import math
import operator

import numpy as np

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.core import Array, Tracer, concrete_or_none, get_aval
from fgrad.dtypes import BOOL
from fgrad.numpy.util import SCALARS, as_array, binary, common_dtype, no_out, unary
from fgrad.ops import elementwise as ew
from fgrad.ops import rules

__all__ = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "cbrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh",
    "tanh", "arcsinh", "arccosh", "arctanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log10", "negative", "positive",
    "absolute", "abs", "fabs", "sign", "square", "reciprocal", "conjugate", "conj", "real", "imag", "angle", "deg2rad", "rad2deg",
    "radians", "degrees", "add", "subtract", "multiply", "maximum", "minimum", "true_divide", "divide", "floor_divide", "remainder",
    "mod", "fmod", "divmod", "power", "pow", "float_power", "arctan2", "atan2", "hypot", "logaddexp", "logaddexp2", "nextafter",
    "heaviside", "gcd", "lcm", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "invert", "bitwise_invert", "left_shift",
    "right_shift", "bitwise_left_shift", "bitwise_right_shift", "bitwise_count", "isfinite", "isinf", "isposinf", "isneginf", "isnan",
    "signbit", "copysign",
]  # fmt: skip


def _named(fun, name, doc, arrays=2):
    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return eager(arrays)(fun)


def _inexact(name, prim, what, complex_form=None):
    """A unary function on floats and complex numbers; integers become the default float."""
    bind = prim.bind

    def fun(x, /):
        x = unary(name, x, inexact=True)
        if complex_form is not None and x.aval.dtype.kind == "c":
            return complex_form(x)
        return bind(x)

    return _named(
        fun,
        name,
        f"{what}, element by element. Integers become the default float.\n\n"
        "x: array or scalar of any shape. Returns an array of that shape. Raises TypeError for lists.\n",
        arrays=1,
    )


# --- complex forms of functions whose primitives are real -------------------------------------------------------------


def _mul_i(z, sign=1):
    """i*z or -i*z, exactly."""
    re, im = ew.real(z), ew.imag(z)
    return ew.complex_(ew.neg(im), re) if sign > 0 else ew.complex_(im, ew.neg(re))


def _casinh(z):
    """log(z + sqrt(z^2 + 1)); odd, so taken where Re z >= 0 to avoid cancellation."""
    flip = ew.lt(ew.real(z), ew.like(ew.real(z), 0))
    w = ew.select(flip, ew.neg(z), z)
    out = ew.log(ew.add(w, ew.sqrt(ew.add(ew.square(w), ew.like(w, 1)))))
    return ew.select(flip, ew.neg(out), out)


def _cacosh(z):
    """log(z + sqrt(z + 1) sqrt(z - 1)) (Abramowitz & Stegun 4.6.21, on the principal branch)."""
    one = ew.like(z, 1)
    return ew.log(ew.add(z, ew.mul(ew.sqrt(ew.add(z, one)), ew.sqrt(ew.sub(z, one)))))


def _catanh(z):
    return ew.mul(ew.like(z, 0.5), ew.sub(ew.log1p(z), ew.log1p(ew.neg(z))))


def _casin(z):
    return _mul_i(_casinh(_mul_i(z)), -1)


def _catan(z):
    return _mul_i(_catanh(_mul_i(z)), -1)


def _cacos(z):
    return ew.sub(ew.like(z, math.pi / 2), _casin(z))


exp = _inexact("exp", ew.exp_p, "e**x")
exp2 = _inexact("exp2", ew.exp2_p, "2**x", lambda z: ew.exp(ew.mul(z, ew.like(z, math.log(2)))))
expm1 = _inexact("expm1", ew.expm1_p, "e**x - 1, accurate near 0")
log = _inexact("log", ew.log_p, "Natural logarithm; NaN below 0 and -inf at 0")
log1p = _inexact("log1p", ew.log1p_p, "log(1 + x), accurate near 0")
log2 = _inexact("log2", ew.log2_p, "Logarithm to base 2", lambda z: ew.mul(ew.log(z), ew.like(z, 1 / math.log(2))))
sqrt = _inexact("sqrt", ew.sqrt_p, "Square root; NaN below 0 for real x")
cbrt = _inexact("cbrt", ew.cbrt_p, "Cube root")
sin = _inexact("sin", ew.sin_p, "Sine of x in radians")
cos = _inexact("cos", ew.cos_p, "Cosine of x in radians")
tan = _inexact("tan", ew.tan_p, "Tangent of x in radians")
arcsin = _inexact("arcsin", ew.asin_p, "Inverse sine", _casin)
arccos = _inexact("arccos", ew.acos_p, "Inverse cosine", _cacos)
arctan = _inexact("arctan", ew.atan_p, "Inverse tangent", _catan)
sinh = _inexact("sinh", ew.sinh_p, "Hyperbolic sine")
cosh = _inexact("cosh", ew.cosh_p, "Hyperbolic cosine")
tanh = _inexact("tanh", ew.tanh_p, "Hyperbolic tangent")
arcsinh = _inexact("arcsinh", ew.asinh_p, "Inverse hyperbolic sine", _casinh)
arccosh = _inexact("arccosh", ew.acosh_p, "Inverse hyperbolic cosine", _cacosh)
arctanh = _inexact("arctanh", ew.atanh_p, "Inverse hyperbolic tangent", _catanh)
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


@eager(1)
def log10(x, /):
    """Logarithm to base 10, element by element."""
    x = unary("log10", x, inexact=True)
    return ew.mul(ew.log_p.bind(x), ew.like(x, 0.4342944819032518))


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
    return x if x.aval.dtype.kind in "bu" else ew.abs_p.bind(x)


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
    return _typed_as(ew.div_p.bind(ew.like(x, 1), x), x, x)


def conjugate(x, /):
    """Complex conjugate; real arrays as they are."""
    x = unary("conjugate", x)
    return ew.conj_p.bind(x) if x.aval.dtype.kind == "c" else x


conj = conjugate


def real(val, /):
    """Real part; real arrays as they are."""
    x = unary("real", val)
    return ew.real_p.bind(x) if x.aval.dtype.kind == "c" else x


def imag(val, /):
    """Imaginary part; zeros for real arrays."""
    x = unary("imag", val)
    return ew.imag_p.bind(x) if x.aval.dtype.kind == "c" else _typed_as(rules.full(x.aval.shape, 0, x.aval.dtype), x, x)


@eager(1)
def angle(z, deg=False):
    """Argument of complex z in (-pi, pi], in degrees with deg=True."""
    z = unary("angle", z, inexact=True)
    out = ew.atan2(imag(z), real(z))
    return degrees(out) if deg else out


@eager(1)
def deg2rad(x, /):
    """x * pi / 180."""
    x = unary("deg2rad", x, inexact=True)
    return ew.mul_p.bind(x, ew.like(x, math.pi / 180))


@eager(1)
def rad2deg(x, /):
    """x * 180 / pi."""
    x = unary("rad2deg", x, inexact=True)
    return ew.mul_p.bind(x, ew.like(x, 180 / math.pi))


radians, degrees = deg2rad, rad2deg


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _arithmetic(name, prim, bool_prim, doc):
    """A binary function; booleans take bool_prim (None: the primitive refuses them itself)."""
    bind = prim.bind

    def fun(x, y, /):
        x, y = binary(name, x, y)
        if bool_prim is not None and common_dtype(x, y) is BOOL:
            return bool_prim.bind(x, y)
        return bind(x, y)

    return _named(
        fun,
        name,
        f"{doc}, element by element, after type promotion and broadcasting.\n\n"
        "x, y: arrays or scalars of shapes that broadcast together (ValueError otherwise). Raises TypeError for lists.\n",
    )


add = _arithmetic("add", ew.add_p, ew.or_p, "x + y (logical or of booleans)")
subtract = _arithmetic("subtract", ew.sub_p, None, "x - y")
multiply = _arithmetic("multiply", ew.mul_p, ew.and_p, "x * y (logical and of booleans)")
maximum = _arithmetic("maximum", ew.max_p, None, "The larger of x and y; NaN if either is; ties split the gradient evenly")
minimum = _arithmetic("minimum", ew.min_p, None, "The smaller of x and y; NaN if either is; ties split the gradient evenly")


def _ordered(fun, pick):
    """maximum and minimum order complex numbers by real, then imaginary part."""

    def wrapped(x, y, /):
        x, y = binary(fun.__name__, x, y)
        if common_dtype(x, y).kind == "c":
            return ew.select(pick(x, y), x, y)
        return fun(x, y)

    return _named(wrapped, fun.__name__, fun.__doc__)


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


@eager(2)
def floor_divide(x, y, /):
    """floor(x / y), element by element, in the promoted dtype. Raises TypeError for complex operands."""
    x, y = binary("floor_divide", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise TypeError("floor_divide does not support complex-valued inputs")
    if dtype.kind == "u":
        return ew.div(x, y)
    if dtype.kind == "i":
        q = ew.div(x, y)
        down = ew.bitwise_and(ew.ne(ew.sign(_arr(x, dtype)), ew.sign(_arr(y, dtype))), ew.ne(ew.rem(x, y), dtype.type(0)))
        return _typed_as(ew.select(down, ew.sub(q, dtype.type(1)), q), x, y)
    return _typed_as(_float_divmod(x, y, dtype)[0], x, y)


def _typed_as(out, x, y):
    """A result that was made with typed constants, weakly typed where both operands are."""
    weak = get_aval(x).weak_type and get_aval(y).weak_type
    return ew.convert_element_type(out, out.dtype, weak)


def _arr(x, dtype):
    """A scalar operand as a constant of dtype, for unary primitives."""
    return dtype.type(x) if type(x) in SCALARS else x


def _float_divmod(x, y, dtype):
    zero, one = dtype.type(0), dtype.type(1)
    m = ew.rem(x, y)
    q = ew.div(ew.select(ew.eq(y, zero), x, ew.sub(x, m)), y)
    fix = ew.bitwise_and(ew.ne(m, zero), ew.ne(ew.lt(y, zero), ew.lt(m, zero)))
    return ew.round(ew.select(fix, ew.sub(q, one), q)), ew.select(fix, ew.add(m, y), m)


@eager(2)
def remainder(x, y, /):
    """x mod y with the sign of y (Python's %); integers mod 0 give 0... NaN for floats."""
    x, y = binary("remainder", x, y, numeric=True)
    dtype = common_dtype(x, y)
    zero = dtype.type(0)
    divisor = _zero_safe(y, dtype) if dtype.kind in "iu" else y
    m = ew.rem(x, divisor)
    if dtype.kind == "u":
        return m
    fix = ew.bitwise_and(ew.ne(m, zero), ew.ne(ew.lt(m, zero), ew.lt(_arr(divisor, dtype), zero)))
    return _typed_as(ew.select(fix, ew.add(m, divisor), m), x, y)


mod = remainder


@eager(2)
def fmod(x, y, /):
    """Remainder of x / y with the sign of x (C's fmod)."""
    x, y = binary("fmod", x, y, numeric=True)
    dtype = common_dtype(x, y)
    return ew.rem(x, _zero_safe(y, dtype) if dtype.kind in "iu" else y)


@eager(2)
def divmod(x, y, /):
    """(floor_divide(x, y), remainder(x, y))."""
    x, y = binary("divmod", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtype.kind in "iu":
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
    if n is not None:
        x = unary("power", x, numeric=True)
        return ew.square_p.bind(x) if n == 2 else ew.integer_pow(x, n)
    by_integers = getattr(y, "dtype", None) is not None and np.dtype(y.dtype).kind in "iu"
    x, y = binary("power", x, y, numeric=True)
    dtype = common_dtype(x, y)
    if dtype.kind in "iu":
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
def arctan2(x1, x2, /):
    """Angle of the point (x2, x1): arctan(x1 / x2) in the right quadrant."""
    return ew.atan2_p.bind(*binary("arctan2", x1, x2, inexact=True))


atan2 = arctan2


@eager(2)
def hypot(x1, x2, /):
    """sqrt(x1**2 + x2**2) without overflow; inf if either is infinite. Raises ValueError for complex operands."""
    x, y = binary("hypot", x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise ValueError("jnp.hypot is not well defined for complex-valued inputs: take abs(x) of the operands first")
    zero, one = dtype.type(0), dtype.type(1)
    x, y = ew.abs(_arr(x, dtype)), ew.abs(_arr(y, dtype))
    big, small = ew.max(x, y), ew.min(x, y)
    at_zero = ew.eq(big, zero)
    ratio = ew.div(small, ew.select(at_zero, one, big))
    out = ew.select(at_zero, big, ew.mul(big, ew.sqrt(ew.add(ew.square(ratio), one))))
    inf = dtype.type(np.inf)
    return ew.select(ew.bitwise_or(ew.eq(x, inf), ew.eq(y, inf)), inf, out)


def _logaddexp(name, x1, x2, base):
    x, y = binary(name, x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    scale = math.log(base)
    if dtype.kind == "c":
        top = ew.select(ew.ge(ew.real(x), ew.real(y)), x, y)
        delta = ew.sub(ew.add(x, y), ew.mul(top, dtype.type(2)))
        out = ew.add(top, ew.div(ew.log1p(ew.exp(ew.mul(delta, dtype.type(scale)))), dtype.type(scale)))
        turn = 2 * math.pi / scale
        im = ew.imag(out)
        im = ew.sub(im, ew.mul(ew.like(im, turn), ew.round(ew.div(im, ew.like(im, turn)))))
        return ew.complex_(ew.real(out), im)
    delta = ew.sub(x, y)
    same_inf = ew.ne(delta, delta)
    tail = ew.neg(ew.abs(ew.select(same_inf, dtype.type(0), delta)))
    tail = ew.log1p(ew.exp(tail)) if base == math.e else ew.mul(ew.log1p(ew.exp2(tail)), dtype.type(1 / scale))
    return ew.select(same_inf, ew.add(x, y), ew.add(ew.max(x, y), tail))


@eager(2)
def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow."""
    return _logaddexp("logaddexp", x1, x2, math.e)


@eager(2)
def logaddexp2(x1, x2, /):
    """log2(2**x1 + 2**x2) without overflow."""
    return _logaddexp("logaddexp2", x1, x2, 2)


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
    return ew.select(ew.lt(x, zero), zero, ew.select(ew.gt(x, zero), dtype.type(1), ew.select(ew.ne(x, x), x, y)))


def gcd(x1, x2):
    """Greatest common divisor of integers, by Stein's algorithm unrolled over the bits of the dtype: no data-dependent loop."""
    x, y = _integers("gcd", x1, x2)
    dtype = x.aval.dtype
    one, zero = dtype.type(1), dtype.type(0)
    x, y = absolute(x), absolute(y)
    # Common powers of two first: the lowest set bit of x | y.
    both = ew.bitwise_or(x, y)
    twos = ew.bitwise_and(both, ew.add(ew.bitwise_not(both), one))
    x, y = _odd_part(x), _odd_part(y)
    for _ in range(dtype.itemsize * 8):
        big, small = ew.max(x, y), ew.min(x, y)
        live = ew.bitwise_and(ew.ne(small, zero), ew.ne(big, small))
        x, y = ew.select(live, _odd_part(ew.sub(big, small)), big), small
    return ew.mul(ew.max(x, y), ew.select(ew.eq(twos, zero), one, twos))


def _odd_part(x):
    """x divided by its largest power-of-two divisor; 0 stays 0."""
    dtype = x.aval.dtype
    one = dtype.type(1)
    low = ew.bitwise_and(x, ew.add(ew.bitwise_not(x), one))
    shift = ew.population_count(ew.sub(low, one))
    return ew.select(ew.eq(x, dtype.type(0)), x, ew.shift_right_logical(x, shift))


def lcm(x1, x2):
    """Least common multiple of integers; 0 where either is 0."""
    x, y = _integers("lcm", x1, x2)
    dtype = x.aval.dtype
    x, y = absolute(x), absolute(y)
    d = gcd(x, y)
    none = ew.eq(d, dtype.type(0))
    return ew.mul(x, ew.div(y, ew.select(none, dtype.type(1), d)))


def _integers(name, x1, x2):
    x, y = binary(name, x1, x2)
    dtype = common_dtype(x, y)
    if dtype.kind not in "iu":
        raise ValueError(f"Arguments to jax.numpy.{name} must be integers, got {dtype.name}.")
    x, y = [as_array(name, dtype.type(v) if type(v) in SCALARS else v) for v in (x, y)]
    shape = x.aval.shape or y.aval.shape
    return rules.broadcast_to(x, shape), rules.broadcast_to(y, shape)


# --- comparison and logic ---------------------------------------------------------------------------------------------


def _compare(name, prim, symbol, ordered):
    bind = prim.bind

    def fun(x, y, /):
        x, y = binary(name, x, y)
        if ordered and common_dtype(x, y).kind == "c":
            xr, yr, xi, yi = real(x), real(y), imag(x), imag(y)
            return ew.select(ew.eq(xr, yr), bind(xi, yi), bind(xr, yr))
        return bind(x, y)

    return _named(
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

    return _named(fun, name, f"{name.replace('_', ' ')} of x != 0 and y != 0, as booleans, after broadcasting.")


logical_and, logical_or, logical_xor = _logical("logical_and", ew.and_p), _logical("logical_or", ew.or_p), _logical("logical_xor", ew.xor_p)


@eager(1)
def logical_not(x, /):
    """x == 0 as booleans."""
    return ew.not_p.bind(truth(unary("logical_not", x)))


# --- bits -------------------------------------------------------------------------------------------------------------

bitwise_and = _arithmetic("bitwise_and", ew.and_p, None, "x & y of integers or booleans")
bitwise_or = _arithmetic("bitwise_or", ew.or_p, None, "x | y of integers or booleans")
bitwise_xor = _arithmetic("bitwise_xor", ew.xor_p, None, "x ^ y of integers or booleans")


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
    """True where x is neither infinite nor NaN."""
    x = unary("isfinite", x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        return ew.bitwise_and(ew.is_finite(ew.real(x)), ew.is_finite(ew.imag(x)))
    return ew.is_finite_p.bind(x) if dtypes.is_inexact(dtype) else rules.full(x.aval.shape, True, BOOL)


@eager(1)
def isinf(x, /):
    """True where x (or a part of complex x) is +inf or -inf."""
    x = unary("isinf", x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        return ew.bitwise_or(isinf(ew.real(x)), isinf(ew.imag(x)))
    return ew.eq(ew.abs(x), dtype.type(np.inf)) if dtypes.is_inexact(dtype) else rules.full(x.aval.shape, False, BOOL)


def _is_signed_inf(name, x, out, value):
    no_out(name, out)
    x = unary(name, x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        raise ValueError("isposinf/isneginf are not well defined for complex types")
    return ew.eq(x, dtype.type(value)) if dtypes.is_inexact(dtype) else rules.full(x.aval.shape, False, BOOL)


def isposinf(x, /, out=None):
    """True where x is +inf."""
    return _is_signed_inf("isposinf", x, out, np.inf)


def isneginf(x, /, out=None):
    """True where x is -inf."""
    return _is_signed_inf("isneginf", x, out, -np.inf)


@eager(1)
def isnan(x, /):
    """True where x (or a part of complex x) is NaN."""
    x = unary("isnan", x)
    return ew.ne_p.bind(x, x) if dtypes.is_inexact(x.aval.dtype) else rules.full(x.aval.shape, False, BOOL)


@eager(1)
def signbit(x, /):
    """True where x is negative or -0.0. The sign of NaN is not looked at: NaN gives False. Raises ValueError for complex x."""
    x = unary("signbit", x)
    dtype = x.aval.dtype
    if dtype.kind == "c":
        raise ValueError(f"jax.numpy.signbit is not well defined for {dtype}")
    if dtype.kind in "bu":
        return rules.full(x.aval.shape, False, BOOL)
    zero = dtype.type(0)
    negative = ew.lt(x, zero)
    if dtype.kind == "i":
        return negative
    return ew.bitwise_or(negative, ew.bitwise_and(ew.eq(x, zero), ew.lt(ew.div(dtype.type(1), x), zero)))


@eager(2)
def copysign(x1, x2, /):
    """|x1| with the sign of x2. Raises TypeError for complex operands."""
    x, y = binary("copysign", x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise TypeError("copysign does not support complex-valued inputs")
    size = ew.abs(_arr(x, dtype))
    return ew.select(signbit(y), ew.neg(size), size)


def concrete_bool(x):
    """The truth value of a static flag argument."""
    return bool(concrete_or_none(x))
