/* Tiles of a selection between arrays by one value for each of their parts, as by a coin for each image: what is not selected is not read.
 * Part of vm_plan.h. */
#ifndef FG_VM_PICK_H
#define FG_VM_PICK_H

/* 1 if [start, start + len) of the walk's only operation, a selection, has been done so: its condition is the same for all of them. */
static int fg_vm_pick(FgVmThread *t, const int64_t *coord, int64_t start, int64_t len) {
    const FgVmPlan *p = t->p;
    const FgVmOp *op = &p->ops[0];
    if (p->n_ops != 1 || op->op != FG_OP_select || op->strip >= 0 || op->rows || op->a >= p->n_in || op->buf >= 0) return 0;
    if (p->n_out != 1 || p->n_reduced || p->n_boxes || p->columns) return 0;
    const FgVmInput *by = &p->in[op->a];
    if (by->access != FG_ACC_GENERAL || by->lies || by->guard >= 0 || by->size != 1) return 0;      /* such plans have no steps (vm_tiles.h) */
    int64_t same = 1;
    for (int d = p->ndim - 1; d >= 0 && (by->strides[d] == 0 || p->shape[d] == 1); d--) same *= p->shape[d];
    if (same < len || start % same + len > same) return 0;
    const int picked = FG_MEM(t, op->a)[fg_vm_offset(p->ndim, coord, by->strides)] ? op->b : op->c;
    const FgVmInput *in = &p->in[picked];
    if (picked >= p->n_in || (in->access != FG_ACC_FULL && in->access != FG_ACC_GENERAL)) return 0;
    if (in->guard >= 0 || in->dtype != in->type || in->raw || in->scalar) return 0;
    if (t->streamed[0] || p->out[0].access != FG_ACC_FULL) {
        fg_vm_fetch(t, picked, coord, start, len);
        t->ptr[op->dst] = t->ptr[picked];
        return 1;
    }
    char *dst = t->ptr[op->dst] = FG_RESULT(t, 0) + start * in->size;
    if (in->access == FG_ACC_GENERAL && !in->lies && !t->copied[picked]) {
        fg_vm_gather(p, in, dst, FG_MEM(t, picked), coord, len);
        return 1;
    }
    fg_vm_fetch(t, picked, coord, start, len);
    if (t->ptr[picked] != dst) memmove(dst, t->ptr[picked], len * in->size);
    return 1;
}
#endif
