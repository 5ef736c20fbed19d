"""Results that groups of another shape read moved by some places get rows as long as those of their readers.

The gradient of a stencil on the inside of an array, x[1:-1, 1:-1] + x[2:, 1:-1], is a sum over all of x of what lies inside of it (see
shift). With rows of its own each operand is put together row by row; with the rows of x it is one piece of memory, gaps included.
"""

from math import prod

from fgrad.compile.fuse import reads_boxes
from fgrad.compile.values import Value, row_major

LEAST = 4096  # elements of a result
GAPS = 257  # of a walk that may go over gaps (see vm_gaps.h)
ROW = 256  # elements of a row that is long enough to be read by itself (see vm_gaps.h)


def lay_in_frames(units, outs):
    """Lay out what fused groups compute in memory for groups over larger shapes as parts of arrays of those shapes."""
    if not reads_boxes(units):
        return
    nodes = [node for unit in units if unit.fused and unit.axes is None for node in unit.nodes if _may_lie(node.outs[0])]
    kept = {v.buf for v in outs}
    readers = {}  # buffer -> [(its reader, number of the operand)]
    for unit in units:
        for node in unit.nodes:
            for i, v in enumerate(node.ins):
                readers.setdefault(v.buf, []).append((node, i))
    for node in nodes:
        if node.outs[0].buf not in kept:
            _lay(node, node.outs[0], readers.get(node.outs[0].buf, ()))


def frame_updates(units, outs):
    """Lay out what fused groups compute for updates of arrays with longer rows, so that a walk over the gaps may write it."""
    for unit in units:
        if unit.nodes[0].op == "dynamic_update_slice":
            _lay_update(unit.nodes[0], units, outs)


def _lay_update(put, units, outs):
    """Give what a group computes for an update alone, of parts of arrays with rows as long as those of the updated one, such rows."""
    u, row = put.ins[1], put.outs[0].shape[-1:]
    node = u.buf.node if u.buf is not None and u.buf.kind == "temp" and u.whole() and len(u.shape) > 1 else None
    if node is None or node.kind != "ew" or not node.group.fused or node.group.axes is not None:
        return
    if u.size < GAPS or u.shape[-1:] == row or row[0] >= ROW or u.buf in {v.buf for v in outs}:
        return
    if sum([v.buf is u.buf for unit in units for n in unit.nodes for v in n.ins]) != 1:
        return
    if not any([v.strides[-2:] == (*row, 1) for n in node.group.nodes for v in n.ins]):
        return
    strides = row_major((*u.shape[:-1], *row))
    u.buf.room = 1 + sum([(n - 1) * s for n, s in zip(u.shape, strides)])
    node.outs[0] = put.ins[1] = Value(u.buf, u.shape, strides, 0, u.dtype, None, u.tag)


def _may_lie(out):
    return len(out.shape) > 1 and out.size >= LEAST and out.buf.kind == "temp" and out.whole()


def _lay(node, out, readers):
    """Give a result the rows of what reads it with a guard, if all that reads it from memory can do so."""
    frame, moved = None, []
    for reader, i in readers:
        v = reader.ins[i]
        if reader.group is node.group and v.whole() and v.shape == out.shape:
            continue  # in a register
        if not reader.group.fused or reader.kind not in ("ew", "reduce"):
            return
        at = _begin(v, out.shape)
        if at is None:
            return
        if v.box is not None:
            if frame is not None and frame != v.shape:
                return
            frame = v.shape
        moved.append((reader, i, at))
    if frame is None or frame[-1] >= ROW or frame[1:] == out.shape[1:] or prod(frame) > 2 * out.size:
        return
    if any([n > k for n, k in zip(out.shape[1:], frame[1:])]):
        return
    strides = row_major(frame)
    out.buf.room = 1 + sum([(n - 1) * s for n, s in zip(out.shape, strides)])
    node.outs[0] = Value(out.buf, out.shape, strides, 0, out.dtype)
    for reader, i, at in moved:
        v = reader.ins[i]
        steps = tuple([s if t else 0 for s, t in zip(strides, v.strides)])
        reader.ins[i] = Value(v.buf, v.shape, steps, sum([a * s for a, s in zip(at, strides)]), v.dtype, None, v.tag, v.box)


def _begin(v, shape):
    """Where along each axis v begins in an array of this shape, which it may reach beyond; None if it is read otherwise."""
    strides, at, rest = row_major(shape), [], v.offset
    if len(v.shape) != len(shape):
        return None
    box = v.box or tuple([k for n in v.shape for k in (0, n)])
    for n, size, s, step, lo, hi in zip(v.shape, shape, v.strides, strides, box[::2], box[1::2]):
        if s != step and n != 1 and s:
            return None
        at.append(-lo if lo else size - hi if hi < n else None)
        if at[-1] is not None:
            rest -= at[-1] * step
    for k, (n, size, step) in enumerate(zip(v.shape, shape, strides)):
        if at[k] is None:
            at[k] = min(rest // step, size - n)
            rest -= at[k] * step
    return at if not rest and min([0, *[a for a, lo in zip(at, box[::2]) if not lo]]) >= 0 else None
