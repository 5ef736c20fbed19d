/* A few rows of float32 against 16-bit floats that are read once, where they lie, and widened in registers.
 *
 * A chunk, one vector's worth of 16-bit numbers, becomes two vectors of float32: of bfloat16 its even and its odd elements, which are a
 * shift and a mask away, of float16 its first and its last half. What meets a chunk is kept in the same order: x along k for sums of
 * products of rows (fg_split), y along its columns where b's rows are added up (fg_join brings it back). */
#ifndef FG_STREAM16_H
#define FG_STREAM16_H
#include "gemm.h"
#include "half.h"

#define FG_CHUNK (2 * gemm_f32_lanes)
#define FG_STREAM_ROWS 8         /* rows of b that are added to y at a time */
#define FG_STREAM_TILE GEMM_DOTS_TILE    /* rows of x at a time */
#define FG_STREAM_COLS GEMM_DOTS_COLS    /* rows of b that meet them */
typedef uint32_t fg_words __attribute__((vector_size(GEMM_BYTES)));
typedef fg_words fg_words_mem __attribute__((aligned(2), may_alias));
typedef uint16_t fg_halves_mem __attribute__((vector_size(GEMM_BYTES / 2), aligned(2), may_alias));

GEMM_INLINE gemm_f32_vec fg_halves_wide(const uint16_t *h) {
#if defined(__AVX512F__)
    return (gemm_f32_vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)h));
#elif defined(__F16C__) && GEMM_BYTES == 32
    return (gemm_f32_vec)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)h));
#else                            /* as fg_half */
    typedef int32_t signed_words __attribute__((vector_size(GEMM_BYTES)));
    fg_words v = __builtin_convertvector(*(const fg_halves_mem *)h, fg_words), em = v & 0x7fffu, wide = em << 13;
    fg_words small = (fg_words)(__builtin_convertvector((signed_words)em, gemm_f32_vec) * 5.9604644775390625e-8f);
    fg_words is_small = (fg_words)(em < 0x400u), infinite = (fg_words)(em >= 0x7c00u);
    fg_words finite = (is_small & small) | (~is_small & (wide + 0x38000000u));
    return (gemm_f32_vec)((infinite & (wide | 0x7f800000u)) | (~infinite & finite) | (v & 0x8000u) << 16);
#endif
}

GEMM_INLINE void fg_widen_chunk(const int dtype, const uint16_t *h, gemm_f32_vec *lo, gemm_f32_vec *hi) {
    if (dtype == FG_BF16) {
        fg_words v = *(const fg_words_mem *)h;
        *lo = (gemm_f32_vec)(v << 16);
        *hi = (gemm_f32_vec)(v & 0xffff0000u);
    } else {
        *lo = fg_halves_wide(h);
        *hi = fg_halves_wide(h + gemm_f32_lanes);
    }
}

/* Rows [r0, r1) of a strided matrix of 16-bit numbers as rows of float32, ld apart, in the order of chunks; zero beyond cols. */
static void fg_split(int dtype, const uint16_t *src, int64_t sr, int64_t sc, float *dst, int64_t ld, int64_t r0, int64_t r1, int64_t cols) {
    for (int64_t r = r0; r < r1; r++) for (int64_t k = 0; k < cols; k += FG_CHUNK) {
        uint16_t h[FG_CHUNK] = {0};
        int64_t w = cols - k < FG_CHUNK ? cols - k : FG_CHUNK;
        gemm_f32_vec lo, hi;
        for (int64_t i = 0; i < w; i++) h[i] = src[r * sr + (k + i) * sc];
        if (dtype == FG_BF16) fg_widen_chunk(FG_BF16, h, &lo, &hi); else fg_widen_chunk(FG_F16, h, &lo, &hi);
        *(gemm_f32_mem *)(dst + r * ld + k) = lo;
        *(gemm_f32_mem *)(dst + r * ld + k + gemm_f32_lanes) = hi;
    }
}

/* Whole chunks of a row of float32, in the order of chunks of bfloat16, to their own order. */
static void fg_join(float *y, int64_t n) {
    for (int64_t k = 0; k + FG_CHUNK <= n; k += FG_CHUNK) {
        float t[FG_CHUNK];
        memcpy(t, y + k, sizeof t);
        for (int i = 0; i < gemm_f32_lanes; i++) { y[k + 2 * i] = t[i]; y[k + 2 * i + 1] = t[gemm_f32_lanes + i]; }
    }
}

/* Rows of whole chunks to the order of chunks of bfloat16. */
static void fg_part(float *x, int64_t n) {
    for (int64_t k = 0; k + FG_CHUNK <= n; k += FG_CHUNK) {
        float t[FG_CHUNK];
        memcpy(t, x + k, sizeof t);
        for (int i = 0; i < gemm_f32_lanes; i++) { x[k + i] = t[2 * i]; x[k + gemm_f32_lanes + i] = t[2 * i + 1]; }
    }
}

/* A chunk of R rows of b against M rows of x. */
GEMM_INLINE void fg_dots16_chunk(const int dtype, const int M, const int R, const int odd, const float *x, int64_t ldx,
                                 const uint16_t *b, int64_t ldb, gemm_f32_vec *sum) {
    GEMM_UNROLL for (int r = 0; r < R; r++) {
        gemm_f32_vec lo, hi;
        fg_widen_chunk(dtype, b + r * ldb, &lo, &hi);
        GEMM_UNROLL for (int m = 0; m < M; m++) {
            sum[m * R + r] += *(const gemm_f32_mem *)(x + m * ldx) * lo;
            sum[odd + m * R + r] += *(const gemm_f32_mem *)(x + m * ldx + gemm_f32_lanes) * hi;
        }
    }
}

/* y[m, r] += x[m] . b[r] for M rows of x, split, and R of b. */
GEMM_INLINE void fg_dots16_body(const int dtype, const int M, const int R, int64_t kc, const float *x, int64_t ldx,
                                const uint16_t *b, int64_t ldb, float *y, int64_t ldy) {
    enum { L = gemm_f32_lanes, MOST = FG_STREAM_TILE * FG_STREAM_COLS };
    const int odd = M * R <= 4 ? MOST : 0;           /* few sums: two of each, or they wait for each other */
    gemm_f32_vec sum[2 * MOST + L];
    float total[L];
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < M * R; i++) sum[i] = sum[odd + i] = (gemm_f32_vec){0};
    for (; k + FG_CHUNK <= kc; k += FG_CHUNK) fg_dots16_chunk(dtype, M, R, odd, x + k, ldx, b + k, ldb, sum);
    if (k < kc) {
        uint16_t last[FG_STREAM_COLS * FG_CHUNK] = {0};
        for (int r = 0; r < R; r++) memcpy(last + r * FG_CHUNK, b + r * ldb + k, (size_t)(kc - k) * 2);
        fg_dots16_chunk(dtype, M, R, odd, x + k, ldx, last, FG_CHUNK, sum);
    }
    if (odd) GEMM_UNROLL for (int i = 0; i < M * R; i++) sum[i] += sum[odd + i];
    GEMM_UNROLL for (int u = 0; u < M * R; u += L) {
        const int n = M * R - u < L ? M * R - u : L;
        gemm_f32_vec t = gemm_f32_totals(n, sum + u);
        memcpy(total, &t, sizeof t);
        GEMM_UNROLL for (int i = 0; i < n; i++) y[(u + i) / R * ldy + (u + i) % R] += total[i];
    }
}

/* y[m, 0:n] += x[m, 0:R] b[0:R, 0:n], whole chunks of y in the order of chunks. */
GEMM_INLINE void fg_axpy16_body(const int dtype, const int M, const int R, int64_t n, const float *x, int64_t ldx,
                                const uint16_t *b, int64_t ldb, float *y, int64_t ldy) {
    const int64_t L = gemm_f32_lanes;
    int64_t j = 0;
    for (; j + FG_CHUNK <= n; j += FG_CHUNK) {
        gemm_f32_vec s[FG_STREAM_TILE], t[FG_STREAM_TILE], lo, hi;
        GEMM_UNROLL for (int m = 0; m < M; m++) {
            s[m] = *(const gemm_f32_mem *)(y + m * ldy + j);
            t[m] = *(const gemm_f32_mem *)(y + m * ldy + j + L);
        }
        GEMM_UNROLL for (int r = 0; r < R; r++) {
            fg_widen_chunk(dtype, b + r * ldb + j, &lo, &hi);
            GEMM_UNROLL for (int m = 0; m < M; m++) { s[m] += x[m * ldx + r] * lo; t[m] += x[m * ldx + r] * hi; }
        }
        GEMM_UNROLL for (int m = 0; m < M; m++) {
            *(gemm_f32_mem *)(y + m * ldy + j) = s[m];
            *(gemm_f32_mem *)(y + m * ldy + j + L) = t[m];
        }
    }
    for (; j < n; j++) for (int r = 0; r < R; r++) {
        float v = dtype == FG_BF16 ? fg_bf16_to_f32(b[r * ldb + j]) : fg_half(b[r * ldb + j]);
        for (int m = 0; m < M; m++) y[m * ldy + j] += x[m * ldx + r] * v;
    }
}

/* One function for each dtype and number of rows: rows against rows, one of b's at a time or several, and rows of b added up. */
typedef void (*fg_dots16_kernel)(int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy);
typedef void (*fg_axpy16_kernel)(int64_t n, int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy);
#define FG_STREAM16(D, M) \
static void fg_dots16_##D##_##M(int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy) { \
    fg_dots16_body(FG_##D, M, 1, kc, x, ldx, b, ldb, y, ldy); \
} \
static void fg_tile16_##D##_##M(int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy) { \
    fg_dots16_body(FG_##D, M, FG_STREAM_COLS, kc, x, ldx, b, ldb, y, ldy); \
} \
static void fg_axpy16_##D##_##M(int64_t n, int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy) { \
    int64_t k = 0; \
    for (; k + FG_STREAM_ROWS <= kc; k += FG_STREAM_ROWS) fg_axpy16_body(FG_##D, M, FG_STREAM_ROWS, n, x + k, ldx, b + k * ldb, ldb, y, ldy); \
    for (; k < kc; k++) fg_axpy16_body(FG_##D, M, 1, n, x + k, ldx, b + k * ldb, ldb, y, ldy); \
}
#define FG_STREAM16_F16(M) FG_STREAM16(F16, M)
#define FG_STREAM16_BF16(M) FG_STREAM16(BF16, M)
GEMM_EACH_DOTS(FG_STREAM16_F16)
GEMM_EACH_DOTS(FG_STREAM16_BF16)
#define FG_LIST(X) {{GEMM_EACH_DOTS(X##_F16)}, {GEMM_EACH_DOTS(X##_BF16)}}
#define FG_DOTS_F16(M) fg_dots16_F16_##M,
#define FG_DOTS_BF16(M) fg_dots16_BF16_##M,
#define FG_TILE_F16(M) fg_tile16_F16_##M,
#define FG_TILE_BF16(M) fg_tile16_BF16_##M,
#define FG_AXPY_F16(M) fg_axpy16_F16_##M,
#define FG_AXPY_BF16(M) fg_axpy16_BF16_##M,
static const fg_dots16_kernel fg_dots16_table[2][FG_STREAM_TILE] = FG_LIST(FG_DOTS);
static const fg_dots16_kernel fg_tile16_table[2][FG_STREAM_TILE] = FG_LIST(FG_TILE);
static const fg_axpy16_kernel fg_axpy16_table[2][FG_STREAM_TILE] = FG_LIST(FG_AXPY);

/* y (M, n) += x b^T, rows of x split. A single long row goes through far memory one row of b after the other: the order in which it comes fastest. */
static void fg_dots16(int dtype, int64_t M, int64_t n, int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb,
                      float *y, int64_t ldy, int far) {
    int64_t j = 0, rows;
    if (M > 1 || !far || kc < 16 * gemm_f32_lanes) for (; j + FG_STREAM_COLS <= n; j += FG_STREAM_COLS) for (int64_t m = 0; m < M; m += rows) {
        rows = M - m < FG_STREAM_TILE ? M - m : FG_STREAM_TILE;
        fg_tile16_table[dtype == FG_BF16][rows - 1](kc, x + m * ldx, ldx, b + j * ldb, ldb, y + m * ldy + j, ldy);
    }
    for (; j < n; j++) for (int64_t m = 0; m < M; m += rows) {
        rows = M - m < FG_STREAM_TILE ? M - m : FG_STREAM_TILE;
        fg_dots16_table[dtype == FG_BF16][rows - 1](kc, x + m * ldx, ldx, b + j * ldb, ldb, y + m * ldy + j, ldy);
    }
}

/* y (M, n) += x b, whole chunks of y in the order of chunks. */
static void fg_axpy16_split(int dtype, int64_t M, int64_t n, int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy) {
    for (int64_t m = 0, rows; m < M; m += rows) {
        rows = M - m < FG_STREAM_TILE ? M - m : FG_STREAM_TILE;
        fg_axpy16_table[dtype == FG_BF16][rows - 1](n, kc, x + m * ldx, ldx, b, ldb, y + m * ldy, ldy);
    }
}

/* y (M, n) += x b. */
static void fg_axpy16(int dtype, int64_t M, int64_t n, int64_t kc, const float *x, int64_t ldx, const uint16_t *b, int64_t ldb, float *y, int64_t ldy) {
    fg_axpy16_split(dtype, M, n, kc, x, ldx, b, ldb, y, ldy);
    if (dtype == FG_BF16) for (int64_t m = 0; m < M; m++) fg_join(y + m * ldy, n);
}
#endif
