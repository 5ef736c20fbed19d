"""Matrices that are one number on and below a diagonal and another above it: causal masks, however they were computed."""

import math
from typing import NamedTuple

import numpy as np

from fgrad.compile.values import Value, row_major

MOST = 1 << 16  # elements that are evaluated while compiling
MOST_STORED = 1 << 24  # elements of a stored matrix that are looked at
DEEPEST = 12  # operations from a mask back to what it is made of

FUNCTIONS = {
    **dict(add=np.add, sub=np.subtract, mul=np.multiply, neg=np.negative, max=np.maximum, min=np.minimum, sqrt=np.sqrt, div=np.divide),
    **dict(eq=np.equal, ne=np.not_equal, lt=np.less, le=np.less_equal, gt=np.greater, ge=np.greater_equal),
    **{"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "not": np.logical_not},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "recip": lambda x: 1 / x,
    "select": np.where,
}
_BOOLS = ("and", "or", "xor", "not")  # of integers they are other functions
_FLOATS = ("div", "sqrt", "rsqrt", "recip")
# Comparisons of i + a (rows) with j + b (columns): (what is added to a - b for the diagonal c, the value where j <= i + c)
_COMPARISONS = {"ge": (0, True), "gt": (-1, True), "le": (-1, False), "lt": (0, False)}
_TURNED = {"ge": "le", "gt": "lt", "le": "ge", "lt": "gt"}


class Split(NamedTuple):
    """A matrix whose element (i, j) is `below` where j <= i + diagonal, else `above`."""

    diagonal: int
    below: np.generic
    above: np.generic


class Constants:
    """What values are that depend on no argument. consts: the program's; stored: what its first arguments always are; outer: (Constants,
    Value) of arguments, by position, that are values of the program around this one, which is their Constants'."""

    def __init__(self, consts, stored=(), outer=None):
        self.arrays = {"const": consts, "arg": stored}
        self.outer = outer or {}
        self.flat, self.splits = {}, {}  # by id of a buffer

    def number(self, v):
        """The value as a float where it is one real number, known by now; else None."""
        if v.dtype.kind == "c":
            return None
        if v.scalar is not None:
            return float(v.scalar)
        if v.buf is None or any(v.strides) or v.buf.size > MOST:
            return None
        x = self._elements(v.buf, DEEPEST)
        return None if x is None else float(x[v.offset])

    def elements(self, v):
        """All elements of a contiguous value that is known by now, in order; else None."""
        return self._elements(v.buf, DEEPEST) if v.buf is not None and v.whole() else None

    def split(self, v, depth=DEEPEST):
        """The Split that all matrices of the value's last two axes are, or None."""
        buf = v.buf
        if buf is None or len(v.shape) < 2 or not depth:
            return None
        rows, columns = v.shape[-2:]
        if v.strides[-2:] != (columns, 1) or any(s % (rows * columns) for s in v.strides[:-2]) or v.offset % (rows * columns):
            return None
        key = id(buf), rows, columns
        if key not in self.splits:
            self.splits[key] = self._split(buf, rows, columns, depth)
        return self.splits[key]

    def _split(self, buf, rows, columns, depth):
        if buf.kind == "arg" and buf.index in self.outer:
            known, v = self.outer[buf.index]
            shape = buf.size // (rows * columns), rows, columns
            return known.split(Value(v.buf, shape, row_major(shape), 0, v.dtype), depth - 1)
        if buf.kind != "temp":
            x = self._stored(buf, MOST_STORED)
            return None if x is None else _stored_split(x.reshape(-1, rows, columns))
        node = buf.node
        if node is None or node.kind != "ew" or node.shape[-2:] != (rows, columns) or not node.outs[0].whole():
            return None
        if node.op in _COMPARISONS:
            ends = self._first(node.ins[0], 0, depth), self._first(node.ins[1], 1, depth)
            op = node.op
            if None in ends:
                ends, op = (self._first(node.ins[1], 0, depth), self._first(node.ins[0], 1, depth)), _TURNED[op]
            if None not in ends:
                more, below = _COMPARISONS[op]
                return Split(ends[0] - ends[1] + more, np.bool_(below), np.bool_(not below))
        given = [v.scalar if v.scalar is not None else self.split(v, depth - 1) for v in node.ins]
        diagonals = {x.diagonal for x in given if isinstance(x, Split)}
        if len(diagonals) != 1 or any(x is None for x in given):
            return None
        sides = [_apply(node, [x[side] if isinstance(x, Split) else x for x in given]) for side in (1, 2)]
        return None if None in sides else Split(diagonals.pop(), *sides)

    def _first(self, v, axis, depth):
        """k where the value counts k, k + 1 ... along one of the last two axes, and is the same along the other; else None."""
        if v.buf is None or len(v.shape) < 2:
            return None
        x = self._elements(v.buf, depth)
        if x is None or x.dtype.kind not in "iuf":
            return None
        kept = [i for i, step in enumerate(v.strides) if step]  # what repeats is looked at once
        shape, steps = [v.shape[i] for i in kept], [v.strides[i] * x.itemsize for i in kept]
        counted = len(v.shape) - 2 + axis
        if counted not in kept or math.prod(shape) > MOST:
            return None
        along = np.arange(v.shape[counted]).reshape([-1 if i == counted else 1 for i in kept])
        lines = np.lib.stride_tricks.as_strided(x[v.offset :], shape, steps)
        first = lines.flat[0]
        whole = np.isfinite(first) and first == int(first)
        return int(first) if whole and np.array_equal(lines, np.broadcast_to(first + along, shape)) else None

    def _stored(self, buf, most):
        """The elements of an array that is known, if they are not too many."""
        arrays = self.arrays[buf.kind]
        return np.asarray(arrays[buf.index]).reshape(-1) if buf.index < len(arrays) and buf.size <= most else None

    def _elements(self, buf, depth):
        """All elements of a buffer in the order of memory, or None."""
        if buf.size > MOST or not depth:
            return None
        if id(buf) not in self.flat:
            self.flat[id(buf)] = self._evaluated(buf, depth)
        return self.flat[id(buf)]

    def _evaluated(self, buf, depth):
        if buf.kind == "arg" and buf.index in self.outer:
            known, v = self.outer[buf.index]
            return known._elements(v.buf, depth - 1)
        if buf.kind != "temp":
            return self._stored(buf, MOST)
        node = buf.node
        if node is None or not node.outs[0].whole():
            return None
        shape = node.outs[0].shape
        if node.op == "iota" and node.kind == "kernel":
            along = [-1 if i == node.ip[0] else 1 for i in range(len(shape))]
            return np.broadcast_to(np.arange(shape[node.ip[0]]).astype(buf.dtype).reshape(along), shape).reshape(-1)
        if node.kind != "ew":
            return None
        given = []
        for v in node.ins:
            x = np.asarray(v.scalar) if v.scalar is not None else self._elements(v.buf, depth - 1)
            if x is None or v.box is not None:
                return None
            steps = [s * x.itemsize for s in v.strides]
            given.append(x if v.scalar is not None else np.lib.stride_tricks.as_strided(x[v.offset :], v.shape, steps))
        out = _apply(node, given)
        return None if out is None else np.broadcast_to(out, shape).reshape(-1)


def _apply(node, given):
    """An elementwise node's results for these operands, or None where it is no function that is known here."""
    dtype = node.outs[0].dtype
    if node.op != "cast" and node.op not in FUNCTIONS:
        return None
    kinds = [v.dtype.kind for v in node.ins]
    if node.op in _BOOLS and kinds != ["b"] * len(kinds) or node.op in _FLOATS and "f" not in kinds:
        return None
    with np.errstate(all="ignore"):
        out = given[0] if node.op == "cast" else FUNCTIONS[node.op](*given)
    return np.asarray(out).astype(dtype)[()]


def _stored_split(matrices):
    """The Split that equal stored matrices are, or None."""
    x = matrices[0]
    rows, columns = x.shape
    if rows < 2 or columns < 2:
        return None
    below, above = x[-1, 0], x[0, -1]
    diagonal = int(np.count_nonzero(x[0] == below)) - 1
    same = below != above and np.array_equal(x, np.where(np.tri(rows, columns, diagonal, dtype=bool), below, above))
    return Split(diagonal, below, above) if same and all(np.array_equal(x, other) for other in matrices[1:]) else None
