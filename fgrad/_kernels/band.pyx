"""band: weighted sums of a few neighbours along one axis.

x and out are contiguous, float32 or float64; ip is [axis, of each element along out's axis the first neighbour, of each how many there are],
fp the weights of each, one after the other. Elements without neighbours are zero.
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_F32, FG_F64, FG_IN, FG_OK, FG_OUT, FgInst, FgTensor, fg_is_contiguous, fg_itemsize
from fgrad._kernels.parallel cimport parallel_grains

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "band.h" nogil:
    enum:
        FG_BAND_BYTES
    ctypedef struct FgBandPlan:
        int64_t n, m, outer, inner
    ctypedef struct FgBandJob:
        const FgBandPlan *plan
        const char *src
        char *dst
    FgBandPlan *fg_band_plan(int is_double, int64_t n, int64_t m, const int64_t *first, const int64_t *counts, const double *fp, int64_t n_fp)
    void fg_band_units(void *ctx, int64_t begin, int64_t end, int tid)


cdef int band_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef FgBandPlan *plan
    cdef int64_t axis, j, n, m, total = 0
    cdef int d
    if inst.n_in != 1 or inst.n_out != 1 or inst.n_ip < 1:
        return fg_fail(msg, "band: got %d inputs, %d outputs, %d integers; expected 1, 1, at least 1", inst.n_in, inst.n_out, inst.n_ip)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    axis = inst.ip[0]
    if x.dtype != out.dtype or x.dtype not in (FG_F32, FG_F64):
        return fg_fail(msg, "band: x is %s and the output %s; float32 or float64 expected", fg_dtype_name(x.dtype), fg_dtype_name(out.dtype))
    if x.ndim != out.ndim or axis < 0 or axis >= x.ndim or not fg_is_contiguous(x) or not fg_is_contiguous(out):
        return fg_fail(msg, "band: x has shape %s, the output %s; contiguous, with an axis %lld, expected", fg_shape_text(x), fg_shape_text(out),
                       <long long>axis)
    for d in range(x.ndim):
        if d != axis and x.shape[d] != out.shape[d]:
            return fg_fail(msg, "band: x has shape %s, the output %s; they may differ on axis %lld", fg_shape_text(x), fg_shape_text(out),
                           <long long>axis)
    n, m = x.shape[axis], out.shape[axis]
    if inst.n_ip != 1 + 2 * m:
        return fg_fail(msg, "band: got %d integers; expected %lld", inst.n_ip, <long long>(1 + 2 * m))
    for j in range(m):
        if inst.ip[1 + j] < 0 or inst.ip[1 + m + j] < 0 or inst.ip[1 + m + j] > n or inst.ip[1 + j] > n - inst.ip[1 + m + j]:
            return fg_fail(msg, "band: %lld neighbours from %lld on are not within x, %s", <long long>inst.ip[1 + m + j],
                           <long long>inst.ip[1 + j], fg_shape_text(x))
        total += inst.ip[1 + m + j]
    if inst.n_fp != total:
        return fg_fail(msg, "band: got %d weights; expected %lld", inst.n_fp, <long long>total)
    if out.size == 0:
        return 0
    plan = fg_band_plan(x.dtype == FG_F64, n, m, inst.ip + 1, inst.ip + 1 + m, inst.fp, total)
    inst.extra = plan
    if plan == NULL:
        return fg_fail(msg, "band: no memory for its plan")
    plan.outer, plan.inner = 1, 1
    for d in range(x.ndim):
        if d < axis:
            plan.outer *= x.shape[d]
        elif d > axis:
            plan.inner *= x.shape[d]
    return 0


cdef int band_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgBandJob job
    cdef const FgBandPlan *p = <const FgBandPlan *>inst.extra
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    if out.size == 0:
        return FG_OK
    job.plan, job.src, job.dst = p, FG_IN(inst, slots, 0).data, out.data
    parallel_grains(p.outer * p.m, 1 + FG_BAND_BYTES // (p.inner * fg_itemsize(out.dtype)), fg_band_units, &job)
    return FG_OK


KERNELS = {"band": (<size_t><void *>band_run, <size_t><void *>band_check)}
