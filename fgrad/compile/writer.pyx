"""The instructions of a program whose buffers are placed."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from array import array

from fgrad._kernels import KERNELS
from fgrad._kernels import elementwise as vm
from fgrad._kernels.executor import KINDS
from fgrad._kernels.parallel import most_threads
from fgrad.compile.lower import compute_dtype
from fgrad.core.array import CODES
from fgrad.dtypes import FLOAT32

from fgrad.compile.fuse cimport Unit, in_register
from fgrad.compile.values cimport Buf, Node, Value, row_major

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject *o)

cdef enum:
    SMALL_WORK = 20_000                # elements of all operations
    MOST_NAMED = 12                    # operations of a label
cdef tuple _PLAIN = ("ew", "reduce", "kernel")
cdef object F32 = FLOAT32
cdef dict _REDUCE = vm.REDUCTIONS
cdef dict _codes = CODES
cdef dict _opcodes = vm.OPCODES


def materialized(list units, list outs):
    """The buffers that live in memory: everything but what only its own fused group reads."""
    cdef set out = set()
    cdef Unit u
    cdef Node node
    cdef Value v
    for v in outs:
        if v.buf is not None:
            out.add(v.buf)
    for u in units:
        for node in u.nodes:
            if node.kind != "ew":
                for v in node.outs:
                    out.add(v.buf)
            for v in node.ins:
                if v.buf is None or v.buf.node is None:
                    continue
                if not (u.fused and (<Node>v.buf.node).group is u and in_register(v, u.shape)):
                    out.add(v.buf)
    return out


def written(list units, set in_memory):
    """The units but fused groups that write nothing."""
    cdef Unit u
    cdef Node node
    cdef Value v
    cdef bint writes
    cdef list out = []
    for u in units:
        writes = not u.fused
        for node in u.nodes:
            if writes:
                break
            for v in node.outs:
                writes = writes or v.buf in in_memory
        if writes:
            out.append(u)
    return out


def little_work(list units):
    """True if a program takes less time than giving up the GIL would cost others, and calls nobody."""
    cdef Unit u
    cdef Node node
    cdef double work = 0
    for u in units:
        node = u.nodes[0]
        if node.kind not in _PLAIN:
            return False
        if node.outs:
            work += <double>(<Value>node.outs[0]).size * len(u.nodes)
        if work >= SMALL_WORK:
            return False
    return True


def label(Unit unit):
    """What an instruction does, in short, as `label_text` takes it: its operations (of tiles a list of them, of more than twelve the first
    and None) and then its shapes, in one tuple, for nobody may ever ask."""
    cdef Node node = unit.nodes[0]
    cdef Value v
    cdef tuple out
    cdef Py_ssize_t n = len(unit.nodes), named = min(n, MOST_NAMED), more = n > MOST_NAMED, i = 0
    if node.op == "tiles":
        return (list(node.obj[1][:MOST_NAMED]), *[v.shape for v in node.outs])
    if not unit.fused:
        named, more, n = 1, 0, len(node.ins) + len(node.outs)
    else:
        n = min(len(node.ins), 1)
    out = PyTuple_New(named + more + n)
    for i in range(named + more + n):
        if i < named:
            what = (<Node>unit.nodes[i]).op
        elif i < named + more:
            what = None
        else:
            at = i - named - more
            what = (<Value>(node.ins[at] if at < len(node.ins) else node.outs[at - len(node.ins)])).shape
        Py_INCREF(what)
        PyTuple_SET_ITEM(out, i, what)
    PyObject_GC_UnTrack(<PyObject *>out)         # names and shapes refer to nothing
    return out


def label_text(label):
    """A label in words."""
    first = label[0]
    ops = first if type(first) is list else [x for x in label if type(x) is str]
    shapes = [x for x in label if type(x) is tuple]
    what = ("tiles of " if ops is first else "") + "+".join(ops) + ("+..." if None in label else "")
    return " ".join([what, *[str(list(shape)) for shape in shapes]])


cdef tuple _const_key(Value v):
    """(dtype of the register, bytes) of a scalar constant."""
    dtype = v.dtype if v.dtype is F32 else compute_dtype(v.dtype)
    return dtype, (<tuple>v.key())[1] if dtype is v.dtype else v.scalar.astype(dtype).tobytes()


cdef class Words:
    """Integers of an instruction under construction."""
    cdef int64_t *data
    cdef Py_ssize_t count, room

    def __cinit__(self, Py_ssize_t room):
        self.room = room
        self.data = <int64_t *>malloc((room + 1) * sizeof(int64_t))
        if self.data == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self.data)

    cdef int add(self, int64_t word) except -1:
        assert self.count < self.room
        self.data[self.count] = word
        self.count += 1
        return 0

    cdef int add_scalar(self, bytes scalar) except -1:
        """Append the two words that hold a scalar's bytes."""
        assert self.count + 2 <= self.room
        memset(self.data + self.count, 0, 16)
        memcpy(self.data + self.count, <char *>scalar, min(len(scalar), 16))
        self.count += 2
        return 0

    cdef bytes packed(self):
        return PyBytes_FromStringAndSize(<char *>self.data, self.count * sizeof(int64_t))


cdef class Writer:
    """Slots and instructions."""
    cdef readonly list slots, insts
    cdef dict slot_ids
    cdef Py_ssize_t n_args, n_consts, threads
    cdef set in_memory

    def __init__(self, Py_ssize_t n_args, Py_ssize_t n_consts, set in_memory):
        self.slots, self.insts, self.slot_ids = [], [], {}
        self.n_args, self.n_consts, self.in_memory = n_args, n_consts, in_memory

    cdef Py_ssize_t most_threads(self) except -1:
        """As many as the program may meet, asked for once: a container's quota is read from files."""
        if not self.threads:
            self.threads = most_threads()
        return self.threads

    cdef Py_ssize_t slot(self, Value v, tuple shape, tuple strides) except -1:
        cdef Buf buf = v.buf
        offset = v.offset
        if v.box is not None:
            shape = tuple([hi - lo for lo, hi in zip(v.box[::2], v.box[1::2])])
            offset += sum([lo * s for lo, s in zip(v.box[::2], strides)])
        if offset == 0 and v.dtype is buf.dtype and (shape is buf.shape or shape == buf.shape) and (strides is (whole := row_major(shape)) or strides == whole):
            key = buf                       # the whole of what lowering made it for
        else:
            key = (buf, shape, strides, offset, v.dtype)
        known = self.slot_ids.get(key)
        if known is not None:
            return known
        start = 0
        if buf.kind == "arg":
            base = 1 + buf.index
        elif buf.kind == "const":
            base = 1 + self.n_args + buf.index
        elif buf.base is not None and buf.base[0] == "out":
            base = 1 + self.n_args + self.n_consts + buf.base[1]
        else:
            base, start = 0, buf.offset
        self.slot_ids[key] = len(self.slots)
        self.slots.append((_codes[v.dtype], shape, strides, base, start + offset * v.dtype.itemsize))
        return len(self.slots) - 1

    def unit(self, Unit u):
        """Append the instruction of a unit."""
        cdef Node node
        cdef Value v
        if u.fused:
            self.group(u)
            return
        node = u.nodes[0]
        ins, outs = [self.slot(v, v.shape, v.strides) for v in node.ins], [self.slot(v, v.shape, v.strides) for v in node.outs]
        if node.kind == "kernel":
            self.insts.append((0, KERNELS[node.op], ins, outs, node.ip, node.fp, [], None))
        elif node.op == "tiles":
            self.insts.append((KINDS["tiles"], None, ins, outs, node.ip, (), [node.obj[0]] * self.most_threads(), None))
        elif node.kind == "control":
            children = node.obj[0]
            ip = node.ip if node.op == "cond" else [*node.ip, *children[-1].in_place]
            if node.op == "members":
                children = children * min(self.most_threads(), node.ip[6])
            self.insts.append((KINDS[node.op], None, ins, outs, ip, (), children, None))
        else:
            self.insts.append((KINDS["callback"], None, ins, outs, (), (), [], node.obj))

    cdef Py_ssize_t table(self, Value v, int axes) except -1:
        return self.slot(v, v.shape[-axes:], v.strides[-axes:])

    cdef int group(self, Unit u) except -1:
        cdef tuple shape = u.shape
        cdef dict made = {}                # buffer -> which op of the group computes it
        cdef dict inputs = {}, consts = {}       # (slot, box) -> which input; constant -> which
        cdef dict boxes = {}               # -> which
        cdef dict tables = {}              # slot -> which
        cdef list read = []                # the inputs
        cdef list out_slots = []
        cdef Node node
        cdef Value v, out
        cdef Py_ssize_t n_regs, at = 0, first_const, first_op, i, n_made = 0, n_in = 0, n_nodes = len(u.nodes)
        cdef int64_t reg
        cdef Words operands, ip, out_words, const_words
        for node in u.nodes:
            n_in += len(node.ins)
        operands = Words(2 * n_in)         # kind of register, and which of its kind, of all operands in turn
        const_words, out_words = Words(3 * n_in), Words(2 * n_nodes)
        for node in u.nodes:
            for v in node.ins[:-1] if node.op == "take" or node.op == "take2" else node.ins:
                if v.buf is None:
                    key = _const_key(v)
                    if node.op == "window":          # takes a tile of them, other operations one value
                        key += (True,)
                    known = consts.get(key)
                    if known is None:
                        known = consts[key] = len(consts)
                        const_words.add(_codes[key[0]])
                        const_words.add_scalar(key[1])
                    operands.add(1)
                    operands.add(known)
                    continue
                known = made.get(v.buf)
                if known is not None and in_register(v, shape):
                    operands.add(2)
                    operands.add(known)
                else:
                    if v.box is not None:
                        boxes.setdefault(v.box, len(boxes))
                    known = inputs.setdefault((self.slot(v, v.shape, v.strides), v.box), len(inputs))
                    if known == len(read):
                        read.append(v)
                    operands.add(0)
                    operands.add(known)
            if node.kind == "ew":
                made[(<Value>node.outs[0]).buf] = n_made      # several pieces may lie in one buffer (see joined): nobody here reads them
                n_made += 1
        first_const = len(inputs)                # registers: inputs, constants, results
        first_op = n_regs = first_const + len(consts)
        ip = Words(3 + const_words.count + 6 * n_nodes + 2 * n_nodes)
        ip.add(first_op + n_made)
        ip.add(len(consts))
        ip.add(n_made)
        memcpy(ip.data + ip.count, const_words.data, const_words.count * sizeof(int64_t))
        ip.count += const_words.count
        for node in u.nodes:
            out = node.outs[0]
            if node.kind == "ew":
                ip.add(_opcodes[node.op])
                ip.add(node.type_code)
                ip.add(n_regs)
                for i in range(3):
                    if i and node.op == "take":
                        ip.add(node.ip[0] if i == 2 else tables.setdefault(self.table(node.ins[1], 1), len(tables)))
                    elif i == 2 and node.op == "take2":
                        ip.add(4 * tables.setdefault(self.table(node.ins[2], 2), len(tables)) + node.ip[0])
                    elif i < len(node.ins):
                        reg = operands.data[2 * at]
                        ip.add(operands.data[2 * at + 1] + (0 if reg == 0 else first_const if reg == 1 else first_op))
                        at += 1
                    elif i == 2 and node.op == "window":
                        ip.add(boxes.setdefault(node.ip, len(boxes)))
                    else:
                        ip.add(0)
                if out.buf in self.in_memory:
                    out_slots.append(self.slot(out, out.shape, out.strides))
                    out_words.add(n_regs)
                    out_words.add(0)
                n_regs += 1
            else:
                kept = iter(row_major(out.shape))
                strides = tuple([0 if i in node.axes else next(kept) for i in range(len(shape))])
                out_slots.append(self.slot(out, shape, strides))
                reg = operands.data[2 * at]
                out_words.add(operands.data[2 * at + 1] + (0 if reg == 0 else first_const if reg == 1 else first_op))
                out_words.add(_REDUCE[node.op])
                at += 1
        memcpy(ip.data + ip.count, out_words.data, out_words.count * sizeof(int64_t))
        ip.count += out_words.count
        words = ip.packed()
        if boxes or _share_arrays(read):
            sources = _sources(read)
            rest = [len(boxes)]
            for (_, box), source in zip(inputs, sources):
                rest += (-1 if box is None else boxes[box], source)
            for box in boxes:
                rest += box
            words += array("q", rest).tobytes()
        self.insts.append((0, KERNELS["vm"], [*[slot for slot, _ in inputs], *tables], out_slots, words, (), [], None))
        return 0


cdef bint _share_arrays(list read):
    """True if two inputs of a group read one array by the same strides."""
    cdef Value v, w
    cdef Py_ssize_t i, j
    for i in range(1, len(read)):
        v = read[i]
        for j in range(i):
            w = read[j]
            if v.buf is w.buf and v.strides == w.strides:
                return True
    return False


cdef list _sources(list read):
    """For each input of a group, the one that reads furthest on of those of its array."""
    cdef Value v
    cdef dict last = {}                    # (buffer, strides) -> (offset, which input)
    for i, v in enumerate(read):
        key = (v.buf, v.strides)
        last[key] = max(last.get(key, (v.offset, i)), (v.offset, i))
    return [last[v.buf, v.strides][1] for v in read]
