"""Buffer planning: where each value lives in the arena, what runs in place, which outputs take over donated arguments."""

import bisect

ALIGN = 64


class _Arena:
    """Offsets by best fit over the free gaps."""

    def __init__(self):
        self.end = 0
        self.gaps, self.by_size = [], []  # (start, size) and (size, start), both sorted

    def add(self, at, size):
        bisect.insort(self.gaps, (at, size))
        bisect.insort(self.by_size, (size, at))

    def remove(self, i):
        at, size = self.gaps.pop(i)
        del self.by_size[bisect.bisect_left(self.by_size, (size, at))]
        return at, size

    def take(self, n):
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

    def give(self, at, n):
        n = -(-max(n, 1) // ALIGN) * ALIGN
        i = bisect.bisect(self.gaps, (at, n))
        if i < len(self.gaps) and at + n == self.gaps[i][0]:
            n += self.remove(i)[1]
        if i and sum(self.gaps[i - 1]) == at:
            at, size = self.remove(i - 1)
            n += size
        self.add(at, n)


def _misread(unit):
    """The buffers that a fused group reads otherwise than each element where it writes the same one."""
    shape = unit.shape
    return {v.buf for node in unit.nodes for v in node.ins if v.buf is not None and not (v.shape == shape and v.whole())}


def _in_place(unit, misread, buf, out):
    """True if a fused group may write `out` over `buf`."""
    return unit.fused and out.dtype.itemsize == buf.dtype.itemsize and out.size == buf.size and not buf.strided and buf not in misread


_OVERWRITES = ("scatter", "dynamic_update_slice", "copy")


def _overwrites(node, buf, out):
    """True if a kernel node may write `out` over `buf`: its first operand, which it updates in place, and reads nowhere else."""
    if node.kind != "kernel" or node.op not in _OVERWRITES or buf.strided or out.nbytes != buf.nbytes:
        return False
    first, *rest = node.ins
    return first.buf is buf and first.whole() and all(v.buf is not buf for v in rest)


def plan(units, in_memory, outs, modes, donated, in_avals, carry=None):
    """Set the arena offset of every temporary; returns (arena bytes, {output: donated argument it takes over}).

    carry: (k, n) lets output j < n take over argument k + j, and no other: the carry of a loop.
    """
    last = {}
    for i, u in enumerate(units):
        last.update(dict.fromkeys([id(b) for b in u.reads], i))
        last.update([(id(o.buf), i) for node in u.nodes for o in node.outs])
    donors = _donate(units, last, outs, modes, donated, in_avals, carry)
    arena = _Arena()
    for i, u in enumerate(units):
        written = [o.buf for node in u.nodes for o in node.outs if id(o.buf) in in_memory]
        dying = [b for b in u.reads if b.offset is not None and last[id(b)] == i and b.kind == "temp" and id(b) in in_memory]
        if len(dying) > 1:
            order = {v.buf: k for k, v in enumerate(reversed([v for node in u.nodes for v in node.ins]))}
            dying.sort(key=order.__getitem__, reverse=True)
        misread = _misread(u) if dying and u.fused else ()
        for out in written:
            if out.base is not None or out.offset is not None:
                continue
            if dying and (out.node.kind == "ew" or u.nodes[0].kind == "kernel"):
                for k, b in enumerate(dying):
                    if _in_place(u, misread, b, out) or _overwrites(u.nodes[0], b, out):
                        out.offset = b.offset
                        del dying[k]
                        break
            if out.offset is None:
                out.offset = arena.take(out.nbytes)
        for b in dying:
            arena.give(b.offset, b.nbytes)
        for out in written:
            if out.base is None and last[id(out)] == i:  # workspace, or a result that nobody reads
                arena.give(out.offset, out.nbytes)
    return max(arena.end, ALIGN), donors


def _donate(units, last, outs, modes, donated, in_avals, carry):
    """Match outputs with donated arguments of their size that nobody reads after the output is first written."""
    if carry is not None:
        donated = range(carry[0], carry[0] + carry[1])
    if not donated:
        return {}
    defined = {id(o.buf): (i, u, node) for i, u in enumerate(units) for node in u.nodes for o in node.outs}
    args = {b.index: b for u in units for b in u.reads if b.kind == "arg"}
    free: dict = {}  # bytes -> the arguments of that size
    for k in donated:
        free.setdefault(in_avals[k].size * in_avals[k].dtype.itemsize, set()).add(k)
    misread, donors = {}, {}
    for j, v in enumerate(outs):
        if modes[j] != -1:
            continue
        i, u, node = defined[id(v.buf)]
        same_size = free.get(v.buf.nbytes, set()) if v.buf.nbytes else set()
        if node.kind == "ew" and same_size and i not in misread:
            misread[i] = _misread(u)
        choices = []
        for k in same_size if carry is None else same_size & {carry[0] + j}:
            buf = args.get(k)
            when = -1 if buf is None else last[id(buf)]
            if when < i or (when == i and ((node.kind == "ew" and _in_place(u, misread[i], buf, v.buf)) or _overwrites(node, buf, v.buf))):
                choices.append((when != i, k))
        if choices:
            k = min(choices)[1]
            donors[j] = k
            same_size.discard(k)
    return donors
