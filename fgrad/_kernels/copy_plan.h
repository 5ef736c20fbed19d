/* What a strided copy walks, see movement.h. */
#ifndef FG_COPY_PLAN_H
#define FG_COPY_PLAN_H
#include "fg.h"

enum { FG_COPY_ROWS, FG_COPY_FILL, FG_COPY_REVERSED, FG_COPY_STRIDED, FG_COPY_TILED, FG_COPY_SPREAD };

typedef struct {
    int32_t nd, item, kind;
    int64_t shape[FG_MAXDIM + 4], ss[FG_MAXDIM + 4], ds[FG_MAXDIM + 4];   /* strides in bytes */
    int64_t soff, doff;                                                   /* bytes from the data pointers to the first item */
    int64_t ra, ca, na, nb;                                               /* block height and width, blocks per plane */
    int64_t units, grain;
} FgCopyPlan;

typedef struct { const FgCopyPlan *plan; const char *src; char *dst; } FgCopyJob;
#endif
