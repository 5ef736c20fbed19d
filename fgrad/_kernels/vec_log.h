/* Logarithms, powers and erf of float32 by the cells of vec_cells.h; elsewhere the functions of vec.h and scalar_f32.h serve. */
#ifndef FG_VEC_LOG_H
#define FG_VEC_LOG_H
#include "vec.h"
#ifdef __AVX512F__

static const float fg_cell_log10[32] = {0.0f, 0.020850139f, 0.035327964f, 0.04275198f, 0.057991948f, 0.06978347f, 0.081904106f, 0.09017663f,
    0.1028886f, 0.11157478f, 0.124938734f, 0.13408211f, 0.14342214f, 0.15296745f, 0.1627273f, 0.17271152f, -0.11809931f, -0.11289812f,
    -0.10230505f, -0.096910015f, -0.08591463f, -0.080310754f, -0.06888129f, -0.063051745f, -0.051152524f, -0.045078374f, -0.038918067f,
    -0.032669116f, -0.026328938f, -0.019894829f, -0.013363961f, 0.0f};
/* log2 to 14 bits behind the point, and the rest */
static const float fg_cell_log2_high[32] = {0.0f, 0.06927490234375f, 0.11737060546875f, 0.14202880859375f, 0.192626953125f, 0.2318115234375f,
    0.2720947265625f, 0.299560546875f, 0.341796875f, 0.37066650390625f, 0.4150390625f, 0.4454345703125f, 0.4764404296875f, 0.50811767578125f,
    0.54058837890625f, 0.57373046875f, -0.392333984375f, -0.37506103515625f, -0.33984375f, -0.3218994140625f, -0.285400390625f,
    -0.26678466796875f, -0.22882080078125f, -0.20947265625f, -0.169921875f, -0.14971923828125f, -0.1292724609375f, -0.1085205078125f,
    -0.08746337890625f, -0.06610107421875f, -0.04437255859375f, 0.0f};
static const float fg_cell_log2_low[32] = {0.0f, -1.2239907e-05f, -1.3654831e-05f, -9.803722e-06f, 1.8124818e-05f, 4.1517856e-06f,
    -1.51811255e-05f, -2.650161e-07f, -8.3577515e-06f, -2.3123986e-05f, -1.5632212e-06f, -2.342199e-05f, -2.3857444e-06f, 2.922789e-05f,
    -1.9997544e-05f, 4.776548e-06f, 1.6561597e-05f, 2.160381e-05f, -6.2528848e-06f, -2.8680824e-05f, -1.8282373e-06f, -1.8727261e-06f,
    2.1102853e-06f, 1.9290621e-05f, -3.1264424e-06f, -2.7881224e-05f, -1.05560075e-05f, -3.9489655e-06f, 5.376559e-07f, 1.1883761e-05f,
    -2.1560765e-05f, 0.0f};

/* LOG(1 + r) = r (C + L) + r^2 q(r), log 2 = HIGH + LOW: HIGH has so few bits that k HIGH is exact */
#define FG_VEC_LOG(name, C, L, Q0, Q1, Q2, HIGH, LOW) \
FG_INLINE vec_f32 vec_##name##_f32(vec_f32 x) { \
    FG_CELL_OF(x, _MM_MANT_SIGN_nan, r, k, cell); \
    vec_f32 q = ((Q2 * r + Q1) * r + Q0) * r + L; \
    vec_f32 y = (vec_f32)_mm512_fmadd_ps((__m512)r, _mm512_set1_ps(C), (__m512)(r * q)); \
    if (LOW != 0) y = k * LOW + y; \
    y = y + (vec_f32)fg_of_cell(fg_cell_##name, cell); \
    return (vec_f32)_mm512_fmadd_ps((__m512)k, _mm512_set1_ps(HIGH), (__m512)y); }
FG_VEC_LOG(log, 1.0f, 0.0f, -0.5000005f, 0.33341584f, -0.24688782f, 0.69314575f, 1.4286068e-06f)
FG_VEC_LOG(log10, 0.4342945f, -1.010305e-08f, -0.21714745f, 0.14480065f, -0.10722201f, 0.3010254f, 4.605039e-06f)
#undef FG_VEC_LOG
FG_INLINE vec_f32 vec_log2_f32(vec_f32 x) {
    FG_CELL_OF(x, _MM_MANT_SIGN_nan, r, k, cell);
    vec_f32 q = ((-0.35618383f * r + 0.48101735f) * r - 0.7213482f) * r + 1.925963e-08f;
    vec_f32 low = r * q + (vec_f32)fg_of_cell(fg_cell_log2_low, cell), high = k + (vec_f32)fg_of_cell(fg_cell_log2_high, cell);
    return high + (vec_f32)_mm512_fmadd_ps((__m512)r, _mm512_set1_ps(1.442695f), (__m512)low);
}

/* erf(i / 8 + t) for |t| <= 1/16 by a polynomial of degree 5 for each i, t (1 + a polynomial) for i = 0; 1 from 3.93 on */
static const float fg_cell_erf[6][32] = {
    {0.0f, 0.1403162f, 0.2763264f, 0.4041169f, 0.5204999f, 0.6232409f, 0.71115565f, 0.7840751f, 0.8427008f, 0.8883882f, 0.92290014f,
    0.94817007f, 0.96610516f, 0.97844374f, 0.9866717f, 0.99199003f, 0.9953223f, 0.997346f, 0.9985373f, 0.99921703f, 0.999593f,
    0.9997946f, 0.9998994f, 0.99995214f, 0.9999779f, 0.9999901f, 0.9999957f, 0.9999982f, 0.9999993f, 0.9999997f, 0.9999999f, 0.99999994f},
    {0.12837917f, 1.1108853f, 1.0600141f, 0.9803528f, 0.8787826f, 0.76349956f, 0.64293104f, 0.52474505f, 0.4151075f, 0.31827396f,
    0.23652112f, 0.17035978f, 0.11893029f, 0.08047226f, 0.052774996f, 0.03354583f, 0.020666985f, 0.01234082f, 0.007142319f, 0.004006478f,
    0.0021782843f, 0.0011478751f, 0.0005862772f, 0.0002902283f, 0.00013925305f, 6.4758686e-05f, 2.9189026e-05f, 1.27517405e-05f,
    5.3994268e-06f, 2.2159204e-06f, 8.8143224e-07f, 3.398224e-07f},
    {6.194996e-09f, -0.13886046f, -0.26500317f, -0.36763188f, -0.43939087f, -0.47718686f, -0.48219806f, -0.45915183f, -0.41510755f,
    -0.35805833f, -0.29565158f, -0.23424488f, -0.1783956f, -0.13076754f, -0.09235632f, -0.062898465f, -0.041333973f, -0.026224228f,
    -0.016070193f, -0.009515358f, -0.0054456866f, -0.0030131529f, -0.0016122482f, -0.0008343965f, -0.0004177528f, -0.000202367f,
    -9.4862065e-05f, -4.3035867e-05f, -1.8897324e-05f, -8.032371e-06f, -3.3052047e-06f, -1.316734e-06f},
    {-0.37612715f, -0.35872316f, -0.30917066f, -0.23487614f, -0.14646381f, -0.05567196f, 0.026788637f, 0.09292344f, 0.13836904f,
    0.16245225f, 0.16753577f, 0.15793772f, 0.13875204f, 0.11484067f, 0.09015734f, 0.067441136f, 0.048222996f, 0.03303742f, 0.02172456f,
    0.0137305325f, 0.008350085f, 0.0048904205f, 0.002760383f, 0.0015025315f, 0.0007890973f, 0.00040001748f, 0.00019580826f,
    9.258207e-05f, 4.229501e-05f, 1.8673474e-05f, 7.969476e-06f, 3.2884204e-06f},
    {3.0700936e-05f, 0.06857445f, 0.12674361f, 0.16629009f, 0.18278675f, 0.17621776f, 0.15052958f, 0.112335764f, 0.06921148f,
    0.028064178f, -0.006034739f, -0.030370869f, -0.04448568f, -0.049634416f, -0.048049673f, -0.04223579f, -0.034442242f, -0.026371466f,
    -0.019100375f, -0.0131514445f, -0.008638766f, -0.005427458f, -0.0032678267f, -0.0018884437f, -0.0010487258f, -0.0005602271f,
    -0.00028811555f, -0.0001427473f, -6.8174224e-05f, -3.1400727e-05f, -1.3954453e-05f, -5.9855197e-06f},
    {0.1124121f, 0.104041174f, 0.0799585f, 0.045443367f, 0.0073548034f, -0.027332f, -0.053134814f, -0.067107f, -0.069095835f,
    -0.061267402f, -0.04715977f, -0.030614251f, -0.014894034f, -0.0021711243f, 0.006588884f, 0.011433715f, 0.013069292f, 0.012484523f,
    0.010653742f, 0.008358106f, 0.00612052f, 0.004221866f, 0.002759592f, 0.00171636f, 0.0010188362f, 0.00057852356f, 0.00031479393f,
    0.00016437324f, 8.245765e-05f, 3.977725e-05f, 1.8466495e-05f, 8.256005e-06f}};
FG_INLINE vec_f32 vec_erf_f32(vec_f32 x) {
    const vec_f32 magic = FG_ALL_F32(0x1p20f);                                  /* the unit of its last place is 1/8 */
    vec_f32 a = vec_abs_f32(x), u = a + magic, t = a - (u - magic);
    const __m512i cell = (__m512i)u;
    vec_f32 y = (vec_f32)fg_of_cell(fg_cell_erf[5], cell);
    for (int k = 4; k > 0; k--) y = y * t + (vec_f32)fg_of_cell(fg_cell_erf[k], cell);
    const __mmask16 first = _mm512_cmp_ps_mask((__m512)u, (__m512)magic, _CMP_EQ_OQ);
    y = y * t + (vec_f32)_mm512_mask_mov_ps(fg_of_cell(fg_cell_erf[0], cell), first, (__m512)a);
    const __mmask16 one = _mm512_cmp_ps_mask((__m512)a, _mm512_set1_ps(3.9193f), _CMP_GT_OQ);   /* 1 - erf is half an ulp from here on */
    return vec_sign_of_f32((vec_f32)_mm512_mask_mov_ps((__m512)y, one, _mm512_set1_ps(1)), x);
}

/* 8 lanes of float32, the lower (0) or the upper (1) ones, as float64; and back */
FG_INLINE __m512d fg_half_f64(vec_f32 x, int half) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(half ? _mm512_extracti64x4_epi64((__m512i)x, 1) : _mm512_castsi512_si256((__m512i)x)));
}
FG_INLINE vec_f32 fg_join_f32(__m512d low, __m512d high) {
    __m512i a = _mm512_castsi256_si512(_mm256_castps_si256(_mm512_cvtpd_ps(low)));
    return (vec_f32)_mm512_inserti64x4(a, _mm256_castps_si256(_mm512_cvtpd_ps(high)), 1);
}
/* log2 |x| to 2^-33 of itself, in two halves of float64 */
typedef struct { __m512d half[2]; } FgWide;
FG_INLINE FgWide vec_log2_wide(vec_f32 x) {
    FG_CELL_OF(x, _MM_MANT_SIGN_zero, r, k, cell);
    const vec_f32 high = k + (vec_f32)fg_of_cell(fg_cell_log2_high, cell), low = (vec_f32)fg_of_cell(fg_cell_log2_low, cell);
    FgWide y;
    for (int h = 0; h < 2; h++) {
        const __m512d s = fg_half_f64(r, h);
        __m512d p = _mm512_fmadd_pd(_mm512_set1_pd(0.282336901789518), s, _mm512_set1_pd(-0.3608051635152176));
        p = _mm512_fmadd_pd(p, s, _mm512_set1_pd(0.480901139845388));
        p = _mm512_fmadd_pd(p, s, _mm512_set1_pd(-0.7213475034180992));
        p = _mm512_fmadd_pd(p, s, _mm512_set1_pd(1.4426950407413948));
        y.half[h] = _mm512_add_pd(_mm512_fmadd_pd(p, s, fg_half_f64(low, h)), fg_half_f64(high, h));
    }
    return y;
}
/* 2^(y L), L = log2 |x| */
FG_INLINE vec_f32 vec_power_of_f32(FgWide L, vec_f32 y) {
    __m512d n[2], r[2];
    for (int h = 0; h < 2; h++) {
        __m512d e = _mm512_mul_pd(fg_half_f64(y, h), L.half[h]);
        e = _mm512_max_pd(_mm512_set1_pd(-200.0), _mm512_min_pd(_mm512_set1_pd(200.0), e));       /* NaN passes */
        n[h] = _mm512_roundscale_pd(e, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        r[h] = _mm512_sub_pd(e, n[h]);
    }
    vec_f32 k = fg_join_f32(n[0], n[1]), s = fg_join_f32(r[0], r[1]);
    vec_f32 p = 0.00015453652f * s + 0.0013390898f;
    p = p * s + 0.009618081f;
    p = p * s + 0.05550357f;
    p = p * s + 0.2402265f;
    p = p * s + 0.6931472f;
    return vec_scale_f32(p * s + 1.0f, k);
}
/* What |x|^y is not where x is not positive and finite or y is not finite: signs, and NaN against 1 */
FG_INLINE vec_f32 vec_power_edges_f32(vec_f32 x, vec_f32 y, vec_f32 p) {
    const __m512 a = (__m512)vec_abs_f32(x), v = (__m512)y, inf = _mm512_set1_ps(INFINITY), one = _mm512_set1_ps(1.0f), half = (__m512)(0.5f * y);
    enum { to_zero = _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC };
    __mmask16 whole = _mm512_cmp_ps_mask(_mm512_roundscale_ps(v, to_zero), v, _CMP_EQ_OQ);
    __mmask16 odd = whole & _mm512_cmp_ps_mask(_mm512_roundscale_ps(half, to_zero), half, _CMP_NEQ_OQ);
    __mmask16 below = _mm512_cmp_ps_mask((__m512)x, _mm512_setzero_ps(), _CMP_LT_OQ) & _mm512_cmp_ps_mask(a, inf, _CMP_LT_OQ);
    __mmask16 minus = _mm512_test_epi32_mask((__m512i)x, _mm512_set1_epi32(INT32_MIN)) & odd;
    __mmask16 is_one = _mm512_cmp_ps_mask((__m512)x, one, _CMP_EQ_OQ) | _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ)
        | (_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-1.0f), _CMP_EQ_OQ) & _mm512_cmp_ps_mask((__m512)vec_abs_f32(y), inf, _CMP_EQ_OQ));
    __mmask16 unordered = _mm512_cmp_ps_mask((__m512)x, v, _CMP_UNORD_Q);
    __m512i r = _mm512_mask_xor_epi32((__m512i)p, minus, (__m512i)p, _mm512_set1_epi32(INT32_MIN));
    __m512 z = _mm512_mask_mov_ps(_mm512_castsi512_ps(r), (below & (__mmask16)~whole) | unordered, _mm512_set1_ps(NAN));
    return (vec_f32)_mm512_mask_mov_ps(z, is_one, one);
}
FG_INLINE vec_f32 vec_power_f32(vec_f32 x, FgWide L, vec_f32 y) {
    vec_f32 p = vec_power_of_f32(L, y);
    __mmask16 plain = _mm512_cmplt_epu32_mask(_mm512_sub_epi32((__m512i)x, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7f7fffff))
        & _mm512_cmp_ps_mask((__m512)vec_abs_f32(y), _mm512_set1_ps(INFINITY), _CMP_LT_OQ);
    return plain == 0xffff ? p : vec_power_edges_f32(x, y, p);
}
#else
FG_INLINE vec_f32 vec_log_f32(vec_f32 x) {
    const vec_f32 least = FG_ALL_F32(1.17549435e-38f);
    vec_f32 u = vec_less_f32(x, least, x * 16777216.0f, x);                     /* subnormals times 2^24 */
    fg_lanes_f32 t = (fg_lanes_f32)u - FG_SQRT_HALF;
    vec_f32 k = __builtin_convertvector(t >> 23, vec_f32) - vec_less_f32(x, least, FG_ALL_F32(24.0f), FG_ALL_F32(0.0f));
    vec_f32 f = (vec_f32)((fg_lanes_f32)u - (t & FG_EXPONENT)) - 1.0f;
    return vec_log_edges_f32(x, k * 0.693359375f + (f + (vec_logr_f32(f) - k * 2.12194440e-4f)));
}
FG_INLINE vec_f32 vec_log10_f32(vec_f32 x) { vec_f32 y = vec_log_f32(x); return y * 0.43429446f + y * 1.9699273e-08f; }
#endif
#endif
