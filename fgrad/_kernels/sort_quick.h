/* Quicksort of keys in vectors: a table's order of lanes puts the keys of a vector that are below a pivot in front of its others; the vector is
 * stored whole both where the range begins and where its workspace ends, and either store counts as far as its own kind goes. Ranges that fit are
 * sorted by a network (sort_row.h). After Bramas (2017), A novel hybrid quicksort algorithm vectorized using AVX-512, but out of place. */
#ifndef FG_SORT_QUICK_H
#define FG_SORT_QUICK_H
#include "sort_row.h"

#ifdef __AVX2__
#define FG_SORT_QUICK 1
#include "lanes.h"
enum { FG_QUICK_SAMPLE = 64 };

#define FG_PART_u32(v, m) _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(FG_LANES(fg_lanes_of, m)))
#define FG_LOAD_u32 FG_LOAD_256
#define FG_STORE_u32 FG_STORE_256
#ifdef __AVX512VL__
#define FG_BOUND_u32(b) _mm256_set1_epi32((int)(b))
#define FG_BELOW_u32(v, b) ((uint32_t)_mm256_cmplt_epu32_mask(v, b))
#else                                                                   /* only signed numbers are compared */
#define FG_BOUND_u32(b) _mm256_set1_epi32((int)((b) ^ 0x80000000u))
#define FG_BELOW_u32(v, b) \
    ((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(b, _mm256_xor_si256(v, _mm256_set1_epi32(INT32_MIN))))))
#endif
#ifdef __AVX512F__
#define FG_QUICK_LANES_u64 8
#define FG_LOAD_u64(p) _mm512_loadu_si512(p)
#define FG_STORE_u64(p, v) _mm512_storeu_si512(p, v)
#define FG_PART_u64(v, m) _mm512_permutexvar_epi64(_mm512_cvtepu8_epi64(FG_LANES(fg_lanes_of, m)), v)
#define FG_BOUND_u64(b) _mm512_set1_epi64((long long)(b))
#define FG_BELOW_u64(v, b) ((uint32_t)_mm512_cmplt_epu64_mask(v, b))
#else
#define FG_QUICK_LANES_u64 4
#define FG_LOAD_u64 FG_LOAD_256
#define FG_STORE_u64 FG_STORE_256
#define FG_PART_u64(v, m) _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(FG_LANES(fg_halves_of, m)))
#define FG_BOUND_u64(b) _mm256_set1_epi64x((long long)((b) ^ 0x8000000000000000u))
#define FG_BELOW_u64(v, b) \
    ((uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpgt_epi64(b, _mm256_xor_si256(v, _mm256_set1_epi64x(INT64_MIN))))))
#endif

#define FG_QUICK(t, K, W, L) \
/* Keys below `bound` to the front of a, the others to the end of `away`; how many are below. What is stored beyond either kind lies within the \
 * L keys that were read but not yet counted. */ \
static int64_t fg_part_##t(K *a, K *away, int64_t n, K bound) { \
    const __typeof__(FG_BOUND_##t(bound)) b = FG_BOUND_##t(bound); \
    int64_t low = 0, end = n, i = 0; \
    _Pragma("GCC unroll 4") for (; i + L <= n; i += L) { \
        __typeof__(FG_BOUND_##t(bound)) v = FG_LOAD_##t(a + i); \
        const uint32_t m = FG_BELOW_##t(v, b); \
        const int below = __builtin_popcount(m); \
        v = FG_PART_##t(v, m); \
        FG_STORE_##t(a + low, v); \
        FG_STORE_##t(away + end - L, v); \
        low += below; end -= L - below; \
    } \
    for (; i < n; i++) { K e = a[i]; if (e < bound) a[low++] = e; else away[--end] = e; } \
    return low; \
} \
/* Of keys from all over a, the one of rank place / FG_QUICK_SAMPLE; positions are scattered, or a period of the data would show. */ \
static K fg_pivot_##t(const K *a, int64_t n, int place) { \
    K some[FG_QUICK_SAMPLE]; \
    const int64_t count = n < 4096 ? FG_QUICK_SAMPLE / 4 : FG_QUICK_SAMPLE, step = n / count; \
    uint32_t noise = 1; \
    for (int64_t j = 0; j < count; j++) { \
        noise = noise * 1664525u + 1013904223u; \
        some[j] = a[j * step + (int64_t)((uint64_t)noise * (uint64_t)step >> 32)]; \
    } \
    fg_sort_row_##t(some, count); \
    return some[count * place / FG_QUICK_SAMPLE]; \
} \
/* n keys, sorted in a or (to_work) in the workspace. */ \
static void fg_quick_##t(K *a, K *work, int64_t n, int to_work, int depth) { \
    while (!fg_fits_row(n, W) && depth-- > 0) { \
        const K pivot = fg_pivot_##t(a, n, FG_QUICK_SAMPLE / 2); \
        int64_t low = fg_part_##t(a, work, n, pivot); \
        if (low > 0) { \
            fg_quick_##t(a, work, low, to_work, depth); \
            K *others = work + low; \
            work = a + low; a = others; to_work = !to_work; \
        } else {                                       /* the least of all: its equals are sorted; all keys lie in the workspace */ \
            low = pivot == (K)-1 ? n : fg_part_##t(work, a, n, pivot + 1); \
            if (!to_work) memcpy(a, work, (size_t)low * W); \
            a += low; work += low; \
        } \
        n -= low; \
    } \
    if (fg_fits_row(n, W)) { if (n > 0) fg_sort_row_##t(a, n); } \
    else fg_radix_##t(a, work, n, 0, 8 * W);           /* bad pivots all along */ \
    if (to_work) memcpy(work, a, (size_t)n * W); \
} \
/* Keys of the span in their order; `count` of them. */ \
static void fg_gather_##t(const K *a, int64_t n, FgSpan s, K *to, int64_t count) { \
    const __typeof__(FG_BOUND_##t((K)0)) lo = FG_BOUND_##t((K)s.lo), hi = FG_BOUND_##t((K)s.hi); \
    const uint32_t all = (1u << L) - 1, last = s.last ? all : 0; \
    int64_t i = 0, j = 0; \
    for (; i + L <= n; i += L) { \
        __typeof__(FG_BOUND_##t((K)0)) v = FG_LOAD_##t(a + i); \
        const uint32_t m = (FG_BELOW_##t(v, hi) | last) & (FG_BELOW_##t(v, lo) ^ all); \
        const int within = __builtin_popcount(m); \
        v = FG_PART_##t(v, m); \
        if (j + L <= count) FG_STORE_##t(to + j, v); \
        else { \
            K rest[L]; \
            FG_STORE_##t(rest, v); \
            memcpy(to + j, rest, (size_t)within * W); \
        } \
        j += within; \
    } \
    for (; i < n; i++) if (FG_WITHIN(a[i], s)) to[j++] = a[i]; \
}
FG_QUICK(u32, uint32_t, 4, 8)
FG_QUICK(u64, uint64_t, 8, FG_QUICK_LANES_u64)
#else
#define FG_SORT_QUICK 0
#endif
#endif
