/* Flat code: a loop whose values are small becomes one list of ops over fixed addresses, with jumps for the loops and branches
 * inside of it.  An iteration then costs nanoseconds an op, not the set-up of an instruction each.
 *
 * The code is made at a state's first run of the loop, from the instructions of its sub-programs: their slots get fixed addresses,
 * fused groups are unpacked into one op for each operation (the same functions as the VM calls, or the same expression inline), and
 * other kernels are called as they are.  It runs as machine code where the processor has AVX-512 or AVX2 (flat_machine.h), else in the interpreter
 * (flat_ops.h).  What cannot be flat (callbacks, large values) leaves the loop to the ordinary path. */
#ifndef FG_FLAT_H
#define FG_FLAT_H
#include "flat_blocks.h"
#include "flat_keep.h"
#include "flat_machine.h"
#include "flat_move.h"
#include "flat_pace.h"

static void fg_flat_program(FgFlat *f, FgState *st, char **args, char **outs);
static void fg_flat_scan(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);
static void fg_flat_while(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);
static void fg_flat_cond(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out);

typedef struct { int base; int64_t lo, hi; } FgFlatBytes;
static FgFlatBytes fg_flat_bytes(const FgProg *p, int slot) {
    const FgTensor *t = &p->slots[slot];
    FgFlatBytes b = {p->slot_base[slot], p->slot_offset[slot], p->slot_offset[slot]};
    for (int d = 0; d < t->ndim && t->size; d++) {
        int64_t reach = (t->shape[d] - 1) * t->strides[d] * fg_itemsize(t->dtype);
        if (reach < 0) b.lo += reach; else b.hi += reach;
    }
    if (t->size) b.hi += fg_itemsize(t->dtype);
    return b;
}
static inline int fg_flat_meet(FgFlatBytes a, FgFlatBytes b) { return a.base == b.base && a.lo < b.hi && b.lo < a.hi; }

/* 1 if what lies in `bytes` at instruction w is read by instruction `from` or later. */
static int fg_flat_read(const FgProg *p, int w, int from, FgFlatBytes bytes) {
    for (int i = from; i < p->n_inst; i++) {
        for (int j = 0; j < p->insts[i].n_in; j++) {
            FgFlatBytes read = fg_flat_bytes(p, p->insts[i].args[j]);
            int again = 0;                                  /* written as a whole in between, as a place is that several values take in turn */
            if (!fg_flat_meet(read, bytes)) continue;
            for (int k = w + 1; k < i && !again; k++)
                for (int o = p->insts[k].n_in; o < p->insts[k].n_in + p->insts[k].n_out && !again; o++) {
                    FgFlatBytes made = fg_flat_bytes(p, p->insts[k].args[o]);
                    again = made.base == read.base && made.lo <= read.lo && read.hi <= made.hi && fg_is_contiguous(&p->slots[p->insts[k].args[o]]);
                }
            if (!again) return 1;
        }
    }
    return 0;
}

/* 1 if `bytes` are written before instruction w ends, which is not to write them, and read by it or later. */
static int fg_flat_awaited(const FgProg *p, int w, FgFlatBytes bytes) {
    int before = 0;
    for (int i = 0; i <= w && !before; i++)
        for (int j = p->insts[i].n_in; j < p->insts[i].n_in + p->insts[i].n_out && !before; j++)
            before = fg_flat_meet(fg_flat_bytes(p, p->insts[i].args[j]), bytes);
    return before && fg_flat_read(p, w, w, bytes);
}

/* 1 if instruction w, which writes slot i, may not write whole vectors there: parts of a value lie behind it. */
static int fg_flat_part(const FgProg *p, int w, int i) {
    FgFlatBytes own = fg_flat_bytes(p, i), behind = {own.base, own.hi, own.lo + (own.hi - own.lo + 63) / 64 * 64};
    if (behind.lo >= behind.hi) return 0;
    if (p->slot_base[i] == 0) return fg_flat_awaited(p, w, behind);
    for (int j = 0; j < p->n_slots; j++) if (fg_flat_meet(fg_flat_bytes(p, j), behind)) return 1;   /* of a reduced result: what it reaches */
    return 0;
}

/* Mark the places of a sub-program's values of which whole vectors may be written: values in its arena begin at multiples of 64 bytes,
 * but an instruction may write a part of one, also of a result. */
static void fg_flat_whole(FgFlat *f, FgState *st) {
    const FgProg *p = st->prog;
    for (int written = 0; written < 2; written++) {
        for (int i = 0; i < p->n_inst; i++) {
            const FgInst *inst = &p->insts[i];
            for (int j = inst->n_in; j < inst->n_in + inst->n_out; j++) {
                const FgTensor *t = &st->slots[inst->args[j]];
                FgFlatBytes own = fg_flat_bytes(p, inst->args[j]);       /* a reduced result has its operand's shape, but not its size */
                int64_t at = t->data - f->memory, bytes = own.hi - own.lo;
                int arena = p->slot_base[inst->args[j]] == 0, part = written && fg_flat_part(p, i, inst->args[j]);
                if (t->data < f->memory || at >= FG_FLAT_MEMORY || at % 64 || bytes <= fg_itemsize(t->dtype)) continue;    /* one number is no vector */
                for (int64_t k = at; k < at + bytes && k < FG_FLAT_MEMORY; k += 64) {
                    if (!written && arena) f->padded[k / 64] = 1;
                    if (part) f->padded[k / 64] = 0;
                }
            }
        }
    }
}

/* A sub-program's instructions; args and outs are where it takes and puts its values. */
static void fg_flat_program(FgFlat *f, FgState *st, char **args, char **outs) {
    FgProg *p = st->prog;
    char *arena = st->bases[0];
    if (f->failed) return;              /* a value that found no room has no address */
    if (p->arena_bytes > 0 && f->used + p->arena_bytes <= FG_FLAT_MEMORY / 2) {     /* a large one stays where it is */
        st->bases[0] = fg_flat_room(f, (p->arena_bytes + 63) / 64, 64);
        f->padded[(st->bases[0] - f->memory) / 64] = 0;
    }
    for (int i = 0; i < p->n_args; i++) st->bases[1 + i] = args[i];
    for (int i = 0; i < p->n_outs; i++) st->bases[1 + p->n_args + p->n_consts + i] = outs[i];
    fg_bind_slots(st);
    st->bases[0] = arena;               /* for the ordinary path */
    fg_flat_whole(f, st);
    int begin = f->n_ops;
    for (int i = 0; i < p->n_inst && !f->failed; i++) {
        FgInst *inst = &p->insts[i];
        if (inst->kind == KIND_KERNEL) {
            if (inst->run == fg_flat_vm && (fg_flat_blocks(f, st, inst) || fg_flat_group(f, inst, st->slots))) continue;
            if ((inst->run == fg_flat_gather || inst->run == fg_flat_scatter) && fg_flat_indexed(f, inst, st->slots)) continue;
            if ((inst->run == fg_flat_slice || inst->run == fg_flat_update) && fg_flat_sliced(f, inst, st->slots)) continue;
            if ((inst->run == fg_flat_copies || inst->run == fg_flat_concatenate || inst->run == fg_flat_pad) && fg_flat_movement(f, st, inst)) continue;
            if (inst->run == fg_flat_dot && (fg_flat_product(f, st, inst) || fg_flat_products(f, st, inst))) continue;
            if (inst->run == fg_flat_argreduce && fg_flat_positions(f, inst, st->slots)) continue;
            for (int j = 0; j < inst->n_in + inst->n_out; j++) fg_flat_moves(f, &st->slots[inst->args[j]].data);
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
    fg_flat_sum_indices(f, st, begin);
}

/* Give a carry its places and its first value: one place if the body updates it where it is, that of the result if it is large then. */
static void fg_flat_carry(FgFlat *f, FgState *st, const FgInst *inst, int slot, int stays, const char *in, char *out, char **carry, char **fresh) {
    const FgTensor *t = &st->slots[inst->args[slot]];
    int64_t bytes = fg_slot_bytes(t);
    if (bytes > (f->machine ? FG_FLAT_BYTES : FG_FLAT_LONG) && !stays) f->failed = 1;
    if (f->failed) return;
    *carry = bytes > fg_flat_most(f) && stays ? out : fg_flat_room_of(f, t);
    *fresh = stays ? *carry : fg_flat_room_of(f, t);
    fg_flat_copy(f, *carry, in, bytes);
}
static int64_t fg_flat_carry_bytes(FgState *st, const FgInst *inst, int slot) { return fg_slot_bytes(&st->slots[inst->args[slot]]); }

/* Move the only op of a turn that touches a carry's new value to the turn's end, and let it write over the old one; 0 if it must stay. */
static int fg_flat_postpone(FgFlat *f, int top, char *carry, char *fresh, int64_t bytes) {
    int at = -1, end = f->n_ops;
    if (bytes > 8) return 0;
    for (int k = top; k < end; k++) {
        const FgFlatOp *o = &f->ops[k];
        int op = (int)(intptr_t)o->label;
        int turns = (op >= FLAT_jump && op <= FLAT_branch2) || (op >= FLAT_loop && op <= FLAT_back) || op >= FLAT_unless_lt_f32;
        if (turns || op == FLAT_call) return 0;
        if (!fg_flat_touches(o, fresh, bytes, 0)) continue;
        int simple = (op < FG_CHAINS ? op % FG_CHAIN < FG_FIRST_LAST : op < FLAT_end) && !fg_flat_takes_last(op) && !fg_flat_is_where(op);
        if (at >= 0 || !simple || o->d != fresh || fg_flat_touches(o, fresh, bytes, 1)) return 0;
        at = k;
    }
    if (at < 0 || (at + 1 < end && fg_flat_takes_last((int)(intptr_t)f->ops[at + 1].label))) return 0;
    FgFlatOp moved = f->ops[at];
    const char *reads[3] = {moved.a, moved.b, (intptr_t)moved.label < FG_CHAINS ? NULL : moved.c};
    for (int k = at + 1; k < end; k++)
        for (int i = 0; i < 3; i++) if (reads[i] && fg_flat_writes(&f->ops[k], reads[i], 8)) return 0;
    memmove(&f->ops[at], &f->ops[at + 1], (end - at - 1) * sizeof(FgFlatOp));
    moved.d = carry;
    f->ops[end - 1] = moved;
    return 1;
}

/* At the end of a turn, whose code begins at `top`: the carry takes its new value. What computes that writes over the old one
 * itself where nothing on its way to the end looks at either. */
static void fg_flat_settle(FgFlat *f, int top, char *carry, char *fresh, int64_t bytes) {
    if (carry == fresh || f->failed) return;
    int ok = 1, end = f->n_ops;
    for (int w = top; w < end && ok; w++) {
        const FgFlatOp *o = &f->ops[w];
        int op = (int)(intptr_t)o->label, takes = op >= FLAT_take1 && op <= FLAT_takes, copies = op >= FLAT_copy1 && op <= FLAT_copy;
        int inline_ = op < FLAT_end || op == FLAT_fn || takes || (op >= FLAT_pack && op <= FLAT_long_dot) || copies;
        if (op == FLAT_branch || op == FLAT_branch2) { ok = !fg_flat_touches(o, fresh, bytes, 0); continue; }
        if (!fg_flat_touches(o, fresh, bytes, 0)) continue;
        int64_t off = o->d - fresh, unit = fg_flat_wide(op) ? 64 : fg_flat_half_bytes(op, 0) == 32 ? 32 : bytes, part = bytes - off > unit ? unit : bytes - off;     /* a vector of several, or all */
        ok = inline_ && (off == 0 || (off > 0 && off < bytes && unit < bytes)) && !fg_flat_touches(o, fresh, bytes, 1);
        for (int k = w + 1; k < end && ok;) {
            const FgFlatOp *next = &f->ops[k];
            int number = (int)(intptr_t)next->label;
            int turns = number == FLAT_branch || number == FLAT_branch2 || number == FLAT_unless ||
                            (number >= FLAT_loop && number <= FLAT_back) || number >= FLAT_unless_lt_f32;
            ok = !turns && !fg_flat_touches(next, carry + off, part, 0) && !fg_flat_touches(next, fresh + off, part, 0);
            k += number == FLAT_jump ? (next->n > 0 ? (int)next->n : end) : 1;
        }
    }
    for (int w = top; w < end && ok; w++) {
        FgFlatOp *o = &f->ops[w];
        if (o->d >= fresh && o->d < fresh + bytes && (intptr_t)o->label != FLAT_branch) o->d = carry + (o->d - fresh);
    }
    if (!ok && fg_flat_postpone(f, top, carry, fresh, bytes)) return;
    if (!ok) fg_flat_copy(f, carry, fresh, bytes);
}

/* 1 if a cond's index is a value of the sub-program that nothing reads but the choice, or before it. */
static int fg_flat_only_chooses(const FgProg *p, const FgInst *inst) {
    int w = (int)(inst - p->insts);
    FgFlatBytes bytes = fg_flat_bytes(p, inst->args[0]);
    for (int j = 1; j < inst->n_in; j++) if (fg_flat_meet(fg_flat_bytes(p, inst->args[j]), bytes)) return 0;
    return p->slot_base[inst->args[0]] == 0 && !fg_flat_read(p, w, w + 1, bytes);
}

/* ip: [n_branches, n_outs]; in: index, or of two branches a bool, operands */
static void fg_flat_cond(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    int n = (int)inst->ip[0], ends[64];
    int32_t *targets = (int32_t *)fg_flat_room(f, n, 4);
    if (n > 64) f->failed = 1;
    if (f->failed) return;
    FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
    int number = last && last->d == in[0] ? (int)(intptr_t)last->label : -1, flag = st->slots[inst->args[0]].dtype == FG_BOOL;
    int decides = flag && number >= FLAT_lt_f32 && number <= FLAT_ne_i64 && fg_flat_only_chooses(st->prog, inst);
    if (decides) { last->label = (const void *)(intptr_t)(number - FLAT_lt_f32 + FLAT_unless_lt_f32); last->d = NULL; }
    else if (flag) fg_flat_op(f, FLAT_branch2, 0, in[0], (char *)targets, 0, n, 0);
    else if (last && n == 2 && number == FLAT_cast_bool_i32)        /* nobody else waits for the index */
        fg_flat_op(f, FLAT_branch2, 0, last->a, (char *)targets, 0, n, 0);
    else fg_flat_op(f, FLAT_branch, 0, in[0], (char *)targets, 0, n, 0);
    int at = f->n_ops - 1;
    for (int k = 0; k < n && !f->failed; k++) {
        targets[k] = f->n_ops - at;
        f->start = f->n_ops;
        fg_flat_program(f, st->children[first + k], in + 1, out);
        ends[k] = f->n_ops;
        if (k < n - 1) fg_flat_op(f, FLAT_jump, 0, 0, 0, 0, 0, 0);
    }
    f->start = f->n_ops;
    for (int k = 0; k < n - 1 && !f->failed; k++) f->ops[ends[k]].n = f->n_ops - ends[k];
    if (decides && !f->failed) { f->ops[at].n = targets[0]; f->ops[at].m = targets[1]; }
}

/* As run_while in instructions.pyx. A carry has one place; a body that may not write over it has another for the new value. */
static void fg_flat_while(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    int ncc = (int)inst->ip[0], nbc = (int)inst->ip[1], nc = (int)inst->ip[2];
    char **at = (char **)calloc(2 * nc + ncc + nbc + 1, sizeof(char *)), **carry = at + ncc + nbc, **fresh = carry + nc;
    char *pred = fg_flat_room(f, 1, 1);
    if (!at) { f->failed = 1; return; }
    for (int i = 0; i < nc; i++)
        fg_flat_carry(f, st, inst, ncc + nbc + i, inst->ip[3 + i] != 0, in[ncc + nbc + i], out[i], &carry[i], &fresh[i]);
    if (f->failed) { free(at); return; }
    int top = f->start = f->n_ops;
    for (int i = 0; i < ncc; i++) at[nbc + i] = in[i];                  /* the condition's constants, right before the carry */
    fg_flat_program(f, st->children[first], at + nbc, &pred);
    FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
    int number = last && last->d == pred ? (int)(intptr_t)last->label : -1, decides = number >= FLAT_lt_f32 && number <= FLAT_ne_i64;
    if (decides) { last->label = (const void *)(intptr_t)(number - FLAT_lt_f32 + FLAT_unless_lt_f32); last->m = 1; }
    else fg_flat_op(f, FLAT_unless, 0, pred, 0, 0, 0, 0);
    int test = f->n_ops - 1;
    int body = f->start = f->n_ops;
    for (int i = 0; i < nbc; i++) at[ncc + i] = in[ncc + i];
    fg_flat_program(f, st->children[first + 1], at + ncc, fresh);
    fg_flat_pace(f, body);
    for (int i = 0; i < nc; i++) fg_flat_settle(f, body, carry[i], fresh[i], fg_flat_carry_bytes(st, inst, ncc + nbc + i));
    int before = fg_flat_keep(f, top, test), alone = fg_flat_alone(f, top + before), again = decides && test == top ? test + 1 : top;
    if (alone) {
        fg_flat_insert(f, top, FLAT_enter, 0, before + 1 + again - top);
        before++;
    }
    test += before;
    if (alone && again > top) {         /* the comparison once more, with the sum that counts if that is right before it */
        FgFlatOp decided = f->ops[test], *counts = &f->ops[f->n_ops - 1];
        int adds = (int)(intptr_t)counts->label - 4 * FG_CHAIN, less = (intptr_t)decided.label == FLAT_unless_lt_i32 && counts->d == decided.a;
        if (less && (adds == FG_FIRST_MEMORY || adds == FG_FIRST_LAST) && !fg_flat_overlaps(decided.b, 4, counts->d, 4)) {
            counts->label = (const void *)(intptr_t)(adds == FG_FIRST_MEMORY ? FLAT_step : FLAT_step_held);
            counts->c = decided.b;
            counts->n = 1;
        } else fg_flat_op(f, (int)(intptr_t)decided.label - FLAT_unless_lt_f32 + FLAT_again_lt_f32, 0, decided.a, decided.b, 0, 1, 0);
    } else fg_flat_op(f, alone ? FLAT_back : FLAT_jump, 0, 0, 0, 0, top + before - f->n_ops, 0);
    f->start = f->n_ops;
    if (!f->failed) f->ops[test].n = f->n_ops - test;
    for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], carry[i], fg_flat_carry_bytes(st, inst, ncc + nbc + i));
    free(at);
}

/* Which numbers of four bytes are in the last vector of n bytes. */
static int64_t fg_flat_last_mask(int64_t n) { return (1 << ((n - 1) % 64 / 4 + 1)) - 1; }

/* As run_scan. in and out of xs and ys hold the address of their first row; `rows` is set for the outermost loop, where they hold
 * the place of that address. */
static void fg_flat_rows(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out, int rows) {
    int nk = (int)inst->ip[0], nc = (int)inst->ip[1], nx = (int)inst->ip[2], ny = (int)inst->ip[3];
    int64_t length = inst->ip[4], reverse = inst->ip[5];
    if (length == 0) {
        for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], in[nk + i], fg_slot_bytes(&st->slots[inst->args[nk + i]]));
        return;
    }
    char **at = (char **)calloc(nk + 3 * nc + 2 * nx + 2 * ny + 1, sizeof(char *)), *count = fg_flat_room(f, 1, 8);
    if (!at) { f->failed = 1; return; }
    char **carry = at + nk, **x = carry + nc, **fresh = x + nx, **y = fresh + nc, **xp = y + ny, **yp = xp + nx;
    memcpy(at, in, nk * sizeof(char *));
    for (int i = 0; i < nc; i++) fg_flat_carry(f, st, inst, nk + i, inst->ip[6 + i] != 0, in[nk + i], out[i], &carry[i], &fresh[i]);
    if (f->failed) { free(at); return; }
    for (int i = 0; i < nx + ny; i++) {
        int is_x = i < nx, slot = is_x ? nk + nc + i : inst->n_in + nc + i - nx;
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[slot]]) / length;
        char *base = is_x ? in[nk + nc + i] : out[nc + i - nx], *cell = fg_flat_room(f, 1, 8);
        char *fixed = fg_flat_room(f, st->slots[inst->args[slot]].size / length, fg_itemsize(st->slots[inst->args[slot]].dtype));
        if (chunk > FG_FLAT_BYTES) f->failed = 1;
        if (f->failed) { free(at); return; }
        if (!rows) { char *p = fg_flat_room(f, 1, 8); FG_AT(char *, p) = base; fg_flat_moves(f, (char **)p); base = p; }
        fg_flat_op(f, FLAT_point, cell, base, 0, 0, reverse ? (length - 1) * chunk : 0, 0)->m = length * chunk;
        (is_x ? x : y - nx)[i] = fixed;
        (is_x ? xp : yp - nx)[i] = cell;
    }
    fg_flat_op(f, FLAT_set, count, 0, 0, 0, length, 0);
    int top = f->start = f->n_ops;
    for (int i = 0; i < nx; i++) {
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[nk + nc + i]]) / length;
        int whole = fg_flat_padded(f, x[i]), masked = whole && FG_FLAT_INLINES(f) && chunk >= 8 && chunk % 4 == 0;
        int load = masked ? FLAT_loadv : chunk == 4 ? FLAT_load4 : chunk == 8 ? (whole ? FLAT_loadv8 : FLAT_load8) : whole && chunk == 12 ? FLAT_loadv12 :
                   whole && chunk == 16 ? FLAT_loadv16 : whole && chunk == 32 ? FLAT_loadv32 : chunk >= 32 && chunk <= 64 ? FLAT_load32 :
                   chunk >= 16 && chunk <= 32 ? FLAT_load16 : FLAT_load;
        FgFlatOp *o = fg_flat_op(f, load, x[i], xp[i], 0, 0, chunk, 0);
        o->k = reverse ? -chunk : chunk;
        if (masked) o->m = fg_flat_last_mask(chunk);
    }
    fg_flat_program(f, st->children[first], at, fresh);
    fg_flat_pace(f, top);
    for (int i = 0; i < ny; i++) {
        int64_t chunk = fg_slot_bytes(&st->slots[inst->args[inst->n_in + nc + i]]) / length;
        const FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
        const char *from = y[i];
        int number = last ? (int)(intptr_t)last->label : -1;
        if (number >= FLAT_copy1 && number <= FLAT_copy && last->d == y[i] && last->n == chunk) { from = last->a; f->n_ops--; }
        int masked = FG_FLAT_PERMUTES && chunk > 8 && chunk % 4 == 0 && from >= f->memory && from + (chunk + 63) / 64 * 64 <= f->memory + FG_FLAT_MEMORY;
        int store = masked ? FLAT_storev : chunk == 4 ? FLAT_store4 : chunk == 8 ? FLAT_store8 : FLAT_store;
        FgFlatOp *o = fg_flat_op(f, store, yp[i], from, 0, 0, chunk, 0);
        o->k = reverse ? -chunk : chunk;
        if (masked) o->m = fg_flat_last_mask(chunk);
    }
    for (int i = 0; i < nc; i++) fg_flat_settle(f, top, carry[i], fresh[i], fg_flat_carry_bytes(st, inst, nk + i));
    int before = fg_flat_keep(f, top, -1), alone = fg_flat_alone(f, top + before);
    fg_flat_op(f, alone ? FLAT_again : FLAT_loop, count, 0, 0, 0, alone ? 1 : top + before - f->n_ops, 0)->k = 1;
    if (alone && !f->failed) {
        f->ops[top - 1].label = (const void *)(intptr_t)FLAT_count;
        f->ops[top - 1].k = before + 1;
    }
    f->start = f->n_ops;
    for (int i = 0; i < nc; i++) fg_flat_copy(f, out[i], carry[i], fg_flat_carry_bytes(st, inst, nk + i));
    free(at);
}
static void fg_flat_scan(FgFlat *f, FgState *st, const FgInst *inst, int first, char **in, char **out) {
    fg_flat_rows(f, st, inst, first, in, out, 0);
}

/* ---- the outermost loop: its operands are elsewhere at every run */

static void fg_flat_free(FgFlat *f) {
    if (!f || f == &fg_flat_none) return;
    fg_flat_forget_machine(f);
    free(f->ops); free(f->memory); free(f->ins); free(f->outs); free(f->moving); free(f->bases); free(f);
}

/* Flat code of instruction i of a state's program, for the interpreter or as machine code; &fg_flat_none if there is none. */
static FgFlat *fg_flat_build_for(FgState *st, int i, int machine) {
    const FgInst *inst = &st->prog->insts[i];
    int scan = inst->kind == KIND_SCAN, nc = (int)inst->ip[scan ? 1 : 2], n_out = nc + (scan ? (int)inst->ip[3] : 0);
    int n_k = inst->n_in - (scan ? (int)inst->ip[2] : 0);
    if (!st->prog->flat || (scan && inst->ip[4] < 2)) return &fg_flat_none;
    FgFlat *f = (FgFlat *)calloc(1, sizeof(FgFlat));
    char **at = (char **)calloc(inst->n_in + inst->n_out + 1, sizeof(char *));
    if (f) {
        f->machine = machine;
        f->ins = (FgFlatIo *)calloc(inst->n_in + n_out + 1, sizeof(FgFlatIo));
        f->outs = (FgFlatIo *)calloc(nc + 1, sizeof(FgFlatIo));
        f->bases = (char **)calloc(inst->n_in + n_out + 1, sizeof(char *));
        if (posix_memalign((void **)&f->memory, 64, FG_FLAT_MEMORY)) f->memory = NULL;
        else memset(f->memory, 0, FG_FLAT_MEMORY);
    }
    if (!f || !at || !f->ins || !f->outs || !f->bases || !f->memory) { free(at); fg_flat_free(f); return &fg_flat_none; }
    for (int j = 0; j < inst->n_in + n_out && !f->failed; j++) {
        int is_in = j < inst->n_in, o = j - inst->n_in, rows = is_in ? j >= n_k : o >= nc;
        int64_t bytes = rows ? -1 : fg_slot_bytes(&st->slots[inst->args[j]]);
        if (bytes > fg_flat_most(f)) { at[j] = f->bases[j] = fg_flat_stand_in(j); continue; }
        at[j] = rows ? fg_flat_room(f, 1, 8) : fg_flat_room_of(f, &st->slots[inst->args[j]]);
        FgFlatIo io = {at[j], j, bytes};
        if (is_in || rows) f->ins[f->n_ins++] = io; else f->outs[f->n_outs++] = io;
    }
    if (!f->failed && scan) fg_flat_rows(f, st, inst, st->prog->inst_child[i], at, at + inst->n_in, 1);
    else if (!f->failed) fg_flat_while(f, st, inst, st->prog->inst_child[i], at, at + inst->n_in);
    fg_flat_op(f, FLAT_end, 0, 0, 0, 0, 0, 0);
    free(at);
    if (f->failed) { fg_flat_free(f); return &fg_flat_none; }
    for (int k = 0; k < f->n_ops; k++) {        /* a jump to a jump, or to the end of a turn, does what is there */
        FgFlatOp *o = &f->ops[k], *to = o + o->n;
        int there = (int)(intptr_t)o->label == FLAT_jump ? (int)(intptr_t)to->label : -1;
        int decides = there >= FLAT_unless_lt_f32;
        if (there != FLAT_jump && (there < FLAT_loop || there > FLAT_back || there == FLAT_enter || there == FLAT_count) && !decides) continue;
        int64_t n = o->n + to->n;
        *o = *to;
        if (there == FLAT_loop) o->k = to - o + to->k;
        if (decides && there < FLAT_again_lt_f32) o->m = to - o + to->m;
        o->n = n;
    }
    const void *const *labels;
    fg_flat_run(NULL, &labels);
    if (machine) fg_flat_to_machine(f, labels);
    if (machine && !f->code) { fg_flat_free(f); return &fg_flat_none; }
    for (int k = 0; k < f->n_ops; k++) {
        FgFlatOp *o = &f->ops[k];
        char **fields[] = {&o->d, (char **)&o->a, (char **)&o->b, (char **)&o->c, &o->f, &o->e, (char **)&o->g};
        for (int i = 0; i < 7; i++) fg_flat_moves(f, fields[i]);
        o->label = labels[(intptr_t)o->label];
    }
    if (f->failed) { fg_flat_free(f); return &fg_flat_none; }
    return f;
}

static FgFlat *fg_flat_build(FgState *st, int i) {
    FgFlat *f = st->prog->flat > 1 && fg_code_may() ? fg_flat_build_for(st, i, 1) : &fg_flat_none;
    return f == &fg_flat_none ? fg_flat_build_for(st, i, 0) : f;
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
    for (int k = 0; k < f->n_moving; k++) {
        char *x = st->slots[inst->args[f->moving[k].operand]].data;
        if (f->bases[f->moving[k].operand] != x) *f->moving[k].at = x + f->moving[k].offset;
    }
    for (int k = 0; k < f->n_moving; k++) f->bases[f->moving[k].operand] = st->slots[inst->args[f->moving[k].operand]].data;
    int rc = fg_flat_run_paced(f);
    for (int j = 0; j < f->n_outs && rc == FG_OK; j++)
        memcpy(st->slots[inst->args[f->outs[j].operand]].data, f->outs[j].fixed, f->outs[j].bytes);
    return rc;
}
#endif
