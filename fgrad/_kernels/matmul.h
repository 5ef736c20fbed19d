/* Inner loops of `dot`: rows of A against blocks of B held in the first cache, conversions, packing. */
#ifndef FG_MATMUL_H
#define FG_MATMUL_H
#include "fg.h"
#include "gemm.h"
#include "half.h"
#include "stream16.h"

#define FG_MB GEMM_DOTS_ROWS     /* rows of A in a block: 8 */
#define FG_NB 512        /* columns of B in a block of FG_MB rows; a single row takes up to four times as many */
#define FG_BLOCK_SIZE (FG_MB * FG_NB)
#define FG_XMAX 4096     /* elements of x that stay in the first cache */
#define FG_SHORT16 FG_CHUNK      /* rows of 16-bit numbers below one chunk are turned into columns first */
#define FG_CLOSE (1 << 20)       /* bytes of B that the second cache holds */
enum { FG_NEAR, FG_FAR, FG_DOTS, FG_DOTS_FAR };  /* how a block goes: along B's rows or as sums of products of rows, close or far away */

/* Complex operands a (M, K) and b (K, N) of a product that is computed as one of real numbers, a (M, 2K) b (2K, 2N): rows of a are pairs
 * as they lie (or are packed), b is spread so that an element x + iy becomes the block (x, y; -y, x). */
typedef struct {
    int64_t M, N, K, a[3], b[3];        /* sizes and strides in complex elements */
    int32_t dtype, swapped;             /* dtype 0: the product is not complex */
    int32_t pack_a, columns;            /* columns: b is spread into contiguous columns */
} FgComplex;

/* The product one instruction computes: out[b, m, n] (+)= sum_k a[b, m, k] * b[b, k, n].  Strides in elements. */
typedef struct {
    int64_t B, M, N, K;
    int64_t inner, outer[3];            /* where the batch has two axes, entries along the second, and strides of a, b and c along the first; else inner is 0 */
    int64_t group;                      /* entries that are streamed together, in the order in which b lies (fg_across); 0: one after the other */
    int64_t a[3];                       /* strides of b, m, k */
    int64_t b[3];                       /* strides of b, k, n */
    int64_t c[3];                       /* strides of b, m, n */
    int64_t nk, kc;                     /* chunks of K and their length, when K is split */
    int32_t in_dtype, out_dtype, work;  /* work: dtype of the arithmetic */
    int32_t swapped, acc, algo;         /* swapped: out^T = b^T a^T is computed, the inputs trade places */
    int32_t pack_a, pack_b;             /* bring the operand to a layout and dtype the inner loops take */
    int64_t lda, ldb;                   /* row strides of the operands, packed or not */
    int32_t ta, tb;                     /* BLAS transpose flags */
    int32_t pairs;                      /* bfloat16 in pairs along k */
    int32_t turned;                     /* the output's rows are contiguous, not its columns */
    int32_t bytes;                      /* the dtype of a b of bytes, which a few rows of float32 meet where it lies; or 0 */
    FgComplex z;                        /* of complex operands, of which the rest describes a product of real numbers */
} FgDot;

/* Where entry i of a batch begins. */
static inline int64_t fg_entry(const FgDot *p, int64_t i, int64_t outer, int64_t stride) {
    return p->inner ? i / p->inner * outer + i % p->inner * stride : i * stride;
}

/* A product of one matrix by another with few elements each, number by number: each the same chain over k as in a tile. */
#define FG_FEW 16
static inline int fg_few(int64_t B, int64_t M, int64_t N, int64_t K) {
    return B == 1 && M * K <= FG_FEW && K * N <= FG_FEW && M * N <= FG_FEW && M * N * K <= 4 * FG_FEW;
}
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)          /* said outright: a loop that becomes vectors of products is not contracted */
#define FG_MADD(fma, sum, x, y) fma(x, y, sum)
#else
#define FG_MADD(fma, sum, x, y) ((sum) + (x) * (y))
#endif
#include "stream8.h"
#define FG_FEW_PRODUCT(T, fma) { \
    const T *x = (const T *)a, *y = (const T *)b; \
    for (int64_t m = 0; m < p->M; m++) for (int64_t n = 0; n < p->N; n++) { \
        T sum = 0; \
        for (int64_t k = 0; k < p->K; k++) sum = FG_MADD(fma, sum, x[m * p->a[1] + k * p->a[2]], y[k * p->b[1] + n * p->b[2]]); \
        ((T *)c)[m * p->c[1] + n * p->c[2]] = sum; \
    } }
static void fg_few_product(const FgDot *p, const char *a, const char *b, char *c) {
    if (p->work == FG_F64) FG_FEW_PRODUCT(double, __builtin_fma) else FG_FEW_PRODUCT(float, __builtin_fmaf)
}

/* Elements of one matrix up to which products of a batch are computed with an entry in each lane. */
#define FG_TINY 64
/* Entries go one after the other where rows of c are of so many vectors and matrices of so many elements. */
enum { FG_ENTRY_VECTORS = 4, FG_ENTRY = 1024 };
/* Many rows meet a small matrix as columns: elements of such a row, bytes of a row of the product, and rows of a block. */
enum { FG_THIN = 8, FG_THIN_BYTES = 24, FG_THIN_ROWS = 128 };
#if defined(__FMA__) && defined(__AVX2__) && !defined(__AVX512F__)         /* also said outright: tuned for Zen, GCC leaves sums in a loop apart */
#include <immintrin.h>
#define GEMM_MADD(sum, x, y) ((gemm_f32_vec)_mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(sum)))
#define GEMM_MADD_F64(sum, x, y) ((gemm_f64_vec)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(sum)))
#else
#define GEMM_MADD(sum, x, y) ((sum) + (x) * (y))
#define GEMM_MADD_F64(sum, x, y) ((sum) + (x) * (y))
#endif
#define T float
#define N(x) gemm_f32_##x
#include "gemm_batch.h"
#include "gemm_thin.h"
#include "gemm_entries.h"
#undef T
#undef N
#undef GEMM_MADD
#define GEMM_MADD GEMM_MADD_F64
#define T double
#define N(x) gemm_f64_##x
#include "gemm_batch.h"
#include "gemm_thin.h"
#include "gemm_entries.h"
#undef T
#undef N
#undef GEMM_MADD

/* A product of one register tile, of two vectors, or of a row against rows of at most a vector: nothing to pack, to share, or to look up. */
static void fg_single(const FgDot *p, const char *a, const char *b, char *c) {
    if (p->M == 1 && p->N == 1 && p->a[2] == 1 && p->b[1] == 1) {
        if (p->work == FG_F64) gemm_f64_dot_one(p->K, (const double *)a, (const double *)b, (double *)c, p->acc);
        else gemm_f32_dot_one(p->K, (const float *)a, (const float *)b, (float *)c, p->acc);
    }
    else if (p->work == FG_F64 && p->b[2] != 1) gemm_f64_dots_one_vector(p->N, p->K, (const double *)a, (const double *)b, p->b[2], (double *)c, p->acc);
    else if (p->b[2] != 1) gemm_f32_dots_one_vector(p->N, p->K, (const float *)a, (const float *)b, p->b[2], (float *)c, p->acc);
    else if (p->work == FG_F64) gemm_f64_tile_strided((int)p->M, p->N, p->K, (const double *)a, p->a[1], p->a[2], (const double *)b, p->b[1],
                                                      (double *)c, p->c[1], p->acc, 0, 0);
    else gemm_f32_tile_strided((int)p->M, p->N, p->K, (const float *)a, p->a[1], p->a[2], (const float *)b, p->b[1], (float *)c, p->c[1], p->acc, 0, 0);
}

/* Positive strides under which no two elements share an address: what an output must have. */
static int fg_distinct(const FgTensor *t) {
    int64_t reach = 0;
    unsigned done = 0;
    for (;;) {
        int pick = -1;
        for (int d = 0; d < t->ndim; d++)
            if (t->shape[d] > 1 && !(done >> d & 1) && (pick < 0 || t->strides[d] < t->strides[pick])) pick = d;
        if (pick < 0) return 1;
        if (t->strides[pick] <= reach) return 0;
        reach += t->strides[pick] * (t->shape[pick] - 1);
        done |= 1u << pick;
    }
}

/* y[m, 0:nb] += x[m, 0:nk] @ b[0:nk, 0:nb], rows of y ldy apart. */
#define FG_AXPY(T, NAME) \
static void NAME##_axpy(int64_t M, int64_t nk, int64_t nb, const T *restrict x, int64_t ldx, const T *restrict b, int64_t ldb, \
                        T *restrict y, int64_t ldy) { \
    int64_t k = 0; \
    for (; k + 4 <= nk; k += 4) { \
        const T *r0 = b + k * ldb, *r1 = r0 + ldb, *r2 = r1 + ldb, *r3 = r2 + ldb; \
        for (int64_t m = 0; m < M; m++) { \
            const T *xm = x + m * ldx + k; T x0 = xm[0], x1 = xm[1], x2 = xm[2], x3 = xm[3], *restrict ym = y + m * ldy; \
            for (int64_t j = 0; j < nb; j++) ym[j] = (T)(ym[j] + (T)(x0 * r0[j]) + (T)(x1 * r1[j]) + (T)(x2 * r2[j]) + (T)(x3 * r3[j])); \
        } \
    } \
    for (; k < nk; k++) for (int64_t m = 0; m < M; m++) { \
        const T *r0 = b + k * ldb; T x0 = x[m * ldx + k], *restrict ym = y + m * ldy; \
        for (int64_t j = 0; j < nb; j++) ym[j] = (T)(ym[j] + (T)(x0 * r0[j])); \
    } \
}

/* y[m, 0:nb] += rows of x against rows of b. */
#define FG_DOTS_INT(T, NAME) \
static void NAME##_dots(int64_t M, int64_t nk, int64_t nb, const T *x, int64_t ldx, const T *b, int64_t ldb, T *restrict y, int64_t ldy) { \
    for (int64_t j = 0; j < nb; j++, b += ldb) for (int64_t m = 0; m < M; m++) { \
        const T *xm = x + m * ldx; T sum = 0; \
        for (int64_t k = 0; k < nk; k++) sum = (T)(sum + (T)(xm[k] * b[k])); \
        y[m * ldy + j] = (T)(y[m * ldy + j] + sum); \
    } \
}

/* Store a block: `mode` 0 sets, 1 adds. */
#define FG_STORE(T, NAME) \
static void NAME##_store(const T *restrict y, int64_t ldy, int64_t M, int64_t nb, T *out, int64_t sm, int64_t sn, int mode) { \
    for (int64_t m = 0; m < M; m++) { \
        const T *ym = y + m * ldy; T *o = out + m * sm; \
        if (sn == 1 && mode) for (int64_t j = 0; j < nb; j++) o[j] = (T)(o[j] + ym[j]); \
        else if (sn == 1) memcpy(o, ym, (size_t)nb * sizeof(T)); \
        else if (mode) for (int64_t j = 0; j < nb; j++) o[j * sn] = (T)(o[j * sn] + ym[j]); \
        else for (int64_t j = 0; j < nb; j++) o[j * sn] = ym[j]; \
    } \
}

FG_AXPY(float, f32) FG_STORE(float, f32)
FG_STORE(double, f64)
FG_AXPY(uint8_t, u8) FG_DOTS_INT(uint8_t, u8) FG_STORE(uint8_t, u8)
FG_AXPY(uint16_t, u16) FG_DOTS_INT(uint16_t, u16) FG_STORE(uint16_t, u16)
FG_AXPY(uint32_t, u32) FG_DOTS_INT(uint32_t, u32) FG_STORE(uint32_t, u32)
FG_AXPY(uint64_t, u64) FG_DOTS_INT(uint64_t, u64) FG_STORE(uint64_t, u64)

/* One block of a streamed product, B read once where it lies: `b` points at B[k0, n0], rows ldb apart (ldb = stride of k
 * for axpy, of n for dots).  `out` is of dtype odt; 16-bit B is widened on its way, 16-bit out rounded at the end. */
static void fg_store_f32(const float *y, int64_t ldy, int64_t M, int64_t nb, char *out, int64_t sm, int64_t sn, int mode, int odt) {
    if (odt == FG_F32) { f32_store(y, ldy, M, nb, (float *)out, sm, sn, mode); return; }
    uint16_t *o = (uint16_t *)out;
    if (sn == 1 && !mode) { for (int64_t m = 0; m < M; m++) fg_narrow16(odt, y + m * ldy, o + m * sm, nb); return; }
    for (int64_t m = 0; m < M; m++) for (int64_t j = 0; j < nb; j++) {
        uint16_t *p = o + m * sm + j * sn; float v = y[m * ldy + j];
        if (odt == FG_F16) *p = fg_f32_to_f16(mode ? v + fg_f16_to_f32(*p) : v);
        else *p = fg_f32_to_bf16(mode ? v + fg_bf16_to_f32(*p) : v);
    }
}

#define FG_BLOCK(T, NAME) \
static void NAME##_block(int way, int64_t M, int64_t nk, int64_t nb, const T *x, int64_t ldx, const T *b, int64_t ldb, \
                         T *out, int64_t sm, int64_t sn, int mode) { \
    T y[FG_BLOCK_SIZE]; int64_t ldy = nb; \
    memset(y, 0, (size_t)(M * nb) * sizeof(T)); \
    if (way >= FG_DOTS) NAME##_dots(M, nk, nb, x, ldx, b, ldb, y, ldy); else NAME##_axpy(M, nk, nb, x, ldx, b, ldb, y, ldy); \
    NAME##_store(y, ldy, M, nb, out, sm, sn, mode); \
}
FG_BLOCK(uint8_t, u8) FG_BLOCK(uint16_t, u16) FG_BLOCK(uint32_t, u32) FG_BLOCK(uint64_t, u64)

static void f64_block(int way, int64_t M, int64_t nk, int64_t nb, const double *x, int64_t ldx, const double *b, int64_t ldb, int64_t ahead,
                      double *out, int64_t sm, int64_t sn, int mode) {
    double y[FG_BLOCK_SIZE]; int64_t ldy = nb;
    memset(y, 0, (size_t)(M * nb) * sizeof(double));
    int64_t step = M * nk > FG_XMAX ? FG_XMAX / M : nk;           /* the part of x in use stays in the first cache */
    if (way >= FG_DOTS) for (int64_t k = 0; k < nk; k += step) gemm_f64_dots(M, nb, nk - k < step ? nk - k : step, x + k, ldx, b + k, ldb, y, ldy, ahead);
    else for (int64_t m = 0; m < M; m++) gemm_f64_axpy(nb, nk, x + m * ldx, b, ldb, y + m * ldy, way == FG_FAR, m ? 0 : ahead);
    if (!mode && sm == 1 && sn == M) fg_rows_8(out, y, ldy, nb, M); else f64_store(y, ldy, M, nb, out, sm, sn, mode);
}

static void f32_block(int way, int bdt, int odt, int64_t M, int64_t nk, int64_t nb, const float *x, int64_t ldx,
                      const char *b, int64_t ldb, int64_t ahead, char *out, int64_t sm, int64_t sn, int mode) {
    float y[FG_BLOCK_SIZE];
    const uint16_t *h = (const uint16_t *)b;
    const int bytes = bdt == FG_I8 || bdt == FG_U8, turn = bdt != FG_F32 && !bytes && way >= FG_DOTS && nk < FG_SHORT16;
    int64_t step = M * nk > FG_XMAX ? FG_XMAX / M : nk, ldy = turn ? (nb + FG_CHUNK - 1) / FG_CHUNK * FG_CHUNK : nb;
    memset(y, 0, (size_t)(M * ldy) * sizeof(float));
    if (bytes && way >= FG_DOTS) for (int64_t k = 0; k < nk; k += step)
        fg_stream8(1, bdt, M, nb, nk - k < step ? nk - k : step, x + k, ldx, (const uint8_t *)b + k, ldb, y, ldy);
    else if (bytes) fg_stream8(0, bdt, M, nb, nk, x, ldx, (const uint8_t *)b, ldb, y, ldy);
    else if (bdt == FG_F32 && way >= FG_DOTS) for (int64_t k = 0; k < nk; k += step)
        gemm_f32_dots(M, nb, nk - k < step ? nk - k : step, x + k, ldx, (const float *)b + k, ldb, y, ldy, ahead);
    else if (bdt == FG_F32) for (int64_t m = 0; m < M; m++) gemm_f32_axpy(nb, nk, x + m * ldx, (const float *)b, ldb, y + m * ldy, way == FG_FAR, m ? 0 : ahead);
    else if (turn) {
        uint16_t columns[FG_SHORT16 * FG_NB];
        for (int64_t k = 0; k < nk; k++) memset(columns + k * ldy + nb, 0, (size_t)(ldy - nb) * 2);
        if (ldb == nk) fg_columns_2(columns, ldy, h, nb, nk);
        else for (int64_t j = 0; j < nb; j++) for (int64_t k = 0; k < nk; k++) columns[k * ldy + j] = h[j * ldb + k];
        fg_axpy16(bdt, M, ldy, nk, x, ldx, columns, ldy, y, ldy);
    } else if (way >= FG_DOTS) fg_dots16(bdt, M, nb, nk, x, ldx, h, ldb, y, ldy, way == FG_DOTS_FAR);
    else fg_axpy16(bdt, M, nb, nk, x, ldx, h, ldb, y, ldy);
    if (odt == FG_F32 && !mode && sm == 1 && sn == M) fg_rows_4(out, y, ldy, nb, M);
    else fg_store_f32(y, ldy, M, nb, out, sm, sn, mode, odt);
}

/* A line of n complex numbers, `step` apart, spread into two: along a row of b (x y, -y x), along a column (x -y, y x). */
typedef uint64_t fg_word64 __attribute__((aligned(4), may_alias));
typedef double fg_pair_f64 __attribute__((vector_size(16), aligned(8), may_alias));
static void fg_spread_c64(const fg_word64 *restrict s, int64_t step, int64_t n, int columns, fg_word64 *restrict d0, fg_word64 *restrict d1) {
    const uint64_t first = columns ? 1ull << 63 : 0, second = columns ? 0 : 1ull << 31;      /* signs; the real part is the lower half */
    if (step == 1) for (int64_t j = 0; j < n; j++) { d0[j] = s[j] ^ first; d1[j] = (s[j] << 32 | s[j] >> 32) ^ second; }
    else for (int64_t j = 0; j < n; j++) { uint64_t v = s[j * step]; d0[j] = v ^ first; d1[j] = (v << 32 | v >> 32) ^ second; }
}
static void fg_spread_c128(const fg_pair_f64 *restrict s, int64_t step, int64_t n, int columns, fg_pair_f64 *restrict d0, fg_pair_f64 *restrict d1) {
    const double first = columns ? -1 : 1;
    for (int64_t j = 0; j < n; j++) {
        fg_pair_f64 v = s[j * step];
        d0[j] = (fg_pair_f64){v[0], first * v[1]};
        d1[j] = (fg_pair_f64){-first * v[1], v[0]};
    }
}

#define T float
#define N(x) gemm_f32_##x
#define COMPLEX_SPREAD(s, n, d0, d1) fg_spread_c64((const fg_word64 *)(s), 1, n, 1, (fg_word64 *)(d0), (fg_word64 *)(d1))
#include "complex_block.h"
#undef T
#undef N
#undef COMPLEX_SPREAD
#define T double
#define N(x) gemm_f64_##x
#define COMPLEX_SPREAD(s, n, d0, d1) fg_spread_c128((const fg_pair_f64 *)(s), 1, n, 1, (fg_pair_f64 *)(d0), (fg_pair_f64 *)(d1))
#include "complex_block.h"
#undef T
#undef N
#undef COMPLEX_SPREAD

/* b is a block of `work` dtype, or 16-bit floats or bytes with work = float32 (`ahead` elements after it lies what is fetched; 0: nothing); x, and out unless 16-bit, are of `work` dtype. */
static void fg_block(int way, int work, int bdt, int odt, int64_t M, int64_t nk, int64_t nb, const char *x, int64_t ldx,
                     const char *b, int64_t ldb, int64_t ahead, char *out, int64_t sm, int64_t sn, int mode) {
    if (work == FG_C64) { gemm_f32_complex_block(way, M, nk, nb, (const float *)x, ldx, (const float *)b, ldb, ahead, (float *)out, sm, sn, mode); return; }
    if (work == FG_C128) { gemm_f64_complex_block(way, M, nk, nb, (const double *)x, ldx, (const double *)b, ldb, ahead, (double *)out, sm, sn, mode); return; }
    switch (fg_itemsize_table[work] * 2 + (work >= FG_F16)) {
    case 9: f32_block(way, bdt, odt, M, nk, nb, (const float *)x, ldx, b, ldb, ahead, out, sm, sn, mode); break;
    case 17: f64_block(way, M, nk, nb, (const double *)x, ldx, (const double *)b, ldb, ahead, (double *)out, sm, sn, mode); break;
    case 2: u8_block(way, M, nk, nb, (const uint8_t *)x, ldx, (const uint8_t *)b, ldb, (uint8_t *)out, sm, sn, mode); break;
    case 4: u16_block(way, M, nk, nb, (const uint16_t *)x, ldx, (const uint16_t *)b, ldb, (uint16_t *)out, sm, sn, mode); break;
    case 8: u32_block(way, M, nk, nb, (const uint32_t *)x, ldx, (const uint32_t *)b, ldb, (uint32_t *)out, sm, sn, mode); break;
    default: u64_block(way, M, nk, nb, (const uint64_t *)x, ldx, (const uint64_t *)b, ldb, (uint64_t *)out, sm, sn, mode);
    }
}

/* Rows of x against `entries` matrices of a batch whose rows lie between each other: in the order of memory, some rows of each at a time.
 * The entries' x, b and out are x0, b0 and c0 elements apart; the rest is fg_block's, way is FG_NEAR or FG_DOTS. */
#define FG_ACROSS_ROWS 16
#define FG_ACROSS(T, NAME, B16, STORE) \
static void NAME##_across(int way, int bdt, int odt, int64_t entries, int64_t M, int64_t nk, int64_t nb, const T *x, int64_t x0, int64_t ldx, \
                          const char *b, int64_t b0, int64_t ldb, char *out, int64_t c0, int64_t sm, int64_t sn, int mode) { \
    T y[FG_BLOCK_SIZE]; \
    const int64_t rows = way == FG_DOTS ? nb : nk; \
    memset(y, 0, (size_t)(entries * M * nb) * sizeof(T)); \
    for (int64_t r = 0; r < rows; r += FG_ACROSS_ROWS) for (int64_t e = 0; e < entries; e++) { \
        const int64_t n = rows - r < FG_ACROSS_ROWS ? rows - r : FG_ACROSS_ROWS, at = e * b0 + r * ldb; \
        const T *xe = x + e * x0; T *ye = y + e * M * nb; \
        B16 \
        if (way == FG_DOTS) gemm_##NAME##_dots(M, n, nk, xe, ldx, (const T *)b + at, ldb, ye + r, nb, 0); \
        else for (int64_t m = 0; m < M; m++) gemm_##NAME##_axpy(nb, n, xe + m * ldx + r, (const T *)b + at, ldb, ye + m * nb, 0, 0); \
    } \
    for (int64_t e = 0; e < entries; e++) STORE; \
}
FG_ACROSS(float, f32,
    if (bdt != FG_F32 && way == FG_DOTS) { fg_dots16(bdt, M, n, nk, xe, ldx, (const uint16_t *)b + at, ldb, ye + r, nb, 0); continue; }
    if (bdt != FG_F32) {
        fg_axpy16_split(bdt, M, nb, n, xe + r, ldx, (const uint16_t *)b + at, ldb, ye, nb);
        if (bdt == FG_BF16 && r + n == rows) for (int64_t m = 0; m < M; m++) fg_join(ye + m * nb, nb);
        continue;
    },
    fg_store_f32(y + e * M * nb, nb, M, nb, out + e * c0 * fg_itemsize_table[odt], sm, sn, mode, odt))
FG_ACROSS(double, f64, , f64_store(y + e * M * nb, nb, M, nb, (double *)out + e * c0, sm, sn, mode))
static void fg_across(int way, int work, int bdt, int odt, int64_t entries, int64_t M, int64_t nk, int64_t nb, const char *x, int64_t x0, int64_t ldx,
                      const char *b, int64_t b0, int64_t ldb, char *out, int64_t c0, int64_t sm, int64_t sn, int mode) {
    if (work == FG_F64) f64_across(way, bdt, odt, entries, M, nk, nb, (const double *)x, x0, ldx, b, b0, ldb, out, c0, sm, sn, mode);
    else f32_across(way, bdt, odt, entries, M, nk, nb, (const float *)x, x0, ldx, b, b0, ldb, out, c0, sm, sn, mode);
}

/* Sum `nk` partial products, `step` elements apart, into a row of out. */
static void fg_reduce_row(int work, int odt, const char *part, int64_t nk, int64_t step, int64_t n, char *out, int64_t sn, int mode) {
    if (work >= FG_C64) {                                         /* pairs of real numbers */
        const int real = work == FG_C64 ? FG_F32 : FG_F64;
        const int64_t run = sn == 1 ? n : 1, item = fg_itemsize(work);
        for (int64_t j = 0; j < n; j += run) fg_reduce_row(real, real, part + j * item, nk, 2 * step, 2 * run, out + j * sn * item, 1, mode);
        return;
    }
    for (int64_t j0 = 0; j0 < n; j0 += FG_NB) {
        int64_t nb = n - j0 < FG_NB ? n - j0 : FG_NB;
        if (work == FG_F64) {
            double y[FG_NB] = {0}; const double *p = (const double *)part + j0;
            for (int64_t k = 0; k < nk; k++) for (int64_t j = 0; j < nb; j++) y[j] += p[k * step + j];
            f64_store(y, 0, 1, nb, (double *)out + j0 * sn, 0, sn, mode);
        } else {
            float y[FG_NB] = {0}; const float *p = (const float *)part + j0;
            for (int64_t k = 0; k < nk; k++) for (int64_t j = 0; j < nb; j++) y[j] += p[k * step + j];
            fg_store_f32(y, 0, 1, nb, out + j0 * sn * fg_itemsize(odt), 0, sn, mode, odt);
        }
    }
}

/* Pack rows [r0, r1) of a strided matrix into rows of `cols` contiguous elements, converting 16-bit floats to float32 and
 * integers to a wider dtype.  Tiles of 16 x 16 keep both sides in cache when the source runs down the columns. */
typedef struct { uint32_t lo, hi; } fg_pair32;
typedef struct { uint64_t lo, hi; } fg_pair64;
#define FG_SAME(v) (v)
#define FG_PACK(S, D, CONV) do { \
    if (sc == 1) for (int64_t i = r0; i < r1; i++) { \
        const S *restrict s = (const S *)src + i * sr; D *restrict d = (D *)dst + i * cols; \
        for (int64_t j = 0; j < cols; j++) d[j] = CONV(s[j]); \
    } else for (int64_t i0 = r0; i0 < r1; i0 += 16) for (int64_t j0 = 0; j0 < cols; j0 += 16) { \
        int64_t i1 = i0 + 16 < r1 ? i0 + 16 : r1, j1 = j0 + 16 < cols ? j0 + 16 : cols; \
        for (int64_t i = i0; i < i1; i++) for (int64_t j = j0; j < j1; j++) \
            ((D *)dst)[i * cols + j] = CONV(((const S *)src)[i * sr + j * sc]); \
    } } while (0)
#define FG_PACK_INT(CODE, S) \
    case CODE: switch (fg_itemsize_table[to]) { \
        case 1: FG_PACK(S, uint8_t, (uint8_t)); break; \
        case 2: FG_PACK(S, uint16_t, (uint16_t)); break; \
        case 4: FG_PACK(S, uint32_t, (uint32_t)); break; \
        default: FG_PACK(S, uint64_t, (uint64_t)); } break;
static void fg_pack(int from, int to, const char *src, int64_t sr, int64_t sc, char *dst, int64_t r0, int64_t r1, int64_t cols) {
    switch (from) {
    case FG_F16: FG_PACK(uint16_t, float, fg_half); break;
    case FG_BF16: FG_PACK(uint16_t, float, fg_bf16_to_f32); break;
    case FG_F32: FG_PACK(float, float, FG_SAME); break;
    case FG_F64: FG_PACK(double, double, FG_SAME); break;
    case FG_C64: FG_PACK(fg_pair32, fg_pair32, FG_SAME); break;
    case FG_C128: FG_PACK(fg_pair64, fg_pair64, FG_SAME); break;
    FG_PACK_INT(FG_I8, int8_t) FG_PACK_INT(FG_I16, int16_t) FG_PACK_INT(FG_I32, int32_t) FG_PACK_INT(FG_I64, int64_t)
    FG_PACK_INT(FG_U8, uint8_t) FG_PACK_INT(FG_U16, uint16_t) FG_PACK_INT(FG_U32, uint32_t) FG_PACK_INT(FG_U64, uint64_t)
    }
}

/* Element (i, j) of `count` matrices of numbers of SIZE bytes to dst[(i * di + j * dj) * ld], a matrix in each column. */
#define FG_BATCH_IN(SIZE, T) \
static void fg_batch_in_##SIZE(T *dst, int64_t ld, const T *src, int64_t count, int64_t rows, int64_t cols, const int64_t *s, int64_t *di, int64_t *dj) { \
    const int by_columns = rows > 1 && s[1] == 1 && (cols == 1 || s[2] == rows); \
    const int by_rows = (cols == 1 || s[2] == 1) && (rows == 1 || s[1] == cols); \
    *di = by_columns ? 1 : cols; \
    *dj = by_columns ? rows : 1; \
    if ((by_rows || by_columns) && s[0] == rows * cols) { fg_columns_##SIZE(dst, ld, src, count, rows * cols); return; } \
    for (int64_t i = 0; i < rows; i++) for (int64_t j = 0; j < cols; j++) \
        for (int64_t l = 0; l < count; l++) dst[(i * *di + j * *dj) * ld + l] = src[l * s[0] + i * s[1] + j * s[2]]; \
}
FG_BATCH_IN(1, uint8_t) FG_BATCH_IN(2, uint16_t) FG_BATCH_IN(4, uint32_t) FG_BATCH_IN(8, uint64_t)

static void fg_batch16_wide(int dtype, const uint16_t *h, int64_t ld, gemm_f32_vec *x, int64_t n) {
    if (dtype == FG_F16) for (int64_t e = 0; e < n; e++) x[e] = fg_halves_wide(h + e * ld);
    else for (int64_t e = 0; e < n; e++) x[e] = (gemm_f32_vec)(__builtin_convertvector(*(const fg_halves_mem *)(h + e * ld), fg_words) << 16);
}

/* gemm_f32_batch for 16-bit floats, some vectors of entries at a time; where b[0] is 0, b is one matrix for all. */
static void fg_batch16(const FgDot *p, int64_t begin, int64_t end, const uint16_t *a, const uint16_t *b, char *c) {
    enum { L = gemm_f32_lanes, ENTRIES = 4 * L };
    gemm_f32_vec x[FG_TINY], y[FG_TINY], z[FG_TINY];
    uint16_t xs[FG_TINY * ENTRIES], ys[FG_TINY * ENTRIES], zs[FG_TINY * ENTRIES];
    const int64_t size = p->M * p->N, last = end * L < p->B ? end * L : p->B;
    int64_t am, ak, bk = p->N, bn = 1;
    if (!p->b[0]) for (int64_t k = 0; k < p->K; k++) for (int64_t n = 0; n < p->N; n++) {
        const uint16_t h = b[k * p->b[1] + n * p->b[2]];
        y[k * bk + n] = (gemm_f32_vec){0} + (p->in_dtype == FG_F16 ? fg_f16_to_f32(h) : fg_bf16_to_f32(h));
    }
    for (int64_t l = begin * L; l < last; l += ENTRIES) {
        const int64_t count = last - l < ENTRIES ? last - l : ENTRIES;
        char *to = c + l * size * fg_itemsize(p->out_dtype);
        fg_batch_in_2(xs, ENTRIES, a + l * p->a[0], count, p->M, p->K, p->a, &am, &ak);
        if (p->b[0]) fg_batch_in_2(ys, ENTRIES, b + l * p->b[0], count, p->K, p->N, p->b, &bk, &bn);
        for (int64_t v = 0; v < count; v += L) {
            fg_batch16_wide(p->in_dtype, xs + v, ENTRIES, x, p->M * p->K);
            if (p->b[0]) fg_batch16_wide(p->in_dtype, ys + v, ENTRIES, y, p->K * p->N);
            gemm_f32_batch_product(p, x, am, ak, y, bk, bn, z);
            if (p->out_dtype == FG_F32) gemm_f32_pack((float *)to + v * size, size, (const float *)z, size, L, 1, count - v < L ? count - v : L);
            else for (int64_t e = 0; e < size; e++) fg_narrow16(p->out_dtype, (const float *)&z[e], zs + e * ENTRIES + v, L);
        }
        if (p->out_dtype != FG_F32) fg_rows_2(to, zs, ENTRIES, count, size);
    }
}

/* Integers: what a, b and c of an entry may have together, so that a vector's entries stay in the first caches. */
#define FG_TINY_INT 512
#define FG_JOIN(a, b) GEMM_CAT(a, b)
#define T uint8_t
#define W uint16_t
#define SIZE 1
#define N(x) u8_##x
#include "batch_int.h"
#undef T
#undef SIZE
#undef N
#define T uint16_t
#define SIZE 2
#define N(x) u16_##x
#include "batch_int.h"
#undef T
#undef W
#undef SIZE
#undef N
#define T uint32_t
#define W uint32_t
#define SIZE 4
#define N(x) u32_##x
#include "batch_int.h"
#undef T
#undef W
#undef SIZE
#undef N
#define T uint64_t
#define W uint64_t
#define SIZE 8
#define N(x) u64_##x
#include "batch_int.h"
#undef T
#undef W
#undef SIZE
#undef N

/* Entries in a vector of a batch of `work`'s dtype. */
static int64_t fg_batch_lanes(int work) {
    const int64_t item = fg_itemsize_table[work];
    return GEMM_BYTES / (item < 2 ? 2 : item);
}
static void fg_batch_int(const FgDot *p, int64_t begin, int64_t end, const char *a, const char *b, char *c) {
    switch (fg_itemsize_table[p->work]) {
    case 1: u8_batch(p, begin, end, (const uint8_t *)a, (const uint8_t *)b, (uint8_t *)c); break;
    case 2: u16_batch(p, begin, end, (const uint16_t *)a, (const uint16_t *)b, (uint16_t *)c); break;
    case 4: u32_batch(p, begin, end, (const uint32_t *)a, (const uint32_t *)b, (uint32_t *)c); break;
    default: u64_batch(p, begin, end, (const uint64_t *)a, (const uint64_t *)b, (uint64_t *)c);
    }
}

/* Rows [r0, r1) of pairs of 16-bit numbers that follow each other along k, from a matrix whose last k may be odd:
 * dst[r * lanes + l] = (src[2r, l], src[2r + 1, l]), 0 beyond K. */
static void fg_pair_rows(const uint16_t *src, int64_t sk, int64_t sl, int64_t K, int64_t lanes, uint32_t *dst, int64_t r0, int64_t r1) {
    for (int64_t l0 = 0; l0 < lanes; l0 += 512) for (int64_t r = r0; r < r1; r++) {
        int64_t end = l0 + 512 < lanes ? l0 + 512 : lanes;
        const uint16_t *lo = src + 2 * r * sk, *hi = lo + sk;
        uint32_t *restrict d = dst + r * lanes;
        if (2 * r + 1 == K) for (int64_t l = l0; l < end; l++) d[l] = lo[l * sl];
        else if (sl == 1) for (int64_t l = l0; l < end; l++) d[l] = lo[l] | (uint32_t)hi[l] << 16;
        else for (int64_t l = l0; l < end; l++) d[l] = lo[l * sl] | (uint32_t)hi[l * sl] << 16;
    }
}

/* Line `line` of b, in the order it is spread. */
static void fg_spread(const FgComplex *z, const char *src, int64_t line, char *dst) {
    int64_t n = z->columns ? z->K : z->N, step = z->b[z->columns ? 1 : 2], item = fg_itemsize_table[z->dtype];
    src += line * z->b[z->columns ? 2 : 1] * item;
    dst += 2 * line * n * item;
    if (z->dtype == FG_C64) fg_spread_c64((const fg_word64 *)src, step, n, z->columns, (fg_word64 *)dst, (fg_word64 *)dst + n);
    else fg_spread_c128((const fg_pair_f64 *)src, step, n, z->columns, (fg_pair_f64 *)dst, (fg_pair_f64 *)dst + n);
}

/* Copy a row of n elements, `stride` apart on both sides; src NULL clears it. */
static void fg_copy_row(char *dst, const char *src, int64_t n, int64_t stride, int64_t item) {
    if (stride == 1 || n == 1) { if (src) memcpy(dst, src, (size_t)(n * item)); else memset(dst, 0, (size_t)(n * item)); return; }
    for (int64_t j = 0; j < n; j++) {
        if (src) memcpy(dst + j * stride * item, src + j * stride * item, (size_t)item);
        else memset(dst + j * stride * item, 0, (size_t)item);
    }
}

/* Convert a row of float32 and set or add it to a row of 16-bit floats. */
static void fg_narrow_row(int odt, const float *src, int64_t n, char *dst, int64_t sn, int mode) {
    fg_store_f32(src, 0, 1, n, dst, 0, sn, mode, odt);
}
#endif
