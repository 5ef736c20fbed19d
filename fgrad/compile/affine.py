"""A norm's weights go into its kernel, where nothing else reads the norm: one pass over memory, not two.

The gradient of the weights reads the norm, too: where it reads what the norm was made of as well, it computes the norm again.
"""

from fgrad.compile.fuse import readers_of
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.core.array import CODES

NORMS = ("rms_norm", "layer_norm")


def weigh_norms(nodes, outs):
    """nodes, with norms that are only multiplied by a row of weights (and then have a row added) replaced by one kernel each."""
    returned = {v.buf for v in outs}
    nodes = _scaled_again(nodes, returned)
    readers = readers_of(nodes)
    gone, instead = set(), {}  # by id of node

    def row_of(node, op, y):
        """The other operand where `node` is `op` of all of y and a row that is the same for all."""
        if node.kind != "ew" or node.op != op or y.buf in returned or node.shape != y.shape or not node.outs[0].whole():
            return None
        here, row = node.ins if node.ins[0].buf is y.buf else node.ins[::-1]
        whole = here.buf is y.buf and here.whole() and here.shape == y.shape
        return row if whole and row.tag == here.tag and _is_row(row, y) else None

    for norm in nodes:
        if norm.kind != "kernel" or norm.op not in NORMS:
            continue
        last, y, ins = norm, norm.outs[0], list(norm.ins)
        for op in ("mul", "add"):
            reading = readers.get(y.buf, ())
            if len(reading) != 1 or (row := row_of(reading[0], op, y)) is None:
                break
            node = reading[0]
            gone.add(id(node))
            ins.append(row)
            last, y = node, node.outs[0]
        if last is not norm:
            gone.add(id(norm))
            new = instead[id(last)] = Node("kernel", norm.op, ins, [y, norm.outs[1]], fp=norm.fp)
            y.buf.node = norm.outs[1].buf.node = new
    return [instead.get(id(n), n) for n in nodes if id(n) not in gone or id(n) in instead] if gone else nodes


def _scaled_again(nodes, kept):
    """nodes, where what reads rms_norm(x) after the product with its weights reads x * r instead, computed where x is at hand."""
    norms, before = [n for n in nodes if n.op == "rms_norm"], {}
    readers = readers_of(nodes) if norms else {}
    for norm in norms:
        (x, *weights), (y, r) = norm.ins, norm.outs
        weigh, *late = readers.get(y.buf, [None])
        along = [n for n in readers.get(r.buf, ()) if n.op == "rms_norm_tangent" and n.ins[0].buf is x.buf]
        if not (late and along) or weights or y.buf in kept or weigh.op != "mul" or not any(_is_row(v, y) for v in weigh.ins):
            continue
        if all(n.kind == "ew" and n.shape == y.shape and all(v.whole() for v in n.ins if v.buf is y.buf) for n in late):
            scale = Value(r.buf, y.shape, (*r.strides, 0), r.offset, r.dtype)
            again = Value(Buf("temp", y.dtype, y.size), y.shape, row_major(y.shape), 0, y.dtype)
            node = again.buf.node = Node("ew", "mul", [x, scale], [again], y.shape, type_code=CODES[compute_dtype(y.dtype)])
            before[id(late[0])] = node
            for n in late:
                n.ins = [again if v.buf is y.buf else v for v in n.ins]
    return [m for n in nodes for m in ((before[id(n)], n) if id(n) in before else (n,))] if before else nodes


def _is_row(v, y):
    steps = [s for n, s in zip(v.shape, v.strides) if n != 1]
    if v.buf is None or v.shape != y.shape or v.dtype != y.dtype:
        return False
    return steps == [0] * (len(steps) - 1) + [1] if v.shape[-1] != 1 else not any(steps)
