"""A fused AdamW step (Loshchilov and Hutter, Decoupled weight decay regularization, 2019): one pass over memory.

adamw: in p, g, m, v (one shape, contiguous), then the scalars lr, b1c, b2c, gs (one element each, of p's dtype);
       fp [b1, b2, eps, weight_decay, decoupled]; out p', m', v', which may be the memory of p, m and v.

With d = gs * g, plus weight_decay * p when not decoupled (L2 regularisation):
m' = b1 * m + (1 - b1) * d,  v' = b2 * v + (1 - b2) * d^2,
p' = p - lr * ((m' / b1c) / (sqrt(v' / b2c) + eps) + weight_decay * p when decoupled).
b1c and b2c are the bias corrections 1 - b1^t and 1 - b2^t; gs scales the gradient (clipping by a global norm).
"""
from fgrad._kernels.abi cimport FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_for, range_body
from fgrad._kernels.row_check cimport FG_ROW_WORK, fg_fail, row_counts, row_dense, row_like, row_operand, row_text

cdef extern from *:
    """
    #include <math.h>
    typedef struct {
        const void *in[8];
        void *out[3];
        double b1, b2, eps, decay;
        int decoupled;
    } AdamPlan;
    #define root_f32 sqrtf
    #define root_f64 sqrt
    #define ROWS "optimizer.h"
    #include "row_types.h"
    """
    ctypedef struct AdamPlan:
        const void *in_ "in"[8]
        void *out[3]
        double b1, b2, eps, decay
        bint decoupled

cdef extern from * nogil:
    range_body adamw_f32, adamw_f64


cdef int run_adamw(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef AdamPlan c
    cdef int k
    for k in range(8):
        c.in_[k] = row_operand(inst, slots, k).data
    for k in range(3):
        c.out[k] = row_operand(inst, slots, 8 + k).data
    c.b1, c.b2, c.eps, c.decay, c.decoupled = inst.fp[0], inst.fp[1], inst.fp[2], inst.fp[3], inst.fp[4] != 0
    parallel_for(row_operand(inst, slots, 0).size, FG_ROW_WORK, adamw_f32 if row_operand(inst, slots, 0).dtype == FG_F32 else adamw_f64, &c)
    return FG_OK


cdef int check_adamw(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, "adamw", 8, 3, 0, 5, msg) or row_dense(inst, slots, "adamw", 0, -1, msg):
        return -1
    for k in range(1, 11):
        if 4 <= k < 8:
            if row_dense(inst, slots, "adamw", k, row_operand(inst, slots, 0).dtype, msg):
                return -1
            if row_operand(inst, slots, k).size != 1:
                return fg_fail(msg, "adamw: operand %d is %s; one element expected", k, row_text(row_operand(inst, slots, k)))
        elif row_like(inst, slots, "adamw", k, msg):
            return -1
    if not (0 <= inst.fp[0] < 1 and 0 <= inst.fp[1] < 1 and inst.fp[2] >= 0):
        return fg_fail(msg, "adamw: b1 and b2 must be in [0, 1) and eps 0 or more; got %g, %g and %g", inst.fp[0], inst.fp[1], inst.fp[2])
    return 0


KERNELS = {"adamw": (<size_t><void *>run_adamw, <size_t><void *>check_adamw)}
