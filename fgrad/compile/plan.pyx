"""Buffer planning: where each value lives in the arena, what runs in place, which outputs take over donated arguments."""

import bisect

from fgrad.compile.fuse cimport Unit
from fgrad.compile.values cimport Buf, Node, Value

cdef enum:
    ALIGN = 64


cdef class Arena:
    """Offsets by best fit over the free gaps."""
    cdef object end
    cdef list gaps, by_size

    def __init__(self):
        self.end = 0
        self.gaps, self.by_size = [], []  # (start, size) and (size, start), both sorted

    cdef int add(self, at, size) except -1:
        bisect.insort(self.gaps, (at, size))
        bisect.insort(self.by_size, (size, at))
        return 0

    cdef tuple remove(self, Py_ssize_t i):
        at, size = self.gaps.pop(i)
        del self.by_size[bisect.bisect_left(self.by_size, (size, at))]
        return at, size

    cdef object take(self, n):
        n = -(-max(n, 1) // ALIGN) * ALIGN
        best = bisect.bisect_left(self.by_size, (n, 0))
        if best < len(self.by_size):
            size, at = self.by_size.pop(best)
            del self.gaps[bisect.bisect_left(self.gaps, (at, size))]
            if size > n:
                self.add(at + n, size - n)
            return at
        at = self.end
        if self.gaps and sum(self.gaps[-1]) == at:  # grow the last gap
            at = self.remove(len(self.gaps) - 1)[0]
        self.end = at + n
        return at

    cdef int give(self, at, n) except -1:
        n = -(-max(n, 1) // ALIGN) * ALIGN
        i = bisect.bisect(self.gaps, (at, n))
        if i < len(self.gaps) and at + n == self.gaps[i][0]:
            n += self.remove(i)[1]
        if i and sum(self.gaps[i - 1]) == at:
            at, size = self.remove(i - 1)
            n += size
        return self.add(at, n)


cdef set _misread(Unit unit):
    """The buffers that a fused group reads otherwise than each element where it writes the same one."""
    cdef Node node
    cdef Value v
    cdef set out = set()
    shape = unit.shape
    for node in unit.nodes:
        for v in node.ins:
            if v.buf is not None and not ((v.shape is shape or v.shape == shape) and v.whole()):
                out.add(v.buf)
    return out


cdef bint _in_place(Unit unit, set misread, Buf buf, Buf out):
    """True if a fused group may write `out` over `buf`."""
    if out.room or buf.room or buf.strided:
        return False
    return unit.fused and out.dtype.itemsize == buf.dtype.itemsize and out.size == buf.size and buf not in misread


cdef tuple _OVERWRITES = ("scatter", "dynamic_update_slice", "copy")
cdef tuple _PIECEWISE = ("swiglu", "swiglu_cotangent")         # kernels whose results may lie where any operand does: each element is
                                                               # computed of those at its own place, which are read before it is written


cdef bint _overwrites(Node node, Buf buf, Buf out):
    """True if a kernel, a loop or branches may write `out` over `buf`: an operand that is updated in place, and read nowhere else."""
    cdef Value v
    cdef Py_ssize_t at = 0, i
    if buf.strided or out.nbytes != buf.nbytes:
        return False
    if node.kind == "control" and node.op != "tiles":
        for i in range(len(node.outs)):
            if (<Value>node.outs[i]).buf is out:
                at = node.obj[1].get(i, -1)
        if at < 0:
            return False
    elif node.kind == "kernel" and node.op == "dot" and len(node.ins) == 3:          # a product that is added
        at = 2
    elif node.kind == "kernel" and node.op in _PIECEWISE:
        return all([v.whole() for v in node.ins if v.buf is buf])
    elif node.kind != "kernel" or node.op not in _OVERWRITES:
        return False
    v = node.ins[at]
    if v.buf is not buf or not v.whole():
        return False
    for i in range(len(node.ins)):
        if i != at and (<Value>node.ins[i]).buf is buf:
            return False
    return True


def plan(list units, set in_memory, list outs, list modes, donated, in_avals, takes=None):
    """Set the arena offset of every temporary; returns (arena bytes, {output: donated argument it takes over}).

    takes: lets an output take over one argument, and no other (-1: none): the carry of a loop, an operand of branches.
    """
    cdef dict last = {}            # buffer -> the last unit that reads or writes it
    cdef Py_ssize_t i, k
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef Buf b, out
    cdef list written, dying
    cdef set misread
    for i in range(len(units)):
        u = units[i]
        for b in u.reads:
            last[b] = i
        for node in u.nodes:
            for v in node.outs:
                last[v.buf] = i
    places = _places(units, last, outs, modes, in_memory)
    donors = _donate(places, last, outs, modes, donated, in_avals, takes)
    arena = Arena()
    for i in range(len(units)):
        u = units[i]
        written, dying = [], []
        for node in u.nodes:
            for v in node.outs:
                if v.buf in in_memory:
                    written.append(v.buf)
        for b in u.reads:
            if b.offset is not None and last[b] == i and b.kind == "temp" and b in in_memory:
                dying.append(b)
        if len(dying) > 1:
            order = {v.buf: k for k, v in enumerate(reversed([v for node in u.nodes for v in node.ins]))}
            dying.sort(key=order.__getitem__, reverse=True)
        misread = _misread(u) if dying and u.fused else set()
        for out in written:
            if out.base is not None or out.offset is not None:
                continue
            if dying and ((<Node>out.node).kind == "ew" or (<Node>u.nodes[0]).kind in ("kernel", "control")):
                for k in range(len(dying)):
                    b = dying[k]
                    if _in_place(u, misread, b, out) or _overwrites(u.nodes[0], b, out):
                        out.offset = b.offset
                        del dying[k]
                        break
            if out.offset is None:
                out.offset = arena.take(out.nbytes)
        for b in dying:
            arena.give(b.offset, b.nbytes)
        for out in written:
            if out.base is None and last[out] == i:  # workspace, or a result that nobody reads
                arena.give(out.offset, out.nbytes)
    return max(arena.end, ALIGN), donors


cdef list _places(list units, dict last, list outs, list modes, set in_memory):
    """Of each output with memory of its own: (unit number, unit, node, buffer) of what is first written there, else None.

    A temporary that an output is an update of lies in the output's memory from the beginning, and so does what that is an update of.
    """
    cdef dict defined = {}         # buffer -> where it is first written: pieces of it may come from several units (see joined)
    cdef list places = []
    cdef Py_ssize_t i, j
    cdef Unit u
    cdef Node node
    cdef Value v, o
    cdef Buf buf, before
    for i in range(len(units)):
        u = units[i]
        for node in u.nodes:
            for o in node.outs:
                defined.setdefault(o.buf, (i, u, node))
    for j in range(len(outs)):
        if modes[j] != -1:
            places.append(None)
            continue
        v = outs[j]
        buf = v.buf
        while True:
            i, u, node = defined[buf]
            before = None
            for o in node.ins:
                if o.buf is not None and o.buf.kind == "temp" and o.buf.base is None and o.buf in in_memory and last[o.buf] == i:
                    if _overwrites(node, o.buf, buf):
                        before = o.buf
            if before is None:
                break
            before.base = buf.base
            buf = before
        places.append((i, u, node, buf))
    return places


cdef dict _donate(list places, dict last, list outs, list modes, donated, in_avals, takes):
    """Match outputs with donated arguments of their size that nobody reads after the output is first written."""
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef Buf first, buf
    cdef Py_ssize_t i, j
    if takes is not None:
        donated = [k for k in takes if k >= 0]
    if not donated:
        return {}
    free = {}  # bytes -> the arguments of that size
    for k in donated:
        free.setdefault(in_avals[k].size * in_avals[k].dtype.itemsize, set()).add(k)
    args = {b.index: b for b in last if b.kind == "arg"}
    misread, donors = {}, {}
    for j in range(len(outs)):
        if modes[j] != -1:
            continue
        i, u, node, first = places[j]
        v = outs[j]
        same_size = free.get(v.buf.nbytes, set()) if v.buf.nbytes else set()
        if node.kind == "ew" and same_size and i not in misread:
            misread[i] = _misread(u)
        choices = []
        for k in same_size if takes is None else same_size & set(takes[j:j + 1]):
            buf = args.get(k)
            when = -1 if buf is None else last[buf]
            if when < i or (when == i and ((node.kind == "ew" and _in_place(u, misread[i], buf, first)) or _overwrites(node, buf, first))):
                choices.append((when != i, k))
        if choices:
            k = min(choices)[1]
            donors[j] = k
            same_size.discard(k)
    return donors
