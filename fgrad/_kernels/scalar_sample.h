/* log, log1p, erf and erf_inv as random sampling needs them: the very roundings of XLA's CPU backend, so that fgrad.random
 * draws what jax.random draws.  Everything else uses the more accurate functions of scalar_math.h.
 *
 * Formulas: Cephes (Moshier) for log and log1p; Giles, "Approximating the erfinv function" (2012) for erf_inv; a rational
 * minimax for erf; libm for log and erf of float64.  Which products are fused into an addition is part of the result: every
 * fma is written out, and FG_ROUNDED keeps the compiler from fusing the others, so the result is one on every instruction
 * set and in every lane.  Without fma instructions __builtin_fma is a (slow, exact) call. */
#ifndef FG_SCALAR_SAMPLE_H
#define FG_SCALAR_SAMPLE_H
#include "scalar_math.h"

#if defined(__clang__)
#define FG_ROUNDED(x) ({ __typeof__(x) rounded_ = (x); rounded_; })         /* clang fuses within one expression only */
#elif __GNUC__ >= 12
#define FG_ROUNDED(x) __builtin_assoc_barrier(x)
#else
#define FG_ROUNDED(x) ({ volatile __typeof__(x) rounded_ = (x); rounded_; })
#endif
static inline float fg_fma_f32(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fg_fma_f64(double x, double y, double z) { return __builtin_fma(x, y, z); }

/* FG_FUSED(t, x, c0, c1, ...) = c0 + c1 x + ..., by Horner's rule in fused steps; up to 9 coefficients */
#define FG_U1(t, x, a) (a)
#define FG_U2(t, x, a, ...) fg_fma_##t(FG_U1(t, x, __VA_ARGS__), x, a)
#define FG_U3(t, x, a, ...) fg_fma_##t(FG_U2(t, x, __VA_ARGS__), x, a)
#define FG_U4(t, x, a, ...) fg_fma_##t(FG_U3(t, x, __VA_ARGS__), x, a)
#define FG_U5(t, x, a, ...) fg_fma_##t(FG_U4(t, x, __VA_ARGS__), x, a)
#define FG_U6(t, x, a, ...) fg_fma_##t(FG_U5(t, x, __VA_ARGS__), x, a)
#define FG_U7(t, x, a, ...) fg_fma_##t(FG_U6(t, x, __VA_ARGS__), x, a)
#define FG_U8(t, x, a, ...) fg_fma_##t(FG_U7(t, x, __VA_ARGS__), x, a)
#define FG_U9(t, x, a, ...) fg_fma_##t(FG_U8(t, x, __VA_ARGS__), x, a)
#define FG_PICK9(_1, _2, _3, _4, _5, _6, _7, _8, _9, n, ...) n
#define FG_FUSED(t, x, ...) FG_PICK9(__VA_ARGS__, FG_U9, FG_U8, FG_U7, FG_U6, FG_U5, FG_U4, FG_U3, FG_U2, FG_U1, 0)(t, x, __VA_ARGS__)

/* The smallest argument is FLT_MIN: XLA flushes denormals. */
static inline float fg_sample_log_f32(float x) {
    float a = x > FLT_MIN ? x : FLT_MIN;
    uint32_t u = fg_bits32(a);
    float m = fg_float((u & 0x007fffffu) | 0x3f000000u), e = (float)((int32_t)(u >> 23) - 127) + 1;
    int low = m < 0.707106769f;                        /* m in [1/2, 1) -> f in [sqrt(1/2) - 1, sqrt(2) - 1) */
    float f = (m - 1) + (low ? m : 0);
    e -= low ? 1 : 0;
    float f2 = FG_ROUNDED(f * f), f3 = FG_ROUNDED(f2 * f);
    float p = FG_FUSED(f32, f, 0.116769984f, -0.115146101f, 0.0703768358f);
    float q = FG_FUSED(f32, f, -0.166680574f, 0.142493233f, -0.12420141f);
    float r = FG_FUSED(f32, f, 0.333333313f, -0.24999994f, 0.200007141f);
    r = fg_fma_f32(fg_fma_f32(p, f3, q), f3, r);
    float lo = fg_fma_f32(r, f3, FG_ROUNDED(e * -0.000212194442f));
    float y = fg_fma_f32(e, 0.693359375f, fg_fma_f32(-0.5f, f2, f) + lo);
    return FG_LOG_EDGES(x, y);
}
static inline double fg_sample_log_f64(double x) { return log(x); }

/* c[0] x^(n-1) + ... + c[n-1] */
static inline double fg_sample_horner(const double *c, int n, double x) {
    double p = c[0];
    for (int i = 1; i < n; i++) p = fg_fma_f64(p, x, c[i]);
    return p;
}
#define FG_SAMPLE_NEAR 0.41421356237309503
static const double fg_sample_log1p_p[] = {4.52700008624452e-05, 0.49854102823193375, 6.578732594206104, 29.911919328553072, 60.94966798098779,
    57.11296359058554, 20.039553499201283};
static const double fg_sample_log1p_q[] = {1.0, 15.062909083469192, 83.04756596796722, 221.76239823732857, 309.09872225312057, 216.42788614495947,
    60.11866049760384};
#define FG_SAMPLE_LOG1P(t, T, LIMIT, ABS, P, Q) \
    static inline T fg_sample_log1p_##t(T x) { \
        T z = FG_ROUNDED(x * x), far = fg_sample_log_##t(1 + x); \
        T near = x + fg_fma_##t((T)-0.5, z, FG_ROUNDED(FG_ROUNDED(x * z) * (P / Q))); \
        return ABS(x) < LIMIT ? near : far; }
FG_SAMPLE_LOG1P(f32, float, 0.414213568f, fabsf,
    FG_FUSED(f32, x, 20.0395527f, 57.1129646f, 60.9496689f, 29.9119186f, 6.57873249f, 0.498541027f, 4.527e-05f),
    FG_FUSED(f32, x, 60.11866f, 216.427887f, 309.098724f, 221.762405f, 83.0475693f, 15.0629091f, 1.0f))
FG_SAMPLE_LOG1P(f64, double, FG_SAMPLE_NEAR, fabs, fg_sample_horner(fg_sample_log1p_p, 7, x), fg_sample_horner(fg_sample_log1p_q, 7, x))

static inline float fg_sample_erf_f32(float x) {
    float z = FG_ROUNDED(x * x);
    float p = FG_FUSED(f32, z, 1.12837911f, 0.185208321f, 0.0509556942f, 0.00340829091f, 0.000229050653f);
    float q = FG_FUSED(f32, z, 1.0f, 0.497469246f, 0.110985048f, 0.0140704699f, 0.00101796258f, 2.35479656e-05f, -1.17916031e-07f);
    float y = FG_ROUNDED(x * p) / q;
    return fabsf(x) >= 3.8325069f ? copysignf(1, x) : y;
}
static inline double fg_sample_erf_f64(double x) { return erf(x); }

static inline float fg_sample_erf_inv_f32(float x) {
    float l = fg_sample_log1p_f32(FG_ROUNDED(x * -x)), t = -2.5f - l, s = sqrtf(-l) - 3;
    int near = l > -5;
    float p = FG_FUSED(f32, t, 1.50140941f, 0.246640727f, -0.00417768164f, -0.00125372503f, 0.00021858087f, -4.39150654e-06f,
        -3.5233877e-06f, 3.43273939e-07f, 2.81022636e-08f);
    float q = FG_FUSED(f32, s, 2.83297682f, 1.00167406f, 0.00943887047f, -0.0076224613f, 0.00573950773f, -0.00367342844f,
        0.00134934322f, 0.000100950558f, -0.000200214257f);
    return FG_ROUNDED(x * (fabsf(x) == 1 ? INFINITY : near ? p : q));
}

static const double fg_sample_centre[] = {                    /* w = -log(1 - x^2) < 6.25 */
    -3.64441206401782e-21, -1.6850591381820166e-19, 1.28584807152564e-18, 1.1157877678025181e-17, -1.333171662854621e-16,
    2.0972767875968562e-17, 6.637638134358324e-15, -4.054566272975207e-14, -8.151934197605472e-14, 2.6335093153082323e-12,
    -1.2975133253453532e-11, -5.415412054294628e-11, 1.0512122733215323e-09, -4.112633980346984e-09, -2.9070369957882005e-08,
    4.2347877827932404e-07, -1.3654692000834679e-06, -1.3882523362786469e-05, 0.00018673420803405714, -0.000740702534166267,
    -0.006033670871430149, 0.24015818242558962, 1.6536545626831027};
static const double fg_sample_middle[] = {                    /* w < 16 */
    2.2137376921775787e-09, 9.075656193888539e-08, -2.7517406297064545e-07, 1.8239629214389228e-08, 1.5027403968909828e-06,
    -4.013867526981546e-06, 2.9234449089955446e-06, 1.2475304481671779e-05, -4.7318229009055734e-05, 6.828485145957318e-05,
    2.4031110387097894e-05, -0.0003550375203628475, 0.0009532893797373805, -0.0016882755560235047, 0.002491442096107851,
    -0.003751208507569241, 0.005370914553590064, 1.0052589676941592, 3.0838856104922208};
static const double fg_sample_tail[] = {
    -2.7109920616438573e-11, -2.555641816996525e-10, 1.5076572693500548e-09, -3.789465440126737e-09, 7.61570120807834e-09,
    -1.496002662714924e-08, 2.914795345090108e-08, -6.771199775845234e-08, 2.2900482228026655e-07, -9.9298272942317e-07,
    4.526062597223154e-06, -1.968177810553167e-05, 7.599527703001776e-05, -0.00021503011930044477, -0.00013871931833623122,
    1.0103004648645344, 4.849906401408584};
static inline double fg_sample_erf_inv_f64(double x) {
    double l = fg_sample_log1p_f64(FG_ROUNDED(x * -x)), y;
    if (l > -6.25) y = fg_sample_horner(fg_sample_centre, 23, -3.125 - l);
    else if (l > -16) y = fg_sample_horner(fg_sample_middle, 19, sqrt(-l) - 3.25);
    else y = fg_sample_horner(fg_sample_tail, 17, sqrt(-l) - 5);
    return x * (fabs(x) == 1 ? INFINITY : y);
}
#endif
