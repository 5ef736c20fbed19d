"""searchsorted: a (sorted, contiguous, 1-D), v (contiguous) -> int32 or int64 positions of v's shape; ip [side_right].

-0.0 == 0.0, NaN is greatest, complex numbers go by real, then by imaginary part.
"""
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from fgrad._kernels.abi cimport FG_EMEM, FG_I32, FG_I64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous, fg_same_shape
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


KERNELS = {
    "searchsorted": (<size_t><void *>searchsorted_run, <size_t><void *>searchsorted_check),
}
