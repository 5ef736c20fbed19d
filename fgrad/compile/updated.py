"""Static updates of parts of an array by what a fused group computes: the group writes the part where it lies."""

from fgrad.compile.fuse import Unit
from fgrad.compile.values import Node, Value

LEAST = 256  # elements of an array: of a smaller one, a part is copied as fast as it is found


def write_updated(units, outs):
    """units without the updates whose values are written into the array itself, which is copied first if others still need it."""
    puts = [u for u in units if u.nodes[0].op == "dynamic_update_slice" and u.nodes[0].outs[0].size >= LEAST]
    if not puts:
        return units
    units, kept = list(units), {v.buf for v in outs}
    for put in puts:
        node = put.nodes[0]
        target = _target(node)
        group = None if target is None else _writer(node, units, kept)
        if group is not None and _only_there(node, target, put, group, units):
            at = units.index(group)
            units.remove(put)
            units.insert(at, _copy(node, at))
            _write(node, target, group)
    return units


def _target(node):
    """The part of the result that is updated; None where it depends on indices."""
    out, u = node.outs[0], node.ins[1]
    if any([v.scalar is None for v in node.ins[2:]]) or 0 in u.shape:
        return None
    starts = [min(max(int(v.scalar), 0), n - k) for v, n, k in zip(node.ins[2:], out.shape, u.shape)]
    return Value(out.buf, u.shape, out.strides, sum(a * s for a, s in zip(starts, out.strides)), out.dtype)


def _writer(node, units, kept):
    """The group that computes the update for nothing else; None if there is none."""
    x, u = node.ins[:2]
    made = u.buf.node if u.buf is not None and u.buf.kind == "temp" else None
    if made is None or made.kind != "ew" or made.shape != u.shape or not u.whole() or u.dtype != x.dtype or x.buf is None or not x.whole():
        return None
    group = made.group
    reads = sum([v.buf is u.buf for unit in units for n in unit.nodes for v in n.ins])
    return group if group in units and group.axes is None and reads == 1 and not kept & {u.buf, x.buf} else None


def _only_there(node, target, put, group, units):
    """True if the array is there before the group, and is read from then on only by the update, and by the group where it is updated."""
    x = node.ins[0].buf
    for unit in units[units.index(group) :]:
        for n in unit.nodes:
            if any([v.buf is x for v in n.outs]):
                return False
            for v in n.ins:
                if v.buf is x and unit is not put and (unit is not group or v.box or (v.shape, v.strides, v.offset) != _place(target)):
                    return False
    return True


def _place(v):
    return v.shape, v.strides, v.offset


def _copy(node, number):
    """The unit that makes the array before it is updated: of nothing where it takes over the operand's memory."""
    copy = node.outs[0].buf.node = Node("kernel", "copy", [node.ins[0]], [node.outs[0]])
    copy.group = Unit(copy, number)
    return copy.group


def _write(node, target, group):
    x, u = node.ins[0].buf, node.ins[1].buf
    for n in group.nodes:
        n.ins = [target if v.buf is x else v for v in n.ins]
        if n.outs[0].buf is u:
            n.outs[0] = target
    group.reads.discard(x)
    if any([v is target for n in group.nodes for v in n.ins]):
        group.reads.add(target.buf)
