/* The VM's loops over real types: one static function per (opcode, type), each a plain loop the compiler vectorises.
 * `omp simd` also tells it that an output that is exactly one of the operands carries no dependence. */
#ifndef FG_VM_LOOPS_H
#define FG_VM_LOOPS_H
#include "scalar_math.h"
#include "vec_special.h"
#include "vec_inverse.h"
#include "vec_log.h"
#include "vec_quotient.h"
#ifdef __AVX512F__
#include "vec_erf_f64.h"
#include "vec_power.h"
#include "vec_trig.h"
#include "vec_sample.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "vec_erf_rows.h"
#include "vec_sample_rows.h"
#endif
#include "scalar_sample.h"
#include "upper.h"
#include "scalar_gamma.h"
#include "scalar_special.h"
#include "special_f64.h"
#include "vec_gamma.h"
#include "vm_ops.h"
#include "mask_bytes.h"
#include "vec_part.h"
/* GCC prefers half of the widest vectors; functions of numbers are faster in whole ones. Nor does it order instructions by what they wait for before it
 * gives out registers, without which a core's window holds too little of the long chains that functions of numbers are. */
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC target("prefer-vector-width=512")
#pragma GCC optimize("schedule-insns", "sched-pressure")
#endif

#define FG_SIMD _Pragma("omp simd")
#define FG_SIG(name, t) static void vm_##name##_##t(int64_t n, void *d_, const void *a_, const void *b_, const void *c_)

#define VM_UN(name, t, T, R, expr) FG_SIG(name, t) { \
    R *d = (R *)d_; const T *a = (const T *)a_; (void)b_; (void)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (R)(expr); } }
#define VM_BIN(name, t, T, R, expr) FG_SIG(name, t) { \
    R *d = (R *)d_; const T *a = (const T *)a_, *b = (const T *)b_; (void)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i], y = b[i]; d[i] = (R)(expr); } }
/* a binary loop with one more, where the first operand is one value for the whole tile, or with two, where that or the second is */
#define VM_BIN_FIRST(name, t, T, R, expr) VM_BIN(name, t, T, R, expr) \
    FG_SIG(name##_first, t) { \
        R *d = (R *)d_; const T *b = (const T *)b_, x = *(const T *)a_; (void)c_; \
        FG_SIMD for (int64_t i = 0; i < n; i++) { T y = b[i]; d[i] = (R)(expr); } }
#define VM_BIN_SCALAR(name, t, T, R, expr) VM_BIN_FIRST(name, t, T, R, expr) VM_BIN_SECOND(name, t, T, R, expr)
#define VM_BIN_SECOND(name, t, T, R, expr) \
    FG_SIG(name##_second, t) { \
        R *d = (R *)d_; const T *a = (const T *)a_, y = *(const T *)b_; (void)c_; \
        FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (R)(expr); } }
#define VM_TERN(name, t, T, expr) FG_SIG(name, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_, *c = (const T *)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i], y = b[i], z = c[i]; d[i] = (T)(expr); } }
#define VM_SELECT(t, T) FG_SIG(select, t) { \
    T *d = (T *)d_; const uint8_t *a = (const uint8_t *)a_; const T *b = (const T *)b_, *c = (const T *)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { T y = b[i], z = c[i]; d[i] = a[i] ? y : z; } }
/* scalar loops: libm calls, which may begin with instructions without AVX, or integer division inside */
#define VM_UN_SLOW(name, t, T, expr) FG_SIG(name, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_; (void)b_; (void)c_; fg_clear_upper(); \
    for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = (T)(expr); } }
#define VM_BIN_SLOW(name, t, T, expr) FG_SIG(name, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_; (void)c_; fg_clear_upper(); \
    for (int64_t i = 0; i < n; i++) { T x = a[i], y = b[i]; d[i] = (T)(expr); } }
#define VM_TERN_SLOW(name, t, T, expr) FG_SIG(name, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_, *c = (const T *)c_; fg_clear_upper(); \
    for (int64_t i = 0; i < n; i++) { T x = a[i], y = b[i], z = c[i]; d[i] = (T)(expr); } }

/* Comparisons, which give bytes. Of 32-bit numbers four vectors' masks are one vector of those, with AVX2: compilers take three times as many instructions. */
#define VM_IS_PLAIN(name, t, T, expr) VM_BIN_SCALAR(name, t, T, uint8_t, expr)
#if FG_MASK_PACKS && defined(__AVX2__)
#define VM_IS_PACKED(name, t, T, expr) \
    VM_IS_LOOP(name, t, T, expr, , , (*(const U *)(a + i + k * L)), (*(const U *)(b + i + k * L)), a[i], b[i]) \
    VM_IS_LOOP(name##_first, t, T, expr, const T u = *a; const V w = u - (V){0}; , , w, (*(const U *)(b + i + k * L)), u, b[i]) \
    VM_IS_LOOP(name##_second, t, T, expr, , const T u = *b; const V w = u - (V){0}; , (*(const U *)(a + i + k * L)), w, a[i], u)
#define VM_IS_LOOP(name, t, T, expr, FIRST, SECOND, X, Y, ONE_X, ONE_Y) FG_SIG(name, t) { \
    typedef T V __attribute__((vector_size(32))); \
    typedef V U __attribute__((aligned(sizeof(T)), may_alias)); \
    enum { L = 8 }; \
    uint8_t *d = (uint8_t *)d_; const T *a = (const T *)a_, *b = (const T *)b_; (void)c_; \
    FIRST SECOND \
    const int64_t whole = n / (4 * L) * (4 * L); \
    for (int64_t i = 0; i < whole; i += 4 * L) { \
        __m256i m[4]; \
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) { V x = X, y = Y; m[k] = (__m256i)(expr); } \
        _mm256_storeu_si256((__m256i *)(d + i), fg_four_masks_bytes(m[0], m[1], m[2], m[3])); \
    } \
    FG_SIMD for (int64_t i = whole; i < n; i++) { T x = ONE_X, y = ONE_Y; d[i] = (uint8_t)(expr); } }
#else
#define VM_IS_PACKED VM_IS_PLAIN
#endif
#define VM_IS_u8 VM_IS_PLAIN
#define VM_IS_i8 VM_IS_PLAIN
#define VM_IS_u16 VM_IS_PLAIN
#define VM_IS_i16 VM_IS_PLAIN
#define VM_IS_u32 VM_IS_PACKED
#define VM_IS_i32 VM_IS_PACKED
#define VM_IS_f32 VM_IS_PACKED
#define VM_IS_u64 VM_IS_PLAIN
#define VM_IS_i64 VM_IS_PLAIN
#define VM_IS_f64 VM_IS_PLAIN
#define VM_EQUAL(t, T) VM_IS_##t(eq, t, T, x == y) VM_IS_##t(ne, t, T, x != y)
#define VM_COMPARE(t, T) VM_IS_##t(lt, t, T, x < y) VM_IS_##t(le, t, T, x <= y) VM_IS_##t(gt, t, T, x > y) VM_IS_##t(ge, t, T, x >= y)

/* The first n numbers of a vector that memory has no more of, and back: one goes by way of a register, since a vector would wait for the store
 * that has just made it. */
FG_INLINE vec_f32 vm_part_f32(const float *p, int64_t n) {
#ifdef FG_PART_BYTES
    return n == 1 ? (vec_f32)_mm256_zextps128_ps256(_mm_load_ss(p)) : (vec_f32)fg_load_bytes(p, 4 * (int)n);
#else
    vec_f32 x = {0};
    if (n == 1) { x[0] = *p; return x; }
#ifdef __AVX512F__
    return (vec_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    memcpy(&x, p, n * 4);
    return x;
#endif
#endif
}
FG_INLINE void vm_put_part_f32(float *p, vec_f32 x, int64_t n) {
    if (n == 1) { *p = x[0]; return; }
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)x);
#elif defined(FG_PART_BYTES)
    fg_store_bytes(p, 4 * (int)n, (__m256)x);
#else
    memcpy(p, &x, n * 4);
#endif
}

#include "vm_loops_int.h"

/* Floats.  F is the libm suffix.  max and min: the first operand if it is NaN, else the comparison lets the second's NaN through. */
#define FG_MAX(x, y) (x != x ? x : x > y ? x : y)
#define FG_MIN(x, y) (x != x ? x : x < y ? x : y)
/* fmax and fmin: of a number and NaN the number */
#define FG_FMAX(x, y) (y != y ? x : x > y ? x : y)
#define FG_FMIN(x, y) (y != y ? x : x < y ? x : y)
/* sin, cos, tan: where arguments are beyond the fast range reduction (or inf, NaN), both reductions are computed, if the machine gathers the bits
 * of 2/pi; else libm is asked, number by number. One number, as loops over single ones have it, is not worth a frame. */
#define VM_TRIG(name, t, T, F, MAX) \
    static __attribute__((noinline)) void vm_##name##_each_##t(int64_t n, void *d_, const void *a_, const void *b_, const void *c_) { \
        T *d = (T *)d_; const T *a = (const T *)a_; int far = 0; \
        for (int64_t i = 0; i < n; i++) far |= !(fabs##F(a[i]) <= MAX); \
        if (far) { VM_TRIG_FAR(name, t, T, F, MAX) } \
        else vm_##name##_near_##t(n, d_, a_, b_, c_); } \
    FG_SIG(name, t) { \
        if (n == 1) { const T x = *(const T *)a_; if (fabs##F(x) <= MAX) { *(T *)d_ = fg_##name##_##t(x); return; } } \
        vm_##name##_each_##t(n, d_, a_, b_, c_); }
#ifdef __AVX2__
#define VM_TRIG_FAR(name, t, T, F, MAX) T u[64]; for (int64_t k = 0; k < n; k += 64) { \
    const int64_t m = n - k < 64 ? n - k : 64; \
    vm_##name##_near_##t(m, u, a + k, 0, 0); \
    FG_SIMD for (int64_t i = 0; i < m; i++) { T x = a[k + i], y = fg_##name##_far_##t(x); d[k + i] = fabs##F(x) <= MAX ? u[i] : y; } }
#else
#define VM_TRIG_FAR(name, t, T, F, MAX) for (int64_t i = 0; i < n; i++) { \
    T x = a[i]; d[i] = fabs##F(x) <= MAX ? fg_##name##_##t(x) : name##F(x); }
#endif
/* a function of whole vectors, four at a time, whose instructions take turns; the last one is filled up */
#define VM_VEC_F32_OF(name, f) FG_SIG(name, f32) { \
    enum { L = FG_VEC / 4 }; \
    float *d = (float *)d_; const float *a = (const float *)a_; int64_t i = 0; (void)b_; (void)c_; \
    for (; i + 4 * L <= n; i += 4 * L) { \
        vec_f32 x, y, z, w; memcpy(&x, a + i, FG_VEC); memcpy(&y, a + i + L, FG_VEC); memcpy(&z, a + i + 2 * L, FG_VEC); memcpy(&w, a + i + 3 * L, FG_VEC); \
        x = f(x); y = f(y); z = f(z); w = f(w); \
        memcpy(d + i, &x, FG_VEC); memcpy(d + i + L, &y, FG_VEC); memcpy(d + i + 2 * L, &z, FG_VEC); memcpy(d + i + 3 * L, &w, FG_VEC); } \
    for (; i + L <= n; i += L) { \
        vec_f32 x; memcpy(&x, a + i, FG_VEC); x = f(x); memcpy(d + i, &x, FG_VEC); } \
    if (i < n) vm_put_part_f32(d + i, f(vm_part_f32(a + i, n - i)), n - i); }
#define VM_VEC_F32(name) VM_VEC_F32_OF(name, vec_##name##_f32)
#define VM_VEC_F64_OF(name, f) FG_SIG(name, f64) { \
    enum { L = FG_VEC / 8 }; \
    double *d = (double *)d_; const double *a = (const double *)a_; int64_t i = 0; (void)b_; (void)c_; \
    for (; i + 4 * L <= n; i += 4 * L) { \
        vec_f64 x, y, z, w; memcpy(&x, a + i, FG_VEC); memcpy(&y, a + i + L, FG_VEC); memcpy(&z, a + i + 2 * L, FG_VEC); memcpy(&w, a + i + 3 * L, FG_VEC); \
        x = f(x); y = f(y); z = f(z); w = f(w); \
        memcpy(d + i, &x, FG_VEC); memcpy(d + i + L, &y, FG_VEC); memcpy(d + i + 2 * L, &z, FG_VEC); memcpy(d + i + 3 * L, &w, FG_VEC); } \
    for (; i + L <= n; i += L) { \
        vec_f64 x; memcpy(&x, a + i, FG_VEC); x = f(x); memcpy(d + i, &x, FG_VEC); } \
    if (i + 1 == n) { vec_f64 x = {a[i]}; d[i] = f(x)[0]; }                      /* as vm_part_f32 */ \
    else if (i < n) vec_store_part_f64(d + i, (int)(n - i), f(vec_load_part_f64(a + i, (int)(n - i)))); }
#ifdef __AVX512F__
#define VM_VEC_F64(name) VM_VEC_F64_OF(name, vec_##name##_f64)
#define VM_VEC2_F64(name) FG_SIG(name, f64) { \
    enum { L = FG_VEC / 8 }; \
    double *d = (double *)d_; const double *a = (const double *)a_, *b = (const double *)b_; int64_t i = 0; (void)c_; \
    for (; i + 2 * L <= n; i += 2 * L) { \
        vec_f64 x, y, z, w; memcpy(&x, a + i, FG_VEC); memcpy(&y, b + i, FG_VEC); memcpy(&z, a + i + L, FG_VEC); memcpy(&w, b + i + L, FG_VEC); \
        x = vec_##name##_f64(x, y); z = vec_##name##_f64(z, w); \
        memcpy(d + i, &x, FG_VEC); memcpy(d + i + L, &z, FG_VEC); } \
    for (; i + 1 < n; i += L) { \
        const int m = n - i < L ? (int)(n - i) : L; \
        vec_store_part_f64(d + i, m, vec_##name##_f64(vec_load_part_f64(a + i, m), vec_load_part_f64(b + i, m))); } \
    if (i + 1 == n) { vec_f64 x = {a[i]}, y = {b[i]}; d[i] = vec_##name##_f64(x, y)[0]; } }
#else
#define VM_VEC_F64(name) VM_UN(name, f64, double, double, fg_##name##_f64(x))
#endif
/* what has vectors with AVX2 as well (vec_erf_rows.h) */
#ifdef FG_VEC_ERF_ROWS_H
#define VM_CELLS_F64(name) VM_VEC_F64_OF(name, vec_##name##_f64)
#else
#define VM_CELLS_F64(name) VM_VEC_F64(name)
#endif
/* A function of x in two steps, whose result may take y as well, which lies at `other`. Each step goes over a block of its own: of one long chain
 * of instructions that wait for each other a core's window holds few vectors. */
#define VM_VEC_STEPS_F32(name, other, begin, result) FG_SIG(name, f32) { \
    enum { L = FG_VEC / 4, N = 8 }; \
    float *d = (float *)d_; const float *a = (const float *)a_, *o = (const float *)other; int64_t i = 0; vec_f32 x, y, e, step[N]; (void)b_; (void)c_; \
    for (; i + N * L <= n; i += N * L) { \
        for (int j = 0; j < N; j++) { memcpy(&x, a + i + j * L, FG_VEC); step[j] = begin(x); } \
        for (int j = 0; j < N; j++) { \
            memcpy(&x, a + i + j * L, FG_VEC); memcpy(&y, o + i + j * L, FG_VEC); e = step[j]; x = result; memcpy(d + i + j * L, &x, FG_VEC); } \
    } \
    for (; i + L <= n; i += L) { \
        memcpy(&x, a + i, FG_VEC); memcpy(&y, o + i, FG_VEC); e = begin(x); x = result; memcpy(d + i, &x, FG_VEC); } \
    if (i < n) { x = vm_part_f32(a + i, n - i); y = vm_part_f32(o + i, n - i); e = begin(x); vm_put_part_f32(d + i, result, n - i); } \
    (void)y; }
#define VM_VEC2_F32(name, f) FG_SIG(name, f32) { \
    enum { L = FG_VEC / 4 }; \
    float *d = (float *)d_; const float *a = (const float *)a_, *b = (const float *)b_; (void)c_; \
    for (int64_t i = 0; i < n; i += L) { \
        vec_f32 x, y; \
        if (n - i >= L) { memcpy(&x, a + i, FG_VEC); memcpy(&y, b + i, FG_VEC); x = f(x, y); memcpy(d + i, &x, FG_VEC); } \
        else vm_put_part_f32(d + i, f(vm_part_f32(a + i, n - i), vm_part_f32(b + i, n - i)), n - i); } }
#define VM_MATH1(name, t, T) VM_UN(name, t, T, T, fg_##name##_##t(x))
#define VM_NEAR1(name, t, T) VM_UN(name##_near, t, T, T, fg_##name##_##t(x))
#define VM_FLOAT(t, T, F, MAX) \
    VM_BIN_SCALAR(add, t, T, T, x + y) VM_BIN_SCALAR(sub, t, T, T, x - y) \
    VM_BIN_SCALAR(mul, t, T, T, x * y) VM_BIN_SCALAR(div, t, T, T, x / y) \
    VM_UN(neg, t, T, T, -x) VM_UN(abs, t, T, T, fabs##F(x)) VM_UN(sign, t, T, T, x > 0 ? 1 : x < 0 ? -1 : x + x) \
    VM_UN(floor, t, T, T, floor##F(x)) VM_UN(ceil, t, T, T, ceil##F(x)) VM_UN(trunc, t, T, T, trunc##F(x)) \
    VM_UN(round_even, t, T, T, rint##F(x)) VM_UN(round_away, t, T, T, copysign##F(fg_round_away_##t(fabs##F(x)), x)) \
    VM_UN(sqrt, t, T, T, sqrt##F(x)) VM_UN(square, t, T, T, x * x) VM_UN(recip, t, T, T, 1 / x) \
    VM_NEAR1(sin, t, T) VM_NEAR1(cos, t, T) VM_TRIG(sin, t, T, F, MAX) VM_TRIG(cos, t, T, F, MAX) VM_TRIG(tan, t, T, F, MAX) \
    VM_BIN_SCALAR(max, t, T, T, FG_MAX(x, y)) VM_BIN_SCALAR(min, t, T, T, FG_MIN(x, y)) \
    VM_BIN(fmax, t, T, T, FG_FMAX(x, y)) VM_BIN(fmin, t, T, T, FG_FMIN(x, y)) \
    VM_BIN_SCALAR(lt, t, T, uint8_t, x < y) VM_BIN_SCALAR(le, t, T, uint8_t, x <= y) \
    VM_BIN_SCALAR(gt, t, T, uint8_t, x > y) VM_BIN_SCALAR(ge, t, T, uint8_t, x >= y) \
    VM_EQUAL(t, T) VM_SELECT(t, T) \
    VM_UN(is_finite, t, T, uint8_t, fabs##F(x) < INFINITY) \
    VM_BIN(nextafter, t, T, T, fg_nextafter_##t(x, y)) VM_TERN(fma, t, T, fg_fma_##t(x, y, z)) VM_FLOAT_CLAMP(t, T)
/* NaN in any operand gives NaN: lo + hi is NaN if one of them is, or if they are opposite infinities */
#define VM_FLOAT_CLAMP(t, T) FG_SIG(clamp, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_, *c = (const T *)c_; \
    FG_SIMD for (int64_t i = 0; i < n; i++) { T lo = a[i], x = b[i], hi = c[i]; \
        T m = x < lo ? lo : x, w = m > hi ? hi : m, s = lo + hi; d[i] = s != s && lo != -hi ? s : w; } }

/* half away from zero for x >= 0: trunc(x), one more if the exact remainder is at least a half */
static inline float fg_round_away_f32(float x) { float w = truncf(x); return x - w >= 0.5f ? w + 1 : w; }
static inline double fg_round_away_f64(double x) { double w = trunc(x); return x - w >= 0.5 ? w + 1 : w; }

/* One step in the order of the bits, turned for negative numbers so that it is that of integers; numbers are compared as such, denormal ones
 * too. A zero first takes the sign of y, behind which the smallest number follows. */
#define VM_NEXTAFTER(t, T, S, BITS, FROM) static inline T fg_nextafter_##t(T x, T y) { \
    const S most = (S)(((uint64_t)1 << (sizeof(S) * 8 - 1)) - 1), end = sizeof(S) * 8 - 1, b = (S)BITS(y), given = (S)BITS(x); \
    const S a = (given & most) == 0 ? b & ~most : given, from = a ^ ((a >> end) & most), to = b ^ ((b >> end) & most); \
    const S r = from + (from < to ? 1 : from > to ? -1 : 0); \
    return x != x || y != y ? x + y : FROM(r ^ ((r >> end) & most)); }
VM_NEXTAFTER(f32, float, int32_t, fg_bits32, fg_float)
VM_NEXTAFTER(f64, double, int64_t, fg_bits64, fg_double)
#ifdef __AVX512F__
VM_VEC_F32_OF(tan_near, vec_tan_f32) VM_VEC_F64_OF(tan_near, vec_tan_f64)
#else
VM_NEAR1(tan, f32, float) VM_NEAR1(tan, f64, double)
#endif
VM_FLOAT(f32, float, f, FG_TRIG_MAX_F32)
VM_FLOAT(f64, double, , FG_TRIG_MAX_F64)
VM_VEC_F32(logistic_of_exp)
#ifdef FG_VEC_BLOCKS_H
#include "vm_blocks.h"
#else
VM_VEC_F32(exp) VM_VEC_F32(tanh) VM_VEC_F32(log) VM_VEC_F32(log1p) VM_VEC_F32(erfc) VM_VEC_F32(ndtr)
VM_VEC_F32(logit) VM_VEC_F32(gelu_exact) VM_VEC_F32(gelu_exact_slope)
VM_VEC_STEPS_F32(logistic, a_, vec_logistic_begin_f32, vec_logistic_end_f32(x, e))
VM_VEC_STEPS_F32(logistic_times, b_, vec_logistic_begin_f32, y * vec_logistic_end_f32(x, e))
VM_VEC_STEPS_F32(gelu, a_, vec_gelu_begin_f32, vec_gelu_end_f32(x, e))
VM_VEC_STEPS_F32(gelu_slope, a_, vec_gelu_slope_begin_f32, vec_gelu_slope_end_f32(x, e))
VM_MATH1(expm1, f32, float) VM_MATH1(expm1, f64, double)
VM_VEC_F64(exp) VM_VEC_F64(logistic) VM_MATH1(tanh, f64, double) VM_VEC_F64(log) VM_VEC_F64(log1p) VM_VEC_F64(gelu) VM_VEC_F64(gelu_slope)
#endif
VM_UN(rsqrt, f64, double, double, 1 / sqrt(x))
#ifdef __AVX512F__
VM_VEC_F32(rsqrt)
#else
VM_UN(rsqrt, f32, float, float, 1 / sqrtf(x))
#endif
VM_VEC_F64(sinh) VM_VEC_F64(cosh)
#ifdef __AVX512F__
VM_VEC_F32(sinh) VM_VEC_F32(cosh)
#else
VM_MATH1(sinh, f32, float) VM_MATH1(cosh, f32, float)
#endif
VM_MATH1(sample_log, f32, float) VM_MATH1(sample_log1p, f32, float) VM_MATH1(sample_erf, f32, float) VM_MATH1(sample_erf_inv, f32, float)
#ifdef FG_VEC_SAMPLE_H
VM_VEC_F64(sample_log) VM_VEC_F64(sample_log1p) VM_VEC_F64(sample_erf_inv)
#else
VM_UN_SLOW(sample_log, f64, double, fg_sample_log_f64(x)) VM_UN_SLOW(sample_log1p, f64, double, fg_sample_log1p_f64(x))
#ifdef FG_VEC_SAMPLE_ROWS_H
FG_SIG(sample_erf_inv, f64) { (void)b_; (void)c_; fg_sample_erf_inv_rows((const double *)a_, (double *)d_, n); }
#else
VM_UN_SLOW(sample_erf_inv, f64, double, fg_sample_erf_inv_f64(x))
#endif
#endif
VM_UN_SLOW(sample_erf, f64, double, fg_sample_erf_f64(x))
#define VM_SPECIAL(t, T) \
    VM_BIN_SLOW(beta, t, T, fg_beta_##t(x, y)) \
    VM_BIN_SLOW(igamma_grad_a, t, T, fg_igamma_grad_a_##t(x, y)) VM_BIN_SLOW(random_gamma_grad, t, T, fg_random_gamma_grad_##t(x, y))
VM_SPECIAL(f32, float)
VM_SPECIAL(f64, double)
VM_MATH1(bessel_i0e, f64, double) VM_MATH1(bessel_i1e, f64, double) VM_MATH1(log_ndtr, f64, double)
VM_BIN_SLOW(betaln, f64, double, fg_betaln_f64(x, y)) VM_BIN_SLOW(igamma, f64, double, fg_igamma_f64(x, y))
VM_BIN_SLOW(igammac, f64, double, fg_igammac_f64(x, y)) VM_TERN_SLOW(betainc, f64, double, fg_betainc_f64(x, y, z))
VM_MATH1(cbrt, f64, double) VM_VEC_F64(asinh) VM_VEC_F64(acosh) VM_VEC_F64(atanh)
VM_BIN(atan2, f32, float, float, fg_atan2_f32(x, y))
#ifdef __AVX512F__
VM_VEC2_F64(atan2)
#else
VM_BIN(atan2, f64, double, double, fg_atan2_f64(x, y))
#endif
VM_MATH1(asin, f32, float) VM_MATH1(acos, f32, float) VM_MATH1(atan, f32, float) VM_VEC_F64(atan) VM_VEC_F64(asin) VM_VEC_F64(acos)
VM_CELLS_F64(erfc) VM_CELLS_F64(erf_inv) VM_CELLS_F64(ndtr) VM_VEC_F64(logit)
VM_CELLS_F64(gelu_exact) VM_CELLS_F64(gelu_exact_slope) VM_BIN(rel_entr, f64, double, double, fg_rel_entr_f64(x, y))
VM_BIN(ldexp, f64, double, double, fg_ldexp_f64(x, y)) VM_BIN(hypot, f64, double, double, fg_hypot_f64(x, y))
VM_BIN(hypot, f32, float, float, fg_hypot_f32(x, y))
VM_BIN(copysign, f32, float, float, copysignf(x, y)) VM_BIN(copysign, f64, double, double, copysign(x, y))

/* log |x + iy|. Near a size of 1 it is log1p of |x + iy|^2 - 1, which float64 holds exactly for float32's numbers, and here in two parts for its own. */
enum { FG_SIZES = 64 };
FG_SIG(log_hypot, f32) {
    float *d = (float *)d_, u[FG_SIZES], v[FG_SIZES], more[FG_SIZES]; const float *a = (const float *)a_, *b = (const float *)b_; (void)c_;
    for (int64_t k = 0; k < n; k += FG_SIZES, a += FG_SIZES, b += FG_SIZES, d += FG_SIZES) {
        const int64_t w = n - k < FG_SIZES ? n - k : FG_SIZES;
        FG_SIMD for (int64_t i = 0; i < w; i++) {
            const double x = fabsf(a[i]), y = fabsf(b[i]), most = x > y ? x : y, scale = most > 1e15 ? 0x1p-66 : most < 1e-15 ? 0x1p100 : 1;
            const double p = most * scale, q = (x > y ? y : x) * scale, size = p * p + q * q;
            const int low = size < 0.5;
            v[i] = (float)(low ? size : 1); u[i] = (float)(low ? 0 : (p - 1) * (p + 1) + q * q);
            more[i] = (float)(most > 1e15 ? 66 * 0.69314718055994530942 : most < 1e-15 ? -100 * 0.69314718055994530942 : 0); }
        vm_log_f32(w, v, v, v, v); vm_log1p_f32(w, u, u, u, u);
        FG_SIMD for (int64_t i = 0; i < w; i++) {
            const float x = fabsf(a[i]), y = fabsf(b[i]);
            d[i] = (x == INFINITY) | (y == INFINITY) ? INFINITY : (u[i] + v[i]) * 0.5f + more[i]; } }
}
FG_INLINE double fg_log_hypot_f64(double a, double b) {
    const double x = fabs(a), y = fabs(b), most = x > y ? x : y, least = x > y ? y : x;
    const double scale = most > 1e150 ? 0x1p-600 : most < 1e-130 ? 0x1p600 : 1, p = most * scale, q = least * scale;
    const double pp = p * p, qq = q * q, size = pp + qq, t = pp - 1, et = pp > 1 ? 0 : pp - (t + 1), r = t + qq, back = r - t;
    const double less = r + (((t - (r - back)) + (qq - back)) + (et + (fg_mul_err(p, p, pp) + fg_mul_err(q, q, qq))));
    const int near = (size > 0.5) & (size < 3);
    const double y1 = fg_log1p_f64(near ? less : 0), y2 = fg_log_f64(near ? 1 : size);
    const double more = most > 1e150 ? 600 * 0.69314718055994530942 : most < 1e-130 ? -600 * 0.69314718055994530942 : 0;
    return (x == INFINITY) | (y == INFINITY) ? INFINITY : (y1 + y2) * 0.5 + more;
}
VM_BIN(log_hypot, f64, double, double, fg_log_hypot_f64(x, y))

/* x^y for one y: the powers whose value a root or products give; -0 and -inf count as 0 and inf, but for whole powers. With AVX-512 powers in general are
 * near enough in time to x^2.5 by three roundings. */
#ifdef __AVX512F__
#define FG_POWER_BY_PRODUCTS 0
#else
#define FG_POWER_BY_PRODUCTS 1
#endif
#define VM_POWER_SECOND(t, T, F, OTHER) FG_SIG(pow_second, t) { \
    T *d = (T *)d_; const T *a = (const T *)a_, y = *(const T *)b_; (void)c_; \
    if (y == (T)0.5) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = x == -INFINITY ? INFINITY : sqrt##F(x) + 0; } \
    else if (y == (T)1.5) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = x == -INFINITY ? INFINITY : x * sqrt##F(x); } \
    else if (y == (T)-0.5) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = x == -INFINITY ? 0 : 1 / (sqrt##F(x) + 0); } \
    else if (FG_POWER_BY_PRODUCTS && y == (T)2.5) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = x == -INFINITY ? INFINITY : x * x * sqrt##F(x) + 0; } \
    else if (y == 1) memmove(d, a, n * sizeof(T)); \
    else if (y == -1) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = 1 / x; } \
    else if (y == 2) FG_SIMD for (int64_t i = 0; i < n; i++) { T x = a[i]; d[i] = x * x; } \
    else { OTHER } }
#ifdef FG_VEC_BLOCKS_H
#include "vm_power_blocks.h"
#endif

/* float32 through float64, a block at a time: a loop of mixed widths vectorises badly */
#define FG_BLOCK FG_GAMMA_BLOCK
/* float64 in vectors; values that are not `common` go one by one */
#define VM_COMMON_F64(name) VM_UN(name##_fast, f64, double, double, fg_##name##_fast_f64(x)) FG_SIG(name, f64) { \
    double *d = (double *)d_, u[FG_BLOCK]; const double *a = (const double *)a_; (void)b_; (void)c_; \
    for (int64_t k = 0; k < n; k += FG_BLOCK) { \
        int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK; \
        vm_##name##_fast_f64(m, u, a + k, 0, 0); \
        for (int64_t i = 0; i < m; i++) if (!fg_##name##_common(a[k + i])) u[i] = fg_##name##_f64(a[k + i]); \
        memcpy(d + k, u, m * sizeof *u); } }
VM_COMMON_F64(lgamma) VM_COMMON_F64(gamma) VM_COMMON_F64(digamma)
#if defined(__AVX512F__) || defined(FG_VEC_ERF_ROWS_H)
VM_CELLS_F64(ndtri)
#else
VM_COMMON_F64(ndtri)
#endif
VM_UN(trigamma_fast, f64, double, double, fg_trigamma_fast_f64(x))
#define VM_COMMON2_F64(name, NAME) VM_BIN(name##_fast, f64, double, double, fg_##name##_fast_f64(x, y)) FG_SIG(NAME, f64) { \
    double *d = (double *)d_, u[FG_BLOCK]; const double *a = (const double *)a_, *b = (const double *)b_; (void)c_; \
    for (int64_t k = 0; k < n; k += FG_BLOCK) { \
        int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK; \
        vm_##name##_fast_f64(m, u, a + k, b + k, 0); \
        for (int64_t i = 0; i < m; i++) if (!fg_##name##_common_f64(a[k + i], b[k + i])) u[i] = fg_##name##_f64(a[k + i], b[k + i]); \
        memcpy(d + k, u, m * sizeof *u); } }
VM_COMMON2_F64(zeta, zeta) VM_COMMON2_F64(polygamma, polygamma_other)
/* of order 1, by which digamma is differentiated, without powers */
static int fg_all_one(int64_t n, const double *a) { int64_t ones = 0; for (int64_t i = 0; i < n; i++) ones += a[i] == 1; return ones == n; }
FG_SIG(polygamma, f64) {
    double *d = (double *)d_, u[FG_BLOCK];
    const double *a = (const double *)a_, *b = (const double *)b_;
    for (int64_t k = 0; k < n; k += FG_BLOCK) {
        int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK;
        if (!fg_all_one(m, a + k)) { vm_polygamma_other_f64(m, d + k, a + k, b + k, c_); continue; }
        vm_trigamma_fast_f64(m, u, b + k, 0, 0);
        for (int64_t i = 0; i < m; i++) if (!fg_trigamma_common(b[k + i])) u[i] = fg_polygamma_f64(1, b[k + i]);
        memcpy(d + k, u, m * sizeof *u);
    }
}
#define FG_NOINLINE static __attribute__((noinline)) void
FG_NOINLINE fg_widen(int64_t n, double *d, const float *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = a[i]; }
FG_NOINLINE fg_narrow(int64_t n, float *d, const double *a) { FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = (float)a[i]; }
#define VM_VIA_F64(name, f, reads_b) FG_SIG(name, f32) { \
    double u[FG_BLOCK], v[FG_BLOCK]; (void)b_; (void)c_; \
    for (int64_t k = 0; k < n; k += FG_BLOCK) { \
        int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK; \
        fg_widen(m, u, (const float *)a_ + k); \
        if (reads_b) fg_widen(m, v, (const float *)b_ + k); \
        f(m, u, u, v, v); \
        fg_narrow(m, (float *)d_ + k, u); } }
VM_VEC_F64(exp2) VM_VEC_F64(log2) VM_VEC_F64(log10) VM_CELLS_F64(erf)
#ifdef __AVX512F__
VM_VEC_F32(exp2) VM_VEC_F32(log2) VM_VEC_F32(erf)
/* The next m numbers, and 1 in lanes that are left; one number is in all lanes, since a masked load would wait for the store that has just made it. */
FG_INLINE vec_f32 vm_power_lanes_f32(const float *p, int m) {
    const __m512 one = _mm512_set1_ps(1.0f);
    return (vec_f32)(m == 1 ? _mm512_set1_ps(*p) : _mm512_mask_loadu_ps(one, (__mmask16)((1u << m) - 1), p));
}
FG_INLINE vec_f64 vm_power_lanes_f64(const double *p, int m) {
    const __m512d one = _mm512_set1_pd(1.0);
    return (vec_f64)(m == 1 ? _mm512_set1_pd(*p) : _mm512_mask_loadu_pd(one, (__mmask8)((1u << m) - 1), p));
}
FG_INLINE void vm_put_part_f64(double *p, vec_f64 x, int64_t n) { if (n == 1) *p = x[0]; else vec_store_part_f64(p, (int)n, x); }
/* x^y, two vectors at a time, whose instructions take turns; where an operand is one value, its lanes and its logarithm are computed once */
#define VM_POWER(form, t, T, X, Y) FG_SIG(pow##form, t) { \
    enum { L = FG_VEC / sizeof(T) }; \
    T *d = (T *)d_; const T *a = (const T *)a_, *b = (const T *)b_; int64_t i = 0; \
    const vec_##t first = vm_power_lanes_##t(a, 1), second = vm_power_lanes_##t(b, 1); (void)first; (void)second; (void)c_; \
    for (; i + 2 * L <= n; i += L) { \
        const int m = L; const vec_##t x = X, y = Y; i += L; const vec_##t z = X, w = Y; \
        vec_##t p = vec_raised_##t(vec_log2_parts_##t(x), y), q = vec_raised_##t(vec_log2_parts_##t(z), w); \
        if (__builtin_expect(vec_power_odd_##t(x, y) | vec_power_odd_##t(z, w), 0)) p = vec_power_edges_##t(x, y, p), q = vec_power_edges_##t(z, w, q); \
        memcpy(d + i - L, &p, FG_VEC); memcpy(d + i, &q, FG_VEC); (void)m; } \
    for (; i < n; i += L) { \
        const int m = n - i < L ? (int)(n - i) : L; \
        const vec_##t x = X, y = Y; \
        vec_##t p = vec_raised_##t(vec_log2_parts_##t(x), y); \
        if (vec_power_odd_##t(x, y)) p = vec_power_edges_##t(x, y, p); \
        vm_put_part_##t(d + i, p, m); } }
#define VM_POWERS(t, T, F) VM_POWER(, t, T, vm_power_lanes_##t(a + i, m), vm_power_lanes_##t(b + i, m)) \
    VM_POWER(_first, t, T, first, vm_power_lanes_##t(b + i, m)) VM_POWER(_other, t, T, vm_power_lanes_##t(a + i, m), second) \
    VM_POWER_SECOND(t, T, F, vm_pow_other_##t(n, d_, a_, b_, c_);)
VM_POWERS(f32, float, f) VM_POWERS(f64, double, )
#else
VM_MATH1(exp2, f32, float)
#ifndef FG_VEC_BLOCKS_H
VM_MATH1(log2, f32, float) VM_MATH1(erf, f32, float)
VM_BIN(powf, f64, double, double, fg_powf_f64(x, y))
VM_VIA_F64(pow, vm_powf_f64, 1)
#endif
VM_BIN(pow, f64, double, double, fg_pow_f64(x, y))
VM_POWER_SECOND(f64, double, , double each = y; FG_SIMD for (int64_t i = 0; i < n; i++) { double x = a[i]; d[i] = fg_pow_f64(x, each); })
#endif
VM_VEC_F32(log10) VM_VEC_F32(cbrt)
#define VM_SPECIAL_F32(name) VM_UN(name##f, f64, double, double, fg_##name##f_f64(x)) VM_VIA_F64(name, vm_##name##f_f64, 0)
/* gamma and its like: most loops meet no number below 1/2 */
#define VM_MIRRORED_F32(name) FG_SIG(name##f, f64) { \
    double *d = (double *)d_; const double *a = (const double *)a_; int below = 0; (void)b_; (void)c_; \
    for (int64_t i = 0; i < n; i++) below |= a[i] < 0.5; \
    if (below) FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_##name##_of_f64(a[i], 1); \
    else FG_SIMD for (int64_t i = 0; i < n; i++) d[i] = fg_##name##_of_f64(a[i], 0); } \
    VM_VIA_F64(name, vm_##name##f_f64, 0)
VM_MIRRORED_F32(lgamma) VM_MIRRORED_F32(digamma) VM_MIRRORED_F32(gamma)
VM_SPECIAL_F32(bessel_i0e) VM_SPECIAL_F32(bessel_i1e) VM_SPECIAL_F32(log_ndtr)
VM_VEC_F32(erf_inv) VM_VEC_F32(ndtri) VM_VEC_F32(asinh) VM_VEC_F32(acosh) VM_VEC_F32(atanh)
VM_BIN(ldexpf, f64, double, double, fg_ldexpf_f64(x, y))
#ifndef FG_VEC_BLOCKS_H
VM_BIN(rel_entrf, f64, double, double, fg_rel_entrf_f64(x, y))
VM_VIA_F64(rel_entr, vm_rel_entrf_f64, 1)
#endif
#ifdef __AVX512F__
VM_VEC2_F32(ldexp, vec_scale_f32)
#else
VM_VIA_F64(ldexp, vm_ldexpf_f64, 1)
#endif
/* the same for two operands; those that are not `common` go one by one */
#define VM_SPECIAL2_F32(name) \
    FG_SIG(name, f32) { \
        double u[FG_BLOCK], v[FG_BLOCK], w[FG_BLOCK]; (void)c_; \
        for (int64_t k = 0; k < n; k += FG_BLOCK) { \
            int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK; \
            fg_widen(m, u, (const float *)a_ + k); \
            fg_widen(m, v, (const float *)b_ + k); \
            vm_##name##f_f64(m, w, u, v, v); \
            for (int64_t i = 0; i < m; i++) if (!fg_##name##_common(u[i], v[i])) w[i] = fg_##name##_f32(u[i], v[i]); \
            fg_narrow(m, (float *)d_ + k, w); } }
VM_BIN(zetaf, f64, double, double, fg_zetaf_f64(x, y)) VM_BIN(betalnf, f64, double, double, fg_betalnf_f64(x, y))
VM_BIN(polygammaf_other, f64, double, double, fg_polygammaf_f64(x, y))
FG_SIG(polygammaf, f64) { if (fg_all_one(n, (const double *)a_)) vm_trigamma_fast_f64(n, d_, b_, 0, 0); else vm_polygammaf_other_f64(n, d_, a_, b_, c_); }
VM_SPECIAL2_F32(zeta) VM_SPECIAL2_F32(polygamma) VM_SPECIAL2_F32(betaln)
/* whole blocks u, v and, of three operands, w give r */
#define VM_GAMMA_F32(name, operands, block) FG_SIG(name, f32) { \
    double u[FG_BLOCK], v[FG_BLOCK], w[FG_BLOCK], r[FG_BLOCK]; (void)c_; \
    for (int64_t k = 0; k < n; k += FG_BLOCK) { \
        int64_t m = n - k < FG_BLOCK ? n - k : FG_BLOCK; \
        fg_widen(m, u, (const float *)a_ + k); \
        fg_widen(m, v, (const float *)b_ + k); \
        if (operands == 3) fg_widen(m, w, (const float *)c_ + k); \
        block; \
        fg_narrow(m, (float *)d_ + k, r); } }
VM_GAMMA_F32(igamma, 2, fg_igamma_block((int)m, r, u, v, 0))
VM_GAMMA_F32(igammac, 2, fg_igamma_block((int)m, r, u, v, 1))
VM_GAMMA_F32(betainc, 3, fg_betainc_block((int)m, r, u, v, w))

/* x - trunc(x / y) y, exact while the quotient is whole and the product exact; a quotient rounded up to a whole number is
 * one too large, which the sign shows.  Other quotients (huge, NaN) send the tile through libm. */
static inline double fg_rem_fix(double r, double x, double y) {
    return copysign(r != 0 && (r < 0) != (x < 0) ? fabs(y) - fabs(r) : fabs(r), x);
}
static void fg_rem_far_f32(int64_t n, float *d, const float *a, const float *b) {
    int far = 0;
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(a[i] / b[i]) < 2e8f) | !(fabsf(b[i]) < INFINITY);
    if (far) for (int64_t i = 0; i < n; i++) d[i] = fmodf(a[i], b[i]);
    else FG_SIMD for (int64_t i = 0; i < n; i++) { double x = a[i], y = b[i]; d[i] = (float)fg_rem_fix(x - trunc(x / y) * y, x, y); }
}
#if defined(__FMA__) && !defined(__AVX512F__)
/* In float32 by a fused multiply-add, block by block: below 2^24 a rounded quotient's whole part is that of the quotient or one more, and either's remainder is
 * exact. */
FG_SIG(rem, f32) {
    enum { N = 64 };
    float *d = (float *)d_, r[N]; const float *a = (const float *)a_, *b = (const float *)b_; (void)c_;
    for (int64_t k = 0; k < n; k += N, d += N, a += N, b += N) {
        const int64_t m = n - k < N ? n - k : N;
        int far = 0;
        for (int64_t i = 0; i < m; i++) {
            const float x = a[i], y = b[i], q = x / y, s = __builtin_fmaf(-truncf(q), y, x), size = fabsf(s), other = fabsf(y) - size;
            far |= !(fabsf(q) < 0x1p24f) | !(fabsf(y) < INFINITY);
            r[i] = copysignf((s != 0) & ((s < 0) != (x < 0)) ? other : size, x); }
        if (far) fg_rem_far_f32(m, d, a, b); else memcpy(d, r, m * sizeof *d); }
}
#else
FG_SIG(rem, f32) { (void)c_; fg_rem_far_f32(n, (float *)d_, (const float *)a_, (const float *)b_); }
#endif
/* By one divisor: products with its inverse, which may miss the quotient by one; by a power of two all steps are exact. */
FG_SIG(rem_second, f32) {
    float *d = (float *)d_; const float *a = (const float *)a_, y = *(const float *)b_, inverse = 1 / y; int far = 0, e; (void)c_;
    const double wide = y, size = fabs(wide), one = 1 / wide;
    for (int64_t i = 0; i < n; i++) far |= !(fabsf(a[i] * inverse) < 2e8f);
    if (far || !(size > 1e-30 && size < 1e30)) for (int64_t i = 0; i < n; i++) d[i] = fmodf(a[i], y);
    else if (frexp(size, &e) == 0.5) FG_SIMD for (int64_t i = 0; i < n; i++) { float x = a[i]; d[i] = copysignf(x - truncf(x * inverse) * y, x); }
    else FG_SIMD for (int64_t i = 0; i < n; i++) {
        double x = a[i], r = x - trunc(x * one) * wide, s = r != 0 && (r < 0) != (x < 0) ? size - fabs(r) : fabs(r);
        d[i] = (float)copysign(s >= size ? s - size : s, x); }
}
FG_SIG(rem, f64) {
    double *d = (double *)d_; const double *a = (const double *)a_, *b = (const double *)b_; int far = 0; (void)c_;
#if defined(__FMA__) || defined(__aarch64__)
    for (int64_t i = 0; i < n; i++) far |= !(fabs(a[i] / b[i]) < 4e15) | !(fabs(b[i]) >= 1e-290 && fabs(b[i]) < INFINITY);
    if (!far) {
        FG_SIMD for (int64_t i = 0; i < n; i++) { double x = a[i], y = b[i]; d[i] = fg_rem_fix(__builtin_fma(-trunc(x / y), y, x), x, y); }
        return;
    }
#endif
    (void)far;
    for (int64_t i = 0; i < n; i++) d[i] = fmod(a[i], b[i]);
}

#include "vm_loops_half.h"
#if defined(__AVX512F__) && !defined(__clang__)
#pragma GCC pop_options
#endif
#endif
