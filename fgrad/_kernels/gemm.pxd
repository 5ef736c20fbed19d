from libc.stdint cimport int32_t, int64_t

cdef extern from "gemm_job.h" nogil:
    enum: GEMM_WIDE, GEMM_PAIRS, GEMM_LONGEST, GEMM_MASKS, GEMM_MR, GEMM_NV
    ctypedef struct GemmShare:
        int64_t next, end
    ctypedef struct GemmJob:
        int64_t B, M, N, K
        int64_t a0, ra, ca, b0, rb, cb, c0, ldc      # strides of batch, row and column of a, b and c, in elements; c's are contiguous
        int64_t inner, a1, b1, c1                    # of a batch of two axes: entries along the second, strides of the first; else inner is 0
        int64_t depth                                # of b where `halves`, single elements
        int32_t narrow, halves                       # the dtype of a c of 16 bits or 0; b lies in rows of single bfloat16
        int32_t cplx                                 # a complex product: N and strides but cb count real numbers (gemm_job.h)
        int32_t f64, pairs, add, turned              # turned: c's rows are contiguous instead, its columns ldc apart
        const char *a
        const char *b
        char *c
        int64_t nk, scratch_size, threads            # the rest is gemm_run's
        GemmShare *shares
        char *scratch

# c (B, M, N) = a b (+ c, where `add`) over our team of threads, all sizes at least 1; FG_OK or FG_EMEM
cdef int gemm_run(GemmJob *job) noexcept nogil

# Does gemm_run take this product to the processor's tile unit?
cdef bint gemm_by_tiles(const GemmJob *job) noexcept nogil

# The same of bytes, c 32 bits wide, modulo 2^32, where the processor's tile unit takes it; -1 where another way is to be taken
cdef int gemm_bytes(GemmJob *job, bint a_signed, bint b_signed) noexcept nogil

# do products run on the processor's tile unit?
cdef bint amx_is_used() noexcept nogil
