"""Small parts that gathers take of computed arrays are computed from small parts: x.astype(bfloat16)[ids] converts the rows that it
gathers, not the table."""

import math
from collections import Counter

from fgrad.compile.taken import FAR, elementwise_node, fill_value, outside, pair_of
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape

LEAST = 1 << 13  # elements of an array whose computation is worth a step for each array that it is computed from
SHARE = 4  # of it are computed for each that a gather reads
OPERANDS, OPERATIONS = 4, 32  # that a part is computed from and by, at most
TAKING = ("gather", "dynamic_slice")


def take_first(nodes, outs):
    """nodes, with gathers and slices of a few elements of what elementwise operations compute replaced by these operations on what is
    taken of their operands."""
    taken, written = Counter(), {v.buf for v in outs}  # taken: elements that are of each result
    for n in nodes:
        if n.kind == "ew" or n.op == "copy":
            continue
        first = 1 if n.kind == "kernel" and n.op in TAKING else 0
        if first and n.ins[0].buf is not None:
            taken[n.ins[0].buf] += n.outs[0].size
        written.update([v.buf for v in n.ins[first:] if n.kind != "reduce"])
    out, made = [], {}
    for n in nodes:
        if n.kind == "kernel" and n.op in TAKING and _computed(n.ins[0], written):
            size = n.ins[0].buf.size
            if size >= LEAST and n.outs[0].size and SHARE * taken[n.ins[0].buf] <= size:
                out += _Part(n, written, made).nodes or [n]
                continue
        out.append(n)
    return out


def _computed(v, written):
    """True if v is of the result of an elementwise operation, or of a copy, that no other reader needs in memory."""
    node = None if v.buf is None or v.buf in written or v.box is not None else v.buf.node
    return node is not None and (node.kind == "ew" or node.op == "copy")


class _Part:
    """What computes the part of an elementwise result that a gather takes. nodes: none if it is better computed whole."""

    def __init__(self, gather, written, made):
        self.gather, self.written, self.made, self.shape = gather, written, made, gather.outs[0].shape
        self.nodes, self.parts, self.gathers, self.operands, self.operations = [], {}, {}, 0, 0
        ip, x, self.pair, self.fills = gather.ip, gather.ins[0], None, False
        if gather.op == "gather":
            self.fills, self.axis = ip[4] & 1, ip[7 + ip[0] + ip[1]] if ip[2] == 1 else None
            if self.fills and (self.axis is None or gather.ins[1].buf is None or ip[len(ip) - len(x.shape) + self.axis] != 1):
                return
            if not self.fills and ip[:4] == (0, 1, 1, 0) and len(x.shape) == 1:
                x = self.unpaired(x)
            ip = (*ip[:4], ip[4] & ~1, 0, 0, *ip[7:])  # what is outside is read inside, and filled when all is computed
        self.ip = ip
        part = self.part(x)
        if part is None or self.operations == 0:
            self.nodes = []
            return
        if self.fills:
            self.fill(part)
        elif self.nodes and self.nodes[-1].outs[0] is part:
            last = self.nodes.pop()
            self.gathers = {k: v for k, v in self.gathers.items() if v is not part}
            self.nodes.append(_with_result(last, gather.outs[0]))
        else:
            self.nodes.append(_with_result(Node("kernel", "copy", [part], [part]), gather.outs[0]))
        made.update(self.gathers)

    def unpaired(self, x):
        """The gather's operand, of two axes where its indices are made of two: what is broadcast or transposed is no vector."""
        indices, node = self.gather.ins[1], x.buf.node
        if indices.buf is None or not x.whole() or len(node.outs[0].shape) != 2:
            return x
        self.pair = pair_of(Value(indices.buf, self.shape, indices.strides[:-1], indices.offset, indices.dtype), x.size)
        if self.pair is None or self.pair[2] != node.outs[0].shape:
            self.pair = None
            return x
        return Value(x.buf, self.pair[2], row_major(self.pair[2]), 0, x.dtype, None, x.tag)

    def part(self, v):
        """The gathered part of v, a view of the shape of the gather's operand; None if v is better read whole."""
        if v.buf is None or not any(v.strides):
            return Value(v.buf, self.shape, (0,) * len(self.shape), v.offset, v.dtype, v.scalar, v.tag)
        key = (v.buf, v.strides, v.offset, v.dtype, v.tag)
        if key not in self.parts:
            self.parts[key] = self.operation(v) if _computed(v, self.written) else self.operand(v)
        return self.parts[key]

    def operation(self, v):
        node, ins = v.buf.node, []
        self.operations += 1
        made = node.outs[0]
        view = _view(v, made.shape) if made.whole() and made.dtype == v.dtype and v.tag == made.tag else None
        if view is None or self.operations > OPERATIONS or (node.kind == "ew" and (node.ip or node.fp or node.obj is not None)):
            return None
        for x in node.ins:
            place = view(x) if x.box is None else None
            part = None if place is None else self.part(Value(x.buf, v.shape, *place, x.dtype, x.scalar, x.tag))
            if part is None:
                return None
            ins.append(part)
        if node.op == "copy":
            return ins[0]
        return self.add(elementwise_node(node.op, ins, self.temporary(v.dtype), type_code=node.type_code))

    def operand(self, v):
        """What is gathered of an array in memory, or of a small one."""
        self.operands += 1
        small = SHARE * v.buf.size <= self.gather.ins[0].buf.size
        if self.operands > OPERANDS or v.box is not None or not (small or v.buf.node is None or v.buf in self.written):
            return None
        if SHARE * self.operands * math.prod(self.shape) > self.gather.ins[0].buf.size:
            return None
        ins, ip = [v, *self.gather.ins[1:]], self.ip
        if self.pair is not None:
            extent = 1 + sum((n - 1) * s for n, s in zip(v.shape, v.strides))
            if min(v.strides) < 0 or extent > FAR:
                return None
            ins = [Value(v.buf, (extent,), (1,), v.offset, v.dtype, None, v.tag), self.at(v)]
        key = (*[x.key() for x in ins], ip, self.shape)
        if key in self.made:
            return self.made[key]
        out = self.gathers[key] = self.temporary(v.dtype)
        out.buf.node = Node("kernel", self.gather.op, ins, [out], ip=ip)
        return self.add(out.buf.node)

    def at(self, v):
        """Where v, over two axes, has what the pair of indices takes, in elements from its first."""
        indices, out = self.gather.ins[1], None
        for index, stride in zip(self.pair[:2], v.strides):
            if stride:
                number = Value(None, self.shape, (0,) * len(self.shape), 0, index.dtype, index.dtype.type(stride))
                index = self.add(elementwise_node("mul", [index, number], self.temporary(index.dtype))) if stride != 1 else index
                out = index if out is None else self.add(elementwise_node("add", [out, index], self.temporary(index.dtype)))
        return Value(out.buf, indices.shape, (*out.strides, 0), out.offset, out.dtype)

    def fill(self, part):
        """The gather's result: `part` where its indices are inside, and what fills the rest."""
        (x, indices), ip, out = self.gather.ins, self.gather.ip, self.gather.outs[0]
        strides, windows = iter(indices.strides[:-1]), ip[7 : 7 + ip[0]]
        at = tuple([0 if a in windows else next(strides) for a in range(len(self.shape))])
        nodes, beyond = outside(Value(indices.buf, self.shape, at, indices.offset, indices.dtype), x.shape[self.axis], ip[4])
        number = Value(None, self.shape, (0,) * len(self.shape), 0, x.dtype, fill_value(ip, x.dtype))
        self.nodes += [*nodes, elementwise_node("select", [beyond, number, part], out)]

    def temporary(self, dtype):
        return Value(Buf("temp", dtype, math.prod(self.shape)), self.shape, row_major(self.shape), 0, dtype)

    def add(self, node):
        self.nodes.append(node)
        return node.outs[0]


def _with_result(node, out):
    """The node, with `out` for its result."""
    node = out.buf.node = Node(node.kind, node.op, node.ins, [out], node.shape, node.ip, type_code=node.type_code)
    return node


def _view(v, shape):
    """A function from a value over `shape` to (strides, offset) that show its elements where v, a view of a row-major array of that shape,
    has its own; they are None where only a copy can. None if v is no such view."""
    if v.whole():
        if v.shape == shape:
            return lambda x: (x.strides, x.offset)

        def reshaped(x):
            strides = view_reshape(shape, x.strides, v.shape)
            return None if strides is None else (strides, x.offset)

        return reshaped
    steps, rest, start, axes = row_major(shape), v.offset, [], []
    for step in steps:
        start.append(rest // step)
        rest -= start[-1] * step
    for n, s in zip(v.shape, v.strides):
        axis = next((a for a, (k, step) in enumerate(zip(shape, steps)) if step <= abs(s) < step * k), None) if n > 1 and s else None
        if n > 1 and s and (axis is None or s % steps[axis] or axis in [a for a, _ in axes]):
            return None
        axes.append((axis, 0 if axis is None else s // steps[axis]))
        if axis is not None and not 0 <= start[axis] + (n - 1) * axes[-1][1] < shape[axis]:
            return None
    if rest or any(not 0 <= a < k for a, k in zip(start, shape)):
        return None

    def moved(x):
        strides = tuple(0 if a is None else by * x.strides[a] for a, by in axes)
        return strides, x.offset + sum(a * s for a, s in zip(start, x.strides))

    return moved
