"""Softmax cross-entropy of (rows, V) logits against integer labels (rows), one pass over the logits.

cross_entropy:           in logits, labels            out loss = logsumexp(logits) - logits[label], and lse = logsumexp(logits)
cross_entropy_cotangent: in logits, lse, labels, ct   out ct * (exp(logits - lse) - onehot(label))
cross_entropy_tangent:   in logits, lse, labels, t    out sum(exp(logits - lse) * t) - t[label]
max_expsum:              in logits                    out m = max(logits), and sum(exp(logits - m))
exp_cotangent:           in logits, shift, ct         out ct * exp(logits - shift)
                         and maybe labels, more       the same + onehot(label) * more

Labels are int32 or int64; a label outside [0, V) ignores its row: loss, tangent and cotangent are 0 there. The last two are what
losses written out are made of: there only `more` goes unused.
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_F32, FG_I32, FG_I64, FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_grains, range_body
from fgrad._kernels.row_check cimport (FgRows, fg_fail, row_counts, row_dense, row_like, row_operand, row_plan, row_reduced,
                                       row_text)

cdef extern from *:
    """
    #define ROWS "loss.h"
    #include "row_types.h"
    """

cdef extern from * nogil:
    range_body cross_entropy_f32, cross_entropy_f64, cross_entropy_cotangent_f32, cross_entropy_cotangent_f64
    range_body cross_entropy_tangent_f32, cross_entropy_tangent_f64, max_expsum_f32, max_expsum_f64, exp_cotangent_f32, exp_cotangent_f64


cdef inline int run(const FgInst *inst, FgTensor *slots, int labels, range_body f32, range_body f64) noexcept nogil:
    cdef FgRows c
    row_plan(&c, inst, slots, 1)
    c.label64 = labels < inst.n_in and row_operand(inst, slots, labels).dtype == FG_I64
    parallel_grains(c.units, c.grain, f32 if row_operand(inst, slots, 0).dtype == FG_F32 else f64, &c)
    return FG_OK


cdef int run_cross_entropy(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, 1, cross_entropy_f32, cross_entropy_f64)


cdef int run_cross_entropy_cotangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, 2, cross_entropy_cotangent_f32, cross_entropy_cotangent_f64)


cdef int run_cross_entropy_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, 2, cross_entropy_tangent_f32, cross_entropy_tangent_f64)


cdef int run_max_expsum(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, 1, max_expsum_f32, max_expsum_f64)


cdef int run_exp_cotangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, 3, exp_cotangent_f32, exp_cotangent_f64)


cdef int check_logits(FgInst *inst, const FgTensor *slots, const char *name, int n_in, int n_out, int labels, char *msg) noexcept nogil:
    cdef const FgTensor *t
    if row_counts(inst, name, n_in, n_out, 0, 0, msg) or row_dense(inst, slots, name, 0, -1, msg):
        return -1
    t = row_operand(inst, slots, 0)
    if t.ndim != 2:
        return fg_fail(msg, "%s: logits are %s; two axes (rows, classes) expected", name, row_text(t))
    if labels >= n_in:
        return 0
    t = row_operand(inst, slots, labels)
    if t.dtype != FG_I32 and t.dtype != FG_I64:
        return fg_fail(msg, "%s: labels are %s; int32 or int64 expected", name, row_text(t))
    return row_reduced(inst, slots, name, labels, t.dtype, 1, msg)


cdef int check_cross_entropy(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    if check_logits(inst, slots, "cross_entropy", 2, 2, 1, msg):
        return -1
    if row_reduced(inst, slots, "cross_entropy", 2, row_operand(inst, slots, 0).dtype, 1, msg):
        return -1
    return row_reduced(inst, slots, "cross_entropy", 3, row_operand(inst, slots, 0).dtype, 1, msg)


cdef int check_cross_entropy_cotangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    if check_logits(inst, slots, "cross_entropy_cotangent", 4, 1, 2, msg):
        return -1
    if row_reduced(inst, slots, "cross_entropy_cotangent", 1, row_operand(inst, slots, 0).dtype, 1, msg):
        return -1
    if row_reduced(inst, slots, "cross_entropy_cotangent", 3, row_operand(inst, slots, 0).dtype, 1, msg):
        return -1
    return row_like(inst, slots, "cross_entropy_cotangent", 4, msg)


cdef int check_cross_entropy_tangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    if check_logits(inst, slots, "cross_entropy_tangent", 4, 1, 2, msg):
        return -1
    if row_reduced(inst, slots, "cross_entropy_tangent", 1, row_operand(inst, slots, 0).dtype, 1, msg):
        return -1
    if row_like(inst, slots, "cross_entropy_tangent", 3, msg):
        return -1
    return row_reduced(inst, slots, "cross_entropy_tangent", 4, row_operand(inst, slots, 0).dtype, 1, msg)


cdef int check_max_expsum(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    if check_logits(inst, slots, "max_expsum", 1, 2, 1, msg) or row_reduced(inst, slots, "max_expsum", 1, row_operand(inst, slots, 0).dtype, 1, msg):
        return -1
    return row_reduced(inst, slots, "max_expsum", 2, row_operand(inst, slots, 0).dtype, 1, msg)


cdef int check_exp_cotangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int n_in = 5 if inst.n_in == 5 else 3, k
    if check_logits(inst, slots, "exp_cotangent", n_in, 1, 3, msg):
        return -1
    for k in range(1, n_in):
        if k != 3 and row_reduced(inst, slots, "exp_cotangent", k, row_operand(inst, slots, 0).dtype, 1, msg):
            return -1
    return row_like(inst, slots, "exp_cotangent", n_in, msg)


KERNELS = {
    "cross_entropy": (<size_t><void *>run_cross_entropy, <size_t><void *>check_cross_entropy),
    "cross_entropy_cotangent": (<size_t><void *>run_cross_entropy_cotangent, <size_t><void *>check_cross_entropy_cotangent),
    "cross_entropy_tangent": (<size_t><void *>run_cross_entropy_tangent, <size_t><void *>check_cross_entropy_tangent),
    "max_expsum": (<size_t><void *>run_max_expsum, <size_t><void *>check_max_expsum),
    "exp_cotangent": (<size_t><void *>run_exp_cotangent, <size_t><void *>check_exp_cotangent),
}
