/* Runs of one tile that reads and writes all where it lies: pointers are set, and the ops run. To look up for each operand and op how it is
 * brought to tiles takes longer than a few hundred elements. */
#ifndef FG_VM_QUICK_H
#define FG_VM_QUICK_H
#include "vm_plan.h"

enum { FG_QUICK_BYTES = 16384 };                /* of the table of pointers and the workspace, on the stack */

/* Bytes of the workspace: tiles of inputs, behind all else, are not used. */
static int64_t fg_vm_quick_work(const FgVmPlan *p) {
    for (int k = 0; k < p->n_ops; k++) if (!p->ops[k].taken && p->ops[k].buf >= 0) return p->work_bytes;
    return p->tile_buf;
}
static inline int64_t fg_vm_quick_head(const FgVmPlan *p) { return (((p->n_regs + p->n_slots) * (int64_t)sizeof(char *)) + 63) & -64; }

/* 1 if the plan is such a run, 2 if an output that lies on an input may be written too early for that. */
static int fg_vm_find_quick(const FgVmPlan *p) {
    int quick = 1;
    if (p->mode != FG_MODE_FLAT || p->units != p->n_parts || p->n_boxes || p->n_tables || p->n_reduced || p->prefetches || p->streams || p->by_rows ||
        p->columns) return 0;
    if (fg_vm_quick_head(p) + fg_vm_quick_work(p) > FG_QUICK_BYTES) return 0;
    for (int i = 0; i < p->n_in; i++) {
        const FgVmInput *in = &p->in[i];
        if (in->dtype != in->type && !in->raw) return 0;
        int one = in->access == FG_ACC_CACHED && in->scalar && (in->size == 4 || in->size == 8);
        if (!one && in->access != FG_ACC_FULL && !(in->access == FG_ACC_GENERAL && in->lies)) return 0;
        for (int k = 0; k < p->n_out; k++) if (p->out[k].write_time < in->last_use) quick = 2;
    }
    for (int k = 0; k < p->n_const; k++) if (!p->consts[k].scalar) return 0;
    for (int k = 0; k < p->n_out; k++) if (!p->out[k].direct) return 0;
    for (int k = 0; k < p->n_ops; k++) if (fg_vm_is_view(&p->ops[k]) || p->ops[k].rows) return 0;
    return quick;
}

/* 0 if the run is none after all, for the memory that it is given. */
static int fg_vm_run_quick(const FgVmPlan *p, const FgInst *inst, FgTensor *slots) {
    char stack[FG_QUICK_BYTES + 64], *base = (char *)(((uintptr_t)stack + 63) & -(uintptr_t)64), *work = base + fg_vm_quick_head(p);
    FgVmThread t = {.p = p, .inst = inst, .slots = slots, .ptr = (char **)base, .work = work, .work_bytes = stack + sizeof stack - work, .part = &p->parts[p->n_parts]};
    FgVmAhead ahead = {0, 1, 0, 0, 0};
    for (int i = 0; i < p->n_in && p->quick == 2; i++)
        for (int k = 0; k < p->n_out; k++) if (FG_MEM(&t, i) == FG_RESULT(&t, k) && p->out[k].write_time < p->in[i].last_use) return 0;
    for (int i = 0; i < p->n_in; i++) {
        const FgVmInput *in = &p->in[i];
        char *mem = t.ptr[i] = FG_MEM(&t, i);
        if (in->access != FG_ACC_CACHED) continue;      /* one value, which an output may lie on */
        t.ptr[i] = work + in->buf;
        if (in->size == 4) memcpy(t.ptr[i], mem, 4); else memcpy(t.ptr[i], mem, 8);
    }
    for (int k = 0; k < p->n_const; k++) t.ptr[p->consts[k].reg] = (char *)p->consts[k].bits;
    for (int k = 0; k < p->n_slots; k++) t.ptr[p->n_regs + k] = work + p->slot_buf + k * FG_STRIP;
    if (p->masked) t.ptr[p->masked] = p->masks;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        if (!op->taken) t.ptr[op->dst] = op->buf >= 0 ? work + op->buf : FG_RESULT(&t, -1 - op->buf);
        if (op->strip < 0) op->fn(p->n, t.ptr[op->dst], t.ptr[op->a], t.ptr[op->b], t.ptr[op->c]);
        else if (!fg_vm_waits(p, k)) fg_vm_run_strip(&t, &p->strips[op->strip], p->n, &ahead);
    }
    return 1;
}
#endif
