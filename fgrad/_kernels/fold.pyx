"""fold: sums of an array's margins into what they surround, the transpose of padding by an array's own elements.

x and out are contiguous, of one dtype of 4 bytes or more; ip is, of each axis, [the width of the margin before, that of the one behind, the
index in out on which each element of either falls].
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport (FG_C64, FG_C128, FG_F32, FG_F64, FG_I32, FG_I64, FG_IN, FG_OK, FG_OUT, FG_U32, FG_U64, FgInst,
                                 FgTensor, fg_is_contiguous, fg_itemsize)
from fgrad._kernels.parallel cimport parallel_grains

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)
    const char *fg_dtype_name(int d)
    const char *fg_shape_text(const FgTensor *t)

cdef extern from "fold.h" nogil:
    enum:
        FG_FOLD_BYTES
    ctypedef struct FgFoldPlan:
        int64_t rows, n, inner, chunk, chunks
        int dtype
    ctypedef struct FgFoldJob:
        const FgFoldPlan *plan
        const char *src
        char *dst
    FgFoldPlan *fg_fold_plan(int nd, const int64_t *shape, int dtype, const int64_t *ip)
    void fg_fold_units(void *ctx, int64_t begin, int64_t end, int tid)


cdef int fold_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *out
    cdef int64_t lo, hi, at = 0, k
    cdef int d
    if inst.n_in != 1 or inst.n_out != 1:
        return fg_fail(msg, "fold: got %d inputs, %d outputs; expected 1, 1", inst.n_in, inst.n_out)
    x = FG_IN(inst, slots, 0)
    out = FG_OUT(inst, slots, 0)
    if x.dtype != out.dtype or x.dtype not in (FG_F32, FG_F64, FG_C64, FG_C128, FG_I32, FG_I64, FG_U32, FG_U64):
        return fg_fail(msg, "fold: x is %s and the output %s; one dtype of 4 bytes or more expected", fg_dtype_name(x.dtype),
                       fg_dtype_name(out.dtype))
    if x.ndim != out.ndim or not fg_is_contiguous(x) or not fg_is_contiguous(out):
        return fg_fail(msg, "fold: x has shape %s, the output %s; as many axes, contiguous, expected", fg_shape_text(x), fg_shape_text(out))
    for d in range(out.ndim):
        if inst.n_ip - at < 2:
            return fg_fail(msg, "fold: %d integers are too few", inst.n_ip)
        lo, hi = inst.ip[at], inst.ip[at + 1]
        at += 2
        if lo < 0 or hi < 0 or lo > x.shape[d] or hi > x.shape[d] or x.shape[d] != lo + out.shape[d] + hi or inst.n_ip - at < lo + hi:
            return fg_fail(msg, "fold: margins of %lld and %lld on axis %d of x, %s, do not fit the output, %s", <long long>lo, <long long>hi,
                           d, fg_shape_text(x), fg_shape_text(out))
        for k in range(lo + hi):
            if inst.ip[at + k] < 0 or inst.ip[at + k] >= out.shape[d]:
                return fg_fail(msg, "fold: index %lld is out of range for axis %d of the output, %s", <long long>inst.ip[at + k], d,
                               fg_shape_text(out))
        at += lo + hi
    if at != inst.n_ip:
        return fg_fail(msg, "fold: got %d integers; expected %lld", inst.n_ip, <long long>at)
    if out.size:
        inst.extra = fg_fold_plan(out.ndim, out.shape, out.dtype, inst.ip)
        if inst.extra == NULL:
            return fg_fail(msg, "fold: no memory for its plan")
    return 0


cdef int fold_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgFoldJob job
    cdef const FgFoldPlan *p = <const FgFoldPlan *>inst.extra
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    if out.size == 0:
        return FG_OK
    job.plan, job.src, job.dst = p, FG_IN(inst, slots, 0).data, out.data
    parallel_grains(p.rows * p.chunks, 1 + FG_FOLD_BYTES // (p.chunk * p.inner * fg_itemsize(p.dtype)), fg_fold_units, &job)
    return FG_OK


KERNELS = {"fold": (<size_t><void *>fold_run, <size_t><void *>fold_check)}
