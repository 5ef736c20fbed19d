/* The quantile, from polynomials (or the tail's asymptotics) by Halley steps on the smaller of p and 1 - p. */
static inline R N(ndtri)(R p) {
    const R root = 0.707106781186547524400844362104849039L, density = 0.398942280401432677939946059934381868L;
    R q = p < 0.5 ? p : 1 - p, x, l = -M(log)(q);
    if (!(q > 0)) return q == 0 ? (p < 0.5 ? -INFINITY : INFINITY) : NAN;
    if (l < 34) x = fg_erf_inv_seed((double)(1 - 2 * q), (double)-M(log)(4 * q * (1 - q))) / root;
    else x = M(sqrt)(2 * l - M(log)(4 * FG_PI * l));
    for (int i = 0; i < (l < 34 ? 1 : 4); i++) {
        R e = q > 0.25 ? (0.5 - q) - 0.5 * M(erf)(x * root) : 0.5 * M(erfc)(x * root) - q;
        R u = e / (density * M(exp)(-0.5 * x * x));
        x += u / (1 - 0.5 * u * x);
    }
    return p < 0.5 ? -x : x;
}
