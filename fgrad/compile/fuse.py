"""Fusion: elementwise ops (and reductions of them) over one shape become one instruction of the blocked VM."""

import heapq

from fgrad.config import config

MAX_OPS = 120
MAX_INPUTS = 28


class Unit:
    """What becomes one instruction: a fused group, or a single kernel, control or callback node."""

    __slots__ = ("nodes", "shape", "axes", "id", "before", "fused", "reads")

    def __init__(self, node, uid):
        self.nodes = [node]
        self.fused = node.kind in ("ew", "reduce")
        self.shape = node.shape
        self.axes = node.axes
        self.id = uid
        self.before = 0  # bit mask of the units that must come earlier
        self.reads = _reads(node)  # buffers

    @property
    def bit(self):
        return 1 << self.id


def live_nodes(nodes, outputs):
    """The nodes that the outputs need; those with effects stay."""
    if not config.pass_dce:
        return nodes
    live, out = {id(v.buf.node) for v in outputs if v.buf is not None and v.buf.node is not None}, []
    for node in reversed(nodes):
        if id(node) in live or node.effects:
            out.append(node)
            live.update(id(v.buf.node) for v in node.ins if v.buf is not None and v.buf.node is not None)
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


def _group_of(v):
    """The unit that computes value v, or None for arguments and constants."""
    return v.buf.node.group if v.buf is not None and v.buf.node is not None else None


def _reads(node):
    return {v.buf for v in node.ins if v.buf is not None}


class _Fusion:
    """Units under construction. A unit's `before` mask is kept transitive, so that a cycle shows before it is made."""

    def __init__(self, nodes):
        self.position = {id(n): i for i, n in enumerate(nodes)}
        self.units = {}
        self.count = 0
        self.effects = []

    def place(self, node):
        """Put a node into a group of its operands, or into a unit of its own."""
        home = None
        if node.kind in ("ew", "reduce") and config.pass_fuse:
            home = self.home_of(node)
        if home is None:
            home = self.units[self.count] = Unit(node, self.count)
            self.count += 1
        else:
            home.nodes.append(node)
            home.reads |= _reads(node)
            home.axes = home.axes or node.axes
        node.group = home
        before = 0
        for g in {_group_of(v) for v in node.ins} - {None, home}:
            before |= g.before | g.bit
        if node.effects:
            if self.effects:
                last = self.effects[-1]
                before |= last.before | last.bit
            self.effects.append(home)
        self.come_after(home, before)

    def come_after(self, unit, before):
        """unit must follow the units of a mask: so must what follows it."""
        before |= unit.before
        if before != unit.before:
            unit.before = before
            for u in self.units.values():
                if u.before & unit.bit:
                    u.before |= before

    def home_of(self, node):
        """The group that the node joins; groups of its operands become one where that is possible."""
        groups = []
        for g in sorted({_group_of(v) for v in node.ins} - {None}, key=lambda g: -g.id):
            if _fits(node, g) and all(in_register(v, node.shape) for v in node.ins if _group_of(v) is g):
                if groups and self.can_merge(groups[0], g):
                    groups[0] = self.merge(groups[0], g)
                else:
                    groups.append(g)
        for g in groups:
            others = {_group_of(v) for v in node.ins} - {None, g}
            if (
                len(g.nodes) < MAX_OPS
                and self.inputs(g.reads | _reads(node), g) <= MAX_INPUTS
                and not any(s.before & g.bit for s in others)
            ):
                return g
        return None

    @staticmethod
    def inputs(reads, *inside):
        """How many of the buffers come from outside of the given groups."""
        return sum(b.node is None or b.node.group not in inside for b in reads)

    def can_merge(self, a, b):
        """True if two groups can be one instruction: one reads the other in registers, and no third one stands between them."""
        if a is b or not (a.fused and b.fused) or a.shape != b.shape or (a.axes and b.axes and a.axes != b.axes):
            return False
        if len(a.nodes) + len(b.nodes) >= MAX_OPS or self.inputs(a.reads | b.reads, a, b) > MAX_INPUTS:
            return False
        for first, last in ((a, b), (b, a)):
            if last.before & first.bit:
                if any(u.before & first.bit for u in self.units.values() if last.before >> u.id & 1 and u is not first):
                    return False
                return all(in_register(v, a.shape) for n in last.nodes for v in n.ins if _group_of(v) is first)
        return True

    def merge(self, a, b):
        """b becomes part of a."""
        a.nodes = sorted(a.nodes + b.nodes, key=lambda n: self.position[id(n)])
        a.axes = a.axes or b.axes
        a.reads |= b.reads
        for n in b.nodes:
            n.group = a
        del self.units[b.id]
        both = a.bit | b.bit
        a.before = before = (a.before | b.before) & ~both
        for u in self.units.values():
            if u.before & both:
                u.before = (u.before | before | a.bit) & ~b.bit
        return a

    def share_inputs(self):
        """Groups of one shape that read the same memory become one: it is read once."""
        readers: dict = {}  # (shape, buffer) -> the last groups that read it
        for u in list(self.units.values()):
            if not u.fused:
                continue
            mine = [(u.shape, id(v.buf)) for n in u.nodes for v in n.ins if v.buf is not None and _group_of(v) is not u]
            for other in sorted({g for key in mine for g in readers.get(key, ())}, key=lambda g: g.id):
                if not (u.before & other.bit) and not (other.before & u.bit) and self.can_merge(other, u):
                    u = self.merge(other, u)
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
        chained = list(zip(self.effects, self.effects[1:]))
        for u in self.units.values():
            producers = {_group_of(v) for n in u.nodes for v in n.ins} | {a for a, b in chained if b is u}
            producers -= {None, u}
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
        return out


def _fits(node, g):
    return g.fused and g.shape == node.shape and not (node.axes is not None and g.axes is not None and g.axes != node.axes)
