"""Gathers of single items at indices that a group computes, or for a group to read, are operations of it: neither indices nor items go
through memory. A place that is made of two indices within bounds is found by the gather itself."""

from collections import Counter

import numpy as np

from fgrad._kernels.index import WRAPS
from fgrad.compile.bounds import bounds
from fgrad.compile.fuse import in_register, live_nodes
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.compile.wrapped import given_before_wrap
from fgrad.core.array import CODES

LEAST = 1024  # items: loops of fewer are flat code, which knows gathers
FAR = 1 << 30  # items that offsets of 32 bits reach


def take_items(nodes, outs):
    """nodes, with gathers of items of a vector beside elementwise operations as such."""
    read = {}  # buffer -> the values that elementwise operations and reductions show it as
    reads = Counter([v.buf for n in nodes for v in n.ins])
    reads.update([v.buf for v in outs])
    for n in nodes:
        if n.kind in ("ew", "reduce"):
            for v in n.ins:
                if v.buf is not None:
                    read.setdefault(v.buf, []).append((v, n.shape))
    out = []
    for n in nodes:
        out += _as_take(n, read, reads) if n.kind == "kernel" and n.op == "gather" and n.outs[0].size >= LEAST else [n]
    return live_nodes(out, outs)


def _as_take(gather, read, reads):
    """[the operations of a group that do what the gather does], or [gather]."""
    x, indices = gather.ins
    out, n, mode = gather.outs[0], x.size, gather.ip[4]
    if x.buf is None or x.box is not None or len(x.shape) != 1 or gather.ip[:4] != (0, 1, 1, 0) or indices.buf is None:
        return [gather]
    if indices.box is not None or not 0 < n <= FAR or n * abs(x.strides[0]) > FAR or compute_dtype(x.dtype) is not x.dtype:
        return [gather]
    shape = out.shape
    at = Value(indices.buf, shape, indices.strides[:-1], indices.offset, indices.dtype)
    if not in_register(at, shape) and not any([s == shape and v.shape == shape and v.whole() for v, s in read.get(out.buf, ())]):
        return [gather]
    if reads[indices.buf] == 1 and n <= FAR // 2 and (pair := _pair(at, n)) is not None:
        a, b, sizes, wraps = pair
        ones, row = tuple([1 for _ in shape]), sizes[1] * x.strides[0]
        table = Value(x.buf, (*ones, *sizes), (*[0 for _ in shape], row, x.strides[0]), x.offset, x.dtype)
        return [_node("take2", [a, b, table], out, (wraps,))]
    table = Value(x.buf, (*(1 for _ in shape), n), (*(0 for _ in shape), x.strides[0]), x.offset, x.dtype)
    if not mode & 1:
        return [_node("take", [at, table], out, (int(mode & WRAPS > 0),))]
    fill = np.frombuffer(np.array(gather.ip[5:7], np.int64).tobytes()[: x.dtype.itemsize], x.dtype)[0]
    nodes = []

    def add(op, ins, dtype, type_code=None, ip=()):
        made = Value(Buf("temp", dtype, out.size), shape, row_major(shape), 0, dtype)
        nodes.append(_node(op, ins, made, ip, type_code))
        return made

    def number(value, dtype):
        return Value(None, shape, (0,) * len(shape), 0, dtype, np.asarray(value, dtype)[()])

    index_code, bool_ = CODES[at.dtype], np.dtype(bool)
    item = add("take", [at, table], x.dtype, ip=(int(mode & WRAPS > 0),))
    below = add("lt", [at, number(-n if mode & WRAPS else 0, at.dtype)], bool_, index_code)
    above = add("ge", [at, number(n, at.dtype)], bool_, index_code)
    outside = add("or", [below, above], bool_)
    return [*nodes, _node("select", [outside, number(fill, x.dtype), item], out)]


def _pair(at, n):
    """(a, b, (m, k), wraps) if places `at` among n = m * k items are a * k + b, both within bounds: those that take2 keeps itself are not
    computed before it. wraps: 1 where negative a count from the end, 2 more where b do."""
    node = _made(at, "add")
    for product, b in () if node is None else (node.ins, node.ins[::-1]):
        found = _made(product, "mul")
        for a, number in () if found is None else (found.ins, found.ins[::-1]):
            k = 0 if number.scalar is None else int(number.scalar)
            if k < 1 or n % k or a.shape != at.shape or b.shape != at.shape or a.buf is None or b.buf is None:
                continue
            if all([0 <= least and most < size for (least, most), size in zip((bounds(a), bounds(b)), (n // k, k))]):
                (a, first), (b, second) = _unbounded(a, n // k), _unbounded(b, k)
                return a, b, (n // k, k), first + 2 * second
    return None


def _unbounded(v, n):
    """(i, whether negative ones count from the end) if v is i so counted and moved into an axis of n, else (v, False)."""
    clamp = _made(v, "clamp")
    if clamp is None or [x.scalar for x in clamp.ins[::2]] != [0, n - 1] or clamp.ins[1].buf is None or clamp.ins[1].shape != v.shape:
        return v, False
    moved = clamp.ins[1]
    given = given_before_wrap(moved.buf.node, n) if moved.whole() else None
    return (moved, False) if given is None else (given, True)


def _made(v, op):
    """The elementwise operation `op` that computes v, or None."""
    return v.buf.node if in_register(v, v.shape) and v.buf.node.op == op and v.buf.node.shape == v.shape else None


def _node(op, ins, out, ip=(), type_code=None):
    node = Node("ew", op, ins, [out], out.shape, ip, type_code=CODES[out.dtype] if type_code is None else type_code)
    out.buf.node = node
    return node
