"""Rematerialisation: what is cheap to compute again from memory that is read anyway is not written to memory.

A result that passes from one group to others beyond a sum over all rows (a residual of the backward pass, as a rule) is computed again
by those that read it, where that moves fewer bytes than writing it once and reading it in each of them, and costs no more than a few
additions an element. What needs no such sum to be finished passes between tiles of rows (see tile), in cache, and is left as it is,
unless all that it is computed of is small, as differences of all pairs are.
"""

from fgrad._kernels import elementwise as vm
from fgrad.config import config

from fgrad.compile.fuse cimport Unit, in_register
from fgrad.compile.values cimport Buf, Node, Value, row_major

WORTH_BYTES = 8 << 20  # of a result: less comes out of the shared cache about as fast as it is computed
SPREAD_BYTES = 1 << 20  # of one that is computed of what is smaller by this factor:
SPREAD = 2

cdef enum:
    WORK = 6            # additions for each element, in all readers together, that cost less than writing and reading it
    INPUTS = 24         # of a reader
    OPS = 100
    MOST_BYTES = 16     # of an element

cdef dict _weights = vm.WEIGHTS


def recompute(list units, list outs, donated):
    """units, with what is computed again moved into the groups that read it. donated: the arguments whose memory may be taken over."""
    cdef Unit u
    cdef Node n
    least = min(SPREAD_BYTES, WORTH_BYTES)
    if config.pass_recompute and config.pass_fuse:
        for u in units:
            if u.fused:
                for n in u.nodes:
                    if _is_worth(n, least):
                        return _Recompute(units, outs, donated).rewritten()
    return units


cdef bint _is_worth(Node n, least) except -1:
    """True for a large result of an elementwise operation; not for floats of 16 bits, which are rounded on their way to memory."""
    cdef Buf b = (<Value>n.outs[0]).buf
    if n.kind != "ew" or b.size * MOST_BYTES < least:
        return False
    kind, itemsize = b.dtype.kind, b.dtype.itemsize
    return b.size * itemsize >= least and (kind in "biuc" or (kind == "f" and itemsize > 2))


cdef class _Recompute:
    cdef list units
    cdef dict at               # unit -> its place
    cdef dict stage            # unit -> how many sums over all rows must be finished, one after the other, before it can begin
    cdef dict readers          # buffer -> {a unit that reads it from memory: None}
    cdef set kept              # buffers of the program's results
    cdef object donated

    def __init__(self, list units, list outs, donated):
        cdef Unit u
        cdef Buf b
        cdef Value v
        self.units, self.donated = units, donated
        self.at = {u: i for i, u in enumerate(units)}
        self.kept = {v.buf for v in outs if v.buf is not None}
        self.readers = {}
        for u in units:
            for b in u.reads:
                self.readers.setdefault(b, {})[u] = None
        self.stage = {}
        for u in units:
            self.stage[u] = max([self.stage_after(b) for b in u.reads], default=0)

    cdef object stage_after(self, Buf b):
        cdef Node n = b.node
        return 0 if n is None else self.stage[n.group] + (n.kind == "reduce" and 0 in n.axes)

    def rewritten(self):
        cdef Unit u
        cdef Node n
        cdef Buf b
        least = min(SPREAD_BYTES, WORTH_BYTES)
        for u in self.units:
            if not u.fused:
                continue
            for n in u.nodes[::-1]:
                b = (<Value>n.outs[0]).buf
                if b in self.readers and b not in self.kept and _is_worth(n, least):
                    self.consider(u, n, b)
        return [u for u in self.units if u.nodes]

    cdef int consider(self, Unit u, Node n, Buf b) except -1:
        cdef Unit r
        cdef Node m
        cdef Value v
        cdef dict readers = self.readers[b]
        for r in readers:
            if not r.fused or r.shape != n.shape:
                return 0
            for m in r.nodes:
                for v in m.ins:
                    if v.buf is b and not in_register(v, n.shape):
                        return 0
        cdef list again = self.chain(u, n)
        if again is None or sum([<object>_weights.get(m.op, 1) for m in again]) * len(readers) > WORK:
            return 0
        cdef dict leaves = self.leaves(again)
        if sum(leaves.values()) * SPREAD > b.nbytes:
            for r in readers:
                plain = not any([m.kind == "ew" for m in r.nodes])       # these read where memory lies
                if plain or b.nbytes < WORTH_BYTES or self.stage[r] == self.stage[u]:
                    return 0
        if self.pays(b, leaves, readers):
            for r in list(readers):
                self.move(again, leaves, r, b)
            del self.readers[b]
            self.prune(u)
        return 0

    cdef list chain(self, Unit u, Node n):
        """n and the operations of its group that it needs and that are not in memory, operands first; None if they are not repeated."""
        cdef list out = [], waiting = [n]
        cdef Node x
        cdef Value v
        cdef Buf b
        while waiting:
            x = waiting.pop()
            if x in out:
                out.remove(x)              # it is needed earlier, too
            out.append(x)
            if x.op == "window" or x.op == "take" or x.op == "take2" or len(out) > WORK:
                return None
            for v in x.ins:
                b = v.buf
                if v.box is not None:
                    return None
                if b is None or not in_register(v, n.shape) or (<Node>b.node).group is not u:
                    continue
                if b not in self.readers and b not in self.kept:
                    waiting.append(b.node)
        out.reverse()
        return out

    cdef dict leaves(self, list chain):
        """{buffer that the chain reads from memory: bytes of it}"""
        cdef dict out = {}
        cdef Node x
        cdef Value v
        made = {(<Value>x.outs[0]).buf for x in chain}
        for x in chain:
            for v in x.ins:
                if v.buf is not None and v.buf not in made:
                    out[v.buf] = max(out.get(v.buf, 0), _span(v))
        return out

    cdef bint pays(self, Buf b, dict leaves, dict readers) except -1:
        """True if less is moved. Only rows and columns are kept for longer: a result that takes over what is read last costs little."""
        cdef Unit r
        cdef Buf leaf
        size, longer, until = b.nbytes, 0, max([self.at[r] for r in readers])
        gain = size * (1 + len(readers))
        for leaf in leaves:
            stays = leaf.kind == "const" or leaf in self.kept or (leaf.kind == "arg" and leaf.index not in self.donated)
            if not stays and max([self.at[r] for r in self.readers[leaf]]) < until:
                longer += leaf.nbytes
        for r in readers:
            if len(r.reads) + len(leaves) > INPUTS or len(r.nodes) > OPS:
                return False
            gain -= sum([n for leaf, n in leaves.items() if leaf not in r.reads])
        return 2 * gain >= size >= (SPREAD if sum(leaves.values()) * SPREAD <= size else 16) * longer

    cdef int move(self, list chain, dict leaves, Unit r, Buf b) except -1:
        """Put copies of the chain, whose last result is b, before the nodes of r, which read them in the place of b."""
        cdef dict made = {}
        cdef list nodes = []
        cdef Node x, copy
        cdef Value v, out
        cdef Buf leaf
        for x in chain:
            v = x.outs[0]
            out = Value(Buf("temp", v.buf.dtype, v.buf.size), v.shape, row_major(v.shape), 0, v.dtype, None, v.tag)
            copy = Node("ew", x.op, [_instead(v, made) for v in x.ins], [out], x.shape, x.ip, x.fp, obj=x.obj, type_code=x.type_code)
            out.buf.node, copy.group = copy, r
            made[v.buf] = out
            nodes.append(copy)
        for x in r.nodes:
            x.ins = [_instead(v, made) for v in x.ins]
        r.nodes = nodes + r.nodes
        r.reads.discard(b)
        for leaf in leaves:
            r.reads.add(leaf)
            self.readers.setdefault(leaf, {})[r] = None
        return 0

    cdef int prune(self, Unit u) except -1:
        """Leave out of u what nobody reads any more."""
        cdef Node n
        cdef Value v
        cdef Buf b
        cdef set needed = set(), reads = set()
        cdef list nodes = []
        for n in reversed(u.nodes):
            if not any([v.buf in needed or v.buf in self.readers or v.buf in self.kept for v in n.outs]):
                continue
            nodes.append(n)
            needed.update([v.buf for v in n.ins])
        nodes.reverse()
        u.nodes = nodes
        for n in nodes:
            for v in n.ins:
                if v.buf is not None and not (v.buf.node is not None and (<Node>v.buf.node).group is u):
                    reads.add(v.buf)
        for b in u.reads - reads:
            u.reads.discard(b)
            self.readers[b].pop(u, None)
        return 0


cdef Value _instead(Value v, dict made):
    return v if v.buf is None else made.get(v.buf, v)


cdef object _span(Value v):
    """Bytes of memory that a value shows, at most."""
    size = v.dtype.itemsize
    for n, s in zip(v.shape, v.strides):
        if s:
            size *= n
    return min(size, v.buf.nbytes)
