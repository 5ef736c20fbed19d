"""Elementwise primitives: arithmetic, comparison, logic, exp/log, trigonometric, special functions, casts."""

import math

import numpy as np

from fgrad import dtypes
from fgrad.core import ShapedArray, get_aval
from fgrad.ops.rules import (
    Zero,
    broadcast_to,
    elementwise,
    is_linear,
    jvp_by_args,
    linear_jvp,
    set_shape_ops,
    unbroadcast,
    unify,
    zero_jvp,
    zero_of,
)

INEXACT = "fc"
NUMBER = "iufc"
ANY = "biufc"


def _nary(prim):
    def fun(*args):
        return prim.bind(*unify(prim.name, args))

    fun.__name__ = fun.__qualname__ = prim.name
    return fun


def like(x, value):
    """A scalar constant of x's dtype."""
    return get_aval(x).dtype.type(value)


# --- arithmetic -----------------------------------------------------------------------------------------------------

neg_p = elementwise("neg", NUMBER)
neg_p.jvp = linear_jvp(neg_p)
neg_p.transpose = lambda cts, x: [neg(cts[0])]


def neg(x):
    return neg_p.bind(x)


add_p = elementwise("add", ANY)
add_p.jvp = jvp_by_args(add_p, lambda t, out, x, y: t, lambda t, out, x, y: t)
add_p.transpose = lambda cts, x, y: [
    unbroadcast(cts[0], x.aval) if is_linear(x) else None,
    unbroadcast(cts[0], y.aval) if is_linear(y) else None,
]
add = _nary(add_p)

sub_p = elementwise("sub", NUMBER)
sub_p.jvp = jvp_by_args(sub_p, lambda t, out, x, y: t, lambda t, out, x, y: neg(t))
sub_p.transpose = lambda cts, x, y: [
    unbroadcast(cts[0], x.aval) if is_linear(x) else None,
    unbroadcast(neg(cts[0]), y.aval) if is_linear(y) else None,
]
sub = _nary(sub_p)

mul_p = elementwise("mul", ANY)
mul_p.jvp = jvp_by_args(mul_p, lambda t, out, x, y: mul(t, y), lambda t, out, x, y: mul(x, t))
mul_p.transpose = lambda cts, x, y: (
    [unbroadcast(mul(cts[0], y), x.aval), None] if is_linear(x) else [None, unbroadcast(mul(x, cts[0]), y.aval)]
)
mul = _nary(mul_p)

div_p = elementwise("div", NUMBER)
div_p.jvp = jvp_by_args(div_p, lambda t, out, x, y: div(t, y), lambda t, out, x, y: mul(neg(t), div(out, y)))
div_p.transpose = lambda cts, x, y: [unbroadcast(div(cts[0], y), x.aval), None]
div = _nary(div_p)

rem_p = elementwise("rem", NUMBER[:3])
rem_p.jvp = jvp_by_args(rem_p, lambda t, out, x, y: t, lambda t, out, x, y: mul(neg(t), trunc(div(x, y))))
rem = _nary(rem_p)

max_p = elementwise("max", ANY)
min_p = elementwise("min", ANY)


def _pick_jvp(prim):
    """Derivative of max and min: the chosen operand's tangent, half of each where they tie."""

    def side(t, out, x, other):
        one, zero, half = like(t, 1), like(t, 0), like(t, 0.5)
        return mul(t, select(eq(x, out), select(eq(other, out), half, one), zero))

    return jvp_by_args(prim, lambda t, out, x, y: side(t, out, x, y), lambda t, out, x, y: side(t, out, y, x))


max_p.jvp = _pick_jvp(max_p)
min_p.jvp = _pick_jvp(min_p)
max = _nary(max_p)
min = _nary(min_p)

abs_p = elementwise("abs", NUMBER, result="real")


def _abs_jvp(t, out, x):
    if get_aval(x).dtype.kind == "c":
        unit = div(x, complex_(select(eq(out, like(out, 0)), like(out, 1), out), mul(out, like(out, 0))))
        return real(mul(t, conj(unit)))
    return mul(t, sign(x))


abs_p.jvp = jvp_by_args(abs_p, _abs_jvp)


def abs(x):
    return abs_p.bind(x)


sign_p = elementwise("sign", NUMBER)
sign_p.jvp = zero_jvp(sign_p)


def sign(x):
    return sign_p.bind(x)


square_p = elementwise("square", NUMBER)
square_p.jvp = jvp_by_args(square_p, lambda t, out, x: mul(t, mul(like(x, 2), x)))


def square(x):
    return square_p.bind(x)


def _lower_integer_pow(ctx, ins, params, out_avals):
    (x,), y, aval = ins, params["y"], out_avals[0]
    n = y if y >= 0 else -y
    if n == 0:
        return ctx.elementwise(
            "add", [ctx.elementwise("mul", [ctx.scalar(0, aval.dtype), ctx.scalar(0, aval.dtype)], aval), ctx.scalar(1, aval.dtype)], aval
        )
    acc, base = None, x
    while n:
        if n & 1:
            acc = base if acc is None else ctx.elementwise("mul", [acc, base], aval)
        n >>= 1
        if n:
            base = ctx.elementwise("square", [base], aval)
    return ctx.elementwise("recip", [acc], aval) if y < 0 else acc


integer_pow_p = elementwise("integer_pow", NUMBER, lower=_lower_integer_pow)
integer_pow_p.jvp = jvp_by_args(integer_pow_p, lambda t, out, x, y: mul(t, mul(like(x, y), integer_pow(x, y - 1))))


def integer_pow(x, y):
    """x ** y for a Python integer y, by repeated squaring."""
    if y == 0:
        return broadcast_to(like(x, 1), get_aval(x).shape)
    if y == 1:
        return x
    if y == 2:
        return square(x)
    if y < 0 and not dtypes.is_inexact(get_aval(x).dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got {get_aval(x)} ** {y}")
    return integer_pow_p.bind(x, y=y)


pow_p = elementwise("pow", NUMBER, same=True)


def _pow_jvp_x(t, out, x, y):
    # d/dx x**y = y * x**(y-1); 0 where y is 0, so that 0**0 has derivative 0.
    one = like(y, 1)
    safe = select(eq(y, like(y, 0)), one, sub(y, one))
    jac = select(eq(y, like(y, 0)), like(y, 0), mul(y, pow(x, safe)))
    return mul(t, jac)


def _pow_jvp_y(t, out, x, y):
    # out * log(x), with log 0 taken as log 1 where x is 0, so that 0**y (y > 0) has derivative 0.
    return mul(t, mul(log(select(eq(x, like(x, 0)), like(x, 1), x)), out))


pow_p.jvp = jvp_by_args(pow_p, _pow_jvp_x, _pow_jvp_y)
pow = _nary(pow_p)

sqrt_p = elementwise("sqrt", INEXACT)
sqrt_p.jvp = jvp_by_args(sqrt_p, lambda t, out, x: mul(t, div(like(x, 0.5), out)))
rsqrt_p = elementwise("rsqrt", INEXACT)
rsqrt_p.jvp = jvp_by_args(rsqrt_p, lambda t, out, x: mul(t, mul(like(x, -0.5), div(out, x))))
cbrt_p = elementwise("cbrt", "f")
cbrt_p.jvp = jvp_by_args(cbrt_p, lambda t, out, x: mul(t, mul(like(x, 1 / 3), div(out, x))))


def sqrt(x):
    return sqrt_p.bind(x)


def rsqrt(x):
    return rsqrt_p.bind(x)


def cbrt(x):
    return cbrt_p.bind(x)


# --- exp and log ----------------------------------------------------------------------------------------------------

exp_p = elementwise("exp", INEXACT)
exp_p.jvp = jvp_by_args(exp_p, lambda t, out, x: mul(t, out))
exp2_p = elementwise("exp2", INEXACT)
exp2_p.jvp = jvp_by_args(exp2_p, lambda t, out, x: mul(t, mul(out, like(x, math.log(2)))))
expm1_p = elementwise("expm1", INEXACT)
expm1_p.jvp = jvp_by_args(expm1_p, lambda t, out, x: mul(t, add(out, like(out, 1))))
log_p = elementwise("log", INEXACT)
log_p.jvp = jvp_by_args(log_p, lambda t, out, x: div(t, x))
log2_p = elementwise("log2", "f")
log2_p.jvp = jvp_by_args(log2_p, lambda t, out, x: div(t, mul(x, like(x, math.log(2)))))
log1p_p = elementwise("log1p", INEXACT)
log1p_p.jvp = jvp_by_args(log1p_p, lambda t, out, x: div(t, add(x, like(x, 1))))
logistic_p = elementwise("logistic", INEXACT)
logistic_p.jvp = jvp_by_args(logistic_p, lambda t, out, x: mul(t, mul(out, sub(like(out, 1), out))))
tanh_p = elementwise("tanh", INEXACT)
tanh_p.jvp = jvp_by_args(tanh_p, lambda t, out, x: mul(t, sub(like(out, 1), square(out))))

# --- trigonometric and hyperbolic -----------------------------------------------------------------------------------

sin_p = elementwise("sin", INEXACT)
sin_p.jvp = jvp_by_args(sin_p, lambda t, out, x: mul(t, cos(x)))
cos_p = elementwise("cos", INEXACT)
cos_p.jvp = jvp_by_args(cos_p, lambda t, out, x: neg(mul(t, sin(x))))
tan_p = elementwise("tan", INEXACT)
tan_p.jvp = jvp_by_args(tan_p, lambda t, out, x: mul(t, add(like(out, 1), square(out))))
asin_p = elementwise("asin", "f")
asin_p.jvp = jvp_by_args(asin_p, lambda t, out, x: mul(t, rsqrt(sub(like(x, 1), square(x)))))
acos_p = elementwise("acos", "f")
acos_p.jvp = jvp_by_args(acos_p, lambda t, out, x: mul(t, neg(rsqrt(sub(like(x, 1), square(x))))))
atan_p = elementwise("atan", "f")
atan_p.jvp = jvp_by_args(atan_p, lambda t, out, x: div(t, add(like(x, 1), square(x))))
atan2_p = elementwise("atan2", "f")
atan2_p.jvp = jvp_by_args(
    atan2_p,
    lambda t, out, x, y: mul(t, div(y, add(square(x), square(y)))),
    lambda t, out, x, y: mul(t, div(neg(x), add(square(x), square(y)))),
)
atan2 = _nary(atan2_p)
sinh_p = elementwise("sinh", INEXACT)
sinh_p.jvp = jvp_by_args(sinh_p, lambda t, out, x: mul(t, cosh(x)))
cosh_p = elementwise("cosh", INEXACT)
cosh_p.jvp = jvp_by_args(cosh_p, lambda t, out, x: mul(t, sinh(x)))
asinh_p = elementwise("asinh", "f")
asinh_p.jvp = jvp_by_args(asinh_p, lambda t, out, x: mul(t, rsqrt(add(square(x), like(x, 1)))))
acosh_p = elementwise("acosh", "f")
acosh_p.jvp = jvp_by_args(acosh_p, lambda t, out, x: mul(t, mul(rsqrt(sub(x, like(x, 1))), rsqrt(add(x, like(x, 1))))))
atanh_p = elementwise("atanh", "f")
atanh_p.jvp = jvp_by_args(atanh_p, lambda t, out, x: div(t, mul(add(like(x, 1), x), sub(like(x, 1), x))))

# --- special functions ----------------------------------------------------------------------------------------------

erf_p = elementwise("erf", "f")
erf_p.jvp = jvp_by_args(erf_p, lambda t, out, x: mul(t, mul(like(x, 2 / math.sqrt(math.pi)), exp(neg(square(x))))))
erfc_p = elementwise("erfc", "f")
erfc_p.jvp = jvp_by_args(erfc_p, lambda t, out, x: mul(t, mul(like(x, -2 / math.sqrt(math.pi)), exp(neg(square(x))))))
erf_inv_p = elementwise("erf_inv", "f")
erf_inv_p.jvp = jvp_by_args(erf_inv_p, lambda t, out, x: mul(t, mul(like(x, math.sqrt(math.pi) / 2), exp(square(out)))))
lgamma_p = elementwise("lgamma", "f")
lgamma_p.jvp = jvp_by_args(lgamma_p, lambda t, out, x: mul(t, digamma(x)))


def _trigamma(x):
    """d digamma: reflection below 0, recurrence up to 8, then the asymptotic series (Abramowitz & Stegun 6.4.11, 6.4.12)."""
    half, one = like(x, 0.5), like(x, 1)
    left = lt(x, half)
    z = select(left, sub(one, x), x)
    total = mul(z, like(x, 0))
    for _ in range(8):
        low = lt(z, like(x, 8))
        total = add(total, select(low, recip(square(z)), like(x, 0)))
        z = select(low, add(z, one), z)
    r = recip(z)
    r2 = square(r)
    series = like(x, 0)
    for c in (5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = add(mul(series, r2), like(x, c)) if c != 5 / 66 else like(x, c)
    total = add(total, add(add(r, mul(half, r2)), mul(mul(r2, r), series)))
    s = sin(mul(like(x, math.pi), x))
    return select(left, sub(div(like(x, math.pi**2), square(s)), total), total)


digamma_p = elementwise("digamma", "f")
digamma_p.jvp = jvp_by_args(digamma_p, lambda t, out, x: mul(t, _trigamma(x)))


def recip(x):
    return div(like(x, 1), x)


def _unary(prim):
    def fun(x):
        return prim.bind(x)

    fun.__name__ = fun.__qualname__ = prim.name
    return fun


(
    exp,
    exp2,
    expm1,
    log,
    log2,
    log1p,
    logistic,
    tanh,
    sin,
    cos,
    tan,
    asin,
    acos,
    atan,
    sinh,
    cosh,
    asinh,
    acosh,
    atanh,
    erf,
    erfc,
    erf_inv,
    lgamma,
    digamma,
) = map(
    _unary,
    (
        exp_p,
        exp2_p,
        expm1_p,
        log_p,
        log2_p,
        log1p_p,
        logistic_p,
        tanh_p,
        sin_p,
        cos_p,
        tan_p,
        asin_p,
        acos_p,
        atan_p,
        sinh_p,
        cosh_p,
        asinh_p,
        acosh_p,
        atanh_p,
        erf_p,
        erfc_p,
        erf_inv_p,
        lgamma_p,
        digamma_p,
    ),
)

# --- rounding -------------------------------------------------------------------------------------------------------

floor_p = elementwise("floor", "f")
ceil_p = elementwise("ceil", "f")
trunc_p = elementwise("trunc", "f")
round_away_p = elementwise("round_away", "f")
round_even_p = elementwise("round_even", "f")
is_finite_p = elementwise("is_finite", "f", result="bool")
nextafter_p = elementwise("nextafter", "f")
for _p in (floor_p, ceil_p, trunc_p, round_away_p, round_even_p, is_finite_p, nextafter_p):
    _p.jvp = zero_jvp(_p)
floor, ceil, trunc, is_finite = map(_unary, (floor_p, ceil_p, trunc_p, is_finite_p))
nextafter = _nary(nextafter_p)


class RoundingMethod:
    """Ties away from zero, or to the even neighbour."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x, rounding_method=RoundingMethod.AWAY_FROM_ZERO):
    """Round to the nearest integer, ties away from zero by default (lax.round) or to even."""
    return (round_even_p if rounding_method == RoundingMethod.TO_NEAREST_EVEN else round_away_p).bind(x)


# --- comparison, logic, bits ----------------------------------------------------------------------------------------

eq_p, ne_p = (elementwise(n, ANY, result="bool") for n in ("eq", "ne"))
lt_p, le_p, gt_p, ge_p = (elementwise(n, ANY[:4], result="bool") for n in ("lt", "le", "gt", "ge"))
and_p, or_p, xor_p = (elementwise(n, "biu") for n in ("and", "or", "xor"))
not_p, population_count_p, clz_p = elementwise("not", "biu"), elementwise("population_count", "iu", op="popcount"), elementwise("clz", "iu")
shift_left_p = elementwise("shift_left", "iu", op="shl")
shift_right_logical_p = elementwise("shift_right_logical", "iu", op="shr_logical")
shift_right_arithmetic_p = elementwise("shift_right_arithmetic", "iu", op="shr_arith")
for _p in (
    eq_p,
    ne_p,
    lt_p,
    le_p,
    gt_p,
    ge_p,
    and_p,
    or_p,
    xor_p,
    not_p,
    population_count_p,
    clz_p,
    shift_left_p,
    shift_right_logical_p,
    shift_right_arithmetic_p,
):
    _p.jvp = zero_jvp(_p)
eq, ne, lt, le, gt, ge, bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right_logical, shift_right_arithmetic = map(
    _nary, (eq_p, ne_p, lt_p, le_p, gt_p, ge_p, and_p, or_p, xor_p, shift_left_p, shift_right_logical_p, shift_right_arithmetic_p)
)
bitwise_not, population_count, clz = map(_unary, (not_p, population_count_p, clz_p))


# --- select and clamp -----------------------------------------------------------------------------------------------


def _select_dtype(pred, x, y):
    if pred.dtype != dtypes.BOOL:
        raise TypeError(f"select: the predicate must be boolean, got {pred.dtype.name}")
    if x.dtype != y.dtype:
        raise TypeError(f"select requires cases of the same dtypes, got {x.dtype.name} and {y.dtype.name}")
    return x.dtype


select_p = elementwise("select", result=_select_dtype, same=False)


def _select_weak(prim_eval):
    def abstract_eval(pred, x, y):
        out = prim_eval(pred, x, y)
        return out.update(weak_type=x.weak_type and y.weak_type)

    return abstract_eval


select_p.abstract_eval = _select_weak(select_p.abstract_eval)


def _select_jvp(primals, tangents):
    pred, x, y = primals
    _, tx, ty = tangents
    out = select_p.bind(pred, x, y)
    if type(tx) is Zero and type(ty) is Zero:
        return out, zero_of(out)
    aval = get_aval(out)
    tx = aval.dtype.type(0) if type(tx) is Zero else tx
    ty = aval.dtype.type(0) if type(ty) is Zero else ty
    return out, broadcast_to(select_p.bind(pred, tx, ty), aval.shape)


def _select_transpose(cts, pred, x, y):
    ct, zero = cts[0], like(cts[0], 0)
    return [
        None,
        unbroadcast(select_p.bind(pred, ct, zero), x.aval) if is_linear(x) else None,
        unbroadcast(select_p.bind(pred, zero, ct), y.aval) if is_linear(y) else None,
    ]


select_p.jvp, select_p.transpose = _select_jvp, _select_transpose


def select(pred, on_true, on_false):
    """on_true where pred holds, else on_false; shapes equal or rank-0."""
    return select_p.bind(pred, *unify("select", (on_true, on_false)))


def select_n(which, *cases):
    """cases[which], element by element: which is boolean (two cases) or int32 in [0, len(cases))."""
    if not cases:
        raise ValueError("select_n needs at least one case")
    aval = get_aval(which)
    if aval.dtype == dtypes.BOOL:
        if len(cases) == 1:
            return cases[0]
        if len(cases) != 2:
            raise TypeError(f"select_n with a boolean predicate takes two cases, got {len(cases)}")
        return select(which, cases[1], cases[0])
    out = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        out = select(le(which, like(which, i)), cases[i], out)
    return out


clamp_p = elementwise("clamp", "iuf")
clamp_p.jvp = jvp_by_args(
    clamp_p,
    lambda t, out, lo, x, hi: select(bitwise_and(gt(lo, x), lt(lo, hi)), t, like(t, 0)),
    lambda t, out, lo, x, hi: select(bitwise_and(le(lo, x), le(x, hi)), t, like(t, 0)),
    lambda t, out, lo, x, hi: select(gt(x, hi), t, like(t, 0)),
)


def clamp(lo, x, hi):
    """x limited to [lo, hi]; the gradient is 1 on the closed interval and 0 outside."""
    return clamp_p.bind(*unify("clamp", (lo, x, hi)))


# --- complex --------------------------------------------------------------------------------------------------------

real_p = elementwise("real", "c", result="real")
imag_p = elementwise("imag", "c", result="real")
conj_p = elementwise("conj", "c")
complex_p = elementwise("complex", "f", result=lambda x, y: dtypes.to_complex(x.dtype))


def complex_(x, y):
    """x + iy from two float arrays."""
    return complex_p.bind(*unify("complex", (x, y)))


real_p.jvp, imag_p.jvp, conj_p.jvp = linear_jvp(real_p), linear_jvp(imag_p), linear_jvp(conj_p)
real_p.transpose = lambda cts, x: [complex_(cts[0], mul(cts[0], like(cts[0], 0)))]
imag_p.transpose = lambda cts, x: [complex_(mul(cts[0], like(cts[0], 0)), neg(cts[0]))]
conj_p.transpose = lambda cts, x: [conj(cts[0])]
complex_p.jvp = jvp_by_args(complex_p, lambda t, out, x, y: complex_(t, like(t, 0)), lambda t, out, x, y: complex_(like(t, 0), t))
complex_p.transpose = lambda cts, x, y: [
    unbroadcast(real(cts[0]), x.aval) if is_linear(x) else None,
    unbroadcast(neg(imag(cts[0])), y.aval) if is_linear(y) else None,
]
real, imag = map(_unary, (real_p, imag_p))


def conj(x):
    """Complex conjugate; real arrays as they are."""
    return conj_p.bind(x) if get_aval(x).dtype.kind == "c" else x


# --- casts ----------------------------------------------------------------------------------------------------------


def _cast_aval(x, *, new_dtype, weak_type):
    return ShapedArray(x.shape, new_dtype, weak_type)


convert_element_type_p = elementwise("convert_element_type", same=False, op="cast")
convert_element_type_p.abstract_eval = _cast_aval


def _cast_jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    if not dtypes.is_inexact(new_dtype) or type(t) is Zero:
        return out, zero_of(out)
    return out, convert_element_type(t, new_dtype)


convert_element_type_p.jvp = _cast_jvp
convert_element_type_p.transpose = lambda cts, x, *, new_dtype, weak_type: [convert_element_type(cts[0], x.aval.dtype)]


def convert_element_type(x, new_dtype, weak_type=False):
    """x cast to new_dtype. A float becomes an int by truncation, saturating; complex to real drops the imaginary part."""
    dtype = dtypes.canonicalize_dtype(new_dtype)
    aval = get_aval(x)
    weak_type = bool(weak_type) and dtype != dtypes.BOOL
    if aval.dtype == dtype and aval.weak_type == weak_type and not isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        return x
    return convert_element_type_p.bind(x, new_dtype=dtype, weak_type=weak_type)


def _bitcast_dtype(x, *, new_dtype):
    if x.dtype.itemsize != new_dtype.itemsize or dtypes.BOOL in (x.dtype, new_dtype):
        raise TypeError(f"bitcast_convert_type: {x.dtype.name} and {new_dtype.name} must have the same number of bits (and not be bool)")
    return new_dtype


bitcast_convert_type_p = elementwise(
    "bitcast_convert_type",
    same=False,
    result=_bitcast_dtype,
    lower=lambda ctx, ins, params, out_avals: ctx.bitcast(ins[0], params["new_dtype"]),
)
bitcast_convert_type_p.jvp = zero_jvp(bitcast_convert_type_p)


def bitcast_convert_type(x, new_dtype):
    """x's bits read as a dtype of the same width."""
    return bitcast_convert_type_p.bind(x, new_dtype=dtypes.canonicalize_dtype(new_dtype))


# Rounding to another float format and back, without leaving the dtype.
def _lower_reduce_precision(ctx, ins, params, out_avals):
    kind = (params["exponent_bits"], params["mantissa_bits"])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind in ((5, 10), (8, 7)):
        return ctx.elementwise("round_f16" if kind == (5, 10) else "round_bf16", ins, out_avals[0])
    if out_avals[0].dtype == dtypes.FLOAT32 and kind == (8, 23):
        return ins[0]
    raise NotImplementedError(f"reduce_precision of {out_avals[0].dtype.name} to {kind}: float32 to float16 or bfloat16 is supported")


reduce_precision_p = elementwise("reduce_precision", "f", lower=_lower_reduce_precision)
reduce_precision_p.jvp = linear_jvp(reduce_precision_p)
reduce_precision_p.transpose = lambda cts, x, **kw: [reduce_precision_p.bind(cts[0], **kw)]


def reduce_precision(x, exponent_bits, mantissa_bits):
    """x rounded as if stored in a float format of these bits, in its own dtype."""
    return reduce_precision_p.bind(x, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


copy_p = elementwise("copy", ANY, op="copy", lower=lambda ctx, ins, params, out_avals: ctx.fresh_copy(ins[0]))
copy_p.jvp = linear_jvp(copy_p)
copy_p.transpose = lambda cts, x: [cts[0]]

set_shape_ops(add=add)
