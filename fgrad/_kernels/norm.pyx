"""rms_norm and layer_norm over the last axis of a contiguous tensor, with their linear maps (both symmetric).

rms_norm:           in x, fp [eps]   out y = x * r and r = 1 / sqrt(mean(x^2) + eps), of x's shape without its last axis
rms_norm_tangent:   in x, r, t       out r * (t - x * r^2 * mean(x * t))
layer_norm:         in x, fp [eps]   out y = (x - mean) * r and r = 1 / sqrt(var + eps), var the mean squared deviation
layer_norm_tangent: in y, r, t       out r * (t - mean(t) - y * mean(y * t)), where y is the output of layer_norm
Either norm may read rows w, or w and b, after x, spread over x's shape with strides of 0: y times w, plus b.

moments, over any axis:
moments:            in x, ip [axis]  out the mean, and the sum of squared deviations from it, of x's shape without the axis
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_EMEM, FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, parallel_grains, range_body
from fgrad._kernels.row_check cimport (
    FG_ROW_WORK, FgRows, fg_fail, row_axis, row_counts, row_dense, row_like, row_operand, row_plan, row_reduced, row_repeated
)

cdef extern from *:
    """
    #define ROWS "norm.h"
    #include "row_types.h"
    """

cdef extern from * nogil:
    range_body rms_norm_f32, rms_norm_f64, rms_norm_tangent_f32, rms_norm_tangent_f64
    range_body layer_norm_f32, layer_norm_f64, layer_norm_tangent_f32, layer_norm_tangent_f64, moments_f32, moments_f64
    range_body moments_part_f32, moments_part_f64, moments_join_f32, moments_join_f64
    ctypedef struct FgMomentsParts:
        FgRows rows
        int64_t parts, part, lanes
        double *state
    int fg_moments_parts(FgMomentsParts *c)


cdef inline int run(const FgInst *inst, FgTensor *slots, range_body f32, range_body f64) noexcept nogil:
    cdef FgRows c
    row_plan(&c, inst, slots, row_operand(inst, slots, 0).ndim - 1)
    parallel_grains(c.units, c.grain, f32 if row_operand(inst, slots, 0).dtype == FG_F32 else f64, &c)
    return FG_OK


cdef int run_rms_norm(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, rms_norm_f32, rms_norm_f64)


cdef int run_rms_norm_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, rms_norm_tangent_f32, rms_norm_tangent_f64)


cdef int run_layer_norm(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, layer_norm_f32, layer_norm_f64)


cdef int run_layer_norm_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, layer_norm_tangent_f32, layer_norm_tangent_f64)


cdef int run_moments(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgMomentsParts c
    cdef bint single = row_operand(inst, slots, 0).dtype == FG_F32
    row_plan(&c.rows, inst, slots, inst.ip[0])
    if not fg_moments_parts(&c):
        parallel_for(c.rows.units, c.rows.grain, moments_f32 if single else moments_f64, &c.rows)
        return FG_OK
    cdef int64_t parts = c.rows.units * c.parts
    c.state = <double *>pool_alloc(parts * 2 * c.lanes * sizeof(double))
    if c.state == NULL:
        return FG_EMEM
    parallel_for(parts, 1 + FG_ROW_WORK // (c.part * c.lanes + 1), moments_part_f32 if single else moments_part_f64, &c)
    parallel_for(c.rows.units, 1 + FG_ROW_WORK // (c.parts * c.lanes), moments_join_f32 if single else moments_join_f64, &c)
    pool_free(<char *>c.state)
    return FG_OK


cdef int check_norm(FgInst *inst, const FgTensor *slots, const char *name, char *msg) noexcept nogil:
    cdef int last, k, n_in = inst.n_in if 1 <= inst.n_in <= 3 else 1
    if row_counts(inst, name, n_in, 2, 0, 1, msg) or row_dense(inst, slots, name, 0, -1, msg):
        return -1
    last = row_operand(inst, slots, 0).ndim - 1
    if row_axis(inst, slots, name, last, msg) or row_like(inst, slots, name, n_in, msg):
        return -1
    for k in range(1, n_in):
        if row_repeated(inst, slots, name, k, msg):
            return -1
    if not inst.fp[0] >= 0:
        return fg_fail(msg, "%s: eps must be 0 or more, got %g", name, inst.fp[0])
    return row_reduced(inst, slots, name, n_in + 1, row_operand(inst, slots, 0).dtype, last, msg)


cdef int check_tangent(FgInst *inst, const FgTensor *slots, const char *name, char *msg) noexcept nogil:
    cdef int last
    if row_counts(inst, name, 3, 1, 0, 0, msg) or row_dense(inst, slots, name, 0, -1, msg):
        return -1
    last = row_operand(inst, slots, 0).ndim - 1
    if row_axis(inst, slots, name, last, msg) or row_like(inst, slots, name, 2, msg) or row_like(inst, slots, name, 3, msg):
        return -1
    return row_reduced(inst, slots, name, 1, row_operand(inst, slots, 0).dtype, last, msg)


cdef int check_rms_norm(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_norm(inst, slots, "rms_norm", msg)


cdef int check_rms_norm_tangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_tangent(inst, slots, "rms_norm_tangent", msg)


cdef int check_layer_norm(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_norm(inst, slots, "layer_norm", msg)


cdef int check_layer_norm_tangent(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_tangent(inst, slots, "layer_norm_tangent", msg)


cdef int check_moments(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, "moments", 1, 2, 1, 0, msg) or row_axis(inst, slots, "moments", inst.ip[0], msg):
        return -1
    if row_dense(inst, slots, "moments", 0, -1, msg):
        return -1
    for k in range(1, 3):
        if row_reduced(inst, slots, "moments", k, row_operand(inst, slots, 0).dtype, inst.ip[0], msg):
            return -1
    return 0


KERNELS = {
    "moments": (<size_t><void *>run_moments, <size_t><void *>check_moments),
    "rms_norm": (<size_t><void *>run_rms_norm, <size_t><void *>check_rms_norm),
    "rms_norm_tangent": (<size_t><void *>run_rms_norm_tangent, <size_t><void *>check_rms_norm_tangent),
    "layer_norm": (<size_t><void *>run_layer_norm, <size_t><void *>check_layer_norm),
    "layer_norm_tangent": (<size_t><void *>run_layer_norm_tangent, <size_t><void *>check_layer_norm_tangent),
}
