/* Special functions of float32 values held in float64: branch-free, so that loops over them vectorise, and accurate to 2^-28 or so,
 * which leaves float32 results one rounding.  Polynomials are Chebyshev interpolants computed at 50 digits.
 *
 * Sources: DLMF 5.5 (reflection, recurrence), 5.11 (Stirling), 10.40 (Bessel), 25.11 (zeta). */
#ifndef FG_SCALAR_SPECIAL_H
#define FG_SCALAR_SPECIAL_H
#include "scalar_math.h"

/* log x for a positive normal x, to 2^-43 */
FG_INLINE double fg_logf_f64(double x) {
    double k, m = fg_split_f64(x, &k), s = (m - 1) / (m + 1), z = s * s;
    return k * 0.69314718055994530942 + s * FG_POLY(z, 1.9999999999999468, 0.66666666679637826, 0.39999994875889092,
        0.28572167664074586, 0.22174190918339937, 0.19608897761382228);
}
/* e^x, to 2^-37; constant beyond +-700, past which no float32 is left */
FG_INLINE double fg_expf_f64(double x) {
    x = x > 700 ? 700 : x;
    x = x < -700 ? -700 : x;
    double n = (x * FG_LOG2E + FG_MAGIC64) - FG_MAGIC64, r = x - n * 0.69314718055994530942;
    return FG_POLY(r, 1.0000000000000135, 0.99999999997978088, 0.49999999999438508, 0.16666666891074363, 0.041666667040585932,
        0.0083332660931895825, 0.001388880174512402, 0.00019915869191389535, 2.4884461638560361e-5) * fg_pow2i_f64(n);
}
/* sin(pi r) and cos(pi r) for |r| <= 1/2 */
FG_INLINE double fg_sinpi_f64(double r) {
    return r * FG_POLY(r * r, 3.1415926535897932, -5.1677127800499696, 2.5501640398773005, -0.599264529318946, 0.082145886573123556,
        -0.0073704305060932257, 0.00046629981702308815, -2.1903499125519212e-5, 7.6978472755902844e-7);
}
FG_INLINE double fg_cospi_f64(double r) {
    return FG_POLY(r * r, 1.0, -4.9348022005446768, 4.0587121264164973, -1.3352627688434559, 0.23533063012967061, -0.025806888738177581,
        0.0019295562780374169, -0.00010456656706174584, 4.1495780270571204e-6);
}

/* log Gamma(y), y >= 1/2, is *near - log(the value), a value that is 1 from 4 on.  y in [0.75, 2.25]: zeros at 1 and 2 times
 * a polynomial; else Stirling's formula at y or y + 4. */
FG_INLINE double fg_lgamma_parts_f64(double y, double *near) {
    int low = y < 4, mid = (y > 0.75) & (y < 2.25);
    double t = low ? y + 4 : y, v = mid ? y - 1.5 : 0, i = 1 / t;
    double q = FG_POLY(i * i, 0.083333333332591003, -0.0027777770146565108, 0.00079352426755010905, -0.00058777545094105416,
        0.00065458740090966467);
    double far = (t - 0.5) * fg_logf_f64(t) - t + 0.91893853320467274178 + q * i;
    double p = FG_POLY(v, 0.48312895050404093, -0.14595989881178463, 0.062911409346102354, -0.031308298891777696, 0.016796796082877874,
        -0.0094291524421001152, 0.0054506465151484726, -0.0031832240884469761, 0.0018947265808720995, -0.0012834464111739806,
        0.00081274914310165887, -0.00018358358951031289, 7.6826232834882918e-5, -0.00042317777112287047, 0.00028340195190123337);
    *near = mid ? (y - 1) * (y - 2) * p + 0.0 : far;   /* + 0.0: no -0 */
    return low & !mid ? y * (y + 1) * ((y + 2) * (y + 3)) : 1;
}
FG_INLINE double fg_lgammaf_f64(double x) {
    int below = x < 0.5;
    double r = x - rint(x), s = fabs(fg_sinpi_f64(r)), g, p = fg_lgamma_parts_f64(below ? 1 - x : x, &g);
    double l = fg_logf_f64(below ? 3.14159265358979323846 * p / s : p), y = below ? l - g : g - l;
    return (fabs(x) == INFINITY) | (below & (r == 0)) ? INFINITY : y;
}
/* Gamma: an infinity of the zero's sign at 0, NaN at the negative integers. */
FG_INLINE double fg_gammaf_f64(double x) {
    int below = x < 0.5;
    double n = rint(x), r = x - n, g, p = fg_lgamma_parts_f64(below ? 1 - x : x, &g), e = p * fg_expf_f64(-g), s = fg_sinpi_f64(r);
    s = 0.5 * n == rint(0.5 * n) ? s : -s;                   /* sin(pi x) */
    double y = below ? 3.14159265358979323846 * e / s : 1 / e;
    return (x < 0) & ((r == 0) | (x == -INFINITY)) ? NAN : x == 0 ? copysign(INFINITY, x) : x == INFINITY ? x : y;
}

/* digamma by reflection below 1/2, with the sum of 1 / (y + k), k < 6, as one fraction; in full precision, for its positive zero */
FG_INLINE double fg_digammaf_f64(double x) {
    int below = x < 0.5;
    double n = rint(x), r = x - n, y = below ? 1 - x : x, low = y < 6 ? y : 0, t = y < 6 ? y + 6 : y;
    double p = FG_POLY(low, 120, 274, 225, 85, 15, 1), dp = FG_POLY(low, 274, 450, 255, 60, 5);  /* (y + 1) ... (y + 5) and derivative */
    double head = y < 6 ? 1 / y + dp / p : 0, i = 1 / t, z = i * i;
    double tail = z * FG_POLY(z, 0.083333333333333329, -0.0083333333333094632, 0.0039682539467657241, -0.0041666592597089479,
        0.0075744933000613655, -0.020973859958418521, 0.076945654708305687, -0.25083105161559146);
    double v = fg_log_f64(t) - (0.5 * i + tail) - head;
    double turn = 3.14159265358979323846 * fg_cospi_f64(r) / fg_sinpi_f64(r);
    v = below ? v - turn : v;
    return (x == -INFINITY) | ((x < 0) & (r == 0)) ? NAN : x == 0 ? -copysign(INFINITY, x) : v;
}

/* e^-|x| I_v(x): a polynomial up to 8, then one in 1 / |x| */
FG_INLINE double fg_bessel_i0ef_f64(double x) {
    double a = fabs(x), u = a < 8 ? a - 4 : 0, i = 1 / (a < 8 ? 8 : a);
    double p = FG_POLY(u, 0.20700192113010858, -0.028251081633614024, 0.005907227949874189, -0.0013913041718834842,
        0.00034118283263621119, -8.2971514798239617e-5, 1.9356194524448219e-5, -4.2447870635627623e-6, 8.6558972628603624e-7,
        -1.6386762902774418e-7, 2.8954159869951931e-8, -4.7150149515884536e-9, 6.886759756853586e-10, -9.841649975114277e-11,
        1.5531754710251431e-11, -1.9067386908150483e-12, 9.6077905129518355e-14, -1.1976770236036228e-14, 5.0732111447952016e-15,
        -4.9493747726776723e-16);
    double q = FG_POLY(i, 0.39894228036908788, 0.049867821138716557, 0.028044099370874322, 0.029662339387692526, 0.030339937931161538,
        0.33478169463149252, -1.8901138089883357, 8.487890271986296);
    return a < 8 ? p : x != x ? x : q * sqrt(i);
}
FG_INLINE double fg_bessel_i1ef_f64(double x) {
    double a = fabs(x), u = a < 8 ? a - 4 : 0, i = 1 / (a < 8 ? 8 : a);
    double p = FG_POLY(u, 0.044687709864187577, -0.015281084813799625, 0.0042536001363044146, -0.0010700395812205654,
        0.00024909112997553654, -5.3985656994139671e-5, 1.090710871514931e-5, -2.0545216593469492e-6, 3.6132726702211869e-7,
        -5.9563831292631202e-8, 9.1612877389595156e-9, -1.2939980804664427e-9, 1.7619156640472458e-10, -2.5311027685858945e-11,
        3.0264387808909533e-12, -1.8871071637993138e-13, 2.1785544431319894e-14, -7.199286467448537e-15, 6.9152646666567174e-16);
    double q = FG_POLY(i, 0.39894228044120642, -0.14960339879793717, -0.046743267292324057, -0.041428021568363563,
        -0.040791004798784363, -0.39143171784946089, 2.1422547728741925, -9.6031061452656559);
    return a < 8 ? x * p : x != x ? x : copysign(q * sqrt(i), x);
}

/* erf_inv(a) / a in t = w - 2.5 */
#define FG_ERF_INV_NEAR(t) FG_POLY(t, 1.5014093517282387, 0.24664027679468035, -0.0041773249219328826, -0.0012527081133215396, \
    0.00021826392314411754, -4.9958551035442982e-6, -3.4261759517491592e-6, 4.7863526154206978e-7, 1.6487176840838707e-8, \
    -1.0852875942166487e-8, 4.3511473069028145e-10, 1.2294079820302474e-10)
/* The normal quantile: with a = 1 - 2p, sqrt(2) erf_inv(a) by polynomials in w = -log(1 - a^2), or in its root in the tails */
FG_INLINE double fg_ndtrif_f64(double p) {
    double q = p < 0.5 ? p : 1 - p, a = 1 - 2 * q, w = -fg_logf_f64(4 * q * (1 - q)), t = w - 2.5, s = sqrt(w) - 6.268034;
    double near = a * FG_ERF_INV_NEAR(t);
    double tail = FG_POLY(s, 6.1304869374800734, 1.0093439329786037, -0.00049897805004942714, -2.3266305970377268e-5,
        1.5407730899253527e-5, -3.831542537098752e-6, 8.2176497151372126e-7, -1.5865763259194442e-7, 8.7477491780812617e-9,
        9.932215806385993e-10, 4.1106748863273959e-9, -1.1121875683622176e-9, -4.1417167562659706e-10, 1.1751815725012481e-10,
        3.1327715456088727e-11, -8.5681756499733155e-12, -1.1374259680917982e-12, 3.2343674769846576e-13, 1.4101768771043545e-14,
        -4.4597905979014842e-15);
    double x = q > 0 ? 1.41421356237309504880 * (w < 5 ? near : tail) : q == 0 ? INFINITY : NAN;
    return p < 0.5 ? -x : x;
}

/* log of the normal distribution function: with a = |x| / sqrt(2), of e^(-a^2) P((a - 3) / (a + 3)) / (2 + 4a) below 0, of 1 less that above */
FG_INLINE double fg_log_ndtrf_f64(double x) {
    double b = fabs(x), i = 1 / ((b + 4.24264068711928514641) * (1 + 1.41421356237309504880 * b));
    b = b > 1e30 ? 1e30 : b;
    double u = (b - 4.24264068711928514641) * (1 + 1.41421356237309504880 * b) * i;
    double g = 0.5 * (b + 4.24264068711928514641) * i * FG_POLY(u, 1.2530080563677553, -0.1356210694002736, -0.047562156927520074,
        0.12964411434408139, -0.11927527528224089, 0.068316567771140853, -0.02376357643949504, 0.0024991168696069476,
        0.001875079123772353, -0.00072645367903404842, -9.254516686923966e-5, 7.7310242240768951e-5);
    double h = 0.5 * x * x, e = g * fg_expf_f64(-h), y = fg_logf_f64(x > 0 ? 1 - e : g);
    return x != x ? x : x > 0 ? (e < 1e-4 ? -e * (1 + e * (0.5 + e * 0.33333333333333333)) : y) : y - h;
}
/* with w = -log(1 - y^2): y times a polynomial in w, or one in its root towards 1 */
FG_INLINE double fg_erf_invf_f64(double y) {
    double a = fabs(y), w = -fg_logf_f64((1 - a) * (1 + a)), t = w - 2.5, s = sqrt(w) - 3.268034;
    double near = a * FG_ERF_INV_NEAR(t), tail = FG_POLY(s, 3.1019804931404887, 1.0056706685428243, 0.0045218947390070997,
        -0.0023846661183732627, 0.00083641515811010414, -0.00022031461965845024, 2.5648243379334354e-5, 1.7297931481842069e-5,
        -1.2927286826554975e-5, 3.0541333562181941e-6);
    return copysign(a < 1 ? w < 5 ? near : tail : a == 1 ? INFINITY : NAN, y);
}

/* Hurwitz zeta for s > 1 and q > 0: 9 terms, then Euler and Maclaurin. */
FG_INLINE double fg_zeta_term_f64(double s, double w) { return fg_expf_f64(-s * fg_logf_f64(w)); }
FG_INLINE double fg_zetaf_f64(double s, double q) {
#define T(k) fg_zeta_term_f64(s, q + (k))
    double w = q + 9, i = 1 / w, z = i * i, p = T(9), head = T(0) + (T(1) + (T(2) + (T(3) + (T(4) + (T(5) + (T(6) + (T(7) + T(8))))))));
#undef T
    double f2 = (s + 1) * (s + 2) * z, f4 = (s + 3) * (s + 4) * z, f6 = (s + 5) * (s + 6) * z, f8 = (s + 7) * (s + 8) * z;
    double tail = s * i * (1.0 / 12 + f2 * (-1.0 / 720 + f4 * (1.0 / 30240 + f6 * (-1.0 / 1209600 + f8 / 47900160))));
    return head + p * (w / (s - 1) + 0.5 + tail);
}
FG_INLINE double fg_rel_entrf_f64(double p, double q) {
    double r = p / q, y = fg_logf_f64(r);
    return (p > 0) & (q > 0) ? p * FG_LOG_EDGES(r, y) : (p == 0) & (q >= 0) ? 0 : INFINITY;
}
/* x 2^n for a whole n: exact in float64 but where float32 overflows or underflows in any case */
FG_INLINE double fg_ldexpf_f64(double x, double n) {
    n = n > 600 ? 600 : n;
    n = n < -600 ? -600 : n;
    return x * fg_pow2i_f64(n);
}
FG_INLINE float fg_hypot_f32(float x, float y) {
    float a = fabsf(x), b = fabsf(y), m = a > b ? a : b, s = m > 1e18f ? 0x1p-80f : m < 1e-15f ? 0x1p80f : 1;
    float r = m > 1e18f ? 0x1p80f : m < 1e-15f ? 0x1p-80f : 1, u = a * s, v = b * s, h = sqrtf(u * u + v * v) * r;
    return (a == INFINITY) | (b == INFINITY) ? INFINITY : h;
}

/* inverse hyperbolic functions by one logarithm, or the first terms of their series */
FG_INLINE double fg_asinhf_f64(double x) {
    double a = fabs(x), z = a * a, y = fg_logf_f64(a + sqrt(z + 1));
    y = a < 2e-3 ? a - a * z * (0.16666666666666667 - 0.075 * z) : y;
    return a < INFINITY ? copysign(y, x) : x;
}
FG_INLINE double fg_acoshf_f64(double x) {
    double y = fg_logf_f64(x + sqrt((x - 1) * (x + 1)));
    return x >= 1 ? x < INFINITY ? y : x : NAN;
}
FG_INLINE double fg_atanhf_f64(double x) {
    double a = fabs(x), z = a * a, y = 0.5 * fg_logf_f64((1 + a) / (1 - a));
    y = a < 2e-3 ? a + a * z * (0.33333333333333333 + 0.2 * z) : y;
    return copysign(a < 1 ? y : a == 1 ? INFINITY : NAN, x);
}

/* where zetaf and polygammaf hold */
FG_INLINE int fg_zeta_common(double s, double q) { return (s > 1) & (s < 1e4) & (q > 0) & (q < 1e30); }
FG_INLINE int fg_polygamma_common(double n, double x) { return (n >= 1) & (n <= 100) & (n == rint(n)) & (x > 0) & (x < 1e30); }
FG_INLINE double fg_polygammaf_f64(double n, double x) {
    double y = fg_gammaf_f64(n + 1) * fg_zetaf_f64(n + 1, x);
    return 0.5 * n == rint(0.5 * n) ? -y : y;
}
#endif
