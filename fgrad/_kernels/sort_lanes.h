/* Many rows of moderate length are sorted a vector's lanes of rows at a time: keys turned into columns, which lie in Batcher's odd-even
 * merging network, whose comparisons are a minimum and a maximum of vectors. */
#ifndef FG_SORT_LANES_H
#define FG_SORT_LANES_H
#include "narrow.h"
#include "sort_spread.h"

#ifndef FG_SIMD
#define FG_SIMD _Pragma("omp simd")
#endif
enum { FG_SORT_LANES = 16, FG_SORT_LANES_ROWS = 3, FG_SORT_LANES_LONG = 1024 };     /* fewer rows are faster one by one */

/* The comparisons of one stage whose elements are k apart, for the runs that begin at j: none where a run and its partner belong
 * to different sequences of 2p elements (Knuth 5.2.2, algorithm M). */
#define FG_NETWORK(COMPARE) \
    for (int64_t p = 1; p < n; p *= 2) for (int64_t k = p; k >= 1; k /= 2) for (int64_t j = k % p; j + k < n; j += 2 * k) { \
        if (j / (2 * p) != (j + k) / (2 * p)) continue; \
        int64_t stop = fg_min64(j + k, n - k); \
        for (int64_t i = j; i < stop; i++) COMPARE(i * FG_SORT_LANES, (i + k) * FG_SORT_LANES) \
    }

/* Keys alone: rows are lanes of a[n][FG_SORT_LANES]. */
#define FG_SORT_COLUMNS(K) \
static void fg_sort_columns_##K(K *restrict a, int64_t n) { \
    FG_NETWORK(FG_SORT_COMPARE) \
}
#define FG_SORT_COMPARE(X, Y) FG_SIMD for (int64_t l = 0; l < FG_SORT_LANES; l++) { \
    __typeof__(*a) x = a[(X) + l], y = a[(Y) + l]; \
    a[(X) + l] = x < y ? x : y; \
    a[(Y) + l] = x < y ? y : x; \
}
FG_SORT_COLUMNS(uint32_t)
FG_SORT_COLUMNS(uint64_t)

/* 64-bit keys with their positions, by which equal ones are ordered. */
#define FG_SORT_COMPARE_PAIRS(X, Y) FG_SIMD for (int64_t l = 0; l < FG_SORT_LANES; l++) { \
    uint64_t x = a[(X) + l], y = a[(Y) + l], v = at[(X) + l], w = at[(Y) + l]; \
    int swap = (y < x) | ((y == x) & (w < v)); \
    a[(X) + l] = swap ? y : x; a[(Y) + l] = swap ? x : y; \
    at[(X) + l] = swap ? w : v; at[(Y) + l] = swap ? v : w; \
}
static void fg_sort_columns_pairs(uint64_t *restrict a, uint64_t *restrict at, int64_t n) {
    FG_NETWORK(FG_SORT_COMPARE_PAIRS)
}

/* Whether rows of this sort go by lanes: one key of at most 64 bits, of rows that are shorter than what pays for a network of their own. */
static int fg_sort_by_lanes(const FgSortRow *r, int64_t rows) {
    const int wide = fg_key_wide(r->dtypes[0]), alone = r->n_ops == 1;
    const int64_t bytes = alone && !wide ? 4 : 8;
    if (rows < FG_SORT_LANES_ROWS || r->n <= 1 || r->n > FG_SORT_LANES_LONG || r->n_keys > 1 || fg_key_parts(r->dtypes[0]) > 1) return 0;
    if (alone && r->dtypes[0] == FG_C64) return 0;
    if (wide && !alone) return 1;
    if (bytes == 8 && r->n > FG_SORT_ALONE && r->n <= FG_ROW_KNOWN * FG_VEC / 8) return 0;        /* in registers, one by one */
    return r->n <= (bytes == 4 ? FG_VEC : FG_VEC == 32 ? 4 * FG_VEC : 2 * FG_VEC) || !(FG_SORT_QUICK || fg_fits_row(r->n, (int)bytes));
}

static int64_t fg_sort_lanes_scratch(int64_t n) { return 32 * FG_SORT_LANES * n; }

/* Where the elements of each column, one of `rows` rows of n keys, lie in their row once they are sorted: the lower half of `at`. */
static void fg_sort_positions(int wide, const void *keys, int64_t rows, int64_t n, uint32_t *narrow, uint64_t *columns, uint64_t *at) {
    if (wide) {
        fg_columns_8(columns, FG_SORT_LANES, keys, rows, n);
        for (int64_t i = 0; i < n; i++) for (int64_t l = 0; l < FG_SORT_LANES; l++) at[i * FG_SORT_LANES + l] = (uint64_t)i;
        fg_sort_columns_pairs(columns, at, n);
    } else {
        fg_columns_4(narrow, FG_SORT_LANES, keys, rows, n);
        for (int64_t i = 0; i < n; i++) for (int64_t l = 0; l < FG_SORT_LANES; l++)
            at[i * FG_SORT_LANES + l] = (uint64_t)narrow[i * FG_SORT_LANES + l] << 32 | (uint64_t)i;
        fg_sort_columns_uint64_t(at, n);
    }
}

/* The next `rows` (at most FG_SORT_LANES) rows, at r->src and r->dst. */
static void fg_sort_lanes(FgSortRow *r, int64_t rows, char *scratch) {
    int64_t n = r->n, all = n * FG_SORT_LANES, items = n * rows;
    int dtype = r->dtypes[0], wide = fg_key_wide(dtype);
    void *keys = scratch;                                 /* 8 bytes an item in rows, then 8 in columns, then 8 for positions */
    uint32_t *narrow = (uint32_t *)(scratch + 8 * all);
    uint64_t *columns = (uint64_t *)(scratch + 16 * all), *at = (uint64_t *)(scratch + 24 * all);
    fg_keys(dtype, r->src[0], keys, items, r->reverse, 0);
    if (r->n_ops == 1) {
        if (wide) {
            fg_columns_8(columns, FG_SORT_LANES, keys, rows, n);
            fg_sort_columns_uint64_t(columns, n);
            fg_rows_8(keys, columns, FG_SORT_LANES, rows, n);
        } else {
            fg_columns_4(narrow, FG_SORT_LANES, keys, rows, n);
            fg_sort_columns_uint32_t(narrow, n);
            fg_rows_4(keys, narrow, FG_SORT_LANES, rows, n);
        }
        fg_unkeys(dtype, keys, r->dst[0], items, r->reverse);
        if (!fg_sort_odd(dtype, r->src[0], items)) return;
        for (int64_t k = 0; k < rows; k++) {
            int64_t step = k * n * fg_itemsize(dtype);
            fg_sort_mend(dtype, r->src[0] + step, r->dst[0] + step, n);
        }
        return;
    }
    fg_sort_positions(wide, keys, rows, n, narrow, columns, at);
    for (int64_t i = 0; i < all; i++) narrow[i] = (uint32_t)at[i];
    r->perm = (uint32_t *)keys;
    fg_rows_4(r->perm, narrow, FG_SORT_LANES, rows, n);
    for (int64_t k = 1; k < rows; k++) for (int64_t i = 0; i < n; i++) r->perm[k * n + i] += (uint32_t)(k * n);
    fg_sort_apply(r, 0, items, 0);
}

/* ---- top k of many short rows: the same networks, of which the first k columns are read */

/* Whether rows go by lanes: all of a row is sorted, whatever k, while a few are picked out of a longer row in less time (measured). */
static int fg_top_by_lanes(const FgTopK *t, int64_t rows) {
    const int wide = fg_key_wide(t->dtype);
    const int64_t few = (wide ? 10 : 20) * (t->k + 1), most = wide ? 512 : 320;
    return rows >= FG_SORT_LANES && t->n > 1 && t->n <= most && (t->k > FG_TOP_FEW || t->n <= few);
}

/* The best of `rows` (at most FG_SORT_LANES) rows from `row` on. */
static void fg_top_lanes(const FgTopK *t, int64_t row, int64_t rows, char *scratch) {
    const int64_t n = t->n, all = n * FG_SORT_LANES, item = fg_itemsize(t->dtype);
    const char *src = t->src + row * n * item;
    void *keys = scratch;
    uint32_t *narrow = (uint32_t *)(scratch + 8 * all);
    uint64_t *columns = (uint64_t *)(scratch + 16 * all), *at = (uint64_t *)(scratch + 24 * all);
    fg_keys(t->dtype, src, keys, rows * n, 1, 0);
    fg_sort_positions(fg_key_wide(t->dtype), keys, rows, n, narrow, columns, at);
    for (int64_t l = 0; l < rows; l++) for (int64_t i = 0; i < t->k; i++) {
        const int64_t from = (int32_t)at[i * FG_SORT_LANES + l], to = (row + l) * t->k + i;
        t->indices[to] = (int32_t)from;
        memcpy(t->values + to * item, src + (l * n + from) * item, item);
    }
}
#endif
