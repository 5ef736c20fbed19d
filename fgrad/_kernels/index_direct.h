/* Gathers of single items or short rows whose indices, of one component, and results lie one after the other along a long last batch axis
 * (a line), or along the last two of which the last is short, need no offsets of the results. Scatters, shared among threads.
 */
#ifndef FG_INDEX_DIRECT_H
#define FG_INDEX_DIRECT_H
#include "index_blocks.h"
#include "items.h"
#ifdef __AVX2__
#include "lanes.h"
#endif

enum { FG_LINE = 16, FG_SHORT_ROW = 128, FG_CACHED_OUTPUT = 524288, FG_LONG_RUN = 1024, FG_INTERLEAVED = 4, FG_INTERLEAVED_SIZE = 1024, FG_FEW_FLOATS = 4096,
       FG_SHARED = 4096 };                      /* offsets that are kept for other window positions */

/* How many axes a line has. */
static inline int fg_line_axes(const FgIndexPlan *g) {
    int last = g->nb - 1;
    return last > 0 && g->shape[last] <= FG_TAKE_BLOCK / 2 && g->bi[last - 1] == g->shape[last] &&
           g->bs[last - 1] == g->shape[last] * g->run ? 2 : 1;
}
/* How far a block of a line reaches from its first item, at most. */
static inline int64_t fg_line_reach(const FgIndexPlan *g) {
    int last = g->nb - 1;
    int64_t row = fg_line_axes(g) == 2 ? g->bb[last - 1] : 0;
    return g->top[0] * fg_abs64(g->kb[0]) + FG_TAKE_BLOCK * (fg_abs64(g->bb[last]) + fg_abs64(row));
}
static int fg_is_direct(const FgIndexPlan *g) {
    int last = g->nb - 1;
    if (g->nk != 1 || last < 0 || g->bi[last] != 1 || g->bs[last] != g->run || g->p <= 0 || g->run <= 0) return 0;
    if (g->shape[last] < FG_LINE && fg_line_axes(g) != 2) return 0;
    return g->run == 1 || (g->run_b == 1 && g->run_s == 1 && g->run * g->item <= FG_SHORT_ROW && g->top[0] < INT32_MAX &&
                           fg_line_reach(g) < INT32_MAX / g->item);
}

/* Whether lines of near items, or parts of them, have the same offsets at several window positions. */
static int fg_is_shared(const FgIndexPlan *g) {
    int last = g->nb - 1, two = fg_line_axes(g) == 2;
    int64_t line = g->shape[last] * (two ? g->shape[last - 1] : 1), reach = fg_line_reach(g);
    if (g->run != 1 || g->p < 2 || (two && line > FG_SHARED) || g->top[0] >= INT32_MAX || reach >= INT32_MAX) return 0;
    reach += fg_min64(line, FG_SHARED) * (fg_abs64(g->bb[last]) + (two ? fg_abs64(g->bb[last - 1]) : 0));
    return reach * g->item < FG_FAR_BYTES;
}

/* The stretch of a line that begins at vector u: its length, where its indices, operand and small items begin, and the position in the
 * last axis. */
static inline int64_t fg_line(const FgIndexPlan *g, int64_t u, int64_t *bi, int64_t *bb, int64_t *bs, int64_t *phase) {
    int last = g->nb - 1, two = fg_line_axes(g) == 2;
    int64_t n = g->shape[last] * (two ? g->shape[last - 1] : 1), left = n - u % n;
    *phase = u % g->shape[last];
    *bi = g->i0; *bb = g->b0; *bs = g->s0;
    for (int d = last; d >= 0; d--) {
        int64_t k = u % g->shape[d];
        u /= g->shape[d];
        *bi += k * g->bi[d]; *bb += k * g->bb[d]; *bs += k * g->bs[d];
    }
    return left;
}

typedef int64_t fg_4pairs __attribute__((vector_size(32)));
/* MOVE(i, place of i + index[i] * k) for all i, places being alike from block to block, then MISSED(i) where the index is out of bounds. Offsets
 * that are vectors leave them two by two, and moves are done one by one (see items.h). */
#define FG_TAKE_PLACES(O, SCALE) \
    O place[FG_TAKE_BLOCK]; \
    if (!two) for (int64_t i = 0; i < fg_min64(block, n); i++) place[i] = (O)i * (O)(db * (SCALE)); \
    else for (int64_t i = 0, j = phase, at = 0; i < fg_min64(block, n); i++) { \
        place[i] = (O)(at * (SCALE)); at += db; \
        if (++j == width) { at += row - width * db; j = 0; } \
    }
#define FG_TAKE_MISSES(I, miss, MISSED) \
    if ((miss) & g->drop) for (int64_t i = 0; i < m; i++) { \
        I v = FG_WRAPPED(I, index[f + i], wrap); \
        if (v < 0 || v > (I)top) { MISSED } \
    }
#define FG_TAKE_NEAR(I, SCALE, MOVE, MISSED) { \
    FG_TAKE_PLACES(int32_t, SCALE) \
    int32_t kk = (int32_t)(k * (SCALE)); \
    for (int64_t f = 0; f < n; f += block, big += block / width * row * (SCALE)) { \
        int64_t m = fg_min64(block, n - f), i = 0; \
        int miss; \
        fg_miss_##I out = {0}; \
        for (; i + 8 <= m; i += 8) { \
            fg_4pairs off = (fg_4pairs)fg_eight_##I(index + f + i, (I)top, wrap, kk, place + i, &out); \
            for (int p = 0; p < 4; p++) { \
                MOVE(f + i + 2 * p, (int32_t)off[p]) __asm__ volatile(""); \
                MOVE(f + i + 2 * p + 1, off[p] >> 32) __asm__ volatile(""); \
            } \
        } \
        miss = 0; \
        for (size_t p = 0; p < sizeof out / sizeof out[0]; p++) miss |= out[p] != 0; \
        for (; i < m; i++) { \
            int32_t off; \
            miss |= fg_line_offsets_##I##_int32_t(index + f + i, 1, (I)top, wrap, kk, place + i, &off); \
            MOVE(f + i, off) \
        } \
        FG_TAKE_MISSES(I, miss, MISSED) \
    } \
}
#define FG_TAKE_FAR(I, MOVE, MISSED) { \
    FG_TAKE_PLACES(int64_t, 1) \
    int64_t off[FG_TAKE_BLOCK]; \
    for (int64_t f = 0; f < n; f += block, big += block / width * row) { \
        int64_t m = fg_min64(block, n - f); \
        int miss = fg_line_offsets_##I##_int64_t(index + f, m, (I)top, wrap, k, place, off); \
        for (int64_t i = 0; i < m; i++) { MOVE(f + i, off[i]) __asm__ volatile(""); } \
        FG_TAKE_MISSES(I, miss, MISSED) \
    } \
}
#define FG_TAKE_SHAPE(I, MOST) \
    int two = fg_line_axes(g) == 2, last = g->nb - 1; \
    int64_t top = fg_min64(g->top[0], MOST), k = g->kb[0], db = g->bb[last], width = two ? g->shape[last] : FG_TAKE_BLOCK; \
    int64_t row = two ? g->bb[last - 1] : FG_TAKE_BLOCK * db, block = FG_TAKE_BLOCK / width * width; \
    I wrap = (I)g->wrap; \
    if (!two) phase = 0;
#define FG_MOVE_ITEM(i, off) small[i] = big[off];
#define FG_TAKE(T, I, MOST) \
static void fg_take_##T##_##I(const FgIndexPlan *g, const T *restrict big, T *restrict small, const I *restrict index, int64_t n, \
                              int64_t phase) { \
    FG_TAKE_SHAPE(I, MOST) \
    T fill = *(const T *)g->value; \
    int64_t reach = fg_line_reach(g); \
    if (top >= INT32_MAX || reach >= INT32_MAX) FG_TAKE_FAR(I, FG_MOVE_ITEM, small[f + i] = fill;) \
    else { \
        FG_TAKE_PLACES(int32_t, 1) \
        int far = reach * (int64_t)sizeof(T) >= FG_FAR_BYTES; \
        int miss = fg_items_##T##_##I(big, small, index, n, (I)top, wrap, (int32_t)k, place, block, block / width * row, far); \
        int64_t f = 0, m = n; \
        FG_TAKE_MISSES(I, miss, small[i] = fill;) \
    } \
}
/* Units [begin, end) of lines that are the same at several window positions: offsets are made once, of a part of a line at a time. */
#define FG_TAKE_SHARED(T, I) \
static void fg_take_shared_##T##_##I(const FgIndexPlan *g, const T *big, T *small, const I *indices, int64_t begin, int64_t end) { \
    int64_t phase = 0, wb, ws, bi, bb, bs; \
    int32_t off[FG_SHARED]; \
    const T fill = *(const T *)g->value; \
    FG_TAKE_SHAPE(I, INT32_MAX) \
    int64_t n = FG_SHARED; \
    FG_TAKE_PLACES(int32_t, 1) \
    for (int64_t v = 0; v < g->n; v += n) { \
        int miss = 0; \
        n = fg_min64(fg_line(g, v, &bi, &bb, &bs, &phase), FG_SHARED); \
        const I *index = indices + bi; \
        for (int64_t f = 0, m, at = 0; f < n; f += m, at += block / width * row) { \
            m = fg_min64(block, n - f); \
            miss |= fg_block_offsets_##I(index + f, m, (I)top, wrap, (int32_t)k, place, off + f); \
            for (int64_t i = 0; at && i < m; i++) off[f + i] += (int32_t)at; \
        } \
        for (int64_t p = begin / g->n, u; (u = p * g->n + v) < end; p++) { \
            const int64_t f = fg_max64(begin - u, 0), m = fg_min64(n, end - u) - f; \
            if (m <= 0) continue; \
            fg_window_offset(g, p, &wb, &ws); \
            T *out = small + bs + ws + f; \
            fg_collect_##T##_##I(big + bb + wb, off + f, out, m); \
            FG_TAKE_MISSES(I, miss, out[i] = fill;) \
        } \
    } \
}
#define FG_TAKES(T) FG_TAKE(T, int32_t, INT32_MAX) FG_TAKE(T, int64_t, INT64_MAX) FG_TAKE_SHARED(T, int32_t) FG_TAKE_SHARED(T, int64_t)
FG_TAKES(fg_item1)
FG_TAKES(fg_item2)
FG_TAKES(fg_item4)
FG_TAKES(fg_item8)
FG_TAKES(fg_item16)

/* Rows of N to 2 N bytes as two copies that may overlap. */
#define FG_PIECE(N) typedef uint8_t fg_piece##N __attribute__((vector_size(N), aligned(1), may_alias));
FG_PIECE(2) FG_PIECE(4) FG_PIECE(8) FG_PIECE(16) FG_PIECE(32) FG_PIECE(64)
#define FG_MOVE_ROW(N, i, off) { \
    char *d = small + (i) * bytes; const char *s = big + (off); \
    fg_piece##N one = *(const fg_piece##N *)s, other = *(const fg_piece##N *)(s + bytes - N); \
    *(fg_piece##N *)d = one; *(fg_piece##N *)(d + bytes - N) = other; }
#define FG_TAKE_ROWS(N, I, MOST) \
static void fg_take_rows##N##_##I(const FgIndexPlan *g, const char *restrict big, char *restrict small, const I *restrict index, int64_t n, \
                                  int64_t phase) { \
    int64_t bytes = g->run * g->item; \
    FG_TAKE_SHAPE(I, MOST) \
    FG_TAKE_NEAR(I, g->item, FG_MOVE_ROW##N, \
                 for (int64_t j = 0; j < bytes; j += g->item) memcpy(small + (f + i) * bytes + j, g->value, g->item);) \
}
#define FG_TAKES_ROWS(N) FG_TAKE_ROWS(N, int32_t, INT32_MAX) FG_TAKE_ROWS(N, int64_t, INT64_MAX)
#define FG_MOVE_ROW2(i, off) FG_MOVE_ROW(2, i, off)
#define FG_MOVE_ROW4(i, off) FG_MOVE_ROW(4, i, off)
#define FG_MOVE_ROW8(i, off) FG_MOVE_ROW(8, i, off)
#define FG_MOVE_ROW16(i, off) FG_MOVE_ROW(16, i, off)
#define FG_MOVE_ROW32(i, off) FG_MOVE_ROW(32, i, off)
#define FG_MOVE_ROW64(i, off) FG_MOVE_ROW(64, i, off)
#if defined(__AVX2__) && !defined(__AVX512F__)
/* Rows of 65 to 96 bytes by three vectors: of two pieces of 64 bytes, which are two vectors each, more would be stored twice than once. */
#define FG_MOVE_ROW96(i, off) { \
    char *d = small + (i) * bytes; const char *s = big + (off); \
    fg_piece32 one = *(const fg_piece32 *)s, middle = *(const fg_piece32 *)(s + 32), other = *(const fg_piece32 *)(s + bytes - 32); \
    *(fg_piece32 *)d = one; *(fg_piece32 *)(d + 32) = middle; *(fg_piece32 *)(d + bytes - 32) = other; }
FG_TAKES_ROWS(96)
#define FG_TAKE_LONG_ROWS FG_TAKE_ROWS_CASE(64, 97) FG_TAKE_ROWS_CASE(96, 65)
#else
#define FG_TAKE_LONG_ROWS FG_TAKE_ROWS_CASE(64, 65)           /* 64 bytes are two of 32 */
#endif
FG_TAKES_ROWS(2) FG_TAKES_ROWS(4) FG_TAKES_ROWS(8) FG_TAKES_ROWS(16) FG_TAKES_ROWS(32) FG_TAKES_ROWS(64)

/* Units are single vectors at one window position after the other. */
static void fg_gather_lines(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgIndexJob *job = (const FgIndexJob *)ctx;
    const FgIndexPlan *g = job->plan;
    int64_t bi, bb, bs, wb, ws, done, phase;
    (void)tid;
    if (end - begin > g->n && fg_is_shared(g)) {
#define FG_TAKE_SHARED_CASE(T) { \
            if (g->wide) fg_take_shared_##T##_int64_t(g, (const T *)job->in, (T *)job->out, (const int64_t *)job->indices, begin, end); \
            else fg_take_shared_##T##_int32_t(g, (const T *)job->in, (T *)job->out, (const int32_t *)job->indices, begin, end); \
        } return
        switch (g->item) {
            case 1: FG_TAKE_SHARED_CASE(fg_item1);
            case 2: FG_TAKE_SHARED_CASE(fg_item2);
            case 4: FG_TAKE_SHARED_CASE(fg_item4);
            case 8: FG_TAKE_SHARED_CASE(fg_item8);
            default: FG_TAKE_SHARED_CASE(fg_item16);
        }
#undef FG_TAKE_SHARED_CASE
    }
    for (int64_t u = begin; u < end; u += done) {
        int64_t left = fg_line(g, u % g->n, &bi, &bb, &bs, &phase);
        fg_window_offset(g, u / g->n, &wb, &ws);
        const char *big = job->in + (bb + wb) * g->item;
        char *small = job->out + (bs + ws) * g->item;
        done = fg_min64(left, end - u);
#define FG_TAKE_CASE(T) { \
            if (g->wide) fg_take_##T##_int64_t(g, (const T *)big, (T *)small, (const int64_t *)job->indices + bi, done, phase); \
            else fg_take_##T##_int32_t(g, (const T *)big, (T *)small, (const int32_t *)job->indices + bi, done, phase); \
        } break
#define FG_TAKE_ROWS_CASE(N, least) if (bytes >= least) { \
            if (g->wide) fg_take_rows##N##_int64_t(g, big, small, (const int64_t *)job->indices + bi, done, phase); \
            else fg_take_rows##N##_int32_t(g, big, small, (const int32_t *)job->indices + bi, done, phase); \
            continue; \
        }
        if (g->run > 1) {
            int64_t bytes = g->run * g->item;
            FG_TAKE_LONG_ROWS FG_TAKE_ROWS_CASE(32, 32) FG_TAKE_ROWS_CASE(16, 16) FG_TAKE_ROWS_CASE(8, 8) FG_TAKE_ROWS_CASE(4, 4) FG_TAKE_ROWS_CASE(2, 2)
        }
        switch (g->item) {
            case 1: FG_TAKE_CASE(fg_item1);
            case 2: FG_TAKE_CASE(fg_item2);
            case 4: FG_TAKE_CASE(fg_item4);
            case 8: FG_TAKE_CASE(fg_item8);
            default: FG_TAKE_CASE(fg_item16);
        }
#undef FG_TAKE_ROWS_CASE
#undef FG_TAKE_CASE
    }
}

/* Single items along lines: 32-bit offsets, and places among the updates only where some are left out. */
static int fg_is_each(const FgIndexPlan *g) {
    int last = g->nb - 1;
    return g->nk == 1 && g->run == 1 && g->p == 1 && last >= 0 && g->shape[last] >= FG_SHORT && g->bi[last] == 1 && !g->in_order &&
           g->top[0] < INT32_MAX && g->top[0] * fg_abs64(g->kb[0]) + FG_TAKE_BLOCK * fg_abs64(g->bb[last]) < INT32_MAX;
}

/* Runs are shared out in pieces of 64 bytes. */
static inline int64_t fg_run_piece(const FgIndexPlan *g) { return fg_max64(1, 64 / g->item); }
static inline int64_t fg_run_lines(const FgIndexPlan *g) { return (g->run + fg_run_piece(g) - 1) / fg_run_piece(g); }

/* What splits without two threads meeting at one output item: a window axis no index moves, a batching axis, or the
 * values of an index component whose window is 1 wide (every thread then reads all indices, which takes most of the time of single items
 * in an output that one core's cache holds).  Returns its extent. */
static int64_t fg_scatter_split(const FgIndexPlan *g, int64_t size, int64_t threads, FgIndexJob *job) {
    int64_t best = 1, extent = 1;
    job->split = FG_SPLIT_NONE; job->axis = 0;
#define FG_OFFER(SPLIT, AXIS, USABLE, EXTENT) \
    if (best < threads && (USABLE) > best) { best = (USABLE); extent = (EXTENT); job->split = SPLIT; job->axis = AXIS; }
    for (int d = 0; d < g->nw; d++) if (g->free[d]) FG_OFFER(FG_SPLIT_WINDOW, d, g->wshape[d], g->wshape[d])
    for (int d = 0; d < g->nb; d++) if (g->bb[d]) FG_OFFER(FG_SPLIT_BATCH, d, g->shape[d], g->shape[d])
    int64_t long_run = g->run * g->item / FG_LONG_RUN, lines = fg_run_lines(g);
    int costly = fg_is_each(g) && size * g->item <= FG_CACHED_OUTPUT;
    if (g->run_free) FG_OFFER(FG_SPLIT_RUN, 0, fg_min64(long_run, lines), lines)
    for (int c = 0; c < g->nk && !costly; c++) if (g->kone[c]) FG_OFFER(FG_SPLIT_INDEX, c, g->top[c] + 1, g->top[c] + 1)
    if (g->run_free) FG_OFFER(FG_SPLIT_RUN, 0, lines, lines)
#undef FG_OFFER
    return extent;
}

/* Vectors [first, stop) in their order. */
static void fg_scatter_chunks(const FgIndexPlan *g, const char *indices, const char *updates, char *out, int64_t first, int64_t stop) {
    int64_t bo[FG_CHUNK], so[FG_CHUNK], wb, ws;
    FgScatter op = fg_scatter_for(g)->runs;
    for (; first < stop; first += g->chunk) {
        int64_t n = fg_index_offsets(g, indices, first, fg_min64(g->chunk, stop - first), 1, bo, so);
        for (int64_t p = 0; p < g->p; p++) {
            fg_window_offset(g, p, &wb, &ws);
            op(g, out + wb * g->item, updates + ws * g->item, bo, so, n);
        }
    }
}

/* Offsets of those of n vectors whose indices lie in [lo, last] and, with `drop`, are in bounds, and which these are; how many. */
#define FG_LINE_PACKED(I) \
static int64_t fg_line_packed_##I(const I *restrict index, int64_t n, int32_t top, int drop, int32_t lo, int32_t last, int32_t k, \
                                  const int32_t *restrict place, int32_t *restrict off, int32_t *restrict at) { \
    int64_t m = 0, i = 0; \
    FG_LINE_COMPRESS_##I \
    for (; i < n; i++) { \
        I v = index[i], in = v < 0 ? 0 : v > top ? top : v; \
        off[m] = (int32_t)in * k + place[i]; \
        at[m] = (int32_t)i; \
        m += !(drop & (in != v)) & (in >= lo) & (in <= last); \
    } \
    return m; \
}
#ifdef __AVX512F__
/* indices of 64 bits as the nearest of 32, which is out of bounds if they are */
#define FG_LINE_LOAD_int32_t(p) _mm512_loadu_si512(p)
#define FG_LINE_LOAD_int64_t(p) _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtsepi64_epi32(_mm512_loadu_si512(p))), \
                                                   _mm512_cvtsepi64_epi32(_mm512_loadu_si512((p) + 8)), 1)
#define FG_LINE_COMPRESS(I) \
    __m512i zero = _mm512_setzero_si512(), most = _mm512_set1_epi32(top), least = _mm512_set1_epi32(lo), end = _mm512_set1_epi32(last); \
    __m512i each = _mm512_set1_epi32(k), i16 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); \
    for (; i + 16 <= n; i += 16, i16 = _mm512_add_epi32(i16, _mm512_set1_epi32(16))) { \
        __m512i v = FG_LINE_LOAD_##I(index + i), in = _mm512_min_epi32(_mm512_max_epi32(v, zero), most); \
        __mmask16 keep = _mm512_cmpge_epi32_mask(in, least) & _mm512_cmple_epi32_mask(in, end); \
        if (drop) keep &= _mm512_cmpeq_epi32_mask(in, v); \
        __m512i o = _mm512_add_epi32(_mm512_mullo_epi32(in, each), _mm512_loadu_si512(place + i)); \
        _mm512_storeu_si512(off + m, _mm512_maskz_compress_epi32(keep, o)); \
        _mm512_storeu_si512(at + m, _mm512_maskz_compress_epi32(keep, i16)); \
        m += __builtin_popcount(keep); \
    }
#define FG_LINE_COMPRESS_int32_t FG_LINE_COMPRESS(int32_t)
#define FG_LINE_COMPRESS_int64_t FG_LINE_COMPRESS(int64_t)
#elif defined(__AVX2__)
#define FG_LINE_COMPRESS_int32_t \
    const __m256i zero = _mm256_setzero_si256(), most = _mm256_set1_epi32(top), least = _mm256_set1_epi32(lo), end = _mm256_set1_epi32(last); \
    const __m256i each = _mm256_set1_epi32(k), all = _mm256_set1_epi32(drop ? 0 : -1); \
    __m256i i8 = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); \
    for (; i + 8 <= n; i += 8, i8 = _mm256_add_epi32(i8, _mm256_set1_epi32(8))) { \
        const __m256i v = FG_LOAD_256(index + i), in = _mm256_min_epi32(_mm256_max_epi32(v, zero), most); \
        const __m256i out = _mm256_or_si256(_mm256_cmpgt_epi32(least, in), _mm256_cmpgt_epi32(in, end)); \
        const __m256i keep = _mm256_andnot_si256(out, _mm256_or_si256(all, _mm256_cmpeq_epi32(in, v))); \
        const int m8 = _mm256_movemask_ps(_mm256_castsi256_ps(keep)); \
        const __m256i lanes = _mm256_cvtepu8_epi32(FG_LANES(fg_lanes_of, m8)); \
        FG_STORE_256(off + m, _mm256_permutevar8x32_epi32(_mm256_add_epi32(_mm256_mullo_epi32(in, each), FG_LOAD_256(place + i)), lanes)); \
        FG_STORE_256(at + m, _mm256_permutevar8x32_epi32(i8, lanes)); \
        m += __builtin_popcount(m8); \
    }
#define FG_LINE_COMPRESS_int64_t
#else
#define FG_LINE_COMPRESS_int32_t
#define FG_LINE_COMPRESS_int64_t
#endif
FG_LINE_PACKED(int32_t) FG_LINE_PACKED(int64_t)

/* What changes no value that it is combined with: 0 where there is none. */
static int fg_identity(int dtype, int kind, char *value) {
    union { uint8_t u1; uint16_t u2; uint32_t u4; uint64_t u8; int8_t i1; int16_t i2; int32_t i4; int64_t i8; float f; double d; } v;
    memset(value, 0, 16);
    memset(&v, 0, sizeof v);
    if (kind == FG_SET || (dtype >= FG_C64 && kind != FG_ADD)) return 0;
#define FG_FOUR(FIELD, ZERO, ONE, MOST, LEAST) \
    v.FIELD = kind == FG_ADD ? (ZERO) : kind == FG_MUL ? (ONE) : kind == FG_MIN ? (MOST) : (LEAST); break
    switch (dtype) {
        case FG_BOOL: FG_FOUR(u1, 0, 1, 1, 0);
        case FG_I8: FG_FOUR(i1, 0, 1, INT8_MAX, INT8_MIN);
        case FG_I16: FG_FOUR(i2, 0, 1, INT16_MAX, INT16_MIN);
        case FG_I32: FG_FOUR(i4, 0, 1, INT32_MAX, INT32_MIN);
        case FG_I64: FG_FOUR(i8, 0, 1, INT64_MAX, INT64_MIN);
        case FG_U8: FG_FOUR(u1, 0, 1, UINT8_MAX, 0);
        case FG_U16: FG_FOUR(u2, 0, 1, UINT16_MAX, 0);
        case FG_U32: FG_FOUR(u4, 0, 1, UINT32_MAX, 0);
        case FG_U64: FG_FOUR(u8, 0, 1, UINT64_MAX, 0);
        case FG_F16: FG_FOUR(u2, 0x8000, 0x3c00, 0x7c00, 0xfc00);
        case FG_BF16: FG_FOUR(u2, 0x8000, 0x3f80, 0x7f80, 0xff80);
        case FG_F32: FG_FOUR(f, -0.0f, 1, __builtin_inff(), -__builtin_inff());
        case FG_F64: FG_FOUR(d, -0.0, 1, __builtin_inf(), -__builtin_inf());
        case FG_C64: v.u8 = 0x8000000080000000u; break;
        default: v.d = -0.0; memcpy(value + 8, &v, 8);
    }
#undef FG_FOUR
    memcpy(value, &v, 8);
    return 1;
}

/* Whether updates give the same in any order. */
static int fg_any_order(const FgIndexPlan *g) { return g->dtype <= FG_U64 && g->kind != FG_SET; }
/* How many interleaved copies of a small output take the updates: one to an item that has just been updated waits for that. 1 where more could
 * not be told from each other by the places along the line, or what is set last counts, or 16 bits round, or sums of
 * few floats are taken in their order. */
static int64_t fg_interleaved(const FgIndexPlan *g, int64_t vectors) {
    const int64_t size = g->top[0] + 1;
    const int alike = fg_any_order(g) || (g->kind != FG_SET && (g->dtype == FG_F32 || g->dtype == FG_F64) && vectors >= FG_FEW_FLOATS);
    return alike && g->nb == 1 && g->bb[0] == 0 && g->kb[0] == 1 && size <= FG_INTERLEAVED_SIZE && vectors >= 8 * size ? FG_INTERLEAVED : 1;
}

static void fg_scatter_vectors(const FgIndexPlan *g, const char *indices, const char *updates, char *out, int64_t first, int64_t stop) {
    if (!fg_is_each(g)) { fg_scatter_chunks(g, indices, updates, out, first, stop); return; }
    int32_t place[FG_TAKE_BLOCK], off[FG_TAKE_BLOCK], at[FG_TAKE_BLOCK], top = (int32_t)g->top[0], k = (int32_t)g->kb[0];
    int32_t lo = g->only < 0 ? 0 : (int32_t)g->lo, end = g->only < 0 ? top : (int32_t)fg_min64(g->hi - 1, top);
    int last = g->nb - 1;
    const FgScatterOps *ops = fg_scatter_for(g);
    FgScatterEach op = ops->each;
    const int64_t copies = fg_interleaved(g, stop - first), size = g->top[0] + 1;
    char spare[FG_INTERLEAVED * FG_INTERLEAVED_SIZE * 8] __attribute__((aligned(64))), value[16], *to = out;
    if (copies > 1) {
        fg_identity(g->dtype, g->kind, value);
        fg_block_fill(spare, value, copies * size, g->item);
        to = spare;
    }
    const int32_t step = (int32_t)g->bb[last], copy = copies > 1 ? (int32_t)size : 0;
    for (int32_t i = 0; i < FG_TAKE_BLOCK; i++) place[i] = i * step + i % FG_INTERLEAVED * copy;
    for (int64_t n; first < stop; first += n) {
        int64_t bi, bb, bs, phase;
        fg_line(g, first, &bi, &bb, &bs, &phase);
        const int32_t *index = (const int32_t *)indices + bi;
        const int64_t *wide = (const int64_t *)indices + bi;
        n = fg_min64(FG_TAKE_BLOCK, fg_min64(stop - first, g->shape[last] - phase));
        int64_t m = n;
        int some = g->only >= 0 || ((g->wide ? fg_line_offsets_int64_t_int32_t(wide, n, top, 0, k, place, off)
                                             : fg_line_offsets_int32_t_int32_t(index, n, top, 0, k, place, off)) & g->drop);
        if (some) m = g->wide ? fg_line_packed_int64_t(wide, n, top, g->drop, lo, end, k, place, off, at)
                              : fg_line_packed_int32_t(index, n, top, g->drop, lo, end, k, place, off, at);
        op(to + (copies > 1 ? 0 : bb) * g->item, updates + bs * g->item, g->bs[last], off, some ? at : NULL, m);
    }
    for (int64_t c = 0, zero = 0; copies > 1 && c < copies; c++) {
        FgIndexPlan all = *g;
        all.run = size; all.run_b = all.run_s = 1;
        ops->runs(&all, out + g->b0 * g->item, spare + c * size * g->item, &zero, &zero, 1);
    }
}

/* Whole windows [0, n), each a strided copy, in their order. */
static void fg_scatter_windows(const FgIndexPlan *g, const char *indices, const char *updates, char *out) {
    int64_t big, small;
    for (int64_t i = 0; i < g->n; i++) {
        fg_index_offsets(g, indices, i, 1, 0, &big, &small);
        if (big == FG_MISS) continue;
        FgCopyJob copy = {&g->fill, updates + small * g->item, out + big * g->item};
        fg_copy_units(&copy, 0, g->fill.units, 0);
    }
}

static void fg_scatter_range(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgIndexJob *job = (const FgIndexJob *)ctx;
    FgIndexPlan g = *job->plan;
    int64_t size = end - begin;
    int k = job->axis;
    (void)tid;
    if (job->split == FG_SPLIT_WINDOW) {
        g.p = g.p / g.wshape[k] * size; g.wshape[k] = size;
        g.b0 += begin * g.wb[k]; g.s0 += begin * g.ws[k];
    } else if (job->split == FG_SPLIT_BATCH) {
        g.n = g.n / g.shape[k] * size; g.shape[k] = size;
        g.i0 += begin * g.bi[k]; g.b0 += begin * g.bb[k]; g.s0 += begin * g.bs[k];
    } else if (job->split == FG_SPLIT_RUN) {
        int64_t from = begin * fg_run_piece(&g);
        g.run = fg_min64(end * fg_run_piece(&g), g.run) - from;
        g.b0 += from * g.run_b; g.s0 += from * g.run_s;
    } else if (job->split == FG_SPLIT_INDEX) {
        g.only = k; g.lo = begin; g.hi = end;
    }
    if (g.windows && (job->split == FG_SPLIT_NONE || job->split == FG_SPLIT_BATCH)) fg_scatter_windows(&g, job->indices, job->in, job->out);
    else fg_scatter_vectors(&g, job->indices, job->in, job->out, 0, g.n);
}
#endif
