"""Matrices that a loop multiplies single vectors by are turned before it, where their rows are short.

In order, each row times the vector is a sum across a register; turned, rows are added up, and nothing is summed across.
"""

from fgrad import dtypes
from fgrad.core import Eqn, Literal, ShapedArray, Var
from fgrad.ops.casts import copy_p
from fgrad.ops.shape import transpose_p

SHORT = 64  # elements of a row; longer ones are read as fast as they come
LEAST = 128  # elements of a matrix
STEPS = 16  # of a loop
DTYPES = (dtypes.FLOAT32, dtypes.FLOAT64)


def turn_matrices(jaxpr, n):
    """The jaxpr of a loop's body, with such products of what depends on its first n inputs only written for the turned matrix."""
    fixed, maker, eqns, turned = set(jaxpr.invars[:n]), {}, [], {}
    for e in jaxpr.eqns:
        if all(type(v) is Literal or v in fixed for v in e.invars) and not e.primitive.effects_of(e.params):
            fixed.update(e.outvars)
            maker.update({v: e for v in e.outvars})
        found = _matrix(e, fixed, maker) if e.primitive.name == "dot_general" else None
        if found is None:
            eqns.append(e)
            continue
        side, axis = found
        matrix = e.invars[side]
        if (matrix, axis) not in turned:
            turned[matrix, axis] = _turned(matrix, axis, eqns, e.source)
        ins = list(e.invars)
        ins[side] = turned[matrix, axis]
        params = {**e.params, "dimension_numbers": (((0,), (0,)), ((), ()))}
        eqns.append(Eqn(e.primitive, ins, e.outvars, params, e.source))
    return jaxpr.replace(eqns=eqns) if turned else jaxpr


def _matrix(e, fixed, maker):
    """(which operand, the axis that is summed over) of a product of a fixed matrix, or several, whose short rows lie along that axis, and
    a vector that is not; None for any other."""
    contract, (batch, _) = e.params["dimension_numbers"]
    for side, (matrix, vector) in enumerate((e.invars, e.invars[::-1])):
        if batch or type(matrix) is Literal or type(vector) is Literal or matrix not in fixed or vector in fixed:
            continue
        aval = matrix.aval
        if aval.ndim < 2 or vector.aval.ndim != 1 or aval.dtype not in DTYPES or aval.size < LEAST or len(contract[side]) != 1:
            continue
        (axis,) = contract[side]
        is_view = matrix in maker and maker[matrix].primitive is transpose_p
        if aval.shape[axis] <= SHORT and (axis == 0 and aval.ndim == 2 if is_view else axis == aval.ndim - 1):
            return side, axis
    return None


def _turned(matrix, axis, eqns, source):
    """The matrix with the axis that is summed over in front, in memory of its own."""
    view = matrix
    if axis:
        shape = matrix.aval.shape
        view = Var(ShapedArray((shape[axis], *shape[:axis]), matrix.aval.dtype, matrix.aval.weak_type))
        eqns.append(Eqn(transpose_p, [matrix], [view], {"permutation": (axis, *range(axis))}, source))
    out = Var(view.aval)
    eqns.append(Eqn(copy_p, [view], [out], {}, source))
    return out
