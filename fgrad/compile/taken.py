"""Gathers of single items at indices that a group computes, or for a group to read, are operations of it: neither indices nor items go
through memory."""

import numpy as np

from fgrad._kernels.index import WRAPS
from fgrad.compile.fuse import in_register
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.core.array import CODES

LEAST = 1024  # items: loops of fewer are flat code, which knows gathers
FAR = 1 << 30  # items that offsets of 32 bits reach


def take_items(nodes):
    """nodes, with gathers of items of a vector beside elementwise operations as such."""
    read = {}  # buffer -> the values that elementwise operations and reductions show it as
    for n in nodes:
        if n.kind in ("ew", "reduce"):
            for v in n.ins:
                if v.buf is not None:
                    read.setdefault(v.buf, []).append((v, n.shape))
    out = []
    for n in nodes:
        out += _as_take(n, read) if n.kind == "kernel" and n.op == "gather" and n.outs[0].size >= LEAST else [n]
    return out


def _as_take(gather, read):
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


def _node(op, ins, out, ip=(), type_code=None):
    node = Node("ew", op, ins, [out], out.shape, ip, type_code=CODES[out.dtype] if type_code is None else type_code)
    out.buf.node = node
    return node
