"""Fusion: elementwise ops (and reductions of them) over one shape become one instruction of the blocked VM."""

import heapq

from fgrad.config import config

MAX_OPS = 60
MAX_INPUTS = 28


class Unit:
    """What becomes one instruction: a fused group, or a single kernel, control or callback node."""

    __slots__ = ("nodes", "shape", "axes", "id", "before", "fused", "producers", "n_inputs")

    def __init__(self, node, uid):
        self.nodes = [node]
        self.fused = node.kind in ("ew", "reduce")
        self.shape = node.shape
        self.axes = node.axes
        self.id = uid
        self.before = 0  # bit mask of the units that must come earlier
        self.producers = set()
        self.n_inputs = len(node.ins)


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
    units = []
    last_effect = None
    for node in nodes:
        sources = {}
        for v in node.ins:
            if v.buf is not None and v.buf.node is not None and v.buf.node.group is not None:
                g = v.buf.node.group
                sources.setdefault(g.id, (g, []))[1].append(v)
        home = None
        if node.kind in ("ew", "reduce") and config.pass_fuse:
            for g, vs in sorted(sources.values(), key=lambda s: -s[0].id):
                if _can_join(node, g, vs, sources):
                    home = g
                    break
        if home is None:
            home = Unit(node, len(units))
            units.append(home)
        else:
            home.nodes.append(node)
            home.n_inputs += len(node.ins)
            home.axes = home.axes or node.axes
        node.group = home
        before = home.before
        for g, _ in sources.values():
            if g is not home:
                home.producers.add(g.id)
                before |= g.before | (1 << g.id)
        if node.effects:
            if last_effect is not None:
                home.producers.add(last_effect.id)
                before |= last_effect.before | (1 << last_effect.id)
            last_effect = home
        if before != home.before:
            home.before = before
            bit = 1 << home.id
            for u in units:
                if u.before & bit:
                    u.before |= before
    return _order(units)


def _can_join(node, g, vs, sources):
    if not g.fused or g.shape != node.shape or len(g.nodes) >= MAX_OPS or g.n_inputs + len(node.ins) > 2 * MAX_INPUTS:
        return False
    if node.axes is not None and g.axes is not None and g.axes != node.axes:
        return False
    if not all(in_register(v, node.shape) for v in vs):
        return False
    bit = 1 << g.id
    return not any(s.before & bit for s, _ in sources.values() if s is not g)


def _order(units):
    followers = [[] for _ in units]
    waiting = [len(u.producers) for u in units]
    for u in units:
        for p in u.producers:
            followers[p].append(u.id)
    ready = [u.id for u in units if not waiting[u.id]]
    heapq.heapify(ready)
    out = []
    while ready:
        i = heapq.heappop(ready)
        out.append(units[i])
        for f in followers[i]:
            waiting[f] -= 1
            if not waiting[f]:
                heapq.heappush(ready, f)
    assert len(out) == len(units), "fusion made a cycle"
    return out
