/* Sums of an array's margins into what they surround: the transpose of padding by an array's own elements.
 *
 * Axes are (outer ..., row, inner): rows lie along the last axis that has margins, of items of `inner` elements that lie side by side.
 * A row of the result is the sum of the rows that come to lie on it: between their own margins they are added as they are, and each item
 * of a margin where it belongs. Every element is added in one order, however the work is cut. */
#ifndef FG_FOLD_H
#define FG_FOLD_H
#include "fg.h"

enum { FG_FOLD_BYTES = 32768 };

typedef struct {
    int64_t n, lo, hi, step;      /* of the result; its margins; elements of the source from one index to the next */
    int64_t begin;                /* where its lists are in `lists`, of an axis with margins: see fg_fold_lists */
} FgFoldAxis;

typedef struct {
    int32_t outer, dtype;         /* axes in front of the rows; F32, F64, I32 or I64: complex items are two */
    int64_t rows, n, inner, chunk, chunks;      /* a row of n items is cut into chunks */
    int64_t lo, hi;               /* of rows */
    FgFoldAxis axes[FG_MAXDIM];
    int64_t lists[];              /* the rows' margins, then those of the axes */
} FgFoldPlan;

typedef struct {
    const FgFoldPlan *plan;
    const char *src;
    char *dst;
} FgFoldJob;

/* Integers that the lists of an axis take: n + 1 places in the next list, and the indices of the source that fall on each of n. */
static inline int64_t fg_fold_list_size(int64_t n, int64_t lo, int64_t hi) { return n + 1 + lo + n + hi; }

static void fg_fold_lists(int64_t *list, int64_t n, int64_t lo, int64_t hi, const int64_t *rows) {
    int64_t *first = list, *from = list + n + 1, at = 0;
    for (int64_t i = 0; i <= n; i++) first[i] = 1;
    for (int64_t k = 0; k < lo + hi; k++) first[rows[k]]++;
    for (int64_t i = 0; i < n; i++) { int64_t count = first[i]; first[i] = at; at += count; }
    first[n] = at;
    for (int64_t i = 0; i < n; i++) from[first[i]++] = lo + i;
    for (int64_t k = 0; k < lo + hi; k++) from[first[rows[k]]++] = k < lo ? k : n + k;
    for (int64_t i = n; i > 0; i--) first[i] = first[i - 1];
    first[0] = 0;
}

#define FG_FOLD(T, name) \
static void name(const FgFoldPlan *p, const T *restrict src, T *restrict dst, int64_t b, int64_t e, int first) { \
    int64_t m = p->inner, lo = p->lo, count = lo + p->hi, span = (e - b) * m; \
    const T *s = src + (lo + b) * m; \
    T *d = dst + b * m; \
    if (first) memcpy(d, s, span * sizeof(T)); \
    else for (int64_t j = 0; j < span; j++) d[j] += s[j]; \
    for (int64_t k = 0; k < count; k++) { \
        int64_t to = p->lists[k]; \
        if (to < b || to >= e) continue; \
        s = src + (k < lo ? k : p->n + k) * m; d = dst + to * m; \
        for (int64_t j = 0; j < m; j++) d[j] += s[j]; \
    } \
}
FG_FOLD(float, fg_fold_f32)
FG_FOLD(double, fg_fold_f64)
FG_FOLD(int32_t, fg_fold_i32)
FG_FOLD(int64_t, fg_fold_i64)
#undef FG_FOLD

static void fg_fold_row(const FgFoldPlan *p, const char *src, char *dst, int64_t at, int64_t b, int64_t e, int first) {
    switch (p->dtype) {
        case FG_F32: fg_fold_f32(p, (const float *)src + at, (float *)dst, b, e, first); break;
        case FG_F64: fg_fold_f64(p, (const double *)src + at, (double *)dst, b, e, first); break;
        case FG_I32: fg_fold_i32(p, (const int32_t *)src + at, (int32_t *)dst, b, e, first); break;
        default: fg_fold_i64(p, (const int64_t *)src + at, (int64_t *)dst, b, e, first); break;
    }
}

static void fg_fold_units(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgFoldJob *job = (const FgFoldJob *)ctx;
    const FgFoldPlan *p = job->plan;
    int64_t size = p->n * p->inner * fg_itemsize(p->dtype);
    (void)tid;
    for (int64_t u = begin; u < end; u++) {
        int64_t row = u / p->chunks, b = u % p->chunks * p->chunk, e = b + p->chunk < p->n ? b + p->chunk : p->n, rest = row, at = 0;
        const int64_t *from[FG_MAXDIM];
        int64_t count[FG_MAXDIM], k[FG_MAXDIM], step[FG_MAXDIM];
        int several = 0, first = 1;                /* axes of which several indices fall on this row's */
        for (int d = p->outer - 1; d >= 0; d--) {
            const FgFoldAxis *a = &p->axes[d];
            int64_t i = rest % a->n;
            rest /= a->n;
            if (a->begin < 0) { at += i * a->step; continue; }
            const int64_t *list = p->lists + a->begin;
            from[several] = list + a->n + 1 + list[i];
            count[several] = list[i + 1] - list[i];
            step[several] = a->step;
            if (count[several] == 1) at += from[several][0] * a->step;
            else { k[several] = 0; several++; }
        }
        for (;;) {
            int64_t here = at;
            int d = 0;
            for (int c = 0; c < several; c++) here += from[c][k[c]] * step[c];
            fg_fold_row(p, job->src, job->dst + row * size, here, b, e, first);
            first = 0;
            for (; d < several; d++) { if (++k[d] < count[d]) break; k[d] = 0; }
            if (d == several) break;
        }
    }
}

/* A plan for a result of `shape`, none of it 0; ip: of each axis the widths of its margins, and where each of their elements belongs. */
static FgFoldPlan *fg_fold_plan(int nd, const int64_t *shape, int dtype, const int64_t *ip) {
    FgFoldAxis axes[FG_MAXDIM + 1];
    const int64_t *rows[FG_MAXDIM + 1], *row_lists;
    int n = 0, parts = dtype == FG_C64 || dtype == FG_C128 ? 2 : 1;
    int64_t size = 0, inner = parts, step;
    for (int d = 0; d < nd; d++) {
        int64_t lo = ip[0], hi = ip[1];
        int plain = !lo && !hi;
        if (plain && n && !axes[n - 1].lo && !axes[n - 1].hi) axes[n - 1].n *= shape[d];
        else { axes[n].n = shape[d]; axes[n].lo = lo; axes[n].hi = hi; rows[n] = ip + 2; n++; }
        ip += 2 + lo + hi;
    }
    if (n && !axes[n - 1].lo && !axes[n - 1].hi) inner *= axes[--n].n;
    if (!n) { axes[0].n = 1; axes[0].lo = axes[0].hi = 0; rows[0] = ip; n = 1; }
    step = inner;
    for (int d = n - 1; d >= 0; d--) { axes[d].step = step; step *= axes[d].n + axes[d].lo + axes[d].hi; }
    row_lists = rows[--n];
    size = axes[n].lo + axes[n].hi;
    for (int d = 0; d < n; d++) {
        int plain = !axes[d].lo && !axes[d].hi;
        axes[d].begin = plain ? -1 : size;
        if (!plain) size += fg_fold_list_size(axes[d].n, axes[d].lo, axes[d].hi);
    }
    FgFoldPlan *p = (FgFoldPlan *)malloc(sizeof *p + size * sizeof(int64_t));
    if (!p) return NULL;
    p->outer = n;
    p->dtype = dtype == FG_C64 ? FG_F32 : dtype == FG_C128 ? FG_F64 : dtype == FG_U32 ? FG_I32 : dtype == FG_U64 ? FG_I64 : dtype;
    p->n = axes[n].n; p->lo = axes[n].lo; p->hi = axes[n].hi; p->inner = inner; p->rows = 1;
    memcpy(p->lists, row_lists, (p->lo + p->hi) * sizeof(int64_t));
    for (int d = 0; d < n; d++) {
        p->axes[d] = axes[d];
        p->rows *= axes[d].n;
        if (axes[d].begin >= 0) fg_fold_lists(p->lists + axes[d].begin, axes[d].n, axes[d].lo, axes[d].hi, rows[d]);
    }
    p->chunk = FG_FOLD_BYTES / (inner * fg_itemsize(p->dtype));
    if (p->chunk < 16 + 4 * (p->lo + p->hi)) p->chunk = 16 + 4 * (p->lo + p->hi);      /* each chunk looks at all of the margins */
    if (p->chunk > p->n) p->chunk = p->n;
    p->chunks = (p->n + p->chunk - 1) / p->chunk;
    return p;
}
#endif
