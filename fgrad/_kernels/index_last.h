/* Rows that are set to the last of several updates: which that is comes from the indices alone, so only what stays is read. */
#ifndef FG_INDEX_LAST_H
#define FG_INDEX_LAST_H
#include "index_copies.h"

/* last: for each of `ranges` of the vectors, the last one of each row, or -1, and one place more for what misses. operand: what a row that
 * no update sets is copied from; NULL: it is there. */
typedef struct { const FgIndexPlan *plan; const char *indices, *updates, *operand; char *out; int32_t *last; int64_t ranges; } FgLastJob;

enum { FG_LAST_BYTES = 65536 };              /* fewer updates are written one after the other */

static int fg_is_last(const FgIndexPlan *g) {
    return g->kind == FG_SET && g->nk == 1 && g->kone[0] && g->nb == 1 && g->bb[0] == 0 && g->bi[0] == 1 && g->p == 1 && !g->in_order &&
           g->run * g->item >= 8 && g->run > 1 && g->n > g->top[0] && g->n * g->run * g->item >= FG_LAST_BYTES && g->n < INT32_MAX;
}

#define FG_LAST(I) \
static void fg_last_##I(const I *restrict index, int64_t begin, int64_t end, int64_t top, int drop, int32_t *restrict last) { \
    for (int64_t i = begin; i < end; i++) { \
        int64_t v = index[i], in = v < 0 ? 0 : v > top ? top : v; \
        last[drop & (in != v) ? top + 1 : in] = (int32_t)i; \
    } \
}
FG_LAST(int32_t) FG_LAST(int64_t)

static void fg_last_find(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgLastJob *job = (const FgLastJob *)ctx;
    const FgIndexPlan *g = job->plan;
    (void)tid;
    for (int64_t r = begin; r < end; r++) {
        int32_t *last = job->last + r * (g->top[0] + 2);
        int64_t first = g->n * r / job->ranges, stop = g->n * (r + 1) / job->ranges;
        memset(last, 0xff, (g->top[0] + 2) * sizeof *last);
        if (g->wide) fg_last_int64_t((const int64_t *)job->indices + g->i0, first, stop, g->top[0], g->drop, last);
        else fg_last_int32_t((const int32_t *)job->indices + g->i0, first, stop, g->top[0], g->drop, last);
    }
}

/* Whether rows are dense, in the output and among the updates. */
static int fg_last_is_dense(const FgIndexPlan *g) { return g->run_b == 1 && g->run_s == 1 && g->kb[0] == g->run && g->b0 == 0; }

static inline int32_t fg_last_at(const FgLastJob *job, int64_t row) {
    const int32_t *last = job->last + row;
    int32_t at = *last;
    for (int64_t r = 1; r < job->ranges; r++) {
        last += job->plan->top[0] + 2;
        if (*last > at) at = *last;
    }
    return at;
}

/* Dense rows of N to 2 N bytes, as two copies that may overlap. */
#define FG_LAST_ROWS(N) \
static void fg_last_rows##N(const FgLastJob *job, int64_t begin, int64_t end) { \
    const FgIndexPlan *g = job->plan; \
    const int64_t bytes = g->run * g->item, step = g->bs[0] * g->item, rest = bytes - N; \
    const char *updates = job->updates + g->s0 * g->item, *operand = job->operand ? job->operand : job->out; \
    for (int64_t row = begin; row < end; row++) { \
        const int32_t at = fg_last_at(job, row); \
        const char *from = at < 0 ? operand + row * bytes : updates + at * step; \
        char *to = job->out + row * bytes; \
        fg_piece##N one = *(const fg_piece##N *)from, other = *(const fg_piece##N *)(from + rest); \
        *(fg_piece##N *)to = one; *(fg_piece##N *)(to + rest) = other; \
    } \
}
FG_PIECE(64) FG_LAST_ROWS(8) FG_LAST_ROWS(16) FG_LAST_ROWS(32) FG_LAST_ROWS(64)

/* Rows [begin, end) of the output. */
static void fg_last_set(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgLastJob *job = (const FgLastJob *)ctx;
    const FgIndexPlan *g = job->plan;
    FgScatter op = fg_scatter_for(g)->runs;
    int64_t bo[FG_CHUNK], so[FG_CHUNK];
    const int64_t bytes = g->run * g->item;
    (void)tid;
    if (fg_last_is_dense(g) && bytes <= 128) {
        (bytes >= 64 ? fg_last_rows64 : bytes >= 32 ? fg_last_rows32 : bytes >= 16 ? fg_last_rows16 : fg_last_rows8)(job, begin, end);
        return;
    }
    while (begin < end) {
        int64_t m = 0;
        for (int64_t stop = fg_min64(end, begin + FG_CHUNK); begin < stop; begin++) {
            const int32_t at = fg_last_at(job, begin);
            if (at < 0 && job->operand) memcpy(job->out + begin * bytes, job->operand + begin * bytes, bytes);
            bo[m] = g->b0 + begin * g->kb[0];
            so[m] = g->s0 + at * g->bs[0];
            m += at >= 0;
        }
        op(g, job->out, job->updates, bo, so, m);
    }
}
#endif
