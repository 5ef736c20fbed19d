"""Errors of the VM's elementary functions in ULP.  `python -m tests.kernels.ulp` prints the table, special functions included.

No bound is above 2, but for i0 and i1 of float64 (3); kernels built without fused multiply-add (x86-64-v2) round once more.
lgamma and digamma below 0 cross zero between any two poles: there no relative error can be bounded without an expansion at every zero,
theirs is 1e-19 of the terms that cancel, and samples keep 0.1 away.

References: numpy.longdouble where NumPy has the function (64 or more bits of mantissa on Linux), mpmath elsewhere.
"""

import mpmath
import numpy as np

from tests.kernels.vm_builder import apply

L = np.longdouble
SPECIAL = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    1e-45,
    -1e-45,
    1e-40,
    5e-324,
    1e-310,
    1e-30,
    3e38,
    -3e38,
    1.7e308,
    -1.7e308,
    88.72,
    88.73,
    89.0,
    -87.4,
    -103.9,
    -104.0,
    709.7,
    709.8,
    -745.0,
    -745.2,
    -708.5,
    128.0,
    127.99,
    -149.0,
    -150.0,
    1024.0,
    -1074.0,
    -1075.0,
]


def with_mpmath(f):
    def reference(x):
        out = np.empty(x.shape, L)
        with mpmath.workdps(40):
            for i, v in enumerate(x.astype(np.float64).tolist()):
                y = f(mpmath.mpf(max(min(v, 1e4), -1e4) if abs(v) < np.inf else v))  # erf and erfc are constant from there on
                hi = float(y)
                out[i] = L(hi) + L(float(y - hi)) if np.isfinite(hi) else L(hi)
                if hi == 0 and v == 0:
                    out[i] = L(v)  # mpmath has no -0
        return out

    return reference


def mp_erf_inv(y):
    if abs(y) >= 1 or y != y:
        return mpmath.inf * y if abs(y) == 1 else mpmath.nan
    return mpmath.erfinv(y)


# name: (reference on longdouble arrays, plain range, bound for float32, bound for float64)
FUNCTIONS = {
    "exp": (np.exp, (-745, 710), 1.1, 1),
    "exp2": (np.exp2, (-1075, 1024), 1.3, 1.3),
    "expm1": (np.expm1, (-40, 710), 1.6, 2),
    "log": (np.log, (0, 3), 1.3, 1),
    "log1p": (np.log1p, (-1, 3), 1.3, 1),
    "log2": (np.log2, (0, 3), 1, 1),
    "log10": (np.log10, (0, 3), 1.7, 1.7),
    "sin": (np.sin, (-9e4, 9e4), 1.7, 1),
    "cos": (np.cos, (-9e4, 9e4), 1.7, 1),
    "tan": (np.tan, (-9e4, 9e4), 1.1, 1),
    "asin": (np.arcsin, (-1, 1), 1.8, 1.3),
    "acos": (np.arccos, (-1, 1), 1.3, 1.2),
    "atan": (np.arctan, (-5, 5), 1.5, 2),
    "sinh": (np.sinh, (-710, 710), 1.8, 1.8),
    "cosh": (np.cosh, (-710, 710), 1.5, 1.5),
    "tanh": (np.tanh, (-20, 20), 2, 2),
    "asinh": (np.arcsinh, (-5, 5), 1.5, 1.9),
    "acosh": (np.arccosh, (1, 5), 1.7, 2),
    "atanh": (np.arctanh, (-1, 1), 1.5, 1.8),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), (-745, 40), 2, 2),
    "cbrt": (np.cbrt, (-10, 10), 1, 0.6),
    "sqrt": (np.sqrt, (0, 10), 0.5, 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0, 10), 1.5, 1.5),
    "recip": (lambda x: 1 / x, (-3, 3), 0.5, 0.5),
}
SLOW_REFERENCE = {
    "erf": (with_mpmath(mpmath.erf), (-6, 6), 1.9, 1.5),
    "erfc": (with_mpmath(mpmath.erfc), (-6, 27.3), 2, 2),
    "erf_inv": (with_mpmath(mp_erf_inv), (-1, 1), 2, 2),
}
BINARY = {"pow": (np.power, 1, 1), "atan2": (np.arctan2, 1.7, 2)}


def ulp_errors(got, reference):
    """|got - reference| in units of the last place of the correctly rounded result; inf where one is NaN and the other is not,
    or the sign of a zero or an overflow differs."""
    with np.errstate(all="ignore"):
        rounded = reference.astype(got.dtype)
        info = np.finfo(got.dtype)
        exponent = np.maximum(np.frexp(np.abs(reference))[1], info.minexp + 1)
        err = np.abs(got.astype(L) - reference) / np.ldexp(L(1), exponent - info.nmant - 1)
        same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
        err = np.where(same & ~np.isfinite(rounded), 0, err)
        err = np.where((got == 0) & (rounded == 0) & ~same, np.inf, err)
        err = np.where(np.isnan(rounded) | np.isnan(got), np.where(np.isnan(rounded) == np.isnan(got), 0, np.inf), err)
        return np.where(np.isinf(got) != np.isinf(rounded), np.inf, err).astype(np.float64)


def samples(name, dtype, low, high, n, seed=0):
    rng = np.random.default_rng(seed)
    bits = np.uint32 if dtype == np.float32 else np.uint64
    if dtype == np.float32:
        low, high = max(low, -110 if high < 1e4 else low), min(high, 95 if high < 1e4 else high)
    parts = [
        rng.uniform(low, high, n),
        rng.uniform(-3, 3, n),
        rng.uniform(-1, 1, n),
        np.exp(rng.uniform(-30, 3, n)) * rng.choice([-1, 1], n),
        1 + rng.uniform(-1e-3, 1e-3, n // 4),
        SPECIAL,
    ]
    everything = rng.integers(0, np.iinfo(bits).max, n, dtype=bits).view(dtype)
    if name == "erf_inv":  # towards 1, where all is in the last bits
        parts.append(1 - np.exp(rng.uniform(-36, 0, n)))
    if name in ("sin", "cos", "tan"):  # near multiples of pi/2; longdouble's own range reduction is not trusted far out
        everything = (rng.integers(-50000, 50000, n) * (np.pi / 2)).astype(dtype)
        parts[-1] = [v for v in SPECIAL if not abs(v) > 1e6]
    with np.errstate(all="ignore"):
        return np.concatenate([np.concatenate(parts).astype(dtype), everything])


def unary(name, dtype, n):
    """(largest error, its argument, the result there)."""
    reference, (low, high), *_ = {**FUNCTIONS, **SLOW_REFERENCE}[name]
    x = samples(name, np.dtype(dtype).type, low, high, n)
    got = apply(name, dtype, x)
    with np.errstate(all="ignore"):
        err = ulp_errors(got, reference(x.astype(L)))
    i = int(err.argmax())
    return err[i], x[i], got[i]


def binary(name, dtype, n):
    rng = np.random.default_rng(1)
    grid = np.array([*SPECIAL, 3.0, -3.0, -7.0, 5.0, 0.25, 1e10])
    a, b = (v.ravel() for v in np.meshgrid(grid, grid))
    near = 1e6 if dtype == np.float32 else 7e6
    a = np.concatenate([a, rng.uniform(-3, 3, n), rng.uniform(0, 100, n), np.exp(rng.uniform(-14, 14, n)), 1 + rng.uniform(-1e-4, 1e-4, n)])
    b = np.concatenate([b, rng.uniform(-3, 3, n), rng.uniform(-50, 50, n), rng.uniform(-30, 30, n), rng.uniform(-near, near, n)])
    with np.errstate(all="ignore"):
        a, b = a.astype(dtype), b.astype(dtype)
        got = apply(name, dtype, a, b)
        err = ulp_errors(got, BINARY[name][0](a.astype(L), b.astype(L)))
    i = int(err.argmax())
    return err[i], (a[i], b[i]), got[i]


def main():
    from tests.kernels import ulp_special  # it imports this module

    for dtype in (np.float32, np.float64):
        for name in [*FUNCTIONS, *SLOW_REFERENCE]:
            err, x, y = unary(name, dtype, 300000 if name in FUNCTIONS else 3000)
            print(f"{name:11s} {np.dtype(dtype).name} {err:8.3f} ulp   {name}({x!r}) = {y!r}")
        for name in BINARY:
            err, x, y = binary(name, dtype, 300000)
            print(f"{name:11s} {np.dtype(dtype).name} {err:8.3f} ulp   {name}{x!r} = {y!r}")
        for name in ulp_special.FUNCTIONS:
            err, x, y = ulp_special.worst(name, dtype)
            print(f"{name:11s} {np.dtype(dtype).name} {err:8.3f} ulp   {name}{tuple(map(float, x))} = {y!r}")


if __name__ == "__main__":
    main()
