from libc.stdint cimport int64_t, uint32_t

cdef extern from "split.h" nogil:
    enum:
        FG_SPLIT_USUAL
        FG_SPLIT_NEVER
        FG_SPLIT_FINELY
        FG_SPLITS
        FG_FINE

ctypedef void (*range_body)(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil

cdef void parallel_for(int64_t n, int64_t grain, range_body body, void *ctx) noexcept nogil
cdef void parallel_of(int64_t n, int64_t grain, double work, range_body body, void *ctx) noexcept nogil
cdef void parallel_grains(int64_t n, int64_t grain, range_body body, void *ctx) noexcept nogil
cdef int thread_count() noexcept nogil
cdef uint32_t loop_count() noexcept nogil
cdef int set_split(int split) noexcept nogil
