/* The float64 functions of scalar_sample.h eight at a time (AVX-512), with the same roundings. Those of log are libm's, which is within 0.52 of a unit in
 * the last place: where the sum that vec_log_parts_f64 leaves is so far from the middle of two numbers that neither libm nor this sum can be beyond it, its
 * rounding is libm's; the rest, an eighth of all, is asked of libm. */
#ifndef FG_VEC_SAMPLE_H
#define FG_VEC_SAMPLE_H
#include "scalar_sample.h"
#include "upper.h"
#include "vec_cells_f64.h"

static __attribute__((noinline)) void fg_sample_log_some(const double *x, double *y, unsigned some) {
    fg_clear_upper();                                  /* libm's entry has instructions without AVX */
    for (; some; some &= some - 1) y[__builtin_ctz(some)] = fg_sample_log_f64(x[__builtin_ctz(some)]);
}
/* What is not `wanted` may be anything. */
FG_INLINE vec_f64 vec_sample_log_of_f64(vec_f64 x, __mmask8 wanted) {
    vec_f64 low, y = vec_log_parts_f64(x, (vec_f64){0}, 0, 1, &low), far = vec_abs_f64(y) * 1.12e-17 + 1e-18, above = y + (low + far);
    const __mmask8 open = (__mmask8)(wanted & _mm512_cmp_pd_mask((__m512d)above, (__m512d)(y + (low - far)), _CMP_NEQ_UQ));    /* NaN, too: of 0, infinity, x < 0 */
    if (open) {
        double from[8], to[8];
        memcpy(from, &x, 64); memcpy(to, &above, 64);
        fg_sample_log_some(from, to, open);
        memcpy(&above, to, 64);
    }
    return above;
}
FG_INLINE vec_f64 vec_sample_log_f64(vec_f64 x) { return vec_sample_log_of_f64(x, 0xff); }

FG_INLINE vec_f64 vec_sample_horner(const double *c, int n, vec_f64 x) {
    vec_f64 p = (vec_f64){0} + c[0];
    for (int i = 1; i < n; i++) p = vec_fma_f64(p, x, (vec_f64){0} + c[i]);
    return p;
}
FG_INLINE vec_f64 vec_sample_log1p_f64(vec_f64 x) {
    const vec_f64 z = FG_ROUNDED(x * x), p = vec_sample_horner(fg_sample_log1p_p, 7, x), q = vec_sample_horner(fg_sample_log1p_q, 7, x);
    const vec_f64 y = x + vec_fma_f64((vec_f64){0} - 0.5, z, FG_ROUNDED(FG_ROUNDED(x * z) * (p / q)));
    const __mmask8 far = _mm512_cmp_pd_mask((__m512d)vec_abs_f64(x), _mm512_set1_pd(FG_SAMPLE_NEAR), _CMP_NLT_UQ);
    return far ? (vec_f64)_mm512_mask_mov_pd((__m512d)y, far, (__m512d)vec_sample_log_of_f64(1.0 + x, far)) : y;
}
FG_INLINE vec_f64 vec_sample_erf_inv_f64(vec_f64 x) {
    const vec_f64 l = vec_sample_log1p_f64(FG_ROUNDED(x * -x)), infinite = (vec_f64){0} + INFINITY;
    const __mmask8 beyond = _mm512_cmp_pd_mask((__m512d)l, _mm512_set1_pd(-6.25), _CMP_NGT_UQ);
    vec_f64 y = vec_sample_horner(fg_sample_centre, 23, -3.125 - l);
    if (beyond) {
        const vec_f64 s = vec_sqrt_f64(-l);
        const __mmask8 end = _mm512_cmp_pd_mask((__m512d)l, _mm512_set1_pd(-16), _CMP_NGT_UQ);
        y = (vec_f64)_mm512_mask_mov_pd((__m512d)y, beyond, (__m512d)vec_sample_horner(fg_sample_middle, 19, s - 3.25));
        if (end) y = (vec_f64)_mm512_mask_mov_pd((__m512d)y, end, (__m512d)vec_sample_horner(fg_sample_tail, 17, s - 5.0));
    }
    y = (vec_f64)_mm512_mask_mov_pd((__m512d)y, _mm512_cmp_pd_mask((__m512d)vec_abs_f64(x), _mm512_set1_pd(1), _CMP_EQ_OQ), (__m512d)infinite);
    return x * y;
}
#endif
