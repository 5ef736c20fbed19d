/* Scalar functions of the elementwise VM. */
#ifndef FG_SCALAR_MATH_H
#define FG_SCALAR_MATH_H
#include <math.h>
#include "fg.h"

#define FG_LIBM1(name) \
    static inline float fg_##name##_f32(float x) { return name##f(x); } \
    static inline double fg_##name##_f64(double x) { return name(x); }
#define FG_LIBM2(name) \
    static inline float fg_##name##_f32(float x, float y) { return name##f(x, y); } \
    static inline double fg_##name##_f64(double x, double y) { return name(x, y); }
FG_LIBM1(exp) FG_LIBM1(exp2) FG_LIBM1(expm1) FG_LIBM1(log) FG_LIBM1(log1p) FG_LIBM1(log2)
FG_LIBM1(cbrt) FG_LIBM1(sin) FG_LIBM1(cos) FG_LIBM1(tan) FG_LIBM1(asin) FG_LIBM1(acos)
FG_LIBM1(atan) FG_LIBM1(sinh) FG_LIBM1(cosh) FG_LIBM1(tanh) FG_LIBM1(asinh)
FG_LIBM1(acosh) FG_LIBM1(atanh) FG_LIBM1(erf) FG_LIBM1(erfc) 
FG_LIBM2(atan2) FG_LIBM2(pow)
static inline float fg_logistic_f32(float x) { float e = expf(-fabsf(x)); return (x < 0 ? e : 1.0f) / (1.0f + e); }
static inline double fg_logistic_f64(double x) { double e = exp(-fabs(x)); return (x < 0 ? e : 1.0) / (1.0 + e); }
#endif
