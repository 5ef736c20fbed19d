/* Flat code of a fused group of several vectors, for machine code: one vector after the other goes through all operations, so that what lies between them
 * stays in registers, and numbers that all elements share are one vector. The interpreter would pay each operation on each vector as one more op. */
#ifndef FG_FLAT_BLOCKS_H
#define FG_FLAT_BLOCKS_H
#include "flat_group.h"

enum { FG_BLOCK_OPS = 1024 };
/* Where the values of a register of the group are: `step` bytes further for the next vector. */
typedef struct { char *at; int step; } FgFlatBlock;

/* 1 if vectors of type t are all that the operations of a group know. */
static int fg_flat_of_vectors(const FgVmPlan *p, int t) {
    const int item = t < 0 ? 0 : (int)fg_itemsize(t), kind = t == FG_F32 ? FG_C64 : t == FG_F64 ? FG_C128 : t == FG_I32 || t == FG_U32 ? FG_FLAT_INTS : -1;
    int forms;
    if (fg_flat_narrow(t) || t == FG_BOOL) {        /* bytes of all kinds, or one type of two bytes and bools */
        int *types = (int *)calloc(p->n_regs + 1, sizeof(int)), ok = types != NULL;
        for (int i = 0; i < p->n_in && ok; i++) types[i] = p->in[i].type;
        for (int k = 0; k < p->n_const && ok; k++) types[p->consts[k].reg] = p->consts[k].type;
        for (int k = 0; k < p->n_ops && ok; k++) {
            const FgVmOp *op = &p->ops[k];
            int own = op->type, from = types[op->a];
            types[op->dst] = fg_vm_result_type(op->op, own);
            ok = item == 1 ? fg_itemsize(own) == 1 : own == t || own == FG_BOOL;
            if (op->op == FG_OP_cast) ok &= item == 1 ? fg_itemsize(from) == 1 && fg_flat_narrow(own) : from == t;
            else ok &= fg_flat_tiny_code(op->op, own) >= 0 && (FG_MACHINE_CODE != 1 || (op->op != FG_OP_shl && op->op != FG_OP_shr_logical && op->op != FG_OP_shr_arith));     /* which AVX2 lacks */
        }
        free(types);
        return ok;
    }
    if (kind < 0) return 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int result = fg_vm_result_type(op->op, op->type), chain = op->op == FG_OP_add || op->op == FG_OP_sub || op->op == FG_OP_mul;
        if (op->type == FG_BOOL) { if (fg_flat_inline(op->op, FG_F16, &forms) < 0) return 0; continue; }
        if (op->type != t || (result != t && result != FG_BOOL)) return 0;
        if (op->op == FG_OP_select) continue;
        if ((kind == FG_FLAT_INTS && !fg_flat_ints(op->op, t)) || (!(chain && kind != FG_FLAT_INTS) && fg_flat_inline(op->op, kind, &forms) < 0)) return 0;
    }
    return 1;
}

/* Where an operand's elements are that lie in one piece in the code's memory, to which a constant is copied; NULL if they are elsewhere. */
static char *fg_flat_row(FgFlat *f, const FgState *st, int slot, int64_t bytes) {
    const FgTensor *x = &st->slots[slot];
    int base = st->prog->slot_base[slot];
    if (x->data >= f->memory && x->data + bytes <= f->memory + FG_FLAT_MEMORY) return x->data;
    if (base <= st->prog->n_args || base > st->prog->n_args + st->prog->n_consts || !fg_is_contiguous(x)) return NULL;
    char *room = fg_flat_room(f, bytes, 1);
    if (!f->failed) memcpy(room, x->data, fg_slot_bytes(x));
    return f->failed ? NULL : room;
}

/* Results of a walk whose rows go on over a gap of an output, without what was computed there; reg: where each is, or NULL to ask only whether that can be.
 * If there is no room for pieces any more when it comes to it, results are collected item by item. */
static int fg_flat_without_gaps(FgFlat *f, const FgVmPlan *p, const FgInst *inst, FgTensor *slots, char **reg) {
    const int64_t wide = p->ndim ? p->shape[p->ndim - 1] : 1, n = FG_OUT(inst, slots, 0)->size;
    const int64_t used = f->used;
    int ok = n > 0 && n % p->cols == 0 && (n / p->cols - 1) * wide + p->cols <= p->n;
    int32_t *places = (int32_t *)fg_flat_room(f, n, 4);
    for (int64_t i = 0; i < n && ok && !f->failed; i++) places[i] = (int32_t)(i / p->cols * wide + i % p->cols);
    for (int o = 0; o < p->n_out && ok && !f->failed; o++) {
        const FgTensor *out = FG_OUT(inst, slots, o);
        ok = !p->out[o].reduce && out->size == n && fg_is_contiguous(out) && (reg || fg_flat_by_pieces(f, f->memory, places, n, p->out[o].size));
        for (int64_t i = 0; i < n * p->out[o].size && ok; i += 64) ok = fg_flat_padded(f, out->data + i);
        if (ok && reg) fg_flat_collect(f, out->data, reg[p->out[o].reg], places, n, p->out[o].size);
    }
    if (!reg) fg_flat_give_back(f, used);
    return ok;
}

/* A fused group vector by vector; 0 if it is not of the kind. */
static int fg_flat_blocks(FgFlat *f, const FgState *st, const FgInst *inst) {
    const FgVmPlan *p = (const FgVmPlan *)inst->extra;
    FgTensor *slots = st->slots;
    const int t = p->n_ops ? p->out[0].type : -1, made = p->n_in + p->n_const;
    const int64_t item = t < 0 ? 1 : fg_itemsize(t), per = 64 / item, blocks = (p->n + per - 1) / per;
    if (!f->machine || !fg_flat_few_halves(f, p) || !fg_flat_plain(p, FG_FLAT_COLLECTS_BYTES && item <= 2) || !p->n_ops || blocks < 2 || p->n * item > fg_flat_most(f) || blocks * p->n_ops > FG_BLOCK_OPS || !fg_flat_of_vectors(p, t)) return 0;
    if (f->n_ops + blocks * p->n_ops > FG_FLAT_CODE / 2) return 0;
    const int bytes = item == 1 && t >= 0;
    for (int i = 0; i < p->n_in; i++) {
        int one = fg_flat_one(p, p->in[i].strides);
        if (!one && item <= 2 && p->in[i].access != FG_ACC_FULL && (bytes ? p->in[i].size == 1 : p->in[i].type == t) && fg_flat_permuted(f, p, i, FG_IN(inst, slots, i)->data)) continue;
        if (bytes && p->in[i].size == 1 && (one || p->in[i].access == FG_ACC_FULL)) continue;
        if ((p->in[i].type != t && !(p->in[i].type == FG_BOOL && one && fg_flat_reads(p, i, 1) == 0)) || (!one && p->in[i].access != FG_ACC_FULL)) return 0;
    }
    for (int k = 0; k < p->n_const; k++) if (p->consts[k].type != t && !(bytes && fg_itemsize(p->consts[k].type) == 1)) return 0;
    for (int o = 0; o < p->n_out; o++)      /* a sum's terms are bytes where bools are counted, and those lie together */
        if ((p->out[o].type != t && !(bytes && fg_itemsize(p->out[o].type) == 1)) || p->out[o].term != item || p->out[o].reg < made || (p->out[o].reg2 >= 0 && p->out[o].reg2 < made)) return 0;
    if (p->cols && !fg_flat_without_gaps(f, p, inst, slots, NULL)) return 0;
    FgFlatBlock *reg = (FgFlatBlock *)calloc(p->n_regs + 1, sizeof(FgFlatBlock));
    char **early = (char **)calloc(2 * p->n_out + p->n_regs + p->n_in + 1, sizeof(char *)), **whole = early + p->n_out, **halves = whole + p->n_out + p->n_regs;
    int done = 0;
    if (!reg || !early) { f->failed = 1; goto out; }
    for (int i = 0; i < p->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        reg[i] = (FgFlatBlock){x->data, 64};
        halves[i] = p->in[i].dtype != p->in[i].type ? x->data : NULL;
        if (halves[i] && fg_flat_one(p, p->in[i].strides)) {
            reg[i] = (FgFlatBlock){fg_flat_room(f, 64, 1), 0};
            fg_flat_op(f, FLAT_splat4, reg[i].at, fg_flat_widened_at(f, p->in[i].dtype, 1, x->data), 0, 0, 0, 0);
            halves[i] = NULL;
        } else if (halves[i]) {
            reg[i] = (FgFlatBlock){fg_flat_room(f, 64, 1), 0};
            if (!(halves[i] = fg_flat_row(f, st, inst->args[i], (blocks + 1) / 2 * 64))) goto out;
        } else if (!fg_flat_one(p, p->in[i].strides)) {
            if (p->in[i].access != FG_ACC_FULL) reg[i].at = fg_flat_spread(f, p, i, x->data);
            else if (!(reg[i].at = fg_flat_row(f, st, inst->args[i], blocks * 64))) goto out;
        } else if (p->in[i].type == FG_BOOL && fg_flat_reads(p, i, 1) == 0) reg[i].step = 0;
        else {
            reg[i] = (FgFlatBlock){fg_flat_room(f, 64, 1), 0};
            fg_flat_op(f, item == 1 ? FLAT_splat1 : item == 2 ? FLAT_splat2 : item == 4 ? FLAT_splat4 : FLAT_splat8, reg[i].at, x->data, 0, 0, 0, 0);
        }
    }
    for (int k = 0; k < p->n_const; k++) {
        reg[p->consts[k].reg] = (FgFlatBlock){fg_flat_room(f, 64, 1), 0};
        if (!f->failed) fg_vm_fill(reg[p->consts[k].reg].at, p->consts[k].bits, (int)item, per);
    }
    for (int o = 0; o < p->n_out; o++) {
        const FgTensor *out = FG_OUT(inst, slots, o);
        FgFlatBlock *b = &reg[p->out[o].reg];
        int apart = fg_flat_apart(p, inst, slots, o) && p->out[o].dtype == p->out[o].type && !p->out[o].reduce && p->out[o].access == FG_ACC_FULL && !p->cols && !b->at;
        for (int64_t i = 0; i < blocks && apart; i++) apart = fg_flat_padded(f, out->data + 64 * i);
        for (int k = 0; k < 2; k++) {
            int r = k ? p->out[o].reg2 : p->out[o].reg;
            if (r >= 0 && !reg[r].at) reg[r] = (FgFlatBlock){apart && !k ? out->data : fg_flat_room(f, blocks * 64, 1), 64};
        }
    }
    for (int k = 0; k < p->n_ops; k++) if (!reg[p->ops[k].dst].at) reg[p->ops[k].dst] = (FgFlatBlock){fg_flat_room_between(f, 64, 1), 0};
    done = 1;
    for (int64_t i = 0; i < blocks && !f->failed; i++) {
        const int64_t n = p->n - i * per < per ? p->n - i * per : per;
        for (int k = 0; k < p->n_in; k++) if (halves[k]) fg_flat_widen(f, p->in[k].dtype, 16, reg[k].at, halves[k] + 32 * i);
        for (int k = 0; k < p->n_ops; k++) {
            const FgVmOp *op = &p->ops[k];
            const int from[3] = {op->a, op->b, op->c}, arity = fg_vm_info[op->op].arity;
            char *d = reg[op->dst].at + i * reg[op->dst].step;
            const char *of[3];
            for (int j = 0; j < 3; j++) of[j] = reg[from[j < arity ? j : 0]].at + i * reg[from[j < arity ? j : 0]].step;
            if (op->op == FG_OP_select && op->a < p->n_in && fg_flat_one(p, p->in[op->a].strides) && fg_flat_reads(p, op->a, 1) == 0) {
                fg_flat_op(f, FLAT_choose, d, of[0], of[1], of[2], 0, 0);
                continue;
            }
            int once = op->a >= made && fg_flat_reads(p, op->a, 0) == 1;
            if (op->op == FG_OP_select && fg_flat_where(f, op->type, n, d, of, once)) continue;
            fg_flat_arith(f, op->op, op->type, op->type, n, (void *)op->fn, d, of[0], of[1], of[2]);
        }
    }
    for (int r = 0; r < p->n_regs; r++) whole[r] = reg[r].at;
    if (p->cols) fg_flat_without_gaps(f, p, inst, slots, whole); else fg_flat_results(f, p, inst, slots, whole, early);
out:
    free(reg);
    free(early);
    return done;
}
#endif
