/* Special functions that run as scalar loops: lgamma, digamma. */
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

#endif
