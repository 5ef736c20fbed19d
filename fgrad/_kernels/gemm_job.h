/* A whole product cut into units that threads can claim: which operands to pack, and how to cut. */
#ifndef FG_GEMM_JOB_H
#define FG_GEMM_JOB_H
#include "gemm.h"
#include "half.h"

#define GEMM_KC 512              /* of K at a time: a panel of a fills the first cache */
#define GEMM_LONGEST (2 * GEMM_KC)     /* where c cannot be added to */
#define GEMM_NEAR 48             /* of b's rows at a time where they lie far away: a tile of them and the next one stay in the first cache */
#define GEMM_FEW 3               /* panels of rows to which b comes so */
#define GEMM_WAYS 8              /* rows of c that meet in few sets of the first cache and stay there */
#define GEMM_TILES 8             /* tiles of columns in a packed block of b: it fills half of a second cache of 1 MB; twice as many of 2 MB */
#define GEMM_SHORT 32            /* of K, where a tile is little more than its stores: rows of c first */
#define GEMM_AHEAD 8             /* rows of a packed tile that are fetched before they are used */
#define GEMM_UNFETCHED (GEMM_BYTES == 32 ? 128 : INT64_MAX)     /* rows of one that the machine fetches by itself */
#define GEMM_TOGETHER 4          /* panels of a that are packed together: a line of a column holds parts of several */
#define GEMM_PACKED (3 << 20)     /* bytes of a that are packed at once */
#define GEMM_SPILL 16            /* elements, at least what whole vectors of one panel's rows exceed them by */
#define GEMM_ROWS_AHEAD 24       /* columns of a that are fetched before they are packed */
#define GEMM_CLOSE (1 << 20)      /* bytes that the second cache holds */
#define GEMM_ROWS_BLOCK 14       /* panels of a that stay in the second cache while b is read where it lies */

/* A thread's share of the units, of which others claim what it has not begun; a cache line of its own. */
typedef struct { int64_t next, end, pad[6]; } GemmShare;

/* c[b] (M, N) (+)= a[b] (M, K) b[b] (K, N) for b < B; strides in elements. c's columns are contiguous, or, where `turned`, its rows.
 * Where `pairs`, elements of a and b are pairs of bfloat16 (GEMM_PAIRS), along k; b is made of them where it is packed if `halves`: then
 * it lies in rows of `depth` single ones, b0 and rb counted in them. Where `cplx`, M, K and cb count complex numbers, the rest, N included,
 * their parts, all strides of which are even (gemm_complex.h); a pair of columns is contiguous where cb is 1. `narrow` is the dtype of a c of 16 bits: then K is one piece. */
typedef struct {
    int64_t B, M, N, K;
    int64_t a0, ra, ca, b0, rb, cb, c0, ldc;
    int64_t inner, a1, b1, c1;   /* where the batch has two axes, entries along the second, and strides of the first; else inner is 0 */
    int64_t depth;
    int64_t kc, nk;              /* K in nk pieces of kc, the last one shorter */
    int32_t f64, pairs, add, pack_a, pack_b, rows_first, mr, turned, narrow, halves, cplx;
    int32_t fetch;               /* b is read where it lies, far away: the next tile of it is fetched while one is used */
    int32_t strips;              /* K is short: rows of a meet all tiles of b in one call, read from panels that are made along the way */
    int32_t apart;               /* a block of c is summed in scratch, and brought to c with the last piece of K */
    const char *a, *b;
    char *c;
    char *scratch;               /* of each thread: a block of b's panels, or of sums, and panels of a */
    int64_t block_size, scratch_size, threads;
    int64_t tall;                /* panels of a that are packed at once */
    GemmShare *shares;
    int64_t row_parts, col_parts, width;
} GemmJob;

static inline int64_t gemm_item(const GemmJob *j) { return j->f64 ? 8 : 4; }
static inline int64_t gemm_nr(const GemmJob *j) { return j->f64 ? gemm_f64_nr : gemm_f32_nr; }
static inline int64_t gemm_tiles(const GemmJob *j) { return (j->N + gemm_nr(j) - 1) / gemm_nr(j); }

/* Where entry i of a batch begins. */
static inline int64_t gemm_entry(const GemmJob *j, int64_t i, int64_t outer, int64_t stride) {
    return j->inner ? i / j->inner * outer + i % j->inner * stride : i * stride;
}

static inline int64_t gemm_up(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }

/* Rows this far apart meet in few sets of the first cache. */
static inline int gemm_clashes(int64_t stride, int64_t item) {
    int64_t r = (stride < 0 ? -stride : stride) * item % 4096;
    return r < 128 || r > 4096 - 128;
}

/* Panels of at most mr rows and of equal height: how many, and where panel p begins. */
static inline int64_t gemm_job_panels(const GemmJob *j) { return (j->M + j->mr - 1) / j->mr; }
static inline int64_t gemm_job_panel(const GemmJob *j, int64_t p) { return j->M * p / gemm_job_panels(j); }

/* Intel's processors with vectors of 512 bits multiply two of them at once, and second caches of 2 MB have come with that: half tiles, which
 * load more for each product, are dear there. */
static int gemm_broad(void) {
#if GEMM_BYTES == 64
    static int known = -1;
    if (known < 0) { __builtin_cpu_init(); known = __builtin_cpu_is("intel") != 0; }
    return known;
#else
    return 0;
#endif
}

/* Rows of a from which packing b pays where tiles are of 256-bit vectors: they load twice as much for each product as those of 512 bits, rows
 * that lie a multiple of 1 KB apart meet in few sets of a first cache of 32 KB, and second caches hold 512 KB. */
static int64_t gemm_enough_narrow(const GemmJob *j, int64_t item, int64_t size_b) {
    const int64_t stride = (j->rb < 0 ? -j->rb : j->rb) * item;
    if (size_b < 1 << 16) return INT64_MAX;
    if (stride % 2048 == 0 || size_b > GEMM_CLOSE / 2) return 64;
    return stride % 1024 == 0 ? 128 : 256;
}

/* What to pack, from measurements (docs/decisions.md): reading an operand where it lies wins while it is small or used a few times. */
static void gemm_plan(GemmJob *j) {
    int64_t item = gemm_item(j), size_a = j->M * j->K * item, size_b = j->K * j->N * item;
    if (j->K == 1) j->ca = 1;
    if (j->M == 1) j->ra = 1;
    if (j->N == 1) j->cb = 1;
    int clash_a = gemm_clashes(j->ca == 1 ? j->ra : j->ca, item) && j->K * item >= 128, clash_b = gemm_clashes(j->rb, item);
    /* Rows of a from which packing b pays: it saves most where rows of both meet in few sets and a is too large to be packed instead, and pays sooner
     * where vectors are multiplied two at a time, which asks more of the second cache. */
    int64_t enough = (clash_b && (GEMM_MR <= 8 || size_a > GEMM_CLOSE) ? 48 : gemm_broad() ? 128 : clash_b ? 192 : 400) >> j->cplx;
    j->pack_b = j->cb != 1 || j->halves || (size_b > GEMM_CLOSE && j->M >= enough) || (GEMM_BYTES == 32 && j->M >= gemm_enough_narrow(j, item, size_b))
        || (!GEMM_MASKS && j->N % (GEMM_BYTES / item));
    /* A panel of rows that meet in few sets of the first cache stays there if it is packed, or has no more of them than a set has ways: 8, or 12
     * where vectors are multiplied two at a time, and a full tile's where no packed tiles of b pass through that cache. */
    j->pack_a = !j->cplx && ((j->ra != 1 && j->ca != 1) || (clash_a && j->N >= 192
        && (j->ca == 1 ? GEMM_MR > 8 && j->M > GEMM_MR / 2 && !j->pack_b && size_a <= GEMM_CLOSE : size_a > 1 << 15)));
    /* Narrow tiles: a panel of columns is a line of each of them, of which it uses less than half; and rows of 8 MB and more come from memory for each
     * block of b; those that meet in few sets push each other out of the first cache from 4 MB on. */
    j->pack_a |= GEMM_BYTES == 32 && !j->cplx && j->K >= 256 && (j->ca != 1 ? j->N >= 192 && size_a > 1 << 17 : j->N >= 512 && size_a >= (clash_a ? 1 << 22 : 1 << 23) && j->pack_b);
    j->mr = j->pack_a || j->ca != 1 || !clash_a || GEMM_MR <= 8 ? GEMM_MR : !gemm_broad() ? GEMM_MR / 2 : j->pack_b ? 12 : GEMM_MR;
    if (j->cplx) j->mr = GEMM_MR / 2;
    if (j->K <= 32 && j->mr > GEMM_WAYS && j->M >= 2 * GEMM_WAYS && !j->turned && !j->narrow && gemm_clashes(j->ldc, item)) j->mr = GEMM_WAYS;
    /* What comes from afar is used by all panels of rows while it is in the first cache; with many of them sums cost more, unless rows meet in few sets. */
    int64_t piece = GEMM_KC, tiles = (j->narrow && j->K > GEMM_KC ? GEMM_TILES / 2 : GEMM_TILES) << gemm_broad();
    if (!j->pack_b && size_b > GEMM_CLOSE && (clash_b || j->M <= GEMM_FEW * j->mr)) piece = GEMM_NEAR;
    if (j->narrow) piece = j->K;
    j->nk = (j->K + piece - 1) / piece;
    j->kc = ((j->K + j->nk - 1) / j->nk + 7) / 8 * 8;
    j->nk = (j->K + j->kc - 1) / j->kc;
    j->fetch = !j->pack_b && size_b > GEMM_CLOSE / 4;
    j->apart = piece == GEMM_NEAR && j->nk > 1;      /* lines of c that two threads share, or that meet in few sets, would come and go with each piece */
    j->rows_first = j->pack_b || j->K <= GEMM_SHORT;
    j->strips = GEMM_BYTES == 32 && j->K <= GEMM_SHORT && j->N >= 2 * gemm_nr(j) && !j->cplx && !j->add && !j->turned && !j->narrow && size_b <= GEMM_CLOSE / 2;
    if (j->strips) tiles = (1 << 15) / (j->K * GEMM_BYTES * GEMM_NV) > tiles ? (1 << 15) / (j->K * GEMM_BYTES * GEMM_NV) : tiles;
    j->width = j->pack_b ? tiles * gemm_nr(j) : j->N;
    if (!j->pack_b && j->nk > 1 && size_b > GEMM_CLOSE) {     /* what is added to stays in the second cache */
        int64_t rows = j->M < GEMM_ROWS_BLOCK * GEMM_MR ? j->M : GEMM_ROWS_BLOCK * GEMM_MR;
        j->width = (GEMM_CLOSE / 8 / item / rows / gemm_nr(j) + 1) * gemm_nr(j);
    }
    if (j->pack_b && j->M <= j->mr && !j->strips) {             /* one panel of rows uses each tile of b once, out of the first cache where it can */
        tiles = 16384 / (j->kc * GEMM_BYTES * GEMM_NV);
        j->width = (tiles > GEMM_TILES ? GEMM_TILES : tiles > 1 ? tiles : 1) * gemm_nr(j);
    }
    if (j->width > gemm_tiles(j) * gemm_nr(j)) j->width = gemm_tiles(j) * gemm_nr(j);
    j->block_size = ((j->pack_b ? j->kc : j->apart ? j->M : 0) * j->width * item + 63) / 64 * 64;
}

/* How many panels of a are packed at once, and the room that a thread needs. */
static void gemm_room(GemmJob *j) {
    const int64_t depth = j->apart ? j->K : j->kc, panels = gemm_up(gemm_job_panels(j), j->row_parts), most = GEMM_PACKED / (depth * j->mr * gemm_item(j));
    j->tall = j->apart || panels <= most ? panels : most > GEMM_TOGETHER ? most : GEMM_TOGETHER;
    j->scratch_size = j->block_size + (j->pack_a ? (j->tall * j->mr * depth * gemm_item(j) + 63) / 64 * 64 : 0);
}

static inline int64_t gemm_units(const GemmJob *j) { return j->B * j->row_parts * j->col_parts; }

/* Cut c into parts such that no thread has much more to do than the others; returns how many threads are worth waking. */
static int64_t gemm_cut(GemmJob *j, int64_t threads) {
    int64_t panels = gemm_job_panels(j), tiles = gemm_tiles(j), best = INT64_MAX, want;
    /* Vectors computed, of which a thread shall have at least 4 microseconds. */
    double vectors = (double)j->B * gemm_up(j->N, gemm_nr(j) / GEMM_NV), work = vectors * j->M * (1 + j->cplx) * j->K;
    if (j->M < 16) work += 6 * vectors * ((j->cb != 1) * j->K + j->turned * j->M);       /* those that are packed from columns or stored so */
    if (threads > work / 15600) threads = work < 31200 ? 1 : (int64_t)(work / 15600);
    j->row_parts = j->col_parts = 1;
    if (threads == 1 || j->B >= 4 * threads) return threads;
    for (want = 1; want <= 2 * threads; want++) for (int64_t r = 1; r <= want; r++) {
        int64_t c = want / r, load;
        if (r * c != want || r > panels || c > tiles) continue;
        /* a part reads its panels and tiles, each as dear as half a panel's tile, a packed one as three; each part costs a little */
        load = 2 * gemm_up(panels, r) * gemm_up(tiles, c) + (j->pack_a ? 3 : 1) * gemm_up(panels, r) + (j->pack_b ? 3 : 1) * gemm_up(tiles, c);
        load = gemm_up(j->B * want, threads) * (load * 16 + 8);
        if (load < best) { best = load; j->row_parts = r; j->col_parts = c; }
    }
    return threads < gemm_units(j) ? threads : gemm_units(j);
}

/* Panels of pairs, as pack_b makes them, of n columns of rows of bfloat16; `depth` rows are left, the pair beyond an odd one is 0. */
static void gemm_pack_halves(uint32_t *dst, const uint16_t *src, int64_t rb, int64_t depth, int64_t kc, int64_t n) {
    for (int64_t j = 0; j < n; j += gemm_f32_nr) {
        int64_t nb = n - j < gemm_f32_nr ? n - j : gemm_f32_nr, w = gemm_f32_width(nb);
        for (int64_t k = 0; k < kc; k++, dst += w) {
            const uint16_t *lo = src + 2 * k * rb + j, *hi = lo + rb;
            __builtin_prefetch(lo + 2 * gemm_f32_nr - 1, 0, 2);          /* the next panel */
            __builtin_prefetch(hi + 2 * gemm_f32_nr - 1, 0, 2);
            if (2 * k + 1 < depth) for (int64_t l = 0; l < nb; l++) dst[l] = lo[l] | (uint32_t)hi[l] << 16;
            else for (int64_t l = 0; l < nb; l++) dst[l] = lo[l];
            for (int64_t l = nb; l < w; l++) dst[l] = 0;
        }
    }
}

/* One to half of a tile's rows; the indices that exchange neighbours. */
#if GEMM_MR == 14
#define GEMM_EACH_HALF(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#elif GEMM_MR == 12
#define GEMM_EACH_HALF(X) X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define GEMM_EACH_HALF(X) X(1) X(2) X(3)
#endif
#if GEMM_BYTES == 64
#define GEMM_MATES_float 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define GEMM_MATES_double 1, 0, 3, 2, 5, 4, 7, 6
#elif GEMM_BYTES == 32
#define GEMM_MATES_float 1, 0, 3, 2, 5, 4, 7, 6
#define GEMM_MATES_double 1, 0, 3, 2
#else
#define GEMM_MATES_float 1, 0, 3, 2
#define GEMM_MATES_double 1, 0
#endif
#define GEMM_MATES(T) GEMM_CAT(GEMM_MATES_, T)

#define T float
#define N(x) gemm_f32_##x
#include "gemm_complex.h"
#include "gemm_unit.h"
#undef T
#undef N
#define T double
#define N(x) gemm_f64_##x
#include "gemm_complex.h"
#include "gemm_unit.h"
#undef T
#undef N
#if GEMM_PAIRS
#define T float
#define N(x) gemm_pair_##x
#define GEMM_REAL
#include "gemm_unit.h"
#undef T
#undef N
#endif

static void gemm_share(GemmJob *j) {
    for (int64_t t = 0; t < j->threads; t++) {
        j->shares[t].next = gemm_units(j) * t / j->threads;
        j->shares[t].end = gemm_units(j) * (t + 1) / j->threads;
    }
}

static inline void gemm_unit(const GemmJob *j, int64_t u, char *scratch) {
#if GEMM_PAIRS
    if (j->pairs) { gemm_pair_unit(j, u, (float *)scratch); return; }
#endif
    if (j->f64) gemm_f64_unit(j, u, (double *)scratch);
    else gemm_f32_unit(j, u, (float *)scratch);
}

/* Claim units until none is left, those of the own share first: their part of c is in this thread's cache since the last call. */
static void gemm_work(const GemmJob *j, int tid) {
    int64_t step = gemm_units(j) / j->threads / 128 + 1;
    char *scratch = j->scratch + tid * j->scratch_size;
    for (int64_t v = 0; v < j->threads; v++) {
        GemmShare *share = j->shares + (tid + v) % j->threads;
        for (int64_t u; (u = __atomic_fetch_add(&share->next, step, __ATOMIC_RELAXED)) < share->end;)
            for (int64_t i = u; i < u + step && i < share->end; i++) gemm_unit(j, i, scratch);
    }
}

/* All of a small product on this thread, with no memory but the stack's; 0 if it takes more. */
static int gemm_alone(GemmJob *j) {
    char memory[1 << 14] __attribute__((aligned(64)));
    if (j->threads > 1 || j->scratch_size + GEMM_SLACK > (int64_t)sizeof memory) return 0;
    for (int64_t u = 0; u < gemm_units(j); u++) gemm_unit(j, u, memory);
    return 1;
}
#endif
