/* Arrays side by side as the columns of one: rows of as many items as there are arrays. */
#ifndef FG_INTERLEAVE_H
#define FG_INTERLEAVE_H
#include "movement.h"

enum { FG_COLUMNS_MOST = 16, FG_COLUMNS_BLOCK = 128 };

typedef struct { const char *src[FG_COLUMNS_MOST]; char *dst; int32_t n, item; } FgColumnsJob;

/* The number of rows if each of n plans copies a contiguous array to a column of its own of an array of n columns; else 0. */
static int64_t fg_columns_of(const FgCopyPlan *plans, int n) {
    int64_t rows = plans->shape[1];
    if (n < 2 || n > FG_COLUMNS_MOST || plans->item > 8) return 0;
    for (int k = 0; k < n; k++) {
        const FgCopyPlan *p = &plans[k];
        if (p->units == 0 || p->nd != 2 || p->shape[0] != 1 || p->shape[1] != rows || p->soff || p->doff != k * p->item) return 0;
        if (p->ss[1] != p->item || p->ds[1] != (int64_t)n * p->item) return 0;
    }
    return rows;
}

/* Rows [begin, end): a block of each column comes to the first cache, where they are turned. */
static void fg_interleave(void *ctx, int64_t begin, int64_t end, int tid) {
    const FgColumnsJob *job = (const FgColumnsJob *)ctx;
    const int64_t item = job->item, n = job->n;
    char block[FG_COLUMNS_MOST * FG_COLUMNS_BLOCK * 8] __attribute__((aligned(64)));
    (void)tid;
    for (int64_t r = begin; r < end; r += FG_COLUMNS_BLOCK) {
        int64_t m = fg_min64(FG_COLUMNS_BLOCK, end - r);
        char *dst = job->dst + r * n * item;
        for (int64_t k = 0; k < n; k++) memcpy(block + k * FG_COLUMNS_BLOCK * item, job->src[k] + r * item, m * item);
        switch (item) {
            case 1: fg_rows_1(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            case 2: fg_rows_2(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            case 4: fg_rows_4(dst, block, FG_COLUMNS_BLOCK, m, n); break;
            default: fg_rows_8(dst, block, FG_COLUMNS_BLOCK, m, n); break;
        }
    }
}
#endif
