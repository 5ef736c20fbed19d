/* What a strip's program of stages computes, as steps on values that each are made once: machine code keeps them in registers (strip_machine.h).
 * Stages tell by their functions what they do. */
#ifndef FG_STRIP_STEPS_H
#define FG_STRIP_STEPS_H
#include "vm_make.h"

enum { SM_STEPS = 512, SM_VALUES = 512, SM_TABLE = 16384 };
/* Kinds of stages; of a table's cells, which one it is in a to d. */
enum { SM_NONE, SM_STAGE, SM_PAIR, SM_SIDE, SM_LOAD, SM_STORE, SM_STORE_LAST, SM_END, SM_KEEP, SM_TAKE, SM_SPREAD, SM_SPREAD_BOOL, SM_LOAD_BOOL,
    SM_STORE_BOOL, SM_STORE_MASKED, SM_NARROW, SM_HALF_LOAD, SM_HALF_STORE, SM_FOLD_STAGE, SM_SELECTION, SM_CHOICE, SM_WINDOW, SM_RANGE, SM_HORNER, SM_CAST };
typedef struct { FgStageFn fn; uint8_t kind, a, b, c, d, e; } SmKind;

/* Where a value comes from: memory that moves on, one number for all lanes, a number that is known, a step. */
enum { SM_MEMORY, SM_ONE, SM_NUMBER, SM_MADE };
typedef struct { uint8_t from, mask, lane; int32_t entry; int64_t bits; int first, last, reads; } SmValue;
/* Steps: an operation; a comparison, a selection by a mask, masks' logic; a mask as numbers; values inside of a box, others outside; memory. */
enum { SM_DO, SM_COMPARE, SM_PICK, SM_LOGIC, SM_NUMBERS, SM_BOX, SM_CONVERT, SM_GET_BOOL, SM_GET_NARROW, SM_GET_HALF, SM_PUT, SM_PUT_BOOL, SM_PUT_HALF, SM_FOLD };
typedef struct { uint8_t what, type, op, form; int16_t d, s[3]; int32_t entry; } SmStep;
/* What a fold reduces its terms by; `form` is how many vectors become one, 0 where these are all of a strip of which there are lanes by bits alone. */
enum { SM_BY_SUM, SM_BY_MAX, SM_BY_MIN, SM_BY_SIZE };

typedef struct {
    const FgVmPlan *p;
    const FgVmStrip *strip;
    int lane, slots, failed;            /* slots: the first entry of the table of pointers that is scratch */
    int held, banks[2];                 /* the strip's value, the banks' */
    int n_steps, n_values;
    int folds;                          /* steps that fold rows, */
    uint64_t lanes[2];                  /* and the lanes that there are of them (form 0) */
    int32_t masks;                      /* the entry with the tile's bits, of steps that put what is no gap */
    int16_t *scratch, *tiles;           /* entries' values: of scratch, of what has been stored */
    SmStep steps[SM_STEPS];
    SmValue values[SM_VALUES];
} SmProgram;

/* ---- the table of stages */

static SmKind sm_kinds[SM_TABLE];
static SmKind *sm_place_of(FgStageFn fn) {
    uintptr_t h = (uintptr_t)fn;
    h = (h >> 4) * 0x9e3779b97f4a7c15u >> 40;
    while (sm_kinds[h % SM_TABLE].fn && sm_kinds[h % SM_TABLE].fn != fn) h++;
    return &sm_kinds[h % SM_TABLE];
}
static void sm_add(FgStageFn fn, int kind, int a, int b, int c, int d, int e) {
    SmKind *k = fn ? sm_place_of(fn) : 0;
    if (k && !k->fn) *k = (SmKind){fn, (uint8_t)kind, (uint8_t)a, (uint8_t)b, (uint8_t)c, (uint8_t)d, (uint8_t)e};
}
#define SM_LINK_FN(op, form, Y, turn, t) stage_##op##_##form##_##t,
#define SM_JOIN_FN(op, form, turn, t) stage_##op##_##form##_##t,
static const FgStageFn sm_links_float[2][FG_LINKS_float_N] = {{FG_LINKS_float(SM_LINK_FN, f32)}, {FG_LINKS_float(SM_LINK_FN, f64)}};
static const FgStageFn sm_links_int[2][FG_LINKS_int_N] = {{FG_LINKS_int(SM_LINK_FN, u32)}, {FG_LINKS_int(SM_LINK_FN, u64)}};
static const FgStageFn sm_joins_float[2][FG_JOINS_float_N] = {{FG_JOINS_float(SM_JOIN_FN, f32)}, {FG_JOINS_float(SM_JOIN_FN, f64)}};
static const FgStageFn sm_joins_int[2][FG_JOINS_int_N] = {{FG_JOINS_int(SM_JOIN_FN, u32)}, {FG_JOINS_int(SM_JOIN_FN, u64)}};
/* The stages that a pair is made of; `how`: 0, 1 of floats, 2, 3 of integers, wide ones odd. */
static FgStageFn sm_link(int how, int k) { return how < 2 ? sm_links_float[how][k] : sm_links_int[how - 2][k]; }
static FgStageFn sm_join(int how, int k) { return how < 2 ? sm_joins_float[how][k] : sm_joins_int[how - 2][k]; }

static void sm_fill_table(void) {
    for (int t = 0; t < FG_NDTYPES; t++) for (int op = 0; op < FG_OP_COUNT; op++) for (int f = 0; f < FG_FORMS; f++) sm_add(fg_stages[t][op][f], SM_STAGE, t, op, f, 0, 0);
    for (int w = 0; w < 2; w++) {
        for (int a = 0; a < FG_LINKS_float_N; a++) {
            for (int b = 0; b < FG_LINKS_float_N; b++) sm_add(fg_pairs_float[w][a][b], SM_PAIR, w, a, b, 0, 0);
            for (int b = 0; b < FG_JOINS_float_N; b++) sm_add(fg_sides_float[w][a][b], SM_SIDE, w, a, b, 0, 0);
        }
        for (int a = 0; a < FG_LINKS_int_N; a++) {
            for (int b = 0; b < FG_LINKS_int_N; b++) sm_add(fg_pairs_int[w][a][b], SM_PAIR, 2 + w, a, b, 0, 0);
            for (int b = 0; b < FG_JOINS_int_N; b++) sm_add(fg_sides_int[w][a][b], SM_SIDE, 2 + w, a, b, 0, 0);
        }
        for (int side = 0; side < 3; side++) for (int y = 0; y < 2; y++) for (int z = 0; z < 2; z++) sm_add(fg_selects[w][side][y][z], SM_SELECTION, side, y, z, 0, 0);
        for (int one = 0; one < 2; one++) sm_add(fg_windows[w][one], SM_WINDOW, one, 0, 0, 0, 0);
        for (int how = 0; how < FG_HOW_N; how++) {
            for (int side = 0; side < 2; side++) for (int x = 0; x < FG_X_AT_N; x++) for (int z = 0; z < 2; z++) for (int v = 0; v < 2; v++)
                sm_add(fg_choices[w][how][side][x][z][v], SM_CHOICE, w, how, side, x, z << 1 | v);
            for (int how2 = 0; how2 < FG_HOW_N; how2++) for (int f = 0; f < 2; f++) sm_add(fg_ranges[w][how][how2][f], SM_RANGE, w, how, how2, f, 0);
        }
        for (int steps = 2; steps <= FG_STEPS_MOST; steps++) sm_add(fg_horners[w][steps], SM_HORNER, w, steps, 0, 0, 0);
        sm_add(fg_half_loads[w], SM_HALF_LOAD, w, 0, 0, 0, 0);
        sm_add(fg_half_stores[w], SM_HALF_STORE, w, 0, 0, 0, 0);
    }
    for (int s = 0; s < FG_NDTYPES; s++) {
        for (int t = 0; t < FG_NDTYPES; t++) sm_add(fg_strip_casts[s][t], SM_CAST, s, t, 0, 0, 0);
        for (int one = 0; one < 2; one++) sm_add(fg_narrow_loads[one][s], SM_NARROW, s, one, 0, 0, 0);
    }
    #if FG_BANKS
    for (int k = 0; k < FG_BANKS; k++) { sm_add(fg_keeps[k], SM_KEEP, k, 0, 0, 0, 0); sm_add(fg_takes[k], SM_TAKE, k, 0, 0, 0, 0); }
    #endif
    sm_add(stage_load, SM_LOAD, 0, 0, 0, 0, 0);
    sm_add(stage_store, SM_STORE, 0, 0, 0, 0, 0);
    for (int w = 0; w < 2; w++) for (int k = 0; k < FG_FOLD_KINDS; k++) for (int per = 0; per < 4; per++) sm_add(fg_folds[w][k][per], SM_FOLD_STAGE, w, k, per, 0, 0);
    for (int w = 0; w < 2; w++) for (int k = 0; k < 2; k++) sm_add(fg_masked_stores[w][k], SM_STORE_MASKED, w, k, 0, 0, 0);
    sm_add(stage_store_last, SM_STORE_LAST, 0, 0, 0, 0, 0);
    sm_add(stage_end, SM_END, 0, 0, 0, 0, 0);
    sm_add(stage_one_4, SM_SPREAD, 0, 0, 0, 0, 0); sm_add(stage_one_8, SM_SPREAD, 0, 0, 0, 0, 0);
    sm_add(stage_one_bool_4, SM_SPREAD_BOOL, 0, 0, 0, 0, 0); sm_add(stage_one_bool_8, SM_SPREAD_BOOL, 0, 0, 0, 0, 0);
    sm_add(stage_load_bool_4, SM_LOAD_BOOL, 0, 0, 0, 0, 0); sm_add(stage_load_bool_8, SM_LOAD_BOOL, 0, 0, 0, 0, 0);
    sm_add(stage_store_bool_4, SM_STORE_BOOL, 0, 0, 0, 0, 0); sm_add(stage_store_bool_8, SM_STORE_BOOL, 0, 0, 0, 0, 0);
}

/* ---- values and steps */

static int sm_value(SmProgram *m, int from, int mask, int32_t entry, int64_t bits) {
    for (int v = 0; v < m->n_values && from != SM_MADE; v++) {
        const SmValue *x = &m->values[v];
        if (x->from == from && x->entry == entry && x->bits == bits && x->mask == mask) return v;
    }
    if (m->n_values == SM_VALUES) { m->failed = 1; return 0; }
    m->values[m->n_values] = (SmValue){(uint8_t)from, (uint8_t)mask, (uint8_t)m->lane, entry, bits, 0, 0, 0};
    return m->n_values++;
}
/* A number that is known, by its bits. */
static int sm_number(SmProgram *m, int64_t bits) { return sm_value(m, SM_NUMBER, 0, -1, bits); }
static int sm_is_mask(const SmProgram *m, int v) { return v >= 0 && m->values[v].mask; }
/* A step; the value that it makes, or that the same one has made before. */
static int sm_step(SmProgram *m, SmStep s, int mask) {
    const int puts = s.what >= SM_PUT, gets = s.what >= SM_GET_BOOL && !puts;
    for (int k = 0; k < m->n_steps && !puts && !gets; k++) {
        const SmStep *x = &m->steps[k];
        if (x->what == s.what && x->type == s.type && x->op == s.op && x->form == s.form && !memcmp(x->s, s.s, sizeof s.s) && x->entry == s.entry) return x->d;
    }
    if (m->n_steps == SM_STEPS) { m->failed = 1; return 0; }
    s.d = (int16_t)(puts ? -1 : sm_value(m, SM_MADE, mask, -1, 0));
    m->steps[m->n_steps++] = s;
    return s.d;
}
/* An operand of a stage: a tile's vectors, a vector of scratch, or (one) a number. */
static int sm_operand(SmProgram *m, int32_t entry, int moves, int one) {
    if (entry < 0) { m->failed = 1; return 0; }
    if (entry >= m->slots) {
        int v = entry - m->slots < SM_VALUES ? m->scratch[entry - m->slots] : -1;
        if (v < 0) m->failed = 1;
        return v < 0 ? 0 : v;
    }
    if (one) return sm_value(m, SM_ONE, 0, entry, 0);
    if (!moves) { m->failed = 1; return 0; }
    return m->tiles[entry] >= 0 ? m->tiles[entry] : sm_value(m, SM_MEMORY, 0, entry, 0);
}
static int sm_compare(SmProgram *m, int type, int op, int x, int y) {
    return sm_step(m, (SmStep){SM_COMPARE, (uint8_t)type, (uint8_t)op, 0, 0, {(int16_t)x, (int16_t)y, -1}, 0}, 1);
}
/* x or y by mask c */
static int sm_pick(SmProgram *m, int c, int x, int y) {
    if (!sm_is_mask(m, c) || sm_is_mask(m, x) != sm_is_mask(m, y)) { m->failed = 1; return 0; }
    return sm_step(m, (SmStep){SM_PICK, 0, 0, 0, 0, {(int16_t)c, (int16_t)x, (int16_t)y}, 0}, sm_is_mask(m, x));
}
/* x op y, or of one operand (y < 0) */
static int sm_do(SmProgram *m, int type, int op, int form, int x, int y) {
    int known = form == FG_FORM_KNOWN || form == FG_FORM_ELSE ? form : 0;
    if (x < 0) { m->failed = 1; return 0; }
    int logic = op == FG_OP_and || op == FG_OP_or || op == FG_OP_xor || op == FG_OP_not || op == FG_OP_eq || op == FG_OP_ne;
    if (sm_is_mask(m, x) || sm_is_mask(m, y)) {
        if (!logic || (y >= 0 && sm_is_mask(m, x) != sm_is_mask(m, y))) { m->failed = 1; return 0; }
        return sm_step(m, (SmStep){SM_LOGIC, 0, (uint8_t)op, 0, 0, {(int16_t)x, (int16_t)y, -1}, 0}, 1);
    }
    const int real = fg_vm_is_real(type), wide = fg_itemsize(type) == 8, bits = wide ? FG_U64 : FG_U32;
    const int64_t sign = wide ? INT64_MIN : (int64_t)0x80000000, one = wide ? 0x3ff0000000000000 : 0x3f800000, least = wide ? (int64_t)0xbff0000000000000u : 0xbf800000;
    switch (op) {                       /* as others that do the same */
    case FG_OP_neg: return real ? sm_do(m, bits, FG_OP_xor, 0, x, sm_number(m, sign)) : sm_do(m, type, FG_OP_sub, 0, sm_number(m, 0), x);
    case FG_OP_abs:
        if (!real) return sm_do(m, type, FG_OP_max, 0, x, sm_do(m, type, FG_OP_sub, 0, sm_number(m, 0), x));
        return sm_do(m, bits, FG_OP_and, 0, x, sm_number(m, wide ? INT64_MAX : INT32_MAX));
    case FG_OP_not: return sm_do(m, bits, FG_OP_xor, 0, x, sm_number(m, -1));
    case FG_OP_square: return sm_do(m, type, FG_OP_mul, 0, x, x);
    case FG_OP_recip: return sm_do(m, type, FG_OP_div, 0, sm_number(m, one), x);
    case FG_OP_copysign:
        x = sm_do(m, bits, FG_OP_and, 0, x, sm_number(m, wide ? INT64_MAX : INT32_MAX));
        return sm_do(m, bits, FG_OP_or, 0, x, sm_do(m, bits, FG_OP_and, 0, y, sm_number(m, sign)));
    case FG_OP_is_finite:
        return sm_compare(m, type, FG_OP_lt, sm_do(m, type, FG_OP_abs, 0, x, -1), sm_number(m, wide ? 0x7ff0000000000000 : 0x7f800000));
    case FG_OP_sign: {
        int zero = sm_number(m, 0), low = sm_pick(m, sm_compare(m, type, FG_OP_lt, x, zero), sm_number(m, least), x);
        return sm_pick(m, sm_compare(m, type, FG_OP_lt, zero, x), sm_number(m, one), low);
    }
    case FG_OP_rsqrt:
        #ifdef __AVX512F__
        if (type == FG_F64)
        #endif
        return sm_do(m, type, FG_OP_div, 0, sm_number(m, one), sm_do(m, type, FG_OP_sqrt, 0, x, -1));
        #ifdef __AVX512F__
        y = sm_number(m, 0x3f000000);
        return sm_step(m, (SmStep){SM_DO, FG_F32, FG_OP_rsqrt, 0, 0, {(int16_t)x, (int16_t)sm_number(m, 0x3f800000), (int16_t)sm_number(m, 0x3ec00000)}, y}, 0);
        #endif
    case FG_OP_max: case FG_OP_min:
        if (form == FG_FORM_ZERO) return sm_do(m, type, FG_OP_add, 0, sm_do(m, type, op, FG_FORM_KNOWN, x, y), y);
        break;
    case FG_OP_round_bf16: return sm_step(m, (SmStep){SM_DO, FG_F32, FG_OP_round_bf16, 0, 0, {(int16_t)x, (int16_t)sm_number(m, 0x7fff), -1}, 0}, 0);
    }
    if (fg_vm_is_comparison(op)) return sm_compare(m, type, op, x, y);
    return sm_step(m, (SmStep){SM_DO, (uint8_t)type, (uint8_t)op, (uint8_t)known, 0, {(int16_t)x, (int16_t)y, -1}, 0}, 0);
}
/* x / y, of int32 by a number that is known and not 0: as fg_quotients, whose upper half of a product, and x, is one step. AVX-512 leaves it to its stage. */
static int sm_quotient(SmProgram *m, int x, int64_t y) {
#if defined(__AVX512F__) || !defined(__AVX2__)
    (void)x; (void)y;
    m->failed = 1;
    return 0;
#else
    if (x < 0 || sm_is_mask(m, x)) { m->failed = 1; return 0; }
    const FgDivisor by = fg_divisor_of((int32_t)y);
    const int inverse = sm_number(m, (uint32_t)_mm256_extract_epi32(by.inverse, 0)), shift = sm_number(m, _mm_cvtsi128_si32(by.shift));
    const int high = sm_step(m, (SmStep){SM_DO, FG_I32, FG_OP_div, 0, 0, {(int16_t)x, (int16_t)inverse, -1}, 0}, 0);
    const int whole = sm_do(m, FG_I32, FG_OP_shr_arith, 0, high, shift), sign = sm_do(m, FG_I32, FG_OP_shr_arith, 0, x, sm_number(m, 31));
    return y < 0 ? sm_do(m, FG_I32, FG_OP_sub, 0, sign, whole) : sm_do(m, FG_I32, FG_OP_sub, 0, whole, sign);
#endif
}
/* The stage `fn` of one operation, whose operand from elsewhere is at entry; x: what it takes for the strip's value. */
static int sm_stage(SmProgram *m, FgStageFn fn, int x, int32_t entry, int moves) {
    const SmKind *k = sm_place_of(fn);
    if (k->kind != SM_STAGE) { m->failed = 1; return 0; }
    int op = k->b, form = k->c, arity = fg_vm_info[op].arity;
    if (arity == 1) return sm_do(m, k->a, op, 0, x, -1);
    int turned = form == FG_FORM_RV || form == FG_FORM_R1 || form == FG_FORM_RBANK0 || form == FG_FORM_RBANK1;
    int bank = form == FG_FORM_BANK0 || form == FG_FORM_RBANK0 ? 0 : form == FG_FORM_BANK1 || form == FG_FORM_RBANK1 ? 1 : -1;
    int one = form == FG_FORM_ONE || form == FG_FORM_R1 || form == FG_FORM_KNOWN || form == FG_FORM_ZERO || form == FG_FORM_ELSE;
    if (k->a == FG_I32 && op == FG_OP_div) return sm_quotient(m, x, (int64_t)fg_vm_const_value(m->p, entry));
    int y = bank >= 0 ? m->banks[bank] : sm_operand(m, entry, moves, one);
    if (y < 0) { m->failed = 1; return 0; }
    return turned ? sm_do(m, k->a, op, form, y, x) : sm_do(m, k->a, op, form, x, y);
}
static int sm_how(int how) {
    static const uint8_t op[] = {[FG_HOW_LT] = FG_OP_lt, [FG_HOW_LE] = FG_OP_le, [FG_HOW_EQ] = FG_OP_eq, [FG_HOW_NE] = FG_OP_ne, [FG_HOW_GT] = FG_OP_gt, [FG_HOW_GE] = FG_OP_ge};
    return op[how];
}

static void sm_read_stage(SmProgram *m, const FgStage *s) {
    const SmKind *k = sm_place_of(s->fn);
    const int wide = k->a, real = wide ? FG_F64 : FG_F32;
    int x, y, u, v, c;
    switch (k->fn ? k->kind : SM_NONE) {
    case SM_STAGE: m->held = sm_stage(m, s->fn, m->held, s->a, s->move_a); return;
    case SM_PAIR:
        m->held = sm_stage(m, sm_link(k->a, k->b), m->held, s->a, s->move_a);
        m->held = sm_stage(m, sm_link(k->a, k->c), m->held, s->b, s->move_b);
        return;
    case SM_SIDE:
        x = sm_stage(m, sm_link(k->a, k->b), sm_operand(m, s->a, s->move_a, 0), s->b, s->move_b);
        {
            const SmKind *j = sm_place_of(sm_join(k->a, k->c));
            if (j->kind != SM_STAGE) { m->failed = 1; return; }
            m->held = j->c == FG_FORM_RV ? sm_do(m, j->a, j->b, 0, x, m->held) : sm_do(m, j->a, j->b, 0, m->held, x);
        }
        return;
    case SM_LOAD: m->held = sm_operand(m, s->a, s->move_a, 0); return;
    case SM_STORE_MASKED:
        if (m->held < 0 || s->a >= m->slots || !s->move_a || sm_is_mask(m, m->held)) { m->failed = 1; return; }
        sm_step(m, (SmStep){SM_PUT, 0, 1, 0, 0, {(int16_t)m->held, -1, -1}, s->a}, 0);
        m->masks = s->b;
        return;
    case SM_STORE: case SM_STORE_LAST:
        if (m->held < 0) { m->failed = 1; return; }
        if (s->a >= m->slots) {
            if (s->a - m->slots >= SM_VALUES) { m->failed = 1; return; }
            m->scratch[s->a - m->slots] = (int16_t)m->held;
            return;
        }
        if (!s->move_a || sm_is_mask(m, m->held)) { m->failed = 1; return; }
        sm_step(m, (SmStep){SM_PUT, 0, 0, 0, 0, {(int16_t)m->held, -1, -1}, s->a}, 0);
        m->tiles[s->a] = (int16_t)m->held;
        return;
    case SM_END: return;
    case SM_KEEP: m->banks[k->a] = m->held; return;
    case SM_TAKE: m->held = m->banks[k->a]; return;
    case SM_SPREAD: m->held = sm_operand(m, s->a, 0, 1); return;
    case SM_LOAD_BOOL:
        if (s->a >= m->slots || !s->move_a) { m->failed = 1; return; }
        m->held = sm_step(m, (SmStep){SM_GET_BOOL, 0, 0, 0, 0, {-1, -1, -1}, s->a}, 1);
        return;
    case SM_STORE_BOOL:
        if (s->a >= m->slots || !s->move_a || !sm_is_mask(m, m->held)) { m->failed = 1; return; }
        sm_step(m, (SmStep){SM_PUT_BOOL, 0, 0, 0, 0, {(int16_t)m->held, (int16_t)sm_number(m, 0x0101010101010101), -1}, s->a}, 0);
        return;
    case SM_NARROW:
        if (k->b || s->a >= m->slots || !s->move_a) { m->failed = 1; return; }
        m->held = sm_step(m, (SmStep){SM_GET_NARROW, k->a, 0, 0, 0, {-1, -1, -1}, s->a}, 0);
        return;
    case SM_HALF_LOAD:
        if (s->a >= m->slots || !s->move_a) { m->failed = 1; return; }
        m->held = sm_step(m, (SmStep){SM_GET_HALF, 0, k->a, 0, 0, {-1, -1, -1}, s->a}, 0);
        return;
    case SM_HALF_STORE:
        if (s->a >= m->slots || !s->move_a || m->held < 0 || sm_is_mask(m, m->held)) { m->failed = 1; return; }
        sm_step(m, (SmStep){SM_PUT_HALF, 0, k->a, 0, 0, {(int16_t)m->held, (int16_t)(k->a ? sm_number(m, 0x7fff) : -1), -1}, s->a}, 0);
        return;
    case SM_FOLD_STAGE: {
        static const uint8_t by[FG_FOLD_KINDS] = {[FG_FOLD_sum_plain] = SM_BY_SUM, [FG_FOLD_sum_abs] = SM_BY_SUM, [FG_FOLD_sum_square] = SM_BY_SUM,
            [FG_FOLD_sum_mul] = SM_BY_SUM, [FG_FOLD_max_plain] = SM_BY_MAX, [FG_FOLD_min_plain] = SM_BY_MIN, [FG_FOLD_size_abs] = SM_BY_SIZE};
        x = m->held;
        if (k->b == FG_FOLD_sum_abs || k->b == FG_FOLD_size_abs) x = sm_do(m, real, FG_OP_abs, 0, x, -1);
        else if (k->b == FG_FOLD_sum_square) x = sm_do(m, real, FG_OP_mul, 0, x, x);
        else if (k->b == FG_FOLD_sum_mul) x = sm_do(m, real, FG_OP_mul, 0, x, sm_operand(m, s->a, s->move_a, 0));
        if (k->c == FG_FOLD_SOME_OF) memcpy(m->lanes, (const char *)s + offsetof(FgStage, c), sizeof m->lanes);
        y = -1;
        if (k->c == FG_FOLD_SOME_OF) {
            const int64_t one[] = {0x80000000, 0xff800000, 0x7f800000, 0}, two[] = {INT64_MIN, (int64_t)0xfff0000000000000u, 0x7ff0000000000000, 0};
            y = sm_number(m, wide ? two[by[k->b]] : one[by[k->b]]);
        }
        m->folds++;
        sm_step(m, (SmStep){SM_FOLD, (uint8_t)real, by[k->b], k->c == FG_FOLD_SOME_OF ? 0 : (uint8_t)(8 >> k->c), 0, {(int16_t)x, (int16_t)y, -1}, s->b}, 0);
        return;
    }
    case SM_SELECTION:
        x = k->a == FG_SIDE_M ? m->held : sm_operand(m, s->a, s->move_a, 0);
        y = sm_operand(m, s->b, s->move_b, k->c);
        u = k->a == FG_SIDE_M ? sm_operand(m, s->a, s->move_a, k->b) : k->a == FG_SIDE_U ? m->held : y;
        v = k->a == FG_SIDE_V ? m->held : y;
        m->held = m->failed ? 0 : sm_pick(m, x, u, v);
        return;
    case SM_CHOICE:
        x = k->d == FG_X_AT_MEMORY ? sm_operand(m, s->a, s->move_a, 0) : k->d == FG_X_AT_STRIP ? m->held : m->banks[k->d - FG_X_AT_BANK0];
        y = sm_operand(m, s->b, s->move_b, k->e >> 1);
        v = sm_operand(m, s->c, s->move_c, k->e & 1);
        if (x < 0 || m->held < 0 || m->failed) { m->failed = 1; return; }
        c = sm_compare(m, real, sm_how(k->b), x, y);
        m->held = k->c ? sm_pick(m, c, v, m->held) : sm_pick(m, c, m->held, v);
        return;
    case SM_RANGE:
        x = m->held;
        y = sm_operand(m, s->a, 0, 1); u = sm_operand(m, s->b, 0, 1);
        c = sm_compare(m, real, sm_how(k->c), x, sm_operand(m, s->c, 0, 1));
        v = sm_pick(m, c, sm_operand(m, s->d, 0, 1), sm_operand(m, s->e, 0, 1));
        c = sm_compare(m, real, sm_how(k->b), x, y);
        m->held = k->d ? sm_pick(m, c, v, u) : sm_pick(m, c, u, v);
        return;
    case SM_HORNER: {
        const int32_t at[5] = {s->b, s->c, s->d, s->e, s->f};
        x = sm_operand(m, s->a, s->move_a, 0);
        for (int j = 0; j < k->b && !m->failed; j++)
            m->held = sm_do(m, real, FG_OP_add, 0, sm_do(m, real, FG_OP_mul, 0, m->held, x), sm_operand(m, at[j], 0, 1));
        return;
    }
    case SM_WINDOW:
        y = sm_operand(m, s->b, s->move_b, k->a);
        if (m->failed || sm_is_mask(m, y) || sm_is_mask(m, m->held)) { m->failed = 1; return; }
        m->held = sm_step(m, (SmStep){SM_BOX, 0, 0, 0, 0, {(int16_t)m->held, (int16_t)y, -1}, s->a}, 0);
        return;
    case SM_CAST:
        if (sm_is_mask(m, m->held)) {
            int64_t one = k->b == FG_F32 ? 0x3f800000 : k->b == FG_F64 ? 0x3ff0000000000000 : 1;
            m->held = sm_step(m, (SmStep){SM_NUMBERS, 0, 0, 0, 0, {(int16_t)m->held, (int16_t)sm_number(m, one), -1}, 0}, 0);
        } else if (s->fn == stage_cast_i32_i32) return;
        else if (s->fn == stage_cast_f32_i32)
            m->held = sm_step(m, (SmStep){SM_CONVERT, FG_F32, 0, 0, 0, {(int16_t)m->held, (int16_t)sm_number(m, 0x4f000000), (int16_t)sm_number(m, INT32_MAX)}, 0}, 0);
        else if (s->fn == stage_cast_i32_f32 || s->fn == stage_cast_i64_f64)
            m->held = sm_step(m, (SmStep){SM_CONVERT, m->lane == 8 ? FG_I64 : FG_I32, 0, 0, 0, {(int16_t)m->held, -1, -1}, 0}, 0);
        else m->failed = 1;
        return;
    }
    m->failed = 1;
}

/* The steps of a strip's n stages from `first` on; 0 if there is something that has none. */
static int sm_read(SmProgram *m, const FgVmPlan *p, const FgVmStrip *strip, const int first, const int n) {
    int16_t scratch[SM_VALUES];
    m->p = p;
    m->strip = strip;
    m->lane = strip->lane;
    m->slots = p->n_regs + p->n_boxes;
    m->held = m->banks[0] = m->banks[1] = -1;
    m->scratch = scratch;
    m->tiles = (int16_t *)malloc((p->n_regs + 1) * sizeof(int16_t));
    if (!m->tiles) return 0;
    for (int k = 0; k < SM_VALUES; k++) scratch[k] = -1;
    for (int k = 0; k < p->n_regs; k++) m->tiles[k] = -1;
    for (int k = 0; k < n && !m->failed; k++) {
        sm_read_stage(m, &p->stages[first + k]);
        if (m->held < 0 && !m->failed && k + 1 < n) m->failed = 1;
    }
    free(m->tiles);
    for (int v = 0; v < m->n_values; v++) m->values[v].first = m->values[v].last = -1;
    for (int k = 0; k < m->n_steps; k++) {
        const SmStep *s = &m->steps[k];
        for (int j = 0; j < 3; j++) {
            if (s->s[j] < 0) continue;
            SmValue *v = &m->values[s->s[j]];
            if (v->first < 0) v->first = k;
            v->last = k;
            v->reads++;
        }
        if (s->what == SM_DO && s->op == FG_OP_rsqrt) { m->values[s->entry].first = k; m->values[s->entry].reads++; }
        if (s->d >= 0) m->values[s->d].first = m->values[s->d].last = k;
    }
    return !m->failed && m->n_steps;
}
#endif
