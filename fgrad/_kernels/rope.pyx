"""Rotary position embedding (Su et al., RoFormer, 2021).

rope: in x (..., D) of any strides, cos and sin (..., D2) broadcast to x's leading axes; ip [interleaved, inverse, wide]; out contiguous.

The first 2 * D2 components of each row are rotated in pairs, (x[i], x[i + D2]) or, interleaved, (x[2i], x[2i + 1]):
y1 = x1 * cos - x2 * sin, y2 = x2 * cos + x1 * sin; the others are copied.  `inverse` is the transpose, which turns the other way.
Wide: cos and sin have as many components as x, those of second components in their second halves (not interleaved).
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_F32, FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_for
from fgrad._kernels.row_check cimport FG_ROW_WORK, fg_fail, row_counts, row_dense, row_dtype, row_operand, row_text

cdef extern from *:
    """
    #include "fg.h"
    typedef struct {
        const FgTensor *x, *co, *si;
        void *out;
        int interleaved, inverse, wide;
    } RopePlan;
    #define ROWS "rope.h"
    #include "row_types.h"
    """
    ctypedef struct RopePlan:
        const FgTensor *x
        const FgTensor *co
        const FgTensor *si
        void *out
        bint interleaved, inverse, wide

cdef extern from * nogil:
    void rope_f32(void *ctx, int64_t begin, int64_t end, int tid) noexcept
    void rope_f64(void *ctx, int64_t begin, int64_t end, int tid) noexcept


cdef int run_rope(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef RopePlan c
    cdef FgTensor *out = <FgTensor *>row_operand(inst, slots, 3)
    cdef int64_t D = out.shape[out.ndim - 1]
    if out.size == 0:
        return FG_OK
    c.x = row_operand(inst, slots, 0)
    c.co = row_operand(inst, slots, 1)
    c.si = row_operand(inst, slots, 2)
    c.out = out.data
    c.interleaved, c.inverse, c.wide = inst.ip[0] != 0, inst.ip[1] != 0, inst.ip[2] != 0
    parallel_for(out.size // D, 1 + FG_ROW_WORK // D, rope_f32 if out.dtype == FG_F32 else rope_f64, &c)
    return FG_OK


cdef int check_rope(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    cdef const FgTensor *x
    cdef const FgTensor *t
    cdef int k, d, last
    cdef bint same, wide
    if row_counts(inst, "rope", 3, 1, 3, 0, msg) or row_dtype(inst, slots, "rope", 0, -1, msg):
        return -1
    x = row_operand(inst, slots, 0)
    last = x.ndim - 1
    if last < 0:
        return fg_fail(msg, "rope: x is a scalar; at least one axis expected")
    wide = inst.ip[2] != 0
    if wide and (inst.ip[0] != 0 or x.shape[last] % 2):
        return fg_fail(msg, "rope: x is %s; wide cosines are of an even last axis whose pairs are not interleaved", row_text(x))
    for k in range(1, 3):
        if row_dtype(inst, slots, "rope", k, x.dtype, msg):
            return -1
        t = row_operand(inst, slots, k)
        same = t.ndim == x.ndim
        for d in range(last):
            same = same and t.shape[d] == x.shape[d]
        if not same or (t.shape[last] != x.shape[last] if wide else 2 * t.shape[last] > x.shape[last]):
            return fg_fail(msg, "rope: %s is %s and x is %s; leading axes must agree and the last be at most half of x's, or, wide, x's",
                            b"cos" if k == 1 else b"sin", row_text(t), row_text(x))
    if row_operand(inst, slots, 1).shape[last] != row_operand(inst, slots, 2).shape[last]:
        return fg_fail(msg, "rope: cos is %s but sin is %s", row_text(row_operand(inst, slots, 1)),
                        row_text(row_operand(inst, slots, 2)))
    if row_dense(inst, slots, "rope", 3, x.dtype, msg):
        return -1
    t = row_operand(inst, slots, 3)
    same = t.ndim == x.ndim
    for d in range(last + 1):
        same = same and t.shape[d] == x.shape[d]
    if not same:
        return fg_fail(msg, "rope: the output is %s but x is %s", row_text(t), row_text(x))
    return 0


KERNELS = {"rope": (<size_t><void *>run_rope, <size_t><void *>check_rope)}
