"""Algebra on selections as they are lowered: arithmetic goes into the cases, where constants fold and selections meet.

Every rule keeps all bits: m ? a : b, then an operation, is the operation on a or on b. Beside them, a float32 quotient by a root is a
product with the inverse root, as XLA has it, which may change the last bit.
"""

import numpy as np

from fgrad import dtypes
from fgrad.compile.algebra import COMPARISONS, folded

from fgrad.compile.algebra cimport made_by
from fgrad.compile.values cimport Value

cdef frozenset _OPS = frozenset(("add", "sub", "mul", "div", "neg", "square", "abs"))
cdef tuple _FLOATS = (dtypes.FLOAT32, dtypes.FLOAT64)
cdef enum:
    DEPTH = 3                            # of selections within selections that a constant goes through


cpdef object distribute(ctx, str op, list ins, aval):
    """The value of op(*ins), made of selections of constants where that is cheaper; else None."""
    cdef Value v
    cdef bint selects = True
    if op == "div" and aval.dtype == _FLOATS[0]:
        v = ins[1]
        root = made_by(v, "sqrt")
        if root is not None:
            return ctx.elementwise("mul", [ins[0], ctx.elementwise("rsqrt", root, aval.update(shape=v.shape))], aval)
    if op == "cast":
        return _cast_of_comparison(ctx, ins[0], aval)
    if op not in _OPS or aval.dtype not in _FLOATS:
        return None
    for v in ins:
        selects = selects and (v.buf is None or made_by(v, "select") is not None)
    if not selects:
        return None
    out = _with_constant(ctx, op, ins, aval, DEPTH)
    return out if out is not None or len(ins) != 2 else _pair(ctx, op, ins, aval)


cdef object _cast_of_comparison(ctx, Value x, aval):
    """A comparison as numbers is a choice of 1 or 0, which the comparison becomes part of."""
    if x.buf is None or x.dtype != dtypes.BOOL or aval.dtype.kind not in "fi" or x.shape != aval.shape:
        return None
    for op in COMPARISONS:
        pair = made_by(x, op)
        if pair is not None:
            if pair[0].dtype.kind not in "fi" or not pair[0].dtype.itemsize == aval.dtype.itemsize >= 4:
                return None
            return ctx.elementwise("select", [x, ctx.scalar(1, aval.dtype), ctx.scalar(0, aval.dtype)], aval)
    return None


def _with_constant(ctx, str op, list ins, aval, int depth):
    """An operation on a selection between constants, and constants: a selection between other constants."""
    if all(v.buf is None for v in ins):
        return folded(op, ins, aval)
    at = [k for k, v in enumerate(ins) if v.buf is not None]
    if len(at) > 1 or depth == 0 or (case := made_by(ins[at[0]], "select")) is None or case[0].shape != aval.shape:
        return None
    cases = [_with_constant(ctx, op, [x if k == at[0] else v for k, v in enumerate(ins)], aval, depth - 1) for x in case[1:]]
    return None if None in cases else ctx.elementwise("select", [case[0], *cases], aval)


def _pair(ctx, str op, list ins, aval):
    """Two selections by one mask: the operation on their cases, where that leaves constants or the sum of a case and 0."""
    a, b = made_by(ins[0], "select"), made_by(ins[1], "select")
    if a is None or b is None or a[0].key() != b[0].key() or a[0].shape != aval.shape:
        return None
    cases = [folded(op, [x, y], aval) if x.buf is None and y.buf is None else None for x, y in zip(a[1:], b[1:])]
    if None not in cases:
        return ctx.elementwise("select", [a[0], *cases], aval)
    for x, y in ((a, b), (b, a)):
        if op == "add" and _is_zero(x[2]) and _is_zero(y[1]):
            return ctx.elementwise("add", [ctx.elementwise("select", [a[0], x[1], y[2]], aval), x[2]], aval)
    return None


cdef bint _is_zero(Value v) except -1:
    return v.buf is None and bool(v.scalar == 0) and not np.signbit(v.scalar)
