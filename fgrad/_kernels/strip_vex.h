/* Steps of strips in AVX2: masks are vectors of all bits or none, integers have fewer comparisons, and what there is of the last vector goes by a mask
 * on the stack or, of narrow lanes, byte by byte. Part of strip_machine.h. Registers 0 and 1 hold nothing while operands are fetched. */
#ifndef FG_STRIP_VEX_H
#define FG_STRIP_VEX_H

enum { SM_CMP_UNORDERED = 3, SM_CMP_ORDERED = 7, SM_CMP_GE = 0x1d };
/* Memory of a tile, of which there may be less than a vector: register 1 gets the mask. */
static void sm_load_tile(SmCode *c, int reg, FgX86At m) {
    if (!c->part || c->back) { sm_load(c, reg, m); return; }
    sm_load(c, 1, sm_stack(SM_PART_MASK));
    sm_v_at(c, X86_FORM(2, 1, 0, 2, 0x2c), reg, 1, m);
}
/* The last words of a vector, at m, where its first would lie before them. */
static void sm_store_last(SmCode *c, int reg, FgX86At m) {
    if (c->words >= 4) { m.disp += 16; sm_v_at(c, X86_FORM(3, 1, 0, 2, 0x39), reg, 0, m); x86_1(&c->x, 1); m.disp -= 16; }
    else { sm_v(c, X86_FORM(3, 1, 0, 2, 0x39), reg, 0, 0); x86_1(&c->x, 1); reg = 0; m.disp += 16; }
    if (c->words & 2) { m.disp += 8; sm_v_at(c, X86_FORM(1, 0, 0, 0, 0x17), reg, 0, m); m.disp -= 8; }
    if (c->words & 1) {
        const int lane = c->words & 2 ? 1 : 3;
        m.disp += 4 * lane;
        sm_v_at(c, X86_FORM(3, 1, 0, 0, 0x17), reg, 0, m); x86_1(&c->x, lane);
    }
}
static void sm_store_tile(SmCode *c, int reg, FgX86At m) {
    if (!c->part) { sm_store(c, reg, m); return; }
    if (c->back) { sm_store_last(c, reg, m); return; }
    if (!c->words) {
        sm_load(c, 1, sm_stack(SM_PART_MASK));
        sm_v_at(c, X86_FORM(2, 1, 0, 2, 0x2e), reg, 1, m);
        return;
    }
    const int forms[] = {X86_FORM(1, 0, 0, 0, 0x11), X86_FORM(1, 1, 0, 0, 0xd6), X86_FORM(1, 1, 0, 0, 0x7e)};       /* a masked store takes forty steps */
    for (int k = 0, from = reg; k < 3; k++) {
        const int n = 4 >> k;
        if (!(c->words & n)) continue;
        sm_v_at(c, forms[k], from, 0, m);
        m.disp += 4 * n;
        if (!(c->words & (n - 1))) continue;
        if (n == 4) { sm_v(c, X86_FORM(3, 1, 0, 2, 0x39), from, 0, 0); x86_1(&c->x, 1); }
        else { sm_v(c, X86_FORM(1, 1, 0, 0, 0x73), 3, 0, from); x86_1(&c->x, 8); }
        from = 0;
    }
}
/* A number of a general register in all lanes. */
static void sm_spread(SmCode *c, int reg, int from) {
    sm_v(c, X86_FORM(1, 1, 1, 0, 0x6e), reg, 0, from);
    sm_v(c, X86_FORM(2, 1, 0, 2, sm_wide(c) ? 0x59 : 0x58), reg, 0, reg);
}
/* What there is of the last vector, as many bytes as ax says, from whole lanes on. */
static void sm_part_ax(SmCode *c) {
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    FgX86 *x = &c->x;
    x86_op_at(x, 1, X86_STORE, X86_AX, sm_stack(SM_PART_BYTES));
    x86_set(x, X86_CX, (int64_t)(intptr_t)(lanes + 8));
    x86_op(x, 1, X86_SUB, X86_CX, X86_AX);
    sm_load(c, 1, (FgX86At){X86_CX, -1, 0});
    sm_store(c, 1, sm_stack(SM_PART_MASK));
}
/* So many lanes, or what lies before the end. */
static void sm_part_of(SmCode *c, int lanes) {
    x86_set(&c->x, X86_AX, lanes * c->m->lane);
    sm_part_ax(c);
}
static void sm_part_here(SmCode *c) {
    x86_op(&c->x, 1, X86_MOV, X86_AX, SM_END_AT);
    x86_op(&c->x, 1, X86_SUB, X86_AX, SM_AT);
    sm_part_ax(c);
}
/* The bytes that there are of lanes of `bytes`: from memory to the stack, or the reverse. */
static void sm_copy_part(SmCode *c, int bytes, FgX86At m, int out) {
    FgX86 *x = &c->x;
    FgX86At from = {X86_AX, X86_14, -1}, to = {X86_SP, X86_14, SM_PART_COPY * FG_VEC - 1};
    x86_op_at(x, 1, X86_LEA, X86_AX, m);
    x86_op_at(x, 1, X86_MOV, X86_14, sm_stack(SM_PART_BYTES));
    x86_shift(x, 1, 5, X86_14, c->m->lane / bytes == 8 ? 3 : c->m->lane / bytes == 4 ? 2 : 1);
    const int64_t top = x->at - x->begin;
    x86_op_at(x, 0, X86_MOVZX1, X86_15, out ? to : from);
    x86_op_at(x, 0, X86_STORE1, X86_15, out ? from : to);
    x86_number(x, 1, 5, X86_14, 1);
    x86_lead(x, x86_jump(x, X86_NE), top);
}
/* reg = lanes of 1 or 2 bytes, widened. */
static void sm_widen(SmCode *c, int form, int reg, int bytes, FgX86At m) {
    if (!c->part) { sm_v_at(c, form, reg, 0, m); return; }
    sm_copy_part(c, bytes, m, 0);
    sm_v_at(c, form, reg, 0, sm_stack(SM_PART_COPY));
}
/* Narrow lanes of register 0, so many bytes of a whole vector. */
static void sm_store_narrow(SmCode *c, int bytes, FgX86At m) {
    const int all = FG_VEC / c->m->lane * bytes;
    const int form = all == 16 ? X86_FORM(1, 0, 0, 0, 0x11) : all == 8 ? X86_FORM(1, 1, 0, 0, 0xd6) : X86_FORM(1, 1, 0, 0, 0x7e);
    sm_v_at(c, form, 0, 0, c->part ? sm_stack(SM_PART_COPY) : m);
    if (c->part) sm_copy_part(c, bytes, m, 1);
}
/* reg = x op y, with y from wherever it is */
static void sm_op(SmCode *c, int form, int reg, int x, int y, int u) {
    if (sm_far(c, y, u)) sm_v_at(c, form, reg, x, sm_home(c, y, u));
    else sm_v(c, form, reg, x, sm_get(c, y, u));
}
/* d = mask ? yes : no */
static void sm_blend(SmCode *c, int d, int no, int yes, int mask) {
    sm_v(c, X86_FORM(3, 1, 0, 2, 0x4a), d, no, yes);
    x86_1(&c->x, mask << 4);
}
static void sm_ones(SmCode *c, int reg) { sm_v(c, X86_FORM(1, 1, 0, 2, 0x76), reg, reg, reg); }
static void sm_zero(SmCode *c, int reg) { sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), reg, reg, reg); }
static void sm_compare_real(SmCode *c, int type, int d, int x, int y, int how) { sm_v(c, sm_real_form(type, 0xc2), d, x, y); x86_1(&c->x, how); }
/* d = x shifted by a number: shl (6), shr (2) */
static void sm_shift_by(SmCode *c, int wide, int how, int d, int x, int by) { sm_v(c, X86_FORM(1, 1, 0, 2, wide ? 0x73 : 0x72), how, d, x); x86_1(&c->x, by); }

/* ---- steps */

/* x where it is no number, else the greater or lesser */
static void sm_extreme(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), y = sm_get(c, s->s[1], u);
    sm_v(c, sm_real_form(s->type, s->op == FG_OP_max ? 0x5f : 0x5d), 0, x, y);
    sm_compare_real(c, s->type, 1, x, x, SM_CMP_UNORDERED);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    sm_blend(c, d, 0, x, 1);
    sm_hold(c, s->d, u, d);
}
/* x rounded to bfloat16: the lower halves of the lanes of register 1. d: any step's. */
static void sm_round_bf16(SmCode *c, int x, int carry, int d, int u) {
    sm_shift_by(c, 0, 6, 1, x, 15);                                     /* the last bit that is kept */
    sm_shift_by(c, 0, 2, 1, 1, 31);
    sm_v(c, X86_FORM(1, 1, 0, 2, 0xfe), 1, 1, x);
    sm_op(c, X86_FORM(1, 1, 0, 2, 0xfe), 1, 1, carry, u);
    sm_compare_real(c, FG_F32, 0, x, x, SM_CMP_UNORDERED);
    sm_v(c, X86_FORM(1, 0, 0, 2, 0x58), d, x, x);                       /* a quiet NaN */
    sm_blend(c, 1, 1, d, 0);
    sm_shift_by(c, 0, 2, 1, 1, 16);
}
static void sm_to_f16(SmCode *c, int x) { sm_v(c, X86_FORM(3, 1, 0, 2, 0x1d), x, 0, 0); x86_1(&c->x, 0); }      /* to register 0 */
static void sm_round_half(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), d = sm_new(c);
    if (s->op == FG_OP_round_bf16) {
        sm_round_bf16(c, x, s->s[1], d, u);
        sm_shift_by(c, 0, 6, d, 1, 16);
    } else {
        sm_to_f16(c, x);
        sm_v(c, X86_FORM(2, 1, 0, 2, 0x13), d, 0, 0);
    }
    sm_leave(c, s, u);
    sm_hold(c, s->d, u, d);
}
/* mask register 0: x > y, of 64 bits; both registers are any step's */
static void sm_greater_wide(SmCode *c, int is_signed, int x, int y) {
    if (!is_signed) {
        sm_ones(c, 1);
        sm_shift_by(c, 1, 6, 1, 1, 63);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), 0, x, 1);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), 1, y, 1);
        sm_v(c, X86_FORM(2, 1, 0, 2, 0x37), 0, 0, 1);
    } else sm_v(c, X86_FORM(2, 1, 0, 2, 0x37), 0, x, y);
}
/* Operations on 64 bits that AVX2 has none for. */
static void sm_wide_step(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), y = sm_get(c, s->s[1], u);
    if (s->op == FG_OP_mul) {           /* of halves: both that cross, above the product of the lower ones */
        sm_v(c, X86_FORM(1, 1, 0, 2, 0x70), 0, 0, y); x86_1(&c->x, 0xb1);
        sm_v(c, X86_FORM(2, 1, 0, 2, 0x40), 0, 0, x);
        sm_shift_by(c, 1, 2, 1, 0, 32);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0xfe), 0, 0, 1);
        sm_shift_by(c, 1, 6, 0, 0, 32);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0xf4), 1, x, y);
    } else if (s->op == FG_OP_shr_arith) {      /* of x, or of what it lacks to -1 */
        sm_zero(c, 0);
        sm_v(c, X86_FORM(2, 1, 0, 2, 0x37), 0, 0, x);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), 1, x, 0);
        sm_v(c, X86_FORM(2, 1, 1, 2, 0x45), 1, 1, y);
    } else if (s->op == FG_OP_max) sm_greater_wide(c, s->type == FG_I64, x, y);
    else if (s->op == FG_OP_min) sm_greater_wide(c, s->type == FG_I64, y, x);
    else c->failed = 1;
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (s->op == FG_OP_mul) sm_v(c, X86_FORM(1, 1, 0, 2, 0xd4), d, 1, 0);
    else if (s->op == FG_OP_shr_arith) sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), d, 1, 0);
    else sm_blend(c, d, y, x, 0);
    sm_hold(c, s->d, u, d);
}
/* int32: x more than the upper halves of its products, of even and of odd lanes */
static void sm_upper_step(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u), product = X86_FORM(2, 1, 0, 2, 0x28);
    sm_op(c, product, 0, x, s->s[1], u);
    sm_shift_by(c, 1, 2, 0, 0, 32);
    sm_shift_by(c, 1, 2, 1, x, 32);
    sm_op(c, product, 1, 1, s->s[1], u);
    sm_v(c, X86_FORM(3, 1, 0, 2, 0x02), 0, 0, 1); x86_1(&c->x, 0xaa);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    sm_v(c, X86_FORM(1, 1, 0, 2, 0xfe), d, 0, x);
    sm_hold(c, s->d, u, d);
}
static void sm_do_step(SmCode *c, const SmStep *s, int u) {
    const int x = s->s[0], y = s->s[1];
    if (s->type == FG_I32 && s->op == FG_OP_div) { sm_upper_step(c, s, u); return; }
    if (!sm_real(s->type)) {
        const int form = sm_whole_form(s->type, s->op), lacks = s->op == FG_OP_mul || s->op == FG_OP_shr_arith || s->op == FG_OP_max || s->op == FG_OP_min;
        if (!form) { c->failed = 1; return; }
        if (lacks && fg_itemsize(s->type) == 8) sm_wide_step(c, s, u); else sm_two(c, s, u, form, x, y);
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
        sm_one(c, s, u, X86_FORM(3, 1, 0, 2, 0x08 + (s->type == FG_F64)), s->op == FG_OP_floor ? 9 : s->op == FG_OP_ceil ? 10 : s->op == FG_OP_trunc ? 11 : 8);
        return;
    case FG_OP_round_bf16: case FG_OP_round_f16: sm_round_half(c, s, u); return;
    }
    c->failed = 1;
}
static void sm_compare_step(SmCode *c, const SmStep *s, int u) {
    static const uint8_t real[] = {0, 4, 0x11, 0x12, 0x1e, 0x1d};
    const int order[] = {FG_OP_eq, FG_OP_ne, FG_OP_lt, FG_OP_le, FG_OP_gt, FG_OP_ge}, is_signed = s->type == FG_I32 || s->type == FG_I64;
    const int wide = fg_itemsize(s->type) == 8;
    int how = 0;
    while (how < 5 && order[how] != s->op) how++;
    if (sm_real(s->type)) { sm_two(c, s, u, sm_real_form(s->type, 0xc2), s->s[0], s->s[1]); x86_1(&c->x, real[how]); return; }
    int x = sm_get(c, s->s[0], u), y = sm_get(c, s->s[1], u), turns = s->op == FG_OP_ne;
    if (how < 2) sm_v(c, wide ? X86_FORM(2, 1, 0, 2, 0x29) : X86_FORM(1, 1, 0, 2, 0x76), 0, x, y);
    else if (wide || is_signed) {
        turns = s->op == FG_OP_le || s->op == FG_OP_ge;
        if (s->op == FG_OP_lt || s->op == FG_OP_ge) { const int z = x; x = y; y = z; }
        if (wide) sm_greater_wide(c, is_signed, x, y); else sm_v(c, X86_FORM(1, 1, 0, 2, 0x66), 0, x, y);
    } else {                            /* x is the greater of both, or the lesser */
        turns = s->op == FG_OP_lt || s->op == FG_OP_gt;
        sm_v(c, X86_FORM(2, 1, 0, 2, s->op == FG_OP_lt || s->op == FG_OP_ge ? 0x3f : 0x3b), 0, x, y);
        sm_v(c, X86_FORM(1, 1, 0, 2, 0x76), 0, 0, x);
    }
    if (turns) sm_ones(c, 1);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (turns) sm_v(c, X86_FORM(1, 1, 0, 2, 0xef), d, 0, 1); else sm_move(c, d, 0);
    sm_hold(c, s->d, u, d);
}
static void sm_logic_step(SmCode *c, const SmStep *s, int u) {
    const int turns = s->op == FG_OP_not || s->op == FG_OP_eq;
    const int form = X86_FORM(1, 1, 0, 2, s->op == FG_OP_and ? 0xdb : s->op == FG_OP_or ? 0xeb : 0xef);
    const int x = sm_get(c, s->s[0], u), y = s->op == FG_OP_not ? 1 : sm_get(c, s->s[1], u);
    if (turns) sm_ones(c, 1);
    if (s->op == FG_OP_eq) sm_v(c, form, 1, x, 1);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (s->op == FG_OP_eq) sm_v(c, form, d, 1, y); else sm_v(c, form, d, x, y);
    sm_hold(c, s->d, u, d);
}
static void sm_pick_step(SmCode *c, const SmStep *s, int u) {
    const int k = sm_get(c, s->s[0], u), y = sm_get(c, s->s[2], u), far = sm_far(c, s->s[1], u), x = far ? 0 : sm_get(c, s->s[1], u);
    FgX86At at = far ? sm_home(c, s->s[1], u) : (FgX86At){0, -1, 0};
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (far) { sm_v_at(c, X86_FORM(3, 1, 0, 2, 0x4a), d, y, at); x86_1(&c->x, k << 4); } else sm_blend(c, d, y, x, k);
    sm_hold(c, s->d, u, d);
}
static void sm_numbers_step(SmCode *c, const SmStep *s, int u) { sm_two(c, s, u, X86_FORM(1, 0, 0, 2, 0x54), s->s[0], s->s[1]); }
static void sm_convert_step(SmCode *c, const SmStep *s, int u) {
    if (s->type == FG_I32) { sm_one(c, s, u, X86_FORM(1, 0, 0, 2, 0x5b), -1); return; }
    if (s->type == FG_I64) { c->failed = 1; return; }
    const int x = sm_get(c, s->s[0], u), y = sm_get(c, s->s[1], u), most = sm_get(c, s->s[2], u);       /* saturated, and 0 of what is no number */
    sm_compare_real(c, FG_F32, 0, x, x, SM_CMP_ORDERED);
    sm_v(c, X86_FORM(1, 2, 0, 2, 0x5b), 1, 0, x);
    sm_v(c, X86_FORM(1, 0, 0, 2, 0x54), 0, 0, 1);
    sm_compare_real(c, FG_F32, 1, x, y, SM_CMP_GE);
    sm_leave(c, s, u);
    const int d = sm_new(c);
    sm_blend(c, d, 0, most, 1);
    sm_hold(c, s->d, u, d);
}
/* A turn of a window that lies in part outside of its box: d, or where the marks say so what reg has, or (-1) what lies elsewhere. ax holds the marks, for
 * each turn. */
static void sm_box_turn(SmCode *c, const SmStep *s, int u, int d, int reg) {
    if (reg < 0) {                      /* this may take ax, and register 1 */
        sm_load_other(c, 0, s->s[1], u);
        x86_op_at(&c->x, 1, X86_MOV, X86_AX, (FgX86At){SM_ADDRESSES, -1, s->entry * 8});
    }
    sm_v_at(c, X86_FORM(2, 1, 0, 2, sm_wide(c) ? 0x22 : 0x21), 1, 0, (FgX86At){X86_AX, SM_AT_BYTES, (c->vector + u) * FG_VEC / c->m->lane});
    sm_blend(c, d, reg < 0 ? 0 : reg, d, 1);
}
static void sm_get_step(SmCode *c, const SmStep *s, int u) {
    const int d = sm_new(c), bytes = s->what == SM_GET_BOOL ? 1 : s->what == SM_GET_HALF ? 2 : (int)fg_itemsize(s->type);
    const int op = s->what == SM_GET_BOOL ? (sm_wide(c) ? 0x22 : 0x21) : s->what == SM_GET_HALF ? (s->op ? 0x33 : 0x13) :
        s->type == FG_U8 ? 0x31 : s->type == FG_I8 ? 0x21 : s->type == FG_U16 ? 0x33 : 0x23;
    sm_widen(c, X86_FORM(2, 1, 0, 2, op), d, bytes, sm_place(c, s->entry, u, bytes));
    if (s->what == SM_GET_BOOL) { sm_zero(c, 0); sm_v(c, X86_FORM(1, 1, 0, 2, sm_wide(c) ? 0xfb : 0xfa), d, 0, d); }
    else if (s->what == SM_GET_HALF && s->op) sm_shift_by(c, 0, 6, d, d, 16);           /* bfloat16 */
    sm_hold(c, s->d, u, d);
}
static void sm_put_step(SmCode *c, const SmStep *s, int u) {
    const int x = sm_get(c, s->s[0], u);
    if (s->what == SM_PUT) {
        if (s->op) { c->failed = 1; return; }       /* but for gaps */
        sm_store_tile(c, x, sm_place(c, s->entry, u, c->m->lane));
    } else if (s->what == SM_PUT_BOOL) {
        const int pack = X86_FORM(1, 1, 0, 0, 0x6b);
        sm_v(c, X86_FORM(3, 1, 0, 2, 0x39), x, 0, 0); x86_1(&c->x, 1);
        if (sm_wide(c)) { sm_v(c, X86_FORM(1, 0, 0, 0, 0xc6), 0, x, 0); x86_1(&c->x, 0x88); }
        sm_v(c, pack, 0, sm_wide(c) ? 0 : x, 0);
        sm_v(c, X86_FORM(1, 1, 0, 0, 0x63), 0, 0, 0);
        sm_op(c, X86_FORM(1, 1, 0, 0, 0xdb), 0, 0, s->s[1], u);                         /* bytes of 1 */
        sm_store_narrow(c, 1, sm_place(c, s->entry, u, 1));
    } else {
        if (s->op) {
            const int d = sm_new(c);
            sm_round_bf16(c, x, s->s[1], d, u);
            sm_v(c, X86_FORM(3, 1, 0, 2, 0x39), 1, 0, 0); x86_1(&c->x, 1);
            sm_v(c, X86_FORM(2, 1, 0, 0, 0x2b), 0, 1, 0);
        } else sm_to_f16(c, x);
        sm_store_narrow(c, 2, sm_place(c, s->entry, u, 2));
    }
    sm_leave(c, s, u);
}
/* x by y: as vm_strip_folds.h does it, but that extrema are exact always. */
static void sm_fold_two(SmCode *c, const SmStep *s, int d, int x, int y) {
    if (s->op == SM_BY_SUM) { sm_v(c, sm_real_form(s->type, 0x58), d, x, y); return; }
    if (s->op == SM_BY_SIZE) {
        if (!sm_wide(c)) { sm_v(c, X86_FORM(2, 1, 0, 2, 0x3d), d, x, y); return; }
        sm_greater_wide(c, 1, x, y);
        sm_blend(c, d, y, x, 0);
        return;
    }
    sm_v(c, sm_real_form(s->type, s->op == SM_BY_MAX ? 0x5f : 0x5d), 0, x, y);
    sm_compare_real(c, s->type, 1, x, x, SM_CMP_UNORDERED);
    sm_blend(c, d, 0, x, 1);
}
/* d = x in some lanes, by bits, and a number in the others. */
static void sm_only(SmCode *c, int d, int x, int some, int number) {
    sm_copy(c, d, number);
    sm_v(c, X86_FORM(3, 1, 0, 2, sm_wide(c) ? 0x0d : 0x0c), d, d, x);
    x86_1(&c->x, some);
}
#endif
