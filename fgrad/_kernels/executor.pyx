"""The executor: flat programs over a slot table, checked when they are built.  .instructions runs them without the GIL."""
cimport cython
from cpython.ref cimport Py_DECREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from fgrad._kernels.abi cimport (FG_BOOL, FG_EMEM, FG_EPYTHON, FG_I32, FG_MAXDIM, FG_NDTYPES, FG_OK, FgCheck, FgInst, FgRun, FgTensor,
                                 fg_is_contiguous, fg_itemsize)
from fgrad._kernels.array cimport ArrayBase, alive, new_array
from fgrad._kernels.instructions cimport (FgProg, FgState, KIND_CALLBACK, KIND_COND, KIND_KERNEL, KIND_MEMBERS, KIND_SCAN, KIND_TILES, KIND_WHILE,
                                          fg_flat_count, run_paced, run_state, run_timed, state_free, state_new)
from fgrad._kernels.memory cimport MAX_BYTES, pool_borrow, pool_free, roams, size_of, span_of

cdef extern from "flush.h" nogil:
    uint64_t fg_flush_mode(bint on)
    void fg_flush_end(uint64_t before)

KINDS = {"kernel": KIND_KERNEL, "while": KIND_WHILE, "scan": KIND_SCAN, "cond": KIND_COND, "callback": KIND_CALLBACK, "tiles": KIND_TILES,
         "members": KIND_MEMBERS}
cdef tuple _kinds = tuple(KINDS.values())


cdef bint _flush = True


def flush_denormals(bint on):
    """Whether programs take denormal numbers for zeros, as XLA's do; returns what was so before. Kernels are right either way."""
    global _flush
    before = _flush
    _flush = on
    return before


cdef class Program:
    """A flat program.

    slots: (dtype code, shape, strides in elements, base, byte offset), base 0 the arena, then args, consts, outs.
    insts: (kind, (run, check) addresses or None, input slots, output slots, ip, fp, children, object); ip: integers, or bytes of int64.
    outs: (aval, mode): -1 fresh memory, k >= 0 takes over donated argument k, -2 - k returns argument k itself.
    Raises ValueError where a kernel's check refuses its instruction or a slot reaches outside its base.
    """

    @cython.boundscheck(True)
    @cython.wraparound(True)
    def __cinit__(self, *, list slots, list insts, list in_avals, list in_strides, list in_codes, list consts, list outs, list out_codes,
                  int64_t arena_bytes, tuple donated=(), bint small=False, int flat=0, bint machine=True):
        cdef FgProg *p = &self.p
        cdef int i, j, d, first = 0
        cdef int64_t n, first_byte, end
        cdef int64_t *room
        cdef Py_ssize_t n_bases
        cdef FgTensor *t
        cdef ArrayBase c
        cdef Program child
        memset(p, 0, sizeof(FgProg))
        if not len(in_avals) == len(in_strides) == len(in_codes) or len(outs) != len(out_codes):
            raise ValueError(f"{len(in_avals)} inputs, {len(in_strides)} strides and {len(in_codes)} codes; {len(outs)} outputs "
                             f"and {len(out_codes)} codes")
        for aval, code in zip([*in_avals, *[o[0] for o in outs]], [*in_codes, *out_codes]):
            if not 0 <= code < FG_NDTYPES or aval.dtype.itemsize != fg_itemsize(code):
                raise ValueError(f"dtype code {code} for {aval}")
        if any(len(inst) != 8 for inst in insts):
            raise ValueError("an instruction is (kind, kernel, inputs, outputs, ip, fp, children, object)")
        if not 0 <= arena_bytes <= MAX_BYTES:
            raise ValueError(f"an arena of {arena_bytes} bytes")
        self.keep = [consts]
        self.consts = consts
        self.idle = NULL
        self.in_avals, self.in_strides = in_avals, in_strides
        self.out_avals = [o[0] for o in outs]
        self.out_codes = out_codes
        self.donated = donated
        self.small = small
        self.machine = machine
        self.steady = all([spec[0] in (KIND_KERNEL, KIND_TILES, KIND_COND) for spec in insts])
        p.n_args, p.n_consts, p.n_outs = len(in_avals), len(consts), len(outs)
        p.arena_bytes = arena_bytes
        self.roams = roams(arena_bytes)
        p.flat = flat
        p.n_slots = len(slots)
        p.slots = <FgTensor *>calloc(p.n_slots + 1, sizeof(FgTensor))
        p.slot_base = <int32_t *>calloc(p.n_slots + 1, sizeof(int32_t))
        p.slot_offset = <int64_t *>calloc(p.n_slots + 1, sizeof(int64_t))
        p.const_data = <char **>calloc(p.n_consts + 1, sizeof(char *))
        p.insts = <FgInst *>calloc(len(insts) + 1, sizeof(FgInst))
        p.inst_child = <int32_t *>calloc(len(insts) + 1, sizeof(int32_t))
        self.out_mode = <int32_t *>calloc(p.n_outs + 1, sizeof(int32_t))
        self.out_size = <int64_t *>calloc(p.n_outs + 1, sizeof(int64_t))
        children = [k for inst in insts for k in inst[6]]
        self.keep.append(children)
        p.children = <FgProg **>calloc(len(children) + 1, sizeof(FgProg *))
        if not (p.slots and p.slot_base and p.slot_offset and p.const_data and p.insts and p.inst_child and self.out_mode
                and self.out_size and p.children):
            raise MemoryError()
        n_bases = 1 + p.n_args + p.n_consts + p.n_outs
        rooms = bytearray(2 * n_bases * sizeof(int64_t))     # of each base: the bytes that slots may reach
        room = <int64_t *><char *>rooms
        room[1] = arena_bytes
        for aval, code, strides in zip(in_avals, in_codes, in_strides):
            room += 2
            span_of(code, aval.shape, strides, 0, &room[0], &room[1])
        for i in range(p.n_consts):
            c = consts[i]
            if c.strides_or_none is not None or c.deleted:
                raise ValueError("a constant of a program must be contiguous and alive")
            p.const_data[i] = c.data
            room += 2
            room[1] = c.size * fg_itemsize(c.code)
        for i in range(p.n_outs):
            aval, mode = outs[i]
            self.out_mode[i] = mode
            self.out_size[i] = size_of(aval.shape)
            room += 2
            if self.out_mode[i] >= -1:
                span_of(out_codes[i], aval.shape, None, 0, &room[0], &room[1])
            self.check_mode(i, <int64_t *><char *>rooms)
            self.returns_args = self.returns_args or mode <= -2
        self.direct = p.n_outs == 1 and self.out_mode[0] == -1 and not donated
        for i in range(p.n_slots):
            code, shape, strides, base, offset = slots[i]
            t = &p.slots[i]
            try:
                span_of(code, shape, strides, offset, &first_byte, &end)
            except ValueError as e:
                raise ValueError(f"slot {i}: {e}") from None
            if not 0 <= base < n_bases:
                raise ValueError(f"slot {i}: base {base} does not exist (there are {n_bases})")
            room = <int64_t *><char *>rooms + 2 * <Py_ssize_t>base
            if end > first_byte and (first_byte < room[0] or end > room[1]):
                raise ValueError(f"slot {i}: {shape} with strides {strides} at {offset} leaves its base of bytes {(room[0], room[1])}")
            t.dtype, t.ndim, t.size = code, len(shape), size_of(shape)
            for d in range(t.ndim):
                t.shape[d], t.strides[d] = shape[d], strides[d]
            p.slot_base[i], p.slot_offset[i] = base, offset if end > first_byte else 0
        for i in range(len(children)):
            child = children[i]
            p.children[i] = &child.p
        p.n_children = len(children)
        for i in range(len(insts)):
            self.add_inst(i, insts[i])
            p.inst_child[i] = first
            first += len(insts[i][6])

    cdef int check_mode(self, int i, int64_t *rooms) except -1:
        """An output that takes over or returns argument k needs one of its own size, in one piece."""
        cdef int mode = self.out_mode[i], k = mode if mode >= 0 else -2 - mode
        if mode == -1:
            return 0
        if not 0 <= k < self.p.n_args or self.in_strides[k] is not None:
            raise ValueError(f"output {i}: there is no contiguous argument {k}")
        want = self.out_size[i] * fg_itemsize(self.out_codes[i])
        if rooms[2 + 2 * k] != 0 or rooms[3 + 2 * k] != want:
            raise ValueError(f"output {i} of {want} bytes cannot be argument {k} of {rooms[3 + 2 * k]}")
        return 0

    @cython.boundscheck(True)
    @cython.wraparound(True)
    cdef int add_inst(self, int i, tuple spec) except -1:
        cdef FgInst *inst = &self.p.insts[i]
        cdef char msg[256]
        cdef int j
        kind, kernel, ins, outs, ip, fp, children, obj = spec
        self.p.n_inst = i + 1
        if kind not in _kinds:
            raise ValueError(f"instruction {i}: kind {kind!r} does not exist")
        inst.kind = kind
        inst.machine = self.machine
        packed = type(ip) is bytes
        inst.n_in, inst.n_out, inst.n_ip, inst.n_fp = len(ins), len(outs), len(ip) // 8 if packed else len(ip), len(fp)
        inst.args = <int32_t *>calloc(len(ins) + len(outs) + 1, sizeof(int32_t))
        inst.ip = <int64_t *>calloc(inst.n_ip + 1, sizeof(int64_t))
        inst.fp = <double *>calloc(len(fp) + 1, sizeof(double))
        if not (inst.args and inst.ip and inst.fp):
            raise MemoryError()
        j = 0
        for slots in (ins, outs):
            for slot in slots:
                if not 0 <= slot < self.p.n_slots:
                    raise ValueError(f"instruction {i}: slot {slot} does not exist")
                inst.args[j] = slot
                j += 1
        if packed:
            memcpy(inst.ip, <char *><bytes>ip, inst.n_ip * sizeof(int64_t))
        else:
            for j in range(inst.n_ip):
                inst.ip[j] = ip[j]
        for j in range(inst.n_fp):
            inst.fp[j] = fp[j]
        if kind == KIND_KERNEL:
            run, check = kernel
            inst.run = <FgRun><uintptr_t>run
            msg[0] = 0
            if (<FgCheck><uintptr_t>check)(inst, self.p.slots, msg) != 0:
                raise ValueError((<bytes>msg).decode("utf-8", "replace"))
        else:
            for j in range(inst.n_in + inst.n_out):
                if not fg_is_contiguous(&self.p.slots[inst.args[j]]):
                    raise ValueError(f"instruction {i}: operand {j} of a control-flow instruction must be contiguous")
            if kind == KIND_CALLBACK:
                if type(obj) is not tuple or len(obj) != 3 or len(obj[1]) != inst.n_in or len(obj[2]) != inst.n_out:
                    raise ValueError(f"instruction {i}: a callback needs (function, an aval per input, an aval per output)")
                self.keep.append(obj)
                inst.object = <void *><PyObject *>obj
            self.check_children(i, inst, children)
        return 0

    @cython.boundscheck(True)
    @cython.wraparound(True)
    cdef int check_children(self, int i, FgInst *inst, children) except -1:
        """Every child must take and give exactly what its instruction hands it: sizes are compared here, once."""
        def bytes_of(k):
            t = self.slot_bytes(inst.args[k])
            return t
        ins = [bytes_of(k) for k in range(inst.n_in)]
        outs = [bytes_of(inst.n_in + k) for k in range(inst.n_out)]
        ip = [inst.ip[k] for k in range(inst.n_ip)]
        want = []
        n_ip = {KIND_COND: 2, KIND_WHILE: 3, KIND_SCAN: 6, KIND_CALLBACK: 0, KIND_TILES: 5,
                KIND_MEMBERS: 7}[inst.kind]
        if inst.kind in (KIND_WHILE, KIND_SCAN) and len(ip) >= n_ip:      # a flag for each carry follows
            n_ip += max(0, ip[2 if inst.kind == KIND_WHILE else 1])
        if inst.kind == KIND_MEMBERS and len(ip) >= n_ip:
            n_ip += max(0, ip[0]) + max(0, ip[1]) + max(0, ip[2])
        if inst.kind == KIND_TILES and len(ip) >= n_ip and ip[1] <= len(outs):
            n_ip += len(ins) + len(outs) + ip[1]
        bits = 2 * ip[1] if inst.kind == KIND_TILES and len(ip) == n_ip else 0
        if len(ip) != n_ip or any(n < 0 for n in ip[:len(ip) - bits]):
            raise ValueError(f"instruction {i}: expected {n_ip} counts of at least 0, got {ip}")
        if inst.kind == KIND_COND:
            index = (self.p.slots[inst.args[0]].dtype, ins[0]) if ins else None
            if not ip[0] or index not in ((FG_I32, 4), (FG_BOOL, 1)) or (index[1] == 1 and ip[0] != 2) or ip[1] != len(outs):
                raise ValueError(f"instruction {i}: cond needs branches, an int32 index (or a bool of two) and {ip[1]} outputs")
            want = [(ins[1:], outs[:ip[1]])] * ip[0]
        elif inst.kind == KIND_WHILE:
            ncc, nbc, nc = ip[:3]
            carry = ins[ncc + nbc:]
            if ncc + nbc + nc != len(ins) or len(outs) != 2 * nc + 1:
                raise ValueError(f"instruction {i}: while with counts {ip} got {len(ins)} inputs and {len(outs)} outputs")
            want = [(ins[:ncc] + carry, [1]), (ins[ncc:ncc + nbc] + carry, carry)]
            if outs[:nc] != carry or outs[nc:2 * nc] != carry or outs[2 * nc] != 1:
                raise ValueError(f"instruction {i}: while carry buffers differ in size")
        elif inst.kind == KIND_SCAN:
            nk, nc, nx, ny, length = ip[:5]
            each = max(length, 1)
            carry = ins[nk:nk + nc]
            if nk + nc + nx != len(ins) or any(b % each for b in (*ins[nk + nc:], *outs[nc:nc + ny])):
                raise ValueError(f"instruction {i}: scan with counts {ip} got inputs of {ins} and outputs of {outs} bytes")
            if length == 0:
                want = [None]
            else:
                want = [(ins[:nk] + carry + [b // each for b in ins[nk + nc:]], carry + [b // each for b in outs[nc:nc + ny]])]
            if outs[:nc] != carry or outs[nc + ny:] != carry:
                raise ValueError(f"instruction {i}: scan carry buffers differ in size")
        elif inst.kind == KIND_MEMBERS:
            nk, nc, nx, ny, length, _, parts = ip[:7]
            cut, carry, rows = ip[7:7 + nk + nx], ins[nk:nk + nc], ins[nk + nc:]
            if nk + nc + nx != len(ins) or len(outs) != 2 * nc + ny or not length or not parts or not children or outs[:nc] != carry \
                    or outs[nc + ny:] != carry or any(b % length for b in (*rows, *outs[nc:nc + ny])):
                raise ValueError(f"instruction {i}: a scan of parts with counts {ip} got inputs of {ins} and outputs of {outs} bytes")
            rows = [b // length for b in rows]
            divided = [*carry, *[b // length for b in outs[nc:nc + ny]], *[b for b, c in zip([*ins[:nk], *rows], cut) if c]]
            if any(b % parts for b in divided):
                raise ValueError(f"instruction {i}: operands of {divided} bytes in {parts} parts")
            given = [b // parts if c else b for b, c in zip([*ins[:nk], *rows], cut)]
            carry = [b // parts for b in carry]
            want = [(given[:nk] + carry + given[nk:], carry + [b // length // parts for b in outs[nc:nc + ny]])] * len(children)
            inst.n_child = len(children)
        elif inst.kind == KIND_TILES:
            want = self.tile_bytes(i, ip, ins, outs, children)
            inst.n_child = len(children)
        if len(children) != len(want):
            raise ValueError(f"instruction {i}: {len(children)} sub-programs, expected {len(want)}")
        for child, w in zip(children, want):
            if w is not None and (<Program>child).io_bytes() != w:
                raise ValueError(f"instruction {i}: sub-program takes and gives {(<Program>child).io_bytes()} bytes, expected {w}")
            if any(s is not None for s in (<Program>child).in_strides):
                raise ValueError(f"instruction {i}: a sub-program must take contiguous arrays")
            if any((<Program>child).out_mode[k] != -1 for k in range((<Program>child).p.n_outs)):
                raise ValueError(f"instruction {i}: a sub-program must write all its outputs")
        return 0

    def tile_bytes(self, i, ip, ins, outs, children):
        """What each child of a tiles instruction takes and gives, which depends on it: its blocks must stay inside the operands."""
        chunks, n_acc, n_blocks, each, rows = ip[:5]
        steps, acc, rest = ip[5:len(ip) - 2 * n_acc], outs[:n_acc], [*ins, *outs[n_acc:]]
        if not chunks or not children or not 0 < each <= rows or any(b % chunks for b in acc):
            raise ValueError(f"instruction {i}: {chunks} chunks of {n_blocks} tiles of {each} of {rows} rows with accumulators of {acc} bytes")
        got_in, got_out = (<Program>children[0]).io_bytes()
        if len(got_in) != len(ins) + n_acc or len(got_out) != len(outs):
            raise ValueError(f"instruction {i}: a block takes and gives {(got_in, got_out)} bytes, of operands {(ins, outs)}")
        blocks = [*got_in[:len(ins)], *got_out[n_acc:]]
        for k, (b, whole, step) in enumerate(zip(blocks, rest, steps)):
            if b + (rows - each) * step > whole:
                raise ValueError(f"instruction {i}: tiles leave operand {k} of {whole} bytes")
        acc = [b // chunks for b in acc]
        return [(blocks[:len(ins)] + acc, acc + blocks[len(ins):])] * len(children)

    def slot_bytes(self, int k):
        return self.p.slots[k].size * fg_itemsize(self.p.slots[k].dtype)

    def io_bytes(self):
        from_avals = [size_of(a.shape) * a.dtype.itemsize for a in self.in_avals]
        return from_avals, [self.out_size[i] * fg_itemsize(self.out_codes[i]) for i in range(self.p.n_outs)]

    def __dealloc__(self):
        cdef int i
        cdef FgState *st
        while self.idle != NULL:
            st = self.idle
            self.idle = st.next
            if st == self.lent:
                st.slots = NULL
            state_free(st)
        if self.p.insts != NULL:
            for i in range(self.p.n_inst):
                free(self.p.insts[i].args)
                free(self.p.insts[i].ip)
                free(self.p.insts[i].fp)
                free(self.p.insts[i].extra)
        free(self.p.slots)
        free(self.p.slot_base)
        free(self.p.slot_offset)
        free(self.p.const_data)
        free(self.p.insts)
        free(self.p.inst_child)
        free(self.p.children)
        free(self.out_mode)
        free(self.out_size)

    def profile(self, args):
        """Run once; returns (results, seconds of each instruction)."""
        self.seconds = <double *>calloc(self.p.n_inst + 1, sizeof(double))
        if self.seconds == NULL:
            raise MemoryError()
        try:
            out = self.run_list(args)
            return out, [self.seconds[i] for i in range(self.p.n_inst)]
        finally:
            free(self.seconds)
            self.seconds = NULL

    def run(self, args):
        """Run on `args` (arrays that match in_avals and in_strides); returns the list of result arrays.

        Raises RuntimeError for a deleted or mismatched argument, MemoryError, or what a callback raised.
        """
        return self.run_list(args)

    cdef list run_list(self, args):
        cdef FgProg *p = &self.p
        cdef int i, rc, k
        cdef ArrayBase a, o
        cdef FgState *st
        cdef list out = []
        cdef list took = None
        if len(args) != p.n_args:
            raise RuntimeError(f"program takes {p.n_args} arrays, got {len(args)}")
        st = self.take_state()
        try:
            for i in range(p.n_args):
                a = args[i]
                if a.aval is not self.in_avals[i] and (a.aval.shape != self.in_avals[i].shape or a.aval.dtype != self.in_avals[i].dtype):
                    raise RuntimeError(f"program argument {i}: got {a.aval}, compiled for {self.in_avals[i]}")
                if a.strides_or_none is not self.in_strides[i] and a.strides_or_none != self.in_strides[i]:
                    raise RuntimeError(f"program argument {i}: strides {a.strides_or_none}, compiled for {self.in_strides[i]}")
                alive(a)
                st.bases[1 + i] = a.data
            if self.donated:
                for i in range(p.n_args):
                    (<ArrayBase>args[i]).uses = 0
                for i in range(p.n_args):
                    (<ArrayBase>args[i]).uses += 1
            for i in range(p.n_outs):
                k = self.out_mode[i]
                if k <= -2:
                    o = args[-2 - k]
                else:
                    if k >= 0:
                        a = args[k]
                        if a.owns and not a.shared and not a.deleted and a.uses == 1:
                            o = steal(a, self.out_avals[i], self.out_codes[i], self.out_size[i])
                        else:          # someone else can see this memory: work on a copy of it
                            o = new_array(self.out_avals[i], self.out_codes[i], self.out_size[i])
                            memcpy(o.data, a.data, self.out_size[i] * fg_itemsize(o.code))
                            st.bases[1 + k] = o.data
                    else:
                        o = new_array(self.out_avals[i], self.out_codes[i], self.out_size[i])
                    st.bases[1 + p.n_args + p.n_consts + i] = o.data
                out.append(o)
            self.call(st)
        finally:
            self.give_state(st)
        return out

    cdef ArrayBase run_one(self, char **data):
        """The result of a `direct` program, from the memory of arguments that are alive and match in_avals and in_strides."""
        cdef FgProg *p = &self.p
        cdef FgState *st = self.take_state()
        cdef ArrayBase o
        cdef int i
        try:
            for i in range(p.n_args):
                st.bases[1 + i] = data[i]
            o = new_array(self.out_avals[0], self.out_codes[0], self.out_size[0])
            st.bases[1 + p.n_args + p.n_consts] = o.data
            self.call(st)
        finally:
            self.give_state(st)
        return o

    cdef FgState *take_state(self) except NULL:
        """A state that no run uses; the GIL guards them."""
        cdef FgState *st = self.idle
        if st != NULL:
            self.idle = st.next
        else:
            st = self.new_state()
        if st != NULL and self.roams:
            st.arena = st.bases[0] = pool_borrow(self.p.arena_bytes)
            if st.arena == NULL:
                self.give_state(st)
                st = NULL
        if st == NULL:
            raise MemoryError(f"no memory for a program's arena of {self.p.arena_bytes} bytes")
        return st

    cdef FgState *new_state(self) noexcept:
        """The first state binds the program's own slots, which nobody else binds: a copy is as many new pages as the table."""
        cdef FgState *st
        cdef int32_t n = self.p.n_slots
        if self.lent != NULL:
            return state_new(&self.p, self.roams)
        self.p.n_slots = 0                   # none to copy
        st = state_new(&self.p, self.roams)
        self.p.n_slots = n
        if st != NULL:
            free(st.slots)
            st.slots = self.p.slots
            self.lent = st
        return st

    cdef void give_state(self, FgState *st) noexcept:
        """Its run is over: an arena that roams goes back to the pool, where other programs find it."""
        if self.roams:
            pool_free(st.arena)
            st.arena = st.bases[0] = NULL
        st.next = self.idle
        self.idle = st

    cdef int call(self, FgState *st) except -1:
        """Run on a state whose bases are set; raises what went wrong."""
        cdef int rc
        cdef uint64_t mode = fg_flush_mode(_flush)
        if self.seconds != NULL:
            rc = run_timed(st, self.seconds)
        elif self.small:
            rc = run_state(st)
        else:
            with nogil:
                rc = run_paced(st) if self.steady else run_state(st)
        fg_flush_end(mode)
        if rc == FG_OK:
            return 0
        if rc == FG_EPYTHON:
            if st.error == NULL:        # a signal's handler raised, while a loop asked
                return -1
            e = <object><PyObject *>st.error
            st.error = NULL
            Py_DECREF(e)
            raise e
        if rc == FG_EMEM:
            raise MemoryError("a kernel ran out of memory")
        raise RuntimeError(f"a kernel failed with code {rc}")

    @property
    def arena_bytes(self):
        return self.p.arena_bytes

    @property
    def num_flat_ops(self):
        """Ops of the loops that have run as flat code, in all states that no run uses."""
        cdef FgState *st = self.idle
        cdef int i, n = 0
        while st != NULL:
            for i in range(self.p.n_inst):
                n += fg_flat_count(st.flat[i])
            st = st.next
        return n

    @property
    def num_instructions(self):
        return self.p.n_inst


cdef ArrayBase steal(ArrayBase a, aval, int32_t code, int64_t size):
    """A donated argument's memory under a new array; the argument is dead from here on."""
    cdef ArrayBase o = new_array(aval, code, 0)
    pool_free(o.data)
    o.data = a.data
    o.size = size
    a.owns = False
    a.data = NULL
    a.deleted = True
    return o
