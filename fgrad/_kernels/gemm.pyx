"""Own matrix products of float32 and float64 over the team of threads: gemm_job.h cuts them into units, this module runs them; on processors
with a tile unit gemm_amx.h does so for large ones of float32 and bfloat16."""
import os

from libc.stdint cimport int32_t, int64_t

from fgrad._kernels.abi cimport FG_EMEM, FG_OK
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, parallel_of, thread_count

cdef extern from "gemm_job.h" nogil:
    void gemm_plan(GemmJob *job)
    int64_t gemm_cut(GemmJob *job, int64_t threads)
    bint gemm_alone(GemmJob *job)
    void gemm_room(GemmJob *job)
    void gemm_share(GemmJob *job)
    void gemm_work(const GemmJob *job, int tid)

cdef extern from "gemm_amx.h" nogil:
    ctypedef struct AmxJob:
        GemmJob j
        int64_t pieces, shared, own, chunks, block, blocks, cuts, whole_size, block_size, scratch_size, next
        int32_t a_whole, far
        char *whole
        char *scratch
    enum: AMX_LINES
    bint amx_supported()
    bint amx_wants(const GemmJob *j)
    bint amx_wants_bytes(const GemmJob *j)
    void amx_plan(AmxJob *w, const GemmJob *j, int kind, int64_t threads)
    enum: AMX_F32, AMX_BF16, AMX_SS, AMX_SU, AMX_US, AMX_UU
    int64_t amx_lines(const AmxJob *w, bint of_a)
    int64_t amx_units(const AmxJob *w)
    int64_t amx_whole_entries(const AmxJob *w)
    int64_t amx_whole_units(const AmxJob *w)
    bint amx_pack_whole(const AmxJob *w, int64_t entry, int64_t begin, int64_t end, char *to)
    bint amx_pack_lines(const AmxJob *w, bint of_a, int64_t entry, int64_t l0, int64_t l1, int64_t i, char *to)
    void amx_multiply(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, const char *block, const char *whole)
    void amx_other(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, GemmJob *to)
    void amx_add_chunks(const AmxJob *w, int64_t begin, int64_t end, float *c, int64_t ldc)
    int64_t atomic_next "__atomic_fetch_add"(int64_t *at, int64_t n, int order)
    enum: __ATOMIC_RELAXED

WIDE = bool(GEMM_WIDE)        # are float32 and float64 products ours, or OpenBLAS's, whose bits depend on how threads share them?


cdef void _units(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    gemm_work(<GemmJob *>ctx, tid)


cdef int32_t _amx = 0                     # are products of large matrices the tile unit's?


def use_amx(bint on):
    """Whether large products run on the processor's tile unit, where it has one; returns what was so before."""
    global _amx
    before = _amx != 0
    _amx = on and GEMM_MASKS and amx_supported()        # built for vectors of 512 bits, as its callers are
    return before


cdef bint amx_is_used() noexcept nogil:
    return _amx


def uses_amx():
    return bool(_amx)


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


cdef struct Sums:
    AmxJob *w
    float *c
    int64_t ldc


cdef void _amx_sums(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Sums *s = <Sums *>ctx
    amx_add_chunks(s.w, begin, end, s.c, s.ldc)


cdef int _run_amx(GemmJob *j, int kind) noexcept nogil:
    """FG_OK, FG_EMEM, or -1 where the other way has to compute the product."""
    cdef AmxJob w
    cdef Sums sums
    cdef int64_t threads = thread_count(), size, parts, units
    cdef double work = <double>j.B * j.M * j.N * j.K
    threads = min(threads, <int64_t>(work / (8e5 if kind == AMX_F32 else 3e5)) + 1)
    amx_plan(&w, j, kind, threads)
    size = 0 if w.own else amx_whole_entries(&w) * w.whole_size
    parts = (4 * w.chunks * w.j.c0 + 63) // 64 * 64
    w.whole = pool_alloc(size + parts + threads * w.scratch_size)
    if w.whole == NULL:
        return FG_EMEM
    if w.chunks:
        sums.w, sums.c, sums.ldc = &w, <float *>w.j.c, j.ldc
        w.j.c = w.whole + size
    w.scratch = w.whole + size + parts
    if not w.own:
        units = amx_whole_entries(&w) * amx_whole_units(&w)
        parallel_for(units, (units + threads - 1) // threads, _amx_whole, &w)
    if not w.far:
        parallel_of(threads, 1, work / (1.5e5 if kind == AMX_F32 else 6e5), _amx_units, &w)
        if w.chunks:
            parallel_for(w.j.M, 20000 // w.j.N + 1, _amx_sums, &sums)
    pool_free(w.whole)
    return -1 if w.far else FG_OK


cdef int gemm_run(GemmJob *j) noexcept nogil:
    cdef int status
    if gemm_by_tiles(j):
        status = _run_amx(j, AMX_BF16 if j.pairs else AMX_F32)
        if status >= 0:
            return status
    return _plain(j, thread_count())


cdef bint gemm_by_tiles(const GemmJob *j) noexcept nogil:
    return amx_is_used() and amx_wants(j)


cdef int gemm_bytes(GemmJob *j, bint a_signed, bint b_signed) noexcept nogil:
    if not _amx or not amx_wants_bytes(j):
        return -1
    return _run_amx(j, (AMX_SS if b_signed else AMX_SU) if a_signed else AMX_US if b_signed else AMX_UU)


cdef int _plain(GemmJob *j, int64_t threads) noexcept nogil:
    cdef char *memory
    gemm_plan(j)
    j.threads = gemm_cut(j, threads)
    gemm_room(j)
    if gemm_alone(j):
        return FG_OK
    memory = pool_alloc(j.threads * (<int64_t>sizeof(GemmShare) + j.scratch_size))
    if memory == NULL:
        return FG_EMEM
    j.shares = <GemmShare *>memory
    j.scratch = memory + j.threads * sizeof(GemmShare)
    gemm_share(j)
    parallel_of(j.threads, 1, <double>j.B * j.M * j.N * j.K / 8e4, _units, j)
    pool_free(memory)
    return FG_OK


use_amx(os.environ.get("FGRAD_AMX", "1") != "0")
