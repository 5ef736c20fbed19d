/* Machine code by AVX2 that brings eight numbers of four bytes from anywhere in the code's memory to a register.  AVX2 permutes within 16 bytes cheaply
 * and beyond them slowly, from one register only; but memory holds every value, and a load brings any 16 bytes to either half of a register. So each
 * half takes what most of its numbers lie in by one permutation, and the others one by one.  See flat_vex_fold.h, which includes it. */
#ifndef FG_FLAT_VEX_GATHER_H
#define FG_FLAT_VEX_GATHER_H

enum { VEX_ANY = -1,                        /* in place of a number's offset: whatever is there */
    VEX_PERMUTE = X86_FORM(3, 1, 0, 0, 0x04), VEX_SHUFFLE = X86_FORM(1, 0, 0, 0, 0xc6), VEX_PUT = X86_FORM(3, 1, 0, 0, 0x21), VEX_LOAD4 = X86_FORM(1, 2, 0, 0, 0x10),
    VEX_LOAD8 = X86_FORM(1, 2, 0, 0, 0x7e), VEX_LOAD_UPPER8 = X86_FORM(1, 0, 0, 0, 0x16), VEX_SPREAD4 = X86_FORM(2, 1, 0, 1, 0x18), VEX_SPREAD8 = X86_FORM(2, 1, 0, 1, 0x19),
    VEX_SPREAD16 = X86_FORM(2, 1, 0, 1, 0x1a), VEX_ALIGN = X86_FORM(3, 1, 0, 1, 0x0f), VEX_HALVES = X86_FORM(3, 1, 0, 1, 0x06), VEX_WIDE = 1 << 20 };

static FgX86At vex_place(FgNat *n, int offset) {
    nat_needs(n, n->f->memory + offset);
    return (FgX86At){X86_BX, -1, offset};
}
/* The register that holds the 32 bytes at an offset, or -1. */
static int vex_held(FgNat *n, int offset) {
    const char *addr = n->f->memory + offset;
    for (int i = 0; i < n->n_held; i++) {
        const FgNatHeld *h = &n->held[i];
        const int upper = h->kind == NAT_V && h->addr + 32 == addr;
        if (!upper && (h->addr != addr || (h->kind != NAT_V && h->kind != NAT_Y))) continue;
        n->used[h->reg] = n->clock;
        return h->reg + (upper ? NAT_UPPER : 0);
    }
    return -1;
}
/* An instruction whose last operand is what lies at an offset, 16 or 32 bytes: in a register, if it is the beginning of one. */
static void vex_from(FgNat *n, int form, int reg, int v, int offset, int number) {
    const int held = offset % 32 ? -1 : vex_held(n, offset);
    if (held >= 0) vex_one(&n->x, form, reg, v, held); else vex_one_at(&n->x, form, reg, v, vex_place(n, offset));
    if (number >= 0) x86_1(&n->x, number);
}

/* 1 if all numbers are those that a step of `by` bytes from the first one finds, each `group` of them again. */
static int vex_steps(const int32_t *from, int count, int group, int by) {
    int first = VEX_ANY;
    for (int i = 0; i < count; i++) {
        if (from[i] < 0) continue;
        if (first < 0) first = from[i] - i % group * by;
        if (from[i] != first + i % group * by) return 0;
    }
    return 1;
}
/* Where number 0 would lie of numbers that follow each other. */
static int vex_first(const int32_t *from, int count, int group) {
    for (int i = 0; i < count; i++) if (from[i] >= 0) return from[i] - i % group * 4;
    return VEX_ANY;
}
/* The 16 bytes that all of four numbers lie in, or -1. */
static int vex_quarter_of(const int32_t *from) {
    int q = -1;
    for (int i = 0; i < 4; i++) {
        if (from[i] < 0) continue;
        if (q >= 0 && q != from[i] / 16) return -1;
        q = from[i] / 16;
    }
    return q;
}
/* Which number of 16 bytes each of four is, as an instruction has it. */
static int vex_order(const int32_t *from) {
    int order = 0;
    for (int i = 0; i < 4; i++) order |= (from[i] < 0 ? i : from[i] / 4 % 4) << 2 * i;
    return order;
}
/* 1 if some of the 16 bytes is a number that was written alone: a load of all would wait for that. */
static int vex_alone(const FgNat *n, int quarter) {
    for (int i = 0; i < 4; i++) if (n->alone[4 * quarter + i]) return 1;
    return 0;
}

/* One number to a lane; `first`: to the first one, with anything behind it. */
static void vex_put(FgNat *n, int to, int offset, int lane, int first) {
    const int held = nat_find(n, NAT_F32, n->f->memory + offset);
    if (held >= 0) n->used[held] = n->clock;
    if (first) { if (held >= 0) vex_one(&n->x, VEX_MOVE & ~VEX_WIDE, to, 0, held); else vex_one_at(&n->x, VEX_LOAD4, to, 0, vex_place(n, offset)); return; }
    if (held >= 0) vex_one(&n->x, VEX_PUT, to, to, held); else vex_one_at(&n->x, VEX_PUT, to, to, vex_place(n, offset));
    x86_1(&n->x, lane << 4);
}
/* Four numbers to the lower half of a register. */
static void vex_quarter(FgNat *n, int to, const int32_t *from) {
    const int q = vex_quarter_of(from), first = vex_first(from, 4, 4);
    int most = -1, best = 0, done = 0;
    if (first == VEX_ANY && q < 0) return;
    if (q >= 0 && !vex_alone(n, q)) {
        const int order = vex_order(from);
        if (order == 0xe4) vex_from(n, VEX_LOAD16, to, 0, 16 * q, -1); else vex_from(n, VEX_PERMUTE, to, 0, 16 * q, order);
        return;
    }
    if (vex_steps(from, 4, 1, 4)) {             /* one number to all */
        int i = 0;
        while (from[i] < 0) i++;
        const int held = nat_find(n, NAT_F32, n->f->memory + from[i]);
        if (held >= 0) { n->used[held] = n->clock; vex_one(&n->x, VEX_SPREAD4 & ~VEX_WIDE, to, 0, held); }
        else vex_one_at(&n->x, VEX_SPREAD4 & ~VEX_WIDE, to, 0, vex_place(n, from[i]));
        return;
    }
    const int lower[4] = {from[0], from[1], VEX_ANY, VEX_ANY}, upper[4] = {VEX_ANY, VEX_ANY, from[2], from[3]};
    const int a = vex_quarter_of(lower), b = vex_quarter_of(upper);
    if (a >= 0 && b >= 0 && !vex_alone(n, a) && !vex_alone(n, b)) {
        const int x = vex_first(lower, 2, 2), y = vex_first(upper + 2, 2, 2);
        if (vex_steps(lower, 2, 2, 4) && vex_steps(upper + 2, 2, 2, 4) && x % 8 == 0 && y % 8 == 0) {
            vex_one_at(&n->x, VEX_LOAD8, to, 0, vex_place(n, x));
            vex_one_at(&n->x, VEX_LOAD_UPPER8, to, to, vex_place(n, y));
            return;
        }
        vex_from(n, VEX_LOAD16, to, 0, 16 * a, -1);
        vex_from(n, VEX_SHUFFLE, to, to, 16 * b, (vex_order(lower) & 15) | (vex_order(upper) & 0xf0));
        return;
    }
    for (int i = 0; i < 4; i++) {               /* what most lie in, then the others */
        int count = 0;
        if (from[i] < 0 || vex_alone(n, from[i] / 16)) continue;
        for (int k = 0; k < 4; k++) count += from[k] >= 0 && from[k] / 16 == from[i] / 16;
        if (count > best) { best = count; most = from[i] / 16; }
    }
    if (best > 1) {
        int32_t part[4];
        for (int i = 0; i < 4; i++) { part[i] = from[i] >= 0 && from[i] / 16 == most ? from[i] : VEX_ANY; done |= (part[i] >= 0) << i; }
        if (vex_order(part) == 0xe4) vex_from(n, VEX_LOAD16, to, 0, 16 * most, -1); else vex_from(n, VEX_PERMUTE, to, 0, 16 * most, vex_order(part));
    } else {
        int i = 0;
        while (from[i] < 0) i++;
        vex_put(n, to, from[i], 0, 1);
        done = i == 0;
    }
    for (int i = 0; i < 4; i++) if (!(done >> i & 1) && from[i] >= 0) vex_put(n, to, from[i], i, 0);
}

/* Eight numbers to a register, each from[i] bytes from where the code's memory begins; spare: another one for the way. */
static void vex_gather(FgNat *n, int to, int spare, const int32_t *from) {
    const int q[2] = {vex_quarter_of(from), vex_quarter_of(from + 4)};
    int32_t both[4];
    int alone = 0, same = 1;
    for (int i = 0; i < 8; i++) alone |= from[i] >= 0 && vex_alone(n, from[i] / 16);
    for (int i = 0; i < 4; i++) {
        same &= from[i] < 0 || from[i + 4] < 0 || from[i] == from[i + 4];
        both[i] = from[i] >= 0 ? from[i] : from[i + 4];
    }
    if (vex_first(from + 4, 4, 4) == VEX_ANY) { vex_quarter(n, to, from); return; }
    if (vex_steps(from, 8, 1, 4)) {             /* one number to all */
        int i = 0;
        while (from[i] < 0) i++;
        const int held = nat_find(n, NAT_F32, n->f->memory + from[i]), vector = from[i] % 32 ? -1 : vex_held(n, from[i]);
        if (held >= 0) n->used[held] = n->clock;
        if (held >= 0 || vector >= 0) vex_one(&n->x, VEX_SPREAD4, to, 0, held >= 0 ? held : vector);
        else vex_one_at(&n->x, VEX_SPREAD4, to, 0, vex_place(n, from[i]));
        return;
    }
    if (!alone && vex_steps(from, 8, 2, 4) && vex_first(from, 8, 2) % 8 == 0) { vex_one_at(&n->x, VEX_SPREAD8, to, 0, vex_place(n, vex_first(from, 8, 2))); return; }
    if (!alone && vex_steps(from, 8, 8, 4)) {   /* neighbours, within 32 bytes or across two times as many */
        const int at = vex_first(from, 8, 8), low = (at + 32) / 32 * 32 - 32, by = at - low;      /* at: may be less than 0 */
        if (low >= 0 && low + 64 <= FG_FLAT_MEMORY && at % 4 == 0) {
            const int lower = vex_held(n, low), x = by > 16 ? to : lower >= 0 ? lower : to;
            if (by == 0) { vex_from(n, VEX_LOAD, to, 0, low, -1); return; }
            if (by > 16) {
                vex_from(n, VEX_LOAD, to, 0, low + 32, -1);
                vex_from(n, VEX_HALVES, spare, to, low, 0x03);
                vex_one_by(&n->x, VEX_ALIGN, to, to, spare, by - 16);
                return;
            }
            if (x == to) vex_from(n, VEX_LOAD, to, 0, low, -1);
            vex_from(n, VEX_HALVES, by == 16 ? to : spare, x, low + 32, 0x21);
            if (by < 16) vex_one_by(&n->x, VEX_ALIGN, to, spare, x, by);
            return;
        }
    }
    if (same && !alone && vex_quarter_of(both) >= 0) {          /* the same four to both halves */
        const int from16 = 16 * vex_quarter_of(both), held = vex_held(n, from16 / 32 * 32), order = vex_order(both);
        if (held >= 0) vex_one_by(&n->x, VEX_HALVES, to, held, held, from16 % 32 ? 0x11 : 0x00);
        else vex_one_at(&n->x, VEX_SPREAD16, to, 0, vex_place(n, from16));
        if (order != 0xe4) vex_one_by(&n->x, VEX_PERMUTE | VEX_WIDE, to, 0, to, order);
        return;
    }
    if (!alone && q[0] >= 0 && q[1] == q[0] + 1 && q[0] % 2 == 0) {         /* each half's numbers within its own, in the same order */
        for (int i = 0; i < 4; i++) both[i] = from[i] >= 0 ? from[i] : from[i + 4] >= 0 ? from[i + 4] - 16 : VEX_ANY;
        int fits = 1;
        for (int i = 0; i < 4; i++) fits &= from[i + 4] < 0 || from[i + 4] - 16 == both[i];
        if (fits) { vex_from(n, VEX_PERMUTE | VEX_WIDE, to, 0, 16 * q[0], vex_order(both)); return; }
    }
    vex_quarter(n, to, from);
    if (q[1] >= 0 && vex_order(from + 4) == 0xe4 && !vex_alone(n, q[1])) { vex_from(n, VEX_INSERT, to, to, 16 * q[1], 1); return; }
    vex_quarter(n, spare, from + 4);
    vex_one_by(&n->x, VEX_INSERT, to, to, spare, 1);
}
/* A vector that begins within one that is held, which a load would wait for: its store and the load do not meet. -1 for any other. */
static int nat_across(FgNat *n, int kind, const char *addr) {
    const int at = (int)(addr - n->f->memory), low = at / 32 * 32, registers = kind == NAT_V ? 2 : 1;
    int32_t from[8];
    if (!nat_in_memory(n, addr) || at % 32 == 0 || at % 4 || low + 32 * registers + 32 > FG_FLAT_MEMORY || vex_held(n, low) < 0) return -1;
    const int to = nat_new_of(n, kind);
    for (int k = 0; k < registers; k++) {
        for (int i = 0; i < 8; i++) from[i] = at + 32 * k + 4 * i;
        vex_gather(n, to + k * NAT_UPPER, 0, from);
    }
    return to;
}
/* 1 for eight numbers that lie as they are wanted. */
static int vex_in_place(const FgNat *n, const int32_t *from) {
    return from[0] >= 0 && from[0] % 32 == 0 && vex_steps(from, 8, 8, 4) && !vex_alone(n, from[0] / 16) && !vex_alone(n, from[0] / 16 + 1);
}
/* What a gather reads, for the passes that only look: the vectors that numbers lie in. */
static void vex_look(FgNat *n, const int32_t *from, int count) {
    for (int i = 0; i < count && n->dry == 1; i++) if (from[i] >= 0) nat_note(n, NAT_V, n->f->memory + from[i] / 64 * 64, 1, 0);
}
static int vex_any(const int32_t *from, int count) {
    for (int i = 0; i < count; i++) if (from[i] >= 0) return 1;
    return 0;
}
#endif
