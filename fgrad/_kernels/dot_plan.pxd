# What a product is and which way it goes: made by dot_check, run by matmul.pyx.
from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FgInst, FgTensor

cdef extern from "matmul.h" nogil:
    enum: FG_MB, FG_NB, FG_TINY, FG_THIN, FG_THIN_BYTES, FG_THIN_ROWS, FG_ENTRY, FG_ENTRY_VECTORS
    ctypedef struct FgComplex:
        int64_t M, N, K
        int64_t a[3]
        int64_t b[3]
        int32_t dtype, swapped, pack_a, columns
    ctypedef struct FgDot:
        int64_t B, M, N, K
        int64_t inner, group
        int64_t outer[3]
        int64_t a[3]
        int64_t b[3]
        int64_t c[3]
        int64_t nk, kc
        int32_t in_dtype, out_dtype, work
        int32_t swapped, acc, algo
        int32_t pack_a, pack_b
        int64_t lda, ldb
        int32_t ta, tb, pairs, turned, bytes
        FgComplex z

cdef enum:
    EMPTY, CLEAR, AXPY, DOTS, BLAS, GEMM, TINY, SINGLE, FEW, THIN, ENTRIES
    PACK_ROWS = 1, PACK_COLS = 2      # the packed operand's contiguous axis: its last, its first
    PACK_SPLIT = 3                    # its last, in the order of chunks of 16-bit numbers (stream16.h)

cdef int dot_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil
