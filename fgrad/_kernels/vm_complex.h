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
enum { FG_C_BLOCK = 64 };
#if defined(__AVX2__) && !defined(__AVX512F__)
/* |z| as fg_hypot_f32, of eight numbers at once: parts are told apart within the halves of vectors, whose order is mended in the result alone. */
static inline int64_t fg_sizes_c64(int64_t n, float *d, const float *a) {
    const __m256i all = _mm256_set1_epi32(INT32_MAX), inf = _mm256_set1_epi32(0x7f800000), least = _mm256_set1_epi32(0x00800000), most = _mm256_set1_epi32(0x7e800000);
    for (int64_t i = 0; i < (n & -8); i += 8) {
        const __m256 z = _mm256_loadu_ps(a + 2 * i), w = _mm256_loadu_ps(a + 2 * i + 8);
        const __m256i x = _mm256_and_si256((__m256i)_mm256_shuffle_ps(z, w, 0x88), all), y = _mm256_and_si256((__m256i)_mm256_shuffle_ps(z, w, 0xdd), all);
        const __m256i e = _mm256_min_epi32(_mm256_max_epi32(_mm256_and_si256(_mm256_max_epi32(x, y), inf), least), most);
        const __m256 s = (__m256)_mm256_sub_epi32(_mm256_set1_epi32(0x7f000000), e), u = (__m256)x * s, v = (__m256)y * s;
        const __m256 size = _mm256_sqrt_ps(u * u + v * v) * (__m256)e;
        const __m256i ends = _mm256_or_si256(_mm256_cmpeq_epi32(x, inf), _mm256_cmpeq_epi32(y, inf));
        _mm256_storeu_ps(d + i, (__m256)_mm256_permute4x64_pd((__m256d)_mm256_blendv_ps(size, (__m256)inf, (__m256)ends), 0xd8));
    }
    return n & -8;
}
#else
static inline int64_t fg_sizes_c64(int64_t n, float *d, const float *a) { (void)n; (void)d; (void)a; return 0; }
#endif
#define C fg_c64
#define T float
#define K(name) name##_c64
#define V(name) vm_##name##_f32
#define M(name) name##f
#define H(x, y) fg_hypot_f32(x, y)
#define FIRST_SIZES(n, d, a) fg_sizes_c64(n, d, (const float *)(a))
#define FROM fg_from_c64
#define TO fg_to_c64
#define SAFE(a, b, m) 1
#define SAFE_SQUARE(m) 1
#include "vm_complex_body.h"
#define C fg_c128
#define T double
#define K(name) name##_c128
#define V(name) vm_##name##_f64
#define M(name) name
#define H(x, y) fg_hypot_f64(x, y)
#define FIRST_SIZES(n, d, a) 0
#define FROM fg_from_c128
#define TO fg_to_c128
#define SAFE_SQUARE(m) (((m) > 1e-280) & ((m) < 1e280))
#define SAFE(a, b, m) (((m) > 1e-150) & ((m) < 1e150) & (fabs(a) + fabs(b) > 1e-150) & (fabs(a) + fabs(b) < 1e150))
#include "vm_complex_body.h"

#define VM_COMPLEX(t, C, R, F, rt) \
    VM_C_PARTS(add, t, R, a[i] + b[i]) VM_C_PARTS(sub, t, R, a[i] - b[i]) VM_C_PARTS(neg, t, R, -a[i]) \
    VM_C_BIN(mul, t, C, r.re = x.re * y.re - x.im * y.im; r.im = x.re * y.im + x.im * y.re) \
    VM_C_UN(conj, t, C, r.re = x.re; r.im = -x.im) \
    VM_C_UN(square, t, C, r.re = (x.re - x.im) * (x.re + x.im); r.im = 2 * (x.re * x.im)) \
    VM_UN(real, t, C, R, x.re) VM_UN(imag, t, C, R, x.im) \
    VM_BIN(eq, t, C, uint8_t, (x.re == y.re) & (x.im == y.im)) VM_BIN(ne, t, C, uint8_t, (x.re != y.re) | (x.im != y.im)) \
    VM_UN(is_finite, t, C, uint8_t, (fabs##F(x.re) < INFINITY) & (fabs##F(x.im) < INFINITY)) \
    FG_SIG(select, t) { C *d = (C *)d_; const uint8_t *a = (const uint8_t *)a_; const C *b = (const C *)b_, *c = (const C *)c_; \
        for (int64_t i = 0; i < n; i++) { C y = b[i], z = c[i], r; r.re = a[i] ? y.re : z.re; r.im = a[i] ? y.im : z.im; d[i] = r; } } \
    FG_SIG(complex, rt) { C *d = (C *)d_; const R *a = (const R *)a_, *b = (const R *)b_; (void)c_; \
        FG_SIMD for (int64_t i = 0; i < n; i++) { d[i].re = a[i]; d[i].im = b[i]; } }

VM_COMPLEX(c64, fg_c64, float, f, f32)
VM_COMPLEX(c128, fg_c128, double, , f64)
#endif
