"""Elementwise primitives."""

import math
from functools import partial

import mpmath
import numpy as np

from fgrad.ops import activation
from fgrad.ops import elementwise as ops
from fgrad.ops import random as sampling
from fgrad.ops.rules import like
from tests.table.case import BOOL, COMPLEX, F32, F64, FLOATS, SIGNED, UNSIGNED, Case, Sample, bools, of_kinds, typed

ROWS: dict = {}


def row(name, ref, *domains, kinds="f", fun=None, mixed=True, special=True, linear=(), **kw):
    """A row of an elementwise primitive: domains are (lo, hi) per argument; n-ary ones get a case with a rank-0 argument."""
    fun = fun or (lambda *xs: getattr(ops, f"{name}_p").bind(*xs))
    kw = dict(ref=ref, dtypes=of_kinds(kinds), free=True, special=special and "f" in kinds, linear=linear, scale=0.0) | kw
    domains = domains or ((-2, 2),)
    args = tuple(Sample((3, 4), *d) if isinstance(d, tuple) else d for d in domains)
    cases = [Case(fun, args, **kw)]
    if len(args) > 1 and mixed:
        for i in range(len(args)):
            sub = tuple(Sample((), s.lo, s.hi, s.dtype, nonzero=s.nonzero) if i == j else s for j, s in enumerate(args))
            cases.append(Case(fun, sub, name=f"rank-0 argument {i}", **{**kw, "special": False}))
    ROWS[name] = cases


def mp(f):
    """An mpmath function over arrays."""

    def each(v):
        try:
            return float(f(mpmath.mpf(float(v))))
        except (ValueError, ZeroDivisionError):
            return math.nan

    return lambda x: np.vectorize(each, otypes=[float])(x)


def elementwise_math(f):
    def each(v):
        try:
            return f(v)
        except (ValueError, OverflowError):
            return math.inf

    return lambda x: np.vectorize(each, otypes=[float])(x)


ANY = (-2, 2)
NONZERO = Sample(nonzero=True)
POSITIVE = (0.3, 3)

# --- arithmetic -------------------------------------------------------------------------------------------------------

row("neg", np.negative, kinds="fiuc", linear=((0,),))
row("add", np.add, ANY, ANY, kinds="fiubc", linear=((0, 1),))
row("sub", np.subtract, ANY, ANY, kinds="fiuc", linear=((0, 1),))
row("mul", np.multiply, ANY, ANY, kinds="fiubc", linear=((0,), (1,)), special=True)


def np_div(x, y):
    return np.divide(x, y) if x.dtype.kind in "fc" else np.trunc(x.astype(float) / y.astype(float)).astype(x.dtype)


row("div", np_div, ANY, NONZERO, kinds="fiuc", linear=((0,),))
row("rem", np.fmod, (-2, 2), Sample(lo=0.6, hi=0.9, nonzero=True), kinds="fiu")
row("max", np.maximum, ANY, ANY, kinds="fiubc", special=False)
row("min", np.minimum, ANY, ANY, kinds="fiubc", special=False)
row("abs", np.abs, NONZERO, kinds="fic", out="real")


def np_sign(x):
    if x.dtype.kind == "c":
        return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))
    return np.where(x == 0, x, np.sign(x))


row("sign", np_sign, NONZERO, kinds="fiu", wrt=())
row("square", np.square, kinds="fiuc")
ROWS["integer_pow"] = [
    Case(
        lambda x, n=n: ops.integer_pow_p.bind(x, y=n),
        (Sample(nonzero=True),),
        lambda x, n=n: x**n,
        name=f"y={n}",
        dtypes=of_kinds("fiuc" if n > 0 else "fc"),
        free=True,
        special=n != -3,
        scale=0.0,
        ulps=16,
    )
    for n in (3, 4, 7, -1, -3)
]


def np_pow(x, y):
    return np.power(x, y)


row("pow", np_pow, POSITIVE, ANY, kinds="fc", ulps=16)
ROWS["pow"].append(
    Case(ops.pow, (typed(3, 4), Sample(lo=0, hi=2)), np_pow, name="of integers", dtypes=SIGNED[:1] + UNSIGNED[:1], free=True, native=True)
)
row("sqrt", np.sqrt, POSITIVE, kinds="fc")
row("rsqrt", lambda x: 1 / np.sqrt(x), POSITIVE, kinds="fc", special=False)
row("cbrt", np.cbrt, NONZERO)

# --- exp, log, trigonometric ------------------------------------------------------------------------------------------

row("exp", np.exp, kinds="fc")
row("exp2", np.exp2)
row("expm1", np.expm1, kinds="fc")
row("log", np.log, POSITIVE, kinds="fc", ulps=8)
row("log2", np.log2, POSITIVE, ulps=8)
row("log10", np.log10, POSITIVE, ulps=8)
row("log1p", np.log1p, (-0.8, 2), kinds="fc", ulps=8)


def np_logistic(x):
    e = np.exp(-np.abs(x)) if x.dtype.kind == "f" else None
    return 1 / (1 + np.exp(-x)) if e is None else np.where(x < 0, e / (1 + e), 1 / (1 + e))


row("logistic", np_logistic, kinds="fc", ulps=8)
row("tanh", np.tanh, kinds="fc", ulps=8)
row("sin", np.sin, kinds="fc")
row("cos", np.cos, kinds="fc", ulps=8)
row("tan", np.tan, (-1.2, 1.2), kinds="fc", ulps=16)
row("asin", np.arcsin, (-0.9, 0.9))
row("acos", np.arccos, (-0.9, 0.9))
row("atan", np.arctan)
row("atan2", np.arctan2, NONZERO, NONZERO)
row("sinh", np.sinh, kinds="fc", ulps=8)
row("cosh", np.cosh, kinds="fc", ulps=8)
row("asinh", np.arcsinh)
row("acosh", np.arccosh, (1.2, 4), ulps=8)
row("atanh", np.arctanh, (-0.9, 0.9), ulps=8)

# --- special functions ------------------------------------------------------------------------------------------------

row("erf", elementwise_math(math.erf), ulps=8)
row("erfc", elementwise_math(math.erfc), ulps=16)
row("erf_inv", mp(mpmath.erfinv), (-0.95, 0.95), ulps=16, special=False)
row("sample_log", np.log, POSITIVE, fun=sampling.sample_log, ulps=8, special=False)
row("sample_log1p", np.log1p, (-0.8, 2), fun=sampling.sample_log1p, ulps=200, special=False)
row("sample_erf", elementwise_math(math.erf), fun=sampling.sample_erf, ulps=16, special=False)
row("sample_erf_inv", mp(mpmath.erfinv), (-0.95, 0.95), fun=sampling.sample_erf_inv, ulps=64, special=False)
row("fma", lambda x, y, z: x * y + z, ANY, ANY, ANY, fun=sampling.fma, scale=1.0, special=False)
row("lgamma", elementwise_math(lambda v: v if math.isnan(v) else math.lgamma(v)), (0.3, 4), ulps=16, scale=1.0)
row("digamma", mp(mpmath.digamma), (0.3, 4), ulps=32, scale=1.0, special=False)


def reference(f):
    """An mpmath function of several arrays."""
    return np.vectorize(lambda *v: float(f(*[mpmath.mpf(float(x)) for x in v])), otypes=[float])


UPPER, LOWER = (lambda a, x: mpmath.gammainc(a, x, regularized=True)), (lambda a, x: mpmath.gammainc(a, 0, x, regularized=True))
SLOPE = lambda a, x: mpmath.diff(lambda t: LOWER(t, x), a)
special_row = partial(row, special=False, mixed=False, scale=1.0)
row("gamma", mp(mpmath.gamma), (0.3, 4), ulps=16, scale=1.0, special=False)
row("ndtr", mp(mpmath.ncdf), (-3, 3), special=False)
row("log_ndtr", mp(lambda x: mpmath.log(mpmath.ncdf(x))), (-30, 3), ulps=16, scale=1.0, special=False)
row("ndtri", mp(lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)), (0.05, 0.95), ulps=16, scale=1.0, special=False)
special_row("betaln", reference(lambda a, b: mpmath.log(mpmath.beta(a, b))), POSITIVE, POSITIVE, ulps=64)
special_row("beta", reference(mpmath.beta), POSITIVE, POSITIVE, ulps=64)
special_row("polygamma", reference(lambda x: mpmath.polygamma(2, x)), (0.5, 4), fun=lambda x: ops.polygamma(like(x, 2), x), ulps=32)
special_row("zeta", reference(mpmath.zeta), (1.5, 4), (0.5, 4), ulps=32)
special_row("igamma", reference(LOWER), POSITIVE, POSITIVE, ulps=64, order=1)
special_row("igammac", reference(UPPER), POSITIVE, POSITIVE, ulps=64, order=1)
special_row("igamma_grad_a", reference(SLOPE), POSITIVE, POSITIVE, ulps=128, wrt=(1,), order=1)
special_row(
    "random_gamma_grad",
    reference(lambda a, x: -SLOPE(a, x) / (x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a))),
    POSITIVE,
    POSITIVE,
    ulps=128,
    wrt=(1,),
    order=1,
)
special_row(
    "betainc", reference(lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True)), POSITIVE, POSITIVE, (0.1, 0.9), ulps=64, wrt=(2,)
)
special_row("bessel_i0e", reference(lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x))), ulps=16)
special_row("bessel_i1e", reference(lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x))), ulps=16)
row("logit", lambda x: np.log(x / (1 - x)), (0.05, 0.95), ulps=16, scale=1.0, special=False)
row("rel_entr", lambda p, q: p * np.log(p / q), POSITIVE, POSITIVE, ulps=16, scale=1.0, special=False)
row("hypot", np.hypot, NONZERO, NONZERO)
row("copysign", np.copysign, NONZERO, NONZERO)
row("ldexp", lambda x: x * 8, ANY, fun=lambda x: ops.ldexp(x, like(x, 3)), special=False, linear=((0,),))


GELU_A, GELU_B = 2 * math.sqrt(2 / math.pi), 0.044715 * 2 * math.sqrt(2 / math.pi)


def gelu_slope_reference(x):
    s = 1 / (1 + np.exp(-(GELU_A * x + GELU_B * x**3)))
    return s + x * s * (1 - s) * (GELU_A + 3 * GELU_B * x**2)


def gelu_exact_slope_reference(v):
    return 0.5 * math.erfc(-v * math.sqrt(0.5)) + v * math.exp(-v * v / 2) / math.sqrt(2 * math.pi)


gelu_row = partial(row, special=False, scale=1.0, ulps=16)
gelu_row("gelu", lambda x: x / (1 + np.exp(-(GELU_A * x + GELU_B * x**3))), fun=activation.gelu_p.bind)
gelu_row("gelu_slope", gelu_slope_reference, fun=activation.gelu_slope_p.bind)
gelu_row("gelu_exact", elementwise_math(lambda v: v * 0.5 * math.erfc(-v * math.sqrt(0.5))), fun=activation.gelu_exact_p.bind)
gelu_row("gelu_exact_slope", elementwise_math(gelu_exact_slope_reference), fun=activation.gelu_exact_slope_p.bind)
row("softplus", lambda x: np.logaddexp(x, 0), fun=activation.softplus, ulps=8)

# --- rounding and tests -----------------------------------------------------------------------------------------------

row("floor", np.floor, wrt=())
row("ceil", np.ceil, wrt=())
row("trunc", np.trunc, wrt=())
row("round_even", np.rint, wrt=())
row("round_away", lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x), wrt=())
row("is_finite", np.isfinite, wrt=(), out=bool)
row("nextafter", lambda x, y: np.where(x == y, y, np.nextafter(x, y)), ANY, ANY, wrt=(), native=True, ulps=0)
for _name, _ref in dict(eq=np.equal, ne=np.not_equal).items():
    row(_name, _ref, ANY, ANY, kinds="fiubc", wrt=(), out=bool)
for _name, _ref in dict(lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal).items():
    row(_name, _ref, ANY, ANY, kinds="fiub", wrt=(), out=bool)

# --- bits -------------------------------------------------------------------------------------------------------------

row("and", np.bitwise_and, ANY, ANY, kinds="iub", fun=ops.bitwise_and, wrt=())
row("or", np.bitwise_or, ANY, ANY, kinds="iub", fun=ops.bitwise_or, wrt=())
row("xor", np.bitwise_xor, ANY, ANY, kinds="iub", fun=ops.bitwise_xor, wrt=())
row("not", np.invert, kinds="iub", fun=ops.bitwise_not, wrt=())


def _bits(x):
    return x.view(f"u{x.dtype.itemsize}")


def np_popcount(x):
    return np.vectorize(lambda v: bin(int(v)).count("1"), otypes=[x.dtype])(_bits(x))


def np_clz(x):
    return np.vectorize(lambda v: 8 * x.itemsize - int(v).bit_length(), otypes=[x.dtype])(_bits(x))


row("population_count", np_popcount, kinds="iu", wrt=())
row("clz", np_clz, kinds="iu", wrt=())
row("gcd", np.gcd, ANY, ANY, kinds="iu", wrt=())
SHIFT = Sample(lo=0, hi=2)


def np_shift_right_logical(x, n):
    return (_bits(x) >> _bits(n)).view(x.dtype)


row("shift_left", np.left_shift, ANY, SHIFT, kinds="iu", wrt=())
row("shift_right_arithmetic", np.right_shift, ANY, SHIFT, kinds="iu", wrt=())
row("shift_right_logical", np_shift_right_logical, ANY, SHIFT, kinds="iu", wrt=())

# --- select, clamp, complex, casts ------------------------------------------------------------------------------------

row("select", np.where, bools(3, 4), ANY, ANY, kinds="fiubc", fun=ops.select, wrt=(1, 2), linear=((1, 2),), special=False)


def np_clamp(lo, x, hi):
    return np.minimum(np.maximum(x, lo), hi)


row("clamp", np_clamp, (-1, -0.4), ANY, (0.4, 1), kinds="fiu", special=False)
row("real", np.real, kinds="c", out="real", linear=((0,),))
row("imag", np.imag, kinds="c", out="real", linear=((0,),))
row("conj", np.conj, kinds="c", linear=((0,),))
row("complex", lambda x, y: x + 1j * y, ANY, ANY, fun=ops.complex_, dtypes=(F32, F64), out="complex", linear=((0, 1),), special=False)


def _cast(new, dtypes, name, **kw):
    def ref(x):
        return x.real.astype(new) if x.dtype.kind == "c" and np.dtype(new).kind != "c" else x.astype(new)

    kw = dict(ref=ref, dtypes=tuple(dtypes), name=name, out=np.dtype(new), free=True, scale=0.0) | kw
    return Case(lambda x: ops.convert_element_type(x, new), (typed(3, 4),), **kw)


ROWS["convert_element_type"] = [
    _cast(np.float32, FLOATS[1:], "float to float", linear=((0,),), tangent=lambda p, t: t[0].astype(np.float32)),
    _cast(np.float32, (*SIGNED[:3], *UNSIGNED[:3], *BOOL), "int to float", wrt=()),
    _cast(np.int32, FLOATS, "float to int", wrt=()),
    _cast(np.int8, (*SIGNED, *UNSIGNED), "int to int", wrt=()),
    _cast(bool, (*FLOATS, *SIGNED), "to bool", wrt=()),
    _cast(np.complex64, (F32, F64), "to complex", tangent=lambda p, t: t[0].astype(np.complex64)),
    _cast(np.complex64, SIGNED[:1], "int to complex", wrt=()),
    _cast(np.float32, COMPLEX, "complex to real", tangent=lambda p, t: t[0].real.astype(np.float32)),
]


def _bitcast(old, new):
    return Case(
        lambda x: ops.bitcast_convert_type(x, new),
        (typed(3, 4),),
        lambda x: x.view(new),
        name=f"{np.dtype(old).name} to {np.dtype(new).name}",
        dtypes=(np.dtype(old),),
        out=np.dtype(new),
        wrt=(),
        native=True,
        free=True,
        ulps=0,
    )


ROWS["bitcast_convert_type"] = [
    _bitcast(*p) for p in ((np.float32, np.int32), (np.int32, np.float32), (np.float16, np.uint16), (np.float64, np.int64))
]


def _precision(exponent, mantissa, through):
    return Case(
        lambda x: ops.reduce_precision(x, exponent, mantissa),
        (typed(3, 4),),
        lambda x: x.astype(through).astype(x.dtype),
        name=np.dtype(through).name,
        dtypes=(F32,),
        tangent=lambda p, t: t[0].astype(through).astype(np.float32),
        linear=((0,),),
        native=True,
        free=True,
        ulps=0,
        special=True,
    )


ROWS["reduce_precision"] = [_precision(5, 10, np.float16), _precision(8, 7, FLOATS[3])]
row("copy", lambda x: x, kinds="fiubc", linear=((0,),))
