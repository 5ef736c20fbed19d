/* Which vectors of flat code are of 32 bytes by AVX2, one register and one instruction each: those of which nobody reads more.  An op on whole vectors is
 * written for 64 bytes; which of them count is what other ops read of its result, to the last of which each loop has to be followed.  See flat_vex.h. */
#ifndef FG_FLAT_VEX_NARROW_H
#define FG_FLAT_VEX_NARROW_H
#include "flat_native_move.h"
#if FG_MACHINE_CODE == 1

/* Someone reads [addr, addr + bytes): mark the vectors of which that meets the upper half. */
static int vex_mark(FgNat *n, const char *addr, int64_t bytes) {
    const int64_t begin = addr - n->f->memory, end = begin + bytes;
    int more = 0;
    if (addr < n->f->memory || begin >= FG_FLAT_MEMORY) return 0;
    for (int64_t k = begin / 64; 64 * k < end && k < FG_FLAT_MEMORY / 64; k++) {
        if (end <= 64 * k + 32 || n->upper[k]) continue;
        n->upper[k] = 1;
        more = 1;
    }
    return more;
}
/* 1 for an op that computes lanes alone, each for itself, or brings numbers to lanes. */
static int vex_by_lanes(int op) {
    if (op < FG_CHAINS) return op >= 2 * FG_CHAIN && op < 4 * FG_CHAIN;
    if (op >= FLAT_round_bf16_v32_m && op <= FLAT_round_f16_v32_a) return 0;
    if (op == FLAT_widen_bf16 || op == FLAT_widen_f16 || op == FLAT_bytes) return 0;
    return fg_flat_register(op) == 2 || fg_flat_register(op) == 3 || op == FLAT_copy64 || (op >= FLAT_loadv8 && op <= FLAT_loadv);
}
static int vex_is_upper(const FgNat *n, const char *d) {
    return !nat_in_memory(n, d) || (d - n->f->memory) % 64 || n->upper[(d - n->f->memory) / 64];
}
/* 1 if an op by lanes leaves a result of 64 bytes. */
static int vex_is_wide(const FgNat *n, const FgFlatOp *o, int op) {
    const int at = op % FG_CHAIN, chain = op < FG_CHAINS;
    if (op >= FLAT_loadv8 && op <= FLAT_loadv && o->n > 32) return 1;
    return vex_is_upper(n, o->d) || (chain && at >= 7 && vex_is_upper(n, o->e)) || (chain && at >= 35 && vex_is_upper(n, o->f));
}
/* Mark the numbers of a product of small matrices that count for the first `lanes` of four bytes of its result. */
static int vex_mark_steps(FgNat *n, const FgFlatOp *o, int wide, int lanes) {
    int more = 0;
    if (!o->g) return vex_mark(n, o->a, o->m) | vex_mark(n, o->b, 4 * o->n);
    for (int64_t i = 0; i < o->n; i++) for (int k = 0; k < lanes >> wide; k++) {
        const int64_t a = wide ? ((const FgFlatLongStep *)o->g)[i].a[k] : ((const FgFlatStep *)o->g)[i].a[k];
        const int64_t b = wide ? ((const FgFlatLongStep *)o->g)[i].b[k] : ((const FgFlatStep *)o->g)[i].b[k];
        if (a >= 0) more |= vex_mark(n, o->a + (a << (2 + wide)), 4 << wide) | vex_mark(n, o->b + (b << (2 + wide)), 4 << wide);
    }
    return more;
}
/* Mark what an op by lanes reads. */
static int vex_mark_lanes(FgNat *n, const FgFlatOp *o, int op) {
    const int wide = vex_is_wide(n, o, op), at = op % FG_CHAIN, lanes = wide ? 16 : 8, bytes = wide ? 64 : 32;
    int more = 0;
    if (fg_flat_takes_last(op)) {               /* out of a register */
        const FgFlatOp *last = o - 1;
        while (last > n->f->ops && fg_flat_register((int)(intptr_t)last->label) != fg_flat_register(op)) last--;
        more |= vex_mark(n, last->d, bytes);
    }
    if (op == FLAT_permute) {
        const FgFlatWindow *w = (const FgFlatWindow *)o->b;
        for (int64_t i = 0; i < o->n; i++)
            for (int k = 0; k < lanes; k++) if (w[i].mask >> k & 1) more |= vex_mark(n, o->a + w[i].offset + 4 * w[i].at[k], 4);
        return more;
    }
    if (op == FLAT_lanes) {
        for (int k = 0; k < 16; k++) more |= vex_mark(n, o->a + ((const int32_t *)o->b)[k], 4);
        return more;
    }
    if (op == FLAT_dot || op == FLAT_long_dot) return vex_mark_steps(n, o, op == FLAT_long_dot, lanes);
    if (op >= FLAT_permute1 && op <= FLAT_argminima4) {     /* what terms there are */
        const FgFlatFold *g = (const FgFlatFold *)o->b;
        return vex_mark(n, o->a, 4 * g->rows * g->k * g->width);
    }
    if (op == FLAT_pack || op == FLAT_long_pack) {
        const char *from[] = {o->a, o->b, o->c, o->g};
        for (int i = 0; i < 4; i++) more |= vex_mark(n, from[i], op == FLAT_pack ? 4 : 8);
        return more;
    }
    if (op == FLAT_splat4 || op == FLAT_splat8) return vex_mark(n, o->a, op == FLAT_splat4 ? 4 : 8);
    if (op >= FLAT_loadv8 && op <= FLAT_loadv) return vex_mark(n, o->a, 8);
    if (op == FLAT_copy64) return vex_mark(n, o->a, bytes);
    if (op >= FG_CHAINS || at < FG_FIRST_LAST || at >= 7) more |= vex_mark(n, o->a, bytes);
    more |= vex_mark(n, o->b, bytes);
    if (op < FG_CHAINS) {
        if (at >= 7) more |= vex_mark(n, o->c, bytes);
        return at >= 35 ? more | vex_mark(n, o->g, bytes) : more;
    }
    if (op >= FLAT_end && op != FLAT_choose) return more;
    more |= vex_mark(n, o->c, bytes);
    return fg_flat_is_where(op) ? more | vex_mark(n, o->g, bytes) : more;
}
/* Mark what any other op reads. */
static void vex_mark_op(FgNat *n, const FgFlatOp *o, int op) {
    if (op == FLAT_call) {
        const FgInst *inst = (const FgInst *)o->a;
        FgTensor *slots = (FgTensor *)o->d;
        for (int j = 0; j < inst->n_in + inst->n_out; j++) {            /* a result may be what it was in part */
            const FgTensor *t = &slots[inst->args[j]];
            int64_t down = 0, up = 1, item = fg_itemsize(t->dtype);
            for (int d = 0; d < t->ndim; d++) { const int64_t reach = (t->shape[d] - 1) * t->strides[d]; if (reach < 0) down += reach; else up += reach; }
            if (t->size) vex_mark(n, t->data + down * item, (up - down) * item);
        }
    } else if (op == FLAT_fn) {
        const char *from[] = {o->a, o->b, o->c};
        for (int i = 0; i < 3; i++) vex_mark(n, from[i], (int64_t)(intptr_t)o->g * o->n);
    } else if (op == FLAT_seg || op == FLAT_sum_f32) vex_mark(n, o->a, (intptr_t)o->g * o->n * o->k * o->m);
    else if (op >= FLAT_lt_v32 && op <= FLAT_ne_w32) {
        const int64_t bytes = o->n * (op >= FLAT_lt_v64 && op <= FLAT_ne_v64 ? 8 : 4);
        vex_mark(n, o->a, bytes);
        vex_mark(n, o->b, bytes);
    } else if ((op == FLAT_dot1 || op == FLAT_long_dot1) && o->g) vex_mark_steps(n, o, op == FLAT_long_dot1, 1 << (op == FLAT_long_dot1));
    else if (op == FLAT_dot1 || op == FLAT_long_dot1) {
        const int64_t bytes = o->n * (op == FLAT_dot1 ? 4 : 8);
        vex_mark(n, o->a, bytes);
        vex_mark(n, o->b, bytes);
    } else if (op == FLAT_argmax || op == FLAT_argmin) vex_mark(n, o->a, 4 * o->n);
    else if (op >= FLAT_store4 && op <= FLAT_store) vex_mark(n, o->a, o->n);
    else if (op >= FLAT_copy1 && op <= FLAT_copy) vex_mark(n, o->a, o->n);
    else if (op < FLAT_end && !fg_flat_wide(op) && !fg_flat_half_bytes(op, 0)) {        /* single numbers, or 16 bools */
        const char *from[] = {o->a, o->b, o->c, o->g};
        for (int i = 0; i < 4; i++) vex_mark(n, from[i], 16);
    }
    else if ((op >= FLAT_jump && op <= FLAT_store && op != FLAT_point) || op >= FLAT_unless_lt_f32) {
        const char *from[] = {o->d, o->a, o->b, o->c};          /* single numbers and pointers */
        for (int i = 0; i < 4; i++) vex_mark(n, from[i], 8);
    } else for (int64_t k = 0; k < (n->f->used + 63) / 64; k++) if (!n->upper[k] && fg_flat_touches(o, n->f->memory + 64 * k + 32, 32, 1)) n->upper[k] = 1;
}
static void vex_find_upper(FgNat *n) {
    const FgFlat *f = n->f;
    memset(n->upper, 0, FG_FLAT_MEMORY / 64);
    for (int i = 0; i < f->n_outs; i++) vex_mark(n, f->outs[i].fixed, f->outs[i].bytes);
    for (int i = 0; i < f->n_ops; i++) if (!vex_by_lanes((int)(intptr_t)f->ops[i].label)) vex_mark_op(n, &f->ops[i], (int)(intptr_t)f->ops[i].label);
    for (int more = 1; more;) {
        more = 0;
        for (int i = f->n_ops - 1; i >= 0; i--) if (vex_by_lanes((int)(intptr_t)f->ops[i].label)) more |= vex_mark_lanes(n, &f->ops[i], (int)(intptr_t)f->ops[i].label);
    }
}
/* Whether an op's vectors are of 32 bytes. */
static int nat_narrow_vectors(const FgNat *n, const FgFlatOp *o, int op) {
    if (op >= FLAT_lt_v32 && op <= FLAT_ne_w32) return o->n * (op >= FLAT_lt_v64 && op <= FLAT_ne_v64 ? 8 : 4) <= 32;
    if (op >= FLAT_take1 && op <= FLAT_takes) return o->n <= 32 && !vex_is_upper(n, o->d);
    return vex_by_lanes(op) && !vex_is_wide(n, o, op);
}

/* Mark the numbers that ops write alone. */
static void vex_find_alone(FgNat *n) {
    static const uint8_t sizes[] = {4, 8, 0, 0, 4, 8};
    memset(n->alone, 0, FG_FLAT_MEMORY / 4);
    for (int i = 0; i < n->f->n_ops; i++) {
        const FgFlatOp *o = &n->f->ops[i];
        const int op = (int)(intptr_t)o->label, reg = fg_flat_register(op), at = op % FG_CHAIN, chain = op < FG_CHAINS;
        int size = reg >= 0 ? sizes[reg] : 0;
        if (op == FLAT_copy4 || op == FLAT_load4 || op == FLAT_take4 || op == FLAT_take4_end || op == FLAT_takes4 || op == FLAT_sum_f32) size = 4;
        if (op == FLAT_copy8 || op == FLAT_load8 || op == FLAT_take8 || op == FLAT_take8_end || op == FLAT_takes8) size = 8;
        if ((op == FLAT_fn || op == FLAT_seg) && o->n == 1 && (op == FLAT_fn || o->m == 1)) size = (int)(intptr_t)o->g;
        if (op >= FLAT_select_b1 && op <= FLAT_cast_i64_f64) size = op == FLAT_select_b1 ? 0 : 4;
        const char *to[] = {o->d, chain && at >= 7 ? o->e : NULL, chain && at >= 35 ? o->f : NULL};
        for (int k = 0; k < 3; k++)
            for (int byte = 0; byte < size && nat_in_memory(n, to[k]); byte += 4) n->alone[(to[k] - n->f->memory) / 4 + byte / 4] = 1;
    }
}
/* 1 if there is a place between operations that registers alone give to those who read it. */
static int nat_spares(const FgNat *n) {
    for (int64_t k = 0; k < (n->f->used + 63) / 64; k++) if (n->f->between[k] && !n->needed[k]) return 1;
    return 0;
}
/* What the ops read and write, for the translation; 0 if there is no memory for it. */
static int nat_look(FgNat *n) {
    n->upper = (uint8_t *)malloc(FG_FLAT_MEMORY / 64);
    n->alone = (uint8_t *)malloc(FG_FLAT_MEMORY / 4);
    n->reads = (uint8_t *)calloc(FG_FLAT_MEMORY / 4, 1);
    n->needed = (uint8_t *)calloc(FG_FLAT_MEMORY / 64, 1);
    if (!n->upper || !n->alone || !n->reads || !n->needed) return 0;
    vex_find_upper(n);
    vex_find_alone(n);
    return 1;
}
#elif FG_MACHINE_CODE
static int nat_narrow_vectors(const FgNat *n, const FgFlatOp *o, int op) { (void)n; (void)o; (void)op; return 0; }
static int nat_look(FgNat *n) { (void)n; return 1; }
static int nat_spares(const FgNat *n) { (void)n; return 0; }
#endif
#endif
