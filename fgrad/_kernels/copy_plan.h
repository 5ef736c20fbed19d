/* What a strided copy walks, see movement.h. */
#ifndef FG_COPY_PLAN_H
#define FG_COPY_PLAN_H
#include "fg.h"

typedef struct {
    int32_t nd, item, kind;
    int64_t shape[FG_MAXDIM + 2], ss[FG_MAXDIM + 2], ds[FG_MAXDIM + 2];   /* strides in bytes */
    int64_t soff, doff;                                                   /* bytes from the data pointers to the first item */
    int64_t ra, ca, na, nb;                                               /* block height and width, blocks per plane */
    int64_t units, grain;
} FgCopyPlan;
#endif
