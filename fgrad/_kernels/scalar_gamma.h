/* Functions around the incomplete gamma and beta integrals, the Hurwitz zeta function and the modified Bessel functions, as
 * scalar loops in float64; float32 goes through float64.
 *
 * Sources: Loader, "Fast and accurate computation of binomial probabilities" (2000) for the densities in front of series and
 * continued fractions; DLMF 8.7, 8.9, 8.12 (incomplete gamma), 8.17 (incomplete beta), 25.11 (zeta), 10.25, 10.40 (Bessel). */
#ifndef FG_SCALAR_GAMMA_H
#define FG_SCALAR_GAMMA_H
#include "scalar_special.h"

#define FG_TWOPI 6.28318530717958647693
#define FG_TERMS 200000           /* of a series or fraction: enough for parameters up to 1e8 or so */

/* lgamma(n + 1) - ((n + 1/2) log n - n + log(2 pi) / 2) for n > 0 */
static inline double fg_stirling_error(double n) {
    double s = 0;
    for (; n < 16; n += 1) s += (n + 0.5) * log1p(1 / n) - 1;
    double z = 1 / (n * n);
    return s + (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360)))))) / n;
}
/* x log(x / m) + m - x >= 0, without cancellation where x is near m; in long double, since exp makes its error relative */
static inline long double fg_deviance(double x, double m) {
    double d = x - m;
    if (fabs(d) < 0.1 * (x + m)) {
        double v = d / (x + m), s = d * v, e = 2 * x * v, next = s;
        for (int j = 1; j < 100; j++) {
            e *= v * v;
            next = s + e / (2 * j + 1);
            if (next == s) break;
            s = next;
        }
        return s;
    }
    return x * logl((long double)x / m) + ((long double)m - x);
}
/* x^a e^-x / Gamma(a + 1) */
static inline double fg_gamma_density(double a, double x) {
    if (a < 20 && x < 600) return pow(x, a) * exp(-x) / tgamma(a + 1);
    return (double)expl(-fg_stirling_error(a) - fg_deviance(a, x)) / sqrt(FG_TWOPI * a);
}
/* log Gamma(1 + a) for |a| <= 0.2: sum of (-1)^k zeta(k) a^k / k */
static inline double fg_lgamma1p(double a) {
    static const double c[] = {0.5772156649015329, 0.8224670334241132, 0.40068563438653143, 0.27058080842778454, 0.20738555102867398,
        0.1695571769974082, 0.1440498967688461, 0.12550966952474304, 0.11133426586956469, 0.1000994575127818, 0.09095401714582904,
        0.083353840546109, 0.0769325164113522, 0.07143294629536134, 0.06666870588242046, 0.06250095514121304, 0.058823978658684585,
        0.055555767627403614, 0.05263167937961666, 0.05000004769810169, 0.04761907033185167, 0.045454556293204675};
    double s = 0;
    for (int k = 21; k >= 0; k--) s = (k % 2 ? c[k] : -c[k]) + s * a;
    return s * a;
}
/* The sum S of x^n / ((a + 1) ... (a + n)), n >= 0, and its derivative in a: P(a, x) = density S. */
static inline double fg_gamma_series(double a, double x, double *slope) {
    double t = 1, s = 1, h = 0, ds = 0;                 /* term, sum, - d log(term) / da, d sum / da */
    for (int n = 1; n < FG_TERMS; n++) {
        t *= x / (a + n);
        h += 1 / (a + n);
        s += t;
        ds -= t * h;
        if (t < 1e-17 * s && t * h < -1e-17 * ds) break;
    }
    *slope = ds;
    return s;
}
/* The continued fraction h = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), and its derivative in a: Q(a, x) = density a h. */
static inline double fg_gamma_fraction(double a, double x, double *slope) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, h = d, dc = 0, dd = d * d, dh = dd;      /* db/da = -1 */
    for (int i = 1; i < FG_TERMS; i++) {
        double n = -i * (i - a), dn = i;
        b += 2;
        double u = n * d + b, du = dn * d + n * dd - 1, w = b + n / c, dw = -1 + dn / c - n * dc / (c * c);
        d = 1 / u;
        dd = -du * d * d;
        c = w;
        dc = dw;
        double f = c * d, df = dc * d + c * dd;
        dh = dh * f + h * df;
        h *= f;
        if (fabs(f - 1) < 1e-16 && fabs(h * df) <= 1e-16 * fabs(dh)) break;
    }
    *slope = dh;
    return h;
}
/* Q for a > 1e6 by Temme's uniform expansion (DLMF 8.12) in eta, which is small wherever Q is neither 0 nor 1 */
static inline double fg_gamma_uniform(double a, double x, int upper) {
    double dev = (double)fg_deviance(a, x), eta = copysign(sqrt(2 * dev / a), x - a);
    double c0 = FG_POLY(eta, -0.33333333333333333, 0.083333333333333333, -0.014814814814814815, 0.0011574074074074074,
        0.0003527336860670194, -0.00017875514403292181, 0.39192631785224378e-4, -0.21854485106799922e-5);
    double c1 = FG_POLY(eta, -0.0018518518518518519, -0.0034722222222222222, 0.0026455026455026455, -0.00099022633744855967);
    double r = exp(-dev) / sqrt(FG_TWOPI * a) * (c0 + c1 / a), z = copysign(sqrt(dev), x - a);
    return dev > 800 ? (upper == (x < a)) : upper ? 0.5 * erfc(z) + r : 0.5 * erfc(-z) - r;
}
/* The regularised lower (P) and upper (Q) incomplete gamma functions. */
static inline double fg_gamma_pq(double a, double x, int upper) {
    double slope;
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
    if (x == 0 || isinf(a)) return upper;
    if (a == 0 || isinf(x)) return !upper;
    if (a > 1e6) return fg_gamma_uniform(a, x, upper);
    if (x > a && x >= (upper ? 0.5 : 1)) {
        double q = fg_gamma_density(a, x) * a * fg_gamma_fraction(a, x, &slope);
        return upper ? q : 1 - q;
    }
    if (upper && a <= 0.2 && x < 0.5) {                /* Q = 1 - x^a / Gamma(1 + a) (1 + a sum of (-x)^n / ((a + n) n!)) */
        double t = 1, s = 0;
        for (int n = 1; n < 40; n++) { t *= -x / n; s += t / (a + n); }
        double l = a * log(x) - fg_lgamma1p(a);
        return -expm1(l) - exp(l) * a * s;
    }
    double p = fg_gamma_density(a, x) * fg_gamma_series(a, x, &slope);
    return upper ? 1 - p : p;
}
static inline double fg_igamma_f64(double a, double x) { return fg_gamma_pq(a, x, 0); }
static inline double fg_igammac_f64(double a, double x) { return fg_gamma_pq(a, x, 1); }

/* dx/da at fixed P(a, x): how a gamma sample moves with its parameter, - (dP/da) / (dP/dx) */
static inline double fg_random_gamma_grad_f64(double a, double x) {
    double slope, s;
    if (!(a > 0) || !(x >= 0) || isinf(a) || isinf(x)) return NAN;
    if (x == 0) return 0;
    if (a > 1e6) {                                      /* Cornish-Fisher: x = a + z sqrt(a) + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt(a)) */
        double r = sqrt(a), z = (x - a) / r;
        for (int k = 0; k < 4; k++) z = (x - a - (z * z - 1) / 3) / r - (z * z * z - 7 * z) / (36 * a);
        return 1 + z / (2 * r) - (z * z * z - 7 * z) / (72 * a * r);
    }
    if (x > a && x > 1) {
        s = fg_gamma_fraction(a, x, &slope);
        return x * (s * (log(x) - fg_digamma_f64(a)) + slope);
    }
    s = fg_gamma_series(a, x, &slope);
    return -(x / a) * (s * (log(x) - fg_digamma_f64(a + 1)) + slope);
}
static inline double fg_igamma_grad_a_f64(double a, double x) {
    if (!(a > 0) || !(x >= 0)) return NAN;
    if (x == 0 || isinf(a) || isinf(x)) return 0;
    return -fg_random_gamma_grad_f64(a, x) * fg_gamma_density(a, x) * (a / x);
}

/* The fraction of DLMF 8.17.22 by the modified Lentz algorithm, for x < (a + 1) / (a + b + 2). */
static inline double fg_beta_fraction(double a, double b, double x) {
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), h = d;
    for (int m = 1; m < FG_TERMS; m++) {
        double n = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), f;
        d = 1 / (1 + n * d);
        c = 1 + n / c;
        h *= c * d;
        n = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + n * d);
        c = 1 + n / c;
        f = c * d;
        h *= f;
        if (fabs(f - 1) < 1e-16) break;
    }
    return h;
}
/* x^a (1 - x)^b / B(a, b) */
static inline double fg_beta_density(double a, double b, double x) {
    double n = a + b, e = fg_stirling_error(n) - fg_stirling_error(a) - fg_stirling_error(b);
    long double da = fg_deviance(a, n * x), db = fg_deviance(b, n * (1 - x));
    return (double)expl(e - da - db) * sqrt(a * (b / n) / FG_TWOPI);
}
static inline double fg_betainc_f64(double a, double b, double x) {
    if (!(a >= 0) || !(b >= 0) || !(x >= 0 && x <= 1) || (a == 0 && b == 0) || (isinf(a) && isinf(b))) return NAN;
    if (x == 0 || x == 1) return x;
    if (a == 0 || isinf(b)) return 1;
    if (b == 0 || isinf(a)) return 0;
    double g = fg_beta_density(a, b, x);
    return x < (a + 1) / (a + b + 2) ? g / a * fg_beta_fraction(a, b, x) : 1 - g / b * fg_beta_fraction(b, a, 1 - x);
}

/* Hurwitz zeta, the sum of (q + k)^-s: terms up to q + k >= 10 + s, then Euler and Maclaurin. */
static inline double fg_zeta_f64(double s, double q) {
    static const double c[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
        -7.1661652561756670113e18};                     /* (2k)! / B_2k */
    if (s == 1) return INFINITY;
    if (!(s > 1) || q != q) return NAN;
    if (q <= 0) {
        if (q == floor(q)) return INFINITY;
        if (s != floor(s) || q < -1e6) return NAN;
    }
    if (isinf(q)) return 0;
    if (isinf(s)) return q < 1 ? INFINITY : q == 1 ? 1 : 0;
    double head = 0, low = 0, w = q, t;
    for (; w < 10 + s; w += 1) {                            /* a compensated sum: the terms fall */
        t = pow(w, -s);
        double sum = head + t, z = sum - head;
        low += (head - (sum - z)) + (t - z);
        head = sum;
        if (t != 0 && fabs(t) < 1e-18 * fabs(head)) return head + low;
    }
    double p = pow(w, -s), tail = p * w / (s - 1) + 0.5 * p, f = s * p / w;
    for (int k = 0; k < 12; k++) {
        tail += f / c[k];
        f *= (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w);
    }
    return head + (low + tail);
}
/* psi'(x): reflection below 0, else zeta(2, x) */
static inline double fg_trigamma(double x) {
    if (x >= 0 || x != x) return fg_zeta_f64(2, x);
    if (x == floor(x)) return isinf(x) ? NAN : INFINITY;
    double r = x - floor(x + 0.5), t = 3.14159265358979323846 / sin(3.14159265358979323846 * r);
    return t * t - fg_zeta_f64(2, 1 - x);
}
/* the n-th derivative of digamma */
static inline double fg_polygamma_f64(double n, double x) {
    if (n == 0) return fg_digamma_f64(x);
    if (!(n > 0) || n != floor(n)) return NAN;
    if (n == 1) return fg_trigamma(x);
    double z = fg_zeta_f64(n + 1, x), r = n < 170 ? tgamma(n + 1) * z : z > 0 ? exp(lgamma(n + 1) + log(z)) : z;
    return fmod(n, 2) == 0 ? -r : r;
}

/* e^-|x| I_v(x), v = 0 or 1: the power series up to 20, all of whose terms are positive, then the asymptotic one */
static inline double fg_bessel_ie(double x, int v) {
    double a = fabs(x), s = 1, t = 1;
    if (a < 20) {
        double z = 0.25 * a * a;
        for (int k = 1; k < 100; k++) {
            t *= z / (k * (double)(k + v));
            s += t;
            if (t < 1e-17 * s) break;
        }
        s *= exp(-a) * (v ? 0.5 * a : 1);
    } else {
        for (int k = 1; k < 60; k++) {
            double u = t * ((2 * k - 1) * (2.0 * k - 1) - 4 * v) / (8 * k * a);
            if (fabs(u) >= fabs(t) || fabs(u) < 1e-18) break;
            t = u;
            s += t;
        }
        s /= sqrt(FG_TWOPI * a);
    }
    return v && x < 0 ? -s : s;
}
static inline double fg_bessel_i0e_f64(double x) { return fg_bessel_ie(x, 0); }
static inline double fg_bessel_i1e_f64(double x) { return fg_bessel_ie(x, 1); }
#endif
