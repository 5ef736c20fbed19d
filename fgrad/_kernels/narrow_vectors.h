/* Columns and rows of narrow rows of 2, 3, 4, 5 and 7 elements of 4 and 8 bytes by vectors of 256 bits; see narrow.h. */
#ifndef FG_NARROW_VECTORS_H
#define FG_NARROW_VECTORS_H
#include <stdint.h>
typedef uint16_t __attribute__((may_alias)) fg_narrow2;
typedef uint32_t __attribute__((may_alias)) fg_narrow4;
typedef uint64_t __attribute__((may_alias, aligned(4))) fg_narrow8;
/* Rows of an odd number n of elements, as many as a vector has lanes L: each column has one element in each lane of the n vectors in which
 * they lie, since n and L have no common divisor; it is blended out of them and put in order by one permutation, and back likewise. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_ODD_ROW(l, c, n, L) (((l) + 8 * L - (c)) * (n) % L)             /* whose element of column c lies in lane l: n * n is 1 modulo 8 */
#define FG_ODD_FROM(l, c, n, L, k) ((FG_ODD_ROW(l, c, n, L) * (n) + (c)) / L == (k) ? L + (l) : (l))
#define FG_ODD_TO(l, c, n, L, k) (((k) * L + (l)) % (n) == (c) ? L + (l) : (l))
#define FG_ODD_LANE(r, c, n, L) (((r) * (n) + (c)) % L)
#define FG_ODD_4(M, ...) M(0, __VA_ARGS__), M(1, __VA_ARGS__), M(2, __VA_ARGS__), M(3, __VA_ARGS__)
#define FG_ODD_8(M, ...) FG_ODD_4(M, __VA_ARGS__), M(4, __VA_ARGS__), M(5, __VA_ARGS__), M(6, __VA_ARGS__), M(7, __VA_ARGS__)
#define FG_ODD_EACH_3(M, ...) M(1, __VA_ARGS__) M(2, __VA_ARGS__)
#define FG_ODD_EACH_5(M, ...) FG_ODD_EACH_3(M, __VA_ARGS__) M(3, __VA_ARGS__) M(4, __VA_ARGS__)
#define FG_ODD_EACH_7(M, ...) FG_ODD_EACH_5(M, __VA_ARGS__) M(5, __VA_ARGS__) M(6, __VA_ARGS__)
#define FG_ODD_COLUMNS_3(M, ...) M(0, __VA_ARGS__) M(1, __VA_ARGS__) M(2, __VA_ARGS__)
#define FG_ODD_COLUMNS_5(M, ...) FG_ODD_COLUMNS_3(M, __VA_ARGS__) M(3, __VA_ARGS__) M(4, __VA_ARGS__)
#define FG_ODD_COLUMNS_7(M, ...) FG_ODD_COLUMNS_5(M, __VA_ARGS__) M(5, __VA_ARGS__) M(6, __VA_ARGS__)
#define FG_ODD_LOAD(k, s, L) x[k] = *(const V *)((s) + k * L);
#define FG_ODD_BLEND(k, how, c, n, L) y = __builtin_shufflevector(y, x[k], FG_ODD_##L(how, c, n, L, k));
#define FG_ODD_OUT(c, n, L) { V y = x[0]; FG_ODD_EACH_##n(FG_ODD_BLEND, FG_ODD_FROM, c, n, L) \
    *(V *)(to[c] + r) = __builtin_shufflevector(y, y, FG_ODD_##L(FG_ODD_LANE, c, n, L)); }
#define FG_ODD_TAKE(c, n, L) { const V y = *(const V *)(from[c] + r); x[c] = __builtin_shufflevector(y, y, FG_ODD_##L(FG_ODD_ROW, c, n, L)); }
#define FG_ODD_MEET(c, how, k, n, L) y = __builtin_shufflevector(y, x[c], FG_ODD_##L(how, c, n, L, k));
#define FG_ODD_IN(k, n, L) { V y = x[0]; FG_ODD_EACH_##n(FG_ODD_MEET, FG_ODD_TO, k, n, L) *(V *)(d + r * n + k * L) = y; }
#define FG_ODD(n, W, T, L) \
static void fg_columns_odd##n##_##W(T *const *d, const T *s, int64_t rows) { \
    typedef T V __attribute__((vector_size(32), aligned(4), may_alias)); \
    T *to[n]; int64_t r = 0; \
    for (int c = 0; c < n; c++) to[c] = d[c]; \
    for (; r + L <= rows; r += L) { V x[n]; FG_ODD_COLUMNS_##n(FG_ODD_LOAD, s + r * n, L) FG_ODD_COLUMNS_##n(FG_ODD_OUT, n, L) } \
    for (; r < rows; r++) for (int c = 0; c < n; c++) to[c][r] = s[r * n + c]; \
} \
static void fg_rows_odd##n##_##W(T *d, const T *const *s, int64_t rows) { \
    typedef T V __attribute__((vector_size(32), aligned(4), may_alias)); \
    const T *from[n]; int64_t r = 0; \
    for (int c = 0; c < n; c++) from[c] = s[c]; \
    for (; r + L <= rows; r += L) { V x[n]; FG_ODD_COLUMNS_##n(FG_ODD_TAKE, n, L) FG_ODD_COLUMNS_##n(FG_ODD_IN, n, L) } \
    for (; r < rows; r++) for (int c = 0; c < n; c++) d[r * n + c] = from[c][r]; \
}
FG_ODD(3, 4, fg_narrow4, 8) FG_ODD(5, 4, fg_narrow4, 8) FG_ODD(7, 4, fg_narrow4, 8)
FG_ODD(3, 8, fg_narrow8, 4) FG_ODD(5, 8, fg_narrow8, 4) FG_ODD(7, 8, fg_narrow8, 4)
/* Rows of two and of four. */
#define FG_EVENS(W, T, L, ...) \
static void fg_columns_two_##W(T *const *d, const T *s, int64_t rows) { \
    typedef T V __attribute__((vector_size(32), aligned(4), may_alias)); \
    T *const to[2] = {d[0], d[1]}; int64_t r = 0; \
    for (; r + L <= rows; r += L) { \
        const V x = *(const V *)(s + 2 * r), y = *(const V *)(s + 2 * r + L); \
        *(V *)(to[0] + r) = __builtin_shufflevector(x, y, FG_ODD_##L(FG_EVEN_LANE, 0)); \
        *(V *)(to[1] + r) = __builtin_shufflevector(x, y, FG_ODD_##L(FG_EVEN_LANE, 1)); \
    } \
    for (; r < rows; r++) for (int c = 0; c < 2; c++) to[c][r] = s[r * 2 + c]; \
} \
static void fg_columns_four_##W(T *const *d, const T *s, int64_t rows) { \
    typedef T V __attribute__((vector_size(32), aligned(4), may_alias)); \
    T *const to[4] = {d[0], d[1], d[2], d[3]}; int64_t r = 0; \
    for (; r + L <= rows; r += L) { \
        const T *from = s + 4 * r; V x[4], y[4]; \
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) x[k] = *(const V *)(from + k * L); \
        __VA_ARGS__ \
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) *(V *)(to[k] + r) = x[k]; \
    } \
    for (; r < rows; r++) for (int c = 0; c < 4; c++) to[c][r] = s[r * 4 + c]; \
}
#define FG_EVEN_LANE(l, c) 2 * (l) + c
#define FG_TURN(to, a, b, ...) to = __builtin_shufflevector(a, b, __VA_ARGS__);
/* Two rows a vector: the first and last four rows side by side, then turned within the halves. */
FG_EVENS(4, fg_narrow4, 8,
    FG_TURN(y[0], x[0], x[2], 0, 1, 2, 3, 8, 9, 10, 11) FG_TURN(y[1], x[0], x[2], 4, 5, 6, 7, 12, 13, 14, 15)
    FG_TURN(y[2], x[1], x[3], 0, 1, 2, 3, 8, 9, 10, 11) FG_TURN(y[3], x[1], x[3], 4, 5, 6, 7, 12, 13, 14, 15)
    FG_TURN(x[0], y[0], y[1], 0, 8, 1, 9, 4, 12, 5, 13) FG_TURN(x[1], y[0], y[1], 2, 10, 3, 11, 6, 14, 7, 15)
    FG_TURN(x[2], y[2], y[3], 0, 8, 1, 9, 4, 12, 5, 13) FG_TURN(x[3], y[2], y[3], 2, 10, 3, 11, 6, 14, 7, 15)
    FG_TURN(y[0], x[0], x[2], 0, 1, 8, 9, 4, 5, 12, 13) FG_TURN(y[1], x[0], x[2], 2, 3, 10, 11, 6, 7, 14, 15)
    FG_TURN(y[2], x[1], x[3], 0, 1, 8, 9, 4, 5, 12, 13) FG_TURN(y[3], x[1], x[3], 2, 3, 10, 11, 6, 7, 14, 15)
    x[0] = y[0]; x[1] = y[1]; x[2] = y[2]; x[3] = y[3];)
FG_EVENS(8, fg_narrow8, 4,
    FG_TURN(y[0], x[0], x[1], 0, 4, 2, 6) FG_TURN(y[1], x[0], x[1], 1, 5, 3, 7)
    FG_TURN(y[2], x[2], x[3], 0, 4, 2, 6) FG_TURN(y[3], x[2], x[3], 1, 5, 3, 7)
    FG_TURN(x[0], y[0], y[2], 0, 1, 4, 5) FG_TURN(x[1], y[1], y[3], 0, 1, 4, 5)
    FG_TURN(x[2], y[0], y[2], 2, 3, 6, 7) FG_TURN(x[3], y[1], y[3], 2, 3, 6, 7))
#define FG_NARROW_VECTORS 1
#else
#define FG_NARROW_VECTORS 0
#endif
#endif
