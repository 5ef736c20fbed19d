/* Which operations of a plan run in one pass. */
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

static int fg_vm_how(int cmp) {
    return cmp == FG_OP_eq ? FG_HOW_EQ : cmp == FG_OP_ne ? FG_HOW_NE : cmp == FG_OP_lt || cmp == FG_OP_gt ? FG_HOW_LT : FG_HOW_LE;
}

/* The loop of a fused op whose arguments in `ones` are one value; *swap: the first two change places. */
static FgVmFused fg_vm_fused_loop(const FgVmOp *op, int ones, int *swap) {
    int kind = fg_fused_kind(op->type) > 1 ? FG_KIND_INT : op->second ? FG_KIND_SUM : FG_KIND_FLOAT, first;
    *swap = 0;
    if (op->single) return 0;
    if (op->op == FG_OP_select) return fg_choice(op->compared, fg_vm_how(op->first), ones);
    first = fg_first_number(kind, op->first, ones & 3);
    if (first < 0 && (ones & 3) == 1) {
        *swap = 1;
        first = op->first == FG_OP_max || op->first == FG_OP_min ? -1 : fg_first_number(kind, op->first, 2);
    }
    if (op->second)
        return fg_triple(op->type, first, fg_second_number(kind, op->second - 1, op->turned2, ones >> 2 & 1),
                         fg_third_number(op->op, op->turned, ones >> 3));
    return fg_pair(op->type, first, fg_second_number(kind, op->op, op->turned, ones >> 2));
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
            if (p->ops[k].op == FG_OP_select && p->ops[k].a == cmp->dst && fg_itemsize(p->ops[k].type) != fg_itemsize(cmp->type)) one = 0;
        if (!one) continue;
        cmp->taken = 1;
        for (int k = m + 1; k < p->n_ops; k++) {
            FgVmOp *op = &p->ops[k];
            if (op->op != FG_OP_select || op->a != cmp->dst) continue;
            op->first = cmp->op;
            op->compared = cmp->type;
            op->args[0] = swap ? cmp->b : cmp->a; op->args[1] = swap ? cmp->a : cmp->b; op->args[2] = op->b; op->args[3] = op->c;
            op->n_args = 4;
            op->fused = fg_vm_fused_loop(op, 0, &swap);
            swap = cmp->op == FG_OP_gt || cmp->op == FG_OP_ge;
        }
    }
}

static int fg_vm_is_const(const FgVmPlan *p, int r) { return r >= p->n_in && r < p->n_in + p->n_const; }

/* A choice with its compared array on the left; 0 if it is none against a constant. */
static int fg_vm_bound(const FgVmPlan *p, const FgVmOp *op, int *how, int *x, int *y) {
    int turned = fg_vm_is_const(p, op->args[0]);
    if (!op->fused || op->n_args != 4 || op->op != FG_OP_select) return 0;
    if ((op->type != FG_F32 && op->type != FG_F64) || op->compared != op->type) return 0;
    *x = op->args[turned]; *y = op->args[!turned];
    if (fg_vm_is_const(p, *x) || !fg_vm_is_const(p, *y)) return 0;
    *how = fg_vm_how(op->first);
    if (turned && *how <= FG_HOW_LE) *how += FG_HOW_GT;
    return 1;
}

/* Of two choices against constants one takes the other, which is one of its cases; the other case is a constant. */
static void fg_vm_fuse_ranges(FgVmPlan *p, const int *reads, int *maker) {
    int how, how2, x, y, z, w;
    for (int r = 0; r < p->n_regs; r++) maker[r] = -1;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        maker[op->dst] = k;
        if (!fg_vm_bound(p, op, &how, &x, &y)) continue;
        int first = !fg_vm_is_const(p, op->args[2]), inner = op->args[first ? 2 : 3], outer = op->args[first ? 3 : 2];
        if (maker[inner] < 0 || reads[inner] != 1 || !fg_vm_is_const(p, outer)) continue;
        FgVmOp *in = &p->ops[maker[inner]];
        if (!fg_vm_bound(p, in, &how2, &z, &w) || in->type != op->type) continue;
        int ps = fg_vm_is_const(p, in->args[2]), qs = fg_vm_is_const(p, in->args[3]);
        int args[7] = {x, y, outer, z, w, in->args[2], in->args[3]};
        memcpy(op->args, args, sizeof args);
        op->n_args = 7;
        op->single = 1;
        op->ones = 2 + 4 + 16 + 32 * ps + 64 * qs;
        op->fused = fg_ranges[op->type == FG_F64][how][first][how2][ps + 2 * qs];
        in->taken = 1;
    }
}

/* True if register r is one value for the whole walk. */
static int fg_vm_is_one(const FgVmPlan *p, int r) { return r < p->n_in ? p->in[r].scalar : fg_vm_is_const(p, r); }

/* y * x + s, by op k for nobody else than its reader: *y, and its product's number in *product; 0 if it is something else. */
static int fg_vm_step(const FgVmPlan *p, const int *reads, const int *maker, int k, int x, int *y, int *s, int *product) {
    const FgVmOp *add = &p->ops[k];
    if (add->op != FG_OP_add || add->taken) return 0;
    int one = fg_vm_is_one(p, add->b), r = one ? add->a : add->b;
    if (!one && !fg_vm_is_one(p, add->a)) return 0;
    if (maker[r] < 0 || reads[r] != 1) return 0;
    const FgVmOp *mul = &p->ops[maker[r]];
    if (mul->op != FG_OP_mul || mul->type != add->type || (mul->a != x && mul->b != x)) return 0;
    *y = mul->b == x ? mul->a : mul->b;
    *s = one ? add->b : add->a;
    *product = maker[r];
    return !fg_vm_is_one(p, x);
}

/* The last step of a polynomial by Horner's rule takes up to four before it. */
static void fg_vm_fuse_polynomials(FgVmPlan *p, const int *reads, int *maker) {
    for (int r = 0; r < p->n_regs; r++) maker[r] = -1;
    for (int k = 0; k < p->n_ops; k++) maker[p->ops[k].dst] = k;
    for (int k = p->n_ops - 1; k >= 0; k--) {
        FgVmOp *op = &p->ops[k];
        if (op->op != FG_OP_add || (op->type != FG_F32 && op->type != FG_F64) || op->taken) continue;
        int inner = maker[op->a] >= 0 ? maker[op->a] : maker[op->b];
        for (int side = 0; side < 2 && inner >= 0 && !op->fused; side++) {
            int x = side ? p->ops[inner].a : p->ops[inner].b, y, s, taken[2 * FG_STEPS], steps = 0, at = k, singles[FG_STEPS], first = 0;
            while (steps < FG_STEPS && fg_vm_step(p, reads, maker, at, x, &y, &s, &taken[2 * steps])) {
                taken[2 * steps + 1] = at;
                singles[steps++] = s;
                first = y;
                if (maker[y] < 0 || reads[y] != 1) break;
                at = maker[y];
            }
            if (steps < 2) continue;
            int one = fg_vm_is_one(p, first);
            op->fused = fg_horners[op->type == FG_F64][one][steps];
            op->args[0] = first; op->args[1] = x;
            op->ones = one;
            for (int j = 0; j < steps; j++) {
                op->args[2 + j] = singles[steps - 1 - j];
                op->ones |= 4 << j;
                p->ops[taken[2 * j]].taken = 1;
                if (j) p->ops[taken[2 * j + 1]].taken = 1;
            }
            op->n_args = 2 + steps;
            op->single = 1;
        }
    }
}

/* An operation takes the one that computes an operand for it alone, or a pair of them. */
static void fg_vm_fuse_pairs(FgVmPlan *p, const int *reads, int *maker) {
    for (int r = 0; r < p->n_regs; r++) maker[r] = -1;
    for (int k = 0; k < p->n_ops; k++) {
        FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity;
        maker[op->dst] = k;
        for (int side = 0; side < arity && arity <= 2 && !op->fused && !op->taken; side++) {
            int r = side ? op->b : op->a, other = side ? op->a : op->b, swap;
            if (maker[r] < 0 || reads[r] != 1 || op->op == FG_OP_window) continue;
            FgVmOp *first = &p->ops[maker[r]];
            FgVmOp try = *op;
            if (first->taken || first->type != op->type || fg_vm_info[first->op].arity > 2 || first->op == FG_OP_window) continue;
            if (first->second || first->single || fg_fused_kind(op->type) < 0) continue;
            try.turned = side;
            if (first->fused) {
                try.first = first->first; try.second = first->op + 1; try.turned2 = first->turned;
                memcpy(try.args, first->args, sizeof try.args);
            } else {
                try.first = first->op;
                try.args[0] = first->a; try.args[1] = first->b;
            }
            try.args[first->fused ? 3 : 2] = arity > 1 ? other : first->a;
            try.n_args = first->fused ? 4 : 3;
            if (!(try.fused = fg_vm_fused_loop(&try, 0, &swap))) {         /* a loop for a constant only */
                for (int j = 0; j < try.n_args; j++) try.ones |= fg_vm_is_const(p, try.args[j]) << j;
                if (!(try.fused = fg_vm_fused_loop(&try, try.ones, &swap)) || swap) continue;
            }
            *op = try;
            first->taken = 1;
        }
    }
}

static void fg_vm_fuse(FgVmPlan *p, int *reads, int *scratch) {
    if (p->n < FG_FUSE_MIN) return;
    fg_vm_count_reads(p, reads);
    fg_vm_fuse_choices(p, reads, scratch);
    fg_vm_fuse_ranges(p, reads, scratch);
    fg_vm_fuse_polynomials(p, reads, scratch);
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
    FgVmFn fn = op->scalar || op->a == op->b || op->op == FG_OP_window ? 0 : fg_vm_scalar_fn(op->op, op->type, op->b == r);
    if (!fn || !apply) return fn != 0;
    op->fn = fn;
    op->scalar = 1;
    return 1;
}
#endif
