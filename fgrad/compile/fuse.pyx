"""Fusion: elementwise ops (and reductions of them) over one shape become one instruction of the blocked VM."""
cimport cython

import heapq

from fgrad.config import config

from fgrad.compile.values cimport Buf, Node, Value

cdef enum:
    MAX_OPS = 240
    FEWER_OPS = 120                # of arrays that are shorter than a strip of stages: loops have them inline, each result in a place of its own
    SHORT = 256
    MAX_INPUTS = 28
    FRAMED = 12_000                # elements of a shape of which windows are read for a frame's sake (see shift)


@cython.freelist(64)
cdef class Unit:
    """What becomes one instruction: a fused group, or a single kernel, control or callback node."""

    def __init__(self, Node node, Py_ssize_t uid, set reads=None):
        self.nodes = [node]
        self.fused = node.kind == "ew" or node.kind == "reduce"
        self.shape, self.axes = node.shape, node.axes
        self.id = uid
        self.bits, self.before = 1 << <object>uid, 0
        self.followers = set()
        self.reads = reads_of(node) if reads is None else reads
        self.framed = self.fused and is_framed(node)


def live_nodes(list nodes, list outputs):
    """The nodes that the outputs need; those with effects stay."""
    cdef Node node
    cdef Value v
    cdef set live = set()
    cdef list out = []
    if not config.pass_dce:
        return nodes
    for v in outputs:
        if v.buf is not None:
            live.add(v.buf.node)
    for node in reversed(nodes):
        if node.effects or node in live:
            out.append(node)
            for v in node.ins:
                if v.buf is not None:
                    live.add(v.buf.node)
    out.reverse()
    return out


def kernels_of(list nodes):
    """The names of the kernels and reductions among the nodes."""
    cdef Node node
    cdef set out = set()
    for node in nodes:
        if node.kind == "kernel" or node.kind == "reduce":
            out.add(node.op)
    return out


def has_short_rows(list nodes, Py_ssize_t most):
    """True if an elementwise operation is over several rows of 2 to `most` elements."""
    cdef Node node
    cdef tuple shape, last = None            # most operations have their operands' shape
    for node in nodes:
        if node.kind == "ew" and node.shape is not last:
            last = shape = node.shape
            if len(shape) > 1 and 1 < shape[len(shape) - 1] <= most:
                return True
    return False


def computes(list nodes, ops):
    """True if one of these elementwise operations is among the nodes."""
    cdef Node node
    for node in nodes:
        if node.kind == "ew" and node.op in ops:
            return True
    return False


def reductions(list nodes):
    """The nodes that are reductions."""
    cdef Node node
    return [node for node in nodes if node.kind == "reduce"]


def readers_of(list nodes, outs=()):
    """By buffer, the nodes that read it, once for each operand, and None for each of `outs`, which the program's caller reads."""
    cdef Node node
    cdef Value v
    cdef dict out = {}
    for node in nodes:
        for v in node.ins:
            if v.buf is not None:
                known = out.get(v.buf)
                if known is None:
                    out[v.buf] = [node]
                else:
                    (<list>known).append(node)
    for v in outs:
        if v.buf is not None:
            out.setdefault(v.buf, []).append(None)
    return out


def takes_parts(list nodes, Py_ssize_t least):
    """True if a node takes a part of what elementwise operations, copies, products, gathers or concatenations give, of `least` elements or
    more (see gathered)."""
    cdef Node node, made
    cdef Value v
    for node in nodes:
        for v in node.ins:
            if v.buf is None or v.buf.node is None or v.buf.size < least:
                continue
            made = v.buf.node
            if made.kind == "ew" or made.op == "copy" or made.op == "dot":
                if not v.whole() or node.op == "gather" or node.op == "dynamic_slice":
                    return True
            elif (made.op == "gather" or made.op == "concatenate") and not v.whole():
                return True
    return False


def reads_reshaped(list nodes):
    """True if an elementwise operation or a reduction reads the whole of an elementwise result in another shape (see squeezed)."""
    cdef Node node, made
    cdef Value v
    for node in nodes:
        if node.kind == "ew" or node.kind == "reduce":
            for v in node.ins:
                if v.buf is not None and v.buf.node is not None:
                    made = v.buf.node
                    if made.kind == "ew" and v.shape is not made.shape and v.shape != made.shape and v.whole():
                        return True
    return False


def reads_boxes(list units):
    """True if a unit reads part of its shape alone (see Value.box)."""
    cdef Unit unit
    cdef Node node
    cdef Value v
    for unit in units:
        for node in unit.nodes:
            for v in node.ins:
                if v.box is not None:
                    return True
    return False


cpdef bint in_register(Value v, tuple shape):
    """True if v can be read from the register of the op that computes it."""
    if v.buf is None or v.buf.node is None:
        return False
    return (<Node>v.buf.node).kind == "ew" and (v.shape is shape or v.shape == shape) and v.whole()


def fuse(list nodes):
    """Units in an order that respects every dependency (and the program order of side effects)."""
    cdef Fusion fusion = Fusion(nodes)
    cdef Node node
    for node in nodes:
        fusion.place(node)
    if fusion.fuses:
        fusion.share_inputs()
    return fusion.ordered()


cdef set reads_of(Node node):
    cdef Value v
    cdef set out = set()
    for v in node.ins:
        if v.buf is not None:
            out.add(v.buf)
    return out


cdef set makers_of(set reads):
    """The units that compute the buffers: not arguments and constants."""
    cdef Buf b
    cdef set out = set()
    for b in reads:
        if b.node is not None:
            out.add((<Node>b.node).group)
    return out


cdef inline bint made_in(Buf b, Unit unit):
    return b.node is not None and (<Node>b.node).group is unit


cdef Unit only_home(Node node):
    """The group that computes all that a node does not read from arguments, where the node can join it; else None."""
    cdef Unit home = None
    cdef Value v
    cdef Py_ssize_t n = 0
    for v in node.ins:
        if v.buf is None:
            continue
        if v.buf.node is None:
            n += 1
            continue
        if home is None:
            home = (<Node>v.buf.node).group
        elif (<Node>v.buf.node).group is not home:
            return None
        if not in_register(v, node.shape):
            return None
    if home is None or not fits(node, home) or is_full(home.shape, len(home.nodes)) or len(home.reads) + n > MAX_INPUTS:
        return None
    return home


cdef bint is_full(tuple shape, Py_ssize_t ops) except -1:
    """True if a group over `shape` takes no more than so many operations."""
    cdef Py_ssize_t size = 1
    if ops < FEWER_OPS or ops >= MAX_OPS:
        return ops >= MAX_OPS
    for n in shape:
        size *= n
    return size < SHORT


cdef class Fusion:
    """Units under construction. A unit's `before` mask is kept transitive, so that a cycle shows before it is made."""
    cdef dict units
    cdef set moved             # results that operations over the same shape read at other places
    cdef Py_ssize_t count
    cdef list effects
    cdef bint fuses

    def __init__(self, list nodes):
        self.units, self.effects, self.moved = {}, [], set()
        self.fuses = config.pass_fuse
        cdef Node node
        cdef Value v
        cdef Py_ssize_t i = 0
        for node in nodes:
            node.position = i
            i += 1
            if node.kind == "ew":
                for v in node.ins:
                    if v.box is not None and v.buf is not None and v.buf.node is not None and (<Node>v.buf.node).kind == "ew":
                        self.moved.add(v.buf)

    cdef int place(self, Node node) except -1:
        """Put a node into a group of its operands, or into a unit of its own."""
        cdef Unit home = None, g
        cdef Buf b
        cdef Value v
        cdef set reads, makers
        if self.fuses and (node.kind == "ew" or node.kind == "reduce"):
            home = only_home(node)
            if home is not None:
                home.nodes.append(node)
                for v in node.ins:
                    if v.buf is not None and not made_in(v.buf, home):
                        home.reads.add(v.buf)
                home.axes = home.axes or node.axes
                home.framed = home.framed or is_framed(node)
                node.group = home
                return 0
        reads = reads_of(node)
        makers = makers_of(reads)
        if self.fuses and makers and (node.kind == "ew" or node.kind == "reduce"):
            home = self.home_of(node, reads, makers)
        if home is None:
            home = self.units[self.count] = Unit(node, self.count, reads)
            self.count += 1
        else:
            home.nodes.append(node)
            for b in reads:
                if not made_in(b, home):
                    home.reads.add(b)
            home.axes = home.axes or node.axes
            home.framed = home.framed or is_framed(node)
            if len(makers) > 1:
                makers = makers_of(reads)             # some have been merged
            makers.discard(home)
        node.group = home
        if node.effects:
            makers.update(self.effects[-1:])
            self.effects.append(home)
        before = 0
        for g in makers:
            before |= g.before | g.bits
            g.followers.add(home)
        self.come_after(home, before)
        return 0

    cdef int come_after(self, Unit unit, before) except -1:
        """unit must follow the units of a mask: so must what follows it."""
        cdef Unit u
        cdef list waiting
        if not before & ~unit.before:
            return 0
        waiting = [unit]
        while waiting:
            u = waiting.pop()
            while u.merged_into is not None:
                u = u.merged_into
            if before & ~u.before:
                u.before |= before
                waiting.extend(u.followers)
        return 0

    cdef Unit home_of(self, Node node, set reads, set makers):
        """The group that the node joins; groups of its operands become one where that is possible."""
        cdef list groups = []
        cdef set through_memory = set()
        cdef Value v
        cdef Unit g, s
        cdef Buf b
        cdef Py_ssize_t n
        cdef bint merged = False, blocked
        for v in node.ins:
            if v.buf is not None and v.buf.node is not None and not in_register(v, node.shape):
                through_memory.add((<Node>v.buf.node).group)
        if len(through_memory) == len(makers):
            return None
        for g in latest_first(makers) if len(makers) > 1 else makers:
            if fits(node, g) and g not in through_memory:
                if groups and not self.delays(groups[0], g) and self.can_merge(groups[0], g):
                    self.merge(groups[0], g)
                    merged = True
                else:
                    groups.append(g)
        if merged:
            makers = makers_of(reads)
        for g in groups:
            if is_full(g.shape, len(g.nodes)):
                continue
            blocked = False
            for s in makers:
                if s is not g and s.before & g.bits:
                    blocked = True
                    break
            if blocked:
                continue
            n = len(g.reads) + len(reads)
            if n > MAX_INPUTS:
                n = len(g.reads)
                for b in reads:
                    n += not made_in(b, g) and b not in g.reads
            if n <= MAX_INPUTS:
                return g
        return None

    cdef bint delays(self, Unit late, Unit early) except -1:
        """True if `early` computes what others read at other places, and so from memory, and would wait in `late` for what it needs not:
        then there were three groups, one after the other, instead of two."""
        cdef Node n
        if not self.moved or not late.before & ~(early.before | early.bits):
            return False
        for n in early.nodes:
            if n.outs[0].buf in self.moved:
                return True
        return False

    cdef set joint_reads(self, Unit a, Unit b):
        """The buffers that two groups read from outside of both."""
        cdef Buf r
        cdef set out = set()
        for r in a.reads:
            if not made_in(r, b):
                out.add(r)
        for r in b.reads:
            if not made_in(r, a):
                out.add(r)
        return out

    cdef bint can_merge(self, Unit a, Unit b) except? -1:
        """True if two groups can be one instruction: one reads the other in registers, and no third one stands between them."""
        if a is b or not (a.fused and b.fused) or a.shape != b.shape or (a.axes and b.axes and a.axes != b.axes):
            return False
        if (a.framed and b.axes) or (b.framed and a.axes):
            return False
        if is_full(a.shape, len(a.nodes) + len(b.nodes)):
            return False
        if len(a.reads) + len(b.reads) > MAX_INPUTS and len(self.joint_reads(a, b)) > MAX_INPUTS:
            return False
        if b.before & a.bits:
            return self.follows(a, b)
        if a.before & b.bits:
            return self.follows(b, a)
        return True

    cdef bint follows(self, Unit first, Unit last) except? -1:
        """True if all that `last` needs of `first` it has in registers, and from `first` itself."""
        cdef Unit u
        cdef Node n
        cdef Value v
        for u in makers_of(last.reads):
            if u is not first and u.before & first.bits:
                return False
        for n in last.nodes:
            for v in n.ins:
                if v.buf is not None and made_in(v.buf, first) and not in_register(v, first.shape):
                    return False
        return True

    cdef int merge(self, Unit a, Unit b) except -1:
        """b becomes part of a."""
        cdef Node n
        cdef Unit f
        cdef set reads = self.joint_reads(a, b)
        a.nodes = in_program_order(a.nodes, b.nodes)
        a.axes = a.axes or b.axes
        a.framed = a.framed or b.framed
        a.reads = reads
        for n in b.nodes:
            n.group = a
        del self.units[b.id]
        b.merged_into = a
        a.bits |= b.bits
        a.followers |= b.followers
        a.before = before = (a.before | b.before) & ~a.bits
        for f in a.followers:
            self.come_after(f, before)
        return 0

    cdef int share_inputs(self) except -1:
        """Groups of one shape that read the same memory become one: it is read once."""
        cdef dict readers = {}     # (shape, buffer) -> the last groups that read it
        cdef Unit u, other
        cdef list mine, groups
        cdef set seen = set(), shared = set()       # what several groups read
        cdef Buf b
        for u in self.units.values():
            if u.fused:
                for b in u.reads:
                    (shared if b in seen else seen).add(b)
        if not shared:
            return 0
        for u in list(self.units.values()):
            if not u.fused:
                continue
            mine = [(u.shape, b) for b in u.reads if b in shared]
            if not mine:
                continue
            others = set()
            for key in mine:
                others.update(readers.get(key, ()))
            for other in sorted(others, key=_earliest):
                if not (u.before & other.bits) and not (other.before & u.bits) and self.can_merge(other, u):
                    self.merge(other, u)
                    u = other
                    break
            for key in mine:
                groups = readers.setdefault(key, [])
                if u not in groups:
                    groups.append(u)
                    del groups[:-8]
        return 0

    cdef bint in_order(self) except -1:
        """True if no unit needs a later one: merges have moved nothing."""
        cdef Unit u, before = None
        cdef Buf b
        for u in self.units.values():
            for b in u.reads:
                if b.node is not None and (<Unit>(<Node>b.node).group).id >= u.id:
                    return False
        for u in self.effects:
            if before is not None and before.id >= u.id:
                return False
            before = u
        return True

    cdef list ordered(self):
        """The units, producers first; otherwise in program order."""
        cdef dict followers, waiting = {}
        cdef Unit u, p
        cdef set producers
        if self.in_order():
            out = list(self.units.values())
            for u in out:
                u.followers.clear()
            return out
        followers = {i: [] for i in self.units}
        previous = dict(zip(self.effects[1:], self.effects))
        for u in self.units.values():
            producers = makers_of(u.reads)
            if u in previous:
                producers.add(previous[u])
            waiting[u.id] = len(producers)
            for p in producers:
                (<list>followers[p.id]).append(u.id)
        ready = [i for i, n in waiting.items() if not n]
        heapq.heapify(ready)
        out = []
        while ready:
            i = heapq.heappop(ready)
            out.append(self.units[i])
            for f in <list>followers[i]:
                waiting[f] -= 1
                if not waiting[f]:
                    heapq.heappush(ready, f)
        assert len(out) == len(self.units), "fusion made a cycle"
        for u in out:
            u.followers.clear()    # some of them have become part of u itself
        return out


cdef list in_program_order(list a, list b):
    """The nodes of two groups, each in the order of the program, in that order."""
    cdef list out = []
    cdef Py_ssize_t i = 0, j = 0, m = len(a), n = len(b)
    if (<Node>a[m - 1]).position < (<Node>b[0]).position:
        return a + b
    while i < m and j < n:
        if (<Node>a[i]).position < (<Node>b[j]).position:
            out.append(a[i])
            i += 1
        else:
            out.append(b[j])
            j += 1
    out += a[i:]
    out += b[j:]
    return out


cdef list latest_first(set units):
    """The units in descending order of their numbers: there are few."""
    cdef list out = []
    cdef Unit u
    cdef Py_ssize_t i
    for u in units:
        i = len(out)
        while i and (<Unit>out[i - 1]).id < u.id:
            i -= 1
        out.insert(i, u)
    return out


def _earliest(Unit g):
    return g.id


cdef bint is_framed(Node node) except? -1:
    """True for an operation over a small shape that reads a part of it alone."""
    cdef Value v
    if node.kind != "ew" or node.shape is None or len(node.shape) < 2:
        return False
    for v in node.ins:
        if v.box is not None:
            return elements_of(node.shape) < FRAMED
    return False


cdef Py_ssize_t elements_of(tuple shape) except -1:
    cdef Py_ssize_t n = 1
    for d in shape:
        n *= <Py_ssize_t>d
    return n


cdef bint fits(Node node, Unit g) except? -1:
    return g.fused and (g.shape is node.shape or g.shape == node.shape) and not (
        node.axes is not None and (g.framed or (g.axes is not None and g.axes != node.axes))
    ) and not (g.axes is not None and is_framed(node))
