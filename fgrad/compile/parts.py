"""Elementwise operations on short rows that two or more equal parts make up are done part by part.

What is computed of a concatenation along the last axis, as rotary embeddings are, reads the concatenation's operands and writes its own
parts side by side (see joined): neither the concatenation nor what only it reads passes through memory. Long rows are left to shift.
"""

from fgrad.compile.values import Buf, Node, Value, row_major

ROW = 2048  # elements of a row from which on shift reads the pieces
LEAST = 16_384  # elements of a result that is worth it
RUN = 64  # bytes of a part, that side by side they are written where they belong
PARTS = 4
NODES = 24  # of the operations that are repeated for each part


def split_rows(nodes, outs):
    """The nodes that compute `outs`; some are for live_nodes to leave out."""
    joins = {n: len(n.ins) for n in nodes if n.op == "concatenate" and _equal_parts(n)}
    if not any([n.outs[0].size >= LEAST for n in joins]):
        return nodes
    readers = {}  # buffer -> [(node that reads it, value)]; the program's caller is None
    for n in nodes:
        for v in n.ins:
            readers.setdefault(v.buf, []).append((n, v))
    for v in outs:
        readers.setdefault(v.buf, []).append((None, v))
    done, whole, pieces = set(), set(), {}  # pieces: node -> its result's parts
    for join in [n for n in joins if n.outs[0].size >= LEAST]:
        for n, v in readers.get(join.outs[0].buf, ()):
            if n in done or n is None or n.kind != "ew" or not _passes(v, n) or n.shape != join.outs[0].shape:
                continue  # (a reshaped concatenation's last axis is another one)
            found = _connected(n, readers)
            done.update(found)
            reads = {m: readers.get(m.outs[0].buf, ()) for m in found}
            if len(found) > NODES or any([r is not None and r.kind == "reduce" for m in found for r, _ in reads[m]]):
                continue
            pieces.update(dict.fromkeys(found, joins[join]))
            whole.update([m for m in found if not all([r in found and _passes(v, r) for r, v in reads[m]])])
    if not pieces:
        return nodes
    out = []
    for n in nodes:
        count = pieces.get(n)
        if count is None:
            out.append(n)
            continue
        parts = []
        for k in range(count):
            ins = [_part(v, n, k, count, pieces, joins) for v in n.ins]
            parts.append(_result(n, ins, (*n.shape[:-1], n.shape[-1] // count)))
            out.append(parts[-1].buf.node)
        pieces[n] = parts
        if n in whole:
            value = n.outs[0]
            value.buf.node = Node("kernel", "concatenate", parts, [value], None, (len(n.shape) - 1,))
            out.append(value.buf.node)
    return out


def _equal_parts(join):
    """True for a concatenation of a few arrays of one shape along the last axis, of short rows."""
    shape, count = join.outs[0].shape, len(join.ins)
    if join.ip != (len(shape) - 1,) or not 2 <= count <= PARTS or any([v.shape != join.ins[0].shape for v in join.ins]):
        return False
    return shape[-1] < ROW and shape[-1] * join.outs[0].dtype.itemsize >= RUN * count


def _passes(v, node):
    """True if a node of v's shape reads all of a result, in its own order."""
    return v.shape == node.shape and v.whole() and not v.tag


def _connected(node, readers):
    """The elementwise operations that pass whole results of one shape to each other, with this one."""
    found, waiting = {node: None}, [node]
    while waiting and len(found) <= NODES:
        n = waiting.pop()
        near = [v.buf.node for v in n.ins if v.buf is not None and v.buf.node is not None and _passes(v, n)]
        near += [r for r, v in readers.get(n.outs[0].buf, ()) if r is not None and _passes(v, n)]
        for m in near:
            if m.kind == "ew" and m.shape == n.shape and m not in found:
                found[m] = None
                waiting.append(m)
    return found


def _part(v, n, k, count, pieces, joins):
    """Part k of the rows of an operand of n."""
    shape = (*v.shape[:-1], v.shape[-1] // count)
    if v.buf is None:
        return Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar, v.tag)
    made = v.buf.node
    if made is not None and _passes(v, n) and made.outs[0].shape == v.shape:
        if made in pieces:
            return pieces[made][k]
        if joins.get(made) == count:
            return made.ins[k]
    if joins.get(made) == count and not v.tag and (same := _spread_part(v, made, k, shape)) is not None:
        return same
    return Value(v.buf, shape, v.strides, v.offset + k * shape[-1] * v.strides[-1], v.dtype, None, v.tag)


def _spread_part(v, join, k, shape):
    """The same where v repeats the rows of a concatenation; None if it is read otherwise."""
    whole, piece = join.outs[0], join.ins[k]
    strides = {s: (n, to) for s, n, to in zip(whole.strides, whole.shape, piece.strides) if n != 1}
    if v.offset or piece.buf is None or len(strides) < sum([n != 1 for n in whole.shape]) or v.strides[-1] != 1:
        return None
    if not all([not s or n == 1 or (s in strides and strides[s][0] == n) for s, n in zip(v.strides, v.shape)]):
        return None
    steps = tuple([strides[s][1] if s and n != 1 else 0 for s, n in zip(v.strides, v.shape)])
    return Value(piece.buf, shape, steps, piece.offset, v.dtype, None, piece.tag)


def _result(n, ins, shape):
    """The result of n's operation on parts of its operands."""
    size = 1
    for m in shape:
        size *= m
    out = Value(Buf("temp", n.outs[0].dtype, size), shape, row_major(shape), 0, n.outs[0].dtype)
    out.buf.node = Node("ew", n.op, ins, [out], shape, n.ip, n.fp, obj=n.obj, type_code=n.type_code)
    return out
