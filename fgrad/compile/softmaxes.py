"""A softmax written out, e / sum(e) with e = exp(x - max(x)), or its logarithm becomes a kernel, and its cotangent another.

The maximum's own share of the cotangent, a sum of what adds up to 0, goes with it.
"""

from collections import defaultdict
from typing import NamedTuple

from fgrad.compile.fuse import live_nodes
from fgrad.compile.values import Node, Value


class _Softmax(NamedTuple):
    """op: "softmax" or "log_softmax" of x along an axis; z = x - top, e = exp(z) and total are values, last is the node of the result."""

    op: str
    x: Value
    top: Value
    z: Value
    e: Value
    total: Value
    axis: int
    last: Node


def join_softmaxes(nodes, outs, least):
    """nodes, with softmaxes of `least` or more elements along one axis that are written out replaced by kernels."""
    found = [f for n in nodes if n.op in _RESULTS and n.kind == "ew" and (f := _RESULTS[n.op](n)) is not None and f.x.size >= least]
    if not found:
        return nodes
    readers = defaultdict(list)
    for n in nodes:
        for v in n.ins:
            if v.buf is not None:
                readers[id(v.buf)].append(n)
    kept = {id(v.buf) for v in outs}
    instead = {}  # by id of a node: the node in its place
    for softmax in found:
        instead.update(_replaced(softmax, readers, kept))
    if not instead:
        return nodes
    for n in instead.values():
        n.outs[0].buf.node = n
    return live_nodes([instead.get(id(n), n) for n in nodes], outs)


def _made_by(v, op, kind="ew"):
    """The node that computes all of v, if it is `op`; else None."""
    node = v.buf.node if v.buf is not None and v.whole() else None
    return node if node is not None and node.kind == kind and node.op == op and node.outs[0].shape == v.shape else None


def _row_value(v, op):
    """(what is reduced, axis) where v is the reduction `op` of a value of its shape along one axis, spread over it; else None."""
    node = v.buf.node if v.buf is not None else None
    if node is None or node.kind != "reduce" or node.op != op or len(node.axes) != 1 or v.offset or node.shape != v.shape:
        return None
    axis = node.axes[0]
    row = node.outs[0]
    spread = row.whole() and v.strides == (*row.strides[:axis], 0, *row.strides[axis:]) and v.shape[axis] > 1
    return (node.ins[0], axis) if spread and node.ins[0].buf is not None and node.ins[0].whole() else None


def _same(a, b):
    return a.buf is not None and a.buf is b.buf and a.whole() and b.whole()


def _shifted(exp):
    """(x, max(x), axis of the maximum) where exp is the node of exp(x - max(x)), else None."""
    sub = _made_by(exp.ins[0], "sub") if exp is not None else None
    largest = _row_value(sub.ins[1], "max") if sub is not None else None
    return (*sub.ins, largest[1]) if largest is not None and _same(largest[0], sub.ins[0]) else None


def _quotient(node):
    """The softmax whose quotient a node is, or None."""
    e, total = node.ins
    exp = _made_by(e, "exp") if node.outs[0].dtype.kind == "f" and node.outs[0].dtype.itemsize >= 4 else None
    summed = _row_value(total, "sum") if exp is not None else None
    shifted = _shifted(exp) if summed is not None and _same(summed[0], e) else None
    if shifted is None or shifted[2] != summed[1]:
        return None
    return _Softmax("softmax", *shifted[:2], exp.ins[0], e, total, summed[1], node)


def _difference(node):
    """The logarithm of a softmax whose last difference a node is, or None."""
    z, logs = node.ins
    log = logs.buf.node if logs.buf is not None and node.outs[0].dtype.kind == "f" and node.outs[0].dtype.itemsize >= 4 else None
    if log is None or not _is_ew(log, "log") or not log.outs[0].whole() or not log.ins[0].whole():
        return None
    summed = log.ins[0].buf.node
    if summed is None or summed.kind != "reduce" or summed.op != "sum" or summed.shape != node.shape:
        return None
    total = Value(summed.outs[0].buf, logs.shape, logs.strides, logs.offset, logs.dtype)
    row, e = _row_value(total, "sum"), summed.ins[0]
    exp = _made_by(e, "exp")
    shifted = _shifted(exp) if row is not None else None
    if shifted is None or shifted[2] != row[1] or not _same(exp.ins[0], z):
        return None
    return _Softmax("log_softmax", *shifted[:2], z, e, total, row[1], node)


_RESULTS = {"div": _quotient, "sub": _difference}


def _replaced(found, readers, kept):
    """{id of a node: the kernel in its place}: none where anything else needs what the kernels do not compute."""
    result = found.last.outs[0]
    kernels = {id(found.last): Node("kernel", found.op, [found.x], [result], None, (found.axis,))}
    total = found.total.buf
    known = {id(found.last), id(total.node), id(found.e.buf.node)}
    if found.op == "softmax":
        divided = _reader(readers, found.total, lambda n: _is_ew(n, "div") and _is_one(n.ins[0]) and n.ins[1].buf is total)
        cotangent = divided and _cotangent(found, divided, readers, known)
    else:
        known.update(id(n) for n in readers[id(total)] if _is_ew(n, "log"))
        divided = _reader(readers, found.total, lambda n: _is_ew(n, "div") and n.ins[1].buf is total)
        cotangent = divided and _log_cotangent(found, divided, readers, known)
    if divided is not None:
        if cotangent is None:
            return {}
        ct, ds = cotangent
        whole = _with_maximum(found, ds, readers) or ds
        name = "softmax_tangent" if found.op == "softmax" else "log_softmax_cotangent"
        kernels[id(whole)] = Node("kernel", name, [result, ct], [whole.outs[0]], None, (found.axis,))
    used = (found.e, found.total) if found.op == "softmax" else (found.z, found.e, found.total)
    if any(id(v.buf) in kept or any(id(n) not in known for n in readers[id(v.buf)]) for v in used):
        return {}
    return kernels


def _log_cotangent(found, divided, readers, known):
    """(ct, the node of ct + e * (sum(-ct) / z)), or None; known: nodes that only this needs are added."""
    summed = divided.ins[0].buf.node if divided.ins[0].buf is not None and divided.ins[0].whole() else None
    if (
        summed is None
        or summed.kind != "reduce"
        or summed.op != "sum"
        or tuple(summed.axes) != (found.axis,)
        or summed.shape != found.last.shape
    ):
        return None
    product = _reader(readers, divided.outs[0], lambda n: _same_or_none(_times(n, divided.outs[0]), found.e))
    ds = _reader(readers, product.outs[0], lambda n: _is_ew(n, "add")) if product is not None else None
    if ds is None or any(len(readers[id(n.outs[0].buf)]) != 1 for n in (divided, product)):
        return None
    ct = ds.ins[1] if ds.ins[0].buf is product.outs[0].buf else ds.ins[0]
    negative = summed.ins[0]
    if ct.buf is None or not ct.whole() or ct.shape != found.last.shape or not (_negates(negative, ct) or _negates(ct, negative)):
        return None
    known.update((id(product), id(divided)))
    return ct, ds


def _negates(a, b):
    """Whether a is known to be -b."""
    node = _made_by(a, "neg")
    if node is not None:
        return _same(node.ins[0], b)
    one, other = _made_by(a, "select"), _made_by(b, "select")
    if one is None or other is None or one.ins[0].key() != other.ins[0].key():
        return False
    return all(u.scalar is not None and v.scalar is not None and u.scalar == -v.scalar for u, v in zip(one.ins[1:], other.ins[1:]))


def _is_ew(node, op):
    return node.kind == "ew" and node.op == op


def _is_one(v):
    return v.scalar is not None and v.scalar == 1


def _reader(readers, v, wanted):
    """The only node that reads v and is `wanted`, or None."""
    found = [n for n in readers[id(v.buf)] if wanted(n)]
    return found[0] if len(found) == 1 else None


def _times(node, operand):
    """The other operand where a node is a product with all of `operand`, whatever its shape; else None."""
    if not _is_ew(node, "mul"):
        return None
    a, b = node.ins
    if a.buf is operand.buf:
        return b
    return a if b.buf is operand.buf else None


def _cotangent(found, inverse, readers, known):
    """(dp, the node of e * (dp / z - sum(dp * e / z / z))), or None; known: nodes that only this needs are added."""
    r = inverse.outs[0]
    once = _reader(readers, r, lambda n: _is_ew(n, "mul") and _same_or_none(_times(n, r), found.e))
    if once is None:
        return None
    twice = _reader(readers, once.outs[0], lambda n: _is_ew(n, "mul") and _spread_of(_times(n, once.outs[0]), r))
    if twice is None or len(readers[id(once.outs[0].buf)]) != 1 or len(readers[id(twice.outs[0].buf)]) != 1:
        return None
    weighted = readers[id(twice.outs[0].buf)][0]
    dp = _times(weighted, twice.outs[0])
    if dp is None or dp.buf is None or not dp.whole():
        return None
    scaled = _reader(readers, r, lambda n: n is not twice and n is not once and _same_or_none(_times(n, r), dp))
    part = weighted.outs[0]
    (negative,) = readers[id(part.buf)] if len(readers[id(part.buf)]) == 1 else (None,)
    if scaled is None or negative is None:
        return None
    if _is_ew(negative, "neg"):
        (total,) = readers[id(negative.outs[0].buf)] if len(readers[id(negative.outs[0].buf)]) == 1 else (None,)
        op = "add"
    else:
        total, op = negative, "sub"
    if total is None or total.kind != "reduce" or total.op != "sum" or tuple(total.axes) != (found.axis,):
        return None
    (rest,) = readers[id(total.outs[0].buf)] if len(readers[id(total.outs[0].buf)]) == 1 else (None,)
    if rest is None or not _is_ew(rest, op) or len(readers[id(scaled.outs[0].buf)]) != 1:
        return None
    a, b = rest.ins
    if op == "add" and b.buf is scaled.outs[0].buf:
        a, b = b, a
    if not _same(a, scaled.outs[0]) or _row_value(b, "sum") is None or b.buf is not total.outs[0].buf:
        return None
    ds = _reader(readers, rest.outs[0], lambda n: _same_or_none(_times(n, rest.outs[0]), found.e))
    if ds is None or len(readers[id(rest.outs[0].buf)]) != 1:
        return None
    mine = {id(n) for n in (once, twice, weighted, scaled, negative, total, rest, ds)}
    if any(id(n) not in mine for n in readers[id(r.buf)]):
        return None
    known.update(mine, {id(inverse)})
    return dp, ds


def _same_or_none(v, other):
    return v is not None and _same(v, other)


def _spread_of(v, r):
    """Whether v is r, or r spread."""
    return v is not None and v.buf is r.buf


def _with_maximum(found, ds, readers):
    """The node that adds the maximum's share to ds, where there is one."""
    if found.top.buf is None or len(readers[id(ds.outs[0].buf)]) != 2:
        return None
    negative = _reader(readers, ds.outs[0], lambda n: _is_ew(n, "neg"))
    both = _reader(readers, ds.outs[0], lambda n: _is_ew(n, "add"))
    if negative is None or both is None:
        return None
    share = both.ins[1] if both.ins[0].buf is ds.outs[0].buf else both.ins[0]
    product = _made_by(share, "mul")
    if product is None:
        return None
    for a, b in (product.ins, product.ins[::-1]):
        mask, quotient = _made_by(a, "select"), b.buf.node if b.buf is not None else None
        if mask is None or quotient is None or not _is_ew(quotient, "div"):
            continue
        equal = _made_by(mask.ins[0], "eq")
        total = quotient.ins[0].buf.node if quotient.ins[0].buf is not None else None
        if equal is None or total is None or total.kind != "reduce" or total.ins[0].buf is not negative.outs[0].buf:
            continue
        if {id(v.buf) for v in equal.ins} == {id(found.x.buf), id(found.top.buf)} and tuple(total.axes) == (found.axis,):
            return both
    return None
