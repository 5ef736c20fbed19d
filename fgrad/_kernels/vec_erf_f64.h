/* erf, its complement, its inverse and the normal distribution function of float64 by polynomials on 16 cells, whose coefficients a permutation of two
 * registers looks up for 8 lanes at once (AVX-512; scalar_f64.h serves elsewhere). */
#ifndef FG_VEC_ERF_F64_H
#define FG_VEC_ERF_F64_H
#include "vec.h"
#include "cell_tables.h"
#include "scalar_gamma.h"
#include "scalar_special.h"

/* of numbers from 2 on, the cells of cells_of in scripts/cell_tables.py */
FG_INLINE vec_f64 fg_shifted_cell_f64(vec_f64 v) { return (vec_f64)_mm512_srli_epi64((__m512i)v, 50); }
/* table[1] + t table[2] + ... of n rows: the odd and the even ones apart, which halves the chain */
FG_INLINE vec_f64 fg_cell_rest_f64(const double (*table)[16], const int n, vec_f64 cell, vec_f64 t) {
    const int top = (n - 1) | 1;
    const vec_f64 z = t * t;
    vec_f64 p = fg_of_cell_f64(table[top == n ? n - 2 : n - 1], cell), q = fg_of_cell_f64(table[top == n ? n - 1 : n - 2], cell);
    if (top == n) q = vec_fma_f64(q, z, fg_of_cell_f64(table[n - 3], cell));
    for (int k = top - (top == n ? 4 : 2); k > 1; k -= 2) {
        p = vec_fma_f64(p, z, fg_of_cell_f64(table[k], cell));
        q = vec_fma_f64(q, z, fg_of_cell_f64(table[k - 1], cell));
    }
    return vec_fma_f64(q, t, vec_fma_f64(p, z, fg_of_cell_f64(table[1], cell)));
}
FG_INLINE vec_f64 vec_erf_f64(vec_f64 x) {
    const vec_f64 a = vec_min_f64((vec_f64){0} + 5.95, vec_abs_f64(x)), cell = fg_shifted_cell_f64(a * 5.0 + 2.0);
    const vec_f64 t = a - fg_of_cell_f64(fg_cell_erf_f64[14], cell);
    const __mmask8 first = _mm512_cmp_pd_mask((__m512d)a, (__m512d)t, _CMP_EQ_OQ);               /* there x itself stands before its polynomial */
    const vec_f64 y = (vec_f64)_mm512_mask_mov_pd((__m512d)fg_of_cell_f64(fg_cell_erf_f64[0], cell), first, (__m512d)a);
    return vec_sign_of_f64(vec_fma_f64(t, fg_cell_rest_f64(fg_cell_erf_f64, 14, cell, t), y), x);
}
/* e^-(h + l) R(z + zl) / 2^less with R(z) = e^(z^2) erfc(z), for h in [0, 800] and z in [0, 28]; *power: e^-(h + l). Both factors have two parts. */
FG_INLINE vec_f64 vec_erfc_tail_f64(vec_f64 z, vec_f64 zl, vec_f64 h, vec_f64 l, double less, vec_f64 *power) {
    const vec_f64 cell = fg_shifted_cell_f64(z + 2.0), t = (z - fg_of_cell_f64(fg_cell_erfcx_f64[15], cell)) + zl;
    const vec_f64 first = fg_of_cell_f64(fg_cell_erfcx_f64[0], cell), rest = t * fg_cell_rest_f64(fg_cell_erfcx_f64, 15, cell, t);
    const vec_f64 magic = (vec_f64){0} + FG_MAGIC_CELLS_F64, u = h * -1.44269504088896340736 + magic, k = u - magic;
    vec_f64 r = -(vec_f64)_mm512_fmadd_pd((__m512d)k, _mm512_set1_pd(6.93147180369123816490e-01), (__m512d)h);
    r = (vec_f64)_mm512_fnmadd_pd((__m512d)k, _mm512_set1_pd(1.90821492927058770002e-10), (__m512d)r) - l;
    const vec_f64 base = fg_of_cell_f64(fg_cell_power_f64, u), more = base * fg_power_rest_f64(r) + fg_of_cell_f64(fg_cell_power_low_f64, u);
    *power = vec_scale_f64(base + more, k);
    return vec_scale_f64(vec_fma_f64(base, first, vec_fma_f64(more, first + rest, base * rest)), k - less);
}
FG_INLINE vec_f64 vec_erfc_f64(vec_f64 x) {
    const vec_f64 a = vec_min_f64((vec_f64){0} + 27.5, vec_abs_f64(x)), h = a * a;
    vec_f64 power, y = vec_erfc_tail_f64(a, (vec_f64){0}, h, vec_product_rest_f64(a, a, h), 0, &power);
    return vec_less_f64(x, (vec_f64){0}, 2.0 - y, y);
}
/* erfc(-x / sqrt(2)) / 2, and e^(-x^2 / 2) */
FG_INLINE vec_f64 vec_normal_f64(vec_f64 x, vec_f64 *power) {
    const vec_f64 root = (vec_f64){0} + 0.70710678118654752440, a = vec_min_f64((vec_f64){0} + 38.8, vec_abs_f64(x)), h = a * a, z = a * root;
    const vec_f64 zl = vec_product_rest_f64(a, root, z) - a * 4.8336466567264567e-17;
    const vec_f64 y = vec_erfc_tail_f64(z, zl, 0.5 * h, 0.5 * vec_product_rest_f64(a, a, h), 1, power);
    return vec_less_f64((vec_f64){0}, x, 1.0 - y, y);
}
FG_INLINE vec_f64 vec_ndtr_f64(vec_f64 x) { vec_f64 power; return vec_normal_f64(x, &power); }
FG_INLINE vec_f64 vec_gelu_exact_f64(vec_f64 x) { return x * vec_ndtr_f64(x); }
FG_INLINE vec_f64 vec_gelu_exact_slope_f64(vec_f64 x) {
    const vec_f64 near = vec_max_f64((vec_f64){0} - 40.0, vec_min_f64((vec_f64){0} + 40.0, x));
    vec_f64 power, y = vec_normal_f64(x, &power);
    return y + 0.398942280401432678 * near * power;
}
/* erf_inv(a) / a in two parts for log(1 - a^2) = y + low, down to FG_ERF_INV_LEAST */
#define FG_ERF_INV_LEAST -37.0
FG_INLINE vec_f64 vec_erf_inv_factor_f64(vec_f64 y, vec_f64 low, vec_f64 *rest) {
    const vec_f64 cell = fg_shifted_cell_f64(2.0 - 0.8 * y), t = -(y + fg_of_cell_f64(fg_cell_erf_inv_f64[14], cell)) - low;
    const vec_f64 first = fg_of_cell_f64(fg_cell_erf_inv_f64[0], cell), more = fg_cell_rest_f64(fg_cell_erf_inv_f64, 14, cell, t);
    const vec_f64 p = vec_fma_f64(t, more, first);
    *rest = vec_fma_f64(t, more, first - p);
    return p;
}
FG_INLINE vec_f64 vec_erf_inv_f64(vec_f64 x) {
    const vec_f64 one = (vec_f64){0} + 1.0;
    vec_f64 low, rest, y = vec_log_parts_f64((vec_f64)_mm512_fnmadd_pd((__m512d)x, (__m512d)x, (__m512d)one), (vec_f64){0}, 0, 0, &low);
    const vec_f64 p = vec_erf_inv_factor_f64(y, low, &rest);
    const __mmask8 end = _mm512_cmp_pd_mask((__m512d)vec_abs_f64(x), (__m512d)one, _CMP_EQ_OQ);
    return (vec_f64)_mm512_mask_mul_pd((__m512d)vec_sign_of_f64(vec_fma_f64(x, p, x * rest), x), end, (__m512d)x, _mm512_set1_pd(INFINITY));
}
/* One number beyond the cells, or none of (0, 1) */
static __attribute__((noinline)) double fg_ndtri_far_f64(double p) { return fg_ndtri_common(p) ? fg_ndtri_fast_f64(p) : fg_ndtri_f64(p); }
/* sqrt(2) erf_inv(1 - 2q) for the smaller q of p and 1 - p, with the rest of 1 - 2q and of the product with the root */
FG_INLINE vec_f64 vec_ndtri_f64(vec_f64 p) {
    const vec_f64 half = (vec_f64){0} + 0.5, q = vec_less_f64(half, p, 1.0 - p, p), a = 1.0 - 2.0 * q, al = (1.0 - a) - 2.0 * q;
    const vec_f64 root = (vec_f64){0} + 1.4142135623730951;
    vec_f64 low, rest, y = vec_log_parts_f64(4.0 * (vec_f64)_mm512_fnmadd_pd((__m512d)q, (__m512d)q, (__m512d)q), (vec_f64){0}, 0, 0, &low);
    const vec_f64 f = vec_erf_inv_factor_f64(y, low, &rest), g = f * root, gl = vec_product_rest_f64(f, root, g) + (rest * root - f * 9.6672933134529135e-17);
    const vec_f64 x = vec_fma_f64(a, g, a * gl + al * g);
    vec_f64 z = vec_less_f64(p, half, -x, x);
    const __mmask8 far = _mm512_cmp_pd_mask((__m512d)y, _mm512_set1_pd(FG_ERF_INV_LEAST), _CMP_NGE_UQ);
    if (__builtin_expect(far, 0)) for (int j = 0; j < 8; j++) if (far >> j & 1) z[j] = fg_ndtri_far_f64(p[j]);
    return z;
}
#endif
