"""Transposed operands of elementwise groups are copied first: by tiles, where the group would touch a cache line for each element."""

from math import prod

from fgrad.compile.fuse import Unit
from fgrad.compile.values import Buf, Node, Value, row_major

LEAST = 1 << 14  # elements of an operand
WITHIN = 128  # elements of the walk from one place in a line of memory to the next: a tile holds enough of fewer to use all of a line


def straighten(units):
    """units, with a copy in front of the first group that reads a large operand whose rows lie across memory."""
    out, copies = [], {}
    for u in units:
        if u.fused and prod(u.shape) >= LEAST and any([_lies_across(v) for n in u.nodes for v in n.ins]):
            for node in u.nodes:
                node.ins = [_copied(v, copies, out) if _lies_across(v) else v for v in node.ins]
            u.reads.clear()
            u.reads.update(
                [v.buf for n in u.nodes for v in n.ins if v.buf is not None and (v.buf.node is None or v.buf.node.group is not u)]
            )
        out.append(u)
    return out


def _lies_across(v):
    """True if neighbours of a row are far apart in memory, and those that are near are too far apart in the walk for one tile."""
    if v.buf is None or v.box is not None:
        return False
    axes = [(abs(s), n) for n, s in zip(v.shape, v.strides) if n != 1]
    if not axes or axes[-1][0] < 16 or prod([n for s, n in axes if s]) < LEAST:
        return False
    near = min([(s, -k) for k, (s, n) in enumerate(axes) if s and n >= 16], default=(0, 0))
    return 0 < near[0] < 8 and prod([n for _, n in axes[1 - near[1] :]]) > WITHIN


def _copied(v, copies, out):
    """v's elements in row-major order, repeated where v repeats its own; the copy is made once, by a unit appended to `out`."""
    key = v.key()
    if key not in copies:
        shape = tuple([n if s else 1 for n, s in zip(v.shape, v.strides)])
        small = Value(v.buf, shape, v.strides, v.offset, v.dtype)
        copy = Value(Buf("temp", v.dtype, prod(shape)), shape, row_major(shape), 0, v.dtype)
        node = copy.buf.node = Node("kernel", "copy", [small], [copy])
        node.group = Unit(node, len(out))
        out.append(node.group)
        strides = tuple([s if t else 0 for s, t in zip(copy.strides, v.strides)])
        copies[key] = Value(copy.buf, v.shape, strides, 0, v.dtype)
    return copies[key]
