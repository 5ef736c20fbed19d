"""Reducing groups whose last axis is short walk it before the axis in front of it, where what they read in memory is small.

So do those that make short rows of which the position of an extremum is wanted: it is found for a vector of rows at a time then.
"""

from math import prod

from fgrad.compile.fuse import Unit
from fgrad.compile.permuted import permuted
from fgrad.compile.values import Buf, Node, Value, row_major

SHORT = 32  # elements of a row at most
LONG = 64  # elements of the axis in front of it, at least
LEAST = 1 << 14  # elements of the walk
POSITIONS = 64  # elements of a row at most of which a position is wanted
REPEATS = 4  # times, at least, that what is turned in memory is read


def turn(units, outs):
    """units, with groups over (..., long, short) that write sums alone turned into groups over (..., short, long).

    What has the short axis is copied in that order, once: tiles are then rows of the long axis and not copies of short ones.
    """
    candidates = [u for u in units if u.axes is not None and _may_turn(u)]
    if not candidates:
        return units
    readers = _readers(units, outs)
    out, copies = [], {}
    for u in units:
        if u in candidates and _is_worth(u, readers):
            _append_turned(u, out, copies)
        else:
            out.append(u)
    return out


def _readers(units, outs):
    """By buffer, the units that read it, None for the program's caller."""
    readers = {}
    for u in units:
        for n in u.nodes:
            for v in n.ins:
                readers.setdefault(v.buf, set()).add(u)
    for v in outs:
        readers.setdefault(v.buf, set()).add(None)
    return readers


def turn_positions(units, outs):
    """units, with groups that only positions in short rows are wanted of turned into groups over (short, ...)."""
    candidates = {u: u.nodes[0].ins[0].buf for u in units if u.nodes[0].op == "argreduce" and _short_rows(u.nodes[0])}
    if not candidates:
        return units
    readers, places = _readers(units, outs), {u: i for i, u in enumerate(units)}
    for u, buf in candidates.items():
        made = buf.node.group
        if made in places and places[made] < places[u] and _is_for_positions(made, u, buf, readers):
            n = u.nodes[0]
            last = len(n.ins[0].shape) - 1
            order, k = (last, *range(last)), next(i for i, m in enumerate(made.nodes) if m is buf.node)
            turned, _ = permuted(made, order, lambda v, order=order: _in_order(v, order), made.id)
            n.ins[0] = turned.nodes[k].outs[0]
            n.ip = (n.ip[0], 0, n.ip[2])
            u.reads.clear()
            u.reads.add(n.ins[0].buf)
            units[places[made]] = turned
    return units


def _short_rows(n):
    """True if rows of an elementwise operation's result are what positions are wanted of."""
    v = n.ins[0]
    node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    short = 1 < v.shape[-1] <= POSITIONS and n.ip[1] == len(v.shape) - 1 and prod(v.shape[:-1]) >= LONG
    return short and v.whole() and not v.tag and node is not None and node.kind == "ew" and node.shape == v.shape


def _is_for_positions(made, u, buf, readers):
    """True if a group makes rows for positions alone, and reductions of them, of operands that are small or the same along a row."""
    for n in made.nodes:
        if n.op == "window" or n.shape != buf.node.shape or (n.kind == "reduce" and tuple(n.axes) != (len(n.shape) - 1,)):
            return False
        for v in (*n.ins, *n.outs):
            if v.buf is None or (v.buf.node is not None and v.buf.node.group is made):
                continue
            large = prod([k for k, s in zip(v.shape, v.strides) if s]) * REPEATS > prod(n.shape)
            if v.box is not None or v.shape != n.shape or v.tag or (large and v.strides[-1]):
                return False
    return all([readers.get(n.outs[0].buf, set()) <= {made, u} for n in made.nodes if n.kind == "ew"])


def _in_order(v, order):
    return v if v.buf is None else Value(v.buf, tuple([v.shape[i] for i in order]), tuple([v.strides[i] for i in order]), v.offset, v.dtype)


def _may_turn(u):
    s = u.shape
    return u.fused and len(s) > 1 and 1 < s[-1] <= SHORT and s[-2] >= LONG and prod(s) >= LEAST


def _is_worth(u, readers):
    """True if all that is computed stays within the group, and what it reads from memory is small or lacks the short axis."""
    made = {n.outs[0].buf for n in u.nodes if n.kind == "ew"}
    if not made or any([not readers.get(b, set()) <= {u} for b in made]):
        return False
    for n in u.nodes:
        for v in n.ins:
            if v.buf is None or v.buf in made:
                continue
            large = prod([k for k, s in zip(v.shape, v.strides) if s]) * REPEATS > prod(u.shape)
            if n.op == "window" or v.box is not None or v.shape != u.shape or (large and v.strides[-1] and v.strides[-2] != 1):
                return False
    return True


def _swapped(t):
    """t with its last two items in the other order."""
    return (*t[:-2], t[-1], t[-2])


def _append_turned(u, out, copies):
    """Append u over its turned shape, after the copies of what it reads, and before those of results whose axes are turned, too."""
    turned, after = permuted(u, _swapped(range(len(u.shape))), lambda v: _read(v, out, copies), len(out))
    out.append(turned)
    for source, target in after:
        _append_copy(source, target, out)


def _read(v, out, copies):
    """v with its last two axes swapped, of a copy in that order where rows of the long axis lie across memory."""
    if v.buf is None:
        return v
    shape, strides = _swapped(v.shape), _swapped(v.strides)
    if strides[-1] in (0, 1) or not strides[-2]:
        return Value(v.buf, shape, strides, v.offset, v.dtype)
    key = v.key()
    if key not in copies:
        small = tuple([n if s else 1 for n, s in zip(shape, strides)])
        copy = Value(Buf("temp", v.dtype, prod(small)), small, row_major(small), 0, v.dtype)
        _append_copy(Value(v.buf, small, strides, v.offset, v.dtype), copy, out)
        copies[key] = Value(copy.buf, shape, tuple([s if t else 0 for s, t in zip(copy.strides, strides)]), 0, v.dtype)
    return copies[key]


def _append_copy(source, target, out):
    node = target.buf.node = Node("kernel", "copy", [source], [target])
    node.group = Unit(node, len(out))
    out.append(node.group)
