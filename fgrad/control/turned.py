"""Matrices that a loop multiplies single vectors by are turned before it, where their rows are short, and get rows of whole lines.

In order, each row times the vector is a sum across a register; turned, rows are added up, and nothing is summed across. Of rows of 800
bytes nearly all vectors cross a line of memory, which takes twice as long to load: the loop reads them as parts of longer rows. A matrix
for each vector of a batch is turned too, where vectors have 256 bits: each entry's rows are then multiplied where they lie.
"""

from fgrad import dtypes
from fgrad._kernels import vm_plan
from fgrad.core import Eqn, Literal, ShapedArray, Var
from fgrad.ops.casts import copy_p
from fgrad.ops.shape import pad_p, slice_p, transpose_p

SHORT = 64  # elements of a row; longer ones are read as fast as they come
LEAST = 128  # elements of a matrix
STEPS, LONG = 16, 32  # of a loop; and of one that takes whole lines, which saves less in a step: a short search would take twice as long
LINE = 64  # bytes
LARGE, MOST = 1 << 13, 1 << 20  # bytes of a matrix that gets whole lines: of less nothing is gained, of more it depends on memory
ENTRIES = vm_plan.vector_bytes() == 32  # are small matrices of a batch multiplied one after the other? (gemm_entries.h)
ENTRY_BYTES, ENTRY = 128, 1024  # a row of such a matrix, once turned, and elements of all
DTYPES = (dtypes.FLOAT32, dtypes.FLOAT64)


def turn_matrices(jaxpr, n, steps=0):
    """The jaxpr of a loop's body, with such products of what depends on its first n inputs only written for the turned matrix.

    steps: how many there are, 0 if that is not known.
    """
    fixed, maker, eqns, turned, padded = set(jaxpr.invars[:n]), {}, [], {}, {}
    for e in jaxpr.eqns:
        if all(type(v) is Literal or v in fixed for v in e.invars) and not e.primitive.effects_of(e.params):
            fixed.update(e.outvars)
            maker.update({v: e for v in e.outvars})
        if e.primitive.name != "dot_general":
            eqns.append(e)
            continue
        ins, params, found = list(e.invars), e.params, _matrix(e, fixed, maker)
        if found is not None:
            side, axis = found
            matrix, (contract, batch) = e.invars[side], params["dimension_numbers"]
            front = len(batch[side])
            if (matrix, axis) not in turned:
                turned[matrix, axis] = _turned(matrix, axis, front, eqns, e.source)
            ins[side] = turned[matrix, axis]
            fixed.add(ins[side])
            params = {**params, "dimension_numbers": (tuple([(front,) if i == side else c for i, c in enumerate(contract)]), batch)}
        for side in (0, 1):
            matrix = ins[side]
            if steps >= LONG and _may_pad(matrix, ins[1 - side], params["dimension_numbers"], side, fixed, maker):
                if matrix not in padded:
                    padded[matrix] = _padded(matrix, maker, eqns, e.source)
                ins[side] = padded[matrix]
        eqns.append(Eqn(e.primitive, ins, e.outvars, params, e.source))
    return jaxpr.replace(eqns=eqns) if turned or padded else jaxpr


def _matrix(e, fixed, maker):
    """(which operand, the axis that is summed over) of a product of a fixed matrix, or several, whose short rows lie along that axis, and
    a vector that is not; None for any other."""
    contract, (batch, _) = e.params["dimension_numbers"]
    for side, (matrix, vector) in enumerate((e.invars, e.invars[::-1])):
        if type(matrix) is Literal or type(vector) is Literal or matrix not in fixed or vector in fixed:
            continue
        if batch:
            axis = _entries_axis(matrix, vector, contract, e.params["dimension_numbers"][1], side, maker) if ENTRIES else None
            if axis is not None:
                return side, axis
            continue
        aval = matrix.aval
        if aval.ndim < 2 or vector.aval.ndim != 1 or aval.dtype not in DTYPES or aval.size < LEAST or len(contract[side]) != 1:
            continue
        (axis,) = contract[side]
        is_view = matrix in maker and maker[matrix].primitive is transpose_p
        if aval.shape[axis] <= SHORT and (axis == 0 and aval.ndim == 2 if is_view else axis == aval.ndim - 1):
            return side, axis
    return None


def _entries_axis(matrix, other, contract, batch, side, maker):
    """The axis that is summed over of small matrices, one for each vector of a batch, or each matrix on their left; None where rows do not
    lie along it."""
    aval, axes = matrix.aval, tuple(range(len(batch[side])))
    front, last = len(axes), len(axes) + 1
    if batch != (axes, axes) or aval.ndim != front + 2 or aval.dtype not in DTYPES or other.aval.dtype != aval.dtype:
        return None
    if other.aval.ndim != front + 1 and (side == 0 or other.aval.ndim != front + 2):
        return None
    is_view = matrix in maker and maker[matrix].primitive is transpose_p and maker[matrix].params["permutation"] == (*axes, last, front)
    axis = front if is_view else last
    rows, cols = aval.shape[front + last - axis], aval.shape[axis]
    if contract[side] != (axis,) or aval.size <= rows * cols or aval.size < LEAST or aval.size * aval.dtype.itemsize > MOST:
        return None
    return axis if 1 < rows <= ENTRY_BYTES // aval.dtype.itemsize and cols > 1 and rows * cols <= ENTRY else None


def _turned(matrix, axis, front, eqns, source):
    """The matrix with the axis that is summed over behind the first `front`, in memory of its own."""
    view = matrix
    if axis > front:
        shape, order = matrix.aval.shape, (*range(front), axis, *range(front, axis))
        view = Var(ShapedArray(tuple([shape[i] for i in order]), matrix.aval.dtype, matrix.aval.weak_type))
        eqns.append(Eqn(transpose_p, [matrix], [view], {"permutation": order}, source))
    out = Var(view.aval)
    eqns.append(Eqn(copy_p, [view], [out], {}, source))
    return out


def _may_pad(matrix, vector, dimension_numbers, side, fixed, maker):
    """True for a fixed matrix, or several, whose rows are no whole lines, times a vector that is not fixed."""
    contract, (batch, _) = dimension_numbers
    if batch or type(matrix) is Literal or matrix not in fixed or type(vector) is Literal or vector in fixed or len(contract[side]) != 1:
        return False
    aval = _lying(matrix, maker).aval
    if matrix.aval.ndim < 2 or aval.dtype not in DTYPES or vector.aval.size != matrix.aval.shape[contract[side][0]]:
        return False
    return aval.shape[-1] * aval.dtype.itemsize % LINE != 0 and LARGE <= aval.size * aval.dtype.itemsize <= MOST


def _lying(matrix, maker):
    """What a matrix is a transposed view of, or itself."""
    return maker[matrix].invars[0] if matrix in maker and maker[matrix].primitive is transpose_p else matrix


def _padded(matrix, maker, eqns, source):
    """The matrix as a part of one with rows of whole lines."""
    lies = _lying(matrix, maker)
    shape, per = lies.aval.shape, LINE // lies.aval.dtype.itemsize
    aval = ShapedArray((*shape[:-1], -(-shape[-1] // per) * per), lies.aval.dtype, lies.aval.weak_type)
    long, part = Var(aval), Var(lies.aval)
    config = (*[(0, 0, 0)] * (len(shape) - 1), (0, aval.shape[-1] - shape[-1], 0))
    zero = Literal(0.0, ShapedArray((), aval.dtype, aval.weak_type))
    box = {"start_indices": (0,) * len(shape), "limit_indices": shape, "strides": (1,) * len(shape)}
    eqns.append(Eqn(pad_p, [lies, zero], [long], {"padding_config": config}, source))
    eqns.append(Eqn(slice_p, [long], [part], box, source))
    if lies is matrix:
        return part
    view = Var(matrix.aval)
    eqns.append(Eqn(transpose_p, [part], [view], maker[matrix].params, source))
    return view
