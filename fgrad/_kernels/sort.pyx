"""sort and top_k.

sort          n operands (strided) -> n sorted operands; ip [axis, num_keys, stable, reverse (may be left out)].  Ordered by the
              first num_keys operands, lexicographically; -0.0 == 0.0, NaN last (first if reversed), complex numbers by
              real then imaginary part.  Always stable.
top_k         x (contiguous) -> the k greatest of the last axis, descending, and their int32 positions; ip [k].  Of equal
              values the first comes first; NaN is greatest.
"""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc
from libc.string cimport memset

from fgrad._kernels.abi cimport (FG_C64, FG_C128, FG_EMEM, FG_I32, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, range_body, thread_count

cdef extern from "upper.h" nogil:
    void fg_clear_upper()

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "sort_lanes.h" nogil:
    enum:
        FG_SORT_MAX, FG_SORT_SEGMENT, FG_SORT_BIG, FG_TOP_BIG, FG_SORT_PARTS, FG_ENGINE_U32, FG_ENGINE_U64, FG_ENGINE_PAIR
    ctypedef struct FgCopyPlan:
        int64_t units, grain
    ctypedef struct FgCopyJob:
        const FgCopyPlan *plan
        const char *src
        char *dst
    ctypedef struct FgSortRow:
        int32_t n_ops, n_keys, reverse, dtype, part, packed, engine, bits, first, odd
        int64_t n
        int64_t ends[16]
        int32_t dtypes[32]
        const char *src[32]
        char *dst[32]
        const char *key
        void *a
        void *t
        uint32_t *perm
        uint32_t *places
        uint32_t *cells
        uint32_t *order
        char *keys
        int32_t parts, shares, last, told
    ctypedef struct FgTopK:
        const char *src
        char *values
        int32_t *indices
        int64_t n, k
        int32_t dtype, failed
        int64_t segments, seglen
        char *found
        int64_t *counts
    void fg_copy_plan(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                      int64_t soff, int64_t doff)
    void fg_copy_units(void *ctx, int64_t begin, int64_t end, int tid)
    int fg_key_wide(int dtype)
    int fg_key_bits(int dtype)
    int fg_key_parts(int dtype)
    int64_t fg_sort_scratch(int32_t wide, int64_t n)
    void fg_sort_layout(FgSortRow *r, char *scratch, int wide)
    void fg_sort_keys(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_pack(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_range(const FgSortRow *r, int64_t begin, int64_t n)
    void fg_sort_spans(FgSortRow *r, int parts)
    void fg_sort_count(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_gather(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_ranges(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_unpack(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_values(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_apply(void *ctx, int64_t begin, int64_t end, int tid)
    enum:
        FG_SPREAD_SHARES
    int64_t fg_spread_scratch(int64_t n, int parts)
    bint fg_spreads(const FgSortRow *r)
    void fg_spread_ranges(FgSortRow *r)
    void fg_spread_count(void *ctx, int64_t begin, int64_t end, int tid)
    bint fg_spread_places(FgSortRow *r)
    void fg_spread_place(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_spread_sort(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_spread_keep(void *ctx, int64_t begin, int64_t end, int tid)
    bint fg_sort_by_bytes(const FgSortRow *r)
    void fg_bytes_count(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_bytes_start(FgSortRow *r)
    void fg_bytes_place(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_sort_mend(int dtype, const void *src, void *dst, int64_t n)
    enum:
        FG_SORT_LANES
    int fg_sort_by_lanes(const FgSortRow *r, int64_t rows)
    int64_t fg_sort_lanes_scratch(int64_t n)
    void fg_sort_lanes(FgSortRow *r, int64_t rows, char *scratch)
    int64_t fg_top_scratch(const FgTopK *t)
    int64_t fg_top_room(int64_t k)
    int64_t fg_top_scan(const FgTopK *t, int64_t row, int64_t begin, int64_t n, char *buf, char *scratch)
    void fg_top_join(const FgTopK *t, int64_t row, char *buf, char *tmp)
    void fg_top_write(const FgTopK *t, int64_t row, const char *buf)
    bint fg_top_by_lanes(const FgTopK *t, int64_t rows)
    void fg_top_lanes(const FgTopK *t, int64_t row, int64_t rows, char *scratch)

ctypedef struct OperandPlan:
    FgCopyPlan lay, back              # to and from rows that are contiguous along the sorted axis
    int lay_needed, back_needed

ctypedef struct SortJob:
    FgSortRow row                     # of row 0
    int64_t rows
    int wide, failed


# ---- sort

cdef int sort_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef OperandPlan *plans
    cdef int i
    if inst.n_in < 1 or inst.n_in > FG_SORT_MAX or inst.n_out != inst.n_in or inst.n_ip < 3 or inst.n_ip > 4:
        return fg_fail(msg, "sort: got %d inputs, %d outputs, %d integers; expected n, n, 3 or 4 with n from 1 to %d",
                       inst.n_in, inst.n_out, inst.n_ip, <int>FG_SORT_MAX)
    out = FG_OUT(inst, slots, 0)
    if inst.ip[0] < 0 or inst.ip[0] >= out.ndim:
        return fg_fail(msg, "sort: axis %lld is out of range for shape %s", <long long>inst.ip[0], fg_shape_text(out))
    if inst.ip[1] < 1 or inst.ip[1] > inst.n_in:
        return fg_fail(msg, "sort: num_keys is %lld, expected 1 to %d", <long long>inst.ip[1], inst.n_in)
    if out.shape[inst.ip[0]] > 0x7fffffff:
        return fg_fail(msg, "sort: axis %lld of shape %s is longer than 2^31 - 1", <long long>inst.ip[0], fg_shape_text(out))
    for i in range(inst.n_in):
        x = FG_IN(inst, slots, i)
        out = FG_OUT(inst, slots, i)
        if x.dtype != out.dtype or not fg_same_shape(x, out) or not fg_same_shape(out, FG_OUT(inst, slots, 0)):
            return fg_fail(msg, "sort: operand %d is %s%s, its output %s%s, output 0 %s", i, fg_dtype_name(x.dtype), fg_shape_text(x),
                           fg_dtype_name(out.dtype), fg_shape_text(out), fg_shape_text(FG_OUT(inst, slots, 0)))
        if not fg_is_contiguous(out):
            return fg_fail(msg, "sort: output %d of shape %s must be contiguous", i, fg_shape_text(out))
    plans = <OperandPlan *>calloc(inst.n_in, sizeof(OperandPlan))
    if plans == NULL:
        return fg_fail(msg, "sort: no memory for its plans")
    inst.extra = plans
    for i in range(inst.n_in):
        plan_operand(&plans[i], FG_IN(inst, slots, i), FG_OUT(inst, slots, i), <int>inst.ip[0])
    return 0


cdef void plan_operand(OperandPlan *p, const FgTensor *x, const FgTensor *out, int axis) noexcept nogil:
    cdef int64_t shape[16]
    cdef int64_t xs[16]
    cdef int64_t os[16]
    cdef int64_t rows[16]
    cdef int64_t acc = 1
    cdef int d, k = 0, inner = 0
    for d in range(x.ndim):
        if d > axis and x.shape[d] != 1:
            inner = 1
        if d != axis:
            shape[k], xs[k], os[k] = x.shape[d], x.strides[d], out.strides[d]
            k += 1
    shape[k], xs[k], os[k] = x.shape[axis], x.strides[axis], out.strides[axis]
    for d in range(x.ndim - 1, -1, -1):
        rows[d] = acc
        acc *= shape[d]
    p.lay_needed, p.back_needed = inner or not fg_is_contiguous(x), inner
    fg_copy_plan(&p.lay, <int>fg_itemsize(x.dtype), x.ndim, shape, xs, rows, 0, 0)
    fg_copy_plan(&p.back, <int>fg_itemsize(x.dtype), x.ndim, shape, rows, os, 0, 0)


cdef inline void run_copy(const FgCopyPlan *plan, const char *src, char *dst) noexcept nogil:
    cdef FgCopyJob job
    job.plan, job.src, job.dst = plan, src, dst
    parallel_for(plan.units, plan.grain, fg_copy_units, &job)


cdef inline void stage(range_body body, FgSortRow *r, int parts) noexcept nogil:
    """One step over all items of a row, shared out if the row has the threads for itself."""
    if parts > 1:
        parallel_for(r.n, FG_SORT_SEGMENT, body, r)
    else:
        body(r, 0, r.n, 0)


cdef void order(FgSortRow *r, int parts) noexcept nogil:
    """Sort r.a; with parts > 1 as so many ranges of keys, which threads collect and sort."""
    cdef int k
    cdef void *swap
    if parts <= 1:
        fg_sort_range(r, 0, r.n)
        return
    fg_sort_spans(r, parts)
    parallel_for(parts, 1, fg_sort_count, r)
    for k in range(1, parts):
        r.ends[k] += r.ends[k - 1]
    parallel_for(parts, 1, fg_sort_gather, r)
    swap = r.a
    r.a = r.t
    r.t = swap
    parallel_for(parts, 1, fg_sort_ranges, r)


cdef bint spread(FgSortRow *r, int parts) noexcept nogil:
    """One sort of keys with positions by sort_spread.h, and r.perm or all operands after it; False, with the keys made, where it would be slow."""
    r.engine, r.parts = FG_ENGINE_U64, parts
    r.shares = 1 if parts == 1 else FG_SPREAD_SHARES * parts
    if r.first:
        r.order = r.perm
    elif fg_key_wide(r.dtype):                                   # pairs' room, of which this takes half
        r.order = <uint32_t *>r.a + 2 * r.n
    else:
        r.order = <uint32_t *>r.keys
    fg_spread_ranges(r)
    if not r.first:
        stage(fg_sort_keys, r, parts)
    parallel_for(parts, 1, fg_spread_count, r)
    if not fg_spread_places(r):
        return False
    parallel_for(parts, 1, fg_spread_place, r)
    parallel_for(r.shares, 1, fg_spread_sort, r)
    if not r.first and not r.last:
        stage(fg_spread_keep, r, parts)
    return True


cdef void sort_row(FgSortRow *r, int parts) noexcept nogil:
    cdef int k, part
    if fg_sort_by_bytes(r):
        r.parts, r.places = parts, <uint32_t *>r.t
        parallel_for(parts, 1, fg_bytes_count, r)
        fg_bytes_start(r)
        if r.n_ops > 1:
            parallel_for(parts, 1, fg_bytes_place, r)
            stage(fg_sort_apply, r, parts)
        return
    if r.n_ops == 1 and r.dtype != FG_C64 and r.dtype != FG_C128:        # keys alone, and back
        r.packed, r.key, r.part, r.bits, r.odd = 0, r.src[0], 0, fg_key_bits(r.dtype), 0
        r.engine = FG_ENGINE_U64 if fg_key_wide(r.dtype) else FG_ENGINE_U32
        stage(fg_sort_keys, r, parts)
        order(r, parts)
        stage(fg_sort_values, r, parts)
        if r.odd:
            fg_sort_mend(r.dtype, r.src[0], r.dst[0], r.n)
        return
    r.packed, r.first = 1, 1
    for k in range(r.n_keys - 1, -1, -1):
        r.dtype, r.key = r.dtypes[k], r.src[k]
        r.bits = fg_key_bits(r.dtype)
        for part in range(fg_key_parts(r.dtype) - 1, -1, -1):
            r.part, r.last = part, k == 0 and part == 0
            if fg_spreads(r) and spread(r, parts):
                if r.last:
                    return
            else:
                r.engine = FG_ENGINE_PAIR if fg_key_wide(r.dtype) else FG_ENGINE_U64
                stage(fg_sort_keys, r, parts)
                stage(fg_sort_pack, r, parts)
                order(r, parts)
                stage(fg_sort_unpack, r, parts)
            r.first = 0
    stage(fg_sort_apply, r, parts)


cdef void at_row(FgSortRow *r, const FgSortRow *first, int64_t i) noexcept nogil:
    cdef int64_t step
    cdef int k
    for k in range(r.n_ops):
        step = i * r.n * fg_itemsize(r.dtypes[k])
        r.src[k], r.dst[k] = first.src[k] + step, first.dst[k] + step


cdef void sort_rows(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef SortJob *job = <SortJob *>ctx
    cdef FgSortRow r = job.row
    cdef bint lanes = fg_sort_by_lanes(&r, end - begin)
    cdef int64_t i = begin, n = r.n
    cdef char *scratch
    cdef int parts = 1
    if not lanes and job.rows < thread_count() and n >= FG_SORT_BIG and begin == 0 and end == job.rows:
        parts = min(thread_count(), <int>FG_SORT_PARTS)
    scratch = pool_alloc(fg_sort_lanes_scratch(n) if lanes else fg_sort_scratch(job.wide, n) + fg_spread_scratch(n, parts))
    if scratch == NULL:
        job.failed = 1
        return
    if lanes:
        memset(scratch, 0, fg_sort_lanes_scratch(n))             # lanes without a row
        while i < end:
            at_row(&r, &job.row, i)
            fg_sort_lanes(&r, end - i if end - i < FG_SORT_LANES else FG_SORT_LANES, scratch)
            i += FG_SORT_LANES
    else:
        r.cells = <uint32_t *>(scratch + fg_sort_scratch(job.wide, n))
        for i in range(begin, end):
            at_row(&r, &job.row, i)
            fg_sort_layout(&r, scratch, job.wide)
            r.dtype = r.dtypes[0]
            sort_row(&r, parts)
    fg_clear_upper()
    pool_free(scratch)


cdef int sort_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef OperandPlan *plans = <OperandPlan *>inst.extra
    cdef FgTensor *x
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef SortJob job
    cdef char *laid[32]
    cdef char *sorted_[32]
    cdef int i, rc = FG_OK
    if out.size == 0:
        return FG_OK
    job.row.n_ops, job.row.n_keys, job.row.n = inst.n_in, <int32_t>inst.ip[1], out.shape[inst.ip[0]]
    job.row.reverse, job.row.told = 1 if inst.n_ip > 3 and inst.ip[3] else 0, 0
    job.rows, job.wide, job.failed = out.size // job.row.n, 0, 0
    for i in range(inst.n_in):
        laid[i], sorted_[i] = NULL, NULL
    for i in range(inst.n_in):
        x = FG_IN(inst, slots, i)
        out = FG_OUT(inst, slots, i)
        job.row.dtypes[i], job.row.src[i], job.row.dst[i] = x.dtype, x.data, out.data
        if i < inst.ip[1] and fg_key_wide(x.dtype):
            job.wide = 1
        if plans[i].lay_needed:
            laid[i] = pool_alloc(x.size * fg_itemsize(x.dtype))
            job.row.src[i] = laid[i]
            if laid[i] == NULL:
                rc = FG_EMEM
            else:
                run_copy(&plans[i].lay, x.data, laid[i])
        if plans[i].back_needed:
            sorted_[i] = pool_alloc(x.size * fg_itemsize(x.dtype))
            job.row.dst[i] = sorted_[i]
            if sorted_[i] == NULL:
                rc = FG_EMEM
    if rc == FG_OK:
        if job.rows < thread_count() and job.row.n >= FG_SORT_BIG:
            sort_rows(&job, 0, job.rows, 0)
        else:
            parallel_for(job.rows, 1 + 4096 // job.row.n, sort_rows, &job)
        if job.failed:
            rc = FG_EMEM
    for i in range(inst.n_in):
        if rc == FG_OK and plans[i].back_needed:
            run_copy(&plans[i].back, sorted_[i], FG_OUT(inst, slots, i).data)
        pool_free(laid[i])
        pool_free(sorted_[i])
    return rc


# ---- top_k

cdef int top_k_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *values
    cdef const FgTensor *indices
    cdef int d
    cdef int64_t n
    if inst.n_in != 1 or inst.n_out != 2 or inst.n_ip != 1:
        return fg_fail(msg, "top_k: got %d inputs, %d outputs, %d integers; expected 1, 2, 1", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    values = FG_OUT(inst, slots, 0)
    indices = FG_OUT(inst, slots, 1)
    if x.dtype == FG_C64 or x.dtype == FG_C128:
        return fg_fail(msg, "top_k: x is %s; complex numbers have no greatest", fg_dtype_name(x.dtype))
    if x.ndim < 1 or not fg_is_contiguous(x):
        return fg_fail(msg, "top_k: x of shape %s must be contiguous with at least one axis", fg_shape_text(x))
    n = x.shape[x.ndim - 1]
    if inst.ip[0] < 0 or inst.ip[0] > n or n > 0x7fffffff:
        return fg_fail(msg, "top_k: k is %lld, the last axis of shape %s holds %lld (at most 2^31 - 1)", <long long>inst.ip[0],
                       fg_shape_text(x), <long long>n)
    for d in range(x.ndim):
        if values.ndim != x.ndim or values.shape[d] != (inst.ip[0] if d == x.ndim - 1 else x.shape[d]):
            return fg_fail(msg, "top_k: %lld of x%s do not make an output of shape %s", <long long>inst.ip[0], fg_shape_text(x),
                           fg_shape_text(values))
    if values.dtype != x.dtype or indices.dtype != FG_I32 or not fg_same_shape(values, indices):
        return fg_fail(msg, "top_k: x is %s; values are %s%s, indices %s%s", fg_dtype_name(x.dtype), fg_dtype_name(values.dtype),
                       fg_shape_text(values), fg_dtype_name(indices.dtype), fg_shape_text(indices))
    if not fg_is_contiguous(values) or not fg_is_contiguous(indices):
        return fg_fail(msg, "top_k: the outputs of shape %s must be contiguous", fg_shape_text(values))
    return 0


cdef void top_rows(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are rows, or segments of rows whose candidates are joined later."""
    cdef FgTopK *t = <FgTopK *>ctx
    cdef int64_t u, at, item = 16 if fg_key_wide(t.dtype) else 8
    cdef char *buf = pool_alloc(16 * fg_top_room(t.k))
    cdef char *scratch = pool_alloc(fg_top_scratch(t))
    if buf == NULL or scratch == NULL:
        t.failed = 1
    else:
        for u in range(begin, end):
            if t.segments == 1:
                fg_top_scan(t, u, 0, t.n, buf, scratch)
                fg_top_write(t, u, buf)
            else:
                at = u % t.segments * t.seglen
                t.counts[u] = fg_top_scan(t, u // t.segments, at, t.seglen if t.seglen < t.n - at else t.n - at, buf, scratch)
                copy_bytes(t.found + u * t.k * item, buf, t.counts[u] * item)
    pool_free(buf)
    pool_free(scratch)


cdef void top_lanes(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgTopK *t = <FgTopK *>ctx
    cdef int64_t i = begin
    cdef char *scratch = pool_alloc(fg_sort_lanes_scratch(t.n))
    if scratch == NULL:
        t.failed = 1
        return
    memset(scratch, 0, fg_sort_lanes_scratch(t.n))             # lanes without a row
    while i < end:
        fg_top_lanes(t, i, end - i if end - i < FG_SORT_LANES else FG_SORT_LANES, scratch)
        i += FG_SORT_LANES
    pool_free(scratch)


cdef extern from "string.h" nogil:
    void copy_bytes "memcpy"(void *dst, const void *src, size_t n)


cdef int top_k_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTopK t
    cdef int64_t rows, r, size
    cdef char *buf = NULL
    if FG_OUT(inst, slots, 0).size == 0:
        return FG_OK
    t.src, t.values, t.indices = x.data, FG_OUT(inst, slots, 0).data, <int32_t *>FG_OUT(inst, slots, 1).data
    t.n, t.k, t.dtype, t.failed, t.segments, t.seglen = x.shape[x.ndim - 1], inst.ip[0], x.dtype, 0, 1, 0
    t.found, t.counts = NULL, NULL
    rows = x.size // t.n
    if fg_top_by_lanes(&t, rows):
        parallel_for(rows, 1 + 4096 // t.n, top_lanes, &t)
        return FG_EMEM if t.failed else FG_OK
    if rows >= thread_count() or t.n < FG_TOP_BIG or t.k > 8192:
        parallel_for(rows, 1 + 16384 // t.n, top_rows, &t)
        return FG_EMEM if t.failed else FG_OK
    t.seglen = 65536
    t.segments = (t.n + t.seglen - 1) // t.seglen
    size = t.segments * t.k * 16
    t.found = pool_alloc(rows * size)
    t.counts = <int64_t *>pool_alloc(rows * t.segments * sizeof(int64_t))
    buf = pool_alloc(2 * size)
    if t.found == NULL or t.counts == NULL or buf == NULL:
        t.failed = 1
    else:
        parallel_for(rows * t.segments, 1, top_rows, &t)
        if not t.failed:
            for r in range(rows):
                fg_top_join(&t, r, buf, buf + size)
                fg_top_write(&t, r, buf)
    pool_free(t.found)
    pool_free(<char *>t.counts)
    pool_free(buf)
    return FG_EMEM if t.failed else FG_OK


KERNELS = {
    "sort": (<size_t><void *>sort_run, <size_t><void *>sort_check),
    "top_k": (<size_t><void *>top_k_run, <size_t><void *>top_k_check),
}
