/* Vectorisable exp and log for float and double: branch-free, no libm, within 2 ULP over the whole range
 * (subnormals, infinities and NaN included).  Called inside loops that GCC and Clang vectorise.
 *
 * exp: x = k ln2 + r with |r| <= ln2/2, exp(r) = 1 + r + r^2 q(r), q a minimax polynomial; 2^k is applied in two
 * factors, so that results overflow to inf and underflow gradually with one rounding.
 * log: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)), s = f / (2 + f), log(1 + f) = f - (f^2/2 - s (f^2/2 + s^2 P(s^2))).
 */
#ifndef FG_ROW_MATH_H
#define FG_ROW_MATH_H
#include <stdint.h>
#include <string.h>
#include <math.h>

#define FG_INLINE static inline __attribute__((always_inline))

FG_INLINE float fg_bits_float(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }
FG_INLINE uint32_t fg_float_bits(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }
FG_INLINE double fg_bits_double(uint64_t u) { double f; memcpy(&f, &u, 8); return f; }
FG_INLINE uint64_t fg_double_bits(double f) { uint64_t u; memcpy(&u, &f, 8); return u; }

FG_INLINE float row_exp_f32(float x) {
    const float magic = 12582912.0f;                      /* 1.5 * 2^23: adding it rounds to an integer */
    x = x < -105.0f ? -105.0f : x;                        /* written so that NaN passes */
    x = x > 90.0f ? 90.0f : x;
    float t = x * 1.44269504088896341f + magic, k = t - magic;
    float r = x - k * 0.693145751953125f;
    r = r - k * 1.42860682031e-6f;
    float q = 0.001392625083f;
    q = q * r + 0.008363232884f;
    q = q * r + 0.04166655421f;
    q = q * r + 0.1666657667f;
    q = q * r + 0.5f;
    float p = 1.0f + (r + r * r * q);
    int32_t n = (int32_t)(fg_float_bits(t) - fg_float_bits(magic));
    int32_t half = n >> 1;
    return p * fg_bits_float((uint32_t)(half + 127) << 23) * fg_bits_float((uint32_t)(n - half + 127) << 23);
}

FG_INLINE double row_exp_f64(double x) {
    const double magic = 6755399441055744.0;              /* 1.5 * 2^52 */
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    double t = x * 1.4426950408889634074 + magic, k = t - magic;
    double r = x - k * 0.6931471805596629565116;
    r = r - k * 2.8235290563031577123e-13;
    double q = 2.5100472505694996e-8;
    q = q * r + 2.76202015910315488e-7;
    q = q * r + 2.75572682769056962e-6;
    q = q * r + 0.0000248015210578682052;
    q = q * r + 0.00019841269863171556;
    q = q * r + 0.00138888889173670806;
    q = q * r + 0.0083333333333300382;
    q = q * r + 0.0416666666666238205;
    q = q * r + 0.166666666666666675;
    q = q * r + 0.500000000000000103;
    double p = 1.0 + (r + r * r * q);
    uint64_t n = fg_double_bits(t) - fg_double_bits(magic);       /* two's complement; shifted as unsigned: no AVX2 sra */
    uint64_t half = ((n + 4096u) >> 1) - 2048u;
    return p * fg_bits_double((half + 1023u) << 52) * fg_bits_double((n - half + 1023u) << 52);
}

FG_INLINE float row_log_f32(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;      /* subnormals times 2^23 */
    int32_t k = x < 1.17549435e-38f ? -23 : 0;
    uint32_t u = fg_float_bits(scaled) - 0x3f3504f3u;             /* sqrt(1/2) */
    k += (int32_t)u >> 23;
    float f = fg_bits_float((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float s = f / (2.0f + f), z = s * s, half = 0.5f * f * f, kf = (float)k;
    float P = (0.2958098593f * z + 0.3998875772f) * z + 0.666666851f;
    float y = kf * 0.693145751953125f - ((half - (s * (half + z * P) + kf * 1.42860682031e-6f)) - f);
    y = x == INFINITY ? INFINITY : y;
    y = x == 0.0f ? -INFINITY : y;
    return x >= 0.0f ? y : NAN;
}

FG_INLINE double row_log_f64(double x) {
    double scaled = x < 2.2250738585072014e-308 ? x * 4503599627370496.0 : x;     /* subnormals times 2^52 */
    uint64_t u = fg_double_bits(scaled) - 0x3fe6a09e667f3bcdull;
#ifdef __AVX512DQ__
    int64_t k = x < 2.2250738585072014e-308 ? -52 : 0;
    k += (int64_t)u >> 52;
    double kf = (double)k;
#else                                                       /* no AVX2 sra, nor a conversion of 64 bits: 2048 more, as the last bits of 2^52 */
    double kf = fg_bits_double(((u + 0x8000000000000000ull) >> 52) | 0x4330000000000000ull) - 4503599627372544.0 + (x < 2.2250738585072014e-308 ? -52.0 : 0.0);
#endif
    double f = fg_bits_double((u & 0x000fffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1.0;
    double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    double P = 0.146178071534173248;
    P = P * z + 0.153316117220550079;
    P = P * z + 0.181828924325368712;
    P = P * z + 0.222222110893794962;
    P = P * z + 0.285714286262538376;
    P = P * z + 0.399999999998988905;
    P = P * z + 0.666666666666666971;
    double y = kf * 0.6931471805596629565116 - ((half - (s * (half + z * P) + kf * 2.8235290563031577123e-13)) - f);
    y = x == INFINITY ? INFINITY : y;
    y = x == 0.0 ? -INFINITY : y;
    return x >= 0.0 ? y : NAN;
}
#endif
