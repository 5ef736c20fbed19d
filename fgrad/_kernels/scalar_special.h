/* Special functions that run as scalar loops: lgamma, digamma, erf_inv. */
#ifndef FG_SCALAR_SPECIAL_H
#define FG_SCALAR_SPECIAL_H
#include <math.h>
#include "scalar_math.h"

/* lgamma(x) with |Gamma|; lgamma_r where there is one, since plain lgamma writes a global sign. */
#if defined(__GLIBC__) || defined(__APPLE__)
extern double lgamma_r(double, int *);
static inline double fg_lgamma_f64(double x) { int s; return lgamma_r(x, &s); }
#else
static inline double fg_lgamma_f64(double x) { return lgamma(x); }
#endif
static inline float fg_lgamma_f32(float x) { return (float)fg_lgamma_f64(x); }

/* digamma(x): reflection for x < 0.5, recurrence up to 10, then the asymptotic series ln x - 1/2x - sum B_2k / (2k x^2k).
 * Poles at 0, -1, -2, ...: -inf at +0, +inf at -0, NaN at the negative integers. */
static inline double fg_digamma_f64(double x) {
    double shift = 0;
    if (x == 0) return -copysign(INFINITY, x);
    if (x == -INFINITY || (x < 0 && x == floor(x))) return NAN;
    if (x < 0.5) {
        const double pi = 3.14159265358979323846;
        double r = x - floor(x + 0.5);                    /* exact, in [-0.5, 0.5]: tan(pi x) = tan(pi r) */
        shift = fabs(r) == 0.5 ? 0 : -pi / tan(pi * r);
        if (fabs(x) < 1e-8) shift = -1 / x;
        x = 1 - x;
    }
    /* near the positive root 1.4616321449683623 the series cancels: expand there */
    double d = (x - 1.4616321449683622) - 9.5499954299656977e-17;
    if (fabs(d) < 0.05) {
        static const double c[] = {0.96767224544762117, -0.442763168983592106, 0.258499760955651011, -0.163942705442406528,
            0.107824050691262366, -0.0721995612564547109, 0.0488042881641431072, -0.0331611264748473593,
            0.0225976482322181047, -0.0154247659049489591, 0.0105387916166121754};
        double s = 0;
        for (int k = 10; k >= 0; k--) s = s * d + c[k];
        return s * d + shift;
    }
    double s = 0;
    while (x < 10) { s -= 1 / x; x += 1; }
    double z = 1 / (x * x);
    double t = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return s + log(x) - 0.5 / x - (x < INFINITY ? t : 0) + shift;
}
static inline float fg_digamma_f32(float x) { return (float)fg_digamma_f64(x); }

/* Inverse error function: Giles, "Approximating the erfinv function" (2012), for a start, then Newton-Halley steps on
 * erf (centre) or erfc (tails), where the result keeps full relative accuracy. */
static inline double fg_erf_inv_f64(double y) {
    double a = fabs(y);
    if (!(a < 1)) return a == 1 ? copysign(INFINITY, y) : NAN;
    if (a < 1e-8) return y * 0.88622692545275801365;
    double w = -log((1 - a) * (1 + a)), p;
    if (w < 5) {
        w -= 2.5;
        p = 2.81022636e-08; p = 3.43273939e-07 + p * w; p = -3.5233877e-06 + p * w; p = -4.39150654e-06 + p * w;
        p = 0.00021858087 + p * w; p = -0.00125372503 + p * w; p = -0.00417768164 + p * w; p = 0.246640727 + p * w; p = 1.50140941 + p * w;
    } else {
        w = sqrt(w) - 3;
        p = -0.000200214257; p = 0.000100950558 + p * w; p = 0.00134934322 + p * w; p = -0.00367342844 + p * w;
        p = 0.00573950773 + p * w; p = -0.0076224613 + p * w; p = 0.00943887047 + p * w; p = 1.00167406 + p * w; p = 2.83297682 + p * w;
    }
    double x = p * a;
    for (int k = 0; k < 2; k++) {
        double e = a < 0.5 ? erf(x) - a : (1 - a) - erfc(x);
        double u = e / (1.12837916709551257390 * exp(-x * x));
        x -= u / (1 + x * u);
    }
    return copysign(x, y);
}
static inline float fg_erf_inv_f32(float y) { return (float)fg_erf_inv_f64(y); }
#endif
