"""Fused groups that walk their axes in another order."""

from fgrad.compile.fuse import Unit
from fgrad.compile.values import Buf, Node, Value, row_major


def permute(t, order):
    """The items of t in the given order."""
    return tuple([t[i] for i in order])


def permuted(u, order, read, uid):
    """(a group that does what u does over u's axes in the given order, [(its result, what u's was)] where elements lie in another order).

    read: what stands for an operand in memory, over the new axes.
    """
    shape, made, moved, unit = permute(u.shape, order), {}, [], None
    for n in u.nodes:
        ins = [made[v.buf] if v.buf in made else read(v) for v in n.ins]
        new = old = n.outs[0]
        axes = n.axes and tuple([i for i, a in enumerate(order) if a in n.axes])
        if n.kind == "ew":
            new = made[old.buf] = Value(Buf("temp", old.buf.dtype, old.buf.size), shape, row_major(shape), 0, old.dtype)
        elif not keeps_order(order, n.axes):
            left = [a for a in range(len(order)) if a not in n.axes]
            kept = [left.index(a) for a in order if a not in n.axes]
            sizes = permute(old.shape, kept)
            new = Value(Buf("temp", old.buf.dtype, old.buf.size), sizes, row_major(sizes), 0, old.dtype)
            back = permute(new.strides, [kept.index(i) for i in range(len(kept))])
            moved.append((Value(new.buf, old.shape, back, 0, old.dtype), old))
        node = Node(n.kind, n.op, ins, [new], shape, n.ip, n.fp, obj=n.obj, type_code=n.type_code, axes=axes)
        new.buf.node = node
        if unit is None:
            unit = Unit(node, uid)
        else:
            unit.nodes.append(node)
        unit.axes = unit.axes or node.axes
        node.group = unit
    read_anew(unit)
    return unit, moved


def keeps_order(order, axes):
    """True if the axes that a reduction leaves come one after the other as before."""
    left = [a for a in order if a not in axes]
    return left == sorted(left)


def read_anew(u):
    """u.reads, after its operands have changed: the buffers from outside."""
    u.reads.clear()
    u.reads.update([v.buf for n in u.nodes for v in n.ins if v.buf is not None and (v.buf.node is None or v.buf.node.group is not u)])
