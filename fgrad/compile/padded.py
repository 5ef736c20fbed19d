"""What is padded with zeros and then added at indices, the cotangent of a part of what was gathered, is added to zeros that are as wide
as what was padded, at the indices of its rows. Their sums are padded and added to what else there was."""

from collections import Counter
from math import prod

from fgrad import dtypes
from fgrad.compile.taken import elementwise_node
from fgrad.compile.values import Buf, Node, Value, row_major

LEAST = 1 << 13  # elements of what was padded
ADD = 1  # the kind of a scatter that adds up
HALF = (dtypes.FLOAT16, dtypes.BFLOAT16)  # which are rounded after each sum


def pad_after(nodes, outs):
    """nodes, with scatters of what was padded with zeros replaced by scatters of what it was made of."""
    found = [n for n in nodes if n.op == "scatter" and n.kind == "kernel" and _pad(n) is not None]
    if not found:
        return nodes
    read = Counter([v.buf for n in nodes for v in n.ins])
    read.update([v.buf for v in outs])
    instead = {n: made for n in found if read[n.ins[2].buf] == 1 and (made := _scattered(n, _pad(n))) is not None}
    return [new for n in nodes for new in instead.get(n, (n,))]


def _is_zero(v):
    return v.scalar is not None and not v.scalar.tobytes().strip(b"\0")


def _pad(n):
    """The pad that made all of what a scatter adds up; else None."""
    base, indices, v = n.ins
    made = v.buf.node if v.buf is not None and v.buf.size >= LEAST and v.whole() and not v.tag else None
    if made is None or made.op != "pad" or made.kind != "kernel" or made.outs[0].shape != v.shape or min(made.ip) < 0:
        return None
    x, zero = made.ins
    plain = x.buf is not None and x.box is None and not x.tag and 0 < x.size < v.size
    sums = n.ip[5] == ADD and not n.ip[3] and base.box is None and not base.tag and indices.buf is not None and indices.box is None
    if _is_zero(base):
        sums = sums and not any(base.strides)
    elif base.dtype in HALF:
        return None
    return made if plain and sums and _is_zero(zero) else None


def _scattered(n, pad):
    """[the scatter of what was padded, the pad of its result]; None where it would be no less."""
    (base, indices, v), ip, out = n.ins, n.ip, n.outs[0]
    x, zero = pad.ins
    nw, nd, nk = ip[:3]
    windows, dropped, mapped = ip[7 : 7 + nw], ip[7 + nw : 7 + nw + nd], ip[7 + nw + nd : 7 + nw + nd + nk]
    of = dict(zip(windows, [k for k in range(len(out.shape)) if k not in dropped]))  # axis of what is added -> of the result
    count, jumps, at, batch = list(indices.shape), list(indices.strides), indices.offset, 0
    shape, margins = list(out.shape), [0] * (3 * len(out.shape))
    for a, size in enumerate(x.shape):
        lo, hi, between = pad.ip[3 * a : 3 * a + 3]
        if a not in of:
            count[batch], at, jumps[batch] = size, at + lo * jumps[batch], jumps[batch] * (between + 1)
            batch += 1
        elif lo or hi or between:
            k = of[a]
            if k in mapped:  # it begins where its index says
                return None
            shape[k], margins[3 * k : 3 * k + 3] = size, (lo, hi + out.shape[k] - v.shape[a], between)
    if any(margins) and x.size + out.size > v.size:  # as much is written
        return None
    indices = Value(indices.buf, tuple(count), tuple(jumps), at, indices.dtype, None, indices.tag)
    made = Node("kernel", "scatter", [base, indices, x], [out], ip=ip)
    if not any(margins):
        out.buf.node = made
        return [made]
    shape, alone = tuple(shape), _is_zero(base)
    made.ins[0] = Value(zero.buf, shape, (0,) * len(shape), zero.offset, zero.dtype, zero.scalar, zero.tag)
    made.outs = [_temporary(shape, out.dtype)]
    whole = out if alone else _temporary(out.shape, out.dtype)
    padded = Node("kernel", "pad", [made.outs[0], zero], [whole], None, tuple(margins))
    made.outs[0].buf.node, whole.buf.node = made, padded
    return [made, padded] if alone else [made, padded, elementwise_node("add", [base, whole], out)]


def _temporary(shape, dtype):
    return Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)
