/* One row of a hundred to a thousand keys: laid out as rows of a vector each, of which lane after lane is sorted by a bitonic network (minima
 * and maxima of whole vectors), and lanes are merged, two, four, ... at a time, by the same network with lanes exchanged. */
#ifndef FG_SORT_ROW_H
#define FG_SORT_ROW_H
#include "narrow.h"
#include "vec.h"
#include "vec_order.h"

enum { FG_ROW_VECTORS = 64 };           /* at most; longer rows are faster by radix */

#define FG_XOR2(d, m) (0 ^ (d)) & (m), (1 ^ (d)) & (m)
#define FG_XOR4(d, m) FG_XOR2(d, m), (2 ^ (d)) & (m), (3 ^ (d)) & (m)
#define FG_XOR8(d, m) FG_XOR4(d, m), (4 ^ (d)) & (m), (5 ^ (d)) & (m), (6 ^ (d)) & (m), (7 ^ (d)) & (m)
#define FG_XOR16(d, m) FG_XOR8(d, m), (8 ^ (d)) & (m), (9 ^ (d)) & (m), (10 ^ (d)) & (m), (11 ^ (d)) & (m), (12 ^ (d)) & (m), (13 ^ (d)) & (m), \
    (14 ^ (d)) & (m), (15 ^ (d)) & (m)
#ifdef __AVX512F__
#define FG_LEAST_u32(x, y) ((fg_row_u32)_mm512_min_epu32((__m512i)(x), (__m512i)(y)))
#define FG_MOST_u32(x, y) ((fg_row_u32)_mm512_max_epu32((__m512i)(x), (__m512i)(y)))
#define FG_LEAST_u64(x, y) ((fg_row_u64)_mm512_min_epu64((__m512i)(x), (__m512i)(y)))
#define FG_MOST_u64(x, y) ((fg_row_u64)_mm512_max_epu64((__m512i)(x), (__m512i)(y)))
#else
#define FG_LEAST_u32(x, y) ({ fg_row_u32 first_ = (fg_row_u32)((x) < (y)); ((x) & first_) | ((y) & ~first_); })
#define FG_MOST_u32(x, y) ({ fg_row_u32 first_ = (fg_row_u32)((x) < (y)); ((y) & first_) | ((x) & ~first_); })
#define FG_LEAST_u64(x, y) ({ fg_row_u64 first_ = (fg_row_u64)((x) < (y)); ((x) & first_) | ((y) & ~first_); })
#define FG_MOST_u64(x, y) ({ fg_row_u64 first_ = (fg_row_u64)((x) < (y)); ((y) & first_) | ((x) & ~first_); })
#endif

#define FG_ORDER2(t, x, y) { fg_row_##t least_ = FG_LEAST_##t(x, y), most_ = FG_MOST_##t(x, y); x = least_; y = most_; }
#define FG_SORT_ROW(t, K, W, L) \
typedef K fg_row_##t __attribute__((vector_size(FG_VEC))); \
/* lanes i ^ d */ \
FG_INLINE fg_row_##t fg_cross_##t(fg_row_##t x, int d) { \
    switch (d) { \
        case 1: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(1, L - 1)); \
        case 2: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(2, L - 1)); \
        case 3: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(3, L - 1)); \
        case 4: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(4, L - 1)); \
        case 7: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(7, L - 1)); \
        default: return __builtin_shufflevector(x, x, VEC_ORDER(FG_XOR, L)(15, L - 1)); \
    } \
} \
/* the lanes of `most` with bit h, of `least` without it */ \
FG_INLINE fg_row_##t fg_parted_##t(fg_row_##t least, fg_row_##t most, int h) { \
    const fg_row_##t lane = {VEC_ORDER(FG_XOR, L)(0, L - 1)}; \
    fg_row_##t upper = (fg_row_##t)((lane & (K)h) != 0); \
    return (least & ~upper) | (most & upper); \
} \
/* the rest of a merge along the rows of blocks of 2k: elements k, k/2, ..., 1 apart, two distances a pass */ \
static void fg_merge_rows_##t(fg_row_##t *a, int m, int k) { \
    for (; k >= 2; k /= 4) \
        for (int b = 0; b < m; b += 2 * k) for (int i = b, h = k / 2; i < b + h; i++) { \
            fg_row_##t w = a[i], x = a[i + h], y = a[i + k], z = a[i + k + h]; \
            FG_ORDER2(t, w, y) FG_ORDER2(t, x, z) FG_ORDER2(t, w, x) FG_ORDER2(t, y, z) \
            a[i] = w; a[i + h] = x; a[i + k] = y; a[i + k + h] = z; \
        } \
    if (k == 1) for (int i = 0; i < m; i += 2) FG_ORDER2(t, a[i], a[i + 1]) \
} \
/* merges of neighbouring sequences, of g / 2 lanes each, m a lane: the second one's elements meet the first one's in reverse */ \
FG_INLINE void fg_merge_lanes_##t(fg_row_##t *a, int m, int g) { \
    for (int i = 0; i < m / 2; i++) { \
        fg_row_##t x = a[i], y = a[m - 1 - i], p = fg_cross_##t(x, g - 1), q = fg_cross_##t(y, g - 1); \
        x = fg_parted_##t(FG_LEAST_##t(x, q), FG_MOST_##t(x, q), g / 2); \
        y = fg_parted_##t(FG_LEAST_##t(y, p), FG_MOST_##t(y, p), g / 2); \
        _Pragma("GCC unroll 4") for (int d = g / 4; d >= 1; d /= 2) { \
            p = fg_cross_##t(x, d); q = fg_cross_##t(y, d); \
            x = fg_parted_##t(FG_LEAST_##t(x, p), FG_MOST_##t(x, p), d); \
            y = fg_parted_##t(FG_LEAST_##t(y, q), FG_MOST_##t(y, q), d); \
        } \
        a[i] = x; a[m - 1 - i] = y; \
    } \
    fg_merge_rows_##t(a, m, m / 2); \
} \
/* n <= FG_ROW_VECTORS * L keys, in place */ \
static void fg_sort_row_##t(K *keys, int64_t n) { \
    fg_row_##t a[FG_ROW_VECTORS], turned[FG_ROW_VECTORS]; \
    int m = 2; \
    while (m * L < n) m *= 2; \
    memset((char *)a + n * W, 0xff, (size_t)(m * L - n) * W);       /* the greatest keys, which end behind all others */ \
    memcpy(a, keys, (size_t)n * W); \
    for (int s = 2; s <= m; s *= 2) { \
        for (int b = 0; b < m; b += s) for (int i = 0; i < s / 2; i++) FG_ORDER2(t, a[b + i], a[b + s - 1 - i]) \
        fg_merge_rows_##t(a, m, s / 4); \
    } \
    fg_merge_lanes_##t(a, m, 2); \
    if (L >= 4) fg_merge_lanes_##t(a, m, 4); \
    if (L >= 8) fg_merge_lanes_##t(a, m, 8); \
    if (L >= 16) fg_merge_lanes_##t(a, m, 16); \
    fg_rows_##W(turned, a, L, L, m); \
    memcpy(keys, turned, (size_t)n * W); \
}
#define FG_SORT_ROW_OF(t, K, W, L) FG_SORT_ROW(t, K, W, L)
FG_SORT_ROW_OF(u32, uint32_t, 4, VEC_LANES_OF_f32)
FG_SORT_ROW_OF(u64, uint64_t, 8, VEC_LANES_OF_f64)

static int fg_fits_row(int64_t n, int bytes) { return n <= FG_ROW_VECTORS * FG_VEC / bytes; }
#endif
