"""Special functions, elementwise: error functions, gamma and its relatives, incomplete integrals, zeta, Bessel."""

import math

from fgrad.core import get_aval
from fgrad.ops.arithmetic import abs, add, div, mul, neg, recip, sign, square, sub
from fgrad.ops.logic import bitwise_and, gt, select
from fgrad.ops.rules import elementwise, jvp_by_args, like, nary, unary
from fgrad.ops.transcendental import exp, log, log1p

# --- error functions --------------------------------------------------------------------------------------------------

erf_p = elementwise("erf", "f")
erf_p.jvp = jvp_by_args(erf_p, lambda t, out, x: mul(t, mul(like(x, 2 / math.sqrt(math.pi)), exp(neg(square(x))))))
erf = unary(erf_p, "The error function, 2 / sqrt(pi) * the integral of exp(-t**2) from 0 to x.")
erfc_p = elementwise("erfc", "f")
erfc_p.jvp = jvp_by_args(erfc_p, lambda t, out, x: mul(t, mul(like(x, -2 / math.sqrt(math.pi)), exp(neg(square(x))))))
erfc = unary(erfc_p, "1 - erf(x), exact where erf(x) is near 1.")
erf_inv_p = elementwise("erf_inv", "f")
erf_inv_p.jvp = jvp_by_args(erf_inv_p, lambda t, out, x: mul(t, mul(like(x, math.sqrt(math.pi) / 2), exp(square(out)))))
erf_inv = unary(erf_inv_p, "The inverse of erf on (-1, 1).")

# --- gamma ------------------------------------------------------------------------------------------------------------

lgamma_p = elementwise("lgamma", "f")
lgamma_p.jvp = jvp_by_args(lgamma_p, lambda t, out, x: mul(t, digamma(x)))
lgamma = unary(lgamma_p, "log |gamma(x)|.")
digamma_p = elementwise("digamma", "f")
digamma_p.jvp = jvp_by_args(digamma_p, lambda t, out, x: mul(t, polygamma(like(x, 1), x)))
digamma = unary(digamma_p, "The derivative of lgamma.")
polygamma_p = elementwise("polygamma", "f")
polygamma_p.jvp = jvp_by_args(polygamma_p, None, lambda t, out, m, x: mul(t, polygamma(add(m, like(m, 1)), x)))
polygamma = nary(polygamma_p, "The derivative of digamma of order m = 0, 1, ...; NaN for other m.", ("m", "x"))
# Bernoulli numbers over factorials: B(2j) / (2j)! for j = 1, 2, ...
_TAIL = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600, -3617 / 10670622842880000)


def _zeta_slope(x, q):
    """d zeta / dx: the sum of Euler and Maclaurin (https://arxiv.org/abs/1309.2877, formula 5), its terms differentiated."""
    n = 16 if get_aval(q).dtype.itemsize == 8 else 8
    b = add(q, like(q, n))
    log_b, before, inverse = log(b), sub(x, like(x, 1)), recip(square(b))
    slope = mul(div(b, before), add(log_b, recip(before)))  # of the integral from b on, and below of the tail: over b ** -x
    term, change = div(x, b), recip(b)
    total, changes = like(b, 0.5), like(b, 0)
    for j, c in enumerate(_TAIL):
        total, changes = add(total, mul(like(b, c), term)), add(changes, mul(like(b, c), change))
        low, high = add(x, like(x, 2 * j + 1)), add(x, like(x, 2 * j + 2))
        step = mul(mul(low, high), inverse)
        term, change = mul(term, step), add(mul(change, step), mul(term, mul(add(low, high), inverse)))
    slope = mul(exp(neg(mul(x, log_b))), sub(sub(changes, mul(log_b, total)), slope))
    for k in range(n):
        log_k = log(add(q, like(q, k)))
        slope = sub(slope, mul(log_k, exp(neg(mul(x, log_k)))))
    return slope


zeta_p = elementwise("zeta", "f")
zeta_p.jvp = jvp_by_args(
    zeta_p,
    lambda t, out, x, q: mul(t, _zeta_slope(x, q)),
    lambda t, out, x, q: mul(t, mul(neg(x), zeta(add(x, like(x, 1)), q))),
)
zeta = nary(zeta_p, "The Hurwitz zeta function, the sum of (q + k) ** -x over k = 0, 1, ..., for x > 1.", ("x", "q"))

gamma_p = elementwise("gamma", "f")
gamma_p.jvp = jvp_by_args(gamma_p, lambda t, out, x: mul(t, mul(out, digamma(x))))
gamma = unary(gamma_p, "The gamma function: an infinity of the zero's sign at 0, NaN at the negative integers.")


def _betaln_slope(a, b):
    """d betaln / da."""
    return sub(digamma(a), digamma(add(a, b)))


betaln_p = elementwise("betaln", "f")
betaln_p.jvp = jvp_by_args(betaln_p, lambda t, out, a, b: mul(t, _betaln_slope(a, b)), lambda t, out, a, b: mul(t, _betaln_slope(b, a)))
betaln = nary(betaln_p, "log |gamma(a) gamma(b) / gamma(a + b)|.", ("a", "b"))
beta_p = elementwise("beta", "f")
beta_p.jvp = jvp_by_args(
    beta_p, lambda t, out, a, b: mul(t, mul(out, _betaln_slope(a, b))), lambda t, out, a, b: mul(t, mul(out, _betaln_slope(b, a)))
)
beta = nary(beta_p, "gamma(a) gamma(b) / gamma(a + b).", ("a", "b"))

# --- the normal distribution ------------------------------------------------------------------------------------------

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
ndtr_p = elementwise("ndtr", "f")
ndtr_p.jvp = jvp_by_args(ndtr_p, lambda t, out, x: mul(t, exp(sub(mul(square(x), like(x, -0.5)), like(x, _HALF_LOG_2PI)))))
ndtr = unary(ndtr_p, "The standard normal distribution function, with all digits in its lower tail.")


def _log_ndtr_slope(t, out, x):
    """density / ndtr: far down by the series of ndtr, where the exponents would cancel."""
    low = like(x, -20.0 if get_aval(x).dtype.itemsize == 8 else -10.0)
    far = gt(low, x)
    tail = select(far, x, low)
    z, series = square(recip(tail)), like(x, 1.0)
    for k in range(19, 0, -2):  # 1 - z + 3 z^2 - 15 z^3 + ...
        series = sub(like(x, 1.0), mul(mul(like(x, float(k)), z), series))
    near = select(far, like(x, 0.0), x)
    exponent = sub(mul(square(near), like(x, -0.5)), add(select(far, like(x, 0.0), out), like(x, _HALF_LOG_2PI)))
    return mul(t, select(far, neg(div(tail, series)), exp(exponent)))


log_ndtr_p = elementwise("log_ndtr", "f")
log_ndtr_p.jvp = jvp_by_args(log_ndtr_p, _log_ndtr_slope)
log_ndtr = unary(log_ndtr_p, "log(ndtr(x)), finite far into the lower tail.")
ndtri_p = elementwise("ndtri", "f")
ndtri_p.jvp = jvp_by_args(ndtri_p, lambda t, out, p: mul(t, exp(add(mul(square(out), like(p, 0.5)), like(p, _HALF_LOG_2PI)))))
ndtri = unary(ndtri_p, "The standard normal quantile, the inverse of ndtr.")

# --- incomplete integrals ---------------------------------------------------------------------------------------------


def _gamma_density(a, x):
    """d igamma / dx."""
    return exp(sub(sub(mul(sub(a, like(a, 1)), log(x)), x), lgamma(a)))


igamma_p = elementwise("igamma", "f")
igamma_p.jvp = jvp_by_args(igamma_p, lambda t, out, a, x: mul(t, igamma_grad_a(a, x)), lambda t, out, a, x: mul(t, _gamma_density(a, x)))
igamma = nary(igamma_p, "The regularised lower incomplete gamma function P(a, x).", ("a", "x"))
igammac_p = elementwise("igammac", "f")
igammac_p.jvp = jvp_by_args(
    igammac_p, lambda t, out, a, x: neg(mul(t, igamma_grad_a(a, x))), lambda t, out, a, x: neg(mul(t, _gamma_density(a, x)))
)
igammac = nary(igammac_p, "The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x), exact where P is near 1.", ("a", "x"))
igamma_grad_a_p = elementwise("igamma_grad_a", "f")
igamma_grad_a_p.jvp = jvp_by_args(igamma_grad_a_p, None, lambda t, out, a, x: mul(t, mul(_gamma_density(a, x), sub(log(x), digamma(a)))))
igamma_grad_a = nary(igamma_grad_a_p, "The derivative of igamma(a, x) in a. It has no derivative in a itself.", ("a", "x"))


def _random_gamma_slope(t, out, a, x):
    """d/dx of - (dP/da) / p, where p = dP/dx, dp/da = p (log x - digamma a) and dp/dx = p ((a - 1) / x - 1)."""
    one = like(x, 1)
    return neg(mul(t, add(sub(log(x), digamma(a)), mul(out, sub(div(sub(a, one), x), one)))))


random_gamma_grad_p = elementwise("random_gamma_grad", "f")
random_gamma_grad_p.jvp = jvp_by_args(random_gamma_grad_p, None, _random_gamma_slope)
random_gamma_grad = nary(
    random_gamma_grad_p, "The derivative in a of a gamma sample x, igamma(a, x) held fixed. It has no derivative in a itself."
)


def _beta_density(a, b, x):
    """d betainc / dx."""
    one = like(x, 1)
    return exp(sub(add(mul(sub(b, one), log1p(neg(x))), mul(sub(a, one), log(x))), betaln(a, b)))


betainc_p = elementwise("betainc", "f")
betainc_p.jvp = jvp_by_args(betainc_p, None, None, lambda t, out, a, b, x: mul(t, _beta_density(a, b, x)))
betainc = nary(betainc_p, "The regularised incomplete beta function I_x(a, b). No derivative in a and b.", ("a", "b", "x"))

# --- logarithms of ratios ---------------------------------------------------------------------------------------------

logit_p = elementwise("logit", "f")
logit_p.jvp = jvp_by_args(logit_p, lambda t, out, x: div(t, mul(x, sub(like(x, 1), x))))
logit = unary(logit_p, "log(x / (1 - x)).")


def _both_positive(p, q):
    """(where both are positive, p and q there and 1 elsewhere)."""
    both = bitwise_and(gt(p, like(p, 0)), gt(q, like(q, 0)))
    return both, select(both, p, like(p, 1)), select(both, q, like(q, 1))


def _rel_entr_slope_p(t, out, p, q):
    both, p, q = _both_positive(p, q)
    return mul(t, select(both, add(sub(log(p), log(q)), like(p, 1)), like(p, 0)))


def _rel_entr_slope_q(t, out, p, q):
    both, p, q = _both_positive(p, q)
    return mul(t, select(both, neg(div(p, q)), like(p, 0)))


rel_entr_p = elementwise("rel_entr", "f")
rel_entr_p.jvp = jvp_by_args(rel_entr_p, _rel_entr_slope_p, _rel_entr_slope_q)
rel_entr = nary(rel_entr_p, "p log(p / q): 0 where p = 0 <= q, inf where it is undefined.", ("p", "q"))

# --- modified Bessel functions ----------------------------------------------------------------------------------------

bessel_i0e_p = elementwise("bessel_i0e", "f")
bessel_i0e_p.jvp = jvp_by_args(bessel_i0e_p, lambda t, out, x: mul(t, sub(bessel_i1e(x), mul(sign(x), out))))
bessel_i0e = unary(bessel_i0e_p, "exp(-|x|) I_0(x).")


def _i1e_over_x(out, x):
    """exp(-|x|) I_1(x) / x, with right derivatives near 0: the series of I_1(x) / x in y = x^2 / 4 there."""
    near = gt(like(x, 0.25), abs(x))
    small, safe = select(near, x, like(x, 0)), select(near, like(x, 1), x)
    y = mul(square(small), like(x, 0.25))
    series = like(x, 0)
    for k in range(7, -1, -1):
        series = add(mul(series, y), like(x, 0.5 / (math.factorial(k) * math.factorial(k + 1))))
    return select(near, mul(exp(neg(mul(small, sign(small)))), series), div(out, safe))


def _i1e_slope(t, out, x):
    return mul(t, sub(sub(bessel_i0e(x), mul(sign(x), out)), _i1e_over_x(out, x)))


bessel_i1e_p = elementwise("bessel_i1e", "f")
bessel_i1e_p.jvp = jvp_by_args(bessel_i1e_p, _i1e_slope)
bessel_i1e = unary(bessel_i1e_p, "exp(-|x|) I_1(x).")
