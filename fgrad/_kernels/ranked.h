/* Elements of given ranks of rows that are not sorted: quickselect on keys, by the parts of sort_quick.h. */
#ifndef FG_RANKED_H
#define FG_RANKED_H
#include "sort.h"

typedef struct {
    const char *src; const int32_t *ranks; char *values; int32_t *positions;     /* positions: NULL where nobody asks */
    int64_t n, k; int32_t dtype, failed;
} FgRanked;

#if FG_SORT_QUICK
/* Of a sample, one that lies to that side of the first rank on which more keys are. */
#define FG_RANKED_PLACE(rank, n) ({ int64_t place_ = (rank) * FG_QUICK_SAMPLE / (n); place_ + (place_ < FG_QUICK_SAMPLE / 2 ? 8 : -8); })
#define FG_RANKED_PARTS(t, K, W) \
    while (m > 0 && !fg_fits_row(n, W) && depth-- > 0) { \
        const K pivot = fg_pivot_##t(a, n, (int)FG_RANKED_PLACE(ranks[0] - base, n)); \
        int64_t low = fg_part_##t(a, work, n, pivot), k = 0; \
        if (low > 0) { \
            K *others = work + low; \
            while (k < m && ranks[k] < base + low) k++; \
            fg_select_##t(a, work, low, base, ranks, k, out, depth); \
            work = a + low; a = others; \
        } else {                                       /* the least of all; all keys lie in the workspace */ \
            low = pivot == (K)-1 ? n : fg_part_##t(work, a, n, pivot + 1); \
            for (; k < m && ranks[k] < base + low; k++) out[k] = pivot; \
            a += low; work += low; \
        } \
        ranks += k; out += k; m -= k; base += low; n -= low; \
    }
#else
#define FG_RANKED_PARTS(t, K, W) (void)depth;
#endif

#define FG_RANKED_OF(t, K, W) \
/* out[i] = the key of rank ranks[i] (ascending) - base of n keys; a and its workspace are used up. */ \
static void fg_select_##t(K *a, K *work, int64_t n, int64_t base, const int64_t *ranks, int64_t m, K *out, int depth) { \
    FG_RANKED_PARTS(t, K, W) \
    if (m == 0) return; \
    if (fg_fits_row(n, W)) fg_sort_row_##t(a, n); \
    else fg_radix_##t(a, work, n, 0, 8 * W); \
    for (int64_t i = 0; i < m; i++) out[i] = a[ranks[i] - base]; \
} \
/* Where the key of a rank stands: of equal ones, the first comes first. */ \
static int32_t fg_position_##t(const FgRanked *j, const char *src, K key, int64_t rank) { \
    K keys[1024]; \
    int64_t item = fg_itemsize(j->dtype), same = rank; \
    for (int less = 1; ; less = 0) \
        for (int64_t i = 0; i < j->n; i += 1024) { \
            int64_t m = fg_min64(1024, j->n - i), count = 0; \
            fg_keys(j->dtype, src + i * item, keys, m, 0, 0); \
            if (less) for (int64_t l = 0; l < m; l++) same -= keys[l] < key; \
            else { \
                for (int64_t l = 0; l < m; l++) count += keys[l] == key; \
                if (same < count) for (int64_t l = 0; ; l++) if (keys[l] == key && same-- == 0) return (int32_t)(i + l); \
                same -= count; \
            } \
        } \
} \
static void fg_ranked_##t(const FgRanked *j, int64_t row, const int64_t *ranks, const int64_t *order, K *a) { \
    K *work = a + j->n, *found = work + j->n, *given = found + j->k; \
    const char *src = j->src + row * j->n * fg_itemsize(j->dtype); \
    fg_keys(j->dtype, src, a, j->n, 0, 0); \
    fg_select_##t(a, work, j->n, 0, ranks, j->k, found, 64); \
    for (int64_t i = 0; i < j->k; i++) given[order[i]] = found[i]; \
    fg_unkeys(j->dtype, given, j->values + row * j->k * fg_itemsize(j->dtype), j->k, 0); \
    K odd[2] = {0};                                    /* keys that have lost a sign or a payload */ \
    const int64_t item = fg_itemsize(j->dtype); \
    const int floats = j->dtype == FG_F16 || j->dtype == FG_BF16 || j->dtype == FG_F32 || j->dtype == FG_F64; \
    char raw[16] = {0}; \
    memset(raw + item, 0xff, (size_t)item); \
    if (floats) fg_keys(j->dtype, raw, odd, 2, 0, 0); \
    for (int64_t i = 0; i < j->k; i++) if (j->positions || (floats && (found[i] == odd[0] || found[i] == odd[1]))) { \
        const int32_t at = fg_position_##t(j, src, found[i], ranks[i]); \
        if (j->positions) j->positions[row * j->k + order[i]] = at; \
        memcpy(j->values + (row * j->k + order[i]) * item, src + at * item, (size_t)item); \
    } \
}
FG_RANKED_OF(u32, uint32_t, 4)
FG_RANKED_OF(u64, uint64_t, 8)

/* Keys twice, then keys, ranks and their order of k elements twice. */
static int64_t fg_ranked_scratch(const FgRanked *j) { return (fg_key_wide(j->dtype) ? 8 : 4) * 2 * (j->n + j->k) + 16 * j->k + 64; }

static void fg_ranked_row(const FgRanked *j, int64_t row, char *scratch) {
    int64_t *ranks = (int64_t *)scratch, *order = ranks + j->k;
    for (int64_t i = 0; i < j->k; i++) {                       /* sorted as they are inserted; those outside of the row are its ends */
        int64_t rank = fg_max64(0, fg_min64(j->ranks[row * j->k + i], j->n - 1)), p = i;
        for (; p > 0 && ranks[p - 1] > rank; p--) { ranks[p] = ranks[p - 1]; order[p] = order[p - 1]; }
        ranks[p] = rank; order[p] = i;
    }
    if (fg_key_wide(j->dtype)) fg_ranked_u64(j, row, ranks, order, (uint64_t *)(order + j->k));
    else fg_ranked_u32(j, row, ranks, order, (uint32_t *)(order + j->k));
}
#endif
