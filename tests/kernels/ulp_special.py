"""Errors of the special functions in ULP, against mpmath at 80 digits; part of `python -m tests.kernels.ulp`."""

import functools

import mpmath
import numpy as np

import fgrad
from fgrad import lax
from fgrad.scipy import special
from tests.kernels.ulp import L, ulp_errors

rng = np.random.default_rng(0)
N = 150
A = np.exp(rng.uniform(-4, 5, N))
B = np.exp(rng.uniform(-4, 4, N))
X = A * np.exp(rng.normal(0, 0.4, N))
P = np.clip(A / (A + B) * np.exp(rng.normal(0, 0.3, N)), 1e-4, 0.999)
U = np.concatenate([rng.uniform(0.01, 0.99, N), 10.0 ** -rng.uniform(1, 30, N)])
S = 1 + np.exp(rng.uniform(-3, 3.5, N))
ORDER = rng.integers(0, 7, N).astype(float)
Z = np.concatenate([rng.uniform(-30, 30, N // 2), np.exp(rng.uniform(-6, 6, N // 2))])
BELOW = -rng.integers(0, 9, N) - rng.uniform(0.15, 0.4, N)  # below 0, away from the poles and (in lgamma and digamma) zeros
NEAR = 1 + rng.uniform(-0.05, 0.05, N)


def signed(*parts):
    return np.concatenate(parts)


def mp_lgamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


# name: (function, mpmath's, arguments, bound for float32, for float64)
FUNCTIONS = {
    "lgamma": (lax.lgamma, mp_lgamma, (signed(A, NEAR, 2 * NEAR, BELOW),), 1, 1),
    "digamma": (lax.digamma, mpmath.digamma, (signed(A, 1.46 * NEAR, BELOW),), 1, 1),
    "gamma": (special.gamma, mpmath.gamma, (signed(rng.uniform(0.01, 30, N), BELOW),), 1, 1),
    "polygamma": (lax.polygamma, lambda n, x: mpmath.polygamma(int(n), x), (ORDER, A), 1, 2),
    "trigamma": (lambda x: lax.polygamma(lax.full_like(x, 1), x), lambda x: mpmath.polygamma(1, x), (signed(A, BELOW),), 1, 2),
    "zeta": (lax.zeta, mpmath.zeta, (S, A), 1, 2),
    "betaln": (special.betaln, lambda a, b: mpmath.log(mpmath.beta(a, b)), (A, B), 1, 1),
    "beta": (special.beta, mpmath.beta, (A, B), 1, 1),
    "igamma": (lax.igamma, lambda a, x: mpmath.gammainc(a, 0, x, regularized=True), (A, X), 1, 1),
    "igammac": (lax.igammac, lambda a, x: mpmath.gammainc(a, x, regularized=True), (A, X), 1, 1),
    "betainc": (lax.betainc, lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True), (A, B, P), 1, 1),
    "bessel_i0e": (lax.bessel_i0e, lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), (Z,), 1, 2),
    "bessel_i1e": (lax.bessel_i1e, lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), (Z,), 1, 2),
    "i0": (special.i0, lambda x: mpmath.besseli(0, x), (rng.uniform(-30, 30, N),), 2.2, 3),
    "i1": (special.i1, lambda x: mpmath.besseli(1, x), (rng.uniform(-30, 30, N),), 2, 3),
    "ndtr": (special.ndtr, mpmath.ncdf, (signed(rng.uniform(-12, 8, N), rng.uniform(-1, 1, N), rng.uniform(-37, -12, N)),), 2, 2),
    "log_ndtr": (special.log_ndtr, lambda x: mpmath.log(mpmath.ncdf(x)), (signed(rng.uniform(-50, 5, N), rng.uniform(-2, 2, N)),), 1, 2),
    "ndtri": (special.ndtri, lambda p: -mpmath.sqrt(2) * mp_erfcinv(2 * p), (U,), 2, 2),
    "logit": (special.logit, lambda p: mpmath.log(p / (1 - p)), (signed(P, U, rng.uniform(0.2, 0.8, 10 * N)),), 1.3, 1.5),
    "expit": (special.expit, lambda x: 1 / (1 + mpmath.exp(-x)), (rng.uniform(-40, 40, N),), 2, 2),
    "entr": (special.entr, lambda x: -x * mpmath.log(x), (A,), 2, 2),
    "xlogy": (special.xlogy, lambda x, y: x * mpmath.log(y), (A, B), 2, 2),
    "xlog1py": (special.xlog1py, lambda x, y: x * mpmath.log1p(y), (A, B), 2, 2),
    "rel_entr": (special.rel_entr, lambda p, q: p * mpmath.log(p / q), (signed(P, NEAR), signed(P[::-1], NEAR[::-1])), 2, 2),
    "softplus": (fgrad.nn.softplus, lambda x: mpmath.log1p(mpmath.exp(x)), (rng.uniform(-30, 30, 2 * N),), 2, 2),
    "log_sigmoid": (fgrad.nn.log_sigmoid, lambda x: -mpmath.log1p(mpmath.exp(-x)), (rng.uniform(-30, 30, 2 * N),), 2, 2),
}


def mp_erfcinv(y):
    """The x with erfc(x) = y, by Newton steps; mpmath's erfinv loses digits towards 1."""
    if y > 1:
        return -mp_erfcinv(2 - y)
    x = mpmath.sqrt(-mpmath.log(y * mpmath.sqrt(mpmath.pi) * mpmath.sqrt(-mpmath.log(y) + 1))) if y < 0.1 else mpmath.erfinv(1 - y)
    for _ in range(30):
        step = (mpmath.erfc(x) - y) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(x * x)
        x += step
        if abs(step) < mpmath.mpf(10) ** -50 * (1 + abs(x)):
            break
    return x


def exact(f, *args):
    """f over arrays at 80 digits, as long doubles."""
    out = np.empty(args[0].shape, L)
    with mpmath.workdps(80):
        for i, row in enumerate(zip(*[a.tolist() for a in args])):
            y = f(*[mpmath.mpf(v) for v in row])
            out[i] = L(float(y)) + L(float(y - float(y)))
    return out


@functools.cache
def worst(name, dtype):
    """(largest error in ULP, its arguments, the result there)."""
    fun, ref, args, *_ = FUNCTIONS[name]
    args = [a.astype(dtype) for a in args]
    with fgrad.enable_x64():
        got = np.asarray(fun(*args))
    err = ulp_errors(got, exact(ref, *[a.astype(float) for a in args]))
    i = int(err.argmax())
    return err[i], tuple(a[i] for a in args), got[i]
