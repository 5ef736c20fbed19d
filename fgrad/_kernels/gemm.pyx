"""Own matrix products of float32 and float64 over the team of threads: gemm_job.h cuts them into units, this module runs them; on processors
with a tile unit gemm_amx.h does so for large ones of float32 and bfloat16."""
import os

from libc.stdint cimport int32_t, int64_t

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

cdef extern from "gemm_amx.h" nogil:
    ctypedef struct AmxJob:
        GemmJob j
        int64_t pieces, shared, own, block, blocks, cuts, whole_size, block_size, scratch_size, next
        int32_t a_whole, far
        char *whole
        char *scratch
    enum: AMX_LINES
    bint amx_supported()
    bint amx_wants(const GemmJob *j)
    void amx_plan(AmxJob *w, const GemmJob *j, int64_t threads)
    int64_t amx_lines(const AmxJob *w, bint of_a)
    int64_t amx_units(const AmxJob *w)
    int64_t amx_whole_entries(const AmxJob *w)
    int64_t amx_whole_units(const AmxJob *w)
    bint amx_pack_whole(const AmxJob *w, int64_t entry, int64_t begin, int64_t end, char *to)
    bint amx_pack_lines(const AmxJob *w, bint of_a, int64_t entry, int64_t l0, int64_t l1, int64_t i, char *to)
    void amx_multiply(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, const char *block, const char *whole)
    void amx_other(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, GemmJob *to)
    int64_t atomic_next "__atomic_fetch_add"(int64_t *at, int64_t n, int order)
    enum: __ATOMIC_RELAXED

WIDE = bool(GEMM_WIDE)        # are float32 and float64 products ours, or OpenBLAS's, whose bits depend on how threads share them?


cdef void _units(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    gemm_work(<GemmJob *>ctx, tid)


cdef void _panels(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    gemm_work_a(<GemmJob *>ctx, begin, end)


cdef int32_t _amx = 0                     # are products of large matrices the tile unit's?


def use_amx(bint on):
    """Whether large products run on the processor's tile unit, where it has one; returns what was so before."""
    global _amx
    before = _amx != 0
    _amx = on and GEMM_WIDE and amx_supported()
    return before


cdef bint amx_on() noexcept nogil:
    return _amx != 0


cdef void _amx_whole(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are those of every entry."""
    cdef AmxJob *w = <AmxJob *>ctx
    cdef int64_t each = amx_whole_units(w), entry, first, last
    for entry in range(begin // each, (end + each - 1) // each):
        first, last = max(begin, entry * each), min(end, (entry + 1) * each)
        if amx_pack_whole(w, entry, first - entry * each, last - entry * each, w.whole + entry * w.whole_size):
            w.far = 1


cdef void _amx_units(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Claim units until none is left."""
    cdef AmxJob *w = <AmxJob *>ctx
    cdef GemmJob other
    cdef int64_t u, entry, block, cut, l0, l1, p0, p1, i, panels = (amx_lines(w, w.a_whole) + AMX_LINES - 1) // AMX_LINES
    cdef int64_t lines = amx_lines(w, not w.a_whole), packed = -1
    cdef char *scratch = w.scratch + tid * w.scratch_size
    cdef char *whole = scratch + w.block_size if w.own else w.whole
    cdef bint far = False
    while True:
        u = atomic_next(&w.next, 1, __ATOMIC_RELAXED)
        if u >= amx_units(w):
            return
        cut = u % w.cuts
        block = u // w.cuts % w.blocks
        entry = u // w.cuts // w.blocks
        l0, l1 = block * w.block, min(lines, (block + 1) * w.block)
        p0, p1 = panels * cut // w.cuts, panels * (cut + 1) // w.cuts
        if w.own and packed != (0 if w.shared else entry):
            packed = 0 if w.shared else entry
            far = amx_pack_whole(w, entry, 0, amx_whole_units(w), whole)
        for i in range(w.pieces):
            if far or amx_pack_lines(w, not w.a_whole, entry, l0, l1, i, scratch):
                amx_other(w, entry, l0, l1, p0, p1, i, &other)
                _plain(&other, 1)
            else:
                amx_multiply(w, entry, l0, l1, p0, p1, i, scratch, whole if w.own or w.shared else whole + entry * w.whole_size)


cdef int _run_amx(GemmJob *j) noexcept nogil:
    """FG_OK, FG_EMEM, or -1 where the other way has to compute the product."""
    cdef AmxJob w
    cdef int64_t threads = thread_count(), size, units
    cdef double work = <double>j.B * j.M * j.N * j.K
    threads = min(threads, <int64_t>(work / (3e5 if j.pairs else 2e6)) + 1)
    amx_plan(&w, j, threads)
    size = 0 if w.own else amx_whole_entries(&w) * w.whole_size
    w.whole = pool_alloc(size + threads * w.scratch_size)
    if w.whole == NULL:
        return FG_EMEM
    w.scratch = w.whole + size
    if not w.own:
        units = amx_whole_entries(&w) * amx_whole_units(&w)
        parallel_for(units, (units + threads - 1) // threads, _amx_whole, &w)
    if not w.far:
        parallel_for(threads, 1, _amx_units, &w)
    pool_free(w.whole)
    return -1 if w.far else FG_OK


cdef int gemm_run(GemmJob *j) noexcept nogil:
    cdef int status
    if _amx and amx_wants(j):
        status = _run_amx(j)
        if status >= 0:
            return status
    return _plain(j, thread_count())


cdef int _plain(GemmJob *j, int64_t threads) noexcept nogil:
    cdef int64_t batches
    cdef char *memory
    cdef int status = FG_EMEM
    gemm_plan(j)
    j.threads = gemm_cut(j, threads)
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


use_amx(os.environ.get("FGRAD_AMX", "1") != "0")
