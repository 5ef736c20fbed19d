/* erf, its complement, its inverse and the normal distribution function of float64 on vectors of 4 (AVX2 with fused multiply-add): the methods and tables
 * of vec_erf_f64.h. Each lane loads its cell's numbers, which lie side by side, and four lanes' are turned together: a gather of each row, or polynomials that
 * hold without cells, takes longer. */
#ifndef FG_VEC_ERF_ROWS_H
#define FG_VEC_ERF_ROWS_H
#include "vec.h"
#include "cell_rows.h"
#include "scalar_gamma.h"
#include "scalar_special.h"

/* 1 / R, log R's first part and its rest of each cell, as in vec_log_f64.h */
static const double fg_row_log_f64[16][4] = {
    {1.0, 0.0, 0.0, 0.0},
    {0.9140625, 0.08985632912185793, 3.1218748807418837e-15, 0.0},
    {0.86328125, 0.14701474296180095, 8.710783796122478e-15, 0.0},
    {0.8203125, 0.19806991376208316, 1.0634128304268335e-14, 0.0},
    {0.78125, 0.2468600779316148, -8.899851356560444e-14, 0.0},
    {0.74609375, 0.29290401643288533, 4.727452940514406e-14, 0.0},
    {0.7109375, 0.3411707574027787, -1.156568624616423e-14, 0.0},
    {0.6796875, 0.3861221452650625, -2.9052332860840534e-14, 0.0},
    {1.3046875, -0.2659635484972114, 7.343591369867797e-14, 0.0},
    {1.25390625, -0.22626367865041175, -4.1641267302872263e-14, 0.0},
    {1.20703125, -0.18816383241824042, 5.743078393200756e-14, 0.0},
    {1.1640625, -0.15191604202573217, -1.0980754099855238e-13, 0.0},
    {1.12109375, -0.11430477128010352, 4.488953352238699e-14, 0.0},
    {1.0859375, -0.08244366921098845, -8.614512936087814e-14, 0.0},
    {1.05078125, -0.04953393512232651, 4.9880309107981426e-14, 0.0},
    {1.0, 0.0, 0.0, 0.0}};

FG_INLINE vec_f64 vec_product_rest_f64(vec_f64 a, vec_f64 b, vec_f64 p) { return (vec_f64)_mm256_fmsub_pd((__m256d)a, (__m256d)b, (__m256d)p); }

/* Where the numbers of four lanes' cells lie; their places in a table, in bytes, stand in `at`. */
typedef struct { const char *lane[4]; } FgRowsOf;
FG_INLINE FgRowsOf fg_rows_at(const void *table, __m256i at) {
    const __m128i low = _mm256_castsi256_si128(at), high = _mm256_extracti128_si256(at, 1);
    const char *p = (const char *)table;
    return (FgRowsOf){{p + _mm_cvtsi128_si64(low), p + _mm_extract_epi64(low, 1), p + _mm_cvtsi128_si64(high), p + _mm_extract_epi64(high, 1)}};
}
/* numbers k and k + 1 of each lane's cell, k even */
FG_INLINE void fg_two_of_rows(const FgRowsOf *rows, int k, vec_f64 *a, vec_f64 *b) {
#define FG_TWO(j) _mm_loadu_pd((const double *)rows->lane[j] + k)
    const __m256d even = _mm256_insertf128_pd(_mm256_castpd128_pd256(FG_TWO(0)), FG_TWO(2), 1);
    const __m256d odd = _mm256_insertf128_pd(_mm256_castpd128_pd256(FG_TWO(1)), FG_TWO(3), 1);
#undef FG_TWO
    *a = (vec_f64)_mm256_unpacklo_pd(even, odd);
    *b = (vec_f64)_mm256_unpackhi_pd(even, odd);
}
/* of numbers from 2 on: the cell of 16 numbers */
FG_INLINE FgRowsOf fg_rows_of_f64(const double (*table)[16], vec_f64 v) {
    return fg_rows_at(table, _mm256_and_si256(_mm256_srli_epi64((__m256i)v, 43), _mm256_set1_epi64x(15 << 7)));
}
/* c[1] + t c[2] + ... + t^12 c[13], or one more, `top`: the odd and the even ones apart, which halves the chain; c[0] in *first */
FG_INLINE vec_f64 fg_row_rest_f64(const FgRowsOf *rows, const int more, vec_f64 top, vec_f64 t, vec_f64 *first) {
    const vec_f64 z = t * t;
    vec_f64 even, odd, low, high;
    fg_two_of_rows(rows, 12, &even, &odd);
    if (more) even = vec_fma_f64(top, z, even);
    for (int k = 10; k > 0; k -= 2) {
        fg_two_of_rows(rows, k, &low, &high);
        even = vec_fma_f64(even, z, low);
        odd = vec_fma_f64(odd, z, high);
    }
    fg_two_of_rows(rows, 0, first, &high);
    return vec_fma_f64(even, t, vec_fma_f64(odd, z, high));
}
FG_INLINE vec_f64 vec_erf_f64(vec_f64 x) {
    const vec_f64 a = vec_min_f64((vec_f64){0} + 5.95, vec_abs_f64(x));
    const FgRowsOf rows = fg_rows_of_f64(fg_row_erf_f64, a * 5.0 + 2.0);
    vec_f64 centre, none, first;
    fg_two_of_rows(&rows, 14, &centre, &none);
    const vec_f64 t = a - centre, rest = fg_row_rest_f64(&rows, 0, none, t, &first);
    const __m256d whole = _mm256_cmp_pd((__m256d)a, (__m256d)t, _CMP_EQ_OQ);                      /* there x itself stands before its polynomial */
    return vec_sign_of_f64(vec_fma_f64(t, rest, (vec_f64)_mm256_blendv_pd((__m256d)first, (__m256d)a, whole)), x);
}
/* e^r - 1 - r for |r| <= log(2) / 2 */
FG_INLINE vec_f64 fg_exp_rest_f64(vec_f64 r) {
    const vec_f64 z = r * r;
    vec_f64 even = (vec_f64){0} + 2.0924447259855354e-09, odd = (vec_f64){0} + 2.5109044893179733e-08;
    even = even * z + 2.7557242747080409e-07;
    odd = odd * z + 2.7557244181877631e-06;
    even = even * z + 2.4801587360570644e-05;
    odd = odd * z + 0.00019841269886158622;
    even = even * z + 0.001388888888886683;
    odd = odd * z + 0.0083333333333216152;
    even = even * z + 0.041666666666666699;
    odd = odd * z + 0.16666666666666677;
    even = even * z + 0.5;
    return z * (odd * r + even);
}
/* e^-(h + l) R(z + zl) / 2^less with R(z) = e^(z^2) erfc(z), for h in [0, 800] and z in [0, 28]; *power: e^-(h + l). Both factors have two parts. */
FG_INLINE vec_f64 vec_erfc_tail_f64(vec_f64 z, vec_f64 zl, vec_f64 h, vec_f64 l, double less, vec_f64 *power) {
    const FgRowsOf rows = fg_rows_of_f64(fg_row_erfcx_f64, z + 2.0);
    vec_f64 centre, top, first;
    fg_two_of_rows(&rows, 14, &top, &centre);
    const vec_f64 t = (z - centre) + zl, rest = t * fg_row_rest_f64(&rows, 1, top, t, &first);
    const vec_f64 magic = (vec_f64){0} + 6755399441055744.0, k = (h * -1.44269504088896340736 + magic) - magic;
    vec_f64 r = -vec_fma_f64(k, (vec_f64){0} + 6.93147180369123816490e-01, h);
    r = vec_less_fma_f64(k, (vec_f64){0} + 1.90821492927058770002e-10, r) - l;
    const vec_f64 base = 1.0 + r, more = ((1.0 - base) + r) + fg_exp_rest_f64(r);
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
/* log u in two parts for normal numbers u > 0 */
FG_INLINE vec_f64 vec_log_parts_f64(vec_f64 u, vec_f64 *low) {
    const __m256i t = _mm256_sub_epi64((__m256i)u, _mm256_set1_epi64x(0x3fe8000000000000 - 0x3ff0000000000000));          /* the bits of 3/4, which 1 is to be */
    const vec_f64 k = (vec_f64)_mm256_or_si256(_mm256_srli_epi64(t, 52), _mm256_set1_epi64x(0x4330000000000000)) - (4503599627370496.0 + 1023.0);
    const __m256i bits = _mm256_add_epi64(_mm256_and_si256(t, _mm256_set1_epi64x(0x000fffffffffffff)), _mm256_set1_epi64x(0x3fe8000000000000));
    const FgRowsOf rows = fg_rows_at(fg_row_log_f64, _mm256_and_si256(_mm256_srli_epi64(bits, 43), _mm256_set1_epi64x(15 << 5)));
    vec_f64 inverse, log, log_low, none;
    fg_two_of_rows(&rows, 0, &inverse, &log);
    fg_two_of_rows(&rows, 2, &log_low, &none);
    const vec_f64 r = (vec_f64)_mm256_fmsub_pd((__m256d)bits, (__m256d)inverse, _mm256_set1_pd(1.0)), z = r * r;
    vec_f64 q = -0.08828430638656448 * r + 0.11084508430553656, p = -0.1250239340600711 * r + 0.14285809680935474;
    q = q * z + p;
    q = q * z + (-0.16666665254041638 * r + 0.19999999923943054);
    q = q * z + (-0.25000000000230416 * r + 0.33333333333349824);
    q = q * r - 0.5;
    const vec_f64 high = k * 0.6931471805598903 + log, y = high + r, tail = z * q + (k * 5.497923018708371e-14 + log_low);
    *low = ((high - y) + r) + tail;
    return y;
}
/* erf_inv(a) / a in two parts for log(1 - a^2) = y + low, down to FG_ERF_INV_LEAST */
#define FG_ERF_INV_LEAST -37.0
FG_INLINE vec_f64 vec_erf_inv_factor_f64(vec_f64 y, vec_f64 low, vec_f64 *rest) {
    const FgRowsOf rows = fg_rows_of_f64(fg_row_erf_inv_f64, 2.0 - 0.8 * y);
    vec_f64 centre, none, first;
    fg_two_of_rows(&rows, 14, &centre, &none);
    const vec_f64 t = -(y + centre) - low, more = fg_row_rest_f64(&rows, 0, none, t, &first), p = vec_fma_f64(t, more, first);
    *rest = vec_fma_f64(t, more, first - p);
    return p;
}
FG_INLINE vec_f64 vec_erf_inv_f64(vec_f64 x) {
    const vec_f64 one = (vec_f64){0} + 1.0, a = vec_abs_f64(x);
    vec_f64 low, rest, y = vec_log_parts_f64(vec_less_fma_f64(x, x, one), &low);
    const vec_f64 p = vec_erf_inv_factor_f64(y, low, &rest), inside = vec_sign_of_f64(vec_fma_f64(x, p, x * rest), x);
    const __m256d end = _mm256_cmp_pd((__m256d)a, (__m256d)one, _CMP_EQ_OQ), edge = _mm256_blendv_pd(_mm256_set1_pd(NAN), (__m256d)(x * (one * INFINITY)), end);
    return vec_less_f64(a, one, inside, (vec_f64)edge);
}
/* One number beyond the cells, or none of (0, 1) */
static __attribute__((noinline)) double fg_ndtri_far_f64(double p) { return fg_ndtri_common(p) ? fg_ndtri_fast_f64(p) : fg_ndtri_f64(p); }
/* sqrt(2) erf_inv(1 - 2q) for the smaller q of p and 1 - p, with the rest of 1 - 2q and of the product with the root */
FG_INLINE vec_f64 vec_ndtri_f64(vec_f64 p) {
    const vec_f64 half = (vec_f64){0} + 0.5, q = vec_less_f64(half, p, 1.0 - p, p), a = 1.0 - 2.0 * q, al = (1.0 - a) - 2.0 * q;
    const vec_f64 root = (vec_f64){0} + 1.4142135623730951;
    vec_f64 low, rest, y = vec_log_parts_f64(4.0 * vec_less_fma_f64(q, q, q), &low);
    const vec_f64 f = vec_erf_inv_factor_f64(y, low, &rest), g = f * root, gl = vec_product_rest_f64(f, root, g) + (rest * root - f * 9.6672933134529135e-17);
    const vec_f64 x = vec_fma_f64(a, g, a * gl + al * g);
    vec_f64 z = vec_less_f64(p, half, -x, x);
    const int far = _mm256_movemask_pd(_mm256_or_pd(_mm256_cmp_pd((__m256d)y, _mm256_set1_pd(FG_ERF_INV_LEAST), _CMP_NGE_UQ),
                                                    _mm256_cmp_pd((__m256d)q, _mm256_setzero_pd(), _CMP_NGT_UQ)));
    if (__builtin_expect(far, 0)) for (int j = 0; j < 4; j++) if (far >> j & 1) z[j] = fg_ndtri_far_f64(p[j]);
    return z;
}
#endif
