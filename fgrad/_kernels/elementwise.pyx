"""The elementwise VM: kernel "vm" runs a fused group of elementwise operations, with optional reductions of its results,
over tiles that stay in cache.

`ip` is [n_regs, n_consts, n_ops, (type, lo, hi) per constant, (opcode, type, dst, a, b, c) per op, (reg, reduce) per output].
Registers are the inputs, then the constants, then what the ops set (each once).  All inputs and outputs are seen through
slots of one shape; an output with a reduction is a view of its contiguous result with stride 0 on the reduced axes.
float16 and bfloat16 live in memory only: their registers are float32.  The opcodes and what they accept are in `OPCODES`,
`ARITY`, `SUPPORTED` and `RESULT`; the loops are in vm_loops.h and vm_complex.h, one per opcode and type.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from fgrad._kernels.abi cimport (FG_BF16, FG_EMEM, FG_F16, FG_F32, FG_IN, FG_MSG, FG_NDTYPES, FG_OK, FG_OUT, FgInst, FgTensor,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef extern from "vm_plan.h" nogil:
    enum:
        FG_OP_COUNT, FG_OP_select, FG_OP_cast, FG_RED_NONE, FG_RED_COUNT
        FG_ACC_FULL, FG_ACC_CACHED, FG_ACC_GENERAL
        FG_MODE_FLAT, FG_MODE_SEGMENT, FG_MODE_WIDE, FG_MODE_COLUMNS
    ctypedef void (*FgVmFn)(int64_t n, void *d, const void *a, const void *b, const void *c) noexcept nogil
    ctypedef void (*FgVmSeg)(void *d, const void *s, int64_t rows, int64_t k, int64_t width) noexcept nogil
    ctypedef struct FgVmInfo:
        const char *name
        int arity
        char result
        int weight
    const FgVmInfo *fg_vm_info
    const FgVmFn fg_vm_table[100][15]
    const FgVmFn fg_vm_cast[15][15]
    const FgVmSeg fg_vm_seg[5][15]
    int fg_vm_supports(int op, int t)
    int fg_vm_result_type(int op, int t)
    FgVmFn fg_vm_reducer(int reduce, int t)
    void fg_vm_identity(int reduce, int t, void *out)
    void fg_vm_fill(char *dst, const void *value, int size, int64_t n)

    ctypedef struct FgVmInput:
        int access, dtype, type, size, last_use
        int64_t buf
        int64_t strides[16]
    ctypedef struct FgVmConst:
        int reg, type
        int64_t buf
        char bits[16]
    ctypedef struct FgVmOp:
        FgVmFn fn
        int dst, a, b, c
        int64_t buf
    ctypedef struct FgVmOutput:
        int reg, reduce, dtype, type, size, access, direct, write_time
        int64_t count, buf, buf2, part
        FgVmFn fn
        FgVmSeg seg
        char identity[16]
        int64_t strides[16]
    ctypedef struct FgVmPlan:
        int n_in, n_const, n_ops, n_out, n_regs, ndim, mode, n_reduced, any_general, folds
        int64_t n, n_outer, n_red, n_inner, row, step, chunks, tile_rows, blocks, span, units, grain
        int64_t raw_buf, partial_bytes, work_bytes
        int64_t shape[16]
        FgVmInput *in_ "in"
        FgVmConst *consts
        FgVmOp *ops
        FgVmOutput *out
    ctypedef struct FgVmThread:
        const FgVmPlan *p
        const FgInst *inst
        FgTensor *slots
        char **ptr
        char *work
        const char *copied
    void fg_vm_prepare(FgVmThread *t)
    void fg_vm_run_rows(FgVmThread *t, char *partials, int64_t begin, int64_t end)
    void fg_vm_run_columns(FgVmThread *t, char *partials, int64_t begin, int64_t end)
    void fg_vm_finish_wide(FgVmThread *t, char *partials)
    void fg_vm_finish_columns(FgVmThread *t, char *partials)

cdef enum:
    STACK_BYTES = 16384
    MAX_REGS = 65536
    FOREVER = 2147483647

# What is known of each register while a plan is made.
cdef struct Reg:
    int type         # compute type, -1 while unset
    int first        # time of definition: -1 for inputs and constants
    int last         # time of last use
    int slot         # tile buffer among those of its size, -1 for none
    int shared       # the same in every tile


# ---------------------------------------------------------------------------------------------------------------- check

cdef int register_type(int dtype) noexcept nogil:
    return FG_F32 if dtype == FG_F16 or dtype == FG_BF16 else dtype


cdef bint is_compute_type(int64_t t) noexcept nogil:
    return 0 <= t < FG_NDTYPES and t != FG_F16 and t != FG_BF16


cdef int check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int64_t *ip = inst.ip
    cdef int64_t n_regs, n_const, n_ops
    cdef size_t size
    if inst.n_out < 1:
        return fail(msg, b"vm: at least one output is needed")
    if inst.n_ip < 3:
        return fail(msg, b"vm: ip must start with n_regs, n_consts, n_ops")
    n_regs, n_const, n_ops = ip[0], ip[1], ip[2]
    if n_const < 0 or n_ops < 0 or n_const > MAX_REGS or n_ops > MAX_REGS or inst.n_in > MAX_REGS or n_regs != inst.n_in + n_const + n_ops:
        snprintf(msg, FG_MSG, b"vm: %lld registers for %d inputs, %lld constants and %lld ops: expected one for each, at most %d of a kind",
                 <long long>n_regs, <int>inst.n_in, <long long>n_const, <long long>n_ops, <int>MAX_REGS)
        return -1
    if inst.n_ip != 3 + 3 * n_const + 6 * n_ops + 2 * inst.n_out:
        snprintf(msg, FG_MSG, b"vm: %d integer parameters, expected %lld for %lld constants, %lld ops and %d outputs", <int>inst.n_ip,
                 <long long>(3 + 3 * n_const + 6 * n_ops + 2 * inst.n_out), <long long>n_const, <long long>n_ops, <int>inst.n_out)
        return -1
    size = (sizeof(FgVmPlan) + inst.n_in * sizeof(FgVmInput) + n_const * sizeof(FgVmConst) + n_ops * sizeof(FgVmOp)
            + inst.n_out * sizeof(FgVmOutput))
    cdef FgVmPlan *p = <FgVmPlan *>calloc(1, size)
    cdef Reg *regs = <Reg *>calloc(n_regs + 1, sizeof(Reg))
    cdef int64_t *scratch = <int64_t *>calloc(n_regs + 1, sizeof(int64_t))
    cdef int bad = -1
    if p == NULL or regs == NULL or scratch == NULL:
        fail(msg, b"vm: out of memory")
    else:
        p.n_in, p.n_const, p.n_ops, p.n_out, p.n_regs = inst.n_in, <int>n_const, <int>n_ops, inst.n_out, <int>n_regs
        p.out = <FgVmOutput *>(p + 1)
        p.in_ = <FgVmInput *>(p.out + p.n_out)
        p.ops = <FgVmOp *>(p.in_ + p.n_in)
        p.consts = <FgVmConst *>(p.ops + p.n_ops)
        bad = check_code(p, inst, slots, regs, msg)
        if bad == 0:
            bad = check_shapes(p, inst, slots, msg)
        if bad == 0 and p.n > 0:
            make_plan(p, inst, slots, regs, scratch)
    free(regs)
    free(scratch)
    if bad:
        free(p)
        return -1
    inst.extra = p
    return 0


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
        if not is_compute_type(ip[1]) or not fg_vm_supports(op, <int>ip[1]):
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
            if op != FG_OP_cast and regs[arg[j]].type != want:
                snprintf(msg, FG_MSG, b"vm: op %d: operand %d of %s has type %d, expected %d", k, j, fg_vm_info[op].name,
                         regs[arg[j]].type, want)
                return -1
            regs[arg[j]].last = k
        p.ops[k].fn = fg_vm_cast[regs[arg[0]].type][ip[1]] if op == FG_OP_cast else fg_vm_table[op][ip[1]]
        p.ops[k].dst = <int>ip[2]
        p.ops[k].a = <int>arg[0]
        p.ops[k].b = <int>arg[1] if arity > 1 else p.ops[k].a
        p.ops[k].c = <int>arg[2] if arity > 2 else p.ops[k].a
        regs[ip[2]].type = fg_vm_result_type(op, <int>ip[1])
        regs[ip[2]].first = regs[ip[2]].last = k
        ip += 6
    for k in range(p.n_out):
        if not 0 <= ip[0] < p.n_regs or regs[ip[0]].type == -1:
            snprintf(msg, FG_MSG, b"vm: output %d is register %lld, which is not set", k, <long long>ip[0])
            return -1
        p.out[k].reg = <int>ip[0]
        p.out[k].type = regs[ip[0]].type
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
            fg_vm_identity(p.out[k].reduce, p.out[k].type, p.out[k].identity)
            if p.out[k].dtype != p.out[k].type:
                narrow_identity(&p.out[k])
        ip += 2
    return 0


cdef void narrow_identity(FgVmOutput *out) noexcept nogil:
    """The identity as it is stored in a 16-bit result."""
    cdef int red = out.reduce
    cdef int bits = 0
    if out.dtype == FG_F16:
        bits = 0x3c00 if red == 2 else 0xfc00 if red == 3 else 0x7c00 if red == 4 else 0
    else:
        bits = 0x3f80 if red == 2 else 0xff80 if red == 3 else 0x7f80 if red == 4 else 0
    memset(out.identity, 0, 16)
    out.identity[0] = <char>(bits & 255)
    out.identity[1] = <char>(bits >> 8)


cdef int check_shapes(FgVmPlan *p, FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    """One shape for all slots; outputs written once per element, or the same reduced axes."""
    cdef const FgTensor *s = FG_OUT(inst, slots, 0)
    cdef const FgTensor *t
    cdef const FgTensor *r = NULL
    cdef int i, d
    cdef int64_t expect
    for i in range(p.n_in + p.n_out):
        t = &slots[inst.args[i]]
        if not fg_same_shape(t, s):
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


# ----------------------------------------------------------------------------------------------------------------- plan

cdef int64_t *operand_strides(FgVmPlan *p, int i) noexcept nogil:
    """Walk strides of operand i: inputs, then outputs."""
    return &p.in_[i].strides[0] if i < p.n_in else &p.out[i - p.n_in].strides[0]


cdef bint is_walked(FgVmPlan *p, int i) noexcept nogil:
    return i < p.n_in or p.out[i - p.n_in].reduce == 0


cdef void order_axes(FgVmPlan *p, FgInst *inst, const FgTensor *slots) noexcept nogil:
    """Drop axes of extent 1, bring the rest into walk order, merge neighbours that every operand walks as one."""
    cdef const FgTensor *s = FG_OUT(inst, slots, 0)
    cdef int axes[16]
    cdef bint reduced[16]
    cdef int order[16]
    cdef int i, d, m = 0, k = 0, inner, first
    cdef bint merge
    cdef int64_t *st
    for i in range(p.n_out):
        if p.out[i].reduce:
            s = FG_OUT(inst, slots, i)
            break
    for d in range(s.ndim):
        if s.shape[d] != 1:
            axes[m] = d
            reduced[m] = p.n_reduced > 0 and s.strides[d] == 0
            m += 1
    inner = m                              # the kept axes behind the last reduced one stay innermost
    while inner > 0 and not reduced[inner - 1]:
        inner -= 1
    p.n_outer = p.n_red = p.n_inner = 1
    for d in range(inner):
        if not reduced[d]:
            order[k] = axes[d]
            p.n_outer *= s.shape[axes[d]]
            k += 1
    for d in range(inner):
        if reduced[d]:
            order[k] = axes[d]
            p.n_red *= s.shape[axes[d]]
            k += 1
    for d in range(inner, m):
        order[k] = axes[d]
        p.n_inner *= s.shape[axes[d]]
        k += 1
    p.ndim = 0
    for d in range(m):
        merge = d > 0
        for i in range(p.n_in + p.n_out):
            if not merge:
                break
            if is_walked(p, i):
                st = operand_strides(p, i)
                merge = st[p.ndim - 1] == slots[inst.args[i]].strides[order[d]] * s.shape[order[d]]
        if merge:
            p.shape[p.ndim - 1] *= s.shape[order[d]]
        else:
            p.shape[p.ndim] = s.shape[order[d]]
            p.ndim += 1
        for i in range(p.n_in + p.n_out):
            operand_strides(p, i)[p.ndim - 1] = slots[inst.args[i]].strides[order[d]]


cdef bint is_full(FgVmPlan *p, const int64_t *strides) noexcept nogil:
    cdef int64_t expect = 1
    cdef int d
    for d in range(p.ndim - 1, -1, -1):
        if strides[d] != expect:
            return False
        expect *= p.shape[d]
    return True


cdef int64_t period(FgVmPlan *p, const int64_t *strides) noexcept nogil:
    """An operand's values repeat after this many steps of the walk."""
    cdef int64_t n = 1
    cdef int d, first = 0
    while first < p.ndim and strides[first] == 0:
        first += 1
    for d in range(first, p.ndim):
        n *= p.shape[d]
    return n


cdef void make_plan(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, int64_t *scratch) noexcept nogil:
    cdef int i, k
    cdef int64_t tile, unit = 1, per, best, cost_bytes
    order_axes(p, inst, slots)
    for i in range(p.n_in):
        p.in_[i].access = FG_ACC_FULL if is_full(p, p.in_[i].strides) else FG_ACC_GENERAL
    for k in range(p.n_out):
        p.out[k].access = FG_ACC_FULL if not p.out[k].reduce and is_full(p, p.out[k].strides) else FG_ACC_GENERAL
    plan_times(p, regs)

    # The tile: all live registers within about 28 KB, then whole periods of broadcast operands and whole segments.
    cost_bytes = plan_slots(p, regs, scratch, NULL)
    tile = 2048
    while tile > 512 and tile * cost_bytes > 28672:
        tile //= 2
    p.tile_rows = p.blocks = p.chunks = 1
    if p.n_reduced == 0:
        p.mode, p.row = FG_MODE_FLAT, p.n
        for i in range(p.n_in):            # rows of a strided operand that need no copy, if a tile stays within one
            if p.in_[i].access == FG_ACC_GENERAL and p.in_[i].strides[p.ndim - 1] == 1 and p.shape[p.ndim - 1] >= tile:
                p.row = p.shape[p.ndim - 1]
    elif p.n_red * p.n_inner <= tile:
        p.mode, p.row, unit = FG_MODE_SEGMENT, p.n, p.n_red * p.n_inner
        p.folds = p.n_inner > 1 and p.n_red >= 8
    elif p.n_inner == 1:
        p.mode, p.row = FG_MODE_WIDE, p.n_red
    else:
        p.mode = FG_MODE_COLUMNS
        unit = p.n_inner if p.n_inner <= tile else 1
    best = unit
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_GENERAL:
            per = period(p, p.in_[i].strides)
            if best < per <= tile:
                best = per
    p.step = tile // best * best
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_GENERAL and p.step % period(p, p.in_[i].strides) == 0:
            p.in_[i].access = FG_ACC_CACHED
            regs[i].shared = 1
    plan_units(p)
    p.any_general = 0
    for i in range(p.n_in + p.n_out):
        if is_walked(p, i) and (p.in_[i].access if i < p.n_in else p.out[i - p.n_in].access) == FG_ACC_GENERAL:
            p.any_general = 1
    plan_memory(p, regs, scratch)
    plan_grain(p, inst)


cdef void plan_units(FgVmPlan *p) noexcept nogil:
    """Cut the walk into units of work.  Nothing here depends on the number of threads, so neither do the results."""
    cdef int64_t steps
    if p.mode != FG_MODE_COLUMNS:
        if p.step > p.row:
            p.step = p.row
        p.chunks = (p.row + p.step - 1) // p.step
        p.units = p.n // p.row * p.chunks
        return
    if p.n_inner <= p.step:
        p.tile_rows, p.step = p.step // p.n_inner, p.n_inner
    p.span = p.step
    while p.span < 8 * p.step and p.n_outer * p.n_inner > 64 * p.span:
        p.span *= 2
    p.chunks = (p.n_inner + p.span - 1) // p.span
    steps = (p.n_red + p.tile_rows - 1) // p.tile_rows
    p.blocks = 64 // (p.n_outer * p.chunks)          # enough units for many threads, each of at least 8 tiles
    if p.blocks > steps // 8:
        p.blocks = steps // 8
    if p.blocks < 1:
        p.blocks = 1
    p.units = p.n_outer * p.chunks * p.blocks


cdef void plan_times(FgVmPlan *p, Reg *regs) noexcept nogil:
    """Last uses, and which ops write straight into an output."""
    cdef int i, k, reg, when
    for k in range(p.n_out):
        when = p.n_ops if p.out[k].reduce else p.n_ops + 1 + k
        if when > regs[p.out[k].reg].last:
            regs[p.out[k].reg].last = when
    for i in range(p.n_in):
        p.in_[i].last_use = regs[i].last
    for k in range(p.n_ops):
        p.ops[k].buf = 0
    for k in range(p.n_out):
        reg = p.out[k].reg
        p.out[k].write_time = p.n_ops + 1 + k
        if p.out[k].reduce or p.out[k].access != FG_ACC_FULL or p.out[k].dtype != p.out[k].type or regs[reg].first < 0:
            continue
        if p.ops[regs[reg].first].buf < 0:           # another output has it
            continue
        p.out[k].direct = 1
        p.out[k].write_time = regs[reg].first
        p.ops[regs[reg].first].buf = -1 - k


cdef int take(Reg *regs, int r, int64_t *busy, int64_t *count) noexcept nogil:
    """Give register r the first free buffer among those of its size; busy[slot] = register + 1."""
    cdef int s = 0
    while busy[s]:
        s += 1
    busy[s] = r + 1
    regs[r].slot = s
    if s + 1 > count[0]:
        count[0] = s + 1
    return s


cdef int64_t plan_slots(FgVmPlan *p, Reg *regs, int64_t *busy, int64_t *counts) noexcept nogil:
    """Assign tile buffers by liveness, separately for each register size.  Returns the bytes per element they need;
    counts[size] is how many of each size."""
    cdef int size, i, k, s, top
    cdef int64_t total = 0, count
    cdef int sizes[5]
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = 1, 2, 4, 8, 16
    for i in range(5):
        size = sizes[i]
        count = 0
        memset(busy, 0, (p.n_regs + 1) * sizeof(int64_t))
        for k in range(p.n_in + p.n_const):
            if fg_itemsize(regs[k].type) == size:
                take(regs, k, busy, &count)
                if k >= p.n_in or regs[k].shared:
                    regs[k].last = FOREVER
        for k in range(p.n_ops):
            # an operand that dies here may lend its buffer to the result: the loops work in place
            for s in range(count):
                if busy[s] and regs[busy[s] - 1].last <= k and (regs[busy[s] - 1].first < k):
                    busy[s] = 0
            if p.ops[k].buf >= 0 and fg_itemsize(regs[p.ops[k].dst].type) == size:
                take(regs, p.ops[k].dst, busy, &count)
        if counts != NULL:
            counts[size] = count
        total += count * size
    return total


cdef int64_t align(int64_t n) noexcept nogil:
    return (n + 63) // 64 * 64


cdef void plan_memory(FgVmPlan *p, Reg *regs, int64_t *scratch) noexcept nogil:
    """Byte offsets of all buffers of a thread, and of the partial results of a run."""
    cdef int64_t counts[17]
    cdef int64_t base[17]
    cdef int64_t at = 0, width = p.step * p.tile_rows, acc
    cdef int i, k, size = 1
    cdef FgVmOutput *o
    if width > p.n:
        width = p.n
    acc = p.span if p.mode == FG_MODE_COLUMNS and p.span > width else width
    plan_slots(p, regs, scratch, counts)
    while size <= 16:
        base[size] = at
        at += counts[size] * align(width * size)
        size *= 2
    for i in range(p.n_in):
        size = <int>fg_itemsize(regs[i].type)
        p.in_[i].buf = base[size] + regs[i].slot * align(width * size)
    for k in range(p.n_const):
        size = <int>fg_itemsize(p.consts[k].type)
        p.consts[k].buf = base[size] + regs[p.consts[k].reg].slot * align(width * size)
    for k in range(p.n_ops):
        if p.ops[k].buf >= 0:
            size = <int>fg_itemsize(regs[p.ops[k].dst].type)
            p.ops[k].buf = base[size] + regs[p.ops[k].dst].slot * align(width * size)
    for i in range(p.n_in + p.n_out):
        if fg_itemsize(p.in_[i].dtype if i < p.n_in else p.out[i - p.n_in].dtype) == 2 and p.raw_buf == 0:
            p.raw_buf = at
            at += align(width * 2)
    for k in range(p.n_out):
        o = &p.out[k]
        size = <int>fg_itemsize(o.type)
        if not o.reduce:
            continue
        if p.mode == FG_MODE_COLUMNS or (p.mode == FG_MODE_SEGMENT and (o.dtype != o.type or p.folds)):
            o.buf = at
            at += align(acc * size)
        if p.mode == FG_MODE_COLUMNS:
            o.buf2 = at
            at += align(acc * size)
        o.part = p.partial_bytes
        if p.mode == FG_MODE_WIDE:
            p.partial_bytes += align(p.units * size)
        elif p.mode == FG_MODE_COLUMNS and p.blocks > 1:
            p.partial_bytes += align(p.n_outer * p.blocks * p.n_inner * size)
    p.work_bytes = at


cdef void plan_grain(FgVmPlan *p, FgInst *inst) noexcept nogil:
    """Units that are worth a thread: about 10 microseconds of estimated work."""
    cdef double ns = 0, size
    cdef int i, k
    cdef int64_t *ip = inst.ip + 3 + 3 * p.n_const
    for k in range(p.n_ops):
        size = fg_itemsize(<int>ip[6 * k + 1])
        ns += 0.05 * fg_vm_info[ip[6 * k]].weight * (size / 4 if size > 4 else 1)
    for i in range(p.n_in):
        ns += 0.02 * p.in_[i].size * (4 if p.in_[i].access == FG_ACC_GENERAL else 1)
    for k in range(p.n_out):
        ns += 0.03 * p.out[k].size
    p.grain = <int64_t>(10000.0 / (ns * p.n / p.units) + 1)


# ------------------------------------------------------------------------------------------------------------------ run

cdef struct Run:
    const FgVmPlan *p
    const FgInst *inst
    FgTensor *slots
    char *partials
    int fault


cdef void body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Run *r = <Run *>ctx
    cdef const FgVmPlan *p = r.p
    cdef char stack[16384 + 64]
    cdef FgVmThread t
    cdef char *mem = NULL
    cdef int64_t head = align(p.n_regs * sizeof(char *) + p.n_in)
    cdef int i, k
    cdef char *copied
    if head + p.work_bytes <= STACK_BYTES:
        t.ptr = <char **>((<size_t>stack + 63) // 64 * 64)
    else:
        mem = pool_alloc(head + p.work_bytes)
        if mem == NULL:
            r.fault = FG_EMEM
            return
        t.ptr = <char **>mem
    copied = <char *>(t.ptr + p.n_regs)
    t.work = <char *>t.ptr + head
    t.p, t.inst, t.slots, t.copied = p, r.inst, r.slots, copied
    for i in range(p.n_in):
        copied[i] = 0
        for k in range(p.n_out):
            if (r.slots[r.inst.args[i]].data == r.slots[r.inst.args[p.n_in + k]].data and not p.out[k].reduce
                    and p.out[k].write_time < p.in_[i].last_use):
                copied[i] = 1
    fg_vm_prepare(&t)
    if p.mode == FG_MODE_COLUMNS:
        fg_vm_run_columns(&t, r.partials, begin, end)
    else:
        fg_vm_run_rows(&t, r.partials, begin, end)
    pool_free(mem)


cdef int run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgVmPlan *p = <const FgVmPlan *>inst.extra
    cdef Run r
    cdef FgVmThread t
    cdef int k
    if p.n == 0:
        for k in range(p.n_out):
            if p.out[k].reduce:
                fg_vm_fill(FG_OUT(inst, slots, k).data, p.out[k].identity, p.out[k].size, p.out[k].count)
        return FG_OK
    r.p, r.inst, r.slots, r.partials, r.fault = p, inst, slots, NULL, 0
    if p.partial_bytes:
        r.partials = pool_alloc(p.partial_bytes)
        if r.partials == NULL:
            return FG_EMEM
    if p.units <= p.grain:
        body(&r, 0, p.units, 0)
    else:
        parallel_for(p.units, p.grain, body, &r)
    if p.partial_bytes:
        if not r.fault:
            t.p, t.inst, t.slots, t.ptr, t.work, t.copied = p, inst, slots, NULL, NULL, NULL
            if p.mode == FG_MODE_WIDE:
                fg_vm_finish_wide(&t, r.partials)
            else:
                fg_vm_finish_columns(&t, r.partials)
        pool_free(r.partials)
    return r.fault


# --------------------------------------------------------------------------------------------------------------- tables

cdef dict result_names = {b"S": "same", b"B": "bool", b"R": "real", b"C": "complex", b"K": "cast"}
OPCODES = {(<bytes>fg_vm_info[_i].name).decode(): _i for _i in range(FG_OP_COUNT)}
ARITY = {_name: fg_vm_info[_i].arity for _name, _i in OPCODES.items()}
SUPPORTED = {_name: frozenset([_t for _t in range(FG_NDTYPES) if fg_vm_supports(_i, _t)]) for _name, _i in OPCODES.items()}
RESULT = {_name: result_names[bytes([fg_vm_info[_i].result])] for _name, _i in OPCODES.items()}
REDUCTIONS = {"none": 0, "sum": 1, "prod": 2, "max": 3, "min": 4}
KERNELS = {"vm": (<size_t><void *>run, <size_t><void *>check)}
