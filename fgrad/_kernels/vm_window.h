/* Operands that have memory for a box of the walk only, and windows: one operand inside a box, another outside.
 *
 * What a guarded input gives outside its box is whatever lies there, or lay there: a window that follows leaves it out.  Inside and
 * outside of boxes, which most tiles are, neither moves anything: a window is then the tile of one operand. */
#ifndef FG_VM_WINDOW_H
#define FG_VM_WINDOW_H

/* `len` elements of the walk over `shape` from `coord` row by row: fn(at, n, inside) for parts of rows inside and outside the box. */
#define FG_BY_ROWS(p, b, coord, len, BODY) { \
    int64_t c[FG_MAXDIM + 1], at = 0, last = (p)->ndim - 1; \
    memcpy(c, coord, (p)->ndim * sizeof(int64_t)); \
    while (at < len) { \
        int64_t n = (p)->shape[last] - c[last] < (len) - at ? (p)->shape[last] - c[last] : (len) - at, lo = n, hi = n; \
        int inside = 1; \
        for (int d = 0; d < last; d++) inside &= c[d] >= (b)->lo[d] && c[d] < (b)->hi[d]; \
        if (inside) { \
            lo = (b)->lo[last] - c[last]; hi = (b)->hi[last] - c[last]; \
            lo = lo < 0 ? 0 : lo > n ? n : lo; \
            hi = hi < lo ? lo : hi > n ? n : hi; \
        } \
        BODY \
        at += n; \
        c[last] = 0; \
        for (int64_t d = last - 1; d >= 0 && ++c[d] == (p)->shape[d] && d > 0; d--) c[d] = 0; \
    } }

/* Elements of a guarded input within its box; or of any other. */
static void fg_vm_gather(const FgVmPlan *p, const FgVmInput *in, char *dst, char *mem, const int64_t *coord, int64_t len) {
    if (in->guard < 0) { fg_vm_walk(dst, mem, in->size, p->ndim, p->shape, in->strides, coord, len, 0); return; }
    const FgVmBox *b = &p->boxes[in->guard];
    FG_BY_ROWS(p, b, coord, len, {
        if (lo < hi) {
            const char *row = mem + (fg_vm_offset(p->ndim, c, in->strides) + in->shift + lo * in->strides[last]) * in->size;
            fg_vm_gather2(dst + (at + lo) * in->size, row, in->size, 1, hi - lo, 0, in->strides[last]);
        }
    })
}

/* A tile of a guarded input where it lies, or, where its memory begins or ends within the tile, what there is of it at dst; NULL if it
 * does not lie in one piece. */
static const char *fg_vm_guarded(const FgVmPlan *p, const FgVmInput *in, const char *mem, const int64_t *coord, int64_t start,
                                 int64_t len, char *dst) {
    int64_t at = fg_vm_offset(p->ndim, coord, in->strides) + in->shift;
    if (in->access == FG_ACC_ROW) len = 1;
    else if (in->access != FG_ACC_FULL && !in->lies && start % in->run + len > in->run) return 0;
    int64_t lo = at < in->first ? in->first - at : 0, hi = at + len > in->end ? in->end - at : len;
    if (lo == 0 && hi == len) return mem + at * in->size;
    if (lo < hi) memcpy(dst + lo * in->size, mem + (at + lo) * in->size, (hi - lo) * in->size);
    return dst;
}

/* 1: all `len` elements lie inside the box, -1: none does, 0: some, or it takes longer to say. */
static int fg_vm_side(const FgVmPlan *p, const FgVmBox *b, const int64_t *coord, int64_t len) {
    int64_t end[FG_MAXDIM + 1], more = len - 1;             /* of the last element */
    int same = 0;                                           /* leading axes along which all elements have one index */
    for (int d = p->ndim - 1; d >= 0; d--) {
        end[d] = coord[d] + more;
        more = end[d] < p->shape[d] ? 0 : end[d] / p->shape[d];
        end[d] -= more * p->shape[d];
    }
    for (; same < p->ndim && coord[same] == end[same]; same++)
        if (coord[same] < b->lo[same] || coord[same] >= b->hi[same]) return -1;
    if (same == p->ndim) return 1;
    if (end[same] < b->lo[same] || coord[same] >= b->hi[same]) return -1;
    for (int d = same + 1; d < p->ndim; d++) if (b->lo[d] > 0 || b->hi[d] < p->shape[d]) return 0;
    return coord[same] >= b->lo[same] && end[same] < b->hi[same];
}

static inline void fg_vm_lanes(char *dst, const char *src, int64_t at, int64_t n, int64_t size) {
    if (n == 1 && size == 4) memcpy(dst + at * 4, src + at * 4, 4);
    else if (n == 1 && size == 8) memcpy(dst + at * 8, src + at * 8, 8);
    else if (n > 0) memcpy(dst + at * size, src + at * size, n * size);
}

/* What stages read of a box: marks of the tile's elements in the workspace, or that it lies on one side. */
static char *fg_vm_mark(const FgVmPlan *p, const FgVmBox *b, char *work, const int64_t *coord, int64_t len) {
    int side = fg_vm_side(p, b, coord, len);
    char *marks = work + b->buf;
    if (side) return side > 0 ? FG_BOX_INSIDE : FG_BOX_OUTSIDE;
    int64_t known = len;                                    /* a box of columns has the same marks in each row */
    int d = p->ndim - 1;
    if (p->shape[d] < len) known = p->shape[d];
    while (--d >= 0) if (b->lo[d] > 0 || b->hi[d] < p->shape[d]) known = len;
    memset(marks, 0, known);
    FG_BY_ROWS(p, b, coord, known, { if (lo < hi) memset(marks + at + lo, -1, hi - lo); })
    for (int64_t n; known < len; known += n) memcpy(marks + known, marks, n = known < len - known ? known : len - known);
    return marks;
}

/* ptr[dst] = ptr[a] inside the op's box, ptr[b] outside. */
static void fg_vm_window(const FgVmPlan *p, const FgVmOp *op, char **ptr, char *work, const int64_t *coord, int64_t len) {
    const FgVmBox *b = &p->boxes[op->box];
    char *from = ptr[op->a], *other = ptr[op->b], *dst = op->buf < 0 ? ptr[op->dst] : work + op->buf;
    int64_t size = fg_itemsize(op->type);
    int side = fg_vm_side(p, b, coord, len);
    if (side && op->buf >= 0) { ptr[op->dst] = side > 0 ? from : other; return; }
    if (side) { memcpy(dst, side > 0 ? from : other, len * size); return; }
    if (op->patch && op->buf >= 0) dst = from;
    else memcpy(dst, from, len * size);
    ptr[op->dst] = dst;
    FG_BY_ROWS(p, b, coord, len, {
        fg_vm_lanes(dst, other, at, lo, size);
        fg_vm_lanes(dst, other, at + hi, n - hi, size);
    })
}

/* The middle of the walk, which lies on one side of each box: [lo, hi) of each axis. */
static void fg_vm_middle(const FgVmPlan *p, int64_t *lo, int64_t *hi) {
    for (int d = 0; d < p->ndim; d++) {
        lo[d] = 0; hi[d] = p->shape[d];
        for (int k = 0; k < p->n_boxes; k++) for (int j = 0; j < 2; j++) {
            int64_t at = j ? p->boxes[k].hi[d] : p->boxes[k].lo[d];
            if (2 * at <= p->shape[d]) { if (at > lo[d]) lo[d] = at; }
            else if (at < hi[d]) hi[d] = at;
        }
    }
}
#endif
