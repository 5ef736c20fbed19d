"""Sums over differences of all pairs of rows are kernels: ((x[:, None] - y) ** 2).sum(-1), and (w[..., None] * (x[:, None] - y)).sum(1).

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
MANY = 8  # factors of a difference
PAIRS = 1 << 22  # at most: 16 MB of a number for each, which tiles over rows do not keep
SIZE = 2048  # pairs times columns: what is less is as fast as one group


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
    """The axes of a difference of x and y: those of batches, of rows of x and of y, and columns. over: what a sum is over, or None."""

    def __init__(self, node, summed, factors=()):
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
        pairs, lies = self.rows + self.columns, max(self.rows + self.columns, default=0)
        weights = [v for _, v in factors if any([v.strides[a] for a in pairs])]
        free = [a for a in both if not any([v.strides[a] for v in weights])]  # columns: those behind the rows, if there are such
        self.inner = summed if self.over == "both" else [a for a in free if a > lies] or free
        self.batch = [a for a in both if a not in self.inner]
        rows, columns = self.count(self.rows), self.count(self.columns)
        usual = all([v.buf is not None and v.box is None and v.dtype == node.outs[0].dtype for v in node.ins])
        unfit = min(rows, columns) < LEAST or self.count(self.inner) <= MOST or self.count(self.batch) * rows * columns > PAIRS
        if not usual or unfit or len(axes) != len(self.batch + self.rows + self.columns + self.inner):
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

    def result(self, op, ins, out, groups, axes, after=(), **params):
        """The kernel whose result has an axis for each group, operations with factors of its columns, what puts that in the sum's order."""
        lies, kept = [a for g in groups for a in g], [a for a in range(len(self.shape)) if a not in axes]
        shape = tuple([self.count(g) for g in groups])
        moves, nodes = lies != [a for a in kept if self.shape[a] != 1], []
        for i in range(len(after) + 1):
            buf = out.buf if i == len(after) and not moves else Buf("temp", out.dtype, out.size)
            made = Value(buf, shape, row_major(shape), 0, out.dtype)
            if i:
                name, f = after[i - 1]
                made.buf.node = Node("ew", name, [nodes[-1].outs[0], _spread(f, shape)], [made], shape, type_code=CODES[out.dtype])
            else:
                made.buf.node = Node("kernel", op, ins, [made], **params)
            nodes.append(made.buf.node)
        if moves:
            strides = dict(zip(lies, row_major(tuple([self.shape[a] for a in lies]))))
            nodes.append(
                Node("kernel", "copy", [Value(made.buf, out.shape, tuple([strides.get(a, 0) for a in kept]), 0, out.dtype)], [out])
            )
            out.buf.node = nodes[-1]
        return nodes

    def of_columns(self, v):
        """v, a number or a factor of each column, of each batch perhaps, as (batches, 1, columns); None if it is anything else."""
        if v.buf is None:
            return v
        if v.box is not None or v.dtype != self.x.dtype or any([v.strides[a] for a in self.rows + self.columns]):
            return None
        return self.matrices(v, self.batch, [], self.inner)


def _spread(v, shape):
    """v, of (batches, 1, columns) or a number, over the shape (batches, rows, columns)."""
    strides = (0, 0, 0) if v.buf is None else (v.strides[0], 0, v.strides[2])
    return Value(v.buf, shape, strides, v.offset, v.dtype, v.scalar, v.tag)


def _scaled(v, shape):
    """(the operation that v is the whole result of, or is with a factor of columns, or None; "mul" or "div" and that factor, or None)."""
    node = _made(v, shape)
    if node is None or node.op not in ("mul", "div") or node.ins[0].buf is node.ins[1].buf:
        return node, None
    for x, f in (node.ins, node.ins[::-1])[: 1 if node.op == "div" else 2]:
        if f.buf is None and f.scalar is not None or f.buf is not None and 0 in f.strides:
            inner = _made(x, shape)
            if inner is not None:
                return inner, (node.op, f)
    return node, None


def _distances(total, reads):
    """Nodes that do what a sum of squared or absolute differences over what both operands have does, or None."""
    out = total.outs[0]
    if reads[total.ins[0].buf] != 1 or not out.whole() or out.dtype != total.ins[0].dtype:
        return None
    node, after = _scaled(total.ins[0], total.shape)
    if node is None or (node.op not in ("square", "abs") and not (node.op == "mul" and node.ins[0].buf is node.ins[1].buf)):
        return None
    inner, before = _scaled(node.ins[0], total.shape)
    if inner is None or inner.op != "sub" or (node.op == "mul" and not node.ins[1].whole()) or (before and after):
        return None
    p = _Pairs(inner, total.axes)
    if p.over != "both":
        return None
    ins, nodes, number = [p.matrices(p.x, p.batch, p.rows, p.inner), p.matrices(p.y, p.batch, p.columns, p.inner)], [], 1.0
    if before or after:
        op, f = before or after
        f = p.of_columns(f)
        if f is not None and f.buf is None:
            number = float(f.scalar) if op == "mul" else 1 / float(f.scalar) if f.scalar else None
        elif f is not None and op == "div":  # products with the inverse
            one = Value(None, f.shape, (0, 0, 0), 0, f.dtype, f.dtype.type(1))
            inverse = Value(Buf("temp", f.dtype, f.size), f.shape, row_major(f.shape), 0, f.dtype)
            inverse.buf.node = Node("ew", "div", [one, f], [inverse], f.shape, type_code=CODES[f.dtype])
            nodes.append(inverse.buf.node)
            f = inverse
        if f is None or f.buf is not None:
            ins.append(f)
    if number is None or any([v is None for v in ins]):
        return None
    form = (node.op == "abs") + 2 * (before is not None) + 4 * (after is not None)
    return nodes + p.result("pair_distances", ins, out, (p.batch, p.rows, p.columns), total.axes, ip=(form,), fp=(number,))


def _factors(v, shape, op="mul", depth=2 * MANY):
    """([("mul" or "div", a value)], a number) whose product v is; None of more than MANY values, or of a number that is none."""
    node = _made(v, shape)
    if v.buf is None:
        usual = v.scalar is not None and (op == "mul" or v.scalar)
        return ([], float(v.scalar) if op == "mul" else 1 / float(v.scalar)) if usual else None
    if node is None or node.op not in ("mul", "div", "neg") or not depth:
        return [(op, v)], 1.0
    found = _factors(node.ins[0], shape, op, depth - 1)
    if found is None or node.op == "neg":
        return found and (found[0], -found[1])
    other = _factors(node.ins[1], shape, op if node.op == "mul" else "div" if op == "mul" else "mul", depth - 1)
    if other is None or len(found[0]) + len(other[0]) > MANY:
        return None
    return found[0] + other[0], found[1] * other[1]


def _moments(total):
    """Nodes that do what a sum of weighted differences over the rows of one operand does, or None."""
    out, found = total.outs[0], _factors(total.ins[0], total.shape)
    if found is None or not out.whole() or out.dtype != total.ins[0].dtype:
        return None
    factors, scale = found
    differences = [f for f in factors if f[0] == "mul" and (made := _made(f[1], total.shape)) is not None and made.op == "sub"]
    if len(differences) != 1 or len(factors) < 2:
        return None
    node = _made(differences[0][1], total.shape)
    factors.remove(differences[0])
    p = _Pairs(node, total.axes, factors)
    if p.over not in ("rows", "columns"):
        return None
    x, y, rows, columns = p.x, p.y, p.rows, p.columns
    if p.over == "rows":
        x, y, rows, columns, scale = y, x, columns, rows, -scale
    nodes, weights, after = [], [], []
    for op, v in factors:
        if (
            v.dtype == out.dtype
            and v.box is None
            and not any([v.strides[a] for a in p.inner])
            and any([v.strides[a] for a in rows + columns])
        ):
            weights.append((op, p.matrices(v, p.batch, rows, columns)))
        else:
            after.append((op, p.of_columns(v)))
    x, y = [_in_rows(p.matrices(v, p.batch, r, p.inner), nodes) for v, r in ((x, rows), (y, columns))]
    weights.sort(key=lambda item: item[0] == "div")
    if x is None or y is None or not weights or weights[0][0] == "div" or any([v is None for _, v in weights + after]):
        return None
    w = weights[0][1]
    for op, other in weights[1:]:
        product = Value(Buf("temp", out.dtype, w.size), w.shape, row_major(w.shape), 0, out.dtype)
        product.buf.node = Node("ew", op, [w, other], [product], w.shape, type_code=CODES[out.dtype])
        nodes.append(product.buf.node)
        w = product
    return nodes + p.result("pair_moments", [w, x, y], out, (p.batch, rows, p.inner), total.axes, after, fp=(scale,))


def _in_rows(v, nodes):
    """v with its last axis contiguous, a copy where it is not; None for None."""
    if v is None or v.strides[-1] == 1:
        return v
    copy = Value(Buf("temp", v.dtype, v.size), v.shape, row_major(v.shape), 0, v.dtype)
    copy.buf.node = Node("kernel", "copy", [v], [copy])
    nodes.append(copy.buf.node)
    return copy
