"""What a checkpoint computes again although its first result costs no memory is not computed again.

A checkpoint's barrier keeps the backward pass from reading results of the forward pass, which would have to be stored until then. Where
all of these are few bytes there is nothing to save, and a result that the backward pass reads anyway, as the next layer's input, is stored
anyway.
"""

from fgrad.compile.values import Value

LITTLE = 8 << 20  # bytes of all results that would be kept in memory


def merge_again(nodes, outs):
    """nodes, with results of the forward pass in the places of the same ones computed behind checkpoints' barriers; `outs` stay."""
    first, same, again, size = {}, {}, {}, 0  # key -> node; buffer of a result -> its first one; node -> the first one
    kept = {v.buf for v in outs}
    for node in nodes:
        if node.kind not in ("ew", "reduce", "kernel") or node.op == "copy":
            continue
        one = first.setdefault(_key(node, same), node)
        if one is not node and not any([v.buf in kept for v in node.outs]) and _lie_alike(one, node):
            again[node] = one
            for v, w in zip(node.outs, one.outs):
                same[v.buf] = w.buf
                size += w.buf.nbytes
    if not again:
        return nodes
    if size > LITTLE:
        start = next(i for i, node in enumerate(nodes) if node in again)
        stored = {v.buf for node in nodes[start:] if node not in again for v in node.ins}
        again = {node: one for node, one in again.items() if all([v.buf in stored for v in one.outs])}
        same = {v.buf: w.buf for node, one in again.items() for v, w in zip(node.outs, one.outs)}
    left = [node for node in nodes if node not in again]
    for node in left:
        node.ins = [_first(v, same) if v.buf in same or v.tag < 0 and size <= LITTLE else v for v in node.ins]
    return left


def _first(v, same):
    return Value(same.get(v.buf, v.buf), v.shape, v.strides, v.offset, v.dtype, v.scalar, max(v.tag, 0), v.box)


def _key(node, same):
    """What nodes share that compute the same but for checkpoints' barriers."""
    ins = [
        (same.get(v.buf, v.buf), v.shape, v.strides, v.offset, v.dtype, None if v.buf is not None else v.key(), max(v.tag, 0), v.box)
        for v in node.ins
    ]
    results = [(v.shape, v.dtype) for v in node.outs]
    return (node.op, node.kind, node.ip, node.fp, node.axes, node.type_code, node.shape, tuple(ins), tuple(results))


def _lie_alike(a, b):
    return all([v.strides == w.strides and v.offset == w.offset and v.buf.size == w.buf.size for v, w in zip(a.outs, b.outs)])
