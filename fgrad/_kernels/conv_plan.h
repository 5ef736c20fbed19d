/* How each part of a convolution is computed: its algorithm, blocks and buffers. */
#ifndef FG_CONV_PLAN_H
#define FG_CONV_PLAN_H
#include "conv.h"
#include "conv_plan_groups.h"
#include "conv_plan_panels.h"

/* Do all windows lie inside the image? */
static int conv_inner_only(const FgConvPart *p) {
    for (int d = 0; d < 3; d++)
        if (p->lo[d] > 0 || (p->Q[d] - 1) * p->s[d] + (p->R[d] - 1) * p->d[d] - p->lo[d] >= p->L[d]) return 0;
    return 1;
}

/* Have windows gaps? Are they cut to the taps inside the image, which is read where it lies, features last? */
static int conv_gaps(const FgConvPart *p) { return (p->d[1] > 1 || p->d[2] > 1) && p->c->C >= 16 && !p->c->pairs; }
static int conv_cuts(const FgConvPart *p) { return p->c->xc == 1 && conv_gaps(p); }

/* Register tiles over blocks of input rows: of outputs, or, where those are few, sums over blocks of taps.  `together`: groups in
 * vectors, instead of one after the other. */
static void conv_plan_dense(FgConvPart *p, int64_t item, int together) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item, wide = conv_ceil(c->O, lanes) * lanes, budget = FG_CONV_BLOCK / item, run, steps, fixed, each, units;
    int steep = c->C >= 16 || p->s[0] * p->s[1] * p->s[2] > 1;             /* the tiles of outputs gain where sums are long */
    int64_t sums = p->R[0] * p->R[1] * p->R[2] > (steep ? 5 : 1) * p->Q[0] * p->Q[1] * p->Q[2], groups = together ? lanes : 1;
    int64_t sign = c->reversed ? -1 : 1, pieces = 1, few;
    /* rows of one or two outputs, or as short where taps enter and leave the image, are tiles that wait for their sums, where the batch
     * (a kernel's input features) would fill them */
    if (conv_gaps(p) && p->Q[0] * p->Q[1] * p->Q[2] <= p->R[0] * p->R[1] * p->R[2])
        for (int64_t q = conv_alike(p, 2, 0, p->Q[2]); q < p->Q[2]; q = conv_alike(p, 2, q, p->Q[2])) pieces++;
    sums |= !together && !c->pairs && !p->tiled && p->Q[2] < 3 * pieces && c->B >= (pieces > 1 ? GEMM_MR : 4 * GEMM_MR) && c->O >= lanes && p->R[0] * p->R[1] * p->R[2] >= 12;
    /* so are rows of three in a kernel's gradient, whose batch lies within */
    sums |= !together && !c->pairs && !p->tiled && p->Q[2] == 3 && c->xb < c->xc && c->B >= GEMM_MR && c->O >= lanes && p->R[0] * p->R[1] * p->R[2] >= 9;
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
    if (sums && !together && c->B < 16) {       /* of few inputs a position, w's part of a block would leave the second cache */
        p->block[1] = conv_min(p->block[1], conv_max(1, 2 * budget / wide));
        p->block[0] = conv_min(p->block[0], conv_max(1, 2 * budget / wide / p->block[1]));
    }
    p->cut = !sums && !together && !p->tiled && conv_cuts(p);
    if (p->cut) {                               /* rows of outputs are all that a block holds */
        p->x_size = 0;
        p->block[0] = p->Q[1];
        p->block[1] = conv_min(p->Q[2], budget / (GEMM_NV * lanes));
    }
    if (!sums) {                                /* enough blocks for the threads */
        units = (together ? conv_ceil(c->G, lanes) : c->G) * c->B * p->Q[0] * conv_ceil(p->Q[2], p->block[1]);
        if (units < 8) p->block[0] = conv_min(p->block[0], conv_ceil(p->Q[1], conv_ceil(8, units)));
        units *= conv_ceil(p->Q[1], p->block[0]);
        if (units < 8 && p->cut) p->block[1] = conv_min(p->block[1], conv_max(28, conv_ceil(p->Q[2], conv_ceil(8, units))));
    }
    p->blocks[0] = conv_ceil(n[1], p->block[0]);
    p->blocks[1] = conv_ceil(n[2], p->block[1]);
    if (sums) for (int d = 0; d < 2; d++) p->block[d] = conv_ceil(n[1 + d], p->blocks[d]);      /* of equal size */
    p->nk = 1;
    if (!sums) {
        p->in_place = !together && !p->tiled && conv_inner_only(p) && !c->pairs && (c->xc == 1 || c->C == 1) && (p->R[2] == 1 || p->xs[2] == c->C);
        p->in_place |= p->cut;
        p->w_size = p->block[1] * (together ? wide : GEMM_NV * lanes);
        p->wg = p->R[0] * p->R[1] * p->R[2] * c->C * wide;
        return;
    }
    p->beside = !together && (p->Q[2] == 1 || p->os[2] == sign) && (p->Q[1] == 1 || p->os[1] == sign * p->Q[2])
        && (p->Q[0] == 1 || p->os[0] == sign * p->Q[1] * p->Q[2]);
    p->turned = p->beside && c->O >= 4 && c->ob == p->M / c->B;
    p->beside = p->beside && !p->turned && !c->pairs && p->M > c->B && c->oo == p->M / c->B;
    p->pack_w = together || (c->O == 1 ? p->wr[2] != 1 : c->wo != 1 || (!GEMM_MASKS && wide != c->O));
    p->w_size = p->pack_w ? p->block[0] * p->block[1] * wide : 0;
    units = together ? conv_ceil(c->G, lanes) : c->G * conv_ceil(c->O, GEMM_NV * lanes) * p->Q[0] * p->Q[1] * (p->s[2] == 1 ? 1 : p->Q[2]);
    /* of few outputs, threads would fill and pack the same blocks for some of them each */
    few = !together && p->M * c->O * c->G <= FG_CONV_SUMMED && c->C * p->R[0] * p->R[1] * p->R[2] >= 1024;
    if (units < 8 || few) p->nk = conv_min(8, c->C * p->R[0] * p->blocks[0] * p->blocks[1]);
}

/* Outputs that lie features first, in rows that fill vectors well, or better than their features do, are computed as they lie. */
static void conv_plan_spans(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item, nr = GEMM_NV * lanes, wide = conv_ceil(c->O, lanes) * lanes, cols, rows;
    if (p->algo != CONV_DENSE || (p->os[2] != 1 && c->O >= 8) || (c->oo == 1 && c->O > 1) || (c->xc == 1 && c->C > 1)) return;
    if (p->Q[2] * wide * 20 < conv_ceil(p->Q[2], lanes) * lanes * c->O * (c->C < 16 ? 17 : 19)) return;
    if (p->Q[2] <= lanes && (c->C >= 16 || c->O >= lanes)) return;         /* of one vector each, which read all of the kernel */
    /* where sums are long, turning outputs costs less than holding columns apart */
    if (c->O >= lanes && p->s[2] > 2 && c->C * p->R[0] * p->R[1] * p->R[2] >= 64) return;
    if (c->O >= lanes && p->s[2] == 2 && c->C * p->R[0] * p->R[1] * p->R[2] >= 128 && p->Q[2] < 4 * lanes) return;
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

/* Sums over positions of which rows lie so in both operands: lanes along the rows, unless the gaps that padding makes of them, or tiles
 * that are not full, lose too much. */
static void conv_plan_along(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t taps = p->Q[0] * p->Q[1] * p->Q[2], most = FG_CONV_RUN / item, reach[3], rows, cols, blocks, planes, flat, each, budget = FG_CONV_BLOCK / item;
    int64_t lanes = GEMM_BYTES / item;
    if (p->algo != CONV_SUMS || c->pairs || p->wr[2] != 1 || p->xs[2] != 1 || c->O < 4 || c->B * taps < 5 || (taps > 1 && c->B >= 16)) return;
    if (c->C * p->R[0] * p->R[1] * p->R[2] < 512) return;      /* totals of lanes would take longer than sums so short */
    if (c->phases[0] * c->phases[1] * c->phases[2] > 1) return;
    flat = taps == 1 && conv_inner_only(p);
    for (int d = 0; d < 3; d++) flat &= p->R[d] == 1 || p->d[d] == 1;
    if (flat) flat = (p->R[1] == 1 || (p->wr[1] == p->R[2] && p->xs[1] == p->R[2])) && (p->R[0] == 1 || (p->wr[0] == p->R[1] * p->R[2] && p->xs[0] == p->R[1] * p->R[2]));
    flat = flat && p->lo[0] == 0 && p->lo[1] == 0 && p->lo[2] == 0;
    cols = flat ? p->R[0] * p->R[1] * p->R[2] : p->R[2];
    for (int d = 1; d < 3; d++) reach[d] = (p->Q[d] - 1) * p->s[d] / p->d[d];
    if (cols < 24 && p->R[1] * cols < 100) return;
    /* rows that end soon, and many taps, are better turned, unless tiles of few sums would wait or be half empty, or w comes from memory */
    if (!flat && c->O >= lanes) {
        int64_t bytes = c->G * c->O * c->C * p->R[0] * p->R[1] * p->R[2] * item, waits = c->B * p->Q[2] * conv_ceil(c->O, lanes) < 4;
        int64_t least = waits || bytes >= FG_CONV_AWAY ? 24 : bytes >= FG_CONV_AWAY / 2 ? 32 : c->O < 2 * lanes ? 48 : 60;
        if (cols < least || c->B * taps > (c->B < 6 ? 160 : 40)) return;
    }
    if (!flat && p->R[1] > 1 && p->R[2] * 10 < (p->R[2] + reach[2]) * 7) return;
    p->algo = CONV_ALONG;
    p->in_place = flat;
    if (flat) { p->R[2] = cols; p->R[0] = p->R[1] = 1; p->wr[1] = p->xs[1] = cols; }
    if (cols > 2 * most) cols = conv_ceil(conv_ceil(cols, conv_ceil(cols, most)), 16) * 16;
    p->pitch = cols + reach[2];
    rows = cols < p->R[2] ? 1 : conv_max(1, conv_min(p->R[1], most / p->pitch));
    rows = conv_ceil(p->R[1], conv_ceil(p->R[1], rows));
    planes = rows < p->R[1] || cols < p->R[2] ? 1 : conv_max(1, conv_min(c->C * p->R[0], most / (rows * p->pitch)));
    p->block[0] = rows;
    p->block[1] = cols;
    p->blocks[0] = conv_ceil(p->R[1], rows);
    p->blocks[1] = conv_ceil(p->R[2], cols);
    p->images = conv_ceil(c->C * p->R[0], conv_ceil(c->C * p->R[0], planes));
    blocks = conv_ceil(c->C * p->R[0], p->images) * p->blocks[0] * p->blocks[1];
    each = p->images * p->Q[0] * p->d[1] * p->d[2] * (rows + reach[1]) * p->pitch;
    p->slices = conv_ceil(c->B, conv_max(1, conv_min(c->B, budget / each)));
    p->slice = conv_ceil(c->B, p->slices);
    p->slices = conv_ceil(c->B, p->slice);
    p->x_size = flat ? 0 : each * p->slice;
    p->w_size = 4 * p->images * (conv_ceil(rows * p->pitch, 16) * 16 + 16);
    p->mt = conv_ceil(c->O, 4);                             /* panels of a range */
    p->nk = conv_max(1, conv_min(conv_min(blocks, conv_ceil(16, p->slices * c->G)), 1 + (8 << 20) / (c->G * p->M * c->O * item)));
    rows = conv_max(1, conv_min(p->mt, conv_ceil(16, p->slices * c->G * p->nk)));
    p->mt = conv_ceil(p->mt, rows);
}

/* Rows of inputs that all positions need. */
static int64_t conv_columns_rows(const FgConvPart *p) {
    return p->c->G * p->c->B * ((p->Q[0] - 1) * p->s[0] + (p->R[0] - 1) * p->d[0] + 1) * ((p->Q[1] - 1) * p->s[1] + (p->R[1] - 1) * p->d[1] + 1);
}

/* Few positions and a kernel that leaves the second cache: panels of output features, so that it is read once. A part may be of those
 * that read one kernel together, of `all` taps. */
static void conv_plan_columns(FgConvPart *p, int64_t item, int64_t all) {
    const FgConv *c = p->c;
    int64_t nr = GEMM_NV * GEMM_BYTES / item, taps = conv_max(all, p->R[0] * p->R[1] * p->R[2]), kernel = taps * c->C * c->O * item;
    int64_t size = conv_columns_rows(p) * ((p->Q[2] - 1) * p->s[2] + (p->R[2] - 1) * p->d[2] + 1) * c->C;
    if (p->algo != CONV_DENSE || p->cut || kernel < FG_CONV_LARGE || c->B * p->Q[0] * p->Q[1] * p->Q[2] > 256) return;
    if (c->O < 4 * nr || size * item > 2 * c->G * kernel) return;
    p->algo = CONV_COLUMNS;
    p->x_size = p->in_place ? 0 : size;
    p->kt = conv_ceil(c->C, conv_ceil(c->C, conv_max(16, FG_CONV_RING / (taps * nr * item))));
    p->w_size = p->kt * taps * nr;
}

/* Can parts be computed together from one kernel, packed whole because neighbouring taps are those of different parts? They are planned so. */
static int conv_plan_joined(FgConvPart *parts, int64_t n, int64_t item) {
    const FgConv *c = parts->c;
    int64_t all = c->R[0] * c->R[1] * c->R[2], size = 1, sign = c->ws[2] < 0 ? -1 : 1;
    for (int d = 2; d >= 0; d--) {
        if (c->R[d] > 1 && c->ws[d] != sign * size) return 0;
        size *= c->R[d];
    }
    for (int64_t i = 0; i < n; i++) {
        if (parts[i].algo == CONV_COLUMNS) parts[i].algo = CONV_DENSE;
        conv_plan_columns(parts + i, item, all);
        if (parts[i].algo != CONV_COLUMNS) return 0;
        parts[i].kt = parts->kt;
    }
    return 1;
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
    int64_t nr = GEMM_NV * GEMM_BYTES / 4, planes = c->B * p->Q[0];
    int64_t units, height, total = planes * rows * cols, panels = conv_ceil(c->O, nr);
    double product = (double)c->C * c->O, taps = (double)(p->R[0] * p->R[1] * p->R[2]), once = 8 * all * segments * product;
    double waste;
    int whole;
    if (p->R[2] == 1 || p->s[1] != 1 || p->s[2] != 1 || (p->R[1] > 1 && p->d[1] != 1) || p->d[2] != 1) return 0;
    if (c->dtype != FG_F32 || c->C < 16 || c->O < 16) return 0;
    p->segments = segments;
    whole = p->Q[0] == 1 && rows * cols < c->O && all * segments * c->C * c->O > FG_CONV_TILES * 16;  /* it is the kernel that is large */
    whole = whole && (total < c->O || all * segments * c->C * 28 > FG_CONV_TILES * 16);
    if (whole) tiles = rows * cols;
    p->block[1] = conv_min(cols, tiles);
    p->block[0] = conv_min(rows, tiles / p->block[1]);
    units = c->G * planes * conv_ceil(cols, p->block[1]);
    if (units < 8 && !whole) p->block[0] = conv_min(p->block[0], conv_ceil(rows, conv_ceil(8, units)));
    if (units * rows < 8 && !whole) p->block[1] = conv_min(p->block[1], conv_max(28, conv_ceil(cols, conv_ceil(8, units * rows))));
    for (int i = 0; i < 2; i++) {
        p->blocks[i] = conv_ceil(i ? cols : rows, p->block[i]);
        p->block[i] = conv_ceil(i ? cols : rows, p->blocks[i]);      /* of equal size */
    }
    units = c->G * p->Q[0] * p->blocks[0] * p->blocks[1];
    p->images = conv_max(1, conv_min(conv_min(c->B, conv_max(64, tiles) / (rows * cols)), c->B * units / 8));
    if (whole) p->images = conv_ceil(c->B, conv_ceil(total, CONV_WHOLE));
    waste = 16.0 / (double)conv_min(16, p->images * p->block[0] * p->block[1]);
    p->tile = all * (segments * (product * waste + 4.0 * (double)c->C) + 4.0 * (double)c->O);
    if ((double)(planes * p->Q[1] * p->Q[2]) * taps * product < 1.3 * ((double)total * p->tile + once)) return 0;
    if (p->w && conv_masked(p)) return 0;
    p->algo = CONV_WINOGRAD;
    p->whole = whole;
    tiles = p->images * p->block[0] * p->block[1];
    height = high * p->block[0] + (high > 1) * (3 * conv_ceil(p->R[1], 3) - 1);
    p->x_size = p->R[0] * height * (2 * p->block[1] + 3 * conv_ceil(p->R[2], 3) - 1) * c->C + nr;
    p->pass = segments * tiles * c->C * all > FG_CONV_TILES * 16 ? conv_max(1, segments * c->C / nr) * nr : nr;
    p->w_size = 4 * p->block[1] * nr;
    if (!whole) {
        p->x_size += all * (segments * tiles * c->C + nr);
        p->w_size += all * (tiles + 1) * conv_min(p->pass, panels * nr);
    }
    p->ww = panels * all * (segments * c->C + 1) * nr;
    p->nk = 1;
    return 1;
}

/* Sums on the tile unit: slices of outputs whose sums stay in the second cache, chunks of blocks for the threads. */
static int conv_plan_tile_sums(FgConvPart *p) {
    const FgConv *c = p->c;
    int64_t taps = p->Q[0] * p->Q[1] * p->Q[2], cols = (p->Q[2] - 1) * p->s[2] + (p->block[1] - 1) * p->d[2] + 1, wide = conv_ceil(cols, p->d[2]) * p->d[2];
    int64_t pairs = c->pairs ? c->C : conv_ceil(c->C, 2), all = pairs * p->R[0] * p->blocks[0] * p->blocks[1], lines, flat;
    int64_t wide_b;
    double product, other;
    if (c->single) return 0;
    /* few features: those of neighbouring taps along a row are side by side, and go as one */
    p->joined = c->B < 16 && p->Q[2] > 1 && p->s[2] == 1;
    if (p->joined) taps = p->Q[0] * p->Q[1];
    wide_b = p->joined ? p->Q[2] * c->B : c->B;
    if (wide_b < 8) return 0;
    lines = p->block[0] * conv_ceil(p->block[1], 16);
    flat = conv_ceil((p->block[0] - 1) * (p->d[1] * wide / p->d[2]) + p->block[1], 16);
    p->flat = flat < lines;
    p->pitch = p->flat ? wide : cols;
    p->x_size = conv_ceil(p->x_size, cols) * wide;
    p->slice = conv_max(AMX_LINES, (FG_CONV_BLOCK / 2 / (taps * conv_ceil(wide_b, AMX_LINES) * AMX_LINES)) / AMX_LINES * AMX_LINES);
    p->slice = conv_min(p->slice, conv_ceil(c->O, AMX_LINES) * AMX_LINES);
    p->slices = conv_ceil(c->O, p->slice);
    p->nk = conv_min(all, conv_ceil(8, c->G * p->slices));
    p->algo = CONV_TILE_SUMS;
    product = (double)(all * (p->flat ? flat : lines)) * (double)(taps * conv_ceil(c->O, 16) * conv_ceil(wide_b, 16)) * (c->pairs ? 24 : 110);
    product += (double)(all * (p->flat ? flat : lines)) * (double)(16 * p->slices * c->B) * (c->pairs ? 0.5 : 1);
    other = (double)(c->C * p->R[0] * p->R[1] * p->R[2] * taps * wide_b) * (double)conv_ceil(c->O, 16) * (c->pairs ? 1.5 : 0.6);
    return product + 6000 < other;
}

/* On the tile unit, where it is estimated to be faster than the way that takes `other` cycles. */
static int conv_plan_tiles(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    FgConvPart t = *p, v = *p;
    int64_t each = c->pairs ? 16 : 32, cols, lines, flat;
    double tiles, most, product, other, positions = (double)(c->G * c->B * p->Q[0] * p->Q[1] * p->Q[2]), panels = (double)conv_ceil(c->O, 16);
    if (!p->amx || c->dtype != FG_F32 || c->half || (c->O < 8 && !c->pairs)) return 0;
    t.tiled = 1;
    conv_plan_dense(&t, item, 0);
    if (t.algo == CONV_SUMS) {
        if (!conv_plan_tile_sums(&t)) return 0;
        *p = t;
        return 1;
    }
    t.algo = CONV_TILES;
    t.runs = t.d[2] == 1 ? 1 : t.R[2];
    t.steps = conv_ceil(t.R[2] / t.runs * c->C, each);
    /* rows as one line, if what is computed between them is less than what tiles lose that are not full */
    cols = conv_ceil((t.block[1] - 1) * t.s[2] + (t.R[2] - 1) * t.d[2] + 1, t.s[2]) * t.s[2];
    t.pitch = cols * t.s[1] / t.s[2];
    lines = t.block[0] * conv_ceil(t.block[1], 16);
    flat = conv_ceil((t.block[0] - 1) * t.pitch + t.block[1], 16);
    t.flat = t.block[0] > 1 && 2 * flat + flat % 2 < 2 * lines + t.block[0] * (conv_ceil(t.block[1], 16) % 2);      /* single tiles are slower */
    if (t.flat) t.x_size = t.x_size / ((t.block[1] - 1) * t.s[2] + (t.R[2] - 1) * t.d[2] + 1) * cols;
    tiles = (double)(c->G * c->B * t.Q[0] * t.blocks[0] * t.blocks[1]) * (double)(t.flat ? flat : lines) * panels;
    most = (double)(t.R[0] * t.R[1] * t.runs * t.steps);
    /* a kernel that leaves the cache before the next block needs it is read once for all of them */
    t.whole = most * panels * (c->pairs ? 1 : 3) * AMX_TILE > FG_CONV_LARGE && (t.flat ? flat : lines) < 48 && c->G * panels >= 16
        && positions * c->C * (c->pairs ? 4 : 6) < FG_CONV_SMALL;
    product = tiles * (most * (c->pairs ? 20 : 2 * c->C % 64 ? 135 : 105) + 250) + (double)c->G * most * panels * (c->pairs ? 100 : 400);
    product += (double)(c->G * c->B * t.Q[0] * t.blocks[0] * t.blocks[1]) * (double)t.x_size * (c->pairs ? 0.3 : 1.3);      /* blocks are filled, and split */
    other = positions * panels * (double)(t.R[0] * t.R[1] * t.R[2] * c->C) * (c->pairs ? 1.5 : 0.6);
    if (!c->pairs && conv_plan_winograd(&v))
        other = (double)(c->G * c->B * v.Q[0] * conv_ceil(v.Q[1], v.R[1] > 1 ? 2 : 1) * conv_ceil(v.Q[2], 2)) * v.tile * 0.03;
    if (product + 6000 > other) return 0;
    t.tile = product;
    *p = t;
    return 1;
}

/* Phases without dilation, where that makes windows of Winograd's; where the image can be read as it lies, if that takes 1.6 times the
 * steps of the parts' tiles, each of which reads the kernel's matrices again. Rows of less than four outputs wait for their sums. */
static void conv_undilate(FgConv *c) {
    const int64_t phases[3] = {c->phases[0], c->phases[1], c->phases[2]};
    double inside = (double)(c->C * c->O), tiles = 1;
    FgConvPart p;
    int cuts;
    for (int d = 0; d < 3; d++) if (c->ldil[d] > 1) return;
    if (c->rdil[1] == 1 && c->rdil[2] == 1) return;
    conv_part(c, 0, &p);
    cuts = conv_cuts(&p);
    for (int d = 0; d < 3; d++) {
        int64_t taps = 0, parts = 0, step = c->rdil[d] / conv_gcd(c->stride[d], c->rdil[d]);
        for (int64_t q = 0, stop; q < p.Q[d]; q = stop) {
            stop = conv_alike(&p, d, q, p.Q[d]);
            for (int64_t r = 0; r < p.R[d]; r++)
                if ((uint64_t)(q * p.s[d] + r * p.d[d] - p.lo[d]) < (uint64_t)p.L[d]) taps += conv_max(stop - q, d == 2 ? 4 : 1);
        }
        for (int64_t f = 0; f < conv_min(step, p.Q[d]); f++) parts += conv_ceil(conv_ceil(p.Q[d] - f, step), d && p.R[d] > 1 ? 2 : 1);
        inside *= (double)taps;
        tiles *= (double)parts;
    }
    c->undilate = 1;
    for (int d = 0; d < 3; d++) c->phases[d] = conv_max(1, conv_min(c->rdil[d] / conv_gcd(c->stride[d], c->rdil[d]), c->Q[d]));
    conv_part(c, c->phases[0] * c->phases[1] * c->phases[2] - 1, &p);
    if (conv_plan_winograd(&p) && (!cuts || inside > 1.6 * tiles * p.tile)) return;
    c->undilate = 0;
    memcpy(c->phases, phases, sizeof phases);
}

/* Do two parts read the same kernel, packed alike? */
static int conv_same_kernel(const FgConvPart *a, const FgConvPart *b) {
    return a->algo == b->algo && a->w0 == b->w0 && a->runs == b->runs && !memcmp(a->R, b->R, sizeof a->R) && !memcmp(a->wr, b->wr, sizeof a->wr);
}

/* Can this part be computed from bfloat16 as it lies? */
static int conv_plans_half(const FgConvPart *p) {
    return p->algo == CONV_CLEAR || p->algo == CONV_GROUPS || p->algo == CONV_GROUP_SUMS || p->algo == CONV_MIXED || p->algo == CONV_NEAR || p->algo == CONV_PLANES
        || p->algo == CONV_PLANE_SUMS;
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
        conv_plan_columns(p, item, 0);
        if (p->algo != CONV_COLUMNS) conv_plan_tiles(p, item);
    }
    else if (!floats && c->dtype > FG_F64) conv_plan_panels(p, item);
    else if (!floats || (c->G >= 8 && last)) conv_plan_direct(p, item);
    else if (c->G >= 2 && (conv_plan_mixed(p, item) || conv_plan_planes(p, item) || conv_plan_plane_sums(p, item))) return;
    else if (c->G >= 8 && c->O < 12) {
        conv_plan_dense(p, item, 0);
        if (c->O >= 6) conv_plan_spans(p, item);
        conv_plan_along(p, item);
        if (p->algo != CONV_SPANS && p->algo != CONV_ALONG && !conv_plan_few(p, item, c->C)) conv_plan_dense(p, item, 1);
    }
    else if (!conv_plan_tiles(p, item) && !conv_plan_winograd(p)) {
        conv_plan_dense(p, item, 0);
        conv_plan_spans(p, item);
        conv_plan_few(p, item, run);
        conv_plan_columns(p, item, 0);
        conv_plan_along(p, item);
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

/* Axes of a kernel (n, step; the one of pairs is second) in the order in which they lie, neighbours as one; its copy's steps go to `to`. */
static void conv_pair_axes(FgConv *c, const int64_t *n, const int64_t *step, int64_t *to) {
    FgPairAxis *t = c->waxes;
    int order[5], last = 4;
    for (int i = 0; i < 5; i++) {                       /* those of one element first, then from long to short steps */
        int k = i;
        int64_t key = n[i] == 1 ? INT64_MAX : step[i] < 0 ? -step[i] : step[i];
        for (; k > 0; k--) {
            int j = order[k - 1];
            if ((n[j] == 1 ? INT64_MAX : step[j] < 0 ? -step[j] : step[j]) >= key) break;
            order[k] = j;
        }
        order[k] = i;
    }
    for (int64_t k = 4, size = 1; k >= 0; k--) {
        to[order[k]] = size;
        size *= order[k] == 1 ? (n[1] + 1) / 2 : n[order[k]];
    }
    for (int k = 0; k < 5; k++) t[k] = (FgPairAxis){1, 0, 0, 0};
    for (int k = 4; k >= 0; k--) {
        int i = order[k], pair = i == 1;
        FgPairAxis axis = {pair ? (n[1] + 1) / 2 : n[i], pair ? 2 * step[1] : step[i], to[i], pair};
        if (k < 4 && last < 4 && !pair && !t[last + 1].pair && axis.from == t[last + 1].from * t[last + 1].n) t[last + 1].n *= axis.n;
        else if (axis.n > 1 || pair || k == 4) t[last--] = axis;
    }
}
#endif
