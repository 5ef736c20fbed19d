"""softmax, log_softmax and logsumexp along one axis of a contiguous tensor, with their linear maps.

softmax:               in x, ip [axis]          out y = exp(x - max) / sum(exp(x - max))
softmax_tangent:       in y, t, ip [axis]       out y * (t - sum(y * t)); symmetric, so its own transpose
log_softmax:           in x, ip [axis]          out x - logsumexp(x)
log_softmax_tangent:   in y, t, ip [axis]       out t - sum(exp(y) * t), where y is the output of log_softmax
log_softmax_cotangent: in y, ct, ip [axis]      out ct - exp(y) * sum(ct)
logsumexp:             in x, ip [axis]          out of x's shape without the axis
softmax_logsumexp:     in x, ip [axis]          out softmax and logsumexp
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_EMEM, FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, parallel_grains, range_body
from fgrad._kernels.row_check cimport FG_ROW_WORK, FgRows, row_axis, row_counts, row_dense, row_like, row_operand, row_plan, row_reduced

cdef extern from *:
    """
    #define ROWS "softmax.h"
    #include "row_types.h"
    typedef void (*FgSoftmaxBody)(void *ctx, int64_t begin, int64_t end, int tid);
    typedef struct { FgSoftmaxBody rows, part, join, finish; } FgSoftmaxBodies;
    #define BODIES(name, part, join, finish) \\
        static const FgSoftmaxBodies name##_bodies[2] = {{name##_f32, part##_f32, join##_f32, finish##_f32}, \\
                                                         {name##_f64, part##_f64, join##_f64, finish##_f64}}
    #define no_finish_f32 NULL
    #define no_finish_f64 NULL
    BODIES(softmax, softmax_part, softmax_join, softmax_finish);
    BODIES(log_softmax, softmax_part, softmax_join, log_softmax_finish);
    BODIES(logsumexp, softmax_part, logsumexp_join, no_finish);
    BODIES(softmax_tangent, softmax_tangent_part, sum_join, softmax_tangent_finish);
    BODIES(log_softmax_tangent, log_softmax_tangent_part, sum_join, log_softmax_tangent_finish);
    BODIES(log_softmax_cotangent, log_softmax_cotangent_part, sum_join, log_softmax_cotangent_finish);
    """

cdef extern from * nogil:
    ctypedef struct FgSoftmaxParts:
        FgRows rows
        int64_t parts
        char *state
    ctypedef struct FgSoftmaxBodies:
        range_body rows, part, join, finish
    enum:
        FG_TILE, TILE_PART
    int fg_softmax_parts(FgSoftmaxParts *c)
    const FgSoftmaxBodies *softmax_bodies
    const FgSoftmaxBodies *log_softmax_bodies
    const FgSoftmaxBodies *logsumexp_bodies
    const FgSoftmaxBodies *softmax_tangent_bodies
    const FgSoftmaxBodies *log_softmax_tangent_bodies
    const FgSoftmaxBodies *log_softmax_cotangent_bodies


cdef int run(const FgInst *inst, FgTensor *slots, const FgSoftmaxBodies *bodies) noexcept nogil:
    cdef FgSoftmaxParts c
    cdef const FgSoftmaxBodies *b = &bodies[0 if row_operand(inst, slots, 0).dtype == FG_F32 else 1]
    row_plan(&c.rows, inst, slots, inst.ip[0])
    if not fg_softmax_parts(&c):
        parallel_grains(c.rows.units, c.rows.grain, b.rows, &c.rows)
        return FG_OK
    c.state = pool_alloc(c.rows.units * c.parts * 2 * FG_TILE * (4 if row_operand(inst, slots, 0).dtype == FG_F32 else 8))
    if c.state == NULL:
        return FG_EMEM
    parallel_for(c.rows.units * c.parts, c.rows.grain, b.part, &c)
    parallel_for(c.rows.units, 1 + FG_ROW_WORK // (FG_TILE * c.parts), b.join, &c)
    if b.finish != NULL:
        parallel_for(c.rows.units * c.parts, c.rows.grain, b.finish, &c)
    pool_free(c.state)
    return FG_OK


cdef int run_softmax(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, softmax_bodies)


cdef int run_softmax_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, softmax_tangent_bodies)


cdef int run_log_softmax(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_bodies)


cdef int run_log_softmax_tangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_tangent_bodies)


cdef int run_log_softmax_cotangent(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, log_softmax_cotangent_bodies)


cdef int run_logsumexp(const FgInst *inst, FgTensor *slots) noexcept nogil:
    return run(inst, slots, logsumexp_bodies)


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
