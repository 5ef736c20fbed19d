/* Machine code of flat code by AVX-512: a vector of 64 bytes is a register, and masks have registers of their own. See flat_native.h, which includes it. */
#ifndef FG_FLAT_EVEX_H
#define FG_FLAT_EVEX_H

enum { NAT_FEW = 0, NAT_PINS = 18, NAT_PINS_OF_VECTORS = 18, NAT_PIN_COST = 1 };

#define nat_v(n, ...) x86_v(&(n)->x, __VA_ARGS__)
#define nat_v_at(n, ...) x86_v_at(&(n)->x, __VA_ARGS__)
/* with a number behind the instruction */
#define nat_v_by(n, form, reg, v, rm, k, number) (x86_v(&(n)->x, form, reg, v, rm, k), x86_1(&(n)->x, number))
#define nat_v_at_by(n, form, reg, v, at, k, number) (x86_v_at(&(n)->x, form, reg, v, at, k), x86_1(&(n)->x, number))

/* A register for a result, general or (0) a vector or a single number: the one that has waited longest. */
static int nat_new(FgNat *n, int general) {
    static const uint8_t generals[] = {X86_SI, X86_DI, X86_8, X86_9, X86_10, X86_11, X86_BP};
    int best = -1, first = general ? 0 : 3, end = general ? (int)sizeof generals : 32;
    if (n->dry) return general ? NAT_GENERAL + X86_SI : 3;
    for (int again = 0; again < 2 && best < 0; again++)     /* a last result is seldom taken */
        for (int i = first; i < end; i++) {
            int reg = general ? NAT_GENERAL + generals[i] : i, taken = n->pinned >> reg & 1 || n->used[reg] == n->clock;
            for (int k = 0; k < NAT_LAST && !again; k++) taken |= n->last[k] == reg;
            if (!taken && (best < 0 || n->used[reg] < n->used[best])) best = reg;
        }
    if (best < 0) { n->failed = 1; return general ? NAT_GENERAL + X86_SI : 3; }
    nat_drop_register(n, best);
    for (int k = 0; k < NAT_LAST; k++) if (n->last[k] == best) n->last[k] = -1;
    n->used[best] = n->clock;
    return best;
}
static int nat_new_of(FgNat *n, int kind) { return nat_new(n, nat_is_general(kind)); }
static int nat_new_pin(FgNat *n, int kind) { return nat_new_of(n, kind); }

/* Numbers of four bytes to their lower halves at m; k: the mask of them. */
static void nat_store_words(FgNat *n, int reg, FgX86At m, int k) { nat_v_at(n, X86_FORM(2, 2, 0, 2, 0x33), reg, 0, m, k); }

/* ---- masks: mask 1, of numbers that lie side by side */

/* d = x or what lies at m, where the mask says so. */
static void nat_or_by_mask(FgNat *n, int length, int d, int x, FgX86At m) { nat_v_at(n, X86_FORM(1, 1, 0, length, 0xeb), d, x, m, 1); }

static void nat_mask_of(FgNat *n, int general) { x86_vex(&n->x, X86_TO_MASK, 1, 0, general); }
/* Of a single number by a bool, of which the lowest bit alone counts: other lanes than the first do not matter. */
static void nat_mask_of_bool(FgNat *n, int general) { nat_mask_of(n, general); }
/* Of a number of four bytes: for one of eight. */
static void nat_mask_of_long(FgNat *n) { (void)n; }
static void nat_bool_of_mask(FgNat *n, int general) { x86_vex(&n->x, X86_FROM_MASK, general, 0, 1); }
/* All lanes by a bool. */
static void nat_mask_of_all(FgNat *n, int general) {
    x86_op(&n->x, 0, X86_MOV, X86_AX, general);
    x86_1(&n->x, 0xf7); x86_1(&n->x, 0xd8);                 /* neg eax */
    nat_mask_of(n, X86_AX);
}
/* Bools to a mask and back; long_: of vectors of eight numbers. */
static void nat_mask_of_bytes(FgNat *n, int long_, int m) { (void)long_; nat_v(n, X86_FORM(2, 1, 0, 0, 0x26), 1, m, m, 0); }
static void nat_bytes_of_mask(FgNat *n, int long_, int d) { (void)long_; nat_v_at(n, X86_FORM(1, 3, 0, 0, 0x6f), d, 0, nat_number(n, NAT_BYTES), 1 + 8); }
/* Vectors of integers compared. */
static void nat_compare_whole(FgNat *n, int how, int x, int y) {
    static const uint8_t ways[] = {1, 2, 6, 5, 0, 4};
    nat_v_by(n, X86_FORM(3, 1, 0, 2, 0x1f), 1, x, y, 0, ways[how]);
}
/* A mask by way of a general register. */
static void nat_row_mask(FgNat *n, int general, int64_t mask) { x86_set(&n->x, general, mask); nat_mask_of(n, general); }
/* The first `mask` numbers of a vector at m, and zeros behind them. */
static void nat_load_first(FgNat *n, int reg, FgX86At m, int64_t mask, int general) {
    if (mask != 0xffff) nat_row_mask(n, general, mask);
    nat_v_at(n, X86_FORM(1, 0, 0, 2, 0x10), reg, 0, m, mask != 0xffff ? 1 + 8 : 0);
}
static int nat_has(int op) { (void)op; return 1; }
/* vpternlogd: not the third */
static void nat_complement(FgNat *n, int d, int x) { nat_v_by(n, X86_FORM(3, 1, 0, 2, 0x25), d, x, x, 0, 0x55); }
/* 16 bytes to a quarter of a vector. */
static void nat_quarter(FgNat *n, int wide, int d, int x, int which) { nat_v_by(n, X86_FORM(3, 1, wide, 2, wide ? 0x18 : 0x38), d, d, x, 0, which); }
static void nat_zero_behind(FgNat *n, int d) { (void)n; (void)d; }      /* a shorter result has zeros behind it */
#endif
