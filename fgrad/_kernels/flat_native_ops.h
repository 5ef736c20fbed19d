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
static void nat_blend(FgNat *n, int t, int d, int x, int y) { nat_v(n, nat_form_of(t, 2, 0x65), d, y, x, 1); }

/* ---- arithmetic */

/* The register of an operand, or -1 for one that comes from memory where it is needed, since no other op asks for it. */
static int nat_operand(FgNat *n, int kind, const char *addr, int field) {
#if FG_MACHINE_CODE == 1
    int lane;
    const int real = kind == NAT_F32 || kind == NAT_F64 || kind == NAT_V;
    if (!n->dry && real && nat_in_memory(n, addr) && n->reads[(addr - n->f->memory) / 4] == 1 && nat_find(n, n->narrow && kind == NAT_V ? NAT_Y : kind, addr) < 0 &&
        (kind == NAT_V || nat_around(n, addr, nat_bytes[kind], &lane) < 0)) return -1;
#endif
    return nat_read(n, kind, addr, field);
}
/* y < 0: the number or vector at m */
static int nat_step(FgNat *n, int t, int step, int x, int y, const char *m) {
    static const int whole[] = {X86_ADD, X86_SUB, X86_SUB, X86_IMUL}, real[] = {0x58, 0x5c, 0x5c, 0x59};
    int d = nat_new_of(n, nat_kind[t]), u = step == FG_STEP_RSUB ? y : x, v = step == FG_STEP_RSUB ? x : y;
    if (t == NAT_i32) {
        x86_op(&n->x, 0, X86_MOV, nat_g(d), nat_g(u));
        x86_op(&n->x, 0, whole[step], nat_g(d), nat_g(v));
    } else if (y < 0) nat_v_at(n, nat_form(t, real[step]), d, x, nat_at(n, m, 0, X86_AX), 0);
    else nat_v(n, nat_form(t, real[step]), d, u, v, 0);
    return d;
}
static int nat_step_operand(FgNat *n, int step, int kind, const char *addr, int field) {
    return step == FG_STEP_RSUB ? nat_read(n, kind, addr, field) : nat_operand(n, kind, addr, field);
}
static void nat_chain(FgNat *n, const FgFlatOp *o, int op) {
    static const int firsts[] = {FG_STEP_ADD, FG_STEP_SUB, FG_STEP_MUL};
    int t = op / FG_CHAIN, at = op % FG_CHAIN, kind = nat_kind[t];
    int first = at < 7 ? at : at < 35 ? (at - 7) / 4 : (at - 35) / 16, second = at < 35 ? (at - 7) % 4 : (at - 35) / 4 % 4;
    int x = first < FG_FIRST_LAST ? nat_read(n, kind, o->a, NAT_FIELD(a)) : nat_last(n, t);
    const int step = first < FG_FIRST_LAST ? firsts[first] : first - FG_FIRST_LAST, y = nat_step_operand(n, step, kind, o->b, NAT_FIELD(b));
    int d = nat_step(n, t, step, x, y, o->b);
    if (at >= 7) {
        nat_write(n, kind, o->e, NAT_FIELD(e), d);
        nat_needs_only(n, d);
        const int z = nat_step_operand(n, second, kind, o->c, NAT_FIELD(c));
        d = nat_step(n, t, second, d, z, o->c);
    }
    if (at >= 35) {
        nat_write(n, kind, o->f, NAT_FIELD(f), d);
        nat_needs_only(n, d);
        const int z = nat_step_operand(n, (at - 35) % 4, kind, o->g, NAT_FIELD(g));
        d = nat_step(n, t, (at - 35) % 4, d, z, o->g);
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
    #define M(name, map, code) if (op == FG_OP_##name) { nat_v(n, X86_FORM(map, 1, 0, 2, code), d, x, y, 0); return; }
    M(add, 1, 0xfe) M(sub, 1, 0xfa) M(mul, 2, 0x40) M(and, 1, 0xdb) M(or, 1, 0xeb) M(xor, 1, 0xef) M(shl, 2, 0x47) M(shr_logical, 2, 0x45)
    M(shr_arith, 2, 0x46) M(max, 2, 0x3d) M(min, 2, 0x39)
    #undef M
    nat_v(n, X86_FORM(2, 1, 0, 2, op == FG_OP_shl_xor ? 0x47 : 0x45), d, x, y, 0);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), d, d, x, 0);
}

/* form: 1: the first, 2: the second operand is the last result */
static void nat_binary(FgNat *n, const FgFlatOp *o, int form, int op, int t) {
    int kind = nat_kind[t], which = nat_register[t];
    int x = form == 1 ? nat_last(n, which) : nat_read(n, kind, o->a, NAT_FIELD(a));
    int y = form == 2 ? nat_last(n, which) : nat_read(n, kind, o->b, NAT_FIELD(b)), d = nat_new_of(n, kind);
    if (nat_is_whole(t)) nat_whole(n, t == NAT_i64, op, d, x, y);
    else if (t == NAT_w32) nat_whole_vector(n, op, d, x, y);
    else if (op == FG_OP_div) nat_v(n, nat_form(t, 0x5e), d, x, y, 0);
    else {                              /* the processor's extremum is y where either is no number */
        nat_v(n, nat_form(t, op == FG_OP_max ? 0x5f : 0x5d), d, x, y, 0);
        nat_v_by(n, nat_form(t, 0xc2), 1, x, x, 0, 3);
        nat_blend(n, t, d, x, d);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[which] = n->dry ? -1 : d;
}

static void nat_unary(FgNat *n, const FgFlatOp *o, int form, int op, int t) {
    int kind = nat_kind[t], x = form ? nat_last(n, t) : nat_read(n, kind, o->a, NAT_FIELD(a)), d = nat_new_of(n, kind), wide = t == NAT_f64 || t == NAT_v64;
    int length = t >= NAT_v32 ? 2 : 0, one = t < NAT_v32;
    if (op == FG_OP_square) nat_v(n, nat_form(t, 0x59), d, x, x, 0);
    else if (op == FG_OP_sqrt) nat_v(n, nat_form(t, 0x51), d, one ? x : 0, x, 0);
    else if (op == FG_OP_neg) nat_v_at(n, X86_FORM(1, 1, wide, length, 0xef), d, x, nat_number(n, wide ? NAT_SIGN64 : NAT_SIGN32), 0);
    else if (op == FG_OP_abs) nat_v_at(n, X86_FORM(1, 1, wide, length, 0xdb), d, x, nat_number(n, wide ? NAT_ABS64 : NAT_ABS32), 0);
    else if (op == FG_OP_recip) {
        nat_load(n, kind, d, nat_number(n, wide ? NAT_ONE64 : NAT_ONE32));
        nat_v(n, nat_form(t, 0x5e), d, d, x, 0);
    } else {
        nat_v_by(n, X86_FORM(3, 1, wide, length, (one ? 0x0a : 0x08) + wide), d, one ? x : 0, x, 0, op == FG_OP_floor ? 9 : op == FG_OP_ceil ? 10 : op == FG_OP_trunc ? 11 : 8);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}

/* ---- comparisons and selections */

static const uint8_t nat_signed[] = {X86_L, X86_LE, X86_G, X86_GE, X86_E, X86_NE};

/* Compare floats, doubles or vectors, to mask 1. */
static void nat_compare(FgNat *n, int how, int t, int x, int y) {
    static const uint8_t real[] = {0x11, 0x12, 0x1e, 0x1d, 0, 4};
    if (t == NAT_w32) nat_compare_whole(n, how, x, y); else nat_v_by(n, nat_form(t, 0xc2), 1, x, y, 0, real[how]);
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
        nat_bool_of_mask(n, nat_g(d));
    }
    nat_write(n, NAT_B1, o->d, NAT_FIELD(d), d);
}
/* Vectors' comparison to bytes of 0 and 1. */
static void nat_compared_vectors(FgNat *n, const FgFlatOp *o, int how, int t) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), d = nat_new_of(n, NAT_B16);
    nat_compare(n, how, t, x, y);
    nat_bytes_of_mask(n, t == NAT_v64, d);
    nat_write(n, t == NAT_v64 ? NAT_B8 : NAT_B16, o->d, NAT_FIELD(d), d);
}
static void nat_logical(FgNat *n, const FgFlatOp *o, int op, int t) {
    int kind = nat_kind[t], one = t == NAT_b1, x = nat_read(n, kind, o->a, NAT_FIELD(a)), d = nat_new_of(n, kind);
    int y = op == FG_OP_not ? -1 : nat_read(n, kind, o->b, NAT_FIELD(b)), flips = op == FG_OP_not || op == FG_OP_eq;
    int code = op == FG_OP_and ? (one ? X86_AND : 0xdb) : op == FG_OP_or ? (one ? X86_OR : 0xeb) : one ? X86_XOR : 0xef;
    if (one) {
        x86_op(&n->x, 0, X86_MOV, nat_g(d), nat_g(x));
        if (y >= 0) x86_op(&n->x, 0, code, nat_g(d), nat_g(y));
        if (flips) x86_number(&n->x, 0, 6, nat_g(d), 1);
    } else {
        if (y >= 0) nat_v(n, X86_FORM(1, 1, 0, 0, code), d, x, y, 0);
        if (flips) nat_v_at(n, X86_FORM(1, 1, 0, 0, 0xef), d, y >= 0 ? d : x, nat_number(n, NAT_BYTES), 0);
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
}

/* t: what is selected, from x or y by what is in mask 1 */
static void nat_selected(FgNat *n, const FgFlatOp *o, int t, int x, int y) {
    int d = nat_new_of(n, nat_kind[t]);
    nat_blend(n, t, d, x, y);
    nat_write(n, nat_kind[t], o->d, NAT_FIELD(d), d);
    n->last[t] = n->dry ? -1 : d;
}
static void nat_where_vectors(FgNat *n, const FgFlatOp *o, int how, int t) {
    int x = nat_read(n, NAT_V, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_V, o->b, NAT_FIELD(b));
    int u = NAT_FEW ? 0 : nat_read(n, NAT_V, o->c, NAT_FIELD(c)), v = NAT_FEW ? 0 : nat_read(n, NAT_V, o->g, NAT_FIELD(g));
    nat_compare(n, how, t, x, y);
    if (NAT_FEW) { n->clock++; u = nat_read(n, NAT_V, o->c, NAT_FIELD(c)); v = nat_read(n, NAT_V, o->g, NAT_FIELD(g)); }   /* in the registers of x and y */
    nat_selected(n, o, t, u, v);
}
static void nat_select_vectors(FgNat *n, const FgFlatOp *o, int t) {
    int m = nat_read(n, t == NAT_v64 ? NAT_B8 : NAT_B16, o->a, NAT_FIELD(a));
    if (NAT_FEW) { nat_mask_of_bytes(n, t == NAT_v64, m); n->clock++; }
    int x = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), y = nat_read(n, NAT_V, o->c, NAT_FIELD(c));
    if (!NAT_FEW) nat_mask_of_bytes(n, t == NAT_v64, m);
    nat_selected(n, o, t, x, y);
}
static void nat_choose(FgNat *n, const FgFlatOp *o) {
    int m = nat_read(n, NAT_B1, o->a, NAT_FIELD(a)), x = nat_read(n, NAT_V, o->b, NAT_FIELD(b)), y = nat_read(n, NAT_V, o->c, NAT_FIELD(c));
    nat_mask_of_all(n, nat_g(m));
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
    const int late = NAT_FEW && !nat_is_whole(s);           /* what is selected may take the registers of what is compared */
    int u = late ? 0 : nat_read(n, nat_kind[s], o->c, NAT_FIELD(c)), v = late ? 0 : nat_read(n, nat_kind[s], o->g, NAT_FIELD(g)), condition = nat_signed[how];
    if (nat_is_whole(t)) x86_op(&n->x, t == NAT_i64, X86_CMP, nat_g(x), nat_g(y)); else nat_compare(n, how, t, x, y);
    if (nat_is_whole(s)) {
        if (!nat_is_whole(t)) {
            nat_bool_of_mask(n, X86_AX);
            x86_op(&n->x, 0, X86_TEST, X86_AX, X86_AX);
            condition = X86_NE;
        }
        nat_selected_whole(n, o, nat_kind[s], condition, u, v);
        return;
    }
    if (nat_is_whole(t)) {
        x86_op(&n->x, 0, X86_SET | condition, 0, X86_AX);
        nat_mask_of_bool(n, X86_AX);
    }
    if (t == NAT_f32 && s == NAT_f64) nat_mask_of_long(n);
    if (late) { n->clock++; u = nat_read(n, nat_kind[s], o->c, NAT_FIELD(c)); v = nat_read(n, nat_kind[s], o->g, NAT_FIELD(g)); }
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
    nat_mask_of_bool(n, nat_g(m));
    int d = nat_new_of(n, kind);
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
    int x = nat_read(n, nat_kind[s], o->a, NAT_FIELD(a)), d = nat_new_of(n, nat_kind[t]);
    if (nat_is_whole(t)) x86_op(&n->x, t == NAT_i64, s == NAT_i32 && t == NAT_i64 ? X86_MOVSXD : X86_MOV, nat_g(d), nat_g(x));
    else if (s == NAT_b1 || nat_is_whole(s)) {
        nat_v(n, X86_FORM(1, 1, 0, 0, 0xef), d, d, d, 0);           /* or it would wait for what was there */
        nat_v(n, X86_FORM(1, t == NAT_f32 ? 2 : 3, s == NAT_i64, 0, 0x2a), d, d, nat_g(x), 0);
    } else nat_v(n, nat_form(s, 0x5a), d, x, x, 0);
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
    if (kind == NAT_F32 || kind == NAT_F64) nat_v(n, X86_FORM(2, 1, kind == NAT_F64, 2, kind == NAT_F64 ? 0x19 : 0x18), d, 0, x, 0);
    else nat_v(n, X86_FORM(2, 1, kind == NAT_I64, 2, kind == NAT_B1 ? 0x7a : kind == NAT_H ? 0x7b : 0x7c), d, 0, nat_g(x), 0);
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
    if (bytes > 2) n->last[bytes == 4 ? 2 : 3] = n->dry ? -1 : d;
}
static void nat_pack(FgNat *n, const FgFlatOp *o) {
    int x = nat_read(n, NAT_F32, o->a, NAT_FIELD(a)), y = nat_read(n, NAT_F32, o->b, NAT_FIELD(b));
    int z = nat_read(n, NAT_F32, o->c, NAT_FIELD(c)), w = nat_read(n, NAT_F32, o->g, NAT_FIELD(g)), d = nat_new(n, 0);
    nat_v(n, X86_FORM(1, 0, 0, 0, 0x14), 0, x, y, 0);
    nat_v(n, X86_FORM(1, 0, 0, 0, 0x14), 1, z, w, 0);
    nat_v(n, X86_FORM(1, 0, 0, 0, 0x16), d, 0, 1, 0);
    nat_zero_behind(n, d);
    nat_vector(n, o, 2, d);
}
static void nat_long_pack(FgNat *n, const FgFlatOp *o) {
    const char *at[] = {o->a, o->b, o->c, o->g};
    const int fields[] = {NAT_FIELD(a), NAT_FIELD(b), NAT_FIELD(c), NAT_FIELD(g)};
    int x[4], d;
    for (int i = 0; i < 4; i++) x[i] = nat_read_bits(n, NAT_F64, at[i], fields[i], 1);
    d = nat_new(n, 0);
    nat_v(n, X86_FORM(1, 1, 1, 0, 0x14), d, x[0], x[1], 0);            /* vunpcklpd */
    nat_v(n, X86_FORM(1, 1, 1, 0, 0x14), 0, x[2], x[3], 0);
    nat_quarter(n, 1, d, 0, 1);
    nat_zero_behind(n, d);
    nat_vector(n, o, 3, d);
}
static void nat_lanes(FgNat *n, const FgFlatOp *o) {
    const int32_t *at = (const int32_t *)o->b;
    FgX86At a = nat_at(n, o->a, NAT_FIELD(a), X86_AX);
    int d = nat_new(n, 0);
    for (int i = 0; i < (n->narrow ? 8 : 16); i++) {
        FgX86At m = {a.base, -1, a.disp + at[i]};
        int part = i < 4 ? d : 0;
        if (i % 4 == 0) nat_load(n, NAT_F32, part, m);
        else nat_v_at_by(n, X86_FORM(3, 1, 0, 0, 0x22), part, part, m, 0, i % 4);
        if (i > 4 && i % 4 == 3) nat_quarter(n, 0, d, 0, i / 4);
    }
    nat_vector(n, o, 2, d);
}
static FgX86At nat_table(const FgNat *n, const void *p) { return (FgX86At){X86_BX, -1, (int32_t)((const char *)p - n->f->memory)}; }
#endif
#endif
