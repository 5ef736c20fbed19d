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
    if not any([n.op == "gather" and n.kind == "kernel" and n.outs[0].size >= LEAST for n in nodes]):
        return live_nodes(nodes, outs)
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
    if x.buf is None or x.box is not None or indices.buf is None:
        return [gather]
    if len(x.shape) != 1 or gather.ip[:4] != (0, 1, 1, 0):
        return _of_rows(gather, read)
    if indices.box is not None or not 0 < n <= FAR or n * abs(x.strides[0]) > FAR or compute_dtype(x.dtype) is not x.dtype:
        return [gather]
    shape = out.shape
    at = Value(indices.buf, shape, indices.strides[:-1], indices.offset, indices.dtype)
    if not in_register(at, shape) and not any([s == shape and v.shape == shape and v.whole() for v, s in read.get(out.buf, ())]):
        return [gather]
    if reads[indices.buf] == 1 and n <= FAR // 2 and (pair := pair_of(at, n)) is not None:
        a, b, sizes = pair
        (a, first), (b, second) = _unbounded(a, sizes[0]), _unbounded(b, sizes[1])
        ones, row = tuple([1 for _ in shape]), sizes[1] * x.strides[0]
        table = Value(x.buf, (*ones, *sizes), (*[0 for _ in shape], row, x.strides[0]), x.offset, x.dtype)
        return [elementwise_node("take2", [a, b, table], out, (first + 2 * second,))]
    table = Value(x.buf, (*(1 for _ in shape), n), (*(0 for _ in shape), x.strides[0]), x.offset, x.dtype)
    if not mode & 1:
        return [elementwise_node("take", [at, table], out, (int(mode & WRAPS > 0),))]
    item = Value(Buf("temp", x.dtype, out.size), shape, row_major(shape), 0, x.dtype)
    nodes, beyond = outside(at, n, mode)
    number = Value(None, shape, (0,) * len(shape), 0, x.dtype, fill_value(gather.ip, x.dtype))
    take = elementwise_node("take", [at, table], item, (int(mode & WRAPS > 0),))
    return [take, *nodes, elementwise_node("select", [beyond, number, item], out)]


def _of_rows(gather, read):
    """The same for items along the last axis of an array of more, each row of which has its indices, or the same ones: the row is a second
    index, which is counted."""
    (x, indices), (out,), ip, rank = gather.ins, gather.outs, gather.ip, len(gather.ins[0].shape)
    offsets, collapsed, indexed, batching = ip[:4]
    parts = np.split(np.array(ip[7:]), np.cumsum([offsets, collapsed, indexed, batching, batching]))
    offset_dims, collapsed, indexed, batching, of_indices, sizes = (tuple(map(int, part)) for part in parts)
    n, shape, mode = x.shape[-1], out.shape, ip[4]
    if collapsed != (rank - 1,) or indexed != collapsed or indices.box is not None or not 0 < x.size <= FAR or not x.contiguous:
        return [gather]
    if any([sizes[a] != x.shape[a] for a in range(rank - 1) if a not in batching]) or compute_dtype(x.dtype) is not x.dtype:
        return [gather]
    if not any([s == shape and v.shape == shape and v.whole() for v, s in read.get(out.buf, ())]):
        return [gather]
    spread = [a for a in range(len(shape)) if a not in offset_dims]  # axes of the result that are the indices'
    steps, count = row_major(x.shape[:-1]), x.size // n
    places, rows, kept = [0] * len(shape), [0] * len(shape), iter(offset_dims)
    for a, step in zip(spread, indices.strides[:-1]):
        places[a] = step
    for a, step in enumerate(steps):
        rows[spread[of_indices[batching.index(a)]] if a in batching else next(kept)] = step
    if any([k > 1 and not step for k, step in zip(shape, places)]):  # the gather makes offsets once for rows that share their indices
        return [gather]
    at = Value(indices.buf, shape, tuple(places), indices.offset, indices.dtype)
    counted = Value(Buf("temp", at.dtype, count), (count,), (1,), 0, at.dtype)
    counted.buf.node = Node("kernel", "iota", [], [counted], None, (0,))
    row = Value(counted.buf, shape, tuple(rows), 0, at.dtype)
    table = Value(x.buf, (*[1 for _ in shape], count, n), (*[0 for _ in shape], n, 1), x.offset, x.dtype)
    wraps = (2 * (mode & WRAPS > 0),)
    if not mode & 1:
        return [counted.buf.node, elementwise_node("take2", [row, at, table], out, wraps)]
    item = Value(Buf("temp", x.dtype, out.size), shape, row_major(shape), 0, x.dtype)
    nodes, beyond = outside(at, n, mode)
    number = Value(None, shape, (0,) * len(shape), 0, x.dtype, fill_value(ip, x.dtype))
    take = elementwise_node("take2", [row, at, table], item, wraps)
    return [counted.buf.node, take, *nodes, elementwise_node("select", [beyond, number, item], out)]


def fill_value(ip, dtype):
    """What a gather gives outside of its operand."""
    return np.frombuffer(np.array(ip[5:7], np.int64).tobytes()[: dtype.itemsize], dtype)[0]


def outside(at, n, mode):
    """(nodes, the value that they compute): True where an index `at` is none of an axis of n. mode: the gather's, see WRAPS."""
    nodes, zeros, bool_ = [], (0,) * len(at.shape), np.dtype(bool)

    def add(op, ins, type_code=None):
        made = Value(Buf("temp", bool_, at.size), at.shape, row_major(at.shape), 0, bool_)
        nodes.append(elementwise_node(op, ins, made, type_code=type_code))
        return made

    def compared(op, number):
        return add(op, [at, Value(None, at.shape, zeros, 0, at.dtype, np.asarray(number, at.dtype)[()])], CODES[at.dtype])

    return nodes, add("or", [compared("lt", -n if mode & WRAPS else 0), compared("ge", n)])


def pair_of(at, n):
    """(a, b, (m, k)) if places `at` among n = m * k items are a * k + b, both within bounds."""
    node = _made(at, "add")
    for product, b in () if node is None else (node.ins, node.ins[::-1]):
        found = _made(product, "mul")
        for a, number in () if found is None else (found.ins, found.ins[::-1]):
            k = 0 if number.scalar is None else int(number.scalar)
            if k < 1 or n % k or a.shape != at.shape or b.shape != at.shape or a.buf is None or b.buf is None:
                continue
            if all([0 <= least and most < size for (least, most), size in zip((bounds(a), bounds(b)), (n // k, k))]):
                return a, b, (n // k, k)
    return None


def _unbounded(v, n):
    """(i, whether negative ones count from the end) if v is i so counted and moved into an axis of n, which take2 does itself; else
    (v, False)."""
    clamp = _made(v, "clamp")
    if clamp is None or [x.scalar for x in clamp.ins[::2]] != [0, n - 1] or clamp.ins[1].buf is None or clamp.ins[1].shape != v.shape:
        return v, False
    moved = clamp.ins[1]
    given = given_before_wrap(moved.buf.node, n) if moved.whole() else None
    return (moved, False) if given is None else (given, True)


def _made(v, op):
    """The elementwise operation `op` that computes v, or None."""
    return v.buf.node if in_register(v, v.shape) and v.buf.node.op == op and v.buf.node.shape == v.shape else None


def elementwise_node(op, ins, out, ip=(), type_code=None):
    """An operation that gives `out`; type_code: what it computes in, by default what out's dtype is computed in."""
    node = Node("ew", op, ins, [out], out.shape, ip, type_code=CODES[compute_dtype(out.dtype)] if type_code is None else type_code)
    out.buf.node = node
    return node
