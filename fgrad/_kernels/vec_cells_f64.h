/* Exponentials and what is made of them for float64 by a table of 16 cells in registers (AVX-512; included by vec.h): the method of
 * vec_cells.h. */
#ifndef FG_VEC_CELLS_F64_H
#define FG_VEC_CELLS_F64_H

/* 2^(n / 16), and what its rounding took off */
static const double fg_cell_power_f64[16] = {1.0, 1.0442737824274138, 1.0905077326652577, 1.1387886347566916, 1.189207115002721,
    1.241857812073484, 1.2968395546510096, 1.3542555469368927, 1.4142135623730951, 1.4768261459394993, 1.5422108254079407, 1.6104903319492543,
    1.681792830507429, 1.7562521603732995, 1.8340080864093424, 1.9152065613971474};
static const double fg_cell_power_low_f64[16] = {0.0, 8.551889705537965e-17, -3.046782079812471e-17, 8.912812676025408e-17,
    3.982015231465646e-17, 4.658027591836937e-17, 2.5382502794888315e-17, 7.70094837980299e-17, -9.667293313452913e-17, -3.483994556892796e-17,
    7.949834809697621e-17, 2.4707192569797888e-17, 8.199010020581497e-17, 2.960140695448873e-17, 3.283107224245627e-17, -1.0619946056195963e-16};
FG_INLINE vec_f64 fg_of_cell_f64(const double *table, vec_f64 cell) {
    return (vec_f64)_mm512_permutex2var_pd(_mm512_loadu_pd(table), (__m512i)cell, _mm512_loadu_pd(table + 8));
}
/* e^r - 1 for |r| <= log(2) / 32 */
FG_INLINE vec_f64 fg_power_rest_f64(vec_f64 r) {
    vec_f64 q = r * 0.0001984146386505679 + 0.0013889063510483424;
    q = q * r + 0.008333333332991816;
    q = q * r + 0.04166666666359301;
    q = q * r + 0.16666666666666669;
    q = q * r + 0.5;
    return r * r * q + r;
}
/* 2^k e^r for u = k + magic, k a multiple of 1/16 */
#define FG_MAGIC_CELLS_F64 0x1.8p48     /* the unit of its last place is 1/16 */
FG_INLINE vec_f64 vec_power_of_f64(vec_f64 u, vec_f64 k, vec_f64 r) {
    const vec_f64 power = fg_of_cell_f64(fg_cell_power_f64, u);
    return vec_scale_f64((power * fg_power_rest_f64(r) + fg_of_cell_f64(fg_cell_power_low_f64, u)) + power, k);
}
/* e^x 2^more */
FG_INLINE vec_f64 vec_expk_f64(vec_f64 x, double more) {
    x = vec_max_f64((vec_f64){0} - 746.0, x);
    x = vec_min_f64((vec_f64){0} + 711.0, x);
    const vec_f64 magic = (vec_f64){0} + FG_MAGIC_CELLS_F64, u = x * 1.44269504088896340736 + magic, k = u - magic;
    vec_f64 r = (vec_f64)_mm512_fnmadd_pd((__m512d)k, _mm512_set1_pd(6.93147180369123816490e-01), (__m512d)x);
    r = (vec_f64)_mm512_fnmadd_pd((__m512d)k, _mm512_set1_pd(1.90821492927058770002e-10), (__m512d)r);
    return vec_power_of_f64(u, k + more, r);
}
FG_INLINE vec_f64 vec_exp_f64(vec_f64 x) { return vec_expk_f64(x, 0.0); }
FG_INLINE vec_f64 vec_exp2_f64(vec_f64 x) {
    x = vec_max_f64((vec_f64){0} - 1076.0, x);
    x = vec_min_f64((vec_f64){0} + 1025.0, x);
    const vec_f64 magic = (vec_f64){0} + FG_MAGIC_CELLS_F64, u = x + magic, k = u - magic;
    return vec_power_of_f64(u, k, (x - k) * 0.69314718055994530942);
}
/* e + 1 / (4 e) and e - 1 / (4 e) for e = e^|x| / 2; the quotient from an estimate of 14 bits, of what does not overflow */
FG_INLINE vec_f64 vec_quarter_f64(vec_f64 e) {
    const vec_f64 d = vec_min_f64((vec_f64){0} + 0x1p500, e);
    vec_f64 i = (vec_f64)_mm512_rcp14_pd((__m512d)d);
    i = i + i * (1.0 - d * i);
    i = i + i * (1.0 - d * i);
    return 0.25 * i;
}
FG_INLINE vec_f64 vec_cosh_f64(vec_f64 x) { const vec_f64 e = vec_expk_f64(vec_abs_f64(x), -1.0); return e + vec_quarter_f64(e); }
FG_INLINE vec_f64 vec_sinh_f64(vec_f64 x) {
    const vec_f64 a = vec_abs_f64(x), z = a * a, e = vec_expk_f64(a, -1.0), far = e - vec_quarter_f64(e);
    vec_f64 p = z * 7.7593120622703776e-13 + 1.6057240346256301e-10;
    p = p * z + 2.5052123398486171e-08;
    p = p * z + 2.7557319155337337e-06;
    p = p * z + 0.00019841269841437678;
    p = p * z + 0.0083333333333331389;
    p = p * z + 0.16666666666666669;
    const __mmask8 near = _mm512_cmp_pd_mask((__m512d)a, _mm512_set1_pd(1.0), _CMP_LT_OQ);
    const vec_f64 y = (vec_f64)_mm512_mask_mov_pd((__m512d)far, near, (__m512d)(a + a * z * p));
    return (vec_f64)((fg_lanes_f64)y | ((fg_lanes_f64)x & INT64_MIN));
}
#include "vec_log_f64.h"
/* e^-|x| or 1 over 1 + e^-|x|, the quotient corrected by what it leaves and by what rounding 1 + e lost */
FG_INLINE vec_f64 vec_logistic_f64(vec_f64 x) {
    const vec_f64 one = (vec_f64){0} + 1.0, e = vec_exp_f64(-vec_abs_f64(x)), d = one + e, lost = (one - d) + e, inverse = one / d;
    const __mmask8 below = _mm512_cmp_pd_mask((__m512d)x, _mm512_setzero_pd(), _CMP_LT_OQ);
    const vec_f64 n = (vec_f64)_mm512_mask_mov_pd((__m512d)one, below, (__m512d)e), y = n * inverse;
    const vec_f64 left = (vec_f64)_mm512_fnmadd_pd((__m512d)y, (__m512d)d, (__m512d)n);
    return y + (left - y * lost) * inverse;
}
#endif
