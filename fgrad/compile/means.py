"""A mean beside the moments of the same numbers is theirs: x - mean(x) with var(x) sums x once less."""

from fgrad.compile.values import Value


def share_means(nodes, outs):
    """nodes, without sums over an axis that are only divided by its length where `moments` gives that mean."""
    moments = {id(n.ins[0].buf): n for n in nodes if n.kind == "kernel" and n.op == "moments" and n.ins[0].whole()}
    if not moments:
        return nodes
    kept = {id(v.buf) for v in outs}
    same, first = {}, {}  # id of a mean's buffer -> that of moments; id of a sum -> the moments that take its place
    for node in nodes:
        if node.kind != "ew" or node.op not in ("mul", "div") or len(node.ins) != 2 or id(node.outs[0].buf) in kept:
            continue
        total, factor = node.ins
        if total.buf is None:
            total, factor = (factor, total) if node.op == "mul" else (total, factor)
        if total.buf is None or factor.scalar is None or not total.whole() or not node.outs[0].whole():
            continue
        add = total.buf.node
        known = None if add is None or add.kind != "reduce" or add.op != "sum" else moments.get(id(add.ins[0].buf))
        if known is None or add.ins[0].shape != known.ins[0].shape or not add.ins[0].whole() or tuple(add.axes) != tuple(known.ip):
            continue
        count = add.shape[add.axes[0]]
        dtype = node.outs[0].dtype
        if dtype == known.outs[0].dtype and factor.scalar == (dtype.type(1) / dtype.type(count) if node.op == "mul" else count):
            same[id(node.outs[0].buf)] = known.outs[0].buf
            first.setdefault(id(add), known)
    if not same:
        return nodes
    moved, result = {id(n) for n in first.values()}, []
    placed = set()
    for node in nodes:
        known = first.get(id(node)) or (node if id(node) in moved else None)
        if known is not None and id(known) not in placed:  # the first of the two has their operand at hand
            placed.add(id(known))
            result.append(known)
        if id(node) not in moved and id(node.outs[0].buf) not in same:
            result.append(node)
    for node in result:
        for i, v in enumerate(node.ins):
            if id(v.buf) in same:
                node.ins[i] = Value(same[id(v.buf)], v.shape, v.strides, v.offset, v.dtype, v.scalar, v.tag, v.box)
    return result
