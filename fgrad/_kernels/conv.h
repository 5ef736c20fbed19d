/* Convolutions: out[b, g O + o, q] = sum over c, r of x[b, g C + c, q s + r d - lo] w[g O + o, c, r] (feature groups g), or
 * with x[g B + b, c, ...] (batch groups).
 *
 * A dilated input is never filled with zeros: outputs whose positions have one remainder modulo the dilation are one part, a plain
 * convolution over every n-th tap, and the parts are computed one after the other.
 *
 * Dense parts of floats run register tiles over blocks of input rows (conv_dense.h; conv_pairs.h for bfloat16), or those of the tile unit
 * (conv_tiles.h), many groups of few
 * features vectors of groups (conv_near.h, conv_groups.h, conv_lanes.h); sums over rows that lie so in both operands conv_along.h.
 *
 * A part of complex numbers is a product of matrices: X (M, K) times W (K, O), where a row m of X is an output position (b, q), and a
 * column k a tap (c, r). X is never stored: panels of mt x kt, which fit in the second cache, are packed from x where it lies and
 * handed to BLAS. Either side's positions are listed in runs along one axis, so that a panel is packed by copies of rows. */
#ifndef FG_CONV_H
#define FG_CONV_H
#include "amx.h"
#include "fg.h"
#include "gemm.h"

#define FG_CONV_PANEL 393216          /* bytes of a panel */
#define FG_CONV_BLOCK 262144          /* bytes of a block of rows */
#define FG_CONV_FAR 2097152           /* bytes of inputs from which on those of the next block are fetched */
#define FG_CONV_AWAY 25165824          /* bytes of an operand from which on it comes from memory */
#define FG_CONV_RUN 8192               /* bytes of a row of products that is summed at once */
#define FG_CONV_SMALL 33554432        /* bytes of inputs of all images that are kept as tiles */
#define FG_CONV_SUMMED 65536          /* sums, at most, that each chunk has of its own though there are units for the threads */
#define FG_CONV_LARGE 1048576         /* bytes of a kernel that is read once */
#define FG_CONV_RING 131072           /* bytes of a ring of padded rows */
#if defined(__GNUC__) && !defined(__clang__) && (defined(__AVX2__) || defined(__aarch64__))
#define CONV_MIX 1                    /* lanes of a vector can be permuted by another vector */
#else
#define CONV_MIX 0
#endif
#if GEMM_MASKS || (defined(__AVX2__) && GEMM_BYTES == 32)
#define CONV_IN_PLANES 1              /* part of a vector is loaded as fast as all of it */
#else
#define CONV_IN_PLANES 0
#endif
#define CONV_TILED (FG_AMX && GEMM_BYTES == 64)
#define CONV_PLACE 32                 /* images whose partial sums are placed together */
#define CONV_PART 16                  /* input features whose taps Winograd packs before it transforms them */
#define CONV_WHOLE 256                /* tiles whose products with a large kernel are computed together, or those of one image */
#define CONV_SHIFTS 8                 /* columns of a depthwise kernel whose gradient is summed where planes lie, at most */
#define CONV_TALL 32                  /* rows of them that meet all taps before the next ones */
#define FG_CONV_TILES 7168            /* transformed elements of a block of Winograd's, over 16 */
enum {
    CONV_CLEAR, CONV_PANELS, CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_COLUMNS, CONV_SUMS, CONV_ALONG, CONV_WINOGRAD, CONV_LANES, CONV_LANE_SUMS, CONV_GROUPS, CONV_GROUP_SUMS,
    CONV_MIXED, CONV_NEAR, CONV_ROWS, CONV_DOTS, CONV_PLANES, CONV_PLANE_SUMS, CONV_TILES, CONV_TILE_SUMS
};

typedef void (*FgGemm)(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b, int64_t ldb,
                       int add, char *c, int64_t ldc);

/* One axis of M or K: its length, the steps it makes in x, in the other operand (w or out), and on spatial axis `dim`. */
typedef struct { int64_t n, x, y, pos; int dim; } FgDigit;

/* Positions that follow each other along the last digit; `at` is where they begin in the block. */
typedef struct { int64_t off, pos[3]; int64_t at, len; } FgSpan;

/* Where a row of taps begins in x and in w. */
typedef struct { int64_t x, w; } FgTap;

/* A row of x, and of the taps that it meets for each of two rows of outputs, if any. */
typedef struct { int64_t x, w[2]; } FgNear;
#define CONV_NO_TAP INT64_MIN

/* An axis of a kernel of bfloat16: its length and steps there and in its copy of pairs; `pair`: it is the one that pairs lie along. */
typedef struct { int64_t n, from, to; int pair; } FgPairAxis;

/* Room for the taps of a row of outputs, and for the first tap (x) and the end (w) of those inside, for each output of it. */
typedef struct { FgTap *taps, *inside; } FgGroupSpace;

typedef struct {
    int32_t dtype, ndim;
    int64_t G, B, C, O;               /* groups; batch, input and output features of one group */
    int64_t xg, xb, xc, xs[3], wg, wc, wo, ws[3], og, ob, oo, os[3];
    int64_t Q[3], R[3], L[3], stride[3], lo[3], ldil[3], rdil[3], phases[3];
    int64_t pairs, pair, wpair;       /* of bfloat16: input features, their steps in x and in the kernel; C counts pairs */
    int32_t narrow, half;             /* outputs are bfloat16; so is everything, and products are those of float32 */
    FgPairAxis waxes[5];
    int undilate;                     /* outputs by their remainder modulo the kernel's dilation, so that no part has one */
    int single;                       /* every output along an axis with strides is a part of its own */
    int reversed;                     /* outputs are written from the last one on along every spatial axis: os is negative */
    int64_t o0;                       /* where the first output is written */
} FgConv;

typedef struct {
    const FgConv *c;
    int64_t Q[3], R[3], s[3], d[3], lo[3], L[3], xs[3], wr[3], os[3], x0, w0, o0;
    int64_t r0[3], rs[3];             /* the kernel's taps that are its own: the first, and the step to the next */
    int algo;
    FgDigit m[4], k[4];
    int64_t M, K, Mi, Ki, mt, kt, mtiles, kc, nk;
    int64_t block[2], blocks[2], x_size, w_size;      /* dense: rows and columns of a block, their numbers; elements of blocks */
    int in_place;                     /* inputs need neither padding nor a copy */
    int cut;                          /* as rows are cut where taps enter and leave the image */
    double tile;                      /* what a tile of Winograd's costs, in steps; what all blocks of the tile unit's do, in cycles */
    int64_t wk, wo, um, uo;           /* strides of W inside a block of K, of out inside a tile of M */
    int inner_m, pack_w, scratch_out, w_trans, out_trans;
    int turned, beside;               /* sums: an output feature's batch and positions follow each other, or an image's features and they do */
    int64_t slice, slices;            /* groups: those of a row that go together */
    int64_t pitch;                    /* spans: columns of one remainder modulo the stride in a row of a block */
    int64_t wg, ww, segments;         /* elements of a group's packed W, and of what Winograd makes of it, in so many segments */
    int64_t images;                   /* of a block of Winograd's, whole where they are more than one; sums along rows: planes of a block */
    int64_t pass;                     /* Winograd: output features whose products are kept together */
    int whole, phase;                 /* Winograd: all tiles of so many images are one block, computed in phases; which one runs */
    int64_t b0;                       /* and from which image on */
    int amx;                          /* may it run on the tile unit? */
    int tiled;                        /* tiles: its blocks are neither cut nor read where they lie */
    int joined;                       /* tile sums: features of a row of taps go as those of one */
    int flat, far;                    /* tiles: rows of a block are one line of outputs, `pitch` apart; the kernel has what the unit cannot take */
    int64_t runs, steps;              /* tiles: runs of taps along a row, steps of a run */
    char *tiles;                      /* the kernel as tiles */
    const char *x, *w;
    char *out, *part;                 /* partial sums (nk, G, M, O) */
    FgGemm gemm;
    int failed;
} FgConvPart;

/* A block of Winograd's: `images` from b on, rows x cols tiles of each from output (q0, q1, q2) on, n2 columns of outputs. Matrices of
 * inputs are `size` elements apart, those of products `step`: not powers of two, which would share a set of the first cache. */
typedef struct { int64_t g, b, images, q0, q1, q2, rows, cols, n2, tiles, size, step; } FgTiles;

/* Positions to copy: (planes, rows, cols) of `features`, which are `stride` apart in x; plane i is at p0 + i step, and so on.
 * Of pairs the first `whole` features have two. */
typedef struct { int64_t planes, rows, cols, features, stride, p0, step, p1, p2, whole; } FgFill;

static inline int64_t conv_gcd(int64_t a, int64_t b) { while (b) { int64_t t = a % b; a = b; b = t; } return a; }
static inline int64_t conv_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t conv_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t conv_ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t conv_mod(int64_t a, int64_t b) { int64_t r = a % b; return r < 0 ? r + b : r; }

/* Digits of a number whose last one runs fastest. */
static inline void conv_index(int64_t i, const int64_t *sizes, int n, int64_t *at) {
    for (int d = n - 1; d >= 0; d--) { at[d] = i % sizes[d]; i /= sizes[d]; }
}

/* The part of [0, n) in which base + i step is inside [0, L). */
static inline void conv_inside(int64_t base, int64_t step, int64_t L, int64_t n, int64_t *lo, int64_t *hi) {
    *lo = base < 0 ? conv_min(n, conv_ceil(-base, step)) : 0;
    *hi = base < L ? conv_max(*lo, conv_min(n, conv_ceil(L - base, step))) : *lo;
}

/* A row of memory, into the second cache or, where it is written, the first. */
static inline void conv_fetch_row(const void *from, int64_t bytes, const int writes) {
    const char *at = (const char *)from, *last = at + bytes - 1;
    for (; at < last; at += 64) if (writes) __builtin_prefetch(at, 1, 3); else __builtin_prefetch(at, 0, 2);
    if (writes) __builtin_prefetch(last, 1, 3); else __builtin_prefetch(last, 0, 2);
    __asm__ volatile("");                     /* or GCC takes a function that does nothing but fetch for one that does nothing */
}

/* The first output after q on axis d, up to `end`, whose window has other taps inside the image than q's. */
static int64_t conv_alike(const FgConvPart *p, int d, int64_t q, int64_t end) {
    int64_t stop = end, lo, hi;
    for (int64_t r = 0; r < p->R[d]; r++) {
        conv_inside(r * p->d[d] - p->lo[d], p->s[d], p->L[d], end, &lo, &hi);
        if (lo > q) stop = conv_min(stop, lo);
        if (hi > q) stop = conv_min(stop, hi);
    }
    return stop;
}

/* Taps that meet nothing but padding, for every output, are left out. */
static void conv_trim(FgConvPart *p, int d) {
    int64_t reach = p->lo[d] - (p->Q[d] - 1) * p->s[d], stop = p->c->L[d] + p->lo[d];
    int64_t first = reach > 0 ? conv_ceil(reach, p->d[d]) : 0, end = stop > 0 ? conv_min(p->R[d], conv_ceil(stop, p->d[d])) : 0;
    if (p->Q[d] < 1) return;
    p->R[d] = conv_max(0, end - first);
    p->w0 += p->R[d] ? first * p->wr[d] : 0;
    p->r0[d] += first * p->rs[d];
    p->lo[d] -= first * p->d[d];
}

/* Where strides and dilations have a common divisor, a part reads every n-th position only: those are its input. */
static void conv_thin(FgConvPart *p, int d) {
    const FgConv *c = p->c;
    int64_t s = p->Q[d] > 1 ? p->s[d] : 0, r = p->R[d] > 1 ? p->d[d] : 0, n = s || r ? conv_gcd(s, r) : 1, first = conv_mod(-p->lo[d], n);
    p->L[d] = c->L[d] > first ? conv_ceil(c->L[d] - first, n) : 0;
    p->x0 += p->L[d] ? first * c->xs[d] : 0;
    p->xs[d] = n * c->xs[d];
    p->lo[d] = (p->lo[d] + first) / n;
    p->s[d] = s ? s / n : 1;
    p->d[d] = r ? r / n : 1;
}

/* Part number `index` of the phases: outputs q = f + q' step, taps r = r0 + r' rstep, positions in the undilated input. */
static void conv_part(const FgConv *c, int64_t index, FgConvPart *p) {
    memset(p, 0, sizeof *p);
    p->c = c;
    p->o0 = c->o0;
    for (int d = 2; d >= 0; d--) {
        int64_t ld = c->ldil[d], f = index % c->phases[d], rd = c->undilate ? c->rdil[d] : 1;
        int64_t step = c->single ? c->phases[d] : ld * rd / conv_gcd(c->stride[d], ld * rd), rstep = ld / conv_gcd(c->rdil[d], ld), r0 = 0;
        index /= c->phases[d];
        while (r0 < c->R[d] && r0 < rstep && conv_mod(f * c->stride[d] + r0 * c->rdil[d] - c->lo[d], ld)) r0++;
        p->Q[d] = c->Q[d] > f ? conv_ceil(c->Q[d] - f, step) : 0;
        p->R[d] = r0 < c->R[d] && r0 < rstep ? conv_ceil(c->R[d] - r0, rstep) : 0;
        p->s[d] = step * c->stride[d] / ld;
        p->d[d] = rstep * c->rdil[d] / ld;
        p->lo[d] = p->R[d] ? -((f * c->stride[d] + r0 * c->rdil[d] - c->lo[d]) / ld) : 0;
        p->wr[d] = c->ws[d] * rstep;
        p->os[d] = c->os[d] * step;
        p->w0 += p->R[d] ? r0 * c->ws[d] : 0;
        p->r0[d] = r0;
        p->rs[d] = rstep;
        p->o0 += f * c->os[d];
        conv_trim(p, d);
        conv_thin(p, d);
    }
}

/* ---------------------------------------------------------------- digits */

/* Are the y steps of digits [from, 4) those of one axis?  Its step goes to *unit (1 where it has at most one element). */
static int conv_uniform(const FgDigit *t, int from, int64_t *unit) {
    int64_t expect = 0;
    *unit = 1;
    for (int i = 3; i >= from; i--) {
        if (t[i].n == 1) continue;
        if (expect == 0) *unit = t[i].y;
        else if (t[i].y != expect) return 0;
        expect = t[i].y * t[i].n;
    }
    return 1;
}

static void conv_digits_m(const FgConvPart *p, int batch_last, FgDigit *t) {
    const FgConv *c = p->c;
    FgDigit b = {c->B, c->xb, c->ob, 0, 0};
    for (int d = 0; d < 3; d++) t[d + !batch_last] = (FgDigit){p->Q[d], p->s[d] * p->xs[d], p->os[d], p->s[d], d};
    t[batch_last ? 3 : 0] = b;
}

static void conv_digits_k(const FgConvPart *p, int feature_last, FgDigit *t) {
    const FgConv *c = p->c;
    FgDigit f = {c->C, c->xc, c->wc, 0, 0};
    for (int d = 0; d < 3; d++) t[d + !feature_last] = (FgDigit){p->R[d], p->d[d] * p->xs[d], p->wr[d], p->d[d], d};
    t[feature_last ? 3 : 0] = f;
}

/* Product of the digits [from, to). */
static int64_t conv_count(const FgDigit *t, int from, int to) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= t[i].n;
    return n;
}

/* Digits are [outer | inner]; the lone batch or feature digit is the outer part, or the inner one: where that begins. */
static int conv_inner(const FgDigit *t) { return t[0].pos == 0 ? 1 : 3; }

static void conv_decode(const FgDigit *t, int64_t i, int64_t *idx) {
    for (int d = 3; d >= 0; d--) { idx[d] = i % t[d].n; i /= t[d].n; }
}

/* y step of position i */
static int64_t conv_y(const FgDigit *t, int64_t i) {
    int64_t off = 0;
    for (int d = 3; d >= 0; d--) { off += (i % t[d].n) * t[d].y; i /= t[d].n; }
    return off;
}

/* List positions [i, i + n) as runs along the last digit, or one by one, relative to the spatial position -lo. */
static int64_t conv_runs(const FgConvPart *p, const FgDigit *t, const int64_t *lo, int64_t i, int64_t n, int single, FgSpan *out) {
    int64_t idx[4], count = 0, done = 0;
    conv_decode(t, i, idx);
    while (done < n) {
        FgSpan *r = &out[count++];
        r->off = 0;
        for (int d = 0; d < 3; d++) { r->pos[d] = -lo[d]; r->off -= lo[d] * p->xs[d]; }
        for (int d = 0; d < 4; d++) {
            r->off += idx[d] * t[d].x;
            r->pos[t[d].dim] += idx[d] * t[d].pos;
        }
        r->at = done;
        r->len = single ? 1 : conv_min(t[3].n - idx[3], n - done);
        done += r->len;
        idx[3] += r->len;
        for (int d = 3; d > 0 && idx[d] == t[d].n; d--) { idx[d] = 0; idx[d - 1]++; }
    }
    return count;
}
#endif
