"""Rows that are taken of taken rows are taken at once, x[i][j] as x[i[j]], and rows of repeats of what repeats; what is scattered into
zeros and then scattered is scattered once."""

from collections import Counter
from math import prod

import numpy as np

from fgrad._kernels.index import WRAPS
from fgrad.compile.taken import elementwise_node
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape
from fgrad.core.array import CODES
from fgrad.dtypes import BOOL

LEAST = 1 << 10  # elements of what comes between
REPEATED = 2  # of repeats there are for each index, which is divided
SINGLE = 2  # of it are read for each that is taken, if rows are single elements: those are no dearer than their indices
ADD = 1  # the kind of a scatter that adds up


def take_at_once(nodes, outs):
    """nodes, with gathers of gathered rows and scatters of scattered rows as one of each."""
    chains = [n for n in nodes if n.op in ("gather", "scatter") and (_link(n) is not None or _repeats(n) is not None)]
    if not chains:
        return nodes
    read, taken = Counter([v.buf for v in outs]), Counter()  # taken: elements that gathers take of a result
    for n in nodes:
        read.update([v.buf for v in n.ins])
        if n.op == "gather":
            taken[n.ins[0].buf] += n.outs[0].size
    gathers = Counter([n.ins[0].buf for n in chains if n.op == "gather"])  # which all of its readers must be, if it is not to be made
    instead = {}
    for n in chains:
        made = _link(n)  # of the scatter before it, perhaps there no more
        between = n.ins[0] if made is None else made.outs[0]
        if made is None:
            if read[between.buf] == gathers[between.buf] and REPEATED * n.ins[1].size <= between.size:
                instead[n] = _repeated(n, *_repeats(n))
        elif n.op == "scatter":
            if read[between.buf] == 1:
                instead[n] = _scattered(n, made)
        elif read[between.buf] == gathers[between.buf] and taken[between.buf] * (1 if n.ip[0] else SINGLE) <= between.size:
            instead[n] = _gathered(n, made)
    return [new for n in nodes for new in instead.get(n, (n,))]


def _link(n):
    """The gather whose rows a gather takes, or the scatter into zeros whose rows a scatter adds; None if it is no such node."""
    v = n.ins[0 if n.op == "gather" else 2]
    made = v.buf.node if v.buf is not None and v.buf.size >= LEAST and v.whole() else None
    if made is None or made.op != n.op or v.tag or v.shape != made.outs[0].shape or not (_of_rows(n) and _of_rows(made)):
        return None
    if n.op == "gather":
        fills = n.ip[4] & 1  # what is outside of the second is outside of the first, if both fill with the same
        fitting = not fills or (made.ip[4] & 1 and n.ip[5:7] == made.ip[5:7])
        return made if fitting and len(made.ins[1].shape) == 2 and made.ins[1].buf is not None else None
    zeros = made.ins[0]
    if len(n.ins[1].shape) != 2 or n.ins[1].buf is None or n.ip[5] != ADD or made.ip[5] != ADD or v.dtype.itemsize < 4:
        return None
    if zeros.scalar is None or np.asarray(zeros.scalar).tobytes().strip(b"\0") or (made.ip[4] and not n.ip[4]):
        return None
    return made


def _repeats(n):
    """(what a copy whose rows a gather takes repeats, by rows, how often each row follows itself, how often all of them), or None."""
    v = n.ins[0] if n.op == "gather" else None
    made = v.buf.node if v is not None and v.buf is not None and v.buf.size >= LEAST and v.whole() else None
    if made is None or made.op != "copy" or v.tag or not _of_rows(n) or n.ins[1].buf is None or v.dtype != v.buf.dtype:
        return None
    x, k, rows = made.ins[0], 0, 1
    while k < len(x.shape) and rows < v.shape[0]:
        rows *= x.shape[k]
        k += 1
    lead = [(size, step) for size, step in zip(x.shape[:k], x.strides) if size != 1]
    each, whole = 1, 1
    while lead and not lead[-1][1]:
        each *= lead.pop()[0]
    while lead and not lead[0][1]:
        whole *= lead.pop(0)[0]
    inner = view_reshape(x.shape[k:], x.strides[k:], v.shape[1:])
    if rows != v.shape[0] or len(lead) != 1 or each * whole == 1 or inner is None or x.tag or x.box is not None or x.buf is None:
        return None
    return Value(x.buf, (lead[0][0], *v.shape[1:]), (lead[0][1], *inner), x.offset, x.dtype), each, whole


def _repeated(n, x, each, whole):
    """[what computes the rows of x, a gather of them]: row j of the repeats is row j / each of x, modulo its rows."""
    at, rows, count, nodes = n.ins[1], n.ins[0].shape[0], x.shape[0], []
    shape = at.shape[:-1]

    def number(k):
        return Value(None, shape, (0,) * len(shape), 0, at.dtype, at.dtype.type(k))

    def add(op, *ins, dtype=at.dtype):
        out = Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)
        nodes.append(elementwise_node(op, list(ins), out, type_code=CODES[at.dtype]))
        return out

    index = given = Value(at.buf, shape, at.strides[:-1], at.offset, at.dtype, None, at.tag)
    if n.ip[4] & WRAPS:
        given = index = add("select", add("lt", index, number(0), dtype=BOOL), add("add", index, number(rows)), index)
    if each > 1:
        index = add("div", index, number(each))
    if whole > 1:
        index = add("select", add("ge", given, number(rows), dtype=BOOL), number(count), add("rem", index, number(count)))
    index = add("select", add("lt", given, number(0), dtype=BOOL), number(-1), index)
    ip = (*n.ip[:4], n.ip[4] & ~WRAPS, *n.ip[5:])
    return [*nodes, _node("gather", [x, Value(index.buf, at.shape, (*index.strides, 1), 0, at.dtype)], n.outs[0], ip)]


def _of_rows(n):
    """True if a node takes, or adds to, whole rows along the first axis, each at one index, in their order."""
    window, dtype = n.ip[0], n.ins[1].dtype
    if dtype.kind != "i" or dtype.itemsize < 4:  # sizes may not fit
        return False
    if n.ip[1:4] != (1, 1, 0) or n.ip[7 + window : 9 + window] != (0, 0):
        return False
    x, small = n.ins[0], n.outs[0] if n.op == "gather" else n.ins[2]
    offset = len(small.shape) - window
    if window != len(x.shape) - 1 or n.ip[7 : 7 + window] != tuple(range(offset, len(small.shape))) or n.ins[1].shape[-1] != 1:
        return False
    return small.shape[offset:] == x.shape[1:] and (n.op != "gather" or n.ip[9 + window :] == (1, *x.shape[1:]))


def _gathered(n, made):
    """[a gather of indices, one of rows]."""
    index = _indices(made.ins[1], n.ins[1], n.ip[4] & WRAPS, made.ins[0].shape[0] if n.ip[4] & 1 else None)
    window, out = n.ip[0], n.outs[0]
    ip = (*n.ip[:4], *made.ip[4:7], *n.ip[7 : 9 + window], *n.ip[9 + window :])
    return [index.buf.node, _node("gather", [made.ins[0], index], out, ip)]


def _scattered(n, made):
    """[a gather of indices, a scatter of rows]; rows that the first scatter drops get an index that the second one drops."""
    index = _indices(n.ins[1], made.ins[1], 0, n.ins[0].shape[0] if made.ip[4] else None)
    x, rows, window = n.ins[0], made.ins[2], n.ip[0]
    offset = len(rows.shape) - window
    ip = (*n.ip[:7], *range(offset, len(rows.shape)), *n.ip[7 + window :])
    return [index.buf.node, _node("scatter", [x, index, rows], n.outs[0], ip)]


def _indices(of, at, wraps, beyond):
    """of[at] for indices `of`, (n, 1); beyond: what there is outside of them, by default the nearest one."""
    column = Value(of.buf, of.shape[:1], of.strides[:1], of.offset, of.dtype, None, of.tag)
    shape = at.shape[:-1]
    size = prod(shape)
    out = Value(Buf("temp", of.dtype, size), shape, row_major(shape), 0, of.dtype)
    _node("gather", [column, at], out, (0, 1, 1, 0, wraps | (beyond is not None), beyond or 0, 0, 0, 0, 1))
    return Value(out.buf, at.shape, (*out.strides, 1), 0, of.dtype)


def _node(op, ins, out, ip):
    node = out.buf.node = Node("kernel", op, ins, [out], ip=tuple(ip))
    return node
