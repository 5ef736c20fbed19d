/* Flat code of one instruction: places in memory, arithmetic, copies. See flat.h. */
#ifndef FG_FLAT_EMIT_H
#define FG_FLAT_EMIT_H
#include "flat_ops.h"

enum { FG_FLAT_FEW = 64, FG_FLAT_ELEMENTS = 256, FG_FLAT_PIECES = 128, FG_FLAT_BYTES = 4096, FG_FLAT_CARRY = 512, FG_FLAT_LONG = 2048, FG_FLAT_CODE = 4096, FG_FLAT_VECTORS = FG_MACHINE_CODE == 2 ? 2048 : 512, FG_FLAT_INTEGERS_BYTES = 128, FG_FLAT_MEMORY = 1 << 17 };
/* From FG_FLAT_VECTORS bytes on a group's operations each go over all of it, up to FG_FLAT_LONG: with more, what one stores and the next loads
 * makes the loop as slow as the VM's stages, or slower.  Machine code pays for no dispatch: small matrices stay inline, as do their folds. */
/* Integers: from three vectors on their single operations cost more than calls. */

/* kernels that need no call */
static FgRun fg_flat_vm, fg_flat_copies, fg_flat_concatenate, fg_flat_pad, fg_flat_gather, fg_flat_scatter, fg_flat_slice, fg_flat_update, fg_flat_dot, fg_flat_argreduce;
/* How a product's kernel adds: FG_SUMS_* of matmul_sums.h. */
enum { FG_DOT_OTHER, FG_DOT_CHAINS, FG_DOT_ROWS, FG_DOT_ROUNDED };
static int (*fg_flat_summed)(const FgInst *inst);
static FgFlat fg_flat_none;      /* of loops that cannot be flat */

/* A place for one number, or for several: padded to whole vectors. */
static char *fg_flat_room(FgFlat *f, int64_t n, int64_t item) {
    int64_t size = n == 1 && item <= 8 ? 8 : (n * item + 63) / 64 * 64, at = size == 8 ? f->used : (f->used + 63) / 64 * 64;
    if (at + size > FG_FLAT_MEMORY) { f->failed = 1; return f->memory; }
    f->used = at + size;
    for (int64_t k = at; size > 8 && k < at + size; k += 64) f->padded[k / 64] = 1;
    return f->memory + at;
}
/* Take back what has been given since `used`, where single numbers may lie then. */
static void fg_flat_give_back(FgFlat *f, int64_t used) {
    if (f->failed) return;
    for (int64_t k = (used + 63) / 64; k < (f->used + 63) / 64; k++) f->padded[k] = f->between[k] = 0;
    f->used = used;
}
/* A place for what operations of a group hand to each other: machine code need not write it. */
static char *fg_flat_room_between(FgFlat *f, int64_t n, int64_t item) {
    char *room = fg_flat_room(f, n, item);
    for (int64_t k = 0; !f->failed && !(n == 1 && item <= 8) && k < n * item; k += 64) f->between[(room - f->memory + k) / 64] = k ? 2 : 1;
    return room;
}
static char *fg_flat_room_of(FgFlat *f, const FgTensor *t) { return fg_flat_room(f, t->size, fg_itemsize(t->dtype)); }

/* A large operand of the outermost loop stays where it is, which is elsewhere at every run: while code is emitted it has an address that
 * no other value can have, and pointers to it are set before a run. */
static char *fg_flat_stand_in(int operand) { return (char *)(uintptr_t)((1ull << 62) + ((uint64_t)operand << 40)); }
static void fg_flat_moves(FgFlat *f, char **at) {
    uint64_t from = (uint64_t)(uintptr_t)*at - (1ull << 62);
    if ((uint64_t)(uintptr_t)*at < 1ull << 62 || from >> 40 > 1 << 16) return;
    if (f->n_moving == f->moving_cap) {
        int cap = f->moving_cap ? 2 * f->moving_cap : 16;
        FgFlatMoving *more = (FgFlatMoving *)realloc(f->moving, cap * sizeof(FgFlatMoving));
        if (!more) { f->failed = 1; return; }
        f->moving = more;
        f->moving_cap = cap;
    }
    FgFlatMoving m = {at, (int)(from >> 40), (int64_t)(from & ((1ull << 40) - 1))};
    f->moving[f->n_moving++] = m;
}

static FgFlatOp *fg_flat_op(FgFlat *f, int op, char *d, const char *a, const char *b, const char *c, int64_t n, void *fn) {
    if (f->n_ops == f->cap) {
        int cap = f->cap ? 2 * f->cap : 64;
        FgFlatOp *more = cap > FG_FLAT_CODE ? NULL : (FgFlatOp *)realloc(f->ops, cap * sizeof(FgFlatOp));
        if (!more) { f->failed = 1; f->n_ops = 0; if (!f->cap) { static FgFlatOp lost[2]; return lost; } }
        else { f->ops = more; f->cap = cap; }
    }
    FgFlatOp *o = &f->ops[f->n_ops++];
    o->label = (const void *)(intptr_t)op; o->d = d; o->a = a; o->b = b; o->c = c; o->n = n; o->fn = fn; o->g = NULL;
    return o;
}

/* The bytes of the largest operand of a loop that is copied to the code's memory. */
static int64_t fg_flat_most(const FgFlat *f) { return f->machine ? FG_FLAT_BYTES : FG_FLAT_CARRY; }

/* True for a place in the code's own memory of which up to 64 bytes may be read and written. */
static int fg_flat_padded(const FgFlat *f, const char *p) {
    return p >= f->memory && p < f->memory + FG_FLAT_MEMORY && ((p - f->memory) & 63) == 0 && f->padded[(p - f->memory) / 64];
}

/* True for a place of which 64 bytes may be read: by machine code anywhere in the code's memory. */
static int fg_flat_readable(const FgFlat *f, const char *p) {
    return f->machine ? p >= f->memory && p + 64 <= f->memory + FG_FLAT_MEMORY : fg_flat_padded(f, p);
}

static void fg_flat_copy(FgFlat *f, char *d, const char *a, int64_t bytes) {
    int padded = bytes <= 64 && fg_flat_padded(f, d) && fg_flat_padded(f, a);
    if (d == a || bytes == 0) return;
    fg_flat_op(f, bytes == 4 ? FLAT_copy4 : bytes == 8 ? FLAT_copy8 : bytes == 1 ? FLAT_copy1 : padded ? FLAT_copy64 :
               bytes >= 32 && bytes <= 64 ? FLAT_copy32 : bytes >= 16 && bytes <= 32 ? FLAT_copy16 : FLAT_copy, d, a, 0, 0, bytes, 0);
}

static inline int64_t fg_slot_bytes(const FgTensor *t) { return t->size * fg_itemsize(t->dtype); }

/* Where the n elements of an operand's walk are. */
static char *fg_flat_places(FgFlat *f, const FgVmPlan *p, const int64_t *strides) {
    int32_t *at = (int32_t *)fg_flat_room(f, p->n, 4);
    int64_t coord[FG_MAXDIM + 1] = {0};
    for (int64_t i = 0; i < p->n && !f->failed; i++) {
        fg_vm_coords(p->ndim, p->shape, i, coord);
        at[i] = (int32_t)fg_vm_offset(p->ndim, coord, strides);
    }
    return (char *)at;
}

/* 16 numbers of four bytes, each at[i] bytes away from `from`, to a whole vector: permuted out of the vectors of the code's memory they lie in,
 * where those are few, or one by one. */
static void fg_flat_vector(FgFlat *f, char *d, const char *from, const int32_t *at, int n) {
    enum { FEW = 4 };
    int64_t lo = at[0], hi = at[0], inside, base = 0;
    FgFlatWindow w[FEW];
    int windows = 0;
    for (int i = 1; i < n; i++) { if (at[i] < lo) lo = at[i]; if (at[i] > hi) hi = at[i]; }
    inside = from + lo >= f->memory && from + hi + 4 <= f->memory + FG_FLAT_MEMORY;
    if (inside) base = (from + lo - f->memory) / 64 * 64;
    for (int i = 0; i < n && inside && FG_FLAT_INLINES(f); i++) {
        int64_t place = from + at[i] - f->memory - base;
        int k = 0;
        while (k < windows && w[k].offset != place / 64 * 64) k++;
        if (k == FEW || place % 4) { inside = 0; break; }
        if (k == windows) { windows++; memset(&w[k], 0, sizeof w[k]); w[k].offset = place / 64 * 64; }
        w[k].at[i] = (int32_t)(place % 64 / 4);
        w[k].mask |= 1 << i;
    }
    if (inside && windows) {
        char *room = fg_flat_room(f, windows, sizeof(FgFlatWindow));
        if (f->failed) return;
        memcpy(room, w, windows * sizeof(FgFlatWindow));
        fg_flat_op(f, FLAT_permute, d, f->memory + base, room, 0, windows, 0)->g = (const char *)(intptr_t)(w[windows - 1].offset + 64);
        for (int k = 0; k < windows; k++)
            if (w[k].offset + 64 > (intptr_t)f->ops[f->n_ops - 1].g) f->ops[f->n_ops - 1].g = (const char *)(intptr_t)(w[k].offset + 64);
        return;
    }
    int32_t *room = (int32_t *)fg_flat_room(f, 16, 4);
    if (f->failed) return;
    for (int i = 0; i < 16; i++) room[i] = (int32_t)(at[i < n ? i : 0] - lo);
    fg_flat_op(f, FLAT_lanes, d, from + lo, (char *)room, 0, n, 0)->g = (const char *)(intptr_t)(hi - lo + 4);
}

#if FG_MACHINE_CODE == 1
#include "flat_runs.h"
#else
/* Bytes, each at[i] away from `from`, to a whole vector out of the vectors of the code's memory they lie in; 0 where those are many. d: NULL to ask only. */
static int fg_flat_pieces_to(FgFlat *f, char *d, const char *from, const int32_t *places, int64_t n, int64_t item) {
    enum { FEW = 4 };
    FgFlatPieces w[FEW];
    int windows = 0;
    int64_t base = -1, reach = 0;
    memset(w, 0, sizeof w);
    for (int64_t i = 0; i < n; i++) {
        const char *p = from + places[i] * item;
        if (p < f->memory || p + 64 > f->memory + FG_FLAT_MEMORY) return 0;
        int64_t at = p - f->memory;
        if (base < 0 || at / 64 * 64 < base) {
            int64_t less = base < 0 ? 0 : base - at / 64 * 64;
            for (int k = 0; k < windows; k++) w[k].offset += less;
            base = at / 64 * 64;
        }
        for (int64_t j = 0; j < item; j++) {
            int k = 0;
            while (k < windows && base + w[k].offset != (at + j) / 64 * 64) k++;
            if (k == FEW) return 0;
            if (k == windows) w[windows++].offset = (at + j) / 64 * 64 - base;
            w[k].at[i * item + j] = (uint8_t)((at + j) % 64);
            w[k].mask |= 1ull << (i * item + j);
        }
    }
    if (!d) return 1;
    char *room = fg_flat_room(f, windows, sizeof(FgFlatPieces));
    if (f->failed) return 1;
    memcpy(room, w, windows * sizeof(FgFlatPieces));
    for (int k = 0; k < windows; k++) if (w[k].offset + 64 > reach) reach = w[k].offset + 64;
    fg_flat_op(f, FLAT_bytes, d, f->memory + base, room, 0, windows, 0)->g = (const char *)(intptr_t)reach;
    return 1;
}
#endif
/* 1 if n items of one or two bytes can be collected so, a vector at a time. */
static int fg_flat_by_pieces(FgFlat *f, const char *from, const int32_t *places, int64_t n, int64_t item) {
    if (!f->machine || !FG_FLAT_COLLECTS_BYTES || item > 2 || n * item > FG_FLAT_LONG || f->n_ops + n * item / 64 > FG_FLAT_CODE / 2) return 0;
    if (f->used + n * item / 64 * 4 * (int64_t)sizeof(FgFlatPieces) > FG_FLAT_MEMORY / 2) return 0;           /* the code has other tables and values too */
    for (int64_t i = 0, per = 64 / item; i < n; i += per) if (!fg_flat_pieces_to(f, NULL, from, places + i, n - i < per ? n - i : per, item)) return 0;
    return 1;
}

/* n items, places[i] items away from `from`, to d: whole vectors where that is padded. */
static void fg_flat_collect(FgFlat *f, char *d, const char *from, const int32_t *places, int64_t n, int64_t item) {
    int whole = (item == 4 || item == 8) && n * item <= FG_FLAT_VECTORS && f->n_ops + n < FG_FLAT_CODE / 2;
    for (int64_t i = 0; i < n * item && whole; i += 64) whole = fg_flat_padded(f, d + i);
    for (int64_t i = 0; i < n && whole; i++) whole = places[i] > -(1 << 27) && places[i] < 1 << 27;
    if (f->failed) return;
    if (item <= 2 && fg_flat_by_pieces(f, from, places, n, item)) {
        int padded = 1;
        for (int64_t i = 0; i < n * item; i += 64) padded &= fg_flat_padded(f, d + i);
        for (int64_t i = 0, per = 64 / item; i < n && padded; i += per) fg_flat_pieces_to(f, d + i * item, from, places + i, n - i < per ? n - i : per, item);
        if (padded) return;
    }
    if (!whole) {
        int32_t *room = (int32_t *)fg_flat_room(f, n, 4);
        if (f->failed) return;
        memcpy(room, places, n * 4);
        fg_flat_op(f, FLAT_gather, d, from, (char *)room, 0, n, 0)->m = item;
        return;
    }
    for (int64_t i = 0; i < n * item / 4; i += 16) {
        int32_t at[16];
        int lanes = n * item / 4 - i < 16 ? (int)(n * item / 4 - i) : 16;
        for (int k = 0; k < lanes; k++) at[k] = (int32_t)(places[(i + k) * 4 / item] * item + (i + k) * 4 % item);
        fg_flat_vector(f, d + 4 * i, from, at, lanes);
    }
}

/* ---- arithmetic */

enum { FG_FLAT_INTS = FG_NDTYPES };      /* the kind of vectors of integers of four bytes */
/* The first number of an inline op of a kind (FG_F32, FG_F64, FG_I32, FG_I64: single numbers; FG_C64, FG_C128, FG_F16: vectors of floats, doubles,
 * bools), or -1;
 * *forms: 2 and 1 operands with forms for the last result, 0 without. */
static int fg_flat_inline(int op, int kind, int *forms) {
    enum { FG_FLAT_f32 = FG_F32, FG_FLAT_f64 = FG_F64, FG_FLAT_i32 = FG_I32, FG_FLAT_b1 = FG_BOOL, FG_FLAT_v32 = FG_C64, FG_FLAT_v64 = FG_C128,
        FG_FLAT_b16 = FG_F16, FG_FLAT_w32 = FG_FLAT_INTS, FG_FLAT_i64 = FG_I64, FG_FLAT_i8 = FG_I8, FG_FLAT_u8 = FG_U8, FG_FLAT_i16 = FG_I16, FG_FLAT_u16 = FG_U16 };
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t##_mm;
    *forms = 2;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t##_m;
    *forms = 1;
    FG_FLAT_UN(M)
    #undef M
    #define M(name, t, ...) if (op == FG_OP_##name && kind == FG_FLAT_##t) return FLAT_##name##_##t;
    *forms = 0;
    FG_FLAT_COMPARE(M)
    FG_FLAT_VECTOR_COMPARE(M)
    FG_FLAT_BYTES(M)
    FG_FLAT_NARROW(M) FG_FLAT_NARROW_COMPARE(M)
    #undef M
    return -1;
}

/* The register that an op leaves its result in, or -1. */
static int fg_flat_register(int op) {
    enum { FG_FLAT_accf, FG_FLAT_accd, FG_FLAT_accv, FG_FLAT_accw, FG_FLAT_acci, FG_FLAT_accl };
    if (op < FG_CHAINS) return op / FG_CHAIN;
    if (op == FLAT_pack || op == FLAT_lanes || op == FLAT_permute || op == FLAT_dot || op == FLAT_splat4) return FG_FLAT_accv;
    if (op == FLAT_choose || op == FLAT_widen_bf16 || op == FLAT_widen_f16) return FG_FLAT_accv;
    if (op == FLAT_widen1_bf16 || op == FLAT_widen1_f16) return FG_FLAT_accf;
    if (op >= FLAT_permute1 && op <= FLAT_argminima4) return FG_FLAT_accv;
    if (op == FLAT_argmax || op == FLAT_argmin) return FG_FLAT_acci;
    if (op == FLAT_dot1) return FG_FLAT_accf;
    if (op == FLAT_long_dot1) return FG_FLAT_accd;
    if (op == FLAT_long_dot || op == FLAT_long_pack) return FG_FLAT_accw;
    if (op >= FLAT_take4_f32 && op <= FLAT_take4_sum_i32) return (op - FLAT_take4_f32) % 2 ? FG_FLAT_acci : FG_FLAT_accf;
    if (op >= FLAT_hold_f32 && op <= FLAT_hold_i64) return op - FLAT_hold_f32;
    #define M(name, t, expr, T, s, S, acc) if (op == FLAT_where_##name##_##t##_##s) return FG_FLAT_##acc;
    FG_FLAT_WHERE_ONE(M)
    #undef M
    if (op == FLAT_splat8 || op == FLAT_select_v64 || (op >= FLAT_where_lt_v64 && op <= FLAT_where_ne_v64)) return FG_FLAT_accw;
    if (op == FLAT_select_v32 || (op >= FLAT_where_lt_v32 && op <= FLAT_where_ne_v32)) return FG_FLAT_accv;
    #define M(name, t, T, acc, ...) if (op >= FLAT_##name##_##t##_mm && op <= FLAT_##name##_##t##_ma) return FG_FLAT_##acc;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, T, acc, ...) if (op == FLAT_##name##_##t##_m || op == FLAT_##name##_##t##_a) return FG_FLAT_##acc;
    FG_FLAT_UN(M)
    #undef M
    return -1;
}

/* A sum, difference or product as a chain's first operation, or one more of the last op's. */
static void fg_flat_chain(FgFlat *f, int op, int which, char *d, const char *a, const char *b) {
    FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
    int number = last ? (int)(intptr_t)last->label : -1, at = number - which * FG_CHAIN;
    if (!last || fg_flat_register(number) != which || (last->d != a && last->d != b)) {
        fg_flat_op(f, which * FG_CHAIN + FG_FIRST_MEMORY + (op == FG_OP_add ? 0 : op == FG_OP_sub ? 1 : 2), d, a, b, 0, 0, 0);
        return;
    }
    int step = op == FG_OP_add ? FG_STEP_ADD : op == FG_OP_mul ? FG_STEP_MUL : last->d == a ? FG_STEP_SUB : FG_STEP_RSUB;
    const char *z = last->d == a ? b : a;
    if (number >= FG_CHAINS || at >= 35) {
        fg_flat_op(f, which * FG_CHAIN + FG_FIRST_LAST + step, d, 0, z, 0, 0, 0);
    } else if (at < 7) {
        last->label = (const void *)(intptr_t)(which * FG_CHAIN + 7 + 4 * at + step);
        last->e = last->d; last->c = z; last->d = d;
    } else {
        last->label = (const void *)(intptr_t)(which * FG_CHAIN + 35 + 4 * (at - 7) + step);
        last->f = last->d; last->g = z; last->d = d;
    }
}

static int fg_flat_overlaps(const char *a, int64_t n, const char *p, int64_t bytes) { return a && a < p + bytes && p < a + n; }

static int fg_flat_is_where_one(int op) { return op >= FLAT_where_lt_f32_f32 && op <= FLAT_where_ne_i64_i64; }
static int fg_flat_is_where(int op) { return (op >= FLAT_where_lt_v32 && op <= FLAT_where_ne_v64) || fg_flat_is_where_one(op); }

/* 1 if an op writes a whole vector. */
static int fg_flat_wide(int op) {
    int reg = fg_flat_register(op);
    return reg == 2 || reg == 3 || op == FLAT_copy64 || op == FLAT_splat1 || op == FLAT_splat2 || op == FLAT_bytes || (op >= FLAT_add_q8 && op <= FLAT_select_q16) || (op >= FLAT_lt_v32 && op <= FLAT_select_v64);
}

/* The bytes that an op on 16-bit floats writes, or (reads) that it reads; 0 for any other. */
static int64_t fg_flat_half_bytes(int op, int reads) {
    if (op < FLAT_widen_bf16 || op > FLAT_narrow1_f16) return 0;
    return (op >= FLAT_narrow_bf16) == reads ? (op - FLAT_widen_bf16) % 4 < 2 ? 64 : 4 : (op - FLAT_widen_bf16) % 4 < 2 ? 32 : 2;
}

/* The bytes that a window whose index is a sum moves, or 0 for any other op. */
static int64_t fg_flat_sum_bytes(int op) {
    if ((op >= FLAT_take4_sum_f32 && op <= FLAT_take4_sum_i32) || (op >= FLAT_put4_sum_f32 && op <= FLAT_put4_sum_i32)) return 4;
    return op == FLAT_take4_sum || op == FLAT_put4_sum ? 4 : op == FLAT_take8_sum || op == FLAT_put8_sum ? 8 : 0;
}

/* 1 if an op may read or write [p, p + bytes); with `but_d` its result apart. */
static int fg_flat_touches(const FgFlatOp *o, const char *p, int64_t bytes, int but_d) {
    int op = (int)(intptr_t)o->label, at = op % FG_CHAIN, chain = op < FG_CHAINS;
    int64_t size = fg_flat_wide(op) ? 64 : op == FLAT_fn ? (int64_t)(intptr_t)o->g * o->n : op >= FLAT_copy1 && op <= FLAT_store ? o->n : 8;
    if (op == FLAT_jump) return 0;
    if (fg_flat_half_bytes(op, 1)) return fg_flat_overlaps(o->a, fg_flat_half_bytes(op, 1), p, bytes) || (!but_d && fg_flat_overlaps(o->d, fg_flat_half_bytes(op, 0), p, bytes));
    if (op == FLAT_point && fg_flat_overlaps(FG_AT(char *, o->a), o->m, p, bytes)) return 1;       /* an inner loop's rows */
    if (op == FLAT_call || op == FLAT_gather || op == FLAT_scatter) return 1;
    if (op == FLAT_items) {
        const FgFlatItems *t = (const FgFlatItems *)o->b;
        return fg_flat_overlaps(t->index, t->indices, p, bytes) || fg_flat_overlaps(o->a, o->n, p, bytes) || (!but_d && fg_flat_overlaps(o->d, (intptr_t)o->g, p, bytes));
    }
    if (op >= FLAT_take1 && op <= FLAT_puts) {
        int several = (op >= FLAT_takes1 && op <= FLAT_takes) || op >= FLAT_puts1, takes = op <= FLAT_takes;
        int64_t sum = fg_flat_sum_bytes(op), reach = sum ? o->n : (intptr_t)o->g, moved = sum ? sum : o->n;
        const FgFlatStart *s = (const FgFlatStart *)o->b;
        for (int64_t i = 0; several && i < o->m; i++) if (fg_flat_overlaps(s[i].index, 8, p, bytes)) return 1;
        if (!several && fg_flat_overlaps(o->b, 8, p, bytes)) return 1;
        if (sum && fg_flat_overlaps(o->g, 8, p, bytes)) return 1;
        return fg_flat_overlaps(o->a, takes ? reach : moved, p, bytes) || (!but_d && fg_flat_overlaps(o->d, takes ? moved : reach, p, bytes));
    }
    if (op >= FLAT_dot1 && op <= FLAT_long_dot) {
        int64_t reads = o->m ? o->m : op < FLAT_long_dot1 ? (o->g ? 64 : (o->n + 15) / 16 * 64) : o->g ? 128 : (o->n + 7) / 8 * 64;
        return fg_flat_overlaps(o->a, reads, p, bytes) || fg_flat_overlaps(o->b, reads, p, bytes) || (!but_d && fg_flat_overlaps(o->d, size, p, bytes));
    }
    if (op >= FLAT_lanes && op < FLAT_dot1)                  /* permutations and folds */
        return fg_flat_overlaps(o->a, (intptr_t)o->g, p, bytes) || (!but_d && fg_flat_overlaps(o->d, size, p, bytes));
    if ((op == FLAT_pack || op == FLAT_long_pack) && fg_flat_overlaps(o->g, 8, p, bytes)) return 1;
    if (fg_flat_is_where(op) && fg_flat_overlaps(o->g, size > 8 ? size : 8, p, bytes)) return 1;
    if (op == FLAT_seg || op == FLAT_sum_f32)
        return fg_flat_overlaps(o->a, (intptr_t)o->g * o->n * o->k * o->m, p, bytes) ||
               (!but_d && fg_flat_overlaps(o->d, (intptr_t)o->g * o->n * o->m, p, bytes));
    if (size < 8) size = 8;
    if ((!but_d && fg_flat_overlaps(o->d, size, p, bytes)) || fg_flat_overlaps(o->a, size, p, bytes)) return 1;
    if (op >= FLAT_end && op != FLAT_fn && op != FLAT_pack && op != FLAT_long_pack && op < FLAT_unless_lt_f32) return 0;              /* copies, loads and the like: no more operands */
    if (fg_flat_overlaps(o->b, size, p, bytes)) return 1;
    if (!chain) return fg_flat_overlaps(o->c, size, p, bytes);
    if (at >= 7 && (fg_flat_overlaps(o->c, size, p, bytes) || fg_flat_overlaps(o->e, size, p, bytes))) return 1;
    return at >= 35 && (fg_flat_overlaps(o->f, size, p, bytes) || fg_flat_overlaps(o->g, size, p, bytes));
}

/* 1 if an op may write to [p, p + bytes). */
static int fg_flat_writes(const FgFlatOp *o, const char *p, int64_t bytes) {
    int op = (int)(intptr_t)o->label, at = op % FG_CHAIN;
    int64_t sum = fg_flat_sum_bytes(op);
    if (sum) return fg_flat_overlaps(o->d, op <= FLAT_takes ? sum : o->n, p, bytes);
    if (fg_flat_half_bytes(op, 0)) return fg_flat_overlaps(o->d, fg_flat_half_bytes(op, 0), p, bytes);
    int64_t size = fg_flat_wide(op) || (op >= FLAT_loadv8 && op <= FLAT_loadv32) ? 64 : op == FLAT_loadv ? (o->n + 63) / 64 * 64 : op == FLAT_fn ? (intptr_t)o->g * o->n :
                   op == FLAT_seg || op == FLAT_sum_f32 ? (intptr_t)o->g * o->n * o->m : op >= FLAT_take1 && op <= FLAT_takes ? o->n :
                   op >= FLAT_put1 && op <= FLAT_puts ? (intptr_t)o->g : op >= FLAT_copy1 && op <= FLAT_store ? o->n : 8;
    if (op == FLAT_call || op == FLAT_scatter || op == FLAT_gather) return 1;
    if (op == FLAT_items) return fg_flat_overlaps(o->d, (intptr_t)o->g, p, bytes);
    if (op >= FLAT_load4 && op <= FLAT_load && fg_flat_overlaps(o->a, 8, p, bytes)) return 1;       /* the pointer moves on */
    if (op < FG_CHAINS && at >= 7 && fg_flat_overlaps(o->e, size, p, bytes)) return 1;
    if (op < FG_CHAINS && at >= 35 && fg_flat_overlaps(o->f, size, p, bytes)) return 1;
    return fg_flat_overlaps(o->d, size < 8 ? 8 : size, p, bytes);
}

/* 1 if an op takes the result of the op before it from a register. */
static int fg_flat_takes_last(int op) {
    int at = op % FG_CHAIN;
    if (op >= FLAT_permute1 && op <= FLAT_argminima1) return 1;
    if (op < FG_CHAINS) return (at < 7 ? at : at < 35 ? (at - 7) / 4 : (at - 35) / 16) >= FG_FIRST_LAST;
    #define M(name, t, ...) if (op == FLAT_##name##_##t##_am || op == FLAT_##name##_##t##_ma) return 1;
    FG_FLAT_BIN(M)
    #undef M
    #define M(name, t, ...) if (op == FLAT_##name##_##t##_a) return 1;
    FG_FLAT_UN(M)
    #undef M
    return 0;
}

static int fg_flat_narrow(int t) { return t == FG_I8 || t == FG_U8 || t == FG_I16 || t == FG_U16; }
/* A cast of one number that needs no call, or -1. */
static int fg_flat_cast(int from, int to) {
    #define M(s, S, t, T) if (from == FG_FLAT_CODE_##s && to == FG_FLAT_CODE_##t) return FLAT_cast_##s##_##t;
    enum { FG_FLAT_CODE_bool = FG_BOOL, FG_FLAT_CODE_i32 = FG_I32, FG_FLAT_CODE_f32 = FG_F32, FG_FLAT_CODE_f64 = FG_F64,
        FG_FLAT_CODE_i64 = FG_I64, FG_FLAT_CODE_u8 = FG_U8, FG_FLAT_CODE_u16 = FG_U16, FG_FLAT_CODE_i8 = FG_I8, FG_FLAT_CODE_i16 = FG_I16 };
    FG_FLAT_CAST(M)
    if (from == FG_BOOL) from = FG_U8;
    if (!fg_flat_narrow(from) && !fg_flat_narrow(to)) return -1;
    if (from == FG_U32 || from == FG_U64) from = from == FG_U32 ? FG_I32 : FG_I64;         /* those are cut off */
    if (to == FG_I8 || to == FG_I16) to = to == FG_I8 ? FG_U8 : FG_U16;
    if (to == FG_U32 || to == FG_U64) to = to == FG_U32 ? FG_I32 : FG_I64;
    FG_FLAT_NARROW_CAST(M)
    #undef M
    return -1;
}

/* 1 for an operation that is the same with and without a sign. */
static int fg_flat_bits(int op) {
    return op == FG_OP_add || op == FG_OP_sub || op == FG_OP_mul || op == FG_OP_and || op == FG_OP_or || op == FG_OP_xor || op == FG_OP_shl ||
           op == FG_OP_shr_logical || op == FG_OP_eq || op == FG_OP_ne;
}
/* 1 if vectors of type t are to an operation what vectors of int32 are. */
static int fg_flat_ints(int op, int t) { return t == FG_I32 || (t == FG_U32 && fg_flat_bits(op)); }

static int fg_flat_kind(const FgFlat *f, int op, int t, int64_t n, const char *d, const char *const *args, int arity) {
    if (op == FG_OP_select && n > 1) {
        int whole = n * fg_itemsize(t) <= 64 && fg_flat_padded(f, d);
        for (int i = 0; i < 3; i++) whole &= fg_flat_readable(f, args[i]);
        return !whole ? -1 : fg_itemsize(t) == 4 ? FG_C64 : fg_itemsize(t) == 8 ? FG_C128 : -1;
    }
    if (op == FG_OP_select) return -1;
    if (n == 1) return t == FG_U32 && fg_flat_bits(op) ? FG_I32 : t == FG_U64 && fg_flat_bits(op) ? FG_I64 : t == FG_C64 || t == FG_C128 ? -1 : t;
    int ints = fg_flat_ints(op, t);
    if ((t != FG_F32 && t != FG_F64 && t != FG_BOOL && !ints) || n * fg_itemsize(t) > (t == FG_BOOL ? 16 : 64) || !fg_flat_padded(f, d)) return -1;
    for (int i = 0; i < arity; i++) if (!fg_flat_readable(f, args[i])) return -1;
    return t == FG_F32 ? FG_C64 : t == FG_F64 ? FG_C128 : ints ? FG_FLAT_INTS : FG_F16;
}

/* The op on whole vectors of integers of one or two bytes, or of bools, or -1. */
static int fg_flat_tiny_code(int op, int t) {
    const int one = t == FG_I8 || t == FG_U8 || t == FG_BOOL, sign = t == FG_I8 || t == FG_I16;
    if (!fg_flat_narrow(t) && t != FG_BOOL) return -1;
    if (op == FG_OP_select) return one ? FLAT_select_q8 : FLAT_select_q16;
    if (t == FG_BOOL && op == FG_OP_not) return FLAT_not_b8;
    if (t == FG_BOOL && op != FG_OP_and && op != FG_OP_or && op != FG_OP_xor && op != FG_OP_eq && op != FG_OP_ne) return -1;
    #define M(name, t, ...) if (op == FG_OP_##name && FG_TINY_##t) return FLAT_##name##_##t;
    #define FG_TINY_q8 (one && (!sign || (op != FG_OP_max && op != FG_OP_min)))
    #define FG_TINY_s8 (one && sign)
    #define FG_TINY_b8 0
    #define FG_TINY_q16 (!one && (!sign || (op != FG_OP_max && op != FG_OP_min)))
    #define FG_TINY_s16 (!one && sign)
    FG_FLAT_TINY(M)
    #undef FG_TINY_q8
    #undef FG_TINY_q16
    #define FG_TINY_q8 (one && !sign)
    #define FG_TINY_q16 (!one && !sign)
    FG_FLAT_TINY_COMPARE(M)
    #undef M
    #undef FG_TINY_q8
    #undef FG_TINY_s8
    #undef FG_TINY_b8
    #undef FG_TINY_q16
    #undef FG_TINY_s16
    return -1;
}
static int fg_flat_tiny(const FgFlat *f, int op, int from, int t, int64_t n, const char *d, const char *const *args, int arity) {
    int cast = op == FG_OP_cast && fg_itemsize(from) == fg_itemsize(t) && fg_flat_narrow(t) && (fg_flat_narrow(from) || from == FG_BOOL);
    int code = cast ? FLAT_copy64 : fg_flat_tiny_code(op, t);
    if (!f->machine || code < 0 || n < 2 || n * fg_itemsize(t) > 64 || (t == FG_BOOL && op != FG_OP_select && n <= 16) || !fg_flat_padded(f, d)) return -1;
    for (int i = 0; i < arity; i++) if (!fg_flat_readable(f, args[i])) return -1;
    return code;
}

/* A selection by a comparison whose operands are still there, which compares again; the comparison goes if nothing else
 * reads it (`once`). 0 for any other. */
static int fg_flat_where(FgFlat *f, int t, int64_t n, char *d, const char *const *args, int once) {
    enum { HOW = FLAT_lt_f64 - FLAT_lt_f32 };               /* comparisons of a kind */
    int kind = fg_flat_kind(f, FG_OP_select, t, n, d, args, 3), w = f->n_ops - 1;
    int one = n != 1 ? -1 : t == FG_F32 ? 0 : t == FG_F64 ? 1 : t == FG_I32 || t == FG_U32 ? 2 : t == FG_I64 || t == FG_U64 ? 3 : -1;
    if (one < 0 && (n == 1 || (kind != FG_C64 && kind != FG_C128))) return 0;
    while (w >= f->start && f->ops[w].d != args[0]) w--;
    if (w < f->start) return 0;
    FgFlatOp made = f->ops[w];
    int first = one >= 0 ? FLAT_lt_f32 : kind == FG_C64 ? FLAT_lt_v32 : FLAT_lt_v64, how = (int)(intptr_t)made.label - first;
    int64_t bytes = one >= 0 ? 8 : 64;
    if (how < 0 || how >= (one >= 0 ? 4 * HOW : HOW)) return 0;
    for (int k = w + 1; k < f->n_ops; k++)
        if (fg_flat_writes(&f->ops[k], made.a, bytes) || fg_flat_writes(&f->ops[k], made.b, bytes)) return 0;
    if (once) memmove(&f->ops[w], &f->ops[w + 1], (--f->n_ops - w) * sizeof(FgFlatOp));
    int op = one >= 0 ? FLAT_where_lt_f32_f32 + how / HOW * 4 * HOW + one * HOW + how % HOW : (kind == FG_C64 ? FLAT_where_lt_v32 : FLAT_where_lt_v64) + how;
    fg_flat_op(f, op, d, made.a, made.b, args[1], n, 0)->g = args[2];
    return 1;
}

/* A selection of n elements by one bool at `mask`, vector by vector; 0 where these are not whole. */
static int fg_flat_choose(FgFlat *f, int t, int64_t n, char *d, const char *mask, const char *x, const char *y) {
    int64_t bytes = n * fg_itemsize(t);
    if (bytes > FG_FLAT_VECTORS) return 0;
    for (int64_t i = 0; i < bytes; i += 64)
        if (!fg_flat_padded(f, d + i) || !fg_flat_padded(f, x + i) || !fg_flat_padded(f, y + i)) return 0;
    for (int64_t i = 0; i < bytes; i += 64) fg_flat_op(f, FLAT_choose, d + i, mask, x + i, y + i, 0, 0);
    return 1;
}

/* How often a group reads register r; `but_mask`: but as what a selection selects by. */
static int fg_flat_reads(const FgVmPlan *p, int r, int but_mask) {
    int n = 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int arity = fg_vm_info[op->op].arity;
        n += (op->a == r && !(but_mask && op->op == FG_OP_select)) + (arity > 1 && op->b == r) + (arity > 2 && op->c == r);
    }
    for (int o = 0; o < p->n_out; o++) n += (p->out[o].reg == r) + (p->out[o].reg2 == r);
    return n;
}

/* 1 for a function that takes as long for a whole vector as for a part of one, whatever the numbers are: what is computed of a whole one
 * makes nobody wait who loads one. */
static int fg_flat_fills(int op) {
    return op == FG_OP_exp || op == FG_OP_exp2 || op == FG_OP_expm1 || op == FG_OP_log || op == FG_OP_log1p || op == FG_OP_tanh || op == FG_OP_logistic ||
           op == FG_OP_erf;
}

/* Let the op that has only spread numbers to the vector at p be the last one, so that what is computed next takes that from the register. */
static void fg_flat_bring(FgFlat *f, const char *p) {
    int end = f->n_ops, w = end - 1;
    while (w >= f->start && f->ops[w].d != p) w--;
    if (w < f->start || w == end - 1) return;
    FgFlatOp moved = f->ops[w];
    int op = (int)(intptr_t)moved.label;
    if ((op != FLAT_permute && op != FLAT_lanes && op != FLAT_splat4) || fg_flat_takes_last((int)(intptr_t)f->ops[w + 1].label)) return;
    int64_t reads = op == FLAT_splat4 ? 4 : (intptr_t)moved.g;
    for (int k = w + 1; k < end; k++) if (fg_flat_touches(&f->ops[k], p, 64, 0) || fg_flat_writes(&f->ops[k], moved.a, reads)) return;
    memmove(&f->ops[w], &f->ops[w + 1], (end - 1 - w) * sizeof(FgFlatOp));
    f->ops[end - 1] = moved;
}

/* One operation of a fused group. */
static void fg_flat_arith(FgFlat *f, int op, int from, int t, int64_t n, void *fn, char *d, const char *a, const char *b, const char *c) {
    const char *args[3] = {a, b, c};
    int forms = 0, kind = fg_flat_kind(f, op, t, n, d, args, fg_vm_info[op].arity), code;
    int which = kind == FG_F32 ? 0 : kind == FG_F64 ? 1 : kind == FG_C64 ? 2 : kind == FG_C128 ? 3 : kind == FG_I32 ? 4 : -1;
    if (kind == FG_C64 && (f->n_ops == f->start || f->ops[f->n_ops - 1].d != a)) for (int i = 0; i < 2 && i < fg_vm_info[op].arity; i++) fg_flat_bring(f, args[i]);
    if (which >= 0 && (op == FG_OP_add || op == FG_OP_sub || op == FG_OP_mul)) {
        fg_flat_chain(f, op, which, d, a, b);
        return;
    }
    code = fg_flat_inline(op, kind, &forms);
    if (n > 1 && op == FG_OP_select) code = kind == FG_C64 ? FLAT_select_v32 : kind == FG_C128 ? FLAT_select_v64 : -1;
    if (n == 1 && op == FG_OP_clamp && t == FG_I32) code = FLAT_clamp_i32;
    if (n == 1 && op == FG_OP_clamp && t == FG_I64) code = FLAT_clamp_i64;
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 1) code = FLAT_select_b1;
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 2) code = FLAT_select_h1;
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 4) code = FLAT_select_f32;
    if (n == 1 && op == FG_OP_select && fg_itemsize(t) == 8) code = FLAT_select_f64;
    if (n == 1 && op == FG_OP_cast) code = fg_flat_cast(from, t);
    if (code < 0 && n > 1) code = fg_flat_tiny(f, op, from, t, n, d, args, fg_vm_info[op].arity);
    if (code == FLAT_copy64) { if (d != a) fg_flat_op(f, code, d, a, 0, 0, 64, 0); return; }
    FgFlatOp *last = f->n_ops > f->start ? &f->ops[f->n_ops - 1] : NULL;
    if (forms && last && fg_flat_register((int)(intptr_t)last->label) == fg_flat_register(code) && (last->d == a || (forms == 2 && last->d == b)))
        code += last->d == a ? 1 : 2;
    int64_t sizes[3] = {fg_itemsize(t), fg_itemsize(from), fg_itemsize(fg_vm_result_type(op, t))}, size = sizes[0];
    for (int i = 1; i < 3; i++) if (sizes[i] > size) size = sizes[i];
    if (code < 0 && kind == FG_C64 && fg_flat_fills(op)) n = FG_MACHINE_CODE == 1 && n <= 8 ? 8 : 16;
    fg_flat_op(f, code < 0 ? FLAT_fn : code, d, a, b, c, n, fn)->g = (const char *)(intptr_t)size;
}

/* Make one op of the last two, a shift that nothing else reads and the exclusive or of its operand and its result. */
static void fg_flat_xorshift(FgFlat *f) {
    FgFlatOp *o = &f->ops[f->n_ops - 1], *s = o - 1;
    if (f->failed || f->n_ops - 2 < f->start) return;
    int op = (int)(intptr_t)s->label, xor = (int)(intptr_t)o->label, to = -1;
    #define M(name, t) { int by = op - FLAT_##name##_##t##_mm; \
        if (by >= 0 && by < 2 && ((xor == FLAT_xor_##t##_am && o->a == s->d && o->b == s->a) || (xor == FLAT_xor_##t##_ma && o->b == s->d && o->a == s->a))) \
            to = FLAT_##name##_xor_##t##_mm + by; }
    M(shl, i32) M(shr_logical, i32) M(shl, w32) M(shr_logical, w32)
    #undef M
    if (to < 0) return;
    s->label = (const void *)(intptr_t)to;
    s->d = o->d;
    f->n_ops--;
}

/* 1 if two operands may share memory. */
static int fg_flat_overlap(const FgTensor *a, const FgTensor *b) {
    const char *lo[2], *hi[2];
    const FgTensor *t[2] = {a, b};
    for (int k = 0; k < 2; k++) {
        int64_t down = 0, up = 0, item = fg_itemsize(t[k]->dtype);
        for (int d = 0; d < t[k]->ndim; d++) {
            int64_t reach = (t[k]->shape[d] - 1) * t[k]->strides[d];
            if (reach < 0) down += reach; else up += reach;
        }
        lo[k] = t[k]->data + down * item;
        hi[k] = t[k]->data + (up + 1) * item;
    }
    return lo[0] < hi[1] && lo[1] < hi[0];
}
#endif
