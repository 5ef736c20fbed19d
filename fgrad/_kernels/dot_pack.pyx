"""Operands of products brought to the layout and dtype that the inner loops take; complex ones as real ones."""
from libc.stdint cimport int32_t, int64_t, uint16_t

from fgrad._kernels.abi cimport fg_itemsize
from fgrad._kernels.dot_plan cimport PACK_COLS, PACK_ROWS, PACK_SPLIT, FgComplex, FgDot
from fgrad._kernels.memory cimport pool_alloc
from fgrad._kernels.parallel cimport parallel_for

cdef extern from "matmul.h" nogil:
    enum: FG_CHUNK
    int64_t fg_entry(const FgDot *p, int64_t i, int64_t outer, int64_t stride)
    void fg_pack(int src_dtype, int dst_dtype, const char *src, int64_t sr, int64_t sc, char *dst, int64_t r0, int64_t r1, int64_t cols)
    void fg_split(int dtype, const uint16_t *src, int64_t sr, int64_t sc, float *dst, int64_t ld, int64_t r0, int64_t r1, int64_t cols)
    void fg_spread(const FgComplex *z, const char *src, int64_t line, char *dst)

cdef struct Packing:
    FgDot *p
    char *src
    char *dst
    int64_t sb, sb1, sr, sc, rows, cols, batches, ldc
    int32_t src_dtype, split


cdef void _pack_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are groups of 16 rows of every packed batch entry."""
    cdef Packing *w = <Packing *>ctx
    cdef int64_t groups = (w.rows + 15) // 16, i = begin, b, r0, r1
    cdef int64_t isz = fg_itemsize(w.src_dtype), osz = fg_itemsize(w.p.work)
    while i < end:
        b = i // groups
        r0 = (i - b * groups) * 16
        r1 = min(w.rows, r0 + 16 * (end - i))
        if w.split:
            fg_split(w.src_dtype, <uint16_t *>w.src + fg_entry(w.p, b, w.sb1, w.sb), w.sr, w.sc, <float *>w.dst + b * w.rows * w.ldc, w.ldc, r0, r1, w.cols)
        else:
            fg_pack(w.src_dtype, w.p.work, w.src + fg_entry(w.p, b, w.sb1, w.sb) * isz, w.sr, w.sc, w.dst + b * w.rows * w.cols * osz, r0, r1, w.cols)
        i += (r1 - r0 + 15) // 16


cdef char *pack(FgDot *p, char *src, const int64_t *s, int64_t outer, int64_t rows, int64_t cols, int how, int64_t *sb, int64_t *sb1) noexcept nogil:
    """A packed copy of (B, rows, cols), its last axis contiguous (PACK_ROWS), also whole chunks of it (PACK_SPLIT), or its first (PACK_COLS)."""
    cdef Packing w
    cdef bint shared = p.B == 1 or (s[0] == 0 and (not p.inner or outer == 0))
    w.p = p
    w.src = src
    w.src_dtype = p.in_dtype
    w.batches = 1 if shared else p.B
    w.sb, w.sb1 = s[0], outer
    w.sr, w.sc, w.rows, w.cols = s[1], s[2], rows, cols
    if how == PACK_COLS:
        w.sr, w.sc, w.rows, w.cols = s[2], s[1], cols, rows
    w.split = how == PACK_SPLIT
    w.ldc = (w.cols + FG_CHUNK - 1) // FG_CHUNK * FG_CHUNK if w.split else w.cols
    w.dst = pool_alloc(w.batches * w.rows * w.ldc * fg_itemsize(p.work))
    if w.dst != NULL:
        parallel_for(w.batches * ((w.rows + 15) // 16), max(1, 4096 // (w.cols + 1)), _pack_body, &w)
        sb[0] = 0 if shared else w.rows * w.ldc
        sb1[0] = sb[0] * p.inner
    return w.dst


cdef void _spread_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are rows or columns of b of every batch entry."""
    cdef Packing *w = <Packing *>ctx
    cdef const FgComplex *z = &w.p.z
    cdef int64_t item = fg_itemsize(z.dtype), i, batch
    for i in range(begin, end):
        batch = i // w.rows
        fg_spread(z, w.src + batch * w.sb * item, i - batch * w.rows, w.dst + batch * w.rows * w.cols * item)


cdef char *spread(FgDot *p, char *src) noexcept nogil:
    """b as a real matrix of twice its rows and columns."""
    cdef Packing w
    w.p = p
    w.src = src
    w.sb = p.z.b[0]
    w.rows, w.cols = p.z.N if p.z.columns else p.z.K, 2 * (p.z.K if p.z.columns else p.z.N)
    w.batches = 1 if p.B == 1 or w.sb == 0 else p.B
    w.dst = pool_alloc(w.batches * w.rows * w.cols * fg_itemsize(p.z.dtype))
    if w.dst != NULL:
        parallel_for(w.batches * w.rows, max(1, 10000 // (w.cols + 1)), _spread_body, &w)
    return w.dst


cdef char *pack_complex(FgDot *p, char *src) noexcept nogil:
    cdef FgDot q
    cdef int64_t sb, sb1
    q.B, q.inner = p.B, 0
    q.in_dtype = q.work = p.z.dtype
    return pack(&q, src, p.z.a, 0, p.z.M, p.z.K, PACK_ROWS, &sb, &sb1)
