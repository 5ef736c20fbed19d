"""Matrix products: `dot` computes out[b, m, n] = sum_k a[b, m, k] b[b, k, n] (+ c[b, m, n]).

Eight ways, chosen when the program is built:
  stream  one operand has few rows (matrix-vector, a handful of tokens), or the dtype is an integer: own loops read
          the large operand once where it lies, 16-bit floats and complex numbers included.
  gemm    own register tiles (gemm.pyx), for float32, float64 and complex numbers.
  blas    single-threaded OpenBLAS calls on panels of the output, or on whole batch entries: builds without vectors of 256 bits.
  split   few outputs and a long K: chunks of K in parallel, then summed in order, so the result does not depend on the threads.
  single  one register tile of operands as they lie, or one row against a few short ones.
  tiny    batches of small matrices, an entry in each lane of a vector (gemm_batch.h, batch_int.h); complex ones are real ones of twice the
          size (FgComplex).
  entries batches of small matrices whose rows lie along the result's, one after the other (gemm_entries.h); vectors of 256 bits.
  few     two matrices of a few elements, number by number.
Transposes are flags; an operand is packed only when no axis has unit stride or its dtype must be widened.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint16_t, uint32_t

from fgrad._kernels.abi cimport *
from fgrad._kernels.blas cimport NO_TRANS, gemm
from fgrad._kernels.dot_pack cimport pack, pack_complex, spread
from fgrad._kernels.dot_plan cimport *
from fgrad._kernels.gemm cimport GEMM_LONGEST, GemmJob, gemm_by_tiles, gemm_run
from fgrad._kernels.memory cimport pool_alloc, pool_free
from fgrad._kernels.parallel cimport parallel_for

cdef enum:
    PANELS = 16                   # of what the library multiplies: so many threads take part

cdef extern from "matmul.h" nogil:
    void fg_single(const FgDot *p, const char *a, const char *b, char *c)
    void gemm_f32_thin(const FgDot *p, int64_t begin, int64_t end, const float *a, const float *b, float *c)
    void gemm_f64_thin(const FgDot *p, int64_t begin, int64_t end, const double *a, const double *b, double *c)
    void gemm_f32_entries(const FgDot *p, int64_t begin, int64_t end, const float *a, const float *b, float *c)
    void gemm_f64_entries(const FgDot *p, int64_t begin, int64_t end, const double *a, const double *b, double *c)
    void gemm_f32_batch(const FgDot *p, int64_t begin, int64_t end, const float *a, const float *b, float *c)
    void gemm_f64_batch(const FgDot *p, int64_t begin, int64_t end, const double *a, const double *b, double *c)
    void fg_few_product(const FgDot *p, const char *a, const char *b, char *c)
    int64_t fg_batch_lanes(int work)
    void fg_batch_int(const FgDot *p, int64_t begin, int64_t end, const char *a, const char *b, char *c)
    void fg_batch16(const FgDot *p, int64_t begin, int64_t end, const uint16_t *a, const uint16_t *b, char *c)
    enum: FG_CLOSE, FG_NEAR, FG_FAR, FG_DOTS, FG_DOTS_FAR
    void fg_block(int way, int work, int bdt, int odt, int64_t M, int64_t nk, int64_t nb, const char *x, int64_t ldx,
                  const char *b, int64_t ldb, int64_t ahead, char *out, int64_t sm, int64_t sn, int mode)
    int64_t fg_batch_ahead(int64_t step, int64_t entry, int64_t row, int64_t entries)
    void fg_across(int way, int work, int bdt, int odt, int64_t entries, int64_t M, int64_t nk, int64_t nb, const char *x, int64_t x0, int64_t ldx,
                   const char *b, int64_t b0, int64_t ldb, char *out, int64_t c0, int64_t sm, int64_t sn, int mode)
    int64_t fg_entry(const FgDot *p, int64_t i, int64_t outer, int64_t stride)
    enum: FG_ACROSS_ROWS, FG_BLOCK_SIZE
    void fg_reduce_row(int work, int odt, const char *part, int64_t nk, int64_t step, int64_t n, char *out, int64_t sn, int mode)
    void fg_pair_rows(const uint16_t *src, int64_t sk, int64_t sl, int64_t K, int64_t lanes, uint32_t *dst, int64_t r0, int64_t r1)
    void fg_copy_row(char *dst, const char *src, int64_t n, int64_t stride, int64_t item)
    void fg_narrow_row(int odt, const float *src, int64_t n, char *dst, int64_t sn, int mode)

cdef extern from "matmul_sums.h" nogil:
    enum: FG_SUMS_OTHER, FG_SUMS_CHAINS
    int fg_sums_of_single(const FgDot *p)

cdef struct Work:
    FgDot *p
    char *a
    char *b
    char *out
    char *src                         # accumulator being copied
    char *dst
    int64_t blocks_m, blocks_n, len_n, panels_m, panels_n
    int64_t a0, b0, c0, ldc           # batch strides of the operands as the inner loops see them
    int64_t a1, b1, c1                # those of the first of two batch axes
    int32_t mode, narrow


# ---------------------------------------------------------------- rows of the output

cdef void _rows_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Copy the accumulator's rows to the output, or clear them."""
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef int64_t item = fg_itemsize(p.out_dtype), i, off
    for i in range(begin, end):
        off = (fg_entry(p, i // p.M, p.outer[2], p.c[0]) + (i % p.M) * p.c[1]) * item
        fg_copy_row(w.out + off, NULL if w.src == NULL else w.src + off, p.N, p.c[2], item)


cdef void _narrow_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef int64_t i
    for i in range(begin, end):
        fg_narrow_row(p.out_dtype, <float *>w.src + i * p.N, p.N, w.out + (fg_entry(p, i // p.M, p.outer[2], p.c[0]) + (i % p.M) * p.c[1]) * 2, p.c[2], p.acc)


# ---------------------------------------------------------------- stream

cdef void _stream_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are blocks (batch, columns, chunk of K, rows), rows fastest so that a block of B stays in cache."""
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef bint dots = p.algo == DOTS
    cdef int bdt = p.bytes if p.bytes else p.work if p.pack_b else p.in_dtype
    cdef bint far = p.K * p.N * fg_itemsize(bdt) > FG_CLOSE
    cdef int way = (FG_DOTS_FAR if far else FG_DOTS) if dots else FG_FAR if far else FG_NEAR
    cdef int64_t xsz = fg_itemsize(p.work), bsz = fg_itemsize(bdt), i, r, m, k, n, b, mb, nb, kc, osz
    cdef int64_t row = p.ldb * bsz, ahead = fg_batch_ahead(0 if p.inner else w.b0 * bsz, row * (p.N if dots else p.K), row, p.B) // bsz
    cdef char *x
    cdef char *y
    for i in range(begin, end):
        r = i
        m = (r % w.blocks_m) * FG_MB
        r //= w.blocks_m
        k = (r % p.nk) * p.kc
        r //= p.nk
        n = (r % w.blocks_n) * w.len_n
        b = r // w.blocks_n
        mb = min(<int64_t>FG_MB, p.M - m)
        nb = min(w.len_n, p.N - n)
        kc = min(p.kc, p.K - k)
        x = w.a + (fg_entry(p, b, w.a1, w.a0) + m * p.lda + k) * xsz
        y = w.b + (fg_entry(p, b, w.b1, w.b0) + (n * p.ldb + k if dots else k * p.ldb + n)) * bsz
        if p.nk > 1:       # partial sums, one (B, M, N) per chunk
            fg_block(way, p.work, bdt, p.work, mb, kc, nb, x, p.lda, y, p.ldb, 0,
                     w.dst + (((k // p.kc) * p.B + b) * p.M * p.N + m * p.N + n) * xsz, p.N, 1, 0)
        else:
            osz = fg_itemsize(p.out_dtype)
            fg_block(way, p.work, bdt, p.out_dtype, mb, kc, nb, x, p.lda, y, p.ldb, ahead,
                     w.out + (fg_entry(p, b, p.outer[2], p.c[0]) + m * p.c[1] + n * p.c[2]) * osz, p.c[1], p.c[2], w.mode)


cdef void _reduce_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef int64_t i
    for i in range(begin, end):
        fg_reduce_row(p.work, p.out_dtype, w.dst + i * p.N * fg_itemsize(p.work), p.nk, p.B * p.M * p.N, p.N,
                      w.out + (fg_entry(p, i // p.M, p.outer[2], p.c[0]) + (i % p.M) * p.c[1]) * fg_itemsize(p.out_dtype), p.c[2], w.mode)


cdef void _across_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are blocks (outer batch axis, group of entries, chunk of K, columns)."""
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef bint dots = p.algo == DOTS
    cdef int64_t xsz = fg_itemsize(p.work), bsz = fg_itemsize(p.in_dtype), osz = fg_itemsize(p.out_dtype)
    cdef int64_t inner = p.inner if p.inner else p.B, groups = (inner + p.group - 1) // p.group, i, r, n, k, e, o, count, nb, kc
    cdef char *x
    cdef char *y
    for i in range(begin, end):
        r = i
        n = (r % w.blocks_n) * w.len_n
        r //= w.blocks_n
        k = (r % p.nk) * p.kc
        r //= p.nk
        e = inner * (r % groups) // groups
        count = inner * (r % groups + 1) // groups - e
        o = r // groups
        nb = min(w.len_n, p.N - n)
        kc = min(p.kc, p.K - k)
        x = w.a + (o * w.a1 + e * w.a0 + k) * xsz
        y = w.b + (o * w.b1 + e * w.b0 + (n * p.ldb + k if dots else k * p.ldb + n)) * bsz
        if p.nk > 1:
            fg_across(FG_NEAR, p.work, p.in_dtype, p.work, count, p.M, kc, nb, x, w.a0, p.lda, y, w.b0, p.ldb,
                      w.dst + (((k // p.kc) * p.B + o * inner + e) * p.M * p.N + n) * xsz, p.M * p.N, p.N, 1, 0)
        else:
            fg_across(FG_DOTS if dots else FG_NEAR, p.work, p.in_dtype, p.out_dtype, count, p.M, kc, nb, x, w.a0, p.lda, y, w.b0, p.ldb,
                      w.out + (o * p.outer[2] + e * p.c[0] + n * p.c[2]) * osz, p.c[0], p.c[1], p.c[2], w.mode)


cdef void _across(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef int64_t inner = p.inner if p.inner else p.B, groups = (inner + p.group - 1) // p.group, tasks, cost
    w.len_n = min(<int64_t>64, FG_BLOCK_SIZE // (p.group * p.M)) // FG_ACROSS_ROWS * FG_ACROSS_ROWS if p.algo == DOTS else p.N
    w.blocks_n = (p.N + w.len_n - 1) // w.len_n
    tasks = p.B // inner * groups * w.blocks_n * p.nk
    cost = p.group * p.kc * min(w.len_n, p.N) * (p.M + fg_itemsize(p.in_dtype)) // (100 if p.in_dtype == p.work else 60) + 50
    parallel_for(tasks, max(1, 3000 // cost), _across_body, w)
    if p.nk > 1:
        parallel_for(p.B * p.M, max(1, 60000 // (p.N * p.nk)), _reduce_body, w)


cdef void _stream(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef int64_t tasks, cost
    if p.group:
        _across(w)
        return
    w.len_n = FG_NB * (1 if p.work > FG_F64 else 4 if p.M == 1 else 2 if p.M <= 4 else 1) if p.algo == AXPY else min(<int64_t>FG_NB, (p.B * p.N * p.nk // 32 + 15) // 16 * 16 + 16)
    if p.B == p.nk == 1 and p.M <= FG_MB and p.N <= w.len_n:       # one block: none to share
        w.blocks_m = w.blocks_n = 1
        _stream_body(w, 0, 1, 0)
        return
    w.blocks_m = (p.M + FG_MB - 1) // FG_MB
    w.blocks_n = (p.N + w.len_n - 1) // w.len_n
    tasks = p.B * w.blocks_n * w.blocks_m * p.nk
    cost = p.kc * min(w.len_n, p.N) * (min(p.M, <int64_t>FG_MB) + fg_itemsize(p.in_dtype)) // (100 if p.in_dtype == p.work else 60) + 50
    parallel_for(tasks, max(1, 3000 // cost), _stream_body, w)          # cost: nanoseconds, roughly
    if p.nk > 1:
        parallel_for(p.B * p.M, max(1, 60000 // (p.N * p.nk)), _reduce_body, w)


# ---------------------------------------------------------------- gemm

cdef void _strides(int how, const int64_t *s, int64_t rows, int64_t cols, int64_t *row, int64_t *col) noexcept nogil:
    """The strides of an operand as it lies, or as it was packed."""
    row[0] = cols if how == PACK_ROWS else 1 if how else s[1]
    col[0] = rows if how == PACK_COLS else 1 if how else s[2]


cdef struct Pairs:
    const FgDot *p
    const uint16_t *src
    uint32_t *dst
    int64_t sb, sb1, sk, sl, K, lanes


cdef void _pair_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are rows of pairs of every batch entry."""
    cdef Pairs *w = <Pairs *>ctx
    cdef int64_t rows = (w.K + 1) // 2, i = begin, b, r0, r1
    while i < end:
        b = i // rows
        r0 = i - b * rows
        r1 = min(rows, r0 + end - i)
        fg_pair_rows(w.src + fg_entry(w.p, b, w.sb1, w.sb), w.sk, w.sl, w.K, w.lanes, w.dst + b * rows * w.lanes, r0, r1)
        i += r1 - r0


cdef char *_pairs(FgDot *p, char *src, int64_t sb, int64_t sb1, int64_t sk, int64_t sl, int64_t lanes,
                  int64_t *batch, int64_t *outer, int64_t *k, int64_t *lane) noexcept nogil:
    """Strides, in pairs, of an operand that is pairs as it lies, or of the copy that is returned; batch is INT64_MIN without memory for one."""
    cdef Pairs w
    cdef int64_t batches = 1 if p.B == 1 or (sb == 0 and (not p.inner or sb1 == 0)) else p.B, rows = (p.K + 1) // 2
    cdef bint even = batches == 1 or (sb % 2 == 0 and (not p.inner or sb1 % 2 == 0))
    if sk == 1 and p.K % 2 == 0 and (sl % 2 == 0 or lanes == 1) and even and <size_t>src % 4 == 0:
        batch[0], outer[0], k[0], lane[0] = sb // 2, sb1 // 2, 1, sl // 2
        return NULL
    w.p = p
    w.sb1 = sb1
    w.src, w.dst = <const uint16_t *>src, <uint32_t *>pool_alloc(batches * rows * lanes * 4)
    w.sb, w.sk, w.sl, w.K, w.lanes = sb, sk, sl, p.K, lanes
    batch[0], k[0], lane[0] = 0 if batches == 1 else rows * lanes, lanes, 1
    outer[0] = batch[0] * p.inner
    if w.dst == NULL:
        batch[0] = INT64_MIN
    else:
        parallel_for(batches * rows, max(1, 20000 // (lanes + 1)), _pair_body, &w)
    return <char *>w.dst


cdef int _gemm_pairs(Work *w) noexcept nogil:
    """A product of bfloat16 in pairs along k."""
    cdef FgDot *p = w.p
    cdef GemmJob j
    cdef int status = FG_EMEM
    cdef char *a
    cdef char *b = NULL
    j.halves = p.b[2] == 1
    a = _pairs(p, w.a, p.a[0], p.outer[0], p.a[2], p.a[1], p.M, &j.a0, &j.a1, &j.ca, &j.ra)
    if j.halves:
        j.b0, j.b1, j.rb, j.cb = p.b[0], p.outer[1], p.b[1], 1
    else:
        b = _pairs(p, w.b, p.b[0], p.outer[1], p.b[1], p.b[2], p.N, &j.b0, &j.b1, &j.rb, &j.cb)
    if j.a0 != INT64_MIN and j.b0 != INT64_MIN:
        j.B, j.M, j.N, j.K, j.depth = p.B, p.M, p.N, (p.K + 1) // 2, p.K
        j.c0, j.c1, j.ldc, j.inner = w.c0, w.c1, w.ldc, p.inner
        j.f64, j.cplx, j.pairs, j.add, j.turned, j.narrow = 0, 0, 1, w.mode, 0, w.narrow
        j.a, j.b, j.c = a if a != NULL else w.a, b if b != NULL else w.b, w.dst
        status = gemm_run(&j)
    pool_free(a)
    pool_free(b)
    return status


cdef int _gemm_spread(Work *w, GemmJob *j) noexcept nogil:
    """A product of complex64 on the tile unit, as one of real numbers with b spread to twice its rows and columns; -1 where it is not for it."""
    cdef FgDot *p = w.p
    cdef FgDot q
    cdef int64_t step = j.b0
    cdef int status
    if p.work != FG_C64 or j.ca != 2 or p.nk != 1 or p.inner or p.M < 96 or <double>p.M * p.N * p.K < 1e7:      # b is packed twice
        return -1
    j.K, j.ca, j.rb, j.cb, j.cplx = 2 * p.K, 1, 2 * p.N, 1, 0
    j.b0 = 0 if p.B == 1 or step == 0 else 4 * p.K * p.N
    if gemm_by_tiles(j):
        q.B = p.B
        q.z.dtype, q.z.K, q.z.N, q.z.columns = FG_C64, p.K, p.N, 0
        q.z.b[0] = step // 2
        _strides(p.pack_b, p.b, p.K, p.N, &q.z.b[1], &q.z.b[2])
        j.b = spread(&q, w.b)
        status = gemm_run(j) if j.b != NULL else FG_EMEM
        pool_free(<char *>j.b)
        return status
    j.K, j.ca, j.rb, j.b0, j.cplx, j.b = p.K, 2, 0, step, 1, w.b
    return -1


cdef int _gemm(Work *w) noexcept nogil:
    """One product, or one per chunk of K, all chunks but the last of equal length."""
    cdef FgDot *p = w.p
    cdef GemmJob j
    cdef int64_t two = 2 if p.work >= FG_C64 else 1, sz = fg_itemsize(p.work) // two, whole = p.K // p.kc
    cdef int status
    j.B, j.M, j.N, j.K = p.B, p.M, two * p.N, p.K
    _strides(p.pack_a, p.a, p.M, p.K, &j.ra, &j.ca)
    _strides(p.pack_b, p.b, p.K, p.N, &j.rb, &j.cb)
    j.a0, j.b0, j.c0, j.ldc = two * w.a0, two * w.b0, two * w.c0, two * w.ldc
    j.inner, j.a1, j.b1, j.c1 = p.inner, two * w.a1, two * w.b1, two * w.c1
    j.ra, j.ca, j.rb = two * j.ra, two * j.ca, two * j.rb
    j.f64, j.cplx, j.pairs, j.turned, j.halves, j.narrow = p.work in (FG_F64, FG_C128), two == 2, 0, p.turned, 0, w.narrow
    j.add = w.mode
    j.a, j.b, j.c = w.a, w.b, w.dst
    if two == 2:
        status = _gemm_spread(w, &j)
        if status >= 0:
            return status
        _strides(p.pack_b, p.b, p.K, p.N, &j.rb, &j.cb)
        j.rb *= 2
    if p.nk == 1:
        return gemm_run(&j)
    j.add = 0
    j.B, j.K = whole, p.kc
    j.a0, j.b0, j.c0, j.ldc = p.kc * j.ca, p.kc * j.rb, two * p.M * p.N, two * p.N
    status = gemm_run(&j)
    if p.K > whole * p.kc and status == FG_OK:
        j.B, j.K = 1, p.K - whole * p.kc
        j.a, j.b, j.c = w.a + whole * j.a0 * sz, w.b + whole * j.b0 * sz, w.dst + whole * j.c0 * sz
        status = gemm_run(&j)
    if status == FG_OK:
        parallel_for(p.M, max(1, 60000 // (p.N * p.nk)), _reduce_body, w)
    return status


# ---------------------------------------------------------------- blas

cdef inline int64_t _cut(int64_t n, int64_t i, int64_t parts) noexcept nogil:
    """Where part i of n begins, on a multiple of 8 (the micro-kernels' width)."""
    return n if i == parts else n * i // parts // 8 * 8


cdef void _blas_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are panels of the output of every batch entry, or chunks of K."""
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    cdef int64_t sz = fg_itemsize(p.work), per = w.panels_m * w.panels_n, i, b, r, m0, m1, n0, n1, k, kc, am, ak, bk, bn
    am = p.lda if p.ta == NO_TRANS else 1
    ak = 1 if p.ta == NO_TRANS else p.lda
    bk = p.ldb if p.tb == NO_TRANS else 1
    bn = 1 if p.tb == NO_TRANS else p.ldb
    for i in range(begin, end):
        if p.nk > 1:
            k = i * p.kc
            kc = min(p.kc, p.K - k)
            gemm(p.work, p.ta, p.tb, p.M, p.N, kc, w.a + k * ak * sz, p.lda, w.b + k * bk * sz, p.ldb, 0, w.dst + i * p.M * p.N * sz, p.N)
            continue
        b = i // per
        r = i % per
        m0 = _cut(p.M, r // w.panels_n, w.panels_m)
        m1 = _cut(p.M, r // w.panels_n + 1, w.panels_m)
        n0 = _cut(p.N, r % w.panels_n, w.panels_n)
        n1 = _cut(p.N, r % w.panels_n + 1, w.panels_n)
        if m1 > m0 and n1 > n0:
            gemm(p.work, p.ta, p.tb, m1 - m0, n1 - n0, p.K, w.a + (fg_entry(p, b, w.a1, w.a0) + m0 * am) * sz, p.lda,
                 w.b + (fg_entry(p, b, w.b1, w.b0) + n0 * bn) * sz, p.ldb, w.mode, w.dst + (fg_entry(p, b, w.c1, w.c0) + m0 * w.ldc + n0) * sz, w.ldc)


cdef void _blas(Work *w) noexcept nogil:
    """Whole batch entries when there are enough of them, else panels of each, as many by the work alone: how the library rounds at their
    edges shall not depend on threads.  ~100 flops a nanosecond."""
    cdef FgDot *p = w.p
    cdef int64_t parts, flops, best, d
    cdef double work = 2.0 * p.M * p.N * p.K * (4 if p.work >= FG_C64 else 1)
    flops = <int64_t>min(work, 1e15)
    w.panels_m = w.panels_n = 1
    if p.nk > 1:
        parallel_for(p.nk, max(1, 1000000 * p.nk // flops), _blas_body, w)
        parallel_for(p.M, max(1, 60000 // (p.N * p.nk)), _reduce_body, w)
        return
    if 0 < p.B < PANELS and flops >= 2000000:
        parts = min(PANELS // p.B, flops // 1000000)
        best = INT64_MAX
        for d in range(1, parts + 1):              # the divisors whose panels read the least
            if parts % d == 0 and p.M // d + p.N // (parts // d) < best:
                best = p.M // d + p.N // (parts // d)
                w.panels_m = d
                w.panels_n = parts // d
    parallel_for(p.B * w.panels_m * w.panels_n, max(1, 1000000 * w.panels_m * w.panels_n // (flops + 1)), _blas_body, w)


# ---------------------------------------------------------------- tiny

cdef void _tiny_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are vectors of batch entries."""
    cdef Work *w = <Work *>ctx
    cdef FgDot *p = w.p
    if p.work <= FG_U64:
        fg_batch_int(p, begin, end, w.a, w.b, w.out)
    elif p.work == FG_F64:
        gemm_f64_batch(p, begin, end, <double *>w.a, <double *>w.b, <double *>w.out)
    elif p.in_dtype == FG_F32:
        gemm_f32_batch(p, begin, end, <float *>w.a, <float *>w.b, <float *>w.out)
    else:
        fg_batch16(p, begin, end, <uint16_t *>w.a, <uint16_t *>w.b, w.out)


cdef void _tiny(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef int64_t lanes = fg_batch_lanes(p.work)
    cdef int64_t cost = p.M * p.N * p.K // 2 + 3 * (p.M * p.K + p.K * p.N + p.M * p.N) + 20       # nanoseconds, roughly
    parallel_for((p.B + lanes - 1) // lanes, max(1, 10000 // cost), _tiny_body, w)


cdef void _thin_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are blocks of rows."""
    cdef Work *w = <Work *>ctx
    if w.p.work == FG_F64:
        gemm_f64_thin(w.p, begin, end, <double *>w.a, <double *>w.b, <double *>w.out)
    else:
        gemm_f32_thin(w.p, begin, end, <float *>w.a, <float *>w.b, <float *>w.out)


cdef void _thin(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef int64_t cost = FG_THIN_ROWS * (p.K * p.N + 2 * (p.K + p.N)) // 16      # nanoseconds, roughly
    parallel_for((p.M + FG_THIN_ROWS - 1) // FG_THIN_ROWS, max(1, 10000 // cost), _thin_body, w)


cdef void _entries_body(void *ctx, int64_t begin, int64_t end, int tid) noexcept nogil:
    """Units are batch entries."""
    cdef Work *w = <Work *>ctx
    if w.p.work == FG_F64:
        gemm_f64_entries(w.p, begin, end, <double *>w.a, <double *>w.b, <double *>w.out)
    else:
        gemm_f32_entries(w.p, begin, end, <float *>w.a, <float *>w.b, <float *>w.out)


cdef void _entries(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef int64_t cost = p.M * p.N * p.K // 16 + 4 * p.M + 4                     # nanoseconds, roughly
    parallel_for(p.B, max(1, 10000 // cost), _entries_body, w)


# ---------------------------------------------------------------- run

cdef int _panels(Work *w) noexcept nogil:
    if w.p.algo == GEMM:
        return _gemm_pairs(w) if w.p.pairs else _gemm(w)
    _blas(w)
    return FG_OK


cdef int _product(Work *w) noexcept nogil:
    cdef FgDot *p = w.p
    cdef char *pa = NULL
    cdef char *pb = NULL
    cdef char *scratch = NULL
    cdef int64_t need = 0
    cdef int status = FG_EMEM
    w.a0, w.a1 = p.a[0], p.outer[0]
    w.b0, w.b1 = p.b[0], p.outer[1]
    if p.pack_a:
        pa = pack(p, w.a, p.a, p.outer[0], p.M, p.K, p.pack_a, &w.a0, &w.a1)
        w.a = pa
    if p.pack_b:
        pb = pack(p, w.b, p.b, p.outer[1], p.K, p.N, p.pack_b, &w.b0, &w.b1)
        w.b = pb
    if p.nk > 1:
        need = p.nk * p.B * p.M * p.N
    elif p.algo >= BLAS and p.out_dtype != p.work:
        w.narrow = p.out_dtype if p.algo == GEMM and not p.acc and ((p.K + 1) // 2 if p.pairs else p.K) <= GEMM_LONGEST else 0
        need = 0 if w.narrow else p.B * p.M * p.N
    if need:
        scratch = pool_alloc(need * fg_itemsize(p.work))
    if w.a != NULL and w.b != NULL and (scratch != NULL or not need):
        status = FG_OK
        w.dst = scratch if need else w.out
        w.c0, w.c1 = p.c[0], p.outer[2]
        w.ldc = p.c[2] if p.turned else p.c[1] if p.M > 1 else p.N
        if p.algo < BLAS:
            _stream(w)
        elif p.nk == 1 and need:           # 16-bit output: the product in float32, then narrowed
            w.c0, w.c1 = p.M * p.N, p.inner * p.M * p.N
            w.ldc = p.N
            w.mode = 0
            status = _panels(w)
            w.src = scratch
            parallel_for(p.B * p.M, max(1, 50000 // p.N), _narrow_body, w)
        else:
            status = _panels(w)
    pool_free(pa)
    pool_free(pb)
    pool_free(scratch)
    return status


cdef int dot_run(const FgInst *inst, FgTensor *slots) noexcept nogil:
    cdef FgDot *p = <FgDot *>inst.extra
    cdef Work w
    cdef char *za = NULL
    cdef char *zb = NULL
    cdef int status
    if p.algo == EMPTY:
        return FG_OK
    if p.algo == FEW:
        fg_few_product(p, FG_IN(inst, slots, 0).data, FG_IN(inst, slots, 1).data, FG_OUT(inst, slots, 0).data)
        return FG_OK
    w.p = p
    w.a = FG_IN(inst, slots, 1 if p.swapped else 0).data
    w.b = FG_IN(inst, slots, 0 if p.swapped else 1).data
    w.out = FG_OUT(inst, slots, 0).data
    w.src = FG_IN(inst, slots, 2).data if p.acc else NULL
    w.mode = p.acc
    w.narrow = 0
    if (p.acc and w.src != w.out) or (p.algo == CLEAR and not p.acc):
        parallel_for(p.B * p.M, max(1, 100000 // p.N), _rows_body, &w)
    if p.algo == CLEAR:
        return FG_OK
    if p.algo == SINGLE:
        fg_single(p, w.a, w.b, w.out)
        return FG_OK
    if p.z.dtype:
        za = FG_IN(inst, slots, 1 if p.z.swapped else 0).data
        if p.z.pack_a:
            za = pack_complex(p, za)
        zb = spread(p, FG_IN(inst, slots, 0 if p.z.swapped else 1).data)
        w.a, w.b = zb if p.swapped != p.z.swapped else za, za if p.swapped != p.z.swapped else zb
    if w.a == NULL or w.b == NULL:
        status = FG_EMEM
    elif p.algo == TINY:
        _tiny(&w)
        status = FG_OK
    elif p.algo == THIN:
        _thin(&w)
        status = FG_OK
    elif p.algo == ENTRIES:
        _entries(&w)
        status = FG_OK
    else:
        status = _product(&w)
    if p.z.pack_a:
        pool_free(za)
    pool_free(zb)
    return status


cdef int summed(const FgInst *inst) noexcept nogil:
    """How the elements of a product are summed: one of FG_SUMS_*."""
    cdef const FgDot *p = <const FgDot *>inst.extra
    if p.algo == SINGLE:
        return fg_sums_of_single(p)
    return FG_SUMS_CHAINS if p.algo in (FEW, ENTRIES) or (p.algo == TINY and p.work >= FG_F32 and p.in_dtype == p.work) else FG_SUMS_OTHER


KERNELS = {"dot": (<size_t><void *>dot_run, <size_t><void *>dot_check)}
SUMMED = <size_t><void *>summed
