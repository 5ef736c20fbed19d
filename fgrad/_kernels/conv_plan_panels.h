/* How a convolution of complex numbers is computed: panels of its matrix of patches for BLAS. */
#ifndef FG_CONV_PLAN_PANELS_H
#define FG_CONV_PLAN_PANELS_H
#include "conv.h"

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
#endif
