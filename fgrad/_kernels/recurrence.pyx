"""Linear recurrences along an axis, and products of all other elements: what derivatives of products are made of.

recurrence:     in a, b (of one shape), ip [axis, reverse, lag]   out s: s_k = a_k s_(k-1) + b_k, or a_(k-1) s_(k-1) + b_k with lag;
                "before" is behind with reverse, and the first s is b's
other_products: in x, ip [axis]                                   out the products of all elements along the axis but the one itself

All tensors are contiguous, of float32, float64, complex64 or complex128.
"""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_OK, FgInst, FgTensor
from fgrad._kernels.parallel cimport parallel_for, range_body
from fgrad._kernels.row_check cimport (FgRows, fg_fail, row_axis, row_counts, row_dense, row_like, row_operand, row_plan, row_text)

cdef extern from "recurrence.h" nogil:
    ctypedef struct FgRecurrence:
        FgRows rows
        int reverse, lag
    range_body fg_recurrence_body(int dtype)
    range_body fg_others_body(int dtype)


cdef int run_recurrence(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgRecurrence c
    if row_operand(inst, slots, 0).size == 0:
        return FG_OK
    row_plan(&c.rows, inst, slots, inst.ip[0])
    c.reverse, c.lag = inst.ip[1] != 0, inst.ip[2] != 0
    parallel_for(c.rows.units, c.rows.grain, fg_recurrence_body(row_operand(inst, slots, 0).dtype), &c)
    return FG_OK


cdef int run_other_products(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgRows c
    if row_operand(inst, slots, 0).size == 0:
        return FG_OK
    row_plan(&c, inst, slots, inst.ip[0])
    parallel_for(c.units, c.grain, fg_others_body(row_operand(inst, slots, 0).dtype), &c)
    return FG_OK


cdef int check_all(FgInst *inst, const FgTensor *slots, const char *name, int n_in, int n_ip, char *msg) noexcept nogil:
    cdef int k
    if row_counts(inst, name, n_in, 1, n_ip, 0, msg) or row_axis(inst, slots, name, inst.ip[0], msg):
        return -1
    if fg_recurrence_body(row_operand(inst, slots, 0).dtype) == NULL:
        return fg_fail(msg, "%s: operand 0 is %s; float32, float64, complex64 or complex128 expected", name,
                       row_text(row_operand(inst, slots, 0)))
    if row_dense(inst, slots, name, 0, row_operand(inst, slots, 0).dtype, msg):
        return -1
    for k in range(1, n_in + 1):
        if row_like(inst, slots, name, k, msg):
            return -1
    return 0


cdef int check_recurrence(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_all(inst, slots, "recurrence", 2, 3, msg)


cdef int check_other_products(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return check_all(inst, slots, "other_products", 1, 1, msg)


KERNELS = {
    "recurrence": (<size_t><void *>run_recurrence, <size_t><void *>check_recurrence),
    "other_products": (<size_t><void *>run_other_products, <size_t><void *>check_other_products),
}
