"""Own matrix products of float32 and float64 over the team of threads: gemm_job.h cuts them into units, this module runs them."""
from libc.stdint cimport int64_t

from fgrad._kernels.abi cimport FG_EMEM, FG_OK
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, thread_count

cdef extern from "gemm_job.h" nogil:
    void gemm_plan(GemmJob *job)
    int64_t gemm_cut(GemmJob *job, int64_t threads)
    bint gemm_alone(GemmJob *job)
    int64_t gemm_job_panels(const GemmJob *job)
    int64_t gemm_item(const GemmJob *job)
    int64_t gemm_packed_entries(const GemmJob *job)
    void gemm_share(GemmJob *job)
    void gemm_work(const GemmJob *job, int tid)
    void gemm_work_a(const GemmJob *job, int64_t begin, int64_t end)

WIDE = bool(GEMM_WIDE)        # are float32 and float64 products ours, or OpenBLAS's, whose bits depend on how threads share them?


cdef void _units(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    gemm_work(<GemmJob *>ctx, tid)


cdef void _panels(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    gemm_work_a(<GemmJob *>ctx, begin, end)


cdef int gemm_run(GemmJob *j) noexcept nogil:
    cdef int64_t batches
    cdef char *memory
    cdef int status = FG_EMEM
    gemm_plan(j)
    j.threads = gemm_cut(j, thread_count())
    if gemm_alone(j):
        return FG_OK
    batches = gemm_packed_entries(j)
    j.panels = pool_alloc(batches * j.M * j.K * gemm_item(j)) if j.pack_a else NULL
    memory = pool_alloc(j.threads * (<int64_t>sizeof(GemmShare) + j.scratch_size))
    if (j.panels != NULL or not j.pack_a) and memory != NULL:
        status = FG_OK
        j.shares = <GemmShare *>memory
        j.scratch = memory + j.threads * sizeof(GemmShare)
        gemm_share(j)
        if j.pack_a:
            parallel_for(batches * j.nk * gemm_job_panels(j), max(1, 50000 // (j.K + 1)), _panels, j)
        parallel_for(j.threads, 1, _units, j)
    pool_free(memory)
    pool_free(j.panels)
    return status
