"""Operations over pairs whose last axis is short (points of two or three coordinates) work on its columns, an array each.

Rows of three numbers fill no vector, and neither does what is the same for each of a row.  Of columns, what is computed of pairs is one
group over whole rows: differences, distances, and sums of forces. So is what is computed of single points and of a number for each.
"""

from functools import reduce
from math import prod

from fgrad.compile.fuse import has_short_rows, readers_of
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.core.array import CODES

MOST = 6  # columns
REPEATS = 2  # times, at least, that each element of an operand with columns is read, where no operand is a number for each row
ROWS, ROWS_IN_LOOPS = 256, 16  # of points and numbers: of fewer, columns take as long to read as they save
FOLDS = {"sum": "add", "max": "max", "min": "min", "prod": "mul"}


def split_columns(nodes, outs, sub):
    """nodes, with elementwise operations over (..., a few) that reductions read replaced by operations on columns. sub: in a loop."""
    least = ROWS_IN_LOOPS if sub else ROWS
    if not has_short_rows(nodes, MOST) or not any([n.kind == "ew" and _may_split(n, least) for n in nodes]):
        return nodes
    readers = readers_of(nodes, outs)
    split, numbered = _splitting(nodes, readers, least, sub)
    if not split:
        return nodes
    shapes = {(*n.shape[:-1], 1) for n in split}
    columns, copies, out = {}, {}, []
    for n in nodes:
        if n in split:
            columns[n.outs[0].buf] = _operations(n, columns, copies, out)
            if not all([_takes(r, n, split) for r in readers.get(n.outs[0].buf, (None,))]):
                out.append(_joined(columns[n.outs[0].buf], n.outs[0]))
            continue
        n.ins = [_part(v, columns[v.buf]) if v.buf in columns and _is_part(v, len(columns[v.buf]), 1) else v for v in n.ins]
        if n.kind == "reduce" and n.ins[0].buf in columns and _folds(n):
            _reductions(n, columns[n.ins[0].buf], out)
        elif n.kind == "reduce" and n.shape in numbered and _folds(n) and len(n.shape) - 1 in n.axes and n.ins[0].box is None:
            _reductions(n, _columns(n.ins[0], n.shape[-1], copies, out), out)
        elif n.kind in ("ew", "reduce") and n.shape in shapes and (n.kind == "ew" or len(n.shape) - 1 not in n.axes):
            out.append(_without_last(n))
        else:
            out.append(n)
    return out


def _may_split(n, least):
    s = n.shape
    return 1 < len(s) and 1 < s[-1] <= MOST and s[-2] > 1 and 0 not in s and (len(s) > 2 or s[0] >= least)


def _splitting(nodes, readers, least, sub):
    """(the elementwise operations that can be split, with all that reads them, and that a reduction reads in the end; the shapes over which
    there is a number for each row, and of which a reduction makes such numbers). Numbers for each row may be columns of results."""
    found = {n for n in nodes if n.kind == "ew" and _may_split(n, least) and n.outs[0].whole()}
    reduced = {n.shape for n in nodes if n.kind == "reduce" and _folds(n) and n.axes == (len(n.shape) - 1,) and not sub}
    while True:
        made = {n.outs[0].buf for n in found}
        numbered = {n.shape for n in found if prod(n.shape[:-1]) >= least and any([_is_number(v, n.shape) for v in n.ins])}
        apart = {
            n.shape for n in found if prod(n.shape[:-1]) >= least and any([_takes_parts(r, n) for r in readers.get(n.outs[0].buf, ())])
        }
        left = {n for n in found if all([_reads_columns(v, n.shape, made, n.shape in numbered | apart) for v in n.ins])}
        left = {
            n
            for n in left
            if all([_takes(r, n, left) or (n.shape in numbered & reduced and _is_numeric(n)) for r in readers.get(n.outs[0].buf, (None,))])
        }
        if len(left) == len(found):
            return {n for n in found if len(n.shape) > 2 or n.shape in numbered | apart}, numbered & reduced
        found = left


def _is_number(v, shape):
    """True for an operand that has one number for each row."""
    return v.buf is not None and v.shape == shape and not v.strides[-1] and all([s or n == 1 for n, s in zip(shape[:-1], v.strides)])


def _reads_columns(v, shape, made, numbered):
    """True if an operand's columns are at hand: computed as such, one for all, or of few elements; or worth reading, beside numbers."""
    if v.buf is None:
        return True
    if v.shape != shape or v.box is not None:
        return False
    if v.buf in made:
        return _is_part(v, v.buf.node.outs[0].shape[-1])
    return numbered or not v.strides[-1] or prod([n for n, s in zip(shape, v.strides) if s]) * REPEATS <= prod(shape)


def _takes(reader, n, found):
    """True if a reader of n's result can take columns: one that is split itself, a reduction of all of it, or one that reads columns."""
    out = n.outs[0]
    if reader is None or _takes_parts(reader, n):
        return reader is not None
    if reader.kind == "reduce":
        return reader.shape == n.shape and out.shape == n.shape and reader.ins[0].whole() and _folds(reader)
    return reader in found


def _takes_parts(reader, n):
    """True if all that an operation reads of n's result is parts of single columns."""
    if reader is None or reader.kind not in ("ew", "reduce"):
        return False
    return all([v.buf is not n.outs[0].buf or _is_part(v, n.shape[-1], 1) for v in reader.ins])


def _is_part(v, count, single=0):
    """True for parts of some of `count` columns, of one if single."""
    axes = len(v.shape) - 1 + single
    lies = v.box is None and not v.tag and all([n == 1 or s % count == 0 for n, s in zip(v.shape[:axes], v.strides)])
    return lies and (single or 0 <= v.offset % count + (v.shape[-1] - 1) * v.strides[-1] < count)


def _parts(v, columns):
    """The columns of an operand that lies in columns."""
    shape, count = v.shape[:-1], len(columns)
    strides = tuple([0 if n == 1 else s // count for n, s in zip(shape, v.strides)])
    at = [v.offset + k * v.strides[-1] for k in range(v.shape[-1])]
    return [Value(columns[i % count].buf, shape, strides, i // count, v.dtype) for i in at]


def _part(v, columns):
    """An operand that is part of one column."""
    return _parts(Value(v.buf, (*v.shape, 1), (*v.strides, 0), v.offset, v.dtype), columns)[0]


def _is_numeric(n):
    return n.outs[0].dtype.kind in "iuf" and n.outs[0].dtype.itemsize >= 4


def _folds(n):
    return n.op in FOLDS and _is_numeric(n)


def _joined(columns, result):
    """What puts columns side by side."""
    pieces = [Value(v.buf, (*v.shape, 1), (*v.strides, 1), v.offset, v.dtype, v.scalar) for v in columns]
    node = result.buf.node = Node("kernel", "concatenate", pieces, [result], ip=(len(result.shape) - 1,))
    return node


def _node(kind, op, ins, out, shape, like=None, axes=None):
    node = Node(kind, op, ins, [out], shape, like.ip, like.fp, obj=like.obj, type_code=like.type_code, axes=axes)
    out.buf.node = node
    return node


def _temporary(shape, dtype):
    return Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)


def _operations(n, columns, copies, out):
    """Append to `out` the operations of n on each column; their results."""
    shape, results = n.shape[:-1], []
    operands = [_parts(v, columns[v.buf]) if v.buf in columns else _columns(v, n.shape[-1], copies, out) for v in n.ins]
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
    large = all([n == 1 or s for n, s in zip(shape, strides)])
    if step and rows and abs(rows[-1]) > 1 and not large:  # of large ones the group brings all columns to its tiles in one pass
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
        pieces.append(_temporary(result.shape[:-1], result.dtype))
        out.append(_node("reduce", n.op, [part], pieces[-1], shape, n, axes))
    out.append(_joined(pieces, result))


def _without_last(n):
    """n, whose last axis has one element, without it: groups are of one shape."""
    ins = [_drop_last(v) for v in n.ins]
    result = _drop_last(n.outs[0]) if n.kind == "ew" else n.outs[0]
    return _node(n.kind, n.op, ins, result, n.shape[:-1], n, n.axes)


def _drop_last(v):
    return Value(v.buf, v.shape[:-1], v.strides[:-1], v.offset, v.dtype, v.scalar, v.tag)
