"""Gathers count negative indices from the end themselves: no pass over the indices comes before them."""

from fgrad._kernels.index import WRAPS
from fgrad.compile.values import Node, Value, row_major


def wrap_indices(nodes):
    """nodes, with gathers of i < 0 ? i + n : i along an axis of n replaced by gathers of i that do this."""
    return [_wrapping(n) if n.kind == "kernel" and n.op == "gather" else n for n in nodes]


def _wrapping(gather):
    x, indices = gather.ins
    window, dropped, mapped, _, mode = gather.ip[:5]
    if mapped != 1 or mode & WRAPS or indices.buf is None or not indices.whole():
        return gather
    axis = gather.ip[7 + window + dropped]
    given = given_before_wrap(indices.buf.node, x.shape[axis])
    if given is None:
        return gather
    ins = [x, Value(given.buf, indices.shape, row_major(indices.shape), given.offset, given.dtype)]
    new = Node("kernel", "gather", ins, gather.outs, ip=(*gather.ip[:4], mode | WRAPS, *gather.ip[5:]))
    gather.outs[0].buf.node = new
    return new


def given_before_wrap(node, n):
    """i, a contiguous array, where the node computes i < 0 ? i + n : i."""
    if node is None or node.kind != "ew" or node.op != "select":
        return None
    below, moved, given = node.ins
    if given.buf is None or not given.contiguous or given.shape != node.shape:
        return None
    if _is(below, "lt", given, 0) and (_is(moved, "add", given, n) or _is(moved, "add", given, n, turned=True)):
        return given
    return None


def _is(value, op, given, number, turned=False):
    """Whether a value is `op` of `given` and a number."""
    node = value.buf.node if value.buf is not None and value.whole() else None
    if node is None or node.kind != "ew" or node.op != op or node.shape != given.shape:
        return False
    a, b = node.ins[::-1] if turned else node.ins
    return a.buf is not None and a.key() == given.key() and b.scalar is not None and int(b.scalar) == number
