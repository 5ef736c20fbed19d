"""Pads of one array with zeros, by different margins, are parts of one wider pad, and a pad of a pad is one pad.

The gradient of a stencil that is written by slices, x[1:-1, 1:-1] + x[2:, 1:-1], is a sum of such pads: of one cotangent, or of that
times constants. Put in place one by one they are a choice for each element of each; as parts of one array they are another stencil.
(A zero of it is negative where all that is added there is a margin of something times a negative number.)
"""

from collections import Counter
from math import isfinite, prod

from fgrad.compile.fuse import live_nodes
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.config import config
from fgrad.core.array import CODES

LEAST = 256  # elements of a result: of less, a pad is a few nanoseconds
FUSED = 12_000  # of one whose pads are computed where they are added (see shift): two of them, one beside the other, are cheaper so
ROW = 2048  # elements from one margin to the next of which most tiles have none (see shift)
FACTOR = 1024.0  # between multiples of which one is computed from the other: of more, what is normal may come from what underflows
PADS = 3  # of one array from then on;
FEW = 2  # of smaller ones


def widen_pads(nodes, outs):
    """nodes, with pads of one array replaced by parts of one pad."""
    if not config.pass_margins:
        return nodes
    pads = {n.outs[0].buf: n for n in nodes if n.kind == "kernel" and n.op == "pad" and _is_plain(n)}
    if any([_inner(n) for n in pads.values()]):
        nodes = live_nodes(_merge_pads(nodes), outs)
        pads = {n.outs[0].buf: n for n in nodes if n.kind == "kernel" and n.op == "pad" and _is_plain(n)}
    if len(pads) < FEW:
        return nodes
    readers = {}  # buffer of a pad -> operands that are part of it
    for v in outs:
        pads.pop(v.buf, None)
    for node in nodes:
        for v in node.ins:
            if v.buf in pads:
                if (node.kind == "ew" or node.kind == "reduce") and _place(v, pads[v.buf].outs[0].shape) is not None:
                    readers.setdefault(v.buf, []).append(node)
                else:
                    del pads[v.buf]
    order = {n: i for i, n in enumerate(nodes)}
    groups = {}  # what the operands are multiples of -> [(pad, how many times that)]
    for node in pads.values():
        base, times = _multiple(node.ins[0])
        groups.setdefault((base.buf, base.shape, base.strides, base.offset), []).append((node, times))
    wide, parts = {}, {}  # pad -> what comes in its place; its buffer -> the part of the wider one that it is
    for group in groups.values():
        if len(group) >= _wanted(group):
            _widen(group, order, wide, parts)
    if not wide:
        return nodes
    out = []
    for node in nodes:
        if node in wide:
            out += wide[node]
            continue
        if node.kind == "ew" or node.kind == "reduce":
            node.ins = [_part(v, *parts[v.buf]) if v.buf in parts else v for v in node.ins]
        out.append(node)
    return out


def _inner(node):
    """The plain pad that a plain pad pads, or the negative of; None if there is none."""
    x = node.ins[0]
    made = x.buf.node
    if made is not None and made.kind == "ew" and made.op == "neg" and x.whole() and made.shape == x.shape:
        x = made.ins[0]
        made = x.buf.node if x.buf is not None else None
    if made is None or made.kind != "kernel" or made.op != "pad" or not x.whole() or x.shape != made.outs[0].shape:
        return None
    return made if _is_plain(made) else None


def _merge_pads(nodes):
    """nodes, with pads of what is around their pads' operands."""
    out = []
    for node in nodes:
        while node.kind == "kernel" and node.op == "pad" and _is_plain(node) and (inner := _inner(node)):
            x, zero = inner.ins
            if node.ins[0].buf is not inner.outs[0].buf:
                y = Value(Buf("temp", x.dtype, prod(x.shape)), x.shape, row_major(x.shape), 0, x.dtype)
                y.buf.node = Node("ew", "neg", [x], [y], x.shape, type_code=CODES[x.dtype])
                out.append(y.buf.node)
                x = y
            result = node.outs[0]
            node = Node("kernel", "pad", [x, zero], [result], None, tuple([a + b for a, b in zip(node.ip, inner.ip)]))
            result.buf.node = node
        out.append(node)
    return out


def _wanted(group):
    """How many pads of one array are worth a wider one."""
    return PADS if group and group[0][0].outs[0].size >= FUSED else FEW


def _is_plain(node):
    """True for a pad with zeros around an array."""
    x, zero = node.ins
    return (
        zero.scalar is not None
        and zero.dtype.kind in "fiu"
        and not zero.scalar.tobytes().strip(b"\0")
        and min(node.ip) >= 0
        and not any(node.ip[2::3])
        and x.buf is not None
        and not x.tag
        and x.box is None
        and 0 not in x.shape
        and node.outs[0].size >= LEAST
    )


def _place(v, shape):
    """Where along each axis v begins in an array of this shape; None if it is not a box of it."""
    at, rest = [], v.offset
    if len(v.shape) != len(shape) or v.tag or v.box is not None:
        return None
    for n, s, size, step in zip(v.shape, v.strides, shape, row_major(shape)):
        if n != 1 and s != step:
            return None
        at.append(rest // step)
        rest -= at[-1] * step
        if at[-1] + n > size:
            return None
    return None if rest else at


def _multiple(v):
    """(x, c) where v is x times the constant c."""
    times = 1.0
    while v.whole() and v.dtype.kind == "f" and v.dtype.itemsize >= 4 and v.buf.node is not None and v.buf.node.kind == "ew":
        node = v.buf.node
        x = [i for i in node.ins if i.buf is not None]
        if node.op not in ("neg", "mul") or len(x) != 1 or x[0].tag or x[0].dtype != v.dtype or x[0].shape != v.shape:
            break
        c = times * (-1.0 if node.op == "neg" else float(next(i for i in node.ins if i.buf is None).scalar))
        if not c or not isfinite(c):
            break
        (v,), times = x, c
    return v, times


def _widen(group, order, wide, parts):
    """One pad for a group of them, and what each of them is now."""
    counts = Counter([times for _, times in group])
    usual = max(counts, key=lambda times: (counts[times], times == 1.0))
    base = next(node.ins[0] for node, times in group if times == usual)
    group = [(node, times) for node, times in group if 1 / FACTOR <= abs(times / usual) <= FACTOR]
    if len(group) < _wanted(group):
        return
    first = group[0][0]
    if base.buf.node is not None and order[base.buf.node] > order[first]:
        return
    lo = [max(p) for p in zip(*[node.ip[::3] for node, _ in group])]
    hi = [max(p) for p in zip(*[node.ip[1::3] for node, _ in group])]
    shape = tuple([a + n + b for a, n, b in zip(lo, base.shape, hi)])
    last = max([k for k, margins in enumerate(zip(lo, hi)) if any(margins)])
    if prod(shape) > 2 * base.size or prod(first.outs[0].shape[last:]) >= ROW:
        return
    whole = Value(Buf("temp", base.dtype, prod(shape)), shape, row_major(shape), 0, base.dtype)
    for node, times in group:
        out, at = node.outs[0], [a - b for a, b in zip(lo, node.ip[::3])]
        wide[node] = []
        if times == usual:
            parts[out.buf] = whole, at
            continue
        ins = [_box(whole, out.shape, at)]
        if times != -usual:
            ins.append(Value(None, out.shape, (0,) * len(out.shape), 0, out.dtype, out.dtype.type(times / usual)))
        out.buf.node = Node("ew", "mul" if len(ins) == 2 else "neg", ins, [out], out.shape, type_code=CODES[out.dtype])
        wide[node].append(out.buf.node)
    pad = Node("kernel", "pad", [base, first.ins[1]], [whole], None, tuple([k for a, b in zip(lo, hi) for k in (a, b, 0)]))
    whole.buf.node, pad.obj = pad, "margins"  # what is to lie in memory (see shift)
    wide[first].insert(0, pad)


def _box(whole, shape, at):
    return Value(whole.buf, shape, whole.strides, sum([a * s for a, s in zip(at, whole.strides)]), whole.dtype)


def _part(v, whole, at):
    """A part of a pad as a part of the wider one."""
    return _box(whole, v.shape, [a + b for a, b in zip(at, _place(v, v.buf.node.outs[0].shape))])
