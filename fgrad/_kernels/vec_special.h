/* Special functions on vectors of float32; errors are bounded in tests/kernels/ulp.py. */
#ifndef FG_VEC_SPECIAL_H
#define FG_VEC_SPECIAL_H
#include "vec.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__FMA__)
#include <immintrin.h>
#endif

/* a b - p for p = a b rounded: exact, unless it underflows */
FG_INLINE vec_f32 vec_product_rest_f32(vec_f32 a, vec_f32 b, vec_f32 p) {
#ifdef __AVX512F__
    return (vec_f32)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)p);
#elif defined(__FMA__) && defined(__AVX__)
    return (vec_f32)_mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)p);
#elif defined(__aarch64__)
    return (vec_f32)vfmaq_f32((float32x4_t)(-p), (float32x4_t)a, (float32x4_t)b);
#else
    vec_f32 u = a * 4097.0f, v = b * 4097.0f, ah = u - (u - a), bh = v - (v - b), al = a - ah, bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}
/* sqrt(2) a, and what its rounding took off */
FG_INLINE vec_f32 vec_root_2_times_f32(vec_f32 a, vec_f32 *rest) {
    const vec_f32 root = FG_ALL_F32(1.41421354f);
    vec_f32 u = root * a;
    *rest = vec_product_rest_f32(root, a, u) + a * 2.42032414e-8f;
    return u;
}
#ifndef __AVX512F__
/* e^-(h + l) R((u + ul) / 2) for h in [0, 105] and 0 <= u, with R(a) = e^(a^2) erfc(a) = P((a - 3) / (a + 3)) / (1 + 2a).  All
 * roundings but those of the last polynomial's steps, and the last, are made up for by remainders.  *power: e^-(h + l) */
FG_INLINE vec_f32 vec_erfc_tail_f32(vec_f32 u, vec_f32 ul, vec_f32 h, vec_f32 l, vec_f32 *power) {
    const vec_f32 one = FG_ALL_F32(1.0f);
    vec_f32 k = (h * -1.44269504088896341f + 12582912.0f) - 12582912.0f;
    vec_f32 r = -h - k * 0.693145751953125f;
    r = r - (k * 1.42860682031e-6f + l);
    vec_f32 q = r * 0.00137514086f + 0.00836892147f;
    q = q * r + 0.0416695327f;
    q = q * r + 0.166665182f;
    q = q * r + 0.499999881f;
    vec_f32 e = 1.0f + r, el = ((1.0f - e) + r) + r * r * q;

    vec_f32 top = vec_max_f32(one, u), d = 1.0f + u, dl = ((top - d) + vec_min_f32(one, u)) + ul, w = u + 6.0f;
    vec_f32 inverse = 1.0f / (d * w), rd = inverse * w, v = 2.0f * u * (inverse * d), t = v - 1.0f;
    vec_f32 z = t * t, odd = z * 7.73089123e-05f - 0.000726450351f, even = z * -9.25446875e-05f + 0.00187507807f;
    odd = odd * z + 0.00249911379f;
    even = even * z - 0.0237635765f;
    odd = odd * z + 0.0683165714f;
    even = even * z - 0.119275272f;
    odd = odd * z + 0.129644111f;
    even = even * z - 0.0475621596f;
    odd = odd * z - 0.135621071f;
    /* 4.9e-8 is what 1.25300801f lacks; t lacks something where P has a slope of about 1 */
    vec_f32 s = odd * t + (even * z + (4.86242928e-08f + (v - (t + 1.0f))));
    vec_f32 p = 1.25300801f + s, pl = (1.25300801f - p) + s;

    vec_f32 y = e * p, yl = vec_product_rest_f32(e, p, y) + (e * pl + el * p), g = y * rd;
    yl = (yl - vec_product_rest_f32(g, d, y)) - g * dl;
    *power = vec_scale_f32(e + el, k);
    return vec_scale_f32(g + yl * rd, k);
}
/* e^-(h + l) M(u + ul) as in vec_cells.h, by R */
FG_INLINE vec_f32 vec_normal_tail_f32(vec_f32 u, vec_f32 ul, vec_f32 h, vec_f32 l, vec_f32 *power) {
    vec_f32 v = vec_root_2_times_f32(u, &ul);
    return 0.5f * vec_erfc_tail_f32(v, ul, h, l, power);
}
#endif
FG_INLINE vec_f32 vec_erfc_f32(vec_f32 x) {
    vec_f32 a = vec_min_f32(FG_ALL_F32(10.2f), vec_abs_f32(x)), h = a * a, l = vec_product_rest_f32(a, a, h), power;
#ifdef __AVX512F__
    vec_f32 ul, u = vec_root_2_times_f32(a, &ul), y = 2.0f * vec_normal_tail_f32(u, ul, h, l, &power);
#else
    vec_f32 y = vec_erfc_tail_f32(2.0f * a, FG_ALL_F32(0.0f), h, l, &power);
#endif
    return vec_less_f32(x, FG_ALL_F32(0.0f), 2.0f - y, y);
}
/* erfc(-x / sqrt(2)) / 2, and *power = e^(-x^2 / 2) */
FG_INLINE vec_f32 vec_normal_f32(vec_f32 x, vec_f32 *power) {
    vec_f32 a = vec_min_f32(FG_ALL_F32(14.4f), vec_abs_f32(x)), h = a * a, l = vec_product_rest_f32(a, a, h);
    vec_f32 y = vec_normal_tail_f32(a, FG_ALL_F32(0.0f), 0.5f * h, 0.5f * l, power);
    return vec_less_f32(FG_ALL_F32(0.0f), x, 1.0f - y, y);
}
#ifdef __AVX512F__
/* Where lanes lie far below 0, of which most data have few, VALUE stands for y. */
#define FG_NORMAL_TAILS(x, y, VALUE) do { \
        const __mmask16 far_ = fg_normal_far(x); \
        if (__builtin_expect(far_ != 0, 0)) y = (vec_f32)_mm512_mask_mov_ps((__m512)(y), far_, (__m512)(VALUE)); \
    } while (0)
FG_INLINE vec_f32 vec_ndtr_f32(vec_f32 x) {
    vec_f32 y = vec_normal_near_f32(x);
    y = vec_less_f32(FG_ALL_F32(0.0f), x, 1.0f - y, y);
    FG_NORMAL_TAILS(x, y, vec_normal_far_f32(x, FG_ALL_F32(1.0f)));
    return y;
}
#else
FG_INLINE vec_f32 vec_ndtr_f32(vec_f32 x) { vec_f32 power; return vec_normal_f32(x, &power); }
#endif

/* gelu and its derivative, with the normal distribution function and with its approximation by the logistic function of x (A + B x^2) */
FG_INLINE vec_f32 vec_within_30_f32(vec_f32 x) { return vec_max_f32(FG_ALL_F32(-30.0f), vec_min_f32(FG_ALL_F32(30.0f), x)); }
#ifdef __AVX512F__
FG_INLINE vec_f32 vec_gelu_exact_f32(vec_f32 x) {                              /* max(x, 0) - |x| Phi(-|x|); max of 0 and -0 is the latter */
    const vec_f32 a = vec_min_f32(FG_ALL_F32(FG_NORMAL_NEAR), vec_abs_f32(x)), above = vec_max_f32(FG_ALL_F32(0.0f), x);
    vec_f32 y = (vec_f32)_mm512_fnmadd_ps((__m512)a, (__m512)vec_normal_near_f32(x), (__m512)above);
    FG_NORMAL_TAILS(x, y, vec_normal_far_f32(x, vec_max_f32(FG_ALL_F32(-14.4f), x)) + FG_ALL_F32(0.0f) * x);   /* NaN at -inf, as x Phi(x) */
    return y;
}
#else
FG_INLINE vec_f32 vec_gelu_exact_f32(vec_f32 x) { return x * vec_ndtr_f32(x); }
#endif
FG_INLINE vec_f32 vec_gelu_exact_slope_f32(vec_f32 x) {
    vec_f32 power, y = vec_normal_f32(x, &power);
    return y + vec_within_30_f32(x) * (power * 0.398942280401432678f);                          /* beyond, power is 0 */
}
#ifndef FG_VEC_BLOCKS_H
FG_INLINE vec_f32 vec_gelu_begin_f32(vec_f32 x) { return vec_logistic_begin_f32(x * ((float)FG_GELU_A + (float)FG_GELU_B * (x * x))); }
FG_INLINE vec_f32 vec_gelu_end_f32(vec_f32 x, vec_f32 e) { return x * vec_logistic_end_f32(x, e); }      /* x has that operand's sign */
FG_INLINE vec_f32 vec_gelu_slope_begin_f32(vec_f32 x) { return vec_gelu_begin_f32(vec_within_30_f32(x)); }
FG_INLINE vec_f32 vec_gelu_slope_end_f32(vec_f32 x, vec_f32 e) {
    x = vec_within_30_f32(x);                                                                    /* beyond, it is 0 and 1 */
    vec_f32 z = x * x, s = vec_logistic_end_f32(x, e);
    return s + x * ((float)FG_GELU_A + (float)(3 * FG_GELU_B) * z) * (s * (1.0f - s));
}
#endif
#ifdef __AVX512F__
FG_INLINE vec_f64 vec_gelu_f64(vec_f64 x) { return x * vec_logistic_f64(x * (FG_GELU_A + FG_GELU_B * (x * x))); }
FG_INLINE vec_f64 vec_gelu_slope_f64(vec_f64 x) {
    x = vec_max_f64((vec_f64){0} - 30.0, vec_min_f64((vec_f64){0} + 30.0, x));
    vec_f64 z = x * x, s = vec_logistic_f64(x * (FG_GELU_A + FG_GELU_B * z));
    return s + x * (FG_GELU_A + 3 * FG_GELU_B * z) * (s * (1.0 - s));
}
#endif

/* +-log(1 + |1 - 2 x| / min(x, 1 - x)): log(x / (1 - x)) where nothing cancels, with what the quotient's rounding took off; numbers below TINY times MORE,
 * lest the quotient, or it times 2^12, overflows */
#define FG_LOGIT(t, TINY, MORE, LOG_MORE) FG_INLINE vec_##t vec_logit_##t(vec_##t x) { \
    const vec_##t zero = {0}, half = zero + 0.5f, tiny = zero + TINY, n = vec_abs_##t(1.0f - 2.0f * x), side = vec_less_##t(x, half, x, 1.0f - x); \
    const vec_##t size = vec_abs_##t(side), scaled = vec_less_##t(size, tiny, side * MORE, side), inverse = 1.0f / scaled, q = n * inverse; \
    const vec_##t y = vec_log1p_sum_##t(q, -vec_product_rest_##t(q, scaled, n) * inverse) + vec_less_##t(size, tiny, zero + LOG_MORE, zero); \
    return vec_less_##t(x, half, -y, y); }
FG_LOGIT(f32, 1e-33f, 16777216.0f, 16.6355323f)
#ifdef __AVX512F__
FG_LOGIT(f64, 1e-300, 18014398509481984.0, 37.429947750237048)
#endif
#undef FG_LOGIT

/* z near |x|^(-1/3), from a third of x's bits and a step that leaves h^4; then y = x z^2, less (y^3 - x) / (3 y^2) by remainders */
FG_INLINE vec_f32 vec_cbrt_f32(vec_f32 x) {
    vec_f32 a = vec_abs_f32(x), least = FG_ALL_F32(0x1p-60f);
    vec_f32 b = vec_less_f32(a, least, a * 0x1p90f, a), unit = vec_less_f32(a, least, FG_ALL_F32(0x1p-30f), FG_ALL_F32(1.0f));
    vec_f32 third = 1.4199e9f - __builtin_convertvector((fg_lanes_f32)b, vec_f32) * 0.333333333f;
    vec_f32 z = (vec_f32)__builtin_convertvector(third, fg_lanes_f32), h = 1.0f - b * z * (z * z);
    z = z + z * h * ((0.17386863f * h + 0.22337617f) * h + 0.33333325f);
    vec_f32 zz = z * z, y = b * zz, p = y * y, c = vec_product_rest_f32(p, y, b) + vec_product_rest_f32(y, y, p) * y;
    y = (y - c * (zz * 0.333333333f)) * unit;
    y = vec_less_f32(a, FG_ALL_F32(INFINITY), y, x);
    return vec_sign_of_f32(vec_less_f32(FG_ALL_F32(0.0f), a, y, a), x);
}
/* The logistic function of log e, for e >= 0. What rounding 1 + e lost is made up for: 1 / (1 + e) is 1 - y. */
FG_INLINE vec_f32 vec_logistic_of_exp_f32(vec_f32 e) {
    e = vec_min_f32(FG_ALL_F32(1e30f), e);                                     /* NaN passes; from there on it is 1 */
    vec_f32 d = 1.0f + e, lost = (1.0f - d) + e, y = e / d;
    return y - (y * lost) * (1.0f - y);
}

#ifdef __AVX512F__
/* The estimate to 14 bits and one step of third order; where that is NaN (0, inf, NaN and below 0) the estimate is the result. */
FG_INLINE vec_f32 vec_rsqrt_f32(vec_f32 x) {
    vec_f32 y = (vec_f32)_mm512_rsqrt14_ps((__m512)x), h = x * y;
    vec_f32 e = (vec_f32)_mm512_fnmadd_ps((__m512)h, (__m512)y, (__m512)FG_ALL_F32(1.0f));
    vec_f32 s = e * (vec_f32)_mm512_fmadd_ps((__m512)FG_ALL_F32(0.375f), (__m512)e, (__m512)FG_ALL_F32(0.5f));
    vec_f32 better = (vec_f32)_mm512_fmadd_ps((__m512)y, (__m512)s, (__m512)y);
    return (vec_f32)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)e, (__m512)e, _CMP_EQ_OQ), (__m512)y, (__m512)better);
}
#endif
#endif
