"""Buffers of a plan of the elementwise VM: how long each register's value lives, and where in a thread's memory its tile lies."""
from libc.stdint cimport int64_t
from libc.string cimport memset

from fgrad._kernels.abi cimport fg_itemsize
from fgrad._kernels.vm_plan cimport (FG_ACC_FULL, FG_ACC_PLACE, FG_MODE_COLUMNS, FG_MODE_SEGMENT, FG_MODE_WIDE, FG_OP_window, FG_STRIP, FG_VEC, FgVmOutput,
                                     FgVmPlan, Reg, align, fg_vm_is_view, fg_vm_may_mask)

cdef enum:
    FOREVER = 2147483647


cdef void plan_times(FgVmPlan *p, Reg *regs) noexcept nogil:
    """Last uses, and which ops write straight into an output."""
    cdef int i, k, reg, when
    for k in range(p.n_out):
        when = p.n_ops if p.out[k].reduce else p.n_ops + 1 + k
        regs[p.out[k].reg].last = max(regs[p.out[k].reg].last, when)
        if p.out[k].reg2 >= 0:
            regs[p.out[k].reg2].last = max(regs[p.out[k].reg2].last, when)
    for k in range(p.n_ops):
        p.ops[k].buf = 0
    for k in range(p.n_out):
        reg = p.out[k].reg
        p.out[k].masked = fg_vm_may_mask(p, &p.out[k])
        p.masked |= p.out[k].masked
        if p.out[k].masked:
            p.out[k].direct = 1
            p.ops[regs[reg].first].buf = -1 - k
            continue
        if p.out[k].reduce or p.out[k].access != FG_ACC_FULL or (p.out[k].dtype != p.out[k].type and not p.out[k].raw) or regs[reg].first < 0:
            continue
        if p.ops[regs[reg].first].buf < 0:           # another output has it
            continue
        p.out[k].direct = 1
        p.ops[regs[reg].first].buf = -1 - k
    keep_for_strips(p, regs)
    keep_for_windows(p, regs)
    for i in range(p.n_in):
        p.in_[i].last_use = regs[i].last


cdef void write_rows(FgVmPlan *p, Reg *regs) noexcept nogil:
    """Ops write straight into outputs of which each tile lies in one piece."""
    cdef int k, reg
    for k in range(p.n_ops):
        if fg_vm_is_view(&p.ops[k]):       # its tile may be that of an operand, on which it writes
            return
    for k in range(p.n_out):
        reg = p.out[k].reg
        if p.out[k].direct or not p.out[k].lies or p.out[k].reduce or (p.out[k].dtype != p.out[k].type and not p.out[k].raw) or regs[reg].first < 0:
            continue
        if p.ops[regs[reg].first].buf >= 0:
            p.out[k].direct = 1
            p.ops[regs[reg].first].buf = -1 - k


cdef void keep_for_windows(FgVmPlan *p, Reg *regs) noexcept nogil:
    """A window may be the tile of either operand: these live as long as it does. What ends with it, it may overwrite."""
    cdef int k, a, made
    for k in range(p.n_ops):
        if fg_vm_is_view(&p.ops[k]):
            a = p.ops[k].a
            made = regs[a].first
            p.ops[k].patch = made >= 0 and regs[a].last == k and p.ops[made].op != FG_OP_window and p.ops[made].buf >= 0 and p.ops[k].b != a
    for k in range(p.n_ops - 1, -1, -1):
        if fg_vm_is_view(&p.ops[k]):
            regs[p.ops[k].a].last = max(regs[p.ops[k].a].last, regs[p.ops[k].dst].last)
            regs[p.ops[k].b].last = max(regs[p.ops[k].b].last, regs[p.ops[k].dst].last)


cdef void keep_for_strips(FgVmPlan *p, Reg *regs) noexcept nogil:
    """A column may be one value of a tile, read again by each strip: no result of the first one may take its buffer."""
    cdef int k, i
    for k in range(p.n_ops):
        if p.ops[k].strip < 0:
            continue
        for i in range(p.n_in):
            if (p.ops[k].a == i or p.ops[k].b == i or p.ops[k].c == i) and p.in_[i].strides[p.ndim - 1] == 0:
                regs[i].last = max(regs[i].last, p.strips[p.ops[k].strip].op_end)


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
    counts[size] is how many of each size. counts NULL: what most tiles touch, which is no buffer of a window, and memory
    that several inputs read once."""
    cdef int size, i, k, s, wanted = 0
    cdef int64_t total = 0, count
    cdef int sizes[5]
    sizes[0], sizes[1], sizes[2], sizes[3], sizes[4] = 1, 2, 4, 8, 16
    for k in range(p.n_regs):
        wanted |= <int>fg_itemsize(regs[k].type)
    for i in range(5):
        size = sizes[i]
        count = 0
        if counts != NULL:
            counts[size] = 0
        if not wanted & size:
            continue
        memset(busy, 0, (p.n_regs + 1) * sizeof(int64_t))
        for k in range(p.n_in + p.n_const):
            if fg_itemsize(regs[k].type) == size and not (p.consts[k - p.n_in].scalar if k >= p.n_in else p.in_[k].scalar):
                if counts == NULL and k < p.n_in and (p.in_[k].source != k or p.in_[k].access == FG_ACC_PLACE):
                    continue
                take(regs, k, busy, &count)
                if k >= p.n_in or regs[k].shared or p.in_[k].raw:       # whose elements are smaller than a result's
                    regs[k].last = FOREVER
        for k in range(p.n_ops):
            # an operand that dies here may lend its buffer to the result: the loops work in place
            for s in range(count):
                if busy[s] and regs[busy[s] - 1].last <= k and (regs[busy[s] - 1].first < k):
                    busy[s] = 0
            if counts == NULL and fg_vm_is_view(&p.ops[k]):
                continue               # few tiles use its buffer
            if p.ops[k].buf >= 0 and not p.ops[k].taken and fg_itemsize(regs[p.ops[k].dst].type) == size:
                take(regs, p.ops[k].dst, busy, &count)
        if counts != NULL:
            counts[size] = count
        total += count * size
    return total


cdef void plan_memory(FgVmPlan *p, Reg *regs, int64_t *scratch) noexcept nogil:
    """Byte offsets of all buffers of a thread, tiles behind what runs without tiles need, and of the partial results of a run."""
    cdef int64_t counts[17]
    cdef int64_t base[17]
    cdef int64_t at = 0, width = p.step * p.tile_rows * p.group * p.n_seg, acc
    cdef int i, k, size = 1
    cdef FgVmOutput *o
    if width > p.n:
        width = p.n
    acc = p.step * p.tile_rows * (1 if p.sums_segments else p.n_seg) if p.mode == FG_MODE_COLUMNS else width // p.n_seg
    plan_slots(p, regs, scratch, counts)
    for i in range(p.n_in):
        if p.in_[i].scalar:
            p.in_[i].buf = at
            at += align(16)
    p.slot_buf = at
    at += p.n_slots * FG_STRIP
    for i in range(p.n_boxes):
        if p.boxes[i].marked:
            p.boxes[i].buf = at
            at += align(width + FG_STRIP)      # what a strip reads of the last one's marks, and beyond
    p.edge_buf = at
    at += p.most_edges * FG_STRIP
    p.tile_buf, size = at, 1
    while size <= 16:
        base[size] = at
        at += counts[size] * align(width * size)
        size *= 2
    for i in range(p.n_in):
        if p.in_[i].scalar:
            continue
        size = <int>fg_itemsize(regs[i].type)
        p.in_[i].buf = base[size] + regs[i].slot * align(width * size)
    for k in range(p.n_const):
        size = <int>fg_itemsize(p.consts[k].type)
        p.consts[k].buf = base[size] + regs[p.consts[k].reg].slot * align(width * size)
    for k in range(p.n_ops):
        if p.ops[k].buf >= 0 and not p.ops[k].taken:
            size = <int>fg_itemsize(regs[p.ops[k].dst].type)
            p.ops[k].buf = base[size] + regs[p.ops[k].dst].slot * align(width * size)
    for i in range(p.n_in + p.n_out):
        if fg_itemsize(p.in_[i].dtype if i < p.n_in else p.out[i - p.n_in].dtype) == 2:
            p.raw_buf = at
            at += align(width * 2)
            break
    if p.n_seg > 1:
        p.seg_buf = at
        at += align(acc * 16)
    for k in range(p.n_out):
        o = &p.out[k]
        size = <int>fg_itemsize(o.type)
        if not o.reduce:
            if p.streams and o.access == FG_ACC_FULL and (o.direct or o.dtype != o.type):
                o.buf = at
                at += align(width * size)
            continue
        if p.in_strips:
            o.buf = at
            at += p.batch * ((p.n_red * size + FG_STRIP - 1) // FG_STRIP) * FG_VEC
        elif p.mode == FG_MODE_COLUMNS or (p.mode == FG_MODE_SEGMENT and (o.dtype != o.type or p.folds)):
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
    p.work_bytes = at + (FG_STRIP if p.n_strips else 0)      # what a strip reads behind a tile's end
