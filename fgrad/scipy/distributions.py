"""More distributions of jax.scipy.stats, and its descriptive statistics; see stats.py for the common ones."""

import inspect
import math
from typing import Any, NamedTuple

import numpy as np

import fgrad.numpy as jnp
from fgrad.api import vmap
from fgrad.compile.eager import eager
from fgrad.numpy.util import broadcasted
from fgrad.ops import special as ops
from fgrad.scipy.special import betaln, ndtr, xlog1py, xlogy

_LOG_2PI = math.log(2 * math.pi)


def floats(name, *args):
    """Arguments promoted to one float dtype and broadcast."""
    return broadcasted(name, jnp.promote_dtypes_inexact(*args))


def exp_of(log, name="density"):
    """The static function exp(log(...)), documented by its name."""

    def value(*args, **kw):
        return jnp.exp(log(*args, **kw))

    value.__name__, value.__doc__ = log.__name__.removeprefix("log"), f"The {name}."
    value.__signature__ = inspect.signature(log)  # type: ignore[attr-defined]
    return staticmethod(value)


def log_of(fun, name):
    """The static function log(fun(...)), documented by its name."""

    def value(*args, **kw):
        return jnp.log(fun(*args, **kw))

    value.__doc__ = f"log {name}."
    value.__signature__ = inspect.signature(fun)  # type: ignore[attr-defined]
    return staticmethod(value)


def _log_choose(n, k):
    """log of the binomial coefficient; 0 of 0 and n of n are 0 exactly."""
    return -jnp.log1p(n) - betaln(n - k + 1, k + 1)


class binom:
    """The number of successes of probability p among n trials."""

    @staticmethod
    def logpmf(k, n, p, loc=0):
        """The logarithm of the probability."""
        k, n, p, loc = floats("binom", k, n, p, loc)
        outside = (k < loc) | (k - loc > n)
        x = jnp.where(outside, 0, k - loc)
        return jnp.where(outside, -np.inf, _log_choose(n, x) + xlogy(x, p) + xlog1py(n - x, -p))

    pmf = exp_of(logpmf, "probability")


class betabinom:
    """A binomial number among n trials whose probability is beta distributed with a and b."""

    @staticmethod
    def logpmf(k, n, a, b, loc=0):
        """The logarithm of the probability; NaN for n < 0, a <= 0 or b <= 0."""
        k, n, a, b, loc = floats("betabinom", k, n, a, b, loc)
        y = jnp.floor(k) - loc
        outside, valid = (y < 0) | (y > n), (n >= 0) & (a > 0) & (b > 0)
        x, n = jnp.where(outside | ~valid, 0, y), jnp.where(valid, n, 0)
        a, b = jnp.where(valid, a, 1), jnp.where(valid, b, 1)
        value = _log_choose(n, x) + betaln(x + a, n - x + b) - betaln(a, b)
        return jnp.where(valid, jnp.where(outside, -np.inf, value), np.nan)

    pmf = exp_of(logpmf, "probability")


class nbinom:
    """The number of failures before n successes of probability p."""

    @staticmethod
    def logpmf(k, n, p, loc=0):
        """The logarithm of the probability."""
        k, n, p, loc = floats("nbinom", k, n, p, loc)
        outside = (k < loc) | (k == np.inf)
        x = jnp.where(outside, 0, k - loc)
        ways = ops.lgamma(x + n) - ops.lgamma(n) - ops.lgamma(x + 1)
        return jnp.where(outside, -np.inf, ways + xlogy(n, p) + xlog1py(x, -p))

    pmf = exp_of(logpmf, "probability")


class geom:
    """The number of trials up to the first success of probability p."""

    @staticmethod
    def logpmf(k, p, loc=0):
        """The logarithm of the probability."""
        k, p, loc = floats("geom", k, p, loc)
        outside = k <= loc
        return jnp.where(outside, -np.inf, xlog1py(jnp.where(outside, 1, k - loc) - 1, -p) + jnp.log(p))

    pmf = exp_of(logpmf, "probability")


class dirichlet:
    """Vectors of positive numbers that add up to 1, with concentrations alpha (n,)."""

    @staticmethod
    def logpdf(x, alpha):
        """The logarithm of the density. x: (n, ...) or (n - 1, ...), the last number then being what is left of 1; -inf outside."""
        x, alpha = jnp.promote_dtypes_inexact(x, alpha)
        if alpha.ndim != 1:
            raise ValueError(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}")
        if not x.ndim or x.shape[0] not in (alpha.size, alpha.size - 1):
            raise ValueError(f"`x` must have either the same number of entries as `alpha` or one fewer; got {x.shape} and {alpha.shape}")
        if x.shape[0] != alpha.size:
            x = jnp.concatenate([x, 1 - jnp.sum(x, 0, keepdims=True)])
        norm = jnp.sum(ops.lgamma(alpha)) - ops.lgamma(jnp.sum(alpha))
        powers = jnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
        tolerance = 10 * float(jnp.finfo(x.dtype).eps)
        inside = jnp.all(x >= 0, 0) & (abs(jnp.sum(x, 0) - 1) < tolerance)
        return jnp.where(inside, jnp.sum(xlogy(powers, x), 0) - norm, -np.inf)

    pdf = exp_of(logpdf)


class gennorm:
    """The generalised normal distribution, of density proportional to exp(-|x| ** beta)."""

    @staticmethod
    def logpdf(x, beta):
        """The logarithm of the density."""
        x, beta = floats("gennorm", x, beta)
        return jnp.log(0.5 * beta) - ops.lgamma(1 / beta) - jnp.abs(x) ** beta

    pdf = exp_of(logpdf)

    @staticmethod
    def cdf(x, beta):
        """P(X <= x)."""
        x, beta = floats("gennorm", x, beta)
        return 0.5 * (1 + jnp.sign(x) * ops.igamma(1 / beta, jnp.abs(x) ** beta))


def _standard(name, x, loc, scale):
    """((x - loc) / scale, NaN where scale is not positive; scale)."""
    x, loc, scale = floats(name, x, loc, scale)
    return jnp.where(scale > 0, (x - loc) / scale, np.nan), scale


class gumbel_r:
    """The distribution of maxima: P(X <= x) = exp(-exp(-z)), z = (x - loc) / scale. NaN where scale is not positive."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        z, scale = _standard("gumbel_r", x, loc, scale)
        return -(z + jnp.exp(-z)) - jnp.log(scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def logcdf(x, loc=0, scale=1):
        """log P(X <= x)."""
        return -jnp.exp(-_standard("gumbel_r", x, loc, scale)[0])

    cdf = exp_of(logcdf, "probability P(X <= x)")

    @staticmethod
    def logsf(x, loc=0, scale=1):
        """log P(X > x)."""
        return jnp.log(-jnp.expm1(-jnp.exp(-_standard("gumbel_r", x, loc, scale)[0])))

    sf = exp_of(logsf, "probability P(X > x)")

    @staticmethod
    def ppf(p, loc=0, scale=1):
        """The quantile: NaN outside (0, 1)."""
        p, loc, scale = floats("gumbel_r", p, loc, scale)
        return jnp.where((p > 0) & (p < 1), loc - scale * jnp.log(-jnp.log(p)), np.nan)


class gumbel_l:
    """The distribution of minima: -X has gumbel_r's. NaN where scale is not positive."""

    @staticmethod
    def logpdf(x, loc=0, scale=1):
        """The logarithm of the density."""
        x, loc, scale = floats("gumbel_r", x, loc, scale)
        return gumbel_r.logpdf(-x, -loc, scale)

    pdf = exp_of(logpdf)

    @staticmethod
    def logcdf(x, loc=0, scale=1):
        """log P(X <= x)."""
        x, loc, scale = floats("gumbel_r", x, loc, scale)
        return gumbel_r.logsf(-x, -loc, scale)

    cdf = exp_of(logcdf, "probability P(X <= x)")

    @staticmethod
    def logsf(x, loc=0, scale=1):
        """log P(X > x)."""
        x, loc, scale = floats("gumbel_r", x, loc, scale)
        return gumbel_r.logcdf(-x, -loc, scale)

    sf = exp_of(logsf, "probability P(X > x)")

    @staticmethod
    def ppf(p, loc=0, scale=1):
        """The quantile: NaN outside (0, 1)."""
        p, loc, scale = floats("gumbel_l", p, loc, scale)
        return jnp.where((p > 0) & (p < 1), loc + scale * jnp.log(-jnp.log1p(-p)), np.nan)


class pareto:
    """P(X > x) = ((x - loc) / scale) ** -b from loc + scale on."""

    @staticmethod
    def _above(x, b, loc, scale):
        """(whether x is below the support, (x - loc) / scale or 1, b, scale)."""
        x, b, loc, scale = floats("pareto", x, b, loc, scale)
        below = x < loc + scale
        return below, jnp.where(below, 1, (x - loc) / scale), b, scale

    @staticmethod
    def logpdf(x, b, loc=0, scale=1):
        """The logarithm of the density."""
        below, z, b, scale = pareto._above(x, b, loc, scale)
        return jnp.where(below, -np.inf, jnp.log(b) - jnp.log(scale) - (b + 1) * jnp.log(z))

    pdf = exp_of(logpdf)

    @staticmethod
    def logcdf(x, b, loc=0, scale=1):
        """log P(X <= x)."""
        below, z, b, _ = pareto._above(x, b, loc, scale)
        return jnp.where(below, -np.inf, jnp.log(-jnp.expm1(-b * jnp.log(jnp.where(below, 2, z)))))

    cdf = exp_of(logcdf, "probability P(X <= x)")

    @staticmethod
    def logsf(x, b, loc=0, scale=1):
        """log P(X > x)."""
        _, z, b, _ = pareto._above(x, b, loc, scale)
        return -b * jnp.log(z)

    sf = exp_of(logsf, "probability P(X > x)")

    @staticmethod
    def ppf(q, b, loc=0, scale=1):
        """The quantile: NaN outside [0, 1]."""
        q, b, loc, scale = floats("pareto", q, b, loc, scale)
        return jnp.where((q >= 0) & (q <= 1), loc + scale * (1 - q) ** (-1 / b), np.nan)


class vonmises:
    """The normal distribution's relative on a circle, of concentration kappa around 0."""

    @staticmethod
    def logpdf(x, kappa):
        """The logarithm of the density; NaN where kappa is not positive."""
        x, kappa = floats("vonmises", x, kappa)
        return jnp.where(kappa > 0, kappa * (jnp.cos(x) - 1) - _LOG_2PI - jnp.log(ops.bessel_i0e(kappa)), np.nan)

    pdf = exp_of(logpdf)


class wrapcauchy:
    """The Cauchy distribution wrapped around a circle, on [0, 2 pi], with 0 < c < 1."""

    @staticmethod
    def logpdf(x, c):
        """The logarithm of the density: -inf outside of [0, 2 pi], NaN where c is not in (0, 1)."""
        x, c = floats("wrapcauchy", x, c)
        valid, outside = (c > 0) & (c < 1), (x < 0) | (x > 2 * np.pi)
        c = jnp.where(valid, c, 0.5)
        value = jnp.log1p(-c * c) - _LOG_2PI - jnp.log(1 + c * c - 2 * c * jnp.cos(x))
        return jnp.where(valid, jnp.where(outside, -np.inf, value), np.nan)

    pdf = exp_of(logpdf)


def _log_gauss_mass(a, b):
    """log of the normal distribution's mass between a < b, without cancellation in either tail."""
    right, across = a > 0, (a <= 0) & (b > 0)
    low, high = jnp.where(right, -b, a), jnp.where(right, -a, b)
    low, high = jnp.where(across, -2.0, low), jnp.where(across, -1.0, high)
    log_high = ops.log_ndtr(high)
    tail = log_high + jnp.log(-jnp.expm1(jnp.minimum(ops.log_ndtr(low) - log_high, -1e-300)))
    a, b = jnp.where(across, a, -1.0), jnp.where(across, b, 1.0)
    return jnp.where(across, jnp.log1p(-ndtr(a) - ndtr(-b)), tail)


class truncnorm:
    """The normal distribution between loc + a scale and loc + b scale. NaN where a >= b."""

    @staticmethod
    def _parts(x, a, b, loc, scale):
        """(z = (x - loc) / scale; z or a point inside; a; b; scale; where a < b)."""
        x, a, b, loc, scale = floats("truncnorm", x, a, b, loc, scale)
        valid, z = a < b, (x - loc) / scale
        a, b = jnp.where(valid, a, -1.0), jnp.where(valid, b, 1.0)
        # Not the clip alone: at the bounds it halves the slope.
        return z, jnp.where((z >= a) & (z <= b), z, jnp.clip(z, a, b)), a, b, scale, valid

    @staticmethod
    @eager(5)
    def logpdf(x, a, b, loc=0, scale=1):
        """The logarithm of the density."""
        z, at, a, b, scale, valid = truncnorm._parts(x, a, b, loc, scale)
        value = -0.5 * (at * at + _LOG_2PI) - jnp.log(scale) - _log_gauss_mass(a, b)
        return jnp.where(valid, jnp.where((z < a) | (z > b), -np.inf, value), np.nan)

    pdf = exp_of(logpdf)

    @staticmethod
    @eager(5)
    def logcdf(x, a, b, loc=0, scale=1):
        """log P(X <= x): by P(X > x) where that is small."""
        z, at, a, b, _, valid = truncnorm._parts(x, a, b, loc, scale)
        middle = jnp.where(jnp.isfinite(a), a + 0.5 * jnp.minimum(b - a, 1), jnp.where(jnp.isfinite(b), b - 0.5, 0))
        at = jnp.where((z <= a) | (z >= b), middle, at)
        total = _log_gauss_mass(a, b)
        below, above = _log_gauss_mass(a, at) - total, _log_gauss_mass(at, b) - total
        near = below > -0.1
        value = jnp.where(near, jnp.log1p(-jnp.exp(jnp.where(near, above, -1.0))), below)
        return jnp.where(valid, jnp.where(z >= b, 0, jnp.where(z <= a, -np.inf, value)), np.nan)

    cdf = exp_of(logcdf, "probability P(X <= x)")

    @staticmethod
    def logsf(x, a, b, loc=0, scale=1):
        """log P(X > x)."""
        x, a, b, loc, scale = floats("truncnorm", x, a, b, loc, scale)
        return truncnorm.logcdf(-x, -b, -a, -loc, scale)

    sf = exp_of(logsf, "probability P(X > x)")


# --- descriptive statistics -----------------------------------------------------------------------------------------------


class ModeResult(NamedTuple):
    """The most common values and how often they stand there."""

    mode: Any
    count: Any  # type: ignore[assignment]


def _policy(name, nan_policy):
    if nan_policy not in ("propagate", "omit", "raise"):
        raise ValueError(f"Illegal nan_policy value {nan_policy!r}; expected one of 'propagate', 'omit', 'raise'")
    if nan_policy != "propagate":
        raise NotImplementedError(f"{name}: nan_policy {nan_policy!r} is not supported, only 'propagate'")


def mode(a, axis=0, nan_policy="propagate", keepdims=False):
    """ModeResult(mode, count): the most common value along an axis (None: of all), the smallest of several.

    >>> import fgrad.scipy.stats, fgrad.numpy as jnp
    >>> fgrad.scipy.stats.mode(jnp.array([3, 1, 3, 2])).mode
    Array(3, dtype=int32)
    """
    _policy("mode", nan_policy)
    return ModeResult(*_mode(a, axis, keepdims))


@eager(1)
def _mode(a, axis, keepdims):
    a = jnp.atleast_1d(jnp.asarray(a))
    shape = a.shape
    if axis is None:
        a, kept = a.ravel(), (1,) * len(shape)
    else:
        axis %= a.ndim
        kept = tuple(1 if i == axis else n for i, n in enumerate(shape))
        a = jnp.moveaxis(a, axis, -1)
    kept = kept if keepdims else () if axis is None else tuple(n for i, n in enumerate(shape) if i != axis)
    if not a.shape[-1]:
        return jnp.full(kept, np.nan), jnp.zeros(kept)

    def of_row(row):
        row = jnp.sort(row)
        counts = jnp.searchsorted(row, row, side="right") - jnp.searchsorted(row, row, side="left")
        first = jnp.argmax(counts)
        return row[first], counts[first].astype(int)

    values, counts = vmap(of_row)(a.reshape(math.prod(a.shape[:-1]), a.shape[-1]))
    return values.reshape(kept), counts.reshape(kept)


@eager(1)
def rankdata(a, method="average", *, axis=None, nan_policy="propagate"):
    """The ranks of values from 1 on, along an axis or of all (flattened). method: for equal values the "average", "min" or "max" of
    their ranks; "dense", which counts distinct values; or "ordinal", by position. NaN everywhere where there is one.

    >>> import fgrad.scipy.stats, fgrad.numpy as jnp
    >>> fgrad.scipy.stats.rankdata(jnp.array([10, 20, 10]))
    Array([1.5, 3. , 1.5], dtype=float32)
    """
    _policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"unknown method {method!r}")
    a = jnp.asarray(a)
    if axis is None:
        a, axis = a.ravel(), 0
    out = jnp.promote_types(a.dtype, jnp.float32) if a.dtype == jnp.float64 else jnp.zeros(()).dtype

    def of_row(row):
        order = jnp.argsort(row, stable=True)
        values = row[order]
        if method == "ordinal":
            ranks = jnp.zeros(row.shape, jnp.int32).at[order].set(jnp.arange(1, row.size + 1, dtype=jnp.int32))
        elif method == "dense":
            starts = jnp.concatenate([jnp.ones(1, bool), values[1:] != values[:-1]])
            ranks = jnp.cumsum(starts)[jnp.searchsorted(values, row, side="left")]
        else:
            low, high = jnp.searchsorted(values, row, side="left") + 1, jnp.searchsorted(values, row, side="right")
            ranks = low if method == "min" else high if method == "max" else 0.5 * (low + high)
        return jnp.where(jnp.any(row != row), np.nan, ranks.astype(out))

    rows = jnp.moveaxis(a, axis, -1)
    if not rows.size:
        return jnp.zeros(a.shape, out)
    ranks = vmap(of_row)(rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])).reshape(rows.shape)
    return jnp.moveaxis(ranks, -1, axis)


def sem(a, axis=0, ddof=1, nan_policy="propagate", *, keepdims=False):
    """The standard error of the mean: the standard deviation with ddof, over the root of the number of values."""
    (a,) = jnp.promote_dtypes_inexact(a)
    if nan_policy == "propagate":
        size = a.size if axis is None else a.shape[axis]
        return jnp.std(a, axis, ddof=ddof, keepdims=keepdims) / math.sqrt(size)
    if nan_policy == "omit":
        count = jnp.sum(~jnp.isnan(a), axis, keepdims=keepdims)
        return jnp.nanstd(a, axis, ddof=ddof, keepdims=keepdims) / jnp.sqrt(count.astype(a.dtype))
    raise ValueError(f"{nan_policy} is not supported")


__all__ = [
    "betabinom",
    "binom",
    "dirichlet",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "mode",
    "nbinom",
    "pareto",
    "rankdata",
    "sem",
    "truncnorm",
    "vonmises",
    "wrapcauchy",
]
