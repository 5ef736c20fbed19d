/* Items of a table at the indices of a tile: gathers among the operations of a group. */
#ifndef FG_VM_TAKE_H
#define FG_VM_TAKE_H
#include "items.h"

static void fg_vm_take(FgVmThread *t, const FgVmOp *op, int64_t len) {
    static const int32_t nowhere[FG_TAKE_BLOCK];
    const FgTensor *table = &t->slots[t->inst->args[t->p->n_in + op->table]];
    const int64_t n = table->shape[0], item = fg_itemsize(op->type);
    const int32_t k = (int32_t)table->strides[0];
    const void *index = t->ptr[op->a];
    const int wide = t->p->types[op->a] == FG_I64, far = n * item * (k < 0 ? -k : k) >= FG_FAR_BYTES;
#define FG_VM_TAKE(T, I) (void)fg_items_##T##_##I((const T *)table->data, (T *)t->ptr[op->dst], (const I *)index, len, (I)(n - 1), \
                                                  (I)(op->wraps ? n : 0), k, nowhere, FG_TAKE_BLOCK, 0, far)
#define FG_VM_TAKES(T) if (wide) FG_VM_TAKE(T, int64_t); else FG_VM_TAKE(T, int32_t); break
    switch (item) {
        case 1: FG_VM_TAKES(fg_item1);
        case 2: FG_VM_TAKES(fg_item2);
        case 4: FG_VM_TAKES(fg_item4);
        case 8: FG_VM_TAKES(fg_item8);
        default: FG_VM_TAKES(fg_item16);
    }
#undef FG_VM_TAKES
#undef FG_VM_TAKE
}

/* Those of a table of two axes, whose offsets are made block by block where items are read: what waits for the table is in the way of no
 * operation before it. */
static void fg_vm_take2(FgVmThread *t, const FgVmOp *op, int64_t len) {
    const FgTensor *table = &t->slots[t->inst->args[t->p->n_in + op->table]];
    const int64_t item = fg_itemsize(op->type);
    const void *a = t->ptr[op->a], *b = t->ptr[op->b];
    const int wide = t->p->types[op->a] == FG_I64;
    FgTakeAxis axes[2];
    int64_t reach = item;
    for (int d = 0; d < 2; d++) {
        const int64_t n = table->shape[d], k = table->strides[d];
        axes[d] = (FgTakeAxis){n - 1, op->wraps >> d & 1 ? n : 0, (int32_t)k};
        reach += (n - 1) * item * (k < 0 ? -k : k);
    }
#define FG_VM_TAKE(T, I) fg_pairs_##T##_##I((const T *)table->data, (T *)t->ptr[op->dst], (const I *)a, (const I *)b, len, axes[0], axes[1], \
                                            reach >= FG_FAR_BYTES)
#define FG_VM_TAKES(T) if (wide) FG_VM_TAKE(T, int64_t); else FG_VM_TAKE(T, int32_t); break
    switch (item) {
        case 1: FG_VM_TAKES(fg_item1);
        case 2: FG_VM_TAKES(fg_item2);
        case 4: FG_VM_TAKES(fg_item4);
        case 8: FG_VM_TAKES(fg_item8);
        default: FG_VM_TAKES(fg_item16);
    }
#undef FG_VM_TAKES
#undef FG_VM_TAKE
}
#endif
