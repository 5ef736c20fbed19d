/* Reductions along columns: tiles of rows are added to accumulators of a tile, whose rows are folded at the end. Part of vm_plan.h. */
#ifndef FG_VM_COLUMNS_H
#define FG_VM_COLUMNS_H

#define FG_FLUSH 64    /* tiles between two flushes of the first accumulator into the second: keeps float32 sums accurate */

/* acc op= src over finished values, or acc = src */
static inline void fg_vm_flush(const FgVmOutput *out, char *acc, const char *src, int64_t len, int empty) {
    if (empty) memcpy(acc, src, len * fg_itemsize(out->type));
    else out->fn(len, acc, acc, src, src);
}

/* Add `tiles` tiles of `n` values, `stride` apart, and `rest` values of one more to the accumulators. */
static void fg_vm_accumulate(FgVmThread *t, int64_t tiles, int64_t n, int64_t stride, int64_t rest, int empty) {
    const FgVmPlan *p = t->p;
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        if (!out->reduce) continue;
        int64_t skip = tiles * stride * out->term;
        char *acc = t->work + out->buf, *src = t->ptr[out->reg];
        const char *src2 = out->reg2 < 0 ? src : t->ptr[out->reg2];
        if (p->sums_segments) {
            char *sums = empty ? acc : t->work + p->seg_buf;
            int64_t len = tiles * n + rest;
            out->seg(sums, src, src2, len / p->seg_width, p->n_seg, p->seg_width);
            if (!empty) out->fn(len, acc, acc, sums, sums);
            continue;
        }
        if (tiles) out->tiles(acc, src, src2, tiles, n, stride, empty);
        if (rest) out->tiles(acc, src + skip, src2 + skip, 1, rest, 0, empty && !tiles);
    }
}

/* Booleans of rows longer than a tile, which come one piece of a row at a time, wait for some more of them: they are added as bytes, and widened
 * once. With AVX-512 one instruction widens a vector. */
#ifdef __AVX512F__
enum { FG_KEPT_ROWS = 1 };
#else
enum { FG_KEPT_ROWS = 8 };
#endif
enum { FG_KEPT_BYTES = 4096 };
/* The output that counts them; NULL if that is not all there is to reduce. */
static const FgVmOutput *fg_vm_kept(const FgVmPlan *p) {
    const FgVmOutput *kept = 0;
    if (FG_KEPT_ROWS == 1 || p->n_inner <= p->step || p->step > FG_KEPT_BYTES || p->n_seg > 1 || p->group > 1) return 0;
    for (int o = 0; o < p->n_out; o++) {
        const FgVmOutput *out = &p->out[o];
        if (!out->reduce) continue;
        if (kept || out->term != 1 || fg_itemsize(out->type) == 1) return 0;
        kept = out;
    }
    return kept;
}

/* Columns mode: unit = (outer, block of reduced rows, chunk of columns).  A whole tile is added to a tile-sized accumulator;
 * the tile's rows are folded into one at the end. */
static void fg_vm_run_columns(FgVmThread *t, char *partials, int64_t begin, int64_t end) {
    const FgVmPlan *p = t->p;
    int64_t coord[FG_MAXDIM + 1] = {0}, steps = (p->n_red + p->tile_rows - 1) / p->tile_rows;
    const FgVmOutput *kept = fg_vm_kept(p);
    const FgVmOp *last = &p->ops[t->part->op_end - 1], *loop = kept && last->dst == kept->reg && last->strip < 0 && last->buf >= 0 && !last->rows ? last : 0;
    char rows_kept[FG_KEPT_ROWS * FG_KEPT_BYTES];         /* a loop that comes last puts them here itself */
    for (int64_t u = begin; u < end; u++) {
        int64_t c = u % p->chunks, b = u / p->chunks % p->blocks, outer = u / p->chunks / p->blocks;
        int64_t s = steps * b / p->blocks, s_end = steps * (b + 1) / p->blocks, col = c * p->step;
        int64_t width = p->n_inner - col < p->step ? p->n_inner - col : p->step;
        int64_t filled = 0, filled2 = 0;                   /* rows held by the two accumulators */
        int64_t held = p->sums_segments ? width : width * p->n_seg, seg = held / width;      /* elements of such a row */
        for (int64_t k = 0, added = 0; s + k < s_end; k += p->group, added += p->group) {
            int64_t m = (s + k) * p->tile_rows, most = (s_end - s - k < p->group ? s_end - s - k : p->group) * p->tile_rows;
            int64_t rows = p->n_red - m < most ? p->n_red - m : most, whole = rows / p->tile_rows, rest = rows % p->tile_rows;
            int flush = added >= FG_FLUSH;
            for (int o = 0; flush && o < p->n_out; o++) if (p->out[o].reduce)
                fg_vm_flush(&p->out[o], t->work + p->out[o].buf2, t->work + p->out[o].buf, filled * held, filled2 == 0);
            if (flush) { filled2 = filled; filled = added = 0; }
            int64_t start = (outer * p->n_red + m) * p->n_inner + col;
            int64_t len = p->n_inner > p->step ? width : rows * width;   /* of rows longer than a tile, only what is not computed */
            const int64_t have = added % FG_KEPT_ROWS;             /* all are added before a flush */
            char *slot = rows_kept + have * width;
            if (loop) t->ptr[kept->reg] = slot;
            fg_vm_compute(t, coord, start * p->n_seg, len * p->n_seg);
            if (!kept) fg_vm_accumulate(t, whole, p->tile_rows * held, p->tile_rows * p->n_inner * seg, rest * held, filled == 0);
            else {
                if (t->ptr[kept->reg] != slot) memcpy(slot, t->ptr[kept->reg], width);
                if (have + 1 == FG_KEPT_ROWS || s + k + 1 == s_end) kept->tiles(t->work + kept->buf, rows_kept, rows_kept, have + 1, width, width, added < FG_KEPT_ROWS);
            }
            fg_vm_store(t, coord, start * p->n_seg, len * p->n_seg);
            if (filled == 0) filled = whole ? p->tile_rows : rest;
        }
        for (int o = 0; o < p->n_out; o++) {
            const FgVmOutput *out = &p->out[o];
            if (!out->reduce) continue;
            int64_t size = fg_itemsize(out->type);
            char *acc = t->work + out->buf, *acc2 = t->work + out->buf2;
            fg_vm_fold(out->fn, acc, filled, held, size);
            fg_vm_fold(out->fn, acc2, filled2, held, size);
            if (filled2) out->fn(held, acc, acc2, acc, acc);
            if (seg > 1) {
                fg_vm_seg[out->reduce][out->type](t->work + p->seg_buf, acc, acc, width / p->seg_width, seg, p->seg_width);
                acc = t->work + p->seg_buf;
            }
            if (p->blocks == 1) fg_vm_put(t, o, outer * p->n_inner + col, width, acc);
            else memcpy(partials + out->part + ((outer * p->blocks + b) * p->n_inner + col) * size, acc, width * size);
        }
    }
    if (loop) t->ptr[kept->reg] = t->work + loop->buf;
}
static void fg_vm_finish_columns(FgVmThread *t, char *partials) {
    const FgVmPlan *p = t->p;
    for (int o = 0; o < p->n_out; o++) if (p->out[o].reduce) {
        const FgVmOutput *out = &p->out[o];
        int64_t size = fg_itemsize(out->type), group = p->blocks * p->n_inner * size;
        for (int64_t k = 0; k < p->n_outer; k++) {
            char *part = partials + out->part + k * group;
            fg_vm_fold(out->fn, part, p->blocks, p->n_inner, size);
            fg_vm_put(t, o, k * p->n_inner, p->n_inner, part);
        }
    }
}
#endif
