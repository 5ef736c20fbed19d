"""Sums over differences of all pairs of rows are kernels: ((x[:, None] - y) ** 2).sum(-1), and its gradient (w[..., None] * (x[:, None] - y)).sum(1).

Of the operation over all pairs and columns nothing is written, and no row is added up across a vector.  A row of few columns is for
`split_columns`; sums, and differences first, are what the program says: squared norms less twice a product would cancel.
"""

from collections import Counter

from fgrad.compile.columns import MOST
from fgrad.compile.fuse import reductions
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape
from fgrad.core.array import CODES
from fgrad.dtypes import FLOAT32, FLOAT64

LEAST = 8  # rows of either operand
SIZE = 16384  # pairs times columns: what is less is as fast as one group


def join_pairs(nodes, outs):
    """nodes with such sums as kernels."""
    found = [n for n in reductions(nodes) if n.op == "sum" and n.ins[0].size >= SIZE and n.ins[0].dtype in (FLOAT32, FLOAT64)]
    if not found:
        return nodes
    reads = Counter([v.buf for n in nodes for v in n.ins])
    reads.update([v.buf for v in outs])
    made = {}
    for n in found:
        if new := _distances(n, reads) or _moments(n):
            made[id(n)] = new
    return [new for n in nodes for new in made.get(id(n), (n,))] if made else nodes


def _made(v, shape):
    """The elementwise operation over `shape` that v is the whole result of, or None."""
    node = v.buf.node if v.buf is not None else None
    return node if node is not None and node.kind == "ew" and v.shape == node.shape == shape and v.box is None and v.whole() else None


class _Pairs:
    """The axes of a difference of x and y: those of batches, of rows of x and of y, and of what both have."""

    def __init__(self, node, summed):
        self.shape, (self.x, self.y) = node.shape, node.ins
        axes = [a for a, n in enumerate(self.shape) if n != 1]
        self.rows = [a for a in axes if not self.y.strides[a] and self.x.strides[a]]
        self.columns = [a for a in axes if not self.x.strides[a] and self.y.strides[a]]
        both = [a for a in axes if self.x.strides[a] and self.y.strides[a]]
        summed = [a for a in axes if a in summed]
        self.over = "both" if summed and all([a in both for a in summed]) else None
        for name, group in (("rows", self.rows), ("columns", self.columns)):
            if summed == group:
                self.over = name
        lies = max(self.rows + self.columns, default=0)
        self.inner = summed if self.over == "both" else [a for a in both if a > lies]
        self.batch = [a for a in both if a not in self.inner]
        usual = all([v.buf is not None and v.box is None and v.dtype == node.outs[0].dtype for v in node.ins])
        if not usual or len(axes) != len(self.batch + self.rows + self.columns + self.inner):
            self.over = None

    def count(self, axes):
        size = 1
        for a in axes:
            size *= self.shape[a]
        return size

    def matrices(self, v, *groups):
        """v as an array with an axis for each group of axes; None where it does not lie as one."""
        axes, shape = [a for g in groups for a in g], tuple([self.count(g) for g in groups])
        strides = view_reshape(tuple([self.shape[a] for a in axes]), tuple([v.strides[a] for a in axes]), shape)
        return None if strides is None else Value(v.buf, shape, strides, v.offset, v.dtype, None, v.tag)

    def result(self, op, ins, out, groups, axes, **params):
        """[the kernel whose result has an axis for each group, and what puts it in the order of the sum's]."""
        lies, kept = [a for g in groups for a in g], [a for a in range(len(self.shape)) if a not in axes]
        shape = tuple([self.count(g) for g in groups])
        moves = lies != [a for a in kept if self.shape[a] != 1]
        made = Value(Buf("temp", out.dtype, out.size) if moves else out.buf, shape, row_major(shape), 0, out.dtype)
        nodes = [Node("kernel", op, ins, [made], **params)]
        made.buf.node = nodes[0]
        if moves:
            strides = dict(zip(lies, row_major(tuple([self.shape[a] for a in lies]))))
            nodes.append(Node("kernel", "copy", [Value(made.buf, out.shape, tuple([strides.get(a, 0) for a in kept]), 0, out.dtype)], [out]))
            out.buf.node = nodes[1]
        return nodes


def _distances(total, reads):
    """Nodes that do what a sum of squared or absolute differences over what both operands have does, or None."""
    out, node = total.outs[0], _made(total.ins[0], total.shape)
    if node is None or reads[total.ins[0].buf] != 1 or not out.whole() or out.dtype != total.ins[0].dtype:
        return None
    if node.op not in ("square", "abs") and not (node.op == "mul" and node.ins[0].buf is node.ins[1].buf):
        return None
    inner = _made(node.ins[0], total.shape)
    if inner is None or inner.op != "sub" or (node.op == "mul" and _made(node.ins[1], total.shape) is not inner):
        return None
    p = _Pairs(inner, total.axes)
    if p.over != "both" or min(p.count(p.rows), p.count(p.columns)) < LEAST or p.count(p.inner) <= MOST:
        return None
    x, y = p.matrices(p.x, p.batch, p.rows, p.inner), p.matrices(p.y, p.batch, p.columns, p.inner)
    if x is None or y is None:
        return None
    return p.result("pair_distances", [x, y], out, (p.batch, p.rows, p.columns), total.axes, ip=(int(node.op == "abs"),))


def _factors(v, shape, weights):
    """(the difference, a number) that v is the product of, besides the weights, which are added to the list; None if it is no such."""
    node = _made(v, shape)
    if node is None or node.op not in ("sub", "mul", "neg"):
        return None
    if node.op == "sub":
        return node, 1.0
    if node.op == "neg":
        found = _factors(node.ins[0], shape, weights)
        return found and (found[0], -found[1])
    for x, other in (node.ins, node.ins[::-1]):
        found = _factors(x, shape, weights)
        if found is not None:
            if other.buf is None:
                return None if other.scalar is None else (found[0], found[1] * float(other.scalar))
            weights.append(other)
            return found
    return None


def _moments(total):
    """Nodes that do what a sum of weighted differences over the rows of one operand does, or None."""
    out, weights = total.outs[0], []
    found = _factors(total.ins[0], total.shape, weights)
    if found is None or not weights or not out.whole() or out.dtype != total.ins[0].dtype:
        return None
    node, scale = found
    p = _Pairs(node, total.axes)
    if p.over not in ("rows", "columns") or min(p.count(p.rows), p.count(p.columns)) < LEAST or p.count(p.inner) <= MOST:
        return None
    if any([w.dtype != out.dtype or w.box is not None or any([w.strides[a] for a in p.inner]) for w in weights]):
        return None
    x, y, rows, columns = p.x, p.y, p.rows, p.columns
    if p.over == "rows":
        x, y, rows, columns, scale = y, x, columns, rows, -scale
    nodes = []
    x, y = [_in_rows(p.matrices(v, p.batch, r, p.inner), nodes) for v, r in ((x, rows), (y, columns))]
    weights = [p.matrices(w, p.batch, rows, columns) for w in weights]
    if x is None or y is None or any([w is None for w in weights]):
        return None
    w = weights[0]
    for other in weights[1:]:
        product = Value(Buf("temp", out.dtype, w.size), w.shape, row_major(w.shape), 0, out.dtype)
        product.buf.node = Node("ew", "mul", [w, other], [product], w.shape, type_code=CODES[out.dtype])
        nodes.append(product.buf.node)
        w = product
    return nodes + p.result("pair_moments", [w, x, y], out, (p.batch, rows, p.inner), total.axes, fp=(scale,))


def _in_rows(v, nodes):
    """v with its last axis contiguous, a copy where it is not; None for None."""
    if v is None or v.strides[-1] == 1:
        return v
    copy = Value(Buf("temp", v.dtype, v.size), v.shape, row_major(v.shape), 0, v.dtype)
    copy.buf.node = Node("kernel", "copy", [v], [copy])
    nodes.append(copy.buf.node)
    return copy
