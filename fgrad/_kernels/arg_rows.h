/* Where the maximum or minimum of a row of floats, or of columns, is, with AVX2. A long row is read at four places at once, as extremum.h does, by blocks whose vectors
 * are asked as a whole whether anything in them is better than what was found; a shorter one's extremum never leaves its register and is searched for. */
#ifndef FG_ARG_ROWS_H
#define FG_ARG_ROWS_H
#include "extremum.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#include <immintrin.h>
#define FG_ARG_LANES 1
enum { FG_ARG_BLOCK_BYTES = 1024, FG_ARG_LONG = 131072 };

/* BEATS, FIRST: that what is better is beyond; BELOW: where the order begins. `than`: what a block behind that of the best, and one in front of it,
 * has to be beyond: of equals the first counts. */
#define FG_ARG_ROW_OF(name, t, T, V, S, BEATS, FIRST, NEXT, BELOW) \
typedef struct { V than[2]; T best; int64_t where; } FgArgBest_##name##_##t; \
static inline void fg_arg_keep_##name##_##t(FgArgBest_##name##_##t *b, T best, int64_t where) { \
    b->best = best; b->where = where; \
    b->than[0] = _mm256_set1_##S(best); b->than[1] = _mm256_set1_##S(NEXT(best, BELOW)); \
} \
static inline __attribute__((always_inline)) void fg_arg_visit_##name##_##t(const T *s, int64_t at, FgArgBest_##name##_##t *best) { \
    enum { L = 32 / sizeof(T), BLOCK = FG_ARG_BLOCK_BYTES / sizeof(T) }; \
    const T *p = s + at; \
    V a = _mm256_loadu_##S(p), b = _mm256_loadu_##S(p + L), c = _mm256_loadu_##S(p + 2 * L), e = _mm256_loadu_##S(p + 3 * L); \
    V sa = _mm256_add_##S(a, b), sb = _mm256_add_##S(c, e); \
    _Pragma("GCC unroll 7") for (int j = 4 * L; j < BLOCK; j += 4 * L) { \
        V w = _mm256_loadu_##S(p + j), x = _mm256_loadu_##S(p + j + L), y = _mm256_loadu_##S(p + j + 2 * L), z = _mm256_loadu_##S(p + j + 3 * L); \
        a = _mm256_##name##_##S(w, a); b = _mm256_##name##_##S(x, b); c = _mm256_##name##_##S(y, c); e = _mm256_##name##_##S(z, e); \
        sa = _mm256_add_##S(sa, w); sb = _mm256_add_##S(sb, x); sa = _mm256_add_##S(sa, y); sb = _mm256_add_##S(sb, z); \
    } \
    a = _mm256_##name##_##S(_mm256_##name##_##S(a, b), _mm256_##name##_##S(c, e)); \
    sa = _mm256_add_##S(sa, sb);                                              /* tells of a NaN, which may hide from a */ \
    const V better = _mm256_or_##S(_mm256_cmp_##S(a, best->than[at < best->where], BEATS), _mm256_cmp_##S(sa, sa, _CMP_UNORD_Q)); \
    if (__builtin_expect(_mm256_movemask_##S(better) == 0, 1)) return; \
    const T top = fg_row_##name##_##t(p, BLOCK); \
    const int before = at < best->where, none = top != top; \
    if (best->best == best->best ? none || top FIRST best->best || (before && top == best->best) : none && before) fg_arg_keep_##name##_##t(best, top, at); \
} \
/* 1 if where the row's extremum is was found: no NaN is in it, and it is of four vectors at least */ \
static inline int fg_arg_short_##t##_##name(const T *s, int64_t n, int64_t *where) { \
    enum { L = 32 / sizeof(T) }; \
    const int64_t apart = FG_QUARTER(n, T, L) * L, step = apart == L ? 4 * L : L; \
    const T *p = s + step; \
    V a = _mm256_loadu_##S(s), b = _mm256_loadu_##S(s + apart), c = _mm256_loadu_##S(s + 2 * apart), e = _mm256_loadu_##S(s + 3 * apart), sa = a, sb = b, sc = c, se = e; \
    int64_t i = 4 * L; \
    for (; i + 4 * L <= n; i += 4 * L, p += step) { \
        const V w = _mm256_loadu_##S(p), x = _mm256_loadu_##S(p + apart), y = _mm256_loadu_##S(p + 2 * apart), z = _mm256_loadu_##S(p + 3 * apart); \
        a = _mm256_##name##_##S(w, a); b = _mm256_##name##_##S(x, b); c = _mm256_##name##_##S(y, c); e = _mm256_##name##_##S(z, e); \
        sa = _mm256_add_##S(sa, w); sb = _mm256_add_##S(sb, x); sc = _mm256_add_##S(sc, y); se = _mm256_add_##S(se, z); \
    } \
    for (; i < n; i += L) {                                                   /* the last one overlaps its neighbour */ \
        const V w = _mm256_loadu_##S(s + (i + L <= n ? i : n - L)); \
        a = _mm256_##name##_##S(w, a); sa = _mm256_add_##S(sa, w); \
    } \
    sa = _mm256_add_##S(_mm256_add_##S(sa, sb), _mm256_add_##S(sc, se)); \
    if (_mm256_movemask_##S(_mm256_cmp_##S(sa, sa, _CMP_UNORD_Q))) return 0; \
    a = _mm256_##name##_##S(_mm256_##name##_##S(a, b), _mm256_##name##_##S(c, e)); \
    a = _mm256_##name##_##S(a, _mm256_permute2f128_##S(a, a, 1)); \
    if (L == 8) a = _mm256_##name##_##S(a, (V)_mm256_shuffle_epi32((__m256i)a, 0xb1)); \
    a = _mm256_##name##_##S(a, (V)_mm256_shuffle_epi32((__m256i)a, 0x4e)); \
    for (i = 0; i + 4 * L <= n; i += 4 * L) { \
        const V w = _mm256_cmp_##S(_mm256_loadu_##S(s + i), a, _CMP_EQ_OQ), x = _mm256_cmp_##S(_mm256_loadu_##S(s + i + L), a, _CMP_EQ_OQ); \
        const V y = _mm256_cmp_##S(_mm256_loadu_##S(s + i + 2 * L), a, _CMP_EQ_OQ), z = _mm256_cmp_##S(_mm256_loadu_##S(s + i + 3 * L), a, _CMP_EQ_OQ); \
        if (_mm256_movemask_##S(_mm256_or_##S(_mm256_or_##S(w, x), _mm256_or_##S(y, z)))) { \
            *where = i + __builtin_ctz(_mm256_movemask_##S(w) | _mm256_movemask_##S(x) << L | _mm256_movemask_##S(y) << 2 * L \
                                       | (unsigned)_mm256_movemask_##S(z) << 3 * L); \
            return 1; \
        } \
    } \
    for (;; i += L) { \
        if (i + L > n) i = n - L;                                              /* overlaps its neighbour, where it is not */ \
        const int equal = _mm256_movemask_##S(_mm256_cmp_##S(_mm256_loadu_##S(s + i), a, _CMP_EQ_OQ)); \
        if (equal) { *where = i + __builtin_ctz(equal); return 1; } \
    } \
} \
/* 2, and the extremum's place, or 1, the extremum and the first place of its block; 0 for rows of few vectors or with NaN */ \
static int fg_arg_find_##t##_##name(const T *s, int64_t n, T *best, int64_t *where) { \
    enum { BLOCK = FG_ARG_BLOCK_BYTES / sizeof(T) }; \
    FgArgBest_##name##_##t found; \
    const int64_t quarter = n / (4 * BLOCK) * BLOCK; \
    if (n * (int64_t)sizeof(T) < FG_ARG_LONG) return n * (int64_t)sizeof(T) >= 128 && fg_arg_short_##t##_##name(s, n, where) ? 2 : 0; \
    fg_arg_keep_##name##_##t(&found, s[0], 0); \
    for (int64_t i = 0; i < quarter; i += BLOCK) for (int k = 0; k < 4; k++) fg_arg_visit_##name##_##t(s, k * quarter + i, &found); \
    for (int64_t i = 4 * quarter; i < n; i += BLOCK)                          /* the last one overlaps its neighbour */ \
        fg_arg_visit_##name##_##t(s, i + BLOCK <= n ? i : n - BLOCK, &found); \
    *best = found.best; *where = found.where; \
    return 1; \
}
FG_ARG_ROW_OF(max, f32, float, __m256, ps, _CMP_GT_OQ, >, nextafterf, -INFINITY)
FG_ARG_ROW_OF(min, f32, float, __m256, ps, _CMP_LT_OQ, <, nextafterf, INFINITY)
FG_ARG_ROW_OF(max, f64, double, __m256d, pd, _CMP_GT_OQ, >, nextafter, -INFINITY)
FG_ARG_ROW_OF(min, f64, double, __m256d, pd, _CMP_LT_OQ, <, nextafter, INFINITY)
/* Columns: the best of four vectors of them and the rows where those are, in registers for some rows of all columns, or for all of a few rows. The last four
 * vectors overlap those in front, which find nothing better again. NOT: that what is compared is first in the order, or NaN. 0 for fewer columns. */
enum { FG_ARG_FEW_ROWS = 32, FG_ARG_SOME_ROWS = 8 };
#define FG_ARG_COLUMN(V, S, j, NOT) { \
    const V v_ = _mm256_loadu_##S(p + j * L), take_ = _mm256_and_##S(_mm256_cmp_##S(v_, b##j, NOT), _mm256_cmp_##S(b##j, b##j, _CMP_ORD_Q)); \
    b##j = _mm256_blendv_##S(b##j, v_, take_); \
    w##j = _mm256_blendv_##S(w##j, k, take_); \
}
#define FG_ARG_COLUMNS_OF(name, t, T, I, V, S, SET, ADD, NOT) \
static int fg_arg_columns_##t##_##name(const T *s, int64_t n, int64_t inner, int64_t width, T *best, I *where) { \
    enum { L = 32 / sizeof(T), STRIP = 4 * L }; \
    const int64_t rows = n <= FG_ARG_FEW_ROWS ? n : FG_ARG_SOME_ROWS; \
    const __m256i one = SET(1); \
    if (width < STRIP) return 0; \
    for (int64_t r = 0; r < n; r += rows) for (int64_t strip = 0; strip < width; strip += STRIP) { \
        const int64_t c = strip + STRIP <= width ? strip : width - STRIP, end = r + rows < n ? r + rows : n; \
        T *to = best + c; I *at = where + c; \
        const T *first = r ? to : s + c, *p = s + (r ? r : 1) * inner + c; \
        V b0 = _mm256_loadu_##S(first), b1 = _mm256_loadu_##S(first + L), b2 = _mm256_loadu_##S(first + 2 * L), b3 = _mm256_loadu_##S(first + 3 * L); \
        V w0 = _mm256_setzero_##S(), w1 = w0, w2 = w0, w3 = w0, k = (V)SET(r ? r : 1); \
        if (r) { \
            const T *from = (const T *)at; \
            w0 = _mm256_loadu_##S(from); w1 = _mm256_loadu_##S(from + L); w2 = _mm256_loadu_##S(from + 2 * L); w3 = _mm256_loadu_##S(from + 3 * L); \
        } \
        for (int64_t i = r ? r : 1; i < end; i++, p += inner, k = (V)ADD((__m256i)k, one)) { \
            FG_ARG_COLUMN(V, S, 0, NOT) FG_ARG_COLUMN(V, S, 1, NOT) FG_ARG_COLUMN(V, S, 2, NOT) FG_ARG_COLUMN(V, S, 3, NOT) \
        } \
        _mm256_storeu_##S(to, b0); _mm256_storeu_##S(to + L, b1); _mm256_storeu_##S(to + 2 * L, b2); _mm256_storeu_##S(to + 3 * L, b3); \
        T *kept = (T *)at; \
        _mm256_storeu_##S(kept, w0); _mm256_storeu_##S(kept + L, w1); _mm256_storeu_##S(kept + 2 * L, w2); _mm256_storeu_##S(kept + 3 * L, w3); \
    } \
    return 1; \
}
FG_ARG_COLUMNS_OF(max, f32, float, int32_t, __m256, ps, _mm256_set1_epi32, _mm256_add_epi32, _CMP_NLE_UQ)
FG_ARG_COLUMNS_OF(min, f32, float, int32_t, __m256, ps, _mm256_set1_epi32, _mm256_add_epi32, _CMP_NGE_UQ)
FG_ARG_COLUMNS_OF(max, f64, double, int64_t, __m256d, pd, _mm256_set1_epi64x, _mm256_add_epi64, _CMP_NLE_UQ)
FG_ARG_COLUMNS_OF(min, f64, double, int64_t, __m256d, pd, _mm256_set1_epi64x, _mm256_add_epi64, _CMP_NGE_UQ)
/* Bytes, with how many rows are still to come, of 256, behind them: one maximum of 16 bits finds both, and of equals the first one. `turn` brings the best to the
 * top of the order without signs. The last columns overlap those in front; 0 for fewer than a strip of fg_arg_tile. */
enum { FG_ARG_BYTE_ROWS = 256, FG_ARG_BYTE_COLUMNS = 128 };
static int fg_arg_columns_bytes(const void *src, int64_t n, int64_t inner, int64_t width, int32_t *where, char turn) {
    const __m256i turned = _mm256_set1_epi8(turn), low = _mm256_set1_epi16(255);
    if (n > FG_ARG_BYTE_ROWS || width < FG_ARG_BYTE_COLUMNS) return 0;
    for (int64_t strip = 0; strip < width; strip += 32) {
        const int64_t c = strip + 32 <= width ? strip : width - 32;
        const char *s = (const char *)src + c;
        __m256i a = _mm256_setzero_si256(), b = a;
        for (int64_t k = 0; k < n; k++, s += inner) {
            const __m256i v = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)s), turned), left = _mm256_set1_epi8((char)(255 - k));
            a = _mm256_max_epu16(a, _mm256_unpacklo_epi8(left, v));           /* columns 0 to 7 and 16 to 23 */
            b = _mm256_max_epu16(b, _mm256_unpackhi_epi8(left, v));
        }
        a = _mm256_andnot_si256(a, low); b = _mm256_andnot_si256(b, low);
        __m256i *at = (__m256i *)(where + c);
        _mm256_storeu_si256(at, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)));
        _mm256_storeu_si256(at + 1, _mm256_cvtepu16_epi32(_mm256_castsi256_si128(b)));
        _mm256_storeu_si256(at + 2, _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
        _mm256_storeu_si256(at + 3, _mm256_cvtepu16_epi32(_mm256_extracti128_si256(b, 1)));
    }
    return 1;
}
#define fg_arg_columns_u8_max(s, n, inner, width, best, where) fg_arg_columns_bytes(s, n, inner, width, where, 0)
#define fg_arg_columns_u8_min(s, n, inner, width, best, where) fg_arg_columns_bytes(s, n, inner, width, where, -1)
#define fg_arg_columns_i8_max(s, n, inner, width, best, where) fg_arg_columns_bytes(s, n, inner, width, where, -128)
#define fg_arg_columns_i8_min(s, n, inner, width, best, where) fg_arg_columns_bytes(s, n, inner, width, where, 127)
#else
#define FG_ARG_LANES 0
#endif
#endif
