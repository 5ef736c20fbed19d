/* Which operations of a plan run two in one. */
#ifndef FG_VM_FUSE_H
#define FG_VM_FUSE_H
#include "vm_plan.h"
#include "vm_fused.h"

enum { FG_FUSE_MIN = 256 };             /* elements from which a pass less is felt */

static int fg_vm_is_comparison(int op) { return op >= FG_OP_eq && op <= FG_OP_ge; }

/* How often each register is read; twice more by outputs. */
static void fg_vm_count_reads(const FgVmPlan *p, int *reads) {
    for (int r = 0; r < p->n_regs; r++) reads[r] = 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity;
        reads[op->a]++;
        if (arity > 1) reads[op->b]++;
        if (arity > 2) reads[op->c]++;
    }
    for (int k = 0; k < p->n_out; k++) {
        reads[p->out[k].reg] += 2;
        if (p->out[k].reg2 >= 0) reads[p->out[k].reg2] += 2;
    }
}

/* The loop of a fused op whose arguments in `ones` are one value; *swap: the first two change places. */
static FgVmFused fg_vm_fused_loop(const FgVmOp *op, int ones, int *swap) {
    int kind = fg_fused_kind(op->type), first;
    *swap = 0;
    if (op->op == FG_OP_select) {
        int how = op->first == FG_OP_eq ? FG_HOW_EQ : op->first == FG_OP_ne ? FG_HOW_NE :
                  op->first == FG_OP_lt || op->first == FG_OP_gt ? FG_HOW_LT : FG_HOW_LE;
        return fg_choice(op->type, how, ones);
    }
    first = fg_first_number(kind > 1, op->first, ones & 3);
    if (first < 0 && (ones & 3) == 1) {
        *swap = 1;
        first = op->first == FG_OP_max || op->first == FG_OP_min ? -1 : fg_first_number(kind > 1, op->first, 2);
    }
    return fg_pair(op->type, first, fg_second_number(kind > 1, op->op, op->turned, ones >> 2));
}

/* Comparisons that only selections of their own type read become part of these. */
static void fg_vm_fuse_choices(FgVmPlan *p, const int *reads, int *selects) {
    for (int r = 0; r < p->n_regs; r++) selects[r] = 0;
    for (int k = 0; k < p->n_ops; k++) if (p->ops[k].op == FG_OP_select) selects[p->ops[k].a]++;
    for (int m = 0; m < p->n_ops; m++) {
        FgVmOp *cmp = &p->ops[m];
        int swap = cmp->op == FG_OP_gt || cmp->op == FG_OP_ge, one = reads[cmp->dst] > 0;
        if (!fg_vm_is_comparison(cmp->op) || selects[cmp->dst] != reads[cmp->dst] || !fg_choice(cmp->type, 0, 0)) continue;
        for (int k = m + 1; k < p->n_ops; k++)
            if (p->ops[k].op == FG_OP_select && p->ops[k].a == cmp->dst && p->ops[k].type != cmp->type) one = 0;
        if (!one) continue;
        cmp->taken = 1;
        for (int k = m + 1; k < p->n_ops; k++) {
            FgVmOp *op = &p->ops[k];
            if (op->op != FG_OP_select || op->a != cmp->dst) continue;
            op->first = cmp->op;
            op->args[0] = swap ? cmp->b : cmp->a; op->args[1] = swap ? cmp->a : cmp->b; op->args[2] = op->b; op->args[3] = op->c;
            op->n_args = 4;
            op->fused = fg_vm_fused_loop(op, 0, &swap);
            swap = cmp->op == FG_OP_gt || cmp->op == FG_OP_ge;
        }
    }
}

/* An operation takes the one that computes an operand for it alone. */
static void fg_vm_fuse_pairs(FgVmPlan *p, const int *reads, int *maker) {
    for (int r = 0; r < p->n_regs; r++) maker[r] = -1;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity;
        maker[op->dst] = k;
        for (int side = 0; side < arity && arity <= 2 && !op->fused && !op->taken; side++) {
            int r = side ? op->b : op->a, other = side ? op->a : op->b, swap;
            if (maker[r] < 0 || reads[r] != 1) continue;
            FgVmOp *first = &p->ops[maker[r]];
            FgVmOp try = *op;
            if (first->fused || first->taken || first->type != op->type || fg_vm_info[first->op].arity > 2) continue;
            try.first = first->op; try.turned = side;
            if (fg_fused_kind(op->type) < 0 || !(try.fused = fg_vm_fused_loop(&try, 0, &swap))) continue;
            try.args[0] = first->a; try.args[1] = first->b; try.args[2] = arity > 1 ? other : first->a;
            try.n_args = 3;
            *op = try;
            first->taken = 1;
        }
    }
}

static void fg_vm_fuse(FgVmPlan *p, int *reads, int *scratch) {
    if (p->n < FG_FUSE_MIN) return;
    fg_vm_count_reads(p, reads);
    fg_vm_fuse_choices(p, reads, scratch);
    fg_vm_fuse_pairs(p, reads, scratch);
}

/* True if an op can read register r as one value; `apply` makes it do so. */
static int fg_vm_read_one(FgVmOp *op, int r, int apply) {
    int ones = op->ones, swap, a = op->args[0], b = op->args[1];
    if (op->taken) return 1;
    if (op->fused) {
        for (int j = 0; j < op->n_args; j++) if (op->args[j] == r) ones |= 1 << j;
        if (ones == op->ones) return 1;
        FgVmFused fn = fg_vm_fused_loop(op, ones, &swap);
        if (!fn || !apply) return fn != 0;
        op->fused = fn;
        op->ones = swap ? (ones & ~3) | 2 : ones;
        if (swap) { op->args[0] = b; op->args[1] = a; }
        return 1;
    }
    if (op->a != r && op->b != r && op->c != r) return 1;
    FgVmFn fn = op->scalar || op->a == op->b ? 0 : fg_vm_scalar_fn(op->op, op->type, op->b == r);
    if (!fn || !apply) return fn != 0;
    op->fn = fn;
    op->scalar = 1;
    return 1;
}
#endif
