/* Machine code of flat code's copies, windows, rows and calls. See flat_native.h. */
#ifndef FG_FLAT_NATIVE_MOVE_H
#define FG_FLAT_NATIVE_MOVE_H
#include "flat_native_narrow.h"
#if FG_MACHINE_CODE

enum { NAT_INLINE = 512, NAT_ITEMS = 32 };                   /* bytes of a copy and items of a gather without a call */

static FgX86At nat_behind(FgX86At m, int64_t bytes) { m.disp += (int32_t)bytes; return m; }

/* Bytes from one place to another one that does not overlap it. */
static void nat_bytes_to(FgNat *n, FgX86At to, FgX86At from, int64_t bytes) {
    static const int loads[] = {X86_FORM(1, 2, 0, 0, 0x10), X86_FORM(1, 3, 1, 0, 0x10), X86_FORM(1, 0, 0, 0, 0x10), X86_FORM(1, 0, 0, 1, 0x10), X86_FORM(1, 0, 0, 2, 0x10)};
    if (bytes < 4) {
        int64_t i = bytes & 2;          /* two bytes by one store, of which they are loaded */
        if (i) { nat_load(n, NAT_H, NAT_GENERAL + X86_CX, from); nat_store(n, NAT_H, NAT_GENERAL + X86_CX, to); }
        for (; i < bytes; i++) {
            x86_op_at(&n->x, 0, X86_MOVZX1, X86_CX, nat_behind(from, i));
            x86_op_at(&n->x, 0, X86_STORE1, X86_CX, nat_behind(to, i));
        }
        return;
    }
    int which = bytes >= 64 ? 4 : bytes >= 32 ? 3 : bytes >= 16 ? 2 : bytes >= 8 ? 1 : 0;
    int64_t size = 4 << which, at = 0;
    for (; at + size <= bytes; at += size) {
        nat_v_at(n, loads[which], 0, 0, nat_behind(from, at), 0);
        if (at + 2 * size > bytes && at + size < bytes) nat_v_at(n, loads[which], 1, 0, nat_behind(from, bytes - size), 0);
        nat_v_at(n, loads[which] + 1, 0, 0, nat_behind(to, at), 0);
    }
    if (at < bytes) nat_v_at(n, loads[which] + 1, 1, 0, nat_behind(to, bytes - size), 0);
}

/* The registers that a function's integers and addresses go in. */
static void nat_argument(FgNat *n, int i, int64_t v) {
    static const uint8_t to[] = {X86_DI, X86_SI, X86_DX, X86_CX, X86_8, X86_9};
    x86_set(&n->x, to[i], v);
}
static void nat_argument_at(FgNat *n, int i, const char *addr, int field) {
    static const uint8_t to[] = {X86_DI, X86_SI, X86_DX, X86_CX, X86_8, X86_9};
    nat_address(n, addr, field, to[i]);
}
static void nat_function(FgNat *n, const void *fn) {
    x86_clear_upper(&n->x);
    x86_call(&n->x, fn);
    nat_called(n);
}
/* The op by the interpreter; its result then lies in memory. */
static void nat_other(FgNat *n, const FgFlatOp *o, int op) {
    int reg = fg_flat_register(op);
    nat_interpret(n, nat_apart(n));
    nat_called(n);
    if (reg < 0) return;
    int r = nat_read(n, nat_kind[reg], o->d, NAT_FIELD(d));
    n->last[reg] = n->dry ? -1 : r;
}

static void nat_copy(FgNat *n, const FgFlatOp *o, int op) {
    const int half = n->dry ? 0 : nat_held_half(n, o->a, o->n);
    if (half && (o->n == 2 || fg_flat_padded(n->f, o->d))) { nat_write(n, half, o->d, NAT_FIELD(d), nat_read(n, half, o->a, NAT_FIELD(a))); return; }
    int two = op == FLAT_copy && o->n == 2, kind = op == FLAT_copy1 ? NAT_B1 : two ? NAT_H : op == FLAT_copy8 ? nat_long_kind_of(n, o->d) : op == FLAT_copy64 ? NAT_V : nat_kind_of(n, o->d);
    if (op == FLAT_copy1 || two || op == FLAT_copy4 || op == FLAT_copy8 || op == FLAT_copy64) {
        int r = nat_read_bits(n, kind, o->a, NAT_FIELD(a), 1);
        nat_write(n, kind, o->d, NAT_FIELD(d), r);
        return;
    }
    if (op == FLAT_copy && o->n > NAT_INLINE) {
        nat_argument_at(n, 0, o->d, NAT_FIELD(d));
        nat_argument_at(n, 1, o->a, NAT_FIELD(a));
        nat_argument(n, 2, o->n);
        nat_function(n, (const void *)&memmove);
        return;
    }
#if FG_MACHINE_CODE == 2
    int lane, around = o->n <= 64 && fg_flat_padded(n->f, o->d) && !n->dry ? nat_around(n, o->a, o->n, &lane) : -1;
    if (around >= 0) {                  /* out of a register, for whoever reads a vector */
        int r = nat_new(n, 0);
        nat_down(n, r, around, lane);
        nat_write(n, NAT_V, o->d, NAT_FIELD(d), r);
        return;
    }
#endif
    FgX86At from = nat_at(n, o->a, NAT_FIELD(a), X86_AX), to = nat_at(n, o->d, NAT_FIELD(d), X86_DX);
    nat_bytes_to(n, to, from, o->n);    /* a place copied to itself is what it was */
    nat_changed(n, o->d, o->n);
}

/* ---- windows */

/* Bound the index in ax to [0, top] and let it be bytes. */
static void nat_bound(FgNat *n, int64_t top, int64_t step) {
    x86_op(&n->x, 0, X86_XOR, X86_CX, X86_CX);
    x86_op(&n->x, 1, X86_TEST, X86_AX, X86_AX);
    x86_op(&n->x, 1, X86_CMOV | X86_S, X86_AX, X86_CX);
    x86_set(&n->x, X86_CX, top);
    x86_op(&n->x, 1, X86_CMP, X86_AX, X86_CX);
    x86_op(&n->x, 1, X86_CMOV | X86_G, X86_AX, X86_CX);
    int bits = 0;
    while (bits < 40 && (int64_t)1 << bits != step) bits++;
    if (step == 1) return;
    if (bits < 40) { x86_shift(&n->x, 1, 4, X86_AX, bits); return; }
    x86_set(&n->x, X86_CX, step);
    x86_op(&n->x, 1, X86_IMUL, X86_AX, X86_CX);
}
/* Where the window begins in what lies at addr, when ax is how many bytes away that is. */
static FgX86At nat_window(FgNat *n, const char *addr, int field) {
    FgX86At m = nat_at(n, addr, field, X86_DX);
    m.index = X86_AX;
    return m;
}
/* What moves: n bytes of the window to the op's result. */
static void nat_take(FgNat *n, const FgFlatOp *o, int64_t bytes) {
    FgX86At from = nat_window(n, o->a, NAT_FIELD(a));
    int kind = bytes == 1 ? NAT_B1 : bytes == 2 ? NAT_H : bytes == 4 ? nat_kind_of(n, o->d) : nat_long_kind_of(n, o->d), whole = bytes > 4 && bytes <= 64 && bytes % 4 == 0 && nat_as_vector(n, o->d);
    if (whole || bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) {
        if (whole) kind = NAT_V;
        int r = nat_new_of(n, kind);
        if (whole) nat_load_first(n, r, from, (1 << bytes / 4) - 1, X86_CX);
        else nat_load(n, kind, r, from);
        nat_write(n, kind, o->d, NAT_FIELD(d), r);
        return;
    }
    x86_op_at(&n->x, 1, X86_LEA, X86_AX, from);
    nat_bytes_to(n, nat_at(n, o->d, NAT_FIELD(d), X86_DX), (FgX86At){X86_AX, -1, 0}, bytes);
    nat_changed(n, o->d, bytes);
}
/* The op's operand to the window; reach: the bytes that it moves in. */
static int nat_put_source(FgNat *n, const FgFlatOp *o, int64_t bytes, int *kind) {
    *kind = bytes == 1 ? NAT_B1 : bytes == 2 ? NAT_H : bytes == 8 ? (nat_find(n, NAT_I64, o->a) >= 0 ? NAT_I64 : NAT_F64) : nat_find(n, NAT_F32, o->a) >= 0 ? NAT_F32 : NAT_I32;
    return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 ? nat_read_bits(n, *kind, o->a, NAT_FIELD(a), 1) : -1;
}
static void nat_put(FgNat *n, const FgFlatOp *o, int64_t bytes, int kind, int reg) {
    FgX86At to = nat_window(n, o->d, NAT_FIELD(d));
    if (reg >= 0) { nat_store(n, kind, reg, to); return; }
    x86_op_at(&n->x, 1, X86_LEA, X86_DX, to);
    FgX86At from = nat_at(n, o->a, NAT_FIELD(a), X86_AX);
    nat_bytes_to(n, (FgX86At){X86_DX, -1, 0}, from, bytes);
}

/* A window of one index. */
static void nat_one_window(FgNat *n, const FgFlatOp *o, int op) {
    static const int sizes[] = {1, 4, 8, 0};
    int sum = op == FLAT_take4_sum || op == FLAT_take8_sum || op == FLAT_put4_sum || op == FLAT_put8_sum, take = op <= FLAT_take8_sum;
    int end = op >= FLAT_take1_end && op <= FLAT_take_end, in = op >= FLAT_put1_in && op <= FLAT_put_in, kind = 0, reg = -1;
    int64_t bytes = sum ? fg_flat_sum_bytes(op) : sizes[op <= FLAT_take ? op - FLAT_take1 : end ? op - FLAT_take1_end : in ? op - FLAT_put1_in : op - FLAT_put1];
    int64_t skip = 0, reach = sum ? o->n : (intptr_t)o->g;
    if (!bytes) bytes = o->n;
    if (bytes > NAT_INLINE) { nat_other(n, o, op); return; }
    if (!take) reg = nat_put_source(n, o, bytes, &kind);
    int index = nat_read(n, NAT_I32, o->b, NAT_FIELD(b));
    if (sum) {
        int more = nat_read(n, NAT_I32, o->g, NAT_FIELD(g));
        x86_op(&n->x, 0, X86_MOV, X86_AX, nat_g(index));
        x86_op(&n->x, 0, X86_ADD, X86_AX, nat_g(more));
        x86_op(&n->x, 1, X86_MOVSXD, X86_AX, X86_AX);
    } else x86_op(&n->x, 1, X86_MOVSXD, X86_AX, nat_g(index));
    if (end) {
        x86_set(&n->x, X86_DX, o->m + 1);
        x86_op(&n->x, 1, X86_MOV, X86_CX, X86_AX);
        x86_shift(&n->x, 1, 7, X86_CX, 63);
        x86_op(&n->x, 1, X86_AND, X86_CX, X86_DX);
        x86_op(&n->x, 1, X86_ADD, X86_AX, X86_CX);
    }
    if (in) {
        x86_set(&n->x, X86_CX, o->m);
        x86_op(&n->x, 1, X86_CMP, X86_AX, X86_CX);
        skip = x86_jump(&n->x, X86_A);
    }
    nat_bound(n, o->m, (intptr_t)o->e);
    if (take) { nat_take(n, o, bytes); return; }
    nat_put(n, o, bytes, kind, reg);
    if (in) x86_land(&n->x, skip);
    nat_changed(n, o->d, reach);
}

/* A window of several indices: their sum of bytes comes together in dx, then in ax. */
static void nat_windows(FgNat *n, const FgFlatOp *o, int op) {
    static const int sizes[] = {1, 4, 8, 0};
    const FgFlatStart *s = (const FgFlatStart *)o->b;
    int take = op <= FLAT_takes, kind = 0, reg = -1, drops = 0, indices[3];
    int64_t bytes = sizes[take ? op - FLAT_takes1 : op - FLAT_puts1], skips[3];
    if (!bytes) bytes = o->n;
    for (int64_t i = 0; i < o->m; i++) drops |= s[i].drop != 0;
    if (bytes > NAT_INLINE || o->m > 3 || (take && drops)) { nat_other(n, o, op); return; }
    if (!take) reg = nat_put_source(n, o, bytes, &kind);
    for (int64_t i = 0; i < o->m; i++)      /* before any jump */
        indices[i] = nat_in_memory(n, s[i].index) ? nat_read(n, s[i].wide ? NAT_I64 : NAT_I32, s[i].index, 0) : -1;
    for (int64_t i = 0; i < o->m; i++) {
        FgX86At m = nat_table(n, &s[i].index);
        if (indices[i] >= 0) x86_op(&n->x, 1, s[i].wide ? X86_MOV : X86_MOVSXD, X86_AX, nat_g(indices[i]));
        else {
            x86_op_at(&n->x, 1, X86_MOV, X86_AX, m);
            x86_op_at(&n->x, 1, s[i].wide ? X86_MOV : X86_MOVSXD, X86_AX, (FgX86At){X86_AX, -1, 0});
        }
        if (s[i].wrap) {
            x86_op(&n->x, 1, X86_MOV, X86_CX, X86_AX);
            x86_shift(&n->x, 1, 7, X86_CX, 63);
            x86_number(&n->x, 1, 4, X86_CX, (int32_t)s[i].wrap);
            x86_op(&n->x, 1, X86_ADD, X86_AX, X86_CX);
        }
        if (s[i].drop) {
            x86_set(&n->x, X86_CX, s[i].top);
            x86_op(&n->x, 1, X86_CMP, X86_AX, X86_CX);
            skips[i] = x86_jump(&n->x, X86_A);
        }
        nat_bound(n, s[i].top, s[i].step);
        if (i) x86_op(&n->x, 1, X86_ADD, X86_DX, X86_AX); else x86_op(&n->x, 1, X86_MOV, X86_DX, X86_AX);
    }
    x86_op(&n->x, 1, X86_MOV, X86_AX, X86_DX);
    if (take) { nat_take(n, o, bytes); return; }
    nat_put(n, o, bytes, kind, reg);
    for (int64_t i = 0; i < o->m; i++) if (s[i].drop) x86_land(&n->x, skips[i]);
    nat_changed(n, o->d, (intptr_t)o->g);
}

/* ---- rows that a pointer goes along */

static void nat_move_on(FgNat *n, const char *cell, int field, int at, int64_t by) {
    int next = nat_new(n, 1);
    x86_op_at(&n->x, 1, X86_LEA, nat_g(next), (FgX86At){nat_g(at), -1, (int32_t)by});
    nat_write(n, NAT_I64, cell, field, next);
}
static void nat_load_row(FgNat *n, const FgFlatOp *o, int op) {
    int at = nat_read(n, NAT_I64, o->a, NAT_FIELD(a)), whole = op >= FLAT_loadv8 && op <= FLAT_loadv;
    FgX86At from = {nat_g(at), -1, 0};
    if (whole) {
        for (int64_t i = 0; i < o->n; i += 64) {
            int r = nat_new(n, 0), last = i + 64 >= o->n;
            int64_t mask = !last ? 0xffff : op == FLAT_loadv ? o->m : (1 << o->n / 4) - 1;
            nat_load_first(n, r, nat_behind(from, i), mask, X86_AX);
            nat_write(n, NAT_V, o->d + i, NAT_FIELD(d), r);
            nat_needs_only(n, at);
        }
    } else if (op == FLAT_load4 || op == FLAT_load8) {
        int kind = op == FLAT_load8 ? nat_long_kind_of(n, o->d) : nat_kind_of(n, o->d), r = nat_new_of(n, kind);
        nat_load(n, kind, r, from);
        nat_write(n, kind, o->d, NAT_FIELD(d), r);
    } else if (o->n == 1 || o->n == 2) {
        int kind = o->n == 1 ? NAT_B1 : NAT_H, r = nat_new(n, 1);
        nat_load(n, kind, r, from);
        nat_write(n, kind, o->d, NAT_FIELD(d), r);
    } else if (o->n > NAT_INLINE) { nat_other(n, o, op); return; }
    else {
        nat_bytes_to(n, nat_at(n, o->d, NAT_FIELD(d), X86_DX), from, o->n);
        nat_changed(n, o->d, o->n);
    }
    nat_move_on(n, o->a, NAT_FIELD(a), at, o->k);
}
static void nat_store_row(FgNat *n, const FgFlatOp *o, int op) {
    if (op == FLAT_store && o->n > NAT_INLINE) { nat_other(n, o, op); return; }
    int at = nat_read(n, NAT_I64, o->d, NAT_FIELD(d));
    FgX86At to = {nat_g(at), -1, 0};
#if FG_MACHINE_CODE == 2
    const int half = n->dry || o->n == 2 ? 0 : nat_held_half(n, o->a, o->n);
    if (half) {
        nat_row_mask(n, X86_AX, (1 << o->n / 2) - 1);
        nat_store_half(n, half, nat_read(n, half, o->a, NAT_FIELD(a)), to, 1);
    } else if (op == FLAT_storev) {
        for (int64_t i = 0; i < o->n; i += 64) {
            int r = nat_read_bits(n, NAT_V, o->a + i, NAT_FIELD(a), 1), part = i + 64 >= o->n && o->m != 0xffff;
            if (part) nat_row_mask(n, X86_AX, o->m);
            nat_v_at(n, nat_store_form(NAT_V), r, 0, nat_behind(to, i), part);
            nat_needs_only(n, at);
        }
    } else
#endif
    if (op == FLAT_storev || (op == FLAT_store && o->n != 1 && o->n != 2)) nat_bytes_to(n, to, nat_at(n, o->a, NAT_FIELD(a), X86_AX), o->n);
    else {
        int kind, r = nat_put_source(n, o, op == FLAT_store ? o->n : op == FLAT_store4 ? 4 : 8, &kind);
        nat_store(n, kind, r, to);
    }
    nat_move_on(n, o->d, NAT_FIELD(d), at, o->k);
}

static void nat_items(FgNat *n, const FgFlatOp *o, int op) {
    const int32_t *at = (const int32_t *)o->b;
    if (o->n > NAT_ITEMS || (o->m != 1 && o->m != 2 && o->m != 4 && o->m != 8)) { nat_other(n, o, op); return; }
    FgX86At from = nat_at(n, o->a, NAT_FIELD(a), X86_AX), to = nat_at(n, o->d, NAT_FIELD(d), X86_DX);
    int64_t lo = 0, hi = o->n;
    for (int64_t i = 0; i < o->n; i++) {
        int64_t there = at[i] * o->m, here = i * o->m;
        const int kind = o->m == 1 ? NAT_B1 : o->m == 2 ? NAT_H : o->m == 4 ? NAT_I32 : NAT_I64;
        nat_load(n, kind, NAT_GENERAL + X86_CX, nat_behind(from, op == FLAT_gather ? there : here));
        nat_store(n, kind, NAT_GENERAL + X86_CX, nat_behind(to, op == FLAT_gather ? here : there));
        if (op == FLAT_scatter) { if (at[i] < lo) lo = at[i]; if (at[i] + 1 > hi) hi = at[i] + 1; }
    }
    nat_changed(n, o->d + lo * o->m, (hi - lo) * o->m);
}
#endif
#endif
