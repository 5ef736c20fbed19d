/* Complex arithmetic of the VM, written once over (R, suffix) for complex64 and complex128. */
#ifndef FG_VM_COMPLEX_H
#define FG_VM_COMPLEX_H
#include "vm_loops.h"

typedef struct { float re, im; } fg_c64;
typedef struct { double re, im; } fg_c128;

/* libm's complex functions handle every corner (C99 Annex G); they are used where a corner is likely */
#include <complex.h>
#undef complex    /* an opcode's name */
#undef I
static inline fg_c64 fg_from_c64(float _Complex z) { fg_c64 r = {crealf(z), cimagf(z)}; return r; }
static inline fg_c128 fg_from_c128(double _Complex z) { fg_c128 r = {creal(z), cimag(z)}; return r; }
static inline float _Complex fg_to_c64(fg_c64 z) { float _Complex r; memcpy(&r, &z, sizeof r); return r; }
static inline double _Complex fg_to_c128(fg_c128 z) { double _Complex r; memcpy(&r, &z, sizeof r); return r; }

#define VM_C_UN(name, t, C, ...) FG_SIG(name, t) { \
    C *d = (C *)d_; const C *a = (const C *)a_; (void)b_; (void)c_; \
    for (int64_t i = 0; i < n; i++) { C x = a[i], r; __VA_ARGS__; d[i] = r; } }
#define VM_C_BIN(name, t, C, ...) FG_SIG(name, t) { \
    C *d = (C *)d_; const C *a = (const C *)a_, *b = (const C *)b_; (void)c_; \
    for (int64_t i = 0; i < n; i++) { C x = a[i], y = b[i], r; __VA_ARGS__; d[i] = r; } }
/* what treats real and imaginary parts alike */
#define VM_C_PARTS(name, t, R, expr) FG_SIG(name, t) { \
    R *d = (R *)d_; const R *a = (const R *)a_, *b = (const R *)b_; (void)b; (void)c_; \
    FG_SIMD for (int64_t i = 0; i < 2 * n; i++) d[i] = expr; }
#define VM_C_LIBM(name, t, C, f, F) VM_C_UN(name, t, C, r = fg_from_##t(f##F(fg_to_##t(x))))

/* Quotients and exponentials, FG_C_BLOCK at a time on separate parts in vectors; libm's are taken where a result is not finite or a step
 * may leave the range: quotients of complex64 are computed in float64, those of complex128 if their squares are (SAFE). */
enum { FG_C_BLOCK = 64 };
#define FG_SAFE_c64(a, b, m) 1
#define FG_SAFE_c128(a, b, m) ((m) > 1e-150 && (m) < 1e150 && fabs(a) + fabs(b) > 1e-150 && fabs(a) + fabs(b) < 1e150)
#define VM_C_BLOCKS(t, C, R, F, rt) \
    static inline C fg_div_##t(C x, C y) { return fg_from_##t(fg_to_##t(x) / fg_to_##t(y)); } \
    static void fg_divide_##t(int64_t n, C *d, const C *x, int64_t step, const C *y) { \
        double a[FG_C_BLOCK], b[FG_C_BLOCK], c[FG_C_BLOCK], e[FG_C_BLOCK]; R re[FG_C_BLOCK], im[FG_C_BLOCK]; \
        for (int64_t k = 0; k < n; k += FG_C_BLOCK, x += step * FG_C_BLOCK, y += FG_C_BLOCK, d += FG_C_BLOCK) { \
            int64_t w = n - k < FG_C_BLOCK ? n - k : FG_C_BLOCK; \
            FG_SIMD for (int64_t i = 0; i < w; i++) { a[i] = x[i * step].re; b[i] = x[i * step].im; c[i] = y[i].re; e[i] = y[i].im; } \
            FG_SIMD for (int64_t i = 0; i < w; i++) { \
                double m = c[i] * c[i] + e[i] * e[i], s = FG_SAFE_##t(a[i], b[i], m) ? 1 / m : NAN; \
                re[i] = (R)((a[i] * c[i] + b[i] * e[i]) * s); im[i] = (R)((b[i] * c[i] - a[i] * e[i]) * s); } \
            for (int64_t i = 0; i < w; i++) { \
                C r = {re[i], im[i]}, p = {(R)a[i], (R)b[i]}, q = {(R)c[i], (R)e[i]}; \
                d[i] = fabs##F(r.re) < INFINITY && fabs##F(r.im) < INFINITY ? r : fg_div_##t(p, q); } } } \
    FG_SIG(div, t) { (void)c_; fg_divide_##t(n, (C *)d_, (const C *)a_, 1, (const C *)b_); } \
    FG_SIG(recip, t) { const C one = {1, 0}; (void)b_; (void)c_; fg_divide_##t(n, (C *)d_, &one, 0, (const C *)a_); } \
    FG_SIG(exp, t) { \
        C *d = (C *)d_; const C *x = (const C *)a_; R re[FG_C_BLOCK], im[FG_C_BLOCK], e[FG_C_BLOCK], s[FG_C_BLOCK], c[FG_C_BLOCK]; (void)b_; (void)c_; \
        for (int64_t k = 0; k < n; k += FG_C_BLOCK, x += FG_C_BLOCK, d += FG_C_BLOCK) { \
            int64_t w = n - k < FG_C_BLOCK ? n - k : FG_C_BLOCK; \
            FG_SIMD for (int64_t i = 0; i < w; i++) { re[i] = x[i].re; im[i] = x[i].im; } \
            vm_exp_##rt(w, e, re, re, re); vm_sin_##rt(w, s, im, im, im); vm_cos_##rt(w, c, im, im, im); \
            for (int64_t i = 0; i < w; i++) { \
                C r = {e[i] * c[i], e[i] * s[i]}, z = {re[i], im[i]}; \
                d[i] = fabs##F(r.re) < INFINITY && fabs##F(r.im) < INFINITY ? r : fg_from_##t(cexp##F(fg_to_##t(z))); } } }

#define VM_COMPLEX(t, C, R, F, rt) \
    VM_C_BLOCKS(t, C, R, F, rt) \
    VM_C_PARTS(add, t, R, a[i] + b[i]) VM_C_PARTS(sub, t, R, a[i] - b[i]) VM_C_PARTS(neg, t, R, -a[i]) \
    VM_C_BIN(mul, t, C, r.re = x.re * y.re - x.im * y.im; r.im = x.re * y.im + x.im * y.re) \
    VM_C_UN(conj, t, C, r.re = x.re; r.im = -x.im) \
    VM_C_UN(square, t, C, r.re = (x.re - x.im) * (x.re + x.im); r.im = 2 * (x.re * x.im)) \
    VM_C_UN(sign, t, C, R m = hypot##F(x.re, x.im); r.re = m == 0 ? 0 : x.re / m; r.im = m == 0 ? 0 : x.im / m) \
    VM_C_LIBM(log, t, C, clog, F) VM_C_LIBM(sin, t, C, csin, F) \
    VM_C_LIBM(cos, t, C, ccos, F) VM_C_LIBM(tan, t, C, ctan, F) VM_C_LIBM(sinh, t, C, csinh, F) VM_C_LIBM(cosh, t, C, ccosh, F) \
    VM_C_LIBM(tanh, t, C, ctanh, F) \
    VM_C_UN(rsqrt, t, C, C one; one.re = 1; one.im = 0; r = fg_div_##t(one, fg_from_##t(csqrt##F(fg_to_##t(x))))) \
    VM_C_UN(expm1, t, C, /* e^a cos b - 1 = expm1(a) cos b - 2 sin^2(b/2) */ \
        R s = sin##F(x.im / 2), e = expm1##F(x.re); r.re = e * cos##F(x.im) - 2 * s * s; r.im = x.im == 0 ? x.im : (e + 1) * sin##F(x.im)) \
    VM_C_UN(log1p, t, C, /* |1+z|^2 - 1 = a (2 + a) + b^2 */ \
        R u = x.re * (2 + x.re) + x.im * x.im; \
        r.re = fabs##F(x.re) < 0.5 && fabs##F(x.im) < 0.5 ? log1p##F(u) / 2 : log##F(hypot##F(1 + x.re, x.im)); \
        r.im = atan2##F(x.im, 1 + x.re)) \
    VM_C_UN(logistic, t, C, C e, one; e.re = 1; e.im = 0; one = e; C m; m.re = -x.re; m.im = -x.im; \
        m = fg_from_##t(cexp##F(fg_to_##t(m))); e.re += m.re; e.im = m.im; r = fg_div_##t(one, e)) \
    VM_C_BIN(pow, t, C, \
        if (y.re == 0 && y.im == 0) { r.re = 1; r.im = 0; } \
        else if (x.re == 0 && x.im == 0) { r.re = y.re > 0 ? 0 : NAN; r.im = y.re > 0 ? 0 : NAN; } \
        else r = fg_from_##t(cpow##F(fg_to_##t(x), fg_to_##t(y)))) \
    VM_UN(real, t, C, R, x.re) VM_UN(imag, t, C, R, x.im) \
    VM_BIN(eq, t, C, uint8_t, (x.re == y.re) & (x.im == y.im)) VM_BIN(ne, t, C, uint8_t, (x.re != y.re) | (x.im != y.im)) \
    FG_SIG(select, t) { C *d = (C *)d_; const uint8_t *a = (const uint8_t *)a_; const C *b = (const C *)b_, *c = (const C *)c_; \
        for (int64_t i = 0; i < n; i++) { C y = b[i], z = c[i], r; r.re = a[i] ? y.re : z.re; r.im = a[i] ? y.im : z.im; d[i] = r; } } \
    FG_SIG(complex, rt) { C *d = (C *)d_; const R *a = (const R *)a_, *b = (const R *)b_; (void)c_; \
        for (int64_t i = 0; i < n; i++) { C r; r.re = a[i]; r.im = b[i]; d[i] = r; } }

/* |z|: an infinite part wins over a NaN */
VM_UN(abs, c64, fg_c64, float, fg_hypot_f32(x.re, x.im))
VM_UN(abs, c128, fg_c128, double, hypot(x.re, x.im))
VM_COMPLEX(c64, fg_c64, float, f, f32)
VM_COMPLEX(c128, fg_c128, double, , f64)
/* Of complex64 in float64, whose squares stay within its range; libm's at 0, infinities and NaN. */
FG_SIG(sqrt, c64) {
    fg_c64 *d = (fg_c64 *)d_; const fg_c64 *x = (const fg_c64 *)a_; float re[FG_C_BLOCK], im[FG_C_BLOCK]; (void)b_; (void)c_;
    for (int64_t k = 0; k < n; k += FG_C_BLOCK, x += FG_C_BLOCK, d += FG_C_BLOCK) {
        const int64_t w = n - k < FG_C_BLOCK ? n - k : FG_C_BLOCK; int odd = 0;
        _Pragma("omp simd reduction(|:odd)") for (int64_t i = 0; i < w; i++) {
            const double a = x[i].re, b = x[i].im, size = sqrt(a * a + b * b), more = sqrt((fabs(a) + size) * 0.5), less = b / (2 * more);
            odd |= !(size > 0) | !(size < INFINITY);
            re[i] = (float)(a >= 0 ? more : fabs(less)); im[i] = (float)(a >= 0 ? less : copysign(more, b)); }
        for (int64_t i = 0; i < w; i++) {
            const fg_c64 r = {re[i], im[i]}, z = x[i];
            d[i] = odd && !(fabsf(z.re) + fabsf(z.im) > 0 && fabsf(z.re) < INFINITY && fabsf(z.im) < INFINITY) ? fg_from_c64(csqrtf(fg_to_c64(z))) : r; } }
}
VM_C_LIBM(sqrt, c128, fg_c128, csqrt, )
#endif
