/* Functions around the gamma, incomplete gamma and beta integrals, the Hurwitz zeta function and the normal quantile, as scalar loops.  float32 computes in float64; float64 in x87's long double where there is one, whose
 * 11 more bits leave one rounding, and else in float64.
 *
 * Sources: Loader, "Fast and accurate computation of binomial probabilities" (2000) for the densities in front of series and
 * continued fractions; DLMF 5.11 (gamma), 7.12 (tail of the normal), 8.7, 8.9, 8.12 (incomplete gamma), 8.17 (incomplete beta),
 * 25.11 (zeta), 10.25, 10.40 (Bessel). */
#ifndef FG_SCALAR_GAMMA_H
#define FG_SCALAR_GAMMA_H
#include "scalar_math.h"

#define FG_PI 3.14159265358979323846264338327950288L
#define FG_TERMS 200000           /* of a series or fraction: enough for parameters up to 1e8 or so */

/* log |Gamma|, by lgamma_r where there is one, since plain lgamma writes a global sign */
#if defined(__GLIBC__) || defined(__APPLE__)
extern double lgamma_r(double, int *);
static inline double fg_lgamma_f32(double x) { int s; return lgamma_r(x, &s); }
#else
static inline double fg_lgamma_f32(double x) { return lgamma(x); }
#endif
#if LDBL_MANT_DIG == 64 && defined(__GLIBC__)
#define FG_X87 1
extern long double lgammal_r(long double, int *);
static inline long double fg_lgamma_f64(long double x) { int s; return lgammal_r(x, &s); }
#else
#define FG_X87 0
static inline double fg_lgamma_f64(double x) { return fg_lgamma_f32(x); }
#endif

/* R: the type of the results and their terms.  W, M_W: what exponents are computed in, since exp makes their error relative. */
#define R double
#define W double
#define M(f) f
#define MW(f) f
#define N(name) fg_##name##_f32
#include "scalar_gamma_body.h"
#undef R
#undef W
#undef M
#undef MW
#undef N

#define W long double
#define MW(f) f##l
#define N(name) fg_##name##_f64
#if FG_X87
#define R long double
#define M(f) f##l
#else
#define R double
#define M(f) f
#endif
#include "scalar_gamma_body.h"
#include "scalar_normal_body.h"
#undef R
#undef W
#undef M
#undef MW
#undef N
#endif
