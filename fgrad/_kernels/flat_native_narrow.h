/* Machine code of flat code's integers of one and two bytes and of bools: single ones, in general registers without a sign, and vectors of 64 bytes. */
#ifndef FG_FLAT_NATIVE_NARROW_H
#define FG_FLAT_NATIVE_NARROW_H
#include "flat_native_half.h"
#if FG_MACHINE_CODE

/* What brings a number of type t to a register of 32 bits as the number that it is. */
static int nat_as_it_is(int t) { return t == NAT_i8 ? X86_MOVSX1 : t == NAT_i16 ? X86_MOVSX2 : X86_MOV; }
static void nat_narrow(FgNat *n, const FgFlatOp *o, int op, int t) {
    FgX86 *m = &n->x;
    int kind = nat_kind[t], one = kind == NAT_B1, bits = one ? 8 : 16, is = nat_as_it_is(t), less = one ? X86_MOVZX1 : X86_MOVZX2;
    int unary = op == FG_OP_neg || op == FG_OP_abs || op == FG_OP_not || op == FG_OP_popcount;
    int rx = nat_read(n, kind, o->a, NAT_FIELD(a)), ry = unary ? rx : nat_read(n, kind, o->b, NAT_FIELD(b)), r = nat_new(n, 1), x = nat_g(rx), y = nat_g(ry), d = nat_g(r);
    int simple = op == FG_OP_and ? X86_AND : op == FG_OP_or ? X86_OR : op == FG_OP_xor ? X86_XOR : op == FG_OP_add ? X86_ADD : op == FG_OP_sub ? X86_SUB :
                 op == FG_OP_mul ? X86_IMUL : 0, narrow = 1;
    if (simple) {
        x86_op(m, 0, X86_MOV, d, x);
        x86_op(m, 0, simple, d, y);
        narrow = op == FG_OP_add || op == FG_OP_sub || op == FG_OP_mul;
    } else switch (op) {
    case FG_OP_max: case FG_OP_min:
        if (is != X86_MOV) { x86_op(m, 0, is, X86_AX, x); x86_op(m, 0, is, X86_CX, y); }
        x86_op(m, 0, X86_MOV, d, x);
        x86_op(m, 0, X86_CMP, is != X86_MOV ? X86_AX : x, is != X86_MOV ? X86_CX : y);
        x86_op(m, 0, X86_CMOV | (op == FG_OP_max ? X86_L : X86_G), d, y);
        narrow = 0;
        break;
    case FG_OP_shl: case FG_OP_shr_logical:
        x86_op(m, 0, X86_XOR, X86_AX, X86_AX);
        x86_vex(m, op == FG_OP_shl ? X86_SHLX : X86_SHRX, d, y, x);
        x86_number(m, 0, 7, y, bits);
        x86_op(m, 0, X86_CMOV | X86_AE, d, X86_AX);
        narrow = op == FG_OP_shl;
        break;
    case FG_OP_shr_arith:
        x86_op(m, 0, one ? X86_MOVSX1 : X86_MOVSX2, X86_CX, x);
        x86_set(m, X86_AX, bits - 1);
        x86_op(m, 0, X86_CMP, y, X86_AX);
        x86_op(m, 0, X86_CMOV | X86_BE, X86_AX, y);
        x86_vex(m, X86_SARX, d, X86_AX, X86_CX);
        break;
    case FG_OP_div: case FG_OP_rem: nat_divide(n, 0, op == FG_OP_rem, is, r, rx, ry); break;
    case FG_OP_popcount:
        x86_1(m, 0xf3);
        x86_op(m, 0, 0xfb8, d, x);
        narrow = 0;
        break;
    case FG_OP_not:
        x86_op(m, 0, X86_MOV, d, x);
        x86_number(m, 0, 6, d, (1 << bits) - 1);
        narrow = 0;
        break;
    default:                            /* neg, abs */
        x86_op(m, 0, is, X86_AX, x);
        x86_op(m, 0, X86_MOV, d, X86_AX);
        x86_op(m, 0, 0xf7, 3, d);       /* neg */
        if (op == FG_OP_abs) x86_op(m, 0, X86_CMOV | X86_S, d, X86_AX);
        if (op == FG_OP_abs && is == X86_MOV) x86_op(m, 0, X86_MOV, d, x);
    }
    if (narrow) x86_op(m, 0, less, d, d);
    nat_write(n, kind, o->d, NAT_FIELD(d), r);
}
static void nat_narrow_compared(FgNat *n, const FgFlatOp *o, int how, int t) {
    int kind = nat_kind[t], x = nat_read(n, kind, o->a, NAT_FIELD(a)), y = nat_read(n, kind, o->b, NAT_FIELD(b)), d = nat_new(n, 1), is = nat_as_it_is(t);
    if (is == X86_MOV || how == NAT_eq || how == NAT_ne) x86_op(&n->x, 0, X86_CMP, nat_g(x), nat_g(y));
    else {
        x86_op(&n->x, 0, is, X86_AX, nat_g(x));
        x86_op(&n->x, 0, is, X86_CX, nat_g(y));
        x86_op(&n->x, 0, X86_CMP, X86_AX, X86_CX);
    }
    x86_op(&n->x, 0, X86_SET | nat_signed[how], 0, nat_g(d));
    x86_op(&n->x, 0, X86_MOVZX1, nat_g(d), nat_g(d));
    nat_write(n, NAT_B1, o->d, NAT_FIELD(d), d);
}
/* From or to one or two bytes. */
static void nat_narrow_cast(FgNat *n, const FgFlatOp *o, int s, int t) {
    int x = nat_read(n, nat_kind[s], o->a, NAT_FIELD(a)), real = t == NAT_f32 || t == NAT_f64, d = nat_new_of(n, nat_kind[t]), wide = s == NAT_i64 || t == NAT_i64;
    int to = real ? X86_AX : nat_g(d), move = t == NAT_u8 ? X86_MOVZX1 : t == NAT_u16 && s != NAT_u8 && s != NAT_i8 ? X86_MOVZX2 : nat_as_it_is(s);
    x86_op(&n->x, wide && move != X86_MOV, move, to, nat_g(x));
    if (t == NAT_u16 && s == NAT_i8) x86_op(&n->x, 0, X86_MOVZX2, to, to);
    if (real) {
        nat_v(n, X86_FORM(1, 1, 0, 0, 0xef), d, d, d, 0);
        nat_v(n, X86_FORM(1, t == NAT_f32 ? 2 : 3, 0, 0, 0x2a), d, d, X86_AX, 0);
    }
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
}

/* Vectors of 64 bytes of integers of one or two bytes. */
static void nat_tiny(FgNat *n, const FgFlatOp *o, int op, int one, int sign) {
    int unary = op == FG_OP_neg || op == FG_OP_not, x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = unary ? x : nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new(n, 0);
    #define M(name, map, wide, code) if (op == FG_OP_##name) nat_v(n, X86_FORM(map, 1, wide, 2, code), d, x, y, 0);
    M(add, 1, 0, one ? 0xfc : 0xfd) M(sub, 1, 0, one ? 0xf8 : 0xf9) M(mul, 1, 0, 0xd5) M(and, 1, 0, 0xdb) M(or, 1, 0, 0xeb) M(xor, 1, 0, 0xef)
    M(max, one == sign ? 2 : 1, 0, one ? (sign ? 0x3c : 0xde) : sign ? 0xee : 0x3e) M(min, one == sign ? 2 : 1, 0, one ? (sign ? 0x38 : 0xda) : sign ? 0xea : 0x3a)
    if (one && (op == FG_OP_shl || op == FG_OP_shr_logical)) {          /* as words: their lower bytes, then their upper ones */
        int left = op == FG_OP_shl, form = X86_FORM(2, 1, 1, 2, left ? 0x12 : 0x10);
        FgX86At low = nat_number(n, NAT_LOW);
        nat_v_at(n, X86_FORM(1, 1, 0, 2, 0xdb), 0, y, low, 0);
        if (left) nat_v(n, form, 0, x, 0, 0);
        else { nat_v_at(n, X86_FORM(1, 1, 0, 2, 0xdb), 1, x, low, 0); nat_v(n, form, 0, 1, 0, 0); }
        nat_v_at(n, X86_FORM(1, 1, 0, 2, 0xdb), 0, 0, low, 0);
        nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x71), 2, 1, y, 0, 8);           /* vpsrlw, 8 */
        nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x71), 2, d, x, 0, 8);
        nat_v(n, form, d, d, 1, 0);
        nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x71), 6, d, d, 0, 8);           /* vpsllw, 8 */
        nat_v(n, X86_FORM(1, 1, 0, 2, 0xeb), d, d, 0, 0);
        nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
        return;
    }
    M(shl, 2, 1, 0x12) M(shr_logical, 2, 1, 0x10) M(shr_arith, 2, 1, 0x11)
    #undef M
    if (op == FG_OP_not) nat_complement(n, d, x);
    if (op == FG_OP_neg) {
        nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), 0, 0, 0, 0);
        nat_v(n, X86_FORM(1, 1, 0, 2, one ? 0xf8 : 0xf9), d, 0, x, 0);
    }
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
}
static void nat_tiny_not(FgNat *n, const FgFlatOp *o) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), d = nat_new(n, 0);
    nat_v_at(n, X86_FORM(1, 1, 0, 2, 0xef), d, x, nat_number(n, NAT_BYTES), 0);
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
}
static void nat_tiny_compared(FgNat *n, const FgFlatOp *o, int how, int one, int sign) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new(n, 0);
#if FG_MACHINE_CODE == 1
    nat_tiny_compare(n, how, one, sign, d, x, y);
#else
    static const uint8_t ways[] = {1, 2, 6, 5, 0, 4};
    nat_v_by(n, X86_FORM(3, 1, !one, 2, sign ? 0x3f : 0x3e), 1, x, y, 0, ways[how]);
    nat_v_at(n, X86_FORM(1, 3, 0, 2, 0x6f), d, 0, nat_number(n, NAT_BYTES), 1 + 8);
#endif
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
}
static void nat_tiny_select(FgNat *n, const FgFlatOp *o, int one) {
    int m = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), x = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), y = nat_read(n, NAT_V, o->c, NAT_FIELD(c)), d = nat_new(n, 0);
#if FG_MACHINE_CODE == 1
    nat_tiny_choose(n, one, d, m, x, y);
#else
    nat_v(n, X86_FORM(2, 1, 0, 2, 0x26), 1, m, m, 0);
    nat_v(n, X86_FORM(2, 1, !one, 2, 0x66), d, y, x, 1);
#endif
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
}
static void nat_pieces(FgNat *n, const FgFlatOp *o) {
    int d = nat_new(n, 0);
#if FG_MACHINE_CODE == 1
    nat_bytes_of_runs(n, o, d);
#else
    const FgFlatPieces *w = (const FgFlatPieces *)o->b;
    for (int i = 0; i < o->n; i++) {
        int x = nat_read(n, NAT_V, o->a + w[i].offset, NAT_FIELD(a));
        x86_set(&n->x, X86_AX, (int64_t)w[i].mask);
        x86_vex(&n->x, X86_FORM(1, 3, 1, 0, 0x92), 1, 0, X86_AX);       /* kmovq */
        nat_v_at(n, X86_FORM(1, 0, 0, 2, 0x10), 0, 0, (FgX86At){X86_BX, -1, (int32_t)((const char *)w[i].at - n->f->memory)}, 0);
        nat_v(n, X86_FORM(2, 1, 0, 2, 0x8d), d, 0, x, i ? 1 : 1 + 8);
    }
#endif
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
}
#endif
#endif
