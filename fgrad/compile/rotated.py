"""Rotary embeddings that are written out run as the rope kernel: x * cos + concatenate([-x2, x1]) * sin, what its gradient makes of that
(g * cos + concatenate([(g * sin)2, -(g * sin)1])), and concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin]) with its gradient.

As elementwise operations they go over half rows, of which a walk has many: the kernel is a pass over whole rows.
"""

from fgrad import dtypes
from fgrad.compile.values import Node, Value

LEAST = 1024  # elements: of fewer, a loop's flat code has the operations inline
DTYPES = (dtypes.FLOAT32, dtypes.FLOAT64)


def rotate(nodes, outs):
    """The nodes that compute `outs`; some are for live_nodes to leave out."""
    joins = [n for n in nodes if n.op == "concatenate" and _halves(n)]
    if not joins:
        return nodes
    turned = {}  # node -> what comes in its place
    for join in joins:
        if found := _of_parts(join):
            turned[join] = _kernel(join.outs[0], *found, wide=False)
    spread = {n.outs[0].buf for n in joins if n not in turned}
    for n in nodes if spread else ():
        if n.op == "add" and n.kind == "ew" and n.outs[0].whole() and len(n.shape) and n.outs[0].shape == n.shape:
            for a, b in (n.ins, n.ins[::-1]):
                if n not in turned and (found := _forward(a, b, spread) or _backward(a, b, spread)):
                    turned[n] = _kernel(n.outs[0], *found, wide=True)
    return [turned.get(n, n) for n in nodes] if turned else nodes


def _kernel(out, x, cos, sin, inverse, wide):
    out.buf.node = Node("kernel", "rope", [x, cos, sin], [out], None, (False, inverse, wide))
    return out.buf.node


def _halves(join):
    out = join.outs[0]
    return len(join.ins) == 2 and out.dtype in DTYPES and out.size >= LEAST and out.whole() and _last_halves(join, out.shape)


def _last_halves(join, shape):
    return join.ip == (len(shape) - 1,) and join.ins[0].shape == join.ins[1].shape


def _made(v, op):
    """The elementwise operation that makes all of v, if it is this one."""
    node = v.buf.node if v.buf is not None and v.buf.kind == "temp" else None
    return node if node is not None and node.kind == "ew" and node.op == op and v.whole() and not v.tag and node.shape == v.shape else None


def _plain(v):
    """True for rows that lie in memory as they are read: of turned ones the kernel would take element after element."""
    return v.buf is not None and v.box is None and not v.tag and v.strides[-1] == 1


def _half(v, k):
    """The key of half k of the rows of v."""
    n = v.shape[-1] // 2
    return Value(v.buf, (*v.shape[:-1], n), v.strides, v.offset + k * n * v.strides[-1], v.dtype, None, v.tag).key()


def _products(v):
    """(array, factor) in both orders where v is their product."""
    node = _made(v, "mul")
    return [p for p in (node.ins, node.ins[::-1]) if _plain(p[0]) and _plain(p[1])] if node is not None else []


def _join(v, spread):
    """The concatenation of halves that all of v is."""
    return v.buf.node if v.buf in spread and v.whole() and not v.tag and v.shape == v.buf.node.outs[0].shape else None


def _negated(v):
    node = _made(v, "neg")
    return node.ins[0].key() if node is not None else None


def _forward(a, b, spread):
    """x * cos + concatenate([-x2, x1]) * sin."""
    for turned, sin in _products(b):
        join = _join(turned, spread)
        if join is not None:
            for x, cos in _products(a):
                if _negated(join.ins[0]) == _half(x, 1) and join.ins[1].key() == _half(x, 0):
                    return x, cos, sin, False
    return None


def _backward(a, b, spread):
    """g * cos + concatenate([m2, -m1]) with m = g * sin."""
    join = _join(b, spread)
    if join is None or (m := join.ins[0].buf) is None or m.kind != "temp" or m.node is None or m.node.outs[0].shape != b.shape:
        return None
    whole = m.node.outs[0]
    if join.ins[0].key() != _half(whole, 1) or _negated(join.ins[1]) != _half(whole, 0):
        return None
    for g, sin in _products(whole):
        for x, cos in _products(a):
            if x.key() == g.key():
                return x, cos, sin, True
    return None


def _signed(v, sign):
    """(sign, array, factor) of a product, in both orders; either may be negated."""
    if (node := _made(v, "neg")) is not None:
        return _signed(node.ins[0], -sign)
    if (node := _made(v, "mul")) is None:
        return []
    found = []
    for a, b in (node.ins, node.ins[::-1]):
        if _plain(a) and _plain(b):
            found.append((sign, a, b))
            if (minus := _made(a, "neg")) is not None and _plain(minus.ins[0]):
                found.append((-sign, minus.ins[0], b))
    return found


def _terms(v):
    """The two products of a sum or difference, in both orders: ([(sign, array, factor)], the same)."""
    for op, sign in (("add", 1), ("sub", -1)):
        if (node := _made(v, op)) is not None:
            first, second = _signed(node.ins[0], 1), _signed(node.ins[1], sign)
            return [(first, second), (second, first)] if first and second else []
    return []


def _of_parts(join):
    """concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin]), or with the signs of its inverse."""
    for cosines, sines in _terms(join.ins[0]):
        for one, x1, cos in cosines:
            for minus, x2, sin in sines:
                step = x1.shape[-1] * x1.strides[-1]
                if one < 0 or x1.buf is not x2.buf or x1.strides != x2.strides or x2.offset != x1.offset + step:
                    continue
                wanted = ((1, x2.key(), cos.key()), (-minus, x1.key(), sin.key()))
                for others in _terms(join.ins[1]):
                    if all(any((s, a.key(), b.key()) == w for s, a, b in found) for w, found in zip(wanted, others)):
                        x = Value(x1.buf, join.outs[0].shape, x1.strides, x1.offset, x1.dtype)
                        return x, cos, sin, minus > 0
    return None
