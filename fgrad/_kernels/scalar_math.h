/* Scalar elementary functions written so that loops over them vectorise: no branches, no calls, only arithmetic, selects
 * and integer operations on the bits.
 *
 * Method, after the usual textbooks (Muller, Elementary Functions; Tang's table-free reductions): Cody-Waite argument
 * reduction, a minimax polynomial (fitted with the Remez algorithm at 45 digits), and a reconstruction by exponent bits.
 * Error bounds are asserted, function by function, in tests/kernels/test_scalar_math.py.  a*b + c may be contracted to a
 * fused multiply-add; nothing here relies on it, and nothing breaks by it. */
#ifndef FG_SCALAR_MATH_H
#define FG_SCALAR_MATH_H
#include <float.h>
#include <math.h>
#include "fg.h"
#include "row_math.h"

static inline uint32_t fg_bits32(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
static inline float fg_float(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }
static inline uint64_t fg_bits64(double x) { uint64_t u; memcpy(&u, &x, 8); return u; }
static inline double fg_double(uint64_t u) { double x; memcpy(&x, &u, 8); return x; }

/* FG_POLY(x, c0, c1, ...) = c0 + c1 x + ..., by Horner's rule; up to 24 coefficients. */
#define FG_H1(x, a) (a)
#define FG_H2(x, a, ...) (FG_H1(x, __VA_ARGS__) * (x) + (a))
#define FG_H3(x, a, ...) (FG_H2(x, __VA_ARGS__) * (x) + (a))
#define FG_H4(x, a, ...) (FG_H3(x, __VA_ARGS__) * (x) + (a))
#define FG_H5(x, a, ...) (FG_H4(x, __VA_ARGS__) * (x) + (a))
#define FG_H6(x, a, ...) (FG_H5(x, __VA_ARGS__) * (x) + (a))
#define FG_H7(x, a, ...) (FG_H6(x, __VA_ARGS__) * (x) + (a))
#define FG_H8(x, a, ...) (FG_H7(x, __VA_ARGS__) * (x) + (a))
#define FG_H9(x, a, ...) (FG_H8(x, __VA_ARGS__) * (x) + (a))
#define FG_H10(x, a, ...) (FG_H9(x, __VA_ARGS__) * (x) + (a))
#define FG_H11(x, a, ...) (FG_H10(x, __VA_ARGS__) * (x) + (a))
#define FG_H12(x, a, ...) (FG_H11(x, __VA_ARGS__) * (x) + (a))
#define FG_H13(x, a, ...) (FG_H12(x, __VA_ARGS__) * (x) + (a))
#define FG_H14(x, a, ...) (FG_H13(x, __VA_ARGS__) * (x) + (a))
#define FG_H15(x, a, ...) (FG_H14(x, __VA_ARGS__) * (x) + (a))
#define FG_H16(x, a, ...) (FG_H15(x, __VA_ARGS__) * (x) + (a))
#define FG_H17(x, a, ...) (FG_H16(x, __VA_ARGS__) * (x) + (a))
#define FG_H18(x, a, ...) (FG_H17(x, __VA_ARGS__) * (x) + (a))
#define FG_H19(x, a, ...) (FG_H18(x, __VA_ARGS__) * (x) + (a))
#define FG_H20(x, a, ...) (FG_H19(x, __VA_ARGS__) * (x) + (a))
#define FG_H21(x, a, ...) (FG_H20(x, __VA_ARGS__) * (x) + (a))
#define FG_H22(x, a, ...) (FG_H21(x, __VA_ARGS__) * (x) + (a))
#define FG_H23(x, a, ...) (FG_H22(x, __VA_ARGS__) * (x) + (a))
#define FG_H24(x, a, ...) (FG_H23(x, __VA_ARGS__) * (x) + (a))
#define FG_PICK(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, _22, _23, _24, n, ...) n
#define FG_POLY(x, ...) FG_PICK(__VA_ARGS__, FG_H24, FG_H23, FG_H22, FG_H21, FG_H20, FG_H19, FG_H18, FG_H17, FG_H16, FG_H15, FG_H14, \
    FG_H13, FG_H12, FG_H11, FG_H10, FG_H9, FG_H8, FG_H7, FG_H6, FG_H5, FG_H4, FG_H3, FG_H2, FG_H1, 0)(x, __VA_ARGS__)

/* Adding 1.5 * 2^(mantissa bits) rounds to the nearest integer, which then stands in the low bits. */
#define FG_MAGIC32 12582912.0f
#define FG_MAGIC64 6755399441055744.0
#define FG_PIO2 1.57079632679489661923
#define FG_PIO2_LO 6.12323399573676603587e-17
/* gelu's approximation: the logistic function of x (A + B x^2), times x */
#define FG_GELU_A 1.5957691216057308
#define FG_GELU_B 0.071354816272600254

#include "scalar_f64.h"
#include "scalar_f32.h"
#endif
