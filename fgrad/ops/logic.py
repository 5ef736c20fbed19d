"""Elementwise primitives without arithmetic: rounding, comparison, logic, bits, select and clamp."""

from fgrad import dtypes
from fgrad.core import get_aval
from fgrad.ops.rules import (
    ANY,
    Zero,
    as_result,
    broadcast_to,
    elementwise,
    is_linear,
    jvp_by_args,
    like,
    nary,
    same_dtypes,
    unary,
    unbroadcast,
    unify,
    zero_jvp,
    zero_of,
)

# --- rounding -------------------------------------------------------------------------------------------------------

floor_p = elementwise("floor", "f")
ceil_p = elementwise("ceil", "f")
trunc_p = elementwise("trunc", "f")
round_away_p = elementwise("round_away", "f")
round_even_p = elementwise("round_even", "f")
is_finite_p = elementwise("is_finite", "fc", result="bool")
for _p in (floor_p, ceil_p, trunc_p, round_away_p, round_even_p, is_finite_p):
    _p.jvp = zero_jvp(_p)
floor = unary(floor_p, "The largest whole number <= x.")
ceil = unary(ceil_p, "The smallest whole number >= x.")
trunc = unary(trunc_p, "x without its fraction.")
_finite = unary(is_finite_p, "")


def is_finite(x):
    """Where x is neither infinite nor NaN, as booleans. As in JAX not of complex numbers, which the primitive takes."""
    if get_aval(x).dtype.kind == "c":
        raise TypeError(f"is_finite does not accept dtype {get_aval(x).dtype.name}. Accepted dtypes are floating.")
    return _finite(x)


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
gcd_p, shift_left_p = elementwise("gcd", "iu"), elementwise("shift_left", "iu", op="shl")
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
    gcd_p,
    shift_left_p,
    shift_right_logical_p,
    shift_right_arithmetic_p,
):
    _p.jvp = zero_jvp(_p)
eq = nary(eq_p, "x == y, as booleans.")
ne = nary(ne_p, "x != y, as booleans.")
lt = nary(lt_p, "x < y, as booleans.")
le = nary(le_p, "x <= y, as booleans.")
gt = nary(gt_p, "x > y, as booleans.")
ge = nary(ge_p, "x >= y, as booleans.")
bitwise_and = nary(and_p, "x & y of integers or booleans.")
bitwise_or = nary(or_p, "x | y of integers or booleans.")
bitwise_xor = nary(xor_p, "x ^ y of integers or booleans.")
shift_left = nary(shift_left_p, "x << y; 0 where y is not below the number of bits.")
shift_right_logical = nary(shift_right_logical_p, "x >> y with zeros shifted in.")
shift_right_arithmetic = nary(shift_right_arithmetic_p, "x >> y with the sign bit shifted in.")
bitwise_not = unary(not_p, "~x of integers or booleans.")
for _fun in (bitwise_and, bitwise_or, bitwise_xor, bitwise_not):
    _fun.__name__ = _fun.__qualname__ = f"bitwise_{_fun.__name__}"
population_count = unary(population_count_p, "How many bits of x are 1.")
clz = unary(clz_p, "How many zero bits lead x.")
gcd = nary(gcd_p, "The greatest common divisor of x's and y's sizes; of 0 and y the size of y.")


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
    """on_true where pred holds (an int32 predicate: where it is positive), else on_false; shapes equal or rank-0."""
    if get_aval(pred).dtype == dtypes.INT32:
        pred = gt(pred, like(pred, 0))
    return select_p.bind(pred, *unify("select", (on_true, on_false)))


def select_n(which, *cases):
    """cases[which], element by element: which is boolean (two cases) or int32 in [0, len(cases))."""
    if not cases:
        raise ValueError("select_n needs at least one case")
    aval = get_aval(which)
    if aval.dtype == dtypes.BOOL:
        if len(cases) == 1:
            return as_result(cases[0])
        if len(cases) != 2:
            raise TypeError(f"select with boolean `which` cannot have > 2 cases, and select_n takes two cases with it, got {len(cases)}")
        return select(which, cases[1], cases[0])
    if not dtypes.is_integer(aval.dtype):
        raise TypeError(f"select `which` must be boolean or integer type, got {aval.dtype.name}.")
    out = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        out = select(le(which, like(which, i)), cases[i], out)
    return as_result(out)


clamp_p = elementwise("clamp", "iuf")
clamp_p.jvp = jvp_by_args(
    clamp_p,
    lambda t, out, lo, x, hi: select(bitwise_and(gt(lo, x), lt(lo, hi)), t, like(t, 0)),
    lambda t, out, lo, x, hi: select(bitwise_and(gt(x, lo), lt(x, hi)), t, like(t, 0)),
    lambda t, out, lo, x, hi: select(gt(x, hi), t, like(t, 0)),
)


def clamp(min, x, max):
    """x limited to [min, max]; the gradient is 1 inside the interval, 0 at its bounds and outside."""
    if (type(min) is int or type(max) is int) and get_aval(x).dtype.kind not in "iu":
        same_dtypes("clamp", [get_aval(v) for v in (min, x, max)])
    lo, x, hi = unify("clamp", (min, x, max))
    if get_aval(x).dtype == dtypes.BOOL:
        return bitwise_and(bitwise_or(x, lo), hi)
    return clamp_p.bind(lo, x, hi)
