"""Special functions of jax.scipy.special: promoted and broadcast as NumPy's ufuncs are."""

import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.nn.functions import log_softmax, logsumexp, softmax
from fgrad.numpy.util import broadcasted
from fgrad.ops import special as ops


def _ufunc(prim, name, doc):
    """A function of floats from an elementwise primitive: operands are promoted to one float dtype and broadcast."""

    def fun(*args):
        return prim.bind(*_floats(name, *args))

    fun.__name__ = fun.__qualname__ = name
    fun.__doc__ = doc
    return fun


def _floats(name, *args):
    args = broadcasted(name, jnp.promote_dtypes_inexact(*args))
    if args[0].dtype.kind == "c":
        raise TypeError(f"{name} does not accept complex arguments, got {args[0].dtype.name}")
    return args


gammaln = _ufunc(ops.lgamma_p, "gammaln", "log |gamma(x)|.")
digamma = _ufunc(ops.digamma_p, "digamma", "The derivative of gammaln.")
psi = digamma
polygamma = _ufunc(ops.polygamma_p, "polygamma", "The derivative of digamma of order n = 0, 1, ...")
gammainc = _ufunc(ops.igamma_p, "gammainc", "The regularised lower incomplete gamma function P(a, x).")
gammaincc = _ufunc(ops.igammac_p, "gammaincc", "The regularised upper incomplete gamma function Q(a, x).")
betainc = _ufunc(ops.betainc_p, "betainc", "The regularised incomplete beta function I_x(a, b).")
i0e = _ufunc(ops.bessel_i0e_p, "i0e", "exp(-|x|) i0(x).")
i1e = _ufunc(ops.bessel_i1e_p, "i1e", "exp(-|x|) i1(x).")
erf = _ufunc(ops.erf_p, "erf", "The error function.")
erfc = _ufunc(ops.erfc_p, "erfc", "1 - erf(x), exact where erf(x) is near 1.")
erfinv = _ufunc(ops.erf_inv_p, "erfinv", "The inverse of erf on (-1, 1).")


def zeta(x, q=1.0):
    """The Hurwitz zeta function, the sum of (q + k) ** -x over k = 0, 1, ...; Riemann's by default."""
    return ops.zeta_p.bind(*_floats("zeta", x, q))


def i0(x):
    """The modified Bessel function of order 0."""
    (x,) = _floats("i0", x)
    return lax.exp(lax.abs(x)) * ops.bessel_i0e(x)


def i1(x):
    """The modified Bessel function of order 1."""
    (x,) = _floats("i1", x)
    return lax.exp(lax.abs(x)) * ops.bessel_i1e(x)


def gammasgn(x):
    """The sign of gamma(x): NaN at the negative integers, and that of the zero at 0."""
    (x,) = _floats("gammasgn", x)
    whole = lax.floor(x)
    sign = jnp.where(jnp.mod(whole, 2) == 0, 1.0, -1.0).astype(x.dtype)
    sign = jnp.where((x < 0) & (whole == x), np.nan, jnp.where(x > 0, 1.0, sign))
    return jnp.where(x == 0, jnp.copysign(1.0, x), sign).astype(x.dtype)


def gamma(x):
    """The gamma function."""
    (x,) = _floats("gamma", x)
    return gammasgn(x) * lax.exp(ops.lgamma(x))


def factorial(n, exact=False):
    """gamma(n + 1), and 0 for n < 0."""
    if exact:
        raise NotImplementedError("factorial with exact=True is not supported: the result is a float")
    (n,) = _floats("factorial", n)
    return jnp.where(n < 0, 0, lax.exp(ops.lgamma(n + 1)))


def betaln(a, b):
    """log |beta(a, b)|, with the smaller argument apart so that a large one does not cancel."""
    a, b = _floats("betaln", a, b)
    a, b = lax.min(a, b), lax.max(a, b)
    return jnp.where(b > 1e4, ops.lgamma(a) - _lgamma_rise(a, b), ops.lgamma(a) + (ops.lgamma(b) - ops.lgamma(a + b)))


def _lgamma_rise(a, b):
    """lgamma(a + b) - lgamma(b) for 0 < a <= b, b large: Stirling's formula, term by term."""
    b = jnp.where(b > 1e4, b, 1e4)
    s = a + b
    correction = (1 / s - 1 / b) / 12 - (1 / s**3 - 1 / b**3) / 360
    return (b - 0.5) * lax.log1p(a / b) + a * lax.log(s) - a + correction


def beta(a, b):
    """gamma(a) gamma(b) / gamma(a + b)."""
    a, b = _floats("beta", a, b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(a + b)
    positive = (a > 0) & (b > 0)
    logs = jnp.where(
        positive, betaln(jnp.where(positive, a, 1), jnp.where(positive, b, 1)), ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)
    )
    return sign * lax.exp(logs)


def multigammaln(a, d):
    """The logarithm of the multivariate gamma function of dimension d."""
    (a,) = _floats("multigammaln", a)
    terms = [ops.lgamma(a - i / 2) for i in range(int(d))]
    return sum(terms[1:], terms[0]) + d * (d - 1) / 4 * math.log(math.pi)


def logit(x):
    """log(x / (1 - x)), the inverse of expit."""
    (x,) = _floats("logit", x)
    return lax.log(x) - lax.log1p(-x)


def expit(x):
    """1 / (1 + exp(-x))."""
    (x,) = jnp.promote_dtypes_inexact(x)
    return lax.logistic(x)


def xlogy(x, y):
    """x log(y), and 0 where x is 0 (its derivatives too are those of 0 there)."""
    x, y = broadcasted("xlogy", jnp.promote_dtypes_inexact(x, y))
    zero = x == 0
    return jnp.where(zero, 0, x * lax.log(jnp.where(zero & ~(y != y), 1, y)))


def xlog1py(x, y):
    """x log(1 + y), and 0 where x is 0."""
    x, y = broadcasted("xlog1py", jnp.promote_dtypes_inexact(x, y))
    zero = x == 0
    return jnp.where(zero, 0, x * lax.log1p(jnp.where(zero & ~(y != y), 0, y)))


def entr(x):
    """-x log(x), and -inf below 0."""
    (x,) = _floats("entr", x)
    return jnp.where(x < 0, -np.inf, -xlogy(x, x))


def rel_entr(p, q):
    """p log(p / q): 0 where p = 0 <= q, inf where it is undefined."""
    p, q = _floats("rel_entr", p, q)
    both, zero = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = jnp.where(both, p, 1), jnp.where(both, q, 1)
    return jnp.where(zero, 0, jnp.where(both, safe_p * (lax.log(safe_p) - lax.log(safe_q)), np.inf))


def kl_div(p, q):
    """p log(p / q) - p + q."""
    p, q = _floats("kl_div", p, q)
    return rel_entr(p, q) - p + q


def ndtr(x):
    """The standard normal distribution function."""
    (x,) = _floats("ndtr", x)
    return 0.5 * ops.erfc(x * lax.like(x, -math.sqrt(0.5)))


def log_ndtr(x):
    """log ndtr(x), finite far into the lower tail: an asymptotic series there (DLMF 7.12)."""
    (x,) = _floats("log_ndtr", x)
    low = -20.0 if x.dtype == np.float64 else -10.0
    tail, centre, top = jnp.where(x < low, x, low), jnp.where((x >= low) & (x <= 5), x, 0), jnp.where(x > 5, x, 5)
    z = 1 / (tail * tail)
    series = 1.0
    for k in range(19, 0, -2):  # 1 - z + 3 z^2 - 15 z^3 + ...
        series = 1 - k * z * series
    far = -0.5 * tail * tail - lax.log(-tail) - 0.5 * math.log(2 * math.pi) + lax.log(series)
    return jnp.where(x > 5, lax.log1p(-ndtr(-top)), jnp.where(x < low, far, lax.log(ndtr(centre))))


def ndtri(p):
    """The standard normal quantile, the inverse of ndtr: by erfinv in the middle, and two Newton steps on log_ndtr in the tails."""
    (p,) = _floats("ndtri", p)
    upper = p > 0.5
    small = jnp.where(upper, 1 - p, p)
    inside = (small > 0) & (small < 0.02)
    log_q = lax.log(jnp.where(inside, small, 0.01))
    x = -lax.sqrt(-2 * log_q - lax.log(-4 * math.pi * log_q + 1))
    for _ in range(5):
        value = log_ndtr(x)
        x = x - (value - log_q) * lax.exp(value + 0.5 * x * x + 0.5 * math.log(2 * math.pi))
    middle = lax.like(p, math.sqrt(2)) * ops.erf_inv(2 * jnp.where(inside, 0.5, p) - 1)
    return jnp.where(inside, jnp.where(upper, -x, x), middle)


__all__ = [
    "beta",
    "betainc",
    "betaln",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfinv",
    "expit",
    "factorial",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "rel_entr",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]
