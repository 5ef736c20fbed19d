"""What lowering works with: buffers, strided values over them, and the nodes that compute them."""

import functools
import math

from fgrad.core import ShapedArray


@functools.lru_cache(10_000)
def row_major(shape):
    strides, acc = [], 1
    for d in reversed(shape):
        strides.append(acc)
        acc *= max(d, 1)  # no stride is 0 because another axis is empty: 0 means broadcast
    return tuple(reversed(strides))


class Buf:
    """Memory of one computed value. kind: "temp", "arg" (index: which), "const" (index: which)."""

    __slots__ = ("kind", "index", "dtype", "size", "node", "uses", "base", "offset", "strided")

    def __init__(self, kind, dtype, size, node=None, index=0, strided=False):
        self.kind, self.dtype, self.size, self.node, self.index = kind, dtype, size, node, index
        self.base = self.offset = None
        self.strided = strided  # a caller's array with strides of its own: its bounds are the caller's

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize


class Value:
    """A strided view of a buffer; offset and strides in elements. scalar holds the value of a constant that lives in the program text."""

    __slots__ = ("buf", "shape", "strides", "offset", "dtype", "scalar", "tag", "_whole")

    def __init__(self, buf, shape, strides, offset, dtype, scalar=None, tag=0):
        self.buf, self.shape, self.strides, self.offset, self.dtype, self.scalar = buf, shape, strides, offset, dtype, scalar
        self.tag = tag  # values with different tags are never merged as common subexpressions
        self._whole = None

    def key(self):
        if self.buf is None:
            return (self.dtype, self.scalar.tobytes(), self.shape)
        return (id(self.buf), self.shape, self.strides, self.offset, self.dtype, self.tag)

    @property
    def aval(self):
        return ShapedArray(self.shape, self.dtype)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def contiguous(self):
        if self._whole:
            return True
        expect = 1
        for n, s in zip(reversed(self.shape), reversed(self.strides)):
            if n == 0:
                return True
            if n != 1 and s != expect:
                return False
            expect *= n
        return True

    def whole(self):
        """True if this is all of its buffer, in row-major order."""
        whole = self._whole
        if whole is None:
            whole = self.buf is not None and self.offset == 0 and self.size == self.buf.size and self.contiguous
            self._whole = whole
        return whole


class Node:
    """kind "ew": one elementwise op over `shape`; "reduce"; "kernel"; "control"; "callback"."""

    __slots__ = ("kind", "op", "ins", "outs", "shape", "ip", "fp", "children", "obj", "type_code", "axes", "group", "effects")

    def __init__(self, kind, op, ins, outs, shape=None, ip=(), fp=(), children=(), obj=None, type_code=None, axes=None):
        self.kind, self.op, self.ins, self.outs, self.shape = kind, op, ins, outs, shape
        self.ip, self.fp, self.children, self.obj, self.type_code, self.axes = ip, fp, children, obj, type_code, axes
        self.group = None
        # whether it shows from outside if, and when, this runs: callbacks that are not pure, and what holds one
        self.effects = op == "callback" or (bool(children) and any(c.effects for c in children))


def release(nodes):
    """Break the cycles of nodes, buffers and groups, so that they are freed now and not by the garbage collector."""
    for node in nodes:
        node.group = None
        for o in node.outs:
            o.buf.node = None


@functools.lru_cache(10_000)
def view_reshape(shape, strides, new_shape):
    """Strides that show a strided array under a new shape, or None if only a copy can."""
    if 0 in shape or 0 in new_shape:
        return row_major(new_shape)
    old = [(n, s) for n, s in zip(shape, strides) if n != 1]
    out, i, j = [0] * len(new_shape), 0, 0
    new = [(k, n) for k, n in enumerate(new_shape) if n != 1]
    while i < len(old) and j < len(new):
        oi, nj, on, nn = i, j, old[i][0], new[j][1]
        while on != nn:
            if on < nn:
                i += 1
                on *= old[i][0]
            else:
                j += 1
                nn *= new[j][1]
        for k in range(oi, i):
            if old[k][1] != old[k + 1][1] * old[k + 1][0]:
                return None
        stride = old[i][1]
        for k in range(j, nj - 1, -1):
            out[new[k][0]] = stride
            stride *= new[k][1]
        i, j = i + 1, j + 1
    return tuple(out)
