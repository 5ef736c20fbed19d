"""Plans of the elementwise VM, made from checked code: the order of the walk, tiles and units of work."""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_OUT, FgInst, FgTensor, fg_itemsize
from fgrad._kernels.parallel cimport FG_FINE
from fgrad._kernels.vm_buffers cimport plan_memory, plan_slots, plan_times, write_rows
from fgrad._kernels.vm_parts cimport make_parts

cdef extern from "vm_fuse.h" nogil:
    void fg_vm_fuse(FgVmPlan *p, int *scratch, FgVmOp *old)
    void fg_vm_make_strips(FgVmPlan *p, int *scratch)
    void fg_vm_find_frame(FgVmPlan *p)
    void fg_vm_find_each_row(FgVmPlan *p, bint short_ones)
    int fg_vm_stores_apart(const FgVmPlan *p)
    void fg_vm_find_in_strips(FgVmPlan *p)
    void fg_vm_find_rounded(FgVmPlan *p)
    bint fg_vm_read_one(FgVmOp *op, int r, bint apply)
    bint fg_vm_is_const(const FgVmPlan *p, int r)
    bint fg_code_may()
    void fg_strip_count(int *seen, int *made)

cdef extern from "core.h" nogil:
    bint fg_core_fetches()

cdef enum:
    COLUMN_TILE = 512          # of what ops compute: larger ones leave memory idle while they are added up,
    WIDE_COLUMNS = 2048        # but pieces of rows no shorter than this come in tiles of it, or twice that where terms have fewer bytes
    WIDE_BYTES = 8192
    PLAIN_TILE = 1024          # columns of rows that are read where they lie, PLAIN_GROUP rows at a time
    PLAIN_GROUP = 16
    ROW = 256                  # elements of a row that are worth a tile of their own: shorter ones are copied together
    SEGMENT = 4096             # elements at most of a segment that tiles are reduced by
    SHORT_BLOCK = 16           # rows that repeat one short row
    NUMBER_ROW = 64            # bytes, at least, of rows that lie apart and meet a number
    LONG_SEGMENT = 64          # rows of shorter ones are added up as they are, and reduced once at the end
    SEGMENT_ROWS = 512         # of more than one column each, which are added one after the other
    PREFETCH_BYTES = 16 << 20    # less stays in the last cache, where a fetch ahead costs more than it saves
    TAKE_TILES = 8               # at least, where items are taken: threads share fewer unevenly
    TAKES_BYTES = 8 << 20        # a core that loads items one by one does not begin to read the next tile by itself
    PREFETCH_WORK = 4
    CORE_STREAMS = 2             # that a core which fetches by itself keeps up with,
    CORE_WORK = 20               # until the loops of a tile that read nothing take longer than those that do
    STREAM_BYTES = 32 << 20
    STRIP_TILES = 64             # at least, of a run that makes its tiles longer,
    LOOP_TILES = 16              # and of one loop, so light that a tile's beginning costs as much as a thousand bytes,
    LOOP_WORK = 4                # and whose tiles are short in bytes
    LOOP_BYTES = 8192
    STRIP_ELEMENTS = FG_STRIP // 4   # at most
    UNIT_NS = 10000

cdef bint fetches = not fg_core_fetches()


def fetch_streams(bint on):
    """Whether plans that are made from now on fetch few streams ahead, too; what it was."""
    global fetches
    before, fetches = fetches, on
    return before


cdef int64_t strip_tile = 8192         # elements
cdef int64_t hot_strip = 8192          # stages that take about as long as it takes to make machine code of them


def makes_code():
    """True if strips may have machine code: this is a variant with AVX2 or AVX-512, and the system lets code be written and run."""
    return bool(fg_code_may())


def vector_bytes():
    """Bytes of a vector of what these kernels were built for."""
    return FG_VEC


def strips_with_code():
    """How many strips' stages have been looked at for machine code, and how many have some."""
    cdef int seen, made
    fg_strip_count(&seen, &made)
    return seen, made


def stages_before_code(int64_t n):
    """Of plans that are made from now on: how many stages of a strip run before it becomes machine code; what it was."""
    global hot_strip
    before, hot_strip = hot_strip, n
    return before


def longest_strip_tile(int64_t elements):
    """How long tiles of one strip that plans make from now on may be; how long they might be before."""
    global strip_tile
    before, strip_tile = strip_tile, elements
    return before


cdef int64_t *operand_strides(FgVmPlan *p, int i) noexcept nogil:
    """Walk strides of operand i: inputs, then outputs."""
    return &p.in_[i].strides[0] if i < p.n_in else &p.out[i - p.n_in].strides[0]


cdef const FgTensor *operand(FgVmPlan *p, FgInst *inst, const FgTensor *slots, int i) noexcept nogil:
    """The tensor of operand i: of inputs, then outputs."""
    return &slots[inst.args[i if i < p.n_in else i + p.n_tables]]


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
    cdef int64_t *box = inst.ip + p.box_at
    cdef int b, nd = s.ndim
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
    p.n_outer = p.n_red = p.n_inner = p.n_seg = p.seg_width = 1
    for d in range(inner, m):
        p.seg_width *= s.shape[axes[d]]
    first = inner                          # short reduced rows behind kept axes that have reduced ones before them: segments
    while first > 0 and reduced[first - 1]:
        first -= 1
        p.n_seg *= s.shape[axes[first]]
    while first > 0 and not reduced[first - 1]:
        first -= 1
    if first > 0 and p.n_seg * p.seg_width <= SEGMENT and (p.seg_width == 1 or p.n_seg <= SEGMENT_ROWS):
        inner = first
    else:
        p.n_seg = p.seg_width = 1
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
    p.n_inner //= p.n_seg
    p.ndim = 0
    for d in range(m):
        merge = d > 0
        for i in range(p.n_in + p.n_out):
            if not merge:
                break
            if is_walked(p, i):
                st = operand_strides(p, i)
                merge = st[p.ndim - 1] == operand(p, inst, slots, i).strides[order[d]] * s.shape[order[d]]
        for b in range(p.n_boxes):
            merge = merge and box[2 * (b * nd + order[d])] == 0 and box[2 * (b * nd + order[d]) + 1] == s.shape[order[d]]
        if merge:
            p.shape[p.ndim - 1] *= s.shape[order[d]]
        else:
            p.shape[p.ndim] = s.shape[order[d]]
            p.ndim += 1
        for i in range(p.n_in + p.n_out):
            operand_strides(p, i)[p.ndim - 1] = operand(p, inst, slots, i).strides[order[d]]
        for b in range(p.n_boxes):
            p.boxes[b].lo[p.ndim - 1] = p.boxes[b].lo[p.ndim - 1] * s.shape[order[d]] if merge else box[2 * (b * nd + order[d])]
            p.boxes[b].hi[p.ndim - 1] = p.boxes[b].hi[p.ndim - 1] * s.shape[order[d]] if merge else box[2 * (b * nd + order[d]) + 1]


cdef void place_guards(FgVmPlan *p, FgInst *inst, const FgTensor *slots) noexcept nogil:
    """Where the memory of inputs begins and ends, and where the walk's origin would lie in that of guarded ones."""
    cdef int i, d
    cdef FgVmInput *x
    cdef const FgTensor *t
    for i in range(p.n_in):
        x, t = &p.in_[i], &slots[inst.args[i]]
        x.shift, x.first, x.end = 0, 0, 1
        for d in range(p.ndim if x.guard >= 0 else 0):
            x.shift -= p.boxes[x.guard].lo[d] * x.strides[d]
        for d in range(t.ndim):
            if t.strides[d] < 0:
                x.first += (t.shape[d] - 1) * t.strides[d]
            else:
                x.end += (t.shape[d] - 1) * t.strides[d]


cdef int64_t run_length(FgVmPlan *p, const int64_t *strides) noexcept nogil:
    """How many elements of the walk lie side by side: the extent of the innermost axes that an operand walks as one piece."""
    cdef int64_t n = 1
    cdef int d
    for d in range(p.ndim - 1, -1, -1):
        if strides[d] != n:
            break
        n *= p.shape[d]
    return min(n, p.n)


cdef int64_t period(FgVmPlan *p, const int64_t *strides) noexcept nogil:
    """An operand's values repeat after this many steps of the walk."""
    cdef int64_t n = 1
    cdef int d, first = 0
    while first < p.ndim and strides[first] == 0:
        first += 1
    for d in range(first, p.ndim):
        n *= p.shape[d]
    return n


cdef bint repeats_within(FgVmPlan *p, int i, int64_t tile) noexcept nogil:
    """True if input i's values repeat at least twice within a tile: it is brought there once for all tiles. But columns are not spread
    over rows for that, which costs more than a tile for each row."""
    return p.in_[i].guard < 0 and 2 * period(p, p.in_[i].strides) <= tile and columns(p) * p.shape[p.ndim - 1] <= 2 * ROW


cdef void set_uses(FgVmPlan *p, Reg *regs, int *readers) noexcept nogil:
    """When each register is set and read last, by ops; readers[r] is the first op that reads register r."""
    cdef int i, k, when, kept, strip = -1, ends = 0
    for i in range(p.n_in + p.n_const):
        regs[i].first = regs[i].last = -1
    for i in range(p.n_regs):
        readers[i] = p.n_ops
    for k in range(p.n_ops):
        regs[p.ops[k].dst].first = regs[p.ops[k].dst].last = k
    for k in range(p.n_ops):
        when = k
        if p.ops[k].strip >= 0:            # a strip with several results may store one before it has read all operands
            if p.ops[k].strip != strip:
                strip = p.ops[k].strip
                ends, kept = p.strips[strip].op_end, 0
                for i in range(p.strips[strip].op, ends):
                    kept += not p.ops[i].taken
                ends -= kept == 1
            when = ends
        regs[p.ops[k].a].last = regs[p.ops[k].b].last = regs[p.ops[k].c].last = when
        readers[p.ops[k].a] = min(readers[p.ops[k].a], k)
        readers[p.ops[k].b] = min(readers[p.ops[k].b], k)
        readers[p.ops[k].c] = min(readers[p.ops[k].c], k)


cdef void make_plan(FgVmPlan *p, FgInst *inst, const FgTensor *slots, Reg *regs, int64_t *scratch) noexcept nogil:
    cdef int i, k
    cdef int64_t tile, whole = 0, unit = 1, per, best, cost_bytes
    make_parts(p, inst, slots, regs, <FgVmOp *>scratch)
    p.machine, p.hot = p.machine and fg_code_may(), hot_strip
    for i in range(p.n_regs):
        p.types[i] = regs[i].type
    for i in range(p.n_in):
        p.in_[i].scalar = p.n > 1 and p.in_[i].guard < 0 and is_scalar(&slots[inst.args[i]])
    order_axes(p, inst, slots)
    fg_vm_find_frame(p)
    if not p.framed:
        fg_vm_find_each_row(p, False)
        fg_vm_find_in_strips(p)
        if not p.by_rows and fg_vm_stores_apart(p):
            fg_vm_find_each_row(p, True)
        if not p.by_rows:
            fg_vm_lengthen(p, p.machine)
        if not p.by_rows and p.cols == 0 and p.machine:
            fg_vm_find_each_row(p, True)
            if not p.by_rows:
                fg_vm_lengthen(p, False)
        find_rows(p)
    fg_vm_fuse(p, <int *>scratch, <FgVmOp *>(<int *>scratch + 2 * p.n_regs))
    set_uses(p, regs, <int *>scratch)
    for i in range(p.n_const):
        p.consts[i].scalar = use_scalar(p, regs, p.consts[i].reg, (<int *>scratch)[p.consts[i].reg])
    for i in range(p.n_in):
        p.in_[i].scalar = p.in_[i].scalar and use_scalar(p, regs, i, (<int *>scratch)[i])
    place_guards(p, inst, slots)
    for i in range(p.n_in):
        p.in_[i].run = run_length(p, p.in_[i].strides)
        if p.in_[i].access != FG_ACC_PLACE:
            p.in_[i].access = FG_ACC_FULL if p.in_[i].run == p.n else FG_ACC_GENERAL
        p.any_general |= p.in_[i].access >= FG_ACC_GENERAL
    for k in range(p.n_out):
        p.out[k].run = run_length(p, p.out[k].strides)
        p.out[k].access = FG_ACC_FULL if not p.out[k].reduce and p.out[k].run == p.n and p.cols == 0 else FG_ACC_GENERAL
    fg_vm_find_rounded(p)
    plan_times(p, regs)

    # The tile: all live registers within about 28 KB, then whole periods of broadcast operands and whole segments.
    cost_bytes = plan_slots(p, regs, scratch, NULL) - other_parts(p)
    tile = 2048
    while tile > 512 and tile * cost_bytes > 28672:
        tile //= 2
    while tile > 512 and p.n_tables and p.n < TAKE_TILES * tile:
        tile //= 2
    if p.n_ops == 0 and p.n_reduced and (p.n_inner == 1 if p.n_seg <= 1 else p.n_seg >= LONG_SEGMENT) and not p.any_general:   # no tile is kept
        while tile < (16384 if p.n_out == 1 else 4096) and p.n > 256 * tile:      # several read it from the first cache
            tile *= 2
    if p.framed:
        tile = p.n
    elif p.by_rows or p.in_strips:
        tile = p.shape[p.ndim - 1]
    elif is_one_strip(p):
        while 2 * tile <= strip_tile and p.n >= 2 * STRIP_TILES * tile:
            tile *= 2
        if p.n <= strip_tile and FG_FINE * element_ns(p) * p.n < UNIT_NS:      # a run at once (vm_quick.h), too short to be shared
            tile = max(tile, p.n)
    else:
        while 2 * tile <= most_of_one_loop(p) and p.n >= 2 * LOOP_TILES * tile:
            tile *= 2
    p.tile_rows = p.blocks = p.chunks = p.group = 1
    if p.n_reduced == 0:
        p.mode, p.row = FG_MODE_FLAT, p.n
        for i in range(p.n_in):            # rows of a strided operand that need no copy, if a tile stays within one
            if p.in_[i].access == FG_ACC_GENERAL and ROW <= p.in_[i].run < p.row and p.cols == 0 and not p.framed and not repeats_within(p, i, tile):
                p.row = p.in_[i].run
        if not p.framed and (p.by_rows or (has_long_rows(p) and p.shape[p.ndim - 1] < p.row)):
            p.row = p.shape[p.ndim - 1]
    elif p.n_seg > 1:
        p.mode, unit = FG_MODE_COLUMNS, p.n_seg * p.seg_width
        if tile < unit:
            tile = unit
        if p.n_inner * p.n_seg <= tile:
            unit = p.n_inner * p.n_seg
    elif p.n_red * p.n_inner <= tile:
        p.mode, p.row, unit = FG_MODE_SEGMENT, p.n, p.n_red * p.n_inner
        for k in range(p.n_out):
            if p.out[k].reduce and p.n_inner > 1 and p.n_red >= 8 and not fg_vm_seg_is_short(p.out[k].type, p.out[k].term, p.n_red):
                p.folds = 1
    elif p.n_inner == 1:
        p.mode, p.row = FG_MODE_WIDE, p.n_red
    else:
        p.mode, whole = FG_MODE_COLUMNS, tile
        unit = p.n_inner if p.n_inner <= tile else 1
        tile = max(unit, PLAIN_TILE if lies_in_place(p) else column_tile(p))
    if p.mode != FG_MODE_COLUMNS and tile > p.row:     # tiles end with rows: what is kept from tile to tile must repeat within one
        tile = p.row
    best = unit
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_PLACE and p.mode == FG_MODE_FLAT:
            best = p.shape[p.ndim - 1]     # whole rows
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_GENERAL:
            per = period(p, p.in_[i].strides)
            if best < per <= tile:
                best = per
    p.step = tile // best * best
    if p.masked and p.step < p.row:        # whole strips: the bits of the next tile are not this one's
        p.step = tile // STRIP_ELEMENTS * STRIP_ELEMENTS
    if p.mode == FG_MODE_SEGMENT and unit == p.shape[p.ndim - 1] and has_long_rows(p):
        p.step = unit
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_GENERAL:
            per = period(p, p.in_[i].strides)
            if p.ndim == 1 and p.n_boxes and p.in_[i].strides[0]:      # the pieces of a tile begin anywhere
                continue
            if p.step % per == 0 and (p.mode != FG_MODE_COLUMNS or p.n // p.n_outer % per == 0):   # columns start anew at each outer index
                p.in_[i].access = FG_ACC_CACHED
                regs[i].shared = 1
    plan_units(p, whole)
    if p.mode != FG_MODE_COLUMNS:
        for i in range(p.n_in):
            p.in_[i].lies = p.in_[i].run % p.row == 0
        for k in range(p.n_out):
            p.out[k].lies = p.out[k].run % p.row == 0
        if p.mode == FG_MODE_FLAT and p.cols == 0:
            write_rows(p, regs)
    plan_scalars(p, regs)
    plan_traffic(p)
    p.any_general = p.n_boxes > 0
    for i in range(p.n_in + p.n_out):
        if is_walked(p, i) and (p.in_[i].access if i < p.n_in else p.out[i - p.n_in].access) >= FG_ACC_ROW:
            p.any_general = 1
    fg_vm_make_strips(p, <int *>scratch)
    plan_memory(p, regs, scratch)
    fg_vm_find_next(p)
    plan_grain(p)


cdef bint is_one_strip(FgVmPlan *p) noexcept nogil:
    """True if all is read and written where it lies, by one program of stages, so that no tile is kept in a cache."""
    cdef int i, k
    if p.n_strips != 1 or p.n_reduced:
        return False
    for i in range(p.n_in):
        if not (p.in_[i].scalar or p.in_[i].access == FG_ACC_FULL or (p.in_[i].guard >= 0 and p.in_[i].dtype == p.in_[i].type)):
            return False
    for k in range(p.n_ops):
        if not fg_vm_is_view(&p.ops[k]) and (p.ops[k].strip < 0 or (not p.ops[k].taken and p.ops[k].buf >= 0)):
            return False
    return True


cdef int64_t most_of_one_loop(FgVmPlan *p) noexcept nogil:
    """Elements of a tile where all is read and written where it lies, by one light loop; else 0."""
    cdef int i, size = 1
    if p.n_ops != 1 or p.n_reduced or p.cols or p.n_boxes or p.ops[0].strip >= 0 or p.ops[0].rows != NULL or p.ops[0].buf >= 0:
        return 0
    for i in range(p.n_in):
        if not p.in_[i].scalar and (p.in_[i].access != FG_ACC_FULL or p.in_[i].dtype != p.in_[i].type):
            return 0
        size = max(size, p.in_[i].size)
    if fg_vm_takes(p.ops[0].op) or fg_vm_info[p.ops[0].op].weight > LOOP_WORK:
        return 0
    return LOOP_BYTES // max(size, p.out[0].size)


cdef bint read_once(FgVmPlan *p, int r) noexcept nogil:
    """True if one operand of one op reads register r, and no output."""
    cdef int k, n = 0
    for k in range(p.n_ops):
        n += (p.ops[k].a == r) + (p.ops[k].b == r) + (p.ops[k].c == r and p.ops[k].c != p.ops[k].a)
    for k in range(p.n_out):
        n += 2 * (p.out[k].reg == r or p.out[k].reg2 == r)
    return n == 1


cdef bint in_place(FgVmPlan *p, int i) noexcept nogil:
    """True if an op may read input i where it lies."""
    return i < p.n_in and p.in_[i].guard < 0 and p.in_[i].dtype == p.in_[i].type and not p.in_[i].scalar and read_once(p, i)


cdef bint is_one(FgVmPlan *p, int r) noexcept nogil:
    """True if register r is one number."""
    return fg_vm_is_const(p, r) or (r < p.n_in and p.in_[r].scalar)


cdef void find_rows(FgVmPlan *p) noexcept nogil:
    """Ops of a column, or a number, and of rows that are no tile, each read by nobody else, take them from where they lie."""
    cdef int k, x, y, last = p.ndim - 1
    cdef int64_t ys
    cdef bint number
    cdef FgVmOp *op
    if p.ndim == 0 or p.cols or p.by_rows or p.in_strips or p.shape[last] >= long_row(p):
        return
    for k in range(p.n_ops):
        op = &p.ops[k]
        if fg_vm_info[op.op].arity != 2:
            continue
        x, y = op.a, op.b
        number = is_one(p, x) or is_one(p, y)
        if is_one(p, y) or (not number and in_place(p, x) and p.in_[x].strides[last] != 0):
            x, y = y, x
        if not in_place(p, y) or not (number or in_place(p, x)):
            continue
        ys = p.in_[y].strides[last - 1] if last else 0
        if (not number and p.in_[x].strides[last] != 0) or p.in_[y].strides[last] != 1 or not (ys == 0 or ys >= p.shape[last]):
            continue
        if number and (ys == 0 or p.shape[last] * fg_itemsize(p.in_[y].type) < NUMBER_ROW):
            continue                           # short rows are copied in less time
        if last > 1 and ys == 0 and p.shape[last - 1] <= SHORT_BLOCK and p.shape[last] * fg_itemsize(p.in_[y].type) < 64:
            continue                           # a call for so little costs more than spreading both (fg_vm_repeat)
        op.rows = fg_vm_rows_fn(op.op, op.type, x == op.b) if run_length(p, p.in_[y].strides) != p.n else NULL
        if op.rows != NULL:
            p.in_[y].access = FG_ACC_PLACE
            if not number:
                p.in_[x].access = FG_ACC_PLACE


cdef int64_t other_parts(FgVmPlan *p) noexcept nogil:
    """Bytes per element of the inputs that are not live at the same time as those of the part with most of them."""
    cdef int64_t total = 0, most = 0, mine
    cdef int part, i
    for part in range(p.n_parts):
        mine = 0
        for i in range(p.parts[part].in_, p.parts[part].in_end):
            mine += fg_itemsize(p.in_[p.in_order[i]].type)
        total += mine
        most = max(most, mine)
    return total - most


cdef bint lies_in_place(FgVmPlan *p) noexcept nogil:
    """True if reductions read their operands where those lie, and there is nothing else to do."""
    cdef int i
    for i in range(p.n_in):
        if p.in_[i].access != FG_ACC_FULL or p.in_[i].dtype != p.in_[i].type:
            return False
    return p.n_ops == 0 and p.n_reduced == p.n_out


cdef int64_t column_tile(FgVmPlan *p) noexcept nogil:
    """Elements of a tile of columns that are computed."""
    cdef int k, size = 1
    if p.n_inner < WIDE_COLUMNS:
        return COLUMN_TILE
    for k in range(p.n_out):
        if p.out[k].reduce:
            size = max(size, p.out[k].term)
    return min(2 * WIDE_COLUMNS, WIDE_BYTES // size)


cdef int columns(FgVmPlan *p) noexcept nogil:
    """How many operands have one value for a row of the last axis: tiles of one row can read them as scalars."""
    cdef int i, n = 0
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_GENERAL and p.ndim and p.in_[i].strides[p.ndim - 1] == 0:
            n += period(p, p.in_[i].strides) > 1
    return n


cdef int64_t long_row(FgVmPlan *p) noexcept nogil:
    """Elements of a row from which on it is a tile, if a column has one value for it."""
    return 2 * FG_ROWS_LONG if p.n_reduced else FG_ROWS_LONG


cdef bint has_long_rows(FgVmPlan *p) noexcept nogil:
    """True if an operand has one value for each row of the last axis, and these are long enough to be tiles of their own."""
    return p.ndim > 0 and p.shape[p.ndim - 1] >= long_row(p) and p.cols == 0 and columns(p) > 0


cdef void plan_units(FgVmPlan *p, int64_t whole) noexcept nogil:
    """Cut the walk into units of work.  Nothing here depends on the number of threads, so neither do the results."""
    cdef int64_t steps
    p.step //= p.n_seg
    if p.mode != FG_MODE_COLUMNS:
        if p.step > p.row:
            p.step = p.row
        p.chunks = (p.row + p.step - 1) // p.step
        p.units = p.n // p.row * p.chunks * p.n_parts
        if p.in_strips:
            p.units = (p.n_outer + p.batch - 1) // p.batch
        return
    if p.n_inner <= p.step:
        p.tile_rows, p.step = p.step // p.n_inner, p.n_inner
    p.sums_segments = p.n_seg >= LONG_SEGMENT
    if not p.sums_segments and lies_in_place(p):
        p.group = max(PLAIN_GROUP, whole // (p.tile_rows * p.step * p.n_seg))
    elif p.n_seg == 1 and p.n_inner <= p.step and (p.tile_rows > 1 or columns(p) == 0):
        p.group = max(1, whole // (p.tile_rows * p.step))
    p.chunks = (p.n_inner + p.step - 1) // p.step
    steps = (p.n_red + p.tile_rows - 1) // p.tile_rows
    p.blocks = 64 // (p.n_outer * p.chunks)          # enough units for many threads, each of at least 16 tiles
    if p.blocks > steps // 16:
        p.blocks = steps // 16
    if p.blocks > 16:                                # combining them is one thread's work
        p.blocks = max(16, min(p.blocks, steps // 64))
    if p.blocks < 1:
        p.blocks = 1
    p.units = p.n_outer * p.chunks * p.blocks


cdef bint in_one_row(FgVmPlan *p) noexcept nogil:
    """True if every tile stays within a row of the last axis of the walk."""
    if p.ndim == 0 or p.n_seg > 1:
        return False
    if p.mode == FG_MODE_SEGMENT:
        return p.step == p.shape[p.ndim - 1]
    return p.n_inner == p.shape[p.ndim - 1] and p.tile_rows * p.group == 1 if p.mode == FG_MODE_COLUMNS else p.row == p.shape[p.ndim - 1]


cdef bint use_scalar(FgVmPlan *p, Reg *regs, int r, int first) noexcept nogil:
    """Have all ops that read register r, none before op `first`, read it as one value, if each of them has a loop for that."""
    cdef int k, end = min(p.n_ops - 1, regs[r].last) + 1
    for k in range(p.n_out):
        if p.out[k].reg == r or p.out[k].reg2 == r:
            return False
    for k in range(first, end):
        if not fg_vm_read_one(&p.ops[k], r, False):
            return False
    for k in range(first, end):
        fg_vm_read_one(&p.ops[k], r, True)
    return True


cdef void plan_scalars(FgVmPlan *p, Reg *regs) noexcept nogil:
    """Scalars and columns that are read as one value a tile, as constants are, take no tile of the cache."""
    cdef int i
    for i in range(p.n_in):
        if p.in_[i].access == FG_ACC_CACHED:
            p.in_[i].scalar |= period(p, p.in_[i].strides) == 1 and use_scalar(p, regs, i, 0)
        elif p.in_[i].access == FG_ACC_GENERAL and in_one_row(p) and p.in_[i].strides[p.ndim - 1] == 0 and use_scalar(p, regs, i, 0):
            p.in_[i].access = FG_ACC_ROW


cdef void plan_traffic(FgVmPlan *p) noexcept nogil:
    """Whether a run moves so much memory, with so much work on it, that fetching ahead pays; and results larger than the caches."""
    cdef int64_t total = 0, inputs = 0, outputs = 0, work = 0
    cdef int i, columns = 0
    cdef bint by_hand
    for i in range(p.n_in):
        columns += p.ndim > 0 and fg_vm_is_column(p, &p.in_[i])
        if p.in_[i].access == FG_ACC_FULL and p.in_[i].source == i:
            total += p.n * p.in_[i].size
            inputs += 1
    for i in range(p.n_ops):
        work += fg_vm_info[p.ops[i].op].weight
    for i in range(p.n_out):
        if p.out[i].access == FG_ACC_FULL:
            total += p.n * p.out[i].size
            outputs += 1
            if p.n * p.out[i].size >= STREAM_BYTES:
                p.streams = 1
    p.columns = columns > 1 and p.n_parts == 1
    by_hand = p.mode != FG_MODE_COLUMNS and (fetches or inputs + outputs > CORE_STREAMS or work >= CORE_WORK * inputs)
    p.nears = by_hand and total >= PREFETCH_BYTES
    p.prefetches = p.mode != FG_MODE_COLUMNS and work >= PREFETCH_WORK * inputs and (
        total >= TAKES_BYTES if p.n_tables else by_hand and total >= PREFETCH_BYTES
    )


cdef double element_ns(FgVmPlan *p) noexcept nogil:
    """Estimated work for each element of the walk."""
    cdef double ns = 0, size
    cdef int i, k
    for k in range(p.n_ops):
        size = fg_itemsize(p.ops[k].type)
        ns += 0.05 * fg_vm_info[p.ops[k].op].weight * (size / 4 if size > 4 else 1)
    for i in range(p.n_in):
        ns += 0.02 * fg_itemsize(p.in_[i].type) * (4 if p.in_[i].access == FG_ACC_GENERAL and not p.in_[i].lies else 1)
    for k in range(p.n_out):
        ns += 0.03 * fg_itemsize(p.out[k].type)
    return ns


cdef void plan_grain(FgVmPlan *p) noexcept nogil:
    """Units that are worth a thread: about 10 microseconds of estimated work, to the nearest unit, of which runs of 20 microseconds have few."""
    p.grain = max(1, <int64_t>(UNIT_NS / (element_ns(p) * p.n / p.units) + 0.5))
    if p.framed and p.n_strips:
        p.strip_grain = <int64_t>(UNIT_NS / (element_ns(p) * (FG_STRIP // p.strips[0].lane)) + 1)
