"""Concatenations of what fused groups compute: they write each piece where the concatenation wants it, which then has nothing to do."""

from math import prod

from fgrad.compile.values import Value, row_major, view_reshape

LEAST = 4096  # elements of a result from which memory is felt
RUN = 64  # bytes of a piece that lie side by side, at least: narrower ones are turned in vectors by the concatenation,
COLUMNS = 4  # or by the group, if there are so few and each is one element;
LONG = 1024  # of rows of so many bytes, any piece costs little


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
    gone, groups = set(), set(units)
    for u in joins:
        pieces = _pieces(u.nodes[0], reads, groups)
        for node, v in pieces or ():
            node.outs[0] = v
        if pieces:
            gone.add(u)
    return [u for u in units if u not in gone]


def _pieces(join, reads, groups):
    """[(node, value)]: the elementwise operations that make the operands, and where they are to be written; None if not so."""
    out, axis, at, pieces = join.outs[0], join.ip[0], 0, []
    row = prod(out.shape[axis:]) * out.dtype.itemsize
    for v in join.ins:
        made = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
        if made is None or made.kind != "ew" or made.group.axes is not None or not v.whole() or reads[v.buf] != 1 or v.dtype != out.dtype:
            return None
        if 0 in v.shape or made.group not in groups or not any([n is made for n in made.group.nodes]):
            return None
        width = v.shape[axis] * prod(out.shape[axis + 1 :])
        column = width == 1 and len(join.ins) == out.shape[axis] <= COLUMNS and v.dtype.itemsize >= 4
        strides = view_reshape(v.shape, row_major(out.shape), made.outs[0].shape)
        if strides is None or (width * v.dtype.itemsize < RUN and row < LONG and not column):
            return None
        pieces.append((made, Value(out.buf, made.outs[0].shape, strides, at * row_major(out.shape)[axis], v.dtype)))
        at += v.shape[axis]
    return pieces
