"""Elementwise exponentials, logarithms, roots, trigonometric and hyperbolic functions."""

import math

from fgrad import dtypes
from fgrad.compile.eager import eager
from fgrad.numpy import complex_forms
from fgrad.numpy.ufunc_kinds import arr, inexact_ufunc, typed_as
from fgrad.numpy.util import binary, common_dtype
from fgrad.ops import elementwise as ew

__all__ = [
    "exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "cbrt", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh",
    "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log10", "arctan2", "atan2",
    "hypot", "logaddexp", "logaddexp2",
]  # fmt: skip


exp = inexact_ufunc("exp", ew.exp_p, "e**x")
exp2 = inexact_ufunc("exp2", ew.exp2_p, "2**x", complex_forms.exp2)
expm1 = inexact_ufunc("expm1", ew.expm1_p, "e**x - 1, accurate near 0")
log = inexact_ufunc("log", ew.log_p, "Natural logarithm; NaN below 0 and -inf at 0")
log1p = inexact_ufunc("log1p", ew.log1p_p, "log(1 + x), accurate near 0")
log2 = inexact_ufunc("log2", ew.log2_p, "Logarithm to base 2", complex_forms.log2, True)
log10 = inexact_ufunc("log10", ew.log10_p, "Logarithm to base 10", complex_forms.log10, True)
sqrt = inexact_ufunc("sqrt", ew.sqrt_p, "Square root; NaN below 0 for real x")
cbrt = inexact_ufunc("cbrt", ew.cbrt_p, "Cube root")
sin = inexact_ufunc("sin", ew.sin_p, "Sine of x in radians")
cos = inexact_ufunc("cos", ew.cos_p, "Cosine of x in radians")
tan = inexact_ufunc("tan", ew.tan_p, "Tangent of x in radians")
arcsin = inexact_ufunc("arcsin", ew.asin_p, "Inverse sine", complex_forms.asin)
arccos = inexact_ufunc("arccos", ew.acos_p, "Inverse cosine", complex_forms.acos)
arctan = inexact_ufunc("arctan", ew.atan_p, "Inverse tangent", complex_forms.atan)
sinh = inexact_ufunc("sinh", ew.sinh_p, "Hyperbolic sine")
cosh = inexact_ufunc("cosh", ew.cosh_p, "Hyperbolic cosine")
tanh = inexact_ufunc("tanh", ew.tanh_p, "Hyperbolic tangent")
arcsinh = inexact_ufunc("arcsinh", ew.asinh_p, "Inverse hyperbolic sine", complex_forms.asinh)
arccosh = inexact_ufunc("arccosh", ew.acosh_p, "Inverse hyperbolic cosine", complex_forms.acosh)
arctanh = inexact_ufunc("arctanh", ew.atanh_p, "Inverse hyperbolic tangent", complex_forms.atanh)
asin, acos, atan, asinh, acosh, atanh = arcsin, arccos, arctan, arcsinh, arccosh, arctanh


@eager(2)
def arctan2(x1, x2, /):
    """Angle of the point (x2, x1): arctan(x1 / x2) in the right quadrant."""
    return ew.atan2(*binary("arctan2", x1, x2, inexact=True))


atan2 = arctan2


@eager(2)
def hypot(x1, x2, /):
    """sqrt(x1**2 + x2**2) without overflow; inf if either is infinite. Raises ValueError for complex operands."""
    x, y = binary("hypot", x1, x2, inexact=True)
    dtype = common_dtype(x, y)
    if dtype.kind == "c":
        raise ValueError("jnp.hypot is not well defined for complex-valued inputs: take abs(x) of the operands first")
    return ew.hypot_p.bind(arr(x, dtype), arr(y, dtype))


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
    same_inf = ew.bitwise_and(ew.ne(delta, delta), ew.eq(x, y))
    tail = ew.neg(ew.abs(ew.select(same_inf, dtype.type(0), delta)))
    if base == math.e:
        tail = ew.log1p(ew.exp(tail))
    else:  # 1 / log(2) of 16 bits would be its largest error
        wide = dtypes.FLOAT32 if dtype.itemsize == 2 else dtype
        tail = ew.mul(ew.log1p(ew.exp2(ew.convert_element_type(tail, wide))), wide.type(1 / scale))
        tail = ew.convert_element_type(tail, dtype)
    # Not max(x, y): where they tie it halves the gradient, while abs takes the side of x, and so must the larger one.
    top = ew.select(ew.ge(delta, dtype.type(0)), x, y)
    return typed_as(ew.select(same_inf, ew.mul(ew.add(x, y), dtype.type(0.5)), ew.add(top, tail)), x, y)


@eager(2)
def logaddexp(x1, x2, /):
    """log(exp(x1) + exp(x2)) without overflow."""
    return _logaddexp("logaddexp", x1, x2, math.e)


@eager(2)
def logaddexp2(x1, x2, /):
    """log2(2**x1 + 2**x2) without overflow."""
    return _logaddexp("logaddexp2", x1, x2, 2)
