/* Plans of convolutions of groups of few features, depthwise ones among them. */
#ifndef FG_CONV_PLAN_GROUPS_H
#define FG_CONV_PLAN_GROUPS_H
#include "conv.h"

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

/* Windows of few neighbouring columns, features last: tiles that hold the columns of x which their outputs share. */
static int conv_plan_near(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t R = p->R[2], high = (p->Q[2] - 1) * p->s[2] + R - p->lo[2] - p->L[2], units;
    if ((c->dtype != FG_F32 && c->dtype != FG_F64) || c->G * item < GEMM_BYTES || p->Q[2] < 4) return 0;
    if (R < 2 || R == 6 || R > 7 || p->d[2] > 1 || p->s[2] > 2 || (p->s[2] == 2 && R % 2 == 0) || p->lo[2] >= R || high >= R) return 0;
    p->algo = CONV_NEAR;
    p->block[0] = GEMM_BYTES == 64 && (R <= 3 || c->half) && p->R[1] > 1 && p->Q[1] > 1 && p->s[1] == 1 && p->s[2] == 1 && p->d[1] == 1 ? 2 : 1;
    p->blocks[0] = conv_ceil(p->Q[1], p->block[0]);
    units = c->B * c->O * p->Q[0] * p->blocks[0];
    p->blocks[1] = units < 8 ? conv_max(1, conv_min(p->Q[2] / 32, conv_ceil(8, units))) : 1;
    return 1;
}

/* Where groups have few features each there is no product of matrices: loops over groups, rows of outputs, or rows of taps. */
static void conv_plan_direct(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t q = p->Q[2], r = p->R[2];
    int64_t rows = c->C * p->R[0] * p->R[1], outputs = c->B * c->O * p->Q[0] * p->Q[1] * q;
    if (c->G >= 8 && c->xg == 1 && c->wg == 1 && c->og == 1) {
        int sums = r > q && rows >= 16 && outputs * c->G <= FG_CONV_PANEL / 8;
        p->algo = sums ? CONV_GROUP_SUMS : CONV_GROUPS;
        if (!sums && conv_plan_near(p, item)) return;
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
    if (!CONV_IN_PLANES || c->C > 1 || p->s[2] != 1 || (p->L[2] > 1 && p->xs[2] != 1)) return 0;
    if (!GEMM_MASKS && (c->half || (p->Q[2] > 1 && p->os[2] != 1))) return 0;
    if (p->Q[2] > 1 && (p->os[2] < 1 || p->os[2] > 4)) return 0;
    if (p->Q[1] < (p->os[2] > 1 ? 2 : 4) || taps > p->Q[0] * p->Q[1] * p->Q[2] || taps * (steps - p->Q[2]) > 45 * p->Q[2]) return 0;
    p->algo = CONV_PLANES;
    return 1;
}

/* The kernel's gradient of such: planes of both operands as they lie. Where a third of the lanes and more were empty, and where sums are so
 * short that the totals of their lanes count, they are turned, or features go last. */
static int conv_plan_plane_sums(FgConvPart *p, int64_t item) {
    const FgConv *c = p->c;
    int64_t lanes = GEMM_BYTES / item;
    if (c->C * p->R[0] * p->R[1] * p->R[2] < conv_max(1024, 64 * p->Q[1] * p->Q[2])) return 0;
    if (!GEMM_MASKS || c->B > 1 || c->G * c->O < 16 || (p->Q[1] != 3 && p->Q[1] != 5 && p->Q[1] != 7) || p->Q[2] > CONV_SHIFTS) return 0;
    if (p->R[1] < 4 || conv_ceil(p->R[2], lanes) * lanes * 2 > p->R[2] * 3 || p->wr[2] != 1 || p->xs[2] != 1) return 0;
    for (int d = 1; d < 3; d++) if (p->s[d] != 1 || p->d[d] != 1) return 0;
    p->algo = CONV_PLANE_SUMS;
    return 1;
}
#endif
