/* Logarithms of float64 by a table of 16 cells in registers (AVX-512; included by vec_cells_f64.h): the method of vec_cells.h, with log R in two parts, whose
 * first and k log 2's are multiples of 2^-42, so that their sum is exact. */
#ifndef FG_VEC_LOG_F64_H
#define FG_VEC_LOG_F64_H

static const double fg_cell_inverse_f64[16] = {1.0, 0.9140625, 0.86328125, 0.8203125, 0.78125, 0.74609375, 0.7109375, 0.6796875, 1.3046875, 1.25390625,
    1.20703125, 1.1640625, 1.12109375, 1.0859375, 1.05078125, 1.0};
static const double fg_cell_log_f64[16] = {0.0, 0.08985632912185793, 0.14701474296180095, 0.19806991376208316, 0.2468600779316148, 0.29290401643288533,
    0.3411707574027787, 0.3861221452650625, -0.2659635484972114, -0.22626367865041175, -0.18816383241824042, -0.15191604202573217, -0.11430477128010352,
    -0.08244366921098845, -0.04953393512232651, 0.0};
static const double fg_cell_log_low_f64[16] = {0.0, 3.1218748807418837e-15, 8.710783796122478e-15, 1.0634128304268335e-14, -8.899851356560444e-14,
    4.727452940514406e-14, -1.156568624616423e-14, -2.9052332860840534e-14, 7.343591369867797e-14, -4.1641267302872263e-14, 5.743078393200756e-14,
    -1.0980754099855238e-13, 4.488953352238699e-14, -8.614512936087814e-14, 4.9880309107981426e-14, 0.0};

/* x < y ? a : b */
FG_INLINE vec_f64 vec_less_f64(vec_f64 x, vec_f64 y, vec_f64 a, vec_f64 b) {
    return (vec_f64)_mm512_mask_blend_pd(_mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_LT_OQ), (__m512d)b, (__m512d)a);
}
FG_INLINE vec_f64 vec_sqrt_f64(vec_f64 x) { return (vec_f64)_mm512_sqrt_pd((__m512d)x); }
FG_INLINE vec_f64 vec_product_rest_f64(vec_f64 a, vec_f64 b, vec_f64 p) { return (vec_f64)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)p); }
FG_INLINE vec_f64 vec_sign_of_f64(vec_f64 a, vec_f64 x) { return (vec_f64)((fg_lanes_f64)a | ((fg_lanes_f64)x & INT64_MIN)); }
FG_INLINE vec_f64 vec_fma_f64(vec_f64 a, vec_f64 b, vec_f64 c) { return (vec_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }
/* m, k as a vector and the cell: u = 2^k m with m in [3/4, 3/2) */
#define FG_CELL_OF_F64(u, m, k, cell) \
    const __m512d m = _mm512_getmant_pd((__m512d)(u), _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), e_ = _mm512_getexp_pd((__m512d)(u)); \
    const vec_f64 k = (vec_f64)_mm512_mask_add_pd(e_, _mm512_cmp_pd_mask(m, _mm512_set1_pd(1.0), _CMP_LT_OQ), e_, _mm512_set1_pd(1.0)); \
    const vec_f64 cell = (vec_f64)_mm512_srli_epi64(_mm512_castpd_si512(m), 48)
/* log(u + c) in two parts, where `more`, for u in [1/2, 2^53) and the rest c of its rounding; else log u, where `closer` with what r's rounding loses */
FG_INLINE vec_f64 vec_log_parts_f64(vec_f64 u, vec_f64 c, const int more, const int closer, vec_f64 *low) {
    FG_CELL_OF_F64(u, m, k, cell);
    const vec_f64 inverse = fg_of_cell_f64(fg_cell_inverse_f64, cell), whole = (vec_f64)m * inverse;
    const vec_f64 r0 = closer ? whole - 1.0 : (vec_f64)_mm512_fmsub_pd(m, (__m512d)inverse, _mm512_set1_pd(1.0));
    const vec_f64 rest = more ? (vec_f64)_mm512_scalef_pd((__m512d)c, (__m512d)-k) * inverse : closer ? vec_product_rest_f64((vec_f64)m, inverse, whole) : (vec_f64){0};
    const vec_f64 r = more ? r0 + rest : r0, z = r * r;
    vec_f64 q = -0.08828430638656448 * r + 0.11084508430553656, p = -0.1250239340600711 * r + 0.14285809680935474;
    q = q * z + p;
    q = q * z + (-0.16666665254041638 * r + 0.19999999923943054);
    q = q * z + (-0.25000000000230416 * r + 0.33333333333349824);
    q = q * r - 0.5;
    const vec_f64 high = k * 0.6931471805598903 + fg_of_cell_f64(fg_cell_log_f64, cell), y = high + r;
    const vec_f64 tail = z * q + (k * 5.497923018708371e-14 + fg_of_cell_f64(fg_cell_log_low_f64, cell)), back = (high - y) + r;
    *low = more ? (back + ((r0 - r) + rest)) + tail : closer ? (back + (rest - r * rest)) + tail : back + tail;
    return y;
}
/* y, or of 0 and infinity, whose logarithms the parts are not, those */
FG_INLINE vec_f64 vec_log_ends_f64(vec_f64 x, vec_f64 y) {
    const __mmask8 ends = _mm512_fpclass_pd_mask((__m512d)x, 0x02 | 0x04 | 0x08);              /* 0, -0, infinity; their exponents are -inf and inf */
    return __builtin_expect(ends, 0) ? (vec_f64)_mm512_mask_getexp_pd((__m512d)y, ends, (__m512d)x) : y;
}
FG_INLINE vec_f64 vec_log_f64(vec_f64 x) {
    vec_f64 low, y = vec_log_parts_f64(x, (vec_f64){0}, 0, 0, &low);
    return vec_log_ends_f64(x, y + low);
}
#define FG_VEC_LOG_F64(name, C, LOW) FG_INLINE vec_f64 vec_##name##_f64(vec_f64 x) { \
    vec_f64 low, y = vec_log_parts_f64(x, (vec_f64){0}, 0, 0, &low), p = y * (C); \
    return vec_log_ends_f64(x, p + ((vec_f64)_mm512_fmsub_pd((__m512d)y, _mm512_set1_pd(C), (__m512d)p) + (y * (LOW) + low * (C)))); }
FG_VEC_LOG_F64(log2, 1.4426950408889634, 2.0355273740931033e-17)
FG_VEC_LOG_F64(log10, 0.4342944819032518, 1.098319650216765e-17)
/* log(1 + x + low) */
FG_INLINE vec_f64 vec_log1p_sum_f64(vec_f64 x, vec_f64 low) {
    const vec_f64 u = 1.0 + x, lost = (x - (u - 1.0)) + low;
    const __m512i above = _mm512_sub_epi64((__m512i)u, _mm512_set1_epi64(0x3fe0000000000000));            /* the bits of 1/2 */
    const __mmask8 near = _mm512_cmplt_epu64_mask(above, _mm512_set1_epi64(0x0360000000000000));          /* below 2^53 */
    vec_f64 rest, y = vec_log_parts_f64(u, (vec_f64)_mm512_maskz_mov_pd(near, (__m512d)lost), 1, 0, &rest);
    y = vec_log_ends_f64(u, y + rest);
    return vec_sign_of_f64(y, x);
}
FG_INLINE vec_f64 vec_log1p_f64(vec_f64 x) { return vec_log1p_sum_f64(x, (vec_f64){0}); }

#endif
