/* Which reductions of rows go strip by strip (vm_in_strips.h): part of vm_fuse.h. */
#ifndef FG_VM_FIND_IN_STRIPS_H
#define FG_VM_FIND_IN_STRIPS_H

/* elements of a walk, at least; rows that wait for their lanes to be reduced together, and strips of all of them; bytes of a row, at most */
enum { FG_IN_STRIPS_LEAST = 2048, FG_IN_STRIPS_ROWS = 16, FG_IN_STRIPS_BATCH = 64, FG_IN_STRIPS_LONG = 16 * FG_STRIP };

/* How many rows of k elements a strip takes: as many as fill it, if those behind the first follow it in memory or are the same; 1 where more than
 * a third of it would not be in vain, or 0. */
static int fg_vm_rows_of_strip(const FgVmPlan *p, int64_t k, int64_t per) {
    if (k > per || k * 8 >= per * 5) return 1;
    int64_t rows = per / k;
    int last = p->ndim - 1, whole = p->shape[last] != k;                    /* rows and kept axes are one, still */
    if (per % k || rows > 4 || (whole ? p->shape[last] / k : last ? p->shape[last - 1] : 1) < 2 * rows) return 0;
    for (int i = 0; i < p->n_in; i++) {
        const int64_t *s = p->in[i].strides;
        if (p->in[i].scalar || whole) continue;
        if (s[last] != 1 || (s[last - 1] && s[last - 1] != k)) return 0;
    }
    return (int)rows;
}
/* True if the part of a row's last strip that is in vain costs less than tiles would: these are stored, and read once more, and so are the
 * columns and rows that come to them from elsewhere. */
static int fg_vm_is_worth(const FgVmPlan *p, int64_t k, int64_t padded) {
    int64_t work = 1 + p->n_out, copies = 0;
    for (int j = 0; j < p->n_ops; j++) work += fg_vm_info[p->ops[j].op].weight > 1 ? fg_vm_info[p->ops[j].op].weight : 1;
    for (int i = 0; i < p->n_in; i++) {
        const int64_t *s = p->in[i].strides;
        int64_t n = p->shape[p->ndim - 1], lies = s[p->ndim - 1] == 1, once = 1;            /* in one piece, one row for all */
        for (int d = p->ndim - 2; d >= 0; n *= p->shape[d--]) { lies &= s[d] == n; once &= s[d] == 0; }
        copies += !p->in[i].scalar && !lies && !once;
    }
    return 2 * (padded - k) * work <= k * (5 + 4 * copies);
}
/* Sums, products of two, and extrema of rows that one strip's stages make of operands that are read where they lie. */
static void fg_vm_find_in_strips(FgVmPlan *p) {
    int last = p->ndim - 1, lane = p->n_ops ? (int)fg_itemsize(p->ops[0].type) : 0;
    int64_t k = p->n_red;
    if (!p->n_reduced || p->n_reduced != p->n_out || p->n_out > FG_IN_STRIPS_OUT || !p->n_ops || p->n_ops > FG_STRIP_OPS || p->n_in > FG_IN_STRIPS_OUT * 4 || p->n_tables || p->n_boxes) return;
    if (last < 0 || p->n_seg > 1 || p->n_inner > 1 || p->n < FG_IN_STRIPS_LEAST || p->n_outer < FG_IN_STRIPS_ROWS || (lane != 4 && lane != 8)) return;
    if (k < 2 || k * lane > FG_IN_STRIPS_LONG || p->shape[last] % k || (p->shape[last] != k && p->ndim == FG_MAXDIM)) return;
    for (int j = 0; j < p->n_ops; j++) if (p->ops[j].op == FG_OP_window || fg_vm_lane(p, &p->ops[j]) != lane) return;
    for (int i = 0; i < p->n_in; i++) {
        const FgVmInput *in = &p->in[i];
        if (in->guard >= 0 || in->dtype != in->type || in->size != lane) return;
        for (int d = 0; d < last; d++) if (in->strides[d] < 0) return;
        if (in->strides[last] != 1 && in->strides[last]) return;
        if (in->strides[last] == 0 && p->shape[last] != k && !in->scalar) return;
    }
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        const int regs[2] = {out->reg, out->reg2};
        if (!fg_vm_is_real(out->type) || out->dtype != out->type || fg_itemsize(out->type) != lane || out->term != lane) return;
        if (out->reduce != FG_RED_SUM && out->reduce != FG_RED_MAX && out->reduce != FG_RED_MIN) return;
        if (out->numbers) return;
        for (int j = 0; j < 2; j++) {
            if (regs[j] < 0 || regs[j] >= p->n_in + p->n_const) continue;
            if (regs[j] >= p->n_in || p->in[regs[j]].scalar || p->in[regs[j]].strides[last] != 1) return;
        }
    }
    p->in_strips = fg_vm_rows_of_strip(p, k, FG_STRIP / lane);
    const int64_t strips = (k * lane + FG_STRIP - 1) / FG_STRIP;
    if (p->in_strips == 1 && !fg_vm_is_worth(p, k, strips * FG_STRIP / lane)) p->in_strips = 0;
    if (!p->in_strips) return;
    p->batch = strips * FG_IN_STRIPS_ROWS < FG_IN_STRIPS_BATCH ? FG_IN_STRIPS_BATCH / strips / FG_IN_STRIPS_ROWS * FG_IN_STRIPS_ROWS : FG_IN_STRIPS_ROWS;
    if (p->shape[last] == k) return;
    p->shape[last] /= k;                                                   /* rows are walked apart */
    p->shape[p->ndim] = k;
    for (int i = 0; i < p->n_in; i++) { p->in[i].strides[last + 1] = p->in[i].strides[last]; p->in[i].strides[last] *= k; }
    for (int o = 0; o < p->n_out; o++) p->out[o].strides[last + 1] = p->out[o].strides[last] = 0;
    p->ndim++;
}

/* The stages for what is no whole strip of a row: the lanes that are its own, or that no strip before has had. */
static void fg_vm_end_rows(FgVmPlan *p, FgVmStrip *strip) {
    const int64_t per = FG_STRIP / strip->lane, rest = p->n_red % per;
    if (!rest) return;
    uint64_t bits[2];
    for (int64_t j = 0; j < 2; j++) {                                      /* bits [0, rest), or the last `rest` of a strip's */
        int64_t first = (p->n_red < per ? 0 : per - rest) - 64 * j, end = (p->n_red < per ? rest : per) - 64 * j;
        first = first < 0 ? 0 : first > 64 ? 64 : first;
        end = end < 0 ? 0 : end > 64 ? 64 : end;
        bits[j] = (end == 64 ? 0 : (uint64_t)1 << end) - (first == 64 ? 0 : (uint64_t)1 << first);
        if (first == end) bits[j] = 0;
    }
    strip->some = p->n_stages;
    for (int k = strip->stage; k < strip->stage_end; k++) {
        FgStage *s = &p->stages[p->n_stages++];
        *s = p->stages[k];
        for (int kind = 0; kind < FG_FOLD_KINDS; kind++) for (int j = 0; j < FG_FOLD_SOME_OF; j++) {
            if (p->stages[k].fn != fg_folds[strip->lane == 8][kind][j]) continue;
            s->fn = fg_folds[strip->lane == 8][kind][FG_FOLD_SOME_OF];
            memcpy((char *)s + offsetof(FgStage, c), bits, sizeof bits);
        }
    }
}
#endif
