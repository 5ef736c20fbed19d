/* Machine code by AVX2 of flat code's permutations, small products and reductions: eight lanes at a time, to which vex_gather brings each step's numbers.
 * See flat_native.h; flat_native_fold.h has AVX-512's. */
#ifndef FG_FLAT_VEX_FOLD_H
#define FG_FLAT_VEX_FOLD_H
#include "flat_native_ops.h"
#if FG_MACHINE_CODE == 1
#include "flat_vex_gather.h"

/* The register that holds a result, of the op's own length. */
static int nat_find_vector(const FgNat *n, const char *addr) { return nat_find(n, n->narrow ? NAT_Y : NAT_V, addr); }
/* The upper half of a result that has eight numbers or fewer: what is there is not read, but it is a value. */
static void vex_no_upper(FgNat *n, int d) { if (!n->narrow) vex_one(&n->x, VEX_MOVE, d + NAT_UPPER, 0, d); }

static void nat_permute(FgNat *n, const FgFlatOp *o) {
    const FgFlatWindow *w = (const FgFlatWindow *)o->b;
    const int begin = (int)(o->a - n->f->memory);
    int32_t from[16];
    int d = nat_new(n, 0);
    for (int lane = 0; lane < 16; lane++) {
        from[lane] = VEX_ANY;
        for (int64_t i = 0; i < o->n; i++) if (w[i].mask >> lane & 1) from[lane] = begin + (int)w[i].offset + 4 * w[i].at[lane];
    }
    if (n->dry) vex_look(n, from, 16);
    else {
        vex_gather(n, d, 0, from);
        if (!n->narrow && vex_any(from + 8, 8)) vex_gather(n, d + NAT_UPPER, 0, from + 8); else vex_no_upper(n, d);
    }
    nat_vector(n, o, 2, d);
}

/* Four single numbers to a vector. */
static void vex_pack(FgNat *n, const FgFlatOp *o) {
    const char *at[] = {o->a, o->b, o->c, o->g};
    int32_t from[4];
    int held = 0, inside = 1;
    for (int i = 0; i < 4; i++) {
        inside &= nat_in_memory(n, at[i]);
        held += nat_find(n, NAT_F32, at[i]) >= 0;
        from[i] = (int32_t)(at[i] - n->f->memory);
    }
    if (n->dry || !inside || held == 4) { nat_pack(n, o); return; }
    int d = nat_new(n, 0);
    vex_quarter(n, d, from);
    nat_zero_behind(n, d);
    nat_vector(n, o, 2, d);
}
/* Numbers `at` of four or eight bytes behind `begin` as places of four bytes; those of no lane are -1. */
static void vex_lanes(int32_t *from, int begin, const void *at, int wide, int half) {
    for (int i = 0; i < 8; i++) {
        const int64_t k = wide ? ((const int64_t *)at)[4 * half + i / 2] : ((const int32_t *)at)[8 * half + i];
        from[i] = k < 0 ? VEX_ANY : begin + (int)k * (wide ? 8 : 4) + (wide ? i % 2 * 4 : 0);
    }
}
/* A product of small matrices, of numbers of four or (wide) eight bytes; one: of which one number is left. o->e: products are rounded before they are added. */
static void vex_product(FgNat *n, const FgFlatOp *o, int wide, int one) {
    const int a = (int)(o->a - n->f->memory), b = (int)(o->b - n->f->memory), kind = !one ? NAT_V : wide ? NAT_F64 : NAT_F32;
    const int fma = X86_FORM(2, 1, wide, one ? 0 : 1, one ? 0xb9 : 0xb8);
    const char *step = o->g;
    const int64_t size = wide ? sizeof(FgFlatLongStep) : sizeof(FgFlatStep), second = size / 2;
    const int rounded = o->e != NULL, mul = X86_FORM(1, wide, 0, 1, 0x59), add = X86_FORM(1, wide, 0, 1, 0x58);
    int32_t x[8], y[8];
    int d = nat_new_of(n, kind), upper = 0;
    for (int half = 0; half < (one || n->narrow ? 1 : 2); half++) {
        vex_lanes(x, a, step, wide, half);
        if (half && !vex_any(x, 8)) break;
        const int sum = d + half * NAT_UPPER;
        upper = half;
        if (!n->dry) vex_one(&n->x, VEX_XOR, sum, sum, sum);
        for (int64_t i = 0; i < o->n; i++) {
            vex_lanes(x, a, step + i * size, wide, half);
            vex_lanes(y, b, step + i * size + second, wide, half);
            if (n->dry) { vex_look(n, x, 8); vex_look(n, y, 8); continue; }
            vex_gather(n, 0, 8, x);
            const int there = !one && vex_in_place(n, y);
            if (!there) vex_gather(n, 1, 9, y);
            if (there) vex_from(n, rounded ? mul : fma, rounded ? 0 : sum, 0, y[0], -1); else vex_one(&n->x, rounded ? mul : fma, rounded ? 0 : sum, 0, 1);
            if (rounded) vex_one(&n->x, add, sum, sum, 0);
        }
    }
    if (one) {
        nat_write(n, kind, o->d, NAT_FIELD(d), d);
        n->last[wide] = n->dry ? -1 : d;
        return;
    }
    if (!upper && !n->dry) vex_no_upper(n, d);
    nat_vector(n, o, wide ? 3 : 2, d);
}
/* A vector of up to eight numbers with as many rows: what gemm_tile.h calls dots_few, whose tree of sums this is, two rows, four and eight to a register. */
static void vex_rows(FgNat *n, const FgFlatOp *o) {
    enum { ROW = 2, MASK = 10, LOWER = X86_FORM(1, 1, 0, 1, 0x14), UPPER = X86_FORM(1, 1, 0, 1, 0x15), MUL = X86_FORM(1, 0, 0, 1, 0x59), SUM = X86_FORM(1, 0, 0, 1, 0x58) };
    static const uint8_t to[] = {0, 1, 8, 9};
    const int rows = (int)((intptr_t)o->e & 255), step = (int)((intptr_t)o->e >> 8) * 4, a = (int)(o->a - n->f->memory), b = (int)(o->b - n->f->memory), part = o->n < 8;
    const int d = nat_new(n, 0), t = nat_new_of(n, NAT_Y);
    int32_t from[8];
    for (int i = 0; i < 8; i++) from[i] = i < o->n ? b + 4 * i : VEX_ANY;
    if (n->dry) vex_look(n, from, 8);
    else {
        vex_gather(n, ROW, 0, from);
        if (part) {                             /* what is behind a row counts as zero */
            FgX86At mask = nat_number(n, NAT_FIRST);
            mask.disp += 32 - 4 * (int)o->n;
            vex_one_at(&n->x, VEX_LOAD, MASK, 0, mask);
            vex_one(&n->x, X86_FORM(1, 0, 0, 1, 0x54), ROW, ROW, MASK);
        }
        for (int i = 0; i < 8; i++) {
            const int row = i / 2 + i % 2 * 4, x = i % 2 ? d : to[i / 2];
            if (row < rows && part) vex_one_at(&n->x, VEX_MASKED, x, MASK, vex_place(n, a + row * step));
            if (row < rows) { if (part) vex_one(&n->x, MUL, x, ROW, x); else vex_one_at(&n->x, MUL, x, ROW, vex_place(n, a + row * step)); }
            else if (i % 2 == 0) vex_one(&n->x, VEX_MOVE, x, 0, to[0]);         /* no such row, nor one four behind it */
            if (i % 2 == 0) continue;
            const int lower = to[i / 2], second = row < rows ? d : lower;
            vex_one_by(&n->x, VEX_HALVES, t, lower, second, 0x20);
            vex_one_by(&n->x, VEX_HALVES, lower, lower, second, 0x31);
            vex_one(&n->x, SUM, lower, t, lower);
        }
        for (int i = 0; i < 2; i++) {
            const int x = to[2 * i], y = to[2 * i + 1];
            vex_one(&n->x, LOWER, t, x, y);
            vex_one(&n->x, UPPER, x, x, y);
            vex_one(&n->x, SUM, x, t, x);
        }
        vex_one_by(&n->x, VEX_SHUFFLE | VEX_WIDE, t, to[0], to[2], 0x88);
        vex_one_by(&n->x, VEX_SHUFFLE | VEX_WIDE, to[0], to[0], to[2], 0xdd);
        vex_one(&n->x, SUM, d, t, to[0]);
        vex_no_upper(n, d);
    }
    nat_vector(n, o, 2, d);
}
static void nat_dot(FgNat *n, const FgFlatOp *o, int one) { if (one || o->g) vex_product(n, o, 0, one); else vex_rows(n, o); }
static void nat_long_dot(FgNat *n, const FgFlatOp *o, int one) { vex_product(n, o, 1, one); }

/* Of two vectors whose numbers lie side by side, number by number, as the product of two small matrices is. */
static void nat_line(FgNat *n, const FgFlatOp *o, int wide) {
    const int kind = wide ? NAT_F64 : NAT_F32, item = wide ? 8 : 4, d = nat_new_of(n, kind);
    vex_one(&n->x, VEX_XOR, d, d, d);
    for (int64_t i = 0; i < o->n; i++) {
        const int x = nat_find(n, kind, o->a + item * i), y = nat_find(n, kind, o->b + item * i);
        if (n->dry == 1) { nat_note(n, kind, o->a + item * i, 1, 0); nat_note(n, kind, o->b + item * i, 1, 0); }
        if (n->dry) continue;
        if (x < 0) nat_load(n, kind, 0, nat_at(n, o->a + item * i, 0, X86_AX));
        if (y >= 0) vex_one(&n->x, X86_FORM(2, 1, wide, 0, 0xb9), d, x < 0 ? 0 : x, y);
        else vex_one_at(&n->x, X86_FORM(2, 1, wide, 0, 0xb9), d, x < 0 ? 0 : x, nat_at(n, o->b + item * i, 0, X86_AX));
    }
    nat_write(n, kind, o->d, NAT_FIELD(d), d);
    n->last[wide] = n->dry ? -1 : d;
}
/* Numbers added one by one. */
static void nat_sum_numbers(FgNat *n, const FgFlatOp *o) {
    const int d = nat_new_of(n, NAT_F32);
    for (int64_t i = 0; i < o->k; i++) {
        const int x = nat_find(n, NAT_F32, o->a + 4 * i);
        const FgX86At m = nat_at(n, o->a + 4 * i, 0, X86_AX);
        if (n->dry == 1) nat_note(n, NAT_F32, o->a + 4 * i, 1, 0);
        if (n->dry) continue;
        if (i == 0) { if (x >= 0) nat_move(n, NAT_F32, d, x); else nat_load(n, NAT_F32, d, m); }
        else if (x >= 0) vex_one(&n->x, X86_FORM(1, 2, 0, 0, 0x58), d, d, x);
        else vex_one_at(&n->x, X86_FORM(1, 2, 0, 0, 0x58), d, d, m);
    }
    nat_write(n, NAT_F32, o->d, NAT_FIELD(d), d);
}

/* ---- reductions, as in flat_fold.h */

/* Where the numbers of half a term are. */
static void vex_term(const FgNat *n, const FgFlatOp *o, int four, const FgFlatTerm *t, int half, int lanes, int32_t *from) {
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const int begin = (int)(o->a - n->f->memory);
    for (int i = 0; i < 8; i++) {
        const int lane = 8 * half + i, at = t->at[lane];
        if (lane >= lanes) { from[i] = VEX_ANY; continue; }
        const int64_t vector = four ? ((t->first >> lane & 1) * 2 + at / 16) * 64 : at < 16 ? t->first : t->second;
        from[i] = begin + (int)(vector < g->last ? vector : g->last) + at % 16 * 4;
    }
}
static int vex_fold_lanes(const FgFlatFold *g) { return (int)(g->rows * g->width); }
static void nat_fold(FgNat *n, const FgFlatOp *o, int how, int four, FgFlatOp *exact) {
    enum { TERM = 10, SUMS = 2, SPARE = 9 };
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const int form = X86_FORM(1, 0, 0, 1, how == FG_FOLD_SUM ? 0x58 : how == FG_FOLD_MAX ? 0x5f : 0x5d), add = X86_FORM(1, 0, 0, 1, 0x58);
    const int parts = g->chains && g->k >= 4 ? 4 : 1, lanes = vex_fold_lanes(g), halves = lanes > 8 ? 2 : 1, d = nat_new(n, 0);
    int32_t from[8];
    for (int half = 0; half < halves; half++) {
        const int part[4] = {d + half * NAT_UPPER, 0, 1, 8};
        for (int64_t i = 0; i < g->k; i++) {
            const int in = parts == 4 && i < g->k / 4 * 4 ? (int)(i % 4) : 0, to = i < parts ? part[i] : TERM;
            vex_term(n, o, four, t + i, half, lanes, from);
            if (n->dry) { vex_look(n, from, 8); continue; }
            vex_gather(n, to, SPARE, from);
            if (how && i == 0) vex_one(&n->x, VEX_MOVE, SUMS, 0, to);       /* the sum of all, which tells of a NaN */
            else if (how) vex_one(&n->x, add, SUMS, SUMS, to);
            if (i >= parts) vex_one(&n->x, form, part[in], g->chains ? TERM : part[in], g->chains ? part[in] : TERM);
            if (parts == 4 && i == g->k / 4 * 4 - 1) {
                vex_one(&n->x, form, part[0], part[2], part[0]);
                vex_one(&n->x, form, part[2], part[3], part[1]);
                vex_one(&n->x, form, part[0], part[2], part[0]);
            }
        }
        if (!how || n->dry) continue;
        vex_one_by(&n->x, X86_FORM(1, 0, 0, 1, 0xc2), SUMS, SUMS, SUMS, 3);
        vex_one(&n->x, X86_FORM(1, 0, 0, 1, 0x50), half ? X86_AX : X86_CX, 0, SUMS);            /* vmovmskps */
        if (half) x86_op(&n->x, 0, X86_OR, X86_CX, X86_AX);
    }
    if (halves == 1 && !n->dry) vex_no_upper(n, d);
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
    if (how) {
        if (exact && !n->dry) {         /* the VM's function: the interpreter has no fold of its own */
            exact->label = n->labels[FLAT_seg];
            exact->n = g->rows; exact->k = g->k; exact->m = g->width;
        }
        x86_op(&n->x, 0, X86_TEST, X86_CX, X86_CX);
        nat_aside(n, X86_NE, exact);
    }
    n->last[2] = n->dry ? -1 : nat_find_vector(n, o->d);
}
/* The positions of the first extrema, or of the first NaN. */
static void nat_positions(FgNat *n, const FgFlatOp *o, int how, int four) {
    enum { BEST = 0, TERM = 1, COUNT = 2, MASK = 10, MORE = 8, SPARE = 9 };
    const FgFlatFold *g = (const FgFlatFold *)o->b;
    const FgFlatTerm *t = (const FgFlatTerm *)(g + 1);
    const int compare = X86_FORM(1, 0, 0, 1, 0xc2), blend = X86_FORM(3, 1, 0, 1, 0x4a), lanes = vex_fold_lanes(g), halves = lanes > 8 ? 2 : 1, d = nat_new(n, 0);
    int32_t from[8];
    for (int half = 0; half < halves; half++) {
        const int at = d + half * NAT_UPPER;
        vex_one(&n->x, VEX_XOR, at, at, at);
        vex_one(&n->x, VEX_XOR, COUNT, COUNT, COUNT);
        for (int64_t i = 0; i < g->k; i++) {
            vex_term(n, o, four, t + i, half, lanes, from);
            if (n->dry) { vex_look(n, from, 8); continue; }
            vex_gather(n, i ? TERM : BEST, SPARE, from);
            if (i == 0) continue;
            vex_one_by(&n->x, compare, MASK, BEST, BEST, 7);
            vex_one_by(&n->x, compare, MORE, TERM, BEST, how == FG_FOLD_MAX ? 0x16 : 0x19);
            vex_one(&n->x, X86_FORM(1, 1, 0, 1, 0xdb), MASK, MASK, MORE);
            vex_one_by(&n->x, blend, BEST, BEST, TERM, MASK << 4);
            vex_one(&n->x, X86_FORM(1, 1, 0, 1, 0x76), MORE, MORE, MORE);                       /* -1 */
            vex_one(&n->x, X86_FORM(1, 1, 0, 1, 0xfa), COUNT, COUNT, MORE);
            vex_one_by(&n->x, blend, at, at, COUNT, MASK << 4);
        }
    }
    if (halves == 1 && !n->dry) vex_no_upper(n, d);
    nat_write(n, NAT_V, o->d, NAT_FIELD(d), d);
    n->last[2] = n->dry ? -1 : nat_find_vector(n, o->d);
}
/* That of o->n numbers side by side: bits of cx tell of those that are the extremum, of dx of those that are no numbers. */
static void nat_position(FgNat *n, const FgFlatOp *o, int how) {
    enum { NONE = 9, TOP = 8 };
    const int form = X86_FORM(1, 0, 0, 1, how == FG_FOLD_MAX ? 0x5f : 0x5d), compare = X86_FORM(1, 0, 0, 1, 0xc2), bits = X86_FORM(1, 0, 0, 1, 0x50);
    const int begin = (int)(o->a - n->f->memory), parts = (int)(o->n + 7) / 8, rest = (int)(o->n % 8), d = nat_new(n, 1);
    for (int i = 0; i < parts && n->dry == 1; i++) nat_note(n, NAT_V, o->a + i / 2 * 64, 1, 0);
    if (rest) {
        x86_set(&n->x, X86_AX, how == FG_FOLD_MAX ? 0xff800000 : 0x7f800000);               /* no number is behind these */
        vex_one(&n->x, X86_FORM(1, 1, 0, 0, 0x6e), NONE, 0, X86_AX);
        vex_one(&n->x, VEX_SPREAD4, NONE, 0, NONE);
    }
    for (int pass = 0; pass < 2 && !n->dry; pass++) {
        for (int i = 0; i < parts; i++) {
            const int general = i ? X86_AX : pass ? X86_CX : X86_DX;
            if (pass == 0 || parts > 1) {
                vex_from(n, VEX_LOAD, 0, 0, begin + 32 * i, -1);
                if (i == parts - 1 && rest) vex_one_by(&n->x, X86_FORM(3, 1, 0, 1, 0x0c), 0, NONE, 0, (1 << rest) - 1);         /* vblendps */
            }
            vex_one_by(&n->x, compare, 1, 0, pass ? TOP : 0, pass ? 0 : 3);
            vex_one(&n->x, bits, general, 0, 1);
            if (i) { x86_shift(&n->x, 1, 4, X86_AX, 8 * i); x86_op(&n->x, 1, X86_OR, pass ? X86_CX : X86_DX, X86_AX); }
            if (pass == 0) vex_one(&n->x, i ? form : VEX_MOVE, TOP, i ? TOP : 0, 0);
        }
        if (pass) break;
        vex_one_by(&n->x, VEX_EXTRACT, TOP, 0, 1, 1);
        vex_one(&n->x, form & ~VEX_WIDE, TOP, TOP, 1);
        for (int i = 0; i < 2; i++) {
            vex_one_by(&n->x, VEX_PERMUTE, 1, 0, TOP, i ? 0xb1 : 0x4e);
            vex_one(&n->x, form & ~VEX_WIDE, TOP, TOP, 1);
        }
        vex_one(&n->x, VEX_SPREAD4, TOP, 0, TOP);
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
