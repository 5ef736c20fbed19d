"""Products of bytes with sums of 32 bits (dot_bytes.h).

dot_bytes   a (B, M, K), b (B, K, N), int8 or uint8 of any strides -> out (B, M, N), contiguous, int32 or uint32; modulo 2^32.
"""
from libc.stdint cimport int64_t
from libc.string cimport memset

from fgrad._kernels.abi cimport FG_EMEM, FG_OK, FG_OUT, FgInst, FgTensor
from fgrad._kernels.gemm cimport GemmJob, gemm_bytes
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for, thread_count

cdef extern from "dot_bytes.h" nogil:
    enum: BYTES_BLOCK
    ctypedef struct BytesJob:
        int64_t B, M, N, K, lda, entries, row_parts, col_parts
        int64_t a[3]
        int64_t b[3]
        bint a_signed, b_signed
        const char *pa
        const char *pb
        char *rows
        int *first
        char *scratch
    void bytes_describe(const FgInst *inst, FgTensor *slots, BytesJob *j)
    void bytes_cut(BytesJob *j, int64_t threads)
    void bytes_pack_row(const BytesJob *j, int64_t i)
    void bytes_unit(const BytesJob *j, int64_t unit, char *block)
    int bytes_check(FgInst *inst, const FgTensor *slots, char *msg)


cdef int dot_bytes_check(FgInst *inst, const FgTensor *slots, char *msg) noexcept nogil:
    return bytes_check(inst, slots, msg)


cdef void _rows(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef int64_t i
    for i in range(begin, end):
        bytes_pack_row(<BytesJob *>ctx, i)


cdef void _units(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef BytesJob *j = <BytesJob *>ctx
    cdef int64_t i
    for i in range(begin, end):
        bytes_unit(j, i, j.scratch + tid * BYTES_BLOCK)


cdef int _by_tiles(const BytesJob *j, char *out) noexcept nogil:
    cdef GemmJob g
    memset(&g, 0, sizeof(g))
    g.B, g.M, g.N, g.K = j.B, j.M, j.N, j.K
    g.a0, g.ra, g.ca = j.a[0], j.a[1], j.a[2]
    g.b0, g.rb, g.cb = j.b[0], j.b[1], j.b[2]
    g.c0, g.ldc = j.M * j.N, j.N
    g.a, g.b, g.c = j.pa, j.pb, out
    return gemm_bytes(&g, j.a_signed, j.b_signed)


cdef int dot_bytes_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef BytesJob j
    cdef FgTensor *out = FG_OUT(inst, slots, 0)
    cdef int64_t rows, threads = thread_count(), units, each
    cdef int status
    bytes_describe(inst, slots, &j)
    if out.size == 0:
        return FG_OK
    if j.K == 0:
        memset(out.data, 0, out.size * 4)
        return FG_OK
    status = _by_tiles(&j, out.data)
    if status >= 0:
        return status
    bytes_cut(&j, threads)
    rows = j.entries * j.M
    j.rows = pool_alloc((rows * j.lda + 63) // 64 * 64 + rows * 4)
    j.scratch = pool_alloc(threads * BYTES_BLOCK)
    if j.rows != NULL and j.scratch != NULL:
        j.first = <int *>(j.rows + (rows * j.lda + 63) // 64 * 64)
        parallel_for(rows, max(<int64_t>1, 40000 // (j.K + 1)), _rows, &j)
        units = j.B * j.row_parts * j.col_parts
        each = j.M * j.N * j.K // (j.row_parts * j.col_parts) // 60 + 50           # nanoseconds, roughly
        parallel_for(units, max(<int64_t>1, 4000 // each), _units, &j)
    pool_free(j.rows)
    pool_free(j.scratch)
    return FG_OK if j.rows != NULL and j.scratch != NULL else FG_EMEM


KERNELS = {"dot_bytes": (<size_t><void *>dot_bytes_run, <size_t><void *>dot_bytes_check)}
