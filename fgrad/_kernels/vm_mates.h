/* Inputs, and outputs, that lie between each other's elements, as columns of narrow rows do: read, and written, together. Part of vm_plan.h. */
#ifndef FG_VM_MATES_H
#define FG_VM_MATES_H

/* An input that is brought to tiles and leaves room for a few others between its elements. */
static inline int fg_vm_is_column(const FgVmPlan *p, const FgVmInput *in) {
    return in->access == FG_ACC_GENERAL && in->guard < 0 && in->dtype == in->type && in->strides[p->ndim - 1] > 1 &&
        in->strides[p->ndim - 1] <= FG_VM_MATES;
}
/* Outputs that lie between each other's elements, as columns of narrow rows do, are written together. */
static int fg_vm_are_mates(const FgVmPlan *p, const FgVmOutput *a, const FgVmOutput *b) {
    if (a->reduce || b->reduce || a->dtype != b->dtype || a->access != FG_ACC_GENERAL || b->access != FG_ACC_GENERAL) return 0;
    for (int d = 0; d < p->ndim; d++) if (a->strides[d] != b->strides[d]) return 0;
    return a->dtype == a->type && b->dtype == b->type && a->reg >= p->n_in && b->reg >= p->n_in;
}
/* The mates of all outputs, for the memory of this run; room: that of a pointer for each output. */
static void fg_vm_find_mates(FgVmThread *t, void *room) {
    const FgVmPlan *p = t->p;
    int16_t (*mates)[FG_VM_MATES] = room;
    t->mates = mates;
    for (int o = 0; o < p->n_out; o++) mates[o][0] = FG_VM_ALONE;
    for (int o = 0; o < p->n_out && p->turns; o++) {
        const FgVmOutput *out = &p->out[o];
        int64_t k = p->ndim ? out->strides[p->ndim - 1] : 0, n = 1;
        int16_t found[FG_VM_MATES] = {(int16_t)o};
        if (k < 2 || k > FG_VM_MATES) continue;
        for (int at = 1; at < k; at++)
            for (int q = 0; q < p->n_out && n == at; q++)
                if (FG_RESULT(t, q) == FG_RESULT(t, o) + at * out->size && fg_vm_are_mates(p, out, &p->out[q])) found[n++] = (int16_t)q;
        if (n < k) continue;
        for (int at = 1; at < k; at++) mates[found[at]][0] = FG_VM_MATE;
        memcpy(mates[o], found, sizeof found);
    }
}
/* Those of inputs, in a plan of one part. */
static void fg_vm_find_columns(FgVmThread *t, void *room) {
    const FgVmPlan *p = t->p;
    int16_t (*read)[FG_VM_MATES] = room;
    t->read = read;
    for (int i = 0; i < p->n_in; i++) read[i][0] = FG_VM_ALONE;
    for (int i = 0; i < p->n_in; i++) {
        const FgVmInput *in = &p->in[i];
        int64_t k = in->strides[p->ndim - 1], n = 1;
        int16_t found[FG_VM_MATES] = {(int16_t)i};
        if (k < 2 || k > FG_VM_MATES || read[i][0] != FG_VM_ALONE || !fg_vm_is_column(p, in)) continue;
        for (int at = 1; at < k; at++)
            for (int q = 0; q < p->n_in && n == at; q++) {
                const FgVmInput *other = &p->in[q];
                if (read[q][0] == FG_VM_ALONE && FG_MEM(t, q) == FG_MEM(t, i) + at * in->size && fg_vm_is_column(p, other) &&
                    other->dtype == in->dtype && !memcmp(other->strides, in->strides, p->ndim * sizeof(int64_t))) found[n++] = (int16_t)q;
            }
        if (n < k) continue;
        for (int at = 1; at < k; at++) read[found[at]][0] = FG_VM_MATE;
        memcpy(read[i], found, sizeof found);
    }
}
static void fg_vm_store_mates(FgVmThread *t, int o, const int64_t *coord, int64_t len) {
    const FgVmPlan *p = t->p;
    const FgVmOutput *out = &p->out[o];
    int k = (int)out->strides[p->ndim - 1];
    char *src[FG_VM_MATES] = {0};
    for (int j = 0; j < FG_VM_MATES; j++) src[j] = t->ptr[p->out[t->mates[o][j < k ? j : 0]].reg];
    fg_vm_walk_turned(src, k, FG_RESULT(t, o), out->size, p->ndim, p->shape, out->strides, coord, len, 1);
}

/* Input i with those that lie between its elements: read together. */
static void fg_vm_fetch_mates(FgVmThread *t, int i, const int64_t *coord, int64_t len) {
    const FgVmPlan *p = t->p;
    const FgVmInput *in = &p->in[i];
    int k = (int)in->strides[p->ndim - 1];
    char *to[FG_VM_MATES];
    for (int j = 0; j < FG_VM_MATES; j++) {
        int q = t->read[i][j < k ? j : 0];
        to[j] = t->ptr[q] = t->work + p->in[q].buf;
    }
    fg_vm_walk_turned(to, k, FG_MEM(t, i), in->size, p->ndim, p->shape, in->strides, coord, len, 0);
}
#endif
