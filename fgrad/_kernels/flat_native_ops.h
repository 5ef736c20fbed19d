/* Machine code of each op of flat code; bit for bit what the interpreter computes. See flat_native.h. */
#ifndef FG_FLAT_NATIVE_OPS_H
#define FG_FLAT_NATIVE_OPS_H
#include "flat_native.h"
#if FG_MACHINE_CODE

/* Kinds of arithmetic, numbered as the interpreter's registers; vectors of integers are in that of floats. */
enum { NAT_f32, NAT_f64, NAT_v32, NAT_v64, NAT_i32, NAT_i64, NAT_w32, NAT_b1, NAT_b16, NAT_u8, NAT_i8, NAT_u16, NAT_i16 };
static const uint8_t nat_kind[] = {NAT_F32, NAT_F64, NAT_V, NAT_V, NAT_I32, NAT_I64, NAT_V, NAT_B1, NAT_B16, NAT_B1, NAT_B1, NAT_H, NAT_H}, nat_register[] = {0, 1, 2, 3, 4, 5, 2};
static int nat_is_whole(int t) { return t == NAT_i32 || t == NAT_i64; }
static int nat_form(int t, int op) {
    static const uint8_t prefix[] = {2, 3, 0, 1}, wide[] = {0, 1, 0, 1}, length[] = {0, 0, 2, 2};
    return X86_FORM(1, prefix[t], wide[t], length[t], op);
}
/* Of maps 0F38 and 0F3A: by the element and the length alone. */
static int nat_form_of(int t, int map, int op) { return X86_FORM(map, 1, t == NAT_f64 || t == NAT_v64, t == NAT_v32 || t == NAT_v64 || t == NAT_w32 ? 2 : 0, op); }

/* d = x or y by mask 1 */
static void nat_blend(FgNat *n, int t, int d, int x, int y) { x86_v(&n->x, nat_form_of(t, 2, 0x65), d, y, x, 1); }
static void nat_mask_of(FgNat *n, int general) { x86_vex(&n->x, X86_TO_MASK, 1, 0, general); }

/* ---- arithmetic */

static int nat_step(FgNat *n, int t, int step, int x, int y) {
    static const int whole[] = {X86_ADD, X86_SUB, X86_SUB, X86_IMUL}, real[] = {0x58, 0x5c, 0x5c, 0x59};
    int d = nat_new(n, t == NAT_i32), u = step == FG_STEP_RSUB ? y : x, v = step == FG_STEP_RSUB ? x : y;
    if (t == NAT_i32) {
        x86_op(&n->x, 0, X86_MOV, nat_g(d), nat_g(u));
        x86_op(&n->x, 0, whole[step], nat_g(d), nat_g(v));
    } else x86_v(&n->x, nat_form(t, real[step]), d, u, v, 0);
    return d;
}
static void nat_chain(FgNat *n, const FgFlatOp *o, int op) {
    static const int firsts[] = {FG_STEP_ADD, FG_STEP_SUB, FG_STEP_MUL};
    int t = op / FG_CHAIN, at = op % FG_CHAIN, kind = nat_kind[t];
    int first = at < 7 ? at : at < 35 ? (at - 7) / 4 : (at - 35) / 16, second = at < 35 ? (at - 7) % 4 : (at - 35) / 4 % 4;
    int x = first < FG_FIRST_LAST ? nat_read(n, kind, o->a, NAT_FIELD(a)) : nat_last(n, t), y = nat_read(n, kind, o->b, NAT_FIELD(b));
    int d = nat_step(n, t, first < FG_FIRST_LAST ? firsts[first] : first - FG_FIRST_LAST, x, y);
    if (at >= 7) {
        nat_write(n, kind, o->e, NAT_FIELD(e), d);
        nat_needs_only(n, d);
        d = nat_step(n, t, second, d, nat_read(n, kind, o->c, NAT_FIELD(c)));
    }
    if (at >= 35) {
        nat_write(n, kind, o->f, NAT_FIELD(f), d);
        nat_needs_only(n, d);
        d = nat_step(n, t, (at - 35) % 4, d, nat_read(n, kind, o->g, NAT_FIELD(g)));
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}

/* Division and remainder, which by zero and of the least number by -1 are no faults here. */
static void nat_divide(FgNat *n, int wide, int rem, int move, int d, int x, int y) {
    FgX86 *m = &n->x;
    x86_op(m, wide, move, X86_AX, nat_g(x));
    x86_op(m, wide, move, X86_CX, nat_g(y));
    x86_op_at(m, wide, X86_LEA, X86_DX, (FgX86At){X86_CX, -1, 1});
    x86_number(m, wide, 7, X86_DX, 1);
    int64_t usual = x86_jump(m, X86_A);
    if (rem) x86_op(m, 0, X86_XOR, X86_DX, X86_DX);
    else {
        x86_set(m, X86_DX, -1);
        x86_op(m, wide, 0xf7, 3, X86_AX);                   /* neg */
    }
    x86_op(m, wide, X86_TEST, X86_CX, X86_CX);
    x86_op(m, wide, X86_CMOV | (rem ? X86_NE : X86_E), X86_AX, X86_DX);
    int64_t done = x86_jump(m, X86_ALWAYS);
    x86_land(m, usual);
    x86_1(m, 0x40 | wide << 3); x86_1(m, 0x99);             /* cdq, cqo */
    x86_op(m, wide, 0xf7, 7, X86_CX);                       /* idiv */
    if (rem) x86_op(m, wide, X86_MOV, X86_AX, X86_DX);
    x86_land(m, done);
    x86_op(m, wide, X86_MOV, nat_g(d), X86_AX);
}

/* An operation on integers: d is neither x nor y. */
static void nat_whole(FgNat *n, int wide, int op, int d, int rx, int ry) {
    FgX86 *m = &n->x;
    int x = nat_g(rx), y = nat_g(ry), to = nat_g(d), bits = wide ? 64 : 32;
    int simple = op == FG_OP_and ? X86_AND : op == FG_OP_or ? X86_OR : op == FG_OP_xor ? X86_XOR : op == FG_OP_add ? X86_ADD : op == FG_OP_sub ? X86_SUB :
                 op == FG_OP_mul ? X86_IMUL : 0;
    if (op == FG_OP_div || op == FG_OP_rem) { nat_divide(n, wide, op == FG_OP_rem, X86_MOV, d, rx, ry); return; }
    if (simple || op == FG_OP_max || op == FG_OP_min) {
        x86_op(m, wide, X86_MOV, to, x);
        if (simple) { x86_op(m, wide, simple, to, y); return; }
        x86_op(m, wide, X86_CMP, x, y);
        x86_op(m, wide, X86_CMOV | (op == FG_OP_max ? X86_L : X86_G), to, y);
        return;
    }
    const int w = wide << 16;                               /* as in X86_FORM */
    if (op == FG_OP_shr_arith) {
        x86_set(m, X86_AX, bits - 1);
        x86_op(m, wide, X86_CMP, y, X86_AX);
        x86_op(m, wide, X86_CMOV | X86_BE, X86_AX, y);
        x86_vex(m, X86_SARX | w, to, X86_AX, x);
        return;
    }
    int left = op == FG_OP_shl || op == FG_OP_shl_xor;
    x86_op(m, 0, X86_XOR, X86_AX, X86_AX);
    x86_vex(m, (left ? X86_SHLX : X86_SHRX) | w, to, y, x);
    x86_number(m, wide, 7, y, bits);
    x86_op(m, wide, X86_CMOV | X86_AE, to, X86_AX);
    if (op == FG_OP_shl_xor || op == FG_OP_shr_logical_xor) x86_op(m, wide, X86_XOR, to, x);
}

static void nat_whole_vector(FgNat *n, int op, int d, int x, int y) {
    FgX86 *m = &n->x;
    #define M(name, map, code) if (op == FG_OP_##name) { x86_v(m, X86_FORM(map, 1, 0, 2, code), d, x, y, 0); return; }
    M(add, 1, 0xfe) M(sub, 1, 0xfa) M(mul, 2, 0x40) M(and, 1, 0xdb) M(or, 1, 0xeb) M(xor, 1, 0xef) M(shl, 2, 0x47) M(shr_logical, 2, 0x45)
    M(shr_arith, 2, 0x46) M(max, 2, 0x3d) M(min, 2, 0x39)
    #undef M
    x86_v(m, X86_FORM(2, 1, 0, 2, op == FG_OP_shl_xor ? 0x47 : 0x45), d, x, y, 0);
    x86_v(m, X86_FORM(1, 1, 0, 2, 0xef), d, d, x, 0);
}

/* form: 1: the first, 2: the second operand is the last result */
static void nat_binary(FgNat *n, const FgFlatOp *o, int form, int op, int t) {
    int kind = nat_kind[t], which = nat_register[t];
    int x = form == 1 ? nat_last(n, which) : nat_read(n, kind, o->a, NAT_FIELD(a));
    int y = form == 2 ? nat_last(n, which) : nat_read(n, kind, o->b, NAT_FIELD(b)), d = nat_new(n, nat_is_whole(t));
    if (nat_is_whole(t)) nat_whole(n, t == NAT_i64, op, d, x, y);
    else if (t == NAT_w32) nat_whole_vector(n, op, d, x, y);
    else if (op == FG_OP_div) x86_v(&n->x, nat_form(t, 0x5e), d, x, y, 0);
    else {                              /* the processor's extremum is y where either is no number */
        x86_v(&n->x, nat_form(t, op == FG_OP_max ? 0x5f : 0x5d), d, x, y, 0);
        x86_v(&n->x, nat_form(t, 0xc2), 1, x, x, 0); x86_1(&n->x, 3);
        nat_blend(n, t, d, x, d);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[which] = n->dry ? -1 : d;
}

static void nat_unary(FgNat *n, const FgFlatOp *o, int form, int op, int t) {
    FgX86 *m = &n->x;
    int kind = nat_kind[t], x = form ? nat_last(n, t) : nat_read(n, kind, o->a, NAT_FIELD(a)), d = nat_new(n, 0), wide = t == NAT_f64 || t == NAT_v64;
    int length = t >= NAT_v32 ? 2 : 0, one = t < NAT_v32;
    if (op == FG_OP_square) x86_v(m, nat_form(t, 0x59), d, x, x, 0);
    else if (op == FG_OP_sqrt) x86_v(m, nat_form(t, 0x51), d, one ? x : 0, x, 0);
    else if (op == FG_OP_neg) x86_v_at(m, X86_FORM(1, 1, wide, length, 0xef), d, x, nat_number(n, wide ? NAT_SIGN64 : NAT_SIGN32), 0);
    else if (op == FG_OP_abs) x86_v_at(m, X86_FORM(1, 1, wide, length, 0xdb), d, x, nat_number(n, wide ? NAT_ABS64 : NAT_ABS32), 0);
    else if (op == FG_OP_recip) {
        nat_load(n, kind, d, nat_number(n, wide ? NAT_ONE64 : NAT_ONE32));
        x86_v(m, nat_form(t, 0x5e), d, d, x, 0);
    } else {
        x86_v(m, X86_FORM(3, 1, wide, length, (one ? 0x0a : 0x08) + wide), d, one ? x : 0, x, 0);
        x86_1(m, op == FG_OP_floor ? 9 : op == FG_OP_ceil ? 10 : op == FG_OP_trunc ? 11 : 8);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}

/* ---- comparisons and selections */

enum { NAT_lt, NAT_le, NAT_gt, NAT_ge, NAT_eq, NAT_ne };
static const uint8_t nat_signed[] = {X86_L, X86_LE, X86_G, X86_GE, X86_E, X86_NE};

/* Compare floats, doubles or vectors, to mask 1. */
static void nat_compare(FgNat *n, int how, int t, int x, int y) {
    static const uint8_t real[] = {0x11, 0x12, 0x1e, 0x1d, 0, 4}, whole[] = {1, 2, 6, 5, 0, 4};
    x86_v(&n->x, t == NAT_w32 ? X86_FORM(3, 1, 0, 2, 0x1f) : nat_form(t, 0xc2), 1, x, y, 0);
    x86_1(&n->x, t == NAT_w32 ? whole[how] : real[how]);
}
/* Two numbers' comparison to a bool. */
static void nat_compared(FgNat *n, const FgFlatOp *o, int how, int t) {
    int x = nat_read(n, nat_kind[t], o->a, NAT_FIELD(a)), y = nat_read(n, nat_kind[t], o->b, NAT_FIELD(b)), d = nat_new(n, 1);
    if (nat_is_whole(t)) {
        x86_op(&n->x, t == NAT_i64, X86_CMP, nat_g(x), nat_g(y));
        x86_op(&n->x, 0, X86_SET | nat_signed[how], 0, nat_g(d));
        x86_op(&n->x, 0, X86_MOVZX1, nat_g(d), nat_g(d));
    } else {
        nat_compare(n, how, t, x, y);
        x86_vex(&n->x, X86_FROM_MASK, nat_g(d), 0, 1);
    }
    nat_write(n, NAT_B1, o->d, NAT_FIELD(d), d);
}
/* Vectors' comparison to bytes of 0 and 1. */
static void nat_compared_vectors(FgNat *n, const FgFlatOp *o, int how, int t) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new(n, 0);
    nat_compare(n, how, t, x, y);
    x86_v_at(&n->x, X86_FORM(1, 3, 0, 0, 0x6f), d, 0, nat_number(n, NAT_BYTES), 1 + 8);
    nat_write(n, t == NAT_v64 ? NAT_B8 : NAT_B16, o->d, NAT_FIELD(d), d);
}
static void nat_logical(FgNat *n, const FgFlatOp *o, int op, int t) {
    int kind = nat_kind[t], one = t == NAT_b1, x = nat_read(n, kind, o->a, NAT_FIELD(a)), d = nat_new(n, one);
    int y = op == FG_OP_not ? -1 : nat_read(n, kind, o->b, NAT_FIELD(b)), flips = op == FG_OP_not || op == FG_OP_eq;
    int code = op == FG_OP_and ? (one ? X86_AND : 0xdb) : op == FG_OP_or ? (one ? X86_OR : 0xeb) : one ? X86_XOR : 0xef;
    if (one) {
        x86_op(&n->x, 0, X86_MOV, nat_g(d), nat_g(x));
        if (y >= 0) x86_op(&n->x, 0, code, nat_g(d), nat_g(y));
        if (flips) x86_number(&n->x, 0, 6, nat_g(d), 1);
    } else {
        if (y >= 0) x86_v(&n->x, X86_FORM(1, 1, 0, 0, code), d, x, y, 0);
        if (flips) x86_v_at(&n->x, X86_FORM(1, 1, 0, 0, 0xef), d, y >= 0 ? d : x, nat_number(n, NAT_BYTES), 0);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
}

/* t: what is selected, from x or y by what is in mask 1 */
static void nat_selected(FgNat *n, const FgFlatOp *o, int t, int x, int y) {
    int d = nat_new(n, 0);
    nat_blend(n, t, d, x, y);
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}
static void nat_where_vectors(FgNat *n, const FgFlatOp *o, int how, int t) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b));
    int u = nat_read(n, NAT_V, o->c, NAT_FIELD(c)), v = nat_read(n, NAT_V, o->g, NAT_FIELD(g));
    nat_compare(n, how, t, x, y);
    nat_selected(n, o, t, u, v);
}
static void nat_select_vectors(FgNat *n, const FgFlatOp *o, int t) {
    int m = nat_read(n, t == NAT_v64 ? NAT_B8 : NAT_B16, o->a, NAT_FIELD(a));
    int x = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), y = nat_read(n, NAT_V, o->c, NAT_FIELD(c));
    x86_v(&n->x, X86_FORM(2, 1, 0, 0, 0x26), 1, m, m, 0);
    nat_selected(n, o, t, x, y);
}
static void nat_choose(FgNat *n, const FgFlatOp *o) {
    int m = nat_read(n, NAT_B1, o->a, NAT_FIELD(a)), x = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), y = nat_read(n, NAT_V, o->c, NAT_FIELD(c));
    x86_op(&n->x, 0, X86_MOV, X86_AX, nat_g(m));
    x86_1(&n->x, 0xf7); x86_1(&n->x, 0xd8);                 /* neg eax */
    nat_mask_of(n, X86_AX);
    nat_selected(n, o, NAT_v32, x, y);
}
/* Two integers by the flags. */
static void nat_selected_whole(FgNat *n, const FgFlatOp *o, int kind, int condition, int x, int y) {
    int d = nat_new(n, 1);
    x86_op(&n->x, kind == NAT_I64, X86_MOV, nat_g(d), nat_g(y));
    x86_op(&n->x, kind == NAT_I64, X86_CMOV | condition, nat_g(d), nat_g(x));
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    if (kind == NAT_I32 || kind == NAT_I64) n->last[kind == NAT_I64 ? 5 : 4] = n->dry ? -1 : d;
}
/* Single numbers by a comparison of others. */
static void nat_where(FgNat *n, const FgFlatOp *o, int how, int t, int s) {
    int x = nat_read(n, nat_kind[t], o->a, NAT_FIELD(a)), y = nat_read(n, nat_kind[t], o->b, NAT_FIELD(b));
    int u = nat_read(n, nat_kind[s], o->c, NAT_FIELD(c)), v = nat_read(n, nat_kind[s], o->g, NAT_FIELD(g)), condition = nat_signed[how];
    if (nat_is_whole(t)) x86_op(&n->x, t == NAT_i64, X86_CMP, nat_g(x), nat_g(y)); else nat_compare(n, how, t, x, y);
    if (nat_is_whole(s)) {
        if (!nat_is_whole(t)) {
            x86_vex(&n->x, X86_FROM_MASK, X86_AX, 0, 1);
            x86_op(&n->x, 0, X86_TEST, X86_AX, X86_AX);
            condition = X86_NE;
        }
        nat_selected_whole(n, o, nat_kind[s], condition, u, v);
        return;
    }
    if (nat_is_whole(t)) {
        x86_op(&n->x, 0, X86_SET | condition, 0, X86_AX);
        nat_mask_of(n, X86_AX);         /* other lanes than the first do not matter */
    }
    nat_selected(n, o, s, u, v);
}
/* How what lies at `addr`, of four bytes, is read by others. */
static int nat_kind_of(const FgNat *n, const char *addr) {
    return nat_in_memory(n, addr) && n->kinds && n->kinds[(addr - n->f->memory) / 4] >> NAT_F32 & 1 ? NAT_F32 : NAT_I32;
}
/* The same of eight bytes. */
static int nat_long_kind_of(const FgNat *n, const char *addr) {
    int kinds = nat_in_memory(n, addr) && n->kinds ? n->kinds[(addr - n->f->memory) / 4] : 0;
    return kinds >> NAT_I64 & 1 && !(kinds >> NAT_F64 & 1) ? NAT_I64 : NAT_F64;
}
/* Single numbers by a bool: of 1, 4 or 8 bytes. */
static void nat_select(FgNat *n, const FgFlatOp *o, int bytes) {
    int m = nat_read(n, NAT_B1, o->a, NAT_FIELD(a)), kind = bytes == 1 ? NAT_B1 : bytes == 2 ? NAT_H : bytes == 8 ? nat_long_kind_of(n, o->d) : nat_kind_of(n, o->d);
    int x = nat_read_bits(n, kind, o->b, NAT_FIELD(b), 1), y = nat_read_bits(n, kind, o->c, NAT_FIELD(c), 1);
    if (nat_is_general(kind)) {
        x86_op(&n->x, 0, X86_TEST, nat_g(m), nat_g(m));
        nat_selected_whole(n, o, kind, X86_NE, x, y);
        n->last[4] = n->last[5] = -1;   /* the interpreter keeps it nowhere */
        return;
    }
    nat_mask_of(n, nat_g(m));
    int d = nat_new(n, 0);
    nat_blend(n, kind == NAT_F64 ? NAT_f64 : NAT_f32, d, x, y);
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
}
static void nat_clamp(FgNat *n, const FgFlatOp *o, int t) {
    int kind = nat_kind[t], wide = t == NAT_i64, x = nat_read(n, kind, o->a, NAT_FIELD(a)), y = nat_read(n, kind, o->b, NAT_FIELD(b));
    int z = nat_read(n, kind, o->c, NAT_FIELD(c)), d = nat_new(n, 1);
    x86_op(&n->x, wide, X86_MOV, nat_g(d), nat_g(y));
    x86_op(&n->x, wide, X86_CMP, nat_g(x), nat_g(y));
    x86_op(&n->x, wide, X86_CMOV | X86_G, nat_g(d), nat_g(x));
    x86_op(&n->x, wide, X86_CMP, nat_g(d), nat_g(z));
    x86_op(&n->x, wide, X86_CMOV | X86_G, nat_g(d), nat_g(z));
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
}
/* s, t: NAT_b1, NAT_i32, NAT_i64, NAT_f32, NAT_f64 */
static void nat_cast(FgNat *n, const FgFlatOp *o, int s, int t) {
    int x = nat_read(n, nat_kind[s], o->a, NAT_FIELD(a)), d = nat_new(n, nat_is_whole(t));
    if (nat_is_whole(t)) x86_op(&n->x, t == NAT_i64, s == NAT_i32 && t == NAT_i64 ? X86_MOVSXD : X86_MOV, nat_g(d), nat_g(x));
    else if (s == NAT_b1 || nat_is_whole(s)) {
        x86_v(&n->x, X86_FORM(1, 1, 0, 0, 0xef), d, d, d, 0);           /* or it would wait for what was there */
        x86_v(&n->x, X86_FORM(1, t == NAT_f32 ? 2 : 3, s == NAT_i64, 0, 0x2a), d, d, nat_g(x), 0);
    } else x86_v(&n->x, nat_form(s, 0x5a), d, x, x, 0);
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
}

/* ---- vectors of numbers from elsewhere */

static void nat_vector(FgNat *n, const FgFlatOp *o, int which, int d) {
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
    n->last[which] = n->dry ? -1 : d;
}
static void nat_splat(FgNat *n, const FgFlatOp *o, int bytes) {
    int kind = bytes == 1 ? NAT_B1 : bytes == 2 ? NAT_H : bytes == 8 ? (nat_find(n, NAT_I64, o->a) >= 0 ? NAT_I64 : NAT_F64) :
               nat_find(n, NAT_I32, o->a) >= 0 ? NAT_I32 : NAT_F32;
    int x = nat_read_bits(n, kind, o->a, NAT_FIELD(a), 1), d = nat_new(n, 0);
    if (kind == NAT_F32 || kind == NAT_F64) x86_v(&n->x, X86_FORM(2, 1, kind == NAT_F64, 2, kind == NAT_F64 ? 0x19 : 0x18), d, 0, x, 0);
    else x86_v(&n->x, X86_FORM(2, 1, kind == NAT_I64, 2, kind == NAT_B1 ? 0x7a : kind == NAT_H ? 0x7b : 0x7c), d, 0, nat_g(x), 0);
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
    if (bytes > 2) n->last[bytes == 4 ? 2 : 3] = n->dry ? -1 : d;
}
static void nat_pack(FgNat *n, const FgFlatOp *o) {
    int x = nat_read(n, NAT_F32, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_F32, o->b, NAT_FIELD(b));
    int z = nat_read(n, NAT_F32, o->c, NAT_FIELD(c)), w = nat_read(n, NAT_F32, o->g, NAT_FIELD(g)), d = nat_new(n, 0);
    x86_v(&n->x, X86_FORM(1, 0, 0, 0, 0x14), 0, x, y, 0);
    x86_v(&n->x, X86_FORM(1, 0, 0, 0, 0x14), 1, z, w, 0);
    x86_v(&n->x, X86_FORM(1, 0, 0, 0, 0x16), d, 0, 1, 0);
    nat_vector(n, o, 2, d);
}
static void nat_long_pack(FgNat *n, const FgFlatOp *o) {
    const char *at[] = {o->a, o->b, o->c, o->g};
    const int fields[] = {NAT_FIELD(a), NAT_FIELD(b), NAT_FIELD(c), NAT_FIELD(g)};
    int x[4], d;
    for (int i = 0; i < 4; i++) x[i] = nat_read_bits(n, NAT_F64, at[i], fields[i], 1);
    d = nat_new(n, 0);
    x86_v(&n->x, X86_FORM(1, 1, 1, 0, 0x14), d, x[0], x[1], 0);            /* vunpcklpd */
    x86_v(&n->x, X86_FORM(1, 1, 1, 0, 0x14), 0, x[2], x[3], 0);
    x86_v(&n->x, X86_FORM(3, 1, 1, 2, 0x18), d, d, 0, 0); x86_1(&n->x, 1); /* vinsertf64x2 */
    nat_vector(n, o, 3, d);
}
static void nat_lanes(FgNat *n, const FgFlatOp *o) {
    const int32_t *at = (const int32_t *)o->b;
    FgX86At a = nat_at(n, o->a, NAT_FIELD(a), X86_AX);
    int d = nat_new(n, 0);
    for (int i = 0; i < 16; i++) {
        FgX86At m = {a.base, -1, a.disp + at[i]};
        int part = i < 4 ? d : 0;
        if (i % 4 == 0) nat_load(n, NAT_F32, part, m);
        else { x86_v_at(&n->x, X86_FORM(3, 1, 0, 0, 0x22), part, part, m, 0); x86_1(&n->x, i % 4); }
        if (i > 4 && i % 4 == 3) { x86_v(&n->x, X86_FORM(3, 1, 0, 2, 0x38), d, d, 0, 0); x86_1(&n->x, i / 4); }
    }
    nat_vector(n, o, 2, d);
}
static FgX86At nat_table(const FgNat *n, const void *p) { return (FgX86At){X86_BX, -1, (int32_t)((const char *)p - n->f->memory)}; }
/* The only number that a window takes out of the vector at `from`, if it is written alone: the vector would wait for that store. Else -1. */
static int nat_only(const FgNat *n, const FgFlatWindow *w, const char *from) {
    int at = w->at[__builtin_ctz((unsigned)w->mask)], alone = 0;
    for (int k = 0; k < 16; k++) if (w->mask >> k & 1 && w->at[k] != at) return -1;
    for (int k = 0; k < n->f->n_ops && !alone; k++) alone = n->f->ops[k].d == from + 4 * at && !fg_flat_wide((int)(intptr_t)n->f->ops[k].label);
    return alone ? at : -1;
}
static void nat_permute(FgNat *n, const FgFlatOp *o) {
    const FgFlatWindow *w = (const FgFlatWindow *)o->b;
    int d = nat_new(n, 0);
    for (int i = 0; i < o->n; i++, nat_needs_only(n, d)) {
        const char *from = o->a + w[i].offset;
        int only = nat_only(n, w + i, from);
        if (only >= 0 && (n->dry || nat_find(n, NAT_V, from) < 0)) {
            int x = nat_read(n, NAT_F32, from + 4 * only, NAT_FIELD(a));
            x86_set(&n->x, X86_AX, w[i].mask);
            nat_mask_of(n, X86_AX);
            x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x18), d, 0, x, i ? 1 : 1 + 8);
            continue;
        }
        int x = nat_read(n, NAT_V, from, NAT_FIELD(a));
        x86_set(&n->x, X86_AX, w[i].mask);
        nat_mask_of(n, X86_AX);
        nat_load(n, NAT_V, 0, nat_table(n, w[i].at));
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x36), d, 0, x, i ? 1 : 1 + 8);
    }
    nat_vector(n, o, 2, d);
}
/* b: not at an address that is a multiple of 64 */
static void nat_dot(FgNat *n, const FgFlatOp *o, int one) {
    const FgFlatStep *s = (const FgFlatStep *)o->g;
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new(n, 0);
    x86_v(&n->x, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i++) {
        nat_load(n, NAT_V, 0, nat_table(n, s[i].a));
        nat_load(n, NAT_V, 1, nat_table(n, s[i].b));
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x16), 0, 0, x, 0);
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x16), 1, 1, y, 0);
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0xb8), d, 0, 1, 0);
    }
    if (!one) { nat_vector(n, o, 2, d); return; }
    nat_write(n, NAT_F32, o->d, NAT_FIELD(d), d);
    n->last[0] = n->dry ? -1 : d;
}

/* The same of numbers of eight bytes, which are one vector or two. */
static void nat_long_dot(FgNat *n, const FgFlatOp *o, int one) {
    const FgFlatLongStep *s = (const FgFlatLongStep *)o->g;
    int two[2] = {0, 0}, from[2][2], d;
    for (int64_t i = 0; i < o->n; i++) for (int k = 0; k < 8; k++) { two[0] |= s[i].a[k] > 7; two[1] |= s[i].b[k] > 7; }
    for (int k = 0; k < 2; k++) for (int v = 0; v <= two[k]; v++) from[k][v] = nat_read(n, NAT_V, (k ? o->b : o->a) + 64 * v, k ? NAT_FIELD(b) : NAT_FIELD(a));
    d = nat_new(n, 0);
    x86_v(&n->x, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i++) {
        for (int k = 0; k < 2; k++) {
            nat_load(n, NAT_V, k, nat_table(n, k ? s[i].b : s[i].a));
            if (two[k]) x86_v(&n->x, X86_FORM(2, 1, 1, 2, 0x77), k, from[k][0], from[k][1], 0);       /* vpermi2pd */
            else x86_v(&n->x, X86_FORM(2, 1, 1, 2, 0x16), k, k, from[k][0], 0);                       /* vpermpd */
        }
        x86_v(&n->x, X86_FORM(2, 1, 1, 2, 0xb8), d, 0, 1, 0);
    }
    if (!one) { nat_vector(n, o, 3, d); return; }
    nat_write(n, NAT_F64, o->d, NAT_FIELD(d), d);
    n->last[1] = n->dry ? -1 : d;
}

/* As fg_fold_line, or where `wide` fg_fold_long_line. */
static void nat_line(FgNat *n, const FgFlatOp *o, int wide) {
    const int d = nat_new(n, 0), lanes = wide ? 8 : 16, item = 64 / lanes;
    x86_v(&n->x, X86_FORM(1, 1, 0, 2, 0xef), d, d, d, 0);
    for (int64_t i = 0; i < o->n; i += lanes) {
        int x = nat_read(n, NAT_V, o->a + item * i, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b + item * i, NAT_FIELD(b)), part = o->n - i < lanes;
        if (part) { x86_set(&n->x, X86_AX, (1 << (o->n - i)) - 1); nat_mask_of(n, X86_AX); }
        x86_v(&n->x, X86_FORM(2, 1, wide, 2, 0xb8), d, x, y, part);
        nat_needs_only(n, d);
    }
    /* halves, quarters, and what lies within 16 bytes */
    static const uint8_t ops[2][4] = {{0x23, 0x23, 0x04, 0x04}, {0x23, 0x23, 0x05}}, ways[2][4] = {{0x4e, 0xb1, 0x4e, 0xb1}, {0x4e, 0xb1, 0x55}};
    for (int k = o->n > lanes / 2 ? 0 : o->n > lanes / 4 ? 1 : o->n > lanes / 8 ? 2 : 3; k < 4 - wide; k++) {
        x86_v(&n->x, X86_FORM(3, 1, wide, 2, ops[wide][k]), 0, k < 2 ? d : 0, d, 0);
        x86_1(&n->x, ways[wide][k]);
        x86_v(&n->x, nat_form(wide ? NAT_v64 : NAT_v32, 0x58), d, d, 0, 0);
    }
    nat_write(n, wide ? NAT_F64 : NAT_F32, o->d, NAT_FIELD(d), d);
    n->last[wide] = n->dry ? -1 : d;
}

/* ---- reductions, as in flat_fold.h */

/* Term i of a fold to a register; x: the vectors that it lies in, for folds of four. */
static void nat_term(FgNat *n, const FgFlatOp *o, const int *x, const FgFlatTerm *t, int to) {
    nat_load(n, NAT_V, to, nat_table(n, t->at));
    if (x) {
        x86_set(&n->x, X86_AX, t->first);
        nat_mask_of(n, X86_AX);
        x86_v(&n->x, X86_FORM(1, 0, 0, 2, 0x28), 1, 0, to, 0);
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x77), to, x[0], x[1], 0);
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x77), 1, x[2], x[3], 0);
        nat_blend(n, NAT_v32, to, 1, to);
        return;
    }
    int first = nat_read(n, NAT_V, o->a + t->first, NAT_FIELD(a)), second = nat_read(n, NAT_V, o->a + t->second, NAT_FIELD(a));
    if (first == second) x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x16), to, to, first, 0);
    else x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x77), to, first, second, 0);
}
static const int *nat_terms(FgNat *n, const FgFlatOp *o, int four, int *x) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    for (int64_t i = 0; i < 4 && four; i++) x[i] = nat_read(n, NAT_V, o->a + (64 * i < g->last ? 64 * i : g->last), NAT_FIELD(a));
    return four ? x : NULL;
}
static void nat_fold(FgNat *n, const FgFlatOp *o, int how, int four, FgFlatOp *exact) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const int form = nat_form(NAT_v32, how == FG_FOLD_SUM ? 0x58 : how == FG_FOLD_MAX ? 0x5f : 0x5d);
    int from[4], part[4] = {-1, -1, -1, -1}, parts = g->chains && g->k >= 4 ? 4 : 1;
    const int *x = nat_terms(n, o, four, from);
    for (int64_t i = 0; i < g->k; i++) {
        int in = parts == 4 && i < g->k / 4 * 4 ? (int)(i % 4) : 0, to = i < parts ? part[i] = nat_new(n, 0) : 0;
        nat_term(n, o, x, t + i, to);
        if (how && i == 0) nat_move(n, NAT_V, 2, to);       /* the sum of all, which tells of a NaN */
        else if (how) x86_v(&n->x, nat_form(NAT_v32, 0x58), 2, 2, to, 0);
        if (i >= parts) x86_v(&n->x, form, part[in], g->chains ? 0 : part[in], g->chains ? part[in] : 0, 0);
        if (parts == 4 && i == g->k / 4 * 4 - 1) {
            x86_v(&n->x, form, part[0], part[2], part[0], 0);
            x86_v(&n->x, form, part[2], part[3], part[1], 0);
            x86_v(&n->x, form, part[0], part[2], part[0], 0);
        }
    }
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), part[0]);
    if (how) {
        x86_v(&n->x, nat_form(NAT_v32, 0xc2), 1, 2, 2, 0); x86_1(&n->x, 3);
        x86_vex(&n->x, X86_FORM(1, 0, 0, 0, 0x98), 1, 0, 1);                                /* kortestw */
        nat_aside(n, X86_NE, exact);
    }
    n->last[2] = n->dry ? -1 : nat_find(n, NAT_V, o->d);
}
/* The positions of the first extrema, or of the first NaN. */
static void nat_positions(FgNat *n, const FgFlatOp *o, int how, int four) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    int from[4];
    const int *x = nat_terms(n, o, four, from);
    int best = nat_new(n, 0), at = nat_new(n, 0);
    nat_term(n, o, x, t, best);
    x86_v(&n->x, X86_FORM(1, 1, 0, 2, 0xef), at, at, at, 0);
    for (int64_t i = 1; i < g->k; i++) {
        nat_term(n, o, x, t + i, 0);
        x86_v(&n->x, nat_form(NAT_v32, 0xc2), 2, best, best, 0); x86_1(&n->x, 7);
        x86_v(&n->x, nat_form(NAT_v32, 0xc2), 1, 0, best, 2); x86_1(&n->x, how == FG_FOLD_MAX ? 0x16 : 0x19);
        x86_v(&n->x, X86_FORM(1, 0, 0, 2, 0x28), best, 0, 0, 1);
        x86_set(&n->x, X86_AX, i);
        x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x7c), at, 0, X86_AX, 1);
    }
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), at);
    n->last[2] = n->dry ? -1 : at;
}
/* That of n numbers of up to four vectors. */
static void nat_position(FgNat *n, const FgFlatOp *o, int how) {
    const int64_t vectors = (o->n + 15) / 16;
    const int form = nat_form(NAT_v32, how == FG_FOLD_MAX ? 0x5f : 0x5d), order[4] = {0x23, 0x23, 0x04, 0x04}, by[4] = {0x4e, 0xb1, 0x4e, 0xb1};
    int x[4], d = nat_new(n, 1);
    for (int64_t i = 0; i < vectors; i++) {
        int read = nat_read(n, NAT_V, o->a + 64 * i, NAT_FIELD(a));
        x[i] = read;
        if (i == vectors - 1 && o->n % 16) {
            x86_set(&n->x, X86_AX, how == FG_FOLD_MAX ? 0xff800000 : 0x7f800000);           /* no number is behind these */
            x86_v(&n->x, X86_FORM(2, 1, 0, 2, 0x7c), 0, 0, X86_AX, 0);
            x86_set(&n->x, X86_AX, (1 << o->n % 16) - 1);
            nat_mask_of(n, X86_AX);
            x[i] = nat_new(n, 0);
            nat_blend(n, NAT_v32, x[i], read, 0);
        }
        x86_v(&n->x, nat_form(NAT_v32, 0xc2), 1, x[i], x[i], 0); x86_1(&n->x, 3);
        x86_vex(&n->x, X86_FROM_MASK, i ? X86_AX : X86_DX, 0, 1);
        if (i) { x86_shift(&n->x, 1, 4, X86_AX, 16 * (int)i); x86_op(&n->x, 1, X86_OR, X86_DX, X86_AX); }
        if (i) x86_v(&n->x, form, 1, 1, x[i], 0); else nat_move(n, NAT_V, 1, x[i]);
    }
    for (int i = 0; i < 4; i++) {
        x86_v(&n->x, X86_FORM(3, 1, 0, 2, order[i]), 2, i < 2 ? 1 : 0, 1, 0); x86_1(&n->x, by[i]);
        x86_v(&n->x, form, 1, 1, 2, 0);
    }
    for (int64_t i = 0; i < vectors; i++) {
        x86_v(&n->x, nat_form(NAT_v32, 0xc2), 1, x[i], 1, 0); x86_1(&n->x, 0);
        x86_vex(&n->x, X86_FROM_MASK, i ? X86_AX : X86_CX, 0, 1);
        if (i) { x86_shift(&n->x, 1, 4, X86_AX, 16 * (int)i); x86_op(&n->x, 1, X86_OR, X86_CX, X86_AX); }
    }
    x86_op(&n->x, 1, X86_TEST, X86_DX, X86_DX);
    x86_op(&n->x, 1, X86_CMOV | X86_E, X86_DX, X86_CX);
    x86_1(&n->x, 0xf3);
    x86_op(&n->x, 1, 0xfbc, nat_g(d), X86_DX);              /* tzcnt */
    nat_write(n, NAT_I32, o->d, NAT_FIELD(d), d);
    n->last[4] = n->dry ? -1 : d;
}
#endif
#endif
