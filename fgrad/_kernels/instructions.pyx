"""Running a program's instructions without the GIL: kernels, and while, scan, cond, tiles, members and callbacks, which run sub-programs."""
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from fgrad._kernels.abi cimport FG_BOOL, FG_EPYTHON, FG_OK, FgInst, FgRun, FgTensor, fg_itemsize
from fgrad._kernels.array cimport ArrayBase, new_array
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport FG_SPLIT_NEVER, loop_count, parallel_for, set_split, thread_count

from fgrad._kernels import cumulative, elementwise, index, matmul, movement


cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    pthread_t pthread_self()
    int pthread_equal(pthread_t a, pthread_t b)

cdef extern from "flush.h" nogil:
    uint64_t fg_flush_mode(bint on)
    void fg_flush_end(uint64_t before)
cdef extern from "turns.h" nogil:
    ctypedef struct FgTurns:
        int64_t left, step, last
    int fg_turn(FgTurns *t)

cdef extern from "pace.h" nogil:
    ctypedef struct FgPace:
        int split
    int64_t fg_pace_begins(FgPace *p, uint32_t loops, int threads)
    void fg_pace_ends(FgPace *p, int64_t began, uint32_t loops)

cdef extern from "flat.h" nogil:
    FgRun fg_flat_vm, fg_flat_copies, fg_flat_concatenate, fg_flat_pad, fg_flat_gather, fg_flat_scatter, fg_flat_slice, fg_flat_update, fg_flat_dot, fg_flat_argreduce
    void fg_flat_free(FgFlat *f)
    int fg_flat_loop(FgState *st, int i)
    int (*fg_flat_split)(int split) noexcept nogil
    int (*fg_flat_summed)(const FgInst *inst) noexcept nogil
    uint32_t (*fg_flat_loops)() noexcept nogil
    int (*fg_flat_threads)() noexcept nogil

fg_flat_split, fg_flat_loops, fg_flat_threads = set_split, loop_count, thread_count
fg_flat_vm = <FgRun><uintptr_t>elementwise.KERNELS["vm"][0]
fg_flat_copies = <FgRun><uintptr_t>movement.KERNELS["copy"][0]
fg_flat_concatenate = <FgRun><uintptr_t>movement.KERNELS["concatenate"][0]
fg_flat_pad = <FgRun><uintptr_t>movement.KERNELS["pad"][0]
fg_flat_gather = <FgRun><uintptr_t>index.KERNELS["gather"][0]
fg_flat_scatter = <FgRun><uintptr_t>index.KERNELS["scatter"][0]
fg_flat_dot = <FgRun><uintptr_t>matmul.KERNELS["dot"][0]
fg_flat_summed = <int (*)(const FgInst *) noexcept nogil><uintptr_t>matmul.SUMMED
fg_flat_argreduce = <FgRun><uintptr_t>cumulative.KERNELS["argreduce"][0]
fg_flat_slice = <FgRun><uintptr_t>movement.KERNELS["dynamic_slice"][0]
fg_flat_update = <FgRun><uintptr_t>movement.KERNELS["dynamic_update_slice"][0]

cdef struct State:              # as it is allocated: what only loops know of their bodies comes last
    FgState state
    FgPace pace


cdef void state_free(FgState *st) noexcept nogil:
    cdef int i
    if st == NULL:
        return
    if st.children != NULL:
        for i in range(st.prog.n_children):
            state_free(st.children[i])
    if st.flat != NULL:
        for i in range(st.prog.n_inst):
            fg_flat_free(st.flat[i])
    pool_free(st.arena)
    free(st.flat)
    free(st.slots)
    free(st.bases)
    free(st.children)
    free(st)


cdef FgState *state_new(FgProg *p, bint roams) noexcept nogil:
    """A state of a program; if its arena roams, its runs borrow one."""
    cdef FgState *st = <FgState *>calloc(1, sizeof(State))
    cdef int i, n_bases = 1 + p.n_args + p.n_consts + p.n_outs
    if st == NULL:
        return NULL
    st.prog = p
    st.slots = <FgTensor *>malloc(sizeof(FgTensor) * (p.n_slots + 1))
    st.bases = <char **>calloc(n_bases, sizeof(char *))
    st.children = <FgState **>calloc(p.n_children + 1, sizeof(FgState *))
    st.flat = <FgFlat **>calloc(p.n_inst + 1, sizeof(FgFlat *))
    st.arena = NULL if roams else pool_alloc(p.arena_bytes)
    if st.slots == NULL or st.bases == NULL or st.children == NULL or st.flat == NULL or (st.arena == NULL and not roams):
        state_free(st)
        return NULL
    memcpy(st.slots, p.slots, sizeof(FgTensor) * p.n_slots)
    st.bases[0] = st.arena
    for i in range(p.n_consts):
        st.bases[1 + p.n_args + i] = p.const_data[i]
    for i in range(p.n_children):
        st.children[i] = state_new(p.children[i], False)
        if st.children[i] == NULL:
            state_free(st)
            return NULL
    return st


cdef int run_state(FgState *st) noexcept nogil:
    """Run a program whose bases are set."""
    fg_bind_slots(st)
    return run_insts(st, 0, st.prog.n_inst)


cdef int run_insts(FgState *st, int begin, int end) noexcept nogil:
    cdef FgProg *p = st.prog
    cdef FgInst *inst
    cdef int i, rc
    for i in range(begin, end):
        inst = &p.insts[i]
        if inst.kind == KIND_KERNEL:
            rc = inst.run(inst, st.slots)
        elif inst.kind == KIND_COND:
            rc = run_cond(st, inst, p.inst_child[i])
        elif inst.kind == KIND_WHILE:
            rc = fg_flat_loop(st, i)
            if rc < 0:
                rc = run_while(st, inst, p.inst_child[i])
        elif inst.kind == KIND_SCAN:
            rc = fg_flat_loop(st, i)
            if rc < 0:
                rc = run_scan(st, inst, p.inst_child[i])
        elif inst.kind == KIND_TILES:
            rc = run_tiles(st, inst, p.inst_child[i])
        elif inst.kind == KIND_MEMBERS:
            rc = run_members(st, inst, p.inst_child[i])
        else:
            rc = run_callback(st, inst)
        if rc != FG_OK:
            return rc
    return FG_OK


cdef int run_timed(FgState *st, double *seconds) noexcept nogil:
    """As run_state; adds each instruction's time to `seconds`."""
    cdef int i, rc
    cdef timespec a, b
    fg_bind_slots(st)
    for i in range(st.prog.n_inst):
        clock_gettime(CLOCK_MONOTONIC, &a)
        rc = run_insts(st, i, i + 1)
        if rc != FG_OK:
            return rc
        clock_gettime(CLOCK_MONOTONIC, &b)
        seconds[i] += (b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec)
    return FG_OK


cdef inline int run_child(FgState *st, FgState *child) noexcept nogil:
    cdef int rc = run_state(child)
    if rc != FG_OK:
        st.error = child.error
        child.error = NULL
    return rc


cdef int run_paced(FgState *st) noexcept nogil:
    """A turn of a loop, or a program without loops, split over threads as is fastest."""
    cdef FgPace *pace = &(<State *>st).pace
    cdef int64_t began = fg_pace_begins(pace, loop_count(), thread_count())
    cdef int rc, before = set_split(pace.split)
    if before == FG_SPLIT_NEVER:                     # a turn around this one decides
        set_split(before)
        return run_state(st)
    rc = run_state(st)
    set_split(before)
    if began != 0:
        fg_pace_ends(pace, began, loop_count())
    return rc


cdef inline int run_turn(FgState *st, FgState *body) noexcept nogil:
    cdef int rc = run_paced(body)
    if rc != FG_OK:
        st.error = body.error
        body.error = NULL
    return rc


cdef inline char *in_data(FgState *st, FgInst *inst, int i) noexcept nogil:
    return st.slots[inst.args[i]].data


cdef inline char *out_data(FgState *st, FgInst *inst, int i) noexcept nogil:
    return st.slots[inst.args[inst.n_in + i]].data


cdef inline int64_t out_bytes(FgState *st, FgInst *inst, int i) noexcept nogil:
    cdef FgTensor *t = &st.slots[inst.args[inst.n_in + i]]
    return t.size * fg_itemsize(t.dtype)


cdef inline char **child_outs(FgState *child) noexcept nogil:
    return child.bases + 1 + child.prog.n_args + child.prog.n_consts


cdef int run_cond(FgState *st, FgInst *inst, int first) noexcept nogil:
    # ip: [n_branches, n_outs]; inputs: index (int32, or a bool of two branches), operands...
    cdef bint flag = st.slots[inst.args[0]].dtype == FG_BOOL
    cdef int64_t k = (<uint8_t *>in_data(st, inst, 0))[0] != 0 if flag else (<int32_t *>in_data(st, inst, 0))[0]
    cdef int i
    cdef FgState *child
    cdef char **outs
    k = 0 if k < 0 else (inst.ip[0] - 1 if k >= inst.ip[0] else k)
    child = st.children[first + k]
    for i in range(inst.n_in - 1):
        child.bases[1 + i] = in_data(st, inst, 1 + i)
    outs = child_outs(child)
    for i in range(<int>inst.ip[1]):
        outs[i] = out_data(st, inst, i)
    return run_child(st, child)


cdef int run_while(FgState *st, FgInst *inst, int first) noexcept nogil:
    # ip: [n_cond_consts, n_body_consts, n_carry, in place...]; outputs: carry..., then workspace: a second carry..., the predicate
    cdef int ncc = <int>inst.ip[0], nbc = <int>inst.ip[1], nc = <int>inst.ip[2], i, rc
    cdef FgState *cond = st.children[first]
    cdef FgState *body = st.children[first + 1]
    cdef char **couts = child_outs(cond)
    cdef char **bouts = child_outs(body)
    cdef int side = -1                       # where the carry is: -1 the inputs, 0 the outputs, 1 the workspace
    cdef char *src
    cdef FgTurns turns = [1, 1, 0]
    couts[0] = out_data(st, inst, 2 * nc)
    for i in range(ncc):
        cond.bases[1 + i] = in_data(st, inst, i)
    for i in range(nbc):
        body.bases[1 + i] = in_data(st, inst, ncc + i)
    for i in range(nc):
        if inst.ip[3 + i]:
            memcpy(out_data(st, inst, i), in_data(st, inst, ncc + nbc + i), out_bytes(st, inst, i))
    while True:
        rc = fg_turn(&turns)
        if rc != FG_OK:
            return rc
        for i in range(nc):
            if inst.ip[3 + i]:
                src = out_data(st, inst, i)
            else:
                src = in_data(st, inst, ncc + nbc + i) if side < 0 else out_data(st, inst, side * nc + i)
            cond.bases[1 + ncc + i] = src
            body.bases[1 + nbc + i] = src
        rc = run_child(st, cond)
        if rc != FG_OK:
            return rc
        if not (<uint8_t *>couts[0])[0]:
            break
        side = 1 if side == 0 else 0
        for i in range(nc):
            bouts[i] = out_data(st, inst, i if inst.ip[3 + i] else side * nc + i)
        rc = run_turn(st, body)
        if rc != FG_OK:
            return rc
    if side != 0:
        for i in range(nc):
            if inst.ip[3 + i]:
                continue
            src = in_data(st, inst, ncc + nbc + i) if side < 0 else out_data(st, inst, nc + i)
            memcpy(out_data(st, inst, i), src, out_bytes(st, inst, i))
    return FG_OK


cdef int run_scan(FgState *st, FgInst *inst, int first) noexcept nogil:
    # ip: [n_consts, n_carry, n_xs, n_ys, length, reverse, in place...]; outputs: carry..., ys..., then workspace: a second carry...
    cdef int nk = <int>inst.ip[0], nc = <int>inst.ip[1], nx = <int>inst.ip[2], ny = <int>inst.ip[3], i, rc
    cdef int64_t length = inst.ip[4], step, at, chunk
    cdef FgState *body = st.children[first]
    cdef char **outs = child_outs(body)
    cdef FgTensor *t
    cdef int side = -1, other
    cdef FgTurns turns = [1, 1, 0]
    if length == 0:
        for i in range(nc):
            memcpy(out_data(st, inst, i), in_data(st, inst, nk + i), out_bytes(st, inst, i))
        return FG_OK
    for i in range(nk):
        body.bases[1 + i] = in_data(st, inst, i)
    for i in range(nc):
        if inst.ip[6 + i]:
            memcpy(out_data(st, inst, i), in_data(st, inst, nk + i), out_bytes(st, inst, i))
            body.bases[1 + nk + i] = outs[i] = out_data(st, inst, i)
    for step in range(length):
        rc = fg_turn(&turns)
        if rc != FG_OK:
            return rc
        at = length - 1 - step if inst.ip[5] else step
        other = 0 if (length - 1 - step) % 2 == 0 else 1       # so that the last step writes the outputs
        for i in range(nc):
            if inst.ip[6 + i]:
                continue
            body.bases[1 + nk + i] = (in_data(st, inst, nk + i) if side < 0 else
                                      out_data(st, inst, i if side == 0 else nc + ny + i))
            outs[i] = out_data(st, inst, i if other == 0 else nc + ny + i)
        for i in range(nx):
            t = &st.slots[inst.args[nk + nc + i]]
            chunk = t.size // length * fg_itemsize(t.dtype)
            body.bases[1 + nk + nc + i] = t.data + at * chunk
        for i in range(ny):
            t = &st.slots[inst.args[inst.n_in + nc + i]]
            chunk = t.size // length * fg_itemsize(t.dtype)
            outs[nc + i] = t.data + at * chunk
        rc = run_turn(st, body)
        if rc != FG_OK:
            return rc
        side = other
    return FG_OK


cdef struct Members:
    FgState *st
    FgInst *inst
    int first, rc
    pthread_t caller


cdef void members_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    # tid counts ranges, of which there are at most as many as children
    cdef Members *m = <Members *>ctx
    cdef int64_t part
    cdef int rc
    for part in range(begin, end):
        rc = run_part(m, m.st.children[m.first + tid], part)
        if rc != FG_OK:
            m.rc = rc
            return


cdef int run_part(Members *m, FgState *body, int64_t part) noexcept nogil:
    """All steps of one part of a scan, as run_scan takes them. Signals are the calling thread's to look for."""
    cdef FgState *st = m.st
    cdef FgInst *inst = m.inst
    cdef int nk = <int>inst.ip[0], nc = <int>inst.ip[1], nx = <int>inst.ip[2], ny = <int>inst.ip[3], i, rc
    cdef int64_t length = inst.ip[4], parts = inst.ip[6], step, at, row
    cdef const int64_t *cut = inst.ip + 7            # of each const and of each scanned input: whether it is cut
    cdef const int64_t *in_place = inst.ip + 7 + nk + nx
    cdef char **outs = child_outs(body)
    cdef FgTensor *t
    cdef int side = -1, other
    cdef bint asks = pthread_equal(m.caller, pthread_self()) != 0
    cdef FgTurns turns = [1, 1, 0]
    for i in range(nk):
        t = &st.slots[inst.args[i]]
        body.bases[1 + i] = t.data + (part * (t.size // parts * fg_itemsize(t.dtype)) if cut[i] else 0)
    for i in range(nc):
        row = out_bytes(st, inst, i) // parts
        if in_place[i]:
            body.bases[1 + nk + i] = outs[i] = out_data(st, inst, i) + part * row
            memcpy(outs[i], in_data(st, inst, nk + i) + part * row, row)
    for step in range(length):
        if m.rc != FG_OK:                            # another part has failed
            return FG_OK
        if asks:
            rc = fg_turn(&turns)
            if rc != FG_OK:
                return rc
        at = length - 1 - step if inst.ip[5] else step
        other = 0 if (length - 1 - step) % 2 == 0 else 1
        for i in range(nc):
            if in_place[i]:
                continue
            row = out_bytes(st, inst, i) // parts
            body.bases[1 + nk + i] = part * row + (in_data(st, inst, nk + i) if side < 0 else
                                                   out_data(st, inst, i if side == 0 else nc + ny + i))
            outs[i] = part * row + out_data(st, inst, i if other == 0 else nc + ny + i)
        for i in range(nx):
            t = &st.slots[inst.args[nk + nc + i]]
            row = t.size // length * fg_itemsize(t.dtype)
            body.bases[1 + nk + nc + i] = t.data + at * row + (part * (row // parts) if cut[nk + i] else 0)
        for i in range(ny):
            t = &st.slots[inst.args[inst.n_in + nc + i]]
            row = t.size // length * fg_itemsize(t.dtype)
            outs[nc + i] = t.data + at * row + part * (row // parts)
        rc = run_state(body)
        if rc != FG_OK:
            return rc
        side = other
    return FG_OK


cdef int run_members(FgState *st, FgInst *inst, int first) noexcept nogil:
    # ip: [n_consts, n_carry, n_xs, n_ys, length, reverse, parts, whether each const and each of xs is cut..., in place...]; operands as of
    # a scan, whose carries, ys and some of consts and xs are cut into parts along the first axis (of each step's row); children: the
    # body for one part, once per thread
    cdef Members m
    cdef int64_t parts = inst.ip[6], threads = inst.n_child
    m.st, m.inst, m.first, m.rc, m.caller = st, inst, first, FG_OK, pthread_self()
    parallel_for(parts, parts // (threads + 1) + 1, members_body, &m)
    return m.rc


cdef extern from "vm_memory.h" nogil:
    void fg_vm_fill(char *dst, const void *value, int size, int64_t n)

cdef struct Tiles:
    FgState *st
    FgInst *inst
    int first, rc


cdef void tiles_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    # tid counts ranges, of which there are at most as many as children
    cdef Tiles *t = <Tiles *>ctx
    cdef FgInst *inst = t.inst
    cdef FgState *child = t.st.children[t.first + tid]
    cdef FgTensor *x
    cdef char **outs = child_outs(child)
    cdef int64_t chunks = inst.ip[0], blocks = inst.ip[2], rows = inst.ip[3], last = inst.ip[4] - rows, c, k, at
    cdef int n_acc = <int>inst.ip[1], i, rc
    cdef const int64_t *steps = inst.ip + 5
    cdef const int64_t *start = steps + inst.n_in + inst.n_out - n_acc
    for c in range(begin, end):
        for i in range(n_acc):
            x = &t.st.slots[inst.args[inst.n_in + i]]
            outs[i] = x.data + c * (x.size // chunks) * fg_itemsize(x.dtype)
            fg_vm_fill(outs[i], start + 2 * i, <int>fg_itemsize(x.dtype), x.size // chunks)
            child.bases[1 + inst.n_in + i] = outs[i]
        for k in range(blocks * c // chunks, blocks * (c + 1) // chunks):
            at = min(k * rows, last)
            for i in range(inst.n_in):
                child.bases[1 + i] = in_data(t.st, inst, i) + at * steps[i]
            for i in range(n_acc, inst.n_out):
                outs[i] = out_data(t.st, inst, i) + at * steps[inst.n_in + i - n_acc]
            rc = run_state(child)
            if rc != FG_OK:
                t.rc = rc
                return


cdef int run_tiles(FgState *st, FgInst *inst, int first) noexcept nogil:
    # ip: [chunks, n_acc, blocks, rows of a block, rows, bytes from row to row of each operand but the accumulators..., 16 bytes that each
    # accumulator starts from...]; outputs: accumulators (a slice for each chunk, which is a range of blocks), then what blocks write;
    # children: the block's program, once per thread, which also takes its accumulators. The last block ends with the rows
    cdef Tiles t
    cdef int64_t chunks = inst.ip[0], threads = inst.n_child
    t.st, t.inst, t.first, t.rc = st, inst, first, FG_OK
    parallel_for(chunks, chunks // (threads + 1) + 1, tiles_body, &t)       # the least grain that makes no more ranges than children
    return t.rc


cdef int run_callback(FgState *st, FgInst *inst) noexcept nogil:
    cdef uint64_t mode = fg_flush_mode(False)       # Python code computes with denormal numbers
    with gil:
        try:
            call_python(st, inst)
            return FG_OK
        except BaseException as e:
            Py_INCREF(e)
            st.error = <void *><PyObject *>e
            return FG_EPYTHON
        finally:
            fg_flush_end(mode)


cdef int call_python(FgState *st, FgInst *inst) except -1:
    cdef int i
    cdef FgTensor *t
    cdef ArrayBase a
    fun, in_avals, out_avals = <object><PyObject *>inst.object
    args = []
    for i in range(inst.n_in):
        t = &st.slots[inst.args[i]]
        a = new_array(in_avals[i], t.dtype, t.size)
        memcpy(a.data, t.data, t.size * fg_itemsize(t.dtype))
        args.append(a)
    results = fun(args)
    if len(results) != len(out_avals):
        raise ValueError(f"callback returned {len(results)} results, {len(out_avals)} were declared")
    for i in range(len(out_avals)):
        t = &st.slots[inst.args[inst.n_in + i]]
        a = results[i]
        if a.code != t.dtype or a.size != t.size or a.strides_or_none is not None or a.deleted:
            raise ValueError(f"callback result {i}: got {a.aval}, declared {out_avals[i]}")
        memcpy(t.data, a.data, t.size * fg_itemsize(t.dtype))
    return 0
