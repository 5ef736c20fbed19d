"""What reads only parts of a concatenation reads its operands, and a sum over an axis of stacked arrays is their sum.

So the halves that a gated unit's gradient puts side by side, and stacks that are reduced at once, are not written. A concatenation that
anything else reads stays for all: its operands are computed in its place then.
"""

from math import prod

from fgrad import dtypes
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.core.array import CODES

LEAST = 256  # elements of a concatenation
STACKED = 1024  # arrays at most that are added up one by one, each sum rounded: they cost no more time to compile than to put together
REDUCED = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
DTYPES = (dtypes.FLOAT32, dtypes.FLOAT64, dtypes.INT32, dtypes.INT64)


def unjoin(nodes, outs):
    """nodes without concatenations of which all readers read parts; those are for live_nodes to leave out."""
    joins = {n.outs[0].buf: n for n in nodes if n.op == "concatenate" and n.outs[0].size >= LEAST and n.outs[0].whole()}
    if not joins:
        return nodes
    reads = {b: [] for b in joins}  # a concatenation's result -> [(what is read instead, or the stacked arrays; reader, operand)]
    for v in outs:
        reads.pop(v.buf, None)
    for n in nodes:
        for k, v in enumerate(n.ins):
            if v.buf in reads:
                part = _stacked(joins[v.buf], n, v) if n.kind == "reduce" and len(n.shape) > 1 else None
                part = part or (_part(joins[v.buf], v) if n.kind in ("ew", "reduce") or n.op == "copy" else None)
                if part is None:
                    del reads[v.buf]
                else:
                    reads[v.buf].append((part, n, k))
    chains = {}
    for found in reads.values():
        for part, n, k in found:
            if isinstance(part, Value):
                n.ins[k] = part
            else:
                chains[n] = part
    return [m for n in nodes for m in (_chain(n, chains[n]) if n in chains else (n,))] if chains else nodes


def _lie(join):
    """True if operands are whole stretches of memory, or numbers, as they are in the result."""
    out, arrays = join.outs[0], [v for v in join.ins if v.buf is not None]
    return len(join.ins) > 1 and all([v.contiguous and v.tag == out.tag and v.box is None and v.dtype == out.dtype for v in arrays])


def _part(join, v):
    """v, a view of a concatenation, as one of the operand that it lies in; None where it lies in several."""
    out, axis = join.outs[0], join.ip[0]
    if v.tag != out.tag or v.dtype != out.dtype or v.box is not None or not v.size or not _lie(join):
        return None
    inner = prod(out.shape[axis + 1 :])
    row = out.shape[axis] * inner
    at = v.offset % row  # within a row of all operands side by side
    low = high = at
    for n, s in zip(v.shape, v.strides):
        if n > 1 and s % row:
            low, high = low + min(0, (n - 1) * s), high + max(0, (n - 1) * s)
    start = 0
    for x in join.ins:
        end = start + x.shape[axis] * inner
        if start <= low and high < end:
            if x.buf is None:
                return Value(None, v.shape, (0,) * len(v.shape), 0, v.dtype, x.scalar, v.tag)
            strides = tuple([0 if n == 1 else s if s % row else s // row * (end - start) for n, s in zip(v.shape, v.strides)])
            return Value(x.buf, v.shape, strides, x.offset + v.offset // row * (end - start) + at - start, v.dtype, None, v.tag)
        start = end
    return None


def _stacked(join, n, v):
    """The operands of which n reduces a stack along its own axis, without that axis; else None."""
    axis, out = join.ip[0], n.outs[0]
    if n.op not in REDUCED or n.axes != (axis,) or not v.whole() or v.shape != join.outs[0].shape or v.tag != join.outs[0].tag:
        return None
    if not 1 < len(join.ins) <= STACKED or out.dtype != v.dtype or v.dtype not in DTYPES:
        return None
    if any([x.shape[axis] != 1 or x.box is not None or x.tag != v.tag or x.dtype != v.dtype for x in join.ins]):
        return None
    cut = lambda t: (*t[:axis], *t[axis + 1 :])
    return [Value(x.buf, cut(x.shape), cut(x.strides), x.offset, x.dtype, x.scalar, x.tag) for x in join.ins] if out.whole() else None


def _chain(reduction, arrays):
    """The operations that reduce arrays of one shape one by one."""
    made, out, before = [], reduction.outs[0], arrays[0]
    shape = arrays[0].shape
    for k, x in enumerate(arrays[1:], 2):
        after = Value(Buf("temp", out.dtype, out.size), shape, row_major(shape), 0, out.dtype) if k < len(arrays) else out
        after.buf.node = Node("ew", REDUCED[reduction.op], [before, x], [after], shape, type_code=CODES[out.dtype])
        made.append(after.buf.node)
        before = after
    return made
