"""Operations over pairs whose last axis is short (points of two or three coordinates) work on its columns, an array each.

Rows of three numbers fill no vector, and neither does what is the same for each of a row.  Of columns, what is computed of pairs is one
group over whole rows: differences, distances, and sums of forces.
"""

from functools import reduce
from math import prod

from fgrad.compile.fuse import reductions
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.core.array import CODES

MOST = 6  # columns
REPEATS = 2  # times, at least, that each element of an operand with columns is read
FOLDS = {"sum": "add", "max": "max", "min": "min"}


def split_columns(nodes, outs):
    """nodes, with elementwise operations over (..., a few) that only reductions read replaced by operations on columns."""
    if not any([_may_split(n) for n in reductions(nodes)]):
        return nodes
    readers = {}  # buffer -> the nodes that read it, None for the program's caller
    for n in nodes:
        for v in n.ins:
            readers.setdefault(v.buf, []).append(n)
    for v in outs:
        readers.setdefault(v.buf, []).append(None)
    split = _splitting(nodes, readers)
    if not split:
        return nodes
    shapes = {(*n.shape[:-1], 1) for n in split}
    columns, copies, out = {}, {}, []
    for n in nodes:
        if n in split:
            columns[n.outs[0].buf] = _operations(n, columns, copies, out)
        elif n.kind == "reduce" and n.ins[0].buf in columns:
            _reductions(n, columns[n.ins[0].buf], out)
        elif n.kind in ("ew", "reduce") and n.shape in shapes and (n.kind == "ew" or len(n.shape) - 1 not in n.axes):
            out.append(_without_last(n))
        else:
            out.append(n)
    return out


def _may_split(n):
    s = n.shape
    return len(s) > 2 and 1 < s[-1] <= MOST and s[-2] > 1 and 0 not in s


def _splitting(nodes, readers):
    """The elementwise operations that can be split, with all that reads them, and that a reduction reads in the end."""
    found = {n for n in nodes if n.kind == "ew" and _may_split(n) and n.outs[0].whole()}
    while True:
        made = {n.outs[0].buf for n in found}
        left = {n for n in found if all([_reads_columns(v, n.shape, made) for v in n.ins])}
        left = {n for n in left if all([_takes(r, n, left) for r in readers.get(n.outs[0].buf, (None,))])}
        if len(left) == len(found):
            return found
        found = left


def _reads_columns(v, shape, made):
    """True if an operand's columns are at hand: computed as such, one for all, or of few elements."""
    if v.buf is None:
        return True
    if v.shape != shape or v.box is not None:
        return False
    if v.buf in made:
        return v.whole()
    return not v.strides[-1] or prod([n for n, s in zip(shape, v.strides) if s]) * REPEATS <= prod(shape)


def _takes(reader, n, found):
    """True if a reader of n's result can take columns: one that is split itself, or a reduction of all of it."""
    out = n.outs[0]
    if reader is None or any([v.buf is out.buf and not (v.shape == n.shape and v.whole()) for v in reader.ins]):
        return False
    if reader.kind == "reduce":
        return reader.op in FOLDS and reader.shape == n.shape and out.dtype.kind in "iuf" and out.dtype.itemsize >= 4
    return reader in found


def _node(kind, op, ins, out, shape, like=None, axes=None):
    node = Node(kind, op, ins, [out], shape, like.ip, like.fp, obj=like.obj, type_code=like.type_code, axes=axes)
    out.buf.node = node
    return node


def _temporary(shape, dtype):
    return Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)


def _operations(n, columns, copies, out):
    """Append to `out` the operations of n on each column; their results."""
    shape, results = n.shape[:-1], []
    operands = [columns[v.buf] if v.buf in columns else _columns(v, n.shape[-1], copies, out) for v in n.ins]
    for ins in zip(*operands):
        made = _temporary(shape, n.outs[0].dtype)
        out.append(_node("ew", n.op, list(ins), made, shape, n))
        results.append(made)
    return results


def _columns(v, count, copies, out):
    """The columns of an operand, copied to lie in order where they do not."""
    shape, strides, step = v.shape[:-1], v.strides[:-1], v.strides[-1]
    if v.buf is None:
        return [Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar)] * count
    rows = [s for n, s in zip(shape, strides) if n > 1]
    if step and rows and abs(rows[-1]) > 1:
        key = v.key()
        if key not in copies:
            small = (count, *[n if s else 1 for n, s in zip(shape, strides)])
            copies[key] = copy = _temporary(small, v.dtype)
            node = copy.buf.node = Node("kernel", "copy", [Value(v.buf, small, (step, *strides), v.offset, v.dtype)], [copy])
            out.append(node)
        copy = copies[key]
        strides = tuple([c if s else 0 for s, c in zip(strides, copy.strides[1:])])
        return [Value(copy.buf, shape, strides, k * copy.strides[0], v.dtype) for k in range(count)]
    return [Value(v.buf, shape, strides, v.offset + k * step, v.dtype) for k in range(count)]


def _reductions(n, parts, out):
    """Append to `out` what reduces columns as n reduces the array of them."""
    last, result, shape = len(n.shape) - 1, n.outs[0], n.shape[:-1]
    axes = tuple([a for a in n.axes if a != last])
    if last in n.axes:

        def fold(x, y):
            made = result if not axes and y is parts[-1] else _temporary(shape, result.dtype)
            node = Node("ew", FOLDS[n.op], [x, y], [made], shape, type_code=CODES[result.dtype])
            made.buf.node = node
            out.append(node)
            return made

        total = reduce(fold, parts)
        if axes:
            out.append(_node("reduce", n.op, [total], result, shape, n, axes))
        return
    pieces = []
    for part in parts:
        made = _temporary((*result.shape[:-1], 1), result.dtype)
        kept = made.shape[:-1]
        out.append(_node("reduce", n.op, [part], Value(made.buf, kept, row_major(kept), 0, made.dtype), shape, n, axes))
        pieces.append(made)
    node = result.buf.node = Node("kernel", "concatenate", pieces, [result], ip=(len(result.shape) - 1,))
    out.append(node)


def _without_last(n):
    """n, whose last axis has one element, without it: groups are of one shape."""
    ins = [_drop_last(v) for v in n.ins]
    result = _drop_last(n.outs[0]) if n.kind == "ew" else n.outs[0]
    return _node(n.kind, n.op, ins, result, n.shape[:-1], n, n.axes)


def _drop_last(v):
    return Value(v.buf, v.shape[:-1], v.strides[:-1], v.offset, v.dtype, v.scalar, v.tag)
