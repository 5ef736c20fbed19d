/* A scatter of many updates into a small output goes to one copy of the output for each of a few ranges of the vectors, which are
 * combined afterwards; how many depends on shapes only.  Rows that are no power of two long, or no multiple of 64 bytes, are
 * longer in the copies: then each row is whole vectors, and a load of what was just stored takes it from the store. */
#ifndef FG_INDEX_COPIES_H
#define FG_INDEX_COPIES_H
#include "index_direct.h"

enum { FG_COPIES = 8, FG_COPY_WORK = 16384, FG_ROWS_WORK = 65536, FG_WIDENED_BYTES = 2048 };

/* width: items of a row in the copies, all of which lie in `space`; 0: as in the output, which is the first of them. */
typedef struct { const FgIndexPlan *plan; const char *indices, *updates; char *out, *space; int64_t size, copies, width; } FgCopiesJob;

/* Items of a widened row, or 0. What is read of updates beyond a row's end is that of the next rows, the last of which are copied. */
static int64_t fg_copies_width(const FgIndexPlan *g, int64_t size) {
    int64_t bytes = g->run * g->item, unit = 64;
    char value[16];
    if (g->run < 2 || g->run_b != 1 || g->run_s != 1 || g->p != 1 || g->in_order || g->nk != 1 || g->nb != 1 || g->bb[0] || g->b0 ||
        g->kb[0] != g->run || size != (g->top[0] + 1) * g->run || g->bs[0] < g->run || bytes > FG_WIDENED_BYTES ||
        g->n < 4 * (g->top[0] + 1) || g->dtype >= FG_C64 || !fg_identity(g->dtype, g->kind, value)) return 0;
    while (bytes <= unit / 2 && unit > (g->dtype == FG_F16 || g->dtype == FG_BF16 ? 16 : 0)) unit /= 2;     /* see FG_HALF_DENSE */
    return bytes % unit ? (bytes + unit - 1) / unit * unit / g->item : 0;
}

/* How many copies of the output a scatter works on, and how wide they are; 0: none. */
static int64_t fg_scatter_copies(const FgIndexPlan *g, FgCopiesJob *job) {
    int64_t work = g->n * g->run, least = fg_any_order(g) ? FG_COPY_WORK / 2 : FG_COPY_WORK;
    int64_t shares = g->run == 1 ? work / least : g->n * (g->run + 10) / FG_ROWS_WORK;      /* of 0.1 ns an item and 1 ns a row */
    int64_t copies = fg_min64(FG_COPIES, fg_min64(shares, work / (4 * job->size)));
    char value[16];
    if (g->run == 1 && copies < 2 && shares >= 2 && work >= 2 * job->size && job->size * g->item <= FG_CACHED_OUTPUT) copies = 2;
    while (copies & (copies - 1)) copies &= copies - 1;           /* threads take as many each */
    if (g->p != 1 || g->in_order || !fg_identity(g->dtype, g->kind, value)) copies = 1;
    job->copies = fg_max64(copies, 1);
    job->width = job->copies > 1 || shares < 2 ? fg_copies_width(g, job->size) : 0;       /* else threads share out the output */
    return job->copies > 1 || job->width;
}
static inline int64_t fg_copies_space(const FgCopiesJob *job) {
    return job->width ? job->copies * (job->size / job->plan->run * job->width) : (job->copies - 1) * job->size;
}

static void fg_copies_run(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgCopiesJob *job = (const FgCopiesJob *)ctx;
    const FgIndexPlan *g = job->plan;
    char value[16];
    (void)tid;
    fg_identity(g->dtype, g->kind, value);
    for (int64_t r = begin; r < end; r++) {
        int64_t first = g->n * r / job->copies, stop = g->n * (r + 1) / job->copies;
        if (!job->width) {
            char *out = r ? job->space + (r - 1) * job->size * g->item : job->out;      /* range 0 goes to the output itself */
            if (r) fg_block_fill(out, value, job->size, g->item);
            fg_scatter_vectors(g, job->indices, job->updates, out, first, stop);
            continue;
        }
        FgIndexPlan wide = *g;
        int64_t bytes = g->run * g->item, rows = job->size / g->run, size = rows * job->width;
        int64_t beyond = (job->width - g->run + g->bs[0] - 1) / g->bs[0];
        int64_t whole = fg_max64(first, fg_min64(stop, g->n - beyond));
        char *out = job->space + r * size * g->item, row[FG_WIDENED_BYTES + 64];
        fg_block_fill(out, value, size, g->item);
        if (!r) fg_copy_rows(out, job->out, rows, bytes, bytes, job->width * g->item);
        wide.run = wide.kb[0] = job->width;
        fg_scatter_vectors(&wide, job->indices, job->updates, out, first, whole);
        wide.s0 = wide.bs[0] = 0;
        memset(row, 0, sizeof row);
        for (int64_t i = whole; i < stop; i++) {
            memcpy(row, job->updates + (g->s0 + i * g->bs[0]) * g->item, bytes);
            fg_scatter_vectors(&wide, job->indices, row, out, i, i + 1);
        }
    }
}

/* Items [begin, end) of the output, or rows of it where these are widened, combined with those of the copies. */
static void fg_copies_combine(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgCopiesJob *job = (const FgCopiesJob *)ctx;
    FgIndexPlan all = *job->plan;
    FgScatter op = fg_scatter_for(&all)->runs;
    int64_t zero = 0, bytes = all.run * all.item, each = job->width ? job->width : 1, size = job->width ? job->size / all.run * each : job->size;
    char *out = (job->width ? job->space : job->out) + begin * each * all.item, *others = job->width ? job->space + size * all.item : job->space;
    (void)tid;
    all.run = (end - begin) * each; all.run_b = all.run_s = 1;
    for (int64_t r = 1; r < job->copies; r++)
        op(&all, out, others + ((r - 1) * size + begin * each) * all.item, &zero, &zero, 1);
    if (job->width) fg_copy_rows(job->out + begin * bytes, out, end - begin, bytes, each * all.item, bytes);
}
#endif
