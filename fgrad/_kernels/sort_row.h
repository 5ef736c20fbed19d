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
#define FG_LANES_WITH(h) ((h) == 1 ? 0xaaaa : (h) == 2 ? 0xcccc : (h) == 4 ? 0xf0f0 : 0xff00)
#define FG_PARTED_u32(x, y, upper, h) \
    ((fg_row_u32)_mm512_mask_max_epu32((__m512i)FG_LEAST_u32(x, y), FG_LANES_WITH(h), (__m512i)(x), (__m512i)(y)))
#define FG_PARTED_u64(x, y, upper, h) \
    ((fg_row_u64)_mm512_mask_max_epu64((__m512i)FG_LEAST_u64(x, y), FG_LANES_WITH(h) & 0xff, (__m512i)(x), (__m512i)(y)))
#elif defined(__AVX2__)
#include <immintrin.h>
/* Keys of 64 bits are compared as signed numbers, which they are made (FG_ROW_SIGNED) before the first comparison. */
#define FG_LEAST_u32(x, y) ((fg_row_u32)_mm256_min_epu32((__m256i)(x), (__m256i)(y)))
#define FG_MOST_u32(x, y) ((fg_row_u32)_mm256_max_epu32((__m256i)(x), (__m256i)(y)))
#define FG_EITHER_u64(x, y, second) ((fg_row_u64)_mm256_blendv_pd((__m256d)(x), (__m256d)(y), (__m256d)(second)))
#define FG_GREATER_u64(x, y) _mm256_cmpgt_epi64((__m256i)(x), (__m256i)(y))
#define FG_LEAST_u64(x, y) FG_EITHER_u64(x, y, FG_GREATER_u64(x, y))
#define FG_MOST_u64(x, y) FG_EITHER_u64(y, x, FG_GREATER_u64(x, y))
#define FG_BY_LANES_u32(least, most, h) ((h) == 1 ? _mm256_blend_epi32(least, most, 0xaa) : (h) == 2 ? _mm256_blend_epi32(least, most, 0xcc) : \
    _mm256_blend_epi32(least, most, 0xf0))
#define FG_PARTED_u32(x, y, upper, h) ((fg_row_u32)FG_BY_LANES_u32((__m256i)FG_LEAST_u32(x, y), (__m256i)FG_MOST_u32(x, y), h))
#define FG_PARTED_u64(x, y, upper, h) FG_EITHER_u64(x, y, (fg_row_u64)FG_GREATER_u64(x, y) ^ (upper))
#define FG_ROW_SIGNED_u64(a, m) for (int i_ = 0; i_ < (m); i_++) (a)[i_] ^= 0x8000000000000000u;
#else
#define FG_LEAST_u32(x, y) ({ fg_row_u32 first_ = (fg_row_u32)((x) < (y)); ((x) & first_) | ((y) & ~first_); })
#define FG_MOST_u32(x, y) ({ fg_row_u32 first_ = (fg_row_u32)((x) < (y)); ((y) & first_) | ((x) & ~first_); })
#define FG_LEAST_u64(x, y) ({ fg_row_u64 first_ = (fg_row_u64)((x) < (y)); ((x) & first_) | ((y) & ~first_); })
#define FG_MOST_u64(x, y) ({ fg_row_u64 first_ = (fg_row_u64)((x) < (y)); ((y) & first_) | ((x) & ~first_); })
#define FG_PARTED_u32(x, y, upper, h) ({ fg_row_u32 first_ = (fg_row_u32)((x) < (y)) ^ (upper); ((x) & first_) | ((y) & ~first_); })
#define FG_PARTED_u64(x, y, upper, h) ({ fg_row_u64 first_ = (fg_row_u64)((x) < (y)) ^ (upper); ((x) & first_) | ((y) & ~first_); })
#endif
#define FG_ROW_SIGNED_u32(a, m)
#ifndef FG_ROW_SIGNED_u64
#define FG_ROW_SIGNED_u64(a, m)
#endif

#define FG_ORDER2(t, x, y) { fg_row_##t least_ = FG_LEAST_##t(x, y), most_ = FG_MOST_##t(x, y); x = least_; y = most_; }
/* NAME: of any number of vectors, or of one that is known where it is inlined, whose loops are unrolled so that vectors stay in registers. */
#define FG_ROW_NETWORK(t, L, NAME, FN, UNROLL) \
/* the rest of a merge along the rows of blocks of 2k: elements k, k/2, ..., `unit` (1 or 3) apart, three distances a pass, then within units */ \
FN void fg_merge_rows_##NAME(fg_row_##t *a, int m, int k, int unit) { \
    UNROLL for (; k >= 4 * unit; k /= 8) \
        UNROLL for (int b = 0; b < m; b += 2 * k) UNROLL for (int i = b, h = k / 4; i < b + h; i++) { \
            fg_row_##t s = a[i], u = a[i + h], v = a[i + 2 * h], w = a[i + 3 * h]; \
            fg_row_##t x = a[i + 4 * h], y = a[i + 5 * h], z = a[i + 6 * h], o = a[i + 7 * h]; \
            FG_ORDER2(t, s, x) FG_ORDER2(t, u, y) FG_ORDER2(t, v, z) FG_ORDER2(t, w, o) \
            FG_ORDER2(t, s, v) FG_ORDER2(t, u, w) FG_ORDER2(t, x, z) FG_ORDER2(t, y, o) \
            FG_ORDER2(t, s, u) FG_ORDER2(t, v, w) FG_ORDER2(t, x, y) FG_ORDER2(t, z, o) \
            a[i] = s; a[i + h] = u; a[i + 2 * h] = v; a[i + 3 * h] = w; \
            a[i + 4 * h] = x; a[i + 5 * h] = y; a[i + 6 * h] = z; a[i + 7 * h] = o; \
        } \
    if (k == 2 * unit) UNROLL for (int b = 0; b < m; b += 4 * unit) UNROLL for (int i = b; i < b + unit; i++) { \
        fg_row_##t w = a[i], x = a[i + unit], y = a[i + k], z = a[i + k + unit]; \
        FG_ORDER2(t, w, y) FG_ORDER2(t, x, z) FG_ORDER2(t, w, x) FG_ORDER2(t, y, z) \
        a[i] = w; a[i + unit] = x; a[i + k] = y; a[i + k + unit] = z; \
    } \
    if (k == unit) UNROLL for (int b = 0; b < m; b += 2 * unit) UNROLL for (int i = b; i < b + unit; i++) FG_ORDER2(t, a[i], a[i + unit]) \
    if (unit == 3) UNROLL for (int b = 0; b < m; b += 3) { \
        fg_row_##t x = a[b], y = a[b + 1], z = a[b + 2]; \
        FG_ORDER2(t, x, z) FG_ORDER2(t, x, y) FG_ORDER2(t, y, z) \
        a[b] = x; a[b + 1] = y; a[b + 2] = z; \
    } \
} \
/* merges of neighbouring blocks of s / 2 rows: the second one's elements meet the first one's in reverse, and elements s / 4 apart each other */ \
FN void fg_merge_blocks_##NAME(fg_row_##t *a, int m, int s, int unit) { \
    UNROLL for (int b = 0; b < m; b += s) UNROLL for (int i = b, e = b + s - 1, q = s / 4; i < b + q; i++, e--) { \
        fg_row_##t w = a[i], x = a[i + q], y = a[e - q], z = a[e]; \
        FG_ORDER2(t, w, z) FG_ORDER2(t, x, y) FG_ORDER2(t, w, x) FG_ORDER2(t, y, z) \
        a[i] = w; a[i + q] = x; a[e - q] = y; a[e] = z; \
    } \
    fg_merge_rows_##NAME(a, m, s / 8 < unit ? 0 : s / 8, unit); \
} \
/* merges of neighbouring sequences, of g / 2 lanes each, m a lane: the second one's elements meet the first one's in reverse */ \
FG_INLINE void fg_merge_lanes_##NAME(fg_row_##t *a, int m, int g, int unit) { \
    UNROLL for (int i = 0; i < m / 2; i++) { \
        fg_row_##t x = a[i], y = a[m - 1 - i], p = fg_cross_##t(x, g - 1), q = fg_cross_##t(y, g - 1); \
        x = fg_parted_##t(x, q, g / 2); \
        y = fg_parted_##t(y, p, g / 2); \
        _Pragma("GCC unroll 4") for (int d = g / 4; d >= 1; d /= 2) { \
            p = fg_cross_##t(x, d); q = fg_cross_##t(y, d); \
            x = fg_parted_##t(x, p, d); \
            y = fg_parted_##t(y, q, d); \
        } \
        a[i] = x; a[m - 1 - i] = y; \
    } \
    fg_merge_rows_##NAME(a, m, m / 2, unit); \
} \
/* m rows of a, every lane, then lanes together */ \
FN void fg_sort_vectors_##NAME(fg_row_##t *a, int m, int unit) { \
    fg_merge_rows_##NAME(a, m, unit == 3 ? 0 : 1, unit);            /* pairs, or threes and pairs of them */ \
    if (unit == 3) UNROLL for (int b = 0; b < m; b += 6) UNROLL for (int i = 0; i < 3; i++) FG_ORDER2(t, a[b + i], a[b + 5 - i]) \
    if (unit == 3) fg_merge_rows_##NAME(a, m, 0, 3); \
    UNROLL for (int s = 4 * unit; s <= m; s *= 2) fg_merge_blocks_##NAME(a, m, s, unit); \
    fg_merge_lanes_##NAME(a, m, 2, unit); \
    if (L >= 4) fg_merge_lanes_##NAME(a, m, 4, unit); \
    if (L >= 8) fg_merge_lanes_##NAME(a, m, 8, unit); \
    if (L >= 16) fg_merge_lanes_##NAME(a, m, 16, unit); \
}
#if defined(__AVX2__) && !defined(__AVX512F__)
/* Vectors straight from the keys, where calls of memcpy and memset would leave stores behind that a vector's load must wait for. */
static const int32_t fg_row_rest[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#define FG_ROW_LOAD(t, K, W, L) { \
    typedef fg_row_##t U_ __attribute__((aligned(1), may_alias)); \
    const int64_t full_ = n / L, rest_ = n % L; \
    const __m256i some_ = _mm256_loadu_si256((const __m256i *)(fg_row_rest + 8 - rest_ * W / 4)); \
    _Pragma("GCC unroll 16") for (int i_ = 0; i_ < m; i_++) \
        a[i_] = i_ < full_ ? (fg_row_##t)*(const U_ *)(keys + i_ * L) : i_ > full_ ? ~(fg_row_##t){0} : \
            (fg_row_##t)_mm256_or_si256(_mm256_maskload_epi32((const int *)(keys + i_ * L), some_), ~some_); \
}
/* Up to as many vectors as there are registers. */
enum { FG_ROW_KNOWN = 16 };
#define FG_ROW_KNOWNS(t, K, W, L) \
FG_ROW_NETWORK(t, L, t##_known, FG_INLINE, _Pragma("GCC unroll 16")) \
FG_INLINE void fg_sort_known_##t(K *keys, int64_t n, int m, int unit) { FG_ROW_SORT(t, K, W, L, t##_known, FG_ROW_LOAD(t, K, W, L)) } \
static __attribute__((noinline)) void fg_sort_4_##t(K *keys, int64_t n) { fg_sort_known_##t(keys, n, 4, 1); } \
static __attribute__((noinline)) void fg_sort_6_##t(K *keys, int64_t n) { fg_sort_known_##t(keys, n, 6, 3); } \
static __attribute__((noinline)) void fg_sort_8_##t(K *keys, int64_t n) { fg_sort_known_##t(keys, n, 8, 1); } \
static __attribute__((noinline)) void fg_sort_12_##t(K *keys, int64_t n) { fg_sort_known_##t(keys, n, 12, 3); } \
static __attribute__((noinline)) void fg_sort_16_##t(K *keys, int64_t n) { fg_sort_known_##t(keys, n, 16, 1); }
#define FG_ROW_IF_KNOWN(t) switch (m) { \
    case 4: fg_sort_4_##t(keys, n); return; case 6: fg_sort_6_##t(keys, n); return; case 8: fg_sort_8_##t(keys, n); return; \
    case 12: fg_sort_12_##t(keys, n); return; case 16: fg_sort_16_##t(keys, n); return; default: break; \
}
#else
enum { FG_ROW_KNOWN = 0 };
#define FG_ROW_KNOWNS(t, K, W, L)
#define FG_ROW_IF_KNOWN(t)
#endif
/* Behind the keys come the greatest ones, which end there. */
#define FG_ROW_COPY(W, L) memset((char *)a + n * W, 0xff, (size_t)(m * L - n) * W); memcpy(a, keys, (size_t)n * W);
#define FG_ROW_SORT(t, K, W, L, NAME, LOAD) \
    fg_row_##t a[FG_ROW_VECTORS], turned[FG_ROW_VECTORS]; \
    LOAD \
    FG_ROW_SIGNED_##t(a, m) \
    fg_sort_vectors_##NAME(a, m, unit); \
    FG_ROW_SIGNED_##t(a, m) \
    fg_rows_##W(turned, a, L, L, m); \
    memcpy(keys, turned, (size_t)n * W);
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
/* the least of x and y in the lanes without bit h, the most in the others */ \
FG_INLINE fg_row_##t fg_parted_##t(fg_row_##t x, fg_row_##t y, int h) { \
    return FG_PARTED_##t(x, y, (fg_row_##t)((((const fg_row_##t){VEC_ORDER(FG_XOR, L)(0, L - 1)}) & (K)h) != 0), h); \
} \
FG_ROW_NETWORK(t, L, t, static, ) \
FG_ROW_KNOWNS(t, K, W, L) \
/* n <= FG_ROW_VECTORS * L keys, in place */ \
static void fg_sort_row_##t(K *keys, int64_t n) { \
    int m = 2, unit = 1; \
    while (m * L < n) m *= 2; \
    if (m >= 8 && m / 4 * 3 * L >= n) { m = m / 4 * 3; unit = 3; } \
    FG_ROW_IF_KNOWN(t) \
    FG_ROW_SORT(t, K, W, L, t, FG_ROW_COPY(W, L)) \
}
#define FG_SORT_ROW_OF(t, K, W, L) FG_SORT_ROW(t, K, W, L)
FG_SORT_ROW_OF(u32, uint32_t, 4, VEC_LANES_OF_f32)
FG_SORT_ROW_OF(u64, uint64_t, 8, VEC_LANES_OF_f64)

static int fg_fits_row(int64_t n, int bytes) { return n <= FG_ROW_VECTORS * FG_VEC / bytes; }
#endif
