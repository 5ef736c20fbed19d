"""ranked: x (contiguous, of n elements in the last axis), ranks (contiguous int32, of the same other axes) -> the elements of those ranks in
the order of sort, and, if there is a second output, their int32 positions. Ranks outside of 0 .. n - 1 are the nearest of these."""
from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FG_C64, FG_C128, FG_EMEM, FG_I32, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous, fg_same_shape
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "ranked.h" nogil:
    ctypedef struct FgRanked:
        const char *src
        const int32_t *ranks
        char *values
        int32_t *positions
        int64_t n, k
        int32_t dtype, failed
    int64_t fg_ranked_scratch(const FgRanked *j)
    void fg_ranked_row(const FgRanked *j, int64_t row, char *scratch)


cdef int ranked_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *ranks
    cdef const FgTensor *out
    cdef int d, k
    if inst.n_in != 2 or inst.n_out < 1 or inst.n_out > 2 or inst.n_ip != 0:
        return fg_fail(msg, "ranked: got %d inputs, %d outputs, %d integers; expected 2, 1 or 2, 0", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    ranks = FG_IN(inst, slots, 1)
    if x.dtype == FG_C64 or x.dtype == FG_C128 or ranks.dtype != FG_I32:
        return fg_fail(msg, "ranked: x is %s and ranks are %s; expected real numbers and int32", fg_dtype_name(x.dtype),
                       fg_dtype_name(ranks.dtype))
    if x.ndim < 1 or ranks.ndim != x.ndim or not fg_is_contiguous(x) or not fg_is_contiguous(ranks):
        return fg_fail(msg, "ranked: x%s and ranks%s must be contiguous, with as many axes, at least one", fg_shape_text(x), fg_shape_text(ranks))
    for d in range(x.ndim - 1):
        if ranks.shape[d] != x.shape[d]:
            return fg_fail(msg, "ranked: x%s and ranks%s may differ in the last axis only", fg_shape_text(x), fg_shape_text(ranks))
    if x.shape[x.ndim - 1] > 0x7fffffff or (x.shape[x.ndim - 1] == 0 and ranks.size > 0):
        return fg_fail(msg, "ranked: rows of %lld elements; expected 1 to 2^31 - 1", <long long>x.shape[x.ndim - 1])
    for k in range(inst.n_out):
        out = FG_OUT(inst, slots, k)
        if out.dtype != (FG_I32 if k else x.dtype) or not fg_same_shape(out, ranks) or not fg_is_contiguous(out):
            return fg_fail(msg, "ranked: output %d is %s%s; expected %s of the shape of ranks, contiguous", k, fg_dtype_name(out.dtype),
                           fg_shape_text(out), fg_dtype_name(FG_I32 if k else x.dtype))
    return 0


cdef void ranked_rows(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef FgRanked *j = <FgRanked *>ctx
    cdef int64_t row
    cdef char *scratch = pool_alloc(fg_ranked_scratch(j))
    if scratch == NULL:
        j.failed = 1
        return
    for row in range(begin, end):
        fg_ranked_row(j, row, scratch)
    pool_free(scratch)


cdef int ranked_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef const FgTensor *x = FG_IN(inst, slots, 0)
    cdef const FgTensor *ranks = FG_IN(inst, slots, 1)
    cdef FgRanked j
    if ranks.size == 0:
        return FG_OK
    j.src, j.ranks, j.values = x.data, <const int32_t *>ranks.data, FG_OUT(inst, slots, 0).data
    j.positions = <int32_t *>FG_OUT(inst, slots, 1).data if inst.n_out > 1 else NULL
    j.n, j.k, j.dtype, j.failed = x.shape[x.ndim - 1], ranks.shape[ranks.ndim - 1], x.dtype, 0
    parallel_for(x.size // j.n, 1 + 8192 // j.n, ranked_rows, &j)
    return FG_EMEM if j.failed else FG_OK


KERNELS = {"ranked": (<size_t><void *>ranked_run, <size_t><void *>ranked_check)}
