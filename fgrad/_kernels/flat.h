/* Flat code: a loop whose values are small becomes one list of ops over fixed addresses, with jumps for the loops and branches
 * inside of it.  An iteration then costs nanoseconds an op, not the set-up of an instruction each.
 *
 * The code is made at a state's first run of the loop, from the instructions of its sub-programs: their slots get fixed addresses,
 * fused groups are unpacked into one op for each operation (the same functions as the VM calls, or the same expression inline), and
 * other kernels are called as they are.  What cannot be flat (callbacks, large values) leaves the loop to the ordinary path. */
#ifndef FG_FLAT_H
#define FG_FLAT_H
#include "flat_ops.h"

enum { FG_FLAT_ELEMENTS = 64, FG_FLAT_KERNEL = 4096, FG_FLAT_BYTES = 4096, FG_FLAT_CARRY = 512, FG_FLAT_CODE = 4096, FG_FLAT_MEMORY = 1 << 16 };

static FgRun fg_flat_vm, fg_flat_copies, fg_flat_concatenate;       /* kernels that need no call */
static FgFlat fg_flat_none;      /* of loops that cannot be flat */

static char *fg_flat_room(FgFlat *f, int64_t bytes) {
    int64_t size = bytes <= 8 ? 8 : (bytes + 63) / 64 * 64, at = bytes <= 8 ? f->used : (f->used + 63) / 64 * 64;
    if (bytes <= 8 && at % 64 == 0) at += 8;        /* the places at multiples of 64 are the padded ones */
    if (at + size > FG_FLAT_MEMORY) { f->failed = 1; return f->memory; }
    f->used = at + size;
    return f->memory + at;
}

static FgFlatOp *fg_flat_op(FgFlat *f, int op, char *d, const char *a, const char *b, const char *c, int64_t n, void *fn) {
    if (f->n_ops == f->cap) {
        int cap = f->cap ? 2 * f->cap : 64;
        FgFlatOp *more = cap > FG_FLAT_CODE ? NULL : (FgFlatOp *)realloc(f->ops, cap * sizeof(FgFlatOp));
        if (!more) { f->failed = 1; f->n_ops = 0; if (!f->cap) { static FgFlatOp lost[2]; return lost; } }
        else { f->ops = more; f->cap = cap; }
    }
    FgFlatOp *o = &f->ops[f->n_ops++];
    o->label = (const void *)(intptr_t)op; o->d = d; o->a = a; o->b = b; o->c = c; o->n = n; o->fn = fn;
    return o;
}

/* True for a place of more than 8 bytes in the code's own memory: up to 64 bytes of it may be read and written. */
static int fg_flat_padded(const FgFlat *f, const char *p) {
    return p >= f->memory && p < f->memory + FG_FLAT_MEMORY && ((p - f->memory) & 63) == 0;
}

static void fg_flat_copy(FgFlat *f, char *d, const char *a, int64_t bytes) {
    int padded = bytes <= 64 && fg_flat_padded(f, d) && fg_flat_padded(f, a);
    if (d == a || bytes == 0) return;
    fg_flat_op(f, bytes == 4 ? FLAT_copy4 : bytes == 8 ? FLAT_copy8 : bytes == 1 ? FLAT_copy1 : padded ? FLAT_copy64 :
               bytes >= 32 && bytes <= 64 ? FLAT_copy32 : bytes >= 16 && bytes <= 32 ? FLAT_copy16 : FLAT_copy, d, a, 0, 0, bytes, 0);
}

static inline int64_t fg_slot_bytes(const FgTensor *t) { return t->size * fg_itemsize(t->dtype); }

/* Where the n elements of an operand's walk are. */
static char *fg_flat_places(FgFlat *f, const FgVmPlan *p, const int64_t *strides) {
    int32_t *at = (int32_t *)fg_flat_room(f, p->n * 4);
    int64_t coord[FG_MAXDIM + 1] = {0};
    for (int64_t i = 0; i < p->n && !f->failed; i++) {
        fg_vm_coords(p->ndim, p->shape, i, coord);
        at[i] = (int32_t)fg_vm_offset(p->ndim, coord, strides);
    }
    return (char *)at;
}

/* ---- arithmetic */

/* The first number of an inline op of a kind (FG_F32, FG_F64, FG_I32: single numbers; FG_C64, FG_C128: vectors of floats, doubles), or -1;
 * *forms: 2 and 1 operands with forms for the last result, 0 without. */
static int fg_flat_inline(int op, int kind, int *forms) {
    enum { FG_FLAT_f32 = FG_F32, FG_FLAT_f64 = FG_F64, FG_FLAT_i32 = FG_I32, FG_FLAT_v32 = FG_C64, FG_FLAT_v64 = FG_C128 };
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t##_mm;
    *forms = 2;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t##_m;
    *forms = 1;
    FG_FLAT_UN(M)
    #undef M
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t;
    *forms = 0;
    FG_FLAT_COMPARE(M)
    #undef M
    return -1;
}

/* The register that an op leaves its result in, or -1. */
static int fg_flat_register(int op) {
    enum { FG_FLAT_accf, FG_FLAT_accd, FG_FLAT_acci, FG_FLAT_accv, FG_FLAT_accw };
    #define M(name, t, T, acc, ...) if (op >= FLAT_##name##_##t##_mm && op <= FLAT_##name##_##t##_ma) return FG_FLAT_##acc;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, T, acc, ...) if (op == FLAT_##name##_##t##_m || op == FLAT_##name##_##t##_a) return FG_FLAT_##acc;
    FG_FLAT_UN(M)
    #undef M
    #define M(first, second, t, T, acc, ...) \
        if (op >= FLAT_##first##_##second##_##t##_mm && op <= FLAT_##first##_##second##_##t##_ma_r) return FG_FLAT_##acc;
    FG_FLAT_PAIR(M)
    #undef M
    return -1;
}

/* The number of the pair of two ops, `second` given by its first number; -1 if they make none. */
static int fg_flat_pair(int first, int second) {
    #define M(one, two, t, ...) if (second == FLAT_##two##_##t##_mm && first >= FLAT_##one##_##t##_mm && first <= FLAT_##one##_##t##_ma) \
        return FLAT_##one##_##two##_##t##_mm + 2 * (first - FLAT_##one##_##t##_mm);
    FG_FLAT_PAIR(M)
    #undef M
    return -1;
}

/* A cast of one number that needs no call, or -1. */
static int fg_flat_cast(int from, int to) {
    #define M(s, S, t, T) if (from == FG_FLAT_CODE_##s && to == FG_FLAT_CODE_##t) return FLAT_cast_##s##_##t;
    enum { FG_FLAT_CODE_bool = FG_BOOL, FG_FLAT_CODE_i32 = FG_I32, FG_FLAT_CODE_f32 = FG_F32, FG_FLAT_CODE_f64 = FG_F64 };
    FG_FLAT_CAST(M)
    #undef M
    return -1;
}

static int fg_flat_kind(const FgFlat *f, int op, int t, int64_t n, const char *d, const char *const *args, int arity) {
    if (op == FG_OP_select) return -1;
    if (n == 1) return t == FG_U32 && (op == FG_OP_add || op == FG_OP_sub || op == FG_OP_mul) ? FG_I32 : t == FG_C64 || t == FG_C128 ? -1 : t;
    if ((t != FG_F32 && t != FG_F64) || n * fg_itemsize(t) > 64 || !fg_flat_padded(f, d)) return -1;
    for (int i = 0; i < arity; i++) if (!fg_flat_padded(f, args[i])) return -1;
    return t == FG_F32 ? FG_C64 : FG_C128;
}

/* One operation of a fused group. */
static void fg_flat_arith(FgFlat *f, int op, int from, int t, int64_t n, void *fn, char *d, const char *a, const char *b, const char *c) {
    const char *args[3] = {a, b, c};
    int forms = 0, code = fg_flat_inline(op, fg_flat_kind(f, op, t, n, d, args, fg_vm_info[op].arity), &forms);
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 4) code = FLAT_select_f32;
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 8) code = FLAT_select_f64;
    if (n == 1 && op == FG_OP_cast) code = fg_flat_cast(from, t);
    FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
    if (forms && last && fg_flat_register((int)(intptr_t)last->label) == fg_flat_register(code) && (last->d == a || (forms == 2 && last->d == b))) {
        int turned = last->d != a, pair = fg_flat_pair((int)(intptr_t)last->label, code);
        if (pair >= 0) {
            last->label = (const void *)(intptr_t)(pair + turned);
            last->e = last->d;
            last->d = d;
            last->c = turned ? a : b;
            return;
        }
        code += 1 + turned;
    }
    fg_flat_op(f, code < 0 ? FLAT_fn : code, d, a, b, c, n, fn);
}

/* ---- instructions */

static int fg_flat_overlap(const FgTensor *a, const FgTensor *b) {
    const char *lo[2], *hi[2];
    const FgTensor *t[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        int64_t down = 0, up = 0, item = fg_itemsize(t[k]->dtype);
        for (int d = 0; d < t[k]->ndim; d++) {
            int64_t reach = (t[k]->shape[d] - 1) * t[k]->strides[d];
            if (reach < 0) down += reach; else up += reach;
        }
        lo[k] = t[k]->data + down * item;
        hi[k] = t[k]->data + (up + 1) * item;
    }
    return lo[0] < hi[1] && lo[1] < hi[0];
}

/* A fused group, op by op; 0 if it is not of the kind that can be unpacked. */
static int fg_flat_group(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    const FgVmPlan *p = (const FgVmPlan *)inst->extra;
    if (p->n < 1 || p->n > FG_FLAT_ELEMENTS || (p->mode != FG_MODE_FLAT && p->mode != FG_MODE_SEGMENT) || p->folds) return 0;
    for (int i = 0; i < p->n_in; i++) if (p->in[i].dtype != p->in[i].type) return 0;
    for (int o = 0; o < p->n_out; o++) if (p->out[o].dtype != p->out[o].type) return 0;
    char **reg = (char **)calloc(p->n_regs + p->n_out + 1, sizeof(char *)), **early = reg + p->n_regs;
    int *types = (int *)calloc(p->n_regs + 1, sizeof(int));
    if (!reg || !types) { free(reg); free(types); f->failed = 1; return 1; }
    for (int i = 0; i < p->n_in; i++) types[i] = p->in[i].type;
    for (int k = 0; k < p->n_const; k++) types[p->consts[k].reg] = p->consts[k].type;
    for (int o = 0; o < p->n_out; o++) {        /* an output over an input that is read later is written when all has been read */
        const FgTensor *out = FG_OUT(inst, slots, o);
        int apart = 1;
        for (int i = 0; i < p->n_in; i++) {
            const FgTensor *x = FG_IN(inst, slots, i);
            int behind = x->data == out->data && (p->n == 1 || (p->in[i].access == FG_ACC_FULL && p->out[o].access == FG_ACC_FULL)) &&
                         !p->out[o].reduce && p->out[o].write_time >= p->in[i].last_use;
            apart &= behind || !fg_flat_overlap(x, out);
        }
        if (apart) early[o] = out->data;
    }
    for (int i = 0; i < p->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        reg[i] = x->data;
        if (p->in[i].access == FG_ACC_FULL || p->n == 1) continue;
        reg[i] = fg_flat_room(f, p->n * p->in[i].size);
        fg_flat_op(f, FLAT_gather, reg[i], x->data, fg_flat_places(f, p, p->in[i].strides), 0, p->n, 0)->m = p->in[i].size;
    }
    for (int k = 0; k < p->n_const; k++) {
        int size = (int)fg_itemsize(p->consts[k].type);
        reg[p->consts[k].reg] = fg_flat_room(f, p->n * size);
        if (!f->failed) fg_vm_fill(reg[p->consts[k].reg], p->consts[k].bits, size, p->n);
    }
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int type = fg_vm_result_type(op->op, op->type);
        for (int o = 0; o < p->n_out && !reg[op->dst]; o++)
            if (p->out[o].reg == op->dst && !p->out[o].reduce && p->out[o].access == FG_ACC_FULL) reg[op->dst] = early[o];
        if (!reg[op->dst]) reg[op->dst] = fg_flat_room(f, p->n * fg_itemsize(type));
        types[op->dst] = type;
        fg_flat_arith(f, op->op, types[op->a], op->type, p->n, (void *)op->fn, reg[op->dst], reg[op->a], reg[op->b], reg[op->c]);
    }
    for (int o = 0; o < p->n_out; o++) {        /* reductions; those over an input go to a place of their own */
        const FgVmOutput *out = &p->out[o];
        if (!out->reduce) continue;
        char *d = early[o] ? early[o] : fg_flat_room(f, out->count * out->size);
        if (p->n == 1) fg_flat_copy(f, d, reg[out->reg], out->size);
        else {
            int few = out->reduce == FG_RED_SUM && out->type == FG_F32 && p->n_red == p->n && p->n < 16;     /* then the VM adds one by one */
            FgFlatOp *s = fg_flat_op(f, few ? FLAT_sum_f32 : FLAT_seg, d, reg[out->reg], 0, 0, p->n / (p->n_red * p->n_inner), (void *)out->seg);
            s->k = p->n_red; s->m = p->n_inner;
        }
        early[o] = d;
    }
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        char *d = FG_OUT(inst, slots, o)->data;
        if (out->reduce) fg_flat_copy(f, d, early[o], out->count * out->size);
        else if (out->access == FG_ACC_FULL || p->n == 1) fg_flat_copy(f, d, reg[out->reg], p->n * out->size);
        else fg_flat_op(f, FLAT_scatter, d, reg[out->reg], fg_flat_places(f, p, out->strides), 0, p->n, 0)->m = out->size;
    }
    free(types);
    free(reg);
    return 1;
}

/* A copy of a few elements; 0 where it takes too many. */
static int fg_flat_move(FgFlat *f, const FgTensor *x, char *out) {
    FgVmPlan p = {.n = x->size, .ndim = x->ndim};
    if (x->size == 1 || fg_is_contiguous(x)) { fg_flat_copy(f, out, x->data, fg_slot_bytes(x)); return 1; }
    if (x->size > FG_FLAT_ELEMENTS) return 0;
    memcpy(p.shape, x->shape, sizeof p.shape);
    fg_flat_op(f, FLAT_gather, out, x->data, fg_flat_places(f, &p, x->strides), 0, x->size, 0)->m = fg_itemsize(x->dtype);
    return 1;
}

/* A copy, or a concatenation along the first axis that is not of extent 1; 0 for any other. */
static int fg_flat_movement(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    const FgTensor *out = FG_OUT(inst, slots, 0);
    char *at = out->data;
    int before = f->n_ops;
    if (!fg_is_contiguous(out)) return 0;
    for (int d = 0; inst->run == fg_flat_concatenate && d < inst->ip[0]; d++) if (out->shape[d] != 1) return 0;
    for (int i = 0; i < inst->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        if (x->data == at && fg_is_contiguous(x)) { at += fg_slot_bytes(x); continue; }
        if (fg_flat_overlap(x, out) || !fg_flat_move(f, x, at)) { f->n_ops = before; return 0; }
        at += fg_slot_bytes(x);
    }
    return 1;
}

static void fg_flat_program(FgFlat *f, FgState *st, char **args, char **outs);
static void fg_flat_scan(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);
static void fg_flat_while(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);
static void fg_flat_cond(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);

/* A sub-program's instructions; args and outs are where it takes and puts its values. */
static void fg_flat_program(FgFlat *f, FgState *st, char **args, char **outs) {
    FgProg *p = st->prog;
    for (int i = 0; i < p->n_args; i++) st->bases[1 + i] = args[i];
    for (int i = 0; i < p->n_outs; i++) st->bases[1 + p->n_args + p->n_consts + i] = outs[i];
    fg_bind_slots(st);
    for (int i = 0; i < p->n_inst && !f->failed; i++) {
        FgInst *inst = &p->insts[i];
        if (inst->kind == KIND_KERNEL) {
            if (inst->run == fg_flat_vm && fg_flat_group(f, inst, st->slots)) continue;
            if ((inst->run == fg_flat_copies || inst->run == fg_flat_concatenate) && fg_flat_movement(f, inst, st->slots)) continue;
            for (int j = 0; j < inst->n_in + inst->n_out; j++) if (p->slots[inst->args[j]].size > FG_FLAT_KERNEL) f->failed = 1;
            fg_flat_op(f, FLAT_call, (char *)st->slots, (const char *)inst, 0, 0, 0, 0);
            continue;
        }
        char **at = (char **)calloc(inst->n_in + inst->n_out + 1, sizeof(char *));
        if (!at) { f->failed = 1; return; }
        for (int j = 0; j < inst->n_in + inst->n_out; j++) at[j] = st->slots[inst->args[j]].data;
        if (inst->kind == KIND_SCAN) fg_flat_scan(f, st, inst, p->inst_child[i], at, at + inst->n_in);
        else if (inst->kind == KIND_WHILE) fg_flat_while(f, st, inst, p->inst_child[i], at, at + inst->n_in);
        else if (inst->kind == KIND_COND) fg_flat_cond(f, st, inst, p->inst_child[i], at, at + inst->n_in);
        else f->failed = 1;
        free(at);
    }
}

static int64_t fg_flat_carry_bytes(FgFlat *f, FgState *st, const FgInst *inst, int slot) {
    int64_t bytes = fg_slot_bytes(&st->slots[inst->args[slot]]);
    if (bytes > FG_FLAT_CARRY) f->failed = 1;
    return bytes;
}

/* ip: [n_branches, n_outs]; in: index, operands */
static void fg_flat_cond(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    int n = (int)inst->ip[0], ends[64];
    int32_t *targets = (int32_t *)fg_flat_room(f, 4 * n);
    if (n > 64) f->failed = 1;
    if (f->failed) return;
    int at = f->n_ops;
    fg_flat_op(f, FLAT_branch, 0, in[0], (char *)targets, 0, n, 0);
    for (int k = 0; k < n && !f->failed; k++) {
        targets[k] = f->n_ops - at;
        f->start = f->n_ops;
        fg_flat_program(f, st->children[first + k], in + 1, out);
        ends[k] = f->n_ops;
        fg_flat_op(f, FLAT_jump, 0, 0, 0, 0, 0, 0);
    }
    f->start = f->n_ops;
    for (int k = 0; k < n && !f->failed; k++) f->ops[ends[k]].n = f->n_ops - ends[k];
}

/* As run_while in instructions.pyx. A carry has one place; a body that may not write over it has another for the new value. */
static void fg_flat_while(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    int ncc = (int)inst->ip[0], nbc = (int)inst->ip[1], nc = (int)inst->ip[2];
    char **at = (char **)calloc(2 * nc + ncc + nbc + 1, sizeof(char *)), **carry = at + ncc + nbc, **fresh = carry + nc, *pred = fg_flat_room(f, 1);
    if (!at) { f->failed = 1; return; }
    for (int i = 0; i < nc; i++) {
        int64_t bytes = fg_flat_carry_bytes(f, st, inst, ncc + nbc + i);
        carry[i] = fg_flat_room(f, bytes);
        fresh[i] = inst->ip[3 + i] ? carry[i] : fg_flat_room(f, bytes);
        fg_flat_copy(f, carry[i], in[ncc + nbc + i], bytes);
    }
    int top = f->start = f->n_ops;
    for (int i = 0; i < ncc; i++) at[nbc + i] = in[i];                  /* the condition's constants, right before the carry */
    fg_flat_program(f, st->children[first], at + nbc, &pred);
    int test = f->n_ops;
    fg_flat_op(f, FLAT_unless, 0, pred, 0, 0, 0, 0);
    f->start = f->n_ops;
    for (int i = 0; i < nbc; i++) at[ncc + i] = in[ncc + i];
    fg_flat_program(f, st->children[first + 1], at + ncc, fresh);
    for (int i = 0; i < nc; i++) fg_flat_copy(f, carry[i], fresh[i], fg_flat_carry_bytes(f, st, inst, ncc + nbc + i));
    fg_flat_op(f, FLAT_jump, 0, 0, 0, 0, top - f->n_ops, 0);
    f->start = f->n_ops;
    if (!f->failed) f->ops[test].n = f->n_ops - test;
    for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], carry[i], fg_flat_carry_bytes(f, st, inst, ncc + nbc + i));
    free(at);
}

/* As run_scan. in and out of xs and ys hold the address of their first row; `rows` is set for the outermost loop, where they hold
 * the place of that address. */
static void fg_flat_rows(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out, int rows) {
    int nk = (int)inst->ip[0], nc = (int)inst->ip[1], nx = (int)inst->ip[2], ny = (int)inst->ip[3];
    int64_t length = inst->ip[4], reverse = inst->ip[5];
    if (length == 0) {
        for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], in[nk + i], fg_slot_bytes(&st->slots[inst->args[nk + i]]));
        return;
    }
    char **at = (char **)calloc(nk + 3 * nc + 2 * nx + 2 * ny + 1, sizeof(char *)), *count = fg_flat_room(f, 8);
    if (!at) { f->failed = 1; return; }
    char **carry = at + nk, **x = carry + nc, **fresh = x + nx, **y = fresh + nc, **xp = y + ny, **yp = xp + nx;
    memcpy(at, in, nk * sizeof(char *));
    for (int i = 0; i < nc; i++) {
        int64_t bytes = fg_flat_carry_bytes(f, st, inst, nk + i);
        carry[i] = fg_flat_room(f, bytes);
        fresh[i] = inst->ip[6 + i] ? carry[i] : fg_flat_room(f, bytes);
        fg_flat_copy(f, carry[i], in[nk + i], bytes);
    }
    for (int i = 0; i < nx + ny; i++) {
        int is_x = i < nx, slot = is_x ? nk + nc + i : inst->n_in + nc + i - nx;
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[slot]]) / length;
        char *base = is_x ? in[nk + nc + i] : out[nc + i - nx], *cell = fg_flat_room(f, 8), *fixed = fg_flat_room(f, chunk);
        if (chunk > FG_FLAT_BYTES) f->failed = 1;
        if (f->failed) { free(at); return; }
        if (!rows) { char *p = fg_flat_room(f, 8); FG_AT(char *, p) = base; base = p; }
        fg_flat_op(f, FLAT_point, cell, base, 0, 0, reverse ? (length - 1) * chunk : 0, 0);
        (is_x ? x : y - nx)[i] = fixed;
        (is_x ? xp : yp - nx)[i] = cell;
    }
    fg_flat_op(f, FLAT_set, count, 0, 0, 0, length, 0);
    int top = f->start = f->n_ops;
    for (int i = 0; i < nx; i++) {
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[nk + nc + i]]) / length;
        fg_flat_op(f, chunk == 4 ? FLAT_load4 : chunk == 8 ? FLAT_load8 : chunk >= 32 && chunk <= 64 ? FLAT_load32 :
                   chunk >= 16 && chunk <= 32 ? FLAT_load16 : FLAT_load, x[i], xp[i], 0, 0, chunk, 0)->k = reverse ? -chunk : chunk;
    }
    fg_flat_program(f, st->children[first], at, fresh);
    for (int i = 0; i < ny; i++) {
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[inst->n_in + nc + i]]) / length;
        fg_flat_op(f, chunk == 4 ? FLAT_store4 : chunk == 8 ? FLAT_store8 : FLAT_store, yp[i], y[i], 0, 0, chunk, 0)->k = reverse ? -chunk : chunk;
    }
    for (int i = 0; i < nc; i++) fg_flat_copy(f, carry[i], fresh[i], fg_flat_carry_bytes(f, st, inst, nk + i));
    fg_flat_op(f, FLAT_loop, count, 0, 0, 0, top - f->n_ops, 0);
    f->start = f->n_ops;
    for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], carry[i], fg_flat_carry_bytes(f, st, inst, nk + i));
    free(at);
}
static void fg_flat_scan(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    fg_flat_rows(f, st, inst, first, in, out, 0);
}

/* ---- the outermost loop: its operands are elsewhere at every run */

static void fg_flat_free(FgFlat *f) {
    if (!f || f == &fg_flat_none) return;
    free(f->ops); free(f->memory); free(f->ins); free(f->outs); free(f);
}

/* Flat code of instruction i of a state's program; &fg_flat_none if there is none. */
static FgFlat *fg_flat_build(FgState *st, int i) {
    const FgInst *inst = &st->prog->insts[i];
    int scan = inst->kind == KIND_SCAN, nc = (int)inst->ip[scan ? 1 : 2], n_out = nc + (scan ? (int)inst->ip[3] : 0), n_k = inst->n_in - (scan ? (int)inst->ip[2] : 0);
    if (!st->prog->flat || (scan && inst->ip[4] < 2)) return &fg_flat_none;
    FgFlat *f = (FgFlat *)calloc(1, sizeof(FgFlat));
    char **at = (char **)calloc(inst->n_in + inst->n_out + 1, sizeof(char *));
    if (f) {
        f->ins = (FgFlatIo *)calloc(inst->n_in + n_out + 1, sizeof(FgFlatIo));
        f->outs = (FgFlatIo *)calloc(nc + 1, sizeof(FgFlatIo));
        if (posix_memalign((void **)&f->memory, 64, FG_FLAT_MEMORY)) f->memory = NULL;
        else memset(f->memory, 0, FG_FLAT_MEMORY);
    }
    if (!f || !at || !f->ins || !f->outs || !f->memory) { free(at); fg_flat_free(f); return &fg_flat_none; }
    for (int j = 0; j < inst->n_in + n_out && !f->failed; j++) {
        int is_in = j < inst->n_in, o = j - inst->n_in, rows = is_in ? j >= n_k : o >= nc;
        int64_t bytes = rows ? -1 : fg_slot_bytes(&st->slots[inst->args[j]]);
        if (bytes > FG_FLAT_BYTES) { f->failed = 1; break; }
        at[j] = fg_flat_room(f, rows ? 8 : bytes);
        FgFlatIo io = {at[j], j, bytes};
        if (is_in || rows) f->ins[f->n_ins++] = io; else f->outs[f->n_outs++] = io;
    }
    if (!f->failed && scan) fg_flat_rows(f, st, inst, st->prog->inst_child[i], at, at + inst->n_in, 1);
    else if (!f->failed) fg_flat_while(f, st, inst, st->prog->inst_child[i], at, at + inst->n_in);
    fg_flat_op(f, FLAT_end, 0, 0, 0, 0, 0, 0);
    free(at);
    if (f->failed) { fg_flat_free(f); return &fg_flat_none; }
    const void *const *labels;
    fg_flat_run(NULL, &labels);
    for (int k = 0; k < f->n_ops; k++) f->ops[k].label = labels[(intptr_t)f->ops[k].label];
    return f;
}

/* Run a loop as flat code: 0 or a fault, or -1 if it has none. */
static int fg_flat_loop(FgState *st, int i) {
    FgFlat *f = st->flat[i];
    const FgInst *inst = &st->prog->insts[i];
    if (!f) f = st->flat[i] = fg_flat_build(st, i);
    if (f == &fg_flat_none) return -1;
    for (int j = 0; j < f->n_ins; j++) {
        char *x = st->slots[inst->args[f->ins[j].operand]].data;
        if (f->ins[j].bytes < 0) FG_AT(char *, f->ins[j].fixed) = x;
        else memcpy(f->ins[j].fixed, x, f->ins[j].bytes);
    }
    int rc = fg_flat_run(f->ops, NULL);
    for (int j = 0; j < f->n_outs && rc == FG_OK; j++)
        memcpy(st->slots[inst->args[f->outs[j].operand]].data, f->outs[j].fixed, f->outs[j].bytes);
    return rc;
}
#endif
