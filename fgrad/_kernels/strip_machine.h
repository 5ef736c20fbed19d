/* Machine code of strips, where the processor has AVX-512 or AVX2: a vector of each value stays in its register from the step that makes it to the last
 * one that reads it, where stages pass eight vectors of one value on and leave all others in memory. Bit for bit what the stages compute.
 *
 * A strip that has been run often enough gets its code, which is kept for all strips of the same stages. */
#ifndef FG_STRIP_MACHINE_H
#define FG_STRIP_MACHINE_H
#include "strip_steps.h"
#include "machine_code.h"

#if FG_MACHINE_CODE
#include <pthread.h>
#include "x86.h"
#include "x86_vex.h"

/* Vectors at once, at most; registers 0 and 1, and mask 1, are any step's. Mask 7 is what there is of a vector at the end. */
enum { SM_FIRST = 2, SM_FIRST_MASK = 2, SM_PART = 7, SM_DEEP = 24, SM_ROOM = 1 << 17, SM_BASES = 8, SM_PARTIAL = -2 };
/* With AVX2 masks are vectors of all bits or none, and the stack has what there is of a vector at the end: its lanes' mask, how many bytes that is, and
 * room for a copy of narrow lanes. */
#ifdef __AVX512F__
enum { SM_MASKS = 1, SM_REGISTERS = 32, SM_FOLDS = 8, SM_LOG = 6, SM_TURNS = 4, SM_NUMBERS_HELD = 8, SM_SLOTS = 0 };
#else
enum { SM_MASKS = 0, SM_REGISTERS = 16, SM_LOG = 5, SM_TURNS = 6, SM_NUMBERS_HELD = 2, SM_FOLDS = 3, SM_SLOTS = 3, SM_PART_MASK = 0, SM_PART_BYTES = 1, SM_PART_COPY = 2 };
#endif
enum { SM_ADDRESSES = X86_DI, SM_AT = X86_SI, SM_END_AT = X86_DX, SM_AT_BYTES = X86_CX, SM_AT_HALVES = X86_8 };

typedef struct {
    FgX86 x;
    SmProgram *m;
    int turns, step, failed, part;      /* part: of a vector, what mask 7 has, */
    int words;                          /* and how many words that is, if it is known */
    int back;                           /* AVX2: so many bytes before it begins a whole vector, of which the last words are stored */
    int vector;                         /* the first one at hand, of eight: where rows are folded */
    int16_t partial[SM_FOLDS][3];       /* of each fold, the registers of what one, two and four vectors have given; -1: none */
    int8_t reg[SM_VALUES][SM_TURNS];    /* the register of a value, or the mask; -1: none */
    int16_t slot[SM_VALUES][SM_TURNS];  /* where it lies on the stack, in vectors; -1: nowhere */
    int16_t holds[32], turn[32];        /* the value of a register, -1: none */
    int16_t masks[8], mask_turn[8];
    uint32_t busy;                      /* registers of the step at hand */
    int n_slots, pinned;                /* registers from `pinned` on hold numbers throughout */
    int16_t spare[SM_VALUES], left[6];  /* AVX2: slots of values that nobody reads any more, the last ones those of the step at hand */
    int n_spare, n_left;
    int near;                           /* inputs, of which each turn fetches what lies FG_NEAR ahead */
    int32_t base[SM_BASES];             /* entries of the table whose addresses registers hold */
    int n_bases, most_bases;
    int lean;                           /* AVX2: what memory has is read there each time: registers are for what steps make */
} SmCode;
static const uint8_t sm_bases[SM_BASES] = {X86_9, X86_10, X86_11, X86_BX, X86_12, X86_13, X86_14, X86_15};

static const SmValue *sm_of(const SmCode *c, int v) { return &c->m->values[v]; }
static int sm_wide(const SmCode *c) { return c->m->lane == 8; }
/* When a value is read next, from the step at hand on. */
static int sm_next(const SmCode *c, int v) {
    for (int k = c->step; k <= sm_of(c, v)->last; k++)
        for (int j = 0; j < 3; j++) if (c->m->steps[k].s[j] == v) return k;
    return SM_STEPS;
}
/* The place of a tile's vector, of lanes of so many bytes; a base that no register holds goes to ax. */
static FgX86At sm_place(SmCode *c, int32_t entry, int turn, int bytes) {
    const int lane = c->m->lane, index = bytes == lane ? SM_AT : bytes == 1 ? SM_AT_BYTES : SM_AT_HALVES;
    int k = 0;
    while (k < c->n_bases && c->base[k] != entry) k++;
    if (k == c->n_bases) x86_op_at(&c->x, 1, X86_MOV, X86_AX, (FgX86At){SM_ADDRESSES, -1, entry * 8});
    return (FgX86At){k == c->n_bases ? X86_AX : sm_bases[k], index, (c->vector + turn) * FG_VEC / lane * bytes - c->back};
}
static FgX86At sm_stack(int slot) { return (FgX86At){X86_SP, -1, slot * FG_VEC}; }
#ifdef __AVX512F__
static void sm_v(SmCode *c, int form, int reg, int v, int rm) { x86_v(&c->x, form, reg, v, rm, 0); }
static void sm_v_at(SmCode *c, int form, int reg, int v, FgX86At m) { x86_v_at(&c->x, form, reg, v, m, 0); }
#else
static void sm_v(SmCode *c, int form, int reg, int v, int rm) { x86_ymm(&c->x, form, reg, v, rm); }
static void sm_v_at(SmCode *c, int form, int reg, int v, FgX86At m) { x86_ymm_at(&c->x, form, reg, v, m); }
#endif
static void sm_load_tile(SmCode *c, int reg, FgX86At m);
static void sm_load(SmCode *c, int reg, FgX86At m) { sm_v_at(c, X86_FORM(1, 0, 0, 2, 0x10), reg, 0, m); }
static void sm_store(SmCode *c, int reg, FgX86At m) { sm_v_at(c, X86_FORM(1, 0, 0, 2, 0x11), reg, 0, m); }
static void sm_move(SmCode *c, int to, int from) { if (to != from) sm_v(c, X86_FORM(1, 0, 0, 2, 0x28), to, 0, from); }

/* A register for a vector: a free one, or that of the value which is wanted last. */
static int sm_new(SmCode *c) {
    int best = -1, when = -1;
    for (int r = SM_FIRST; r < c->pinned; r++) {
        if (c->busy >> r & 1 || c->holds[r] == SM_PARTIAL) continue;
        int next = c->holds[r] < 0 ? SM_STEPS + 1 : sm_next(c, c->holds[r]);
        if (next > when) { when = next; best = r; }
    }
    if (best < 0) { c->failed = 1; return SM_FIRST; }
    int v = c->holds[best], u = c->turn[best];
    if (v >= 0) {
        if (sm_of(c, v)->from == SM_MADE && c->slot[v][u] < 0 && when < SM_STEPS) {
            c->slot[v][u] = (int16_t)(c->n_spare ? c->spare[--c->n_spare] : c->n_slots++);
            sm_store(c, best, sm_stack(c->slot[v][u]));
        }
        c->reg[v][u] = -1;
    }
    c->holds[best] = -1;
    c->busy |= 1u << best;
    return best;
}
static void sm_hold(SmCode *c, int v, int u, int reg) { c->reg[v][u] = (int8_t)reg; c->holds[reg] = (int16_t)v; c->turn[reg] = (int16_t)u; }
/* The place in memory of a value that no register holds. */
static FgX86At sm_home(SmCode *c, int v, int u) {
    const SmValue *x = sm_of(c, v);
    if (x->from == SM_MEMORY) return sm_place(c, x->entry, u, c->m->lane);
    const int s = x->from == SM_MADE ? u : 0;
    if (c->slot[v][s] < 0) c->failed = 1;
    return sm_stack(c->slot[v][s]);
}
static int sm_constant(const SmCode *c, int v) { return sm_of(c, v)->from == SM_ONE || sm_of(c, v)->from == SM_NUMBER; }
/* The register of a value, which is loaded if need be. */
static int sm_get(SmCode *c, int v, int u) {
    const int t = sm_constant(c, v) ? 0 : u;
    int reg = c->reg[v][t];
    if (reg < 0) {
        reg = sm_new(c);
        if (sm_of(c, v)->from == SM_MEMORY) sm_load_tile(c, reg, sm_home(c, v, u)); else sm_load(c, reg, sm_home(c, v, u));
        sm_hold(c, v, t, reg);
    }
    c->busy |= 1u << reg;
    return reg;
}
/* 1 if an instruction should take the value from memory. */
static int sm_far(const SmCode *c, int v, int u) {
    if (c->reg[v][sm_constant(c, v) ? 0 : u] >= 0 || (c->part && !c->back && sm_of(c, v)->from == SM_MEMORY)) return 0;
    return sm_constant(c, v) || sm_of(c, v)->from == SM_MADE || sm_of(c, v)->last == c->step || c->lean;
}
/* The values of the step that nobody reads later leave their registers. */
static void sm_leave(SmCode *c, const SmStep *s, int u) {
    for (int j = 0; j < 3; j++) {
        const int v = s->s[j];
        if (v < 0 || sm_constant(c, v) || sm_of(c, v)->last > c->step) continue;
        if (!SM_MASKS && c->slot[v][u] >= 0 && c->n_left < 6) { c->left[c->n_left++] = c->slot[v][u]; c->slot[v][u] = -1; }
        if (c->reg[v][u] < 0) continue;
        if (SM_MASKS && sm_of(c, v)->mask) c->masks[c->reg[v][u]] = -1;
        else { c->holds[c->reg[v][u]] = -1; c->busy &= ~(1u << c->reg[v][u]); }
        c->reg[v][u] = -1;
    }
}

/* ---- steps */

static int sm_real(int type) { return type == FG_F32 || type == FG_F64; }
static int sm_real_form(int type, int op) { return type == FG_F64 ? X86_FORM(1, 1, 1, 2, op) : X86_FORM(1, 0, 0, 2, op); }
/* An operation on integers, by its first form; 0 if there is none. */
static int sm_whole_form(int type, int op) {
    const int w = fg_itemsize(type) == 8, is_signed = type == FG_I32 || type == FG_I64;
    switch (op) {
    case FG_OP_add: return X86_FORM(1, 1, w, 2, w ? 0xd4 : 0xfe);
    case FG_OP_sub: return X86_FORM(1, 1, w, 2, w ? 0xfb : 0xfa);
    case FG_OP_mul: return X86_FORM(2, 1, w, 2, 0x40);
    case FG_OP_and: return X86_FORM(1, 1, w, 2, 0xdb);
    case FG_OP_or: return X86_FORM(1, 1, w, 2, 0xeb);
    case FG_OP_xor: return X86_FORM(1, 1, w, 2, 0xef);
    case FG_OP_shl: return X86_FORM(2, 1, w, 2, 0x47);
    case FG_OP_shr_logical: return X86_FORM(2, 1, w, 2, 0x45);
    case FG_OP_shr_arith: return X86_FORM(2, 1, w, 2, 0x46);
    case FG_OP_max: return X86_FORM(2, 1, w, 2, is_signed ? 0x3d : 0x3f);
    case FG_OP_min: return X86_FORM(2, 1, w, 2, is_signed ? 0x39 : 0x3b);
    }
    return 0;
}
static int sm_even(int op) { return op == FG_OP_add || op == FG_OP_mul || op == FG_OP_and || op == FG_OP_or || op == FG_OP_xor; }

/* One instruction of two operands: the result may take over a register of theirs. */
static void sm_two(SmCode *c, const SmStep *s, int u, int form, int x, int y) {
    if (sm_even(s->op) && sm_far(c, x, u) && !sm_far(c, y, u)) { int z = x; x = y; y = z; }
    const int rx = sm_get(c, x, u), far = sm_far(c, y, u), ry = far ? 0 : sm_get(c, y, u);
    FgX86At at = far ? sm_home(c, y, u) : (FgX86At){0, -1, 0};
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (far) sm_v_at(c, form, d, rx, at); else sm_v(c, form, d, rx, ry);
    sm_hold(c, s->d, u, d);
}
static void sm_one(SmCode *c, const SmStep *s, int u, int form, int imm) {
    const int y = s->s[0], far = sm_far(c, y, u), ry = far ? 0 : sm_get(c, y, u);
    FgX86At at = far ? sm_home(c, y, u) : (FgX86At){0, -1, 0};
    sm_leave(c, s, u);
    const int d = sm_new(c);
    if (far) sm_v_at(c, form, d, 0, at); else sm_v(c, form, d, 0, ry);
    if (imm >= 0) x86_1(&c->x, imm);
    sm_hold(c, s->d, u, d);
}
/* A copy of a number. */
static void sm_copy(SmCode *c, int reg, int v) { if (c->reg[v][0] >= 0) sm_move(c, reg, c->reg[v][0]); else sm_load(c, reg, sm_home(c, v, 0)); }
static void sm_load_other(SmCode *c, int reg, int v, int u) {
    if (sm_of(c, v)->from == SM_MEMORY) sm_load_tile(c, reg, sm_home(c, v, u)); else sm_load(c, reg, sm_home(c, v, u));
}
#ifdef __AVX512F__
#include "strip_evex.h"
#else
#include "strip_vex.h"
#endif
/* All turns of a window: what lies inside of its box is there already. */
static void sm_box_step(SmCode *c, const SmStep *s) {
    FgX86 *m = &c->x;
    int d[SM_TURNS], reg[SM_TURNS];
    for (int u = 0; u < c->turns; u++) {
        const int x = s->s[0], y = s->s[1];
        if (sm_far(c, x, u) && sm_of(c, x)->from != SM_MEMORY) { d[u] = sm_new(c); sm_load(c, d[u], sm_home(c, x, u)); }
        else if (!sm_constant(c, x) && sm_of(c, x)->last == c->step && x != y) {
            d[u] = sm_get(c, x, u);
            c->holds[d[u]] = -1;
            c->reg[x][u] = -1;
        } else { const int from = sm_get(c, x, u); d[u] = sm_new(c); sm_move(c, d[u], from); }
        const int t = sm_constant(c, y) ? 0 : u;
        reg[u] = c->reg[y][t];
        if (reg[u] >= 0) c->busy |= 1u << reg[u];
        sm_hold(c, s->d, u, d[u]);
    }
    x86_op_at(m, 1, X86_MOV, X86_AX, (FgX86At){SM_ADDRESSES, -1, s->entry * 8});
    x86_op(m, 1, X86_TEST, X86_AX, X86_AX);
    const int64_t inside = x86_jump(m, X86_E);
    x86_number(m, 1, 7, X86_AX, 1);
    const int64_t outside = x86_jump(m, X86_E);
    for (int u = 0; u < c->turns; u++) sm_box_turn(c, s, u, d[u], reg[u]);
    const int64_t done = x86_jump(m, X86_ALWAYS);
    x86_land(m, outside);
    for (int u = 0; u < c->turns; u++) {
        if (reg[u] < 0) sm_load_other(c, d[u], s->s[1], u); else sm_move(c, d[u], reg[u]);
    }
    x86_land(m, inside);
    x86_land(m, done);
    for (int u = 0; u < c->turns; u++) sm_leave(c, s, u);
}
/* Of eight vectors, neighbours first: what there is of a row so far waits for as many vectors more. */
static void sm_fold_step(SmCode *c, const SmStep *s, int u, int fold) {
    const int k = c->vector + u, per = s->form ? s->form : 8, lanes = FG_VEC / c->m->lane, all = (1 << lanes) - 1;
    const int x = sm_get(c, s->s[0], u), some = s->form ? all : (int)(c->m->lanes[k * lanes / 64] >> k * lanes % 64) & all;
    int v = sm_new(c), level = 0;
    if (some == all) sm_move(c, v, x);
    else sm_only(c, v, x, some, s->s[1]);       /* the number that changes nothing in the other lanes */
    for (; k >> level & 1 && 1 << level < per; level++) {
        const int before = c->partial[fold][level];
        if (before < 0) { c->failed = 1; return; }
        sm_fold_two(c, s, v, before, v);
        c->partial[fold][level] = -1;
        c->holds[before] = -1;
    }
    if ((k + 1) % per) {
        c->partial[fold][level] = (int16_t)v;
        c->holds[v] = SM_PARTIAL;
    } else {
        x86_op(&c->x, 1, X86_MOV, X86_AX, SM_AT);
        if (s->form) x86_shift(&c->x, 1, 5, X86_AX, per == 8 ? 3 : per == 4 ? 2 : 1);
        else {
            x86_number(&c->x, 1, 0, X86_AX, FG_STRIP - 1);
            x86_shift(&c->x, 1, 5, X86_AX, SM_LOG + 3);
            x86_shift(&c->x, 1, 4, X86_AX, SM_LOG);
        }
        x86_op_at(&c->x, 1, X86_ADD, X86_AX, (FgX86At){SM_ADDRESSES, -1, s->entry * 8});
        sm_store(c, v, (FgX86At){X86_AX, -1, k / per * FG_VEC});
    }
    sm_leave(c, s, u);
}
static void sm_code_step(SmCode *c, const SmStep *s, int fold) {
    c->busy = 0;
    if (s->what == SM_BOX) { sm_box_step(c, s); return; }
    for (int u = 0; u < c->turns; u++) {
        c->busy = 0;
        while (c->n_left) c->spare[c->n_spare++] = c->left[--c->n_left];
        if (s->what == SM_DO) sm_do_step(c, s, u);
        else if (s->what == SM_COMPARE) sm_compare_step(c, s, u);
        else if (s->what == SM_PICK) sm_pick_step(c, s, u);
        else if (s->what == SM_LOGIC) sm_logic_step(c, s, u);
        else if (s->what == SM_NUMBERS) sm_numbers_step(c, s, u);
        else if (s->what == SM_CONVERT) sm_convert_step(c, s, u);
        else if (s->what < SM_PUT) sm_get_step(c, s, u);
        else if (s->what == SM_FOLD) sm_fold_step(c, s, u, fold);
        else sm_put_step(c, s, u);
    }
}
#include "strip_loop.h"
#else
static int fg_strip_code(const FgVmPlan *p, const FgVmStrip *s, int which, FgStripCode *code) { (void)p; (void)s; (void)which; *code = 0; return 1; }
static void fg_strip_count(int *seen, int *made) { *seen = *made = 0; }
#endif
#endif
