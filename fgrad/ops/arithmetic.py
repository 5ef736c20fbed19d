"""Elementwise arithmetic, powers by integers, and the parts of complex numbers."""

from fgrad import dtypes
from fgrad.core import get_aval
from fgrad.core.binding import tangent_alone
from fgrad.ops.logic import eq, ge, gt, lt, select, trunc
from fgrad.ops.rules import (
    ANY,
    NUMBER,
    Zero,
    as_result,
    bilinear,
    broadcast_to,
    elementwise,
    is_linear,
    jvp_by_args,
    like,
    linear_jvp,
    nary,
    set_shape_ops,
    transpose_of_sum,
    unary,
    unbroadcast,
    zero_jvp,
)

# --- arithmetic -----------------------------------------------------------------------------------------------------

neg_p = elementwise("neg", NUMBER)
neg_p.jvp = linear_jvp(neg_p)
neg_p.transpose = lambda cts, x: [neg(cts[0])]
neg = unary(neg_p, "-x.")

add_p = elementwise("add", ANY)
add_p.jvp = jvp_by_args(add_p, tangent_alone, tangent_alone)
add_p.transpose = transpose_of_sum()
add = nary(add_p, "x + y.")

sub_p = elementwise("sub", NUMBER)
sub_p.jvp = jvp_by_args(sub_p, tangent_alone, lambda t, out, x, y: neg(t))
sub_p.transpose = transpose_of_sum(neg)
sub = nary(sub_p, "x - y.")

mul_p = elementwise("mul", ANY)
mul = nary(mul_p, "x * y.")
bilinear(mul_p, mul)

div_p = elementwise("div", NUMBER)


def _div_jvp(primals, tangents):
    """An inverse of y serves the tangents of both: products instead of three divisions. 16-bit floats would lose small ones."""
    (x, y), (tx, ty) = primals, tangents
    out = div_p.bind(x, y)
    aval = get_aval(out)
    if type(ty) is Zero:
        return out, Zero(aval.tangent_aval()) if type(tx) is Zero else broadcast_to(div(tx, y), aval.shape)
    inverse = recip(y) if aval.dtype.itemsize > 2 else None
    slope = div(out, y) if inverse is None else mul(mul(x, inverse), inverse)
    total = broadcast_to(mul(neg(ty), slope), aval.shape)
    if type(tx) is Zero:
        return out, total
    return out, add(broadcast_to(div(tx, y) if inverse is None else mul(tx, inverse), aval.shape), total)


div_p.jvp = _div_jvp
div_p.transpose = lambda cts, x, y: [unbroadcast(div(cts[0], y), x.aval), None]
div = nary(div_p, "x / y; of integers truncated toward zero.")

rem_p = elementwise("rem", NUMBER[:3])
rem_p.jvp = jvp_by_args(rem_p, lambda t, out, x, y: t, lambda t, out, x, y: mul(neg(t), trunc(div(x, y))))
rem = nary(rem_p, "x - y * trunc(x / y): the remainder with x's sign.")


def _lower_extremum(op, before):
    """max and min; of complex numbers by real part, then by imaginary part."""

    def first(x, y):
        rx, ry = real(x), real(y)
        which = select(eq(rx, ry), before(imag(x), imag(y)), before(rx, ry))
        return [select(which, x, y)]

    def lower(ctx, ins, params, out_avals):
        if out_avals[0].dtype.kind != "c":
            return ctx.elementwise(op, ins, out_avals[0])
        return ctx.compose(first, ins)[0]

    return lower


max_p = elementwise("max", ANY, lower=_lower_extremum("max", gt))
min_p = elementwise("min", ANY, lower=_lower_extremum("min", lt))


def _pick_jvp(prim):
    """Derivative of max and min: the chosen operand's tangent, half of each where they tie."""

    def side(t, out, x, other):
        one, zero, half = like(t, 1), like(t, 0), like(t, 0.5)
        return mul(t, select(eq(x, out), select(eq(other, out), half, one), zero))

    return jvp_by_args(prim, lambda t, out, x, y: side(t, out, x, y), lambda t, out, x, y: side(t, out, y, x))


max_p.jvp = _pick_jvp(max_p)
min_p.jvp = _pick_jvp(min_p)
max = nary(max_p, "The larger of x and y; NaN where either is. Where they tie, each takes half of the gradient.")
min = nary(min_p, "The smaller of x and y; NaN where either is. Where they tie, each takes half of the gradient.")

abs_p = elementwise("abs", NUMBER, result="real")


def _abs_jvp(t, out, x):
    if get_aval(x).dtype.kind == "c":
        size = select(eq(out, like(out, 0)), like(out, 1), out)
        return real(mul(t, complex_(div(real(x), size), neg(div(imag(x), size)))))
    return mul(t, _side(x))


def _side(x):
    """1 where x >= 0, else -1."""
    return select(ge(x, like(x, 0)), like(x, 1), like(x, -1))


abs_p.jvp = jvp_by_args(abs_p, _abs_jvp)
abs = unary(abs_p, "|x|, real for complex x. Its derivative at 0 is 1.")

copysign_p = elementwise("copysign", "f")
copysign_p.jvp = jvp_by_args(
    copysign_p,
    lambda t, out, x, y: mul(mul(t, _side(x)), copysign(like(y, 1), y)),
    lambda t, out, x, y: broadcast_to(like(x, 0), get_aval(out).shape),
)
copysign = nary(copysign_p, "|x| with the sign of y, zeros and NaNs included.")

ldexp_p = elementwise("ldexp", "f")
ldexp_p.jvp = jvp_by_args(ldexp_p, lambda t, out, x, n: ldexp(t, n), None)
ldexp_p.transpose = lambda cts, x, n: [unbroadcast(ldexp(cts[0], n), x.aval), None]
ldexp = nary(ldexp_p, "x * 2**n for a whole n (a float), rounded once. No derivative in n.", ("x", "n"))

sign_p = elementwise("sign", NUMBER)
sign_p.jvp = zero_jvp(sign_p)
sign = unary(sign_p, "-1, 0 or 1 by x's sign; x / |x| for complex x.")

square_p = elementwise("square", NUMBER)
square_p.jvp = jvp_by_args(square_p, lambda t, out, x: mul(t, mul(like(x, 2), x)))
square = unary(square_p, "x * x.")


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
        aval, one = get_aval(x), like(x, 1)
        return as_result(broadcast_to(one.item() if aval.weak_type else one, aval.shape))
    if y == 1:
        return as_result(x)
    if y == 2:
        return square(x)
    if y < 0 and not dtypes.is_inexact(get_aval(x).dtype):
        raise TypeError(f"Integers cannot be raised to negative powers, got {get_aval(x)} ** {y}")
    return integer_pow_p.bind(x, y=y)


def recip(x):
    """1 / x."""
    return div(like(x, 1), x)


# --- complex --------------------------------------------------------------------------------------------------------

real_p = elementwise("real", "c", result="real")
imag_p = elementwise("imag", "c", result="real")
conj_p = elementwise("conj", "c")


def _complex_of(x, y):
    if x.dtype.itemsize < 4:
        raise TypeError(f"complex does not accept dtype {x.dtype.name}. Accepted dtypes are float32 and float64.")
    return dtypes.to_complex(x.dtype)


complex_p = elementwise("complex", "f", result=_complex_of)
complex_ = nary(complex_p, "x + iy from two float arrays.")
real_p.jvp, imag_p.jvp, conj_p.jvp = linear_jvp(real_p), linear_jvp(imag_p), linear_jvp(conj_p)
real_p.transpose = lambda cts, x: [complex_(cts[0], like(cts[0], 0))]
imag_p.transpose = lambda cts, x: [complex_(like(cts[0], 0), neg(cts[0]))]
conj_p.transpose = lambda cts, x: [conj(cts[0])]
complex_p.jvp = jvp_by_args(complex_p, lambda t, out, x, y: complex_(t, like(t, 0)), lambda t, out, x, y: complex_(like(t, 0), t))
complex_p.transpose = lambda cts, x, y: [
    unbroadcast(real(cts[0]), x.aval) if is_linear(x) else None,
    unbroadcast(neg(imag(cts[0])), y.aval) if is_linear(y) else None,
]
real = unary(real_p, "The real part of a complex array.")
imag = unary(imag_p, "The imaginary part of a complex array.")


def conj(x):
    """Complex conjugate; real arrays as they are."""
    return conj_p.bind(x) if get_aval(x).dtype.kind == "c" else x


set_shape_ops(add=add)
