"""Algebra on selections as they are lowered: arithmetic goes into the cases, where constants fold and selections meet.

Every rule keeps all bits: m ? a : b, then an operation, is the operation on a or on b. Beside them, a float32 quotient by a root is a
product with the inverse root, as XLA has it, which may change the last bit.
"""

import numpy as np

from fgrad import dtypes
from fgrad.compile.algebra import COMPARISONS, folded

from fgrad.compile.algebra cimport made_by
from fgrad.compile.values cimport Value
from fgrad.core.ir cimport AvalBase

cdef frozenset _OPS = frozenset(("add", "sub", "mul", "div", "neg", "square", "abs"))
cdef tuple _FLOATS = (dtypes.FLOAT32, dtypes.FLOAT64)
cdef enum:
    DEPTH = 3                            # of selections within selections that a constant goes through


cdef object distribute(ctx, str op, list ins, AvalBase aval):
    """The value of op(*ins), made of selections of constants where that is cheaper; else None."""
    cdef Value v
    cdef bint selects = True
    if op not in _OPS:
        return _cast_of_comparison(ctx, ins[0], aval) if op == "cast" else None
    if op == "div" and aval.dtype == _FLOATS[0]:
        v = ins[1]
        root = made_by(v, "sqrt")
        if root is not None:
            return ctx.elementwise("mul", [ins[0], ctx.elementwise("rsqrt", root, aval.update(shape=v.shape))], aval)
    if aval.dtype not in _FLOATS:
        return None
    if len(ins) == 2 and _may_select(ins[0]) and _may_select(ins[1]):
        out = _meet(ctx, op, ins, aval)
        if out is not None:
            return out
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


cdef bint _may_select(Value v) except -1:
    """False where `_chain` finds no selection."""
    cdef list ins
    cdef Value a, b
    if made_by(v, "select") is not None:
        return True
    ins = made_by(v, "mul")
    if ins is None:
        return False
    a, b = ins
    return (a.buf is None) != (b.buf is None) and made_by(b if a.buf is None else a, "select") is not None


def _meet(ctx, op, ins, aval):
    """Chains of selections by the same masks: one chain, of the operation on the constants and on what the chains end in.

    The product rule makes such pairs of x * f(x), for an f made of pieces; the derivative's chain has the masks in the other order,
    which does not matter where a chain has one constant.
    """
    (a, x, p), (b, y, q) = (_chain(v, aval) for v in ins)
    if not a or len(a) != len(b) or x.shape != aval.shape or y.shape != aval.shape:
        return None
    if [case[:2] for case in a] != [case[:2] for case in b]:
        if {case[:2] for case in a} != {case[:2] for case in b}:
            return None
        if len({case[3].key() for case in b}) == 1:
            b = [(*case[:3], b[0][3]) for case in a]
        elif len({case[3].key() for case in a}) == 1:
            a = [(*case[:3], a[0][3]) for case in b]
        else:
            return None
    constants = [folded(op, [_times(ctx, u[3], p, aval), _times(ctx, v[3], q, aval)], aval) for u, v in zip(a, b)]
    if None in constants:
        return None
    out = ctx.elementwise(op, [_times(ctx, x, p, aval), _times(ctx, y, q, aval)], aval)
    for (_, place, mask, _), constant in zip(reversed(a), reversed(constants)):
        out = ctx.elementwise("select", [mask, constant, out] if place == 1 else [mask, out, constant], aval)
    return out


def _chain(Value v, aval):
    """Selections between a constant and the next: ([(mask's key, the constant's place, mask, constant)], what ends them, factor)."""
    cdef list chain = []
    product, factor = made_by(v, "mul"), None
    if product is not None and (product[0].buf is None) != (product[1].buf is None):
        v, factor = product if product[1].buf is None else product[::-1]
    while (case := made_by(v, "select")) is not None and len(chain) < DEPTH:
        if case[0].shape != aval.shape or (case[1].buf is None) == (case[2].buf is None):
            break
        place = 1 if case[1].buf is None else 2
        chain.append((case[0].key(), place, case[0], case[place]))
        v = case[3 - place]
    return chain, v, factor


def _times(ctx, Value v, factor, aval):
    if factor is None:
        return v
    return folded("mul", [v, factor], aval) if v.buf is None else ctx.elementwise("mul", [v, factor], aval)


cdef bint _is_zero(Value v) except -1:
    return v.buf is None and bool(v.scalar == 0) and not np.signbit(v.scalar)
