/* Tiles of the flat, segment and wide modes, one after the other: part of vm_plan.h.
 *
 * Where nothing but places in memory changes from one tile to the next, as in rows that a column has one value for, the next tiles are
 * steps: pointers move on by what was found once for many tiles, and the ops run again. Looking all that up again for a row of 768
 * elements takes half as long as computing it. */
#ifndef FG_VM_TILES_H
#define FG_VM_TILES_H

enum { FG_VM_MOVES = 32 };
/* How registers' pointers move with a tile: along `axis` of the walk by `by`, or anywhere (axis < 0). */
typedef struct { int n, axis, reg[FG_VM_MOVES]; int64_t by, bytes[FG_VM_MOVES]; } FgVmStep;

static int fg_vm_moves(FgVmStep *s, int reg, int64_t bytes) {
    if (s->n == FG_VM_MOVES) return 0;
    s->reg[s->n] = reg;
    s->bytes[s->n++] = bytes;
    return 1;
}

/* Find how tiles of `len` elements follow each other; 0 if they need more than that. */
static int fg_vm_find_step(const FgVmThread *t, int64_t len, FgVmStep *s) {
    const FgVmPlan *p = t->p;
    s->n = 0; s->axis = -1; s->by = len;
    if (p->prefetches || p->n_boxes || p->cols || p->columns || p->n_tables) return 0;
    if (p->any_general)
        for (s->axis = p->ndim - 1; s->axis > 0 && s->by % p->shape[s->axis] == 0; s->axis--) s->by /= p->shape[s->axis];
    for (int j = t->part->in; j < t->part->in_end; j++) {
        int i = p->in_order[j];
        const FgVmInput *in = &p->in[i];
        if (in->access == FG_ACC_CACHED) continue;
        if ((in->dtype != in->type && !in->raw) || t->copied[i] || in->access == FG_ACC_PLACE || (in->access == FG_ACC_GENERAL && !in->lies)) return 0;
        if (in->access != FG_ACC_FULL && s->axis < 0) return 0;
        if (!fg_vm_moves(s, i, (in->access == FG_ACC_FULL ? len : s->by * in->strides[s->axis]) * in->size)) return 0;
    }
    for (int k = t->part->op; k < t->part->op_end; k++) {
        const FgVmOp *op = &p->ops[k];
        if (fg_vm_is_view(op) || op->rows) return 0;
        if (op->buf >= 0) continue;
        const FgVmOutput *out = &p->out[-1 - op->buf];
        if (out->access != FG_ACC_FULL && s->axis < 0) return 0;
        int64_t moves = out->access == FG_ACC_FULL ? len : s->by * out->strides[s->axis];
        if (t->streamed[-1 - op->buf] || !fg_vm_moves(s, op->dst, moves * out->size)) return 0;
    }
    for (int j = t->part->out; j < t->part->out_end; j++) {
        const FgVmOutput *out = &p->out[p->out_order[j]];
        if (!out->reduce && !out->direct) return 0;
    }
    return 1;
}

static void fg_vm_step(FgVmThread *t, const FgVmStep *s, int64_t len) {
    const FgVmPlan *p = t->p;
    FgVmAhead ahead = {0, 1, 0, 0, 0};
    for (int k = 0; k < s->n; k++) t->ptr[s->reg[k]] += s->bytes[k];
    for (int k = t->part->op, last = t->part->op_end; (k = fg_vm_next(p, k, last)) < last; k++) {
        const FgVmOp *op = &p->ops[k];
        if (op->strip < 0) fg_vm_run_loop(t, op, len, &ahead);
        else if (!fg_vm_waits(p, k)) fg_vm_run_strip(t, &p->strips[op->strip], len, &ahead);
    }
}

/* Reduce a tile of the segment mode, or of the wide one, whose unit is u. */
static void fg_vm_reduce_tile(FgVmThread *t, char *partials, int64_t u, int64_t start, int64_t len) {
    const FgVmPlan *p = t->p;
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        if (!out->reduce) continue;
        int64_t size = fg_itemsize(out->type);
        const char *src = t->ptr[out->reg], *src2 = t->ptr[out->reg2 < 0 ? out->reg : out->reg2];
        if (p->mode == FG_MODE_WIDE) { out->seg(partials + out->part + u * size, src, src2, 1, len, 1); continue; }
        int64_t per = p->n_red * p->n_inner, rows = len / per, at = start / per * p->n_inner;
        char *acc = t->work + out->buf, *dst = out->dtype != out->type ? acc : FG_RESULT(t, o) + at * out->size;
        if (!p->folds) {
            out->seg(dst, src, src2, rows, p->n_red, p->n_inner);
            fg_vm_put(t, o, at, rows * p->n_inner, dst);
        } else for (int64_t r = 0; r < rows; r++) {
            out->tiles(acc, src + r * per * out->term, src2 + r * per * out->term, 1, per, 0, 1);
            fg_vm_fold(out->fn, acc, p->n_red, p->n_inner, size);
            fg_vm_put(t, o, at + r * p->n_inner, p->n_inner, acc);
        }
    }
}

/* Of `len` elements of a walk along one axis from `start` on, so many that either no box begins or ends within them, or they are the strip in
 * which one does: most of a vector lies on one side of all boxes then, and windows cost nothing there. The last piece is no less than a strip. */
enum { FG_PIECE = FG_STRIP / 4 };
static int64_t fg_vm_piece(const FgVmPlan *p, int64_t start, int64_t len) {
    int64_t n = len;
    for (int k = 0; k < p->n_boxes; k++) for (int j = 0; j < 2; j++) {
        int64_t at = (j ? p->boxes[k].hi[0] : p->boxes[k].lo[0]) - start;
        if (at <= 0 || at >= len || at % FG_PIECE == 0) continue;
        at = at / FG_PIECE * FG_PIECE;
        if (at == 0) at = FG_PIECE;
        if (at < n) n = at;
    }
    if (n < len && len - n < FG_PIECE) n = n > FG_PIECE ? n - FG_PIECE : len;
    return n;
}

/* Units [begin, end) of the part. */
static void fg_vm_run_rows(FgVmThread *t, char *partials, int64_t begin, int64_t end) {
    const FgVmPlan *p = t->p;
    int64_t coord[FG_MAXDIM + 1] = {0}, whole = p->chunks == 1 ? p->row : p->step, row = begin / p->chunks, c = begin % p->chunks;
    FgVmStep step;
    if (p->in_strips) { fg_vm_run_in_strips(t, begin, end); return; }
    if (fg_vm_run_each_row(t, begin, end)) return;
    int pieces = p->ndim == 1 && p->n_boxes && p->mode == FG_MODE_FLAT && !p->prefetches;
    int steps = end - begin > 1 && fg_vm_find_step(t, whole, &step);
    for (int64_t u = begin, more = 0; u < end; u++) {
        int64_t start = row * p->row + c * p->step, left = p->row - c * p->step, len = left < p->step ? left : p->step;
        if (pieces) {
            for (int64_t n; len > 0; start += n, len -= n) {
                n = fg_vm_piece(p, start, len);
                fg_vm_compute(t, coord, start, n);
                fg_vm_store(t, coord, start, n);
            }
        }
        else if (more > 0 && len == whole) { fg_vm_step(t, &step, len); more--; }
        else {
            fg_vm_compute(t, coord, start, len);
            more = !steps || len < whole ? 0 : step.axis < 0 ? end : (p->shape[step.axis] - coord[step.axis]) / step.by - 1;
        }
        if (p->n_reduced) fg_vm_reduce_tile(t, partials, u, start, len);
        if (!pieces) fg_vm_store(t, coord, start, len);
        if (++c == p->chunks) { c = 0; row++; }
    }
}

/* After the wide mode: the chunks of each row. */
static void fg_vm_finish_wide(FgVmThread *t, char *partials) {
    const FgVmPlan *p = t->p;
    for (int o = 0; o < p->n_out; o++) if (p->out[o].reduce) {
        const FgVmOutput *out = &p->out[o];
        char *part = partials + out->part;
        /* in place: row r is read before slot r <= r * chunks is written */
        fg_vm_seg[out->reduce][out->type](part, part, part, p->n_outer, p->chunks, 1);
        fg_vm_put(t, o, 0, p->n_outer, part);
    }
}
#endif
