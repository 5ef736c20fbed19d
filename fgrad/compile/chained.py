"""Reductions, and positions of extrema, along a short axis of what is computed: chains of operations, a link for each place along the axis.

The nearest of sixteen codes was an array of sixteen differences for each number, written, turned and read again, and the least of these
differences sixteen rows that were added to one in memory, row by row; so each is one group over the numbers. Where what is reduced lies in
memory nothing changes.
"""

from math import prod

from fgrad import dtypes
from fgrad._kernels import vm_plan
from fgrad._kernels.elementwise import WEIGHTS
from fgrad.compile.fuse import readers_of
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.config import config
from fgrad.core.array import CODES

MOST = 128  # places along the axis
OPERATIONS = 1024  # at all of them: compiling them takes 10 ms or so
LONG = 2048  # positions, at least: each operation takes a few nanoseconds before it begins
REPEATS = 2  # times, at least, that each element of an operand with that axis is read
DEAR = 4  # additions: what is dearer takes as long either way, if it is reduced
FOLDS = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}  # reductions and their operations
CHAINED = frozenset(("argreduce", *FOLDS))
TYPES = ("float32", "float64", "int32", "uint32", "int64", "uint64")


def chain(nodes, outs):
    """nodes, with positions in, and reductions of, what elementwise operations compute for these alone found place by place."""
    ends = {n: n.ip[1] if n.op == "argreduce" else n.axes[0] for n in nodes if _may_chain(n)}  # what ends a chain -> its axis
    if not ends or not (config.pass_machine and vm_plan.makes_code()):
        return nodes
    readers = readers_of(nodes, outs)
    chains = {}  # what ends a chain -> the operations for it
    for end, axis in ends.items():
        made = _made_for(end, axis)
        if made and (len(made) + (5 if end.op == "argreduce" else 1)) * end.ins[0].shape[axis] <= OPERATIONS:
            chains[end] = made
    left, before = set(), -1
    while len(chains) != before:  # what others read is computed anyway
        before = len(chains)
        left = {n for made in chains.values() for n in made}
        alone = {n for n in left if all([r in chains or r in left for r in readers.get(n.outs[0].buf, (None,))])}
        chains = {end: made for end, made in chains.items() if made <= alone}
    if not chains:
        return nodes
    out = []
    for n in nodes:
        if n in chains:
            links = _links([m for m in nodes if m in chains[n]], n, ends[n], out)
            (_find if n.op == "argreduce" else _fold)(n, ends[n], links, out)
        elif n not in left:
            out.append(n)
    return out


def _may_chain(n):
    if n.op == "argreduce":
        if n.ip[2] or n.ins[0].dtype.itemsize != n.outs[0].dtype.itemsize:
            return False
        axis = n.ip[1]
    elif n.kind == "reduce" and n.op in FOLDS and len(n.axes) == 1 and n.outs[0].dtype == n.ins[0].dtype:
        axis = n.axes[0]
    else:
        return False
    v = n.ins[0]
    node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    if node is None or node.kind != "ew" or v.dtype.name not in TYPES:
        return False
    return 1 < v.shape[axis] <= MOST and prod(v.shape) >= LONG * v.shape[axis]


def _made_for(end, axis):
    """The operations that make what `end` looks at; None where they are dear, or what they read is large along the axis."""
    shape = end.ins[0].shape
    found, open_ = {}, [end.ins[0]]
    while open_:
        v = open_.pop()
        node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
        if v.buf is None or v.buf in found:
            continue
        if node is None or node.kind != "ew" or node.shape != shape or not v.whole() or v.shape != shape:
            if v.shape != shape or v.box is not None:
                return None
            size = prod([n for n, s in zip(shape, v.strides) if s])
            if v.strides[axis] and (size * REPEATS > prod(shape) or (end.kind == "reduce" and size > shape[axis])):
                return None  # pairs of rows have kernels and tiles that keep no number for each pair
            continue
        if end.kind == "reduce" and WEIGHTS.get(node.op, 1) > DEAR:
            return None
        found[v.buf] = node
        open_ += node.ins
    return {*found.values()}


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


def _links(made, end, axis, out):
    """What `end` looks at, place by place: each is appended to `out` when it is asked for, so that no value waits."""
    operands = [[None if v.buf is not None and v.buf.node in made else _places(v, axis) for v in n.ins] for n in made]
    shape = _without(end.ins[0].shape, axis)
    for k in range(end.ins[0].shape[axis]):
        values = {}
        for n, columns in zip(made, operands):
            ins = [values[v.buf] if places is None else places[k] for v, places in zip(n.ins, columns)]
            values[n.outs[0].buf] = _new(n.op, ins, shape, n.outs[0].dtype, n.type_code, out, n)
        yield values[end.ins[0].buf]


def _end(last, end, shape):
    """Let the chain's last value be what its end's was."""
    result, node = end.outs[0], last.buf.node
    node.outs[0] = Value(result.buf, shape, row_major(shape), 0, result.dtype)
    result.buf.node = node


def _fold(end, axis, links, out):
    """A reduction, in the order of the axis."""
    dtype, shape, total = end.outs[0].dtype, _without(end.ins[0].shape, axis), None
    for value in links:
        total = value if total is None else _new(FOLDS[end.op], [total, value], shape, dtype, CODES[dtype], out)
    _end(total, end, shape)


def _find(end, axis, links, out):
    """The first of the greatest or least values, or the first NaN: what is kept is better, or NaN."""
    result, dtype = end.outs[0], end.ins[0].dtype
    shape, count = _without(end.ins[0].shape, axis), end.ins[0].shape[axis]
    number = lambda k: Value(None, shape, (0,) * len(shape), 0, result.dtype, result.dtype.type(k))  # noqa: E731
    best, at = None, number(0)
    for k, value in enumerate(links):
        if k == 0:
            best = value
            continue
        keep = _new("ge" if end.ip[0] == 0 else "le", [value, best], shape, dtypes.BOOL, CODES[dtype], out)
        if dtype.kind == "f":
            none = _new("ne", [best, best], shape, dtypes.BOOL, CODES[dtype], out)
            keep = _new("or", [keep, none], shape, dtypes.BOOL, CODES[dtypes.BOOL], out)
        at = _new("select", [keep, at, number(k)], shape, result.dtype, CODES[result.dtype], out)
        if k + 1 < count:
            best = _new("select", [keep, best, value], shape, dtype, CODES[dtype], out)
    _end(at, end, shape)
