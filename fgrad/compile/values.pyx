"""What lowering works with: buffers, strided values over them, and the nodes that compute them."""
from math import prod

cimport cython

from fgrad.core import ShapedArray

from fgrad._kernels.operands cimport scalar_bytes

cdef dict _row_major = {}
cdef tuple _last_shape = None      # what `row_major` was asked for last, and its answer
cdef tuple _last_strides = None
cdef dict _reshaped = {}
cdef enum:
    KNOWN = 10_000                 # entries that these two keep
cdef object _UNKNOWN = object()


cpdef tuple row_major(tuple shape):
    """The strides of a contiguous array, in elements."""
    global _last_shape, _last_strides
    cdef tuple out
    if shape is _last_shape and shape is not None:
        return _last_strides
    out = _row_major.get(shape)
    if out is None:
        strides, acc = [], 1
        for d in reversed(shape):
            strides.append(acc)
            acc *= max(d, 1)       # no stride is 0 because another axis is empty: 0 means broadcast
        if len(_row_major) > KNOWN:
            _row_major.clear()
        out = _row_major[shape] = tuple(reversed(strides))
    _last_shape, _last_strides = shape, out
    return out


@cython.freelist(256)
cdef class Buf:
    """Memory of one computed value. kind: "temp", "arg" (index: which), "const" (index: which)."""

    def __init__(self, str kind, dtype, size, node=None, index=0, bint strided=False):
        self.kind, self.dtype, self.size, self.node, self.index = kind, dtype, size, node, index
        self.strided = strided     # a caller's array with strides of its own: its bounds are the caller's

    @property
    def nbytes(self):
        return (self.room or self.size) * self.dtype.itemsize


@cython.freelist(256)
cdef class Value:
    """A strided view of a buffer; offset and strides in elements. scalar holds the value of a constant that lives in the program text.

    Values with different tags are never merged as common subexpressions. box, (lo, hi) of each axis in turn: only these elements are
    in the buffer; the others are anything, and a window (see shift) leaves them out.
    """

    def __init__(self, Buf buf, tuple shape, tuple strides, Py_ssize_t offset, dtype, scalar=None, int tag=0, tuple box=None):
        self.buf, self.shape, self.strides, self.offset, self.dtype, self.scalar = buf, shape, strides, offset, dtype, scalar
        self.tag, self.box = tag, box
        self.known_whole = -1

    cpdef object key(self):
        """What makes two values equal: of a whole result its buffer alone."""
        cdef Buf buf = self.buf
        if buf is None:
            if self.known_key is None:
                self.known_key = (self.dtype, scalar_bytes(self.scalar), self.shape)
            return self.known_key
        if buf.shape is not None and not self.tag and self.dtype is buf.dtype:
            if (self.shape is buf.shape or self.shape == buf.shape) and self.whole():
                return buf
        return (self.buf, self.shape, self.strides, self.offset, self.dtype, self.tag, self.box)

    @property
    def aval(self):
        return ShapedArray(self.shape, self.dtype)

    @property
    def size(self):
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def contiguous(self):
        return self.is_contiguous()

    cdef bint is_contiguous(self):
        cdef Py_ssize_t i
        if self.box is not None:
            return False
        if self.known_whole == 1 or self.strides is row_major(self.shape):
            return True
        expect = 1
        for i in range(len(self.shape) - 1, -1, -1):
            n = self.shape[i]
            if n == 0:
                return True
            if n != 1 and self.strides[i] != expect:
                return False
            expect *= n
        return True

    cpdef bint whole(self):
        """True if this is all of its buffer, in row-major order."""
        if self.known_whole < 0:
            self.known_whole = self.buf is not None and self.offset == 0 and self.size == self.buf.size and self.is_contiguous()
        return self.known_whole


@cython.freelist(256)
cdef class Node:
    """kind "ew": one elementwise op over `shape`; "reduce"; "kernel"; "control"; "callback"."""

    def __init__(self, str kind, str op, list ins, list outs, shape=None, tuple ip=(), tuple fp=(), tuple children=(), obj=None,
                 type_code=None, axes=None):
        self.kind, self.op, self.ins, self.outs, self.shape = kind, op, ins, outs, shape
        self.ip, self.fp, self.children, self.obj, self.type_code, self.axes = ip, fp, children, obj, type_code, axes
        # whether it shows from outside if, and when, this runs: callbacks that are not pure, and what holds one
        self.effects = op == "callback" or (len(children) > 0 and any([c.effects for c in children]))


cdef Value new_value(Buf buf, tuple shape, tuple strides, Py_ssize_t offset, dtype, scalar, int tag):
    """Value(...), without packing the arguments of a call of Python."""
    cdef Value v = Value.__new__(Value)
    v.buf, v.shape, v.strides, v.offset, v.dtype, v.scalar, v.tag, v.known_whole = buf, shape, strides, offset, dtype, scalar, tag, -1
    return v


cdef Value temporary(tuple shape, dtype, size):
    """A row-major value that is all of a temporary of its own."""
    cdef Buf buf = Buf.__new__(Buf)
    cdef Value v = Value.__new__(Value)
    buf.kind, buf.dtype, buf.size, buf.index, buf.shape = "temp", dtype, size, 0, shape
    v.buf, v.shape, v.strides, v.dtype, v.known_whole = buf, shape, row_major(shape), dtype, True
    return v


cdef Node elementwise_node(str op, list ins, Value out, tuple shape, type_code):
    """One elementwise operation."""
    cdef Node node = Node.__new__(Node)
    node.kind, node.op, node.ins, node.outs, node.shape, node.type_code = "ew", op, ins, [out], shape, type_code
    node.ip = node.fp = node.children = ()
    return node


def release(nodes):
    """Break the cycles of nodes, buffers and groups, so that they are freed now and not by the garbage collector."""
    cdef Node node
    cdef Value o
    for node in nodes:
        node.group = None
        for o in node.outs:
            o.buf.node = None


def forget(nodes):
    """Break the cycles of nodes that no program has: buffers that others have made since stay theirs."""
    cdef Node node
    cdef Value o
    for node in nodes:
        for o in node.outs:
            if o.buf.node is node:
                o.buf.node = None


cpdef object view_reshape(tuple shape, tuple strides, tuple new_shape):
    """Strides that show a strided array under a new shape, or None if only a copy can, or nothing that has as many elements."""
    key = (shape, strides, new_shape)
    out = _reshaped.get(key, _UNKNOWN)
    if out is _UNKNOWN:
        if len(_reshaped) > KNOWN:
            _reshaped.clear()
        out = _reshaped[key] = _view_reshape(shape, strides, new_shape)
    return out


def _view_reshape(tuple shape, tuple strides, tuple new_shape):
    if 0 in shape or 0 in new_shape:
        return row_major(new_shape)
    if prod(shape) != prod(new_shape):
        return None
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
