"""Writes fgrad/_kernels/gamma_tables.h: polynomials of smooth factors of the gamma family, Chebyshev interpolants at 50 digits."""

from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.dps = 50
PIECES = [(mpf("0.8"), mpf("1.8")), (mpf("1.8"), mpf("3.8")), (mpf("3.8"), mpf(8))]
ROOT = mpmath.findroot(mpmath.digamma, mpf("1.4616321449683623"))


def near(f, root, slope):
    """f, or its derivative `slope` where f is a difference quotient at its root."""
    return lambda y: slope if abs(y - root) < mpf(10) ** -30 else f(y)


def lgamma_factor(y):
    """lgamma(y) / ((y - 1) (y - 2))"""
    for root in (1, 2):
        if abs(y - root) < mpf(10) ** -20:
            return mpmath.digamma(root) * (-1 if root == 1 else 1)
    return mpmath.loggamma(y) / ((y - 1) * (y - 2))


def digamma_factor(y):
    return near(lambda v: mpmath.digamma(v) / (v - ROOT), ROOT, mpmath.polygamma(1, ROOT))(y)


def polynomial(f, a, b, n):
    """Coefficients in t = (2 y - a - b) / (b - a) of the interpolant at n Chebyshev points, lowest first."""
    nodes = [mpmath.cos(mpmath.pi * (mpf(j) + mpf("0.5")) / n) for j in range(n)]
    values = [f((a + b) / 2 + (b - a) / 2 * t) for t in nodes]
    c = [2 * sum(v * mpmath.cos(k * mpmath.pi * (mpf(j) + mpf("0.5")) / n) for j, v in enumerate(values)) / n for k in range(n)]
    c[0] /= 2
    last, here = [mpf(1)], [mpf(0), mpf(1)]
    out = [mpf(0)] * n
    for k in range(n):
        for i, v in enumerate(last):
            out[i] += c[k] * v
        step = [mpf(0), *[2 * v for v in here]]
        for i, v in enumerate(last):
            step[i] -= v
        last, here = here, step
    return out


def macro(name, comment, rows):
    """The constant coefficient in two parts, and FG_POLY over t of the others, picked from as many pieces as there are rows."""
    cell = lambda column: f"PICK({', '.join(repr(float(v)) for v in column)})"
    lines = [
        f"/* {comment} */",
        f"#define {name}_0(PICK) {cell([r[0] for r in rows])}",
        f"#define {name}_0_LO(PICK) {cell([r[0] - mpf(float(r[0])) for r in rows])}",
        f"#define {name}(t, PICK) FG_POLY(t, \\",
        ", \\\n".join("    " + cell([r[k] for r in rows]) for k in range(1, len(rows[0]))) + ")",
    ]
    return "\n".join(lines)


def main():
    lg = [polynomial(lgamma_factor, a, b, 24) for a, b in PIECES]
    dg = [polynomial(digamma_factor, a, b, 24) for a, b in PIECES]
    gm = [polynomial(mpmath.gamma, mpf(1), mpf(2), 23)]
    high = float(ROOT)
    parts = [
        "/* Written by scripts/gamma_tables.py: polynomials in t, which goes from -1 to 1 over each piece of y. */",
        "#ifndef FG_GAMMA_TABLES_H",
        "#define FG_GAMMA_TABLES_H",
        f"#define FG_DIGAMMA_ROOT {high!r}",
        f"#define FG_DIGAMMA_ROOT_LO {float(ROOT - mpf(high))!r}",
        macro("FG_LGAMMA_NEAR", "lgamma(y) / ((y - 1) (y - 2)) over [0.8, 1.8], [1.8, 3.8] and [3.8, 8]", lg),
        macro("FG_DIGAMMA_NEAR", "digamma(y) / (y - its root) over the same", dg),
        macro("FG_GAMMA_NEAR", "Gamma(y) over [1, 2]", gm),
        "#endif",
    ]
    Path(__file__).parents[1].joinpath("fgrad/_kernels/gamma_tables.h").write_text("\n".join(parts) + "\n")


main()
