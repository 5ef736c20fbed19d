/* Flat code as machine code, where the processor has AVX-512 or AVX2: the ops of a loop become instructions on registers, without a jump from op to op, without
 * loads of what an op before has computed, and with what a turn hands to the next one in registers.  Everything computes the same bits as in the
 * interpreter.  Nothing is compiled: each op has its instructions here. */
#ifndef FG_FLAT_MACHINE_H
#define FG_FLAT_MACHINE_H
#include "flat_vex_narrow.h"

#if FG_MACHINE_CODE
/* ---- jumps and loops */

/* Where an op that ends a turn goes on; `top`: that of the innermost loop. -1: nowhere. */
static int nat_again(int op) { return op == FLAT_again || op == FLAT_back || op == FLAT_step || op == FLAT_step_held || (op >= FLAT_again_lt_f32 && op < FLAT_step); }
static int nat_unless(int op) { return op >= FLAT_unless_lt_f32 && op < FLAT_again_lt_f32; }
static int nat_targets(const FgFlatOp *ops, int i, int top, int *to) {
    const FgFlatOp *o = &ops[i];
    int op = (int)(intptr_t)o->label;
    if (op == FLAT_jump) { to[0] = i + (int)o->n; return 1; }
    if (op == FLAT_back) { to[0] = top; return 1; }
    if (nat_again(op)) { to[0] = top; to[1] = i + (int)o->n; return 2; }
    if (op == FLAT_unless) { to[0] = i + 1; to[1] = i + (int)o->n; return 2; }
    if (nat_unless(op)) { to[0] = i + (int)o->m; to[1] = i + (int)o->n; return 2; }
    if (op == FLAT_loop) { to[0] = i + (int)o->n; to[1] = i + (int)o->k; return 2; }
    if (op == FLAT_branch || op == FLAT_branch2) {
        for (int k = 0; k < o->n; k++) to[k] = i + ((const int32_t *)o->b)[k];
        return (int)o->n;
    }
    return 0;
}
/* The first op of the loop that `count` or `enter` begins. */
static int nat_top(const FgFlatOp *ops, int i, int top) {
    int op = (int)(intptr_t)ops[i].label;
    return op == FLAT_count ? i + (int)ops[i].k : op == FLAT_enter ? i + (int)ops[i].n : top;
}

/* Find the loops that have none inside, and mark what jumps lead to. */
static int nat_find_loops(FgNat *n, uint8_t *label) {
    FgFlat *f = n->f;
    int to[64], top = 0, n_back = 0;
    for (int i = 0; i < f->n_ops; i++) {
        top = nat_top(f->ops, i, top);
        int count = nat_targets(f->ops, i, top, to);
        for (int k = 0; k < count; k++) {
            if (to[k] < 0 || to[k] >= f->n_ops) return 0;
            if (to[k] != i + 1 || count > 2) label[to[k]] = 1;
            if (to[k] > i) continue;
            int same = -1;
            for (int j = 0; j < n_back; j++) if (n->loops[j].top == to[k]) same = j;
            if (same < 0) n->loops[same = n_back++] = (FgNatLoop){to[k], i, 0};
            n->loops[same].end = i;
        }
    }
    for (int i = 0; i < n_back; i++) {
        int inner = 1;
        for (int j = 0; j < n_back; j++) inner &= j == i || n->loops[j].top < n->loops[i].top || n->loops[j].end > n->loops[i].end;
        if (inner) n->loops[n->n_loops++] = n->loops[i];
    }
    for (int i = 0; i < f->n_ops; i++) {                    /* what a loop holds has to be loaded: it begins at its top alone */
        top = nat_top(f->ops, i, top);
        for (int k = nat_targets(f->ops, i, top, to) - 1; k >= 0; k--)
            for (int j = 0; j < n->n_loops; j++) {
                FgNatLoop *l = &n->loops[j];
                l->calls |= to[k] > l->top && to[k] <= l->end && (i < l->top || i > l->end);
            }
    }
    return 1;
}

/* The condition of a comparison of numbers, right behind which it holds. */
static int nat_condition(FgNat *n, int how, int t, int x, int y) {
    if (nat_is_whole(t)) { x86_op(&n->x, t == NAT_i64, X86_CMP, nat_g(x), nat_g(y)); return nat_signed[how]; }
    if (how == NAT_eq || how == NAT_ne) {
        nat_compare(n, how, t, x, y);
        nat_bool_of_mask(n, X86_AX);
        x86_op(&n->x, 0, X86_TEST, X86_AX, X86_AX);
        return X86_NE;
    }
    int swapped = how == NAT_lt || how == NAT_le, form = X86_FORM(1, t == NAT_f64, t == NAT_f64, 0, 0x2e);
    nat_v(n, form, swapped ? y : x, 0, swapped ? x : y, 0);
    return how == NAT_lt || how == NAT_gt ? X86_A : X86_AE;
}
static void nat_two_ways(FgNat *n, int condition, int yes, int no) {
    if (yes == n->op + 1) { nat_jump(n, condition ^ 1, no); return; }
    nat_jump(n, condition, yes);
    if (no != n->op + 1) nat_jump(n, X86_ALWAYS, no);
}
static void nat_control(FgNat *n, const FgFlatOp *o, int op, int top) {
    int to[64], count = nat_targets(n->f->ops, n->op, top, to), turns = 0, how, t = NAT_i32;
    for (int k = 0; k < count; k++) turns |= to[k] <= n->op;
    if (op == FLAT_step || op == FLAT_step_held) {
        int x = op == FLAT_step ? nat_read(n, NAT_I32, o->a, NAT_FIELD(a)) : nat_last(n, 4);
        nat_write(n, NAT_I32, o->d, NAT_FIELD(d), nat_step(n, NAT_i32, FG_STEP_ADD, x, nat_read(n, NAT_I32, o->b, NAT_FIELD(b)), NULL));
    }
    if (turns) nat_turn(n);
    switch (op) {
    case FLAT_count: x86_set(&n->x, X86_14, o->n); return;
    case FLAT_enter: return;
    case FLAT_jump: case FLAT_back: nat_jump(n, X86_ALWAYS, to[0]); return;
    case FLAT_again: x86_number(&n->x, 1, 5, X86_14, 1); nat_two_ways(n, X86_NE, to[0], to[1]); return;
    case FLAT_loop: {
        FgX86At cell = nat_at(n, o->d, NAT_FIELD(d), X86_AX);
        x86_op_at(&n->x, 1, 0x83, 5, cell); x86_1(&n->x, 1);            /* sub, 1 */
        nat_two_ways(n, X86_NE, to[0], to[1]);
        return;
    }
    case FLAT_unless: case FLAT_branch2: {
        int x = nat_read(n, NAT_B1, o->a, NAT_FIELD(a));
        x86_op(&n->x, 0, X86_TEST, nat_g(x), nat_g(x));
        nat_two_ways(n, X86_NE, to[op == FLAT_branch2], to[op == FLAT_unless]);
        return;
    }
    case FLAT_branch: {
        int x = nat_read(n, NAT_I32, o->a, NAT_FIELD(a));
        for (int k = 0; k < count - 1; k++) {               /* less than the first one is the first one */
            x86_number(&n->x, 0, 7, nat_g(x), k);
            nat_jump(n, k ? X86_E : X86_LE, to[k]);
        }
        nat_jump(n, X86_ALWAYS, to[count - 1]);
        return;
    }
    case FLAT_step: case FLAT_step_held: {
        int x = nat_read(n, NAT_I32, o->d, NAT_FIELD(d)), y = nat_read(n, NAT_I32, o->c, NAT_FIELD(c));
        nat_two_ways(n, nat_condition(n, NAT_lt, NAT_i32, x, y), to[0], to[1]);
        return;
    }
    }
    how = op >= FLAT_again_lt_f32 ? op - FLAT_again_lt_f32 : op - FLAT_unless_lt_f32;
    t = (const uint8_t[]){NAT_f32, NAT_f64, NAT_i32, NAT_i64}[how / 6];
    int x = nat_read(n, nat_kind[t], o->a, NAT_FIELD(a)), y = nat_read(n, nat_kind[t], o->b, NAT_FIELD(b));
    int condition = nat_condition(n, how % 6, t, x, y);
    nat_two_ways(n, condition, to[0], to[1]);
}

/* ---- one op */

static void nat_op(FgNat *n, int top) {
    const FgFlatOp *o = &n->f->ops[n->op];
    const int op = (int)(intptr_t)o->label;
    n->narrow = nat_narrow_vectors(n, o, op);
    if (!nat_has(op)) { nat_other(n, o, op); return; }
    if (op < FG_CHAINS) { nat_chain(n, o, op); return; }
    switch (op) {
    #define M(name, t, ...) case FLAT_##name##_##t##_mm: case FLAT_##name##_##t##_am: case FLAT_##name##_##t##_ma: \
        nat_binary(n, o, op - FLAT_##name##_##t##_mm, FG_OP_##name, NAT_##t); return;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t##_m: case FLAT_##name##_##t##_a: nat_unary(n, o, op - FLAT_##name##_##t##_m, FG_OP_##name, NAT_##t); return;
    FG_FLAT_UN_FIRST(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t##_m: case FLAT_##name##_##t##_a: nat_round(n, o, op - FLAT_##name##_##t##_m, FG_OP_##name == FG_OP_round_f16, NAT_##t); return;
    FG_FLAT_ROUND(M)
    #undef M
    #define M(name) case FLAT_##name:
    FG_FLAT_HALF(M) nat_half(n, o, op); return;
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_compared(n, o, NAT_##name, NAT_##t); return;
    FG_FLAT_COMPARE_ONE(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_logical(n, o, FG_OP_##name, NAT_##t); return;
    FG_FLAT_BOOL(M) FG_FLAT_BYTES(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_compared_vectors(n, o, NAT_##name, NAT_##t); return;
    FG_FLAT_VECTOR_COMPARE(M)
    #undef M
    #define M(name, t, ...) case FLAT_where_##name##_##t: nat_where_vectors(n, o, NAT_##name, NAT_##t); return;
    FG_FLAT_WHERE(M)
    #undef M
    #define M(name, t, expr, T, s, ...) case FLAT_where_##name##_##t##_##s: nat_where(n, o, NAT_##name, NAT_##t, NAT_##s); return;
    FG_FLAT_WHERE_ONE(M)
    #undef M
    #define M(t, ...) case FLAT_select_##t: nat_select_vectors(n, o, NAT_##t); return;
    FG_FLAT_VECTOR_SELECT(M)
    #undef M
    #define M(t, T) case FLAT_select_##t: nat_select(n, o, sizeof(T)); return;
    FG_FLAT_SELECT(M)
    #undef M
    #define M(s, S, t, T) case FLAT_cast_##s##_##t: nat_cast(n, o, NAT_##s, NAT_##t); return;
    enum { NAT_bool = NAT_b1 };
    FG_FLAT_CAST(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_narrow(n, o, FG_OP_##name, NAT_##t); return;
    FG_FLAT_NARROW(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_narrow_compared(n, o, NAT_##name, NAT_##t); return;
    FG_FLAT_NARROW_COMPARE(M)
    #undef M
    #define M(s, S, t, T) case FLAT_cast_##s##_##t: nat_narrow_cast(n, o, NAT_##s, NAT_##t); return;
    FG_FLAT_NARROW_CAST(M)
    #undef M
    #define FG_TINY_q8 1, 0
    #define FG_TINY_s8 1, 1
    #define FG_TINY_q16 0, 0
    #define FG_TINY_s16 0, 1
    #define FG_TINY_b8 1, 0
    case FLAT_not_b8: nat_tiny_not(n, o); return;
    #define M(name, t, ...) case FLAT_##name##_##t: nat_tiny(n, o, FG_OP_##name, FG_TINY_##t); return;
    FG_FLAT_TINY_NUMBERS(M)
    #undef M
    #define M(name, t, ...) case FLAT_##name##_##t: nat_tiny_compared(n, o, NAT_##name, FG_TINY_##t); return;
    FG_FLAT_TINY_COMPARE(M)
    #undef M
    case FLAT_select_q8: nat_tiny_select(n, o, 1); return;
    case FLAT_select_q16: nat_tiny_select(n, o, 0); return;
    case FLAT_bytes: nat_pieces(n, o); return;
    case FLAT_select_h1: nat_select(n, o, 2); return;
    case FLAT_clamp_i32: nat_clamp(n, o, NAT_i32); return;
    case FLAT_clamp_i64: nat_clamp(n, o, NAT_i64); return;
    case FLAT_choose: nat_choose(n, o); return;
    case FLAT_splat1: nat_splat(n, o, 1); return;
    case FLAT_splat2: nat_splat(n, o, 2); return;
    case FLAT_splat4: nat_splat(n, o, 4); return;
    case FLAT_splat8: nat_splat(n, o, 8); return;
#if FG_MACHINE_CODE == 1
    case FLAT_pack: vex_pack(n, o); return;
#else
    case FLAT_pack: nat_pack(n, o); return;
#endif
    case FLAT_long_pack: nat_long_pack(n, o); return;
    case FLAT_lanes: nat_lanes(n, o); return;
    case FLAT_permute: nat_permute(n, o); return;
#if FG_MACHINE_CODE == 1
    case FLAT_sum_f32: nat_sum_numbers(n, o); return;
#endif
    case FLAT_dot: nat_dot(n, o, 0); return;
    case FLAT_dot1: if (o->g) nat_dot(n, o, 1); else nat_line(n, o, 0); return;
    case FLAT_long_dot: nat_long_dot(n, o, 0); return;
    case FLAT_long_dot1: if (o->g) nat_long_dot(n, o, 1); else nat_line(n, o, 1); return;
    #define M(name, how) case FLAT_##name##2: case FLAT_##name##4: nat_fold(n, o, how, op == FLAT_##name##4, how ? nat_apart(n) : NULL); return;
    M(sums, FG_FOLD_SUM) M(maxima, FG_FOLD_MAX) M(minima, FG_FOLD_MIN)
    #undef M
    case FLAT_argmaxima2: case FLAT_argmaxima4: nat_positions(n, o, FG_FOLD_MAX, op == FLAT_argmaxima4); return;
    case FLAT_argminima2: case FLAT_argminima4: nat_positions(n, o, FG_FOLD_MIN, op == FLAT_argminima4); return;
    case FLAT_argmax: case FLAT_argmin: nat_position(n, o, op == FLAT_argmax ? FG_FOLD_MAX : FG_FOLD_MIN); return;
    case FLAT_gather: case FLAT_scatter: nat_items(n, o, op); return;
    case FLAT_items:
        nat_argument_at(n, 0, o->d, NAT_FIELD(d));
        nat_argument_at(n, 1, o->a, NAT_FIELD(a));
        nat_argument_at(n, 2, o->b, NAT_FIELD(b));
        nat_function(n, o->fn);
        return;
    case FLAT_set:
        x86_set(&n->x, X86_AX, o->n);
        x86_op_at(&n->x, 1, X86_STORE, X86_AX, nat_at(n, o->d, NAT_FIELD(d), X86_DX));
        nat_changed(n, o->d, 8);
        return;
    case FLAT_point:
        x86_op_at(&n->x, 1, X86_MOV, X86_AX, nat_at(n, o->a, NAT_FIELD(a), X86_DX));
        x86_set(&n->x, X86_CX, o->n);
        x86_op(&n->x, 1, X86_ADD, X86_AX, X86_CX);
        x86_op_at(&n->x, 1, X86_STORE, X86_AX, nat_at(n, o->d, NAT_FIELD(d), X86_DX));
        nat_changed(n, o->d, 8);
        return;
    case FLAT_fn:
        nat_argument(n, 0, o->n);
        nat_argument_at(n, 1, o->d, NAT_FIELD(d));
        nat_argument_at(n, 2, o->a, NAT_FIELD(a));
        nat_argument_at(n, 3, o->b, NAT_FIELD(b));
        nat_argument_at(n, 4, o->c, NAT_FIELD(c));
        nat_function(n, o->fn);
        return;
    case FLAT_seg:
        nat_argument_at(n, 0, o->d, NAT_FIELD(d));
        nat_argument_at(n, 1, o->a, NAT_FIELD(a));
        nat_argument_at(n, 2, o->a, NAT_FIELD(a));
        nat_argument(n, 3, o->n);
        nat_argument(n, 4, o->k);
        nat_argument(n, 5, o->m);
        nat_function(n, o->fn);
        return;
    case FLAT_call:
        nat_argument(n, 0, (int64_t)(intptr_t)o->a);
        nat_argument(n, 1, (int64_t)(intptr_t)o->d);
        x86_clear_upper(&n->x);
        x86_call(&n->x, (const void *)((const FgInst *)o->a)->run);
        x86_op(&n->x, 0, X86_TEST, X86_AX, X86_AX);
        nat_jump(n, X86_NE, n->f->n_ops);                   /* a fault */
        nat_called(n);
        return;
    case FLAT_end:
        x86_op(&n->x, 0, X86_XOR, X86_AX, X86_AX);
        nat_jump(n, X86_ALWAYS, n->f->n_ops);
        return;
    case FLAT_copy1: case FLAT_copy4: case FLAT_copy8: case FLAT_copy16: case FLAT_copy32: case FLAT_copy64: case FLAT_copy: nat_copy(n, o, op); return;
    }
    if (op >= FLAT_load4 && op <= FLAT_load) nat_load_row(n, o, op);
    else if (op >= FLAT_store4 && op <= FLAT_store) nat_store_row(n, o, op);
    else if ((op >= FLAT_takes1 && op <= FLAT_takes) || (op >= FLAT_puts1 && op <= FLAT_puts)) nat_windows(n, o, op);
    else if ((op >= FLAT_take1 && op <= FLAT_take8_sum) || (op >= FLAT_put1 && op <= FLAT_put8_sum)) nat_one_window(n, o, op);
    else if ((op >= FLAT_jump && op <= FLAT_back) || op >= FLAT_unless_lt_f32) nat_control(n, o, op, top);
    else if (fg_flat_takes_last(op) || (op >= FLAT_hold_f32 && op <= FLAT_hold_i64)) n->failed = 1;
    else nat_other(n, o, op);
}

/* Mark, of each 64 bytes, where the turns of a loop write a vector. */
static void nat_find_written(const FgNat *n, uint8_t *written) {
    memset(written, 0, FG_FLAT_MEMORY / 64);
    for (int i = 0; i < n->n_notes; i++)
        if (n->notes[i].written && (n->notes[i].kind == NAT_V || n->notes[i].kind == NAT_Y)) written[(n->notes[i].addr - n->f->memory) / 64] = 1;
}
/* 1 for what meets such a vector and is not all of it: in a register of its own it would be loaded again right behind that, where the vector's has it. */
static int nat_part_of_result(const FgNat *n, const FgNatNote *note, const uint8_t *written) {
    const int64_t at = note->addr - n->f->memory, end = at + nat_bytes[note->kind] - 1;
    const int whole = at % 64 == 0 && (note->kind == NAT_V || note->kind == NAT_Y);
    return !whole && (written[at / 64] || written[end / 64]);
}
/* Hold throughout a loop what its turns read before they write it. */
static void nat_pin(FgNat *n, const FgNatLoop *loop, int top) {
    const int most = n->few ? 0 : n->vectors ? NAT_PINS_OF_VECTORS : NAT_PINS;
    int pins = 0, generals = 0, op = n->op;
    n->dry = n->x.off = 2;
    for (int i = 0; i < n->n_notes; i++) n->noted[(n->notes[i].addr - n->f->memory) / 4] = 0;
    n->n_notes = n->called = 0;
    for (n->op = loop->top; n->op <= loop->end; n->op++) nat_op(n, top);
    n->op = op;
    n->dry = n->x.off = n->narrow = 0;
    uint8_t written[FG_FLAT_MEMORY / 64];
    if (NAT_FEW) nat_find_written(n, written);
    while (!n->called && !loop->calls) {
        FgNatNote *best = NULL;
        for (int i = 0; i < n->n_notes; i++) {
            FgNatNote *note = &n->notes[i];
            int general = nat_is_general(note->kind), cost = nat_is_pair(note->kind) ? NAT_PIN_COST : 1;
            if (NAT_FEW && nat_part_of_result(n, note, written)) continue;
            if (NAT_FEW && !general && !note->written && note->count < 2) continue;         /* an operand in memory, once a turn */
            if (!note->read_first || (general ? generals == NAT_GENERAL_PINS : pins + cost > most)) continue;
            if (!best || note->count > best->count) best = note;
        }
        if (!best) break;
        int general = nat_is_general(best->kind), reg = nat_new_pin(n, best->kind);
        if (n->failed) break;
        n->pinned |= (uint64_t)1 << reg;
        n->held[n->n_held++] = (FgNatHeld){best->addr, (int16_t)best->kind, (int16_t)reg, 1};
        nat_load(n, best->kind, reg, nat_at(n, best->addr, 0, X86_AX));
        best->read_first = 0;
        if (general) generals++; else pins += nat_is_pair(best->kind) ? NAT_PIN_COST : 1;
    }
}

/* As before any translation. */
static void nat_begin(FgNat *n, uint8_t *code, int n_moving) {
    free(n->apart);
    n->apart = NULL;
    n->x.at = code;
    n->x.off = n->x.failed = n->failed = n->n_held = n->n_jumps = n->n_asides = n->n_apart = n->made_apart = n->n_loops = 0;
    n->pinned = n->wide = 0;
    n->clock = 0;
    memset(n->used, 0, sizeof n->used);
    if (n->reads) memset(n->reads, 0, FG_FLAT_MEMORY / 4);
    n->f->n_moving = n_moving;          /* those of ops apart are behind it */
}
/* The code; 0 if it does not fit. */
static int nat_translate(FgNat *n, uint8_t *label) {
    static const uint8_t saved[] = {X86_BX, X86_BP, X86_12, X86_13, X86_14, X86_15};
    FgFlat *f = n->f;
    FgX86 *x = &n->x;
    int top = 0;
    n->dry = x->off = 1;
    for (n->op = 0; n->op < f->n_ops; n->op++) { top = nat_top(f->ops, n->op, top); nat_op(n, top); }
    n->dry = x->off = 0;
    n->apart = (FgFlatOp *)calloc(n->n_apart + 1, sizeof(FgFlatOp));
    if (n->failed || !n->apart || !nat_find_loops(n, label)) return 0;
    nat_forget(n);
    x86_4(x, 0xfa1e0ff3);               /* endbr64 */
    for (int i = 0; i < 6; i++) x86_push(x, saved[i]);
    x86_number(x, 1, 5, X86_SP, 8);
    x86_op(x, 1, X86_MOV, X86_BX, X86_DI);
    x86_op(x, 1, X86_MOV, X86_12, X86_SI);
    x86_op(x, 1, X86_MOV, X86_13, X86_DX);
    x86_op_at(x, 1, X86_MOV, X86_15, (FgX86At){X86_13, -1, (int32_t)offsetof(FgTurns, left)});
    for (n->op = 0, n->in = -1, top = 0; n->op < f->n_ops && !n->failed && !x->failed; n->op++) {
        n->clock++;
        top = nat_top(f->ops, n->op, top);
        if (label[n->op]) nat_forget(n);
        n->at[n->op] = x->at - x->begin;
        for (int i = 0; i < n->n_loops && n->in < 0; i++) if (n->loops[i].top == n->op) { n->in = i; nat_pin(n, &n->loops[i], top); }
        n->inside[n->op] = x->at - x->begin;
        nat_op(n, top);
        if (n->in >= 0 && n->loops[n->in].end == n->op) {
            n->in = -1;
            n->pinned = 0;
            n->n_held = 0;
            nat_forget(n);
        }
    }
    n->at[f->n_ops] = n->inside[f->n_ops] = x->at - x->begin;            /* leave, with ax */
    x86_clear_upper(x);
    x86_number(x, 1, 0, X86_SP, 8);
    for (int i = 5; i >= 0; i--) x86_pop(x, saved[i]);
    x86_1(x, 0xc3);
    nat_code_of_asides(n, n->at[f->n_ops]);
    if (n->failed || x->failed) return 0;
    for (int i = 0; i < n->n_jumps; i++) {
        const FgNatJump *j = &n->jumps[i];
        int within = 0;
        for (int k = 0; k < n->n_loops; k++) within |= n->loops[k].top == j->target && j->from >= j->target && j->from <= n->loops[k].end;
        x86_lead(x, j->jump, within ? n->inside[j->target] : n->at[j->target]);
    }
    return 1;
}

static int nat_try(FgNat *n, uint8_t *code, int n_moving, uint8_t *label) {
    nat_begin(n, code, n_moving);
    return nat_translate(n, label);
}

static void fg_flat_forget_machine(FgFlat *f) {
    if (f->code) munmap((void *)f->code, f->code_bytes);
    free(f->apart);
}

/* Give flat code, whose labels are still numbers, its machine code, if it can have any. */
static void fg_flat_to_machine(FgFlat *f, const void *const *labels) {
    enum { PER_OP = FG_MACHINE_CODE == 1 ? 1024 : 384, MORE = 1 << 16 };
    size_t size = (size_t)f->n_ops * PER_OP + MORE, bytes;
    FgNat *n = (FgNat *)calloc(1, sizeof(FgNat));
    uint8_t *label = (uint8_t *)calloc(f->n_ops + 1, 1), *code = (uint8_t *)malloc(size);
    char *numbers = fg_flat_room(f, NAT_NUMBERS, 64);
    if (f->failed) f->failed = 0;       /* no room: the interpreter needs none of this */
    else if (n && label && code) {
        n->f = f;
        n->labels = labels;
        n->x.begin = n->x.at = code;
        n->x.end = code + size;
        n->numbers = numbers;
        nat_fill_numbers(numbers);
        n->kinds = (uint8_t *)calloc(FG_FLAT_MEMORY / 4, 1);
        n->noted = (int16_t *)calloc(FG_FLAT_MEMORY / 4, sizeof(int16_t));
        n->notes = (FgNatNote *)malloc(NAT_NOTES * sizeof(FgNatNote));
        n->at = (int64_t *)calloc(2 * (f->n_ops + 1), sizeof(int64_t));
        n->loops = (FgNatLoop *)calloc(f->n_ops + 1, sizeof(FgNatLoop));
        n->inside = n->at + f->n_ops + 1;
        const int n_moving = f->n_moving, have = n->kinds && n->notes && n->noted && n->at && n->loops && nat_look(n);
        int done = 0;
        for (; have && !done && n->few <= NAT_FEW; n->few++) {
            done = nat_try(n, code, n_moving, label);
            if (!done || !nat_spares(n)) continue;
            n->sparing = 1;
            done = nat_try(n, code, n_moving, label);
            n->sparing = 0;
            if (!done) done = nat_try(n, code, n_moving, label);
        }
        if (done) {
            f->code = fg_code_keep(code, (size_t)(n->x.at - code), &bytes);
            f->code_bytes = bytes;
        }
        f->apart = n->apart;
        free(n->kinds); free(n->notes); free(n->noted); free(n->at); free(n->loops); free(n->upper); free(n->alone); free(n->needed); free(n->reads); free(n->jumps); free(n->asides);
    }
    free(n); free(label); free(code);
}
static int fg_flat_run_machine(FgFlat *f) {
    FgTurns turns = {32, 32, 0};
    return ((int (*)(char *, FgFlatOp *, FgTurns *))f->code)(f->memory, f->ops, &turns);
}
#else
static void fg_flat_to_machine(FgFlat *f, const void *const *labels) { (void)f; (void)labels; }
static void fg_flat_forget_machine(FgFlat *f) { (void)f; }
static int fg_flat_run_machine(FgFlat *f) { return fg_flat_run(f->ops, NULL); }
#endif
#endif
