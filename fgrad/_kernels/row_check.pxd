# Cython's view of row_check.h.
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef extern from "fail.h" nogil:
    int fg_fail(char *msg, const char *format, ...)

cdef extern from "row_check.h" nogil:
    ctypedef struct FgRows:
        const void *in_ "in"[5]
        void *out[3]
        int64_t outer, n, inner, tiles, units, grain
        double eps
        int label64

    enum:
        FG_ROW_WORK

    const char *row_text(const FgTensor *t)
    const FgTensor *row_operand(const FgInst *inst, const FgTensor *slots, int k)
    int row_counts(const FgInst *inst, const char *name, int n_in, int n_out, int n_ip, int n_fp, char *msg)
    int row_dtype(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, char *msg)
    int row_dense(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, char *msg)
    int row_like(const FgInst *inst, const FgTensor *slots, const char *name, int k, char *msg)
    int row_repeated(const FgInst *inst, const FgTensor *slots, const char *name, int k, char *msg)
    int row_reduced(const FgInst *inst, const FgTensor *slots, const char *name, int k, int dtype, int64_t axis, char *msg)
    int row_axis(const FgInst *inst, const FgTensor *slots, const char *name, int64_t axis, char *msg)
    void row_plan(FgRows *c, const FgInst *inst, FgTensor *slots, int64_t axis)
