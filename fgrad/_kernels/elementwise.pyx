"""The elementwise VM: kernel "vm" runs a fused group of elementwise operations, with optional reductions of its results,
over tiles that stay in cache.

`ip` is [n_regs, n_consts, n_ops, (type, lo, hi) per constant, (opcode, type, dst, a, b, c) per op, (reg, reduce) per output],
and then, optionally, [n_boxes, (guard, source) per input, (lo, hi) per axis of each box]: op `window` is operand a inside box c and b
outside; a guarded input (guard: its box, or -1) has memory of the box's shape, and outside of it values that a window must leave
out; source is an input of the same array, or the input itself.
Op `take` gives the items at indices a, int32 or int64, of table b: tables are vectors, inputs behind those of registers. Indices are bounded;
with c = 1 negative ones count from the end first. Op `take2` gives those at indices a and b of a table of two axes: c is four times the table,
1 more where negative indices a count from the end, 2 more where b do.
Registers are the inputs, then the constants, then what the ops set (each once).  All inputs and outputs are seen through
slots of one shape; an output with a reduction is a view of its contiguous result with stride 0 on the reduced axes.
float16 and bfloat16 live in memory only: their registers are float32.  The opcodes and what they accept are in `OPCODES`,
`ARITY`, `SUPPORTED` and `RESULT`; the loops are in vm_loops.h and vm_complex.h, one per opcode and type.
"""
from libc.stdint cimport int64_t, uintptr_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from fgrad._kernels.abi cimport (FG_BF16, FG_EMEM, FG_F16, FG_F32, FG_I32, FG_I64, FG_IN, FG_MSG, FG_NDTYPES, FG_OK, FG_OUT, FgInst, FgTensor,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport FG_FINE, parallel_grains
from fgrad._kernels.vm_plan cimport (FG_ACC_FULL, FG_EDGES_PER_OP, FG_MODE_COLUMNS, FG_MODE_WIDE, FG_OP_COUNT, FG_OP_cast, FG_OP_mul,
                                     FG_OP_select, FG_OP_square, FG_OP_take, FG_OP_window, FG_RED_COUNT, FG_RED_NONE, FG_RED_SUM, FG_STAGES_PER_OP,
                                     FgStage, FgVmBox, FgVmConst, FgVmEdge, FgVmFrame, FgVmInput, FgVmOp, FgVmOutput, FgVmPart, FgVmPlan, FgVmStrip,
                                     FgVmThread, Reg, align, fg_vm_cast, fg_vm_fill, fg_vm_find_columns, fg_vm_find_mates,
                                     fg_vm_finish_columns, fg_vm_finish_wide, fg_vm_identity, fg_vm_info, fg_vm_make_masks,
                                     fg_vm_mask_bytes, fg_vm_prepare, fg_vm_reducer, fg_vm_result_type, fg_vm_run_columns,
                                     fg_vm_run_rows, fg_vm_scalar_fn, fg_vm_seg, fg_vm_seg_dot, fg_vm_stream_end, fg_vm_supports,
                                     fg_vm_table, fg_vm_takes, fg_vm_tiles, fg_vm_tiles_dot, make_plan)

cdef extern from "vm_terms.h" nogil:
    void fg_vm_read_terms(FgVmPlan *p, const FgInst *inst, const FgTensor *slots)

cdef extern from "upper.h" nogil:
    void fg_clear_upper()

cdef extern from "vm_quick.h" nogil:
    int fg_vm_find_quick(const FgVmPlan *p)
    bint fg_vm_run_quick(const FgVmPlan *p, const FgInst *inst, FgTensor *slots)

cdef extern from "vm_frame.h" nogil:
    FgVmFrame *fg_vm_make_frame(const FgVmPlan *p)
    void fg_vm_keep_frame(FgVmPlan *p, FgVmFrame *f, char *memory)
    int64_t fg_vm_frame_bytes(const FgVmPlan *p)
    bint fg_vm_fits_frame(const FgVmPlan *p, const FgInst *inst, FgTensor *slots)
    void fg_vm_run_frame(const FgVmPlan *p, const FgInst *inst, FgTensor *slots, char *memory, int part)

cdef extern from *:
    """
    #if defined(__FMA__) || defined(__aarch64__)
    enum { FG_FUSED = 1 };
    #else
    enum { FG_FUSED = 0 };
    #endif
    """
    int FG_FUSED

cdef enum:
    STACK_BYTES = 16384
    MAX_REGS = 65536


# ---------------------------------------------------------------------------------------------------------------- check

cdef int register_type(int dtype) noexcept nogil:
    return FG_F32 if dtype == FG_F16 or dtype == FG_BF16 else dtype


cdef bint is_compute_type(int64_t t) noexcept nogil:
    return 0 <= t < FG_NDTYPES and t != FG_F16 and t != FG_BF16


cdef int check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int64_t *ip = inst.ip
    cdef int64_t n_regs, n_const, n_ops, n_in, n_boxes, plain, boxed
    cdef size_t size, stages
    if inst.n_out < 1:
        return fail(msg, b"vm: at least one output is needed")
    if inst.n_ip < 3:
        return fail(msg, b"vm: ip must start with n_regs, n_consts, n_ops")
    n_regs, n_const, n_ops = ip[0], ip[1], ip[2]
    n_in = n_regs - n_const - n_ops if 0 <= n_regs <= 3 * MAX_REGS else -1                 # tables are no registers
    if n_const < 0 or n_ops < 0 or n_const > MAX_REGS or n_ops > MAX_REGS or inst.n_in > MAX_REGS or not 0 <= n_in <= inst.n_in:
        snprintf(msg, FG_MSG, b"vm: %lld registers for %d inputs, %lld constants and %lld ops: expected one for each, at most %d of a kind",
                 <long long>n_regs, <int>inst.n_in, <long long>n_const, <long long>n_ops, <int>MAX_REGS)
        return -1
    plain = 3 + 3 * n_const + 6 * n_ops + 2 * inst.n_out
    n_boxes = ip[plain] if inst.n_ip > plain else 0
    boxed = 1 + 2 * n_in + 2 * n_boxes * FG_OUT(inst, slots, 0).ndim
    if n_boxes < 0 or n_boxes > MAX_REGS or inst.n_ip != plain + (boxed if inst.n_ip > plain else 0):
        snprintf(msg, FG_MSG, b"vm: %d integer parameters, expected %lld for %lld constants, %lld ops and %d outputs", <int>inst.n_ip,
                 <long long>plain, <long long>n_const, <long long>n_ops, <int>inst.n_out)
        return -1
    size = (sizeof(FgVmPlan) + inst.n_in * sizeof(FgVmInput) + n_const * sizeof(FgVmConst) + n_ops * sizeof(FgVmOp)
            + inst.n_out * sizeof(FgVmOutput) + n_boxes * sizeof(FgVmBox) + (n_regs + 1) * sizeof(FgVmPart)
            + (n_ops * FG_EDGES_PER_OP + inst.n_out) * sizeof(FgVmEdge) + n_ops * sizeof(FgVmStrip) + (n_regs + inst.n_in + inst.n_out) * sizeof(int))
    size = (size + 15) // 16 * 16
    stages = 2 * (n_ops * FG_STAGES_PER_OP + 2 * inst.n_out) * sizeof(FgStage)            # at most: what is left over is given back
    cdef FgVmPlan *p = <FgVmPlan *>malloc(size + stages)
    cdef FgVmPlan *kept
    cdef FgVmFrame *frame = NULL
    cdef uintptr_t at
    cdef Reg *regs = <Reg *>calloc(n_regs + 1, sizeof(Reg))
    cdef int64_t *scratch = <int64_t *>calloc(n_regs + 1, sizeof(FgVmOp) + 8 * sizeof(int))
    cdef int bad = -1, i
    if p == NULL or regs == NULL or scratch == NULL:
        fail(msg, b"vm: out of memory")
    else:
        memset(p, 0, size)
        p.n_in, p.n_tables = <int>n_in, <int>(inst.n_in - n_in)
        p.n_const, p.n_ops, p.n_out, p.n_regs = <int>n_const, <int>n_ops, inst.n_out, <int>n_regs
        p.machine = inst.machine
        p.n_boxes, p.box_at = <int>n_boxes, <int>(plain + 1 + 2 * n_in) if inst.n_ip > plain else 0
        lay_out(p, size)
        bad = check_code(p, inst, slots, regs, msg)
        if bad == 0:
            bad = check_boxes(p, inst, slots, msg) or check_shapes(p, inst, slots, msg)
        if bad == 0 and p.n > 0:
            sum_products(p, inst, slots)
            fg_vm_read_terms(p, inst, slots)
            for i in range(p.n_in):
                regs[i].type = p.in_[i].type
            make_plan(p, inst, slots, regs, scratch)
            p.quick = fg_vm_find_quick(p) if FG_FINE * p.units <= p.grain else 0
            frame = fg_vm_make_frame(p)
            for i in range(p.n_ops):
                if p.ops[i].scalar:          # this module's loops: the stages' module lacks the registers of their banks
                    p.ops[i].fn = fg_vm_scalar_fn(p.ops[i].op, p.ops[i].type, p.ops[i].scalar == 2)
    free(regs)
    free(scratch)
    if bad:
        free(p)
        return -1
    at = <uintptr_t>p
    stages = p.n_stages * sizeof(FgStage)
    kept = <FgVmPlan *>realloc(p, size + stages + (fg_vm_mask_bytes(p) + 15) // 16 * 16 + (frame.size if frame != NULL else 0))
    if kept == NULL:
        free(p)
        free(frame)
        return fail(msg, b"vm: out of memory")
    shift_parts(kept, <int64_t>(<uintptr_t>kept - at))
    fg_vm_make_masks(kept, <char *>kept.stages + stages)
    fg_vm_keep_frame(kept, frame, <char *>kept.stages + stages + (fg_vm_mask_bytes(kept) + 15) // 16 * 16)
    inst.extra = kept
    return 0


cdef void lay_out(FgVmPlan *p, size_t size) noexcept nogil:
    """Where a plan's parts lie behind it; its stages at `size` bytes."""
    p.out = <FgVmOutput *>(p + 1)
    p.boxes = <FgVmBox *>(p.out + p.n_out)
    p.in_ = <FgVmInput *>(p.boxes + p.n_boxes)
    p.ops = <FgVmOp *>(p.in_ + p.n_in)
    p.consts = <FgVmConst *>(p.ops + p.n_ops)
    p.parts = <FgVmPart *>(p.consts + p.n_const)
    p.strips = <FgVmStrip *>(p.parts + p.n_regs + 1)
    p.edges = <FgVmEdge *>(p.strips + p.n_ops)
    p.types = <int *>(p.edges + FG_EDGES_PER_OP * p.n_ops + p.n_out)
    p.in_order = p.types + p.n_regs
    p.out_order = p.in_order + p.n_in
    p.stages = <FgStage *>(<char *>p + size)


cdef void shift_parts(FgVmPlan *p, int64_t n) noexcept nogil:
    """A plan has moved by n bytes: so have its parts, whose numbers may be smaller by now."""
    p.out = <FgVmOutput *>(<char *>p.out + n)
    p.boxes = <FgVmBox *>(<char *>p.boxes + n)
    p.in_ = <FgVmInput *>(<char *>p.in_ + n)
    p.ops = <FgVmOp *>(<char *>p.ops + n)
    p.consts = <FgVmConst *>(<char *>p.consts + n)
    p.parts = <FgVmPart *>(<char *>p.parts + n)
    p.strips = <FgVmStrip *>(<char *>p.strips + n)
    p.edges = <FgVmEdge *>(<char *>p.edges + n)
    p.types = <int *>(<char *>p.types + n)
    p.in_order = <int *>(<char *>p.in_order + n)
    p.out_order = <int *>(<char *>p.out_order + n)
    p.stages = <FgStage *>(<char *>p.stages + n)


cdef int fail(char *msg, const char *text) noexcept nogil:
    snprintf(msg, FG_MSG, b"%s", text)
    return -1


cdef int check_code(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, char *msg) noexcept nogil:
    """Types and order of the registers; fills the plan's inputs, constants, ops and outputs."""
    cdef int i, k, j, arity, op, want, first_op = p.n_in + p.n_const
    cdef int64_t *ip = inst.ip + 3
    cdef int64_t *arg
    for i in range(p.n_regs):
        regs[i].type, regs[i].first, regs[i].last, regs[i].slot = -1, -1, -1, -1
    for i in range(p.n_in):
        p.in_[i].dtype = FG_IN(inst, slots, i).dtype
        p.in_[i].size = <int>fg_itemsize(p.in_[i].dtype)
        p.in_[i].type = regs[i].type = register_type(p.in_[i].dtype)
    for k in range(p.n_const):
        if not is_compute_type(ip[0]):
            snprintf(msg, FG_MSG, b"vm: constant %d has type %lld, which is not a compute type", k, <long long>ip[0])
            return -1
        p.consts[k].type = regs[p.n_in + k].type = <int>ip[0]
        p.consts[k].reg = p.n_in + k
        memcpy(p.consts[k].bits, ip + 1, 16)
        ip += 3
    for k in range(p.n_ops):
        if not 0 <= ip[0] < FG_OP_COUNT:
            snprintf(msg, FG_MSG, b"vm: op %d has opcode %lld, which does not exist", k, <long long>ip[0])
            return -1
        op = <int>ip[0]
        arity = fg_vm_info[op].arity
        if not is_compute_type(ip[1]) or not (op == FG_OP_window or fg_vm_takes(op) or fg_vm_supports(op, <int>ip[1])):
            snprintf(msg, FG_MSG, b"vm: op %d: %s does not accept type %lld", k, fg_vm_info[op].name, <long long>ip[1])
            return -1
        if not first_op <= ip[2] < p.n_regs or regs[ip[2]].type != -1:
            snprintf(msg, FG_MSG, b"vm: op %d (%s) sets register %lld: it must be in [%d, %d) and set once", k, fg_vm_info[op].name,
                     <long long>ip[2], first_op, p.n_regs)
            return -1
        arg = ip + 3
        for j in range(arity):
            if not 0 <= arg[j] < p.n_regs or regs[arg[j]].type == -1:
                snprintf(msg, FG_MSG, b"vm: op %d (%s) reads register %lld, which is not set before it", k, fg_vm_info[op].name,
                         <long long>arg[j])
                return -1
            want = 0 if op == FG_OP_select and j == 0 else <int>ip[1]
            if fg_vm_takes(op):
                want = FG_I64 if regs[arg[0]].type == FG_I64 else FG_I32
            if op != FG_OP_cast and regs[arg[j]].type != want:
                snprintf(msg, FG_MSG, b"vm: op %d: operand %d of %s has type %d, expected %d", k, j, fg_vm_info[op].name,
                         regs[arg[j]].type, want)
                return -1
            regs[arg[j]].last = k
        p.ops[k].fn = fg_vm_cast[regs[arg[0]].type][ip[1]] if op == FG_OP_cast else fg_vm_table[op][ip[1]]
        p.ops[k].op, p.ops[k].type = op, <int>ip[1]
        p.ops[k].dst = <int>ip[2]
        p.ops[k].a = <int>arg[0]
        p.ops[k].b = <int>arg[1] if arity > 1 else p.ops[k].a
        p.ops[k].c = <int>arg[2] if arity > 2 else p.ops[k].a
        if op == FG_OP_window:
            if not 0 <= arg[2] < p.n_boxes:
                snprintf(msg, FG_MSG, b"vm: op %d is a window with box %lld of %d", k, <long long>arg[2], p.n_boxes)
                return -1
            p.ops[k].box = <int>arg[2]
        if fg_vm_takes(op) and check_table(p, inst, slots, k, arg, msg):
            return -1
        regs[ip[2]].type = fg_vm_result_type(op, <int>ip[1])
        regs[ip[2]].first = regs[ip[2]].last = k
        ip += 6
    for k in range(p.n_out):
        if not 0 <= ip[0] < p.n_regs or regs[ip[0]].type == -1:
            snprintf(msg, FG_MSG, b"vm: output %d is register %lld, which is not set", k, <long long>ip[0])
            return -1
        p.out[k].reg = <int>ip[0]
        p.out[k].reg2 = -1
        p.out[k].type = regs[ip[0]].type
        p.out[k].term = <int>fg_itemsize(p.out[k].type)
        p.out[k].dtype = FG_OUT(inst, slots, k).dtype
        p.out[k].size = <int>fg_itemsize(p.out[k].dtype)
        if p.out[k].type != register_type(p.out[k].dtype):
            snprintf(msg, FG_MSG, b"vm: output %d has dtype %d, but its register has type %d", k, p.out[k].dtype, p.out[k].type)
            return -1
        if not 0 <= ip[1] < FG_RED_COUNT or (ip[1] != FG_RED_NONE and fg_vm_reducer(<int>ip[1], p.out[k].type) == NULL):
            snprintf(msg, FG_MSG, b"vm: output %d: reduction %lld is not supported on type %d", k, <long long>ip[1], p.out[k].type)
            return -1
        p.out[k].reduce = <int>ip[1]
        if p.out[k].reduce:
            p.n_reduced += 1
            p.out[k].fn = fg_vm_reducer(p.out[k].reduce, p.out[k].type)
            p.out[k].seg = fg_vm_seg[p.out[k].reduce][p.out[k].type]
            p.out[k].tiles = fg_vm_tiles[p.out[k].reduce][p.out[k].type]
            fg_vm_identity(p.out[k].reduce, p.out[k].dtype, p.out[k].identity)
        ip += 2
    return 0


cdef int check_table(FgVmPlan *p, FgInst *inst, const FgTensor *slots, int k, const int64_t *arg, char *msg) noexcept nogil:
    """The table of take k: of its type and one or two axes that are not empty and span less than 2**31 items."""
    cdef const FgTensor *t
    cdef int64_t reach, most = 1 << (30 if p.ops[k].op == FG_OP_take else 29)       # an axis
    cdef bint fits
    cdef int d, axes = 1 if p.ops[k].op == FG_OP_take else 2
    cdef int64_t table = arg[1] if axes == 1 else arg[2] >> 2, wraps = arg[2] if axes == 1 else arg[2] & 3
    if not (0 <= table < p.n_tables and 0 <= wraps < 1 << axes):
        snprintf(msg, FG_MSG, b"vm: op %d takes from table %lld of %d, in mode %lld", k, <long long>table, p.n_tables, <long long>wraps)
        return -1
    t = FG_IN(inst, slots, p.n_in + <int>table)
    fits = t.ndim == axes and t.dtype == p.ops[k].type
    for d in range(axes if fits else 0):
        reach = most // max(t.shape[d], 1)
        fits = fits and 1 <= t.shape[d] <= most and -reach <= t.strides[d] <= reach
    if not fits:
        snprintf(msg, FG_MSG, b"vm: op %d takes from a table that is no %s of type %d with up to 2**30 items", k,
                 b"vector" if axes == 1 else b"matrix", p.ops[k].type)
        return -1
    p.ops[k].table, p.ops[k].wraps = <int>table, <int>wraps
    return 0


cdef int check_boxes(FgVmPlan *p, FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    """Boxes lie within the shape, and are not empty unless it is; guards are boxes."""
    cdef const FgTensor *s = FG_OUT(inst, slots, 0)
    cdef int64_t *ip
    cdef int i, d, b
    for i in range(p.n_in):
        p.in_[i].guard, p.in_[i].source = -1, i
        if p.box_at:
            ip = inst.ip + p.box_at - 2 * p.n_in + 2 * i
            if not (-1 <= ip[0] < p.n_boxes and 0 <= ip[1] < p.n_in):
                snprintf(msg, FG_MSG, b"vm: input %d has box %lld of %d and stands for input %lld of %d", i, <long long>ip[0], p.n_boxes,
                         <long long>ip[1], p.n_in)
                return -1
            p.in_[i].guard, p.in_[i].source = <int>ip[0], <int>ip[1]
    for b in range(p.n_boxes):
        for d in range(s.ndim):
            ip = inst.ip + p.box_at + 2 * (b * s.ndim + d)
            if not (0 <= ip[0] < ip[1] <= s.shape[d] or (s.size == 0 and ip[0] == ip[1] == 0)):
                snprintf(msg, FG_MSG, b"vm: box %d is [%lld, %lld) along axis %d of size %lld", b, <long long>ip[0], <long long>ip[1], d,
                         <long long>s.shape[d])
                return -1
    return 0


cdef bint fits_guard(FgVmPlan *p, FgInst *inst, const FgTensor *s, const FgTensor *t, int box) noexcept nogil:
    """True if t has the shape of the box, and one value along no axis that the box cuts."""
    cdef int64_t *ip = inst.ip + p.box_at + 2 * box * s.ndim
    cdef int d
    if t.ndim != s.ndim:
        return False
    for d in range(s.ndim):
        if t.shape[d] != ip[2 * d + 1] - ip[2 * d]:
            return False
    return True


cdef int check_shapes(FgVmPlan *p, FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    """One shape for all slots; outputs written once per element, or the same reduced axes."""
    cdef const FgTensor *s = FG_OUT(inst, slots, 0)
    cdef const FgTensor *t
    cdef const FgTensor *r = NULL
    cdef int i, d
    cdef int64_t expect
    for i in range(p.n_in + p.n_out):
        if i < p.n_in:                                   # no conditional expression: its value would not be const
            t = FG_IN(inst, slots, i)
        else:
            t = FG_OUT(inst, slots, i - p.n_in)
        if not (fits_guard(p, inst, s, t, p.in_[i].guard) if i < p.n_in and p.in_[i].guard >= 0 else fg_same_shape(t, s)):
            snprintf(msg, FG_MSG, b"vm: %s %d does not have the shape of output 0", b"input" if i < p.n_in else b"output",
                     i if i < p.n_in else i - p.n_in)
            return -1
    p.n = s.size
    for i in range(p.n_out):
        t = FG_OUT(inst, slots, i)
        if not p.out[i].reduce:
            for d in range(t.ndim):
                if p.n > 0 and t.shape[d] > 1 and t.strides[d] == 0:
                    snprintf(msg, FG_MSG, b"vm: output %d has stride 0 on axis %d but no reduction", i, d)
                    return -1
            continue
        expect = 1
        for d in range(t.ndim - 1, -1, -1):
            if t.shape[d] == 1 or t.strides[d] == 0:
                continue
            if p.n > 0 and t.strides[d] != expect:
                snprintf(msg, FG_MSG, b"vm: reduced output %d must be contiguous over its kept axes: stride %lld on axis %d, expected %lld",
                         i, <long long>t.strides[d], d, <long long>expect)
                return -1
            expect *= t.shape[d]
        p.out[i].count = expect
        if r != NULL and p.n > 0:
            for d in range(t.ndim):
                if t.shape[d] > 1 and (t.strides[d] == 0) != (r.strides[d] == 0):
                    snprintf(msg, FG_MSG, b"vm: reduced output %d and the first one differ on whether axis %d is reduced", i, d)
                    return -1
        if r == NULL:
            r = t
    return 0


cdef bint changes_fast(FgVmPlan *p, FgInst *inst, const FgTensor *slots, int r) noexcept nogil:
    """True unless register r is a constant, or an input with one value for a row of the last axis."""
    cdef const FgTensor *t
    cdef int d
    if r >= p.n_in:
        return r >= p.n_in + p.n_const
    t = &slots[inst.args[r]]
    d = t.ndim - 1
    while d >= 0 and t.shape[d] == 1:
        d -= 1
    return d >= 0 and t.strides[d] != 0


cdef void sum_products(FgVmPlan *p, FgInst *inst, const FgTensor *slots) noexcept nogil:
    """Sums of products that nobody else reads take the two factors: the product needs no tile and no pass of its own."""
    cdef int i, k, o, readers, n = 0
    cdef FgVmOp *op
    cdef FgVmOutput *out
    if p.n_reduced == 0:
        return
    for k in range(p.n_ops):
        op = &p.ops[k]
        readers, o = 0, -1
        if op.op == FG_OP_mul or op.op == FG_OP_square:
            for i in range(p.n_out):
                if p.out[i].reg == op.dst:
                    readers, o = readers + 1, i
            for i in range(k + 1, p.n_ops if o >= 0 else 0):
                readers += p.ops[i].a == op.dst or p.ops[i].b == op.dst or p.ops[i].c == op.dst
        out = &p.out[o]
        if (readers == 1 and o >= 0 and out.reduce == FG_RED_SUM and fg_vm_seg_dot(op.type) != NULL
                and changes_fast(p, inst, slots, op.a) and changes_fast(p, inst, slots, op.b)):
            out.reg, out.reg2 = op.a, op.b
            out.seg, out.tiles = fg_vm_seg_dot(op.type), fg_vm_tiles_dot(op.type)
            continue
        p.ops[n] = op[0]
        n += 1
    p.n_ops = n


# ------------------------------------------------------------------------------------------------------------------ run

cdef struct Run:
    const FgVmPlan *p
    const FgInst *inst
    FgTensor *slots
    char *partials
    int64_t per_part      # units of each part where parts run one after the other, else 0
    int fault


cdef void body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Run *r = <Run *>ctx
    cdef const FgVmPlan *p = r.p
    cdef char stack[16384 + 64]
    cdef FgVmThread t
    cdef char *mem = NULL
    cdef int64_t head = align((p.n_regs + p.n_boxes + p.n_slots + p.n_out + p.n_in) * sizeof(char *) + p.n_in + p.n_out)
    cdef int i, k
    cdef int64_t part
    cdef char *copied
    cdef char *streamed
    if head + p.work_bytes <= STACK_BYTES:
        t.ptr = <char **>((<size_t>stack + 63) // 64 * 64)
    else:
        mem = pool_alloc(head + p.work_bytes)
        if mem == NULL:
            r.fault = FG_EMEM
            return
        t.ptr = <char **>mem
    t.part = &p.parts[p.n_parts]
    copied = <char *>(t.ptr + p.n_regs + p.n_boxes + p.n_slots + p.n_out + p.n_in)     # a pointer has room for an operand's mates
    streamed = copied + p.n_in
    t.work, t.work_bytes = <char *>t.ptr + head, p.work_bytes
    t.p, t.inst, t.slots, t.copied, t.streamed = p, r.inst, r.slots, copied, streamed
    for k in range(p.n_out):
        streamed[k] = p.streams and not p.out[k].reduce and p.out[k].access == FG_ACC_FULL
    for i in range(p.n_in):
        copied[i] = 0
        for k in range(p.n_out):
            if r.slots[r.inst.args[i]].data != r.slots[r.inst.args[r.inst.n_in + k]].data or p.out[k].reduce:
                continue
            streamed[k] = 0
            if p.out[k].write_time < p.in_[i].last_use:
                copied[i] = 1
    fg_vm_find_mates(&t, t.ptr + p.n_regs + p.n_boxes + p.n_slots)
    if p.columns:
        fg_vm_find_columns(&t, t.ptr + p.n_regs + p.n_boxes + p.n_slots + p.n_out)
    fg_vm_prepare(&t)
    if p.mode == FG_MODE_COLUMNS:
        fg_vm_run_columns(&t, r.partials, begin, end)
    elif r.per_part == 0:
        fg_vm_run_rows(&t, r.partials, begin, end)
    else:
        while begin < end:
            part = begin // r.per_part
            t.part = &p.parts[part]
            fg_vm_run_rows(&t, r.partials, begin - part * r.per_part, min(end - part * r.per_part, r.per_part))
            begin = (part + 1) * r.per_part
    if p.streams:
        fg_vm_stream_end()
    fg_clear_upper()
    pool_free(mem)


cdef bint parts_are_apart(const FgVmPlan *p, const FgInst *inst, FgTensor *slots) noexcept nogil:
    """False if an output of one part takes over memory that another part reads."""
    cdef int a, b, i, k
    cdef char *mem
    for a in range(p.n_parts):
        for k in range(p.parts[a].out, p.parts[a].out_end):
            mem = FG_OUT(inst, slots, p.out_order[k]).data
            for b in range(p.n_parts):
                for i in range(p.parts[b].in_, p.parts[b].in_end):
                    if b != a and FG_IN(inst, slots, p.in_order[i]).data == mem:
                        return False
    return True


cdef void frame_parts(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Run *r = <Run *>ctx
    cdef char stack[STACK_BYTES + 64]
    cdef char *at = <char *>((<size_t>stack + 63) // 64 * 64)
    cdef char *mem = NULL
    cdef int part
    if fg_vm_frame_bytes(r.p) > STACK_BYTES:
        at = mem = pool_alloc(fg_vm_frame_bytes(r.p))
        if mem == NULL:
            r.fault = FG_EMEM
            return
    for part in range(<int>begin, <int>end):
        fg_vm_run_frame(r.p, r.inst, r.slots, at, part)
    fg_clear_upper()
    pool_free(mem)


cdef int run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgVmPlan *p = <const FgVmPlan *>inst.extra
    cdef Run r
    cdef FgVmThread t
    cdef int64_t units = p.units, grain = p.grain
    cdef int k
    if p.n == 0:
        for k in range(p.n_out):
            if p.out[k].reduce:
                fg_vm_fill(FG_OUT(inst, slots, k).data, p.out[k].identity, p.out[k].size, p.out[k].count)
        return FG_OK
    if p.quick and fg_vm_run_quick(p, inst, slots):
        fg_clear_upper()
        return FG_OK
    r.p, r.inst, r.slots, r.partials, r.per_part, r.fault = p, inst, slots, NULL, 0, 0
    if p.frame != NULL and fg_vm_fits_frame(p, inst, slots):
        units, grain = p.frame.parts, max(1, p.strip_grain * p.frame.parts // p.frame.strips)
        if FG_FINE * p.frame.strips <= p.strip_grain:
            frame_parts(&r, 0, units, 0)
        else:
            parallel_grains(units, grain, frame_parts, &r)
        return r.fault
    if p.n_parts > 1:
        if p.n > 1 and parts_are_apart(p, inst, slots):       # single values lie in no part: any may read them
            r.per_part = units // p.n_parts
        else:
            units, grain = units // p.n_parts, grain // p.n_parts + 1
    if p.partial_bytes:
        r.partials = pool_alloc(p.partial_bytes)
        if r.partials == NULL:
            return FG_EMEM
    if FG_FINE * units <= grain:
        body(&r, 0, units, 0)
    else:
        parallel_grains(units, grain, body, &r)
    if p.partial_bytes:
        if not r.fault:
            t.p, t.inst, t.slots, t.ptr, t.work, t.copied, t.streamed = p, inst, slots, NULL, NULL, NULL, NULL
            if p.mode == FG_MODE_WIDE:
                fg_vm_finish_wide(&t, r.partials)
            else:
                fg_vm_finish_columns(&t, r.partials)
        pool_free(r.partials)
    return r.fault


# --------------------------------------------------------------------------------------------------------------- tables

cdef dict result_names = {b"S": "same", b"B": "bool", b"R": "real", b"C": "complex", b"K": "cast"}
FUSED = bool(FG_FUSED)                   # what these kernels were built for has fused multiply-add: functions round once less
OPCODES = {(<bytes>fg_vm_info[_i].name).decode(): _i for _i in range(FG_OP_COUNT)}
ARITY = {_name: fg_vm_info[_i].arity for _name, _i in OPCODES.items()}
SUPPORTED = {_name: frozenset([_t for _t in range(FG_NDTYPES) if fg_vm_supports(_i, _t)]) for _name, _i in OPCODES.items()}
RESULT = {_name: result_names[bytes([fg_vm_info[_i].result])] for _name, _i in OPCODES.items()}
WEIGHTS = {_name: fg_vm_info[_i].weight for _name, _i in OPCODES.items()}
REDUCTIONS = {"none": 0, "sum": 1, "prod": 2, "max": 3, "min": 4, "fmax": 5, "fmin": 6}
KERNELS = {"vm": (<size_t><void *>run, <size_t><void *>check)}
