/* Inverse functions on vectors of float32: hyperbolic ones and erf's; errors are bounded in tests/kernels/ulp.py. Each is a logarithm of 1 + u, whose
 * errors in u count no more than in the result. */
#ifndef FG_VEC_INVERSE_H
#define FG_VEC_INVERSE_H
#include "vec_special.h"
#include "vec_log.h"
#include "scalar_special.h"

FG_INLINE vec_f32 vec_sqrt_f32(vec_f32 x) {
#ifdef __AVX512F__
    return (vec_f32)_mm512_sqrt_ps((__m512)x);
#elif defined(__AVX__)
    return (vec_f32)_mm256_sqrt_ps((__m256)x);
#else
    for (int j = 0; j < FG_VEC / 4; j++) x[j] = sqrtf(x[j]);
    return x;
#endif
}
/* a b + c, rounded once where the machine can */
#ifndef FG_VEC_BLOCKS_H
FG_INLINE vec_f32 vec_fma_f32(vec_f32 a, vec_f32 b, vec_f32 c) {
#ifdef __AVX512F__
    return (vec_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__) && defined(__AVX__)
    return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__aarch64__)
    return (vec_f32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    vec_f32 p = a * b;
    return (p + c) + vec_product_rest_f32(a, b, p);
#endif
}
#endif
/* For float32, and for float64 where its vectors have a logarithm. MOST: from about here on a sum of two numbers might overflow; LARGE: from here on the
 * root of 1 + x^2 is x. */
#define FG_INVERSE_HYPERBOLIC(t, MOST, LARGE) \
/* log(1 + a + b) for b <= a, of a quarter of that where it might overflow */ \
FG_INLINE vec_##t vec_log_sum_##t(vec_##t a, vec_##t b) { \
    const vec_##t zero = {0}, most = zero + MOST, u = a + b, low = vec_less_##t(most, a, zero, (a - u) + b); \
    return vec_log1p_sum_##t(vec_less_##t(most, a, a * 0.5f, u), low) + vec_less_##t(most, a, zero + 2 * LOG_2_##t, zero); \
} \
FG_INLINE vec_##t vec_asinh_##t(vec_##t x) { \
    const vec_##t one = (vec_##t){0} + 1, large = one * LARGE, a = vec_abs_##t(x), near = vec_min_##t(large, a), z = near * near; \
    const vec_##t w = vec_less_##t(large, a, a - one, z / (one + vec_sqrt_##t(one + z)));                 /* the root less 1 */ \
    return vec_sign_of_##t(vec_log_sum_##t(a, w), x); \
} \
FG_INLINE vec_##t vec_acosh_##t(vec_##t x) { \
    const vec_##t one = (vec_##t){0} + 1, t = x - one, near = vec_min_##t(one * LARGE, t), root = vec_sqrt_##t(vec_fma_##t(near, near, near + near)); \
    const vec_##t y = vec_log_sum_##t(vec_less_##t(near, t, x, root), t); \
    return vec_less_##t(x, one, one * NAN, y); \
} \
/* log(1 + 2a / (1 - a)) / 2, with what rounding 1 - a and the quotient took off */ \
FG_INLINE vec_##t vec_atanh_##t(vec_##t x) { \
    const vec_##t one = (vec_##t){0} + 1, a = vec_abs_##t(x), d = one - a, lost = (one - d) - a, inverse = one / d, q = (a + a) * inverse, p = q * d; \
    const vec_##t low = ((((a + a) - p) - vec_product_rest_##t(q, d, p)) - q * lost) * inverse; \
    const vec_##t edge = vec_less_##t(one, a, one * NAN, q); \
    return vec_sign_of_##t(vec_less_##t(a, one, vec_log1p_sum_##t(q, low) * 0.5f, edge), x); \
}
#define LOG_2_f32 0.693147181f
#define LOG_2_f64 0.69314718055994530942
FG_INVERSE_HYPERBOLIC(f32, 1e38f, 4096)
#ifdef __AVX512F__
FG_INVERSE_HYPERBOLIC(f64, 1e307, 0x1p30)
#endif
/* erf_inv(a + al) and sqrt(2) erf_inv(a + al) for t = -log(12 (1 - a^2)) below 5/2, by polynomials of it: up to there the logarithm's rounding counts for little.
 * Their first steps' rounding is made up for. */
#define FG_ERF_INV_T 2.5f
#define FG_ERF_INV_NEAR(name, FIRST, LOW, ...) FG_INLINE vec_f32 vec_##name##_near_f32(vec_f32 a, vec_f32 al, vec_f32 t) { \
    const vec_f32 first = FG_ALL_F32(FIRST), q = FG_POLY(t, __VA_ARGS__), p = q * t + first, rest = (q * t + (first - p)) + LOW; \
    return vec_fma_f32(a, p, a * rest + al * p); }
FG_ERF_INV_NEAR(erf_inv, 1.4976858f, -6.6346026e-09f, 0.24676552f, -0.0041203606f, -0.0012659279f, 0.00021870412f, -4.6514274e-06f, -3.5109729e-06f,
    4.6412447e-07f, 2.4354643e-08f, -8.852096e-09f)
FG_ERF_INV_NEAR(ndtri, 2.1180475f, 7.128151e-08f, 0.34897915f, -0.0058270656f, -0.0017902852f, 0.0003092908f, -6.5811855e-06f, -4.964378e-06f,
    6.5690955e-07f, 3.4373283e-08f, -1.2552011e-08f)
/* y, or where t is not near, in those lanes alone, the function of float64: no value depends on its neighbours */
#define FG_ERF_INV_FAR(name) FG_INLINE vec_f32 vec_##name##_far_f32(vec_f32 x, vec_f32 t, vec_f32 y) { \
    for (int j = 0; j < FG_VEC / 4; j++) x[j] = (float)fg_##name##f_f64(x[j]); \
    return vec_less_f32(t, FG_ALL_F32(FG_ERF_INV_T), y, x); }
FG_ERF_INV_FAR(erf_inv)
FG_ERF_INV_FAR(ndtri)
FG_INLINE int vec_all_near_f32(vec_f32 t) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)t, _mm512_set1_ps(FG_ERF_INV_T), _CMP_NLT_UQ) == 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps(_mm256_cmp_ps((__m256)t, _mm256_set1_ps(FG_ERF_INV_T), _CMP_NLT_UQ)) == 0;
#else
    fg_lanes_f32 m = t < FG_ERF_INV_T;
    int32_t all = -1;
    for (int j = 0; j < FG_VEC / 4; j++) all &= m[j];
    return all;
#endif
}
FG_INLINE vec_f32 vec_erf_inv_f32(vec_f32 x) {
    const vec_f32 t = -vec_log_f32(12.0f * vec_fma_f32(-x, x, FG_ALL_F32(1.0f)));
    const vec_f32 y = vec_sign_of_f32(vec_erf_inv_near_f32(x, FG_ALL_F32(0.0f), t), x);
    return __builtin_expect(vec_all_near_f32(t), 1) ? y : vec_erf_inv_far_f32(x, t, y);
}
/* sqrt(2) erf_inv(2p - 1), 1 - (2p - 1)^2 = 4 q (1 - q) for the smaller q of p and 1 - p */
FG_INLINE vec_f32 vec_ndtri_f32(vec_f32 p) {
    const vec_f32 half = FG_ALL_F32(0.5f), q = vec_less_f32(half, p, 1.0f - p, p), t = -vec_log_f32(48.0f * vec_fma_f32(-q, q, q));
    const vec_f32 a = 1.0f - 2.0f * q, y = vec_ndtri_near_f32(a, (1.0f - a) - 2.0f * q, t);
    const vec_f32 z = vec_less_f32(p, half, -y, y);
    return __builtin_expect(vec_all_near_f32(t), 1) ? z : vec_ndtri_far_f32(p, t, z);
}
#endif
