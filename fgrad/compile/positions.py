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
    chains = {}  # operation -> the axis that it is done along place by place
    for find in finds:
        found = _made_for(find, readers)
        if found and (len(found) + 5) * find.ins[0].shape[find.ip[1]] <= OPERATIONS:
            chains.update(dict.fromkeys([*found, find], find.ip[1]))
    if not chains:
        return nodes
    places, out = {}, []  # places: buffer -> the values of each place
    for n in nodes:
        if n not in chains:
            out.append(n)
        elif n.op == "argreduce":
            _chain(n, places[n.ins[0].buf], out)
        else:
            operands = [places[v.buf] if v.buf in places else _places(v, chains[n]) for v in n.ins]
            places[n.outs[0].buf] = [_operation(n, ins, out) for ins in zip(*operands)]
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
    found, open_ = {}, [(find.ins[0], find)]
    while open_:
        v, reader = open_.pop()
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
        open_ += [(x, node) for x in node.ins]
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


def _operation(n, ins, out):
    return _new(n.op, ins, ins[0].shape, n.outs[0].dtype, n.type_code, out, n)


def _chain(n, values, out):
    """The first of the greatest or least values, or the first NaN: what is kept at each place is better, or NaN."""
    shape, dtype, result = values[0].shape, values[0].dtype, n.outs[0]
    number = lambda k: Value(None, shape, (0,) * len(shape), 0, result.dtype, result.dtype.type(k))  # noqa: E731
    best, at = values[0], number(0)
    for k, v in enumerate(values[1:], 1):
        keep = _new("ge" if n.ip[0] == 0 else "le", [v, best], shape, dtypes.BOOL, CODES[dtype], out)
        if dtype.kind == "f":
            keep = _new(
                "or", [keep, _new("ne", [best, best], shape, dtypes.BOOL, CODES[dtype], out)], shape, dtypes.BOOL, CODES[dtypes.BOOL], out
            )
        at = _new("select", [keep, at, number(k)], shape, result.dtype, CODES[result.dtype], out)
        if k + 1 < len(values):
            best = _new("select", [keep, best, v], shape, dtype, CODES[dtype], out)
    node = at.buf.node
    node.outs[0] = Value(result.buf, shape, row_major(shape), 0, result.dtype)
    result.buf.node = node
