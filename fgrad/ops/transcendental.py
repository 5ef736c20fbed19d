"""Elementwise powers and roots, exp and log, trigonometric and hyperbolic functions."""

import math

from fgrad.core import get_aval
from fgrad.ops.arithmetic import add, div, integer_pow, mul, neg, square, sub
from fgrad.ops.logic import eq, select
from fgrad.ops.rules import INEXACT, NUMBER, elementary, elementwise, jvp_by_args, like, nary, unary, unify

# --- powers and roots ----------------------------------------------------------------------------------------------

pow_p = elementwise("pow", NUMBER, same=True)


def _pow_jvp_x(t, out, x, y):
    return mul(t, mul(y, pow(x, sub(y, like(y, 1)))))  # NaN at 0**0, as in JAX


def _pow_jvp_y(t, out, x, y):
    # out * log(x), with log 0 taken as log 1 where x is 0, so that 0**y (y > 0) has derivative 0.
    return mul(t, mul(log(select(eq(x, like(x, 0)), like(x, 1), x)), out))


pow_p.jvp = jvp_by_args(pow_p, _pow_jvp_x, _pow_jvp_y)
pow = nary(pow_p, "x ** y. d/dx is NaN where both are 0, and d/dy is 0 where x is 0.")

sqrt_p = elementwise("sqrt", INEXACT)
sqrt_p.jvp = jvp_by_args(sqrt_p, lambda t, out, x: mul(t, div(like(x, 0.5), out)))
sqrt = elementary(sqrt_p, "The square root; NaN below 0 for real x.")
rsqrt_p = elementwise("rsqrt", INEXACT)
rsqrt_p.jvp = jvp_by_args(rsqrt_p, lambda t, out, x: mul(t, mul(like(x, -0.5), div(out, x))))
rsqrt = elementary(rsqrt_p, "1 / sqrt(x).")
cbrt_p = elementwise("cbrt", "f")
cbrt_p.jvp = jvp_by_args(cbrt_p, lambda t, out, x: mul(t, mul(like(x, 1 / 3), integer_pow(out, -2))))
cbrt = elementary(cbrt_p, "The cube root, of negative numbers too.")

# --- exp and log ----------------------------------------------------------------------------------------------------

exp_p = elementwise("exp", INEXACT)
exp_p.jvp = jvp_by_args(exp_p, lambda t, out, x: mul(t, out))
exp = elementary(exp_p, "e ** x.")
exp2_p = elementwise("exp2", INEXACT)
exp2_p.jvp = jvp_by_args(exp2_p, lambda t, out, x: mul(t, mul(out, like(x, math.log(2)))))
exp2 = elementary(exp2_p, "2 ** x.")
expm1_p = elementwise("expm1", INEXACT)
expm1_p.jvp = jvp_by_args(expm1_p, lambda t, out, x: mul(t, add(out, like(out, 1))))
expm1 = elementary(expm1_p, "e ** x - 1, exact near 0.")
log_p = elementwise("log", INEXACT)
log_p.jvp = jvp_by_args(log_p, lambda t, out, x: div(t, x))
log = elementary(log_p, "The natural logarithm.")
log2_p = elementwise("log2", "f")
log2_p.jvp = jvp_by_args(log2_p, lambda t, out, x: div(mul(t, like(x, 1 / math.log(2))), x))
log2 = unary(log2_p, "The logarithm to base 2.")
log10_p = elementwise("log10", "f")
log10_p.jvp = jvp_by_args(log10_p, lambda t, out, x: div(mul(t, like(x, 1 / math.log(10))), x))
log10 = unary(log10_p, "The logarithm to base 10.")
log1p_p = elementwise("log1p", INEXACT)
log1p_p.jvp = jvp_by_args(log1p_p, lambda t, out, x: div(t, add(x, like(x, 1))))
log1p = elementary(log1p_p, "log(1 + x), exact near 0.")
logistic_p = elementwise("logistic", INEXACT)
logistic_p.jvp = jvp_by_args(logistic_p, lambda t, out, x: mul(t, mul(out, sub(like(out, 1), out))))
logistic = elementary(logistic_p, "1 / (1 + exp(-x)).")
tanh_p = elementwise("tanh", INEXACT)
tanh_p.jvp = jvp_by_args(tanh_p, lambda t, out, x: mul(t, sub(like(out, 1), square(out))))
tanh = elementary(tanh_p, "The hyperbolic tangent.")

# --- trigonometric and hyperbolic -----------------------------------------------------------------------------------

sin_p = elementwise("sin", INEXACT)
sin_p.jvp = jvp_by_args(sin_p, lambda t, out, x: mul(t, cos(x)))
sin = elementary(sin_p, "The sine of x in radians.")
cos_p = elementwise("cos", INEXACT)
cos_p.jvp = jvp_by_args(cos_p, lambda t, out, x: neg(mul(t, sin(x))))
cos = elementary(cos_p, "The cosine of x in radians.")
tan_p = elementwise("tan", INEXACT)
tan_p.jvp = jvp_by_args(tan_p, lambda t, out, x: mul(t, add(like(out, 1), square(out))))
tan = elementary(tan_p, "The tangent of x in radians.")
asin_p = elementwise("asin", "f")
asin_p.jvp = jvp_by_args(asin_p, lambda t, out, x: mul(t, rsqrt(sub(like(x, 1), square(x)))))
asin = unary(asin_p, "The angle in [-pi/2, pi/2] whose sine is x.")
acos_p = elementwise("acos", "f")
acos_p.jvp = jvp_by_args(acos_p, lambda t, out, x: mul(t, neg(rsqrt(sub(like(x, 1), square(x))))))
acos = unary(acos_p, "The angle in [0, pi] whose cosine is x.")
atan_p = elementwise("atan", "f")
atan_p.jvp = jvp_by_args(atan_p, lambda t, out, x: div(t, add(like(x, 1), square(x))))
atan = unary(atan_p, "The angle in [-pi/2, pi/2] whose tangent is x.")
atan2_p = elementwise("atan2", "f")
atan2_p.jvp = jvp_by_args(
    atan2_p,
    lambda t, out, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, out, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)
_angle = nary(atan2_p, "")


def atan2(x, y):
    """The angle of the point (y, x): atan(x / y) in the quadrant of the signs. Complex numbers: -i log((y + i x) / sqrt(x^2 + y^2))."""
    if "c" not in (get_aval(x).dtype.kind, get_aval(y).dtype.kind):
        return _angle(x, y)
    x, y = unify("atan2", (x, y))
    turned = div(add(y, mul(like(x, 1j), x)), sqrt(add(square(x), square(y))))
    return mul(like(turned, -1j), log(turned))


sinh_p = elementwise("sinh", INEXACT)
sinh_p.jvp = jvp_by_args(sinh_p, lambda t, out, x: mul(t, cosh(x)))
sinh = unary(sinh_p, "The hyperbolic sine.")
cosh_p = elementwise("cosh", INEXACT)
cosh_p.jvp = jvp_by_args(cosh_p, lambda t, out, x: mul(t, sinh(x)))
cosh = unary(cosh_p, "The hyperbolic cosine.")
asinh_p = elementwise("asinh", "f")
asinh_p.jvp = jvp_by_args(asinh_p, lambda t, out, x: mul(t, rsqrt(add(square(x), like(x, 1)))))
asinh = unary(asinh_p, "The inverse of sinh.")
acosh_p = elementwise("acosh", "f")
acosh_p.jvp = jvp_by_args(acosh_p, lambda t, out, x: mul(t, mul(rsqrt(sub(x, like(x, 1))), rsqrt(add(x, like(x, 1))))))
acosh = unary(acosh_p, "The inverse of cosh; NaN below 1.")
atanh_p = elementwise("atanh", "f")
atanh_p.jvp = jvp_by_args(atanh_p, lambda t, out, x: div(t, mul(add(like(x, 1), x), sub(like(x, 1), x))))
atanh = unary(atanh_p, "The inverse of tanh; NaN outside [-1, 1].")


def _hypot_slope(x, out):
    """x / hypot, a half where hypot is 0, and NaN where it is infinite or NaN, as in JAX."""
    zero = eq(out, like(out, 0))
    slope = select(zero, like(out, 0.5), div(x, select(zero, like(out, 1), out)))
    return select(eq(out, like(out, float("inf"))), like(out, float("nan")), slope)


hypot_p = elementwise("hypot", "f")
hypot_p.jvp = jvp_by_args(hypot_p, lambda t, out, x, y: mul(t, _hypot_slope(x, out)), lambda t, out, x, y: mul(t, _hypot_slope(y, out)))
hypot = nary(hypot_p, "sqrt(x * x + y * y) without overflow; inf where either is infinite.")
