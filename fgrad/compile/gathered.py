"""Small parts that gathers take of computed arrays are computed from small parts: x.astype(bfloat16)[ids] converts the rows that it
gathers, not the table."""

import itertools
import math
from collections import Counter

from fgrad.compile.fuse import takes_parts
from fgrad.compile.taken import FAR, elementwise_node, fill_value, outside, pair_of
from fgrad.compile.values import Buf, Node, Value, forget, row_major, view_reshape

LEAST = 1 << 13  # elements of an array whose computation is worth a step for each array that it is computed from
SHARE = 4  # of it are computed for each that a gather reads
OPERANDS, OPERATIONS = 4, 32  # that a part is computed from and by, at most
TAKING = ("gather", "dynamic_slice")
MOVED = ("gather", "concatenate")  # that are in memory if anything reads them whole, so that a part is a view of them


def take_first(nodes, outs):
    """nodes, with gathers and slices of a few elements of what elementwise operations, products, gathers and concatenations compute
    replaced by these operations on what is taken of their operands."""
    if not takes_parts(nodes, LEAST):
        return nodes
    taken, written = Counter(), {v.buf for v in outs}  # taken: elements that are of each result
    for n in nodes:
        first = 1 if n.kind == "kernel" and n.op in TAKING else 0
        for v in n.ins[:first]:
            taken[v.buf] += n.outs[0].size
        for v in n.ins[first:]:
            if v.buf is not None and v.buf.size >= LEAST and not v.whole() and _is_part(v):
                taken[v.buf] += v.size
            elif n.kind not in ("ew", "reduce") and n.op != "copy":
                written.add(v.buf)
    few = {b for b, count in taken.items() if b is not None and b.size >= LEAST and 0 < SHARE * count <= b.size}
    if not few:
        return nodes
    if any([b.node is not None and b.node.op in MOVED for b in few]):
        written |= _needed_whole(nodes, outs)
    out, made = [], {}
    for n in nodes:
        if n.kind == "kernel" and n.op in TAKING and n.ins[0].buf in few and _computed(n.ins[0], written):
            out += _Gathered(n, written, made).nodes or [n]
            continue
        for k, v in enumerate(n.ins):
            if v.buf in few and _is_part(v) and v.buf not in written and v.tag == 0:
                part = _Sliced(v, written, made)
                if part.value is not None and (n.kind == "ew" or n.op in ("copy", "dot") or part.value.contiguous):
                    out += part.nodes
                    made = part.made
                    n.ins[k] = part.value
                else:
                    forget(part.nodes)
        out.append(n)
    return out


def _needed_whole(nodes, outs):
    """What gathers and concatenations give, where anything that is to be computed whole reads more than a part of it."""
    needed = {v.buf for v in outs}
    for n in reversed(nodes):
        if n.kind == "ew" or n.op == "copy":
            if n.outs[0].buf not in needed:
                continue
        needed.update([v.buf for v in n.ins if not _is_part(v)])
    return {b for b in needed if b is not None and b.node is not None and b.node.op in MOVED}


def _is_part(v):
    """True for a view of a small part of an array."""
    return v.buf is not None and v.box is None and v.buf.size >= LEAST and SHARE * v.size <= v.buf.size and any(v.strides)


def _computed(v, written):
    """True if v is of the result of an elementwise operation, or of a copy, that no other reader needs in memory."""
    node = None if v.buf is None or v.buf in written or v.box is not None else v.buf.node
    return node is not None and (node.kind == "ew" or node.op == "copy")


class _Part:
    """What computes a part of an elementwise result: `nodes`, and the part of each value that is needed for it by `part`."""

    def __init__(self, size, shape, written, made):
        self.size, self.shape, self.written, self.made = size, shape, written, made  # size: of what the part is of
        self.nodes, self.parts, self.operands, self.operations = [], {}, 0, 0

    def part(self, v):
        """The part of v, a view of the shape of what the part is of; None if v is better computed whole."""
        if v.buf is None or not any(v.strides):
            return Value(v.buf, self.shape, (0,) * len(self.shape), v.offset, v.dtype, v.scalar, v.tag)
        key = (v.buf, v.strides, v.offset, v.dtype, v.tag)
        if key not in self.parts:
            self.parts[key] = self.operation(v) if _computed(v, self.written) else self.operand(v)
        return self.parts[key]

    def operation(self, v):
        node, ins = v.buf.node, []
        self.operations += 1
        view = _view_of_result(v)
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
        """What is taken of an array in memory, or of a small one."""
        self.operands += 1
        large = SHARE * v.buf.size > self.size
        if (
            self.operands > OPERANDS
            or v.box is not None
            or (large and v.buf.node is not None and v.buf.node.kind == "ew" and v.buf not in self.written)
        ):
            return None
        return None if SHARE * self.operands * math.prod(self.shape) > self.size else self.take(v)

    def temporary(self, dtype):
        return Value(Buf("temp", dtype, math.prod(self.shape)), self.shape, row_major(self.shape), 0, dtype)

    def add(self, node):
        self.nodes.append(node)
        return node.outs[0]


class _Sliced(_Part):
    """A part that is a view. value: the part; None if it is better read of the whole."""

    def __init__(self, v, written, made):
        super().__init__(v.buf.size, v.shape, written, dict(made))  # what is made here is for others if it is taken
        if v.key() not in made:
            node = v.buf.node
            part = self.part(v) if node is not None and (node.kind == "ew" or node.op in ("copy", "dot", *MOVED)) else None
            self.made[v.key()] = None if part is None or part.buf is v.buf else part
        self.value = self.made[v.key()]

    def take(self, v):
        node = v.buf.node
        if node is None or v.buf in self.written or node.op not in ("dot", *MOVED):
            return v
        return {"dot": self.product, "gather": self.windows, "concatenate": self.pieces}[node.op](v)

    def windows(self, v):
        """The gather of those windows, or those parts of all, that v shows; v where it is no such part."""
        node, box = v.buf.node, _box_of(v)
        (x, indices), ip, out = node.ins, node.ip, node.outs[0]
        if box is None or x.buf is None or x.box is not None or indices.buf is None or SHARE * v.size > v.buf.size:
            return v
        sizes, start, steps, axes = box
        ends = list(itertools.accumulate([*ip[:4], ip[3]], initial=7))
        windows, dropped, mapped, batched, batches = [ip[i:j] for i, j in itertools.pairwise(ends)]
        of = dict(zip(windows, [k for k in range(len(x.shape)) if k not in (*dropped, *batched)]))  # axis of the result -> of the operand
        shape, strides, offset, slices = list(x.shape), list(x.strides), x.offset, list(ip[len(ip) - len(x.shape) :])
        count, jumps, at, batch, single = list(indices.shape), list(indices.strides), indices.offset, 0, []
        for a, (n, s, by) in enumerate(zip(sizes, start, steps)):
            if a not in of:
                count[batch], at, jumps[batch] = n, at + s * jumps[batch], jumps[batch] * by
                if batch in batches:
                    k = batched[batches.index(batch)]
                    shape[k], offset, strides[k] = n, offset + s * strides[k], strides[k] * by
                batch += 1
            elif n < out.shape[a]:
                k = of[a]
                if k in mapped or (steps[a] > 1 and n > 1 and k == len(shape) - 1):  # it begins where its index says; or single elements
                    return v
                shape[k], offset, strides[k], slices[k] = n, offset + s * strides[k], strides[k] * by, n
                if n == 1:
                    single.append(a)
        left = [a for a in range(len(sizes)) if a not in single]
        kept = [k for k in range(len(shape)) if k not in [of[a] for a in single]]  # axes of one element are no windows
        shape, strides, slices = [[given[k] for k in kept] for given in (shape, strides, slices)]
        ip = (
            len(windows) - len(single),
            *ip[1:7],
            *[left.index(a) for a in windows if a in left],
            *[kept.index(k) for k in (*dropped, *mapped, *batched)],
            *batches,
            *slices,
        )
        x = Value(x.buf, tuple(shape), tuple(strides), offset, x.dtype, None, x.tag)
        indices = Value(indices.buf, tuple(count), tuple(jumps), at, indices.dtype, None, indices.tag)
        return self.moved(v, "gather", [x, indices], ip, tuple([sizes[a] for a in left]), {a: i for i, a in enumerate(left)}, axes)

    def pieces(self, v):
        """What v shows of arrays that are concatenated, of the only one it is of or of several, which are concatenated again."""
        node, box = v.buf.node, _box_of(v)
        if box is None or SHARE * v.size > v.buf.size:
            return v
        sizes, start, steps, axes = box
        axis, parts, before = node.ip[0], [], 0
        for x in node.ins:
            first, last = [min(max(-((start[axis] - k) // steps[axis]), 0), sizes[axis]) for k in (before, before + x.shape[axis])]
            if first < last:
                shape, begin = [*sizes], [*start]
                shape[axis], begin[axis] = last - first, start[axis] + first * steps[axis] - before
                offset = x.offset + sum([a * s for a, s in zip(begin, x.strides)])
                strides = tuple([by * s for by, s in zip(steps, x.strides)])
                parts.append(Value(x.buf, tuple(shape), strides, offset, x.dtype, x.scalar, x.tag))
            if x.box is not None:
                return v
            before += x.shape[axis]
        for i, x in enumerate(parts):
            if _is_part(x):
                part = _Sliced(x, self.written, self.made)
                if part.value is None:
                    forget(part.nodes)
                else:
                    self.nodes, self.made, parts[i] = self.nodes + part.nodes, part.made, part.value
        if len(parts) == 1:
            x, strides = parts[0], tuple([parts[0].strides[along[0][0]] if along else 0 for along in axes])
            return Value(x.buf, v.shape, strides, x.offset, x.dtype, x.scalar, x.tag)
        return self.moved(v, "concatenate", parts, (axis,), tuple(sizes), {a: a for a in range(len(sizes))}, axes)

    def moved(self, v, op, ins, ip, shape, place, axes):
        """v as a view of what a node gives over `shape`. place: axis of the result that v is of -> of the new one; axes: see _box_of."""
        out = Value(Buf("temp", v.dtype, math.prod(shape)), shape, row_major(shape), 0, v.dtype)
        out.buf.node = Node("kernel", op, ins, [out], ip=ip)
        self.add(out.buf.node)
        return Value(out.buf, v.shape, tuple([out.strides[place[along[0][0]]] if along else 0 for along in axes]), 0, v.dtype)

    def product(self, v):
        """The product of those rows and columns that v shows; v where it is no such part."""
        node = v.buf.node
        if node.ip or node.fp or node.obj is not None or len(node.ins) != 2 or len(node.outs) != 1:
            return v
        box = _box_of(v)
        if box is None or SHARE * v.size > v.buf.size:
            return v
        ((b, m, n), start, (at_b, at_m, at_n), axes), (x, y) = box, node.ins
        lhs = Value(
            x.buf,
            (b, m, x.shape[2]),
            (at_b * x.strides[0], at_m * x.strides[1], x.strides[2]),
            x.offset + start[0] * x.strides[0] + start[1] * x.strides[1],
            x.dtype,
            None,
            x.tag,
        )
        rhs = Value(
            y.buf,
            (b, y.shape[1], n),
            (at_b * y.strides[0], y.strides[1], at_n * y.strides[2]),
            y.offset + start[0] * y.strides[0] + start[2] * y.strides[2],
            y.dtype,
            None,
            y.tag,
        )
        if x.buf is None or y.buf is None or x.box or y.box or x.strides[2] != 1 or 1 not in rhs.strides[1:]:
            return v
        if _is_part(lhs):
            part = _Sliced(lhs, self.written, self.made)
            if part.value is not None:
                self.nodes, self.made, lhs = self.nodes + part.nodes, part.made, part.value
            else:
                forget(part.nodes)
        shape = (b, m, n)
        out = Value(Buf("temp", v.dtype, math.prod(shape)), shape, row_major(shape), 0, v.dtype)
        out.buf.node = Node("kernel", "dot", [lhs, rhs], [out], node.shape, type_code=node.type_code)
        self.add(out.buf.node)
        return Value(out.buf, v.shape, tuple([out.strides[along[0][0]] if along else 0 for along in axes]), 0, v.dtype)


class _Gathered(_Part):
    """A part that a gather or a dynamic slice takes; no nodes if it is better taken of the whole."""

    def __init__(self, gather, written, made):
        super().__init__(gather.ins[0].buf.size, gather.outs[0].shape, written, made)
        self.gather, self.gathers = gather, {}
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
            forget(self.nodes)
            self.nodes = []
            return
        if self.fills:
            self.fill(part)
        elif self.nodes and self.nodes[-1].outs[0] is part:
            last = self.nodes.pop()
            self.gathers = {k: v for k, v in self.gathers.items() if v is not part}
            forget([last])
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

    def take(self, v):
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


def _box_of(v):
    """(the sizes, begins and steps that v has along the axes of the result that it is of, the axis that each of v's goes along as _axes_of
    has them, one or none); None for a view of all of it, a diagonal or one that goes backwards."""
    shape = v.buf.node.outs[0].shape
    place = None if v.whole() or _view_of_result(v) is None else _axes_of(v, shape)
    if place is None or any([len(along) > 1 or (along and along[0][1] < 0) for along in place[0]]):
        return None
    axes, start = place
    steps = {a: (n, by) for n, along in zip(v.shape, axes) for a, by in along}
    return [steps.get(a, (1, 1))[0] for a in range(len(shape))], start, [steps.get(a, (1, 1))[1] for a in range(len(shape))], axes


def _with_result(node, out):
    """The node, with `out` for its result."""
    node = out.buf.node = Node(node.kind, node.op, node.ins, [out], node.shape, node.ip, type_code=node.type_code)
    return node


def _view_of_result(v):
    """_view of the result that v is of; None if v is no such view."""
    made = v.buf.node.outs[0]
    return _view(v, made.shape) if made.buf is v.buf and made.whole() and made.dtype == v.dtype and v.tag == made.tag else None


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
    place = _axes_of(v, shape)
    if place is None:
        return None
    axes, start = place

    def moved(x):
        strides = tuple([sum([by * x.strides[a] for a, by in along]) for along in axes])
        return strides, x.offset + sum([a * s for a, s in zip(start, x.strides)])

    return moved


def _axes_of(v, shape):
    """([the axes that each axis of v goes along, with its steps: several of a diagonal, none where v has one element], where v begins along
    each axis) for a view of a row-major array of `shape`; None if v is no such view."""
    steps, rest, start, axes = row_major(shape), v.offset, [], []
    for step in steps:
        start.append(rest // step)
        rest -= start[-1] * step
    if rest or any([not 0 <= a < k for a, k in zip(start, shape)]):
        return None
    for n, s in zip(v.shape, v.strides):
        along, left = [], abs(s) if n > 1 else 0
        for a, step in enumerate(steps):
            if by := left // step:
                along.append((a, by if s > 0 else -by))
                left -= by * step
        if any([not 0 <= start[a] + (n - 1) * by < shape[a] for a, by in along]):
            return None
        axes.append(along)
    used = [a for along in axes for a, _ in along]
    return (axes, start) if len(used) == len(set(used)) else None
