"""Fusion: elementwise ops (and reductions of them) over one shape become one instruction of the blocked VM."""

import heapq

from fgrad.config import config

MAX_OPS = 120
MAX_INPUTS = 28


class Unit:
    """What becomes one instruction: a fused group, or a single kernel, control or callback node."""

    __slots__ = ("nodes", "shape", "axes", "id", "bits", "before", "followers", "merged_into", "fused", "reads")

    def __init__(self, node, uid):
        self.nodes = [node]
        self.fused = node.kind in ("ew", "reduce")
        self.shape = node.shape
        self.axes = node.axes
        self.id = uid
        self.bits = 1 << uid  # one bit for each unit that has become part of this one
        self.before = 0  # the bits of the units that must come earlier
        self.followers = set()  # some of the units that must come later: the others follow these
        self.merged_into = None
        self.reads = _reads(node)  # buffers from outside


def live_nodes(nodes, outputs):
    """The nodes that the outputs need; those with effects stay."""
    if not config.pass_dce:
        return nodes
    live, out = {v.buf.node for v in outputs if v.buf is not None}, []
    for node in reversed(nodes):
        if node in live or node.effects:
            out.append(node)
            live.update([v.buf.node for v in node.ins if v.buf is not None])
    return out[::-1]


def in_register(v, shape):
    """True if v can be read from the register of the op that computes it."""
    return v.buf.node.kind == "ew" and v.shape == shape and v.whole()


def fuse(nodes):
    """Units in an order that respects every dependency (and the program order of side effects)."""
    fusion = _Fusion(nodes)
    for node in nodes:
        fusion.place(node)
    if config.pass_fuse:
        fusion.share_inputs()
    return fusion.ordered()


def _reads(node):
    return {v.buf for v in node.ins if v.buf is not None}


def _makers(reads):
    """The units that compute the buffers: not arguments and constants."""
    return {b.node.group for b in reads if b.node is not None}


def _outside(reads, group):
    """Those of the buffers that the group does not compute."""
    return [b for b in reads if b.node is None or b.node.group is not group]


class _Fusion:
    """Units under construction. A unit's `before` mask is kept transitive, so that a cycle shows before it is made."""

    def __init__(self, nodes):
        self.position = {n: i for i, n in enumerate(nodes)}
        self.units = {}
        self.count = 0
        self.effects = []
        self.fuses = config.pass_fuse

    def place(self, node):
        """Put a node into a group of its operands, or into a unit of its own."""
        home = None
        reads = _reads(node)
        makers = _makers(reads)
        if self.fuses and makers and node.kind in ("ew", "reduce"):
            home = self.home_of(node, reads, makers)
        if home is None:
            home = self.units[self.count] = Unit(node, self.count)
            self.count += 1
        else:
            home.nodes.append(node)
            home.reads.update(_outside(reads, home))
            home.axes = home.axes or node.axes
            makers = _makers(reads)  # some have been merged
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

    @staticmethod
    def come_after(unit, before):
        """unit must follow the units of a mask: so must what follows it."""
        waiting = [unit]
        while waiting:
            u = waiting.pop()
            while u.merged_into is not None:
                u = u.merged_into
            if before & ~u.before:
                u.before |= before
                waiting += u.followers

    def home_of(self, node, reads, makers):
        """The group that the node joins; groups of its operands become one where that is possible."""
        shape, groups, merged = node.shape, [], False
        through_memory = {b.node.group for v in node.ins if (b := v.buf) is not None and b.node is not None and not in_register(v, shape)}
        for g in sorted(makers, key=lambda g: -g.id) if len(makers) > 1 else makers:
            if _fits(node, g) and g not in through_memory:
                if groups and self.can_merge(groups[0], g):
                    self.merge(groups[0], g)
                    merged = True
                else:
                    groups.append(g)
        if merged:
            makers = _makers(reads)
        for g in groups:
            if len(g.nodes) >= MAX_OPS or any([s.before & g.bits for s in makers if s is not g]):
                continue
            if len(g.reads) + len(reads) <= MAX_INPUTS or len(g.reads.union(_outside(reads, g))) <= MAX_INPUTS:
                return g
        return None

    @staticmethod
    def joint_reads(a, b):
        """The buffers that two groups read from outside of both."""
        return {r for r in a.reads | b.reads if r.node is None or (r.node.group is not a and r.node.group is not b)}

    def can_merge(self, a, b):
        """True if two groups can be one instruction: one reads the other in registers, and no third one stands between them."""
        if a is b or not (a.fused and b.fused) or a.shape != b.shape or (a.axes and b.axes and a.axes != b.axes):
            return False
        if len(a.nodes) + len(b.nodes) >= MAX_OPS or len(self.joint_reads(a, b)) > MAX_INPUTS:
            return False
        for first, last in ((a, b), (b, a)):
            if last.before & first.bits:
                if any(u.before & first.bits for u in _makers(last.reads) if u is not first):
                    return False
                return all(
                    in_register(v, a.shape)
                    for n in last.nodes
                    for v in n.ins
                    if v.buf is not None and v.buf.node is not None and v.buf.node.group is first
                )
        return True

    def merge(self, a, b):
        """b becomes part of a."""
        reads = self.joint_reads(a, b)
        a.nodes = sorted(a.nodes + b.nodes, key=self.position.__getitem__)
        a.axes = a.axes or b.axes
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

    def share_inputs(self):
        """Groups of one shape that read the same memory become one: it is read once."""
        readers: dict = {}  # (shape, buffer) -> the last groups that read it
        for u in list(self.units.values()):
            if not u.fused:
                continue
            mine = [(u.shape, b) for b in u.reads]
            others = set().union(*[readers[key] for key in mine if key in readers])
            for other in sorted(others, key=lambda g: g.id):
                if not (u.before & other.bits) and not (other.before & u.bits) and self.can_merge(other, u):
                    self.merge(other, u)
                    u = other
                    break
            for key in mine:
                groups = readers.setdefault(key, [])
                if u not in groups:
                    groups.append(u)
                    del groups[:-8]

    def ordered(self):
        """The units, producers first; otherwise in program order."""
        followers = {i: [] for i in self.units}
        waiting = {}
        previous = dict(zip(self.effects[1:], self.effects))
        for u in self.units.values():
            producers = _makers(u.reads)
            if u in previous:
                producers.add(previous[u])
            waiting[u.id] = len(producers)
            for p in producers:
                followers[p.id].append(u.id)
        ready = [i for i, n in waiting.items() if not n]
        heapq.heapify(ready)
        out = []
        while ready:
            i = heapq.heappop(ready)
            out.append(self.units[i])
            for f in followers[i]:
                waiting[f] -= 1
                if not waiting[f]:
                    heapq.heappush(ready, f)
        assert len(out) == len(self.units), "fusion made a cycle"
        for u in out:
            u.followers.clear()  # some of them have become part of u itself
        return out


def _fits(node, g):
    return g.fused and g.shape == node.shape and not (node.axes is not None and g.axes is not None and g.axes != node.axes)
