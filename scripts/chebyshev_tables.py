"""Writes fgrad/scipy/chebyshev_tables.py: Chebyshev coefficients of smooth factors of special functions, fitted at 50 digits."""

import textwrap
from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.dps = 50
SQRT_PI = mpmath.sqrt(mpmath.pi)
K = mpf("3.75")


def erfcx(x):
    if x > 40:  # the asymptotic series, DLMF 7.12.1
        return sum((-1) ** k * mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(25)) / (x * SQRT_PI)
    return mpmath.exp(x * x) * mpmath.erfc(x)


def erfcx_factor(t):
    """(1 + 2 x) erfcx(x) of t = (x - K) / (x + K), Shepherd and Laframboise, Math. Comp. 36 (1981)."""
    if t == 1:
        return 2 / SQRT_PI
    x = K * (1 + t) / (1 - t)
    return (1 + 2 * x) * erfcx(x)


def dawson(x):
    if x > 30:
        return sum(mpmath.fac2(2 * k - 1) / (2 * x * x) ** k for k in range(30)) / (2 * x)
    with mpmath.workdps(60 + int(x * x / 2)):
        return mpmath.exp(-x * x) * mpmath.erfi(x) * SQRT_PI / 2


def at_zero(value, f):
    return lambda s: value if s == 0 else f(s)


EULER = mpmath.euler
EI_ROOT = mpmath.findroot(mpmath.ei, mpf("0.3725"))
CI_ROOT = mpmath.findroot(mpmath.ci, mpf("0.6165"))


def beyond_root(f, slope, root):
    """(f(x) - log(x / root)) / (x - root), entire where f(x) - log(x) is."""

    def factor(x):
        with mpmath.workdps(100):
            if abs(x - root) < mpf(10) ** -30:
                return slope(root) - 1 / root
            if x == 0:
                return (EULER + mpmath.log(root)) / -root
            return (f(x) - mpmath.log(x / root)) / (x - root)

    return factor


def si_f(x):
    """f and g of DLMF 6.2.17: Si = pi/2 - f cos - g sin, Ci = f sin - g cos."""
    return mpmath.ci(x) * mpmath.sin(x) - (mpmath.si(x) - mpmath.pi / 2) * mpmath.cos(x)


def si_g(x):
    return -mpmath.ci(x) * mpmath.cos(x) - (mpmath.si(x) - mpmath.pi / 2) * mpmath.sin(x)


def fresnel_fg(x):
    """f and g of DLMF 7.5.3 and 7.5.4."""
    with mpmath.workdps(80):
        s, c, u = mpmath.fresnels(x) - mpf(1) / 2, mpmath.fresnelc(x) - mpf(1) / 2, mpmath.pi * x * x / 2
        return -s * mpmath.cos(u) + c * mpmath.sin(u), -c * mpmath.cos(u) - s * mpmath.sin(u)


inv = lambda f: lambda s: f(1 / s)
isq = lambda f: lambda s: f(1 / mpmath.sqrt(s))
root = mpmath.sqrt
TABLES = {  # name: (function, breakpoints of its argument)
    "ERFCX": (erfcx_factor, [-1, 1]),
    "DAWSN_NEAR": (at_zero(mpf(1), lambda s: dawson(root(s)) / root(s)), [0, 2, 6]),
    "DAWSN": (at_zero(mpf(1), isq(lambda x: 2 * x * dawson(x))), [0, mpf(1) / 32, mpf(1) / 13, mpf(1) / 6]),
    "E1_NEAR": (at_zero(mpf(1), lambda x: (mpmath.e1(x) + mpmath.log(x) + EULER) / x), [0, mpf(1) / 2]),
    "E1": (at_zero(mpf(1), inv(lambda x: x * mpmath.exp(x) * mpmath.e1(x))), [0, mpf(1) / 12, mpf(1) / 4, mpf(3) / 4, 2]),
    "EI_NEAR": (beyond_root(mpmath.ei, lambda x: mpmath.exp(x) / x, EI_ROOT), [0, 3, 6]),
    "EI": (at_zero(mpf(1), inv(lambda x: x * mpmath.exp(-x) * mpmath.ei(x))), [0, mpf(1) / 40, mpf(1) / 20, mpf(1) / 11, mpf(1) / 6]),
    "SI_NEAR": (at_zero(mpf(1), lambda s: mpmath.si(root(s)) / root(s)), [0, 16]),
    "CI_NEAR": (beyond_root(mpmath.ci, lambda x: mpmath.cos(x) / x, CI_ROOT), [0, 4]),
    "SI_F": (at_zero(mpf(1), isq(lambda x: x * si_f(x))), [0, mpf(1) / 64, mpf(1) / 16]),
    "SI_G": (at_zero(mpf(1), isq(lambda x: x * x * si_g(x))), [0, mpf(1) / 64, mpf(1) / 16]),
    "FRESNEL_S": (at_zero(mpmath.pi / 6, lambda s: mpmath.fresnels(root(root(s))) / root(root(s)) ** 3), [0, mpf("6.5536")]),
    "FRESNEL_C": (at_zero(mpf(1), lambda s: mpmath.fresnelc(root(root(s))) / root(root(s))), [0, mpf("6.5536")]),
    "FRESNEL_F": (at_zero(mpf(1), isq(lambda x: mpmath.pi * x * fresnel_fg(x)[0])), [0, mpf("0.15"), mpf("0.390625")]),
    "FRESNEL_G": (at_zero(mpf(1), isq(lambda x: mpmath.pi**2 * x**3 * fresnel_fg(x)[1])), [0, mpf("0.15"), mpf("0.390625")]),
}


def fit(f, lo, hi, n=64):
    """Chebyshev coefficients of f on [lo, hi], until they are below 1e-18 of the first."""
    lo, hi = mpf(lo), mpf(hi)
    nodes = [mpmath.cos(mpmath.pi * (k + mpf(1) / 2) / n) for k in range(n)]
    values = [f((hi + lo) / 2 + (hi - lo) / 2 * t) for t in nodes]
    coefs = [2 * sum(v * mpmath.cos(mpmath.pi * j * (k + mpf(1) / 2) / n) for k, v in enumerate(values)) / n for j in range(n)]
    coefs[0] /= 2
    last = max(j for j, c in enumerate(coefs) if abs(c) > mpf(10) ** -18 * max(map(abs, coefs)))
    return [float(c) for c in coefs[: last + 1]]


def main():
    lines = [
        '"""Chebyshev coefficients that scripts/chebyshev_tables.py writes: (breakpoints, coefficients on each piece)."""',
        "",
        "# fmt: off",
        f"EI_ROOT = ({float(EI_ROOT)!r}, {float(EI_ROOT - float(EI_ROOT))!r})  # the zero of Ei in two parts",
        f"CI_ROOT = ({float(CI_ROOT)!r}, {float(CI_ROOT - float(CI_ROOT))!r})",
    ]
    for name, (f, cuts) in TABLES.items():
        pieces = [fit(f, a, b) for a, b in zip(cuts, cuts[1:])]
        print(name, [len(p) for p in pieces], flush=True)
        lines += [f"{name} = (", f"    {tuple(map(float, cuts))},", "    ("]
        for p in pieces:
            lines += ["        (", *textwrap.wrap(", ".join(map(repr, p)) + ",", 120, initial_indent=" " * 12, subsequent_indent=" " * 12)]
            lines.append("        ),")
        lines += ["    ),", ")"]
    path = Path(__file__).parent.parent / "fgrad" / "scipy" / "chebyshev_tables.py"
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
