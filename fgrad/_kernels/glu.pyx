"""The SwiGLU gate (Shazeer, GLU variants improve transformer, 2020) on contiguous tensors of one shape.

swiglu:           in g, u       out silu(g) * u, silu(g) = g * sigmoid(g)
swiglu_cotangent: in g, u, ct   out dg = ct * u * (s + g * s * (1 - s)) with s = sigmoid(g), and du = ct * silu(g)
"""
from fgrad._kernels.abi cimport FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_for, range_body
from fgrad._kernels.row_check cimport FG_ROW_WORK, FgRows, row_counts, row_dense, row_like, row_operand

cdef extern from *:
    """
    #define ROWS "glu.h"
    #include "row_types.h"
    """

cdef extern from * nogil:
    range_body swiglu_f32, swiglu_f64, swiglu_cotangent_f32, swiglu_cotangent_f64


cdef inline int run(const FgInst *inst, FgTensor *slots, range_body f32, range_body f64) noexcept nogil:
    cdef FgRows c
    cdef int k
    for k in range(inst.n_in):
        c.in_[k] = row_operand(inst, slots, k).data
    for k in range(inst.n_out):
        c.out[k] = row_operand(inst, slots, inst.n_in + k).data
    parallel_for(row_operand(inst, slots, 0).size, FG_ROW_WORK, f32 if row_operand(inst, slots, 0).dtype == FG_F32 else f64, &c)
    return FG_OK


cdef int run_swiglu(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, swiglu_f32, swiglu_f64)


cdef int run_swiglu_cotangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, swiglu_cotangent_f32, swiglu_cotangent_f64)


cdef int check_all(FgInst *inst, const FgTensor *slots, const char *name, int n_in, int n_out, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, name, n_in, n_out, 0, 0, msg) or row_dense(inst, slots, name, 0, -1, msg):
        return -1
    for k in range(1, n_in + n_out):
        if row_like(inst, slots, name, k, msg):
            return -1
    return 0


cdef int check_swiglu(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_all(inst, slots, "swiglu", 2, 1, msg)


cdef int check_swiglu_cotangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_all(inst, slots, "swiglu_cotangent", 3, 2, msg)


KERNELS = {
    "swiglu": (<size_t><void *>run_swiglu, <size_t><void *>check_swiglu),
    "swiglu_cotangent": (<size_t><void *>run_swiglu_cotangent, <size_t><void *>check_swiglu_cotangent),
}
