"""Tiling: instructions that work row by row run together over blocks of rows that stay in cache, on all threads.

Rows are the leading axes of an instruction's shape, as many as all its operands can be cut along: elementwise groups, reductions of
the other axes, norms and softmaxes of rows. Reductions over all the rows end a run: each block adds its part to an accumulator of
its chunk of blocks, and the chunks are added up afterwards. What passes between instructions then never leaves the cache, and what
several of them read is read from memory once. How rows are cut does not depend on the number of threads, so neither do the results.
"""

import math
from collections import deque

import numpy as np

from fgrad.compile.lower import compute_dtype, reduction_identity
from fgrad.compile.rows import ROW_KERNELS
from fgrad.config import config
from fgrad.core import ShapedArray
from fgrad.core.array import CODES

from fgrad.compile.fuse cimport Unit
from fgrad.compile.rows cimport Rows, factor_of, most_rows, positions_of, table_of
from fgrad.compile.values cimport Buf, Node, Value, row_major

TILE_BYTES = 768 << 10  # of all operands of a tile, where the number of rows allows
CACHE_BYTES = 768 << 10  # of all operands of a tile, at most
COARSE_BYTES = 12 << 20  # the same where a run begins with rows that are larger, as attention's scores of a head: tiles of the shared cache
WORTH_BYTES = 3 << 20  # of the memory traffic that a run saves
LEAST_BLOCKS = 16
TRIED = 1 << 14  # numbers of blocks that are tried for one that divides the rows: an array beyond the memory would have billions
START_BYTES = 256 << 10  # of the largest operand of a run's first unit
WINDOW = 24  # units that a run may pass by

ACCUMULATE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "fmax": "fmax", "fmin": "fmin"}


def tile(units, outs, build):
    """units, with runs of row-wise ones replaced by one unit each. build(nodes, ins, outs, in_avals, out_avals, n_acc) compiles a block."""
    if not config.pass_tile:
        return units
    cdef _Run run
    cdef Unit u
    for u in units:
        if _bytes(u) >= START_BYTES:
            break
    else:
        return units
    wanted = _readers(units, outs)
    rows = {}                  # id of unit -> its Rows, or None
    result, pending, tried = [], deque(units), set()
    while pending:
        u = pending.popleft()
        if id(u) in tried or _bytes(u) < START_BYTES or _rows_of(u, rows) is None:
            result.append(u)
            continue
        run = _Run(_rows_of(u, rows), wanted)
        before, after = run.gather(pending, rows)
        tiled = run.tiled(build) if len(run.members) > 1 and run.saved() >= WORTH_BYTES else None
        if tiled:
            rows.update((id(t), None) for t in tiled)
            pending.extendleft(reversed([*before, *tiled, *after]))
        else:
            tried.update(id(m) for m in run.units)
            result.append(u)
            pending.extendleft(reversed([*before, *run.units[1:], *after]))
    return result


cdef dict _readers(units, outs):
    """id of each buffer -> the units that read it (None: the program's caller)."""
    cdef Unit u
    cdef Node n
    cdef Value v
    cdef dict out = {id(v.buf): {None} for v in outs if v.buf is not None}
    for u in units:
        for n in u.nodes:
            for v in n.ins:
                if v.buf is not None:
                    out.setdefault(id(v.buf), set()).add(u)
    return out


cdef double _bytes(Unit u) except -1:
    """Bytes of the largest operand of a unit's first node."""
    cdef Node node = u.nodes[0]
    cdef Value v
    cdef double most = 0
    for values in (node.ins, node.outs):
        for v in <list>values:
            most = max(most, elements(v.shape) * <int>v.dtype.itemsize)
    return most


cdef double elements(tuple shape) except -1:
    cdef double n = 1
    for d in shape:
        n *= <Py_ssize_t>d
    return n


cdef Rows _rows_of(Unit u, dict known):
    key = id(u)
    if key not in known:
        known[key] = most_rows(u)
    return known[key]


cdef class _Run:
    """Units that are cut alike, in order."""
    cdef dict wanted, cuts
    cdef list units, parts
    cdef set members, made, sums
    cdef object rows, bytes, sum_bytes

    def __init__(self, Rows first, dict wanted):
        self.wanted = wanted
        self.units, self.members, self.parts = [], set(), []
        self.rows, self.bytes, self.sum_bytes = 0, 0, 0
        self.cuts, self.made, self.sums = {}, set(), set()
        self.add(first)

    cdef tuple sizes(self, Rows part):
        """(rows, bytes that are cut, bytes of accumulators) with another part."""
        cdef set fresh = set(), readers
        cdef Value o
        cdef Buf b
        for o in part.made:
            readers = self.wanted.get(id(o.buf))
            if readers and (len(readers) > 1 or part.unit not in readers) and o.buf not in self.cuts:
                fresh.add(o.buf)
        for b, cut in part.cuts.items():
            if cut and b not in self.cuts and b not in self.made:
                fresh.add(b)
        size, sums = self.bytes, self.sum_bytes
        for b in fresh:
            size += b.nbytes
        for n in part.sums:
            sums += 2 * n.outs[0].buf.nbytes
        return math.gcd(self.rows, part.rows), size, sums

    cdef int add(self, Rows part, at=None) except -1:
        """Take a part, as the last one or before the one at `at`."""
        cdef Buf b
        at = len(self.units) if at is None else at
        self.rows, self.bytes, self.sum_bytes = self.sizes(part)
        self.units.insert(at, part.unit)
        self.members.add(part.unit)
        self.parts.insert(at, part)
        for o in part.made:
            self.made.add(o.buf)
            self.cuts.pop(o.buf, None)
        self.sums.update(n.outs[0].buf for n in part.sums)
        for b, cut in part.cuts.items():
            if b not in self.made:
                self.cuts[b] = cut
        return 0

    cdef bint takes(self, Rows part, bint common=False) except -1:
        """True if the part has memory in common with the run, agrees on how it is cut, and leaves blocks that fit in cache."""
        cdef Buf b
        for b, cut in part.cuts.items():
            if b in self.sums or self.cuts.get(b, True if b in self.made else cut) != cut:
                return False
            common = common or (cut and (b in self.made or b in self.cuts))
        rows, size, sum_bytes = self.sizes(part)
        if size // rows + sum_bytes > CACHE_BYTES >= self.bytes // self.rows:
            return False
        return common and _blocks(rows, size, sum_bytes, not self.sums and not part.sums) is not None

    def gather(self, pending, dict rows):
        """Take what fits from the front of `pending`; returns the units passed by: those to run before and those to run after."""
        cdef Unit u
        cdef Rows part
        cdef list before = [], after = []
        cdef set late = set()
        cdef bint effects = False, waits, acts
        while pending and len(before) + len(after) < WINDOW:
            u = pending.popleft()
            waits = not late.isdisjoint(u.reads)
            part = None if waits else _rows_of(u, rows)
            if part is not None and self.takes(part):
                self.fetch(part, before, rows)
                if self.takes(part):
                    self.add(part)
                    continue
            acts = any([n.effects for n in u.nodes])
            if waits or (acts and effects) or not (self.made.isdisjoint(u.reads) and self.sums.isdisjoint(u.reads)):
                after.append(u)
                late.update([o.buf for n in u.nodes for o in n.outs])
                effects = effects or acts
            else:
                before.append(u)
        return before, after

    def fetch(self, Rows part, list before, dict rows):
        """Units passed by that only make what the part reads come along, where they fit."""
        cdef Rows own
        cdef Py_ssize_t at = len(self.units)
        for u in reversed(before[:]):
            outs = {o.buf for n in u.nodes for o in n.outs}
            if not any([part.cuts.get(b) for b in outs]) or _bytes(u) < START_BYTES:
                continue
            own = _rows_of(u, rows)
            if own is None or any([v is not u and not outs.isdisjoint(v.reads) for v in before]) or not self.takes(own, True):
                continue
            if not self.makes_in_time(own):
                continue
            before.remove(u)
            made = {o.buf for o in own.made}
            self.add(own, next((i for i, p in enumerate(self.parts[:at]) if not made.isdisjoint((<Rows>p).cuts)), at))   # before who reads it

    cdef bint makes_in_time(self, Rows part) except -1:
        """True if the run reads what the part makes by rows only, so that the part can come first."""
        return all([self.cuts.get(o.buf, True) for o in part.made]) and all([n.outs[0].buf not in self.cuts for n in part.sums])

    def saved(self):
        """Bytes that need not travel to memory and back."""
        total = 0
        for b in {*self.made, *(b for b, cut in self.cuts.items() if cut)}:
            readers = self.wanted.get(id(b), set())
            inside = sum(u in self.members and u is not (b.node and b.node.group) for u in readers)
            if b in self.made:
                total += b.nbytes * (inside + (inside and readers <= self.members))
            else:
                total += b.nbytes * (inside - 1)
        return total

    def live(self):
        """Bytes that are cut and in use at once, at most: a block's program puts others where what nobody reads any more was."""
        cdef Rows part
        first, last, most = {}, {}, 0
        for i, part in enumerate(self.parts):
            for o in part.made:
                readers = self.wanted.get(id(o.buf), set())
                if not readers <= {part.unit}:
                    first[o.buf] = last[o.buf] = i
            for b, cut in part.cuts.items():
                if cut:
                    first.setdefault(b, i)
                    last[b] = i
        for i in range(len(self.parts)):
            most = max(most, sum([b.nbytes for b in first if first[b] <= i <= last[b]]))
        return most

    def tiled(self, build):
        """The units that do the run's work: blocks of rows, then the sums of what chunks of blocks accumulated; None where that fails."""
        sums = [n for part in self.parts for n in (<Rows>part).sums]
        found = _blocks(self.rows, self.live(), self.sum_bytes, not sums) or _blocks(self.rows, self.bytes, self.sum_bytes, not sums)
        if found is None:
            return None
        blocks, rows = found
        made = [o for part in self.parts for o in (<Rows>part).made]
        kept = [o for o in made if self.wanted.get(id(o.buf), set()) - self.members]
        if sums:
            chunks = min(blocks, max(LEAST_BLOCKS, math.isqrt(blocks)))
        else:
            chunks = blocks - (blocks * rows > self.rows)      # blocks that overlap, the last two, are one chunk: one thread computes them
        accs = []
        for n in sums:
            shape, dtype = (chunks, *n.outs[0].shape), compute_dtype(n.outs[0].dtype)
            accs.append(Value(Buf("temp", dtype, math.prod(shape)), shape, row_major(shape), 0, dtype))
        child = self.child(kept, accs, rows, build)
        if not all(child.in_place):
            return None
        node = Node(
            "control", "tiles", [Value(b, (b.size,), (1,), 0, b.dtype) for b in self.cuts], accs + kept, ip=(chunks, len(accs), blocks, rows, self.rows)
        )
        node.ip += tuple(b.nbytes // self.rows if cut else 0 for b, cut in self.cuts.items()) + tuple(o.buf.nbytes // self.rows for o in kept)
        for n, acc in zip(sums, accs):
            start = np.asarray(reduction_identity(n.op, acc.dtype)).astype(acc.dtype)
            node.ip += tuple(np.frombuffer(start.tobytes().ljust(16, b"\0"), np.int64).tolist())
        node.obj = (child, [n.op for u in self.units for n in u.nodes])
        for o in (*accs, *kept):
            o.buf.node = node
        node.group = unit = Unit(node, self.units[0].id)
        return [unit, *_totals(sums, accs)]

    def child(self, kept, accs, rows, build):
        """The program of one block of so many of the run's rows. It takes the inputs and the accumulators, which it overwrites, and gives them and the rows kept."""
        cdef Rows part
        bufs, args, nodes = {}, [], []
        for b, cut in self.cuts.items():
            args.append(_flat_arg(b.dtype, b.size // self.rows * rows if cut else b.size, len(args)))
            bufs[b] = args[-1].buf
        results = []
        for part in self.parts:
            for n in part.unit.nodes:
                nodes.append(_shorter_node(n, part, part.rows // self.rows * rows, bufs))
                if n in part.sums:
                    acc = accs[len(results)]
                    arg = _flat_arg(acc.dtype, acc.buf.size // acc.shape[0], len(args))
                    args.append(arg)
                    nodes.append(_accumulate(n.op, arg, nodes[-1].outs[0]))
                    results.append(nodes[-1].outs[0])
        for o in kept:
            results.append(_whole(bufs[o.buf]))
        avals = [[ShapedArray(v.shape, v.dtype) for v in vs] for vs in (args, results)]
        return build(nodes, args, results, *avals, len(accs))


def _blocks(rows, size, sum_bytes=0, overlap=True):
    """(blocks, rows of each): the fewest that fit in cache and leave work for all threads, or None. They divide the rows, or where no such
    number is near and they may overlap, the last one begins before the end of the one before it."""
    least = max(min(-(-size // TILE_BYTES), rows), min(LEAST_BLOCKS, rows))
    if size // least + sum_bytes > (COARSE_BYTES if rows >= LEAST_BLOCKS else CACHE_BYTES):
        return None
    most = least + least // 4 if overlap else 16 * least
    exact = next((k for k in range(least, min(rows, most, least + TRIED) + 1) if rows % k == 0), None)
    if exact is not None:
        return exact, rows // exact
    each = -(-rows // least)
    return (-(-rows // each), each) if overlap else None


def _flat_arg(dtype, size, index):
    return _whole(Buf("arg", dtype, size, index=index))


def _whole(buf):
    return Value(buf, (buf.size,), (1,), 0, buf.dtype)


def _temp(shape, dtype, node):
    out = Value(Buf("temp", dtype, math.prod(shape)), shape, row_major(shape), 0, dtype)
    out.buf.node = node
    node.outs.append(out)
    return out


def _shorter_node(n, Rows part, rows, bufs):
    """The node over one block of its rows. bufs: buffer of the program -> that of the block, added to."""
    depth, sums = part.depth, part.sums
    factor, table, positions = factor_of(n), table_of(n), positions_of(n)
    lead = () if factor is None else (1,)

    def shorter(v):
        if v is factor or v is table or v is positions:
            return Value(bufs[v.buf], v.shape, v.strides, v.offset, v.dtype)
        if v.buf is None:
            return Value(None, (rows, *v.shape[depth:]), (0,) * (1 + len(v.shape) - depth), 0, v.dtype, v.scalar)
        inner = v.strides[depth:]
        if v.whole():
            step = math.prod(v.shape[depth:])
        else:
            step = next((s for k, s in zip(v.shape[depth - 1 :: -1], v.strides[depth - 1 :: -1]) if k != 1), 0)
        return Value(bufs[v.buf], (*lead, rows, *v.shape[depth:]), (*(0 for _ in lead), step, *inner), v.offset, v.dtype)

    axes = n.axes and tuple(sorted({max(a - depth + 1, 0) for a in n.axes}))
    shape = None if n.shape is None else (rows, *n.shape[depth:])
    ip = n.ip
    if n.kind == "kernel" and (at := ROW_KERNELS[n.op]) is not None:
        ip = (*ip[:at], ip[at] - depth + 1, *ip[at + 1 :])
    if table is not None and n.kind == "kernel":
        ip = (*ip[:7], *range(1, 1 + ip[0]), *ip[7 + ip[0] :])
    elif positions is not None:
        axes_at, sizes = 7 + depth, len(ip) - len(n.ins[0].shape)
        ip = (ip[0] - depth + 1, *ip[1:7], 0, *[a - depth + 1 for a in ip[axes_at:sizes]], rows, *ip[sizes + depth :])
    copy = Node(n.kind, n.op, [shorter(v) for v in n.ins], [], shape, ip, n.fp, type_code=n.type_code, axes=axes)
    for o in n.outs:
        if n in sums:
            _temp(o.shape, compute_dtype(o.dtype), copy)
        else:
            bufs[o.buf] = _temp((*lead, rows, *o.shape[depth:]), o.dtype, copy).buf
    return copy


def _accumulate(op, acc, x):
    """acc op x, which may overwrite acc."""
    acc = Value(acc.buf, x.shape, x.strides, 0, acc.dtype)
    node = Node("ew", ACCUMULATE[op], [acc, x], [], x.shape, type_code=CODES[acc.dtype])
    _temp(x.shape, acc.dtype, node)
    return node


def _totals(sums, accs):
    """Units that reduce accumulators over their chunks; those of one shape together."""
    groups = {}
    for n, acc in zip(sums, accs):
        out = n.outs[0]
        node = Node("reduce", n.op, [acc], [out], acc.shape, axes=(0,))
        out.buf.node = node
        if acc.shape in groups:
            groups[acc.shape].nodes.append(node)
            groups[acc.shape].reads.add(acc.buf)
        else:
            groups[acc.shape] = Unit(node, n.group.id)
        node.group = groups[acc.shape]
    return list(groups.values())
