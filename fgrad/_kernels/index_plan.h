/* What a gather or a scatter walks, see index.h. */
#ifndef FG_INDEX_PLAN_H
#define FG_INDEX_PLAN_H
#include "copy_plan.h"

#define FG_MISS INT64_MIN                   /* the offset of a vector that is out of bounds */
enum { FG_CHUNK = 512 };
enum { FG_SET, FG_ADD, FG_MUL, FG_MIN, FG_MAX };
enum { FG_SPLIT_NONE, FG_SPLIT_WINDOW, FG_SPLIT_BATCH, FG_SPLIT_RUN, FG_SPLIT_INDEX };

typedef struct {
    int32_t nb, nw, nk, item, wide, drop;                 /* axes and index components; wide: int64 indices */
    int32_t kind, dtype, by_plan, in_order;               /* in_order: windows of different vectors may overlap */
    int32_t windows;                                      /* scatter: whole windows are copied, one after the other */
    int64_t n, p, chunk;                                  /* vectors, outer window positions, vectors a chunk */
    int64_t i0, b0, s0;
    int64_t shape[FG_MAXDIM], bi[FG_MAXDIM], bb[FG_MAXDIM], bs[FG_MAXDIM];
    int64_t wshape[FG_MAXDIM], wb[FG_MAXDIM], ws[FG_MAXDIM];
    int32_t free[FG_MAXDIM], run_free;                    /* window axes that no index moves: threads may share them out */
    int64_t run, run_b, run_s;
    int64_t ki, kb[FG_MAXDIM], top[FG_MAXDIM], kone[FG_MAXDIM];   /* index components; kone: the window is 1 wide there */
    int64_t wrap;                                         /* what a gather's negative indices of one component are moved by */
    int64_t lo, hi, only;                                 /* component `only` must lie in [lo, hi); -1: no such bound */
    FgCopyPlan copy, fill;                                /* gather by_plan: one window; scatter: operand to output, one window */
    char value[16];                                       /* what out-of-bounds windows are filled with */
} FgIndexPlan;

#endif
