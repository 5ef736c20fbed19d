/* A whole product on the tile unit (amx.h), cut into units that threads claim.
 *
 * The smaller operand is packed as a whole, by each thread for itself or, where it is large, beforehand by all of them; a unit packs a block
 * of lines of the other one (rows of a, columns of b), a piece of k at a time, and multiplies it by the whole one's panels. How k is cut depends on nothing but the product's shape. */
#ifndef FG_GEMM_AMX_H
#define FG_GEMM_AMX_H
#include "amx.h"
#include "gemm_job.h"

#define AMX_BLOCK (800 << 10)             /* bytes of a packed block: it stays in the second cache beside panels of the other operand */
#define AMX_FEW (1 << 18)                 /* elements of c whose sums over pieces of k are made apart */
#define AMX_OWN (1 << 20)                 /* bytes of an operand that each thread packs for itself: what another core has written comes slowly */

typedef struct {
    GemmJob j;                            /* with c's columns contiguous */
    int32_t kind, parts;                  /* of amx.h; 3 of float32, else 1 */
    int64_t each;                         /* elements of a step: 32 of float32, 16 pairs, 64 bytes */
    int64_t steps, piece, pieces;         /* along k, in all and in a piece */
    int32_t a_whole, far;                 /* which operand is packed as a whole; has it what the unit cannot take? */
    int64_t shared, own;                  /* that operand is the same for all entries; each thread packs its own copy */
    int64_t chunks, left;                 /* of k, whose products are made apart, as entries of a batch, and added in order; k in the last one */
    int64_t block, blocks, cuts;          /* lines of a unit's block, blocks of an entry, parts of the whole operand's panels */
    char *whole, *scratch;                /* a thread's scratch: a block, then its own copy of the whole operand */
    int64_t whole_size, block_size, scratch_size;       /* of an entry, of a block, of a thread's scratch */
    int64_t next;                         /* the unit that is claimed next */
} AmxJob;

#if FG_AMX
static inline int64_t amx_lines(const AmxJob *w, int of_a) { return of_a ? w->j.M : w->j.N; }
static inline int64_t amx_tiles(int64_t lines) { return (lines + 15) / 16; }

/* Cycles, roughly, of either way: is this one faster by enough? The tiles' products; packing; bringing sums to where they belong. */
static int amx_wants(const GemmJob *j) {
    const int64_t many = j->M > j->N ? j->M : j->N, few = j->M + j->N - many;
    const int stores = j->pairs && few > 16;                 /* of short sums of pairs, storing them is most of either way */
    if (j->f64 || j->cplx || few < 8 || j->K < (stores ? 4 : 8)) return 0;
    double m = (double)amx_tiles(j->M), n = (double)amx_tiles(j->N), steps = (double)((j->K + (j->pairs ? 15 : 31)) / (j->pairs ? 16 : 32));
    double packs = (m + n) * steps * (j->pairs ? 120 : 480), tiles = m * n * (steps * (j->pairs ? 20 : 110) + (stores ? 130 : 60));
    double other = (double)many * (double)((few + 15) / 16) * ((double)j->K * 0.6 + (stores ? 12 : 0)) + (j->pairs ? 2.0 * (double)j->K * (double)many : 0);
    return (double)j->B * ((packs + tiles) * 0.95 + (j->pairs ? 500 : 4000)) + (j->pairs ? 1000 : 24000) < (double)j->B * other;
}

/* The same for products of bytes, beside those of groups of four. */
static int amx_wants_bytes(const GemmJob *j) {
    if (j->M < 8 || j->N < 8 || j->K < 16) return 0;
    double m = (double)amx_tiles(j->M), n = (double)amx_tiles(j->N), steps = (double)((j->K + 63) / 64);
    double other = (double)j->M * n * (double)j->K * 0.14 + 20 * m * (double)j->K + n * (double)j->K * 5;
    return (double)j->B * ((m + n) * steps * 120 + m * n * (steps * 20 + 100)) * 1.1 + 2000 < (double)j->B * other;
}

/* A job whose c has contiguous rows is that of the turned product. */
static void amx_plan(AmxJob *w, const GemmJob *from, int kind, int64_t threads) {
    GemmJob *j = &w->j;
    int64_t other, size;
    *j = *from;
    if (j->turned) {
        j->M = from->N; j->N = from->M; j->turned = 0;
        j->a = from->b; j->ra = from->cb; j->ca = from->rb; j->a0 = from->b0; j->a1 = from->b1;
        j->b = from->a; j->rb = from->ca; j->cb = from->ra; j->b0 = from->a0; j->b1 = from->a1;
    }
    if (j->M == 1) j->ra = 1;
    if (j->N == 1) j->cb = 1;
    w->kind = kind;
    w->parts = kind == AMX_F32 ? 3 : 1;
    w->each = kind == AMX_F32 ? 32 : kind == AMX_BF16 ? 16 : 64;
    w->steps = (j->K + w->each - 1) / w->each;
    int64_t most = kind == AMX_F32 ? 16 : 48, pieces = j->narrow ? 1 : (w->steps + most - 1) / most;
    w->piece = (w->steps + pieces - 1) / pieces;
    w->pieces = (w->steps + w->piece - 1) / w->piece;
    /* Long sums of few elements: each thread has its own pieces of k, added up in their order as they would be otherwise. */
    w->chunks = 0;
    if (threads > 1 && w->pieces > 1 && j->B == 1 && !j->add && j->M * j->N <= AMX_FEW) {
        const int64_t k = w->piece * w->each;
        w->chunks = w->pieces;
        w->left = j->K - (w->chunks - 1) * k;
        j->B = w->chunks; j->K = k; j->inner = 0;
        j->a0 = k * j->ca; j->b0 = k * j->rb * (j->halves ? 2 : 1); j->c0 = j->M * j->N; j->ldc = j->N;
        w->steps = w->piece;
        w->pieces = 1;
    }
    int a_shared = j->B == 1 || (j->a0 == 0 && (!j->inner || j->a1 == 0)), b_shared = j->B == 1 || (j->b0 == 0 && (!j->inner || j->b1 == 0));
    w->a_whole = a_shared != b_shared ? a_shared : j->M < j->N;
    w->shared = w->a_whole ? a_shared : b_shared;
    w->far = 0;
    w->next = 0;
    w->whole_size = w->steps * w->parts * amx_tiles(amx_lines(w, w->a_whole)) * AMX_TILE;
    /* lines of a block: what the cache keeps, and equal shares for the threads */
    other = (amx_lines(w, !w->a_whole) + AMX_LINES - 1) / AMX_LINES;
    size = w->piece * w->parts * 2 * AMX_TILE;
    most = AMX_BLOCK / size > 1 ? AMX_BLOCK / size : 1;
    w->blocks = (other + most - 1) / most;
    w->cuts = 1;
    if (threads > 1 && j->B < 4 * threads) {
        w->blocks = (w->blocks + threads - 1) / threads * threads;
        if (w->blocks > other) {
            w->blocks = other;
            if (j->B * other < threads) w->cuts = amx_lines(w, w->a_whole) / AMX_LINES < threads ? amx_lines(w, w->a_whole) / AMX_LINES : threads;
            if (w->cuts < 1) w->cuts = 1;
        }
    }
    w->block = (other + w->blocks - 1) / w->blocks;
    w->own = w->whole_size <= AMX_OWN;
    w->block_size = w->block * size;
    w->scratch_size = w->block_size + w->own * w->whole_size;
    w->blocks = (other + w->block - 1) / w->block;
    w->block *= AMX_LINES;
}
static inline int64_t amx_units(const AmxJob *w) { return w->j.B * w->blocks * w->cuts; }
static inline int64_t amx_whole_entries(const AmxJob *w) { return w->shared ? 1 : w->j.B; }

/* Panels of lines [l0, l1) of a or b of an entry over piece i of k; 1 if there is what the unit cannot take. */
AMX_CODE static int amx_pack_lines(const AmxJob *w, int of_a, int64_t entry, int64_t l0, int64_t l1, int64_t i, char *to) {
    const int64_t s0 = i * w->piece, s1 = s0 + w->piece < w->steps ? s0 + w->piece : w->steps;
    const GemmJob *j = &w->j;
    const int64_t line = of_a ? j->ra : j->cb, k = of_a ? j->ca : j->rb, from = of_a ? gemm_entry(j, entry, j->a1, j->a0) : gemm_entry(j, entry, j->b1, j->b0);
    const char *src = of_a ? j->a : j->b;
    const int64_t each = w->each, all = w->chunks && entry == w->chunks - 1 ? w->left : j->K;
    const int64_t single = j->depth - 2 * (w->chunks ? entry * j->K : 0);
    AmxSeen seen = amx_seen();
    for (int64_t l = l0; l < l1; l += AMX_LINES) {
        const int64_t here = l1 - l < AMX_LINES ? l1 - l : AMX_LINES, tiles = amx_tiles(here);
        for (int64_t s = s0; s < s1; s++, to += w->parts * tiles * AMX_TILE) for (int64_t t = 0; t < tiles; t++) {
            const int64_t lines = here - 16 * t < 16 ? here - 16 * t : 16, depth = all - s * each < each ? all - s * each : each, at = l + 16 * t;
            char *tile = to + t * AMX_TILE;
            if (w->kind > AMX_F32) amx_pack_bytes(tile, (const uint8_t *)src + from + at * line + s * each * k, line, k, lines, depth, of_a);
            else if (w->kind == AMX_F32) amx_pack_split(tile, tiles * AMX_TILE, (const float *)src + from + at * line + s * each * k, line, k, lines, depth, of_a, &seen);
            else if (!of_a && j->halves) amx_pack_halves(tile, (const uint16_t *)src + from + at + 2 * s * each * k, k, lines, single - 2 * s * each);
            else amx_pack_pairs(tile, (const uint32_t *)src + from + at * line + s * each * k, line, k, lines, depth, of_a);
        }
    }
    if (w->kind != AMX_F32) return 0;
    const int64_t k0 = s0 * each, depth = (s1 * each < all ? s1 * each : all) - k0;
    return amx_has_far(&seen) || (amx_has_tiny(&seen) && amx_has_small_line((const float *)src + from + l0 * line + k0 * k, line, k, l1 - l0, depth));
}

/* Units of the whole operand of an entry, (piece, panel), to `to`; 1 if there is what the unit cannot take. */
static int amx_pack_whole(const AmxJob *w, int64_t entry, int64_t begin, int64_t end, char *to) {
    const int64_t lines = amx_lines(w, w->a_whole), panels = (lines + AMX_LINES - 1) / AMX_LINES, tiles = amx_tiles(lines);
    int far = 0;
    for (int64_t u = begin; u < end; u++) {
        const int64_t p = u % panels, i = u / panels, s0 = i * w->piece, steps = w->steps - s0 < w->piece ? w->steps - s0 : w->piece;
        const int64_t l1 = (p + 1) * AMX_LINES < lines ? (p + 1) * AMX_LINES : lines;
        far |= amx_pack_lines(w, w->a_whole, entry, p * AMX_LINES, l1, i, to + (s0 * tiles + 2 * p * steps) * w->parts * AMX_TILE);
    }
    return far;
}
static inline int64_t amx_whole_units(const AmxJob *w) { return w->pieces * ((amx_lines(w, w->a_whole) + AMX_LINES - 1) / AMX_LINES); }

/* Lines [l0, l1) that were packed to `block`, over piece i of k, times panels [p0, p1) of the whole operand of the entry. */
static void amx_multiply(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, const char *block, const char *whole) {
    const GemmJob *j = &w->j;
    const int64_t lines = amx_lines(w, w->a_whole), s0 = i * w->piece, steps = w->steps - s0 < w->piece ? w->steps - s0 : w->piece;
    const int64_t size = steps * w->parts * AMX_TILE, c0 = gemm_entry(j, entry, j->c1, j->c0);
    whole += s0 * amx_tiles(lines) * w->parts * AMX_TILE;
    const int add = j->add || i;
    float sums[AMX_LINES * AMX_LINES] __attribute__((aligned(64)));
    const int64_t share = (2 * size / 64 + steps * ((l1 - l0 + AMX_LINES - 1) / AMX_LINES) - 1) / (steps * ((l1 - l0 + AMX_LINES - 1) / AMX_LINES));
    const char *fetched = 0;
    amx_begin();
    for (int64_t p = p0; p < p1; p++) for (int64_t l = l0; l < l1; l += AMX_LINES) {
        if (l == l0) fetched = whole + 2 * (p + 1) * size;
        const char *own = block + (l - l0) / 16 * size, *other = whole + 2 * p * size;
        const int64_t q = p * AMX_LINES, row = w->a_whole ? q : l, col = w->a_whole ? l : q;
        const int64_t m = w->a_whole ? (lines - q < AMX_LINES ? lines - q : AMX_LINES) : l1 - l < AMX_LINES ? l1 - l : AMX_LINES;
        const int64_t n = w->a_whole ? (l1 - l < AMX_LINES ? l1 - l : AMX_LINES) : lines - q < AMX_LINES ? lines - q : AMX_LINES;
        const char *a = w->a_whole ? other : own, *b = w->a_whole ? own : other;
        const int64_t to = c0 + row * j->ldc + col;
        const int there = !j->narrow && !add && m % 16 == 0 && n % 16 == 0;
        /* the next panel of the whole operand, a share of it beside each of the block's; the next tile of c */
        const int last = l + AMX_LINES >= l1;
        AmxAhead next = {fetched, p + 1 < p1 ? share : 0, 0, j->ldc, 0, AMX_LINES};
        if (!j->narrow && !(last && p + 1 >= p1)) {
            const int64_t pn = last ? p + 1 : p, ln = last ? l0 : l + AMX_LINES;
            next.c = (float *)j->c + c0 + (w->a_whole ? pn * AMX_LINES * j->ldc + ln : ln * j->ldc + pn * AMX_LINES);
            next.rows = (AMX_LINES + steps - 1) / steps;
        }
        if (there) {
            amx_panel(m, n, w->kind, steps, a, b, (float *)j->c + to, j->ldc, &next);
            fetched = next.panel;
            continue;
        }
        amx_panel(m, n, w->kind, steps, a, b, sums, AMX_LINES, &next);      /* a piece's sum is made before it is added: fewer roundings of large sums */
        fetched = next.panel;
        if (j->narrow) for (int64_t r = 0; r < m; r++) fg_narrow16(j->narrow, sums + r * AMX_LINES, (uint16_t *)j->c + to + r * j->ldc, n);
        else for (int64_t r = 0; r < m; r++) {
            float *c = (float *)j->c + to + r * j->ldc;
            const float *s = sums + r * AMX_LINES;
            if (add && w->kind > AMX_F32) for (int64_t k = 0; k < n; k++) ((uint32_t *)c)[k] += ((const uint32_t *)s)[k];
            else if (add && n == AMX_LINES) for (int k = 0; k < AMX_LINES; k++) c[k] += s[k];
            else if (add) for (int64_t k = 0; k < n; k++) c[k] += s[k];
            else memcpy(c, s, (size_t)n * 4);
        }
    }
    amx_end();
}

static void amx_add_integers(const AmxJob *w, uint32_t *restrict to, const uint32_t *part) {
    for (int64_t k = 0; k < w->j.N; k++) to[k] = part[k];
    for (int64_t t = 1; t < w->chunks; t++) for (int64_t k = 0; k < w->j.N; k++) to[k] += part[t * w->j.c0 + k];
}

/* Rows [begin, end) of c from the chunks' products, which follow each other at j.c. */
static void amx_add_chunks(const AmxJob *w, int64_t begin, int64_t end, float *c, int64_t ldc) {
    const int64_t n = w->j.N, step = w->j.c0;
    for (int64_t i = begin; i < end; i++) {
        if (w->kind > AMX_F32) { amx_add_integers(w, (uint32_t *)c + i * ldc, (const uint32_t *)w->j.c + i * n); continue; }
        float *restrict to = c + i * ldc;
        const float *part = (const float *)w->j.c + i * n;
        for (int64_t k = 0; k < n; k++) to[k] = part[k] + part[step + k];
        for (int64_t t = 2; t < w->chunks; t++) for (int64_t k = 0; k < n; k++) to[k] += part[t * step + k];
    }
}

/* What a unit of piece i is as a product of its own, for the other way. */
static void amx_other(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, GemmJob *to) {
    const GemmJob *j = &w->j;
    const int64_t lines = amx_lines(w, w->a_whole), q0 = p0 * AMX_LINES, q1 = p1 * AMX_LINES < lines ? p1 * AMX_LINES : lines;
    const int64_t m0 = w->a_whole ? q0 : l0, m1 = w->a_whole ? q1 : l1, n0 = w->a_whole ? l0 : q0, n1 = w->a_whole ? l1 : q1;
    const int64_t k0 = i * w->piece * 32, all = w->chunks && entry == w->chunks - 1 ? w->left : j->K;
    const int64_t k1 = k0 + w->piece * 32 < all ? k0 + w->piece * 32 : all;
    *to = *j;
    to->B = 1; to->M = m1 - m0; to->N = n1 - n0; to->K = k1 - k0; to->inner = 0;
    to->a += 4 * (gemm_entry(j, entry, j->a1, j->a0) + m0 * j->ra + k0 * j->ca);
    to->b += 4 * (gemm_entry(j, entry, j->b1, j->b0) + k0 * j->rb + n0 * j->cb);
    to->c += (j->narrow ? 2 : 4) * (gemm_entry(j, entry, j->c1, j->c0) + m0 * j->ldc + n0);
    to->a0 = to->b0 = to->c0 = 0;
    to->add = j->add || i;
}
#else
static int amx_supported(void) { return 0; }
static int amx_wants(const GemmJob *j) { return 0; }
static int amx_wants_bytes(const GemmJob *j) { return 0; }
static void amx_plan(AmxJob *w, const GemmJob *from, int kind, int64_t threads) {}
static int64_t amx_units(const AmxJob *w) { return 0; }
static int64_t amx_whole_entries(const AmxJob *w) { return 0; }
static int64_t amx_whole_units(const AmxJob *w) { return 0; }
static int64_t amx_lines(const AmxJob *w, int of_a) { return 0; }
static int amx_pack_lines(const AmxJob *w, int of_a, int64_t entry, int64_t l0, int64_t l1, int64_t i, char *to) { return 0; }
static int amx_pack_whole(const AmxJob *w, int64_t entry, int64_t begin, int64_t end, char *to) { return 0; }
static void amx_multiply(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, const char *block, const char *whole) {}
static void amx_other(const AmxJob *w, int64_t entry, int64_t l0, int64_t l1, int64_t p0, int64_t p1, int64_t i, GemmJob *to) {}
static void amx_add_chunks(const AmxJob *w, int64_t begin, int64_t end, float *c, int64_t ldc) {}
#endif
#endif
