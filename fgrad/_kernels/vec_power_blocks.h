/* x^y, log2 x and x log(x / y) of float32 on a block of vectors at once, with AVX2 and fused multiply-add: the method of vec_power.h, log2 |x| in two parts from as many cells as a
 * register has lanes, and 2^r by a polynomial alone. As of the functions of vec_blocks.h, a block with other than positive normal numbers, or with
 * results near the ends of the range, goes through the whole function. */
#ifndef FG_VEC_POWER_BLOCKS_H
#define FG_VEC_POWER_BLOCKS_H
#include "vec.h"
#include "vec_special.h"
#include "scalar_special.h"

/* A cell's numbers are 2^20 apart by their bits. 1 / c of each has so few bits that m / c - 1 is exact; log2 c to 14 bits behind the point, and the rest */
#define FG_POWER_LEAST 0x3f360000                       /* of 0.7109375, where the cells begin; 1 is within the fifth */
static const float fg_power_inverse[8] = {1.375f, 1.25f, 1.125f, 1.0625f, 1.0f, 0.90625f, 0.8125f, 0.75f};
static const float fg_power_high[8] = {-0.45941162109375f, -0.3218994140625f, -0.169921875f, -0.08746337890625f, 0.0f, 0.14202880859375f, 0.299560546875f,
    0.4150390625f};
static const float fg_power_low[8] = {-1.99975439e-05f, -2.86808245e-05f, -3.12644238e-06f, 5.37655922e-07f, 0.0f, -9.8037217e-06f, -2.65016098e-07f,
    -1.56322119e-06f};
FG_INLINE vec_f32 fg_power_cell(const float *table, __m256i t) { return (vec_f32)_mm256_permutevar8x32_ps(_mm256_loadu_ps(table), t); }

/* log2 x of positive normal numbers, in two parts, to 2^-34 of itself; less: as of vecs_log_of_f32 */
FG_INLINE void vecs_log2_parts_f32(const int n, const vec_f32 *x, const vec_f32 *less, vec_f32 *high, vec_f32 *low) {
    vec_f32 r[FG_BLOCK], h[FG_BLOCK], p[FG_BLOCK], a[FG_BLOCK], b[FG_BLOCK];
    FG_EACH(n) {
        const fg_lanes_f32 t = (fg_lanes_f32)x[j] - FG_POWER_LEAST;
        const __m256i cell = (__m256i)(t >> 20);        /* their three lowest bits */
        const vec_f32 m = (vec_f32)((fg_lanes_f32)x[j] - (t & FG_EXPONENT));
        vec_f32 k = __builtin_convertvector(t >> 23, vec_f32);
        if (less) k -= less[j];
        r[j] = vec_fma_f32(m, fg_power_cell(fg_power_inverse, cell), FG_ALL_F32(-1.0f));
        high[j] = k + fg_power_cell(fg_power_high, cell);
        low[j] = fg_power_cell(fg_power_low, cell);
    }
    FG_EACH(n) p[j] = vec_fma_f32(r[j], FG_ALL_F32(0.201887816f), FG_ALL_F32(-0.241437048f));
    FG_EACH(n) p[j] = vec_fma_f32(r[j], p[j], FG_ALL_F32(0.288561821f));
    FG_EACH(n) p[j] = vec_fma_f32(r[j], p[j], FG_ALL_F32(-0.360672534f));
    FG_EACH(n) p[j] = vec_fma_f32(r[j], p[j], FG_ALL_F32(0.480898321f));
    FG_EACH(n) p[j] = vec_fma_f32(r[j], p[j], FG_ALL_F32(-9.62981517e-09f));
    FG_EACH(n) low[j] = vec_fma_f32(r[j], FG_ALL_F32(1.92596303e-08f), low[j]);
    FG_EACH(n) h[j] = r[j] * r[j];
    FG_EACH(n) low[j] = vec_fma_f32(h[j], p[j], low[j]);
    FG_EACH(n) low[j] = vec_less_fma_f32(vec_product_rest_f32(r[j], r[j], h[j]), FG_ALL_F32(0.72134751f), low[j]);
    FG_EACH(n) a[j] = vec_fma_f32(r[j], FG_ALL_F32(1.44269502f), high[j]);
    FG_EACH(n) b[j] = vec_less_fma_f32(h[j], FG_ALL_F32(0.72134751f), a[j]);
    FG_EACH(n) low[j] += vec_fma_f32(r[j], FG_ALL_F32(1.44269502f), high[j] - a[j]) + vec_less_fma_f32(h[j], FG_ALL_F32(0.72134751f), a[j] - b[j]);
    FG_EACH(n) high[j] = b[j] + low[j];
    FG_EACH(n) low[j] = (b[j] - high[j]) + low[j];
}
/* 2^(whole + low) of blocks as 2^r in x and k + magic in t */
FG_INLINE void vecs_exp2_of_f32(const int n, const vec_f32 *whole, const vec_f32 *low, vec_f32 *x, vec_f32 *t, const float magic) {
    vec_f32 q[FG_BLOCK];
    FG_EACH(n) t[j] = whole[j] + magic;
    FG_EACH(n) x[j] = (whole[j] - (t[j] - magic)) + low[j];
    FG_EACH(n) q[j] = vec_fma_f32(x[j], FG_ALL_F32(0.000153267931f), FG_ALL_F32(0.00133910251f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.00961850584f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.0555035956f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.240226477f));
    FG_EACH(n) q[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(0.693147182f));
    FG_EACH(n) x[j] = vec_fma_f32(x[j], q[j], FG_ALL_F32(1.0f));
}
#define FG_POWER_WITHIN 125.0f                          /* in size, of the logarithms of results that are scaled by an addition to exponents */
FG_INLINE void vecs_power_f32(const int n, const vec_f32 *whole, const vec_f32 *low, vec_f32 *x) {
    vec_f32 t[FG_BLOCK];
    vecs_exp2_of_f32(n, whole, low, x, t, FG_MAGIC_F32);
    FG_EACH(n) x[j] = (vec_f32)((fg_lanes_f32)x[j] + ((fg_lanes_f32)t[j] << 23));
}
/* y log2 x in two parts */
FG_INLINE void vecs_power_log_f32(const int n, const vec_f32 *y, vec_f32 *high, vec_f32 *low) {
    FG_EACH(n) {
        const vec_f32 whole = y[j] * high[j];
        low[j] = vec_fma_f32(y[j], low[j], vec_product_rest_f32(y[j], high[j], whole));
        high[j] = whole;
    }
}
FG_INLINE vec_f32 fg_pick_f32(fg_lanes_f32 m, vec_f32 a, vec_f32 b) { return (vec_f32)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m); }
/* What |x|^y is not where x is not positive and finite or y is not finite: signs, powers of 0 and infinity, and NaN against 1 */
FG_INLINE vec_f32 vec_power_edges_f32(vec_f32 x, vec_f32 y, vec_f32 p) {
    const vec_f32 a = vec_abs_f32(x), half = y * 0.5f, zero = {0}, inf = FG_ALL_F32(INFINITY), one = FG_ALL_F32(1.0f);
#define FG_TRUNC(v) ((vec_f32)_mm256_round_ps((__m256)(v), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
    const fg_lanes_f32 is_whole = FG_TRUNC(y) == y, odd = is_whole & (FG_TRUNC(half) != half), down = y < zero;
#undef FG_TRUNC
    p = fg_pick_f32(((a == zero) & ~down) | ((a == inf) & down), zero, p);
    p = fg_pick_f32(((a == zero) & down) | ((a == inf) & ~down), inf, p);
    p = (vec_f32)((fg_lanes_f32)p ^ ((fg_lanes_f32)x & odd & FG_SIGN_F32));
    p = fg_pick_f32(((x < zero) & (a < inf) & ~is_whole) | (x != x) | (y != y), FG_ALL_F32(NAN), p);
    return fg_pick_f32((x == one) | (y == zero) | ((x == -1.0f) & (vec_abs_f32(y) == inf)), one, p);
}
/* x, or subnormals times 2^24, and how much that adds to the logarithm */
FG_INLINE vec_f32 vec_scaled_up_f32(vec_f32 x, vec_f32 *less) {
    const vec_f32 least = FG_ALL_F32(1.17549435e-38f);
    *less = vec_less_f32(x, least, FG_ALL_F32(24.0f), FG_ALL_F32(0.0f));
    return vec_less_f32(x, least, x * 16777216.0f, x);
}
/* of any numbers: x^y in x */
FG_INLINE void vecs_power_whole_f32(const int n, vec_f32 *x, const vec_f32 *y) {
    const vec_f32 most = FG_ALL_F32(200.0f);
    vec_f32 a[FG_BLOCK], less[FG_BLOCK], high[FG_BLOCK], low[FG_BLOCK], t[FG_BLOCK];
    FG_EACH(n) a[j] = vec_scaled_up_f32(vec_abs_f32(x[j]), &less[j]);
    vecs_log2_parts_f32(n, a, less, high, low);
    vecs_power_log_f32(n, y, high, low);
    FG_EACH(n) {
        low[j] = vec_less_f32(vec_abs_f32(high[j]), most, low[j], FG_ALL_F32(0.0f));        /* beyond, it may be NaN */
        high[j] = vec_max_f32(-most, vec_min_f32(most, high[j]));
    }
    vecs_exp2_of_f32(n, high, low, a, t, FG_MAGIC_F32 + 254);
    FG_EACH(n) {
        const fg_lanes_f32 half = (fg_lanes_f32)t[j] >> 1;
        const vec_f32 p = a[j] * (vec_f32)(half << 23) * (vec_f32)(((fg_lanes_f32)t[j] - half) << 23);
        x[j] = vec_power_edges_f32(x[j], y[j], p);
    }
}
/* log2 x of positive normal numbers, and of all */
FG_INLINE int vecs_log2_ends_f32(const vec_f32 *x) { return vecs_unlogged_f32(x, 0x7f000000); }
FG_INLINE void vecs_log2_f32(vec_f32 *x) {
    vec_f32 high[FG_BLOCK], low[FG_BLOCK];
    vecs_log2_parts_f32(FG_BLOCK, x, 0, high, low);
    FG_EACH(FG_BLOCK) x[j] = high[j];
}
FG_INLINE void vecs_log2_whole_f32(const int n, vec_f32 *x) {
    vec_f32 a[FG_BLOCK], less[FG_BLOCK], high[FG_BLOCK], low[FG_BLOCK];
    FG_EACH(n) a[j] = vec_scaled_up_f32(x[j], &less[j]);
    vecs_log2_parts_f32(n, a, less, high, low);
    FG_EACH(n) x[j] = vec_log_edges_f32(x[j], high[j]);
}
/* x log(x / y) for x and y in [2^-60, 2^60): of x / y with what its division's rounding took off, whose logarithm that of 1 is near */
FG_INLINE int vecs_rel_entr_ends_f32(const vec_f32 *x, const vec_f32 *y) {
    const __m256i least = (__m256i)_mm256_set1_ps(0x1p-60f), range = _mm256_set1_epi32(120 << 23);
    __m256i m = _mm256_setzero_si256();
    FG_EACH(FG_BLOCK) m = _mm256_max_epu32(m, _mm256_max_epu32(_mm256_sub_epi32((__m256i)x[j], least), _mm256_sub_epi32((__m256i)y[j], least)));
    return _mm256_movemask_ps((__m256)_mm256_cmpeq_epi32(m, _mm256_max_epu32(m, range))) != 0;
}
FG_INLINE void vecs_rel_entr_f32(const int n, vec_f32 *x, const vec_f32 *y) {
    vec_f32 q[FG_BLOCK], rest[FG_BLOCK], high[FG_BLOCK], low[FG_BLOCK];
    FG_EACH(n) q[j] = x[j] / y[j];
    FG_EACH(n) rest[j] = vec_less_fma_f32(q[j], y[j], x[j]) / x[j];
    vecs_log2_parts_f32(n, q, 0, high, low);
    FG_EACH(n) low[j] = 0.693147182f * vec_fma_f32(rest[j], FG_ALL_F32(1.44269502f), low[j]);
    FG_EACH(n) low[j] = vec_fma_f32(high[j], FG_ALL_F32(-1.90465432e-9f), low[j]);                  /* what 0.693147182 has too much */
    FG_EACH(n) x[j] *= vec_fma_f32(high[j], FG_ALL_F32(0.693147182f), low[j]);
}
/* one pair of numbers elsewhere */
static __attribute__((noinline)) float fg_rel_entr_far_f32(float x, float y) { return (float)fg_rel_entrf_f64(x, y); }
FG_INLINE void vecs_rel_entr_whole_f32(const int n, vec_f32 *x, const vec_f32 *y) {
    const vec_f32 least = FG_ALL_F32(0x1p-60f), range = FG_ALL_F32(0x1p60f), zero = {0};
    vec_f32 z[FG_BLOCK];
    FG_EACH(n) z[j] = x[j];
    vecs_rel_entr_f32(n, z, y);
    FG_EACH(n) {
        const fg_lanes_f32 none = (x[j] == zero) & (y[j] >= zero), in = none | ((x[j] >= least) & (x[j] < range) & (y[j] >= least) & (y[j] < range));
        const int far = _mm256_movemask_ps((__m256)~in);
        z[j] = fg_pick_f32(none, zero, z[j]);
        if (__builtin_expect(far, 0)) for (int k = 0; k < 8; k++) if (far >> k & 1) z[j][k] = fg_rel_entr_far_f32(x[j][k], y[j][k]);
        x[j] = z[j];
    }
}
#endif
