"""Complex numbers that operations put together from their parts stay apart as they are lowered: what reads them computes with the parts.

So real numbers run in strips and in registers where complex ones would be stored and taken apart again, and a part that nobody reads is
not computed. Parts are what the loops over complex numbers compute, products by 0 included, which keep the NaN of an infinite part; only
that they round products before they add them, where those loops may not. What reads numbers where they lie side by side (a transform, a
product, a result) puts them together, and so does an operation with another operand that lies so: to take that apart and put the result
together costs more than to put this one together. Few numbers may be a loop's, whose flat code takes a step for each operation: they are
not computed in parts, which are more operations.
"""

import numpy as np

from fgrad import dtypes
from fgrad.compile.algebra import made_by
from fgrad.core import ShapedArray

LEAST = 300  # numbers that are computed in parts
OPENED = 4  # operations in a row that are computed anew in parts
TAKEN = 15  # hundredths of a nanosecond that a number takes to be taken apart,
_COSTS = {
    "mul": (14, 5),
    "square": (10, 5),
    "conj": (11, 0),
    "add": (8, 2),
    "sub": (8, 2),
    "neg": (8, 1),
}  # and operations, whole and in parts
FEW = 8  # how often as many elements an operand may be repeated to be taken apart


def _real_aval(v, dtype=None):
    return ShapedArray(v.shape, dtypes.to_real(dtype or v.dtype))


def _known(ctx, v):
    """The parts of v where it is a constant or was made of them, or of real numbers; else None."""
    part = dtypes.to_real(v.dtype)
    if v.buf is None:
        return [ctx.broadcast(ctx.scalar(x, part), v.shape, ()) for x in (v.scalar.real, v.scalar.imag)]
    if (real := _made_of_real(v)) is not None:
        return [ctx.elementwise("cast", [real], _real_aval(v)), ctx.broadcast(ctx.scalar(0, part), v.shape, ())]
    if (parts := made_by(v, "complex")) is not None:
        return parts
    if _is_apart(ctx, v):
        return _apart(ctx, v)
    turned = made_by(v, "conj")
    return _TO_COMPLEX["conj"](_Parts(ctx, v.aval), _apart(ctx, turned[0])) if turned is not None and _is_apart(ctx, turned[0]) else None


def _is_apart(ctx, v):
    """True if both parts of v were taken already."""
    return ctx.apart >= {("real", v.key()), ("imag", v.key())}


def _made_of_real(v):
    made = made_by(v, "cast")
    return None if made is None or made[0].dtype.kind == "c" else made[0]


def _known_or_small(ctx, v, aval):
    """The same, and of what takes little time to be taken apart; else None."""
    parts = _known(ctx, v)
    return _apart(ctx, v) if parts is None and v.buf.size * FEW <= aval.size else parts


def _apart(ctx, v):
    return [ctx.elementwise(part, [v], _real_aval(v)) for part in ("real", "imag")]


def _costs(ctx, v, leaves, depth=OPENED):
    """What v's operations take on complex numbers, and in parts once `leaves`, which are added to, are taken apart."""
    if _known(ctx, v) is not None:
        return 0, 0
    for op, (whole, parts) in _COSTS.items() if depth else ():
        if (ins := made_by(v, op)) is not None:
            below = [_costs(ctx, x, leaves, depth - 1) for x in ins]
            return whole + sum(c for c, _ in below), parts + sum(c for _, c in below)
    leaves[v.key()] = v
    return 0, 0


def _opened(ctx, v, depth=OPENED):
    """The parts of v, by those of what it was computed from."""
    if (parts := _known(ctx, v)) is not None:
        return parts
    for op in _COSTS if depth else ():
        if (ins := made_by(v, op)) is not None:
            return _TO_COMPLEX[op](_Parts(ctx, v.aval), *[_opened(ctx, x, depth - 1) for x in ins])
    return _apart(ctx, v)


def _part_of(ctx, op, v, aval):
    """The real or the imaginary part of v, without v where its operations cost less in parts, as those of x * conj(x)."""
    if (op, v.key()) in ctx.apart:
        return None
    leaves: dict = {}
    whole, parts = _costs(ctx, v, leaves)
    if whole and whole > parts + len(leaves) * TAKEN and all(x.shape == aval.shape for x in leaves.values()):
        return _opened(ctx, v)[op == "imag"]
    if not whole and ctx.cse:
        ctx.apart.add((op, v.key()))
    return None


def _is_zero(v):
    return v.buf is None and v.scalar == 0 and not np.signbit(v.scalar)


class _Parts:
    """Operations on real values of one shape."""

    def __init__(self, ctx, aval):
        self.ctx, self.aval = ctx, ShapedArray(aval.shape, dtypes.to_real(aval.dtype))

    def __call__(self, op, *ins):
        return self.ctx.elementwise(op, list(ins), self.aval)

    def plus(self, a, x, y):
        """a + x y."""
        negated = made_by(y, "neg")
        return self("add", a, self("mul", x, y)) if negated is None else self("sub", a, self("mul", x, negated[0]))

    def minus(self, a, x, y):
        negated = made_by(y, "neg")
        return self("sub", a, self("mul", x, y)) if negated is None else self("add", a, self("mul", x, negated[0]))


def _sum(do, x, y):
    """x + y, which is y where x is 0 and y is a sum with 0 (and not -0) already: the imaginary part of a + 1j b."""
    for zero, other in ((x, y), (y, x)):
        if _is_zero(zero) and other.shape == do.aval.shape and any(map(_is_zero, made_by(other, "add") or ())):
            return other
    return do("add", x, y)


def _mul(do, x, y):
    return do.minus(do("mul", x[0], y[0]), x[1], y[1]), do.plus(do("mul", x[1], y[0]), x[0], y[1])


def _square(do, x):
    product = do("mul", x[0], x[1])
    return do("mul", do("sub", *x), do("add", *x)), do("add", product, product)


_TO_COMPLEX = {
    "add": lambda do, x, y: (_sum(do, x[0], y[0]), _sum(do, x[1], y[1])),
    "sub": lambda do, x, y: (do("sub", x[0], y[0]), do("sub", x[1], y[1])),
    "mul": _mul,
    "neg": lambda do, x: (do("neg", x[0]), do("neg", x[1])),
    "conj": lambda do, x: (x[0], do("neg", x[1])),
    "square": _square,
    "log": lambda do, x: (do("log_hypot", *x), do("atan2", x[1], x[0])),
}
_TO_REAL = {
    "real": lambda do, x: x[0],
    "imag": lambda do, x: x[1],
    "abs": lambda do, x: do("hypot", *x),
}


def in_parts(ctx, op, ins, aval):
    """The value of op(*ins), an operation on complex numbers of which one was made of its parts; None where that is not so."""
    if aval.size < LEAST:
        parts = made_by(ins[0], "complex") if op in ("real", "imag") else None
        return None if parts is None else parts[op == "imag"]
    if op == "cast":
        return _cast(ctx, ins[0], aval)
    if op == "div":
        return _div(ctx, *ins, aval)
    if op in ("real", "imag") and (part := _part_of(ctx, op, ins[0], aval)) is not None:
        return part
    given = ins[1:] if op == "select" else ins
    if all(v.buf is None or made_by(v, "complex") is None and _made_of_real(v) is None for v in given):
        return None
    rule = _TO_COMPLEX.get(op)
    if rule is None and op not in _TO_REAL and op not in ("select", "eq", "ne", "is_finite"):
        return None
    parts = [_known_or_small(ctx, v, aval) for v in given]
    if None in parts:
        return None
    if op in ("eq", "ne"):
        same = [ctx.elementwise(op, [x, y], aval) for x, y in zip(*parts)]
        return ctx.elementwise("and" if op == "eq" else "or", same, aval)
    if op == "is_finite":
        return ctx.elementwise("and", [ctx.elementwise(op, [x], aval) for x in parts[0]], aval)
    do = _Parts(ctx, aval)
    if op == "select":
        return ctx.elementwise("complex", [do("select", ins[0], x, y) for x, y in zip(*parts)], aval)
    if rule is not None:
        return ctx.elementwise("complex", list(rule(do, *parts)), aval)
    out = _TO_REAL[op](do, *parts)
    return out if out.shape == aval.shape else ctx.broadcast(out, aval.shape, ())


def _cast(ctx, x, aval):
    if x.buf is None:
        return ctx.broadcast(ctx.scalar(x.scalar, aval.dtype), aval.shape, ()) if aval.dtype.kind == "c" else None
    if x.dtype.kind != "c" or aval.dtype.kind not in "fc" or (parts := _known(ctx, x)) is None:
        return None
    real = _real_aval(x, aval.dtype)
    parts = [ctx.elementwise("cast", [v], real) for v in parts[: 1 + (aval.dtype.kind == "c")]]
    return parts[0] if len(parts) == 1 else ctx.elementwise("complex", parts, aval)


def _div(ctx, x, y, aval):
    """By a real number c: (a + 0 b) / c and (b - 0 a) / c, but a / 0 and b / 0. By a constant it is a product with its inverse."""
    divisor = _known(ctx, y)
    if divisor is None or not _is_zero(divisor[1]):
        return None
    c = divisor[0]
    if c.buf is None:
        size = abs(float(c.scalar))
        return ctx.elementwise("mul", [x, ctx.scalar(1 / c.scalar, aval.dtype)], aval) if 2.0**-60 < size < 2.0**60 else None
    do = _Parts(ctx, aval)
    a, b = _known(ctx, x) or _apart(ctx, x)
    zero = ctx.scalar(0, c.dtype)
    none = ctx.elementwise("eq", [c, zero], ShapedArray(aval.shape, dtypes.BOOL))
    parts = (do("select", none, a, do("add", a, do("mul", b, zero))), do("select", none, b, do("sub", b, do("mul", a, zero))))
    return ctx.elementwise("complex", [do("div", part, c) for part in parts], aval)
