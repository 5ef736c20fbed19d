/* float32 elementary functions; included by scalar_math.h, which says how they are built.  Functions with awkward
 * conditioning and little use go through float64. */

FG_INLINE float fg_pow2i_f32(float n) { return fg_float(fg_bits32(n + (FG_MAGIC32 + 127)) << 23); }
FG_INLINE float fg_scale_f32(float p, float n) {
    uint32_t u = fg_bits32(n + (FG_MAGIC32 + 254)), half = (uint32_t)((int32_t)u >> 1);
    return p * fg_float(half << 23) * fg_float((u - half) << 23);
}
#define FG_LN2_HI32 0.693359375f
#define FG_LN2_LO32 -2.12194440e-4f
#define FG_LOG2E32 1.44269504f

/* 2^k e^x */
FG_INLINE float fg_expk_f32(float x, float k) {
    x = x > 90 ? 90 : x;
    x = x < -105 ? -105 : x;
    float n = (x * FG_LOG2E32 + FG_MAGIC32) - FG_MAGIC32, r = (x - n * FG_LN2_HI32) - n * FG_LN2_LO32;
    float q = FG_POLY(r, 0.49999994f, 0.166665196f, 0.0416684002f, 0.00836885069f, 0.00138143217f);
    float s = 1 + r, e = (1 - s) + r;                     /* 1 + r in two parts: one rounding less */
    return fg_scale_f32(s + (e + r * r * q), n + k);
}
FG_INLINE float fg_exp_f32(float x) { return fg_expk_f32(x, 0); }

FG_INLINE float fg_exp2_f32(float x) {
    float y = x > 150 ? 150 : x;
    y = y < -152 ? -152 : y;
    float n = (y + FG_MAGIC32) - FG_MAGIC32, r = y - n;
    float p = FG_POLY(r, 0.693147182f, 0.240226507f, 0.0555032715f, 0.00961800292f, 0.00134005374f, 0.000154765934f);
    return fg_scale_f32(1 + r * p, n);
}
FG_INLINE float fg_expm1_f32(float x) {
    float y = x > 89 ? 89 : x;
    y = y < -20 ? -20 : y;
    float n = (y * FG_LOG2E32 + FG_MAGIC32) - FG_MAGIC32, r = (y - n * FG_LN2_HI32) - n * FG_LN2_LO32;
    float q = FG_POLY(r, 0.5f, 0.166666672f, 0.0416663513f, 0.0083332723f, 0.00139412063f, 0.000199144473f);
    float p = r + r * r * q, t = fg_pow2i_f32(n - 1);
    return fabsf(x) < 2e-8f ? x : 2 * (t * p + (t - 0.5f));
}

/* x = m 2^k with m in [sqrt(1/2), sqrt(2)), x a positive normal number */
FG_INLINE float fg_split_f32(float x, float *k) {
    int32_t t = (int32_t)(fg_bits32(x) - 0x3f3504f3u);
    *k = (float)(t >> 23);
    return fg_float(fg_bits32(x) - ((uint32_t)t & 0xff800000u));
}
FG_INLINE float fg_log2_f32(float x) {
    float k, f = fg_split_f32(x < FLT_MIN ? x * 16777216.0f : x, &k) - 1;
    k -= x < FLT_MIN ? 24 : 0;
    float q = FG_POLY(f, -0.721347511f, 0.480898023f, -0.360673577f, 0.288571119f, -0.240486488f, 0.205131918f, -0.178668022f,
        0.171290234f, -0.170092583f, 0.0997707099f);
    float y = k + (f * FG_LOG2E32 + (f * 1.92596303e-08f + f * f * q));
    return FG_LOG_EDGES(x, y);
}

/* x - n pi/2 for |x| <= 1e5.  With a fused multiply-add three float32 parts of pi/2 do; without, float64 does. */
#define FG_TRIG_MAX_F32 1e5f
FG_INLINE double fg_pio2d_f32(float x, uint64_t *q) {
    double z = (double)x * 0.63661977236758134308 + FG_MAGIC64, n = z - FG_MAGIC64;
    *q = fg_bits64(z);
    return ((double)x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
}
FG_INLINE float fg_pio2_f32(float x, uint32_t *q) {
#if defined(__FMA__) || defined(__aarch64__)
    float z = x * 0.636619772f + FG_MAGIC32, n = z - FG_MAGIC32;
    float r = __builtin_fmaf(-n, 1.57079637f, x);
    r = __builtin_fmaf(-n, -4.37113883e-08f, r);
    *q = fg_bits32(z);
    return __builtin_fmaf(-n, -1.71512451e-15f, r);
#else
    uint64_t q64;
    double r = fg_pio2d_f32(x, &q64);
    *q = (uint32_t)q64;
    return (float)r;
#endif
}
/* x - n pi/2 for larger x, in float64: the 24 bits of x times 96 bits of 2/pi, those that make the last two bits of n and the fraction (Payne and
 * Hanek's reduction).  The table has 32 bits of 2/pi / 2^16 from every eighth on. */
static const uint32_t fg_two_over_pi[23] = {
    0x0000a2f9u, 0x00a2f983u, 0xa2f9836eu, 0xf9836e4eu, 0x836e4e44u, 0x6e4e4415u, 0x4e441529u, 0x441529fcu, 0x1529fc27u, 0x29fc2757u, 0xfc2757d1u, 0x2757d1f5u,
    0x57d1f534u, 0xd1f534ddu, 0xf534ddc0u, 0x34ddc0dbu, 0xddc0db62u, 0xc0db6295u, 0xdb629599u, 0x6295993cu, 0x95993c43u, 0x993c4390u, 0x3c439041u};
FG_INLINE double fg_pio2_far_f32(float x, uint32_t *q) {
    uint32_t u = fg_bits32(x), m = (u & 0x7fffffu) | 0x800000u;
    int32_t at = (int32_t)(u >> 23 & 255) - 136, place = (at & ~(at >> 31)) >> 3;
    m <<= at & 7;
    uint64_t n = ((uint64_t)(m * fg_two_over_pi[place]) << 32) + (uint64_t)m * fg_two_over_pi[place + 4]
        + ((uint64_t)m * fg_two_over_pi[place + 8] >> 32);                                    /* x 2/pi mod 4, in units of 2^-62 */
    uint64_t turn = 0 - (uint64_t)(u >> 31), rounded = (n ^ turn) - turn + (1ull << 61);             /* of -x where x is negative */
    *q = (uint32_t)(rounded >> 62);
    n = (rounded & ~(3ull << 62)) - (1ull << 61);
    double high = (double)(int32_t)(uint32_t)(n >> 32) * 0x1p32, low = 2.0 * (double)(int32_t)((uint32_t)n >> 1);
    return (high + low) * (FG_PIO2 * 0x1p-62) + (double)(x - x);                                     /* NaN for an infinity */
}
/* sin(r) and cos(r) in float64, to float32's accuracy, for |r| <= pi/4 */
FG_INLINE double fg_sind_f32(double r) {
    double z = r * r;
    return r * FG_POLY(z, 0.99999999999563838, -0.16666666631355176, 0.0083333287588040934, -0.00019839194905168817, 2.7172769798012506e-06);
}
FG_INLINE double fg_cosd_f32(double r) {
    double z = r * r;
    return FG_POLY(z, 0.99999999999994382, -0.4999999999934539, 0.041666666543029252, -0.001388888034741309, 2.479891899545847e-05,
        -2.7172721260320314e-07);
}
FG_INLINE float fg_tanq_f32(double r, uint32_t q) {
    double s = fg_sind_f32(r), c = fg_cosd_f32(r);
    return (float)(((q & 1) ? -c : s) / ((q & 1) ? s : c));
}
FG_INLINE float fg_sincos_far_f32(float x, uint32_t shift) {
    uint32_t q;
    double r = fg_pio2_far_f32(x, &q);
    q += shift;
    float y = (float)((q & 1) ? fg_cosd_f32(r) : fg_sind_f32(r));
    return (q & 2) ? -y : y;
}
FG_INLINE float fg_sin_far_f32(float x) { return fg_sincos_far_f32(x, 0); }
FG_INLINE float fg_cos_far_f32(float x) { return fg_sincos_far_f32(x, 1); }
FG_INLINE float fg_tan_far_f32(float x) {
    uint32_t q;
    double r = fg_pio2_far_f32(x, &q);
    return fg_tanq_f32(r, q);
}
FG_INLINE float fg_sincos_f32(float x, uint32_t shift) {
    uint32_t q;
    float r = fg_pio2_f32(x, &q), z = r * r;
    float s = r + r * z * FG_POLY(z, -0.166666552f, 0.00833217334f, -0.000195166562f);
    float c = 1 - 0.5f * z + z * z * FG_POLY(z, 0.0416666456f, -0.00138873619f, 2.44377297e-05f);
    q += shift;
    return fg_float(fg_bits32((q & 1) ? c : s) ^ ((q & 2) << 30));
}
FG_INLINE float fg_sin_f32(float x) { float y = fg_sincos_f32(x, 0); return fabsf(x) < 1e-4f ? x : y; }
FG_INLINE float fg_cos_f32(float x) { return fg_sincos_f32(x, 1); }
#if defined(__FMA__) || defined(__aarch64__)
/* t + tl = tan(r + rl) by an odd polynomial on [-pi/4, pi/4]; in odd quadrants -1 / (t + tl), the quotient corrected by its residual */
FG_INLINE float fg_tan_f32(float x) {
    float k = x * 0.636619772f + FG_MAGIC32, n = k - FG_MAGIC32, near = __builtin_fmaf(-n, 1.57079637f, x), p = n * -4.37113883e-08f;
    float r0 = near - p, rest = (((near - r0) - p) - __builtin_fmaf(n, -4.37113883e-08f, -p)) + n * 1.71512451e-15f;
    float r = r0 + rest, rl = (r0 - r) + rest, z = r * r;
    float w = r * z * FG_POLY(z, 0.33333334f, 0.13333231f, 0.053994495f, 0.021620877f, 0.009963025f, 0.0011839186f, 0.0038439722f);
    float t = r + w, tl = ((r - t) + w) + rl * (1 + t * t), i = -1 / t, turned = i + i * (__builtin_fmaf(t, i, 1) + tl * i);
    return fabsf(x) < 1e-4f ? x : (fg_bits32(k) & 1) ? turned : t + tl;
}
#else
FG_INLINE float fg_tan_f32(float x) {
    uint64_t q;
    double r = fg_pio2d_f32(x, &q);
    float y = fg_tanq_f32(r, (uint32_t)q);
    return fabsf(x) < 1e-4f ? x : y;
}
#endif

FG_INLINE float fg_asinp_f32(float z) { return FG_POLY(z, 0.166667536f, 0.0749524161f, 0.045477096f, 0.0241476167f,
    0.0422185399f); }
FG_INLINE float fg_asin_f32(float x) {
    float a = fabsf(x);
    int big = a > 0.5f;
    float z = big ? 0.5f - 0.5f * a : a * a, s = big ? sqrtf(z) : a, w = s * z * fg_asinp_f32(z);
    return copysignf(big ? (float)FG_PIO2 - 2 * (s + (w + 2.18556941e-08f)) : s + w, x);
}
FG_INLINE float fg_acos_f32(float x) {
    float a = fabsf(x);
    int big = a > 0.5f;
    float z = big ? 0.5f - 0.5f * a : a * a, s = big ? sqrtf(z) : x, w = s * z * fg_asinp_f32(z);
    float mid = (float)FG_PIO2 - (s + (w + 4.37113883e-08f));
    return big ? (x > 0 ? 2 * (s + w) : 2 * mid) : mid;
}
/* atan(t) of 0 <= t <= 1, or of its inverse */
FG_INLINE float fg_atant_f32(float t, int inverse) {
    float z = t * t, p = z * FG_POLY(z, -0.333332986f, 0.199985474f, -0.142642394f, 0.109521724f, -0.0840341225f, 0.0579569377f, -0.0311771929f,
        0.0109142568f, -0.00179354381f);
    float r = t + t * p;
    return inverse ? 1.57079637f - (r + 4.37113883e-08f) : r;
}
FG_INLINE float fg_atan_f32(float x) {
    float a = fabsf(x);
    int big = a > 1;
    return copysignf(fg_atant_f32((big ? 1 : a) / (big ? a : 1), big), x);
}
FG_INLINE float fg_atan2_f32(float y, float x) {
    float a = fabsf(y), b = fabsf(x);
    int steep = a > b;
    float lo = steep ? b : a, hi = steep ? a : b;
    int inf = (lo == INFINITY) & (hi == INFINITY), zero = hi == 0;
    float r = fg_atant_f32((inf ? 1 : lo) / (inf | zero ? 1 : hi), steep);
    r = (x < 0) | (zero & (copysignf(1, x) < 0)) ? 3.14159274f - (r + 8.74227766e-08f) : r;
    return copysignf(r, y);
}

FG_INLINE float fg_sinh_f32(float x) {
    float a = fabsf(x), z = a * a, e = fg_expk_f32(a, -1), big = e - 0.25f / e;
    float p = FG_POLY(z, 0.166666672f, 0.00833335053f, 0.000198360663f, 2.81743951e-06f);
    return copysignf(a < 1 ? a + a * z * p : big, x);
}
FG_INLINE float fg_cosh_f32(float x) { float e = fg_expk_f32(fabsf(x), -1); return e + 0.25f / e; }
FG_INLINE float fg_erf_f32(float x) {
    float a = fabsf(x), z = a * a, t = a > 4 ? 4 : a;
    float small = x + x * FG_POLY(z, 0.128379107f, -0.37612626f, 0.112836003f, -0.0268544443f, 0.00518953567f,
        -0.00080208428f, 7.88912512e-05f);
    float q = FG_POLY(t, -0.000188036211f, 1.12957835f, 0.633219898f, 0.108418547f, -0.0252082366f, 0.00420455495f,
        -0.000441335025f, 2.16867411e-05f);
    float n = (FG_MAGIC32 - q * FG_LOG2E32) - FG_MAGIC32, r = (-q - n * FG_LN2_HI32) - n * FG_LN2_LO32;      /* e^-q, of which an ulp counts for a sixth and less */
    float e = (1 + (r + r * r * FG_POLY(r, 0.49999994f, 0.166665196f, 0.0416684002f, 0.00836885069f, 0.00138143217f))) * fg_pow2i_f32(n);
    return a < 1 ? small : x != x ? x : copysignf(1 - e, x);
}

/* x^y for float32 values held in float64: 2^(y log2 x), log2 to 2^-43; the conversion to float32 rounds denormal results once */
FG_INLINE double fg_powf_f64(double x, double y) {
    double a = fabs(x), k, m = fg_split_f64(a, &k), s = (m - 1) / (m + 1), z = s * s;
    double L = k + s * FG_POLY(z, 2.8853900817778495, 0.9617966941141487, 0.57707794213940666, 0.41220927444632183,
        0.31990481536437854, 0.28291247948350134);
    L = a == 0 ? -INFINITY : a == INFINITY ? INFINITY : a != a ? a : L;
    double e = y * L;
    e = e > 200 ? 200 : e;
    e = e < -200 ? -200 : e;
    double n = (e + FG_MAGIC64) - FG_MAGIC64, r = e - n;
    double p = FG_POLY(r, 0.9999999999588971, 0.69314718053462143, 0.24022651219833185, 0.055504109774419448,
        0.0096180247727005938, 0.0013333421549472906, 0.00015469997177066026, 1.5316718979907108e-05);
    return fg_pow_edges(x, y, a, p * fg_pow2i_f64(n));
}
