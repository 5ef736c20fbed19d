"""Gather and scatter in the generality of XLA's operators.

Both take ip = [n_window, n_dropped, n_map, n_batching, mode, a, b, window..., dropped..., map..., operand_batching...,
indices_batching..., slice_sizes...]; `gather_ip` and `scatter_ip` build it.
  gather   window: offset_dims; dropped: collapsed_slice_dims; map: start_index_map; mode: 0 clamps indices, 1 fills windows
           that are out of bounds with the item whose bits are a (low 64) and b (high 64), 2 more: negative indices, of one
           component, count from the end; slice_sizes: one per operand axis.
  scatter  window: update_window_dims; dropped: inserted_window_dims; map: scatter_dims_to_operand_dims; mode: 0 clamps
           indices, 1 drops windows that are out of bounds; a: 0 set, 1 add, 2 mul, 3 min, 4 max; b: 0; no slice_sizes.
The last axis of the indices (int32 or int64) holds the index vectors.  Updates are applied in the order of the indices, or within
ranges of them that depend on shapes only, so results do not depend on the number of threads.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

from fgrad._kernels.abi cimport (FG_EDATA, FG_EMEM, FG_I32, FG_I64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, parallel_grains, thread_count

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "index_last.h" nogil:
    enum:
        FG_CHUNK, FG_SET, FG_MAX
    ctypedef struct FgCopyPlan:
        int64_t units, grain
    ctypedef struct FgCopyJob:
        const FgCopyPlan *plan
        const char *src
        char *dst
    ctypedef struct FgIndexPlan:
        int32_t nb, nw, nk, item, wide, drop, kind, dtype, by_plan, in_order, windows
        int64_t n, p, chunk, i0, b0, s0
        int64_t shape[16]
        int64_t bi[16]
        int64_t bb[16]
        int64_t bs[16]
        int64_t wshape[16]
        int64_t wb[16]
        int64_t ws[16]
        int32_t free[16]
        int32_t run_free
        int64_t run, run_b, run_s, ki
        int64_t kb[16]
        int64_t top[16]
        int64_t kone[16]
        int64_t wrap
        int64_t lo, hi, only
        FgCopyPlan copy, fill
        char value[16]
    ctypedef struct FgIndexJob:
        const FgIndexPlan *plan
        const char *indices
        const char *in_ "in"
        char *out
        int32_t split, axis
    enum:
        FG_BLOCK_KEEP, FG_BLOCK_COPY, FG_BLOCK_FILL
    ctypedef struct FgBlockJob:
        const FgIndexPlan *plan
        const char *indices
        const char *updates
        const char *operand
        char *out
        int64_t size, block, blocks, ranges
        int64_t *at
        int64_t *end
        int64_t *share
        int64_t *bo
        int64_t *so
        int32_t first
    int fg_block_layout(FgBlockJob *job, int64_t threads)
    void fg_block_count(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_block_place(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_block_run(void *ctx, int64_t begin, int64_t end, int tid)
    int fg_block_shares(const FgBlockJob *job)
    void fg_copy_plan(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                      int64_t soff, int64_t doff)
    void fg_copy_units(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_gather_units(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_gather_windows(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_scatter_range(void *ctx, int64_t begin, int64_t end, int tid)
    int64_t fg_scatter_split(const FgIndexPlan *g, int64_t size, int64_t threads, FgIndexJob *job)
    int fg_is_direct(const FgIndexPlan *g)
    void fg_gather_lines(void *ctx, int64_t begin, int64_t end, int tid)
    ctypedef struct FgCopiesJob:
        const FgIndexPlan *plan
        const char *indices
        const char *updates
        char *out
        char *space
        int64_t size, copies, width
    int64_t fg_scatter_copies(const FgIndexPlan *g, FgCopiesJob *job)
    int64_t fg_copies_space(const FgCopiesJob *job)
    void fg_copies_run(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_copies_combine(void *ctx, int64_t begin, int64_t end, int tid)
    ctypedef struct FgLastJob:
        const FgIndexPlan *plan
        const char *indices
        const char *updates
        const char *operand
        char *out
        int32_t *last
        int64_t ranges
    bint fg_is_last(const FgIndexPlan *g)
    bint fg_last_is_dense(const FgIndexPlan *g)
    void fg_last_find(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_last_set(void *ctx, int64_t begin, int64_t end, int tid)

cdef enum:
    HEADER = 7
    LARGE = 1 << 14            # bytes of a window of several rows that is copied by itself, not row by row with others
    WRAP = 2

WRAPS = WRAP                  # in a gather's mode: negative indices, of one component, count from the end


def gather_ip(offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims, slice_sizes,
              bint fill, fill_value=None):
    """The ip of a "gather"; fill_value: a NumPy scalar of the operand's dtype (needed where fill is true)."""
    raw = b"" if fill_value is None else fill_value.tobytes()
    words = [int.from_bytes(raw.ljust(16, b"\0")[k:k + 8], "little", signed=True) for k in (0, 8)]
    return [len(offset_dims), len(collapsed_slice_dims), len(start_index_map), len(operand_batching_dims), int(fill), *words, *offset_dims,
            *collapsed_slice_dims, *start_index_map, *operand_batching_dims, *start_indices_batching_dims, *slice_sizes]


def scatter_ip(update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, operand_batching_dims, scatter_indices_batching_dims,
               str kind, bint drop):
    """The ip of a "scatter"; kind: "set", "add", "mul", "min" or "max"."""
    return [len(update_window_dims), len(inserted_window_dims), len(scatter_dims_to_operand_dims), len(operand_batching_dims), int(drop),
            ("set", "add", "mul", "min", "max").index(kind), 0, *update_window_dims, *inserted_window_dims, *scatter_dims_to_operand_dims,
            *operand_batching_dims, *scatter_indices_batching_dims]


cdef int check_axes(const char *name, const char *what, const int64_t *axes, int64_t n, int64_t bound, char *msg) noexcept nogil:
    cdef int64_t i, j
    for i in range(n):
        if axes[i] < 0 or axes[i] >= bound:
            return fg_fail(msg, "%s: %s: axis %lld is out of range for %lld axes", name, what, <long long>axes[i], <long long>bound)
        for j in range(i):
            if axes[i] == axes[j]:
                return fg_fail(msg, "%s: %s: axis %lld occurs twice", name, what, <long long>axes[i])
    return 0


cdef inline int64_t position(const int64_t *axes, int64_t n, int64_t axis) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if axes[i] == axis:
            return i
    return -1


cdef FgIndexPlan *make_plan(FgInst *inst, const char *name, const FgTensor *big, const FgTensor *operand, const FgTensor *indices,
                            const FgTensor *small, bint is_gather, char *msg) noexcept nogil:
    """Check everything and lay out the geometry; `operand` and `big` have one shape.  NULL with a message where it does not fit."""
    cdef const int64_t *ip = inst.ip
    cdef const int64_t *window
    cdef const int64_t *dropped
    cdef const int64_t *index_map
    cdef const int64_t *batching
    cdef const int64_t *ibatching
    cdef int64_t nw, nd, nk, nbat, need, k, size, b = 0, w = 0
    cdef int64_t slices[16]
    cdef int d
    cdef FgIndexPlan *g
    need = HEADER
    for d in range(4):
        if inst.n_ip < HEADER or ip[d] < 0 or ip[d] > 16:
            fg_fail(msg, "%s: the parameters do not start with four counts of 0 to 16", name)
            return NULL
        need += ip[d] * (2 if d == 3 else 1)
    need += operand.ndim if is_gather else 0
    if inst.n_ip != need:
        fg_fail(msg, "%s: got %d parameters, expected %lld", name, inst.n_ip, <long long>need)
        return NULL
    nw, nd, nk, nbat = ip[0], ip[1], ip[2], ip[3]
    window = ip + HEADER
    dropped = window + nw
    index_map = dropped + nd
    batching = index_map + nk
    ibatching = batching + nbat
    if indices.dtype != FG_I32 and indices.dtype != FG_I64:
        fg_fail(msg, "%s: indices are %s, expected int32 or int64", name, fg_dtype_name(indices.dtype))
        return NULL
    if indices.ndim < 1 or indices.shape[indices.ndim - 1] != nk:
        fg_fail(msg, "%s: indices of shape %s must end in an axis of %lld index components", name, fg_shape_text(indices), <long long>nk)
        return NULL
    if small.dtype != operand.dtype or big.dtype != operand.dtype:
        fg_fail(msg, "%s: operand is %s, %s %s", name, fg_dtype_name(operand.dtype), b"the output" if is_gather else b"updates",
                fg_dtype_name(small.dtype))
        return NULL
    if (check_axes(name, b"window axes", window, nw, small.ndim, msg) or check_axes(name, b"dropped axes", dropped, nd, operand.ndim, msg)
            or check_axes(name, b"index map", index_map, nk, operand.ndim, msg)
            or check_axes(name, b"operand batching axes", batching, nbat, operand.ndim, msg)
            or check_axes(name, b"indices batching axes", ibatching, nbat, indices.ndim - 1, msg)):
        return NULL
    if nw + nd + nbat != operand.ndim or nw + indices.ndim - 1 != small.ndim:
        fg_fail(msg, "%s: %lld window, %lld dropped and %lld batching axes do not fit operand %s, indices %s and %s", name, <long long>nw,
                <long long>nd, <long long>nbat, fg_shape_text(operand), fg_shape_text(indices), fg_shape_text(small))
        return NULL
    for d in range(1, <int>nw):
        if window[d] < window[d - 1]:
            fg_fail(msg, "%s: the window axes must ascend", name)
            return NULL
    for d in range(<int>nbat):
        if operand.shape[batching[d]] != indices.shape[ibatching[d]]:
            fg_fail(msg, "%s: batching axis %lld of operand %s and axis %lld of indices %s differ", name, <long long>batching[d],
                    fg_shape_text(operand), <long long>ibatching[d], fg_shape_text(indices))
            return NULL
        if position(dropped, nd, batching[d]) >= 0 or position(index_map, nk, batching[d]) >= 0:
            fg_fail(msg, "%s: operand axis %lld is a batching axis and dropped or indexed too", name, <long long>batching[d])
            return NULL
    for d in range(operand.ndim):
        slices[d] = 1
        if position(batching, nbat, d) < 0 and position(dropped, nd, d) < 0:
            slices[d] = small.shape[window[w]]
            w += 1
        if is_gather:
            size = ip[need - operand.ndim + d]
            if size != slices[d] and not (size == 0 and position(batching, nbat, d) >= 0):
                fg_fail(msg, "gather: slice size %lld on operand axis %d, but the output %s and the dropped axes make it %lld",
                        <long long>size,
                        d, fg_shape_text(small), <long long>slices[d])
                return NULL
        if slices[d] > operand.shape[d] and small.size and (is_gather or position(dropped, nd, d) < 0):
            fg_fail(msg, "%s: a window of %lld does not fit axis %d of operand %s", name, <long long>slices[d], d, fg_shape_text(operand))
            return NULL
    w = 0
    for d in range(small.ndim):
        if position(window, nw, d) >= 0:
            continue
        if small.shape[d] != indices.shape[b]:
            fg_fail(msg, "%s: axis %d of %s does not match axis %lld of indices %s", name, d, fg_shape_text(small), <long long>b,
                    fg_shape_text(indices))
            return NULL
        b += 1
    g = <FgIndexPlan *>calloc(1, sizeof(FgIndexPlan))
    if g == NULL:
        fg_fail(msg, "%s: no memory for its plan", name)
        return NULL
    inst.extra = g
    g.item, g.wide, g.drop, g.only, g.dtype = <int32_t>fg_itemsize(operand.dtype), indices.dtype == FG_I64, ip[4] & 1, -1, operand.dtype
    g.n, g.p, g.run, g.run_b, g.run_s, g.chunk = 1, 1, 1, 1, 1, 1
    b = 0
    for d in range(small.ndim):
        if position(window, nw, d) < 0:
            k = position(ibatching, nbat, b)
            add_batch_axis(g, small.shape[d], indices.strides[b], 0 if k < 0 else big.strides[batching[k]], small.strides[d])
            b += 1
    for d in range(operand.ndim):
        if position(batching, nbat, d) < 0 and position(dropped, nd, d) < 0:
            add_window_axis(g, slices[d], big.strides[d], small.strides[window[w]],
                            position(index_map, nk, d) < 0 or slices[d] == operand.shape[d], is_gather)
            w += 1
    g.nk = <int32_t>nk
    g.ki = indices.strides[indices.ndim - 1]
    for d in range(<int>nk):
        k = index_map[d]
        g.kb[d], g.top[d], g.kone[d] = big.strides[k], operand.shape[k] - slices[k], slices[k] == 1
    for d in range(g.nw):
        if not g.free[d]:
            g.in_order = 1
    return g


cdef void add_batch_axis(FgIndexPlan *g, int64_t n, int64_t bi, int64_t bb, int64_t bs) noexcept nogil:
    """Append an axis, or widen the last one where all strides allow."""
    cdef int k = g.nb - 1
    g.n *= n
    if n == 1:
        return
    if k >= 0 and g.bi[k] == bi * n and g.bb[k] == bb * n and g.bs[k] == bs * n:
        g.shape[k] *= n
    else:
        k += 1
        g.nb += 1
        g.shape[k] = n
    g.bi[k], g.bb[k], g.bs[k] = bi, bb, bs


cdef void add_window_axis(FgIndexPlan *g, int64_t n, int64_t wb, int64_t ws, bint free, bint is_gather) noexcept nogil:
    """Append an axis, or widen the last one where all strides allow; updates only where both are free."""
    cdef int k = g.nw - 1
    g.p *= n
    if n == 1:
        return
    if k >= 0 and g.wb[k] == wb * n and g.ws[k] == ws * n and (is_gather or (g.free[k] and free)):
        g.wshape[k] *= n
        g.free[k] = g.free[k] and free
    else:
        k += 1
        g.nw += 1
        g.wshape[k], g.free[k] = n, free
    g.wb[k], g.ws[k] = wb, ws


cdef void take_run(FgIndexPlan *g, int k) noexcept nogil:
    """Make window axis k the innermost run."""
    cdef int d
    g.run, g.run_b, g.run_s, g.run_free = g.wshape[k], g.wb[k], g.ws[k], g.free[k]
    if g.run:
        g.p //= g.run
    g.nw -= 1
    for d in range(k, g.nw):
        g.wshape[d], g.wb[d], g.ws[d], g.free[d] = g.wshape[d + 1], g.wb[d + 1], g.ws[d + 1], g.free[d + 1]


cdef void set_chunk(FgIndexPlan *g) noexcept nogil:
    """About 32 KiB of items a chunk."""
    cdef int64_t c = 32768 // (g.run * g.item) if g.run else 1
    c = FG_CHUNK if c > FG_CHUNK else (1 if c < 1 else c)
    g.chunk = c


cdef int gather_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *out
    cdef FgIndexPlan *g
    cdef int d, unit = -1
    cdef int64_t zeros[16]
    if inst.n_in != 2 or inst.n_out != 1:
        return fg_fail(msg, "gather: got %d inputs and %d outputs, expected 2 and 1", inst.n_in, inst.n_out)
    out = FG_OUT(inst, slots, 0)
    if not fg_is_contiguous(out):
        return fg_fail(msg, "gather: the output of shape %s must be contiguous", fg_shape_text(out))
    g = make_plan(inst, b"gather", FG_IN(inst, slots, 0), FG_IN(inst, slots, 0), FG_IN(inst, slots, 1), out, True, msg)
    if g == NULL:
        return -1
    if inst.ip[4] < 0 or inst.ip[4] > (1 + WRAP if g.nk == 1 else 1):
        return fg_fail(msg, "gather: mode %lld is neither 0 (clip) nor 1 (fill), nor 2 more for indices of one component",
                       <long long>inst.ip[4])
    if inst.ip[4] & WRAP:
        g.wrap = FG_IN(inst, slots, 0).shape[inst.ip[HEADER + inst.ip[0] + inst.ip[1]]]
    memcpy(g.value, &inst.ip[5], 16)
    for d in range(g.nw):
        zeros[d] = 0
        if g.wb[d] == 1 and g.ws[d] == 1:
            unit = d
    fg_copy_plan(&g.copy, g.item, g.nw, g.wshape, g.wb, g.ws, 0, 0)
    fg_copy_plan(&g.fill, g.item, g.nw, g.wshape, zeros, g.ws, 0, 0)
    if unit >= 0:
        g.by_plan = g.nw > 1 and (g.n < 16 or g.p * g.item >= LARGE)
    else:                                    # without a common dense axis, walk whichever side the output is dense in
        g.by_plan = g.nw > 0 and (g.n < 16 or g.bs[g.nb - 1] != 1)
    if unit >= 0 and not g.by_plan:
        take_run(g, unit)
    set_chunk(g)
    return 0


cdef int gather_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgIndexPlan *g = <FgIndexPlan *>inst.extra
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgIndexJob job
    cdef int64_t grain, work
    if out.size == 0:
        return FG_OK
    job.plan, job.indices, job.in_, job.out = g, FG_IN(inst, slots, 1).data, FG_IN(inst, slots, 0).data, out.data
    if g.by_plan:
        grain = g.copy.grain if g.copy.units > 1 else 1 + 131072 // (out.size // g.n * g.item + 64)
        parallel_grains(g.n * g.copy.units, grain, fg_gather_windows, &job)
        return FG_OK
    if fg_is_direct(g):
        parallel_for(g.n * g.p, 1 + 8191 // g.run, fg_gather_lines, &job)
        return FG_OK
    work = (g.chunk if g.chunk < g.n else g.n) * (g.run * g.item + 16)
    parallel_grains((g.n + g.chunk - 1) // g.chunk * g.p, 1 + 131072 // work, fg_gather_units, &job)
    return FG_OK


cdef int scatter_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *operand
    cdef const FgTensor *out
    cdef FgIndexPlan *g
    cdef int d, k = -1
    if inst.n_in != 3 or inst.n_out != 1:
        return fg_fail(msg, "scatter: got %d inputs and %d outputs, expected 3 and 1", inst.n_in, inst.n_out)
    operand = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if not fg_is_contiguous(out):
        return fg_fail(msg, "scatter: the output of shape %s must be contiguous", fg_shape_text(out))
    if not fg_same_shape(operand, out):
        return fg_fail(msg, "scatter: operand has shape %s, the output %s", fg_shape_text(operand), fg_shape_text(out))
    g = make_plan(inst, b"scatter", out, operand, FG_IN(inst, slots, 1), FG_IN(inst, slots, 2), False, msg)
    if g == NULL:
        return -1
    if inst.ip[4] != 0 and inst.ip[4] != 1:
        return fg_fail(msg, "scatter: mode %lld is neither 0 (clip) nor 1 (drop)", <long long>inst.ip[4])
    if inst.ip[5] < 0 or inst.ip[5] > FG_MAX:
        return fg_fail(msg, "scatter: kind %lld is not one of 0 set, 1 add, 2 mul, 3 min, 4 max", <long long>inst.ip[5])
    g.kind = <int32_t>inst.ip[5]
    fg_copy_plan(&g.copy, g.item, out.ndim, out.shape, operand.strides, out.strides, 0, 0)
    for d in range(g.nw):
        if k < 0 or g.wb[d] < g.wb[k]:
            k = d
    if g.kind == FG_SET and g.in_order and g.nw > 1 and g.wb[k] == 1:
        g.windows = 1
        fg_copy_plan(&g.fill, g.item, g.nw, g.wshape, g.ws, g.wb, 0, 0)
    if k >= 0 and (g.wb[k] == 1 or g.in_order or g.n < 16):
        take_run(g, k)
    set_chunk(g)
    if g.in_order:
        g.chunk = 1
    return 0


cdef int scatter_blocks(FgBlockJob *job) noexcept nogil:
    """Scatter block by block: FG_OK, FG_EMEM, or -1 where the updates crowd into one block and nothing has been written."""
    cdef const FgIndexPlan *g = job.plan
    cdef int64_t counts = job.ranges * job.blocks, others = job.blocks + job.ranges + 1
    cdef char *space = pool_alloc((counts + others + 2 * g.n) * sizeof(int64_t))
    cdef bint even
    if space == NULL:
        return FG_EMEM
    job.at = <int64_t *>space
    job.end = job.at + counts
    job.share = job.end + job.blocks
    job.bo = job.share + job.ranges + 1
    job.so = job.bo + g.n
    memset(job.at, 0, counts * sizeof(int64_t))
    parallel_for(job.ranges, 1, fg_block_count, job)
    even = fg_block_shares(job)
    if even:
        parallel_for(job.ranges, 1, fg_block_place, job)
        parallel_for(job.ranges, 1, fg_block_run, job)
    pool_free(space)
    return FG_OK if even else -1


cdef int scatter_copies(FgCopiesJob *job) noexcept nogil:
    """Scatter ranges of the vectors into copies of the output, and combine those."""
    job.space = pool_alloc(fg_copies_space(job) * job.plan.item)
    if job.space == NULL:
        return FG_EMEM
    parallel_for(job.copies, 1, fg_copies_run, job)
    if job.width:
        parallel_for(job.size // job.plan.run, 1 + 32767 // (job.copies * job.width), fg_copies_combine, job)
    else:
        parallel_for(job.size, 32768 // job.copies, fg_copies_combine, job)
    pool_free(job.space)
    return FG_OK


cdef int scatter_last(FgLastJob *job) noexcept nogil:
    """Set rows to the last update of each."""
    cdef const FgIndexPlan *g = job.plan
    cdef int64_t rows = g.top[0] + 1
    job.ranges = min(thread_count(), max(1, min(g.n // 16384, g.n // rows)))
    job.last = <int32_t *>pool_alloc(job.ranges * (rows + 1) * sizeof(int32_t))
    if job.last == NULL:
        return FG_EMEM
    parallel_for(job.ranges, 1, fg_last_find, job)
    parallel_for(rows, 1 + 32768 // (g.run + 10), fg_last_set, job)
    pool_free(<char *>job.last)
    return FG_OK


cdef bint one_item(const FgTensor *t) noexcept nogil:
    cdef int d
    for d in range(t.ndim):
        if t.shape[d] != 1 and t.strides[d] != 0:
            return False
    return True


cdef int scatter_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgIndexPlan *g = <FgIndexPlan *>inst.extra
    cdef FgTensor *operand = FG_IN(inst, slots, 0)
    cdef FgTensor *updates = FG_IN(inst, slots, 2)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgIndexJob job
    cdef FgBlockJob blocks
    cdef FgCopiesJob copies
    cdef FgLastJob last
    cdef FgCopyJob copy
    cdef int64_t extent, threads
    cdef int done
    if out.size == 0:
        return FG_OK
    if operand.data == out.data and not fg_is_contiguous(operand):
        return FG_EDATA                    # in place needs the operand to lie where the output lies
    blocks.plan, blocks.indices, blocks.updates = g, FG_IN(inst, slots, 1).data, updates.data
    blocks.operand, blocks.out, blocks.size = operand.data, out.data, out.size
    blocks.first = FG_BLOCK_KEEP if operand.data == out.data else (FG_BLOCK_COPY if fg_is_contiguous(operand) else FG_BLOCK_FILL)
    if updates.size and not fg_is_last(g) and (blocks.first != FG_BLOCK_FILL or one_item(operand)) and fg_block_layout(&blocks, thread_count()):
        done = scatter_blocks(&blocks)
        if done >= 0:
            return done
    last.operand = NULL
    if operand.data != out.data and fg_is_last(g) and fg_last_is_dense(g) and fg_is_contiguous(operand) and out.size == (g.top[0] + 1) * g.run:
        last.operand = operand.data
    elif operand.data != out.data:
        copy.plan, copy.src, copy.dst = &g.copy, operand.data, out.data
        parallel_grains(g.copy.units, g.copy.grain, fg_copy_units, &copy)
    if updates.size == 0:
        return FG_OK
    if fg_is_last(g):
        last.plan, last.indices, last.updates, last.out = g, FG_IN(inst, slots, 1).data, updates.data, out.data
        return scatter_last(&last)
    copies.plan, copies.indices, copies.updates, copies.out, copies.size = g, FG_IN(inst, slots, 1).data, updates.data, out.data, out.size
    if fg_scatter_copies(g, &copies):
        return scatter_copies(&copies)
    job.plan, job.indices, job.in_, job.out = g, FG_IN(inst, slots, 1).data, updates.data, out.data
    threads = updates.size // 16384 if g.run == 1 else g.n * (g.p * g.run + 10) // 49152     # 0.1 ns an item and 1 ns a row
    threads = thread_count() if threads > thread_count() else (1 if threads < 1 else threads)
    extent = fg_scatter_split(g, out.size, threads, &job)
    parallel_for(extent, 1 if extent < threads else extent // threads, fg_scatter_range, &job)
    return FG_OK


KERNELS = {
    "gather": (<size_t><void *>gather_run, <size_t><void *>gather_check),
    "scatter": (<size_t><void *>scatter_run, <size_t><void *>scatter_check),
}
