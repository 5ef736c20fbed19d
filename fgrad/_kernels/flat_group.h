/* Flat code of a fused group: an instruction of the VM, op by op. See flat.h. */
#ifndef FG_FLAT_GROUP_H
#define FG_FLAT_GROUP_H
#include "flat_half.h"
#include "flat_reduce.h"

/* 1 if a walk reads one number again and again. */
static int fg_flat_one(const FgVmPlan *p, const int64_t *strides) {
    for (int i = 0; i < p->ndim; i++) if (p->shape[i] > 1 && strides[i]) return 0;
    return 1;
}

/* One number to all elements of a place; 0 if the walk is of several numbers, or of too many bytes. */
static int fg_flat_splat(FgFlat *f, const FgVmPlan *p, const int64_t *strides, char *d, const char *a, int64_t size) {
    if (!fg_flat_one(p, strides)) return 0;
    if (size > 8 || p->n * size > FG_FLAT_VECTORS) return 0;
    for (int64_t at = 0; at < p->n * size; at += 64)
        fg_flat_op(f, size == 1 ? FLAT_splat1 : size == 2 ? FLAT_splat2 : size == 4 ? FLAT_splat4 : FLAT_splat8, d + at, a, 0, 0, 0, 0);
    return 1;
}

/* Operand i of a group, which is at a, element by element. */
static char *fg_flat_spread(FgFlat *f, const FgVmPlan *p, int i, const char *a) {
    char *d = fg_flat_room(f, p->n, p->in[i].size);
    if (fg_flat_splat(f, p, p->in[i].strides, d, a, p->in[i].size)) return d;
    const int64_t used = f->used;
    int32_t *places = (int32_t *)fg_flat_places(f, p, p->in[i].strides), *copy = NULL;
    if (FG_MACHINE_CODE == 1 && p->in[i].size <= 2 && !f->failed) {     /* of many bytes places are most of what the code's memory has */
        if (!(copy = (int32_t *)malloc(p->n * 4))) { f->failed = 1; return d; }
        memcpy(copy, places, p->n * 4);
        fg_flat_give_back(f, used);
    }
    fg_flat_collect(f, d, a, copy ? copy : places, p->n, p->in[i].size);
    free(copy);
    return d;
}

/* Operand i of 16-bit floats, element by element, as float32. */
static char *fg_flat_as_floats(FgFlat *f, const FgVmPlan *p, int i, const char *a) {
    const FgVmInput *in = &p->in[i];
    if (p->n > 1 && in->access != FG_ACC_FULL) {
        char *d = fg_flat_room(f, p->n, 4);
        if (fg_flat_one(p, in->strides) && 4 * p->n <= FG_FLAT_VECTORS) { fg_flat_splat(f, p, in->strides, d, fg_flat_widened_at(f, in->dtype, 1, a), 4); return d; }
        a = fg_flat_spread(f, p, i, a);
    }
    return fg_flat_widened_at(f, in->dtype, p->n, a);
}

/* How many elements of a group go through all of its operations at a time: a vector's, where all are inline; else all of them. */
static int64_t fg_flat_block(const FgFlat *f, const FgVmPlan *p, char *const *reg, const char *const *mask, const int *types) {
    int t = p->n_ops ? fg_flat_wide_type(p->ops[0].type) : 0, ints = t == FG_I32 || t == FG_U32, kind = t == FG_F32 ? FG_C64 : t == FG_F64 ? FG_C128 : FG_FLAT_INTS, forms;
    int64_t bytes = p->n * fg_itemsize(t);
    if ((t != FG_F32 && t != FG_F64 && !ints) || bytes <= 64 || bytes > (ints ? FG_FLAT_INTEGERS_BYTES : FG_FLAT_VECTORS)) return p->n;
    if (f->n_ops + p->n_ops * (bytes / 64 + 1) > FG_FLAT_CODE / 2) return p->n;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        const char *at[4] = {reg[op->dst], reg[op->a], reg[op->b], reg[op->c]};
        int chain = op->op == FG_OP_add || op->op == FG_OP_sub || op->op == FG_OP_mul, arity = fg_vm_info[op->op].arity;
        int choose = op->op == FG_OP_select && mask[op->a];
        if (ints && !choose && !fg_flat_ints(op->op, t)) return p->n;
        if (fg_flat_wide_type(op->type) != t || types[op->dst] != t || (!chain && !choose && fg_flat_inline(op->op, kind, &forms) < 0)) return p->n;
        for (int i = 0; i <= arity; i++)
            for (int64_t b = 0; b < bytes && !(choose && i == 1); b += 64) if (!fg_flat_padded(f, at[i] + b)) return p->n;
    }
    return 64 / fg_itemsize(t);
}

/* The loop of an operation that reads register r as one value; NULL if it has none, or one of other bits than the VM's stages. */
static FgVmFn fg_flat_fn_of_one(const FgVmOp *op, int r) {
    if (op->a == op->b || fg_vm_info[op->op].arity != 2) return NULL;
    if (op->scalar) return (op->scalar == 2 ? op->b : op->a) == r ? op->fn : NULL;
    return op->op == FG_OP_div || op->op == FG_OP_rem || op->op == FG_OP_pow ? NULL : fg_vm_scalar_fn(op->op, op->type, op->b == r);
}

/* 1 for a constant, or an input that repeats one number, that takes no memory of its own where operations go over all of a group. */
static int fg_flat_is_one(const FgVmPlan *p, int r) {
    int made = p->n_in + p->n_const, input = r < p->n_in;
    int64_t size = r >= made ? 0 : input ? p->in[r].size : fg_itemsize(p->consts[r - p->n_in].type);
    if (p->n * size <= FG_FLAT_VECTORS || (input && !fg_flat_one(p, p->in[r].strides))) return 0;
    for (int o = 0; o < p->n_out; o++) if (p->out[o].reg == r || p->out[o].reg2 == r) return 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int other = op->a == r ? op->b : op->a;
        if (op->a != r && op->b != r && op->c != r) continue;
        if (!fg_flat_fn_of_one(op, r) || (other < made && (other >= p->n_in || p->in[other].access != FG_ACC_FULL))) return 0;
    }
    return 1;
}

/* 1 if a group costs no more in flat code than in a run of the VM. Both grow with the elements: an operation loads and stores, where a stage keeps
 * most in registers; the VM's tile is loaded and stored once for each operand, and a run is set up. Threads have nothing to share. */
static int fg_flat_fits(const FgVmPlan *p) {
    int64_t units = p->n, operands = p->n_in + p->n_out;                /* of four bytes */
    for (int k = 0; k < p->n_ops; k++) if (p->n * fg_itemsize(p->ops[k].type) / 4 > units) units = p->n * fg_itemsize(p->ops[k].type) / 4;
    for (int i = 0; i < p->n_in; i++) if (p->n * p->in[i].size / 4 > units) units = p->n * p->in[i].size / 4;
    if (p->n < FG_FLAT_ELEMENTS) return 1;
    if (p->n > FG_FLAT_ELEMENTS && (4 * units > FG_FLAT_LONG || p->units >= 2 * p->grain)) return 0;
    return 0.03 * p->n_ops * units <= 60 + operands * (8 + 0.02 * units);
}

/* The place of an earlier operation's result that nobody reads any more, for that of operation k, where each goes over all of the group; or NULL.
 * made: the places that operations got, until[r]: the last one that reads register r. */
static char *fg_flat_again(const FgVmPlan *p, int k, const int *types, const int *until, char **made) {
    int64_t size = fg_itemsize(types[p->ops[k].dst]);
    for (int j = 0; j < k && p->n * size > FG_FLAT_VECTORS; j++) {
        if (!made[j] || until[p->ops[j].dst] >= k || fg_itemsize(types[p->ops[j].dst]) != size) continue;
        char *at = made[j];
        made[j] = NULL;
        return at;
    }
    return NULL;
}

/* 1 if operand i, of one or two bytes an element, is collected by permutations of vectors. */
static int fg_flat_permuted(FgFlat *f, const FgVmPlan *p, int i, const char *a) {
    if (p->in[i].size > 2 || !f->machine || !FG_FLAT_COLLECTS_BYTES || p->n * p->in[i].size > FG_FLAT_LONG) return 0;
    int64_t used = f->used;
    int made;
    int32_t *places = (int32_t *)fg_flat_places(f, p, p->in[i].strides);
    made = !f->failed && fg_flat_by_pieces(f, a, places, p->n, p->in[i].size);
    fg_flat_give_back(f, used);
    return made;
}

/* 1 unless a group's operands are to be collected or its results scattered number by number, and those are many. */
static int fg_flat_short(FgFlat *f, const FgVmPlan *p, const FgInst *inst, FgTensor *slots) {
    int64_t n = p->n;
    if (n <= FG_FLAT_FEW) return 1;
    for (int i = 0; i < p->n_in; i++) {
        int size = p->in[i].size;
        int spread = size == 4 || size == 8 || (size < 8 && fg_flat_one(p, p->in[i].strides));
        if (p->in[i].access != FG_ACC_FULL && !fg_flat_is_one(p, i) && (!spread || n * size > FG_FLAT_VECTORS) && !(FG_FLAT_PERMUTES_BYTES && fg_flat_permuted(f, p, i, FG_IN(inst, slots, i)->data))) return 0;
    }
    for (int o = 0; o < p->n_out; o++) if (!p->out[o].reduce && p->out[o].access != FG_ACC_FULL) return 0;
    return 1;
}

/* 1 if output o is made when input i has been read for the last time, in the order of the ops: the stages of a strip have another (write_time). */
static int fg_flat_made_behind(const FgVmPlan *p, int o, int i) {
    int made = -1, read = -1;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity;
        if (op->a == i || (arity > 1 && op->b == i) || (arity > 2 && op->c == i)) read = k;
        if (op->dst == p->out[o].reg && made < 0) made = k;
    }
    for (int k = 0; k < p->n_out; k++) if (p->out[k].reg == i || p->out[k].reg2 == i) read = p->n_ops;
    return made >= read;
}

/* The op that makes output o of single numbers over an input that others read later, where it can wait until they have; else -1. */
static int fg_flat_may_wait(const FgVmPlan *p, const FgInst *inst, FgTensor *slots, int o) {
    int made = -1, reg = p->out[o].reg;
    char *at = FG_OUT(inst, slots, o)->data;
    if (p->n != 1 || p->out[o].reduce || p->out[o].size > 8 || fg_flat_reads(p, reg, 0) != 1) return -1;     /* the output itself */
    for (int i = 0; i < p->n_in; i++)
        if (FG_IN(inst, slots, i)->data != at && fg_flat_overlap(FG_IN(inst, slots, i), FG_OUT(inst, slots, o))) return -1;
    for (int k = 0; k < p->n_out; k++)          /* nothing that is written behind the ops reads what is there */
        if ((k != o && fg_flat_overlap(FG_OUT(inst, slots, k), FG_OUT(inst, slots, o))) || p->out[k].reg < p->n_in || p->out[k].reduce) return -1;
    for (int k = 0; k < p->n_ops; k++) if (p->ops[k].dst == reg) made = made < 0 ? k : p->n_ops;
    if (made < 0 || made >= p->n_ops) return -1;
    const FgVmOp *op = &p->ops[made];
    int arity = fg_vm_info[op->op].arity, from[3] = {op->a, op->b, op->c};
    for (int i = 0; i < arity; i++) {           /* what it reads is still there then */
        for (int k = made + 1; k < p->n_ops; k++) if (p->ops[k].dst == from[i]) return -1;
        for (int k = 0; k < p->n_out && from[i] < p->n_in; k++)
            if (k != o && fg_flat_overlap(FG_IN(inst, slots, from[i]), FG_OUT(inst, slots, k))) return -1;
    }
    return made;
}

/* 1 if input i, less than a vector that begins anywhere in the code's memory (a slice), goes to a vector of its own, for operations that
 * are inline then: functions would take it by a mask, which waits for the store before. */
static int fg_flat_shifted(const FgFlat *f, const FgVmPlan *p, int i, const char *a) {
    int t = p->in[i].type, kind = t == FG_F32 ? FG_C64 : t == FG_F64 ? FG_C128 : -1, forms;
    int64_t bytes = p->n * p->in[i].size;
    if (kind < 0 && f->machine && FG_FLAT_PERMUTES_BYTES && p->in[i].size <= 2 && bytes < 64 && ((a - f->memory) & 63) && a >= f->memory && a + 128 <= f->memory + FG_FLAT_MEMORY) {
        for (int k = 0; k < p->n_ops; k++) {
            const FgVmOp *op = &p->ops[k];
            int arity = fg_vm_info[op->op].arity, reads = op->a == i || (arity > 1 && op->b == i) || (arity > 2 && op->c == i);
            if (reads && fg_flat_tiny_code(op->op, op->type) < 0) return 0;
        }
        return p->n > 1;
    }
    if (kind < 0 || !FG_FLAT_PERMUTES || bytes >= 64 || fg_flat_padded(f, a)) return 0;
    if (a < f->memory || a + bytes > f->memory + FG_FLAT_MEMORY) return 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity, chain = op->op == FG_OP_add || op->op == FG_OP_sub || op->op == FG_OP_mul;
        if (op->a != i && (arity < 2 || op->b != i) && (arity < 3 || op->c != i)) continue;
        if (op->type != t || (!chain && op->op != FG_OP_select && fg_flat_inline(op->op, kind, &forms) < 0)) return 0;
    }
    return 1;
}

/* 1 for a group whose operations know nothing but elements and their reductions; gaps: nor what lies behind rows of an output. */
static int fg_flat_plain(const FgVmPlan *p, int gaps) {
    if (p->n < 1 || p->n_tables || (p->mode != FG_MODE_FLAT && p->mode != FG_MODE_SEGMENT) || p->folds || p->n_boxes || (p->cols && !gaps)) return 0;
    for (int i = 0; i < p->n_in; i++)       /* loops that take one number of a row know the rows of tiles only */
        if ((p->in[i].dtype != p->in[i].type && !fg_flat_is_half(p->in[i].dtype)) || p->in[i].access == FG_ACC_ROW) return 0;
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        int terms = out->reduce && out->term == 2 && out->type == FG_F32;
        if (out->dtype != out->type && !fg_flat_is_half(out->dtype)) return 0;
        if (terms ? !fg_flat_short_rows(p, out) : out->reg2 >= 0 && out->term != fg_itemsize(out->type)) return 0;
    }
    return 1;
}

/* 1 if an output may be written while the group runs: over an input that is read later it is written when all has been read. */
static int fg_flat_apart(const FgVmPlan *p, const FgInst *inst, FgTensor *slots, int o) {
    const FgTensor *out = FG_OUT(inst, slots, o);
    for (int i = 0; i < p->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        int behind = x->data == out->data && p->in[i].size == p->out[o].size && (p->n == 1 || (p->in[i].access == FG_ACC_FULL && p->out[o].access == FG_ACC_FULL)) &&
                     !p->out[o].reduce && fg_flat_made_behind(p, o, i);
        if (!behind && fg_flat_overlap(x, out)) return 0;
    }
    return 1;
}

/* What is left when the operations of a group are done: reductions, those over an input to a place of their own, and results that had to wait.
 * early: where results already are, or NULL. */
static void fg_flat_results(FgFlat *f, const FgVmPlan *p, const FgInst *inst, FgTensor *slots, char **reg, char **early) {
    for (int o = 0; o < p->n_out; o++) {        /* reductions; those over an input go to a place of their own */
        const FgVmOutput *out = &p->out[o];
        if (!out->reduce) continue;
        const int type = fg_flat_wide_type(out->type);
        const int64_t size = fg_itemsize(type);                 /* before it is rounded to 16 bits */
        char *d = early[o] ? early[o] : fg_flat_room(f, out->count, size), *src = reg[out->reg];
        if (out->reg2 >= 0) {                   /* a sum of products: they get a place here */
            src = fg_flat_room(f, p->n, size);
            void *mul = (void *)fg_vm_table[FG_OP_mul][type];
            fg_flat_arith(f, FG_OP_mul, type, type, p->n, mul, src, reg[out->reg], reg[out->reg2], reg[out->reg2]);
        }
        if (p->n == 1) fg_flat_copy(f, d, src, size);
        else {
            int halves = out->term == 2 && type == FG_F32, few = out->reduce == FG_RED_SUM && type == FG_F32 && (out->term == 4 || halves) && p->n_red == p->n && p->n < 16;     /* then the VM adds one by one */
            FgVmSeg seg = out->reg2 < 0 && !halves ? out->seg : fg_vm_seg[out->reduce][type];     /* seg: may compute its terms (vm_terms.h) */
            early[o] = d;
            if (fg_flat_reduction(f, out, seg, d, src, p->n / (p->n_red * p->n_inner), p->n_red, p->n_inner)) continue;
            FgFlatOp *s = fg_flat_op(f, few ? FLAT_sum_f32 : FLAT_seg, d, src, 0, 0, p->n / (p->n_red * p->n_inner), (void *)seg);
            s->k = p->n_red; s->m = p->n_inner; s->g = (const char *)(intptr_t)size;
        }
        early[o] = d;
    }
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        char *d = FG_OUT(inst, slots, o)->data, *from = out->reduce ? early[o] : reg[out->reg];
        int64_t n = out->reduce ? out->count : p->n;
        if (fg_flat_is_half(out->dtype) && fg_flat_computes(p)) {
            int whole = out->reduce || out->access == FG_ACC_FULL || p->n == 1;
            char *to = whole ? d : fg_flat_room(f, n, 2);
            fg_flat_narrow_to(f, out->dtype, n, to, from);
            if (!whole) fg_flat_op(f, FLAT_scatter, d, to, fg_flat_places(f, p, out->strides), 0, n, 0)->m = 2;
        } else if (out->reduce) fg_flat_copy(f, d, early[o], out->count * out->size);
        else if (out->access == FG_ACC_FULL || p->n == 1) fg_flat_copy(f, d, reg[out->reg], p->n * out->size);
        else fg_flat_op(f, FLAT_scatter, d, reg[out->reg], fg_flat_places(f, p, out->strides), 0, p->n, 0)->m = out->size;
    }
}

/* 1 for a function of a float32 that takes no longer for eight numbers than for one (sin and cos of one are shorter than a vector's). */
static int fg_flat_joins(const FgVmOp *op) { return op->type == FG_F32 && fg_vm_info[op->op].arity == 1 && fg_flat_fills(op->op); }

/* The order of a group's operations: `last`, if it is not -1, behind all others; and over one number, functions of one kind of which none waits
 * for another side by side, where there are three, which pay for a vector. together: how many from there on. level: n_regs + n_ops zeros. */
static void fg_flat_order(const FgVmPlan *p, int last, int *order, int *together, int *level) {
    int *of = level + p->n_regs, most = 0, found = 0, at = 0;       /* of: how many functions an operation waits for, one behind another */
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        together[k] = 1;
        of[k] = level[op->a] > level[op->b] ? level[op->a] : level[op->b];
        if (level[op->c] > of[k]) of[k] = level[op->c];
        int joins = p->n == 1 && k != last && fg_flat_joins(op), like = 0;
        level[op->dst] = of[k] + joins;
        if (of[k] > most) most = of[k];
        for (int m = 0; m < k && joins; m++) like += m != last && of[m] == of[k] && p->ops[m].op == op->op && fg_flat_joins(&p->ops[m]);
        found |= like >= 2;
    }
    if (!found) for (int k = 0; k < p->n_ops; k++) if (k != last) order[at++] = k;
    for (int l = 0; l <= most && found; l++) {
        for (int k = 0; k < p->n_ops; k++) if (of[k] == l && k != last && !fg_flat_joins(&p->ops[k])) order[at++] = k;
        for (int k = 0; k < p->n_ops; k++) {
            int first = at, seen = 0;
            if (of[k] != l || k == last || !fg_flat_joins(&p->ops[k])) continue;
            for (int m = 0; m < p->n_ops; m++) {
                if (of[m] != l || m == last || p->ops[m].op != p->ops[k].op || !fg_flat_joins(&p->ops[m])) continue;
                if (m < k) { seen = 1; break; }
                order[at++] = m;
            }
            if (!seen) together[first] = at - first;
        }
    }
    if (last >= 0) order[at] = last;
}

/* A function of `count` numbers, the operands of the operations at `order`, by vectors. made: results that may lie anywhere. */
static void fg_flat_join(FgFlat *f, const FgVmPlan *p, const int *order, int count, char **reg, char **made) {
    const int64_t n = (count + 7) / 8 * 8;
    char *from = fg_flat_room(f, n, 4), *to = fg_flat_room(f, n, 4);
    if (f->failed) return;
    for (int64_t i = 0; i < n; i++) ((float *)from)[i] = 1;
    for (int i = 0; i < count; i++) fg_flat_copy(f, from + 4 * i, reg[p->ops[order[i]].a], 4);
    fg_flat_op(f, FLAT_fn, to, from, from, from, n, (void *)p->ops[order[0]].fn)->g = (const char *)(intptr_t)4;
    for (int i = 0; i < count; i++) {
        char **d = &reg[p->ops[order[i]].dst];
        if (made[order[i]]) *d = to + 4 * i;
        else fg_flat_copy(f, *d, to + 4 * i, 4);
    }
}

/* A fused group, op by op; 0 if it is not of the kind that can be unpacked. */
static int fg_flat_group(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    const FgVmPlan *p = (const FgVmPlan *)inst->extra;
    if (!fg_flat_plain(p, 0) || !fg_flat_few_halves(f, p) || !fg_flat_fits(p) || !fg_flat_short(f, p, inst, slots)) return 0;
    char **reg = (char **)calloc(2 * p->n_regs + p->n_out + p->n_ops + 1, sizeof(char *)), **mask = reg + p->n_regs, **early = mask + p->n_regs;
    char **made = early + p->n_out;
    int last = -1, wide = fg_flat_computes(p);                      /* last: the op that is done behind all others */
    int *types = (int *)calloc(3 * p->n_regs + 3 * p->n_ops + 1, sizeof(int)), *until = types + p->n_regs, *order = until + p->n_regs;
    int *together = order + p->n_ops;
    if (!reg || !types) { free(reg); free(types); f->failed = 1; return 1; }
    for (int i = 0; i < p->n_in; i++) types[i] = wide ? fg_flat_wide_type(p->in[i].type) : p->in[i].type;
    for (int k = 0; k < p->n_const; k++) types[p->consts[k].reg] = p->consts[k].type;
    for (int o = 0; o < p->n_out; o++) {
        if (fg_flat_is_half(p->out[o].dtype)) continue;     /* written when all has been computed */
        if (fg_flat_apart(p, inst, slots, o)) early[o] = FG_OUT(inst, slots, o)->data;
        else if (last < 0 && (last = fg_flat_may_wait(p, inst, slots, o)) >= 0) early[o] = FG_OUT(inst, slots, o)->data;
    }
    for (int i = 0; i < p->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        reg[i] = x->data;
        if (fg_flat_is_half(p->in[i].dtype) && wide) { reg[i] = fg_flat_as_floats(f, p, i, x->data); continue; }
        if (p->n == 1 || (p->in[i].access == FG_ACC_FULL && !fg_flat_shifted(f, p, i, x->data))) continue;
        if (fg_flat_is_one(p, i)) continue;
        if (p->in[i].type == FG_BOOL && fg_flat_one(p, p->in[i].strides)) {
            mask[i] = x->data;
            reg[i] = NULL;
            if (!fg_flat_reads(p, i, 1)) continue;          /* spread where a selection needs that */
        }
        reg[i] = fg_flat_spread(f, p, i, x->data);
    }
    for (int k = 0; k < p->n_const; k++) {
        int size = (int)fg_itemsize(p->consts[k].type);
        int64_t n = fg_flat_is_one(p, p->consts[k].reg) ? 1 : p->n;
        reg[p->consts[k].reg] = fg_flat_room(f, n, size);
        if (!f->failed) fg_vm_fill(reg[p->consts[k].reg], p->consts[k].bits, size, n);
    }
    for (int k = 0; k < p->n_ops; k++) until[p->ops[k].a] = until[p->ops[k].b] = until[p->ops[k].c] = k;
    for (int o = 0; o < p->n_out; o++) {
        until[p->out[o].reg] = p->n_ops;
        if (p->out[o].reg2 >= 0) until[p->out[o].reg2] = p->n_ops;
    }
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        types[op->dst] = fg_vm_result_type(op->op, fg_flat_wide_type(op->type));
        for (int o = 0; o < p->n_out && !reg[op->dst]; o++)
            if (p->out[o].reg == op->dst && !p->out[o].reduce && p->out[o].access == FG_ACC_FULL) reg[op->dst] = early[o];
        if (reg[op->dst]) continue;
        reg[op->dst] = made[k] = fg_flat_again(p, k, types, until, made);
        if (!made[k]) reg[op->dst] = made[k] = fg_flat_room_between(f, p->n, fg_itemsize(types[op->dst]));
    }
    fg_flat_order(p, last, order, together, together + p->n_ops);
    int64_t block = fg_flat_block(f, p, reg, (const char *const *)mask, types);
    for (int64_t i = 0; i < p->n; i += block) {
        int64_t n = p->n - i < block ? p->n - i : block, at = i * (64 / block);
        for (int j = 0; j < p->n_ops; j++) {
            int k = order[j];
            const FgVmOp *op = &p->ops[k];
            if (together[j] > 2) {
                fg_flat_join(f, p, order + j, together[j], reg, made);
                j += together[j] - 1;
                continue;
            }
            const char *of[3] = {reg[op->a] + at, reg[op->b] + at, reg[op->c] + at};
            if (op->op == FG_OP_select && mask[op->a]) {
                if (fg_flat_choose(f, op->type, n, reg[op->dst] + at, mask[op->a], of[1], of[2])) continue;
                if (!reg[op->a]) reg[op->a] = fg_flat_spread(f, p, op->a, mask[op->a]);
                of[0] = reg[op->a] + at;
            }
            int once = op->a >= p->n_in && fg_flat_reads(p, op->a, 0) == 1;
            if (op->op == FG_OP_select && fg_flat_where(f, op->type, n, reg[op->dst] + at, of, once)) continue;
            int one = fg_flat_is_one(p, op->a) ? op->a : fg_flat_is_one(p, op->b) ? op->b : -1;
            FgVmFn fn = fg_flat_is_half(op->type) ? fg_vm_table[op->op][FG_F32] : one < 0 ? op->fn : fg_flat_fn_of_one(op, one);
            fg_flat_arith(f, op->op, types[op->a], fg_flat_wide_type(op->type), n, (void *)fn, reg[op->dst] + at, of[0], of[1], of[2]);
            int shift = op->op == FG_OP_xor && j && last < 0 && order[j - 1] == k - 1 ? p->ops[k - 1].dst : -1;
            if (shift >= 0 && (shift == op->a || shift == op->b) && fg_flat_reads(p, shift, 0) == 1) fg_flat_xorshift(f);
        }
    }
    fg_flat_results(f, p, inst, slots, reg, early);
    free(types);
    free(reg);
    return 1;
}
#endif
