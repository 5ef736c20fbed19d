/* Single items of a table at indices that lie one after the other, to results that do: gathers, and the VM's takes. */
#ifndef FG_ITEMS_H
#define FG_ITEMS_H
#include "fg.h"
#include "item_types.h"

/* places: how many offsets are made at once. Tables that no cache near a core holds are fetched so far ahead: more misses are under way than
 * a core begins by itself. */
enum { FG_TAKE_BLOCK = 256, FG_FAR_BYTES = 8 << 20 };

/* Offsets index[i] * k + place[i] of n indices, negative ones moved by `wrap`, bounded; whether any was out of bounds. */
#define FG_WRAPPED(I, v, wrap) ((v) + (((v) >> (8 * sizeof(I) - 1)) & (wrap)))
#define FG_LINE_OFFSETS(I, O) \
static inline int fg_line_offsets_##I##_##O(const I *restrict index, int64_t n, I top, I wrap, O k, const O *restrict place, O *restrict off) { \
    int miss = 0; \
    for (int64_t i = 0; i < n; i++) { \
        I v = FG_WRAPPED(I, index[i], wrap), in = v < 0 ? 0 : v > top ? top : v; \
        miss |= in != v; \
        off[i] = (O)in * k + place[i]; \
    } \
    return miss; \
}
FG_LINE_OFFSETS(int32_t, int32_t) FG_LINE_OFFSETS(int64_t, int32_t)
FG_LINE_OFFSETS(int32_t, int64_t) FG_LINE_OFFSETS(int64_t, int64_t)

/* Eight offsets in a vector, and which were out of bounds. Eight indices of eight bytes are two vectors where registers are shorter: compilers
 * compare vectors of more than a register item by item. */
typedef int32_t fg_8int32_t __attribute__((vector_size(32)));
typedef int32_t fg_8int32_t_at __attribute__((vector_size(32), aligned(4), may_alias));
typedef fg_8int32_t fg_miss_int32_t;
#define FG_BOUNDED(V, index, I, miss) ({ \
    V v = FG_WRAPPED(I, *(const V##_at *)(index), wrap), low = v < 0, high = v > top; \
    *miss |= low | high; \
    (v & ~(low | high)) | (high & top); })
static inline fg_8int32_t fg_eight_int32_t(const int32_t *index, int32_t top, int32_t wrap, int32_t k, const int32_t *place, fg_miss_int32_t *miss) {
    return FG_BOUNDED(fg_8int32_t, index, int32_t, miss) * k + *(const fg_8int32_t_at *)place;
}
#ifdef __AVX512F__
typedef int64_t fg_8int64_t __attribute__((vector_size(64)));
typedef int64_t fg_8int64_t_at __attribute__((vector_size(64), aligned(8), may_alias));
typedef fg_8int64_t fg_miss_int64_t;
static inline fg_8int32_t fg_eight_int64_t(const int64_t *index, int64_t top, int64_t wrap, int32_t k, const int32_t *place, fg_miss_int64_t *miss) {
    return __builtin_convertvector(FG_BOUNDED(fg_8int64_t, index, int64_t, miss), fg_8int32_t) * k + *(const fg_8int32_t_at *)place;
}
#else
typedef int64_t fg_4int64_t __attribute__((vector_size(32)));
typedef int64_t fg_4int64_t_at __attribute__((vector_size(32), aligned(8), may_alias));
typedef fg_4int64_t fg_miss_int64_t;
static inline fg_8int32_t fg_eight_int64_t(const int64_t *index, int64_t top, int64_t wrap, int32_t k, const int32_t *place, fg_miss_int64_t *miss) {
    const fg_8int32_t x = (fg_8int32_t)FG_BOUNDED(fg_4int64_t, index, int64_t, miss), y = (fg_8int32_t)FG_BOUNDED(fg_4int64_t, index + 4, int64_t, miss);
    return __builtin_shufflevector(x, y, 0, 2, 4, 6, 8, 10, 12, 14) * k + *(const fg_8int32_t_at *)place;
}
#endif

/* A block of them in memory. */
#define FG_BLOCK_OFFSETS(I) \
static inline int fg_block_offsets_##I(const I *index, int64_t n, I top, I wrap, int32_t k, const int32_t *place, int32_t *off) { \
    int64_t i = 0; \
    fg_miss_##I miss = {0}; \
    for (; i + 8 <= n; i += 8) *(fg_8int32_t_at *)(off + i) = fg_eight_##I(index + i, top, wrap, k, place + i, &miss); \
    int some = fg_line_offsets_##I##_int32_t(index + i, n - i, top, wrap, k, place + i, off + i); \
    for (size_t j = 0; j < sizeof miss / sizeof miss[0]; j++) some |= miss[j] != 0; \
    return some; \
}
FG_BLOCK_OFFSETS(int32_t) FG_BLOCK_OFFSETS(int64_t)

/* Loads are done one by one: more of them are under way at a time than by the instruction sets' gathers, which the empty asm keeps the
 * compiler from. Those of 4 or 8 bytes are collected in vectors: a store each would take as long as the loads. Their offsets are loaded two
 * at a time. */
typedef float fg_four_items __attribute__((vector_size(16), aligned(4), may_alias));
typedef double fg_two_items __attribute__((vector_size(16), aligned(4), may_alias));
typedef float fg_float_item __attribute__((may_alias));
typedef double fg_double_item __attribute__((may_alias, aligned(4)));
typedef int64_t fg_pair_of_offsets __attribute__((may_alias, aligned(4)));
#define FG_TWO_OFFSETS(i) *(const fg_pair_of_offsets *)(off + (i))
#define FG_COLLECT_fg_item1
#define FG_COLLECT_fg_item2
#define FG_COLLECT_fg_item4 { \
    const fg_float_item *x = (const fg_float_item *)table; \
    for (; i + 4 <= n; i += 4) { \
        const int64_t a = FG_TWO_OFFSETS(i), b = FG_TWO_OFFSETS(i + 2); \
        *(fg_four_items *)(out + i) = (fg_four_items){x[(int32_t)a], x[a >> 32], x[(int32_t)b], x[b >> 32]}; __asm__ volatile(""); } }
#define FG_COLLECT_fg_item8 { \
    const fg_double_item *x = (const fg_double_item *)table; \
    for (; i + 2 <= n; i += 2) { \
        const int64_t a = FG_TWO_OFFSETS(i); \
        *(fg_two_items *)(out + i) = (fg_two_items){x[(int32_t)a], x[a >> 32]}; __asm__ volatile(""); } }
#define FG_COLLECT_fg_item16
/* small[i] = big[bounded index[i] * k + place[i]], by blocks of which each has the same places; `big` moves on by `step` items from one to
 * the next. All offsets are within 32 bits. Returns whether any index was out of bounds. */
#define FG_ITEMS(T, I) \
static inline void fg_collect_##T##_##I(const T *restrict table, const int32_t *restrict off, T *restrict out, int64_t n) { \
    int64_t i = 0; \
    FG_COLLECT_##T \
    for (; i < n; i++) { out[i] = table[off[i]]; __asm__ volatile(""); } \
} \
static int fg_items_##T##_##I(const T *big, T *small, const I *index, int64_t n, I top, I wrap, int32_t k, const int32_t *place, \
                              int64_t block, int64_t step, int far) { \
    int32_t offsets[2][FG_TAKE_BLOCK]; \
    int64_t m = n < block ? n : block; \
    int miss = fg_block_offsets_##I(index, m, top, wrap, k, place, offsets[0]), turn = 0; \
    for (int64_t f = 0; f < n; f += m, big += step, turn ^= 1) { \
        m = n - f < block ? n - f : block; \
        int64_t next = n - f - m < block ? n - f - m : block; \
        int32_t *soon = offsets[turn ^ far], *now = offsets[turn & far]; \
        if (!far && f) miss |= fg_block_offsets_##I(index + f, m, top, wrap, k, place, now); \
        if (far && next) { \
            miss |= fg_block_offsets_##I(index + f + m, next, top, wrap, k, place, soon); \
            for (int64_t i = 0; i < m; i += 16) { \
                int64_t end = i + 16 < m ? i + 16 : m; \
                for (int64_t j = i; j < end && j < next; j++) __builtin_prefetch(big + step + soon[j], 0, 3); \
                fg_collect_##T##_##I(big, now + i, small + f + i, end - i); \
            } \
        } else fg_collect_##T##_##I(big, now, small + f, m); \
    } \
    return miss; \
}
/* out[i] = the item of a table of two axes at bounded a[i] and b[i]; offsets are made a block ahead. */
typedef struct { int64_t top, wrap; int32_t k; } FgTakeAxis;
#define FG_PAIR_OFFSETS(I) \
static inline void fg_pair_offsets_##I(const I *restrict a, const I *restrict b, int64_t n, FgTakeAxis x, FgTakeAxis y, int32_t *restrict off) { \
    const I xtop = (I)x.top, ytop = (I)y.top, xwrap = (I)x.wrap, ywrap = (I)y.wrap; \
    for (int64_t i = 0; i < n; i++) { \
        I v = FG_WRAPPED(I, a[i], xwrap), w = FG_WRAPPED(I, b[i], ywrap); \
        v = v < 0 ? 0 : v > xtop ? xtop : v; \
        w = w < 0 ? 0 : w > ytop ? ytop : w; \
        off[i] = (int32_t)v * x.k + (int32_t)w * y.k; \
    } \
}
FG_PAIR_OFFSETS(int32_t) FG_PAIR_OFFSETS(int64_t)
#define FG_PAIRS(T, I) \
static void fg_pairs_##T##_##I(const T *table, T *out, const I *a, const I *b, int64_t n, FgTakeAxis x, FgTakeAxis y, int far) { \
    int32_t offsets[2][FG_TAKE_BLOCK]; \
    int64_t m = n < FG_TAKE_BLOCK ? n : FG_TAKE_BLOCK, next; \
    fg_pair_offsets_##I(a, b, m, x, y, offsets[0]); \
    for (int64_t f = 0, turn = 0; m; f += m, m = next, turn ^= 1) { \
        const int32_t *now = offsets[turn], *soon = offsets[turn ^ 1]; \
        next = n - f - m < FG_TAKE_BLOCK ? n - f - m : FG_TAKE_BLOCK; \
        fg_pair_offsets_##I(a + f + m, b + f + m, next, x, y, offsets[turn ^ 1]); \
        for (int64_t i = 0, end; i < m; i = end) { \
            end = far && i + 16 < m ? i + 16 : m; \
            for (int64_t j = i; far && j < end && j < next; j++) __builtin_prefetch(table + soon[j], 0, 3); \
            fg_collect_##T##_##I(table, now + i, out + f + i, end - i); \
        } \
    } \
}
#define FG_ALL_ITEMS(I) FG_ITEMS(fg_item1, I) FG_ITEMS(fg_item2, I) FG_ITEMS(fg_item4, I) FG_ITEMS(fg_item8, I) FG_ITEMS(fg_item16, I) \
    FG_PAIRS(fg_item1, I) FG_PAIRS(fg_item2, I) FG_PAIRS(fg_item4, I) FG_PAIRS(fg_item8, I) FG_PAIRS(fg_item16, I)
FG_ALL_ITEMS(int32_t) FG_ALL_ITEMS(int64_t)
#endif
