/* Running reductions of rows in vectors of eight: three shifted operations, then the carry, whose chain is one operation long; and running
 * log-sum-exps, whose exponentials and logarithms are taken in vectors. */
#ifndef FG_SCAN_ROWS_H
#define FG_SCAN_ROWS_H
#include <math.h>
#include "half.h"
#include "row_math.h"

#ifndef FG_SIMD
#define FG_SIMD _Pragma("omp simd")
#endif

#define FG_VADD(a, b) ((a) + (b))
#define FG_VMUL(a, b) ((a) * (b))
#define FG_VPICK(a, b, OP) ({ V a_ = (a), b_ = (b); I m_ = (I)(a_ OP b_) | (I)(a_ != a_); (V)(((I)a_ & m_) | ((I)b_ & ~m_)); })
#define FG_VMAX(a, b) FG_VPICK(a, b, >)
#define FG_VMIN(a, b) FG_VPICK(a, b, <)

/* Of vectors of eight or four lanes: the running reduction of their own, the lanes in reverse, the last one in all, and what all come to. */
#define FG_RUN_8(VOP) \
    v = VOP(__builtin_shufflevector(v, z, 8, 0, 1, 2, 3, 4, 5, 6), v); \
    v = VOP(__builtin_shufflevector(v, z, 8, 8, 0, 1, 2, 3, 4, 5), v); \
    v = VOP(__builtin_shufflevector(v, z, 8, 8, 8, 8, 0, 1, 2, 3), v);
#define FG_RUN_4(VOP) \
    v = VOP(__builtin_shufflevector(v, z, 4, 0, 1, 2), v); \
    v = VOP(__builtin_shufflevector(v, z, 4, 4, 0, 1), v);
#define FG_TURN_8(v) __builtin_shufflevector(v, v, 7, 6, 5, 4, 3, 2, 1, 0)
#define FG_TURN_4(v) __builtin_shufflevector(v, v, 3, 2, 1, 0)
#define FG_LAST_8(v) __builtin_shufflevector(v, v, 7, 7, 7, 7, 7, 7, 7, 7)
#define FG_LAST_4(v) __builtin_shufflevector(v, v, 3, 3, 3, 3)
#define FG_ALL_8(T, OP, c) ({ T p = OP(c[0], c[1]), q = OP(c[2], c[3]), u = OP(c[4], c[5]), v = OP(c[6], c[7]); p = OP(p, q); u = OP(u, v); OP(p, u); })
#define FG_ALL_4(T, OP, c) ({ T p = OP(c[0], c[1]), q = OP(c[2], c[3]); OP(p, q); })
/* Lanes of eight bytes: compilers compare and permute vectors of more than a register lane by lane. */
#ifdef __AVX512F__
#define FG_VROW_WIDE(...) FG_VROW_OF(8, __VA_ARGS__)
#else
#define FG_VROW_WIDE(...) FG_VROW_OF(4, __VA_ARGS__)
#endif
#define FG_VROW(...) FG_VROW_OF(8, __VA_ARGS__)

/* What is shifted in is neutral: -0.0 of a sum, which keeps signs of zero.  M: an integer as wide as T; OP is VOP of two numbers. */
#define FG_VROW_OF(L, T, M, NEUTRAL, VOP, OP) \
{ \
    typedef T V __attribute__((vector_size(L * sizeof(T)), aligned(sizeof(T)))); \
    typedef M I __attribute__((vector_size(L * sizeof(T)))); \
    V z, c; \
    for (int j = 0; j < L; j++) { z[j] = NEUTRAL; c[j] = d ? acc : (T)NEUTRAL; } \
    (void)sizeof(I); \
    if (!d) for (; k + L <= n; k += L) c = VOP(c, *(const V *)(reverse ? s - k - (L - 1) : s + k)); \
    else for (; k + L <= n; k += L) { \
        V v = *(const V *)(reverse ? s - k - (L - 1) : s + k); \
        if (reverse) v = FG_TURN_##L(v); \
        FG_RUN_##L(VOP) \
        V t = FG_LAST_##L(v); \
        v = VOP(c, v); c = VOP(c, t); \
        if (reverse) v = FG_TURN_##L(v); \
        *(V *)(reverse ? d - k - (L - 1) : d + k) = v; \
    } \
    if (d) acc = c[0]; \
    else { \
        const T all = FG_ALL_##L(T, OP, c); \
        acc = OP(acc, all); \
    } \
}

/* 16-bit floats: a block of a row is widened, scanned by WIDE, float32's, and rounded; of columns, the sums so far are what is rounded. */
enum { FG_WIDE_BLOCK = 512 };
#define FG_HALF_ROW(NAME, DTYPE, UP, WIDE) \
static void fg_row_##NAME(const void *src, void *dst, int64_t n, int reverse, FgCarry *carry) { \
    float x[FG_WIDE_BLOCK]; \
    for (int64_t first = 0; first < n; first += FG_WIDE_BLOCK) { \
        int64_t m = n - first < FG_WIDE_BLOCK ? n - first : FG_WIDE_BLOCK, at = reverse ? n - first - m : first; \
        const uint16_t *s = (const uint16_t *)src + at; \
        FG_SIMD for (int64_t i = 0; i < m; i++) x[i] = UP(s[i]); \
        WIDE(x, dst ? x : NULL, m, reverse, carry); \
        if (dst) fg_narrow16(DTYPE, x, (uint16_t *)dst + at, m); \
    } \
}
#define FG_HALF_TILE(NAME, DTYPE, UP, INIT, OP) \
static void fg_tile_scan_##NAME(const void *src, void *dst, int64_t n, int64_t inner, int64_t width, int reverse) { \
    float acc[FG_TILE]; \
    for (int64_t j = 0; j < width; j++) acc[j] = INIT; \
    for (int64_t k = 0; k < n; k++) { \
        int64_t at = (reverse ? n - 1 - k : k) * inner; \
        const uint16_t *s = (const uint16_t *)src + at; \
        FG_SIMD for (int64_t j = 0; j < width; j++) { float v = UP(s[j]), a = acc[j]; acc[j] = OP(a, v); } \
        fg_narrow16(DTYPE, acc, (uint16_t *)dst + at, width); \
    } \
}

static inline double fg_logaddexp(double a, double b) {
    if (a == b) return a + 0.69314718055994530942;                     /* equal infinities too */
    double d = a - b;
    return d > 0 ? a + log1p(exp(-d)) : d < 0 ? b + log1p(exp(d)) : d;  /* NaN */
}

/* n <= FG_LSE_BLOCK numbers become their running log-sum-exps, begun with acc; the last of them.  Where all lie within 100 below the
 * greatest (or are -inf), they are running sums of exponentials relative to that one: exact to 1e-14, so for narrower floats. */
enum { FG_LSE_BLOCK = 64, FG_LSE_REACH = 100 };
static double fg_lse_block(double *x, int64_t n, double acc) {
    double top = acc, e[FG_LSE_BLOCK];
    int far = 0;
    for (int64_t i = 0; i < n; i++) top = x[i] > top ? x[i] : top;
    double least = top - FG_LSE_REACH;
    for (int64_t i = 0; i < n; i++) far |= !(x[i] >= least) & (x[i] != -INFINITY);
    if (far | (!(acc >= least) & (acc != -INFINITY)) | !(top - top == 0)) {
        for (int64_t i = 0; i < n; i++) x[i] = acc = fg_logaddexp(acc, x[i]);
        return acc;
    }
    FG_SIMD for (int64_t i = 0; i < n; i++) e[i] = row_exp_f64(x[i] - top);
    acc = row_exp_f64(acc - top);
    {
        const double *s = e;
        double *d = e;
        int64_t k = 0;
        const int reverse = 0;
        FG_VROW_WIDE(double, int64_t, -0.0, FG_VADD, FG_VADD)
        for (; k < n; k++) e[k] = acc += e[k];
    }
    FG_SIMD for (int64_t i = 0; i < n; i++) x[i] = top + row_log_f64(e[i]);
    return x[n - 1];
}

#define FG_LSE_ROW(NAME, T, LOAD, STORE) \
static void fg_row_##NAME(const void *src, void *dst, int64_t n, int reverse, FgCarry *carry) { \
    const T *s = (const T *)src; T *d = (T *)dst; \
    double acc, x[FG_LSE_BLOCK]; \
    int64_t step = reverse ? -1 : 1; \
    memcpy(&acc, carry, sizeof acc); \
    if (reverse) { s += n - 1; d = d ? d + n - 1 : d; } \
    for (int64_t first = 0; first < n; first += FG_LSE_BLOCK) { \
        int64_t m = n - first < FG_LSE_BLOCK ? n - first : FG_LSE_BLOCK; \
        for (int64_t i = 0; i < m; i++) x[i] = LOAD(s[(first + i) * step]); \
        acc = fg_lse_block(x, m, acc); \
        if (d) for (int64_t i = 0; i < m; i++) d[(first + i) * step] = STORE(x[i]); \
    } \
    memcpy(carry, &acc, sizeof acc); \
}
/* each column's greatest number so far and the sum of exponentials relative to it */
#define FG_LSE_TILE(NAME, T, LOAD, STORE) \
static void fg_tile_scan_##NAME(const void *src, void *dst, int64_t n, int64_t inner, int64_t width, int reverse) { \
    double top[FG_TILE], sum[FG_TILE]; \
    for (int64_t j = 0; j < width; j++) { top[j] = -INFINITY; sum[j] = 0; } \
    for (int64_t k = 0; k < n; k++) { \
        int64_t at = (reverse ? n - 1 - k : k) * inner; \
        const T *sk = (const T *)src + at; T *dk = (T *)dst + at; \
        FG_SIMD for (int64_t j = 0; j < width; j++) { \
            double x = LOAD(sk[j]), m = top[j], far = row_exp_f64(-fabs(x - m)), e = x == m ? 1 : far; \
            double r = x > m ? sum[j] * e + 1 : sum[j] + e; \
            m = x > m ? x : m; \
            top[j] = m; sum[j] = r; \
            dk[j] = STORE(m + row_log_f64(r)); \
        } \
    } \
}
#endif
