"""Buffer planning: where each value lives in the arena, what runs in place, which outputs take over donated arguments."""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove

from fgrad.compile.fuse cimport Unit
from fgrad.compile.values cimport Buf, Node, Value

cdef enum:
    ALIGN = 64
    FEW = 64                       # elements: fewer are copied in no time
    FAR = 128                      # units to look over for what reads an array that is updated: of a thousand versions of one each would go over all
cdef int64_t MOST = 1 << 60        # bytes: sums of two fit


cdef struct Gap:
    int64_t at, size


cdef class Arena:
    """Offsets by best fit over the free gaps."""
    cdef int64_t end
    cdef Gap *gaps                 # by where they begin; no two touch
    cdef Py_ssize_t count, room

    def __dealloc__(self):
        free(self.gaps)

    cdef Py_ssize_t after(self, int64_t at) noexcept:
        """Which is the first gap that begins behind `at`."""
        cdef Py_ssize_t lo = 0, hi = self.count, mid
        while lo < hi:
            mid = (lo + hi) // 2
            if self.gaps[mid].at > at:
                hi = mid
            else:
                lo = mid + 1
        return lo

    cdef void remove(self, Py_ssize_t i) noexcept:
        self.count -= 1
        memmove(self.gaps + i, self.gaps + i + 1, (self.count - i) * sizeof(Gap))

    cdef int64_t take(self, int64_t n) except -1:
        cdef Py_ssize_t i, best = -1
        cdef int64_t at
        n = _aligned(n)
        for i in range(self.count):
            if self.gaps[i].size >= n and (best < 0 or self.gaps[i].size < self.gaps[best].size):
                best = i
        if best >= 0:
            at = self.gaps[best].at
            self.gaps[best].at += n
            self.gaps[best].size -= n
            if not self.gaps[best].size:
                self.remove(best)
            return at
        at = self.end
        if self.count and self.gaps[self.count - 1].at + self.gaps[self.count - 1].size == at:  # grow the last gap
            self.count -= 1
            at = self.gaps[self.count].at
        if n > MOST or at > MOST:
            raise ValueError(f"temporaries of {at + <object>n} bytes")
        self.end = at + n
        return at

    cdef int give(self, int64_t at, int64_t n) except -1:
        cdef Py_ssize_t i = self.after(at)
        cdef Gap *grown
        n = _aligned(n)
        if i < self.count and at + n == self.gaps[i].at:
            n += self.gaps[i].size
            self.remove(i)
        if i and self.gaps[i - 1].at + self.gaps[i - 1].size == at:
            self.gaps[i - 1].size += n
            return 0
        if self.count == self.room:
            grown = <Gap *>realloc(self.gaps, (2 * self.room + 16) * sizeof(Gap))
            if grown == NULL:
                raise MemoryError()
            self.gaps, self.room = grown, 2 * self.room + 16
        memmove(self.gaps + i + 1, self.gaps + i, (self.count - i) * sizeof(Gap))
        self.gaps[i].at, self.gaps[i].size = at, n
        self.count += 1
        return 0


cdef inline int64_t _aligned(int64_t n) noexcept:
    return (max(n, 1) + ALIGN - 1) // ALIGN * ALIGN


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


cdef list _as_read(Unit u, set buffers):
    """The buffers in the order in which a unit first reads them."""
    cdef Node node
    cdef Value v
    cdef list out = []
    for node in u.nodes:
        for v in node.ins:
            if v.buf in buffers:
                buffers.remove(v.buf)
                out.append(v.buf)
        if not buffers:
            break
    return out


cdef int _set_last(list units) except -1:
    cdef Py_ssize_t i
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef Buf b
    for i in range(len(units)):
        u = units[i]
        for b in u.reads:
            b.last = i
        for node in u.nodes:
            for v in node.outs:
                v.buf.last = i
    return 0


cdef int _read_first(list units, donated, takes) except -1:
    """Put what reads an array before the unit that updates it, where it can be: the array need not be copied for the update."""
    cdef Py_ssize_t i
    cdef Unit u
    cdef Node node
    cdef Buf buf
    cdef list moved
    free = set(donated if takes is None else takes)
    for i in range(len(units)):
        u = units[i]
        node = u.nodes[0]
        if not u.fused and node.kind != "kernel" and node.kind != "control":
            continue
        for buf in u.reads:
            if not i < buf.last <= i + FAR or buf.base is not None or (buf.kind != "temp" and buf.index not in free) or not _updates(u, buf, takes):
                continue
            moved = _late_readers(units, i, buf)
            if moved:
                early = set(moved)
                units[i:] = moved + [w for w in units[i:] if w not in early]
                _set_last(units)
                break
    return 0


cdef bint _updates(Unit u, Buf buf, takes) except -1:
    """True if a unit may write what it makes of a buffer over it: a group, what becomes of a carry."""
    cdef Node node
    cdef Value v
    if not u.fused:
        return any([_overwrites(u.nodes[0], buf, v.buf) for v in (<Node>u.nodes[0]).outs])
    if takes is None or buf.kind != "arg" or buf.size < FEW:
        return False
    for node in u.nodes:
        for v in node.outs:
            if v.buf.base is not None and v.buf.base[1] < len(takes) and takes[v.buf.base[1]] == buf.index:
                return _in_place(u, _misread(u), buf, v.buf)
    return False


cdef list _late_readers(list units, Py_ssize_t at, Buf buf):
    """Those behind the unit `at` that read a buffer, with what they need from behind it; [] if one of them cannot come before it."""
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef Py_ssize_t i
    cdef set needed = {buf}
    cdef list out = []
    for i in range(buf.last, at - 1, -1):              # backwards: what they need
        u = units[i]
        written = {v.buf for node in u.nodes for v in node.outs}
        if i == at:
            return [] if written & needed else out[::-1]
        if buf in u.reads or not written.isdisjoint(needed):
            node = u.nodes[0]
            if not u.fused and (node.kind != "kernel" or node.effects or any([_overwrites(node, buf, v.buf) for v in node.outs])):
                return []
            needed |= u.reads
            out.append(u)


def plan(list units, set in_memory, list outs, list modes, donated, in_avals, takes=None):
    """Set the arena offset of every temporary; returns (arena bytes, {output: donated argument it takes over}).

    takes: lets an output take over one argument, and no other (-1: none): the carry of a loop, an operand of branches.
    units are put in another order where that lets one of them update an array in place.
    """
    cdef Py_ssize_t i, k
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef Buf b, out
    cdef list written, dying
    cdef set misread
    _set_last(units)
    _read_first(units, donated, takes)
    places = _places(units, outs, modes, in_memory)
    donors = _donate(units, places, outs, modes, donated, in_avals, takes)
    arena = Arena()
    for i in range(len(units)):
        u = units[i]
        written, dying = [], []
        for node in u.nodes:
            for v in node.outs:
                if v.buf in in_memory:
                    written.append(v.buf)
        for b in u.reads:
            if b.last == i and b.offset is not None and b.kind == "temp" and b in in_memory:
                dying.append(b)
        if len(dying) > 1:
            dying = _as_read(u, set(dying))
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
            if out.base is None and out.last == i:  # workspace, or a result that nobody reads
                arena.give(out.offset, out.nbytes)
    return max(arena.end, ALIGN), donors


cdef list _places(list units, list outs, list modes, set in_memory):
    """Of each output with memory of its own: (unit number, unit, node, buffer) of what is first written there, else None.

    A temporary that an output is an update of lies in the output's memory from the beginning, and so does what that is an update of.
    """
    cdef dict defined = {}         # buffer -> the unit that first writes it: pieces of it may come from several units (see joined)
    cdef list places = []
    cdef Py_ssize_t i, j
    cdef Unit u
    cdef Node node
    cdef Value v, o
    cdef Buf buf, before
    if -1 in modes:
        for i in range(len(units) - 1, -1, -1):
            for node in (<Unit>units[i]).nodes:
                for o in node.outs:
                    defined[o.buf] = i
    for j in range(len(outs)):
        if modes[j] != -1:
            places.append(None)
            continue
        v = outs[j]
        buf = v.buf
        while True:
            i = defined[buf]
            u = units[i]
            node = _maker(u, buf)
            before = None
            for o in node.ins:
                if o.buf is not None and o.buf.kind == "temp" and o.buf.base is None and o.buf in in_memory and o.buf.last == i:
                    if _overwrites(node, o.buf, buf):
                        before = o.buf
            if before is None:
                break
            before.base = buf.base
            buf = before
        places.append((i, u, node, buf))
    return places


cdef Node _maker(Unit u, Buf buf):
    """The first node of a unit that writes a buffer."""
    cdef Node node
    cdef Value o
    for node in u.nodes:
        for o in node.outs:
            if o.buf is buf:
                return node


cdef dict _donate(list units, list places, list outs, list modes, donated, in_avals, takes):
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
    args = {}
    for u in units:
        for buf in u.reads:
            if buf.kind == "arg":
                args[buf.index] = buf
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
            when = -1 if buf is None else buf.last
            if when < i or (when == i and ((node.kind == "ew" and _in_place(u, misread[i], buf, first)) or _overwrites(node, buf, first))):
                choices.append((when != i, k))
        if choices:
            k = min(choices)[1]
            donors[j] = k
            same_size.discard(k)
    return donors
