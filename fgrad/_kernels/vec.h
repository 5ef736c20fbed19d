/* Vectors as wide as the machine's registers, in the compiler's vector extension: lanes, selection, powers of two, exp and what is
 * made of it.  Instructions that the extension does not name are used where they exist. */
#ifndef FG_VEC
#include "row_math.h"
#ifdef __AVX__
#include <immintrin.h>
#endif
#ifdef __AVX512F__
#define FG_VEC 64                       /* bytes of a vector: what the machine's registers hold */
#elif defined(__AVX__)
#define FG_VEC 32
#else
#define FG_VEC 16
#endif
typedef int32_t fg_lanes_f32 __attribute__((vector_size(FG_VEC)));
typedef int64_t fg_lanes_f64 __attribute__((vector_size(FG_VEC)));
typedef float vec_f32 __attribute__((vector_size(FG_VEC)));
typedef double vec_f64 __attribute__((vector_size(FG_VEC)));

/* a > b ? a : b, so b where either is NaN */
#ifdef __AVX512F__
FG_INLINE vec_f32 vec_max_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm512_max_ps((__m512)a, (__m512)b); }
FG_INLINE vec_f64 vec_max_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm512_max_pd((__m512d)a, (__m512d)b); }
FG_INLINE vec_f32 vec_min_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm512_min_ps((__m512)a, (__m512)b); }
FG_INLINE vec_f64 vec_min_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm512_min_pd((__m512d)a, (__m512d)b); }
/* p 2^k for a whole k */
FG_INLINE vec_f32 vec_scale_f32(vec_f32 p, vec_f32 k) { return (vec_f32)_mm512_scalef_ps((__m512)p, (__m512)k); }
FG_INLINE vec_f64 vec_scale_f64(vec_f64 p, vec_f64 k) { return (vec_f64)_mm512_scalef_pd((__m512d)p, (__m512d)k); }
#else
#ifdef __AVX__
FG_INLINE vec_f32 vec_max_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm256_max_ps((__m256)a, (__m256)b); }
FG_INLINE vec_f64 vec_max_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm256_max_pd((__m256d)a, (__m256d)b); }
FG_INLINE vec_f32 vec_min_f32(vec_f32 a, vec_f32 b) { return (vec_f32)_mm256_min_ps((__m256)a, (__m256)b); }
FG_INLINE vec_f64 vec_min_f64(vec_f64 a, vec_f64 b) { return (vec_f64)_mm256_min_pd((__m256d)a, (__m256d)b); }
#else
#define FG_PICK_LANES(t, m, a, b) ((vec_##t)(((fg_lanes_##t)(a) & (m)) | ((fg_lanes_##t)(b) & ~(m))))
FG_INLINE vec_f32 vec_max_f32(vec_f32 a, vec_f32 b) { fg_lanes_f32 m = a > b; return FG_PICK_LANES(f32, m, a, b); }
FG_INLINE vec_f64 vec_max_f64(vec_f64 a, vec_f64 b) { fg_lanes_f64 m = a > b; return FG_PICK_LANES(f64, m, a, b); }
FG_INLINE vec_f32 vec_min_f32(vec_f32 a, vec_f32 b) { fg_lanes_f32 m = a < b; return FG_PICK_LANES(f32, m, a, b); }
FG_INLINE vec_f64 vec_min_f64(vec_f64 a, vec_f64 b) { fg_lanes_f64 m = a < b; return FG_PICK_LANES(f64, m, a, b); }
#undef FG_PICK_LANES
#endif
/* p 2^k for a whole k, in two factors: results underflow gradually, with one rounding. Twice the exponents' bias is added to k before it is halved. */
FG_INLINE vec_f32 vec_scale_f32(vec_f32 p, vec_f32 k) {
    fg_lanes_f32 n = (fg_lanes_f32)(k + (12582912.0f + 254)), half = n >> 1;
    return p * (vec_f32)(half << 23) * (vec_f32)((n - half) << 23);
}
FG_INLINE vec_f64 vec_scale_f64(vec_f64 p, vec_f64 k) {
    typedef uint64_t V __attribute__((vector_size(FG_VEC)));          /* shifted as unsigned: no AVX2 sra */
    V n = (V)(k + (6755399441055744.0 + 2046)), half = n >> 1;
    return p * (vec_f64)(half << 52) * (vec_f64)((n - half) << 52);
}
#endif

/* The first n lanes from memory, 0 in the others; and to memory. */
#ifdef __AVX512F__
FG_INLINE vec_f32 vec_load_part_f32(const float *p, int n) { return (vec_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p); }
FG_INLINE vec_f64 vec_load_part_f64(const double *p, int n) { return (vec_f64)_mm512_maskz_loadu_pd((__mmask8)((1u << n) - 1), p); }
FG_INLINE void vec_store_part_f32(float *p, int n, vec_f32 v) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v); }
FG_INLINE void vec_store_part_f64(double *p, int n, vec_f64 v) { _mm512_mask_storeu_pd(p, (__mmask8)((1u << n) - 1), (__m512d)v); }
#else
#define FG_PARTS(t, T) \
FG_INLINE vec_##t vec_load_part_##t(const T *p, int n) { vec_##t v = {0}; for (int j = 0; j < n; j++) v[j] = p[j]; return v; } \
FG_INLINE void vec_store_part_##t(T *p, int n, vec_##t v) { for (int j = 0; j < n; j++) p[j] = v[j]; }
FG_PARTS(f32, float)
FG_PARTS(f64, double)
#undef FG_PARTS
#endif

#define FG_ALL_F32(c) ((vec_f32){0} + (c))
#define FG_SIGN_F32 ((fg_lanes_f32){0} + INT32_MIN)
FG_INLINE vec_f32 vec_abs_f32(vec_f32 x) { return (vec_f32)((fg_lanes_f32)x & ~FG_SIGN_F32); }
FG_INLINE vec_f64 vec_abs_f64(vec_f64 x) { return (vec_f64)((fg_lanes_f64)x & INT64_MAX); }
FG_INLINE vec_f32 vec_sign_of_f32(vec_f32 a, vec_f32 x) { return (vec_f32)((fg_lanes_f32)a | ((fg_lanes_f32)x & FG_SIGN_F32)); }

#ifdef __AVX512F__
#include "vec_cells.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "vec_blocks.h"
#else
/* By the method of row_exp_f32: e^x is the value returned times 2^power. */
FG_INLINE vec_f32 vec_exp_parts_f32(vec_f32 x, vec_f32 *power) {
    vec_f32 k = (x * 1.44269504088896341f + 12582912.0f) - 12582912.0f;
    vec_f32 r = x - k * 0.693145751953125f;
    r = r - k * 1.42860682031e-6f;
    vec_f32 q = r * 0.001392625083f + 0.008363232884f;
    q = q * r + 0.04166655421f;
    q = q * r + 0.1666657667f;
    q = q * r + 0.5f;
    vec_f32 s = 1.0f + r, rest = (1.0f - s) + r;           /* 1 + r in two parts: one rounding less */
    *power = k;
    return s + (rest + r * r * q);
}
FG_INLINE vec_f32 vec_exp_f32(vec_f32 x) {
    vec_f32 k, p = vec_exp_parts_f32(vec_min_f32((vec_f32){0} + 90.0f, vec_max_f32((vec_f32){0} - 105.0f, x)), &k);
    return vec_scale_f32(p, k);
}
/* e^x for x <= 0; and for |x| <= 60 */
FG_INLINE vec_f32 vec_exp_below_f32(vec_f32 x) {
    vec_f32 k, p = vec_exp_parts_f32(vec_max_f32((vec_f32){0} - 105.0f, x), &k);
    return vec_scale_f32(p, k);
}
FG_INLINE vec_f32 vec_exp_within_f32(vec_f32 x) {
    vec_f32 k, p = vec_exp_parts_f32(x, &k);
    return p * (vec_f32)((fg_lanes_f32)(k + (12582912.0f + 127)) << 23);
}
#endif
#ifdef __AVX512F__
#include "vec_cells_f64.h"
#elif !defined(FG_VEC_BLOCKS_H)
/* By the method of row_exp_f64. */
FG_INLINE vec_f64 vec_exp_f64(vec_f64 x) {
    x = vec_max_f64((vec_f64){0} - 746.0, x);
    x = vec_min_f64((vec_f64){0} + 710.0, x);
    vec_f64 k = (x * 1.4426950408889634074 + 6755399441055744.0) - 6755399441055744.0;
    vec_f64 r = x - k * 0.6931471805596629565116;
    r = r - k * 2.8235290563031577123e-13;
    vec_f64 q = r * 2.5100472505694996e-8 + 2.76202015910315488e-7;
    q = q * r + 2.75572682769056962e-6;
    q = q * r + 0.0000248015210578682052;
    q = q * r + 0.00019841269863171556;
    q = q * r + 0.00138888889173670806;
    q = q * r + 0.0083333333333300382;
    q = q * r + 0.0416666666666238205;
    q = q * r + 0.166666666666666675;
    q = q * r + 0.500000000000000103;
    return vec_scale_f64(1.0 + (r + r * r * q), k);
}
#endif

/* From here on for float32; errors are bounded in tests/kernels/ulp.py. x < y ? a : b */
#ifdef __AVX512F__
FG_INLINE vec_f32 vec_less_f32(vec_f32 x, vec_f32 y, vec_f32 a, vec_f32 b) {
    return (vec_f32)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ), (__m512)b, (__m512)a);
}
#elif defined(__AVX__)
FG_INLINE vec_f32 vec_less_f32(vec_f32 x, vec_f32 y, vec_f32 a, vec_f32 b) {
    return (vec_f32)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_LT_OQ));
}
#else
FG_INLINE vec_f32 vec_less_f32(vec_f32 x, vec_f32 y, vec_f32 a, vec_f32 b) {
    fg_lanes_f32 m = x < y;
    return (vec_f32)(((fg_lanes_f32)a & m) | ((fg_lanes_f32)b & ~m));
}
#endif

#ifndef FG_VEC_BLOCKS_H
/* e^-|x| or 1, over 1 + e^-|x|.  What rounding 1 + e lost is taken off again, where it matters: there e is small. */
FG_INLINE vec_f32 vec_logistic_begin_f32(vec_f32 x) { return vec_exp_below_f32(-vec_abs_f32(x)); }
FG_INLINE vec_f32 vec_logistic_end_f32(vec_f32 x, vec_f32 e) {
    vec_f32 d = 1.0f + e, lost = (1.0f - d) + e;
    vec_f32 y = vec_less_f32(x, FG_ALL_F32(0.0f), e, FG_ALL_F32(1.0f)) / d;
    return y - y * lost;
}
FG_INLINE vec_f32 vec_logistic_f32(vec_f32 x) { return vec_logistic_end_f32(x, vec_logistic_begin_f32(x)); }
#endif

#ifndef __AVX512F__
#ifndef FG_VEC_BLOCKS_H
/* 1 - 2 / (e^2|x| + 1), or below 0.6 the continued fraction; one division for both */
FG_INLINE vec_f32 vec_tanh_f32(vec_f32 x) {
    vec_f32 a = vec_abs_f32(x), z = a * a, e = vec_exp_within_f32(2.0f * vec_min_f32(FG_ALL_F32(10.0f), a)), edge = FG_ALL_F32(0.6f);
    vec_f32 num = vec_less_f32(a, edge, a * z * (14.0f * z + 315.0f), FG_ALL_F32(2.0f));
    vec_f32 den = vec_less_f32(a, edge, (15.0f * z + 420.0f) * z + 945.0f, e + 1.0f);
    return vec_sign_of_f32(vec_less_f32(a, edge, a, FG_ALL_F32(1.0f)) - num / den, x);
}

/* log(1 + f) - f for f in [sqrt(1/2) - 1, sqrt(2) - 1] */
FG_INLINE vec_f32 vec_logr_f32(vec_f32 f) {
    vec_f32 z = f * f, p = f * 0.0691553056f - 0.117898561f;
    p = p * f + 0.118729264f;
    p = p * f - 0.123843372f;
    p = p * f + 0.142186642f;
    p = p * f - 0.16669251f;
    p = p * f + 0.200022265f;
    p = p * f - 0.249999866f;
    p = p * f + 0.333333105f;
    return f * z * p - 0.5f * z;
}
#define FG_SQRT_HALF ((fg_lanes_f32){0} + 0x3f3504f3)
#define FG_EXPONENT ((fg_lanes_f32){0} + -0x800000)
#endif
/* y = log x where x is positive and finite; the logarithms of all other x */
FG_INLINE vec_f32 vec_log_edges_f32(vec_f32 x, vec_f32 y) {
    vec_f32 low = vec_less_f32(x, FG_ALL_F32(0.0f), FG_ALL_F32(NAN), FG_ALL_F32(-INFINITY));
    return vec_less_f32(FG_ALL_F32(0.0f), x, vec_less_f32(x, FG_ALL_F32(INFINITY), y, x), vec_less_f32(x, FG_ALL_F32(1.0f), low, x));
}
#ifdef FG_VEC_BLOCKS_H
FG_INLINE vec_f32 vec_log1p_sum_f32(vec_f32 x, vec_f32 low) {
    vec_f32 y = x;
    vecs_log1p_of_f32(1, &y, &low);
    return vec_sign_of_f32(vec_log_edges_f32(1.0f + x, y), x);
}
#else
/* log(1 + x + low): the logarithm of u = 1 + x = 2^k m, and c = 1 + x - u, which is exact below 2^24 and beyond makes no difference. */
FG_INLINE vec_f32 vec_log1p_sum_f32(vec_f32 x, vec_f32 low) {
    vec_f32 u = 1.0f + x, c = (x - (u - 1.0f)) + low;
    fg_lanes_f32 t = (fg_lanes_f32)u - FG_SQRT_HALF, e = t & FG_EXPONENT;
    vec_f32 k = __builtin_convertvector(t >> 23, vec_f32), f0 = (vec_f32)((fg_lanes_f32)u - e) - 1.0f;
    c *= vec_max_f32((vec_f32)(0x3f800000 - e), FG_ALL_F32(0.0f));             /* 2^-k, or 0 where that is no normal number */
    vec_f32 f = f0 + c, lost = (f0 - f) + c;
    vec_f32 y = k * 0.693359375f + (f + (vec_logr_f32(f) + (lost - k * 2.12194440e-4f)));
    return vec_sign_of_f32(vec_log_edges_f32(u, y), x);
}
#endif
#endif
FG_INLINE vec_f32 vec_log1p_f32(vec_f32 x) { return vec_log1p_sum_f32(x, FG_ALL_F32(0.0f)); }
#endif
