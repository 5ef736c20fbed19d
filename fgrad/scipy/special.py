"""Special functions of jax.scipy.special: promoted and broadcast as NumPy's ufuncs are."""

import inspect
import math
import operator

import numpy as np

import fgrad.numpy as jnp
from fgrad import dtypes, lax
from fgrad.api.custom import custom_jvp
from fgrad.compile.eager import eager
from fgrad.nn import functions
from fgrad.nn.functions import logsumexp
from fgrad.numpy.util import broadcasted
from fgrad.ops import special as ops
from fgrad.scipy.harmonics import bernoulli, bessel_jn, boxcox, boxcox1p, comb, complex_gamma, loggamma, sph_harm_y
from fgrad.scipy.hypergeometric import hyp1f1, hyp2f1, poch
from fgrad.scipy.integrals import dawsn, erfcx, exp1, expi, expn, fresnel, owens_t, sici, spence, wofz
from fgrad.scipy.legendre import lpmn, lpmn_values


def softmax(x, /, *, axis=None):
    """exp(x) / sum(exp(x)) over `axis`, which is all axes by default (over one by default: fgrad.nn.softmax).

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy import special
    >>> special.softmax(jnp.zeros((2, 2)))[0]
    Array([0.25, 0.25], dtype=float32)
    """
    return functions.softmax(x, axis=axis)


def log_softmax(x, /, *, axis=None):
    """x - log(sum(exp(x))) over `axis`, which is all axes by default."""
    return functions.log_softmax(x, axis=axis)


def _ufunc(prim, heading, doc, strong=False):
    """A function of floats from an elementwise primitive: operands are promoted to one float dtype and broadcast.

    heading: the function's name and arguments, "beta(a, b)". strong: Python scalars lose their weak type.
    """
    name, _, names = heading[:-1].partition("(")
    names = names.split(", ")
    signature = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])

    def fun(*args, **kwargs):
        if kwargs or len(args) != len(names):
            args = signature.bind(*args, **kwargs).args
        args = _floats(name, *args)
        return prim.bind(*[lax.convert_element_type(x, x.dtype) for x in args] if strong else args)

    fun.__name__ = fun.__qualname__ = name
    fun.__signature__ = signature
    fun.__doc__ = doc
    return eager(len(names))(fun)


def _floats(name, *args):
    args = broadcasted(name, jnp.promote_dtypes_inexact(*args))
    if args[0].dtype.kind == "c":
        raise TypeError(f"{name} does not accept complex arguments, got {args[0].dtype.name}")
    return args


gammaln = _ufunc(ops.lgamma_p, "gammaln(x)", "log |gamma(x)|.")
digamma = _ufunc(ops.digamma_p, "digamma(x)", "The derivative of gammaln.")
psi = digamma
polygamma = _ufunc(ops.polygamma_p, "polygamma(n, x)", "The derivative of digamma of order n = 0, 1, ...")
gammainc = _ufunc(ops.igamma_p, "gammainc(a, x)", "The regularised lower incomplete gamma function P(a, x).")
gammaincc = _ufunc(ops.igammac_p, "gammaincc(a, x)", "The regularised upper incomplete gamma function Q(a, x).")
betainc = _ufunc(ops.betainc_p, "betainc(a, b, x)", "The regularised incomplete beta function I_x(a, b).")
i0e = _ufunc(ops.bessel_i0e_p, "i0e(x)", "exp(-|x|) i0(x).")
i1e = _ufunc(ops.bessel_i1e_p, "i1e(x)", "exp(-|x|) i1(x).")
erf = _ufunc(ops.erf_p, "erf(x)", "The error function.")
erfc = _ufunc(ops.erfc_p, "erfc(x)", "1 - erf(x), exact where erf(x) is near 1.")
erfinv = _ufunc(ops.erf_inv_p, "erfinv(x)", "The inverse of erf on (-1, 1).")


_real_gamma = _ufunc(ops.gamma_p, "gamma(x)", "The gamma function.", strong=True)


@eager(1)
def logit(x):
    """log(x / (1 - x)), the inverse of expit."""
    (x,) = jnp.promote_dtypes_inexact(x)
    return jnp.log(x / (1 - x)) if x.dtype.kind == "c" else _real_logit(x)


@eager(1)
def gamma(x):
    """The gamma function of real and complex x; NaN at the negative integers."""
    (x,) = jnp.promote_dtypes_inexact(x)
    return complex_gamma(x) if x.dtype.kind == "c" else _real_gamma(x)


betaln = _ufunc(ops.betaln_p, "betaln(a, b)", "log |beta(a, b)|.")
beta = _ufunc(ops.beta_p, "beta(a, b)", "gamma(a) gamma(b) / gamma(a + b).", strong=True)
ndtr = _ufunc(ops.ndtr_p, "ndtr(x)", "The standard normal distribution function.", strong=True)
_log_ndtr = _ufunc(ops.log_ndtr_p, "log_ndtr(x)", "log ndtr(x).", strong=True)
ndtri = _ufunc(ops.ndtri_p, "ndtri(p)", "The standard normal quantile, the inverse of ndtr.", strong=True)
_real_logit = _ufunc(ops.logit_p, "logit(x)", "log(x / (1 - x)) of real numbers.")
rel_entr = _ufunc(ops.rel_entr_p, "rel_entr(p, q)", "p log(p / q): 0 where p = 0 <= q, inf where it is undefined.")


@eager(1)
def log_ndtr(x, series_order=3):
    """log ndtr(x), finite far into the lower tail. The value does not depend on series_order, an int from 0 on: it uses no series."""
    if operator.index(series_order) < 0:
        raise ValueError(f"log_ndtr: series_order must not be negative, got {series_order}")
    return _log_ndtr(x)


@eager(2)
def zeta(x, q=1.0):
    """The Hurwitz zeta function, the sum of (q + k) ** -x over k = 0, 1, ...; Riemann's by default."""
    return ops.zeta_p.bind(*_floats("zeta", x, q))


@eager(1)
def i0(x):
    """The modified Bessel function of order 0."""
    (x,) = _floats("i0", x)
    return lax.exp(x * lax.sign(x)) * ops.bessel_i0e(x)  # x sign(x): |x| whose derivative at 0 is 0


@eager(1)
def i1(x):
    """The modified Bessel function of order 1."""
    (x,) = _floats("i1", x)
    return lax.exp(x * lax.sign(x)) * ops.bessel_i1e(x)


@eager(1)
def gammasgn(x):
    """The sign of gamma(x): NaN at the negative integers and at NaN, and that of the zero at 0."""
    (x,) = _floats("gammasgn", x)
    whole = lax.floor(x)
    sign = jnp.where(jnp.mod(whole, 2) == 0, 1.0, -1.0).astype(x.dtype)
    sign = jnp.where((x < 0) & (whole == x) | (x != x), np.nan, jnp.where(x > 0, 1.0, sign))
    return jnp.where(x == 0, jnp.copysign(1.0, x), sign).astype(x.dtype)


@eager(1)
def factorial(n, exact=False):
    """gamma(n + 1), and 0 for n < 0."""
    if exact:
        raise NotImplementedError("factorial with exact=True is not supported: the result is a float")
    (n,) = _floats("factorial", n)
    return jnp.where(n < 0, 0, ops.gamma(jnp.where(n < 0, 0, n) + 1))


@eager(1)
def multigammaln(a, d):
    """The logarithm of the multivariate gamma function of dimension d."""
    (a,) = _floats("multigammaln", a)
    d = int(d)
    if d < 1:
        raise ValueError(f"multigammaln: the dimension d must be positive, got {d}")
    terms = [ops.lgamma(a - i / 2) for i in range(d)]
    return sum(terms[1:], terms[0]) + jnp.asarray(d * (d - 1) / 4 * math.log(math.pi), a.dtype)  # never weakly typed, as JAX's


@eager(1)
def expit(x):
    """1 / (1 + exp(-x))."""
    (x,) = jnp.promote_dtypes_inexact(x)
    return lax.logistic(x)


@eager(2)
def xlogy(x, y):
    """x log(y), and 0 where x is 0 and y not NaN (where log(y) is not finite then, its derivatives too are those of 0)."""
    x, y = broadcasted("xlogy", jnp.promote_dtypes_inexact(x, y))
    zero = _zero_times_infinity(x, y, 0)
    return jnp.where(zero, 0, x * lax.log(jnp.where(zero, 1, y)))


def _zero_times_infinity(x, y, least):
    """Where x is 0 and a logarithm not finite that is of y above `least`; of complex y, wherever x is 0."""
    return (x == 0) & ((y == y) if dtypes.is_complex(y.dtype) else (y <= least) | (y == np.inf))


@custom_jvp
def _xlogx(x):
    """x log(x), and 0 where x is 0; its derivative there is -inf."""
    zero = x == 0
    return jnp.where(zero, 0, x * lax.log(jnp.where(zero, 1, x)))


_xlogx.defjvps(lambda t, out, x: t * (lax.log(x) + 1))


@eager(2)
def xlog1py(x, y):
    """x log(1 + y), and 0 where x is 0 and y not NaN (where log(1 + y) is not finite then, its derivatives too are those of 0)."""
    x, y = broadcasted("xlog1py", jnp.promote_dtypes_inexact(x, y))
    zero = _zero_times_infinity(x, y, -1)
    return jnp.where(zero, 0, x * lax.log1p(jnp.where(zero, 0, y)))


@eager(1)
def entr(x):
    """-x log(x), and -inf below 0."""
    (x,) = _floats("entr", x)
    return jnp.where(x < 0, -np.inf, -_xlogx(x))


@eager(2)
def kl_div(p, q):
    """p log(p / q) - p + q."""
    p, q = _floats("kl_div", p, q)
    return rel_entr(p, q) - p + q


__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "lpmn",
    "lpmn_values",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "psi",
    "rel_entr",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "zeta",
]
