"""Positions of extrema along a short axis of what is computed: a chain of comparisons, a link for each place along the axis.

The nearest of sixteen codes was an array of sixteen differences for each number, written, turned and read again; so it is one group over
the numbers. Where positions are wanted of what lies in memory nothing changes.
"""

from math import prod

from fgrad import dtypes
from fgrad._kernels import vm_plan
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.config import config
from fgrad.core.array import CODES

MOST = 32  # places along the axis
OPERATIONS = 256  # at all of them
LONG = 2048  # positions, at least: each operation takes a few nanoseconds before it begins
REPEATS = 2  # times, at least, that each element of an operand with that axis is read
TYPES = ("float32", "float64", "int32", "uint32", "int64", "uint64")


def chain_positions(nodes, outs):
    """nodes, with positions in what elementwise operations compute for nothing else found place by place."""
    finds = [n for n in nodes if n.op == "argreduce" and _may_chain(n)]
    if not finds or not (config.pass_machine and vm_plan.makes_code()):
        return nodes
    readers = {}  # buffer -> the nodes that read it, None for the program's caller
    for n in nodes:
        for v in n.ins:
            readers.setdefault(v.buf, []).append(n)
    for v in outs:
        readers.setdefault(v.buf, []).append(None)
    chains = {}  # what finds a position -> the operations for it
    for find in finds:
        made = _made_for(find, readers)
        if made and (len(made) + 5) * find.ins[0].shape[find.ip[1]] <= OPERATIONS:
            chains[find] = made
    left = {n for made in chains.values() for n in made}
    out = []
    for n in nodes:
        if n in chains:
            _chain(n, [m for m in nodes if m in chains[n]], out)
        elif n not in left:
            out.append(n)
    return out


def _may_chain(n):
    v = n.ins[0]
    node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    if n.ip[2] or node is None or node.kind != "ew" or v.dtype.name not in TYPES or v.dtype.itemsize != n.outs[0].dtype.itemsize:
        return False
    return 1 < v.shape[n.ip[1]] <= MOST and prod(v.shape) >= LONG * v.shape[n.ip[1]]


def _made_for(find, readers):
    """The operations that make what `find` looks at; None where others read that, or where what they read is large along the axis."""
    shape, axis = find.ins[0].shape, find.ip[1]
    found, open_ = {}, [find.ins[0]]
    while open_:
        v = open_.pop()
        node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
        if v.buf is None or v.buf in found:
            continue
        if node is None or node.kind != "ew" or node.shape != shape or not v.whole() or v.shape != shape:
            if v.shape != shape or v.box is not None:
                return None
            if v.strides[axis] and prod([n for n, s in zip(shape, v.strides) if s]) * REPEATS > prod(shape):
                return None
            continue
        found[v.buf] = node
        open_ += node.ins
    nodes = {*found.values()}
    if any([r is not find and r not in nodes for buf in found for r in readers.get(buf, (None,))]):
        return None
    return nodes


def _without(t, axis):
    return (*t[:axis], *t[axis + 1 :])


def _places(v, axis):
    """An operand at each place along the axis."""
    shape, count = _without(v.shape, axis), v.shape[axis]
    if v.buf is None:
        return [Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar)] * count
    strides, step = _without(v.strides, axis), v.strides[axis]
    return [Value(v.buf, shape, strides, v.offset + k * step, v.dtype, None, v.tag) for k in range(count)]


def _new(op, ins, shape, dtype, code, out, like=None):
    """Append an elementwise operation to `out`; its result."""
    made = Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)
    node = Node(
        "ew", op, list(ins), [made], shape, like.ip if like else (), like.fp if like else (), obj=like.obj if like else None, type_code=code
    )
    made.buf.node = node
    out.append(node)
    return made


def _chain(find, made, out):
    """The first of the greatest or least values, or the first NaN: what is kept is better, or NaN. Place by place: no value waits."""
    axis, result, dtype = find.ip[1], find.outs[0], find.ins[0].dtype
    operands = [[None if v.buf is not None and v.buf.node in made else _places(v, axis) for v in n.ins] for n in made]
    shape = _without(find.ins[0].shape, axis)
    number = lambda k: Value(None, shape, (0,) * len(shape), 0, result.dtype, result.dtype.type(k))  # noqa: E731
    best, at, count = None, number(0), find.ins[0].shape[axis]
    for k in range(count):
        values = {}
        for n, columns in zip(made, operands):
            ins = [values[v.buf] if places is None else places[k] for v, places in zip(n.ins, columns)]
            values[n.outs[0].buf] = _new(n.op, ins, shape, n.outs[0].dtype, n.type_code, out, n)
        value = values[find.ins[0].buf]
        if k == 0:
            best = value
            continue
        keep = _new("ge" if find.ip[0] == 0 else "le", [value, best], shape, dtypes.BOOL, CODES[dtype], out)
        if dtype.kind == "f":
            none = _new("ne", [best, best], shape, dtypes.BOOL, CODES[dtype], out)
            keep = _new("or", [keep, none], shape, dtypes.BOOL, CODES[dtypes.BOOL], out)
        at = _new("select", [keep, at, number(k)], shape, result.dtype, CODES[result.dtype], out)
        if k + 1 < count:
            best = _new("select", [keep, best, value], shape, dtype, CODES[dtype], out)
    node = at.buf.node
    node.outs[0] = Value(result.buf, shape, row_major(shape), 0, result.dtype)
    result.buf.node = node
