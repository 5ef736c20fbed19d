"""Concatenations and pads of what fused groups compute: these write each piece where it belongs. A concatenation has nothing left to do,
a pad its margins; where one piece is nearly all, the others are copied beside it."""

from math import prod

from fgrad.compile.fuse import Unit
from fgrad.compile.values import Node, Value, row_major, view_reshape

LEAST = 256  # elements of a result from which a pass less is felt
RUN = 64  # bytes of a piece that lie side by side, at least: narrower ones are turned in vectors by the concatenation,
COLUMNS = 4  # or by the group, if there are so few and each is one element;
PIECES, SHARE = 4, 16  # operands of a concatenation of which one is all but such a part: the others are copied
LONG = 1024  # of rows of so many bytes, any piece costs little


def write_joined(units, outs):
    """units without the concatenations whose operands are written into their result; what is padded is written there too."""
    moves = [u for u in units if u.nodes[0].op in ("concatenate", "pad") and u.nodes[0].outs[0].size >= LEAST]
    if not moves:
        return units
    reads = {}  # buffer -> how many operands it is
    for u in units:
        for node in u.nodes:
            for v in node.ins:
                reads[v.buf] = reads.get(v.buf, 0) + 1
    for v in outs:
        reads[v.buf] = reads.get(v.buf, 0) + 1
    gone, groups = {}, set(units)  # gone: what comes in place of a concatenation
    for u in moves:
        if u.nodes[0].op == "pad":
            _put_inside(u, reads, groups)
            continue
        pieces = _pieces(u.nodes[0], reads, groups)
        for node, v in pieces or ():
            node.outs[0] = v
        if pieces:
            gone[u] = []
        elif largest := _largest(u.nodes[0], reads, groups):
            gone[u] = _others(u, *largest)
    return [w for u in units for w in gone.get(u, (u,))]


def _maker(v, out, reads, groups):
    """The elementwise operation that makes all of v for one reader, where it can be written into `out`; else None."""
    made = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    if made is None or made.kind != "ew" or made.group.axes is not None or not v.whole() or reads[v.buf] != 1 or v.dtype != out.dtype:
        return None
    return made if 0 not in v.shape and made.group in groups and any([n is made for n in made.group.nodes]) else None


def _put_inside(unit, reads, groups):
    """What is padded is computed between its margins."""
    pad = unit.nodes[0]
    v, out = pad.ins[0], pad.outs[0]
    made = _maker(v, out, reads, groups)
    if made is None or made.shape != v.shape or any(pad.ip[2::3]) or min(pad.ip) < 0 or v.shape[-1] * v.dtype.itemsize < RUN:
        return
    at = sum([a * s for a, s in zip(pad.ip[::3], out.strides)])
    made.outs[0] = pad.ins[0] = Value(out.buf, v.shape, out.strides, at, out.dtype)
    unit.reads.discard(v.buf)
    unit.reads.add(out.buf)


def _places(join):
    """Where each operand lies in the result."""
    out, axis, at, places = join.outs[0], join.ip[0], 0, []
    for v in join.ins:
        places.append(Value(out.buf, v.shape, out.strides, at * out.strides[axis], out.dtype))
        at += v.shape[axis]
    return places


def _largest(join, reads, groups):
    """(number, the elementwise operation that makes it) of the operand that is nearly all of a concatenation, if one is; else None."""
    out = join.outs[0]
    k = max(range(len(join.ins)), key=lambda i: prod(join.ins[i].shape))
    v = join.ins[k]
    made = _maker(v, out, reads, groups)
    if made is None or made.shape != v.shape or len(join.ins) > PIECES or SHARE * (prod(out.shape) - prod(v.shape)) > prod(out.shape):
        return None
    return (k, made) if v.shape[-1] * v.dtype.itemsize >= RUN else None


def _others(unit, k, made):
    """Copies of the other operands, once operand k is written where it belongs."""
    join, units = unit.nodes[0], []
    places = _places(join)
    made.outs[0] = places[k]
    for i, v in enumerate(join.ins):
        if i != k and 0 not in v.shape:
            copy = Node("kernel", "copy", [v], [places[i]])
            copy.group = Unit(copy, len(units))
            units.append(copy.group)
    return units


def _pieces(join, reads, groups):
    """[(node, value)]: the elementwise operations that make the operands, and where they are to be written; None if not so."""
    out, axis, at, pieces = join.outs[0], join.ip[0], 0, []
    row = prod(out.shape[axis:]) * out.dtype.itemsize
    for v in join.ins:
        made = _maker(v, out, reads, groups)
        if made is None:
            return None
        width = v.shape[axis] * prod(out.shape[axis + 1 :])
        column = width == 1 and len(join.ins) == out.shape[axis] <= COLUMNS and v.dtype.itemsize >= 4
        strides = view_reshape(v.shape, row_major(out.shape), made.outs[0].shape)
        if strides is None or (width * v.dtype.itemsize < RUN and row < LONG and not column):
            return None
        pieces.append((made, Value(out.buf, made.outs[0].shape, strides, at * row_major(out.shape)[axis], v.dtype)))
        at += v.shape[axis]
    return pieces
