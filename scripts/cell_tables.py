"""Writes fgrad/_kernels/cell_tables.h: polynomials of functions of float64 on 16 cells and logarithms of 32 inverses, at 50 digits,
and cell_rows.h: the same polynomials with all numbers of a cell side by side.
Prints the polynomials that stand in vec_power.h and vec_trig.h."""

import math
import struct
import textwrap
from pathlib import Path

import mpmath
from mpmath import mp, mpf

mp.dps = 50


def rounded(x, bits=53):
    """The nearest number of so many bits, as a float."""
    m, e = mpmath.frexp(mpf(x))
    return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(m, bits)), int(e) - bits))


def fit(f, half, n):
    """n coefficients of f's Chebyshev interpolation on [-half, half], the constant one first."""
    return mpmath.chebyfit(f, [-half, half], n)[::-1]


def erfcx(x):
    return mpmath.exp(x * x) * mpmath.erfc(x)


def inverse_erf_factor(w):
    """erf_inv(a) / a of w = -log(1 - a^2)."""
    if abs(w) < mpf(10) ** -12:
        return mpmath.sqrt(mpmath.pi) / 2 * (1 + mpmath.pi / 12 * w)
    if w < 0:  # a is imaginary: x = i y with erfi(y) = sqrt(e^-w - 1)
        b = mpmath.sqrt(mpmath.expm1(-w))
        return mpmath.findroot(lambda y: mpmath.erfi(y) - b, mpmath.sqrt(mpmath.pi) / 2 * b) / b
    a = mpmath.sqrt(-mpmath.expm1(-w))
    rest = mpmath.exp(-w) / (1 + a)
    x = mpmath.erfinv(a) if w < 1 else mpmath.sqrt(max(w - mpmath.log(mpmath.pi * max(w, 1)) / 2, mpf("0.3")))
    for _ in range(60):
        step = (mpmath.erfc(x) - rest) * mpmath.sqrt(mpmath.pi) / 2 * mpmath.exp(x * x)
        x += step
        if abs(step) < mpf(10) ** -45:
            break
    return x / a


def near_float(f, centre):
    """A number near the centre at which f is a float64 but for 2^-7 of its last place: nothing stands for the rest."""
    for j in range(4000):
        c = rounded(centre + (j % 2 * 2 - 1) * j * mpf(2) ** -22, 40)
        y = f(mpf(c))
        unit = mpmath.ldexp(1, int(mpmath.frexp(y)[1]) - 53)
        if abs(y - rounded(y)) < unit / 128:
            return c
    raise ValueError(centre)


def cells_of(f, scale, n, odd=False, flat=math.inf):
    """Cells of v = scale x + 2 from 2 to 32, four of equal width for each power of two: rows of n coefficients, then of centres.
    The first cell of an odd function is one of x = 0, less x itself; from `flat` on a function is its limit."""
    cells = []
    for i in range(16):
        low = mpf(2) ** (1 + i // 4) * (1 + mpf(i % 4) / 4)
        width, start = mpf(2) ** (1 + i // 4) / 4 / scale, (low - 2) / scale
        if odd and i == 0:
            p = [v if j % 2 else mpf(0) for j, v in enumerate(fit(f, width, n))]
            cells.append([0.0, rounded(p[1] - 1)] + [rounded(v) for v in p[2:]] + [0.0])
            continue
        centre = float(start + width / 2) if start > flat else near_float(f, start + width / 2)
        p = fit(lambda t, c=centre: f(c + t), width / 2, n)
        cells.append([rounded(f(mpf(centre)))] + [rounded(v) for v in p[1:]] + [centre])
    return list(zip(*cells, strict=True))


def log2_cells():
    """1 / R near the middle of 32 cells of [3/4, 3/2), and log2 R in three parts of at most 21 bits, which hold it to 2^-76."""
    rows = []
    for i in range(32):
        m = 1 + (i + mpf("0.5")) / 32
        middle = m if i < 16 else m / 2
        for j in range(100000):
            inverse = rounded(1 / middle, 20) + (j % 2 * 2 - 1) * j * 2.0**-20
            if i in (0, 31):
                inverse = 1.0
            y = -mpmath.log(inverse, 2)
            high = mpmath.nint(y * 2**20) / 2**20
            mid = rounded(y - high, 21)
            low = rounded(y - high - mid, 21)
            if abs(y - high - mid - low) < mpf(2) ** -76:
                break
        else:
            raise ValueError(i)
        rows.append((inverse, float(high), mid, low))
    return list(zip(*rows, strict=True))


def upper(x):
    """The upper half of a number whose lower half is 0."""
    bits = struct.unpack("<Q", struct.pack("<d", x))[0]
    assert bits & 0xFFFFFFFF == 0, x
    return bits >> 32


def c_rows(kind, name, comment, rows, show):
    body = ",\n".join("    {" + textwrap.fill(", ".join(show(v) for v in row), 150, subsequent_indent="    ") + "}" for row in rows)
    return f"/* {comment} */\nstatic const {kind} {name}[{len(rows)}][{len(rows[0])}] = {{\n{body}}};\n"


def by_cells(tables):
    """cell_rows.h: each table turned, with 16 numbers a cell."""
    out = (
        "/* Written by scripts/cell_tables.py: the tables of cell_tables.h, turned. */\n#ifndef FG_CELL_ROWS_H\n#define FG_CELL_ROWS_H\n\n"
    )
    for name, (rows, comment) in tables.items():
        turned = [(*cell, *[0.0] * (16 - len(cell))) for cell in zip(*rows, strict=True)]
        out += c_rows("double", f"fg_row_{name}_f64", comment, turned, repr)
    return out + "#endif\n"


def main():
    erf = cells_of(mpmath.erf, 5, 14, True, 5), "erf(x) by the bits of 5 x + 2: coefficients and centres; of the first cell less x"
    erfcx_cells = cells_of(erfcx, 1, 15), "e^(x^2) erfc(x) by the bits of x + 2"
    erf_inv = cells_of(inverse_erf_factor, mpf("0.8"), 14), "erf_inv(a) / a by the bits of 0.8 w + 2 for w = -log(1 - a^2)"
    out = "/* Written by scripts/cell_tables.py. */\n#ifndef FG_CELL_TABLES_H\n#define FG_CELL_TABLES_H\n#include <stdint.h>\n\n"
    for name, (rows, comment) in {"erf": erf, "erfcx": erfcx_cells, "erf_inv": erf_inv}.items():
        out += c_rows("double", f"fg_cell_{name}_f64", comment, rows, repr)
    comment = "Upper halves of float64: an inverse in each of 32 cells, and its logarithm in three parts"
    out += c_rows("uint32_t", "fg_cell_log2_f64", comment, log2_cells(), lambda v: f"0x{upper(v):08x}u") + "#endif\n"
    folder = Path(__file__).parent.parent / "fgrad" / "_kernels"
    (folder / "cell_tables.h").write_text(out)
    (folder / "cell_rows.h").write_text(by_cells({"erf": erf, "erfcx": erfcx_cells, "erf_inv": erf_inv}))

    ln2 = mpmath.log(2)
    with mp.workdps(80):

        def log_rest(r):
            """(log2(1 + r) - (r - r^2 / 2) / log 2) / r^3"""
            return sum((-1) ** k * r**k / (k + 3) for k in range(60)) / ln2

        def tan_rest(z):
            """(tan r - r) / r^3 of z = r^2"""
            return (mpmath.tan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z if z else mpf(1) / 3

        def power_rest(r):
            return mpmath.expm1(r * ln2) / r if r else ln2

        cell = mpf(1) / 32
        eighth = (mpmath.pi / 4 + mpf("1e-6")) ** 2
        for f, low, high, n in (
            (log_rest, -cell / 2, cell, 4),
            (log_rest, -cell / 2, cell, 9),
            (tan_rest, 0, eighth, 15),
            (power_rest, -cell, cell, 6),
        ):
            p, error = mpmath.chebyfit(f, [low, high], n, error=True)
            print(f.__name__, mpmath.nstr(error, 3), [rounded(v) for v in p[::-1]])


if __name__ == "__main__":
    main()
