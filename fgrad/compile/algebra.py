"""Algebra on elementwise operations as they are lowered: what IEEE arithmetic makes equal, bit for bit.

Three exceptions may change the last bit: a product with two constants becomes a product with theirs (one rounding less, as XLA has it),
a quotient by a constant a product with its inverse (as XLA has it), and a sum of repeated elements a product with their number.
"""

import numpy as np

from fgrad import dtypes

_FLOATS = (dtypes.FLOAT32, dtypes.FLOAT64)
_SCALAR_OPS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "square": np.square,
    "abs": np.abs,
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
COMMUTATIVE = frozenset(("add", "mul", "eq", "ne", "and", "or", "xor"))


def simplify(op, ins, aval):
    """(op, operands) of a cheaper operation with the same result; (None, [v]) where that is the value v."""
    if op not in _RULES:
        return op, ins
    for _ in range(4):  # each rule may make room for another
        new = _step(op, ins, aval)
        if new is None:
            return op, ins
        op, ins = new
        if op is None:
            return op, ins
    return op, ins


def _step(op, ins, aval):
    rule = _RULES.get(op)
    if rule is None:
        return None
    if (same := _unchanged(op, ins, aval)) is not None:
        return None, [same]
    if aval.dtype not in _FLOATS and op not in ("select", "cast"):
        return None
    if op in _SCALAR_OPS and all(v.buf is None for v in ins):
        return None, [folded(op, ins, aval)]
    return rule(ins, aval)


def folded(op, ins, aval):
    """The constant that an operation on constants gives."""
    with np.errstate(all="ignore"):
        return _constant(ins[0], _SCALAR_OPS[op](*[v.scalar for v in ins]), aval)


def _unchanged(op, ins, aval):
    """The operand that an operation leaves as it is (x * 1, x / 1, x - 0), or None."""
    if op not in ("mul", "div", "sub") or aval.dtype == dtypes.BOOL:
        return None
    one = 0 if op == "sub" else 1
    for x, y in (ins, ins[::-1]) if op == "mul" else (ins,):
        if y.buf is None and y.scalar == one and x.shape == aval.shape and (op != "sub" or not np.signbit(np.real(y.scalar))):
            return x
    return None


def _constant(v, value, aval):
    return type(v)(None, aval.shape, (0,) * len(aval.shape), 0, aval.dtype, aval.dtype.type(value))


def made_by(v, op):
    """The operands of the operation that computed all of v, if it is `op`; else None."""
    node = v.buf.node if v.buf is not None else None
    if node is None or node.kind != "ew" or node.op != op or v.shape != node.shape or not v.whole():
        return None
    return node.ins if all(x.tag == v.tag for x in node.ins if x.buf is not None) else None  # nothing is read past a barrier


def _scaled(v):
    """(c, x) where v is x times a constant, else None."""
    ins = made_by(v, "mul")
    if ins is None:
        return None
    a, b = ins
    return (a, b) if a.buf is None else (b, a) if b.buf is None else None


def _neg(ins, aval):
    (x,) = ins
    if (inner := made_by(x, "neg")) is not None:
        return None, [inner[0]]
    if (pair := _scaled(x)) is not None:
        c, y = pair
        return "mul", [_constant(c, -c.scalar, aval.update(shape=()) if c.shape == () else aval), y]
    return None


def _mul(ins, aval):
    x, y = ins
    if x.buf is None:
        x, y = y, x
    if y.buf is None:
        if x.buf is None:
            return None
        shape = aval.update(shape=y.shape)
        if y.scalar == -1:
            return "neg", [x]
        if (inner := made_by(x, "neg")) is not None:
            return "mul", [_constant(y, -y.scalar, shape), inner[0]]
        if (pair := _scaled(x)) is not None and (product := _product(y.scalar, pair[0].scalar)) is not None:
            return "mul", [_constant(y, product, shape), pair[1]]
        return None
    a, b = made_by(x, "neg"), made_by(y, "neg")
    return ("mul", [a[0], b[0]]) if a is not None and b is not None else None


def _product(a, b):
    """a * b where multiplying by it overflows and underflows as multiplying by a and then b does, else None."""
    p, q = abs(float(a)), abs(float(b))
    if not (1 <= p < 2.0**60 and 1 <= q < 2.0**60 or 2.0**-60 < p <= 1 and 2.0**-60 < q <= 1):
        return None
    return a * b


def _div(ins, aval):
    x, y = ins
    if y.buf is not None:
        return None
    size = abs(float(y.scalar))
    if 2.0**-60 < size < 2.0**60:  # a division takes the time of six products
        return "mul", [x, _constant(y, 1 / y.scalar, aval.update(shape=y.shape))]
    return None


def _add(ins, aval):
    x, y = ins
    if (inner := made_by(y, "neg")) is not None:
        return "sub", [x, inner[0]]
    if (inner := made_by(x, "neg")) is not None:
        return "sub", [y, inner[0]]
    return None


def _sub(ins, aval):
    x, y = ins
    if (inner := made_by(y, "neg")) is not None:
        return "add", [x, inner[0]]
    return None


def _even(op):
    """Of an operation that does not see its operand's sign."""

    def rule(ins, aval):
        inner = made_by(ins[0], "neg")
        return None if inner is None else (op, [inner[0]])

    return rule


def _select(ins, aval):
    _, x, y = ins
    return (None, [x]) if x.key() == y.key() and x.shape == aval.shape else None


def _cast(ins, aval):
    (x,) = ins
    if x.buf is None and x.dtype.kind != "c" and dtypes.is_float(aval.dtype):
        with np.errstate(all="ignore"):
            return None, [_constant(x, np.asarray(x.scalar).astype(aval.dtype)[()], aval)]
    inner = made_by(ins[0], "cast")
    if inner is None or inner[0].dtype != aval.dtype or inner[0].shape != aval.shape:
        return None
    return (None, [inner[0]]) if _holds(ins[0].dtype, aval.dtype) else None


def _holds(wide, narrow):
    """True if every value of one dtype is one of the other, so that the way there and back changes nothing."""
    if dtypes.BFLOAT16 in (wide, narrow):
        return narrow == dtypes.BFLOAT16 and wide in _FLOATS
    return bool(np.can_cast(narrow, wide, "safe"))


_RULES = {
    "neg": _neg,
    "mul": _mul,
    "div": _div,
    "add": _add,
    "sub": _sub,
    "abs": _even("abs"),
    "square": _even("square"),
    "select": _select,
    "cast": _cast,
}
