"""softmax, log_softmax and logsumexp along one axis of a contiguous tensor, with their linear maps.

softmax:               in x, ip [axis]          out y = exp(x - max) / sum(exp(x - max))
softmax_tangent:       in y, t, ip [axis]       out y * (t - sum(y * t)); symmetric, so its own transpose
log_softmax:           in x, ip [axis]          out x - logsumexp(x)
log_softmax_tangent:   in y, t, ip [axis]       out t - sum(exp(y) * t), where y is the output of log_softmax
log_softmax_cotangent: in y, ct, ip [axis]      out ct - exp(y) * sum(ct)
logsumexp:             in x, ip [axis]          out of x's shape without the axis
softmax_logsumexp:     in x, ip [axis]          out softmax and logsumexp
"""
from fgrad._kernels.abi cimport FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_for, range_body
from fgrad._kernels.row_check cimport FgRows, row_axis, row_counts, row_dense, row_like, row_operand, row_plan, row_reduced

cdef extern from *:
    """
    #define ROWS "softmax.h"
    #include "row_types.h"
    """

cdef extern from * nogil:
    range_body softmax_f32, softmax_f64, softmax_tangent_f32, softmax_tangent_f64, log_softmax_f32, log_softmax_f64
    range_body log_softmax_tangent_f32, log_softmax_tangent_f64, log_softmax_cotangent_f32, log_softmax_cotangent_f64
    range_body logsumexp_f32, logsumexp_f64


cdef inline int run(const FgInst *inst, FgTensor *slots, range_body f32, range_body f64) noexcept nogil:
    cdef FgRows c
    row_plan(&c, inst, slots, inst.ip[0])
    parallel_for(c.units, c.grain, f32 if row_operand(inst, slots, 0).dtype == FG_F32 else f64, &c)
    return FG_OK


cdef int run_softmax(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, softmax_f32, softmax_f64)


cdef int run_softmax_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, softmax_tangent_f32, softmax_tangent_f64)


cdef int run_log_softmax(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_f32, log_softmax_f64)


cdef int run_log_softmax_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_tangent_f32, log_softmax_tangent_f64)


cdef int run_log_softmax_cotangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_cotangent_f32, log_softmax_cotangent_f64)


cdef int run_logsumexp(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, logsumexp_f32, logsumexp_f64)


cdef int check_rows(FgInst *inst, const FgTensor *slots, const char *name, int n_in, bint reduces, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, name, n_in, 1, 1, 0, msg) or row_axis(inst, slots, name, inst.ip[0], msg):
        return -1
    if row_dense(inst, slots, name, 0, -1, msg):
        return -1
    for k in range(1, n_in):
        if row_like(inst, slots, name, k, msg):
            return -1
    if reduces:
        return row_reduced(inst, slots, name, n_in, row_operand(inst, slots, 0).dtype, inst.ip[0], msg)
    return row_like(inst, slots, name, n_in, msg)


cdef int check_softmax(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "softmax", 1, False, msg)


cdef int check_softmax_tangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "softmax_tangent", 2, False, msg)


cdef int check_log_softmax(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "log_softmax", 1, False, msg)


cdef int check_log_softmax_tangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "log_softmax_tangent", 2, False, msg)


cdef int check_log_softmax_cotangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "log_softmax_cotangent", 2, False, msg)


cdef int check_logsumexp(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_rows(inst, slots, "logsumexp", 1, True, msg)


cdef int check_softmax_logsumexp(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    if row_counts(inst, "softmax_logsumexp", 1, 2, 1, 0, msg) or row_axis(inst, slots, "softmax_logsumexp", inst.ip[0], msg):
        return -1
    if row_dense(inst, slots, "softmax_logsumexp", 0, -1, msg) or row_like(inst, slots, "softmax_logsumexp", 1, msg):
        return -1
    return row_reduced(inst, slots, "softmax_logsumexp", 2, row_operand(inst, slots, 0).dtype, inst.ip[0], msg)


KERNELS = {
    "softmax_logsumexp": (<size_t><void *>run_softmax, <size_t><void *>check_softmax_logsumexp),
    "softmax": (<size_t><void *>run_softmax, <size_t><void *>check_softmax),
    "softmax_tangent": (<size_t><void *>run_softmax_tangent, <size_t><void *>check_softmax_tangent),
    "log_softmax": (<size_t><void *>run_log_softmax, <size_t><void *>check_log_softmax),
    "log_softmax_tangent": (<size_t><void *>run_log_softmax_tangent, <size_t><void *>check_log_softmax_tangent),
    "log_softmax_cotangent": (<size_t><void *>run_log_softmax_cotangent, <size_t><void *>check_log_softmax_cotangent),
    "logsumexp": (<size_t><void *>run_logsumexp, <size_t><void *>check_logsumexp),
}
