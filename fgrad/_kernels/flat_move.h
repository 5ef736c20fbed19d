/* Flat code of one instruction that moves values: copies, paddings, concatenations, windows, gathers and scatters. See flat.h. */
#ifndef FG_FLAT_MOVE_H
#define FG_FLAT_MOVE_H
#include "flat_half.h"

/* A copy of a few elements; 0 where it takes too many. */
static int fg_flat_move(FgFlat *f, const FgTensor *x, char *out) {
    FgVmPlan p = {.n = x->size, .ndim = x->ndim};
    if (x->size == 1 || fg_is_contiguous(x)) { fg_flat_copy(f, out, x->data, fg_slot_bytes(x)); return 1; }
    if (x->size > FG_FLAT_FEW) return 0;
    memcpy(p.shape, x->shape, sizeof p.shape);
    fg_flat_collect(f, out, x->data, (int32_t *)fg_flat_places(f, &p, x->strides), x->size, fg_itemsize(x->dtype));
    return 1;
}

/* Where an operand lies in the code's own memory, to which a constant is copied; NULL if it lies elsewhere. */
static const char *fg_flat_inside(FgFlat *f, const FgState *st, int slot) {
    const FgTensor *x = &st->slots[slot];
    int base = st->prog->slot_base[slot];
    if (x->data >= f->memory && x->data < f->memory + FG_FLAT_MEMORY) return x->data;
    if (base <= st->prog->n_args || base > st->prog->n_args + st->prog->n_consts || x->size > FG_FLAT_PIECES || !fg_is_contiguous(x)) return NULL;
    char *room = fg_flat_room_of(f, x);
    if (!f->failed) memcpy(room, x->data, fg_slot_bytes(x));
    return f->failed ? NULL : room;
}

/* Few elements before and behind all others, which lie in one piece, as a pad along the first axis puts them; 0 for any other pad. */
static int fg_flat_ends(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    const FgTensor *x = FG_IN(inst, slots, 0), *fill = FG_IN(inst, slots, 1), *out = FG_OUT(inst, slots, 0);
    enum { FEW = 8 };
    int64_t item = fg_itemsize(out->dtype), ends[2] = {0, 0};
    int first = 0;
    while (first + 1 < out->ndim && out->shape[first] == 1) first++;
    for (int d = 0; d < out->ndim; d++) if (inst->ip[3 * d + 2] || (d != first && (inst->ip[3 * d] || inst->ip[3 * d + 1]))) return 0;
    for (int k = 0; k < 2; k++) ends[k] = inst->ip[3 * first + k] * out->strides[first];
    if (ends[0] < 0 || ends[1] < 0 || ends[0] + ends[1] > FEW || x->size * item > FG_FLAT_LONG || !fg_is_contiguous(x)) return 0;
    if (fg_flat_overlap(fill, out) || (x->data != out->data + ends[0] * item && fg_flat_overlap(x, out))) return 0;
    fg_flat_copy(f, out->data + ends[0] * item, x->data, x->size * item);
    for (int k = 0; k < 2; k++) for (int64_t i = 0; i < ends[k]; i++)
        fg_flat_copy(f, out->data + (k * (out->size - ends[1]) + i) * item, fill->data, item);
    return 1;
}

/* A concatenation or a padding of few elements as one gather from all operands; 0 where they are too many or lie elsewhere. */
static int fg_flat_pieces(FgFlat *f, const FgState *st, const FgInst *inst) {
    const FgTensor *out = &st->slots[inst->args[inst->n_in]];
    const char *from[FG_FLAT_LONG];
    int pad = inst->run == fg_flat_pad, whole = 1;
    int64_t item = fg_itemsize(out->dtype), most = item <= 2 && f->machine && FG_FLAT_COLLECTS_BYTES ? FG_FLAT_LONG / item : FG_FLAT_PIECES, begin = 0, coord[FG_MAXDIM + 1] = {0};
    if (out->size < 1 || !fg_is_contiguous(out)) return 0;
    for (int64_t i = 0; i < out->size * item && whole; i += 64) whole = fg_flat_padded(f, out->data + i);
    if (out->size > (whole ? most : FG_FLAT_PIECES)) return pad && fg_flat_ends(f, inst, st->slots);
    for (int d = 0; pad && d < out->ndim; d++) if (inst->ip[3 * d] < 0 || inst->ip[3 * d + 1] < 0) return 0;
    const char *fill = pad ? fg_flat_inside(f, st, inst->args[1]) : NULL;
    if (pad && (!fill || fg_flat_overlap(&st->slots[inst->args[1]], out))) return 0;
    for (int64_t i = 0; i < out->size; i++) from[i] = fill;
    for (int k = 0; k < (pad ? 1 : inst->n_in); k++) {
        const FgTensor *x = &st->slots[inst->args[k]];
        const char *at = fg_flat_inside(f, st, inst->args[k]);
        if (!at || fg_flat_overlap(x, out)) return 0;
        for (int64_t i = 0; i < x->size; i++) {
            int64_t to = begin;
            fg_vm_coords(x->ndim, x->shape, i, coord);
            for (int d = 0; d < x->ndim; d++) to += (pad ? inst->ip[3 * d] + coord[d] * (1 + inst->ip[3 * d + 2]) : coord[d]) * out->strides[d];
            from[to] = at + fg_vm_offset(x->ndim, coord, x->strides) * item;
        }
        if (!pad) begin += x->shape[inst->ip[0]] * out->strides[inst->ip[0]];
    }
    int32_t *places = (int32_t *)fg_flat_room(f, out->size, 4);
    for (int64_t i = 0; i < out->size && !f->failed; i++) {
        if ((from[i] - from[0]) % item) return 0;
        places[i] = (int32_t)((from[i] - from[0]) / item);
    }
    if (out->size > FG_FLAT_PIECES && !fg_flat_by_pieces(f, from[0], places, out->size, item)) return pad && fg_flat_ends(f, inst, st->slots);
    fg_flat_collect(f, out->data, from[0], places, out->size, item);
    return 1;
}

/* A copy, a padding or a concatenation; 0 where its pieces are not few. */
static int fg_flat_movement(FgFlat *f, const FgState *st, const FgInst *inst) {
    FgTensor *slots = st->slots;
    const FgTensor *out = FG_OUT(inst, slots, 0);
    char *at = out->data;
    int before = f->n_ops;
    if (inst->run == fg_flat_pad) return fg_flat_pieces(f, st, inst);
    if (!fg_is_contiguous(out)) return 0;
    int single = inst->run == fg_flat_concatenate && out->size == inst->n_in && out->size > 1 && out->size <= 4 && (fg_itemsize(out->dtype) == 4 || fg_itemsize(out->dtype) == 8);
    for (int i = 0; i < inst->n_in && single; i++) single = FG_IN(inst, slots, i)->size == 1;      /* and none empty */
    if (single && fg_flat_padded(f, at)) {
        const char *x[4];
        for (int i = 0; i < 4; i++) x[i] = FG_IN(inst, slots, i < inst->n_in ? i : inst->n_in - 1)->data;
        fg_flat_op(f, fg_itemsize(out->dtype) == 4 ? FLAT_pack : FLAT_long_pack, at, x[0], x[1], x[2], 0, 0)->g = x[3];
        return 1;
    }
    int64_t item = fg_itemsize(out->dtype);
    if (f->machine && inst->run == fg_flat_concatenate && (item == 4 || item == 8 || (item <= 2 && FG_FLAT_COLLECTS_BYTES)) && out->size * item <= (item <= 2 ? FG_FLAT_LONG : FG_FLAT_VECTORS) && fg_flat_padded(f, at) && fg_flat_pieces(f, st, inst)) return 1;
    for (int d = 0; inst->run == fg_flat_concatenate && d < inst->ip[0]; d++) if (out->shape[d] != 1) return fg_flat_pieces(f, st, inst);
    for (int i = 0; i < inst->n_in; i++) {
        const FgTensor *x = FG_IN(inst, slots, i);
        if (x->data == at && fg_is_contiguous(x)) { at += fg_slot_bytes(x); continue; }
        if (fg_flat_overlap(x, out) || !fg_flat_move(f, x, at)) { f->n_ops = before; return 0; }
        at += fg_slot_bytes(x);
    }
    return 1;
}

enum { FG_FLAT_LINE = 64,               /* numbers of vectors of which one op is the product: they take registers, 16 of four bytes or 8 of eight each */
    FG_FEW_LINE = 16 };                 /* AVX2: those that are added one by one, as the kernel adds them (fg_few) */
/* A product of two matrices of up to 16 numbers, or of two vectors; 0 for any other. Of numbers of eight bytes a step is two, one for each vector of results; 16-bit
 * floats are products and sums of float32, rounded as the result asks for. */
static int fg_flat_product(FgFlat *f, const FgState *st, const FgInst *inst) {
    const FgTensor *x = &st->slots[inst->args[0]], *y = &st->slots[inst->args[1]], *out = &st->slots[inst->args[inst->n_in]];
    int64_t B = out->shape[0], M = out->shape[1], N = out->shape[2], K = x->shape[2], item = fg_itemsize(x->dtype);
    const int half = fg_flat_is_half(x->dtype) && y->dtype == x->dtype && (out->dtype == x->dtype || out->dtype == FG_F32);
    uint32_t lanes = 0;
    if (!FG_FLAT_INLINES(f) || (half && !FG_FLAT_PERMUTES) || inst->n_in != 2 || out->ndim != 3 || B != 1 || (!half && ((x->dtype != FG_F32 && x->dtype != FG_F64) || out->dtype != x->dtype)) || M * N < 1 || K < 1) return 0;
    int line = M * N == 1 && K > 1 && K <= (FG_FLAT_PERMUTES ? FG_FLAT_LINE : FG_FEW_LINE) && x->strides[2] == 1 && y->strides[1] == 1, wide = x->dtype == FG_F64;
    int vectors = wide && M * N > 8 ? 2 : 1;
    if (!line && (M * K > 16 || K * N > 16 || M * N > 16 || M * N * K > 64)) return 0;
    for (int v = 0; v < vectors && M * N > 1 && (!half || out->dtype == FG_F32); v++) if (!fg_flat_padded(f, out->data + 64 * v)) return 0;
    const char *a = fg_flat_inside(f, st, inst->args[0]), *b = fg_flat_inside(f, st, inst->args[1]);
    const char *end = f->memory + FG_FLAT_MEMORY - (wide && !line ? 128 : (K * item + 63) / 64 * 64);
    if (!a || !b || a > end || b > end || fg_flat_overlap(x, out) || fg_flat_overlap(y, out)) return 0;
    const int before = f->n_ops;
    char *to = out->data;
    if (half) {
        a = fg_flat_widened_at(f, x->dtype, line ? K : 16, a);
        b = fg_flat_widened_at(f, x->dtype, line ? K : 16, b);
        if (out->dtype != FG_F32) to = fg_flat_room(f, M * N, 4);
    }
    if (line) {
        fg_flat_op(f, wide ? FLAT_long_dot1 : FLAT_dot1, to, a, b, 0, K, 0);
        if (to != out->data) fg_flat_narrow_to(f, out->dtype, 1, out->data, to);
        return 1;
    }
    FgFlatStep *steps = (FgFlatStep *)fg_flat_room(f, K * vectors, sizeof(FgFlatStep));
    FgFlatLongStep *longs = (FgFlatLongStep *)steps;
    if (f->failed) return 1;
    memset(steps, FG_FLAT_PERMUTES ? 0 : 255, K * vectors * sizeof(FgFlatStep));
    for (int64_t m = 0; m < M; m++) for (int64_t n = 0; n < N; n++) {
        int64_t lane = m * out->strides[1] + n * out->strides[2];
        if (lane < 0 || lane >= M * N || lanes >> lane & 1) { f->n_ops = before; return 0; }
        lanes |= 1u << lane;
        for (int64_t k = 0; k < K; k++) {
            int64_t i = m * x->strides[1] + k * x->strides[2], j = k * y->strides[1] + n * y->strides[2];
            if (i < 0 || i > 15 || j < 0 || j > 15) { f->n_ops = before; return 0; }
            if (wide) { longs[lane / 8 * K + k].a[lane % 8] = i; longs[lane / 8 * K + k].b[lane % 8] = j; }
            else { steps[k].a[lane] = (int32_t)i; steps[k].b[lane] = (int32_t)j; }
        }
    }
    const int op = wide ? (M * N > 1 ? FLAT_long_dot : FLAT_long_dot1) : M * N > 1 ? FLAT_dot : FLAT_dot1;
    for (int v = 0; v < vectors; v++) fg_flat_op(f, op, to + 64 * v, a, b, 0, K, 0)->g = (const char *)(steps + v * K);
    if (to != out->data) fg_flat_narrow_to(f, out->dtype, M * N, out->data, to);
    return 1;
}

#if FG_MACHINE_CODE == 1
enum { FG_FLAT_STEPS = 192 };           /* of eight lanes, by AVX2: about as many instructions as they are fast */
/* A product of small matrices, or of a batch of them, a vector of results at a time; 0 for any other, and where the kernel adds in another order. */
static int fg_flat_products(FgFlat *f, const FgState *st, const FgInst *inst) {
    const FgTensor *x = &st->slots[inst->args[0]], *y = &st->slots[inst->args[1]], *out = &st->slots[inst->args[inst->n_in]];
    if (!f->machine || inst->n_in != 2 || out->ndim != 3 || (x->dtype != FG_F32 && x->dtype != FG_F64) || y->dtype != x->dtype || out->dtype != x->dtype) return 0;
    const int64_t B = out->shape[0], M = out->shape[1], N = out->shape[2], K = x->shape[2], item = fg_itemsize(x->dtype), lanes = 64 / item, vectors = (B * M * N + lanes - 1) / lanes;
    const int64_t far = (B - 1) * x->strides[0] + (M - 1) * x->strides[1] + (K - 1) * x->strides[2], off = (B - 1) * y->strides[0] + (K - 1) * y->strides[1] + (N - 1) * y->strides[2];
    const int64_t reads = ((far > off ? far : off) + 1) * item, rows = M > N ? M : N, tables = vectors * K * (int64_t)sizeof(FgFlatStep);
    if (B * M * N < 2 || K < 1 || vectors * 2 * K > FG_FLAT_STEPS || !fg_is_contiguous(out) || f->used + tables > FG_FLAT_MEMORY / 2) return 0;
    const int how = fg_flat_summed(inst);
    if (how == FG_DOT_OTHER) return 0;
    for (int d = 0; d < 3; d++) if (x->strides[d] < 0 || y->strides[d] < 0) return 0;
    for (int64_t v = 0; v < vectors; v++) if (!fg_flat_padded(f, out->data + 64 * v)) return 0;
    const char *a = fg_flat_inside(f, st, inst->args[0]), *b = fg_flat_inside(f, st, inst->args[1]);
    if (!a || !b || a + reads > f->memory + FG_FLAT_MEMORY || b + reads > f->memory + FG_FLAT_MEMORY || fg_flat_overlap(x, out) || fg_flat_overlap(y, out)) return 0;
    if (how == FG_DOT_ROWS) {           /* a vector with contiguous rows */
        const int turned = N > 1;
        const int64_t step = turned ? y->strides[2] : x->strides[1], one = turned ? y->strides[1] == 1 && x->strides[2] == 1 : x->strides[2] == 1 && y->strides[1] == 1;
        if (B != 1 || (M > 1 && N > 1) || item != 4 || rows > 8 || K > 8 || !one) return 0;
        FgFlatOp *o = fg_flat_op(f, FLAT_dot, out->data, turned ? b : a, turned ? a : b, 0, K, (void *)(intptr_t)(rows | step << 8));
        o->m = reads;
        return 1;
    }
    FgFlatStep *steps = (FgFlatStep *)fg_flat_room(f, vectors * K, sizeof(FgFlatStep));
    FgFlatLongStep *longs = (FgFlatLongStep *)steps;
    if (f->failed) return 1;
    memset(steps, 255, tables);
    for (int64_t i = 0; i < B * M * N; i++) for (int64_t k = 0; k < K; k++) {
        const int64_t e = i / (M * N), m = i / N % M, n = i % N, step = i / lanes * K + k;
        const int64_t from = e * x->strides[0] + m * x->strides[1] + k * x->strides[2], by = e * y->strides[0] + k * y->strides[1] + n * y->strides[2];
        if (item == 8) { longs[step].a[i % lanes] = from; longs[step].b[i % lanes] = by; }
        else { steps[step].a[i % lanes] = (int32_t)from; steps[step].b[i % lanes] = (int32_t)by; }
    }
    for (int64_t v = 0; v < vectors; v++) {
        FgFlatOp *o = fg_flat_op(f, item == 8 ? FLAT_long_dot : FLAT_dot, out->data + 64 * v, a, b, 0, K, (void *)(intptr_t)(how == FG_DOT_ROUNDED));
        o->g = (const char *)(steps + v * K);
        o->m = reads;
    }
    return 1;
}
#else
static int fg_flat_products(FgFlat *f, const FgState *st, const FgInst *inst) { (void)f; (void)st; (void)inst; return 0; }
#endif

/* A window's bytes, from or to the `reach` bytes that it moves in. */
static void fg_flat_window(FgFlat *f, int take, char *d, const char *a, const FgFlatStart *s, int64_t n, int64_t bytes, int64_t reach, void *plan) {
    int form = bytes == 1 ? 0 : bytes == 4 ? 1 : bytes == 8 ? 2 : 3, end = take && s->wrap && s->wrap == s->top + 1;
    if (n == 1 && !s->wide && (!s->wrap || end) && !(take && s->drop)) {
        int op = end ? FLAT_take1_end : take ? FLAT_take1 : s->drop ? FLAT_put1_in : FLAT_put1;
        fg_flat_op(f, op + form, d, a, s->index, 0, bytes, (void *)(intptr_t)s->step)->m = s->top;
    } else {
        FgFlatStart *room = (FgFlatStart *)fg_flat_room(f, n, sizeof(FgFlatStart));
        if (f->failed) return;
        memcpy(room, s, n * sizeof(FgFlatStart));
        for (int64_t i = 0; i < n; i++) fg_flat_moves(f, (char **)&room[i].index);
        fg_flat_op(f, (take ? FLAT_takes1 : FLAT_puts1) + form, d, a, (const char *)room, 0, bytes, plan)->m = n;
    }
    f->ops[f->n_ops - 1].g = (const char *)(intptr_t)reach;
}

/* The starts of a slice's window of x, which lies in one piece, along the axes that it moves along; -1 if it does not lie so. */
static int fg_flat_starts(const FgInst *inst, FgTensor *slots, int first, const FgTensor *x, const FgTensor *window, FgFlatStart *starts) {
    int n = 0, inner = 0;               /* inner: an axis before has more than one element of the window */
    if (!fg_is_contiguous(x) || !fg_is_contiguous(window) || window->size == 0) return -1;
    for (int d = 0; d < x->ndim; d++) {
        const FgTensor *at = FG_IN(inst, slots, first + d);
        if (window->shape[d] != x->shape[d]) {
            FgFlatStart s = {at->data, at->dtype == FG_I64, x->shape[d] - window->shape[d], x->strides[d] * fg_itemsize(x->dtype), 0, 0};
            if (inner) return -1;
            starts[n++] = s;
        }
        inner |= window->shape[d] > 1;
    }
    return n;
}

/* dynamic_slice or dynamic_update_slice of a window that lies in one piece; 0 for any other. */
static int fg_flat_sliced(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    FgFlatStart starts[FG_MAXDIM];
    int take = inst->run == fg_flat_slice;
    const FgTensor *x = FG_IN(inst, slots, 0), *out = FG_OUT(inst, slots, 0), *small = take ? out : FG_IN(inst, slots, 1);
    int n = fg_flat_starts(inst, slots, take ? 1 : 2, x, small, starts);
    int64_t bytes = fg_slot_bytes(small);
    if (n < 0 || fg_flat_overlap(take ? x : small, out)) return 0;
    if (take && n == 0) fg_flat_copy(f, out->data, x->data, bytes);
    else if (take) fg_flat_window(f, 1, out->data, x->data, starts, n, bytes, fg_slot_bytes(x), NULL);
    else if (n == 0) fg_flat_copy(f, out->data, small->data, bytes);
    else {
        fg_flat_copy(f, out->data, x->data, fg_slot_bytes(x));
        fg_flat_window(f, 0, out->data, small->data, starts, n, bytes, fg_slot_bytes(x), NULL);
    }
    return 1;
}

/* A gather or a scatter of several index vectors that each select one run; 0 for any other. */
static int fg_flat_several(FgFlat *f, const FgIndexPlan *g, const FgTensor *x, const FgTensor *index, const FgTensor *small, const FgTensor *out, int take) {
    FgFlatItems t;
    const int64_t bytes = fg_slot_bytes(small), reach = fg_slot_bytes(x);
    if (!fg_is_contiguous(x) || !fg_is_contiguous(small) || bytes > FG_FLAT_BYTES || g->run * g->n != small->size) return 0;
    if (fg_flat_overlap(take ? x : small, out) || fg_flat_overlap(index, out)) return 0;
    if (!take && g->kind != FG_SET && !fg_items_compute(g->dtype, g->kind)) return 0;
    if (!fg_items_of(&t, g, index->data, reach, take)) return 0;
    FgFlatItems *room = (FgFlatItems *)fg_flat_room(f, 1, sizeof t);
    if (f->failed) return 1;
    memcpy(room, &t, sizeof t);
    fg_flat_moves(f, (char **)&room->index);
    if (!take) fg_flat_copy(f, out->data, x->data, reach);
    FgFlatOp *o = fg_flat_op(f, FLAT_items, out->data, take ? x->data : small->data, (const char *)room, 0, take ? reach : bytes,
                             take ? (void *)fg_items_take : g->kind == FG_SET ? (void *)fg_items_set : (void *)fg_items_update);
    o->g = (const char *)(intptr_t)(take ? bytes : reach);
    return 1;
}

/* A gather or a scatter of one index vector that selects one run; 0 for any other. */
static int fg_flat_indexed(FgFlat *f, const FgInst *inst, FgTensor *slots) {
    FgFlatStart starts[FG_MAXDIM];
    const FgIndexPlan *g = (const FgIndexPlan *)inst->extra;
    const FgTensor *x = FG_IN(inst, slots, 0), *index = FG_IN(inst, slots, 1), *out = FG_OUT(inst, slots, 0);
    int take = inst->run == fg_flat_gather, t = x->dtype, op = g->kind == FG_ADD ? FG_OP_add : FG_OP_mul;
    const FgTensor *small = take ? out : FG_IN(inst, slots, 2);
    int64_t bytes = small->size * g->item, reach = fg_slot_bytes(x);
    int one = g->p == 1 && g->run == small->size && (g->run == 1 || (g->run_b == 1 && g->run_s == 1));
    int computes = !take && g->kind != FG_SET, half = fg_flat_is_half(t), numbers = half || t == FG_F32 || t == FG_F64 || t == FG_I32 || t == FG_U32 || t == FG_I64 || t == FG_U64;
    if (g->n > 1) return fg_flat_several(f, g, x, index, small, out, take);
    if (g->n != 1 || !one || g->by_plan || g->only >= 0 || bytes == 0 || g->s0 || g->b0 || g->nk < 1) return 0;
    if (computes && (!numbers || (g->kind != FG_ADD && g->kind != FG_MUL) || small->size > FG_FLAT_ELEMENTS || fg_flat_overlap(index, out))) return 0;
    if (take && (!fg_is_contiguous(x) || fg_flat_overlap(x, out))) return 0;
    if (!take && (!fg_is_contiguous(x) || fg_flat_overlap(small, out))) return 0;
    for (int c = 0; c < g->nk; c++) {
        FgFlatStart s = {index->data + (g->i0 + c * g->ki) * (g->wide ? 8 : 4), g->wide, g->top[c], g->kb[c] * g->item, g->wrap, g->drop};
        starts[c] = s;
    }
    if (take) fg_flat_window(f, 1, out->data, x->data, starts, g->nk, bytes, reach, (void *)g);
    else {
        const char *from = small->data;
        fg_flat_copy(f, out->data, x->data, reach);
        if (computes) {                 /* what is taken for a window that is left out is not put */
            char *old = fg_flat_room(f, small->size, g->item), *sum = fg_flat_room(f, small->size, g->item);
            FgFlatStart in[FG_MAXDIM];
            memcpy(in, starts, sizeof in);
            for (int c = 0; c < g->nk; c++) in[c].drop = 0;
            fg_flat_window(f, 1, old, out->data, in, g->nk, bytes, reach, NULL);
            if (half) {
                char *made = fg_flat_room(f, small->size, 4), *x = fg_flat_widened_at(f, t, small->size, old), *y = fg_flat_widened_at(f, t, small->size, from);
                fg_flat_arith(f, op, FG_F32, FG_F32, small->size, (void *)fg_vm_table[op][FG_F32], made, x, y, y);
                fg_flat_narrow_to(f, t, small->size, sum, made);
            } else fg_flat_arith(f, op, t, t, small->size, (void *)fg_vm_table[op][t], sum, old, from, from);
            from = sum;
        }
        fg_flat_window(f, 0, out->data, from, starts, g->nk, bytes, reach, NULL);
    }
    return 1;
}

/* ---- indices that are sums */

/* 1 if [at, at + 4) holds nothing that outlives a sub-program: no argument, constant or result of it. */
static int fg_flat_private(const FgFlat *f, const FgState *st, const char *at) {
    if (at < f->memory || at >= f->memory + FG_FLAT_MEMORY) return 0;
    for (int i = 0; i < st->prog->n_slots; i++)
        if (st->prog->slot_base[i] != 0 && fg_flat_overlaps(st->slots[i].data, fg_slot_bytes(&st->slots[i]), at, 4)) return 0;
    return 1;
}

/* 1 if an op is a window of one index that can be a sum. */
static int fg_flat_indexes(int op) { return op == FLAT_take4 || op == FLAT_take8 || op == FLAT_put4 || op == FLAT_put8; }

/* Make windows add the two numbers x and y themselves whose sum op k leaves at `sum`, if all that reads it are windows and find both unchanged. */
static int fg_flat_take_sum(FgFlat *f, int k, const char *sum, const char *x, const char *y) {
    for (int write = 0; write < 2; write++) {
        int users = 0, changed = 0;
        for (int i = k + 1; i < f->n_ops; i++) {
            FgFlatOp *o = &f->ops[i];
            int op = (int)(intptr_t)o->label, indexes = fg_flat_indexes(op) && o->b == sum;
            int last = !write && fg_flat_writes(o, sum, 4);
            if (indexes || (!write && fg_flat_touches(o, sum, 4, 1))) {
                int64_t reads = op == FLAT_take4 || op == FLAT_take8 ? (intptr_t)o->g : o->n;
                if (!indexes || changed || fg_flat_overlaps(o->a, reads, sum, 4)) return 0;
                users++;
            }
            changed |= fg_flat_writes(o, x, 4) || fg_flat_writes(o, y, 4);
            if (write) last = fg_flat_writes(o, sum, 4);
            if (indexes && write) {
                int to = op == FLAT_take4 ? FLAT_take4_sum : op == FLAT_take8 ? FLAT_take8_sum : op == FLAT_put4 ? FLAT_put4_sum : FLAT_put8_sum;
                o->label = (const void *)(intptr_t)to;
                o->n = (intptr_t)o->g; o->b = x; o->g = y;
            }
            if (last) break;
        }
        if (!users) return 0;
    }
    return 1;
}

/* Let counters that are added to where they are wait until the sub-program, whose ops begin at `first`, is done: windows find the number of this turn
 * then. Those that another op reads or writes later stay. */
static void fg_flat_count_last(FgFlat *f, int first) {
    for (int k = f->n_ops - 2; k >= first; k--) {
        FgFlatOp o = f->ops[k];
        const int bytes = (intptr_t)o.label == 4 * FG_CHAIN ? 4 : (intptr_t)o.label == FLAT_add_i64_mm ? 8 : 0;
        if (!bytes || (o.d != o.a && o.d != o.b) || fg_flat_takes_last((int)(intptr_t)f->ops[k + 1].label)) continue;
        int free = 1;
        for (int j = k + 1; j < f->n_ops && free; j++)
            free = !fg_flat_touches(&f->ops[j], o.d, bytes, 0) && !fg_flat_writes(&f->ops[j], o.d == o.a ? o.b : o.a, bytes);
        if (!free) continue;
        memmove(&f->ops[k], &f->ops[k + 1], (f->n_ops - 1 - k) * sizeof(FgFlatOp));
        f->ops[f->n_ops - 1] = o;
    }
}

/* Sums of two numbers that a sub-program without branches, whose ops begin at `first`, only uses as indices become a part of the windows. */
static void fg_flat_sum_indices(FgFlat *f, const FgState *st, int first) {
    enum { MOST = 512, ADDM = 4 * FG_CHAIN, SECOND = ADDM + 7, THIRD = ADDM + 35 };
    if (f->failed || f->n_ops - first > MOST) return;
    for (int k = first; k < f->n_ops; k++) {
        int op = (int)(intptr_t)f->ops[k].label;
        if ((op >= FLAT_jump && op <= FLAT_store) || op >= FLAT_unless_lt_f32 || op == FLAT_call) return;
    }
    fg_flat_count_last(f, first);
    for (int k = first; k < f->n_ops; k++) {
        FgFlatOp *o = &f->ops[k];
        int op = (int)(intptr_t)o->label, two = op >= SECOND && op < THIRD && (op - SECOND) % 4 == FG_STEP_ADD;
        if ((op != ADDM && !two) || (k + 1 < f->n_ops && fg_flat_takes_last((int)(intptr_t)f->ops[k + 1].label))) continue;
        if (!fg_flat_private(f, st, o->d) || !fg_flat_take_sum(f, k, o->d, two ? o->e : o->a, two ? o->c : o->b)) continue;
        if (two) { o->label = (const void *)(intptr_t)(ADDM + (op - SECOND) / 4); o->d = o->e; continue; }
        memmove(o, o + 1, (--f->n_ops - k) * sizeof(FgFlatOp));
        k--;
    }
}
#endif
