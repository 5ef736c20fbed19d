/* Flat code of reductions and of the positions of extrema: folds, where the terms lie in a few vectors. See flat_fold.h. */
#ifndef FG_FLAT_REDUCE_H
#define FG_FLAT_REDUCE_H
#include "flat_half.h"

enum { FG_FOLD_TERMS = 32 };

/* The op of kind `op` (of two vectors a step; the next one is of four) that folds (rows, k, width) numbers at a to d; 0 where they lie in too many vectors. */
static int fg_flat_fold(FgFlat *f, int op, char *d, const char *a, int64_t rows, int64_t k, int64_t width, int64_t chains, void *fn) {
    int64_t lanes = rows * width, n = lanes * k, last = (n - 1) / 16 * 64, two = 1;
    if (!FG_FLAT_INLINES(f) || lanes < 2 || lanes > 16 || k < 2 || k > FG_FOLD_TERMS || !fg_flat_padded(f, d)) return 0;
    for (int64_t i = 0; i <= last; i += 64) if (!fg_flat_padded(f, a + i) || a + i == d) return 0;
    for (int64_t i = 0; i < k; i++) two &= (((rows - 1) * k + i) * width + width - 1) / 16 - i * width / 16 <= 1;
    if (!two && n > 64) return 0;
    FgFlatFold *g = (FgFlatFold *)fg_flat_room(f, 1, sizeof(FgFlatFold) + k * sizeof(FgFlatTerm));
    if (f->failed) return 1;
    *g = (FgFlatFold){.rows = rows, .k = k, .width = width, .chains = chains, .last = last};
    for (int64_t i = 0; i < k; i++) {
        FgFlatTerm *t = (FgFlatTerm *)(g + 1) + i;
        *t = (FgFlatTerm){.first = two ? i * width / 16 * 64 : 0};
        for (int64_t lane = 0; lane < 16; lane++) {             /* those behind the last one repeat the first */
            int64_t l = lane < lanes ? lane : 0, at = (l / width * k + i) * width + l % width;
            t->at[lane] = (int32_t)(two ? at - t->first / 4 : at % 32);
            if (!two && at >= 32) t->first |= 1 << lane;
        }
        if (two) t->second = t->first + 64 <= last ? t->first + 64 : t->first;
    }
    fg_flat_op(f, op + !two, d, a, (const char *)g, 0, k, fn)->g = (const char *)(intptr_t)(last + 64);
    return 1;
}

/* A group's reduction of (rows, k, width) float32; 0 for any other, and where the VM adds in another order. */
static int fg_flat_reduction(FgFlat *f, const FgVmOutput *out, FgVmSeg seg, char *d, const char *a, int64_t rows, int64_t k, int64_t width) {
    int op = out->reduce == FG_RED_SUM ? FLAT_sums2 : out->reduce == FG_RED_MAX ? FLAT_maxima2 : out->reduce == FG_RED_MIN ? FLAT_minima2 : -1;
    if (op < 0 || out->type != FG_F32 || out->numbers || out->term != 4 || (width == 1 && k >= 16)) return 0;
    return fg_flat_fold(f, op, d, a, rows, k, width, width > 1, (void *)seg);
}

/* Move the last op to right behind the one that makes what it reads, which a register still holds there. */
static void fg_flat_follow(FgFlat *f, const char *a, int64_t reads, char *d, int64_t writes) {
    int end = f->n_ops - 1, w = end - 1;
    while (w >= f->start && f->ops[w].d != a) w--;
    if (w < f->start || fg_flat_register((int)(intptr_t)f->ops[w].label) != 2 || f->failed) return;
    for (int k = w + 1; k < end; k++) if (fg_flat_writes(&f->ops[k], a, reads) || fg_flat_touches(&f->ops[k], d, writes, 0)) return;
    if (w + 1 == end || fg_flat_takes_last((int)(intptr_t)f->ops[w + 1].label)) return;
    FgFlatOp moved = f->ops[end];
    memmove(&f->ops[w + 2], &f->ops[w + 1], (end - w - 1) * sizeof(FgFlatOp));
    f->ops[w + 1] = moved;
}

/* Positions of extrema of few float32; 0 for any other. */
static int fg_flat_positions(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    const FgTensor *x = FG_IN(inst, slots, 0), *out = FG_OUT(inst, slots, 0);
    int64_t rows = 1, width = 1, k = x->shape[inst->ip[1]], last = (k - 1) / 16 * 64;
    const int half = fg_flat_is_half(x->dtype), begin = f->n_ops;
    const char *a = x->data;
    if ((x->dtype != FG_F32 && !half) || out->dtype != FG_I32 || inst->ip[2] || !fg_is_contiguous(x) || x->size < 1 || x->size > 16 * FG_FOLD_TERMS) return 0;
    if (half) a = fg_flat_widened_at(f, x->dtype, x->size, a);
    for (int d = 0; d < x->ndim; d++) if (d < inst->ip[1]) rows *= x->shape[d]; else if (d > inst->ip[1]) width *= x->shape[d];
    if (rows * width > 1) {
        int before = f->n_ops, made = fg_flat_fold(f, inst->ip[0] ? FLAT_argmaxima2 : FLAT_argminima2, out->data, a, rows, k, width, 0, NULL);
        if (f->n_ops > before && x->size <= 16) fg_flat_follow(f, a, 64, out->data, 64);
        if (!made) f->n_ops = begin;
        return made;
    }
    int whole = FG_FLAT_INLINES(f) && k <= 64;
    for (int64_t i = 0; i <= last && whole; i += 64) whole = fg_flat_padded(f, a + i);
    if (!whole) { f->n_ops = begin; return 0; }
    fg_flat_op(f, inst->ip[0] ? FLAT_argmax : FLAT_argmin, out->data, a, 0, 0, k, 0)->g = (const char *)(intptr_t)(last + 64);
    return 1;
}
#endif
