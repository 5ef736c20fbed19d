/* Linear recurrences s_k = a s_(k-1) + b_k along an axis, and the products of all other elements.
 * Tensors are contiguous and seen as (outer, n, inner); inner == 1 is a row each, otherwise tiles of columns.  A row is one chain of
 * multiply-adds, so eight rows go side by side. */
#ifndef FG_RECURRENCE_H
#define FG_RECURRENCE_H
#include <complex.h>
#include "row_check.h"
enum { FG_CHAINS = 8 };

typedef struct { FgRows rows; int reverse, lag; } FgRecurrence;

/* Rows of a length that the compiler knows take no registers for where they begin. */
enum { FG_SHORT = 8 };
#define FG_RECUR_SHORT(N, NAME) case N: \
    for (; rows >= FG_CHAINS; rows -= FG_CHAINS, a += FG_CHAINS * N, b += FG_CHAINS * N, s += FG_CHAINS * N) \
        fg_recur_rows_##NAME(c, a, b, s, N, FG_CHAINS); \
    break;

/* Columns [0, w) of n elements, `inner` apart: every s uses the coefficient of its own element, or with lag that of the one before. */
#define FG_RECUR(NAME, T) \
static void fg_recur_columns_##NAME(const FgRecurrence *c, const T *a, const T *b, T *s, int w) { \
    int64_t n = c->rows.n, inner = c->rows.inner, step = c->reverse ? -inner : inner, start = c->reverse ? (n - 1) * inner : 0; \
    T acc[FG_TILE]; \
    a += start - (c->lag ? step : 0); b += start; s += start; \
    for (int j = 0; j < w; j++) s[j] = acc[j] = b[j]; \
    for (int64_t k = 1; k < n; k++) { \
        a += step; b += step; s += step; \
        _Pragma("omp simd") \
        for (int j = 0; j < w; j++) { T v = a[j] * acc[j] + b[j]; acc[j] = v; s[j] = v; } \
    } \
} \
static inline __attribute__((always_inline)) void fg_recur_rows_##NAME(const FgRecurrence *c, const T *a, const T *b, T *s, const int64_t n, const int rows) { \
    int64_t step = c->reverse ? -1 : 1, at = c->reverse ? n - 1 : 0; \
    T acc[FG_CHAINS]; \
    for (int r = 0; r < rows; r++) s[r * n + at] = acc[r] = b[r * n + at]; \
    for (int64_t k = 1; k < n; k++) { \
        int64_t from = c->lag ? at : at + step; \
        at += step; \
        for (int r = 0; r < rows; r++) { T v = a[r * n + from] * acc[r] + b[r * n + at]; acc[r] = v; s[r * n + at] = v; } \
    } \
} \
static __attribute__((noinline)) void fg_recur_short_##NAME(const FgRecurrence *c, const T *a, const T *b, T *s, int64_t rows) { \
    switch (c->rows.n) { \
        FG_RECUR_SHORT(1, NAME) FG_RECUR_SHORT(2, NAME) FG_RECUR_SHORT(3, NAME) FG_RECUR_SHORT(4, NAME) FG_RECUR_SHORT(5, NAME) \
        FG_RECUR_SHORT(6, NAME) FG_RECUR_SHORT(7, NAME) FG_RECUR_SHORT(8, NAME) \
    } \
} \
static void fg_recur_##NAME(void *ctx, int64_t begin, int64_t end, int tid) { \
    const FgRecurrence *c = (const FgRecurrence *)ctx; \
    const T *a = (const T *)c->rows.in[0], *b = (const T *)c->rows.in[1]; T *s = (T *)c->rows.out[0]; \
    int64_t n = c->rows.n; \
    (void)tid; \
    for (int64_t u = begin; u < end; ) { \
        if (c->rows.inner == 1 && end - u >= FG_CHAINS) { \
            int64_t rows = n > FG_SHORT ? FG_CHAINS : (end - u) & -FG_CHAINS; \
            if (n > FG_SHORT) fg_recur_rows_##NAME(c, a + u * n, b + u * n, s + u * n, n, FG_CHAINS); \
            else fg_recur_short_##NAME(c, a + u * n, b + u * n, s + u * n, rows); \
            u += rows; \
        } else if (c->rows.inner == 1) { \
            fg_recur_rows_##NAME(c, a + u * n, b + u * n, s + u * n, n, 1); \
            u++; \
        } else { \
            int64_t j = u % c->rows.tiles * FG_TILE, at = u / c->rows.tiles * n * c->rows.inner + j; \
            int64_t w = c->rows.inner - j < FG_TILE ? c->rows.inner - j : FG_TILE; \
            if (w == FG_TILE) fg_recur_columns_##NAME(c, a + at, b + at, s + at, FG_TILE); \
            else fg_recur_columns_##NAME(c, a + at, b + at, s + at, (int)w); \
            u++; \
        } \
    } \
}

/* y_k = the product of all x_j with j != k: the product of those before, then times the product of those behind. */
#define FG_OTHERS(NAME, T) \
static void fg_others_columns_##NAME(const T *x, T *y, int64_t n, int64_t inner, int w) { \
    T acc[FG_TILE]; \
    for (int j = 0; j < w; j++) acc[j] = 1; \
    for (int64_t k = 0; k < n; k++) \
        _Pragma("omp simd") \
        for (int j = 0; j < w; j++) { T v = acc[j]; y[k * inner + j] = v; acc[j] = v * x[k * inner + j]; } \
    for (int j = 0; j < w; j++) acc[j] = 1; \
    for (int64_t k = n - 1; k >= 0; k--) \
        _Pragma("omp simd") \
        for (int j = 0; j < w; j++) { T v = acc[j]; y[k * inner + j] *= v; acc[j] = v * x[k * inner + j]; } \
} \
static inline __attribute__((always_inline)) void fg_others_rows_##NAME(const T *x, T *y, int64_t n, const int rows) { \
    T acc[FG_CHAINS]; \
    for (int r = 0; r < rows; r++) acc[r] = 1; \
    for (int64_t k = 0; k < n; k++) \
        for (int r = 0; r < rows; r++) { T v = acc[r]; y[r * n + k] = v; acc[r] = v * x[r * n + k]; } \
    for (int r = 0; r < rows; r++) acc[r] = 1; \
    for (int64_t k = n - 1; k >= 0; k--) \
        for (int r = 0; r < rows; r++) { T v = acc[r]; y[r * n + k] *= v; acc[r] = v * x[r * n + k]; } \
} \
static void fg_others_##NAME(void *ctx, int64_t begin, int64_t end, int tid) { \
    const FgRows *c = (const FgRows *)ctx; \
    const T *x = (const T *)c->in[0]; T *y = (T *)c->out[0]; \
    int64_t n = c->n; \
    (void)tid; \
    for (int64_t u = begin; u < end; ) { \
        if (c->inner == 1 && end - u >= FG_CHAINS) { fg_others_rows_##NAME(x + u * n, y + u * n, n, FG_CHAINS); u += FG_CHAINS; } \
        else if (c->inner == 1) { fg_others_rows_##NAME(x + u * n, y + u * n, n, 1); u++; } \
        else { \
            int64_t j = u % c->tiles * FG_TILE, at = u / c->tiles * n * c->inner + j; \
            int64_t w = c->inner - j < FG_TILE ? c->inner - j : FG_TILE; \
            if (w == FG_TILE) fg_others_columns_##NAME(x + at, y + at, n, c->inner, FG_TILE); \
            else fg_others_columns_##NAME(x + at, y + at, n, c->inner, (int)w); \
            u++; \
        } \
    } \
}

#define FG_RECURRENCES(NAME, T) FG_RECUR(NAME, T) FG_OTHERS(NAME, T)
FG_RECURRENCES(f32, float)
FG_RECURRENCES(f64, double)
FG_RECURRENCES(c64, float _Complex)
FG_RECURRENCES(c128, double _Complex)

typedef void (*FgRowsBody)(void *ctx, int64_t begin, int64_t end, int tid);
static FgRowsBody fg_recurrence_body(int t) {
    return t == FG_F32 ? fg_recur_f32 : t == FG_F64 ? fg_recur_f64 : t == FG_C64 ? fg_recur_c64 : t == FG_C128 ? fg_recur_c128 : 0;
}
static FgRowsBody fg_others_body(int t) {
    return t == FG_F32 ? fg_others_f32 : t == FG_F64 ? fg_others_f64 : t == FG_C64 ? fg_others_c64 : t == FG_C128 ? fg_others_c128 : 0;
}
#endif
