/* Machine code of flat code by AVX2: a vector of 64 bytes is two registers, r and r + 8, on which an instruction of AVX-512 becomes two; masks are vectors.
 * See flat_native.h, which includes it.
 *
 * Registers: 0 and 1, with 8 and 9, are free for any op, and 2 and 10 hold the mask; 3 to 7 hold vectors' lower halves, 11 to 15 their upper ones.  Single
 * numbers take any of the last ten. */
#ifndef FG_FLAT_VEX_H
#define FG_FLAT_VEX_H

enum { NAT_FEW = 1, NAT_MASK = 2, NAT_UPPER = 8, NAT_PINS = 6, NAT_PINS_OF_VECTORS = 4, NAT_PIN_COST = 2 };

/* ---- instructions */

static void vex_begin(FgX86 *x, int form, int reg, int v, int rm, int index) {
    x86_1(x, 0xc4);
    x86_1(x, (~reg >> 3 & 1) << 7 | (~index >> 3 & 1) << 6 | (~rm >> 3 & 1) << 5 | (form >> 8 & 15));
    x86_1(x, (form >> 16 & 1) << 7 | (~v & 15) << 3 | (form >> 20 & 3 ? 4 : 0) | (form >> 12 & 15));
    x86_1(x, form & 255);
}
static void vex_one(FgX86 *x, int form, int reg, int v, int rm) {
    vex_begin(x, form, reg, v, rm, 0);
    x86_1(x, 0xc0 | (reg & 7) << 3 | (rm & 7));
}
static void vex_one_by(FgX86 *x, int form, int reg, int v, int rm, int number) { vex_one(x, form, reg, v, rm); x86_1(x, number); }
static void vex_one_at(FgX86 *x, int form, int reg, int v, FgX86At m) {
    vex_begin(x, form, reg, v, m.base, m.index >= 0 ? m.index : 0);
    x86_place(x, reg, m);
}
enum { VEX_MOVE = X86_FORM(1, 0, 0, 1, 0x28), VEX_XOR = X86_FORM(1, 1, 0, 1, 0xef), VEX_LOAD = X86_FORM(1, 0, 0, 1, 0x10), VEX_STORE = X86_FORM(1, 0, 0, 1, 0x11),
    VEX_LOAD16 = X86_FORM(1, 0, 0, 0, 0x10), VEX_EXTRACT = X86_FORM(3, 1, 0, 1, 0x39), VEX_INSERT = X86_FORM(3, 1, 0, 1, 0x18), VEX_MASKED = X86_FORM(2, 1, 0, 1, 0x2c),
    VEX_TO_8 = X86_FORM(1, 1, 1, 0, 0x6e), VEX_PACK_WORDS = X86_FORM(1, 1, 0, 0, 0x6b), VEX_PACK_BYTES = X86_FORM(1, 1, 0, 0, 0x63), VEX_SAME_BYTES = X86_FORM(1, 1, 0, 0, 0x74),
    VEX_BLEND_BYTES = X86_FORM(3, 1, 0, 1, 0x4c) };

/* Map and opcode of what AVX-512 alone has, or has under this name. */
static int vex_lacks(int form) {
    switch (form & 0xfff) {
    case 0x210: case 0x211: case 0x212: case 0x216: case 0x226: case 0x227: case 0x236: case 0x266: case 0x277: case 0x28d: case 0x303: case 0x31e: case 0x31f: case 0x323:
    case 0x325: case 0x338: case 0x33b: case 0x33e: case 0x33f: case 0x343: return 1;
    case 0x246: return form >> 16 & 1;
    case 0x318: return form >> 20 & 2;
    default: return (form >> 8 & 15) == 2 && (form >> 12 & 3) != 1;
    }
}
/* 1 for an instruction of one operand: then the second register of the three is none. */
static int vex_unary(int form) {
    switch (form & 0xfff) {
    case 0x110: case 0x111: case 0x128: case 0x151: case 0x16f: case 0x17f: case 0x213: case 0x21c: case 0x21d: case 0x21e: case 0x233: case 0x304: case 0x305: case 0x308: case 0x309: case 0x31d: return 1;
    default: return 0;
    }
}
/* On each half of a vector. */
static void vex_each(FgNat *n, int form, int reg, int v, int rm, int number) {
    const int wide = form >> 20 & 2, pair = wide && !n->narrow, shift = (form & 0xfff) >= 0x171 && (form & 0xfff) <= 0x173;        /* by a number: reg is part of the opcode */
    for (int up = 0; up <= (pair ? NAT_UPPER : 0); up += NAT_UPPER) {
        vex_one(&n->x, form, shift ? reg : reg + up, wide && vex_unary(form) ? 0 : v + up, rm + up);
        if (number >= 0) x86_1(&n->x, number);
    }
}
/* An instruction as AVX-512 names it, of a vector (length 2) or of 16 bytes; k: 1: of the blend alone. */
static void nat_v_by(FgNat *n, int form, int reg, int v, int rm, int k, int number) {
    const int op = form & 0xfff, wide = form >> 20 & 2, pair = wide && !n->narrow;
    FgX86 *x = &n->x;
    if (op == 0x265) {                  /* the mask is a register that stands behind */
        for (int up = 0; up <= (pair ? NAT_UPPER : 0); up += NAT_UPPER)
            vex_one_by(x, X86_FORM(3, 1, 0, wide / 2, 0x4a), reg + up, v + up, rm + up, (NAT_MASK + up) << 4);
        return;
    }
    if (vex_lacks(form) || k) { n->failed = 1; return; }
    if (op == 0x1c2) { vex_each(n, form, NAT_MASK, v, rm, number); return; }
    if (op == 0x27a || op == 0x27b || op == 0x27c) {        /* a general register to all lanes */
        vex_one(x, X86_FORM(1, 1, form >> 16 & 1, 0, 0x6e), reg, 0, rm);
        vex_one(x, X86_FORM(2, 1, 0, wide / 2, op == 0x27a ? 0x78 : op == 0x27b ? 0x79 : 0x58 + (form >> 16 & 1)), reg, 0, reg);
    } else if (op == 0x218 || op == 0x219) vex_one(x, X86_FORM(2, 1, 0, wide / 2, op & 255), reg, 0, rm);
    else { vex_each(n, form, reg, v, rm, number); return; }
    if (pair) vex_one(x, VEX_MOVE, reg + NAT_UPPER, 0, reg);
}
static void nat_v(FgNat *n, int form, int reg, int v, int rm, int k) { nat_v_by(n, form, reg, v, rm, k, -1); }
static void nat_v_at_by(FgNat *n, int form, int reg, int v, FgX86At m, int k, int number) {
    const int op = form & 0xfff, wide = form >> 20 & 2, pair = wide && !n->narrow, shorter = op == 0x213 || op == 0x233 || op == 0x31d;
    if (op == 0x16f || op == 0x17f) form = X86_FORM(1, 2, 0, form >> 20 & 3, op & 255);     /* vmovdqu8 */
    if (vex_lacks(form) || k) { n->failed = 1; return; }
    for (int up = 0; up <= (pair ? NAT_UPPER : 0); up += NAT_UPPER) {
        vex_one_at(&n->x, form, reg + up, wide && vex_unary(form) ? 0 : v + up, m);
        if (number >= 0) x86_1(&n->x, number);
        m.disp += shorter ? 16 : 32;
    }
}
static void nat_v_at(FgNat *n, int form, int reg, int v, FgX86At m, int k) { nat_v_at_by(n, form, reg, v, m, k, -1); }

/* ---- registers */

/* The register that an allocation is under: of an upper half's the lower half's. */
static int nat_of_vector(const FgNat *n, int reg) { return reg >= 11 && reg < 16 && n->wide >> (reg - NAT_UPPER) & 1 ? reg - NAT_UPPER : reg; }
static int nat_busy(const FgNat *n, int reg, int lasts) {
    int busy = n->pinned >> reg & 1 || n->used[reg] == n->clock;
    for (int k = 0; k < NAT_LAST && lasts; k++) busy |= n->last[k] == reg;
    return busy;
}
static void nat_clear(FgNat *n, int reg) {
    nat_drop_register(n, reg);
    for (int k = 0; k < NAT_LAST; k++) if (n->last[k] == reg) n->last[k] = -1;
    n->wide &= ~((uint64_t)1 << reg);
}
static int nat_general(FgNat *n) {
    static const uint8_t registers[] = {X86_SI, X86_DI, X86_8, X86_9, X86_10, X86_11, X86_BP};
    int best = -1;
    for (int lasts = 1; lasts >= 0 && best < 0; lasts--)
        for (int i = 0; i < (int)sizeof registers; i++) {
            int reg = NAT_GENERAL + registers[i];
            if (!nat_busy(n, reg, lasts) && (best < 0 || n->used[reg] < n->used[best])) best = reg;
        }
    return best;
}
/* A register of a pair, or where `pair` one pair: the one that has waited longest. */
static int nat_number_or_pair(FgNat *n, int pair) {
    int best = -1;
    int64_t since = 0;
    for (int lasts = 1; lasts >= 0 && best < 0; lasts--)    /* a last result is seldom taken */
        for (int i = 7; i >= (pair ? 3 : -2); i--) {
            int reg = i >= 3 ? i : i + 13, holds = pair ? reg : nat_of_vector(n, reg);
            int busy = nat_busy(n, holds, lasts) || (pair && nat_busy(n, reg + NAT_UPPER, lasts));
            int64_t used = pair && n->used[reg + NAT_UPPER] > n->used[reg] ? n->used[reg + NAT_UPPER] : n->used[holds];
            if (!busy && (best < 0 || used < since)) { best = reg; since = used; }
        }
    return best;
}
/* A register for a result, general or (0) a vector; nat_new_of: of what `kind` is. */
static int nat_new_of(FgNat *n, int kind) {
    const int general = nat_is_general(kind), pair = nat_is_pair(kind) && !(kind == NAT_V && n->narrow);
    n->vectors |= pair;
    if (n->dry) return general ? NAT_GENERAL + X86_SI : 3;
    int best = general ? nat_general(n) : nat_number_or_pair(n, pair);
    if (best < 0) { n->failed = 1; return general ? NAT_GENERAL + X86_SI : 3; }
    nat_clear(n, nat_of_vector(n, best));
    nat_clear(n, best);
    if (pair) { nat_clear(n, best + NAT_UPPER); n->wide |= (uint64_t)1 << best; }
    n->used[best] = n->clock;
    return best;
}
static int nat_new(FgNat *n, int general) { return nat_new_of(n, general ? NAT_I64 : NAT_V); }
/* One that is held throughout a loop: single numbers share the pairs that vectors leave. */
static int nat_new_pin(FgNat *n, int kind) {
    if (nat_is_general(kind)) return nat_new_of(n, kind);
    const int pair = nat_is_pair(kind);
    for (int reg = 15; reg > 10; reg--)
        for (int low = pair; low < 2; low++) {
            int to = reg - NAT_UPPER * low;
            if (n->pinned >> nat_of_vector(n, to) & 1 || (pair && n->pinned >> reg & 1)) continue;
            nat_clear(n, nat_of_vector(n, to));
            nat_clear(n, to);
            if (pair) { nat_clear(n, reg); n->wide |= (uint64_t)1 << to; }
            n->used[to] = n->clock;
            return to;
        }
    n->failed = 1;
    return 3;
}

/* ---- masks: registers 2 and 10, all bits of a lane */

/* d = x or what lies at m, where the mask says so. */
static void nat_or_by_mask(FgNat *n, int length, int d, int x, FgX86At m) {
    nat_v_at(n, X86_FORM(1, 1, 0, length, 0xeb), 0, x, m, 0);
    nat_v(n, X86_FORM(2, 1, 0, length, 0x65), d, d, 0, 1);
}
/* Of a single number by a bool, of which the lowest bit alone counts. */
static void nat_mask_of_bool(FgNat *n, int general) {
    x86_op(&n->x, 0, X86_MOVZX1, X86_AX, general);
    x86_1(&n->x, 0x48); x86_1(&n->x, 0xf7); x86_1(&n->x, 0xd8);             /* neg rax */
    vex_one(&n->x, VEX_TO_8, NAT_MASK, 0, X86_AX);
}
/* Of a number of four bytes: for one of eight. */
static void nat_mask_of_long(FgNat *n) { vex_one(&n->x, X86_FORM(2, 1, 0, 0, 0x25), NAT_MASK, 0, NAT_MASK); }
static void nat_bool_of_mask(FgNat *n, int general) {
    vex_one(&n->x, X86_FORM(1, 1, 0, 0, 0x7e), NAT_MASK, 0, general);
    x86_number(&n->x, 0, 4, general, 1);
}
/* All lanes by a bool. */
static void nat_mask_of_all(FgNat *n, int general) {
    nat_mask_of_bool(n, general);
    vex_one(&n->x, X86_FORM(2, 1, 0, 1, 0x59), NAT_MASK, 0, NAT_MASK);
    vex_one(&n->x, VEX_MOVE, NAT_MASK + NAT_UPPER, 0, NAT_MASK);
}
/* Bools to a mask and back; long_: of vectors of eight numbers. */
static void nat_mask_of_bytes(FgNat *n, int long_, int m) {
    const int widen = X86_FORM(2, 1, 0, 1, long_ ? 0x22 : 0x21);
    vex_one(&n->x, VEX_XOR, 1, 1, 1);
    vex_one(&n->x, VEX_SAME_BYTES, 0, m, 1);                /* the bytes that are zero, then all others */
    vex_one(&n->x, VEX_SAME_BYTES, 0, 0, 1);
    vex_one(&n->x, widen, NAT_MASK, 0, 0);
    vex_one_by(&n->x, X86_FORM(1, 1, 0, 0, 0x73), 3, 0, 0, long_ ? 4 : 8);  /* vpsrldq */
    vex_one(&n->x, widen, NAT_MASK + NAT_UPPER, 0, 0);
}
static void nat_bytes_of_mask(FgNat *n, int long_, int d) {
    for (int half = 0; half < 2; half++) {
        const int to = half ? 1 : d, mask = NAT_MASK + NAT_UPPER * half;
        vex_one_by(&n->x, VEX_EXTRACT, mask, 0, 0, 1);
        if (long_) vex_one_by(&n->x, X86_FORM(1, 0, 0, 0, 0xc6), to, mask, 0, 0x88);        /* vshufps: every other one */
        else vex_one(&n->x, VEX_PACK_WORDS, to, mask, 0);
    }
    if (long_) { vex_one(&n->x, VEX_PACK_WORDS, d, d, 1); vex_one(&n->x, VEX_PACK_BYTES, d, d, d); }
    else vex_one(&n->x, VEX_PACK_BYTES, d, d, 1);
    vex_one_at(&n->x, X86_FORM(1, 1, 0, 0, 0xdb), d, d, nat_number(n, NAT_BYTES));
}
static void nat_ones(FgNat *n, int d) { for (int up = 0; up <= NAT_UPPER; up += NAT_UPPER) vex_one(&n->x, X86_FORM(1, 1, 0, 1, 0x76), d + up, d + up, d + up); }
static void nat_complement(FgNat *n, int d, int x) {
    nat_ones(n, 0);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), d, x, 0, 0);
}
/* Vectors of integers compared: equal, or the first one greater, or not. */
static void nat_compare_whole(FgNat *n, int how, int x, int y) {
    const int same = how == NAT_eq || how == NAT_ne, swapped = how == NAT_lt || how == NAT_ge;
    nat_v(n, X86_FORM(1, 1, 0, 2, same ? 0x76 : 0x66), NAT_MASK, swapped ? y : x, swapped ? x : y, 0);
    if (how == NAT_le || how == NAT_ge || how == NAT_ne) nat_complement(n, NAT_MASK, NAT_MASK);
}

/* Vectors of integers of one or two bytes compared, to bools: two of 16 lanes are one of 32 bytes. */
static void nat_tiny_compare(FgNat *n, int how, int one, int sign, int d, int x, int y) {
    const int same = how == NAT_eq || how == NAT_ne, swapped = how == NAT_lt || how == NAT_le, u = swapped ? y : x, v = swapped ? x : y;
    int not = how == NAT_ne;
    if (same) nat_v(n, X86_FORM(1, 1, 0, 2, one ? 0x74 : 0x75), 0, x, y, 0);
    else if (sign) {                                        /* greater, or not the other one greater */
        not = how == NAT_le || how == NAT_ge;
        nat_v(n, X86_FORM(1, 1, 0, 2, one ? 0x64 : 0x65), 0, not ? v : u, not ? u : v, 0);
    } else {                                                /* the greater of both, or not that of the other */
        not = how == NAT_lt || how == NAT_gt;
        nat_v(n, X86_FORM(one ? 1 : 2, 1, 0, 2, one ? 0xde : 0x3e), 0, u, v, 0);
        nat_v(n, X86_FORM(1, 1, 0, 2, one ? 0x74 : 0x75), 0, 0, not ? v : u, 0);
    }
    if (!one) {
        vex_one(&n->x, X86_FORM(1, 1, 0, 1, 0x63), 0, 0, NAT_UPPER);                        /* vpacksswb, of 16 bytes and 16 bytes */
        vex_one_by(&n->x, X86_FORM(3, 1, 1, 1, 0x00), 0, 0, 0, 0xd8);                       /* vpermq */
        vex_one(&n->x, VEX_XOR, NAT_UPPER, NAT_UPPER, NAT_UPPER);
    }
    nat_v_at(n, X86_FORM(1, 1, 0, 2, not ? 0xdf : 0xdb), d, 0, nat_number(n, NAT_BYTES), 0);
}
/* d = x where a bool at m is set, else y. */
static void nat_tiny_choose(FgNat *n, int one, int d, int m, int x, int y) {
    nat_v(n, X86_FORM(1, 1, 0, 2, 0xef), 1, 1, 1, 0);
    nat_v(n, X86_FORM(1, 1, 0, 2, 0x74), 0, m, 1, 0);
    if (!one) {                                             /* of words, 16 bools a half */
        vex_one_by(&n->x, VEX_EXTRACT, 0, 0, NAT_UPPER, 1);
        vex_one(&n->x, X86_FORM(2, 1, 0, 1, 0x20), 0, 0, 0);                                /* vpmovsxbw */
        vex_one(&n->x, X86_FORM(2, 1, 0, 1, 0x20), NAT_UPPER, 0, NAT_UPPER);
    }
    for (int up = 0; up <= NAT_UPPER; up += NAT_UPPER) vex_one_by(&n->x, VEX_BLEND_BYTES, d + up, x + up, y + up, up << 4);
}
/* Bytes as runs: a load each, the second of a half and those behind it by a mask. */
static void nat_bytes_of_runs(FgNat *n, const FgFlatOp *o, int d) {
    const FgFlatRun *run = (const FgFlatRun *)o->b;
    int begun[2] = {0, 0};
    for (int64_t i = 0; i < o->n; i++) {
        const int half = run[i].upper, to = begun[half] ? 0 : d + NAT_UPPER * half;
        const int32_t at = (int32_t)(o->a - n->f->memory) + run[i].offset;
        nat_needs(n, n->f->memory + at + (run[i].same ? 0 : run[i].first));
        vex_one_at(&n->x, run[i].same ? X86_FORM(2, 1, 0, 1, 0x78) : VEX_LOAD, to, 0, (FgX86At){X86_BX, -1, at});        /* vpbroadcastb */
        if (!begun[half]++) continue;
        vex_one_at(&n->x, VEX_LOAD, NAT_MASK, 0, (FgX86At){X86_BX, -1, (int32_t)((const char *)run[i].mask - n->f->memory)});
        vex_one_by(&n->x, VEX_BLEND_BYTES, d + NAT_UPPER * half, d + NAT_UPPER * half, 0, NAT_MASK << 4);
    }
    for (int half = 0; half < 2; half++) if (!begun[half]) vex_one(&n->x, VEX_XOR, d + NAT_UPPER * half, d + NAT_UPPER * half, d + NAT_UPPER * half);
}

/* ---- parts of vectors */

static void nat_zero_behind(FgNat *n, int d) { if (!n->narrow) vex_one(&n->x, VEX_XOR, d + NAT_UPPER, d + NAT_UPPER, d + NAT_UPPER); }
/* 16 bytes to a quarter of a vector, in the order of the quarters. */
static void nat_quarter(FgNat *n, int wide, int d, int x, int which) {
    (void)wide;
    if (which == 2) vex_one(&n->x, VEX_MOVE, d + NAT_UPPER, 0, x);
    else vex_one_by(&n->x, VEX_INSERT, which == 3 ? d + NAT_UPPER : d, which == 3 ? d + NAT_UPPER : d, x, 1);
}
/* `count` of eight numbers at m, and zeros behind them. */
static void nat_load_few(FgNat *n, int reg, FgX86At m, int count) {
    if (count == 0) { vex_one(&n->x, VEX_XOR, reg, reg, reg); return; }
    if (count == 8 || count == 4) { vex_one_at(&n->x, count == 8 ? VEX_LOAD : VEX_LOAD16, reg, 0, m); return; }
    if (count <= 3) {
        vex_one_at(&n->x, count == 1 ? X86_FORM(1, 2, 0, 0, 0x10) : X86_FORM(1, 2, 0, 0, 0x7e), reg, 0, m);
        m.disp += 8;
        if (count == 3) { vex_one_at(&n->x, X86_FORM(3, 1, 0, 0, 0x22), reg, reg, m); x86_1(&n->x, 2); }
        return;
    }
    FgX86At mask = nat_number(n, NAT_FIRST);
    mask.disp += 32 - 4 * count;
    vex_one_at(&n->x, VEX_LOAD, NAT_MASK, 0, mask);
    vex_one_at(&n->x, VEX_MASKED, reg, NAT_MASK, m);
}
/* The first numbers of a vector at m, one for each bit of the mask, and zeros behind them. */
static void nat_load_first(FgNat *n, int reg, FgX86At m, int64_t mask, int general) {
    const int count = __builtin_popcount((unsigned)mask);
    (void)general;
    nat_load_few(n, reg, m, count < 8 ? count : 8);
    m.disp += 32;
    if (!n->narrow) nat_load_few(n, reg + NAT_UPPER, m, count < 8 ? 0 : count - 8);
}
/* Numbers of four bytes below 2^16 to their lower halves at m. */
static void nat_store_words(FgNat *n, int reg, FgX86At m, int k) {
    if (k) { n->failed = 1; return; }
    vex_one(&n->x, X86_FORM(2, 1, 0, 1, 0x2b), reg, reg, reg + NAT_UPPER);                  /* vpackusdw, of 16 bytes and 16 bytes */
    vex_one_by(&n->x, X86_FORM(3, 1, 1, 1, 0x00), reg, 0, reg, 0xd8);                       /* vpermq */
    vex_one_at(&n->x, VEX_STORE, reg, 0, m);
}
/* 0 for ops that the interpreter runs: shifts of vectors of small integers. */
static int nat_has(int op) {
    const int shifts = op == FLAT_shl_q8 || op == FLAT_shr_logical_q8 || op == FLAT_shl_q16 || op == FLAT_shr_logical_q16 || op == FLAT_shr_arith_q16;
    return !shifts;
}
#endif
