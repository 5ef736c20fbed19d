"""Elementwise groups that read transposed operands walk them in the order of memory; where that cannot be, the operands are copied first:
by tiles, where the group would touch a cache line for each element. Likewise where rows lie in pieces of a few elements, or where a row
whose elements lie apart is read many times."""

from math import prod

from fgrad._kernels import vm_plan
from fgrad.compile.fuse import Unit, in_register
from fgrad.compile.permuted import keeps_order, permute, permuted, read_anew
from fgrad.compile.values import Buf, Node, Value, row_major

LEAST = 1 << 14  # elements of an operand
WITHIN = 128  # elements of the walk from one place in a line of memory to the next: a tile holds enough of fewer to use all of a line
PIECE = 16  # bytes of a row that lie side by side: tiles put together of so few cost more than a copy, which knows the next ones
SHORT, LONGER = 128, 4  # bytes of such pieces inside of a box, and how many times as long rows in order would be
LINE = 64  # bytes that memory moves at once; also elements of a row that an operand is put together for once in each tile
BACKWARDS = 64  # bytes of short rows that are read backwards
WHOLE = 4  # bytes of the elements, at least, of short rows in reverse order that tiles of vectors of 256 bits take as fast as a copy does
STEPS = range(3, 16)  # from one element of a row to the next, while those between are read by other rows
GATHERS = vm_plan.vector_bytes() == 32  # such rows are put together by vectors of 256 bits, more dearly than a copy turns them
SMALL = 4  # times, at least, that an operand is read whose order in memory does not count, or whose elements are put side by side


def straighten(units, outs):
    """units, in which no group reads a large operand whose rows lie across memory."""
    out, copies, walks = [], {}, None
    for u in units:
        if u.fused and prod(u.shape) >= LEAST and any([_is_awkward(v) for n in u.nodes for v in n.ins]):
            walks = walks or _Walks(units, outs)
            u = walks.in_order_of_memory(u)
            for node in u.nodes:
                node.ins = [_copied(v, copies, out) if _is_awkward(v) else v for v in node.ins]
            read_anew(u)
        out.append(u)
    return out


class _Walks:
    """Which groups may walk their axes in another order, given who reads what they leave in memory."""

    def __init__(self, units, outs):
        self.returned = {v.buf for v in outs}
        self.readers = {}  # buffer -> the nodes that read it
        self.known = {}
        for u in units:
            for n in u.nodes:
                for v in n.ins:
                    self.readers.setdefault(v.buf, []).append(n)

    def in_order_of_memory(self, u):
        """u, or a group that does the same in the order in which u's large operands lie, and so reads them where they are."""
        order = _common_order(u)
        if not order or not self.may_walk(u, order):
            return u
        strides = _strides(order, u.shape)
        unit, _ = permuted(u, order, lambda v: _view(v, order), u.id)
        for n, new in zip(u.nodes, unit.nodes):
            old, now = n.outs[0], new.outs[0]
            for reader in self.readers.get(old.buf, ()) if n.kind == "ew" else ():
                if reader.group is not u:
                    ins = [(v, _moved(v, old, strides) if v.buf is old.buf else None) for v in reader.ins]
                    reader.ins = [Value(now.buf, v.shape, s, 0, v.dtype, tag=v.tag) if s else v for v, s in ins]
                    read_anew(reader.group)
        return unit

    def may_walk(self, u, order):
        """True if nobody needs what u leaves in the order of its axes: sums keep theirs, and arrays go to products and groups like u."""
        if (u, order) not in self.known:
            self.known[u, order] = all(
                [keeps_order(order, n.axes) if n.kind == "reduce" else self._may_move(n.outs[0], u, order) for n in u.nodes]
            )
        return self.known[u, order]

    def _may_move(self, result, u, order):
        if result.buf in self.returned:
            return False
        for reader in self.readers.get(result.buf, ()):
            same = reader.group is u or (reader.group.fused and self._follows(reader.group, u, order))
            for v in reader.ins:
                if v.buf is result.buf and not (
                    in_register(v, u.shape) if same else reader.op == "dot" and _moved(v, result, _strides(order, u.shape)) is not None
                ):
                    return False
        return True

    def _follows(self, reader, u, order):
        """True if a group that reads what u leaves will walk in that order, too."""
        made = {n.outs[0].buf for n in u.nodes}
        return reader.shape == u.shape and _common_order(reader, made) in (order, None) and self.may_walk(reader, order)


def _common_order(u, apart=()):
    """The axes of u in the order, from the outermost on, in which its large operands lie in memory, but those `apart`.

    (): they do not agree, or have no order. None: there is none.
    """
    made = {n.outs[0].buf for n in u.nodes}.union(apart)
    operands = [v for n in u.nodes for v in n.ins if v.buf is not None and v.buf not in made]
    large = [v for v in operands if prod([n for n, s in zip(v.shape, v.strides) if s]) * SMALL > prod(u.shape)]
    full = [v for v in large if all([s or n == 1 for n, s in zip(v.shape, v.strides)])]
    if any([v.box is not None or v.shape != u.shape for v in operands]) or (large and not full):
        return ()
    if not large:
        return None
    order = tuple(sorted(range(len(u.shape)), key=lambda i: (u.shape[i] != 1, -abs(full[0].strides[i]))))
    for v in large:
        steps = [abs(v.strides[i]) for i in order if v.strides[i] and v.shape[i] != 1]
        if steps != sorted(steps, reverse=True):
            return ()
    return order


def _view(v, order):
    return v if v.buf is None else Value(v.buf, permute(v.shape, order), permute(v.strides, order), v.offset, v.dtype, v.scalar, v.tag)


def _strides(order, shape):
    """The strides of an array of that shape whose axes lie in memory in the given order."""
    out = [0] * len(shape)
    for i, s in zip(order, row_major(permute(shape, order))):
        out[i] = s
    return tuple(out)


def _moved(v, result, strides):
    """The strides of v, a view of a row-major result that is to have others; None where v's axes are not the result's."""
    now = {(s, n): t for s, n, t in zip(result.strides, result.shape, strides)}
    if v.offset or v.box is not None:
        return None
    out = [0 if n == 1 or not s else now.get((s, n)) for n, s in zip(v.shape, v.strides)]
    return None if None in out else tuple(out)


def _lies_across(v):
    """True if neighbours of a row are far apart in memory, and those that are near are too far apart in the walk for one tile."""
    if v.buf is None or v.box is not None:
        return False
    axes = [(abs(s), n) for n, s in zip(v.shape, v.strides) if n != 1]
    if not axes or axes[-1][0] < 16 or prod([n for s, n in axes if s]) < LEAST:
        return False
    near = min([(s, -k) for k, (s, n) in enumerate(axes) if s and n >= 16], default=(0, 0))
    return 0 < near[0] < 8 and prod([n for _, n in axes[1 - near[1] :]]) > WITHIN


def _is_awkward(v):
    if v.buf is None or v.contiguous:
        return False
    if v.box is not None:
        return _box_in_pieces(v)
    return _lies_across(v) or _in_pieces(v) or _is_repeated(v) or (GATHERS and _is_turned(v))


def _inside(v):
    """The part of v that its box shows."""
    lo, hi = v.box[::2], v.box[1::2]
    shape = tuple([b - a for a, b in zip(lo, hi)])
    return Value(v.buf, shape, v.strides, v.offset + sum([a * s for a, s in zip(lo, v.strides)]), v.dtype)


def _run(shape, strides):
    """How many elements lie side by side from the first one on."""
    run = 1
    for n, s in zip(reversed(shape), reversed(strides)):
        if n != 1 and s != run:
            break
        run *= n
    return run


def _box_in_pieces(v):
    """True if what a box shows lies in short pieces, some places apart, that would be long rows in order: each piece costs more than
    a copy of it."""
    part = _inside(v)
    if part.size < LEAST or not all([s for n, s in zip(part.shape, part.strides) if n != 1]):
        return False
    run = _run(part.shape, part.strides)
    whole = _run(part.shape, row_major(v.shape))  # the longest that there could be, as the reader walks
    return 1 < run and run * v.dtype.itemsize <= SHORT and LONGER * run <= whole


def _in_pieces(v):
    """True if rows consist of a few elements that lie side by side, or backwards, and the next ones are elsewhere."""
    axes = [(s, n) for n, s in zip(v.shape, v.strides) if n != 1]
    if len(axes) < 2 or abs(axes[-1][0]) != 1 or prod([n for _, n in axes]) < LEAST or not all([s for s, _ in axes]):
        return False
    (after, _), (step, n) = axes[-2:]
    if step < 0:
        return n * v.dtype.itemsize <= BACKWARDS
    if after == -n and GATHERS and v.dtype.itemsize >= WHOLE:
        return False
    return n * v.dtype.itemsize <= PIECE and not 0 < after <= 4 * n


def _is_turned(v):
    """True if neighbours of a row are some elements apart, or any number of narrow ones, and those between belong to other rows."""
    axes = [(abs(s), n) for n, s in zip(v.shape, v.strides) if n != 1]
    if len(axes) < 2 or prod([n for _, n in axes]) < LEAST or not all([s for s, _ in axes]):
        return False
    step, between = axes[-1][0], max([n for s, n in axes if s == 1], default=0)
    return (step in STEPS or (step >= STEPS.start and v.dtype.itemsize <= 2)) and 2 * between >= min(step, LINE)


def _is_repeated(v):
    """True if a short row of elements that lie apart, or one of elements in a line of memory each, a diagonal, is read again and again; or
    one of pieces of a few elements, some places apart."""
    axes = [(abs(s), n) for n, s in zip(v.shape, v.strides) if n != 1]
    if not axes or axes[-1][0] == 0 or prod([n for s, n in axes if s]) * SMALL > v.size:
        return False
    step, n = axes[-1]
    if step == 1:
        return len(axes) > 1 and n * v.dtype.itemsize <= PIECE and axes[-2][0] not in (0, n)
    return step * v.dtype.itemsize >= LINE or n <= LINE


def _copied(v, copies, out):
    """v's elements in row-major order, repeated where v repeats its own; the copy is made once, by a unit appended to `out`."""
    key = v.key()
    if key not in copies:
        if v.box is None:
            shape = tuple([n if s else 1 for n, s in zip(v.shape, v.strides)])
            small = Value(v.buf, shape, v.strides, v.offset, v.dtype)
        else:
            small = _inside(v)
            shape = small.shape
        copy = Value(Buf("temp", v.dtype, prod(shape)), shape, row_major(shape), 0, v.dtype)
        node = copy.buf.node = Node("kernel", "copy", [small], [copy])
        node.group = Unit(node, len(out))
        out.append(node.group)
        strides = tuple([s if t else 0 for s, t in zip(copy.strides, v.strides)])
        at = -sum([a * s for a, s in zip(v.box[::2], strides)]) if v.box is not None else 0
        copies[key] = Value(copy.buf, v.shape, strides, at, v.dtype, box=v.box)
    return copies[key]
