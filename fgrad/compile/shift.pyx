"""Pads, concatenations, static updates and slices of computed arrays become part of the groups that read them.

What an elementwise group over one shape reads of another shape, moved by some places along each axis, it computes itself: operations
are repeated over the shape of the reader, their operands are read where they lie, and where there are none (see Value.box) a "window"
takes its other operand. So a gradient of differences, whose transposes are sums of pads, is one pass over memory, and a roll, a
concatenation of two slices, costs the tiles in which both meet. What would be computed too often is written first, as without this.
"""

from math import copysign, isfinite, prod

from fgrad._kernels import elementwise as vm
from fgrad.compile.fuse import live_nodes
from fgrad.compile.lower import compute_dtype
from fgrad.config import config
from fgrad.core.array import CODES

from fgrad.compile.values cimport Buf, Node, Value, row_major

cdef enum:
    LEAST = 12_000             # elements of a result that is worth it: of the few tiles of less, too many meet an edge;
    LINE = 4096                # but along one axis, of which only strips do,
    FRAMED = 1800              # and where all groups over a shape run at once but for a frame (vm_frame.h),
    MANY = 3                   # which may be so many percent of it where that spares so many moves or more, or where it spares fewer
    WIDE = 27
    NARROW = 7
    PIECES = 4                 # operands of a concatenation
    VIEWS = 8                  # places that one result is read from
    CUTS = 6                   # choices for each element between pieces of rows, at all places: of more, the row is put together first
    ROW = 2048                 # elements of a row of which most tiles have no edge
    SHARE = 8                  # of a shorter row, less than such a part costs little to put in its place
    MEETS = 32_768             # elements of an updated array of which most tiles meet an edge: what can be written into it is (see updated)
    RECOMPUTE = 6              # additions for each element that cost less than writing and reading it

cdef dict _weights = vm.WEIGHTS
cdef frozenset _stages = frozenset(
    "add sub mul div max min copysign lt le gt ge eq ne square neg abs recip sign is_finite sqrt rsqrt and or xor not select cast window".split()
)
cdef dict _codes = CODES

cdef frozenset _moves = frozenset(("pad", "concatenate", "dynamic_update_slice"))


def shift(list nodes, list outs, taken=()):
    """The nodes that compute `outs`, with less that passes through memory. taken: arguments whose memory results may take over."""
    cdef Node node
    if not config.pass_shift:
        return nodes
    framed = _framed(nodes, outs)
    for node in nodes:
        if (node.kind == "kernel" and _pieces(node, taken, framed) is not None) or (node.kind == "ew" and _reads_shifted(node)):
            return live_nodes(_Shift(nodes, outs, taken, framed).rewritten(), outs)
    return nodes


cdef set _framed(list nodes, list outs):
    """Shapes too small for windows in tiles, over which all groups will run at once but for a frame: what is computed over such a shape, or
    for most of it, is of one size, in stages of strips, and reads what lies as the shape does."""
    cdef Node node
    cdef Value v
    cdef dict moves = {}       # shape -> what is moved over it
    for node in nodes:
        if node.kind == "kernel" and node.op in _moves:
            v = node.outs[0]
            if len(v.shape) > 1 and FRAMED <= v.size < LEAST:
                moves.setdefault(v.shape, []).append(node)
    return {shape for shape, over in moves.items() if _small_frame(shape, over) and _runs_framed(nodes, outs, shape, len(over))}


cdef bint _small_frame(tuple shape, list moves) except -1:
    """True if the part of a shape that lies at its ends, as what is moved over it says, costs less than copies of all of it."""
    cdef Node node
    cdef list margins = [[0, 0] for _ in shape]
    for node in moves:
        if node.op == "pad":
            ends = zip(node.ip[::3], node.ip[1::3])
        elif node.op == "concatenate":
            first, last = node.ins[0].shape[node.ip[0]], node.ins[-1].shape[node.ip[0]]
            if len(node.ins) == 2:
                first, last = (first, 0) if first <= last else (0, last)
            ends = [(first, last) if a == node.ip[0] else (0, 0) for a in range(len(shape))]
        else:
            ends = [(0 if v.scalar is None else int(v.scalar), n - k) for v, n, k in zip(node.ins[2:], shape, node.ins[1].shape)]
            ends = [(lo, rest - lo) for lo, rest in ends]
        for margin, (lo, hi) in zip(margins, ends):
            margin[0], margin[1] = max(margin[0], lo), max(margin[1], hi)
    size = prod(shape)
    frame = size - prod([max(n - lo - hi, 0) for n, (lo, hi) in zip(shape, margins)])
    return 100 * frame <= (WIDE if len(moves) >= MANY else NARROW) * size


cdef bint _runs_framed(list nodes, list outs, tuple shape, Py_ssize_t moves_over) except -1:
    """True if groups over a shape can run so. Reductions stay out of them (see fuse): what is computed for one alone is written and read for
    that, which may happen for half of the moves."""
    cdef Node node
    cdef Value v
    cdef set lanes = set(), kept = {v.buf for v in outs}
    cdef Py_ssize_t apart = 0
    size, strides = prod(shape), row_major(shape)
    for node in nodes:
        most = node.kind == "ew" and size < 2 * prod(node.shape) <= 2 * size and len(node.shape) == len(shape)
        if most and (node.op not in _stages or (node.outs[0].dtype.kind == "b" and any([v.buf is node.outs[0].buf for v in outs]))):
            return False
        moves = node.kind == "kernel" and node.outs and node.outs[0].shape == shape and node.op in _moves
        for v in node.ins:
            if most or moves:
                if v.dtype.kind != "b" and (most or 2 * v.size > size):
                    lanes.add(v.dtype.itemsize)
                if v.buf is None or 2 * v.size <= size or v.strides == strides or not any(v.strides):
                    continue
                if v.buf.node is None or (<Node>v.buf.node).kind != "ew" or not v.whole():
                    return False
            elif v.shape == shape and v.dtype.kind == "b":
                return False
            elif node.kind == "reduce" and v.shape == shape and v.buf not in kept:
                apart += 1
    return 2 * apart <= moves_over and (lanes == {4} or lanes == {8})


cdef bint _is_worth(tuple shape, set framed) except -1:
    return prod(shape) >= (LINE if len(shape) == 1 else LEAST) or shape in framed


cdef bint _reads_shifted(Node node) except -1:
    """True if an operand is a part of another shape's result of an elementwise operation."""
    cdef Value v
    for v in node.ins:
        if v.buf is not None and v.buf.node is not None and (<Node>v.buf.node).kind == "ew" and v.shape != (<Node>v.buf.node).shape:
            return _place(v) is not None
    return False


cdef tuple _place(Value v):
    """Where along each axis v begins in the result it is a part of, in that one's order; None if it is read otherwise."""
    cdef Node node = v.buf.node
    cdef Value out = node.outs[0]
    cdef list at = []
    rest = v.offset
    if len(v.shape) != len(out.shape) or v.tag != out.tag or out.buf is not v.buf or v.dtype != out.dtype:
        return None
    for n, s, size, step in zip(v.shape, v.strides, out.shape, out.strides):
        if (n != 1 and s != step) or not n:
            return None
        at.append(rest // step)
        rest -= at[-1] * step
        if at[-1] + n > size:
            return None
    return None if rest else tuple(at)


def _pieces(Node node, taken, set framed):
    """[(an operand of a node that moves memory, where it begins along each axis)], those before over those after; or None."""
    cdef Value out, x
    cdef list pieces = []
    if node.op != "pad" and node.op != "concatenate" and node.op != "dynamic_update_slice":
        return None
    out = node.outs[0]
    if not _is_worth(out.shape, framed):
        return None
    if out.shape[-1] < ROW and any([_halves(v.shape[-1], out.shape[-1]) for v in node.ins if len(v.shape) == len(out.shape)]):
        return None
    none = (0,) * len(out.shape)
    if node.op == "pad":
        if any(node.ip[2::3]) or not prod(node.ins[0].shape):
            return None
        return [(node.ins[0], node.ip[::3]), (_spread(node.ins[1], out.shape), none)]
    if node.op == "concatenate":
        axis, at = node.ip[0], 0
        for x in node.ins:
            if x.shape[axis]:
                pieces.append((x, (*none[:axis], at, *none[axis + 1 :])))
                at += x.shape[axis]
        return pieces if 1 < len(pieces) <= PIECES else None
    x = node.ins[1]
    if 2 * x.size < out.size or any([v.scalar is None for v in node.ins[2:]]):
        return None
    starts = [min(max(int(v.scalar), 0), n - k) for v, n, k in zip(node.ins[2:], out.shape, x.shape)]
    reads, taken_over = _reads_of_updated(node, sum([a * s for a, s in zip(starts, out.strides)])), _taken_over(node.ins[0], taken)
    if reads == IN_PLACE and (taken_over or out.size < MEETS) or reads == NONE and taken_over and _computed(x):
        return None
    return [(x, tuple(starts)), (node.ins[0], none)]


cdef bint _taken_over(Value x, taken) except -1:
    """True if x is an argument, a loop's carry for one, that can be updated where it lies."""
    return x.buf is not None and x.buf.kind == "arg" and x.buf.index in taken and x.whole()


cdef bint _computed(Value u) except -1:
    """True for the result of an elementwise operation."""
    return u.buf is not None and u.buf.node is not None and (<Node>u.buf.node).kind == "ew"


cdef enum:
    NONE, IN_PLACE, ELSEWHERE


cdef int _reads_of_updated(Node node, Py_ssize_t offset) except -1:
    """Whether what computes an update, by elementwise operations and copies, reads the updated array: not at all, only the element
    that each element is written over, or others."""
    cdef Value v, x = node.ins[0], u = node.ins[1]
    cdef Node made
    cdef bint found = False, alike
    cdef list left = [(u, True)]  # alike: an element of u needs only the element of v in its place
    cdef set seen = set()
    while left:
        v, alike = left.pop()
        if v.buf is None or (v.buf, alike) in seen:
            continue
        if v.buf is x.buf:
            if not alike or v.shape != u.shape or v.strides != (<Value>node.outs[0]).strides or v.offset != offset:
                return ELSEWHERE
            found = True
            continue
        seen.add((v.buf, alike))
        made = v.buf.node
        if made is not None and (made.kind == "ew" or made.op == "copy"):
            alike = alike and made.kind == "ew" and made.shape == u.shape and v.whole()
            left += [(w, alike) for w in made.ins]
    return IN_PLACE if found else NONE


cdef bint _halves(k, n) except -1:
    """True if k of the n elements of a row, and the others, are too many to be put in their places in every tile."""
    return SHARE * min(k, n - k) > n


cdef Value _spread(Value v, tuple shape):
    """One value for a whole shape."""
    return Value(v.buf if v.scalar is None else None, shape, (0,) * len(shape), v.offset, v.dtype, v.scalar, v.tag)


cdef bint _is_origin(tuple at) except -1:
    for a in at:
        if a:
            return False
    return True


cdef class _Shift:
    """What is read of each result, and from where: from the last node to the first, so that all readers are known when it is decided
    whether they compute it themselves (`inside`)."""
    cdef list nodes, out
    cdef dict pieces           # node -> its _pieces
    cdef dict views            # node -> {(shape of the reader, place of its first element): None}
    cdef dict work             # node -> what an element costs
    cdef set fixed             # nodes whose results others need in memory
    cdef set inside
    cdef dict known, seen      # (node, shape, place) -> value; what equal new nodes share -> value
    cdef dict read             # node that readers compute -> its operands, before they were rewritten for its own shape
    cdef set framed            # small shapes of which frames are cheap

    def __init__(self, list nodes, list outs, taken, set framed):
        cdef Node node
        cdef Value v
        self.nodes, self.out, self.pieces, self.views, self.work, self.fixed, self.inside = nodes, [], {}, {}, {}, set(), set()
        self.known, self.seen, self.read, self.framed = {}, {}, {}, framed
        for node in nodes:
            if node.kind == "kernel":
                found = _pieces(node, taken, framed)
                if found is not None:
                    self.pieces[node] = found
            if node.kind == "ew" or node in self.pieces:
                self.weigh(node)
        for v in outs:
            if v.buf is not None:
                self.fixed.add(v.buf.node)
        for node in reversed(nodes):
            self.decide(node)

    cdef int weigh(self, Node node) except -1:
        cdef Value v
        work = _weights.get(node.op, 1)
        for v in node.ins:
            if v.buf is not None:
                work += self.work.get(v.buf.node, 0)
        self.work[node] = min(work, 10_000)
        return 0

    cdef int decide(self, Node node) except -1:
        """Whether readers compute the node's result themselves; and so what is read of its operands."""
        cdef Value v
        cdef dict views = self.views.get(node, {})
        if node in self.pieces:
            if self.moves_inside(node, views):
                self.inside.add(node)
                if node in self.fixed:
                    views[node.outs[0].shape, (0,) * len(node.outs[0].shape)] = None
                for shape, at in views:
                    for v, lo in self.seen_pieces(node, shape, at):
                        self.read_at(v, shape, lo)
                return 0
        elif node.kind == "ew":
            origin = (node.shape, (0,) * len(node.shape))
            if node not in self.fixed and views and (len(views) > 1 or origin not in views) and self.pays(node, views):
                self.inside.add(node)
            else:
                views = {origin: None}
            for shape, at in views:
                for v in node.ins:
                    self.read_at(v, shape, at)
            return 0
        for v in node.ins:
            if node.kind == "reduce":
                self.read_at(v, v.shape, (0,) * len(v.shape))
            elif v.buf is not None:
                self.fixed.add(v.buf.node)
        return 0

    cdef bint pays(self, Node node, dict views) except -1:
        """True if computing an element wherever it is read costs less than memory."""
        size = prod(node.shape)
        if len(views) > VIEWS or not any([_is_worth(shape, self.framed) for shape in (node.shape, *[shape for shape, _ in views])]):
            return False
        return self.work[node] * (sum([prod(shape) for shape, _ in views]) - size) <= RECOMPUTE * size

    cdef bint moves_inside(self, Node node, dict views) except -1:
        """True if what reads a node that moves memory can read its pieces instead; or where it must be written, if something computed is
        written only there then."""
        cdef Value v
        shape = node.outs[0].shape
        if node in self.fixed and len(self.seen_pieces(node, shape, (0,) * len(shape))) < 2:
            return False                   # a part of one array, which is to be copied
        if views:
            cuts = len(self.pieces[node]) - 1 if node.op == "concatenate" and len(shape) > 1 and node.ip[0] == len(shape) - 1 else 0
            return len(views) <= VIEWS and cuts * len(views) <= CUTS and node.obj != "margins"
        for v, _ in self.pieces[node][:2]:
            if len(self.pieces[node]) == 2 and v.buf is not None and v.buf.node is not None and (<Node>v.buf.node).kind == "ew":
                if v.buf.node not in self.fixed and 2 * v.size > node.outs[0].size and _place(v) is not None:
                    return True
        return False

    cdef int read_at(self, Value v, tuple shape, tuple at) except -1:
        """Note that a group over `shape` reads v, its own first element being v[at]."""
        cdef Node node
        if v.buf is None or v.buf.node is None:
            return 0
        node = v.buf.node
        if node.kind != "ew" and node not in self.pieces:
            return 0
        place = _place(v)
        if place is None:
            self.fixed.add(node)
        else:
            self.views.setdefault(node, {})[shape, tuple([a + b for a, b in zip(at, place)])] = None
        return 0

    cdef list seen_pieces(self, Node node, tuple shape, tuple at):
        """[(operand, where in it the reader's first element is)] of the pieces that a reader sees."""
        cdef Value v
        cdef list out = []
        for v, lo in self.pieces[node]:
            begin = tuple([a - b for a, b in zip(at, lo)])
            box = _box(v, shape, begin)
            if box is None:
                continue
            out.append((v, begin))
            if box == _box(None, shape, begin):
                break
        return out

    def rewritten(self):
        """All nodes, and the new ones before the first that reads them."""
        cdef Node node
        cdef Value v
        for node in self.nodes:
            if node in self.inside and node in self.pieces:
                if node in self.fixed:
                    shape = node.outs[0].shape
                    self.moved(node, shape, (0,) * len(shape), node.outs[0])
                continue
            if node in self.inside:
                self.read[node] = node.ins
            if node.kind == "ew" or node.kind == "reduce":
                node.ins = [self.value(v, v.shape, (0,) * len(v.shape)) for v in node.ins]
            self.out.append(node)
        return self.out

    cdef Value value(self, Value v, tuple shape, tuple at):
        """What a group over `shape` reads of v, its own first element being v[at]."""
        cdef Node node
        if v.buf is not None and v.buf.node in self.inside:
            place = _place(v)
            if place is not None:
                return self.computed(v.buf.node, shape, tuple([a + b for a, b in zip(at, place)]))
        return v if v.shape == shape and _is_origin(at) else _moved(v, shape, at)

    cdef Value computed(self, Node node, tuple shape, tuple at):
        """The node's result from `at` on over `shape`."""
        cdef Value v
        key = (node, shape, at)
        out = self.known.get(key)
        if out is None:
            if node in self.pieces:
                out = self.moved(node, shape, at, None)
            elif shape == node.shape and _is_origin(at):
                out = node.outs[0]
            else:
                out = self.add(node.op, [self.value(v, shape, at) for v in self.read[node]], shape, node.outs[0].dtype, node.type_code, ())
            self.known[key] = out
        return out

    cdef Value moved(self, Node node, tuple shape, tuple at, Value whole):
        """The pieces of a node, over `shape` from `at` on, put together; whole: the value to set, None for a new one."""
        cdef Value v, out = None
        cdef list pieces = self.seen_pieces(node, shape, at)
        code = _codes[compute_dtype(node.outs[0].dtype)]
        if len(pieces) == 2 and whole is None:
            v, begin = pieces[0]
            out = self.both(v, begin, pieces[1][0], pieces[1][1], shape, _box(v, shape, begin))
            if out is not None:
                return out
        for k in range(len(pieces) - 1, -1, -1):
            v, begin = pieces[k]
            if out is None:
                out = self.value(v, shape, begin)
            else:
                out = self.windowed(self.value(v, shape, begin), out, shape, code, _box(v, shape, begin), None if k else whole)
        return out

    cdef Value both(self, Value x, tuple at, Value y, tuple to, tuple shape, tuple box):
        """Two parts of one result, x from `at` on inside the box and y from `to` on outside, if that computes from one array: of its parts,
        so that nothing is computed twice. None for others."""
        cdef Value v
        cdef Node node
        cdef list ins = []
        if x.buf is None or x.buf is not y.buf or x.buf.node not in self.inside or (<Node>x.buf.node).kind != "ew":
            return None
        node, a, b = x.buf.node, _place(x), _place(y)
        if a is None or b is None or len({v.buf for v in node.ins if v.buf is not None}) != 1:
            return None
        at, to = tuple([i + j for i, j in zip(at, a)]), tuple([i + j for i, j in zip(to, b)])
        for v in node.ins:
            if v.buf is None:
                ins.append(self.value(v, shape, at))
                continue
            out = self.both(v, at, v, to, shape, box)
            if out is None:
                out = self.windowed(self.value(v, shape, at), self.value(v, shape, to), shape, _codes[compute_dtype(v.dtype)], box, None)
            ins.append(out)
        return self.add(node.op, ins, shape, node.outs[0].dtype, node.type_code, ())

    cdef Value windowed(self, Value x, Value other, tuple shape, code, tuple box, Value whole):
        """x inside the box and `other` outside. A constant factor of x, where the other one is 0, comes afterwards: it becomes part of a
        sum that follows."""
        cdef Value c
        cdef Node node = None if x.buf is None or whole is not None or x.dtype.kind != "f" or x.dtype.itemsize < 4 else x.buf.node
        if node is None or node.kind != "ew" or x.box is not None or not x.whole() or other.scalar is None or other.scalar != 0:
            return self.add("window", [x, other], shape, x.dtype, code, box, whole)
        if node.op == "neg":
            ins, sign = [node.ins[0]], -1.0
        elif node.op == "mul" and (node.ins[0].scalar is not None or node.ins[1].scalar is not None):
            c, x = node.ins if node.ins[0].scalar is not None else node.ins[::-1]
            ins, sign = [x, c], float(c.scalar)
            if c.buf is not None or not sign or not isfinite(sign):
                return self.add("window", [node.outs[0], other], shape, x.dtype, code, box, whole)
        else:
            return self.add("window", [x, other], shape, x.dtype, code, box, whole)
        zero = Value(None, other.shape, other.strides, 0, other.dtype, other.dtype.type(copysign(0.0, other.scalar) * copysign(1.0, sign)))
        ins[0] = self.windowed(ins[0], zero, shape, code, box, None)
        return self.add(node.op, ins, shape, node.outs[0].dtype, node.type_code, ())

    cdef Value add(self, str op, list ins, tuple shape, dtype, code, tuple box, Value out=None):
        """The result of a new elementwise node, or of one that is there already."""
        cdef Value v
        cdef Node node
        key = (op, tuple([v.key() for v in ins]), shape, dtype, box)
        known = self.seen.get(key)
        if known is not None and out is None:
            return known
        if out is None:
            out = Value(Buf("temp", dtype, prod(shape)), shape, row_major(shape), 0, dtype)
        node = Node("ew", op, ins, [out], shape, box, type_code=code)
        out.buf.node = node
        self.out.append(node)
        self.seen[key] = out
        return out


cdef tuple _box(Value v, tuple shape, tuple at):
    """The part of `shape`, (lo, hi) of each axis in turn, that lies in v where v[at] is its first element; None if there is none.
    v None: all of it."""
    cdef list out = []
    if v is None:
        for n in shape:
            out += (0, n)
        return tuple(out)
    for n, size, a in zip(shape, v.shape, at):
        lo, hi = max(0, -a), min(n, size - a)
        if lo >= hi:
            return None
        out += (lo, hi)
    return tuple(out)


cdef Value _moved(Value v, tuple shape, tuple at):
    """A view of v over `shape` whose first element is v[at], in memory where v has one."""
    cdef tuple box
    cdef list strides = [], inside = []
    if v.buf is None:
        return Value(None, shape, (0,) * len(shape), 0, v.dtype, v.scalar, v.tag)
    box = _box(v, shape, at)
    if box is None:
        return Value(None, shape, (0,) * len(shape), 0, v.dtype, v.dtype.type(0))
    offset = v.offset
    single = all([hi - lo == 1 or not s for s, lo, hi in zip(v.strides, box[::2], box[1::2])])
    for n, s, a, lo, hi in zip(shape, v.strides, at, box[::2], box[1::2]):
        if single and s:                   # the one element there is stands for all
            offset += (lo + a) * s
            s = 0
        else:
            offset += a * s
        strides.append(s)
        inside += (lo, hi) if s else (0, n)
    box = tuple(inside)
    return Value(v.buf, shape, tuple(strides), offset, v.dtype, None, v.tag, None if box == _box(None, shape, at) else box)
