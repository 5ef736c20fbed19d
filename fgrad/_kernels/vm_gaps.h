/* Walks whose rows are as long as those of memory.
 *
 * Rows of a part of a matrix end before the matrix's do: operands of one such length lie in one piece if the walk goes over the gaps too.
 * What is computed there is read from memory between the operands' elements, and is not stored; no input is copied to a tile row by row. */
#ifndef FG_VM_GAPS_H
#define FG_VM_GAPS_H

/* elements: of a walk, at least; of a row that needs no copy; a copy of a row costs; of a walk whose results are masked, at most */
enum { FG_GAPS_LEAST = 256, FG_GAPS_ROW = 256, FG_GAPS_WORTH = 60, FG_GAPS_MASKS = 1 << 20 };

/* True if all rows but the walk's last one can be read up to `row` elements: an operand's own rows follow. */
static int fg_vm_reaches(const FgVmPlan *p, const int64_t *strides, int64_t row) {
    int last = p->ndim - 1;
    if (strides[last] == 0) return 1;
    if (strides[last] < 0) return 0;
    for (int d = 0; d < last; d++) if (strides[d] < strides[last] * (row - p->shape[last])) return 0;
    return 1;
}

/* 1 if the walk, as it is, takes an operand as one piece. */
static int fg_vm_is_whole(const FgVmPlan *p, const int64_t *strides) {
    int64_t n = 1;
    for (int d = p->ndim - 1; d >= 0 && strides[d] == n; d--) n *= p->shape[d];
    return n == p->n;
}

/* 1 if the rows of an operand, as long as they are in memory, follow each other there: those of a part of more than two axes have gaps between planes. */
static int fg_vm_follow(const FgVmPlan *p, const int64_t *strides) {
    for (int d = p->ndim - 3; d >= 0; d--) if (p->shape[d] > 1 && strides[d] != strides[d + 1] * p->shape[d + 1]) return 0;
    return 1;
}

/* Lengthen the walk's rows to those of the memory that most inputs are read from, where that costs less than to copy them; `all`: only if nothing
 * is copied then, as the rows between two gaps are. */
static void fg_vm_lengthen(FgVmPlan *p, int all) {
    int last = p->ndim - 1, work = p->n_in, most = 0, copied = 0;
    int64_t row = 0;
    if (p->n_reduced || p->n_boxes || last < 1 || p->n <= FG_GAPS_LEAST || p->shape[last] >= FG_GAPS_ROW) return;
    for (int i = 0; i < p->n_in; i++) {
        const int64_t *s = p->in[i].strides;
        int same = 0;
        if (s[last] != 1 || s[last - 1] <= p->shape[last] || p->shape[last] * p->in[i].size == FG_VEC) continue;   /* one vector: copied as fast as read */
        for (int k = 0; k < p->n_in; k++) same += p->in[k].strides[last] == 1 && p->in[k].strides[last - 1] == s[last - 1];
        if (same > most) { most = same; row = s[last - 1]; }
    }
    for (int k = 0; k < p->n_ops; k++) work += fg_vm_info[p->ops[k].op].weight;
    for (int i = 0; i < p->n_in; i++) {
        if (!fg_vm_reaches(p, p->in[i].strides, row)) return;
        most -= fg_vm_is_whole(p, p->in[i].strides);
    }
    for (int o = 0; o < p->n_out; o++) {
        if (p->out[o].strides[last] != 1) return;
        most -= fg_vm_is_whole(p, p->out[o].strides);
    }
    for (int k = 0; k < p->n_in + p->n_out && last; k++) {
        const int64_t *s = k < p->n_in ? p->in[k].strides : p->out[k - p->n_in].strides;
        copied += s[last] == 1 && (s[last - 1] != row || !fg_vm_follow(p, s));
    }
    if ((all && copied) || most < 1 || (row - p->shape[last]) * work > FG_GAPS_WORTH * most) return;
    p->cols = p->shape[last];
    p->shape[last] = row;
    p->n = p->n / p->cols * row - (row - p->cols);
}

/* Of such a walk, what a strip may store where it lies with the gaps left out: a result whose rows are as long as the walk's, read by nobody
 * who would take it from memory. */
static int fg_vm_may_mask(const FgVmPlan *p, const FgVmOutput *out) {
#ifdef __AVX512F__
    int strip = -1, reads = 0;
    if (!p->cols || p->n > FG_GAPS_MASKS || out->reduce || out->run != p->n || out->dtype != out->type || out->dtype == FG_BOOL) return 0;
    for (int k = 0; k < p->n_ops; k++) {
        const FgVmOp *op = &p->ops[k];
        if (op->dst == out->reg) strip = op->strip;
        else if (strip >= 0 && op->strip != strip) reads += op->a == out->reg || op->b == out->reg || op->c == out->reg;
    }
    for (int o = 0; o < p->n_out; o++) reads += &p->out[o] != out && (p->out[o].reg == out->reg || p->out[o].reg2 == out->reg);
    return strip >= 0 && !reads && p->strips[strip].lane == out->size;
#else
    (void)p; (void)out;
    return 0;
#endif
}
/* What is no whole strip at the end of a walk is part of one that begins before it, and stores what the others have not. */
enum { FG_END_MASKS = 32 };                     /* bytes: of lanes of 4 and of 8 bytes */
static char *fg_vm_end_mask(const FgVmPlan *p, int lane) { return p->masks - FG_END_MASKS + (lane == 8 ? FG_END_MASKS / 2 : 0); }
static int64_t fg_vm_mask_bytes(const FgVmPlan *p) {
    int64_t strip = FG_STRIP / 4;
    return !p->masked ? 0 : FG_END_MASKS + (p->cols ? (p->n + strip - 1) / strip * strip / 8 : 0);
}
static void fg_vm_make_masks(FgVmPlan *p, char *memory) {
    if (!p->masked) return;
    int64_t row = p->cols ? p->shape[p->ndim - 1] : 1, cols = p->cols ? p->cols : 1;
    memset(memory, 0, fg_vm_mask_bytes(p));
    p->masks = memory + FG_END_MASKS;
    for (int64_t at = 0; p->cols && at < p->n; at++) if (at % row < cols) p->masks[at / 8] |= (char)(1 << at % 8);
    for (int lane = 4; lane <= 8; lane += 4)
        for (int64_t per = FG_STRIP / lane, at = p->n / per * per; at < p->n; at++) {
            int64_t bit = at - (p->n - per);
            if (at % row < cols) fg_vm_end_mask(p, lane)[bit / 8] |= (char)(1 << bit % 8);
        }
}

/* Results of `len` elements of such a walk: of each row what is no gap. */
static void fg_vm_store_cols(const FgVmPlan *p, const FgVmOutput *out, const char *src, char *mem, const int64_t *coord, int64_t len) {
    int last = p->ndim - 1;
    int64_t c[FG_MAXDIM + 1], row = p->shape[last];
    memcpy(c, coord, p->ndim * sizeof(int64_t));
    while (len > 0) {
        int64_t rows = 1, width = p->cols - c[last], moves = row - c[last];
        if (width > len) width = len;
        if (width == p->cols) {
            rows = (len + row - p->cols) / row;
            if (rows > p->shape[last - 1] - c[last - 1]) rows = p->shape[last - 1] - c[last - 1];
        }
        if (width > 0) fg_copy_rows(mem + fg_vm_offset(p->ndim, c, out->strides) * out->size, src, rows, width * out->size,
                                    row * out->size, out->strides[last - 1] * out->size);
        moves += (rows - 1) * row;
        src += moves * out->size; len -= moves;
        c[last] = 0; c[last - 1] += rows;
        for (int d = last - 1; d > 0 && c[d] == p->shape[d]; d--) { c[d] = 0; c[d - 1]++; }
    }
}
#endif
