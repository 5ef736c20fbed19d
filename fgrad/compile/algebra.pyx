"""Algebra on elementwise operations as they are lowered: what IEEE arithmetic makes equal, bit for bit.

Three exceptions may change the last bit: a product with two constants becomes a product with theirs (one rounding less, as XLA has it),
a quotient by a constant a product with its inverse (as XLA has it), and a sum of repeated elements a product with their number.
"""

import numpy as np

from fgrad import dtypes

from fgrad.compile.bounds cimport compared, only, within
from fgrad.compile.values cimport Node, Value, new_value, row_major
from fgrad.core.ir cimport AvalBase

cdef object F32 = dtypes.FLOAT32
cdef tuple _FLOATS = (F32, dtypes.FLOAT64)
cdef tuple _NUMBERS = (np.float32, np.float64)
cdef dict _SCALAR_OPS = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "neg": np.negative,
    "square": np.square,
    "abs": np.abs,
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
cdef frozenset _ANY_DTYPE = frozenset(("select", "cast", "clamp", "max", "min", "and", "or", "shr_arith", *COMPARISONS))
COMMUTATIVE = frozenset(("add", "mul", "eq", "ne", "and", "or", "xor"))


cdef tuple simplify(str op, list ins, AvalBase aval):
    """(op, operands) of a cheaper operation with the same result; (None, [v]) where that is the value v; None where there is none."""
    cdef int i
    cdef tuple new
    for i in range(4):                 # each rule may make room for another
        rule = _rules.get(op)
        new = None if rule is None else _step(rule, op, ins, aval)
        if new is None:
            return None if i == 0 else (op, ins)
        op, ins = new
        if op is None:
            break
    return op, ins


cdef tuple _step(rule, str op, list ins, AvalBase aval):
    cdef Value v, same = _unchanged(op, ins, aval)
    if same is not None:
        return None, [same]
    if aval.dtype not in _FLOATS and op not in _ANY_DTYPE:
        return None
    for v in ins:
        if v.buf is not None:
            return rule(ins, aval)
    return (None, [folded(op, ins, aval)]) if op in _SCALAR_OPS else rule(ins, aval)


def folded(str op, list ins, aval):
    """The constant that an operation on constants gives."""
    with np.errstate(all="ignore"):
        return _constant(_SCALAR_OPS[op](*[v.scalar for v in ins]), aval.shape, aval.dtype)


cdef Value _unchanged(str op, list ins, AvalBase aval):
    """The operand that an operation leaves as it is (x * 1, x / 1, x - 0, of integers x + 0), or None."""
    cdef Value x, y
    cdef int i
    cdef bint sum = op == "add" and aval.dtype is not F32 and aval.dtype.kind in "iu"
    if op != "mul" and op != "div" and op != "sub" and not sum:
        return None
    for i in range(2 if op == "mul" or sum else 1):
        x, y = ins[i], ins[1 - i]
        if y.buf is not None or not _equals(y.scalar, 0 if op == "sub" or sum else 1) or x.shape != aval.shape or aval.dtype == dtypes.BOOL:
            continue
        if op != "sub" or not np.signbit(np.real(y.scalar)):
            return x
    return None


cdef bint _equals(scalar, int number) except -1:
    """scalar == number, without NumPy's comparison where floats need none."""
    return <double>scalar == number if type(scalar) in _NUMBERS else bool(scalar == number)


cdef Value _constant(value, tuple shape, dtype):
    return new_value(None, shape, (0,) * len(shape), 0, dtype, dtype.type(value), 0)


cpdef list made_by(Value v, str op):
    """The operands of the operation that computed all of v, if it is `op`; else None."""
    cdef Node node
    cdef Value x
    if v.buf is None or v.buf.node is None:
        return None
    node = v.buf.node
    if node.op != op or node.kind != "ew" or v.shape != node.shape or not v.whole():
        return None
    for x in node.ins:
        if x.buf is not None and x.tag != v.tag:
            return None                  # nothing is read past a barrier
    return node.ins


cdef tuple _scaled(Value v):
    """(c, x) where v is x times a constant, else None."""
    cdef Value a, b
    cdef list ins = made_by(v, "mul")
    if ins is None:
        return None
    a, b = ins
    return (a, b) if a.buf is None else (b, a) if b.buf is None else None


def _neg(list ins, aval):
    cdef Value x = ins[0], c
    cdef list inner = made_by(x, "neg")
    if inner is not None:
        return None, inner[:1]
    pair = _scaled(x)
    if pair is not None:
        c = pair[0]
        return "mul", [_constant(-c.scalar, () if c.shape == () else aval.shape, aval.dtype), pair[1]]
    return None


def _mul(list ins, aval):
    cdef Value x = ins[0], y = ins[1], c
    cdef list a, b
    if x.buf is None:
        x, y = y, x
    if y.buf is None:
        if x.buf is None:
            return None
        if y.scalar == -1:
            return "neg", [x]
        a = made_by(x, "neg")
        if a is not None:
            return "mul", [_constant(-y.scalar, y.shape, aval.dtype), a[0]]
        pair = _scaled(x)
        if pair is not None:
            c = pair[0]
            product = _product(y.scalar, c.scalar)
            if product is not None:
                return "mul", [_constant(product, y.shape, aval.dtype), pair[1]]
        return None
    a = made_by(x, "neg")
    b = None if a is None else made_by(y, "neg")
    return None if b is None else ("mul", [a[0], b[0]])


cdef object _product(a, b):
    """a * b where multiplying by it overflows and underflows as multiplying by a and then b does, else None."""
    cdef double p = abs(float(a)), q = abs(float(b))
    if not (1 <= p < 2.0**60 and 1 <= q < 2.0**60 or 2.0**-60 < p <= 1 and 2.0**-60 < q <= 1):
        return None
    return a * b


def _div(list ins, aval):
    cdef Value y = ins[1]
    if y.buf is not None:
        return None
    size = abs(float(y.scalar))
    if 2.0**-60 < size < 2.0**60:        # a division takes the time of six products
        return "mul", [ins[0], _constant(1 / y.scalar, y.shape, aval.dtype)]
    return None


def _add(list ins, aval):
    cdef list inner = made_by(ins[1], "neg")
    if inner is not None:
        return "sub", [ins[0], inner[0]]
    inner = made_by(ins[0], "neg")
    return None if inner is None else ("sub", [ins[1], inner[0]])


def _sub(list ins, aval):
    cdef list inner = made_by(ins[1], "neg")
    return None if inner is None else ("add", [ins[0], inner[0]])


def _even(op):
    """Of an operation that does not see its operand's sign."""

    def rule(list ins, aval):
        inner = made_by(ins[0], "neg")
        return None if inner is None else (op, inner[:1])

    return rule


def _select(list ins, aval):
    cdef Value x = ins[1], y = ins[2]
    if x.key() == y.key() and x.shape == aval.shape:
        return None, [x]
    cdef Value chosen = ins[0]
    cdef list inner
    if chosen.buf is not None:
        inner = made_by(x, "select")
        return (None, [x]) if inner is not None and _same(inner[2], y, aval) and _anywhere(chosen, inner[0]) else None
    chosen = x if chosen.scalar else y
    if chosen.buf is None:
        return None, [_constant(chosen.scalar, aval.shape, aval.dtype)]
    return (None, [chosen]) if chosen.shape == aval.shape else None


cdef bint _same(Value x, Value y, AvalBase aval) except -1:
    return x.key() == y.key() and x.shape == y.shape == aval.shape


cdef bint _anywhere(Value m, Value mask) except -1:
    """True if m is, at each element, whether the mask holds anywhere along some axes: where it does not, neither does the mask."""
    cdef Node node = m.buf.node
    cdef Value x
    cdef tuple axes
    if node is None or node.kind != "reduce" or node.op != "max" or m.dtype != dtypes.BOOL or m.offset or m.shape != mask.shape:
        return False
    x, axes = node.ins[0], node.axes
    if x.tag != m.tag or mask.tag != m.tag or x.key() != mask.key() or x.shape != mask.shape:
        return False
    kept = iter(row_major(tuple([n for a, n in enumerate(x.shape) if a not in axes])))
    strides = [0 if a in axes else next(kept) for a in range(len(x.shape))]
    return all([n == 1 or s == t for n, s, t in zip(m.shape, m.strides, strides)])


def _compare(op):
    def rule(list ins, AvalBase aval):
        known = compared(op, ins[0], ins[1])
        return None if known is None else (None, [_constant(known, aval.shape, aval.dtype)])

    return rule


def _logic(op, neutral):
    """and, or: of booleans of which one is known."""

    def rule(list ins, AvalBase aval):
        cdef Value x = ins[0], y = ins[1]
        if x.buf is None:
            x, y = y, x
        if y.buf is not None or aval.dtype != dtypes.BOOL:
            return None
        if bool(y.scalar) is not neutral:
            return None, [_constant(y.scalar, aval.shape, aval.dtype)]
        return (None, [x]) if x.shape == aval.shape else None

    return rule


def _one(op, rule=None):
    """Operations on integers of which bounds leave one result, as the sign of what is not negative; others go to `rule`."""

    def of_bounds(list ins, AvalBase aval):
        known = only(op, ins, aval)
        if known is not None:
            return None, [_constant(known, aval.shape, aval.dtype)]
        return None if rule is None else rule(ins, aval)

    return of_bounds


def _clamp(list ins, aval):
    cdef Value x = ins[1]
    return (None, [x]) if x.shape == aval.shape and within(x, ins[0], ins[2]) else None


def _max(list ins, aval):
    cdef Value a, x
    a, x = ins if (<Value>ins[0]).buf is None else ins[::-1]
    return (None, [x]) if x.shape == aval.shape and within(x, a, None) else None


def _min(list ins, aval):
    cdef Value a, x
    a, x = ins if (<Value>ins[0]).buf is None else ins[::-1]
    return (None, [x]) if x.shape == aval.shape and within(x, None, a) else None


def _cast(list ins, aval):
    cdef Value x = ins[0], inner
    if x.buf is None and x.dtype.kind != "c" and dtypes.is_float(aval.dtype):
        with np.errstate(all="ignore"):
            return None, [_constant(np.asarray(x.scalar).astype(aval.dtype)[()], aval.shape, aval.dtype)]
    made = made_by(x, "cast")
    if made is None:
        return None
    inner = made[0]
    if inner.dtype != aval.dtype or inner.shape != aval.shape:
        return None
    return (None, [inner]) if _holds(x.dtype, aval.dtype) else None


def _holds(wide, narrow):
    """True if every value of one dtype is one of the other, so that the way there and back changes nothing."""
    if dtypes.BFLOAT16 in (wide, narrow):
        return narrow == dtypes.BFLOAT16 and wide in _FLOATS
    return bool(np.can_cast(narrow, wide, "safe"))


cdef dict _rules = {
    "neg": _neg,
    "mul": _mul,
    "div": _div,
    "add": _add,
    "sub": _sub,
    "abs": _even("abs"),
    "square": _even("square"),
    "select": _select,
    "clamp": _clamp,
    "max": _max,
    "min": _min,
    "cast": _cast,
    "and": _one("and", _logic("and", True)),
    "shr_arith": _one("shr_arith"),
    "or": _logic("or", False),
    **{op: _compare(op) for op in COMPARISONS},
}
