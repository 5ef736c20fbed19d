"""Cross-entropies written out become kernels that read the logits once each way.

Softmaxes leave memory where only the logarithm at a label of each row is taken of them, or where their cotangent is what scaled
exponentials and a number at each row's label make. A sum into zeros at one place of each row is a comparison, which fuses with what
reads it.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad._kernels.index import gather_ip
from fgrad.compile.fuse import live_nodes
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, forget, row_major, view_reshape
from fgrad.core.array import CODES

LEAST = 64  # classes: softmaxes of fewer go by columns, and have more than their memory to save
LEAST_OF_BODY = 1 << 13  # elements of logits
ALONG_ROWS = tuple(gather_ip((), (1,), (1,), (0,), (0,), (1, 1), False))
LOSSES = ("log_softmax", "softmax_logsumexp", "max", "scatter")  # what they are found by
PART_OF_GATHER = 7  # the integers of a gather or scatter before its axes
ADD = 1  # among a scatter's kinds
FLOATS = (dtypes.FLOAT32, dtypes.FLOAT64)


class _Pick(NamedTuple):
    """One element of each row of `shape`: labels (rows,) and, of a sum at the labels, the addends (a row value); node: what does it."""

    node: Node
    shape: tuple
    labels: Value
    clamped: bool
    addends: Value | None = None


def join_losses(nodes, outs, ctx, known, sub=False):
    """nodes, with the parts of losses that are written out replaced. sub: those of a loop, whose small ones run in one instruction."""
    program = _Program(nodes, outs, ctx, known)
    candidates = [n for n in nodes if n.op in LOSSES and (not sub or n.ins[0].size >= LEAST_OF_BODY)]
    for node in candidates:
        if node.kind == "kernel" and node.op == "scatter":
            program.compare(node)
    for node in candidates:
        if node.kind == "kernel" and node.op == "log_softmax":
            program.log_softmax(node)
        elif node.kind == "kernel" and node.op == "softmax_logsumexp":
            program.softmax(node)
        elif node.kind == "reduce" and node.op == "max":
            program.exponentials(node)
    if not program.changed:
        return nodes
    new = live_nodes([m for n in nodes for m in (*program.before[id(n)], *program.instead.get(id(n), (n,)))], outs)
    left = {id(n) for n in new}
    forget([n for ns in (*program.before.values(), *program.instead.values()) for n in ns if id(n) not in left])
    return new


class _Program:
    def __init__(self, nodes, outs, ctx, known):
        self.readers = defaultdict(list)
        for n in nodes:
            for v in n.ins:
                if v.buf is not None:
                    self.readers[id(v.buf)].append((n, v))
        self.place = {id(n): i for i, n in enumerate(nodes)}
        self.kept = {id(v.buf) for v in outs}
        self.ctx, self.known = ctx, known
        self.before, self.instead = defaultdict(list), {}  # by id of a node

    @property
    def changed(self):
        return bool(self.instead)

    def of(self, buf):
        """The (node, operand) that read a buffer which is no result; None for a result."""
        return None if id(buf) in self.kept else self.readers[id(buf)]

    # --- one element of each row ------------------------------------------------------------------------------------------

    def pick(self, node, shape):
        """The _Pick that a gather of all rows of `shape`, or a sum into them, is; else None."""
        x, indices = node.ins[:2]
        rows, classes = math.prod(shape[:-1]), shape[-1]
        nw, nd, nk, batching = node.ip[:4]
        axes = node.ip[PART_OF_GATHER:]
        if indices.buf is None or not indices.whole() or indices.size != rows or x.size != rows * classes or nk != 1 or nw + nd != 1:
            return None
        if node.op == "gather" and (not x.whole() or node.ip[4] or any(n != 1 for n in axes[nw + nd + nk + 2 * batching :])):
            return None
        if len(x.shape) == 1 and nd and not batching:
            labels = self._of_flat(indices, rows, classes)
        elif x.shape[-1] == classes and self._along_rows(node, indices, len(x.shape) - 1):
            labels = Value(indices.buf, (rows,), (1,), 0, indices.dtype)
        else:
            return None
        if labels is None or labels.dtype not in (dtypes.INT32, dtypes.INT64):
            return None
        if node.op == "gather":
            return _Pick(node, shape, labels, _is_clamped(labels, classes))
        addends = node.ins[2]
        strides = view_reshape(addends.shape, addends.strides, (rows,)) if addends.buf is not None and addends.size == rows else None
        if strides is None or addends.box is not None:
            return None
        addends = Value(addends.buf, (rows,), strides, addends.offset, addends.dtype, None, addends.tag)
        return _Pick(node, shape, labels, bool(node.ip[4]) or _is_clamped(labels, classes), addends)

    def _along_rows(self, node, indices, last):
        """Whether a gather or scatter has one index for each of the leading axes, into the last one."""
        nw, nd, nk, batching = node.ip[:4]
        axes = node.ip[PART_OF_GATHER + nw :]
        leading = tuple(range(last))
        same = batching == last and axes[nd : nd + 1] == (last,) and axes[nd + 1 : nd + 1 + 2 * last] == leading * 2
        return same and (not nd or axes[0] == last) and indices.shape[:last] == node.ins[0].shape[:last]

    def _of_flat(self, indices, rows, classes):
        """j of indices i * classes + j for each row i, where j is known to be within; else None."""
        at = self.known.elements(indices)
        if at is not None:
            labels = at - np.arange(rows, dtype=at.dtype) * at.dtype.type(classes)
            return self.ctx.constant(labels) if labels.min() >= 0 and labels.max() < classes else None
        node = indices.buf.node
        if node is None or not _is_ew(node, "add") or not node.outs[0].whole():
            return None
        for first, j in (node.ins, node.ins[::-1]):
            if first.buf is None or j.buf is None or not j.whole() or j.size != rows or not _is_clamped(j, classes):
                continue
            x = self.known.elements(first)
            if x is not None and np.array_equal(x, np.arange(rows, dtype=x.dtype) * x.dtype.type(classes)):
                return Value(j.buf, (rows,), (1,), 0, j.dtype)
        return None

    def compare(self, node):
        """A sum into zeros, at one place of each row, becomes a selection where what reads it fuses with that."""
        base, out = node.ins[0], node.outs[0]
        readers = self.of(out.buf)
        if not readers or node.ip[5] != ADD or self.known.number(base) != 0:
            return
        shape = readers[0][1].shape
        if len(shape) < 2 or shape[-1] < LEAST or any(v.shape != shape or not v.whole() or not _fuses(n) for n, v in readers):
            return
        pick = self.pick(node, shape)
        if pick is None:
            return
        new = self.instead[id(node)] = []
        labels = self._clamped(pick, new)
        at = Value(Buf("temp", labels.dtype, shape[-1]), (shape[-1],), (1,), 0, labels.dtype)
        at.buf.node = Node("kernel", "iota", [], [at], None, (0,))
        new.append(at.buf.node)
        spread = Value(at.buf, shape, (*(0 for _ in shape[:-1]), 1), 0, at.dtype)
        hit = _fresh(shape, dtypes.BOOL)
        new.append(_ew("eq", [spread, _spread(labels, shape)], hit, labels.dtype))
        result = _viewed(out.buf, shape)
        new.append(_ew("select", [hit, _spread(pick.addends, shape), _number(0, shape, out.dtype)], result))
        for n in new:
            for v in n.ins:
                if v.buf is not None:
                    self.readers[id(v.buf)].append((n, v))

    def one_hot(self, v):
        """The _Pick that a value is, 0 but at one label of each row, or None."""
        node = v.buf.node if v.buf is not None and v.whole() else None
        if node is None or not _is_ew(node, "select") or node.shape != v.shape or len(self.of(v.buf) or ()) != 1:
            return None
        where, addends, zero = node.ins
        equal = where.buf.node if where.buf is not None and where.whole() else None
        if zero.scalar is None or zero.scalar != 0 or equal is None or not _is_ew(equal, "eq"):
            return None
        addends = _row(addends, v.shape)
        for at, labels in (equal.ins, equal.ins[::-1]):
            count = at.buf.node if at.buf is not None else None
            if count is None or count.op != "iota" or at.offset or at.strides[:-1] != (0,) * (len(v.shape) - 1) or at.strides[-1] != 1:
                continue
            labels = _row(labels, v.shape)
            if addends is not None and labels is not None and labels.buf is not None and labels.dtype in (dtypes.INT32, dtypes.INT64):
                return _Pick(node, v.shape, labels, True, addends)
        return None

    def _clamped(self, pick, new):
        if pick.clamped:
            return pick.labels
        out = _fresh(pick.labels.shape, pick.labels.dtype)
        least, most = (_number(k, out.shape, out.dtype) for k in (0, pick.shape[-1] - 1))
        new.append(_ew("clamp", [least, pick.labels, most], out))
        return out

    def dense(self, v, new, negative=False):
        """A row value, or its negative, as a kernel's operand; new: where to put what makes it."""
        if v.buf is not None and v.whole() and not negative:
            return v
        if v.buf is None:
            number = self.ctx.materialize(Value(None, (), (), 0, v.dtype, -v.scalar if negative else v.scalar))
            v, negative = Value(number.buf, v.shape, (0,), number.offset, v.dtype), False
        out = _fresh(v.shape, v.dtype)
        node = _ew("neg", [v], out) if negative else Node("kernel", "copy", [v], [out])
        out.buf.node = node
        new.append(node)
        return out

    # --- softmaxes --------------------------------------------------------------------------------------------------------

    def log_softmax(self, softmax):
        """One where only an element of each row is read, and whose cotangents are 0 but there."""
        y, x = softmax.outs[0], softmax.ins[0]
        readers = self.of(y.buf)
        if not readers or not _has_rows(softmax, x):
            return
        picks, cotangents = [], []
        for node, v in readers:
            if node.op == "gather" and node.ins[0] is v and v.size == y.size:
                picks.append(self.pick(node, y.shape))
            elif node.op == "log_softmax_cotangent" and node.ins[0] is v and node.ins[1].buf is not y.buf and node.ip == softmax.ip:
                cotangents.append((node, self.one_hot(node.ins[1])))
            else:
                return
        if None in picks or any(pick is None for _, pick in cotangents) or len({_identity(pick.labels) for pick in picks}) > 1:
            return
        first = picks[0].node if picks else softmax
        if any(self.place[id(node)] < self.place[id(first)] for node, _ in cotangents):
            return
        x, rows = _matrix(x), (math.prod(y.shape[:-1]),)
        lse = _fresh(rows, x.dtype)
        if picks:
            new = self.before[id(first)]
            loss = _fresh(rows, x.dtype)
            new.append(_kernel("cross_entropy", [x, self._clamped(picks[0], new)], [loss, lse]))
        else:
            self.before[id(first)].append(_kernel("logsumexp", [x], [lse], (1,)))
        nothing, whole = _fresh(rows, x.dtype), _fresh(rows, x.dtype)  # 0, or NaN with an infinite element, as in log_softmax; lse so
        self.before[id(first)] += [_ew("sub", [lse, lse], nothing), _ew("add", [lse, nothing], whole)]
        for pick in picks:
            self.instead[id(pick.node)] = [_ew("sub", [nothing, loss], _viewed(pick.node.outs[0].buf, rows))]
        for node, pick in cotangents:
            new = self.instead[id(node)] = []
            ct = self.dense(pick.addends, new, negative=True)
            operands = [x, whole, self.dense(pick.labels, new), ct]
            new.append(_kernel("cross_entropy_cotangent", operands, [_viewed(node.outs[0].buf, x.shape)]))

    def softmax(self, softmax):
        """One beside its logsumexp, which is read only to be scaled by rows and have a number at a label of each row added."""
        (p, lse), x = softmax.outs, softmax.ins[0]
        if not _has_rows(softmax, x):
            return
        scaled = self._scaled(p, self.of(p.buf))
        if scaled is None or scaled[2] is None:
            return
        rows = (math.prod(p.shape[:-1]),)
        x, lse = _matrix(x), _viewed(lse.buf, rows)
        self.instead[id(softmax)] = [_kernel("logsumexp", [x], [lse], (1,))]
        self._cotangent(x, lse, scaled)

    def exponentials(self, largest):
        """exp(x - max(x)) that is read only to be summed, and maybe as a softmax is above."""
        x, top = largest.ins[0], largest.outs[0]
        last = len(x.shape) - 1
        if tuple(largest.axes) != (last,) or not _is_matrix(x) or not top.whole() or id(top.buf) in self.kept:
            return
        shifted = [n for n, v in self.readers[id(top.buf)] if _is_ew(n, "sub") and n.ins[1] is v and _same(n.ins[0], x)]
        if len(shifted) != 1 or not _is_spread(shifted[0].ins[1], x.shape):
            return
        z = shifted[0].outs[0]
        exps, picks = [], []
        for n, v in self.of(z.buf) or ():
            if _is_ew(n, "exp") and v.whole():
                exps.append(n)
            elif n.op == "gather" and n.ins[0] is v and v.size == x.size and (pick := self.pick(n, x.shape)) is not None:
                picks.append(pick)
            else:
                return
        if len(exps) != 1 or exps[0].shape != x.shape:
            return
        e = exps[0].outs[0]
        readers = self.of(e.buf) or ()
        sums = [
            n for n, v in readers if n.kind == "reduce" and n.op == "sum" and tuple(n.axes) == (last,) and n.shape == x.shape and v.whole()
        ]
        rest = [(n, v) for n, v in readers if n not in sums]
        if len(sums) != 1 or not sums[0].outs[0].whole():
            return
        scaled = self._scaled(e, rest, (x, top, sums[0].outs[0])) if rest else None
        if rest and scaled is None:
            return
        m, x = _viewed(top.buf, (top.size,)), _matrix(x)
        total = _viewed(sums[0].outs[0].buf, m.shape)
        self.instead[id(largest)] = [_kernel("max_expsum", [x], [m, total])]
        self.instead[id(sums[0])] = []
        for pick in picks:
            given, out = pick.node.ins[0], pick.node.outs[0]
            new = _fresh(out.shape, out.dtype)
            taken = _kernel("gather", [_viewed(x.buf, given.shape), pick.node.ins[1]], [new], pick.node.ip)
            self.instead[id(pick.node)] = [taken, _ew("sub", [new, _viewed(m.buf, out.shape)], out)]
        if scaled is not None:
            self._cotangent(x, m, scaled)

    def _scaled(self, e, readers, largest=None):
        """(the last node, scales, _Pick or None) where e is only multiplied by a row value and maybe has one number a row added.

        largest: (x, max(x), sum(e)) where e is exp(x - max(x)): the maximum's own share is 0, and goes.
        """
        if readers is None or len(readers) != 1 or not _is_ew(readers[0][0], "mul") or readers[0][0].shape != e.shape:
            return None
        node, v = readers[0]
        scales = _row(node.ins[1] if node.ins[0] is v else node.ins[0], e.shape)
        product = node.outs[0]
        more, both = self.of(product.buf), None
        if largest is not None and more and len(more) == 2:
            both = self._with_maximum(product, scales, *largest)
            more = [(n, v) for n, v in more if not _is_ew(n, "neg")] if both is not None else more
        if scales is None or not v.whole() or scales.buf is e.buf or scales.dtype != e.dtype:
            return None
        if more and len(more) == 1:
            last, v = more[0]
            if _is_ew(last, "add") and v.whole() and last.shape == e.shape:
                pick = self.one_hot(last.ins[1] if last.ins[0] is v else last.ins[0])
                if pick is not None and (both is None or both[0] is last):
                    return (both[1] if both else last), scales, pick
            if last.op == "scatter" and last.ins[0] is v and v.whole() and last.ip[5] == ADD and last.outs[0].whole():
                pick = self.pick(last, e.shape)
                if pick is not None and pick.addends is not None:
                    return last, scales, pick
        return node, scales, None

    def _with_maximum(self, product, scales, x, top, total):
        """(the node that reads scales * exp(x - top), the one that adds the share of top = max(x) to it) where the logarithm of
        total = sum(exp(x - top)) and top have one cotangent c, which is also its share's sum; else None."""
        by_total = scales.buf.node if scales.buf is not None else None
        if by_total is None or not _is_ew(by_total, "div") or by_total.ins[1].buf is not total.buf:
            return None
        pair = {n.op: n for n, _ in self.readers[id(product.buf)] if n.kind == "ew"}
        if set(pair) != {"neg", "add"}:
            return None
        negative, first = pair["neg"], pair["add"]
        chain = self._only(negative.outs[0], "sum"), self._only(first.outs[0], "add")
        rest = self._only(chain[0].outs[0], "add") if chain[0] is not None and tuple(chain[0].axes) == (len(x.shape) - 1,) else None
        if rest is None or chain[1] is None:
            return None
        c = rest.ins[1] if rest.ins[0].buf is chain[0].outs[0].buf else rest.ins[0]
        same = (
            c.scalar == by_total.ins[0].scalar if c.buf is None else c.buf is by_total.ins[0].buf and c.whole() and by_total.ins[0].whole()
        )
        each = self._only(rest.outs[0], "div")
        share = self._only(each.outs[0], "mul") if each is not None else None
        if not same or share is None or not any(v.buf is share.outs[0].buf and v.whole() for v in chain[1].ins):
            return None
        hits = [v.buf.node for v in share.ins if v.buf is not None and v.buf is not each.outs[0].buf]
        equal = hits[0].ins[0].buf.node if len(hits) == 1 and hits[0] is not None and _is_ew(hits[0], "select") else None
        found = equal is not None and _is_ew(equal, "eq") and {id(v.buf) for v in equal.ins} == {id(x.buf), id(top.buf)}
        return (first, chain[1]) if found else None

    def _only(self, v, op):
        """The only node that reads v, if it is `op`."""
        readers = self.of(v.buf) or ()
        return readers[0][0] if len(readers) == 1 and readers[0][0].op == op else None

    def _cotangent(self, x, shift, scaled):
        """The cotangent of rows x; what takes one element of each row goes row by row, beside it."""
        for node, v in self.readers[id(x.buf)]:
            flat = node.op == "gather" and node.ins[0] is v and v.shape == (x.size,) and v.whole()
            if flat and id(node) not in self.instead and (pick := self.pick(node, x.shape)) is not None:
                labels = _viewed(pick.labels.buf, (x.shape[0], 1, 1))
                self.instead[id(node)] = [_kernel("gather", [x, labels], [_viewed(node.outs[0].buf, (x.shape[0], 1))], ALONG_ROWS)]
        last, scales, pick = scaled
        new = self.instead[id(last)] = []
        operands = [x, shift, self.dense(scales, new)]
        if pick is not None:
            operands += [self.dense(self._clamped(pick, new), new), self.dense(pick.addends, new)]
        new.append(_kernel("exp_cotangent", operands, [_viewed(last.outs[0].buf, x.shape)]))


def _fuses(node):
    return node.kind in ("ew", "reduce") or node.op in ("log_softmax_cotangent", "softmax_tangent")


def _is_ew(node, op):
    return node.kind == "ew" and node.op == op


def _is_matrix(x):
    return x.buf is not None and x.whole() and len(x.shape) > 1 and x.shape[-1] >= LEAST and x.size > 0 and x.dtype in FLOATS


def _has_rows(softmax, x):
    return softmax.ip == (len(x.shape) - 1,) and _is_matrix(x)


def _is_clamped(v, n):
    """Whether a value is known to be in [0, n)."""
    node = v.buf.node if v.buf is not None else None
    if node is None or not _is_ew(node, "clamp"):
        return False
    low, _, high = node.ins
    return low.scalar is not None and high.scalar is not None and low.scalar >= 0 and high.scalar < n


def _row(v, shape):
    """A value of `shape` that is the same along the last axis, as one of (rows,); None for any other."""
    rows = math.prod(shape[:-1])
    if v.scalar is not None:
        return _number(v.scalar, (rows,), v.dtype)
    if v.box is not None or v.shape != shape or v.strides[-1] or shape[-1] < 2:
        return None
    strides = view_reshape(shape[:-1], v.strides[:-1], (rows,))
    return None if strides is None else Value(v.buf, (rows,), strides, v.offset, v.dtype, None, v.tag)


def _is_spread(v, shape):
    """Whether a value is all of a buffer with an element for each row."""
    row = _row(v, shape)
    return row is not None and row.buf is not None and row.whole()


def _spread(row, shape):
    """A value (rows,) as one of `shape`."""
    strides = view_reshape(row.shape, row.strides, shape[:-1])
    return Value(row.buf, shape, (*strides, 0), row.offset, row.dtype, row.scalar, row.tag)


def _same(a, b):
    return a.buf is not None and a.buf is b.buf and a.whole() and b.whole()


def _identity(v):
    return id(v.buf), v.strides, v.offset, v.tag


def _matrix(x):
    return _viewed(x.buf, (math.prod(x.shape[:-1]), x.shape[-1]))


def _viewed(buf, shape):
    return Value(buf, shape, row_major(shape), 0, buf.dtype)


def _fresh(shape, dtype):
    return _viewed(Buf("temp", dtype, math.prod(shape)), shape)


def _number(x, shape, dtype):
    return Value(None, shape, (0,) * len(shape), 0, dtype, dtype.type(x))


def _kernel(op, ins, outs, ip=()):
    node = Node("kernel", op, ins, outs, None, ip)
    for v in outs:
        v.buf.node = node
    return node


def _ew(op, ins, out, dtype=None):
    """An elementwise node; dtype: of the operands, where the result has another."""
    node = Node("ew", op, ins, [out], out.shape, type_code=CODES[compute_dtype(dtype or out.dtype)])
    out.buf.node = node
    return node
