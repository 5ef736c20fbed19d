"""Error functions scaled and complex, exponential, trigonometric and Fresnel integrals, the dilogarithm, Owen's T function.

Smooth factors are Chebyshev series of fgrad.scipy.chebyshev_tables; what stands beside them is from the NIST Digital Library of
Mathematical Functions (DLMF), by equation. Each function has its derivative in closed form, in forward and reverse mode.
"""

import functools
import math

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import custom_jvp, jit
from fgrad.scipy import chebyshev_tables as tables
from fgrad.scipy.chebyshev import chebyshev, operands, single, square_parts

_EULER = 0.5772156649015329
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)


# --- error functions ------------------------------------------------------------------------------------------------------


@custom_jvp
@single
def _erfcx(x):
    """Above 0 (1 + 2 x) erfcx(x) as a series in (x - K) / (x + K) (Shepherd and Laframboise 1981); below, 2 exp(x^2) - erfcx(-x)."""
    size = jnp.minimum(abs(x), np.finfo(x.dtype).max / 8)
    above = chebyshev(tables.ERFCX, (size - 3.75) / (size + 3.75)) / (1 + 2 * size)
    high, low = square_parts(jnp.where(x < 0, x, 0))
    return jnp.where(x < 0, 2 * lax.exp(high) * lax.exp(low) - above, jnp.where(x == np.inf, 0, above))


_erfcx.defjvps(lambda t, out, x: t * (2 * x * out - _TWO_OVER_ROOT_PI))


def erfcx(x):
    """exp(x ** 2) * erfc(x), finite for large x; complex x too.

    >>> from fgrad.scipy import special
    >>> round(float(special.erfcx(100.0)), 6)
    0.005642
    """
    (x,) = jnp.promote_dtypes_inexact(x)
    if x.dtype.kind == "c":
        return _wofz(lax.complex(-x.imag, x.real))
    return _erfcx(x)


@custom_jvp
@single
def _dawsn(x):
    size = jnp.where(jnp.isfinite(x), abs(x), 1)
    near = size * size < 6
    low = size * chebyshev(tables.DAWSN_NEAR, jnp.where(near, size * size, 0))
    inverse = 1 / jnp.where(near, 3, size)
    high = inverse / 2 * chebyshev(tables.DAWSN, inverse * inverse)
    value = jnp.copysign(jnp.where(near, low, high), x)
    return jnp.where(jnp.isinf(x), jnp.copysign(0, x), jnp.where(x != x, x, value))


_dawsn.defjvps(lambda t, out, x: t * (1 - 2 * x * out))


def dawsn(x):
    """Dawson's integral, exp(-x ** 2) * the integral of exp(t ** 2) from 0 to x, for real x."""
    return _dawsn(*operands("dawsn", x))


@functools.cache
def _weideman(n):
    """(L, coefficients) of the rational approximation of w in the upper half plane: Weideman, SIAM J. Numer. Anal. 31 (1994)."""
    m = 2 * n
    scale = math.sqrt(n / math.sqrt(2))
    theta = np.arange(-m + 1, m) * np.pi / m
    t = scale * np.tan(theta / 2)
    values = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    coefs = np.fft.fft(np.fft.fftshift(values)).real / (2 * m)
    return scale, coefs[1 : n + 1]


@custom_jvp
@jit
def _wofz(z):
    scale, coefs = _weideman(64 if z.dtype.itemsize == 16 else 28)
    below = z.imag < 0
    up = jnp.where(below, -z, z)
    iz = lax.complex(-up.imag, up.real)
    denominator = scale - iz
    ratio = (scale + iz) / denominator
    total = jnp.zeros_like(z)
    for c in coefs[::-1]:
        total = total * ratio + c.astype(z.real.dtype)
    upper = 2 * total / (denominator * denominator) + (1 / math.sqrt(math.pi)) / denominator
    return jnp.where(below, 2 * lax.exp(-jnp.where(below, z * z, 0)) - upper, upper)


_wofz.defjvps(lambda t, out, z: t * (-2 * z * out + lax.complex(jnp.zeros_like(z.real), jnp.full_like(z.real, _TWO_OVER_ROOT_PI))))


def wofz(z):
    """Faddeeva's function w(z) = exp(-z ** 2) * erfc(-i z); the result is complex.

    Weideman's rational approximation in the upper half plane, w(z) = 2 exp(-z ** 2) - w(-z) (DLMF 7.4.3) below.
    """
    (z,) = jnp.promote_dtypes_inexact(z)
    return _wofz(z if z.dtype.kind == "c" else z.astype(jnp.promote_types(z.dtype, jnp.complex64)))


# --- exponential integrals ------------------------------------------------------------------------------------------------


def _e1(x):
    """E_1 for x > 0."""
    near = x <= 0.5
    low, high = jnp.where(near, x, 0.25), jnp.where(near, 1, x)
    series = low * chebyshev(tables.E1_NEAR, low) - (lax.log(low) + _EULER)
    return jnp.where(near, series, lax.exp(-high) / high * chebyshev(tables.E1, 1 / high))


@custom_jvp
@single
def _exp1(x):
    value = _e1(jnp.where(x > 0, x, 1))
    return jnp.where(x > 0, jnp.where(x == np.inf, 0, value), jnp.where(x == 0, np.inf, np.nan))


_exp1.defjvps(lambda t, out, x: t * (-lax.exp(-x) / x))


def exp1(x):
    """The exponential integral E_1(x), the integral of exp(-t) / t from x to infinity: infinite at 0, NaN for x < 0.

    >>> from fgrad.scipy import special
    >>> round(float(special.exp1(1.0)), 5)
    0.21938
    """
    return _exp1(*operands("exp1", x))


def _beyond(x, root):
    """x - root, with root in two parts."""
    high = np.asarray(root[0], x.dtype)[()]
    return (x - high) - np.asarray((root[0] - float(high)) + root[1], x.dtype)[()]


def _log_and_entire(x, root, table):
    """log(x / root) + (x - root) * table(x): all digits near the root (Cody and Thacher, Math. Comp. 23, 1969)."""
    past = _beyond(x, root)
    near = abs(past) < 0.5 * root[0]
    log = jnp.where(near, lax.log1p(jnp.where(near, past, 0) / root[0]), lax.log(x / root[0]))
    return log + past * chebyshev(table, x)


def _ei(x):
    """Ei for x > 0."""
    near = x <= 6
    low, high = jnp.where(near, x, 1), jnp.where(near, 6, x)
    far = jnp.where(high > 80, 80, high)  # exp in two factors: Ei overflows later than exp does
    factor = lax.exp(high - far) / high * lax.exp(far)
    return jnp.where(near, _log_and_entire(low, tables.EI_ROOT, tables.EI_NEAR), factor * chebyshev(tables.EI, 1 / high))


@custom_jvp
@single
def _expi(x):
    finite = jnp.isfinite(x) & (x != 0)
    above = _ei(jnp.where(finite & (x > 0), x, 1))
    below = -_e1(jnp.where(finite & (x < 0), -x, 1))
    edges = jnp.where(x == 0, -np.inf, jnp.where(x == -np.inf, -0.0, x))
    return jnp.where(finite, jnp.where(x > 0, above, below), edges)


_expi.defjvps(lambda t, out, x: t * (lax.exp(x) / x))


def expi(x):
    """The exponential integral Ei(x), the principal value of the integral of exp(t) / t from -infinity to x; -infinity at 0."""
    return _expi(*operands("expi", x))


def _expn_series(n, x):
    """DLMF 8.19.8, for 0 < x <= 1 and whole n >= 1."""
    total, term = jnp.zeros_like(x), jnp.ones_like(x)
    at_n = lax.digamma(n) - lax.log(x)
    for m in range(21 if x.dtype.itemsize == 8 else 12):
        at = n - (m + 1)
        total += term * jnp.where(at == 0, at_n, 1 / jnp.where(at == 0, 1, at))
        term *= -x / (m + 1)
    return total


def _expn_fraction(n, x):
    """The even part of the continued fraction DLMF 8.19.17, by Lentz's method, for x > 1."""
    eps = np.finfo(x.dtype).eps

    def step(state):
        i, b, c, d, h, _ = state
        a, b = -i * (n - 1 + i), b + 2
        d, c = 1 / (a * d + b), b + a / c
        return i + 1, b, c, d, h * (c * d), abs(c * d - 1) > eps

    b = x + n
    state = jnp.ones((), x.dtype), b, jnp.full_like(x, 1 / np.finfo(x.dtype).tiny), 1 / b, 1 / b, x == x
    more = lambda state: jnp.any(state[-1]) & (state[0] < 400)
    return lax.exp(-x) * lax.while_loop(more, step, state)[4]


@custom_jvp
@single
def _expn(n, x):
    inside = (n >= 1) & (x > 0) & (x < np.inf)
    small = inside & (x <= 1)
    series = _expn_series(jnp.where(small, n, 1), jnp.where(small, x, 0.5))
    large = inside & (x > 1)
    value = jnp.where(small, series, _expn_fraction(jnp.where(large, n, 1), jnp.where(large, x, 2)))
    order_0 = lax.exp(-x) / jnp.where(x > 0, x, 1)
    at_0 = jnp.where(n < 2, np.inf, 1 / jnp.where(n < 2, 1, n - 1))
    value = jnp.where(x == 0, at_0, jnp.where(x == np.inf, 0, jnp.where(n == 0, order_0, value)))
    return jnp.where((n < 0) | (x < 0) | (n != n) | (x != x), np.nan, value)


_expn.defjvps(None, lambda t, out, n, x: -t * _expn(n - 1, x))


def expn(n, x):
    """The exponential integral E_n(x) of whole order n >= 0: x ** (n - 1) * the integral of exp(-t) / t ** n from x to infinity.

    NaN for n < 0 or x < 0. The derivative is in x only.

    >>> from fgrad.scipy import special
    >>> round(float(special.expn(2, 1.0)), 5)
    0.1485
    """
    return _expn(*operands("expn", n, x))


# --- trigonometric and Fresnel integrals ----------------------------------------------------------------------------------


@custom_jvp
@single
def _sici(x):
    size = jnp.where(jnp.isfinite(x), abs(x), 1)
    near = size <= 4
    low, high = jnp.where(near, size, 1), jnp.where(near, 4, size)
    zero = low == 0
    si_low = low * chebyshev(tables.SI_NEAR, low * low)
    ci_low = jnp.where(zero, -np.inf, _log_and_entire(jnp.where(zero, 1, low), tables.CI_ROOT, tables.CI_NEAR))
    inverse = 1 / high
    f = inverse * chebyshev(tables.SI_F, inverse * inverse)
    g = inverse * inverse * chebyshev(tables.SI_G, inverse * inverse)
    sin, cos = lax.sin(high), lax.cos(high)
    si = jnp.where(near, si_low, math.pi / 2 - (f * cos + g * sin))
    ci = jnp.where(near, ci_low, f * sin - g * cos)
    si = jnp.copysign(jnp.where(jnp.isinf(x), math.pi / 2, si), x)
    ci = jnp.where(x == np.inf, 0, jnp.where(x == -np.inf, np.nan, ci))
    return jnp.where(x != x, x, si), jnp.where(x != x, x, ci)


@_sici.defjvp
def _sici_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return _sici(x), (jnp.sinc(x / math.pi) * t, lax.cos(x) / x * t)


def sici(x):
    """(Si(x), Ci(x)): the integrals of sin(t) / t from 0 and of cos(t) / t from infinity to |x|.

    >>> from fgrad.scipy import special
    >>> [round(float(v), 5) for v in special.sici(1.0)]
    [0.94608, 0.3374]
    """
    return _sici(*operands("sici", x))


def _quarter_turns(x):
    """(sin, cos) of pi x^2 / 2, whose angle is reduced before it is rounded."""
    high, low = square_parts(x)
    turns = (high - 4 * jnp.round(high / 4)) + low
    return lax.sin(turns * (math.pi / 2)), lax.cos(turns * (math.pi / 2))


@custom_jvp
@single
def _fresnel(x):
    size = jnp.where(jnp.isfinite(x), abs(x), 1)
    near = size <= 1.6
    low, high = jnp.where(near, size, 1), jnp.where(near, 2, size)
    fourth = low**4
    s_low, c_low = low**3 * chebyshev(tables.FRESNEL_S, fourth), low * chebyshev(tables.FRESNEL_C, fourth)
    inverse = 1 / high
    f = inverse / math.pi * chebyshev(tables.FRESNEL_F, inverse * inverse)
    g = inverse * (inverse / math.pi) ** 2 * chebyshev(tables.FRESNEL_G, inverse * inverse)
    huge = high > 1 / np.finfo(x.dtype).eps
    sin, cos = _quarter_turns(jnp.where(huge, 2, high))
    s = jnp.where(near, s_low, jnp.where(huge, 0.5, 0.5 - (f * cos + g * sin)))
    c = jnp.where(near, c_low, jnp.where(huge, 0.5, 0.5 + (f * sin - g * cos)))
    odd = lambda v: jnp.where(x != x, x, jnp.copysign(jnp.where(jnp.isinf(x), 0.5, v), x))
    return odd(s), odd(c)


@_fresnel.defjvp
def _fresnel_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    sin, cos = _quarter_turns(x)
    return _fresnel(x), (sin * t, cos * t)


def fresnel(x):
    """(S(x), C(x)): the integrals of sin and of cos of pi t ** 2 / 2 from 0 to x (DLMF 7.5.3 and 7.5.4 for large x)."""
    return _fresnel(*operands("fresnel", x))


# --- dilogarithm and Owen's T ---------------------------------------------------------------------------------------------

# B_2k / (2k + 1)!, the coefficients of Debye's series of the dilogarithm
_DEBYE = [1 / 36, -1 / 3600, 1 / 211680, -1 / 10886400, 1 / 526901760, -4.0647616451442256e-11, 8.9216910204564526e-13,
          -1.9939295860721076e-14, 4.5189800296199182e-16]  # fmt: skip


@custom_jvp
@single
def _spence(x):
    """Debye's series of Li_2(1 - y) in powers of -log(y), for y in [1/2, 1]: DLMF 25.12.4 and 25.12.6 lead there."""
    inside = (x > 0) & (x < np.inf)
    x1 = jnp.where(inside, x, 1)
    y = jnp.where(x1 > 1, 1 / x1, x1)
    low = y < 0.5
    log = lax.log(x1)
    w = jnp.where(low, -lax.log1p(-jnp.where(low, y, 0)), abs(log))
    square = w * w
    total = jnp.zeros_like(w)
    for c in reversed(_DEBYE):
        total = total * square + c
    value = w * (1 + square * total) - square / 4
    value = jnp.where(low, math.pi**2 / 6 - abs(log) * w - value, value)
    value = jnp.where(x1 > 1, -0.5 * log * log - value, value)
    return jnp.where(inside, value, jnp.where(x == 0, math.pi**2 / 6, jnp.where(x == np.inf, -np.inf, np.nan)))


def _spence_slope(x):
    """log(x) / (1 - x): at 1 by its series."""
    near = abs(x - 1) < 1e-8 if x.dtype.itemsize == 8 else abs(x - 1) < 1e-4
    away = jnp.where(near, 2, x)
    return jnp.where(near, -1 + (x - 1) / 2, lax.log(away) / (1 - away))


_spence.defjvps(lambda t, out, x: t * _spence_slope(x))


def spence(x):
    """Spence's function, the integral of log(t) / (1 - t) from 1 to x, which is the dilogarithm of 1 - x. NaN for x < 0.

    Raises TypeError unless x is float32 or float64.

    >>> from fgrad.scipy import special
    >>> round(float(special.spence(0.5)), 5)
    0.58224
    """
    x = jnp.asarray(x)
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"x.dtype={x.dtype} is not supported, see docstring for supported types.")
    return _spence(x)


def _owens_quadrature(h, a):
    """T(h, a) for h >= 0 and 0 <= a <= 1 by Gauss and Legendre's rule on the part of [0, a] where the integrand counts."""
    double = h.dtype.itemsize == 8
    nodes, weights = np.polynomial.legendre.leggauss(32 if double else 16)
    reach = jnp.minimum(h * a, 8.8 if double else 6.0)
    end = jnp.where(h * a > reach, reach / jnp.where(h > 0, h, 1), a)
    total = jnp.zeros_like(h)
    for s, w in zip(((1 + nodes) / 2).tolist(), (weights / 2).tolist()):
        total += w * lax.exp((reach * s) ** 2 * -0.5) / (1 + (end * s) ** 2)
    high, low = square_parts(h)
    return end / (2 * math.pi) * total * (lax.exp(high * -0.5) * lax.exp(low * -0.5))


@custom_jvp
@single
def _owens_t(h, a):
    size, slope = abs(h), abs(a)
    steep = slope > 1
    wide = jnp.where(steep & (size == 0), 0, size * slope)  # 0 * infinity
    inner = _owens_quadrature(jnp.where(steep, wide, size), jnp.where(steep, 1 / slope, slope))
    tail, tail_a = 0.5 * lax.erfc(size * math.sqrt(0.5)), 0.5 * lax.erfc(wide * math.sqrt(0.5))
    outer = 0.5 * (tail + tail_a) - tail * tail_a - inner
    outer = jnp.where(size == 0, lax.atan(slope) / (2 * math.pi), outer)
    value = jnp.where(steep, outer, inner)
    value = jnp.where((size == np.inf) | (a == 0), 0, value)
    return jnp.where((h != h) | (a != a), np.nan, jnp.copysign(value, a))


_owens_t.defjvps(
    lambda t, out, h, a: t * (-0.5 / math.sqrt(2 * math.pi)) * lax.exp(-0.5 * h * h) * lax.erf(a * h * math.sqrt(0.5)),
    lambda t, out, h, a: t * lax.exp(-0.5 * h * h * (1 + a * a)) / (2 * math.pi * (1 + a * a)),
)


def owens_t(h, a):
    """Owen's T function, the integral of exp(-h ** 2 (1 + x ** 2) / 2) / (1 + x ** 2) over 0 < x < a, by 2 pi.

    |a| > 1 goes to 1 / a by Owen's identity (Ann. Math. Statist. 27, 1956).
    """
    return _owens_t(*operands("owens_t", h, a))


__all__ = ["dawsn", "erfcx", "exp1", "expi", "expn", "fresnel", "owens_t", "sici", "spence", "wofz"]
