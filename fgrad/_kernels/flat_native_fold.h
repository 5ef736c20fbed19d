/* Machine code by AVX-512 of flat code's permutations, small products and reductions. See flat_native.h; flat_vex_fold.h has AVX2's. */
#ifndef FG_FLAT_NATIVE_FOLD_H
#define FG_FLAT_NATIVE_FOLD_H
#include "flat_native_ops.h"
#if FG_MACHINE_CODE == 2

/* The only number that a window takes out of the vector at `from`, if it is written alone: the vector would wait for that store. Else -1. */
static int nat_only(const FgNat *n, const FgFlatWindow *w, const char *from) {
    int at = w->at[__builtin_ctz((unsigned)w->mask)], alone = 0;
    for (int k = 0; k < 16; k++) if (w->mask >> k & 1 && w->at[k] != at) return -1;
    for (int k = 0; k < n->f->n_ops && !alone; k++) alone = n->f->ops[k].d == from + 4 * at && !fg_flat_wide((int)(intptr_t)n->f->ops[k].label);
    return alone ? at : -1;
}
static void nat_permute(FgNat *n, const FgFlatOp *o) {
    const FgFlatWindow *w = (const FgFlatWindow *)o->b;
    int d = nat_new(n, 0);
    for (int i = 0; i < o->n; i++, nat_needs_only(n, d)) {
        const char *from = o->a + w[i].offset;
        int only = nat_only(n, w + i, from);
        if (only >= 0 && (n->dry || nat_find(n, NAT_V, from) < 0)) {
            int x = nat_read(n, NAT_F32, from + 4 * only, NAT_FIELD(a));
            x86_set(&n->x, X86_AX, w[i].mask);
            nat_mask_of(n, X86_AX);
            nat_v(n, X86_FORM(2, 1, 0, 2, 0x18), d, 0, x, i ? 1 : 1 + 8);
            continue;
        }
        int x = nat_read(n, NAT_V, from, NAT_FIELD(a));
        x86_set(&n->x, X86_AX, w[i].mask);
        nat_mask_of(n, X86_AX);
        nat_load(n, NAT_V, 0, nat_table(n, w[i].at));
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x36), d, 0, x, i ? 1 : 1 + 8);
    }
    nat_vector(n, o, 2, d);
}
/* b: not at an address that is a multiple of 64 */
static void nat_dot(FgNat *n, const FgFlatOp *o, int one) {
    const FgFlatStep *s = (const FgFlatStep *)o->g;
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new(n, 0);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i++) {
        nat_load(n, NAT_V, 0, nat_table(n, s[i].a));
        nat_load(n, NAT_V, 1, nat_table(n, s[i].b));
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x16), 0, 0, x, 0);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x16), 1, 1, y, 0);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0xb8), d, 0, 1, 0);
    }
    if (!one) { nat_vector(n, o, 2, d); return; }
    nat_write(n, NAT_F32, o->d, NAT_FIELD(d), d);
    n->last[0] = n->dry ? -1 : d;
}

/* The same of numbers of eight bytes, which are one vector or two. */
static void nat_long_dot(FgNat *n, const FgFlatOp *o, int one) {
    const FgFlatLongStep *s = (const FgFlatLongStep *)o->g;
    int two[2] = {0, 0}, from[2][2], d;
    for (int64_t i = 0; i < o->n; i++) for (int k = 0; k < 8; k++) { two[0] |= s[i].a[k] > 7; two[1] |= s[i].b[k] > 7; }
    for (int k = 0; k < 2; k++) for (int v = 0; v <= two[k]; v++) from[k][v] = nat_read(n, NAT_V, (k ? o->b : o->a) + 64 * v, k ? NAT_FIELD(b) : NAT_FIELD(a));
    d = nat_new(n, 0);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i++) {
        for (int k = 0; k < 2; k++) {
            nat_load(n, NAT_V, k, nat_table(n, k ? s[i].b : s[i].a));
            if (two[k]) nat_v(n, X86_FORM(2, 1, 1, 2, 0x77), k, from[k][0], from[k][1], 0);       /* vpermi2pd */
            else nat_v(n, X86_FORM(2, 1, 1, 2, 0x16), k, k, from[k][0], 0);                       /* vpermpd */
        }
        nat_v(n, X86_FORM(2, 1, 1, 2, 0xb8), d, 0, 1, 0);
    }
    if (!one) { nat_vector(n, o, 3, d); return; }
    nat_write(n, NAT_F64, o->d, NAT_FIELD(d), d);
    n->last[1] = n->dry ? -1 : d;
}

/* As fg_fold_line, or where `wide` fg_fold_long_line. */
static void nat_line(FgNat *n, const FgFlatOp *o, int wide) {
    const int d = nat_new(n, 0), lanes = wide ? 8 : 16, item = 64 / lanes;
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i += lanes) {
        int x = nat_read(n, NAT_V, o->a + item * i, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b + item * i, NAT_FIELD(b)), part = o->n - i < lanes;
        if (part) { x86_set(&n->x, X86_AX, (1 << (o->n - i)) - 1); nat_mask_of(n, X86_AX); }
        nat_v(n, X86_FORM(2, 1, wide, 2, 0xb8), d, x, y, part);
        nat_needs_only(n, d);
    }
    /* halves, quarters, and what lies within 16 bytes */
    static const uint8_t ops[2][4] = {{0x23, 0x23, 0x04, 0x04}, {0x23, 0x23, 0x05}}, ways[2][4] = {{0x4e, 0xb1, 0x4e, 0xb1}, {0x4e, 0xb1, 0x55}};
    for (int k = o->n > lanes / 2 ? 0 : o->n > lanes / 4 ? 1 : o->n > lanes / 8 ? 2 : 3; k < 4 - wide; k++) {
        nat_v_by(n, X86_FORM(3, 1, wide, 2, ops[wide][k]), 0, k < 2 ? d : 0, d, 0, ways[wide][k]);
        nat_v(n, nat_form(wide ? NAT_v64 : NAT_v32, 0x58), d, d, 0, 0);
    }
    nat_write(n, wide ? NAT_F64 : NAT_F32, o->d, NAT_FIELD(d), d);
    n->last[wide] = n->dry ? -1 : d;
}

/* ---- reductions, as in flat_fold.h */

/* Term i of a fold to a register; x: the vectors that it lies in, for folds of four. */
static void nat_term(FgNat *n, const FgFlatOp *o, const int *x, const FgFlatTerm *t, int to) {
    nat_load(n, NAT_V, to, nat_table(n, t->at));
    if (x) {
        x86_set(&n->x, X86_AX, t->first);
        nat_mask_of(n, X86_AX);
        nat_v(n, X86_FORM(1, 0, 0, 2, 0x28), 1, 0, to, 0);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x77), to, x[0], x[1], 0);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x77), 1, x[2], x[3], 0);
        nat_blend(n, NAT_v32, to, 1, to);
        return;
    }
    int first = nat_read(n, NAT_V, o->a + t->first, NAT_FIELD(a)), second = nat_read(n, NAT_V, o->a + t->second, NAT_FIELD(a));
    if (first == second) nat_v(n, X86_FORM(2, 1, 0, 2, 0x16), to, to, first, 0);
    else nat_v(n, X86_FORM(2, 1, 0, 2, 0x77), to, first, second, 0);
}
static const int *nat_terms(FgNat *n, const FgFlatOp *o, int four, int *x) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    for (int64_t i = 0; i < 4 && four; i++) x[i] = nat_read(n, NAT_V, o->a + (64 * i < g->last ? 64 * i : g->last), NAT_FIELD(a));
    return four ? x : NULL;
}
static void nat_fold(FgNat *n, const FgFlatOp *o, int how, int four, FgFlatOp *exact) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const int form = nat_form(NAT_v32, how == FG_FOLD_SUM ? 0x58 : how == FG_FOLD_MAX ? 0x5f : 0x5d);
    int from[4], part[4] = {-1, -1, -1, -1}, parts = g->chains && g->k >= 4 ? 4 : 1;
    const int *x = nat_terms(n, o, four, from);
    for (int64_t i = 0; i < g->k; i++) {
        int in = parts == 4 && i < g->k / 4 * 4 ? (int)(i % 4) : 0, to = i < parts ? part[i] = nat_new(n, 0) : 0;
        nat_term(n, o, x, t + i, to);
        if (how && i == 0) nat_move(n, NAT_V, 2, to);       /* the sum of all, which tells of a NaN */
        else if (how) nat_v(n, nat_form(NAT_v32, 0x58), 2, 2, to, 0);
        if (i >= parts) nat_v(n, form, part[in], g->chains ? 0 : part[in], g->chains ? part[in] : 0, 0);
        if (parts == 4 && i == g->k / 4 * 4 - 1) {
            nat_v(n, form, part[0], part[2], part[0], 0);
            nat_v(n, form, part[2], part[3], part[1], 0);
            nat_v(n, form, part[0], part[2], part[0], 0);
        }
    }
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), part[0]);
    if (how) {
        nat_v_by(n, nat_form(NAT_v32, 0xc2), 1, 2, 2, 0, 3);
        x86_vex(&n->x, X86_FORM(1, 0, 0, 0, 0x98), 1, 0, 1);                                /* kortestw */
        nat_aside(n, X86_NE, exact);
    }
    n->last[2] = n->dry ? -1 : nat_find(n, NAT_V, o->d);
}
/* The positions of the first extrema, or of the first NaN. */
static void nat_positions(FgNat *n, const FgFlatOp *o, int how, int four) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    int from[4];
    const int *x = nat_terms(n, o, four, from);
    int best = nat_new(n, 0), at = nat_new(n, 0);
    nat_term(n, o, x, t, best);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), at, at, at, 0);
    for (int64_t i = 1; i < g->k; i++) {
        nat_term(n, o, x, t + i, 0);
        nat_v_by(n, nat_form(NAT_v32, 0xc2), 2, best, best, 0, 7);
        nat_v_by(n, nat_form(NAT_v32, 0xc2), 1, 0, best, 2, how == FG_FOLD_MAX ? 0x16 : 0x19);
        nat_v(n, X86_FORM(1, 0, 0, 2, 0x28), best, 0, 0, 1);
        x86_set(&n->x, X86_AX, i);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x7c), at, 0, X86_AX, 1);
    }
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), at);
    n->last[2] = n->dry ? -1 : at;
}
/* That of n numbers of up to four vectors. */
static void nat_position(FgNat *n, const FgFlatOp *o, int how) {
    const int64_t vectors = (o->n + 15) / 16;
    const int form = nat_form(NAT_v32, how == FG_FOLD_MAX ? 0x5f : 0x5d), order[4] = {0x23, 0x23, 0x04, 0x04}, by[4] = {0x4e, 0xb1, 0x4e, 0xb1};
    int x[4], d = nat_new(n, 1);
    for (int64_t i = 0; i < vectors; i++) {
        int read = nat_read(n, NAT_V, o->a + 64 * i, NAT_FIELD(a));
        x[i] = read;
        if (i == vectors - 1 && o->n % 16) {
            x86_set(&n->x, X86_AX, how == FG_FOLD_MAX ? 0xff800000 : 0x7f800000);           /* no number is behind these */
            nat_v(n, X86_FORM(2, 1, 0, 2, 0x7c), 0, 0, X86_AX, 0);
            x86_set(&n->x, X86_AX, (1 << o->n % 16) - 1);
            nat_mask_of(n, X86_AX);
            x[i] = nat_new(n, 0);
            nat_blend(n, NAT_v32, x[i], read, 0);
        }
        nat_v_by(n, nat_form(NAT_v32, 0xc2), 1, x[i], x[i], 0, 3);
        x86_vex(&n->x, X86_FROM_MASK, i ? X86_AX : X86_DX, 0, 1);
        if (i) { x86_shift(&n->x, 1, 4, X86_AX, 16 * (int)i); x86_op(&n->x, 1, X86_OR, X86_DX, X86_AX); }
        if (i) nat_v(n, form, 1, 1, x[i], 0); else nat_move(n, NAT_V, 1, x[i]);
    }
    for (int i = 0; i < 4; i++) {
        nat_v_by(n, X86_FORM(3, 1, 0, 2, order[i]), 2, i < 2 ? 1 : 0, 1, 0, by[i]);
        nat_v(n, form, 1, 1, 2, 0);
    }
    for (int64_t i = 0; i < vectors; i++) {
        nat_v_by(n, nat_form(NAT_v32, 0xc2), 1, x[i], 1, 0, 0);
        x86_vex(&n->x, X86_FROM_MASK, i ? X86_AX : X86_CX, 0, 1);
        if (i) { x86_shift(&n->x, 1, 4, X86_AX, 16 * (int)i); x86_op(&n->x, 1, X86_OR, X86_CX, X86_AX); }
    }
    x86_op(&n->x, 1, X86_TEST, X86_DX, X86_DX);
    x86_op(&n->x, 1, X86_CMOV | X86_E, X86_DX, X86_CX);
    x86_1(&n->x, 0xf3);
    x86_op(&n->x, 1, 0xfbc, nat_g(d), X86_DX);              /* tzcnt */
    nat_write(n, NAT_I32, o->d, NAT_FIELD(d), d);
    n->last[4] = n->dry ? -1 : d;
}
#endif
#endif
