# Cython's view of fg.h.
from libc.stdint cimport int32_t, int64_t

cdef extern from "fg.h" nogil:
    enum:
        FG_MAXDIM, FG_MSG
        FG_BOOL, FG_I8, FG_I16, FG_I32, FG_I64, FG_U8, FG_U16, FG_U32, FG_U64
        FG_F16, FG_BF16, FG_F32, FG_F64, FG_C64, FG_C128, FG_NDTYPES
        FG_OK, FG_EMEM, FG_EPYTHON, FG_EDATA

    ctypedef struct FgTensor:
        char *data
        int32_t dtype
        int32_t ndim
        int64_t size
        int64_t shape[16]
        int64_t strides[16]

    ctypedef struct FgInst:
        int (*run)(const FgInst *inst, FgTensor *slots) noexcept nogil
        int32_t kind
        int32_t n_in, n_out, n_ip, n_fp, n_child, machine
        int32_t *args
        int64_t *ip
        double *fp
        void *extra
        void *object

    ctypedef int (*FgRun)(const FgInst *inst, FgTensor *slots) noexcept nogil
    ctypedef int (*FgCheck)(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil

    FgTensor *FG_IN(const FgInst *inst, const FgTensor *slots, int i)
    FgTensor *FG_OUT(const FgInst *inst, const FgTensor *slots, int i)
    int64_t fg_itemsize(int dtype)
    bint fg_is_contiguous(const FgTensor *t)
    bint fg_same_shape(const FgTensor *a, const FgTensor *b)
