/* Complex functions of the VM on separate parts, FG_C_BLOCK numbers at a time in vectors. Included by vm_complex.h for each C of parts T:
 * K(name) is a name of the type's own, V(name) the VM's loop over its parts, M(name) libm's function of them, FIRST_SIZES |z| of the first numbers, of
 * which it returns how many.
 * What is not finite, or may have left the range on the way, goes through libm alone (`one`): it knows every corner (C99 Annex G). */

#define C_SIG(name) static void K(vm_##name)(int64_t n, void *d_, const void *a_, const void *b_, const void *c_)
#define C_PART_SIG(name) static void K(parts_##name)(int64_t w, T *re, T *im, const T *x, const T *y)
#define C_EACH FG_SIMD for (int64_t i = 0; i < w; i++)
#define C_FINITE(a, b) (M(fabs)(a) < INFINITY && M(fabs)(b) < INFINITY)
#define C_WIDTH const int64_t w = n - k < FG_C_BLOCK ? n - k : FG_C_BLOCK

static inline C K(c_of)(T re, T im) { C r = {re, im}; return r; }
/* d[i] = re[i] + i im[i]; 1 if one of them is not finite */
static int K(put)(int64_t w, C *d, const T *re, const T *im) {
    int odd = 0;
    for (int64_t i = 0; i < w; i++) odd |= !(M(fabs)(re[i]) < INFINITY) | !(M(fabs)(im[i]) < INFINITY);
    C_EACH { d[i].re = re[i]; d[i].im = im[i]; }
    return odd;
}
#define C_FUNCTION(name, one) C_SIG(name) { \
    C *d = (C *)d_; const C *a = (const C *)a_; T x[FG_C_BLOCK], y[FG_C_BLOCK], re[FG_C_BLOCK], im[FG_C_BLOCK]; (void)b_; (void)c_; \
    for (int64_t k = 0; k < n; k += FG_C_BLOCK, a += FG_C_BLOCK, d += FG_C_BLOCK) { \
        C_WIDTH; \
        C_EACH { x[i] = a[i].re; y[i] = a[i].im; } \
        K(parts_##name)(w, re, im, x, y); \
        if (K(put)(w, d, re, im)) for (int64_t i = 0; i < w; i++) if (!C_FINITE(re[i], im[i])) { const C z = {x[i], y[i]}; d[i] = one; } } }
#define C_LIBM(name, f) C_FUNCTION(name, FROM(M(f)(TO(z))))

/* (a + ib) / (c + ie): of complex64 in float64, of complex128 where squares stay within the range */
static inline C K(quotient)(C x, C y) { return FROM(TO(x) / TO(y)); }
static void K(divide)(int64_t n, C *d, const C *x, int64_t step, const C *y) {
    double a[FG_C_BLOCK], b[FG_C_BLOCK], c[FG_C_BLOCK], e[FG_C_BLOCK]; T re[FG_C_BLOCK], im[FG_C_BLOCK];
    for (int64_t k = 0; k < n; k += FG_C_BLOCK, x += step * FG_C_BLOCK, y += FG_C_BLOCK, d += FG_C_BLOCK) {
        C_WIDTH;
        if (step) C_EACH { a[i] = x[i].re; b[i] = x[i].im; } else C_EACH { a[i] = x->re; b[i] = x->im; }
        C_EACH { c[i] = y[i].re; e[i] = y[i].im; }
        C_EACH {
            const double m = c[i] * c[i] + e[i] * e[i], s = SAFE(a[i], b[i], m) ? 1 / m : NAN;
            re[i] = (T)((a[i] * c[i] + b[i] * e[i]) * s); im[i] = (T)((b[i] * c[i] - a[i] * e[i]) * s); }
        if (K(put)(w, d, re, im)) for (int64_t i = 0; i < w; i++) if (!C_FINITE(re[i], im[i]))
            d[i] = K(quotient)(K(c_of)((T)a[i], (T)b[i]), K(c_of)((T)c[i], (T)e[i])); }
}
C_SIG(div) { (void)c_; K(divide)(n, (C *)d_, (const C *)a_, 1, (const C *)b_); }
C_SIG(recip) { const C one = {1, 0}; (void)b_; (void)c_; K(divide)(n, (C *)d_, &one, 0, (const C *)a_); }

C_PART_SIG(exp) {
    T e[FG_C_BLOCK];
    V(exp)(w, e, x, x, x); V(cos)(w, re, y, y, y); V(sin)(w, im, y, y, y);
    C_EACH { re[i] *= e[i]; im[i] *= e[i]; }
}
C_LIBM(exp, cexp)

C_SIG(log) {
    C *d = (C *)d_; const C *a = (const C *)a_; T x[FG_C_BLOCK], y[FG_C_BLOCK], re[FG_C_BLOCK], im[FG_C_BLOCK]; (void)b_; (void)c_;
    for (int64_t k = 0; k < n; k += FG_C_BLOCK, a += FG_C_BLOCK, d += FG_C_BLOCK) {
        C_WIDTH;
        C_EACH { x[i] = a[i].re; y[i] = a[i].im; }
        V(log_hypot)(w, re, x, y, y); V(atan2)(w, im, y, x, x);
        C_EACH { d[i].re = re[i]; d[i].im = im[i]; } }
}

/* sinh and cosh of x, sine and cosine of y */
#define C_TURNS T sh[FG_C_BLOCK], ch[FG_C_BLOCK], s[FG_C_BLOCK], c[FG_C_BLOCK]; \
    V(sinh)(w, sh, x, x, x); V(cosh)(w, ch, x, x, x); V(sin)(w, s, y, y, y); V(cos)(w, c, y, y, y);
C_PART_SIG(sinh) { C_TURNS C_EACH { re[i] = sh[i] * c[i]; im[i] = ch[i] * s[i]; } }
C_PART_SIG(cosh) { C_TURNS C_EACH { re[i] = ch[i] * c[i]; im[i] = sh[i] * s[i]; } }
C_PART_SIG(tanh) { C_TURNS C_EACH { const T m = sh[i] * sh[i] + c[i] * c[i]; re[i] = sh[i] * ch[i] / m; im[i] = s[i] * c[i] / m; } }
/* f(z) = -i fh(iz) */
C_PART_SIG(sin) { T u[FG_C_BLOCK]; C_EACH u[i] = -y[i]; K(parts_sinh)(w, im, re, u, x); C_EACH im[i] = -im[i]; }
C_PART_SIG(tan) { T u[FG_C_BLOCK]; C_EACH u[i] = -y[i]; K(parts_tanh)(w, im, re, u, x); C_EACH im[i] = -im[i]; }
C_PART_SIG(cos) { T u[FG_C_BLOCK]; C_EACH u[i] = -y[i]; K(parts_cosh)(w, re, im, u, x); }
C_LIBM(sinh, csinh) C_LIBM(cosh, ccosh) C_LIBM(tanh, ctanh) C_LIBM(sin, csin) C_LIBM(cos, ccos) C_LIBM(tan, ctan)

/* e^a cos b - 1 = expm1(a) cos b - 2 sin^2(b/2) */
static C K(one_expm1)(C z) {
    const T s = M(sin)(z.im / 2), e = M(expm1)(z.re);
    return K(c_of)(e * M(cos)(z.im) - 2 * s * s, z.im == 0 ? z.im : (e + 1) * M(sin)(z.im));
}
C_PART_SIG(expm1) {
    T half[FG_C_BLOCK], e[FG_C_BLOCK], s[FG_C_BLOCK];
    C_EACH half[i] = y[i] / 2;
    V(sin)(w, s, half, half, half); V(expm1)(w, e, x, x, x); V(cos)(w, re, y, y, y); V(sin)(w, im, y, y, y);
    C_EACH { re[i] = e[i] * re[i] - 2 * s[i] * s[i]; im[i] = y[i] == 0 ? y[i] : (e[i] + 1) * im[i]; }
}
C_FUNCTION(expm1, K(one_expm1)(z))

/* |1 + z|^2 - 1 = a (2 + a) + b^2, of complex64 in float64 */
static C K(one_log1p)(C z) {
    const T u = z.re * (2 + z.re) + z.im * z.im;
    const int small = M(fabs)(z.re) < 0.5 && M(fabs)(z.im) < 0.5;
    return K(c_of)(small ? M(log1p)(u) / 2 : M(log)(M(hypot)(1 + z.re, z.im)), M(atan2)(z.im, 1 + z.re));
}
C_PART_SIG(log1p) {
    T u[FG_C_BLOCK], v[FG_C_BLOCK];
    C_EACH {
        const double a = x[i], b = y[i], square = b * b, size = (1 + a) * (1 + a) + square, more = a * (2 + a) + square;
        const int in = (size > 1e-30) & (size < 1e30), low = size < 0.5;
        v[i] = (T)(in ? low ? size : 1 : NAN); u[i] = (T)(low ? 0 : more); }
    V(log)(w, v, v, v, v); V(log1p)(w, u, u, u, u);
    C_EACH { re[i] = (u[i] + v[i]) / 2; v[i] = 1 + x[i]; }
    V(atan2)(w, im, y, v, v);
}
C_FUNCTION(log1p, K(one_log1p)(z))

/* the root of z, or its inverse: its conjugate over |z| */
static inline void K(root)(int64_t w, T *re, T *im, const T *x, const T *y, int inverse) {
    C_EACH {
        const double a = x[i], b = y[i], m = a * a + b * b, size = sqrt(SAFE_SQUARE(m) ? m : NAN);
        const double more = sqrt((fabs(a) + size) * 0.5), less = b / (2 * more), u = a >= 0 ? more : fabs(less), v = a >= 0 ? less : copysign(more, b);
        re[i] = (T)(inverse ? u / size : u); im[i] = (T)(inverse ? -v / size : v); }
}
C_PART_SIG(sqrt) { K(root)(w, re, im, x, y, 0); }
C_PART_SIG(rsqrt) { K(root)(w, re, im, x, y, 1); }
C_LIBM(sqrt, csqrt)
C_FUNCTION(rsqrt, K(quotient)(K(c_of)(1, 0), FROM(M(csqrt)(TO(z)))))

static C K(one_logistic)(C z) {
    const C e = FROM(M(cexp)(TO(K(c_of)(-z.re, -z.im))));
    return K(quotient)(K(c_of)(1, 0), K(c_of)(1 + e.re, e.im));
}
C_PART_SIG(logistic) {
    T u[FG_C_BLOCK], e[FG_C_BLOCK];
    C_EACH u[i] = -x[i];
    V(exp)(w, e, u, u, u); V(cos)(w, re, y, y, y); V(sin)(w, im, y, y, y);
    C_EACH {
        const double size = e[i], a = 1 + size * re[i], b = size * im[i], m = a * a + b * b, s = SAFE_SQUARE(m) ? 1 / m : NAN;
        re[i] = (T)(a * s); im[i] = (T)(b * s); }
}
C_FUNCTION(logistic, K(one_logistic)(z))

static C K(one_pow)(C x, C y) {
    if (y.re == 0 && y.im == 0) return K(c_of)(1, 0);
    if (x.re == 0 && x.im == 0) return y.re > 0 ? K(c_of)(0, 0) : K(c_of)(NAN, NAN);
    return FROM(M(cpow)(TO(x), TO(y)));
}
/* e^(y log x) */
C_SIG(pow) {
    C *d = (C *)d_; const C *a = (const C *)a_, *b = (const C *)b_; (void)c_;
    T x[FG_C_BLOCK], y[FG_C_BLOCK], p[FG_C_BLOCK], q[FG_C_BLOCK], u[FG_C_BLOCK], v[FG_C_BLOCK], re[FG_C_BLOCK], im[FG_C_BLOCK];
    for (int64_t k = 0; k < n; k += FG_C_BLOCK, a += FG_C_BLOCK, b += FG_C_BLOCK, d += FG_C_BLOCK) {
        C_WIDTH;
        C_EACH { x[i] = a[i].re; y[i] = a[i].im; p[i] = b[i].re; q[i] = b[i].im; }
        V(log_hypot)(w, u, x, y, y); V(atan2)(w, v, y, x, x);
        C_EACH { const T r = p[i] * u[i] - q[i] * v[i]; v[i] = p[i] * v[i] + q[i] * u[i]; u[i] = r; }
        K(parts_exp)(w, re, im, u, v);
        C_EACH re[i] = (x[i] == 0) & (y[i] == 0) ? NAN : re[i];
        if (K(put)(w, d, re, im)) for (int64_t i = 0; i < w; i++) if (!C_FINITE(re[i], im[i]))
            d[i] = K(one_pow)(K(c_of)(x[i], y[i]), K(c_of)(p[i], q[i])); }
}
C_SIG(sign) {
    C *d = (C *)d_; const C *a = (const C *)a_; (void)b_; (void)c_;
    FG_SIMD for (int64_t i = 0; i < n; i++) {
        const T x = a[i].re, y = a[i].im, m = H(x, y);
        d[i].re = m == 0 ? 0 : x / m; d[i].im = m == 0 ? 0 : y / m; }
}
C_SIG(abs) {     /* an infinite part wins over a NaN */
    T *d = (T *)d_; const C *a = (const C *)a_; const int64_t first = FIRST_SIZES(n, d, a); (void)b_; (void)c_;
    FG_SIMD for (int64_t i = first; i < n; i++) d[i] = H(a[i].re, a[i].im);
}
#undef C_SIG
#undef C_PART_SIG
#undef C_EACH
#undef C_FINITE
#undef C_WIDTH
#undef C_FUNCTION
#undef C_LIBM
#undef C_TURNS
#undef C
#undef T
#undef K
#undef V
#undef M
#undef H
#undef FIRST_SIZES
#undef FROM
#undef TO
#undef SAFE
#undef SAFE_SQUARE
