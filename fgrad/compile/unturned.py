"""What is turned, computed with, and turned back is computed as it lies.

The gradient of f(x.T) with elementwise work in f copies x.T in order, computes, and copies the result back: for each copy after elementwise
operations it is tried whether these, over the axes of the copy's result, read fewer operands, or narrower ones, out of order.
"""

from math import prod

from fgrad.compile.taken import elementwise_node
from fgrad.compile.values import Buf, Value, row_major, view_reshape

LEAST = 1 << 12  # elements of a result
OPERATIONS = 32  # of one copy
SMALL = 4  # times, at least, that an operand is read whose order in memory does not count


def unturn(nodes, outs):
    """nodes, with copies of what elementwise operations compute replaced by these operations in the order of the copy."""
    copies = [n for n in nodes if n.op == "copy" and n.ins[0].size >= LEAST and _made(n.ins[0]) is not None]
    if not copies:
        return nodes
    readers = {}  # buffer -> what reads it
    for n in nodes:
        for v in n.ins:
            readers.setdefault(v.buf, set()).add(n)
    for v in outs:
        readers.setdefault(v.buf, set()).add(None)
    instead = {}
    for n in copies:
        made = _Turned(n, readers).nodes
        if made:
            instead[n] = made
            for new in made:
                for v in new.ins:
                    readers.setdefault(v.buf, set()).add(new)
    return [new for n in nodes for new in instead.get(n, (n,))]


def _made(v):
    """The elementwise operation of whose result v shows all elements, in another order."""
    node = v.buf.node if v.buf is not None else None
    if node is None or node.kind != "ew" or v.whole() or v.tag or v.box is not None or v.dtype != v.buf.dtype or v.size != v.buf.size:
        return None
    return node


def _order(v):
    """(a shape in whose row-major order the elements of v lie, for each axis of v the one of that shape, or None); None for other views."""
    axes = sorted([(-abs(s), k) for k, (n, s) in enumerate(zip(v.shape, v.strides)) if n != 1])
    shape = tuple([v.shape[k] for _, k in axes])
    if tuple([-s for s, _ in axes]) != row_major(shape) or v.offset != sum([-s * (n - 1) for n, s in zip(v.shape, v.strides) if s < 0]):
        return None
    at = {k: i for i, (_, k) in enumerate(axes)}
    return shape, [at.get(k) for k in range(len(v.shape))]


class _Turned:
    """nodes: what computes a copy in its own order; none where that is not better."""

    def __init__(self, copy, readers):
        self.nodes, self.copy, self.readers, self.values = [], copy, readers, {}
        order = _order(copy.ins[0])
        if order is None:
            return
        self.shape, self.axes = order
        self.chain, self.skipped = self.operations(copy.ins[0].buf.node)
        if not self.chain:
            return
        # bytes of an element of what is out of order: bytes that become floats are turned as bytes
        before = copy.outs[0].dtype.itemsize
        before += sum([c.outs[0].dtype.itemsize for c in self.skipped if readers[c.outs[0].buf] <= self.chain])
        operands = self.operands()
        if operands is None:
            return
        before += sum([v.dtype.itemsize for v, _ in operands.values() if not _in_order(v)])
        if sum([v.dtype.itemsize for _, v in operands.values() if not _in_order(v)]) < before:
            self.turned = {key: v for key, (_, v) in operands.items()}
            self.operation(copy.ins[0].buf.node, copy.outs[0])

    def operations(self, root):
        """The elementwise operations that nothing else needs, and copies between them that are read where they were made."""
        found, copies, left = set(), set(), [root]
        while left:
            node = left.pop()
            if node in found or node in copies:
                continue
            if node.op == "copy":
                copies.add(node)
            elif (
                node.ip
                or node.fp
                or node.obj is not None
                or len(found) >= OPERATIONS
                or (node is not root and prod(node.shape) != prod(root.shape))
            ):
                continue
            else:
                found.add(node)
            left += [v.buf.node for v in node.ins if _is_all(v) and (v.buf.node.kind == "ew" or _only_moves(v.buf.node))]
        inside, kept = None, found
        while inside is None or len(inside) != len(kept):
            inside, kept = kept, set()
            for node in inside:
                read = self.readers[node.outs[0].buf]
                if read <= inside | copies or (node is root and read <= inside | copies | {self.copy}):
                    kept.add(node)
        return (kept, copies) if root in kept else (set(), set())

    def operands(self):
        """{what identifies an operand: (it, as the operations read it now; it in the copy's order)}; None if one cannot be read so."""
        out = {}
        for node in self.chain:
            for v in node.ins:
                if v.buf is None or self.inner(v) in self.chain:
                    continue
                source = v
                while _is_all(source) and source.buf.node in self.skipped:
                    source = source.buf.node.ins[0]
                if _is_all(source) and source.buf.node in self.chain:
                    continue
                turned = self.turn(source)
                if turned is None:
                    return None
                out[v.key()] = v, turned
        return out

    def inner(self, v):
        return v.buf.node if _is_all(v) else None

    def turn(self, v):
        """v over the axes of the copy's result."""
        strides = view_reshape(v.shape, v.strides, self.shape) if v.box is None else None
        if strides is None:
            return None
        offset, out = v.offset, []
        for a, n, s in zip(self.axes, self.copy.ins[0].shape, self.copy.ins[0].strides):
            step = 0 if a is None else strides[a]
            if s < 0 and a is not None:
                offset += (n - 1) * step
                step = -step
            out.append(step)
        rows = row_major(self.copy.ins[0].shape)
        out = tuple([r if n == 1 and any(out) else s for n, s, r in zip(self.copy.ins[0].shape, out, rows)])
        return Value(v.buf, self.copy.ins[0].shape, out, offset, v.dtype, None, v.tag)

    def operation(self, node, out):
        """Add what computes `out`, or a new value, of a node of the chain; the value."""
        if node in self.values:
            return self.values[node]
        ins, shape = [], self.copy.ins[0].shape
        for v in node.ins:
            if v.buf is None:
                ins.append(Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar, v.tag))
                continue
            source = v
            while _is_all(source) and source.buf.node in self.skipped:
                source = source.buf.node.ins[0]
            made = self.inner(source)
            ins.append(self.operation(made, None) if made in self.chain else self.turned[v.key()])
        if out is None:
            dtype = node.outs[0].dtype
            out = Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)
        self.values[node] = out
        self.nodes.append(elementwise_node(node.op, ins, out, type_code=node.type_code))
        return out


def _is_all(v):
    """True if v is a result in its own order."""
    return v.buf is not None and v.buf.node is not None and v.box is None and not v.tag and v.whole() and v.dtype == v.buf.dtype


def _only_moves(node):
    """True for a copy of which each element is one of its own."""
    v = node.ins[0] if node.op == "copy" else None
    return v is not None and v.buf is not None and v.box is None and not v.tag and all([s or n == 1 for n, s in zip(v.shape, v.strides)])


def _in_order(v):
    """True for an operand whose order costs nothing: it lies as it is read, or is small."""
    steps = [(n, s) for n, s in zip(v.shape, v.strides) if n != 1 and s]
    if prod([n for n, _ in steps]) * SMALL <= prod(v.shape):
        return True
    return steps == sorted(steps, key=lambda a: -a[1]) and all([s > 0 for _, s in steps])
