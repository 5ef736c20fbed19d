/* x^y by log2 |x| in two parts, from 32 cells in registers (AVX-512; scalar_f32.h and scalar_f64.h serve elsewhere). For float32 (ps) and float64 (pd). */
#ifndef FG_VEC_POWER_H
#define FG_VEC_POWER_H
#include "vec_log.h"
#include "vec_inverse.h"
#include "cell_tables.h"

/* log2 |x| to 2^-34 (2^-64) of itself */
typedef struct { vec_f32 high, low; } FgLog2_f32;
typedef struct { vec_f64 high, low; } FgLog2_f64;
/* What stands in the upper halves of float64 whose lower halves are 0 */
FG_INLINE vec_f64 fg_upper_of_cell(const uint32_t *table, __m512i cell) {
    return (vec_f64)_mm512_maskz_permutex2var_epi32(0xaaaa, _mm512_loadu_si512(table), cell, _mm512_loadu_si512(table + 16));
}
/* high + low + log2(1 + r + rl); C is 1 / log 2, C2 its half, CL and C2L what these lack, `rest` a polynomial for what is beyond the square */
#define FG_LOG2_SUM(t, r, rl, high, low, C, CL, C2, C2L, rest) \
    const vec_##t c_ = (vec_##t){0} + C, c2_ = (vec_##t){0} - C2, a_ = vec_fma_##t(r, c_, high), h_ = r * r, b_ = vec_fma_##t(h_, c2_, a_); \
    const vec_##t al_ = vec_fma_##t(r, c_, high - a_), hl_ = vec_product_rest_##t(r, r, h_), bl_ = vec_fma_##t(h_, c2_, a_ - b_); \
    const vec_##t w_ = vec_fma_##t(h_, vec_fma_##t(r, rest, (vec_##t){0} - C2L), vec_fma_##t(r, (vec_##t){0} + CL, low)); \
    const vec_##t l_ = (al_ + bl_) + (w_ + vec_fma_##t(hl_, c2_, rl)); \
    FgLog2_##t y_; \
    y_.high = b_ + l_; \
    y_.low = (b_ - y_.high) + l_; \
    return y_
FG_INLINE FgLog2_f32 vec_log2_parts_f32(vec_f32 x) {
    FG_CELL_OF(x, _MM_MANT_SIGN_zero, r, k, cell);
    const vec_f32 high = k + (vec_f32)fg_of_cell(fg_cell_log2_high, cell), low = (vec_f32)fg_of_cell(fg_cell_log2_low, cell);
    const vec_f32 rest = ((r * -0.2342122f + 0.28857692f) * r - 0.3606751f) * r + 0.48089835f;
    FG_LOG2_SUM(f32, r, ((vec_f32){0}), high, low, 1.442695f, 1.925963e-08f, 0.7213475f, 9.629815e-09f, rest);
}
FG_INLINE FgLog2_f64 vec_log2_parts_f64(vec_f64 x) {
    const __m512d one = _mm512_set1_pd(1.0), m = _mm512_getmant_pd((__m512d)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_zero), e = _mm512_getexp_pd((__m512d)x);
    const vec_f64 k = (vec_f64)_mm512_mask_add_pd(e, _mm512_cmp_pd_mask(m, one, _CMP_LT_OQ), e, one);
    const __m512i cell = _mm512_srli_epi32((__m512i)m, 15);                                       /* of the upper halves; the lower ones are not looked at */
    const vec_f64 inverse = fg_upper_of_cell(fg_cell_log2_f64[0], cell), p = (vec_f64)m * inverse, r = p - 1.0;
    const vec_f64 rl = vec_product_rest_f64((vec_f64)m, inverse, p) * (1.4426950408889634 - 1.4426950408889634 * r);
    const vec_f64 high = k + fg_upper_of_cell(fg_cell_log2_f64[1], cell);
    const vec_f64 low = fg_upper_of_cell(fg_cell_log2_f64[2], cell) + fg_upper_of_cell(fg_cell_log2_f64[3], cell), z = r * r;
    vec_f64 even = z * 0.12312444632919156 + 0.16030261835865117, odd = z * -0.14416397958401792 - 0.18033694811710904;
    even = even * z + 0.2060992912155057;
    odd = odd * z - 0.24044917347123215;
    even = even * z + 0.28853900817780254;
    odd = odd * z - 0.36067376022224124;
    even = even * z + 0.4808983469629878;
    const vec_f64 rest = odd * r + even;
    FG_LOG2_SUM(f64, r, rl, high, low, 1.4426950408889634, 2.0355273740931033e-17, 0.7213475204444817, 1.0177636870465517e-17, rest);
}
/* |x|^y = 2^(y L), L = log2 |x|: 2^(n / CELLS), n whole, by the cells of exp, times 2^r by P, a polynomial of 2^r - 1. MOST: 2^MOST is beyond all numbers */
#define FG_VEC_POWER(t, p_, K, LANES, MOST, MAGIC, BASE, LOW, P) \
FG_INLINE vec_##t vec_raised_##t(FgLog2_##t L, vec_##t y) { \
    const vec_##t most = (vec_##t){0} + MOST, magic = (vec_##t){0} + MAGIC, whole = y * L.high; \
    const K within = _mm512_cmp_##p_##_mask((LANES)vec_abs_##t(whole), (LANES)most, _CMP_LT_OQ);                /* else inf - inf */ \
    const vec_##t low = (vec_##t)_mm512_maskz_fmadd_##p_(within, (LANES)y, (LANES)L.low, (LANES)vec_product_rest_##t(y, L.high, whole)); \
    const vec_##t e = vec_max_##t(-most, vec_min_##t(most, whole)), u = e + magic, k = u - magic, r = (e - k) + low; \
    const vec_##t base = BASE(u), rest = vec_fma_##t(base, P(r), LOW(u)); \
    return vec_scale_##t(base + rest, k); \
} \
/* What |x|^y is not where x is not positive and finite or y is not finite: signs, powers of 0 and infinity, and NaN against 1 */ \
FG_INLINE vec_##t vec_power_edges_##t(vec_##t x, vec_##t y, vec_##t p) { \
    enum { to_zero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }; \
    const LANES a = (LANES)vec_abs_##t(x), v = (LANES)y, zero = (LANES)(vec_##t){0}, one = (LANES)((vec_##t){0} + 1), inf = (LANES)((vec_##t){0} + INFINITY); \
    const LANES half = (LANES)(y * (vec_##t)((vec_##t){0} + 0.5f)), minus = (LANES)(-(vec_##t){0}); \
    const K is_whole = _mm512_cmp_##p_##_mask(_mm512_roundscale_##p_(v, to_zero), v, _CMP_EQ_OQ); \
    const K odd = is_whole & _mm512_cmp_##p_##_mask(_mm512_roundscale_##p_(half, to_zero), half, _CMP_NEQ_OQ); \
    const K below = _mm512_cmp_##p_##_mask((LANES)x, zero, _CMP_LT_OQ) & _mm512_cmp_##p_##_mask(a, inf, _CMP_LT_OQ); \
    const K at_0 = _mm512_cmp_##p_##_mask(a, zero, _CMP_EQ_OQ), at_inf = _mm512_cmp_##p_##_mask(a, inf, _CMP_EQ_OQ); \
    const K down = _mm512_cmp_##p_##_mask(v, zero, _CMP_LT_OQ), signed_ = _mm512_cmp_##p_##_mask( \
        (LANES)vec_sign_of_##t((vec_##t)one, x), zero, _CMP_LT_OQ) & odd; \
    const K is_one = _mm512_cmp_##p_##_mask((LANES)x, one, _CMP_EQ_OQ) | _mm512_cmp_##p_##_mask(v, zero, _CMP_EQ_OQ) \
        | (_mm512_cmp_##p_##_mask((LANES)x, (LANES)(-(vec_##t)one), _CMP_EQ_OQ) & _mm512_cmp_##p_##_mask((LANES)vec_abs_##t(y), inf, _CMP_EQ_OQ)); \
    LANES z = _mm512_mask_mov_##p_((LANES)p, (at_0 & ~down) | (at_inf & down), zero); \
    z = _mm512_mask_mov_##p_(z, (at_0 & down) | (at_inf & ~down), inf); \
    z = _mm512_mask_xor_##p_(z, signed_, z, minus); \
    z = _mm512_mask_mov_##p_(z, (below & ~is_whole) | _mm512_cmp_##p_##_mask((LANES)x, v, _CMP_UNORD_Q), (LANES)((vec_##t){0} + NAN)); \
    return (vec_##t)_mm512_mask_mov_##p_(z, is_one, one); \
} \
/* whether there is a lane that the edges are for */ \
FG_INLINE int vec_power_odd_##t(vec_##t x, vec_##t y) { \
    return (K)(_mm512_fpclass_##p_##_mask((LANES)x, 0xdf) | _mm512_fpclass_##p_##_mask((LANES)y, 0x99)) != 0;   /* all but positive; NaN, infinities */ \
}
#define FG_POWER_OF_CELL_F32(u) ((vec_f32)fg_of_cell(fg_cell_power, (__m512i)(u)))
#define FG_POWER_LOW_F32(u) ((vec_f32)fg_of_cell(fg_cell_power_low, (__m512i)(u)))
#define FG_POWER_REST_F32(r) (((0.05550411f * r + 0.24022651f) * r + 0.6931472f) * r)
#define FG_POWER_OF_CELL_F64(u) fg_of_cell_f64(fg_cell_power_f64, u)
#define FG_POWER_LOW_F64(u) fg_of_cell_f64(fg_cell_power_low_f64, u)
#define FG_POWER_REST_F64(r) ((((((0.00015403723980749256 * r + 0.0013333781576784268) * r + 0.009618129106919537) * r + 0.0555041086566393) * r \
    + 0.24022650695910075) * r + 0.6931471805599457) * r)
FG_VEC_POWER(f32, ps, __mmask16, __m512, 200, 0x1.8p18f, FG_POWER_OF_CELL_F32, FG_POWER_LOW_F32, FG_POWER_REST_F32)
FG_VEC_POWER(f64, pd, __mmask8, __m512d, 1100, FG_MAGIC_CELLS_F64, FG_POWER_OF_CELL_F64, FG_POWER_LOW_F64, FG_POWER_REST_F64)
#endif
