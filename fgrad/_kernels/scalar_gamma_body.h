/* The functions of scalar_gamma.h for its types R and W; included twice. */
#define TINY (sizeof(R) > 8 ? 2.7e-20L : 5.5e-17L)          /* half a unit in the last place of 1 */
#define CLOSE (sizeof(R) > 8 ? 1e-18L : 4e-16L)             /* of two approximants of a fraction, above their rounding */
#define PI ((R)FG_PI)
#define HALF_LOG_2PI ((R)0.918938533204672741780329736405617640L)

/* lgamma(n + 1) - ((n + 1/2) log n - n + log(2 pi) / 2) for n > 0 */
static inline R N(stirling_error)(R n) {
    R s = 0;
    if (sizeof(R) > 8 && n < 16) return N(lgamma)(n + 1) - ((n + 0.5) * M(log)(n) - n + HALF_LOG_2PI);      /* has digits to lose */
    for (; n < 16; n += 1) s += (n + 0.5) * M(log1p)(1 / n) - 1;
    R z = 1 / (n * n);
    return s + (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360)))))) / n;
}
/* x log(x / m) + m - x >= 0, without cancellation where x is near m */
static inline W N(deviance)(R x, R m) {
    R d = x - m;
    if (M(fabs)(d) < 0.1 * (x + m)) {
        R v = d / (x + m), s = d * v, e = 2 * x * v, next = s;
        for (int j = 1; j < 100; j++) {
            e *= v * v;
            next = s + e / (2 * j + 1);
            if (next == s) break;
            s = next;
        }
        return s;
    }
    return x * MW(log)((W)x / m) + ((W)m - x);
}
/* x^a e^-x / Gamma(a + 1) */
static inline R N(gamma_density)(R a, R x) {
    if (a < 20 && x < 600 && sizeof(R) > 8) return M(exp)(a * M(log)(x) - x - N(lgamma)(a + 1));
    if (a < 20 && x < 600) return M(pow)(x, a) * M(exp)(-x) / M(tgamma)(a + 1);
    return (R)MW(exp)(-N(stirling_error)(a) - N(deviance)(a, x)) / M(sqrt)(2 * PI * a);
}
/* log Gamma(1 + a) for |a| <= 0.2: sum of (-1)^k zeta(k) a^k / k */
static inline R N(lgamma1p)(R a) {
    static const R c[] = {0.577215664901532860607L, 0.822467033424113218236L, 0.400685634386531428467L, 0.270580808427784547879L,
        0.207385551028673985266L, 0.169557176997408189952L, 0.14404989676884611812L, 0.125509669524743042422L,
        0.111334265869564690491L, 0.100099457512781808534L, 0.0909540171458290422326L, 0.0833538405461090040249L,
        0.0769325164113521914728L, 0.0714329462953613360592L, 0.0666687058824204680329L, 0.062500955141213040742L,
        0.058823978658684582339L, 0.0555557676274036111022L, 0.0526316793796166607336L, 0.0500000476981016936398L,
        0.0476190703301422279908L, 0.0454545562932046694424L, 0.0434782660530402593614L, 0.0416666691503412104691L,
        0.0400000011921401405861L, 0.0384615390346751857063L, 0.0370370373129893255495L, 0.0357142858473333580282L,
        0.0344827586849193008108L};
    R s = 0;
    for (int k = 28; k >= 0; k--) s = (k % 2 ? c[k] : -c[k]) + s * a;
    return s * a;
}
/* digamma(x): reflection for x < 0.5, recurrence up to 16, then the asymptotic series ln x - 1/2x - sum B_2k / (2k x^2k).
 * Poles at 0, -1, -2, ...: -inf at +0, +inf at -0, NaN at the negative integers. */
static inline R N(digamma)(R x) {
    R shift = 0;
    if (x == 0) return -M(copysign)(INFINITY, x);
    if (x == -INFINITY || (x < 0 && x == M(floor)(x))) return NAN;
    if (x < 0.5) {
        R r = x - M(floor)(x + 0.5);                       /* exact, in [-0.5, 0.5]: tan(pi x) = tan(pi r) */
        shift = M(fabs)(r) == 0.5 ? 0 : -PI / M(tan)(PI * r);
        x = 1 - x;
    }
    /* near the positive root 1.4616321449683623 the series cancels: expand there */
    R high = sizeof(R) > 8 ? 1.46163214496836234117249642139L : 1.4616321449683622;          /* and what it lacks of the root */
    R d = (x - high) - (sizeof(R) > 8 ? 9.016312093258695918614e-20L : 9.5499954299656977e-17);
    if (M(fabs)(d) < 0.05) {
        static const R c[] = {0.967672245447621170427L, -0.442763168983592106093L, 0.258499760955651010624L,
            -0.163942705442406527504L, 0.107824050691262365757L, -0.0721995612564547109261L, 0.0488042881641431072251L,
            -0.0331611264748473592923L, 0.0225976482322181046596L, -0.0154247659049489591388L, 0.0105387916166121753881L,
            -0.00720453438635686824097L, 0.00492678139572985344635L, -0.00336980165543932808279L};
        R s = 0;
        for (int k = 13; k >= 0; k--) s = s * d + c[k];
        return s * d + shift;
    }
    R s = 0;
    while (x < 16) { s -= 1 / x; x += 1; }
    R z = 1 / (x * x);
    R t = z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 - z * (691.0L / 32760 - z / 12))))));
    return s + M(log)(x) - 0.5 / x - (x < INFINITY ? t : 0) + shift;
}
/* Gamma(x): an infinity of the zero's sign at 0, NaN at the negative integers. */
static inline R N(gamma)(R x) {
    if (x == 0) return M(copysign)(INFINITY, x);
    return x < 0 && x == M(floor)(x) ? NAN : M(tgamma)(x);
}
static inline R N(gamma_sign)(R x) {
    if (x == 0) return M(copysign)(1, x);
    return x > 0 ? 1 : x == M(floor)(x) ? NAN : M(fmod)(M(floor)(x), 2) == 0 ? 1 : -1;
}
/* log |B(a, b)|; for b the larger and not small, log Gamma(b) - log Gamma(a + b) by Stirling's formula, where nothing cancels */
static inline R N(betaln)(R a, R b) {
    if (a > b) { R t = a; a = b; b = t; }
    if (!(b > 16) || !(a > 0) || isinf(b)) return N(lgamma)(a) + (N(lgamma)(b) - N(lgamma)(a + b));
    R s = a + b, rise = (b - 0.5) * M(log1p)(a / b) + a * (M(log)(s) - 1);
    return N(lgamma)(a) - (rise + (N(stirling_error)(s) - N(stirling_error)(b)));
}
static inline R N(beta)(R a, R b) {
    return N(gamma_sign)(a) * N(gamma_sign)(b) * N(gamma_sign)(a + b) * M(exp)(N(betaln)(a, b));
}

/* The sum S of x^n / ((a + 1) ... (a + n)), n >= 0, and its derivative in a: P(a, x) = density S. */
static inline R N(gamma_series)(R a, R x, R *slope) {
    R t = 1, s = 1, h = 0, ds = 0;                 /* term, sum, - d log(term) / da, d sum / da */
    for (int n = 1; n < FG_TERMS; n++) {
        t *= x / (a + n);
        h += 1 / (a + n);
        s += t;
        ds -= t * h;
        if (t < TINY * s && t * h < -TINY * ds) break;
    }
    *slope = ds;
    return s;
}
/* The continued fraction h = 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)), and its derivative in a: Q(a, x) = density a h. */
static inline R N(gamma_fraction)(R a, R x, R *slope) {
    R b = x + 1 - a, c = 1e300, d = 1 / b, h = d, dc = 0, dd = d * d, dh = dd;      /* db/da = -1 */
    for (int i = 1; i < FG_TERMS; i++) {
        R n = -i * (i - a), dn = i;
        b += 2;
        R u = n * d + b, du = dn * d + n * dd - 1, w = b + n / c, dw = -1 + dn / c - n * dc / (c * c);
        d = 1 / u;
        dd = -du * d * d;
        c = w;
        dc = dw;
        R f = c * d, df = dc * d + c * dd;
        dh = dh * f + h * df;
        h *= f;
        if (M(fabs)(f - 1) <= 2 * TINY && M(fabs)(h * df) <= 2 * TINY * M(fabs)(dh)) break;
    }
    *slope = dh;
    return h;
}
/* The same without derivatives: the sum, and the fraction by numerators and denominators of its approximants, divided once in eight. */
static inline R N(gamma_sum)(R a, R x) {
    R t = 1, s = 1;
    for (int n = 1; n < FG_TERMS && t > TINY * s; n++) { t *= x / (a + n); s += t; }
    return s;
}
static inline R N(gamma_quotient)(R a, R x) {
    R b = x + 1 - a, p0 = 0, p = 1, q0 = 1, q = b, h = 0, last;
    for (int i = 1; i < FG_TERMS; ) {
        for (int end = i + 8; i < end; i++) {
            R n = i * (a - i), t;
            b += 2;
            t = b * p + n * p0; p0 = p; p = t;
            t = b * q + n * q0; q0 = q; q = t;
        }
        if (M(fabs)(q) > 1e100) { p0 *= 1e-100; p *= 1e-100; q0 *= 1e-100; q *= 1e-100; }
        last = h;
        h = p / q;
        if (M(fabs)(h - last) <= CLOSE * M(fabs)(h)) break;
    }
    return h;
}
/* Q for a > 1e6 by Temme's uniform expansion (DLMF 8.12) in eta, which is small wherever Q is neither 0 nor 1 */
static inline R N(gamma_uniform)(R a, R x, int upper) {
    R dev = (R)N(deviance)(a, x), eta = M(copysign)(M(sqrt)(2 * dev / a), x - a);
    R c0 = FG_POLY(eta, -0.33333333333333333, 0.083333333333333333, -0.014814814814814815, 0.0011574074074074074,
        0.0003527336860670194, -0.00017875514403292181, 0.39192631785224378e-4, -0.21854485106799922e-5);
    R c1 = FG_POLY(eta, -0.0018518518518518519, -0.0034722222222222222, 0.0026455026455026455, -0.00099022633744855967);
    R r = M(exp)(-dev) / M(sqrt)((2 * PI) * a) * (c0 + c1 / a), z = M(copysign)(M(sqrt)(dev), x - a);
    return dev > 800 ? (upper == (x < a)) : upper ? 0.5 * M(erfc)(z) + r : 0.5 * M(erfc)(-z) - r;
}
/* The regularised lower (P) and upper (Q) incomplete gamma functions. */
static inline R N(gamma_pq)(R a, R x, int upper) {
    if (!(a >= 0) || !(x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return NAN;
    if (x == 0 || isinf(a)) return upper;
    if (a == 0 || isinf(x)) return !upper;
    if (a > 1e6) return N(gamma_uniform)(a, x, upper);
    if (x > a && x >= (upper ? 0.5 : 1)) {
        R q = N(gamma_density)(a, x) * a * N(gamma_quotient)(a, x);
        return upper ? q : 1 - q;
    }
    if (upper && a <= 0.2 && x < 0.5) {                /* Q = 1 - x^a / Gamma(1 + a) (1 + a sum of (-x)^n / ((a + n) n!)) */
        R t = 1, s = 0;
        for (int n = 1; n < 40; n++) { t *= -x / n; s += t / (a + n); }
        R l = a * M(log)(x) - N(lgamma1p)(a);
        return -M(expm1)(l) - M(exp)(l) * a * s;
    }
    R p = N(gamma_density)(a, x) * N(gamma_sum)(a, x);
    return upper ? 1 - p : p;
}
static inline R N(igamma)(R a, R x) { return N(gamma_pq)(a, x, 0); }
static inline R N(igammac)(R a, R x) { return N(gamma_pq)(a, x, 1); }

/* dx/da at fixed P(a, x): how a gamma sample moves with its parameter, - (dP/da) / (dP/dx) */
static inline R N(random_gamma_grad)(R a, R x) {
    R slope, s;
    if (!(a > 0) || !(x >= 0) || isinf(a) || isinf(x)) return NAN;
    if (x == 0) return 0;
    if (a > 1e6) {                                      /* Cornish-Fisher: x = a + z sqrt(a) + (z^2 - 1) / 3 + (z^3 - 7 z) / (36 sqrt(a)) */
        R r = M(sqrt)(a), z = (x - a) / r;
        for (int k = 0; k < 4; k++) z = (x - a - (z * z - 1) / 3) / r - (z * z * z - 7 * z) / (36 * a);
        return 1 + z / (2 * r) - (z * z * z - 7 * z) / (72 * a * r);
    }
    if (x > a && x > 1) {
        s = N(gamma_fraction)(a, x, &slope);
        return x * (s * (M(log)(x) - N(digamma)(a)) + slope);
    }
    s = N(gamma_series)(a, x, &slope);
    return -(x / a) * (s * (M(log)(x) - N(digamma)(a + 1)) + slope);
}
static inline R N(igamma_grad_a)(R a, R x) {
    if (!(a > 0) || !(x >= 0)) return NAN;
    if (x == 0 || isinf(a) || isinf(x)) return 0;
    return -N(random_gamma_grad)(a, x) * N(gamma_density)(a, x) * (a / x);
}

/* The fraction of DLMF 8.17.22 by numerators and denominators of its approximants, for x < (a + 1) / (a + b + 2). */
static inline R N(beta_fraction)(R a, R b, R x) {
    R p0 = 0, p = 1, q0 = 1, q = 1, h = 0, last;
    for (int m = 0; m < FG_TERMS; ) {
        for (int end = m + 4; m < end; ) {
            R s = a + 2 * m, r = x / (s * (s + 1) * (s + 2)), odd = -(a + m) * (a + b + m) * (s + 2) * r, even;
            m++;
            even = m * (b - m) * s * r;
            p0 = p + odd * p0; q0 = q + odd * q0;
            p = p0 + even * p; q = q0 + even * q;
        }
        if (M(fabs)(q) > 1e100) { p0 *= 1e-100; p *= 1e-100; q0 *= 1e-100; q *= 1e-100; }
        last = h;
        h = p / q;
        if (M(fabs)(h - last) <= CLOSE * M(fabs)(h)) break;
    }
    return h;
}
/* x^a (1 - x)^b / B(a, b) */
static inline R N(beta_density)(R a, R b, R x) {
    R n = a + b, e = N(stirling_error)(n) - N(stirling_error)(a) - N(stirling_error)(b);
    W da = N(deviance)(a, n * x), db = N(deviance)(b, n * (1 - x));
    return (R)MW(exp)(e - da - db) * M(sqrt)(a * (b / n) / (2 * PI));
}
static inline R N(betainc)(R a, R b, R x) {
    if (!(a >= 0) || !(b >= 0) || !(x >= 0 && x <= 1) || (a == 0 && b == 0) || (isinf(a) && isinf(b))) return NAN;
    if (x == 0 || x == 1) return x;
    if (a == 0 || isinf(b)) return 1;
    if (b == 0 || isinf(a)) return 0;
    R g = N(beta_density)(a, b, x);
    return x < (a + 1) / (a + b + 2) ? g / a * N(beta_fraction)(a, b, x) : 1 - g / b * N(beta_fraction)(b, a, 1 - x);
}

/* w^y: the power of its double, corrected for what w has more digits */
static inline R N(power)(R w, R y) {
    double high = (double)w;
    return fg_pow_f64(high, (double)y) * (1 + y * ((w - high) / high));
}
/* Hurwitz zeta, the sum of (q + k)^-s: terms up to q + k >= 10 + s, then Euler and Maclaurin. */
static inline R N(zeta)(R s, R q) {
    static const R c[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
        -7.1661652561756670113e18};                     /* (2k)! / B_2k */
    if (s == 1) return INFINITY;
    if (!(s > 1) || q != q) return NAN;
    if (q <= 0) {
        if (q == M(floor)(q)) return INFINITY;
        if (s != M(floor)(s) || q < -1e6) return NAN;
    }
    if (isinf(q)) return 0;
    if (isinf(s)) return q < 1 ? INFINITY : q == 1 ? 1 : 0;
    R head = 0, low = 0, w = q, t;
    for (; w < 10 + s; w += 1) {                            /* a compensated sum: the terms fall */
        t = N(power)(w, -s);
        R sum = head + t, z = sum - head;
        low += (head - (sum - z)) + (t - z);
        head = sum;
        if (w > 0 && M(fabs)(t) <= 0.01 * TINY * M(fabs)(head)) return head + low; /* as are all that follow; 0 where the first is */
    }
    R p = N(power)(w, -s), tail = p * w / (s - 1) + 0.5 * p, f = s * p / w;
    for (int k = 0; k < 12; k++) {
        tail += f / c[k];
        f *= (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w);
    }
    return head + (low + tail);
}
/* psi'(x): reflection below 0, else zeta(2, x) */
static inline R N(trigamma)(R x) {
    if (x >= 0 || x != x) return N(zeta)(2, x);
    if (x == M(floor)(x)) return isinf(x) ? NAN : INFINITY;
    R r = x - M(floor)(x + 0.5), t = PI / M(sin)(PI * r);
    return t * t - N(zeta)(2, 1 - x);
}
/* the n-th derivative of digamma */
static inline R N(polygamma)(R n, R x) {
    if (n == 0) return N(digamma)(x);
    if (!(n > 0) || n != M(floor)(n)) return NAN;
    if (n == 1) return N(trigamma)(x);
    R z = N(zeta)(n + 1, x), r = n < 170 ? M(tgamma)(n + 1) * z : z > 0 ? M(exp)(N(lgamma)(n + 1) + M(log)(z)) : z;
    return M(fmod)(n, 2) == 0 ? -r : r;
}
#undef TINY
#undef CLOSE
#undef HALF_LOG_2PI
#undef PI
