"""Arrays stacked from a few columns, as systems of equations are (`stack([f(y[:, 0], y[:, 1]), ...], -1)`), are computed column by column.

Between a stack and the slices that take it apart again, elementwise operations over (..., a few) become operations on each column: all
stages of a step of Runge and Kutta are then one group over whole rows, and only what something else reads is written as an array of
columns.
"""

from math import prod

from fgrad.compile.columns import MOST, _node, _temporary
from fgrad.compile.values import Node, Value, row_major

LEAST = 16  # rows: fewer fill no vector


def split_stacks(nodes, outs):
    """The nodes that compute `outs`; some are for live_nodes to leave out."""
    joins = {n for n in nodes if n.op == "concatenate" and _stacks(n)}
    if not joins:
        return nodes
    readers = {}  # buffer -> [(node that reads it, value)]; the program's caller is None
    for n in nodes:
        for v in n.ins:
            readers.setdefault(v.buf, []).append((n, v))
    for v in outs:
        readers.setdefault(v.buf, []).append((None, v))
    split, kept = {}, set()  # buffer -> its array's shape; the buffers that are read whole
    for group in _groups(nodes, joins):
        found, whole = _settled(group, joins, readers)
        made = {n.outs[0].buf for n in found}
        taken = [b for b in made if b not in whole and any(r not in found for r, _ in readers.get(b, ()))]
        removed = sum([n.outs[0].buf not in whole for n in found & joins]) + sum([b.node not in joins for b in taken])
        if removed > sum([b.node not in joins for b in whole]) and any(n not in joins for n in found):
            split.update({b: b.node.outs[0].shape for b in made})
            kept |= whole
    return _rewritten(nodes, joins, split, kept) if split else nodes


def _few(shape):
    return len(shape) > 1 and 1 < shape[-1] <= MOST and prod(shape[:-1]) >= LEAST


def _stacks(n):
    """True for a concatenation along the last axis of few columns, each an array."""
    out = n.outs[0]
    plain = all([v.box is None and not v.tag and v.shape[-1] == 1 for v in n.ins])
    return plain and n.ip == (len(out.shape) - 1,) and _few(out.shape) and out.whole() and len(n.ins) == out.shape[-1]


def _groups(nodes, joins):
    """Sets of stacks and of elementwise operations on arrays of few columns that read each other."""
    group = {n: {n} for n in joins}
    for n in nodes:
        if n.kind == "ew" and _few(n.shape) and n.outs[0].whole() and all([v.box is None and not v.tag for v in n.ins]):
            mine = group.setdefault(n, {n})
            for m in {v.buf.node for v in n.ins if v.buf is not None}:
                other = group.get(m, mine)
                if other is not mine and m.outs[0].shape == n.shape:
                    small, mine = sorted((mine, other), key=len)
                    mine |= small
                    for x in small:
                        group[x] = mine
    different = {id(g): g for g in group.values()}
    return [g for g in different.values() if not g.isdisjoint(joins)]


def _settled(group, joins, readers):
    """(the nodes of a group whose operands' columns are at hand, those of their buffers that are read whole)."""
    found = set(group)
    while True:
        shapes = {n.outs[0].buf: n.outs[0].shape for n in found}
        left = {n for n in found if n in joins or all([v.buf not in shapes or _parted(v, shapes[v.buf]) for v in n.ins])}
        if len(left) == len(found):
            break
        found = left

    def by_columns(r, v):
        return r in found and r not in joins or r is not None and _column(v, shapes[v.buf]) is not None

    return found, {b for b in shapes if not all([by_columns(r, v) for r, v in readers.get(b, ())])}


def _parted(v, shape):
    """True if each column of an operand is one of the array's, which has this shape."""
    return all([_column(_of_last(v, k), shape) is not None for k in range(v.shape[-1])])


def _of_last(v, k):
    shape = v.shape[:-1]
    if v.buf is None:
        return Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar)
    return Value(v.buf, shape, v.strides[:-1], v.offset + k * v.strides[-1], v.dtype)


def _column(v, shape):
    """Which column of an array a view reads: all of it, in its order; None if it reads otherwise."""
    count, rows = shape[-1], [n for n in shape[:-1] if n != 1]
    if v.box is not None or v.tag or v.dtype != v.buf.dtype or [n for n in v.shape if n != 1] != rows:
        return None
    steps = [s for n, s in zip(v.shape, v.strides) if n != 1]
    return v.offset if v.offset < count and steps == [count * s for s in row_major(tuple(rows))] else None


def _rewritten(nodes, joins, split, kept):
    columns, out = {}, []  # buffer -> its columns

    def now(v):
        """v, or the column that it reads."""
        k = _column(v, split[v.buf]) if v.buf in columns else None
        if k is None:
            return v
        c = columns[v.buf][k]
        if c.buf is None:
            return Value(None, v.shape, (0,) * len(v.shape), 0, v.dtype, c.scalar)
        steps = iter([s for n, s in zip(c.shape, c.strides) if n != 1])
        return Value(c.buf, v.shape, tuple([next(steps) if n != 1 else 0 for n in v.shape]), c.offset, v.dtype)

    for n in nodes:
        made = n.outs[0].buf if n.outs else None
        if made in split and n in joins:
            n.ins = [now(v) for v in n.ins]
            columns[made] = [_of_last(v, 0) for v in n.ins]
            out.append(n)
        elif made in split:
            shape, columns[made] = n.shape[:-1], []
            for k in range(n.shape[-1]):
                result = _temporary(shape, n.outs[0].dtype)
                out.append(_node("ew", n.op, [now(_of_last(v, k)) for v in n.ins], result, shape, n))
                columns[made].append(result)
            if made in kept:
                pieces = [Value(c.buf, (*shape, 1), (*c.strides, 1), 0, c.dtype) for c in columns[made]]
                made.node = Node("kernel", "concatenate", pieces, [n.outs[0]], ip=(len(shape),))
                out.append(made.node)
        else:
            if columns and any([v.buf in columns for v in n.ins]):
                n.ins = [now(v) for v in n.ins]
            out.append(n)
    return out
