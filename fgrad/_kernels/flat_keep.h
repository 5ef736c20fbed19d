/* Flat code's registers from op to op and from turn to turn: an op takes from its register what still lies there, not only what the op right before it left.
 * A carry that goes through memory costs a turn a store and the load that waits for it, more than the arithmetic between them. */
#ifndef FG_FLAT_KEEP_H
#define FG_FLAT_KEEP_H
#include "flat_emit.h"

enum { FG_FLAT_REGISTERS = 6 };
/* The places whose value a register holds: that of the op that left it there, and one that it was copied to. */
typedef struct { const char *at[2]; int begun; const char *from; } FgFlatHeld;      /* begun: since the turn began; from: then at[1] is a copy of what lies there */

static int64_t fg_flat_register_bytes(int reg) { return reg == 2 || reg == 3 ? 64 : reg == 1 || reg == 5 ? 8 : 4; }

/* The op that takes its first (which: 0) or second operand from the register, or -1; *rest: the operand that is left in memory. */
static int fg_flat_from_register(const FgFlatOp *o, int which, const char **rest) {
    static const int steps[2][3] = {{FG_STEP_ADD, FG_STEP_SUB, FG_STEP_MUL}, {FG_STEP_ADD, FG_STEP_RSUB, FG_STEP_MUL}};
    int op = (int)(intptr_t)o->label, at = op % FG_CHAIN;
    *rest = which ? o->a : o->b;
    if (op < FG_CHAINS) {
        int first = at < 7 ? at : at < 35 ? (at - 7) / 4 : (at - 35) / 16;
        if (first >= FG_FIRST_LAST || o->a == o->b) return -1;          /* twice the same number: the other one would wait */
        int to = FG_FIRST_LAST + steps[which][first];
        return op - at + (at < 7 ? to : at < 35 ? 7 + 4 * to + (at - 7) % 4 : 35 + 16 * to + (at - 35) % 16);
    }
    if (!which && op == FLAT_permute && o->n == 1 && ((const FgFlatWindow *)o->b)->offset == 0) return FLAT_permute1;
    if (!which && op >= FLAT_sums2 && op <= FLAT_argminima4 && !((const FgFlatFold *)o->b)->last) return FLAT_sums1 + (op - FLAT_sums2) / 2;
    #define M(name, t, ...) \
        if (op == FLAT_##name##_##t##_mm) return o->a == o->b ? -1 : which ? FLAT_##name##_##t##_ma : FLAT_##name##_##t##_am;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, ...) if (op == FLAT_##name##_##t##_m) return which ? -1 : FLAT_##name##_##t##_a;
    FG_FLAT_UN(M)
    #undef M
    return -1;
}

/* Let a window of four bytes be taken by way of the register of the first op that reads it, if that finds neither operand there as it is.
 * Of two windows the later one: what a turn has written for the next one to read tends to be read last. */
static void fg_flat_take_held(FgFlat *f, int k, const FgFlatHeld *held) {
    FgFlatOp *take = &f->ops[k];
    int op = (int)(intptr_t)take->label, to = op == FLAT_take4 ? FLAT_take4_f32 : FLAT_take4_sum_f32, done = 0;
    if (op != FLAT_take4 && op != FLAT_take4_sum) return;
    for (int reg = 0; reg < 5 && !done; reg += 4) {    /* floats and integers of four bytes */
        int j = k + 1;
        while (j < f->n_ops && fg_flat_register((int)(intptr_t)f->ops[j].label) != reg && !fg_flat_writes(&f->ops[j], take->d, 4)) j++;
        for (int which = 0; which < 2 && j < f->n_ops && !done; which++) {
            const FgFlatOp *o = &f->ops[j];
            const char *rest;
            if (fg_flat_register((int)(intptr_t)o->label) != reg || fg_flat_from_register(o, which, &rest) < 0 || (which ? o->b : o->a) != take->d) continue;
            done = !rest || (rest != held[reg].at[0] && rest != held[reg].at[1]);
            for (int i = k + 1; i < j; i++)
                if (f->ops[i].d == rest && (f->ops[i].label == (void *)FLAT_take4 || f->ops[i].label == (void *)FLAT_take4_sum)) done = 0;
            if (done) take->label = (const void *)(intptr_t)(to + (reg != 0));
        }
    }
}

/* The window's put of what a register holds, or -1. */
static int fg_flat_put_held(int op, int reg) {
    int to = op == FLAT_put4 ? FLAT_put4_f32 : op == FLAT_put4_in ? FLAT_put4_in_f32 : op == FLAT_put4_sum ? FLAT_put4_sum_f32 : -1;
    return to < 0 || fg_flat_register_bytes(reg) != 4 ? -1 : to + (reg != 0);
}

/* What is held behind an op. taken, unless NULL: let the op take from its register what that holds; what a register has held since
 * the turn began, where that is taken, is written there. */
static void fg_flat_keep_op(FgFlatOp *o, FgFlatHeld *held, const char **taken) {
    int op = (int)(intptr_t)o->label, reg = fg_flat_register(op);
    for (int which = 0; which < 2 && taken && reg >= 0; which++) {
        const char *p = which ? o->b : o->a, *rest;
        int to = fg_flat_from_register(o, which, &rest);
        if (to < 0 || !p || (p != held[reg].at[0] && p != held[reg].at[1])) continue;
        o->label = (const void *)(intptr_t)to;
        if (op < FG_CHAINS) { o->a = NULL; o->b = rest; }
        if (held[reg].begun) taken[reg] = p == held[reg].at[1] && held[reg].from ? held[reg].from : p;
        break;
    }
    for (int r = 0; r < FG_FLAT_REGISTERS && taken; r++) {
        int to = fg_flat_put_held(op, r);
        if (to < 0 || !o->a || (o->a != held[r].at[0] && o->a != held[r].at[1])) continue;
        o->label = (const void *)(intptr_t)to;
        if (held[r].begun) taken[r] = o->a == held[r].at[1] && held[r].from ? held[r].from : o->a;
        break;
    }
    for (int r = 0; r < FG_FLAT_REGISTERS; r++) {
        FgFlatHeld *h = &held[r];
        int64_t bytes = fg_flat_register_bytes(r);
        int copy = bytes == 4 ? FLAT_copy4 : bytes == 8 ? FLAT_copy8 : FLAT_copy64, copied = op == copy && (o->a == h->at[0] || o->a == h->at[1]);
        for (int i = 0; i < 2; i++) if (h->at[i] && fg_flat_writes(o, h->at[i], bytes)) h->at[i] = NULL;
        if (copied) { h->from = h->begun ? o->a == h->at[1] && h->from ? h->from : o->a : NULL; h->at[1] = o->d; }
    }
    if (reg >= 0) held[reg] = (FgFlatHeld){{o->d, NULL}, 0, NULL};
}

/* An op of no result at position `at`. */
static void fg_flat_insert(FgFlat *f, int at, int op, const char *a, int64_t n) {
    fg_flat_op(f, op, NULL, a, 0, 0, n, 0);
    if (f->failed) return;
    FgFlatOp made = f->ops[f->n_ops - 1];
    memmove(&f->ops[at + 1], &f->ops[at], (f->n_ops - 1 - at) * sizeof(FgFlatOp));
    f->ops[at] = made;
}

/* 1 if turns from `top` on read whole vectors that the turn before has written to memory. Turns that begin early try such loads before the store has
 * its value, and then wait longer for it. */
static int fg_flat_waits(const FgFlat *f, int top) {
    for (int k = top; k < f->n_ops; k++) {
        const FgFlatOp *o = &f->ops[k];
        int reg = fg_flat_register((int)(intptr_t)o->label), before = 0, behind = 0;
        if ((reg != 2 && reg != 3) || fg_flat_takes_last((int)(intptr_t)o->label)) continue;
        for (int i = top; i < k; i++) before |= f->ops[i].d && (f->ops[i].d == o->a || f->ops[i].d == o->b);
        for (int i = k; i < f->n_ops; i++) behind |= f->ops[i].d && (f->ops[i].d == o->a || f->ops[i].d == o->b);
        if (behind && !before) return 1;
    }
    return 0;
}

/* 1 for turns from `top` on that have no loop in them, and may begin before the turn before has ended. */
static int fg_flat_alone(const FgFlat *f, int top) {
    for (int k = top; k < f->n_ops; k++) {
        int op = (int)(intptr_t)f->ops[k].label;
        if ((op >= FLAT_loop && op <= FLAT_back) || op >= FLAT_again_lt_f32 || (op == FLAT_jump && f->ops[k].n < 0)) return 0;
    }
    return !f->failed && (f->machine || !fg_flat_waits(f, top));
}

/* Of a loop whose turns have no branches and no loops in them: let registers hold what the next turn reads. The ops from `top` to the last are
 * a turn, of which `test` may leave the loop. Returns how many ops now stand before the turn, which load what the first turn finds. */
static int fg_flat_keep(FgFlat *f, int top, int test) {
    static const int loads[FG_FLAT_REGISTERS] = {FLAT_hold_f32, FLAT_hold_f64, FLAT_hold_v32, FLAT_hold_v64, FLAT_hold_i32, FLAT_hold_i64};
    const char *taken[FG_FLAT_REGISTERS] = {NULL};
    FgFlatHeld held[FG_FLAT_REGISTERS] = {0};
    int end = f->n_ops, n = 0;
    if (f->failed || f->machine) return 0;
    for (int k = top; k < end; k++) {
        int op = (int)(intptr_t)f->ops[k].label;
        if (k != test && ((op >= FLAT_jump && op <= FLAT_back) || op >= FLAT_unless_lt_f32)) return 0;
    }
    for (int k = top; k < end; k++) fg_flat_keep_op(&f->ops[k], held, NULL);
    for (int r = 0; r < FG_FLAT_REGISTERS; r++) held[r].begun = 1;
    for (int k = top; k < end; k++) {
        fg_flat_take_held(f, k, held);
        fg_flat_keep_op(&f->ops[k], held, taken);
    }
    for (int r = 0; r < FG_FLAT_REGISTERS; r++) {
        if (!taken[r]) continue;
        fg_flat_insert(f, top, loads[r], taken[r], fg_flat_register_bytes(r));
        n++;
    }
    return n;
}
#endif
