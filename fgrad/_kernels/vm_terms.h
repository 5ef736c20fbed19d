/* What reductions read: operations whose result one sum or product takes need no tile and no pass of their own where the reduction's loop
 * computes its terms itself.  Products of two registers are elementwise.pyx's `sum_products`. */
#ifndef FG_VM_TERMS_H
#define FG_VM_TERMS_H
#include "vm_plan.h"
#include "vm_reduce16.h"

/* How many ops and outputs read register r. */
static int fg_vm_readers(const FgVmPlan *p, int r) {
    int n = 0;
    for (int i = 0; i < p->n_out; i++) n += p->out[i].reg == r || p->out[i].reg2 == r;
    for (int k = 0; k < p->n_ops; k++) n += p->ops[k].a == r || p->ops[k].b == r || p->ops[k].c == r;
    return n;
}
static int fg_vm_maker(const FgVmPlan *p, int r) {
    for (int k = 0; k < p->n_ops; k++) if (p->ops[k].dst == r) return k;
    return -1;
}
static void fg_vm_drop(FgVmPlan *p, int k) {
    p->n_ops--;
    for (; k < p->n_ops; k++) p->ops[k] = p->ops[k + 1];
}
static int fg_vm_register_type(const FgVmPlan *p, int r) {
    int k = r < p->n_in + p->n_const ? -1 : fg_vm_maker(p, r);
    return r < p->n_in ? p->in[r].type : k < 0 ? p->consts[r - p->n_in].type : fg_vm_result_type(p->ops[k].op, p->ops[k].type);
}
/* True if register r is the constant that `reduce` begins with: 0 of a sum, 1 of a product. */
static int fg_vm_is_start(const FgVmPlan *p, int reduce, int r) {
    char bits[16];
    if (!fg_vm_is_const(p, r)) return 0;
    fg_vm_identity(reduce, p->consts[r - p->n_in].type, bits);
    return memcmp(p->consts[r - p->n_in].bits, bits, fg_itemsize(p->consts[r - p->n_in].type)) == 0;
}
/* A sum or product over x != x ? identity : x passes NaN over while it reads x. */
static int fg_vm_pass_nan_over(FgVmPlan *p, FgVmOutput *out, int k) {
    const FgVmOp op = p->ops[k];
    int m = op.op == FG_OP_select && fg_vm_is_start(p, out->reduce, op.b) ? fg_vm_maker(p, op.a) : -1;
    if (m < 0 || p->ops[m].op != FG_OP_ne || p->ops[m].a != op.c || p->ops[m].b != op.c) return 0;
    if (!fg_vm_seg_numbers(out->reduce, out->type)) return 0;
    out->seg = fg_vm_seg_numbers(out->reduce, out->type);
    out->tiles = fg_vm_tiles_numbers(out->reduce, out->type);
    out->reg = op.c;
    out->numbers = 1;
    fg_vm_drop(p, k);
    if (!fg_vm_readers(p, op.a)) fg_vm_drop(p, m);
    return 1;
}
/* A sum of numbers made of booleans, by a cast or a selection of 1 and 0, counts the booleans. */
static void fg_vm_count_bools(FgVmPlan *p, FgVmOutput *out, int k) {
    const FgVmOp *op = &p->ops[k];
    int selects = op->op == FG_OP_select && fg_vm_is_start(p, FG_RED_PROD, op->b) && fg_vm_is_start(p, FG_RED_SUM, op->c);
    if (out->reduce != FG_RED_SUM || !fg_vm_seg_count(out->type)) return;
    if (!selects && (op->op != FG_OP_cast || fg_vm_register_type(p, op->a) != FG_BOOL)) return;
    out->reg = op->a;
    out->term = 1;
    out->seg = fg_vm_seg_count(out->type);
    out->tiles = fg_vm_tiles_count(out->type);
    fg_vm_drop(p, k);
}
/* True if an output reduces input i as it lies, widening what it reads. */
static int fg_vm_can_widen(const FgVmPlan *p, const FgVmOutput *out, int i) {
    int dot = out->reg2 >= 0, other = out->reg == i ? out->reg2 : out->reg, dtype = p->in[i].dtype;
    FgVmSeg wide = out->reduce ? fg_vm_seg_wide(out->reduce, dot, dtype) : 0;
    if (!wide || (out->seg != wide && out->seg != (dot ? fg_vm_seg_dot(FG_F32) : fg_vm_seg[out->reduce][FG_F32]))) return 0;
    if (!dot || other == i) return 1;
    return other < p->n_in && p->in[other].dtype == dtype && p->in[other].guard < 0
        && fg_vm_readers(p, i) == 1 && fg_vm_readers(p, other) == 1;
}
/* A reduction of an input times 1, a cast from 16 bits, reduces the input: register r, or what it is made of. */
static int fg_vm_skip_cast(FgVmPlan *p, int r) {
    int k = r < p->n_in ? -1 : fg_vm_maker(p, r);
    if (k < 0 || p->ops[k].op != FG_OP_mul || !fg_vm_is_start(p, FG_RED_PROD, p->ops[k].b)) return r;
    int from = p->ops[k].a;
    if (from >= p->n_in || (p->in[from].dtype != FG_BF16 && p->in[from].dtype != FG_F16)) return r;
    if (fg_vm_readers(p, r) != 1) return r;
    fg_vm_drop(p, k);
    return from;
}
/* Inputs of 16-bit floats that only such outputs read. */
static void fg_vm_read_halves(FgVmPlan *p) {
    for (int k = 0; k < p->n_out; k++) {
        FgVmOutput *out = &p->out[k];
        int same = out->reg2 == out->reg;
        if (!out->reduce) continue;
        out->reg = fg_vm_skip_cast(p, out->reg);
        if (out->reg2 >= 0) out->reg2 = same ? out->reg : fg_vm_skip_cast(p, out->reg2);
    }
    for (int i = 0; i < p->n_in; i++) {
        int readers = fg_vm_readers(p, i), mine = 0;
        for (int k = 0; k < p->n_out && p->in[i].guard < 0; k++)
            mine += (p->out[k].reg == i || p->out[k].reg2 == i) && fg_vm_can_widen(p, &p->out[k], i);
        if (!readers || mine < readers) continue;
        p->in[i].type = p->in[i].dtype;
        for (int k = 0; k < p->n_out; k++) {
            FgVmOutput *out = &p->out[k];
            if (out->reg != i && out->reg2 != i) continue;
            out->term = 2;
            out->seg = fg_vm_seg_wide(out->reduce, out->reg2 >= 0, p->in[i].dtype);
            out->tiles = fg_vm_tiles_wide(out->reduce, out->reg2 >= 0, p->in[i].dtype);
        }
    }
}
/* A change of the signs of 16-bit floats, where that is all there is to do, is one of their bits. */
static void fg_vm_read_signs(FgVmPlan *p) {
    const int op = p->n_ops ? p->ops[0].op : FG_OP_add, dtype = p->out[0].dtype;
    const FgVmFn fn = op == FG_OP_neg ? vm_neg_half : op == FG_OP_abs ? vm_abs_half : op == FG_OP_copysign ? vm_copysign_half : 0;
    if (!fn || p->n_ops != 1 || p->n_out != 1 || p->n_reduced || p->n_const || (dtype != FG_F16 && dtype != FG_BF16)) return;
    for (int i = 0; i < p->n_in; i++) if (p->in[i].dtype != dtype) return;
    for (int i = 0; i < p->n_in; i++) p->in[i].type = dtype;
    p->ops[0].fn = fn;
    p->ops[0].type = p->out[0].type = dtype;
    p->out[0].term = 2;
}
/* The logistic function of what exp is wanted of as well is made of the exponential, which then comes first. */
static void fg_vm_share_exp(FgVmPlan *p) {
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp made = p->ops[k];
        int first = k;
        if (made.op != FG_OP_exp || made.type != FG_F32) continue;
        for (int j = k; j >= 0; j--) if (p->ops[j].op == FG_OP_logistic && p->ops[j].a == made.a) first = j;
        for (int j = k; j > first; j--) p->ops[j] = p->ops[j - 1];
        p->ops[first] = made;
        for (int j = first; j < p->n_ops; j++) if (p->ops[j].op == FG_OP_logistic && p->ops[j].a == made.a) {
            p->ops[j].fn = vm_logistic_of_exp_f32;
            p->ops[j].a = p->ops[j].b = p->ops[j].c = made.dst;
        }
    }
}
/* A product of the logistic function and a whole input, as gates are, is one loop: its result is not stored to be multiplied. What a stage
 * makes is left to the strip that makes it. */
static void fg_vm_join_gates(FgVmPlan *p, const FgInst *inst, const FgTensor *slots) {
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *made = &p->ops[k];
        if (made->fn != vm_logistic_f32 || fg_vm_readers(p, made->dst) != 1) continue;
        for (int j = k + 1; j < p->n_ops; j++) {
            FgVmOp *op = &p->ops[j];
            const int other = op->a == made->dst ? op->b : op->a;
            if (op->op != FG_OP_mul || (op->a != made->dst && op->b != made->dst) || other >= p->n_in) continue;
            if (slots[inst->args[other]].size != p->n) break;
            op->op = FG_OP_logistic_times;
            op->fn = vm_logistic_times_f32;
            op->a = made->a;
            op->b = op->c = other;
            fg_vm_drop(p, k--);
            break;
        }
    }
}
static void fg_vm_read_terms(FgVmPlan *p, const FgInst *inst, const FgTensor *slots) {
    fg_vm_share_exp(p);
    if (p->n >= FG_FUSE_MIN) fg_vm_join_gates(p, inst, slots);
    for (int i = 0; i < p->n_out && p->n >= FG_FUSE_MIN; i++) {
        FgVmOutput *out = &p->out[i];
        int k = out->reduce && out->reg2 < 0 ? fg_vm_maker(p, out->reg) : -1;
        if (k >= 0 && fg_vm_readers(p, out->reg) == 1 && !fg_vm_pass_nan_over(p, out, k)) fg_vm_count_bools(p, out, k);
    }
    if (p->n >= FG_FUSE_MIN) fg_vm_read_halves(p);
    fg_vm_read_signs(p);
}
#endif
