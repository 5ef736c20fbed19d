"""Densities and distribution functions of jax.scipy.stats, one class of static functions per distribution, importable as a module."""

import math
import sys
import types

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.ops import special as ops
from fgrad.scipy import distributions
from fgrad.scipy.distributions import *  # noqa: F403
from fgrad.scipy.distributions import exp_of, floats, log_of
from fgrad.scipy.kde import gaussian_kde
from fgrad.scipy.special import betaln, log_ndtr, ndtr, ndtri, xlog1py, xlogy

_LOG_2PI = math.log(2 * math.pi)


class norm:
    """The normal distribution of mean loc and standard deviation scale."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("norm", x, loc, scale)
        return -0.5 * (jnp.square((x - loc) / scale) + _LOG_2PI) - jnp.log(scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("norm", x, loc, scale)
        return ndtr((x - loc) / scale)

    @staticmethod
    def logcdf(x, loc=0, scale=1):
        """log P(X <= x)."""
        x, loc, scale = floats("norm", x, loc, scale)
        return log_ndtr((x - loc) / scale)

    @staticmethod
    def sf(x, loc=0, scale=1):
        """P(X > x)."""
        x, loc, scale = floats("norm", x, loc, scale)
        return norm.cdf(-x, -loc, scale)

    @staticmethod
    def logsf(x, loc=0, scale=1):
        """log P(X > x)."""
        x, loc, scale = floats("norm", x, loc, scale)
        return norm.logcdf(-x, -loc, scale)

    @staticmethod
    def ppf(q, loc=0, scale=1):
        """The quantile: the inverse of cdf."""
        return ndtri(q) * scale + loc

    @staticmethod
    def isf(q, loc=0, scale=1):
        """The inverse of sf."""
        return ndtri(1 - jnp.asarray(q)) * scale + loc


class uniform:
    """The uniform distribution on [loc, loc + scale]."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("uniform", x, loc, scale)
        return jnp.where((x < loc) | (x > loc + scale), -np.inf, -jnp.log(scale))

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("uniform", x, loc, scale)
        return jnp.clip((x - loc) / scale, 0, 1)

    @staticmethod
    def ppf(q, loc=0, scale=1):
        """The quantile: NaN outside [0, 1]."""
        q, loc, scale = floats("uniform", q, loc, scale)
        return jnp.where((q < 0) | (q > 1) | (q != q), np.nan, loc + scale * q)


class expon:
    """The exponential distribution of mean scale, from loc on."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("expon", x, loc, scale)
        return jnp.where(x < loc, -np.inf, -(x - loc) / scale - jnp.log(scale))

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("expon", x, loc, scale)
        return -jnp.expm1(-jnp.maximum((x - loc) / scale, 0))

    @staticmethod
    def logsf(x, loc=0, scale=1):
        """log P(X > x)."""
        x, loc, scale = floats("expon", x, loc, scale)
        return -jnp.maximum((x - loc) / scale, 0)

    sf = exp_of(logsf, "probability P(X > x)")

    @staticmethod
    def logcdf(x, loc=0, scale=1):
        """log P(X <= x)."""
        x, loc, scale = floats("expon", x, loc, scale)
        z = (x - loc) / scale
        return jnp.where(z <= 0, -np.inf, jnp.log(-jnp.expm1(-jnp.where(z <= 0, 1, z))))

    @staticmethod
    def ppf(q, loc=0, scale=1):
        """The quantile: NaN outside [0, 1]."""
        q, loc, scale = floats("expon", q, loc, scale)
        return jnp.where((q >= 0) & (q <= 1), loc - scale * jnp.log1p(-q), np.nan)


class laplace:
    """The Laplace distribution, exp(-|x - loc| / scale) / (2 scale)."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("laplace", x, loc, scale)
        return -(jnp.abs(x - loc) / scale) - jnp.log(2 * scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("laplace", x, loc, scale)
        z = (x - loc) / scale
        tail = 0.5 * jnp.exp(-jnp.abs(z))
        return jnp.where(z <= 0, tail, 1 - tail)


class logistic:
    """The logistic distribution, whose cdf is expit((x - loc) / scale)."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("logistic", x, loc, scale)
        z = jnp.abs((x - loc) / scale)
        return -z - 2 * jnp.log1p(jnp.exp(-z)) - jnp.log(scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("logistic", x, loc, scale)
        return lax.logistic((x - loc) / scale)

    @staticmethod
    def sf(x, loc=0, scale=1):
        """P(X > x)."""
        x, loc, scale = floats("logistic", x, loc, scale)
        return lax.logistic(-((x - loc) / scale))

    @staticmethod
    def ppf(x, loc=0, scale=1):
        """The quantile."""
        (q,) = jnp.promote_dtypes_inexact(x)
        return (jnp.log(q) - jnp.log1p(-q)) * scale + loc

    @staticmethod
    def isf(x, loc=0, scale=1):
        """The inverse of sf."""
        (q,) = jnp.promote_dtypes_inexact(x)
        return (jnp.log1p(-q) - jnp.log(q)) * scale + loc


class cauchy:
    """The Cauchy distribution around loc."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("cauchy", x, loc, scale)
        return -math.log(math.pi) - jnp.log(scale) - jnp.log1p(jnp.square((x - loc) / scale))

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, loc=0, scale=1):
        """P(X <= x)."""
        x, loc, scale = floats("cauchy", x, loc, scale)
        return jnp.arctan2(jnp.ones_like(x), -(x - loc) / scale) / math.pi

    @staticmethod
    def sf(x, loc=0, scale=1):
        """P(X > x)."""
        x, loc, scale = floats("cauchy", x, loc, scale)
        return cauchy.cdf(-x, -loc, scale)

    @staticmethod
    def ppf(q, loc=0, scale=1):
        """The quantile."""
        (q,) = jnp.promote_dtypes_inexact(q)
        return loc + scale * jnp.tan(math.pi * (q - 0.5))

    logcdf = log_of(cdf, "P(X <= x)")
    logsf = log_of(sf, "P(X > x)")

    @staticmethod
    def isf(q, loc=0, scale=1):
        """The inverse of sf."""
        q, loc, scale = floats("cauchy", q, loc, scale)
        return loc + scale * jnp.tan(np.pi * (0.5 - q))


class t:
    """Student's t distribution of df degrees of freedom."""

    @staticmethod
    def logpdf(x, df, loc=0, scale=1):
        """The logarithm of the density."""
        x, df, loc, scale = floats("t", x, df, loc, scale)
        half = df / 2
        norm = ops.lgamma(half + 0.5) - ops.lgamma(half) - 0.5 * jnp.log(math.pi * df) - jnp.log(scale)
        return norm - (half + 0.5) * jnp.log1p(jnp.square((x - loc) / scale) / df)

    pdf = exp_of(logpdf)


class gamma:
    """The gamma distribution of shape parameter a."""

    @staticmethod
    def logpdf(x, a, loc=0, scale=1):
        """The logarithm of the density."""
        x, a, loc, scale = floats("gamma", x, a, loc, scale)
        z = (x - loc) / scale
        outside = (z < 0) | (z == np.inf)
        z = jnp.where(outside, 1, z)
        return jnp.where(outside, -np.inf, xlogy(a - 1, z) - z - ops.lgamma(a) - jnp.log(scale))

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, a, loc=0, scale=1):
        """P(X <= x)."""
        x, a, loc, scale = floats("gamma", x, a, loc, scale)
        return ops.igamma(a, jnp.maximum((x - loc) / scale, 0))

    @staticmethod
    def sf(x, a, loc=0, scale=1):
        """P(X > x)."""
        x, a, loc, scale = floats("gamma", x, a, loc, scale)
        z = (x - loc) / scale
        return jnp.where(z < 0, 1, ops.igammac(a, jnp.maximum(z, 0)))

    @staticmethod
    def logcdf(x, a, loc=0, scale=1):
        """log P(X <= x)."""
        return jnp.log(gamma.cdf(x, a, loc, scale))

    @staticmethod
    def logsf(x, a, loc=0, scale=1):
        """log P(X > x)."""
        return jnp.log(gamma.sf(x, a, loc, scale))


class chi2:
    """The chi-square distribution of df degrees of freedom."""

    @staticmethod
    def logpdf(x, df, loc=0, scale=1):
        """The logarithm of the density."""
        x, df, scale = jnp.promote_dtypes_inexact(x, df, scale)
        return gamma.logpdf(x, df / 2, loc, 2 * scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, df, loc=0, scale=1):
        """P(X <= x)."""
        x, df, scale = jnp.promote_dtypes_inexact(x, df, scale)
        return gamma.cdf(x, df / 2, loc, 2 * scale)

    @staticmethod
    def sf(x, df, loc=0, scale=1):
        """P(X > x)."""
        x, df, scale = jnp.promote_dtypes_inexact(x, df, scale)
        return gamma.sf(x, df / 2, loc, 2 * scale)

    logcdf = log_of(cdf, "P(X <= x)")
    logsf = log_of(sf, "P(X > x)")


class beta:
    """The beta distribution on [loc, loc + scale]."""

    @staticmethod
    def logpdf(x, a, b, loc=0, scale=1):
        """The logarithm of the density."""
        x, a, b, loc, scale = floats("beta", x, a, b, loc, scale)
        z = (x - loc) / scale
        outside = (z < 0) | (z > 1)
        z = jnp.where(outside, 0.5, z)
        return jnp.where(outside, -np.inf, xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b) - jnp.log(scale))

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, a, b, loc=0, scale=1):
        """P(X <= x)."""
        x, a, b, loc, scale = floats("beta", x, a, b, loc, scale)
        return ops.betainc(a, b, jnp.clip((x - loc) / scale, 0, 1))

    @staticmethod
    def sf(x, a, b, loc=0, scale=1):
        """P(X > x)."""
        x, a, b, loc, scale = floats("beta", x, a, b, loc, scale)
        return ops.betainc(b, a, 1 - jnp.clip((x - loc) / scale, 0, 1))

    logcdf = log_of(cdf, "P(X <= x)")
    logsf = log_of(sf, "P(X > x)")


class bernoulli:
    """1 with probability p, else 0."""

    @staticmethod
    def logpmf(k, p, loc=0):
        """The logarithm of the probability."""
        k, p, loc = floats("bernoulli", k, p, loc)
        x = k - loc
        outside = (x < 0) | (x > 1) | (x > 0) & (x < 1)
        return jnp.where(outside, -np.inf, jnp.where(x == 1, jnp.log(p), jnp.where(x == 0, jnp.log1p(-p), x)))

    pmf = exp_of(logpmf, "probability")

    @staticmethod
    def cdf(k, p):
        """P(X <= k)."""
        k, p = floats("bernoulli", k, p)
        return jnp.where(k < 0, 0, jnp.where(k < 1, 1 - p, 1)).astype(p.dtype)

    @staticmethod
    def ppf(q, p):
        """The quantile: NaN outside [0, 1]."""
        q, p = floats("bernoulli", q, p)
        valid = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
        return jnp.where(valid, jnp.where(q <= 1 - p, 0, 1), np.nan).astype(p.dtype)


class poisson:
    """The Poisson distribution of mean mu."""

    @staticmethod
    def logpmf(k, mu, loc=0):
        """The logarithm of the probability."""
        k, mu, loc = floats("poisson", k, mu, loc)
        x = k - loc
        outside = (x < 0) | (jnp.floor(x) < x) | (x == np.inf)
        x = jnp.where(outside, 0, x)
        return jnp.where(outside, -np.inf, xlogy(x, mu) - ops.lgamma(x + 1) - mu)

    pmf = exp_of(logpmf, "probability")

    @staticmethod
    def cdf(k, mu, loc=0):
        """P(X <= k)."""
        k, mu, loc = floats("poisson", k, mu, loc)
        x, mu = jnp.broadcast_arrays(jnp.floor(k - loc), mu)
        return jnp.where(x < 0, 0, ops.igammac(jnp.maximum(x, 0) + 1, mu))

    @staticmethod
    def entropy(mu, loc=0):
        """The entropy in nats: a sum of 200 terms below a mean of 100, four terms of its asymptotic series from there on."""
        mu, loc = floats("poisson", mu, loc)
        mu, _ = jnp.broadcast_arrays(mu, loc)
        small = jnp.where((mu > 0) & (mu < 100), mu, 1)
        k = jnp.arange(200, dtype=mu.dtype)
        logs = ops.lgamma(k + 1)
        terms = jnp.exp(k * jnp.log(small)[..., None] - small[..., None] - logs) * logs
        near = small * (1 - jnp.log(small)) + jnp.sum(terms, -1)
        r = 1 / jnp.where(mu < 100, 100, mu)
        far = 0.5 * (_LOG_2PI + 1 - jnp.log(r)) - r / 12 - r**2 / 24 - 19 * r**3 / 360
        return jnp.where(mu == 0, 0, jnp.where(mu > 0, jnp.where(mu < 100, near, far), np.nan))


class multinomial:
    """Counts of n draws from categories of probabilities p, along the last axis."""

    @staticmethod
    def logpmf(x, n, p):
        """The logarithm of the probability; -inf where the counts do not add up to n."""
        x, p = jnp.promote_dtypes_inexact(x, p)
        value = ops.lgamma(jnp.asarray(n, x.dtype) + 1) + jnp.sum(xlogy(x, p) - ops.lgamma(x + 1), -1)
        return jnp.where(jnp.equal(jnp.sum(x, -1), n), value, -np.inf)

    pmf = exp_of(logpmf, "probability")


class multivariate_normal:
    """Normal vectors of the given mean (..., n) and covariance (..., n, n); a scalar covariance is that of each element."""

    @staticmethod
    def logpdf(x, mean, cov, allow_singular=None):
        """The logarithm of the density, by Cholesky. Singular covariances are not supported (NotImplementedError)."""
        if allow_singular is not None:
            raise NotImplementedError("multivariate_normal.logpdf: allow_singular is not supported")
        x, mean, cov = jnp.promote_dtypes_inexact(x, mean, cov)
        if not mean.ndim or not cov.ndim:
            n = mean.shape[-1] if mean.ndim else 1
            squares = jnp.square(x - mean)
            squares = jnp.sum(squares, -1) if mean.ndim else squares
            return -0.5 * (squares / cov + n * (_LOG_2PI + jnp.log(cov)))
        n = mean.shape[-1]
        if cov.shape[-2:] != (n, n):
            raise ValueError(f"multivariate_normal: mean (..., n) and covariance (..., n, n) expected, got {mean.shape} and {cov.shape}")
        low, d = jnp.linalg.cholesky(cov), x - mean
        batch = jnp.broadcast_shapes(low.shape[:-2], d.shape[:-1])
        if low.ndim == 2:  # one factor: all vectors stand side by side
            y = lax.linalg.triangular_solve(low, d.reshape(-1, n), lower=True, transpose_a=True).reshape(d.shape)
        else:
            spread = [jnp.broadcast_to(low, (*batch, n, n)), jnp.broadcast_to(d, (*batch, n))]
            y = lax.linalg.triangular_solve(*spread, lower=True, transpose_a=True)
        log_det = jnp.sum(jnp.log(jnp.diagonal(low, axis1=-2, axis2=-1)), -1)
        return -0.5 * (jnp.sum(jnp.square(y), -1) + n * _LOG_2PI) - log_det

    pdf = exp_of(logpdf)


__all__ = [
    *distributions.__all__,
    "bernoulli",
    "beta",
    "cauchy",
    "chi2",
    "expon",
    "gamma",
    "gaussian_kde",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "norm",
    "poisson",
    "t",
    "uniform",
]


def _module(name, functions):
    """The distribution `name` as a module, as `import fgrad.scipy.stats.norm` expects it."""
    module = types.ModuleType(f"{__name__}.{name}", functions.__doc__)
    module.__dict__.update({key: getattr(functions, key) for key in vars(functions) if not key.startswith("__")})
    sys.modules[module.__name__] = module
    return module


_DISTRIBUTIONS = [name for name in __all__ if isinstance(globals()[name], type) and name != "gaussian_kde"]
globals().update({name: _module(name, globals()[name]) for name in _DISTRIBUTIONS})
