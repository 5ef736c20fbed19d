/* Exponentials, the hyperbolic tangent and log(1 + x) of float32 by tables of 32 cells in registers, where a permutation looks up 16 lanes at
 * once (AVX-512; included by vec.h, whose functions serve elsewhere).
 *
 * x = 2^k m, m in [3/4, 3/2), in a cell with 1 / m near R: log x = k log 2 - log R + log(1 + r), r = m R - 1.  R has so few bits that r is
 * exact; R = 1 in the cells beside m = 1.  e^x = 2^(n / 32) e^r with n near 32 x / log 2.  (Tang, Table-driven implementation of the
 * logarithm function, 1990; of the exponential function, 1989.) */
#ifndef FG_VEC_CELLS_H
#define FG_VEC_CELLS_H

static const float fg_cell_inverse[32] = {1.0f, 0.953125f, 0.921875f, 0.90625f, 0.875f, 0.8515625f, 0.828125f, 0.8125f, 0.7890625f, 0.7734375f,
    0.75f, 0.734375f, 0.71875f, 0.703125f, 0.6875f, 0.671875f, 1.3125f, 1.296875f, 1.265625f, 1.25f, 1.21875f, 1.203125f, 1.171875f, 1.15625f,
    1.125f, 1.109375f, 1.09375f, 1.078125f, 1.0625f, 1.046875f, 1.03125f, 1.0f};
static const float fg_cell_log[32] = {0.0f, 0.04800922f, 0.08134564f, 0.09844007f, 0.13353139f, 0.16068238f, 0.18859117f, 0.20763937f,
    0.23690975f, 0.2569104f, 0.2876821f, 0.3087355f, 0.33024168f, 0.3522206f, 0.37469345f, 0.39768296f, -0.2719337f, -0.25995752f, -0.23556606f,
    -0.22314355f, -0.19782574f, -0.18492234f, -0.15860502f, -0.14518201f, -0.11778303f, -0.103796795f, -0.089612156f, -0.07522342f,
    -0.06062462f, -0.045809537f, -0.030771658f, 0.0f};
FG_INLINE __m512 fg_of_cell(const float *table, __m512i cell) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), cell, _mm512_loadu_ps(table + 16));
}
/* r, k and the cell of |x|; of 0 and infinity k is -inf and inf.  Where SIGN is _MM_MANT_SIGN_nan, r is NaN below 0. */
#define FG_CELL_OF(x, SIGN, r, k, cell) \
    const __m512 m_ = _mm512_getmant_ps((__m512)(x), _MM_MANT_NORM_p75_1p5, SIGN); \
    const __m512 k_ = _mm512_getexp_ps((__m512)(x)), one_ = _mm512_set1_ps(1.0f); \
    const __m512i cell = _mm512_srli_epi32(_mm512_castps_si512(m_), 18); \
    const vec_f32 k = (vec_f32)_mm512_mask_add_ps(k_, _mm512_cmp_ps_mask(m_, one_, _CMP_LT_OQ), k_, one_); \
    const vec_f32 r = (vec_f32)_mm512_fmsub_ps(m_, fg_of_cell(fg_cell_inverse, cell), one_)


/* 2^(n / 32), and what its rounding took off */
static const float fg_cell_power[32] = {1.0f, 1.0218972f, 1.0442737f, 1.0671405f, 1.0905077f, 1.1143868f, 1.1387886f, 1.1637249f,
    1.1892071f, 1.2152474f, 1.2418578f, 1.269051f, 1.2968396f, 1.3252367f, 1.3542556f, 1.38391f, 1.4142135f, 1.4451808f, 1.4768262f,
    1.5091645f, 1.5422108f, 1.5759809f, 1.6104903f, 1.6457555f, 1.6817929f, 1.7186193f, 1.7562522f, 1.7947091f, 1.8340081f, 1.8741677f,
    1.9152066f, 1.9571441f};
static const float fg_cell_power_low[32] = {0.0f, -4.81156e-8f, 4.83347e-8f, -5.933752e-8f, -1.307754e-8f, -5.43554e-8f, 5.3862223e-8f,
    -4.0514415e-8f, 3.7976353e-8f, -3.267395e-8f, 4.496838e-8f, 1.4193333e-9f, -4.0189995e-8f, -3.4963733e-8f, -1.0123349e-8f,
    -5.8755774e-8f, 2.4203235e-8f, 3.3242e-8f, -4.500899e-8f, -2.4959373e-8f, 8.070905e-9f, -5.6610254e-8f, 9.836217e-9f, -5.124972e-8f,
    -2.4755327e-8f, -4.8496176e-8f, -9.23577e-9f, -1.1415045e-8f, -1.1239278e-8f, -4.6630056e-8f, 9.845328e-9f, -1.7021804e-8f};
/* tanh(c + t) by a polynomial of degree 5 in four cells for each power of two, from 1/16 to 16; c is the last row. The first cell begins
 * at 0. */
static const float fg_cell_tanh[7][32] = {
    {0.9780261f, 0.99185973f, 0.99699765f, 0.99889445f, 0.9997532f, 0.9999666f, 0.99999547f, 0.9999994f, 0.99999994f, 1.0f, 1.0f, 1.0f,
    0.0f, 0.08572657f, 0.10121473f, 0.11665399f, 0.1397053f, 0.17020231f, 0.20037672f, 0.2301757f, 0.2740616f, 0.33082113f, 0.38528398f,
    0.43718877f, 0.50983f, 0.59637356f, 0.6709671f, 0.7340715f, 0.8093011f, 0.8798267f, 0.92534626f, 0.95404524f},
    {0.043464918f, 0.016214287f, 0.0059957155f, 0.0022098925f, 0.00049352046f, 6.680499e-5f, 9.041334e-6f, 1.2236163e-6f, 6.094619e-8f,
    8.244615e-9f, 8.244615e-9f, 8.244615e-9f, 1.0f, 0.9926509f, 0.9897556f, 0.98639184f, 0.9804824f, 0.9710312f, 0.9598492f, 0.94701916f,
    0.9248902f, 0.8905574f, 0.85155624f, 0.80886596f, 0.7400734f, 0.6443386f, 0.5498032f, 0.461139f, 0.34503177f, 0.22590497f, 0.14373437f,
    0.08979764f},
    {-0.042508237f, -0.0160811f, -0.0059771794f, -0.0022072394f, -0.0004926109f, -6.669535e-5f, -9.026742e-6f, -1.221646e-6f,
    -5.9231784e-8f, -8.244613e-9f, -8.244613e-9f, -8.244613e-9f, 0.0f, -0.08509656f, -0.10017785f, -0.11506654f, -0.1369786f, -0.16527174f,
    -0.19233142f, -0.2179808f, -0.25347686f, -0.29461515f, -0.32809094f, -0.3536271f, -0.3773113f, -0.3842664f, -0.3688999f, -0.33850914f,
    -0.27923712f, -0.19875874f, -0.13300462f, -0.085671104f},
    {0.027087644f, 0.01054639f, 0.003961058f, 0.0014683203f, 0.00032854697f, 4.4501558e-5f, 6.023319e-6f, 8.151802e-7f, 4.0141767e-8f,
    5.496409e-9f, 5.496409e-9f, 5.496409e-9f, -0.3333332f, -0.3235886f, -0.31977904f, -0.3153743f, -0.30769083f, -0.29554743f, -0.281411f,
    -0.26549917f, -0.23882847f, -0.19938754f, -0.15744391f, -0.115020186f, -0.05432663f, 0.014386619f, 0.06425177f, 0.094776765f,
    0.11097461f, 0.099570915f, 0.075163744f, 0.05180164f},
    {-0.012390377f, -0.0051511293f, -0.0019794968f, -0.0007398719f, -0.00017254586f, -2.3397764e-5f, -3.1673903e-6f, -4.2867518e-7f,
    -2.4709532e-8f, -2.749579e-9f, -2.749579e-9f, -2.749579e-9f, 0.0f, 0.056102794f, 0.06575563f, 0.07514139f, 0.08862791f, 0.10537286f,
    0.12047574f, 0.13374698f, 0.14984088f, 0.16406149f, 0.16992727f, 0.16807866f, 0.15324941f, 0.119441f, 0.07989823f, 0.04336298f,
    0.0037006172f, -0.021095164f, -0.02512124f, -0.020848915f},
    {0.003978528f, 0.0019131746f, 0.00076951965f, 0.00029223596f, 6.790717e-5f, 9.225234e-6f, 1.2491414e-6f, 1.6906466e-7f, 9.358306e-9f,
    1.0996746e-9f, 1.0996746e-9f, 1.0996746e-9f, 0.13302884f, 0.12510762f, 0.12192758f, 0.11827461f, 0.11195339f, 0.10214395f, 0.09097897f,
    0.07874677f, 0.0590575f, 0.031952824f, 0.005923865f, -0.017165111f, -0.043507483f, -0.061594207f, -0.06268455f, -0.05306602f,
    -0.03202853f, -0.009495421f, 0.0014063526f, 0.0046056462f},
    {2.25f, 2.75f, 3.25f, 3.75f, 4.5f, 5.5f, 6.5f, 7.5f, 9.0f, 10.0f, 10.0f, 10.0f, 0.0f, 0.0859375f, 0.1015625f, 0.1171875f, 0.140625f,
    0.171875f, 0.203125f, 0.234375f, 0.28125f, 0.34375f, 0.40625f, 0.46875f, 0.5625f, 0.6875f, 0.8125f, 0.9375f, 1.125f, 1.375f, 1.625f,
    1.875f}};

/* Where x rounds to n / 32 times log 2: power = 2^(n mod 32 / 32), p near e^r - 1, k = n / 32, which vec_scale_f32 rounds down */
#define FG_CELL_POWER(x, u, k, power, p) \
    const vec_f32 magic_ = (vec_f32){0} + 0x1.8p18f;                           /* the unit of its last place is 1/32 */ \
    const vec_f32 u = (x) * 1.44269504088896341f + magic_, k = u - magic_; \
    const vec_f32 power = (vec_f32)fg_of_cell(fg_cell_power, (__m512i)u); \
    const __m512 r0_ = _mm512_fnmadd_ps((__m512)k, _mm512_set1_ps(0.693145751953125f), (__m512)(x)); \
    const vec_f32 r_ = (vec_f32)_mm512_fnmadd_ps((__m512)k, _mm512_set1_ps(1.42860682031e-6f), r0_); \
    const vec_f32 p = r_ * r_ * (r_ * 0.16666667f + 0.5f) + r_
FG_INLINE vec_f32 vec_exp_f32(vec_f32 x) {
    x = vec_max_f32((vec_f32){0} - 105.0f, x);
    x = vec_min_f32((vec_f32){0} + 90.0f, x);
    FG_CELL_POWER(x, u, k, power, p);
    return vec_scale_f32(power * p + power, k);
}
/* e^x for x <= 0, with one rounding less */
FG_INLINE vec_f32 vec_exp_below_f32(vec_f32 x) {
    x = vec_max_f32((vec_f32){0} - 105.0f, x);
    FG_CELL_POWER(x, u, k, power, p);
    return vec_scale_f32((power * p + (vec_f32)fg_of_cell(fg_cell_power_low, (__m512i)u)) + power, k);
}
FG_INLINE vec_f32 vec_tanh_f32(vec_f32 x) {
    const vec_f32 a = vec_min_f32((vec_f32){0} + 10.0f, (vec_f32)_mm512_abs_ps((__m512)x));       /* NaN passes; there it is 1 */
    const __m512i cell = _mm512_srli_epi32((__m512i)vec_max_f32((vec_f32){0} + 0.0625f, a), 21);
    vec_f32 t = a - (vec_f32)fg_of_cell(fg_cell_tanh[6], cell), y = (vec_f32)fg_of_cell(fg_cell_tanh[5], cell);
    for (int k = 4; k >= 0; k--) y = y * t + (vec_f32)fg_of_cell(fg_cell_tanh[k], cell);
    return vec_sign_of_f32(y, x);
}
/* log(u + c) for u = 1 + x rounded and c = 1 + x - u, which is 0 below 1/2 and beyond 2^24 makes no difference */
FG_INLINE vec_f32 vec_log1p_f32(vec_f32 x) {
    const vec_f32 u = 1.0f + x;
    FG_CELL_OF(u, _MM_MANT_SIGN_nan, r0, k, cell);
    const __m512i above = _mm512_sub_epi32((__m512i)u, _mm512_set1_epi32(0x3f000000));              /* the bits of 1/2 */
    const __mmask16 near = _mm512_cmplt_epu32_mask(above, _mm512_set1_epi32(0x0c000000));
    const __m512 c = _mm512_maskz_scalef_ps(near, _mm512_sub_ps((__m512)x, (__m512)(u - 1.0f)), (__m512)(-k));
    const vec_f32 rest = (vec_f32)_mm512_mul_ps(c, fg_of_cell(fg_cell_inverse, cell)), r = r0 + rest, lost = (r0 - r) + rest;
    vec_f32 q = (-0.24688782f * r + 0.33341584f) * r - 0.5000005f;
    vec_f32 y = k * 1.4286068e-06f + (r + (r * r * q + lost));
    y = y + (vec_f32)fg_of_cell(fg_cell_log, cell);
    return vec_sign_of_f32((vec_f32)_mm512_fmadd_ps((__m512)k, _mm512_set1_ps(0.69314575f), (__m512)y), x);
}
#endif
