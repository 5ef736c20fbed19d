"""true_positions: booleans (..., n) -> int32 or int64 (..., size), the positions of true in order, then n.

searchsorted: a (..., n) with sorted rows, v (..., *q), both contiguous -> int32 or int64 positions of v's shape, each in its row; ip [side_right].

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
        FgSearchJob job
        int64_t queries
        int32_t dtype
    int64_t FG_SEARCH_GRAIN
    int64_t fg_grid_bytes(FgSearchJob *j, int dtype, int64_t queries)
    int fg_grid_build(FgSearchJob *j, int dtype, char *space)
    FgSearchLoop fg_search_row(const FgSearchLoop *s, int64_t row)
    void fg_search_rows(void *ctx, int64_t begin, int64_t end, int tid)
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
    cdef bint same
    cdef int d
    if inst.n_in != 2 or inst.n_out != 1 or inst.n_ip != 1:
        return fg_fail(msg, "searchsorted: got %d inputs, %d outputs, %d integers; expected 2, 1, 1", inst.n_in, inst.n_out, inst.n_ip)
    a = FG_IN(inst, slots, 0)
    v = FG_IN(inst, slots, 1)
    out = FG_OUT(inst, slots, 0)
    if a.dtype != v.dtype:
        return fg_fail(msg, "searchsorted: a is %s, v is %s", fg_dtype_name(a.dtype), fg_dtype_name(v.dtype))
    same = a.ndim >= 1 and v.ndim >= a.ndim - 1 and fg_same_shape(v, out)
    for d in range(a.ndim - 1):
        same = same and a.shape[d] == v.shape[d]
    if not same:
        return fg_fail(msg, "searchsorted: a has shape %s, v %s, the output %s; expected (..., n), (..., *q) and v's", fg_shape_text(a),
                       fg_shape_text(v), fg_shape_text(out))
    if out.dtype != FG_I32 and out.dtype != FG_I64 or (out.dtype == FG_I32 and a.size > 0x7fffffff):
        return fg_fail(msg, "searchsorted: the output is %s; expected int64, or int32 for an a of less than 2^31", fg_dtype_name(out.dtype))
    if not fg_is_contiguous(a) or not fg_is_contiguous(v) or not fg_is_contiguous(out):
        return fg_fail(msg, "searchsorted: a%s, v%s and the output must be contiguous", fg_shape_text(a), fg_shape_text(v))
    return 0


cdef int searchsorted_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgTensor *a = FG_IN(inst, slots, 0)
    cdef FgTensor *v = FG_IN(inst, slots, 1)
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef FgSearchLoop all, one
    cdef char *space = NULL
    cdef int64_t d, rows = 1, room
    if v.size == 0:
        return FG_OK
    for d in range(a.ndim - 1):
        rows *= a.shape[d]
    all.job.sorted, all.job.queries, all.job.out, all.job.n, all.job.keys = a.data, v.data, out.data, a.shape[a.ndim - 1], NULL
    all.job.right, all.job.wide, all.queries, all.dtype = inst.ip[0] != 0, out.dtype == FG_I64, v.size // rows, a.dtype
    if rows > 1 and all.queries < FG_SEARCH_GRAIN:  # threads share rows, else queries
        parallel_for(rows, max(1, FG_SEARCH_GRAIN // all.queries), fg_search_rows, &all)
        return FG_OK
    room = fg_grid_bytes(&all.job, a.dtype, all.queries)
    if room:
        space = pool_alloc(room)
        if space == NULL:
            return FG_EMEM
    for d in range(rows):
        one = fg_search_row(&all, d)
        if room:
            memset(space, 0, (one.job.cells + 1) * sizeof(int32_t))
            if not fg_grid_build(&one.job, a.dtype, space):
                one.job.keys = NULL
        parallel_for(one.queries, FG_SEARCH_GRAIN, fg_search_range, &one)
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
