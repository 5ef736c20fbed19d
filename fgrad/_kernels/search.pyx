"""true_positions: booleans (..., n) -> int32 or int64 (..., size), the positions of true in order, then n.

searchsorted: a (sorted, contiguous, 1-D), v (contiguous) -> int32 or int64 positions of v's shape; ip [side_right].

-0.0 == 0.0, NaN is greatest, complex numbers go by real, then by imaginary part.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

from fgrad._kernels.abi cimport (FG_BOOL, FG_EMEM, FG_I32, FG_I64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous,
                                 fg_same_shape)
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "search.h" nogil:
    ctypedef struct FgSearchJob:
        const void *sorted
        const void *queries
        void *out
        int64_t n, cells
        int32_t right, wide
        void *keys
    ctypedef struct FgSearchLoop:
        const FgSearchJob *job
        int32_t dtype
    int64_t fg_grid_bytes(FgSearchJob *j, int dtype, int64_t queries)
    int fg_grid_build(FgSearchJob *j, int dtype, char *space)
    void fg_search_range(void *ctx, int64_t begin, int64_t end, int tid)

cdef extern from "positions.h" nogil:
    enum:
        FG_POSITIONS_CHUNK
    ctypedef struct FgPositions:
        const uint8_t *x
        char *out
        int64_t n, size, chunks
        int64_t *at
        int32_t wide
    void fg_positions_count(void *ctx, int64_t begin, int64_t end, int tid)
    void fg_positions_begin(const FgPositions *p, int64_t rows)
    void fg_positions_write(void *ctx, int64_t begin, int64_t end, int tid)


cdef int searchsorted_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *a
    cdef const FgTensor *v
    cdef const FgTensor *out
    if inst.n_in != 2 or inst.n_out != 1 or inst.n_ip != 1:
        return fg_fail(msg, "searchsorted: got %d inputs, %d outputs, %d integers; expected 2, 1, 1", inst.n_in, inst.n_out, inst.n_ip)
    a = FG_IN(inst, slots, 0)
    v = FG_IN(inst, slots, 1)
    out = FG_OUT(inst, slots, 0)
    if a.dtype != v.dtype:
        return fg_fail(msg, "searchsorted: a is %s, v is %s", fg_dtype_name(a.dtype), fg_dtype_name(v.dtype))
    if a.ndim != 1 or not fg_same_shape(v, out):
        return fg_fail(msg, "searchsorted: a has shape %s (expected one axis), v %s, the output %s", fg_shape_text(a), fg_shape_text(v),
                       fg_shape_text(out))
    if out.dtype != FG_I32 and out.dtype != FG_I64 or (out.dtype == FG_I32 and a.size > 0x7fffffff):
        return fg_fail(msg, "searchsorted: the output is %s; expected int64, or int32 for an a of less than 2^31", fg_dtype_name(out.dtype))
    if not fg_is_contiguous(a) or not fg_is_contiguous(v) or not fg_is_contiguous(out):
        return fg_fail(msg, "searchsorted: a%s, v%s and the output must be contiguous", fg_shape_text(a), fg_shape_text(v))
    return 0


cdef int searchsorted_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *a = FG_IN(inst, slots, 0)
    cdef FgTensor *v = FG_IN(inst, slots, 1)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgSearchJob job
    cdef FgSearchLoop loop
    cdef char *space = NULL
    cdef int64_t room
    job.sorted, job.queries, job.out, job.n, job.keys = a.data, v.data, out.data, a.size, NULL
    job.right, job.wide = inst.ip[0] != 0, out.dtype == FG_I64
    room = fg_grid_bytes(&job, a.dtype, v.size)
    if room:
        space = pool_alloc(room)
        if space == NULL:
            return FG_EMEM
        memset(space, 0, (job.cells + 1) * sizeof(int32_t))
        if not fg_grid_build(&job, a.dtype, space):
            job.keys = NULL
    loop.job, loop.dtype = &job, a.dtype
    parallel_for(v.size, 2048, fg_search_range, &loop)
    pool_free(space)
    return FG_OK


cdef int positions_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef int d
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip != 0:
        return fg_fail(msg, "true_positions: got %d inputs, %d outputs, %d integers; expected 1, 1, 0", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if x.dtype != FG_BOOL or x.ndim < 1 or x.ndim != out.ndim:
        return fg_fail(msg, "true_positions: x is %s%s, the output %s", fg_dtype_name(x.dtype), fg_shape_text(x), fg_shape_text(out))
    for d in range(x.ndim - 1):
        if x.shape[d] != out.shape[d]:
            return fg_fail(msg, "true_positions: x has shape %s, the output %s", fg_shape_text(x), fg_shape_text(out))
    if out.dtype != FG_I32 and out.dtype != FG_I64 or (out.dtype == FG_I32 and x.shape[x.ndim - 1] > 0x7fffffff):
        return fg_fail(msg, "true_positions: the output is %s; expected int64, or int32 for less than 2^31", fg_dtype_name(out.dtype))
    if not fg_is_contiguous(x) or not fg_is_contiguous(out):
        return fg_fail(msg, "true_positions: x%s and the output %s must be contiguous", fg_shape_text(x), fg_shape_text(out))
    return 0


cdef int positions_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *x = FG_IN(inst, slots, 0)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgPositions job
    cdef int64_t rows
    if out.size == 0:
        return FG_OK
    job.x, job.out, job.wide = <const uint8_t *>x.data, out.data, out.dtype == FG_I64
    job.n, job.size = x.shape[x.ndim - 1], out.shape[x.ndim - 1]
    job.chunks = max(1, (job.n + FG_POSITIONS_CHUNK - 1) // FG_POSITIONS_CHUNK)
    rows = out.size // job.size
    job.at = <int64_t *>pool_alloc(rows * job.chunks * sizeof(int64_t))
    if job.at == NULL:
        return FG_EMEM
    if job.chunks > 1:
        parallel_for(rows * job.chunks, 4, fg_positions_count, &job)
        fg_positions_begin(&job, rows)
    else:
        memset(job.at, 0, rows * sizeof(int64_t))
    parallel_for(rows * job.chunks, 1 + FG_POSITIONS_CHUNK // (job.n + job.size + 1), fg_positions_write, &job)
    pool_free(<char *>job.at)
    return FG_OK


KERNELS = {
    "true_positions": (<size_t><void *>positions_run, <size_t><void *>positions_check),
    "searchsorted": (<size_t><void *>searchsorted_run, <size_t><void *>searchsorted_check),
}
