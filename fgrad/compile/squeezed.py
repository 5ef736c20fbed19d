"""Elementwise operations whose results are read without axes of one element go over the shape of their readers, and fuse with them."""

from fgrad.compile.fuse import reads_reshaped
from fgrad.compile.values import Node, Value, row_major


def squeeze(nodes):
    """nodes, the elementwise ones of the shape in which all elementwise nodes and reductions after them read their results, where the two
    shapes differ by axes of one element only."""
    if not reads_reshaped(nodes):
        return nodes
    shapes, nodes = {}, list(nodes)  # buffer -> the shape that it is read in; None: there are several
    for i in range(len(nodes) - 1, -1, -1):
        n = nodes[i]
        if n.kind == "ew":
            shape = shapes.get(n.outs[0].buf)
            if shape is not None and shape != n.shape:
                n = nodes[i] = _reshaped(n, shape)
        if n.kind in ("ew", "reduce"):
            for v in n.ins:
                if v.buf is not None and v.buf.node is not None and v.whole():
                    shapes[v.buf] = v.shape if shapes.get(v.buf, v.shape) == v.shape else None
    return nodes


def _reshaped(n, shape):
    out = n.outs[0]
    at = _axes(n.shape, shape)
    if at is None or out.shape != n.shape or not out.whole() or any([v.box is not None or v.shape != n.shape for v in n.ins]):
        return n
    ins, out = [_viewed(v, shape, at) for v in n.ins], Value(out.buf, shape, row_major(shape), 0, out.dtype, None, out.tag)
    node = out.buf.node = Node("ew", n.op, ins, [out], shape, n.ip, n.fp, obj=n.obj, type_code=n.type_code)
    return node


def _axes(old, new):
    """For each axis of the new shape the old one that it is, None for one of one element; None if the shapes differ otherwise."""
    if [k for k in old if k != 1] != [k for k in new if k != 1]:
        return None
    left = iter([a for a, k in enumerate(old) if k != 1])
    return [None if k == 1 else next(left) for k in new]


def _viewed(v, shape, at):
    return Value(v.buf, shape, tuple([0 if a is None else v.strides[a] for a in at]), v.offset, v.dtype, v.scalar, v.tag)
