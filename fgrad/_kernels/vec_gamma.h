/* The incomplete gamma and beta functions, and log beta, of float32 values held in float64: densities by branch-free loops, then series
 * and continued fractions on vectors of lanes that need the same one.  Lanes that are not `common` go to scalar_gamma.h.
 *
 * Sources: DLMF 8.7.1 and 8.9.2 (incomplete gamma), 8.17.22 (incomplete beta). */
#ifndef FG_VEC_GAMMA_H
#define FG_VEC_GAMMA_H
#include "scalar_gamma.h"
#include "scalar_special.h"
#include "vec.h"

enum { FG_LANES = FG_VEC / 8, FG_GAMMA_BLOCK = 256 };

/* y (y + 1) ... (y + 5) below 6, else 1; *far = log Gamma at y or y + 6 */
FG_INLINE double fg_stirling_parts_f64(double y, double *far) {
    double t = y < 6 ? y + 6 : y, i = 1 / t;
    *far = (t - 0.5) * fg_log_f64(t) - t + 0.91893853320467274178 + i * FG_POLY(i * i, 0.083333333333333324, -0.002777777777738844,
        0.00079365076699561417, -0.00059523121551654584, 0.00084089729375842445, -0.0018621206616777767, 0.0045399874728314289);
    return y < 6 ? y * (y + 1) * ((y + 2) * (y + 3)) * ((y + 4) * (y + 5)) : 1;
}
FG_INLINE double fg_betalnf_f64(double a, double b) {
    double u, v, w, p = fg_stirling_parts_f64(a, &u), q = fg_stirling_parts_f64(b, &v), r = fg_stirling_parts_f64(a + b, &w);
    return u + (v - w) - fg_log_f64(p * q / r);
}
static inline int fg_betaln_common(double a, double b) { return (a > 1e-30) & (b > 1e-30) & (a < 1e4) & (b < 1e4); }
/* x^a e^-x / Gamma(a + 1) */
FG_INLINE double fg_gamma_densityf_f64(double a, double x) {
    double far, p = fg_stirling_parts_f64(a + 1, &far);
    return p * fg_exp_f64(a * fg_log_f64(x) - x - far);
}
/* x^a (1 - x)^b / B(a, b) */
FG_INLINE double fg_beta_densityf_f64(double a, double b, double x) {
    return fg_exp_f64(a * fg_log_f64(x) + b * fg_log1p_f64(-x) - fg_betalnf_f64(a, b));
}

static inline int fg_any_lane(fg_lanes_f64 m) {
    int64_t any = 0;
    for (int i = 0; i < FG_LANES; i++) any |= m[i];
    return any != 0;
}
FG_INLINE vec_f64 vec_pick_f64(fg_lanes_f64 m, vec_f64 a, vec_f64 b) { return (vec_f64)(((fg_lanes_f64)a & m) | ((fg_lanes_f64)b & ~m)); }
/* the sum of x^n / ((a + 1) ... (a + n)), n >= 0 */
static inline vec_f64 vec_gamma_series_f64(vec_f64 a, vec_f64 x) {
    vec_f64 t = (vec_f64){0} + 1, s = t;
    for (int n = 0; n < FG_TERMS; n += 4) {
        for (int j = 0; j < 4; j++) { a += 1.0; t *= x / a; s += t; }
        if (!fg_any_lane(t > 1e-17 * s)) break;
    }
    return s;
}
/* numerators A and denominators B of two successive approximants of a continued fraction, scaled down before they overflow */
typedef struct { vec_f64 a0, a1, b0, b1, value; } FgFraction;
static inline int fg_fraction_goes_on(FgFraction *f) {
    vec_f64 big = (vec_f64){0} + 1e100, scale = vec_pick_f64(vec_abs_f64(f->b1) > big, (vec_f64){0} + 1e-100, (vec_f64){0} + 1);
    f->a0 *= scale; f->a1 *= scale; f->b0 *= scale; f->b1 *= scale;
    vec_f64 value = f->a1 / f->b1, change = vec_abs_f64(value - f->value);
    f->value = value;
    return fg_any_lane(change > 1e-11 * vec_abs_f64(value));
}
/* 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) */
static inline vec_f64 vec_gamma_fraction_f64(vec_f64 a, vec_f64 x) {
    vec_f64 b = x + 1.0 - a, zero = b * 0.0, k = zero;
    FgFraction f = {zero, zero + 1, zero + 1, b, zero};
    for (int n = 0; n < FG_TERMS; n += 4) {
        for (int j = 0; j < 4; j++) {
            k += 1.0;
            b += 2.0;
            vec_f64 c = k * (a - k), p = b * f.a1 + c * f.a0, q = b * f.b1 + c * f.b0;
            f.a0 = f.a1; f.a1 = p; f.b0 = f.b1; f.b1 = q;
        }
        if (!fg_fraction_goes_on(&f)) break;
    }
    return f.value;
}
/* 1 / (1 + d1 / (1 + d2 / (1 + ...))), d of the incomplete beta function */
static inline vec_f64 vec_beta_fraction_f64(vec_f64 a, vec_f64 b, vec_f64 x) {
    vec_f64 zero = a * 0.0, m = zero;
    FgFraction f = {zero, zero + 1, zero + 1, zero + 1, zero};
    for (int n = 0; n < FG_TERMS; n += 4) {
        for (int j = 0; j < 2; j++) {
            vec_f64 s = a + 2.0 * m, r = x / (s * (s + 1.0) * (s + 2.0)), odd = -(a + m) * (a + b + m) * (s + 2.0) * r;
            m += 1.0;
            vec_f64 even = m * (b - m) * s * r;
            f.a0 = f.a1 + odd * f.a0; f.b0 = f.b1 + odd * f.b0;
            f.a1 = f.a0 + even * f.a1; f.b1 = f.b0 + even * f.b1;
        }
        if (!fg_fraction_goes_on(&f)) break;
    }
    return f.value;
}

typedef struct { int n; uint8_t at[FG_GAMMA_BLOCK]; } FgLaneList;
/* one vector of the values that a list names from k on; the last one is filled up with `fill` */
static inline vec_f64 fg_take_lanes(const FgLaneList *l, int k, const double *from, double fill) {
    vec_f64 v = (vec_f64){0} + fill;
    for (int i = 0; i < FG_LANES && k + i < l->n; i++) v[i] = from[l->at[k + i]];
    return v;
}

/* P (or Q, if upper) for up to FG_GAMMA_BLOCK pairs.  Series where x <= a, or where Q = 1 - P keeps its digits; else the fraction. */
static inline void fg_igamma_block(int m, double *out, const double *a, const double *x, int upper) {
    FgLaneList series = {0}, fraction = {0};
    double density[FG_GAMMA_BLOCK];
    _Pragma("omp simd") for (int i = 0; i < m; i++) density[i] = fg_gamma_densityf_f64(a[i], x[i]);
    for (int i = 0; i < m; i++) {
        if (!(a[i] >= 1e-6 && a[i] < 1e4 && x[i] > 0 && x[i] < 1e4)) out[i] = upper ? fg_igammac_f32(a[i], x[i]) : fg_igamma_f32(a[i], x[i]);
        else if (x[i] <= a[i] || x[i] < 1 || (x[i] < 6 && a[i] > 0.01)) series.at[series.n++] = (uint8_t)i;
        else fraction.at[fraction.n++] = (uint8_t)i;
    }
    for (int k = 0; k < series.n; k += FG_LANES) {
        vec_f64 s = vec_gamma_series_f64(fg_take_lanes(&series, k, a, 1), fg_take_lanes(&series, k, x, 0));
        for (int i = 0; i < FG_LANES && k + i < series.n; i++) {
            int at = series.at[k + i];
            double p = density[at] * s[i];
            out[at] = upper ? 1 - p : p;
        }
    }
    for (int k = 0; k < fraction.n; k += FG_LANES) {
        vec_f64 h = vec_gamma_fraction_f64(fg_take_lanes(&fraction, k, a, 1), fg_take_lanes(&fraction, k, x, 10));
        for (int i = 0; i < FG_LANES && k + i < fraction.n; i++) {
            int at = fraction.at[k + i];
            double q = density[at] * a[at] * h[i];
            out[at] = upper ? q : 1 - q;
        }
    }
}
/* I_x(a, b) for up to FG_GAMMA_BLOCK triples; above the mean by 1 - I_(1 - x)(b, a). */
static inline void fg_betainc_block(int m, double *out, double *a, double *b, double *x) {
    FgLaneList list = {0};
    double density[FG_GAMMA_BLOCK], turned[FG_GAMMA_BLOCK];
    for (int i = 0; i < m; i++) {
        if (fg_betaln_common(a[i], b[i]) && a[i] > 1e-5 && b[i] > 1e-5 && x[i] > 0 && x[i] < 1) list.at[list.n++] = (uint8_t)i;
        else out[i] = fg_betainc_f32(a[i], b[i], x[i]);
    }
    _Pragma("omp simd") for (int i = 0; i < m; i++) {
        double p = a[i], q = b[i], t = x[i];
        int turn = !(t < (p + 1) / (p + q + 2));
        density[i] = fg_beta_densityf_f64(p, q, t);
        turned[i] = turn;
        a[i] = turn ? q : p;
        b[i] = turn ? p : q;
        x[i] = turn ? 1 - t : t;
    }
    for (int k = 0; k < list.n; k += FG_LANES) {
        vec_f64 h = vec_beta_fraction_f64(fg_take_lanes(&list, k, a, 1), fg_take_lanes(&list, k, b, 1), fg_take_lanes(&list, k, x, 0));
        for (int i = 0; i < FG_LANES && k + i < list.n; i++) {
            int at = list.at[k + i];
            double p = density[at] / a[at] * h[i];
            out[at] = turned[at] ? 1 - p : p;
        }
    }
}
#endif
