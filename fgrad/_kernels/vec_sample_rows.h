/* erf_inv of float64 as scalar_sample.h has it, by vectors of 4 (AVX2 with fused multiply-add), with the same roundings: the method of vec_sample.h,
 * by blocks. What is asked of libm is collected and asked once a block, so that vectors neither wait for it nor branch, and of polynomials, long
 * chains, those of four vectors are computed together. log and log1p alone take as long that way as one by one: libm's logarithm is fast. */
#ifndef FG_VEC_SAMPLE_ROWS_H
#define FG_VEC_SAMPLE_ROWS_H
#include <float.h>
#include "scalar_sample.h"
#include "upper.h"
#include "vec_erf_rows.h"

enum { FG_SAMPLE_BLOCK = 128 };
#define FG_SAMPLE_IF(x, y, how) _mm256_cmp_pd((__m256d)(x), (__m256d)((vec_f64){0} + (y)), how)
#define FG_SAMPLE_WHERE(m, a, b) ((vec_f64)_mm256_blendv_pd((__m256d)(b), (__m256d)(a), m))

/* p[k] = p[k] x[k] + c for four vectors, from the first coefficient on */
FG_INLINE void vec_sample_horner_4(const double *c, int n, const vec_f64 *x, vec_f64 *p) {
    vec_f64 a = (vec_f64){0} + c[0], b = a, d = a, e = a;
    for (int i = 1; i < n; i++) {
        const vec_f64 next = (vec_f64){0} + c[i];
        a = vec_fma_f64(a, x[0], next); b = vec_fma_f64(b, x[1], next); d = vec_fma_f64(d, x[2], next); e = vec_fma_f64(e, x[3], next);
    }
    p[0] = a; p[1] = b; p[2] = d; p[3] = e;
}
FG_INLINE vec_f64 vec_sample_horner(const double *c, int n, vec_f64 x) {
    vec_f64 p = (vec_f64){0} + c[0];
    for (int i = 1; i < n; i++) p = vec_fma_f64(p, x, (vec_f64){0} + c[i]);
    return p;
}
/* A pass over a block: a step that is short enough for several vectors to be under way at once, which one long step is not. */
#define FG_SAMPLE_PASS(n) for (int64_t i = 0; i < (n); i += 4)
#define FG_SAMPLE_AT(p) (*(const vec_f64 *)((p) + i))
#define FG_SAMPLE_TO(p) (*(vec_f64 *)((p) + i))
typedef double fg_sample_block[FG_SAMPLE_BLOCK] __attribute__((aligned(32)));
/* u = 2^k R (1 + r) as vec_log_parts_f64 takes it apart: r, its rest, and k log 2 + log R in two parts */
FG_INLINE void vec_sample_parts(vec_f64 u, vec_f64 *r, vec_f64 *rest, vec_f64 *high, vec_f64 *low) {
    const __m256i t = _mm256_sub_epi64((__m256i)u, _mm256_set1_epi64x(0x3fe8000000000000 - 0x3ff0000000000000));
    const vec_f64 k = (vec_f64)_mm256_or_si256(_mm256_srli_epi64(t, 52), _mm256_set1_epi64x(0x4330000000000000)) - (4503599627370496.0 + 1023.0);
    const __m256i bits = _mm256_add_epi64(_mm256_and_si256(t, _mm256_set1_epi64x(0x000fffffffffffff)), _mm256_set1_epi64x(0x3fe8000000000000));
    const FgRowsOf rows = fg_rows_at(fg_row_log_f64, _mm256_and_si256(_mm256_srli_epi64(bits, 43), _mm256_set1_epi64x(15 << 5)));
    vec_f64 inverse, log, log_low, none;
    fg_two_of_rows(&rows, 0, &inverse, &log);
    fg_two_of_rows(&rows, 2, &log_low, &none);
    const vec_f64 whole = FG_ROUNDED((vec_f64)bits * inverse);
    *r = whole - 1.0;
    *rest = vec_product_rest_f64((vec_f64)bits, inverse, whole);
    *high = k * 0.6931471805598903 + log;
    *low = k * 5.497923018708371e-14 + log_low;
}
/* log1p of n numbers, a multiple of 4 */
static void fg_sample_log1ps(const double *x, double *y, int64_t n) {
    fg_sample_block rs, rests, highs, lows;
    uint64_t asked[FG_SAMPLE_BLOCK / 64] = {0}, any = 0;
    FG_SAMPLE_PASS(n) vec_sample_parts(1.0 + FG_SAMPLE_AT(x), &FG_SAMPLE_TO(rs), &FG_SAMPLE_TO(rests), &FG_SAMPLE_TO(highs), &FG_SAMPLE_TO(lows));
    FG_SAMPLE_PASS(n) {                                /* the tail of log(1 + r), as there */
        const vec_f64 r = FG_SAMPLE_AT(rs), z = r * r;
        vec_f64 q = -0.08828430638656448 * r + 0.11084508430553656, p = -0.1250239340600711 * r + 0.14285809680935474;
        q = q * z + p;
        q = q * z + (-0.16666665254041638 * r + 0.19999999923943054);
        q = q * z + (-0.25000000000230416 * r + 0.33333333333349824);
        q = q * r - 0.5;
        FG_SAMPLE_TO(lows) = z * q + FG_SAMPLE_AT(lows);
    }
    FG_SAMPLE_PASS(n) {                                /* near 0 */
        const vec_f64 v = FG_SAMPLE_AT(x), z = FG_ROUNDED(v * v), p = vec_sample_horner(fg_sample_log1p_p, 7, v), q = vec_sample_horner(fg_sample_log1p_q, 7, v);
        FG_SAMPLE_TO(y) = v + vec_fma_f64((vec_f64){0} - 0.5, z, FG_ROUNDED(FG_ROUNDED(v * z) * (p / q)));
    }
    FG_SAMPLE_PASS(n) {
        const vec_f64 v = FG_SAMPLE_AT(x), u = 1.0 + v, r = FG_SAMPLE_AT(rs), rest = FG_SAMPLE_AT(rests), high = FG_SAMPLE_AT(highs);
        const vec_f64 log = high + r, low = (((high - log) + r) + (rest - r * rest)) + FG_SAMPLE_AT(lows);
        const vec_f64 far = vec_abs_f64(log) * 1.12e-17 + 1e-18, above = log + (low + far);
        /* too close to the middle of two numbers; 0, what is below it, subnormal numbers, infinity, NaN */
        const __m256d differ = FG_SAMPLE_IF(above, log + (low - far), _CMP_NEQ_UQ), wanted = FG_SAMPLE_IF(vec_abs_f64(v), FG_SAMPLE_NEAR, _CMP_NLT_UQ);
        const __m256d none = _mm256_or_pd(FG_SAMPLE_IF(u, DBL_MIN, _CMP_NGE_UQ), FG_SAMPLE_IF(u, INFINITY, _CMP_EQ_OQ));
        const __m256d open = _mm256_and_pd(wanted, _mm256_or_pd(differ, none));
        FG_SAMPLE_TO(y) = FG_SAMPLE_WHERE(wanted, above, FG_SAMPLE_AT(y));
        asked[i / 64] |= (uint64_t)_mm256_movemask_pd(open) << (i % 64);
    }
    for (int j = 0; j < FG_SAMPLE_BLOCK / 64; j++) any |= asked[j];
    if (any) fg_clear_upper();                         /* libm's entry has instructions without AVX */
    for (int j = 0; j < FG_SAMPLE_BLOCK / 64; j++) for (uint64_t left = asked[j]; left; left &= left - 1) {
        const int k = 64 * j + __builtin_ctzll(left);
        y[k] = fg_sample_log_f64(1 + x[k]);
    }
}
/* of n numbers, a multiple of 16 */
static void fg_sample_erf_invs(const double *x, double *y, int64_t n) {
    fg_sample_block u, l;
    FG_SAMPLE_PASS(n) FG_SAMPLE_TO(u) = FG_ROUNDED(FG_SAMPLE_AT(x) * -FG_SAMPLE_AT(x));
    fg_sample_log1ps(u, l, n);
    for (int64_t i = 0; i < n; i += 16) {
        const vec_f64 v[4] = {-3.125 - FG_SAMPLE_AT(l), -3.125 - FG_SAMPLE_AT(l + 4), -3.125 - FG_SAMPLE_AT(l + 8), -3.125 - FG_SAMPLE_AT(l + 12)};
        vec_sample_horner_4(fg_sample_centre, 23, v, &FG_SAMPLE_TO(y));
    }
    FG_SAMPLE_PASS(n) {
        const vec_f64 a = FG_SAMPLE_AT(x), log = FG_SAMPLE_AT(l);
        const __m256d beyond = FG_SAMPLE_IF(log, -6.25, _CMP_NGT_UQ);
        vec_f64 p = FG_SAMPLE_AT(y);
        if (__builtin_expect(_mm256_movemask_pd(beyond), 0)) {
            const vec_f64 s = (vec_f64)_mm256_sqrt_pd((__m256d)-log);
            p = FG_SAMPLE_WHERE(beyond, vec_sample_horner(fg_sample_middle, 19, s - 3.25), p);
            p = FG_SAMPLE_WHERE(FG_SAMPLE_IF(log, -16, _CMP_NGT_UQ), vec_sample_horner(fg_sample_tail, 17, s - 5.0), p);
            p = FG_SAMPLE_WHERE(FG_SAMPLE_IF(vec_abs_f64(a), 1, _CMP_EQ_OQ), (vec_f64){0} + INFINITY, p);
        }
        FG_SAMPLE_TO(y) = a * p;
    }
}
/* of n numbers, in place or not; what is left at the end is computed with zeros behind it */
static void fg_sample_erf_inv_rows(const double *x, double *y, int64_t n) {
    fg_sample_block from, to;
    if (n < 4) { for (int64_t i = 0; i < n; i++) y[i] = fg_sample_erf_inv_f64(x[i]); return; }
    for (int64_t i = 0; i < n; i += FG_SAMPLE_BLOCK) {
        const int64_t m = n - i < FG_SAMPLE_BLOCK ? n - i : FG_SAMPLE_BLOCK, whole = (m + 15) & ~(int64_t)15;
        memcpy(from, x + i, m * sizeof *x);
        for (int64_t k = m; k < whole; k++) from[k] = 0;
        fg_sample_erf_invs(from, to, whole);
        memcpy(y + i, to, m * sizeof *y);
    }
}
#endif
