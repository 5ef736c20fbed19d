"""What the special functions that are computed here share: piecewise Chebyshev series, operands, exact squares."""

import functools

import numpy as np

import fgrad.numpy as jnp
from fgrad import lax
from fgrad.api import jit
from fgrad.numpy.util import broadcasted


def operands(name, *args):
    """args promoted to one real float dtype and broadcast."""
    args = broadcasted(name, jnp.promote_dtypes_inexact(*args))
    if args[0].dtype.kind == "c":
        raise ValueError(f"{name} does not support complex-valued inputs.")
    return args


def single(fun):
    """fun of float arrays, jitted; 16-bit floats are computed in float32."""
    compiled = jit(fun)

    @functools.wraps(fun)
    def wrapped(*args):
        dtype = args[0].dtype
        if dtype.itemsize >= 4:
            return compiled(*args)
        out = compiled(*[a.astype(jnp.float32) for a in args])
        return tuple(y.astype(dtype) for y in out) if isinstance(out, tuple) else out.astype(dtype)

    return wrapped


def _shortened(table, eps):
    """(cuts, rows of coefficients of one length): without the terms that do not count in this precision, filled up with zeros."""
    cuts, pieces = table
    largest = [max(abs(c) for c in p) for p in pieces]
    n = max(1 + max(k for k, c in enumerate(p) if abs(c) > eps / 16 * top) for p, top in zip(pieces, largest))
    return cuts, [(p[:n] + (0.0,) * n)[:n] for p in pieces]


def chebyshev(table, s):
    """The piecewise Chebyshev series `table` at s, by Clenshaw's recurrence; s is clipped to its interval."""
    scalar = s.dtype.type
    cuts, rows = _shortened(table, np.finfo(np.float32 if s.dtype.itemsize == 4 else np.float64).eps)
    above = [s > scalar(c) for c in cuts[1:-1]]

    def pick(values):
        out = scalar(values[0])
        for mask, v in zip(above, values[1:]):
            out = jnp.where(mask, scalar(v), out)
        return out

    s = jnp.clip(s, scalar(cuts[0]), scalar(cuts[-1]))
    pairs = list(zip(cuts, cuts[1:]))
    t2 = (s - pick([(a + b) / 2 for a, b in pairs])) * pick([4 / (b - a) for a, b in pairs])  # twice the variable in [-1, 1]
    first = second = jnp.zeros_like(s)
    for k in range(len(rows[0]) - 1, 0, -1):
        first, second = pick([r[k] for r in rows]) + (t2 * first - second), first
    return pick([r[0] for r in rows]) + (t2 * scalar(0.5) * first - second)


def square_parts(x):
    """(high, low) with high + low = x * x to twice the precision: its exponential then has no error of x * x."""
    bits, dropped = (jnp.uint64, 27) if x.dtype.itemsize == 8 else (jnp.uint32, 12)
    mask = bits.dtype.type(-1 << dropped & (1 << 8 * x.dtype.itemsize) - 1)
    high = lax.bitcast_convert_type(lax.bitcast_convert_type(x, bits) & mask, x.dtype)
    low = jnp.where(jnp.isfinite(x), x - high, 0)
    return high * high, jnp.where(low == 0, 0, low * (x + high))
