"""How instructions are cut into rows: their leading axes, as many as all operands can be cut along (see tile.pyx)."""

import math

from fgrad._kernels.index import WRAPS, gather_ip

from fgrad.compile.fuse cimport Unit
from fgrad.compile.values cimport Node, Value

FACTOR_BYTES = 512 << 10  # of a matrix by which rows are multiplied block by block: it stays in the second cache beside the tile
PRODUCT_BYTES = 12 << 20  # of the products of such rows: less comes out of the shared cache as fast

# kernels whose rows are independent, and the integer parameter that holds their axis (None: always the last; a copy's are cut as a group's; a dot's
# rows are its batch, or a's where there is one matrix on either side)
ROW_KERNELS = {
    **dict.fromkeys(("rms_norm", "rms_norm_tangent", "layer_norm", "layer_norm_tangent", "gather", "dot", "copy")),
    **dict.fromkeys(("cross_entropy", "cross_entropy_cotangent", "cross_entropy_tangent", "max_expsum", "exp_cotangent")),
    **dict.fromkeys(
        (
            "softmax",
            "softmax_tangent",
            "log_softmax",
            "log_softmax_tangent",
            "log_softmax_cotangent",
            "logsumexp",
            "softmax_logsumexp",
            "moments",
        ),
        0,
    ),
    "argreduce": 1,
}
_TAKE_ALONG_ROWS = tuple(gather_ip((), (1,), (1,), (0,), (0,), (1, 1), False))
GATHERS = (_TAKE_ALONG_ROWS, (*_TAKE_ALONG_ROWS[:4], WRAPS, *_TAKE_ALONG_ROWS[5:]))  # those that are in


cdef object _cut(Value v, Py_ssize_t depth, rows):
    """True if a block of the value's rows (its `depth` leading axes) lies in the same block of its buffer, False if all rows are
    the same, else None."""
    if v.buf is None:
        return False
    if v.buf.strided or v.box is not None:
        return None
    if v.whole():
        return True
    step = None
    for i in range(depth - 1, -1, -1):
        n, s = v.shape[i], v.strides[i]
        if n != 1:
            if step is None:
                step = expect = s
            elif s != expect:
                return None
            expect *= n
    if not step:
        return False
    if step < 0 or step * rows != v.buf.size:
        return None
    first = span = v.offset
    for i in range(depth, len(v.shape)):
        s = v.strides[i]
        if s < 0:
            first += (v.shape[i] - 1) * s
        else:
            span += (v.shape[i] - 1) * s
    return True if 0 <= first and span < step else None


cdef Value factor_of(Node n):
    """The matrix by which a product multiplies rows, where each block of them may read all of it as it lies; else None."""
    cdef Value b, out
    if n.kind != "kernel" or n.op != "dot" or n.ip or (<Value>n.ins[0]).shape[0] != 1:
        return None
    b, out = n.ins[1], n.outs[0]
    if b.buf is None or b.buf.strided or b.strides[2] != 1:
        return None
    small = math.prod(b.shape) * b.dtype.itemsize <= FACTOR_BYTES
    return b if small and math.prod(out.shape) * out.dtype.itemsize >= PRODUCT_BYTES else None


cdef Value table_of(Node n):
    """The table whose items a take, or items or rows a gather takes, where each block of its indices may read all of it; else None."""
    cdef Value x
    cdef Py_ssize_t last
    if n.kind == "ew":
        return n.ins[-1] if n.op == "take" or n.op == "take2" else None
    if n.kind != "kernel" or n.op != "gather":
        return None
    x, last = n.ins[0], len((<Value>n.ins[1]).shape) - 1
    if x.buf is None or x.buf.strided or x.box is not None or not last:
        return None
    window = range(last, last + len(x.shape) - 1)
    return x if n.ip == (len(window), 1, 1, 0, *n.ip[4:7], *window, 0, 0, 1, *x.shape[1:]) else None


cdef Value positions_of(Node n):
    """The indices of a gather along axes behind others, of which it takes all: every block of those reads all indices; else None."""
    gathers = n.kind == "kernel" and n.op == "gather" and (<Value>n.ins[1]).buf is not None
    return n.ins[1] if gathers and _axes_in_front(n) else None


cdef Py_ssize_t _axes_in_front(Node n) except -1:
    """How many leading axes the operand and the result of a gather have in common."""
    cdef tuple shape = (<Value>n.ins[0]).shape, ip = n.ip
    windows, dropped, mapped, batching = ip[:4]
    cdef Py_ssize_t d = 0, first = 7 + windows
    if batching:
        return 0
    taken = ip[first : first + dropped + mapped]
    while d < windows and ip[7 + d] == d and d not in taken and ip[len(ip) - len(shape) + d] == shape[d]:
        d += 1
    return d


cdef class Rows:
    """How a unit is cut into rows: its `depth` leading axes, the buffers it reads (True: cut, False: the same for all rows),
    the values it makes row by row, and its reductions over all rows."""


cdef Rows most_rows(Unit u):
    """The Rows with most axes, or None."""
    cdef Node node = u.nodes[0]
    cdef Rows found
    if u.fused or (node.kind == "kernel" and node.op == "copy"):
        shape = u.shape if u.fused else (<Value>node.outs[0]).shape
        for d in range(len(shape), 0, -1):
            found = _rows_at(u, d, shape)
            if found is not None:
                return found
        return None
    if table_of(node) is not None:
        return _rows_at(u, len((<Value>node.ins[1]).shape) - 1, (<Value>node.ins[1]).shape)
    if positions_of(node) is not None:
        return _rows_at(u, _axes_in_front(node), (<Value>node.ins[0]).shape)
    if node.kind != "kernel" or node.op not in ROW_KERNELS or (node.op == "gather" and node.ip not in GATHERS):
        return None
    at, shape = ROW_KERNELS[node.op], (<Value>node.ins[0]).shape
    if factor_of(node) is not None:
        return _rows_at(u, 2, shape)
    depth = 1 if node.op == "dot" else len(shape) - 1 if at is None else node.ip[at]
    if not depth or any([v.shape[:depth] != shape[:depth] for v in (*node.ins, *node.outs)]):
        return None
    return _rows_at(u, depth, shape)


cdef Rows _rows_at(Unit u, Py_ssize_t depth, tuple shape):
    cdef Rows self = Rows()
    cdef Node n
    cdef Value v, factor, table, positions
    cdef set inside = set()
    cdef Py_ssize_t leading
    self.unit, self.depth, self.rows = u, depth, math.prod(shape[:depth])
    self.cuts, self.made, self.sums = {}, [], []
    if self.rows < 2:
        return None
    for n in u.nodes:
        if n.op == "window":
            return None
        factor, table, positions = factor_of(n), table_of(n), positions_of(n)
        for v in n.ins:
            if v.buf is None or v.buf in inside:
                continue
            cut = False if v is factor or v is table or v is positions else _cut(v, depth, self.rows)
            if cut is None or self.cuts.setdefault(v.buf, cut) != cut:
                return None
        leading = sum([a < depth for a in n.axes]) if n.axes else 0
        if leading and leading < depth:
            return None
        if leading:
            self.sums.append(n)
        else:
            self.made += n.outs
            if u.fused:
                for v in n.outs:
                    inside.add(v.buf)
    return self
