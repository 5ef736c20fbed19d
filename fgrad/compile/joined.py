"""Concatenations of what one fused group computes: it writes each piece where the concatenation wants it, which then has nothing to do."""

from math import prod

from fgrad.compile.values import Value, row_major, view_reshape

LEAST = 4096  # elements of a result from which memory is felt
RUN = 64  # bytes of a piece that lie side by side, at least: narrower ones are turned in vectors by the concatenation


def write_joined(units, outs):
    """units without the concatenations whose operands are written into their result."""
    joins = [u for u in units if u.nodes[0].op == "concatenate" and u.nodes[0].outs[0].size >= LEAST]
    if not joins:
        return units
    reads = {}  # buffer -> how many operands it is
    for u in units:
        for node in u.nodes:
            for v in node.ins:
                reads[v.buf] = reads.get(v.buf, 0) + 1
    for v in outs:
        reads[v.buf] = reads.get(v.buf, 0) + 1
    gone = set()
    for u in joins:
        pieces = _pieces(u.nodes[0], reads)
        for node, v in pieces or ():
            node.outs[0] = v
        if pieces:
            gone.add(u)
    return [u for u in units if u not in gone]


def _pieces(join, reads):
    """[(node, value)]: the elementwise operations of one group that make the operands, and where they are to be written; None if not so."""
    out, axis, at, pieces, group = join.outs[0], join.ip[0], 0, [], None
    for v in join.ins:
        made = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
        if made is None or made.kind != "ew" or made.group.axes is not None or not v.whole() or reads[v.buf] != 1 or v.dtype != out.dtype:
            return None
        if 0 in v.shape or (group is not None and made.group is not group) or not any([n is made for n in made.group.nodes]):
            return None
        group = made.group
        strides = view_reshape(v.shape, row_major(out.shape), made.outs[0].shape)
        if strides is None or v.shape[axis] * prod(out.shape[axis + 1 :]) * v.dtype.itemsize < RUN:
            return None
        pieces.append((made, Value(out.buf, made.outs[0].shape, strides, at * row_major(out.shape)[axis], v.dtype)))
        at += v.shape[axis]
    return pieces
