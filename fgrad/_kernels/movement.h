/* Strided copies.  A plan is made once from shapes and strides; running it needs only the two data pointers.
 *
 * Making a plan: axes are turned so that every destination stride is positive, ordered by destination stride (largest
 * first), and merged where both sides allow.  The last two axes form a plane, cut into blocks; a unit of work is one
 * block of one plane. */
#ifndef FG_MOVEMENT_H
#define FG_MOVEMENT_H
#include "copy_plan.h"
#include "copy_rows.h"
#include "copy_spread.h"
#include "item_types.h"
#include "narrow.h"
#include "steps.h"
#include "transposed.h"

enum { FG_UNIT_BYTES = 32768, FG_GRAIN_BYTES = 65536, FG_NARROW_SIDE = 16 };

static inline int64_t fg_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t fg_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t fg_abs64(int64_t a) { return a < 0 ? -a : a; }

static void fg_plan_swap(FgCopyPlan *p, int a, int b) {
    int64_t t;
    t = p->shape[a]; p->shape[a] = p->shape[b]; p->shape[b] = t;
    t = p->ss[a]; p->ss[a] = p->ss[b]; p->ss[b] = t;
    t = p->ds[a]; p->ds[a] = p->ds[b]; p->ds[b] = t;
}

/* Items of 4 bytes and more that lie side by side on both ends, few enough to be one item of 16 bytes at most, are that: the plane is of
 * those then. Of n axes; how many are left. */
static int fg_plan_widen(FgCopyPlan *p, int n) {
    int64_t bytes = n ? p->shape[n - 1] * p->item : 0;
    if (n < 3 || p->item < 4 || p->ss[n - 1] != p->item || p->ds[n - 1] != p->item || bytes > 16 || (bytes & (bytes - 1))) return n;
    for (int d = 0; d < n - 1; d++) if (p->ss[d] % bytes || p->ds[d] % bytes) return n;       /* strides are counted in items */
    p->item = (int32_t)bytes;
    return n - 1;
}

/* Strides and offsets come in items. widens: what runs the plan takes items of another size than these, and rows that are spread. */
static void fg_copy_plan_of(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                            int64_t soff, int64_t doff, int widens) {
    memset(p, 0, sizeof *p);
    p->item = item;
    p->soff = soff * item;
    p->doff = doff * item;
    int n = 0;
    for (int d = 0; d < nd; d++) {
        if (shape[d] == 0) { p->units = 0; p->grain = 1; return; }
        if (shape[d] == 1) continue;
        p->shape[n] = shape[d]; p->ss[n] = ss[d] * item; p->ds[n] = ds[d] * item;
        if (p->ds[n] < 0) {
            p->soff += (shape[d] - 1) * p->ss[n]; p->doff += (shape[d] - 1) * p->ds[n];
            p->ss[n] = -p->ss[n]; p->ds[n] = -p->ds[n];
        }
        for (int k = n; k > 0 && p->ds[k - 1] < p->ds[k]; k--) fg_plan_swap(p, k - 1, k);
        n++;
    }
    int m = 0;                                   /* merge neighbours */
    for (int d = 1; d < n; d++) {
        if (p->ds[m] == p->ds[d] * p->shape[d] && p->ss[m] == p->ss[d] * p->shape[d]) {
            p->shape[m] *= p->shape[d]; p->ss[m] = p->ss[d]; p->ds[m] = p->ds[d];
        } else {
            m++;
            p->shape[m] = p->shape[d]; p->ss[m] = p->ss[d]; p->ds[m] = p->ds[d];
        }
    }
    n = n ? m + 1 : 0;
    if (widens) {
        n = fg_plan_widen(p, n);
        item = p->item;
        if (fg_plan_spread(p, n)) return;
    }
    while (n < 2) {                              /* there is always a plane; axes of size 1 in front */
        for (int d = n; d > 0; d--) { p->shape[d] = p->shape[d - 1]; p->ss[d] = p->ss[d - 1]; p->ds[d] = p->ds[d - 1]; }
        p->shape[0] = 1;
        if (n == 0) p->ss[0] = p->ds[0] = item;
        else p->ss[0] = p->ds[0] = 0;
        n++;
    }
    p->nd = n;
    int b = n - 1, a = n - 2;
    if (p->ds[b] == item && p->ss[b] == item) p->kind = FG_COPY_ROWS;
    else if (p->ds[b] == item && p->ss[b] == 0) p->kind = FG_COPY_FILL;
    else if (p->ds[b] == item && p->ss[b] == -item) p->kind = FG_COPY_REVERSED;
    else {
        int best = -1;                           /* the axis along which the source is densest becomes the plane's other side */
        for (int d = 0; d < n - 1; d++)
            if (p->ss[d] != 0 && p->shape[d] > 1 && (best < 0 || fg_abs64(p->ss[d]) < fg_abs64(p->ss[best]))) best = d;
        p->kind = FG_COPY_STRIDED;
        if (best >= 0 && fg_abs64(p->ss[best]) < fg_abs64(p->ss[b])) {
            for (int d = best; d < a; d++) fg_plan_swap(p, d, d + 1);
            p->kind = FG_COPY_TILED;
            if (p->ss[a] == -item) {             /* a quarter turn: backwards, tiles are dense on both sides */
                p->soff += (p->shape[a] - 1) * p->ss[a]; p->doff += (p->shape[a] - 1) * p->ds[a];
                p->ss[a] = item; p->ds[a] = -p->ds[a];
            }
        }
    }
    if (p->kind == FG_COPY_TILED) {
        p->ca = fg_min64(p->shape[b], p->shape[a] < FG_NARROW_SIDE ? 1024 : 128);
        p->ra = fg_min64(p->shape[a], fg_max64(64 / item, FG_UNIT_BYTES / (item * p->ca)));
    } else {
        p->ca = fg_min64(p->shape[b], FG_UNIT_BYTES / item);
        p->ra = fg_min64(p->shape[a], fg_max64(1, FG_UNIT_BYTES / (item * p->ca)));
    }
    p->na = (p->shape[a] + p->ra - 1) / p->ra;
    p->nb = (p->shape[b] + p->ca - 1) / p->ca;
    p->units = p->na * p->nb;
    for (int d = 0; d < n - 2; d++) p->units *= p->shape[d];
    p->grain = fg_max64(1, FG_GRAIN_BYTES / (p->ra * p->ca * item + 16));
}
static inline void fg_copy_plan(FgCopyPlan *p, int item, int nd, const int64_t *shape, const int64_t *ss, const int64_t *ds,
                                int64_t soff, int64_t doff) {
    fg_copy_plan_of(p, item, nd, shape, ss, ds, soff, doff, 0);
}

static inline void fg_transpose_fg_item16(char *dst, const char *src, int64_t sb, int64_t da) {
    (void)sb; (void)da;
    memcpy(dst, src, 16);
}
enum { fg_transpose_side_fg_item16 = 1 };

/* h rows of w items, w * sizeof(T) <= N, when rows of the destination follow each other: whole vectors, of which the next row
 * overwrites what is too much, but at the end. First each item w times, then each row backwards. */
#define FG_RUN_AHEAD(T, N) \
static void fg_repeat##N##_##T(char *restrict dst, const char *restrict src, int64_t h, int64_t w, int64_t sa) { \
    enum { M = N / sizeof(T) }; \
    T *restrict d = (T *)dst; \
    int64_t i = 0; \
    if (sa == (int64_t)sizeof(T) && w == 2) {                                 /* in vectors */ \
        for (const T *restrict s = (const T *)src; i < h; i++) d[2 * i] = d[2 * i + 1] = s[i]; \
        return; \
    } \
    for (; i * w + M <= h * w; i++) { \
        T v = *(const T *)(src + i * sa), *e = d + i * w; \
        for (int j = 0; j < M; j++) e[j] = v; \
    } \
    for (; i < h; i++) for (int64_t j = 0; j < w; j++) d[i * w + j] = *(const T *)(src + i * sa); \
}
/* By whole vectors of B bytes, M items of them: the compiler finds none in rows that it knows nothing of. */
#define FG_BACK_ONE 0, 1            /* of 16 bytes, as halves */
#define FG_BACK_TWO 2, 3, 0, 1
#define FG_BACK_2 1, 0
#define FG_BACK_4 3, 2, 1, 0
#define FG_BACK_8 7, 6, 5, 4, FG_BACK_4
#define FG_BACK_16 15, 14, 13, 12, 11, 10, 9, 8, FG_BACK_8
#define FG_BACK_32 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, FG_BACK_16
#define FG_RUN_BACKWARDS(T, U, N, B, M) \
static void fg_backwards##N##_##T(char *restrict dst, const char *restrict src, int64_t h, int64_t w, int64_t sa) { \
    typedef U V __attribute__((vector_size(B), aligned(1), may_alias)); \
    T *restrict d = (T *)dst; \
    int64_t i = 0; \
    for (; i < h && i * sa + (w - 1) * (int64_t)sizeof(T) < N; i++)           /* what lies in front of the first rows is not ours */ \
        for (int64_t j = 0; j < w; j++) d[i * w + j] = ((const T *)(src + i * sa))[-j]; \
    for (; i * w + N / (int64_t)sizeof(T) <= h * w; i++) { \
        const char *s = src + i * sa + (int64_t)sizeof(T) - B; \
        V v[N / B]; \
        _Pragma("GCC unroll 4") for (int j = 0; j < N / B; j++) { v[j] = *(const V *)(s - j * B); v[j] = __builtin_shufflevector(v[j], v[j], FG_BACK_##M); } \
        _Pragma("GCC unroll 4") for (int j = 0; j < N / B; j++) *(V *)((char *)(d + i * w) + j * B) = v[j]; \
    } \
    for (; i < h; i++) for (int64_t j = 0; j < w; j++) d[i * w + j] = ((const T *)(src + i * sa))[-j]; \
}
#ifdef __AVX2__
#define FG_RUNS_AHEAD(T, U, M16, M32) FG_RUN_AHEAD(T, 16) FG_RUN_AHEAD(T, 32) FG_RUN_AHEAD(T, 64) \
    FG_RUN_BACKWARDS(T, U, 16, 16, M16) FG_RUN_BACKWARDS(T, U, 32, 32, M32) FG_RUN_BACKWARDS(T, U, 64, 32, M32)
#else
#define FG_RUNS_AHEAD(T, U, M16, M32) FG_RUN_AHEAD(T, 16) FG_RUN_AHEAD(T, 32) FG_RUN_AHEAD(T, 64) \
    FG_RUN_BACKWARDS(T, U, 16, 16, M16) FG_RUN_BACKWARDS(T, U, 32, 16, M16) FG_RUN_BACKWARDS(T, U, 64, 16, M16)
#endif
FG_RUNS_AHEAD(fg_item1, uint8_t, 16, 32) FG_RUNS_AHEAD(fg_item2, uint16_t, 8, 16) FG_RUNS_AHEAD(fg_item4, uint32_t, 4, 8) FG_RUNS_AHEAD(fg_item8, uint64_t, 2, 4)
FG_RUNS_AHEAD(fg_item16, uint64_t, ONE, TWO)

#if defined(__AVX2__) && !defined(__AVX512F__)
#define FG_TILE_LINES 1                  /* a tile is transposed by several parts */
#else
#define FG_TILE_LINES 0
#endif
/* One block of h rows and w columns.  Rows are where the destination is dense; in tiles the source is dense across rows. */
#define FG_COPY_BLOCK(T, SIDE) \
static inline void fg_fill_##T(char *restrict dst, const char *restrict src, int64_t w) { \
    T v = *(const T *)src, *restrict d = (T *)dst; \
    for (int64_t j = 0; j < w; j++) d[j] = v; \
} \
static inline void fg_reversed_##T(char *restrict dst, const char *restrict src, int64_t w) { \
    const T *s = (const T *)src; T *restrict d = (T *)dst; \
    for (int64_t j = 0; j < w; j++) d[j] = s[-j]; \
} \
static void fg_strided_##T(char *dst, const char *src, int64_t h, int64_t w, int64_t sa, int64_t sb, int64_t da, int64_t db) { \
    if (w < 8 && w < h && sb != db) {                 /* the longer loop inside */ \
        int64_t t; \
        t = h; h = w; w = t; t = sa; sa = sb; sb = t; t = da; da = db; db = t; \
    } \
    for (int64_t i = 0; i < h; i++) { \
        const char *restrict s = src + i * sa; char *restrict d = dst + i * da; \
        if (db == (int64_t)sizeof(T)) { \
            if (w < 8 || sb % db || !fg_every(d, s, db, sb / db, w)) \
                for (int64_t j = 0; j < w; j++) ((T *)d)[j] = *(const T *)(s + j * sb); \
        } \
        else if (sb == (int64_t)sizeof(T)) for (int64_t j = 0; j < w; j++) *(T *)(d + j * db) = ((const T *)s)[j]; \
        else for (int64_t j = 0; j < w; j++) *(T *)(d + j * db) = *(const T *)(s + j * sb); \
    } \
} \
/* A tile whose lines share few sets of a cache: each is read at once, and written at once, by way of lines that lie side by side. */ \
static __attribute__((noinline)) void fg_line_tile_##T(char *dst, const char *src, int64_t sb, int64_t da) { \
    enum { N = fg_transpose_side_##T, LINE = SIDE * sizeof(T) }; \
    char lines[SIDE * LINE] __attribute__((aligned(64))); \
    for (int64_t x = 0; x < SIDE; x += N) for (int64_t y = 0; y < SIDE; y += N) \
        fg_transpose_##T(lines + y * LINE + x * (int64_t)sizeof(T), src + y * (int64_t)sizeof(T) + x * sb, sb, LINE); \
    for (int64_t y = 0; y < SIDE; y++) memcpy(dst + y * da, lines + y * LINE, LINE); \
} \
/* Tiles of a cache line a side: every line of both sides is touched once, whatever the strides. */ \
static void fg_tiled_##T(char *dst, const char *src, int64_t h, int64_t w, int64_t sa, int64_t sb, int64_t da, int64_t db) { \
    enum { N = fg_transpose_side_##T, SETS = SIDE < 32 ? 32768 / SIDE : 1024 };          /* of a first cache of 32 KB */ \
    int dense = sa == (int64_t)sizeof(T) && db == (int64_t)sizeof(T), apart = dense && FG_TILE_LINES && N < SIDE && (sb % SETS == 0 || da % SETS == 0); \
    for (int64_t i = 0; i < h; i += SIDE) for (int64_t j = 0; j < w; j += SIDE) { \
        char *d = dst + i * da + j * db; const char *s = src + i * sa + j * sb; \
        int64_t th = fg_min64(SIDE, h - i), tw = fg_min64(SIDE, w - j), mh = dense ? th / N * N : 0, mw = dense ? tw / N * N : 0; \
        if (apart && mh == SIDE && mw == SIDE) { fg_line_tile_##T(d, s, sb, da); continue; } \
        for (int64_t y = 0; y < mh; y += N) for (int64_t x = 0; x < mw; x += N) \
            fg_transpose_##T(d + y * da + x * db, s + y * sa + x * sb, sb, da); \
        if (mw < tw) fg_strided_##T(d + mw * db, s + mw * sb, mh, tw - mw, sa, sb, da, db); \
        if (mh < th) fg_strided_##T(d + mh * da, s + mh * sa, th - mh, tw, sa, sb, da, db); \
    } \
} \
static inline void fg_block_##T(const FgCopyPlan *p, char *dst, const char *src, int64_t h, int64_t w) { \
    int64_t sa = p->ss[p->nd - 2], sb = p->ss[p->nd - 1], da = p->ds[p->nd - 2], db = p->ds[p->nd - 1]; \
    if (p->kind == FG_COPY_ROWS) { \
        fg_copy_rows(dst, src, h, w * sizeof(T), sa, da); \
    } \
    else if (p->kind == FG_COPY_FILL) { \
        if (da == w * (int64_t)sizeof(T) && da <= 64) \
            (da <= 16 ? fg_repeat16_##T : da <= 32 ? fg_repeat32_##T : fg_repeat64_##T)(dst, src, h, w, sa); \
        else for (int64_t i = 0; i < h; i++) fg_fill_##T(dst + i * da, src + i * sa, w); \
    } \
    else if (p->kind == FG_COPY_REVERSED) { \
        if (sizeof(T) <= 8 && w <= 32 && da == w * (int64_t)sizeof(T)) { \
            const int64_t done = fg_copy_permuted(dst, src, h, w, sa, sizeof(T), 1); \
            h -= done; dst += done * da; src += done * sa; \
        } \
        if (da == w * (int64_t)sizeof(T) && da <= 64 && sa > 0) \
            (da <= 16 ? fg_backwards16_##T : da <= 32 ? fg_backwards32_##T : fg_backwards64_##T)(dst, src, h, w, sa); \
        else if (w < 8 && w < h) fg_strided_##T(dst, src, h, w, sa, sb, da, db); \
        else for (int64_t i = 0; i < h; i++) fg_reversed_##T(dst + i * da, src + i * sa, w); \
    } \
    else if (p->kind == FG_COPY_STRIDED) fg_strided_##T(dst, src, h, w, sa, sb, da, db); \
    else if (sizeof(T) <= 8 && w < FG_NARROW_SIDE && sa == (int64_t)sizeof(T) && da == w * sa) fg_rows_##T(dst, src, sb / sa, h, w); \
    else if (sizeof(T) <= 8 && h < FG_NARROW_SIDE && sa == (int64_t)sizeof(T) && db == sa && sb == h * sa && p->shape[p->nd - 2] == h) \
        fg_columns_##T(dst, da / sa, src, w, h); \
    else if (h < FG_NARROW_SIDE && db == (int64_t)sizeof(T) && sb > db && sb <= 4 * db && sb % db == 0)      /* by whole vectors, fg_every */ \
        fg_strided_##T(dst, src, h, w, sa, sb, da, db); \
    else fg_tiled_##T(dst, src, h, w, sa, sb, da, db); \
}
#define fg_rows_fg_item1 fg_rows_1
#define fg_rows_fg_item2 fg_rows_2
#define fg_rows_fg_item4 fg_rows_4
#define fg_rows_fg_item8 fg_rows_8
#define fg_rows_fg_item16 fg_rows_8           /* never called */
#define fg_columns_fg_item1 fg_columns_1
#define fg_columns_fg_item2 fg_columns_2
#define fg_columns_fg_item4 fg_columns_4
#define fg_columns_fg_item8 fg_columns_8
#define fg_columns_fg_item16 fg_columns_8
FG_COPY_BLOCK(fg_item1, 64)
FG_COPY_BLOCK(fg_item2, 32)
FG_COPY_BLOCK(fg_item4, 16)
FG_COPY_BLOCK(fg_item8, 8)
FG_COPY_BLOCK(fg_item16, 4)

static void fg_copy_units(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgCopyJob *job = (const FgCopyJob *)ctx;
    const FgCopyPlan *p = job->plan;
    int a = p->nd - 2, b = p->nd - 1;
    int64_t at[FG_MAXDIM + 2], u = begin, ib, ia;
    const char *src = job->src + p->soff;
    char *dst = job->dst + p->doff;
    (void)tid;
    ib = u % p->nb; u /= p->nb;
    ia = u % p->na; u /= p->na;
    for (int d = a - 1; d >= 0; d--) {
        at[d] = u % p->shape[d]; u /= p->shape[d];
        src += at[d] * p->ss[d]; dst += at[d] * p->ds[d];
    }
    for (int64_t k = begin; k < end; k++) {
        int64_t i = ia * p->ra, j = ib * p->ca, h = fg_min64(p->ra, p->shape[a] - i), w = fg_min64(p->ca, p->shape[b] - j);
        const char *s = src + i * p->ss[a] + j * p->ss[b];
        char *d = dst + i * p->ds[a] + j * p->ds[b];
        switch (p->item) {
            case 1: fg_block_fg_item1(p, d, s, h, w); break;
            case 2: fg_block_fg_item2(p, d, s, h, w); break;
            case 4: fg_block_fg_item4(p, d, s, h, w); break;
            case 8: fg_block_fg_item8(p, d, s, h, w); break;
            default: fg_block_fg_item16(p, d, s, h, w); break;
        }
        if (++ib < p->nb) continue;
        ib = 0;
        if (++ia < p->na) continue;
        ia = 0;
        for (int x = a - 1; x >= 0; x--) {
            src += p->ss[x]; dst += p->ds[x];
            if (++at[x] < p->shape[x]) break;
            src -= at[x] * p->ss[x]; dst -= at[x] * p->ds[x];
            at[x] = 0;
        }
    }
}

/* Index along an axis: out is (outer, n, inner), contiguous; elements [begin, end) of it. */
typedef struct { char *out; int32_t dtype; int64_t n, inner; } FgIota;

#define FG_IOTA(T, VALUE) { \
    T *o = (T *)c->out; \
    if (c->inner == 1) { \
        for (int64_t i = begin; i < end; ) { \
            int64_t k0 = i % c->n, m = fg_min64(end - i, c->n - k0); \
            for (int64_t j = 0; j < m; j++) { int64_t k = k0 + j; o[i + j] = VALUE; } \
            i += m; \
        } \
    } else { \
        for (int64_t i = begin; i < end; ) { \
            int64_t k = i / c->inner % c->n, m = fg_min64(end - i, c->inner - i % c->inner); \
            T v = VALUE; \
            for (int64_t j = 0; j < m; j++) o[i + j] = v; \
            i += m; \
        } \
    } \
} break

typedef struct { float re, im; } fg_c64;
typedef struct { double re, im; } fg_c128;

static void fg_iota_range(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgIota *c = (const FgIota *)ctx;
    (void)tid;
    switch (c->dtype) {
        case FG_I8: case FG_U8: FG_IOTA(uint8_t, (uint8_t)k);
        case FG_I16: case FG_U16: FG_IOTA(uint16_t, (uint16_t)k);
        case FG_I32: case FG_U32: FG_IOTA(uint32_t, (uint32_t)k);
        case FG_I64: case FG_U64: FG_IOTA(int64_t, k);
        case FG_F16: FG_IOTA(uint16_t, fg_f32_to_f16((float)k));
        case FG_BF16: FG_IOTA(uint16_t, fg_f32_to_bf16((float)k));
        case FG_F32: FG_IOTA(float, (float)k);
        case FG_F64: FG_IOTA(double, (double)k);
        case FG_C64: FG_IOTA(fg_c64, ((fg_c64){(float)k, 0}));
        case FG_C128: FG_IOTA(fg_c128, ((fg_c128){(double)k, 0}));
        default: break;
    }
}
#endif
