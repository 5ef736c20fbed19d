"""Buffer planning: where each value lives in the arena, what runs in place, which outputs take over donated arguments."""

ALIGN = 64


class _Arena:
    """Offsets by best fit over the free gaps."""

    def __init__(self):
        self.free, self.end = [], 0

    def take(self, n):
        n = -(-max(n, 1) // ALIGN) * ALIGN
        best = None
        for i, (_, size) in enumerate(self.free):
            if size >= n and (best is None or size < self.free[best][1]):
                best = i
        if best is None:
            if self.free and self.free[-1][0] + self.free[-1][1] == self.end:  # grow the last gap
                at, _ = self.free.pop()
                self.end = at + n
                return at
            at, self.end = self.end, self.end + n
            return at
        at, size = self.free.pop(best)
        if size > n:
            self.free.insert(best, (at + n, size - n))
        return at

    def give(self, at, n):
        n = -(-max(n, 1) // ALIGN) * ALIGN
        self.free.append((at, n))
        self.free.sort()
        merged = []
        for a, size in self.free:
            if merged and merged[-1][0] + merged[-1][1] == a:
                merged[-1] = (merged[-1][0], merged[-1][1] + size)
            else:
                merged.append((a, size))
        self.free = merged


def _in_place(unit, buf, out):
    """True if a fused group may write `out` over `buf`: every read of buf there is of the same element at the same place."""
    if not unit.fused or out.dtype.itemsize != buf.dtype.itemsize or out.size != buf.size or buf.strided:
        return False
    reads = [v for node in unit.nodes for v in node.ins if v.buf is buf]
    return all(v.shape == unit.shape and v.whole() for v in reads)


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
        for node in u.nodes:
            for v in (*node.ins, *node.outs):
                if v.buf is not None:
                    last[id(v.buf)] = i
    donors = _donate(units, last, outs, modes, donated, in_avals, carry)
    arena = _Arena()
    for i, u in enumerate(units):
        written = [o.buf for node in u.nodes for o in node.outs if id(o.buf) in in_memory]
        elementwise = {id(o.buf) for node in u.nodes if node.kind == "ew" for o in node.outs}
        dying = {}
        for node in u.nodes:
            for v in node.ins:
                b = v.buf
                if b is not None and b.kind == "temp" and b.offset is not None and last[id(b)] == i and id(b) in in_memory:
                    dying[id(b)] = b
        for out in written:
            if out.base is not None or out.offset is not None:
                continue
            if id(out) in elementwise or u.nodes[0].kind == "kernel":
                for key, b in list(dying.items()):
                    if _in_place(u, b, out) or _overwrites(u.nodes[0], b, out):
                        out.offset = b.offset
                        del dying[key]
                        break
            if out.offset is None:
                out.offset = arena.take(out.nbytes)
        for b in dying.values():
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
    defined, args = {}, {}
    for i, u in enumerate(units):
        for node in u.nodes:
            for o in node.outs:
                defined[id(o.buf)] = (i, u, node)
            for v in node.ins:
                if v.buf is not None and v.buf.kind == "arg":
                    args[v.buf.index] = v.buf
    free, donors = set(donated), {}
    for j, v in enumerate(outs):
        if modes[j] != -1:
            continue
        i, u, node = defined[id(v.buf)]
        choices = []
        for k in free if carry is None else free & {carry[0] + j}:
            if in_avals[k].size * in_avals[k].dtype.itemsize != v.buf.nbytes or v.buf.nbytes == 0:
                continue
            buf = args.get(k)
            when = -1 if buf is None else last[id(buf)]
            if when < i or (when == i and ((node.kind == "ew" and _in_place(u, buf, v.buf)) or _overwrites(node, buf, v.buf))):
                choices.append((when != i, k))
        if choices:
            k = min(choices)[1]
            donors[j] = k
            free.discard(k)
    return donors
