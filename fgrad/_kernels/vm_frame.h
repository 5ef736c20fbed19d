/* Small grids whose operands are moved by some places: rolls, pads and updated parts.
 *
 * In the middle of a grid each window has one side, and what lies side by side in the walk lies so in memory: one run of strips goes
 * through all of it, over the ends of rows too, each operand read at its place. What is wrong then, or left out, is the frame: a list of
 * elements that were brought to scratch before, computed there, and are written over it. Nothing is found or marked while it runs. */
#ifndef FG_VM_FRAME_H
#define FG_VM_FRAME_H
#include "vm_plan.h"

/* `count` pieces of `bytes` between scratch and memory, each `step`, and `move`, behind the one before; from: an input, or -1 - a constant's number */
typedef struct { int from, count; int64_t bytes, at, step, mem, move; } FgVmPiece;
typedef struct { int reg, piece, end; } FgVmFramed;         /* a register, or an output, and its pieces */

struct FgVmFrame {
    int64_t strips;                     /* of the middle, */
    int parts;                          /* of which threads do so many parts, each with what of the frame lies in it */
    size_t size;                        /* bytes of all of it */
    int n_read;                         /* registers that strips read from scratch */
    int64_t begin, bytes;               /* the run's first element, its length in each operand */
    int64_t span;                       /* bytes of scratch for a register: whole strips */
    FgVmFramed *read, *written;         /* of each part in turn; written: of each output */
    FgVmPiece *pieces;
    int *picked;                        /* register -> the input that it is in the middle, -1 for none */
    char *sides, *marks;                /* of each box: what the middle is; marks of the frame's elements */
};

enum { FG_FRAME_PARTS = 4, FG_FRAME_QUARTERS = 20000 };     /* elements of which threads have so many parts */
enum { FG_FRAME_NONE = -(1 << 30) };                        /* nothing lies there: a window leaves it out */

/* Where register r's element at `c` comes from: an input and its place, or a constant. */
static int fg_vm_origin(const FgVmPlan *p, const int *maker, int r, const int64_t *c, int64_t *at) {
    while (r >= p->n_in + p->n_const) {
        const FgVmOp *op = &p->ops[maker[r]];
        const FgVmBox *b = &p->boxes[op->box];
        int inside = 1;
        for (int d = 0; d < p->ndim; d++) inside &= c[d] >= b->lo[d] && c[d] < b->hi[d];
        r = inside ? op->a : op->b;
    }
    *at = 0;
    if (r >= p->n_in) return -1 - (r - p->n_in);
    const FgVmInput *in = &p->in[r];
    for (int d = 0; d < p->ndim && in->guard >= 0; d++) {
        const FgVmBox *b = &p->boxes[in->guard];
        if (c[d] < b->lo[d] || c[d] >= b->hi[d]) return FG_FRAME_NONE;
    }
    *at = in->shift + fg_vm_offset(p->ndim, c, in->strides);
    return r;
}

/* Add an element at place `e` of scratch to the pieces from `first` on, which grow to the end of `n`. */
static void fg_vm_add_piece(FgVmPiece *pieces, int first, int *n, int from, int64_t e, int64_t at, int64_t size) {
    FgVmPiece *last = *n > first ? &pieces[*n - 1] : 0;
    int64_t grown = from < 0 ? 0 : last ? last->bytes : 0;
    if (last && last->from == from && e * size == last->at + last->bytes && at * size == last->mem + grown) last->bytes += size;
    else pieces[(*n)++] = (FgVmPiece){from, 1, size, e * size, 0, at * size, 0};
}
/* Pieces that follow each other at equal steps become one. */
static int fg_vm_join_pieces(FgVmPiece *x, int first, int n) {
    int kept = first;
    for (int k = first; k < n; k++) {
        FgVmPiece p = x[k];
        if (!p.count) continue;
        for (int j = k + 1; j < n; j++) {
            if (!x[j].count || x[j].from != p.from || x[j].bytes != p.bytes) continue;
            int64_t step = x[j].at - p.at, move = x[j].mem - p.mem;
            if (p.count > 1 && (step != p.count * p.step || move != p.count * p.move)) continue;
            if (p.count == 1) { p.step = step; p.move = move; }
            p.count++;
            x[j].count = 0;
        }
        x[kept++] = p;
    }
    return kept;
}

static FgVmPiece *fg_vm_frame_alloc(char **memory, int64_t bytes) {
    char *at = *memory;
    *memory += (bytes + 63) / 64 * 64;
    return (FgVmPiece *)at;
}

/* True if only windows read register r whose side in the middle is the other one. */
static int fg_vm_left_out(const FgVmPlan *p, int r, const int64_t *c) {
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        int inside = op->op == FG_OP_window && op->a != r;
        if (op->strip < 0 || (op->a != r && op->b != r && op->c != r)) continue;
        for (int d = 0; d < p->ndim && inside; d++) inside = c[d] >= p->boxes[op->box].lo[d] && c[d] < p->boxes[op->box].hi[d];
        if (!inside) return 0;
    }
    return 1;
}

/* The frame of a plan that was made for one, in memory of its own; NULL if it has none. */
static FgVmFrame *fg_vm_make_frame(const FgVmPlan *p) {
    int64_t lo[FG_MAXDIM], hi[FG_MAXDIM], c[FG_MAXDIM + 1] = {0}, first = 0, end = 0, edge = 0, at;
    int lane = 0, made = p->n_in + p->n_const;
    if (!p->framed || !p->n_strips || p->mode != FG_MODE_FLAT) return NULL;
    lane = p->strips[0].lane;
    for (int k = 1; k < p->n_strips; k++) if (p->strips[k].lane != lane) return NULL;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        if (op->rows || (op->op != FG_OP_window && op->strip < 0) || (op->strip >= 0 && !op->taken && op->buf >= 0)) return NULL;
        if (fg_vm_is_view(op) && op->buf < 0) return NULL;
    }
    for (int k = 0; k < p->n_out; k++) if (!p->out[k].direct || p->out[k].access != FG_ACC_FULL) return NULL;
    fg_vm_middle(p, lo, hi);
    for (int d = 0; d < p->ndim; d++) { first = first * p->shape[d] + lo[d]; end = end * p->shape[d] + hi[d] - 1; }
    int64_t whole = (end + 1 - first) * lane / FG_STRIP * FG_STRIP;
    if (whole <= 0) return NULL;
    end = first + whole / lane;

    int64_t strips = whole / FG_STRIP, bound[FG_FRAME_PARTS + 1] = {0}, longest = 0;
    int parts = p->n >= FG_FRAME_QUARTERS ? FG_FRAME_PARTS : 5 * strips >= 3 * p->strip_grain ? 2 : 1;      /* two from 6 microseconds on */
    int *maker = (int *)malloc(p->n_regs * sizeof(int)), *elements = (int *)malloc(p->n * sizeof(int)), total = 0, n_read = 0, ok = 1;
    FgVmPiece *pieces = NULL;
    FgVmFramed *read = (FgVmFramed *)calloc(parts * (p->n_regs + p->n_out), sizeof(FgVmFramed)), *written = read + parts * p->n_regs;
    int *picked = (int *)malloc(p->n_regs * sizeof(int));
    FgVmFrame *f = NULL;
    ok = maker && elements && read && picked;
    for (int r = 0; r < p->n_regs && ok; r++) maker[r] = picked[r] = -1;
    for (int k = 0; k < p->n_ops && ok; k++) maker[p->ops[k].dst] = k;
    for (int64_t x = 0; x < p->n && ok; x++) {
        int middle = x >= first && x < end;
        fg_vm_coords(p->ndim, p->shape, x, c);
        for (int d = 0; d < p->ndim; d++) middle &= c[d] >= lo[d] && c[d] < hi[d];
        for (int k = 1; k < parts; k++) if (x == first + strips * k / parts * (FG_STRIP / lane)) bound[k] = edge;
        if (!middle) elements[edge++] = (int)x;
    }
    bound[parts] = edge;
    for (int k = 0; k < parts; k++) if (bound[k + 1] - bound[k] > longest) longest = bound[k + 1] - bound[k];
    if (ok) ok = 2 * edge <= p->n && (pieces = (FgVmPiece *)malloc((p->n_regs + p->n_out) * (edge + parts) * sizeof(FgVmPiece))) != NULL;
    for (int e = 0; ok && e < p->n_edges; e++) {
        int r = p->edges[e].reg, known = p->edges[e].written;
        for (int k = 0; k < n_read; k++) known |= read[parts * k].reg == r;
        if (known) continue;
        if (r >= made && !fg_vm_is_view(&p->ops[maker[r]])) { ok = 0; break; }
        int from = fg_vm_origin(p, maker, r, lo, &at), rows = 1, size = lane;
        FgVmFramed *x = &read[parts * n_read];
        x->reg = r;
        if (!fg_vm_left_out(p, r, lo)) {
            if (from < 0) { ok = 0; break; }
            picked[r] = from;
            size = p->in[from].size;
        }
        if (picked[r] >= 0) {
            const FgVmInput *in = &p->in[from];
            int64_t n = 1;
            for (int d = p->ndim - 1; d >= 0; n *= p->shape[d--]) {
                rows &= in->strides[d] == n;
                if (in->guard >= 0) rows &= p->boxes[in->guard].lo[d] <= lo[d] && p->boxes[in->guard].hi[d] >= hi[d];
            }
            ok = rows && in->access != FG_ACC_CACHED && in->shift + first >= in->first && in->shift + end <= in->end;
        }
        for (int part = 0; part < parts && ok; part++, x++) {
            *x = (FgVmFramed){r, total, 0};
            for (int64_t k = bound[part]; k < bound[part + 1] && ok; k++) {
                fg_vm_coords(p->ndim, p->shape, elements[k], c);
                int origin = fg_vm_origin(p, maker, r, c, &at);
                if (origin == FG_FRAME_NONE) continue;
                if (origin >= 0 && (p->in[origin].size != size || at < p->in[origin].first || at >= p->in[origin].end)) ok = 0;
                fg_vm_add_piece(pieces, x->piece, &total, origin, k - bound[part], at, size);
            }
            x->end = total = fg_vm_join_pieces(pieces, x->piece, total);
        }
        n_read++;
    }
    for (int k = 0; k < p->n_out && ok; k++) for (int part = 0; part < parts; part++) {
        FgVmFramed *x = &written[parts * k + part];
        *x = (FgVmFramed){p->out[k].reg, total, 0};
        for (int64_t j = bound[part]; j < bound[part + 1]; j++) fg_vm_add_piece(pieces, x->piece, &total, 0, j - bound[part], elements[j], lane);
        x->end = total = fg_vm_join_pieces(pieces, x->piece, total);
    }
    int64_t span = (longest * lane + FG_STRIP - 1) / FG_STRIP * FG_STRIP, marks = span / lane;
    if (ok) {
        int64_t bytes = 64 * 8 + sizeof(FgVmFrame) + parts * (n_read + p->n_out) * sizeof(FgVmFramed) + total * sizeof(FgVmPiece) + p->n_regs * sizeof(int) +
            p->n_boxes * (1 + parts * marks);
        char *memory = (char *)malloc(bytes);
        if ((f = (FgVmFrame *)memory)) {
            fg_vm_frame_alloc(&memory, sizeof *f);
            *f = (FgVmFrame){.size = bytes, .strips = strips, .parts = parts, .n_read = n_read, .begin = first, .bytes = whole, .span = span};
            f->read = (FgVmFramed *)fg_vm_frame_alloc(&memory, parts * (n_read + p->n_out) * sizeof(FgVmFramed));
            f->written = f->read + parts * n_read;
            f->pieces = fg_vm_frame_alloc(&memory, total * sizeof(FgVmPiece));
            f->picked = (int *)fg_vm_frame_alloc(&memory, p->n_regs * sizeof(int));
            f->sides = (char *)fg_vm_frame_alloc(&memory, p->n_boxes);
            f->marks = (char *)fg_vm_frame_alloc(&memory, parts * p->n_boxes * marks);
            memcpy(f->read, read, parts * n_read * sizeof *read);
            memcpy(f->written, written, parts * p->n_out * sizeof *read);
            memcpy(f->pieces, pieces, total * sizeof *pieces);
            memcpy(f->picked, picked, p->n_regs * sizeof *picked);
            for (int b = 0; b < p->n_boxes; b++) {
                const FgVmBox *box = &p->boxes[b];
                f->sides[b] = 1;
                for (int d = 0; d < p->ndim; d++) f->sides[b] &= lo[d] >= box->lo[d] && lo[d] < box->hi[d];
                for (int part = 0; part < parts; part++) for (int64_t k = 0; k < marks; k++) {
                    int64_t e = bound[part] + k;
                    int inside = e < bound[part + 1];
                    if (inside) fg_vm_coords(p->ndim, p->shape, elements[e], c);
                    for (int d = 0; d < p->ndim && inside; d++) inside &= c[d] >= box->lo[d] && c[d] < box->hi[d];
                    f->marks[(part * p->n_boxes + b) * marks + k] = inside ? -1 : 0;
                }
            }
        }
    }
    free(maker); free(elements); free(read); free(picked); free(pieces);
    return f;
}

/* Move a frame behind its plan; NULL: there is none. */
static void fg_vm_keep_frame(FgVmPlan *p, FgVmFrame *f, char *memory) {
    p->frame = NULL;
    if (!f) return;
    int64_t by = memory - (char *)f;
    memcpy(memory, f, f->size);
    free(f);
    p->frame = f = (FgVmFrame *)memory;
    f->read = (FgVmFramed *)((char *)f->read + by);
    f->written = (FgVmFramed *)((char *)f->written + by);
    f->pieces = (FgVmPiece *)((char *)f->pieces + by);
    f->picked = (int *)((char *)f->picked + by);
    f->sides += by;
    f->marks += by;
}

#define FG_MOVED(T) { for (int64_t k = 0; k < count; k++) { T v; memcpy(&v, src + k * ss, sizeof v); memcpy(dst + k * ds, &v, sizeof v); } }
static inline void fg_vm_move_pieces(char *dst, int64_t ds, const char *src, int64_t ss, int64_t count, int64_t bytes) {
    if (bytes == 1) FG_MOVED(uint8_t)
    else if (bytes == 2) FG_MOVED(uint16_t)
    else if (bytes == 4) FG_MOVED(uint32_t)
    else if (bytes == 8) FG_MOVED(uint64_t)
    else if (bytes == 16) FG_MOVED(fg_u128)
    else for (int64_t k = 0; k < count; k++) memcpy(dst + k * ds, src + k * ss, bytes);
}

/* Bytes of the table of pointers, and of all that a part of a run needs. */
static int64_t fg_vm_frame_head(const FgVmPlan *p) { return ((p->n_regs + p->n_boxes + p->n_slots) * (int64_t)sizeof(char *) + 63) / 64 * 64; }
static int64_t fg_vm_frame_bytes(const FgVmPlan *p) {
    return fg_vm_frame_head(p) + p->edge_buf + (p->frame->n_read + p->n_out) * p->frame->span + FG_STRIP;
}

/* False for the memory that it is given: a result may lie on what is read at its own place only. */
static int fg_vm_fits_frame(const FgVmPlan *p, const FgInst *inst, FgTensor *slots) {
    const FgVmFrame *f = p->frame;
    const FgVmThread t = {.p = p, .inst = inst, .slots = slots};
    const int64_t lane = p->strips[0].lane;
    for (int k = 0; k < f->n_read; k++) {
        int i = f->picked[f->read[f->parts * k].reg];
        if (i < 0) continue;
        const FgVmInput *in = &p->in[i];
        const char *from = FG_MEM(&t, i) + (in->shift + f->begin) * in->size;
        for (int o = 0; o < p->n_out; o++) {
            const char *to = FG_RESULT(&t, o) + f->begin * lane;
            if (from < to + f->bytes && to < from + f->bytes / lane * in->size && (from != to || p->out[o].write_time < in->last_use)) return 0;
        }
    }
    for (int i = 0; i < p->n_in && f->parts > 1; i++) {      /* what one part reads of another's place */
        const FgVmInput *in = &p->in[i];
        const char *mem = FG_MEM(&t, i), *own = mem + in->shift * in->size;
        for (int o = 0; o < p->n_out && !in->scalar; o++) {
            const char *to = FG_RESULT(&t, o);
            if (mem + in->first * in->size < to + p->n * lane && to < mem + in->end * in->size && (own != to || !fg_vm_is_whole(p, in->strides))) return 0;
        }
    }
    return 1;
}

/* A part of the run: its frame in `memory`, the middle, the frame over what that has left there. */
static void fg_vm_run_frame(const FgVmPlan *p, const FgInst *inst, FgTensor *slots, char *memory, int part) {
    const FgVmFrame *f = p->frame;
    const int64_t lane = p->strips[0].lane;
    char *work = memory + fg_vm_frame_head(p), *scratch = work + p->edge_buf, **ptr = (char **)memory, *at = scratch;
    FgVmThread t = {.p = p, .inst = inst, .slots = slots};
    for (int i = 0; i < p->n_in; i++) {
        if (!p->in[i].scalar) continue;
        ptr[i] = work + p->in[i].buf;                       /* one value, which an output may lie on */
        memcpy(ptr[i], FG_MEM(&t, i), p->in[i].size);
    }
    for (int k = 0; k < p->n_const; k++) ptr[p->consts[k].reg] = (char *)p->consts[k].bits;
    for (int k = 0; k < p->n_slots; k++) ptr[p->n_regs + p->n_boxes + k] = work + p->slot_buf + k * FG_STRIP;
    for (int k = 0; k < f->n_read; k++, at += f->span) {
        const FgVmFramed *r = &f->read[f->parts * k + part];
        const int64_t size = f->picked[r->reg] < 0 ? lane : p->in[f->picked[r->reg]].size;
        ptr[r->reg] = at;
        for (int j = r->piece; j < r->end; j++) {
            const FgVmPiece *x = &f->pieces[j];
            if (x->from >= 0) fg_vm_move_pieces(at + x->at, x->step, FG_MEM(&t, x->from) + x->mem, x->move, x->count, x->bytes);
            else for (int64_t c = 0; c < x->count; c++) fg_vm_fill(at + x->at + c * x->step, p->consts[-1 - x->from].bits, (int)size, x->bytes / size);
        }
    }
    for (int o = 0; o < p->n_out; o++) ptr[p->out[o].reg] = at + o * f->span;
    for (int b = 0; b < p->n_boxes; b++) ptr[p->n_regs + b] = f->marks + (part * p->n_boxes + b) * (f->span / lane);
    for (int k = 0; k < p->n_strips; k++) fg_run_strip(p, &p->strips[k], ptr, 0, f->span);
    for (int k = 0; k < f->n_read; k++) {
        int r = f->read[f->parts * k].reg, i = f->picked[r];
        if (i >= 0) ptr[r] = FG_MEM(&t, i) + (p->in[i].shift + f->begin) * p->in[i].size;
    }
    for (int o = 0; o < p->n_out; o++) ptr[p->out[o].reg] = FG_RESULT(&t, o) + f->begin * lane;
    for (int b = 0; b < p->n_boxes; b++) ptr[p->n_regs + b] = f->sides[b] ? FG_BOX_INSIDE : FG_BOX_OUTSIDE;
    for (int k = 0; k < p->n_strips; k++)
        fg_run_strip(p, &p->strips[k], ptr, f->strips * part / f->parts * FG_STRIP, f->strips * (part + 1) / f->parts * FG_STRIP);
    for (int o = 0; o < p->n_out; o++, at += f->span)
        for (int j = f->written[f->parts * o + part].piece; j < f->written[f->parts * o + part].end; j++) {
            const FgVmPiece *x = &f->pieces[j];
            fg_vm_move_pieces(FG_RESULT(&t, o) + x->mem, x->move, at + x->at, x->step, x->count, x->bytes);
        }
}
#endif
