/* A few rows of float32 against bytes (int8, uint8) that are read once, where they lie, and widened in registers. */
#ifndef FG_STREAM8_H
#define FG_STREAM8_H
#include "stream16.h"

typedef int8_t fg_i8_mem __attribute__((vector_size(GEMM_BYTES / 4), aligned(1), may_alias));
typedef uint8_t fg_u8_mem __attribute__((vector_size(GEMM_BYTES / 4), aligned(1), may_alias));
GEMM_INLINE gemm_f32_vec fg_widen_bytes(const int with_sign, const uint8_t *b) {
#if defined(__AVX512F__)
    const __m128i v = _mm_loadu_si128((const __m128i *)b);
    return (gemm_f32_vec)_mm512_cvtepi32_ps(with_sign ? _mm512_cvtepi8_epi32(v) : _mm512_cvtepu8_epi32(v));
#elif defined(__AVX2__) && GEMM_BYTES == 32
    const __m128i v = _mm_loadl_epi64((const __m128i *)b);
    return (gemm_f32_vec)_mm256_cvtepi32_ps(with_sign ? _mm256_cvtepi8_epi32(v) : _mm256_cvtepu8_epi32(v));
#else                            /* by steps: at once, compilers take element by element */
    typedef int16_t halves __attribute__((vector_size(GEMM_BYTES / 2)));
    typedef int32_t words __attribute__((vector_size(GEMM_BYTES)));
    const halves v = with_sign ? __builtin_convertvector(*(const fg_i8_mem *)b, halves) : __builtin_convertvector(*(const fg_u8_mem *)b, halves);
    return __builtin_convertvector(__builtin_convertvector(v, words), gemm_f32_vec);
#endif
}

/* y[m, r] += x[m] . b[r] for M rows of x and R of b. */
GEMM_INLINE void fg_dots8_body(const int with_sign, const int M, const int R, int64_t kc, const float *x, int64_t ldx,
                               const uint8_t *b, int64_t ldb, float *y, int64_t ldy) {
    enum { L = gemm_f32_lanes };
    gemm_f32_vec sum[FG_STREAM_TILE * FG_STREAM_COLS + L];
    float total[L];
    int64_t k = 0;
    GEMM_UNROLL for (int i = 0; i < M * R; i++) sum[i] = (gemm_f32_vec){0};
    for (; k + L <= kc; k += L) GEMM_UNROLL for (int r = 0; r < R; r++) {
        const gemm_f32_vec v = fg_widen_bytes(with_sign, b + r * ldb + k);
        GEMM_UNROLL for (int m = 0; m < M; m++) sum[m * R + r] += *(const gemm_f32_mem *)(x + m * ldx + k) * v;
    }
    if (k < kc) GEMM_UNROLL for (int r = 0; r < R; r++) {
        uint8_t last[L] = {0};
        memcpy(last, b + r * ldb + k, (size_t)(kc - k));
        const gemm_f32_vec v = fg_widen_bytes(with_sign, last);
        GEMM_UNROLL for (int m = 0; m < M; m++) sum[m * R + r] += gemm_f32_load(x + m * ldx + k, kc - k) * v;
    }
    GEMM_UNROLL for (int u = 0; u < M * R; u += L) {
        const int n = M * R - u < L ? M * R - u : L;
        gemm_f32_vec t = gemm_f32_totals(n, sum + u);
        memcpy(total, &t, sizeof t);
        GEMM_UNROLL for (int i = 0; i < n; i++) y[(u + i) / R * ldy + (u + i) % R] += total[i];
    }
}

/* y[m, 0:n] += x[m, 0:R] b[0:R, 0:n]. */
GEMM_INLINE void fg_axpy8_body(const int with_sign, const int M, const int R, int64_t n, const float *x, int64_t ldx,
                               const uint8_t *b, int64_t ldb, float *y, int64_t ldy) {
    const int64_t L = gemm_f32_lanes;
    int64_t j = 0;
    for (; j + L <= n; j += L) {
        gemm_f32_vec s[FG_STREAM_TILE];
        GEMM_UNROLL for (int m = 0; m < M; m++) s[m] = *(const gemm_f32_mem *)(y + m * ldy + j);
        GEMM_UNROLL for (int r = 0; r < R; r++) {
            const gemm_f32_vec v = fg_widen_bytes(with_sign, b + r * ldb + j);
            GEMM_UNROLL for (int m = 0; m < M; m++) s[m] += x[m * ldx + r] * v;
        }
        GEMM_UNROLL for (int m = 0; m < M; m++) *(gemm_f32_mem *)(y + m * ldy + j) = s[m];
    }
    for (; j < n; j++) for (int r = 0; r < R; r++) {
        const float v = with_sign ? (float)(int8_t)b[r * ldb + j] : (float)b[r * ldb + j];
        for (int m = 0; m < M; m++) y[m * ldy + j] = FG_MADD(__builtin_fmaf, y[m * ldy + j], x[m * ldx + r], v);
    }
}

typedef void (*fg_stream8_kernel)(int64_t n, int64_t kc, const float *x, int64_t ldx, const uint8_t *b, int64_t ldb, float *y, int64_t ldy);
#define FG_STREAM8(S, M) \
static void fg_dots8_##S##_##M(int64_t n, int64_t kc, const float *x, int64_t ldx, const uint8_t *b, int64_t ldb, float *y, int64_t ldy) { \
    int64_t j = 0; \
    for (; j + FG_STREAM_COLS <= n; j += FG_STREAM_COLS) fg_dots8_body(S, M, FG_STREAM_COLS, kc, x, ldx, b + j * ldb, ldb, y + j, ldy); \
    for (; j < n; j++) fg_dots8_body(S, M, 1, kc, x, ldx, b + j * ldb, ldb, y + j, ldy); \
} \
static void fg_axpy8_##S##_##M(int64_t n, int64_t kc, const float *x, int64_t ldx, const uint8_t *b, int64_t ldb, float *y, int64_t ldy) { \
    int64_t k = 0; \
    for (; k + FG_STREAM_ROWS <= kc; k += FG_STREAM_ROWS) fg_axpy8_body(S, M, FG_STREAM_ROWS, n, x + k, ldx, b + k * ldb, ldb, y, ldy); \
    for (; k < kc; k++) fg_axpy8_body(S, M, 1, n, x + k, ldx, b + k * ldb, ldb, y, ldy); \
}
#define FG_STREAM8_0(M) FG_STREAM8(0, M)
#define FG_STREAM8_1(M) FG_STREAM8(1, M)
GEMM_EACH_DOTS(FG_STREAM8_0)
GEMM_EACH_DOTS(FG_STREAM8_1)
#define FG_DOTS8_0(M) fg_dots8_0_##M,
#define FG_DOTS8_1(M) fg_dots8_1_##M,
#define FG_AXPY8_0(M) fg_axpy8_0_##M,
#define FG_AXPY8_1(M) fg_axpy8_1_##M,
static const fg_stream8_kernel fg_dots8_table[2][FG_STREAM_TILE] = {{GEMM_EACH_DOTS(FG_DOTS8_0)}, {GEMM_EACH_DOTS(FG_DOTS8_1)}};
static const fg_stream8_kernel fg_axpy8_table[2][FG_STREAM_TILE] = {{GEMM_EACH_DOTS(FG_AXPY8_0)}, {GEMM_EACH_DOTS(FG_AXPY8_1)}};

/* y (M, n) += x times rows of b (dots: x b^T, each against the rows of x). */
static void fg_stream8(int dots, int dtype, int64_t M, int64_t n, int64_t kc, const float *x, int64_t ldx, const uint8_t *b, int64_t ldb, float *y, int64_t ldy) {
    for (int64_t m = 0, rows; m < M; m += rows) {
        rows = M - m < FG_STREAM_TILE ? M - m : FG_STREAM_TILE;
        (dots ? fg_dots8_table : fg_axpy8_table)[dtype == FG_I8][rows - 1](n, kc, x + m * ldx, ldx, b, ldb, y + m * ldy, ldy);
    }
}
#endif
