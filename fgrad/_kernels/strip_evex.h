/* Steps of strips in AVX-512: masks choose lanes, also those that there are of the last vector. Part of strip_machine.h. */
#ifndef FG_STRIP_EVEX_H
#define FG_STRIP_EVEX_H

/* Memory of a tile, of which there may be less than a vector. */
static void sm_load_tile(SmCode *c, int reg, FgX86At m) {
    const int wide = c->m->lane == 8;
    x86_v_at(&c->x, X86_FORM(1, wide, wide, 2, 0x10), reg, 0, m, c->part ? SM_PART + 8 : 0);
}
static void sm_store_tile(SmCode *c, int reg, FgX86At m) {
    const int wide = c->m->lane == 8;
    if (c->part && c->words) {          /* a load of what follows, as of the next row, would wait for a masked store of all of a vector */
        const int forms[] = {X86_FORM(1, 0, 0, 1, 0x11), X86_FORM(1, 0, 0, 0, 0x11), X86_FORM(1, 1, 1, 0, 0xd6), X86_FORM(1, 1, 0, 0, 0x7e)};
        for (int k = 0, done = 0, from = reg; k < 4; k++) {
            const int n = 8 >> k;
            if (!(c->words & n)) continue;
            if (done) { x86_v(&c->x, X86_FORM(3, 1, 0, 2, 0x03), 0, reg, reg, 0); x86_1(&c->x, done); from = 0; }
            x86_v_at(&c->x, forms[k], from, 0, m, 0);
            m.disp += 4 * n;
            done += n;
        }
        return;
    }
    x86_v_at(&c->x, X86_FORM(1, wide, wide, 2, 0x11), reg, 0, m, c->part ? SM_PART : 0);
}
/* Lanes of 1 or 2 bytes, to register 0. */
static void sm_load_narrow(SmCode *c, int bytes, FgX86At m) {
    x86_v_at(&c->x, bytes == 1 ? X86_FORM(1, 3, 0, 0, 0x6f) : X86_FORM(1, 3, 1, 1, 0x6f), 0, 0, m, c->part ? SM_PART + 8 : 0);
}
/* A number of a general register in all lanes. */
static void sm_spread(SmCode *c, int reg, int from) { x86_v(&c->x, X86_FORM(2, 1, sm_wide(c), 2, 0x7c), reg, 0, from, 0); }
/* What there is of the last vector: so many lanes, or what lies before the end. */
static void sm_part_of(SmCode *c, int lanes) {
    x86_set(&c->x, X86_AX, (1 << lanes) - 1);
    x86_vex(&c->x, X86_TO_MASK, SM_PART, 0, X86_AX);
}
static void sm_part_here(SmCode *c) {
    FgX86 *x = &c->x;
    x86_op(x, 1, X86_MOV, X86_AX, SM_END_AT);
    x86_op(x, 1, X86_SUB, X86_AX, SM_AT);
    x86_shift(x, 1, 5, X86_AX, sm_wide(c) ? 3 : 2);
    x86_set(x, X86_CX, sm_wide(c) ? 255 : 65535);
    x86_vex(x, X86_FORM(2, 0, 0, 0, 0xf5), X86_CX, X86_AX, X86_CX);     /* bzhi */
    x86_vex(x, X86_TO_MASK, SM_PART, 0, X86_CX);
}
/* reg = x op y, with y from wherever it is */
static void sm_op(SmCode *c, int form, int reg, int x, int y, int u, int k) {
    if (sm_far(c, y, u)) x86_v_at(&c->x, form, reg, x, sm_home(c, y, u), k);
    else x86_v(&c->x, form, reg, x, sm_get(c, y, u), k);
}
/* kmovw from (0x90) or to (0x91) the stack */
static void sm_move_mask(SmCode *c, int how, int k, int slot) {
    x86_1(&c->x, 0xc5); x86_1(&c->x, 0xf8); x86_1(&c->x, how);
    x86_place(&c->x, k, sm_stack(slot));
}
/* A mask: a free one, or that of the value which is wanted last. */
static int sm_new_mask(SmCode *c) {
    int best = -1, when = c->step;
    for (int k = SM_FIRST_MASK; k < SM_PART; k++) {
        if (c->masks[k] < 0) return k;
        int next = sm_next(c, c->masks[k]);
        if (next > when) { when = next; best = k; }
    }
    if (best < 0) { c->failed = 1; return SM_FIRST_MASK; }
    const int v = c->masks[best], u = c->mask_turn[best];
    if (c->slot[v][u] < 0) {
        c->slot[v][u] = (int16_t)c->n_slots++;
        sm_move_mask(c, 0x91, best, c->slot[v][u]);
    }
    c->reg[v][u] = -1;
    return best;
}
static void sm_hold_mask(SmCode *c, int v, int u, int k) { c->reg[v][u] = (int8_t)k; c->masks[k] = (int16_t)v; c->mask_turn[k] = (int16_t)u; }
static int sm_mask(SmCode *c, int v, int u) {
    if (c->reg[v][u] >= 0) return c->reg[v][u];
    if (c->slot[v][u] < 0) { c->failed = 1; return SM_FIRST_MASK; }
    const int k = sm_new_mask(c);
    sm_move_mask(c, 0x90, k, c->slot[v][u]);
    sm_hold_mask(c, v, u, k);
    return k;
}

/* ---- steps */

/* x where it is no number, else the greater or lesser */
static void sm_extreme(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), form = sm_real_form(s->type, s->op == FG_OP_max ? 0x5f : 0x5d), d = sm_new(c);
    sm_op(c, form, d, x, s->s[1], u, 0);
    x86_v(&c->x, sm_real_form(s->type, 0xc2), 1, x, x, 0); x86_1(&c->x, 3);
    x86_v(&c->x, sm_real_form(s->type, 0x28), d, 0, x, 1);
    sm_leave(c, s, u);
    sm_hold(c, s->d, u, d);
}
/* As vec_rsqrt_f32. */
static void sm_rsqrt(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), d = sm_new(c), e = 0, t = 1;
    FgX86 *m = &c->x;
    x86_v(m, X86_FORM(2, 1, 0, 2, 0x4e), d, 0, x, 0);                   /* y */
    x86_v(m, X86_FORM(1, 0, 0, 2, 0x59), t, x, d, 0);                   /* h = x y */
    sm_copy(c, e, s->s[1]);
    x86_v(m, X86_FORM(2, 1, 0, 2, 0xbc), e, t, d, 0);                   /* e = 1 - h y */
    sm_copy(c, t, s->s[2]);
    sm_op(c, X86_FORM(2, 1, 0, 2, 0xa8), t, e, s->entry, u, 0);         /* 0.375 e + 0.5 */
    x86_v(m, X86_FORM(1, 0, 0, 2, 0x59), t, e, t, 0);
    x86_v(m, X86_FORM(1, 0, 0, 2, 0xc2), 1, e, e, 0); x86_1(m, 0);
    x86_v(m, X86_FORM(2, 1, 0, 2, 0x98), t, d, d, 0);                   /* y + y s */
    x86_v(m, X86_FORM(1, 0, 0, 2, 0x28), d, 0, t, 1);
    sm_leave(c, s, u);
    sm_hold(c, s->d, u, d);
}
/* A vector of float32 rounded to bfloat16: the lower half of register 0. The machine's own rounding takes subnormal numbers for 0. */
static void sm_round_bf16(SmCode *c, int x, int carry, int u) {
    FgX86 *m = &c->x;
    #ifdef __AVX512BF16__
    x86_v(m, X86_FORM(2, 2, 0, 2, 0x72), 0, 0, x, 0);
    x86_v(m, X86_FORM(3, 1, 0, 2, 0x66), 1, 0, x, 0); x86_1(m, 0x20);
    x86_1(m, 0xc5); x86_1(m, 0xf8); x86_1(m, 0x98); x86_1(m, 0xc9);             /* kortest 1, 1 */
    const int64_t usual = x86_jump(m, X86_E);
    #endif
    x86_v(m, X86_FORM(1, 1, 0, 2, 0x72), 6, 1, x, 0); x86_1(m, 15);             /* the last bit that is kept */
    x86_v(m, X86_FORM(1, 1, 0, 2, 0x72), 2, 1, 1, 0); x86_1(m, 31);
    x86_v(m, X86_FORM(1, 1, 0, 2, 0xfe), 1, 1, x, 0);
    if (c->reg[carry][0] >= 0) x86_v(m, X86_FORM(1, 1, 0, 2, 0xfe), 1, 1, c->reg[carry][0], 0);
    else x86_v_at(m, X86_FORM(1, 1, 0, 2, 0xfe), 1, 1, sm_home(c, carry, u), 0);
    x86_v(m, X86_FORM(1, 0, 0, 2, 0xc2), 1, x, x, 0); x86_1(m, 3);
    x86_v(m, X86_FORM(1, 0, 0, 2, 0x58), 1, x, x, 1);                           /* a quiet NaN */
    x86_v(m, X86_FORM(1, 1, 0, 2, 0x72), 2, 1, 1, 0); x86_1(m, 16);
    x86_v(m, X86_FORM(2, 2, 0, 2, 0x33), 1, 0, 0, 0);
    #ifdef __AVX512BF16__
    x86_land(m, usual);
    #endif
}
static void sm_round_half(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u);
    FgX86 *m = &c->x;
    if (s->op == FG_OP_round_bf16) sm_round_bf16(c, x, s->s[1], u);
    else { x86_v(m, X86_FORM(3, 1, 0, 2, 0x1d), x, 0, 0, 0); x86_1(m, 0); }
    sm_leave(c, s, u);
    const int d = sm_new(c);
    x86_v(m, X86_FORM(2, 1, 0, 2, s->op == FG_OP_round_bf16 ? 0x33 : 0x13), d, 0, 0, 0);
    if (s->op == FG_OP_round_bf16) { x86_v(m, X86_FORM(1, 1, 0, 2, 0x72), 6, d, d, 0); x86_1(m, 16); }
    sm_hold(c, s->d, u, d);
}
static void sm_do_step(SmCode *c, const SmStep *s, int u) {
    const int x = s->s[0], y = s->s[1];
    if (!sm_real(s->type)) {
        const int form = sm_whole_form(s->type, s->op);
        if (!form) { c->failed = 1; return; }
        sm_two(c, s, u, form, x, y);
        return;
    }
    switch (s->op) {
    case FG_OP_add: sm_two(c, s, u, sm_real_form(s->type, 0x58), x, y); return;
    case FG_OP_sub: sm_two(c, s, u, sm_real_form(s->type, 0x5c), x, y); return;
    case FG_OP_mul: sm_two(c, s, u, sm_real_form(s->type, 0x59), x, y); return;
    case FG_OP_div: sm_two(c, s, u, sm_real_form(s->type, 0x5e), x, y); return;
    case FG_OP_max: case FG_OP_min: {
        const int form = sm_real_form(s->type, s->op == FG_OP_max ? 0x5f : 0x5d);
        if (s->form == FG_FORM_KNOWN) sm_two(c, s, u, form, y, x);
        else if (s->form == FG_FORM_ELSE) sm_two(c, s, u, form, x, y);
        else sm_extreme(c, s, u);
        return;
    }
    case FG_OP_sqrt: sm_one(c, s, u, sm_real_form(s->type, 0x51), -1); return;
    case FG_OP_floor: case FG_OP_ceil: case FG_OP_trunc: case FG_OP_round_even:
        sm_one(c, s, u, X86_FORM(3, 1, s->type == FG_F64, 2, 0x08 + (s->type == FG_F64)),
               s->op == FG_OP_floor ? 9 : s->op == FG_OP_ceil ? 10 : s->op == FG_OP_trunc ? 11 : 8);
        return;
    case FG_OP_rsqrt: sm_rsqrt(c, s, u); return;
    case FG_OP_round_bf16: case FG_OP_round_f16: sm_round_half(c, s, u); return;
    }
    c->failed = 1;
}
static void sm_compare_step(SmCode *c, const SmStep *s, int u) {
    static const uint8_t real[] = {0, 4, 0x11, 0x12, 0x1e, 0x1d}, whole[] = {0, 4, 1, 2, 6, 5};
    const int order[] = {FG_OP_eq, FG_OP_ne, FG_OP_lt, FG_OP_le, FG_OP_gt, FG_OP_ge}, is_signed = s->type == FG_I32 || s->type == FG_I64;
    int how = 0;
    while (how < 5 && order[how] != s->op) how++;
    const int form = sm_real(s->type) ? sm_real_form(s->type, 0xc2) : X86_FORM(3, 1, fg_itemsize(s->type) == 8, 2, is_signed ? 0x1f : 0x1e);
    const int x = sm_get(c, s->s[0], u), k = sm_new_mask(c);
    sm_op(c, form, k, x, s->s[1], u, 0);
    x86_1(&c->x, sm_real(s->type) ? real[how] : whole[how]);
    sm_leave(c, s, u);
    sm_hold_mask(c, s->d, u, k);
}
/* Masks' operations: and, and not, not, or, both or neither, either. */
enum { SM_KAND = 0x41, SM_KANDN = 0x42, SM_KNOT = 0x44, SM_KOR = 0x45, SM_KXNOR = 0x46, SM_KXOR = 0x47 };
static void sm_k(SmCode *c, int op, int d, int x, int y) {           /* of 16 bits */
    FgX86 *m = &c->x;
    x86_1(m, 0xc5);
    x86_1(m, 0x80 | (op == SM_KNOT ? 15 : (~x & 15)) << 3 | (op == SM_KNOT ? 0 : 4));
    x86_1(m, op);
    x86_1(m, 0xc0 | d << 3 | y);
}
static void sm_logic_step(SmCode *c, const SmStep *s, int u) {
    const int x = sm_mask(c, s->s[0], u), y = s->s[1] < 0 ? x : sm_mask(c, s->s[1], u);
    sm_leave(c, s, u);
    const int k = sm_new_mask(c);
    const int op = s->op == FG_OP_and ? SM_KAND : s->op == FG_OP_or ? SM_KOR : s->op == FG_OP_not ? SM_KNOT : s->op == FG_OP_eq ? SM_KXNOR : SM_KXOR;
    sm_k(c, op, k, x, y);
    sm_hold_mask(c, s->d, u, k);
}
static void sm_pick_step(SmCode *c, const SmStep *s, int u) {
    const int k = sm_mask(c, s->s[0], u);
    if (sm_of(c, s->d)->mask) {
        const int x = sm_mask(c, s->s[1], u), y = sm_mask(c, s->s[2], u);
        sm_leave(c, s, u);
        const int d = sm_new_mask(c);
        sm_k(c, SM_KANDN, 1, k, y);
        sm_k(c, SM_KAND, d, k, x);
        sm_k(c, SM_KOR, d, d, 1);
        sm_hold_mask(c, s->d, u, d);
        return;
    }
    const int y = sm_get(c, s->s[2], u), far = sm_far(c, s->s[1], u), x = far ? 0 : sm_get(c, s->s[1], u);
    FgX86At at = far ? sm_home(c, s->s[1], u) : (FgX86At){0, -1, 0};
    const int form = X86_FORM(2, 1, sm_wide(c), 2, 0x65);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (far) x86_v_at(&c->x, form, d, y, at, k); else x86_v(&c->x, form, d, y, x, k);
    sm_hold(c, s->d, u, d);
}
static void sm_numbers_step(SmCode *c, const SmStep *s, int u) {
    const int k = sm_mask(c, s->s[0], u), d = sm_new(c), form = X86_FORM(1, 0, 0, 2, 0x28);
    const int wide_form = sm_wide(c) ? X86_FORM(1, 1, 1, 2, 0x28) : form;
    sm_op(c, wide_form, d, 0, s->s[1], u, k + 8);
    sm_leave(c, s, u);
    sm_hold(c, s->d, u, d);
}
static void sm_convert_step(SmCode *c, const SmStep *s, int u) {
    if (s->type == FG_I32) { sm_one(c, s, u, X86_FORM(1, 0, 0, 2, 0x5b), -1); return; }
    if (s->type == FG_I64) { sm_one(c, s, u, X86_FORM(1, 2, 1, 2, 0xe6), -1); return; }
    const int x = sm_get(c, s->s[0], u), d = sm_new(c);                 /* saturated, and 0 of what is no number */
    x86_v(&c->x, X86_FORM(1, 0, 0, 2, 0xc2), 1, x, x, 0); x86_1(&c->x, 7);
    x86_v(&c->x, X86_FORM(1, 2, 0, 2, 0x5b), d, 0, x, 1 + 8);
    sm_op(c, X86_FORM(1, 0, 0, 2, 0xc2), 1, x, s->s[1], u, 0); x86_1(&c->x, 0x1d);
    sm_op(c, X86_FORM(1, 0, 0, 2, 0x28), d, 0, s->s[2], u, 1);
    sm_leave(c, s, u);
    sm_hold(c, s->d, u, d);
}
/* The bytes of a vector's lanes: to a mask, by their lowest or (of boxes' marks) their highest bits. */
static void sm_bytes(SmCode *c, int k, FgX86At m, int highest) {
    if (c->part && !highest) sm_load_narrow(c, 1, m);
    else x86_v_at(&c->x, sm_wide(c) ? X86_FORM(1, 2, 1, 0, 0x7e) : X86_FORM(1, 2, 0, 0, 0x6f), 0, 0, m, 0);
    if (highest) x86_v(&c->x, X86_FORM(2, 2, 0, 0, 0x29), k, 0, 0, 0);
    else x86_v(&c->x, X86_FORM(2, 1, 0, 0, 0x26), k, 0, 0, 0);
}
/* A turn of a window that lies in part outside of its box: d, or where the marks say so what reg has, or (-1) what lies elsewhere. ax holds the marks, for
 * each turn. */
static void sm_box_turn(SmCode *c, const SmStep *s, int u, int d, int reg) {
    FgX86 *m = &c->x;
    const int form = X86_FORM(2, 1, sm_wide(c), 2, 0x65);
    sm_bytes(c, 1, (FgX86At){X86_AX, SM_AT_BYTES, (c->vector + u) * 64 / c->m->lane}, 1);
    sm_k(c, SM_KNOT, 1, 1, 1);
    if (reg >= 0) { x86_v(m, form, d, d, reg, 1); return; }
    if (c->part) { sm_load_other(c, 0, s->s[1], u); x86_v(m, form, d, d, 0, 1); }
    else x86_v_at(m, form, d, d, sm_home(c, s->s[1], u), 1);
    if (u + 1 < c->turns) x86_op_at(m, 1, X86_MOV, X86_AX, (FgX86At){SM_ADDRESSES, -1, s->entry * 8});
}
static void sm_get_step(SmCode *c, const SmStep *s, int u) {
    if (s->what == SM_GET_BOOL) {
        const int k = sm_new_mask(c);
        sm_bytes(c, k, sm_place(c, s->entry, u, 1), 0);
        sm_hold_mask(c, s->d, u, k);
        return;
    }
    const int d = sm_new(c);
    const int bytes = s->what == SM_GET_HALF ? 2 : (int)fg_itemsize(s->type);
    const int op = s->what == SM_GET_HALF ? (s->op ? 0x33 : 0x13) : s->type == FG_U8 ? 0x31 : s->type == FG_I8 ? 0x21 : s->type == FG_U16 ? 0x33 : 0x23;
    if (c->part) {
        sm_load_narrow(c, bytes, sm_place(c, s->entry, u, bytes));
        x86_v(&c->x, X86_FORM(2, 1, 0, 2, op), d, 0, 0, 0);
    } else x86_v_at(&c->x, X86_FORM(2, 1, 0, 2, op), d, 0, sm_place(c, s->entry, u, bytes), 0);
    if (s->what == SM_GET_HALF && s->op) { x86_v(&c->x, X86_FORM(1, 1, 0, 2, 0x72), 6, d, d, 0); x86_1(&c->x, 16); }     /* bfloat16 */
    sm_hold(c, s->d, u, d);
}
static void sm_put_step(SmCode *c, const SmStep *s, int u) {
    if (s->what == SM_PUT) {
        const int x = sm_get(c, s->s[0], u);
        if (s->op) {                    /* but for gaps */
            const int wide = sm_wide(c);
            x86_op(&c->x, 1, X86_MOV, X86_AX, SM_AT);
            x86_shift(&c->x, 1, 5, X86_AX, wide ? 6 : 5);
            x86_op_at(&c->x, 1, X86_ADD, X86_AX, (FgX86At){SM_ADDRESSES, -1, c->m->masks * 8});
            x86_vex_at(&c->x, X86_FORM(1, wide, 0, 0, 0x90), 1, 0, (FgX86At){X86_AX, -1, (c->vector + u) * (wide ? 1 : 2)});
            if (c->part) sm_k(c, SM_KAND, 1, 1, SM_PART);
            x86_v_at(&c->x, X86_FORM(1, wide, wide, 2, 0x11), x, 0, sm_place(c, s->entry, u, c->m->lane), 1);
        } else sm_store_tile(c, x, sm_place(c, s->entry, u, c->m->lane));
    } else if (s->what == SM_PUT_BOOL) {
        const int k = sm_mask(c, s->s[0], u);
        sm_op(c, X86_FORM(1, 3, 0, 0, 0x6f), 0, 0, s->s[1], u, k + 8);                      /* bytes of 1 */
        FgX86At to = sm_place(c, s->entry, u, 1);
        if (c->part) x86_v_at(&c->x, X86_FORM(1, 3, 0, 0, 0x7f), 0, 0, to, SM_PART);
        else x86_v_at(&c->x, sm_wide(c) ? X86_FORM(1, 1, 1, 0, 0xd6) : X86_FORM(1, 2, 0, 0, 0x7f), 0, 0, to, 0);
    } else {
        const int x = sm_get(c, s->s[0], u);
        if (s->op) sm_round_bf16(c, x, s->s[1], u);
        else { x86_v(&c->x, X86_FORM(3, 1, 0, 2, 0x1d), x, 0, 0, 0); x86_1(&c->x, 0); }
        FgX86At to = sm_place(c, s->entry, u, 2);
        x86_v_at(&c->x, X86_FORM(1, 3, 1, 1, 0x7f), 0, 0, to, c->part ? SM_PART : 0);
    }
    sm_leave(c, s, u);
}
/* x by y: as vm_strip_folds.h does it, but that extrema are exact always. */
static void sm_fold_two(SmCode *c, const SmStep *s, int d, int x, int y) {
    const int wide = sm_wide(c);
    if (s->op == SM_BY_SUM) { x86_v(&c->x, sm_real_form(s->type, 0x58), d, x, y, 0); return; }
    if (s->op == SM_BY_SIZE) { x86_v(&c->x, X86_FORM(2, 1, wide, 2, 0x3d), d, x, y, 0); return; }
    x86_v(&c->x, sm_real_form(s->type, s->op == SM_BY_MAX ? 0x5f : 0x5d), 0, x, y, 0);
    x86_v(&c->x, sm_real_form(s->type, 0xc2), 1, x, x, 0); x86_1(&c->x, 3);
    x86_v(&c->x, sm_real_form(s->type, 0x28), 0, 0, x, 1);
    sm_move(c, d, 0);
}
/* d = x in some lanes, by bits, and a number in the others. */
static void sm_only(SmCode *c, int d, int x, int some, int number) {
    x86_set(&c->x, X86_AX, some);
    x86_vex(&c->x, X86_TO_MASK, 1, 0, X86_AX);
    sm_copy(c, d, number);
    x86_v(&c->x, sm_wide(c) ? X86_FORM(1, 1, 1, 2, 0x28) : X86_FORM(1, 0, 0, 2, 0x28), d, 0, x, 1);
}
#endif
