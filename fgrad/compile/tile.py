"""Tiling: instructions that work row by row run together over blocks of rows that stay in cache, on all threads.

A run of instructions is tiled where each reads and writes its operands along their first axis: elementwise groups, reductions of
other axes, norms and softmaxes of rows. What passes between them then never leaves the cache.
"""

import math

from fgrad._kernels.parallel import get_num_threads
from fgrad.compile.fuse import Unit
from fgrad.compile.values import Buf, Node, Value, row_major
from fgrad.config import config
from fgrad.core import ShapedArray

TILE_BYTES = 384 << 10  # of all operands of a tile, where the number of rows allows
CACHE_BYTES = 768 << 10  # of all operands of a tile, at most
WORTH_BYTES = 3 << 20  # of what passes between the instructions

# kernels whose rows are independent, and the integer parameter that holds their axis (None: always the last)
ROW_KERNELS = {"rms_norm": None, "rms_norm_tangent": None, "layer_norm": None, "layer_norm_tangent": None, "softmax": 0, "log_softmax": 0}


def tile(units, outs, build):
    """units, with runs of row-wise ones replaced by one unit each. build(nodes, ins, outs) compiles the block program."""
    if not config.pass_tile:
        return units
    result, run = [], []
    wanted = _readers(units, outs)
    for u in units:
        if _is_rowwise(u) and _fits(run, u):
            run.append(u)
            continue
        result += _tiled(run, wanted, build)
        run = [u] if _is_rowwise(u) else []
        if not run:
            result.append(u)
    return result + _tiled(run, wanted, build)


def _readers(units, outs):
    """id of each buffer -> the units that read it (None: the program's caller)."""
    out = {id(v.buf): {None} for v in outs if v.buf is not None}
    for u in units:
        for n in u.nodes:
            for v in n.ins:
                if v.buf is not None:
                    out.setdefault(id(v.buf), set()).add(u)
    return out


def _is_rowwise(u):
    """True if every operand is either cut along its first axis or the same for all rows."""
    node = u.nodes[0]
    if u.fused:
        if not u.shape or u.shape[0] < 2 or any(n.axes and 0 in n.axes for n in u.nodes):
            return False
    elif node.kind != "kernel" or node.op not in ROW_KERNELS or len(node.ins[0].shape) < 2:
        return False
    elif (at := ROW_KERNELS[node.op]) is not None and node.ip[at] == 0:
        return False
    rows = u.shape[0] if u.fused else node.ins[0].shape[0]
    return all(_cut(v, rows) is not None for n in u.nodes for v in n.ins) and all(
        o.shape and o.shape[0] == rows for n in u.nodes for o in n.outs
    )


def _cut(v, rows):
    """True if a block of the value's rows lies in the same block of its buffer, False if all rows are the same, else None."""
    if v.buf is None:
        return False
    if not v.shape or v.shape[0] != rows or v.buf.strided:
        return None
    if v.whole():
        return True
    step = v.strides[0]
    if step == 0:
        return False
    span = v.offset + sum((n - 1) * s for n, s in zip(v.shape[1:], v.strides[1:]))
    return True if step * rows == v.buf.size and all(s >= 0 for s in v.strides) and span < step else None


def _rows(u):
    return u.shape[0] if u.fused else u.nodes[0].ins[0].shape[0]


def _fits(run, u):
    """True if u can follow the run: it reads the run's results along their rows, and there are blocks that fit both."""
    if not run:
        return True
    made = {id(o.buf) for r in run for n in r.nodes for o in n.outs}
    if any(not _cut(v, _rows(u)) for n in u.nodes for v in n.ins if v.buf is not None and id(v.buf) in made):
        return False
    return math.gcd(*map(_rows, run), _rows(u)) > 1


def _tiled(run, wanted, build):
    """The run as one unit over blocks of rows, if what passes between its units is worth it."""
    if len(run) < 2:
        return run
    members = set(run)
    made = {id(o.buf): o for u in run for n in u.nodes for o in n.outs}
    passed = [o for key, o in made.items() if any(r in members and r is not o.buf.node.group for r in wanted.get(key, ()))]
    if sum(o.buf.nbytes for o in passed) < WORTH_BYTES:
        return run
    kept = [o for key, o in made.items() if wanted.get(key, set()) - members]
    inputs = {}  # id of buffer -> (value of the whole buffer, whether it is cut)
    for u in run:
        for n in u.nodes:
            for v in n.ins:
                if v.buf is not None and id(v.buf) not in made:
                    cut = _cut(v, _rows(u))
                    if inputs.setdefault(id(v.buf), (v.buf, cut))[1] != cut:
                        return run
    size = sum(o.buf.nbytes for o in {*passed, *kept}) + sum(b.nbytes for b, cut in inputs.values() if cut)
    blocks = _blocks(math.gcd(*map(_rows, run)), size)
    if blocks is None:
        return run
    child = _child(run, inputs, kept, blocks, build)
    flat = [Value(b, (b.size,), (1,), 0, b.dtype) for b, _ in inputs.values()]
    ip = (blocks, *[int(cut) for _, cut in inputs.values()])
    node = Node("control", "tiles", flat, kept, ip=ip, obj=(child, [f"{n.op}" for u in run for n in u.nodes]))
    return [Unit(node, run[0].id)]


def _blocks(rows, size):
    """The fewest blocks that fit in cache and keep all threads busy; None if rows has no such divisor."""
    least = max(min(-(-size // TILE_BYTES), rows), 2 * get_num_threads())
    if size // least > CACHE_BYTES:
        return None
    return next((k for k in range(least, min(rows, 16 * least) + 1) if rows % k == 0), None)


def _child(run, inputs, kept, blocks, build):
    """The program of one block."""
    bufs = {}
    args = []
    for i, (key, (b, cut)) in enumerate(inputs.items()):
        size = b.size // blocks if cut else b.size
        bufs[key] = Buf("arg", b.dtype, size, index=i)
        args.append(Value(bufs[key], (size,), (1,), 0, b.dtype))

    def shorter(shape, rows):
        return (shape[0] // blocks, *shape[1:]) if shape and shape[0] == rows else shape

    nodes = []
    for u in run:
        rows = _rows(u)
        for n in u.nodes:
            ins = [
                Value(None if v.buf is None else bufs[id(v.buf)], shorter(v.shape, rows), v.strides, v.offset, v.dtype, v.scalar)
                for v in n.ins
            ]
            outs = []
            for o in n.outs:
                shape = shorter(o.shape, rows)
                bufs[id(o.buf)] = buf = Buf("temp", o.dtype, o.buf.size // blocks)
                outs.append(Value(buf, shape, row_major(shape), 0, o.dtype))
            shape = None if n.shape is None else shorter(n.shape, rows)
            copy = Node(n.kind, n.op, ins, outs, shape, n.ip, n.fp, type_code=n.type_code, axes=n.axes)
            for o in outs:
                o.buf.node = copy
            nodes.append(copy)
    results = []
    for o in kept:
        shape = (o.shape[0] // blocks, *o.shape[1:])
        results.append(Value(bufs[id(o.buf)], shape, row_major(shape), 0, o.dtype))
    in_avals = [ShapedArray(v.shape, v.dtype) for v in args]
    return build(nodes, args, results, in_avals, [ShapedArray(v.shape, v.dtype) for v in results])
