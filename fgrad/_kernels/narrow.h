/* Narrow rows: many rows of few elements each, side by side in memory, turned into columns and back by blocks in vector registers.
 * Work on columns runs along the rows, a vector of rows at a time, where work on a row would be all head and tail. */
#ifndef FG_NARROW_H
#define FG_NARROW_H
#include <stdint.h>
#include <string.h>
#include "narrow_vectors.h"
#include "square.h"

/* fg_columns_W: dst[c * ld + r] = src[r * n + c]; fg_rows_W: dst[r * n + c] = src[c * ld + r], for r < rows and c < n, items of W
 * bytes.  Blocks of N rows and N columns; the last ones overlap those before.  Rows shorter than a block are read, and written, past
 * their ends, which lie in the next row: in ascending order, and not at the very end. */
enum { FG_LAST_many_1 = 0, FG_LAST_many_2 = 0, FG_LAST_many_8 = 0 };
#define FG_NO_LAST(NAME) static inline void fg_last_##NAME(char *d, int64_t ld, const char *s, int64_t n) { (void)d; (void)ld; (void)s; (void)n; }
FG_NO_LAST(many_1) FG_NO_LAST(many_2) FG_NO_LAST(many_8)
#if defined(__AVX2__) && !defined(__AVX512F__)
/* Eight rows' last four columns of 4 bytes, where no more are left: half of what a block takes. */
enum { FG_LAST_many_4 = 4 };
static inline void fg_last_many_4(char *d, int64_t ld, const char *s, int64_t n) {
    typedef uint32_t V __attribute__((vector_size(32)));
    typedef uint32_t H __attribute__((vector_size(16), aligned(1), may_alias));
    typedef V U __attribute__((aligned(1), may_alias));
    V q[4];
    for (int i = 0; i < 4; i++) {
        H low = *(const H *)(s + i * n * 4), high = *(const H *)(s + (i + 4) * n * 4);
        q[i] = __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
    }
    V a = __builtin_shufflevector(q[0], q[1], 0, 8, 1, 9, 4, 12, 5, 13), b = __builtin_shufflevector(q[0], q[1], 2, 10, 3, 11, 6, 14, 7, 15);
    V c = __builtin_shufflevector(q[2], q[3], 0, 8, 1, 9, 4, 12, 5, 13), e = __builtin_shufflevector(q[2], q[3], 2, 10, 3, 11, 6, 14, 7, 15);
    *(U *)d = __builtin_shufflevector(a, c, 0, 1, 8, 9, 4, 5, 12, 13);
    *(U *)(d + ld * 4) = __builtin_shufflevector(a, c, 2, 3, 10, 11, 6, 7, 14, 15);
    *(U *)(d + ld * 8) = __builtin_shufflevector(b, e, 0, 1, 8, 9, 4, 5, 12, 13);
    *(U *)(d + ld * 12) = __builtin_shufflevector(b, e, 2, 3, 10, 11, 6, 7, 14, 15);
}
#else
enum { FG_LAST_many_4 = 0 };
FG_NO_LAST(many_4)
#endif
#define FG_NARROW(NAME, W, T, N) \
typedef T fg_narrow_vec_##NAME __attribute__((vector_size(N * W), aligned(1), may_alias)); \
FG_SQUARE(NAME, fg_narrow_vec_##NAME, N) \
static void fg_columns_##NAME(void *dst, int64_t ld, const void *src, int64_t rows, int64_t n) { \
    char *d = (char *)dst; const char *s = (const char *)src; \
    int64_t r = 0, whole = n >= N ? n : N; \
    for (; r < rows; ) { \
        if (r + N > rows && r && n >= N) r = rows - N; \
        if ((r + N - 1) * n + whole > rows * n) break; \
        for (int64_t c = 0; c < n; c += N) { \
            fg_narrow_vec_##NAME v[N]; \
            if (c && n - c <= FG_LAST_##NAME) { fg_last_##NAME(d + ((n - FG_LAST_##NAME) * ld + r) * W, ld, s + ((r + 1) * n - FG_LAST_##NAME) * W, n); break; } \
            if (c + N > n && n >= N) c = n - N; \
            for (int i = 0; i < N; i++) v[i] = *(const fg_narrow_vec_##NAME *)(s + ((r + i) * n + c) * W); \
            fg_square_##NAME(v); \
            for (int i = 0; i < N; i++) if (n >= N || i < n) *(fg_narrow_vec_##NAME *)(d + ((c + i) * ld + r) * W) = v[i]; \
        } \
        r += N; \
    } \
    for (; r < rows; r++) for (int64_t c = 0; c < n; c++) memcpy(d + (c * ld + r) * W, s + (r * n + c) * W, W); \
} \
static void fg_rows_##NAME(void *dst, const void *src, int64_t ld, int64_t rows, int64_t n) { \
    char *d = (char *)dst; const char *s = (const char *)src; \
    int64_t r = 0, whole = n >= N ? n : N; \
    for (; r < rows; ) { \
        if (r + N > rows && r && n >= N) r = rows - N; \
        if ((r + N - 1) * n + whole > rows * n) break; \
        for (int64_t c = 0; c < n; c += N) { \
            fg_narrow_vec_##NAME v[N]; \
            if (c + N > n && n >= N) c = n - N; \
            for (int i = 0; i < N; i++) if (n >= N || i < n) v[i] = *(const fg_narrow_vec_##NAME *)(s + ((c + i) * ld + r) * W); \
                else v[i] = v[0]; \
            fg_square_##NAME(v); \
            for (int i = 0; i < N; i++) *(fg_narrow_vec_##NAME *)(d + ((r + i) * n + c) * W) = v[i]; \
        } \
        r += N; \
    } \
    for (; r < rows; r++) for (int64_t c = 0; c < n; c++) memcpy(d + (r * n + c) * W, s + (c * ld + r) * W, W); \
}
/* The cases of short rows: the compiler's own loops, or vectors for items of 4 and 8 bytes where there are such. */
#define FG_NARROW_INTO(W, name, n, d, ld, s, rows) case n: { \
    fg_narrow##W *to[n]; for (int c = 0; c < n; c++) to[c] = d + c * ld; \
    fg_columns_##name##_##W(to, s, rows); return; }
#define FG_NARROW_FROM(W, name, n, d, s, ld, rows) case n: { \
    const fg_narrow##W *from[n]; for (int c = 0; c < n; c++) from[c] = s + c * ld; \
    fg_rows_##name##_##W(d, from, rows); return; }
#define FG_NARROW_LOOP(W, name, n, ...) case n: fg_##name##_few_##W(__VA_ARGS__, n); return;
#define FG_NARROW_LOOPS_columns(W, ...) FG_NARROW_LOOP(W, columns, 2, __VA_ARGS__) FG_NARROW_LOOP(W, columns, 3, __VA_ARGS__) \
    FG_NARROW_LOOP(W, columns, 4, __VA_ARGS__)
#define FG_NARROW_LOOPS_rows(W, ...) FG_NARROW_LOOP(W, rows, 3, __VA_ARGS__) FG_NARROW_LOOP(W, rows, 5, __VA_ARGS__) FG_NARROW_LOOP(W, rows, 7, __VA_ARGS__)
#define FG_NARROW_VECTORS_columns(W, ...) FG_NARROW_INTO(W, two, 2, __VA_ARGS__) FG_NARROW_INTO(W, odd3, 3, __VA_ARGS__) \
    FG_NARROW_INTO(W, four, 4, __VA_ARGS__) FG_NARROW_INTO(W, odd5, 5, __VA_ARGS__) FG_NARROW_INTO(W, odd7, 7, __VA_ARGS__)
#define FG_NARROW_VECTORS_rows(W, ...) FG_NARROW_FROM(W, odd3, 3, __VA_ARGS__) FG_NARROW_FROM(W, odd5, 5, __VA_ARGS__) FG_NARROW_FROM(W, odd7, 7, __VA_ARGS__)
#if FG_NARROW_VECTORS
#define FG_NARROW_SHORT_4(name, ...) FG_NARROW_VECTORS_##name(4, __VA_ARGS__)
#define FG_NARROW_SHORT_8(name, ...) FG_NARROW_VECTORS_##name(8, __VA_ARGS__)
#else
#define FG_NARROW_SHORT_4(name, ...) FG_NARROW_LOOPS_##name(4, __VA_ARGS__)
#define FG_NARROW_SHORT_8(name, ...) FG_NARROW_LOOPS_##name(8, __VA_ARGS__)
#endif
#define FG_NARROW_SHORT_1(name, ...) FG_NARROW_LOOPS_##name(1, __VA_ARGS__)
#define FG_NARROW_SHORT_2(name, ...) FG_NARROW_LOOPS_##name(2, __VA_ARGS__)
#define FG_NARROW_SHORT(W, name, ...) FG_NARROW_SHORT_##W(name, __VA_ARGS__)
/* Rows shorter than a block; of columns only some, blocks are 1.5 to 4 times as fast as the compiler's loops beyond four. */
#define FG_NARROW_FEW(W, T) \
static inline __attribute__((always_inline)) void fg_columns_few_##W(T *restrict d, int64_t ld, const T *restrict s, int64_t rows, int n) { \
    for (int64_t r = 0; r < rows; r++) for (int c = 0; c < n; c++) d[c * ld + r] = s[r * n + c]; \
} \
static inline __attribute__((always_inline)) void fg_rows_few_##W(T *restrict d, const T *restrict s, int64_t ld, int64_t rows, int n) { \
    for (int64_t r = 0; r < rows; r++) for (int c = 0; c < n; c++) d[r * n + c] = s[c * ld + r]; \
} \
static void fg_columns_##W(void *dst, int64_t ld, const void *src, int64_t rows, int64_t n) { \
    T *d = (T *)dst; const T *s = (const T *)src; \
    switch (n) { \
        case 1: fg_columns_few_##W(d, ld, s, rows, 1); return; \
        FG_NARROW_SHORT(W, columns, d, ld, s, rows) \
        default: fg_columns_many_##W(dst, ld, src, rows, n); \
    } \
} \
static void fg_rows_##W(void *dst, const void *src, int64_t ld, int64_t rows, int64_t n) { \
    T *d = (T *)dst; const T *s = (const T *)src; \
    switch (n) { \
        case 1: fg_rows_few_##W(d, s, ld, rows, 1); return; case 2: fg_rows_few_##W(d, s, ld, rows, 2); return; \
        case 4: fg_rows_few_##W(d, s, ld, rows, 4); return; case 6: fg_rows_few_##W(d, s, ld, rows, 6); return; \
        FG_NARROW_SHORT(W, rows, d, s, ld, rows) \
        default: fg_rows_many_##W(dst, src, ld, rows, n); \
    } \
}
FG_NARROW(many_1, 1, uint8_t, 16)
FG_NARROW(many_2, 2, uint16_t, 8)
#ifdef __AVX2__
FG_NARROW(many_4, 4, uint32_t, 8)
FG_NARROW(many_8, 8, uint64_t, 4)
#else
FG_NARROW(many_4, 4, uint32_t, 4)
FG_NARROW(many_8, 8, uint64_t, 2)
#endif
FG_NARROW_FEW(1, uint8_t)
FG_NARROW_FEW(2, fg_narrow2)
FG_NARROW_FEW(4, fg_narrow4)
FG_NARROW_FEW(8, fg_narrow8)
#endif
