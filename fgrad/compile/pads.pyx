"""Sums of what was padded with zeros, as they are lowered: cotangents of slices are put together, not added to zeros."""

import numpy as np

from fgrad import dtypes
from fgrad.core import ShapedArray

from fgrad.compile.values cimport Node, Value
from fgrad.core.ir cimport AvalBase

cdef tuple _HALF = (dtypes.FLOAT16, dtypes.BFLOAT16)


cdef object padded_alike(Value x, Value y):
    """(a, b, a pad) where x and y are a and b padded with the same number of zeros, which a sum of them has too; else None."""
    cdef Node first, second
    if x.buf is None or y.buf is None or x.buf.node is None or y.buf.node is None or x.tag != y.tag:
        return None
    first, second = x.buf.node, y.buf.node
    if first.op != "pad" or second.op != "pad" or first.outs[0].shape != x.shape or second.outs[0].shape != y.shape:
        return None
    if not (x.whole() and y.whole()):
        return None
    (a, zero), (b, other) = first.ins, second.ins
    same = first.ip == second.ip and a.shape == b.shape and a.tag == b.tag == x.tag
    return (a, b, first) if same and _is_zero(zero) and _is_zero(other) else None


cdef Node _padding(Value v):
    """The node that made all of v by padding with zeros; else None."""
    cdef Node node
    if v.buf is None or v.buf.node is None or v.tag:
        return None
    node = v.buf.node
    if node.op != "pad" or node.outs[0].shape != v.shape or not v.whole() or not _is_zero(node.ins[1]) or (<Value>node.ins[0]).tag:
        return None
    return None if min(node.ip) < 0 else node


cdef Value side_by_side(ctx, Value x, Value y, AvalBase aval):
    """x + y where they are neighbours along an axis, each padded with zeros (the cotangents of two slices): joined, then padded; else None."""
    cdef Node first = _padding(x), second = _padding(y)
    cdef Value a, b, v
    cdef list pieces = []
    if (first is None and second is None) or aval.dtype.kind not in "fiu" or aval.dtype in _HALF:
        return None
    if second is not None and (v := _put_back(ctx, x, second, aval)) is not None:
        return v
    if first is None or second is None:
        if first is not None:
            x, second = y, first
        return _added_to_other(ctx, x, second, aval) if any(second.ip[2::3]) else _added_to_piece(ctx, x, second, aval)
    p, q = list(first.ip), list(second.ip)
    if any(p[2::3]) or any(q[2::3]):
        return _alternating(ctx, first, second, aval)
    axes = [k for k in range(len(aval.shape)) if p[3 * k : 3 * k + 2] != q[3 * k : 3 * k + 2]]
    if len(axes) != 1:
        return None
    axis, = axes
    a, b = first.ins[0], second.ins[0]
    if p[3 * axis] > q[3 * axis]:
        a, b, p, q = b, a, q, p
    if p[3 * axis] + a.shape[axis] != q[3 * axis] or 0 in a.shape or 0 in b.shape:
        return None
    for v in (a, b):
        made = v.buf.node if v.buf is not None and v.whole() else None
        pieces += made.ins if made is not None and made.op == "concatenate" and made.ip == (axis,) and made.outs[0].shape == v.shape else [v]
    pieces = [_plus_zero(ctx, v) for v in pieces]
    p[3 * axis + 1] = q[3 * axis + 1]
    shape = (*a.shape[:axis], a.shape[axis] + b.shape[axis], *a.shape[axis + 1 :])
    out = ctx.kernel("concatenate", pieces, [ShapedArray(shape, aval.dtype)], ip=(axis,), contiguous=False)[0]
    return ctx.kernel("pad", [out, first.ins[1]], [aval], ip=p, contiguous=False)[0] if any(p) else out


cdef Value _put_back(ctx, Value x, Node pad, AvalBase aval):
    """The sum of a pad and of an array that has zeros where the pad has its elements (cotangents of what an update replaced, and of what it
    read there), or of that and something else: an update by those elements; else None."""
    cdef Node node = x.buf.node if x.buf is not None and x.whole() and not x.tag else None
    cdef Value v
    if node is None or node.outs[0].shape != x.shape or any(pad.ip[2::3]):
        return None
    if node.op == "add" and node.kind == "ew":
        for k in range(2):
            v = node.ins[k]
            if v.buf is not None and v.shape == x.shape and _is_emptied(v.buf.node, pad):
                put = _put_back(ctx, v, pad, aval)
                return None if put is None else ctx.elementwise("add", [put, node.ins[1 - k]], aval)
        return None
    if not _is_emptied(node, pad):
        return None
    put = ctx.kernel("dynamic_update_slice", [node.ins[0], pad.ins[0], *node.ins[2:]], [aval], contiguous=False)[0]
    return ctx.elementwise("add", [put, ctx.scalar(0, x.dtype)], aval)


cdef bint _is_emptied(Node node, Node pad) except -1:
    """True for an update with zeros of just the elements that a pad holds."""
    cdef Value u, v
    if node is None or node.op != "dynamic_update_slice":
        return False
    u = node.ins[1]
    if u.shape != (<Value>pad.ins[0]).shape or u.dtype != (<Value>pad.ins[0]).dtype or not _is_zero(u):
        return False
    for v, n, k, lo in zip(node.ins[2:], node.outs[0].shape, u.shape, pad.ip[::3]):
        if v.scalar is None or min(max(int(v.scalar), 0), n - k) != lo:
            return False
    return True


cdef Value _plus_zero(ctx, Value v):
    """v + 0, which has no -0, as a sum of v and zeros."""
    cdef Value own
    if v.dtype.kind != "f" or _is_plus_zero(v):
        return v
    own = _as_made(ctx, v, v)
    return ctx.reshaped_view(ctx.elementwise("add", [own, ctx.scalar(0, v.dtype)], own.aval), v.shape)


cdef Value _as_made(ctx, Value v, Value like):
    """v under the shape in which `like`, of v's shape, was computed, so that both are one group; where that takes no copy."""
    cdef Node node = like.buf.node if like.buf is not None and like.whole() else None
    out = ctx.reshaped_view(v, node.shape) if node is not None and node.kind == "ew" and v.buf is not None else None
    return v if out is None else out


cdef Value _alternating(ctx, Node first, Node second, AvalBase aval):
    """The sum of two pads of which one has zeros where the other has elements, in turn along an axis (of every second element's
    cotangents): columns side by side, padded as both are along other axes; else None."""
    cdef Value a = first.ins[0], b = second.ins[0], out
    p, q = list(first.ip), list(second.ip)
    axes = [3 * k for k in range(len(aval.shape)) if p[3 * k : 3 * k + 3] != q[3 * k : 3 * k + 3]]
    if len(axes) != 1 or a.shape != b.shape or 0 in a.shape:
        return None
    at, = axes
    if p[at] == 1:
        a, b, p, q = b, a, q, p
    if p[at : at + 3] != [0, 1, 1] or q[at : at + 3] != [1, 0, 1]:
        return None
    axis, p[at : at + 3] = at // 3, [0, 0, 0]
    shape = (*a.shape[: axis + 1], 1, *a.shape[axis + 1 :])
    pieces = [ctx.reshaped_view(_plus_zero(ctx, v), shape) if v.buf is not None else None for v in (a, b)]
    if pieces[0] is None or pieces[1] is None:
        return None
    both = (*shape[: axis + 1], 2, *shape[axis + 2 :])
    out = ctx.kernel("concatenate", pieces, [ShapedArray(both, aval.dtype)], ip=(axis + 1,), contiguous=False)[0]
    out = ctx.reshaped_view(out, (*a.shape[:axis], 2 * a.shape[axis], *a.shape[axis + 1 :]))
    return ctx.kernel("pad", [out, first.ins[1]], [aval], ip=p, contiguous=False)[0] if any(p) else out


cdef Value _added_to_other(ctx, Value x, Node pad, AvalBase aval):
    """x and a pad that alternates with a pad which is the last that was added to x: x without it, and both; else None."""
    cdef Node node = x.buf.node if x.buf is not None and x.whole() and not x.tag else None
    cdef Node other
    if node is None or node.kind != "ew" or node.op != "add" or node.outs[0].shape != x.shape:
        return None
    for k in range(2):
        other = _padding(node.ins[k]) if node.ins[k].shape == x.shape else None
        both = _alternating(ctx, other, pad, aval) if other is not None and any(other.ip[2::3]) else None
        if both is not None:
            return ctx.elementwise("add", [node.ins[1 - k], both], aval)
    return None


cdef Value _added_to_piece(ctx, Value x, Node pad, AvalBase aval):
    """x and a pad whose elements are those of one operand of the concatenation that x is: added to that one; else None."""
    cdef Node join = x.buf.node if x.buf is not None and x.whole() and not x.tag else None
    cdef Value v, a, b
    cdef Py_ssize_t at = 0, axis
    if join is None or join.op != "concatenate" or join.outs[0].shape != x.shape or any(pad.ip[2::3]):
        return None
    axis, = join.ip
    ends = pad.ip[3 * axis]
    if any(pad.ip[: 3 * axis]) or any(pad.ip[3 * axis + 3 :]):
        return None
    for i, v in enumerate(join.ins):
        if at == ends and v.shape == (<Value>pad.ins[0]).shape and not v.tag:
            pieces = [_plus_zero(ctx, other) for other in join.ins]
            a, b = _as_made(ctx, v, v), _as_made(ctx, pad.ins[0], v)
            if a.shape != b.shape:
                a, b = v, pad.ins[0]
            pieces[i] = ctx.reshaped_view(ctx.elementwise("add", [a, b], a.aval), v.shape)
            return ctx.kernel("concatenate", pieces, [aval], ip=(axis,), contiguous=False)[0]
        at += v.shape[axis]
    return None


cdef bint _is_plus_zero(Value v):
    """True for something + 0, which is no -0."""
    cdef Node node = v.buf.node if v.buf is not None and v.whole() else None
    return node is not None and node.kind == "ew" and node.op == "add" and _is_zero(node.ins[1])


def _is_zero(v):
    """True if v is the constant +0."""
    return v.scalar is not None and v.scalar == 0 and not np.signbit(np.real(v.scalar))
