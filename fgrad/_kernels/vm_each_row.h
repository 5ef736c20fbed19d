/* Rows that are tiles although they are short: part of vm_plan.h.
 *
 * A row of a part of a matrix, as a stencil reads it, lies somewhere else for each operand. One strip after the other reads it where it lies,
 * beyond its end if memory goes on there, and writes what it has: no row is copied, and nothing is looked up from row to row. */
#ifndef FG_VM_EACH_ROW_H
#define FG_VM_EACH_ROW_H

enum { FG_VM_ROWS = 32 };                                     /* operands at most */
typedef struct { int reg, guard; int64_t size; char *mem, *begin, *end; const int64_t *strides; } FgVmRowOf;     /* mem: where the walk begins */

/* The operands of the part whose places move from row to row; -1 if its rows need more than one strip's program. */
static int fg_vm_find_row(const FgVmThread *t, FgVmRowOf *rows) {
    const FgVmPlan *p = t->p;
    int n = 0, strip = p->ops[t->part->op_end - 1].strip;
    if (!p->by_rows || strip < 0 || p->n_in + p->n_out > FG_VM_ROWS) return -1;
    for (int j = t->part->in; j < t->part->in_end; j++) {
        int i = p->in_order[j];
        const FgVmInput *in = &p->in[i];
        if (in->access == FG_ACC_CACHED) continue;
        if (t->copied[i] || in->access == FG_ACC_PLACE || (in->access == FG_ACC_GENERAL && !in->lies)) return -1;
        char *mem = FG_MEM(t, i), *end = in->access == FG_ACC_ROW ? 0 : mem + in->end * in->size;
        rows[n++] = (FgVmRowOf){i, in->guard, in->size, mem + in->shift * in->size, mem + in->first * in->size, end, in->strides};
    }
    for (int k = t->part->op; k < t->part->op_end; k++) {
        const FgVmOp *op = &p->ops[k];
        const FgVmOutput *out = &p->out[-1 - op->buf];
        if (op->strip != strip) return -1;
        if (op->buf >= 0) continue;
        char *mem = FG_RESULT(t, -1 - op->buf);
        int64_t end = 1;
        if (t->streamed[-1 - op->buf]) return -1;
        for (int d = 0; d < p->ndim; d++) end += (p->shape[d] - 1) * out->strides[d];
        rows[n++] = (FgVmRowOf){op->dst, -1, out->size, mem, mem, mem + end * out->size, out->strides};
    }
    for (int j = t->part->out; j < t->part->out_end; j++) if (!p->out[p->out_order[j]].direct) return -1;
    return n;
}

/* Does no operand that is read lie where rows are written? */
static int fg_vm_rows_apart(const FgVmThread *t, const FgVmRowOf *row, int n) {
    for (int o = 0; o < n; o++) for (int i = 0; i < n && row[o].reg >= t->p->n_in; i++)
        if (row[i].reg < t->p->n_in && row[i].begin < row[o].end && row[o].begin < row[i].end) return 0;
    return 1;
}

/* Of up to `rows` rows from `coord` on: as many as lie on one side of each box; the marks of the boxes for them. */
static int64_t fg_vm_mark_rows(FgVmThread *t, const int64_t *coord, int64_t rows) {
    const FgVmPlan *p = t->p;
    int last = p->ndim - 1;
    int64_t at = coord[last - 1];
    for (int k = 0; k < p->n_boxes; k++) {
        const FgVmBox *b = &p->boxes[k];
        int inside = 1, whole = b->lo[last] == 0 && b->hi[last] == p->shape[last];
        for (int d = 0; d < last - 1; d++) inside &= coord[d] >= b->lo[d] && coord[d] < b->hi[d];
        int64_t turn = !inside || at >= b->hi[last - 1] ? rows : at < b->lo[last - 1] ? b->lo[last - 1] - at : b->hi[last - 1] - at;
        if (turn < rows) rows = turn;
        inside &= at >= b->lo[last - 1] && at < b->hi[last - 1];
        t->ptr[p->n_regs + k] = !inside ? FG_BOX_OUTSIDE : whole || !b->marked ? FG_BOX_INSIDE : t->work + b->buf;
        if (!inside || whole || !b->marked) continue;
        memset(t->work + b->buf, 0, p->shape[last]);
        memset(t->work + b->buf + b->lo[last], -1, b->hi[last] - b->lo[last]);
    }
    return rows;
}

/* `count` rows by code made for them, whose table of pointers has room behind it. */
static void fg_vm_run_rows_code(const FgVmThread *t, FgStripCode code, const FgVmRowOf *row, const int64_t *step, int n, int64_t count) {
    const int entries = t->p->n_regs + t->p->n_boxes + t->p->n_slots;
    char *table[FG_ROWS_LEFT + 1];
    memcpy(table, t->ptr, entries * sizeof(char *));
    memset(table + FG_ROWS_STEPS, 0, entries * sizeof(char *));
    for (int k = 0; k < n; k++) {
        memcpy(&table[FG_ROWS_STEPS + row[k].reg], &step[k], sizeof(int64_t));
        t->ptr[row[k].reg] += count * step[k];
    }
    code(table, count, 0);
}

/* Rows [u, end) of the part, each of one strip's program; false if that is not all there is to do. */
static int fg_vm_run_each_row(FgVmThread *t, int64_t u, int64_t end) {
    const FgVmPlan *p = t->p;
    FgVmRowOf row[FG_VM_ROWS];
    int64_t coord[FG_MAXDIM + 1] = {0}, step[FG_VM_ROWS], len = p->row;
    int last = p->ndim - 1, n = fg_vm_find_row(t, row);
    if (n < 0) return 0;
    FgVmStrip *s = &p->strips[p->ops[t->part->op_end - 1].strip];
    const FgStage *stages = p->stages + s->stage, *some = p->stages + s->some;
    int64_t per = FG_STRIP / (unsigned)s->lane, whole = len & -per, at = whole * s->lane;
    const FgStripCode code = fg_strip_code_of(p, s, (end - u) * len * s->lane);
    const FgStripCode rows_code = code && p->n_regs + p->n_boxes + p->n_slots <= FG_ROWS_STEPS ?
        fg_rows_code_of(p, s, fg_vm_rows_apart(t, row, n) ? FG_CODE_ROWS_APART : FG_CODE_ROWS) : NULL;
    const int64_t span = whole < len && !code ? whole + per : len;
    while (u < end) {
        fg_vm_coords(p->ndim, p->shape, u * len, coord);
        int64_t rows = p->shape[last - 1] - coord[last - 1], early = 0, safe;      /* rows of which something lies before memory begins */
        safe = rows = fg_vm_mark_rows(t, coord, rows < end - u ? rows : end - u);
        for (int k = 0; k < n; k++) {
            char *mem = t->ptr[row[k].reg] = row[k].mem + fg_vm_offset(p->ndim, coord, row[k].strides) * row[k].size;
            step[k] = row[k].strides[last - 1] * row[k].size;
            if (row[k].guard >= 0 && t->ptr[p->n_regs + row[k].guard] == FG_BOX_OUTSIDE) {
                t->ptr[row[k].reg] = t->work + p->in[row[k].reg].buf;              /* there is none: whatever lies there */
                step[k] = 0;
                continue;
            }
            if (!row[k].end) continue;
            int64_t before = row[k].begin - mem, room = row[k].end - mem - span * row[k].size;
            if (before > 0) before = step[k] ? (before + step[k] - 1) / step[k] : rows;
            if (before > early) early = before;
            int64_t most = room < 0 ? 0 : step[k] ? room / step[k] + 1 : rows;
            if (most < safe) safe = most;
        }
        if (early) { rows = early < rows ? early : rows; safe = 0; }
        if (rows_code && safe) fg_vm_run_rows_code(t, rows_code, row, step, n, safe);
        else for (int64_t r = 0; r < safe; r++) {
            if (code) code(t->ptr, 0, len * s->lane);
            else {
                fg_run_stages(stages, t->ptr, 0, at);
                if (whole < len) fg_run_stages(some, t->ptr, at, at + FG_STRIP);
            }
            for (int k = 0; k < n; k++) t->ptr[row[k].reg] += step[k];
        }
        for (u += safe; safe < rows; safe++, u++) {
            fg_vm_coords(p->ndim, p->shape, u * len, coord);
            fg_vm_compute(t, coord, u * len, len);
        }
    }
    return 1;
}
#endif
