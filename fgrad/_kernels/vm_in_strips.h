/* Reductions of rows, strip by strip: part of vm_plan.h.
 *
 * Where stages make all that is reduced (vm_find_in_strips.h), each strip's last stage folds its vectors to one for each of its rows
 * (vm_strip_folds.h): there is no tile that is stored to be read once more, and operands are read where they lie, also those that many rows
 * share. The lanes of a batch of rows are reduced together. Batches are units, so that nothing depends on the number of threads. */
#ifndef FG_VM_IN_STRIPS_H
#define FG_VM_IN_STRIPS_H

enum { FG_IN_STRIPS_READ = 32 };                                       /* operands at most that move; others take the table's place */
/* An operand that moves from row to row: by `step` bytes, or to the next of `rows` copies side by side (step 0), where it was brought to `edge`. */
typedef struct { int reg; int64_t size, step; char *mem, *end, *edge; const int64_t *strides; } FgVmRowRead;

static int fg_vm_find_reads(const FgVmThread *t, FgVmRowRead *reads, int *vectors) {
    const FgVmPlan *p = t->p;
    FgVmStrip *s = &p->strips[0];
    int n = 0;
    for (int k = 0; k < s->n_edges; k++) {
        const int i = p->edges[s->edge + k].reg;
        const FgVmInput *in = &p->in[i];
        const int kept = in->access == FG_ACC_CACHED;                  /* one row for all, in the thread's memory */
        reads[n++] = (FgVmRowRead){i, in->size, 0, kept ? t->ptr[i] : FG_MEM(t, i), kept ? 0 : FG_MEM(t, i) + in->end * in->size,
                                   t->work + p->edge_buf + k * FG_STRIP, kept ? 0 : in->strides};
    }
    *vectors = n;
    for (int i = 0; i < p->n_in; i++)                                  /* columns */
        if (p->in[i].access == FG_ACC_ROW) reads[n++] = (FgVmRowRead){i, p->in[i].size, 0, FG_MEM(t, i), 0, 0, p->in[i].strides};
    return n;
}

/* A row whose operands' memory may end before its last strip does: it is copied. */
static void fg_vm_run_last_row(FgVmThread *t, FgVmStrip *s, const FgVmRowRead *reads, int vectors) {
    char *at[FG_IN_STRIPS_READ + FG_EDGES_PER_OP];
    for (int j = 0; j < vectors; j++) {
        at[j] = t->ptr[reads[j].reg];
        if (at[j] == reads[j].edge) continue;
        memcpy(reads[j].edge, at[j], t->p->n_red * reads[j].size);
        t->ptr[reads[j].reg] = reads[j].edge;
    }
    fg_run_some(t->p, s, t->ptr, 0, FG_STRIP);
    for (int j = 0; j < vectors; j++) t->ptr[reads[j].reg] = at[j];
}

/* Units [begin, end): batches of rows. */
static void fg_vm_run_in_strips(FgVmThread *t, int64_t begin, int64_t end) {
    const FgVmPlan *p = t->p;
    FgVmStrip *s = &p->strips[0];
    const int64_t k = p->n_red, lane = s->lane, per = FG_STRIP / lane, whole = (k & -per) * lane, row = k * lane, h = p->in_strips;
    const int64_t each = (row + FG_STRIP - 1) / FG_STRIP * FG_VEC;     /* bytes of a row's lanes */
    const int last = p->ndim - 2, tail = whole < row;
    int64_t coord[FG_MAXDIM + 1] = {0}, u = begin * p->batch, stop = end * p->batch < p->n_outer ? end * p->batch : p->n_outer, filled = 0;
    FgVmRowRead reads[FG_IN_STRIPS_READ];
    int vectors, n = fg_vm_find_reads(t, reads, &vectors);
    for (int o = 0; o < p->n_out; o++) t->ptr[p->sums + o] = t->work + p->out[o].buf;
    while (u < stop) {
        fg_vm_coords(p->ndim, p->shape, u * k, coord);
        int64_t rows = last < 0 ? 1 : p->shape[last] - coord[last];
        rows = rows < stop - u ? rows : stop - u;
        int64_t safe = rows;                                           /* rows whose last strip ends where there is memory */
        for (int j = 0; j < n; j++) {
            FgVmRowRead *x = &reads[j];
            char *mem = x->strides ? x->mem + fg_vm_offset(p->ndim, coord, x->strides) * x->size : x->mem;
            x->step = x->strides && last >= 0 ? x->strides[last] * x->size : 0;
            if (h > 1 && j < vectors && !x->step) {                    /* the same row, as often as a strip has rows */
                for (int64_t c = 0; c < h; c++) memcpy(x->edge + c * row, mem, row);
                mem = x->edge;
            } else if (!whole && x->end) {
                int64_t room = x->end - mem - FG_STRIP, most = room < 0 ? 0 : x->step ? room / x->step + 1 : rows;
                safe = most < safe ? most : safe;
            }
            t->ptr[x->reg] = mem;
        }
        for (int64_t r = 0; r < rows; ) {
            int64_t m = rows - r < p->batch - filled ? rows - r : p->batch - filled, turn = r + m;
            for (; h > 1 && r + h <= turn; r += h) {
                fg_run_strip(p, s, t->ptr, 0, FG_STRIP);
                for (int j = 0; j < n; j++) t->ptr[reads[j].reg] += h * reads[j].step;
                for (int o = 0; o < p->n_out; o++) t->ptr[p->sums + o] += h * each;
            }
            for (; r < turn; r++) {
                if (whole) fg_run_strip(p, s, t->ptr, 0, whole);
                if (tail && whole) fg_run_some(p, s, t->ptr, row - FG_STRIP, row);
                else if (tail && r < safe) fg_run_some(p, s, t->ptr, 0, FG_STRIP);
                else if (tail) fg_vm_run_last_row(t, s, reads, vectors);
                for (int j = 0; j < n; j++) t->ptr[reads[j].reg] += reads[j].step;
                for (int o = 0; o < p->n_out; o++) t->ptr[p->sums + o] += each;
            }
            filled += m;
            u += m;
            if (filled < p->batch && u < stop) continue;
            for (int o = 0; o < p->n_out; o++) {
                const FgVmOutput *out = &p->out[o];
                char *lanes = t->ptr[p->sums + o] = t->work + out->buf;
                fg_vm_seg[out->reduce][out->type](FG_RESULT(t, o) + (u - filled) * out->size, lanes, lanes, filled, each / lane, 1);
            }
            filled = 0;
        }
    }
}
#endif
