"""Special functions with recurrences in their order, and of combinatorics: Bessel, spherical harmonics, log gamma, Bernoulli, Box-Cox."""

import math
import operator
from fractions import Fraction

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import custom_jvp, jit
from fgrad.numpy.util import concrete
from fgrad.ops import special as ops
from fgrad.scipy.chebyshev import operands

# --- combinatorics --------------------------------------------------------------------------------------------------------


def _bernoulli_numbers(n):
    out = [Fraction(1)]
    for m in range(1, n + 1):
        odd = m > 1 and m % 2
        out.append(Fraction(0) if odd else -sum(math.comb(m + 1, k) * b for k, b in enumerate(out)) / (m + 1))
    return out


def bernoulli(n):
    """The Bernoulli numbers B_0, ..., B_n (B_1 = -1/2), rounded from their fractions: shape (n + 1,).

    >>> from fgrad.scipy import special
    >>> special.bernoulli(1)
    Array([ 1. , -0.5], dtype=float32)
    """
    n = operator.index(concrete("bernoulli", n, "pass n as a Python integer"))
    if n < 0:
        raise ValueError("n must be a non-negative integer.")
    finite = [float(b) for b in _bernoulli_numbers(min(n, 259))]  # later ones are beyond float64
    return jnp.array([*finite, *([-np.inf, 0.0, np.inf, 0.0] * (n // 4))][: n + 1])


def comb(N, k, *, repetition=False):
    """N choose k as a float, by the beta function; 0 for k > N and for negative N or k. repetition: draws are put back.

    >>> from fgrad.scipy import special
    >>> float(special.comb(5, 2))
    10.0
    """
    N, k = operands("comb", N, k)
    if repetition:
        return jnp.where((k == 0) & (N >= 0), 1, comb(N + k - 1, k)).astype(N.dtype)
    usual = (k <= N) & (N >= 0) & (k >= 0)
    n, k = jnp.where(usual, N, 0), jnp.where(usual, k, 0)
    value = 1 / ((n + 1) * ops.beta(n - k + 1, k + 1))
    whole = (lax.floor(n) == n) & (lax.floor(k) == k) & (value < 1 / np.finfo(n.dtype).eps)
    value = value + lax.stop_gradient(jnp.where(whole, jnp.round(value) - value, 0))
    return jnp.where(usual, value, 0)


def _power_of_log(log, lmbda):
    """expm1(lmbda * log) / lmbda: by its series where lmbda is 0, for the sake of two derivatives."""
    zero = lmbda == 0
    finite = jnp.where(jnp.isfinite(log), log, 0)
    at_zero = finite**2 * (lmbda / 2) + finite**3 * (lmbda * lmbda / 6)
    safe = jnp.where(zero, 1, lmbda)
    return jnp.where(zero, log + at_zero, lax.expm1(safe * log) / safe)


def boxcox(x, lmbda):
    """The Box-Cox transformation (x ** lmbda - 1) / lmbda, log(x) for lmbda = 0; NaN for x < 0."""
    x, lmbda = operands("boxcox", x, lmbda)
    return _power_of_log(lax.log(x), lmbda)


def boxcox1p(x, lmbda):
    """boxcox(1 + x, lmbda), exact for small x."""
    x, lmbda = operands("boxcox1p", x, lmbda)
    return _power_of_log(lax.log1p(x), lmbda)


# --- log gamma ------------------------------------------------------------------------------------------------------------

_STIRLING = [float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(_bernoulli_numbers(20)[::2]) if k]  # DLMF 5.11.1
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _right_half(z):
    """Re z >= 0: from z + 8 down, two factors to a logarithm, whose argument then stays in (-pi, pi)."""
    steps = sum(lax.log((z + k) * (z + (k + 1))) for k in range(0, 8, 2))
    near = z.real < 8
    up = jnp.where(near, z + 8, z)
    inverse = 1 / up
    square, total = inverse * inverse, jnp.zeros_like(z)
    for c in reversed(_STIRLING):
        total = total * square + c
    value = (up - 0.5) * lax.log(up) - up + _HALF_LOG_2PI + total * inverse
    return value - jnp.where(near, steps, 0)


def _log_sin_pi(z):
    """log sin(pi z) for Im z >= 0, analytic there: -i pi (z - 1/2) - log 2 + log(1 - exp(2 pi i z))."""
    turn = 2 * math.pi * (z.real - jnp.round(z.real))
    size = -2 * math.pi * z.imag
    half = lax.sin(turn / 2)
    minus_expm1 = lax.complex(2 * half * half - lax.expm1(size) * lax.cos(turn), -lax.exp(size) * lax.sin(turn))
    return lax.complex(math.pi * z.imag - math.log(2), math.pi * (0.5 - z.real)) + lax.log(minus_expm1)


@custom_jvp
@jit
def _loggamma(z):
    flipped = jnp.signbit(z.imag)
    up = jnp.where(flipped, z.conj(), z)
    pole = (z.imag == 0) & (z.real <= 0) & (lax.floor(z.real) == z.real)
    up = jnp.where(pole | (z != z), 1, up)
    left = up.real < 0
    right = _right_half(jnp.where(left, 1 - up, up))
    value = jnp.where(left, math.log(math.pi) - _log_sin_pi(jnp.where(left, up, 0.5)) - right, right)
    value = jnp.where(flipped, value.conj(), value)
    return jnp.where(pole | (z != z), complex(np.nan, np.nan), value)


def _right_digamma(z):
    near = z.real < 8
    up = jnp.where(near, z + 8, z)
    square, total = 1 / (up * up), jnp.zeros_like(z)
    for k in range(len(_STIRLING), 0, -1):
        total = (total + _STIRLING[k - 1] * (2 * k - 1)) * square
    return lax.log(up) - 0.5 / up - total - jnp.where(near, sum(1 / (z + k) for k in range(8)), 0)


def _complex_digamma(z):
    """DLMF 5.11.2 in the right half plane, the reflection 5.5.4 in the left one."""
    left = z.real < 0
    reduced = math.pi * (z - jnp.round(z.real))
    slope = math.pi * lax.cos(reduced) / lax.sin(jnp.where(left & (abs(z.imag) < 20), reduced, 1))
    slope = jnp.where(abs(z.imag) < 20, slope, -1j * math.pi * jnp.sign(z.imag))
    return _right_digamma(jnp.where(left, 1 - z, z)) - jnp.where(left, slope, 0)


_loggamma.defjvps(lambda t, out, z: t * _complex_digamma(z))


def loggamma(x):
    """The principal branch of log gamma, real (NaN below 0) or complex, with its one cut along the negative reals.

    >>> from fgrad.scipy import special
    >>> round(float(special.loggamma(0.5)), 5)
    0.57236
    """
    (x,) = jnp.promote_dtypes_inexact(x)
    if x.dtype.kind == "c":
        return _loggamma(x)
    return jnp.where(x > 0, ops.lgamma(x), np.nan)


def complex_gamma(z):
    """gamma of complex z: the exponential of loggamma; NaN at the poles."""
    return lax.exp(_loggamma(z))


# --- Bessel functions and spherical harmonics -----------------------------------------------------------------------------


def bessel_jn(z, *, v, n_iter=50):
    """Bessel functions of the first kind of the orders 0, ..., v: an array (v + 1, *z.shape).

    Miller's backward recurrence (DLMF 3.6(v)) from order n_iter, which must exceed |z| and v; normalised by J_0 + 2 (J_2 + J_4 + ...) = 1.

    >>> from fgrad.scipy import special
    >>> special.bessel_jn(1.0, v=1)
    Array([0.7651977, 0.4400506], dtype=float32)
    """
    (z,) = jnp.promote_dtypes_inexact(jnp.asarray(z))
    if z.dtype.kind == "c":
        raise ValueError("complex input not supported.")
    v = operator.index(concrete("bessel_jn", v, "pass v as a Python integer"))
    n_iter = int(concrete("bessel_jn", n_iter, "pass n_iter as a Python integer"))
    zero = z == 0
    inverse = 2 / jnp.where(zero, 1, z)

    def down(carry, k):
        before, last, total = carry
        f = (k + 1) * inverse * last - before
        scale = lax.stop_gradient(1 / jnp.maximum(abs(f), 1))  # keeps the values in range
        f, last = f * scale, last * scale
        total = total * scale + jnp.where(k % 2 == 0, 2 * f, 0)
        return (last, f, total), (f, scale)

    start = jnp.zeros_like(z), jnp.full_like(z, 1e-16), jnp.zeros_like(z)
    (_, first, total), (values, scales) = lax.scan(down, start, jnp.arange(n_iter + 1, dtype=z.dtype), reverse=True)
    below = jnp.concatenate([jnp.ones_like(scales[:1]), jnp.cumprod(scales[:v], 0)]) if v else jnp.ones_like(scales[:1])
    out = values[: v + 1] * below[: values.shape[0]] / (total - first)
    at_zero = jnp.zeros(out.shape, z.dtype).at[0].set(1)
    return jnp.where(zero, at_zero, out)


def sph_harm_y(n, m, theta, phi, diff_n=None, n_max=None):
    """The spherical harmonics of degree n and order m at colatitude theta and longitude phi, orthonormal; complex.

    The arguments broadcast. n_max: the largest degree, which must be known under jit; degrees above it are taken as n_max.
    By the recurrence of normalised associated Legendre functions (Holmes and Featherstone, J. Geodesy 76, 2002).

    >>> import fgrad.numpy as jnp
    >>> from fgrad.scipy import special
    >>> special.sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.0]), jnp.array([0.0])).real
    Array([0.48860252], dtype=float32)
    """
    if diff_n is not None:
        raise NotImplementedError("The 'diff_n' argument of sph_harm_y is not supported.")
    if jnp.isscalar(theta):
        theta = jnp.array([theta])
    n_max = int(np.max(concrete("sph_harm_y", n if n_max is None else n_max, "pass n_max as a Python integer")))
    theta, phi = jnp.promote_dtypes_inexact(theta, phi)
    n, m, theta, phi = jnp.broadcast_arrays(n, m, theta, phi)
    n, order = jnp.minimum(n, n_max), abs(m)
    sin, cos = lax.sin(theta), lax.cos(theta)
    sectoral = jnp.full_like(theta, math.sqrt(0.25 / math.pi))
    now, before = sectoral, jnp.zeros_like(theta)
    square = (order * order).astype(theta.dtype)
    for degree in range(1, n_max + 1):
        sectoral = jnp.where(degree <= order, -math.sqrt((2 * degree + 1) / (2 * degree)) * sin * sectoral, sectoral)
        inside = degree > order
        a = jnp.sqrt((4 * degree * degree - 1) / jnp.where(inside, degree * degree - square, 1))
        b = jnp.sqrt(jnp.where(inside, (degree - 1) ** 2 - square, 0) / max(4 * (degree - 1) ** 2 - 1, 1))
        following = jnp.where(inside, a * (cos * now - b * before), sectoral)
        go = degree <= n
        now, before = jnp.where(go, following, now), jnp.where(go, jnp.where(inside, now, 0), before)
    angle = order * phi
    value = lax.complex(now * lax.cos(angle), now * lax.sin(angle))
    odd = jnp.where(order % 2 == 0, 1.0, -1.0).astype(theta.dtype)
    return jnp.where(m < 0, odd * value.conj(), value)


__all__ = ["bernoulli", "bessel_jn", "boxcox", "boxcox1p", "comb", "loggamma", "sph_harm_y"]
