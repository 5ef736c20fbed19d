/* A long row of keys with their positions: keys of 32 bits, over which wider ones are mapped in their order, are spread over cells of equal ranges
 * of keys and packed with their positions; then neighbouring cells are sorted together, as many as fit the network, and operands are put in order
 * while a group is in cache. Three loops over the threads in all, each of which reads what it needs once. */
#ifndef FG_SORT_SPREAD_H
#define FG_SORT_SPREAD_H
#include "sort.h"

enum { FG_SPREAD_LONG = 4096, FG_SPREAD_CELLS = 4096, FG_SPREAD_MEAN = 32, FG_SPREAD_GROUP = 512, FG_SPREAD_SHARES = 4, FG_SPREAD_PIECES = 16, FG_SPREAD_NARROW = 1 << 20 };

static int64_t fg_spread_scratch(int64_t n, int parts) { return n < FG_SPREAD_LONG ? 0 : (int64_t)parts * FG_SPREAD_CELLS * 4; }
/* Where the network's vectors are narrow, radix sort is the faster of many keys, except of wide ones. */
static int fg_spreads(const FgSortRow *r) {
    const int64_t most = FG_VEC == 64 ? INT64_MAX : FG_SORT_QUICK ? FG_SPREAD_NARROW : 0;
    return r->n >= FG_SPREAD_LONG && r->bits >= 16 && (r->n <= most || fg_key_wide(r->dtype));
}

/* Wide keys: the part of their order that 32 bits tell. */
FG_INLINE uint32_t fg_spread_key(uint64_t k, uint64_t low, int shift) {
    uint64_t above = k < low ? 0 : (k - low) >> shift;
    return above > 0xffffffffu ? 0xffffffffu : (uint32_t)above;
}
/* The cells of n mapped keys. */
static void fg_spread_find(const FgSortRow *r, const uint32_t *restrict keys, uint16_t *restrict cells, int64_t n) {
    const uint32_t each = (uint32_t)r->n_cells / FG_SPREAD_PIECES;
    int64_t i = 0;
#ifdef __AVX512F__
    const __m512i from = _mm512_loadu_si512(r->piece_from), shift = _mm512_loadu_si512(r->piece_shift);
    for (; i + 16 <= n; i += 16) {
        const __m512i k = _mm512_loadu_si512(keys + i);
        __m512i piece = _mm512_setzero_si512(), cell;
        for (int h = FG_SPREAD_PIECES / 2; h > 0; h /= 2) {
            const __m512i next = _mm512_add_epi32(piece, _mm512_set1_epi32(h));
            piece = _mm512_mask_mov_epi32(piece, _mm512_cmpge_epu32_mask(k, _mm512_permutexvar_epi32(next, from)), next);
        }
        cell = _mm512_srlv_epi32(_mm512_sub_epi32(k, _mm512_permutexvar_epi32(piece, from)), _mm512_permutexvar_epi32(piece, shift));
        cell = _mm512_add_epi32(cell, _mm512_mullo_epi32(piece, _mm512_set1_epi32((int)each)));
        _mm256_storeu_si256((__m256i *)(cells + i), _mm512_cvtepi32_epi16(cell));
    }
#elif defined(__AVX2__)
    /* A tree of bounds: 8; 4 and 12; 2, 6, 10 and 14; the odd ones. Only signed numbers are compared. */
    uint32_t tree[4][8] = {{0}};
    for (int level = 0; level < 4; level++) for (int j = 0; j < 1 << level; j++)
        tree[level][j] = r->piece_from[(2 * j + 1) * (FG_SPREAD_PIECES / 2 >> level)] ^ 0x80000000u;
#define FG_TABLE(p) _mm256_loadu_si256((const __m256i *)(p))
#define FG_OF_PIECE(t) _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(t##_low, piece), _mm256_permutevar8x32_epi32(t##_high, piece), high)
    const __m256i from_low = FG_TABLE(r->piece_from), from_high = FG_TABLE(r->piece_from + 8), shift_low = FG_TABLE(r->piece_shift), shift_high = FG_TABLE(r->piece_shift + 8);
    const __m256i root = _mm256_set1_epi32((int)tree[0][0]), top = _mm256_set1_epi32(INT32_MIN), one = _mm256_set1_epi32(1);
    const __m256i second = FG_TABLE(tree[1]), third = FG_TABLE(tree[2]), fourth = FG_TABLE(tree[3]);
    const __m128i width = _mm_cvtsi32_si128(__builtin_ctz(each));
    for (; i + 8 <= n; i += 8) {
        const __m256i k = _mm256_loadu_si256((const __m256i *)(keys + i)), s = _mm256_xor_si256(k, top);
        __m256i piece = _mm256_add_epi32(one, _mm256_cmpgt_epi32(root, s));
        piece = _mm256_add_epi32(_mm256_add_epi32(piece, piece), _mm256_add_epi32(one, _mm256_cmpgt_epi32(_mm256_permutevar8x32_epi32(second, piece), s)));
        piece = _mm256_add_epi32(_mm256_add_epi32(piece, piece), _mm256_add_epi32(one, _mm256_cmpgt_epi32(_mm256_permutevar8x32_epi32(third, piece), s)));
        piece = _mm256_add_epi32(_mm256_add_epi32(piece, piece), _mm256_add_epi32(one, _mm256_cmpgt_epi32(_mm256_permutevar8x32_epi32(fourth, piece), s)));
        const __m256i high = _mm256_cmpgt_epi32(piece, _mm256_set1_epi32(7));
        __m256i cell = _mm256_srlv_epi32(_mm256_sub_epi32(k, FG_OF_PIECE(from)), FG_OF_PIECE(shift));
        cell = _mm256_add_epi32(cell, _mm256_sll_epi32(piece, width));
        _mm_storeu_si128((__m128i *)(cells + i), _mm_packus_epi32(_mm256_castsi256_si128(cell), _mm256_extracti128_si256(cell, 1)));
    }
#undef FG_TABLE
#undef FG_OF_PIECE
#endif
    for (int64_t b = i; b < n; b += 256) {
        uint32_t pieces[256] = {0};
        const int64_t m = fg_min64(256, n - b);
        for (int j = 1; j < FG_SPREAD_PIECES; j++) {
            const uint32_t from_j = r->piece_from[j];
            for (int64_t l = 0; l < m; l++) pieces[l] += keys[b + l] >= from_j;
        }
        for (int64_t l = 0; l < m; l++) {
            const uint32_t piece = pieces[l];
            cells[b + l] = (uint16_t)(piece * each + ((keys[b + l] - r->piece_from[piece]) >> r->piece_shift[piece]));
        }
    }
}

/* Pieces of the keys' range: between quantiles of a sample, each of as many cells of equal ranges, and what lies outside of nearly all of it. A key
 * that is more than one quantile has a piece of its own. */
static void fg_spread_ranges(FgSortRow *r) {
    enum { COUNT = FG_ROW_VECTORS * FG_VEC / 8, INNER = FG_SPREAD_PIECES - 2, OUTER = COUNT / 128 };
    uint64_t keys[COUNT], low, high, pad;
    char some[COUNT * 16];
    const int64_t item = fg_itemsize(r->dtype), step = r->n / COUNT;
    const int wide = fg_key_wide(r->dtype);
    uint32_t noise = 1;
    for (int64_t j = 0; j < COUNT; j++) {
        noise = noise * 1664525u + 1013904223u;
        memcpy(some + j * item, r->key + (j * step + (int64_t)((uint64_t)noise * (uint64_t)step >> 32)) * item, item);
    }
    fg_keys(r->dtype, some, keys, COUNT, r->reverse, r->part);
    if (!wide) for (int64_t j = COUNT - 1; j >= 0; j--) { uint32_t k; memcpy(&k, (char *)keys + 4 * j, 4); keys[j] = k; }
    fg_sort_row_u64(keys, COUNT);
    low = keys[OUTER]; high = keys[COUNT - 1 - OUTER];
    pad = (high - low) / 32;
    low = low < pad ? 0 : low - pad;
    high = high + pad < high ? high : high + pad;
    r->map_low = wide && low ? low - 1 : 0; r->map_shift = 0;              /* what is below all of a sample is apart */
    while (wide && (high - r->map_low) >> r->map_shift > 0xffffffffu) r->map_shift++;
    r->n_cells = FG_SPREAD_CELLS;
    while (r->n_cells > 4 * FG_SPREAD_PIECES && (int64_t)r->n_cells * FG_SPREAD_MEAN > r->n) r->n_cells /= 2;
    r->piece_from[0] = 0;
    for (int j = 1; j < FG_SPREAD_PIECES; j++) {
        const uint64_t at = j == 1 ? low : j > INNER ? high : keys[OUTER + (COUNT - 2 * OUTER) * (j - 1) / INNER];
        const uint32_t from = wide ? fg_spread_key(at, r->map_low, r->map_shift) : at > 0xffffffffu ? 0xffffffffu : (uint32_t)at;
        const uint32_t before = r->piece_from[j - 1];
        r->piece_from[j] = from > before || before == 0xffffffffu ? from > before ? from : before : before + 1;
    }
    for (int j = 0; j < FG_SPREAD_PIECES; j++) {
        const uint32_t last = j + 1 == FG_SPREAD_PIECES ? 0xffffffffu : r->piece_from[j + 1] ? r->piece_from[j + 1] - 1 : 0;
        const uint32_t reach = last > r->piece_from[j] ? last - r->piece_from[j] : 0;
        r->piece_shift[j] = 0;
        while (reach >> r->piece_shift[j] >= (uint32_t)r->n_cells / FG_SPREAD_PIECES) r->piece_shift[j]++;
    }
}

/* Integers as their keys tell them, which lie at hand, while operands lie all over. */
static int fg_spread_tells(const FgSortRow *r) { return r->last && r->first && r->n_keys == 1 && r->dtype >= FG_I8 && !fg_key_wide(r->dtype) && r->dtype <= FG_U64; }
/* An operand of 4 bytes lies beside such keys in place of positions, which nothing else asks for. */
static int fg_spread_rides(const FgSortRow *r) { return FG_VEC == 32 && r->n_ops == 2 && fg_spread_tells(r) && fg_itemsize(r->dtypes[1]) == 4; }

/* The workspace holds each item's cell and its mapped key until items are placed. */
FG_INLINE uint16_t *fg_spread_cells(const FgSortRow *r) { return (uint16_t *)r->t; }
FG_INLINE uint32_t *fg_spread_mapped(const FgSortRow *r) {
    return r->first && !fg_key_wide(r->dtype) ? (uint32_t *)r->keys : (uint32_t *)r->t + r->n;
}
#define FG_SPREAD_MAP(KEY) for (int64_t i = from; i < last; i++) mapped[i] = KEY
static void fg_spread_count(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    const uint32_t *narrow = (const uint32_t *)r->keys, *perm = r->perm;
    const uint64_t *wide = (const uint64_t *)r->keys, map_low = r->map_low;
    uint32_t *restrict mapped = fg_spread_mapped(r);
    uint16_t *restrict cells = fg_spread_cells(r);
    const int map_shift = r->map_shift;
    for (int64_t p = begin; p < end; p++) {
        int64_t from = r->n * p / r->parts, last = r->n * (p + 1) / r->parts;
        uint32_t *count = r->cells + p * r->n_cells;
        if (r->first) fg_sort_keys(r, from, last, tid);
        if (!fg_key_wide(r->dtype)) { if (!r->first) FG_SPREAD_MAP(narrow[perm[i]]); }
        else if (r->first) FG_SPREAD_MAP(fg_spread_key(wide[i], map_low, map_shift));
        else FG_SPREAD_MAP(fg_spread_key(wide[perm[i]], map_low, map_shift));
        fg_spread_find(r, mapped + from, cells + from, last - from);
        memset(count, 0, (size_t)r->n_cells * sizeof *count);
        for (int64_t i = from; i < last; i++) count[cells[i]]++;
    }
}
/* Cells of one key need no sorting: its positions ascend. */
static int fg_spread_alike(const FgSortRow *r, int64_t cell) {
    const int64_t piece = cell * FG_SPREAD_PIECES / r->n_cells;
    return piece > 0 && piece < FG_SPREAD_PIECES - 1 && r->piece_shift[piece] == 0 && r->map_shift == 0;
}
/* Counts become places; 0 where one cell would keep a thread busy for longer than all others. */
static int fg_spread_places(FgSortRow *r) {
    uint32_t at = 0;
    int crowded = 0;
    for (int64_t c = 0; c < r->n_cells; c++) {
        const uint32_t first = at;
        for (int p = 0; p < r->parts; p++) { uint32_t *place = r->cells + p * r->n_cells + c, count = *place; *place = at; at += count; }
        crowded |= (int64_t)(at - first) * r->parts * 2 > 3 * r->n && !fg_spread_alike(r, c);
    }
    return !crowded;
}
static void fg_spread_place(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    const uint32_t *mapped = fg_spread_mapped(r);
    const uint16_t *cells = fg_spread_cells(r);
    (void)tid;
    for (int64_t p = begin; p < end; p++) {
        int64_t from = r->n * p / r->parts, last = r->n * (p + 1) / r->parts;
        uint32_t *place = r->cells + p * r->n_cells;
        uint64_t *to = (uint64_t *)r->a;
        const fg_item4 *with = (const fg_item4 *)r->src[1];
        if (fg_spread_rides(r)) for (int64_t i = from; i < last; i++) to[place[cells[i]]++] = (uint64_t)mapped[i] << 32 | with[i];
        else for (int64_t i = from; i < last; i++) to[place[cells[i]]++] = (uint64_t)mapped[i] << 32 | (uint32_t)i;
    }
}

#define FG_SPREAD_FULL(item) keys[r->first ? (uint32_t)(item) : r->perm[(uint32_t)(item)]]
/* Sorted items whose mapped keys are alike though the keys may differ, by those: by their lower halves, then by the upper ones. */
static void fg_spread_ties(const FgSortRow *r, uint64_t *a, uint64_t *work, int64_t n) {
    const uint64_t *keys = (const uint64_t *)r->keys;
    for (int64_t i = 0, m; i < n; i += m) {
        const uint64_t k = a[i] >> 32;
        for (m = 1; i + m < n && a[i + m] >> 32 == k;) m++;
        if (m == 1 || (r->map_shift == 0 && k != 0 && k != 0xffffffffu)) continue;
        const uint64_t key = FG_SPREAD_FULL(a[i]);
        int64_t j = 1;
        while (j < m && FG_SPREAD_FULL(a[i + j]) == key) j++;
        if (j == m) continue;
        for (int half = 0; half < 64; half += 32) {
            for (int64_t j = i; j < i + m; j++) {
                const uint32_t at = (uint32_t)a[j];
                a[j] = FG_SPREAD_FULL(at) >> half << 32 | at;
            }
            fg_radix_u64(a + i, work + i, m, 32, 64);
        }
    }
}
FG_INLINE int64_t fg_spread_end(const FgSortRow *r, int64_t c) { return c < 0 ? 0 : r->cells[(r->parts - 1) * (int64_t)r->n_cells + c]; }
static int64_t fg_spread_from(const FgSortRow *r, int64_t item) {        /* the first cell that begins at `item` or behind it */
    int64_t lo = 0, hi = r->n_cells;
    while (lo < hi) { int64_t c = (lo + hi) / 2; if (fg_spread_end(r, c - 1) < item) lo = c + 1; else hi = c; }
    return lo;
}
/* How far the greatest key is above the least one, `base`. */
static uint32_t fg_spread_range(const uint64_t *a, int64_t n, uint32_t *base) {
    uint64_t least = ~(uint64_t)0, most = 0;
    for (int64_t i = 0; i < n; i++) { least = a[i] < least ? a[i] : least; most = a[i] > most ? a[i] : most; }
    *base = (uint32_t)(least >> 32);
    return (uint32_t)(most >> 32) - *base;
}
/* A group as words of 32 bits, twice as many to a vector: where an item lies, below the upper bits of what its key has above the least. 0 if bits
 * that this leaves out would have put items in another order. */
static int fg_spread_short(const uint64_t *restrict a, uint64_t *restrict to, int64_t n) {
    enum { PLACE = FG_SPREAD_GROUP - 1, BITS = 9 };
    uint32_t words[FG_SPREAD_GROUP], base;
    uint64_t wrong = 0;
    const int range = 32 - __builtin_clz(fg_spread_range(a, n, &base) | 1), cut = range > 32 - BITS ? range - (32 - BITS) : 0;
    for (int64_t i = 0; i < n; i++) words[i] = ((uint32_t)(a[i] >> 32) - base) >> cut << BITS | (uint32_t)i;
    fg_sort_row_u32(words, n);
    for (int64_t i = 0; i < n; i++) to[i] = a[words[i] & PLACE];
    if (cut) for (int64_t i = 1; i < n; i++) wrong |= to[i - 1] >> 32 > to[i] >> 32;          /* equal ones are in their order */
    return !wrong;
}
FG_INLINE int64_t fg_spread_room(void) { return fg_min64(FG_SPREAD_GROUP, FG_ROW_VECTORS * FG_VEC / 8); }
/* [from, from + n) of a in order, there or in the workspace. */
static uint64_t *fg_spread_group(const FgSortRow *r, int64_t from, int64_t n) {
    uint64_t *a = (uint64_t *)r->a + from, *work = (uint64_t *)r->t + from;
    if (n > FG_SORT_ALONE && n <= fg_spread_room() && fg_spread_short(a, work, n)) return work;
    fg_sort_range(r, from, n);
    return a;
}
static void fg_spread_integers(const FgSortRow *r, const uint64_t *sorted, int64_t from, int64_t n) {
    uint32_t keys[FG_SPREAD_GROUP];
    for (int64_t i = 0, m; i < n; i += m) {
        m = fg_min64(FG_SPREAD_GROUP, n - i);
        for (int64_t j = 0; j < m; j++) keys[j] = (uint32_t)(sorted[i + j] >> 32);
        fg_unkeys(r->dtype, keys, r->dst[0] + (from + i) * fg_itemsize(r->dtype), m, r->reverse);
    }
}
/* Shares of the cells: sorted, and their positions to `order`, of which operands make use at once if this is the last sort. */
static void fg_spread_sort(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow r = *(const FgSortRow *)ctx;
    uint32_t *order = r.order;
    const uint32_t *perm = r.first ? NULL : r.perm;
    uint64_t *a = (uint64_t *)r.a;
    const int64_t room = fg_spread_room(), stop = fg_spread_from(&r, end == r.shares ? r.n : r.n * end / r.shares);
    FgSortRow packed = r, out = r;
    const int rides = fg_spread_rides(&r);
    packed.first = !rides; packed.bits = r.bits < 32 ? r.bits : 32;        /* whatever was sorted before: positions are those of now */
    out.perm = order; out.told = fg_spread_tells(&r);
    for (int64_t c = fg_spread_from(&r, r.n * begin / r.shares); c < stop;) {
        const int alike = fg_spread_alike(&r, c);
        const int64_t from = fg_spread_end(&r, c - 1);
        int64_t to = fg_spread_end(&r, c++);
        while (c < stop && fg_spread_end(&r, c) - from <= room) to = fg_spread_end(&r, c++);
        const int64_t n = to - from;
        if (n == 0) continue;
        uint64_t *sorted = alike && n > room ? a + from : fg_spread_group(&packed, from, n);
        if (fg_key_wide(r.dtype)) fg_spread_ties(&r, sorted, sorted == a + from ? (uint64_t *)r.t + from : a + from, n);
        if (rides) {
            fg_item4 *with = (fg_item4 *)r.dst[1] + from;
            for (int64_t i = 0; i < n; i++) with[i] = (uint32_t)sorted[i];
            fg_spread_integers(&r, sorted, from, n);
            continue;
        }
        if (perm) for (int64_t i = 0; i < n; i++) order[from + i] = perm[(uint32_t)sorted[i]];
        else for (int64_t i = 0; i < n; i++) order[from + i] = (uint32_t)sorted[i];
        if (out.told) fg_spread_integers(&r, sorted, from, n);
        if (r.last) fg_sort_apply(&out, from, to, tid);
    }
}
static void fg_spread_keep(void *ctx, int64_t begin, int64_t end, int tid) {
    FgSortRow *r = (FgSortRow *)ctx;
    (void)tid;
    memcpy(r->perm + begin, r->order + begin, (size_t)(end - begin) * sizeof *r->perm);
}
#endif
