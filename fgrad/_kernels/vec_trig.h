/* tan, and the inverses of float64: quotients and roots but atan's from estimates to 14 bits (AVX-512; scalar_f32.h and scalar_f64.h serve elsewhere). */
#ifndef FG_VEC_TRIG_H
#define FG_VEC_TRIG_H
#include "vec_inverse.h"

/* 1 / t to 2^-27 and to 2^-52 */
FG_INLINE vec_f32 vec_near_inverse_f32(vec_f32 t) {
    const vec_f32 i = (vec_f32)_mm512_rcp14_ps((__m512)t), e = (vec_f32)_mm512_fnmadd_ps((__m512)t, (__m512)i, _mm512_set1_ps(1.0f));
    return vec_fma_f32(i, e, i);
}
FG_INLINE vec_f64 vec_near_inverse_f64(vec_f64 t) {
    const vec_f64 i = (vec_f64)_mm512_rcp14_pd((__m512d)t), e = (vec_f64)_mm512_fnmadd_pd((__m512d)t, (__m512d)i, _mm512_set1_pd(1.0));
    return vec_fma_f64(i, vec_fma_f64(vec_fma_f64(e, e, e), e, e), i);
}
/* t + tl = tan(r + rl) for tan r = r + v p; in odd quadrants -1 / (t + tl), corrected by what the inverse leaves; x itself where it is tiny. The quadrant
 * stands in the low bits of u. */
#define FG_TAN_OF(t_, p, epi, V, K, x, u, r, rl, v, P, TINY) \
    const vec_##t_ t = vec_fma_##t_(v, P, r), tl = vec_fma_##t_(v, P, r - t) + vec_fma_##t_(rl * t, t, rl), i = vec_near_inverse_##t_(t), one = (vec_##t_){0} + 1; \
    const vec_##t_ left = vec_fma_##t_(-t, i, one) - tl * i; \
    const K turned = _mm512_test_##epi##_mask((__m512i)u, _mm512_set1_##epi(1)), tiny = _mm512_cmp_##p##_mask((V)vec_abs_##t_(x), (V)(one * TINY), _CMP_LT_OQ); \
    const V y = _mm512_mask_blend_##p(turned, (V)(t + tl), _mm512_fnmsub_##p((V)i, (V)left, (V)i)); \
    return (vec_##t_)_mm512_mask_mov_##p(y, tiny, (V)x)
FG_INLINE vec_f32 vec_tan_f32(vec_f32 x) {
    const vec_f32 magic = FG_ALL_F32(12582912.0f), u = vec_fma_f32(x, FG_ALL_F32(0.636619772f), magic), n = u - magic;
    const vec_f32 near = vec_fma_f32(-n, FG_ALL_F32(1.57079637f), x), c = FG_ALL_F32(-4.37113883e-08f), p = n * c, r0 = near - p;
    const vec_f32 rest = ((near - r0) - p) + vec_fma_f32(n, FG_ALL_F32(1.71512451e-15f), -vec_product_rest_f32(n, c, p));
    const vec_f32 r = r0 + rest, rl = (r0 - r) + rest, z = r * r;
    vec_f32 w = z * 0.0038439722f + 0.0011839186f;
    w = w * z + 0.009963025f;
    w = w * z + 0.021620877f;
    w = w * z + 0.053994495f;
    w = w * z + 0.13333231f;
    w = w * z + 0.33333334f;
    FG_TAN_OF(f32, ps, epi32, __m512, __mmask16, x, u, r, rl, r * z, w, 1e-4f);
}
FG_INLINE vec_f64 vec_tan_f64(vec_f64 x) {
    const vec_f64 magic = (vec_f64){0} + FG_MAGIC64, u = vec_fma_f64(x, (vec_f64){0} + 0.63661977236758134308, magic), n = u - magic;
    const vec_f64 near = x - n * 1.57079632673412561417e+00, w = n * 6.07710050630396597660e-11, r0 = near - w;        /* 33-bit parts: exact products */
    const vec_f64 rest = ((near - r0) - w) - n * 2.02226624879595063154e-21, r = r0 + rest, rl = (r0 - r) + rest, z = r * r, zz = z * z;
    vec_f64 even = 8.483397382032138e-06 * zz + 3.6516567252883386e-05, odd = -1.8315550972898846e-05 * zz - 1.1014032445221995e-05;
    even = even * zz + 5.558814479553675e-05;
    odd = odd * zz + 8.998505813193702e-05;
    even = even * zz + 0.00024122640285124727;
    odd = odd * zz + 0.0005895755943473237;
    even = even * zz + 0.001455902741013659;
    odd = odd * zz + 0.0035921209803406995;
    even = even * zz + 0.008863236003501862;
    odd = odd * zz + 0.021869488517073682;
    even = even * zz + 0.053968253968655476;
    odd = odd * zz + 0.13333333333333;
    const vec_f64 p = z * (even * z + odd) + 0.3333333333333333, more = rl + vec_product_rest_f64(r, r, z) * (0.22 * r);    /* near pi/4, where z's rounding counts */
    FG_TAN_OF(f64, pd, epi64, __m512d, __mmask8, x, u, r, more, r * z, p, 1e-8);
}
/* asin(s + sl) = s + the value returned, for the root s + sl of z <= 1/4: where |x| > 1/2, z = (1 - |x|) / 2, else s is `other` and sl 0 */
FG_INLINE vec_f64 vec_asin_parts_f64(vec_f64 a, vec_f64 other, __mmask8 big, vec_f64 *root) {
    const __m512d half = _mm512_set1_pd(0.5), a_ = (__m512d)a;
    const vec_f64 z = (vec_f64)_mm512_mask_fnmadd_pd(a_, big, half, half), z0 = (vec_f64)_mm512_mask_mul_pd((__m512d)z, (__mmask8)~big, a_, a_);
    const __mmask8 some = _mm512_mask_cmp_pd_mask(big, (__m512d)z, _mm512_setzero_pd(), _CMP_NEQ_UQ);
    const vec_f64 i = (vec_f64)_mm512_maskz_rsqrt14_pd(some, (__m512d)z), h = z * i, e = (vec_f64)_mm512_fnmadd_pd((__m512d)h, (__m512d)i, _mm512_set1_pd(1.0));
    const vec_f64 s0 = h + h * e * ((0.3125 * e + 0.375) * e + 0.5);
    const __m512d left = _mm512_maskz_fnmadd_pd(big, (__m512d)s0, (__m512d)s0, (__m512d)z);
    const vec_f64 s = (vec_f64)_mm512_mask_mov_pd((__m512d)other, big, (__m512d)s0), y = z0, yy = y * y;
    vec_f64 even = 0.032676793567942501 * yy + 0.021763387985508944, odd = -0.021077136679306836 * yy + 0.0036830881092762826;
    even = even * yy + 0.010786516780489674;
    odd = odd * yy + 0.011397778168652291;
    even = even * yy + 0.013980961189774327;
    odd = odd * yy + 0.017351600112782677;
    even = even * yy + 0.022372215659222212;
    odd = odd * yy + 0.030381942683650801;
    even = even * yy + 0.044642857175120246;
    odd = odd * yy + 0.074999999999702624;
    even = even * yy + 0.16666666666666763;
    *root = s;
    return vec_fma_f64(s * y, odd * y + even, (vec_f64)left * (0.5 * i));
}
#define FG_PAST_HALF(a) _mm512_cmp_pd_mask((__m512d)(a), _mm512_set1_pd(0.5), _CMP_GT_OQ)
FG_INLINE vec_f64 vec_asin_f64(vec_f64 x) {                                      /* s + w, or pi/2 - 2 s, what its rounding took off, and -2 w */
    const vec_f64 a = vec_abs_f64(x), half_turn = (vec_f64){0} + FG_PIO2;
    const __mmask8 big = FG_PAST_HALF(a);
    vec_f64 s, w = vec_asin_parts_f64(a, a, big, &s);
    const __m512d two = _mm512_set1_pd(2.0), d = _mm512_mask_fnmadd_pd((__m512d)s, big, two, (__m512d)half_turn);
    const __m512d lost = _mm512_fnmadd_pd(two, (__m512d)s, (__m512d)(half_turn - (vec_f64)d));
    const __m512d rest = _mm512_mask_fnmadd_pd((__m512d)w, big, two, (__m512d)((vec_f64)lost + FG_PIO2_LO));
    return vec_sign_of_f64((vec_f64)d + (vec_f64)rest, x);
}
FG_INLINE vec_f64 vec_acos_f64(vec_f64 x) {
    const vec_f64 a = vec_abs_f64(x);
    const __mmask8 big = FG_PAST_HALF(a), up = FG_PAST_HALF(x);
    vec_f64 s, w = vec_asin_parts_f64(a, x, big, &s);
    const vec_f64 back = FG_PIO2 - (s + (w - FG_PIO2_LO));
    const __m512d y = _mm512_mask_add_pd((__m512d)back, up, (__m512d)s, (__m512d)w);
    return (vec_f64)_mm512_mask_add_pd(y, big, y, y);
}
/* atan(a / b) for a, b >= 0, as fg_atanq_f64 */
FG_INLINE vec_f64 vec_atan_quotient_f64(vec_f64 a, vec_f64 b) {
    const __mmask8 far = _mm512_cmp_pd_mask((__m512d)a, (__m512d)(b * 2.41421356237309504880), _CMP_GT_OQ);
    const __mmask8 past = _mm512_cmp_pd_mask((__m512d)a, (__m512d)(b * 0.41421356237309504880), _CMP_GT_OQ), mid = past & ~far;
    const __m512d num = _mm512_mask_mov_pd(_mm512_mask_sub_pd((__m512d)a, mid, (__m512d)a, (__m512d)b), far, (__m512d)-b);
    const __m512d den = _mm512_mask_add_pd(_mm512_mask_mov_pd((__m512d)b, far, (__m512d)a), mid, (__m512d)a, (__m512d)b);
    const vec_f64 t = (vec_f64)num / (vec_f64)den, z = t * t, zz = z * z;
    vec_f64 odd = 0.015206547953650193 * zz + 0.045040304987449709, even = -0.033485666117147116 * zz - 0.052185226093172089;
    odd = odd * zz + 0.05877040150961927;
    even = even * zz - 0.066662286304979682;
    odd = odd * zz + 0.076922828854460695;
    even = even * zz - 0.090909081501337821;
    odd = odd * zz + 0.1111111108833313;
    even = even * zz - 0.14285714285390502;
    odd = odd * zz + 0.19999999999997689;
    even = even * zz - 0.33333333333333326;
    const __m512d high = _mm512_mask_mov_pd(_mm512_maskz_mov_pd(mid, _mm512_set1_pd(0.5 * FG_PIO2)), far, _mm512_set1_pd(FG_PIO2));
    const __m512d low = _mm512_mask_mov_pd(_mm512_maskz_mov_pd(mid, _mm512_set1_pd(0.5 * FG_PIO2_LO)), far, _mm512_set1_pd(FG_PIO2_LO));
    return (vec_f64)high + (t + vec_fma_f64(t * z, odd * z + even, (vec_f64)low));
}
FG_INLINE vec_f64 vec_atan_f64(vec_f64 x) { return vec_sign_of_f64(vec_atan_quotient_f64(vec_abs_f64(x), (vec_f64){0} + 1.0), x); }
FG_INLINE vec_f64 vec_atan2_f64(vec_f64 y, vec_f64 x) {
    const vec_f64 a = vec_abs_f64(y), b = vec_abs_f64(x), one = (vec_f64){0} + 1.0;
    const __mmask8 great = _mm512_cmp_pd_mask((__m512d)vec_max_f64(a, b), _mm512_set1_pd(1e307), _CMP_GT_OQ);
    const __mmask8 zero = _mm512_cmp_pd_mask((__m512d)(a + b), _mm512_setzero_pd(), _CMP_EQ_OQ);
    const __mmask8 minus = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_LT_OQ) | (zero & _mm512_movepi64_mask((__m512i)x));
    const __m512d quarter = _mm512_set1_pd(0.25), most = _mm512_set1_pd(INFINITY);
    const __mmask8 inf = _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask((__m512d)a, most, _CMP_EQ_OQ), (__m512d)b, most, _CMP_EQ_OQ);
    const __m512d u = _mm512_mask_mul_pd((__m512d)a, great, (__m512d)a, quarter);
    const __m512d v = _mm512_mask_mul_pd((__m512d)b, great, (__m512d)b, quarter);
    const vec_f64 r = vec_atan_quotient_f64((vec_f64)_mm512_mask_mov_pd(u, inf, (__m512d)one), (vec_f64)_mm512_mask_mov_pd(v, inf | zero, (__m512d)one));
    const __m512d back = _mm512_sub_pd(_mm512_set1_pd(2 * FG_PIO2), (__m512d)(r - 2 * FG_PIO2_LO));
    return vec_sign_of_f64((vec_f64)_mm512_mask_mov_pd((__m512d)r, minus, back), y);
}
#endif
