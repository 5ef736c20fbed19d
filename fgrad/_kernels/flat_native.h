/* Machine code of flat code: values, registers and calls. See flat_machine.h.
 *
 * Memory always holds every value, as in the interpreter: registers only keep copies of what lies there, so that a call, a jump or a window may
 * look at memory at any time.  A copy is dropped when something is written over it; at a place that jumps lead to all are, but for those that are
 * held throughout a loop.
 *
 * By AVX2, which stores one register a cycle and needs two for a vector, what operations of a group hand to each other is not written where a first
 * translation has found that registers alone give it to those who read it. */
#ifndef FG_FLAT_NATIVE_H
#define FG_FLAT_NATIVE_H
#include "flat_emit.h"
#if FG_MACHINE_CODE
#include "x86.h"

/* What a register holds: a float, a double, a vector of 64 bytes, an integer of four bytes, a bool, 16 and 8 of them, an integer of eight bytes or an address, an integer of two bytes, a vector of 32 bytes (AVX2).
 * Integers of one and two bytes are held without a sign, those of one byte as bools are. 16-bit floats, 16 of them or one, are held as the float32 that they are:
 * what a turn has rounded is the next one's operand, without a narrow store and a widening load between. */
enum { NAT_F32, NAT_F64, NAT_V, NAT_I32, NAT_B1, NAT_B16, NAT_B8, NAT_I64, NAT_H, NAT_Y, NAT_BF16V, NAT_F16V, NAT_BF16, NAT_F16 };
static const uint8_t nat_bytes[] = {4, 8, 64, 4, 1, 16, 8, 8, 2, 32, 32, 32, 2, 2};
/* Registers: 0 to 31 are vectors, of which the first three are free for any op; then the general ones. See flat_vex.h for AVX2's. */
enum { NAT_GENERAL = 32, NAT_REGISTERS = 48, NAT_HELD = 64, NAT_NOTES = 512, NAT_GENERAL_PINS = 2, NAT_LAST = 6 };

typedef struct { const char *addr; int16_t kind, reg; int pinned; } FgNatHeld;
typedef struct { const char *addr; int kind, count, read_first, next, written; } FgNatNote;
typedef struct { int64_t jump; int target, from; } FgNatJump;
typedef struct { int top, end, calls; } FgNatLoop;                          /* a loop without loops in it; calls: nothing is held throughout it */
/* Code behind all other: what is seldom needed. All that is held is loaded again behind it. */
typedef struct { int64_t jump, back; FgFlatOp *op; int n_held; FgNatHeld held[NAT_HELD]; } FgNatAside;

typedef struct {
    FgX86 x;
    FgFlat *f;
    const void *const *labels;
    int op, failed;
    int dry, called;                    /* 1: kinds of numbers, 2: reads and writes of a loop are looked at; whether it calls */
    FgNatHeld held[NAT_HELD];
    int n_held;
    int64_t clock, used[NAT_REGISTERS];
    uint64_t pinned, wide;              /* registers; AVX2: those that hold the lower half of a vector */
    int vectors, few;                   /* AVX2: there are vectors; nothing is held throughout loops */
    int narrow;                         /* AVX2: vectors are of 32 bytes, those of this op */
    uint8_t *needed;                    /* AVX2: of each 64 bytes of a place between operations: someone reads it from memory */
    int sparing;                        /* AVX2: those that nobody does are not written */
    uint8_t *upper, *alone, *reads;     /* AVX2: of each 64 bytes: the upper half is read; of each four: a number is written alone; how many ops read what begins there */
    int last[NAT_LAST];                        /* as the interpreter's registers; -1: not known */
    uint8_t *kinds;                     /* of each four bytes of the memory: as what they are read */
    FgNatNote *notes;
    int16_t *noted;                     /* of each four bytes of the memory: the first note of what begins there, + 1 */
    int n_notes;
    FgNatJump *jumps;
    int n_jumps, cap_jumps;
    FgNatAside *asides;
    int n_asides, cap_asides;
    int64_t *at, *inside;               /* where the code of each op begins; that of a loop's first op, for jumps from within */
    FgNatLoop *loops;
    int n_loops, in;                    /* in: the loop, or -1 */
    char *numbers;
    FgFlatOp *apart;                    /* ops that the interpreter runs, each before an end: as many as the first pass over the code counts */
    int n_apart, made_apart;
} FgNat;

enum { NAT_lt, NAT_le, NAT_gt, NAT_ge, NAT_eq, NAT_ne };               /* comparisons */
#define NAT_FIELD(name) (int)(offsetof(FgFlatOp, name) / 8)
static int nat_is_general(int kind) { return kind == NAT_I32 || kind == NAT_B1 || kind == NAT_I64 || kind == NAT_H; }
static int nat_is_half(int kind) { return kind >= NAT_BF16V; }
/* 1 for what AVX2 has in two registers. */
static int nat_is_pair(int kind) { return kind == NAT_V || kind == NAT_BF16V || kind == NAT_F16V; }
static int nat_g(int reg) { return reg - NAT_GENERAL; }

/* ---- places */

static int nat_in_memory(const FgNat *n, const char *addr) { return addr >= n->f->memory && addr + 64 <= n->f->memory + FG_FLAT_MEMORY; }
/* Someone looks at memory there: of a place between operations, at all of it. */
static void nat_needs(FgNat *n, const char *addr) {
    if (n->dry || !n->needed || !nat_in_memory(n, addr)) return;
    const uint8_t *between = n->f->between;
    int64_t k = (addr - n->f->memory) / 64;
    if (!between[k]) return;
    if (n->sparing && !n->needed[k]) n->failed = 1;
    while (between[k] == 2) k--;
    do n->needed[k++] = 1; while (k < FG_FLAT_MEMORY / 64 && between[k] == 2);
}
static int nat_is_spared(const FgNat *n, const char *addr) {
    const int64_t k = (addr - n->f->memory) / 64;
    return n->sparing && nat_in_memory(n, addr) && n->f->between[k] && !n->needed[k];
}
/* A place in memory, or one that the op's field tells when it runs, whose address goes to a general register; nat_to: one that is but written. */
static FgX86At nat_to(FgNat *n, const char *addr, int field, int reg) {
    if (nat_in_memory(n, addr)) return (FgX86At){X86_BX, -1, (int32_t)(addr - n->f->memory)};
    x86_op_at(&n->x, 1, X86_MOV, reg, (FgX86At){X86_12, -1, (int32_t)(n->op * sizeof(FgFlatOp) + 8 * field)});
    return (FgX86At){reg, -1, 0};
}
static FgX86At nat_at(FgNat *n, const char *addr, int field, int reg) {
    nat_needs(n, addr);
    return nat_to(n, addr, field, reg);
}
static void nat_address(FgNat *n, const char *addr, int field, int reg) {
    FgX86At m = nat_at(n, addr, field, reg);
    if (m.base != reg) x86_op_at(&n->x, 1, X86_LEA, reg, m);
}
/* The numbers that operations need: signs, all but signs, ones, bytes of one, the lower halves of words,
 * of rounding to bfloat16: the last bit kept, half of it less one, a NaN's bit, what is kept, and eight numbers' masks before as many zeros; each 64 bytes. */
enum { NAT_SIGN32, NAT_SIGN64, NAT_ABS32, NAT_ABS64, NAT_ONE32, NAT_ONE64, NAT_BYTES, NAT_LOW, NAT_LAST_BIT, NAT_CARRY, NAT_QUIET, NAT_KEPT, NAT_FIRST, NAT_NUMBERS };
static FgX86At nat_number(const FgNat *n, int which) { return (FgX86At){X86_BX, -1, (int32_t)(n->numbers + 64 * which - n->f->memory)}; }
static void nat_fill_numbers(char *to) {
    for (int i = 0; i < 16; i++) {
        ((uint32_t *)(to + 64 * NAT_SIGN32))[i] = 1u << 31;
        ((uint32_t *)(to + 64 * NAT_ABS32))[i] = ~(1u << 31);
        ((float *)(to + 64 * NAT_ONE32))[i] = 1;
        ((uint32_t *)(to + 64 * NAT_LAST_BIT))[i] = 1;
        ((uint32_t *)(to + 64 * NAT_CARRY))[i] = 0x7fff;
        ((uint32_t *)(to + 64 * NAT_QUIET))[i] = 0x400000;
        ((uint32_t *)(to + 64 * NAT_KEPT))[i] = 0xffff0000;
    }
    for (int i = 0; i < 8; i++) {
        ((uint64_t *)(to + 64 * NAT_SIGN64))[i] = 1ull << 63;
        ((uint64_t *)(to + 64 * NAT_ABS64))[i] = ~(1ull << 63);
        ((double *)(to + 64 * NAT_ONE64))[i] = 1;
    }
    memset(to + 64 * NAT_BYTES, 1, 64);
    memset(to + 64 * NAT_FIRST, 255, 32);
    for (int i = 0; i < 32; i++) ((uint16_t *)(to + 64 * NAT_LOW))[i] = 0xff;
}

/* ---- registers */

static void nat_drop(FgNat *n, int i) { n->held[i] = n->held[--n->n_held]; }
static void nat_drop_register(FgNat *n, int reg) { for (int i = n->n_held - 1; i >= 0; i--) if (n->held[i].reg == reg) nat_drop(n, i); }
#if FG_MACHINE_CODE == 2
#include "flat_evex.h"
#else
#include "flat_vex.h"
#endif

static int nat_load_form(int kind) {
    return kind == NAT_F32 ? X86_FORM(1, 2, 0, 0, 0x10) : kind == NAT_F64 ? X86_FORM(1, 3, 1, 0, 0x10) : kind == NAT_V ? X86_FORM(1, 0, 0, 2, 0x10) : kind == NAT_Y ? X86_FORM(1, 0, 0, 1, 0x10) :
           kind == NAT_B16 ? X86_FORM(1, 3, 0, 0, 0x6f) : X86_FORM(1, 2, 1, 0, 0x7e);
}
static int nat_store_form(int kind) {
    return kind == NAT_F32 ? X86_FORM(1, 2, 0, 0, 0x11) : kind == NAT_F64 ? X86_FORM(1, 3, 1, 0, 0x11) : kind == NAT_V ? X86_FORM(1, 0, 0, 2, 0x11) : kind == NAT_Y ? X86_FORM(1, 0, 0, 1, 0x11) :
           kind == NAT_B16 ? X86_FORM(1, 3, 0, 0, 0x7f) : X86_FORM(1, 1, 1, 0, 0xd6);
}
/* 16-bit floats at m to float32, and float32 that 16 bits hold to m; k: the mask of a vector of them. */
static void nat_load_half(FgNat *n, int kind, int reg, FgX86At m) {
    if (kind == NAT_BF16V) {
        nat_v_at(n, X86_FORM(2, 1, 0, 2, 0x33), reg, 0, m, 0);              /* vpmovzxwd */
        nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x72), 6, reg, reg, 0, 16); /* vpslld */
    } else if (kind == NAT_F16V) nat_v_at(n, X86_FORM(2, 1, 0, 2, 0x13), reg, 0, m, 0);     /* vcvtph2ps */
    else {
        nat_v(n, X86_FORM(1, 1, 0, 0, 0xef), reg, reg, reg, 0);
        nat_v_at_by(n, X86_FORM(1, 1, 0, 0, 0xc4), reg, reg, m, 0, kind == NAT_BF16);    /* vpinsrw */
        if (kind == NAT_F16) nat_v(n, X86_FORM(2, 1, 0, 0, 0x13), reg, 0, reg, 0);
    }
}
static void nat_store_half(FgNat *n, int kind, int reg, FgX86At m, int k) {
    if (kind == NAT_BF16V) {
        nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x72), 2, 0, reg, 0, 16);   /* vpsrld */
        nat_store_words(n, 0, m, k);
    } else if (kind == NAT_F16V) { nat_v_at_by(n, X86_FORM(3, 1, 0, 2, 0x1d), reg, 0, m, k, 0); }      /* vcvtps2ph */
    else {
        if (kind == NAT_F16) { nat_v_by(n, X86_FORM(3, 1, 0, 0, 0x1d), reg, 0, 0, 0, 0); }
        nat_v_at_by(n, X86_FORM(3, 1, 0, 0, 0x15), kind == NAT_F16 ? 0 : reg, 0, m, 0, kind == NAT_BF16);    /* vpextrw */
    }
}
static void nat_load(FgNat *n, int kind, int reg, FgX86At m) {
    const int narrow = n->narrow;
    n->narrow = 0;                      /* of whatever length the op's own vectors are */
    if (nat_is_half(kind)) nat_load_half(n, kind, reg, m);
    else if (nat_is_general(kind)) x86_op_at(&n->x, kind == NAT_I64, kind == NAT_B1 ? X86_MOVZX1 : kind == NAT_H ? X86_MOVZX2 : X86_MOV, nat_g(reg), m);
    else nat_v_at(n, nat_load_form(kind), reg, 0, m, 0);
    n->narrow = narrow;
}
static void nat_store(FgNat *n, int kind, int reg, FgX86At m) {
    const int narrow = n->narrow;
    n->narrow = 0;
    if (kind == NAT_H) x86_1(&n->x, 0x66);
    if (nat_is_half(kind)) nat_store_half(n, kind, reg, m, 0);
    else if (nat_is_general(kind)) x86_op_at(&n->x, kind == NAT_I64, kind == NAT_B1 ? X86_STORE1 : X86_STORE, nat_g(reg), m);
    else nat_v_at(n, nat_store_form(kind), reg, 0, m, 0);
    n->narrow = narrow;
}
static void nat_move(FgNat *n, int kind, int to, int from) {
    if (to == from) return;
    if (nat_is_general(kind)) x86_op(&n->x, kind == NAT_I64, X86_MOV, nat_g(to), nat_g(from));
    else {
        const int narrow = n->narrow;
        n->narrow = 0;
        nat_v(n, X86_FORM(1, 0, 0, kind == NAT_Y ? 1 : nat_bytes[kind] >= 32 ? 2 : 0, 0x28), to, 0, from, 0);
        n->narrow = narrow;
    }
}

/* Drop all that is not held throughout a loop. */
static void nat_forget(FgNat *n) {
    for (int i = n->n_held - 1; i >= 0; i--) if (!n->held[i].pinned) nat_drop(n, i);
    for (int i = 0; i < NAT_LAST; i++) n->last[i] = -1;
}

/* From here on an op needs, of what it has read and computed, one alone: the other registers may take something else. */
static void nat_needs_only(FgNat *n, int reg) { n->used[reg] = ++n->clock; }
static void nat_hold(FgNat *n, int kind, const char *addr, int reg) {
    if (!nat_in_memory(n, addr)) return;
    if (n->n_held == NAT_HELD) {
        int oldest = -1;
        for (int i = 0; i < n->n_held; i++)
            if (!n->held[i].pinned && (oldest < 0 || n->used[n->held[i].reg] < n->used[n->held[oldest].reg])) oldest = i;
        if (oldest < 0) return;
        nat_drop(n, oldest);
    }
    n->held[n->n_held++] = (FgNatHeld){addr, (int16_t)kind, (int16_t)reg, 0};
}
static void nat_note(FgNat *n, int kind, const char *addr, int read, int bits) {
    if (!nat_in_memory(n, addr)) return;
    if (n->dry == 1) {
        if (NAT_FEW && read && n->reads[(addr - n->f->memory) / 4] < 255) n->reads[(addr - n->f->memory) / 4]++;
        if (read && !bits && (addr - n->f->memory) % 4 == 0) n->kinds[(addr - n->f->memory) / 4] |= (uint8_t)(1 << (kind == NAT_Y || kind == NAT_BF16V || kind == NAT_F16V ? NAT_V : kind));
        return;
    }
    int16_t *first = &n->noted[(addr - n->f->memory) / 4];
    for (int i = *first; i; i = n->notes[i - 1].next) {
        FgNatNote *note = &n->notes[i - 1];
        if (note->addr == addr && note->kind == kind) { note->count += read; note->written |= !read; return; }
    }
    if (n->n_notes == NAT_NOTES) return;
    n->notes[n->n_notes] = (FgNatNote){addr, kind, read, read, *first, !read};
    *first = (int16_t)++n->n_notes;
}
/* The register that holds what lies there, of a vector of 32 bytes also the lower one of a longer one; or -1. */
static int nat_find(const FgNat *n, int kind, const char *addr) {
    for (int i = 0; i < n->n_held; i++) if (n->held[i].addr == addr && (n->held[i].kind == kind || (kind == NAT_Y && n->held[i].kind == NAT_V))) return n->held[i].reg;
    return -1;
}
/* 1 if a place of whole vectors is read as one. */
static int nat_as_vector(const FgNat *n, const char *addr) {
    return nat_in_memory(n, addr) && n->kinds[(addr - n->f->memory) / 4] >> NAT_V & 1 && fg_flat_padded(n->f, addr);
}
/* The vector that is held of which [addr, addr + bytes) is a part, or -1; *lane: where it begins there, in four bytes. */
static int nat_around(FgNat *n, const char *addr, int64_t bytes, int *lane) {
    for (int i = 0; i < n->n_held; i++) {
        const FgNatHeld *h = &n->held[i];
        if ((h->kind != NAT_V && h->kind != NAT_Y) || addr < h->addr || addr + bytes > h->addr + nat_bytes[h->kind] || (addr - h->addr) % 4) continue;
        *lane = (int)(addr - h->addr) / 4;
        n->used[h->reg] = n->clock;
        return h->reg;
    }
    return -1;
}
#if FG_MACHINE_CODE == 2
/* The numbers of a vector from a lane on, to the beginning of another one. */
static void nat_down(FgNat *n, int to, int from, int lane) { nat_v_by(n, X86_FORM(3, 1, 0, 2, 0x03), to, from, from, 0, lane); }
/* A vector that lies across two that are held, or of which the second one can be; -1 if there are none. */
static int nat_across(FgNat *n, const char *addr) {
    int lane, low = nat_around(n, addr, 4, &lane), high = -1;
    if (low < 0 || lane == 0 || !nat_in_memory(n, addr + 64 - 4 * lane)) return -1;
    const char *next = addr + 64 - 4 * lane;
    if ((high = nat_find(n, NAT_V, next)) >= 0) n->used[high] = n->clock;
    else {
        high = nat_new(n, 0);
        nat_load(n, NAT_V, high, nat_at(n, next, 0, X86_AX));
        nat_hold(n, NAT_V, next, high);
    }
    int to = nat_new(n, 0);
    nat_v_by(n, X86_FORM(3, 1, 0, 2, 0x03), to, high, low, 0, lane);
    return to;
}
#else
static int nat_across(FgNat *n, int kind, const char *addr);        /* flat_vex_gather.h */
#endif
/* A number out of a vector that is held: memory would give it later. -1 if there is none. */
static int nat_part(FgNat *n, int kind, const char *addr) {
#if FG_MACHINE_CODE == 1
    if (kind == NAT_V || kind == NAT_Y) return nat_across(n, kind, addr);
#endif
#if FG_MACHINE_CODE == 2
    if (kind == NAT_V) return nat_across(n, addr);
    if (kind == NAT_BF16V || kind == NAT_F16V) {            /* 16-bit floats out of a vector of 32 */
        const int upper = (addr - n->f->memory) % 64 == 32, x = nat_find(n, NAT_V, addr - 32 * upper), d = x < 0 ? -1 : nat_new(n, 0);
        if (x < 0) return -1;
        n->used[x] = n->clock;
        if (upper) { nat_v_by(n, X86_FORM(3, 1, 1, 2, 0x3b), x, 0, 0, 0, 1); }       /* vextracti64x4 */
        nat_v(n, X86_FORM(2, 1, 0, 2, kind == NAT_F16V ? 0x13 : 0x33), d, 0, upper ? 0 : x, 0);
        if (kind == NAT_BF16V) { nat_v_by(n, X86_FORM(1, 1, 0, 2, 0x72), 6, d, d, 0, 16); }
        return d;
    }
#endif
    int lane, from = kind == NAT_F32 || kind == NAT_F64 || kind == NAT_I32 ? nat_around(n, addr, nat_bytes[kind], &lane) : -1;
    if (from < 0) return -1;
    if (lane == 0 && kind != NAT_I32) return from;
    if (NAT_FEW && lane > (kind == NAT_F64 ? 0 : 3)) return -1;             /* memory gives it as early */
    int to = nat_new_of(n, kind);
    if (kind == NAT_I32) {
#if FG_MACHINE_CODE == 2
        if (lane > 3) { nat_down(n, 0, from, lane); from = 0; lane = 0; }
#endif
        nat_v_by(n, X86_FORM(3, 1, 0, 0, 0x16), from, 0, nat_g(to), 0, lane);                    /* vpextrd */
    } else if (lane < 4 && kind == NAT_F32) { nat_v_by(n, X86_FORM(3, 1, 0, 0, 0x04), to, 0, from, 0, lane); }
#if FG_MACHINE_CODE == 2
    else nat_down(n, to, from, lane);
#endif
    return to;
}
static int nat_read_bits(FgNat *n, int kind, const char *addr, int field, int bits) {
    if (n->narrow && kind == NAT_V) kind = NAT_Y;
    if (n->dry) { nat_note(n, kind, addr, 1, bits); return nat_new_of(n, kind); }
    int reg = nat_find(n, kind, addr);
    if (reg >= 0) { n->used[reg] = n->clock; return reg; }
    if ((reg = nat_part(n, kind, addr)) < 0) {
        reg = nat_new_of(n, kind);
        nat_load(n, kind, reg, nat_at(n, addr, field, X86_AX));
    }
    nat_hold(n, kind, addr, reg);
    return reg;
}
/* The register that holds what the op's field points to. */
static int nat_read(FgNat *n, int kind, const char *addr, int field) { return nat_read_bits(n, kind, addr, field, 0); }

/* What lies in [addr, addr + bytes) is not what it was: it is dropped, or loaded again where it is held throughout the loop. */
static void nat_changed(FgNat *n, const char *addr, int64_t bytes) {
    for (int i = n->n_held - 1; i >= 0; i--) {
        FgNatHeld *h = &n->held[i];
        if (!fg_flat_overlaps(h->addr, nat_bytes[h->kind], addr, bytes)) continue;
        if (h->pinned) nat_load(n, h->kind, h->reg, nat_at(n, h->addr, 0, X86_AX)); else nat_drop(n, i);
    }
}
/* Write a register to what the op's field points to. */
static void nat_write(FgNat *n, int kind, const char *addr, int field, int reg) {
    if (n->narrow && kind == NAT_V) kind = NAT_Y;
    if (n->dry) { nat_note(n, kind, addr, 0, 0); return; }
    if (!nat_is_spared(n, addr)) nat_store(n, kind, reg, nat_to(n, addr, field, X86_AX));
    int pinned = 0;
    for (int i = n->n_held - 1; i >= 0; i--) {
        FgNatHeld *h = &n->held[i];
        if (!fg_flat_overlaps(h->addr, nat_bytes[h->kind], addr, nat_bytes[kind])) continue;
        if (!h->pinned) { nat_drop(n, i); continue; }
        if (h->addr == addr && h->kind == kind) { nat_move(n, kind, h->reg, reg); pinned = 1; }
        else nat_load(n, h->kind, h->reg, nat_at(n, h->addr, 0, X86_AX));
    }
    if (pinned) return;
    if (n->pinned >> reg & 1) {         /* which will hold something else */
        int copy = nat_new_of(n, kind);
        nat_move(n, kind, copy, reg);
        reg = copy;
    }
    nat_hold(n, kind, addr, reg);
}
/* What the interpreter would have in a register. */
static int nat_last(FgNat *n, int which) {
    if (n->dry) return nat_new(n, which >= 4);
    int reg = n->last[which];
    if (reg < 0) { n->failed = 1; return which >= 4 ? NAT_GENERAL + X86_SI : 3; }
    if (NAT_FEW && (which == 2 || which == 3) && !n->narrow && !(n->wide >> reg & 1)) n->failed = 1;      /* half of it */
    n->used[reg] = n->clock;
    return reg;
}

/* ---- calls and jumps */

/* A function has been called, which may have written anywhere. */
static void nat_called(FgNat *n) {
    n->called = 1;
    nat_forget(n);
    for (int i = 0; i < n->n_held; i++) nat_load(n, n->held[i].kind, n->held[i].reg, nat_at(n, n->held[i].addr, 0, X86_AX));
}
static void nat_jump(FgNat *n, int condition, int target) {
    if (n->dry) return;
    if (n->n_jumps == n->cap_jumps) {
        int cap = n->cap_jumps ? 2 * n->cap_jumps : 64;
        FgNatJump *more = (FgNatJump *)realloc(n->jumps, cap * sizeof(FgNatJump));
        if (!more) { n->failed = 1; return; }
        n->jumps = more;
        n->cap_jumps = cap;
    }
    FgNatJump j = {x86_jump(&n->x, condition), target, n->op};
    n->jumps[n->n_jumps++] = j;
}
/* Jump to where the interpreter runs an op, or (NULL) looks for signals, and comes back to right here. */
static void nat_aside(FgNat *n, int condition, FgFlatOp *op) {
    if (n->dry) return;
    if (n->n_asides == n->cap_asides) {
        int cap = n->cap_asides ? 2 * n->cap_asides : 4;
        FgNatAside *more = (FgNatAside *)realloc(n->asides, cap * sizeof(FgNatAside));
        if (!more) { n->failed = 1; return; }
        n->asides = more;
        n->cap_asides = cap;
    }
    FgNatAside *a = &n->asides[n->n_asides++];
    a->jump = x86_jump(&n->x, condition);
    a->back = n->x.at - n->x.begin;
    a->op = op;
    a->n_held = n->n_held;
    memcpy(a->held, n->held, n->n_held * sizeof(FgNatHeld));
}
/* A turn of a loop is done. */
static void nat_turn(FgNat *n) {
    for (int i = 0; i < NAT_LAST; i++) n->last[i] = -1;        /* not loaded again, as what lies between operations is not */
    for (int i = n->n_held - 1; i >= 0 && n->needed && !n->dry; i--)
        if (!n->held[i].pinned && n->f->between[(n->held[i].addr - n->f->memory) / 64]) nat_drop(n, i);
    x86_number(&n->x, 1, 5, X86_15, 1);
    nat_aside(n, X86_LE, NULL);
}
/* The op as one of the interpreter's own, before an end. The first pass over the code only counts them. */
static FgFlatOp *nat_apart(FgNat *n) {
    static FgFlatOp none[2];
    if (n->dry == 1) n->n_apart += 2;
    if (n->dry) return none;
    if (n->made_apart + 2 > n->n_apart) { n->failed = 1; return none; }
    FgFlatOp *pair = n->apart + n->made_apart;
    n->made_apart += 2;
    pair[0] = n->f->ops[n->op];
    char **fields[] = {&pair->d, (char **)&pair->a, (char **)&pair->b, (char **)&pair->c, &pair->f, &pair->e, (char **)&pair->g};
    for (int i = 0; i < 7; i++) { nat_needs(n, *fields[i]); fg_flat_moves(n->f, fields[i]); }
    pair->label = n->labels[(intptr_t)pair->label];
    pair[1].label = n->labels[FLAT_end];
    return pair;
}
static void nat_interpret(FgNat *n, const FgFlatOp *pair) {
    x86_set(&n->x, X86_DI, (int64_t)(intptr_t)pair);
    x86_set(&n->x, X86_SI, 0);
    x86_clear_upper(&n->x);
    x86_call(&n->x, (const void *)&fg_flat_run);
}
static void nat_code_of_asides(FgNat *n, int64_t leave) {
    for (int i = 0; i < n->n_asides && !n->x.failed; i++) {
        FgNatAside *a = &n->asides[i];
        x86_land(&n->x, a->jump);
        if (a->op) nat_interpret(n, a->op);
        else {
            x86_op(&n->x, 1, X86_MOV, X86_DI, X86_13);
            x86_clear_upper(&n->x);
            x86_call(&n->x, (const void *)&fg_turns_look);
            x86_op(&n->x, 0, X86_TEST, X86_AX, X86_AX);
            x86_lead(&n->x, x86_jump(&n->x, X86_NE), leave);
            x86_op_at(&n->x, 1, X86_MOV, X86_15, (FgX86At){X86_13, -1, (int32_t)offsetof(FgTurns, left)});
        }
        for (int wide = 0; wide < 2; wide++)                /* last the vectors: a number that is the first of one is loaded with zeros behind it */
            for (int k = 0; k < a->n_held; k++) {
                const FgNatHeld *h = &a->held[k];
                if ((h->kind == NAT_V || h->kind == NAT_Y) == wide) nat_load(n, h->kind, h->reg, nat_at(n, h->addr, 0, X86_AX));
            }
        x86_lead(&n->x, x86_jump(&n->x, X86_ALWAYS), a->back);
    }
}
#endif
#endif
