"""Running reductions along an axis, and the position of a maximum or minimum.

cumulative  x (strided) -> same shape; ip [kind, axis, reverse]; kind 0 sum, 1 prod, 2 max, 3 min, 4 logsumexp (real floats only).
            16-bit floats accumulate in float32, complex64 in complex128.
argreduce   x (strided) -> int32 or int64 without the axis; ip [is_max, axis, numbers]; the first occurrence; the first NaN if there is one;
            numbers (of float32 and float64): NaN is left out, -1 where there is nothing else.
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc

from fgrad._kernels.abi cimport (FG_EMEM, FG_F32, FG_F64, FG_I32, FG_I64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous,
                                 fg_itemsize, fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "cumulative.h" nogil:
    enum:
        FG_NCUM, FG_TILE, FG_SCAN_BLOCK, FG_SCAN_LONG
    ctypedef struct FgCopyPlan:
        int64_t units, grain
    ctypedef struct FgCopyJob:
        const FgCopyPlan *plan
        const char *src
        char *dst
    ctypedef struct FgCarry:
        pass
    ctypedef struct FgScanOps:
        pass
    ctypedef struct FgAxisPlan:
        FgCopyPlan copy
        int32_t contiguous, reverse
        int64_t outer, n, inner, item
        const FgScanOps *ops
    ctypedef struct FgScanJob:
        const FgAxisPlan *plan
        const char *src
        char *dst
        FgCarry *carries
        int64_t blocks
    const FgScanOps *fg_scan_find(int dtype, int64_t kind)
    void fg_copy_plan(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                      int64_t soff, int64_t doff)
    void fg_copy_units(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_scan_rows(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_scan_totals(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_scan_blocks(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_scan_carries(const FgScanJob *job)
    void fg_scan_tiles(void *ctx, int64_t begin, int64_t end, int tid)

cdef extern from "arg_extremum.h" nogil:
    enum:
        FG_ARG_SEGMENT
    ctypedef struct FgArgOps:
        pass
    ctypedef struct FgArgJob:
        const FgAxisPlan *plan
        const FgArgOps *ops
        const char *src
        char *out
        int64_t *part
        int64_t segments, length
        int32_t wide
    const FgArgOps fg_arg_ops[15][2]
    const FgArgOps fg_arg_numbers[2][2]
    int64_t fg_arg_length(const FgAxisPlan *p)
    int fg_arg_is_narrow(const FgAxisPlan *p)
    void fg_arg_blocks(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_arg_pieces(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_arg_rows(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_arg_segments(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_arg_join(const FgArgJob *job)
    void fg_arg_tiles(void *ctx, int64_t begin, int64_t end, int tid)


cdef FgAxisPlan *make_plan(FgInst *inst, const FgTensor *x, int axis, char *msg) noexcept nogil:
    cdef FgAxisPlan *p = <FgAxisPlan *>calloc(1, sizeof(FgAxisPlan))
    cdef int64_t strides[16]
    cdef int64_t acc = 1
    cdef int d
    if p == NULL:
        fg_fail(msg, "no memory for a plan")
        return NULL
    inst.extra = p
    p.outer, p.n, p.inner, p.item = 1, x.shape[axis], 1, fg_itemsize(x.dtype)
    for d in range(x.ndim - 1, -1, -1):
        strides[d] = acc
        acc *= x.shape[d]
        if d < axis:
            p.outer *= x.shape[d]
        elif d > axis:
            p.inner *= x.shape[d]
    p.contiguous = fg_is_contiguous(x)
    fg_copy_plan(&p.copy, <int>p.item, x.ndim, x.shape, x.strides, strides, 0, 0)
    return p


cdef inline void run_copy(const FgAxisPlan *p, const char *src, char *dst) noexcept nogil:
    cdef FgCopyJob job
    job.plan, job.src, job.dst = &p.copy, src, dst
    parallel_for(p.copy.units, p.copy.grain, fg_copy_units, &job)


cdef int cumulative_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgAxisPlan *p
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip != 3:
        return fg_fail(msg, "cumulative: got %d inputs, %d outputs, %d integers; expected 1, 1, 3", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if inst.ip[0] < 0 or inst.ip[0] >= FG_NCUM:
        return fg_fail(msg, "cumulative: kind %lld is not one of 0 sum, 1 prod, 2 max, 3 min, 4 logsumexp", <long long>inst.ip[0])
    if fg_scan_find(x.dtype, inst.ip[0]) == NULL:
        return fg_fail(msg, "cumulative: kind %lld does not take %s", <long long>inst.ip[0], fg_dtype_name(x.dtype))
    if x.dtype != out.dtype or not fg_same_shape(x, out):
        return fg_fail(msg, "cumulative: x is %s%s, the output %s%s", fg_dtype_name(x.dtype), fg_shape_text(x), fg_dtype_name(out.dtype),
                       fg_shape_text(out))
    if inst.ip[1] < 0 or inst.ip[1] >= x.ndim:
        return fg_fail(msg, "cumulative: axis %lld is out of range for shape %s", <long long>inst.ip[1], fg_shape_text(x))
    if not fg_is_contiguous(out):
        return fg_fail(msg, "cumulative: the output of shape %s must be contiguous", fg_shape_text(out))
    p = make_plan(inst, x, <int>inst.ip[1], msg)
    if p == NULL:
        return -1
    p.reverse = inst.ip[2] != 0
    p.ops = fg_scan_find(x.dtype, inst.ip[0])
    return 0


cdef int cumulative_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgAxisPlan *p = <FgAxisPlan *>inst.extra
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgScanJob job
    cdef int64_t tiles
    if out.size == 0:
        return FG_OK
    job.plan, job.src, job.dst = p, x.data, out.data
    if not p.contiguous:                     # lay it out, then scan in place
        run_copy(p, x.data, out.data)
        job.src = out.data
    if p.inner > 1:
        tiles = (p.inner + FG_TILE - 1) // FG_TILE
        parallel_for(p.outer * tiles, 1 + 32768 // (p.n * (p.inner if p.inner < FG_TILE else FG_TILE)), fg_scan_tiles, &job)
    elif p.n < FG_SCAN_LONG or p.outer >= 8:
        parallel_for(p.outer, 1 + 32768 // p.n, fg_scan_rows, &job)
    else:
        job.blocks = (p.n + FG_SCAN_BLOCK - 1) // FG_SCAN_BLOCK
        job.carries = <FgCarry *>pool_alloc(p.outer * job.blocks * sizeof(FgCarry))
        if job.carries == NULL:
            return FG_EMEM
        parallel_for(p.outer * job.blocks, 2, fg_scan_totals, &job)
        fg_scan_carries(&job)
        parallel_for(p.outer * job.blocks, 2, fg_scan_blocks, &job)
        pool_free(<char *>job.carries)
    return FG_OK


cdef int argreduce_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef int d, fits
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip != 3:
        return fg_fail(msg, "argreduce: got %d inputs, %d outputs, %d integers; expected 1, 1, 3", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if inst.ip[1] < 0 or inst.ip[1] >= x.ndim:
        return fg_fail(msg, "argreduce: axis %lld is out of range for shape %s", <long long>inst.ip[1], fg_shape_text(x))
    if out.dtype != FG_I32 and out.dtype != FG_I64:
        return fg_fail(msg, "argreduce: the output is %s, expected int32 or int64", fg_dtype_name(out.dtype))
    if inst.ip[2] and x.dtype != FG_F32 and x.dtype != FG_F64:
        return fg_fail(msg, "argreduce: numbers of %s, expected float32 or float64", fg_dtype_name(x.dtype))
    fits = out.ndim == x.ndim - 1
    for d in range(out.ndim if fits else 0):
        fits = fits and out.shape[d] == x.shape[d if d < inst.ip[1] else d + 1]
    if not fits:
        return fg_fail(msg, "argreduce: x has shape %s, which without axis %lld is not the output's %s", fg_shape_text(x),
                       <long long>inst.ip[1], fg_shape_text(out))
    if not fg_is_contiguous(out):
        return fg_fail(msg, "argreduce: the output of shape %s must be contiguous", fg_shape_text(out))
    if out.size and x.shape[inst.ip[1]] == 0:
        return fg_fail(msg, "argreduce: axis %lld of shape %s is empty", <long long>inst.ip[1], fg_shape_text(x))
    if x.shape[inst.ip[1]] > 0x7fffffff:
        return fg_fail(msg, "argreduce: axis %lld of shape %s is longer than 2^31 - 1", <long long>inst.ip[1], fg_shape_text(x))
    return -1 if make_plan(inst, x, <int>inst.ip[1], msg) == NULL else 0


cdef int argreduce_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgAxisPlan *p = <FgAxisPlan *>inst.extra
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgArgJob job
    cdef char *scratch = NULL
    cdef int64_t tiles
    cdef bint blocks
    if out.size == 0:
        return FG_OK
    job.plan, job.src, job.out, job.wide = p, x.data, out.data, out.dtype == FG_I64
    job.ops = &fg_arg_numbers[x.dtype == FG_F64][inst.ip[0] != 0] if inst.ip[2] else &fg_arg_ops[x.dtype][inst.ip[0] != 0]
    job.part = NULL
    if not p.contiguous:
        scratch = pool_alloc(x.size * p.item)
        if scratch == NULL:
            return FG_EMEM
        run_copy(p, x.data, scratch)
        job.src = scratch
    blocks = p.inner > 1 and fg_arg_is_narrow(p)
    job.length = FG_ARG_SEGMENT if p.inner == 1 else (0 if blocks else fg_arg_length(p))
    job.segments = (p.n + job.length - 1) // job.length if job.length else 1
    if job.length and (p.inner > 1 or (p.outer < 8 and job.segments > 1)):
        job.part = <int64_t *>pool_alloc(p.outer * job.segments * p.inner * sizeof(int64_t))
        if job.part == NULL:
            pool_free(scratch)
            return FG_EMEM
        parallel_for(p.outer * job.segments, 1 + 65536 // (job.length * p.inner), fg_arg_pieces if p.inner > 1 else fg_arg_segments, &job)
        fg_arg_join(&job)
        pool_free(<char *>job.part)
    elif blocks:
        parallel_for(p.outer, 1 + 65536 // (p.n * p.inner), fg_arg_blocks, &job)
    elif p.inner > 1:
        tiles = (p.inner + FG_TILE - 1) // FG_TILE
        parallel_for(p.outer * tiles, 1 + 65536 // (p.n * (p.inner if p.inner < FG_TILE else FG_TILE)), fg_arg_tiles, &job)
    else:
        parallel_for(p.outer, 1 + 32768 // p.n, fg_arg_rows, &job)
    pool_free(scratch)
    return FG_OK


KERNELS = {
    "cumulative": (<size_t><void *>cumulative_run, <size_t><void *>cumulative_check),
    "argreduce": (<size_t><void *>argreduce_run, <size_t><void *>argreduce_check),
}
