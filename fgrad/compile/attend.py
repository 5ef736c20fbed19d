"""Attention written out becomes the kernels of attention, which store no matrix of scores.

softmax(mask(scale * q k^T + bias)) v, and what its reverse mode makes of it, is found among the nodes by the softmax in its midst. The mask
is a causal one, stored or computed (see diagonal.py), as a selection or as what is added. Any other is a bias; where it is a selection,
that goes without a gradient only, which rows that see nothing would spoil.
"""

import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad.compile.fuse import live_nodes
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, row_major, view_reshape
from fgrad.core.array import CODES

LEAST = 1 << 12  # scores of a head from which the kernels of attention, which leave out what a causal mask hides, are faster
LEAST_WHOLE = 1 << 18  # the same where all are seen: what counts there is the memory for the scores
LEAST_OF_ALL, LEAST_OF_EACH = 1 << 21, 1 << 14  # or scores of all heads, which leave the caches (8 MB), and of each then
HIDDEN = -1e8  # a logit from here on has no weight


class Product(NamedTuple):
    """A product of the matrices (n, m, s) of a softmax with others. over: the axis that is summed, "m" or "s".

    other: (n, summed, features), out: (n, kept, features), both maybe turned views; turned: memory has the features before the kept axis.
    """

    node: Node
    over: str
    other: Value
    out: Value
    turned: bool


class Bias(NamedTuple):
    """What is added to logits: `value` ("add"), its negative ("sub"), or `hidden` where it is False, True with `turned` ("select")."""

    op: str
    value: Value
    dtype: np.dtype
    hidden: float = 0.0
    turned: bool = False


def attend(nodes, outs, constants):
    """nodes, with attention that is written out replaced."""
    program = _Program(nodes, outs, constants)
    for node in nodes:
        if node.op == "softmax" and node.kind == "kernel":
            found = _forward(program, node)
            if found is not None:
                program.replace(found)
    if not program.gone:
        return nodes
    return live_nodes([m for i, n in enumerate(nodes) for m in (*program.before[i], n) if id(m) not in program.gone], outs)


class _Program:
    def __init__(self, nodes, outs, constants):
        self.place = {id(n): i for i, n in enumerate(nodes)}
        self.readers = defaultdict(list)
        for n in nodes:
            for v in n.ins:
                if v.buf is not None:
                    self.readers[id(v.buf)].append((n, v))
        self.kept = {id(v.buf) for v in outs}
        self.constants = constants
        self.before, self.gone = defaultdict(list), set()  # by place: nodes to come before; ids of nodes that others replace

    def only_readers(self, buf):
        """The (node, operand) that read a buffer which is no result, else none."""
        return [] if id(buf) in self.kept else self.readers[id(buf)]

    def ready(self, v):
        """The place from which on a value can be read."""
        node = v.buf.node
        return -1 if node is None else self.place.get(id(node), len(self.place))

    def replace(self, found):
        """The kernels of attention in place of what was found."""
        batch, heads, groups = found.heads
        t, s = found.sizes
        queries, keys = (batch, heads * groups, t), (batch, heads, s)
        at = self.place[id(found.pv.node)] if found.pv else found.back_at
        new = self.before[at]
        q, k, v = (_operand(x, shape, new) for x, shape in ((found.q, queries), (found.k, keys), (found.v, keys)))
        bias = [] if found.bias is None else [_bias_operand(found.bias, (*queries, s), new)]
        if found.pv and not found.pv.turned:
            o = _viewed(found.pv.out.buf, (*queries, v.shape[3]))
        else:
            o = _fresh((*queries, v.shape[3]), q.dtype)
        lse = _fresh(queries, q.dtype)
        ip, fp = (found.causal, len(bias), 0, 0), (found.scale, 0.0)
        new.append(_node("attention_fwd", [q, k, v, *bias], [o, lse], ip, fp))
        if found.pv:
            self._hand_over(found.pv, o, new)
        self.place.update((id(n), at - 1) for n in new)
        if found.do is None:
            return
        new = self.before[found.back_at]
        do = _operand(found.do, queries, new)
        given = []
        for product, x in ((found.dq, q), (found.dk, k), (found.dv, v)):
            straight = product is not None and not product.turned
            given.append(_viewed(product.out.buf, x.shape) if straight else _fresh(x.shape, x.dtype))
        new.append(_node("attention_bwd", [q, k, v, o, lse, do, *bias], given, (*ip, 0, 0), fp))
        for product, x in zip((found.dq, found.dk, found.dv), given):
            if product is not None:
                self._hand_over(product, x, new)
        self.place.update((id(n), found.back_at - 1) for n in new)

    def _hand_over(self, product, x, new):
        """x, the elements (n, kept, features) of a product, to its readers; the product's node goes."""
        self.gone.add(id(product.node))
        if not product.turned:
            return
        old = product.out.buf
        n, kept, features = product.out.shape
        readers = self.only_readers(old)
        views = [_turned(v, x.buf, kept, features) for _, v in readers]
        if readers and None not in views and all(reader.kind in ("ew", "reduce") or reader.op == "copy" for reader, _ in readers):
            for (reader, v), view in zip(readers, views):
                reader.ins = [view if operand is v else operand for operand in reader.ins]
            return
        turned = Value(x.buf, (n, features, kept), (kept * features, 1, features), 0, x.dtype)
        new.append(_node("copy", [turned], [_viewed(old, turned.shape)]))


class _Found(NamedTuple):
    """Operands (n, positions, features), of which n = batch * heads and the queries' positions are m = groups * t; products of the softmax;
    back_at: the place where all that the backward kernel takes is at hand."""

    q: Value
    k: Value
    v: Value
    bias: Bias | None
    causal: bool
    scale: float
    pv: Product | None
    heads: tuple  # (batch, heads of keys, groups of queries for each)
    sizes: tuple  # (t, s)
    do: Value | None = None
    dq: Product | None = None
    dk: Product | None = None
    dv: Product | None = None
    back_at: int = 0


# --- finding ----------------------------------------------------------------------------------------------------------


def _forward(program, softmax):
    """What stands around a softmax, if it is attention."""
    p = softmax.outs[0]
    shape = p.shape
    if len(shape) < 2 or softmax.ip != (len(shape) - 1,) or p.dtype not in (dtypes.FLOAT32, dtypes.FLOAT64) or id(p.buf) in program.kept:
        return None
    t, s = sizes = shape[-2:]
    if t * s < LEAST or min(t, s) < 2:
        return None
    logits = _logits(program, softmax.ins[0], t, s)
    if logits is None:
        return None
    q3, k3, scale, causal, selected, bias = logits
    if not causal and t * s < LEAST_WHOLE and (p.size < LEAST_OF_ALL or t * s < LEAST_OF_EACH):
        return None
    m = q3.shape[1]
    batch, heads = _lead(_original(k3, s), k3.shape[0])
    heads = batch, heads, m // t
    if bias is not None and _spread(bias.value, (batch, heads[1] * heads[2], t, s)) is None:
        return None
    products, tangents = {}, []
    for node, v in program.readers[id(p.buf)]:
        product = _product(node, v, m, s)
        if product is not None and product.over not in products:
            products[product.over] = product
        elif node.op == "softmax_tangent" and node.ins[0] is v and v.whole() and node.ip == softmax.ip and not tangents:
            tangents.append(node)
        else:
            return None
    pv, dv = products.get("s"), products.get("m")
    if not tangents:
        return None if dv or not pv else _Found(q3, k3, pv.other, bias, causal, scale, pv, heads, sizes)
    if bias is not None and bias.op == "select":
        return None
    return _backward(program, tangents[0], _Found(q3, k3, None, bias, causal, scale, pv, heads, sizes, dv=dv), selected)


def _logits(program, x, t, s):
    """(q, k, scale, whether causal, whether by a selection, bias or None) that a softmax of x stands for, or None."""
    scale, causal, selected, bias = 1.0, False, False, None
    known = program.constants
    while True:
        if x.buf is None or not x.whole() or x.shape[-2:] != (t, s) or x.buf.node is None or len(program.only_readers(x.buf)) != 1:
            return None
        node = x.buf.node
        if node.kind == "kernel" and node.op == "dot" and not node.ip:
            q, k = node.ins
            same = q.dtype == k.dtype == x.dtype and len(q.shape) == 3 and q.shape[1] % t == 0 and node.outs[0].shape[2] == s
            return (q, _swapped(k), scale, causal, selected, bias) if same else None
        if node.kind != "ew" or node.shape[-2:] != (t, s):
            return None
        if node.op == "mul":
            factor, x = _times(known, node)
            if factor is None:
                return None
            scale *= factor
        elif node.op == "select" and not causal:
            where, *cases = node.ins
            hidden = [v.scalar is not None and float(v.scalar) * scale <= HIDDEN for v in cases]
            if hidden.count(True) != 1:
                return None
            below = cases[hidden.index(True)].scalar
            if _is_causal(known.split(where), t, s, seen=hidden[1]):
                causal = selected = True
            elif bias is None and scale == 1 and where.buf is not None and math.isfinite(below):
                bias = Bias("select", where, x.dtype, float(below), hidden[0])
            else:
                return None
            x = cases[hidden.index(False)]
        elif node.op in ("add", "sub") and bias is None:
            first, second = node.ins
            x, more = (first, second) if node.op == "sub" or _leads_to_product(first, node.shape) else (second, first)
            split = known.split(more)
            sign = 1 if node.op == "add" else -1
            if split is not None and not causal and split.diagonal == s - t >= 0 == split.below and sign * split.above * scale <= HIDDEN:
                causal = True
            elif scale == 1 and more.buf is not None:
                bias = Bias(node.op, more, x.dtype)
            else:
                return None
        else:
            return None


def _leads_to_product(v, shape):
    """Whether a value is a product of matrices, or a product of it with something."""
    node = v.buf.node if v.buf is not None and v.whole() and v.shape == shape else None
    return node is not None and (node.op == "dot" or node.op in ("mul", "select", "add"))


def _times(known, node):
    """(a number, the other operand) of an elementwise product, (None, None) where neither is a number."""
    for a, b in (node.ins, node.ins[::-1]):
        if (number := known.number(b)) is not None and a.buf is not None and math.isfinite(number):
            return number, a
    return None, None


def _is_causal(split, t, s, seen):
    """Whether a mask is True, or with seen=False False, where a query sees a key, and the other elsewhere."""
    return split is not None and split.diagonal == s - t and s >= t and bool(split.below) == seen and bool(split.above) != seen


def _product(node, v, m, s):
    """The Product of v, which is all of a value (n, m, s), with something; else None."""
    if node.kind != "kernel" or node.op != "dot" or node.ip or len(v.shape) != 3 or v.offset or v.size != v.buf.size:
        return None
    if (node.ins[0].buf is v.buf) == (node.ins[1].buf is v.buf) or {x.dtype for x in (*node.ins, *node.outs)} != {v.dtype}:
        return None
    straight = v.shape[1:] == (m, s) and v.whole()
    if not straight and (v.shape[1:] != (s, m) or not _lies(v, (m * s, 1, s))):
        return None
    left = node.ins[0] is v
    over = "s" if left == straight else "m"
    if left:
        return Product(node, over, node.ins[1], node.outs[0], False)
    return Product(node, over, _swapped(node.ins[0]), _swapped(node.outs[0]), True)


def _backward(program, tangent, found, selected):
    """found, with what the softmax's cotangent is made of and what becomes of it; None where that is something else."""
    known = program.constants
    t, s = found.sizes
    m = found.q.shape[1]
    dp = tangent.ins[1]
    node = dp.buf.node if dp.buf is not None and dp.whole() else None
    if node is None or node.op != "dot" or node.ip or node.outs[0].shape[1:] != (m, s) or len(program.only_readers(dp.buf)) != 1:
        return None
    if {x.dtype for x in (*node.ins, *node.outs)} != {found.q.dtype}:
        return None
    do, v = node.ins[0], _swapped(node.ins[1])
    scale, masked, x, ends = 1.0, False, tangent.outs[0], {}
    while not ends:
        readers = program.only_readers(x.buf)
        if not readers:
            return None
        reader, operand = readers[0]
        if len(readers) == 1 and reader.kind == "ew":
            if not operand.whole() or reader.shape[-2:] != (t, s):
                return None
            if reader.op == "mul":
                factor, given = _times(known, reader)
                if factor is None or given.buf is not x.buf:
                    return None
                scale *= factor
            elif reader.op == "select" and selected and not masked:
                where, *cases = reader.ins
                zero = [v.scalar is not None and v.scalar == 0 for v in cases]
                if zero.count(True) != 1 or not _is_causal(known.split(where), t, s, seen=zero[1]):
                    return None
                masked = True
            else:
                return None
            x = reader.outs[0]
            continue
        for reader, operand in readers:
            product = _product(reader, operand, m, s)
            if product is None or product.over in ends:
                return None
            ends[product.over] = product
    dq, dk = ends.get("s"), ends.get("m")
    if masked != selected or not math.isclose(scale, found.scale, rel_tol=1e-6):
        return None
    pv, dv = found.pv, found.dv
    pairs = [(v, pv and pv.other, s), (do, dv and dv.other, t), (found.k, dq and dq.other, s), (found.q, dk and dk.other, t)]
    if any(b is not None and _source(a, size) != _source(b, size) for a, b, size in pairs):
        return None
    if dv and program.place[id(dv.node)] < program.place[id(node)]:
        do = dv.other  # the same numbers, at hand where the first of the products is
    firsts = [node, *[p.node for p in (found.dv, dq, dk) if p]]
    back_at = min(program.place[id(n)] for n in firsts)
    queries, keys = (found.heads[0], found.heads[1] * found.heads[2], t), (*found.heads[:2], s)
    operands = ((found.q, queries), (found.k, keys), (v, keys), (do, queries))
    needed = [_readable(x, at) or x for x, at in operands] + ([] if found.bias is None else [found.bias.value])
    if any(program.ready(x) >= back_at for x in needed) or found.pv and program.place[id(found.pv.node)] >= back_at:
        return None
    return found._replace(v=v, do=do, dq=dq, dk=dk, back_at=back_at)


# --- values -----------------------------------------------------------------------------------------------------------


def _node(op, ins, outs, ip=(), fp=()):
    node = Node("kernel", op, ins, outs, None, tuple(map(int, ip)), tuple(map(float, fp)))
    for v in outs:
        v.buf.node = node
    return node


def _fresh(shape, dtype):
    return _viewed(Buf("temp", dtype, math.prod(shape)), shape)


def _viewed(buf, shape):
    return Value(buf, shape, row_major(shape), 0, buf.dtype)


def _swapped(v):
    """v with its last two axes in the other order."""
    order = (*range(len(v.shape) - 2), len(v.shape) - 1, len(v.shape) - 2)
    return Value(v.buf, tuple(v.shape[i] for i in order), tuple(v.strides[i] for i in order), v.offset, v.dtype, v.scalar, v.tag, v.box)


def _lies(v, strides):
    """Whether a value has these strides, but for axes of one element."""
    return all(n == 1 or a == b for n, a, b in zip(v.shape, v.strides, strides))


def _original(v, size):
    """What a value (n, positions, features) was copied from, (..., size, features), where it is a whole copy; else itself."""
    node = v.buf.node
    n, rows, columns = v.shape
    if node is None or node.op != "copy" or not node.outs[0].whole() or v.offset or v.size != v.buf.size:
        return v
    x = node.ins[0]
    if _lies(v, (rows * columns, 1, rows)) and not _lies(v, row_major(v.shape)):  # features come before positions
        at = next((i for i, f in enumerate(x.shape) if f == columns and math.prod(x.shape[:i]) == n), None)
        if at is None:
            return v
        order = (*range(at), *range(at + 1, len(x.shape)), at)
        x = Value(x.buf, tuple(x.shape[i] for i in order), tuple(x.strides[i] for i in order), x.offset, x.dtype, None, x.tag, x.box)
    elif not _lies(v, row_major(v.shape)):
        return v
    return x if x.box is None and x.shape[-2:] == (size, columns) and x.size == v.size and x.dtype == v.dtype else v


def _source(v, size):
    """What two equal operands share."""
    x = _original(v, size)
    lead = []
    for n, s in zip(x.shape[:-2], x.strides[:-2]):
        if lead and lead[-1][1] == s * n:
            lead[-1] = lead[-1][0] * n, s
        elif n != 1:
            lead.append((n, s))
    return id(x.buf), x.offset, x.dtype, x.tag, v.shape, lead, x.strides[-2:]


def _lead(x, n):
    """(batch, heads), whose product is n, of keys (..., positions, features)."""
    lead = [size for size in x.shape[:-2] if size != 1]
    return tuple(lead) if len(lead) == 2 else (n, 1)


def _operand(v, shape, new):
    """v (n, positions, features) as (batch, heads, positions, features) with features beside each other: what was copied is read itself."""
    x = _readable(v, shape)
    if x is None:
        out = _fresh(v.shape, v.dtype)
        new.append(_node("copy", [v], [out]))
        x = _viewed(out.buf, (*shape, v.shape[2]))
    return x


def _readable(v, shape):
    """v (n, positions, features) as the kernels of attention read it, (*shape, features), or None where that takes a copy."""
    shape = (*shape, v.shape[2])
    for x in (_original(v, shape[2]), v):
        strides = view_reshape(x.shape, x.strides, shape)
        if strides is not None and x.box is None and (strides[3] == 1 or shape[3] == 1):
            return Value(x.buf, shape, strides, x.offset, x.dtype, None, x.tag)
    return None


def _spread(v, full):
    """What is combined with logits (..., t, s), as (batch, heads, t, s) with 1 where it repeats; None where that takes a copy."""
    strides = view_reshape(v.shape, v.strides, full)
    if strides is None or v.box is not None:
        return None
    return Value(v.buf, tuple(n if s else 1 for n, s in zip(full, strides)), strides, v.offset, v.dtype, None, v.tag)


def _bias_operand(bias, full, new):
    """A Bias as an operand of the kernels; new: where to put a node that makes it."""
    v = _spread(bias.value, full)
    if bias.op == "add":
        return v
    ins, dtype = [v], bias.dtype
    if bias.op == "select":
        cases = [_number(x, v.shape, dtype) for x in (0.0, bias.hidden)]
        ins += cases[::-1] if bias.turned else cases
    out = _fresh(v.shape, dtype)
    node = Node("ew", "neg" if bias.op == "sub" else "select", ins, [out], v.shape, type_code=CODES[compute_dtype(dtype)])
    out.buf.node = node
    new.append(node)
    return out


def _number(x, shape, dtype):
    return Value(None, shape, (0,) * len(shape), 0, dtype, dtype.type(x))


def _turned(v, buf, kept, features):
    """A view of memory (n, features, kept) as one of the same elements in memory (n, kept, features), or None."""
    page = kept * features
    strides = []
    for n, s in zip(v.shape, v.strides):
        if n == 1 or not s or s % page == 0:
            strides.append(s)
        elif s % kept == 0 and (n - 1) * s < page:
            strides.append(s // kept)
        elif 0 < s < kept and (n - 1) * s < kept:
            strides.append(s * features)
        else:
            return None
    page_at, (row, column) = v.offset - v.offset % page, divmod(v.offset % page, kept)
    return Value(buf, v.shape, tuple(strides), page_at + column * features + row, v.dtype, None, v.tag, v.box)
