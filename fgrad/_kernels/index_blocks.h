/* Scatter block by block.  The output is cut along its outermost axis into blocks that fit a core's cache; the index vectors
 * are put in the order of the blocks they fall into, by a stable counting sort; then each block is copied from the operand
 * and updated by one thread while it is in cache.  Every item meets its updates in the order of the indices, as elsewhere. */
#ifndef FG_INDEX_BLOCKS_H
#define FG_INDEX_BLOCKS_H
#include "index.h"

enum { FG_BLOCK_BYTES = 131072, FG_BLOCKS_MAX = 1024, FG_BLOCK_RANGES = 64 };
enum { FG_BLOCK_KEEP, FG_BLOCK_COPY, FG_BLOCK_FILL };     /* the operand: in place, contiguous, or one item for all */

typedef struct {
    const FgIndexPlan *plan; const char *indices, *updates, *operand; char *out;
    int64_t size, block, blocks, ranges;                  /* items of the output and of a block; ranges the vectors are cut into */
    int64_t *at;                                          /* (ranges, blocks): where the vectors of a range go */
    int64_t *end;                                         /* (blocks): where the vectors of a block end */
    int64_t *share;                                       /* (ranges + 1): the blocks of a thread */
    int64_t *bo, *so;                                     /* offsets of the vectors in the order of blocks */
    int32_t first;                                        /* FG_BLOCK_* */
} FgBlockJob;

/* Lay out blocks of whole rows of the outermost axis; 0 where no index component walks that axis alone, the output is small, or
 * windows are: to sort the vectors would cost more than it saves. */
static int fg_block_layout(FgBlockJob *job, int64_t threads) {
    const FgIndexPlan *g = job->plan;
    if (g->run * g->p * g->item < 64 || g->in_order || g->n < 1024 || job->size > ((int64_t)1 << 48)) return 0;
    for (int c = 0; c < g->nk; c++) {
        int64_t rows = g->top[c] + 1, width = g->kb[c], some;
        if (!g->kone[c] || rows * width != job->size || rows < 2) continue;
        some = fg_max64(1, FG_BLOCK_BYTES / (width * g->item));
        some = fg_max64(some, (rows + FG_BLOCKS_MAX - 1) / FG_BLOCKS_MAX);
        job->block = some * width;
        job->blocks = (rows + some - 1) / some;
        job->ranges = fg_min64(threads, FG_BLOCK_RANGES);
        return job->blocks >= 8 * job->ranges;
    }
    return 0;
}

/* Walk the vectors of a range: count those of each block, or with `place` write their offsets where their block lies. */
static inline void fg_block_walk(const FgBlockJob *job, int64_t range, int place) {
    const FgIndexPlan *g = job->plan;
    int64_t bo[FG_CHUNK], so[FG_CHUNK], *at = job->at + range * job->blocks;
    int64_t stop = g->n * (range + 1) / job->ranges;
    double scale = 1.0 / (double)job->block;              /* offset + 1/2 is further from a multiple than the product errs */
    for (int64_t first = g->n * range / job->ranges; first < stop; first += FG_CHUNK) {
        int64_t n = fg_index_offsets(g, job->indices, first, fg_min64(FG_CHUNK, stop - first), 1, bo, so);
        for (int64_t i = 0; i < n; i++) {
            int64_t b = (int64_t)(((double)bo[i] + 0.5) * scale), k = at[b]++;
            if (place) { job->bo[k] = bo[i]; job->so[k] = so[i]; }
        }
    }
}

static void fg_block_count(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    for (int64_t r = begin; r < end; r++) fg_block_walk((const FgBlockJob *)ctx, r, 0);
}

static void fg_block_place(void *ctx, int64_t begin, int64_t end, int tid) {
    (void)tid;
    for (int64_t r = begin; r < end; r++) fg_block_walk((const FgBlockJob *)ctx, r, 1);
}

/* From counts to places, and shares of equal cost; 0 where one block has more than its share, so that threads would wait for it. */
static int fg_block_shares(const FgBlockJob *job) {
    const FgIndexPlan *g = job->plan;
    int64_t sum = 0, most = 0, cost = 0, share = 0;
    int64_t copied = job->first == FG_BLOCK_KEEP ? 0 : job->block * g->item, each = g->run * g->p * g->item + 32, total;
    for (int64_t b = 0; b < job->blocks; b++) {
        int64_t before = sum;
        for (int64_t r = 0; r < job->ranges; r++) {
            int64_t *at = job->at + r * job->blocks + b, n = *at;
            *at = sum; sum += n;
        }
        job->end[b] = sum;
        most = fg_max64(most, copied + (sum - before) * each);
    }
    total = copied * job->blocks + sum * each;
    if (job->ranges > 1 && most * job->ranges > total) return 0;
    for (int64_t b = 0; b < job->blocks; b++) {
        while (share <= job->ranges && cost * job->ranges >= total * share) job->share[share++] = b;
        cost = copied * (b + 1) + job->end[b] * each;
    }
    while (share <= job->ranges) job->share[share++] = job->blocks;
    return 1;
}

static inline void fg_block_fill(char *out, const char *value, int64_t n, int item) {
    switch (item) {
        case 1: memset(out, *value, n); break;
        case 2: fg_fill_fg_item2(out, value, n); break;
        case 4: fg_fill_fg_item4(out, value, n); break;
        case 8: fg_fill_fg_item8(out, value, n); break;
        default: fg_fill_fg_item16(out, value, n); break;
    }
}

static void fg_block_run(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgBlockJob *job = (const FgBlockJob *)ctx;
    const FgIndexPlan *g = job->plan;
    FgScatter op = fg_scatter_for(g)->runs;
    int64_t wb, ws;
    (void)tid;
    for (int64_t b = job->share[begin]; b < job->share[end]; b++) {
        int64_t from = b * job->block, n = fg_min64(job->block, job->size - from);
        if (job->first == FG_BLOCK_COPY) fg_copy_bytes(job->out + from * g->item, job->operand + from * g->item, n * g->item);
        else if (job->first == FG_BLOCK_FILL) fg_block_fill(job->out + from * g->item, job->operand, n, g->item);
        for (int64_t i = b ? job->end[b - 1] : 0; i < job->end[b]; i += g->chunk) {
            for (int64_t p = 0; p < g->p; p++) {
                fg_window_offset(g, p, &wb, &ws);
                op(g, job->out + wb * g->item, job->updates + ws * g->item, job->bo + i, job->so + i,
                        fg_min64(g->chunk, job->end[b] - i));
            }
        }
    }
}
#endif
