"""Layer and rms norms written out, and what reverse mode makes of them, become the kernels of norms.

There are too many ways to write them for patterns. What might be a norm, or its cotangent, is evaluated while compiling on a few random
rows, and compared with what the kernels compute. Some of the rows are tiny, huge, zero or not finite, to tell limits, masks and small
numbers added elsewhere, which ordinary rows would not show.
"""

import functools
import math
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from fgrad import dtypes
from fgrad.compile.diagonal import FUNCTIONS
from fgrad.compile.fuse import computes, live_nodes, readers_of
from fgrad.compile.lower import compute_dtype
from fgrad.compile.values import Buf, Node, Value, forget, row_major
from fgrad.core.array import CODES

LEAST = 1 << 14  # elements
SHORTEST, LONGEST, FEW = 32, 1 << 15, 8  # rows; longer ones where they are no fewer than that
PERIOD = 1024  # numbers that stand for a longer row, which repeats them
ORDINARY, ROWS = 4, 9  # that are evaluated, see _random
DEEPEST = 60  # operations that are evaluated for one value
TRIES = 8  # values that might be the norm's cotangent
TOLERANCE = 1e-5  # the constants of programs are float32
FLOATS = (dtypes.FLOAT32, dtypes.FLOAT64)
ROOTS = ("sqrt", "rsqrt", "pow")
_NAMES = ("add", "sub", "mul", "neg", "max", "min", "sqrt", "div", "rsqrt", "recip", "eq", "ne", "lt", "le", "gt", "ge", "select")
_OPS = {**{op: FUNCTIONS[op] for op in _NAMES}, "square": np.square, "pow": np.power, "round_bf16": lambda x: x}
_DTYPES = (*FLOATS, dtypes.BFLOAT16, dtypes.BOOL)


class _Norm(NamedTuple):
    """op (x; eps), times a row of weights (a value of x's shape) or None, is what `node` computes; sums: the reductions that it takes."""

    op: str
    eps: float
    x: Value
    node: Node
    weights: Value | None
    sums: tuple


class _Cotangent(NamedTuple):
    """What `node` computes: x's cotangent for the cotangent ct, times a row of weights or None, of a norm, plus `more` or None; or, of a
    norm with weights, the product of ct and the norm without them (the gradient of the weights adds that up)."""

    node: Node
    ct: Value
    weights: Value | None = None
    more: Value | None = None
    product: bool = False


def join_norms(nodes, outs, known):
    """nodes, with norms along the last axis that are written out replaced by kernels, where nothing else needs their sums."""
    if not computes(nodes, ROOTS):
        return nodes
    search = _Search(nodes, known)
    with np.errstate(all="ignore"):
        norms = search.norms()
        found = search.cotangents(norms) if norms else {}
    while norms:
        before, instead, made = _kernels(norms, found)
        new = live_nodes([m for n in nodes for m in (*before.get(id(n), ()), *instead.get(id(n), (n,)))], outs)
        left = {id(n) for n in new}
        forget([n for ns in (*before.values(), *instead.values()) for n in ns if id(n) not in left])
        good = [norm for norm in norms if not any(id(n) in left for n in norm.sums)]
        if len(good) == len(norms):
            return new
        forget([n for ns in (*before.values(), *instead.values()) for n in ns])
        for buf, node in made:  # as it was
            buf.node = node
        norms = good
    return nodes


def _kernels(norms, found):
    """(nodes to come before a node, nodes in place of one, both by its id, [(buffer, the node that made it before)])."""
    before, instead, made = {}, {}, []
    for norm in norms:
        x, y = norm.x, norm.node.outs[0]
        made.append((y.buf, norm.node))
        normed = y if norm.weights is None else _fresh(x.shape, x.dtype)
        r = _fresh(x.shape[:-1], x.dtype)
        before[id(norm.node)] = [_kernel(norm.op, [x], [normed, r], (norm.eps,))]
        instead[id(norm.node)] = [] if norm.weights is None else [_ew("mul", [normed, norm.weights], y)]
        for ct in found[id(norm.node)]:
            out = ct.node.outs[0]
            made.append((out.buf, ct.node))
            new = instead[id(ct.node)] = []
            t = ct.ct
            if ct.product:
                new.append(_ew("mul", [normed, t], out))
                continue
            if ct.weights is not None:
                t = _fresh(x.shape, x.dtype)
                new.append(_ew("mul", [ct.ct, ct.weights], t))
            results = [out] if ct.more is None else [_fresh(x.shape, out.dtype), out]
            if out.dtype != x.dtype:
                results.insert(0, _fresh(x.shape, x.dtype))
            new.append(_kernel(norm.op + "_tangent", [normed if norm.op == "layer_norm" else x, r, t], results[:1]))
            if out.dtype != x.dtype:
                new.append(_ew("round_bf16", results[:1], results[1]))
            if ct.more is not None:
                new.append(_ew("add", [ct.more, results[-2]], out))
    return before, instead, made


class _Unknown(Exception):
    """A value that takes more than what may be given."""


class _Search:
    def __init__(self, nodes, known):
        self.nodes, self.known = nodes, known

    @functools.cached_property
    def place(self):
        return {id(n): i for i, n in enumerate(self.nodes)}

    @functools.cached_property
    def made(self):
        return {id(v.buf): n for n in self.nodes for v in n.outs}

    @functools.cached_property
    def readers(self):
        """By id of a buffer: how many operands it is."""
        return defaultdict(int, {id(b): len(found) for b, found in readers_of(self.nodes).items()})

    def norms(self):
        """The norms that are written out, each once."""
        out, done = [], set()
        for node in self.nodes:
            if node.kind != "ew" or node.op not in ("mul", "div") or not _is_rows(node.outs[0]):
                continue
            if not any(self._has_root(v, node.shape) for v in node.ins):
                continue
            numbers = self._numbers(node)
            for x in numbers:
                if id(x.buf) not in done and (norm := self._norm(node, x)) is not None:
                    out.append(norm)
                    done.update(id(v.buf) for v in numbers)
                    break
        return out

    def cotangents(self, norms):
        """By id of a norm's node: what its cotangents are."""
        out, by_x = defaultdict(list), {id(norm.x.buf): norm for norm in norms}
        inside = set()  # ids of the nodes that are part of one
        weighted = any(norm.weights is not None for norm in norms)
        for node in reversed(self.nodes):
            if node.kind != "ew" or id(node) in inside or not _is_rows(node.outs[0], (*FLOATS, dtypes.BFLOAT16)):
                continue
            if node.op == "add":
                fits, find = self._has_sum, self._cotangent
            elif weighted and node.op in ("mul", "div"):
                fits, find = self._has_root, self._product
            else:
                continue
            if not any(fits(v, node.shape) for v in node.ins):
                continue
            values = self._values(node)
            for norm in [by_x[id(v.buf)] for v in values if id(v.buf) in by_x]:
                if self.place[id(norm.node)] < self.place[id(node)] and (found := find(node, norm, values)) is not None:
                    out[id(norm.node)].append(found[0])
                    inside |= found[1].visited if node.op == "add" else set()
                    break
        return out

    # --- what may be one --------------------------------------------------------------------------------------------------

    def _has_root(self, v, shape, depth=3):
        """Whether a factor is a row value behind a root, maybe times something."""
        node = v.buf.node if v.buf is not None else None
        if node is None or node.kind != "ew":
            return False
        if v.shape == shape and v.whole():
            return depth > 0 and node.op in ("mul", "div") and any(self._has_root(u, shape, depth - 1) for u in node.ins)
        return _spread(v) and self._root_of(v.buf, 6)

    def _root_of(self, buf, depth):
        node = buf.node
        if node is None or node.kind != "ew" or not depth:
            return False
        return node.op in ROOTS or any(v.buf is not None and self._root_of(v.buf, depth - 1) for v in node.ins)

    def _has_sum(self, v, shape):
        """Whether an addend is a row value made of a sum over rows, maybe times something."""
        if v.buf is None or v.buf.node is None:
            return False
        if _spread(v):
            return self._sum_of(v.buf, 8)
        node = v.buf.node
        node = node.ins[0].buf.node if node.op == "round_bf16" and node.ins[0].buf is not None else node
        return node is not None and node.kind == "ew" and node.op == "mul" and any(_spread(u) and self._sum_of(u.buf, 8) for u in node.ins)

    def _sum_of(self, buf, depth):
        node = buf.node
        if node is None or not depth:
            return False
        if node.kind == "reduce":
            return node.op == "sum"
        return node.kind == "ew" and any(v.buf is not None and self._sum_of(v.buf, depth - 1) for v in node.ins)

    def _values(self, node):
        """Values of a node's shape that it is computed from row by row, near ones first."""
        shape, values, queue, bufs = node.shape, [], [node], set()
        for n in queue:
            for v in n.ins:
                if v.buf is None or id(v.buf) in bufs:
                    continue
                bufs.add(id(v.buf))
                if v.shape == shape and v.whole():
                    values.append(v)
                made = v.buf.node
                if made is not None and made.kind in ("ew", "reduce") and len(queue) < DEEPEST:
                    queue.append(made)
        return values

    def _numbers(self, node):
        """What might be normalised by a node, first made first: what the moments or the sums over rows that it takes are of."""
        shape, seen, out, queue = node.shape, set(), [], [node]
        for n in queue:
            for v in n.ins:
                made = v.buf.node if v.buf is not None else None
                if made is None or id(made) in seen or len(queue) > DEEPEST:
                    continue
                seen.add(id(made))
                if made.op == "moments":
                    out.append(made.ins[0])
                elif made.kind == "reduce" and made.op == "sum" and made.shape == shape:
                    out.append(made.ins[0])
                    square = made.ins[0].buf.node if made.ins[0].buf is not None else None
                    if square is not None and square.kind == "ew" and square.op in ("square", "mul"):
                        out.append(square.ins[0])
                    queue.append(made)
                elif made.kind == "ew":
                    queue.append(made)
        unique = {id(v.buf): v for v in out if v.buf is not None and v.shape == shape and v.whole() and v.dtype in FLOATS}
        return sorted(unique.values(), key=lambda v: self.place.get(id(v.buf.node), -1))

    # --- whether it is ----------------------------------------------------------------------------------------------------

    def _norm(self, node, x):
        """The _Norm of x that a node computes, or None."""
        epsilons = {0.0}
        for n in self._row_nodes(node):
            epsilons |= {float(v.scalar) for v in n.ins if v.scalar is not None and n.op == "add" and 0 < float(v.scalar) < 1}
        for eps in sorted(epsilons, reverse=True):
            rows = _numbers_of(_period(node.shape[-1]), eps)
            run = _Evaluation(self, node.shape, {id(x.buf): rows})
            try:
                got = run.whole(node.outs[0])
            except _Unknown:
                return None
            if len(run.weights) > 1:
                return None
            weights, made_up = next(iter(run.weights.values()), (None, 1.0))
            for op in ("rms_norm", "layer_norm"):
                want = _normalised(op, rows, eps)[0] * made_up
                if _agree(got, want) and _spoilt_alike(got, want):
                    return _Norm(op, eps, x, node, weights, tuple(run.sums))
        return None

    def _row_nodes(self, node):
        """The elementwise nodes behind a node, as far as roots go."""
        seen, queue = {id(node)}, [node]
        for n in queue:
            for v in n.ins:
                made = v.buf.node if v.buf is not None else None
                if made is not None and made.kind == "ew" and id(made) not in seen and len(queue) < DEEPEST:
                    seen.add(id(made))
                    queue.append(made)
        return queue

    def _cotangent(self, node, norm, values):
        shape, n = node.shape, _period(node.shape[-1])
        addends = [(v, self._taken(v)) for v in self._addends(node) if v.shape == shape and v.whole()]
        tried = 0
        for ct in values:
            if ct.buf is norm.x.buf or ct.dtype != norm.x.dtype or ct.buf.node is norm.node or self.readers[id(ct.buf)] < 2:
                continue
            tried += 1
            if tried > TRIES:
                return None
            apart = [v for v, taken in addends if id(ct.buf) not in taken]
            if len(apart) > 1 or any(v.dtype != node.outs[0].dtype for v in apart):
                continue
            given = {id(norm.x.buf): _numbers_of(n, norm.eps), id(ct.buf): _random(2, n)}
            given.update((id(v.buf), _residual(n)) for v in apart)
            run = _Evaluation(self, shape, given)
            try:
                got = run.whole(node.outs[0])
            except _Unknown:
                continue
            x, t, weights = given[id(norm.x.buf)], given[id(ct.buf)], list(run.weights.values())
            if len(weights) > 1:
                continue
            y, r = _normalised(norm.op, x, norm.eps)
            t = t * weights[0][1] if weights else t
            mean = t.mean(-1, keepdims=True) if norm.op == "layer_norm" else 0
            want = r * (t - mean - y * (y * t).mean(-1, keepdims=True))
            more = apart[0] if apart else None
            if _agree(got - given[id(more.buf)] if more is not None else got, want):
                return _Cotangent(node, ct, weights[0][0] if weights else None, more), run
        return None

    def _product(self, node, norm, values):
        shape, x, n = node.shape, norm.x, _period(node.shape[-1])
        if norm.weights is None or node.outs[0].dtype != x.dtype:
            return None
        for ct in [v for v in values if v.buf is not x.buf and v.dtype == x.dtype and v.buf.node is not norm.node][:TRIES]:
            given = {id(x.buf): _numbers_of(n, norm.eps), id(ct.buf): _random(2, n)}
            run = _Evaluation(self, shape, given)
            try:
                got = run.whole(node.outs[0])
            except _Unknown:
                continue
            if not run.weights and _agree(got, _normalised(norm.op, given[id(x.buf)], norm.eps)[0] * given[id(ct.buf)]):
                return _Cotangent(node, ct, product=True), run
        return None

    def _addends(self, node):
        """The values that a chain of additions adds up."""
        out = []
        for v in node.ins:
            made = v.buf.node if v.buf is not None and v.whole() else None
            chained = (
                made is not None and made.kind == "ew" and made.op == "add" and self.readers[id(v.buf)] == 1 and made.shape == node.shape
            )
            out += self._addends(made) if chained else [v]
        return out

    def _taken(self, v):
        """The ids of the buffers that a value is computed from row by row, near ones first."""
        taken, queue = {id(v.buf)}, [v.buf]
        for buf in queue:
            node = buf.node
            if node is not None and node.kind in ("ew", "reduce") and len(queue) < DEEPEST:
                more = [u.buf for u in node.ins if u.buf is not None and id(u.buf) not in taken]
                taken.update(map(id, more))
                queue += more
        return taken


class _Evaluation:
    """Values of a program on a few rows, in float64, of which n numbers stand for all (see _period). given: arrays (ROWS, n) by id of a
    buffer; all else must follow from them but for rows of weights, which are made up: `weights`, by key, (value of the full shape, (1, n)).
    sums: the reductions on the way."""

    def __init__(self, search, shape, given):
        self.search, self.shape, self.given = search, shape, dict(given)  # by and by all that is known
        self.rows, self.n = math.prod(shape[:-1]), _period(shape[-1])
        self.weights, self.sums, self.visited = {}, [], set()
        self.row_values = {}
        for node in [search.made[key] for key in given if key in search.made]:  # casts: what is read as it was before is the same
            if (
                node.kind == "ew"
                and node.op == "mul"
                and node.ins[1].scalar is not None
                and node.ins[1].scalar == 1
                and node.ins[0].whole()
            ):
                self.given[id(node.ins[0].buf)] = self.given[id(node.outs[0].buf)]

    def whole(self, v):
        """A value of the full shape, as something that broadcasts to (ROWS, n)."""
        if v.buf is None:
            return float(v.scalar)
        if v.box is not None or v.shape != self.shape:
            raise _Unknown
        if v.whole():
            return self._of(v.buf)
        if _spread(v):
            return self.row(v.buf)
        if not any(v.strides[:-1]) and v.strides[-1] == 1 and v.dtype in FLOATS:
            key = id(v.buf), v.offset
            if key not in self.weights:
                self.weights[key] = v, np.random.default_rng(4 + len(self.weights)).uniform(0.5, 2, (1, self.n))
            return self.weights[key][1]
        return self._number(v)

    def _number(self, v):
        number = self.search.known.number(v)
        if number is None:
            raise _Unknown
        return number

    def _of(self, buf):
        if id(buf) not in self.given:
            node = self._step(buf)
            dtype, last = node.outs[0].dtype, node.op in ("add", "round_bf16")  # sums of cotangents that are rounded each
            if node.kind != "ew" or node.shape != self.shape or node.op not in _OPS or dtype == dtypes.BFLOAT16 and not last:
                raise _Unknown
            self.given[id(buf)] = _apply(node.op, [self.whole(u) for u in node.ins])
        return self.given[id(buf)]

    def _step(self, buf):
        node = buf.node
        if node is None or len(self.visited) > DEEPEST or any(v.dtype not in _DTYPES for v in (*node.ins, *node.outs)):
            raise _Unknown
        self.visited.add(id(node))
        return node

    def row(self, buf):
        """A buffer with an element for each row, as (ROWS, 1)."""
        if id(buf) in self.row_values:
            return self.row_values[id(buf)]
        node = self._step(buf)
        last, times = len(self.shape) - 1, self.shape[-1] // self.n
        if node.kind == "reduce" and node.op in ("sum", "max") and tuple(node.axes) == (last,) and node.shape == self.shape:
            x = np.broadcast_to(self.whole(node.ins[0]), (ROWS, self.n))
            out = x.sum(-1, keepdims=True) * times if node.op == "sum" else x.max(-1, keepdims=True)
            self.sums.append(node)
        elif node.kind == "kernel" and node.op == "moments" and node.ip == (last,) and node.ins[0].shape == self.shape:
            x = np.broadcast_to(self.whole(node.ins[0]), (ROWS, self.n))
            mean = x.mean(-1, keepdims=True)
            out = mean if node.outs[0].buf is buf else np.square(x - mean).sum(-1, keepdims=True) * times
            self.sums.append(node)
        elif node.kind == "ew" and node.op in _OPS and buf.dtype != dtypes.BFLOAT16 and math.prod(node.shape) == self.rows:
            out = np.broadcast_to(_apply(node.op, [self._row_operand(v) for v in node.ins]), (ROWS, 1))
        else:
            raise _Unknown
        self.row_values[id(buf)] = out
        return out

    def _row_operand(self, v):
        if v.buf is None:
            return float(v.scalar)
        return self.row(v.buf) if v.box is None and v.size == self.rows and v.whole() else self._number(v)


@functools.lru_cache(256)
def _period(n):
    """How many numbers are evaluated for a row of n, which repeats them: its greatest divisor that is small, or n."""
    return next((k for k in range(min(n, PERIOD), SHORTEST - 1, -1) if n % k == 0), n)


def _apply(op, given):
    if op == "select":
        given = [np.asarray(given[0], bool), *given[1:]]
    return np.asarray(_OPS[op](*given), np.float64)


@functools.lru_cache(64)
def _numbers_of(n, eps):
    """Rows of several means and spreads, of one of which eps counts; tiny, huge, with NaN, with an infinity, zero. One number is 0."""
    out = np.zeros((ROWS, n))
    spread = np.array([1.0, 3.0, 0.3, math.sqrt(eps) or 1e-3, 1e-12, 1e30, 1.0, 1.0])[:, None]
    means = np.array([0.5, -0.25, 2.0, 0.125, 0.5, 0.5, 0.5, 0.5])[:, None]
    out[:-1] = spread * (np.random.default_rng(1).standard_normal((ROWS - 1, n)) + means)
    out[0, 0], out[-3, 0], out[-2, 0] = 0, np.nan, np.inf
    return out


@functools.lru_cache(64)
def _random(seed, n):
    """Cotangents: rows of several means and spreads."""
    spread = np.array([1.0, 3.0, 0.3, 1e-3, *[1.0] * (ROWS - ORDINARY)])[:, None]
    return spread * (
        np.random.default_rng(seed).standard_normal((ROWS, n)) + np.roll([0.5, -0.25, 2.0, 0.125, 1, 1, 1, 1, 1], seed)[:, None]
    )


@functools.lru_cache(64)
def _residual(n):
    """What is added to cotangents, which tiny ones would vanish in: it is 0 beside these."""
    out = _random(3, n).copy()
    out[ORDINARY:] = 0
    return out


def _normalised(op, x, eps):
    """(norm, what rows were scaled by)"""
    x = x - x.mean(-1, keepdims=True) if op == "layer_norm" else x
    r = 1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + eps)
    return x * r, r


def _agree(got, want):
    """Whether rows agree where they are finite, within what float32 constants leave."""
    finite = np.isfinite(want).all(-1)
    got, want = np.broadcast_to(got, want.shape)[finite], want[finite]
    return bool(np.all(np.abs(got - want) <= TOLERANCE * np.abs(want).max(-1, keepdims=True)))


def _spoilt_alike(got, want):
    """Whether the rows that are not finite are the same ones."""
    return bool((np.isfinite(np.broadcast_to(got, want.shape)).all(-1) == np.isfinite(want).all(-1)).all())


def _is_rows(v, of=FLOATS):
    """Whether a value is a matrix of rows that are worth a kernel."""
    shape = v.shape
    if len(shape) < 2 or shape[-1] < SHORTEST or v.size < LEAST or v.dtype not in of:
        return False
    if shape[-1] > LONGEST and (v.size < FEW * shape[-1] or _period(shape[-1]) > PERIOD):
        return False
    return v.size > shape[-1] and v.whole()


def _spread(v):
    """Whether a value is all of a buffer with an element for each row, spread over the rows."""
    if v.buf is None or v.box is not None or v.offset or len(v.shape) < 2 or v.strides[-1]:
        return False
    rows = math.prod(v.shape[:-1])
    steps = [(n, s) for n, s in zip(v.shape[:-1], v.strides[:-1]) if n != 1]
    dense = [(n, s) for n, s in zip(v.shape[:-1], row_major(v.shape[:-1])) if n != 1]
    return v.buf.size == rows > 1 and steps == dense


def _fresh(shape, dtype):
    return Value(Buf("temp", dtype, math.prod(shape)), shape, row_major(shape), 0, dtype)


def _kernel(op, ins, outs, fp=()):
    node = Node("kernel", op, ins, outs, None, (), fp)
    for v in outs:
        v.buf.node = node
    return node


def _ew(op, ins, out):
    node = Node("ew", op, ins, [out], out.shape, type_code=CODES[compute_dtype(out.dtype)])
    out.buf.node = node
    return node
