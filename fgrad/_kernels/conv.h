/* Plans of convolutions: out[b, g O + o, q] = sum over c, r of x[b, g C + c, q s + r d - lo] w[g O + o, c, r] (feature groups g), or
 * with x[g B + b, c, ...] (batch groups).
 *
 * A dilated input is never filled with zeros: outputs whose positions have one remainder modulo the dilation are one part, a plain
 * convolution over every n-th tap, and the parts are computed one after the other.
 *
 * Dense parts of floats run register tiles over blocks of input rows (conv_dense.h; conv_pairs.h for bfloat16), many groups of few
 * features vectors of groups (conv_groups.h, conv_lanes.h).
 *
 * A part of complex numbers is a product of matrices: X (M, K) times W (K, O), where a row m of X is an output position (b, q), and a
 * column k a tap (c, r). X is never stored: panels of mt x kt, which fit in the second cache, are packed from x where it lies and
 * handed to BLAS. Either side's positions are listed in runs along one axis, so that a panel is packed by copies of rows. */
#ifndef FG_CONV_H
#define FG_CONV_H
#include "fg.h"
#include "gemm.h"

#define FG_CONV_PANEL 393216          /* bytes of a panel */
#define FG_CONV_BLOCK 262144          /* bytes of a block of rows */
#define FG_CONV_RING 131072           /* bytes of a ring of padded rows */
#if defined(__GNUC__) && !defined(__clang__) && (defined(__AVX2__) || defined(__aarch64__))
#define CONV_MIX 1                    /* lanes of a vector can be permuted by another vector */
#else
#define CONV_MIX 0
#endif
#define CONV_PLACE 32                 /* images whose partial sums are placed together */
#define FG_CONV_TILES 7168            /* transformed elements of a block of Winograd's, over 16 */
enum {
    CONV_CLEAR, CONV_PANELS, CONV_DENSE, CONV_FEW, CONV_SPANS, CONV_SUMS, CONV_WINOGRAD, CONV_LANES, CONV_LANE_SUMS, CONV_GROUPS, CONV_GROUP_SUMS,
    CONV_MIXED, CONV_ROWS, CONV_DOTS, CONV_PLANES
};

typedef void (*FgGemm)(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, const char *a, int64_t lda, const char *b, int64_t ldb,
                       int add, char *c, int64_t ldc);

/* One axis of M or K: its length, the steps it makes in x, in the other operand (w or out), and on spatial axis `dim`. */
typedef struct { int64_t n, x, y, pos; int dim; } FgDigit;

/* Positions that follow each other along the last digit; `at` is where they begin in the block. */
typedef struct { int64_t off, pos[3]; int64_t at, len; } FgSpan;

/* Where a row of taps begins in x and in w. */
typedef struct { int64_t x, w; } FgTap;

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
    int algo;
    FgDigit m[4], k[4];
    int64_t M, K, Mi, Ki, mt, kt, mtiles, kc, nk;
    int64_t block[2], blocks[2], x_size, w_size;      /* dense: rows and columns of a block, their numbers; elements of blocks */
    int in_place;                     /* inputs need neither padding nor a copy */
    int64_t wk, wo, um, uo;           /* strides of W inside a block of K, of out inside a tile of M */
    int inner_m, pack_w, scratch_out, w_trans, out_trans;
    int turned;                       /* sums: an output feature's batch and positions follow each other */
    int64_t slice, slices;            /* groups: those of a row that go together */
    int64_t pitch;                    /* spans: columns of one remainder modulo the stride in a row of a block */
    int64_t wg, ww, segments;         /* elements of a group's packed W, and of what Winograd makes of it, in so many segments */
    int64_t images;                   /* of a block of Winograd's, whole where they are more than one */
    const char *x, *w;
    char *out, *part;                 /* partial sums (nk, G, M, O) */
    FgGemm gemm;
    int failed;
} FgConvPart;

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

/* Taps that meet nothing but padding, for every output, are left out. */
static void conv_trim(FgConvPart *p, int d) {
    int64_t reach = p->lo[d] - (p->Q[d] - 1) * p->s[d], stop = p->c->L[d] + p->lo[d];
    int64_t first = reach > 0 ? conv_ceil(reach, p->d[d]) : 0, end = stop > 0 ? conv_min(p->R[d], conv_ceil(stop, p->d[d])) : 0;
    if (p->Q[d] < 1) return;
    p->R[d] = conv_max(0, end - first);
    p->w0 += p->R[d] ? first * p->wr[d] : 0;
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

/* ---------------------------------------------------------------- the plan of a part */

/* Cost of packing an element by runs along a digit, in nanoseconds, roughly: a start, then a copy or a gather. */
static double conv_run_cost(const FgDigit *t) {
    int64_t len = conv_min(t->n, 512);
    return 8.0 / (double)conv_max(len, 1) + (t->x == 1 ? 0.1 : 0.7);
}

static int conv_blas_w(const FgConvPart *p, int64_t unit, int64_t kcount, int *trans) {
    const FgConv *c = p->c;
    int64_t wo = c->O == 1 ? 1 : c->wo, wk = kcount == 1 ? conv_max(1, c->O) : unit;
    *trans = 0;
    if (wo == 1 && wk >= c->O && wk < INT32_MAX) return 1;
    *trans = 1;
    if (wk == 1 && wo >= kcount && wo < INT32_MAX) return 1;
    if (kcount == 1 && wo > 0 && wo < INT32_MAX) return 1;
    return 0;
}

/* How W is read with these digits: 0 as it lies, 1 as it lies in blocks of inner taps, 2 packed. */
static int conv_w_mode(const FgConvPart *p, const FgDigit *t, int64_t *unit, int *trans) {
    int inner = conv_inner(t);
    int64_t k = conv_count(t, 0, 4), ki = conv_count(t, inner, 4);
    if (conv_uniform(t, 0, unit) && conv_blas_w(p, *unit, k, trans)) return 0;
    if (ki >= 64 && conv_uniform(t, inner, unit) && conv_blas_w(p, *unit, ki, trans)) return 1;
    return 2;
}

/* How out is written: 0 by BLAS where it lies, 1 the same in tiles of inner positions, 2 through a tile of its own. */
static int conv_out_mode(const FgConvPart *p, const FgDigit *t, int64_t *unit, int *trans) {
    const FgConv *c = p->c;
    int inner = conv_inner(t), whole = conv_uniform(t, 0, unit);
    if (!whole && (conv_count(t, inner, 4) < 32 || !conv_uniform(t, inner, unit))) return 2;
    if ((c->oo == 1 || c->O == 1) && *unit >= c->O && *unit < INT32_MAX) { *trans = 0; return !whole; }
    if (*unit == 1 && c->oo >= conv_count(t, whole ? 0 : inner, 4) && c->oo < INT32_MAX) { *trans = 1; return !whole; }
    return 2;
}

static void conv_plan_panels(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    FgDigit mq[4], mb[4], kr[4], kc[4], cand[4];
    int64_t unit, unit2, budget = FG_CONV_PANEL / item, units;
    int trans, trans2, best = 0, order, mode, mode2;
    p->algo = CONV_PANELS;
    conv_digits_m(p, 0, mq);
    conv_digits_m(p, 1, mb);
    conv_digits_k(p, 0, kr);
    conv_digits_k(p, 1, kc);
    cand[0] = kc[3]; cand[1] = mq[3]; cand[2] = mb[3]; cand[3] = kr[3];
    for (int i = 1; i < 4; i++) if (conv_run_cost(&cand[i]) < conv_run_cost(&cand[best])) best = i;
    p->inner_m = best == 1 || best == 2;
    if (p->inner_m) order = best == 2;
    else {                                  /* the order of M is free: the one in which out can be written as it lies */
        mode = conv_out_mode(p, mq, &unit, &trans);
        mode2 = conv_out_mode(p, mb, &unit2, &trans2);
        order = mode2 < mode;
    }
    memcpy(p->m, order ? mb : mq, sizeof mq);
    mode = conv_out_mode(p, p->m, &p->um, &p->out_trans);
    p->scratch_out = mode == 2;
    p->M = conv_count(p->m, 0, 4);
    p->Mi = mode == 1 ? conv_count(p->m, conv_inner(p->m), 4) : p->M;
    if (!p->inner_m) order = best == 0;
    else {
        mode = conv_w_mode(p, kc, &unit, &trans);
        mode2 = conv_w_mode(p, kr, &unit2, &trans2);
        order = mode <= mode2;
    }
    memcpy(p->k, order ? kc : kr, sizeof kc);
    mode = conv_w_mode(p, p->k, &p->wk, &p->w_trans);
    p->pack_w = mode == 2;
    p->K = conv_count(p->k, 0, 4);
    p->Ki = mode == 1 ? conv_count(p->k, conv_inner(p->k), 4) : p->K;
    p->wo = c->wo;
    p->wg = c->wg;
    if (p->pack_w) { p->wk = c->O; p->wo = 1; p->w_trans = 0; p->wg = p->K * c->O; }
    else if (c->O == 1 && !p->w_trans) p->wo = 1;
    else if (p->Ki == 1) p->wk = p->w_trans ? 1 : conv_max(1, c->O);
    p->uo = c->oo;

    p->mt = conv_min(p->Mi, conv_min(1024, conv_max(192, budget / conv_min(p->K, 512))));
    p->kt = conv_min(p->Ki, conv_max(64, budget / p->mt));
    while (conv_ceil(p->Mi, p->mt) * (p->M / p->Mi) * c->G < 8 && p->mt > 64) p->mt = conv_max(64, (p->mt / 2 + 7) / 8 * 8);
    p->mt = conv_ceil(p->Mi, conv_ceil(p->Mi, p->mt));
    p->mt = conv_min(p->Mi, (p->mt + 7) / 8 * 8);
    p->mtiles = conv_ceil(p->Mi, p->mt) * (p->M / p->Mi);
    units = p->mtiles * c->G;
    p->nk = 1;
    p->kc = p->K;
    if (units < 8 && p->K >= 2048) {
        p->nk = conv_min(conv_ceil(8, units), p->K / 1024);
        p->kc = conv_ceil(p->K, p->nk);
        p->nk = conv_ceil(p->K, p->kc);
    }
}

/* The most steps n, up to `most`, for which fixed + (n - 1) each <= budget; at least one. */
static inline int64_t conv_fit(int64_t fixed, int64_t each, int64_t budget, int64_t most) {
    return conv_max(1, conv_min(most, budget > fixed ? (budget - fixed) / conv_max(1, each) + 1 : 1));
}

/* Rows of outputs in vectors of groups: rows of inputs are padded in a ring where windows reach beyond the image, whole rows of a slice
 * of the groups (`sliced`), or blocks of columns of all. */
static void conv_plan_ring(FgConvPart *p, int64_t item, int64_t features, int pads, int sliced) {
    int64_t span = (p->R[2] - 1) * p->d[2] + 1, high = (p->R[1] - 1) * p->d[1] + 1, lanes = GEMM_BYTES / item, each, size;
    int inside = p->lo[2] <= 0 && (p->Q[2] - 1) * p->s[2] + span - p->lo[2] <= p->L[2];
    int ring = pads && !inside && p->R[2] >= 5 && p->R[0] == 1;
    p->slice = features;
    if (ring && sliced) {
        size = FG_CONV_RING / item / (((p->Q[2] - 1) * p->s[2] + span) * high);
        p->slice = conv_min(features, conv_max(4, size / lanes) * lanes);
        p->slice = conv_ceil(conv_ceil(features, conv_ceil(features, p->slice)), lanes) * lanes;
    }
    p->slices = conv_ceil(features, p->slice);
    each = high * p->slice;
    p->block[1] = conv_max(conv_min(p->Q[2], 8), conv_fit(span * each, p->s[2] * each, FG_CONV_RING / item, p->Q[2]));
    if (p->Q[0] * p->Q[1] * p->c->B < 8) p->block[1] = conv_min(p->block[1], conv_max(32, conv_ceil(p->Q[2], 8)));
    p->blocks[1] = conv_ceil(p->Q[2], p->block[1]);
    p->block[1] = conv_ceil(p->Q[2], p->blocks[1]);
    size = ((p->block[1] - 1) * p->s[2] + span) * each;
    p->x_size = !ring || size * item > 4 * FG_CONV_RING ? 0 : size;
}

/* Where groups have few features each there is no product of matrices: loops over groups, rows of outputs, or rows of taps. */
static void conv_plan_direct(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t q = p->Q[2], r = p->R[2];
    int64_t rows = c->C * p->R[0] * p->R[1], outputs = c->B * c->O * p->Q[0] * p->Q[1] * q;
    if (c->G >= 8 && c->xg == 1 && c->wg == 1 && c->og == 1) {
        int sums = r > q && rows >= 16 && outputs * c->G <= FG_CONV_PANEL / 8;
        p->algo = sums ? CONV_GROUP_SUMS : CONV_GROUPS;
        if (!sums) conv_plan_ring(p, item, c->G * c->C, c->C == 1 && (c->dtype == FG_F32 || c->dtype == FG_F64), c->C == 1);
        p->nk = sums ? 16 : 1;                 /* not of the number of threads: results must not depend on it */
    }
    else if (r > q || (r == q && p->s[2] != 1)) p->algo = CONV_DOTS;
    else p->algo = CONV_ROWS;
}

/* Groups of O features from C, neighbours in memory, of which a vector holds one or more; where inputs become outputs in place. */
static int conv_plan_mixed(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item;
    if (!CONV_MIX || c->xg != c->C || (c->C > 1 && c->xc != 1) || c->og != c->O || (c->O > 1 && c->oo != 1)) return 0;
    if (c->O < 2 || c->O > 8 || c->C > c->O || lanes % c->O || c->G * c->O % lanes) return 0;
    if (p->R[0] * p->R[1] * p->R[2] > p->Q[0] * p->Q[1] * p->Q[2]) return 0;
    p->algo = CONV_MIXED;
    p->nk = 1;
    p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * lanes;
    conv_plan_ring(p, item, c->G * c->C, 1, 0);
    return 1;
}

/* Depthwise, features first: planes as they lie (of outputs every second one or so, in a stride's gradient), where the lanes that rows
 * leave empty cost less than turning 16 groups there and back. */
static int conv_plan_planes(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item, taps = p->R[0] * p->R[1] * p->R[2], steps = conv_ceil(p->Q[2], lanes) * lanes;
    if (!GEMM_MASKS || c->C > 1 || p->s[2] != 1 || (p->L[2] > 1 && p->xs[2] != 1)) return 0;
    if (p->Q[2] > 1 && (p->os[2] < 1 || p->os[2] > 4)) return 0;
    if (p->Q[1] < (p->os[2] > 1 ? 2 : 4) || taps > p->Q[0] * p->Q[1] * p->Q[2] || taps * (steps - p->Q[2]) > 45 * p->Q[2]) return 0;
    p->algo = CONV_PLANES;
    return 1;
}

/* Do all windows lie inside the image? */
static int conv_inner_only(const FgConvPart *p) {
    for (int d = 0; d < 3; d++)
        if (p->lo[d] > 0 || (p->Q[d] - 1) * p->s[d] + (p->R[d] - 1) * p->d[d] - p->lo[d] >= p->L[d]) return 0;
    return 1;
}

/* Register tiles over blocks of input rows: of outputs, or, where those are few, sums over blocks of taps.  `together`: groups in
 * vectors, instead of one after the other. */
static void conv_plan_dense(FgConvPart *p, int64_t item, int together) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item, wide = conv_ceil(c->O, lanes) * lanes, budget = FG_CONV_BLOCK / item, run, steps, fixed, each, units;
    int steep = c->C >= 16 || p->s[0] * p->s[1] * p->s[2] > 1;             /* the tiles of outputs gain where sums are long */
    int64_t sums = p->R[0] * p->R[1] * p->R[2] > (steep ? 5 : 1) * p->Q[0] * p->Q[1] * p->Q[2], groups = together ? lanes : 1;
    int64_t sign = c->reversed ? -1 : 1;
    const int64_t *n = sums ? p->R : p->Q;
    if (together) { p->algo = sums ? CONV_LANE_SUMS : CONV_LANES; wide = c->O * groups; }
    else p->algo = sums ? CONV_SUMS : CONV_DENSE;
    for (int d = 2; d >= 1; d--) {              /* columns first, in the rows that one row needs; then rows */
        run = sums ? p->d[d] : p->s[d];
        steps = sums ? (p->Q[d] - 1) * p->s[d] : (p->R[d] - 1) * p->d[d];
        each = groups * (sums ? p->Q[0] * c->B : p->R[0] * c->C);
        each *= d == 2 ? (sums ? (p->Q[1] - 1) * p->s[1] : (p->R[1] - 1) * p->d[1]) + 1
                       : (p->block[1] - 1) * (sums ? p->d[2] : p->s[2]) + (sums ? (p->Q[2] - 1) * p->s[2] : (p->R[2] - 1) * p->d[2]) + 1;
        fixed = (steps + 1) * each;
        p->block[d - 1] = conv_fit(fixed, run * each, budget, n[d]);
        if (d == 2 && !sums) p->block[1] = conv_max(p->block[1], conv_min(p->Q[2], GEMM_MR));
        p->x_size = fixed + (p->block[d - 1] - 1) * run * each;
    }
    if (!sums) {                                /* enough blocks for the threads */
        units = (together ? conv_ceil(c->G, lanes) : c->G) * c->B * p->Q[0] * conv_ceil(p->Q[2], p->block[1]);
        if (units < 8) p->block[0] = conv_min(p->block[0], conv_ceil(p->Q[1], conv_ceil(8, units)));
    }
    p->blocks[0] = conv_ceil(n[1], p->block[0]);
    p->blocks[1] = conv_ceil(n[2], p->block[1]);
    p->nk = 1;
    if (!sums) {
        p->in_place = !together && conv_inner_only(p) && !c->pairs && (c->xc == 1 || c->C == 1) && (p->R[2] == 1 || p->xs[2] == c->C);
        p->w_size = p->block[1] * (together ? wide : GEMM_NV * lanes);
        p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * wide;
        return;
    }
    p->turned = !together && c->O >= 4 && c->ob == p->M / c->B && (p->Q[2] == 1 || p->os[2] == sign) && (p->Q[1] == 1 || p->os[1] == sign * p->Q[2])
        && (p->Q[0] == 1 || p->os[0] == sign * p->Q[1] * p->Q[2]);
    p->pack_w = together || (c->O == 1 ? p->wr[2] != 1 : c->wo != 1 || (!GEMM_MASKS && wide != c->O));
    p->w_size = p->pack_w ? p->block[0] * p->block[1] * wide : 0;
    units = together ? conv_ceil(c->G, lanes) : c->G * conv_ceil(c->O, GEMM_NV * lanes) * p->Q[0] * p->Q[1] * (p->s[2] == 1 ? 1 : p->Q[2]);
    if (units < 8) p->nk = conv_min(8, c->C * p->R[0] * p->blocks[0] * p->blocks[1]);
}

/* Outputs that lie features first, in rows that fill vectors well, or better than their features do, are computed as they lie. */
static void conv_plan_spans(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item, nr = GEMM_NV * lanes, wide = conv_ceil(c->O, lanes) * lanes, cols, rows;
    if (p->algo != CONV_DENSE || (p->os[2] != 1 && c->O >= 8) || (c->oo == 1 && c->O > 1) || (c->xc == 1 && c->C > 1)) return;
    if (p->Q[2] * wide * 20 < conv_ceil(p->Q[2], lanes) * lanes * c->O * (c->C < 16 ? 17 : 19)) return;
    if (p->block[1] < p->Q[2]) p->block[1] = conv_max(nr, p->block[1] / nr * nr);
    p->algo = CONV_SPANS;
    p->blocks[1] = conv_ceil(p->Q[2], p->block[1]);
    cols = (p->block[1] - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1;
    rows = (p->block[0] - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1;
    p->pitch = conv_ceil(cols, p->s[2]);
    p->x_size = c->C * p->R[0] * rows * p->s[2] * p->pitch + nr;
    p->w_size = 0;
    p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * c->O;
}

/* Outputs of few features by lanes of taps, where rows of `run` elements fill vectors. */
static int conv_plan_few(FgConvPart *p, int64_t item, int64_t run) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item;
    if (p->algo != CONV_DENSE || c->O * 4 > lanes || run < lanes) return 0;
    p->algo = CONV_FEW;
    p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * c->O;
    return 1;
}

/* Is some tap zero for all features, as under a mask? */
static int conv_masked(const FgConvPart *p) {
    const FgConv *c = p->c;
    int64_t n[6] = {p->R[0], p->R[1], p->R[2], c->G, c->C, c->O}, at[6], each = c->G * c->C * c->O;
    for (int64_t t = 0, i; t < p->R[0] * p->R[1] * p->R[2]; t++) {
        for (i = 0; i < each; i++) {
            conv_index(t * each + i, n, 6, at);
            int64_t from = p->w0 + at[0] * p->wr[0] + at[1] * p->wr[1] + at[2] * p->wr[2] + at[3] * c->wg + at[4] * c->wc + at[5] * c->wo;
            if (((const float *)p->w)[from] != 0) break;
        }
        if (i == each) return 1;
    }
    return 0;
}

/* Winograd's tiles where they are estimated to be at least 1.3 times faster; else 0. The product of a transformed tap costs C O steps a
 * tile, and more where a block of fewer than 16 waits for the kernel; its inputs cost 4 C, its outputs 4 O, and the kernel, once, 8 C O.
 * Its sums and differences round: what lies under taps of a mask would reach outputs that must not depend on it. */
static int conv_plan_winograd(FgConvPart *p) {
    const FgConv *c = p->c;
    int64_t high = p->R[1] > 1 ? 2 : 1, all = high == 2 ? 16 : 4, segments = p->R[0] * conv_ceil(p->R[1], 3) * conv_ceil(p->R[2], 3);
    int64_t rows = conv_ceil(p->Q[1], high), cols = conv_ceil(p->Q[2], 2);
    int64_t tiles = conv_max(28, FG_CONV_TILES * 16 / all / conv_max(1, c->C * segments));
    int64_t wide = conv_ceil(c->O, GEMM_BYTES / 4) * (GEMM_BYTES / 4), nr = GEMM_NV * GEMM_BYTES / 4, planes = c->B * p->Q[0];
    int64_t units, height;
    double product = (double)c->C * c->O, taps = (double)(p->R[0] * p->R[1] * p->R[2]), once = 8 * all * segments * product;
    double tile, waste;
    if (p->R[2] == 1 || p->s[1] != 1 || p->s[2] != 1 || (p->R[1] > 1 && p->d[1] != 1) || p->d[2] != 1) return 0;
    if (c->dtype != FG_F32 || c->C < 16 || c->O < 16) return 0;
    p->segments = segments;
    p->block[1] = conv_min(cols, tiles);
    p->block[0] = conv_min(rows, tiles / p->block[1]);
    units = c->G * planes * conv_ceil(cols, p->block[1]);
    if (units < 8) p->block[0] = conv_min(p->block[0], conv_ceil(rows, conv_ceil(8, units)));
    if (units * rows < 8) p->block[1] = conv_min(p->block[1], conv_max(28, conv_ceil(cols, conv_ceil(8, units * rows))));
    for (int i = 0; i < 2; i++) {
        p->blocks[i] = conv_ceil(i ? cols : rows, p->block[i]);
        p->block[i] = conv_ceil(i ? cols : rows, p->blocks[i]);      /* of equal size */
    }
    units = c->G * p->Q[0] * p->blocks[0] * p->blocks[1];
    p->images = conv_max(1, conv_min(conv_min(c->B, conv_max(64, tiles) / (rows * cols)), c->B * units / 8));
    waste = 16.0 / (double)conv_min(16, p->images * p->block[0] * p->block[1]);
    tile = all * (segments * (product * waste + 4.0 * c->C) + 4.0 * c->O);
    if ((double)(planes * p->Q[1] * p->Q[2]) * taps * product < 1.3 * ((double)(planes * rows * cols) * tile + once)) return 0;
    if (p->w && conv_masked(p)) return 0;
    p->algo = CONV_WINOGRAD;
    tiles = p->images * p->block[0] * p->block[1];
    height = high * p->block[0] + (high > 1) * (3 * conv_ceil(p->R[1], 3) - 1);
    p->x_size = p->R[0] * height * (2 * p->block[1] + 3 * conv_ceil(p->R[2], 3) - 1) * c->C + nr + all * segments * tiles * c->C;
    p->w_size = all * tiles * nr + 4 * p->block[1] * nr;
    p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * wide;
    p->ww = all * segments * c->C * wide;
    p->nk = 1;
    return 1;
}

/* Phases without dilation, where that makes windows of Winograd's. */
static void conv_undilate(FgConv *c) {
    const int64_t phases[3] = {c->phases[0], c->phases[1], c->phases[2]};
    FgConvPart p;
    for (int d = 0; d < 3; d++) if (c->ldil[d] > 1) return;
    if (c->rdil[1] == 1 && c->rdil[2] == 1) return;
    c->undilate = 1;
    for (int d = 0; d < 3; d++) c->phases[d] = conv_max(1, conv_min(c->rdil[d] / conv_gcd(c->stride[d], c->rdil[d]), c->Q[d]));
    conv_part(c, c->phases[0] * c->phases[1] * c->phases[2] - 1, &p);
    if (conv_plan_winograd(&p)) return;
    c->undilate = 0;
    memcpy(c->phases, phases, sizeof phases);
}

/* Can this part be computed from bfloat16 as it lies? */
static int conv_plans_half(const FgConvPart *p) {
    return p->algo == CONV_CLEAR || p->algo == CONV_GROUPS || p->algo == CONV_GROUP_SUMS || p->algo == CONV_MIXED || p->algo == CONV_PLANES;
}

static void conv_plan(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t taps = c->C, run = c->C * (p->d[2] == 1 ? p->R[2] : 1);
    int floats = c->dtype == FG_F32 || c->dtype == FG_F64, last = c->xg == 1 && c->wg == 1 && c->og == 1;
    for (int d = 0; d < 3; d++) taps *= p->R[d];
    conv_digits_m(p, 0, p->m);
    p->M = conv_count(p->m, 0, 4);
    if (taps == 0) p->algo = CONV_CLEAR;
    else if (c->pairs) {
        conv_plan_dense(p, item, 0);
        conv_plan_few(p, item, run);
    }
    else if (!floats && c->dtype > FG_F64) conv_plan_panels(p, item);
    else if (!floats || (c->G >= 8 && last)) conv_plan_direct(p, item);
    else if (c->G >= 2 && (conv_plan_mixed(p, item) || conv_plan_planes(p, item))) return;
    else if (c->G >= 8 && c->O < 12) {
        conv_plan_dense(p, item, 0);
        if (!conv_plan_few(p, item, c->C)) conv_plan_dense(p, item, 1);
    }
    else if (!conv_plan_winograd(p)) {
        conv_plan_dense(p, item, 0);
        conv_plan_spans(p, item);
        conv_plan_few(p, item, run);
    }
}

/* Parts of one output where sums by steps would copy more of the input for a block of taps than those taps take for all outputs: the
 * gradient of a dilated kernel. */
static void conv_singles(FgConv *c, int64_t item) {
    FgConvPart p;
    if (c->B < 1 || c->G < 1 || c->O < 1 || c->C < 1) return;
    for (int d = 0; d < 3; d++) if (c->phases[d] > 1 || c->Q[d] < 1 || c->R[d] < 1) return;
    conv_part(c, 0, &p);
    conv_plan(&p, item);
    if (p.algo != CONV_SUMS || p.x_size <= p.block[0] * p.block[1] * p.M) return;
    c->single = 1;
    for (int d = 0; d < 3; d++) c->phases[d] = c->stride[d] > 1 ? c->Q[d] : 1;
}
#endif
