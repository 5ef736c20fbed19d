"""Reducing groups whose last axis is short walk it before the axis in front of it, where what they read in memory is small."""

from math import prod

from fgrad.compile.fuse import Unit
from fgrad.compile.permuted import permuted
from fgrad.compile.values import Buf, Node, Value, row_major

SHORT = 32  # elements of a row at most
LONG = 64  # elements of the axis in front of it, at least
LEAST = 1 << 14  # elements of the walk
REPEATS = 4  # times, at least, that what is turned in memory is read


def turn(units, outs):
    """units, with groups over (..., long, short) that write sums alone turned into groups over (..., short, long).

    What has the short axis is copied in that order, once: tiles are then rows of the long axis and not copies of short ones.
    """
    candidates = [u for u in units if u.axes is not None and _may_turn(u)]
    if not candidates:
        return units
    readers = {}  # buffer -> the units that read it, None for the program's caller
    for u in units:
        for n in u.nodes:
            for v in n.ins:
                readers.setdefault(v.buf, set()).add(u)
    for v in outs:
        readers.setdefault(v.buf, set()).add(None)
    out, copies = [], {}
    for u in units:
        if u in candidates and _is_worth(u, readers):
            _append_turned(u, out, copies)
        else:
            out.append(u)
    return out


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
