"""Sums of elementwise products of which each operand lacks axes of the other are products of matrices: (x[:, None] * y).sum(-1)."""

from collections import Counter

from fgrad.compile.fuse import reductions
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape
from fgrad.dtypes import FLOAT32, FLOAT64

LEAST = 8  # rows, and columns: of fewer, operands are read as fast by the sum itself
DEEP = 2  # elements that are summed, at least


def contract(nodes, outs):
    """nodes, with such sums as products of matrices where nobody else reads the elementwise products."""
    found = [n for n in reductions(nodes) if n.op == "sum" and _product(n.ins[0]) is not None]
    if not found:
        return nodes
    reads = Counter([v.buf for n in nodes for v in n.ins])
    reads.update([v.buf for v in outs])
    made = {id(n): _Contraction(n).nodes for n in found if reads[n.ins[0].buf] == 1}
    return [new for n in nodes for new in made.get(id(n)) or (n,)]


def _product(v):
    """The elementwise product that v is the whole result of, or None."""
    node = v.buf.node if v.buf is not None else None
    if node is None or node.kind != "ew" or node.op != "mul" or v.dtype not in (FLOAT32, FLOAT64) or not v.whole() or v.shape != node.shape:
        return None
    x, y = node.ins
    if 0 not in x.strides or 0 not in y.strides:  # none lacks an axis
        return None
    return node if all([x.buf is not None and x.box is None and x.dtype == v.dtype for x in (x, y)]) else None


class _Contraction:
    """nodes: those that do what the sum does; none if it is no product of matrices that is worth it."""

    def __init__(self, total):
        self.shape, self.nodes = total.shape, []
        x, y = _product(total.ins[0]).ins
        axes = [a for a, n in enumerate(total.shape) if n != 1]
        if any([not x.strides[a] and not y.strides[a] for a in axes]):
            return
        summed = [a for a in axes if a in total.axes]
        kept = [a for a in axes if a not in total.axes]
        both = [a for a in kept if x.strides[a] and y.strides[a]]
        rows, columns = [a for a in kept if not y.strides[a]], [a for a in kept if not x.strides[a]]
        if any([not x.strides[a] or not y.strides[a] for a in summed]) or not rows or not columns:
            return
        if rows[0] > columns[0]:
            x, y, rows, columns = y, x, columns, rows
        b, m, n, k = [self.count(group) for group in (both, rows, columns, summed)]
        lhs, rhs = self.matrices(x, both, rows, summed, (b, m, k)), self.matrices(y, both, summed, columns, (b, k, n))
        if min(m, n) < LEAST or k < DEEP or lhs is None or rhs is None:
            return
        out, dtype, lies = total.outs[0], total.outs[0].dtype, both + rows + columns
        product = Value(Buf("temp", dtype, out.size), (b, m, n), row_major((b, m, n)), 0, dtype)
        if lies == kept:
            product = Value(out.buf, product.shape, product.strides, 0, dtype)
        product.buf.node = self.add(Node("kernel", "dot", [lhs, rhs], [product]))
        if lies != kept:
            strides = dict(zip(lies, row_major(tuple([self.shape[a] for a in lies]))))
            left = [a for a in range(len(self.shape)) if a not in total.axes]
            moved = Value(product.buf, out.shape, tuple([strides.get(a, 0) for a in left]), 0, dtype)
            out.buf.node = self.add(Node("kernel", "copy", [moved], [out]))

    def add(self, node):
        self.nodes.append(node)
        return node

    def count(self, axes):
        size = 1
        for a in axes:
            size *= self.shape[a]
        return size

    def matrices(self, v, batch, first, second, shape):
        """v as a batch of matrices; None where it does not lie as one."""
        axes = batch + first + second
        strides = view_reshape(tuple([self.shape[a] for a in axes]), tuple([v.strides[a] for a in axes]), shape)
        return None if strides is None else Value(v.buf, shape, strides, v.offset, v.dtype, None, v.tag)
