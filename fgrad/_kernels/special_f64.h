/* The gamma family for positive float64 numbers without branches, so that loops over them vectorise, with the remainders of products, sums
 * and logarithms that count: within 1.5 units in the last place.  Other numbers go one by one through scalar_gamma.h.
 *
 * Sources: DLMF 5.5 (recurrence), 5.11 (Stirling, asymptotic series of digamma), 25.11 (Hurwitz zeta). */
#ifndef FG_SPECIAL_F64_H
#define FG_SPECIAL_F64_H
#include "gamma_tables.h"
#include "scalar_special.h"

/* of the piece that y < 8 is in, and t, which goes from -1 to 1 over it */
#define FG_OF_3(a, b, c) (y < 1.8 ? (a) : y < 3.8 ? (b) : (c))
#define FG_OF_1(a) (a)
FG_INLINE double fg_piece_f64(double y) { return FG_OF_3((y - 1.3) * 2, y - 2.8, (y - 5.9) * 0.47619047619047619); }
/* a + b, as the value returned and *low */
FG_INLINE double fg_sum_f64(double a, double b, double *low) {
    double s = a + b, c = s - a;
    *low = (a - (s - c)) + (b - c);
    return s;
}
/* (a + al) (b + bl) for small al and bl */
FG_INLINE double fg_product_f64(double a, double al, double b, double bl) {
    double p = a * b;
    return p + (fg_mul_err(a, b, p) + (a * bl + al * b));
}
/* lgamma(y) for y >= 8 as the value returned and *low, given log y in two parts */
FG_INLINE double fg_stirling_f64(double y, double H, double L, double *low) {
    double i = 1 / y, m = y - 0.5, h = H - 1, p = m * h;
    double q = 0.41893853320467274178 + i * FG_POLY(i * i, 0.083333333333333333, -0.0027777777777777778, 0.00079365079365079365,
        -0.00059523809523809524, 0.00084175084175084175, -0.0019175269175269175, 0.0064102564102564103, -0.029550653594771242,
        0.17964437236883057, -1.3924322169059011);
    double e = fg_mul_err(m, h, p) + (m * L + q), s = p + e;
    *low = (p - s) + e;
    return s;
}

FG_INLINE int fg_lgamma_common(double x) { return (x > 0) & (x < 1e300); }
FG_INLINE double fg_lgamma_fast_f64(double x) {
    int small = x < 0.8;
    double yl, y = small ? fg_sum_f64(1, x, &yl) : (yl = 0, x < 8 ? x : 7), t = fg_piece_f64(y);
    double q = t * FG_LGAMMA_NEAR(t, FG_OF_3), p = FG_LGAMMA_NEAR_0(FG_OF_3) + q;
    double pl = ((FG_LGAMMA_NEAR_0(FG_OF_3) - p) + q) + FG_LGAMMA_NEAR_0_LO(FG_OF_3);
    double u = y - 1, v = y - 2, vl = y - (v + 2), a = u * v, al = fg_mul_err(u, v, a) + (u * vl + yl * (u + v));
    double g = a * p, gl = fg_mul_err(a, p, g) + (a * pl + al * p), low, L, H = fg_log_parts_f64(small ? x : x < 8 ? 8 : x, &L);
    double far = fg_stirling_f64(x < 8 ? 8 : x, H, L, &low), d = g - H;
    return small ? d + (((-H - d) + g) + (gl - L)) : x < 8 ? g + gl : far;
}

FG_INLINE int fg_gamma_common(double x) { return (x > 1e-300) & (x < 1000); }
FG_INLINE double fg_gamma_fast_f64(double x) {
    double y = x < 8 ? x : 7, n = floor(y) - 1, p = 1, pl = 0, f, next, zl;
    int small = x < 1;
    double z = small ? fg_sum_f64(1, x, &zl) : (zl = 0, y - n);
#define FG_FACTOR(j) f = (j) < n ? z + (j) : 1; next = p * f; pl = pl * f + fg_mul_err(p, f, next); p = next;
    FG_FACTOR(0) FG_FACTOR(1) FG_FACTOR(2) FG_FACTOR(3) FG_FACTOR(4) FG_FACTOR(5)             /* z (z + 1) ... (z + n - 1) */
#undef FG_FACTOR
    double t = 2 * ((z - 1.5) + zl), q = t * FG_GAMMA_NEAR(t, FG_OF_1), c = FG_GAMMA_NEAR_0(FG_OF_1) + q;
    double cl = ((FG_GAMMA_NEAR_0(FG_OF_1) - c) + q) + FG_GAMMA_NEAR_0_LO(FG_OF_1);
    double L, far = x < 8 ? 8 : x, H = fg_log_parts_f64(far, &L), low, s = fg_stirling_f64(far, H, L, &low);
    double near = fg_product_f64(c, cl, p, pl), d = c / x, e = d * x;
    d += (((c - e) - fg_mul_err(d, x, e)) + cl) / x;
    return small ? d : x < 8 ? near : fg_expk_f64(s, low, 0);
}

FG_INLINE int fg_digamma_common(double x) { return (x > 1e-290) & (x < 1e300); }
FG_INLINE double fg_digamma_fast_f64(double x) {
    int small = x < 0.8;
    double yl, y = small ? fg_sum_f64(1, x, &yl) : (yl = 0, x < 8 ? x : 7), t = fg_piece_f64(y);
    double q = t * FG_DIGAMMA_NEAR(t, FG_OF_3), p = FG_DIGAMMA_NEAR_0(FG_OF_3) + q;
    double pl = ((FG_DIGAMMA_NEAR_0(FG_OF_3) - p) + q) + FG_DIGAMMA_NEAR_0_LO(FG_OF_3);
    double dl, d = fg_sum_f64(y, -FG_DIGAMMA_ROOT, &dl), g = d * p;
    double gl = fg_mul_err(d, p, g) + (d * pl + (dl + yl - FG_DIGAMMA_ROOT_LO) * p);
    double far = x < 8 ? 8 : x, i = 1 / far, z = i * i, L, H = fg_log_parts_f64(far, &L);
    double tail = z * FG_POLY(z, 0.083333333333333333, -0.0083333333333333333, 0.003968253968253968, -0.0041666666666666667,
        0.0075757575757575758, -0.021092796092796093, 0.083333333333333333, -0.44325980392156863, 3.0539543302701197);
    double r = 1 / x, rp = r * x, rl = ((1 - rp) - fg_mul_err(r, x, rp)) * r, b = g - r;
    return small ? b + (((-r - b) + g) + (gl - rl)) : x < 8 ? g + gl : H - (0.5 * i + (tail - L));
}

/* Hurwitz zeta for 1 < s <= 20: 12 terms, added from the least on, then Euler and Maclaurin */
FG_INLINE int fg_zeta_common_f64(double s, double q) { return (s > 1) & (s <= 20) & (q > 1e-10) & (q < 1e10); }
/* (q + k)^-s */
FG_INLINE double fg_zeta_power_f64(double s, double q, double k) {
    double low, v = fg_sum_f64(q, k, &low), t = fg_pow_f64(v, -s);
    return t - t * (s * low / v);
}
FG_INLINE double fg_zeta_fast_f64(double s, double q) {
    double wl, w = fg_sum_f64(q, 12, &wl), i = 1 / w, z = i * i, p = fg_zeta_power_f64(s, q, 12), d = s - 1, h = w * (1 / d), hp = h * d, t;
    double hl = ((w - hp) - fg_mul_err(h, d, hp) + wl) * (1 / d), tail = 0, f = s * i, low, next, b;
#define FG_STEP(k, c) tail += f * (c); f *= (s + (2 * (k) + 1)) * (s + (2 * (k) + 2)) * z;
    FG_STEP(0, 0.083333333333333333) FG_STEP(1, -0.0013888888888888889) FG_STEP(2, 3.3068783068783069e-05)
    FG_STEP(3, -8.2671957671957672e-07)
    FG_STEP(4, 2.0876756987868099e-08) FG_STEP(5, -5.2841901386874932e-10) FG_STEP(6, 1.3382536530684679e-11)
    FG_STEP(7, -3.3896802963225829e-13) FG_STEP(8, 8.5860620562778446e-15) FG_STEP(9, -2.1748686985580619e-16)        /* B_2k / (2k)! */
#undef FG_STEP
    b = fg_sum_f64(h, 0.5 + tail, &t);
    double sum = p * b;
    low = fg_mul_err(p, b, sum) + p * (t + hl);
#define FG_TERM(k) t = fg_zeta_power_f64(s, q, k); next = sum + t; low += sum > t ? (sum - next) + t : (t - next) + sum; sum = next;
    FG_TERM(11) FG_TERM(10) FG_TERM(9) FG_TERM(8) FG_TERM(7) FG_TERM(6) FG_TERM(5) FG_TERM(4) FG_TERM(3) FG_TERM(2) FG_TERM(1) FG_TERM(0)
#undef FG_TERM
    return sum + low;
}
/* digamma's derivative: ten terms (x + k)^-2, and the asymptotic series at x + 10 */
FG_INLINE int fg_trigamma_common(double x) { return (x > 1e-150) & (x < 1e150); }
/* 1 / (x + k) as the value returned and *low */
FG_INLINE double fg_inverse_f64(double x, double k, double *low) {
    double vl, v = fg_sum_f64(x, k, &vl), r = 1 / v, p = r * v;
    *low = r * (((1 - p) - fg_mul_err(r, v, p)) - r * vl);
    return r;
}
FG_INLINE double fg_trigamma_fast_f64(double x) {
    double low, rl, r, il, i = fg_inverse_f64(x, 10, &il), z = i * i;
    double sum = 0.5 * z + i * z * FG_POLY(z, 0.16666666666666667, -0.033333333333333333, 0.023809523809523810, -0.033333333333333333,
        0.075757575757575758, -0.25311355311355311, 1.1666666666666667, -7.0921568627450980, 54.971177944862155);
#define FG_TERM(k) r = fg_inverse_f64(x, k, &rl); sum += r * r + 2 * r * rl;
    FG_TERM(9) FG_TERM(8) FG_TERM(7) FG_TERM(6) FG_TERM(5) FG_TERM(4) FG_TERM(3) FG_TERM(2) FG_TERM(1)
#undef FG_TERM
    r = fg_inverse_f64(x, 0, &rl);
    double first = r * r, both = i > first ? fg_sum_f64(i, first, &low) : fg_sum_f64(first, i, &low);
    return both + (sum + (low + il + (fg_mul_err(r, r, first) + 2 * r * rl)));
}
/* the n-th derivative of digamma for whole n from 1 to 19: n! zeta(n + 1, x), with the sign of (-1)^(n + 1) */
FG_INLINE int fg_polygamma_common_f64(double n, double x) { return (n == floor(n)) & fg_zeta_common_f64(n + 1, x); }
FG_INLINE double fg_polygamma_fast_f64(double n, double x) {
    double y = fg_gamma_fast_f64(n + 1) * fg_zeta_fast_f64(n + 1, x), half = 0.5 * n;
    return half == floor(half) ? -y : y;
}
#endif
